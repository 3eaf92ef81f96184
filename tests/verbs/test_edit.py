"""`edit`, `extract` and `merge`: edits at once, parts, weights and merged models, in every format and in place."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import helper
from safetensors.numpy import load_file

import formats
from formats import onnxzip
from formats.editing.model_edits import edited
from formats.editing.options import EditOptions
from formats.onnxzip.options import ArchiveOptions
from formats.tensordata.sources.source import FileSpan
from tests import commands
from tests.systems import PATIENCE_SECONDS


@pytest.fixture
def folder(tiny_model: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a model in several formats."""
    monkeypatch.chdir(tiny_model.parent)
    for extension in ("onnxz", "rten", "textproto", "json"):
        formats.convert("tiny.onnx", f"tiny.{extension}")
    formats.convert("tiny.onnx", "data.onnx", external_data=True)
    formats.convert("tiny.onnx", "tiny.onnxc", key="secret words")
    return tiny_model.parent


def run(*arguments: str) -> Any:
    """Run the command `formats edit`."""
    return commands.run("formats", "edit", *arguments)


def interface(path: str) -> tuple[list[str], dict[str, str]]:
    """Return the names of inputs and outputs, and the metadata."""
    model = formats.load(path, key="secret words" if path.endswith("c") else None)
    names = [value.name or "" for value in (*model.graph.input, *model.graph.output)]
    return names, {entry.key or "": entry.value or "" for entry in model.metadata_props}


EDITS = ("--rename", "x=images", "--rename", "y=scores", "--dim", "n=2", "--metadata", "license=MIT")


@pytest.mark.sample(3)
@pytest.mark.parametrize("source", ["tiny.onnx", "tiny.onnxz", "tiny.textproto", "tiny.json", "data.onnx"])
@pytest.mark.parametrize("target", ["new.onnx", "new.onnxz", "new.rten", "new.textproto", "new.json"])
def test_every_format(source: str, target: str, folder: Path) -> None:
    """All edits are made at once, from each format to each, and the answer has the verdict, then a line a kind."""
    done = run(source, target, *EDITS)
    assert (0, "") == (done.exit_code, done.stderr)
    names, metadata = interface(target)
    assert names == ["images", "scores"]
    assert metadata["license"] == "MIT"
    lines = done.stdout.splitlines()
    assert lines[1].startswith("computes the same")
    assert lines[2:5] == [
        "edited: n is 2, in 2 places",
        "edited: x is now images, in 2 places; y is now scores, in 2 places",
        "edited: the metadata says license=MIT",
    ]
    tensor = next(tensor for tensor in formats.load(target).graph.initializer)
    assert tensor.numpy()[3, 5] == 101


@pytest.mark.parametrize(
    "line",
    [
        "convert tiny.onnx new.onnx",
        "convert tiny.onnx new.rten",
        "edit tiny.onnx new.onnx",
        "edit tiny.onnx new.ort",
        "extract tiny.onnx new.onnx --outputs y",
        "merge tiny.onnx tiny.onnx new.onnx --prefix b/",
        "batch tiny.onnx --out . --to onnxz --force",
    ],
)
def test_metadata_has_one_meaning(line: str, folder: Path) -> None:
    """`--metadata KEY=VALUE` sets a text in what a verb writes; `--metadata-file` sets those of a JSON file."""
    Path("about.json").write_text('{"license": "MIT", "commit": "a=b"}')
    written = next((word for word in line.split() if word.startswith("new.")), "tiny.onnxz")
    assert (
        commands.run("formats", *line.split(), "--metadata", "license=MIT", "--metadata", "commit=a=b").exit_code == 0
    )
    typed = Path(written).read_bytes()
    assert {("license", "MIT"), ("commit", "a=b")} <= interface(written)[1].items()
    assert commands.run("formats", *line.split(), "--force", "--metadata-file", "about.json").exit_code == 0
    for text, words in (
        ("[" * 200_000, "nested too deeply"),
        (f"[{'1' * 6000}]", "thousands of digits"),
        ("x", "not JSON"),
    ):
        Path("strange.json").write_text(text)
        done = commands.run("formats", *line.split(), "--force", "--metadata-file", "strange.json")
        assert done.exit_code == 2
        assert words in done.output
    assert Path(written).read_bytes() == typed


