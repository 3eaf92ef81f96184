"""Functions with the names and behaviour of `onnx.load`, `onnx.save` and similar ones, for files of any size.

    import formats.onnxpb as onnx

    model = onnx.load("model.onnx")
    onnx.save(model, "copy.onnx", save_as_external_data=True, location="copy.data")

They accept and return the message classes of `formats.onnxpb`. A function that accepts a message also accepts an object
of the IR. No function changes a message that it is given.

Spec: the `onnx` package (1.23), `onnx.load`, `onnx.save` and similar functions; onnx-light for what that package lacks,
and its "Encrypted model I/O".
"""
# ruff: noqa: A002 - `format` is the word that users know from other `load` and `save` functions

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

from formats.codecs import contract, lookup
from formats.codecs.contract import ReadOptions
from formats.errors import DecodeError, TruncatedError, UnknownFormatError
from formats.ir.model import Model, Tensor
from formats.onnx_compat.loading import DEFAULTS, ParseOptions, name_of, parse_part, read_model
from formats.onnx_compat.protos.classes import ModelProto, TensorProto, unwrap
from formats.onnx_compat.protos.copies import adopted
from formats.onnx_compat.protos.message import ProtoMessage
from formats.onnx_compat.protos.values import protobuf_errors
from formats.onnx_compat.saving import SerializeOptions, is_whole, plan_message, plan_whole
from formats.onnxpb import serialization
from formats.onnxpb.codecs import CODEC, JSON_CODEC, TEXT_CODEC
from formats.onnxpb.encryption import crypt
from formats.onnxpb.options import CryptOptions
from formats.onnxpb.wire.decoder import decode
from formats.tensordata.engine import EngineOptions, execute, to_bytes
from formats.tensordata.file import File
from formats.tensordata.interrupted import read_model_steadily
from formats.tensordata.plan import WritePlan
from formats.tensordata.sources.source import Literal

if TYPE_CHECKING:
    from formats.codecs.contract import Codec
    from formats.codecs.keys import Key
    from formats.onnxpb.serialization import ProtoSerializer
    from formats.tensordata.sources.source import Source

__all__ = [
    "load",
    "load_encrypted",
    "load_encrypted_string",
    "load_from_string",
    "load_model",
    "load_model_from_string",
    "load_tensor",
    "load_tensor_from_string",
    "save",
    "save_encrypted",
    "save_encrypted_string",
    "save_model",
    "save_tensor",
]

Readable: TypeAlias = str | os.PathLike[str] | bytes | bytearray | memoryview | IO[bytes] | IO[str]
Writable: TypeAlias = str | os.PathLike[str] | IO[bytes]
Text: TypeAlias = str | bytes | bytearray | memoryview
M = TypeVar("M", bound="ProtoMessage")
T = TypeVar("T")

FORMATS = {"protobuf": "onnx"}  # the names that only `onnx` has


# Reading


def load(f: Readable, format: str | None = None, load_external_data: bool = True, **options: Any) -> ModelProto:
    """The ModelProto in a file, by its path or opened for reading, or in bytes; `options` are those of ParseOptions.

    `format` is "protobuf", "textproto", "json" or any other that `formats` reads, or the name of a serializer
    (`serialization.registry`). By default, the content or the extension determines the format, otherwise it is
    protobuf.

    Raises: FormatError if it cannot be read; OSError if the file cannot.
    """
    chosen = ParseOptions(load_external_data, **options) if options or not load_external_data else DEFAULTS
    return _parse(f, format, chosen)


load_model = load


def load_model_from_string(s: Text, format: str | None = None, **options: Any) -> ModelProto:
    """The ModelProto in bytes, or in a `str` if the format is text, as `load` reads it."""
    return load(_bytes(s), format, **options)


load_from_string = load_model_from_string


def load_tensor(f: Readable, format: str | None = None) -> TensorProto:
    """The TensorProto in a file or in bytes, in the format "protobuf" (by default), "textproto" or "json".

    Raises: as `load` does.
    """
    source, path = _source(f, DEFAULTS)
    form = _form_to_write(path, format)
    with protobuf_errors(name_of(form)):
        tensor: TensorProto = adopted(parse_part(Tensor, source, form))
        return tensor


def load_tensor_from_string(s: Text, format: str | None = None) -> TensorProto:
    """The TensorProto in bytes, or in a `str` if the format is text, as `load_tensor` reads it."""
    return load_tensor(_bytes(s), format)


def _bytes(s: Text) -> bytes | bytearray | memoryview:
    return s.encode() if isinstance(s, str) else s


def parse_file(message_class: type[M], path: str | os.PathLike[str], options: ParseOptions | None = None) -> M:
    """The message of any class in a file. External data are handled only for a ModelProto.

    Raises: as `load` does.
    """
    if message_class is ModelProto:
        return cast("M", _parse(path, None, options or DEFAULTS))
    with protobuf_errors():
        part: M = adopted(parse_part(message_class.DESCRIPTOR.ir_class, File.open(path).span(), CODEC))
        return part


