"""The functions of `onnx` itself, unchanged, on our message classes instead of its own: the results are the same.

A swap puts our classes into the modules of `onnx` while a test runs. Each case is a function of `onnx` that is called
once without and once with the swap.

Functions in native code receive the bytes of a message and return bytes. All of them accept ours.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import google.protobuf.message
import numpy as np
import onnx
import onnx.compose
import onnx.external_data_helper
import onnx.inliner
import onnx.parser
import onnx.printer
import onnx.shape_inference
import onnx.utils
import onnx.version_converter
import pytest
from onnx import TensorProto, checker, external_data_helper, helper, numpy_helper, parser

from formats.onnx_compat.protos import classes
from formats.onnx_compat.protos.message import ProtoMessage
from tests.corpus import backend_cases

MODULES = (
    onnx,
    onnx.helper,
    onnx.numpy_helper,
    onnx.checker,
    onnx.compose,
    onnx.external_data_helper,
    onnx.inliner,
    onnx.parser,
    onnx.printer,
    onnx.serialization,
    onnx.shape_inference,
    onnx.utils,
    onnx.version_converter,
)
NAMES = [name for name, cls in classes.CLASSES.items() if not cls.DESCRIPTOR.containing_type]


@contextmanager
def swapped() -> Iterator[None]:
    """Put our classes in the place of those of `onnx`."""
    with pytest.MonkeyPatch.context() as patch:
        for module in MODULES:
            for name in NAMES:
                if hasattr(module, name):
                    patch.setattr(module, name, getattr(classes, name))
        patch.setattr(google.protobuf.message, "Message", (google.protobuf.message.Message, ProtoMessage))
        yield


def plain(value: Any) -> Any:
    """Return a value with messages as their bytes and arrays as theirs."""
    if hasattr(value, "SerializeToString"):
        return value.SerializeToString()
    if isinstance(value, np.ndarray):
        return str(value.dtype), value.shape, value.tolist() if value.dtype == object else value.tobytes()
    if isinstance(value, (str, bytes, int, float, type(None))):
        return value
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value]


def outcome(call: Callable[[], Any]) -> Any:
    """Return the result of a call, or the class of its exception."""
    try:
        return plain(call())
    except (TypeError, ValueError, AttributeError, AssertionError, LookupError) as error:
        return type(error)


def check(call: Callable[[], Any]) -> None:
    """Assert that a call gives the same with both classes, and really used ours."""
    expected = outcome(call)
    with swapped():
        assert helper.TensorProto is classes.TensorProto
        assert expected == outcome(call)


def value_info(name: str) -> Any:
    """Return a float vector."""
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 3, None])


def graph(name: str = "g", prefix: str = "") -> Any:
    """Return a graph of two nodes with a constant."""
    x, y, z, w = (prefix + letter for letter in "xyzw")
    nodes = [
        helper.make_node("Add", [x, w], [y], name=f"{name}/add", doc_string="adds"),
        helper.make_node("Gemm", [y, w], [z], name=f"{name}/gemm", alpha=0.5, transA=1),
    ]
    constants = [numpy_helper.from_array(np.ones((3, 3), np.float32), w)]
    return helper.make_graph(
        nodes, name, [value_info(x)], [value_info(z)], constants, doc_string="a graph", value_info=[value_info(y)]
    )


def model(prefix: str = "") -> Any:
    """Return a model of that graph."""
    imports = [helper.make_opsetid("", 17), helper.make_operatorsetid("test", 1)]
    return helper.make_model(graph(prefix=prefix), opset_imports=imports, ir_version=8, producer_name="tests")


def sparse() -> Any:
    """Return a sparse tensor."""
    values = helper.make_tensor("v", TensorProto.FLOAT, [2], [1, 2])
    return helper.make_sparse_tensor(values, helper.make_tensor("i", TensorProto.INT64, [2], [3, 5]), [10])


FLOATS = [0.0, 1.0, -0.5, 2.0, 0.25, -1.5]
BITS = np.arange(6, dtype=np.uint8)


def values(data_type: int) -> Any:
    """Return elements for a tensor of shape 2 x 3."""
    dtype = helper.tensor_dtype_to_np_dtype(data_type)
    if data_type == TensorProto.STRING:
        return np.array(["a", "b", "ü", "", "e", "f"], dtype=object).reshape(2, 3)
    if dtype.kind == "c":
        return np.array([complex(x, -x) for x in FLOATS], dtype).reshape(2, 3)
    return (np.array(FLOATS) if dtype.kind == "f" else BITS % 2).astype(dtype).reshape(2, 3)


TYPES: dict[str, Callable[[], Any]] = {
    "tensor": lambda: helper.make_tensor_type_proto(1, [1, "n", None], ["a", None, "c"]),
    "scalar": lambda: helper.make_tensor_type_proto(1, []),
    "unknown": lambda: helper.make_tensor_type_proto(1, None),
    "sparse": lambda: helper.make_sparse_tensor_type_proto(1, [3, "n"], None),
    "sequence": lambda: helper.make_sequence_type_proto(TYPES["tensor"]()),
    "optional": lambda: helper.make_optional_type_proto(TYPES["sequence"]()),
    "map": lambda: helper.make_map_type_proto(TensorProto.STRING, TYPES["tensor"]()),
    "wrong": lambda: helper.make_tensor_type_proto(1, [1.5]),
}


def function() -> Any:
    """Return a function with both kinds of attributes."""
    reference = helper.make_node("Op", ["x"], ["y"])
    reference.attribute.append(helper.make_attribute_ref("a", onnx.AttributeProto.FLOAT))
    return helper.make_function(
        "test",
        "F",
        ["x"],
        ["y"],
        [reference],
        [helper.make_opsetid("", 17)],
        attributes=["a"],
        attribute_protos=[helper.make_attribute("b", 1)],
        doc_string="documented",
        overload="o",
        value_info=[value_info("y")],
    )


def test_tools_in_native_code() -> None:
    """Checker, shape inference, parser, printer, inliner, converter and extractor accept and return our messages."""
    check(lambda: checker.check_model(model()))
    check(lambda: checker.check_tensor(numpy_helper.from_array(np.ones(3), "t")))
    check(lambda: onnx.shape_inference.infer_shapes(model()))
    check(
        lambda: parser.parse_model(
            '<ir_version: 8, opset_import: ["": 17]> g (float[N] x) => (float[N] y) { y = Neg(x) }'
        )
    )
    check(lambda: onnx.printer.to_text(model()))
    check(lambda: onnx.inliner.inline_local_functions(model()))
    check(lambda: onnx.version_converter.convert_version(model(), 18))
    check(lambda: onnx.utils.Extractor(model()).extract_model(["x"], ["y"]))


def test_files(tmp_path: Path) -> None:
    """`onnx.save` and `onnx.load` write and read our messages in every format, including external data."""
    expected = model().SerializeToString()
    with swapped():
        for name in ("m.onnx", "m.textproto", "m.json"):
            onnx.save(model(), tmp_path / name)
            assert expected == onnx.load(tmp_path / name).SerializeToString()
        message = model()
        external_data_helper.convert_model_to_external_data(message, location="weights", size_threshold=0)
        onnx.save(message, tmp_path / "external.onnx")
        found = onnx.load(tmp_path / "external.onnx")
        assert isinstance(found, classes.ModelProto)
        assert plain(np.ones((3, 3), np.float32)) == plain(numpy_helper.to_array(found.graph.initializer[0]))
        external_data_helper.convert_model_from_external_data(found)
    assert 36 == os.stat(tmp_path / "weights").st_size
    assert onnx.load(tmp_path / "external.onnx").SerializeToString() == found.SerializeToString()


@pytest.mark.outer
def test_attributes_and_tensors_of_real_models() -> None:
    """In every model of the test suite of `onnx`, tensors and attributes have the same values in both classes."""
    for case in backend_cases():
        theirs, mine = onnx.ModelProto.FromString(case.model), classes.ModelProto.FromString(case.model)
        for their, own in zip(theirs.graph.initializer, mine.graph.initializer, strict=True):
            assert plain(numpy_helper.to_array(their)) == plain(numpy_helper.to_array(own)), case.id
        for their, own in zip(theirs.graph.node, mine.graph.node, strict=True):
            expected = [plain(helper.get_attribute_value(attribute)) for attribute in their.attribute]
            assert expected == [plain(helper.get_attribute_value(attribute)) for attribute in own.attribute], case.id


@pytest.mark.outer
def test_serialisation_of_onnx_ir() -> None:
    """onnx-ir reads our messages like those of `onnx`, and writes the same messages to both kinds."""
    from onnx_ir.serde import deserialize_model, serialize_model

    different = []
    for case in backend_cases():
        expected = serialize_model(deserialize_model(onnx.ModelProto.FromString(case.model)))
        with swapped():
            made = serialize_model(deserialize_model(onnx.ModelProto.FromString(case.model)))
            assert isinstance(made, classes.ModelProto)
        if expected.SerializeToString() != made.SerializeToString():
            different.append(case.id)
    assert [] == different
