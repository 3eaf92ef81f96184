"""Checksums of bytes that come in parts."""

from __future__ import annotations

import hashlib
import random
import sys
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from formats.tensordata.sources import digest
from formats.tensordata.sources.digest import Duplicates
from formats.tensordata.sources.source import Literal, Source, Transformed
from formats.tensordata.sources.transform import Transform


@given(st.binary(max_size=300), st.binary(max_size=300))
def test_combined_crc_is_that_of_both(first: bytes, second: bytes) -> None:
    """The combination of two CRCs is the CRC of the bytes of both."""
    assert zlib.crc32(first + second) == digest.crc32_combine(zlib.crc32(first), zlib.crc32(second), len(second))


@pytest.mark.parametrize("nbytes", [2**20 - 1, 2**22, 3 * 2**20 + 7])
def test_combined_crc_of_large_parts(nbytes: int) -> None:
    """CRCs of sizes that are too large for a property test can be combined, too."""
    first, second = b"weights", bytes(range(256)) * (nbytes // 256) + bytes(nbytes % 256)
    assert zlib.crc32(first + second) == digest.crc32_combine(zlib.crc32(first), zlib.crc32(second), nbytes)


@given(st.lists(st.binary(max_size=40), max_size=12), st.randoms())
def test_crc_parts_may_come_in_any_order(parts: list[bytes], order: random.Random) -> None:
    """The order of the parts is that of their offsets, not of the calls."""
    digester = digest.new_digester("crc32")
    offset, placed = 1000, []
    for part in parts:
        placed.append((offset, part))
        offset += len(part)
    order.shuffle(placed)
    for offset, part in placed:
        digester.update(offset, memoryview(part))
    assert zlib.crc32(b"".join(parts)).to_bytes(4, "big") == digester.digest()


def test_sha256_takes_parts_in_turn() -> None:
    """SHA-256 is computed over the parts in the order of the calls."""
    digester = digest.new_digester("sha256")
    digester.update(0, memoryview(b"ab"))
    digester.update(2, memoryview(b"c"))
    assert hashlib.sha256(b"abc").digest() == digester.digest()


def test_unknown_algorithm_is_named() -> None:
    """An unknown algorithm is an error that names it."""
    with pytest.raises(ValueError, match="md4"):
        digest.new_digester("md4")


def test_without_isal(monkeypatch: pytest.MonkeyPatch) -> None:
    """If isal is not installed, the standard library replaces it."""
    monkeypatch.setitem(sys.modules, "isal", None)
    digest.crc32_function.cache_clear()
    try:
        assert zlib.crc32 is digest.crc32_function()
    finally:
        digest.crc32_function.cache_clear()


# Equal sources


class CountedReads(Literal):
    """Bytes that record how often they were read."""

    def __init__(self, data: bytes, reads: list[int]) -> None:
        super().__init__(data)
        object.__setattr__(self, "_reads", reads)

    def read(self, offset: int = 0, nbytes: int | None = None) -> bytes:
        """Record the call and read."""
        self._reads.append(len(self.data))  # type: ignore[attr-defined]
        return super().read(offset, nbytes)


def test_what_is_alone_in_its_size_is_not_read() -> None:
    """Sources are read only if another has the same size, and then only once."""
    reads: list[int] = []
    duplicates = Duplicates()
    for data in (b"a", b"bb", b"ccc", b"dd", b"ee"):
        duplicates.first(CountedReads(data, reads))
    assert [2, 2, 2] == reads


@pytest.mark.parametrize("granule", [0, 4])
def test_transformed_sources_are_compared_by_what_they_give(granule: int) -> None:
    """Transformed sources are compared by their bytes after the transform, whether it works in pieces or not."""
    flip = Transform("flip", granule, granule, lambda data: memoryview(bytes(255 - byte for byte in data)))
    plain: Source = Literal(b"\xff" * 64)
    duplicates = Duplicates()
    assert duplicates.first(plain) is duplicates.first(Transformed(Literal(bytes(64)), flip, 64))
