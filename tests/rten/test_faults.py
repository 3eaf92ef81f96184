"""The known faults are true: the newest RTen and onnxruntime have each, and others give the correct result."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from onnx import ModelProto, TensorProto, numpy_helper
from onnx.reference import ReferenceEvaluator

import formats
from tests.rten.evaluation import held, need_judge
from tests.rten.known_faults import OF_ONNXRUNTIME, OF_RTEN, rows
from tests.rten.rten_cases import run
from tests.runtime.runner import RunnerError
from tests.systems import PATIENCE_SECONDS

NOT_TOLD = {"div_by_small"}  # it needs a divisor below 2.9e-39, and a note would be in the report of most models
FIXED_IN_0_25 = {"conv_transpose_without_lists"}
RELEASE = "0.27"
ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "faults.md"
EACH_OF_RTEN = pytest.mark.parametrize("fault", OF_RTEN, ids=[fault.name for fault in OF_RTEN])
EACH_OF_ONNXRUNTIME = pytest.mark.parametrize("fault", OF_ONNXRUNTIME, ids=[fault.name for fault in OF_ONNXRUNTIME])


def same(outputs, expected, fault):
    """Return whether outputs equal those of a row: all numbers, and dims and types where the row has them."""
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
    """RTen computes the wrong result that the row names."""
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
    """Onnxruntime, without rewriting the model, gives the correct result of the row."""
    assert same(run(fault.proto, fault.inputs), fault.wanted, fault)


@pytest.mark.parametrize("runtime_name", ["rten", "onnxruntime"])
def test_rows_have_one_form(runtime_name):
    """A row has the keys that its file explains, a sentence, and a value for each input and output of its model."""
    text = (Path(__file__).parent / f"{runtime_name}_faults.toml").read_text(encoding="utf-8")
    keys = {"what", "model", "inputs", "found", "wanted"}
    more = {"source"} | ({"release", "is_optimised"} if runtime_name == "onnxruntime" else set())
    faults = {"rten": OF_RTEN, "onnxruntime": OF_ONNXRUNTIME}[runtime_name]
    for fault, row in zip(faults, rows(runtime_name).values(), strict=True):
        graph = fault.proto.graph
        assert fault.name == graph.name
        assert keys <= {*row} <= keys | more
        assert row["what"].strip().endswith((".", ".)"))
        assert row.get("source") in (None, "onnxruntime")
        assert [value.name for value in graph.input] == [*row["inputs"]]
        for outputs in (row["found"], row["wanted"]):
            assert isinstance(outputs, str) or [value.name for value in graph.output] == [*outputs]
    assert {*re.findall(r"^# (\w+)   ", text, re.MULTILINE)} == (keys if runtime_name == "rten" else more - {"source"})


def shown(outputs):
    """Return the outputs of a row as the page shows them."""
    return ", ".join(
        f"{name} = {value['numbers'] if isinstance(value, dict) else value}" for name, value in outputs.items()
    )


def test_the_page_shows_rows():
    """Each fault with a heading on the page is in the data, is silent, and has the model and numbers of its row."""
    sections = re.findall(r"^### .*?(?=^##|\Z)", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert len(sections) == 5
    for section in sections:
        (name,) = re.findall(r"\n(\w+) \(", section)
        row = (rows("rten") | rows("onnxruntime"))[name]
        assert row["model"] in section
        assert f"= {shown(row['inputs']).partition('= ')[2]}" in section
        assert shown(row["found"]) in section
        assert shown(row["wanted"]) in section


def test_the_page_counts_rows():
    """The page says how many faults are known."""
    text = " ".join(PAGE.read_text(encoding="utf-8").split())
    assert f"{len(OF_RTEN)} faults of RTen" in text
    assert f"{len(OF_ONNXRUNTIME)} of onnxruntime" in text


def test_models_are_written_with_their_inputs(tmp_path):
    """`python -m tests.rten.known_faults FOLDER` writes a model and its inputs, as ONNX's own tests have them."""
    subprocess.run([sys.executable, "-m", "tests.rten.known_faults", tmp_path], cwd=ROOT, check=True)
    assert {fault.name for fault in OF_RTEN + OF_ONNXRUNTIME} == {path.name for path in tmp_path.iterdir()}
    data = (tmp_path / "arg_max" / "test_data_set_0" / "input_0.pb").read_bytes()
    assert numpy_helper.to_array(TensorProto.FromString(data)).tolist() == [2, 2, 1]


def _version(text):
    return tuple(map(int, text.split(".")[:2]))


@pytest.mark.sample(3)
@EACH_OF_ONNXRUNTIME
def test_faults_of_onnxruntime_show(fault):
    """Onnxruntime computes the wrong result that the row names, or ends its process with these words."""
    is_fixed = isinstance(fault.wanted, str) and _version(onnxruntime.__version__) > _version(fault.release)
    if not isinstance(fault.wanted, str):
        need_judge()
    command = [sys.executable, "-m", "tests.rten.known_faults", "--run", fault.name]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=PATIENCE_SECONDS)
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
