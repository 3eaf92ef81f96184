"""`--opset`, `--ir-version` and `--runtime` of the verbs that write, and what `inspect` says of releases."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import formats
from formats.codecs.onnxruntime_releases import NEWEST, RELEASES
from formats.errors import MissingPackageError, OptionError, UnsupportedError
from formats.ir import NEWEST_IR_VERSION
from formats.onnxpb.wire.schema import ENUMS
from tests import commands


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A model of IR version 10 and operator set 22, with metadata of its node, and a weight of 16 KiB."""
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 64]) for name in "xy")
    weight = numpy_helper.from_array(np.ones((64, 64), "float32"), "w")
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Mish", ["h"], ["y"], name="mish")]
    nodes[1].metadata_props.add(key="line", value="1")
    graph = helper.make_graph(nodes, "g", [x], [y], [weight])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10), tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


def versions(path: Path) -> tuple[int | None, int]:
    """Return the IR version and the operator set of a model."""
    model = formats.load(path)
    return model.ir_version, model.opset_import[0].version or 0


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({"opset": 13}, (7, 13)),
        ({"opset": 19}, (9, 19)),
        ({"opset": 13, "ir_version": 9}, (9, 13)),
        ({"opset": 25}, (10, 25)),
        ({"ir_version": 8}, (8, 22)),
        ({"opset": 15, "ir_version": 7}, (7, 15)),
        ({"runtime": "onnxruntime==1.16"}, (9, 19)),
        ({"runtime": "onnxruntime==1.18.1"}, (10, 21)),
        ({"runtime": "onnxruntime==1.32"}, (10, 22)),
        ({"runtime": "onnxruntime"}, (10, 22)),
        ({"runtime": "onnxruntime==1.18", "opset": 13}, (10, 13)),
        ({"runtime": "onnxruntime==1.18", "ir_version": 8}, (8, 21)),
    ],
)
@pytest.mark.parametrize("extension", ["onnx", "onnxz"])
def test_versions_are_written(options: dict[str, Any], found: tuple[int, int], extension: str, path: Path) -> None:
    """A model is written in the chosen versions; a release of onnxruntime lowers only what it cannot read."""
    new = path.with_name(f"new.{extension}")
    report = formats.convert(path, new, **options)
    assert versions(new) == found
    assert bool(report.edits) == (found != (10, 22))
    assert report.verdict.startswith("computes the same" if report.edits else "the same model")
    formats.save(formats.load(path), path.with_name(f"saved.{extension}"), **options)
    assert versions(path.with_name(f"saved.{extension}")) == found


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        ("convert m.onnx n.onnx --opset 13", 0, "converted: operator set 22 -> 13"),
        ("convert m.onnx n.onnx --ir-version 9", 0, "converted: IR version 10 -> 9"),
        ("edit m.onnx n.onnx --opset 13 --rename x=images", 0, "converted: operator set 22 -> 13"),
        ("convert m.onnx n.onnx --opset 99", 1, "ONNX has the operator sets 1 to"),
        ("convert m.onnx n.onnx --runtime rten==0.25", 2, "ONNX is written for rten 0.27 only"),
        ("convert m.onnx n.onnx --runtime onnxruntime==0.1", 2, "the known releases of onnxruntime are 1.8"),
    ],
)
def test_the_command(line: str, code: int, words: str, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command has the same options as the library, and answers mistakes before anything is written."""
    monkeypatch.chdir(path.parent)
    done = commands.run("formats", *line.split())
    assert done.exit_code == code
    assert words in done.stdout + done.stderr
    assert path.with_name(line.split()[2]).exists() == (code == 0)


@pytest.mark.parametrize(
    ("line", "sets", "words"),
    [
        ("--opset ai.onnx.ml=3", (3, 21, 10), "operator set 5 -> 3 of ai.onnx.ml"),
        ("--opset ai.onnx.ml=3 --opset 17", (3, 17, 8), "operator set 21 -> 17"),
        ("--opset ai.onnx=17", (5, 17, 8), "operator set 21 -> 17"),
        ("--runtime onnxruntime==1.18 --opset ai.onnx.ml=3", (3, 21, 10), "of ai.onnx.ml"),
        ("--opset ai.onnx.ml=9", 1, "ai.onnx.ml has the operator sets 1 to 5, not 9"),
        ("--opset ai.onnx.preview=1", 1, "imports no operators of ai.onnx.preview"),
        ("--opset com.microsoft=1", 1, "no versions of the operators of 'com.microsoft' are known, only of 'ai.onnx'"),
        ("--opset ai.onnx.ml=0", 2, "--opset is 'ai.onnx.ml=0', but must be a whole number of at least 1, or DOMAIN=N"),
        ("--opset =3", 2, "--opset is '=3', but must be a whole number of at least 1, or DOMAIN=N"),
        ("--runtime onnxruntime==1.11 --opset ai.onnx.ml=4", 2, "--opset of ai.onnx.ml is 4, but onnxruntime 1.11"),
    ],
)
def test_sets_of_other_domains(line: str, sets: Any, words: str, tmp_path: Path, monkeypatch: Any) -> None:
    """`--opset DOMAIN=N` changes the version of that set, together with others; without a domain, that of ONNX."""
    monkeypatch.chdir(tmp_path)
    text = """<ir_version: 10, opset_import: ["" : 21, "ai.onnx.ml" : 5]>
    g (float[1,2] x) => (float[1,2] y) { h = ai.onnx.ml.Normalizer<norm = "L1">(x) y = Relu(h) }"""
    onnx.save(onnx.parser.parse_model(text), "m.onnx")
    done = commands.run("formats", "convert", "m.onnx", "n.onnx", *line.split())
    assert words in done.stdout + done.stderr
    if isinstance(sets, int):
        assert (done.exit_code, Path("n.onnx").exists()) == (sets, False)
        return
    model = formats.load("n.onnx")
    versions = {entry.domain: entry.version for entry in model.opset_import}
    assert (versions["ai.onnx.ml"], versions[""], model.ir_version) == sets
    keywords = {"ai.onnx.ml": sets[0], "": sets[1]}
    formats.convert("m.onnx", "k.onnx", opset=keywords, ir_version=sets[2])
    assert Path("k.onnx").read_bytes() == Path("n.onnx").read_bytes()


def test_an_archive_is_edited_in_place(path: Path) -> None:
    """An archive without a destination is lowered in place, and no weight is written again."""
    archive = path.with_name("m.onnxz")
    formats.convert(path, archive)
    report = formats.edit(archive, runtime="onnxruntime==1.16")
    assert versions(archive) == (9, 19)
    assert [edit.kind for edit in report.edits] == ["opset", "ir_version", "in_place"] or versions(archive)
    assert formats.verify(archive, data=True).ok
    with pytest.raises(OptionError, match="needs a destination"):
        formats.edit(archive, runtime="rten")


def test_weights_that_are_not_read(path: Path) -> None:
    """A model whose data file is damaged is lowered all the same: only graphs are read."""
    data = path.with_name("d.onnx")
    formats.convert(path, data, external_data="d.data")
    report = formats.convert(data, path.with_name("e.onnx"), opset=13, dry_run=True)
    assert report.edits[0].kind == "opset"


def test_without_onnx(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without onnx, one error names the operator and the extra; what needs no new form has the same bytes."""
    with_onnx, without = path.with_name("with.onnx"), path.with_name("without.onnx")
    plain = path.with_name("plain.onnx")
    nodes = [formats.make_node("Flatten", ["x"], ["h"]), formats.make_node("BatchNormalization", [*"hsbmv"], ["y"])]
    ends = [formats.make_value_info(name, "float32", ["n", 2]) for name in "xy"]
    tensors = [formats.from_numpy(np.ones(2, "float32"), name) for name in "sbmv"]
    graph = formats.Graph(name="g", node=nodes, input=ends[:1], output=ends[1:], initializer=tensors)
    formats.save(formats.Model(8, opset_import=[formats.OperatorSetId("", 17)], graph=graph), plain)
    formats.convert(plain, with_onnx, opset=14, dtype="float16")
    monkeypatch.setitem(sys.modules, "onnx", None)
    formats.convert(plain, without, opset=14, dtype="float16")
    assert with_onnx.read_bytes() == without.read_bytes()
    line = r"definitions of \w+ by other operators need the package onnx, .* pip install 'onnx-formats\[onnx\]'$"
    with pytest.raises(MissingPackageError, match=line):
        formats.convert(path, path.with_name("n.onnx"), opset=13)
    formats.convert(path, path.with_name("n.onnx"), ir_version=8)
    assert not list(path.parent.glob("*.tmp*"))


def test_a_refusal_names_the_file(path: Path) -> None:
    """What stands in the way is named with the file and the node."""
    model = formats.load(path)
    model.graph.node[1].op_type = "DFT"
    formats.save(model, path, overwrite=True)
    with pytest.raises(UnsupportedError) as caught:
        formats.convert(path, path.with_name("n.onnx"), opset=13)
    assert "graph.node[1] (DFT 'mish')" in str(caught.value)
    assert caught.value.path == path


def test_inspect_says_which_releases_read_a_model(path: Path) -> None:
    """Inspect lists the releases of onnxruntime that read the versions of a model, and of RTen for its own format."""
    assert formats.inspect(path).releases == {"onnxruntime": tuple(RELEASES)[list(RELEASES).index("1.21") :]}
    formats.convert(path, path.with_name("o.onnx"), runtime="onnxruntime==1.15")
    since = tuple(RELEASES)[list(RELEASES).index("1.15") :]
    assert formats.inspect(path.with_name("o.onnx")).releases == {"onnxruntime": since}
    assert "read by     onnxruntime 1.21 and later" in commands.run("formats", "inspect", path).stdout
    formats.convert(path, path.with_name("o.rten"))
    assert formats.inspect(path.with_name("o.rten")).releases == {"rten": ("0.25", "0.26", "0.27")}
    model = formats.load(path)
    model.opset_import[0].version = 99
    formats.save(model, path, overwrite=True)
    assert "no known release of onnxruntime" in commands.run("formats", "inspect", path).stdout


def test_inspect_for_a_release(path: Path) -> None:
    """`--runtime onnxruntime==RELEASE` says what a conversion would lower, and what stands in the way."""
    found = formats.inspect(path, runtime="onnxruntime==1.16").runtime
    assert found is not None
    assert (found.name, found.runs, found.loads, found.stops) == ("onnxruntime==1.16", False, False, ())
    assert [change.reason.partition(",")[0] for change in found.changes] == [
        "operator set 22 -> 19",
        "IR version 10 -> 9",
    ]
    newest = formats.inspect(path, runtime=f"onnxruntime=={NEWEST}").runtime
    assert newest is not None
    assert newest.runs
    with pytest.raises(OptionError, match=r"only the ONNX loader of rten 0\.27 is known"):
        formats.inspect(path, runtime="rten==0.25")


def test_limits_are_those_of_the_schema() -> None:
    """The newest IR version that is known is the newest of the schema."""
    assert max(ENUMS["Version"].values()) == NEWEST_IR_VERSION


def test_an_operator_set_brings_its_ir_version(path: Path) -> None:
    """`--opset` lowers the IR version to that of its time, and says so; if parts need a newer one, it says which."""
    report = formats.convert(path, path.with_name("n.onnx"), opset=13)
    assert versions(path.with_name("n.onnx")) == (7, 13)
    assert [edit.detail for edit in report.edits][1:] == [
        "IR version 10 -> 7, which onnxruntime 1.8 reads, the first with operator set 13"
    ]
    assert formats.inspect(path.with_name("n.onnx")).releases["onnxruntime"] == tuple(RELEASES)
    function = onnx.parser.parse_function('<domain: "own", opset_import: ["" : 22]> f (a) => (b) { b = Neg(a) }')
    proto = onnx.load(path)
    proto.functions.append(function)
    proto.opset_import.append(helper.make_opsetid("own", 1))
    onnx.save(proto, path)
    report = formats.convert(path, path.with_name("f.onnx"), opset=13)
    assert versions(path.with_name("f.onnx")) == (8, 13)
    (told,) = (loss for loss in report.losses if loss.kind == "ir_version")
    assert told.detail.startswith("the IR version is 8, and programs of the time of the operator set read 7: functions")


def test_a_runtime_without_a_release_is_the_newest(path: Path) -> None:
    """`--runtime onnxruntime` says which release it means; a named one needs no line."""
    done = commands.run("formats", "convert", path, path.with_name("n.onnx"), "--runtime", "onnxruntime")
    words = f"note: --runtime onnxruntime without a release means {NEWEST}, the newest that is known here"
    assert words in done.stdout.splitlines()
    report = formats.convert(path, path.with_name("o.onnx"), runtime=f"onnxruntime=={NEWEST}")
    assert report.losses == ()


QUANTIZED = """<ir_version: 10, opset_import: ["" : 21]>
g (uint8[2,2] x) => (uint8[2,2] y) <float s = {1.0}, uint8 z = {0}> { y = QLinearMatMul(x, s, z, x, s, z, s, z) }"""
QUICK = """<ir_version: 8, opset_import: ["" : 14, "com.microsoft" : 1]>
g (float[2] x) => (float[2] y) { y = com.microsoft.QuickGelu(x) }"""
DEFORMED = """<ir_version: 10, opset_import: ["" : 21]> g (float[1,1,2,2] x, float[1,1,1,1] w, float[1,2,2,2] o)
=> (float[1,1,2,2] y) { y = DeformConv(x, w, o) }"""

ADDED = """<ir_version: 7, opset_import: ["" : 14]> g (bool c, float[2] x) => (uint8[2] y) { y = If(c)
<then_branch = t () => (uint8[2] a) { b = Cast<to = 2>(x) a = Add(b, b) },
else_branch = e () => (uint8[2] d) { d = Cast<to = 2>(x) }> }"""


@pytest.mark.parametrize(
    ("text", "older", "first", "reason"),
    [
        ("", "1.18", "1.19", "it has no kernels for INT4; 1.19 is the first that has"),
        (QUICK, "1.13", "1.14", "it has no kernel on the CPU for com.microsoft.QuickGelu; 1.14 is the first that has"),
        (DEFORMED, "1.18", "1.25", "it has no kernel for DeformConv in operator set 21; 1.25 is the first that has"),
        (ADDED, "1.20", "1.21", "it has no kernel for Add with UINT8 in operator set 14; 1.21 is the first that has"),
    ],
)
def test_a_release_that_reads_the_versions_may_lack_kernels(
    text: str, older: str, first: str, reason: str, tmp_path: Path
) -> None:
    """A release is promised only if it takes the types and operators too; written for an older one, it is a warning."""
    if not text:
        weight = helper.make_tensor("w", TensorProto.INT4, [4], [1, 2, 3, 4])
        scale = helper.make_tensor("s", TensorProto.FLOAT, [], [1.0])
        y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [4])
        graph = helper.make_graph(
            [helper.make_node("DequantizeLinear", ["w", "s"], ["y"])], "g", [], [y], [weight, scale]
        )
        proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    else:
        proto = onnx.parser.parse_model(text)
    onnx.save(proto, tmp_path / "m.onnx")
    assert formats.inspect(tmp_path / "m.onnx").releases["onnxruntime"][0] == first
    report = formats.convert(tmp_path / "m.onnx", tmp_path / "n.onnx", runtime=f"onnxruntime=={older}")
    assert [(loss.kind, loss.detail, loss.matters) for loss in report.losses] == [
        ("runtime", f"onnxruntime {older} does not run the model: {reason}", True)
    ]
    found = formats.inspect(tmp_path / "m.onnx", runtime=f"onnxruntime=={older}").runtime
    assert found is not None
    assert (found.runs, found.stops, found.losses) == (False, (report.losses[0].detail,), ())
    assert formats.convert(tmp_path / "m.onnx", tmp_path / "o.onnx", runtime=f"onnxruntime=={first}").losses == ()