def test_metadata_of_a_saved_model(folder: Path) -> None:
    """`save` and `dumps` set texts in what they write, and not in the model; an empty one removes the key."""
    model = formats.load("tiny.onnx").edit(metadata={"a": "1", "b": "2", "c": "3"})
    formats.save(model, "new.onnx", metadata={"b": "new", "a": "", "d": "4"})
    assert [*interface("new.onnx")[1].items()] == [("b", "new"), ("c", "3"), ("d", "4")]
    (entry,) = formats.loads(formats.dumps(model, "rten", metadata={"commit": "c"})).metadata_props
    assert (entry.key, entry.value) == ("commit", "c")
    assert [(entry.key, entry.value) for entry in model.metadata_props] == [("a", "1"), ("b", "2"), ("c", "3")]


def test_rten_and_encrypted_models(folder: Path) -> None:
    """A .rten file stays one, and an encrypted model is read with its key."""
    assert run("tiny.rten", "new.rten", "--rename", "x=images").exit_code == 0
    assert interface("new.rten")[0][0] == "images"
    formats.edit("tiny.onnxc", "new.onnx", key="secret words", rename={"x": "images"})
    assert interface("new.onnx")[0] == ["images", "y"]
    formats.edit("tiny.onnx", "new.onnxc", key="secret words", rename={"x": "images"})
    assert interface("new.onnxc")[0] == ["images", "y"]


def test_an_archive_is_edited_in_place(folder: Path) -> None:
    """Without a destination, only the end of an archive is written again; the weights before it stay."""
    before = (folder / "tiny.onnxz").read_bytes()
    done = run("tiny.onnxz", *EDITS, "--json")
    report = json.loads(done.stdout)
    after = (folder / "tiny.onnxz").read_bytes()
    assert before[:4096] == after[:4096]
    assert before != after
    assert [edit["kind"] for edit in report["edits"]] == ["dim", "rename", "rename", "metadata", "in_place"]
    assert interface("tiny.onnxz")[0] == ["images", "scores"]
    assert formats.verify("tiny.onnxz", data=True).ok
    assert report["verdict"] == "computes the same"


def test_a_dry_run_changes_nothing(folder: Path) -> None:
    """A dry run says what would be edited."""
    before = (folder / "tiny.onnxz").read_bytes()
    done = run("tiny.onnxz", "--dry-run", "--rename", "x=images")
    assert (0, "") == (done.exit_code, done.stderr)
    assert "edited: x is now images" in done.stdout
    assert before == (folder / "tiny.onnxz").read_bytes()
    assert run("tiny.onnx", "new.onnx", "--dry-run", "--rename", "x=images").exit_code == 0
    assert not (folder / "new.onnx").exists()


def test_metadata(folder: Path) -> None:
    """A text is set or replaced, an empty one removes its key, and a value may have equals signs in it."""
    formats.edit("tiny.onnx", "new.onnx", metadata={"a": "b=c", "d": "e"})
    assert interface("new.onnx")[1] == {"a": "b=c", "d": "e"}
    assert run("new.onnx", "newer.onnx", "--metadata", "a=", "--metadata", "d=f=g").exit_code == 0
    assert interface("newer.onnx")[1] == {"d": "f=g"}


@pytest.mark.parametrize("given", [{"rename": {"x": "images"}}, {"dim": {"n": "2"}}])
def test_a_model_of_ones_own_is_not_copied(folder: Path, given: dict[str, Any]) -> None:
    """Names change in a model that nobody else uses; what is done, and the result, are the same."""
    options = EditOptions(**given)
    kept, own = formats.load("tiny.onnx"), formats.load("tiny.onnx")
    expected, done = edited(kept, options)
    found, same = edited(own, options, own=True)
    assert expected == found != kept == formats.load("tiny.onnx")
    assert done == same
    assert (found is own) == ("dim" not in given)


def test_strict_refuses_what_is_lost(folder: Path) -> None:
    """A loss that matters is refused, also in place."""
    model = formats.load("tiny.onnx")
    model.graph.node[0].op_type, model.graph.node[0].domain = "Unknown", "own"
    model.opset_import.append(formats.OperatorSetId("own", 1))
    formats.save(model, "own.onnxz")
    done = run("own.onnxz", "--dim", "x:0=2", "--strict")
    assert (1, True) == (done.exit_code, "the dims of the output y are not known any more" in done.stderr)
    assert run("own.onnxz", "--dim", "x:0=2", "--strict", "--allow", "shape").exit_code == 0
    assert run("own.onnxz", "--dim", "x:0=2").exit_code == 0


# Extract


