"""Writes `formats/onnxpb/operator_types.txt`: the types that each version of an operator accepts, from `onnx.defs`."""

from __future__ import annotations

from collections import Counter
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from operator_sets import is_older, table

if TYPE_CHECKING:
    from collections.abc import Iterable

ROOT = Path(__file__).resolve().parents[1]
TARGET = "formats/onnxpb/operator_types.txt"
HEAD = """\
# The types of ONNX's operators in all versions. `operator_sets.py` reads what a model needs.
#
# Generated from onnx.defs by `python schemas/generate.py`; do not edit.
#
# A line of [sets] has the types that an input or output may have: those of elements of its tensors, and other types in
# full. A line of another section is an operator, and its versions from the oldest on, each as
# `version inputs outputs name=set`. Each input and output has its type, or the name of the types that it may have, with
# the number of their line in [sets], from 0 on. A `*` follows where the inputs of one parameter may have several types.
# What equals the version before is only its number. A deprecated operator is `version !`. A version with `=` behind its
# number differs from the one before it in types only: the text of its definition is the same. An `f` means that ONNX
# defines the operator by others.
"""


def generate() -> str:
    """The text of the file; the present one if `onnx` is missing or has older operator sets."""
    path = ROOT / TARGET
    try:
        from onnx import defs
    except ImportError:
        return path.read_text("utf-8")
    if is_older():
        return path.read_text("utf-8")
    every = [schema for schema in defs.get_all_schemas_with_history() if not schema.deprecated]
    counts = Counter(_set(each.allowed_type_strs) for schema in every for each in schema.type_constraints)
    sets = {text: number for number, (text, _) in enumerate(sorted(counts.items(), key=lambda item: (-item[1], item)))}
    return "".join((HEAD, "[sets]\n", *(f"{text}\n" for text in sets), *table(partial(_row, sets=sets))))


def _row(name: str, schemas: list[Any], sets: dict[str, int]) -> str:
    versions, before, definition_before = [], "", None
    for schema in sorted(schemas, key=lambda schema: schema.since_version):
        text, definition = "!" if schema.deprecated else _form(schema, sets), _definition(schema)
        is_function = schema.has_function or schema.has_context_dependent_function
        number = f"{schema.since_version}{'=' * (definition == definition_before)}{'f' * is_function}"
        versions.append(number if text == before else f"{number} {text}")
        before, definition_before = text, definition
    return " ; ".join((name, *versions))


def _definition(schema: Any) -> list[Any]:
    """All that a version says of an operator but its types."""

    def words(text: str | None) -> str:
        return " ".join((text or "").split())

    facts = [schema.deprecated, words(schema.doc), schema.min_input, schema.max_input]
    facts += [schema.min_output, schema.max_output]
    for each in (*schema.inputs, *schema.outputs):
        facts.append((each.name, each.option.name, each.is_homogeneous, words(each.description)))
    for name, each in sorted(schema.attributes.items()):
        default = each.default_value.SerializeToString() if each.default_value else b""
        facts.append((name, each.type.name, each.required, default, words(each.description)))
    return facts


def _form(schema: Any, sets: dict[str, int]) -> str:
    names = (
        f"{each.type_param_str}={sets[_set(each.allowed_type_strs)]}"
        for each in sorted(schema.type_constraints, key=lambda each: each.type_param_str)
    )
    return " ".join((_parameters(schema.inputs), _parameters(schema.outputs), *names))


def _parameters(parameters: list[Any]) -> str:
    return ",".join(f"{each.type_str}{'' if each.is_homogeneous else '*'}" for each in parameters) or "-"


def _set(types: Iterable[str]) -> str:
    """The types as one line, those of tensors without the word."""
    every = (text[7:-1] if text.startswith("tensor(") else text.replace(" ", "") for text in types)
    return " ".join(sorted(every, key=lambda text: ("(" in text, text)))
