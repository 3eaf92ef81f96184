"""Sources: any range of any source contains the right bytes."""

from __future__ import annotations

import copy
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from formats.errors import TensorDataError, TruncatedError
from formats.tensordata.file import File
from formats.tensordata.local.osio import LocalFile
from formats.tensordata.sources import source as source_module
from formats.tensordata.sources.source import (
    COMPARE_BYTES,
    Concat,
    FileSpan,
    Literal,
    Source,
    Transformed,
    contents,
    storage_key,
)
from formats.tensordata.sources.transform import Transform, casting

DATA = bytes(range(120))


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> File:
    """A file that contains `DATA` from byte 10 on."""
    path = tmp_path_factory.mktemp("sources") / "weights"
    path.write_bytes(bytes(10) + DATA + bytes(10))
    return File.open(path)


def sources(file: File) -> dict[str, Source]:
    """Return a source of each kind, all with the bytes of `DATA`."""
    span = FileSpan(file, 10, 120)
    return {
        "bytes": Literal(DATA),
        "memory": Literal(memoryview(bytearray(DATA))),
        "file": span,
        "file, not kept open": FileSpan(File.open(file.path, keep_open=False), 10, 120),
        "units": Transform("same", 7, 7, bytes).of(span),
        "whole": Transform("same", 0, 0, bytes).of(span, 120),
        "concat": Concat.of(span.slice(0, 50), Literal(b""), Literal(DATA[50:70]), span.slice(70, 50)),
        "nested": Concat.of(Concat.of(Transform("same", 2, 2, bytes).of(Literal(DATA[:3]))), Literal(DATA[3:])),
    }


KINDS = ("bytes", "memory", "file", "file, not kept open", "units", "whole", "concat", "nested")


@pytest.mark.sample(3)
@pytest.mark.parametrize("kind", KINDS)
@given(bounds=st.tuples(st.integers(0, 120), st.integers(0, 120)).map(sorted))
def test_any_range(file: File, kind: str, bounds: list[int]) -> None:
    """Reading, filling a buffer, slicing, viewing and chunks all give the same bytes."""
    source = sources(file)[kind]
    start, end = bounds
    buffer = bytearray(end - start)
    source.readinto(start, memoryview(buffer))
    assert DATA[start:end] == source.read(start, end - start) == buffer
    part = source.slice(start, end - start)
    assert DATA[start:end] == part.read() == bytes(part.view())
    assert end - start == part.nbytes
    assert DATA == b"".join(source.chunks(bounds[1] + 1))


@pytest.mark.parametrize("kind", KINDS)
def test_views_are_read_only(file: File, kind: str) -> None:
    """A view shows all the bytes, and is read-only."""
    view = sources(file)[kind].view()
    assert bytes(view) == DATA
    assert view.readonly


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("offset", "nbytes"), [(0, 121), (120, 1), (-1, 1), (200, 0)])
def test_ranges_outside(file: File, kind: str, offset: int, nbytes: int) -> None:
    """A range outside of the source is an error in every way to read it."""
    source = sources(file)[kind]
    with pytest.raises(TruncatedError):
        source.readinto(offset, memoryview(bytearray(nbytes)))
    with pytest.raises(TruncatedError):
        source.read(offset, nbytes)
    with pytest.raises(TruncatedError):
        source.slice(offset, nbytes)


def test_equality_is_that_of_the_bytes(file: File) -> None:
    """Sources with the same bytes are equal, and have the same hash, wherever the bytes are."""
    found = list(sources(file).values())
    for source in found:
        assert source == found[0]
        assert hash(source) == hash(found[0])
        assert source != Literal(DATA[:-1] + b"x")
        assert source != Literal(DATA[:-1])
        assert source != DATA


