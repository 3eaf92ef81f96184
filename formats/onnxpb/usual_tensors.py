"""Tensors as nearly every program writes them, which are decoded in few steps: a model can have very many.

Such a tensor has dims, each with its tag, a data type, a short name and raw data, in this order, and nothing else. With
100,000 of them, a model loads in half the time.

Spec: onnx.proto, `TensorProto`; Protocol Buffers, "Encoding".
"""

from __future__ import annotations

import re
from functools import cache, lru_cache

from formats.onnxpb.schema import MESSAGES
from formats.onnxpb.wire import WireType, decode_varint, make_tag, signed

INT64 = 64, True  # the width of a dim

_NUMBERS = {field.name: field.number for field in MESSAGES["TensorProto"]}
_DIM, _DATA_TYPE = (make_tag(_NUMBERS[name], WireType.VARINT) for name in ("dims", "data_type"))
_NAME, RAW_DATA = (make_tag(_NUMBERS[name], WireType.LEN) for name in ("name", "raw_data"))


@cache
def usual_tensor(tag: int) -> re.Pattern[bytes]:
    """What matches a field with that tag, in one byte, that can be a usual tensor, up to the length of the name.

    Its groups are the size of the tensor in bytes, as a varint; dims and data type with their tags; that length.
    """
    shape = rb"(?:\x%02x[\x80-\xff]*[\x00-\x7f])*\x%02x[\x00-\x7f]" % (_DIM, _DATA_TYPE)
    return re.compile(rb"\x%02x([\x80-\xff]{0,9}[\x00-\x7f])(%b)\x%02x([\x00-\x7f])" % (tag, shape, _NAME))


@lru_cache(maxsize=1 << 12)  # many tensors of a model have the same
def shape_of(fields: bytes) -> tuple[list[int], int]:
    """The dims and the data type in the fields that `usual_tensor` finds; the list is not for changing.

    Raises: WireError.
    """
    dims, position = [], 0
    while fields[position] == _DIM:
        dim, position = decode_varint(fields, position + 1)
        dims.append(signed(dim, INT64))
    return dims, fields[position + 1]
