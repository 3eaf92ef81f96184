"""What modules take from modules above them: the `__init__` of their package hands it in.

So a module can use what it may not import, because that imports the module itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


class Handed(Generic[T]):
    """A value that a package hands in; a call returns it."""

    def __init__(self) -> None:
        self._load: Callable[[], T] | None = None

    def hand_in(self, load: Callable[[], T]) -> None:
        """Set the function that returns the value, which may import modules; it is called at each use."""
        self._load = load

    def __call__(self) -> T:
        """The value."""
        assert self._load is not None, "the package's __init__ hands it in"
        return self._load()
