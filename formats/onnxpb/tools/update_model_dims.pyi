# Written by schemas/generate.py from tools.update_model_dims of onnx; do not edit.
# ruff: noqa
# fmt: off

from typing import Any
from formats.onnxpb import ModelProto
def update_inputs_outputs_dims(model: ModelProto, input_dims: dict[str, list[Any]], output_dims: dict[str, list[Any]]) -> ModelProto:
    ...
