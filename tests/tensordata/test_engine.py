"""The engine, with plans made by hand."""

from __future__ import annotations

import errno
import hashlib
import os
import signal
import subprocess
import sys
import threading
import time
import zlib
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from formats.errors import FormatError, TensorDataError, TruncatedError
from formats.tensordata import engine, tasks, threads
from formats.tensordata.engine import EngineOptions, execute, materialise, to_bytes
from formats.tensordata.file import File
from formats.tensordata.local.osio import SYSTEM, LocalFile
from formats.tensordata.local.output import BLOCK_BYTES
from formats.tensordata.plan import Align, Digest, FilePlan, LateWrite, PlacedWrite, WritePlan, lay_out
from formats.tensordata.replacing import publication
from formats.tensordata.sources.source import Concat, Literal, Source
from formats.tensordata.sources.transform import Transform, casting, varints
from tests.systems import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator

OPTIONS = {
    "usual": EngineOptions(overwrite=True),
    "one thread": EngineOptions(threads=1, overwrite=True),
    "eight threads, small chunks": EngineOptions(threads=8, chunk_bytes=100, overwrite=True),
    "tiny chunks": EngineOptions(threads=2, chunk_bytes=7, overwrite=True),
    "tiny budget": EngineOptions(threads=8, chunk_bytes=64, in_flight_bytes=1, overwrite=True),
    "no kernel copy": EngineOptions(overwrite=True, capabilities=replace(SYSTEM, copy_range=False)),
    "named": EngineOptions(overwrite=True, capabilities=replace(SYSTEM, unnamed=False), fsync=True),
}


@pytest.fixture(params=OPTIONS.values(), ids=OPTIONS)
def options(request: pytest.FixtureRequest) -> EngineOptions:
    """Every way to execute a plan."""
    return request.param


@pytest.fixture(autouse=True)
def _nothing_is_left_running() -> Iterator[None]:
    """Check that no thread survives the test that started it."""
    before = threading.active_count()
    yield
    assert threading.active_count() == before


@dataclass(frozen=True, slots=True, eq=False)
class Failing(Source):
    """A source that calls a function instead of being read."""

    nbytes: int
    act: Any

    def readinto(self, offset: int, buffer: memoryview) -> None:
        """Call the function."""
        self.act()

    def slice(self, offset: int, nbytes: int) -> Source:
        """Return the source itself."""
        return self

    def view(self) -> memoryview:
        """Return zeros."""
        return memoryview(bytes(self.nbytes))


def raiser(error: BaseException) -> Any:
    """Return a function that raises `error`."""

    def act() -> None:
        raise error

    return act


@dataclass
class Sample:
    """A plan with all kinds of parts, and the bytes that it describes."""

    plan: WritePlan
    companion: bytes
    model: bytes
    weights: bytes
    digests: dict[str, bytes] = field(default_factory=dict)


@pytest.fixture
def sample(tmp_path: Path) -> Sample:
    """A model and a companion, from a file, from memory and through transforms."""
    weights = np.random.default_rng(1).bytes(4000)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "weights").write_bytes(weights)
    span = File.open(tmp_path / "in" / "weights").span()
    halves = np.arange(500, dtype="<f2")
    companion, companion_nbytes = lay_out(
        [
            span.slice(0, 1000),
            Align(64),
            span.slice(1000, 5),
            b"x" * 50,
            casting("float16", "float32").of(Literal(halves.tobytes())),
        ]
    )
    small = [segment for index in range(100) for segment in (b"head", span.slice(index * 40, 33))]
    concat = Concat.of(
        span.slice(7, 300), Literal(b"y" * 90), varints("int32").of(Literal(bytes(range(100))), 400), span.slice(0, 11)
    )
    model, model_nbytes = lay_out(
        [b"graph", *small, Align(256), concat, span, bytes(1), span.slice(3999, 1)], file_offset=12
    )
    model = [
        write._replace(digest=Digest(f"crc {index}", "crc32") if index % 3 == 0 else Digest(f"sha {index}", "sha256"))
        if index % 2
        else write
        for index, write in enumerate(model)
    ]
    late = (
        LateWrite(0, 4, lambda digests: digests["crc 3"]),
        LateWrite(4, 8, lambda digests: digests["side"][:8]),
        LateWrite(model_nbytes + 100, 4, lambda digests: digests["side crc"]),
    )
    plan = WritePlan(
        (
            FilePlan(tmp_path / "out" / "companion", companion_nbytes, tuple(companion)),
            FilePlan(tmp_path / "out" / "model", model_nbytes + 120, tuple(reversed(model)), late),
        ),
        ((Digest("side", "sha256"), concat), (Digest("side crc", "crc32"), span)),
    )
    (tmp_path / "out").mkdir()
    expected = weights[:1000] + bytes(24) + weights[1000:1005] + b"x" * 50 + halves.astype("<f4").tobytes()
    digests = {"side": hashlib.sha256(concat.read()).digest(), "side crc": zlib.crc32(weights).to_bytes(4, "big")}
    body = bytearray(model_nbytes + 120)
    for write in model:
        data = write.source.read()
        body[write.file_offset : write.end] = data
        if write.digest:
            crc = zlib.crc32(data).to_bytes(4, "big")
            digests[write.digest.key] = crc if write.digest.algorithm == "crc32" else hashlib.sha256(data).digest()
    body[0:12] = digests["crc 3"] + digests["side"][:8]
    body[model_nbytes + 100 : model_nbytes + 104] = digests["side crc"]
    return Sample(plan, expected, bytes(body), weights, digests)


