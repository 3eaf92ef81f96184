"""What ONNX's operator sets say of an operator in a version: its inputs, outputs and attributes, and their types."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from formats.onnxpb import operator_types
from formats.onnxpb.operator_rows import NEWEST, ROWS

ONNX = "ai.onnx"  # which a model may also write as ""


class Parameters(NamedTuple):
    """The inputs or the outputs of an operator: the fewest, and for each `S` single, `O` optional, `V` any number."""

    least: int
    letters: str

    @property
    def most(self) -> float:
        """The largest number."""
        return float("inf") if self.letters.endswith("V") else len(self.letters)

    def __str__(self) -> str:
        if self.most == self.least:
            return str(self.least)
        return f"at least {self.least}" if self.most == float("inf") else f"{self.least} to {self.most}"


class Form(NamedTuple):
    """An operator in one version; `inputs` is missing if it is deprecated."""

    inputs: Parameters | None
    outputs: Parameters
    attributes: dict[str, tuple[int, bool]]  # the type of each, and whether it is required


class Parameter(NamedTuple):
    """What an input or output may be: `name` is a type, such as `tensor(float)`, or that of a set of types.

    All parameters with one name have the same type; `is_same` says whether all values of a parameter have, too.
    """

    name: str
    is_same: bool


class Signature(NamedTuple):
    """The types of an operator; `since` is the version in which it got its newest form; there are sets by name."""

    since: int
    inputs: tuple[Parameter, ...]
    outputs: tuple[Parameter, ...]
    sets: dict[str, frozenset[str]]

    def allowed(self, parameter: Parameter) -> frozenset[str]:
        """The types that a parameter may have."""
        return self.sets.get(parameter.name) or frozenset((parameter.name,))


_DEPRECATED = Form(None, Parameters(0, ""), {})


def newest(domain: str) -> int | None:
    """The newest known version of an operator set, or `None` if it is none of ONNX's."""
    return NEWEST.get(domain)


@cache
def _rows(domain: str) -> dict[str, str]:
    return dict(line.split(" ; ", 1) for line in ROWS[domain].splitlines())


@cache
def versions_of(domain: str, name: str) -> dict[int, Form]:
    """The forms of an operator, by the version that has each first; none if the set never had the operator."""
    row = _rows(domain).get(name, "")
    return {int(first): _form(rest) for first, rest in (form.split(" ", 1) for form in row.split(" ; ") if form)}


def form_of(domain: str, name: str, version: int) -> Form | None:
    """The form of an operator in a version of its set, or `None` if that version does not have it."""
    forms = versions_of(domain, name)
    return next((forms[first] for first in sorted(forms, reverse=True) if first <= version), None)


def _form(text: str) -> Form:
    if text == "-":
        return _DEPRECATED
    inputs, outputs, *attributes = text.split(" ")
    return Form(_parameters(inputs), _parameters(outputs), dict(map(_attribute, attributes)))


def _parameters(text: str) -> Parameters:
    return Parameters(int(text[0]), text[1:])


def _attribute(text: str) -> tuple[str, tuple[int, bool]]:
    name, number = text.split(":")
    return name, (int(number.rstrip("!")), number.endswith("!"))


@cache
def _type_rows(domain: str) -> dict[str, str]:
    return dict(line.split(" ; ", 1) for line in operator_types.ROWS.get(domain, "").splitlines())


@cache
def signatures_of(domain: str, name: str) -> dict[int, Signature | None]:
    """The types of an operator by the version that has each first; `None` where it is deprecated."""
    found: dict[int, Signature | None] = {}
    text = ""
    for form in filter(None, _type_rows(domain).get(name, "").split(" ; ")):
        version, _, own = form.partition(" ")
        text = own or text
        found[int(version)] = None if text == "!" else _signature(int(version), text)
    return found


@cache
def signature_of(domain: str, name: str, version: int) -> Signature | None:
    """The types of an operator in a version of its set, or `None` if that version does not have it."""
    found = signatures_of(domain or ONNX, name)
    return next((found[first] for first in sorted(found, reverse=True) if first <= version), None)


def _signature(since: int, text: str) -> Signature:
    inputs, outputs, *sets = text.split(" ")
    named = (each.split("=") for each in sets)
    return Signature(since, _typed(inputs), _typed(outputs), {name: _set(int(number)) for name, number in named})


def _typed(text: str) -> tuple[Parameter, ...]:
    names = () if text == "-" else text.split(",")
    return tuple(Parameter(name.rstrip("*"), not name.endswith("*")) for name in names)


@cache
def _set(number: int) -> frozenset[str]:
    words = operator_types.SETS.splitlines()[number].split(" ")
    return frozenset(word if "(" in word else f"tensor({word})" for word in words)