@pytest.mark.parametrize("nbytes", [COMPARE_BYTES - 1, COMPARE_BYTES, 2 * COMPARE_BYTES + 5])
def test_equality_of_long_sources(nbytes: int, tmp_path: Path) -> None:
    """Long sources are equal only if every byte is, even at the ends of the pieces that are compared."""
    data = random.Random(nbytes).randbytes(nbytes)
    (tmp_path / "weights").write_bytes(data)
    span = FileSpan(File.open(tmp_path / "weights"), 0, nbytes)
    halves = Concat.of(Literal(data[: nbytes // 2]), Transform("same", 1, 1, bytes).of(Literal(data[nbytes // 2 :])))
    assert span == Literal(data) == halves == span
    for place in {0, COMPARE_BYTES - 1, COMPARE_BYTES, nbytes - 1}:
        if place < nbytes:
            other = Literal(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
            assert span != other
            assert other != halves


@pytest.mark.parametrize("step_bytes", [1, 7, 14, 30])
@given(bounds=st.tuples(st.integers(0, 238), st.integers(0, 238)).map(sorted))
def test_units_in_steps(step_bytes: int, bounds: list[int]) -> None:
    """A transform with units gives the same bytes, whatever the number of units per call."""
    doubled = b"".join(DATA[place : place + 7] * 2 for place in range(0, 120, 7))
    source = Transform("doubled", 7, 14, _each_seven_twice).of(Literal(DATA), len(doubled))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(source_module, "STEP_BYTES", step_bytes)
        assert doubled[slice(*bounds)] == source.read(bounds[0], bounds[1] - bounds[0])


def _each_seven_twice(data: bytes) -> bytes:
    return b"".join(bytes(data[place : place + 7]) * 2 for place in range(0, len(data), 7))


def test_same_place_is_equal_without_reading(tmp_path: Path) -> None:
    """Two spans of the same range are equal without reading a byte."""
    (tmp_path / "weights").write_bytes(DATA)
    file = File.open(tmp_path / "weights")
    (tmp_path / "weights").write_bytes(b"")
    assert FileSpan(file, 3, 50) == FileSpan(file, 3, 50)
    with pytest.raises(TruncatedError):
        assert FileSpan(file, 3, 50) == FileSpan(file, 4, 50)


@pytest.mark.parametrize("kind", KINDS)
def test_copies_share_the_bytes(file: File, kind: str) -> None:
    """A copied model shares its weights with the original."""
    source = sources(file)[kind]
    assert copy.deepcopy(source) is source
    assert copy.copy(source) is source


def test_files(file: File) -> None:
    """The files that bytes come from are known without reading them."""
    expected = {"bytes": 0, "memory": 0, "file": 1, "file, not kept open": 1, "units": 1, "whole": 1}
    expected |= {"concat": 1, "nested": 0}
    assert expected == {kind: len(set(source.files())) for kind, source in sources(file).items()}


def test_granules() -> None:
    """A transform that is only cheap as a whole makes every source above it so."""
    whole = Transform("whole", 0, 0, bytes).of(Literal(DATA), 120)
    assert Literal(DATA).granule_bytes == 1
    assert casting("float16", "float32").of(Literal(DATA)).granule_bytes == 4
    assert whole.granule_bytes == 0
    assert casting("int32", "int16").of(whole).granule_bytes == 0
    assert Concat.of(Literal(DATA), whole).granule_bytes == 0
    assert Concat.of(Literal(DATA)).granule_bytes == 1
    assert Concat.of().granule_bytes == 1


@pytest.mark.parametrize(("unit", "nbytes"), [(0, 119), (0, 121), (4, 121)])
def test_transform_of_another_size(unit: int, nbytes: int) -> None:
    """A transform that returns more or fewer bytes than declared is an error; only a unit may be completed."""
    source = Transformed(Literal(DATA), Transform("same", unit, unit, bytes), nbytes)
    with pytest.raises(TensorDataError, match="same gave 120 bytes"):
        source.view()
    if unit:
        with pytest.raises(TensorDataError, match="same gave 0 bytes"):
            source.read(120, 1)
    with pytest.raises(TensorDataError, match="same gave"):
        source.read()
    with pytest.raises(TensorDataError, match="same gave 120 bytes"):
        Transformed(Literal(DATA), Transform("same", 4, 4, bytes), 116).view()
    padded = Transformed(Literal(DATA), Transform("same", 4, 4, bytes), 118)
    assert padded.read() == bytes(padded.view()) == DATA[:118]


def test_transform_of_nothing() -> None:
    """An empty source is empty after a transform."""
    source = casting("float16", "float32").of(Literal(b""))
    assert source.read() == bytes(source.view()) == b""


def test_transform_does_not_map_its_file(file: File, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading a transformed file never uses a mapping, which would raise a signal if the file shrinks."""
    monkeypatch.delattr(LocalFile, "map")
    assert Transform("same", 0, 0, bytes).of(FileSpan(file, 10, 120), 120).read() == DATA


def test_places(file: File) -> None:
    """Sources that always have the same bytes have the same place, and others do not."""
    span = FileSpan(file, 10, 120)
    same = [span, FileSpan(file, 10, 120), span.slice(0, 120)]
    assert len({storage_key(source) for source in same}) == 1
    others = [
        span,
        span.slice(0, 119),
        span.slice(1, 119),
        casting("float16", "float32").of(span),
        casting("int16", "int32").of(span),
        Literal(DATA),
        Literal(bytes(bytearray(DATA))),
        Concat.of(span),
    ]
    assert len({storage_key(source) for source in others}) == len(others)


def test_contents_of_small_sources(file: File, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sources of every kind, in any order, return their bytes, and spans near each other are read with one call."""
    span = FileSpan(file, 10, 120)
    spans = [span.slice(start, 3) for start in range(0, 99, 3)]
    other = FileSpan(File.open(file.path), 10, 120)
    mixed = [*spans, *sources(file).values(), *reversed(spans), other.slice(5, 9), span.slice(5, 0), span.slice(50, 70)]
    assert [source.read() for source in mixed] == [bytes(data) for data in contents(mixed)]
    calls = []
    real = LocalFile.pread_into
    monkeypatch.setattr(LocalFile, "pread_into", lambda *arguments: (calls.append(arguments), real(*arguments))[1])
    assert DATA[:99] == b"".join(contents([part for one in spans for part in (one, Literal(b""))]))
    assert len(calls) == 1


def test_contents_that_are_far_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes between distant spans are not read, and no call reads more than a window."""
    (tmp_path / "weights").write_bytes(bytes(3 << 20))
    span = File.open(tmp_path / "weights").span()
    ranges: list[int] = []
    real = LocalFile.pread_into
    monkeypatch.setattr(
        LocalFile,
        "pread_into",
        lambda self, offset, buffer: (ranges.append(len(buffer)), real(self, offset, buffer))[1],
    )
    list(contents([span.slice(0, 10), span.slice(4107, 10), span.slice(10_000, 10)]))
    assert [10, 10, 10] == ranges
    ranges.clear()
    list(contents([span.slice(start, 1024) for start in range(0, 3 << 20, 1024)]))
    assert [1 << 20] * 3 == ranges
