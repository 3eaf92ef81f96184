"""A model in another IR version, which shares the weights of the given one.

Spec: onnx.proto, `Version`; ONNX docs, IR.md.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from formats.editing.extraction import all_nodes
from formats.editing.options import MOST_NAMED, Edit, EditResult
from formats.editing.scopes import all_messages, main_graph
from formats.errors import UnsupportedError
from formats.ir import FIRST_WITH_CONSTANTS, FIRST_WITH_FIELDS
from formats.ir.copies import copied
from formats.ir.functions import functions_of, key_of
from formats.ir.model import Function, Graph, Message, Model, ValueInfo, entries, type_of_tensor
from formats.onnxpb.newer_parts import newer_parts
from formats.tensordata.plan import DOCUMENTATION, USE, Loss
from formats.words import counted, listed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from formats.ir.functions import Key
    from formats.tensordata.plan import Seen

OVERLOADS = FIRST_WITH_FIELDS["FunctionProto", "overload"]
# Newer fields without which a model computes the same: what they are, and who misses them.
OPTIONAL: dict[str, tuple[str, Seen]] = {
    "metadata_props": ("metadata of nodes and other parts", DOCUMENTATION),
    "value_info": ("types of values in functions", DOCUMENTATION),
    "quantization_annotation": ("quantisation annotations", USE),
    "device_configurations": ("device configurations of nodes", USE),
    "configuration": ("device configurations", USE),
}


def with_ir_version(model: Model, version: int) -> tuple[Model, EditResult]:
    """The model in this IR version, and what was done; newer fields without which it computes the same are dropped.

    Raises: UnsupportedError that names the parts that are newer.
    """
    given = model.ir_version or 0
    if given == version:
        return model, EditResult()
    new = copied(model)
    new.ir_version = version
    done = EditResult((Edit("ir_version", f"IR version {given} -> {version}"),))
    if version < given:
        done += EditResult(losses=tuple(_drop_optional(new, version)))
        if version < OVERLOADS and (renamed := _without_overloads(new)):
            detail = f"{counted(renamed, 'function')} got a name in place of an overload"
            done += EditResult((Edit("ir_version", detail),))
        if parts := [f"{place}: {detail.partition(', but')[0]}" for place, detail in newer_parts(new)]:
            shown = listed(parts, MOST_NAMED, "; ", "part")
            raise UnsupportedError(f"the model cannot be written in IR version {version}: {shown}", reason=shown)
        if version < FIRST_WITH_CONSTANTS <= given:
            done += _add_inputs(new)
    return new, done


def _without_overloads(model: Model) -> int:
    """Give functions that differ only by their overload names of their own; return their number."""
    functions = functions_of(model.functions)
    taken = {(domain, name) for domain, name, _ in functions}
    names: dict[Key, str] = {}
    for key, function in functions.items():
        domain, name, overload = key
        if overload:
            new, number = f"{name}_{overload}", 1
            while (domain, new) in taken:
                new, number = f"{name}_{overload}_{number}", number + 1
            taken.add((domain, new))
            names[key] = function.name = new
            function.overload = None
    for node in all_nodes([main_graph(model), *model.functions]):
        if node.overload and (key := key_of(node.domain, node.op_type, node.overload)) in names:
            node.op_type, node.overload = names[key], None
    return len(names)


def _drop_optional(model: Model, version: int) -> Iterator[Loss]:
    """Drop the newer fields whose loss is only reported."""
    wanted = {key for key, first in FIRST_WITH_FIELDS.items() if first > version and key[1] in OPTIONAL}
    counts = Counter(name for message in _messages(model) for name in _dropped(message, wanted))
    for name, number in counts.items():
        words, seen = OPTIONAL[name]
        yield Loss(name, "", f"IR version {version} has no {words}: {counted(number, 'part')} lost them", seen)


def _dropped(message: Any, wanted: set[tuple[str, str]]) -> Iterator[str]:
    for owner, name in wanted:
        if owner == message.message and entries(message, name):
            setattr(message, name, [])
            yield name


def _messages(model: Model) -> Iterator[Message]:
    """All messages that may have a field that can be dropped."""
    yield model
    for graph in all_messages(model):
        yield graph
        yield from graph.node
        yield from entries(graph, "value_info")
        if not isinstance(graph, Function):
            yield from (*graph.input, *graph.output, *graph.initializer)
        for node in graph.node:
            yield from (attribute.t for attribute in entries(node, "attribute") if attribute.t is not None)


def _add_inputs(model: Model) -> EditResult:
    """Make all initializers inputs as well.

    Raises: UnsupportedError for those of subgraphs, which have no such inputs.
    """
    for graph in all_messages(model):
        if not isinstance(graph, Function) and graph is not main_graph(model) and graph.initializer:
            found = f"a subgraph has the initializer {graph.initializer[0].name!r:.80}"
            raise UnsupportedError(
                f"before IR version {FIRST_WITH_CONSTANTS}, an initializer must be an input; {found}"
            )
    known = {value.name for value in main_graph(model).input}
    new = list(_inputs(main_graph(model), known))
    main_graph(model).input = [*main_graph(model).input, *new]
    words = f"{counted(len(new), 'initializer')} became inputs as well, which this version needs"
    return EditResult((Edit("ir_version", words),)) if new else EditResult()


def _inputs(graph: Graph, known: set[str | None]) -> Iterator[ValueInfo]:
    for tensor in graph.initializer:
        if tensor.name not in known:
            yield ValueInfo(tensor.name, type_of_tensor(tensor))
