"""Buffers of RTen's tables, and tables of forms as plain tables, value by value."""

from __future__ import annotations

from typing import Any

from formats.flatbuffer import builder, fbs
from formats.flatbuffer.builder import NAME, FormTable, FormTables, Gap
from formats.flatbuffer.fbs import Table
from formats.rten.model import SCHEMA
from formats.tensordata.sources.source import Source

TABLES, ENUMS, UNIONS = SCHEMA.tables, SCHEMA.enums, SCHEMA.unions


def build(table: Table, root: str = "Model") -> list[bytes | Source]:
    """Return the segments of the buffer of one of RTen's tables."""
    return builder.build_buffer(table, SCHEMA, root)


def read(data: bytes | memoryview, root: str = "Model", base: int = 0) -> Table:
    """Return one of RTen's tables."""
    return fbs.read(data, SCHEMA, root, base=base)


def expanded(value: Any, around: FormTable | None = None) -> Any:
    """Return a table, or a part of the table `around`, with plain tables instead of forms and their values."""
    if isinstance(value, FormTable):
        return expanded(value.form.table, value)
    if isinstance(value, Gap) and around is not None:
        return around.name if value == NAME else around.values[value.number]
    if isinstance(value, dict):
        table = {name: expanded(inner, around) for name, inner in value.items()}
        for name in ("data", "data_offset"):  # single values, not vectors
            if isinstance(value.get(name), Gap):
                (table[name],) = table[name]
        return table
    if isinstance(value, (list, FormTables)):
        return [expanded(inner, around) for inner in value]
    if isinstance(value, tuple) and value and isinstance(value[0], str):
        return value[0], expanded(value[1], around)
    return value
