"""The names that codecs of other packages need, in one stable module; docs/codecs.md explains their use.

Every name is imported when it is first used, so that the import of a codec is fast. Models and their parts, and the
errors, are in `formats` itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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

# The modules that define the names.
_MODULES = {
    "formats.codecs.contract": (
        *("HEAD_BYTES", "READ_DEFAULTS", "Bundle", "Change", "Checksum", "Codec", "DataFileOptions", "Match"),
        *("ReadOptions", "Region", "Runnable", "Runtime"),
    ),
    "formats.tensordata.plan": (
        *("SMALL_BYTES", "Align", "Digest", "FilePlan", "LateWrite", "Loss", "PlacedWrite", "Segment", "WritePlan"),
        "lay_out",
    ),
    "formats.tensordata.sources.source": ("Concat", "FileSpan", "Literal", "Source", "Transformed"),
    "formats.tensordata.sources.transform": ("Transform",),
    "formats.tensordata.file": ("File",),
    "formats.ir.dtypes": ("BY_NAME", "BY_NUMBER", "DATA_TYPES", "DataType"),
    "formats.ir.model": ("DEFAULT", "EXTERNAL"),
    "formats.ir.storage": ("with_raw_data", "with_reference"),
    "formats.ir.walk": ("external_tensors", "graphs", "movable_tensors", "nodes", "tensors"),
    "formats.onnxpb.wire.decoder": ("decode",),
    "formats.onnxpb.wire.encoder": ("encode",),
}

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


def __getattr__(name: str) -> Any:
    """The name, imported now and found at once afterwards."""
    for module, names in _MODULES.items():
        if name in names:
            from importlib import import_module

            return globals().setdefault(name, getattr(import_module(module), name))
    raise AttributeError(f"module 'formats.codec' has no attribute {name!r}")


def __dir__() -> list[str]:
    """The names."""
    return sorted(__all__)
