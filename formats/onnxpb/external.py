"""External data: which file a tensor's bytes are in, whether it may be read, and how such files are laid out.

Spec: onnx.proto, `TensorProto.external_data`; ONNX docs, "External Data".
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from formats.errors import DecodeError, EncodeError, ExternalDataError
from formats.ir import dtypes, walk
from formats.ir.model import Model, StringStringEntry, Tensor
from formats.ir.storage import EXTERNAL, with_raw_data, without_data
from formats.onnxpb.codec import decode, encode
from formats.tensordata.osio import File
from formats.tensordata.plan import Align, FilePlan, Loss, Segment, WritePlan, lay_out
from formats.tensordata.source import FileSpan

if TYPE_CHECKING:
    from formats.onnxpb import OnnxOptions
    from formats.tensordata.source import Source

PROTOBUF_LIMIT_BYTES = (1 << 31) - 1
KEPT_OPEN = 64  # data files held open at a time; a model with a file per tensor can have thousands

_DRIVE = re.compile(r"[A-Za-z]:")
_IN_MEMORY = re.compile(r"_ORT_MEM_ADDR_|^\*/|^<.*>$")


# Reading


def read_model(source: Source, path: Path | None) -> Model:
    """The model in `source`, with the place of each external tensor's bytes found and checked.

    External data of a model that came from memory (`path` is `None`) cannot be looked for; such tensors have none.
    """
    model = decode(source, Model)
    if model.graph is None:
        raise DecodeError("the message has no graph, so it is not an ONNX model")
    if path is not None:
        files = _DataFiles(path)
        for where, tensor in walk.tensors(model):
            if tensor.data_location == EXTERNAL:
                tensor.external_source = files.find(tensor, where)
    return model


class _DataFiles:
    """The data files of one model, each opened once."""

    def __init__(self, model_path: Path) -> None:
        self.directory = model_path.parent
        self.allowed = {os.path.realpath(self.directory), os.path.dirname(os.path.realpath(model_path))}  # noqa: PTH120
        self.files: dict[str, File] = {}

    def find(self, tensor: Tensor, where: str) -> FileSpan:
        """The range of a data file that holds the bytes of `tensor`."""
        entries = {entry.key: entry.value or "" for entry in tensor.external_data}
        location = entries.get("location", "")
        try:
            check_location(location)
            file = self.files.get(location)
            if file is None:
                file = self.files[location] = self.open(location)
            offset, length = _number(entries, "offset", 0), _number(entries, "length", None)
            row = dtypes.BY_NUMBER.get(tensor.data_type or 0)
            expected = row.nbytes(tensor.dims) if row and row.bits and min(tensor.dims, default=0) >= 0 else None
            size = length if length is not None else expected if expected is not None else file.nbytes - (offset or 0)
            _check_length(size, expected)
            return file.span().slice(offset or 0, size)
        except ExternalDataError as error:
            error.where, error.path = where, error.path or self.directory / location
            raise
        except DecodeError as error:
            raise ExternalDataError(str(error.message), path=self.directory / location, where=where) from None

    def open(self, location: str) -> File:
        """The file at `location`, where policy allows it.

        A symbolic link may lead anywhere in the model's own directory, or in that of the file which the model's own
        path resolves to: the layout of the Hugging Face cache, where both are links into one folder of blobs.
        """
        path = self.directory / location
        resolved = os.path.realpath(path)
        if not any(os.path.commonpath((directory, resolved)) == directory for directory in self.allowed):
            raise ExternalDataError("the data file is outside the model's directory, which may not be read")
        try:
            return File.open(Path(resolved), keep_open=len(self.files) < KEPT_OPEN)
        except FileNotFoundError:
            raise ExternalDataError("the data file does not exist; it must lie beside the model") from None


def check_location(location: str) -> None:
    """Nothing, where `location` names a file in the model's directory or below.

    Raises: ExternalDataError for an empty, absolute or in-memory location, a drive, or a way out by "..".
    """
    if not location:
        raise ExternalDataError("external data has no location")
    if "\0" in location or _IN_MEMORY.search(location):
        raise ExternalDataError(f"location {location!r} is not a file name")
    steps = re.split(r"[/\\]", location)
    if not steps[0] or _DRIVE.match(location) or ".." in steps:
        raise ExternalDataError(f"location {location!r} leads outside the model's directory")


def _number(entries: dict[str | None, str], key: str, default: int | None) -> int | None:
    text = entries.get(key)
    if not text:
        return default
    if not text.isascii() or not text.isdecimal() or len(text) > 20:
        raise ExternalDataError(f"{key} is {text!r:.40}, which is no number of bytes")
    return int(text)


def _check_length(size: int, expected: int | None) -> None:
    if expected is not None and size != expected:
        raise ExternalDataError(f"length is {size} bytes, but dims and data type make {expected}")


# Writing


def plan_model(model: Model, destination: Path, options: OnnxOptions) -> WritePlan:
    """How to write `model` to `destination`, its external data to one file beside it."""
    name = options.external_data if isinstance(options.external_data, str) else f"{destination.name}.data"
    check_location(name)
    if Path(name).name != name or name == destination.name:
        raise EncodeError(f"{name!r} cannot be the data file: it must be another file in the model's own directory")
    if options.alignment < 1:
        raise EncodeError(f"an alignment of {options.alignment} bytes is not possible")
    companion = _Companion(name, options)
    stored = {id(tensor): companion.store(tensor, where) for where, tensor in walk.tensors(model)}
    changed = any(new is not None for new in stored.values())
    segments = encode(model, (lambda tensor: stored[id(tensor)] or tensor) if changed else None)
    writes, nbytes = lay_out(segments)
    files = [FilePlan(destination, nbytes, tuple(writes))]
    if companion.segments:
        data_writes, data_nbytes = lay_out(companion.segments)
        files.insert(0, FilePlan(destination.with_name(name), data_nbytes, tuple(data_writes)))
    losses = companion.losses
    if nbytes > PROTOBUF_LIMIT_BYTES:
        detail = (
            f"the file has {nbytes} bytes; onnx and onnxruntime read up to 2 GiB (--external-data makes it smaller)"
        )
        losses.append(Loss("protobuf_limit", "", detail))
    return WritePlan(tuple(files), losses=tuple(losses))


@dataclass
class _Companion:
    """The external data file that is being laid out."""

    name: str
    options: OnnxOptions
    segments: list[Segment] = field(default_factory=list)
    losses: list[Loss] = field(default_factory=list)
    nbytes: int = 0
    offsets: dict[tuple[int, int, int], int] = field(default_factory=dict)

    def store(self, tensor: Tensor, where: str) -> Tensor | None:
        """The tensor to write in place of `tensor`, or `None` where it is written as it is."""
        external = tensor.data_location == EXTERNAL
        wanted = external if self.options.external_data is None else bool(self.options.external_data)
        if not (wanted or external) or tensor.string_data:
            return None
        try:
            source = tensor.source()
        except ExternalDataError as error:
            error.where = where
            raise
        if external and any(entry.key == "checksum" for entry in tensor.external_data):
            self.losses.append(Loss("checksum", where, "the checksum of the old data file does not hold for the new"))
        keep_small = external and self.options.external_data is None
        if wanted and (keep_small or source.nbytes >= self.options.size_threshold):
            return self.outside(tensor, source)
        return with_raw_data(tensor, source) if external else None

    def outside(self, tensor: Tensor, source: Source) -> Tensor:
        """The tensor with its bytes in the data file; bytes of the same range of a file are stored once."""
        key = (
            (id(source.file), source.file_offset, source.nbytes) if isinstance(source, FileSpan) else (id(source), 0, 0)
        )
        offset = self.offsets.get(key)
        if offset is None:
            offset = self.offsets[key] = self.nbytes + -self.nbytes % self.options.alignment
            self.segments += (Align(self.options.alignment), source)
            self.nbytes = offset + source.nbytes
        places = {"location": self.name, "offset": str(offset), "length": str(source.nbytes)}
        others = [entry for entry in tensor.external_data if entry.key not in (*places, "checksum")]
        entries = [StringStringEntry(key, value) for key, value in places.items()]
        return replace(
            without_data(tensor), data_location=EXTERNAL, external_data=entries + others, external_source=source
        )
