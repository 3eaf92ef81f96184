"""Encodes any ONNX message by the rows of its table.

Weights, and undecoded lists, are unchanged segments of the output.

Spec: Protocol Buffers, "Encoding"; onnx.proto.
"""

from __future__ import annotations

import struct
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from formats.collector import collector_paused
from formats.errors import EncodeError, FormatError, OptionError
from formats.ir.model import Tensor
from formats.onnxpb.wire.tables import FIXED_WIDTH, INTEGER, LAST_MESSAGE, TEXT, tables
from formats.onnxpb.wire.varints import encode_varint
from formats.tensordata.sources.source import Literal, Source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from formats.onnxpb.wire.tables import MessageTable
    from formats.tensordata.plan import Segment

JOINED_BYTES = 256  # data this small in memory are copied into the message: cheaper than a segment
MAX_SEGMENTS = 1 << 12  # bytes in more pieces are joined, because each piece takes memory of its own


def encode(
    message: Any, replace: Callable[[Tensor], Tensor | bytes] | None = None, table: MessageTable | None = None
) -> list[Segment]:
    """The bytes of a message, in the order of field numbers, as segments: weights stay sources.

    `replace` is called with every tensor, at any depth, and its result is written instead: a tensor, or the bytes of
    one. Undecoded lists are written as they were read, and `replace` is not called with their tensors. `table` is that
    of the class of the message, if it is not one of the IR.

    Raises: EncodeError if a field has a value that its type cannot express.
    """
    with collector_paused():
        try:
            return _encode(message, table or tables()[type(message).message], replace)
        except RecursionError:
            raise EncodeError("the model is nested too deeply, or contains itself") from None


@contextmanager
def misfits_located(model: Any) -> Iterator[None]:
    """A context in which an error of Python about a value that does not fit its field becomes one with its place."""
    try:
        yield
    except (AttributeError, LookupError, TypeError, ValueError, ArithmeticError, struct.error) as error:
        if not isinstance(error, (FormatError, OptionError)):
            encode(model)  # which checks every value
        raise


def _encode(message: Any, table: MessageTable, replace: Callable[[Tensor], Tensor | bytes] | None) -> list[Any]:
    """The segments of a message: a single one if all of them are bytes, so that there are few."""
    values = message.__dict__
    left = values["undecoded"] if "undecoded" in values else {}  # noqa: SIM401 - no call for each of many messages
    segments: list[Any] = []
    sources = False
    behind = 0  # the index behind the last segment that may be a source
    for name, tag, short, action, repeated, inner in table.layout((*values, *left) if left else tuple(values)):
        if name not in values:
            parts = left[name].segments
            segments += parts
            sources, behind = sources or any(isinstance(part, Source) for part in parts), len(segments)
            continue
        value = values[name]
        if value is None:
            continue
        item = value
        try:
            if isinstance(value, list) is not repeated and (action == TEXT or not isinstance(value, Source)):
                raise TypeError(value)  # noqa: TRY301 - the handler below adds the place
            if action == TEXT:  # most fields
                for item in value if repeated else (value,):
                    payload = item.encode() if item.isascii() else inner(item)
                    size = len(payload)
                    if size < 0x80:
                        segments += (short[size], payload)
                    else:
                        segments += (tag, encode_varint(size), payload)
                continue
            for item in value if repeated and not isinstance(value, Source) else (value,):
                if action == INTEGER:
                    if 0 <= item < 0x80:
                        segments.append(short[item])
                    else:
                        segments += (tag, _encode_integer(item, inner))
                elif action <= LAST_MESSAGE:
                    if not isinstance(item, inner.message_class):
                        raise TypeError(item)  # noqa: TRY301 - as above
                    if replace and isinstance(item, Tensor):
                        new = replace(item)
                        parts = [new] if isinstance(new, bytes) else _encode(new, inner, replace)
                    else:
                        parts = _encode(item, inner, replace)
                    if len(parts) == 1:
                        nbytes = len(parts[0])
                        segments.append(short[nbytes] if nbytes < 0x80 else tag + encode_varint(nbytes))
                        segments.append(parts[0])
                        if len(segments) - behind > MAX_SEGMENTS:  # of very many messages, only the bytes stay
                            segments[behind:] = (b"".join(segments[behind:]),)
                            behind = len(segments)
                    else:
                        segments += (tag, encode_varint(sum(map(_nbytes, parts))), *parts)
                        sources, behind = True, len(segments)
                elif action == FIXED_WIDTH:
                    segments += (tag, inner.pack(item))
                elif isinstance(item, Source) and not (isinstance(item, Literal) and item.nbytes <= JOINED_BYTES):
                    # With what is in front of it in one piece, a tensor has few segments, which all around it count.
                    before = b"".join((*segments[behind:], tag, encode_varint(item.nbytes)))
                    segments[behind:] = (before, item)
                    sources, behind = True, len(segments)
                else:
                    payload = item.data if isinstance(item, Literal) else item
                    if not isinstance(payload, (bytes, bytearray, memoryview)):
                        raise TypeError(item)  # noqa: TRY301 - as above
                    payload = bytes(payload)
                    segments += (tag, encode_varint(len(payload)), payload)
        except EncodeError as error:  # in a message in this one
            step = _step(name, value, item)
            error.where = f"{step}.{error.where}" if error.where else step
            raise
        except (TypeError, ValueError, AttributeError, OverflowError, struct.error) as error:
            raise misfit(name, value, item, repeated) from error
    # Always, so that a single segment is never a source.
    segments.append(values["unknown_fields"] if "unknown_fields" in values else b"")  # noqa: SIM401
    return segments if sources else [b"".join(segments)]


def _step(name: str, value: Any, item: Any) -> str:
    """The step of a dotted place that leads to an item of a field."""
    if item is value:
        return name
    return f"{name}[{next(index for index, each in enumerate(value) if each is item)}]"


def misfit(name: str, value: Any, item: Any, repeated: bool) -> EncodeError:
    """The error for a value that does not fit the type of its field."""
    hint = ""
    if hasattr(item, "__array__") and hasattr(item, "ndim") and item.ndim:
        hint = "; formats.from_numpy(array, name) makes a Tensor of an array"
    elif repeated and item is value:
        hint = "; it must be a list"
    found = f"{item!r:.80}".replace("\n", " ")
    words = f"{found} ({type(item).__name__}) does not fit the type of this field{hint}"
    return EncodeError(words, where=_step(name, value, item))


def _nbytes(segment: bytes | Source) -> int:
    return len(segment) if isinstance(segment, bytes) else segment.nbytes


def _encode_integer(value: int, width: tuple[int, bool]) -> bytes:
    bits, signed = width
    low, high = (-(1 << (bits - 1)), 1 << (bits - 1)) if signed else (0, 1 << bits)
    if not low <= value < high:
        raise ValueError(value)
    return encode_varint(value)
