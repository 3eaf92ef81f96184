"""The data files of a model: which tensors each contains and where, its name, and who else refers to it.

`transformers.js` finds data files by their number, and by names made from the model's name. If another model in the
folder refers to a data file, replacing the file changes that model, too.

Spec: onnx.proto, `TensorProto.external_data`: `checksum` is the SHA-1 of the whole file at `location`;
@huggingface/transformers 4.3.1, src/utils/model-loader.js and src/utils/hub/constants.js.
"""

from __future__ import annotations

import errno
import os
import re
from functools import lru_cache
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from formats.codecs.contract import Checksum
from formats.errors import EncodeError, ExternalDataError, OptionError
from formats.ir import walk
from formats.ir.model import Tensor
from formats.ir.storage import entries_of, external_places, location_of
from formats.onnxpb.external import archive_links
from formats.onnxpb.external.confinement import check_location
from formats.onnxpb.external.other_graphs import OtherGraphs, referred
from formats.onnxpb.options import BROWSER_LIMIT_BYTES
from formats.tensordata.file import AbsentFile, UnusedFile
from formats.tensordata.local.osio import LocalFile
from formats.tensordata.plan import (
    INTERFACE,
    LEFT_BEHIND,
    SMALL_BYTES,
    USE,
    Digest,
    FilePlan,
    Loss,
    PlacedWrite,
    Segment,
    lay_out,
)
from formats.tensordata.replacing.hidden import MAX_NAME_BYTES
from formats.tensordata.sources.source import Concat, FileSpan, Literal, storage_key

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from formats.ir.model import Model
    from formats.onnxpb.options import OnnxOptions
    from formats.tensordata.file import File
    from formats.tensordata.plan import WritePlan
    from formats.tensordata.sources.source import Source


class MovedTensor(NamedTuple):
    """A tensor whose bytes are written to a data file; `where` is its place in the model."""

    where: str
    tensor: Tensor
    source: Source


class TensorPlace(NamedTuple):
    """The place of a tensor's bytes: the data file with this number, `offset` bytes from the `start` of its data."""

    file: int
    offset: int
    nbytes: int


class DataFileLayout:
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


class ExternalLayout:
    """The layout of a model's data files, and the `places` of its tensors in them, by their `id`."""

    def __init__(self, options: OnnxOptions) -> None:
        self.options = options
        self.files: list[DataFileLayout] = []
        self.places: dict[int, TensorPlace] = {}
        self._place_of: dict[tuple[object, ...], TensorPlace] = {}
        self._last: dict[str | None, int] = {}  # for each location, and without one, the last file

    def add(self, tensor: Tensor, source: Source, location: str | None = None) -> None:
        """Find a place for a tensor, in the file with this location if it is given; equal ranges are stored once."""
        key = location, *storage_key(source)
        place = self._place_of.get(key)
        if place is None:
            place = self._place_of[key] = self._new_place(tensor.name or "tensor", source.nbytes, location)
            self.files[place.file].add(place.offset, source)
        self.places[id(tensor)] = place

    def _new_place(self, label: str, nbytes: int, location: str | None) -> TensorPlace:
        """A place at the end of the last file, or at the start of a new one."""
        index = self._last.get(location)
        if index is not None and (location is not None or not self.options.one_file_per_tensor):
            size = self.files[index].nbytes
            offset = size + -size % self.options.aligned_to
            if location is not None or offset + nbytes <= (self.options.most_nbytes or inf):
                return TensorPlace(index, offset, nbytes)
        self._last[location] = len(self.files)
        self.files.append(DataFileLayout(label, location))
        return TensorPlace(len(self.files) - 1, 0, nbytes)

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
            return transformers_js_names(destination, len(files))
        chosen_name = self.options.external_data if isinstance(self.options.external_data, str) else None
        name = f"{destination.name}.data" if chosen_name is None else chosen_name
        check_location(name)
        if Path(name).name != name or name.casefold() == destination.name.casefold():  # one file, on some systems
            raise OptionError(f"`external_data` is {name!r}, but must be another file in the model's own directory")
        count = len(files)
        if self.options.one_file_per_tensor:
            return _names_by_tensor([file.label for file in files], destination.stem)
        if count == 1 or not self.options.max_external_file_size:
            return [name] * count
        stem, extension = (destination.stem, ".data") if chosen_name is None else (Path(name).stem, Path(name).suffix)
        return [f"{stem}-{index:05}-of-{count:05}{extension}" for index in range(1, count + 1)]


