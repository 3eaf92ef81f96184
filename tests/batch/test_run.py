"""Many conversions at once: results, failures, killed processes, other executors, and manifests."""

from __future__ import annotations

import json
import multiprocessing
import os
import pickle
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import formats
from formats import Job, errors
from formats.batch import job as jobs
from formats.batch import job_list, run
from formats.batch import manifest as manifest_module
from formats.batch.manifest import Manifest
from formats.errors import DecodeError, OptionError, UnknownFormatError
from formats.verbs.arguments import path_of
from formats.verbs.report import error_as_json
from tests import commands
from tests.batch.fleets import environment, lines, save, sha256
from tests.systems import PATIENCE_SECONDS, open_files

COUNT = 6
KILLS = int(os.environ.get("FORMATS_KILLS", "6"))


@pytest.fixture
def sources(tmp_path: Path) -> list[Path]:
    """A few models."""
    return [save(tmp_path / f"m{number}.onnx", number) for number in range(COUNT)]


def pairs(sources: list[Path], folder: str = "out") -> list[tuple[Path, Path]]:
    """Return each source with its destination in a folder, which is created."""
    out = sources[0].parent / folder
    out.mkdir(exist_ok=True)
    return [(source, out / f"{source.stem}.onnxz") for source in sources]


def content(folder: Path) -> dict[str, bytes]:
    """Return all files in a folder, including hidden ones."""
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


# Results


@pytest.mark.parametrize("processes", [1, 2, 0])
def test_results_come_in_the_order_of_jobs(sources: list[Path], processes: int) -> None:
    """Each job has its result at the same index, `on_result` gets each once, and the files equal those of `convert`."""
    given = pairs(sources)
    seen: list[formats.JobResult] = []
    results = formats.convert_many(given, processes=processes, on_result=seen.append)
    assert [(result.job.source, result.job.destination) for result in results] == given
    assert {result.state for result in results} == {"converted"}
    assert sorted(map(id, seen)) == sorted(map(id, results))
    for source, destination in given:
        formats.convert(source, source.with_suffix(".onnxz"))
        assert destination.read_bytes() == source.with_suffix(".onnxz").read_bytes()
    assert results[0].report is not None
    assert results[0].report.source_files == (sources[0],)


@pytest.mark.parametrize("processes", [1, 2])
def test_a_failure_does_not_stop_the_rest(sources: list[Path], processes: int) -> None:
    """A missing, damaged or unknown source, or an existing destination, is an error of its own job, with the path."""
    given = pairs(sources)
    sources[0].unlink()
    sources[1].write_bytes(b"no model")
    given[2][1].write_bytes(b"precious")
    given[3] = (sources[3], sources[3].with_suffix(".unknown"))
    results = formats.convert_many(given, processes=processes)
    kinds = [type(result.error) for result in results]
    assert kinds == [FileNotFoundError, UnknownFormatError, FileExistsError, UnknownFormatError, *[type(None)] * 2]
    assert [result.ok for result in results] == [False] * 4 + [True] * 2
    assert isinstance(results[1].error, UnknownFormatError)
    assert results[1].error.path == sources[1]
    assert given[2][1].read_bytes() == b"precious"
    assert sorted(path.name for path in given[0][1].parent.iterdir()) == ["m2.onnxz", "m4.onnxz", "m5.onnxz"]


def test_a_failed_job_keeps_no_file_open(tmp_path: Path) -> None:
    """The errors of failed jobs are kept to the end, but not their files: a system allows few open ones."""
    jobs = [(tmp_path / f"{number}.onnx", tmp_path / f"{number}.rten") for number in range(3)]
    for source, _ in jobs:
        source.write_bytes(b"bad")
    before = open_files()
    results = formats.convert_many(jobs, processes=1)
    assert ["failed"] * 3 == [result.state for result in results]
    assert before == open_files()


@pytest.mark.parametrize("processes", [1, 2])
def test_fail_fast_begins_nothing_more(tmp_path: Path, processes: int) -> None:
    """After a failure, no job begins; jobs that did not begin are reported as skipped."""
    given = [(tmp_path / f"missing{number}.onnx", tmp_path / f"{number}.onnxz") for number in range(50)]
    states = [result.state for result in formats.convert_many(given, processes=processes, fail_fast=True)]
    assert "failed" in states
    assert states.count("skipped") >= (49 if processes == 1 else 1)
    assert len(states) == 50
    manifest = tmp_path / "runs.jsonl"
    formats.convert_many(given, processes=processes, fail_fast=True, manifest=manifest)
    assert {line["error"]["kind"] for line in lines(manifest)} == {"FileNotFoundError"}


def test_jobs_can_have_options_of_their_own(sources: list[Path]) -> None:
    """The options of a job have priority over the common ones, and each target gets only its own."""
    out = sources[0].parent
    given = [
        Job(sources[0], out / "a.onnx", {"external_data": True}),
        Job(sources[1], out / "b.onnxz", {"alignment": 4096}),
        Job(sources[2], out / "c.data", {"to_format": "onnxz"}),
    ]
    assert all(result.ok for result in formats.convert_many(given, alignment=128, processes=2))
    assert (out / "a.onnx.data").exists()
    assert formats.inspect(out / "b.onnxz").alignments == {4096: 1}
    assert formats.inspect(out / "c.data").alignments == {128: 1}


