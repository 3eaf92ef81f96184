"""What the values of a graph are used for: as dims, as bounds of slices, or to be rounded; and how subgraphs name them.

RTen looks for the values around a subgraph by name, so names in subgraphs are changed to what it finds.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, TypeVar

from formats.ir.model import Graph
from formats.ir.node_order import Names, defined, graphs_below, mentioned, subgraphs, topological
from formats.rten.graph.attributes import make_node
from formats.rten.graph.constants import is_constant_node
from formats.rten.operators import SPECS, spec_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from formats.ir.model import Model, Node, Tensor, ValueInfo

    Named = TypeVar("Named", ValueInfo, Tensor)

_OPERATOR = attrgetter("domain", "op_type")


class Uses:
    """The names that a graph uses, each kind searched when somebody first asks for it; the graph must not change."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._outputs = [value.name or "" for value in graph.output]

    @cached_property
    def own(self) -> dict[str, None]:
        """The names that the nodes use, in order of first use, and the outputs."""
        own = dict.fromkeys(chain.from_iterable([node.input for node in self._graph.node]))
        own.pop("", None)  # an omitted input
        own.update(dict.fromkeys(self._outputs))
        return own

    @cached_property
    def inner(self) -> set[str]:
        """The names that the subgraphs use."""
        inner: set[str] = set()
        for _, _, outermost in subgraphs(self._graph.node):
            for _, graph in graphs_below(outermost):
                inner.update(chain.from_iterable(node.input for node in graph.node))
                inner.update(value.name or "" for value in graph.output)
        return inner

    @cached_property
    def bounds(self) -> set[str]:
        """The names used only as the start or end of slices, where any large number is infinite."""
        nodes = self._graph.node
        # Most graphs have few kinds of operators, so specs are looked up once for each kind.
        specs = {op_type: SPECS.get(op_type or "") for op_type in {node.op_type for node in nodes}}
        places = {
            op_type: spec.to_rten.bounds for op_type, spec in specs.items() if spec is not None and spec.to_rten.bounds
        }
        if not places:
            return set()
        moved = {op_type: spec.outputs.moves for op_type, spec in specs.items() if spec is not None}
        bounds: set[str] = set()
        others = self.inner.union(self._outputs)
        for index in reversed(topological(nodes)):  # from the outputs, since moved elements are used as those behind
            node = nodes[index]
            of_slices = places.get(node.op_type, ())
            is_only_bound = bounds.issuperset(node.output) and others.isdisjoint(node.output)
            of_output = moved.get(node.op_type, ()) if is_only_bound else ()
            for place, name in enumerate(node.input):
                (bounds if place in of_slices or place in of_output else others).add(name)
        return bounds - others  # used in both ways means as a number

    @cached_property
    def only_dims(self) -> set[str]:
        """The values that are used, and only as dims. They fit in 32 bits, because no tensor is larger.

        This is decided from the outputs to the inputs: what a sum adds is a dim if the sum is only used as one.
        """
        # What a subgraph or the caller does with a value is not known here.
        is_dim = dict.fromkeys((*self.inner, *self._outputs), False)
        nodes = self._graph.node
        for index in reversed(topological(nodes)):
            node = nodes[index]
            spec = SPECS.get(node.op_type or "")
            makes_dims = all(is_dim.get(name, True) for name in node.output)
            for place, name in enumerate(node.input):
                serves = spec is not None and (
                    place in spec.outputs.sizes or (makes_dims and place in spec.outputs.sizes_from)
                )
                is_dim[name] = serves and is_dim.get(name, True)
        return {name for name, only in is_dim.items() if only}


def add_decisive(node_lists: Sequence[Sequence[Node]], decisive: set[str]) -> None:
    """Add the names of values that are rounded, truncated or compared: there, the last bit may become a large number.

    `graphs` has the nodes of each graph, before those of the graphs in it.
    """
    examples = {key: node for nodes in node_lists for key, node in zip(map(_OPERATOR, nodes), nodes, strict=True)}
    specs = {key: spec for key, node in examples.items() if (spec := spec_of(node)) is not None}
    # Without an operator whose form depends on it, nobody needs the names.
    if not any(spec.to_rten.asks_if_rounded for spec in specs.values()):
        return
    for nodes in reversed(node_lists):
        for index in reversed(topological(nodes)):
            node = nodes[index]
            spec = specs.get((node.domain, node.op_type))
            if spec is None:
                continue
            is_step = spec.outputs.rounds is not None and spec.outputs.rounds(node)
            if is_step or (spec.outputs.passes_on and not decisive.isdisjoint(node.output)):
                decisive.update(node.input)


