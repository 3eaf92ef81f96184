"""Binary ONNX: protobuf files, with their external data; and the names that programs know from `onnx`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from formats.onnx_compat.encrypted import (
        load_encrypted,
        load_encrypted_string,
        save_encrypted,
        save_encrypted_string,
    )
    from formats.onnx_compat.io import (
        load,
        load_from_string,
        load_model,
        load_model_from_string,
        load_tensor,
        load_tensor_from_string,
        save,
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
    "unknown_fields",
    "unwrap",
    "uses_external_data",
    "wrap",
    "write_external_data_tensors",
]
_MODULES = (
    "onnx_compat.io",
    "onnx_compat.encrypted",
    "onnxpb.external_data_helper",
    "onnx_compat.loading",
    "onnx_compat.protos.classes",
    "onnx_compat.saving",
    "onnxpb.unknown_fields",
)
_SUBMODULES = ("external_data_helper", "serialization", "unknown_fields")


if not TYPE_CHECKING:  # so that a type checker sees only existing names

    def __getattr__(name: str) -> Any:
        """A name of the drop-in API, imported now and stored in the module."""
        from importlib import import_module

        if name in _SUBMODULES:
            return import_module(f"formats.onnxpb.{name}")
        if name in __all__:
            for module in _MODULES:
                found = vars(import_module(f"formats.{module}"))
                if name in found:
                    return globals().setdefault(name, found[name])
        raise AttributeError(f"module 'formats.onnxpb' has no attribute {name!r}")


def __dir__() -> list[str]:
    """The names of the drop-in API, and those of the module itself."""
    return sorted({*__all__, *globals()})
