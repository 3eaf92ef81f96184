"""Writing files that replace others only when they are complete, with every fallback tested."""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from formats.tensordata.file import File
from formats.tensordata.local.directory import UNSUPPORTED
from formats.tensordata.local.osio import SYSTEM, Capabilities
from formats.tensordata.local.output import BLOCK_BYTES, WRITE_BYTES, OutputFile
from tests.systems import posix
from tests.tensordata.local.open_files import descriptors

WRITERS = {
    "unnamed": SYSTEM,
    "named": replace(SYSTEM, unnamed=False),
    "no links": replace(SYSTEM, unnamed=False, hard_link=False),
    "nothing": Capabilities(
        positional=False,
        vectored=False,
        copy_range=False,
        allocate=False,
        unnamed=False,
        hard_link=False,
        unlinked_mapping=False,
    ),
}


@pytest.fixture(params=WRITERS.values(), ids=WRITERS)
def writer(request: pytest.FixtureRequest) -> Capabilities:
    """Every way to write."""
    return request.param


def test_new_file(tmp_path: Path, writer: Capabilities) -> None:
    """Before publication, no file has the name; afterwards, the complete file is there, and no other."""
    destination = tmp_path / "model"
    output = OutputFile(destination, 8, capabilities=writer)
    output.pwrite(2, b"abc")
    assert not destination.exists()
    output.publish(fsync=True)
    assert destination.read_bytes() == b"\0\0abc\0\0\0"
    output.close()
    assert destination.read_bytes() == b"\0\0abc\0\0\0"
    assert os.listdir(tmp_path) == ["model"]


def test_short_writes_are_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writer: Capabilities) -> None:
    """If a system call writes less than requested, the rest is written, too."""
    monkeypatch.setattr("formats.tensordata.local.output.WRITE_BYTES", 3)
    output = OutputFile(tmp_path / "model", 10, capabilities=writer)
    output.pwrite(0, b"0123456789")
    output.publish()
    assert (tmp_path / "model").read_bytes() == b"0123456789"


def test_discarding(tmp_path: Path, writer: Capabilities) -> None:
    """A file that is discarded, once or twice, leaves nothing."""
    before = descriptors(tmp_path)
    output = OutputFile(tmp_path / "model", 8, capabilities=writer)
    output.discard()
    output.discard()
    assert os.listdir(tmp_path) == []
    assert before == descriptors(tmp_path)


def test_existing_file_is_refused(tmp_path: Path, writer: Capabilities) -> None:
    """Without `overwrite`, an existing file is an error before anything is written."""
    (tmp_path / "model").write_bytes(b"old")
    with pytest.raises(FileExistsError, match="model"):
        OutputFile(tmp_path / "model", 8, capabilities=writer)
    assert os.listdir(tmp_path) == ["model"]


def test_file_that_appears_meanwhile(tmp_path: Path, writer: Capabilities) -> None:
    """A file that another process makes meanwhile is overwritten only with `overwrite`."""
    output = OutputFile(tmp_path / "model", 8, capabilities=writer)
    (tmp_path / "model").write_bytes(b"theirs")
    with pytest.raises(FileExistsError, match="model"):
        output.publish()
    output.discard()
    assert (tmp_path / "model").read_bytes() == b"theirs"
    (tmp_path / "model").unlink()
    output = OutputFile(tmp_path / "model", 3, overwrite=True, capabilities=writer)
    (tmp_path / "model").write_bytes(b"theirs")
    output.publish()
    assert (tmp_path / "model").read_bytes() == bytes(3)
    assert os.listdir(tmp_path) == ["model"]


def test_link_that_appears_meanwhile(tmp_path: Path, writer: Capabilities) -> None:
    """A dangling link that another process makes meanwhile counts as existing, too."""
    output = OutputFile(tmp_path / "model", 8, capabilities=writer)
    (tmp_path / "model").symlink_to(tmp_path / "nowhere")
    with pytest.raises(FileExistsError):
        output.publish()
    output.discard()
    assert (tmp_path / "model").is_symlink()


