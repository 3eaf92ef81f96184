"""Tensors that are recognised by their bytes: whatever differs is decoded field by field, with the same result."""

from __future__ import annotations

from typing import Any

import onnx
import pytest

from formats.errors import FormatError
from formats.ir.model import Graph, StringStringEntry, Tensor
from formats.onnxpb.wire import decoder
from formats.onnxpb.wire.decoder import decode
from formats.onnxpb.wire.encoder import encode
from formats.onnxpb.wire.plain_tensors import count_of_plain, head_of, plain_tensor
from formats.tensordata.sources.source import Literal, Source


def encoded(message: Any) -> bytes:
    """Return a message in bytes."""
    return b"".join(part.read() if isinstance(part, Source) else part for part in encode(message))


def plain(name: str = "w", nbytes: int = 600, **fields: Any) -> Tensor:
    """Return a tensor in the usual form."""
    return Tensor(**{"dims": [2, nbytes // 2], "data_type": 2, "name": name, "raw_data": bytes_of(nbytes), **fields})


def external(**fields: Any) -> Tensor:
    """Return a tensor with external data in the usual form."""
    places = [StringStringEntry("location", "w.bin"), StringStringEntry("length", "600")]
    return plain(**{"raw_data": None, "external_data": places, "data_location": 1, **fields})


def bytes_of(nbytes: int) -> Literal:
    """Return as many bytes, none of which is like the one before it."""
    return Literal(bytes(index * 7 % 251 for index in range(nbytes)))


def decoded(data: bytes, max_depth: int = 100) -> Any:
    """Return the fields of all tensors in the graph with these bytes, or its error."""
    try:
        graph = decode(Literal(data), Graph, max_depth, at_once=True)
    except FormatError as error:
        return str(error), error.file_offset, error.where
    return [vars(tensor) for tensor in graph.initializer], graph


def of_fields(data: bytes, monkeypatch: pytest.MonkeyPatch, max_depth: int = 100) -> Any:
    """Return the same without the short way."""
    with monkeypatch.context() as patch:
        patch.setattr(decoder, "plain_tensor", lambda *_: None)
        return decoded(data, max_depth)


def test_plain_tensor_is_recognised() -> None:
    """A tensor with dims, type, name and raw data is recognised; the dims belong to it alone."""
    data = encoded(plain())
    found = plain_tensor(b"??" + data + b"?", 2, len(data) + 2)
    fields = {"data_type": 2, "name": "w", "raw_data": None}
    assert found == ({"dims": [2, 300], **fields}, len(data) - 598, 600, False)
    again = plain_tensor(data, 0, len(data))
    assert again is not None
    assert again[0]["dims"] is not found[0]["dims"]
    assert plain_tensor(encoded(plain(dims=[])), 0, len(data) - 5) == (fields, 8, 600, False)


def test_external_tensor_is_recognised() -> None:
    """A tensor with dims, type, name, entries of external data and its location is recognised, too."""
    data = encoded(external())
    found = plain_tensor(b"??" + data + b"?", 2, len(data) + 2)
    fields = {"dims": [2, 300], "data_type": 2, "name": "w", "undecoded": None, "data_location": 1}
    assert found == (fields, 12, len(data) - 12, True)
    (tensor,) = decode(Literal(encoded(Graph(initializer=[external()]))), Graph).initializer
    assert [*vars(tensor)] == [*fields]
    assert tensor == external()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x08",
        b"\x08\x80",
        b"\x08\x02",
        b"\x10\x08",
        b"\x10\x63",
        b"\x10\x82\x00",
        b"\x10\x01\x08\x02",
        b"\x0a\x01\x02\x10\x01",
        b"\x08" + b"\xff" * 9 + b"\x01\x10\x01",
    ],
)
def test_other_heads(data: bytes) -> None:
    """Bytes that are not dims and then a type with a size, and nothing else, are no head."""
    assert head_of(data) is None


@pytest.mark.parametrize(
    ("tensor", "end"),
    [
        (encoded(plain("w1", 3)), -1),
        (encoded(plain("w1", 600)), -598),
        (encoded(external(name="w1", doc_string="d" * 200)), None),
        (encoded(external(external_data=[StringStringEntry("location", "a" * 140)])), None),
    ],
)
def test_every_change_of_a_byte_has_the_same_result(
    monkeypatch: pytest.MonkeyPatch, tensor: bytes, end: int | None
) -> None:
    """Whatever byte before the data is changed, removed or repeated, the result is that of reading the fields."""
    for position in range(len(tensor[:end])):
        before, byte, after = tensor[:position], tensor[position], tensor[position + 1 :]
        for new in (bytes((byte ^ 1,)), bytes((byte ^ 0x80,)), b"\xff", b"B", b"", bytes((byte, byte))):
            changed = before + new + after
            for size in (len(changed), len(tensor)):
                data = b"\x2a" + bytes((size & 0x7F | 0x80, size >> 7)) + changed + b"\x12\x01g"
                assert decoded(data) == of_fields(data, monkeypatch)


@pytest.mark.parametrize(
    "tensor",
    [
        plain(),
        plain(dims=[66, 1]),
        plain(dims=[-2, 300]),
        plain(dims=[1] * 70),
        plain(data_type=None),
        plain(data_type=8),
        plain(data_type=99),
        plain(name=None),
        plain(name=""),
        plain(name="w" * 130),
        plain(name="\udcff"),
        plain(doc_string="d"),
        plain(data_location=0),
        plain(raw_data=None, float_data=bytes_of(8)),
        plain(raw_data=Literal(b"")),
        plain(raw_data=bytes_of(70000)),
        plain(metadata_props=[StringStringEntry("a", "b")]),
        external(),
        external(dims=[]),
        external(data_location=0),
        external(data_location=None),
        external(external_data=[]),
        external(external_data=[StringStringEntry("location")]),
        external(external_data=[StringStringEntry("\udcff", "\udcff")]),
        external(external_data=[StringStringEntry("k" * 130, "v"), StringStringEntry("k", "v" * 20000)]),
        external(metadata_props=[StringStringEntry("a", "b")]),
        external(raw_data=bytes_of(4)),
        external(doc_string="d"),
        plain(unknown_fields=b"\xf8\x07\x01"),
    ],
)
def test_other_tensors_have_the_same_result(monkeypatch: pytest.MonkeyPatch, tensor: Tensor) -> None:
    """A tensor in any other form is read field by field, with its fields in the same order."""
    data = encoded(Graph(name="g", initializer=[plain("first"), tensor, plain("last")]))
    for max_depth in (1, 2, 3, 100):
        assert decoded(data, max_depth) == of_fields(data, monkeypatch, max_depth)
    assert [[*values] for values in decoded(data)[0]] == [[*values] for values in of_fields(data, monkeypatch)[0]]


# Tensors that are only counted

PLAIN = (
    onnx.TensorProto(),
    onnx.TensorProto(name="w", dims=[2, 300], data_type=1, raw_data=bytes(2400)),
    onnx.TensorProto(name="n" * 200, dims=[1 << 40], data_type=16, raw_data=b""),
)
OTHERS = (
    onnx.TensorProto(name="w", data_location=1, external_data=[{"key": "location", "value": "w.bin"}]),
    onnx.TensorProto(name="w", data_location=0),
    onnx.TensorProto(float_data=[1]),
    onnx.TensorProto(string_data=[b"a"]),
    onnx.TensorProto(doc_string="d"),
    onnx.TensorProto(metadata_props=[{"key": "k"}]),
)


def initialisers(*tensors: Any) -> bytes:
    """The tensors as initialisers of a graph."""
    return bytes(onnx.GraphProto(initializer=tensors).SerializeToString())


@pytest.mark.parametrize("count", range(4))
def test_plain_tensors_are_counted(count: int) -> None:
    """Each tensor with only dims, a type, a name and raw data counts, however long these are."""
    data = initialisers(*PLAIN[:count])
    assert count_of_plain(b"before" + data, 6, 6 + len(data)) == count


@pytest.mark.parametrize("index", range(len(OTHERS)))
def test_others_are_left_to_the_decoder(index: int) -> None:
    """A tensor with a field that may refer to a file, or that must be checked, is none, nor are those beside it."""
    data = initialisers(*PLAIN, OTHERS[index], *PLAIN)
    assert count_of_plain(data, 0, len(data)) == 0


def test_damage_is_never_plain() -> None:
    """Wherever the data end, and whatever byte of them is changed, what counts is what protobuf reads as plain."""
    data = initialisers(*PLAIN[:2])
    begins = [0, len(initialisers(PLAIN[0])), len(data)]
    for end in range(len(data)):
        assert count_of_plain(data[:end], 0, end) == (begins.index(end) if end in begins else 0), end
    for position in {*range(40)} - {*begins}:  # the tags of the fields themselves are those of the caller
        for byte in range(256):
            changed = data[:position] + bytes((byte,)) + data[position + 1 :]
            count = count_of_plain(changed, 0, len(changed))
            if count:
                read = onnx.GraphProto.FromString(changed)
                shown = [tensor for field, value in read.ListFields() for tensor in value]
                assert len(shown) == count
                assert all(
                    {field.name for field, _ in tensor.ListFields()} <= {"dims", "data_type", "name", "raw_data"}
                    for tensor in shown
                    if isinstance(tensor, onnx.TensorProto)
                )
