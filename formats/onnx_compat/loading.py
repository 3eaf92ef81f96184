"""How `load` and similar functions read a message: where its external data are, and which weights stay in their file.

What is small is read at once, as `onnx` does: the file may then change or go away. What is larger stays in its file
until it is needed. A process may have only so many files open, so the files of further models are closed, and opened
again when their weights are needed.

Spec: the `onnx` package (1.23), `onnx.load`; onnx-light for what that lacks.
"""

from __future__ import annotations

import os
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast
from weakref import WeakSet

from formats.codecs.contract import MAX_DEPTH, Codec, ReadOptions
from formats.errors import ExternalDataError, LimitError
from formats.ir import walk
from formats.ir.archive_link import ArchiveLink, without_link
from formats.ir.model import DEFAULT, EXTERNAL, SOURCE_FIELDS, Model, StringStringEntry, Tensor, remove_field
from formats.onnx_compat.protos.classes import CLASSES, unwrap
from formats.onnx_compat.saving import BESIDE
from formats.onnxpb.codecs import CODEC, JSON_CODEC, TEXT_CODEC
from formats.onnxpb.external.confinement import DataFiles
from formats.onnxpb.text import protojson, textproto
from formats.onnxpb.text.textfile import read_text
from formats.onnxpb.wire.decoder import decode
from formats.tensordata.engine import EngineOptions, materialise
from formats.tensordata.sources.source import Literal, Source

if TYPE_CHECKING:
    from collections.abc import Iterable

    from formats.onnxpb.serialization import ProtoSerializer
    from formats.tensordata.file import File

AT_ONCE_BYTES = 64 << 20  # of a model file, and of all its other files together; reading them takes some 20 ms
KEPT_OPEN = 200  # files; a process may often have 1024, of which models are not the only user
REMEDY = "load the model again, with num_threads=0 if its file may change: then all weights are read at once"
WEIGHTS = SOURCE_FIELDS["TensorProto"] - {"external_source"}  # those of the message

_open: WeakSet[File] = WeakSet()
Tensors: TypeAlias = list[tuple[str, Tensor]]  # each with its place in the model
T = TypeVar("T")

FILE_LOAD_MODES = ("AUTO", "MMAP", "IFSTREAM")
PAGE_BYTES = 4096


@dataclass(frozen=True, slots=True)
class ParseOptions:
    """How a message is read.

    `load_external_data`: external data become raw data of their tensors, as with `onnx.load`; otherwise references stay
    references, and their files may be missing. `location`: the file with the external data, instead of the model's
    locations; a relative path starts at the model's directory.

    A model file of up to 64 MiB is read at once, and so are other files of together up to 64 MiB. Weights of larger
    ones stay in the file until they are needed, except if `num_threads` is given: then this many threads (0 or
    less: a suitable number) read them into memory now. `no_copy` uses a given buffer directly, although it may change,
    and not a copy of it; a `bytes` object is never copied. The weights keep the file or the buffer alive.

    `skip_raw_data` leaves out the weights of tensors with at least `raw_data_threshold` bytes of them. `max_depth` and
    `hard_links` are those of `formats.load`.

    Of onnx-light: `max_recursion_depth` is another name of `max_depth`; a tensor of more than `max_tensor_size_bytes`
    is refused, unless that is 0; `file_load_mode` "MMAP" leaves weights of every size in the file, "IFSTREAM" reads
    them into memory now, as `num_threads` does, and "AUTO" decides by size; `touch_raw_data_pages` reads every page of
    a mapping, so that it is in the page cache; `min_block_size` is accepted without effect: the file determines how
    much is read at once.
    """

    load_external_data: bool = True
    location: str | os.PathLike[str] | None = None
    num_threads: int | None = None
    no_copy: bool = False
    skip_raw_data: bool = False
    raw_data_threshold: int = 1024
    max_depth: int = MAX_DEPTH
    hard_links: bool = True
    max_recursion_depth: int | None = None
    max_tensor_size_bytes: int = 0
    file_load_mode: str = "AUTO"
    touch_raw_data_pages: bool = False
    min_block_size: int = 0

    def __post_init__(self) -> None:
        mode = getattr(self.file_load_mode, "name", self.file_load_mode)  # an enum of onnx-light, or its text
        if mode not in FILE_LOAD_MODES:
            raise ValueError(f"file_load_mode is {mode!r}, but must be one of {', '.join(FILE_LOAD_MODES)}")
        object.__setattr__(self, "file_load_mode", mode)

    @property
    def threads(self) -> int | None:
        """The number of threads that read all weights now, or `None` if the weights stay in the file."""
        return 1 if self.num_threads is None and self.file_load_mode == "IFSTREAM" else self.num_threads


DEFAULTS = ParseOptions()


def parse_part(message_class: type[T], source: Source, form: Codec | ProtoSerializer) -> T:
    """The message of any class in a source."""
    if form is CODEC:
        return decode(source, message_class)
    if form is TEXT_CODEC:
        return textproto.parse_text(read_text(source), message_class)
    if form is JSON_CODEC:
        return protojson.parse_json(read_text(source), message_class)
    if isinstance(form, Codec):
        raise TypeError(f"{form.title} can hold only models")
    empty = CLASSES[message_class.message]()  # type: ignore[attr-defined]
    return cast("T", unwrap(form.deserialize_proto(source.read(), empty)))


