"""A plugin of pytest: `onnx` gets our message classes, and also our functions that read and write files."""

from __future__ import annotations

from importlib import import_module

import swapped_onnx

from formats import onnxpb

FUNCTIONS = (
    *("load", "load_model", "load_model_from_string", "load_from_string", "load_tensor", "load_tensor_from_string"),
    *("save", "save_model", "save_tensor"),
)

assert swapped_onnx
onnx = import_module("onnx")
for name in FUNCTIONS:
    assert hasattr(onnx, name)
    setattr(onnx, name, getattr(onnxpb, name))