@pytest.fixture
def example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, digits: Path) -> Path:
    """The current folder, with the example."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def extracted(*arguments: Any) -> Any:
    """Run the command `formats extract`."""
    return commands.run("formats", "extract", *arguments)


@pytest.mark.parametrize("target", ["part.onnx", "part.onnxz", "part.rten", "part.json"])
def test_a_part_in_every_format(target: str, example: Path) -> None:
    """Options repeat, names are separated by commas, and the part is in the format of its name."""
    done = extracted("digits.onnx", target, "--inputs", "conv1.output", "--outputs", "conv2.output,probabilities")
    assert (0, "") == (done.exit_code, done.stderr)
    assert "\ncomputes the same" in done.stdout
    again = extracted(
        "digits.onnx",
        target,
        "--inputs",
        "conv1.output",
        "--outputs",
        "conv2.output",
        "--outputs",
        "probabilities",
        "--force",
    )
    assert again.exit_code == 0
    model = formats.load(target)
    assert [value.name for value in model.graph.input] == ["conv1.output"]
    assert [value.name for value in model.graph.output] == ["conv2.output", "probabilities"]


def test_names_with_commas(tmp_path: Path) -> None:
    """A comma with a backslash before it belongs to a name; in the library, the names in a list are as they are."""
    names = ["a,b", "c", "d\\", "e\\,f"]
    nodes = [formats.Node(op_type="Relu", input=["x"], output=[name]) for name in names]
    graph = formats.Graph(name="g", node=nodes, input=[formats.ValueInfo("x")])
    model = formats.Model(ir_version=8, opset_import=[formats.OperatorSetId("", 17)], graph=graph)
    formats.save(model, tmp_path / "a.onnx")
    outputs = ("--outputs", "a\\,b,c", "--outputs", "d\\", "--outputs", "e\\\\,f")
    assert 0 == extracted(tmp_path / "a.onnx", tmp_path / "b.onnx", *outputs, "--inputs", "x").exit_code
    formats.extract(tmp_path / "a.onnx", tmp_path / "c.onnx", outputs=names)
    for path in ("b.onnx", "c.onnx"):
        assert names == [value.name for value in formats.inspect(tmp_path / path).outputs]


@pytest.fixture
def strange(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The names of the file m.onnx in the current folder, in which all signs stand, by shorter names."""
    monkeypatch.chdir(tmp_path)
    names = {"in": "a,b=c:0 d", "weight": "w[0],=:", "node": "n*_=:", "out": "y,=: z"}
    ends = [formats.make_value_info(name, "float32", [2]) for name in (names["in"], names["out"], "a", "y")]
    nodes = [
        formats.make_node("Add", [names["in"], names["weight"]], [names["out"]], name=names["node"]),
        formats.make_node("Neg", ["a"], ["y"], name="n1_=:"),
    ]
    weight = formats.from_numpy(np.ones(2, "float32"), names["weight"])
    graph = formats.Graph(nodes, "g", [weight], input=[ends[0], ends[2]], output=[ends[1], ends[3]])
    formats.save(formats.Model(8, [formats.OperatorSetId("", 17)], graph=graph), "m.onnx")
    return names


@pytest.mark.parametrize(
    "line",
    [
        "edit m.onnx new.onnx --rename {in}=images",
        "edit m.onnx new.onnx --rename a=b=c --rename {weight}={in}2",
        "edit m.onnx new.onnx --dim {in}:0=2",
        "extract m.onnx new.onnx --outputs {out},y",
        "extract m.onnx new.onnx --outputs y,{out} --inputs a --inputs {in}",
        "extract m.onnx new.npy --tensor {weight}",
        "merge m.onnx m.onnx new.onnx --connect {out}={in} --connect y=a",
        "inspect m.onnx --nodes {node}",
        "inspect m.onnx --tensors {weight}",
    ],
)
def test_names_with_all_signs(line: str, strange: dict[str, str]) -> None:
    """A name that exists as it stands goes before splitting, in every option that takes names, and before patterns."""
    done = commands.run("formats", *[word.format(**strange) for word in line.split()])
    assert (0, "") == (done.exit_code, done.stderr)
    found = formats.load("new.onnx").graph if "new.onnx" in line else None
    ends = [] if found is None else [[value.name for value in side] for side in (found.input, found.output)]
    if "images" in line:
        assert ends[0] == ["images", "a"]
    elif "a=b=c" in line:
        assert ends[0] == [strange["in"], "b=c"]
        assert found is not None
        assert found.initializer[0].name == strange["in"] + "2"
    elif "--outputs" in line:
        assert sorted(map(str, ends[1])) == ["y", strange["out"]]
    elif "--connect" in line:
        assert ends == [[strange["in"], "a"], [f"{strange['out']}_2", "y_2"]]
    elif "--nodes" in line:
        assert strange["node"] in done.stdout
        assert "n1_=:" not in done.stdout
    elif "--tensors" in line:
        assert strange["weight"] in done.stdout


