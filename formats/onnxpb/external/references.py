"""Tensors with references to their elements in the written form, already encoded.

For each of many small tensors, four temporary messages would take longer than everything else.

Spec: onnx.proto, `TensorProto.external_data`.
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import TYPE_CHECKING

from formats.ir.model import EXTERNAL, Tensor
from formats.ir.storage import STORAGE, with_reference
from formats.onnxpb.wire.encoder import encode
from formats.onnxpb.wire.tables import tables
from formats.onnxpb.wire.varints import encode_varint

if TYPE_CHECKING:
    from collections.abc import Mapping

_USUAL = frozenset(("dims", "data_type", "name", *STORAGE))


def referring(tensor: Tensor, places: Mapping[str, str]) -> Tensor | bytes:
    """What to encode instead of the tensor: its elements are external, at the place in the entries `places`.

    If it has only the usual fields, that is the encoded tensor.
    """
    values = vars(tensor)
    name = values.get("name")
    if name is None or not values.keys() <= _USUAL:
        return with_reference(tensor, places)
    text = name.encode("utf-8", "surrogateescape")
    parts = [_head(tuple(tensor.dims), tensor.data_type), _before_name(len(text)), text]
    for key, value in places.items():
        text = value.encode("utf-8", "surrogateescape")
        parts += (_before_value(key, len(text)), text)
    parts.append(_is_external())
    return b"".join(parts)


@cache
def _is_external() -> bytes:
    """Whether the field says that the elements of a tensor are elsewhere."""
    return _encoded(Tensor(data_location=EXTERNAL))


@lru_cache(maxsize=256)  # many tensors of a model are of one shape
def _head(dims: tuple[int, ...], data_type: int | None) -> bytes:
    return _encoded(Tensor(dims=list(dims), data_type=data_type))


def _encoded(tensor: Tensor) -> bytes:
    """The fields of a tensor that has no sources."""
    return b"".join(segment for segment in encode(tensor) if isinstance(segment, bytes))


@lru_cache(maxsize=256)  # most names and values are short
def _before_name(nbytes: int) -> bytes:
    """The tag and the size of a tensor's name that has this many bytes."""
    return tables()["TensorProto"].by_name["name"][0] + encode_varint(nbytes)


@lru_cache(maxsize=256)
def _before_value(key: str, nbytes: int) -> bytes:
    """The bytes of an entry of external data before its value of this size in bytes."""
    outer, inner = tables()["TensorProto"].by_name["external_data"][0], tables()["StringStringEntryProto"].by_name
    text = key.encode("utf-8", "surrogateescape")
    entry = b"".join((inner["key"][0], encode_varint(len(text)), text, inner["value"][0], encode_varint(nbytes)))
    return outer + encode_varint(len(entry) + nbytes) + entry
