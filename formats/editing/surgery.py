"""Nodes put behind a value, taken out, and ordered.

Spec: onnx.proto, NodeProto; ONNX IR, "Nodes".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from formats.editing.inference import check_again
from formats.editing.nodes import make_node
from formats.editing.options import Edit, EditResult
from formats.editing.renaming import apply
from formats.editing.scopes import all_messages, fresh, main_graph, names_of, names_used, scope_of, scopes_of
from formats.errors import EditError
from formats.ir import STANDARD_DOMAINS
from formats.ir.attributes import label_of
from formats.ir.copies import copied
from formats.ir.model import (
    Graph,
    Node,
    entries,
)
from formats.ir.node_order import after_needs
from formats.words import counted, names_like, nearest

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from formats.editing.scopes import NameScope
    from formats.ir.model import Function, Model


def insert_in(model: Model, node: Node | str, after: str, attributes: dict[str, Any]) -> None:
    """Put a node behind a value of the main graph: whatever uses the value, gets the first output of the node.

    Inputs and outputs of the graph keep their names. A text is the operator of a node with one input and one output.

    Raises: EditError for an unknown value, or a node that does not use it.
    """
    scope = scope_of(main_graph(model), "graph")
    if after not in scope.defined:
        raise EditError(f"no value is called {after!r}{nearest(after, sorted(scope.defined))}")
    taken = {name for inner in scope.all_inner() for name in inner.defined | inner.used}
    new = make_node(node, [after], [fresh(after, {*taken})], **attributes) if isinstance(node, str) else node
    if after not in new.input or not new.output:
        raise EditError(f"the node {new.op_type} must use {after} and have an output")
    if meeting := taken & {*new.output}:
        raise EditError(f"the node {new.op_type} has the output {min(meeting)}, the name of another value")
    at = next((index for index, maker in enumerate(main_graph(model).node) if after in maker.output), None)
    if at is None:  # an input or an initializer
        rename_uses(main_graph(model), scope, {after: new.output[0]})
        main_graph(model).node.insert(0, new)
        return
    before = fresh(after, taken | {*new.output})
    maker = main_graph(model).node[at]
    maker.output = [before if name == after else name for name in maker.output]
    new.input = [before if name == after else name for name in new.input]
    new.output = [after, *new.output[1:]]
    main_graph(model).value_info = [value for value in entries(main_graph(model), "value_info") if value.name != after]
    main_graph(model).node.insert(at + 1, new)


def rename_uses(graph: Graph, scope: NameScope, names: dict[str, str]) -> None:
    """Give inputs and initializers other names where the graph and those in it use them, but not where they stand."""
    if both := [value.name for value in graph.output if value.name in names]:
        raise EditError(f"{both[0]} is both an input and an output of the graph")
    kept = graph.input, graph.initializer, entries(graph, "quantization_annotation")
    graph.input, graph.initializer, graph.quantization_annotation = [], [], []
    apply(scope, {id(graph): names}, {})
    graph.input, graph.initializer, graph.quantization_annotation = kept


def bypass_in(model: Model, wanted: str | Callable[[Node], bool]) -> int:
    """Take nodes out, so that what used their output uses their input; return their number.

    Nodes are given by their operator, or by a function. One between an input and an output of its graph stays.

    Raises: EditError for a node that has not exactly one input and one output.
    """
    chosen = (lambda node: node.op_type == wanted) if isinstance(wanted, str) else wanted
    count = 0
    for root in scopes_of(model):
        for scope in root.all_inner():
            count += _bypass(scope, [node for node in scope.message.node if chosen(node)])
    return count


class NamedNodes:
    """The nodes of all graphs and functions of a model, by name, or if none has it by an output, or by operator."""

    def __init__(self, model: Model) -> None:
        by_name: dict[str, list[Node]] = {}
        by_output: dict[str, list[Node]] = {}
        by_operator: dict[str, list[Node]] = {}
        for message in all_messages(model):
            for node in message.node:
                by_name.setdefault(node.name or "", []).append(node)
                by_operator.setdefault(node.op_type or "", []).append(node)
                for name in node.output:
                    by_output.setdefault(name, []).append(node)
        self._tables = by_name, by_output, by_operator
        self.known = {*by_name, *by_output, *by_operator}

    def like(self, option: str, texts: Sequence[str]) -> list[Node]:
        """The nodes that names or patterns mean; each of them once.

        Raises: EditError for a name that no node has.
        """
        chosen: dict[int, Node] = {}
        for text in names_of(option, texts, self.known):
            matching = ((table, names) for table in self._tables if (names := names_like(text, table)))
            table, names = next(matching, ({}, set()))
            if not names:
                by_name, by_output, by_operator = self._tables
                raise EditError(f"no node is called {text!r}{nearest(text, [*by_name, *by_operator, *by_output])}")
            chosen.update((id(node), node) for name in names for node in table[name])
        return [*chosen.values()]


def bypass_named_in(model: Model, texts: Sequence[str], before: Model) -> EditResult:
    """Take nodes out as `bypass_in` does: by name, or if none has it by an output, or by operator; patterns match, too.

    `before` is the model without any edit.

    Raises: EditError as `bypass_in` does; for an unknown name; if the rest does not fit together.
    """
    chosen = {id(node): node for node in NamedNodes(model).like("bypass", texts)}
    bypass_in(model, lambda node: id(node) in chosen)
    left = {id(node) for message in all_messages(model) for node in message.node}
    edits = []
    for node in chosen.values():
        name, kind = f"{node.op_type} {label_of(node)}", "identity" if _is_identity(node) else "bypass"
        if id(node) in left:
            edits.append(Edit("stays", f"{name} stays, since it is between an input and an output"))
        else:
            edits.append(Edit(kind, f"{name} is bypassed"))
    return EditResult(tuple(edits)) + check_again(model, before, "without these nodes")


def _is_identity(node: Node) -> bool:
    return node.op_type == "Identity" and node.domain in STANDARD_DOMAINS


def _bypass(scope: NameScope, nodes: Sequence[Node]) -> int:
    """Take these nodes of a graph or function out; return the number of those that could go."""
    message = scope.message
    outputs = {value if isinstance(value, str) else value.name or "" for value in message.output}
    makers = {name for node in message.node for name in node.output}
    names: dict[str, str] = {}  # of values that get the name of another one, which may do so itself
    gone: set[int] = set()
    for node in nodes:
        sources, results = [*filter(None, node.input)], [*filter(None, node.output)]
        if len(sources) != 1 or len(results) != 1:
            raise EditError(
                f"{node.op_type} {label_of(node)} has {len(sources)} inputs and {len(results)} outputs, so it stays"
            )
        source, result = _last(names, sources[0]), _last(names, results[0])
        if result in outputs and (source in outputs or source not in makers):
            continue
        gone.add(id(node))
        if result in outputs:  # it keeps its name
            source, result = result, source
        if source != result:
            names[result] = source
    if not gone:
        return 0
    message.node = [node for node in message.node if id(node) not in gone]
    apply(scope, {id(message): {name: _last(names, name) for name in names}}, {})
    values: dict[str | None, Any] = {}
    for value in entries(message, "value_info"):
        values.setdefault(value.name, value)
    message.value_info = [value for name, value in values.items() if name not in outputs]
    return len(gone)


def _last(names: dict[str, str], name: str) -> str:
    """The name at the end of a chain of names; the names on the way then lead there at once."""
    end = name
    while end in names:
        end = names[end]
    while name != end:
        names[name], name = end, names[name]
    return end


def sort_in(model: Model, *, must: bool = True) -> EditResult:
    """Bring the nodes of all graphs and functions into order; nodes that are in order keep theirs.

    Raises: EditError if nodes need each other in a circle; if the order is no `must`, they stay as they are.
    """
    count = 0
    for message in unsorted(model):
        nodes = message.node
        order = after_needs(_needs(message))
        if len(order) == len(nodes):
            message.node = [nodes[index] for index in order]
            count += 1
        elif must:
            stuck = nodes[min({*range(len(nodes))}.difference(order))]
            name = f"{stuck.op_type} {label_of(stuck)}"
            raise EditError(f"nodes need each other in a circle, such as {name}")
    return EditResult((Edit("sort", f"the nodes of {counted(count, 'graph')} are sorted"),) if count else ())


def in_order(model: Model, *, own: bool = False, must: bool = False) -> tuple[Model, EditResult]:
    """The model, or if its nodes are not in order, one in which they are, and what was done.

    If nobody else uses the model, it is the caller's `own`, and is sorted itself.

    Raises: EditError if the order is a `must`, and nodes need each other in a circle.
    """
    if not unsorted(model):
        return model, EditResult()
    new = model if own else copied(model)
    return new, sort_in(new, must=must)


def unsorted(model: Model) -> list[Graph | Function]:
    """The graphs and functions in which a node comes before one that makes what it uses."""
    return [
        message
        for message in all_messages(model)
        if any(max(made, default=-1) >= index for index, made in enumerate(_needs(message)))
    ]


def _needs(message: Graph | Function) -> list[set[int]]:
    """For each node, the indices of those that make what it uses."""
    makers = {name: index for index, node in enumerate(message.node) for name in node.output if name}
    return [{makers[name] for name in names_used(node) if name in makers} for node in message.node]
