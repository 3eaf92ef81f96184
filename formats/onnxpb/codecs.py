"""The codecs of ONNX messages: binary with external data, encrypted, and as text."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from formats.codecs.contract import READ_DEFAULTS, Codec, DataFileOptions, Match
from formats.ir import walk
from formats.ir.copies import shallow
from formats.ir.storage import moved_entries
from formats.onnxpb.options import CryptOptions, OnnxOptions, TextOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
    from pathlib import Path

    from formats.codecs.contract import Checksum, ReadOptions
    from formats.ir.model import Model, Tensor
    from formats.tensordata.plan import FilePlan, Loss, WritePlan
    from formats.tensordata.sources.source import Source

# The fields of ModelProto by tag, as far as a file's first bytes need them: all are varints or have a length.
_IR_VERSION = 0x08
_VARINT_TAGS = frozenset({0x08, 0x28})
_LENGTH_TAGS = frozenset({0x12, 0x1A, 0x22, 0x32, 0x3A, 0x42, 0x72, 0xA2, 0xCA, 0xD2})  # the last three have two bytes


def looks_like_model(head: bytes, nbytes: int) -> Match:
    """How much the first bytes of a file look like a ModelProto, which has no magic number.

    Strong if it starts with a plausible `ir_version`, followed by known fields that fit the file.
    """
    if len(head) < 2 or (head[0] not in _VARINT_TAGS and head[0] not in _LENGTH_TAGS):
        return Match.NONE
    starts_as_model = head[0] == _IR_VERSION and 0 < head[1] < 0x80
    position = fields = 0
    while position < len(head) - 11:
        tag = head[position]
        if tag >= 0x80:
            position += 1
            tag = tag & 0x7F | head[position] << 7
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


class OnnxCodec(Codec):
    """Binary ONNX, with external data in other files."""

    name = "onnx"
    title = "ONNX protobuf"
    extensions = (".onnx",)
    options = OnnxOptions
    has_scattered_weights = True

    def sniff(self, head: bytes, nbytes: int) -> Match:
        """How much it looks like a ModelProto."""
        return looks_like_model(head, nbytes)

    def read(self, source: Source, path: Path | None, options: ReadOptions = READ_DEFAULTS) -> Model:
        """The model; its external data is looked for next to `path`."""
        from formats.onnxpb.external.model import read_model

        return read_model(source, path, options)

    def plan(self, model: Model, destination: Path, options: OnnxOptions) -> WritePlan:
        """The model file, and the file of its external data next to it."""
        from formats.onnxpb.external.model import plan_model

        return plan_model(model, destination, options)

    def plan_graph(self, model: Model, destination: Path, new: Callable[[str], str | None]) -> FilePlan:
        """The message with other locations; there are never two references of all tensors in memory."""
        from formats.onnxpb.wire.encoder import encode
        from formats.tensordata.plan import FilePlan, lay_out

        def moved(tensor: Tensor) -> Tensor:
            if not walk.is_external(tensor):
                return tensor
            copy = shallow(tensor)
            copy.external_data = moved_entries(tensor, new)
            return copy

        writes, nbytes = lay_out(encode(model, moved))
        return FilePlan(destination, nbytes, tuple(writes))

    def data_files(self, options: OnnxOptions) -> DataFileOptions:
        """Their name and alignment, whether the graph is linked to an archive instead, and whether equals are one."""
        name = options.external_data if isinstance(options.external_data, str) else None
        return DataFileOptions(
            name, options.aligned_to, keeps_references=True, in_archive=options.link, dedup=options.dedup
        )

    def in_one_file(self, keywords: Mapping[str, Any]) -> Mapping[str, Any]:
        """The keywords with `external_data=False`, unless they say something else, or the graph is linked."""
        return keywords if keywords.get("link") else {"external_data": False, **keywords}

    def checksums(self, source: Source, model: Model, original: Source | None) -> Iterator[Checksum]:
        """The SHA-1 of data files, if tensors have it."""
        from formats.onnxpb.external.data_files import checksums_of

        return checksums_of(model)

    def shared_data(self, plan: WritePlan, overwrite: bool, model_extensions: Collection[str]) -> Iterable[Loss]:
        """Each other model whose weights the plan replaces, and each data file that it leaves behind."""
        from formats.onnxpb.external.data_files import check_shared_data, left_behind

        stays = left_behind(plan, model_extensions) if overwrite else ()
        return (*check_shared_data(plan, overwrite), *stays)


class EncryptedCodec(Codec):
    """A binary ONNX message, encrypted, with all weights inside."""

    name = "onnxc"
    title = "encrypted ONNX"
    extensions = (".onnxc",)
    options = CryptOptions
    encrypted = True

    def sniff(self, head: bytes, nbytes: int) -> Match:
        """Whether it begins with the magic number."""
        return Match.STRONG if head.startswith(b"ONNXCRY") else Match.NONE

    def read(self, source: Source, path: Path | None, options: ReadOptions = READ_DEFAULTS) -> Model:
        """The model, which is encrypted with `options.key`."""
        from formats.onnxpb.encryption.crypt import read_model

        return read_model(source, path, options)

    def plan(self, model: Model, destination: Path, options: CryptOptions) -> WritePlan:
        """The one file."""
        from formats.onnxpb.encryption.crypt import plan_model

        return plan_model(model, destination, options)

    def cautions(self, source: Source, model: Model) -> Iterator[Loss]:
        """Each part of the file that the key does not protect."""
        from formats.onnxpb.encryption.crypt import cautions

        return cautions(source, model)


class TextCodec(Codec):
    """A ModelProto in protobuf's text format, whose external data are files next to it."""

    name = "textproto"
    title = "protobuf text"
    extensions: tuple[str, ...] = (".textproto", ".txtpb", ".prototxt", ".pbtxt")
    options = TextOptions
    is_text = True

    def sniff(self, head: bytes, nbytes: int) -> Match:
        """Weakly, if it begins with a field of ModelProto."""
        begin = re.match(rb"(?:\xef\xbb\xbf)?(?:\s|#[^\n]*(?:\n|\Z))*(?:(\w+)\s*[:{<]|\Z)", head)
        return Match.WEAK if begin and begin[0] and (begin[1] is None or _is_field(begin[1])) else Match.NONE

    def read(self, source: Source, path: Path | None, options: ReadOptions = READ_DEFAULTS) -> Model:
        """The model; its external data is looked for next to `path`."""
        from formats.onnxpb.text import textfile, textproto

        return textfile.read_model(source, path, options, textproto.parse_text)

    def plan(self, model: Model, destination: Path, options: TextOptions) -> WritePlan:
        """The model as text."""
        from formats.onnxpb.text import textfile, textproto

        return textfile.plan_model(model, destination, options, textproto.text_parts)

    def data_files(self, options: TextOptions) -> DataFileOptions:
        """References stay as they are, unless all weights are in the text."""
        return DataFileOptions(keeps_references=options.external_data is None)

    def in_one_file(self, keywords: Mapping[str, Any]) -> Mapping[str, Any]:
        """The keywords with `external_data=False`, unless they say something else."""
        return {"external_data": False, **keywords}

    def checksums(self, source: Source, model: Model, original: Source | None) -> Iterator[Checksum]:
        """As those of `.onnx`."""
        return CODEC.checksums(source, model, original)


