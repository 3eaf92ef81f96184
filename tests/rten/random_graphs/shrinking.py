"""Smaller graphs with the same fault."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import onnx
from onnx import helper, inliner

from tests.rten.random_graphs.graph import Graph, free_names, info, run_in_onnxruntime
from tests.rten.random_graphs.judging import Bench
from tests.rten.random_graphs.whole import renamed


def smaller(graph: Graph) -> Iterator[Graph]:
    """Yield graphs with a little less: no functions, fewer outputs, fewer nodes."""
    model, feeds = graph
    if model.functions:
        yield Graph(inliner.inline_local_functions(model), feeds)
    nodes, outputs = list(model.graph.node), list(model.graph.output)
    for output in outputs:
        if len(outputs) > 1:
            yield pruned(graph, nodes, [other for other in outputs if other is not output])
    everything = {name: None for node in nodes for name in node.output}
    probe = onnx.ModelProto()
    probe.CopyFrom(model)
    del probe.graph.output[:]
    probe.graph.output.extend(onnx.ValueInfoProto(name=name) for name in everything if name)
    try:
        values = dict(zip(filter(None, everything), run_in_onnxruntime(probe, feeds), strict=True))
    except Exception:
        values = {}
    for node in nodes[::-1]:  # earlier outputs
        made = [name for name in node.input if isinstance(values.get(name), np.ndarray)]
        if any(output.name in node.output for output in outputs) and made:
            kept = [output for output in outputs if output.name not in node.output]
            added = [info(name, values[name], ranked=False) for name in made]
            known = {output.name for output in kept}
            yield pruned(graph, nodes, [*kept, *(value for value in added if value.name not in known)])
    for node in nodes:  # a node's outputs as inputs
        made = [name for name in node.output if name]
        if all(isinstance(values.get(name), np.ndarray) for name in made) and node.op_type != "Constant":
            rest = [other for other in nodes if other is not node]
            yield pruned(graph, rest, outputs, {name: values[name] for name in made})
    for place, node in enumerate(nodes):  # a branch instead of its If
        for attribute in node.attribute:
            if attribute.HasField("g") and not attribute.g.input:
                names = {value.name: new for value, new in zip(attribute.g.output, node.output, strict=True)}
                inner = [renamed(held_by, names) for held_by in attribute.g.node]
                whole = pruned(graph, [*nodes[:place], *inner, *nodes[place + 1 :]], outputs)
                whole.model.graph.initializer.extend(attribute.g.initializer)
                yield whole
    for node in nodes:  # fewer nodes in a subgraph
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from smaller_bodies(graph, nodes, node, attribute.name)


def smaller_bodies(graph: Graph, nodes: list[onnx.NodeProto], node: onnx.NodeProto, name: str) -> Iterator[Graph]:
    """Yield the graph with one node less in a subgraph, replaced by its first input."""
    inner = next(attribute.g for attribute in node.attribute if attribute.name == name)
    for index, dead in enumerate(inner.node):
        made = onnx.NodeProto()
        made.CopyFrom(node)
        body = next(attribute.g for attribute in made.attribute if attribute.name == name)
        replacement = [helper.make_node("Identity", dead.input[:1], dead.output[:1])] if dead.input else []
        if dead.op_type == "Identity":
            replacement = []
        rest = [*body.node[:index], *replacement, *body.node[index + 1 :]]
        del body.node[:]
        body.node.extend(rest)
        yield pruned(graph, [made if other is node else other for other in nodes], list(graph.model.graph.output))


def pruned(
    graph: Graph, nodes: list[onnx.NodeProto], outputs: list[Any], given: Mapping[str, Any] | None = None
) -> Graph:
    """Return the part of a graph that some outputs need; given values are inputs."""
    needed = {output.name for output in outputs}
    kept: list[onnx.NodeProto] = []
    for node in reversed(nodes):
        if needed.intersection(node.output):
            kept.insert(0, node)
            needed.update(free_names([node]))
    model = onnx.ModelProto()
    model.CopyFrom(graph.model)
    made = {name for node in kept for name in node.output}
    feeds = {**graph.feeds, **(given or {})}
    inputs = [value for value in model.graph.input if value.name in needed]
    inputs += [info(name, value) for name, value in (given or {}).items() if name in needed and name not in made]
    tensors = [tensor for tensor in model.graph.initializer if tensor.name in needed]
    for held_in, values in ((model.graph.node, kept), (model.graph.output, outputs), (model.graph.input, inputs),
                            (model.graph.initializer, tensors)):  # fmt: skip
        copies = [type(value).FromString(value.SerializeToString()) for value in values]
        del held_in[:]
        held_in.extend(copies)
    return Graph(model, {value.name: feeds[value.name] for value in inputs if value.name in feeds})


def shrink(bench: Bench, graph: Graph, kind: str, seconds: float = 60) -> Graph:
    """Return a graph with the same fault that cannot be reduced further."""
    end = time.monotonic() + seconds
    goes_on = True
    while goes_on and time.monotonic() < end:
        goes_on = False
        for candidate in smaller(graph):
            if bench.outcome(candidate).kind == kind:
                graph, goes_on = candidate, True
                break
            if time.monotonic() > end:
                break
    return graph
