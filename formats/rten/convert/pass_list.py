"""What a pass is. A conversion runs a list of them, one after the other, on the same work."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

Work = TypeVar("Work")


@dataclass(frozen=True, slots=True)
class Pass(Generic[Work]):
    """A step with one concern: its name, what it does, and the function that does it."""

    name: str
    does: str
    apply: Callable[[Work], None]


def run(passes: Iterable[Pass[Work]], work: Work) -> None:
    """Run the passes in their order. Each reads and changes the work only."""
    for step in passes:
        step.apply(work)
