"""Operators of onnxruntime: its domains, and what fused ones may name."""

from __future__ import annotations

from typing import Final

MICROSOFT: Final = "com.microsoft"
BLOCKED: Final = "com.microsoft.nchwc"  # operators on blocks of channels
CHANNELS_LAST: Final = "com.ms.internal.nhwc"  # ONNX's operators, on tensors that have the channels last
# Operators that onnxruntime has in ONNX's own domain, in each version of the operator set: language models are full of
# them. From the first version in which ONNX has one, it means the same there.
BEFORE_ONNX: Final = ("LayerNormalization", "SimplifiedLayerNormalization")
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
