"""Executes a plan: the only code that writes.

It knows nothing about formats: it gets a plan and writes files. `tasks.py` splits a plan into tasks. A rehearsal checks
a plan without writing: anything that would prevent its execution is an error. It reads no weights, except those whose
computation can show an error.
"""

from __future__ import annotations

import errno
import os
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from threading import Condition, Lock
from typing import TYPE_CHECKING, Any, NamedTuple

from formats.errors import FormatError, file_exists
from formats.options import (
    MOST_WORKERS,
    SWITCH,
    count,
    option,
    progress_option,
    retries_option,
    settle,
    size,
    store_option,
)
from formats.tensordata.file import is_address, is_stream
from formats.tensordata.local.directory import made_folders
from formats.tensordata.local.osio import SYSTEM, Capabilities, processors, room_for_files
from formats.tensordata.local.output import OutputFile, check_name, follows_link, replaced_mode, written_path
from formats.tensordata.plan import (
    OWNER_ACCESS,
    FilePlan,
    LateWrite,
    Permissions,
    PlacedWrite,
    Renamed,
    WritePlan,
    check_plan,
)
from formats.tensordata.replacing.further_name import FurtherName, OneNameError, check_further_name
from formats.tensordata.replacing.hidden import told_as
from formats.tensordata.replacing.publication import expected_names, finish_interrupted, publish
from formats.tensordata.sources.digest import new_digester
from formats.tensordata.tasks import tasks_of, write_run
from formats.tensordata.threads import started

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from formats.tensordata.file import File
    from formats.tensordata.sources.source import Source
    from formats.tensordata.tasks import WorkerTask, WriteTarget
    from formats.tensordata.threads import InThread


MAX_THREADS = 8  # more threads are not faster with any disk or memory bus
WRITE_BYTES = 16 << 10  # the bytes that are moved in the time that the interpreter needs for a write
REPORT_SECONDS = 0.05
REQUEST_BYTES, REQUESTS_AT_ONCE = 8 << 20, 8  # if sources are in a store or on another machine


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """Options for writing files; they do not change the written bytes.

    Memory use stays near `in_flight_bytes`, even if a chunk for each thread would need more; only a transform that
    needs its whole input may exceed it, and then it runs alone. `parents`: whether missing folders around the
    files are made. `dry_run`: nothing is written, but anything that would prevent the write is an error. `fsync`:
    whether the files are certainly on the disk at the end. By default, a file that replaces another one is on the
    disk before the old one is removed, and a new file is as safe as after `cp`.

    `progress` is called with the bytes done and the bytes to do, in the calling thread, at most 20 times a second and
    once at the end.

    `storage_options` and `retries` are for destinations that are addresses, as those of `ReadOptions` are for sources.

    Raises: OptionError for an invalid value.
    """

    threads: int = option(0, count(0, MOST_WORKERS), "Use N threads; 0, the default, chooses a suitable number.")
    chunk_bytes: int = option(  # a chunk that fits into a second-level cache is written while it is still there
        1 << 20, size(1), "The number of bytes that a thread moves at a time.", flags=()
    )
    in_flight_bytes: int = option(
        256 << 20, size(), "The maximum number of bytes in memory at a time, for all threads.", flags=()
    )
    overwrite: bool = option(False, SWITCH, "Replace files that exist.", short="-f", flag="--force", common=True)
    parents: bool = option(False, SWITCH, "Make missing parent folders.", common=True)
    dry_run: bool = option(False, SWITCH, "Change nothing; say what would be done.", short="-n", common=True)
    fsync: bool | None = option(None, SWITCH, "Force files to disk; by default only files that replace others.")
    progress: Callable[[int, int], None] | None = progress_option()
    storage_options: Mapping[str, Any] | None = store_option()
    retries: int = retries_option()
    capabilities: Capabilities = SYSTEM

    def __post_init__(self) -> None:
        settle(self)


class Result(NamedTuple):
    """What was done: the size of all files in bytes, and the digests by key."""

    nbytes: int
    digests: Mapping[str, bytes]


class Memory:
    """A target in memory."""

    def __init__(self, nbytes: int) -> None:
        self.buffer = bytearray(nbytes)
        self._view = memoryview(self.buffer)

    def pwrite(self, offset: int, data: memoryview) -> None:
        """Copy."""
        self._view[offset : offset + len(data)] = data

    def copy_range(self, file: File, source_offset: int, offset: int, nbytes: int) -> int:
        """Read directly to the destination."""
        file.pread_into(source_offset, self._view[offset : offset + nbytes])
        return nbytes


