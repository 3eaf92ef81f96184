"""Graphs whose external data are an `.onnxz` archive: how to write them, and how to recognise their archive.

The directory of the archive must be equal, byte for byte, to the one that the graph was linked to. Every reference must
be an entry of the archive. So a graph is refused if its archive was replaced or changed, even if its offsets still fit.

Spec: docs/links.md.
"""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING

from formats.codecs.contract import Checksum
from formats.errors import DecodeError, EncodeError, ExternalDataError
from formats.ir import dtypes, walk
from formats.ir.archive_link import ArchiveLink, is_name
from formats.ir.model import EXTERNAL, Model, Tensor
from formats.ir.storage import raw_source, with_raw_data
from formats.onnxpb.wire.encoder import encode, referring
from formats.tensordata.file import AbsentFile, is_address, is_stream
from formats.tensordata.plan import SMALL_BYTES, USE, FilePlan, Loss, WritePlan, lay_out
from formats.tensordata.sources.source import FileSpan

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from formats.onnxzip.records import Entry
    from formats.tensordata.file import File
    from formats.tensordata.sources.source import Source

NUMBER_FIELDS = tuple(field for field in dtypes.TYPED_FIELDS if field != "string_data")
RELINK = "`formats convert ARCHIVE GRAPH --link --force` links the graph to the current archive"


# Reading


def payloads_of(link: ArchiveLink, file: File) -> frozenset[tuple[int, int]]:
    """The file offset and size of each entry of the open archive, if it is the archive of the link.

    Raises: ExternalDataError if it is not.
    """
    source = file.span()
    if source.nbytes != link.nbytes:
        change = f"the archive has {source.nbytes} bytes, but had {link.nbytes} when the graph was linked to it"
        raise ExternalDataError(f"{change}; {RELINK}")
    try:
        entries = _entries_in(source)
    except DecodeError as error:
        raise ExternalDataError(f"the archive that the graph is linked to is damaged: {error.message}") from None
    if _directory_sha256(source, entries[-1].end) != link.directory_sha256:
        raise ExternalDataError(f"the archive is not the one that the graph was linked to; {RELINK}")
    return frozenset((entry.payload_offset, entry.nbytes) for entry in entries[:-1])


def checksums_of(model: Model) -> Iterator[Checksum]:
    """The CRC-32 of each entry of the archive that the model is linked to."""
    link = ArchiveLink.of(model)
    if link is None:
        return
    sources = (tensor.external_source for _, tensor in walk.external_tensors(model))
    for file in {file: None for source in sources if source is not None for file in source.files()}:
        if file.path.name == link.archive and not isinstance(file, AbsentFile):
            for entry in _entries_in(file.span()):
                payload = file.span().slice(entry.payload_offset, entry.nbytes)
                yield Checksum(entry.name, "crc32", f"{entry.crc32:08x}", payload)


def _entries_in(source: Source) -> list[Entry]:
    """The entries of an archive, which its own room reads."""
    from formats.onnxzip.reader import read_entries

    return read_entries(source)


def _directory_sha256(source: Source, directory_offset: int) -> str:
    """The digest of the directory and the end records, in hexadecimal."""
    return hashlib.sha256(source.read(directory_offset)).hexdigest()


# Writing


def plan_model(model: Model, destination: Path, size_threshold: int) -> WritePlan:
    """How to write `model` to `destination`, with its weights in their archive.

    Weights of less than `size_threshold` bytes are in the graph, so that shape inference finds them.

    Raises: EncodeError if they are in no archive, or if a reference from `destination` to it would not work.
    """
    archive, directory_offset, linked = _linked(model, size_threshold)
    losses = _check_place(archive, destination)
    inside = {
        id(tensor): raw_source(tensor)
        for _, tensor in walk.external_tensors(model)
        if id(tensor) not in linked and not vars(tensor).get("string_data")
    }
    location = archive.path.name

    def stored(tensor: Tensor) -> Tensor | bytes:
        if span := linked.get(id(tensor)):
            places = {"location": location, "offset": str(span.file_offset), "length": str(span.nbytes)}
            return referring(tensor, places)
        source = inside.get(id(tensor))
        return tensor if source is None else with_raw_data(tensor, source)

    whole = archive.span()
    link = ArchiveLink(archive.path.name, whole.nbytes, _directory_sha256(whole, directory_offset))
    writes, nbytes = lay_out(encode(link.added_to(model), stored), small_bytes=SMALL_BYTES)
    archive.check_unchanged()
    return WritePlan((FilePlan(destination, nbytes, tuple(writes)),), losses=tuple(losses))


