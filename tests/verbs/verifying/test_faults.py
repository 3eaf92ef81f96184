"""`verify` finds each fault of a list; what both onnx's checker and onnxruntime refuse is never "ok".

The codes of findings are documented, and nothing in a model is newer than the versions that it names.
"""

from __future__ import annotations

import re
from pathlib import Path

import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from formats.ir import FIRST_WITH_FIELDS, dtypes
from formats.onnxpb.wire.schema import MESSAGES
from formats.verbs.verify import verify
from formats.verbs.verifying.findings import CODES, finding_of
from tests.verbs.faulty_models import BRANCH, FAULTS, MODEL, parsed

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
# Where some of the faults are, and what is said of them: the model of each is in `faulty_models.py`.
PLACES: dict[str, tuple[str, str, str]] = {
    "graph without a name": ("V301", "graph", "the graph has no name"),
    "input without a type": ("V502", "graph.input[0]", "'x' has no type"),
    "type that says nothing": ("V503", "graph.input[0].type", "the type of 'x' says nothing"),
    "input without elem_type": ("V504", "graph.input[0].type.tensor_type", "the tensor_type of 'x' has no elem_type"),
    "output without a shape": (
        "V507",
        "graph.output[0].type.tensor_type",
        "'y' has no shape, but ONNX requires one; dims may have names",
    ),
    "initializer without a name": ("V302", "graph.initializer[0]", "the initialiser has no name"),
    "initializer no input in ir_version 3": (
        "V303",
        "graph.initializer[0]",
        "'w' is not an input, which ir_version 3 requires of an initialiser",
    ),
    "data in two fields": ("V601", "graph.initializer[0]", "tensor 'w' has data in raw_data and float_data"),
    "external data without a location": ("V101", "graph.initializer[0]", "external data has no location"),
    "function without a name": ("V314", "functions[0]", "the function has no name"),
    "function input twice": ("V316", "functions[0]", "2 inputs of f are called 'p'"),
    "sparse without values": ("V604", "graph.sparse_initializer[0]", "the sparse tensor has no values"),
    "no ir_version": ("V201", "ir_version", "the model has no ir_version"),
    "no opset_import": ("V209", "graph.node[0]", "Neg is of ai.onnx, but the model imports no version of it"),
    "opset without version": ("V205", "opset_import[0]", "the version of ai.onnx is missing"),
    "sets before ir_version 3": ("V203", "opset_import", "a model of ir_version 2 cannot import operator sets"),
    "metadata key twice": ("V107", "metadata_props", "2 entries have the key 'a'"),
    "unknown operator": ("V404", "graph.node[0]", "ai.onnx has no operator Frobnicate"),
    "no op_type": ("V401", "graph.node[0]", "the node has no op_type"),
    "operator of a newer set": (
        "V404",
        "graph.node[0]",
        "version 18 of ai.onnx does not have Gelu, which is new in version 20",
    ),
    "deprecated operator": (
        "V405",
        "graph.node[0]",
        "Upsample is deprecated, and version 18 of ai.onnx does not have it",
    ),
    "too many inputs": ("V406", "graph.node[0]", "Neg has 2 inputs, but needs 1 input"),
    "too many outputs": ("V406", "graph.node[0]", "Neg has 2 outputs, but needs 1 output"),
    "no inputs": ("V406", "graph.node[0]", "Neg has 0 inputs, but needs 1 input"),
    "omitted input": ("V407", "graph.node[0].input[1]", "Add cannot omit its input 1"),
    "unknown attribute": ("V418", 'graph.node[0].attribute["alpha"]', "Neg of version 18 has no attribute 'alpha'"),
    "attribute of another type": (
        "V419",
        'graph.node[0].attribute["alpha"]',
        "'alpha' of Elu of version 18 must be FLOAT, but is INT",
    ),
    "missing attribute": ("V421", "graph.node[0]", "Cast of version 18 needs the attribute 'to'"),
    "input of nothing": ("V306", "graph.node[0]", "Add uses 'q', which nothing makes"),
    "output of nothing": ("V309", "graph", "the output 'y' is not produced by any node"),
    "node out of order": (
        "V307",
        "graph.node[0]",
        "Abs uses 'z', which the later node graph.node[1] makes; sort the nodes: formats edit --sort",
    ),
    "own result": ("V308", "graph.node[0]", "Add needs its own result"),
    "value made twice": ("V305", "graph.node[1]", "Abs makes 'y', which already exists"),
    "value made twice by a node": ("V305", "graph.node[0]", "Split makes 'y', which already exists"),
    "input made again": ("V305", "graph.node[0]", "Neg makes 'x', which already exists"),
    "input twice": ("V304", "graph", "2 inputs or initialisers are called 'x'"),
    "initializer twice": ("V304", "graph", "2 inputs or initialisers are called 'w'"),
    "branch uses a value of the other branch": (
        "V306",
        'graph.node[0].attribute["else_branch"].g.node[0]',
        "Abs uses 'r', which nothing makes",
    ),
    "later value in a branch": (
        "V307",
        'graph.node[0].attribute["then_branch"].g.node[0]',
        "Neg uses 'z', which the later node graph.node[1] makes; sort the nodes: formats edit --sort",
    ),
    "unknown domain": ("V209", "graph.node[0]", "Neg is of foo.bar, but the model imports no version of it"),
    "domain without import": ("V209", "graph.node[0]", "f is of d, but the model imports no version of it"),
    "function without opset_import": (
        "V209",
        "functions[0].node[0]",
        "Neg is of ai.onnx, but the model imports no version of it",
    ),
}
OF_FILES = ("V1", "V207", "V315", "V606")  # these have their own tests


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


