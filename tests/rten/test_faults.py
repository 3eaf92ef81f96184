"""The pages on faults are true: the newest RTen and onnxruntime have each, and others give the correct result."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from onnx import ModelProto, TensorProto
from onnx.reference import ReferenceEvaluator

import formats
from tests.programs import need_built
from tests.rten import fault_pages
from tests.rten.evaluation import held, need_judge
from tests.rten.fault_pages import OF_ONNXRUNTIME, OF_RTEN, PAGES, PROGRAM, program
from tests.rten.rten_cases import run
from tests.runtime.runner import RunnerError, binary
from tests.systems import PATIENCE_SECONDS

NOT_TOLD = {"div_by_small"}  # it needs a divisor below 2.9e-39, and a note would be in the report of most models
FIXED_IN_0_25 = {"conv_transpose_without_lists"}
RELEASE = "0.27"
EACH_OF_RTEN = pytest.mark.parametrize("fault", OF_RTEN, ids=[fault.name for fault in OF_RTEN])
EACH_OF_ONNXRUNTIME = pytest.mark.parametrize("fault", OF_ONNXRUNTIME, ids=[fault.name for fault in OF_ONNXRUNTIME])


def same(outputs, expected, fault):
    """Return whether outputs equal those on the page: all numbers, and dims and types where the page has them."""
    if len(outputs) != len(expected):
        return False
    for got, wanted, value in zip(outputs, expected, fault.proto.graph.output, strict=True):
        is_narrow = value.type.tensor_type.elem_type in (TensorProto.INT8, TensorProto.UINT8)
        if isinstance(wanted, np.ndarray) and (
            got.shape != wanted.shape or (is_narrow and got.dtype.kind in "iu" and got.dtype.itemsize != 1)
        ):
            return False
        numbers = np.asarray(wanted, np.float64).ravel()
        if got.size != numbers.size or not np.allclose(got.ravel().astype(float), numbers, rtol=1e-5, equal_nan=True):
            return False
    return True


@EACH_OF_RTEN
def test_faults_show(fault, runtime, tmp_path):
    """RTen computes the wrong result that the page names."""
    path = tmp_path / "m.onnx"
    path.write_bytes(fault.proto.SerializeToString())
    inputs = {name: held(array) for name, array in fault.inputs.items()}
    try:
        found = runtime.run(path, inputs)
    except RunnerError as error:
        found = error.message if runtime.release == RELEASE else fault.found  # other releases may use other words
    if fault.name in FIXED_IN_0_25 and runtime.release == "0.25":
        assert same(found, fault.wanted, fault)
    elif isinstance(fault.found, str):
        assert fault.found in found
    else:
        assert same(found, fault.found, fault), found
        assert not same(found, fault.wanted, fault)


@pytest.mark.parametrize("route", [{}, {"runtime": "rten"}], ids=["rten", "onnx"])
@EACH_OF_RTEN
def test_conversion_avoids_it(fault, route, runtime, tmp_path):
    """The converted model is right, as .rten and as ONNX for RTen's loader, or the report says why not."""
    if (route and runtime.release != RELEASE) or fault.name in NOT_TOLD:
        return  # ONNX is written for the newest release
    source, made = tmp_path / "m.onnx", tmp_path / ("made.onnx" if route else "made.rten")
    source.write_bytes(fault.proto.SerializeToString())
    try:
        report = formats.convert(source, made, **route)
    except formats.FormatError:
        return
    if not any(loss.matters or loss.kind == "deviation" for loss in report.losses):
        assert same(runtime.run(made, {name: held(array) for name, array in fault.inputs.items()}), fault.wanted, fault)


@EACH_OF_RTEN
def test_onnxruntime_gives_what_is_wanted(fault):
    """Onnxruntime, without rewriting the model, gives the correct result of the page."""
    assert same(run(fault.proto, fault.inputs), fault.wanted, fault)


def test_the_program_has_the_lines_of_the_page():
    """`python tests/rten/fault_pages.py` would write the program again without a change."""
    assert program() == PROGRAM.read_text(encoding="utf-8")


def test_pages_are_read_as_a_whole():
    """Each heading of a fault stands for one that was read: no part of a page has another form."""
    for page, faults in zip(PAGES.values(), (OF_RTEN, OF_ONNXRUNTIME), strict=True):
        assert re.findall(r"^### `(.*)`$", page, re.MULTILINE) == [fault.name for fault in faults]


@pytest.mark.outer
@EACH_OF_RTEN
def test_the_program_shows_it(fault, tmp_path):
    """The Rust program runs, and prints what the page says."""
    runner = binary(RELEASE).with_name(f"rten-faults{Path(binary(RELEASE)).suffix}")
    need_built(runner, "tests/runtime/runner.py")
    (tmp_path / f"{fault.name}.onnx").write_bytes(fault.proto.SerializeToString())
    done = subprocess.run([runner, tmp_path, fault.name], capture_output=True, text=True, check=False)
    if isinstance(fault.found, str):
        assert done.returncode
        assert fault.found in done.stderr.replace('\\"', '"')
    else:
        assert (0, "") == (done.returncode, done.stderr)
        assert len(fault.found) == done.stdout.count("Tensor(")


def test_the_first_faults_are_silent():
    """The five that stand first are on the page, and give other numbers instead of an error."""
    faults = {fault.name: fault for fault in OF_RTEN}
    first = re.findall(r"^\d\. \[`(\w+)`\]", PAGES["rten"], re.MULTILINE)
    assert len(first) == 5
    assert not [name for name in first if isinstance(faults[name].found, str)]


def _version(text):
    return tuple(map(int, text.split(".")[:2]))


@pytest.mark.sample(3)
@EACH_OF_ONNXRUNTIME
def test_faults_of_onnxruntime_show(fault):
    """Onnxruntime computes the wrong result that the page names, or ends its process with these words."""
    is_fixed = isinstance(fault.wanted, str) and _version(onnxruntime.__version__) > _version(fault.release.split()[1])
    if not isinstance(fault.wanted, str):
        need_judge()
    program = [sys.executable, fault_pages.__file__, "--run", fault.name]
    done = subprocess.run(program, capture_output=True, text=True, check=False, timeout=PATIENCE_SECONDS)
    if is_fixed:
        assert (done.returncode, fault.wanted in done.stderr) == (1, True), done.stderr
    elif isinstance(fault.found, str):
        assert done.returncode not in (0, 1)
        assert done.returncode == -8 if fault.found == "SIGFPE" else fault.found in done.stderr
    else:
        assert (0, "") == (done.returncode, done.stderr)
        found = [np.array(numbers).reshape(dims) for dims, numbers in json.loads(done.stdout)]
        assert same(found, fault.found, fault), found
        assert not same(found, fault.wanted, fault)


@EACH_OF_ONNXRUNTIME
def test_onnx_gives_what_is_wanted_of_onnxruntime(fault):
    """The reference implementation of ONNX gives the correct result, or onnxruntime with the input that was omitted."""
    if isinstance(fault.wanted, str):
        return  # ONNX does not define a result
    if fault.source == "ONNX":
        assert same(ReferenceEvaluator(fault.proto).run(None, dict(fault.inputs)), fault.wanted, fault)
    else:
        proto = ModelProto.FromString(fault.proto.SerializeToString())
        proto.graph.node[0].input.append("")
        assert same(run(proto, fault.inputs), fault.wanted, fault)
