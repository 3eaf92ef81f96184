"""The forms of operators in all versions: their inputs, the types of their outputs, defaults, and kernels on the CPU.

`operators.txt` has the operators of ONNX and of onnxruntime; its first lines say how.
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any, NamedTuple

from formats.ir import ONNX
from formats.ir.model import VALUE_FIELDS, Attribute, AttributeType
from formats.onnxruntime import CHANNELS_LAST
from formats.words import cached_if_short, text_beside


class Operator(NamedTuple):
    """An operator in the version in which it got its form."""

    since_version: int
    inputs: int  # formal ones
    outputs: tuple[str, ...]  # for each formal one, where its type comes from
    defaults: tuple[Attribute, ...]
    mark: str  # `f`, `h` or `n`, as the rows say

    def argument_counts(self, count: int) -> list[int]:
        """How many of the given inputs belong to each formal one; all that are left to the last one."""
        if not self.inputs:
            return [count] if count else []
        first = [int(index < count) for index in range(self.inputs - 1)]
        return [*first, count - sum(first)]

    def output(self, index: int) -> str:
        """Where the type of an output comes from: `iN` for that of input N, a number, or `?`; of many, as the last."""
        return self.outputs[min(index, len(self.outputs) - 1)] if self.outputs else "?"


@cache
def _rows() -> dict[tuple[str, str], str]:
    """The versions of each operator, as text, by its domain and its name."""
    rows: dict[tuple[str, str], str] = {}
    domain = ""
    for line in text_beside(__name__, "operators.txt").splitlines():
        if line.startswith("["):
            domain = line.strip("[]")
        elif not line.startswith("#"):
            name, _, versions = line.partition(" ; ")
            rows[domain, name] = versions
    return rows


@cached_if_short
def _versions(domain: str, name: str) -> tuple[tuple[int, str, str], ...]:
    """The versions of an operator, their texts and their marks, the oldest first."""
    versions: list[tuple[int, str, str]] = []
    row = _rows().get((domain, name))
    for part in row.split(" ; ") if row else ():
        version, _, text = part.partition(" ")
        number = version.rstrip("fhn")
        versions.append((int(number), text or versions[-1][1], version[len(number) :]))
    return tuple(versions)


@cached_if_short
def operator(domain: str, name: str, version: int) -> Operator | None:
    """The operator of a domain in a version of its operator set; `None` if nothing is known of it."""
    versions = _versions(ONNX if domain in ("", CHANNELS_LAST) else domain, name)
    up_to_version = [entry for entry in versions if entry[0] <= version]
    if not up_to_version:
        return None
    since, text, mark = up_to_version[-1]
    inputs, outputs, *defaults = text.split(" ")
    letters = () if outputs == "-" else tuple(outputs.split(","))
    return Operator(since, int(inputs), letters, tuple(map(_attribute, defaults)), mark)


def _attribute(text: str) -> Attribute:
    """The attribute of a row, as `axis:2=-1`: its name, the number of its type, and its default as JSON."""
    head, _, value = text.partition("=")
    name, _, number = head.partition(":")
    default: Any = json.loads(value)
    if int(number) in (AttributeType.STRING, AttributeType.STRINGS):
        default = default.encode() if isinstance(default, str) else [text.encode() for text in default]
    return Attribute(name=name, type=int(number), **{VALUE_FIELDS[int(number)]: default})
