"""Binary ONNX: protobuf files, with their external data."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from formats.codecs.contract import ENCRYPTED, KEY, READ_DEFAULTS, Codec, Match
from formats.errors import OptionError
from formats.late_dataclasses import dataclass
from formats.options import SWITCH, Flag, Kind, choice, option, rows_of, settle, size

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from formats.codecs.contract import Checksum, ReadOptions
    from formats.ir.model import Model
    from formats.onnxpb import (
        external_data_helper,
        serialization,
        unknown_fields,
    )
    from formats.onnxpb.api import (
        load,
        load_from_string,
        load_model,
        load_model_from_string,
        load_tensor,
        load_tensor_from_string,
        save,
        save_model,
        save_tensor,
    )
    from formats.onnxpb.encrypted import (
        load_encrypted,
        load_encrypted_string,
        save_encrypted,
        save_encrypted_string,
    )
    from formats.onnxpb.external_data_helper import (
        ExternalDataInfo,
        convert_model_from_external_data,
        convert_model_to_external_data,
        load_external_data_for_model,
        load_external_data_for_tensor,
        remove_external_data_field,
        save_external_data,
        set_external_data,
        uses_external_data,
        write_external_data_tensors,
    )
    from formats.onnxpb.keys import Key
    from formats.onnxpb.loading import ParseOptions
    from formats.onnxpb.proto import (
        EXPERIMENTAL,
        IR_VERSION,
        IR_VERSION_2017_10_10,
        IR_VERSION_2017_10_30,
        IR_VERSION_2017_11_3,
        IR_VERSION_2019_1_22,
        IR_VERSION_2019_3_18,
        IR_VERSION_2019_9_19,
        IR_VERSION_2020_5_8,
        IR_VERSION_2021_7_30,
        IR_VERSION_2023_5_5,
        IR_VERSION_2024_3_25,
        IR_VERSION_2025_05_12,
        IR_VERSION_2025_08_26,
        IR_VERSION_2025_11_06,
        STABLE,
        AttributeProto,
        DeviceConfigurationProto,
        FunctionProto,
        GraphProto,
        IntIntListEntryProto,
        MapProto,
        ModelProto,
        NodeDeviceConfigurationProto,
        NodeProto,
        OperatorSetIdProto,
        OperatorStatus,
        OptionalProto,
        SequenceProto,
        ShardedDimProto,
        ShardingSpecProto,
        SimpleShardedDimProto,
        SparseTensorProto,
        StringStringEntryProto,
        TensorAnnotation,
        TensorProto,
        TensorShapeProto,
        TrainingInfoProto,
        TypeProto,
        ValueInfoProto,
        Version,
        unwrap,
        wrap,
    )
    from formats.onnxpb.saving import SerializeOptions
    from formats.onnxpb.unknown_fields import UnknownFieldSet
    from formats.tensordata.plan import Loss, WritePlan
    from formats.tensordata.source import Source


def _file_name_or_truth(value: Any) -> str | bool:
    if isinstance(value, bool):
        return value
    if not isinstance(value, str) or value in ("", ".", "..") or set(value) & {"/", "\\", "\0"}:
        raise ValueError(value)
    return value


FILE_NAME = Kind("True, False or the name of a file next to the model, without a folder", _file_name_or_truth, "[NAME]")
INLINE = Flag(("--no-external-data",), "Put all weights into DST itself.", value=False)
SAFETENSORS = ".safetensors"
ALIGNMENT, SAFETENSORS_ALIGNMENT = 64, 256  # of tensors in data files, in bytes
BROWSER_LIMIT_BYTES = 1 << 31  # a file for onnxruntime-web must not have this size
BROWSER_FILE_BYTES = 1900 << 20  # the default limit of a file for browsers: also less than 2 GB
# Options for the layout of external weights also ask for weights to be external.
OUTSIDE: dict[str, Any] = {"implies": ("external_data", True)}


@dataclass(frozen=True, slots=True)
class OnnxOptions:
    """Options for writing an `.onnx` file.

    `external_data`: the name of a data file next to the model, or `True` for the default,
    `<model file name>.data`; a file whose name ends in `.safetensors` is one of that format, too. `False` puts all
    weights into the model file; `None` leaves each tensor inside or outside, unless another option of this class is
    given, which moves them out. `size_threshold`: the size in bytes from which a tensor moves out.
    `alignment`: of each tensor in that file, in bytes from its start; `None` is 64, or 256 in a `.safetensors` file.
    `max_external_file_size`: the maximum size of a data file in bytes; a tensor that is larger gets its own, larger
    file; 0 means no limit. `checksum`: whether each reference contains the SHA-1 of its whole file, which takes a
    second for some hundred MB. `data_names`: "transformers.js" names data files as that library looks for them, each of
    less than 2 GB by default, and the report has its setting. `link`: the weights stay in their `.onnxz` archive, which
    must be in the same folder, and the graph refers to them there; tensors without an entry are in the graph.

    Raises: OptionError for an invalid value, and for options that contradict each other.
    """

    external_data: str | bool | None = option(
        None,
        FILE_NAME,
        "Put weights into a file next to DST: DST.data or NAME, which may end in .safetensors.",
        flags=(
            Flag(
                ("--external-data",),
                "Put weights into a file next to DST: DST.data or NAME, which may end in .safetensors.",
                "[NAME]",
                True,
            ),
            INLINE,
        ),
    )
    size_threshold: int = option(
        1024, size(), "Move tensors of at least SIZE out of the graph; 1K by default.", **OUTSIDE
    )
    alignment: int | None = option(
        None,
        size(1),
        "Put each of these tensors at a multiple of SIZE; 64 by default, 256 for .safetensors.",
        **OUTSIDE,
    )
    max_external_file_size: int = option(0, size(), "Start another data file before one exceeds SIZE.", **OUTSIDE)
    one_file_per_tensor: bool = option(False, SWITCH, "Put each weight into a separate file.", **OUTSIDE)
    checksum: bool = option(False, SWITCH, "Store the SHA-1 of each data file, for `formats verify --data`.", **OUTSIDE)

    data_names: str | None = option(
        None,
        choice("transformers.js"),
        "Name data files as transformers.js loads them, each small enough for browsers, and print their setting.",
        **OUTSIDE,
    )
    link: bool = option(
        False,
        SWITCH,
        "Leave the weights in SRC, an .onnxz archive in the folder of DST, and write a graph that refers to them.",
    )

    def __post_init__(self) -> None:
        settle(self)
        if self.link and self.external_data is not None:
            if self.external_data is False:
                raise OptionError("`link` and `external_data=False` exclude each other")
            others = ", ".join(f"`{row.name}`" for row in rows_of(OnnxOptions) if row.implies)
            raise OptionError(
                f"`link` and `external_data` exclude each other, and so do options of data files ({others})"
            )
        if self.one_file_per_tensor and (self.max_external_file_size or isinstance(self.external_data, str)):
            other = "max_external_file_size" if self.max_external_file_size else "external_data"
            raise OptionError(f"`one_file_per_tensor` and `{other}={getattr(self, other)}` exclude each other")
        if self.data_names is not None:
            if self.one_file_per_tensor or isinstance(self.external_data, str):
                other = "one_file_per_tensor" if self.one_file_per_tensor else "external_data"
                raise OptionError(f"`data_names` and `{other}={getattr(self, other)}` exclude each other")
            if self.max_external_file_size >= BROWSER_LIMIT_BYTES:
                size = f"`max_external_file_size` is {self.max_external_file_size}"
                raise OptionError(f"{size}, and must be less than 2 GiB for `data_names={self.data_names}`")

    @property
    def is_safetensors(self) -> bool:
        """Whether the data files are `.safetensors` files, too."""
        return isinstance(self.external_data, str) and self.external_data.lower().endswith(SAFETENSORS)

    @property
    def most_nbytes(self) -> int:
        """The limit for the size of a data file, in bytes, except if a single tensor is larger; 0 means no limit."""
        return self.max_external_file_size or (0 if self.data_names is None else BROWSER_FILE_BYTES)

    @property
    def aligned_to(self) -> int:
        """The alignment, in bytes, of each tensor in a data file."""
        return self.alignment or (SAFETENSORS_ALIGNMENT if self.is_safetensors else ALIGNMENT)


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
    from formats.onnxpb.external import read_model

    return read_model(source, path, options)


def plan(model: Model, destination: Path, options: OnnxOptions) -> WritePlan:
    """How to write `model` to `destination`, and its external data next to it."""
    from formats.onnxpb.external import plan_model

    return plan_model(model, destination, options)


def checksums(source: Source, model: Model, original: Source | None) -> Iterator[Checksum]:
    """The SHA-1 of data files, if tensors have it."""
    from formats.onnxpb.checksums import checksums_of

    return checksums_of(model)


def losses_of_others(plan: WritePlan, overwrite: bool) -> Iterable[Loss]:
    """A loss for each other model whose weights the plan replaces, and for each data file that it leaves behind."""
    from formats.onnxpb.shared_data import check_shared_data, left_behind

    return (*check_shared_data(plan, overwrite), *(left_behind(plan) if overwrite else ()))


CODEC = Codec(
    *("onnx", "ONNX protobuf", (".onnx",), OnnxOptions, sniff, read, plan),
    checksums=checksums,
    shared_data=losses_of_others,
)


# Encrypted models


@dataclass(frozen=True, slots=True)
class CryptOptions:
    """Options for writing an `.onnxc` file, which contains all weights.

    `key`: the key that encrypts it; there is no default. `encryption`: 3 is AES-256-GCM, 2 is ChaCha20-Poly1305, and 1
    is AES-256-CBC, which does not detect changes of a file.

    Raises: OptionError for an invalid value.
    """

    key: Key | str | bytes | None = option(None, KEY, "The key of an encrypted model.", flags=(), required=True)
    encryption: int = option(
        3,
        choice(1, 2, 3),
        "Encrypt with AES-256-CBC (1), which does not detect tampering, ChaCha20-Poly1305 (2), or AES-256-GCM (3, the "
        "default).",
        panel=ENCRYPTED,
    )

    def __post_init__(self) -> None:
        settle(self)


def sniff_encrypted(head: bytes, nbytes: int) -> Match:
    """How much the first bytes of a file look like an encrypted model: they have a magic number."""
    return Match.STRONG if head.startswith(b"ONNXCRY") else Match.NONE


def read_encrypted(source: Source, path: Path | None, options: ReadOptions = READ_DEFAULTS) -> Model:
    """The model in `source`, which is encrypted with `options.key`."""
    from formats.onnxpb.crypt import read_model

    return read_model(source, path, options)


def plan_encrypted(model: Model, destination: Path, options: CryptOptions) -> WritePlan:
    """How to write `model`, encrypted, to the one file `destination`."""
    from formats.onnxpb.crypt import plan_model

    return plan_model(model, destination, options)


def cautions_encrypted(source: Source, model: Model) -> Iterator[Loss]:
    """A loss for each part of an encrypted model that its key does not protect."""
    from formats.onnxpb.crypt import cautions

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


# Text


def _falsehood(value: Any) -> bool:
    if value is not False:
        raise ValueError(value)
    return False


@dataclass(frozen=True, slots=True)
class TextOptions:
    """How a model is written as text, in protobuf's text format or as JSON.

    `external_data`: `None` keeps references to external data as they are, so that the data file must lie next to the
    text; `False` puts all weights into the text. `True` is not possible: write `.onnx` with external data first.

    Raises: OptionError for an invalid value.
    """

    external_data: bool | None = option(
        None,
        Kind("False or None for a model as text; convert to .onnx with external data first", _falsehood),
        "Put all weights into DST itself.",
        flags=(INLINE,),
    )

    def __post_init__(self) -> None:
        settle(self)

    @property
    def keeps_references(self) -> bool:
        """Whether references to other files stay unchanged, with the model's facts about these files."""
        return self.external_data is None


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
    from formats.onnxpb.schema import MESSAGES

    spelling = name.decode().replace("_", "").lower()
    return any(row.name.replace("_", "") == spelling for row in MESSAGES["ModelProto"])


