"""Nodes whose numbers a small type cannot count, add or tell from zero: in float16, 4098 would become 4096.

Sizes, counts, indices and positions that are computed in float32 come from integers, from constants and from inputs of
the model, go through operators that compute with few numbers, also in and out of the graphs of If, Loop and Scan, and
end where an integer, a comparison or an angle is made of them. Beside them, sums of many numbers, and what is added to
a number near zero, such as a variance to an epsilon.

Spec: ONNX, Operators, If, Loop and Scan.
"""

from __future__ import annotations

from collections import ChainMap, deque
from enum import IntEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from formats.editing.element_types.typed_values import is_constant_node
from formats.editing.folding import few_integers
from formats.editing.scopes import subgraphs_of
from formats.ir import STANDARD_DOMAINS
from formats.ir.attributes import attribute_named
from formats.ir.dtypes import BOOL, count

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from formats.ir.model import Graph, Node, Tensor, TensorShape

    Value = tuple[int, str]  # the `id` of the graph that defines it, and its name

# Operators through which a number that is exact stays a number of the same kind.
_PASSING_NAMES = (
    "Abs Add Cast Ceil Clip Concat CumSum Div Exp Expand Flatten Floor Gather GatherElements GatherND Identity Log Max "
    "Mean Min Mod Mul Neg Pow Reciprocal ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum Reshape Round "
    "ScatterElements ScatterND Sign Slice Split Sqrt Squeeze Sub Sum Tile Transpose Trilu Unsqueeze Where"
)
_PASSING: Final = frozenset(_PASSING_NAMES.split())
_COMPARING: Final = ("Cos", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Sin")
_SUMMING: Final = ("ReduceL1", "ReduceL2", "ReduceMean", "ReduceSum", "ReduceSumSquare")
_OF_SUM_NAMES = "Add Div Identity Log Mul Pow Reciprocal Reshape Sqrt Squeeze Unsqueeze"
_OF_SUM: Final = frozenset(_OF_SUM_NAMES.split())
_FROM_SUM: Final = ("Log", "Pow", "Reciprocal", "Sqrt")  # of a number near zero, a number that is not
_SHRINKING: Final = ("Div", "Log", "Reciprocal", "Sqrt")
_TO_SUM: Final = ("Abs", *_SUMMING, "Pow", "Sqrt")  # numbers near zero


class Origin(IntEnum):
    """Where a number comes from that may be exact; of several, the largest counts."""

    CONSTANT = 0
    INPUT = 1  # of the model
    INTEGERS = 2
    OTHER = 3  # it is the result of much computation, so it is not exact


class _Link(NamedTuple):
    """Values in and around the graphs of a node that are the same numbers: each of `made` is one of `given`.

    What is carried from round to round counts them, even if all of it comes from constants.
    """

    given: list[Value]
    made: list[Value]
    least: Origin = Origin.CONSTANT


class _Node(NamedTuple):
    """A node, and its inputs and outputs that are floats."""

    node: Node
    given: list[Value]
    made: list[Value]


class ExactNumbers:
    """The nodes, by identity, that compute with exact numbers for sizes and the like, and the values that those use.

    `linked` are those values that go in or out of graphs in nodes, so that they have one type on both sides.
    """

    def __init__(self, graph: Graph, is_float: Callable[[Value], bool]) -> None:
        self.nodes: set[int] = set()
        self.used: set[Value] = set()
        self.linked: set[Value] = set()
        self._is_float = is_float
        self._steps: list[_Node | _Link] = []
        self._origins: dict[Value, Origin] = {}
        self._collect(graph, ChainMap())
        self._origins.update(((id(graph), value.name or ""), Origin.INPUT) for value in graph.input)
        for tensor in graph.initializer:
            self._origins.pop((id(graph), tensor.name or ""), None)
        self._follow()
        self._find()

    def _collect(self, graph: Graph, outer: ChainMap[str, Value]) -> ChainMap[str, Value]:
        """Note the nodes and links of a graph; return its values by name, with those around it."""
        values = outer.new_child()
        given = [*(value.name or "" for value in graph.input), *(tensor.name or "" for tensor in graph.initializer)]
        values.update((name, (id(graph), name)) for name in given)
        values.update((name, (id(graph), name)) for node in graph.node for name in node.output)
        for node in graph.node:
            ends = [[values[name] for name in names if name in values] for names in (node.input, node.output)]
            links: list[_Link] = []
            for _, inner in subgraphs_of(node):
                links += links_of(node, inner, values, self._collect(inner, values))
            tied = {value for link in links for value in link.made}
            self._origins.update(
                (value, Origin.OTHER) for _, inner in subgraphs_of(node)
                for each in inner.input if (value := (id(inner), each.name or "")) not in tied
            )  # fmt: skip
            self._steps += [
                link._replace(given=[*filter(self._is_float, link.given)], made=[*filter(self._is_float, link.made)])
                for link in links
            ]
            if not tied:
                self._steps.append(_Node(node, *([each for each in end if self._is_float(each)] for end in ends)))
        return values

    def _follow(self) -> None:
        """Find where all numbers come from: what a Loop carries needs several rounds."""

        def follow(step: _Node | _Link) -> list[Value]:
            if isinstance(step, _Link):
                origin = max(self._most(step.given), step.least)
            else:
                origin = _origin(step.node, self._most(step.given) if step.given else None)
            changed = [value for value in step.made if origin > self._origins.get(value, Origin.CONSTANT)]
            self._origins.update((value, origin) for value in changed)
            return changed

        _settle(self._steps, lambda step: step.given, follow)

    def _most(self, values: Sequence[Value]) -> Origin:
        return max((self._origins.get(value, Origin.CONSTANT) for value in values), default=Origin.CONSTANT)

    def _find(self) -> None:
        """Find what is needed exactly, from the ends on backwards."""

        def find(step: _Node | _Link) -> list[Value]:
            needed: list[Value] = []
            is_used = not self.used.isdisjoint(step.made)
            if isinstance(step, _Link):
                if is_used and self._most(step.made) < Origin.OTHER:
                    needed = [*step.given, *step.made]
                    self.linked.update(needed)
            elif not is_constant_node(step.node):
                origin = self._most(step.given)
                passes = _origin(step.node, origin if step.given else None) < Origin.OTHER
                if (passes and is_used) or _is_end(step, origin):
                    self.nodes.add(id(step.node))
                    needed = step.given
            changed = [value for value in needed if value not in self.used]
            self.used.update(changed)
            return changed

        _settle(self._steps[::-1], lambda step: step.made, find)


def _settle(
    steps: Sequence[_Node | _Link],
    values_of: Callable[[_Node | _Link], list[Value]],
    take: Callable[[_Node | _Link], list[Value]],
) -> None:
    """Take each step, which returns the values that it changes, and again those steps that such a value concerns."""
    concerned: dict[Value, list[int]] = {}
    for number, step in enumerate(steps):
        for value in values_of(step):
            concerned.setdefault(value, []).append(number)
    waiting = deque(range(len(steps)))
    are_waiting = {*waiting}
    while waiting:
        number = waiting.popleft()
        are_waiting.remove(number)
        again = {each for value in take(steps[number]) for each in concerned.get(value, ())} - are_waiting
        waiting += sorted(again)
        are_waiting |= again


def links_of(
    node: Node, inner: Graph, values: Mapping[str, Value], inner_values: Mapping[str, Value]
) -> Iterator[_Link]:
    """The values that a node gives to a graph in it and takes from it, as far as ONNX defines the node."""
    given, made = node.input, [[values[name]] if name else [] for name in node.output]
    takes = [(id(inner), value.name or "") for value in inner.input]
    results = [[inner_values[name]] if (name := value.name or "") in inner_values else [] for value in inner.output]
    if node.domain not in STANDARD_DOMAINS or node.op_type not in ("If", "Loop", "Scan"):
        return
    carried = first = result = 0  # how many values are carried, and where they begin in the inputs and results
    if node.op_type == "Loop":
        carried, first, result = len(takes) - 2, 2, 1  # after the number of rounds and the condition
    elif node.op_type == "Scan":
        scanned = attribute_named(node, "num_scan_inputs")
        carried = len(takes) - (scanned.i or 0 if scanned is not None else 0)
        given = given[len(given) - len(takes) :]
    if node.op_type != "If":
        for index, taken in enumerate(takes[first:]):
            name = given[index + first] if index + first < len(given) else ""
            outer = [values[name]] if name in values else []
            again = results[index + result] if index < carried and index + result < len(results) else []
            ends = made[index] if index < carried and index < len(made) else []
            yield _Link([*outer, *again], [taken, *ends], Origin.INTEGERS if again else Origin.CONSTANT)
    for index, ends in enumerate(made):
        if index >= carried and index + result < len(results):
            yield _Link(results[index + result], ends)


def _origin(node: Node, origin: Origin | None) -> Origin:
    """Where the numbers that a node makes come from; those of its inputs come from `origin`, if it has any."""
    if node.domain not in STANDARD_DOMAINS:
        return Origin.OTHER
    if is_constant_node(node) or node.op_type == "ConstantOfShape":
        return Origin.CONSTANT
    if node.op_type == "Range":
        return Origin.INTEGERS
    if node.op_type not in _PASSING:
        return Origin.OTHER
    if origin is None:
        return Origin.INTEGERS if node.op_type == "Cast" else Origin.OTHER
    return max(origin, Origin.INTEGERS) if node.op_type == "CumSum" else origin


def _is_end(step: _Node, origin: Origin) -> bool:
    """Whether a node makes an integer of a number, or something that its last digits decide."""
    node = step.node
    if node.domain not in STANDARD_DOMAINS or not step.given or origin not in (Origin.INPUT, Origin.INTEGERS):
        return False
    if node.op_type == "Cast" and not step.made:
        to = attribute_named(node, "to")
        return origin == Origin.INTEGERS or to is None or to.i != BOOL
    return node.op_type in _COMPARING and origin == Origin.INTEGERS


def large_sums(
    graph: Graph, shapes: Mapping[str, TensorShape], tensor_of: Callable[[str], Tensor | None], most: int
) -> frozenset[int]:
    """The nodes, by identity, that add more than `most` numbers, and those that scale such a sum."""
    sums: set[str] = set()
    nodes: set[int] = set()
    for node in graph.node:
        if node.domain not in STANDARD_DOMAINS:
            continue
        is_of_sum = node.op_type in _OF_SUM and not sums.isdisjoint(node.input)
        if is_of_sum or (node.op_type in _SUMMING and _added(node, shapes, tensor_of, most) > most):
            nodes.add(id(node))
            sums.update(node.output)
    return frozenset(nodes)


def _added(node: Node, shapes: Mapping[str, TensorShape], tensor_of: Callable[[str], Tensor | None], most: int) -> int:
    """How many numbers a node adds; more than `most` if a dim is not known."""
    stated = attribute_named(node, "axes")
    axes = [] if stated is None else [*stated.ints]
    if len(node.input) > 1 and node.input[1]:
        if (array := few_integers(tensor_of(node.input[1]))) is None:
            return most + 1
        axes = array.ravel().tolist()
    if not node.input or node.input[0] not in shapes:
        return 0 if axes == [-1] else most + 1  # the last axis is that of the features, of which there are few
    sizes = [most + 1 if dim.dim_value is None else dim.dim_value for dim in shapes[node.input[0]].dim]
    return count([sizes[axis] for axis in axes if -len(sizes) <= axis < len(sizes)] if axes else sizes)


def made_small_again(graph: Graph, large: Collection[int]) -> frozenset[int]:
    """The nodes, by identity, between those with large results and the logarithms, roots and quotients of these."""
    leads: set[int] = set()
    users = _users(graph)
    for node in reversed(graph.node):
        is_led = any(id(user) in leads for name in node.output for user in users.get(name, ()))
        if node.op_type in _SHRINKING or (node.op_type in ("Add", "Mul", "Sub") and is_led):
            leads.add(id(node))
    found: set[int] = set()
    waiting = [node for node in graph.node if id(node) in large]
    while waiting:
        node = waiting.pop()
        for user in (user for name in node.output for user in users.get(name, ())):
            if id(user) in leads and id(user) not in found:
                found.add(id(user))
                if user.op_type not in _SHRINKING:
                    waiting.append(user)
    return frozenset(found)


def _users(graph: Graph) -> dict[str, list[Node]]:
    """The nodes of a graph that use each value."""
    users: dict[str, list[Node]] = {}
    for node in graph.node:
        for name in node.input:
            users.setdefault(name, []).append(node)
    return users


def sums_near_zero(graph: Graph, is_near_zero: Callable[[str], bool]) -> frozenset[int]:
    """The nodes, by identity, that add a constant near zero, those that make what it is added to, and those of the sum.

    So a variance, an epsilon, the root of both and what is divided by it stay together.
    """
    makers = {name: node for node in graph.node if node.domain in STANDARD_DOMAINS for name in node.output}
    users = _users(graph)
    found: dict[int, Node] = {}
    for node in makers.values():
        if node.op_type in ("Add", "Clip", "Max") and any(map(is_near_zero, node.input)):
            found[id(node)] = node
            waiting = [makers[name] for name in node.input if name in makers]
            while waiting:
                maker = waiting.pop()
                if id(maker) not in found and (maker.op_type in _TO_SUM or _is_square(maker)):
                    found[id(maker)] = maker
                    waiting += [makers[name] for name in maker.input if name in makers]
            waiting = [user for name in node.output for user in users.get(name, ())]
            while waiting:
                user = waiting.pop()
                if id(user) not in found and user.op_type in (*_FROM_SUM, "Div", "Mul"):
                    found[id(user)] = user
                    if user.op_type in _FROM_SUM:
                        waiting += [each for name in user.output for each in users.get(name, ())]
    return frozenset(found)


def _is_square(node: Node) -> bool:
    return node.op_type == "Mul" and len(set(node.input)) == 1
