"""Shared parts of the tests: the two rings, models to read, RTen's releases to run them, and the command as a process.

`pytest` runs the inner ring, which needs only the extra `test` and takes minutes. `pytest -m outer` runs the outer
ring: the tests with the mark `outer`, those that use a fixture in `OUTER_FIXTURES`, and of a test with the mark
`sample(n)` all cases but one of n. A path names all of its tests.
"""

from __future__ import annotations

import gc
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from tests.runtime.runner import Runner

ROOT = Path(__file__).parents[1]
SHARED_MODELS = sorted((ROOT.parent / "shared" / "models").glob("*.onnx"))
NEEDS_SHARED_MODELS = "needs the models in ../shared/models"

OUTER_FIXTURES = {
    "runtimes": "the runners of RTen, which cargo builds",
    "shim": "a library that a C compiler makes",
    "s3": "a server of the package moto",
}
"""Fixtures that only the outer ring has, and what they need."""

PLATFORM = re.compile(r"(this (system|Python|processor)|only (Linux|POSIX|root)|Windows)\b")
"""How the reason of a skip begins if the platform is the reason; other reasons name what is not installed."""

TOO_OLD = ("under development and support for this is limited", "Unsupported model IR version")
"""What onnxruntime says of operator sets and IR versions that came after it; for Python 3.10, of 24 and 12."""

GOLDEN_RATIO = (1 + 5**0.5) / 2  # its multiples, without their whole parts, are spread evenly between 0 and 1

MOST_WORKERS = 8

IN_CI = bool(os.environ.get("CI"))

# A busy machine is slow, which is no fault. CI always uses the same examples; elsewhere, each run has new ones.
UNCHECKED = [HealthCheck.too_slow, HealthCheck.data_too_large]
settings.register_profile("tests", deadline=None, suppress_health_check=UNCHECKED, derandomize=IN_CI)
settings.load_profile("tests")


def names_paths(config: pytest.Config) -> bool:
    """Return whether the command line names files or folders."""
    return config.args_source is pytest.Config.ArgsSource.ARGS


def pytest_configure(config: pytest.Config) -> None:
    """Without paths and marks in the command line, only the inner ring is run."""
    if not config.option.markexpr and not names_paths(config):
        config.option.markexpr = "not outer"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Return one worker for each processor; none if only files or tests are named, which start sooner without."""
    if names_paths(config) and all(Path(name.partition("::")[0]).is_file() for name in config.args):
        return 0
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(available, MOST_WORKERS) if available > 1 else 0


def is_in_sample(item: pytest.Item) -> bool:
    """Return whether a case is in the sample of its test: one of n, spread so that all values of each parameter occur.

    Each nth case would have always the same value of a parameter with n values.
    """
    mark = item.get_closest_marker("sample")
    if mark is None:
        return True
    number = next(iter(item.callspec.indices.values()))  # type: ignore[attr-defined]  # of the case, for each parameter
    return float(number * GOLDEN_RATIO % 1) < 1 / mark.args[0]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of the outer ring, and put tests of servers and clusters last.

    The latter leave threads running, which would disturb tests of threads.
    """
    for item in items:
        if not OUTER_FIXTURES.keys().isdisjoint(getattr(item, "fixturenames", ())) or not is_in_sample(item):
            item.add_marker("outer")
    items.sort(key=lambda item: item.path.parent.name == "remote" or item.path.name == "test_clusters.py")


def pytest_collection_finish() -> None:
    """Let the collector search what tests make, and not the thousands of tests, which stay to the end."""
    gc.freeze()


_Report = TypeVar("_Report", pytest.TestReport, pytest.CollectReport)


