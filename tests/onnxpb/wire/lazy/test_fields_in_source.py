"""Tensors with their data in them are known without being decoded, and nothing else is."""

from __future__ import annotations

from typing import Any

import onnx
import pytest

from formats.onnxpb.wire.lazy.fields_in_source import count_of_plain

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


def fields(*tensors: Any) -> bytes:
    """The tensors as initialisers of a graph."""
    return bytes(onnx.GraphProto(initializer=tensors).SerializeToString())


@pytest.mark.parametrize("count", range(4))
def test_plain_tensors_are_counted(count: int) -> None:
    """Each tensor with only dims, a type, a name and raw data counts, however long these are."""
    data = fields(*PLAIN[:count])
    assert count_of_plain(b"before" + data, 6, 6 + len(data)) == count


@pytest.mark.parametrize("index", range(len(OTHERS)))
def test_others_are_left_to_the_decoder(index: int) -> None:
    """A tensor with a field that may refer to a file, or that must be checked, is none, nor are those beside it."""
    data = fields(*PLAIN, OTHERS[index], *PLAIN)
    assert count_of_plain(data, 0, len(data)) == 0


def test_damage_is_never_plain() -> None:
    """Wherever the data end, and whatever byte of them is changed, what counts is what protobuf reads as plain."""
    data = fields(*PLAIN[:2])
    begins = [0, len(fields(PLAIN[0])), len(data)]
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
