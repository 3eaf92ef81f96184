"""The reader in C, as a strict and as a loading reader, agrees with each test vector."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import c_reader
import pytest

GOLDEN = Path(__file__).with_name("golden")
Row = tuple[dict[str, Any], str, Path]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program that prints a verdict on each path."""
    return c_reader.built("readers/c/tests/verdicts.c", tmp_path_factory.mktemp("c") / "verdicts")


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> list[Row]:
    """Each vector with `refused` or `taken`, and the path of that archive."""
    folder = tmp_path_factory.mktemp("vectors")
    found: list[Row] = []
    for vector in json.loads((GOLDEN / "vectors.json").read_text(encoding="utf-8")):
        for kind in sorted(vector.keys() & {"taken", "refused"}):
            path = folder / f"{len(found)}.onnxz"
            path.write_bytes(bytes.fromhex(vector[kind]))
            found.append((vector, kind, path))
    return found


def verdicts(command: list[str | Path], rows: list[Row]) -> list[dict[str, Any]]:
    """Return what the program prints about each path."""
    lines = "".join(f"{path}\n" for _, _, path in rows)
    done = subprocess.run(command, input=lines, capture_output=True, encoding="utf-8", timeout=120, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_strict_vectors(program: Path, rows: list[Row]) -> None:
    """A strict reader refuses each vector for the requirement that it breaks, or takes it."""
    for (vector, kind, _), verdict in zip(rows, verdicts([program], rows), strict=True):
        expected = vector["breaks"] if kind == "refused" else None
        assert verdict.get("requirement") == expected, f"{vector['name']}, {kind}: {verdict}"


def test_loading_vectors(program: Path, rows: list[Row]) -> None:
    """A loading reader takes what a strict one takes, and refuses what the vectors say; some others it takes."""
    counts = {"refused": 0, "taken": 0, "strict only": 0}
    for (vector, kind, _), verdict in zip(rows, verdicts([program, "--loading"], rows), strict=True):
        if kind == "refused" and not vector.get("loading"):
            counts["strict only"] += verdict["ok"]
        else:
            assert verdict["ok"] == (kind == "taken"), f"{vector['name']}, {kind}: {verdict}"
            counts[kind] += 1
    assert counts["refused"] > 150 < counts["taken"]
    assert counts["strict only"] > 50


def test_errors_of_the_system(program: Path, tmp_path: Path) -> None:
    """A file that is missing, empty, or a folder is one clear error, without a crash."""
    (tmp_path / "empty").touch()
    rows: list[Row] = [({}, "", tmp_path / name) for name in ("missing", "", "empty")]
    missing, folder, empty = verdicts([program], rows)
    assert missing["requirement"] == "" and missing["message"].startswith("cannot open the file: ")
    assert folder == {"ok": False, "requirement": "", "message": "it is not a regular file"}
    assert empty["requirement"] == "Z-2.1"


def test_header_alone(tmp_path: Path) -> None:
    """The header compiles without a warning when it only declares, also twice."""
    c_reader.built("readers/c/tests/header_alone.c", tmp_path / "alone")
