"""Types and shapes that the package onnx infers, in a process of its own, for a model without its weights."""

from __future__ import annotations

import sys
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from formats.errors import EditError, ExternalDataError, TensorDataError, UnsupportedError
from formats.extras import needed
from formats.ir import dtypes
from formats.ir.attributes import attribute_named
from formats.ir.copies import shallow
from formats.ir.functions import check_calls
from formats.ir.model import Attribute, AttributeType, Model, entries
from formats.ir.node_order import subgraphs
from formats.ir.storage import with_raw_data, with_reference
from formats.onnxpb.limited_process import INFERENCE, LimitedProcess
from formats.onnxpb.wire.decoder import decode
from formats.onnxpb.wire.encoder import encoded_for_protobuf
from formats.tensordata.sources.source import Literal

if TYPE_CHECKING:
    from formats.ir.model import Node, Tensor

SMALL_BYTES = 1024  # tensors below this size stay in the model: they may say what a shape is
SMALL_INDICES_BYTES = 64 << 10  # the same for integers in one dimension
INDICES = (dtypes.INT32, dtypes.INT64)
MOST_NODES: Final = 1_000_000  # each call of a function counted as often as it happens: onnx infers each call anew
RESULT_BYTES: Final = 16 << 20
RESULT_PER_BYTE: Final = 16


def without_large_data(tensor: Tensor) -> Tensor:
    """The tensor, or if it is large one that refers to data which nobody reads."""
    try:
        source = tensor.source()
    except TensorDataError:  # strings, or data that do not fit
        return tensor
    most = SMALL_INDICES_BYTES if tensor.data_type in INDICES and len(tensor.dims) <= 1 else SMALL_BYTES
    if source.nbytes <= most:
        try:
            return tensor if tensor.external_source is None else with_raw_data(tensor, Literal(source.read()))
        except ExternalDataError:  # the data file is not there; floats hardly ever say what a shape is
            if tensor.data_type in INDICES:
                raise
    return with_reference(tensor, {"location": "weights"})


def inferred(model: Model, *, strict: bool = False) -> Model | None:
    """The model without its weights, with the types and shapes that onnx infers; `None` if it is too large for that.

    Raises: MissingPackageError if onnx is not installed; EditError if it is `strict` and finds a contradiction;
    UnsupportedError if the graph needs more memory or time than one of its size may take.
    """
    with needed("onnx", "inferred shapes"):
        _check_installed()
    check_calls(model, MOST_NODES, "onnx infers the shapes of")
    data = encoded_for_protobuf(_with_one_side(model), without_large_data)
    if data is None:
        return None
    word, result = _PROCESS.ask(data, strict, True)
    if word in ("memory", "ended"):
        # It keeps the elements of vectors, even of floats: without them, it knows fewer shapes.
        word, result = _PROCESS.ask(data, strict, False)
    if word in ("memory", "ended"):
        raise UnsupportedError(
            f"onnx cannot infer the shapes of this graph of {len(data):,} bytes with "
            f"{INFERENCE.memory(len(data)) >> 20:,} MiB of memory, or in the time that one of this size may take"
        )
    if word == "error":
        if strict:
            raise EditError(_one_line(result.decode(errors="replace")))
        return None
    most = RESULT_BYTES + RESULT_PER_BYTE * len(data)
    if len(result) > most:
        raise UnsupportedError(
            f"onnx infers shapes of {len(result):,} bytes for a graph of {len(data):,}; at most {most:,} are read"
        )
    found = decode(Literal(result), Model)
    if found.graph is not None and model.graph is not None and not subgraphs(model.graph.node):
        found.graph.node = model.graph.node  # the same nodes, in memory once
    return found


def _with_one_side(model: Model) -> Model:
    """The model in which every STFT of the main graph states `onesided`: onnx takes 0 for its default, which is 1."""
    if model.graph is None or all(node.op_type != "STFT" for node in model.graph.node):
        return model
    new = shallow(model)
    new.graph = shallow(model.graph)
    new.graph.node = [*map(_with_stated_side, model.graph.node)]
    return new


def _with_stated_side(node: Node) -> Node:
    if node.op_type != "STFT" or node.domain or attribute_named(node, "onesided") is not None:
        return node
    new = shallow(node)
    new.attribute = [*entries(node, "attribute"), Attribute("onesided", i=1, type=AttributeType.INT)]
    return new


def _check_installed() -> None:
    if (find_spec("onnx") if sys.modules.get("onnx", "") == "" else sys.modules["onnx"]) is None:
        raise ModuleNotFoundError("No module named 'onnx'", name="onnx")


_PROCESS = LimitedProcess("formats.onnxpb.inference_process", partial(needed, "onnx", "inferred shapes"), INFERENCE)


def _one_line(text: str) -> str:
    """The last part of the error of onnx, which names the node."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    named = [line for line in lines if "op_type" in line] or lines or ["onnx says no reason"]
    line = named[0]
    for word in ("[ShapeInferenceError]", "Inference error(s):", "[TypeInferenceError]"):
        line = line.replace(word, "")
    return " ".join(line.split())[:300]
