"""Models whose tensors are references to other files, or become such, written by `onnx` or deliberately wrong."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper


def model_with_references(path: Path, *places: dict[str, str]) -> Path:
    """Write a model to `path` with a tensor of 100 floats for each of the given places."""
    tensors = [onnx.TensorProto(name=f"t{i}", dims=[100], data_type=1, data_location=1) for i in range(len(places))]
    for tensor, entries in zip(tensors, places, strict=True):
        for key, value in entries.items():
            tensor.external_data.add(key=key, value=value)
    graph = onnx.helper.make_graph([], "g", [], [], tensors)
    path.write_bytes(onnx.helper.make_model(graph).SerializeToString())
    return path


def weight(name: str, size: int, seed: int = 0) -> onnx.TensorProto:
    """Return a float tensor."""
    return numpy_helper.from_array(np.random.default_rng(seed).random(size).astype("float32"), name)


def proto_with_weights_everywhere() -> onnx.ModelProto:
    """Return a model with tensors as initialisers, attributes, in a subgraph, a function and a sparse initialiser."""
    sparse = onnx.helper.make_sparse_tensor(weight("s", 600), numpy_helper.from_array(np.arange(600)), [1000])
    inner = onnx.helper.make_graph(
        [onnx.helper.make_node("Constant", [], ["k"], value=weight("k", 500))],
        "inner",
        [],
        [onnx.helper.make_tensor_value_info("k", 1, [500])],
        [weight("i", 400)],
    )
    node = onnx.helper.make_node("If", ["c"], ["y"], then_branch=inner, else_branch=inner)
    function = onnx.helper.make_function(
        "local", "f", [], ["y"], [onnx.helper.make_node("Constant", [], ["y"], value=weight("f", 300))], []
    )
    typed = onnx.helper.make_tensor("typed", 1, [700], np.arange(700, dtype="float32").tolist())
    strings = onnx.helper.make_tensor("strings", 8, [1], [b"x" * 5000])
    graph = onnx.helper.make_graph(
        [node],
        "g",
        [onnx.helper.make_tensor_value_info("c", 9, [])],
        [onnx.helper.make_tensor_value_info("y", 1, [500])],
        [weight("a", 1000, 1), weight("tiny", 3), typed, strings],
        sparse_initializer=[sparse],
    )
    return onnx.helper.make_model(graph, functions=[function])
