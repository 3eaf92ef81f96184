"""The generated schema modules agree with the schema texts, and the script checks it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import generate
import pytest

ROOT = Path(__file__).resolve().parents[2]
MODULES = [target for _, _, target in generate.TARGETS] + [target for _, target in generate.FROM_CODE]


@pytest.fixture
def copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with the schema texts and modules, where the script works instead."""
    for name in (*(source for source, _, _ in generate.TARGETS), *MODULES):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, tmp_path / name)
    monkeypatch.setattr(generate, "ROOT", tmp_path)
    return tmp_path


def test_checked_in_modules_are_current() -> None:
    """Generating again changes nothing."""
    assert generate.outdated() == {}


@pytest.mark.outer
@pytest.mark.parametrize("module", MODULES)
def test_check_fails_for_a_stale_module_and_writing_cures_it(
    copied: Path, module: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """`--check` returns 1, names the module and writes nothing; without it, the module becomes current."""
    wanted = (copied / module).read_bytes()
    (copied / module).write_bytes(wanted + b"# changed by hand\n")
    assert generate.main(["--check"]) == 1
    assert f"{module} is not current" in capsys.readouterr().err
    assert (copied / module).read_bytes() != wanted
    assert generate.main([]) == 0
    assert capsys.readouterr().out == f"wrote {module}\n"
    assert (copied / module).read_bytes() == wanted
    assert generate.main(["--check"]) == 0


def test_a_missing_module_is_written(copied: Path) -> None:
    """A missing module is not current."""
    (copied / MODULES[0]).unlink()
    assert generate.main(["--check"]) == 1
    assert generate.main([]) == 0
    assert (copied / MODULES[0]).read_bytes() == (ROOT / MODULES[0]).read_bytes()


def test_a_malformed_text_is_reported_with_path_and_line(copied: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """For an invalid text, the script prints one sentence, exits with 1 and leaves the modules unchanged."""
    (copied / "schemas/onnx.proto").write_text('syntax = "proto2";\npackage onnx;\nmessage {}\n', "utf-8")
    assert generate.main([]) == 1
    assert capsys.readouterr().err == "schemas/onnx.proto, line 3: found {, expected a word\n"
    assert (copied / MODULES[0]).read_bytes() == (ROOT / MODULES[0]).read_bytes()


def test_the_script_runs_from_any_folder(tmp_path: Path) -> None:
    """`python schemas/generate.py --check` succeeds for the files in the repository."""
    script = ROOT / "schemas/generate.py"
    subprocess.run([sys.executable, script, "--check"], cwd=tmp_path, check=True)


@pytest.mark.outer
@pytest.mark.parametrize("module", [name for name in MODULES if name.endswith((".py", ".pyi"))])
def test_generated_modules_need_no_formatting(module: str) -> None:
    """The formatter leaves the generated modules unchanged."""
    pytest.importorskip("ruff", reason="needs the package ruff")
    subprocess.run([sys.executable, "-m", "ruff", "format", "--check", module], cwd=ROOT, check=True)
