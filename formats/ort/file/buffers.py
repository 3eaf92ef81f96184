"""The FlatBuffer that is an .ort file: the rows of `schema.py`, and the limits of onnxruntime's verifier."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from formats.flatbuffer.builder import build as build_buffer
from formats.flatbuffer.fbs import read as read_buffer
from formats.flatbuffer.rows import Schema, Words
from formats.ort.file.schema import ENUMS, STRUCTS, TABLES, UNIONS

if TYPE_CHECKING:
    from formats.flatbuffer.fbs import Table
    from formats.tensordata.sources.source import Source

ROOT: Final = "InferenceSession"
IDENTIFIER: Final = b"ORTM"
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
    shares_strings=True,
)


def read(data: bytes | memoryview, root: str = ROOT) -> Table:
    """The root table of a buffer, as `fbs.read` reads it."""
    return read_buffer(data, SCHEMA, root)


def build(table: Table, root: str = ROOT) -> list[bytes | Source]:
    """The buffer of a table, as `builder.build` builds it."""
    return build_buffer(table, SCHEMA, root)
