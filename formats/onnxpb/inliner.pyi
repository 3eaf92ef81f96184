# Written by schemas/generate.py from inliner of onnx; do not edit.
# ruff: noqa
# fmt: off

import formats.onnxpb as onnx
from typing import Any
def inline_local_functions(model: onnx.ModelProto, convert_version: bool=...) -> onnx.ModelProto:
    ...
def inline_selected_functions(model: onnx.ModelProto, function_ids: list[tuple[str, str]], exclude: bool=..., inline_schema_functions: bool=...) -> onnx.ModelProto:
    ...
