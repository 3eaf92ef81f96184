"""Prevents RTen from folding outputs to one constant."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from formats.ir.dtypes import BOOL, FLOAT, INT32
from formats.ir.node_order import subgraphs, topological
from formats.rten.convert.value_types import ValueType
from formats.rten.graph.attributes import make_node
from formats.rten.types import BYTES, INTS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from formats.ir.model import Graph, Node
    from formats.rten.convert.context import Constants, ValueNames
    from formats.rten.convert.scope import Scope


def tensor_input_of(graph: Graph) -> str:
    """A tensor that is an input of a graph; an empty name if there is none."""
    constants = {tensor.name for tensor in graph.initializer}
    given = (value for value in graph.input if value.type is not None and value.type.tensor_type is not None)
    return next((value.name or "" for value in given if value.name not in constants), "")


def with_distinct_outputs(
    graph: Graph, nodes: list[Node], constants: Constants, names: ValueNames, given: str
) -> tuple[list[Node], list[Node]]:
    """The nodes, changed so that RTen never folds two outputs to one constant, and those of them that prevent it.

    RTen cannot load a model with two outputs that are one constant. It infers small integers and shares equal ones. It
    does not infer the maximum of one number, although this is the number itself. RTen also computes values that depend
    only on constants, but no choice that depends on what is `given` to the model.
    """
    scope = constants.scope
    outputs = [value.name or "" for value in graph.output]
    apart: list[Node] = []
    if len(outputs) < 2:
        return nodes, apart
    wanted = set(outputs)
    places = {name: index for index, node in enumerate(nodes) for name in node.output if name in wanted}
    computed = [name for name in outputs if name in places]
    inferred = _inferred(graph, scope, set(places))
    if len(computed) < 2 and not inferred:
        return nodes, apart
    foldable = _foldable(nodes, scope)
    folded = [name for name in computed if name in foldable]
    chosen = {*folded[1:], *foldable.intersection(inferred)}
    if not chosen and not inferred:
        return nodes, apart
    for name in dict.fromkeys((*inferred, *folded[1:])):
        maker = nodes[places[name]]
        inner = names.new(f"{name}/folded")
        scope.types[inner] = scope.type_of(name)
        nodes[places[name]] = replace(maker, output=[inner if output == name else output for output in maker.output])
        if name in chosen:
            test, tested = _test(name, given, constants, names)
            nodes += tested
            made = [*_choice(inner, name, test, scope, names)]
        elif scope.type_of(name).elem_type == BOOL:
            made = [make_node("And", [inner] * 2, [name])]
        else:
            made = [make_node("Max", [inner], [name])]
        nodes += made
        apart += made
    return [nodes[index] for index in topological(nodes)], apart


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


def _test(name: str, given: str, constants: Constants, names: ValueNames) -> tuple[str, list[Node]]:
    """A value of BOOL that RTen does not know when it loads the model, although it is always false; and its nodes.

    The first element of a model input, or zero if there is none, is not less than itself. Without any input, a random
    number is tested in the same way.
    """
    import numpy

    types = constants.scope.types
    flat, first, number, total, below = (
        names.new(f"{name}/{what}") for what in ("flat", "first", "number", "total", "below")
    )
    types[total], types[below] = ValueType(INT32 if given else FLOAT, ()), ValueType(BOOL, ())
    compared = make_node("Less", [total] * 2, [below])
    if not given:
        return below, [make_node("RandomUniform", [], [total], shape=[]), compared]
    types[flat] = types[first] = ValueType(None, (None,))
    types[number] = ValueType(INT32, (None,))
    zero, one, rest = (constants.add(numpy.array([number])) for number in (0, 1, -1))
    return below, [
        make_node("Reshape", [given, rest], [flat]),
        make_node("Slice", [flat, zero, one, zero], [first]),
        make_node("Cast", [first], [number], to=INT32),
        make_node("ReduceSum", [number, zero], [total], keepdims=0),
        compared,
    ]


def _choice(inner: str, name: str, test: str, scope: Scope, names: ValueNames) -> Iterator[Node]:
    """Nodes that give a value another name, by a test, so that RTen does not recognise the value."""
    elem_type, dims = scope.type_of(inner)
    wide, same = (names.new(f"{name}/{what}") for what in ("wide", "same"))
    scope.types[wide] = scope.types[same] = ValueType(INT32, dims)
    if elem_type == BOOL:  # onnxruntime has no operator that chooses between values of this type
        yield make_node("Or", [inner, test], [name])
        return
    if elem_type not in BYTES:
        yield make_node("Where", [test, inner, inner], [name])
        return
    yield make_node("Cast", [inner], [wide], to=INT32)
    yield make_node("Where", [test, wide, wide], [same])
    yield make_node("Cast", [same], [name], to=elem_type)
