# Written by schemas/generate.py from the table `_NAMES` in __init__.py; do not edit.

from formats.batch.job import Job, JobResult
from formats.batch.run import convert_many
from formats.bridges.from_others import from_onnx, from_onnx_ir
from formats.bridges.to_others import onnxruntime_session, to_onnx, to_onnx_ir
from formats.codecs.contract import ReadOptions
from formats.codecs.keys import Key
from formats.editing.model_edits import to_dtype
from formats.editing.nodes import make_attribute, make_node, make_value_info
from formats.editing.patterns import Match
from formats.editing.values import Value
from formats.errors import (
    CryptError,
    DecodeError,
    EditError,
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
from formats.pictures.progress_bar import Progress
from formats.rten.options import RtenOptions
from formats.tensordata.engine import EngineOptions
from formats.tensordata.plan import Loss
from formats.tensordata.sources.source import Source
from formats.verbs.choices import RaisingOptions, ReplacementOptions, RuntimeOptions
from formats.verbs.compare import Comparison, Difference, diff
from formats.verbs.convert import convert, dumps, link, save
from formats.verbs.edit import edit, extract, merge
from formats.verbs.inspect import Inspection, inspect
from formats.verbs.model_files import ModelFiles, files
from formats.verbs.pack import Packed, PackingOptions, Unpacked, pack, unpack
from formats.verbs.relocate import Relocation, cp, mv, rm
from formats.verbs.repair import Repair, repair
from formats.verbs.report import ConversionReport, WrittenFile
from formats.verbs.share import DataFile, ShareOptions, Sharing, share
from formats.verbs.steps.opening import load, loads
from formats.verbs.steps.planning import raise_model
from formats.verbs.verify import Verification, verify
from formats.verbs.verifying.findings import Finding

__version__: str

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
    "EditError",
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
    "Match",
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
    "Packed",
    "PackingOptions",
    "Progress",
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
    "Unpacked",
    "UnsupportedError",
    "Value",
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
    "edit",
    "extract",
    "files",
    "from_numpy",
    "from_onnx",
    "from_onnx_ir",
    "inspect",
    "link",
    "load",
    "loads",
    "make_attribute",
    "make_node",
    "make_value_info",
    "merge",
    "mv",
    "onnxruntime_session",
    "pack",
    "raise_model",
    "repair",
    "rm",
    "save",
    "share",
    "to_dtype",
    "to_onnx",
    "to_onnx_ir",
    "unpack",
    "verify",
]
