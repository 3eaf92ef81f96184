"""Where external data may lie, and opening it there.

Spec: ONNX docs, "External Data" and "Security"; onnx.proto, `TensorProto.external_data`.
"""

from __future__ import annotations

import os
import re
from bisect import bisect_left
from pathlib import Path
from typing import TYPE_CHECKING

from formats.errors import DecodeError, ExternalDataError
from formats.ir import dtypes
from formats.tensordata.osio import File

if TYPE_CHECKING:
    from formats.ir.model import Tensor
    from formats.tensordata.source import FileSpan

KEPT_OPEN = 64  # data files held open at a time; a model with a file per tensor can have thousands

_DRIVE = re.compile(r"[A-Za-z]:")
_IN_MEMORY = re.compile(r"_ORT_MEM_ADDR_|^\*/|^<.*>$")


def check_location(location: str) -> None:
    """Nothing, where `location` names a file in the model's directory or below.

    Raises: ExternalDataError for an empty, absolute or in-memory location, a drive, or a way out by "..".
    """
    if not location:
        raise ExternalDataError("external data has no location")
    if "\0" in location or _IN_MEMORY.search(location):
        raise ExternalDataError(f"location {location!r:.80} is not a file name")
    steps = re.split(r"[/\\]", location)
    if not steps[0] or _DRIVE.match(location) or ".." in steps:
        raise ExternalDataError(f"location {location!r:.80} leads outside the model's directory")


class DataFiles:
    """The data files of one model, each opened once, and the ranges of them that are in use.

    Without `hard_links`, a file that has further names is refused: one of them may be outside, and not meant for
    whoever wrote the model.
    """

    def __init__(self, model_path: Path, *, hard_links: bool = True) -> None:
        self.directory = model_path.parent
        self.allowed = {os.path.realpath(self.directory), str(Path(os.path.realpath(model_path)).parent)}
        self.hard_links = hard_links
        self.files: dict[str, File] = {}  # by location
        self.opened: dict[str, File] = {}  # by path without links, which several locations may lead to
        self.ranges: dict[File, list[tuple[int, int]]] = {}

    def find(self, tensor: Tensor, where: str) -> FileSpan:
        """The range of a data file that holds the bytes of `tensor`.

        A missing offset is 0, a missing length what dims and data type need, or else the rest of the file. Tensors
        may share a range, but ranges that overlap in part are refused.

        Raises: ExternalDataError for a file, a range or a size that is not allowed, with the tensor's place.
        """
        entries = {entry.key: entry.value or "" for entry in tensor.external_data}
        location = entries.get("location", "")
        try:
            check_location(location)
            file = self.files.get(location)
            if file is None:
                file = self.files[location] = self.open(location)
            offset, length = _number(entries, "offset") or 0, _number(entries, "length")
            row = dtypes.BY_NUMBER.get(tensor.data_type or 0)
            expected = row.nbytes(tensor.dims) if row and row.bits and min(tensor.dims, default=0) >= 0 else None
            size = length if length is not None else expected if expected is not None else file.nbytes - offset
            _check_length(size, expected)
            span = file.span().slice(offset, size)
            self.claim(file, offset, offset + size)
        except ExternalDataError as error:
            error.where, error.path = where, error.path or self.directory / location.replace("\0", "")
            raise
        except DecodeError as error:
            raise ExternalDataError(error.message, path=self.directory / location, where=where) from None
        return span

    def open(self, location: str) -> File:
        """The file at `location`, where policy allows it.

        A symbolic link may lead anywhere in the model's own directory, or in that of the file which the model's own
        path resolves to: the layout of the Hugging Face cache, where both are links into one folder of blobs.
        """
        path = self.directory / location
        resolved = self.resolve(path)
        if resolved in self.opened:
            return self.opened[resolved]
        try:
            file = File.open(Path(resolved), keep_open=len(self.opened) < KEPT_OPEN)
        except FileNotFoundError:
            raise ExternalDataError("the data file does not exist; it must lie beside the model") from None
        with file.descriptor() as descriptor:
            status = os.fstat(descriptor)
        if not os.path.samestat(status, os.lstat(resolved)) or self.resolve(path) != resolved:
            raise ExternalDataError("the data file was replaced while it was opened")
        if status.st_nlink > 1 and not self.hard_links:
            names = f"{status.st_nlink} names (hard links)"
            raise ExternalDataError(f"the data file has {names}, which is not allowed here; a copy has one")
        self.opened[resolved] = file
        return file

    def resolve(self, path: Path) -> str:
        """The path without links, inside one of the allowed directories."""
        resolved = os.path.realpath(path)
        if not any(Path(resolved).is_relative_to(directory) for directory in self.allowed):
            raise ExternalDataError("the data file is outside the model's directory, which may not be read")
        return resolved

    def claim(self, file: File, start: int, end: int) -> None:
        """Note that a tensor uses the bytes from `start` to `end` of a file."""
        ranges = self.ranges.setdefault(file, [])
        index = bisect_left(ranges, (start, end))
        if start == end or (index < len(ranges) and ranges[index] == (start, end)):
            return
        before, after = ranges[index - 1 : index] if index else [], ranges[index : index + 1]
        if any(other[0] < end and start < other[1] for other in before + after):
            raise ExternalDataError(f"the bytes {start} to {end} overlap those of another tensor")
        ranges.insert(index, (start, end))


def _check_length(size: int, expected: int | None) -> None:
    if expected is not None and size != expected:
        raise ExternalDataError(f"length is {size} bytes, but dims and data type make {expected}")


def _number(entries: dict[str | None, str], key: str) -> int | None:
    text = entries.get(key)
    if not text:
        return None
    if not text.isascii() or not text.isdecimal() or len(text) > 20:
        raise ExternalDataError(f"{key} is {text!r:.40}, which is no number of bytes")
    return int(text)