def content(directory: Path) -> dict[str, bytes]:
    """Return every file of a directory, including hidden ones."""
    return {name: (directory / name).read_bytes() for name in os.listdir(directory)}


def one_file(path: Path, *sources: Source | bytes, digests: tuple[tuple[Digest, Source], ...] = ()) -> WritePlan:
    """Return a plan of one file with sources one after another."""
    writes, nbytes = lay_out(sources)
    return WritePlan((FilePlan(path, nbytes, tuple(writes)),), digests)


def test_files_are_as_planned(sample: Sample, tmp_path: Path, options: EngineOptions) -> None:
    """Bytes and digests are the same for any number of threads, size of chunks, budget and way to write."""
    result = execute(sample.plan, options)
    assert {"companion": sample.companion, "model": sample.model} == content(tmp_path / "out")
    assert sample.digests == result.digests
    assert len(sample.companion) + len(sample.model) == result.nbytes


def test_memory_is_as_planned(sample: Sample, tmp_path: Path, options: EngineOptions) -> None:
    """In memory, the bytes are the same, and nothing is written to the disk."""
    for file, expected in zip(sample.plan.files, (sample.companion, sample.model), strict=True):
        assert expected == to_bytes(sample.plan._replace(files=(file,)), options)
    assert content(tmp_path / "out") == {}


SEGMENTS = st.lists(
    st.one_of(
        st.binary(max_size=20),
        st.integers(1, 80).map(Align),
        st.tuples(st.integers(0, 900), st.integers(0, 100)),
        st.binary(max_size=30).map(
            lambda data: varints("int32").of(Literal(bytes(b & 127 for b in data)), len(data) * 4)
        ),
    ),
    max_size=30,
)


@settings(suppress_health_check=[*HealthCheck], max_examples=60)
@given(SEGMENTS, st.integers(1, 5), st.integers(1, 200), st.integers(0, 500))
def test_any_layout(tmp_path: Path, segments: list[Any], threads: int, chunk_bytes: int, budget: int) -> None:
    """Whatever the segments are, the file contains their bytes one after another."""
    data = bytes(index * 7 % 251 for index in range(1000))
    (tmp_path / "source").write_bytes(data)
    span = File.open(tmp_path / "source").span()
    segments = [span.slice(*segment) if type(segment) is tuple else segment for segment in segments]
    expected = b""
    for segment in segments:
        if isinstance(segment, Align):
            expected += bytes(-len(expected) % segment.alignment)
        else:
            expected += segment if isinstance(segment, bytes) else segment.read()
    writes, nbytes = lay_out(segments)
    plan = WritePlan((FilePlan(tmp_path / "model", nbytes, tuple(writes)),))
    options = EngineOptions(threads, chunk_bytes, budget, overwrite=True)
    execute(plan, options)
    assert expected == (tmp_path / "model").read_bytes() == to_bytes(plan, options)


