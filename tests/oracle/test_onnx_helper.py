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
import ml_dtypes
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
from onnx import TensorProto, checker, compose, external_data_helper, helper, numpy_helper, parser

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


ATTRIBUTES: dict[str, Callable[[], Any]] = {
    "float": lambda: 1.5,
    "int": lambda: 7,
    "text": lambda: "text",
    "bytes": lambda: b"\xff\x00",
    "boolean": lambda: True,
    "numpy_int": lambda: np.int64(-3),
    "numpy_float": lambda: np.float32(0.1),
    "tensor": lambda: helper.make_tensor("t", TensorProto.FLOAT, [1], [1.0]),
    "sparse_tensor": sparse,
    "graph": graph,
    "type": lambda: helper.make_tensor_type_proto(1, [2, "n"]),
    "floats": lambda: [1.0, 2, 3.5],
    "ints": lambda: [1, 2, 3],
    "texts": lambda: ["a", "b"],
    "bytes_list": lambda: [b"a", b"\xff"],
    "tensors": lambda: [helper.make_tensor("t", TensorProto.FLOAT, [1], [1.0])] * 2,
    "sparse_tensors": lambda: [sparse()],
    "graphs": lambda: [graph("a"), graph("b")],
    "types": lambda: [helper.make_tensor_type_proto(1, [])],
    "array": lambda: np.arange(3),
    "tuple": lambda: (1, 2),
    "mixed": lambda: [1, "a"],
    "none": lambda: None,
    "dict": dict,
}


@pytest.mark.parametrize("kind", ATTRIBUTES)
def test_attributes(kind: str) -> None:
    """`make_attribute` finds the type of any value, and `get_attribute_value` returns the value."""
    check(lambda: helper.make_attribute("a", ATTRIBUTES[kind](), doc_string="documented"))
    check(lambda: helper.get_attribute_value(helper.make_attribute("a", ATTRIBUTES[kind]())))
    check(lambda: helper.get_node_attr_value(helper.make_node("Op", [], [], a=ATTRIBUTES[kind]()), "a"))
    check(lambda: helper.printable_attribute(helper.make_attribute("a", ATTRIBUTES[kind]()), subgraphs=True))


@pytest.mark.parametrize("type_name", sorted(onnx.AttributeProto.AttributeType.keys()))
def test_attributes_of_a_given_type(type_name: str) -> None:
    """Empty lists, and references to attributes of a function, have the given type."""
    number = onnx.AttributeProto.AttributeType.Value(type_name)
    check(lambda: helper.make_attribute("a", [], attr_type=number))
    check(lambda: helper.make_attribute_ref("a", number, "documented"))
    check(lambda: helper._attr_type_to_str(number))


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


@pytest.mark.parametrize("data_type", sorted(TensorProto.DataType.values())[1:])
def test_tensors(data_type: int) -> None:
    """Tensors of every type, typed and raw, are the same, and so are the arrays made from them."""
    check(lambda: helper.make_tensor("t", data_type, [2, 3], values(data_type).ravel().tolist()))
    check(lambda: helper.make_tensor("t", data_type, [2, 3], values(data_type)))
    check(
        lambda: helper.make_tensor(
            "t", data_type, [2, 3], numpy_helper.from_array(values(data_type)).raw_data, raw=True
        )
    )
    check(lambda: numpy_helper.from_array(values(data_type), "t"))
    check(lambda: numpy_helper.to_array(numpy_helper.from_array(values(data_type))))
    check(lambda: numpy_helper.to_array(helper.make_tensor("t", data_type, [2, 3], values(data_type).ravel().tolist())))
    check(lambda: helper.printable_tensor_proto(numpy_helper.from_array(values(data_type), "t")))
    for convert in (
        helper.tensor_dtype_to_np_dtype,
        helper.tensor_dtype_to_storage_tensor_dtype,
        helper.tensor_dtype_to_string,
        helper.tensor_dtype_to_field,
    ):
        assert str(convert(data_type))
    check(lambda: helper.make_tensor("t", data_type, [2, 3], [1]))


def test_arrays_of_every_kind() -> None:
    """Scalars and empty, big-endian, strided and string arrays become the same tensors."""
    for array in (
        np.array(3.0),
        np.zeros((0, 2), np.int8),
        np.arange(6, dtype=">i4"),
        np.arange(10)[::3],
        np.array(["x", "y"]),
        np.array([b"x", b"\xff"], object),
        np.ones(3, ml_dtypes.bfloat16),
        np.float32(1.5),
    ):
        check(lambda array=array: numpy_helper.from_array(array, "t"))
        check(lambda array=array: numpy_helper.to_array(numpy_helper.from_array(array)))


PYTHON_VALUES: dict[str, Any] = {
    "tensor": np.ones(3, np.float32),
    "list": [np.ones(2), np.zeros((2, 0))],
    "lists": [[np.ones(2)], []],
    "dict": {1: np.ones(2), -2: np.zeros(2)},
    "texts": {"a": np.ones(2), "b": np.zeros(2)},
    "dicts": [{1: np.ones(2)}, {2: np.ones(1)}],
    "empty": [],
    "none": None,
    "mixed": [np.ones(2), {}],
    "floats": {1.5: np.ones(2)},
    "nothing": {},
}


