"""What many messages have in common: lists, and the keys of their fields.

An unread list exists once, and is copied when it is first read. A message is the dictionary of its fields. Copies of a
dictionary share their keys if it is that of an ordinary object, and need half the memory of dictionaries with keys of
their own. A dictionary that gets another key has its own keys from then on.
"""

from __future__ import annotations

from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from formats.ir.model import Fielded, Message, set_fields
from formats.python.collector import collector_paused
from formats.tensordata.sources.source import Source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from formats.ir.model import Undecoded

_new = object.__new__
MOST_COPIED = 1 << 10  # elements that are made at once: the collector looks for garbage as often as that happens
OBJECTS = 1 << 5  # Python makes the dictionaries of further objects smaller, the more objects a class has had


class Alike:
    """The elements of a repeated field that many nodes have, none of them with a message in it.

    They stay undecoded in a node until its field is read, and are copied then. `encoded` has the bytes of the field,
    tags included, or makes them of the elements when they are first needed.
    """

    has_references = False
    is_flat = True

    def __init__(self, elements: list[Element], encoded: bytes | Callable[[list[Any]], bytes]) -> None:
        self._elements = elements
        self._encoded = encoded
        self._copies: list[list[Any]] = []
        self._more = 1

    def __eq__(self, other: object) -> bool:
        """Whether the other has the same bytes; elements of other bytes can be equal, too."""
        return isinstance(other, Alike) and (self is other or self.segments == other.segments)

    __hash__ = object.__hash__

    @property
    def is_of_ir(self) -> bool:
        """Whether the elements are those of the IR."""
        return all(issubclass(element.message_class, Message) for element in self._elements)

    @cached_property
    def segments(self) -> list[bytes | Source]:
        """The bytes of the field."""
        return [self._encoded if isinstance(self._encoded, bytes) else self._encoded(self._copy())]

    @cached_property
    def largest_nbytes(self) -> int:
        """The size of the field in bytes."""
        (field,) = self.segments
        return len(field) if isinstance(field, bytes) else field.nbytes

    def decode(self) -> list[Any]:
        """The elements, new, and their lists too."""
        if self._more == 1:  # as in most small models
            self._more = 2
            return self._copy()
        try:
            return self._copies.pop()
        except IndexError:  # none is left, and another thread may have taken the last
            with collector_paused():  # which otherwise would look at all nodes again and again
                first, *self._copies = [self._copy() for _ in range(self._more)]
            self._more = min(2 * self._more, MOST_COPIED // (len(self._elements) + 1) + 1)
            return first

    def differing(self, other: Undecoded) -> None:
        """Nothing: nodes have few attributes."""

    def _copy(self) -> list[Any]:
        copies = []
        for message_class, fields, lists in self._elements:
            message = _new(message_class)
            values = fields.copy()
            set_fields(message, values)
            for name, copy in lists:
                values[name] = copy(values[name])
            copies.append(message)
        return copies


class Element(NamedTuple):
    """A message whose fields hold no message: values that never change, and lists of such values."""

    message_class: type[Any]
    fields: dict[str, Any]
    lists: tuple[tuple[str, Callable[[Any], list[Any]]], ...]  # the names of lists, each with what copies it


def elements_of(messages: Iterable[Any]) -> list[Element] | None:
    """The elements of a field, which are not changed; `None` if one of them is no message, or has a message in it."""
    found: list[Element] = []
    for message in messages:
        if not isinstance(message, Message):
            return None
        fields: dict[str, Any] = {}
        lists: list[tuple[str, Callable[[Any], list[Any]]]] = []
        for name, value in vars(message).items():
            is_list = isinstance(value, list)
            if isinstance(value[-1] if is_list and value else value, Fielded | Source):
                return None
            fields[name] = value[:] if is_list else value
            lists += [(name, list)] * is_list
        found.append(Element(type(message), fields, tuple(lists)))
    return found


@cache
def shared_keys(names: tuple[str, ...], later: tuple[str, ...] = ()) -> dict[str, Any]:
    """A dictionary to copy with `copy`, never to change: it has these keys in this order, each with `None`.

    Copies can also get the keys of `later` without losing the others, in this order.
    """

    class Fields:
        pass

    for _ in range(OBJECTS):
        fields = Fields()
        for name in (*names, *later):
            setattr(fields, name, None)
    fields = Fields()
    for name in names:
        setattr(fields, name, None)
    return vars(fields)


def with_shared_keys(fields: dict[str, Any], later: tuple[str, ...] = ()) -> dict[str, Any]:
    """A dictionary with the same values, to which and with whose copies others with these keys share their keys."""
    shared = shared_keys(tuple(fields), later).copy()
    for name, value in fields.items():  # `update` would give it keys of its own
        shared[name] = value
    return shared
