"""The layout of data files: which tensors they contain, where, and their names.

Spec: onnx.proto, `TensorProto.external_data`.
"""

from __future__ import annotations

import re
from functools import lru_cache
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from formats.errors import OptionError
from formats.ir.model import Tensor
from formats.onnxpb.external.confinement import check_location
from formats.tensordata.plan import (
    SMALL_BYTES,
    Digest,
    FilePlan,
    PlacedWrite,
    Segment,
    lay_out,
)
from formats.tensordata.sources.source import Concat, Literal, place_of

if TYPE_CHECKING:
    from formats.onnxpb.options import OnnxOptions
    from formats.tensordata.sources.source import Source


class Moving(NamedTuple):
    """A tensor whose bytes are written to a data file; `where` is its place in the model."""

    where: str
    tensor: Tensor
    source: Source


class Place(NamedTuple):
    """The place of a tensor's bytes: the data file with this number, `offset` bytes from the `start` of its data."""

    file: int
    offset: int
    nbytes: int


class DataFile:
    """The layout of a data file; `label` is the name of its first tensor, `location` its own, if given.

    Places in it are counted in bytes from its `start`.
    """

    def __init__(self, label: str, location: str | None = None) -> None:
        self.label = label
        self.location = location
        self.nbytes = 0
        self.segments: list[Segment] = []

    @property
    def start(self) -> int:
        """The start of the data, in bytes from the start of the file: its first byte."""
        return 0

    def add(self, offset: int, source: Source) -> None:
        """Append a source at this offset, which is at the end or a little after it."""
        if offset > self.nbytes:
            self.segments.append(_zeros(offset - self.nbytes))
        self.segments.append(source)
        self.nbytes = offset + source.nbytes

    def head(self, path: Path) -> bytes:
        """The bytes before the data: none."""
        return b""

    def plan(self, path: Path, checksum: str) -> FilePlan:
        """How to write the file; `checksum` is the key of its digest, if one is needed."""
        writes, nbytes = lay_out([self.head(path), *self.segments], small_bytes=SMALL_BYTES)
        if checksum:  # of the whole file, including padding
            writes = [PlacedWrite(0, Concat.of(*(write.source for write in writes)), Digest(checksum, "sha1"))]
        return FilePlan(path, nbytes, tuple(writes))


@lru_cache(maxsize=32)  # many tensors of a few shapes have the same
def _zeros(nbytes: int) -> Segment:
    """Padding; for much of it, a part is in memory, and is written again and again."""
    if nbytes < SMALL_BYTES:
        return bytes(nbytes)
    block = Literal(bytes(SMALL_BYTES))
    return Concat.of(*nbytes // SMALL_BYTES * [block], block.slice(0, nbytes % SMALL_BYTES))


class Outside:
    """The layout of a model's data files, and the `places` of its tensors in them, by their `id`."""

    def __init__(self, options: OnnxOptions) -> None:
        self.options = options
        self.files: list[DataFile] = []
        self.places: dict[int, Place] = {}
        self._place_of: dict[tuple[object, ...], Place] = {}
        self._last: dict[str | None, int] = {}  # for each location, and without one, the last file

    def add(self, tensor: Tensor, source: Source, location: str | None = None) -> None:
        """Find a place for a tensor, in the file with this location if it is given; equal ranges are stored once."""
        key = location, *place_of(source)
        place = self._place_of.get(key)
        if place is None:
            place = self._place_of[key] = self._new_place(tensor.name or "tensor", source.nbytes, location)
            self.files[place.file].add(place.offset, source)
        self.places[id(tensor)] = place

    def _new_place(self, label: str, nbytes: int, location: str | None) -> Place:
        """A place at the end of the last file, or at the start of a new one."""
        index = self._last.get(location)
        if index is not None and (location is not None or not self.options.one_file_per_tensor):
            size = self.files[index].nbytes
            offset = size + -size % self.options.aligned_to
            if location is not None or offset + nbytes <= (self.options.most_nbytes or inf):
                return Place(index, offset, nbytes)
        self._last[location] = len(self.files)
        self.files.append(DataFile(label, location))
        return Place(len(self.files) - 1, 0, nbytes)

    def names(self, destination: Path) -> list[str]:
        """The names of the data files: their locations, or names that RTen's own loader accepts, too.

        The extension of those begins with "data".

        Raises: EncodeError or ExternalDataError for one that is not allowed.
        """
        names = iter(self._names(destination))
        return [next(names) if file.location is None else file.location for file in self.files]

    def _names(self, destination: Path) -> list[str]:
        """The names of the files that have no location."""
        files = [file for file in self.files if file.location is None]
        if self.files and not files:
            return []
        if self.options.data_names is not None:
            from formats.onnxpb.external import transformers_js

            return transformers_js.names(destination, len(files))
        given = self.options.external_data if isinstance(self.options.external_data, str) else None
        name = f"{destination.name}.data" if given is None else given
        check_location(name)
        if Path(name).name != name or name.casefold() == destination.name.casefold():  # one file, on some systems
            raise OptionError(f"`external_data` is {name!r}, but must be another file in the model's own directory")
        count = len(files)
        if self.options.one_file_per_tensor:
            return _names_by_tensor([file.label for file in files], destination.stem)
        if count == 1 or not self.options.max_external_file_size:
            return [name] * count
        stem, extension = (destination.stem, ".data") if given is None else (Path(name).stem, Path(name).suffix)
        return [f"{stem}-{index:05}-of-{count:05}{extension}" for index in range(1, count + 1)]


def _names_by_tensor(labels: list[str], stem: str) -> list[str]:
    """A file name for each tensor, unique even if upper and lower case are the same."""
    names: dict[str, str] = {}
    for label in labels:
        plain = re.sub(r"[^A-Za-z0-9_.-]", "_", label)[:100]
        candidate, count = f"{stem}.{plain}.data", 1
        while candidate.lower() in names:
            count += 1
            candidate = f"{stem}.{plain}_{count}.data"
        names[candidate.lower()] = candidate
    return list(names.values())
