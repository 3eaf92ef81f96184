"""Which nodes RTen's ONNX loader reads as they are, and what is reported of those that are rewritten."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from formats.codecs.contract import Change
from formats.ir.attributes import attribute_named, get_ints, get_string, label_of
from formats.ir.model import Graph
from formats.ir.node_order import subgraphs
from formats.rten.convert.refusal import Refused
from formats.rten.convert.value_types import UNKNOWN
from formats.rten.graph.attribute_tables import Problem, attribute_value, encode_fields
from formats.rten.onnx_loader.read_types import node_in_read_types
from formats.rten.operators import spec_of
from formats.rten.spec import ANY, REASONS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from formats.ir.model import Attribute, Node
    from formats.rten.convert.context import ValueNames
    from formats.rten.convert.precedents import Likeness
    from formats.rten.convert.scope import Scope
    from formats.rten.spec import OperatorSpec, Rewriting, Row
    from formats.rten.target import Target

LACKING: Final = "RTen does not support this operator"


class Applied(NamedTuple):
    """A rewriting that was applied to a node: the reason for it, and whether it rewrites an older form."""

    text: str
    is_older: bool

    @classmethod
    def of(cls, rewriting: Rewriting, spec: OperatorSpec) -> Applied:
        """The report of a rewriting."""
        return cls(REASONS.get(rewriting, ""), rewriting in spec.to_rten.older)


class Kept:
    """What was rewritten in one model. Nodes of the operator set `kept_version` may stay in an older form."""

    def __init__(self, target: Target, kept_version: int | None, names: ValueNames) -> None:
        self.changes: list[Change] = []
        self.needs = 0, ""  # the operator set of the new nodes, and the operator that needs it
        self._names = names
        self._target = target
        self._kept_version = kept_version
        self._change_of_alike: dict[Likeness, Change] = {}

    def settle(
        self, node: Node, legal_nodes: list[Node], applied: Sequence[Applied], version: int, where: str, scope: Scope
    ) -> list[Node]:
        """What replaces a node: the `legal_nodes` made of it, or the node itself if it may stay."""
        if (len(legal_nodes) == 1 and legal_nodes[0] is node) or self._is_native(node, scope):
            return [node]
        spec, is_older = spec_of(node), any(rewriting.is_older for rewriting in applied)
        has_graphs = bool(subgraphs((node,)))
        if spec is not None and len(legal_nodes) == 1:
            # An older form of a node is the same only in the operator set that the model keeps.
            may_stay = not has_graphs and (not is_older or version == self._kept_version)
            if may_stay and is_read_alike(node, legal_nodes[0], spec, scope, self._target):
                return [node]
            if has_graphs and not applied:  # only its subgraphs changed
                return legal_nodes
        # A node with the same inputs and attributes, of which only values changed, needs no newer operator set.
        if len(legal_nodes) != 1 or is_older or _form(legal_nodes[0]) != _form(node):
            self.note_needs(legal_nodes)
        # They say why the loader cannot read the node as it was.
        stops = [problem.reason for problem in problems(node, self._target)]
        texts = (rewriting.text for rewriting in applied if rewriting.text)
        reasons = [*stops, *texts, "RTen does not support this form"]  # the first one is reported
        became = tuple(dict.fromkeys(new.op_type or "" for new in legal_nodes))
        self.changes.append(Change(where, label_of(node), _operator(node), became, reasons[0], bool(stops)))
        return legal_nodes

    def _is_native(self, node: Node, scope: Scope) -> bool:
        """Whether the loader has a kernel for an operator that is not ONNX's own, and accepts the node."""
        spec = spec_of(node)
        if spec is None or not spec.onnx_loader.is_native or problems(node, self._target):
            return False
        types = [scope.type_of(name) if name else UNKNOWN for name in node.input]
        native_if = spec.onnx_loader.native_if
        if native_if is not None and not native_if(node, scope, types):
            return False
        for place, rank in spec.onnx_loader.ranks.items():
            dims = types[place].dims if place < len(types) else None
            if place < len(types) and node.input[place] and (dims is None or len(dims) != rank):
                return False
        return self._missing_output(node, spec) is None

    def _missing_output(self, node: Node, spec: OperatorSpec) -> int | None:
        """The first output that is used and that RTen does not compute."""
        row = spec.row_for(self._target)
        outputs = None if row is None else row.outputs
        for number, name in enumerate(node.output):
            is_computed = number not in spec.onnx_loader.lacks_outputs and (outputs is None or number < outputs)
            if not is_computed and self._names.is_read(name):
                return number
        return None

    def inline(self, node: Node, where: str) -> None:
        """Record that the nodes of a function replace a node that calls it."""
        self.changes.append(Change(where, label_of(node), _operator(node), (), "RTen does not read functions", True))

    def remember(self, likeness: Likeness | None, count: int) -> None:
        """Store the report about a node, if there is one after the first `count`: it is true of nodes like it."""
        if likeness is not None and len(self.changes) == count + 1:
            self._change_of_alike[likeness] = self.changes[-1]

    def repeat(self, likeness: Likeness | None, node: Node, where: str) -> None:
        """Record that a node is rewritten in the same way as an earlier one like it."""
        change = self._change_of_alike.get(likeness) if likeness else None
        if change is not None:
            self.changes.append(change._replace(where=where, name=label_of(node)))

    def note_needs(self, nodes: Iterable[Node]) -> None:
        """Note the operator set that new nodes need, and the nodes in their subgraphs."""
        for node in nodes:
            spec = spec_of(node)
            if spec is not None:
                form = spec.onnx_loader
                of_attributes = (form.versions.get(attribute.name or "", 0) for attribute in node.attribute)
                self.needs = max(self.needs, (max(form.version, *of_attributes, 0), node.op_type or ""))
            for _, _, graph in subgraphs((node,)):
                self.note_needs(graph.node)

    def readable(self, node: Node, spec: OperatorSpec) -> Node:
        """A legal node as the loader reads it, without attributes that have no effect.

        Raises: Refused if the loader does not read it.
        """
        node = _without_neutral(node, spec)
        stops = problems(node_in_read_types(node), self._target)
        if stops:
            raise Refused(stops[0].reason, stops[0].remedy)
        number = self._missing_output(node, spec)
        if number is not None:
            raise Refused(f"uses output {number}, which RTen does not compute")
        return node


