"""Chains of nodes that are too long for the stack of RTen's planner are reported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import formats
from formats.onnxpb.wire.decoder import decode
from formats.rten.convert import passes
from formats.rten.convert.legalize import legalize
from formats.rten.convert.passes import plan_depth
from formats.tensordata.sources.source import Literal
from tests.runtime.runner import RunnerError


def model_of(nodes: list[Any], *outputs: str) -> onnx.ModelProto:
    """Return a model with the input `x0`, a float vector."""
    values = [helper.make_tensor_value_info(name, 1, [4]) for name in ("x0", *outputs)]
    graph = helper.make_graph(nodes, "g", values[:1], values[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def chain(count: int) -> list[Any]:
    """Return nodes in a row, from `x0` to `x<count>`."""
    return [helper.make_node("Relu", [f"x{index}"], [f"x{index + 1}"]) for index in range(count)]


def read(proto: onnx.ModelProto) -> formats.Model:
    """Return the model of a message."""
    return decode(Literal(proto.SerializeToString()), formats.Model)


def residual(count: int, *, first: bool) -> list[Any]:
    """Return sums of a value and of its Relu, which is the second or the `first` operand."""
    nodes = []
    for index in range(count):
        nodes.append(helper.make_node("Relu", [f"x{index}"], [f"r{index}"]))
        operands = [f"r{index}", f"x{index}"] if first else [f"x{index}", f"r{index}"]
        nodes.append(helper.make_node("Add", operands, [f"x{index + 1}"]))
    return nodes


@pytest.mark.parametrize(
    ("nodes", "outputs", "depth"),
    [
        pytest.param(chain(7), ["x7"], 7, id="chain"),
        pytest.param(chain(7)[::-1], ["x7"], 7, id="chain in any order"),
        pytest.param(chain(7), ["x4", "x7"], 4, id="a value that is known before"),
        pytest.param(residual(5, first=True), ["x5"], 10, id="through both operators"),
        pytest.param(residual(5, first=False), ["x5"], 6, id="through the sums first"),
        pytest.param([helper.make_node("Relu", ["x0"], ["a"]), *chain(3)], ["a"], 1, id="nodes that nothing uses"),
        pytest.param([helper.make_node("Add", ["x0", "b"], ["b"])], ["b"], 1, id="cycle"),
    ],
)
def test_depth(nodes: list[Any], outputs: list[str], depth: int) -> None:
    """The depth is that of a search for what the outputs need, in the order of the inputs."""
    graph = read(model_of(nodes, *outputs)).graph
    assert graph is not None
    assert depth == plan_depth(graph)


def test_depth_counts_what_subgraphs_need() -> None:
    """A value that only the branches of an If use is needed by the If."""
    branches = {
        f"{name}_branch": helper.make_graph(
            [helper.make_node("Neg", ["x5"], [name])], name, [], [helper.make_empty_tensor_value_info(name)]
        )
        for name in ("then", "else")
    }
    compare = [
        helper.make_node("ReduceMax", ["x0"], ["m"], keepdims=0),
        helper.make_node("Greater", ["m", "m"], ["c"]),
        helper.make_node("If", ["c"], ["y"], **branches),
    ]
    graph = read(model_of([*chain(5), *compare], "y")).graph
    assert graph is not None
    assert 6 == plan_depth(graph)


def test_deep_plans_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan that is too deep for the main thread is a loss that matters; one for other threads does not."""
    monkeypatch.setattr(passes, "MAX_IN_THREAD", 5)
    monkeypatch.setattr(passes, "MAX_IN_MAIN_THREAD", 20)
    told = {}
    for count in (5, 6, 20, 21):
        losses = legalize(read(model_of(chain(count), f"x{count}"))).losses.lines()
        told[count] = [(loss.where, loss.matters) for loss in losses if loss.kind == "depth"]
    assert {5: [], 6: [("graph", False)], 20: [("graph", False)], 21: [("graph", True)]} == told


@pytest.mark.parametrize("name", ["m.rten", "m.onnx"])
def test_the_planner_overflows_the_stack(runtime: Any, name: str, tmp_path: Path) -> None:
    """A deep plan kills RTen, and the report says so; RTen runs a plan that is less deep."""
    options = {"runtime": "rten"} if name.endswith(".onnx") else {}
    for count, is_too_deep in ((15_000, False), (30_000, True)):
        onnx.save(model_of(chain(count), f"x{count}"), tmp_path / "given.onnx")
        report = formats.convert(tmp_path / "given.onnx", tmp_path / name, overwrite=True, **options)
        (loss,) = [loss for loss in report.losses if loss.kind == "depth"]
        assert (is_too_deep, f"{count} nodes" in loss.detail) == (loss.matters, True)
        inputs = {"x0": np.ones(4, np.float32)}
        if is_too_deep:
            with pytest.raises(RunnerError, match="abort"):
                runtime.run(tmp_path / name, inputs)
        else:
            assert [1] * 4 == runtime.run(tmp_path / name, inputs)[0].tolist()
