"""Whole graphs: the graph of a seed, its functions, and other sizes than those with which it was made."""

from __future__ import annotations

import random
from collections.abc import Mapping
from importlib import import_module

import numpy as np
import onnx
from onnx import helper

from tests.rten import evaluation
from tests.rten.random_graphs.builder import FIRST, Builder, Templates
from tests.rten.random_graphs.graph import Graph, everything, free_names, info, run_in_onnxruntime

for module in ("elementwise", "shapes", "places", "layers", "rarer", "fused", "subgraphs"):
    # This fills FIRST in this order, which decides what a seed draws.
    import_module(f"tests.rten.random_graphs.templates.{module}")

NEWEST = 24
VERSIONS = (7, 8, 9, 10, 11, 12, 13, 13, 14, 15, 16, 17, 18, 18, 19, 20, 21, 21, 22, 23, 23, NEWEST)


def renamed(node: onnx.NodeProto, names: Mapping[str, str]) -> onnx.NodeProto:
    """Return a node with other names, also in its subgraphs."""
    made = onnx.NodeProto()
    made.CopyFrom(node)
    for held in (made.input, made.output):
        held[:] = [names.get(name, name) for name in held]
    for attribute in made.attribute:
        if attribute.HasField("g"):
            graph = attribute.g
            own = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
            own |= {name for inner in graph.node for name in inner.output}
            outer = {old: new for old, new in names.items() if old not in own}
            nodes = [renamed(inner, outer) for inner in graph.node]
            del graph.node[:]
            graph.node.extend(nodes)
            for value in graph.output:
                value.name = outer.get(value.name, value.name)
    return made


def as_function(b: Builder, wanted: set[str], name: str, calls: bool = False) -> onnx.FunctionProto | None:
    """Replace some nodes of a graph by a call of a function; return `None` if this is impossible.

    With `calls`, it is a function that calls another one: the call is one of its nodes.
    """
    starts = [place for place, node in enumerate(b.nodes) if not calls or node.domain == "local"]
    if not starts:
        return None
    start = max(0, b.rng.choice(starts) - (b.rng.randint(0, 1) if calls else 0))
    part = b.nodes[start : start + b.rng.randint(2 if calls else 1, 3)]
    rest = b.nodes[start + len(part) :]
    used = set(free_names(rest)) | wanted
    inputs = free_names(part)
    outputs = [name for node in part for name in node.output if name in used]
    if any(b"SimplifiedLayerNormalization" in node.SerializeToString() for node in part):
        return None  # onnxruntime crashes for these in functions
    if not outputs or not inputs or any(isinstance(b.seen()[name], list) for name in (*inputs, *outputs)):
        return None
    made = [name for node in part for name in node.output]
    names = {name: f"p{place}" for place, name in enumerate(dict.fromkeys((*inputs, *made)))}
    imports = [
        helper.make_opsetid("", b.version),
        helper.make_opsetid("com.microsoft", 1),
        helper.make_opsetid("local", 1),
    ]
    nodes = [renamed(node, names) for node in part]
    function = helper.make_function("local", name, [names[name] for name in inputs],
                                    [names[name] for name in outputs], nodes, imports)  # fmt: skip
    b.nodes[start : start + len(part)] = [helper.make_node(name, inputs, outputs, domain="local")]
    return function


def generate(seed: int, templates: Templates = FIRST) -> Graph | None:
    """Return the graph of a seed, or `None` if onnxruntime does not run it."""
    evaluation.need_judge()  # an older one dies when it divides an integer by zero
    rng = random.Random(seed)
    b = Builder(rng, rng.choice(VERSIONS), templates=templates)
    b.is_wide, b.is_wild, b.has_empty = (rng.random() < share for share in templates.shares[:3])
    b.leaf(b.data("float32", b.dims(rng.choice((1, 2, 3, 4)))), constant=False)
    b.grow(rng.choice((2, 3, 4, 5, 6, 8, 12, 20)))
    used = set(free_names(b.nodes))
    made = [value for value in b.values if any(value.name in node.output for node in b.nodes)]
    ends = [value for value in made if value.name not in used or rng.random() < 0.1]
    ends = [value for value in ends if not isinstance(value.array, list)]
    ends = [value for value in ends if not any(
        node.op_type == "Constant" and value.name in node.output for node in b.nodes)] or ends[:1]  # fmt: skip
    if not ends:
        return None
    rng.shuffle(ends)
    wanted = {value.name for value in ends}
    functions = []
    if b.version >= 13 and rng.random() < 0.2:
        function = as_function(b, wanted, "Part")
        functions = [function] if function is not None else []
        if functions and rng.random() < 0.4:
            outer = as_function(b, wanted, "Whole", calls=True)
            functions += [outer] if outer is not None else []
    if rng.random() < 0.1:  # an unused initialiser
        b.leaf(b.data("float32", (2,)), constant=True)
    inputs = []
    for value in b.inputs:
        dims = [f"N{size}" if rng.random() < 0.15 else f"{value.name}_{axis}" if rng.random() < 0.3 else size
                for axis, size in enumerate(value.array.shape)]  # fmt: skip
        inputs.append(info(value.name, value.array, dims, ranked=rng.random() < 0.95))
    shared = [value for value in b.values if b.shared(value)]
    if shared and rng.random() < 0.1:  # a constant that a caller may replace
        value = rng.choice(shared)
        inputs.append(info(value.name, value.array))
    given = [value for value in (*b.inputs, *shared) if not isinstance(value.array, list)]
    ends += [value for value in given if rng.random() < 0.02]  # an input or a constant as an output
    outputs = [info(value.name, value.array, ranked=rng.random() < 0.3) for value in ends]
    graph = helper.make_graph(b.nodes, "graph", inputs, outputs, b.initializers)
    feeds = {value.name: value.array for value in b.inputs}
    model = b.whole(graph, functions)
    try:
        run_in_onnxruntime(model, feeds)
    except Exception:
        return None
    graph = Graph(model, feeds)
    return resized(graph, rng) if rng.random() < templates.shares.resized else graph


