"""Streams: models that are read from or written to a pipe, or an object with `read` or `write`.

A stream allows no jumps. So the bytes of a model are first copied to a temporary file, and a written model is complete
in a temporary file before its first byte is sent (`spool.py`). A regular file that is read from its start, such as
stdin after `<`, is not copied.
"""

from __future__ import annotations

import errno
import io
import os
import stat
import sys
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, NoReturn

from formats.errors import EncodeError, FormatError, TensorDataError, UnsupportedError
from formats.tensordata.engine import Result
from formats.tensordata.file import TRAFFIC, File, StreamMark
from formats.tensordata.local.osio import SYSTEM, LocalFile, Located
from formats.tensordata.spool import PIECE_BYTES, Spool, spooled

if TYPE_CHECKING:
    from collections.abc import Iterator

    from formats.tensordata.engine import EngineOptions
    from formats.tensordata.plan import WritePlan

    _Path = Path
else:
    _Path = type(Path())  # before Python 3.12 only this can have subclasses


class Stream(_Path, StreamMark):
    """A stream of bytes that is read or written once, from its start to its end.

    It is a path whose text is the name of the stream, but no system call can open it. `is_terminal`: the written bytes
    are shown to people.
    """

    def __new__(cls, name: str, *_: Any, **__: Any) -> Stream:
        """A stream with that name for messages."""
        return super().__new__(cls, name)

    def __init__(self, name: str, stream: Any = None, *, is_terminal: bool = False) -> None:
        """The binary file object `stream`, or, without it, the pipe with that name in the filesystem."""
        if sys.version_info >= (3, 12):
            super().__init__(name)
        self._stream = stream
        self._is_terminal = is_terminal
        self._file: File | None = None
        self._lock = Lock()

    def file(self) -> File:
        """The content of the stream as a file; the first call reads all of it.

        Raises: OSError if it cannot be read, or the temporary file cannot be written; TypeError for a stream of text.
        """
        with self._lock:
            if self._file is None:
                with self._opened("rb") as stream:
                    self._file = _regular(stream, self) or _copied(stream, self)
            return self._file

    @contextmanager
    def _opened(self, mode: str) -> Iterator[Any]:
        """A context with the file object; opening a pipe waits for its other end."""
        if self._stream is not None:
            yield self._stream
            return
        with Located(Path(str(self))), open(str(self), mode, buffering=0) as stream:  # noqa: PTH123 - no path of ours
            yield stream

    def send(self, content: Spool) -> None:
        """Write the bytes of a file to the stream.

        Raises: OSError if they cannot be written; FormatError if the reader has stopped, or if a terminal would show
        them.
        """
        if self._is_terminal and not all(_is_text(piece) for _, piece in content.pieces()):
            raise UnsupportedError("a terminal cannot show these bytes; send them to a pipe or a file", path=self)
        TRAFFIC.add(to_send=content.nbytes)
        with self._opened("wb") as stream:
            for offset, piece in content.pieces():
                self._write(stream, piece, offset, content.nbytes)
            if hasattr(stream, "flush"):
                stream.flush()

    def _write(self, stream: Any, piece: bytes, offset: int, nbytes: int) -> None:
        rest = memoryview(piece)
        try:
            while len(rest):
                count = stream.write(rest)
                if count is None and isinstance(stream, io.RawIOBase):
                    raise BlockingIOError(errno.EAGAIN, "the stream does not wait for its reader", str(self))
                count = len(rest) if count is None else count
                TRAFFIC.add(sent=count)
                rest = rest[count:]
        except BrokenPipeError:
            sent_bytes = offset + len(piece) - len(rest)
            raise FormatError(f"the reader stopped after {sent_bytes} of {nbytes} bytes", path=self) from None
        except OSError as error:
            if error.errno == errno.EINVAL and os.name == "nt":  # Windows reports it so
                raise FormatError("the reader stopped", path=self) from None
            error.filename = error.filename or str(self)
            raise

    # The attributes of a path

    @property
    def parent(self) -> Any:
        """The folder of a path that `pathlib` makes; a stream is in none."""
        return Path()

    def with_name(self, name: str) -> Any:
        """The file of this name, which is not a stream."""
        return Path(name)

    def __truediv__(self, other: Any) -> Any:
        return Path(other)

    def with_segments(self, *segments: Any) -> Path:
        """The path that `pathlib` makes of parts of the name; it is not a stream."""
        return Path(*segments)

    def absolute(self) -> Stream:
        """The stream, which is in no folder."""
        return self

    def is_symlink(self) -> bool:
        """Never."""
        return False

    def exists(self, **_: Any) -> bool:
        """Never: a stream has no old content."""
        return False

    def is_dir(self, **_: Any) -> bool:
        """Never."""
        return False

    def __fspath__(self) -> NoReturn:
        raise TypeError(f"{self} is a stream; only functions that read or convert one model accept one")

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def __reduce__(self) -> NoReturn:
        raise TensorDataError("a stream cannot go to another process; write it to a file first", path=self)

    def __copy__(self) -> Stream:
        return self

    def __deepcopy__(self, memo: object) -> Stream:
        return self


