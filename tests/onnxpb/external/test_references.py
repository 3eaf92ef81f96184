"""Encoded references have the same bytes as references that are messages."""

from __future__ import annotations

from typing import Any

import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from formats.ir.model import Graph, Model, StringStringEntry, Tensor
from formats.ir.storage import with_reference
from formats.onnxpb.wire.encoder import encode, referring
from formats.tensordata.sources.source import Literal

PLACES = {"location": "w.data", "offset": "4096", "length": str(1 << 40)}
FIELDS: dict[str, dict[str, Any]] = {
    "usual": {},
    "no name": {"name": None},
    "doc string": {"doc_string": "d"},
    "metadata": {"metadata_props": [StringStringEntry("k", "v")]},
    "unknown fields": {"unknown_fields": b"\x98\x06\x01"},
    "old reference": {"raw_data": None, "data_location": 1, "external_data": [StringStringEntry("location", "old")]},
}


def decoded_like(**fields: Any) -> Tensor:
    """Return a tensor with only the given fields, as a decoder makes it."""
    tensor = object.__new__(Tensor)
    tensor.__dict__ = {"dims": [2, 300], "data_type": 1, "name": "w", "raw_data": Literal(bytes(2400)), **fields}
    return tensor


def encoded(tensor: Tensor | bytes) -> bytes:
    """Return a model with the tensor as initialiser, without data."""
    model = Model(graph=Graph(initializer=[Tensor()]))
    return b"".join(part for part in encode(model, lambda _: tensor) if isinstance(part, bytes))


@pytest.mark.parametrize("fields", FIELDS.values(), ids=FIELDS)
@pytest.mark.parametrize("make", [decoded_like, Tensor])
def test_same_bytes(make: Any, fields: dict[str, Any]) -> None:
    """An encoded tensor has the bytes of the message, with any other fields, and is not changed."""
    tensor = make(**fields)
    before = vars(tensor).copy()
    assert encoded(with_reference(tensor, PLACES)) == encoded(referring(tensor, PLACES))
    assert before == vars(tensor)


@given(st.lists(st.integers(0, 1 << 40), max_size=4), st.text(), st.dictionaries(st.text(), st.text(), max_size=4))
def test_official_parser(dims: list[int], name: str, places: dict[str, str]) -> None:
    """The official parser finds any dims, name and places."""
    data = encoded(referring(decoded_like(dims=dims, name=name), places))
    (tensor,) = onnx.load_model_from_string(data).graph.initializer
    assert (dims, name, 1) == (list(tensor.dims), tensor.name, tensor.data_location)
    assert list(places.items()) == [(entry.key, entry.value) for entry in tensor.external_data]
