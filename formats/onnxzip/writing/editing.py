"""Archives that are changed in place: weights that stay are not written again.

Entries that the model still uses stay if no entry before them is removed; after them, new entries, the graph and the
directory are written again. If an entry before others is removed, the whole archive is written, next to the old one.

Spec: docs/onnxz.md, "Editing".
"""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from formats.codecs.contract import DEEPEST
from formats.errors import DecodeError, OptionError
from formats.ir import walk
from formats.ir.model import EXTERNAL
from formats.onnxzip import records, stale_links
from formats.onnxzip.reading.contents import read_contents, read_hashes
from formats.onnxzip.reading.graph import check_external, visit_graph
from formats.onnxzip.reading.model import check
from formats.onnxzip.reading.reader import read_entries
from formats.onnxzip.regions import checksums_of
from formats.onnxzip.writing.archive import Packing
from formats.tensordata.engine import execute
from formats.tensordata.file import File
from formats.tensordata.local.directory import remove
from formats.tensordata.plan import Digest, Loss, WritePlan
from formats.tensordata.replacing import publication
from formats.tensordata.replacing.hidden import HiddenFileError, undo_path
from formats.tensordata.replacing.lock import ModelLock
from formats.tensordata.replacing.tail_replacement import (
    before_update,
    check_not_interrupted,
    opened_again,
    put_back,
    replace_tail,
)
from formats.tensordata.sources.source import FileSpan, Literal, place_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from formats.ir.model import Model
    from formats.onnxzip.options import ArchiveOptions
    from formats.onnxzip.reading.contents import Contents
    from formats.onnxzip.records import Entry
    from formats.tensordata.engine import EngineOptions
    from formats.tensordata.sources.source import Source

MAX_MOVED_BYTES = 64 << 20  # of data in the overwritten part that are still needed, and therefore are read into memory


class Update(NamedTuple):
    """The result of an update: the number of written bytes, whether in place, and the losses, including links to it."""

    written_bytes: int
    in_place: bool
    losses: tuple[Loss, ...]


def update(model: Model, path: Path, options: ArchiveOptions, engine: EngineOptions, name: str | None = None) -> Update:
    """Write `model`, which was read from the archive at `path` and changed, back to it.

    In an archive with several models, it is the one with this name, or the default one. Other models, files and whether
    there are hashes stay.

    Models that were read from the archive earlier lose their weights; read them again. The new content is on the disk.
    A process that is killed leaves the old archive, the new one, or one that every reader refuses and `repair`
    restores.

    Raises: DecodeError if there is no archive at `path`; FileExistsError if an earlier update was interrupted;
    TensorDataError if another process changed or replaced the archive meanwhile, BlockingIOError if one is about to;
    EncodeError and others as in writing. Then the archive is unchanged, or as the other process wrote it.
    """
    if engine.dry_run:
        raise OptionError("`dry_run` has no effect on an update, which changes the archive in place")
    check_not_interrupted(path)
    file = File.open(os.path.realpath(path))
    old = _Old.of(file, name)
    entries = old.contents.entries()
    end = file.span().read(entries[-1].end)  # the directory, which contains every checksum
    kept, places = _kept(model, old) if old.hashes or not options.sha256 else ([], {})
    packing = old.packed(model, options, kept, places)
    start = kept[-1].end if kept else 0
    if not kept or not _moved_to_memory(packing.payloads, file):
        packing = old.packed(model, options)
        whole = packing.plan(path)
        execute(whole, replace(engine, overwrite=True), file)
        return Update(whole.nbytes, False, (*whole.losses, *_stale_links(path, end)))
    plan = packing.file_plan(file.path)
    replace_tail(file, start, plan, engine, end)
    return Update(plan.nbytes - start, True, (*packing.losses, *_stale_links(path, end)))


class _Old(NamedTuple):
    """An archive, one of whose models changes; `needed` are the names of the entries that other models refer to."""

    file: File
    contents: Contents
    hashes: dict[str, str]
    changing: Entry
    needed: set[str]

    @classmethod
    def of(cls, file: File, name: str | None) -> _Old:
        """The archive in the file, whose model `name` changes.

        Raises: DecodeError if it is no archive; OptionError if it has no such model.
        """
        source = file.span()
        contents = read_contents(source)
        changing = contents.graph(name)
        sizes = {entry.name: entry.nbytes for entry in contents.tensors}
        needed: set[str] = set()
        for graph in contents.graphs.values():
            if graph is not changing:
                message = source.slice(graph.payload_offset, graph.nbytes)
                visit_graph(message, lambda tensor: needed.add(check_external(tensor, sizes)), DEEPEST)
        return cls(file, contents, read_hashes(source, contents), changing, needed)

    def packed(
        self,
        model: Model,
        options: ArchiveOptions,
        kept: Sequence[Entry] = (),
        places: Mapping[tuple[object, ...], Entry] | None = None,
    ) -> Packing:
        """The new archive: the entries that stay in place, what other models need, the changed model, and the rest."""
        packing = Packing(options, kept, places)
        names = {entry.name for entry in kept}
        for entry in self.contents.tensors:
            if entry.name in self.needed - names:
                packing.repeat(entry.name, self._payload(entry))
        for name, graph in self.contents.graphs.items():
            if graph is self.changing:
                packing.pack(model, name)
            else:
                packing.repeat_graph(name, self._payload(graph))
        files = {entry.name: self._payload(entry) for entry in self.contents.files}
        with_hashes = options.sha256 or self.contents.hashes is not None
        packing.finish(files, {name: self.hashes[name] for name in names} if with_hashes else None)
        return packing

    def _payload(self, entry: Entry) -> Source:
        return self.file.span().slice(entry.payload_offset, entry.nbytes)


