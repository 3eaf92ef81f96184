"""Makes the models of the benchmark: `python benchmarks/models.py DIRECTORY MEBIBYTES NODES`."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper

WIDTH = 1024


def value(name: str, *dims: int | str) -> onnx.ValueInfoProto:
    """A float value."""
    return helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, dims)


def chain(mebibytes: int) -> onnx.ModelProto:
    """A chain of matrix products, each with 4 MiB of float32 weights."""
    random = np.random.default_rng(0)
    graph = onnx.GraphProto(name="chain", input=[value("x0", "n", WIDTH)])
    for index in range(mebibytes // 4):
        weight = numpy_helper.from_array(random.random((WIDTH, WIDTH), dtype=np.float32), f"w{index}")
        graph.initializer.append(weight)
        graph.node.append(helper.make_node("MatMul", [f"x{index}", f"w{index}"], [f"x{index + 1}"], f"product{index}"))
    graph.output.append(value(f"x{mebibytes // 4}", "n", WIDTH))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def nodes(count: int) -> onnx.ModelProto:
    """A long graph of small convolutions and additions, the latter with a constant each."""
    graph = onnx.GraphProto(name="nodes", input=[value("x0", 1, 4, 8, 8)])
    graph.initializer.append(numpy_helper.from_array(np.zeros((4, 4, 3, 3), np.float32), "w"))
    for index in range(count):
        inputs, outputs, name = [f"x{index}"], [f"x{index + 1}"], f"layer.{index}"
        if index % 2:
            graph.initializer.append(numpy_helper.from_array(np.full(1, index, np.float32), f"b{index}"))
            graph.node.append(helper.make_node("Add", [*inputs, f"b{index}"], outputs, name))
        else:
            node = helper.make_node(
                "Conv", [*inputs, "w"], outputs, name, kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[1, 1], group=1
            )
            graph.node.append(node)
    graph.output.append(value(f"x{count}", 1, 4, 8, 8))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def main() -> None:
    """Write both models."""
    directory, mebibytes, count = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    onnx.save(chain(mebibytes), directory / "big.onnx")
    onnx.save(nodes(count), directory / "nodes.onnx")


if __name__ == "__main__":
    main()
