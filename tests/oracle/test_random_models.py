"""Any message that the classes of the IR can express is written so that `onnx` reads it, and read back unchanged.

`tests/onnxpb/wire/test_decoder.py` tests the other direction: any message that `onnx` can make.
"""

from __future__ import annotations

import struct
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from onnx import numpy_helper

import formats
from formats.ir import dtypes
from formats.ir.model import MESSAGE_CLASSES, Graph, Model, Tensor
from formats.onnxpb.wire.decoder import decode
from formats.onnxpb.wire.encoder import encode
from formats.onnxpb.wire.schema import ENUMS, MESSAGES, MessageField
from formats.onnxpb.wire.varints import encode_varint
from formats.tensordata.sources.source import Concat, Literal, Source
from tests.onnxpb.protos import SCALARS, message_type

CLASSES = {cls.message: cls for cls in MESSAGE_CLASSES}
WEIGHTS = {field for field, kind in Tensor.__annotations__.items() if kind == "Source | None"}


@st.composite
def sources(draw: st.DrawFn, data: bytes) -> Source:
    """Return a strategy for sources with these bytes, in one piece or in two."""
    cut = draw(st.integers(0, len(data)))
    return Concat.of(Literal(data[:cut]), Literal(data[cut:])) if 0 < cut < len(data) else Literal(data)


def packed(values: list[Any], kind: str) -> bytes:
    """Return a strategy for payloads of a packed field."""
    if kind in ("float", "double"):
        return struct.pack(f"<{len(values)}{kind[0]}", *values)
    return b"".join(map(encode_varint, values))


@st.composite
def messages(draw: st.DrawFn, name: str, depth: int) -> Any:
    """Draw an object of the IR with random fields."""
    values: dict[str, Any] = {}
    oneofs: set[str] = set()
    for row in MESSAGES[name]:
        if (row.kind == "message" and not depth) or row.oneof in oneofs or not draw(st.booleans()):
            continue
        oneofs |= {row.oneof} - {""}
        one = value(row, depth)
        found = draw(st.lists(one, min_size=1, max_size=3) if row.label == "repeated" else one)
        if name == "TensorProto" and row.name in WEIGHTS:
            found = draw(sources(found if row.kind == "bytes" else packed(found, row.kind)))
        values[row.name] = found
    unknown = draw(st.sampled_from((b"", b"", b"\xf8\x3f\x01", b"\xfa\x3f\x02ab")))
    return CLASSES[name](**values, unknown_fields=unknown)


def value(row: MessageField, depth: int) -> st.SearchStrategy[Any]:
    """Draw one value of a field."""
    if row.kind == "message":
        return messages(row.type_name, depth - 1)
    if row.kind == "enum":
        return st.sampled_from(sorted(ENUMS[row.type_name].values()))
    return SCALARS[row.kind].filter(lambda found: found == found)


@pytest.mark.parametrize("examples", [60, pytest.param(300, marks=pytest.mark.outer)])
def test_any_message_is_written_and_read(examples: int) -> None:
    """A message that is written is read back equal, and `onnx` reads it and writes the same bytes."""

    @settings(max_examples=examples)
    @given(st.sampled_from(sorted(CLASSES)).flatmap(lambda name: messages(name, 3)))
    def check(message: Any) -> None:
        data = b"".join(part if isinstance(part, bytes) else part.read() for part in encode(message))
        assert message == decode(Literal(data), type(message))
        assert data == message_type(message.message).FromString(data).SerializeToString()

    check()


def typed(raw: bytes, row: dtypes.DataType, count: int) -> bytes:
    """Return the packed payload of the typed field for the elements of `raw`."""
    if row.field in ("float_data", "double_data"):
        return raw
    if row.bits == 6:  # one entry for each element; narrower ones stay in their bytes
        number = int.from_bytes(raw, "little")
        return packed([number >> 6 * place & 0x3F for place in range(count)], "int32")
    sign = "i" if row.numpy_name.startswith("int") and row.bits >= 8 else "u"
    return packed(np.frombuffer(raw, f"<{sign}{max(row.bits, 8) // 8}").tolist(), "int64")


