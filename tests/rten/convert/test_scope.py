"""Everything that is inferred about values is true of what onnxruntime computes, and much is inferred."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from formats.ir.dtypes import from_numpy_dtype
from formats.ir.model import Model
from formats.onnxpb.wire.decoder import decode
from formats.rten.convert.legalize import legalize
from formats.rten.convert.scope import Scope
from formats.rten.convert.value_types import ValueType, declared_type
from formats.rten.operators.rules import broadcast_dims
from formats.tensordata.sources.source import Literal
from tests.rten.rten_cases import CASES, Case, int64, node, run, to_proto


def bare(model: Model) -> Model:
    """Return the model with no information about values except its inputs."""
    assert model.graph is not None
    outputs = [replace(value, type=None) for value in model.graph.output]
    return replace(model, graph=replace(model.graph, value_info=[], output=outputs))


def values_of(model: Model, inputs: Any) -> dict[str, np.ndarray]:
    """Return every value that onnxruntime computes in the outermost graph."""
    proto = to_proto(model)
    names = [name for found in proto.graph.node for name in found.output if name]
    del proto.graph.output[:]
    proto.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    return dict(zip(names, run(proto, inputs), strict=True))


def mistakes(types: Any, values: dict[str, np.ndarray]) -> list[str]:
    """Return wrong statements about values; sizes with the same name must be equal."""
    found, sizes = [], {}
    for name, value in values.items():
        if isinstance(value, list):
            continue
        elem_type, dims = types[name]
        row = from_numpy_dtype(value.dtype)
        if elem_type is not None and (row is None or row.number != elem_type):
            found.append(f"{name}: type {elem_type}, not {value.dtype}")
        if dims is None:
            continue
        if len(dims) != value.ndim:
            found.append(f"{name}: dims {dims}, not {value.shape}")
            continue
        for dim, size in zip(dims, value.shape, strict=True):
            if dim is not None and size != (sizes.setdefault(dim, size) if isinstance(dim, str) else dim):
                found.append(f"{name}: dims {dims}, not {value.shape}")
    return found


@pytest.mark.sample(3)
@pytest.mark.parametrize("case", [case for case in CASES if case.onnxruntime], ids=lambda case: case.name)
def test_inference_is_never_wrong(case: Case) -> None:
    """Element types and dims equal those of the values of the legal form."""
    result = legalize(bare(case.model()), case.exact)
    assert [] == mistakes(result.types["graph"], values_of(result.model, case.inputs))


def test_shared_models(shared_model: Path) -> None:
    """For exported models without their value infos, every type and rank is inferred, and all of it is true."""
    arrays = np.load(shared_model.with_suffix(".npz"))
    inputs = {key.removeprefix("in_"): arrays[key] for key in arrays.files if key.startswith("in_")}
    result = legalize(bare(decode(Literal(shared_model.read_bytes()), Model)))
    types = result.types["graph"]
    assert [] == mistakes(types, values_of(result.model, inputs))
    assert [] == [name for name, (elem_type, dims) in types.items() if elem_type is None or dims is None]


def types_of(nodes: list[onnx.NodeProto], dims: list[int | str], **constants: np.ndarray) -> dict[str, ValueType]:
    """Return what is known about the values that nodes compute from `x`."""
    value = helper.make_tensor_value_info("x", 1, dims)
    graph = helper.make_graph(nodes, "g", [value], [onnx.ValueInfoProto(name="y")])
    graph.initializer.extend(onnx.numpy_helper.from_array(array, name) for name, array in constants.items())
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    return dict(legalize(decode(Literal(proto.SerializeToString()), Model)).types["graph"])


def test_shapes_are_computed_through() -> None:
    """A shape that is split and joined again is known, including names."""
    nodes = [
        node("Shape", "x", "s"),
        node("Gather", "s zero", "n"),
        node("Unsqueeze", "n axis", "v"),
        node("Concat", "v heads", "t", axis=0),
        node("Reshape", "x t", "r"),
        node("Transpose", "r", "y", perm=[0, 2, 1, 3]),
    ]
    types = types_of(nodes, ["batch", 5, 12], zero=np.int64(0), axis=int64(0), heads=int64(-1, 3, 4))
    assert ValueType(1, ("batch", 3, 5, 4)) == types["y"]


@pytest.mark.parametrize(
    ("bounds", "size"), [((2, 9, 1), 7), ((2, 9, 3), 3), ((9, 2, -2), 4), ((9, 2, 1), 0), ((0, 5, 1), 5)]
)
def test_sizes_of_ranges(bounds: tuple[int, int, int], size: int) -> None:
    """A range of constants has as many elements as Python's."""
    start, limit, delta = map(np.int64, bounds)
    nodes = [node("Range", "a b c", "r"), node("Expand", "x s", "e"), node("Identity", "e", "y")]
    types = types_of(nodes, [1], a=start, b=limit, c=delta, s=int64(2))
    assert (size,) == types["r"].dims


