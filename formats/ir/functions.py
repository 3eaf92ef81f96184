"""Replaces the nodes that call functions of a model by the nodes of these functions.

Spec: onnx.proto, FunctionProto; IR.md, Model local functions.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING

from formats.errors import UnsupportedError
from formats.ir import domain_key
from formats.ir.model import Node, entries

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from formats.ir.model import Attribute, Function, Graph, Model, Tensor, ValueInfo
    from formats.ir.node_order import Names

    Key = tuple[str, str, str]

MOST_CALLS_INSIDE = 100  # functions that call each other, for other programs; onnxruntime follows as many


def key_of(domain: str | None, name: str | None, overload: str | None) -> Key:
    """The key by which nodes call a function."""
    return (domain_key(domain), name or "", overload or "")


def functions_of(functions: Iterable[Function]) -> dict[Key, Function]:
    """The functions of a model, by the keys with which nodes call them."""
    return {key_of(function.domain, function.name, function.overload): function for function in functions}


def expanded_size(key: Key, functions: Mapping[Key, Function], sizes: dict[Key, float], depth: int) -> float:
    """The number of nodes that replace a call; infinite if functions call each other more than `depth` deep.

    `sizes` has the known numbers; this function adds others.
    """
    if key not in sizes:
        sizes[key] = inf  # also the size of a function that calls itself, directly or not
        if depth:
            function = functions[key]
            calls = [inner for node in function.node for inner in called(node)]
            size = sum(expanded_size(call, functions, sizes, depth - 1) if call in functions else 1.0 for call in calls)
            copies = sum(name in function.input for name in function.output)
            sizes[key] = max(size + copies, 1.0)  # to expand a call to nothing is work, too
    return sizes[key]


def check_calls(model: Model, most_nodes: int, what: str) -> None:
    """Check how many nodes the calls of functions become, before a program expands or follows each of them.

    Raises: UnsupportedError if they are more than `most_nodes`; `what` says what the program does with these.
    """
    functions = functions_of(model.functions)
    sizes: dict[Key, float] = {}
    for key in functions:
        if (size := expanded_size(key, functions, sizes, MOST_CALLS_INSIDE)) > most_nodes:
            count = "nodes without end" if size == inf else f"{size:,.0f} nodes"
            raise UnsupportedError(
                f"the function {key[1]!r:.80} becomes {count} with all functions that it calls; {what} at most "
                f"{most_nodes:,}"
            )
    nodes = model.graph.node if model.graph is not None and functions else ()
    if (calls := sum(sizes.get(key, 0.0) for node in nodes for key in called(node))) > most_nodes:
        raise UnsupportedError(f"the calls of functions become {calls:,.0f} nodes; {what} at most {most_nodes:,}")


def called(node: Node) -> Iterator[Key]:
    """The keys of the functions that a node and the nodes of its subgraphs call."""
    yield key_of(node.domain, node.op_type, node.overload)
    for attribute in node.attribute:
        for graph in filter(None, (attribute.g, *entries(attribute, "graphs"))):
            for inner in graph.node:
                yield from called(inner)


def expand_call(call: Node, function: Function, names: Names) -> list[Node]:
    """The nodes of a function that compute one call, with new names for the values inside."""
    values = dict(zip(function.input, call.input, strict=False))
    values.update(dict.fromkeys(function.input[len(call.input) :], ""))
    stem = next((name for name in call.output if name), call.op_type or "")
    wanted = dict(zip(function.output, call.output, strict=False))
    copies = []
    for name in function.output:
        if name not in function.input:
            values[name] = wanted.get(name) or names.new(f"{stem}/{name}")
        elif wanted.get(name) and values[name]:  # an output that is an input: no node of the function makes it
            copies.append(Node([values[name]], [wanted[name]], op_type="Identity"))
    arguments = {attribute.name or "": attribute for attribute in function.attribute_proto}
    arguments.update((attribute.name or "", attribute) for attribute in call.attribute)
    return [*(_node(node, values, arguments, names, stem) for node in function.node), *copies]


def _node(node: Node, values: dict[str, str], arguments: Mapping[str, Attribute], names: Names, stem: str) -> Node:
    """A copy of a node with the names and attributes of a call; its outputs are new names."""
    inputs = [_name(name, values, names, stem) for name in node.input]
    attributes = [
        actual
        for attribute in node.attribute
        if (actual := _attribute(attribute, values, arguments, names, stem)) is not None
    ]
    outputs = [_name(name, values, names, stem) for name in node.output]
    return replace(node, input=inputs, output=outputs, attribute=attributes, name=None)


def _name(name: str, values: dict[str, str], names: Names, stem: str) -> str:
    if not name:
        return ""
    if name not in values:
        values[name] = names.new(f"{stem}/{name}")
    return values[name]


def _attribute(
    attribute: Attribute, values: dict[str, str], arguments: Mapping[str, Attribute], names: Names, stem: str
) -> Attribute | None:
    """The attribute, or the one that it refers to; `None` if the call does not give that one."""
    if attribute.ref_attr_name:
        actual = arguments.get(attribute.ref_attr_name)
        return None if actual is None else replace(actual, name=attribute.name)
    if attribute.g is not None:
        return replace(attribute, g=_graph(attribute.g, values, arguments, names, stem))
    if attribute.graphs:
        return replace(attribute, graphs=[_graph(graph, values, arguments, names, stem) for graph in attribute.graphs])
    return attribute


def _graph(graph: Graph, outer: dict[str, str], arguments: Mapping[str, Attribute], names: Names, stem: str) -> Graph:
    """A copy of a subgraph. Its own values get new names, too."""
    values = dict(outer)
    own = [value.name for value in graph.input] + [tensor.name for tensor in graph.initializer]
    own += [sparse.values.name for sparse in graph.sparse_initializer if sparse.values]
    own += [name for node in graph.node for name in node.output]
    values.update((name, names.new(f"{stem}/{name}")) for name in own if name)

    def renamed(value: ValueInfo | Tensor) -> str:
        return _name(value.name or "", values, names, stem)

    return replace(
        graph,
        node=[_node(node, values, arguments, names, stem) for node in graph.node],
        initializer=[replace(tensor, name=renamed(tensor)) for tensor in graph.initializer],
        sparse_initializer=[
            replace(sparse, values=replace(sparse.values, name=renamed(sparse.values)))
            for sparse in graph.sparse_initializer
            if sparse.values is not None
        ],
        input=[replace(value, name=renamed(value)) for value in graph.input],
        output=[replace(value, name=renamed(value)) for value in graph.output],
        value_info=[replace(value, name=values[value.name]) for value in graph.value_info if value.name in values],
    )
