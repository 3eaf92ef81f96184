# Written by schemas/generate.py from version_converter of onnx; do not edit.
# ruff: noqa
# fmt: off

from formats.onnxpb import ModelProto
from typing import Any
class ConvertError(Exception): ...
def convert_version(model: ModelProto, target_version: int) -> ModelProto:
    ...