def execute(
    plan: WritePlan, options: EngineOptions | None = None, replaced: File | None = None, renamed: Sequence[Renamed] = ()
) -> Result:
    """Write every file of the plan completely, and return what was done.

    On any failure, no file of the plan is in its place, the old files are unchanged, and nothing else is left. The plan
    may read from the files that it replaces. If `replaced` is given, the last replaced file must still be that file.
    Files that are `renamed` come before those of the plan; those that do not move keep their old names, too.

    A `dry_run` knows no digests.

    Raises: the first error of reading, transforming or writing, unchanged; FileExistsError if a file is in the
    way and not to be overwritten; OneNameError if a file that is `renamed` cannot have two names; TensorDataError if a
    source, or what is replaced, was changed meanwhile; BlockingIOError if another process writes the model for long.
    """
    options = options or EngineOptions()
    check_plan(plan)
    if plan.files and (is_address(plan.files[-1].path) or is_stream(plan.files[-1].path)):
        return _put_elsewhere(plan, options)
    if options.dry_run:
        return rehearse(plan, options, renamed)
    if not (plan.files or renamed):
        return Result(0, transfer(plan, [], _with_requests(options, source_files_of(plan))))
    model = plan.files[-1].path if plan.files else renamed[-1].path
    with made_folders(model.parent) if options.parents else nullcontext():
        return Result(plan.nbytes, _write(model, plan, options, replaced or plan.replaced, renamed))


def _write(
    model: Path, plan: WritePlan, options: EngineOptions, replaced: File | None, renamed: Sequence[Renamed]
) -> dict[str, bytes]:
    """Write the files of a model where no program finds them, and put them in their places together; the digests."""
    number = len(renamed) + len(plan.files)
    follow_link = follows_link(model, number)
    owner = written_path(model, follow_link, options.capabilities)
    finish_interrupted(owner, overwrite=options.overwrite, capabilities=options.capabilities)
    source_files = source_files_of(plan)
    permissions = _permissions(plan, source_files)
    outputs, names = list[OutputFile](), list[FurtherName]()
    with ExitStack() as ending:
        ending.enter_context(room_for_files(number))
        for named in renamed:
            name = FurtherName(named, overwrite=options.overwrite, owner=owner, capabilities=options.capabilities)
            names.append(name)
            ending.callback(name.discard)
        for file in plan.files:
            output = OutputFile(
                file.path,
                file.nbytes,
                overwrite=options.overwrite,
                follow_link=follow_link and file is plan.files[-1],
                owner=owner,
                permissions=permissions,
                capabilities=options.capabilities,
            )
            outputs.append(output)
            ending.callback(output.discard)
        digests = transfer(plan, outputs, _with_requests(options, source_files))
        for source_file in source_files:
            source_file.check_unchanged()
        for used in plan.used.values():  # the graph refers to what is at their paths, not to what was opened
            used.check_in_place()
        ending.enter_context(told_as(model))
        publish(
            [*names, *outputs],
            plan.models,
            overwrite=options.overwrite,
            fsync=options.fsync,
            replaced=replaced,
            goes=plan.goes,
        )
    return digests


def _put_elsewhere(plan: WritePlan, options: EngineOptions) -> Result:
    """Write a plan to a store or a stream."""
    options = _with_requests(options, source_files_of(plan))
    if is_address(plan.files[-1].path):
        from formats.tensordata.remote.upload import upload

        return upload(plan, options)
    from formats.tensordata.streams import send_to_stream

    return send_to_stream(plan, options)


def to_bytes(plan: WritePlan, options: EngineOptions | None = None) -> bytes:
    """The content of the only file of the plan; writes nothing to a disk."""
    check_plan(plan)
    (file,) = plan.files
    memory = Memory(file.nbytes)
    _fill(plan, [memory], options)
    return bytes(memory.buffer)


def materialise(sources: Sequence[Source], options: EngineOptions | None = None) -> list[memoryview]:
    """The bytes of each source, read into memory of its own by several threads; writable."""
    targets = [Memory(source.nbytes) for source in sources]
    files = (FilePlan(Path(), source.nbytes, (PlacedWrite(0, source),)) for source in sources)
    _fill(WritePlan(tuple(files)), targets, options)
    return [memoryview(target.buffer) for target in targets]


def _fill(plan: WritePlan, targets: Sequence[Memory], options: EngineOptions | None) -> None:
    """Write a plan to memory.

    Raises: TensorDataError if a source was changed meanwhile.
    """
    source_files = source_files_of(plan)
    transfer(plan, targets, _with_requests(options or EngineOptions(), source_files))
    for source_file in source_files:
        source_file.check_unchanged()


def _permissions(plan: WritePlan, source_files: Iterable[File]) -> Permissions:
    """The permissions of the plan, without those that a source file does not give to others."""
    new = plan.permissions.new
    for file in source_files:
        new &= file.permissions | OWNER_ACCESS
    return plan.permissions._replace(new=new)


