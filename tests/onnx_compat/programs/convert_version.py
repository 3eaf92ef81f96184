"""A program over `onnx` that brings a model to another operator set."""

import sys

import formats.onnxpb as onnx
from formats.onnxpb.version_converter import convert_version

model = onnx.load(sys.argv[1])
converted = convert_version(model, 20)
versions: dict[str, int] = {entry.domain: entry.version for entry in converted.opset_import}
assert versions == {"": 20}
assert onnx.defs.onnx_opset_version() >= 20
assert onnx.defs.get_schema("MatMul").since_version <= 20
