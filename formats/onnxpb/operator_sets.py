"""What ONNX's operator sets say of an operator in a version: its inputs, outputs and attributes, and their types.

The first lines of `operator_rows.txt` and `operator_types.txt`, next to this module, say how they have it.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from formats.ir import ONNX
from formats.words import cached_if_short, text_beside


class ParameterCounts(NamedTuple):
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


class OperatorForm(NamedTuple):
    """An operator in one version; `inputs` is missing if it is deprecated."""

    inputs: ParameterCounts | None
    outputs: ParameterCounts
    attributes: dict[str, tuple[int, bool]]  # the type of each, and whether it is required


class Parameter(NamedTuple):
    """What an input or output may be: `name` is a type, such as `tensor(float)`, or that of a set of types.

    All parameters with one name have the same type; `is_same` says whether all values of a parameter have, too.
    """

    name: str
    is_same: bool


class TypeSignature(NamedTuple):
    """The types of an operator; `since` is the version in which it got its newest form; there are sets by name."""

    since: int
    inputs: tuple[Parameter, ...]
    outputs: tuple[Parameter, ...]
    sets: dict[str, frozenset[str]]

    def allowed(self, parameter: Parameter) -> frozenset[str]:
        """The types that a parameter may have."""
        return self.sets.get(parameter.name) or frozenset((parameter.name,))

    def may_be_tensor(self, parameter: Parameter) -> bool:
        """Whether a tensor is among the types that a parameter may have."""
        return any(text.startswith("tensor(") for text in self.allowed(parameter))


def _sections(name: str) -> dict[str, list[str]]:
    """The lines of a file next to this module, by the heading in brackets above them."""
    sections: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in text_beside(__name__, name).splitlines():
        if line.startswith("["):
            lines = sections[line[1:-1]] = []
        else:
            lines.append(line)
    return sections


NEWEST = {domain: int(version) for domain, version in map(str.split, _sections("operator_rows.txt")["newest"])}
_DEPRECATED = OperatorForm(None, ParameterCounts(0, ""), {})


@cached_if_short
def _rows(file: str, domain: str) -> dict[str, list[str]]:
    """The forms of each operator of a domain, by its name."""
    rows = (line.split(" ; ") for line in _sections(file).get(domain, ()))
    return {name: forms for name, *forms in rows}


def newest(domain: str) -> int | None:
    """The newest known version of an operator set, or `None` if it is none of ONNX's."""
    return NEWEST.get(domain)


@cached_if_short
def versions_of(domain: str, name: str) -> dict[int, OperatorForm]:
    """The forms of an operator, by the version that has each first; none if the set never had the operator."""
    forms = (form.split(" ", 1) for form in _rows("operator_rows.txt", domain).get(name, ()))
    return {int(first): _form(rest) for first, rest in forms}


def form_of(domain: str, name: str, version: int) -> OperatorForm | None:
    """The form of an operator in a version of its set, or `None` if that version does not have it."""
    forms = versions_of(domain, name)
    return next((forms[first] for first in sorted(forms, reverse=True) if first <= version), None)


def _form(text: str) -> OperatorForm:
    if text == "-":
        return _DEPRECATED
    inputs, outputs, *attributes = text.split(" ")
    return OperatorForm(_parameters(inputs), _parameters(outputs), dict(map(_attribute, attributes)))


def _parameters(text: str) -> ParameterCounts:
    return ParameterCounts(int(text[0]), text[1:])


def _attribute(text: str) -> tuple[str, tuple[int, bool]]:
    name, number = text.split(":")
    return name, (int(number.rstrip("!")), number.endswith("!"))


@cached_if_short
def signatures_of(domain: str, name: str) -> dict[int, TypeSignature | None]:
    """The types of an operator by the version that has each first; `None` where it is deprecated."""
    signatures: dict[int, TypeSignature | None] = {}
    text = ""
    for form in _rows("operator_types.txt", domain).get(name, ()):
        number, _, changed = form.partition(" ")
        version, text = int(number.rstrip("=f")), changed or text
        signatures[version] = None if text == "!" else _signature(version, text)
    return signatures


@cached_if_short
def _marks(domain: str, name: str) -> dict[int, str]:
    """What stands behind the number of each version of an operator."""
    numbers = (form.partition(" ")[0] for form in _rows("operator_types.txt", domain).get(name, ()))
    return {int(number.rstrip("=f")): number.lstrip("0123456789") for number in numbers}


def is_same_text(domain: str, name: str, version: int) -> bool:
    """Whether a version of an operator differs from the one before it in types only."""
    return "=" in _marks(domain, name).get(version, "")


def is_function(domain: str, name: str, version: int) -> bool:
    """Whether ONNX defines an operator by others, in the version in which it got its form."""
    return "f" in _marks(domain, name).get(version, "")


@cached_if_short
def signature_of(domain: str, name: str, version: int) -> TypeSignature | None:
    """The types of an operator in a version of its set, or `None` if that version does not have it."""
    signatures = signatures_of(domain or ONNX, name)
    return next((signatures[first] for first in sorted(signatures, reverse=True) if first <= version), None)


def _signature(since: int, text: str) -> TypeSignature:
    inputs, outputs, *sets = text.split(" ")
    numbers = (text.split("=") for text in sets)
    return TypeSignature(
        since, _typed(inputs), _typed(outputs), {name: _sets()[int(number)] for name, number in numbers}
    )


def _typed(text: str) -> tuple[Parameter, ...]:
    names = () if text == "-" else text.split(",")
    return tuple(Parameter(name.rstrip("*"), not name.endswith("*")) for name in names)


@cache
def _sets() -> list[frozenset[str]]:
    """The sets of types that inputs and outputs may have."""
    sets = (line.split(" ") for line in _sections("operator_types.txt")["sets"])
    return [frozenset(word if "(" in word else f"tensor({word})" for word in words) for words in sets]
