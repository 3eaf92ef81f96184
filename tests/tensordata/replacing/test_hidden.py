"""Hidden files that strangers have put next to a model, undo files that belong to others, and locks without locks."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import socket
import struct
import threading
import time
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import formats
from formats import Graph, Model, OperatorSetId, onnxzip
from formats.errors import DecodeError, FormatError
from formats.tensordata import interrupted
from formats.tensordata.file import File
from formats.tensordata.local.osio import SYSTEM
from formats.tensordata.replacing import hidden, journal, lock, publication, tail_replacement
from formats.tensordata.replacing.hidden import HiddenFileError, hidden_path, open_hidden, temporary_path
from formats.tensordata.replacing.journal import Journal, NewFile, OldFile, journal_path
from formats.tensordata.replacing.lock import Holder

SECRET = b"precious" * 100
needs_unix = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
needs_root = pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives files away")


def model(number: int = 1) -> Model:
    """Return a model with some weights."""
    weights = [formats.from_numpy(np.full(2000, number + index, "float32"), f"w{index}") for index in range(3)]
    graph, imports = Graph(name="g", initializer=weights), [OperatorSetId("", 17)]
    return Model(ir_version=10, producer_name=str(number), opset_import=imports, graph=graph)


def pipe(path: Path) -> None:
    """Make a named pipe."""
    os.mkfifo(path)


def listening(path: Path) -> None:
    """Make a socket with a name."""
    here = Path.cwd()
    os.chdir(path.parent)  # the name of a socket must be short
    try:
        socket.socket(socket.AF_UNIX).bind(path.name)
    finally:
        os.chdir(here)


def further_name(path: Path) -> None:
    """Make a further name of a file elsewhere."""
    (path.parent.parent / "elsewhere").write_bytes(SECRET)
    os.link(path.parent.parent / "elsewhere", path)


STRANGE: dict[str, Callable[[Path], object]] = {
    "pipe": pipe,
    "socket": listening,
    "folder": Path.mkdir,
    "link to nothing": lambda path: path.symlink_to("nowhere"),
    "link to a device": lambda path: path.symlink_to("/dev/zero"),
    "link to a file": lambda path: path.symlink_to("w"),
    "further name": further_name,
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder in another one, with a file that nobody may touch."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "w").write_bytes(SECRET)
    return tmp_path / "in"


@needs_unix
@pytest.mark.parametrize("make", STRANGE.values(), ids=STRANGE)
@pytest.mark.parametrize("name", [".other.onnx.journal", ".m.onnxz.undo", ".m.onnxz.journal"])
def test_strange_hidden_files_stop_nothing(folder: Path, make: Callable[[Path], object], name: str) -> None:
    """A hidden file that is no file of this program is named once by `verify`; the model is read as before."""
    path = folder / "m.onnxz"
    formats.save(model(), path)
    make(folder / name)
    with pytest.raises(HiddenFileError):
        open_hidden(folder / name)
    assert formats.load(path).producer_name == "1"
    found = formats.verify(path, data=True)
    assert found.ok
    assert [str(folder / name)] == [note.where for note in found.notes if note.kind == "hidden"]
    repaired = formats.repair(path)
    assert not repaired.put_back
    if name == ".m.onnxz.undo" and make is not Path.mkdir:
        assert not os.path.lexists(folder / name)
    else:
        assert len(repaired.notes) == 1
    assert sorted({name, "m.onnxz", "w"} & {*os.listdir(folder)}) == sorted(os.listdir(folder))
    with pytest.raises(FileNotFoundError):
        formats.load(folder / "none.onnx")
    assert SECRET == (folder / "w").read_bytes()


def damaged(path: Path) -> None:
    """Make a file of this program that a fault of the disk has damaged."""
    path.write_bytes(bytes(50))


@needs_unix
@pytest.mark.parametrize("make", [*STRANGE.values(), damaged], ids=[*STRANGE, "damaged"])
def test_a_strange_journal_does_not_stop_the_repair_of_an_update(folder: Path, make: Callable[[Path], object]) -> None:
    """An archive is restored from its undo file although its journal, or that of a link to it, cannot be used."""
    path, old = interrupted_update(folder)
    (folder / "latest.onnxz").symlink_to("m.onnxz")
    make(folder / ".latest.onnxz.journal")
    if make is not listening:
        make(folder / ".m.onnxz.journal") if make is not further_name else None
    done = formats.repair(folder / "latest.onnxz")
    assert done.put_back
    assert done.notes
    assert old == path.read_bytes()


@pytest.mark.sample(3)
@needs_unix
@pytest.mark.parametrize("kind", ["journal", pytest.param("undo", marks=pytest.mark.outer)])
@pytest.mark.parametrize("make", [*STRANGE.values(), damaged], ids=[*STRANGE, "damaged"])
def test_a_hidden_file_is_told_once(
    folder: Path, make: Callable[[Path], object], kind: str, python: Callable[..., Any]
) -> None:
    """For all models of a folder, `verify` and `repair` name a hidden file once, and end well: no model is affected."""
    for name in "abc":
        formats.save(model(), folder / f"{name}.onnx")
    make(folder / f".b.onnx.{kind}")
    for verb in ("verify", "repair"):
        done = python("-m", "formats", verb, "in")
        assert done.returncode == 0
        assert 1 == (done.stdout + done.stderr).count(f".b.onnx.{kind}: not used")
    assert ["a.onnx", "b.onnx", "c.onnx", "w"] == [name for name in sorted(os.listdir(folder)) if name[0] != "."]


@needs_unix
@pytest.mark.parametrize("make", STRANGE.values(), ids=STRANGE)
def test_what_cannot_be_replaced_is_named(folder: Path, make: Callable[[Path], object]) -> None:
    """If the journal of a model in several files cannot be written, the error names what is in its place."""
    formats.save(model(), folder / "m.onnx")
    make(folder / ".m.onnx.journal")
    if make is Path.mkdir:
        with pytest.raises(HiddenFileError, match="remove it"):
            formats.save(model(2), folder / "m.onnx", overwrite=True, external_data=True)
        assert formats.load(folder / "m.onnx").producer_name == "1"
        assert [".m.onnx.journal", "m.onnx", "w"] == sorted(os.listdir(folder))
    else:
        formats.save(model(2), folder / "m.onnx", overwrite=True, external_data=True)
        assert formats.load(folder / "m.onnx").producer_name == "2"


@needs_unix
@pytest.mark.parametrize("make", STRANGE.values(), ids=STRANGE)
def test_an_update_names_what_is_in_the_place_of_its_undo_file(folder: Path, make: Callable[[Path], object]) -> None:
    """An update names the strange file, not a repair that cannot help; a write that replaces the archive passes it."""
    formats.save(model(), folder / "m.onnxz")
    make(folder / ".m.onnxz.undo")
    changed = formats.load(folder / "m.onnxz")
    with pytest.raises(HiddenFileError):
        onnxzip.update(changed, folder / "m.onnxz")
    formats.save(model(2), folder / "m.onnxz", overwrite=True)
    assert formats.load(folder / "m.onnxz").producer_name == "2"


def test_temporary_files_that_cannot_be_removed_stop_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a folder like /tmp, what another user's killed process left is no error of a write that is done."""
    path = tmp_path / "m.onnx"
    for left in (path.with_name(".m.onnx.lock"), temporary_path(path)):
        left.touch()
    real = publication.unlink

    def unlink(place: Path, *capabilities: Any) -> None:
        if place.suffix == ".tmp":
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), str(place))
        real(place, *capabilities)

    monkeypatch.setattr(publication, "unlink", unlink)
    formats.save(model(), path)
    assert formats.load(path).producer_name == "1"
    assert not formats.repair(path).removed


