"""Floats are compared by their bits, wherever a model has them, and in whatever format it is written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import formats
from formats import Attribute, Graph, Model, Node, SparseTensor, Tensor
from formats.onnxpb.wire.schema import MESSAGES, MessageField
from formats.tensordata.sources.source import Literal

# Zeros, numbers next to them, and NaNs: quiet ones with both signs, and with payloads.
_BITS = {
    "float": ("<u4", [0, 1 << 31, 1, 0x3F800000, 0x7F800000, 0x7FC00000, 0xFFC00000, 0x7FC00001, 0xFFC12345]),
    "double": ("<u8", [0, 1 << 63, 1, 0x7FF0 << 48, 0x7FF8 << 48, 0xFFF8 << 48, (0x7FF8 << 48) + 1]),
}
_FLOAT_FIELDS = [(message, row) for message, rows in MESSAGES.items() for row in rows if row.kind in _BITS]
_TENSOR_PLACES: dict[str, Callable[[Tensor], Graph]] = {
    "initializer": lambda tensor: Graph(name="g", initializer=[tensor]),
    "sparse": lambda tensor: Graph(name="g", sparse_initializer=[SparseTensor(values=tensor, dims=[99])]),
    "attribute": lambda tensor: _with_attribute(Attribute(name="a", type=4, t=tensor)),
    "sparse attribute": lambda tensor: _with_attribute(
        Attribute(name="a", type=11, sparse_tensor=SparseTensor(values=tensor, dims=[99]))
    ),
}


def _with_attribute(attribute: Attribute) -> Graph:
    """Return a graph with one node that has this attribute."""
    return Graph(name="g", node=[Node(op_type="Constant", output=["y"], attribute=[attribute])])


def _graphs_with(message: str, row: MessageField, numbers: list[float]) -> list[Graph]:
    """Return graphs with these numbers in a field, one for each place that a model has for its message."""
    if message == "AttributeProto":
        value: Any = numbers if row.label == "repeated" else numbers[0]
        return [_with_attribute(Attribute(name="a", type=6 if row.label == "repeated" else 1, **{row.name: value}))]
    assert message == "TensorProto"
    data = np.array(numbers, "<f4" if row.kind == "float" else "<f8").tobytes()
    data_type = 1 if row.kind == "float" else 11
    return [
        place(Tensor(name="t", dims=[len(numbers)], data_type=data_type, **{row.name: Literal(data)}))
        for place in _TENSOR_PLACES.values()
    ]


def _numbers(kind: str, bits: int, count: int) -> list[float]:
    """Return `count` floats, the middle one with these bits."""
    code, _ = _BITS[kind]
    numbers = np.ones(count, code.replace("u", "f"))
    numbers.view(code)[count // 2] = bits
    return numbers.tolist()


@pytest.mark.sample(3)
@pytest.mark.parametrize(("message", "row"), _FLOAT_FIELDS, ids=[f"{m}.{row.name}" for m, row in _FLOAT_FIELDS])
@pytest.mark.parametrize("count", [1, 3, 400])
def test_floats_are_equal_if_their_bits_are(message: str, row: MessageField, count: int, tmp_path: Path) -> None:
    """In each field of floats, in short and long lists, two numbers differ exactly if the files do."""
    if count > 1 and row.label != "repeated":
        return
    _, patterns = _BITS[row.kind]
    pairs = [(mine, theirs) for mine in patterns for theirs in patterns][:: 1 if row.name == "f" else 5]
    first, second = tmp_path / "a.onnx", tmp_path / "b.onnx"
    for mine, theirs in pairs:
        graphs = zip(
            *(_graphs_with(message, row, _numbers(row.kind, bits, count)) for bits in (mine, theirs)), strict=True
        )
        for before, after in graphs:
            formats.save(Model(ir_version=8, graph=before), first, overwrite=True)
            formats.save(Model(ir_version=8, graph=after), second, overwrite=True)
            is_equal = first.read_bytes() == second.read_bytes()
            assert is_equal == (mine == theirs)
            found = formats.diff(first, second)
            assert found.equal == is_equal, (hex(mine), hex(theirs))
            for difference in found.differences:
                was, became, now = difference.detail.partition(" became ")
                assert not became or was != now


@pytest.mark.sample(3)
@pytest.mark.parametrize("extension", ["textproto", "json"])
@pytest.mark.parametrize(("message", "row"), _FLOAT_FIELDS, ids=[f"{m}.{row.name}" for m, row in _FLOAT_FIELDS])
def test_texts_keep_floats_or_say_that_they_do_not(
    message: str, row: MessageField, extension: str, tmp_path: Path
) -> None:
    """In each field of floats, a text has the same number, or the report counts the NaNs that lose their bits."""
    first, text, second = tmp_path / "a.onnx", tmp_path / f"t.{extension}", tmp_path / "b.onnx"
    for bits in _BITS[row.kind][1]:
        for graph in _graphs_with(message, row, _numbers(row.kind, bits, 1)):
            formats.save(Model(ir_version=8, graph=graph), first, overwrite=True)
            report = formats.convert(first, text, overwrite=True)
            formats.convert(text, second, overwrite=True)
            told = [loss.where.rpartition(".")[2] for loss in report.losses if loss.kind == "nan"]
            assert formats.diff(first, text).equal == formats.diff(first, second).equal == (not told), hex(bits)
            assert told in ([], [row.name])
