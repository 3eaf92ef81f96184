# Written by schemas/generate.py from printer of onnx; do not edit.
# ruff: noqa
# fmt: off

import formats.onnxpb as onnx
from typing import Any
def to_text(proto: onnx.ModelProto | onnx.FunctionProto | onnx.GraphProto | onnx.NodeProto) -> str:
    ...
