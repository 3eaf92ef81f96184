# Written by schemas/generate.py from the table `_NAMES` in codec.py; do not edit.

from formats.codecs.contract import (
    HEAD_BYTES,
    READ_DEFAULTS,
    Bundle,
    Change,
    Checksum,
    Codec,
    DataFileOptions,
    Match,
    ReadOptions,
    Region,
    Runnable,
    Runtime,
)
from formats.ir.dtypes import BY_NAME, BY_NUMBER, DATA_TYPES, DataType
from formats.ir.model import DEFAULT, EXTERNAL
from formats.ir.storage import with_raw_data, with_reference
from formats.ir.walk import external_tensors, graphs, movable_tensors, nodes, tensors
from formats.onnxpb.wire.decoder import decode
from formats.onnxpb.wire.encoder import encode
from formats.tensordata.file import File
from formats.tensordata.plan import (
    SMALL_BYTES,
    Align,
    Digest,
    FilePlan,
    LateWrite,
    Loss,
    PlacedWrite,
    Segment,
    WritePlan,
    lay_out,
)
from formats.tensordata.sources.source import Concat, FileSpan, Literal, Source, Transformed
from formats.tensordata.sources.transform import Transform

__all__ = [
    "BY_NAME",
    "BY_NUMBER",
    "DATA_TYPES",
    "DEFAULT",
    "EXTERNAL",
    "HEAD_BYTES",
    "READ_DEFAULTS",
    "SMALL_BYTES",
    "Align",
    "Bundle",
    "Change",
    "Checksum",
    "Codec",
    "Concat",
    "DataFileOptions",
    "DataType",
    "Digest",
    "File",
    "FilePlan",
    "FileSpan",
    "LateWrite",
    "Literal",
    "Loss",
    "Match",
    "PlacedWrite",
    "ReadOptions",
    "Region",
    "Runnable",
    "Runtime",
    "Segment",
    "Source",
    "Transform",
    "Transformed",
    "WritePlan",
    "decode",
    "encode",
    "external_tensors",
    "graphs",
    "lay_out",
    "movable_tensors",
    "nodes",
    "tensors",
    "with_raw_data",
    "with_reference",
]
