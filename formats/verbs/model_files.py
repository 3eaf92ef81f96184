"""The files that belong to a model, the graph and the data files that it refers to, and what each range of them is."""

# ruff: noqa: A002 - `format` is the word that users know from `load`

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from formats.codecs import lookup
from formats.codecs.contract import ReadOptions, Region
from formats.errors import FormatError
from formats.ir import dtypes, walk
from formats.ir.archive_link import ArchiveLink
from formats.ir.storage import location_of
from formats.onnxpb.external.other_graphs import Naming, OtherGraphs
from formats.onnxpb.external.safetensors import header_of
from formats.onnxzip import CODEC as ARCHIVE
from formats.options import make_options
from formats.tensordata.file import AbsentFile
from formats.verbs.arguments import local_path_of, path_of
from formats.verbs.inspect import raw_nbytes, span_of, tolerant
from formats.verbs.report import fields_as_json
from formats.verbs.steps.opening import models_in, read_decoded

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from typing_extensions import Unpack

    from formats.ir.model import Model
    from formats.keywords import ReadKeywords
    from formats.tensordata.file import File
    from formats.tensordata.sources.source import Source
    from formats.verbs.arguments import AnySource


IS_A_MODEL = "it is a model itself"
MAX_PADDING_BYTES = 1 << 16  # a larger gap than any alignment makes is reported as unused


class OwnFile(NamedTuple):
    """A file of a model: its path, its size in bytes, and its location in the graph, if the graph refers to it.

    `stays` says why it does not move with the model, and is empty if it does. `leads_to` is the target of a
    link at `path`; the target also stays. `missing` says what is wrong if it is not there, or too short.
    """

    path: Path
    nbytes: int
    location: str = ""
    stays: str = ""
    leads_to: Path | None = None
    missing: str = ""

    def to_json(self) -> dict[str, Any]:
        """The file as strings, numbers and `None`."""
        return fields_as_json(self, " ".join(self._fields))


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """The files that belong to the model at `path`; `files` begins with the model."""

    path: Path
    format: str
    files: tuple[OwnFile, ...]

    @property
    def nbytes(self) -> int:
        """The size of all files together, in bytes."""
        return sum(file.nbytes for file in self.files)

    def to_json(self) -> dict[str, Any]:
        """The files in strings, numbers and lists."""
        return fields_as_json(self, "path format nbytes files")


class OpenedFiles(NamedTuple):
    """A model that was read, and its open files: the model file, and the data files by location.

    `source` is the content of the model file; during an update in place, it is as it was before.
    """

    listed: ModelFiles
    model: Model
    source: Source
    file: File
    data: Mapping[str, File]
    unread: Path | None  # another graph in the folder that cannot be read, so that it may use the data


def files(
    path: str | os.PathLike[str],
    *,
    format: str | None = None,
    **options: Unpack[ReadKeywords],
) -> ModelFiles:
    """List the files that belong to the model at `path`, without reading weights; `options` are those of `load`.

    This also works if data files are missing or too short; they are marked.

    This also reads the other graphs in the folder: a data file that one of them uses, too, stays when the model moves.

    For example:

        >>> report = formats.convert("model.onnx", "split.onnx", external_data=True)
        >>> [file.path.name for file in formats.files("split.onnx").files]
        ['split.onnx', 'split.onnx.data']

    Raises: FormatError if the model cannot be read; OSError if a file cannot.
    """
    return open_files(local_path_of(path), format, tolerant(make_options(ReadOptions, options, by=files))).listed


