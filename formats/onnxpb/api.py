"""Functions with the names and habits of `onnx.load`, `onnx.save` and their relatives, for files of any size.

    import formats.onnxpb as onnx

    model = onnx.load("model.onnx")
    onnx.save(model, "copy.onnx", save_as_external_data=True, location="copy.data")

They take and return the message classes of `formats.onnxpb`; wherever a message goes in, so does the object of the IR
under it. No function changes a message that it is given.

Spec: the `onnx` package (1.23), `onnx.load`, `onnx.save` and their like; onnx-light for what that lacks.
"""
# ruff: noqa: A002 - `format` is the word that users know from every other `load` and `save`

from __future__ import annotations

import os
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from formats import registry
from formats.errors import ExternalDataError, UnknownFormatError
from formats.ir import walk
from formats.ir.model import DEFAULT, EXTERNAL, SOURCE_FIELDS, Model, StringStringEntry, Tensor
from formats.onnxpb import CODEC, JSON_CODEC, TEXT_CODEC, OnnxOptions, external, jsontext, text
from formats.onnxpb.decoder import decode
from formats.onnxpb.encoder import encode
from formats.onnxpb.locations import DataFiles
from formats.onnxpb.merging import copied
from formats.onnxpb.proto import ModelProto, TensorProto, unwrap, wrap
from formats.onnxpb.textfile import read_text
from formats.registry import MAX_DEPTH, ReadOptions
from formats.tensordata.engine import EngineOptions, execute, materialise, to_bytes
from formats.tensordata.journal import read_steadily
from formats.tensordata.osio import File
from formats.tensordata.plan import FilePlan, WritePlan, lay_out
from formats.tensordata.source import FileSpan, Literal

if TYPE_CHECKING:
    from typing import IO

    from formats.onnxpb.message import Message
    from formats.registry import Codec
    from formats.tensordata.source import Source

Readable: TypeAlias = "str | os.PathLike[str] | bytes | bytearray | memoryview | IO[bytes]"
Writable: TypeAlias = "str | os.PathLike[str] | IO[bytes]"
Tensors: TypeAlias = "list[tuple[str, Tensor]]"  # each with its place in the model
M = TypeVar("M", bound="Message")
T = TypeVar("T")

WEIGHTS = SOURCE_FIELDS["TensorProto"] - {"external_source"}  # those of the message
BESIDE = ("onnx", "textproto", "json")  # the formats whose external data are files beside the model
FORMATS = {"protobuf": "onnx"}  # the names that only `onnx` has


@dataclass(frozen=True, slots=True)
class ParseOptions:
    """How a message is read.

    `load_external_data`: external data become raw data of their tensors, as with `onnx.load`; otherwise references
    stay references, and their files need not be there. `location`: the file that has the external data, whatever the
    model says; a relative path counts from the model's directory.

    Weights stay in the file until they are asked for, unless `num_threads` is given: then that many threads (0 or
    less: as many as are useful) read them into memory now. `no_copy` uses a buffer that was passed in and may change
    as it is, rather than a copy of it; a `bytes` object is never copied. The weights keep file or buffer alive.

    `skip_raw_data` leaves out the weights of tensors with at least `raw_data_threshold` bytes of them. `max_depth` and
    `hard_links` are those of `formats.load`.
    """

    load_external_data: bool = True
    location: str | os.PathLike[str] | None = None
    num_threads: int | None = None
    no_copy: bool = False
    skip_raw_data: bool = False
    raw_data_threshold: int = 1024
    max_depth: int = MAX_DEPTH
    hard_links: bool = True


@dataclass(frozen=True, slots=True)
class SerializeOptions:
    """How a model is written.

    `save_as_external_data`: weights of at least `size_threshold` bytes go to the file `location` beside the model
    (`<model file name>.data` by default), each at a multiple of `alignment` bytes, and to further ones where that
    file would exceed `max_external_file_size` bytes; or each to a file of its own, not `all_tensors_to_one_file`.
    `num_threads` write (0 or less: as many as are useful).
    """

    save_as_external_data: bool = False
    all_tensors_to_one_file: bool = True
    location: str | None = None
    size_threshold: int = 1024
    max_external_file_size: int | None = None
    alignment: int = 64
    num_threads: int = 0


# Reading


def load(f: Readable, format: str | None = None, load_external_data: bool = True, **options: Any) -> ModelProto:
    """The ModelProto in a file, by its path or opened for reading, or in bytes; `options` are those of ParseOptions.

    `format` is "protobuf", "textproto", "json" or any other that `formats` reads; by default that of the content or
    the extension, and protobuf where these tell nothing.

    Raises: FormatError where it cannot be read; OSError where the file cannot.
    """
    return wrap(_parse(f, format, ParseOptions(load_external_data, **options)))


load_model = load


def load_model_from_string(s: bytes | bytearray | memoryview, format: str | None = None, **options: Any) -> ModelProto:
    """The ModelProto in bytes, as `load` reads it."""
    return load(s, format, **options)