@needs_root
def test_whose_hidden_files_are_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Own hidden files, those of root and of the folder's owner are followed, also by root, but no others."""
    place = tmp_path / ".m.onnxz.undo"
    place.write_bytes(b"x")
    unmapped = hidden._unmapped_user()
    for folder, user, this, right in [
        (0, 0, 4000, True),
        (4000, 4000, 4000, True),
        (4000, 4000, 0, True),
        (4000, 4001, 4000, False),
        (4000, 4001, 0, False),
        (4001, 4001, 4000, True),
        (0, 4001, 4000, False),
        (unmapped, unmapped, 4000, False),  # of two users that a container does not know
        (unmapped, unmapped, 0, False),
    ]:
        os.chown(tmp_path, folder, -1)
        os.chown(place, user, -1)
        with monkeypatch.context() as patch:
            patch.setattr(os, "geteuid", lambda this=this: this)
            if right:
                open_hidden(place).close()
            else:
                with pytest.raises(HiddenFileError, match="another user"):
                    open_hidden(place)


def test_only_journals_that_concern_a_model_are_parsed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder full of large journals costs the reading of some bytes; no journal that names others is parsed."""
    path = tmp_path / "m.onnx"
    formats.save(model(), path)
    for index in range(20):
        (tmp_path / f".{index}.onnx.journal").write_bytes(b"[" + b"[]," * (3 << 20) + b"1]")
    (tmp_path / ".near.onnx.journal").write_bytes(b'{"name": "m.onnx.data"}')
    (tmp_path / ".own.onnx.journal").write_bytes(b'{"name": "m.onnx"}')
    parsed: list[str] = []
    real = journal.parsed

    def noted(content: bytes, place: Path) -> Journal:
        parsed.append(place.name)
        return real(content, place)

    monkeypatch.setattr(interrupted, "parsed", noted)
    read: list[int] = []
    real_content = journal.content_of

    def counted(place: Path) -> bytes:
        content = real_content(place)
        read.append(len(content))
        return content

    monkeypatch.setattr(interrupted, "content_of", counted)
    assert formats.verify(path).ok
    assert {".own.onnx.journal"} >= set(parsed)
    assert sum(read) <= interrupted.MAX_FOUND_BYTES + journal.MAX_JOURNAL_BYTES


@pytest.mark.parametrize(
    "content",
    [
        b"[" + b"[]," * (4 << 20) + b"1]",
        b"[" + b"{}," * (4 << 20) + b"1]",
        b"[" * 1000,
        b"1" * (15 << 20),
        b" " * (17 << 20),
    ],
)
def test_hostile_journals_need_little(tmp_path: Path, content: bytes) -> None:
    """A journal of many megabytes that no writer made is refused before it takes several times its size."""
    path = tmp_path / "m.onnx"
    journal_path(path).write_bytes(content)
    began = time.process_time()
    tracemalloc.start()
    try:
        with pytest.raises(DecodeError):
            journal.load_journal(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4 * journal.MAX_JOURNAL_BYTES
    assert time.process_time() - began < 5


def test_a_writer_refuses_a_journal_that_readers_would_refuse() -> None:
    """So many files that their journal would be too large are refused before anything moves."""
    move = NewFile("w" * 200, f".m.onnx.{'0' * 16}.tmp", 1, 1, 1, None, None, None)
    with pytest.raises(FormatError, match="too many"):
        Journal((move,) * 60_000, "boot").encode()


@pytest.mark.parametrize("name", [".m.onnx.lock", ".x.undo", ".M.onnx.LOCK", ".x.journal", f".y.{'a' * 16}.tmp"])
def test_a_journal_names_no_hidden_file(tmp_path: Path, name: str) -> None:
    """No file may take the place of a hidden file, in a journal or as a model."""
    path = tmp_path / "m.onnx"
    temporary = temporary_path(path).name
    moves = [
        NewFile(*names, 1, 1, 1, None, None, None)
        for names in ((name, temporary), ("m.onnx", temporary_path(path).name))
    ]
    journal_path(path).write_bytes(Journal(tuple(moves), "").encode())
    with pytest.raises(DecodeError, match="not the name of a file next to the model"):
        journal.load_journal(path)


@pytest.mark.parametrize("change", ["other file", "other content", "none"])
def test_a_clock_that_jumps_makes_no_file_old(tmp_path: Path, change: str) -> None:
    """A file with the size and time of the replaced file, even its inode, is another one if its content differs."""
    path = tmp_path / "m.onnx"
    path.write_bytes(bytes(100_000))
    status = path.stat()
    sample = journal.sample_of(path)
    old = OldFile(".o", status.st_size, status.st_mtime_ns, sample)
    move = NewFile("m.onnx", ".n", 1, 1, 1, None, None, old)
    if change == "other file":
        (tmp_path / "other").write_bytes(bytes(50_000) + b"x" + bytes(49_999))
        (tmp_path / "other").replace(path)
    elif change == "other content":
        with path.open("r+b") as file:
            file.seek(99_999)
            file.write(b"x")
    os.utime(path, ns=(status.st_mtime_ns, status.st_mtime_ns))
    assert (change == "none") == Journal((move,), lock.boot()).is_old(move, path)


# Undo files


def interrupted_update(folder: Path) -> tuple[Path, bytes]:
    """Return an archive whose update was interrupted, and its content before."""
    path = folder / "m.onnxz"
    formats.save(model(), path)
    old = path.read_bytes()
    start = len(old) // 2
    tail_replacement._save(File.open(path).span().slice(start, len(old) - start), start, hidden_path(path, "undo"))
    with path.open("r+b") as file:
        file.truncate(start + 3)
    return path, old


def forged(path: Path, start: int, tail: bytes, head: bytes) -> bytes:
    """Return an undo file that says the right things about the file at a path."""
    digests = hashlib.sha256(head[:start]).digest(), hashlib.sha256(tail).digest()
    inode = path.stat().st_ino
    return struct.pack("<8sQQQ32s32s", tail_replacement.MAGIC, start, start + len(tail), inode, *digests) + tail


@pytest.mark.parametrize("kind", ["no archive", "copy", "other beginning", "cut", "other file"])
def test_undo_files_of_others_restore_nothing(tmp_path: Path, kind: str) -> None:
    """An undo file that belongs to another file, or would not make an archive, changes nothing."""
    path, _ = interrupted_update(tmp_path)
    undo = hidden_path(path, "undo")
    if kind == "no archive":
        path.write_bytes(SECRET)
        undo.write_bytes(forged(path, 8, b"pwned", SECRET))
    elif kind == "copy":
        (tmp_path / "copy").write_bytes(path.read_bytes())
        os.link(tmp_path / "copy", tmp_path / "further name")
        (tmp_path / "copy").replace(path)
        assert formats.load(path).producer_name == "1"  # a reader may still see it as it was
    elif kind == "other beginning":
        with path.open("r+b") as file:
            file.write(b"x")
    elif kind == "cut":
        os.truncate(path, 100)
    else:
        formats.save(model(2), tmp_path / "other.onnxz")
        os.truncate(tmp_path / "other.onnxz", 5000)
        undo.replace(hidden_path(tmp_path / "other.onnxz", "undo"))
        path = tmp_path / "other.onnxz"
    before = path.read_bytes()
    with pytest.raises(FormatError):
        formats.repair(path)
    assert before == path.read_bytes()


def test_a_restored_folder_can_be_repaired(tmp_path: Path) -> None:
    """A copy of a folder, in which all files have other inodes, is repaired if this user made all of it."""
    (tmp_path / "in").mkdir()
    _, old = interrupted_update(tmp_path / "in")
    shutil.copytree(tmp_path / "in", tmp_path / "copy")
    assert formats.repair(tmp_path / "copy" / "m.onnxz").put_back
    assert old == (tmp_path / "copy" / "m.onnxz").read_bytes()


@needs_root
@pytest.mark.parametrize("kind", ["another user's", "of the folder's owner, a further name", "root's"])
def test_whose_undo_files_change_a_file(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An archive is restored by its owner's undo file, an own one or root's; nobody else's decides about it."""
    folder = tmp_path / "in"
    folder.mkdir()
    path, _ = interrupted_update(folder)
    undo = hidden_path(path, "undo")
    os.chown(path, 4000, -1)
    if kind == "another user's":
        os.chown(undo, 4001, -1)
    elif kind == "root's":
        os.chown(undo, 0, -1)
    else:  # the owner of the folder gives a file of this user a name there
        os.chown(folder, 4001, -1)
        os.chown(undo, 4001, -1)
        os.link(path, tmp_path / "home")
    monkeypatch.setattr(os, "geteuid", lambda: 4000)
    before = path.read_bytes()
    if kind == "root's":
        assert formats.repair(path).put_back
        return
    with pytest.raises(HiddenFileError):
        formats.repair(path)
    assert before == path.read_bytes()


