"""The model in memory: ONNX messages as plain data, their element types, and ways to visit and store them.

Here are the names of ONNX's domains, and what each IR version brought. The IR version of an element type is in
`dtypes.py`, the domains of onnxruntime are in `formats/onnxruntime`.

Spec: onnx.proto, `Version`; ONNX docs, IR.md and Versioning.md.
"""

from __future__ import annotations

from typing import Final

# Domains of operators

ONNX: Final = "ai.onnx"
STANDARD_DOMAINS: Final = (None, "", ONNX)  # how nodes and imports write the domain of ONNX's own operators
MACHINE_LEARNING: Final = "ai.onnx.ml"
PREVIEW: Final = "ai.onnx.preview"
TRAINING: Final = "ai.onnx.preview.training"


def domain_key(domain: str | None) -> str:
    """A domain as a key of dictionaries: "" for that of ONNX's own operators, however a model writes it."""
    return "" if domain in STANDARD_DOMAINS else domain or ""


# IR versions

NEWEST_IR_VERSION: Final = 14
# The first IR version with which these hold.
FIRST_WITH_ATTRIBUTE_TYPES: Final = 2  # an attribute must say its type
FIRST_WITH_OPERATOR_SETS: Final = 3  # a model must import the operator sets that it uses
FIRST_WITH_CONSTANTS: Final = 4  # an initializer need not be an input as well
# The first IR version that has a field, by the name of its message and its own.
FIRST_WITH_FIELDS: Final = {
    ("GraphProto", "quantization_annotation"): 5,
    ("GraphProto", "sparse_initializer"): 6,
    ("AttributeProto", "sparse_tensor"): 6,
    ("AttributeProto", "sparse_tensors"): 6,
    ("ModelProto", "training_info"): 7,
    ("ModelProto", "functions"): 8,
    ("TypeProto", "optional_type"): 8,
    ("FunctionProto", "attribute_proto"): 9,
    ("FunctionProto", "overload"): 10,
    ("FunctionProto", "value_info"): 10,
    ("FunctionProto", "metadata_props"): 10,
    ("NodeProto", "overload"): 10,
    ("NodeProto", "metadata_props"): 10,
    ("GraphProto", "metadata_props"): 10,
    ("ValueInfoProto", "metadata_props"): 10,
    ("TensorProto", "metadata_props"): 10,
    ("NodeProto", "device_configurations"): 11,
    ("ModelProto", "configuration"): 11,
}
# The IR version that came with a version of ONNX's operator set; a set between two of these came with the earlier one.
_WITH_OPERATOR_SET: Final = {8: 3, 9: 4, 10: 5, 11: 6, 12: 7, 15: 8, 19: 9, 21: 10, 23: 11, 24: 12, 25: 13}


def ir_version_with(opset: int) -> int:
    """The IR version that came with a version of ONNX's operator set."""
    return max((ir_version for first, ir_version in _WITH_OPERATOR_SET.items() if first <= opset), default=3)