def _names_by_tensor(labels: list[str], stem: str) -> list[str]:
    """A file name for each tensor, unique even if upper and lower case are the same; labels are cut where too long."""
    most = MAX_NAME_BYTES - len(os.fsencode(f"{stem}._{len(labels)}.data"))
    names: dict[str, str] = {}
    for label in labels:
        plain = re.sub(r"[^A-Za-z0-9_.-]", "_", label)[: max(min(most, 100), 0)]
        candidate, count = f"{stem}.{plain}.data", 1
        while candidate.lower() in names:
            count += 1
            candidate = f"{stem}.{plain}_{count}.data"
        names[candidate.lower()] = candidate
    return list(names.values())


# Names for transformers.js

TRANSFORMERS_JS_EXTENSION = ".onnx"
TRANSFORMERS_JS_MAX_FILES = 100  # MAX_EXTERNAL_DATA_CHUNKS


def transformers_js_names(destination: Path, count: int) -> list[str]:
    """The names of the data files of a model.

    Raises: OptionError for a model that the library does not find; EncodeError for more files than it loads.
    """
    if not destination.name.endswith(TRANSFORMERS_JS_EXTENSION):
        raise OptionError(
            f"transformers.js loads models that are called NAME{TRANSFORMERS_JS_EXTENSION}, not {destination.name}"
        )
    if count > TRANSFORMERS_JS_MAX_FILES:
        reason = f"there would be {count} data files, but transformers.js loads at most {TRANSFORMERS_JS_MAX_FILES}"
        raise EncodeError(f"{reason}; set a larger `max_external_file_size`", path=destination)
    return [f"{destination.name}_data{f'_{index}' if index else ''}" for index in range(count)]


def transformers_js_settings(destination: Path, count: int) -> dict[str, Any]:
    """The setting for the `config.json` of the model, so that the library loads this many data files."""
    return {"transformers.js_config": {"use_external_data_format": {destination.name: count}}}


def browser_losses(files: Iterable[FilePlan]) -> Iterator[Loss]:
    """The losses for files that no browser loads."""
    for file in files:
        if file.nbytes >= BROWSER_LIMIT_BYTES:
            detail = f"{file.path.name} has {file.nbytes} bytes, but browsers load only files of less than 2 GiB"
            yield Loss("browser_limit", "", detail, INTERFACE)


# Data files that exist before a model is written


def files_in_place(tensors: Iterable[MovedTensor], destination: Path) -> dict[str, File]:
    """The data files of the model at `destination`, by location, that have all these tensors where these say so.

    Empty if a tensor is elsewhere, if there are none, or if another model, or none, is at `destination`. Files that the
    caller does not want to be used are where their references say.
    """
    files: dict[str, File] = {}
    for _, tensor, source in tensors:
        places = external_places(tensor)
        location = places.get("location", "")
        if not isinstance(source, FileSpan) or str(source.file_offset) != (places.get("offset") or "0"):
            return {}
        if files.setdefault(location, source.file) is not source.file:
            return {}
    if files and all(isinstance(file, UnusedFile) for file in files.values()):
        return files
    are_there = files and all(_is_at(destination.parent / location, file) for location, file in files.items())
    return files if are_there and {*map(os.path.normpath, files)} <= referred(destination) else {}