def swaps(folder: Path, victim: Path) -> dict[str, Callable[[], None]]:
    """Return changes that another process can make to a folder with an archive that needs repair."""
    path = folder / "m.onnxz"

    def to_link() -> None:
        (folder / ".l").symlink_to(victim)
        (folder / ".l").replace(path)

    def to_name() -> None:
        os.link(victim, folder / ".l")
        (folder / ".l").replace(path)

    def to_folder() -> None:
        folder.rename(folder.with_name("moved"))
        folder.symlink_to(victim.parent)

    return {"link": to_link, "further name": to_name, "folder": to_folder}


class Calls:
    """A system call before which something happens, once."""

    def __init__(self, real: Callable[..., Any], moment: int, change: Callable[[], None]) -> None:
        self.real, self.moment, self.change, self.count = real, moment, change, 0

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Call it."""
        self.count += 1
        if self.count == self.moment:
            self.change()
        return self.real(*arguments, **keywords)


@pytest.mark.sample(3)
@pytest.mark.parametrize("kind", ["link", "further name", "folder"])
@pytest.mark.parametrize("call", ["open", "fstat", "pread", "lstat", "stat", "flock"])
def test_another_process_swaps_the_archive_at_any_call(
    tmp_path: Path, kind: str, call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever another process puts in the place of an archive while it is repaired, no file elsewhere is changed."""
    folder, home = tmp_path / "shared", tmp_path / "home"
    home.mkdir()
    victim = home / "m.onnxz"
    victim.write_bytes(SECRET)
    holder_of = pytest.importorskip("fcntl") if call == "flock" else os
    real = getattr(holder_of, call)
    for moment in range(60):
        for left in (folder, folder.with_name("moved")):
            if left.is_symlink():
                left.unlink()
            elif left.exists():
                for file in left.iterdir():
                    file.unlink()
                left.rmdir()
        folder.mkdir()
        interrupted_update(folder)
        calls = Calls(real, moment, swaps(folder, victim)[kind])
        with monkeypatch.context() as patch:
            patch.setattr(holder_of, call, calls)
            with suppress(FormatError, OSError):
                formats.repair(folder / "m.onnxz")
        assert SECRET == victim.read_bytes()
        assert ["m.onnxz"] == os.listdir(home)
        if calls.count < moment:
            break