class StreamedFile(LocalFile):
    """The content of a stream that is a regular file, which stays open, because no name leads to it."""

    def __init__(self, path: Stream, descriptor: int) -> None:
        super().__init__(path, keep_open=True, capabilities=SYSTEM, descriptor=descriptor)

    def is_current(self) -> bool:
        """Whether the file has not changed; it has no name that could lead to another one."""
        try:
            self.check_unchanged()
        except TensorDataError:
            return False
        return True

    def check_in_place(self, descriptor: int | None = None) -> None:
        """Check that the file has not changed since it was opened.

        Raises: TensorDataError if it has.
        """
        assert self._descriptor is not None, "it stays open"
        super().check_in_place(self._descriptor)

    def let_go(self) -> bool:
        """Whether no view of the file is left; it stays open, because no name leads to it."""
        with self._lock:
            return self._end_mapping()

    def __reduce__(self) -> NoReturn:
        raise TensorDataError("a model from a stream cannot go to another process; write it to a file", path=self.path)


def of_object(stream: Any) -> Stream:
    """The stream for a binary file object; its name is for messages, and its extension for the format to write."""
    name = getattr(stream, "name", None)
    return Stream(name if isinstance(name, str) and name and "\0" not in name else "<stream>", stream)


def send_to_stream(plan: WritePlan, options: EngineOptions) -> Result:
    """Write the only file of the plan to its stream, once it is complete; a `dry_run` writes nothing.

    Raises: EncodeError if the plan has several files; what the engine and the stream raise.
    """
    if len(plan.files) > 1:
        raise EncodeError(
            f"these options make {len(plan.files)} files, but a stream can hold only one", path=plan.files[-1].path
        )
    (file,) = plan.files
    stream = file.path
    assert isinstance(stream, Stream)
    if options.dry_run:
        return Result(plan.nbytes, {})
    (spool,), digests = spooled(plan, options)
    stream.send(spool)
    return Result(plan.nbytes, digests)


def _regular(stream: Any, path: Stream) -> File | None:
    """The file of a file object that is at the start of a regular file, and reads the bytes of that file unchanged."""
    raw = getattr(stream, "raw", stream)
    if type(stream) not in (io.BufferedReader, io.BufferedRandom, io.FileIO) or type(raw) is not io.FileIO:
        return None
    try:
        descriptor = raw.fileno()
        if not stat.S_ISREG(os.fstat(descriptor).st_mode) or stream.tell():
            return None
    except OSError:
        return None
    return StreamedFile(path, os.dup(descriptor))


def _copied(stream: Any, path: Stream) -> File:
    """A temporary file with the content of a file object, up to its end."""
    copy = Spool(path)
    while True:
        with Located(path):
            piece = stream.read(PIECE_BYTES)
        if piece is None:
            raise BlockingIOError(errno.EAGAIN, "the stream does not wait for its writer", str(path))
        if isinstance(piece, str):
            raise TypeError(f"{path} is a stream of text; a model needs one of bytes")
        if not piece:
            return copy
        copy.append(piece)
        TRAFFIC.add(received=len(piece))


def _is_text(piece: bytes) -> bool:
    """Whether the bytes are text that a terminal shows and does not execute."""
    try:
        text = piece.decode()
    except UnicodeDecodeError as error:
        if error.end < len(piece):
            return False
        text = piece[: error.start].decode()  # the rest of a character is in the next piece
    return all(character.isprintable() or character in "\t\r\n" for character in text)
