"""New names for values, wherever they are used: in subgraphs, captures, functions, annotations and sharding.

Spec: ONNX IR, "Names Within a Graph": a name is unique in a graph and its subgraphs.
"""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from formats.editing.options import Edit, EditResult
from formats.editing.scopes import main_graph, pair_of, scopes_of
from formats.errors import EditError
from formats.ir.model import Function, entries
from formats.options import Typed
from formats.words import counted, nearest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from formats.editing.scopes import NameScope
    from formats.ir.model import Graph, Model, Node


NewNames: TypeAlias = "dict[int, dict[str, str]]"  # by the `id` of a graph or function, those of what it defines


class _Place(NamedTuple):
    """A scope in which a name is defined, and the scopes around it."""

    scope: NameScope
    outer: tuple[NameScope, ...]


def rename_in(model: Model, names: Mapping[str, str]) -> EditResult:
    """Give values of the model new names, all at once, so that two can change places.

    A name means the value of the main graph, or if there is none, the values of all subgraphs and functions with this
    name.

    Raises: EditError if no value has a name, or if a new name would meet or hide another.
    """
    roots = scopes_of(model)
    places = list(_places(roots))
    if any(isinstance(old, Typed) for old in names):
        known = frozenset().union(*(place.scope.defined for place in places))
        names = dict(pair_of(old, new, known) for old, new in names.items())
    names = {old: new for old, new in names.items() if old != new}
    if not names:
        return EditResult()
    chosen = _defining(names, places)
    _check_new(names, chosen)
    new_names: NewNames = {}
    for old, places_of_name in chosen.items():
        for place in places_of_name:
            new_names.setdefault(id(place.scope.message), {})[old] = names[old]
    for root in roots:
        _check(root, new_names)
    counts = dict.fromkeys(names, 0)
    for root in roots:
        apply(root, new_names, counts)
    if model.graph is not None:
        for info in entries(model, "training_info"):
            _rename_bindings(info, new_names, model.graph)
    edits = (Edit("rename", f"{old} is now {new}, in {counted(counts[old], 'place')}") for old, new in names.items())
    return EditResult(tuple(edits))


def _places(roots: list[NameScope]) -> Iterator[_Place]:
    stack = [_Place(root, ()) for root in reversed(roots)]
    while stack:
        place = stack.pop()
        yield place
        stack.extend(_Place(inner, (*place.outer, place.scope)) for inner in reversed(place.scope.inner))


def _defining(names: Mapping[str, str], places: list[_Place]) -> dict[str, list[_Place]]:
    """Where the values are defined that names mean."""
    main, *others = places
    chosen = {name: [main] for name in names if name in main.scope.defined}
    for place in others:
        for name in (place.scope.defined & names.keys()) - main.scope.defined:
            chosen.setdefault(name, []).append(place)
    for name in names:
        if name not in chosen:
            raise EditError(f"no value is called {name!r}{nearest(name, *known_names(main.scope, places))}")
    return {name: chosen[name] for name in names}


def known_names(main: NameScope, places: list[_Place]) -> tuple[list[str], list[str]]:
    """The names of inputs and outputs, and those of all values."""
    graph: Any = main.message
    ends = [value.name for value in (*graph.input, *graph.output)]
    return ends, [*sorted(main.defined), *(name for place in places for name in sorted(place.scope.defined))]


def _check_new(names: Mapping[str, str], chosen: Mapping[str, list[_Place]]) -> None:
    """Raises EditError for a new name that is empty, or that two values in one scope would have."""
    for old, new in names.items():
        if not new:
            raise EditError(f"the new name of {old} is empty")
    old_of: dict[str, list[str]] = {}
    for old, new in names.items():
        old_of.setdefault(new, []).append(old)
    for new, same in old_of.items():
        for old, other in combinations(sorted(same), 2):
            if any(_meet(a, b) for a in chosen[old] for b in chosen[other]):
                raise EditError(f"{old} and {other} would both be called {new}; a name belongs to one value")


def _meet(one: _Place, other: _Place) -> bool:
    """Whether one of two scopes is the other, or is in it."""
    around = [*map(id, (*one.outer, one.scope))], [*map(id, (*other.outer, other.scope))]
    return id(one.scope) in around[1] or id(other.scope) in around[0]


