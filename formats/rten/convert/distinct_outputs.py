"""Keeps RTen from making one constant of two outputs of a graph: it cannot load such a model.

When RTen loads a model, it makes constants in two ways, and shares equal ones:

- It infers small integers, such as the dims of a shape. It does not infer the maximum of one number, although this is
  the number itself.
- It computes the nodes whose inputs are all constants. It does not compute a choice that depends on an input.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from formats.ir.dtypes import BOOL, FLOAT, INT32
from formats.ir.model import Graph, Node
from formats.ir.node_order import subgraphs, topological
from formats.rten.convert.context import Constants, ValueNames
from formats.rten.convert.scope import Scope
from formats.rten.convert.value_types import ValueType
from formats.rten.graph.attributes import make_node
from formats.rten.types import BYTES, INTS


def tensor_input_of(graph: Graph) -> str:
    """A tensor that is an input of a graph; an empty name if there is none."""
    constants = {tensor.name for tensor in graph.initializer}
    for value in graph.input:
        if value.type is not None and value.type.tensor_type is not None and value.name not in constants:
            return value.name or ""
    return ""


def with_distinct_outputs(
    graph: Graph, constants: Constants, names: ValueNames, tensor_input: str
) -> tuple[Graph, list[Node]]:
    """The graph with nodes that keep its outputs apart, and those of them that make an output.

    An output that RTen might share with another one is computed under a new name, and a further node gives it its own
    name: Max of one number, or, if it depends on constants only, a choice between two equal values. The test for the
    choice depends on the input of the model with the name `tensor_input`.
    """
    scope = constants.scope
    nodes = list(graph.node)
    outputs = dict.fromkeys(value.name or "" for value in graph.output)
    maker_of = {name: index for index, node in enumerate(nodes) for name in node.output if name in outputs}
    if len(graph.output) < 2:  # with one output, nothing can be shared
        return graph, []
    equal_integers = _possibly_equal_integers(graph, scope, maker_of)
    if sum(value.name in maker_of for value in graph.output) < 2 and not equal_integers:
        return graph, []
    from_constants = _computed_from_constants(nodes, scope)
    folded = [name for value in graph.output if (name := value.name or "") in maker_of and name in from_constants]
    by_choice = {*folded[1:], *from_constants.intersection(equal_integers)}  # the first may become a constant
    added: list[Node] = []
    for name in dict.fromkeys((*equal_integers, *folded[1:])):
        maker = nodes[maker_of[name]]
        inner = names.new(f"{name}/folded")
        scope.types[inner] = scope.type_of(name)  # what is known stays known under the new name
        outputs_of_maker = [inner if output == name else output for output in maker.output]
        nodes[maker_of[name]] = replace(maker, output=outputs_of_maker)
        if name in by_choice:
            test, test_nodes = _always_false(name, tensor_input, constants, names)
            nodes += test_nodes
            last = [*_choice(inner, name, test, scope, names)]
        elif scope.type_of(name).elem_type == BOOL:
            last = [make_node("And", [inner] * 2, [name])]
        else:
            last = [make_node("Max", [inner], [name])]
        nodes += last
        added += last
    if not added:
        return graph, []
    return replace(graph, node=[nodes[index] for index in topological(nodes)]), added


def _possibly_equal_integers(graph: Graph, scope: Scope, computed: Collection[str]) -> list[str]:
    """The integer outputs among the `computed` ones that RTen may infer to be equal to other outputs."""
    possibly_equal: list[str] = []
    contents_of_others: set[object] = set()  # what RTen may know of an output; `None`: any numbers
    for value in graph.output:
        name = value.name or ""
        elem_type, dims = scope.type_of(name)
        is_inferred = elem_type in INTS and (dims is None or len(dims) <= 1)
        if name not in computed or scope.is_sequence(name) or not is_inferred:
            continue
        contents = scope.ints(name) or (None if elem_type == BOOL else scope.contents_of(name))
        if contents is not None and None in contents:
            contents = None  # RTen may know the result if sizes with names cancel out, as in N / N
        if contents is not None and not all(isinstance(item, int) for item in contents):
            continue  # nor does RTen know sizes with names
        if contents is None or contents in contents_of_others:
            possibly_equal.append(name)
        contents_of_others.add(contents)
    are_apart = len(contents_of_others) < 2 and len(possibly_equal) < 2
    if are_apart and not (possibly_equal and contents_of_others - {None}):
        return []
    return possibly_equal


def _computed_from_constants(nodes: Sequence[Node], scope: Scope) -> set[str]:
    """The values that nodes compute only from constants, without subgraphs and sequences."""
    names: set[str] = set()
    for node in nodes:
        inputs = [name for name in node.input if name]
        if not inputs or not all(name in names or scope.constant(name) is not None for name in inputs):
            continue
        if not subgraphs((node,)):
            names.update(name for name in node.output if name and not scope.is_sequence(name))
    return names


def _always_false(name: str, tensor_input: str, constants: Constants, names: ValueNames) -> tuple[str, list[Node]]:
    """A value of BOOL that is false, although RTen does not know it when it loads the model; and its nodes.

    The first element of an input of the model, or zero if it has none, is not less than itself. Without any input, a
    random number is tested in the same way.
    """
    import numpy

    types = constants.scope.types
    flat, first, number, total, below = (
        names.new(f"{name}/{what}") for what in ("flat", "first", "number", "total", "below")
    )
    types[total], types[below] = ValueType(INT32 if tensor_input else FLOAT, ()), ValueType(BOOL, ())
    less = make_node("Less", [total] * 2, [below])  # no number is less than itself
    if not tensor_input:
        return below, [make_node("RandomUniform", [], [total], shape=[]), less]
    types[flat] = types[first] = ValueType(None, (None,))
    types[number] = ValueType(INT32, (None,))
    zero, one, rest = (constants.add(numpy.array([number])) for number in (0, 1, -1))
    return below, [
        make_node("Reshape", [tensor_input, rest], [flat]),
        make_node("Slice", [flat, zero, one, zero], [first]),
        make_node("Cast", [first], [number], to=INT32),
        make_node("ReduceSum", [number, zero], [total], keepdims=0),
        less,
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