def problems(node: Node, target: Target) -> list[Problem]:
    """Why the loader does not read a node; empty if it does. Subgraphs are not checked."""
    spec = spec_of(node)
    row = None if spec is None else spec.row_for(target)
    if spec is None or row is None:
        return [Problem(LACKING)]
    not_fields = (*spec.onnx_loader.inputs, "auto_pad")  # it reads any text as padding, and SAME_LOWER as SAME_UPPER
    attributes = [attribute for attribute in node.attribute if attribute.name not in not_fields]
    if len(attributes) < len(node.attribute):
        node = replace(node, attribute=attributes)
    stops: list[Problem] = []
    encode_fields(row, spec.onnx_loader.takes, node, lambda name, graph: {}, stops, target=target)
    inputs = len(_trimmed(node.input))
    if row.inputs is not None and inputs > row.inputs:
        stops.append(Problem(f"it has {inputs} inputs, but RTen accepts only {row.inputs}"))
    return stops


def _without_neutral(node: Node, spec: OperatorSpec) -> Node:
    """The node without those attributes that have no effect and that the loader does not accept."""
    neutral = {} if spec.to_rten.row is None else spec.to_rten.row.neutral
    remaining = [
        attribute for attribute in node.attribute if not _is_unread(attribute, neutral, spec.onnx_loader.takes)
    ]
    return node if len(remaining) == len(node.attribute) else replace(node, attribute=remaining)