def test_mistakes_are_told_before_anything_is_done(sources: list[Path]) -> None:
    """Impossible options, two jobs with one destination, and options without effect are errors at once."""
    given = pairs(sources)
    for keywords in (
        {"alignment": 3},
        {"external_data": True},
        {"no_such": 1},
        {"from_format": "gif"},
        {"executor": ThreadPoolExecutor(1), "processes": 2},
    ):
        with pytest.raises(OptionError):
            formats.convert_many(given, **keywords)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match=r"m0.onnx and .*m1.onnx would both be written to"):
        formats.convert_many([given[0], (given[1][0], given[0][1].parent / "." / "m0.onnxz")])
    with pytest.raises(ValueError, match="unpack"):
        formats.convert_many([("only a source",)])  # type: ignore[list-item]
    assert not content(given[0][1].parent)
    assert formats.convert_many([]) == []


def test_an_error_of_the_caller_ends_the_run(sources: list[Path]) -> None:
    """An exception of `on_result` is raised, and no process is left."""

    def fail(result: formats.JobResult) -> None:
        raise KeyError(result.job.source.name)

    for processes in (1, 2):
        with pytest.raises(KeyError):
            formats.convert_many(pairs(sources, f"out{processes}"), processes=processes, on_result=fail)
    assert not multiprocessing.active_children()


def test_everything_can_be_pickled(sources: list[Path]) -> None:
    """Jobs, results, reports and every error of the package can be passed between processes unchanged."""
    result = formats.convert_many([pairs(sources)[0]])[0]
    for value in (result, result.job, result.report):
        assert pickle.loads(pickle.dumps(value)) == value
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, Exception)]
    assert len(kinds) > 10
    for kind in kinds:
        if kind.__module__ == "formats.errors":
            error = kind("words", "name") if kind is formats.MissingPackageError else kind("words")
            error.where = "w"
            error.path = Path("p")
            again = pickle.loads(pickle.dumps(error))
            assert (type(again), str(again), vars(again)) == (kind, str(error), vars(error))
            assert again.path == error.path


class Stubborn(Exception):
    """An error that cannot be pickled."""

    def __init__(self) -> None:
        super().__init__("words")
        self.lock = threading.Lock()


