"""Type checkers find errors in programs that use the package wrongly, and none in correct programs."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from formats.onnxpb.wire.schema import MESSAGES
from tests.docs.code_blocks import DOCUMENTS, SHOWN_IN_PARTS, blocks

pytestmark = pytest.mark.outer

ROOT = Path(__file__).parents[1]
PROGRAMS = sorted((ROOT / "tests" / "misuse").glob("*.py"))
IN_PLACE_OF_ONNX = sorted((ROOT / "tests" / "onnx_compat" / "programs").glob("*.py"))
# The kinds of errors in the programs, with the names that mypy and pyright give them.
KINDS = {
    "attribute": {"attr-defined", "union-attr", "reportAttributeAccessIssue"},  # of a class, or of one of several
    "call": {"call-arg", "reportCallIssue"},
    "argument": {"arg-type", "reportArgumentType"},
    "assignment": {"assignment", "misc", "reportAttributeAccessIssue"},
    "optional": {"union-attr", "reportOptionalMemberAccess"},
}

# What pyright warns about are the modules of `onnx` in `formats.onnxpb`, which have a stub and no file with code.
STRICT = {"typeCheckingMode": "strict", "extraPaths": [str(ROOT)], "reportMissingModuleSource": False}

Found = dict[tuple[str, int], set[str]]  # the kinds of errors, by program and line


def expected() -> Found:
    """Return the errors that the programs announce."""
    found: Found = {}
    for path in PROGRAMS:
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if kind := re.search(r"# error: (\w+)$", line):
                found[path.name, number] = {kind[1]}
    return found


def check(rules: Found) -> None:
    """Check that each wrong line has errors of its kind, and no other line has any."""
    wanted = expected()
    assert wanted.keys() == rules.keys()
    for place, kinds in wanted.items():
        (kind,) = kinds
        assert rules[place] <= KINDS[kind], place


def run(*command: str) -> subprocess.CompletedProcess[str]:
    """Run a type checker on the programs."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, "-m", *command, *map(str, PROGRAMS)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=environment,
        check=False,
    )


def test_programs_are_wrong_in_many_ways() -> None:
    """Every kind of error is in the programs, and each program has correct lines."""
    assert {kind for kinds in expected().values() for kind in kinds} == KINDS.keys()
    assert len(expected()) > 50
    assert 2 == len(PROGRAMS)
    assert all("# Correct uses are not errors." in path.read_text() for path in PROGRAMS)


def test_mypy_finds_what_is_wrong(tmp_path: Path) -> None:
    """mypy, strict, finds an error of the expected kind in each wrong line, and none in other lines."""
    done = run("mypy", "--strict", "--cache-dir", str(tmp_path), "--no-error-summary")
    found: Found = {}
    for name, line, rule in re.findall(r"(\w+\.py):(\d+): error: .*\[([\w-]+)\]$", done.stdout, re.MULTILINE):
        found.setdefault((name, int(line)), set()).add(rule)
    assert not done.stderr
    check(found)


def test_pyright_finds_what_is_wrong() -> None:
    """Pyright finds the same errors."""
    done = run("pyright", "--outputjson")
    if "No module named pyright" in done.stderr:
        pytest.skip("needs the package pyright")
    found: Found = {}
    for entry in json.loads(done.stdout)["generalDiagnostics"]:
        place = Path(entry["file"]).name, entry["range"]["start"]["line"] + 1
        found.setdefault(place, set()).add(entry["rule"])
    check(found)


# Programs over `formats.onnxpb` in the place of `onnx`