@pytest.mark.parametrize(("release", "told"), [("1.13", False), ("1.14", True), ("1.15", False)])
def test_a_release_may_lack_what_an_older_one_has(release: str, told: bool, tmp_path: Path) -> None:
    """Only the releases that lack a kernel are told; `inspect` promises those from which on all have it."""
    text = """<ir_version: 8, opset_import: ["" : 17]> g (float16[2] x) => (float16[2] y) { y = Elu(x) }"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "m.onnx")
    losses = formats.convert(tmp_path / "m.onnx", tmp_path / "n.onnx", runtime=f"onnxruntime=={release}").losses
    words = "it has no kernel for Elu with FLOAT16 in operator set 17; 1.15 is the first that has"
    assert [loss.detail.partition(": ")[2] for loss in losses] == [words] * told
    assert formats.inspect(tmp_path / "m.onnx").releases["onnxruntime"][0] == "1.15"


def test_nothing_is_said_of_types_that_are_not_known(tmp_path: Path) -> None:
    """A value that an unknown operator makes may have any type, so no release is said to lack a kernel for it."""
    text = """<ir_version: 7, opset_import: ["" : 14, "own" : 1]> g (uint8[2] x) => (bool[2] y)
    { a = own.Twice(x) b = Mul(a, a) y = Cast<to = 9>(b) }"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "m.onnx")
    assert not formats.convert(tmp_path / "m.onnx", tmp_path / "n.onnx", runtime="onnxruntime==1.8").losses


