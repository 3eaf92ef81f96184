"""Complete .rten files: sections, versions, metadata, and the way back."""

from __future__ import annotations

import hashlib
import math
import os
import struct
from pathlib import Path

import numpy as np
import onnx
import pytest

import formats
from formats.codecs.contract import Match
from formats.errors import DecodeError, EncodeError, FormatError, OptionError, UnsupportedError
from formats.ir.model import Node, StringStringEntry, Tensor
from formats.rten import CODEC
from formats.rten.convert.refusal import Refusal, RefusalError
from formats.rten.model import METADATA_KEYS, add_unstored, is_rten_form
from formats.rten.options import RtenOptions
from formats.tensordata.engine import EngineOptions, to_bytes, transfer
from formats.tensordata.file import File
from formats.tensordata.plan import Losses
from formats.tensordata.sources.source import Literal

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
    """Return the model of a file."""
    return CODEC.read(Literal(data), PATH)


def test_layout(model):
    """A file consists of a header, the model and, starting at a multiple of 64 bytes, the tensors."""
    data = written(model)
    magic, version, model_offset, model_nbytes, tensor_offset = struct.unpack_from("<4sIQQQ", data)
    assert (b"RTEN", 2, 32) == (magic, version, model_offset)
    assert tensor_offset % 64 == 0 <= tensor_offset - model_offset - model_nbytes < 64
    assert WEIGHT.tobytes() == data[tensor_offset:]


def test_version_1(model):
    """A version 1 file is the model alone, including the tensors; it is read like a version 2 file."""
    data = written(model, rten_version=1)
    assert b"RTEN" != data[:4]
    assert WEIGHT.tobytes() in data
    assert reread(written(model)) == reread(data)


@pytest.mark.parametrize("version", [0, 3])
def test_other_versions(model, version):
    """Other versions are refused."""
    with pytest.raises(OptionError, match=f"`rten_version` is {version}, but must be 1 or 2"):
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
    """The file contains the SHA-256 of its source file, unless the option says no."""
    metadata = reread(written(model, source_hash=SOURCE)).metadata_props
    assert [("onnx_hash", hashlib.sha256(SOURCE.data).hexdigest())] == [(e.key, e.value) for e in metadata]
    assert [] == reread(written(model, source_hash=SOURCE, onnx_hash=False)).metadata_props


def test_metadata(model):
    """Metadata come from the model, and entries that the format lacks are a loss."""
    model.metadata_props = [StringStringEntry(key=key, value=f"old {key}") for key in ("license", "commit", "author")]
    model.producer_name = "somebody"
    plan = CODEC.plan(model, PATH, RtenOptions())
    assert ["producer_name", "author"] == [loss.detail.split("(")[1][:-1] for loss in plan.losses]
    metadata = reread(to_bytes(plan)).metadata_props
    assert [("license", "old license"), ("commit", "old commit")] == [(e.key, e.value) for e in metadata]


def test_all_metadata(model):
    """Each of the eight entries is written and read."""
    entries = {key: f"the {key} é" for key in METADATA_KEYS}
    model.metadata_props = [StringStringEntry(key=key, value=value) for key, value in entries.items()]
    metadata = reread(written(model)).metadata_props
    assert entries == {entry.key: entry.value for entry in metadata}


def test_unknown_metadata(model):
    """A given entry that RTen does not have is an error that lists those it has."""
    with pytest.raises(OptionError, match=r"`metadata` has 'author', .* it knows onnx_hash, description"):
        formats.dumps(model, "rten", metadata={"author": "me"})


def test_documentation_is_a_loss(model):
    """Lost documentation and metadata of parts are reported once per kind, and do not matter; those of the model do."""
    model.doc_string = "about the model"
    model.graph.input[0].doc_string = "about the input"
    model.graph.node[0].metadata_props = [StringStringEntry(key="k", value="v")]
    model.metadata_props = [StringStringEntry(key="labels", value="cat, dog")]
    losses = CODEC.plan(model, PATH, RtenOptions()).losses
    assert [
        ("metadata", "metadata_props", True),
        ("doc_string", "", False),
        ("metadata", "graph.node[0]", False),
    ] == [(loss.kind, loss.where, loss.matters) for loss in losses]


