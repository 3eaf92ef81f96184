"""Writes `formats/onnxpb/operator_rows.txt`: what each version of ONNX's operator sets has, from `onnx.defs`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
TARGET = "formats/onnxpb/operator_rows.txt"
HEAD = """\
# ONNX's operators in all versions: what each version of an operator set has. `operator_sets.py` reads it.
#
# Generated from onnx.defs by `python schemas/generate.py`; do not edit.
#
# The section [newest] has the newest known version of each set. A line of another section is an operator, and its forms
# from the oldest on, each as `version inputs outputs attributes`; a form holds until the next one. Inputs and outputs
# are the fewest, and a letter for each: `S` single, `O` optional, `V` any number. Attributes have the number of their
# type, and `!` if they are required. The form of a deprecated operator is `version -`.
"""
LETTERS = {"Single": "S", "Optional": "O", "Variadic": "V"}
INFINITE = (1 << 31) - 1


def generate() -> str:
    """The text of the file; the present one if `onnx` is missing or has older operator sets."""
    path = ROOT / TARGET
    try:
        from onnx import defs, helper
    except ImportError:
        return path.read_text("utf-8")
    if is_older():
        return path.read_text("utf-8")
    newest = _newest(defs, helper)
    return "".join((HEAD, "[newest]\n", *(f"{domain} {version}\n" for domain, version in newest.items()), *table(_row)))


def table(row: Callable[[str, list[Any]], str]) -> Iterator[str]:
    """The text of a section for each domain: a line for each operator, made by `row` of its name and its schemas."""
    from onnx import defs

    rows: dict[str, dict[str, list[Any]]] = defaultdict(lambda: defaultdict(list))
    for schema in defs.get_all_schemas_with_history():
        rows[schema.domain or "ai.onnx"][schema.name].append(schema)
    for domain, operators in sorted(rows.items()):
        yield f"[{domain}]\n"
        yield from (f"{row(name, schemas)}\n" for name, schemas in sorted(operators.items()))


def is_older() -> bool:
    """Whether the installed `onnx` has older operator sets than the one that made the files."""
    from onnx import defs, helper

    from formats.onnxpb.operator_sets import NEWEST

    newest = _newest(defs, helper)
    return any(newest.get(domain, 0) < version for domain, version in NEWEST.items())


def _newest(defs: Any, helper: Any) -> dict[str, int]:
    """The newest version of each set."""
    sets = {schema.domain or "ai.onnx": 1 for schema in defs.get_all_schemas_with_history()}
    _, _, opset, ml, training = helper.VERSION_TABLE[-1]
    known = {"ai.onnx": max(opset, defs.onnx_opset_version()), "ai.onnx.ml": ml, "ai.onnx.preview.training": training}
    return dict(sorted((sets | known).items()))


def _row(name: str, schemas: list[Any]) -> str:
    """All forms of an operator; versions that changed only types and documents are one form."""
    forms: list[str] = []
    for schema in sorted(schemas, key=lambda schema: schema.since_version):
        form = _form(schema)
        if not forms or forms[-1].split(" ", 1)[1] != form:
            forms.append(f"{schema.since_version} {form}")
    return " ; ".join((name, *forms))


def _form(schema: Any) -> str:
    if schema.deprecated:
        return "-"
    attributes = (
        f"{name}:{int(attribute.type.value)}{'!' * attribute.required}"
        for name, attribute in sorted(schema.attributes.items())
    )
    inputs = _parameters(schema.inputs, schema.min_input, schema.max_input)
    return " ".join((inputs, _parameters(schema.outputs, schema.min_output, schema.max_output), *attributes))


def _parameters(parameters: list[Any], least: int, most: int) -> str:
    letters = "".join(LETTERS[parameter.option.name] for parameter in parameters)
    if most != (INFINITE if letters.endswith("V") else len(letters)):
        raise ValueError(f"{letters} may be {most}, which the rows cannot say")
    return f"{least}{letters}"