def test_names_in_the_library_are_as_they_stand(strange: dict[str, str]) -> None:
    """A name in a dictionary or a list is never split: if no value has it, that is an error."""
    model = formats.load("m.onnx")
    with pytest.raises(formats.EditError, match="no value is called 'a=b'"):
        model.rename({"a=b": "c"})
    with pytest.raises(formats.EditError, match="no value is called 'a,y'"):
        model.extract(["a,y"])
    assert [value.name for value in model.extract(outputs="y,=: z,y").graph.output] == ["y,=: z", "y"]


@pytest.mark.parametrize("kind", ["float32", "int64", "bool", "float16", "uint8", "complex64"])
def test_a_weight(kind: str, tmp_path: Path) -> None:
    """A weight is a file that numpy and safetensors read; its elements are not changed."""
    array = np.arange(6).reshape(2, 3).astype(kind)
    formats.save(
        formats.Model(ir_version=8, graph=formats.Graph(name="g", initializer=[formats.from_numpy(array, "w")])),
        tmp_path / "m.onnx",
    )
    formats.extract(tmp_path / "m.onnx", tmp_path / "w.npy", tensor="w")
    formats.extract(tmp_path / "m.onnx", tmp_path / "w.safetensors", tensor="w")
    for found in (np.load(tmp_path / "w.npy"), load_file(tmp_path / "w.safetensors")["w"]):
        assert found.dtype == array.dtype
        np.testing.assert_array_equal(found, array)
    formats.edit(tmp_path / "m.onnx", tmp_path / "n.onnx", weights=tmp_path / "w.safetensors")
    assert formats.diff(tmp_path / "m.onnx", tmp_path / "n.onnx").equal


def test_types_that_a_file_lacks(tmp_path: Path) -> None:
    """A type that numpy lacks is written as safetensors, and one that both lack is refused."""
    tensors = [
        formats.from_numpy(np.zeros(4, kind), name) for name, kind in (("b", ml_dtypes.bfloat16), ("i", ml_dtypes.int4))
    ]
    tensors.append(formats.from_numpy(np.array(["a"], dtype=object), "s"))
    formats.save(formats.Model(ir_version=10, graph=formats.Graph(name="g", initializer=tensors)), tmp_path / "m.onnx")
    with pytest.raises(formats.UnsupportedError, match=r"numpy has no type for BFLOAT16; name a \.safetensors file"):
        formats.extract(tmp_path / "m.onnx", tmp_path / "b.npy", tensor="b")
    formats.extract(tmp_path / "m.onnx", tmp_path / "b.safetensors", tensor="b")
    for name in "is":
        for suffix in ("npy", "safetensors"):
            with pytest.raises(formats.UnsupportedError, match="has no type for"):
                formats.extract(tmp_path / "m.onnx", tmp_path / f"{name}.{suffix}", tensor=name)
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["b.safetensors", "m.onnx"]


def test_tensors_by_place_and_dry_runs(example: Path) -> None:
    """A tensor may be named by its place, and a dry run writes nothing."""
    assert extracted("digits.onnx", "w.npy", "--tensor", "graph.initializer[0]", "--dry-run").exit_code == 0
    assert not (example / "w.npy").exists()
    formats.extract("digits.onnx", "w.npy", tensor="graph.initializer[0]")
    np.testing.assert_array_equal(np.load("w.npy"), formats.load("digits.onnx").graph.initializer[0].numpy())


# Merge


