"""What the bytes of a .rten file say of the file: its version, its sections, and the hash of its source file.

A version 2 file is a header of 32 bytes, a model section (one FlatBuffer) and a tensor section, in any order and with
any gaps. A version 1 file is the FlatBuffer alone. All numbers are little-endian.

Spec: RTen, rten-model-file: the header and its loader, schema.fbs `Metadata.onnx_hash`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from formats.codecs.contract import Checksum, Region
from formats.errors import DecodeError, LimitError, TruncatedError
from formats.ir.model import Model
from formats.rten.options import HASH_KEY
from formats.tensordata.sources.source import Source

MAGIC = b"RTEN"
VERSION = 2
HEADER_NBYTES = 32
SCHEMA_VERSION = 1  # the value of `Model.schema_version`, in files of either version

_HEADER = struct.Struct("<4sIQQQ")


class Header(NamedTuple):
    """Where the two sections are, in bytes from the start of the file; the end of the tensor section is not stored."""

    model_offset: int
    model_nbytes: int
    tensor_data_offset: int
    version: int = VERSION


def encode_header(header: Header) -> bytes:
    """The 32 bytes of a header."""
    return _HEADER.pack(MAGIC, header.version, header.model_offset, header.model_nbytes, header.tensor_data_offset)


def decode_header(data: bytes | memoryview, file_nbytes: int) -> Header:
    """Decode the header at the start of `data`, and check that both sections are inside a file of this size.

    The tensor section may start at the end of the file; then it is empty.

    Raises: TruncatedError, DecodeError for another magic number or version, LimitError for an offset outside the file.
    """
    if len(data) < HEADER_NBYTES:
        raise TruncatedError(f"needed {HEADER_NBYTES} bytes for the header, found {len(data)}", file_offset=0)
    magic, version, model_offset, model_nbytes, tensor_data_offset = _HEADER.unpack_from(data)
    if magic != MAGIC:
        raise DecodeError(f"the file begins with {magic!r}, expected {MAGIC!r}", file_offset=0)
    if version != VERSION:
        raise DecodeError(f"cannot read version {version} of the format, only {VERSION}", file_offset=4)
    if not HEADER_NBYTES <= model_offset <= file_nbytes:
        raise LimitError(f"the model starts at byte {model_offset} of a file of {file_nbytes}", file_offset=8)
    if model_nbytes > file_nbytes - model_offset:
        available = file_nbytes - model_offset
        raise LimitError(
            f"the model needs {model_nbytes} bytes, but the file has only {available} there", file_offset=16
        )
    if not HEADER_NBYTES <= tensor_data_offset <= file_nbytes:
        raise LimitError(
            f"the tensor data starts at byte {tensor_data_offset} of a file of {file_nbytes}", file_offset=24
        )
    return Header(model_offset, model_nbytes, tensor_data_offset, version)


def is_v2(head: bytes) -> bool:
    """Whether a file with these first bytes claims to have a header."""
    return head[: len(MAGIC)] == MAGIC


def is_plausible_v1(head: bytes, file_nbytes: int) -> bool:
    """Whether the first bytes (4 KiB are enough) can be those of a version 1 file of this size.

    A FlatBuffer has no magic number, so this function follows the root offset to the `Model` table and its vtable,
    which must be in `head`, and checks the schema version and that there is a graph. Writers build from the end, so the
    root comes first.

    Spec: FlatBuffers, "FlatBuffer Internals".
    """
    try:
        (root,) = struct.unpack_from("<I", head)
        (to_vtable,) = struct.unpack_from("<i", head, root)
        vtable = root - to_vtable
        if root % 4 or vtable < 4:
            return False
        vtable_nbytes, table_nbytes, version, graph = struct.unpack_from("<4H", head, vtable)
        schema_version = int.from_bytes(head[root + version : root + version + 4], "little")
        to_graph = int.from_bytes(head[root + graph : root + graph + 4], "little")
    except struct.error:
        return False
    vtable_is_sound = vtable_nbytes >= 8 and vtable_nbytes % 2 == 0
    table_is_sound = min(version, graph) >= 4 and max(version, graph) + 4 <= table_nbytes <= file_nbytes - root
    graph_is_inside = 0 < to_graph <= file_nbytes - root - graph - 4
    return vtable_is_sound and table_is_sound and graph_is_inside and schema_version == SCHEMA_VERSION


def regions_of(source: Source) -> Iterator[Region]:
    """The header and the model of the file in `source`; a version 1 file has no header."""
    head = source.read(0, min(HEADER_NBYTES, source.nbytes))
    if not is_v2(head):
        yield Region(0, source.nbytes, "model", "model")
        return
    header = decode_header(head, source.nbytes)
    yield Region(0, HEADER_NBYTES, "header", "header")
    yield Region(header.model_offset, header.model_nbytes, "model", "model")


def checksums_of(model: Model, original: Source | None) -> Iterator[Checksum]:
    """The SHA-256 of the file `original` that the model was converted from, if both are known."""
    if original is not None:
        for entry in model.metadata_props:
            if entry.key == HASH_KEY:
                yield Checksum("metadata.onnx_hash", "sha256", (entry.value or "").lower(), original)
