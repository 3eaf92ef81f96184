"""Values that become outputs of the model, and outputs that are none any more.

Spec: onnx.proto, GraphProto, `output` and `value_info`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from formats.editing.extraction import check_names, interface_of
from formats.editing.options import Edit, EditResult
from formats.editing.scopes import main_graph, names_chosen, names_of
from formats.errors import EditError
from formats.ir.model import entries
from formats.words import names_like

if TYPE_CHECKING:
    from collections.abc import Sequence

    from formats.ir.model import Graph, Model

ALL = "all"


def add_outputs_in(model: Model, texts: Sequence[str]) -> EditResult:
    """Make values outputs: those that nodes of the main graph make by name, by pattern, or `all`; weights by name.

    Their types are inferred if the model does not state them.

    Raises: EditError if no value has a name, or matches a pattern.
    """
    graph = main_graph(model)
    made = dict.fromkeys(name for node in graph.node for name in node.output if name)
    known = made | dict.fromkeys(tensor.name for tensor in graph.initializer if tensor.name)
    places = {name: place for place, name in enumerate(known)}
    before = {value.name for value in graph.output}
    wanted: dict[str, None] = {}
    for text in names_of("add_output", texts, known):
        found = {text} if text in known else {*made} if text == ALL else names_like(text, made)
        if not found:
            check_names(graph, [text], graph.output, "output")
            raise EditError(f"{text} is an input of the model; an output must be a weight, or made by a node")
        wanted.update(dict.fromkeys(sorted(found, key=places.__getitem__)))
    new = [name for name in wanted if name not in before]
    types, losses = interface_of(model, [], new)
    graph.value_info = [value for value in entries(graph, "value_info") if value.name not in types]
    graph.output.extend(types[name] for name in new)
    edits = [Edit("add_output", f"{name} is an output") for name in new]
    if not new:
        edits = [Edit("add_output", "the values were outputs")]
    return EditResult(tuple(edits), tuple(losses))


def remove_outputs_in(model: Model, texts: Sequence[str]) -> EditResult:
    """Make outputs, by name or pattern, inner values; what computes them stays.

    Raises: EditError if no output has a name, or matches a pattern, or if none would be left.
    """
    graph = main_graph(model)
    known = {value.name or "": value for value in graph.output}
    gone = names_chosen("remove_output", texts, known, "output")
    if len(gone) == len(known):
        raise EditError("the model would have no output")
    unstated = gone & _inner_values(graph)
    graph.output = [value for value in graph.output if value.name not in gone]
    graph.value_info += [value for name, value in known.items() if name in unstated and value.type is not None]
    return EditResult(tuple(Edit("remove_output", f"{name} is no output any more") for name in known if name in gone))


def _inner_values(graph: Graph) -> set[str]:
    """The values that nodes make, and of which `value_info` says nothing."""
    stated = {value.name for value in entries(graph, "value_info")}
    return {name for node in graph.node for name in node.output if name not in stated}
