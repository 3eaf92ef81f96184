"""A program over `onnx` that makes, checks and saves a model."""

import sys

import numpy

import formats.onnxpb as onnx
from formats.onnxpb.helper import make_graph, make_model, make_node, make_opsetid, make_tensor_value_info

weights = onnx.numpy_helper.from_array(numpy.ones((3, 4), numpy.float32), name="weights")
node = make_node("MatMul", ["x", "weights"], ["y"], name="product")
x = make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["batch", 3])
y = make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["batch", 4])
model = make_model(make_graph([node], "linear", [x], [y], [weights]), opset_imports=[make_opsetid("", 17)])
model.producer_name = "program"
onnx.helper.set_model_props(model, {"author": "nobody"})
onnx.checker.check_model(model, full_check=True)
onnx.save(model, sys.argv[1])
names: list[str] = [value.name for value in model.graph.input]
assert names == ["x"]
