"""Reading files, with every fallback tested."""

from __future__ import annotations

import copy
import faulthandler
import gc
import os
import signal
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from formats.errors import FormatError, TensorDataError, TruncatedError
from formats.tensordata.file import File
from formats.tensordata.local import osio
from formats.tensordata.local.osio import SYSTEM, Capabilities
from tests.systems import posix
from tests.tensordata.local.open_files import descriptors

READERS = {
    "preadv": SYSTEM,
    "pread": replace(SYSTEM, vectored=False),
    "seek": replace(SYSTEM, vectored=False, positional=False),
}


@pytest.fixture(params=READERS.values(), ids=READERS)
def reader(request: pytest.FixtureRequest) -> Capabilities:
    """Every way to read."""
    return request.param


@pytest.mark.parametrize("keep_open", [True, False])
def test_reading_a_range(path: Path, reader: Capabilities, keep_open: bool) -> None:
    """A buffer is filled from the right range of the file."""
    file = File.open(path, keep_open, capabilities=reader)
    buffer = bytearray(20)
    file.pread_into(245, memoryview(buffer))
    assert (1000, path) == (file.nbytes, file.path)
    assert path.read_bytes()[245:265] == buffer == file.pread(245, 20)
    assert path.read_bytes() == file.span().read()
    file.pread_into(5000, memoryview(b""))


@pytest.mark.parametrize("keep_open", [True, False])
def test_reading_past_the_end(path: Path, reader: Capabilities, keep_open: bool) -> None:
    """The error names the file and the offset where it ends."""
    file = File.open(path, keep_open, capabilities=reader)
    with pytest.raises(TruncatedError) as caught:
        file.pread_into(990, bytearray(20))
    assert (path, 1000) == (caught.value.path, caught.value.file_offset)
    with pytest.raises(TruncatedError, match="10 bytes too short"):
        file.pread(990, 20)


def test_short_reads_are_continued(path: Path, monkeypatch: pytest.MonkeyPatch, reader: Capabilities) -> None:
    """If a system call reads less than requested, the rest is requested again."""
    monkeypatch.setattr(osio, "STEP_BYTES", 7)
    assert path.read_bytes() == File.open(path, capabilities=reader).span().read()


def test_reading_by_many_threads(path: Path, reader: Capabilities) -> None:
    """Threads that read different ranges do not disturb each other."""
    file, expected, wrong = File.open(path, capabilities=reader), path.read_bytes(), []

    def read(offset: int) -> None:
        results = {file.span().read(offset, 10) for _ in range(200)}
        wrong.extend(results - {expected[offset : offset + 10]})

    threads = [threading.Thread(target=read, args=(offset,)) for offset in range(0, 80, 10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.sample(5)
@pytest.mark.parametrize("keep_open", [True, False])
@pytest.mark.parametrize("unlinked", [SYSTEM.unlinked_mapping, False])
def test_mapping(path: Path, keep_open: bool, unlinked: bool) -> None:
    """A mapped range is read-only and outlives the file object."""
    file = File.open(path, keep_open, capabilities=replace(SYSTEM, unlinked_mapping=unlinked))
    view = file.map(3, 5)
    del file
    gc.collect()
    assert view.readonly
    assert bytes(view) == b"\3\4\5\6\7"


def test_mapping_is_shared(path: Path) -> None:
    """Many views of one file are one mapping, and only one more descriptor."""
    file = File.open(path)
    before = descriptors(path.parent)
    views = [file.map(offset, 1) for offset in range(100)]
    assert len({id(view.obj) for view in views}) == 1
    assert descriptors(path.parent) <= before + 1


@pytest.mark.parametrize(("offset", "nbytes"), [(0, 1001), (1000, 1), (-1, 1), (0, -1)])
def test_mapping_outside(path: Path, offset: int, nbytes: int) -> None:
    """A range outside of the file is an error at once, not a signal later."""
    with pytest.raises(TruncatedError):
        File.open(path).map(offset, nbytes)


def test_nothing_can_be_mapped(tmp_path: Path) -> None:
    """An empty file, and an empty range, give an empty view."""
    (tmp_path / "empty").touch()
    assert b"" == bytes(File.open(tmp_path / "empty").map(0, 0))
    assert b"" == File.open(tmp_path / "empty").span().read()


@pytest.mark.parametrize("keep_open", [True, False])
@pytest.mark.parametrize("change", ["truncate", "append", "rewrite", "replace"])
def test_changes_are_noticed(path: Path, keep_open: bool, change: str) -> None:
    """A file that was replaced or written to after opening is an error, also for its mapping."""
    file = File.open(path, keep_open)
    file.check_unchanged()
    file.map(0, 10)
    if change == "truncate":
        os.truncate(path, 10)
    elif change == "append":
        with path.open("ab") as stream:
            stream.write(b"more")
    elif change == "rewrite":
        with path.open("r+b") as stream:
            stream.write(b"other")
        os.utime(path, ns=(0, 0))
    else:
        other = path.with_name("other")
        other.write_bytes(path.read_bytes())
        other.replace(path)
        if keep_open:  # it is still the same file, which only lost its name
            file.check_unchanged()
            assert bytes(range(10)) == file.span().read(0, 10)
            return
    with pytest.raises(TensorDataError, match="changed since it was read"):
        file.check_unchanged()
    with pytest.raises(TensorDataError, match="changed since it was read"):
        file.map(0, 10)


def test_descriptor_is_closed_with_the_last_reference(path: Path) -> None:
    """A file without references is closed; a file that is not kept open never has a descriptor."""
    before = descriptors(path.parent)
    file = File.open(path)
    span = file.span()
    assert before + 1 == descriptors(path.parent)
    del file
    assert span.read(0, 1) == b"\0"
    del span
    assert before == descriptors(path.parent)
    closed = File.open(path, keep_open=False)
    assert before == descriptors(path.parent)
    assert closed.span().read(1, 1) == b"\1"
    assert before == descriptors(path.parent)


def test_a_copy_is_the_file_itself(path: Path) -> None:
    """Copying a model that refers to a file does not close it twice."""
    file = File.open(path)
    assert copy.deepcopy(file) is file
    assert copy.copy(file) is file
    span = file.span()
    assert copy.deepcopy([span])[0] is span


@posix
def test_only_files_are_opened(tmp_path: Path) -> None:
    """A directory, a pipe and a device are refused at once; a missing file is the system's error."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(IsADirectoryError, match=str(tmp_path)):
        File.open(tmp_path)
    with pytest.raises(FormatError, match="regular file"):
        File.open(tmp_path / "pipe")
    with pytest.raises(FormatError, match="regular file"):
        File.open("/dev/zero")
    with pytest.raises(FileNotFoundError, match="missing"):
        File.open(tmp_path / "missing")


def test_a_mapping_that_is_cut_short(path: Path) -> None:
    """If a mapped file is truncated, a process that uses the lost part is ended by a signal; reading is an error."""
    if os.name != "posix":
        pytest.skip("this system cannot cut a mapped file short")
    path.write_bytes(bytes(1 << 16))
    child = os.fork()
    if not child:
        signal.signal(signal.SIGBUS, signal.SIG_DFL)
        faulthandler.disable()
        view = File.open(path).map(0, 1 << 16)
        os.truncate(path, 10)
        os._exit(view[1 << 15])
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGBUS
    path.write_bytes(bytes(1 << 16))
    span = File.open(path).span()
    os.truncate(path, 10)
    with pytest.raises(TruncatedError):
        span.read()
