"""The forms of nodes that may stay for RTen's ONNX loader, derived from the specs, and those that a model has.

A form is an operator, or an operator with an attribute (with its value, where it is one of few) or with an optional
input. What the loader reads but no test has run could stay without running.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from formats.ir import ONNX
from formats.ir.model import Graph, Model, Node, entries
from formats.ir.walk import nodes
from formats.onnxpb.operator_sets import form_of
from formats.rten.graph.attributes import find
from formats.rten.operators import BY_DOMAIN, spec_of
from formats.rten.spec import Field, OperatorSpec
from formats.rten.target import Target

Form = tuple[str, ...]
NEWEST = 24  # the operator set of which optional inputs are known


def value_of(field: Field, value: Any) -> str:
    """Return a value of an attribute as part of a form: in words if it is one of few, or "" otherwise."""
    if field.kind is bool:
        return str(int(bool(value)))
    return value if isinstance(value, str) else ""


def forms_of(domain: str, name: str, spec: OperatorSpec, target: Target) -> Iterator[Form]:
    """Yield the forms of an operator that the loader reads."""
    row = spec.row_for(target)
    if row is None or (domain and not spec.onnx_loader.is_native):
        return
    yield (name,)
    for field in row.fields:
        if field.kind is Graph or field.required:
            continue
        if field.kind is bool:
            yield (name, field.onnx_name, str(1 - int(field.default or 0)))
        elif field.choices:
            values = dict.fromkeys(value_of(field, value) for value in field.choices if value != field.default)
            yield from ((name, field.onnx_name, value) for value in values)
        else:
            yield (name, field.onnx_name, "")
    known = None if domain else form_of(ONNX, name, NEWEST)
    if known is not None and known.inputs is not None and row.inputs is not None:
        letters = known.inputs.letters[: row.inputs]
        yield from ((name, f"input {place}") for place, letter in enumerate(letters) if letter == "O")


def all_forms(target: Target) -> set[Form]:
    """Return the forms of all operators that the loader reads."""
    return {form for (domain, name), spec in BY_DOMAIN.items() for form in forms_of(domain, name, spec, target)}


def forms_in(models: Iterable[Model], target: Target) -> set[Form]:
    """Return the forms that the nodes of models have."""
    return {form for model in models for _, node in nodes(model) for form in _forms_in(node, target)}


def _forms_in(node: Node, target: Target) -> Iterator[Form]:
    spec, name = spec_of(node), node.op_type or ""
    row = None if spec is None else spec.row_for(target)
    if row is None:
        return
    yield (name,)
    for field in row.fields:
        if (found := find(node, field.onnx_name)) is not None:
            value = (found.s or b"").decode() if found.s is not None else found.i
            yield (name, field.onnx_name, value_of(field, value))
    yield from ((name, f"input {place}") for place, given in enumerate(entries(node, "input")) if given)
