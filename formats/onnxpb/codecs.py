"""The codecs of ONNX messages: binary with external data, encrypted, and as text."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from formats.codecs.contract import READ_DEFAULTS, Codec, Match
from formats.onnxpb.options import CryptOptions, OnnxOptions, TextOptions

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from formats.codecs.contract import Checksum, ReadOptions
    from formats.ir.model import Model
    from formats.tensordata.plan import Loss, WritePlan
    from formats.tensordata.sources.source import Source

# The fields of ModelProto by tag, as far as a file's first bytes need them: all are varints or have a length.
_IR_VERSION = 0x08
_VARINT_TAGS = frozenset({0x08, 0x28})
_LENGTH_TAGS = frozenset({0x12, 0x1A, 0x22, 0x32, 0x3A, 0x42, 0x72})


def sniff(head: bytes, nbytes: int) -> Match:
    """How much the first bytes of a file look like a ModelProto, which has no magic number.

    Strong if it starts with a plausible `ir_version`, followed by known fields that fit the file.
    """
    if len(head) < 2 or (head[0] not in _VARINT_TAGS and head[0] not in _LENGTH_TAGS):
        return Match.NONE
    starts_as_model = head[0] == _IR_VERSION and 0 < head[1] < 0x80
    position = fields = 0
    while position < len(head) - 11:
        tag = head[position]
        value, shift, position = 0, 0, position + 1
        while head[position] >= 0x80 and shift < 63:
            value |= (head[position] & 0x7F) << shift
            shift += 7
            position += 1
        value |= head[position] << shift
        position += 1
        if tag in _LENGTH_TAGS:
            position += value
        elif tag not in _VARINT_TAGS:
            return Match.WEAK if fields > 2 else Match.NONE
        if position > nbytes:
            return Match.WEAK
        fields += 1
    return Match.STRONG if starts_as_model else Match.WEAK


def read(source: Source, path: Path | None, options: ReadOptions = READ_DEFAULTS) -> Model:
    """The model in `source`; its external data is looked for next to `path`."""
    from formats.onnxpb.external.model import read_model

    return read_model(source, path, options)


def plan(model: Model, destination: Path, options: OnnxOptions) -> WritePlan:
    """How to write `model` to `destination`, and its external data next to it."""
    from formats.onnxpb.external.model import plan_model

    return plan_model(model, destination, options)


def checksums(source: Source, model: Model, original: Source | None) -> Iterator[Checksum]:
    """The SHA-1 of data files, if tensors have it."""
    from formats.onnxpb.external.checksums import checksums_of

    return checksums_of(model)


def losses_of_others(plan: WritePlan, overwrite: bool) -> Iterable[Loss]:
    """A loss for each other model whose weights the plan replaces, and for each data file that it leaves behind."""
    from formats.onnxpb.external.shared_data import check_shared_data, left_behind

    return (*check_shared_data(plan, overwrite), *(left_behind(plan) if overwrite else ()))


CODEC = Codec(
    "onnx",
    "ONNX protobuf",
    (".onnx",),
    OnnxOptions,
    sniff,
    read,
    plan,
    checksums=checksums,
    shared_data=losses_of_others,
)


def sniff_encrypted(head: bytes, nbytes: int) -> Match:
    """How much the first bytes of a file look like an encrypted model: they have a magic number."""
    return Match.STRONG if head.startswith(b"ONNXCRY") else Match.NONE


def read_encrypted(source: Source, path: Path | None, options: ReadOptions = READ_DEFAULTS) -> Model:
    """The model in `source`, which is encrypted with `options.key`."""
    from formats.onnxpb.encryption.crypt import read_model

    return read_model(source, path, options)


def plan_encrypted(model: Model, destination: Path, options: CryptOptions) -> WritePlan:
    """How to write `model`, encrypted, to the one file `destination`."""
    from formats.onnxpb.encryption.crypt import plan_model

    return plan_model(model, destination, options)


def cautions_encrypted(source: Source, model: Model) -> Iterator[Loss]:
    """A loss for each part of an encrypted model that its key does not protect."""
    from formats.onnxpb.encryption.crypt import cautions

    return cautions(source, model)


CRYPT_CODEC = Codec(
    "onnxc",
    "encrypted ONNX",
    (".onnxc",),
    CryptOptions,
    sniff_encrypted,
    read_encrypted,
    plan_encrypted,
    cautions=cautions_encrypted,
    encrypted=True,
)


def sniff_text(head: bytes, nbytes: int) -> Match:
    """How much the first bytes of a file look like a ModelProto in text format: weakly, if they begin with a field."""
    begin = re.match(rb"(?:\xef\xbb\xbf)?(?:\s|#[^\n]*(?:\n|\Z))*(?:(\w+)\s*[:{<]|\Z)", head)
    return Match.WEAK if begin and begin[0] and (begin[1] is None or _is_field(begin[1])) else Match.NONE


def sniff_json(head: bytes, nbytes: int) -> Match:
    """How much the first bytes of a file look like a ModelProto in JSON: weakly, if they begin with a field."""
    begin = re.match(rb'(?:\xef\xbb\xbf)?\s*\{\s*"(\w+)"\s*:', head)
    return Match.WEAK if begin and _is_field(begin[1]) else Match.NONE


def _is_field(name: bytes) -> bool:
    """Whether a ModelProto has a field with this name, in either notation."""
    from formats.onnxpb.wire.schema import MESSAGES

    spelling = name.decode().replace("_", "").lower()
    return any(row.name.replace("_", "") == spelling for row in MESSAGES["ModelProto"])


def read_text(source: Source, path: Path | None, options: ReadOptions = READ_DEFAULTS) -> Model:
    """The model in the text `source`; its external data is looked for next to `path`."""
    from formats.onnxpb.text import textfile, textproto

    return textfile.read_model(source, path, options, textproto.parse)


def plan_text(model: Model, destination: Path, options: TextOptions) -> WritePlan:
    """How to write `model` in protobuf's text format to `destination`."""
    from formats.onnxpb.text import textfile, textproto

    return textfile.plan_model(model, destination, options, textproto.to_text)


def read_json(source: Source, path: Path | None, options: ReadOptions = READ_DEFAULTS) -> Model:
    """The model in the JSON text `source`; its external data is looked for next to `path`."""
    from formats.onnxpb.text import protojson, textfile

    return textfile.read_model(source, path, options, protojson.parse)


def plan_json(model: Model, destination: Path, options: TextOptions) -> WritePlan:
    """How to write `model` as JSON to `destination`."""
    from formats.onnxpb.text import protojson, textfile

    return textfile.plan_model(model, destination, options, protojson.to_json)


TEXT_CODEC = Codec(
    "textproto",
    "protobuf text",
    (".textproto", ".txtpb", ".prototxt", ".pbtxt"),
    TextOptions,
    sniff_text,
    read_text,
    plan_text,
    checksums=checksums,
)
JSON_CODEC = Codec(
    "json", "protobuf JSON", (".json", ".onnxjson"), TextOptions, sniff_json, read_json, plan_json, checksums=checksums
)