def read_model(source: Source, path: Path | None, form: Codec | ProtoSerializer, options: ParseOptions) -> Model:
    """The model in a source, with its external data as the options say."""
    beside = form in BESIDE or not isinstance(form, Codec)
    file = next(source.files(), None)
    at_once = options.threads is None and options.file_load_mode == "AUTO"
    if isinstance(form, Codec):
        if beside and at_once and file is not None:
            source = read_small(source)
        elif path is not None:
            source = form.settled(source, path)
        depth = options.max_recursion_depth or options.max_depth
        model = form.read(source, None if beside else path, ReadOptions(depth, options.hard_links))
        if form.domain is not None:
            model, _ = form.raise_model(model, {})
    else:
        model = parse_part(Model, source, form)
    every = options.skip_raw_data or options.threads is not None or options.max_tensor_size_bytes > 0
    tensors = list(walk.tensors(model) if every or options.touch_raw_data_pages else walk.external_tensors(model))
    if beside:
        _locate(model, tensors, path, file, options)
    if options.skip_raw_data:
        _skip(tensors, options.raw_data_threshold)
    if options.max_tensor_size_bytes > 0:
        _limit(tensors, options.max_tensor_size_bytes)
    if options.load_external_data:
        for _, tensor in tensors:
            _inline(tensor)
        model = without_link(model)
    if at_once:
        read_small_weights(tensors if beside else walk.tensors(model))
    keep([source, *(tensor.external_source for _, tensor in tensors), *(tensor.raw_data for _, tensor in tensors)])
    if options.threads is not None:
        read_now(in_files(tensors), options.threads)
    elif options.touch_raw_data_pages:
        for _, tensor in tensors:
            if tensor.raw_data is not None:
                bytes(tensor.raw_data.view()[::PAGE_BYTES])
    return model


def _locate(model: Model, tensors: Tensors, path: Path | None, file: File | None, options: ParseOptions) -> None:
    """Find the bytes of every external tensor; if they are not to be loaded, only of those that exist."""
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
    files = DataFiles(base, model_file=file, hard_links=options.hard_links, link=ArchiveLink.of(model))
    for where, tensor in outside:
        with nullcontext() if options.load_external_data else suppress(ExternalDataError, OSError):
            tensor.external_source = files.find(tensor, where)


def _inline(tensor: Tensor) -> None:
    """Make the external data of a tensor its raw data, as `onnx` does when it loads them."""
    if tensor.external_source is not None:
        tensor.raw_data, tensor.external_source = tensor.external_source, None
        remove_field(tensor, "external_data")
        tensor.data_location = DEFAULT


def _skip(tensors: Tensors, threshold: int) -> None:
    for _, tensor in tensors:
        for name in SOURCE_FIELDS["TensorProto"]:
            source = getattr(tensor, name)
            if source is not None and source.nbytes >= threshold:
                setattr(tensor, name, None)


def _limit(tensors: Tensors, limit: int) -> None:
    """Return nothing if no tensor has more bytes than the limit.

    Raises: LimitError.
    """
    for where, tensor in tensors:
        for name in SOURCE_FIELDS["TensorProto"]:
            source = getattr(tensor, name)
            if source is not None and source.nbytes > limit:
                raise LimitError(f"the tensor has {source.nbytes} bytes, more than the {limit} allowed", where=where)


def name_of(form: Codec | ProtoSerializer) -> str:
    """The name of a format."""
    return form.name if isinstance(form, Codec) else form.supported_format


# What is read at once, and which files stay open


def read_small(source: Source) -> Source:
    """The source, read into memory if it is small."""
    return Literal(source.read()) if source.nbytes <= AT_ONCE_BYTES else source


def read_small_weights(tensors: Iterable[tuple[str, Tensor]]) -> None:
    """Read the weights that are in files into memory, if they are small together; tensors may also be messages."""
    places = in_files(tensors)
    if sum(source.nbytes for _, _, source in places) <= AT_ONCE_BYTES:
        read_now(places, 1)


def in_files(tensors: Iterable[tuple[str, Tensor]]) -> list[tuple[Tensor, str, Source]]:
    """The weights that are not in memory: the tensor, the name of its field, and the source."""
    return [
        (tensor, name, source)
        for _, tensor in tensors
        for name in WEIGHTS
        if (source := vars(tensor).get(name)) is not None and not isinstance(source, Literal)
    ]


def read_now(places: list[tuple[Tensor, str, Source]], threads: int) -> None:
    """Read these weights into memory."""
    read = materialise([source for _, _, source in places], EngineOptions(threads=max(threads, 0))) if places else []
    for (tensor, name, _), data in zip(places, read, strict=True):
        vars(tensor)[name] = Literal(data.toreadonly())


def keep(sources: Iterable[Any]) -> None:
    """Keep the files of these sources open, unless there are many already; no other thread may use them yet."""
    for file in {file for source in sources if source is not None for file in source.files()}:
        file.remedy = REMEDY
        if file in _open:
            continue
        if len(_open) < KEPT_OPEN:
            _open.add(file)
        else:
            file.close()