def load_tensor(f: Readable, format: str | None = None) -> TensorProto:
    """The TensorProto in a file or in bytes, in the format "protobuf" (by default), "textproto" or "json".

    Raises: as `load` does.
    """
    source, path = _source(f, ParseOptions())
    return wrap(_parse_part(Tensor, source, _target(path or Path(), format)))


load_tensor_from_string = load_tensor


def parse_file(message_class: type[M], path: str | os.PathLike[str], options: ParseOptions | None = None) -> M:
    """The message of any class in a file; what concerns external data is done where it is a ModelProto.

    Raises: as `load` does.
    """
    if message_class is ModelProto:
        return message_class._of(_parse(path, None, options or ParseOptions()))
    return message_class._of(_parse_part(message_class.DESCRIPTOR.ir_class, File.open(path).span(), CODEC))


def _parse_part(message_class: type[T], source: Source, codec: Codec) -> T:
    """The message of any class that a source holds."""
    if codec is CODEC:
        return decode(source, message_class)
    if codec is TEXT_CODEC:
        return text.parse(read_text(source), message_class)
    if codec is JSON_CODEC:
        return jsontext.parse(read_text(source), message_class)
    raise TypeError(f"{codec.title} holds models only")


def _parse(f: Readable, format: str | None, options: ParseOptions) -> Model:
    if isinstance(f, (str, os.PathLike)):
        path = Path(f)
        return read_steadily(path, lambda file: _parse_source(file.span(), path, format, options))
    return _parse_source(*_source(f, options), format, options)


def _parse_source(source: Source, path: Path | None, format: str | None, options: ParseOptions) -> Model:
    codec = _codec(source, path, format)
    if path is not None and codec.settled is not None:
        source = codec.settled(source, path)
    beside = codec.name in BESIDE
    model = codec.read(source, None if beside else path, ReadOptions(options.max_depth, options.hard_links))
    if codec.raise_model is not None:
        model, _ = codec.raise_model(model, {})
    every = options.skip_raw_data or options.num_threads is not None
    tensors = list(walk.tensors(model) if every else walk.external_tensors(model))
    if beside:
        _locate(tensors, path, next(source.files(), None), options)
    if options.skip_raw_data:
        _skip(tensors, options.raw_data_threshold)
    if options.load_external_data:
        for _, tensor in tensors:
            _inline(tensor)
    if options.num_threads is not None:
        _materialise(tensors, options.num_threads)
    return model


def _source(f: Readable, options: ParseOptions) -> tuple[Source, Path | None]:
    """What holds the message, and where, if it is a file."""
    if isinstance(f, (bytes, bytearray, memoryview)):
        in_place = options.no_copy and not isinstance(f, bytes)
        return Literal(memoryview(f).cast("B").toreadonly() if in_place else bytes(f)), None
    if isinstance(f, (str, os.PathLike)):
        return File.open(f).span(), Path(f)
    name = getattr(f, "name", None)
    return Literal(f.read()), Path(name) if isinstance(name, str) else None


def _codec(source: Source, path: Path | None, format: str | None) -> Codec:
    if format is not None:
        return registry.by_name(FORMATS.get(format, format))
    head = source.read(0, min(registry.HEAD_BYTES, source.nbytes))
    try:
        return registry.for_reading(head, source.nbytes, path)
    except UnknownFormatError:
        return CODEC


def _locate(tensors: Tensors, path: Path | None, file: File | None, options: ParseOptions) -> None:
    """Every external tensor knows where its bytes are; where they are not to be loaded, if they are there."""
    outside = [(where, tensor) for where, tensor in tensors if tensor.data_location == EXTERNAL]
    base = path
    if options.location is not None:
        base, file = path.parent / options.location if path else Path(options.location), None
        named = StringStringEntry("location", base.name)
        for _, tensor in outside:
            others = [entry for entry in tensor.external_data if entry.key != "location"]
            tensor.external_data = [named, *others]
    if base is None:
        return
    files = DataFiles(base, model_file=file, hard_links=options.hard_links)
    for where, tensor in outside:
        with nullcontext() if options.load_external_data else suppress(ExternalDataError, OSError):
            tensor.external_source = files.find(tensor, where)


def _inline(tensor: Tensor) -> None:
    """The external data of a tensor are its raw data, as `onnx` leaves it after loading them."""
    if tensor.external_source is not None:
        tensor.raw_data, tensor.external_source = tensor.external_source, None
        tensor.external_data, tensor.data_location = [], DEFAULT


def _skip(tensors: Tensors, threshold: int) -> None:
    for _, tensor in tensors:
        for name in SOURCE_FIELDS["TensorProto"]:
            source = getattr(tensor, name)
            if source is not None and source.nbytes >= threshold:
                setattr(tensor, name, None)


