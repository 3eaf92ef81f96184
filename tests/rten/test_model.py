"""Whole .rten files: sections, versions, metadata, and the way back."""

from __future__ import annotations

import hashlib
import json
import struct
from pathlib import Path

import numpy as np
import pytest

from formats.errors import DecodeError, EncodeError, FormatError, UnsupportedError
from formats.ir.model import Node, StringStringEntry
from formats.registry import Match
from formats.rten import CODEC, RtenOptions
from formats.rten.model import METADATA_KEYS, is_rten_form
from formats.rten.refusal import Refusal, RefusalError
from formats.tensordata.engine import to_bytes
from formats.tensordata.source import Literal

PATH = Path("m.rten")
SOURCE = Literal(b"the bytes of a file")
WEIGHT = np.arange(100, dtype="<f4")


@pytest.fixture
def model(make):
    """A model with a large constant, a small one and a subgraph."""
    branch = make.graph([make.node("Add", ["x", "w"], ["t"])], outputs=["t"])
    other = make.graph([make.node("Mul", ["x", "s"], ["e"])], outputs=["e"], constants=[make.tensor("s", [2.0])])
    graph = make.graph(
        [make.node("If", ["c"], ["y"], then_branch=branch, else_branch=other)],
        [make.value("c", 6, []), make.value("x", 1, ["n", 100])],
        [make.value("y", 1, ["n", 100])],
        [make.tensor("w", WEIGHT)],
    )
    return make.model(graph)


def written(model, **options):
    """Return the file."""
    return to_bytes(CODEC.plan(model, PATH, RtenOptions(**options)))


def reread(data):
    """Return the model in a file."""
    return CODEC.read(Literal(data), PATH)


def test_layout(model):
    """A file is a header, the model and, from a multiple of 64 bytes on, the tensors."""
    data = written(model)
    magic, version, model_offset, model_nbytes, tensor_offset = struct.unpack_from("<4sIQQQ", data)
    assert (b"RTEN", 2, 32) == (magic, version, model_offset)
    assert tensor_offset % 64 == 0 <= tensor_offset - model_offset - model_nbytes < 64
    assert WEIGHT.tobytes() == data[tensor_offset:]


def test_version_1(model):
    """A version 1 file is the model alone, with the tensors inside; it is read like the other."""
    data = written(model, rten_version=1)
    assert b"RTEN" != data[:4]
    assert WEIGHT.tobytes() in data
    assert reread(written(model)) == reread(data)


@pytest.mark.parametrize("version", [0, 3])
def test_other_versions(model, version):
    """There are no other versions."""
    with pytest.raises(EncodeError, match=f"there is no version {version}"):
        written(model, rten_version=version)


@pytest.mark.parametrize("version", [1, 2])
def test_there_and_back(model, version):
    """A model that was read is in RTen's form, and is written back to the same bytes."""
    data = written(model, rten_version=version)
    first = reread(data)
    assert is_rten_form(first)
    assert not is_rten_form(model)
    assert ["rten"] == [node.domain for node in first.graph.node]
    assert data == written(first, rten_version=version)


def test_a_model_without_weights(make):
    """The tensor section of a model without tensors starts where the file ends."""
    data = written(make.model(make.graph([make.node("Abs", ["x"], ["y"])], ["x"], ["y"])))
    assert len(data) == struct.unpack_from("<Q", data, 24)[0]
    assert ["Abs"] == [node.op_type for node in reread(data).graph.node]


def test_the_hash_of_the_source(model):
    """The file tells the SHA-256 of the file that it was made from, unless that is not wanted."""
    metadata = reread(written(model, source_hash=SOURCE)).metadata_props
    assert [("onnx_hash", hashlib.sha256(SOURCE.data).hexdigest())] == [(e.key, e.value) for e in metadata]
    assert [] == reread(written(model, source_hash=SOURCE, onnx_hash=False)).metadata_props


