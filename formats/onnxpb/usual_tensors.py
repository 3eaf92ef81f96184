"""Tensors as nearly every program writes them, decoded in few steps: a model can have very many.

Such a tensor has dims, each with its tag, a data type, a short name, and then raw data or a reference to external data,
in this order, and nothing else. With 100,000 of them, a model loads in two thirds of the time.

Spec: onnx.proto, `TensorProto`; Protocol Buffers, "Encoding".
"""

from __future__ import annotations

import re
from functools import cache, lru_cache

from formats.ir.model import EXTERNAL, StringStringEntry, set_fields
from formats.onnxpb.schema import MESSAGES
from formats.onnxpb.wire import INT64, WireType, decode_varint, make_tag, signed

_NUMBERS = {field.name: field.number for field in MESSAGES["TensorProto"]}
_DIM, _DATA_TYPE = (make_tag(_NUMBERS[name], WireType.VARINT) for name in ("dims", "data_type"))
_NAME, RAW_DATA, _EXTERNAL_DATA = (
    make_tag(_NUMBERS[name], WireType.LEN) for name in ("name", "raw_data", "external_data")
)
_KEY, _VALUE = (make_tag(field.number, WireType.LEN) for field in MESSAGES["StringStringEntryProto"][:2])
_IS_EXTERNAL = bytes((make_tag(_NUMBERS["data_location"], WireType.VARINT), EXTERNAL))
_new = object.__new__


@cache
def usual_tensor(tag: int) -> re.Pattern[bytes]:
    """A pattern for a field with this tag, in one byte, that can be a usual tensor, up to the length of the name.

    Its groups are the size of the tensor in bytes, as a varint; dims and data type with their tags; that length.
    """
    shape = rb"(?:\x%02x[\x80-\xff]*[\x00-\x7f])*\x%02x[\x00-\x7f]" % (_DIM, _DATA_TYPE)
    return re.compile(rb"\x%02x([\x80-\xff]{0,9}[\x00-\x7f])(%b)\x%02x([\x00-\x7f])" % (tag, shape, _NAME))


@lru_cache(maxsize=1 << 12)  # many tensors of a model have equal ones
def shape_of(fields: bytes) -> tuple[list[int], int]:
    """The dims and the data type in the fields that `usual_tensor` finds; callers must not change the list.

    Raises: WireError.
    """
    dims, position = [], 0
    while fields[position] == _DIM:
        dim, position = decode_varint(fields, position + 1)
        dims.append(signed(dim, INT64))
    return dims, fields[position + 1]


def reference_in(data: bytes, position: int, end: int) -> list[StringStringEntry] | None:
    """The entries of external data in `data[position:end]`, where a tensor ends; `None` if they are unusual.

    Usual entries have a key, then a value, and less than 128 bytes.

    Raises: IndexError or UnicodeDecodeError, also for unusual entries.
    """
    entries = []
    while data[position] == _EXTERNAL_DATA:
        begin = position + 2
        middle = begin + 2 + data[begin + 1]
        position = begin + data[position + 1]
        if position - begin >= 0x80 or data[begin] != _KEY or data[middle] != _VALUE:
            return None
        if middle + 2 + data[middle + 1] != position:
            return None
        entry = _new(StringStringEntry)
        set_fields(entry, {"key": data[begin + 2 : middle].decode(), "value": data[middle + 2 : position].decode()})
        entries.append(entry)
    return entries if data[position:end] == _IS_EXTERNAL else None