def test_documentation_is_found_everywhere(make):
    """Places are in the order of the model's fields, for a node, an attribute or a node in a subgraph."""
    branch = make.graph([make.node("Relu", ["x"], ["t"])], outputs=["t"])
    nodes = [
        make.node("Relu", ["x"], ["a"]),
        make.node("LeakyRelu", ["a"], ["b"], alpha=0.5),
        make.node("If", ["c"], ["y"], then_branch=branch, else_branch=branch),
    ]
    graph = make.graph(nodes, ["x", make.value("c", 9)], ["y", "b"], [make.tensor("w", [1.0])])
    branch.node[0].doc_string = nodes[1].attribute[0].doc_string = nodes[0].doc_string = "about it"
    graph.doc_string = graph.initializer[0].doc_string = "about it"
    losses = Losses()
    add_unstored(losses, make.model(graph))
    places = ["graph", "graph.node[0]", 'graph.node[1].attribute["alpha"]']
    loss, unused = sorted(losses.lines(), key=lambda loss: loss.kind)
    assert (unused.kind, unused.where) == ("unused", "graph.initializer[0]")
    assert ("doc_string", "graph", "documentation") == (loss.kind, loss.where, loss.seen)
    assert loss.detail.startswith(f"RTen does not store documentation ({', '.join(places)}, ")
    assert loss.summary == f"RTen does not store documentation ({', '.join(places)} and 3 more)"


def test_the_precision_of_casts_is_a_loss(make):
    """A cast that rounds to a float type that RTen lacks is reported once for each type, and matters."""
    nodes = [
        make.node("Cast", [source], [target], to=number)
        for source, target, number in (("x", "a", 10), ("a", "b", 10), ("b", "c", 11), ("c", "d", 1), ("d", "y", 6))
    ]
    losses = CODEC.plan(make.model(make.graph(nodes, ["x"], [make.value("y", 6)])), PATH, RtenOptions()).losses
    assert [("precision", "graph", "RTen computes FLOAT16 in 32 bits (a)", "results")] == [
        loss[:4] for loss in losses if loss.kind == "precision"
    ]


@pytest.mark.parametrize(
    ("source", "made", "target"),
    [
        pytest.param("float16", "y = Transpose(x)", "float16", id="what only moves"),
        pytest.param("float16", "y = Max(x, x)", "float16", id="what chooses"),
        pytest.param("int8", "y = Cast<to = 10>(x)", "float16", id="small integers"),
        pytest.param("float", "a = Sigmoid(x) b = Cast<to = 6>(a) y = Cast<to = 10>(b)", "float16", id="an interval"),
        pytest.param("float16", "y = Cast<to = 11>(x)", "double", id="a wider type"),
    ],
)
def test_the_precision_of_what_rounds_nothing_is_no_loss(source, made, target):
    """Numbers that another float type and FLOAT both have, and that a node only moves or chooses, are no loss."""
    text = f'<ir_version: 8, opset_import: ["" : 17]> g ({source}[2] x) => ({target}[2] y) {{ {made} }}'
    losses = CODEC.plan(formats.loads(onnx.parser.parse_model(text).SerializeToString()), PATH, RtenOptions()).losses
    assert [] == [loss for loss in losses if loss.kind == "precision"]


@pytest.mark.parametrize(
    ("source", "made"),
    [("float16", "y = Add(x, x)"), ("float", "y = Cast<to = 10>(x)"), ("int32", "y = Cast<to = 10>(x)")],
)
def test_the_precision_of_what_rounds_is_a_loss(source, made):
    """Sums, and casts of numbers that FLOAT16 may lack, are reported."""
    text = f'<ir_version: 8, opset_import: ["" : 17]> g ({source}[2] x) => (float16[2] y) {{ {made} }}'
    losses = CODEC.plan(formats.loads(onnx.parser.parse_model(text).SerializeToString()), PATH, RtenOptions()).losses
    assert ["RTen computes FLOAT16 in 32 bits (y)"] == [loss.detail for loss in losses if loss.kind == "precision"]