def test_metadata(model):
    """Metadata come from the model, options come before them, and what has no place is a loss."""
    model.metadata_props = [StringStringEntry(key=key, value=f"old {key}") for key in ("license", "commit", "author")]
    model.producer_name = "somebody"
    plan = CODEC.plan(model, PATH, RtenOptions(metadata={"commit": "new é"}))
    assert ["producer_name", "author"] == [loss.detail.split("(")[1][:-1] for loss in plan.losses]
    metadata = reread(to_bytes(plan)).metadata_props
    assert [("license", "old license"), ("commit", "new é")] == [(e.key, e.value) for e in metadata]


def test_all_metadata(model):
    """Each of the eight entries has its place."""
    entries = {key: f"the {key}" for key in METADATA_KEYS}
    metadata = reread(written(model, metadata=entries)).metadata_props
    assert entries == {entry.key: entry.value for entry in metadata}


def test_unknown_metadata(model):
    """An entry that RTen has not is an error that names those it has."""
    with pytest.raises(EncodeError, match="no metadata called 'author'; there are onnx_hash, description"):
        written(model, metadata={"author": "me"})


def test_documentation_is_a_loss(model):
    """Documentation, and metadata of parts, are reported once a kind."""
    model.doc_string = "about the model"
    model.graph.input[0].doc_string = "about the input"
    model.graph.node[0].metadata_props = [StringStringEntry(key="k", value="v")]
    losses = CODEC.plan(model, PATH, RtenOptions()).losses
    assert [("doc_string", ""), ("metadata", "graph.node[0]")] == [(loss.kind, loss.where) for loss in losses]


def test_refusals_come_together(make):
    """All that RTen has not is told in one error, grouped, and as data."""
    nodes = [Node(op_type="Foo", domain="my", input=["x"], output=[f"y{n}"], name=f"foo{n}") for n in range(5)]
    graph = make.graph(nodes, [make.value("x", 1), make.value("s", 8)], ["y4"])
    with pytest.raises(UnsupportedError) as caught:
        written(make.model(graph))
    assert isinstance(caught.value, RefusalError)
    assert 6 == len(caught.value.refusals)
    assert "  my.Foo: " in str(caught.value)
    assert " [5: " in str(caught.value)
    assert "the input 's' has element type STRING" in str(caught.value)


def test_refusals_tell_the_operator_set(make):
    """A refusal names the operator set that the model was made with, not that of the rewritten one."""
    graph = make.graph([make.node("GridSample", ["x", "g"], ["y"], mode="nearest")], ["x", "g"], ["y"])
    with pytest.raises(RefusalError) as caught:
        written(make.model(graph, opset=16))
    assert [16] == [refusal.version for refusal in caught.value.refusals]


def test_refusal_message():
    """A message has a line a reason, the most frequent first, with the first places."""
    refusals = [Refusal("Foo", "", 17, f"place {n}", "it is odd", "make it even") for n in range(5)]
    error = RefusalError([Refusal("", "", None, "graph.input[0]", "strings"), *refusals])
    assert str(error).splitlines() == [
        "RTen cannot run 6 of the model's parts:",
        "  Foo (opset 17): it is odd; make it even [5: place 0, place 1, place 2 and 2 more]",
        "  strings [1: graph.input[0]]",
    ]


@pytest.mark.parametrize(
    ("head", "nbytes", "match"),
    [(b"RTEN\2\0\0\0", 100, Match.STRONG), (b"RTE", 3, Match.NONE), (b"", 0, Match.NONE), (b"\x08\x07", 2, Match.NONE)],
)
def test_sniff(head, nbytes, match):
    """Version 2 has a mark."""
    assert match == CODEC.sniff(head, nbytes)


def test_sniff_version_1(model):
    """Version 1 has none, but looks like nothing else."""
    data = written(model, rten_version=1)
    assert Match.WEAK == CODEC.sniff(data[:4096], len(data))


def test_schema_version(model):
    """A model of another schema version is refused."""
    from formats.rten.builder import build
    from formats.rten.fbs import read

    table = read(written(model, rten_version=1))
    data = b"".join(build({"schema_version": 2, "graph": {"nodes": []}}))
    assert 1 == table["schema_version"]
    with pytest.raises(DecodeError, match="schema version 2 is not one that can be read"):
        reread(data)


