"""Every input of the corpus, and every input that once crashed the fuzzer, gives a model or one of our errors."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from formats.onnxpb.encryption import crypt
from tests.fuzzing import readers

HERE = Path(__file__).parent
HAS_ATHERIS = (3, 11) <= sys.version_info < (3, 14)  # as pyproject.toml says
WITHOUT_ATHERIS = "needs the package atheris" if HAS_ATHERIS else "this Python is none that atheris supports"


@pytest.fixture(autouse=True)
def quick_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Derive keys in one round during these tests, and in the usual number afterwards."""
    monkeypatch.setattr(crypt, "KEY_ITERATIONS", 1)


@pytest.fixture(scope="module", autouse=True)
def no_rest() -> Iterator[None]:
    """Remove the folder of the inputs afterwards."""
    yield
    shutil.rmtree(readers.folder())
    readers.folder.cache_clear()


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", readers.FORMATS)
def test_corpus_is_read_or_refused(name: str) -> None:
    """Reading an input, and the usual next steps, raise only our own errors."""
    files = sorted((HERE / "corpus" / name).iterdir())
    assert len(files) >= 20
    for path in (*files, *sorted((HERE / "crashes" / name).glob("*"))):
        readers.use(name, path.read_bytes())


def test_oss_fuzz_has_a_target_for_each_format() -> None:
    """The files that the OSS-Fuzz build names exist: a target for each format, with its corpus."""
    script = (HERE / "oss_fuzz" / "build.sh").read_text()
    assert "readers.FORMATS" in script
    assert "coverage_guided.main" in script
    assert {path.name for path in (HERE / "corpus").iterdir()} == {*readers.FORMATS}


@pytest.mark.outer
@pytest.mark.skipif(find_spec("atheris") is None, reason=WITHOUT_ATHERIS)
def test_coverage_guided_fuzzer_runs(tmp_path: Path) -> None:
    """The fuzzer starts, tries some inputs and finds no fault in a few seconds."""
    program = [sys.executable, HERE / "coverage_guided.py", "json", tmp_path, HERE / "corpus" / "json", "-runs=200"]
    program += ["-rss_limit_mb=0"]  # Linux counts the peak of this process as the child's, however small the child is
    done = subprocess.run([*program], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert 0 == done.returncode, done.stderr[-2000:]
