"""A program that uses `formats.onnxpb` wrongly; each line names the error that a type checker must find."""

import formats.onnxpb as onnx
from formats.onnxpb import ModelProto, TensorProto

onnx.laod("model.onnx")  # error: attribute
onnx.CLASSES  # error: attribute
onnx.load(3)  # error: argument
onnx.save(ModelProto())  # error: call
onnx.save(ModelProto(), 3)  # error: argument
onnx.ParseOptions(max_dept=3)  # error: call
onnx.SerializeOptions(alignment="64")  # error: argument
onnx.set_external_data(TensorProto())  # error: call

model = onnx.load("model.onnx")
model.grap  # error: attribute
model.graph = model.graph  # error: assignment
ModelProto().graph.node = []  # error: assignment
model.producer_name = 3  # error: assignment
model.graph.node[0].op_typ  # error: attribute
model.graph.node.append(TensorProto())  # error: argument
model.graph.initializer[0].dims.append("3")  # error: argument
model.HasField("functions")  # error: argument
model.ClearField("grap")  # error: argument
ModelProto(producer="me")  # error: call
ModelProto(ir_version="8")  # error: argument
TensorProto.FLOOT  # error: attribute
TensorProto.DataType.Name("FLOAT")  # error: argument
onnx.unwrap(model).grap  # error: attribute


def late() -> None:
    """A missing name cannot be imported, either."""
    from formats.onnxpb import decode  # error: attribute

    decode(b"")


# Correct uses are not errors.
model.producer_name = "me"
model.graph.node.add(op_type="Relu").input.append("x")
model.graph.initializer.append(TensorProto(name="w", dims=[3], data_type=TensorProto.FLOAT, raw_data=bytes(12)))
print(TensorProto.DataType.Name(model.graph.initializer[0].data_type), model.HasField("graph"), len(model.functions))
onnx.save(model, "model.onnx", save_as_external_data=True, location="w", convert_attribute=True)
onnx.convert_model_to_external_data(model, size_threshold=0)
print([field.field_number for field in onnx.UnknownFieldSet(model)], onnx.unwrap(model).graph)
