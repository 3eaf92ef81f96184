"""Visits all messages of a class in a model, with the dotted place of each.

Subgraphs, functions, training information and sparse tensors are included, at any depth; the order is always that of
the message's fields. Values (`input`, `output`, `value_info`) are not entered: they contain none of these.
"""

from __future__ import annotations

from functools import reduce
from math import inf
from typing import TYPE_CHECKING, Any, TypeVar

from formats.errors import EncodeError
from formats.ir import STANDARD_DOMAINS
from formats.ir.model import EXTERNAL, Attribute, Function, Graph, Model, Node, SparseTensor, Tensor, TrainingInfo

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from formats.ir.model import Undecoded

T = TypeVar("T")

MAX_DEPTH = 1000  # of nested messages, far more than any file may have
MAX_NAME, MAX_PLACE = 80, 500  # characters of a name in a place, and of a place

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
    returns false for one. `only` can skip messages before their places are made.

    Raises: EncodeError for a message that contains itself; DecodeError if a list cannot be decoded.
    """
    stack: list[Iterator[tuple[str, Any]]] = [iter([(where, message)])]  # the rest at each depth
    while stack:
        place, item = next(stack[-1], ("", None))
        if item is None:
            stack.pop()
            continue
        if isinstance(item, wanted) and only(item):
            yield place, item
        if not isinstance(item, Tensor):
            if len(stack) > MAX_DEPTH:
                raise EncodeError("the model is nested too deeply, or contains itself")
            stack.append(_inner(place, item, wanted, enter, only))


def _inner(
    where: str,
    message: Any,
    wanted: type[T],
    enter: Callable[[Undecoded], object] | None,
    only: Callable[[T], bool],
) -> Iterator[tuple[str, Any]]:
    """The wanted messages directly in a message, and those that may contain one, each with its place."""
    all_of_nodes = issubclass(Attribute, wanted) or issubclass(Node, wanted)
    for name in _INNER_FIELDS.get(type(message), ()):
        value = vars(message).get(name)
        if value is None and (undecoded := message.undecoded.get(name)) and (enter is None or enter(undecoded)):
            value = getattr(message, name)
        if isinstance(value, list):
            # A node whose attributes are only numbers and texts contains nothing but these attributes.
            skips = bool(value) and type(value[0]) is Node and not all_of_nodes
            entries = nodes_with_messages(value) if skips else enumerate(value)
            for index, entry in entries:
                if (isinstance(entry, wanted) and only(entry)) or _has_way_in(entry):
                    yield inner_place(where, name, index, entry), entry
        elif value is not None:
            yield inner_place(where, name, None, value), value


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
    matches = [(where, tensor) for where, tensor in every if name in (where, tensor.name)]
    if not matches:
        constants = constant_names(model)
        matches = [(where, tensor) for where, tensor in every if name == constants.get(where)]
    if len(matches) == 1:
        return matches[0][1]
    if matches:
        places = ", ".join(where for where, _ in matches)
        raise LookupError(f"{len(matches)} tensors are called {name!r}; their places are {places}")
    from difflib import get_close_matches

    names = [text for where, tensor in every for text in (tensor.name, where) if text]
    near = get_close_matches(name, names, 3)
    raise LookupError(f"no tensor is called {name!r}{'; there is ' if near else ''}{', '.join(near)}")


def external_tensors(
    message: Any, passed_over: Callable[[Undecoded], object] = lambda _: None
) -> Iterator[tuple[str, Tensor]]:
    """Every tensor with external data; lists without any stay undecoded, and `passed_over` is called with them."""
    return visit(
        message, Tensor, enter=lambda undecoded: undecoded.has_references or passed_over(undecoded), only=is_external
    )


def movable_tensors(
    message: Any, least_nbytes: float = inf, passed_over: Callable[[Undecoded], object] = lambda _: None
) -> Iterator[tuple[str, Tensor]]:
    """Every tensor with external data, or with at least `least_nbytes` bytes of its own, and possibly others.

    Undecoded lists stay so if they cannot contain such a tensor; `passed_over` is called with them.
    """

    def enter(undecoded: Undecoded) -> object:
        return undecoded.has_references or undecoded.largest_nbytes >= least_nbytes or passed_over(undecoded)

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
    names: dict[str, str] = {}
    for where, listed in node_lists(model):
        for index, node in enumerate(listed):
            if node.op_type == "Constant" and node.domain in STANDARD_DOMAINS and node.output:
                place = inner_place(where, "node", index)
                for name, inner in (("value", ("t",)), ("sparse_value", ("sparse_tensor", "values"))):
                    names[reduce(inner_place, (f'attribute["{name}"]', *inner), place)] = node.output[0]
    return names


def nodes(message: Any) -> Iterator[tuple[str, Node]]:
    """Every node of every graph and function."""
    return visit(message, Node)