@pytest.mark.parametrize("step", ["link", "replace"])
def test_failing_publication(tmp_path: Path, writer: Capabilities, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    """Whichever call of a publication fails, discarding leaves the old file and nothing else."""
    (tmp_path / "model").write_bytes(b"old")
    output = OutputFile(tmp_path / "model", 8, overwrite=True, capabilities=writer)
    left = b"old"

    def fail(*arguments: Any, **options: Any) -> None:
        raise OSError(errno.EIO, "no more")

    with monkeypatch.context() as patch:
        if step == "link":
            patch.setattr(os, "link", fail)
        else:
            real = Path.replace
            patch.setattr(Path, "replace", lambda self, to: fail() if to.name == "model" else real(self, to))
        if step == "link" and not writer.unnamed:  # a hidden file with a name is renamed
            output.publish()
            left = bytes(8)
        else:
            with pytest.raises(OSError, match="no more"):
                output.publish()
    output.discard()
    assert (tmp_path / "model").read_bytes() == left
    assert os.listdir(tmp_path) == ["model"]


def test_interruption_after_the_deed(tmp_path: Path, writer: Capabilities, monkeypatch: pytest.MonkeyPatch) -> None:
    """After an interruption just after the file got its name, the file stays, and nothing else."""
    output = OutputFile(tmp_path / "model", 8, capabilities=writer)
    real = OutputFile._name

    def interrupted(self: OutputFile, path: Path) -> None:
        real(self, path)
        raise KeyboardInterrupt

    monkeypatch.setattr(OutputFile, "_name", interrupted)
    with pytest.raises(KeyboardInterrupt):
        output.publish()
    output.discard()
    assert os.listdir(tmp_path) == ["model"]
    assert (tmp_path / "model").read_bytes() == bytes(8)


@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0, 0o666)])
def test_mode_of_a_new_file(tmp_path: Path, writer: Capabilities, mask: int, mode: int) -> None:
    """A new file has the permissions that the umask allows."""
    old = os.umask(mask)
    try:
        output = OutputFile(tmp_path / "model", 1, capabilities=writer)
        output.publish()
    finally:
        os.umask(old)
    assert mode == stat.S_IMODE((tmp_path / "model").stat().st_mode)


@posix
def test_mode_of_a_replaced_file(tmp_path: Path, writer: Capabilities) -> None:
    """A file that replaces another one gets its permissions."""
    (tmp_path / "model").touch()
    (tmp_path / "model").chmod(0o604)
    output = OutputFile(tmp_path / "model", 1, overwrite=True, capabilities=writer)
    output.publish()
    assert 0o604 == stat.S_IMODE((tmp_path / "model").stat().st_mode)


def test_write_protected_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that its owner protected from writing is not replaced."""
    (tmp_path / "model").touch(mode=0o444)
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # for tests run by root
    with pytest.raises(PermissionError, match="model"):
        OutputFile(tmp_path / "model", 1, overwrite=True)


@pytest.mark.parametrize("comes_back", [False, True])
def test_a_file_that_another_process_removes_is_not_write_protected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, comes_back: bool
) -> None:
    """A file that goes, or is replaced, while its permissions are asked for is not taken for a write-protected one."""
    path = tmp_path / "model"
    path.write_bytes(b"old")
    real = os.access

    def access(asked: Path, mode: int) -> bool:
        if asked.exists() and asked.read_bytes() == b"old":
            asked.rename(tmp_path / "gone")
            answer = real(asked, mode)
            if comes_back:
                asked.write_bytes(b"theirs")
            return answer
        return real(asked, mode)

    monkeypatch.setattr(os, "access", access)
    output = OutputFile(path, 3, overwrite=True)
    output.pwrite(0, b"new")
    output.publish()
    assert path.read_bytes() == b"new"


@pytest.mark.parametrize("dangling", [True, False])
def test_destination_that_is_a_link(tmp_path: Path, writer: Capabilities, dangling: bool) -> None:
    """A link stays a link; its target is written, in the target's directory."""
    (tmp_path / "store").mkdir()
    target = tmp_path / "store" / "blob"
    if not dangling:
        target.write_bytes(b"old")
    (tmp_path / "model").symlink_to(Path("store") / "blob")
    output = OutputFile(tmp_path / "model", 2, overwrite=True, capabilities=writer)
    output.publish()
    assert (tmp_path / "model").is_symlink()
    assert target.read_bytes() == bytes(2)
    assert os.listdir(tmp_path / "store") == ["blob"]


