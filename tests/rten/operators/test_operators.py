"""The operator rows agree with RTen's schema and with ONNX."""

from __future__ import annotations

import numpy as np
import pytest

from formats.ir.model import Graph, Tensor
from formats.rten.spec import ANY, Row
from tests.rten.rten_forms import ENUMS, TABLES, UNIONS
from tests.rten.rten_operators import HELD

ROWS = [(name, spec.to_rten.row) for name, spec in HELD.items()]

# Attributes of the newest ONNX operators that RTen does not support with any value: legalisation rewrites them, and the
# remaining ones are refused.
UNHELD = {("ConvTranspose", "output_shape"), ("Resize", "axes")}

FIELD_TYPES = {
    int: {"int", "uint"},
    bool: {"bool"},
    float: {"float"},
    list: {"[int]", "[uint]"},
    str: {"string"},
    Tensor: {"Scalar"},
    Graph: {"Graph"},
}


def test_rows_are_the_operator_types():
    """The operator types of the schema are exactly those with a row."""
    assert sorted(ENUMS["OperatorType"].values) == sorted(HELD)


def test_attribute_tables_are_covered():
    """Every attribute table belongs to an operator, and every field of it has a row of a matching kind."""
    assert set(UNIONS["OperatorAttrs"]) == {spec.to_rten.row.attrs for spec in HELD.values() if spec.to_rten.row.attrs}
    for op_type, row in ROWS:
        if not row.attrs:
            assert row.fields == ()
            continue
        schema = {field.name: field for field in TABLES[row.attrs]}
        fields = {field.name: field for field in row.fields}
        assert set(fields) == set(schema), op_type
        for name, field in fields.items():
            declared = schema[name].type
            if field.choices:
                chosen = {choice for choice in field.choices.values() if choice is not None}
                assert chosen <= set(ENUMS[declared].values), op_type
            else:
                assert declared in FIELD_TYPES[field.kind], op_type
                if field.kind in (int, list):
                    assert ("uint" in declared) == (field.minimum == 0), f"{op_type}.{name}"


def test_absent_attributes_can_be_left_out():
    """A field without a default may be missing in the table, or is required in ONNX."""
    for op_type, row in ROWS:
        schema = {field.name: field for field in TABLES.get(row.attrs, ())}
        for field in row.fields:
            if field.default is None and not field.required and field.kind is not Tensor:
                declared = schema[field.name]
                assert declared.optional or declared.type.startswith("["), f"{op_type}.{field.name}"


def newest_schemas():
    """Yield the newest ONNX definition of every operator of RTen."""
    onnx = pytest.importorskip("onnx")
    newest = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        known = newest.get(schema.name)
        if schema.domain == "" and (known is None or schema.since_version > known.since_version):
            newest[schema.name] = schema
    return [(op_type, row, newest[op_type]) for op_type, row in ROWS]


def default_of(attribute):
    """Return the default of an ONNX attribute, or `None`."""
    import onnx

    value = onnx.helper.get_attribute_value(attribute.default_value) if attribute.default_value.name else None
    return value.decode() if isinstance(value, bytes) else value


def test_onnx_attributes_are_covered():
    """Every attribute of the newest ONNX form has a field, or a row lists its neutral values."""
    for op_type, row, schema in newest_schemas():
        known = {field.onnx_name for field in row.fields} | set(row.neutral)
        for name, attribute in schema.attributes.items():
            assert name in known or (op_type, name) in UNHELD, f"{op_type}.{name}"
            default = default_of(attribute)
            if name in row.neutral and row.neutral[name] is not ANY and default is not None:
                assert default in row.neutral[name], f"{op_type}.{name}"


def test_defaults_are_those_of_onnx():
    """A missing attribute means what ONNX says, and is required exactly if ONNX requires it."""
    own = {("LSTM", "hidden_size"), ("GRU", "hidden_size"), ("RotaryEmbedding", "num_heads"), ("Shape", "start")}
    for op_type, row, schema in newest_schemas():
        for field in row.fields:
            attribute = schema.attributes.get(field.onnx_name)
            if attribute is None or (op_type, field.onnx_name) in own:
                continue
            assert field.required == attribute.required, f"{op_type}.{field.name}"
            default = default_of(attribute)
            if isinstance(default, float):
                assert default == np.float32(field.default), f"{op_type}.{field.name}"
            elif default is not None and not (field.default is None and default == 0):
                assert default == field.default, f"{op_type}.{field.name}"


def test_output_limits_are_not_above_onnx():
    """No row has more outputs than ONNX allows, and a variadic input stays variadic."""
    for op_type, row, schema in newest_schemas():
        if row.outputs is not None:
            assert row.outputs <= schema.max_output, op_type
        assert (row.inputs is None) == (schema.max_input > 1000), op_type


def test_rows_are_plain():
    """Rows can be compared and printed as data."""
    assert HELD["Abs"].to_rten.row == Row(1)