def test_the_rest_of_a_reshape_keeps_its_name() -> None:
    """If -1 means one named dimension, the result has this name."""
    types = types_of([node("Reshape", "x n", "y")], [2, "words", 12], n=int64(0, -1, 3, 4))
    assert (2, "words", 3, 4) == types["y"].dims


def test_arithmetic_of_shapes() -> None:
    """Sizes are computed, and an expansion that depends on a condition is resolved."""
    nodes = [
        node("Shape", "x", "s"),
        node("Equal", "s minus", "e"),
        node("Where", "e ones s", "w"),
        node("Mul", "w two", "m"),
        node("Div", "m two", "d"),
        node("Expand", "k d", "y"),
    ]
    types = types_of(nodes, [4, 6], minus=int64(-1, -1), ones=int64(1, 1), two=int64(2), k=np.zeros((1, 1), np.float32))
    assert (4, 6) == types["y"].dims


@pytest.mark.parametrize(
    ("op_type", "first", "second"),
    [
        ("Div", (7, -7, 7, -7), (2, 2, -2, -2)),
        ("Div", (6, -6, 1, -1), (3, 3, -2, 2)),
        ("Mod", (7, -7, 7, -7), (3, 3, -3, -3)),
        ("Sub", (3, -3, 0, 4), (5, -5, 2, 4)),
        ("Mul", (3, -3, 0, 4), (5, -5, 2, -4)),
        ("Min", (3, -3, 0, 4), (5, -5, 2, -4)),
        ("Max", (3, -3, 0, 4), (5, -5, 2, -4)),
    ],
)
def test_contents_of_negatives(op_type: str, first: tuple[int, ...], second: tuple[int, ...]) -> None:
    """Known contents of integers equal what onnxruntime computes for either sign: it divides towards zero."""
    nodes = [node(op_type, "a b", "c"), node("Identity", "c", "y")]
    arrays = {"a": int64(*first), "b": int64(*second)}
    graph = helper.make_graph(nodes, "g", [], [helper.make_tensor_value_info("y", 7, [4])])
    graph.initializer.extend(onnx.numpy_helper.from_array(array, name) for name, array in arrays.items())
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (wanted,) = run(proto, {})
    scope = Scope()
    model = decode(Literal(proto.SerializeToString()), Model)
    assert model.graph is not None
    for tensor in model.graph.initializer:
        scope.add_tensor(tensor)
    scope.infer(model.graph.node[0])
    assert tuple(wanted) == scope.contents_of("c")


@pytest.mark.parametrize(
    ("first", "second", "together"),
    [
        ((2, 1), (3,), (2, 3)),
        (("n", 1), (4,), ("n", 4)),
        (("n",), ("n",), ("n",)),
        (("n",), ("m",), (None,)),
        (("n",), (5,), (5,)),
        ((None, 3), (1, 3), (None, 3)),
        ((), (7,), (7,)),
        (None, (7,), None),
    ],
)
def test_broadcasting(first: Any, second: Any, together: Any) -> None:
    """Dims are broadcast the same in either order."""
    assert (together, together) == (broadcast_dims(first, second), broadcast_dims(second, first))


def test_large_integers_are_no_shapes() -> None:
    """Only short vectors are read; nothing is known about the contents of others, and their data are not read."""
    scope = Scope()
    from formats.ir.model import Tensor

    scope.add_tensor(Tensor(name="w", dims=[1 << 40], data_type=7))
    assert (None, ValueType(7, (1 << 40,))) == (scope.contents_of("w"), scope.type_of("w"))


def test_declared_types() -> None:
    """For a sequence, the element type is known; for an unset dimension, nothing."""
    tensor = helper.make_tensor_type_proto(1, [None, "n", 3])
    sequence = helper.make_sequence_type_proto(helper.make_tensor_type_proto(7, None))
    from formats.ir.model import Type

    found = [declared_type(decode(Literal(proto.SerializeToString()), Type)) for proto in (tensor, sequence)]
    assert [ValueType(1, (None, "n", 3)), ValueType(7, None)] == found


def test_names_end_at_subgraphs() -> None:
    """A named dimension in a loop body may be another size each time, so it is ignored."""
    scope = Scope(Scope())
    from formats.ir.model import Dimension, TensorShape, TensorType, Type, ValueInfo

    shape = TensorShape(dim=[Dimension(dim_param="n"), Dimension(dim_value=3)])
    scope.declare([ValueInfo(name="v", type=Type(tensor_type=TensorType(elem_type=1, shape=shape)))])
    assert {"v": ValueType(1, (None, 3))} == scope.declared


def test_large_graphs_are_inferred_in_one_pass() -> None:
    """The time for a graph is proportional to its nodes."""
    nodes = [node("Add", f"{'x' if not number else f'v{number - 1}'} x", f"v{number}") for number in range(5000)]
    nodes.append(node("Relu", "v4999", "y"))
    assert ValueType(1, (2, "n")) == types_of(nodes, [2, "n"])["y"]
