"""What an edit did, as data: for reports."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from formats.tensordata.plan import Loss


class Edit(NamedTuple):
    """One thing that an edit did: the option that asked for it, and a sentence."""

    kind: str
    detail: str
    short: str = ""  # the sentence with a long list cut, if `detail` has one

    @property
    def summary(self) -> str:
        """The sentence with long lists cut."""
        return self.short or self.detail

    def to_json(self) -> dict[str, str]:
        """The edit in strings."""
        return {"kind": self.kind, "detail": self.detail}


class Done(NamedTuple):
    """What several edits did, and what they dropped."""

    edits: tuple[Edit, ...] = ()
    losses: tuple[Loss, ...] = ()

    def __add__(self, other: object) -> Done:
        """Both."""
        if not isinstance(other, Done):
            return NotImplemented
        return Done(self.edits + other.edits, self.losses + other.losses)


def counted(number: int, noun: str) -> str:
    """A number and its noun: "1 place", "1,000 places"."""
    return f"{number:,} {noun}{'s' * (number != 1)}"
