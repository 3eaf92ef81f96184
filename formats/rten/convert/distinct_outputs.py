"""Prevents RTen from folding outputs to one constant."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from formats.ir.dtypes import BOOL, FLOAT, INT32
from formats.python.late_dataclasses import replace
from formats.rten.convert.value_types import ValueType
from formats.rten.graph.attributes import make_node
from formats.rten.graph.ordering import subgraphs, topological
from formats.rten.operators import casting, comparison, elementwise, random, reduction, shape, slicing
from formats.rten.types import BYTES, INTS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from formats.ir.model import Graph, Node
    from formats.rten.convert.context import Constants, ValueNames
    from formats.rten.convert.scope import Scope


KEEPING_APART: Final = (
    comparison.And.name,
    comparison.Or.name,
    comparison.Where.name,
    elementwise.Max.name,
)  # the nodes added after such outputs


def fed(graph: Graph) -> str:
    """A tensor that is an input of a graph; an empty name if there is none."""
    constants = {tensor.name for tensor in graph.initializer}
    given = (value for value in graph.input if value.type is not None and value.type.tensor_type is not None)
    return next((value.name or "" for value in given if value.name not in constants), "")


def with_distinct_outputs(
    graph: Graph, nodes: list[Node], constants: Constants, names: ValueNames, given: str
) -> list[Node]:
    """The nodes, changed so that RTen never folds two outputs to one constant: it cannot load such a model.

    RTen infers small integers and shares equal ones. It does not infer the maximum of one number, although this is the
    number itself. RTen also computes values that depend only on constants, but no choice that depends on what is
    `given` to the model.
    """
    scope = constants.scope
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
            nodes += _chosen(inner, name, given, constants, names)
        elif scope.type_of(name).elem_type == BOOL:
            nodes.append(make_node(comparison.And.name, [inner] * 2, [name]))
        else:
            nodes.append(make_node(elementwise.Max.name, [inner], [name]))
    return [nodes[index] for index in topological(nodes)]


def _inferred(graph: Graph, scope: Scope, made: set[str]) -> list[str]:
    """The integer outputs that RTen may infer to be equal to other outputs."""
    doubtful, seen = [], set[object]()
    for value in graph.output:
        name = value.name or ""
        elem_type, dims = scope.type_of(name)
        if name not in made or scope.is_sequence(name) or elem_type not in INTS or (dims is not None and len(dims) > 1):
            continue
        held = scope.ints(name) or (None if elem_type == BOOL else scope.contents_of(name))
        if held is not None and None in held:
            held = None  # RTen may know the result if sizes with names cancel out, as in N / N
        if held is not None and not all(isinstance(item, int) for item in held):
            continue  # nor does RTen know sizes with names
        if held is None or held in seen:
            doubtful.append(name)
        seen.add(held)
    if len(seen) < 2 and len(doubtful) < 2 and not (doubtful and seen - {None}):
        return []
    return doubtful


def _foldable(nodes: list[Node], scope: Scope) -> set[str]:
    """The values that nodes compute only from constants, without subgraphs and sequences."""
    found: set[str] = set()
    for node in nodes:
        given = [name for name in node.input if name]
        if given and all(name in found or scope.constant(name) is not None for name in given):
            with_graphs = bool(subgraphs((node,)))
            found.update(name for name in node.output if name and not with_graphs and not scope.is_sequence(name))
    return found


def _chosen(inner: str, name: str, given: str, constants: Constants, names: ValueNames) -> Iterator[Node]:
    """Nodes that give a value another name, by a test of a model input, so that RTen does not recognise the value.

    The first element of the input, or zero if there is none, is not less than itself. Without any input, a random
    number is tested in the same way.
    """
    import numpy

    scope = constants.scope
    known = {key: names.new(f"{name}/{key}") for key in ("flat", "first", "number", "total", "below", "wide", "same")}
    if given:
        zero, one, flat = (constants.add(numpy.array([number])) for number in (0, 1, -1))
        yield make_node(shape.Reshape.name, [given, flat], [known["flat"]])
        yield make_node(slicing.Slice.name, [known["flat"], zero, one, zero], [known["first"]])
        yield make_node(casting.Cast.name, [known["first"]], [known["number"]], to=INT32)
        yield make_node(reduction.ReduceSum.name, [known["number"], zero], [known["total"]], keepdims=0)
    else:
        yield make_node(random.RandomUniform.name, [], [known["total"]], shape=[])
    yield make_node(comparison.Less.name, [known["total"]] * 2, [known["below"]])
    elem_type, dims = scope.type_of(inner)
    types = {"flat": (None, (None,)), "first": (None, (None,)), "number": (INT32, (None,)), "below": (BOOL, ())}
    for key, (number, axes) in {**types, "total": (INT32 if given else FLOAT, ()), "wide": (INT32, dims),
                                "same": (INT32, dims)}.items():  # fmt: skip
        scope.types[known[key]] = ValueType(number, axes)
    if elem_type == BOOL:  # onnxruntime has no operator that chooses between values of this type
        yield make_node(comparison.Or.name, [inner, known["below"]], [name])
        return
    if elem_type not in BYTES:
        yield make_node(comparison.Where.name, [known["below"], inner, inner], [name])
        return
    yield make_node(casting.Cast.name, [inner], [known["wide"]], to=INT32)
    yield make_node(comparison.Where.name, [known["below"], known["wide"], known["wide"]], [known["same"]])
    yield make_node(casting.Cast.name, [known["same"]], [name], to=elem_type)