def _stale_links(path: Path, directory: bytes) -> Iterator[Loss]:
    """A loss for each graph that is linked to the old archive at `path`, if that had another directory."""
    now = File.open(path).span()
    if now.read(read_entries(now)[-1].end) != directory:
        yield from stale_links.stale(path, hashlib.sha256(directory).hexdigest())


def repair(path: Path) -> bool:
    """Complete the archive at `path` and remove its undo file; return whether its old state was restored.

    A journal that is damaged, or may not be followed, is not used. Neither is such an undo file, if the archive is
    complete; it is removed if it can be.

    Raises: DecodeError if the archive is damaged and there is no undo file, or a damaged one.
    """
    place = Path(os.path.realpath(path))  # resolved once; whatever is there later must not be another link
    with suppress(HiddenFileError):
        publication.repair(place)
    undo = undo_path(place)
    if not os.path.lexists(undo):
        check(File.open(place).span(), DEEPEST)
        return False
    with ModelLock(place), opened_again(place) as (target, file):
        if is_complete(file.span()):
            with suppress(PermissionError, IsADirectoryError):  # something strange, which nobody will follow
                remove(undo)
            return False
        put_back(target, file, _is_archive)
        return True


def may_be_archive(path: Path) -> bool:
    """Whether the file at `path` begins like an archive, which may be incomplete."""
    with path.open("rb") as file:
        return file.read(4) == records.LOCAL_HEADER.signature


def _is_archive(source: Source) -> bool:
    """Whether a strict reader accepts the archive; its weights are not read."""
    try:
        check(source, DEEPEST)
    except DecodeError:
        return False
    return True


def _kept(model: Model, old: _Old) -> tuple[list[Entry], dict[tuple[object, ...], Entry]]:
    """The entries that can stay in place, and the ranges of the model's view of the file that belong to them."""
    file, source = old.file, old.file.span()
    by_range = {(entry.payload_offset, entry.nbytes): entry for entry in old.contents.tensors}
    used = set(old.needed)
    places: dict[tuple[object, ...], Entry] = {}
    for span in _spans(model):
        entry = by_range.get((span.file_offset, span.nbytes)) if span.file.is_same(file) else None
        if entry is not None:
            used.add(entry.name)
            places[place_of(span)] = entry
    kept: list[Entry] = []
    for entry in by_range.values():
        header = source.read(entry.file_offset, entry.header_nbytes)
        if entry.name not in used or header != records.local_header(entry):  # for example, written by another tool
            break
        kept.append(entry)
    names = {entry.name for entry in kept}
    return kept, {place: entry for place, entry in places.items() if entry.name in names}


def _spans(model: Model) -> Iterator[FileSpan]:
    for _, tensor in walk.movable_tensors(model):
        source = tensor.external_source if tensor.data_location == EXTERNAL else tensor.raw_data
        if isinstance(source, FileSpan):
            yield source


def _moved_to_memory(payloads: list[Source | None], file: File) -> bool:
    """Read the new payloads that are in the file itself into memory; return whether they are not too many."""
    moved_bytes = 0
    for index, source in enumerate(payloads):
        if source is not None and any(other.is_same(file) for other in source.files()):
            moved_bytes += source.nbytes
            if moved_bytes > MAX_MOVED_BYTES:
                return False
            payloads[index] = Literal(source.read())
    return True


def settled(source: Source, path: Path) -> Source:
    """The archive in `source`, the file at `path`, or its state before an interrupted update."""
    if not isinstance(source, FileSpan):
        return source
    try:
        before = before_update(source, path)
    except DecodeError:  # an update begins when the undo file is complete
        return source
    if before is None or is_complete(source, before.parts[0].nbytes):
        return source
    return before


def is_complete(source: Source, file_offset: int = 0) -> bool:
    """Whether a strict reader accepts the archive, and all checksums of the bytes from `file_offset` on are right."""
    try:
        check(source, DEEPEST)
        checksums = [
            checksum
            for checksum in checksums_of(source)
            if checksum.algorithm == "crc32"
            and isinstance(checksum.source, FileSpan)
            and checksum.source.file_offset >= file_offset
        ]
        digests = tuple((Digest(where, "crc32"), payload) for where, _, _, payload in checksums)
        found = execute(WritePlan((), digests=digests)).digests
    except DecodeError:
        return False
    return all(found[where].hex() == expected for where, _, expected, _ in checksums)
