"""What the reader makes of buffers that it did not build itself, and of those that nobody should have built."""

from __future__ import annotations

import random
import struct
from typing import Any

import flatbuffers
import pytest

from formats.errors import DecodeError, FormatError, LimitError, TruncatedError, WireError
from formats.rten.builder import build
from formats.rten.fbs import Span, Table, read

generated = pytest.importorskip("rten_convert.schema_generated", reason="it makes the hostile buffers")

# A `Dim` with both its fields, by hand.
DIM = struct.pack(
    "<I4H iII I4s",
    *(12, 8, 12, 4, 8),  # 0: the root; 4: the sizes of vtable and table, the places of value and name
    *(8, 3, 4),  # 12: the distance back to the vtable, the value, the offset of the name
    *(2, b"ab\0\0"),  # 24: the name
)

CONSTANT = {"shape": (2,), "data": ("FloatData", {"data": bytes(8)}), "data_offset": 64}
CONV = ("ConvAttrs", {"groups": 1, "strides": (2, 2)})
NODES = [
    {"name": "x", "data": ("ValueNode", {"shape": [{"name": "N"}, {"value": 3}], "dtype": "Float"})},
    {"name": "w", "data": ("ConstantNode", CONSTANT)},
    {"name": "y", "data": ("OperatorNode", {"type": "Conv", "attrs": CONV, "inputs": (0, 1), "outputs": (0,)})},
]
BRANCH = {"nodes": NODES, "captures": (0,)}
IF = {"type": "If", "attrs": ("IfAttrs", {"then_branch": BRANCH, "else_branch": BRANCH}), "inputs": (0,)}
GRAPH = {"nodes": [*NODES, {"data": ("OperatorNode", IF)}], "inputs": (0,), "outputs": (0,)}
MODEL = b"".join(build({"schema_version": 1, "graph": GRAPH, "metadata": {"license": "MIT"}}))  # type: ignore[arg-type]


def patched(buffer: bytes, *changes: tuple[int, str, int]) -> bytes:
    """Return the buffer with other numbers in it: position, format and value of each."""
    changed = bytearray(buffer)
    for position, code, value in changes:
        struct.pack_into(f"<{code}", changed, position, value)
    return bytes(changed)


def test_a_table_by_hand() -> None:
    """The simplest buffer is read, from bytes and from a view, wherever it is in memory."""
    assert read(DIM, "Dim") == {"value": 3, "name": "ab"}
    assert read(memoryview(b"?" + DIM)[1:], "Dim") == {"value": 3, "name": "ab"}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ([(4, "H", 6), (10, "H", 8)], {"value": 3}),  # the vtable ends before the name
        ([(8, "H", 0)], {"value": 0, "name": "ab"}),
        ([(10, "H", 4), (16, "I", 8)], {"value": 8, "name": "ab"}),  # two fields in one place
        ([(12, "i", -16), (28, "H", 4)], None),  # the vtable after the table, in the name
        ([(24, "I", 3)], {"value": 3, "name": "ab\0"}),
        ([(24, "I", 0), (28, "B", 0)], {"value": 3, "name": ""}),
    ],
)
def test_unusual_but_legal(changes: list[tuple[int, str, int]], expected: Table | None) -> None:
    """What the encoding permits is read, also where no builder makes use of it."""
    if expected is None:
        buffer = DIM + struct.pack("<4H", 8, 12, 4, 8)
        assert read(patched(buffer, (12, "i", 12 - len(DIM))), "Dim") == read(DIM, "Dim")
    else:
        assert read(patched(DIM, *changes), "Dim") == expected


@pytest.mark.parametrize(
    ("change", "error", "file_offset", "message"),
    [
        ((0, "I", 32), TruncatedError, 32, "needed 4 bytes for Dim, the buffer has 0"),
        ((0, "I", 0xFFFFFFFC), TruncatedError, 0xFFFFFFFC, "has 0"),
        ((0, "I", 13), WireError, 13, "multiple of 4"),
        ((12, "i", 16), WireError, 0, "cannot be at byte -4"),
        ((12, "i", -(1 << 31)), TruncatedError, 12 + (1 << 31), "a vtable"),
        ((12, "i", -18), TruncatedError, 30, "needed 4 bytes for a vtable, the buffer has 2"),
        ((12, "i", 7), WireError, 5, "cannot be at byte 5"),
        ((4, "H", 2), WireError, 4, "found a vtable of 2 bytes"),
        ((4, "H", 9), WireError, 4, "found a vtable of 9 bytes"),
        ((4, "H", 30), TruncatedError, 4, "needed 30 bytes for a vtable"),
        ((6, "H", 3), WireError, 4, "tables of 3"),
        ((6, "H", 11), WireError, 4, "Dim.name cannot be at byte 8 of tables of 11"),
        ((6, "H", 24), TruncatedError, 12, "needed 24 bytes for Dim, the buffer has 20"),
        ((8, "H", 3), WireError, 4, "Dim.value cannot be at byte 3"),
        ((8, "H", 6), WireError, 4, "Dim.value cannot be at byte 6"),
        ((10, "H", 12), WireError, 4, "Dim.name cannot be at byte 12 of tables of 12"),
        ((4, "H", 10), DecodeError, 4, "slot 2"),
        ((20, "I", 5), WireError, 25, "cannot start there"),
        ((20, "I", 12), TruncatedError, 32, "the size of a vector"),
        ((20, "I", 0xFFFFFFFC), TruncatedError, 20 + 0xFFFFFFFC, "the size of a vector"),
        ((24, "I", 4), TruncatedError, 28, "needed 5 bytes for a string and its NUL, the buffer has 4"),
        ((24, "I", 5), TruncatedError, 28, "needed 5 bytes for the elements of a vector, the buffer has 4"),
        ((24, "I", 0xFFFFFFFF), TruncatedError, 28, "needed 4294967295 bytes"),
        ((30, "B", 65), WireError, 30, "NUL"),
        ((28, "B", 0xFF), DecodeError, 28, "UTF-8"),
    ],
)
def test_broken_tables(change: tuple[int, str, int], error: type[FormatError], file_offset: int, message: str) -> None:
    """One wrong number gives an error that says what is wrong and where in the file."""
    with pytest.raises(error, match=message) as caught:
        read(patched(DIM, change), "Dim", base=1000)
    assert (type(caught.value), 1000 + file_offset) == (error, caught.value.file_offset)
    assert str(caught.value.where).startswith("Dim")


def tag_place(buffer: bytes) -> tuple[int, int]:
    """Return where the tag of the only field of a `Node` is named in the vtable, and where it is in its table."""
    (root,) = struct.unpack_from("<I", buffer)
    entry = root - struct.unpack_from("<i", buffer, root)[0] + 6
    return entry, root + struct.unpack_from("<H", buffer, entry)[0]


NODE = b"".join(build({"data": ("ValueNode", {})}, "Node"))  # type: ignore[arg-type]
""
