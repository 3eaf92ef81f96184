"""A program over `onnx` that lists weights and sets one."""

import sys

import numpy

import formats.onnxpb as onnx
from formats.onnxpb import TensorProto, numpy_helper

model: onnx.ModelProto = onnx.load(sys.argv[1])
sizes: dict[str, int] = {}
for tensor in model.graph.initializer:
    array = numpy_helper.to_array(tensor)
    sizes[tensor.name] = array.nbytes
    assert TensorProto.DataType.Name(tensor.data_type) == "FLOAT"
    assert onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type) == numpy.float32
largest = max(sizes, key=lambda name: sizes[name])
for tensor in model.graph.initializer:
    if tensor.name == largest:
        tensor.CopyFrom(numpy_helper.from_array(numpy.zeros((3, 4), numpy.float32), tensor.name))
onnx.save_model(model, sys.argv[1])
