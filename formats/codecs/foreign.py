"""Files that are not models in one of our formats: how they are recognised, and what the user can do with them.

This module is used only if no reader accepts a file, so that it can never prevent the reading of a model. The first
bytes that identify a format come from its own documents or writers.
"""

from __future__ import annotations

import errno
import os
import re
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from formats.codecs.contract import HEAD_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable
    from pathlib import Path

    from formats.tensordata.sources.source import Source

TAIL_BYTES = 22 + 0xFFFF  # the end of a zip file: its end record and the longest comment after it
MODELS_IN_MESSAGE = 5
MOST_ENTRIES = 10_000  # of a folder and those in it, that are looked at

ORIGINAL = (
    "it is made for one runtime and cannot be converted back: use the .onnx file, or the file of the training "
    "framework, that it was made from"
)
UNPACK = "unpack it and convert the model in it"
EXPORT_WEIGHTS = (
    "it has weights but no graph: export the model with the program that has its code, such as `optimum-cli export "
    "onnx --model FOLDER OUTPUT` for a Hugging Face model"
)
EXPORT_TORCH = "load the model in PyTorch and write it with `torch.onnx.export(model, inputs, 'model.onnx')`"


class Head(NamedTuple):
    """The first bytes of a file (up to `HEAD_BYTES`), its size in bytes, and where it is."""

    data: bytes
    nbytes: int
    path: Path | None = None

    @property
    def zip_names(self) -> list[str]:
        """The names of the entries, if these are the first bytes of a zip file."""
        if not self.data.startswith(b"PK\3\4"):
            return []
        headers = re.finditer(rb"PK\x03\x04.{22}(.)(.)..", self.data, re.DOTALL)
        names = (self.data[match.end() :][: match[1][0] | match[2][0] << 8] for match in headers)
        return [name.decode("utf-8", "replace") for name in names]


class ForeignFormat(NamedTuple):
    """What the file is and what to do, in one sentence; `extensions` are those that no other format has."""

    title: str
    remedy: str
    matches: Callable[[Head], object]
    extensions: str = ""

    @property
    def message(self) -> str:
        """What it is and what to do, in one sentence."""
        return f"this is {self.title}; {self.remedy}"


def _starts(*marks: bytes) -> Callable[[Head], object]:
    return lambda head: head.data.startswith(marks)


def _identifier(*marks: bytes) -> Callable[[Head], object]:
    """A FlatBuffer with one of these file identifiers."""
    return lambda head: head.data[4:8] in marks


def _text(pattern: bytes) -> Callable[[Head], object]:
    """A text that starts like this, after a byte order mark and space; the case does not count."""
    compiled = re.compile(rb"(?:\xef\xbb\xbf)?\s*(?:" + pattern + rb")", re.IGNORECASE | re.DOTALL)
    return lambda head: compiled.match(head.data)


def _zip_with(*endings: str) -> Callable[[Head], object]:
    """A zip file that has an entry with one of these endings near its start."""
    return lambda head: any(name.endswith(endings) for name in head.zip_names)


def _is_safetensors(head: Head) -> bool:
    size = int.from_bytes(head.data[:8], "little")
    return head.data[8:9] == b"{" and 2 <= size <= head.nbytes - 8


def _is_torch_pickle(head: Head) -> bool:
    """The opcode of a protocol version, then a frame, or the first bytes of a pickled object or container."""
    return head.data[2:14] == b"\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19" and head.data[0] == 0x80


def _is_pickle(head: Head) -> bool:
    """The opcode of a protocol version, then a frame, or what the pickle of an object or a container begins with."""
    return (
        len(head.data) > 3 and head.data[0] == 0x80 and 2 <= head.data[1] <= 5 and head.data[2] in b"\x95c}](\x8a\x8c"
    )


def _field(data: bytes, position: int) -> tuple[int, int, int]:
    """The tag at a place in a protobuf message, its number or length, and the place after them; -1 if it ends."""
    numbers = []
    for _ in range(2):
        value = shift = 0
        while True:
            if position >= len(data) or shift > 63:
                return -1, 0, position
            byte = data[position]
            value, shift, position = value | (byte & 0x7F) << shift, shift + 7, position + 1
            if byte < 0x80:
                break
        numbers.append(value)
    return numbers[0], numbers[1], position


