"""Shared parts of the tests: models to read, the releases of RTen that run them, and the command as a process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from runtime.runner import Runner

ROOT = Path(__file__).parents[1]
SHARED_MODELS = sorted((ROOT.parent / "shared" / "models").glob("*.onnx"))


settings.register_profile("CI", derandomize=True)  # CI always uses the same examples; elsewhere, each run has new ones
if os.environ.get("CI"):
    settings.load_profile("CI")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put tests of servers and clusters last: they leave threads running, which would disturb tests of threads."""
    items.sort(key=lambda item: item.path.parent.name == "remote" or item.path.name == "test_clusters.py")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that asks for `shared_model` runs once for each of the shared models."""
    if "shared_model" in metafunc.fixturenames:
        skipped = pytest.param(None, marks=pytest.mark.skip(reason="../shared/models is not there"))
        metafunc.parametrize("shared_model", SHARED_MODELS or [skipped], ids=lambda path: path.stem if path else "none")


@pytest.fixture(scope="session")
def root() -> Path:
    """The root of the repository."""
    return ROOT


@pytest.fixture(scope="session")
def runtimes() -> Iterator[dict[str, Runner]]:
    """The releases of the real RTen runtime, the oldest first."""
    from runtime.runner import RELEASES, Runner

    found = {release: Runner.find(release) for release in RELEASES}
    missing = ", ".join(release for release, runner in found.items() if runner is None)
    if missing:
        pytest.skip(f"the runners of RTen {missing} are not built; see tests/runtime/runner.py")
    yield {release: runner for release, runner in found.items() if runner is not None}
    for runner in found.values():
        if runner is not None:
            runner.close()


@pytest.fixture
def shared_models() -> list[Path]:
    """The models that were written by real exporters."""
    if not SHARED_MODELS:
        pytest.skip("../shared/models is not there")
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

    def run(*arguments: str | os.PathLike[str], **settings: Any) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "80", **settings.pop("env", {})}
        return subprocess.run(
            [sys.executable, *map(os.fspath, arguments)],
            capture_output=True,
            text=True,
            errors="surrogateescape",
            timeout=60,
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
