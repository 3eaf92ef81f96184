"""Tensors with their data in them, seen without being decoded.

Most weights have dims, a type, a name and raw data, as every program writes them. Such tensors refer to no other file,
and nothing can be wrong in them that their sizes do not show. What is unusual or wrong is left to the decoder.

Spec: onnx.proto, `TensorProto`; Protocol Buffers, "Encoding".
"""

from __future__ import annotations

from formats.errors import WireError
from formats.onnxpb.wire.schema import MESSAGES
from formats.onnxpb.wire.varints import WireType, decode_prefix, decode_varint, make_tag

_NUMBERS = {field.name: field.number for field in MESSAGES["TensorProto"]}
_DIM, _DATA_TYPE = (make_tag(_NUMBERS[name], WireType.VARINT) for name in ("dims", "data_type"))
_NAME, _RAW_DATA = (make_tag(_NUMBERS[name], WireType.LEN) for name in ("name", "raw_data"))


def count_of_plain(data: bytes, position: int, end: int) -> int:
    """The number of tensors in the fields in `data[position:end]`; 0 if one of them is not plain."""
    count = 0
    try:
        while position < end:
            size, after = data[position + 1], position + 2
            if size >= 0x80:
                size, after = decode_prefix(data, position + 1)
            if data[position] >= 0x80 or after + size > end or not _is_plain(data, after, after + size):
                return 0
            position = after + size
            count += 1
    except (IndexError, WireError):
        return 0
    return count


def _is_plain(data: bytes, position: int, end: int) -> bool:
    """Whether the tensor in `data[position:end]` has only such fields, all of them whole."""
    while position < end:
        tag, size = data[position], data[position + 1]
        position += 2
        if tag in (_DIM, _DATA_TYPE):
            if size >= 0x80:
                _, position = decode_varint(data, position - 1)
        elif tag in (_NAME, _RAW_DATA):
            if size >= 0x80:
                size, position = decode_prefix(data, position - 1)
            position += size
        else:
            return False
    return position == end
