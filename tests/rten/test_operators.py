"""The operator rows agree with RTen's schema and with ONNX, and are read both ways."""

from __future__ import annotations

import numpy as np
import pytest

from formats.errors import DecodeError
from formats.ir.model import Attribute, Graph, Node
from formats.ir.storage import from_numpy
from formats.rten.attributes import make_attribute
from formats.rten.operators import (
    ANY,
    BY_NAME,
    OPERATORS,
    Kind,
    Operator,
    attribute_value,
    decode_attributes,
    encode_attributes,
)
from formats.rten.schema import ENUMS, TABLES, UNIONS

# Attributes of the newest ONNX operators that ask for something RTen cannot do with any value: legalisation rewrites
# them, and what is left of them is refused.
UNHELD = {("ConvTranspose", "output_shape"), ("Resize", "axes")}

FIELD_TYPES = {
    Kind.INT: {"int", "uint"},
    Kind.BOUND: {"int"},
    Kind.BOOL: {"bool"},
    Kind.FLOAT: {"float"},
    Kind.INTS: {"[int]", "[uint]"},
    Kind.STRING: {"string"},
    Kind.SCALAR: {"Scalar"},
    Kind.GRAPH: {"Graph"},
}


def encoded(op_type: str, **attributes):
    """Return the attribute table of a node, its problems, and the graphs that were met."""
    problems, graphs = [], []
    node = Node(op_type=op_type, attribute=[make_attribute(name, value) for name, value in attributes.items()])

    def encode_graph(name: str, graph: Graph):
        graphs.append((name, graph))
        return {"nodes": []}

    table = encode_attributes(BY_NAME[op_type], node, encode_graph, problems)
    return table, [problem.reason for problem in problems], graphs


def decoded(op_type: str, attrs):
    """Return the ONNX attributes for an attribute table as plain data."""
    attributes = decode_attributes(BY_NAME[op_type], attrs, lambda name, table: Graph(name=name))
    return {a.name: a.t.numpy().tolist() if a.t else attribute_value(a) for a in attributes}


def test_rows_are_the_operator_types():
    """Every operator type of the schema has one row, sorted by name."""
    names = [row.name for row in OPERATORS]
    assert sorted(ENUMS["OperatorType"].values) == sorted(names)
    assert names == sorted(names)


def test_attribute_tables_are_covered():
    """Every attribute table belongs to an operator, and every field of it has a row of a fitting kind."""
    assert set(UNIONS["OperatorAttrs"]) == {row.attrs for row in OPERATORS if row.attrs}
    for row in OPERATORS:
        if not row.attrs:
            assert row.fields == ()
            continue
        schema = {field.name: field for field in TABLES[row.attrs]}
        fields = {field.name: field for field in row.fields}
        assert set(fields) == set(schema), row.name
        for name, field in fields.items():
            declared = schema[name].type
            if field.kind is Kind.CHOICE:
                chosen = {choice for choice in field.choices.values() if choice is not None}
                assert chosen <= set(ENUMS[declared].values), row.name
            else:
                assert declared in FIELD_TYPES[field.kind], row.name
                if field.kind in (Kind.INT, Kind.INTS):
                    assert ("uint" in declared) == (field.minimum == 0), f"{row.name}.{name}"


def test_absent_attributes_can_be_left_out():
    """A field without a default is one that may be absent in the table, or must be there in ONNX."""
    for row in OPERATORS:
        schema = {field.name: field for field in TABLES.get(row.attrs, ())}
        for field in row.fields:
            if field.default is None and not field.required and field.kind is not Kind.SCALAR:
                declared = schema[field.name]
                assert declared.optional or declared.type.startswith("["), f"{row.name}.{field.name}"


def newest_schemas():
    """Return the newest ONNX definition of every operator that RTen has."""
    onnx = pytest.importorskip("onnx")
    newest = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        known = newest.get(schema.name)
        if schema.domain == "" and (known is None or schema.since_version > known.since_version):
            newest[schema.name] = schema
    return [(row, newest[row.name]) for row in OPERATORS]


def default_of(attribute):
    """Return the default of an ONNX attribute, `None` where there is none."""
    import onnx

    value = onnx.helper.get_attribute_value(attribute.default_value) if attribute.default_value.name else None
    return value.decode() if isinstance(value, bytes) else value


def test_onnx_attributes_are_covered():
    """Every attribute of the newest ONNX form has a field, or a row says which values of it ask for nothing."""
    for row, schema in newest_schemas():
        known = {field.onnx_name for field in row.fields} | set(row.neutral)
        for name, attribute in schema.attributes.items():
            assert name in known or (row.name, name) in UNHELD, f"{row.name}.{name}"
            default = default_of(attribute)
            if name in row.neutral and row.neutral[name] is not ANY and default is not None:
                assert default in row.neutral[name], f"{row.name}.{name}"


