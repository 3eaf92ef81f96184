"""Checks the names in graphs and functions: each value is made once, before it is used, and outputs are made.

Nodes that need each other's results, and functions that call each other, are cycles. First come graphs, then what is
checked of all functions together, then the search for cycles, which both use.

Spec: ONNX docs, "IR.md", "Graphs", "Names Within a Graph" and "Model Local Functions"; onnx.proto, FunctionProto.
"""

from __future__ import annotations

from collections import Counter, deque
from typing import TYPE_CHECKING

from formats.ir import ONNX, walk
from formats.ir.functions import called, key_of
from formats.ir.model import Function, entries
from formats.ir.node_order import mentioned
from formats.onnxpb.operator_sets import newest, signatures_of
from formats.verbs.verifying.parts import subgraph_problems

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from formats.ir.model import Graph, Model, Node
    from formats.onnxpb.node_check import NodeCheck

    Problem = tuple[str, str, str]

SHOWN_ON_CYCLE = 6  # nodes of a cycle that a message names


class GraphValues:
    """The values of a graph that are known so far, and those of the graphs around it."""

    def __init__(self, where: str, nodes: Sequence[Node], known: set[str], outer: GraphValues | None) -> None:
        self.where, self.nodes, self.known, self.outer = where, nodes, known, outer
        self.index = 0  # of the node whose graphs are being checked
        self.early: list[tuple[int, int, Problem]] = []  # uses of values that later nodes make, with both indices
        self._makers: dict[str, int] | None = None

    def knows(self, name: str) -> bool:
        """Whether a node may use a value here."""
        scope: GraphValues | None = self
        while scope is not None:
            if name in scope.known:
                return True
            scope = scope.outer
        return False

    @property
    def makers(self) -> dict[str, int]:
        """The index of the node that makes each value, when it is first needed: in most models, never."""
        if self._makers is None:
            self._makers = {
                name: index for index, node in enumerate(self.nodes) for name in entries(node, "output") if name
            }
        return self._makers

    def unknown_inputs(self, index: int) -> Iterator[Problem]:
        """What is wrong with the inputs of the node at `index` that are not known, and that no later node makes.

        The scope whose later node makes one keeps it: only at its end it knows which uses belong to a cycle.
        """
        node, where = self.nodes[index], walk.inner_place(self.where, "node", index)
        for name in entries(node, "input"):
            if self.knows(name):
                continue
            scope: GraphValues | None = self
            while scope is not None and name not in scope.makers:
                scope = scope.outer
            if scope is None:
                yield "V306", where, f"{_operator(node)} uses {name!r:.80}, which nothing makes"
                continue
            maker = scope.makers[name]
            makes = f"{_operator(node)} uses {name!r:.80}, which the later node"
            detail = (
                f"{makes} {walk.inner_place(scope.where, 'node', maker)} makes; sort the nodes: formats edit --sort"
            )
            scope.early.append((index if scope is self else scope.index, maker, ("V307", where, detail)))


def name_problems(
    where: str, part: Graph | Function, domains: set[str], check: NodeCheck | None, outer: GraphValues | None = None
) -> Iterator[Problem]:
    """What is wrong with the names of a graph or function and of the graphs in it, as (code, place, detail).

    `domains` are imported or already reported. Without `check`, operators are not checked, and nodes may be in any
    order, as long as there is one in which each can be computed.
    """
    inputs, constants, outputs = _interface(part)
    nodes = entries(part, "node")
    yield from _repeated_inputs(where, inputs, constants)
    made = {*inputs, *constants}
    known = {"", *made}
    if check is None:
        known.update(*(entries(node, "output") for node in nodes))
    scope = GraphValues(where, nodes, known, outer)
    if outer is not None and check is not None:
        yield from subgraph_problems(where, part.name, inputs, constants, outputs)
        yield from _hidden_values(where, made, outer)
    for index, node in enumerate(nodes):  # there may be very many, and nearly all are right: no place is made for them
        domain, results = node.domain or ONNX, entries(node, "output")
        if domain not in domains:
            domains.add(domain)
            detail = f"{_operator(node)} is of {domain:.80}, but the model imports no version of it"
            yield "V209", walk.inner_place(where, "node", index), detail
        if not known.issuperset(entries(node, "input")):
            yield from scope.unknown_inputs(index)
        for code, step, detail in check.problems(node) if check is not None else ():
            place = walk.inner_place(where, "node", index)
            yield code, f"{place}.{step}" if step else place, detail
        if entries(node, "attribute"):
            scope.index = index
            for inner, graph in _subgraphs(walk.inner_place(where, "node", index), node):
                yield from name_problems(inner, graph, domains, check, scope)
        if len(results) > 1 or not made.isdisjoint(results) or (outer is not None and check is not None):
            yield from _result_problems(walk.inner_place(where, "node", index), node, made, outer if check else None)
        made.update(results)
        known.update(results)
    if outputs and not known.issuperset(outputs):
        yield from _output_problems(where, outputs, known, outer)
    if check is not None and nodes:
        yield from _same_names(where, nodes)
    if scope.early or check is None:
        yield from _order_problems(scope)


