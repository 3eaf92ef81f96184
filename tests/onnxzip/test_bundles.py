"""Archives with several models, files and hashes: packed, read, changed, unpacked."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import formats
from formats import Graph, Model, Node, OperatorSetId, OptionError, ValueInfo, onnxzip
from formats.errors import DecodeError, FormatError
from formats.ir.model import Dimension, TensorShape, TensorType, Type
from formats.onnxzip.reader import read_contents, read_hashes
from formats.tensordata.file import File
from formats.tensordata.local.directory import Folder
from formats.tensordata.replacing import tail_replacement
from formats.tensordata.sources.source import Literal
from formats.verbs import pack
from formats.verbs.model_files import layout
from tests.commands import run
from tests.programs import need
from tests.systems import PATIENCE_SECONDS

SHARED = np.arange(1000, dtype="float32")


def value(name: str) -> ValueInfo:
    """Return an input or output of 1,000 floats."""
    return ValueInfo(name=name, type=Type(tensor_type=TensorType(1, TensorShape([Dimension(dim_value=1000)]))))


def model(*weights: tuple[str, np.ndarray]) -> Model:
    """Return a model that adds weights to its input."""
    names = ["x", *(f"sum{index}" for index in range(len(weights)))]
    nodes = [
        Node(op_type="Add", input=[names[index], name], output=[names[index + 1]])
        for index, (name, _) in enumerate(weights)
    ]
    tensors = [formats.from_numpy(array, name) for name, array in weights]
    graph = Graph(name="g", node=nodes, initializer=tensors, input=[value("x")], output=[value(names[-1])])
    return Model(ir_version=8, opset_import=[OperatorSetId("", 17)], graph=graph)


def first_array(found: Model) -> np.ndarray:
    """Return the first weight of a model."""
    assert found.graph is not None
    return np.asarray(found.graph.initializer[0].numpy())


@pytest.fixture
def sources(tmp_path: Path) -> list[Path]:
    """Two models that share a weight under different names, and a tokenizer."""
    folder = tmp_path / "sources"
    folder.mkdir()
    formats.save(model(("a", SHARED), ("b", SHARED + 1)), folder / "en.coder.onnx", external_data=True)
    formats.save(model(("other", SHARED), ("c", SHARED + 2)), folder / "decoder.onnx")
    (folder / "tokenizer.json").write_text('{"version": "1.0"}')
    return [folder / name for name in ("en.coder.onnx", "decoder.onnx", "tokenizer.json")]


@pytest.fixture
def bundle(sources: list[Path], tmp_path: Path) -> Path:
    """An archive with two models and a file."""
    formats.pack(sources, tmp_path / "b.onnxz")
    return tmp_path / "b.onnxz"


def names(path: Path) -> list[str]:
    """Return the names of the entries, as Python's `zipfile` reads them."""
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        return archive.namelist()


def is_right(path: Path) -> bool:
    """Return whether all hashes in an archive are those of the payloads, as `zipfile` reads them."""
    with zipfile.ZipFile(path) as archive:
        lines = archive.read("__SHA256SUMS").decode().splitlines()
        found = [f"{hashlib.sha256(archive.read(name)).hexdigest()}  {name}" for name in archive.namelist()]
    return lines == [line for line in found if not line.endswith("__SHA256SUMS")]


def test_pack_names_models_and_files_and_stores_equal_weights_once(sources: list[Path], tmp_path: Path) -> None:
    """Graphs have the names of their files, files are below `files`, and a weight of two models is one entry."""
    done = formats.pack(sources, tmp_path / "b.onnxz")
    assert [
        "a",
        "b",
        "c",
        "files/tokenizer.json",
        "__SHA256SUMS",
        "__MODEL_PROTO_en_coder",
        "__MODEL_PROTO_decoder",
    ] == (names(tmp_path / "b.onnxz"))
    assert (("en_coder", "decoder"), ("files/tokenizer.json",), 4000) == (done.models, done.files, done.shared_nbytes)
    assert is_right(tmp_path / "b.onnxz")
    onnxzip.check(Literal((tmp_path / "b.onnxz").read_bytes()))


