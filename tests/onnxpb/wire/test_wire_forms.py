"""Messages of which one field is written in another form, right or wrong: `onnx` says which are refused.

Each field of each message is written in every form of the wire format: other wire types, numbers that are too long or
cut, wrong lengths, groups, numbers of fields that do not exist.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import onnx
import pytest
from google.protobuf.message import DecodeError as ProtobufError

import formats
from formats import onnxpb
from formats.errors import DecodeError
from formats.onnx_compat.protos import classes
from formats.onnxpb.wire import decoder, encoder, fields_in_source
from formats.onnxpb.wire.decoder import decode
from formats.onnxpb.wire.schema import ENUMS, MESSAGES, MessageField
from formats.onnxpb.wire.varints import WireType, decode_varint, encode_varint, make_tag
from formats.tensordata.sources.source import Literal
from tests.onnxpb.protos import CLASSES, Watched, encoded, message_type

VALUES: dict[str, Any] = {"int32": -2, "int64": 300, "uint64": 1 << 40, "float": 1.5, "double": 2.5}
VALUES |= {"string": "text", "bytes": b"bytes"}
LONG = b"\x80" * 9  # the first bytes of a varint of ten
VARINTS = {
    "a varint": b"\x01",
    "a varint with a useless byte": b"\x81\x00",
    "the longest varint": LONG + b"\x01",
    "a varint of more than 64 bits": LONG + b"\x02",
    "a varint of 11 bytes": b"\x80" + LONG + b"\x01",
    "a cut varint": b"\x80",
}
OTHER_NUMBERS = (0, 99, 1 << 29)  # of fields that no message has
# What `onnx` takes, and we refuse: it drops bits of a number that is too large, and looks at no number in a group.
STRICTER = re.compile(r"a varint of more than 64 bits|group \d+ with field 0$")


def sample(name: str, depth: int) -> Any:
    """A message with every field, lists with two elements, and messages in it, which are empty below a depth."""
    message = message_type(name)()
    for row in MESSAGES[name]:
        target = getattr(message, row.name)
        if row.kind != "message":
            value = VALUES[row.kind] if row.kind in VALUES else max(ENUMS[row.type_name].values())
            target.extend([value, value]) if row.label == "repeated" else setattr(message, row.name, value)
        else:
            inner = sample(row.type_name, depth - 1) if depth else message_type(row.type_name)()
            target.extend([inner, inner]) if row.label == "repeated" else target.CopyFrom(inner)
    return message


def tag(number: int, wire_type: int) -> bytes:
    """The bytes of a tag."""
    return encode_varint(make_tag(number, wire_type))


def long_varint(value: int, nbytes: int) -> bytes:
    """A varint with useless bytes: this many in all."""
    return bytes((value >> 7 * index) & 0x7F | 0x80 * (index < nbytes - 1) for index in range(nbytes))


def with_length(payload: bytes) -> bytes:
    """A payload behind its size in bytes."""
    return encode_varint(len(payload)) + payload


def groups(number: int, depth: int, inside: bytes = b"") -> bytes:
    """Groups in groups."""
    return tag(number, WireType.SGROUP) * depth + inside + tag(number, WireType.EGROUP) * depth


def changed(data: bytes, name: str, where: str = "") -> Iterator[tuple[str, bytes]]:
    """What was changed where, and the message afterwards: the first field of each row, at any depth."""
    rows = {row.number: row for row in MESSAGES[name]}
    position, seen = 0, set()
    while position < len(data):
        start = position
        field_tag, after_tag = decode_varint(data, start)
        position = begin = after_tag
        if field_tag & 7 == WireType.LEN:
            size, begin = decode_varint(data, after_tag)
            position = begin + size
        elif field_tag & 7 == WireType.VARINT:
            _, position = decode_varint(data, after_tag)
        else:
            position += 8 if field_tag & 7 == WireType.I64 else 4
        row, payload = rows[field_tag >> 3], data[begin:position]
        if row.number in seen:
            continue
        seen.add(row.number)
        place = f"{where}{row.name}"
        for change, field in forms(row, field_tag, payload):
            yield f"{place}: {change}", data[:start] + field + data[position:]
        if row.kind == "message":
            for change, inner in changed(payload, row.type_name, f"{place}."):
                yield change, data[:after_tag] + with_length(inner) + data[position:]
    yield from ((f"{where}: {change}", data + field) for change, field in others())
    if not where:
        yield from ((f"cut after {stop} bytes", data[:stop]) for stop in range(len(data)))


def forms(row: MessageField, field_tag: int, payload: bytes) -> Iterator[tuple[str, bytes]]:
    """The field of a row in other forms."""
    number, has_length = row.number, field_tag & 7 == WireType.LEN
    for change, varint in VARINTS.items():
        yield change, tag(number, WireType.VARINT) + varint
        yield f"packed: {change}", tag(number, WireType.LEN) + with_length(varint)
        yield f"packed in the middle: {change}", tag(number, WireType.LEN) + with_length(b"\x01" + varint + b"\x01")
        yield f"size as {change}", tag(number, WireType.LEN) + varint + bytes(1)
    yield from ((f"{size} bytes", tag(number, WireType.LEN) + with_length(bytes(size))) for size in (0, 3, 4, 8))
    yield "64 bits", tag(number, WireType.I64) + bytes(8)
    yield "32 bits", tag(number, WireType.I32) + bytes(4)
    yield "a group", groups(number, 1)
    yield "the end of a group", tag(number, WireType.EGROUP)
    yield "wire type 6", tag(number, 6) + bytes(8)
    yield "wire type 7", tag(number, 7) + bytes(8)
    body = with_length(payload) if has_length else payload
    yield from ((f"a tag of {length} bytes", long_varint(field_tag, length) + body) for length in range(2, 12))
    if has_length:
        own_tag, size = encode_varint(field_tag), len(payload)
        for length in (size + 1, size + 1000, 1 << 31, (1 << 32) + size, -1):
            yield f"length {length}", own_tag + encode_varint(length) + payload
        yield from (
            (f"a length of {count} bytes", own_tag + long_varint(size, count) + payload) for count in range(2, 12)
        )
        for text in (b"\xff", b"\xc3", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"a\0b"):
            yield f"text {text!r}", own_tag + with_length(text)
    if row.kind in ("int32", "int64", "uint64", "enum"):
        for value in (-1, 99, 1 << 31, 1 << 32, (1 << 32) + 1, -(1 << 63), (1 << 64) - 1):
            yield f"number {value}", tag(number, WireType.VARINT) + encode_varint(value)


def others() -> Iterator[tuple[str, bytes]]:
    """Fields that no message has."""
    for number in OTHER_NUMBERS:
        for wire_type in range(8):
            yield f"field {number} of wire type {wire_type}", tag(number, wire_type) + b"\x08" + bytes(8)
        yield f"group {number} with a field", groups(number, 1, tag(1, 0) + b"\x01")
        yield f"group {number} with field 0", groups(number, 1, tag(0, 0) + b"\x01")
        yield f"group {number} cut", tag(number, WireType.SGROUP)
        yield f"group {number} with another end", tag(number, WireType.SGROUP) + tag(77, WireType.EGROUP)
        yield from ((f"{depth} groups {number}", groups(number, depth)) for depth in (30, 98, 99, 100, 101))
    yield "a tag of 5 bytes", b"\xf8\xff\xff\xff\x0f\x01"
    yield "a tag of more than 32 bits", b"\xf8\xff\xff\xff\x1f\x01"
    yield "a tag of 6 bytes", b"\xf8\xff\xff\xff\x8f\x00\x01"


def is_refused(read: Callable[[], Any]) -> bool:
    """Whether bytes are refused as no message."""
    try:
        read()
    except (DecodeError, ProtobufError):
        return True
    return False


@pytest.mark.sample(8)
@pytest.mark.parametrize("name", sorted(MESSAGES))
def test_every_form_has_the_verdict_of_protobuf(name: str) -> None:
    """What protobuf refuses is refused when it is read, or when it is written if it was left in its file unread."""
    wrong = []
    for change, data in changed(sample(name, int(name == "GraphProto")).SerializeToString(), name):
        expected = is_refused(lambda data=data: message_type(name).FromString(data))
        if STRICTER.search(change):
            continue
        found = {"message": is_refused(lambda data=data: classes.CLASSES[name].FromString(data))}
        found["model"] = is_refused(lambda data=data: decode(Literal(data), CLASSES[name]))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(decoder, "BULK_BYTES", 0)
            for constant in ("NUMPY_BYTES", "RUN_BYTES"):
                patch.setattr(fields_in_source, constant, 0)
            found["lists unread"] = is_refused(lambda data=data: encoded(decode(Literal(data), CLASSES[name])))
            patch.setattr(encoder, "JOINED_BYTES", 0)
            patch.setattr(fields_in_source, "CHECKED_BYTES", 8)
            patch.setattr(decoder, "WHOLE_BYTES", 0)
            patch.setattr(decoder, "WINDOW_BYTES", 8)
            found["in windows"] = is_refused(lambda data=data: encoded(decode(Watched(data), CLASSES[name])))
        wrong += [f"{way}, {change}" for way, refused in found.items() if refused != expected]
    assert [] == wrong


def model_with(**fields: Any) -> bytes:
    """A model with these fields in its graph."""
    graph = onnx.GraphProto(name="g", output=[onnx.helper.make_tensor_value_info("y", 7, [40_000])], **fields)
    opset = onnx.OperatorSetIdProto(version=17)
    return bytes(onnx.ModelProto(ir_version=8, graph=graph, opset_import=[opset]).SerializeToString())


def with_damaged_node() -> bytes:
    """A model with a node, among many, whose name has a wrong length."""
    nodes = [onnx.NodeProto(op_type="Identity", name=f"n{i:03}", input=["x"], output=["y"]) for i in range(999)]
    return model_with(node=nodes).replace(b"\x04n700", b"\x7fn700")


def with_damaged_number() -> bytes:
    """A model with a long list of numbers, of which one in the middle has too many bytes."""
    tensor = onnx.TensorProto(name="y", data_type=7, dims=[40_000], int64_data=[*[1 << 62] * 39_999, 1])
    tensor.int64_data[20_000] = -1
    return model_with(initializer=[tensor]).replace(b"\xff\x01", b"\xff\xff")


WAYS: dict[str, Callable[[Path, Path], Any]] = {
    "convert": lambda path, result: formats.convert(path, result / "result.onnx"),
    "convert to an archive": lambda path, result: formats.convert(path, result / "result.onnxz"),
    "convert to external data": lambda path, result: formats.convert(path, result / "result.onnx", external_data=True),
    "convert to text": lambda path, result: formats.convert(path, result / "result.textproto"),
    "save": lambda path, result: formats.save(formats.load(path), result / "result.onnx"),
    "save a message": lambda path, result: onnxpb.save(onnxpb.load(path), result / "result.onnx"),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("damaged", [with_damaged_node, with_damaged_number])
def test_damage_that_nobody_read_is_told(
    damaged: Callable[[], bytes], way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Damage in what stays in its file is told when it would be written, and nothing is written."""
    monkeypatch.setattr(decoder, "WHOLE_BYTES", 0)
    path, result = tmp_path / "model.onnx", tmp_path / "result"
    path.write_bytes(damaged())
    result.mkdir()
    with pytest.raises(ProtobufError):
        onnx.load(path)
    with pytest.raises(DecodeError, match=r"at byte 1\d{4}|initializer\[0\]\.int64_data|more than 10 bytes"):
        WAYS[way](path, result)
    assert [] == [*result.iterdir()]
    assert 1 == len(formats.verify(path, data=True).errors)
