"""Temporary files for what passes through this process: nobody can read what they leave on the disk.

A model from a pipe, one that is sent, and the copy of a file at an address are in such a file. The model may be secret:
it was encrypted, or will be, which the reader of a pipe does not know yet. So all bytes are encrypted with a random key
that is only in the memory of the process. The file has no name, so that even a killed process leaves nothing. Without
the package `cryptography`, no model can be encrypted, and the bytes are written as they are.

Spec: NIST SP 800-38A (CTR). A byte of the key stream belongs to one place, and a place is written once. Only where a
late write goes, zeros may be written before; that shows the late write, which is a checksum.
"""

from __future__ import annotations

import os
import secrets
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from formats.errors import TensorDataError
from formats.tensordata.engine import source_files_of, transfer
from formats.tensordata.file import File
from formats.tensordata.local.osio import SYSTEM, LocalFile
from formats.tensordata.local.output import OpenedFile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from formats.tensordata.engine import EngineOptions
    from formats.tensordata.plan import FilePlan, WritePlan

PIECE_BYTES = 1 << 20  # encrypted and decrypted at a time
BLOCK_BYTES = 16  # of AES


class Spool(File):
    """A temporary file without a name, which is written and read with any number of threads; closed at its end.

    Bytes that were never written have no value.
    """

    def __init__(self, path: Path, nbytes: int = 0) -> None:
        """An empty file of `nbytes`; it stands for the file or stream at `path`.

        Raises: OSError if it cannot be made.
        """
        self.path = path
        self.nbytes = nbytes
        self._combine = _new_cipher()
        place = Path(tempfile.gettempdir())
        with tempfile.TemporaryFile(prefix="formats-") as file:
            self._output = OpenedFile(place, os.dup(file.fileno()), nbytes)
            self._input = LocalFile(place, keep_open=True, capabilities=SYSTEM, descriptor=os.dup(file.fileno()))

    def pwrite(self, offset: int, data: memoryview | bytes) -> None:
        """Write all of `data` at `offset`."""
        rest = memoryview(data)
        while len(rest):
            self._output.pwrite(offset, self._combine(offset, rest[:PIECE_BYTES]))
            offset, rest = offset + len(rest[:PIECE_BYTES]), rest[PIECE_BYTES:]

    def append(self, data: bytes) -> None:
        """Write `data` at the end."""
        self.pwrite(self.nbytes, data)
        self.nbytes += len(data)

    def copy_range(self, file: File, source_offset: int, offset: int, nbytes: int) -> int:
        """0: the kernel cannot encrypt."""
        return 0

    def pread_into(self, offset: int, buffer: memoryview | bytearray) -> None:
        """Fill `buffer` with the bytes from `offset` on."""
        view = memoryview(buffer)
        for start in range(0, len(view), PIECE_BYTES):
            piece = view[start : start + PIECE_BYTES]
            piece[:] = self._combine(offset + start, self._input.pread(offset + start, len(piece)))

    def pread(self, offset: int, nbytes: int) -> bytes:
        """The `nbytes` from `offset` on."""
        return self._combine(offset, self._input.pread(offset, nbytes))

    def map(self, offset: int, nbytes: int) -> memoryview:
        """A range in memory."""
        buffer = bytearray(nbytes)
        self.pread_into(offset, buffer)
        return memoryview(buffer).toreadonly()

    def pieces(self) -> Iterator[tuple[int, bytes]]:
        """All bytes in pieces, each with its offset."""
        for offset in range(0, self.nbytes, PIECE_BYTES):
            yield offset, self.pread(offset, min(PIECE_BYTES, self.nbytes - offset))

    def is_same(self, other: File) -> bool:
        """Whether it is the same object."""
        return self is other

    def is_current(self) -> bool:
        """True: nobody else can write to it."""
        return True

    def check_unchanged(self) -> None:
        """Do nothing: nobody else can write to it."""

    def check_in_place(self, descriptor: int | None = None) -> None:
        """Do nothing: nobody else can write to it."""

    def close(self) -> None:
        """Do nothing: it could not be opened again."""

    def __reduce__(self) -> NoReturn:
        raise TensorDataError("a model from a stream cannot go to another process; write it to a file", path=self.path)

    def __del__(self) -> None:
        if hasattr(self, "_output"):  # the file could be made
            self._output.close()


def spooled(plan: WritePlan, options: EngineOptions) -> tuple[list[Spool], dict[str, bytes]]:
    """The files of a plan, complete in temporary files, and the digests.

    Raises: as the engine does.
    """
    spools = [Spool(file.path, file.nbytes) for file in plan.files]
    for spool, file in zip(spools, plan.files, strict=True):
        for start, stop in _between(file):
            for offset in range(start, stop, PIECE_BYTES):
                spool.pwrite(offset, bytes(min(PIECE_BYTES, stop - offset)))
    digests = transfer(plan, spools, options)
    for source_file in source_files_of(plan):
        source_file.check_unchanged()
    return spools, digests


def _between(file: FilePlan) -> Iterator[tuple[int, int]]:
    """The ranges that no write of a file fills, which are zeros."""
    writes = [(write.file_offset, write.end) for write in file.writes]
    writes += [(write.file_offset, write.end) for write in file.late_writes]
    position = 0
    for start, stop in sorted(writes):
        yield position, start
        position = stop
    yield position, file.nbytes


def _new_cipher() -> Callable[[int, Any], bytes]:
    """A function that encrypts and decrypts bytes for an offset, with a new key."""
    try:
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
    except ImportError:
        return lambda _, data: bytes(data)
    key = algorithms.AES(secrets.token_bytes(32))

    def combine(offset: int, data: Any) -> bytes:
        block, skip = divmod(offset, BLOCK_BYTES)
        stream = Cipher(key, modes.CTR(block.to_bytes(BLOCK_BYTES, "big"))).encryptor()
        stream.update(bytes(skip))
        return stream.update(data)

    return combine