def _linked(model: Model, size_threshold: int) -> tuple[File, int, dict[int, FileSpan]]:
    """The archive with entries for tensors of the model, the offset of its directory, and their places, by `id`.

    Raises: EncodeError if there is none, or more than one, or an entry is not aligned.
    """
    ends: dict[File, int] = {}
    payloads: dict[File, set[tuple[int, int]]] = {}
    linked: dict[int, FileSpan] = {}
    used: dict[File, None] = {}
    for where, tensor in walk.movable_tensors(model):
        span = tensor.external_source if tensor.data_location == EXTERNAL else tensor.raw_data
        if not isinstance(span, FileSpan) or span.nbytes < size_threshold:
            continue
        if span.file not in ends:
            entries = _entries(span.file)
            ends[span.file] = entries[-1].end if entries else 0
            payloads[span.file] = {(entry.payload_offset, entry.nbytes) for entry in entries[:-1]}
            del entries  # they need more memory than the tensors
        if (span.file_offset, span.nbytes) in payloads[span.file]:
            raw_source(tensor)  # this raises if the size does not fit the type and the dims
            _check_alignment(tensor, where, span)
            linked[id(tensor)] = span
            used[span.file] = None
    if len(used) != 1:
        raise EncodeError(_why_unlinked(model, size_threshold, used))
    (archive,) = used
    return archive, ends[archive], linked


def _why_unlinked(model: Model, size_threshold: int, used: Iterable[File]) -> str:
    """Why no one archive has the weights, and what to do."""
    needs = "`link` needs all weights in one archive, as `formats convert MODEL NEW.onnxz` writes it"
    if names := " and ".join(sorted(str(file.path) for file in used)):
        return f"weights are in several archives, {names}; {needs}"
    numbers = (vars(tensor).get(field) for _, tensor in walk.tensors(model) for field in NUMBER_FIELDS)
    if any(source is not None and source.nbytes >= size_threshold for source in numbers):
        return (
            "weights are in the graph, in fields such as float_data, and no program can map these; first run "
            "`formats convert MODEL NEW.onnx --external-data`, then write the archive from that model"
        )
    return f"no weight of at least {size_threshold} bytes is in an .onnxz archive; {needs}"


def _entries(file: File) -> list[Entry]:
    """The entries of the archive in a file; none if it is not an archive."""
    try:
        return _entries_in(file.span())
    except DecodeError:
        return []


def _check_alignment(tensor: Tensor, where: str, span: FileSpan) -> None:
    """Raises EncodeError if a program that maps the archive could not use the tensor in place."""
    unit = max(dtypes.BY_NUMBER[tensor.data_type or 0].bits // 8, 1)
    if span.file_offset % unit:
        raise EncodeError(
            f"tensor {tensor.name!r:.80} is at byte {span.file_offset} of the archive, which is not a multiple of the "
            f"{unit} bytes of an element; write the archive again with `alignment=64`",
            where=where,
        )


def _check_place(archive: File, destination: Path) -> list[Loss]:
    """The losses for programs that do not accept the archive of a graph at `destination`.

    Raises: EncodeError if hardly any program accepts it.
    """
    path = archive.path
    if is_stream(path) or is_stream(destination):
        raise EncodeError("`link` needs paths, not streams: the graph refers to the archive by its name")
    try:
        path.name.encode()
    except UnicodeEncodeError:
        raise EncodeError(f"the name of the archive, {path.name!r:.80}, is not UTF-8; rename it") from None
    if not is_name(path.name):
        raise EncodeError(f"the name of the archive, {path.name!r:.80}, would be a path on other systems; rename it")
    if is_address(path) or is_address(destination):
        if path.parent != destination.parent:
            raise EncodeError(f"the graph must be in the folder of its archive, {path.parent}")
        return []
    target = os.path.realpath(destination)
    if os.path.realpath(path) == target:
        raise EncodeError(f"{destination} is the archive itself; `link` needs another name for the graph")
    if path.is_symlink():
        where = os.path.realpath(path)
        raise EncodeError(f"the archive {path} is a symbolic link, which onnx does not follow; link to {where} itself")
    if os.path.dirname(target) != os.path.realpath(path.parent):  # noqa: PTH120 - of a path that is resolved
        folder = os.path.realpath(path.parent)
        raise EncodeError(
            f"the graph must be in the folder of its archive, {folder}, because readers look for weights only there"
        )
    names = path.stat().st_nlink
    if names == 1:
        return []
    return [
        Loss("hard_link", "", f"the archive has {names} names (hard links), and onnx does not read such files", USE)
    ]
