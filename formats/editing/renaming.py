"""New names for values, wherever they are used: in subgraphs, captures, functions, annotations and sharding.

Spec: ONNX IR, "Names Within a Graph": a name is unique in a graph and its subgraphs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from formats.editing.options import Edit, EditResult
from formats.editing.scopes import scopes_of
from formats.errors import EditError
from formats.ir.model import Function, entries
from formats.words import counted, nearest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from formats.editing.scopes import Scope
    from formats.ir.model import Graph, Model, Node


class _Place(NamedTuple):
    """A scope in which a name is defined, and the scopes around it."""

    scope: Scope
    outer: tuple[Scope, ...]


def rename_in(model: Model, names: Mapping[str, str]) -> EditResult:
    """Give values of the model new names, all at once, so that two can change places.

    A name means the value of the main graph, or if there is none, the values of all subgraphs and functions with this
    name.

    Raises: EditError if no value has a name, or if a new name would meet or hide another.
    """
    names = {old: new for old, new in names.items() if old != new}
    if not names:
        return EditResult()
    roots = scopes_of(model)
    places = list(_places(roots))
    chosen = {old: _defining(old, places) for old in names}
    _check_new(names, chosen)
    new_names: dict[int, dict[str, str]] = {}  # of what a scope defines, by the id of its message
    for old, found in chosen.items():
        for place in found:
            new_names.setdefault(id(place.scope.message), {})[old] = names[old]
    for old, found in chosen.items():
        for place in found:
            _check(old, names[old], place, new_names)
    counts = dict.fromkeys(names, 0)
    for root in roots:
        _apply(root, {}, new_names, counts)
    if model.graph is not None:
        for info in entries(model, "training_info"):
            _rename_bindings(info, new_names, model.graph)
    edits = (Edit("rename", f"{old} is now {new}, in {counted(counts[old], 'place')}") for old, new in names.items())
    return EditResult(tuple(edits))


def _places(roots: list[Scope]) -> Iterator[_Place]:
    stack = [_Place(root, ()) for root in reversed(roots)]
    while stack:
        place = stack.pop()
        yield place
        stack.extend(_Place(inner, (*place.outer, place.scope)) for inner in reversed(place.scope.inner))


def _defining(name: str, places: list[_Place]) -> list[_Place]:
    """Where the value is defined that a name means."""
    if name and name in places[0].scope.defined:
        return places[:1]
    defining = [place for place in places if name in place.scope.defined]
    if not defining:
        raise EditError(f"no value is called {name!r}{nearest(name, *known_names(places[0].scope, places))}")
    return defining


def known_names(main: Scope, places: list[_Place]) -> tuple[list[str], list[str]]:
    """The names of inputs and outputs, and those of all values."""
    graph: Any = main.message
    ends = [value.name for value in (*graph.input, *graph.output)]
    return ends, [*sorted(main.defined), *(name for place in places for name in sorted(place.scope.defined))]


def _check_new(names: Mapping[str, str], chosen: Mapping[str, list[_Place]]) -> None:
    """Raises EditError for a new name that is empty, or that two values in one scope would have."""
    for old, new in names.items():
        if not new:
            raise EditError(f"the new name of {old} is empty")
    for old, new in names.items():
        for other, same in names.items():
            if old < other and new == same and any(_meet(a, b) for a in chosen[old] for b in chosen[other]):
                raise EditError(f"{old} and {other} would both be called {new}; a name belongs to one value")


def _meet(one: _Place, other: _Place) -> bool:
    """Whether one of two scopes is the other, or is in it."""
    around = [*map(id, (*one.outer, one.scope))], [*map(id, (*other.outer, other.scope))]
    return id(one.scope) in around[1] or id(other.scope) in around[0]


def _check(old: str, new: str, place: _Place, new_names: Mapping[int, Mapping[str, str]]) -> None:
    """Raises EditError if the new name of a value in a scope is that of another value which it meets or hides."""

    def is_taken(scope: Scope) -> bool:
        return new in scope.defined and new not in new_names.get(id(scope.message), {})

    if is_taken(place.scope):
        raise EditError(f"{old} cannot be called {new}, the name of another value in {place.scope.where}")
    for scope in place.outer:
        if is_taken(scope):
            raise EditError(
                f"{old} in {place.scope.where} cannot be called {new}: it would hide {new} of {scope.where}"
            )
    known = frozenset().union(*(scope.defined for scope in (*place.outer, place.scope)))
    for scope in place.scope.all_inner():
        if scope is not place.scope and is_taken(scope):
            raise EditError(f"{old} cannot be called {new}: {new} in {scope.where} would hide it")
        if new in scope.used and new not in known and new not in scope.defined:
            raise EditError(f"{old} cannot be called {new}, a name that {scope.where} uses but nothing defines")


def _apply(
    root: Scope, outer: Mapping[str, str], new_names: Mapping[int, Mapping[str, str]], counts: dict[str, int]
) -> None:
    """Rename in a scope and those in it; `outer` are the new names of values around it."""
    stack: list[tuple[Scope, Mapping[str, str]]] = [(root, outer)]
    while stack:
        scope, around = stack.pop()
        own = new_names.get(id(scope.message), {})
        names = {old: new for old, new in around.items() if old not in scope.defined} | dict(own)
        if names:
            Renamer(names, counts).rename(scope.message)
        stack.extend((inner, names) for inner in scope.inner)


class Renamer:
    """Replaces names in the messages of one scope, and counts where."""

    def __init__(self, names: Mapping[str, str], counts: dict[str, int]) -> None:
        self._names, self._counts = names, counts

    def rename(self, scope: Graph | Function) -> None:
        """Replace the names in a graph or function, but not in subgraphs."""
        for node in scope.node:
            self._rename_node(node)
        if isinstance(scope, Function):
            self._replace(scope.input)
            self._replace(scope.output)
        else:
            for sparse in entries(scope, "sparse_initializer"):
                self._set(sparse.values, "name")
            for message in (*scope.input, *scope.output, *scope.initializer):
                self._set(message, "name")
            for annotation in entries(scope, "quantization_annotation"):
                self._set(annotation, "tensor_name")
                for entry in annotation.quant_parameter_tensor_names:
                    self._set(entry, "value")
        for value in entries(scope, "value_info"):
            self._set(value, "name")

    def _rename_node(self, node: Node) -> None:
        self._replace(node.input)
        self._replace(node.output)
        for configuration in entries(node, "device_configurations"):
            for spec in configuration.sharding_spec:
                self._set(spec, "tensor_name")

    def _replace(self, names: list[str]) -> None:
        if not self._names.keys().isdisjoint(names):
            for index, name in enumerate(names):
                if name in self._names:
                    names[index] = self._new(name)

    def _set(self, message: Any, field: str) -> None:
        name = vars(message).get(field) if message is not None else None
        if name is not None and name in self._names:
            setattr(message, field, self._new(name))

    def _new(self, name: str) -> str:
        self._counts[name] = self._counts.get(name, 0) + 1
        return self._names[name]


def _rename_bindings(info: Any, new_names: Mapping[int, Mapping[str, str]], main: Graph) -> None:
    """Rename in the bindings of training: keys are initializers of the model, values are outputs of a graph."""
    of_main = new_names.get(id(main), {})
    of_algorithm = new_names.get(id(info.algorithm), {}) if info.algorithm is not None else {}
    of_initialization = new_names.get(id(info.initialization), {}) if info.initialization is not None else {}
    for bindings, outputs in (
        (entries(info, "initialization_binding"), of_initialization),
        (entries(info, "update_binding"), {**of_main, **of_algorithm}),
    ):
        for entry in bindings:
            entry.key = {**of_main, **of_algorithm}.get(entry.key, entry.key)
            entry.value = outputs.get(entry.value, entry.value)