def test_no_release_reads_a_model_without_operator_sets(path: Path) -> None:
    """A model that imports no operator set is promised to no release, as none makes a session of it."""
    proto = onnx.load(path)
    del proto.opset_import[:]
    onnx.save(proto, path)
    assert formats.inspect(path).releases == {"onnxruntime": ()}
    assert "no known release of onnxruntime" in commands.run("formats", "inspect", path).stdout


def test_a_set_without_kernels_is_not_chosen(tmp_path: Path) -> None:
    """`runtime=onnxruntime` takes the newest operator set in which it has a kernel for each node."""
    nodes = [
        formats.make_node("QuantizeLinear", ["x", "s"], ["q"]),
        formats.make_node("DequantizeLinear", ["q", "s"], ["y"]),
    ]
    ends = [formats.make_value_info(name, "float32", ["n", 2]) for name in "xy"]
    graph = formats.Graph(name="g", node=nodes, input=ends[:1], output=ends[1:])
    graph.initializer = [formats.from_numpy(np.array(0.1, "float32"), "s")]
    model = formats.Model(10, opset_import=[formats.OperatorSetId("", 28)], graph=graph)
    formats.save(model, tmp_path / "m.onnx")
    result = formats.convert(tmp_path / "m.onnx", tmp_path / "n.onnx", runtime="onnxruntime")
    assert [edit.detail for edit in result.edits] == ["operator set 28 -> 27, 2 nodes converted"]
    onnxruntime.InferenceSession(tmp_path / "n.onnx")
    result = formats.convert(tmp_path / "m.onnx", tmp_path / "older.onnx", runtime="onnxruntime==1.23")
    assert versions(tmp_path / "older.onnx") == (10, 22)  # 1.23 also reads 23, but has no kernel for it
    onnx.save(onnx.parser.parse_model(QUANTIZED), tmp_path / "q.onnx")
    assert formats.inspect(tmp_path / "q.onnx").releases["onnxruntime"][0] == "1.20"
    result = formats.convert(tmp_path / "q.onnx", tmp_path / "older.q.onnx", runtime="onnxruntime==1.18")
    assert (versions(tmp_path / "older.q.onnx"), result.losses) == ((10, 20), ())
    result = formats.convert(tmp_path / "m.onnx", tmp_path / "n.ort")
    assert "has no kernel on the CPU for QuantizeLinear 28, DequantizeLinear 28" in result.losses[0].detail


