"""Attribute tables are made from the attributes of nodes, and converted back."""

from __future__ import annotations

import numpy as np
import pytest

from formats.errors import DecodeError
from formats.ir.model import Attribute, Graph, Node
from formats.ir.storage import from_numpy
from formats.rten.graph.attribute_tables import attribute_value, decode_attributes, encode_attributes
from formats.rten.graph.attributes import make_attribute
from tests.rten.rten_operators import HELD


def encoded(op_type: str, **attributes):
    """Return the attribute table of a node, its problems, and the graphs that were found."""
    problems, graphs = [], []
    node = Node(op_type=op_type, attribute=[make_attribute(name, value) for name, value in attributes.items()])

    def encode_graph(name: str, graph: Graph):
        graphs.append((name, graph))
        return {"nodes": []}

    table = encode_attributes(HELD[op_type], node, encode_graph, problems)
    return table, [problem.reason for problem in problems], graphs


def decoded(op_type: str, attrs):
    """Return the ONNX attributes for an attribute table as plain data."""
    attributes = decode_attributes(HELD[op_type], attrs, lambda name, table: Graph(name=name))
    return {a.name: a.t.numpy().tolist() if a.t else attribute_value(a) for a in attributes}


NOT_SET = {"auto_pad": "NotSet"}
CASES = [
    ("Add", {}, None),
    ("Softmax", {"axis": -1}, {"axis": -1}),
    ("Gemm", {"alpha": 0.5, "beta": 1.0, "transA": 0, "transB": 1},
     {"alpha": 0.5, "beta": 1.0, "transpose_a": False, "transpose_b": True}),
    ("Conv", {"auto_pad": "NOTSET", "pads": [1, 2, 3, 4], "group": 2, "strides": [1, 1], "dilations": [1, 1]},
     {**NOT_SET, "pads": (1, 2, 3, 4), "groups": 2, "strides": (1, 1), "dilations": (1, 1)}),
    ("MaxPool", {"kernel_shape": [3], "auto_pad": "SAME_UPPER", "ceil_mode": 1},
     {"kernel_size": (3,), "auto_pad": "Same", "ceil_mode": True}),
    ("Cast", {"to": 1}, {"to": "Float"}),
    ("Cast", {"to": 3}, {"to": "Int8"}),
    ("NonMaxSuppression", {"center_point_box": 1}, {"box_order": "CenterWidthHeight"}),
    ("QuantizeLinear", {"axis": 0, "output_dtype": 2}, {"axis": 0, "output_dtype": "UInt8"}),
    ("QuantizeLinear", {"axis": 0}, {"axis": 0}),
    ("Shape", {"start": 1, "end": -1}, {"start": 1, "end": -1}),
    ("Shape", {}, None),
    ("Pad", {"mode": "constant"}, None),
    ("Pad", {"mode": "wrap"}, {"mode": "Wrap"}),
    ("CumSum", {}, None),
    ("Transpose", {"perm": [1, 0]}, {"perm": (1, 0)}),
    ("Transpose", {}, {}),
    ("Einsum", {"equation": "ij,jk->ik"}, {"equation": "ij,jk->ik"}),
    ("IsInf", {}, {}),
    ("EyeLike", {"k": -1}, {"k": -1}),
    ("Reshape", {"allowzero": 1}, {"allow_zero": True}),
]  # fmt: skip


@pytest.mark.parametrize(("op_type", "attributes", "table"), CASES)
def test_encode(op_type, attributes, table):
    """Attributes become the fields of the operator's table."""
    wanted = None if table is None else (HELD[op_type].to_rten.row.attrs, table)
    assert encoded(op_type, **attributes) == (wanted, [], [])


@pytest.mark.parametrize(("op_type", "attributes", "table"), CASES)
def test_decode(op_type, attributes, table):
    """A table is converted to the attributes again; those that an optional table omits have their defaults."""
    attrs = None if table is None else (HELD[op_type].to_rten.row.attrs, table)
    wanted = {name: tuple(value) if isinstance(value, list) else value for name, value in attributes.items()}
    if op_type == "CumSum":
        wanted = {"exclusive": 0, "reverse": 0}
    assert decoded(op_type, attrs) == wanted


@pytest.mark.parametrize(
    ("array", "wanted", "back"),
    [
        (np.array([2.5], np.float32), ("FloatScalar", {"value": 2.5}), [2.5]),
        (np.array(0.5, np.float16), ("FloatScalar", {"value": 0.5}), [0.5]),
        (np.array([7], np.int64), ("IntScalar", {"value": 7}), [7]),
        (np.array([True]), ("IntScalar", {"value": 1}), [1]),
        (np.array([-(1 << 63)]), ("IntScalar", {"value": -(1 << 31)}), [-(1 << 31)]),
    ],
)
def test_scalar(array, wanted, back):
    """The value of ConstantOfShape is one of two kinds of number."""
    table, problems, _ = encoded("ConstantOfShape", value=from_numpy(array))
    assert (table, problems) == (("ConstantOfShapeAttrs", {"value": wanted}), [])
    assert decoded("ConstantOfShape", table) == {"value": back}


def test_scalar_default():
    """A ConstantOfShape without a value makes float zeros."""
    assert encoded("ConstantOfShape")[0] == ("ConstantOfShapeAttrs", {"value": ("FloatScalar", {"value": 0.0})})


