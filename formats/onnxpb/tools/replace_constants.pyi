# Written by schemas/generate.py from tools.replace_constants of onnx; do not edit.
# ruff: noqa
# fmt: off

from formats.onnxpb import FunctionProto
from formats.onnxpb import GraphProto
from formats.onnxpb import ModelProto
from typing import Any
def replace_initializer_by_constant_of_shape(onx: FunctionProto | GraphProto | ModelProto, threshold: int=..., ir_version: int | None=..., use_range: bool=..., value_constant_of_shape: float=...) -> Any:
    ...
