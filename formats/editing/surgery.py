"""Nodes put behind a value, and nodes taken out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from formats.editing.making import make_node
from formats.editing.renaming import Renamer
from formats.editing.scopes import main_graph, scope_of, scopes_of
from formats.errors import EditError
from formats.ir.model import Graph, Node, entries
from formats.words import nearest

if TYPE_CHECKING:
    from collections.abc import Callable

    from formats.editing.scopes import Scope
    from formats.ir.model import Model


def insert_in(model: Model, node: Node | str, after: str, attributes: dict[str, Any]) -> None:
    """Put a node behind a value of the main graph: whatever uses the value, gets the first output of the node.

    Inputs and outputs of the graph keep their names. A text is the operator of a node with one input and one output.

    Raises: EditError for an unknown value, or a node that does not use it.
    """
    scope = scope_of(main_graph(model), "graph")
    if after not in scope.defined:
        raise EditError(f"no value is called {after!r}{nearest(after, sorted(scope.defined))}")
    taken = {name for each in scope.all_inner() for name in each.defined | each.used}
    new = make_node(node, [after], [_fresh(after, taken)], **attributes) if isinstance(node, str) else node
    if after not in new.input or not new.output:
        raise EditError(f"the node {new.op_type} must use {after} and have an output")
    if meeting := taken & {*new.output}:
        raise EditError(f"the node {new.op_type} has the output {min(meeting)}, the name of another value")
    at = next((index for index, each in enumerate(main_graph(model).node) if after in each.output), None)
    if at is None:  # an input or an initializer
        _rename_all(scope, {after: new.output[0]}, uses_only=True)
        main_graph(model).node.insert(0, new)
        return
    before = _fresh(after, taken | {*new.output})
    maker = main_graph(model).node[at]
    maker.output = [before if name == after else name for name in maker.output]
    new.input = [before if name == after else name for name in new.input]
    new.output = [after, *new.output[1:]]
    main_graph(model).value_info = [value for value in entries(main_graph(model), "value_info") if value.name != after]
    main_graph(model).node.insert(at + 1, new)


def _fresh(name: str, taken: set[str]) -> str:
    number = 2
    while (new := f"{name}_{number}") in taken:
        number += 1
    return new


def _rename_all(scope: Scope, names: dict[str, str], *, uses_only: bool) -> None:
    """Give values other names where a scope and those in it use them."""
    graph = scope.message
    kept = (graph.input, graph.initializer) if isinstance(graph, Graph) and uses_only else None
    if kept is not None and isinstance(graph, Graph):
        graph.input, graph.initializer = [], []
        annotations, graph.quantization_annotation = entries(graph, "quantization_annotation"), []
        outputs = [value for value in graph.output if value.name in names]
        if outputs:
            graph.input, graph.initializer = kept
            raise EditError(f"{outputs[0].name} is both an input and an output of the graph")
    for each in scope.all_inner():
        inner = {old: new for old, new in names.items() if each is scope or old not in each.defined}
        Renamer(inner, {}).rename(each.message)
    if kept is not None and isinstance(graph, Graph):
        graph.input, graph.initializer = kept
        graph.quantization_annotation = annotations


def bypass_in(model: Model, wanted: str | Callable[[Node], bool]) -> int:
    """Take nodes out, so that what used their output uses their input; return their number.

    Nodes are given by their operator, or by a function. One between an input and an output of its graph stays.

    Raises: EditError for a node that has not exactly one input and one output.
    """
    chosen = (lambda node: node.op_type == wanted) if isinstance(wanted, str) else wanted
    count = 0
    for root in scopes_of(model):
        for scope in root.all_inner():
            for node in [node for node in scope.message.node if chosen(node)]:
                count += _bypass(scope, node)
    return count


def _bypass(scope: Scope, node: Node) -> bool:
    sources, results = [*filter(None, node.input)], [*filter(None, node.output)]
    if len(sources) != 1 or len(results) != 1:
        name = node.name or node.output[0]
        raise EditError(f"{node.op_type} {name} has {len(sources)} inputs and {len(results)} outputs, so it stays")
    (source,), (result,) = sources, results
    message = scope.message
    outputs = {value if isinstance(value, str) else value.name for value in message.output}
    if result in outputs:
        maker = next((each for each in message.node if source in each.output), None)
        if maker is None or source in outputs:
            return False
        old, new = source, result  # the output of the graph keeps its name
    else:
        old, new = result, source
    message.node = [each for each in message.node if each is not node]
    for each in scope.all_inner():
        if each is scope or old not in each.defined:
            Renamer({old: new}, {}).rename(each.message)
    values: dict[str | None, Any] = {}
    for value in entries(message, "value_info"):
        values.setdefault(value.name, value)
    message.value_info = [value for name, value in values.items() if name not in outputs]
    return True