def test_empty_plans(tmp_path: Path) -> None:
    """A plan without files, and one with an empty file, are executed, too."""
    assert execute(WritePlan(())).nbytes == 0
    plan = WritePlan((FilePlan(tmp_path / "model", 0, (PlacedWrite(0, Literal(b""), Digest("empty", "crc32")),)),))
    assert execute(plan).digests == {"empty": bytes(4)}
    assert content(tmp_path) == {"model": b""}


def test_impossible_plans(tmp_path: Path) -> None:
    """A wrong plan of a codec is an error before anything is changed."""
    overlapping = (PlacedWrite(0, Literal(b"ab")), PlacedWrite(1, Literal(b"ab")))
    with pytest.raises(ValueError, match="overlap"):
        execute(WritePlan((FilePlan(tmp_path / "model", 3, overlapping),)))
    unknown = (PlacedWrite(0, Literal(b"ab"), Digest("key", "md4")),)
    with pytest.raises(ValueError, match="md4"):
        execute(WritePlan((FilePlan(tmp_path / "model", 3, unknown),)))
    assert content(tmp_path) == {}


@pytest.mark.parametrize("bad", [{"threads": -1}, {"chunk_bytes": 0}, {"in_flight_bytes": -1}])
def test_impossible_options(bad: dict[str, int]) -> None:
    """Options without a meaning are refused when they are created."""
    with pytest.raises(ValueError, match=next(iter(bad))):
        EngineOptions(**bad)


@pytest.mark.parametrize("nbytes", [3, 5])
def test_late_write_of_another_size(tmp_path: Path, nbytes: int) -> None:
    """A late write with another size than planned is an error, and no file is left."""
    late = LateWrite(0, 4, lambda digests: bytes(nbytes), "directory")
    with pytest.raises(ValueError, match="'directory' has"):
        execute(WritePlan((FilePlan(tmp_path / "model", 10, (), (late,)),)))
    assert content(tmp_path) == {}


def test_model_that_replaces_its_source(sample: Sample, tmp_path: Path, options: EngineOptions) -> None:
    """A plan may read from all files that it replaces."""
    (tmp_path / "model").write_bytes(sample.weights)
    (tmp_path / "data").write_bytes(sample.weights[::-1])
    model, data = File.open(tmp_path / "model").span(), File.open(tmp_path / "data", keep_open=False).span()
    swapped = WritePlan(
        (
            FilePlan(tmp_path / "data", 4003, (PlacedWrite(3, model),)),
            FilePlan(tmp_path / "model", 4001, (PlacedWrite(1, data),)),
        )
    )
    execute(swapped, options)
    assert (tmp_path / "data").read_bytes() == bytes(3) + sample.weights
    assert (tmp_path / "model").read_bytes() == bytes(1) + sample.weights[::-1]
    assert model.read() == sample.weights
    assert sorted(os.listdir(tmp_path)) == ["data", "in", "model", "out"]


def test_first_error_is_raised_as_it_was(tmp_path: Path, options: EngineOptions) -> None:
    """The error of a source is raised unchanged, no new file is left, and the old file stays."""
    (tmp_path / "model").write_bytes(b"old")
    for error in (OSError(errno.EIO, "bad disk"), ZeroDivisionError("transform"), MemoryError(), KeyboardInterrupt()):
        plan = one_file(tmp_path / "model", bytes(1000), Failing(10, raiser(error)), Literal(bytes(3000)))
        with pytest.raises(type(error)) as caught:
            execute(plan, options)
        assert caught.value is error
        assert content(tmp_path) == {"model": b"old"}
        with pytest.raises(type(error)):
            to_bytes(plan, options)


def test_error_of_a_format_gets_its_place(tmp_path: Path) -> None:
    """An error that does not name a tensor gets the label of the write."""
    source = varints("int32").of(Literal(b"\xff"), 4)
    writes = (PlacedWrite(0, source, label="graph.initializer[3]"),)
    with pytest.raises(FormatError, match=r"graph\.initializer\[3\]"):
        execute(WritePlan((FilePlan(tmp_path / "model", 4, writes),)))