def test_an_update_locks_the_file_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two names of one archive have two locks by name; the second update is refused nevertheless."""
    formats.save(model(), tmp_path / "m.onnxz")
    os.link(tmp_path / "m.onnxz", tmp_path / "n.onnxz")
    changed = formats.load(tmp_path / "n.onnxz")
    changed.producer_name = "2"
    with tail_replacement._locked(tmp_path / "m.onnxz"), pytest.raises(BlockingIOError):
        onnxzip.update(changed, tmp_path / "n.onnxz")
    onnxzip.update(changed, tmp_path / "n.onnxz")
    assert formats.load(tmp_path / "m.onnxz").producer_name == "2"


@pytest.mark.parametrize("kind", ["other content", "the new file"])
def test_an_inode_that_is_used_again_makes_no_file_new(tmp_path: Path, kind: str) -> None:
    """A file with the inode, size and time of a new file is put back only if it has its content, too."""
    path = tmp_path / "m.onnx"
    place = tmp_path / "w"
    place.write_bytes(b"new weights")
    status = place.stat()
    new = NewFile(
        "w", temporary_path(path).name, 11, status.st_mtime_ns, status.st_ino, journal.sample_of(place), None, None
    )
    last = NewFile("m.onnx", temporary_path(path).name, 1, 1, 1, None, None, None)
    if kind == "other content":
        place.write_bytes(b"their bytes")
        os.utime(place, ns=(status.st_mtime_ns, status.st_mtime_ns))
    steps = publication._Steps(path, Journal((new, last), lock.boot()), syncs=False, capabilities=SYSTEM)
    steps.backward()
    assert place.exists() == (kind == "other content")


# Locks on a filesystem without locks


@pytest.fixture
def no_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a filesystem that has no locks and no files without names."""

    def refuse(*arguments: Any) -> None:
        raise OSError(errno.ENOLCK, "no locks")

    monkeypatch.setattr(lock, "_lock", refuse)