def judged(report: _Report) -> _Report:
    """Return the report of a test or module; in CI, where all tools are installed, what lacks a tool has failed."""
    if IN_CI and report.skipped and not hasattr(report, "wasxfail") and isinstance(report.longrepr, tuple):
        reason = report.longrepr[2].removeprefix("Skipped: ")
        if not PLATFORM.match(reason) and reason != NEEDS_SHARED_MODELS:  # which are outside of the repository
            report.outcome = "failed"
            report.longrepr = f"skipped in CI, where .ci/run installs everything: {reason}"
    return report


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A test whose onnxruntime is too old is skipped; in CI, a test that is skipped for a lack has failed."""
    report = yield
    if call.excinfo is not None and any(words in str(call.excinfo.value) for words in TOO_OLD):
        report.outcome = "skipped"
        report.longrepr = (str(item.path), (item.location[1] or 0) + 1, "Skipped: needs onnxruntime 1.24 or later")
    return judged(report)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """In CI, a module that is skipped because it lacks something has failed."""
    return judged((yield))


@pytest.fixture(scope="session", autouse=True)
def _signals_reach_programs() -> None:
    """Let programs that tests start answer to signals, even if this process ignores them, as with `nohup` and `&`.

    A program that is started inherits what is ignored, but not a handler.
    """
    if threading.current_thread() is threading.main_thread():
        for name in ("SIGINT", "SIGHUP"):
            number = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) is signal.SIG_IGN:
                signal.signal(number, lambda *_: None)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that asks for `shared_model` runs once for each of the shared models."""
    if "shared_model" in metafunc.fixturenames:
        skipped = pytest.param(None, marks=pytest.mark.skip(reason=NEEDS_SHARED_MODELS))
        metafunc.parametrize("shared_model", SHARED_MODELS or [skipped], ids=lambda path: path.stem if path else "none")


@pytest.fixture(scope="session")
def root() -> Path:
    """The root of the repository."""
    return ROOT


@pytest.fixture(scope="session")
def runtimes() -> Iterator[dict[str, Runner]]:
    """The releases of the real RTen runtime, the oldest first."""
    from tests.runtime.runner import RELEASES, Runner

    found = {release: Runner.find(release) for release in RELEASES}
    missing = ", ".join(release for release, runner in found.items() if runner is None)
    if missing:
        pytest.skip(f"needs the runners of RTen {missing}, which cargo builds as tests/runtime/runner.py says")
    yield {release: runner for release, runner in found.items() if runner is not None}
    for runner in found.values():
        if runner is not None:
            runner.close()


@pytest.fixture
def shared_models() -> list[Path]:
    """The models that were written by real exporters."""
    if not SHARED_MODELS:
        pytest.skip(NEEDS_SHARED_MODELS)
    return SHARED_MODELS


@pytest.fixture
def digits(tmp_path: Path) -> Path:
    """A copy of the example model."""
    path = tmp_path / "digits.onnx"
    path.write_bytes((ROOT / "examples" / "digits.onnx").read_bytes())
    return path


@pytest.fixture
def tiny_model(tmp_path: Path) -> Path:
    """A model of one matrix product with a weight of 4 KiB, in canonical order."""
    import numpy as np
    import onnx

    weight = onnx.numpy_helper.from_array(np.arange(1024, dtype="float32").reshape(32, 32), "w")
    x, y = (onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["n", 32]) for name in "xy")
    node = onnx.helper.make_node("MatMul", ["x", "w"], ["y"], name="product")
    graph = onnx.helper.make_graph([node], "tiny", [x], [y], [weight])
    proto = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    path = tmp_path / "tiny.onnx"
    path.write_bytes(proto.SerializeToString(deterministic=True))
    return path


@pytest.fixture
def python(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Return a function that runs Python in the test's folder, where `formats` can be imported."""
    from tests.systems import PATIENCE_SECONDS

    def run(*arguments: str | os.PathLike[str], **settings: Any) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "80", **settings.pop("env", {})}
        return subprocess.run(
            [sys.executable, *map(os.fspath, arguments)],
            capture_output=True,
            text=True,
            errors="surrogateescape",
            timeout=settings.pop("timeout", PATIENCE_SECONDS),
            cwd=tmp_path,
            env=environment,
            check=False,
            **settings,
        )

    return run


@pytest.fixture
def command(python: Callable[..., subprocess.CompletedProcess[str]]) -> Callable[..., Any]:
    """Return a function that runs `convert` in the test's folder."""

    def run(*arguments: str | os.PathLike[str], **settings: Any) -> subprocess.CompletedProcess[str]:
        return python("-c", "from formats.cli import convert; convert()", *arguments, **settings)

    return run