class JsonCodec(TextCodec):
    """A ModelProto in protobuf's JSON, whose external data are files next to it."""

    name = "json"
    title = "protobuf JSON"
    extensions = (".json", ".onnxjson")

    def sniff(self, head: bytes, nbytes: int) -> Match:
        """Weakly, if it begins with a field of ModelProto."""
        begin = re.match(rb'(?:\xef\xbb\xbf)?\s*\{\s*"(\w+)"\s*:', head)
        return Match.WEAK if begin and _is_field(begin[1]) else Match.NONE

    def read(self, source: Source, path: Path | None, options: ReadOptions = READ_DEFAULTS) -> Model:
        """The model; its external data is looked for next to `path`."""
        from formats.onnxpb.text import protojson, textfile

        return textfile.read_model(source, path, options, protojson.parse_json)

    def plan(self, model: Model, destination: Path, options: TextOptions) -> WritePlan:
        """The model as JSON."""
        from formats.onnxpb.text import protojson, textfile

        return textfile.plan_model(model, destination, options, protojson.json_parts)


def _is_field(name: bytes) -> bool:
    """Whether a ModelProto has a field with this name, in either notation."""
    from formats.onnxpb.wire.schema import MESSAGES

    spelling = name.decode().replace("_", "").lower()
    return any(row.name.replace("_", "") == spelling for row in MESSAGES["ModelProto"])


CODEC = OnnxCodec()
CRYPT_CODEC = EncryptedCodec()
TEXT_CODEC = TextCodec()
JSON_CODEC = JsonCodec()
