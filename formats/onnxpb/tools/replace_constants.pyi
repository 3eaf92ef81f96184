# Written by schemas/generate.py from tools.replace_constants of onnx; do not edit.
# ruff: noqa
# fmt: off

from onnx.tools.replace_constants import (
    replace_initializer_by_constant_of_shape as replace_initializer_by_constant_of_shape,
)