def test_a_model_is_read_by_its_name(bundle: Path) -> None:
    """`model` chooses a model; without it, an archive without a default one is an error that names them."""
    assert (first_array(formats.load(bundle, model="decoder")) == SHARED).all()
    with pytest.raises(OptionError, match="choose with `model`: decoder, en_coder"):
        formats.load(bundle)
    with pytest.raises(OptionError, match="no model 'x'; there are decoder, en_coder"):
        formats.load(bundle, model="x")


def test_a_model_has_a_name_only_in_an_archive(sources: list[Path]) -> None:
    """`model` for a file of another format is an error, not ignored."""
    with pytest.raises(OptionError, match="is for archives with several models"):
        formats.load(sources[0], model="decoder")


def test_names_are_chosen(sources: list[Path], tmp_path: Path) -> None:
    """`NAME=PATH` names models and files, and `default` makes one model the default."""
    given = [f"first={sources[0]}", f"second={sources[1]}", f"files/a/t.json={sources[2]}"]
    done = formats.pack(given, tmp_path / "b.onnxz", default="first")
    assert (("second", None), ("files/a/t.json",)) == (done.models, done.files)
    assert "b" == formats.load(tmp_path / "b.onnxz").graph.initializer[1].name  # type: ignore[union-attr]
    assert names(tmp_path / "b.onnxz")[-1] == "__MODEL_PROTO"


def test_a_single_model_is_the_default(sources: list[Path], tmp_path: Path) -> None:
    """A model without a chosen name, packed alone, is what every reader takes."""
    formats.pack([sources[1], sources[2]], tmp_path / "b.onnxz")
    assert (first_array(formats.load(tmp_path / "b.onnxz")) == SHARED).all()


def test_data_files_of_a_model_are_not_files(sources: list[Path], tmp_path: Path) -> None:
    """A data file among the sources, as from a pattern of the shell, is skipped and told: its weights are there."""
    data = sources[0].with_name("en.coder.onnx.data")
    done = formats.pack([*sources, data], tmp_path / "b.onnxz")
    assert ((data,), ("files/tokenizer.json",)) == (done.skipped, done.files)


def test_convert_writes_hashes_on_request(sources: list[Path], tmp_path: Path) -> None:
    """`sha256` adds the hashes to an archive of one model, whose entries are small and large."""
    found = model(("large", np.arange(100_000, dtype="float32")), *((f"w{n}", SHARED + n) for n in range(9)))
    formats.save(found, tmp_path / "m.onnxz", sha256=True)
    assert is_right(tmp_path / "m.onnxz")
    assert formats.verify(tmp_path / "m.onnxz", data=True).checksums == 11 + 11 + 1


def test_verify_compares_hashes_and_checks_every_model(bundle: Path, tmp_path: Path) -> None:
    """A payload with another byte and its right CRC-32 is found by its hash; errors in any graph are found."""
    assert formats.verify(bundle, data=True).ok
    assert 4 == formats.verify(bundle).tensors
    data = bytearray(bundle.read_bytes())
    entry = read_contents(Literal(bytes(data))).files[0]
    data[entry.payload_offset] ^= 1
    (tmp_path / "c.onnxz").write_bytes(data)
    assert ["crc32", "sha256"] == [
        finding.detail.split()[1] for finding in formats.verify(tmp_path / "c.onnxz", data=True).errors
    ]


def test_commands_take_the_name(bundle: Path, sources: list[Path], tmp_path: Path) -> None:
    """`--model` chooses for convert, inspect, verify, diff and files; inspect and verify show all without it."""
    assert 0 == run("formats", "convert", bundle, tmp_path / "d.onnx", "--model", "decoder").exit_code
    assert 0 == run("formats", "diff", bundle, sources[1], "--model", "decoder").exit_code
    assert 1 == run("formats", "diff", bundle, sources[1], "--model", "en_coder").exit_code
    shown = run("formats", "inspect", bundle).output
    assert all(text in shown for text in ("model en_coder", "model decoder", "files/tokenizer.json"))
    one = json.loads(run("formats", "inspect", bundle, "--json", "--model", "decoder").output)
    assert "others" not in one
    assert 2 == json.loads(run("formats", "verify", bundle, "--json", "--model", "decoder").output)["tensors"]
    assert 0 == run("formats", "files", bundle).exit_code
    assert 0 == run("formats", "inspect", bundle, "--picture", tmp_path / "p.svg").exit_code


