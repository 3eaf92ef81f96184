"""The page on faults of RTen is true: the newest release has each fault, and onnxruntime gives the correct result."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest
from evaluation import held
from programs import need_built
from rten_cases import run
from rten_faults import DOCUMENT, FAULTS, PROGRAM, RELEASE, page, program
from runtime.runner import RunnerError, binary

FIXED_IN_0_25 = {"conv_transpose_without_lists"}
IDS = [fault.name for fault in FAULTS]


def same(outputs, expected):
    """Return whether outputs equal those on the page: all numbers, and dims and types where the page has them."""
    if len(outputs) != len(expected):
        return False
    for got, wanted in zip(outputs, expected, strict=True):
        if isinstance(wanted, np.ndarray) and (
            got.shape != wanted.shape or (got.dtype.kind in "iu" and wanted.dtype.itemsize == 1 != got.dtype.itemsize)
        ):
            return False
        numbers = np.asarray(wanted, np.float64).ravel()
        if got.size != numbers.size or not np.allclose(got.ravel().astype(float), numbers, rtol=1e-5, equal_nan=True):
            return False
    return True


@pytest.mark.parametrize("fault", FAULTS, ids=IDS)
def test_faults_show(fault, runtime, tmp_path):
    """RTen computes the wrong result that the page names."""
    path = tmp_path / "m.onnx"
    path.write_bytes(fault.proto().SerializeToString())
    inputs = {name: held(array) for name, array in fault.inputs.items()}
    try:
        found = runtime.run(path, inputs)
    except RunnerError as error:
        found = error.message if runtime.release == RELEASE else fault.found  # other releases may use other words
    if fault.name in FIXED_IN_0_25 and runtime.release == "0.25":
        assert same(found, fault.wanted)
    elif isinstance(fault.found, str):
        assert fault.found in found
    else:
        assert same(found, fault.found), found
        assert not same(found, fault.wanted)


@pytest.mark.parametrize("fault", FAULTS, ids=IDS)
def test_onnxruntime_gives_what_is_wanted(fault):
    """Onnxruntime, without rewriting the model, gives the correct result of the page."""
    assert same(run(fault.proto(), fault.inputs), fault.wanted)


def test_page_and_program_are_written_from_the_models():
    """`python tests/rten/rten_faults.py` would write the page and the program again without a change."""
    assert page() == DOCUMENT.read_text(encoding="utf-8")
    assert program() == PROGRAM.read_text(encoding="utf-8")


@pytest.mark.outer
@pytest.mark.parametrize("fault", FAULTS, ids=IDS)
def test_the_program_shows_it(fault, tmp_path):
    """The Rust program runs, and prints what the page says."""
    runner = binary(RELEASE).with_name(f"rten-faults{Path(binary(RELEASE)).suffix}")
    need_built(runner, "tests/runtime/runner.py")
    (tmp_path / f"{fault.name}.onnx").write_bytes(fault.proto().SerializeToString())
    done = subprocess.run([runner, tmp_path, fault.name], capture_output=True, text=True, check=False)
    if isinstance(fault.found, str):
        assert done.returncode
        assert fault.found in done.stderr.replace('\\"', '"')
    else:
        assert (0, "") == (done.returncode, done.stderr)
        assert len(fault.found) == done.stdout.count("Tensor(")
