"""Where names and types stand in a model: in graphs, the subgraphs in them, and functions.

A name in a subgraph means the value of the nearest graph around it that defines the name. A function sees no names of
the graph that calls it.

Spec: ONNX IR, "Names Within a Graph"; onnx.proto, FunctionProto and TrainingInfoProto.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from formats.editing.options import VALUES
from formats.errors import EditError
from formats.ir.model import Function, Graph, entries
from formats.options import Typed, bad_value, name_and_value
from formats.words import names_like, nearest

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from formats.ir.model import (
        Dimension,
        Model,
        Node,
        SimpleShardedDim,
        StringStringEntry,
        TensorShape,
        Type,
        ValueInfo,
    )


def main_graph(model: Model) -> Graph:
    """The graph of a model that is not in another.

    Raises: EditError if the model has none.
    """
    if model.graph is None:
        raise EditError("the model has no graph, so there is nothing to edit")
    return model.graph


class NameScope(NamedTuple):
    """A graph or function, the names that it defines, those that it uses itself, and the scopes in it."""

    message: Graph | Function
    where: str
    defined: frozenset[str]
    used: frozenset[str]
    inner: tuple[NameScope, ...]

    def all_inner(self) -> Iterator[NameScope]:
        """This scope, and all in it."""
        stack = [self]
        while stack:
            scope = stack.pop()
            yield scope
            stack.extend(reversed(scope.inner))


def subgraphs_of(node: Node) -> list[tuple[str, Graph]]:
    """The graphs in the attributes of a node, each with the name of the attribute."""
    graphs = []
    for attribute in entries(node, "attribute"):
        name = attribute.name or ""
        if attribute.g is not None:
            graphs.append((name, attribute.g))
        graphs += [(name, graph) for graph in entries(attribute, "graphs")]
    return graphs


def defined_in(message: Graph | Function) -> set[str]:
    """The names of the values that a graph or function defines."""
    if isinstance(message, Function):
        names = set(message.input)
    else:
        names = {value.name or "" for value in message.input}
        names |= {tensor.name or "" for tensor in message.initializer}
        names |= {sparse.values.name or "" for sparse in entries(message, "sparse_initializer") if sparse.values}
    names.update(*(node.output for node in message.node))
    names.discard("")
    return names


def used_in(message: Graph | Function) -> set[str]:
    """The names that a graph or function uses, without those that only its subgraphs use."""
    return {name for name in names_of_uses(message) if name}


def names_of_uses(message: Graph | Function) -> Iterator[str]:
    """The name of each use in a graph or function itself: as its output, or as an input of a node, "" for a gap."""
    for value in message.output:
        yield value if isinstance(value, str) else value.name or ""
    for node in message.node:
        yield from node.input


def scope_of(message: Graph | Function, where: str, more: Iterable[NameScope] = ()) -> NameScope:
    """The scope of a graph or function; `more` are scopes in it that are not those of its nodes."""
    inner = [
        scope_of(graph, f'{where}.node[{index}].attribute["{name}"]')
        for index, node in enumerate(message.node)
        for name, graph in subgraphs_of(node)
    ]
    return NameScope(message, where, frozenset(defined_in(message)), frozenset(used_in(message)), (*inner, *more))


def scopes_of(model: Model) -> list[NameScope]:
    """The outermost scopes of a model, the main graph first.

    The graphs that train a model see the names of the main graph; those that initialise it do not.
    """
    training = list(enumerate(entries(model, "training_info")))
    steps = [
        scope_of(info.algorithm, f"training_info[{index}].algorithm") for index, info in training if info.algorithm
    ]
    scopes = [] if model.graph is None else [scope_of(model.graph, "graph", steps)]
    scopes += [scope_of(function, f"functions[{index}]") for index, function in enumerate(model.functions)]
    for index, info in training:
        if info.initialization is not None:
            scopes.append(scope_of(info.initialization, f"training_info[{index}].initialization"))
    return scopes


def captured(node: Node) -> set[str]:
    """The names of outer values that the subgraphs of a node use."""
    names: set[str] = set()
    for _, graph in subgraphs_of(node):
        names |= used_in(graph).union(*map(captured, graph.node)) - defined_in(graph)
    return names


def names_used(node: Node) -> list[str]:
    """The names that a node uses: its inputs, and what its subgraphs take from outside."""
    return [*filter(None, node.input), *sorted(captured(node))]


def names_of(option: str, texts: Iterable[str], known: Collection[str]) -> list[str]:
    r"""The names in texts of an option: commas separate what was typed, but a name that exists is not split.

    `\,` is a comma in a name, too.

    Raises: OptionError if a name is empty.
    """
    names = []
    texts = [*texts]
    has_commas = any("," in text for text in texts)
    most = 1 + max((name.count(",") for name in known), default=0) if has_commas else 1
    for text in texts:
        pieces = text.split(",") if isinstance(text, Typed) else [text]
        at = 0
        while at < len(pieces):
            ends = range(min(at + most, len(pieces)), at, -1)
            end = next((end for end in ends if ",".join(pieces[at:end]) in known), None)
            if end is None:  # up to the first comma without a backslash
                end = next(
                    (end for end in range(at + 1, len(pieces)) if not pieces[end - 1].endswith("\\")), len(pieces)
                )
                names.append(",".join(pieces[at:end]).replace(r"\,", ","))
            else:
                names.append(",".join(pieces[at:end]))
            at = end
            if not names[-1]:
                raise bad_value(option, VALUES, str(text))
    return names


def pair_of(name: str, other: str, known: Collection[str], others: Collection[str] | None = None) -> tuple[str, str]:
    """A name and the text that belongs to it; what was typed as NAME=OTHER is split behind a name that exists.

    If there are several ways, `others` has the names that the other text can be, and then the longest name counts.
    """
    if not isinstance(name, Typed):
        return name, other
    ends = [end for end, sign in enumerate(name) if sign == "="]
    ways = [(name[:end], name[end + 1 :]) for end in reversed(ends) if name[:end] in known and name[end + 1 :]]
    return next((way for way in ways if others is None or way[1] in others), ways[0] if ways else name_and_value(name))


def nodes_named(model: Model, option: str, texts: Iterable[str]) -> list[int]:
    """The nodes, by identity, whose names or operators are in the texts of an option, or match a pattern there.

    Raises: EditError for a name that no node has.
    """
    nodes = [node for message in all_messages(model) for node in message.node]
    known = {name for node in nodes for name in (node.op_type, node.name) if name}
    chosen: set[str] = set()
    for text in names_of(option, texts, known):
        names = names_like(text, known)
        if not names:
            raise EditError(f"no operator or node is called {text!r}{nearest(text, sorted(known))}")
        chosen |= names
    return [id(node) for node in nodes if not chosen.isdisjoint((node.op_type, node.name))]


def names_chosen(option: str, texts: Iterable[str], known: Collection[str], kind: str) -> set[str]:
    """The names of things of a kind, such as "weight", that are in the texts of an option, or match a pattern there.

    Raises: EditError for a text that names nothing.
    """
    chosen: set[str] = set()
    for text in names_of(option, texts, known):
        found = names_like(text, known)
        if not found:
            raise EditError(f"no {kind} is called {text!r}{nearest(text, known, kind=kind)}")
        chosen |= found
    return chosen


def names_taken(model: Model) -> set[str]:
    """The names of all values in a model."""
    return {name for message in all_messages(model) for name in defined_in(message) | used_in(message)}


def free(name: str, taken: set[str]) -> str:
    """The name, or if it is taken, with the first number that makes it a free one; it is taken then."""
    if name in taken:
        return fresh(name, taken)
    taken.add(name)
    return name


def fresh(name: str, taken: set[str], numbers: dict[str, int] | None = None) -> str:
    """The name with the first number that makes it a free one, which is then taken.

    `numbers` are the last ones by name, for callers with many names that may be equal.
    """
    number = 2 if numbers is None else numbers.get(name, 1) + 1
    while (new := f"{name}_{number}") in taken:
        number += 1
    taken.add(new)
    if numbers is not None:
        numbers[name] = number
    return new


def shapes_of(kind: Type | None) -> Iterator[TensorShape]:
    """The shapes in a type: of a tensor, or of what is in a sequence, map or optional."""
    while kind is not None:
        tensor = kind.tensor_type or kind.sparse_tensor_type
        if tensor is not None:
            if tensor.shape is not None:
                yield tensor.shape
            return
        outer: Any = kind.sequence_type or kind.optional_type or kind.map_type
        kind = None if outer is None else outer.value_type if kind.map_type is not None else outer.elem_type


def shape_of(value: ValueInfo) -> TensorShape | None:
    """The shape of a value, if it is a tensor whose rank is known."""
    tensor = value.type.tensor_type if value.type is not None else None
    return None if tensor is None else tensor.shape


def all_messages(model: Model) -> Iterator[Graph | Function]:
    """Every graph and function of a model, with subgraphs and those of training."""
    roots: list[Any] = [model.graph, *model.functions]
    for info in entries(model, "training_info"):
        roots += [info.initialization, info.algorithm]
    stack = [root for root in reversed(roots) if root is not None]
    while stack:
        message = stack.pop()
        yield message
        stack += [graph for node in message.node for _, graph in subgraphs_of(node)]


def all_graphs(model: Model) -> list[Graph]:
    """Every graph of a model, with subgraphs, also those of functions, and those of training."""
    return [message for message in all_messages(model) if isinstance(message, Graph)]


def training_bindings(model: Model) -> Iterator[StringStringEntry]:
    """What training sets: the name of an initializer as the key, and of a value as the value."""
    for info in entries(model, "training_info"):
        yield from entries(info, "initialization_binding")
        yield from entries(info, "update_binding")


def all_types(model: Model) -> Iterator[Type]:
    """Every type in a model."""
    for message in all_messages(model):
        values = entries(message, "value_info")
        if not isinstance(message, Function):
            values = [*message.input, *message.output, *values]
        yield from (value.type for value in values if value.type is not None)
        for node in message.node:
            yield from _types_in(node)


def _types_in(node: Node) -> Iterator[Type]:
    for attribute in entries(node, "attribute"):
        if attribute.tp is not None:
            yield attribute.tp
        yield from entries(attribute, "type_protos")


def all_dims(model: Model) -> Iterator[Dimension | SimpleShardedDim]:
    """Every dim in a model: of types, and of what is split over devices."""
    for kind in all_types(model):
        for shape in shapes_of(kind):
            yield from shape.dim
    for message in all_messages(model):
        for node in message.node:
            for configuration in entries(node, "device_configurations"):
                for spec in configuration.sharding_spec:
                    for sharded in spec.sharded_dim:
                        yield from sharded.simple_sharding