class _Around(NamedTuple):
    """A scope, the new names of values that it defines, by old names, and the scopes around it."""

    scope: NameScope
    new_names: Mapping[str, str]
    outer: _Around | None = None

    def new(self, name: str) -> str | None:
        """The new name of the value that a name means here; `None` if it keeps its name."""
        around: _Around | None = self
        while around is not None:
            if name in around.new_names:
                return around.new_names[name]
            around = None if name in around.scope.defined else around.outer
        return None

    def is_taken(self, name: str) -> bool:
        """Whether a value that this scope defines has this name, and keeps it."""
        return name in self.scope.defined and name not in self.new_names


def _in(root: NameScope, new_names: NewNames) -> Iterator[_Around]:
    """The scope and all in it, each with those around it."""
    stack = [_Around(root, new_names.get(id(root.message), {}))]
    while stack:
        around = stack.pop()
        yield around
        stack += [_Around(inner, new_names.get(id(inner.message), {}), around) for inner in around.scope.inner]


def _check(root: NameScope, new_names: NewNames) -> None:
    """Raises EditError if the new name of a value in a scope is that of another value which it meets or hides."""
    old_of = {id(around.scope): {new: old for old, new in around.new_names.items()} for around in _in(root, new_names)}
    for here in _in(root, new_names):
        where, own = here.scope.where, old_of[id(here.scope)]
        for new in filter(here.is_taken, own):
            raise EditError(f"{own[new]} cannot be called {new}, the name of another value in {where}")
        outer = here.outer
        while outer is not None:
            for new in filter(outer.is_taken, own):  # not over all that is defined outside, for each subgraph
                words = f"it would hide {new} of {outer.scope.where}"
                raise EditError(f"{own[new]} in {where} cannot be called {new}: {words}")
            of_outer = old_of[id(outer.scope)]
            for new in filter(here.is_taken, of_outer.keys() & here.scope.defined):
                raise EditError(f"{of_outer[new]} cannot be called {new}: {new} in {where} would hide it")
            outer = outer.outer
        _check_unknown(here, old_of)


def _check_unknown(here: _Around, old_of: Mapping[int, Mapping[str, str]]) -> None:
    """Raises EditError if the new name of a value around is one that the scope uses, but that nothing defines."""
    unknown = here.scope.used - here.scope.defined
    around: _Around | None = here
    while around is not None and unknown:
        unknown -= around.scope.defined
        for new in unknown & old_of[id(around.scope)].keys():
            if not _is_defined(new, around.outer):
                old = old_of[id(around.scope)][new]
                words = f"a name that {here.scope.where} uses but nothing defines"
                raise EditError(f"{old} cannot be called {new}, {words}")
        around = around.outer


def _is_defined(name: str, around: _Around | None) -> bool:
    while around is not None:
        if name in around.scope.defined:
            return True
        around = around.outer
    return False


def apply(root: NameScope, new_names: NewNames, counts: dict[str, int]) -> None:
    """Rename in a scope and those in it, and count where."""
    for around in _in(root, new_names):
        Renamer(around.new, counts).rename(around.scope.message)


class Renamer:
    """Replaces the names of one scope for which a function knows a new name, and counts where."""

    def __init__(self, new: Callable[[str], str | None], counts: dict[str, int]) -> None:
        self._new, self._counts = new, counts

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
        for index, name in enumerate(names):
            if (new := self._new(name)) is not None:
                names[index] = new
                self._count(name)

    def _set(self, message: Any, field: str) -> None:
        name = vars(message).get(field) if message is not None else None
        if name is not None and (new := self._new(name)) is not None:
            setattr(message, field, new)
            self._count(name)

    def _count(self, name: str) -> None:
        self._counts[name] = self._counts.get(name, 0) + 1


def prefix_in(model: Model, prefix: str) -> EditResult:
    """Begin the names of all values and nodes of the main graph, and of graphs in it, with a text."""
    main = scopes_of(model)[0]
    new_names = {id(scope.message): {name: prefix + name for name in scope.defined} for scope in main.all_inner()}
    apply(main, new_names, {})
    nodes = [node for scope in main.all_inner() for node in scope.message.node if node.name]
    for node in nodes:
        node.name = f"{prefix}{node.name}"
    for info in entries(model, "training_info"):
        _rename_bindings(info, new_names, main_graph(model))
    values = sum(map(len, new_names.values()))
    names = f"the names of {counted(values, 'value')} and {counted(len(nodes), 'node')}"
    return EditResult((Edit("prefix", f"{names} begin with {prefix}"),))


def _rename_bindings(info: Any, new_names: NewNames, main: Graph) -> None:
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
