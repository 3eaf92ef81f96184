"""Gives damaged and strange input to the readers, which must quickly return a model or raise a `FormatError`.

`python tests/fuzzing/fuzz.py [FORMAT ...] [--seconds N] [--seed S]` spends N seconds on each format. It changes the
structure of an input (fields, tables, tokens), its bytes (numbers, lengths and offsets set to extremes; pieces removed,
doubled or taken from other inputs), or both. Number, seed and format determine an input: it is the same on every
machine and in any order.

An input that fails is kept in a folder, and `python tests/fuzzing/fuzz.py FORMAT --input FILE` tries it again.
"""

from __future__ import annotations

import argparse
import atexit
import faulthandler
import functools
import hashlib
import io
import itertools
import json
import random
import re
import resource
import signal
import struct
import sys
import tempfile
import time
import traceback
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
import onnx
from google.protobuf import json_format, text_format
from onnx import helper, numpy_helper
from onnx.parser import parse_model

import formats
from formats.codecs import lookup
from formats.codecs.keys import Key
from formats.errors import FormatError, UnsupportedError
from formats.flatbuffer import builder, fbs
from formats.ir import walk
from formats.ir.model import Model
from formats.onnxpb.encryption import crypt
from formats.onnxpb.wire import decoder
from formats.ort import buffers as ort_buffers
from formats.rten.header import HEADER_NBYTES, Header, decode_header, encode_header, is_v2
from formats.rten.spec import RTEN_DOMAIN
from formats.tensordata.sources.source import Literal
from tests.fuzzing import records
from tests.rten import rten_golden
from tests.rten.rten_forms import UNIONS, build
from tests.rten.rten_forms import read as read_table

MAX_SECONDS = 1.0  # of processor time, for one input
MAX_WAIT = 60  # seconds of wall time, for one input: longer than any lock is waited for
MAX_RESIDENT_KIB = 256 << 10  # of additional memory, for one input
MAX_MEMORY_BYTES = 512 << 20  # of address space, beyond what the imports need
EXTREMES = (0, 1, 2, 3, 5, 7, 8, 16, 63, 64, 127, 128, 255, 256, 1 << 15, (1 << 16) - 1, 1 << 16)
EXTREMES += tuple(
    sign * (1 << power) + more for power in (31, 32, 62, 63, 64) for sign in (1, -1) for more in (-1, 0, 1)
)
NAMES = (
    "x y w ../w /w m.data sub/w location offset length checksum -1 8 é ai.onnx com.microsoft rten Loop Constant Cast"
)
TEXTS = (*NAMES.split(), "", "\0", "9" * 25, "n" * 300)
SIGNS = "{ } [ ] < > : , - \" ' \\ \\x \\u \\ud800 # 1e999 -1e-999 nan inf null true 0x 077 1."
TOKENS = (*SIGNS.split(), "\n", "\0", "\ufeff", "[" * 300, '{"graph":' * 200, "graph {" * 200)
NEAR_AN_END = 600  # bytes
KEY = Key(b"secret words")  # as in tests/routes.py


class Target(NamedTuple):
    """A way to read, and the inputs for it."""

    seeds: Callable[[], Sequence[bytes]]
    change: Callable[[random.Random, Sequence[bytes]], bytes]
    use: Callable[[bytes, int], None]


# Seeds


