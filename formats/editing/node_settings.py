"""Nodes that get another operator, domain or attribute, checked against the definition of their operator.

Spec: onnx.proto, NodeProto and AttributeProto.
"""

from __future__ import annotations

import json
from math import isfinite
from typing import TYPE_CHECKING, Any, Final

from formats.editing.extraction import all_nodes
from formats.editing.inference import check_again, infer_following
from formats.editing.nodes import make_attribute
from formats.editing.options import LARGEST_DIM, SETTING, Edit, EditResult
from formats.editing.scopes import main_graph, subgraphs_of
from formats.editing.surgery import NamedNodes
from formats.errors import EditError
from formats.ir import NEWEST_IR_VERSION, ONNX, domain_key
from formats.ir.attributes import attribute_named, label_of
from formats.ir.model import VALUE_FIELDS, Attribute, AttributeType, OperatorSetId, entries
from formats.ir.summary import type_with_dims
from formats.onnxpb.node_check import TYPE_NAMES, NodeCheck, functions_by_name
from formats.onnxpb.operator_sets import form_of, newest
from formats.options import Typed

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from formats.editing.options import EditOptions
    from formats.ir.model import Function, Model, Node

LARGEST_FLOAT: Final = (2 - 2**-23) * 2.0**127  # of 32 bits
# What a value becomes, by the type of its attribute; messages become what `make_attribute` makes.
_KINDS: Final[dict[int, Callable[[Any], Any]]] = {
    AttributeType.FLOAT: float,
    AttributeType.INT: int,
    AttributeType.STRING: lambda value: value if isinstance(value, bytes) else value.encode(),
}
_LISTS: Final[dict[int, int]] = {  # the type of the values of a list
    AttributeType.FLOATS: AttributeType.FLOAT,
    AttributeType.INTS: AttributeType.INT,
    AttributeType.STRINGS: AttributeType.STRING,
}