def test_only_the_first_of_many_errors(tmp_path: Path) -> None:
    """If all workers fail, only one error is raised, once."""
    barrier = threading.Barrier(4)

    def act() -> None:
        barrier.wait(PATIENCE_SECONDS)
        raise FormatError("broken")

    plan = one_file(tmp_path / "model", *(Failing(1 << 20, act) for _ in range(4)))
    with pytest.raises(FormatError, match="broken"):
        execute(plan, EngineOptions(threads=4, chunk_bytes=1 << 20))
    assert content(tmp_path) == {}


@pytest.mark.parametrize("begins", [0, 1, 2])
def test_threads_that_find_no_room(begins: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If there is room for few threads, or for none, as at a limit of memory, everything is written all the same."""
    asked: list[Any] = []

    def few(function: Any) -> Any:
        asked.append(function)
        return threads.started(function) if len(asked) <= begins else None

    monkeypatch.setattr(engine, "started", few)
    data = np.random.default_rng(2).bytes(100_000)
    execute(one_file(tmp_path / "model", Literal(data)), EngineOptions(threads=3, chunk_bytes=1000))
    assert len(asked) == begins + 1
    assert content(tmp_path) == {"model": data}


def test_a_small_file_needs_no_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A small file is written and digested by the caller's thread, a large one by threads of their own."""
    functions: list[Any] = []
    monkeypatch.setattr(engine, "started", lambda function: functions.append(function) or threads.started(function))
    monkeypatch.setattr(engine, "processors", lambda: 2)
    for nbytes, expected in ((500, 0), (2000, 1)):
        source = Literal(bytes(nbytes))
        plan = one_file(tmp_path / f"{nbytes}", source)._replace(digests=((Digest("key", "sha256"), source),))
        done = execute(plan, EngineOptions(chunk_bytes=1000))
        assert done.digests["key"] == hashlib.sha256(bytes(nbytes)).digest()
        assert len(functions) == expected


def test_an_error_that_a_thread_cannot_keep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If a thread fails and has not even memory to stop the others, the write fails; it is never incomplete."""
    stop = engine.Crew._stop

    def without_memory(crew: engine.Crew, error: BaseException | None = None) -> None:
        if error is not None:
            raise MemoryError
        stop(crew)

    monkeypatch.setattr(engine.Crew, "_stop", without_memory)
    plan = one_file(tmp_path / "model", Literal(bytes(5000)), Failing(1000, raiser(FormatError("broken"))))
    with pytest.raises(MemoryError):
        execute(plan, EngineOptions(threads=2, chunk_bytes=1000))
    assert content(tmp_path) == {}


@pytest.mark.parametrize("interrupt", ["progress", "signal"])
def test_interruption(sample: Sample, tmp_path: Path, interrupt: str) -> None:
    """An interruption stops the workers and leaves the old files."""
    (tmp_path / "out" / "model").write_bytes(b"old")
    files = (
        sample.plan.files[0],
        one_file(tmp_path / "out" / "model", Failing(1000, lambda: time.sleep(0.2))).files[0],
    )

    def progress(done: int, total: int) -> None:
        if interrupt == "progress":
            raise KeyboardInterrupt
        signal.raise_signal(signal.SIGINT)

    before = signal.signal(
        signal.SIGINT, signal.default_int_handler
    )  # a shell that runs the tests in the background ignores it
    try:
        with pytest.raises(KeyboardInterrupt):
            execute(WritePlan(files), EngineOptions(overwrite=True, progress=progress))
    finally:
        signal.signal(signal.SIGINT, before)
    assert content(tmp_path / "out") == {"model": b"old"}


def test_progress(tmp_path: Path) -> None:
    """Progress grows, is reported in the calling thread at intervals, and ends when everything is done."""
    seen: list[tuple[int, int]] = []

    def progress(done: int, total: int) -> None:
        assert threading.current_thread() is threading.main_thread()
        seen.append((done, total))

    plan = one_file(
        tmp_path / "model",
        *(Failing(100, lambda: time.sleep(0.02)) for _ in range(20)),
        digests=((Digest("key", "sha256"), Literal(bytes(50))),),
    )
    start = time.monotonic()
    execute(plan, EngineOptions(threads=1, chunk_bytes=100, progress=progress))
    assert (2050, 2050) == seen[-1]
    assert sorted(seen) == seen
    assert 3 <= len(seen) <= (time.monotonic() - start) * 20 + 2


def test_a_thread_without_memory_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If there is no memory for the buffers of threads, the write fails; no file appears that they did not fill."""

    def refused(nbytes: int) -> bytearray:
        raise MemoryError

    monkeypatch.setattr(engine, "bytearray", refused, raising=False)
    plan = one_file(tmp_path / "model", *(Literal(bytes(1000)) for _ in range(3)))
    with pytest.raises(MemoryError):
        execute(plan, EngineOptions(threads=2, chunk_bytes=100))
    assert not content(tmp_path)


def test_companion_is_put_back_when_the_model_fails(
    sample: Sample, tmp_path: Path, options: EngineOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the last file cannot be moved to its path, the files before it are restored."""
    before = {"model": b"old model", "companion": b"old companion"}
    for existing in (before, {"model": b"old model"}, {}):
        for name in os.listdir(tmp_path / "out"):
            (tmp_path / "out" / name).unlink()
        for name, data in existing.items():
            (tmp_path / "out" / name).write_bytes(data)
        real = publication._Steps._place

        def place(self: Any, moved: Any, overwrite: bool, **more: Any) -> None:
            if moved.name == "model":
                assert sample.companion == (tmp_path / "out" / "companion").read_bytes()
                raise OSError(errno.EIO, "no more")
            real(self, moved, overwrite, **more)  # noqa: B023

        with monkeypatch.context() as patch:
            patch.setattr(publication._Steps, "_place", place)
            with pytest.raises(OSError, match="no more"):
                execute(sample.plan, options)
        assert existing == content(tmp_path / "out")


@pytest.mark.parametrize("when", ["before the model", "after the model"])
def test_interruption_of_publication(
    sample: Sample, tmp_path: Path, options: EngineOptions, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An interruption between two files leaves all old files, and one after the last file leaves all new ones."""
    before = {"model": b"old model", "companion": b"old companion"}
    for name, data in before.items():
        (tmp_path / "out" / name).write_bytes(data)
    stop_after = "companion" if when == "before the model" else "model"
    real = publication._Steps._place

    def place(self: Any, moved: Any, overwrite: bool, **more: Any) -> None:
        real(self, moved, overwrite, **more)
        if moved.name == stop_after:
            raise KeyboardInterrupt

    monkeypatch.setattr(publication._Steps, "_place", place)
    with pytest.raises(KeyboardInterrupt):
        execute(sample.plan, options)
    new = {"model": sample.model, "companion": sample.companion}
    assert (before if stop_after == "companion" else new) == content(tmp_path / "out")


def test_no_clobber(sample: Sample, tmp_path: Path) -> None:
    """Without `overwrite`, an existing file is refused at once, and a file that appears meanwhile at the end."""
    (tmp_path / "out" / "model").write_bytes(b"theirs")
    with pytest.raises(FileExistsError, match="model"):
        execute(sample.plan)
    assert content(tmp_path / "out") == {"model": b"theirs"}
    (tmp_path / "out" / "model").unlink()

    def appear(done: int, total: int) -> None:
        (tmp_path / "out" / "model").write_bytes(b"theirs")

    with pytest.raises(FileExistsError, match="model"):
        execute(sample.plan, EngineOptions(progress=appear))
    assert content(tmp_path / "out") == {"model": b"theirs"}


@pytest.mark.parametrize("change", ["touch", "truncate"])
def test_source_that_changes_meanwhile(sample: Sample, tmp_path: Path, options: EngineOptions, change: str) -> None:
    """If a source changes while it is copied, this is an error, and nothing is published."""
    weights = tmp_path / "in" / "weights"

    def act(*_: Any) -> None:
        if change == "touch":
            os.utime(weights, ns=(1, 1))
        else:
            os.truncate(weights, 10)

    file = sample.plan.files[0]
    writes = (PlacedWrite(0, Failing(0, None)), PlacedWrite(file.nbytes, Failing(1, act)), *file.writes)
    plan = WritePlan((FilePlan(file.path, file.nbytes + 1, writes),))
    with pytest.raises((TensorDataError, TruncatedError)) as caught:
        execute(plan, options)
    assert caught.value.path == weights
    assert content(tmp_path / "out") == {}


def test_source_that_was_cut_short(tmp_path: Path, options: EngineOptions) -> None:
    """A source that was truncated before the copy began is an error that names it."""
    (tmp_path / "weights").write_bytes(bytes(600_000))
    span = File.open(tmp_path / "weights").span()
    os.truncate(tmp_path / "weights", 5)
    with pytest.raises(TruncatedError) as caught:
        execute(one_file(tmp_path / "model", span), replace(options, chunk_bytes=200_000))
    assert caught.value.path == tmp_path / "weights"
    assert os.listdir(tmp_path) == ["weights"]


def test_full_disk(sample: Sample, tmp_path: Path, options: EngineOptions, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the disk is full during a write, the error names the file, and nothing is left."""

    def full(*arguments: Any) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(OSError, match="No space left on device") as caught:
        execute(sample.plan, options)
    assert str(tmp_path / "out") == os.path.dirname(caught.value.filename)
    assert content(tmp_path / "out") == {}


def test_limit_of_file_size(sample: Sample, tmp_path: Path) -> None:
    """A limit that the system sets is an error, not a signal."""
    resource = pytest.importorskip("resource", reason="only POSIX limits the size of files")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (3000, hard))
    try:
        with pytest.raises(OSError, match="the file would be too large"):
            execute(sample.plan)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert content(tmp_path / "out") == {}


def test_killed(sample: Sample, tmp_path: Path) -> None:
    """A conversion that is killed in the middle leaves nothing."""
    if not SYSTEM.unnamed:
        pytest.skip("this system has no unnamed files")
    code = (
        "import os, signal, sys\n"
        "from pathlib import Path\n"
        "from formats.tensordata.engine import execute, EngineOptions\n"
        "from formats.tensordata.plan import FilePlan, PlacedWrite, WritePlan\n"
        "from formats.tensordata.sources.source import Literal\n"
        "plan = WritePlan((FilePlan(Path(sys.argv[1]), 3, (PlacedWrite(0, Literal(b'abc')),)),))\n"
        "execute(plan, EngineOptions(progress=lambda done, total: os.kill(os.getpid(), signal.SIGKILL)))\n"
    )
    result = subprocess.run([sys.executable, "-c", code, str(tmp_path / "out" / "model")], check=False)
    assert -signal.SIGKILL == result.returncode
    assert content(tmp_path / "out") == {}


def test_budget_bounds_what_is_in_memory(tmp_path: Path) -> None:
    """Transforms of whole sources run in parallel within the budget, and a larger one runs alone."""
    lock, running, most = threading.Lock(), [0], [0]

    def apply(data: Any) -> bytes:
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        time.sleep(0.01)
        with lock:
            running[0] -= 1
        return bytes(data)

    whole = Transform("whole", 0, 0, apply)
    plan = one_file(tmp_path / "model", *(whole.of(Literal(bytes(300_000)), 300_000) for _ in range(12)))
    for budget, expected in ((10**9, 4), (2 * 900_000, 2), (1, 1)):
        most[0] = 0
        execute(plan, EngineOptions(threads=4, chunk_bytes=300_000, in_flight_bytes=budget, overwrite=True))
        assert most[0] <= expected
        assert most[0] == expected or expected == 4


def test_whole_is_transformed_once(tmp_path: Path) -> None:
    """A transform that needs its whole input runs once, even below another transform, however small the chunks are."""
    calls = []

    def apply(data: Any) -> bytes:
        calls.append(len(data))
        return bytes(data)

    whole = Transform("whole", 0, 0, apply).of(Literal(bytes(1000)), 1000)
    execute(one_file(tmp_path / "model", casting("int8", "int32").of(whole)), EngineOptions(chunk_bytes=16))
    assert calls == [1000]


def test_cuts_respect_the_granule(tmp_path: Path) -> None:
    """A transform gets only whole units of input, and each once."""
    sizes: list[int] = []

    def apply(data: Any) -> bytes:
        sizes.append(len(data))
        return bytes(data) * 2

    source = Transform("double", 12, 24, apply).of(Literal(bytes(120)))
    execute(one_file(tmp_path / "model", source), EngineOptions(chunk_bytes=50, threads=3))
    assert sizes == [24] * 5
    sizes.clear()
    execute(one_file(tmp_path / "model", source), EngineOptions(chunk_bytes=5, threads=3, overwrite=True))
    assert sizes == [12] * 10


@pytest.mark.parametrize("small_bytes", [0, 100])
def test_small_writes_are_joined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small_bytes: int) -> None:
    """Thousands of small tensors from one file need few system calls, not thousands."""
    (tmp_path / "weights").write_bytes(os.urandom(1_000_000))
    span = File.open(tmp_path / "weights").span()
    segments = [part for index in range(10_000) for part in (b"header", span.slice(index * 100, 40), Align(64))]
    writes, nbytes = lay_out(segments, small_bytes=small_bytes)
    late = tuple(LateWrite(nbytes + index * 2, 2, lambda digests: b"xy") for index in range(1000))
    plan = WritePlan((FilePlan(tmp_path / "model", nbytes + 2000, tuple(writes), late),))
    calls = []
    for name in ("pwrite", "preadv", "copy_file_range"):
        if hasattr(os, name):
            real = getattr(os, name)
            counted = lambda *arguments, name=name, real=real: (calls.append(name), real(*arguments))[1]  # noqa: E731
            monkeypatch.setattr(os, name, counted)
    execute(plan)
    assert len(calls) < 50  # a megabyte is written in 31 steps
    expected = b"".join((b"header" + span.read(index * 100, 40)).ljust(64, b"\0") for index in range(10_000))
    assert (tmp_path / "model").read_bytes() == expected[:nbytes] + b"xy" * 1000


def test_gap_between_pieces_is_zero(tmp_path: Path) -> None:
    """Gaps between small writes are zero, even if the buffer was used before."""
    writes = [PlacedWrite(offset, Failing(3, lambda: None)) for offset in range(0, 10_000, 10)]
    writes += [PlacedWrite(20_000, Literal(b"\xff" * 5000))]
    plan = WritePlan((FilePlan(tmp_path / "model", 25_000, tuple(writes)),))
    monkey = [b"\xaa" * 3]

    def fill(self: Failing, offset: int, buffer: memoryview) -> None:
        buffer[:] = monkey[0][: len(buffer)]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Failing, "readinto", fill)
        execute(plan, EngineOptions(threads=1, chunk_bytes=100))
    assert (tmp_path / "model").read_bytes() == b"\xaa\xaa\xaa\0\0\0\0\0\0\0" * 1000 + bytes(10_000) + b"\xff" * 5000


def test_bytes_pass_inside_the_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a digest, large ranges of files with equal positions in their blocks are copied without reading them."""
    if not SYSTEM.copy_range:
        pytest.skip("this system cannot copy in the kernel")
    (tmp_path / "weights").write_bytes(os.urandom(1 << 20))
    span = File.open(tmp_path / "weights").span()
    monkeypatch.setattr(LocalFile, "pread_into", raiser(AssertionError("read")))
    execute(one_file(tmp_path / "model", b"head", Align(BLOCK_BYTES), span, b"tail"))
    monkeypatch.undo()
    assert (tmp_path / "model").read_bytes() == b"head".ljust(BLOCK_BYTES, b"\0") + span.read() + b"tail"


def test_materialise(sample: Sample, options: EngineOptions) -> None:
    """Every source is read into its own writable memory."""
    sources = [write.source for file in sample.plan.files for write in file.writes] + [Literal(b"")]
    views = materialise(sources, options)
    assert [source.read() for source in sources] == [bytes(view) for view in views]
    assert not any(view.readonly for view in views)
    assert materialise([]) == []


def test_materialised_errors(options: EngineOptions) -> None:
    """A source that cannot be read is an error here, too."""
    with pytest.raises(FormatError, match="broken"):
        materialise([Literal(b"abc"), Failing(10, raiser(FormatError("broken")))], options)


def test_many_small_pieces_take_little_memory() -> None:
    """Tasks are created one at a time, not all before the first one runs."""
    writes = tuple(PlacedWrite(index * 10, Literal(b"0123456789")) for index in range(1000))
    plan = WritePlan((FilePlan(Path("model"), 10_000, writes),))
    made = tasks.tasks_of(plan, [engine.Memory(10_000)], {}, 100)
    assert 10 == len(next(made).runs[0])  # type: ignore[index]
    assert 99 == sum(1 for _ in made)
