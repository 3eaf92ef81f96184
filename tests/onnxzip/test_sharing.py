"""Processes that use one archive at the same time share its weights in memory."""

from __future__ import annotations

import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
from smaps import fields_of

import formats

NBYTES = 16 << 20
PROGRAM = """import sys, formats
views = [tensor.numpy() for tensor in formats.load(sys.argv[1]).graph.initializer]
print(sum(int(view.sum()) for view in views), flush=True)
input()
"""


@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="only Linux tells how pages are shared")
def test_two_processes_share_the_weights(tmp_path: Path) -> None:
    """The pages of a weight that two processes have read are counted only once for both."""
    array = np.arange(NBYTES // 4, dtype="uint32")
    path = tmp_path / "m.onnxz"
    formats.save(formats.Model(graph=formats.Graph(initializer=[formats.from_numpy(array, "w")])), path)
    shares = []
    with ExitStack() as running:
        for _ in range(2):
            process = subprocess.Popen(
                [sys.executable, "-c", PROGRAM, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
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
