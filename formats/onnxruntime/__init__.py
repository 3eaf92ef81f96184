"""Operators of onnxruntime in layouts of its own."""

from __future__ import annotations

from typing import Final

MICROSOFT: Final = "com.microsoft"
BLOCKED: Final = "com.microsoft.nchwc"  # operators on blocks of channels
CHANNELS_LAST: Final = "com.ms.internal.nhwc"  # ONNX's operators, on tensors that have the channels last
