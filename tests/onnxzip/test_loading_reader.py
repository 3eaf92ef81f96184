"""The reader of class "loading" in `readers/python`: it passes its vectors, and gives the bytes that we give."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import formats

ROOT = Path(__file__).parents[2]
GOLDEN = Path(__file__).with_name("golden")
READER = ROOT / "readers" / "python" / "loading_reader.py"


@pytest.fixture(scope="module")
def reader() -> dict[str, Any]:
    """The functions of the program."""
    return runpy.run_path(str(READER))


def test_program_is_short() -> None:
    """The proposal says how many lines the program has, without blank ones, comments and the first docstring."""
    code = READER.read_text(encoding="utf-8").split('"""', 2)[2]
    nlines = sum(line.strip()[:1] not in ("", "#") for line in code.splitlines())
    assert f"| {nlines} | complete |" in (ROOT / "docs" / "rfc.md").read_text(encoding="utf-8")
    assert nlines < 70


def test_vectors(reader: dict[str, Any], tmp_path: Path) -> None:
    """It refuses what a loading reader must refuse, and accepts what a strict reader accepts."""
    path = tmp_path / "a.onnxz"
    count = 0
    for vector in json.loads((GOLDEN / "vectors.json").read_text()):
        if vector.get("loading"):
            count += 1
            path.write_bytes(bytes.fromhex(vector["refused"]))
            with pytest.raises(Exception):  # noqa: B017 - the program is short: any error is a refusal
                reader["load"](path)
        if "taken" in vector and vector.get("model", True):
            path.write_bytes(bytes.fromhex(vector["taken"]))
            reader["load"](path)
    assert count > 150


def test_bytes_are_ours(reader: dict[str, Any], tmp_path: Path) -> None:
    """It gives each weight the bytes that our reader gives it, of the model that was chosen."""
    for name, seed in (("a", 1), ("b", 2)):
        array = np.random.default_rng(seed).random(1000)
        formats.save(
            formats.Model(graph=formats.Graph(initializer=[formats.from_numpy(array, "w")])), tmp_path / f"{name}.onnx"
        )
    formats.pack([tmp_path / "a.onnx", tmp_path / "b.onnx"], tmp_path / "m.onnxz")
    for name in ("a", "b"):
        _, weights = reader["load"](tmp_path / "m.onnxz", name)
        ours = formats.load(tmp_path / "m.onnxz", model=name).graph
        assert ours is not None
        assert [ours.initializer[0].numpy().tobytes()] == [bytes(data) for data in weights.values()]
