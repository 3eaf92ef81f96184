"""A reader that lacks a check takes an archive of the vectors that it should refuse, in each of our languages.

So each requirement has a vector that nothing else refuses, and the vectors find a reader that forgets one.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.onnxzip.archives import bytes_of
from tests.onnxzip.vector_rows.large import LARGE_ROWS, Part
from tests.onnxzip.vector_rows.rows import ROWS
from tests.programs import need
from tests.systems import PATIENCE_SECONDS

pytestmark = pytest.mark.outer

ROOT = Path(__file__).parents[2]
FOLLOWS = {
    "Z-2.5": "entries that follow each other, the last one up to the directory, do not reach beyond it",
}
"""Requirements that no vector can test alone: they follow from others, but are what a reader must check first."""
IN_JAVASCRIPT = {"Z-2.3", "Z-4.1", "Z-5.5", "Z-6.7", "Z-7.8"}
"""Requirements for which the module refuses the same archives by another check, with another number."""
IN_RUST = {"Z-3.6", "Z-5.1", "Z-5.8"}
"""Requirements that the crate checks in several places, only some of them by `require`."""
IN_C = {"Z-3.6", "Z-6.7"}
"""Requirements for which the header refuses the same archives by another check, with another number."""
SECONDS = 120
Answers = Callable[[str, list[Path]], list[str]]


def refused_ones(folder: Path) -> dict[str, list[Path]]:
    """Write the vectors that must be refused; return them by the requirement that they break."""
    found: dict[str, list[Path]] = {}
    for number, row in enumerate([*ROWS, *LARGE_ROWS]):
        if row.refused is not None:
            path = folder / f"{number}.onnxz"
            with path.open("wb") as file:
                parts = row.refused if isinstance(row.refused, list) else [Part(bytes_of(row.refused))]
                for part in parts:
                    if part.zeros:
                        file.truncate(file.seek(part.zeros, os.SEEK_CUR))
                    else:
                        file.write(part.made())
            found.setdefault(row.breaks or row.requirement, []).append(path)
    return found


def answers_of(command: list[str | Path], paths: list[Path], more: Mapping[str, str]) -> list[str]:
    """Return the lines that a program prints for paths; one that does not end answers `hangs`."""
    lines = "".join(f"{path}\n" for path in paths)
    environment = {**os.environ, **more}
    try:
        done = subprocess.run(
            command, input=lines, capture_output=True, text=True, timeout=SECONDS, env=environment, check=False
        )
    except subprocess.TimeoutExpired:
        return ["hangs"]
    return done.stdout.splitlines()


def requirement_of(line: str) -> str:
    """Return the verdict in a line of JSON in the form of `planted.py`."""
    verdict = json.loads(line)
    return "taken" if verdict["ok"] else f"refused {verdict['requirement']}"


def uncaught(folder: Path, answers: Answers, wanted: Callable[[str], bool] = lambda _: True) -> set[str]:
    """Return the requirements for which every vector is still refused if the reader does not check them."""
    missing = set()
    for requirement, paths in refused_ones(folder).items():
        if wanted(requirement) and not any(line == "taken" for line in answers(requirement, paths)):
            missing.add(requirement)
    return missing


def test_python(tmp_path: Path) -> None:
    """Our own reader without any one check takes a vector, or fails in another way than by a refusal."""

    def answers(requirement: str, paths: list[Path]) -> list[str]:
        lines = answers_of([sys.executable, Path(__file__).with_name("planted.py"), requirement], paths, {})
        assert len(lines) == len(paths)
        return ["taken" if not line.startswith("refused ") else line for line in lines]

    assert set(FOLLOWS) == uncaught(tmp_path, answers)


def test_javascript(tmp_path: Path) -> None:
    """The same for the reader in JavaScript, in a copy whose errors with the requirement are not thrown."""
    need("node")
    source = (ROOT / "readers" / "js" / "onnxz.js").read_text(encoding="utf-8")
    planted, count = re.subn(r"throw ((?:new ArchiveError|this\.malformed)\((?:.|\n)*?\));\n", r"plant(\1);\n", source)
    assert count > 40
    planted += "function plant(error) { if (error.requirement !== process.env.PLANTED) throw error; }\n"
    (tmp_path / "reader" / "tests").mkdir(parents=True)
    (tmp_path / "reader" / "package.json").write_text('{"type": "module"}')
    (tmp_path / "reader" / "onnxz.js").write_text(planted, encoding="utf-8")
    verdicts = Path(shutil.copy(ROOT / "readers" / "js" / "tests" / "verdicts.js", tmp_path / "reader" / "tests"))

    def answers(requirement: str, paths: list[Path]) -> list[str]:
        lines = answers_of(["node", verdicts], paths, {"PLANTED": requirement})
        if len(lines) < len(paths):
            return ["taken"]  # it hangs or crashes
        found = map(requirement_of, lines)
        return ["taken" if verdict == "refused " else verdict for verdict in found]

    assert uncaught(tmp_path, answers) <= IN_JAVASCRIPT | set(FOLLOWS)


def test_rust(tmp_path: Path) -> None:
    """The same for the crate, in a copy whose `require` ignores the requirement."""
    need("cargo")
    crate = tmp_path / "reader"
    shutil.copytree(ROOT / "readers" / "rust", crate, ignore=shutil.ignore_patterns("target", "fuzz", "vectors"))
    errors = crate / "src" / "error.rs"
    text, count = re.subn(
        r"if holds \{", 'if holds || std::env::var("PLANTED").as_deref() == Ok(requirement) {', errors.read_text()
    )
    assert 1 == count
    errors.write_text(text)
    build = ["cargo", "build", "--release", "--offline", "--example", "verdicts", "--target-dir", tmp_path / "target"]
    done = subprocess.run(build, cwd=crate, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode:
        pytest.skip(f"needs the packages of the crate: {done.stderr[-200:]}")
    program = tmp_path / "target" / "release" / "examples" / "verdicts"
    code = "".join(path.read_text() for path in (crate / "src").glob("*.rs"))
    checked = set(re.findall(r'require\([^"]*"(Z-\d+\.\d+)"', code))
    assert len(checked) > 20

    def answers(requirement: str, paths: list[Path]) -> list[str]:
        lines = answers_of([program], paths, {"PLANTED": requirement})
        return [*map(requirement_of, lines)] if len(lines) == len(paths) else ["taken"]

    assert uncaught(tmp_path, answers, checked.__contains__) <= IN_RUST | set(FOLLOWS)


def test_c(tmp_path: Path) -> None:
    """The same for the reader in C, in a copy whose refusals do nothing if they name the requirement."""
    reader = tmp_path / "reader"
    shutil.copytree(ROOT / "readers" / "c", reader)
    header = reader / "onnxz.h"
    # A check that comes last in its function has no statement after it that returns.
    refusal = r'return (onnxz__refuse(?:_tensor)?\(a, (?:&?tensor, )?(broken|"Z-\d+\.\d+"),(?:[^;"]|"[^"]*")*;)(\n\})?'

    def unless(found: re.Match[str]) -> str:
        return f"{{ if (!planted({found[2]})) return {found[1]} }}" + (" return 1;\n}" if found[3] else "")

    planted, count = re.subn(refusal, unless, header.read_text(encoding="utf-8"))
    assert count > 60
    macro = (
        '#include <stdlib.h>\n#include <string.h>\n#define planted(number) (strcmp(number, getenv("PLANTED")) == 0)\n'
    )
    header.write_text(
        planted.replace("#include <inttypes.h>\n", f"#include <inttypes.h>\n{macro}", 1), encoding="utf-8"
    )
    need("cc")
    program = tmp_path / "verdicts"
    build = ["cc", "-std=c99", "-O1", "-w", "-o", program, reader / "tests" / "verdicts.c"]
    subprocess.run(build, check=True, timeout=PATIENCE_SECONDS)
    checked = set(re.findall(r'"(Z-\d+\.\d+)"', planted))
    assert len(checked) > 50

    def answers(requirement: str, paths: list[Path]) -> list[str]:
        lines = answers_of([program], paths, {"PLANTED": requirement})
        return [*map(requirement_of, lines)] if len(lines) == len(paths) else ["taken"]

    assert uncaught(tmp_path, answers, checked.__contains__) <= IN_C | set(FOLLOWS)