@posix
def test_impossible_destinations(tmp_path: Path, writer: Capabilities) -> None:
    """The error names a missing directory; a directory, a pipe and a device are never replaced."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").touch()
    with pytest.raises(FileNotFoundError) as caught:
        OutputFile(tmp_path / "none" / "model", 1, capabilities=writer)
    assert str(tmp_path / "none") == caught.value.filename
    with pytest.raises(IsADirectoryError, match=tmp_path.name):
        OutputFile(tmp_path, 1, overwrite=True, capabilities=writer)
    with pytest.raises(FileExistsError, match="pipe"):
        OutputFile(tmp_path / "pipe", 1, overwrite=True, capabilities=writer)
    with pytest.raises(FileExistsError, match="null"):
        OutputFile("/dev/null", 1, overwrite=True, capabilities=writer)
    with pytest.raises(NotADirectoryError):
        OutputFile(tmp_path / "file" / "model", 1, capabilities=writer)
    assert sorted(os.listdir(tmp_path)) == ["file", "pipe"]


def test_long_names_work(tmp_path: Path, writer: Capabilities) -> None:
    """The hidden name is never too long if the name itself is not."""
    name = "m" * 255
    output = OutputFile(tmp_path / name, 1, overwrite=True, capabilities=writer)
    output.publish()
    assert os.listdir(tmp_path) == [name]


def test_relative_destination(tmp_path: Path, writer: Capabilities, monkeypatch: pytest.MonkeyPatch) -> None:
    """A path without a directory means the current one."""
    monkeypatch.chdir(tmp_path)
    OutputFile("model", 1, capabilities=writer).publish()
    assert os.listdir(tmp_path) == ["model"]


def test_copying_in_the_kernel(tmp_path: Path, path: Path) -> None:
    """A range is copied from file to file; at the end of the source, less is copied, as the count says."""
    file, output = File.open(path), OutputFile(tmp_path / "model", 3 * BLOCK_BYTES)
    assert 50 == output.copy_range(file, 100, 2 * BLOCK_BYTES + 100, 50)
    assert 10 == output.copy_range(file, 990, 990, 60)
    output.publish()
    content = (tmp_path / "model").read_bytes()
    assert path.read_bytes()[100:150] == content[2 * BLOCK_BYTES + 100 :][:50]
    assert path.read_bytes()[990:] == content[990:1000]


def test_what_begins_elsewhere_in_a_block_is_not_copied_in_the_kernel(tmp_path: Path, path: Path) -> None:
    """Ranges with different positions in their blocks are read and written, which is faster, and cannot be shared."""
    assert 0 == OutputFile(tmp_path / "model", 1000).copy_range(File.open(path), 100, 7, 50)


def test_no_page_is_written_in_two_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps end at page boundaries, wherever the first one begins."""
    ends, real = [], os.pwrite

    def noted(descriptor: int, data: memoryview, offset: int) -> int:
        ends.append(offset + len(data))
        return real(descriptor, data, offset)

    monkeypatch.setattr(os, "pwrite", noted)
    content = os.urandom(3 * WRITE_BYTES)
    output = OutputFile(tmp_path / "model", 1000 + len(content))
    output.pwrite(1000, content)
    output.publish()
    assert ends == [WRITE_BYTES, 2 * WRITE_BYTES, 3 * WRITE_BYTES, 1000 + len(content)]
    assert (tmp_path / "model").read_bytes() == bytes(1000) + content


@pytest.mark.parametrize("code", sorted(UNSUPPORTED))
def test_kernel_that_cannot_copy(tmp_path: Path, path: Path, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """If a filesystem refuses, even in the middle, this is not an error: the count says where to continue."""
    real, calls = os.copy_file_range, []

    def refuse(*arguments: Any) -> int:
        calls.append(arguments)
        if len(calls) > 1:
            raise OSError(code, "refused")
        return real(*arguments)

    monkeypatch.setattr("formats.tensordata.local.output.STEP_BYTES", 8)
    monkeypatch.setattr(os, "copy_file_range", refuse)
    output = OutputFile(tmp_path / "model", 1000)
    assert 8 == output.copy_range(File.open(path), 0, 0, 20)
    nothing = replace(SYSTEM, copy_range=False)
    assert 0 == OutputFile(tmp_path / "model", 1000, capabilities=nothing).copy_range(File.open(path), 0, 0, 20)


def test_system_without_unnamed_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A filesystem that refuses an unnamed file gets a hidden one."""
    real = os.open

    def refuse(path: Any, flags: int, *arguments: Any) -> int:
        if SYSTEM.unnamed and flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(errno.EOPNOTSUPP, "refused")
        return real(path, flags, *arguments)

    monkeypatch.setattr(os, "open", refuse)
    output = OutputFile(tmp_path / "model", 8)
    assert [name[0] for name in os.listdir(tmp_path)] == ["."]
    output.publish()
    assert os.listdir(tmp_path) == ["model"]


def test_space_is_reserved_or_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writer: Capabilities
) -> None:
    """If there is no space for the file, the error names it before anything is written."""

    def full(*arguments: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate" if writer.allocate else "ftruncate", full)
    with pytest.raises(OSError, match=r"No space left on device.*model") as caught:
        OutputFile(tmp_path / "model", 8, capabilities=writer)
    assert errno.ENOSPC == caught.value.errno
    assert os.listdir(tmp_path) == []


def test_filesystem_that_cannot_reserve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a filesystem without preallocation, the file still gets the right size."""

    def refuse(*arguments: Any) -> None:
        raise OSError(errno.EBADF, "refused")

    monkeypatch.setattr(os, "posix_fallocate", refuse)
    OutputFile(tmp_path / "model", 8).publish()
    assert (tmp_path / "model").read_bytes() == bytes(8)