def test_an_inspection_has_every_model(bundle: Path) -> None:
    """Without a name, the inspection of a bundle has each model whole, in the library, in JSON and as text."""
    seen = formats.inspect(bundle, nodes=True, params=1)
    alone = [formats.inspect(bundle, model=name, nodes=True, params=1) for name in ("en_coder", "decoder")]
    assert list(seen.models) == alone
    assert (4000, 4, 4) == (seen.parameters, len(seen.tensors), len(seen.nodes or ()))
    assert ((), None, {"Add": 4}) == (seen.inputs, seen.parts, seen.operators)
    assert "models=['en_coder', 'decoder']" in repr(seen)
    assert "decoder: 2 nodes, 2,000 parameters" in seen._repr_html_()
    report = json.loads(run("formats", "inspect", bundle, "--json", "--nodes", "--params").output)
    assert report["models"] == json.loads(json.dumps([each.to_json() for each in alone]))
    assert [each["model"] for each in report["models"]] == ["en_coder", "decoder"]
    assert not {"inputs", "tensors", "model"} & report.keys()
    assert [("files/tokenizer.json", 18)] == [tuple(each.values()) for each in report["bundled"]]
    filtered = json.loads(run("formats", "inspect", bundle, "--json", "--nodes", "Mul").output)
    assert [[], []] == [each["nodes"] for each in filtered["models"]]
    shown = run("formats", "inspect", bundle).output
    assert ["model", "nodes", "parameters", "bytes", "en_coder", "2", "2,000", "8,000"] == (
        shown[shown.index("  model ") :].split()[:8]
    )


def test_every_model_is_in_the_picture(bundle: Path, tmp_path: Path) -> None:
    """A picture of a bundle has the weights of all models, each in the box of its model."""
    assert 0 == run("formats", "inspect", bundle, "--picture", tmp_path / "p.svg").exit_code
    shown = (tmp_path / "p.svg").read_text()
    assert "4 tensors" in shown
    (file,) = layout(bundle)
    labels = {region.label for region in file.regions if region.kind == "tensor"}
    assert labels == {f"{name}: FLOAT [1000]" for name in ("a", "b", "c")}
    assert all(f"{name}" in shown for name in ("en_coder", "decoder"))


def test_every_model_is_compared(sources: list[Path], bundle: Path, tmp_path: Path) -> None:
    """Two bundles are compared model by model, by name; a model that only one has is a difference."""
    same = formats.diff(bundle, bundle)
    assert (True, ["the files files/tokenizer.json in"] * 2) == (
        same.equal,
        [note.detail.partition(f" {bundle}")[0] for note in same.notes],
    )
    formats.save(model(("a", SHARED), ("b", SHARED - 1)), sources[0], overwrite=True)
    formats.pack([sources[0], f"other={sources[1]}"], tmp_path / "c.onnxz")
    found = formats.diff(bundle, tmp_path / "c.onnxz")
    assert [
        ("only first", "decoder"),
        ("only second", "other"),
        ("weights", "en_coder: graph.initializer[1]"),
    ] == [(each.kind, each.where) for each in found.differences]
    done = run("formats", "diff", bundle, tmp_path / "c.onnxz", "--picture", tmp_path / "p.svg")
    assert (2, True) == (done.exit_code, "choose one with --model" in done.output)
    steps: list[tuple[int, int]] = []
    formats.diff(bundle, bundle, progress=lambda done, total: steps.append((done, total)))
    assert (16000, 16000) == steps[-1]


def test_what_is_not_compared_is_told(sources: list[Path], tmp_path: Path) -> None:
    """If only the default model of a bundle is compared, a note names the others."""
    formats.pack(sources[:2], tmp_path / "b.onnxz", default="decoder")
    done = formats.diff(tmp_path / "b.onnxz", sources[1])
    assert (True, ["the models en_coder"]) == (done.equal, [each.detail.partition(" in ")[0] for each in done.notes])
    assert () == formats.diff(tmp_path / "b.onnxz", sources[0], model="en_coder").notes