def open_files(
    path: Path,
    format_name: str | None,
    reading: ReadOptions,
    ignored: Collection[Path] = (),
    *,
    alone: bool = False,
    trusts_unread: bool = False,
) -> OpenedFiles:
    """The model at `path` and its files; the references of the models at `ignored` do not count.

    With `alone`, no other graph is read, and every file may move. With `trusts_unread`, graphs that
    cannot be read do not count: none of them uses the data.
    """
    names = models_in(path, format_name, reading)
    # The models in one archive have the same files, so one of them is enough.
    codec, source, model = read_decoded(path, format_name, replace(reading, model=names[-1]))
    model_file = next(source.files())
    data, absent = _data_files(model, model_file)
    reasons: dict[str, str] = {}  # why files stay, by location
    unread = None
    if not alone and (data or codec.is_archive):
        reasons, unread = _needed_by_others(path, model_file, data, ignored, trusts_unread=trusts_unread)
    files = [_listed(path, model_file, "", reasons.get("", ""))]
    for location in sorted({*data, *absent}):
        place = path.parent / location
        if location in data:  # at least one tensor is in it
            listed = _listed(place, data[location], location, reasons.get(location) or _elsewhere(path, location))
            if location in absent:  # too short for one tensor, long enough for another
                listed = listed._replace(missing=absent[location].reason)
        else:
            listed = _absent(place, location, absent[location])
        files.append(listed)
    return OpenedFiles(ModelFiles(path, codec.name, tuple(files)), model, source, model_file, data, unread)


def _data_files(model: Model, model_file: File | None) -> tuple[dict[str, File], dict[str, AbsentFile]]:
    """The data files of a model by location, and those that are missing or too short for a tensor."""
    data: dict[str, File] = {}
    absent: dict[str, AbsentFile] = {}
    for _, tensor in walk.external_tensors(model):
        file = next(tensor.external_source.files(), None) if tensor.external_source is not None else None
        if isinstance(file, AbsentFile):
            absent[location_of(tensor)] = file
        elif file is not None and file != model_file:
            data[location_of(tensor)] = file
    return data, absent


def _absent(path: Path, location: str, file: AbsentFile) -> OwnFile:
    """A file of which the model finds no tensor; if there is one, nobody knows what it is."""
    stays = "" if file.found_nbytes is None else "it does not have the weights of the model"
    return OwnFile(path, file.found_nbytes or 0, location, stays, missing=file.reason)


def _listed(path: Path, file: File, location: str, stays: str) -> OwnFile:
    leads_to = Path(os.path.realpath(path)) if path.is_symlink() else None
    if location and path.suffix.lower() in lookup.model_extensions():
        stays = IS_A_MODEL
    return OwnFile(path, file.nbytes, location, stays, leads_to)


def _elsewhere(model: Path, location: str) -> str:
    """Why a data file stays if a link on the way to it leads out of the folder of the model; empty if none does."""
    own, folder = (os.path.realpath(place) for place in (model.parent, (model.parent / location).parent))
    if Path(folder).is_relative_to(own):
        return ""
    return f"it is in another folder, {folder}, to which a link leads; it may belong to a model there"


def _needed_by_others(
    path: Path, model_file: File, data: Mapping[str, File], ignored: Collection[Path], *, trusts_unread: bool
) -> tuple[dict[str, str], Path | None]:
    """Why files of a model stay, by location, and a graph in the folder that cannot be read, and may use its data.

    A file stays if another graph in the folder refers to it. The location of the model itself is empty: a graph can be
    linked to an archive.
    """
    reasons: dict[str, str] = {}
    others = OtherGraphs(path.parent, (path, *ignored))
    if data:
        graphs = others.naming([*(path.parent / name for name in data), *(file.path for file in data.values())])
    else:  # only an archive can have the weights of a graph, which says so
        graphs = [Naming(other) for other in others.linked(path)]
    for graph in graphs:
        used = _used_by(graph, {"": model_file, **data})
        if used is None and data and not trusts_unread:
            every = dict.fromkeys(data, f"{graph.path.name} cannot be read, and may use it, too")
            return every | reasons, graph.path
        for location in used or ():
            reasons.setdefault(location, f"{graph.path.name} uses it, too")
    return reasons, None


