"""Visits all messages of a class in a model, with the dotted place of each.

Subgraphs, functions, training information and sparse tensors are included, at any depth; the order is always that of
the message's fields.
"""

from __future__ import annotations

from functools import reduce
from math import inf
from typing import TYPE_CHECKING, Any, TypeVar

from formats.errors import EncodeError
from formats.ir.model import (
    EXTERNAL,
    STANDARD_DOMAINS,
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
    from collections.abc import Callable, Iterable, Iterator

    from formats.ir.model import Undecoded

T = TypeVar("T")

MAX_DEPTH = 1000  # of nested messages, far more than any file may have
MAX_NAME, MAX_PLACE = 80, 500  # characters of a name in a place, and of a place
SHORT_PLACE = MAX_PLACE - 20  # with any index behind it, it is not too long

# The messages that can contain nodes, graphs or tensors, and therefore must be searched.
_CONTAINERS = (Model, Graph, Node, Attribute, Function, TrainingInfo, SparseTensor)


def _inner_fields(message_class: type[Any]) -> tuple[str, ...]:
    """The fields of a message that can lead to a container or a tensor."""
    names = tuple(c.__name__ for c in (*_CONTAINERS, Tensor))
    return tuple(
        field
        for field, kind in message_class.__annotations__.items()
        if any(kind in (f"Submessage[{name}]", f"list[{name}]") for name in names)
    )


_INNER_FIELDS: dict[Any, tuple[str, ...]] = {cls: _inner_fields(cls) for cls in _CONTAINERS}
# The keys of a message whose inner fields are not all empty; most attributes have none, and need no visit.
_WAYS_IN = {cls: frozenset((*names, "undecoded")) for cls, names in _INNER_FIELDS.items()}
_NO_WAY_IN: frozenset[str] = frozenset()


def visit(
    message: Any,
    wanted: type[T],
    where: str = "",
    enter: Callable[[Undecoded], object] | None = None,
    only: Callable[[T], bool] = lambda _: True,
) -> Iterator[tuple[str, T]]:
    """Every message of class `wanted` in `message`, including itself, as (where, message).

    `where` is the dotted place of `message` itself, by default the root. Undecoded lists are decoded, except if `enter`
    returns false for one. `only` can skip messages before their places are computed.

    Raises: EncodeError for a message that contains itself; DecodeError if a list cannot be decoded.
    """
    inner: Iterator[tuple[Any, Any]] = iter([(where, message)])
    stack = [inner]  # the rest at each depth: it grows with the depth, not with the length of lists
    while stack:
        place, item = next(stack[-1], (None, None))
        if item is None:
            stack.pop()
            continue
        if type(item) is list:
            yield from _tensors_in(place, item, only)
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
    """The wanted messages directly in a message, and those that may contain one, each with its place for `_dotted`.

    Wanted tensors come as a list, with the place of the message and the name of the field: there may be very many.
    """
    all_of_nodes = issubclass(Attribute, wanted) or issubclass(Node, wanted)
    for name in _INNER_FIELDS.get(type(message), ()):
        value = vars(message).get(name)
        if value is None and (left := message.undecoded.get(name)) and (enter is None or enter(left)):
            value = getattr(message, name)
        if isinstance(value, list):
            if wanted is Tensor and value and type(value[0]) is Tensor:
                yield (outer, name), value
                continue
            if value and type(value[0]) is Node and not all_of_nodes:
                for index, node in nodes_with_messages(value):
                    yield [outer, name, index, node, None], node
                continue
            for index, entry in enumerate(value):
                if (isinstance(entry, wanted) and only(entry)) or _has_way_in(entry):
                    yield [outer, name, index, entry, None], entry
        elif value is not None:
            yield [outer, name, None, value, None], value


def _tensors_in(field: Any, tensors: list[Any], only: Callable[[Any], bool]) -> Iterator[tuple[str, Any]]:
    """The wanted tensors of a list, each with the text of its place.

    `field` is the place of the message that has the list, and the name of the field.
    """
    outer, name = field
    where = place = ""
    for index, tensor in enumerate(tensors):
        if only(tensor):
            if not place:
                where = _dotted(outer)
                place = inner_place(where, name)
            yield f"{place}[{index}]" if len(place) < SHORT_PLACE else inner_place(where, name, index), tensor


def nodes_with_messages(nodes: Iterable[Node]) -> Iterator[tuple[int, Node]]:
    """The nodes with a message in an attribute, each with its index; those with only numbers and texts are skipped."""
    ways_in = _WAYS_IN[Attribute]
    for index, node in enumerate(nodes):
        attributes = vars(node).get("attribute", ())
        if not all(ways_in.isdisjoint(vars(attribute)) for attribute in attributes):
            yield index, node


def _has_way_in(message: Any) -> bool:
    """Whether a message may contain a wanted one."""
    return not _WAYS_IN.get(type(message), _NO_WAY_IN).isdisjoint(vars(message))


def _dotted(place: Any) -> str:
    """The text of a place: a text, or [outer place, field, index, message, text], with the text or `None`.

    Texts of outer places are stored there, for the following messages of the same list.
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
    """The dotted place of the part of a message at `where`; an attribute is identified by its name.

    It has a limited length, whatever depth and names a file has, because many messages may be at one place.
    """
    if isinstance(message, Attribute):
        name = message.name or ""
        step = f'{field}["{name if len(name) <= MAX_NAME else f"{name[:MAX_NAME]}..."}"]'
    else:
        step = field if index is None else f"{field}[{index}]"
    place = f"{where}.{step}" if where else step
    return place if len(place) <= MAX_PLACE else f"{place[: MAX_PLACE // 2]}...{place[3 - MAX_PLACE // 2 :]}"


def tensors(message: Any) -> Iterator[tuple[str, Tensor]]:
    """Every tensor of a model or a part of it: initialisers, attributes, and the two parts of sparse tensors."""
    return visit(message, Tensor)


def tensor_named(model: Model, name: str) -> Tensor:
    """The tensor of a model with a name or place, as `Model.tensor` promises."""
    for initializer in model.graph.initializer if model.graph else ():
        if initializer.name == name:
            return initializer
    every = list(tensors(model))
    found = [(where, tensor) for where, tensor in every if name in (where, tensor.name)]
    if not found:
        constants = constant_names(model)
        found = [(where, tensor) for where, tensor in every if name == constants.get(where)]
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
    """Every tensor with external data; lists without any stay undecoded, and `passed_over` is called with them."""
    return visit(message, Tensor, enter=lambda left: left.has_references or passed_over(left), only=is_external)


def movable_tensors(
    message: Any, least_nbytes: float = inf, passed_over: Callable[[Undecoded], object] = lambda _: None
) -> Iterator[tuple[str, Tensor]]:
    """Every tensor with external data, or with at least `least_nbytes` bytes of its own, and possibly others.

    Undecoded lists stay so if they cannot contain such a tensor; `passed_over` is called with them.
    """

    def enter(left: Undecoded) -> object:
        return left.has_references or left.largest_nbytes >= least_nbytes or passed_over(left)

    return visit(message, Tensor, enter=enter)


def is_external(tensor: Tensor) -> bool:
    """Whether the bytes of a tensor are in another file."""
    return tensor.data_location == EXTERNAL


def graphs(message: Any) -> Iterator[tuple[str, Graph]]:
    """Every graph: the model's, its subgraphs and those of training information."""
    return visit(message, Graph)


def node_lists(model: Model) -> Iterator[tuple[str, list[Node]]]:
    """The nodes of each graph and function, with the place of what has them."""
    yield from ((where, graph.node) for where, graph in graphs(model))
    yield from ((f"functions[{index}]", function.node) for index, function in enumerate(model.functions))


def constant_names(model: Model) -> dict[str, str]:
    """The names of the outputs of Constant nodes, by the places of their tensors."""
    found: dict[str, str] = {}
    for where, listed in node_lists(model):
        for index, node in enumerate(listed):
            if node.op_type == "Constant" and node.domain in STANDARD_DOMAINS and node.output:
                place = inner_place(where, "node", index)
                for name, inner in (("value", ("t",)), ("sparse_value", ("sparse_tensor", "values"))):
                    found[reduce(inner_place, (f'attribute["{name}"]', *inner), place)] = node.output[0]
    return found


def nodes(message: Any) -> Iterator[tuple[str, Node]]:
    """Every node of every graph and function."""
    return visit(message, Node)