def _is_message_after_version(head: Head, inner_tags: Iterable[int]) -> bool:
    """A protobuf message of a small number and a message, which begins with one of these tags."""
    tag, version, position = _field(head.data, 0)
    outer, nbytes, position = _field(head.data, position)
    inner, _, _ = _field(head.data, position)
    return tag == 0x08 and 0 < version < 100 and outer == 0x12 and 2 <= nbytes <= head.nbytes and inner in inner_tags


def _is_text(data: bytes) -> bool:
    """Whether the bytes are words for people: letters, and no control characters but line ends and tabs."""
    return bool(re.fullmatch(rb"[\t\n\r\x20-\x7e\x80-\xff]*[A-Za-z]{2}[\t\n\r\x20-\x7e\x80-\xff]*", data))


def _is_saved_model(head: Head) -> bool:
    """`saved_model_schema_version` is 1, and `meta_graphs` begins with a `meta_info_def` of messages and strings."""
    if not _is_message_after_version(head, (0x0A,)) or head.data[1] != 1:
        return False
    _, _, position = _field(head.data, 2)
    _, _, position = _field(head.data, position)
    return _field(head.data, position)[0] in (0x12, 0x1A, 0x22, 0x2A)


def _is_core_ml(head: Head) -> bool:
    """`specificationVersion`, and a `description` that begins with an `input` or `output`, which have names."""
    if not _is_message_after_version(head, (0x0A, 0x52)):
        return False
    _, _, position = _field(head.data, 2)
    _, _, position = _field(head.data, position)
    return _field(head.data, position)[0] == 0x0A


def _is_graph_def(head: Head) -> bool:
    """A `GraphDef`: `node` comes first, which begins with a `name` followed by its `op`, a word."""
    tag, nbytes, position = _field(head.data, 0)
    name_tag, name_nbytes, position = _field(head.data, position)
    op_tag, op_nbytes, position = _field(head.data, position + name_nbytes)
    op = head.data[position : position + op_nbytes]
    return (tag, name_tag, op_tag) == (0x0A, 0x0A, 0x12) and name_nbytes < nbytes and bool(re.fullmatch(rb"_?\w+", op))


def _is_open_vino_weights(head: Head) -> bool:
    """These bytes have no magic number, but the file next to them has; the caller knows that no reader accepts them."""
    return head.path is not None and head.path.suffix == ".bin" and head.path.with_suffix(".xml").is_file()


