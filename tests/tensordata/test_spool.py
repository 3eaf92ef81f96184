"""Temporary files whose bytes on the disk are encrypted."""

from __future__ import annotations

import pickle
import random
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from formats.errors import TensorDataError
from formats.tensordata import spool
from formats.tensordata.engine import EngineOptions
from formats.tensordata.plan import Digest, FilePlan, LateWrite, PlacedWrite, WritePlan
from formats.tensordata.sources.source import Literal
from formats.tensordata.spool import Spool

pytest.importorskip("cryptography")


def on_disk(file: Spool) -> bytes:
    """Return the bytes of the file on the disk."""
    return file._input.pread(0, file.nbytes)


def test_ranges_in_any_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is written in any ranges is read in any others, as bytes, into a buffer and as memory."""
    monkeypatch.setattr(spool, "PIECE_BYTES", 100)
    rng = random.Random(0)
    data = rng.randbytes(5000)
    file = Spool(Path("m"), len(data))
    cuts = sorted({0, len(data), *(rng.randrange(len(data)) for _ in range(30))})
    ranges = list(pairwise(cuts))
    for start, stop in rng.sample(ranges, len(ranges)):
        file.pwrite(start, data[start:stop])
    for _ in range(100):
        start, stop = sorted(rng.randrange(len(data)) for _ in "ab")
        assert data[start:stop] == file.pread(start, stop - start) == bytes(file.map(start, stop - start))
    assert data == b"".join(piece for _, piece in file.pieces())


def test_the_disk_has_no_plain_text() -> None:
    """Equal texts are different on the disk, in two files and at two places, and differ from the text in every part."""
    text = bytes(4096)
    one, two = Spool(Path("m")), Spool(Path("m"))
    for file in (one, one, two):
        file.append(text)
    blocks = {data[start : start + 16] for data in map(on_disk, (one, two)) for start in range(0, len(data), 16)}
    assert 3 * 4096 // 16 == len(blocks)
    assert text[:16] not in blocks


def test_a_plan_is_filled(monkeypatch: pytest.MonkeyPatch) -> None:
    """What no write fills is zero, and late writes have their values."""
    monkeypatch.setattr(spool, "PIECE_BYTES", 100)
    writes = (PlacedWrite(300, Literal(b"abc"), Digest("crc", "crc32")), PlacedWrite(310, Literal(b"def")))
    late = LateWrite(304, 4, lambda digests: digests["crc"])
    plan = WritePlan((FilePlan(Path("m"), 1000, writes, (late,)), FilePlan(Path("n"), 7, ())))
    (first, second), digests = spool.spooled(plan, EngineOptions())
    assert bytes(300) + b"abc\0" + digests["crc"] + b"\0\0def" + bytes(687) == first.pread(0, 1000)
    assert bytes(7) == second.pread(0, 7)


def test_it_stays_in_its_process() -> None:
    """A pickle would need the key, and the file has no name."""
    with pytest.raises(TensorDataError, match="another process"):
        pickle.dumps(Spool(Path("m")))


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without `cryptography`, streams work, and no model can be encrypted."""
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.ciphers", None)
    file = Spool(Path("m"))
    file.append(b"text")
    assert b"text" == file.pread(0, 4) == on_disk(file)