@pytest.mark.parametrize("target", ["both.onnx", "both.onnxz", "both.rten"])
def test_merged_models_in_every_format(target: str, tiny_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Models of different formats are merged into another one."""
    monkeypatch.chdir(tiny_model.parent)
    formats.edit("tiny.onnx", "b.onnxz", rename={"x": "a", "y": "b"})
    done = commands.run("formats", "merge", "tiny.onnx", "b.onnxz", target, "--connect", "y=a", "--prefix", "second/")
    assert (0, "") == (done.exit_code, done.stderr)
    assert "merged: y is the input a of the second model" in done.stdout
    assert "second/b" in [value.name for value in formats.load(target).graph.output]


def test_files_and_permissions_of_both(tiny_model: Path) -> None:
    """The report has the files of both models, and nobody else may read the result if one of them is secret."""
    secret = tiny_model.with_name("secret.onnx")
    formats.convert(tiny_model, secret)
    secret.chmod(0o600)
    new = tiny_model.with_name("new.onnx")
    report = formats.merge(tiny_model, secret, new, connect={"y": "x"})
    assert report.source_files == (tiny_model, secret)
    if os.name == "posix":
        assert new.stat().st_mode & 0o777 == 0o600
        formats.edit(tiny_model, new, weights=secret, overwrite=True)
        formats.edit(tiny_model, tiny_model.with_name("newer.onnx"), weights=secret)
        assert tiny_model.with_name("newer.onnx").stat().st_mode & 0o777 == 0o600
        formats.extract(secret, tiny_model.with_name("w.npy"), tensor="w")
        assert tiny_model.with_name("w.npy").stat().st_mode & 0o777 == 0o600


# Memory


LARGE_BYTES = 10 << 30
MOST_MEMORY_BYTES = 200 << 20


def large_archive(folder: Path) -> Path:
    """Return an archive with a weight of 10 GiB of zeros, which needs no place on the disk."""
    columns = LARGE_BYTES // 4 // 1024
    values = [helper.make_tensor_value_info(name, 1, ["n", size]) for name, size in (("x", columns), ("y", 1024))]
    weight = onnx.TensorProto(name="w", data_type=1, dims=[columns, 1024], data_location=onnx.TensorProto.EXTERNAL)
    weight.external_data.add(key="location", value="w.data")
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g", values[:1], values[1:], [weight])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / "m.onnx")
    with (folder / "w.data").open("wb") as file:
        file.truncate(LARGE_BYTES)
    path = folder / "m.onnxz"
    (plan,) = onnxzip.CODEC.plan(formats.load(folder / "m.onnx"), path, ArchiveOptions()).files
    checksum, zeros = 0, bytes(64 << 20)
    for _ in range(LARGE_BYTES // len(zeros)):
        checksum = zlib.crc32(zeros, checksum)
    digests: dict[str, bytes] = {}
    with path.open("wb") as file:
        file.truncate(plan.nbytes)
        for write in plan.writes:
            data = b"" if isinstance(write.source, FileSpan) else write.source.read()
            file.seek(write.file_offset)
            file.write(data)
            if write.digest is not None:
                digests[write.digest.key] = (zlib.crc32(data) if data else checksum).to_bytes(4, "big")
        for late in plan.late_writes:
            file.seek(late.file_offset)
            file.write(late.render(digests))
    return path


@pytest.mark.outer
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux limits the memory for data")
def test_ten_gibibytes_in_little_memory(tmp_path: Path) -> None:
    """An edit in place, a part and a merged model of 10 GiB take seconds and little memory, and read no weight."""
    path = large_archive(tmp_path)
    for line in (
        "edit m.onnxz --rename x=images --dim n=1 --metadata license=MIT --json",
        "edit m.onnx linked.onnx --dry-run --rename x=images --json",
        "extract m.onnx small.onnx --inputs x --outputs x --json",
        "merge m.onnx m.onnx both.onnx --connect x=x --dry-run --json",
    ):
        program = (
            "import re, resource\n"
            f"resource.setrlimit(resource.RLIMIT_DATA, ({MOST_MEMORY_BYTES}, {MOST_MEMORY_BYTES}))\n"
            "from formats.cli import formats\n"
            "try:\n    formats()\n"
            "finally:\n"  # not `getrusage`, whose figure may be that of the process that started this one
            "    used = int(re.search(r'VmHWM:\\s*(\\d+)', open('/proc/self/status').read())[1]) << 10\n"
            f"    assert used < {MOST_MEMORY_BYTES}, used"
        )
        done = subprocess.run(
            [sys.executable, "-c", program, *line.split()],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
        )
        assert (0, "") == (done.returncode, done.stderr), line
        assert json.loads(done.stdout)["seconds"] < PATIENCE_SECONDS  # 8 GiB would take longer
    found = formats.load(path)
    assert [value.name for value in (*found.graph.input, *found.graph.output)] == ["images", "y"]
    assert found.graph.initializer[0].source().nbytes == LARGE_BYTES
    assert path.stat().st_blocks * 512 < 1 << 20, "nothing was written but the end"