# The first row that matches is used.
FOREIGN_FORMATS = (
    # Files in place of the model
    ForeignFormat(
        "an empty file", "perhaps a download or a copy failed: download or copy it again", lambda head: not head.nbytes
    ),
    ForeignFormat(
        "a Git LFS pointer, a few lines instead of the file",
        "fetch the file itself with `git lfs pull`, or download it",
        _starts(b"version https://git-lfs.github.com/spec/", b"version https://hawser.github.com/spec/"),
    ),
    ForeignFormat(
        "a DVC pointer, a few lines instead of the file",
        "fetch the file itself with `dvc pull`",
        _text(rb"outs:\s*\n- (?:md5|etag|hash|size)\b"),
    ),
    ForeignFormat(
        "an HTML page, such as a login page, an error, or the page about the file",
        "download the file itself: on Hugging Face its address contains `resolve` instead of `blob`, on GitHub `raw`",
        _text(rb"<!doctype html|<html|<head|<!--.{0,2000}<html"),
    ),
    ForeignFormat(
        "an error message of a file store",
        "download the file again; the text says why it failed",
        _text(rb"<\?xml[^>]*>\s*<Error>|<Error>\s*<Code>"),
    ),
    ForeignFormat(
        "only zeros",
        "perhaps a download that had reserved the space was interrupted: download it again",
        lambda head: len(head.data) >= 16 and not any(head.data),
    ),
    # Other formats of models
    ForeignFormat("a safetensors file", EXPORT_WEIGHTS, _is_safetensors, ".safetensors"),
    ForeignFormat(
        "a GGUF file of llama.cpp",
        "it has quantised weights but no graph: export the model that it was made from",
        _starts(b"GGUF", b"FUGG", b"lmgg", b"fmgg", b"tjgg"),
        ".gguf .ggml",
    ),
    ForeignFormat(
        "a TensorFlow Lite model",
        "`python -m tf2onnx.convert --tflite model.tflite --output model.onnx` makes an .onnx file of it",
        _identifier(b"TFL3"),
        ".tflite .lite",
    ),
    ForeignFormat(
        "an ExecuTorch program", ORIGINAL, _identifier(*(b"ET%d" % number for number in range(10, 20))), ".pte"
    ),
    ForeignFormat("a TensorRT engine", ORIGINAL, _starts(b"ftrt", b"ptrt"), ".engine .plan .trt"),
    ForeignFormat("an RKNN model", ORIGINAL, _starts(b"RKNN"), ".rknn"),
    ForeignFormat("an ncnn model", ORIGINAL, _starts(b"7767517\n", b"7767517\r"), ".param"),
    ForeignFormat("an OpenVINO model", ORIGINAL, _text(rb"<\?xml[^>]*>\s*<net\b|<net\s+name="), ".xml"),
    ForeignFormat("the weights of an OpenVINO model", ORIGINAL, _is_open_vino_weights),
    ForeignFormat("a PyTorch file from before version 1.6", EXPORT_TORCH, _is_torch_pickle),
    ForeignFormat(
        "a program saved by torch.export",
        "`torch.onnx.export(torch.export.load('model.pt2'), f='model.onnx', dynamo=True)` makes an .onnx file of it",
        _zip_with("/archive_format", "serialized_exported_program.json"),
        ".pt2",
    ),
    ForeignFormat("a PyTorch file", EXPORT_TORCH, _zip_with("data.pkl", "constants.pkl"), ".pt .pth .ckpt"),
    ForeignFormat(
        "a Keras model",
        "`keras.models.load_model('model.keras').export('model.onnx', format='onnx')` makes an .onnx file of it",
        lambda head: {"metadata.json", "config.json"} <= {*head.zip_names} or "model.weights.h5" in head.zip_names,
        ".keras",
    ),
    ForeignFormat(
        "an HDF5 file, as Keras writes them",
        "if it is a Keras model, `keras.models.load_model('model.h5').export('model.onnx', format='onnx')` makes an "
        ".onnx file of it",
        _starts(b"\x89HDF\r\n\x1a\n"),
        ".h5 .hdf5",
    ),
    ForeignFormat(
        "a TensorFlow SavedModel",
        "`python -m tf2onnx.convert --saved-model FOLDER --output model.onnx` makes an .onnx file of its folder",
        _is_saved_model,
    ),
    ForeignFormat(
        "a graph of TensorFlow 1",
        "`python -m tf2onnx.convert --graphdef model.pb --inputs x:0 --outputs y:0 --output model.onnx` makes an .onnx "
        "file of it, given the names of its inputs and outputs",
        _is_graph_def,
        ".pb",
    ),
    ForeignFormat("a Core ML model", ORIGINAL, _is_core_ml, ".mlmodel .mlpackage .mlmodelc"),
    # Arrays and settings
    ForeignFormat("an array of numpy", "it has no graph", _starts(b"\x93NUMPY"), ".npy"),
    ForeignFormat(
        "an .npz file with arrays of numpy",
        "it has no graph",
        lambda head: head.zip_names and all(name.endswith(".npy") for name in head.zip_names),
        ".npz",
    ),
    ForeignFormat(
        "the settings of a Hugging Face model",
        "use the file that contains the model, or " + EXPORT_WEIGHTS.split(": ", 1)[1],
        _text(rb'\{.{0,3900}"(?:architectures|model_type|_class_name|weight_map|tokenizer_class|added_tokens)"\s*:'),
    ),
    ForeignFormat(
        "a Python pickle",
        "if it contains a scikit-learn model, `skl2onnx.to_onnx(model, inputs)` makes an .onnx file of it",
        _is_pickle,
        ".pkl .pickle .joblib",
    ),
    # Archives
    ForeignFormat("compressed with gzip", f"{UNPACK}: `gunzip FILE`, or `tar xf FILE`", _starts(b"\x1f\x8b\x08")),
    ForeignFormat("compressed with bzip2", f"{UNPACK}: `bunzip2 FILE`, or `tar xf FILE`", _text(rb"BZh[1-9]1AY&SY")),
    ForeignFormat("compressed with xz", f"{UNPACK}: `unxz FILE`, or `tar xf FILE`", _starts(b"\xfd7zXZ\0")),
    ForeignFormat("compressed with Zstandard", f"{UNPACK}: `unzstd FILE`", _starts(b"\x28\xb5\x2f\xfd")),
    ForeignFormat("compressed with LZ4", f"{UNPACK}: `unlz4 FILE`", _starts(b"\x04\x22\x4d\x18")),
    ForeignFormat("a 7z archive", f"{UNPACK}: `7z x FILE`", _starts(b"7z\xbc\xaf\x27\x1c")),
    ForeignFormat("a RAR archive", UNPACK, _starts(b"Rar!\x1a\x07")),
    ForeignFormat("a tar archive", f"{UNPACK}: `tar xf FILE`", lambda head: head.data[257:262] == b"ustar"),
    ForeignFormat("a zip archive with a model in it", f"{UNPACK}: `unzip FILE`", _zip_with(".onnx", ".rten", ".onnxz")),
    ForeignFormat(
        "a zip file, but not an .onnxz archive",
        "unpack it, and convert the model that is in it, if there is one",
        lambda head: head.zip_names and all("." in name or "/" in name for name in head.zip_names),
        ".zip",
    ),
)
TEXT = "; this is a text file"
CUT_SHORT = "; the file seems to be truncated, perhaps by an interrupted download or copy"


