"""The table of operators says in each version what `onnx.defs` says."""

from __future__ import annotations

from onnx import defs

from formats.onnxpb.operator_sets import NEWEST, form_of, versions_of

LETTERS = {"Single": "S", "Optional": "O", "Variadic": "V"}


def test_each_operator_is_as_onnx_says_in_every_version() -> None:
    """Inputs, outputs and attributes of all operators agree with `onnx` in all versions of all sets."""
    names = {(schema.domain, schema.name) for schema in defs.get_all_schemas_with_history()}
    for domain, name in sorted(names):
        set_name = domain or "ai.onnx"
        for version in range(1, NEWEST[set_name] + 1):
            try:
                schema = defs.get_schema(name, version, domain)
            except defs.SchemaError:
                assert form_of(set_name, name, version) is None
                continue
            form = form_of(set_name, name, version)
            assert form is not None
            assert schema.deprecated == (form.inputs is None)
            if form.inputs is not None:
                assert form.inputs.letters == "".join(LETTERS[each.option.name] for each in schema.inputs)
                assert (schema.min_input, schema.min_output) == (form.inputs.least, form.outputs.least)
                attributes = {key: (each.type.value, each.required) for key, each in schema.attributes.items()}
                assert attributes == form.attributes


def test_an_unknown_operator_has_no_versions() -> None:
    """An operator that no version has is none."""
    assert {} == versions_of("ai.onnx", "Frobnicate")
