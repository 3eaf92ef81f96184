"""Types and shapes of values, inferred by the package onnx from a model without its weights."""

from __future__ import annotations

from formats.errors import EditError, TensorDataError
from formats.extras import needed
from formats.ir import dtypes
from formats.ir.model import Model, Tensor
from formats.ir.storage import with_raw_data, with_reference
from formats.onnxpb.wire.decoder import decode
from formats.onnxpb.wire.encoder import encode
from formats.tensordata.plan import lay_out
from formats.tensordata.sources.source import Literal

SMALL_BYTES = 1024  # tensors below this size stay in the model: they may say what a shape is
SMALL_INDICES_BYTES = 64 << 10  # the same for integers in one dimension
MOST_BYTES = (1 << 31) - 1  # of a message of protobuf
KNOWN_TWICE = "already exists"  # what onnx says of a call of a function in a subgraph, when it follows data
INDICES = (dtypes.INT32, dtypes.INT64)


def without_weights(tensor: Tensor) -> Tensor:
    """The tensor, or if it is large one that refers to data which nobody reads."""
    try:
        source = tensor.source()
    except TensorDataError:  # strings, or data that do not fit
        return tensor
    most = SMALL_INDICES_BYTES if tensor.data_type in INDICES and len(tensor.dims) <= 1 else SMALL_BYTES
    if source.nbytes <= most:
        return tensor if tensor.external_source is None else with_raw_data(tensor, Literal(source.read()))
    return with_reference(tensor, {"location": "weights"})


def bytes_without_weights(model: Model) -> bytes | None:
    """The model as a message without its weights, or `None` if even that is too large for protobuf."""
    writes, nbytes = lay_out(encode(model, without_weights))
    return None if nbytes > MOST_BYTES else b"".join([write.source.read() for write in writes])


def inferred(model: Model, *, strict: bool = False) -> Model | None:
    """The model without its weights, with the types and shapes that onnx infers; `None` if it is too large for that.

    Raises: MissingPackageError if onnx is not installed; EditError if it is `strict` and finds a contradiction.
    """
    with needed("onnx", "inferred shapes"):
        import onnx.shape_inference
    data = bytes_without_weights(model)
    if data is None:
        return None
    try:
        try:
            found = onnx.shape_inference.infer_shapes(data, strict_mode=strict, data_prop=True)
        except Exception as error:
            if KNOWN_TWICE not in str(error):
                raise
            found = onnx.shape_inference.infer_shapes(data, strict_mode=strict)
    except Exception as error:  # of several kinds: InferenceError, or what C++ raises
        if strict:
            raise EditError(_one_line(error)) from None
        return None
    if isinstance(found, onnx.ModelProto):
        found = found.SerializeToString()
    return decode(Literal(found), Model)


def _one_line(error: Exception) -> str:
    """The last part of the error of onnx, which names the node."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    named = [line for line in lines if "op_type" in line] or lines or [type(error).__name__]
    text = (
        named[0]
        .replace("[ShapeInferenceError]", "")
        .replace("Inference error(s):", "")
        .replace("[TypeInferenceError]", "")
    )
    return " ".join(text.split())[:300]
