# Written by schemas/generate.py from onnx_cpp2py_export of onnx; do not edit.
# ruff: noqa
# fmt: off

from onnx.onnx_cpp2py_export import (
    ONNX_ML as ONNX_ML,
)
