"""The ONNX messages as rows: what each field number of each message is.

Generated from schemas/onnx.proto by `python schemas/generate.py`; change that file, not this one.
"""

from __future__ import annotations

from typing import NamedTuple


class Field(NamedTuple):
    """One field of a message.

    `kind` is the scalar type's name in proto2, "enum" or "message"; the last two name theirs in `type_name`,
    a key of `ENUMS` or `MESSAGES`. `label` is "optional", "required" or "repeated". `packed` says that a
    repeated scalar is written as one length-delimited run. `oneof` names the group of which at most one field
    may be set.
    """

    number: int
    name: str
    kind: str
    label: str
    type_name: str = ""
    packed: bool = False
    oneof: str = ""


MESSAGES: dict[str, tuple[Field, ...]] = {
    "AttributeProto": (
        Field(1, "name", "string", "optional"),
        Field(2, "f", "float", "optional"),
        Field(3, "i", "int64", "optional"),
        Field(4, "s", "bytes", "optional"),
        Field(5, "t", "message", "optional", "TensorProto"),
        Field(6, "g", "message", "optional", "GraphProto"),
        Field(7, "floats", "float", "repeated"),
        Field(8, "ints", "int64", "repeated"),
        Field(9, "strings", "bytes", "repeated"),
        Field(10, "tensors", "message", "repeated", "TensorProto"),
        Field(11, "graphs", "message", "repeated", "GraphProto"),
        Field(13, "doc_string", "string", "optional"),
        Field(14, "tp", "message", "optional", "TypeProto"),
        Field(15, "type_protos", "message", "repeated", "TypeProto"),
        Field(20, "type", "enum", "optional", "AttributeProto.AttributeType"),
        Field(21, "ref_attr_name", "string", "optional"),
        Field(22, "sparse_tensor", "message", "optional", "SparseTensorProto"),
        Field(23, "sparse_tensors", "message", "repeated", "SparseTensorProto"),
    ),
    "ValueInfoProto": (
        Field(1, "name", "string", "optional"),
        Field(2, "type", "message", "optional", "TypeProto"),
        Field(3, "doc_string", "string", "optional"),
        Field(4, "metadata_props", "message", "repeated", "StringStringEntryProto"),
    ),
    "NodeProto": (
        Field(1, "input", "string", "repeated"),
        Field(2, "output", "string", "repeated"),
        Field(3, "name", "string", "optional"),
        Field(4, "op_type", "string", "optional"),
        Field(5, "attribute", "message", "repeated", "AttributeProto"),
        Field(6, "doc_string", "string", "optional"),
        Field(7, "domain", "string", "optional"),
        Field(8, "overload", "string", "optional"),
        Field(9, "metadata_props", "message", "repeated", "StringStringEntryProto"),
        Field(10, "device_configurations", "message", "repeated", "NodeDeviceConfigurationProto"),
    ),
    "IntIntListEntryProto": (
        Field(1, "key", "int64", "optional"),
        Field(2, "value", "int64", "repeated"),
    ),
    "NodeDeviceConfigurationProto": (
        Field(1, "configuration_id", "string", "optional"),
        Field(2, "sharding_spec", "message", "repeated", "ShardingSpecProto"),
        Field(3, "pipeline_stage", "int32", "optional"),
    ),
    "ShardingSpecProto": (
        Field(1, "tensor_name", "string", "optional"),
        Field(2, "device", "int64", "repeated"),
        Field(3, "index_to_device_group_map", "message", "repeated", "IntIntListEntryProto"),
        Field(4, "sharded_dim", "message", "repeated", "ShardedDimProto"),
    ),
    "ShardedDimProto": (
        Field(1, "axis", "int64", "optional"),
        Field(2, "simple_sharding", "message", "repeated", "SimpleShardedDimProto"),
    ),
    "SimpleShardedDimProto": (
        Field(1, "dim_value", "int64", "optional", oneof="dim"),
        Field(2, "dim_param", "string", "optional", oneof="dim"),
        Field(3, "num_shards", "int64", "optional"),
    ),
    "TrainingInfoProto": (
        Field(1, "initialization", "message", "optional", "GraphProto"),
        Field(2, "algorithm", "message", "optional", "GraphProto"),
        Field(3, "initialization_binding", "message", "repeated", "StringStringEntryProto"),
        Field(4, "update_binding", "message", "repeated", "StringStringEntryProto"),
    ),
    "ModelProto": (
        Field(1, "ir_version", "int64", "optional"),
        Field(2, "producer_name", "string", "optional"),
        Field(3, "producer_version", "string", "optional"),
        Field(4, "domain", "string", "optional"),
        Field(5, "model_version", "int64", "optional"),
        Field(6, "doc_string", "string", "optional"),
        Field(7, "graph", "message", "optional", "GraphProto"),
        Field(8, "opset_import", "message", "repeated", "OperatorSetIdProto"),
        Field(14, "metadata_props", "message", "repeated", "StringStringEntryProto"),
        Field(20, "training_info", "message", "repeated", "TrainingInfoProto"),
        Field(25, "functions", "message", "repeated", "FunctionProto"),
        Field(26, "configuration", "message", "repeated", "DeviceConfigurationProto"),
    ),
    "DeviceConfigurationProto": (
        Field(1, "name", "string", "optional"),
        Field(2, "num_devices", "int32", "optional"),
        Field(3, "device", "string", "repeated"),
    ),
    "StringStringEntryProto": (
        Field(1, "key", "string", "optional"),
        Field(2, "value", "string", "optional"),
    ),
    "TensorAnnotation": (
        Field(1, "tensor_name", "string", "optional"),
        Field(2, "quant_parameter_tensor_names", "message", "repeated", "StringStringEntryProto"),
    ),
    "GraphProto": (
        Field(1, "node", "message", "repeated", "NodeProto"),
        Field(2, "name", "string", "optional"),
        Field(5, "initializer", "message", "repeated", "TensorProto"),
        Field(10, "doc_string", "string", "optional"),
        Field(11, "input", "message", "repeated", "ValueInfoProto"),
        Field(12, "output", "message", "repeated", "ValueInfoProto"),
        Field(13, "value_info", "message", "repeated", "ValueInfoProto"),
        Field(14, "quantization_annotation", "message", "repeated", "TensorAnnotation"),
        Field(15, "sparse_initializer", "message", "repeated", "SparseTensorProto"),
        Field(16, "metadata_props", "message", "repeated", "StringStringEntryProto"),
    ),
    "TensorProto": (
        Field(1, "dims", "int64", "repeated"),
        Field(2, "data_type", "int32", "optional"),
        Field(3, "segment", "message", "optional", "TensorProto.Segment"),
        Field(4, "float_data", "float", "repeated", packed=True),
        Field(5, "int32_data", "int32", "repeated", packed=True),
        Field(6, "string_data", "bytes", "repeated"),
        Field(7, "int64_data", "int64", "repeated", packed=True),
        Field(8, "name", "string", "optional"),
        Field(9, "raw_data", "bytes", "optional"),
        Field(10, "double_data", "double", "repeated", packed=True),
        Field(11, "uint64_data", "uint64", "repeated", packed=True),
        Field(12, "doc_string", "string", "optional"),
        Field(13, "external_data", "message", "repeated", "StringStringEntryProto"),
        Field(14, "data_location", "enum", "optional", "TensorProto.DataLocation"),
        Field(16, "metadata_props", "message", "repeated", "StringStringEntryProto"),
    ),
    "TensorProto.Segment": (
        Field(1, "begin", "int64", "optional"),
        Field(2, "end", "int64", "optional"),
    ),
    "SparseTensorProto": (
        Field(1, "values", "message", "optional", "TensorProto"),
        Field(2, "indices", "message", "optional", "TensorProto"),
        Field(3, "dims", "int64", "repeated"),
    ),
    "TensorShapeProto": (Field(1, "dim", "message", "repeated", "TensorShapeProto.Dimension"),),
    "TensorShapeProto.Dimension": (
        Field(1, "dim_value", "int64", "optional", oneof="value"),
        Field(2, "dim_param", "string", "optional", oneof="value"),
        Field(3, "denotation", "string", "optional"),
    ),
    "TypeProto": (
        Field(1, "tensor_type", "message", "optional", "TypeProto.Tensor", oneof="value"),
        Field(4, "sequence_type", "message", "optional", "TypeProto.Sequence", oneof="value"),
        Field(5, "map_type", "message", "optional", "TypeProto.Map", oneof="value"),
        Field(6, "denotation", "string", "optional"),
        Field(7, "opaque_type", "message", "optional", "TypeProto.Opaque", oneof="value"),
        Field(8, "sparse_tensor_type", "message", "optional", "TypeProto.SparseTensor", oneof="value"),
        Field(9, "optional_type", "message", "optional", "TypeProto.Optional", oneof="value"),
    ),
    "TypeProto.Tensor": (
        Field(1, "elem_type", "int32", "optional"),
        Field(2, "shape", "message", "optional", "TensorShapeProto"),
    ),
    "TypeProto.Sequence": (Field(1, "elem_type", "message", "optional", "TypeProto"),),
    "TypeProto.Map": (
        Field(1, "key_type", "int32", "optional"),
        Field(2, "value_type", "message", "optional", "TypeProto"),
    ),
    "TypeProto.Optional": (Field(1, "elem_type", "message", "optional", "TypeProto"),),
    "TypeProto.SparseTensor": (
        Field(1, "elem_type", "int32", "optional"),
        Field(2, "shape", "message", "optional", "TensorShapeProto"),
    ),
    "TypeProto.Opaque": (
        Field(1, "domain", "string", "optional"),
        Field(2, "name", "string", "optional"),
    ),
    "OperatorSetIdProto": (
        Field(1, "domain", "string", "optional"),
        Field(2, "version", "int64", "optional"),
    ),
    "FunctionProto": (
        Field(1, "name", "string", "optional"),
        Field(4, "input", "string", "repeated"),
        Field(5, "output", "string", "repeated"),
        Field(6, "attribute", "string", "repeated"),
        Field(7, "node", "message", "repeated", "NodeProto"),
        Field(8, "doc_string", "string", "optional"),
        Field(9, "opset_import", "message", "repeated", "OperatorSetIdProto"),
        Field(10, "domain", "string", "optional"),
        Field(11, "attribute_proto", "message", "repeated", "AttributeProto"),
        Field(12, "value_info", "message", "repeated", "ValueInfoProto"),
        Field(13, "overload", "string", "optional"),
        Field(14, "metadata_props", "message", "repeated", "StringStringEntryProto"),
    ),
    "SequenceProto": (
        Field(1, "name", "string", "optional"),
        Field(2, "elem_type", "int32", "optional"),
        Field(3, "tensor_values", "message", "repeated", "TensorProto"),
        Field(4, "sparse_tensor_values", "message", "repeated", "SparseTensorProto"),
        Field(5, "sequence_values", "message", "repeated", "SequenceProto"),
        Field(6, "map_values", "message", "repeated", "MapProto"),
        Field(7, "optional_values", "message", "repeated", "OptionalProto"),
    ),
    "MapProto": (
        Field(1, "name", "string", "optional"),
        Field(2, "key_type", "int32", "optional"),
        Field(3, "keys", "int64", "repeated"),
        Field(4, "string_keys", "bytes", "repeated"),
        Field(5, "values", "message", "optional", "SequenceProto"),
    ),
    "OptionalProto": (
        Field(1, "name", "string", "optional"),
        Field(2, "elem_type", "int32", "optional"),
        Field(3, "tensor_value", "message", "optional", "TensorProto"),
        Field(4, "sparse_tensor_value", "message", "optional", "SparseTensorProto"),
        Field(5, "sequence_value", "message", "optional", "SequenceProto"),
        Field(6, "map_value", "message", "optional", "MapProto"),
        Field(7, "optional_value", "message", "optional", "OptionalProto"),
    ),
}

