"""Every edit and verb takes time in proportion to what can be many: nodes, subgraphs, functions, inputs, names."""

from __future__ import annotations

import gc
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import onnx
import pytest
from onnx import TensorProto, helper

import formats

if TYPE_CHECKING:
    from collections.abc import Callable

SMALL, LARGE = 300, 2400
MOST = 3.0  # times the growth of the model; where all is quadratic, it is 8


def value(name: str, dims: tuple[str | int, ...] = ("b", 4)) -> onnx.ValueInfoProto:
    """A float32 value."""
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, list(dims))


def weight(name: str) -> onnx.TensorProto:
    """A weight of four numbers."""
    return helper.make_tensor(name, TensorProto.FLOAT, [4], [1.0, 2.0, 3.0, 4.0])


def finished(
    nodes: list[Any], inputs: list[Any], outputs: list[Any], weights: list[Any], **more: Any
) -> onnx.ModelProto:
    """A model of these parts."""
    domains = [helper.make_opsetid("", 17), *([helper.make_opsetid("own", 1)] if more.get("functions") else [])]
    graph = helper.make_graph(nodes, "g", inputs, outputs, weights, value_info=more.pop("value_info", None))
    return helper.make_model(graph, opset_imports=domains, ir_version=8, **more)


def chain(count: int) -> onnx.ModelProto:
    """Nodes in a row, a third of which do nothing, each with a weight and a described value."""
    nodes = []
    for index in range(count):
        source = f"v{index - 1}" if index else "x"
        if index % 3:
            nodes.append(helper.make_node("Add", [source, f"w{index}"], [f"v{index}"], name=f"n{index}"))
        else:
            nodes.append(helper.make_node("Identity", [source], [f"v{index}"], name="n"))
    weights = [weight(f"w{index}") for index in range(count) if index % 3]
    described = [value(f"v{index}") for index in range(count - 1)]
    return finished(nodes, [value("x")], [value(f"v{count - 1}")], weights, value_info=described)


def wide(count: int) -> onnx.ModelProto:
    """As many inputs and outputs as nodes, and one node that uses all values."""
    nodes = [helper.make_node("Relu", [f"x{index}"], [f"y{index}"]) for index in range(count)]
    nodes.append(helper.make_node("Concat", [f"y{index}" for index in range(count)], ["all"], axis=1))
    outputs = [value(f"y{index}") for index in range(count)]
    return finished(
        nodes, [value(f"x{index}") for index in range(count)], [*outputs, value("all", ("b", 4 * count))], []
    )


def fan(count: int) -> onnx.ModelProto:
    """One value that all nodes use."""
    nodes = [helper.make_node("Identity", ["x"], ["v"])]
    nodes += [helper.make_node("Add", ["v", f"w{index}"], [f"y{index}"]) for index in range(count)]
    nodes.append(helper.make_node("Sum", [f"y{index}" for index in range(count)], ["y"]))
    return finished(nodes, [value("x")], [value("y")], [weight(f"w{index}") for index in range(count)])