@functools.cache
def messages() -> tuple[onnx.ModelProto, ...]:
    """Return small models that together have most features of a model."""
    many = parse_model(
        """<ir_version: 10, opset_import: ["": 21, "local": 1, "com.microsoft": 1], producer_name: "fuzz",
            metadata_props: ["license": "free", "k": "v"], doc_string: "text">
        many (float[n, 4] x, seq(float[2]) s, optional(int64[1]) o) => (float[n, 4] y) <float[1, 4] one = {1, 2, 3, 4}>
        {
            constant = Constant <value = float[2] {1, 2}> ()
            numbers = Constant <value_ints = [1, 2, 3]> ()
            words = Constant <value_strings = ["a", "b"]> ()
            two = local.Twice <factor = 3.0> (x)
            sum = Add (two, one)
            y = com.microsoft.Gelu (sum)
        }
        <domain: "local", opset_import: ["": 21]> Twice <factor: float = 2.0> (a) => (b)
        { f = Constant <value_float: float = @factor> () b = Mul (a, f) }"""
    )
    graph = many.graph
    typed = {"FLOAT": 2, "INT32": 1, "INT64": 1, "DOUBLE": 2, "UINT64": 1, "FLOAT16": 1, "BFLOAT16": 1, "INT4": 1}
    for name, value in typed.items():
        graph.initializer.append(helper.make_tensor(name, getattr(onnx.TensorProto, name), [2], [value, value]))
    graph.initializer.append(helper.make_tensor("STRING", onnx.TensorProto.STRING, [2], [b"a", b"b"]))
    graph.initializer.append(numpy_helper.from_array(np.arange(12, dtype=np.int64).reshape(3, 4), "raw"))
    values = numpy_helper.from_array(np.array([1, 2], np.float32), "sparse")
    places = numpy_helper.from_array(np.array([1, 3], np.int64), "places")
    graph.sparse_initializer.append(helper.make_sparse_tensor(values, places, [5]))
    graph.quantization_annotation.add(tensor_name="raw").quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="x")
    return (many, *(rten_golden.model(name) for name in rten_golden.TEXTS))


