"""A file that is open for reading, here or elsewhere: the interface for sources, without details of a format.

`local/osio.py` has the files of this system, `remote/remote_file.py` those in stores and on other machines, and
`streams.py` those that are read once. Here is also the file that is not there, for readers that only describe a model.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from threading import Lock
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, TypeGuard

from formats.errors import ExternalDataError
from formats.tensordata.sources.source import FileSpan

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import AbstractContextManager

    from formats.tensordata.local.osio import Capabilities
    from formats.tensordata.remote.address import Address
    from formats.tensordata.streams import Stream


ALL_PERMISSIONS = 0o777


class AddressMark:
    """Marks the class `Address`: its module takes longer to import than a small model to read, and few need it."""


class StreamMark:
    """Marks the class `Stream`, whose module imports this one."""


def is_address(path: object) -> TypeGuard[Address]:
    """Whether a path is an `Address`."""
    return isinstance(path, AddressMark)


def is_stream(path: object) -> TypeGuard[Stream]:
    """Whether a path is a `Stream`."""
    return isinstance(path, StreamMark)


def or_stream(path: Path) -> Path:
    """The path, or its stream if it is a pipe, such as one made by `mkfifo`, or by `<(...)` of a shell."""
    if is_address(path) or is_stream(path):
        return path
    try:
        is_pipe = stat.S_ISFIFO(os.stat(path).st_mode)  # noqa: PTH116 - faster
    except (OSError, ValueError):
        return path
    if not is_pipe:
        return path
    from formats.tensordata.streams import Stream

    return Stream(str(path))


def with_storage(path: Path, storage_options: Mapping[str, Any] | None, retries: int) -> Path:
    """The path; an address gets these options of its store."""
    return path.with_options(storage_options, retries) if is_address(path) else path


class File:
    """A file, open for reading by any number of threads; closed when no object refers to it any more.

    `nbytes` is its size and `permissions` are its bits of `chmod` when it was opened. Copies of this object are the
    object itself; a pickle of it opens the file again. `moved` are the companions that have other names for now. If a
    file is not `is_local`, each jump costs as much time as reading a MiB. If it `is_encrypted`, what a
    model has of it was decrypted.
    """

    is_local = True
    is_encrypted = False
    permissions = ALL_PERMISSIONS
    moved: Mapping[str, str] = MappingProxyType({})
    remedy = "run the command again"  # for a file that has changed
    nbytes: int
    path: Path

    @staticmethod
    def open(path: str | os.PathLike[str], keep_open: bool = True, *, capabilities: Capabilities | None = None) -> File:
        """The file at `path`, which may be an address or a stream.

        Without `keep_open` no file descriptor is held: every access opens the file again and makes sure that it is
        still the same. That is for models with more files than a process may have open.

        Raises: OSError if it cannot be opened; FormatError if it is neither a file nor a directory.
        """
        from formats.tensordata.local.osio import open_here  # which imports this module

        if is_address(path):
            from formats.tensordata.remote.remote_file import RemoteFile

            return RemoteFile(path)
        if is_stream(path):
            return path.file()
        local = path if isinstance(path, Path) else Path(path)  # a path of a path takes as long as to open the file
        return open_here(local, keep_open, capabilities)

    def pread_into(self, offset: int, buffer: memoryview | bytearray) -> None:
        """Fill `buffer` with the bytes from `offset` (from the start of the file) on.

        Raises: TruncatedError if the file ends before the buffer is full.
        """
        raise NotImplementedError

    def pread(self, offset: int, nbytes: int) -> bytes:
        """The `nbytes` from `offset` (from the start of the file) on.

        Raises: TruncatedError if the file has fewer bytes.
        """
        raise NotImplementedError

    def map(self, offset: int, nbytes: int) -> memoryview:
        """A range of the file as read-only memory, from a mapping of the file that the view keeps alive.

        Raises: TruncatedError if the file does not have the range; TensorDataError if the file has changed.
        """
        raise NotImplementedError

    def expect_all(self) -> None:
        """Prepare for a reader that will need all of the file, but jumps in it; a file elsewhere is copied then."""

    def give_up(self) -> None:
        """Let threads that wait for bytes of the file now wait no longer; they get an error."""

    def span(self) -> FileSpan:
        """The whole file as a source."""
        return FileSpan(self, 0, self.nbytes)

    def is_same(self, other: File) -> bool:
        """Whether both are the same file with the same content, opened twice."""
        raise NotImplementedError

    def is_current(self) -> bool:
        """Whether the path still leads to the file as it was opened, and it had no other name in between."""
        raise NotImplementedError

    def check_unchanged(self) -> None:
        """Check that the file has not changed since it was opened.

        Raises: TensorDataError if it has another size, modification time or identity.
        """
        raise NotImplementedError

    def check_in_place(self, descriptor: int | None = None) -> None:
        """Check that the path, or that descriptor, still leads to the file, unchanged since it was opened.

        Raises: TensorDataError if it is another one, or was changed; OSError if it is gone.
        """
        raise NotImplementedError

    def descriptor(self) -> AbstractContextManager[int]:
        """A context with a file descriptor for reading; only a `LocalFile` has one.

        Raises: TensorDataError if the file had to be opened anew and has changed.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Close the file; existing views stay valid, and the next access opens it again."""
        raise NotImplementedError

    def __copy__(self) -> File:
        return self

    def __deepcopy__(self, memo: object) -> File:
        return self

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.path)!r}, {self.nbytes} bytes)"


class Amounts(NamedTuple):
    """Numbers of bytes; `to_send` are all that will be sent, as far as is known.

    `publications` is how often files began to take their places; before, other programs see nothing of what is written.
    """

    received: int = 0
    sent: int = 0
    to_send: int = 0
    publications: int = 0


class Traffic:
    """The bytes that this process has received and sent, which pass before, in and after the work of the engine.

    There is one object for the process, not an argument: files, streams and stores count here, and who shows a sign of
    work is many callers above them.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self.amounts = Amounts()

    def add(self, received: int = 0, sent: int = 0, to_send: int = 0, publications: int = 0) -> None:
        """Count bytes, or that files begin to take their places."""
        with self._lock:
            before = self.amounts
            self.amounts = Amounts(
                before.received + received,
                before.sent + sent,
                before.to_send + to_send,
                before.publications + publications,
            )