class _Settings:
    """The nodes of a model, the operator sets where they are, and what changed."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.functions = functions_by_name(model.functions)
        self.owners: dict[int, Function] = {}  # by the `id` of a node
        for function in model.functions:
            self.owners.update((id(node), function) for node in all_nodes([function]))
        self.problems: dict[int, tuple[Node, set[str]]] = {}  # nodes that change, and what was wrong with them
        self.edits: list[Edit] = []

    def imports(self, node: Node) -> list[OperatorSetId]:
        """The operator sets of the graph or function of a node."""
        return self.owners.get(id(node), self.model).opset_import

    def problems_of(self, node: Node) -> set[str]:
        """What is wrong with a node."""
        is_inside = id(node) in self.owners
        version = self.model.ir_version or NEWEST_IR_VERSION
        check = NodeCheck(self.imports(node), self.functions, version, is_inside)
        return {detail for _, _, detail in check.problems(node)}

    def named(self, option: str, text: str, nodes: NamedNodes) -> Iterator[Node]:
        """The nodes that a text names; what is wrong with them before they change is noted."""
        for node in nodes.like(option, [text]):
            self.problems.setdefault(id(node), (node, self.problems_of(node)))
            yield node

    def said(self, kind: str, node: Node, what: str) -> None:
        """Note what was done with a node."""
        self.edits.append(Edit(kind, f"{_shown(node)}: {what}"))


def set_nodes_in(model: Model, options: EditOptions, before: Model) -> EditResult:
    """Give nodes another operator, then another domain, then attributes; `before` is the model without any edit.

    Raises: EditError for an unknown node, for what the operator does not take, or if the nodes do not fit each other.
    """
    work = _Settings(model)
    if options.set_operator:
        nodes = NamedNodes(model)
        for text, operator in options.set_operator.items():
            for node in work.named("set_operator", text, nodes):
                work.said("set_operator", node, f"the operator is {operator}")
                node.op_type = operator
    if options.set_domain:
        nodes = NamedNodes(model)
        for text, domain in options.set_domain.items():
            for node in work.named("set_domain", text, nodes):
                work.said("set_domain", node, f"the domain is {domain}; it was {node.domain or ONNX}")
                _set_domain(work, node, domain)
    if options.set_attribute:
        nodes = NamedNodes(model)
        for key, value in options.set_attribute.items():
            text, attribute, given = _parts(key, value, nodes.known)
            for node in work.named("set_attribute", text, nodes):
                _set_attribute(work, node, attribute, given)
    for node, old in work.problems.values():
        if new := sorted(work.problems_of(node) - old):
            raise EditError(f"{_shown(node)} would break the definition of its operator: {new[0]}")
    changed = work.problems.keys()
    names = [name for node in main_graph(model).node if _has(node, changed) for name in node.output if name]
    if any(id(node) in changed for node in all_nodes(model.functions)):
        names = [name for node in main_graph(model).node for name in node.output if name]
    outputs = {value.name: type_with_dims(value.type) for value in main_graph(model).output}
    infer_following(model, before, names, "these nodes")
    for value in main_graph(model).output:
        if (kind := type_with_dims(value.type)) != outputs[value.name]:
            work.edits.append(Edit("type", f"the output {value.name} is {kind}; it was {outputs[value.name]}"))
    return EditResult(tuple(work.edits)) + check_again(model, before, "these nodes")


def _has(node: Node, changed: Collection[int]) -> bool:
    """Whether a node changes, or one in its subgraphs."""
    inner = all_nodes(graph for _, graph in subgraphs_of(node))
    return id(node) in changed or any(id(each) in changed for each in inner)


def _set_domain(work: _Settings, node: Node, domain: str) -> None:
    """Give a node a domain, which the model imports in version 1 if it is not one of ONNX."""
    node.domain = None if domain == ONNX else domain
    imports = work.imports(node)
    if all(domain_key(entry.domain) != domain_key(node.domain) for entry in imports):
        if newest(domain) is not None:
            raise EditError(f"{_shown(node)} cannot be of {domain}: the model imports no version of it")
        imports.append(OperatorSetId(domain, 1))


def _parts(text: str, value: Any, known: Collection[str]) -> tuple[str, str, Any]:
    """The names of nodes, the attribute, and its value, of NODE.ATTRIBUTE and a value, or of all as it was typed."""
    if not isinstance(text, Typed):
        nodes, _, attribute = text.rpartition(".")
        return nodes, attribute, value
    ways = [(text[: sign.start()], sign[1], text[sign.end() :]) for sign in SETTING.finditer(text)]
    nodes, attribute, typed = next((way for way in ways if way[0] in known), ways[0])
    return Typed(nodes), attribute, Typed(typed)


def _set_attribute(work: _Settings, node: Node, name: str, value: Any) -> None:
    """Set an attribute of a node, or remove it, if the value is `None` or nothing was typed."""
    version = next((e.version for e in work.imports(node) if domain_key(e.domain) == domain_key(node.domain)), None)
    form = form_of(node.domain or ONNX, node.op_type or "", version or 0)
    old = attribute_named(node, name)
    wanted = (old.type or None) if old is not None else None
    if form is not None and name in form.attributes:
        wanted, _ = form.attributes[name]
    others = [attribute for attribute in entries(node, "attribute") if attribute.name != name]
    if value is None or (isinstance(value, Typed) and not value):
        if old is None:
            raise EditError(f"{_shown(node)} has no attribute {name!r}, so it cannot be removed")
        node.attribute = others
        work.said("set_attribute", node, f"{name} is removed")
        return
    new = _attribute(node, name, value, wanted)
    node.attribute = [new if each is old else each for each in node.attribute] if old is not None else [*others, new]
    shown = getattr(new, VALUE_FIELDS[new.type or 0])
    text = shown.decode(errors="replace") if isinstance(shown, bytes) else shown
    work.said("set_attribute", node, f"{name} is {text!s:.100}")


def _attribute(node: Node, name: str, value: Any, wanted: int | None) -> Attribute:
    """The attribute with a value, which is of the type that the operator or the old value has.

    Raises: EditError for a value of another type.
    """
    if isinstance(value, Typed):
        value = _from_text(str(value), wanted)
    try:
        if wanted in _LISTS:
            kind = _KINDS[_LISTS[wanted]]
            values = [value] if isinstance(value, (int, float, str, bytes)) else [*value]
            return _made(name, wanted, [_exact(kind, each) for each in values])
        if wanted in _KINDS:
            return _made(name, wanted, _exact(_KINDS[wanted], value))
    except (AttributeError, TypeError, ValueError, OverflowError):
        raise EditError(f"{name} of {_shown(node)} must be {TYPE_NAMES[wanted or 0]}, and is {value!r:.80}") from None
    made = make_attribute(name, value)
    if wanted is not None and wanted != made.type:
        what = TYPE_NAMES.get(wanted, wanted)
        raise EditError(f"{name} of {_shown(node)} must be {what}, and is {value!r:.80}; `Model.edit` takes messages")
    return made


def _made(name: str, wanted: int, value: Any) -> Attribute:
    made = Attribute(name, type=wanted)
    setattr(made, VALUE_FIELDS[wanted], value)
    return made


def _exact(kind: Callable[[Any], Any], value: Any) -> Any:
    """The value in its kind. Raises: ValueError if it would not be the same in the file."""
    exact = kind(value)
    is_text = isinstance(value, (str, bytes))
    if kind is int and ((not is_text and exact != value) or not -LARGEST_DIM - 1 <= exact <= LARGEST_DIM):
        raise ValueError(value)
    if kind is float and isfinite(exact) and abs(exact) > LARGEST_FLOAT:
        raise ValueError(value)
    return exact


def _from_text(text: str, wanted: int | None) -> Any:
    """What was typed; commas separate the values of a list, and if the type is not known, it may be JSON."""
    if wanted in _LISTS:
        inside = text.removeprefix("[").removesuffix("]")
        return [word.strip() for word in inside.split(",")] if inside else []
    if wanted is None:
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            pass
    return text


def _shown(node: Node) -> str:
    return f"{node.op_type} {label_of(node)}"