@pytest.mark.parametrize("version", [1, 2])
def test_cut_files(model, version):
    """A file cut anywhere is an error of this package, or is still whole."""
    data = written(model, rten_version=version)
    for end in range(len(data)):
        try:
            reread(data[:end])
        except FormatError:
            continue
        assert version == 2 or end > len(data) - 8


@pytest.mark.parametrize("version", [1, 2])
def test_changed_files(model, version):
    """A file with changed bytes is read or is an error of this package."""
    data = written(model, rten_version=version)
    random = np.random.default_rng(version)
    for _ in range(700):
        broken = bytearray(data[:-400] if version == 2 else data)
        for place in random.integers(0, len(broken), random.integers(1, 4)):
            broken[place] = random.integers(0, 256)
        try:
            again = reread(bytes(broken) + data[len(broken) :])
            written(again)
        except FormatError:
            continue


@pytest.fixture
def onnx_file(tmp_path, make, model):
    """The model as an .onnx file for other programs."""
    from formats.onnxpb import CODEC as ONNX
    from formats.onnxpb import OnnxOptions
    from formats.tensordata.engine import execute

    model.graph.name = "g"
    for graph in (model.graph, *(attribute.g for attribute in model.graph.node[0].attribute)):
        graph.name = "g"
    model.graph.input[0].type.tensor_type.elem_type = 9
    path = tmp_path / "m.onnx"
    execute(ONNX.plan(model, path, OnnxOptions()))
    return path


@pytest.mark.parametrize("version", [1, 2])
def test_files_of_the_other_converter(onnx_file, tmp_path, version):
    """What rten-convert writes is read, with its metadata, and written again without a change of meaning."""
    converter = pytest.importorskip("rten_convert.converter")
    (tmp_path / "meta.json").write_text(json.dumps({"license": "free"}))
    out = tmp_path / "other.rten"
    arguments = ["rten-convert", "-m", str(tmp_path / "meta.json"), "--no-infer-shapes", str(onnx_file), str(out)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", [*arguments, *(["--v1"] if version == 1 else [])])
        converter.main()
    other = reread(out.read_bytes())
    metadata = {entry.key: entry.value for entry in other.metadata_props}
    assert ("free", hashlib.sha256(onnx_file.read_bytes()).hexdigest()) == (metadata["license"], metadata["onnx_hash"])
    assert other == reread(written(other, rten_version=version))
    (tensor,) = other.graph.initializer
    np.testing.assert_array_equal(WEIGHT, tensor.numpy())


def test_generated_reader_agrees(model):
    """The reader generated by the FlatBuffers compiler finds in a file what was written."""
    generated = pytest.importorskip("rten_convert.schema_generated")
    data = written(model, source_hash=SOURCE)
    root = generated.Model.GetRootAs(data, 32)
    assert (1, hashlib.sha256(SOURCE.data).hexdigest()) == (root.SchemaVersion(), root.Metadata().OnnxHash().decode())
    graph = root.Graph()
    assert [0, 1] == graph.InputsAsNumpy().tolist()
    nodes = [graph.Nodes(number) for number in range(graph.NodesLength())]
    assert [b"c", b"x", b"w", b"y", None] == [node.Name() for node in nodes]
    constant = generated.ConstantNode()
    constant.Init(nodes[2].Data().Bytes, nodes[2].Data().Pos)
    assert ([100], 0) == (constant.ShapeAsNumpy().tolist(), constant.DataOffset())
    operator = generated.OperatorNode()
    operator.Init(nodes[4].Data().Bytes, nodes[4].Data().Pos)
    assert generated.OperatorType.If == operator.Type()
    branches = generated.IfAttrs()
    branches.Init(operator.Attrs().Bytes, operator.Attrs().Pos)
    captures = branches.ThenBranch().CapturesAsNumpy().tolist()
    assert [b"x", b"w"] == [branches.ThenBranch().Nodes(number).Name() for number in captures]