@pytest.mark.usefixtures("no_locks")
def test_without_locks_a_file_serves(tmp_path: Path) -> None:
    """On a filesystem without locks, only one process has a lock at a time, and others see that."""
    path = tmp_path / "m.onnx"
    with lock.ModelLock(path) as held:
        assert not held.locks
        assert lock.is_locked(path)
        with pytest.raises(BlockingIOError, match=rf"process {os.getpid()} on .* has ended, remove \.m\.onnx\.lock"):
            lock.ModelLock(path, 0.05).__enter__()
    assert [] == os.listdir(tmp_path)
    assert not lock.is_locked(path)


def test_a_lock_of_a_mount_without_locks_counts_where_locks_are(tmp_path: Path) -> None:
    """A living process that found no locks in the filesystem keeps out those that do; that of a dead one is free."""
    path = tmp_path / "m.onnx"
    place = hidden_path(path, "lock")
    with place.open("w+b") as file:
        Holder.this_process().write(file.fileno())
    assert lock.is_locked(path)
    with pytest.raises(BlockingIOError, match=rf"process {os.getpid()} on .* has ended, remove \.m\.onnx\.lock"):
        lock.ModelLock(path, 0.05).__enter__()
    with place.open("w+b") as file:
        Holder.none().write(file.fileno())
    assert not lock.is_locked(path)
    with lock.ModelLock(path, 0.05) as held:
        assert held.was_left
    assert [] == os.listdir(tmp_path)