def recognise(source: Source, path: Path | None = None) -> ForeignFormat | None:
    """What the file in `source`, with the path `path`, is, if this is known."""
    head = Head(source.read(0, min(HEAD_BYTES, source.nbytes)), source.nbytes, path)
    return next((row for row in FOREIGN_FORMATS if row.matches(head)), None)


def with_extension(suffix: str) -> ForeignFormat | None:
    """The foreign format whose files have this extension, in lower case."""
    return next((row for row in FOREIGN_FORMATS if suffix in row.extensions.split()), None)


def afterthought(source: Source, is_truncated: bool) -> str:
    """A possible reason why the file in `source`, which looks like a model, could not be read; often none is known."""
    if is_truncated:
        return TEXT if _is_text(source.read(0, min(HEAD_BYTES, source.nbytes))) else CUT_SHORT
    if source.nbytes < 4 or source.read(0, 4) != b"PK\3\4":
        return ""
    tail_nbytes = min(TAIL_BYTES, source.nbytes)
    if b"PK\5\6" not in source.read(source.nbytes - tail_nbytes, tail_nbytes):
        return CUT_SHORT
    return ""


def explained(message: str, source: Source, path: Path | None, *, is_truncated: bool = False) -> str:
    """What the file in `source` is, if it is something else than a model; otherwise `message`, with a hint."""
    kind = recognise(source, path)
    return kind.message if kind else message + afterthought(source, is_truncated)


def folder_error(path: Path, extensions: Container[str]) -> OSError:
    """The error for a folder in the place of a model, whose file would have one of these extensions."""
    try:
        with os.scandir(path):
            words = describe_folder(path, extensions)
    except OSError as error:
        words = f"is a folder that cannot be read: {error.strerror}"
    return IsADirectoryError(errno.EISDIR, words, str(path))


def describe_folder(path: Path, extensions: Container[str]) -> str:
    """What the folder at `path` contains, and what to do; models have one of these extensions.

    Only the first entries count: a folder may have millions, and this is for an error.
    """
    rest = MOST_ENTRIES

    def entries_of(folder: Path) -> list[Path]:
        nonlocal rest
        with suppress(OSError), os.scandir(folder) as found:
            names = sorted(entry.name for entry in islice(found, rest))
            rest -= len(names)
            return [folder / name for name in names]
        return []

    entries = entries_of(path)
    names = [entry.name for entry in entries]
    models: list[str] = []
    with suppress(OSError):
        entries += [inner for folder in entries if folder.is_dir() for inner in entries_of(folder)]
        found = (entry for entry in entries if entry.suffix.lower() in extensions and entry.is_file())
        models += (entry.relative_to(path).as_posix() for entry in found)
    if "saved_model.pb" in names:
        row = next(row for row in FOREIGN_FORMATS if row.title == "a TensorFlow SavedModel")
        return f"is a folder with {row.title}; {row.remedy}"
    if path.suffix == ".mlmodelc" or ("Manifest.json" in names and path.suffix == ".mlpackage"):
        return f"is a folder with a Core ML model; {ORIGINAL}"
    if models:
        shown = ", ".join(models[:MODELS_IN_MESSAGE])
        more = len(models) - MODELS_IN_MESSAGE
        return f"is a folder; name the model in it: {shown}{f' or one of {more} more' if more > 0 else ''}"
    if any(name.endswith((".safetensors", ".bin", ".pth")) for name in names) and "config.json" in names:
        return f"is a folder with weights; {EXPORT_WEIGHTS.split(': ', 1)[1]}"
    return "is a folder without a model"