def read_text(source: Source, path: Path | None, options: ReadOptions = READ_DEFAULTS) -> Model:
    """The model in the text `source`; its external data is looked for next to `path`."""
    from formats.onnxpb import text, textfile

    return textfile.read_model(source, path, options, text.parse)


def plan_text(model: Model, destination: Path, options: TextOptions) -> WritePlan:
    """How to write `model` in protobuf's text format to `destination`."""
    from formats.onnxpb import text, textfile

    return textfile.plan_model(model, destination, options, text.to_text)


def read_json(source: Source, path: Path | None, options: ReadOptions = READ_DEFAULTS) -> Model:
    """The model in the JSON text `source`; its external data is looked for next to `path`."""
    from formats.onnxpb import jsontext, textfile

    return textfile.read_model(source, path, options, jsontext.parse)


def plan_json(model: Model, destination: Path, options: TextOptions) -> WritePlan:
    """How to write `model` as JSON to `destination`."""
    from formats.onnxpb import jsontext, textfile

    return textfile.plan_model(model, destination, options, jsontext.to_json)


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


# The drop-in API: the names that programs know from `onnx`, by the module that defines them.

__all__ = [
    "EXPERIMENTAL",
    "IR_VERSION",
    "IR_VERSION_2017_10_10",
    "IR_VERSION_2017_10_30",
    "IR_VERSION_2017_11_3",
    "IR_VERSION_2019_1_22",
    "IR_VERSION_2019_3_18",
    "IR_VERSION_2019_9_19",
    "IR_VERSION_2020_5_8",
    "IR_VERSION_2021_7_30",
    "IR_VERSION_2023_5_5",
    "IR_VERSION_2024_3_25",
    "IR_VERSION_2025_05_12",
    "IR_VERSION_2025_08_26",
    "IR_VERSION_2025_11_06",
    "STABLE",
    "AttributeProto",
    "DeviceConfigurationProto",
    "ExternalDataInfo",
    "FunctionProto",
    "GraphProto",
    "IntIntListEntryProto",
    "MapProto",
    "ModelProto",
    "NodeDeviceConfigurationProto",
    "NodeProto",
    "OperatorSetIdProto",
    "OperatorStatus",
    "OptionalProto",
    "ParseOptions",
    "SequenceProto",
    "SerializeOptions",
    "ShardedDimProto",
    "ShardingSpecProto",
    "SimpleShardedDimProto",
    "SparseTensorProto",
    "StringStringEntryProto",
    "TensorAnnotation",
    "TensorProto",
    "TensorShapeProto",
    "TrainingInfoProto",
    "TypeProto",
    "UnknownFieldSet",
    "ValueInfoProto",
    "Version",
    "convert_model_from_external_data",
    "convert_model_to_external_data",
    "external_data_helper",
    "load",
    "load_encrypted",
    "load_encrypted_string",
    "load_external_data_for_model",
    "load_external_data_for_tensor",
    "load_from_string",
    "load_model",
    "load_model_from_string",
    "load_tensor",
    "load_tensor_from_string",
    "remove_external_data_field",
    "save",
    "save_encrypted",
    "save_encrypted_string",
    "save_external_data",
    "save_model",
    "save_tensor",
    "serialization",
    "set_external_data",
    "unknown_fields",
    "unwrap",
    "uses_external_data",
    "wrap",
    "write_external_data_tensors",
]
_MODULES = ("api", "encrypted", "external_data_helper", "loading", "proto", "saving", "unknown_fields")
_SUBMODULES = ("external_data_helper", "serialization", "unknown_fields")


if not TYPE_CHECKING:  # so that a type checker sees only existing names

    def __getattr__(name: str) -> Any:
        """A name of the drop-in API, imported now and stored in the module."""
        from importlib import import_module

        if name in _SUBMODULES:
            return import_module(f"formats.onnxpb.{name}")
        if name in __all__:
            for module in _MODULES:
                found = vars(import_module(f"formats.onnxpb.{module}"))
                if name in found:
                    return globals().setdefault(name, found[name])
        raise AttributeError(f"module 'formats.onnxpb' has no attribute {name!r}")


def __dir__() -> list[str]:
    """The names of the drop-in API, and those of the module itself."""
    return sorted({*__all__, *globals()})