def test_too_many_operators_are_refused_at_once(make, monkeypatch):
    """A graph whose operators and results alone need too many tables is refused before any of them is converted."""
    nodes = [make.node("Relu", [f"x{n}"], [f"x{n + 1}"]) for n in range(10)]
    constant = make.node("Constant", [], ["c"], value_float=1.0)
    model = make.model(make.graph([constant, *nodes], [make.value("x0", 1)], [make.value("x10", 1)]))
    monkeypatch.setattr("formats.rten.model.MAX_TABLES", 40)
    assert CODEC.plan(model, Path("m.rten"), RtenOptions()).files
    monkeypatch.setattr("formats.rten.model.MAX_TABLES", 39)
    monkeypatch.setattr("formats.rten.convert.legalize.legalize", None)
    with pytest.raises(
        EncodeError,
        match=r"too large: RTen reads at most .* tables \(10 operators and their results take at least 40\)",
    ):
        CODEC.plan(model, Path("m.rten"), RtenOptions())


def test_refusals_come_together(make):
    """One error reports everything that RTen does not support, grouped, and as data."""
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
    """A refusal names the operator set of the given model, not that of the rewritten one."""
    graph = make.graph([make.node("GridSample", ["x", "g"], ["y"], mode="nearest")], ["x", "g"], ["y"])
    with pytest.raises(RefusalError) as caught:
        written(make.model(graph, opset=16))
    assert [16] == [refusal.version for refusal in caught.value.refusals]


def test_refusal_message():
    """A message has one line per reason, the most frequent first, with the first places."""
    refusals = [Refusal("Foo", "", 17, f"place {n}", "it is odd", "make it even") for n in range(5)]
    error = RefusalError([Refusal("", "", None, "graph.input[0]", "strings"), *refusals])
    assert str(error).splitlines() == [
        "6 parts of the model cannot be converted for RTen:",
        "  Foo (opset 17): it is odd; make it even [5: place 0, place 1, place 2 and 2 more]",
        "  strings [1: graph.input[0]]",
    ]


@pytest.mark.parametrize(
    ("head", "nbytes", "match"),
    [(b"RTEN\2\0\0\0", 100, Match.STRONG), (b"RTE", 3, Match.NONE), (b"", 0, Match.NONE), (b"\x08\x07", 2, Match.NONE)],
)
def test_sniff(head, nbytes, match):
    """Version 2 files have a magic number."""
    assert match == CODEC.sniff(head, nbytes)


def test_sniff_version_1(model):
    """Version 1 has no header, but no other format looks like it."""
    data = written(model, rten_version=1)
    assert Match.WEAK == CODEC.sniff(data[:4096], len(data))


def test_schema_version(model):
    """A model of another schema version is refused."""
    from tests.rten.rten_forms import build, read

    table = read(written(model, rten_version=1))
    data = b"".join(build({"schema_version": 2, "graph": {"nodes": []}}))
    assert 1 == table["schema_version"]
    with pytest.raises(DecodeError, match="cannot read version 2 of the schema"):
        reread(data)


@pytest.mark.parametrize("version", [1, 2])
def test_cut_files(model, version):
    """A file that is cut anywhere is an error of this package, or is still complete."""
    data = written(model, rten_version=version)
    for end in range(len(data)):
        try:
            reread(data[:end])
        except FormatError:
            continue
        assert version == 2 or end > len(data) - 8


BIG_DIMS = (5, 1 << 30)
TAIL = b"the end!"