TRAFFIC = Traffic()


class AbsentFile(File):
    """A file that is missing, or shorter than a model needs; reading it is an error.

    `nbytes` is the size that the model needs, as far as is known, and `found_nbytes` the size of the file that is
    there, if there is one. The `cause` is for people; it is empty if the file is only too short.
    """

    def __init__(self, path: Path, cause: str = "", found_nbytes: int | None = None) -> None:
        self.path = path
        self.cause = cause
        self.found_nbytes = found_nbytes
        self.nbytes = 0

    @property
    def reason(self) -> str:
        """What is wrong with the file, and how many bytes it must have."""
        if self.cause:
            return f"{self.cause}; the model needs {self.nbytes:,} bytes of it" if self.nbytes else self.cause
        return too_short(self.found_nbytes or 0, self.nbytes)

    def wanted(self, offset: int, nbytes: int) -> FileSpan:
        """A range that the model needs."""
        self.nbytes = max(self.nbytes, offset + nbytes)
        return FileSpan(self, offset, nbytes)

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise ExternalDataError(self.reason, path=self.path)

    pread_into = pread = map = check_unchanged = check_in_place = descriptor = _refuse

    def is_same(self, other: File) -> bool:
        """Whether it is the same object."""
        return self is other

    def is_current(self) -> bool:
        """True: nothing was read from it."""
        return True

    def close(self) -> None:
        """Do nothing: it is not open."""


class UnusedFile(AbsentFile):
    """A data file that the caller does not want to be used, whether it is there or not."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, "`no_data` leaves out the data file, but weights in it are needed here")

    @property
    def reason(self) -> str:
        """What is needed, and what to do."""
        return f"{self.cause}; leave out `no_data`"


def too_short(nbytes: int, wanted_nbytes: int) -> str:
    """The words for a data file that has too few bytes."""
    needs = f"the data file has {nbytes:,} bytes, but the model needs {wanted_nbytes:,}"
    return f"{needs}; it is incomplete: copy or download it again"