def locations_of_source(tensors: Iterable[MovedTensor], destination: Path) -> dict[str, File]:
    """The data files that have all these tensors, by their location for a graph at `destination`.

    Raises: ExternalDataError if there are none, or if a tensor is not there as it is, or may not be read from there.
    """
    locations: dict[File, str] = {}
    folder = os.path.realpath(destination.parent)
    for where, tensor, source in tensors:
        if not (isinstance(source, FileSpan) and isinstance(source.file, (LocalFile, UnusedFile))):
            words = "this weight changes, so it cannot stay in its data file; leave out `same_data`"
            raise ExternalDataError(words, where=where)
        file = source.file
        if file not in locations:
            here = destination.parent / location_of(tensor)
            path = os.path.realpath(here if _is_at(here, file) else file.path)
            if not Path(path).is_relative_to(folder):
                words = "the data file is not in the folder of the new graph or below it, where a graph may read"
                raise ExternalDataError(f"{words}; write the graph there, or leave out `same_data`", path=file.path)
            locations[file] = Path(os.path.relpath(path, folder)).as_posix()
    if not locations:
        raise ExternalDataError("no weight of the model is in a data file; leave out `same_data`")
    return {location: file for file, location in locations.items()}


def is_unused(source: Source) -> bool:
    """Whether the bytes are those of a data file that the caller does not want to be used."""
    return isinstance(source, FileSpan) and isinstance(source.file, UnusedFile)


def _is_at(path: Path, file: File) -> bool:
    try:
        return isinstance(file, LocalFile) and file.is_at(path.stat())
    except (OSError, ValueError):  # a location can be any text
        return False


def checksums_of(model: Model) -> Iterator[Checksum]:
    """The checksum that each tensor has for its file, and that the linked archive has for its entries."""
    yield from archive_links.checksums_of(model)
    for where, tensor in walk.external_tensors(model):
        stated = next((value or "" for key, value in entries_of(tensor) if key == "checksum"), None)
        if stated is not None and tensor.external_source is not None:
            for file in tensor.external_source.files():
                if not isinstance(file, AbsentFile):
                    yield Checksum(where, "sha1", stated.lower(), file.span())


def check_shared_data(plan: WritePlan, overwrite: bool) -> list[Loss]:
    """A loss for each model in the folder, other than those to be written, whose weights the plan replaces.

    A model that cannot be read may be one of them.

    Raises: FileExistsError if there is one that can be read, without `overwrite`.
    """
    companions, models = plan.files[: -plan.models], [file.path for file in plan.files[-plan.models :]]
    names = {file.path.name for file in companions if os.path.lexists(file.path)}
    folder = models[-1].parent
    losses = []
    for naming in OtherGraphs(folder, models).naming([folder / name for name in names]) if names else ():
        path = naming.path
        references = naming.references()
        if references is None:
            listed = ", ".join(sorted(names))
            detail = f"{path.name} cannot be read, so it may also have its weights in {listed}, whose content changes"
            losses.append(Loss("shared_data", path.name, detail, USE))
            continue
        shared = names & references
        if shared:
            detail = f"{path.name} also has its weights in {', '.join(sorted(shared))}, whose content changes"
            losses.append(Loss("shared_data", path.name, detail, INTERFACE))
            if not overwrite:
                reason = f"the data file exists, and {path.name} uses it; choose another name with `external_data`"
                raise FileExistsError(errno.EEXIST, reason, str(folder / min(shared)))
    return losses


def left_behind(plan: WritePlan, model_extensions: Collection[str]) -> Iterator[Loss]:
    """If the plan replaces a model: a loss for each of its data files to which no model in the folder will refer.

    The file is not removed: programs elsewhere may need it. One with an extension of models is a model, no data file.
    """
    models = [file.path for file in plan.files[-plan.models :]]
    folder = models[-1].parent
    old = {name for model in models if os.path.lexists(model) for name in referred(model)}
    old -= {os.path.relpath(path, folder) for path in (*plan.used, *(file.path for file in plan.files))}
    paths = {name: Path(name) for name in old}
    old = {
        name for name, path in paths.items() if path.suffix.lower() not in model_extensions and _is_below(path, folder)
    }
    for naming in OtherGraphs(folder, models).naming([folder / name for name in old]) if old else ():
        old -= referred(naming.path)
    for name in sorted(old):
        detail = (
            f"{name} belonged to the replaced model, and stays; remove it if nothing else needs it, or next time use "
            "`clean=True`"
        )
        yield Loss(LEFT_BEHIND, name, detail, USE)


def _is_below(location: Path, folder: Path) -> bool:
    """Whether there is such a file in the folder or below it."""
    return not location.is_absolute() and ".." not in location.parts and (folder / location).is_file()
