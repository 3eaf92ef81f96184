"""Operators of onnxruntime: its domains, and what fused ones may name."""

from __future__ import annotations

from typing import Final

MICROSOFT: Final = "com.microsoft"
BLOCKED: Final = "com.microsoft.nchwc"  # operators on blocks of channels
CHANNELS_LAST: Final = "com.ms.internal.nhwc"  # ONNX's operators, on tensors that have the channels last
# The operators that a fused node may name as its activation, and the attributes for its parameters.
ACTIVATIONS: Final[dict[str, tuple[str, ...]]] = {
    "Relu": (),
    "Sigmoid": (),
    "Tanh": (),
    "LeakyRelu": ("alpha",),
    "HardSigmoid": ("alpha", "beta"),
    "Elu": ("alpha",),
    "Clip": ("min", "max"),
    "HardSwish": (),
}
