"""A program over `onnx` that cuts a part out of a model and changes its dims."""

import sys

import formats.onnxpb as onnx
from formats.onnxpb.tools import update_model_dims
from formats.onnxpb.utils import Extractor

part = Extractor(onnx.shape_inference.infer_shapes(onnx.load(sys.argv[1]))).extract_model(["x"], ["y"])
attributes = [attribute for node in part.graph.node for attribute in node.attribute]
assert attributes == []
resized = update_model_dims.update_inputs_outputs_dims(onnx.load(sys.argv[1]), {"x": [2, 3]}, {"y": [2, 4]})
assert resized.graph.input[0].type.tensor_type.shape.dim[0].dim_value == 2
