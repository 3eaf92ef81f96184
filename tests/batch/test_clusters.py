"""Executors of other packages do the jobs: Dask's, loky's, MPI's and pools; workers may die, or see other files."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from multiprocessing import get_context, get_start_method
from pathlib import Path
from typing import Any

import pytest

import formats
from formats.batch import job
from formats.batch import run as run_module
from formats.errors import FormatError, MissingPackageError
from formats.tensordata.replacing.hidden import hidden_path
from tests.batch.fleets import environment, lines, save, sha256
from tests.programs import need
from tests.systems import PATIENCE_SECONDS

COUNT = 12
SECONDS = 120
REAL = formats.convert


@pytest.fixture
def fleet(tmp_path: Path) -> Path:
    """A folder with models, some of which have data files, and the expected result of each."""
    (tmp_path / "models").mkdir()
    for folder in ("wanted", "out"):
        (tmp_path / folder).mkdir()
    for number in range(COUNT):
        path = save(tmp_path / "models" / f"m{number:02}.onnx", number, 100_000)
        if number % 3 == 0:
            formats.save(formats.load(path), path, external_data=True, overwrite=True)
        formats.convert(path, tmp_path / "wanted" / f"{path.stem}.onnxz")
    return tmp_path


def pairs(fleet: Path) -> list[tuple[Path, Path]]:
    """Return each model with its destination."""
    sources = sorted((fleet / "models").glob("*.onnx"))
    return [(source, fleet / "out" / f"{source.stem}.onnxz") for source in sources]


def content(folder: Path) -> dict[str, bytes]:
    """Return all files in a folder, including hidden ones."""
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def check(fleet: Path, manifest: Path | None = None) -> None:
    """Check that the files are those of a single process, and that the manifest agrees."""
    assert content(fleet / "out") == content(fleet / "wanted")
    if manifest is None:
        return
    found = lines(manifest)
    assert [line["destination"] for line in found] == [str(destination) for _, destination in pairs(fleet)]
    for line in found:
        for file in (*line["source_files"], *line["destination_files"]):
            assert file["sha256"] == sha256(Path(file["path"]))
            assert file["nbytes"] == Path(file["path"]).stat().st_size
        assert line["error"] is None


# Dask


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A Dask cluster of two workers on this machine."""
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=50
    ) as found:
        yield found


def batch(fleet: Path, cluster: Any, *arguments: str) -> list[str]:
    """Return the command that converts the fleet on the cluster."""
    command = [sys.executable, "-m", "formats", "batch", str(fleet / "models"), "--out", str(fleet / "out")]
    address = cluster.scheduler_address
    return [*command, "--to", "onnxz", "--manifest", str(fleet / "runs.jsonl"), "--dask", address, *arguments]


def run(command: list[str], **settings: Any) -> subprocess.CompletedProcess[str]:
    """Run a command; return its exit code and output."""
    return subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=SECONDS, env=environment(), **settings
    )


@pytest.mark.outer
def test_dask_does_a_batch(fleet: Path, cluster: Any) -> None:
    """The command converts on the cluster as it does here, with a manifest, and a second run has nothing to do."""
    done = run(batch(fleet, cluster, "--json"))
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["converted"] == COUNT
    check(fleet, fleet / "runs.jsonl")
    done = run(batch(fleet, cluster, "--json"))
    assert json.loads(done.stdout)["unchanged"] == COUNT
    (fleet / "out" / "m03.onnxz").unlink()
    assert json.loads(run(batch(fleet, cluster, "--json")).stdout)["converted"] == 1
    check(fleet, fleet / "runs.jsonl")


@pytest.mark.outer
def test_a_dask_worker_that_is_killed_has_its_job_done_again(fleet: Path, cluster: Any) -> None:
    """If a worker is killed during the run, all jobs are done, some of them again, and the files are the same."""
    distributed = pytest.importorskip("distributed")
    with distributed.Client(cluster) as client:
        workers = list(client.run(os.getpid).values())

        def kill(result: formats.JobResult) -> None:
            if workers:
                os.kill(workers.pop(), signal.SIGKILL)
                workers.clear()

        results = formats.convert_many(
            pairs(fleet), executor=client.get_executor(pure=False), on_result=kill, manifest=fleet / "runs.jsonl"
        )
        assert not workers
        client.wait_for_workers(2, timeout=SECONDS)
    assert [str(result.error) for result in results if not result.ok] == []
    assert all(result.host for result in results)
    check(fleet, fleet / "runs.jsonl")


