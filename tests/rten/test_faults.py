"""The pages on faults are true: the newest RTen and onnxruntime have each, and others give the correct result."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from onnx.reference import ReferenceEvaluator

import formats
from tests.programs import need_built
from tests.rten import onnxruntime_faults
from tests.rten.evaluation import held, need_judge
from tests.rten.rten_cases import run
from tests.rten.rten_faults import DOCUMENT, FAULTS, FIRST, PROGRAM, RELEASE, page, program
from tests.runtime.runner import RunnerError, binary
from tests.systems import PATIENCE_SECONDS

NOT_TOLD = {"div_by_small"}  # it needs a divisor below 2.9e-39, and a note would be in the report of most models
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


@pytest.mark.parametrize("route", [{}, {"runtime": "rten"}], ids=["rten", "onnx"])
@pytest.mark.parametrize("fault", FAULTS, ids=IDS)
def test_conversion_avoids_it(fault, route, runtime, tmp_path):
    """The converted model is right, as .rten and as ONNX for RTen's loader, or the report says why not."""
    if (route and runtime.release != RELEASE) or fault.name in NOT_TOLD:
        return  # ONNX is written for the newest release
    source, made = tmp_path / "m.onnx", tmp_path / ("made.onnx" if route else "made.rten")
    source.write_bytes(fault.proto().SerializeToString())
    try:
        report = formats.convert(source, made, **route)
    except formats.FormatError:
        return
    if not any(loss.matters or loss.kind == "deviation" for loss in report.losses):
        assert same(runtime.run(made, {name: held(array) for name, array in fault.inputs.items()}), fault.wanted)


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


def test_the_first_faults_are_silent():
    """The five that stand first are on the page, and give other numbers instead of an error."""
    faults = {fault.name: fault for fault in FAULTS}
    assert len(FIRST) == 5
    assert not [name for name in FIRST if isinstance(faults[name].found, str)]


OF_ONNXRUNTIME = pytest.mark.parametrize(
    "fault", onnxruntime_faults.FAULTS, ids=[fault.name for fault in onnxruntime_faults.FAULTS]
)


@pytest.mark.sample(3)
@OF_ONNXRUNTIME
def test_faults_of_onnxruntime_show(fault):
    """Onnxruntime computes the wrong result that the page names, or ends its process with these words."""
    release = tuple(map(int, onnxruntime.__version__.split(".")[:2]))
    is_fixed = fault.below is not None and release >= fault.below
    if fault.below is None:
        need_judge()
    program = [sys.executable, onnxruntime_faults.__file__, "--run", fault.name]
    done = subprocess.run(program, capture_output=True, text=True, check=False, timeout=PATIENCE_SECONDS)
    if is_fixed:
        assert (done.returncode, fault.wanted in done.stderr) == (1, True), done.stderr
    elif isinstance(fault.found, str):
        assert done.returncode not in (0, 1)
        assert done.returncode == -8 if fault.found == "SIGFPE" else fault.found in done.stderr
    else:
        assert (0, "") == (done.returncode, done.stderr)
        found = [np.array(numbers).reshape(dims) for dims, numbers in json.loads(done.stdout)]
        assert same(found, fault.found), found
        assert not same(found, fault.wanted)


@OF_ONNXRUNTIME
def test_onnx_gives_what_is_wanted_of_onnxruntime(fault):
    """The reference implementation of ONNX gives the correct result, or onnxruntime with the input that was omitted."""
    if fault.below is not None:
        assert isinstance(fault.wanted, str)
    elif fault.source == "ONNX":
        assert same(ReferenceEvaluator(fault.proto()).run(None, dict(fault.inputs)), fault.wanted)
    else:
        proto = fault.proto()
        proto.graph.node[0].input.append("")
        assert same(run(proto, fault.inputs), fault.wanted)


def test_page_on_onnxruntime_is_written_from_the_models():
    """`python tests/rten/onnxruntime_faults.py` would write the page again without a change."""
    assert onnxruntime_faults.page() == onnxruntime_faults.DOCUMENT.read_text(encoding="utf-8")