def branches(count: int) -> onnx.ModelProto:
    """Nodes with subgraphs, which use an outer value and have names of their own."""
    nodes = [helper.make_node("Identity", ["x"], ["v0"])]
    for index in range(count // 8):
        bodies = {}
        for branch in ("then", "else"):
            name = f"{branch}{index}"
            made = [
                helper.make_node("Identity", [f"v{index}"], [f"{name}_a"]),
                helper.make_node("Add", [f"{name}_a", "w"], [f"{name}_b"]),
            ]
            bodies[f"{branch}_branch"] = helper.make_graph(made, name, [], [value(f"{name}_b")])
        nodes.append(helper.make_node("If", ["c"], [f"v{index + 1}"], **bodies))
    condition = helper.make_tensor_value_info("c", TensorProto.BOOL, [])
    return finished(nodes, [value("x"), condition], [value(f"v{count // 8}")], [weight("w")])


def functions(count: int) -> onnx.ModelProto:
    """A function for each node."""
    made = [
        helper.make_function(
            "own",
            f"F{index}",
            ["x"],
            ["y"],
            [helper.make_node("Identity", ["x"], ["a"]), helper.make_node("Relu", ["a"], ["y"])],
            [helper.make_opsetid("", 17)],
        )
        for index in range(count // 4)
    ]
    nodes = [
        helper.make_node(f"F{index}", [f"v{index}"], [f"v{index + 1}"], domain="own") for index in range(count // 4)
    ]
    return finished(nodes, [value("v0")], [value(f"v{count // 4}")], [], functions=made)


def dims(count: int) -> onnx.ModelProto:
    """A name of a dim for each value."""
    nodes = [helper.make_node("Relu", [f"x{index}"], [f"y{index}"]) for index in range(count // 2)]
    inputs = [value(f"x{index}", (f"b{index}", 4)) for index in range(count // 2)]
    return finished(nodes, inputs, [value(f"y{index}", (f"b{index}", 4)) for index in range(count // 2)], [])


def constants(count: int) -> onnx.ModelProto:
    """Nodes that compute constants in rows, each of which one node uses, and an If whose condition is one, too."""
    nodes = [helper.make_node("Relu", ["x"], ["v0"]), helper.make_node("Not", ["c"], ["known"])]
    for index in range(count // 4):
        nodes.append(helper.make_node("Add", [f"w{index}", f"w{index}"], [f"c{index}"]))
        nodes.append(helper.make_node("Neg", [f"c{index}"], [f"d{index}"]))
        nodes.append(helper.make_node("Shape", [f"v{index}"], [f"s{index}"]))
        nodes.append(helper.make_node("Add", [f"v{index}", f"d{index}"], [f"v{index + 1}"]))
    for index in range(count // 16):
        made = [helper.make_node("Add", [f"v{count // 4}", f"d{index}"], ["t"])]
        bodies = {f"{name}_branch": helper.make_graph(made, name, [], [value("t")]) for name in ("then", "else")}
        nodes.append(helper.make_node("If", ["known"], [f"y{index}"], **bodies))
    nodes.append(helper.make_node("Sum", [f"y{index}" for index in range(count // 16)], ["y"]))
    weights = [weight(f"w{index}") for index in range(count // 4)]
    condition = helper.make_tensor("c", TensorProto.BOOL, [], [False])
    return finished(nodes, [value("x")], [value("y")], [*weights, condition])


MODELS = {made.__name__: made for made in (chain, wide, fan, branches, functions, dims, constants)}


def all_names(model: Any) -> dict[str, str]:
    """New names for all values of the main graph."""
    names = {output for node in model.graph.node for output in node.output}
    return {name: f"new_{name}" for name in names | {value.name for value in model.graph.input}}


def with_layouts(model: Any) -> Any:
    """The model with uint8 inputs, and another layout of all inputs and outputs, which get a third dim for it."""
    ends = [value for value in (*model.graph.input, *model.graph.output) if value.name != "c"]
    for end in ends:
        end.type.tensor_type.shape.dim[2:] = [formats.Dimension(dim_value=4)]
    inputs = [value.name for value in model.graph.input if value.name != "c"]
    return model.edit(uint8_input=inputs, scale="1/255", layout={end.name: "NLC" for end in ends})


EDITS: dict[str, Callable[[Any], object]] = {
    "rename": lambda model: model.rename(all_names(model)),
    "bypass": lambda model: model.bypass("Identity"),
    "bypass by name": lambda model: model.edit(bypass="Identity"),
    "add outputs": lambda model: model.edit(add_output="all"),
    "remove outputs": lambda model: model.edit(
        add_output="all", remove_output=[node.output[0] for node in model.graph.node[1:]]
    ),
    "prefix": lambda model: model.edit(prefix="a/"),
    "node settings": lambda model: model.edit(
        set_operator={node.output[0]: node.op_type for node in model.graph.node},
        set_attribute={f"{node.output[0]}.axis": 1 for node in model.graph.node if node.op_type == "Concat"},
    ),
    "strip": lambda model: model.edit(strip_docs=True, strip_training=True),
    "fold": lambda model: model.edit(fold=True),
    "uint8 and layout": with_layouts,
    "prune": lambda model: model.edit(prune=True),
    "dedup": lambda model: formats.dumps(model, "onnx", dedup=True),
    "weights as inputs and back": lambda model: model.edit(
        initializer_to_input=[tensor.name for tensor in model.graph.initializer] or None
    ).edit(input_to_initializer={tensor.name: tensor for tensor in model.graph.initializer}),
    "extract": lambda model: model.extract(outputs=[model.graph.output[-1].name]),
    "merge": lambda model: model.merge(model),
    "merge in a row": lambda model: model.merge(model, {model.graph.output[0].name: model.graph.input[0].name}),
    "merge with a prefix": lambda model: model.merge(model, prefix="second/"),
    "dim": lambda model: model.edit(dim={model.graph.input[0].type.tensor_type.shape.dim[0].dim_param: 2}),
    "dims": lambda model: model.edit(dim={f"{value.name}:0": 2 for value in model.graph.input if value.name != "c"}),
    "opset up": lambda model: formats.dumps(model, "onnx", opset=18),
    "opset down": lambda model: formats.dumps(model, "onnx", opset=13),
    "float16": lambda model: formats.dumps(model, "onnx", dtype="float16"),
    "int32": lambda model: formats.dumps(model, "onnx", int32=True),
    "float32": lambda model: formats.dumps(model, "onnx", dtype="float32"),
    "int4": lambda model: formats.dumps(model, "onnx", weights_dtype="int4", runtime="onnxruntime"),
    "int4 of plain ONNX": lambda model: formats.dumps(model, "onnx", weights_dtype="int4"),
    "sort": lambda model: model.sort(),
    "find": lambda model: model.find(lambda op, x, y: op.Add(op.Identity(x), y)),
    "rewrite": lambda model: model.rewrite(lambda op, x: op.Identity(x), lambda op, x: op.Abs(op.Abs(x))),
    "rewrite to nothing": lambda model: model.rewrite(lambda op, x: op.Identity(x), lambda op, x: x),
    "values": lambda model: model.values(),
    "to onnxz": lambda model: formats.dumps(model, "onnxz"),
    "to rten": lambda model: formats.dumps(model, "rten"),
    "to ort": lambda model: formats.dumps(model, "ort"),
    "to json": lambda model: formats.dumps(model, "json"),
    "for rten": lambda model: formats.dumps(model, "onnx", runtime="rten"),
    "for onnxruntime": lambda model: formats.dumps(model, "onnx", runtime="onnxruntime==1.16"),
}
VERBS: dict[str, Callable[[Path], object]] = {
    "verify": formats.verify,
    "inspect": formats.inspect,
    "shapes and macs": lambda path: formats.inspect(path, shapes=True, macs=True),
    "diff": lambda path: formats.diff(path, path.with_name("twin.onnx")),
    "files": formats.files,
}


def seconds(work: Callable[[Any], object], subject: Any) -> float:
    """The least processor time of three runs."""
    times = []
    for _ in range(3):
        gc.collect()
        started = time.process_time()
        work(subject)
        times.append(time.process_time() - started)
    return min(times)


WITHOUT = {("bypass by name", kind) for kind in ("wide", "dims", "constants")}  # they have no node that does nothing
CASES = [(name, kind) for name in (*EDITS, *VERBS) for kind in MODELS if (name, kind) not in WITHOUT]


@pytest.mark.outer
@pytest.mark.parametrize(("name", "kind"), CASES)
def test_time_grows_with_the_model(name: str, kind: str, tmp_path: Path) -> None:
    """Eight times the nodes take eight times the processor time, and not the square of it."""
    taken = []
    for count in (SMALL, LARGE):
        path = tmp_path / f"m{count}.onnx"
        path.write_bytes(MODELS[kind](count).SerializeToString())
        (tmp_path / "twin.onnx").write_bytes(path.read_bytes())
        taken.append(seconds(EDITS[name], formats.load(path)) if name in EDITS else seconds(VERBS[name], path))
    least = 0.02  # what does not depend on the model
    assert taken[1] < MOST * LARGE / SMALL * max(taken[0], least)
