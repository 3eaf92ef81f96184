"""Outputs that RTen would fold to one constant, kept apart."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from formats.ir.dtypes import BOOL, FLOAT, INT32
from formats.rten.convert.value_types import ValueType
from formats.rten.graph.attributes import make_node
from formats.rten.graph.ordering import subgraphs, topological
from formats.rten.operators import casting, comparison, elementwise, random
from formats.rten.types import BYTES, INTS

if TYPE_CHECKING:
    from formats.ir.model import Graph, Node
    from formats.rten.convert.context import ValueNames
    from formats.rten.convert.scope import Scope


KEEPING_APART: Final = (comparison.And.name, elementwise.Max.name)  # what is put behind such outputs


def with_distinct_outputs(graph: Graph, nodes: list[Node], scope: Scope, names: ValueNames) -> list[Node]:
    """The nodes, changed so that RTen folds no two outputs to one constant, which it does not load.

    It infers small integers and shares equal ones. The largest of one number is that number, and is not inferred. It
    also computes what comes from constants only, but no choice by a random number between a value and that value.
    """
    places = {name: index for index, node in enumerate(nodes) for name in node.output}
    foldable = _foldable(nodes, scope)
    folded = [name for value in graph.output if (name := value.name or "") in places and name in foldable]
    inferred = _inferred(graph, scope, set(places))
    chosen = {*folded[1:], *foldable.intersection(inferred)}
    if not chosen and not inferred:
        return nodes
    for name in dict.fromkeys((*inferred, *folded[1:])):
        made = nodes[places[name]]
        inner = names.new(f"{name}/folded")
        scope.types[inner] = scope.type_of(name)
        nodes[places[name]] = replace(made, output=[inner if output == name else output for output in made.output])
        if name in chosen:
            nodes += _chosen(inner, name, scope, names)
        elif scope.type_of(name).elem_type == BOOL:
            nodes.append(make_node(comparison.And.name, [inner] * 2, [name]))
        else:
            nodes.append(make_node(elementwise.Max.name, [inner], [name]))
    return [nodes[index] for index in topological(nodes)]


def _inferred(graph: Graph, scope: Scope, made: set[str]) -> list[str]:
    """The outputs of integers that RTen may infer to be the same as others."""
    doubtful, seen = [], set[object]()
    for value in graph.output:
        name = value.name or ""
        elem_type, dims = scope.type_of(name)
        if name not in made or scope.is_sequence(name) or elem_type not in INTS or (dims is not None and len(dims) > 1):
            continue
        held = scope.ints(name) or (None if elem_type == BOOL else scope.contents_of(name))
        if held is not None and not all(isinstance(item, int) for item in held):
            continue  # RTen does not know sizes that have names either
        if held is None or held in seen:
            doubtful.append(name)
        seen.add(held)
    if len(seen) < 2 and len(doubtful) < 2 and not (doubtful and seen - {None}):
        return []
    return doubtful


def _foldable(nodes: list[Node], scope: Scope) -> set[str]:
    """What nodes make of constants only, without subgraphs and sequences."""
    found: set[str] = set()
    for node in nodes:
        given = [name for name in node.input if name]
        if given and all(name in found or scope.constant(name) is not None for name in given):
            with_graphs = bool(subgraphs((node,)))
            found.update(name for name in node.output if name and not with_graphs and not scope.is_sequence(name))
    return found


def _chosen(inner: str, name: str, scope: Scope, names: ValueNames) -> list[Node]:
    """Nodes that give a value another name, which RTen does not see through."""
    number, is_below = names.new(f"{name}/random"), names.new(f"{name}/below")
    scope.types |= {number: ValueType(FLOAT, ()), is_below: ValueType(BOOL, ())}
    made = [
        make_node(random.RandomUniform.name, [], [number], shape=[]),
        make_node(comparison.Less.name, [number, number], [is_below]),
    ]
    elem_type, dims = scope.type_of(inner)
    if elem_type not in BYTES:
        return [*made, make_node(comparison.Where.name, [is_below, inner, inner], [name])]
    wide, same = names.new(f"{name}/wide"), names.new(f"{name}/same")
    scope.types |= {wide: ValueType(INT32, dims), same: ValueType(INT32, dims)}
    return [
        *made,
        make_node(casting.Cast.name, [inner], [wide], to=INT32),
        make_node(comparison.Where.name, [is_below, wide, wide], [same]),
        make_node(casting.Cast.name, [same], [name], to=elem_type),
    ]
