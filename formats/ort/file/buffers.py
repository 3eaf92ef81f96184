"""The FlatBuffer that is an .ort file: the rows of `schema.py`, and the limits of onnxruntime's verifier."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from formats.flatbuffer.builder import build as build_buffer
from formats.flatbuffer.fbs import UOFFSET
from formats.flatbuffer.fbs import read as read_buffer
from formats.flatbuffer.rows import Schema, Words
from formats.ort.file.schema import ENUMS, STRUCTS, TABLES, UNIONS

if TYPE_CHECKING:
    from formats.flatbuffer.fbs import Table
    from formats.tensordata.sources.source import Source

_SOFFSET: Final = struct.Struct("<i")
_VOFFSET: Final = struct.Struct("<H")
ROOT: Final = "InferenceSession"
IDENTIFIER: Final = b"ORTM"
READ_BYTES: Final = 1 << 20  # larger files are mapped: most of them are weights, which nobody reads here
DATA_ALIGNMENT: Final = 64  # of weights, which onnxruntime uses in place; its own files align them to 4 bytes

SCHEMA: Final = Schema(
    (TABLES, ENUMS, UNIONS),
    Words(
        "onnxruntime",
        "a value takes 4 and 2 for each of its dims, a node 2 and 1 for each attribute",
        "graphs are nested too deeply for the .ort format: onnxruntime reads tables up to 64 deep",
        "an .ort file holds at most",
        "write an .onnxz archive, or an .onnx file with `external_data`",
    ),
    structs=STRUCTS,
    identifier=IDENTIFIER,
    data_alignment=DATA_ALIGNMENT,
    shared=("Attribute", "TypeInfo"),
)


def read(data: bytes | memoryview, root: str = ROOT) -> Table:
    """The root table of a buffer, as `fbs.read` reads it."""
    return read_buffer(data, SCHEMA, root)


def build(table: Table, root: str = ROOT) -> list[bytes | Source]:
    """The buffer of a table, as `builder.build` builds it."""
    return build_buffer(table, SCHEMA, root)


def root_place(data: memoryview) -> int:
    """The place of the root table."""
    return _followed(data, 0)


def place_in(data: memoryview, table: int, name: str, field: str) -> int:
    """The place to which a field of a table leads, in a file that was read; 0 if there is no table, or no field."""
    if not table:
        return 0
    (slot,) = (row.slot for row in SCHEMA.tables[name] if row.name == field)
    (back,) = _SOFFSET.unpack_from(data, table)
    entry = table - back + 4 + 2 * slot
    (nbytes,) = _VOFFSET.unpack_from(data, table - back)
    if entry + 2 > table - back + nbytes:
        return 0
    (inside,) = _VOFFSET.unpack_from(data, entry)
    return _followed(data, table + inside) if inside else 0


def _followed(data: memoryview, place: int) -> int:
    """The place to which the offset at a place leads."""
    (distance,) = UOFFSET.unpack_from(data, place)
    return place + int(distance)


def text_at(data: memoryview, place: int) -> str:
    """The string at a place; empty for the place 0."""
    if not place:
        return ""
    (nbytes,) = UOFFSET.unpack_from(data, place)
    return str(data[place + 4 : place + 4 + nbytes], "utf-8")