# Other sizes than those with which a graph was made.

RECURRENT = (b"GRU", b"LSTM", b"RNN")  # without samples, they crash onnxruntime
POOLS = ("AveragePool", "LpPool", "MaxPool", "QLinearAveragePool")


def resized(graph: Graph, rng: random.Random) -> Graph:
    """Return the graph with other sizes for named dims; unchanged if onnxruntime does not run it with them."""
    ends_process = any(name in graph.model.SerializeToString() for name in RECURRENT)
    for _ in range(3):
        sizes: dict[str, int] = {}
        feeds = {}
        for value in graph.model.graph.input:
            if value.name not in graph.feeds:
                continue
            array = graph.feeds[value.name]
            dims = list(array.shape)
            for axis, dim in enumerate(value.type.tensor_type.shape.dim):
                if dim.dim_param:
                    size = dims[axis]
                    dims[axis] = sizes.setdefault(
                        dim.dim_param, rng.choice((size, size, int(ends_process), 1, size + 1, size + 3))
                    )
            feeds[value.name] = np.resize(array, dims) if tuple(dims) != array.shape else array
        other = Graph(onnx.ModelProto(), feeds)
        other.model.CopyFrom(graph.model)
        for value in other.model.graph.output:  # these are other sizes, too
            value.type.tensor_type.ClearField("shape")
        try:
            run_in_onnxruntime(other.model, feeds)
        except Exception:
            continue
        if is_strict(other):
            return other
    return graph


QUANTISED = ("DequantizeLinear", "QLinearConv", "QLinearMatMul", "QuantizeLinear")


def pairs_of(node: onnx.NodeProto) -> list[tuple[str, str]]:
    """Return the names of the scales and zero points of a quantised operator."""
    places = (1, 4, 6) if node.op_type.startswith("QLinear") else (1,)
    return [(node.input[place], node.input[place + 1]) for place in places if place + 1 < len(node.input)]


def is_strict(graph: Graph) -> bool:
    """Whether ONNX allows the sizes of a graph: onnxruntime also accepts some others, as far as we know."""
    values = everything(graph)
    shapes = {name: np.shape(value) for name, value in values.items() if not isinstance(value, list)}
    shapes |= {tensor.name: tuple(tensor.dims) for tensor in graph.model.graph.initializer}
    for node in graph.model.graph.node:
        attributes = {entry.name: helper.get_attribute_value(entry) for entry in node.attribute}
        given = [shapes[name] for name in node.input if name in shapes]
        if node.op_type in ("Concat", "QLinearConcat"):  # tensors without elements may have any dims
            joined = given if node.op_type == "Concat" else [shapes[name] for name in node.input[2::3]]
            others = {tuple(np.delete(dims, attributes["axis"])) for dims in joined}
            if len(others) > 1:
                return False
        elif node.op_type == "Pad" and given and 0 in given[0]:  # there is nothing to repeat or to reflect
            if attributes.get("mode", b"constant") != b"constant":
                return False
        elif node.op_type == "Compress" and len(given) > 1:  # more conditions than elements
            if given[1][0] > (given[0][attributes["axis"]] if "axis" in attributes else np.prod(given[0])):
                return False
        elif node.op_type in POOLS and given and "kernel_shape" in attributes:  # windows larger than their data
            kernel = attributes["kernel_shape"]
            pads, gaps = (
                attributes.get(name, [one] * 2 * len(kernel)) for name, one in (("pads", 0), ("dilations", 1))
            )
            sizes = given[0][1:-1] if attributes.get("channels_last") else given[0][2:]
            if any(size + pads[axis] + pads[axis + len(kernel)] <= (kernel[axis] - 1) * gaps[axis]
                   for axis, size in enumerate(sizes)):  # fmt: skip
                return False
        elif node.op_type == "LinearRegressor" and given:  # a weight for each column
            if given[0][-1] * attributes["targets"] != len(attributes["coefficients"]):
                return False
        elif node.op_type == "RotaryEmbedding" and given:  # an angle for each pair of numbers
            if given[0][-1] % 2:
                return False
        elif node.op_type in ("GatherND", "ScatterND") and len(given) > 1:  # an index has a number at least
            if given[1] and given[1][-1] == 0:
                return False
        elif node.op_type in QUANTISED:  # a zero point for each scale
            if any(shapes.get(scale, ()) != shapes.get(zero, ()) for scale, zero in pairs_of(node) if zero in shapes):
                return False
        elif node.op_type == "NonMaxSuppression":  # its numbers are scalars or vectors of one
            if any(np.prod(shapes.get(name, ())) != 1 for name in node.input[2:] if name):
                return False
        elif node.op_type.startswith("Reduce") and given and 0 in given[0]:  # negative axes are not reduced
            return False
    return True