def _used_by(other: Naming, files: Mapping[str, File]) -> set[str] | None:
    """The files to which a graph refers, by the locations where the model has them, under no other of their names.

    `None` if it cannot be read, or is too large to find out.
    """
    if other.is_too_large:
        return None
    named = other.references()
    if named is None:  # it may be a model in another format
        try:
            _, _, model = read_decoded(other.path)
        except (FormatError, OSError):
            return None
        named = {os.path.normpath(location) for location in _data_files(model, None)[0]}
        model.close()
    used = {os.path.realpath(other.path.parent / location) for location in named}
    return {
        location
        for location, file in files.items()
        if os.path.normpath(location) in named or os.path.realpath(file.path) in used
    }


class FileLayout(NamedTuple):
    """A file and its regions, from its first byte to its last.

    Tensors of up to 1 KiB are part of the region of the graph: `inner_count` of them, with `inner_nbytes` of elements.
    """

    path: Path
    nbytes: int
    regions: tuple[Region, ...]
    inner_count: int = 0
    inner_nbytes: int = 0


def layout(path: AnySource, *, format: str | None = None, **options: Unpack[ReadKeywords]) -> tuple[FileLayout, ...]:
    """The regions of the files of a model, the model file first; `options` are those of `load`.

    Raises: FormatError if it cannot be read; OSError if a file cannot.
    """
    reading = make_options(ReadOptions, options, by=layout)
    path = path_of(path)
    *names, last = models_in(path, format, reading)
    codec, source, model = read_decoded(path, format, replace(reading, model=last))
    models = [read_decoded(path, format, replace(reading, model=name))[2] for name in names]
    here = {file.path: file for file in source.files()}  # the archive of several models is opened for each
    tensors: dict[File, dict[tuple[int, int], Region]] = {file: {} for file in here.values()}
    inner = []
    for _, tensor in chain.from_iterable(map(walk.tensors, (*models, model))):
        span = span_of(tensor)
        if span is None:
            inner.append(raw_nbytes(tensor))
        else:
            label = f"{tensor.name or 'tensor'}: {dtypes.type_name(tensor.data_type)} {tensor.dims}"
            region = Region(span.file_offset, span.nbytes, "tensor", label)
            file = here.get(span.file.path, span.file)
            tensors.setdefault(file, {}).setdefault((region.file_offset, region.nbytes), region)
    own, *others = tensors
    link = ArchiveLink.of(model)
    parts: dict[File, Iterable[Region]] = {own: codec.regions(source)}
    for file in sorted(others, key=lambda file: file.path):
        is_archive = link is not None and file.path.name == link.archive
        parts[file] = (ARCHIVE.regions if is_archive else header_of)(file.span())
    first, *rest = (
        FileLayout(file.path, file.nbytes, tuple(_regions(file.nbytes, regions, tensors[file].values())))
        for file, regions in parts.items()
    )
    return (first._replace(inner_count=len(inner), inner_nbytes=sum(inner)), *rest)


def _regions(nbytes: int, parts: Iterable[Region], tensors: Iterable[Region]) -> Iterator[Region]:
    """The file's parts without gaps, divided where there are tensors in them."""
    rest = sorted(tensors, reverse=True)
    for part in _filled(sorted(parts), nbytes):
        position = part.file_offset
        while rest and rest[-1].end <= part.end:
            tensor = rest.pop()
            if tensor.file_offset >= position:  # otherwise, it overlaps the region before it
                yield from _piece(part, position, tensor.file_offset)
                yield tensor
                position = tensor.end
        yield from _piece(part, position, part.end)


def _filled(parts: Iterable[Region], nbytes: int) -> Iterator[Region]:
    """The parts of a file of this size, with the gaps between them as padding."""
    position = 0
    for part in (*parts, Region(nbytes, 0, "padding", "")):
        if position < part.file_offset:
            yield Region(position, part.file_offset - position, "padding", "padding")
        yield part
        position = part.end


def _piece(part: Region, start: int, end: int) -> Iterator[Region]:
    """The range of a part, if it is not empty."""
    if start < end:
        unused = part.kind == "padding" and end - start >= MAX_PADDING_BYTES
        kind, label = ("unused", "not used") if unused else (part.kind, part.label)
        yield Region(start, end - start, kind, label)