@pytest.mark.parametrize("name", PLACES)
def test_faults_are_found_at_their_places(name: str, folder: Path) -> None:
    """The error says what is wrong and where, and has its code; `onnx.checker` refuses the same models."""
    path = folder / "m.onnx"
    path.write_bytes(FAULTS[name].wrong.SerializeToString())
    assert PLACES[name] in [(error.code, error.where, error.detail) for error in verify(path).errors]
    assert is_refused_by_checker(path)


RIGHT = {
    "values around a branch": BRANCH.replace("y = If", "o = Neg(x) y = If").replace("s = Abs(x)", "s = Add(x, o)"),
    "an input that is left out": 'g (float[2] x) => (float[2] y) <float w = {1}> { y = Clip(x, "", w) }',
    "an input with a value": "g (float[2] x, float[2] w) => (float[2] y) <float[2] w = {1, 2}> { y = Add(x, w) }",
    "the time before operator sets": "<ir_version: 2> g (float[2] x) => (float[2] y) { y = Neg(x) }",
    "one set in two spellings": MODEL.replace('"" : 18', '"" : 18, "ai.onnx" : 18'),
}


@pytest.mark.parametrize("text", RIGHT.values(), ids=RIGHT)
def test_names_that_lead_somewhere(text: str, tmp_path: Path) -> None:
    """Values of outer graphs, omitted inputs, and initialisers that are inputs are not errors."""
    (tmp_path / "m.onnx").write_bytes(parsed(text).SerializeToString())
    assert () == verify(tmp_path / "m.onnx").errors


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
        (LATER, "Abs uses 'z', which the later node graph.node[1] makes; sort the nodes: formats edit --sort"),
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
    assert "19,994 more -> 0 (Neg) form a cycle" in error.detail


# Codes


def test_the_page_has_all_codes(root: Path) -> None:
    """docs/verify.md has a row for each code, with its kind, its weight and its title, in the same order."""
    rows = re.findall(
        r"^\| `(V\d+)` \| `(\w+)` \| (error|note) \| (.+) \|$", (root / "docs" / "verify.md").read_text("utf-8"), re.M
    )
    assert rows == [(code, rule.kind, "error" if rule.is_error else "note", rule.title) for code, rule in CODES.items()]


def test_a_finding_has_the_kind_of_its_code() -> None:
    """The kind of a finding follows from its code."""
    for code, rule in CODES.items():
        assert (rule.kind, "a", "b", code) == finding_of(code, "a", "b")


# Versions


def model(elem_type: int = TensorProto.FLOAT, ir_version: int = 8) -> onnx.ModelProto:
    """Return a model of one node."""
    values = [helper.make_tensor_value_info(name, elem_type, [2]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "g", values[:1], values[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=ir_version)


def version_errors(proto: onnx.ModelProto, folder: Path) -> list[tuple[str, str]]:
    """Return the errors of kind "version": the operator set may be too old for a type, too."""
    return [error for error in errors(proto, folder) if error[0] == "version"]


def errors(proto: onnx.ModelProto, folder: Path) -> list[tuple[str, str]]:
    """Return kind and place of all errors."""
    path = folder / "m.onnx"
    path.write_bytes(proto.SerializeToString())
    return [finding[:2] for finding in verify(path).errors]


@pytest.mark.parametrize("row", dtypes.DATA_TYPES, ids=lambda row: row.name)
def test_types_newer_than_the_ir_version_are_found(row: dtypes.DataType, tmp_path: Path) -> None:
    """An element type needs the ir_version that introduced it."""
    assert [] == version_errors(model(row.number, max(row.ir_version, 3)), tmp_path)
    if row.ir_version > 3:
        wanted = [("version", f"graph.{side}[0].type.tensor_type.elem_type") for side in ("input", "output")]
        assert wanted == sorted(version_errors(model(row.number, row.ir_version - 1), tmp_path))


def test_fields_newer_than_the_ir_version_are_found(tmp_path: Path) -> None:
    """A field needs the ir_version that introduced it, and every listed field exists."""
    proto = model(ir_version=9)
    proto.graph.node[0].metadata_props.add(key="a", value="b")
    assert [("version", "graph.node[0].metadata_props")] == errors(proto, tmp_path)
    proto.ir_version = 10
    assert [] == errors(proto, tmp_path)
    for message, name in FIRST_WITH_FIELDS:
        assert name in {row.name for row in MESSAGES[message]}
