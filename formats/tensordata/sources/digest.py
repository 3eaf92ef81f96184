"""Checksums of bytes that may come in any order.

The CRC-32 of a file follows from the CRC-32s of its parts, so several threads can compute the parts. A SHA-256 needs
the bytes in their order.

Sources with equal bytes are found by their SHA-256.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cache, lru_cache
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from formats.tensordata.sources.source import Source

CRC32_POLYNOMIAL = 0xEDB88320  # bit-reversed: the highest bit is the coefficient of x to the power of 0
ONE = 1 << 31  # the polynomial 1 in that order
X_TO_8 = 1 << 23


class Digester(ABC):
    """A checksum that is being computed."""

    __slots__ = ()
    in_order: ClassVar[bool]  # whether updates must come one at a time and in the order of their bytes

    @abstractmethod
    def update(self, offset: int, data: memoryview) -> None:
        """Add `data`; `offset` gives its place among the other parts, in bytes from any fixed point."""

    @abstractmethod
    def digest(self) -> bytes:
        """The checksum in its usual byte form, of all added bytes; no bytes may be missing between them."""


class Crc32(Digester):
    """The CRC-32 of zip archives, as 4 bytes, big-endian."""

    __slots__ = ("_crc32", "_parts")
    in_order = False

    def __init__(self) -> None:
        self._crc32 = crc32_function()
        self._parts: list[tuple[int, int, int]] = []

    def update(self, offset: int, data: memoryview) -> None:
        """Add a part; any thread may call this."""
        self._parts.append((offset, len(data), self._crc32(data)))

    def digest(self) -> bytes:
        """The checksum of all parts in the order of their offsets."""
        total = 0
        for _, nbytes, crc in sorted(self._parts):
            total = crc32_combine(total, crc, nbytes)
        return total.to_bytes(4, "big")


class Hash(Digester):
    """A hash of the standard library, such as SHA-256."""

    __slots__ = ("_hash",)
    in_order = True

    def __init__(self, name: str) -> None:
        import hashlib  # its import takes as long as a small conversion to an archive

        self._hash = hashlib.new(name, usedforsecurity=False)

    def update(self, offset: int, data: memoryview) -> None:
        """Add the part after the last one."""
        self._hash.update(data)

    def digest(self) -> bytes:
        """The checksum of all parts."""
        return self._hash.digest()


def new_digester(algorithm: str | Callable[[], Digester]) -> Digester:
    """A new checksum without bytes; a codec may define its own algorithm.

    Raises: ValueError if there is no such algorithm.
    """
    if not isinstance(algorithm, str):
        return algorithm()
    if algorithm == "crc32":
        return Crc32()
    if algorithm in ("sha1", "sha256"):
        return Hash(algorithm)
    raise ValueError(f"no digest algorithm is called {algorithm!r}")


def crc32_combine(first: int, second: int, second_nbytes: int) -> int:
    """The CRC-32 of two byte strings that follow each other, from the CRC-32 of each and the size of the second.

    Appending a zero byte multiplies a CRC, as a polynomial over GF(2), by x to the power of 8; the effects of the start
    and end values of CRC-32 cancel out.
    """
    return _multiply(_x_to_8n(second_nbytes), first) ^ second if first else second


@cache
def crc32_function() -> Callable[[memoryview | bytes], int]:
    """The fastest CRC-32 function that is installed."""
    try:
        from isal import isal_zlib
    except ImportError:
        import zlib

        return zlib.crc32
    function: Callable[[memoryview | bytes], int] = isal_zlib.crc32
    return function


def _multiply(a: int, b: int) -> int:
    """The product of two polynomials modulo that of CRC-32."""
    product = 0
    while a:
        if a & ONE:
            product ^= b
        a = a << 1 & 0xFFFFFFFF
        b = b >> 1 ^ (CRC32_POLYNOMIAL if b & 1 else 0)
    return product


@lru_cache(maxsize=1024)
def _x_to_8n(n: int) -> int:
    """The polynomial x to the power of 8n, modulo that of CRC-32; most parts have one of a few sizes."""
    power = ONE
    square = X_TO_8
    while n:
        if n & 1:
            power = _multiply(square, power)
        square = _multiply(square, square)
        n >>= 1
    return power


class Duplicates:
    """Sources by their bytes; only sources whose size occurs twice are read, a piece at a time."""

    def __init__(self) -> None:
        self._unread: dict[int, Source | None] = {}  # the only source of its size, if there is only one
        self._by_digest: dict[tuple[int, bytes], Source] = {}

    def first(self, source: Source) -> Source:
        """The first source of all so far with the bytes of `source`; possibly this one."""
        only_one = self._unread.setdefault(source.nbytes, source)
        if only_one is source:
            return source
        if only_one is not None:  # now there are two of this size, so both are read
            self._by_digest[_key(only_one)] = only_one
            self._unread[source.nbytes] = None
        return self._by_digest.setdefault(_key(source), source)


def _key(source: Source) -> tuple[int, bytes]:
    """The size and the SHA-256 of a source."""
    import hashlib  # its import takes as long as a small conversion to an archive

    digest = hashlib.sha256()
    for piece in source.chunks() if source.granule_bytes else (source.view(),):
        digest.update(piece)
    return source.nbytes, digest.digest()
