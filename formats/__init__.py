"""Converts machine-learning models between ONNX protobuf, the aligned `.onnxz` archive and RTen.

    import formats

    formats.convert("model.onnx", "model.rten")

    model = formats.load("model.onnx")  # a model of plain dataclasses; its weights stay in the file
    model.graph.initializer[0].numpy()
    formats.save(model, "model.onnxz")

Every name in `__all__` is an attribute of this package, imported when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from formats.batch.job import Job, JobResult
    from formats.batch.run import convert_many
    from formats.bridges.from_others import from_onnx, from_onnx_ir
    from formats.bridges.to_others import onnxruntime_session, to_onnx, to_onnx_ir
    from formats.codecs.contract import ReadOptions
    from formats.codecs.keys import Key
    from formats.errors import (
        CryptError,
        DecodeError,
        EncodeError,
        ExternalDataError,
        FormatError,
        LimitError,
        MissingPackageError,
        OptionError,
        RemoteError,
        TensorDataError,
        TruncatedError,
        UnknownFormatError,
        UnsupportedError,
        WireError,
    )
    from formats.ir.dtypes import DATA_TYPES, DataType
    from formats.ir.model import (
        Attribute,
        DeviceConfiguration,
        Dimension,
        Function,
        Graph,
        IntIntListEntry,
        MapType,
        Model,
        Node,
        NodeDeviceConfiguration,
        OpaqueType,
        OperatorSetId,
        OptionalType,
        SequenceType,
        ShardedDim,
        ShardingSpec,
        SimpleShardedDim,
        SparseTensor,
        SparseTensorType,
        StringStringEntry,
        Tensor,
        TensorAnnotation,
        TensorSegment,
        TensorShape,
        TensorType,
        TrainingInfo,
        Type,
        ValueInfo,
    )
    from formats.ir.storage import from_numpy
    from formats.onnxpb.options import CryptOptions, OnnxOptions, TextOptions
    from formats.onnxzip.options import ArchiveOptions
    from formats.rten.options import RtenOptions
    from formats.tensordata.engine import EngineOptions
    from formats.tensordata.plan import Loss
    from formats.tensordata.sources.source import Source
    from formats.verbs.choices import RaisingOptions, ReplacementOptions, RuntimeOptions
    from formats.verbs.compare import Comparison, Difference, diff
    from formats.verbs.convert import convert, dumps, save
    from formats.verbs.inspect import Inspection, inspect
    from formats.verbs.link import link
    from formats.verbs.model_files import ModelFiles, files
    from formats.verbs.opening import load, loads
    from formats.verbs.planning import raise_model
    from formats.verbs.relocate import Relocation, cp, mv, rm
    from formats.verbs.repair import Repair, repair
    from formats.verbs.report import ConversionReport, WrittenFile
    from formats.verbs.share import DataFile, ShareOptions, Sharing, share
    from formats.verbs.verify import Finding, Verification, verify

# The names of each module; codecs have functions with equal names, so each name is listed with its module.
_NAMES = {
    "bridges.from_others": "from_onnx from_onnx_ir",
    "batch.run": "convert_many",
    "bridges.to_others": "onnxruntime_session to_onnx to_onnx_ir",
    "verbs.choices": "RaisingOptions ReplacementOptions RuntimeOptions",
    "verbs.model_files": "ModelFiles files",
    "verbs.convert": "convert dumps save",
    "verbs.opening": "load loads",
    "verbs.planning": "raise_model",
    "verbs.compare": "Comparison Difference diff",
    "errors": (
        "CryptError DecodeError EncodeError ExternalDataError FormatError LimitError MissingPackageError OptionError "
        "RemoteError TensorDataError TruncatedError UnknownFormatError UnsupportedError WireError"
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
    "verbs.link": "link",
    "onnxpb.options": "CryptOptions OnnxOptions TextOptions",
    "codecs.keys": "Key",
    "onnxzip.options": "ArchiveOptions",
    "codecs.contract": "ReadOptions",
    "verbs.relocate": "Relocation cp mv rm",
    "verbs.report": "ConversionReport WrittenFile",
    "verbs.repair": "Repair repair",
    "rten.options": "RtenOptions",
    "verbs.share": "DataFile ShareOptions Sharing share",
    "tensordata.engine": "EngineOptions",
    "tensordata.plan": "Loss",
    "tensordata.sources.source": "Source",
    "verbs.verify": "Finding Verification verify",
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = [
    "DATA_TYPES",
    "ArchiveOptions",
    "Attribute",
    "Comparison",
    "ConversionReport",
    "CryptError",
    "CryptOptions",
    "DataFile",
    "DataType",
    "DecodeError",
    "DeviceConfiguration",
    "Difference",
    "Dimension",
    "EncodeError",
    "EngineOptions",
    "ExternalDataError",
    "Finding",
    "FormatError",
    "Function",
    "Graph",
    "Inspection",
    "IntIntListEntry",
    "Job",
    "JobResult",
    "Key",
    "LimitError",
    "Loss",
    "MapType",
    "MissingPackageError",
    "Model",
    "ModelFiles",
    "Node",
    "NodeDeviceConfiguration",
    "OnnxOptions",
    "OpaqueType",
    "OperatorSetId",
    "OptionError",
    "OptionalType",
    "RaisingOptions",
    "ReadOptions",
    "Relocation",
    "RemoteError",
    "Repair",
    "ReplacementOptions",
    "RtenOptions",
    "RuntimeOptions",
    "SequenceType",
    "ShardedDim",
    "ShardingSpec",
    "ShareOptions",
    "Sharing",
    "SimpleShardedDim",
    "Source",
    "SparseTensor",
    "SparseTensorType",
    "StringStringEntry",
    "Tensor",
    "TensorAnnotation",
    "TensorDataError",
    "TensorSegment",
    "TensorShape",
    "TensorType",
    "TextOptions",
    "TrainingInfo",
    "TruncatedError",
    "Type",
    "UnknownFormatError",
    "UnsupportedError",
    "ValueInfo",
    "Verification",
    "WireError",
    "WrittenFile",
    "__version__",
    "convert",
    "convert_many",
    "cp",
    "diff",
    "dumps",
    "files",
    "from_numpy",
    "from_onnx",
    "from_onnx_ir",
    "inspect",
    "link",
    "load",
    "loads",
    "mv",
    "onnxruntime_session",
    "raise_model",
    "repair",
    "rm",
    "save",
    "share",
    "to_onnx",
    "to_onnx_ir",
    "verify",
]


if not TYPE_CHECKING:  # a type checker must see only the names that exist

    def __getattr__(name: str) -> Any:
        """The public name, imported now and found at once afterwards."""
        if name in _MODULES:
            from importlib import import_module

            found = getattr(import_module(f"formats.{_MODULES[name]}"), name)
            if hasattr(found, "__code__"):
                import_module("formats.signatures").with_options(found)
            return globals().setdefault(name, found)
        raise AttributeError(f"module 'formats' has no attribute {name!r}")


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)
