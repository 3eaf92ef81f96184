"""Binary ONNX: protobuf files, with their external data; and the names that programs know from `onnx`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec

# The names of each module; those of this package are modules. `python schemas/generate.py` writes the stub from this.
_NAMES = {
    "onnx_compat.io": (
        "load load_encrypted load_encrypted_string load_from_string load_model load_model_from_string load_tensor "
        "load_tensor_from_string save save_encrypted save_encrypted_string save_model save_tensor"
    ),
    "onnx_compat.loading": "ParseOptions",
    "onnx_compat.protos.classes": (
        "EXPERIMENTAL IR_VERSION IR_VERSION_2017_10_10 IR_VERSION_2017_10_30 IR_VERSION_2017_11_3 "
        "IR_VERSION_2019_1_22 IR_VERSION_2019_3_18 IR_VERSION_2019_9_19 IR_VERSION_2020_5_8 IR_VERSION_2021_7_30 "
        "IR_VERSION_2023_5_5 IR_VERSION_2024_3_25 IR_VERSION_2025_05_12 IR_VERSION_2025_08_26 "
        "IR_VERSION_2025_11_06 STABLE AttributeProto DeviceConfigurationProto FunctionProto GraphProto "
        "IntIntListEntryProto MapProto ModelProto NodeDeviceConfigurationProto NodeProto OperatorSetIdProto "
        "OperatorStatus OptionalProto SequenceProto ShardedDimProto ShardingSpecProto SimpleShardedDimProto "
        "SparseTensorProto StringStringEntryProto TensorAnnotation TensorProto TensorShapeProto TrainingInfoProto "
        "TypeProto ValueInfoProto Version unwrap wrap"
    ),
    "onnx_compat.references": "with_weights without_weights",
    "onnx_compat.saving": "SerializeOptions",
    "onnx_compat.installation": "Installation install uninstall",
    "onnxpb": "external_data_helper serialization unknown_fields",
    "onnxpb.external_data_helper": (
        "ExternalDataInfo convert_model_from_external_data convert_model_to_external_data "
        "load_external_data_for_model load_external_data_for_tensor remove_external_data_field save_external_data "
        "set_external_data uses_external_data write_external_data_tensors"
    ),
    "onnxpb.unknown_fields": "UnknownFieldSet",
}
# The names that `onnx` has and that its installed release provides, over our message classes.
_OF_ONNX = (
    "ONNX_ML OperatorProto OperatorSetProto __version__ _custom_element_types _external_data_helper_of_onnx _mapping "
    "backend checker compose defs gen_proto helper hub inliner mapping model_container numpy_helper "
    "onnx_cpp2py_export onnx_data_pb onnx_data_pb2 onnx_ml_pb2 onnx_operators_ml_pb2 onnx_operators_pb onnx_pb parser "
    "printer reference shape_inference subbyte tools utils version version_converter"
)
_MODULES = {name: module for module, names in _NAMES.items() for name in names.split()}
__all__ = [*_MODULES]


def __getattr__(name: str) -> Any:
    """A name of the drop-in API, imported now and stored in the module."""
    if name == "IR_VERSION":
        from formats.onnx_compat.installation import ir_version

        value = ir_version()
    elif name in _MODULES:
        from importlib import import_module

        module = f"formats.{_MODULES[name]}"
        if module == __name__:
            return import_module(f"{module}.{name}")
        value = getattr(import_module(module), name)
    elif name in _OF_ONNX.split():
        from formats.onnx_compat.installation import of_onnx

        value = of_onnx(name)
    else:
        raise AttributeError(f"module 'formats.onnxpb' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """The names of the drop-in API, and those of the module itself."""
    return sorted({*__all__, *globals()})


class _ModulesOfOnnx:
    """A finder for modules of `onnx` as modules of this package."""

    @staticmethod
    def find_spec(fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """How to import a module, or `None`."""
        if not fullname.startswith("formats.onnxpb.") or fullname.split(".")[2] not in _OF_ONNX.split():
            return None
        from formats.onnx_compat.installation import module_spec

        return module_spec(fullname)


# First, because the folders of stubs would be packages without code.
sys.meta_path.insert(0, _ModulesOfOnnx)