def _repeated_inputs(where: str, inputs: Sequence[str], constants: Sequence[str]) -> Iterator[Problem]:
    """The names that several inputs, or several constants, have; a constant may be the default of an input."""
    if len(set(inputs)) != len(inputs) or len(set(constants)) != len(constants):
        for name, count in (Counter(inputs) | Counter(constants)).items():
            if count > 1:
                yield "V304", where, f"{count:,} inputs or initialisers are called {name!r:.80}"


def _hidden_values(where: str, made: set[str], outer: GraphValues) -> Iterator[Problem]:
    """The inputs and constants of an inner graph that hide a value of an outer one."""
    for name in made:
        if name and outer.knows(name):
            detail = f"the input or initialiser {name!r:.80} has the name of a value of an outer graph, which it hides"
            yield "V312", where, detail


def _output_problems(
    where: str, outputs: Sequence[str], known: set[str], outer: GraphValues | None
) -> Iterator[Problem]:
    """What is wrong with the outputs of a graph: it must make them itself."""
    for name in outputs:
        if name in known:
            continue
        if outer is not None and outer.knows(name):
            detail = f"the output {name!r:.80} is a value of an outer graph; add an Identity node that makes the output"
            yield "V310", where, detail
        else:
            yield "V309", where, f"the output {name!r:.80} is not produced by any node"


def _result_problems(where: str, node: Node, made: set[str], outer: GraphValues | None) -> Iterator[Problem]:
    """What is wrong with the names of the results of a node; `made` are those of other values, which it completes."""
    for name in filter(None, entries(node, "output")):
        if name in made:
            yield "V305", where, f"{_operator(node)} makes {name!r:.80}, which already exists"
        elif outer is not None and outer.knows(name):
            detail = f"{_operator(node)} makes {name!r:.80}, which is the name of a value of an outer graph"
            yield "V311", where, f"{detail}; rename one of them"
        made.add(name)


def _same_names(where: str, nodes: Sequence[Node]) -> Iterator[Problem]:
    """A note on nodes with one name, which onnxruntime refuses in some versions."""
    names = [*filter(None, [node.name for node in nodes])]
    if len(set(names)) != len(names):
        for name, count in Counter(names).items():
            if count > 1:
                detail = f"{count:,} nodes are called {name!r:.80}, but the names of nodes must differ for onnxruntime"
                yield "V319", where, detail


def _order_problems(scope: GraphValues) -> Iterator[Problem]:
    """The cycles of a graph, and the uses of values that only later nodes make and that are on no cycle."""
    makers, nodes = scope.makers, scope.nodes
    needs = [list(dict.fromkeys(makers[name] for name in mentioned(node) if name in makers)) for node in nodes]
    groups = cycle_numbers(needs)
    seen = set()
    for first in sorted(groups):
        if groups[first] in seen:
            continue
        seen.add(groups[first])
        cycle = shortest_cycle(first, needs, groups)
        shown = [f"{_name(nodes[index], index)}" for index in cycle[:SHOWN_ON_CYCLE]]
        shown += [f"{len(cycle) - SHOWN_ON_CYCLE:,} more"] if len(cycle) > SHOWN_ON_CYCLE else []
        way = " -> ".join([*shown, shown[0]])
        place = walk.inner_place(scope.where, "node", first)
        if len(cycle) == 1:
            yield "V308", place, f"{_operator(nodes[first])} needs its own result"
        else:
            yield "V308", place, f"the nodes {way} form a cycle: each needs the result of the one before"
    for index, maker, problem in scope.early:
        if index not in groups or groups[index] != groups.get(maker):
            yield problem


def _name(node: Node, index: int) -> str:
    """A node, in a message about several: its name or its number, and its operator."""
    return f"{node.name:.80}" if node.name else f"{index} ({_operator(node)})"


def _operator(node: Node) -> str:
    """The operator of a node, for a message."""
    return (node.op_type or "")[:80]


def _interface(part: Graph | Function) -> tuple[Sequence[str], Sequence[str], Sequence[str]]:
    """The names of the inputs, constants and outputs of a graph or function."""
    inputs, outputs = entries(part, "input"), entries(part, "output")
    if isinstance(part, Function):
        return inputs, [], outputs
    sparse = (item.values for item in entries(part, "sparse_initializer") if item.values is not None)
    constants = [tensor.name or "" for tensor in (*entries(part, "initializer"), *sparse)]
    return [value.name or "" for value in inputs], constants, [value.name or "" for value in outputs]


