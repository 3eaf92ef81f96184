# ruff: noqa: I001
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
from formats.onnx_compat.references import with_weights, without_weights
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
from formats.onnxpb import backend as backend
from formats.onnxpb import checker as checker
from formats.onnxpb import compose as compose
from formats.onnxpb import defs as defs
from formats.onnxpb import helper as helper
from formats.onnxpb import inliner as inliner
from formats.onnxpb import model_container as model_container
from formats.onnxpb import numpy_helper as numpy_helper
from formats.onnxpb import onnx_cpp2py_export as onnx_cpp2py_export
from formats.onnxpb import onnx_data_pb as onnx_data_pb
from formats.onnxpb import onnx_data_pb2 as onnx_data_pb2
from formats.onnxpb import onnx_ml_pb2 as onnx_ml_pb2
from formats.onnxpb import onnx_pb as onnx_pb
from formats.onnxpb import parser as parser
from formats.onnxpb import printer as printer
from formats.onnxpb import reference as reference
from formats.onnxpb import shape_inference as shape_inference
from formats.onnxpb import tools as tools
from formats.onnxpb import utils as utils
from formats.onnxpb import version as version
from formats.onnxpb import version_converter as version_converter

ONNX_ML: Any
OperatorProto: Any
OperatorSetProto: Any
gen_proto: Any
hub: Any
mapping: Any
onnx_operators_ml_pb2: Any
onnx_operators_pb: Any
subbyte: Any

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
    "with_weights",
    "without_weights",
    "wrap",
    "write_external_data_tensors",
]
