"""A part of a model: the nodes between some values, with everything that they need.

Spec: onnx.proto, GraphProto and FunctionProto.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from formats.editing.inference import is_contradiction, without_stated
from formats.editing.options import Edit, EditResult
from formats.editing.scopes import (
    defined_in,
    fresh,
    main_graph,
    names_of,
    names_used,
    scope_of,
    shape_of,
    subgraphs_of,
)
from formats.errors import EditError, MissingPackageError, UnsupportedError
from formats.ir import STANDARD_DOMAINS
from formats.ir.copies import copied
from formats.ir.functions import functions_of, key_of
from formats.ir.model import Graph, Type, ValueInfo, entries, type_of_tensor
from formats.onnxpb.inference import inferred
from formats.onnxpb.value_types import type_of, value_types
from formats.tensordata.plan import INTERFACE, USE, Loss
from formats.words import counted, nearest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from formats.ir.model import Function, Model, Node

SHOWN_STEPS = 4  # at each end of a path


class _Part(NamedTuple):
    """What some outputs need: nodes by index, the inputs, and the initializers."""

    nodes: set[int]
    inputs: dict[str, None]
    initializers: set[str]


def extract_in(model: Model, inputs: Sequence[str] | None, outputs: Sequence[str] | None) -> EditResult:
    """Leave of the model what computes `outputs` from `inputs`; without them, those of the model count.

    Only the model and its main graph change; the messages in them stay as they are.

    Raises: EditError for an unknown name, or if an output needs something else than the inputs.
    """
    graph = main_graph(model)
    known = defined_in(graph)
    ends = [value.name or "" for value in graph.output]
    wanted = [*dict.fromkeys(ends if outputs is None else names_of("outputs", outputs, known))]
    chosen_inputs = None if inputs is None else [*dict.fromkeys(names_of("inputs", inputs, known))]
    check_names(graph, chosen_inputs or (), graph.input, "input")
    check_names(graph, wanted, graph.output, "output")
    part = _part(graph, chosen_inputs, wanted)
    counts = len(graph.node), len(graph.initializer)
    types, losses = interface_of(model, [*part.inputs], wanted)
    _keep(graph, part, types, wanted)
    if entries(model, "training_info"):
        model.training_info = []
        losses.append(Loss("training_info", "training_info", "the information for training is left out", USE))
    model.functions = called_functions(model)
    _keep_imports(model)
    kept = f"{len(graph.node):,} of {counted(counts[0], 'node')}"
    edits = [Edit("extract", f"{kept}, {len(graph.initializer):,} of {counted(counts[1], 'weight')}")]
    unneeded = [name for name in chosen_inputs or () if name not in part.inputs]
    edits += [Edit("inputs", f"the input {name} is not needed, and left out") for name in unneeded]
    return EditResult(tuple(edits), tuple(losses))


def check_names(graph: Graph, names: Iterable[str], ends: Iterable[ValueInfo], kind: str) -> None:
    """Raises EditError for a name that no value of the main graph has; names of `ends` of this kind are suggested."""
    main = scope_of(graph, "graph")
    for name in names:
        if name not in main.defined:
            for scope in main.all_inner():
                if name in scope.defined:
                    raise EditError(f"{name} is a value in {scope.where}; only values of the main graph can be named")
            first = [value.name or "" for value in ends]
            raise EditError(f"no value is called {name!r}{nearest(name, first, sorted(main.defined), kind)}")


def _part(graph: Graph, inputs: Sequence[str] | None, wanted: Sequence[str]) -> _Part:
    """What the wanted values need."""
    makers = {name: index for index, node in enumerate(graph.node) for name in node.output if name}
    constants = {tensor.name or "" for tensor in graph.initializer}
    constants |= {sparse.values.name or "" for sparse in entries(graph, "sparse_initializer") if sparse.values}
    own = {value.name or "" for value in graph.input}
    bounds = own - constants if inputs is None else set(inputs)
    part = _Part(set(), {}, set())
    reached: dict[str, str | None] = dict.fromkeys(wanted)  # the value that each one is needed for
    waiting = [*reversed(wanted)]
    while waiting:
        name = waiting.pop()
        if name in bounds:
            part.inputs[name] = None
        elif name in constants:
            part.initializers.add(name)
        elif name in makers:
            if makers[name] not in part.nodes:
                part.nodes.add(makers[name])
                new = [used for used in dict.fromkeys(names_used(graph.node[makers[name]])) if used not in reached]
                reached.update(dict.fromkeys(new, name))
                waiting += reversed(new)
        else:
            raise EditError(_unreachable(graph, name, reached, makers, is_input=name in own))
    order = inputs if inputs is not None else [value.name or "" for value in graph.input]
    return part._replace(inputs={name: None for name in order if name in part.inputs})


def _unreachable(
    graph: Graph, name: str, reached: dict[str, str | None], makers: dict[str, int], *, is_input: bool
) -> str:
    """The error for a value that is needed but not given, with the path from the output to it."""
    path, value = [name], reached[name]
    while value is not None:
        path.append(value)
        value = reached[value]
    if len(path) == 1:
        return (
            f"{name} is an input of the model, and not one of the chosen inputs, so nothing computes it from them"
            if is_input
            else f"nothing computes {name}"
        )
    steps = path[::-1]
    pairs = pairwise(steps)
    named = [steps[0], *(f"{_of(graph.node[makers[before]])} <- {after}" for before, after in pairs)]
    if len(named) > 2 * SHOWN_STEPS:
        omitted = len(named) - 2 * SHOWN_STEPS
        named = [*named[:SHOWN_STEPS], f"({counted(omitted, 'more step')})", *named[-SHOWN_STEPS:]]
    reason = "is not one of the inputs" if is_input else "nothing defines"
    return f"{steps[0]} needs {name}, which {reason}: {' <- '.join(named)}"


def _of(node: Node) -> str:
    return f"{node.op_type} {node.name}" if node.name else node.op_type or "a node"


def interface_of(model: Model, inputs: list[str], outputs: list[str]) -> tuple[dict[str, ValueInfo], list[Loss]]:
    """The types of the new inputs and outputs, inferred if the model does not state them."""
    wanted = {*inputs, *outputs}
    infos = _types(main_graph(model), wanted)
    losses = _correct(model, infos)
    why = ""
    if any(not _is_complete(infos.get(name)) for name in wanted):
        try:
            with_types = inferred(without_stated(model) if losses else model)
        except MissingPackageError as error:
            with_types, why = None, f"; {error.message}"
        for name, value in _types(main_graph(with_types), wanted).items() if with_types is not None else ():
            if not _is_complete(infos.get(name)):
                infos[name] = value
        derived = value_types(model)[id(main_graph(model))]  # onnx knows no operators of com.microsoft
        for name in wanted:
            if not _has_elements(infos.get(name)) and (kind := type_of(derived.get(name, ""))) is not None:
                infos[name] = ValueInfo(name, kind)
    for end, names in (("input", inputs), ("output", outputs)):
        for name in names:
            if not _is_complete(infos.get(name)):
                infos.setdefault(name, ValueInfo(name))
                part = "dims" if infos[name].type is not None else "type"
                detail = f"the {part} of the {end} {name} {'are' if part == 'dims' else 'is'} not known{why}"
                losses.append(Loss("type", f"graph.{end}", detail, INTERFACE))
    return {name: infos[name] for name in (*inputs, *outputs)}, losses


def _correct(model: Model, infos: dict[str, ValueInfo]) -> list[Loss]:
    """Take inferred shapes for values of which the model states others, which are wrong; the reports of it."""
    given = {value.name for value in main_graph(model).input}
    stated = {name: shape for name, value in infos.items() if name not in given and (shape := shape_of(value))}
    if not stated:
        return []
    try:
        with_types = inferred(without_stated(model), strict=True)
    except (EditError, MissingPackageError, UnsupportedError):
        return []
    losses = []
    for name, value in _types(main_graph(with_types), {*stated}).items() if with_types is not None else ():
        shape = shape_of(value)
        if shape is not None and is_contradiction(stated[name], shape):
            infos[name] = value
            detail = f"the stated shape of {name} was wrong, and is inferred again"
            losses.append(Loss("shape", "graph", detail, INTERFACE))
    return losses


def _types(graph: Graph, wanted: set[str]) -> dict[str, ValueInfo]:
    """What a graph says of the wanted values, by name: in value infos, and by the dims of initializers."""
    infos: dict[str, ValueInfo] = {}
    for value in (*entries(graph, "value_info"), *graph.output, *graph.input):
        if (name := value.name or "") in wanted:
            infos[name] = value
    if infos.keys() < wanted:
        tensors = {name: tensor for tensor in graph.initializer if (name := tensor.name or "") in wanted}
        infos = {name: ValueInfo(tensor.name, type_of_tensor(tensor)) for name, tensor in tensors.items()} | infos
    return infos


def _has_elements(value: ValueInfo | None) -> bool:
    """Whether the type is known, and for a tensor that of its elements."""
    if value is None or value.type is None or not any(getattr(value.type, name) for name in Type.oneof):
        return False
    return value.type.tensor_type is None or bool(value.type.tensor_type.elem_type)


def _is_complete(value: ValueInfo | None) -> bool:
    """Whether the type is known, and for a tensor the rank."""
    tensor = value.type.tensor_type if value is not None and value.type is not None else None
    return _has_elements(value) and (tensor is None or tensor.shape is not None)


def _keep(graph: Graph, part: _Part, types: dict[str, ValueInfo], wanted: Sequence[str]) -> None:
    """Remove from the graph what is not a part."""
    nodes = [node for index, node in enumerate(graph.node) if index in part.nodes]
    nodes = _without_names(nodes, part.inputs, graph)
    annotations, names = annotations_of(
        graph, {*part.inputs, *part.initializers, *(n for node in nodes for n in node.output)}
    )
    constants = (part.initializers | names) - part.inputs.keys()
    graph.quantization_annotation = annotations
    graph.node = nodes
    graph.initializer = [tensor for tensor in graph.initializer if tensor.name in constants]
    sparse = entries(graph, "sparse_initializer")
    graph.sparse_initializer = [entry for entry in sparse if entry.values and entry.values.name in constants]
    old = {value.name or "": value for value in graph.input}
    defaults = [value for name, value in old.items() if name in constants]
    graph.input = [*(types[name] for name in part.inputs), *defaults]
    graph.output = [types[name] for name in wanted]
    inner = {name for node in nodes for name in node.output} - part.inputs.keys()
    inner |= {name for node in nodes for name in names_used(node)} & constants
    inner -= {*wanted}
    graph.value_info = [value for value in entries(graph, "value_info") if value.name in inner]


def _without_names(nodes: list[Node], inputs: dict[str, None], graph: Graph) -> list[Node]:
    """The nodes, with other names for outputs that are inputs now: the node is needed for another of its outputs."""
    taken = set(scope_of(graph, "graph").defined)
    renamed = []
    for node in nodes:
        if not inputs.keys().isdisjoint(node.output):
            node = copied(node)  # the other one belongs to another model
            node.output = [fresh(name, taken) if name in inputs else name for name in node.output]
        renamed.append(node)
    return renamed


def annotations_of(graph: Graph, names: set[str]) -> tuple[list[Any], set[str]]:
    """The quantisation annotations of values that stay, and the initializers that these need."""
    kept, needed = [], set()
    constants = {tensor.name or "" for tensor in graph.initializer}
    for annotation in entries(graph, "quantization_annotation"):
        tensors = {entry.value or "" for entry in annotation.quant_parameter_tensor_names}
        if annotation.tensor_name in names and tensors <= names | constants:
            kept.append(annotation)
            needed |= tensors & constants
    return kept, needed


def all_nodes(messages: Iterable[Graph | Function]) -> Iterator[Node]:
    """The nodes of graphs and functions, with those of their subgraphs."""
    stack: list[Any] = [*messages]
    while stack:
        for node in stack.pop().node:
            yield node
            stack += [graph for _, graph in subgraphs_of(node)]


def called_functions(model: Model) -> list[Function]:
    """The functions that the graphs call, those of training, too, directly or through others, in their order."""
    functions = functions_of(model.functions)
    called: set[Any] = set()
    training = [graph for info in entries(model, "training_info") for graph in (info.initialization, info.algorithm)]
    waiting: list[Graph | Function] = [main_graph(model), *filter(None, training)]
    while waiting:
        for node in all_nodes([waiting.pop()]):
            key = key_of(node.domain, node.op_type, node.overload)
            if key in functions and key not in called:
                called.add(key)
                waiting.append(functions[key])
    return [function for key, function in functions.items() if key in called]


def _keep_imports(model: Model) -> None:
    """Remove the operator sets that no node uses, but not ONNX's own."""
    used = {*STANDARD_DOMAINS, *(node.domain for node in all_nodes([main_graph(model), *model.functions]))}
    model.opset_import = [entry for entry in model.opset_import if entry.domain in used]