def _is_unread(attribute: Attribute, neutral: Any, takes: Any) -> bool:
    """Whether an attribute has no field and no effect, and the loader does not accept its value."""
    without_effect, accepted = neutral.get(attribute.name), takes.get(attribute.name)
    if without_effect is None or accepted is ANY:
        return False
    value = attribute_value(attribute)
    return (without_effect is ANY or value in without_effect) and (accepted is None or value not in accepted)


def is_read_alike(node: Node, legal: Node, spec: OperatorSpec, scope: Scope, target: Target) -> bool:
    """Whether the loader reads a node in the same way as the rewritten node, which has the same operator and values."""
    row = spec.row_for(target)
    if row is None or node.op_type != legal.op_type or node.output != legal.output or problems(node, target):
        return False
    if not _have_same_inputs(node, legal, spec, scope):
        return False
    return _fields(node, legal, spec, row, scope) == _fields(legal, legal, spec, row, scope)


def _have_same_inputs(node: Node, legal: Node, spec: OperatorSpec, scope: Scope) -> bool:
    """Whether the loader gives two nodes the same inputs. The first node may have some inputs as attributes."""
    by_place = {  # attributes of older forms that are inputs now
        place: attribute
        for name, place in spec.onnx_loader.inputs.items()
        if (attribute := attribute_named(node, name)) is not None
    }
    inputs, legal_inputs = _trimmed(node.input), _trimmed(legal.input)
    inputs += [""] * (max(by_place, default=-1) + 1 - len(inputs))
    if len(inputs) != len(legal_inputs):
        return False
    for place, (name, other) in enumerate(zip(inputs, legal_inputs, strict=True)):
        if place in by_place and not name:
            value = attribute_value(by_place[place])
            numbers = scope.numbers(other) if other and scope.constant(other) is not None else None
            if numbers != list(map(float, value if isinstance(value, tuple) else (value,))):
                return False
        elif name != other:
            return False
    return True


def _fields(node: Node, legal: Node, spec: OperatorSpec, row: Row, scope: Scope) -> dict[str, Any]:
    """What the loader reads of the attributes of a node."""
    fields: dict[str, Any] = {}
    for field in row.fields:
        name = field.onnx_name
        if name in spec.onnx_loader.inputs:
            continue
        attribute = attribute_named(node, name)
        value = spec.onnx_loader.defaults.get(name, field.default) if attribute is None else attribute_value(attribute)
        if field.kind is Graph:
            value = id(value)
        elif name == "auto_pad":
            value = "SAME" if str(value).startswith("SAME") else "NOTSET"
        # The loader accepts an axis from either end, so -1 and the last one are the same.
        elif name == "axis" and isinstance(value, int):
            dims = scope.type_of(node.input[0]).dims if node.input else None
            value = value if dims is None else value % max(len(dims), 1)
        elif name in spec.onnx_loader.omitted and value is None:
            entries, fill = spec.onnx_loader.omitted[name]
            value = (fill,) * (len(get_ints(node, "kernel_shape") or ()) * entries)
        fields[name] = value
    pads = get_ints(legal, "pads")
    if get_string(node, "auto_pad") == "SAME_UPPER" and spec.onnx_loader.pads_alike and pads is not None:
        fields |= {"auto_pad": "NOTSET", "pads": tuple(pads)}
    return fields


def _trimmed(names: list[str]) -> list[str]:
    """The names, without the empty ones at the end."""
    count = len(names)
    while count and not names[count - 1]:
        count -= 1
    return names[:count]


def _form(node: Node) -> tuple[object, ...]:
    """The parts of a node. If one of them changes, the node may need another operator set."""
    return node.op_type, node.domain or "", node.input, {attribute.name for attribute in node.attribute}


def _operator(node: Node) -> str:
    return f"{node.domain}.{node.op_type}" if node.domain else node.op_type or ""
