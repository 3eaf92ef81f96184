"""Converts and edits machine-learning models of any size: .onnx, .onnxz, .ort and .rten.

    import formats

    formats.convert("model.onnx", "model.onnxz")

    model = formats.load("model.onnx")  # its weights stay in the file
    model.graph.initializer[0].numpy()
    formats.save(model, "copy.onnx")

The functions; `help(formats.convert)` explains one, with its options and an example:

- from file to file: convert, convert_many, edit, extract, merge
- from a file or bytes to a Model, and back: load, loads, save, dumps
- what is in a file, what is wrong, what is different: inspect, verify, diff
- a model with its data files: files, cp, mv, rm, repair
- archives, and weights that models share: link, pack, unpack, share
- run a model: onnxruntime_session
- objects of other packages: to_onnx, from_onnx, to_onnx_ir, from_onnx_ir
- a Model with other floats, or with ONNX's operators: to_dtype, raise_model
- parts of a Model: make_node, make_attribute, make_value_info, from_numpy

`dir(formats)` also has the classes: Model and its parts, such as Graph, Node and Tensor;
options, such as OnnxOptions; reports, such as ConversionReport; and errors. Modules:

- formats.onnxpb: the names of the package onnx, for programs that use it
- formats.codec, formats.options, formats.testing: for a format of your own
"""

from __future__ import annotations

from typing import Any

__version__ = "0.1.0"

# The public names of each module, which is imported when one of them is first used. `python schemas/generate.py` writes
# `__init__.pyi` from this, for type checkers. There is no `__all__`: `help(formats)` would print the help of each name.
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
    return sorted([*_MODULES, "__version__"])