def source_files_of(plan: WritePlan) -> set[File]:
    """The files that a plan reads from, or whose bytes its graph refers to."""
    return {*plan.used.values(), *(file for source in _sources(plan) for file in source.files())}


def _with_requests(options: EngineOptions, source_files: Iterable[File]) -> EngineOptions:
    """The options for sources in stores, where threads wait for answers: more threads, and larger requests."""
    if all(file.is_local for file in source_files):
        return options
    chunk_bytes = max(options.chunk_bytes, REQUEST_BYTES)
    return replace(options, threads=options.threads or REQUESTS_AT_ONCE, chunk_bytes=chunk_bytes)


def _sources(plan: WritePlan) -> Iterator[Source]:
    for file in plan.files:
        for write in file.writes:
            yield write.source
    for _, source in plan.digests:
        yield source


def transfer(plan: WritePlan, targets: Sequence[WriteTarget], options: EngineOptions) -> dict[str, bytes]:
    """Write the plan into the targets, one for each file, and return the digests."""
    wanted = [write.digest for file in plan.files for write in file.writes if write.digest]
    wanted += [digest for digest, _ in plan.digests]
    digesters = {digest.key: new_digester(digest.algorithm) for digest in wanted}
    total = plan.nbytes + sum(source.nbytes for _, source in plan.digests)
    threads = options.threads
    if not threads:
        # The interpreter runs one thread at a time; its part of a write takes as long as a move of some KiB.
        serial_bytes = options.chunk_bytes + WRITE_BYTES * sum(len(file.writes) for file in plan.files)
        threads = min(processors(), MAX_THREADS, total // serial_bytes + 1)
    crew = Crew(tasks_of(plan, targets, digesters, options.chunk_bytes), options)
    crew.work(threads, total, lambda: _give_up(source_files_of(plan)))
    digests = {key: digester.digest() for key, digester in digesters.items()}
    for file, target in zip(plan.files, targets, strict=True):
        _write_late(file.late_writes, target, digests)
    if options.progress:
        options.progress(total, total)
    return digests


def _give_up(files: Iterable[File]) -> None:
    for file in files:
        file.give_up()


class Crew:
    """Threads that do tasks until none is left or one fails."""

    def __init__(self, tasks: Iterator[WorkerTask], options: EngineOptions) -> None:
        self._tasks = tasks
        self._options = options
        self._turn = Lock()  # held by the thread that takes the next task, so that a large task does not wait forever
        self._changed = Condition()  # guards everything below
        self._in_flight_bytes = 0
        self._done_bytes = 0
        self._stopped = False
        self._error: BaseException | None = None

    def work(self, threads: int, total: int, give_up: Callable[[], None]) -> None:
        """Do everything with this many threads, while this one reports progress out of `total` bytes.

        If this thread is interrupted, it calls `give_up`, so that the others do not wait for a source.

        If there is little to do, or the system allows no other thread, this one does everything.

        Raises: the first error of any task.
        """
        work = partial(self._work, min(self._options.chunk_bytes, total))
        crew: list[InThread[None]] = []
        try:
            # Starting a thread and waiting for it takes as long as writing a small file.
            if threads > 1 or total > self._options.chunk_bytes:
                while len(crew) < threads and (thread := started(work)):
                    crew.append(thread)
            if not crew:
                work()
            for thread in crew:
                while not thread.wait(REPORT_SECONDS):
                    if self._options.progress:
                        self._options.progress(self._done_bytes, total)
                    if self._stopped:
                        self._stop()  # again: a thread without memory may have woken no other
        except BaseException:
            self._stop()
            give_up()
            raise
        finally:
            self._stop()
            for thread in crew:
                thread.wait()
        try:
            if self._error is not None:
                raise self._error
            for thread in crew:
                thread.result()
        finally:
            self._error = None  # the error refers to this frame, and so to all its objects

    def _work(self, scratch_bytes: int) -> None:
        """Do tasks until none is left. Raises: nothing, unless there is no memory even to keep the error."""
        scratch = memoryview(b"")
        try:
            while task := self._take():
                scratch = scratch or memoryview(bytearray(scratch_bytes))
                self._do(task, scratch)
        except BaseException as error:  # raised again by `work`
            self._stop(error)

    def _do(self, task: WorkerTask, scratch: memoryview) -> None:
        """Do a task, or what is left of it until the crew is stopped."""
        try:
            for run in task.runs:
                if self._stopped:
                    return
                write_run(run, scratch)
                with self._changed:
                    self._done_bytes += run[-1].end - run[0].file_offset
        finally:
            with self._changed:
                self._in_flight_bytes -= task.memory_bytes
                self._changed.notify_all()

    def _take(self) -> WorkerTask | None:
        """The next task; it waits until there is memory for it, or until no other task uses memory."""
        with self._turn:
            task = None if self._stopped else next(self._tasks, None)
            if task is None:
                return None
            limit = max(self._options.in_flight_bytes - task.memory_bytes, 0)
            with self._changed:
                self._changed.wait_for(lambda: self._stopped or self._in_flight_bytes <= limit)
                self._in_flight_bytes += task.memory_bytes
            return task

    def _stop(self, error: BaseException | None = None) -> None:
        with self._changed:
            if not self._stopped:
                self._error = error
            self._stopped = True
            self._changed.notify_all()


def partial_progress(progress: Callable[[int, int], None], before: int, total: int) -> Callable[[int, int], None]:
    """The progress of a part of the work, which begins when `before` of `total` bytes are done."""
    return lambda done, _: progress(before + done, total)


def _write_late(writes: Sequence[LateWrite], target: WriteTarget, digests: Mapping[str, bytes]) -> None:
    """Write the bytes that depend on digests; neighbours in one call."""
    pending: list[bytes] = []
    start = end = 0  # of what is pending
    for write in sorted(writes, key=lambda write: write.file_offset):
        data = write.render(digests)
        if len(data) != write.nbytes:
            raise ValueError(f"late write {write.label!r} has {len(data)} bytes, planned as {write.nbytes}")
        if write.file_offset != end:
            target.pwrite(start, memoryview(b"".join(pending)))
            start, pending = write.file_offset, []
        pending.append(data)  # not copied: the directory of an archive may be large
        end = write.end
    target.pwrite(start, memoryview(b"".join(pending)))


def rehearse(plan: WritePlan, options: EngineOptions, renamed: Sequence[Renamed] = ()) -> Result:
    """What the engine would do, without digests, after a check that it could carry out the plan now.

    Raises: the errors of `engine.execute` that can be known before it: later, another process may be faster, or a disk
    may fail.
    """
    paths = [*(file.path for file in renamed), *(file.path for file in plan.files)]
    if paths:
        _check_places(plan, renamed, paths, options)
    sources = [source for _, source in plan.digests]
    for write in chain.from_iterable(file.writes for file in plan.files):
        sources.append(write.source)
        try:
            for source in write.source.doubtful():
                source.read()
        except FormatError as error:
            error.where = error.where or write.label or None
            raise
    for file in {file for source in sources for file in source.files()}:
        file.check_unchanged()
    return Result(plan.nbytes, {})


def _check_places(plan: WritePlan, renamed: Sequence[Renamed], paths: Sequence[Path], options: EngineOptions) -> None:
    """Raises OSError or DecodeError if a file cannot be written to its place, in the order of the engine."""
    model, capabilities = paths[-1], options.capabilities
    if options.parents and not model.parent.exists():
        _check_folder_to_make(model.parent)
        for path in paths:
            check_name(path, capabilities)
        return
    follow_link = follows_link(model, len(paths))
    owner = written_path(model, follow_link, capabilities)
    expected = {} if options.overwrite else expected_names(owner)
    for named in renamed:
        check_further_name(named, overwrite=options.overwrite, capabilities=capabilities)
        is_elsewhere = named.old.stat().st_dev != named.path.parent.stat().st_dev
        if not named.moves and (is_elsewhere or not capabilities.hard_link):
            raise OneNameError(named.old)
    for file in plan.files:
        check_name(file.path, capabilities)
        destination = written_path(file.path, follow_link and file is plan.files[-1], capabilities)
        there = expected.get(destination.name) if destination.parent == owner.parent else None
        if there:
            raise file_exists(file.path)
        if there is None:
            replaced_mode(file.path, destination, overwrite=options.overwrite)
        _check_writable(destination.parent, destination.parent)
    _check_space(plan.files, owner.parent, capabilities)


def _check_folder_to_make(folder: Path) -> None:
    """Raises OSError if a folder, with its missing parents, cannot be made."""
    while not folder.parent.exists():
        folder = folder.parent
    if not folder.parent.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder))
    _check_writable(folder.parent, folder)


def _check_writable(folder: Path, told: Path) -> None:
    """Raises PermissionError, or OSError for a filesystem that is read-only, if no name can be made in a folder."""
    if hasattr(os, "statvfs") and os.statvfs(folder).f_flag & os.ST_RDONLY:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(told))
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(told))


def _check_space(files: Sequence[FilePlan], folder: Path, capabilities: Capabilities) -> None:
    """Raises OSError for the first file that does not fit on the disk, on systems that reserve space before writing."""
    if not (capabilities.allocate and hasattr(os, "statvfs")):
        return
    status = os.statvfs(folder)
    free = (status.f_bfree if os.geteuid() == 0 else status.f_bavail) * status.f_frsize
    for file in files:
        free -= file.nbytes
        if free < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(file.path))
