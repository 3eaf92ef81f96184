"""Models whose tensors are references to other files, as `onnx` writes them and as nobody should."""

from __future__ import annotations

from pathlib import Path

import onnx


def model_with_references(path: Path, *places: dict[str, str]) -> Path:
    """A model at `path` with a tensor of 100 floats for each of the given places."""
    tensors = [onnx.TensorProto(name=f"t{i}", dims=[100], data_type=1, data_location=1) for i in range(len(places))]
    for tensor, entries in zip(tensors, places, strict=True):
        for key, value in entries.items():
            tensor.external_data.add(key=key, value=value)
    graph = onnx.helper.make_graph([], "g", [], [], tensors)
    path.write_bytes(onnx.helper.make_model(graph).SerializeToString())
    return path
