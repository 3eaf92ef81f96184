"""The recipe for RTen's users is true: its commands make the files that its Rust code loads, with ONNX's results."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import textwrap
from pathlib import Path

import numpy as np
import pytest

from tests.programs import need_built
from tests.rten.evaluation import evaluate
from tests.runtime.runner import binary

RELEASE = "0.27"
ROOT = Path(__file__).parents[2]
PAGE = (
    (ROOT / "docs" / "recipes.md")
    .read_text(encoding="utf-8")
    .partition("\n## Run a model in RTen\n")[2]
    .partition("\n## ")[0]
)
PROGRAM = ROOT / "tests" / "runtime" / RELEASE / "loading.rs"
IMAGE = np.full((1, 1, 28, 28), 0.5, np.float32)


def blocks(language):
    """Return the blocks of the page in one language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


def test_lines_are_those_of_the_program():
    """Every block of Rust is in the program, and the Cargo block names the release with which it is built."""
    text = PROGRAM.read_text(encoding="utf-8")
    assert [] == [block for block in blocks("rust") if textwrap.indent(block, "    ") not in text]
    assert len(blocks("rust")) == 6
    manifest = PROGRAM.with_name("Cargo.toml").read_text(encoding="utf-8")
    for name, version in re.findall(r'^([\w-]+) = (?:\{ version = )?"([\d.]+)"', *blocks("toml"), re.MULTILINE):
        assert re.search(rf'^{name} = (\{{ version = )?"={re.escape(version)}\.', manifest, re.MULTILINE)


@pytest.fixture
def folder(python, tmp_path, monkeypatch):
    """A folder in which the commands of the page were run on a model as .onnx and as .rten."""
    (tmp_path / "model.onnx").write_bytes((ROOT / "examples" / "digits.onnx").read_bytes())
    monkeypatch.chdir(tmp_path)
    lines = [line for block in blocks("console") for line in block.splitlines()]
    for line in lines:
        _, verb, *arguments = shlex.split(line)
        done = python("-m", "formats", verb, *arguments, *(["--force"] if verb == "convert" else []))
        assert (0, "") == (done.returncode, done.stderr), line
    return tmp_path


def test_files_load_as_the_page_says(folder, runtimes):
    """A model converted from .rten or for RTen computes the same if it is read, mapped, in memory or linked."""
    program = binary(RELEASE).with_name(f"rten-loading{Path(binary(RELEASE)).suffix}")
    need_built(program, "tests/runtime/runner.py")
    (wanted,) = evaluate((ROOT / "examples" / "digits.onnx").read_bytes(), {"image": IMAGE})
    done = subprocess.run([program, folder], capture_output=True, text=True, check=False)
    assert (0, "") == (done.returncode, done.stderr)
    ways = dict(line.split(": ") for line in done.stdout.splitlines())
    assert list(ways) == ["read", "mapped", "from memory", "archive", "linked"]
    for numbers in ways.values():
        np.testing.assert_allclose(json.loads(numbers), wanted.ravel(), rtol=1e-5)
    if RELEASE in runtimes:
        for mmap in (False, True):
            (found,) = runtimes[RELEASE].run(folder / "for-rten.onnx", {"image": IMAGE}, mmap=mmap)
            np.testing.assert_allclose(found, wanted, rtol=1e-5)
