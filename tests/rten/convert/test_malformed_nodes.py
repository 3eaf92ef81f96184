"""Nodes with the wrong inputs, outputs or attributes are refused in words; no text of a Python exception gets out."""

from __future__ import annotations

import re
from contextlib import suppress
from itertools import product

import numpy as np
import onnx
import onnx.defs
import onnx.numpy_helper
import pytest

import formats
from formats import Attribute, Graph, Model, Node, OperatorSetId, TensorShape, TensorType, Type, ValueInfo
from formats.errors import FormatError
from formats.rten.convert.legalize import legalize
from tests.rten.rten_cases import CASES, Case

OPERATORS = sorted({schema.name for schema in onnx.defs.get_all_schemas() if schema.domain == ""})
PYTHON = re.compile(
    r"\b(None|True|False|tuple|dict|NoneType|[A-Z][A-Za-z]+(Error|Exception)|object has no|index out of)\b"
)


def one_node(node: Node, opset: int) -> Model:
    """Return a model with this node, inputs a to d, and its outputs."""

    def value(name: str, dims: int) -> ValueInfo:
        shape = TensorShape([formats.Dimension(dim_value=2) for _ in range(dims)])
        return ValueInfo(name=name, type=Type(tensor_type=TensorType(elem_type=1, shape=shape)))

    inputs = [value(name, dims) for name, dims in (("a", 4), ("b", 1), ("c", 0), ("d", 3))]
    graph = Graph(name="g", node=[node], input=inputs, output=[ValueInfo(name=name) for name in node.output])
    return Model(ir_version=8, opset_import=[OperatorSetId("", opset)], graph=graph)


@pytest.mark.sample(6)
@pytest.mark.parametrize("part", [0, 1, 2])
@pytest.mark.parametrize("opset", [17, 7])
def test_wrong_nodes_are_refused_in_words(opset: int, part: int) -> None:
    """Each operator with any number of inputs and outputs, and with odd attributes, converts or is refused in words."""
    odd = ("axis", "axes", "kernel_shape", "strides", "pads", "perm", "to", "equation", "mode")
    attributes = [
        [],
        [Attribute(name=name, type=7, ints=[]) for name in odd],
        [Attribute(name=name, type=2, i=9) for name in odd],
        [Attribute(name=name, type=3, s=b"\xff") for name in odd],
    ]
    wrong = set()
    for index, name in [*enumerate(OPERATORS)][part::3]:
        for inputs, outputs in (
            ([], ["y"]),
            (["a"], ["y"]),
            (["a"], []),
            (["c", "b"], ["y", "z"]),
            (["d", "", "b", "a"], ["y"]),
        ):
            for given in (attributes[0], attributes[1 + (index + len(inputs) + opset) % 3]):
                node = Node(op_type=name, input=inputs, output=outputs, attribute=list(given))
                for options in ({"format": "rten"}, {"format": "onnx", "runtime": "rten"}):
                    try:
                        formats.dumps(one_node(node, opset), **options)  # type: ignore[arg-type]
                    except FormatError as error:
                        if (found := PYTHON.search(str(error))) is not None:
                            wrong.add((name, found[0], str(error)[:200]))
                        for version in re.findall(rf"{name} \(opset (\d+)\)", str(error)):
                            if int(version) != opset:
                                wrong.add((name, f"opset {version}", str(error)[:200]))
    assert not wrong


WARNED = ("resize_linear_symmetric", "resize_not_larger", "mel_weight_matrix", "q_linear_mul", "q_linear_add")
HOSTILE = (0, np.nan, np.inf, 3e38, -1)


def with_constants(proto: onnx.ModelProto, number: float) -> bytes:
    """Return a model in which a number is in place of all elements of constants and of all float attributes."""
    hostile = onnx.ModelProto()
    hostile.CopyFrom(proto)
    for tensor in hostile.graph.initializer:
        elements = onnx.numpy_helper.to_array(tensor)
        if elements.dtype.kind in "fiu":
            with np.errstate(all="ignore"):
                full = np.full(elements.shape, number).astype(elements.dtype)
            tensor.CopyFrom(onnx.numpy_helper.from_array(full, tensor.name))
    for attribute in (attribute for node in hostile.graph.node for attribute in node.attribute):
        if attribute.type == onnx.AttributeProto.FLOAT:
            attribute.f = number
        elif attribute.type == onnx.AttributeProto.FLOATS:
            attribute.floats[:] = [number] * len(attribute.floats)
    return hostile.SerializeToString()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "cases",
    [
        pytest.param([case for case in CASES if case.name in WARNED], id="some"),
        pytest.param(CASES, id="all", marks=pytest.mark.outer),
    ],
)
def test_numpy_warns_of_no_constant(cases: list[Case]) -> None:
    """Whatever numbers the constants are, a conversion is right or refused, and numpy's warnings do not reach users."""
    assert len(cases) >= len(WARNED)
    for case, number, exact in product(cases, HOSTILE, (False, True)):
        model = formats.loads(with_constants(case.proto(), number))
        with suppress(FormatError):
            legalize(model, exact=exact)
