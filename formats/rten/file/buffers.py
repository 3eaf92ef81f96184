"""The FlatBuffers of RTen: the rows of `schema.py`, and the limits of RTen's verifier."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from formats.flatbuffer.builder import build as build_buffer
from formats.flatbuffer.fbs import read as read_buffer
from formats.flatbuffer.rows import Schema, Words
from formats.rten.file.schema import ENUMS, TABLES, UNIONS

if TYPE_CHECKING:
    from formats.flatbuffer.fbs import Table
    from formats.tensordata.sources.source import Source

SCHEMA: Final = Schema(
    (TABLES, ENUMS, UNIONS),
    Words(
        "RTen",
        "an operator takes 2 or 3, each result 2, a constant 3",
        "graphs are nested too deeply: RTen reads at most 14 levels",
        "version 1 holds at most",
        "write version 2",
    ),
    alike=UNIONS["OperatorAttrs"],
)


def read(data: bytes | memoryview, root: str = "Model", *, base: int = 0) -> Table:
    """The root table of a buffer, as `fbs.read` reads it."""
    return read_buffer(data, SCHEMA, root, base=base)


def build(table: Table, root: str = "Model") -> list[bytes | Source]:
    """The buffer of a table, as `builder.build` builds it."""
    return build_buffer(table, SCHEMA, root)
