"""The reader in C, as a strict and as a loading reader, agrees with each test vector."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import formats
from tests.onnxzip import c_reader
from tests.programs import need
from tests.systems import PATIENCE_SECONDS

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
    done = subprocess.run(
        command, input=lines, capture_output=True, encoding="utf-8", timeout=PATIENCE_SECONDS, check=True
    )
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


@pytest.mark.outer
def test_example_for_onnxruntime(tmp_path: Path) -> None:
    """The example makes a session from each model of an archive, with the library of the Python package."""
    onnxruntime = pytest.importorskip("onnxruntime")
    libraries = [*Path(onnxruntime.__file__).parent.glob("capi/libonnxruntime.so.*")]
    need("go")
    # No package of onnxruntime itself has the header of its C API; this Go module has it.
    (tmp_path / "go.mod").write_text("module x\n")
    command = ["go", "mod", "download", "-json", "github.com/yalue/onnxruntime_go@v1.27.0"]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, encoding="utf-8", timeout=PATIENCE_SECONDS, check=False
    )
    if done.returncode or not libraries:
        pytest.skip("needs the header and the library of onnxruntime")
    library = tmp_path / "libonnxruntime.so.1"
    library.symlink_to(libraries[0])
    program = tmp_path / "program"
    source = c_reader.ROOT / "readers" / "c" / "examples" / "onnxruntime.c"
    more = ["-isystem", json.loads(done.stdout)["Dir"], "-o", program, source, library, f"-Wl,-rpath,{tmp_path}"]
    subprocess.run(["cc", *c_reader.WARNINGS, *more], check=True, timeout=PATIENCE_SECONDS)
    for name in ("one", "two"):
        weight = onnx.numpy_helper.from_array(np.ones(1000, "float32"), "w")
        node = onnx.helper.make_node("Add", ["x", "w"], [f"y_{name}"])
        ends = [onnx.helper.make_tensor_value_info(end, 1, [1000]) for end in ("x", f"y_{name}")]
        graph = onnx.helper.make_graph([node], "g", ends[:1], ends[1:], [weight])
        opsets = [onnx.helper.make_opsetid("", 17)]
        onnx.save(onnx.helper.make_model(graph, ir_version=8, opset_imports=opsets), tmp_path / f"{name}.onnx")
    formats.pack([tmp_path / "one.onnx", tmp_path / "two.onnx"], tmp_path / "m.onnxz")
    for name in ("one", "two"):
        run = subprocess.run([program, tmp_path, "m.onnxz", name], capture_output=True, encoding="utf-8", check=False)
        assert (0, f"input x\noutput y_{name}\n") == (run.returncode, run.stdout), run.stderr
    run = subprocess.run([program, tmp_path, "m.onnxz"], capture_output=True, encoding="utf-8", check=False)
    assert run.returncode == 1
    assert run.stderr.endswith("m.onnxz: it has several models and no default one: say which\n")
