"""`verify` finds each fault of a list; what both onnx's checker and onnxruntime refuse is never "ok"."""

from __future__ import annotations

from pathlib import Path

import onnx
import onnxruntime
import pytest
from faulty_models import FAULTS

from formats.verbs.verify import verify
from formats.verbs.verifying.findings import CODES

# What neither onnx's checker nor onnxruntime refuses, and nothing else finds, because the operator sets do not say it.
NOT_FOUND = {
    "Conv with other channels",
    "Reshape to another number of elements",
    "call with an unknown attribute",
    "call without a required attribute",
    "condition of a body is FLOAT",
    "function refers to an attribute it does not have",
    "function of a set that the model lacks",
    "output twice",
}
OF_FILES = ("V1", "V207", "V315")  # these have their own tests


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a data file and another folder."""
    (tmp_path / "w.bin").write_bytes(bytes(8))
    (tmp_path / "folder").mkdir()
    return tmp_path


def is_refused_by_checker(path: Path) -> bool:
    """Whether onnx's checker in full mode refuses the model."""
    try:
        onnx.checker.check_model(path, full_check=True)
    except Exception:  # several classes, some of C++
        return True
    return False


def is_refused_by_onnxruntime(path: Path) -> bool:
    """Whether onnxruntime does not load the model."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    except Exception:  # several classes, all of C++
        return True
    return False


def found(path: Path) -> tuple[bool, set[str]]:
    """Whether the model is right, and the codes of all findings."""
    try:
        result = verify(path)
    except OSError:  # a data file that is a folder
        return False, set()
    return result.ok, {finding.code for finding in (*result.errors, *result.notes)}


@pytest.mark.parametrize("name", FAULTS)
def test_faults_are_found(name: str, folder: Path) -> None:
    """A fault has a finding, an error if two other programs refuse the model, and its valid neighbour has no error."""
    path = folder / "m.onnx"
    path.write_bytes(FAULTS[name].right.SerializeToString())
    assert verify(path).errors == ()
    assert not is_refused_by_checker(path)
    path.write_bytes(FAULTS[name].wrong.SerializeToString())
    is_ok, codes = found(path)
    assert (is_ok and not codes) == (name in NOT_FOUND)
    assert not (is_ok and is_refused_by_checker(path) and is_refused_by_onnxruntime(path))


def test_each_code_has_a_fault(folder: Path) -> None:
    """The list has a fault for each code about the content of a model."""
    codes = set()
    for fault in FAULTS.values():
        (folder / "m.onnx").write_bytes(fault.wrong.SerializeToString())
        codes |= found(folder / "m.onnx")[1]
    assert {code for code in CODES if not code.startswith(OF_FILES)} <= codes


CYCLE = """<ir_version: 8, opset_import: ["" : 18]>
g (float[2] x) => (float[2] y) { [a] b = Neg(d) [b] c = Abs(b) d = Add(c, x) y = Exp(d) }"""
LATER = """<ir_version: 8, opset_import: ["" : 18]> g (float[2] x) => (float[2] y) { y = Abs(z) z = Neg(x) }"""


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (CYCLE, "the nodes a -> b -> 2 (Add) -> a form a cycle: each needs the result of the one before"),
        (LATER, "Abs uses 'z', which the later node graph.node[1] makes; nodes must be sorted"),
        (CYCLE.replace("Neg(d)", "Add(b, x)"), "Add needs its own result"),
    ],
)
def test_cycles_and_order_are_told_apart(text: str, wanted: str, tmp_path: Path) -> None:
    """A cycle is one finding that names its nodes; a node out of order names the node that must come before it."""
    path = tmp_path / "m.onnx"
    path.write_bytes(onnx.parser.parse_model(text).SerializeToString())
    assert [wanted] == [error.detail for error in verify(path).errors]


def test_types_follow_from_node_to_node(tmp_path: Path) -> None:
    """A type that only follows from operators is found where another operator does not take it, in functions, too."""
    text = """<ir_version: 8, opset_import: ["" : 18, "d" : 1]>
        g (float[2] x) => (bool[2] y) { s = Shape(x) c = Cast <to = 9> (s) z = d.f(c) y = Not(z) }
        <opset_import: ["" : 18], domain: "d"> f (p) => (q) { r = Identity(p) q = Neg(r) }"""
    path = tmp_path / "m.onnx"
    path.write_bytes(onnx.parser.parse_model(text).SerializeToString())
    (error,) = verify(path).errors
    assert ("V511", "functions[0].node[1]") == (error.code, error.where)
    assert error.detail.startswith("Neg of version 18 does not take tensor(bool) as input 0, but tensor(bfloat16)")


def test_long_cycles_are_found_without_recursion(tmp_path: Path) -> None:
    """A cycle of 20,000 nodes is one line."""
    names = [f"v{index}" for index in range(20_000)]
    nodes = [onnx.helper.make_node("Neg", [a], [b]) for a, b in zip([names[-1], *names], names, strict=False)]
    values = [onnx.helper.make_tensor_value_info(name, 1, [2]) for name in ("x", names[-1])]
    model = onnx.helper.make_model(onnx.helper.make_graph(nodes, "g", values[:1], values[1:]))
    path = tmp_path / "m.onnx"
    path.write_bytes(model.SerializeToString())
    (error,) = verify(path).errors
    assert "19994 more -> 0 (Neg) form a cycle" in error.detail
