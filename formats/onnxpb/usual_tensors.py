"""Decodes tensors as nearly every program writes them, of which a model can have very many.

Such a tensor has dims, each with its tag, a data type, a short name and raw data, in this order, and nothing else. With
100,000 of them, a model loads in two thirds of the time.

Spec: onnx.proto, `TensorProto`; Protocol Buffers, "Encoding".
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from formats.errors import FormatError
from formats.onnxpb.schema import MESSAGES
from formats.onnxpb.wire import WireType, decode_varint, make_tag, signed

if TYPE_CHECKING:
    from typing import Any

MAX_SHAPES = 1 << 12
INT64 = 64, True  # the width of a dim

_NUMBERS = {field.name: field.number for field in MESSAGES["TensorProto"]}
_DIM, _DATA_TYPE = (make_tag(_NUMBERS[name], WireType.VARINT) for name in ("dims", "data_type"))
_NAME, _RAW_DATA = (make_tag(_NUMBERS[name], WireType.LEN) for name in ("name", "raw_data"))
_SHAPE_AND_NAME_LENGTH = re.compile(
    rb"((?:\x%02x[\x80-\xff]*[\x00-\x7f])*\x%02x[\x00-\x7f])\x%02x([\x00-\x7f])" % (_DIM, _DATA_TYPE, _NAME)
)


class UsualTensors:
    """The usual tensors of a model; dims and data type are decoded once for all tensors that have the same."""

    def __init__(self) -> None:
        self._shapes: dict[bytes, tuple[list[int], int]] = {}  # by the bytes of the fields

    def decode(self, values: dict[str, Any], data: bytes, position: int, end: int) -> int:
        """Where the raw data begin of the tensor in `data[position:end]`, which end with it; 0 if it is not usual.

        Its other fields are in `values` then. If anything is wrong, it is not usual either, and `values` are unchanged.
        """
        found = _SHAPE_AND_NAME_LENGTH.match(data, position, end)
        if not found:
            return 0
        fields, name_length = found.groups()
        begin = found.end()
        stop = begin + name_length[0]
        try:
            dims, data_type = self._shapes.get(fields) or self._shape(fields)
            name = data[begin:stop].decode()
            nbytes, begin = decode_varint(data, stop + 1)
            if data[stop] != _RAW_DATA or begin + nbytes != end:
                return 0
        except (IndexError, FormatError, UnicodeDecodeError):
            return 0
        if dims:
            values["dims"] = dims[:]
        values["data_type"] = data_type
        values["name"] = name
        return begin

    def _shape(self, fields: bytes) -> tuple[list[int], int]:
        """The dims and the data type in these fields.

        Raises: WireError.
        """
        dims, position = [], 0
        while fields[position] == _DIM:
            dim, position = decode_varint(fields, position + 1)
            dims.append(signed(dim, INT64))
        shape = dims, fields[position + 1]
        if len(self._shapes) < MAX_SHAPES:
            self._shapes[fields] = shape
        return shape
