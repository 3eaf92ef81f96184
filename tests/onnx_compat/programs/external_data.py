"""A program over `onnx` that stores weights beside the model."""

import sys
from pathlib import Path

import formats.onnxpb as onnx
from formats.onnxpb.external_data_helper import convert_model_to_external_data, uses_external_data

path = Path(sys.argv[1])
model = onnx.load(path)
convert_model_to_external_data(model, location="weights.bin", size_threshold=0)
onnx.save(model, path.with_name("external.onnx"))
shell = onnx.load(path.with_name("external.onnx"), load_external_data=False)
assert all(uses_external_data(tensor) for tensor in shell.graph.initializer)
assert shell.graph.initializer[0].data_location == onnx.TensorProto.EXTERNAL
onnx.save_model(onnx.load(path), path, save_as_external_data=False)