def test_defaults_are_those_of_onnx():
    """An absent attribute means what ONNX says, and is required exactly where ONNX requires it."""
    own = {("LSTM", "hidden_size"), ("GRU", "hidden_size"), ("RotaryEmbedding", "num_heads"), ("Shape", "start")}
    for row, schema in newest_schemas():
        for field in row.fields:
            attribute = schema.attributes.get(field.onnx_name)
            if attribute is None or (row.name, field.onnx_name) in own:
                continue
            assert field.required == attribute.required, f"{row.name}.{field.name}"
            default = default_of(attribute)
            if isinstance(default, float):
                assert default == np.float32(field.default), f"{row.name}.{field.name}"
            elif default is not None and not (field.default is None and default == 0):
                assert default == field.default, f"{row.name}.{field.name}"


def test_output_limits_are_not_above_onnx():
    """No row promises more outputs than ONNX knows of, and a variadic input stays one."""
    for row, schema in newest_schemas():
        if row.outputs is not None:
            assert row.outputs <= schema.max_output, row.name
        assert (row.inputs is None) == (schema.max_input > 1000), row.name


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
    wanted = None if table is None else (BY_NAME[op_type].attrs, table)
    assert encoded(op_type, **attributes) == (wanted, [], [])


@pytest.mark.parametrize(("op_type", "attributes", "table"), CASES)
def test_decode(op_type, attributes, table):
    """A table becomes the attributes again; those that an optional table leaves out have its defaults."""
    attrs = None if table is None else (BY_NAME[op_type].attrs, table)
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
        ("Resize", {"mode": "cubic"}, "the attribute mode is 'cubic', and RTen has only 'nearest', 'linear'"),
        ("Resize", {"antialias": 1}, "it has no place for the attribute antialias = 1"),
        ("Conv", {"auto_pad": "SAME_LOWER"}, "the attribute auto_pad is 'SAME_LOWER', and RTen has only"),
        ("AveragePool", {"kernel_shape": [2, 2], "dilations": [2, 1]}, "no place for the attribute dilations = (2, 1)"),
        ("MaxPool", {}, "the attribute kernel_shape is missing"),
        ("Concat", {"axis": 1.5}, "the attribute axis is 1.5, of another type"),
        ("Concat", {"axis": 1 << 40}, "the attribute axis is 1099511627776, outside of -2147483648 to 2147483647"),
        ("Transpose", {"perm": [0, -1]}, "the attribute perm is (0, -1), outside of 0 to 4294967295"),
        ("Cast", {"to": 9}, "the attribute to is 9, and RTen has only"),
        ("LSTM", {"activations": ["Relu", "Tanh", "Tanh"]}, "activations = ('Relu', 'Tanh', 'Tanh')"),
        ("Attention", {"left_window_size": 3}, "left_window_size = 3"),
        ("CumSum", {"reverse": 1}, "the attribute reverse = True is ignored by RTen 0.25"),
        ("ConvTranspose", {"dilations": [1, 2]}, "the attribute dilations = (1, 2) is ignored by RTen 0.25"),
        ("Relu", {"alpha": 0.1}, "it has no place for the attribute alpha = 0.1"),
    ],
)  # fmt: skip
def test_problems(op_type, attributes, reason):
    """What a table cannot say is a problem, and never left out."""
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
    """Attributes that inference does not need are left out without a word."""
    assert encoded(op_type, **attributes)[1] == []


def test_values_that_writers_leave_out():
    """An attribute without a value is zero, and one without a type is of the type of its value."""
    problems = []
    node = Node(op_type="Gemm", attribute=[Attribute(name="transA", type=2), Attribute(name="transB", i=1)])
    _, table = encode_attributes(BY_NAME["Gemm"], node, lambda *_: {}, problems)
    assert ([], False, True) == (problems, table["transpose_a"], table["transpose_b"])


def test_unresolved_references_are_refused():
    """An attribute that refers to one of a function has no value."""
    problems = []
    node = Node(op_type="Softmax", attribute=[Attribute(name="axis", type=2, ref_attr_name="axis")])
    encode_attributes(BY_NAME["Softmax"], node, lambda *_: {}, problems)
    assert ["the attribute axis is '@axis', of another type than the operator's definition says"] == [
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


def test_rows_are_plain():
    """Rows compare and print as data."""
    assert Operator("Abs", 1) == BY_NAME["Abs"]
