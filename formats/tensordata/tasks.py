"""Splits a plan into pieces of at most a chunk, joins small neighbours into runs, and executes each run.

A run is read into one buffer, digested and written with one call, or copied from file to file inside the kernel. The
result does not depend on which worker does which task, and when.
"""

from __future__ import annotations

from itertools import chain, groupby
from typing import TYPE_CHECKING, NamedTuple, Protocol

from formats.errors import FormatError
from formats.tensordata.plan import PlacedWrite, WritePlan
from formats.tensordata.sources.source import GAP_BYTES, READ_BYTES, Concat, FileSpan, Literal, Source, contents

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from formats.tensordata.file import File
    from formats.tensordata.sources.digest import Digester

JOIN_BYTES = 256 << 10  # sources below this size go through a buffer with their neighbours
WHOLE_COPIES = 3  # the copies in memory for a transform of a whole source: input, output, and the copy that is written


class WriteTarget(Protocol):
    """Where bytes are written; offsets are in bytes from its start."""

    def pwrite(self, offset: int, data: memoryview, /) -> None:
        """Put `data` at `offset`; any thread may call this."""

    def copy_range(self, file: File, source_offset: int, offset: int, nbytes: int, /) -> int:
        """The number of bytes that were copied from a file without a buffer here; 0 if that is not possible."""


class Piece(NamedTuple):
    """A range of a source for a place in a target, or only for a digest."""

    target: WriteTarget | None
    file_offset: int
    nbytes: int
    source: Source
    source_offset: int
    digester: Digester | None
    is_whole: bool  # of a source that cannot be split
    label: str

    @property
    def end(self) -> int:
        """The offset in the target of the first byte after this piece."""
        return self.file_offset + self.nbytes


class WorkerTask(NamedTuple):
    """The work of one worker in sequence: runs of neighbouring pieces, which need some memory, one run at a time."""

    runs: list[list[Piece]]
    memory_bytes: int


def tasks_of(
    plan: WritePlan, targets: Sequence[WriteTarget], digesters: Mapping[str, Digester], chunk_bytes: int
) -> Iterator[WorkerTask]:
    """Everything to do: one task for each run, or for each write whose digest must be computed in order.

    Sources that are only digested come first, because one thread is busy with them for a long time.
    """

    def is_ordered(place: tuple[WriteTarget | None, PlacedWrite]) -> bool:
        digest = place[1].digest
        return digest is not None and digesters[digest.key].in_order

    for ordered, places in groupby(_placed(plan, targets), is_ordered):
        pieces = (_cut(target, write, digesters, chunk_bytes) for target, write in places)
        if not ordered:
            for run in _runs(chain.from_iterable(pieces), chunk_bytes):
                yield WorkerTask([run], _memory_bytes(run))
            continue
        for in_order in pieces:
            if runs := [[piece] for piece in in_order]:
                yield WorkerTask(runs, max(map(_memory_bytes, runs)))


def _placed(plan: WritePlan, targets: Sequence[WriteTarget]) -> Iterator[tuple[WriteTarget | None, PlacedWrite]]:
    """Every write with its target in the order of places, after the sources that are only digested."""
    for digest, source in plan.digests:
        yield None, PlacedWrite(0, source, digest, digest.key)
    for file, target in zip(plan.files, targets, strict=True):
        for write in sorted(file.writes, key=lambda write: write.file_offset):
            yield target, write


def _cut(
    target: WriteTarget | None, write: PlacedWrite, digesters: Mapping[str, Digester], chunk_bytes: int
) -> Iterator[Piece]:
    """A write as pieces of at most a chunk, if its source can be cut."""
    offset = write.file_offset
    digester = digesters[write.digest.key] if write.digest else None
    for part in _parts(write.source):
        nbytes, granule = part.nbytes, part.granule_bytes
        if granule and nbytes > chunk_bytes:
            step = max(chunk_bytes // granule, 1) * granule
            for start in range(0, nbytes, step):
                size = min(step, nbytes - start)
                yield Piece(target, offset + start, size, part, start, digester, False, write.label)
        elif nbytes:
            yield Piece(target, offset, nbytes, part, 0, digester, not granule, write.label)
        offset += nbytes


def _parts(source: Source) -> Iterator[Source]:
    """The parts of a source, down to those that are read at once."""
    if type(source) is not Concat or source.nbytes <= READ_BYTES:
        yield source
        return
    for part in source.parts:
        yield from _parts(part)


def _runs(pieces: Iterable[Piece], chunk_bytes: int) -> Iterator[list[Piece]]:
    """The pieces in runs: small sources that are neighbours in one target, up to a chunk, and all others alone."""
    run: list[Piece] = []
    start = end = 0
    open_target: WriteTarget | None = None  # of the run, while it accepts more pieces
    for piece in pieces:
        small_target = piece.target if piece.nbytes == piece.source.nbytes < JOIN_BYTES else None
        offset = piece.file_offset
        joins = (
            open_target is small_target is not None
            and 0 <= offset - end <= GAP_BYTES
            and offset + piece.nbytes - start <= chunk_bytes
        )
        if not joins:
            if run:
                yield run
            run, start = [], offset
        run.append(piece)
        open_target, end = small_target, offset + piece.nbytes
    if run:
        yield run


def _memory_bytes(run: list[Piece]) -> int:
    whole = sum(piece.nbytes for piece in run if piece.is_whole)
    return run[-1].end - run[0].file_offset + (WHOLE_COPIES - 1) * whole


def write_run(run: list[Piece], scratch: memoryview) -> None:
    """Write the bytes of a run to their places, and digest them."""
    if len(run) == 1:
        piece = run[0]
        source = piece.source
        if type(source) is Literal:
            _deliver(run, source.view()[piece.source_offset : piece.source_offset + piece.nbytes])
            return
        if type(source) is FileSpan and piece.target is not None and piece.digester is None:
            start = source.file_offset + piece.source_offset
            copied = piece.target.copy_range(source.file, start, piece.file_offset, piece.nbytes)
            if copied == piece.nbytes:
                return
            run = [
                piece._replace(
                    file_offset=piece.file_offset + copied,
                    nbytes=piece.nbytes - copied,
                    source_offset=piece.source_offset + copied,
                )
            ]
    _deliver(run, _read(run, scratch))


def _deliver(run: list[Piece], data: memoryview) -> None:
    """Digest and write `data`, the bytes of a whole run."""
    first = run[0]
    for piece in run:
        if piece.digester is not None:
            start = piece.file_offset - first.file_offset
            piece.digester.update(piece.file_offset, data[start : start + piece.nbytes])
    if first.target is not None:
        first.target.pwrite(first.file_offset, data)


def _read(run: list[Piece], scratch: memoryview) -> memoryview:
    """The bytes of a run, with zeros between its pieces."""
    parts: list[memoryview | bytes] = []
    first = run[0]
    position = first.file_offset
    try:
        if len(run) == 1:
            buffer = scratch[: first.nbytes] if first.nbytes <= len(scratch) else memoryview(bytearray(first.nbytes))
            first.source.readinto(first.source_offset, buffer)
            return buffer
        for piece, data in zip(run, contents([piece.source for piece in run]), strict=True):
            parts += (bytes(piece.file_offset - position), data)
            position = piece.end
    except FormatError as error:
        error.where = error.where or run[len(parts) // 2].label or None
        raise
    return memoryview(b"".join(parts))