@pytest.mark.usefixtures("no_locks")
@pytest.mark.parametrize("fits", [None, 0, 10])
def test_without_locks_a_full_disk_leaves_no_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fits: int | None
) -> None:
    """If the name of the process does not fit on the disk, or only a part of it, no lock is taken and none is left."""

    def write(descriptor: int, data: bytes) -> int:
        if fits is None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return os.pwrite(descriptor, data[:fits], 0)

    with monkeypatch.context() as patched:
        patched.setattr(lock.os, "write", write)
        with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
            lock.ModelLock(tmp_path / "m.onnx", 0.05).__enter__()
    assert [] == os.listdir(tmp_path)


def test_a_part_of_a_holder_names_nobody(tmp_path: Path) -> None:
    """A lock's file that ends early never names a process, so it is never taken for that of a dead one."""
    path = tmp_path / "lock"
    with path.open("w+b") as file:
        Holder.this_process().write(file.fileno())
        for nbytes in reversed(range(path.stat().st_size)):
            file.truncate(nbytes)
            assert Holder.read(file.fileno()) is None


@pytest.mark.usefixtures("no_locks")
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="this system does not tell which processes are alive")
@pytest.mark.parametrize("kind", ["killed", "kept", "number used again", "other machine", "other container", "empty"])
def test_without_locks_only_the_dead_lose_their_lock(tmp_path: Path, kind: str) -> None:
    """The lock of a process that has certainly ended is taken over; one that may be alive elsewhere is not."""
    path = tmp_path / "m.onnx"
    this = Holder.this_process()
    left = {
        "killed": this._replace(process=2**22 + 1),
        "kept": Holder.none(),
        "number used again": this._replace(started="1"),
        "other machine": this._replace(process=2**22 + 1, boot="another"),
        "other container": this._replace(process=2**22 + 1, processes="pid:[1]"),
    }.get(kind)
    place = hidden_path(path, "lock")
    place.write_bytes(b"")
    if left is not None:
        with place.open("r+b") as file:
            left.write(file.fileno())
    if kind in ("killed", "kept", "number used again"):
        assert not lock.is_locked(path)
        with lock.ModelLock(path, 0.05) as held:
            assert held.was_left
            with pytest.raises(BlockingIOError):
                lock.ModelLock(path, 0.05).__enter__()
        assert [] == os.listdir(tmp_path)
    else:
        assert lock.is_locked(path)
        with pytest.raises(BlockingIOError):
            lock.ModelLock(path, 0.05).__enter__()
        assert [place.name] == os.listdir(tmp_path)


@pytest.mark.usefixtures("no_locks")
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="this system does not tell which processes are alive")
def test_without_locks_one_of_many_takes_over(tmp_path: Path) -> None:
    """Of many that find the lock of a dead process at once, one has it at a time."""
    path = tmp_path / "m.onnx"
    inside, most = 0, 0
    guard = threading.Lock()

    def take() -> None:
        nonlocal inside, most
        with lock.ModelLock(path, 20.0):
            with guard:
                inside += 1
                most = max(most, inside)
            time.sleep(0.002)
            with guard:
                inside -= 1

    for _ in range(10):
        with hidden_path(path, "lock").open("wb") as file:
            Holder.this_process()._replace(process=2**22 + 1).write(file.fileno())
        threads = [threading.Thread(target=take) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert most == 1
    assert [] == os.listdir(tmp_path)


@pytest.mark.usefixtures("no_locks")
def test_without_locks_nobody_cleans_what_may_be_alive(tmp_path: Path) -> None:
    """A temporary file that cannot be locked may be in use, so it stays."""
    path = tmp_path / "m.onnxz"
    alive = publication.OutputFile(path, 10, capabilities=replace(SYSTEM, unnamed=False))
    formats.save(model(), path, capabilities=replace(SYSTEM, unnamed=False))
    assert alive.readable_path.exists()
    alive.discard()


def test_fields_of_a_journal_are_those_of_its_classes(tmp_path: Path) -> None:
    """A journal that was written is read back equal."""
    path = tmp_path / "m.onnx"
    old = OldFile(f".m.onnx.{'1' * 16}.tmp", 5, -6, "a" * 64)
    written = Journal((NewFile("m.onnx", f".m.onnx.{'2' * 16}.tmp", 1, 2, 3, "b" * 64, "c" * 64, old),), "boot")
    journal_path(path).write_bytes(written.encode())
    assert written == journal.load_journal(path)
    assert json.loads(written.encode())["journal"] == journal.VERSION
