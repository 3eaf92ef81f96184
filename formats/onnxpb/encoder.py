"""Encodes any ONNX message by the rows of its table.

Weights, and lists that are still undecoded, are segments of the output as they are.

Spec: Protocol Buffers, "Encoding"; onnx.proto.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from formats.collector import collector_paused
from formats.errors import EncodeError
from formats.ir.model import Tensor
from formats.onnxpb.rows import FIXED_WIDTH, INTEGER, LAST_MESSAGE, LAST_TEXT, tables
from formats.onnxpb.wire import encode_varint
from formats.tensordata.source import Source

if TYPE_CHECKING:
    from collections.abc import Callable

    from formats.onnxpb.rows import Table
    from formats.tensordata.plan import Segment


def encode(message: Any, replace: Callable[[Tensor], Tensor] | None = None) -> list[Segment]:
    """The bytes of a message, in the order of field numbers, as segments: weights stay sources.

    `replace` is asked for every tensor, at any depth, and what it returns is written in its place. What is still
    undecoded is written as it was read, and `replace` is not asked for its tensors.

    Raises: EncodeError where a field holds what its type cannot.
    """
    backwards: list[Segment] = []
    with collector_paused():
        try:
            _encode(message, tables()[type(message).message], backwards, replace)
        except RecursionError:
            raise EncodeError("the model is nested too deep, or contains itself") from None
    backwards.reverse()
    return backwards


def _encode(message: Any, table: Table, out: list[Segment], replace: Callable[[Tensor], Tensor] | None) -> int:
    """Append the encoded fields of `message` to `out`, last one first, and return their size in bytes.

    Backwards, a length is known when it is written, without a pass over the model in front.
    """
    values, order, size = message.__dict__, table.order, len(message.unknown_fields)
    if size:
        out.append(message.unknown_fields)
    names = [name for name in values if name in order]
    names += [name for name in message.undecoded if name not in values]
    for name in sorted(names, key=order.__getitem__):
        if name not in values:
            segments = message.undecoded[name].segments
            out += reversed(segments)
            size += sum(segment.nbytes for segment in segments)
            continue
        value = values[name]
        if value is None:
            continue
        tag, (action, _, _, inner, _) = table.by_name[name]
        try:
            for item in reversed(value) if isinstance(value, list) else (value,):
                if action <= LAST_TEXT:
                    payload: Any = item.encode("utf-8", "surrogateescape")
                    nbytes = len(payload)
                    out.append(payload)
                elif action <= LAST_MESSAGE:
                    if replace and isinstance(item, Tensor):
                        item = replace(item)
                    nbytes = _encode(item, inner, out, replace)
                elif action in (INTEGER, FIXED_WIDTH):
                    payload = tag + (_encode_integer(item, inner) if action == INTEGER else inner.pack(item))
                    out.append(payload)
                    size += len(payload)
                    continue
                else:
                    payload = item if isinstance(item, Source) else bytes(item)
                    nbytes = payload.nbytes if isinstance(payload, Source) else len(payload)
                    out.append(payload)
                prefix = tag + encode_varint(nbytes)
                out.append(prefix)
                size += len(prefix) + nbytes
        except (TypeError, ValueError, AttributeError, OverflowError, struct.error) as error:
            kind = type(message).__name__
            raise EncodeError(f"{name} of a {kind} holds {value!r:.80}, which does not fit its type") from error
    return size


def _encode_integer(value: int, width: tuple[int, bool]) -> bytes:
    bits, signed = width
    low, high = (-(1 << (bits - 1)), 1 << (bits - 1)) if signed else (0, 1 << bits)
    if not low <= value < high:
        raise ValueError(value)
    return encode_varint(value)
