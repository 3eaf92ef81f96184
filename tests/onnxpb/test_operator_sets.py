"""The table of operators says in each version what `onnx.defs` says."""

from __future__ import annotations

from onnx import defs

from formats.onnxpb.operator_sets import NEWEST, Parameter, form_of, signature_of, signatures_of, versions_of

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


def test_the_types_of_each_operator_are_as_onnx_says_in_every_version() -> None:
    """The types of inputs and outputs of all operators, and the versions that changed them, agree with `onnx`."""
    for schema in defs.get_all_schemas_with_history():
        signature = signatures_of(schema.domain or "ai.onnx", schema.name)[schema.since_version]
        assert schema.deprecated == (signature is None)
        if signature is None:
            continue
        assert schema.since_version == signature.since
        sets = {each.type_param_str: each.allowed_type_strs for each in schema.type_constraints}
        for own, theirs in ((signature.inputs, schema.inputs), (signature.outputs, schema.outputs)):
            assert [Parameter(each.type_str, each.is_homogeneous) for each in theirs] == [*own]
            wanted = [{text.replace(" ", "") for text in sets.get(each.type_str, [each.type_str])} for each in theirs]
            assert wanted == [signature.allowed(each) for each in own]


def test_the_types_of_an_operator_in_a_version_are_those_of_the_newest_form_before_it() -> None:
    """A version that changed nothing has the form of an older one; before the first, there is none."""
    assert signature_of("", "Abs", 12) == signature_of("ai.onnx", "Abs", 6) != signature_of("", "Abs", 13)
    assert None is signature_of("", "Acos", 6)
    assert None is signature_of("", "Scatter", 11)  # deprecated


def test_an_unknown_operator_has_no_versions() -> None:
    """An operator that no version has is none."""
    assert {} == versions_of("ai.onnx", "Frobnicate")
    assert {} == signatures_of("ai.onnx", "Frobnicate") == signatures_of("mine", "Frobnicate")