def _materialise(tensors: Tensors, threads: int) -> None:
    """All weights are in memory."""
    places = [
        (tensor, name, source)
        for _, tensor in tensors
        for name in WEIGHTS
        if (source := getattr(tensor, name)) is not None and not isinstance(source, Literal)
    ]
    read = materialise([source for _, _, source in places], EngineOptions(threads=max(threads, 0)))
    for (tensor, name, _), data in zip(places, read, strict=True):
        setattr(tensor, name, Literal(data.toreadonly()))


# Writing


def save(proto: Any, f: Writable, format: str | None = None, **options: Any) -> None:
    """A model is in a file, given by its path or opened for writing; `options` are those of SerializeOptions.

    `format` is "protobuf", "textproto", "json" or any other that `formats` writes; by default that of the extension,
    and protobuf where it tells nothing. Unless external data are asked for, all weights are in the file, but for
    references that `proto` has: those stay as they are where they are true of the destination too, and otherwise
    their data go along.

    Raises: FormatError where it cannot be written, TypeError for options that the format does not have; OSError where
    the file cannot be written. Nothing was written then, and what was there is untouched.
    """
    _serialize(unwrap(proto), f, format, SerializeOptions(**options))


save_model = save


def save_tensor(proto: Any, f: Writable, format: str | None = None) -> None:
    """A TensorProto is in a file, in the format "protobuf" (by default), "textproto" or "json".

    Raises: as `save` does.
    """
    _serialize(unwrap(proto), f, format, SerializeOptions())


def serialize_file(
    message: Message, path: str | os.PathLike[str], options: SerializeOptions | None = None, location: str | None = None
) -> None:
    """A message of any class is in a file as protobuf; a model's large weights in `location`, where that is given.

    Raises: as `save` does.
    """
    options = options or SerializeOptions()
    if location is not None:
        options = replace(options, save_as_external_data=True, location=location)
    _serialize(unwrap(message), path, "protobuf", options)


def _serialize(message: Any, f: Writable, format: str | None, options: SerializeOptions) -> None:
    named = f if isinstance(f, (str, os.PathLike)) else getattr(f, "name", None)
    path = Path(named) if isinstance(named, (str, os.PathLike)) else Path("model.onnx")
    plan = _plan(message, path, _target(path, format), options)
    if isinstance(f, (str, os.PathLike)):
        execute(plan, EngineOptions(threads=max(options.num_threads, 0), overwrite=True))
        return
    if len(plan.files) > 1:
        raise TypeError("external data are written beside a path, and there is none")
    f.write(to_bytes(plan))


def _target(path: Path, format: str | None) -> Codec:
    if format is not None:
        return registry.by_name(FORMATS.get(format, format))
    try:
        return registry.for_writing(path)
    except UnknownFormatError:
        return CODEC


def _plan(message: Any, path: Path, codec: Codec, options: SerializeOptions) -> WritePlan:
    if codec is not CODEC and options.save_as_external_data:
        raise TypeError(f"{codec.title} has no external data")
    if not isinstance(message, Model):
        return _plan_part(message, path, codec)
    if codec is not CODEC:
        return codec.plan(message, path, codec.options())
    if not options.save_as_external_data and _references_hold(message, path.parent):
        return _plan_part(message, path, codec)
    return external.plan_model(_with_references_made(message), path, _onnx_options(options))


def _plan_part(message: Any, path: Path, codec: Codec) -> WritePlan:
    """How to write any message to one file, with whatever references it has."""
    if codec is CODEC:
        segments = encode(message)
    elif codec is TEXT_CODEC:
        segments = [text.to_text(message).encode()]
    elif codec is JSON_CODEC:
        segments = [jsontext.to_json(message).encode()]
    else:
        raise TypeError(f"{codec.title} holds models only")
    writes, nbytes = lay_out(segments)
    return WritePlan((FilePlan(path, nbytes, tuple(writes)),))


def _onnx_options(options: SerializeOptions) -> OnnxOptions:
    return OnnxOptions(
        external_data=(options.location or True) if options.save_as_external_data else None,
        size_threshold=options.size_threshold,
        alignment=options.alignment,
        max_external_file_size=options.max_external_file_size or 0,
        one_file_per_tensor=not options.all_tensors_to_one_file,
    )


def _references_hold(model: Model, directory: Path) -> bool:
    """Whether every reference to external data leads to the same file from `directory`, or nowhere anyhow."""
    for _, tensor in walk.external_tensors(model):
        source = tensor.external_source
        if source is None and tensor.raw_data is None:
            continue
        location = next((entry.value for entry in tensor.external_data if entry.key == "location"), None)
        if tensor.raw_data is not None or not (isinstance(source, FileSpan) and location):
            return False
        path = directory / location
        if not (path.exists() and path.samefile(source.file.path)):
            return False
    return True


def _with_references_made(model: Model) -> Model:
    """The model, where tensors that are marked as external but still have their data refer to these data instead."""
    if not any(tensor.raw_data for _, tensor in walk.external_tensors(model)):
        return model
    new = copied(model)
    for _, tensor in walk.external_tensors(new):
        if tensor.raw_data is not None:
            tensor.external_source, tensor.raw_data = tensor.raw_data, None
    return new
