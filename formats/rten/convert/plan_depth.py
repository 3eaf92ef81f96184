"""How deep RTen's planner calls itself for a graph, since it uses the stack of the thread that loads or runs a model.

Spec: RTen, graph/planner.rs, `PlanBuilder`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from formats.ir.node_order import graphs, mentioned, subgraphs
from formats.tensordata.plan import INTERFACE, USE

if TYPE_CHECKING:
    from formats.ir.model import Graph
    from formats.rten.convert.loss_report import Losses

# Measured on x86-64: a call takes 400 to 440 bytes of the stack, depending on the release; 8 MiB are full after 18,700.
MAX_IN_THREAD: Final = 4_500  # with the 2 MiB that a thread of Rust has by default
MAX_IN_MAIN_THREAD: Final = 18_000  # with the 8 MiB that the main thread of a process usually has


def add_deep_plans(losses: Losses, graph: Graph) -> None:
    """Report the graphs for which the stack of a thread may be too small."""
    all_graphs = [*graphs(graph, "graph")]
    for where, found in all_graphs:
        if len(found.node) <= MAX_IN_THREAD:  # as most graphs, so that they cost nothing
            continue
        depth = plan_depth(found, with_subgraphs=len(all_graphs) > 1)
        if depth > MAX_IN_THREAD:
            is_too_deep = depth > MAX_IN_MAIN_THREAD
            stack = f"a stack of {8 if is_too_deep else 2} MiB"
            detail = f"RTen's planner overflows {stack}: {depth} nodes, each of which needs another one's output"
            losses.add("depth", detail, where, seen=INTERFACE if is_too_deep else USE)


def plan_depth(graph: Graph, *, with_subgraphs: bool = True) -> int:
    """The most nodes that the planner has begun and not yet finished, from the outputs of a graph to its inputs."""
    with_graphs = {id(graph.node[index]) for index, _, _ in subgraphs(graph.node)} if with_subgraphs else ()
    needs: dict[str, list[str]] = {}  # by a value that is not yet planned, what the node that makes it needs
    others: dict[str, list[str]] = {}  # from the first node with several outputs on, the outputs of its node
    for node in graph.node:
        names = mentioned(node) if with_graphs and id(node) in with_graphs else node.input
        outputs = node.output
        for name in outputs:
            needs[name] = names
        if len(outputs) > 1 or others:
            others.update(dict.fromkeys(outputs, outputs))
    needs.pop("", None)  # an omitted output
    most = 1
    for value in graph.output:
        begun = [iter([value.name or ""])]
        while begun:
            for name in begun[-1]:
                if name in needs:
                    begun.append(iter(needs.pop(name)))
                    for output in others.get(name, ()) if others else ():
                        needs.pop(output, [])  # planned with it, so that a graph with a cycle ends, too
                    if len(begun) > most:
                        most = len(begun)
                    break
            else:
                begun.pop()
    return most - 1