def _subgraphs(where: str, node: Node) -> Iterator[tuple[str, Graph]]:
    """The graphs in the attributes of the node at `where`, with their places."""
    for attribute in entries(node, "attribute"):
        graphs = entries(attribute, "graphs")
        if attribute.g is None and not graphs:
            continue
        place = walk.inner_place(where, "attribute", None, attribute)
        if attribute.g is not None:
            yield walk.inner_place(place, "g"), attribute.g
        for number, graph in enumerate(graphs):
            yield walk.inner_place(place, "graphs", number), graph


def function_problems(model: Model) -> Iterator[Problem]:
    """What is wrong with the functions of a model as a whole, as (code, place, detail)."""
    keys = [key_of(function.domain, function.name, function.overload) for function in model.functions]
    for (domain, name, _), count in Counter(keys).items():
        if count > 1:
            yield "V317", "functions", f"{count:,} functions are called {name:.80} of {domain or ONNX:.80}"
    first = {key: index for index, key in reversed([*enumerate(keys)])}
    needs = [
        list(dict.fromkeys(first[key] for node in function.node for key in called(node) if key in first))
        for function in model.functions
    ]
    groups = cycle_numbers(needs)
    for start in sorted({min(i for i in groups if groups[i] == group) for group in set(groups.values())}):
        cycle = shortest_cycle(start, needs, groups)
        names = [f"{keys[index][1]:.80}" for index in (*cycle, cycle[0])]
        yield "V318", f"functions[{start}]", f"functions call each other in a cycle: {' <- '.join(names[:8])}"
    versions = {entry.domain or ONNX: entry.version or 0 for entry in model.opset_import}
    for index, function in enumerate(model.functions):
        yield from _imports(f"functions[{index}]", function, versions)


def _imports(where: str, function: Function, versions: Mapping[str, int]) -> Iterator[Problem]:
    """What is wrong with the operator sets of a function: a runtime may compute it with those of the model."""
    others = {
        domain: version
        for domain, version in ((entry.domain or ONNX, entry.version or 0) for entry in function.opset_import)
        if versions.get(domain, version) != version and newest(domain) is not None
    }
    told = set()
    for index, node in enumerate(function.node if others else ()):
        domain, name = node.domain or ONNX, node.op_type or ""
        if domain not in others or (domain, name) in told:
            continue
        told.add((domain, name))
        own, models = (_since(domain, name, number) for number in (others[domain], versions[domain]))
        if own != models:
            detail = f"the function imports version {others[domain]} of {domain}, the model {versions[domain]}"
            yield "V211", f"{where}.node[{index}]", f"{detail}, in which {name:.80} differs"


def _since(domain: str, name: str, version: int) -> int:
    """The version in which an operator got the form that it has in `version`; 0 if it has none."""
    return max((since for since in signatures_of(domain, name) if since <= version), default=0)


def cycle_numbers(needs: Sequence[Collection[int]]) -> dict[int, int]:
    """For each index on a cycle, the number of its group: in a group, each index needs each other, directly or not.

    `needs[i]` are the indices that index `i` needs. This is Tarjan's algorithm, without recursion.
    """
    order: dict[int, int] = {}  # when each was first met
    lowest: dict[int, int] = {}  # the earliest one that each reaches; equal to its own order, it begins a group
    open_ones: list[int] = []
    is_open: set[int] = set()
    groups: dict[int, int] = {}
    for start in range(len(needs)):
        if start in order:
            continue
        order[start] = lowest[start] = len(order)
        open_ones.append(start)
        is_open.add(start)
        stack = [(start, iter(needs[start]))]
        while stack:
            index, rest = stack[-1]
            other = next(rest, None)
            if other is None:
                stack.pop()
                if stack:
                    lowest[stack[-1][0]] = min(lowest[stack[-1][0]], lowest[index])
                if lowest[index] == order[index]:
                    group: list[int] = []
                    while not group or group[-1] != index:
                        group.append(open_ones.pop())
                    is_open.difference_update(group)
                    if len(group) > 1 or index in needs[index]:
                        groups.update(dict.fromkeys(group, index))
            elif other not in order:
                order[other] = lowest[other] = len(order)
                open_ones.append(other)
                is_open.add(other)
                stack.append((other, iter(needs[other])))
            elif other in is_open:
                lowest[index] = min(lowest[index], order[other])
    return groups


def shortest_cycle(first: int, needs: Sequence[Collection[int]], groups: dict[int, int]) -> list[int]:
    """The shortest way from an index on a cycle to itself, each index before one that needs it."""
    users: dict[int, int] = {}  # by index, one that needs it, on the shortest way to `first`
    waiting = deque([first])
    while first not in users:
        index = waiting.popleft()
        for other in needs[index]:
            if groups.get(other) == groups[first] and other not in users:
                users[other] = index
                waiting.append(other)
    cycle = [first]
    while users[cycle[-1]] != first:
        cycle.append(users[cycle[-1]])
    return cycle
