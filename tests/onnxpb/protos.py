"""Random messages of the `onnx` package, built from the rows that also drive our codecs."""

from __future__ import annotations

from typing import Any

import onnx
from hypothesis import strategies as st

from formats.ir.model import MESSAGE_CLASSES
from formats.onnxpb.wire.decoder import decode
from formats.onnxpb.wire.encoder import encode
from formats.onnxpb.wire.schema import ENUMS, MESSAGES, MessageField
from formats.tensordata.sources.source import Literal, Source

CLASSES = {cls.message: cls for cls in MESSAGE_CLASSES}

SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "int32": st.integers(-(1 << 31), (1 << 31) - 1),
    "int64": st.integers(-(1 << 63), (1 << 63) - 1),
    "uint64": st.integers(0, (1 << 64) - 1),
    "float": st.floats(width=32),
    "double": st.floats(),
    "string": st.text(max_size=5),
    "bytes": st.binary(max_size=20),
}


def message_type(name: str) -> Any:
    """Return the class of the `onnx` package for a message."""
    found: Any = onnx
    for step in name.split("."):
        found = getattr(found, step)
    return found


@st.composite
def protos(draw: st.DrawFn, *, allow_nan: bool = True) -> tuple[str, Any]:
    """Draw the name of a message, and a message with random fields, which may contain NaN."""
    name = draw(st.sampled_from(sorted(MESSAGES)))
    message = message_type(name)()
    _fill(draw, message, name, 3, allow_nan)
    return name, message


def _fill(draw: st.DrawFn, message: Any, name: str, depth: int, allow_nan: bool) -> None:
    oneofs: set[str] = set()
    for row in MESSAGES[name]:
        if (row.kind == "message" and depth == 0) or row.oneof in oneofs or not draw(st.booleans()):
            continue
        if row.oneof:
            oneofs.add(row.oneof)
        for _ in range(draw(st.integers(1, 3)) if row.label == "repeated" else 1):
            _set(draw, message, row, depth, allow_nan)


def _set(draw: st.DrawFn, message: Any, row: MessageField, depth: int, allow_nan: bool) -> None:
    """Set or append one value."""
    target = getattr(message, row.name)
    if row.kind == "message":
        inner = target.add() if row.label == "repeated" else target
        inner.SetInParent()
        _fill(draw, inner, row.type_name, depth - 1, allow_nan)
        return
    known = SCALARS.get(row.kind)
    value = draw(st.sampled_from(sorted(ENUMS[row.type_name].values())) if known is None else known)
    if value != value and not allow_nan:
        value = 0.0
    if row.label == "repeated":
        target.append(value)
    else:
        setattr(message, row.name, value)


def decoded(proto: Any) -> Any:
    """Return our message for one of the `onnx` package."""
    return decode(Literal(proto.SerializeToString()), CLASSES[proto.DESCRIPTOR.full_name.removeprefix("onnx.")])


def encoded(message: Any) -> bytes:
    """Return the bytes of our message, with its sources read."""
    return b"".join(part.read() if isinstance(part, Source) else bytes(part) for part in encode(message))


class Watched(Source):
    """Bytes in memory that are treated like a file, and count how many of them are read."""

    __slots__ = ("data", "nbytes", "nbytes_read")

    def __init__(self, data: bytes) -> None:
        self.data, self.nbytes, self.nbytes_read = data, len(data), 0

    def readinto(self, offset: int, buffer: memoryview) -> None:
        """Copy the range, and record its length."""
        self._check_range(offset, len(buffer))
        self.nbytes_read += len(buffer)
        buffer[:] = self.data[offset : offset + len(buffer)]

    def slice(self, offset: int, nbytes: int) -> Source:
        """Return a literal: only reads by the decoder count."""
        self._check_range(offset, nbytes)
        return Literal(self.data[offset : offset + nbytes])

    def view(self) -> memoryview:
        """Return the bytes."""
        return memoryview(self.data)