class MostlyHoles:
    """A target that accepts every write, but keeps only the last piece of a large file; the rest stays a hole."""

    def __init__(self, path, nbytes, large):
        """Start a file of this size."""
        self._large = large
        self.copied = []
        self._file = path.open("w+b", buffering=0)
        self._file.truncate(nbytes)

    def pwrite(self, offset, data):
        """Write."""
        os.pwrite(self._file.fileno(), data, offset)

    def copy_range(self, file, source_offset, offset, nbytes):
        """Pretend to copy."""
        self.copied.append((offset - source_offset, offset, offset + nbytes))
        return nbytes if file.path == self._large and source_offset + nbytes < file.nbytes else 0


@pytest.fixture
def large_model(tmp_path, make):
    """A model with 5 GiB of weights, which are almost only a hole in the file, between smaller weights."""
    path = tmp_path / "weights"
    with path.open("wb") as file:
        file.truncate(math.prod(BIG_DIMS) - len(TAIL))
        file.seek(0, os.SEEK_END)
        file.write(TAIL)
    big = Tensor(name="big", dims=list(BIG_DIMS), data_type=2, raw_data=File.open(path).span())
    graph = make.graph(
        [make.node("Gather", ["big", "i"], ["y"]), make.node("Add", ["w", "v"], ["z"])],
        [make.value("i", 6, [])],
        [make.value("y", 2), "z"],
        [make.tensor("w", WEIGHT), big, make.tensor("v", -WEIGHT)],
    )
    return make.model(graph)


def test_more_than_four_gibibytes_of_weights(large_model, tmp_path):
    """Offsets have 64 bits: data that are written beyond 4 GiB are found there, and nothing else is read."""
    path = tmp_path / "m.rten"
    plan = CODEC.plan(large_model, path, RtenOptions())
    (file,) = plan.files
    target = MostlyHoles(path, file.nbytes, tmp_path / "weights")
    transfer(plan, [target], EngineOptions(threads=2, chunk_bytes=1 << 20))
    (distance,) = {distance for distance, _, _ in target.copied}
    pieces = sorted((start, end) for _, start, end in target.copied)
    assert math.prod(BIG_DIMS) == pieces[-1][1] - pieces[0][0] == sum(end - start for start, end in pieces)
    assert distance == pieces[0][0] < 4096
    tensors = {tensor.name: tensor for tensor in CODEC.read(File.open(path).span(), path).graph.initializer}
    assert TAIL == tensors["big"].raw_data.read(math.prod(BIG_DIMS) - len(TAIL), len(TAIL))
    for name, wanted in (("w", WEIGHT), ("v", -WEIGHT)):
        np.testing.assert_array_equal(wanted, tensors[name].numpy())
    assert tensors["v"].raw_data.file_offset > 5 << 30
    assert os.stat(path).st_blocks * 512 < 64 << 20


def test_version_1_ends_at_two_gibibytes(large_model, tmp_path):
    """A model that is too large for a version 1 file is refused before anything is written."""
    with pytest.raises(EncodeError, match="version 2"):
        formats.save(large_model, tmp_path / "m.rten", rten_version=1)
    assert ["weights"] == [path.name for path in tmp_path.iterdir()]


def test_generated_reader_agrees(model):
    """The reader that the FlatBuffers compiler generated finds in a file what was written."""
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


def test_tensors_that_nothing_uses_are_told(tmp_path: Path) -> None:
    """A tensor that no node uses, of whatever type and in whatever graph, is not in the file, and a note names it."""
    text = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[n] x, bool c) => (float[n] y) <float[2] lost = {1, 2}, float[1] used = {3}, string[1] word = {"a"}>
    { code = Constant <value_string = "b"> ()
      y = If (c) <then_branch = t () => (float[n] r) <float[1] inner = {1}> { r = Add (x, used) },
                  else_branch = e () => (float[n] r) { r = Neg (x) }> }"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "m.onnx")
    report = formats.convert(tmp_path / "m.onnx", tmp_path / "m.rten")
    (note,) = (loss for loss in (*report.losses, *report.notes) if loss.kind == "unused")
    assert note.detail == "nothing uses these tensors, so they are not in the file (lost, word, code, inner)"
    assert not note.matters
