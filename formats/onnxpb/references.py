"""Tensors that refer to their elements, as they are written: with references that are encoded already.

Spec: onnx.proto, `TensorProto.external_data`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from formats.ir.model import StringStringEntry
from formats.ir.storage import with_undecoded_reference
from formats.onnxpb.rows import tables
from formats.onnxpb.wire import encode_varint

if TYPE_CHECKING:
    from collections.abc import Mapping

    from formats.ir.model import Tensor


class Reference:
    """External data entries that are made only where somebody reads them.

    For each of many small tensors, three messages would take longer than all the rest.
    """

    __slots__ = ("_places",)
    largest_nbytes = 0
    has_references = False

    def __init__(self, places: Mapping[str, str]) -> None:
        self._places = places

    @property
    def segments(self) -> list[bytes]:
        """The entries, encoded."""
        return [_entry(key, value) for key, value in self._places.items()]

    def decode(self) -> list[StringStringEntry]:
        """The entries."""
        return [StringStringEntry(key, value) for key, value in self._places.items()]


def referring(tensor: Tensor, places: Mapping[str, str]) -> Tensor:
    """A copy of the tensor whose elements are external, where the entries `places` say."""
    return with_undecoded_reference(tensor, Reference(places))


@lru_cache(maxsize=64)  # places of one model have most entries in common
def _entry(key: str, value: str) -> bytes:
    (outer, _), by_name = tables()["TensorProto"].by_name["external_data"], tables()["StringStringEntryProto"].by_name
    fields = [_delimited(by_name[name][0], text.encode()) for name, text in (("key", key), ("value", value))]
    return _delimited(outer, b"".join(fields))


def _delimited(tag: bytes, payload: bytes) -> bytes:
    return tag + encode_varint(len(payload)) + payload