@pytest.mark.parametrize("options", [(), ("--no-site-packages", "--follow-imports=silent")], ids=["onnx", "no onnx"])
def test_programs_in_place_of_onnx_pass_mypy(options: tuple[str, ...], tmp_path: Path) -> None:
    """mypy, strict, finds nothing in programs that import `formats.onnxpb` as `onnx`, with `onnx` and without it."""
    assert 10 == len(IN_PLACE_OF_ONNX)
    paths = [shutil.copy(path, tmp_path) for path in IN_PLACE_OF_ONNX]
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--cache-dir", str(tmp_path / "cache")]
    environment = {**os.environ, "MYPYPATH": str(ROOT)}
    ignored = () if not options else ("--disable-error-code=import-not-found",)  # numpy is missing, too
    done = subprocess.run(
        [*command, *options, *ignored, *paths],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (0, "", "") == (done.returncode, done.stdout, done.stderr)


def test_programs_in_place_of_onnx_pass_pyright(tmp_path: Path) -> None:
    """Pyright, strict, finds no error in them."""
    for path in IN_PLACE_OF_ONNX:
        shutil.copy(path, tmp_path)
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(STRICT))
    command = [sys.executable, "-m", "pyright", "--project", str(tmp_path), "--pythonpath", sys.executable]
    done = subprocess.run([*command, "--outputjson"], capture_output=True, text=True, check=False)
    if "No module named pyright" in done.stderr:
        pytest.skip("needs the package pyright")
    report = json.loads(done.stdout)
    assert [] == [(Path(each["file"]).name, each["message"]) for each in report["generalDiagnostics"]]
    assert len(IN_PLACE_OF_ONNX) == report["summary"]["filesAnalyzed"]


# Code in the documents

# Packages without types, or with types that are themselves not strict: the names in them can be anything.
UNTYPED = ("distributed", "onnxruntime", "safetensors")
ANYTHING = "from typing import Any\ndef __getattr__(name: str) -> Any: ...\n"


@pytest.fixture
def programs(tmp_path: Path) -> list[Path]:
    """Every Python block of the README and of the documents as a program, beside stubs for packages without types."""
    for name in UNTYPED:
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.pyi").write_text(ANYTHING)
    (tmp_path / "safetensors" / "numpy.pyi").write_text(ANYTHING)
    found = []
    for document in DOCUMENTS:
        for block in blocks(document) if document not in SHOWN_IN_PARTS else ():
            if block.language == "python":
                found.append(tmp_path / f"{Path(document).stem.lower()}_line_{block.line}.py")
                found[-1].write_text(block.text, encoding="utf-8")
    return found


def test_code_in_documents_passes_mypy(programs: list[Path]) -> None:
    """mypy, strict, finds nothing in the code of the README, of the tutorial, of the recipes and of the other pages."""
    folder = programs[0].parent
    assert len(programs) > 15
    environment = {**os.environ, "MYPYPATH": f"{folder}{os.pathsep}{ROOT}"}
    options = ("--strict", "--warn-unreachable", "--cache-dir", str(folder / "cache"), "--no-error-summary")
    command = [sys.executable, "-m", "mypy", *options, *(path.name for path in programs)]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert (0, "", "") == (done.returncode, done.stdout, done.stderr)


def test_code_in_documents_passes_pyright(programs: list[Path]) -> None:
    """Pyright, strict, finds nothing there, either."""
    folder = programs[0].parent
    settings = {**STRICT, "stubPath": "."}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings | {"include": [path.name for path in programs]}))
    options = ("--project", str(folder), "--pythonpath", sys.executable, "--outputjson")
    done = subprocess.run([sys.executable, "-m", "pyright", *options], capture_output=True, text=True, check=False)
    if "No module named pyright" in done.stderr:
        pytest.skip("needs the package pyright")
    report = json.loads(done.stdout)
    assert [] == [(Path(each["file"]).name, each["message"]) for each in report["generalDiagnostics"]]
    assert len(programs) == report["summary"]["filesAnalyzed"]


def test_the_package_checks_every_message_in_a_message(tmp_path: Path) -> None:
    """Inside the package, no code uses a message in a message without a check, though type checkers would allow it."""
    path = ROOT / "formats" / "ir" / "model.py"
    strict = tmp_path / "model.py"
    text, count = re.subn(r"Submessage\[(\w+)\] = MISSING", r"\1 | None = None", path.read_text(encoding="utf-8"))
    strict.write_text(text, encoding="utf-8")
    options = ("--shadow-file", str(path), str(strict), "--cache-dir", str(tmp_path / "cache"), "--no-error-summary")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *options, "formats"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (0, "", "") == (done.returncode, done.stdout, done.stderr)
    assert count == sum(row.kind == "message" and row.label != "repeated" for rows in MESSAGES.values() for row in rows)
