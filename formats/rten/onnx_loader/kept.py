"""Which nodes stay as they are for RTen's ONNX loader, and what is reported of the others."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from formats.codecs.contract import Change
from formats.ir.node_order import subgraphs
from formats.rten.convert.refusal import Refused
from formats.rten.convert.value_types import UNKNOWN
from formats.rten.onnx_loader.read_types import node_in_read_types
from formats.rten.onnx_loader.reading import is_same, needed_version, problems, without_neutral
from formats.rten.operators import spec_of
from formats.rten.operators.shared.spec import REASONS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from formats.ir.model import Node
    from formats.rten.convert.context import ValueNames
    from formats.rten.convert.precedents import Likeness
    from formats.rten.convert.scope import Scope
    from formats.rten.operators.shared.spec import OperatorSpec, Rewriting
    from formats.rten.target import Target


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
        self._alike: dict[Likeness, Change] = {}

    def settle(
        self, node: Node, made: list[Node], applied: Sequence[Applied], version: int, where: str, scope: Scope
    ) -> list[Node]:
        """What replaces a node: the legal nodes `made` from it, or the node itself if it may stay."""
        if (len(made) == 1 and made[0] is node) or self._is_native(node, scope):
            return [node]
        spec, is_older = spec_of(node), any(rewriting.is_older for rewriting in applied)
        has_graphs = bool(subgraphs((node,)))
        if spec is not None and len(made) == 1:
            stays = not has_graphs and (not is_older or version == self._kept_version)
            if stays and is_same(node, made[0], spec, scope, self._target):
                return [node]
            if has_graphs and not applied:  # only its subgraphs changed
                return made
        if len(made) != 1 or is_older or _form(made[0]) != _form(node):
            self.note_needs(made)
        stops = [problem.reason for problem in problems(node, self._target)]
        texts = (rewriting.text for rewriting in applied if rewriting.text)
        because = [*stops, *texts, "RTen does not support this form"]
        became = tuple(dict.fromkeys(new.op_type or "" for new in made))
        self.changes.append(Change(where, label(node), _operator(node), became, because[0], bool(stops)))
        return made

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
            is_given = number not in spec.onnx_loader.lacks_outputs and (outputs is None or number < outputs)
            if not is_given and self._names.is_read(name):
                return number
        return None

    def inline(self, node: Node, where: str) -> None:
        """Whether the loader has a kernel for an operator outside of ONNX's own domain, and accepts the node."""
        self.changes.append(Change(where, label(node), _operator(node), (), "RTen does not read functions", True))

    def remember(self, likeness: Likeness | None, count: int) -> None:
        """Store the reports about a node after the first `count` changes: they are also true of nodes like it."""
        if likeness is not None and len(self.changes) == count + 1:
            self._alike[likeness] = self.changes[-1]

    def repeat(self, likeness: Likeness | None, node: Node, where: str) -> None:
        """Record that a node is rewritten in the same way as an earlier one like it."""
        change = self._alike.get(likeness) if likeness else None
        if change is not None:
            self.changes.append(change._replace(where=where, name=label(node)))

    def note_needs(self, nodes: Iterable[Node]) -> None:
        """Note the operator set that new nodes need, and the nodes in their subgraphs."""
        for node in nodes:
            spec = spec_of(node)
            if spec is not None:
                self.needs = max(self.needs, (needed_version(node, spec), node.op_type or ""))
            for _, _, graph in subgraphs((node,)):
                self.note_needs(graph.node)

    def readable(self, node: Node, spec: OperatorSpec) -> Node:
        """A legal node as the loader reads it, without attributes that have no effect.

        Raises: Refused if the loader does not read it.
        """
        node = without_neutral(node, spec)
        found = problems(node_in_read_types(node), self._target)
        if found:
            raise Refused(found[0].reason, found[0].remedy)
        number = self._missing_output(node, spec)
        if number is not None:
            raise Refused(f"uses output {number}, which RTen does not compute")
        return node


def label(node: Node) -> str:
    """The name of a node in a report."""
    return node.name or next(filter(None, node.output), "")


def _form(node: Node) -> tuple[object, ...]:
    """The parts of a node. If one of them changes, the node may need another operator set."""
    return node.op_type, node.domain or "", node.input, {attribute.name for attribute in node.attribute}


def _operator(node: Node) -> str:
    return f"{node.domain}.{node.op_type}" if node.domain else node.op_type or ""