@pytest.mark.parametrize("kind", PYTHON_VALUES)
def test_sequences_maps_and_optionals(kind: str) -> None:
    """Lists, dictionaries and optional values become the same messages, and are the same when converted back."""
    for make, back in (
        (numpy_helper.from_list, numpy_helper.to_list),
        (numpy_helper.from_dict, numpy_helper.to_dict),
        (numpy_helper.from_optional, numpy_helper.to_optional),
    ):
        check(lambda make=make: make(PYTHON_VALUES[kind], "v"))
        check(lambda make=make, back=back: back(make(PYTHON_VALUES[kind])))


def test_sequences_maps_and_optionals_of_messages() -> None:
    """Sequences, maps and optionals are made from messages, with every type of element."""

    def parts() -> tuple[Any, ...]:
        tensor = numpy_helper.from_array(np.ones(2), "t")
        sequence = helper.make_sequence("s", onnx.SequenceProto.TENSOR, [tensor, tensor])
        pairs = helper.make_map("m", TensorProto.INT64, [1, 2], sequence)
        named = helper.make_map("n", TensorProto.STRING, [b"a", b"b"], sequence)
        return tensor, sparse(), sequence, pairs, named, helper.make_optional("o", onnx.OptionalProto.TENSOR, tensor)

    check(lambda: list(parts()))
    for number, place in (("TENSOR", 0), ("SPARSE_TENSOR", 1), ("SEQUENCE", 2), ("MAP", 3), ("OPTIONAL", 5)):
        for enum, make in (("SequenceProto", helper.make_sequence), ("OptionalProto", helper.make_optional)):

            def call(number: str = number, place: int = place, enum: str = enum, make: Any = make) -> Any:
                part = parts()[place]
                kind = getattr(onnx, enum).DataType.Value(number)
                return make("v", kind, [part] if enum == "SequenceProto" else part)

            check(call)


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


@pytest.mark.parametrize("kind", TYPES)
def test_types(kind: str) -> None:
    """Types of every kind, in a value info or alone, are the same, and print the same."""
    check(TYPES[kind])
    check(lambda: helper.make_value_info("v", TYPES[kind](), "documented"))
    check(lambda: helper.printable_type(TYPES[kind]()))
    check(lambda: helper.printable_value_info(helper.make_value_info("v", TYPES[kind]())))


def test_value_infos() -> None:
    """Value infos of every kind are the same."""
    check(lambda: value_info("v"))
    check(lambda: helper.make_empty_tensor_value_info("v"))
    check(lambda: helper.make_sparse_tensor_value_info("v", 1, [2], "documented"))
    check(lambda: helper.make_tensor_sequence_value_info("v", 1, [2, None], "documented", ["a", "b"]))
    check(sparse)


@pytest.mark.filterwarnings("ignore:Deprecated since")
def test_nodes_graphs_and_models() -> None:
    """Nodes, graphs, functions, models and training information are the same."""
    check(
        lambda: helper.make_node("Op", ["a", ""], ["b"], "n", "documented", "domain", overload="o", k=1, z="s", n=None)
    )
    check(graph)
    check(model)
    check(lambda: helper.make_model(graph(), model_version=3, doc_string="documented", domain="d"))
    check(lambda: helper.make_model_gen_version(graph(), opset_imports=[helper.make_opsetid("", 13)]))
    check(lambda: helper.find_min_ir_version_for([helper.make_opsetid("", 17)]))
    check(lambda: helper.make_model(graph(), functions=[function()], opset_imports=[helper.make_opsetid("", 17)]))
    check(lambda: helper.make_training_info(graph("t"), [("a", "b")], graph("i"), [("c", "d")]))
    check(function)
    for build in (helper.printable_graph, helper.printable_node):
        check(lambda build=build: build(graph() if build is helper.printable_graph else graph().node[1]))


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


def test_functions_that_change_a_model() -> None:
    """Metadata are set, and documentation strings are removed, in place."""

    def changed() -> Any:
        changed = model()
        helper.set_model_props(changed, {"a": "b"})
        helper.set_model_props(changed, {"c": "d"})
        helper.set_metadata_props(changed.graph, {"e": "f"})
        return changed

    check(changed)
    check(lambda: helper.strip_doc_string("no message"))
    with swapped():  # on messages of protobuf 7, `strip_doc_string` of onnx 1.23.2 raises AttributeError
        message = model()
        helper.strip_doc_string(message)
    assert not message.graph.HasField("doc_string")
    assert not message.graph.node[0].HasField("doc_string")


def test_compose() -> None:
    """Models are merged, prefixed and given another dimension with the same results."""
    check(lambda: compose.add_prefix(model(), "p/"))
    check(lambda: compose.add_prefix_graph(graph(), "p/", rename_edges=False))
    check(lambda: compose.merge_models(model("a_"), model("b_"), [("a_z", "b_x")], prefix1="one/", name="merged"))
    check(lambda: compose.merge_graphs(graph("a", "a_"), graph("b", "b_"), [("a_z", "b_x")]))
    check(lambda: compose.expand_out_dim(model(), 0))
    check(lambda: compose.merge_models(model(), graph(), []))


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