def used_and_read(model: Model) -> tuple[list[str], set[str]]:
    """The names of all values of a model, and the names of values that are read; those in functions, too."""
    used: list[str] = []
    read: set[str] = set()
    outermost = [model.graph or Graph(), *(Graph(node=function.node) for function in model.functions)]
    for graph in (inner for outer in outermost for _, inner in graphs_below(outer)):
        used += [value.name or "" for value in (*graph.input, *graph.value_info)]
        used += [tensor.name or "" for tensor in graph.initializer]
        used += [sparse.values.name or "" for sparse in graph.sparse_initializer if sparse.values]
        used += chain.from_iterable([node.output for node in graph.node])
        read.update(value.name or "" for value in graph.output)
        read.update(chain.from_iterable([node.input for node in graph.node]))
    for function in model.functions:
        read.update(function.output)
    return used, read


# Names in subgraphs


def without_hiding(graph: Graph) -> Graph:
    """The graph with values of subgraphs renamed that hide outer ones, since RTen would use the outer values."""
    if not subgraphs(graph.node):
        return graph
    # New names differ from all in the model, so that they hide nothing.
    names = Names(name for _, inner in graphs_below(graph) for name in defined(inner))
    return _renamed(graph, frozenset(), {}, names)


def _renamed(graph: Graph, outer: frozenset[str], outer_changes: Mapping[str, str], names: Names) -> Graph:
    """A graph inside of graphs with the values `outer`, some of which have new names."""
    # A value of this graph ends the new name of an outer one with the same name.
    own = defined(graph)
    changes = {name: new for name, new in outer_changes.items() if name not in own}
    changes |= {name: names.new(name) for name in sorted(own & outer - {""})}
    nodes = list(graph.node)
    for index, name, inner in subgraphs(graph.node):
        renamed = _renamed(inner, outer | own, changes, names)
        attributes = [replace(other, g=renamed) if other.name == name else other for other in nodes[index].attribute]
        nodes[index] = replace(nodes[index], attribute=attributes)
    if not changes:
        return replace(graph, node=nodes)

    def with_new_names(messages: list[Named]) -> list[Named]:
        return [
            replace(message, name=changes[message.name]) if message.name in changes else message for message in messages
        ]

    return replace(
        graph,
        node=[
            replace(
                node,
                input=[changes.get(name, name) for name in node.input],
                output=[changes.get(name, name) for name in node.output],
            )
            for node in nodes
        ],
        input=with_new_names(graph.input),
        output=with_new_names(graph.output),
        value_info=with_new_names(graph.value_info),
        initializer=with_new_names(graph.initializer),
    )


def with_reached_names(graph: Graph) -> tuple[Graph, set[str]]:
    """The graph with the captures that RTen's ONNX loader misses, and the outputs of the nodes that need them.

    Among the values that a subgraph captures, the loader finds those that its own nodes use, but not those that only
    graphs in it use. If a node with such graphs has constant inputs, the loader runs it while it loads the model, and
    stops because the captured value is missing. An Identity whose result is unused makes the name known.
    """
    if not any(subgraphs(inner.node) for _, _, inner in subgraphs(graph.node)):
        return graph, set()
    needy: set[str] = set()
    names = Names(name for _, inner in graphs_below(graph) for name in defined(inner))
    return _reached(graph, frozenset(), names, needy, is_outermost=True), needy


def _reached(
    graph: Graph, outer: frozenset[str], names: Names, needy: set[str], *, is_outermost: bool = False
) -> Graph:
    """A graph inside of graphs with the constants `outer`. The graphs in it are changed first."""
    constants = {*outer, "", *(tensor.name or "" for tensor in graph.initializer)}
    constants.update(*(node.output for node in graph.node if is_constant_node(node)))
    nodes = list(graph.node)
    for index, name, inner in subgraphs(graph.node):
        reached = _reached(inner, frozenset(constants), names, needy)
        attributes = [replace(other, g=reached) if other.name == name else other for other in nodes[index].attribute]
        nodes[index] = replace(nodes[index], attribute=attributes)
    # The outermost graph captures nothing.
    if is_outermost:
        return replace(graph, node=nodes)
    visible = {*defined(graph), *(value.name or "" for value in graph.output)}.union(*(node.input for node in nodes))
    missing: set[str] = set()
    for node in nodes:
        captured = {name for name in mentioned(node) if name not in visible}
        if not constants.issuperset(node.input):
            continue
        # A node whose inputs and captures are all constants runs at load, and so do those that use its outputs.
        if captured <= constants:
            constants.update(node.output)
        else:
            missing |= captured - constants
            needy.update(node.output)
    identities = [make_node("Identity", [name], [names.new(f"{name}/captured")]) for name in sorted(missing)]
    return replace(graph, node=[*identities, *nodes])