def _parse(f: Readable, format: str | None, options: ParseOptions) -> ModelProto:
    if isinstance(f, (str, os.PathLike)):
        path = Path(f)
        return read_model_steadily(path, lambda file: _parse_source(file.span(), path, format, options))
    return _parse_source(*_source(f, options), format, options)


def _parse_source(source: Source, path: Path | None, format: str | None, options: ParseOptions) -> ModelProto:
    form = _form_to_read(source, path, format)
    with protobuf_errors(name_of(form)):
        try:
            model: ModelProto = adopted(read_model(source, path, form, options))
        except DecodeError as error:
            if error.path in (None, path):  # if it is not about a data file
                from formats.codecs import foreign

                cut = isinstance(error, TruncatedError)
                error.path, error.message = path, foreign.explained(error.message, source, path, is_truncated=cut)
            raise
        return model


def _source(f: Readable, options: ParseOptions) -> tuple[Source, Path | None]:
    """The source of the message, and its path if it is a file."""
    if isinstance(f, (bytes, bytearray, memoryview)):
        in_place = options.no_copy and not isinstance(f, bytes)
        return Literal(memoryview(f).cast("B").toreadonly() if in_place else bytes(f)), None
    if isinstance(f, (str, os.PathLike)):
        return File.open(f).span(), Path(f)
    if not hasattr(f, "read"):
        raise TypeError(f"expected a path, a file that is open for reading, or bytes, got {type(f).__name__}")
    name, data = getattr(f, "name", None), f.read()
    if isinstance(data, str):  # from a file that was opened as text, which may contain a model as text
        data = data.encode()
    return Literal(data), Path(name) if isinstance(name, str) else None


def _form_to_read(source: Source, path: Path | None, format: str | None) -> Codec | ProtoSerializer:
    """The reader of a format, or of the content or extension. Only its extension identifies text, as in `onnx`."""
    if format is not None:
        return _form(format)
    extension = path.suffix.lower() if path else ""
    name = serialization.registry.get_format_from_file_extension(extension) if extension else None
    if name and (serializer := serialization.registry.registered(name)):
        return serializer
    for text in (TEXT_CODEC, JSON_CODEC):
        if extension in text.extensions:
            return text
    head = source.read(0, min(contract.HEAD_BYTES, source.nbytes))
    try:
        codec = lookup.for_reading(head, source.nbytes, path)
    except UnknownFormatError:
        return CODEC
    return CODEC if codec in (TEXT_CODEC, JSON_CODEC) else codec


# Writing


def save(proto: Any, f: Writable, format: str | None = None, **options: Any) -> None:
    """Write a model to a file, given by its path or opened for writing; `options` are those of SerializeOptions.

    `proto` is a message of ours or of `onnx`, or the bytes of one. `format` is "protobuf", "textproto", "json" or any
    other that `formats` writes, or the name of a serializer (`serialization.registry`). By default, the extension
    determines the format, otherwise it is protobuf. Unless the options ask for external data, all weights are in the
    file, except those that are external in `proto`. If such a tensor has raw data, they go to the file that it names,
    and replace that file. A reference stays unchanged if it is also right at the destination; otherwise its data are
    copied there.

    Raises: FormatError if it cannot be written, TypeError for options that the format does not have; OSError if
    the file cannot be written. Then nothing was written, and earlier files are unchanged.
    """
    _serialize(proto, Model, f, format, SerializeOptions(**options))


save_model = save


def save_tensor(proto: Any, f: Writable, format: str | None = None) -> None:
    """Write a TensorProto to a file, in the format "protobuf" (by default), "textproto" or "json".

    Raises: as `save` does.
    """
    _serialize(proto, Tensor, f, format, SerializeOptions())


def serialize_file(
    message: ProtoMessage,
    path: str | os.PathLike[str],
    options: SerializeOptions | None = None,
    location: str | None = None,
) -> None:
    """Write a message of any class to a file as protobuf; a model's large weights go to `location`, if it is given.

    Raises: as `save` does.
    """
    options = options or SerializeOptions()
    if location is not None:
        options = replace(options, save_as_external_data=True, convert_attribute=True, location=location)
    _serialize(message, type(message), path, "protobuf", options)


def _message(proto: Any, message_class: type[Any]) -> Any:
    """The object of the IR for a message of ours or of `onnx`, or for the bytes of a message of the given class.

    Raises: TypeError for anything else.
    """
    if isinstance(proto, (bytes, bytearray, memoryview)):
        with protobuf_errors():
            return decode(Literal(bytes(proto)), message_class)
    return unwrap(proto)


