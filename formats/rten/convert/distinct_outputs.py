"""Outputs of integers that RTen would fold to one constant, kept apart."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from formats.ir.dtypes import BOOL
from formats.rten.graph.attributes import make_node
from formats.rten.graph.ordering import topological
from formats.rten.operators import comparison, elementwise
from formats.rten.types import INTS

if TYPE_CHECKING:
    from formats.ir.model import Graph, Node
    from formats.rten.convert.context import ValueNames
    from formats.rten.convert.scope import Scope


KEEPING_APART: Final = (comparison.And.name, elementwise.Max.name)  # what is put behind such outputs


def with_distinct_outputs(graph: Graph, nodes: list[Node], scope: Scope, names: ValueNames) -> list[Node]:
    """The nodes, changed so that RTen folds no two outputs of integers to one constant, which it does not load.

    It infers small integers and shares equal ones. The largest of one number is that number, and is not inferred.
    """
    places = {name: index for index, node in enumerate(nodes) for name in node.output}
    doubtful, seen = [], set[object]()
    for value in graph.output:
        name = value.name or ""
        elem_type, dims = scope.type_of(name)
        if (
            name not in places
            or scope.is_sequence(name)
            or elem_type not in INTS
            or (dims is not None and len(dims) > 1)
        ):
            continue
        held = scope.ints(name) or (None if elem_type == BOOL else scope.contents_of(name))
        if held is not None and not all(isinstance(item, int) for item in held):
            continue  # RTen does not know sizes that have names either
        if held is None or held in seen:
            doubtful.append(name)
        seen.add(held)
    if len(seen) < 2 and len(doubtful) < 2 and not (doubtful and seen - {None}):
        return nodes
    for name in doubtful:
        if scope.type_of(name).elem_type == BOOL:
            operator, count = comparison.And, 2
        else:
            operator, count = elementwise.Max, 1
        made = nodes[places[name]]
        inner = names.new(f"{name}/folded")
        scope.types[inner] = scope.type_of(name)
        nodes[places[name]] = replace(made, output=[inner if output == name else output for output in made.output])
        nodes.append(make_node(operator.name, [inner] * count, [name]))
    if not doubtful:
        return nodes
    return [nodes[index] for index in topological(nodes)]