class Deadly:
    """A plugin that every Dask worker gets, also one that replaces another: a model kills it, so many times."""

    def __init__(self, model: Path, times: int) -> None:
        self.model, self.times = model, times

    def setup(self, worker: Any) -> None:
        """Let the worker die if it comes to the model."""

        def convert(source: Path, *args: Any, **options: Any) -> formats.ConversionReport:
            deaths = [*self.model.parent.parent.glob("death-*")]
            if source == self.model and len(deaths) < self.times:
                (self.model.parent.parent / f"death-{len(deaths)}").touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return REAL(source, *args, **options)

        job.convert.convert = convert


@pytest.mark.outer
@pytest.mark.parametrize("times", [1, 100])
def test_a_dask_worker_that_dies_in_a_piece_costs_one_job_at_most(
    fleet: Path, cluster: Any, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    """If a job of a piece kills its worker, the piece is done again; if it always does, only this job fails."""
    distributed = pytest.importorskip("distributed")
    monkeypatch.setattr(cluster.scheduler, "allowed_failures", 1)
    monkeypatch.setattr(run_module, "FIRST_PIECES", 1)
    monkeypatch.setattr(run_module, "_jobs_of_piece", lambda results: 6)
    deadly = fleet / "models" / "m04.onnx"

    class Plugin(Deadly, distributed.WorkerPlugin):  # type: ignore[misc, name-defined]
        """What Dask accepts as a plugin."""

    with distributed.Client(cluster) as client:
        client.register_plugin(Plugin(deadly, times), name="deadly")
        results = formats.convert_many(
            pairs(fleet), executor=client.get_executor(pure=False), manifest=fleet / "runs.jsonl"
        )
        client.unregister_worker_plugin("deadly")
        client.restart()
    assert (fleet / "death-0").exists()
    assert [result.ok for result in results] == [times == 1 or number != 4 for number in range(COUNT)]
    if times == 1:
        check(fleet, fleet / "runs.jsonl")
        return
    assert "KilledWorker" in str(results[4].error)
    wanted = content(fleet / "wanted")
    del wanted["m04.onnxz"]
    assert content(fleet / "out") == wanted
    assert formats.convert_many(pairs(fleet), processes=2, manifest=fleet / "runs.jsonl")[4].state == "converted"
    check(fleet, fleet / "runs.jsonl")


@pytest.mark.outer
def test_processes_and_workers_of_dask_do_the_same(tmp_path: Path, cluster: Any) -> None:
    """One process, two, and two Dask workers give the same files, results and manifests, also where jobs fail."""
    distributed = pytest.importorskip("distributed")
    (tmp_path / "models").mkdir()
    models = [save(tmp_path / "models" / f"m{number:03}.onnx", number) for number in range(100)]
    models[70].write_bytes(b"no model")
    found = []
    with distributed.Client(cluster) as client:
        ways: list[dict[str, Any]] = [{"processes": 1}, {"processes": 2}, {"executor": client.get_executor(pure=False)}]
        for way in ways:
            (tmp_path / "out").mkdir()
            given = [(path, tmp_path / "out" / f"{path.stem}.onnxz") for path in models]
            for _ in range(2):
                results = formats.convert_many(given, manifest=tmp_path / "runs.jsonl", **way)
                told = [(result.job, result.state, str(result.error)) for result in results]
                written = lines(tmp_path / "runs.jsonl")
                for line in written:
                    for name in ("seconds", "begun", "salt", "source_stamps"):
                        line.pop(name, None)
                found.append((told, written, content(tmp_path / "out")))
            shutil.rmtree(tmp_path / "out")
            (tmp_path / "runs.jsonl").unlink()
    first, second, *others = found
    assert others == [first, second] * 2
    assert [state for _, state, _ in second[0]] == ["unchanged"] * 70 + ["failed"] + ["unchanged"] * 29


@pytest.mark.outer
@pytest.mark.parametrize("how", ["SIGINT", "SIGKILL"])
def test_a_run_that_is_stopped_is_completed_by_another(fleet: Path, cluster: Any, how: str) -> None:
    """A batch that is interrupted or killed leaves only complete files, and the next run completes it."""
    number = getattr(signal, how)
    for name in ("m01", "m02", "m04", "m05"):  # enough work to be unfinished when the signal comes
        for copy in range(12):
            shutil.copy(fleet / "models" / f"{name}.onnx", fleet / "models" / f"{copy}{name}.onnx")
            shutil.copy(fleet / "wanted" / f"{name}.onnxz", fleet / "wanted" / f"{copy}{name}.onnxz")
    with subprocess.Popen(
        batch(fleet, cluster), env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        assert running.stdout
        assert running.stdout.readline()  # one job is done
        running.send_signal(number)
        _, errors = running.communicate(timeout=SECONDS)
    if running.returncode:  # it may have ended already
        assert running.returncode == (130 if how == "SIGINT" else -9)
        assert ("stopped by SIGINT" in errors) == (how == "SIGINT")
    wanted = content(fleet / "wanted")
    assert all(wanted[name] == data for name, data in content(fleet / "out").items() if name[0] != ".")
    done = run(batch(fleet, cluster, "--json"))
    told = json.loads(done.stdout)
    assert (done.returncode, told["failed"], told["converted"] + told["unchanged"]) == (0, 0, COUNT + 48), done.stderr
    check(fleet, fleet / "runs.jsonl")


@pytest.mark.outer
def test_no_scheduler_and_wrong_addresses_are_told(fleet: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing scheduler is an error of one line, a wrong address a usage error, also if both occur."""
    monkeypatch.setenv("DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT", "1s")

    class Nowhere:
        scheduler_address = "tcp://127.0.0.1:9"

    done = run(batch(fleet, Nowhere))
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1)
    assert "127.0.0.1:9" in done.stderr
    Nowhere.scheduler_address = "gopher://nowhere"
    assert run(batch(fleet, Nowhere)).returncode == 2
    assert "--dask and --jobs" in run(batch(fleet, Nowhere, "--jobs", "2")).stderr
    assert not content(fleet / "out")


def test_dask_is_an_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """If Dask is not installed, the error says how to install it."""
    from formats.batch.workers import dask_executor

    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(MissingPackageError, match=r"onnx-formats\[dask\]"), dask_executor("tcp://x:1"):
        pass


# Pools of other packages


def killer(processes: Callable[[], list[int]]) -> Callable[[formats.JobResult], None]:
    """Return a function that kills one of these processes after the first result."""
    killed: list[int] = []

    def kill(result: formats.JobResult) -> None:
        if not killed:
            killed.append(processes()[0])
            os.kill(killed[0], signal.SIGKILL)

    return kill


@pytest.mark.outer
def test_loky_does_a_batch(fleet: Path) -> None:
    """Loky's processes do the jobs; if one is killed, the rest is still done."""
    loky = pytest.importorskip("loky")
    for kills in (False, True):
        executor = loky.get_reusable_executor(max_workers=2, timeout=PATIENCE_SECONDS)
        kill = killer(lambda executor=executor: list(executor._processes)) if kills else None  # type: ignore[misc]
        results = formats.convert_many(
            pairs(fleet), executor=executor, on_result=kill, manifest=fleet / "runs.jsonl", overwrite=True
        )
        assert [str(result.error) for result in results if not result.ok] == []
        check(fleet, fleet / "runs.jsonl")
        shutil.rmtree(fleet / "out")
        (fleet / "out").mkdir()
    loky.get_reusable_executor(max_workers=2).shutdown(wait=True, kill_workers=True)


def test_a_broken_pool_of_the_caller_costs_nothing(fleet: Path) -> None:
    """All jobs are done even if a process of the caller's pool is killed, or if the pool was broken before."""
    with ProcessPoolExecutor(2, get_context("forkserver")) as pool:
        kill = killer(lambda: list(pool._processes))
        for _ in range(2):
            results = formats.convert_many(
                pairs(fleet), executor=pool, on_result=kill, manifest=fleet / "runs.jsonl", overwrite=True
            )
            assert [str(result.error) for result in results if not result.ok] == []
            check(fleet, fleet / "runs.jsonl")
            shutil.rmtree(fleet / "out")
            (fleet / "out").mkdir()


MPI = """import sys, formats
from pathlib import Path
from mpi4py.futures import MPIPoolExecutor
if __name__ == "__main__":
    fleet = Path(sys.argv[1])
    given = [(path, fleet / "out" / (path.stem + ".onnxz")) for path in sorted((fleet / "models").glob("*.onnx"))]
    with MPIPoolExecutor() as executor:
        results = formats.convert_many(given, executor=executor, manifest=fleet / "runs.jsonl")
    print(*[result.error for result in results if not result.ok])
"""


@pytest.mark.outer
def test_mpi_does_a_batch(fleet: Path) -> None:
    """The executor of mpi4py does the jobs in the processes that mpirun has started."""
    pytest.importorskip("mpi4py")
    need("mpirun")
    loads = "import mpi4py; mpi4py.rc.initialize = False; import mpi4py.MPI"
    if run([sys.executable, "-c", loads]).returncode:  # the package is installed without the library, too
        pytest.skip("needs the library of MPI")
    script = fleet / "script.py"
    script.write_text(MPI)
    options = ["--allow-run-as-root", "--oversubscribe", "-n", "3"]
    done = run(["mpirun", *options, sys.executable, "-m", "mpi4py.futures", str(script), str(fleet)])
    assert (done.returncode, done.stdout) == (0, "\n"), done.stderr
    check(fleet, fleet / "runs.jsonl")


# Other machines


def test_relative_paths_mean_the_folder_of_the_caller(fleet: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers in other folders find the caller's files, and manifests have the paths as they were given."""
    monkeypatch.chdir(fleet)
    given = [(source.relative_to(fleet), destination.relative_to(fleet)) for source, destination in pairs(fleet)]
    with ProcessPoolExecutor(2, get_context("forkserver"), os.chdir, ("/",)) as pool:
        results = formats.convert_many(given, executor=pool, manifest=fleet / "runs.jsonl")
    assert [str(result.error) for result in results if not result.ok] == []
    assert [(result.job.source, result.job.destination) for result in results] == given
    assert content(fleet / "out") == content(fleet / "wanted")
    found = [(line["source"], line["destination"]) for line in lines(fleet / "runs.jsonl")]
    assert found == [(str(source), str(destination)) for source, destination in given]
    here = formats.convert_many(given, processes=2, manifest=fleet / "runs.jsonl")
    assert {result.state for result in here} == {"unchanged"}


class Elsewhere(Executor):
    """A machine with differences: `convert` is another function there, and the current folder another one."""

    def __init__(
        self, patch: pytest.MonkeyPatch, convert: Callable[..., Any] = REAL, folder: Path | None = None
    ) -> None:
        self.patch, self.convert, self.folder = patch, convert, folder

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Do the job at once."""
        from concurrent.futures import Future

        future: Future[Any] = Future()
        with self.patch.context() as patched:
            patched.setattr(job.convert, "convert", self.convert)
            patched.setattr(job.platform, "node", lambda: "node7")
            future.set_result(fn(*args, **kwargs))
        for path in self.folder.iterdir() if self.folder else ():
            path.unlink()  # it was written elsewhere
        return future


def test_a_worker_that_does_not_see_the_files_is_told(fleet: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If a worker does not find a source, or its output is not visible here, the error names the file and says why."""

    def missing(source: Path, *args: Any, **options: Any) -> None:
        raise FileNotFoundError(2, "No such file or directory", str(source))

    blind = Elsewhere(monkeypatch, missing)
    apart = Elsewhere(monkeypatch, folder=fleet / "out")
    for executor, words in ((blind, "node7 does not see this"), (apart, "this machine does not see it")):
        for manifest in (None, fleet / "runs.jsonl"):
            results = formats.convert_many(pairs(fleet), executor=executor, manifest=manifest)
            assert all(isinstance(result.error, FormatError) for result in results)
            assert words in str(results[0].error)
            assert "same storage" in str(results[0].error)
        assert {words in line["error"]["message"] for line in lines(fleet / "runs.jsonl")} == {True}
    pairs(fleet)[0][0].unlink()
    (result, *_) = formats.convert_many([(fleet / "models" / "m00.onnx", fleet / "out" / "x.onnxz")], executor=blind)
    assert isinstance(result.error, FileNotFoundError)  # it does not exist anywhere


def test_a_job_that_is_done_twice_is_done(fleet: Path) -> None:
    """A job that a lost worker had completed counts as done; a file that another program wrote meanwhile stays."""
    (source, destination), *_ = pairs(fleet)
    for fingerprint in (None, {}):
        task = job.JobTask(0, formats.Job(source, destination), {}, fingerprint, begun=time.time())
        assert job.run_task(task).ok
        again = job.run_task(task)
        assert (again.state, again.error) == ("converted", None)
        assert destination.read_bytes() == (fleet / "wanted" / destination.name).read_bytes()
        destination.write_bytes(b"precious")
        assert isinstance(job.run_task(task).error, FileExistsError)
        assert content(fleet / "out") == {destination.name: b"precious"}
        destination.unlink()


@pytest.mark.skipif(sys.platform == "win32", reason="needs fork")
def test_a_job_that_is_killed_while_it_compares_leaves_nothing(fleet: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a killed job made, to compare it with an earlier result, goes when the job or the result is made again."""
    (source, destination), *_ = pairs(fleet)
    task = job.JobTask(0, formats.Job(source, destination), {}, begun=time.time())
    assert job.run_task(task).ok
    child = os.fork()
    if not child:

        def write_and_die(_: Path, made: Path, **__: object) -> None:
            if made != destination:
                made.write_bytes(b"a part")
                os._exit(9)
            raise FileExistsError

        monkeypatch.setattr(job.convert, "convert", write_and_die)
        job.run_task(task)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    (left,) = (path for path in (fleet / "out").iterdir() if path.is_dir())
    assert content(left) == {destination.name: b"a part"}
    assert job.run_task(task).ok
    assert list((fleet / "out").iterdir()) == [destination]
    left.mkdir()
    hidden_path(destination, "lock").touch()
    formats.convert(source, destination, overwrite=True)
    assert list((fleet / "out").iterdir()) == [destination]


# Memory


@pytest.mark.outer
@pytest.mark.skipif(
    not Path("/proc/self/status").exists() or get_start_method() != "fork",
    reason="only Linux tells the memory of processes",
)
def test_memory_is_bounded_by_the_number_of_processes(tmp_path: Path) -> None:
    """However many large models there are, a process needs the memory of one conversion, as docs/fleets.md states."""
    for number in range(6):
        save(tmp_path / f"m{number}.onnx", number, 24 << 20)
    code = (
        "import os, sys, multiprocessing, formats\n"
        "from pathlib import Path\n"
        "if __name__ == '__main__':\n"
        "    folder, peaks = Path(sys.argv[1]), {}\n"
        "    def look(result):\n"
        "        for child in [*multiprocessing.active_children(), multiprocessing.current_process()]:\n"
        "            text = Path(f'/proc/{child.pid}/status').read_text()\n"
        "            peaks[child.pid] = next(int(line.split()[1]) for line in text.splitlines() if 'VmHWM' in line)\n"
        "    given = [(path, path.with_suffix('.onnxz')) for path in folder.glob('*.onnx')]\n"
        "    assert all(result.ok for result in formats.convert_many(given, processes=2, on_result=look))\n"
        "    print(*peaks.values())\n"
    )
    script = tmp_path / "script.py"
    script.write_text(code)
    done = run([sys.executable, str(script), str(tmp_path)])
    peaks = [int(word) << 10 for word in done.stdout.split()]
    assert len(peaks) == 3, done.stderr
    assert max(peaks) < 40 << 20
