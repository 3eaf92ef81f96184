"""A program over `onnx` that defines a function and writes it out."""

import formats.onnxpb as onnx
from formats.onnxpb import FunctionProto, helper, inliner

imports = [helper.make_opsetid("", 17), helper.make_opsetid("example", 1)]
body = [helper.make_node("Add", ["a", "a"], ["sum"]), helper.make_node("Relu", ["sum"], ["b"])]
function: FunctionProto = helper.make_function("example", "DoubleRelu", ["a"], ["b"], body, imports[:1])
value = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [2])
other = onnx.ValueInfoProto(name="y", type=value.type)
graph = helper.make_graph([helper.make_node("DoubleRelu", ["x"], ["y"], domain="example")], "g", [value], [other])
model = helper.make_model(graph, functions=[function], opset_imports=imports, ir_version=8)
inlined = inliner.inline_local_functions(model)
assert [node.op_type for node in inlined.graph.node] == ["Add", "Relu"]
