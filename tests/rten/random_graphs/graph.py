"""A random graph with its inputs, and the values in it, which onnxruntime computes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import onnx
import onnxruntime
from onnx import helper

from tests.rten import evaluation


class Value(NamedTuple):
    """A value of a graph in construction; a list of arrays is a sequence."""

    name: str
    array: Any

    @property
    def is_exact(self) -> bool:
        """Whether rounding cannot have changed the value, so that it can be compared, rounded and counted."""
        if isinstance(self.array, list) or self.array.dtype.kind != "f":
            return True
        known = self.array[np.isfinite(self.array)].astype(np.float64)
        return bool(np.all(known * 256 == np.round(known * 256)) and np.all(np.abs(known) < 1 << 16))


class Discarded(Exception):
    """onnxruntime does not run a node, or its values exceed the allowed range."""


class Graph(NamedTuple):
    """A model with its inputs."""

    model: onnx.ModelProto
    feeds: dict[str, np.ndarray]


def session(model: onnx.ModelProto) -> onnxruntime.InferenceSession:
    """Return a session that does not rewrite the graph."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return evaluation.session(model.SerializeToString(), options)


def run_in_onnxruntime(model: onnx.ModelProto, feeds: Mapping[str, Any]) -> list[Any]:
    """Return the outputs of a model."""
    return list(session(model).run(None, dict(feeds)))


def info(name: str, value: Any, dims: Sequence[Any] | None = None, *, ranked: bool = True) -> onnx.ValueInfoProto:
    """Return the value info of a value, with its own dims if no others are given."""
    if isinstance(value, list):
        return helper.make_tensor_sequence_value_info(name, helper.np_dtype_to_tensor_dtype(value[0].dtype), None)
    shape = None if not ranked else list(value.shape if dims is None else dims)
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), shape)


def free_names(nodes: Iterable[onnx.NodeProto], bound: Iterable[str] = ()) -> list[str]:
    """Return the names that nodes and their subgraphs use but do not produce, in order."""
    made, found = set(bound), {}
    for node in nodes:
        used = list(node.input)
        for attribute in node.attribute:
            if attribute.HasField("g"):
                inner = attribute.g
                own = [*(value.name for value in inner.input), *(tensor.name for tensor in inner.initializer)]
                used += free_names(inner.node, own)
                produced = {*own, *(name for made_by in inner.node for name in made_by.output)}
                used += [value.name for value in inner.output if value.name not in produced]
        found.update(dict.fromkeys(name for name in used if name and name not in made))
        made.update(node.output)
    return list(found)


def as_fed(value: Any) -> Any:
    """Return a value in the form that onnxruntime accepts: a numpy scalar becomes an array without axes."""
    return value if isinstance(value, list) else np.asarray(value)


def everything(graph: Graph) -> dict[str, Any]:
    """Return all values of a graph outside of its subgraphs and functions, as far as onnxruntime returns them."""
    probe = onnx.ModelProto()
    probe.CopyFrom(graph.model)
    names = list(dict.fromkeys(name for node in graph.model.graph.node for name in node.output if name))
    del probe.graph.output[:]
    probe.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    try:
        return {**graph.feeds, **dict(zip(names, run_in_onnxruntime(probe, graph.feeds), strict=True))}
    except Exception:
        return dict(graph.feeds)