@st.composite
def tensors(draw: st.DrawFn) -> Tensor:
    """Draw a tensor of any type, with any elements, in any storage form that a single file allows."""
    row = draw(st.sampled_from(dtypes.DATA_TYPES))
    dims = draw(st.lists(st.integers(0, 4), max_size=3))
    count = dtypes.count(dims)
    made = Tensor(name=draw(st.text(max_size=3)), dims=dims, data_type=row.number)
    if row.name == "STRING":
        made.string_data = draw(st.lists(st.text(max_size=3).map(str.encode), min_size=count, max_size=count))
        return made
    raw = draw(st.binary(min_size=row.nbytes(dims), max_size=row.nbytes(dims)))
    if row.name == "BOOL":
        raw = bytes(byte & 1 for byte in raw)
    if unused := len(raw) * 8 - count * row.bits:
        raw = raw[:-1] + bytes([raw[-1] & 0xFF >> unused])
    if draw(st.booleans()):
        made.raw_data = draw(sources(raw))
    elif raw:
        setattr(made, row.field, draw(sources(typed(raw, row, count))))
    return made


def seen(array: Any) -> tuple[Any, ...]:
    """Return an array in a form that compares NaN by its bits, and strings whether they are bytes or text.

    `onnx` first makes arrays of fixed-width text, which lose the zeros at the end of a string.
    """
    if array.dtype == object:
        texts = (text.encode() if isinstance(text, str) else text for text in array.ravel().tolist())
        return array.shape, [text.rstrip(b"\0") for text in texts]
    return array.shape, array.dtype, array.tobytes()


def with_one_nan(array: Any) -> Any:
    """Return an array in which every NaN has the same bits: text has only one."""
    if array.dtype.char not in "fdFD":
        return array
    parts = np.array(array).reshape(-1).view(array.real.dtype)  # of complex numbers, both
    parts[np.isnan(parts)] = np.nan
    return parts.view(array.dtype).reshape(array.shape)


@pytest.mark.parametrize("examples", [40, pytest.param(150, marks=pytest.mark.outer)])
def test_any_tensor_has_the_elements_that_onnx_sees(examples: int) -> None:
    """In every file format, and in external data, tensors have these elements; one without data has no elements."""

    @settings(max_examples=examples)
    @example([Tensor(dims=[0], data_type=8)], 0)
    @given(st.lists(tensors(), min_size=3, max_size=8), st.integers(0, 16))
    def check(drawn: list[Tensor], size_threshold: int) -> None:
        onnx_sees_the_elements(drawn, size_threshold)

    check()


def onnx_sees_the_elements(drawn: list[Tensor], size_threshold: int) -> None:
    """Check tensors in every file format."""
    model = Model(ir_version=10, graph=Graph(name="g", initializer=drawn))
    assert model == formats.loads(formats.dumps(model, "onnx"))
    expected = [seen(tensor.numpy()) for tensor in drawn]
    with tempfile.TemporaryDirectory() as folder:
        inline, archive, text = (Path(folder, name) for name in ("m.onnx", "m.onnxz", "m.textproto"))
        outside = Path(folder, "out.onnx")
        formats.save(model, inline)
        formats.convert(inline, archive, size_threshold=size_threshold)
        formats.convert(archive, outside, external_data=True, size_threshold=size_threshold)
        formats.convert(outside, text, external_data=False)
        for path in (inline, archive, outside, text):
            graph = formats.load(path).graph
            assert graph is not None
            found = [tensor.numpy() for tensor in graph.initializer]
            if path == text:
                wanted = [with_one_nan(tensor.numpy()) for tensor in drawn]
                assert [*map(seen, wanted)] == [*map(seen, map(with_one_nan, found))], path
            else:
                assert expected == [*map(seen, found)], path
        for path in (inline, outside):
            theirs = onnx.load(path).graph.initializer
            assert expected == [seen(numpy_helper.to_array(tensor)) for tensor in theirs], path
