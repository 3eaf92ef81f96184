"""The names that a model uses, and new ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable


class Names:
    """The names that are taken."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)
        self._numbers: dict[str, int] = {}

    def take(self, names: Iterable[str]) -> None:
        """Reserve names, so that no new name equals one of them."""
        self._taken.update(names)

    def new(self, name: str, avoid: Collection[str] = ()) -> str:
        """Reserve and return the name, with the first free number added if it is taken or must be avoided."""
        if name not in self._taken and name not in avoid:
            self._taken.add(name)
            return name
        candidate, number = name, self._numbers.get(name, 0)
        while candidate in self._taken or candidate in avoid:
            number += 1
            candidate = f"{name}_{number}"
        self._numbers[name] = number
        self._taken.add(candidate)
        return candidate
