"""Binary ONNX: protobuf files, with their external data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from formats.registry import Codec, Match

if TYPE_CHECKING:
    from pathlib import Path

    from formats.ir.model import Model
    from formats.onnxpb.keys import Key
    from formats.tensordata.plan import WritePlan
    from formats.tensordata.source import Source


@dataclass(frozen=True, slots=True)
class OnnxOptions:
    """How an `.onnx` file is written.

    `external_data`: a file name beside the model that takes the weights, or `True` for the usual one,
    `<model file name>.data`; `False` puts all weights into the model file; `None` leaves each tensor inside or
    outside as it is. `size_threshold`: the size in bytes from which a tensor moves out. `alignment`: of each tensor
    in that file, in bytes from its start. `max_external_file_size`: the size in bytes at which a further file is
    begun, between tensors, so that a larger tensor has a larger file to itself; 0 is no limit.
    """

    external_data: str | bool | None = None
    size_threshold: int = 1024
    alignment: int = 64
    max_external_file_size: int = 0
    one_file_per_tensor: bool = False


# The fields of ModelProto by tag, as far as a file's first bytes need them: every one is a varint or has a length.
_IR_VERSION = 0x08
_VARINT_TAGS = frozenset({0x08, 0x28})
_LENGTH_TAGS = frozenset({0x12, 0x1A, 0x22, 0x32, 0x3A, 0x42, 0x72})


def sniff(head: bytes, nbytes: int) -> Match:
    """How much the first bytes of a file look like a ModelProto: there is no magic number to go by.

    Strong when it starts with a plausible `ir_version` and goes on with known fields that fit the file.
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


def read(source: Source, path: Path | None) -> Model:
    """The model in `source`; its external data is looked for beside `path`."""
    from formats.onnxpb.external import read_model

    return read_model(source, path)


def plan(model: Model, destination: Path, options: OnnxOptions) -> WritePlan:
    """How to write `model` to `destination`, and its external data beside it."""
    from formats.onnxpb.external import plan_model

    return plan_model(model, destination, options)


CODEC = Codec("onnx", "ONNX protobuf", (".onnx",), OnnxOptions, sniff, read, plan)


# Encrypted models


@dataclass(frozen=True, slots=True)
class CryptOptions:
    """How an `.onnxc` file is written, with all weights in it.

    `key`: what encrypts it; there is none by default, so one must be given. `variant`: 3 is AES-256-GCM, 2 is
    ChaCha20-Poly1305, and 1 is AES-256-CBC, which cannot tell when a file was tampered with.
    """

    key: Key | None = None
    variant: int = 3


def crypt_codec(key: Key | None = None) -> Codec:
    """The codec of encrypted models, which reads those of `key`; writing takes the key from its options."""

    def sniff(head: bytes, nbytes: int) -> Match:
        return Match.STRONG if head.startswith(b"ONNXCRY") else Match.NONE

    def read(source: Source, path: Path | None) -> Model:
        from formats.onnxpb.crypt import read_model

        return read_model(source, path, key)

    def plan(model: Model, destination: Path, options: CryptOptions) -> WritePlan:
        from formats.onnxpb.crypt import plan_model

        return plan_model(model, destination, options)

    return Codec("onnxc", "encrypted ONNX", (".onnxc",), CryptOptions, sniff, read, plan)


CRYPT_CODEC = crypt_codec()
