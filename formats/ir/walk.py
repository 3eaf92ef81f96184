"""Visits everything of a kind in a model, with the dotted place of each.

Subgraphs, functions, training information and sparse tensors are included, however deep; the order is that of the
message's fields and the same every time.
"""

from __future__ import annotations

from dataclasses import fields
from math import inf
from typing import TYPE_CHECKING, Any, TypeVar

from formats.errors import EncodeError
from formats.ir.model import (
    EXTERNAL,
    Attribute,
    Function,
    Graph,
    Model,
    Node,
    SparseTensor,
    Tensor,
    TrainingInfo,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from formats.ir.model import Undecoded

T = TypeVar("T")

MAX_DEPTH = 1000  # of messages in messages, far beyond what any file may have
MAX_NAME, MAX_PLACE = 80, 500  # characters of a name in a place, and of a place

# The messages that can hold nodes, graphs or tensors, and so are worth entering.
_CONTAINERS = (Model, Graph, Node, Attribute, Function, TrainingInfo, SparseTensor)


def _inner_fields(message_class: type[Any]) -> tuple[str, ...]:
    """The fields of a message that can lead to a container or a tensor."""
    names = tuple(c.__name__ for c in (*_CONTAINERS, Tensor))
    return tuple(
        field.name
        for field in fields(message_class)
        if any(field.type in (f"{name} | None", f"list[{name}]") for name in names)
    )


_INNER_FIELDS: dict[Any, tuple[str, ...]] = {cls: _inner_fields(cls) for cls in _CONTAINERS}
# What a message has whose inner fields are not all empty; most attributes have none of it, and need no visit.
_WAYS_IN = {cls: frozenset((*names, "undecoded")) for cls, names in _INNER_FIELDS.items()}
_NO_WAY_IN: frozenset[str] = frozenset()


def visit(
    message: Any,
    wanted: type[T],
    where: str = "",
    enter: Callable[[Undecoded], object] | None = None,
    only: Callable[[T], bool] = lambda _: True,
) -> Iterator[tuple[str, T]]:
    """Every message of class `wanted` in `message`, itself included, as (where, message).

    `where` is the dotted place of `message` itself, by default the root. Lists that are still undecoded are decoded,
    unless `enter` says of one that it need not be. `only` may pass over messages, before their places are put together.

    Raises: EncodeError for a message that contains itself; DecodeError if a list cannot be decoded.
    """
    inner: Iterator[tuple[Any, Any]] = iter([(where, message)])
    stack = [inner]  # what is left to visit at each depth: as much as is deep, however long the lists are
    while stack:
        place, item = next(stack[-1], (None, None))
        if item is None:
            stack.pop()
            continue
        if isinstance(item, wanted) and only(item):
            yield _dotted(place), item
        if not isinstance(item, Tensor):
            if len(stack) > MAX_DEPTH:
                raise EncodeError("the model is nested too deeply, or contains itself")
            stack.append(_inner(place, item, wanted, enter, only))


def _inner(
    outer: Any,
    message: Any,
    wanted: type[T],
    enter: Callable[[Undecoded], object] | None,
    only: Callable[[T], bool],
) -> Iterator[tuple[Any, Any]]:
    """What is right in a message and wanted, or may have in it what is, each with its place as `_dotted` takes it."""
    all_of_nodes = enter is None  # then attributes may be wanted themselves
    for name in _INNER_FIELDS.get(type(message), ()):
        value = vars(message).get(name)
        if value is None and (left := message.undecoded.get(name)) and (enter is None or enter(left)):
            value = getattr(message, name)
        if isinstance(value, list):
            if wanted is Tensor and value and type(value[0]) is Tensor:
                yield from _tensors_in(outer, name, value, only)
                continue
            for index, entry in enumerate(value):
                if (isinstance(entry, wanted) and only(entry)) or _has_way_in(entry, all_of_nodes):
                    yield [outer, name, index, entry, None], entry
        elif value is not None:
            yield [outer, name, None, value, None], value


def _tensors_in(outer: Any, name: str, tensors: list[Any], only: Callable[[Any], bool]) -> Iterator[tuple[str, Any]]:
    """Those of a list of tensors that are wanted, each with the text of its place: there may be very many."""
    where = None
    for index, tensor in enumerate(tensors):
        if only(tensor):
            where = _dotted(outer) if where is None else where
            yield inner_place(where, name, index), tensor


def _has_way_in(message: Any, all_of_nodes: bool) -> bool:
    """Whether a message may have in it what is wanted; a node has not if its attributes are numbers and texts."""
    held = vars(message)
    if _WAYS_IN.get(type(message), _NO_WAY_IN).isdisjoint(held):
        return False
    if all_of_nodes or type(message) is not Node:
        return True
    if "attribute" in held:
        return not all(_WAYS_IN[Attribute].isdisjoint(vars(attribute)) for attribute in held["attribute"])
    left = message.undecoded.get("attribute")
    return left is not None and not left.is_flat


def _dotted(place: Any) -> str:
    """The text of a place: itself, or [outer place, field, index, message, text], where the text is known or `None`.

    What is found out of the places around it stays there, for all that follow in the same list.
    """
    unknown: list[list[Any]] = []
    while not isinstance(place, str) and place[-1] is None:
        unknown.append(place)
        place = place[0]
    text: str = place if isinstance(place, str) else place[-1]
    for step in reversed(unknown):
        _, name, index, message, _ = step
        text = step[-1] = inner_place(text, name, index, message)
    return text


def inner_place(where: str, field: str, index: int | None = None, message: Any = None) -> str:
    """The dotted place of what is in the message at `where`; an attribute is told by its name.

    It has a bounded length, whatever depth and names a file has: many messages may be at places that begin alike.
    """
    if isinstance(message, Attribute):
        name = message.name or ""
        step = f'{field}["{name if len(name) <= MAX_NAME else f"{name[:MAX_NAME]}..."}"]'
    else:
        step = field if index is None else f"{field}[{index}]"
    place = f"{where}.{step}" if where else step
    return place if len(place) <= MAX_PLACE else f"{place[: MAX_PLACE // 2]}...{place[3 - MAX_PLACE // 2 :]}"


def tensors(message: Any) -> Iterator[tuple[str, Tensor]]:
    """Every tensor of a model or a part of one: initialisers, attributes, and the two halves of sparse tensors."""
    return visit(message, Tensor, enter=_is_deep)


def tensor_named(model: Model, name: str) -> Tensor:
    """The tensor of a model with a name or place, as `Model.tensor` promises."""
    for initializer in model.graph.initializer if model.graph else ():
        if initializer.name == name:
            return initializer
    every = list(tensors(model))
    found = [(where, tensor) for where, tensor in every if name in (where, tensor.name)]
    if len(found) == 1:
        return found[0][1]
    if found:
        places = ", ".join(where for where, _ in found)
        raise LookupError(f"{len(found)} tensors are called {name!r}; their places are {places}")
    from difflib import get_close_matches

    names = [text for where, tensor in every for text in (tensor.name, where) if text]
    near = get_close_matches(name, names, 3)
    raise LookupError(f"no tensor is called {name!r}{'; there is ' if near else ''}{', '.join(near)}")


def external_tensors(
    message: Any, passed_over: Callable[[Undecoded], object] = lambda _: None
) -> Iterator[tuple[str, Tensor]]:
    """Every tensor that has external data; lists where none has any stay undecoded, and `passed_over` sees them."""
    return visit(message, Tensor, enter=lambda left: left.has_references or passed_over(left), only=_is_external)


def movable_tensors(
    message: Any, least_nbytes: float = inf, passed_over: Callable[[Undecoded], object] = lambda _: None
) -> Iterator[tuple[str, Tensor]]:
    """Every tensor that has external data or `least_nbytes` of its own, in bytes, and maybe others.

    Lists that are still undecoded stay so, unless there can be such a tensor in them; `passed_over` sees these.
    """

    def enter(left: Undecoded) -> object:
        return left.has_references or left.largest_nbytes >= least_nbytes or passed_over(left)

    return visit(message, Tensor, enter=enter)


def _is_deep(left: Undecoded) -> bool:
    return not left.is_flat


def _is_external(tensor: Tensor) -> bool:
    return tensor.data_location == EXTERNAL


def graphs(message: Any) -> Iterator[tuple[str, Graph]]:
    """Every graph: the model's, its subgraphs and those of training information."""
    return visit(message, Graph, enter=_is_deep)


def nodes(message: Any) -> Iterator[tuple[str, Node]]:
    """Every node of every graph and function."""
    return visit(message, Node, enter=_is_deep)
