"""Processes that use one archive at the same time share its weights in memory."""

from __future__ import annotations

import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from smaps import fields_of

import formats

NBYTES = 16 << 20
PROGRAM = """import sys, formats
model = formats.load(sys.argv[1], model=sys.argv[2] if sys.argv[2:] else None)
views = [tensor.numpy() for tensor in model.graph.initializer]
print(sum(int(view.sum()) for view in views), flush=True)
input()
"""


def test_two_processes_share_the_weights(tmp_path: Path) -> None:
    """The pages of a weight that two processes have read are counted only once for both."""
    array = np.arange(NBYTES // 4, dtype="uint32")
    path = tmp_path / "m.onnxz"
    formats.save(formats.Model(graph=formats.Graph(initializer=[formats.from_numpy(array, "w")])), path)
    check_shared(path, array, [], [])


def test_two_models_of_one_archive_share_a_weight(tmp_path: Path) -> None:
    """Two processes with different models of one archive have the pages of their common weight once."""
    array = np.arange(NBYTES // 4, dtype="uint32")
    for name in ("encoder", "decoder"):
        model = formats.Model(graph=formats.Graph(initializer=[formats.from_numpy(array, f"w of {name}")]))
        formats.save(model, tmp_path / f"{name}.onnx")
    done = formats.pack([tmp_path / "encoder.onnx", tmp_path / "decoder.onnx"], tmp_path / "m.onnxz")
    assert NBYTES == done.shared_nbytes
    check_shared(tmp_path / "m.onnxz", array, ["encoder"], ["decoder"])


def check_shared(path: Path, array: np.ndarray[Any, Any], *arguments: list[str]) -> None:
    """Check that processes that read the weight count its pages only once for all."""
    if not Path("/proc/self/smaps_rollup").exists():
        pytest.skip("only Linux tells how pages are shared")
    shares = []
    with ExitStack() as running:
        for more in arguments:
            process = subprocess.Popen(
                [sys.executable, "-c", PROGRAM, path, *more], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
            running.enter_context(process)
            running.callback(process.kill)
            assert process.stdout
            assert int(array.sum(dtype="uint64")) == int(process.stdout.readline())
            shares.append(Path(f"/proc/{process.pid}/smaps"))
        mapped = [fields_of(smaps.read_text(), path.name) for smaps in shares]
    assert all(fields["Rss"] >= NBYTES for fields in mapped)
    assert NBYTES <= sum(fields["Pss"] for fields in mapped) < 1.1 * NBYTES
    assert not any(fields["Anonymous"] for fields in mapped)
