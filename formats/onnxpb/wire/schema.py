"""The ONNX messages as rows: what each field number of each message is.

Generated from schemas/onnx.proto by `python schemas/generate.py`; change that file, not this one.
"""

from __future__ import annotations

from typing import NamedTuple


class MessageField(NamedTuple):
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


MESSAGES: dict[str, tuple[MessageField, ...]] = {
    "AttributeProto": (
        MessageField(1, "name", "string", "optional"),
        MessageField(2, "f", "float", "optional"),
        MessageField(3, "i", "int64", "optional"),
        MessageField(4, "s", "bytes", "optional"),
        MessageField(5, "t", "message", "optional", "TensorProto"),
        MessageField(6, "g", "message", "optional", "GraphProto"),
        MessageField(7, "floats", "float", "repeated"),
        MessageField(8, "ints", "int64", "repeated"),
        MessageField(9, "strings", "bytes", "repeated"),
        MessageField(10, "tensors", "message", "repeated", "TensorProto"),
        MessageField(11, "graphs", "message", "repeated", "GraphProto"),
        MessageField(13, "doc_string", "string", "optional"),
        MessageField(14, "tp", "message", "optional", "TypeProto"),
        MessageField(15, "type_protos", "message", "repeated", "TypeProto"),
        MessageField(20, "type", "enum", "optional", "AttributeProto.AttributeType"),
        MessageField(21, "ref_attr_name", "string", "optional"),
        MessageField(22, "sparse_tensor", "message", "optional", "SparseTensorProto"),
        MessageField(23, "sparse_tensors", "message", "repeated", "SparseTensorProto"),
    ),
    "ValueInfoProto": (
        MessageField(1, "name", "string", "optional"),
        MessageField(2, "type", "message", "optional", "TypeProto"),
        MessageField(3, "doc_string", "string", "optional"),
        MessageField(4, "metadata_props", "message", "repeated", "StringStringEntryProto"),
    ),
    "NodeProto": (
        MessageField(1, "input", "string", "repeated"),
        MessageField(2, "output", "string", "repeated"),
        MessageField(3, "name", "string", "optional"),
        MessageField(4, "op_type", "string", "optional"),
        MessageField(5, "attribute", "message", "repeated", "AttributeProto"),
        MessageField(6, "doc_string", "string", "optional"),
        MessageField(7, "domain", "string", "optional"),
        MessageField(8, "overload", "string", "optional"),
        MessageField(9, "metadata_props", "message", "repeated", "StringStringEntryProto"),
        MessageField(10, "device_configurations", "message", "repeated", "NodeDeviceConfigurationProto"),
    ),
    "IntIntListEntryProto": (
        MessageField(1, "key", "int64", "optional"),
        MessageField(2, "value", "int64", "repeated"),
    ),
    "NodeDeviceConfigurationProto": (
        MessageField(1, "configuration_id", "string", "optional"),
        MessageField(2, "sharding_spec", "message", "repeated", "ShardingSpecProto"),
        MessageField(3, "pipeline_stage", "int32", "optional"),
    ),
    "ShardingSpecProto": (
        MessageField(1, "tensor_name", "string", "optional"),
        MessageField(2, "device", "int64", "repeated"),
        MessageField(3, "index_to_device_group_map", "message", "repeated", "IntIntListEntryProto"),
        MessageField(4, "sharded_dim", "message", "repeated", "ShardedDimProto"),
    ),
    "ShardedDimProto": (
        MessageField(1, "axis", "int64", "optional"),
        MessageField(2, "simple_sharding", "message", "repeated", "SimpleShardedDimProto"),
    ),
    "SimpleShardedDimProto": (
        MessageField(1, "dim_value", "int64", "optional", oneof="dim"),
        MessageField(2, "dim_param", "string", "optional", oneof="dim"),
        MessageField(3, "num_shards", "int64", "optional"),
    ),
    "TrainingInfoProto": (
        MessageField(1, "initialization", "message", "optional", "GraphProto"),
        MessageField(2, "algorithm", "message", "optional", "GraphProto"),
        MessageField(3, "initialization_binding", "message", "repeated", "StringStringEntryProto"),
        MessageField(4, "update_binding", "message", "repeated", "StringStringEntryProto"),
    ),
    "ModelProto": (
        MessageField(1, "ir_version", "int64", "optional"),
        MessageField(2, "producer_name", "string", "optional"),
        MessageField(3, "producer_version", "string", "optional"),
        MessageField(4, "domain", "string", "optional"),
        MessageField(5, "model_version", "int64", "optional"),
        MessageField(6, "doc_string", "string", "optional"),
        MessageField(7, "graph", "message", "optional", "GraphProto"),
        MessageField(8, "opset_import", "message", "repeated", "OperatorSetIdProto"),
        MessageField(14, "metadata_props", "message", "repeated", "StringStringEntryProto"),
        MessageField(20, "training_info", "message", "repeated", "TrainingInfoProto"),
        MessageField(25, "functions", "message", "repeated", "FunctionProto"),
        MessageField(26, "configuration", "message", "repeated", "DeviceConfigurationProto"),
    ),
    "DeviceConfigurationProto": (
        MessageField(1, "name", "string", "optional"),
        MessageField(2, "num_devices", "int32", "optional"),
        MessageField(3, "device", "string", "repeated"),
    ),
    "StringStringEntryProto": (
        MessageField(1, "key", "string", "optional"),
        MessageField(2, "value", "string", "optional"),
    ),
    "TensorAnnotation": (
        MessageField(1, "tensor_name", "string", "optional"),
        MessageField(2, "quant_parameter_tensor_names", "message", "repeated", "StringStringEntryProto"),
    ),
    "GraphProto": (
        MessageField(1, "node", "message", "repeated", "NodeProto"),
        MessageField(2, "name", "string", "optional"),
        MessageField(5, "initializer", "message", "repeated", "TensorProto"),
        MessageField(10, "doc_string", "string", "optional"),
        MessageField(11, "input", "message", "repeated", "ValueInfoProto"),
        MessageField(12, "output", "message", "repeated", "ValueInfoProto"),
        MessageField(13, "value_info", "message", "repeated", "ValueInfoProto"),
        MessageField(14, "quantization_annotation", "message", "repeated", "TensorAnnotation"),
        MessageField(15, "sparse_initializer", "message", "repeated", "SparseTensorProto"),
        MessageField(16, "metadata_props", "message", "repeated", "StringStringEntryProto"),
    ),
    "TensorProto": (
        MessageField(1, "dims", "int64", "repeated"),
        MessageField(2, "data_type", "int32", "optional"),
        MessageField(3, "segment", "message", "optional", "TensorProto.Segment"),
        MessageField(4, "float_data", "float", "repeated", packed=True),
        MessageField(5, "int32_data", "int32", "repeated", packed=True),
        MessageField(6, "string_data", "bytes", "repeated"),
        MessageField(7, "int64_data", "int64", "repeated", packed=True),
        MessageField(8, "name", "string", "optional"),
        MessageField(9, "raw_data", "bytes", "optional"),
        MessageField(10, "double_data", "double", "repeated", packed=True),
        MessageField(11, "uint64_data", "uint64", "repeated", packed=True),
        MessageField(12, "doc_string", "string", "optional"),
        MessageField(13, "external_data", "message", "repeated", "StringStringEntryProto"),
        MessageField(14, "data_location", "enum", "optional", "TensorProto.DataLocation"),
        MessageField(16, "metadata_props", "message", "repeated", "StringStringEntryProto"),
    ),
    "TensorProto.Segment": (
        MessageField(1, "begin", "int64", "optional"),
        MessageField(2, "end", "int64", "optional"),
    ),
    "SparseTensorProto": (
        MessageField(1, "values", "message", "optional", "TensorProto"),
        MessageField(2, "indices", "message", "optional", "TensorProto"),
        MessageField(3, "dims", "int64", "repeated"),
    ),
    "TensorShapeProto": (MessageField(1, "dim", "message", "repeated", "TensorShapeProto.Dimension"),),
    "TensorShapeProto.Dimension": (
        MessageField(1, "dim_value", "int64", "optional", oneof="value"),
        MessageField(2, "dim_param", "string", "optional", oneof="value"),
        MessageField(3, "denotation", "string", "optional"),
    ),
    "TypeProto": (
        MessageField(1, "tensor_type", "message", "optional", "TypeProto.Tensor", oneof="value"),
        MessageField(4, "sequence_type", "message", "optional", "TypeProto.Sequence", oneof="value"),
        MessageField(5, "map_type", "message", "optional", "TypeProto.Map", oneof="value"),
        MessageField(6, "denotation", "string", "optional"),
        MessageField(7, "opaque_type", "message", "optional", "TypeProto.Opaque", oneof="value"),
        MessageField(8, "sparse_tensor_type", "message", "optional", "TypeProto.SparseTensor", oneof="value"),
        MessageField(9, "optional_type", "message", "optional", "TypeProto.Optional", oneof="value"),
    ),
    "TypeProto.Tensor": (
        MessageField(1, "elem_type", "int32", "optional"),
        MessageField(2, "shape", "message", "optional", "TensorShapeProto"),
    ),
    "TypeProto.Sequence": (MessageField(1, "elem_type", "message", "optional", "TypeProto"),),
    "TypeProto.Map": (
        MessageField(1, "key_type", "int32", "optional"),
        MessageField(2, "value_type", "message", "optional", "TypeProto"),
    ),
    "TypeProto.Optional": (MessageField(1, "elem_type", "message", "optional", "TypeProto"),),
    "TypeProto.SparseTensor": (
        MessageField(1, "elem_type", "int32", "optional"),
        MessageField(2, "shape", "message", "optional", "TensorShapeProto"),
    ),
    "TypeProto.Opaque": (
        MessageField(1, "domain", "string", "optional"),
        MessageField(2, "name", "string", "optional"),
    ),
    "OperatorSetIdProto": (
        MessageField(1, "domain", "string", "optional"),
        MessageField(2, "version", "int64", "optional"),
    ),
    "FunctionProto": (
        MessageField(1, "name", "string", "optional"),
        MessageField(4, "input", "string", "repeated"),
        MessageField(5, "output", "string", "repeated"),
        MessageField(6, "attribute", "string", "repeated"),
        MessageField(7, "node", "message", "repeated", "NodeProto"),
        MessageField(8, "doc_string", "string", "optional"),
        MessageField(9, "opset_import", "message", "repeated", "OperatorSetIdProto"),
        MessageField(10, "domain", "string", "optional"),
        MessageField(11, "attribute_proto", "message", "repeated", "AttributeProto"),
        MessageField(12, "value_info", "message", "repeated", "ValueInfoProto"),
        MessageField(13, "overload", "string", "optional"),
        MessageField(14, "metadata_props", "message", "repeated", "StringStringEntryProto"),
    ),
    "SequenceProto": (
        MessageField(1, "name", "string", "optional"),
        MessageField(2, "elem_type", "int32", "optional"),
        MessageField(3, "tensor_values", "message", "repeated", "TensorProto"),
        MessageField(4, "sparse_tensor_values", "message", "repeated", "SparseTensorProto"),
        MessageField(5, "sequence_values", "message", "repeated", "SequenceProto"),
        MessageField(6, "map_values", "message", "repeated", "MapProto"),
        MessageField(7, "optional_values", "message", "repeated", "OptionalProto"),
    ),
    "MapProto": (
        MessageField(1, "name", "string", "optional"),
        MessageField(2, "key_type", "int32", "optional"),
        MessageField(3, "keys", "int64", "repeated"),
        MessageField(4, "string_keys", "bytes", "repeated"),
        MessageField(5, "values", "message", "optional", "SequenceProto"),
    ),
    "OptionalProto": (
        MessageField(1, "name", "string", "optional"),
        MessageField(2, "elem_type", "int32", "optional"),
        MessageField(3, "tensor_value", "message", "optional", "TensorProto"),
        MessageField(4, "sparse_tensor_value", "message", "optional", "SparseTensorProto"),
        MessageField(5, "sequence_value", "message", "optional", "SequenceProto"),
        MessageField(6, "map_value", "message", "optional", "MapProto"),
        MessageField(7, "optional_value", "message", "optional", "OptionalProto"),
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
