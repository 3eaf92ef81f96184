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
from formats.errors import DecodeError, FormatError, OptionError
from formats.ir import walk
from formats.ir.archive_link import ArchiveLink
from formats.ir.model import EXTERNAL, Model
from formats.onnxpb.external.other_graphs import OtherGraphs
from formats.onnxpb.wire.decoder import decode
from formats.onnxzip import records
from formats.onnxzip.archive import Packing
from formats.onnxzip.graph import check_external, visit_graph
from formats.onnxzip.model import check_archive
from formats.onnxzip.reader import checksums_of, read_contents, read_entries, read_hashes
from formats.tensordata.engine import execute
from formats.tensordata.file import File
from formats.tensordata.local.directory import remove_file
from formats.tensordata.plan import INTERFACE, Digest, Loss, WritePlan
from formats.tensordata.replacing import publication
from formats.tensordata.replacing.hidden import HiddenFileError, undo_path
from formats.tensordata.replacing.lock import ModelLock
from formats.tensordata.replacing.tail_replacement import (
    before_update,
    check_not_interrupted,
    opened_again,
    replace_tail,
    restore_from_undo,
)
from formats.tensordata.sources.source import FileSpan, Literal, storage_key

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from formats.onnxzip.graph import ExternalTensor
    from formats.onnxzip.options import ArchiveOptions
    from formats.onnxzip.reader import Contents
    from formats.onnxzip.records import Entry
    from formats.tensordata.engine import EngineOptions
    from formats.tensordata.sources.source import Source

MAX_MOVED_BYTES = 64 << 20  # of data in the overwritten part that are still needed, and therefore are read into memory


class Update(NamedTuple):
    """The result of an update: the number of written bytes, whether in place, and the losses, including links to it."""

    written_bytes: int
    in_place: bool
    losses: tuple[Loss, ...]


def update_archive(
    model: Model, path: Path, options: ArchiveOptions, engine: EngineOptions, name: str | None = None
) -> Update:
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
    directory = file.span().read(
        old.contents.entries()[-1].end
    )  # with every checksum, so it identifies the old archive
    # Hashes that the archive did not have would need all its weights, so it is written as a whole then.
    kept, places = _kept(model, old) if old.hashes or not options.sha256 else ([], {})
    packing = old.packed(model, options, kept, places)
    if not kept or not _moved_to_memory(packing.payloads, file):
        whole = old.packed(model, options).plan(path)
        execute(whole, replace(engine, overwrite=True), file)
        return Update(whole.nbytes, False, (*whole.losses, *_stale_links(path, directory)))
    start = kept[-1].end
    plan = packing.file_plan(file.path)
    replace_tail(file, start, plan, engine, directory)
    return Update(plan.nbytes - start, True, (*packing.losses, *_stale_links(path, directory)))


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

        def need(tensor: ExternalTensor) -> None:
            needed.add(check_external(tensor, sizes))

        for graph in contents.graphs.values():
            if graph is not changing:
                message = source.slice(graph.payload_offset, graph.nbytes)
                visit_graph(message, need, DEEPEST)
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
    if now.read(read_entries(now)[-1].end) == directory:
        return
    old_sha256 = hashlib.sha256(directory).hexdigest()
    for link_path, link in _links_to(path):
        if link.directory_sha256 == old_sha256:
            yield _stale_link(link_path, f"is linked to the old version of {path.name}")


def perhaps_stale_links(archive: Path) -> Iterator[Loss]:
    """A loss for each graph that is linked to the archive that will be replaced.

    Our readers then refuse such a graph. Other readers do not notice, and would read other bytes as weights.

    Spec: docs/links.md.
    """
    for path, _ in _links_to(archive):
        yield _stale_link(path, f"is linked to the replaced archive {archive.name}")


def _links_to(archive: Path) -> Iterator[tuple[Path, ArchiveLink]]:
    """The graphs in the folder that are linked to an archive with this name, whatever its state is now."""
    for path in OtherGraphs(archive.parent, (archive,)).linked(archive):
        try:
            link = ArchiveLink.of(decode(File.open(path).span(), Model))
        except (FormatError, OSError):
            continue
        if link is not None and link.archive == archive.name:
            yield path, link


def _stale_link(path: Path, reason: str) -> Loss:
    return Loss("stale_link", path.name, f"{path.name} {reason}; link it again", INTERFACE)


def repair_archive(path: Path) -> bool:
    """Complete the archive at `path` and remove its undo file; return whether its old state was restored.

    A journal that is damaged, or may not be followed, is not used. Neither is such an undo file, if the archive is
    complete; it is removed if it can be.

    Raises: DecodeError if the archive is damaged and there is no undo file, or a damaged one.
    """
    place = Path(os.path.realpath(path))  # resolved once; whatever is there later must not be another link
    with suppress(HiddenFileError):
        publication.repair_interrupted(place)
    undo = undo_path(place)
    if not os.path.lexists(undo):
        check_archive(File.open(place).span(), DEEPEST)
        return False
    with ModelLock(place), opened_again(place) as (target, file):
        if is_complete(file.span()):
            with suppress(PermissionError, IsADirectoryError):  # something strange, which nobody will follow
                remove_file(undo)
            return False
        restore_from_undo(target, file, _is_archive)
        return True


def may_be_archive(path: Path) -> bool:
    """Whether the file at `path` begins like an archive, which may be incomplete."""
    with path.open("rb") as file:
        return file.read(4) == records.LOCAL_HEADER.signature


def _is_archive(source: Source) -> bool:
    """Whether a strict reader accepts the archive; its weights are not read."""
    try:
        check_archive(source, DEEPEST)
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
            places[storage_key(span)] = entry
    kept: list[Entry] = []
    for entry in by_range.values():
        # Entries stay only as a run from the start of the file: nothing is moved, so there can be no gap.
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


def _moved_to_memory(payloads: list[Source], file: File) -> bool:
    """Read the new payloads that are in the file itself into memory; return whether they are not too many."""
    moved_bytes = 0
    # The new entries are written over the old tail, so what they need of it must be elsewhere before.
    for index, source in enumerate(payloads):
        if any(payload_file.is_same(file) for payload_file in source.files()):
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
        old_state = before_update(source, path)
    except DecodeError:  # an update begins when the undo file is complete
        return source
    if old_state is None or is_complete(source, old_state.parts[0].nbytes):
        return source
    return old_state


def is_complete(source: Source, file_offset: int = 0) -> bool:
    """Whether a strict reader accepts the archive, and all checksums of the bytes from `file_offset` on are right."""
    try:
        check_archive(source, DEEPEST)
        checksums = [
            checksum
            for checksum in checksums_of(source)
            if checksum.algorithm == "crc32"
            and isinstance(checksum.source, FileSpan)
            and checksum.source.file_offset >= file_offset
        ]
        digests = tuple((Digest(where, "crc32"), payload) for where, _, _, payload in checksums)
        computed = execute(WritePlan((), digests=digests)).digests
    except DecodeError:
        return False
    return all(computed[where].hex() == expected for where, _, expected, _ in checksums)
