"""A program over `onnx` that joins two models."""

import sys

import formats.onnxpb as onnx
from formats.onnxpb import ModelProto, compose

first = compose.add_prefix(onnx.load(sys.argv[1]), "first/")
text = f"""
<ir_version: {first.ir_version}, opset_import: ["": 17]>
second (float[batch, 4] y) => (float[batch, 4] z) {{ z = Relu(y) }}
"""
second: ModelProto = onnx.parser.parse_model(text)
merged = compose.merge_models(first, second, io_map=[("first/y", "y")])
operators: list[str] = [node.op_type for node in merged.graph.node]
assert operators == ["MatMul", "Relu"]
assert str(onnx.printer.to_text(merged)).count("Relu") == 1
