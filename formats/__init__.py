"""Converts machine-learning models between ONNX protobuf, the aligned `.onnxz` archive and RTen.

    import formats

    formats.convert("model.onnx", "model.rten")

    model = formats.load("model.onnx")  # a model of plain dataclasses; its weights stay in the file
    model.graph.initializer[0].numpy()
    formats.save(model, "model.onnxz")

Every name in `__all__` is an attribute of this package, imported when it is first used. `_NAMES` is the one list.
"""

from __future__ import annotations

from typing import Any

__version__ = "0.1.0"

# The public names of each module. `python schemas/generate.py` writes `__init__.pyi` from this, for type checkers.
_NAMES = {
    "bridges.from_others": "from_onnx from_onnx_ir",
    "batch.run": "convert_many",
    "bridges.to_others": "onnxruntime_session to_onnx to_onnx_ir",
    "verbs.choices": "RaisingOptions ReplacementOptions RuntimeOptions",
    "verbs.model_files": "ModelFiles files",
    "verbs.convert": "convert dumps link save",
    "verbs.steps.opening": "load loads",
    "verbs.steps.planning": "raise_model",
    "editing.model_edits": "to_dtype",
    "editing.patterns": "Match",
    "editing.nodes": "make_attribute make_node make_value_info",
    "editing.values": "Value",
    "verbs.edit": "edit extract merge",
    "verbs.compare": "Comparison Difference diff",
    "errors": (
        "CryptError DecodeError EditError EncodeError ExternalDataError FormatError LimitError MissingPackageError "
        "OptionError RemoteError TensorDataError TruncatedError UnknownFormatError UnsupportedError WireError"
    ),
    "verbs.inspect": "Inspection inspect",
    "ir.dtypes": "DATA_TYPES DataType",
    "ir.model": (
        "Attribute DeviceConfiguration Dimension Function Graph IntIntListEntry MapType Model Node "
        "NodeDeviceConfiguration OpaqueType OperatorSetId OptionalType SequenceType ShardedDim ShardingSpec "
        "SimpleShardedDim SparseTensor SparseTensorType StringStringEntry Tensor TensorAnnotation TensorSegment "
        "TensorShape TensorType TrainingInfo Type ValueInfo"
    ),
    "ir.storage": "from_numpy",
    "batch.job": "Job JobResult",
    "verbs.pack": "Packed PackingOptions Unpacked pack unpack",
    "onnxpb.options": "CryptOptions OnnxOptions TextOptions",
    "codecs.keys": "Key",
    "onnxzip.options": "ArchiveOptions",
    "codecs.contract": "ReadOptions",
    "verbs.relocate": "Relocation cp mv rm",
    "verbs.report": "ConversionReport WrittenFile",
    "verbs.repair": "Repair repair",
    "pictures.progress_bar": "Progress",
    "rten.options": "RtenOptions",
    "verbs.share": "DataFile ShareOptions Sharing share",
    "tensordata.engine": "EngineOptions",
    "tensordata.plan": "Loss",
    "tensordata.sources.source": "Source",
    "verbs.verify": "Verification verify",
    "verbs.verifying.findings": "Finding",
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names.split()}
__all__ = [*_MODULES, "__version__"]


def __getattr__(name: str) -> Any:
    """The public name, imported now and found at once afterwards."""
    if name in _MODULES:
        from importlib import import_module

        public = getattr(import_module(f"formats.{_MODULES[name]}"), name)
        if hasattr(public, "__code__"):
            import_module("formats.signatures").with_options(public)
        return globals().setdefault(name, public)
    raise AttributeError(f"module 'formats' has no attribute {name!r}")


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)