def test_graphs():
    """Subgraphs are encoded by the caller, under their names."""
    table, problems, graphs = encoded("If", then_branch=Graph(name="a"), else_branch=Graph(name="b"))
    assert table == ("IfAttrs", {"then_branch": {"nodes": []}, "else_branch": {"nodes": []}})
    assert [("then_branch", "a"), ("else_branch", "b")] == [(name, graph.name) for name, graph in graphs]
    assert problems == []


@pytest.mark.parametrize(
    ("op_type", "attributes", "reason"),
    [
        ("Resize", {"mode": "cubic"}, "the attribute mode is 'cubic', but RTen supports only 'nearest', 'linear'"),
        ("Resize", {"antialias": 1}, "the attribute antialias = 1 has no counterpart in RTen"),
        ("Conv", {"auto_pad": "SAME_LOWER"}, "the attribute auto_pad is 'SAME_LOWER', but RTen supports only"),
        ("AveragePool", {"kernel_shape": [2, 2], "dilations": [2, 1]}, "dilations = (2, 1) has no counterpart"),
        ("MaxPool", {}, "the attribute kernel_shape is missing"),
        ("Concat", {"axis": 1.5}, "the attribute axis is 1.5, which is not of the type"),
        ("Concat", {"axis": 1 << 40}, "the attribute axis is 1099511627776, but must be from -2147483648 to"),
        ("Transpose", {"perm": [0, -1]}, "the attribute perm is (0, -1), but must be from 0 to 4294967295"),
        ("Cast", {"to": 9}, "the attribute to is 9, but RTen supports only"),
        ("LSTM", {"activations": ["Relu", "Tanh", "Tanh"]}, "activations = ('Relu', 'Tanh', 'Tanh')"),
        ("Attention", {"left_window_size": 3}, "left_window_size = 3"),
        ("CumSum", {"reverse": 1}, "the attribute reverse = True is ignored by RTen before 0.26"),
        ("ConvTranspose", {"dilations": [1, 2]}, "the attribute dilations = (1, 2) is ignored by RTen before 0.26"),
        ("Relu", {"alpha": 0.1}, "the attribute alpha = 0.1 has no counterpart"),
    ],
)  # fmt: skip
def test_problems(op_type, attributes, reason):
    """A value that a table cannot express is reported as a problem, and never omitted silently."""
    problems = encoded(op_type, **attributes)[1]
    assert len(problems) == 1
    assert reason in problems[0]


@pytest.mark.parametrize(
    ("op_type", "attributes"),
    [
        ("BatchNormalization", {"momentum": 0.5, "training_mode": 0}),
        ("Cast", {"to": 1, "saturate": 0}),
        ("MaxPool", {"kernel_shape": [2], "dilations": [1], "storage_order": 1}),
        ("GridSample", {"mode": "bilinear"}),
        ("GRU", {"activations": ["Sigmoid", "Tanh"], "clip": 0.0}),
        ("ConvTranspose", {"dilations": [1, 1], "kernel_shape": [3, 3]}),
        ("CumSum", {"reverse": 0}),
    ],
)
def test_attributes_that_ask_for_nothing(op_type, attributes):
    """Attributes that inference does not need are dropped without a report."""
    assert encoded(op_type, **attributes)[1] == []


def test_values_that_writers_leave_out():
    """An attribute without a value is zero, and one without a type has the type of its value."""
    problems = []
    node = Node(op_type="Gemm", attribute=[Attribute(name="transA", type=2), Attribute(name="transB", i=1)])
    _, table = encode_attributes(HELD["Gemm"], node, lambda *_: {}, problems)
    assert ([], False, True) == (problems, table["transpose_a"], table["transpose_b"])


@pytest.mark.parametrize(
    ("op_type", "name", "value", "problem"),
    [
        ("Gemm", "transA", {"s": b"yes"}, None),
        ("Concat", "axis", {"s": b"1"}, None),
        ("ConstantOfShape", "value", {"i": 1}, "the attribute value has no value"),
        ("Loop", "body", {"type": 5}, "the attribute body has no value"),
    ],
)
def test_values_of_other_types(op_type, name, value, problem):
    """An attribute without a type has the type in the operator's definition; graphs and tensors cannot be omitted."""
    problems = []
    node = Node(op_type=op_type, attribute=[Attribute(name=name, **value)])
    encode_attributes(HELD[op_type], node, lambda *_: {}, problems)
    assert ([] if problem is None else [problem]) == [found.reason for found in problems]


def test_unresolved_references_are_refused():
    """An attribute that refers to one of a function has no value, so it is a problem."""
    problems = []
    node = Node(op_type="Softmax", attribute=[Attribute(name="axis", type=2, ref_attr_name="axis")])
    encode_attributes(HELD["Softmax"], node, lambda *_: {}, problems)
    assert ["the attribute axis is '@axis', which is not of the type that the operator defines"] == [
        problem.reason for problem in problems
    ]


@pytest.mark.parametrize(
    ("op_type", "attrs", "message"),
    [
        ("Conv", None, "a Conv operator needs a ConvAttrs table, found none"),
        ("Conv", ("GemmAttrs", {}), "a Conv operator needs a ConvAttrs table, found GemmAttrs"),
        ("Cast", ("CastAttrs", {"to": 77}), "the field to has the unknown value 77"),
        ("If", ("IfAttrs", {"then_branch": {}}), "the field else_branch of a IfAttrs table is missing"),
    ],
)
def test_tables_that_do_not_decode(op_type, attrs, message):
    """A table that RTen's loader would refuse is an error."""
    with pytest.raises(DecodeError, match=message):
        decoded(op_type, attrs)