@functools.cache
def small_messages() -> tuple[onnx.ModelProto, ...]:
    """Return the models that are short as text, and parts of the others."""
    many, *others = messages()
    parts = []
    for half in (0, 1):
        part = onnx.ModelProto.FromString(many.SerializeToString())
        for field in ("node", "initializer", "sparse_initializer", "input"):
            values = getattr(part.graph, field)
            del values[half * len(values) // 2 : (half + 1) * len(values) // 2]
        parts.append(part)
    return (*parts, *(message for message in others if message.ByteSize() < 500))


@functools.cache
def external_messages() -> tuple[onnx.ModelProto, ...]:
    """Return the models with their tensors in `m.data`, of which only 4 KiB exist, or in `sub/w`."""
    result = []
    for message, location in zip(messages(), itertools.cycle(("m.data", "sub/w", "./m.data"))):
        moved = onnx.ModelProto.FromString(message.SerializeToString())
        for number, tensor in enumerate(moved.graph.initializer):
            size = len(tensor.raw_data)
            if size:
                tensor.ClearField("raw_data")
                tensor.data_location = onnx.TensorProto.EXTERNAL
                for key, value in (("location", location), ("offset", 64 * number), ("length", size)):
                    tensor.external_data.add(key=key, value=str(value))
        result.append(moved)
    return tuple(result)


def binary() -> list[bytes]:
    """Return the models as protobuf."""
    return [message.SerializeToString() for message in messages()]


def dumped(format_name: str, **options: Any) -> list[bytes]:
    """Return the models in another format, if it supports them."""
    result = []
    for data in binary():
        try:
            result.append(formats.dumps(formats.loads(data), format_name, **options))
        except UnsupportedError:  # RTen has no string tensors, and onnxruntime no optional values
            pass
    return result


def encrypted() -> list[bytes]:
    """Return the models encrypted in each possible way."""
    return [data for variant in (1, 2, 3) for data in dumped("onnxc", key=KEY, encryption=variant)]


def archives() -> list[bytes]:
    """Return the models as archives, also with the records that large archives need."""
    plain = dumped("onnxz", size_threshold=8) + dumped("onnxz", size_threshold=8, dedup=True)
    return [*plain, *map(enlarged, plain[:3])]


def enlarged(archive: bytes) -> bytes:
    """Return the archive with the end records of an archive that is too large for the short ones."""
    end = archive.rindex(b"PK\5\6")
    on_disk, entries, size, offset = struct.unpack_from("<2H2I", archive, end + 8)
    end64 = b"PK\6\6" + struct.pack("<Q2H2I4Q", 44, 45, 45, 0, 0, on_disk, entries, size, offset)
    locator = b"PK\6\7" + struct.pack("<IQI", 0, end, 1)
    short = struct.pack("<2H2I", 0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF)
    return archive[:end] + end64 + locator + archive[end : end + 8] + short + archive[end + 20 :]


def foreign_archives() -> list[bytes]:
    """Return archives as other programs make them from an unpacked model."""
    result = [*archives()]
    for data in archives()[:4]:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
        for prefix, zip64 in (("", False), ("m/", False), ("", True)):
            made = io.BytesIO()
            with zipfile.ZipFile(made, "w") as other:
                if prefix:
                    other.writestr(prefix, b"")  # `mkdir` is newer than Python 3.10
                for name, member in members.items():
                    with other.open(f"{prefix}{name}", "w", force_zip64=zip64) as stream:
                        stream.write(member)
            result.append(made.getvalue())
    return result


def golden(version: int) -> list[bytes]:
    """Return files of one version, made by rten-convert and by us."""
    theirs = [path.read_bytes() for path in sorted(rten_golden.GOLDEN.glob(f"0.*/*.v{version}.rten"))]
    return theirs + dumped("rten", rten_version=version)


def ort_files() -> list[bytes]:
    """Return .ort files that releases of onnxruntime and we made."""
    theirs = [path.read_bytes() for path in sorted((Path(__file__).parents[1] / "ort" / "golden").glob("*.ort"))]
    return theirs + dumped("ort")


# Changes of the structure


def changed_message(rng: random.Random, message: Any) -> None:
    """Change one field somewhere in a message."""
    while True:
        present = message.ListFields()
        inner = [
            element
            for field, value in present
            if field.message_type
            for element in (value if field.is_repeated else [value])
        ]
        if not inner or rng.random() < 0.25:
            break
        message = rng.choice(inner)
    field = rng.choice(message.DESCRIPTOR.fields) if rng.random() < 0.5 or not present else rng.choice(present)[0]
    try:
        _change_field(rng, message, field)
    except (ValueError, TypeError):  # a number that is too large for its field
        message.ClearField(field.name)


def _change_field(rng: random.Random, message: Any, field: Any) -> None:
    held = getattr(message, field.name)
    if field.is_repeated and len(held) and rng.random() < 0.4:
        if rng.random() < 0.5:
            del held[rng.randrange(len(held))]
        else:
            held.extend([rng.choice(held)] * rng.choice((1, 1, 2, 50)))
    elif rng.random() < 0.1:
        message.ClearField(field.name)
    elif field.message_type is not None:
        pool = pools().get(field.message_type.full_name)
        target = held.add() if field.is_repeated else held
        target.SetInParent()
        if pool:
            target.CopyFrom(rng.choice(pool))
    else:
        value = _scalar(rng, field)
        if not field.is_repeated:
            setattr(message, field.name, value)
        elif len(held) and rng.random() < 0.7:
            held[rng.randrange(len(held))] = value
        else:
            held.append(value)


def _scalar(rng: random.Random, field: Any) -> Any:
    if field.cpp_type == field.CPPTYPE_STRING:
        text = rng.choice(TEXTS) if rng.random() < 0.5 else rng.choice(pools()["names"])
        return text if field.type == field.TYPE_STRING else text.encode() * rng.choice((1, 2, 8))
    if field.enum_type is not None and rng.random() < 0.8:
        return rng.choice(field.enum_type.values).number
    if field.cpp_type in (field.CPPTYPE_FLOAT, field.CPPTYPE_DOUBLE):
        return rng.choice((0.0, -0.0, 1.0, 1e30, float("inf"), float("nan")))
    return rng.choice(EXTREMES) if rng.random() < 0.6 else rng.randrange(-2, 25)


@functools.cache
def pools() -> dict[str, list[Any]]:
    """Return all messages in the seeds by their type, and all names in them."""
    found: dict[str, list[Any]] = {"names": []}

    def visit(message: Any) -> None:
        found.setdefault(message.DESCRIPTOR.full_name, []).append(message)
        for field, value in message.ListFields():
            values = value if field.is_repeated else [value]
            if field.message_type:
                for element in values:
                    visit(element)
            elif field.type == field.TYPE_STRING:
                found["names"] += values

    for message in (*messages(), *external_messages()):
        visit(message)
    return found


def new_message(rng: random.Random, seeds: Sequence[onnx.ModelProto]) -> onnx.ModelProto:
    """Return one of the models with some fields changed."""
    message = onnx.ModelProto()
    message.CopyFrom(rng.choice(seeds))
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        changed_message(rng, message)
    return message


def changed_value(rng: random.Random, value: Any) -> Any:
    """Return a copy of the content of a FlatBuffer with a change somewhere."""
    here = rng.random() < 0.15
    if isinstance(value, dict):
        if not value:
            return value
        key = rng.choice(sorted(value))
        if here:
            return {name: held for name, held in value.items() if name != key}
        return {**value, key: changed_value(rng, value[key])}
    if isinstance(value, tuple) and len(value) == 2 and isinstance(value[1], dict):
        union = next(
            members for members in (*UNIONS.values(), *ort_buffers.SCHEMA.unions.values()) if value[0] in members
        )
        return (rng.choice(union), value[1]) if here else (value[0], changed_value(rng, value[1]))
    if isinstance(value, (list, tuple)) and value:
        place = rng.randrange(len(value))
        inner = [rng.choice(value)] * rng.choice((0, 2, 30)) if here else [changed_value(rng, value[place])]
        return type(value)([*value[:place], *inner, *value[place + 1 :]])
    if isinstance(value, (list, tuple)):
        return value if here else type(value)([rng.choice(EXTREMES)])
    if isinstance(value, str):
        return rng.choice(TEXTS)
    return rng.choice(EXTREMES) if rng.random() < 0.5 else rng.randrange(-1, 12)


@functools.cache
def rten_content(data: bytes) -> tuple[fbs.Table, bytes]:
    """Return the content of a .rten file, and its tensor section."""
    model, tensors = data, b""
    if is_v2(data):
        header = decode_header(data, len(data))
        model = data[header.model_offset :][: header.model_nbytes]
        tensors = data[header.tensor_data_offset :]
    return _with_bytes(read_table(model), model), tensors


def _with_bytes(value: Any, buffer: bytes) -> Any:
    """Return what was read from a buffer, with the elements of the constants included."""
    if isinstance(value, fbs.ConstantSpan):
        return buffer[value.offset :][: value.nbytes]
    if isinstance(value, dict):
        return {name: _with_bytes(held, buffer) for name, held in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)([_with_bytes(element, buffer) for element in value])
    return value


def changed_rten(rng: random.Random, data: bytes) -> bytes:
    """Return a .rten file with some values changed."""
    table, tensors = rten_content(data)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        table = changed_value(rng, table)
    model = b"".join(bytes(segment) for segment in build(table) if isinstance(segment, (bytes, bytearray)))
    if not is_v2(data):
        return model
    start = -(-(HEADER_NBYTES + len(model)) // 64) * 64
    return (encode_header(Header(HEADER_NBYTES, len(model), start)) + model).ljust(start, b"\0") + tensors


@functools.cache
def ort_content(data: bytes) -> fbs.Table:
    """Return the content of a .ort file."""
    return _with_bytes(fbs.read(data, ort_buffers.SCHEMA), data)


def changed_ort(rng: random.Random, data: bytes) -> bytes:
    """Return a .ort file with some values changed."""
    table = ort_content(data)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        table = changed_value(rng, table)
    segments = builder.build_buffer(table, ort_buffers.SCHEMA)
    return b"".join(bytes(segment) for segment in segments if isinstance(segment, (bytes, bytearray)))


def with_model(archive: bytes, model: bytes) -> bytes:
    """Return the archive with another graph as its last member; sizes and checksum are right."""
    end = archive.rindex(b"PK\5\6")
    central = archive.rindex(b"PK\1\2", 0, end)
    directory = struct.unpack_from("<I", archive, end + 16)[0]
    local = struct.unpack_from("<I", archive, central + 42)[0]
    if 0xFFFFFFFF in (directory, local):
        return archive
    head = bytearray(archive[local : local + 30 + sum(struct.unpack_from("<2H", archive, local + 26))])
    tail = bytearray(archive[directory:])
    facts = (zlib.crc32(model), len(model), len(model))
    struct.pack_into("<3I", head, 14, *facts)
    struct.pack_into("<3I", tail, central - directory + 16, *facts)
    struct.pack_into("<I", tail, end - directory + 16, local + len(head) + len(model))
    return archive[:local] + bytes(head) + model + bytes(tail)


# Changes of bytes


def changed_bytes(rng: random.Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Return the data with some places changed."""
    buffer = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 4))):
        if not buffer:
            break
        near = rng.randrange(min(len(buffer), NEAR_AN_END))  # where the structure is, if there are weights
        place = rng.choice((rng.randrange(len(buffer)), near, len(buffer) - 1 - near))
        rng.choice(_EDITS)(rng, buffer, place, rng.choice(others))
    return bytes(buffer)


def _set_byte(rng: random.Random, buffer: bytearray, place: int, other: bytes) -> None:
    buffer[place] = rng.choice((0, 1, 4, 0x7F, 0x80, 0xFF, rng.randrange(256), buffer[place] ^ (1 << rng.randrange(8))))


def _set_number(rng: random.Random, buffer: bytearray, place: int, other: bytes) -> None:
    size = rng.choice((2, 4, 4, 8))
    place -= place % rng.choice((1, size))
    near = (len(buffer), len(buffer) - place, place, int.from_bytes(buffer[place : place + size], "little"))
    number = rng.choice((rng.choice(EXTREMES), rng.choice(near) + rng.choice((-64, -4, -1, 0, 1, 4, 64))))
    buffer[place : place + size] = (number % (1 << 8 * size)).to_bytes(size, "little")[: len(buffer) - place]


def _set_varint(rng: random.Random, buffer: bytearray, place: int, other: bytes) -> None:
    end = place
    while end < len(buffer) - 1 and buffer[end] >= 0x80:
        end += 1
    number = rng.choice((rng.choice(EXTREMES) % (1 << 64), len(buffer) - place, buffer[place] + rng.randrange(-3, 4)))
    varint = bytearray()
    while number > 0x7F:
        varint.append(number & 0x7F | 0x80)
        number >>= 7
    buffer[place : end + 1] = bytes([*varint, max(number, 0)])


def _cut(rng: random.Random, buffer: bytearray, place: int, other: bytes) -> None:
    del buffer[place : place + rng.choice((1, 2, 4, 8, 64, len(buffer)))]


def _repeat(rng: random.Random, buffer: bytearray, place: int, other: bytes) -> None:
    piece = buffer[place : place + rng.choice((1, 4, 16, 200))]
    buffer[place:place] = piece * rng.choice((1, 1, 2, 100))


def _insert(rng: random.Random, buffer: bytearray, place: int, other: bytes) -> None:
    buffer[place:place] = rng.randbytes(rng.choice((1, 2, 4, 16)))


def _splice(rng: random.Random, buffer: bytearray, place: int, other: bytes) -> None:
    start = rng.randrange(len(other))
    piece = other[start : start + rng.choice((1, 4, 16, 64, 400))]
    buffer[place : place + rng.choice((0, len(piece)))] = piece


_EDITS = (_set_byte, _set_byte, _set_number, _set_number, _set_varint, _cut, _repeat, _insert, _splice)


def changed_text(rng: random.Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Return the text with some tokens changed."""
    tokens = re.findall(r'\w+|"|\s+|.', data.decode(), re.DOTALL)
    for _ in range(rng.choice((1, 1, 2, 4))):
        if not tokens:
            break
        place, size = rng.randrange(len(tokens)), rng.choice((0, 1, 1, 4))
        source = rng.random()
        if source < 0.4:
            piece = [rng.choice(TOKENS) if rng.random() < 0.5 else str(rng.choice(EXTREMES))]
        elif source < 0.8:
            start = rng.randrange(len(tokens))
            piece = tokens[start : start + rng.choice((1, 1, 5, 50))] * rng.choice((1, 1, 20))
        else:
            piece = []
        tokens[place : place + size] = piece
    changed = "".join(tokens).encode("utf-8", "surrogatepass")
    return changed_bytes(rng, changed, others) if rng.random() < 0.1 else changed


# Targets


def bytes_or(structured: Callable[[random.Random, bytes], bytes]) -> Callable[[random.Random, Sequence[bytes]], bytes]:
    """Return a function that changes bytes of a seed, changes its structure, or does both."""

    def change(rng: random.Random, seeds: Sequence[bytes]) -> bytes:
        kind = rng.random()
        if kind < 0.45:
            return changed_bytes(rng, rng.choice(seeds), seeds)
        try:
            data = structured(rng, rng.choice(seeds))
        except Exception:  # not every changed model can be serialised
            return changed_bytes(rng, rng.choice(seeds), seeds)
        return data if kind < 0.9 else changed_bytes(rng, data, seeds)

    return change


def text_or(printed: Callable[[onnx.ModelProto], str]) -> Callable[[random.Random, Sequence[bytes]], bytes]:
    """Return a function that changes tokens of a seed, or prints a model with a changed structure."""

    def change(rng: random.Random, seeds: Sequence[bytes]) -> bytes:
        if rng.random() < 0.7:
            return changed_text(rng, rng.choice(seeds), seeds)
        return printed(new_message(rng, small_messages())).encode("utf-8", "surrogatepass")

    return change


def changed_lines(rng: random.Random, data: bytes) -> bytes:
    """Return lines of JSON with some values changed."""
    lines = [json.loads(line) for line in data.splitlines()]
    for _ in range(rng.choice((1, 1, 2, 3))):
        place = rng.randrange(len(lines))
        lines[place] = changed_value(rng, lines[place])
    return "".join(f"{json.dumps(line)}\n" for line in lines).encode()


def changed_undo(rng: random.Random, data: bytes) -> bytes:
    """Return an undo file with other numbers, or another old end of the file, whose digest is right."""
    magic, *numbers, head, _ = records.UNDO.unpack_from(data)
    tail = data[records.UNDO.size :]
    place = rng.randrange(4)
    if place < 3:
        number = rng.choice((rng.choice(EXTREMES), numbers[place] + rng.choice((-64, -1, 1, 64))))
        numbers[place] = number % (1 << 64)
    else:
        tail = changed_bytes(rng, tail, [data])
        numbers[1] = numbers[0] + len(tail)
    return records.UNDO.pack(magic, *numbers, head, hashlib.sha256(tail).digest()) + tail


def text_change(rng: random.Random, seeds: Sequence[bytes]) -> bytes:
    """Return a seed with some tokens changed."""
    return changed_text(rng, rng.choice(seeds), seeds)


def json_change(rng: random.Random, seeds: Sequence[bytes]) -> bytes:
    """Return a seed, which is lines of JSON, with some values or tokens changed."""
    return changed_lines(rng, rng.choice(seeds)) if rng.random() < 0.6 else text_change(rng, seeds)


RECORD_CHANGES = {
    "journal": json_change,
    "undo": bytes_or(changed_undo),
    "manifest": json_change,
    "hashes": text_change,
}


def use_record(kind: str) -> Callable[[bytes, int], None]:
    """Return a function that puts a record beside a model, and uses the model."""
    return lambda data, number: records.use(kind, data)


WRITTEN: Sequence[tuple[str, dict[str, Any]]] = (
    ("rten", {}),
    ("onnx", {}),
    ("rten", {"exact": True, "rten_version": 1}),
    ("onnxz", {"size_threshold": 8}),
    ("rten", {}),
    ("textproto", {}),
    ("json", {}),
)


def exercise(model: Model, number: int) -> None:
    """Read every weight, and for every few inputs write the model in one of the formats."""
    for _, tensor in walk.tensors(model):
        try:
            tensor.numpy()
        except FormatError:
            pass
    turn, now = divmod(number, 8)
    if now == 0:
        target, options = WRITTEN[turn % len(WRITTEN)]
        if any(entry.domain == RTEN_DOMAIN for entry in model.opset_import):  # which changes the results
            options = {name: value for name, value in options.items() if name != "exact"}
        formats.dumps(model, target, threads=1, **options)


def use_bytes(format_name: str) -> Callable[[bytes, int], None]:
    """Return a function that reads bytes in a format, and sometimes verifies and inspects them as a file."""
    reading: dict[str, Any] = {"key": KEY, "allow_encryption": 1} if format_name == "onnxc" else {}

    def use(data: bytes, number: int) -> None:
        if number % 32 == 1 and format_name != "onnxc":
            use_file(data, number, format_name)
        exercise(formats.loads(data, format=format_name, **reading), number)

    return use


def use_lenient(data: bytes, number: int) -> None:
    """Read an archive as `--lenient` does."""
    read = lookup.by_name("onnxz").read_lenient
    assert read is not None
    exercise(read(Literal(data), None)[0], number)


@functools.cache
def folder() -> Path:
    """A folder with data files for external tensors, which is removed when the process ends."""
    made = tempfile.TemporaryDirectory(prefix="fuzz-")
    atexit.register(made.cleanup)
    Path(made.name, "sub").mkdir()
    for name in ("m.data", "sub/w", "w"):
        Path(made.name, name).write_bytes(bytes(range(256)) * 16)
    return Path(made.name)


def use_file(data: bytes, number: int, format_name: str | None = None) -> None:
    """Read a file of any format; every few inputs, verify and inspect it as well."""
    path = folder() / "m"
    path.write_bytes(data)
    if number % 8 == 1:
        formats.verify(path, format=format_name, data=True)
        formats.inspect(path, format=format_name)
    exercise(formats.load(path, format=format_name), number)


def text_of(message: onnx.ModelProto) -> str:
    """Return the model in protobuf's text format."""
    return text_format.MessageToString(message)


def json_of(message: onnx.ModelProto) -> str:
    """Return the model in protobuf's JSON."""
    return json_format.MessageToJson(message, indent=1)


def changed_model(rng: random.Random, data: bytes) -> bytes:
    """Return a model as protobuf with some fields changed."""
    return new_message(rng, [onnx.ModelProto.FromString(data)]).SerializeToString()


def changed_archive(rng: random.Random, data: bytes) -> bytes:
    """Return an archive with a changed graph that no longer fits the members, or that does not use them."""
    with zipfile.ZipFile(io.BytesIO(data)) as opened:
        model = opened.read(opened.namelist()[-1])
    return with_model(data, changed_model(rng, model))


def changed_secret(rng: random.Random, data: bytes) -> bytes:
    """Return an encrypted model with some fields changed, encrypted again."""
    model = formats.dumps(formats.loads(data, format="onnxc", key=KEY, allow_encryption=1), "onnx")
    changed = formats.loads(changed_model(rng, model))
    return formats.dumps(changed, "onnxc", key=KEY, encryption=rng.choice((1, 2, 3)), threads=1)


def external_seeds() -> list[bytes]:
    """Return the models with data files as protobuf."""
    return [message.SerializeToString() for message in external_messages()]


TARGETS = {
    "onnx": Target(functools.cache(binary), bytes_or(changed_model), use_bytes("onnx")),
    "external": Target(functools.cache(external_seeds), bytes_or(changed_model), use_file),
    "textproto": Target(
        functools.cache(lambda: [text_of(message).encode() for message in small_messages()]),
        text_or(text_of),
        use_bytes("textproto"),
    ),
    "json": Target(
        functools.cache(lambda: [json_of(message).encode() for message in small_messages()]),
        text_or(json_of),
        use_bytes("json"),
    ),
    "onnxc": Target(functools.cache(encrypted), bytes_or(changed_secret), use_bytes("onnxc")),
    "onnxz": Target(functools.cache(archives), bytes_or(changed_archive), use_bytes("onnxz")),
    "onnxz-lenient": Target(functools.cache(foreign_archives), bytes_or(changed_archive), use_lenient),
    "ort": Target(functools.cache(ort_files), bytes_or(changed_ort), use_bytes("ort")),
    "rten1": Target(functools.cache(lambda: golden(1)), bytes_or(changed_rten), use_bytes("rten")),
    "rten2": Target(functools.cache(lambda: golden(2)), bytes_or(changed_rten), use_bytes("rten")),
    **{
        kind: Target(functools.cache(seeds), RECORD_CHANGES[kind], use_record(kind))
        for kind, (seeds, _) in records.RECORDS.items()
    },
}


# Running


class WaitedError(BaseException):
    """An input took too long; nothing that handles errors of readers stops this one."""


def _waited(*_: Any) -> None:
    raise WaitedError(f"no answer after {MAX_WAIT} s")


def failure(target: Target, data: bytes, number: int) -> str:
    """Return what is wrong with a target's answer to an input, or ""."""
    started, peak = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    windows = patch.multiple(decoder, WHOLE_BYTES=0, WINDOW_BYTES=64)  # as for a large file
    signal.signal(signal.SIGALRM, _waited)
    signal.alarm(MAX_WAIT)
    try:
        with nullcontext() if number % 3 else windows:
            target.use(data, number)
    except FormatError:
        pass
    except OSError as error:
        if target.use is not use_file:
            return f"{traceback.format_exc()}\n{error}"
    except (Exception, WaitedError):
        return traceback.format_exc()
    finally:
        signal.alarm(0)
    seconds = time.process_time() - started
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak
    if seconds > MAX_SECONDS:
        return f"took {seconds:.1f} s"
    return f"took {grown >> 10} MiB" if grown > MAX_RESIDENT_KIB else ""


def inputs(name: str, target: Target, seed: int) -> Iterator[bytes]:
    """Yield the inputs for a target, the seeds first."""
    seeds = target.seeds()
    yield from seeds
    for number in itertools.count():
        yield target.change(random.Random(f"{seed}/{name}/{number}"), seeds)


def run(name: str, target: Target, until: Callable[[int], bool], seed: int, keep: Path, known: set[str]) -> int:
    """Return the number of inputs that a target got; put those that fail in `keep`, and their kinds in `known`."""
    for number, data in enumerate(inputs(name, target, seed)):
        if until(number):
            break
        text = failure(target, data, number)
        places = "".join(re.findall(r'File ".*?, line \d+|^\w+Error: .{,25}', text, re.MULTILINE)[-2:]) or text[:10]
        if text and places not in known:
            known.add(places)
            keep.mkdir(parents=True, exist_ok=True)
            path = keep / f"{name}-{seed}-{number}"
            path.write_bytes(data)
            print(f"{path} (input {number} of seed {seed}):\n{text}", flush=True)
    return number


def limit_memory() -> None:
    """Limit the process to little more memory than it has now."""
    pages = int(Path("/proc/self/statm").read_text().split()[0]) if Path("/proc/self/statm").exists() else 1 << 18
    limit = pages * resource.getpagesize() + MAX_MEMORY_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, resource.getrlimit(resource.RLIMIT_AS)[1]))


def main() -> int:
    """Run the targets; return whether anything failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("formats", nargs="*", metavar="FORMAT", help=", ".join(TARGETS))
    parser.add_argument("--seconds", type=float, default=10, help="for each format")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--input", type=Path, help="try this file only")
    parser.add_argument("--keep", type=Path, default=Path(tempfile.gettempdir(), "fuzz-failures"), help="a folder")
    given = parser.parse_args()
    unknown = set(given.formats) - TARGETS.keys()
    if unknown:
        parser.error(f"there is no format {', '.join(sorted(unknown))}")
    warnings.simplefilter("error")
    crypt.KEY_ITERATIONS = 1
    names = given.formats or list(TARGETS)
    faulthandler.dump_traceback_later(2 * MAX_WAIT, exit=True)
    for name in names:
        TARGETS[name].seeds()
    limit_memory()
    failures = 0
    for name in names:
        faulthandler.dump_traceback_later(given.seconds + 2 * MAX_WAIT, exit=True)  # where a signal changes nothing
        if given.input:
            number = int(given.input.name.rpartition("-")[2])
            text = failure(TARGETS[name], given.input.read_bytes(), number)
            print(text or "nothing")
            failures += bool(text)
            continue
        known: set[str] = set()
        end = time.monotonic() + given.seconds
        count = run(name, TARGETS[name], lambda _: time.monotonic() > end, given.seed, given.keep, known)  # noqa: B023
        print(f"{name}: {count} inputs, {count / given.seconds:.0f} a second, {len(known)} failures", flush=True)
        failures += len(known)
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())
