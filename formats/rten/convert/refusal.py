"""Why a model cannot be written as .rten: every reason with its places, raised as one error."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from formats.errors import UnsupportedError
from formats.ir.model import Node
from formats.words import counted

MAX_PLACES = 3  # places in a message, for one reason


class Refused(Exception):  # noqa: N818 - it is no error of the program: the legaliser records it as a Refusal
    """A node cannot be rewritten; the reason is the text after "it" in a message."""

    def __init__(self, reason: str, remedy: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.remedy = remedy


def not_well_formed(node: Node, error: Exception) -> str:
    """The text after the name of a node whose inputs, outputs or attributes are not those of its operator."""
    if isinstance(error, Refused):
        return f"is not well formed: it {error.reason}"
    parts = [f"{counted(len(node.input), 'input')}, {counted(len(node.output), 'output')}"]
    if node.attribute:
        parts.append(f"the attributes {', '.join(sorted(attribute.name or '?' for attribute in node.attribute))}")
    return f"is not well formed: its operator does not allow {' and '.join(parts)[:200]} with these types and shapes"


class Refusal(NamedTuple):
    """One node or value that RTen does not support, or for which RTen would compute something else."""

    op_type: str  # "" without an operator
    domain: str
    version: int | None  # of the operator set that the model imports
    where: str
    reason: str
    remedy: str = ""


class RefusalError(UnsupportedError):
    """A model needs what RTen does not support.

    `refusals` are all these places. `reasons` are texts, one for each reason.
    """

    def __init__(self, refusals: Iterable[Refusal]) -> None:
        self.refusals = tuple(refusals)
        self.reasons = _reasons(self.refusals)
        title = f"{counted(len(self.refusals), 'part')} of the model cannot be converted for RTen:"
        separator = " " if len(self.reasons) == 1 else "\n  "
        super().__init__(separator.join((title, *self.reasons)))

    def __reduce__(self) -> tuple[object, ...]:
        return RefusalError, (self.refusals,), vars(self)

    def lines(self) -> list[str]:
        """The statement, then one line for each reason. If there is only one reason, all is in one line."""
        if len(self.reasons) == 1:
            return [str(self)]
        head = str(self).removesuffix("".join(f"\n  {reason}" for reason in self.reasons))
        return [head, *(f"  {reason}" for reason in self.reasons)]


def _reasons(refusals: tuple[Refusal, ...]) -> list[str]:
    """One text for each reason, the most frequent reason first, each with its first places."""
    from formats.words import listed

    places: dict[Refusal, list[str]] = {}
    for refusal in refusals:
        places.setdefault(refusal._replace(where=""), []).append(refusal.where)
    texts = []
    for refusal, wheres in sorted(places.items(), key=lambda item: -len(item[1])):
        operator = ""
        if refusal.op_type:
            name = f"{refusal.domain}.{refusal.op_type}" if refusal.domain else refusal.op_type
            operator = f"{name} (opset {refusal.version}): " if refusal.version else f"{name}: "
        remedy = f"; {refusal.remedy}" if refusal.remedy else ""
        texts.append(f"{operator}{refusal.reason}{remedy} [{len(wheres)}: {listed(wheres, MAX_PLACES)}]")
    return texts