def _serialize(
    proto: Any, message_class: type[Any], f: Writable, format: str | None, options: SerializeOptions
) -> None:
    """Write a message, or the bytes of one of this class."""
    named = f if isinstance(f, (str, os.PathLike)) else getattr(f, "name", None)
    path = Path(named) if isinstance(named, (str, os.PathLike)) else None
    with protobuf_errors():
        form, destination = _form_to_write(path, format), path or Path("model.onnx")
        if form is CODEC and isinstance(proto, ProtoMessage) and is_whole(proto) and not options.save_as_external_data:
            plan = plan_whole(proto, destination, options)
        else:
            plan = plan_message(_message(proto, message_class), destination, form, options)
        engine = EngineOptions(threads=max(options.num_threads, 0), overwrite=True)
        if isinstance(f, (str, os.PathLike)):
            _write(plan, engine)
            return
        if len(plan.files) > 1 and path is None:
            raise TypeError("external data needs a path to be written next to, and there is none")
        for file in plan.files[:-1]:  # each file separately, because the caller writes the model itself
            execute(WritePlan((file,)), engine)
        f.write(to_bytes(WritePlan(plan.files[-1:])))


def _write(plan: WritePlan, engine: EngineOptions) -> None:
    """Write the files. New files in subfolders come first; they are removed if the rest fails."""
    folder = plan.files[-1].path.parent
    below = [file for file in plan.files if file.path.parent != folder]
    written: list[Path] = []
    try:
        for file in below:
            execute(WritePlan((file,)), replace(engine, overwrite=False))
            written.append(file.path)
        execute(plan._replace(files=tuple(file for file in plan.files if file not in below)), engine)
    except BaseException:
        for path in written:
            path.unlink(missing_ok=True)
        raise


def _form_to_write(path: Path | None, format: str | None) -> Codec | ProtoSerializer:
    """The writer of a format, or of the format with this extension; protobuf if the extension is unknown."""
    if format is not None:
        return _form(format)
    path = path or Path()
    name = serialization.registry.get_format_from_file_extension(path.suffix.lower())
    return (name and serialization.registry.registered(name)) or lookup.by_extension(path) or CODEC


def _form(format: str) -> Codec | ProtoSerializer:
    """The functions that read and write a format, by its name here or in `onnx`.

    Raises: OptionError.
    """
    serializer = serialization.registry.registered(format)
    return serializer or lookup.by_name(FORMATS.get(format, format))


# Encrypted models, with onnx-light's functions and terms


def save_encrypted(
    proto: Any, f: str | os.PathLike[str], key: Key | str | bytes, *, encryption: str = crypt.GCM.title
) -> None:
    """Write a model to an encrypted file, with all its weights.

    `encryption` is "AES-256-GCM", "ChaCha20-Poly1305" or "AES-256-CBC". The last, which onnx-light uses by default,
    does not detect changes and forgeries.

    Raises: CryptError if it cannot be encrypted; TensorDataError if weights are missing; OSError.
    """
    execute(_encrypted(proto, Path(f), key, encryption), EngineOptions(overwrite=True))


def load_encrypted(f: str | os.PathLike[str], key: Key | str | bytes, *, encryption: str | None = None) -> ModelProto:
    """The ModelProto in an encrypted file; its weights are decrypted when they are read.

    The file may be of each kind that shows whether it was changed, or of the kind `encryption` only, where that is
    given: "AES-256-CBC" opens what cannot show it.

    Raises: CryptError if the key is wrong, the file was tampered with or is of another kind; DecodeError; OSError.
    """
    return _decrypted(File.open(f).span(), Path(f), key, encryption)


def save_encrypted_string(proto: Any, key: Key | str | bytes, *, encryption: str = crypt.GCM.title) -> bytes:
    """The bytes of an encrypted file, as `save_encrypted` writes it."""
    return to_bytes(_encrypted(proto, Path("model.onnxc"), key, encryption))


def load_encrypted_string(data: bytes, key: Key | str | bytes, *, encryption: str | None = None) -> ModelProto:
    """The ModelProto in the bytes of an encrypted file, as `load_encrypted` reads it."""
    return _decrypted(Literal(data), None, key, encryption)


def _encrypted(proto: Any, path: Path, key: Key | str | bytes, encryption: str) -> WritePlan:
    return crypt.plan_model(unwrap(proto), path, CryptOptions(key, crypt.by_title(encryption).number))


def _decrypted(source: Source, path: Path | None, key: Key | str | bytes, encryption: str | None) -> ModelProto:
    allowed = None
    if encryption is not None:
        wanted = crypt.by_title(encryption)
        crypt.check_variant(source, wanted)
        allowed = None if wanted.tag_nbytes else wanted.number
    model: ModelProto = adopted(crypt.read_model(source, path, ReadOptions(key=key, allow_encryption=allowed)))
    return model
