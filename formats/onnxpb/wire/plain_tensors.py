"""Tensors in the forms that nearly all weights have: dims, element type, name, and raw data or a reference to a file.

Two looks at the bytes of such a tensor take a third of the time of decoding field by field. Every other tensor is left
to the decoder, which also knows what is wrong with it. The fields of tensors of one form share their keys.

Spec: onnx.proto, `TensorProto`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

from formats.errors import FormatError, WireError
from formats.ir.alike import shared_keys
from formats.ir.dtypes import BY_NUMBER
from formats.ir.model import EXTERNAL
from formats.onnxpb.wire.schema import MESSAGES
from formats.onnxpb.wire.varints import INT64, WireType, decode_prefix, decode_varint, make_tag, signed

MAX_HEAD_BYTES = 1 << 6
_NUMBERS = {field.name: field.number for field in MESSAGES["TensorProto"]}
_DIM, _TYPE, _LOCATION = (make_tag(_NUMBERS[name], WireType.VARINT) for name in ("dims", "data_type", "data_location"))
NAME, RAW_DATA, EXTERNAL_DATA = (
    make_tag(_NUMBERS[name], WireType.LEN) for name in ("name", "raw_data", "external_data")
)
_IS_EXTERNAL = bytes((_LOCATION, EXTERNAL))
# The fields of scalars, and of tensors with dims.
_NAMES = (("data_type", "name"), ("dims", "data_type", "name"))
_OF_RAW = [shared_keys((*names, "raw_data")) for names in _NAMES]
_OF_EXTERNAL = [shared_keys((*names, "undecoded", "data_location"), ("external_source",)) for names in _NAMES]


class TensorHead(NamedTuple):
    """The fields before the name of a tensor, and the size of its elements in bytes."""

    dims: list[int]
    data_type: int
    nbytes: int


@lru_cache(maxsize=1 << 10)  # many tensors of a model are of one shape
def head_of(data: bytes) -> TensorHead | None:
    """The head with these bytes; `None` if they are anything but dims and an element type with a size."""
    dims: list[int] = []
    data_type = position = 0
    try:
        while position < len(data) and data[position] == _DIM:
            dim, position = decode_varint(data, position + 1)
            dims.append(signed(dim, INT64))
        if position < len(data) and data[position] == _TYPE:
            data_type, position = data[position + 1], position + 2
    except (IndexError, FormatError):
        return None
    row = BY_NUMBER.get(data_type)
    if position != len(data) or row is None or not row.bits or min(dims, default=0) < 0:
        return None
    return TensorHead(dims, data_type, row.nbytes(dims))


def plain_tensor(data: bytes, begin: int, end: int) -> tuple[dict[str, Any], int, int, bool] | None:
    """The fields of the tensor in `data[begin:end]` but the last, the place of that, and whether it is external data.

    The place is the position and the size of raw data, or of the entries of external data. `None` if the tensor has any
    other form.
    """
    name_at = data.find(NAME, begin, min(end, begin + MAX_HEAD_BYTES))
    head = head_of(data[begin:name_at]) if name_at > 0 else None  # no whole fields if a dim has this byte, too
    if head is None:
        return None
    try:
        position = name_at + 2 + data[name_at + 1]
        is_external = data[position] == EXTERNAL_DATA
        if data[name_at + 1] >= 0x80 or not (is_external or data[position] == RAW_DATA):
            return None
        name = data[name_at + 2 : position].decode()
        if is_external:
            nbytes = end - len(_IS_EXTERNAL) - position
            if nbytes <= 0 or data[position + nbytes : end] != _IS_EXTERNAL:
                return None
            fields = fields_of(head, name, is_external=True)
            fields["data_location"] = EXTERNAL
            return fields, position, nbytes, True
        nbytes, position = decode_prefix(data, position + 1)
    except (IndexError, FormatError, UnicodeDecodeError):
        return None
    if position + nbytes != end:
        return None
    if nbytes == head.nbytes:
        nbytes = head.nbytes  # one object for all tensors of this shape
    return fields_of(head, name), position, nbytes, False


def fields_of(head: TensorHead, name: str, is_external: bool = False) -> dict[str, Any]:
    """The fields of a tensor with this head and name, to which the caller adds its raw data or its external data."""
    fields = (_OF_EXTERNAL if is_external else _OF_RAW)[bool(head.dims)].copy()
    if head.dims:
        fields["dims"] = head.dims.copy()
    fields["data_type"], fields["name"] = head.data_type, name
    return fields


def count_of_plain(data: bytes, position: int, end: int) -> int:
    """The number of tensors in the fields in `data[position:end]`; 0 if one of them is not plain.

    Plain ones have only dims, a type, a name and raw data, as most weights do. They refer to no other file, and nothing
    can be wrong in them that their sizes do not show. What is unusual or wrong is left to the decoder.
    """
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
        if tag in (_DIM, _TYPE):
            if size >= 0x80:
                _, position = decode_varint(data, position - 1)
        elif tag in (NAME, RAW_DATA):
            if size >= 0x80:
                size, position = decode_prefix(data, position - 1)
            position += size
        else:
            return False
    return position == end
