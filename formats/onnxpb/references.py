"""Tensors that refer to their elements, as they are written: encoded already.

For each of many small tensors, four messages that live only until they are encoded would take longer than all the rest.

Spec: onnx.proto, `TensorProto.external_data`.
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import TYPE_CHECKING

from formats.ir.model import EXTERNAL, Tensor
from formats.ir.storage import STORAGE, with_reference
from formats.onnxpb.encoder import encode
from formats.onnxpb.wire import encode_varint
from formats.onnxpb.wire_tables import tables

if TYPE_CHECKING:
    from collections.abc import Mapping

_USUAL = frozenset(("dims", "data_type", "name", *STORAGE))


def referring(tensor: Tensor, places: Mapping[str, str]) -> Tensor:
    """The tensor to encode instead, whose elements are external, at the place in the entries `places`.

    If it has only the usual fields, the result is a tensor with everything in its `unknown_fields`.
    """
    values = vars(tensor)
    name = values.get("name")
    if name is None or not values.keys() <= _USUAL:
        return with_reference(tensor, places)
    name_tag, location = _constants()
    head = _head(tuple(tensor.dims), tensor.data_type)
    entries = [_entry(key, value) for key, value in places.items()]
    new = object.__new__(Tensor)
    new.__dict__["unknown_fields"] = b"".join((head, _delimited(name_tag, name), *entries, location))
    return new


@cache
def _constants() -> tuple[bytes, bytes]:
    """The tag of a tensor's name, and the field that says that its elements are elsewhere."""
    return tables()["TensorProto"].by_name["name"][0], _encoded(Tensor(data_location=EXTERNAL))


@lru_cache(maxsize=256)  # many tensors of a model are of one shape
def _head(dims: tuple[int, ...], data_type: int | None) -> bytes:
    return _encoded(Tensor(dims=list(dims), data_type=data_type))


def _encoded(tensor: Tensor) -> bytes:
    """The fields of a tensor that has no sources."""
    return b"".join(segment for segment in encode(tensor) if isinstance(segment, bytes))


@lru_cache(maxsize=64)  # the references of a model have most entries in common
def _entry(key: str, value: str) -> bytes:
    outer, inner = tables()["TensorProto"].by_name["external_data"][0], tables()["StringStringEntryProto"].by_name
    return outer + _sized(_delimited(inner["key"][0], key) + _delimited(inner["value"][0], value))


def _delimited(tag: bytes, text: str) -> bytes:
    return tag + _sized(text.encode("utf-8", "surrogateescape"))


def _sized(payload: bytes) -> bytes:
    return encode_varint(len(payload)) + payload
