"""What no output needs goes: nodes, initializers, functions, and what is said of them; inputs and outputs stay.

Spec: onnx.proto, GraphProto, FunctionProto and TrainingInfoProto.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from formats.editing.extraction import annotations_of, called_functions
from formats.editing.options import Edit, EditResult
from formats.editing.scopes import defined_in, main_graph, names_used, scope_of, subgraphs_of, training_bindings
from formats.ir.model import Graph, entries
from formats.words import counted, joined

if TYPE_CHECKING:
    from formats.ir.model import Function, Model


def prune_in(model: Model) -> EditResult:
    """Remove the nodes, initializers, functions and value infos that no output of the model needs.

    What training needs stays, too, and so do all inputs, and initializers that are defaults of inputs.
    """
    what = pruned_from(model)
    text = f"{what} removed, which no output needs" if what else "there was nothing that no output needs"
    return EditResult((Edit("prune", text),))


def pruned_from(model: Model) -> str:
    """What was removed of a model, since no output needs it: numbers, or nothing."""
    removed: Counter[str] = Counter()
    before = len(model.functions)
    for info in entries(model, "training_info"):
        for graph in filter(None, (info.initialization, info.algorithm)):
            _prune(graph, set(), removed)
    _prune(main_graph(model), needed_for_training(model), removed)
    model.functions = called_functions(model)
    for function in model.functions:
        _prune(function, set(), removed)
    model.functions = called_functions(model)  # without those that only nodes called that are gone
    removed["function"] = before - len(model.functions)
    return joined([counted(count, kind) for kind, count in removed.items() if count])


def needed_for_training(model: Model) -> set[str]:
    """The values of the main graph that training needs, and others with their names."""
    needed: set[str] = set()
    for info in entries(model, "training_info"):
        if info.algorithm is not None:
            needed.update(*(scope.used for scope in scope_of(info.algorithm, "").all_inner()))
    for entry in training_bindings(model):
        needed.update((entry.key or "", entry.value or ""))
    return needed


def _prune(message: Graph | Function, needed: set[str], removed: Counter[str]) -> None:
    """Remove what neither the outputs of a graph or function need, nor these values."""
    for node in message.node:
        for _, graph in subgraphs_of(node):  # first: what only these need is not needed, if they do not need it
            _prune(graph, set(), removed)
    nodes = message.node
    makers = {name: index for index, node in enumerate(nodes) for name in node.output if name}
    used = needed | {value if isinstance(value, str) else value.name or "" for value in message.output}
    live: set[int] = set()
    waiting = [*used]
    while waiting:
        index = makers.get(waiting.pop())
        if index is not None and index not in live:
            live.add(index)
            names = names_used(nodes[index])
            used.update(names)
            waiting += names
    message.node = [node for index, node in enumerate(nodes) if index in live]
    removed["node"] += len(nodes) - len(live)
    if isinstance(message, Graph):
        _prune_initializers(message, used | {value.name or "" for value in message.input}, removed)
    infos = entries(message, "value_info")
    if infos:
        defined = defined_in(message)
        message.value_info = [value for value in infos if value.name in defined]
        removed["value info"] += len(infos) - len(message.value_info)


def _prune_initializers(graph: Graph, used: set[str], removed: Counter[str]) -> None:
    """Keep the initializers with these names, and those of quantization annotations of values that stay."""
    there = used.union(*(node.output for node in graph.node))
    graph.quantization_annotation, quantizing = annotations_of(graph, there)
    used = used | quantizing
    before = len(graph.initializer) + len(entries(graph, "sparse_initializer"))
    graph.initializer = [tensor for tensor in graph.initializer if tensor.name in used]
    sparse = [entry for entry in entries(graph, "sparse_initializer") if entry.values and entry.values.name in used]
    graph.sparse_initializer = sparse
    removed["initializer"] += before - len(graph.initializer) - len(sparse)
