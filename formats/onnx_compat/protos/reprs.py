"""The short texts of large messages, as `repr` returns them in `onnx`: counts instead of the elements of lists.

Spec: the `onnx` package (1.23), `onnx/__init__.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from formats.onnx_compat.protos.message import ProtoMessage


def model_text(model: Any) -> str:
    """The text of a ModelProto."""
    parts = [f"ir_version={model.ir_version}", *_opsets(model)]
    parts += [
        f"{name}={value!r}"
        for name in ("domain", "producer_name", "producer_version")
        if (value := getattr(model, name))
    ]
    parts += [f"graph={graph_text(model.graph)}"] if model.HasField("graph") else []
    return f"ModelProto({', '.join((*parts, *_counts(model, ('functions',))))})"


def graph_text(graph: Any) -> str:
    """The text of a GraphProto."""
    counts = (*_counts(graph, ("input", "output")), *_counts(graph, ("initializer",)), *_counts(graph, ("node",)))
    return f"GraphProto({', '.join((repr(graph.name), *counts, *_counts(graph, ('value_info',))))})"


def function_text(function: Any) -> str:
    """The text of a FunctionProto."""
    parts = [f"{name}={value!r}" for name in ("domain", "overload") if (value := getattr(function, name))]
    parts += [*_opsets(function), *_counts(function, ("input", "output"))]
    parts += [f"attribute={list(function.attribute)}"] if function.attribute else []
    return f"FunctionProto({', '.join((repr(function.name), *parts, *_counts(function, ('node',))))})"


def _opsets(message: Any) -> list[str]:
    versions = {entry.domain: entry.version for entry in message.opset_import}
    return [f"opset_import={versions}"] if versions else []


def _counts(message: Any, names: tuple[str, ...]) -> list[str]:
    """The numbers of elements, in the form of `onnx`."""
    words = {"input": "inputs", "output": "outputs", "initializer": "initializers", "node": "nodes"}
    return [f"{name}=<{count} {words.get(name, name)}>" for name in names if (count := len(getattr(message, name)))]


SHORT_TEXTS: dict[str, Callable[[ProtoMessage], str]] = {
    "ModelProto": model_text,
    "GraphProto": graph_text,
    "FunctionProto": function_text,
}