def test_convert_tells_what_it_leaves(bundle: Path, tmp_path: Path) -> None:
    """A conversion of one of several models says what else is in the archive."""
    report = formats.convert(bundle, tmp_path / "d.onnx", model="decoder")
    assert "the models en_coder and the files files/tokenizer.json" in report.notes[0].detail


def test_unpacked_folder_is_usable(bundle: Path, tmp_path: Path) -> None:
    """`onnx` loads each graph in the folder, files are there, and `sha256sum -c` finds every file right.

    Each graph is also there with the name of its model and `.onnx`.
    """
    done = formats.unpack(bundle, tmp_path / "out")
    assert [tmp_path / "out" / name for name in ("en_coder.onnx", "decoder.onnx")] == [*done.models]
    assert sorted([*names(bundle), "en_coder.onnx", "decoder.onnx"]) == sorted(
        path.relative_to(tmp_path / "out").as_posix() for path in (tmp_path / "out").rglob("*") if path.is_file()
    )
    for path in done.models:
        onnx.checker.check_model(str(path))
    loaded = onnx.load(tmp_path / "out" / "__MODEL_PROTO_decoder")
    np.testing.assert_array_equal(onnx.numpy_helper.to_array(loaded.graph.initializer[0]), SHARED)
    need("sha256sum")
    checked = subprocess.run(
        ["sha256sum", "-c", "__SHA256SUMS"], cwd=tmp_path / "out", capture_output=True, timeout=PATIENCE_SECONDS
    )
    assert 0 == checked.returncode, checked.stdout


@pytest.mark.skipif(sys.platform == "win32", reason="Windows limits no open files")
def test_an_archive_with_more_entries_than_open_files_is_unpacked(tmp_path: Path) -> None:
    """An archive of 600 weights is unpacked by a process that may open 256 files."""
    weights = [formats.from_numpy(np.full(300, number, np.float32), f"w{number}") for number in range(600)]
    model = formats.Model(ir_version=10, graph=formats.Graph(name="g", initializer=weights))
    formats.save(model, tmp_path / "m.onnxz")
    script = (
        "import resource, sys, formats; resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256));"
        "formats.unpack(sys.argv[1], sys.argv[2])"
    )
    done = subprocess.run([sys.executable, "-c", script, tmp_path / "m.onnxz", tmp_path / "out"], check=False)
    assert done.returncode == 0
    assert formats.diff(tmp_path / "m.onnxz", tmp_path / "out" / "__MODEL_PROTO").equal


def test_unpack_writes_all_or_nothing(bundle: Path, tmp_path: Path) -> None:
    """A folder with something in it, a missing parent and a damaged archive are errors, and nothing is left."""
    with pytest.raises(FileExistsError):
        formats.unpack(bundle, tmp_path)
    assert (
        "it is not an empty folder; --force replaces files in it" in run("formats", "unpack", bundle, tmp_path).output
    )
    assert "it is not a folder" in run("formats", "unpack", bundle, bundle, "--force").output
    with pytest.raises(FileNotFoundError):
        formats.unpack(bundle, tmp_path / "no" / "out")
    (tmp_path / "bad.onnxz").write_bytes(bundle.read_bytes()[:-1])
    with pytest.raises(DecodeError):
        formats.unpack(tmp_path / "bad.onnxz", tmp_path / "out")
    assert not (tmp_path / "out").exists()
    assert 0 == run("formats", "unpack", bundle, tmp_path / "no" / "out", "--parents").exit_code


