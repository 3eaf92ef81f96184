# Written by schemas/generate.py from tools.update_model_dims of onnx; do not edit.
# ruff: noqa
# fmt: off

from onnx.tools.update_model_dims import (
    update_inputs_outputs_dims as update_inputs_outputs_dims,
)
