"""A program that uses the library wrongly; each line names the error that a type checker must find there."""

import numpy as np

import formats
from formats import FormatError, Model, Node

formats.laod("model.onnx")  # error: attribute
formats.nothing  # error: attribute
model = formats.load("model.onnx", lenien=True)  # error: call
model = formats.load(3)  # error: argument
model = formats.load("model.onnx", format=b"onnx")  # error: argument
formats.load("model.onnx", max_depth="100")  # error: argument
formats.loads("model.onnx")  # error: argument
formats.save("model.onnx", model)  # error: argument
formats.save(model, "model.rten", overwrit=True)  # error: call
formats.save(model, "model.onnx", alignment=[64])  # error: argument
formats.convert("model.onnx")  # error: call
formats.convert("model.onnx", "model.rten", stric=True)  # error: call
formats.dumps(model)  # error: call
formats.OnnxOptions(size_treshold=3)  # error: call
formats.ReadOptions(max_depth="deep")  # error: argument
formats.EngineOptions(threads=None)  # error: argument

model.grap  # error: attribute
model.producer = "me"  # error: attribute
model.producer_name = 3  # error: assignment
model.graph = []  # error: assignment
model.producer_name.upper()  # error: optional
model.graph.nodes  # error: attribute
model.graph.node[0].op_typ  # error: attribute
model.graph.node.append("Relu")  # error: argument
model.graph.initializer[0].numpy().shap  # error: attribute
Node(optype="Relu")  # error: call
Node(input="x")  # error: argument
Model(graph=[])  # error: argument
formats.ValueInfo(type=formats.TensorType())  # error: argument
formats.from_numpy([1, 2])  # error: argument
model.tensor(3)  # error: argument
for tensor in model.tensors():
    tensor.name  # error: attribute
with formats.load("model.onnx") as opened:
    opened.close(True)  # error: call
comparison = formats.diff("a.onnx", "b.onnx")
comparison.largest.hex()  # error: attribute
formats.diff(model, model)  # error: argument
FormatError("wrong", "model.onnx")  # error: call
formats.load("model.onnx").find("Relu")  # error: argument

# Correct uses are not errors.
report = formats.save(formats.load("model.onnx", max_depth=50), "model.onnxz", overwrite=True, threads=2)
print(report.nbytes, [loss.kind for loss in report.losses])
with formats.load("model.onnx") as opened:
    arrays = {where: tensor.numpy() for where, tensor in opened.tensors()}
    opened.tensor("w").raw_data = formats.from_numpy(np.zeros(3)).raw_data
    opened.producer_name = "me"
    opened.graph = formats.Graph(node=[Node(["x"], ["y"], op_type="Relu")])
    sizes = [dim.dim_value for value in opened.graph.input for dim in value.type.tensor_type.shape.dim]
    if opened.graph is None or opened.graph.input[0].type.tensor_type.shape is None:
        opened.graph = None
    opened.find(lambda op: op.Relu("x"))
    opened.rewrite(lambda op, x, axis=None: op.Softmax(x, axis=axis), lambda op, x: op.Relu(x))
print(formats.diff("a.onnx", "b.onnx").largest_difference + 1.0, formats.__version__.upper())