@pytest.mark.skipif(sys.platform == "win32", reason="Windows opens no folders")
@pytest.mark.parametrize("exists", [False, True])
def test_unpack_follows_no_link_of_another_process(
    exists: bool, bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A link that another process puts into the folder meanwhile is an error, and nothing is written behind it."""
    (tmp_path / "elsewhere").mkdir()
    out = tmp_path / "out"
    if exists:
        out.mkdir()
    write_files = pack._write_files

    def write_and_plant(*arguments: Any) -> int:
        nbytes = write_files(*arguments)
        if exists:
            (out / "files").symlink_to(tmp_path / "elsewhere")
        else:
            out.symlink_to(tmp_path / "elsewhere")
        return nbytes

    monkeypatch.setattr(pack, "_write_files", write_and_plant)
    if exists:
        with pytest.raises(FileExistsError, match="a link is in the way of a folder"):
            formats.unpack(bundle, out)
    else:
        with pytest.raises(OSError, match="out"):
            formats.unpack(bundle, out)
    assert not [*(tmp_path / "elsewhere").iterdir()]
    assert not [*tmp_path.glob(".*")]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows opens no folders")
@pytest.mark.parametrize("overwrite", [False, True])
def test_an_unpack_that_ends_in_between_is_completed(
    overwrite: bool, bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever it ends while files take their places, no old graph is there, and the same call completes it."""

    def content(folder: Path) -> dict[str, bytes]:
        return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    formats.unpack(bundle, tmp_path / "whole")
    whole = content(tmp_path / "whole")
    graphs = {name: b"old" for name in whole if name.endswith(".onnx") or name.startswith("__MODEL_PROTO")}
    take = Folder.take
    for calls in range(len(whole)):
        out = tmp_path / f"out{calls}"
        out.mkdir()
        for name, old in graphs.items() if overwrite else ():
            (out / name).write_bytes(old)
        answers = iter([take] * calls)  # then there is a StopIteration
        with monkeypatch.context() as patches, pytest.raises(StopIteration):
            patches.setattr(Folder, "take", lambda *arguments, answers=answers: next(answers)(*arguments))
            formats.unpack(bundle, out, overwrite=overwrite)
        assert not content(out).items() & graphs.items()
        formats.unpack(bundle, out, overwrite=overwrite)
        assert content(out) == whole


@pytest.mark.parametrize("change", ["nothing", "another file", "other bytes", "a link", "an empty folder"])
def test_only_a_part_of_the_same_archive_is_completed(change: str, bundle: Path, tmp_path: Path) -> None:
    """A folder with all files of an archive, or with anything else, is not empty, and stays as it is."""
    out = tmp_path / "out"
    graph, *_ = formats.unpack(bundle, out).models
    if change != "nothing":
        graph.rename(tmp_path / "elsewhere")
    if change == "another file":
        (out / "more").touch()
    elif change == "other bytes":
        graph.write_bytes(b"other")
        next(out.glob("__MODEL_PROTO*")).unlink()
    elif change == "a link":
        graph.symlink_to(tmp_path / "elsewhere")
    elif change == "an empty folder":
        (out / "more").mkdir()
    with pytest.raises(FileExistsError, match="not an empty folder"):
        formats.unpack(bundle, out)


def test_unpacked_models_are_packed_to_the_same_archive(bundle: Path, tmp_path: Path) -> None:
    """The `.onnx` files and the other files of an unpacked archive, packed again, are the same bytes."""
    done = formats.unpack(bundle, tmp_path / "out")
    formats.pack([*done.models, *done.files], tmp_path / "again.onnxz")
    assert (tmp_path / "again.onnxz").read_bytes() == bundle.read_bytes()


@pytest.mark.parametrize(("archive", "expected"), [("b.onnxz", "b.onnx"), ("Decoder.onnxz", "__MODEL_PROTO.onnx")])
def test_the_default_model_has_the_name_of_the_archive(
    sources: list[Path], tmp_path: Path, archive: str, expected: str
) -> None:
    """The file of the default model has the name of the archive, if no other model has it."""
    formats.pack(sources[:2], tmp_path / archive, default="en_coder")
    done = formats.unpack(tmp_path / archive, tmp_path / "out")
    assert ["decoder.onnx", expected] == [path.name for path in done.models]
    assert formats.diff(done.models[1], sources[0]).equal


def everything(folder: Path) -> dict[str, bytes]:
    """Return the contents of all files below a folder, hidden ones too."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_unpack_replaces_files_on_request(bundle: Path, tmp_path: Path) -> None:
    """With `--force`, files with the same names are replaced, others stay, and nothing else is left."""
    formats.unpack(bundle, tmp_path / "out")
    expected = {**everything(tmp_path / "out"), "own.txt": b"mine"}
    (tmp_path / "out/own.txt").write_text("mine")
    (tmp_path / "out/a").write_text("old")
    (tmp_path / "out/files/tokenizer.json").unlink()
    done = run("formats", "unpack", bundle, tmp_path / "out", "--force")
    assert (0, expected) == (done.exit_code, everything(tmp_path / "out"))
    assert {"sources", "b.onnxz", "out"} == {path.name for path in tmp_path.iterdir()}


@pytest.mark.parametrize("broken", ["archive", "folder in the way", "link in the way", "disk"])
def test_unpack_replaces_all_or_nothing(
    bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    """If anything is wrong before all files are written, `--force` leaves the folder as it was."""
    formats.unpack(bundle, tmp_path / "out")
    (tmp_path / "out/a").write_bytes(b"old")
    (tmp_path / "elsewhere").mkdir()
    if broken == "archive":
        bundle.write_bytes(bundle.read_bytes()[:-1])
    elif broken == "folder in the way":
        (tmp_path / "out/b").unlink()
        (tmp_path / "out/b").mkdir()
    elif broken == "link in the way":
        (tmp_path / "out/files").rename(tmp_path / "files")
        (tmp_path / "out/files").symlink_to(tmp_path / "elsewhere")
    else:

        def full(*_: object) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("formats.verbs.pack.execute", full)
    before = everything(tmp_path)
    with pytest.raises((DecodeError, OSError)):
        formats.unpack(bundle, tmp_path / "out", overwrite=True)
    assert before == everything(tmp_path)
    assert [] == [*(tmp_path / "elsewhere").iterdir(), *tmp_path.glob(".*")]


def test_update_keeps_what_it_does_not_touch(bundle: Path) -> None:
    """A change of one model in place keeps weights, the other model, files, and renews the hashes."""
    before = read_contents(File.open(bundle).span())
    found = formats.load(bundle, model="decoder")
    found.graph.node[0].name = "renamed"  # type: ignore[union-attr]
    found.graph.initializer.append(formats.from_numpy(SHARED + 9, "new"))  # type: ignore[union-attr]
    assert onnxzip.update(found, bundle, name="decoder").in_place
    after = read_contents(File.open(bundle).span())
    assert before.tensors == after.tensors[:3]
    assert ["a", "b", "c", "new", "files/tokenizer.json", "__SHA256SUMS"] == names(bundle)[:-2]
    assert ["__MODEL_PROTO_en_coder", "__MODEL_PROTO_decoder"] == names(bundle)[-2:]
    assert is_right(bundle)
    assert formats.verify(bundle, data=True).ok
    assert "renamed" == formats.load(bundle, model="decoder").graph.node[0].name  # type: ignore[union-attr]


@pytest.mark.parametrize("dropped", [0, 1])
def test_update_drops_only_what_no_model_needs(dropped: int, bundle: Path) -> None:
    """A weight that leaves one model stays if another model has it, under the name that the other knows."""
    found = formats.load(bundle, model="en_coder")
    del found.graph.initializer[dropped]  # type: ignore[union-attr]
    onnxzip.update(found, bundle, name="en_coder")
    assert {"a", "c"} <= set(names(bundle))
    assert ("b" in names(bundle)) == (dropped == 0)
    assert (first_array(formats.load(bundle, model="decoder")) == SHARED).all()
    assert is_right(bundle)
    onnxzip.check(File.open(bundle).span())


def test_hashes_of_kept_entries_are_copied(bundle: Path) -> None:
    """An update copies the hashes of what stays, also a wrong one: it does not read these weights."""
    data = bytearray(bundle.read_bytes())
    hashes = read_contents(Literal(bytes(data))).hashes
    assert hashes is not None
    data[hashes.payload_offset : hashes.payload_offset + 64] = b"0" * 64
    bundle.write_bytes(data)
    found = formats.load(bundle, model="decoder")
    onnxzip.update(found, bundle, name="decoder")
    source = File.open(bundle).span()
    assert "0" * 64 == read_hashes(source, read_contents(source))["a"]


def test_interrupted_update_of_a_bundle_is_restored(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a process was killed in an update, the archive is read as the old one, and `repair` restores it."""
    old = bundle.read_bytes()
    found = formats.load(bundle, model="decoder")
    monkeypatch.setattr(
        tail_replacement, "remove_file", lambda path: None
    )  # so the undo file stays, as if killed before
    onnxzip.update(found, bundle, name="decoder")
    monkeypatch.undo()
    bundle.write_bytes(bundle.read_bytes()[:-1])
    assert (first_array(formats.load(bundle, model="decoder")) == SHARED).all()
    assert formats.repair(bundle).put_back
    assert old == bundle.read_bytes()


def test_a_link_to_one_model(bundle: Path) -> None:
    """`link` writes a graph for one model, which uses the weights in the archive."""
    formats.link(bundle, bundle.with_name("d.onnx"), model="decoder")
    loaded = onnx.load(bundle.with_name("d.onnx"))
    np.testing.assert_array_equal(onnx.numpy_helper.to_array(loaded.graph.initializer[0]), SHARED)


def test_lenient_reads_a_bundle_of_another_tool(bundle: Path, tmp_path: Path) -> None:
    """Entries in another order, in a folder, are read with `lenient`, one model at a time."""
    with zipfile.ZipFile(bundle) as archive, zipfile.ZipFile(tmp_path / "z.onnxz", "w") as other:
        for name in reversed(archive.namelist()):
            other.writestr(f"folder/{name}", archive.read(name))
    with pytest.raises(FormatError):
        formats.load(tmp_path / "z.onnxz", model="decoder")
    found = formats.load(tmp_path / "z.onnxz", model="decoder", lenient=True)
    assert (first_array(found) == SHARED).all()


@pytest.mark.parametrize("program", ["unzip", "7z", "bsdtar"])
def test_zip_tools_unpack_it(program: str, bundle: Path, tmp_path: Path) -> None:
    """Other zip programs unpack a bundle to the same files as `unpack`, which adds those that end in `.onnx`."""
    need(program)
    formats.unpack(bundle, tmp_path / "ours")
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    command = {"unzip": ["-q", bundle], "7z": ["x", "-y", bundle], "bsdtar": ["-xf", bundle]}[program]
    subprocess.run([program, *command], cwd=theirs, capture_output=True, timeout=PATIENCE_SECONDS, check=True)
    added = everything(tmp_path / "ours").items() - everything(theirs).items()
    assert {"en_coder.onnx", "decoder.onnx"} == {name for name, _ in added}
    assert everything(theirs).items() <= everything(tmp_path / "ours").items()


@pytest.mark.outer
def test_three_real_graphs_run_from_one_file(shared_models: list[Path], tmp_path: Path) -> None:
    """An encoder, GPT-2 and BERT of one archive give in onnxruntime what their own files give, mapped and unpacked."""
    onnxruntime = pytest.importorskip("onnxruntime")
    wanted = ("whisper_enc.ts17", "gpt2.dyn", "bert.ts17")
    paths = {path.stem: path for path in shared_models if path.stem in wanted}
    (tmp_path / "tokenizer.json").write_text('{"version": "1.0"}')
    done = formats.pack([*paths.values(), tmp_path / "tokenizer.json"], tmp_path / "b.onnxz")
    formats.unpack(tmp_path / "b.onnxz", tmp_path / "out")
    for (stem, path), name in zip(paths.items(), done.models, strict=True):
        assert name is not None
        with np.load(path.with_suffix(".npz")) as arrays:
            inputs = {key.removeprefix("in_"): arrays[key] for key in arrays.files if key.startswith("in_")}
        own = onnxruntime.InferenceSession(path)
        inputs = dict(zip((each.name for each in own.get_inputs()), inputs.values(), strict=True))
        expected = own.run(None, inputs)
        formats.link(tmp_path / "b.onnxz", tmp_path / f"{name}.onnx", model=name)
        for session in (
            onnxruntime.InferenceSession(tmp_path / "out" / f"{name}.onnx"),
            onnxruntime.InferenceSession(tmp_path / f"{name}.onnx"),
            formats.onnxruntime_session(tmp_path / "b.onnxz", model=name),
        ):
            for ours, theirs in zip(session.run(None, inputs), expected, strict=True):
                np.testing.assert_array_equal(ours, theirs, stem)
