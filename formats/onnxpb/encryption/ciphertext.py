"""Texts and ciphertexts as sources: bytes that are encrypted or decrypted when they are read.

The caller passes functions for the cipher. `crypt.py` has the layout of a file. Offsets and sizes are in bytes.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Any

from formats.errors import CryptError, FormatError
from formats.tensordata.sources.source import Concat, Literal, Source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from formats.tensordata.file import File

CHECK_BYTES = 16
CBC_BLOCK_BYTES = 16
PIECE_BYTES = 1 << 16  # decrypted at a time, even for the smallest read


class Computed(Source):
    """Bytes that are computed from other bytes each time they are read."""

    __slots__ = ()

    def slice(self, offset: int, nbytes: int) -> Source:
        """A range, which is not computed yet."""
        self._check_range(offset, nbytes)
        return Range(self, offset, nbytes)

    def view(self) -> memoryview:
        """All the bytes, computed now."""
        buffer = memoryview(bytearray(self.nbytes))
        self.readinto(0, buffer)
        return buffer.toreadonly()

    def __reduce__(self) -> tuple[Any, ...]:
        """The bytes, computed now: a pickle must not contain a key."""
        return Literal, (self.read(),)


@dataclass(frozen=True, slots=True, eq=False)
class Range(Computed):
    """A range of computed bytes."""

    whole: Computed
    offset: int
    nbytes: int

    def files(self) -> Iterator[File]:
        """The files of the whole source."""
        return self.whole.files()

    def doubtful(self) -> Iterator[Source]:
        """The doubtful sources of the whole."""
        return self.whole.doubtful()

    def readinto(self, offset: int, buffer: memoryview) -> None:
        """Compute this part of the whole."""
        self._check_range(offset, len(buffer))
        self.whole.readinto(self.offset + offset, buffer)

    def slice(self, offset: int, nbytes: int) -> Range:
        """A shorter range."""
        self._check_range(offset, nbytes)
        return Range(self.whole, self.offset + offset, nbytes)


# Encrypting


@dataclass(frozen=True, slots=True, eq=False)
class StreamCiphertext(Computed):
    """A text combined with a stream of key bytes, any range separately; `combine` gets an offset and its bytes."""

    plaintext: Source
    combine: Callable[[int, memoryview], bytes]

    @property
    def nbytes(self) -> int:  # type: ignore[override]
        """The size of the text."""
        return self.plaintext.nbytes

    def files(self) -> Iterator[File]:
        """The files of the text."""
        return self.plaintext.files()

    def doubtful(self) -> Iterator[Source]:
        """The doubtful sources of the text."""
        return self.plaintext.doubtful()

    def readinto(self, offset: int, buffer: memoryview) -> None:
        """Read and encrypt."""
        self.plaintext.readinto(offset, buffer)
        buffer[:] = self.combine(offset, buffer)


class ChainedCiphertext(Computed):
    """A padded text in a mode where each block needs the one before it; `encrypt` gets that block, and whole blocks.

    It should be read from the start. The last block of every piece is stored, so that reading can continue there or
    start again. Only one thread at a time may read.

    Spec: RFC 5652, 6.3 (padding).
    """

    __slots__ = ("_encrypt", "_lock", "_padded", "_previous", "nbytes")

    def __init__(self, plaintext: Source, iv: bytes, encrypt: Callable[[bytes, bytes], bytes]) -> None:
        padding_nbytes = CBC_BLOCK_BYTES - plaintext.nbytes % CBC_BLOCK_BYTES
        self._padded = Concat.of(plaintext, Literal(bytes([padding_nbytes]) * padding_nbytes))
        self._encrypt = encrypt
        self._previous = [iv]  # the block before each piece, as far as it is known
        self._lock = Lock()
        self.nbytes = self._padded.nbytes

    def files(self) -> Iterator[File]:
        """The files of the text."""
        return self._padded.files()

    def doubtful(self) -> Iterator[Source]:
        """The doubtful sources of the text."""
        return self._padded.doubtful()

    def readinto(self, offset: int, buffer: memoryview) -> None:
        """Encrypt from the piece of `offset` on, or from an earlier one if its block is not known yet."""
        self._check_range(offset, len(buffer))
        with self._lock:
            first = min(offset // PIECE_BYTES, len(self._previous) - 1)
            for start in range(first * PIECE_BYTES, offset + len(buffer), PIECE_BYTES):
                _copy_overlap(self._piece(start // PIECE_BYTES), start, buffer, offset)

    def _piece(self, number: int) -> bytes:
        start = number * PIECE_BYTES
        text = self._padded.read(start, min(PIECE_BYTES, self.nbytes - start))
        piece = self._encrypt(self._previous[number], text)
        if number + 1 == len(self._previous):
            self._previous.append(piece[-CBC_BLOCK_BYTES:])
        return piece


# Decrypting


class Pieces:
    """A ciphertext in pieces, which must be the same at every reading.

    It starts at `file_offset` of `source`; each piece comes with the `lead_nbytes` bytes before it in `source`. `check`
    gives a checksum of `CHECK_BYTES` of a piece and its number.
    """

    __slots__ = ("_check", "_checks", "_file_offset", "_lead_nbytes", "nbytes", "source")

    def __init__(
        self, source: Source, file_offset: int, lead_nbytes: int, check: Callable[[int, bytes], bytes]
    ) -> None:
        self.source = source
        self.nbytes = source.nbytes - file_offset
        self._file_offset = file_offset
        self._lead_nbytes = lead_nbytes
        self._check = check
        self._checks = bytearray()

    def first_pass(self) -> Iterator[bytes]:
        """All pieces in order. From then on, they must not change."""
        for number in range(-(-self.nbytes // PIECE_BYTES)):
            piece = self._read(number)
            self._checks += self._check(number, piece)
            yield piece

    def read(self, number: int) -> bytes:
        """One piece.

        Raises: CryptError if it changed since the first pass.
        """
        piece = self._read(number)
        expected = self._checks[number * CHECK_BYTES : (number + 1) * CHECK_BYTES]
        if not hmac.compare_digest(self._check(number, piece), expected):
            raise CryptError("the encrypted model has changed since it was opened; open it again")
        return piece

    def _read(self, number: int) -> bytes:
        start = number * PIECE_BYTES
        nbytes = min(PIECE_BYTES, self.nbytes - start) + self._lead_nbytes
        return read_ciphertext(self.source, self._file_offset + start - self._lead_nbytes, nbytes)


def read_ciphertext(source: Source, offset: int, nbytes: int) -> bytes:
    """A range of a file that had this range when it was opened.

    Raises: CryptError if the range cannot be read any more.
    """
    try:
        return source.read(offset, nbytes)
    except FormatError as error:
        raise CryptError(f"the encrypted model changed while it was read: {error.message}") from error


@dataclass(frozen=True, slots=True, eq=False)
class Plaintext(Computed):
    """The text of checked pieces; `decrypt` gets the offset of a piece, and the piece with its lead."""

    pieces: Pieces
    decrypt: Callable[[int, bytes], bytes]

    @property
    def nbytes(self) -> int:  # type: ignore[override]
        """The size of the text, including padding."""
        return self.pieces.nbytes

    def files(self) -> Iterator[File]:
        """The files of the ciphertext."""
        return self.pieces.source.files()

    def readinto(self, offset: int, buffer: memoryview) -> None:
        """Read, check and decrypt all pieces that the range touches."""
        self._check_range(offset, len(buffer))
        for start in range(offset // PIECE_BYTES * PIECE_BYTES, offset + len(buffer), PIECE_BYTES):
            _copy_overlap(self.decrypt(start, self.pieces.read(start // PIECE_BYTES)), start, buffer, offset)


def _copy_overlap(piece: bytes, start: int, buffer: memoryview, offset: int) -> None:
    """Copy the common bytes of `piece`, which is at `start`, and `buffer`, which is at `offset`."""
    low, high = max(start, offset), min(start + len(piece), offset + len(buffer))
    if low < high:
        buffer[low - offset : high - offset] = memoryview(piece)[low - start : high - start]