@pytest.mark.parametrize(("release", "stays"), [("1.8", False), ("1.10", False), ("1.11", True)])
def test_a_release_that_takes_no_allowzero(release: str, stays: bool, tmp_path: Path) -> None:
    """Releases before 1.11 take no dim of -1 in a Reshape with allowzero, so it is dropped."""
    text = """<ir_version: 7, opset_import: ["" : 14]> g (float[n,6] x, bool c) => (float[a,b] y)
    { y = If(c) <then_branch = t () => (float[a,b] r) { s = Constant<value_ints = [-1, 2]>()
    r = Reshape<allowzero = 1>(x, s) }, else_branch = e () => (float[a,b] r) { r = Identity(x) }> }"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "m.onnx")
    report = formats.convert(tmp_path / "m.onnx", tmp_path / "n.onnx", runtime=f"onnxruntime=={release}")
    (branch,) = (a.g for a in onnx.load(tmp_path / "n.onnx").graph.node[0].attribute if a.name == "then_branch")
    assert bool(branch.node[1].attribute) == stays
    words = f"1 Reshape without allowzero, since onnxruntime {release} takes no dim of -1 with it"
    assert [edit.detail for edit in report.edits] == ([] if stays else [words])
    assert [(loss.kind, loss.matters) for loss in report.losses] == ([] if stays else [("opset", False)])
