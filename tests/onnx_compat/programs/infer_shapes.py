"""A program over `onnx` that infers shapes and reads them."""

import sys

import formats.onnxpb as onnx
from formats.onnxpb.shape_inference import InferenceError, infer_shapes


def dims_of(value: onnx.ValueInfoProto) -> list[int | str]:
    """The dims of a value."""
    dims = value.type.tensor_type.shape.dim
    return [dim.dim_value if dim.HasField("dim_value") else dim.dim_param for dim in dims]


try:
    inferred = infer_shapes(onnx.load(sys.argv[1]), strict_mode=True)
except InferenceError as error:
    sys.exit(str(error))
shapes = {value.name: dims_of(value) for value in (*inferred.graph.value_info, *inferred.graph.output)}
assert shapes == {"y": ["batch", 4]}