def test_errors_that_cannot_be_pickled_keep_their_words(sources: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """An error of other code that cannot be passed to another process is reported with its text."""

    def convert(*args: Any, **keywords: Any) -> None:
        raise Stubborn

    monkeypatch.setattr(jobs.convert, "convert", convert)
    (result,) = formats.convert_many(pairs(sources)[:1])
    assert str(result.error) == "Stubborn: words"
    pickle.dumps(result)


# Executors


@pytest.mark.parametrize("executor", [ThreadPoolExecutor, ProcessPoolExecutor])
def test_any_executor_does(sources: list[Path], executor: type[Executor]) -> None:
    """An executor of the caller does the jobs, and can still be used afterwards."""
    with executor(2) as pool:  # type: ignore[call-arg]
        results = formats.convert_many(pairs(sources), executor=pool)
        assert all(result.ok for result in results)
        assert pool.submit(abs, -1).result() == 1


class Strange(Executor):
    """An executor that does its jobs in reverse order, in the caller's thread, and fails once."""

    def __init__(self) -> None:
        self.count = 0
        self.waiting: list[tuple[Future[Any], Callable[[], Any]]] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Keep the job until there are three."""
        future: Future[Any] = Future()
        self.waiting.append((future, lambda: fn(*pickle.loads(pickle.dumps(args)), **kwargs)))
        self.count += 1
        if self.count == COUNT:
            while self.waiting:
                done, call = self.waiting.pop()
                if len(self.waiting) == 3:
                    done.set_exception(ConnectionError("the worker is gone"))
                else:
                    done.set_result(call())
        return future


def test_executors_may_do_what_they_like(sources: list[Path]) -> None:
    """Results have the order of the jobs, whatever the executor does, and its exception is the error of the job."""
    results = formats.convert_many(pairs(sources), executor=Strange())
    assert [result.state for result in results] == ["converted"] * 3 + ["failed"] + ["converted"] * 2
    assert str(results[3].error) == "its worker failed with ConnectionError: the worker is gone"


def test_an_executor_that_was_shut_down_is_an_error_of_each_job(sources: list[Path]) -> None:
    """If the executor accepts no jobs, each job has an error, and nothing hangs."""
    pool = ThreadPoolExecutor(1)
    pool.shutdown()
    results = formats.convert_many(pairs(sources), executor=pool)
    assert {str(result.error).partition(": ")[2] for result in results} == {"the executor accepts no more jobs"}


class Counted(ThreadPoolExecutor):
    """An executor that records how many jobs it had at most at one time."""

    now = most = 0

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Count the job."""
        self.now += 1
        self.most = max(self.most, self.now)
        return super().submit(fn, *args, **kwargs)


def test_the_window_bounds_what_is_submitted(sources: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """However many jobs there are, an executor has at most as many at a time as the window allows."""
    monkeypatch.setattr(run._through, "__defaults__", (2,))

    def count(result: formats.JobResult) -> None:
        pool.now -= 1

    with Counted(1) as pool:
        assert all(result.ok for result in formats.convert_many(pairs(sources), executor=pool, on_result=count))
    assert pool.most == 2


class Cluster(Executor):
    """An executor that says nothing of its workers, does a piece at once, and records what it did of which piece."""

    def __init__(self, killer: str = "") -> None:
        self.killer = killer
        self.pieces: list[tuple[list[str], int]] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Do the first jobs of a piece; if the killer is among them, nobody hears of them."""
        future: Future[Any] = Future()
        names = [task.job.source.name for task in args[0]]
        results = fn(*pickle.loads(pickle.dumps(args)), **kwargs)
        if self.killer in names[: len(results)]:
            future.set_exception(ConnectionError("the worker is gone"))
        else:
            future.set_result(results)
        self.pieces.append((names, len(results)))
        return future


def fleet_of(folder: Path, count: int) -> list[tuple[Path, Path]]:
    """Return so many models with their destinations."""
    models = [save(folder / f"m{number:03}.onnx", number) for number in range(count)]
    return pairs(models)


@pytest.fixture
def one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let an executor have one piece at a time, so that each may depend on the one before, whose jobs are short."""
    monkeypatch.setattr(run, "FIRST_PIECES", 1)
    for module in (run, jobs):
        monkeypatch.setattr(module, "PIECE_SECONDS", PATIENCE_SECONDS)


@pytest.mark.usefixtures("one_at_a_time")
def test_a_cluster_gets_short_jobs_in_pieces(tmp_path: Path) -> None:
    """A cluster begins with single jobs, gets several at a time if they are short, and does each of them once."""
    cluster = Cluster()
    results = formats.convert_many(fleet_of(tmp_path, 40), executor=cluster)
    assert [result.state for result in results] == ["converted"] * 40
    names = [result.job.source.name for result in results]
    assert cluster.pieces == [(names[:1], 1), (names[1:], 39)]


@pytest.mark.usefixtures("one_at_a_time")
def test_a_cluster_gets_all_that_it_may_have_after_some_seconds(
    sources: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """If no job ends in the first seconds, a cluster gets as many as in the rest of the run."""
    monkeypatch.setattr(run, "FIRST_SECONDS", 0.2)
    results = formats.convert_many(pairs(sources), executor=Strange())  # it ends nothing until it has all
    assert [result.state for result in results] == ["converted"] * 3 + ["failed"] + ["converted"] * 2


@pytest.mark.usefixtures("one_at_a_time")
@pytest.mark.parametrize("why", ["long", "failed"])
def test_a_piece_ends_early(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, why: str) -> None:
    """A piece ends after a job that takes long, and after one that fails; the rest of it is in other pieces."""
    given = fleet_of(tmp_path, 12)
    monkeypatch.setattr(run, "_jobs_of_piece", lambda results: 4)
    if why == "long":
        monkeypatch.setattr(jobs, "PIECE_SECONDS", 0.0)
    else:
        given[2][0].write_bytes(b"no model")
    cluster = Cluster()
    results = formats.convert_many(given, executor=cluster, manifest=tmp_path / "runs.jsonl")
    assert [result.ok for result in results] == [why == "long" or number != 2 for number in range(12)]
    assert [done for _, done in cluster.pieces] == ([1] * 12 if why == "long" else [1, 2, 4, 4, 1])
    assert [line["source"] for line in lines(tmp_path / "runs.jsonl")] == [str(source) for source, _ in given]


def test_failing_jobs_are_not_handed_out_again_and_again(tmp_path: Path) -> None:
    """If many jobs fail, pieces are small: what comes behind a failure is handed out again."""
    given = fleet_of(tmp_path, 60)
    for source, _ in given:
        source.write_bytes(b"no model")
    cluster = Cluster()
    results = formats.convert_many(given, executor=cluster)
    assert [result.state for result in results] == ["failed"] * 60
    assert sum(len(names) for names, _ in cluster.pieces) <= 2 * len(given)


@pytest.mark.usefixtures("one_at_a_time")
def test_fail_fast_ends_a_piece(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With `fail_fast`, no job of a piece begins after one that failed, also if another piece ends later."""
    given = fleet_of(tmp_path, 12)
    for number in (2, 6):  # the first of two pieces that the cluster has at the same time
        given[number][0].write_bytes(b"no model")
    monkeypatch.setattr(run, "FIRST_PIECES", 2)
    monkeypatch.setattr(run, "_jobs_of_piece", lambda results: 4)
    results = formats.convert_many(given, executor=Cluster(), fail_fast=True)
    failed, skipped = ["failed"], ["skipped"]
    assert [result.state for result in results] == ["converted"] * 2 + (failed + skipped * 3) + failed + skipped * 5
    assert not given[7][1].exists()


@pytest.mark.usefixtures("one_at_a_time")
def test_the_jobs_of_a_lost_piece_are_tried_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If a piece is lost, only the job that loses its worker again has an error; results that exist are kept."""
    given = fleet_of(tmp_path, 8)
    monkeypatch.setattr(run, "_jobs_of_piece", lambda results: 4)
    cluster = Cluster("m002.onnx")
    results = formats.convert_many(given, executor=cluster, manifest=tmp_path / "runs.jsonl")
    assert [result.state for result in results] == ["converted"] * 2 + ["failed"] + ["converted"] * 5
    assert "the worker is gone" in str(results[2].error)
    assert [len(names) for names, _ in cluster.pieces] == [1, 4, 1, 1, 1, 1, 3]
    assert [line["error"] is None for line in lines(tmp_path / "runs.jsonl")] == [result.ok for result in results]


# Processes


pytestmark_fork = pytest.mark.skipif(
    sys.platform != "linux" or multiprocessing.get_start_method() != "fork",
    reason="only Linux forks processes by default, before Python 3.14",
)


@pytestmark_fork
@pytest.mark.parametrize(("how", "state"), [("once", "converted"), ("always", "failed")])
def test_a_killed_process_costs_its_own_job_only(sources: list[Path], how: str, state: str) -> None:
    """A job whose process is killed is tried again; if it kills this one, too, it has an error; other jobs are done."""
    code = (  # in its own process: if the caller has other threads, processes are not forked
        "import json, os, pathlib, signal, sys, formats\n"
        "from formats.batch import job as jobs\n"
        "marker, how, given = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])\n"
        "real = jobs.convert.convert\n"
        "def convert(source, *args, **keywords):\n"
        "    if pathlib.Path(source).name == 'm2.onnx' and (how == 'always' or not os.path.exists(marker)):\n"
        "        open(marker, 'w').close()\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "    return real(source, *args, **keywords)\n"
        "jobs.convert.convert = convert\n"
        "results = formats.convert_many([tuple(pair) for pair in given], processes=2)\n"
        "print(json.dumps([[result.state, str(result.error)] for result in results]))\n"
    )
    given = json.dumps([[str(source), str(destination)] for source, destination in pairs(sources)])
    command = [sys.executable, "-c", code, str(sources[0].with_name("marker")), how, given]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, timeout=PATIENCE_SECONDS, env=environment()
    )
    results = json.loads(done.stdout)
    assert [found for found, _ in results] == ["converted"] * 2 + [state] + ["converted"] * 3
    if state == "failed":
        assert "was killed" in results[2][1]


@pytestmark_fork
def test_a_worker_that_loses_its_signal_ends_nevertheless(sources: list[Path]) -> None:
    """If a job goes on although another process was killed, its worker ends soon, and the job is done again."""
    code = (
        "import json, os, pathlib, signal, sys, time, formats\n"
        "from formats.batch import job as jobs, workers\n"
        "workers.GRACE_SECONDS = 1\n"
        "folder, given = pathlib.Path(sys.argv[1]), json.loads(sys.argv[2])\n"
        "real = jobs.convert.convert\n"
        "def convert(source, *args, **keywords):\n"
        "    name = pathlib.Path(source).name\n"
        "    if name == 'm0.onnx' and not (folder / 'lost').exists():\n"
        "        (folder / 'waits').touch()\n"
        "        try:\n"
        "            time.sleep(600)\n"
        "        except SystemExit:\n"  # as Python does it in a destructor
        "            (folder / 'lost').touch()\n"
        "            time.sleep(600)\n"
        "    elif name == 'm1.onnx' and not (folder / 'killed').exists():\n"
        "        while not (folder / 'waits').exists():\n"
        "            time.sleep(0.01)\n"
        "        (folder / 'killed').touch()\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "    return real(source, *args, **keywords)\n"
        "jobs.convert.convert = convert\n"
        "results = formats.convert_many([tuple(pair) for pair in given], processes=2)\n"
        "print(json.dumps([result.state for result in results]))\n"
    )
    given = json.dumps([[str(source), str(destination)] for source, destination in pairs(sources)])
    command = [sys.executable, "-c", code, str(sources[0].parent), given]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, timeout=PATIENCE_SECONDS, env=environment()
    )
    assert (sources[0].parent / "lost").exists()
    assert json.loads(done.stdout) == ["converted"] * len(sources)


@pytest.mark.parametrize(
    ("begun_ago", "content", "state"),
    [(60, None, "converted"), (None, None, "failed"), (-60, None, "failed"), (60, b"another file", "failed")],
    ids=["its own result", "a file from before", "an older file", "another file"],
)
def test_a_job_that_is_tried_again_replaces_only_its_own_result(
    sources: list[Path], begun_ago: int | None, content: bytes | None, state: str
) -> None:
    """A job whose worker was lost after it wrote the result is done; any other file at its destination stays."""
    source, destination = pairs(sources)[0]
    formats.convert(source, destination)
    if content is not None:
        destination.write_bytes(content)
    before = destination.read_bytes()
    begun = None if begun_ago is None else time.time() - begun_ago
    result = jobs.run_task(jobs.JobTask(0, Job(source, destination), {}, begun=begun))
    assert state == result.state
    assert 0 <= result.seconds < 60
    assert before == destination.read_bytes()
    assert [destination] == list(destination.parent.iterdir())


def test_an_error_in_json_says_where(tmp_path: Path) -> None:
    """The JSON of an error has its path as text, or null if it has none."""
    errors_as_json = [
        error_as_json(error)
        for error in (DecodeError("damaged"), DecodeError("damaged", path=tmp_path), FileNotFoundError(2, "none", "m"))
    ]
    assert [None, str(tmp_path), "m"] == [found["path"] for found in errors_as_json]
    assert ["damaged", "damaged", "none"] == [found["message"] for found in errors_as_json]


def test_threads_of_the_caller_do_no_harm(sources: list[Path]) -> None:
    """If the caller has threads, whose locks would stay locked after a fork, processes are started differently."""
    code = (
        "import sys, threading, formats\n"
        "if __name__ == '__main__':\n"
        "    threading.Thread(target=threading.Event().wait, daemon=True).start()\n"
        "    given = [tuple(pair.split('|')) for pair in sys.argv[1:]]\n"
        "    print([result.state for result in formats.convert_many(given, processes=2)])\n"
    )
    script = sources[0].with_name("script.py")
    script.write_text(code)
    arguments = [f"{source}|{destination}" for source, destination in pairs(sources)]
    done = subprocess.run(
        [sys.executable, script, *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_SECONDS,
        env=environment(),
    )
    assert (done.stdout, done.stderr) == (f"{['converted'] * COUNT}\n", "")


# Manifests


def test_a_manifest_has_a_line_for_each_job(sources: list[Path]) -> None:
    """Lines are in the order of jobs and have the outcome of each: files, sizes, digests, options, losses, errors."""
    given = pairs(sources)
    manifest = sources[0].with_name("runs.jsonl")
    sources[1].write_bytes(b"no model")
    formats.save(formats.load(sources[2]), sources[2], external_data=True, overwrite=True)
    formats.convert_many(given, manifest=manifest, processes=2, alignment=128, overwrite=True, threads=1)
    found = lines(manifest)
    assert [line["destination"] for line in found] == [str(destination) for _, destination in given]
    for (source, destination), line in zip(given, found, strict=True):
        files = [{"path": str(source), "nbytes": source.stat().st_size, "sha256": sha256(source)}]
        assert line["source_files"][:1] == files
        assert line["source_nbytes"] == sum(file["nbytes"] for file in line["source_files"])
        assert (line["version"], line["options"]) == (formats.__version__, {"alignment": 128})
        assert line["seconds"] > 0
        if line["error"] is None:
            assert line["destination_nbytes"] == destination.stat().st_size
            assert [file["sha256"] for file in line["destination_files"]] == [sha256(destination)]
    assert [line["error"] and line["error"]["kind"] for line in found] == [None, "UnknownFormatError", *[None] * 4]
    assert [Path(file["path"]).name for file in found[2]["source_files"]] == ["m2.onnx", "m2.onnx.data"]
    assert not [path for path in manifest.parent.iterdir() if path.name.startswith(".")]


def test_a_second_run_does_what_is_missing_or_changed(sources: list[Path]) -> None:
    """Unchanged jobs are skipped; jobs with changed sources, data files, destinations or options are done again."""
    formats.save(formats.load(sources[4]), sources[4], external_data=True, overwrite=True)
    given = pairs(sources)
    manifest = sources[0].with_name("runs.jsonl")

    def states(**keywords: Any) -> str:
        return "".join(result.state[0] for result in formats.convert_many(given, manifest=manifest, **keywords))

    assert states() == "cccccc"
    assert states() == "uuuuuu"
    save(sources[0], 100)
    given[1][1].unlink()
    os.utime(sources[2])  # the same content
    data = bytearray(sources[4].with_name("m4.onnx.data").read_bytes())
    data[0] ^= 1
    sources[4].with_name("m4.onnx.data").write_bytes(data)
    assert states() == "ccuucu"
    assert states(alignment=4096) == "cccccc"
    assert formats.inspect(given[3][1]).alignments == {4096: 1}
    assert states(alignment=4096, threads=2) == "uuuuuu"
    for source, destination in given:
        assert formats.diff(source, destination).equal
    assert len(lines(manifest)) == COUNT


def test_only_own_work_is_replaced(sources: list[Path]) -> None:
    """A destination that another program wrote or changed stays, except with `overwrite`."""
    given = pairs(sources)[:2]
    manifest = sources[0].with_name("runs.jsonl")
    given[0][1].write_bytes(b"was there before")
    first = formats.convert_many(given, manifest=manifest)
    given[1][1].write_bytes(b"changed since")
    save(sources[1], 100)
    second = formats.convert_many(given, manifest=manifest)
    assert [result.state for result in (*first, *second)] == ["failed", "converted", "failed", "failed"]
    assert isinstance(second[1].error, FileExistsError)
    assert [path.read_bytes() for _, path in given] == [b"was there before", b"changed since"]
    assert all(result.ok for result in formats.convert_many(given, manifest=manifest, overwrite=True))


def test_small_files_that_are_unchanged_need_no_process(sources: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """A second run compares small files itself; processes get what changed, and what takes long to compare."""
    given = pairs(sources)
    manifest = sources[0].with_name("runs.jsonl")
    formats.convert_many(given, manifest=manifest, processes=2)
    asked: list[list[Path]] = []

    def counted(pool: Executor, function: Any, queue: Any, *arguments: Any) -> Any:
        asked.append([task.job.source for task in queue._tasks])
        return outcomes(pool, function, queue, *arguments)

    outcomes = run._outcomes
    monkeypatch.setattr(run, "_outcomes", counted)
    save(sources[1], 100)
    for limit in (run.SMALL_NBYTES, run.SMALL_NBYTES, 0):
        monkeypatch.setattr(run, "SMALL_NBYTES", limit)
        results = formats.convert_many(given, manifest=manifest, processes=2)
        assert [result.job.source for result in results] == sources
        assert all(result.ok for result in results)
    assert asked == [[sources[1]], sources]


def test_lines_of_other_runs_stay(sources: list[Path]) -> None:
    """A run with other jobs adds lines to the manifest; a job that failed is tried again."""
    given = pairs(sources)
    manifest = sources[0].with_name("runs.jsonl")
    good = sources[1].read_bytes()
    sources[1].write_bytes(b"no model")
    formats.convert_many(given[:3], manifest=manifest)
    sources[1].write_bytes(good)
    formats.convert_many(given[4:], manifest=manifest)
    results = formats.convert_many(given[1:3], manifest=manifest)
    assert [result.state for result in results] == ["converted", "unchanged"]
    assert [Path(line["destination"]).stem for line in lines(manifest)] == ["m0", "m4", "m5", "m1", "m2"]


@pytest.mark.parametrize(
    "text",
    [
        "no json\n",
        "[]\n",
        '{"source": 1, "destination": "x"}\n',
        '{"source": "a", "destination": "b"}\n',
        '{"source":"a","destination":"b","source_files":[{}],"destination_files":[],"version":"","options":{},"error":null}\n',
        *(
            json.dumps({"source": "a", "destination": "b", "begun": 1, "source_files": files}) + "\n"
            for files in ("abc", 5, None, [1], [{}], [{"path": [1]}])
        ),
        "\x00",
        "precious",
        "[" * 100_000 + "\n",
    ],
)
def test_another_file_is_no_manifest(sources: list[Path], text: str) -> None:
    """A file that is not a manifest is refused and stays, and nothing is converted."""
    manifest = sources[0].with_name("runs.jsonl")
    manifest.write_text(text)
    with pytest.raises(DecodeError, match="manifest"):
        formats.convert_many(pairs(sources), manifest=manifest)
    assert manifest.read_text() == text
    assert not content(sources[0].with_name("out"))


def test_a_line_that_was_cut_short_is_forgotten(sources: list[Path]) -> None:
    """If any part of the last line is missing, its job is done again, and replaces its earlier result."""
    given = pairs(sources)[:2]
    manifest = sources[0].with_name("runs.jsonl")
    formats.convert_many(given, manifest=manifest)
    data = manifest.read_bytes()
    end = data.index(b"\n") + 1
    begun = json.dumps({"source": str(given[1][0]), "destination": str(given[1][1]), "begun": time.time() - 1}).encode()
    for cut in (1, 10, 100):
        manifest.write_bytes(data[:end] + begun + b"\n" + data[end:-cut])
        states = [result.state for result in formats.convert_many(given, manifest=manifest)]
        assert states == ["unchanged", "converted"]
        assert len(lines(manifest)) == 2


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
@pytest.mark.parametrize("kind", ["pipe", "device", "folder"])
def test_nothing_waits_for_a_strange_manifest(sources: list[Path], kind: str) -> None:
    """A pipe, a device or a folder in the place of the manifest is refused at once, and nothing is converted."""
    manifest = sources[0].with_name("log")
    {"pipe": os.mkfifo, "device": lambda path: path.symlink_to("/dev/zero"), "folder": Path.mkdir}[kind](manifest)
    with pytest.raises((errors.FormatError, IsADirectoryError)):
        formats.convert_many([(sources[0], sources[0].with_suffix(".onnxz"))], manifest=manifest)
    assert not sources[0].with_suffix(".onnxz").exists()


def test_two_runs_do_not_share_a_manifest(sources: list[Path]) -> None:
    """A second run with the same manifest at the same time is refused, but works afterwards."""
    manifest = sources[0].with_name("runs.jsonl")
    with Manifest(manifest), pytest.raises(BlockingIOError):
        formats.convert_many(pairs(sources), manifest=manifest)
    assert all(result.ok for result in formats.convert_many(pairs(sources), manifest=manifest))


def test_a_source_that_changes_meanwhile_is_told(sources: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """The digest in a manifest is that of the converted source; otherwise the job fails."""
    real = formats.convert

    def convert(*args: Any, **keywords: Any) -> Any:
        report = real(*args, **keywords)
        save(args[0], 100)
        os.utime(args[0], (1, 1))
        return report

    monkeypatch.setattr(jobs.convert, "convert", convert)
    (result,) = formats.convert_many(pairs(sources)[:1], manifest=sources[0].with_name("runs.jsonl"))
    assert "changed while it was converted" in str(result.error)


def test_a_key_is_never_in_a_manifest(sources: list[Path]) -> None:
    """A key is never written to a manifest."""
    locked = sources[0].with_name("m.onnxc")
    formats.convert(sources[0], locked, key="secret words")
    manifest = sources[0].with_name("runs.jsonl")
    (result,) = formats.convert_many([(locked, locked.with_suffix(".onnxz"))], manifest=manifest, key="secret words")
    assert result.ok
    assert "secret" not in manifest.read_text()


# Runs that are killed


PROGRAM = """import sys, formats
from pathlib import Path
if __name__ == "__main__":
    folder = Path(sys.argv[1])
    given = [(source, folder / "out" / (source.stem + ".onnxz")) for source in sorted(folder.glob("*.onnx"))]
    results = formats.convert_many(given, processes=2, manifest=folder / "runs.jsonl")
    print(*[result.state for result in results if not result.ok], *[result.error for result in results if result.error])
"""


def waited(condition: Callable[[], bool], seconds: float = PATIENCE_SECONDS) -> bool:
    """Wait until a condition is true; return whether it became true in time."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def descendants(pid: int) -> list[int]:
    """Return the processes that a process has started."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == pid:
            found.append(int(path.parent.name))
    return found


def is_alive(pid: int) -> bool:
    """Return whether a process is still running."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Path]:
    """A folder with models, some of which have data files."""
    for number in range(24):
        path = save(tmp_path / f"m{number:02}.onnx", number, 300_000)
        if number % 3 == 0:
            formats.save(formats.load(path), path, external_data=True, overwrite=True)
    (tmp_path / "out").mkdir()
    yield tmp_path


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="only Linux tells of processes in /proc")
def test_a_run_that_is_killed_is_completed_by_another(fleet: Path) -> None:
    """A batch that is killed at any moment and run again gives the same files; its processes end, nothing is left."""
    command = [sys.executable, "-c", PROGRAM, str(fleet)]
    wanted = {}
    for source in sorted(fleet.glob("*.onnx")):
        formats.convert(source, fleet / "one.onnxz", overwrite=True)
        wanted[f"{source.stem}.onnxz"] = (fleet / "one.onnxz").read_bytes()
    rng = np.random.default_rng(18)
    was_killed = 0
    for _ in range(KILLS):
        with subprocess.Popen(command, env=environment(), stdout=subprocess.DEVNULL) as running:
            begun = waited(lambda: (fleet / "runs.jsonl").exists() or running.poll() is not None)
            assert begun
            time.sleep(float(rng.uniform(0, 0.4)))
            workers = descendants(running.pid)
            was_killed += running.poll() is None
            running.kill()
        assert waited(lambda workers=workers: not any(map(is_alive, workers)))  # type: ignore[misc]
        complete = [path for path in (fleet / "out").iterdir() if path.name[0] != "."]
        assert all(wanted[path.name] == path.read_bytes() for path in complete)
    assert was_killed
    done = subprocess.run(
        command, env=environment(), capture_output=True, text=True, check=False, timeout=PATIENCE_SECONDS
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "\n", "")
    assert content(fleet / "out") == wanted
    found = lines(fleet / "runs.jsonl")
    assert [Path(line["destination"]).name for line in found] == sorted(wanted)
    for line in found:
        assert [file["sha256"] for file in line["destination_files"]] == [sha256(Path(line["destination"]))]
        assert [file["sha256"] for file in line["source_files"]] == [
            sha256(Path(f["path"])) for f in line["source_files"]
        ]
    assert {path.name for path in fleet.iterdir() if path.name.startswith(".")} <= {".runs.jsonl.run.lock"}


def test_a_killed_run_owns_only_what_it_would_write(sources: list[Path]) -> None:
    """A file that somebody else put in the place of a job of a killed run stays; the job's own file counts as done."""
    given = pairs(sources)[:3]
    manifest = sources[0].with_name("runs.jsonl")
    formats.convert(*given[0])
    given[1][1].write_bytes(b"made by hand")
    begun = [{"source": str(src), "destination": str(dst), "begun": time.time() - 60} for src, dst in given]
    manifest.write_text("".join(f"{json.dumps(line)}\n" for line in begun))
    results = formats.convert_many(given, manifest=manifest)
    assert [result.state for result in results] == ["converted", "failed", "converted"]
    assert isinstance(results[1].error, FileExistsError)
    assert b"made by hand" == given[1][1].read_bytes()


def test_other_options_replace_only_own_files(sources: list[Path]) -> None:
    """If a job with other options would write another data file, a file of somebody else in its place stays."""
    source, destination = sources[0], pairs(sources)[0][1].with_suffix(".onnx")
    manifest = source.with_name("runs.jsonl")
    assert formats.convert_many([(source, destination)], manifest=manifest)[0].state == "converted"
    report = formats.convert(source, destination, external_data=True, overwrite=True, dry_run=True)
    (data,) = (file.path for file in report.files if file.path != destination)
    data.write_bytes(b"theirs")
    (result,) = formats.convert_many([(source, destination)], manifest=manifest, external_data=True)
    assert isinstance(result.error, FileExistsError)
    assert b"theirs" == data.read_bytes()
    data.unlink()
    assert formats.convert_many([(source, destination)], manifest=manifest, external_data=True)[0].ok
    assert formats.convert_many([(source, destination)], manifest=manifest)[0].state == "converted"


@pytest.mark.parametrize(
    "change",
    [
        lambda line: line.update(destination_files=[]),
        lambda line: line.update(source_files=[]),
        lambda line: line["source_files"][0].update(path="http://127.0.0.1:9/m.onnx"),
        lambda line: line["destination_files"][0].update(path="http://127.0.0.1:9/m.onnx"),
        lambda line: line["source_files"][0].update(path="-"),
        lambda line: line["source_files"][0].update(path=""),
        lambda line: line["destination_files"].append({"path": "s3://x/y", "nbytes": 1, "sha256": ""}),
    ],
)
def test_a_manifest_never_says_where_to_go(
    sources: list[Path], change: Callable[[Any], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A line that names no file of the job, or an address, is not done, and nothing is requested."""
    given = pairs(sources)[:1]
    manifest = sources[0].with_name("runs.jsonl")
    formats.convert_many(given, manifest=manifest)
    (line,) = lines(manifest)
    change(line)
    manifest.write_text(f"{json.dumps(line)}\n")

    def refuse(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(socket.socket, "connect", refuse)
    (result,) = formats.convert_many(given, manifest=manifest, overwrite=True)
    assert result.state == "converted"


@pytest.mark.parametrize(
    ("address", "text", "known"),
    [
        ("http://a/f/m.onnx?t=1", "http://a/f/m.onnx?t=***", True),
        ("http://a/f/m.onnx?t=1", "http://a/f/m.onnx.data?t=***", True),
        ("http://a/f/m.onnx?t=1", "http://a/f/x/m.data?t=***", True),
        ("http://a/f/m.onnx", "http://a/f/a%20b", True),
        ("http://a/f/m.onnx", "http://b/f/m.onnx", False),
        ("http://a/f/m.onnx", "https://a/f/m.onnx", False),
        ("http://a/f/m.onnx", "http://a/f/../m.onnx", False),
        ("http://a/f/m.onnx", "http://a/f/%2e%2e/m.onnx", False),
        ("http://a/f/m.onnx", "http://a@b/f/m.onnx", False),
        ("http://a/f/m.onnx", "http://a/m.onnx", False),
        ("http://a/f/m.onnx", "/etc/passwd", False),
        ("s3://a/f/m.onnx", "s3://a/f/w/x.data", True),
        ("s3://a/f/m.onnx", "s3://b/f/w/x.data", False),
    ],
)
def test_paths_of_a_manifest_are_below_the_given_address(address: str, text: str, known: bool) -> None:
    """Only an address in the folder of the model's own address is used, with the secrets of that one."""
    found = manifest_module._known_path(text, path_of(address))
    assert known == (found is not None)


def test_another_key_makes_a_job_new(sources: list[Path]) -> None:
    """A second run with another key converts again; one with the same key does not. No key is easy to guess."""
    given = [(source, path.with_suffix(".onnxc")) for source, path in pairs(sources)[:2]]
    manifest = sources[0].with_name("runs.jsonl")
    states = []
    for key in ("the first key", b"the first key", "the second key"):
        states += [result.state for result in formats.convert_many(given, manifest=manifest, key=key)]
    assert states == ["converted", "converted", "unchanged", "unchanged", "converted", "converted"]
    assert "first key" not in manifest.read_text()
    for _, destination in given:
        formats.load(destination, key="the second key")


def test_no_password_of_a_store_is_in_a_manifest(sources: list[Path]) -> None:
    """The options of stores are not written to a manifest."""
    manifest = sources[0].with_name("runs.jsonl")
    formats.convert_many(pairs(sources)[:1], manifest=manifest, storage_options={"password": "geheim"})
    assert "geheim" not in manifest.read_text()


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such permissions")
@pytest.mark.parametrize("secret", ["graph", "data"])
@pytest.mark.parametrize("exists", [False, True])
def test_a_manifest_is_as_secret_as_its_most_secret_source(tmp_path: Path, secret: str, exists: bool) -> None:
    """A manifest, which has names and digests, has no permission that a source does not have, not even an old one."""
    source = tmp_path / "m.onnx"
    formats.save(formats.load(save(tmp_path / "one.onnx")), source, external_data=True)
    (data,) = (path for path in tmp_path.iterdir() if path.name not in ("m.onnx", "one.onnx"))
    (source if secret == "graph" else data).chmod(0o600)
    manifest = tmp_path / "runs.jsonl"
    if exists:
        manifest.write_text("")
        manifest.chmod(0o644)
    assert formats.convert_many([(source, tmp_path / "m.onnxz")], manifest=manifest)[0].ok
    assert 0 == manifest.stat().st_mode & 0o077


def test_shards_are_the_same_on_every_machine(tmp_path: Path) -> None:
    """Each model is in one part, whatever other models are in the list and wherever the folders are."""
    places = [f"a/{number}.onnx" for number in range(300)]

    def parts(root: str, names: list[str]) -> list[set[str]]:
        made = [Job(Path(root, "in", name), Path(root, "out", name)) for name in names]
        found = [job_list.shard_of(made, Path(root, "out"), number, 4) for number in (1, 2, 3, 4)]
        return [{job.source.relative_to(Path(root, "in")).as_posix() for job in part} for part in found]

    first, second = parts("/mnt/one", places), parts("elsewhere", places[100:])
    assert sum(map(len, first)) == 300
    assert set().union(*first) == {*places}
    assert all(len(part) > 40 for part in first)
    assert second == [part & {*places[100:]} for part in first]


def test_command_converts_a_shard(sources: list[Path]) -> None:
    """`--shard I/N` of all parts together converts each model once."""
    folder, out = sources[0].parent, sources[0].with_name("parts")
    seen: list[str] = []
    for number in (1, 2, 3):
        done = commands.run("formats", "batch", *sources, "--out", out, "--to", "onnxz", "--shard", f"{number}/3")
        assert done.exit_code == 0
        seen += [name for name in os.listdir(out) if name not in seen] if out.exists() else []
    assert sorted(seen) == sorted(f"{source.stem}.onnxz" for source in sources)
    for wrong in ("0/3", "4/3", "1", "x/3", "1/0", "-1/3"):
        assert commands.run("formats", "batch", folder, "--out", out, "--to", "onnxz", "--shard", wrong).exit_code == 2
