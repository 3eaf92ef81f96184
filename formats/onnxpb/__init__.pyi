# Written by schemas/generate.py from the table `_NAMES` in __init__.py; do not edit.

from typing import Any

from formats.onnx_compat.installation import Installation, install, uninstall
from formats.onnx_compat.io import (
    load,
    load_encrypted,
    load_encrypted_string,
    load_from_string,
    load_model,
    load_model_from_string,
    load_tensor,
    load_tensor_from_string,
    save,
    save_encrypted,
    save_encrypted_string,
    save_model,
    save_tensor,
)
from formats.onnx_compat.loading import ParseOptions
from formats.onnx_compat.protos.classes import (
    EXPERIMENTAL,
    IR_VERSION,
    IR_VERSION_2017_10_10,
    IR_VERSION_2017_10_30,
    IR_VERSION_2017_11_3,
    IR_VERSION_2019_1_22,
    IR_VERSION_2019_3_18,
    IR_VERSION_2019_9_19,
    IR_VERSION_2020_5_8,
    IR_VERSION_2021_7_30,
    IR_VERSION_2023_5_5,
    IR_VERSION_2024_3_25,
    IR_VERSION_2025_05_12,
    IR_VERSION_2025_08_26,
    IR_VERSION_2025_11_06,
    STABLE,
    AttributeProto,
    DeviceConfigurationProto,
    FunctionProto,
    GraphProto,
    IntIntListEntryProto,
    MapProto,
    ModelProto,
    NodeDeviceConfigurationProto,
    NodeProto,
    OperatorSetIdProto,
    OperatorStatus,
    OptionalProto,
    SequenceProto,
    ShardedDimProto,
    ShardingSpecProto,
    SimpleShardedDimProto,
    SparseTensorProto,
    StringStringEntryProto,
    TensorAnnotation,
    TensorProto,
    TensorShapeProto,
    TrainingInfoProto,
    TypeProto,
    ValueInfoProto,
    Version,
    unwrap,
    wrap,
)
from formats.onnx_compat.saving import SerializeOptions
from formats.onnxpb import external_data_helper, serialization, unknown_fields
from formats.onnxpb.external_data_helper import (
    ExternalDataInfo,
    convert_model_from_external_data,
    convert_model_to_external_data,
    load_external_data_for_model,
    load_external_data_for_tensor,
    remove_external_data_field,
    save_external_data,
    set_external_data,
    uses_external_data,
    write_external_data_tensors,
)
from formats.onnxpb.unknown_fields import UnknownFieldSet

ONNX_ML: Any
OperatorProto: Any
OperatorSetProto: Any
backend: Any
checker: Any
compose: Any
defs: Any
gen_proto: Any
helper: Any
hub: Any
inliner: Any
mapping: Any
model_container: Any
numpy_helper: Any
onnx_cpp2py_export: Any
onnx_data_pb: Any
onnx_data_pb2: Any
onnx_ml_pb2: Any
onnx_operators_ml_pb2: Any
onnx_operators_pb: Any
onnx_pb: Any
parser: Any
printer: Any
reference: Any
shape_inference: Any
subbyte: Any
tools: Any
utils: Any
version: Any
version_converter: Any

__version__: str

__all__ = [
    "EXPERIMENTAL",
    "IR_VERSION",
    "IR_VERSION_2017_10_10",
    "IR_VERSION_2017_10_30",
    "IR_VERSION_2017_11_3",
    "IR_VERSION_2019_1_22",
    "IR_VERSION_2019_3_18",
    "IR_VERSION_2019_9_19",
    "IR_VERSION_2020_5_8",
    "IR_VERSION_2021_7_30",
    "IR_VERSION_2023_5_5",
    "IR_VERSION_2024_3_25",
    "IR_VERSION_2025_05_12",
    "IR_VERSION_2025_08_26",
    "IR_VERSION_2025_11_06",
    "STABLE",
    "AttributeProto",
    "DeviceConfigurationProto",
    "ExternalDataInfo",
    "FunctionProto",
    "GraphProto",
    "Installation",
    "IntIntListEntryProto",
    "MapProto",
    "ModelProto",
    "NodeDeviceConfigurationProto",
    "NodeProto",
    "OperatorSetIdProto",
    "OperatorStatus",
    "OptionalProto",
    "ParseOptions",
    "SequenceProto",
    "SerializeOptions",
    "ShardedDimProto",
    "ShardingSpecProto",
    "SimpleShardedDimProto",
    "SparseTensorProto",
    "StringStringEntryProto",
    "TensorAnnotation",
    "TensorProto",
    "TensorShapeProto",
    "TrainingInfoProto",
    "TypeProto",
    "UnknownFieldSet",
    "ValueInfoProto",
    "Version",
    "convert_model_from_external_data",
    "convert_model_to_external_data",
    "external_data_helper",
    "install",
    "load",
    "load_encrypted",
    "load_encrypted_string",
    "load_external_data_for_model",
    "load_external_data_for_tensor",
    "load_from_string",
    "load_model",
    "load_model_from_string",
    "load_tensor",
    "load_tensor_from_string",
    "remove_external_data_field",
    "save",
    "save_encrypted",
    "save_encrypted_string",
    "save_external_data",
    "save_model",
    "save_tensor",
    "serialization",
    "set_external_data",
    "uninstall",
    "unknown_fields",
    "unwrap",
    "uses_external_data",
    "wrap",
    "write_external_data_tensors",
]