ENUMS: dict[str, dict[str, int]] = {
    "Version": {
        "_START_VERSION": 0,
        "IR_VERSION_2017_10_10": 1,
        "IR_VERSION_2017_10_30": 2,
        "IR_VERSION_2017_11_3": 3,
        "IR_VERSION_2019_1_22": 4,
        "IR_VERSION_2019_3_18": 5,
        "IR_VERSION_2019_9_19": 6,
        "IR_VERSION_2020_5_8": 7,
        "IR_VERSION_2021_7_30": 8,
        "IR_VERSION_2023_5_5": 9,
        "IR_VERSION_2024_3_25": 10,
        "IR_VERSION_2025_05_12": 11,
        "IR_VERSION_2025_08_26": 12,
        "IR_VERSION_2025_11_06": 13,
        "IR_VERSION": 14,
    },
    "OperatorStatus": {
        "EXPERIMENTAL": 0,
        "STABLE": 1,
    },
    "AttributeProto.AttributeType": {
        "UNDEFINED": 0,
        "FLOAT": 1,
        "INT": 2,
        "STRING": 3,
        "TENSOR": 4,
        "GRAPH": 5,
        "FLOATS": 6,
        "INTS": 7,
        "STRINGS": 8,
        "TENSORS": 9,
        "GRAPHS": 10,
        "SPARSE_TENSOR": 11,
        "SPARSE_TENSORS": 12,
        "TYPE_PROTO": 13,
        "TYPE_PROTOS": 14,
    },
    "TensorProto.DataType": {
        "UNDEFINED": 0,
        "FLOAT": 1,
        "UINT8": 2,
        "INT8": 3,
        "UINT16": 4,
        "INT16": 5,
        "INT32": 6,
        "INT64": 7,
        "STRING": 8,
        "BOOL": 9,
        "FLOAT16": 10,
        "DOUBLE": 11,
        "UINT32": 12,
        "UINT64": 13,
        "COMPLEX64": 14,
        "COMPLEX128": 15,
        "BFLOAT16": 16,
        "FLOAT8E4M3FN": 17,
        "FLOAT8E4M3FNUZ": 18,
        "FLOAT8E5M2": 19,
        "FLOAT8E5M2FNUZ": 20,
        "UINT4": 21,
        "INT4": 22,
        "FLOAT4E2M1": 23,
        "FLOAT8E8M0": 24,
        "UINT2": 25,
        "INT2": 26,
        "FLOAT6E2M3": 27,
        "FLOAT6E3M2": 28,
    },
    "TensorProto.DataLocation": {
        "DEFAULT": 0,
        "EXTERNAL": 1,
    },
    "SequenceProto.DataType": {
        "UNDEFINED": 0,
        "TENSOR": 1,
        "SPARSE_TENSOR": 2,
        "SEQUENCE": 3,
        "MAP": 4,
        "OPTIONAL": 5,
    },
    "OptionalProto.DataType": {
        "UNDEFINED": 0,
        "TENSOR": 1,
        "SPARSE_TENSOR": 2,
        "SEQUENCE": 3,
        "MAP": 4,
        "OPTIONAL": 5,
    },
}
