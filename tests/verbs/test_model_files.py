"""The files of a model are listed, copied, moved and removed together, and no other files."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import formats
from formats import Graph, Model, Node, OperatorSetId, TensorShape, TensorType, Type, ValueInfo, onnxpb
from formats.errors import FormatError
from formats.tensordata.replacing import further_name, lock
from formats.verbs import model_files
from formats.verbs import relocate as relocation
from tests.systems import PATIENCE_SECONDS

Command = Callable[..., "subprocess.CompletedProcess[str]"]


def model(seed: int = 1, count: int = 2) -> Model:
    """Return a sum with some weights of 8 KiB."""
    state = np.random.default_rng(seed)
    weights = [formats.from_numpy(state.random(2048, "float32"), f"w{index}") for index in range(count)]
    nodes = [Node(op_type="Add", input=[f"y{n}", f"w{n}"], output=[f"y{n + 1}"]) for n in range(count)]
    ends = [
        ValueInfo(name=name, type=Type(tensor_type=TensorType(elem_type=1, shape=TensorShape([]))))
        for name in ("y0", f"y{count}")
    ]
    graph = Graph(name="g", node=nodes, initializer=weights, input=ends[:1], output=ends[1:])
    return Model(ir_version=10, producer_name=f"seed {seed}", opset_import=[OperatorSetId("", 17)], graph=graph)


def names(folder: Path) -> list[str]:
    """Return the names in a folder, including hidden files."""
    return sorted(os.listdir(folder))


def weights(path: Path) -> list[bytes]:
    """Return the weights that `onnx` reads."""
    found = onnx.load(path).graph.initializer
    return [onnx.numpy_helper.to_array(tensor).tobytes() for tensor in found]


@pytest.fixture
def split(tmp_path: Path) -> Path:
    """A model with two data files that are named after it."""
    formats.save(model(), tmp_path / "a.onnx", external_data=True, max_external_file_size=10_000)
    assert names(tmp_path) == ["a-00001-of-00002.data", "a-00002-of-00002.data", "a.onnx"]
    return tmp_path / "a.onnx"


def shared(folder: Path) -> None:
    """Two models, a.onnx and b.onnx, that refer to one data file, common.bin."""
    formats.save(model(), folder / "a.onnx", external_data="common.bin")
    (folder / "b.onnx").write_bytes((folder / "a.onnx").read_bytes())


@pytest.mark.parametrize("extension", ["onnx", "onnxz", "rten", "onnxc"])
def test_files_of_one_file_are_that_file(tmp_path: Path, extension: str) -> None:
    """A model in one file has one file, in every format."""
    path = tmp_path / f"a.{extension}"
    key = {"key": "secret words"} if extension == "onnxc" else {}
    formats.save(model(), path, **key)
    found = formats.files(path, **key)
    assert [(path, path.stat().st_size)] == [(file.path, file.nbytes) for file in found.files]


def test_files_are_listed_with_locations(split: Path) -> None:
    """The model comes first, then its data files with their sizes and with their names in the graph."""
    found = formats.files(split)
    assert ["", "a-00001-of-00002.data", "a-00002-of-00002.data"] == [file.location for file in found.files]
    assert found.nbytes == sum(os.path.getsize(split.parent / name) for name in names(split.parent))
    assert not [file for file in found.files if file.stays or file.leads_to]


def test_copies_are_named_after_the_new_model(split: Path) -> None:
    """A copy has its own data files, named after it, with the same weights; the original does not change."""
    before = {name: (split.parent / name).read_bytes() for name in names(split.parent)}
    done = formats.cp(split, split.parent / "b.onnx")
    assert ["b-00001-of-00002.data", "b-00002-of-00002.data", "b.onnx"] == [file.path.name for file in done.written]
    assert weights(split) == weights(split.parent / "b.onnx")
    assert before == {name: (split.parent / name).read_bytes() for name in before}
    assert len(names(split.parent)) == 6


def test_a_copy_looks_into_no_other_graph(split: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy removes no file, so the other graphs in the folder are not read."""
    monkeypatch.setattr(model_files, "_needed_by_others", lambda *_: pytest.fail("looked into"))
    assert 3 == len(formats.cp(split, split.parent / "b.onnx").written)


@pytest.mark.parametrize("move", [False, True])
def test_folders_around_a_destination_are_made_on_request(split: Path, tmp_path: Path, move: bool) -> None:
    """Without `parents`, a missing folder is an error; with it, it is created, and removed again after a failure."""
    relocate = formats.mv if move else formats.cp
    for place in (f"{tmp_path}/x/y/", tmp_path / "x" / "y" / "b.onnx"):
        with pytest.raises(FileNotFoundError, match="no such directory"):
            relocate(split, place)
        assert not (tmp_path / "x").exists()
    foreseen = relocate(split, f"{tmp_path}/x/y/", parents=True, dry_run=True)
    assert not (tmp_path / "x").exists()
    done = relocate(split, f"{tmp_path}/x/y/", parents=True)
    assert (done.written, done.removed) == (foreseen.written, foreseen.removed)
    assert ["a-00001-of-00002.data", "a-00002-of-00002.data", "a.onnx"] == names(tmp_path / "x" / "y")
    assert split.exists() != move
    (tmp_path / "bad.onnx").write_bytes(b"no model")
    with pytest.raises(FormatError):
        relocate(tmp_path / "bad.onnx", tmp_path / "z" / "b.onnx", parents=True)
    assert not (tmp_path / "z").exists()


def left(report: formats.ConversionReport) -> list[str]:
    """Return the files that a conversion reports as left over."""
    return [loss.where for loss in report.losses if loss.kind == "left_behind"]


@pytest.mark.parametrize("dry_run", [True, False])
def test_data_files_that_a_new_layout_does_not_need_are_told(split: Path, tmp_path: Path, dry_run: bool) -> None:
    """If a model is replaced by one with other data files, the old data files stay, and the report lists them."""
    names_before = names(tmp_path)
    old = ["a-00001-of-00002.data", "a-00002-of-00002.data"]
    options: dict[str, Any] = {"overwrite": True, "dry_run": dry_run}
    assert old == left(formats.convert(split, split, external_data=False, **options))
    assert {*names_before} == {*names(tmp_path)}
    formats.save(model(), split, overwrite=True, max_external_file_size=10_000)
    assert [] == left(formats.convert(split, split, max_external_file_size=10_000, **options))
    report = formats.save(model(), split, external_data=True, **options)
    assert old == left(report)
    assert not any(loss.matters for loss in report.losses)


def test_data_files_of_others_are_not_left_behind(split: Path, tmp_path: Path) -> None:
    """Data files that another model uses, archives, and files elsewhere or already missing are not listed."""
    (tmp_path / "b.onnx").write_bytes(split.read_bytes())
    assert [] == left(formats.convert(split, split, external_data=False, overwrite=True))
    formats.save(model(), tmp_path / "c.onnxz")
    formats.link(tmp_path / "c.onnxz", tmp_path / "c.onnx")
    assert [] == left(formats.save(model(), tmp_path / "c.onnx", overwrite=True))
    formats.save(model(), tmp_path / "d.onnx", external_data=True)
    (tmp_path / "d.onnx.data").unlink()
    assert [] == left(formats.save(model(), tmp_path / "d.onnx", overwrite=True))
    outside = onnx.load(tmp_path / "b.onnx", load_external_data=False)
    for tensor in outside.graph.initializer:
        tensor.external_data[0].value = "../" + "x" * 9
    (tmp_path / "sub").mkdir()
    (tmp_path / ("x" * 9)).write_bytes(b"x")
    (tmp_path / "sub" / "e.onnx").write_bytes(outside.SerializeToString())
    assert [] == left(formats.save(model(), tmp_path / "sub" / "e.onnx", overwrite=True))


def test_weights_are_not_rewritten_by_a_move(split: Path) -> None:
    """Moved data files are the same files, with the same inodes, and have only one name."""
    inodes = sorted(path.stat().st_ino for path in split.parent.glob("*.data"))
    expected = weights(split)
    (split.parent / "sub").mkdir()
    for target in ("b.onnx", "sub"):
        source = next(split.parent.glob("*.onnx"))
        formats.mv(source, split.parent / target)
    folder = split.parent / "sub"
    assert names(folder) == ["b-00001-of-00002.data", "b-00002-of-00002.data", "b.onnx"]
    assert inodes == sorted(path.stat().st_ino for path in folder.glob("*.data"))
    assert {1} == {path.stat().st_nlink for path in folder.iterdir()}
    assert names(split.parent) == ["sub"]
    assert expected == weights(folder / "b.onnx")


@pytest.mark.parametrize("extension", ["onnxz", "rten", "onnx"])
def test_one_file_moves_as_it_is(tmp_path: Path, extension: str) -> None:
    """A model in one file is renamed, byte for byte, with the same inode."""
    path = tmp_path / f"a.{extension}"
    formats.save(model(), path)
    content, inode = path.read_bytes(), path.stat().st_ino
    formats.mv(path, tmp_path / f"b.{extension}")
    assert [f"b.{extension}"] == names(tmp_path)
    moved = tmp_path / f"b.{extension}"
    assert (content, inode) == (moved.read_bytes(), moved.stat().st_ino)


def test_without_two_names_for_a_file_moves_are_copies(split: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If a file cannot have two names, as on another filesystem, its bytes are copied and the old file is removed."""
    expected = weights(split)
    monkeypatch.setattr(further_name, "make_link", lambda *_: False)
    formats.mv(split, split.parent / "sub" / "b.onnx", parents=True)
    assert names(split.parent) == ["sub"]
    assert names(split.parent / "sub") == ["b-00001-of-00002.data", "b-00002-of-00002.data", "b.onnx"]
    assert expected == weights(split.parent / "sub" / "b.onnx")


def test_moving_over_a_model_replaces_it(split: Path) -> None:
    """With `overwrite`, the model at the destination is replaced with its own data files; without, nothing happens."""
    other = split.parent / "b.onnx"
    formats.save(model(2), other, external_data=True, max_external_file_size=10_000)
    expected, before = weights(split), {name: (split.parent / name).read_bytes() for name in names(split.parent)}
    with pytest.raises(FileExistsError):
        formats.mv(split, other)
    assert before == {name: (split.parent / name).read_bytes() for name in names(split.parent)}
    formats.mv(split, other, overwrite=True)
    assert expected == weights(other)
    assert names(split.parent) == ["b-00001-of-00002.data", "b-00002-of-00002.data", "b.onnx"]


def test_shared_data_stay(tmp_path: Path) -> None:
    """A data file that another graph refers to is neither removed nor renamed, and the report says why."""
    shared(tmp_path)
    assert ["", "b.onnx uses it, too"] == [file.stays for file in formats.files(tmp_path / "a.onnx").files]
    expected = weights(tmp_path / "b.onnx")
    formats.mv(tmp_path / "a.onnx", tmp_path / "c.onnx")
    assert ["b.onnx", "c.onnx", "common.bin"] == names(tmp_path)
    done = formats.rm(tmp_path / "c.onnx", all_data=True)
    assert ((tmp_path / "common.bin", "b.onnx uses it, too"),) == done.kept
    assert ["b.onnx", "common.bin"] == names(tmp_path)
    assert expected == weights(tmp_path / "b.onnx")


def test_shared_data_are_copied_into_another_folder(tmp_path: Path) -> None:
    """A model that moves to another folder gets a copy of the shared data."""
    shared(tmp_path)
    (tmp_path / "sub").mkdir()
    formats.mv(tmp_path / "a.onnx", tmp_path / "sub")
    assert ["b.onnx", "common.bin", "sub"] == names(tmp_path)
    assert weights(tmp_path / "b.onnx") == weights(tmp_path / "sub" / "a.onnx")


def test_an_archive_behind_a_linked_graph_stays(tmp_path: Path) -> None:
    """An archive with a linked graph is copied, not moved or removed; the graph does not move without it."""
    formats.save(model(), tmp_path / "a.onnxz")
    formats.link(tmp_path / "a.onnxz", tmp_path / "link.onnx")
    expected = weights(tmp_path / "link.onnx")
    assert ["a.onnxz"] == [path.name for path, _ in formats.rm(tmp_path / "a.onnxz").kept]
    assert ["a.onnxz"] == [path.name for path, _ in formats.mv(tmp_path / "a.onnxz", tmp_path / "b.onnxz").kept]
    assert ["a.onnxz"] == [path.name for path, _ in formats.mv(tmp_path / "link.onnx", tmp_path / "l.onnx").kept]
    assert ["a.onnxz", "b.onnxz", "l.onnx"] == names(tmp_path)
    assert expected == weights(tmp_path / "l.onnx")
    (tmp_path / "sub").mkdir()
    with pytest.raises(FormatError, match="cannot go to another folder"):
        formats.mv(tmp_path / "l.onnx", tmp_path / "sub")
    formats.rm(tmp_path / "l.onnx")
    formats.rm(tmp_path / "a.onnxz")
    assert ["b.onnxz", "sub"] == names(tmp_path)


def test_a_graph_that_cannot_be_read_may_share(tmp_path: Path) -> None:
    """Next to a broken graph, nothing is removed or moved without a word: its data may also belong to that graph."""
    formats.save(model(), tmp_path / "a.onnx", external_data=True)
    for content in (b"", b"\x0a\xff", b"<html></html>", b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n"):
        (tmp_path / "broken.onnx").write_bytes(content)
        for act in (
            lambda: formats.rm(tmp_path / "a.onnx"),
            lambda: formats.rm(tmp_path / "a.onnx", dry_run=True),
            lambda: formats.mv(tmp_path / "a.onnx", tmp_path / "b.onnx"),
        ):
            with pytest.raises(
                FormatError, match=r"broken.onnx: it cannot be read, so it may use a.onnx.data, as a.onnx"
            ):
                act()
            assert ["a.onnx", "a.onnx.data", "broken.onnx"] == names(tmp_path)
        assert "broken.onnx cannot be read" in formats.files(tmp_path / "a.onnx").files[1].stays
    formats.cp(tmp_path / "a.onnx", tmp_path / "b.onnx")
    formats.rm(tmp_path / "b.onnx", all_data=True)
    formats.rm(tmp_path / "a.onnx", all_data=True)
    assert ["broken.onnx"] == names(tmp_path)


def test_a_graph_whose_data_is_missing_can_be_read(tmp_path: Path) -> None:
    """Only the references of the other graphs count: a graph without its data file keeps those that it names."""
    shared(tmp_path)
    formats.save(model(), tmp_path / "c.onnx", external_data=True)
    formats.save(model(), tmp_path / "other.onnx", external_data=True)
    (tmp_path / "other.onnx.data").unlink()
    formats.rm(tmp_path / "c.onnx")
    assert ["a.onnx", "b.onnx", "common.bin", "other.onnx"] == names(tmp_path)


def test_another_graph_is_asked_and_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of another graph, only the references count, also through a link; a text that is called a graph is read."""
    shared(tmp_path)
    (tmp_path / "link.bin").symlink_to("common.bin")
    formats.convert(tmp_path / "b.onnx", tmp_path / "text.textproto")
    content = (tmp_path / "b.onnx").read_bytes()
    (tmp_path / "b.onnx").write_bytes(content.replace(b"\x0acommon.bin", b"\x0a./link.bin"))
    read = []
    decoded = model_files.read_decoded
    monkeypatch.setattr(
        model_files, "read_decoded", lambda path, *given: read.append(path.name) or decoded(path, *given)
    )
    assert ["", "b.onnx uses it, too"] == [file.stays for file in formats.files(tmp_path / "a.onnx").files]
    assert ["a.onnx"] == read
    (tmp_path / "text.textproto").replace(tmp_path / "b.onnx")
    assert ["", "b.onnx uses it, too"] == [file.stays for file in formats.files(tmp_path / "a.onnx").files]
    assert ["a.onnx", "a.onnx", "b.onnx"] == read


def test_models_in_one_file_need_no_other_graph(tmp_path: Path) -> None:
    """A model without data files can be moved and removed next to a broken graph."""
    formats.save(model(), tmp_path / "a.onnx")
    (tmp_path / "broken.onnx").touch()
    formats.mv(tmp_path / "a.onnx", tmp_path / "b.onnx")
    formats.rm(tmp_path / "b.onnx")
    assert ["broken.onnx"] == names(tmp_path)


def half_removed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Save a model with two data files at a path, and remove it until one of them is gone."""
    formats.save(model(), path, external_data=True, max_external_file_size=10_000, overwrite=True)
    calls = iter([relocation.unlink_same])
    with monkeypatch.context() as patches, pytest.raises(StopIteration):
        patches.setattr(relocation, "unlink_same", lambda *arguments: next(calls)(*arguments))
        formats.rm(path)
    assert not path.exists()
    assert len(names(path.parent)) >= 2


@pytest.mark.parametrize("again", ["rm", "repair", "rm of a new model", "a new model that needs it"])
def test_a_removal_that_ended_in_between_is_completed(
    again: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No tool finds a half-removed model; the same removal, also of a new model in its place, or a repair ends it."""
    path = tmp_path / "a.onnx"
    half_removed(path, monkeypatch)
    before = names(tmp_path)
    if again == "repair":
        assert formats.repair(path).removed
    elif again == "rm":
        assert formats.rm(path, dry_run=True).removed[0] == path
        assert names(tmp_path) == before
        assert formats.rm(path).removed[0] == path
    else:
        formats.save(model(), path, external_data=True, max_external_file_size=10_000, overwrite=True)
        if again == "a new model that needs it":
            formats.repair(path)
            assert weights(path)
            assert ".a.onnx.removed" not in names(tmp_path)
        formats.rm(path)
    assert [] == names(tmp_path)
    with pytest.raises(FileNotFoundError):
        formats.rm(path)
    assert [] == names(tmp_path)


@pytest.mark.skipif(sys.platform == "win32", reason="needs links")
@pytest.mark.parametrize("kind", ["link", "further name"])
def test_no_strange_graph_says_what_is_removed(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A graph that another user could have put aside is not followed: no file is removed because of it."""
    (tmp_path / "sub").mkdir()
    half_removed(tmp_path / "a.onnx", monkeypatch)
    aside, other = tmp_path / ".a.onnx.removed", tmp_path / "sub" / "graph"
    aside.rename(other)
    (aside.symlink_to if kind == "link" else aside.hardlink_to)(other)
    before = names(tmp_path)
    for act in (formats.rm, formats.repair):
        with pytest.raises(FormatError, match="remove it"):
            act(tmp_path / "a.onnx")
    assert names(tmp_path) == before


def test_a_model_cannot_name_any_file_for_removal(tmp_path: Path) -> None:
    """A file that is not named after the model is removed only on request: the model's author chose its name."""
    formats.save(model(), tmp_path / "a.onnx", external_data="taxes.pdf")
    done = formats.rm(tmp_path / "a.onnx")
    assert ["taxes.pdf"] == names(tmp_path)
    assert "not named after the model" in done.kept[0][1]
    formats.save(model(), tmp_path / "a.onnx", external_data="taxes.pdf", overwrite=True)
    formats.rm(tmp_path / "a.onnx", all_data=True)
    assert [] == names(tmp_path)


@pytest.mark.parametrize("location", ["a.onnx", "sub/a.onnx"])
def test_data_that_are_called_like_the_model(location: str, tmp_path: Path) -> None:
    """Data in the model itself, or in a file with its name, are beside the copy; no move leaves them behind."""
    new = model(count=1)
    (weight,) = new.graph.initializer
    data = weight.numpy().tobytes()
    proto = formats.to_onnx(new)
    proto.graph.initializer[0].ClearField("raw_data")
    proto.graph.initializer[0].data_location = onnx.TensorProto.EXTERNAL
    proto.graph.initializer[0].external_data.add(key="location", value=location)
    proto.graph.initializer[0].external_data.add(key="length", value=str(len(data)))
    (tmp_path / "sub").mkdir()
    (tmp_path / location).write_bytes(data)
    (tmp_path / "a.onnx").write_bytes(proto.SerializeToString() + padding(len(data)))
    before = formats.load(tmp_path / "a.onnx").tensor("w0").numpy().tobytes()
    formats.cp(tmp_path / "a.onnx", tmp_path / "b.onnx")
    with suppress(FormatError):
        formats.mv(tmp_path / "a.onnx", tmp_path / "c.onnx")
    for path in tmp_path.glob("[abc].onnx"):
        assert formats.load(path).tensor("w0").numpy().tobytes() == before


def padding(nbytes: int) -> bytes:
    """Return so many bytes, or a few more, as a field of a model that nobody knows."""
    return onnx.ModelProto(doc_string="d" * nbytes).SerializeToString()


def test_a_model_cannot_replace_any_file(tmp_path: Path) -> None:
    """Even with `overwrite`, a data file replaces only files of the model that is replaced."""
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "taxes.pdf").write_bytes(b"mine")
    formats.save(model(), tmp_path / "a.onnx", external_data="taxes.pdf")
    for act in (formats.cp, formats.mv):
        with pytest.raises(FileExistsError, match="does not belong"):
            act(tmp_path / "a.onnx", tmp_path / "home" / "a.onnx", overwrite=True)
    assert ["taxes.pdf"] == names(tmp_path / "home")
    assert b"mine" == (tmp_path / "home" / "taxes.pdf").read_bytes()


@pytest.mark.skipif(not hasattr(os, "symlink"), reason="this system has no links")
def test_what_links_lead_to_stays(tmp_path: Path) -> None:
    """In a cache of links, links are removed and blobs stay; a model that moves away gets a copy."""
    (tmp_path / "blobs").mkdir()
    (tmp_path / "snapshot").mkdir()
    formats.save(model(), tmp_path / "blobs" / "a.onnx", external_data=True)
    for name, blob in (("a.onnx", "1234"), ("a.onnx.data", "5678")):
        (tmp_path / "blobs" / name).rename(tmp_path / "blobs" / blob)
        (tmp_path / "snapshot" / name).symlink_to(f"../blobs/{blob}")
    blobs = {path: path.read_bytes() for path in (tmp_path / "blobs").iterdir()}
    (tmp_path / "out").mkdir()
    done = formats.mv(tmp_path / "snapshot" / "a.onnx", tmp_path / "out" / "b.onnx")
    assert [] == names(tmp_path / "snapshot")
    assert sorted(blobs) == sorted(path for path, _ in done.kept)
    assert blobs == {path: path.read_bytes() for path in (tmp_path / "blobs").iterdir()}
    assert not any(path.is_symlink() for path in (tmp_path / "out").iterdir())
    assert 2 == len(weights(tmp_path / "out" / "b.onnx"))


def test_folders_of_data_become_files_beside_the_copy(tmp_path: Path) -> None:
    """A location in a subfolder becomes a name next to the new model."""
    (tmp_path / "w").mkdir()
    formats.save(model(), tmp_path / "a.onnx", external_data="a.data")
    (tmp_path / "a.data").rename(tmp_path / "w" / "a.data")
    changed = onnx.load(tmp_path / "a.onnx", load_external_data=False)
    for tensor in changed.graph.initializer:
        tensor.external_data[0].value = "w/a.data"
    onnx.save(changed, tmp_path / "a.onnx")
    formats.cp(tmp_path / "a.onnx", tmp_path / "b.onnx")
    assert ["a.onnx", "b.data", "b.onnx", "w"] == names(tmp_path)
    assert weights(tmp_path / "a.onnx") == weights(tmp_path / "b.onnx")


@pytest.mark.parametrize(
    ("dst", "reason"),
    [("b.rten", "use `formats convert`"), ("a.onnx", "the model itself"), ("none/b.onnx", "no such directory")],
)
def test_what_cannot_be_is_refused(split: Path, dst: str, reason: str) -> None:
    """Another format, the model itself and a missing folder are refused, and nothing changes."""
    before = names(split.parent)
    for act in (formats.cp, formats.mv):
        with pytest.raises((FormatError, OSError), match=reason):
            act(split, split.parent / dst, overwrite=True)
    assert before == names(split.parent)


def test_copies_in_one_folder_have_their_own_data(tmp_path: Path) -> None:
    """A data file that is not named after the model gets a new name if the copy is in the same folder."""
    formats.save(model(), tmp_path / "a.onnx", external_data="common.bin")
    formats.cp(tmp_path / "a.onnx", tmp_path / "b.onnx")
    assert ["a.onnx", "b.common.bin", "b.onnx", "common.bin"] == names(tmp_path)
    assert weights(tmp_path / "a.onnx") == weights(tmp_path / "b.onnx")


def test_verbs_do_the_same(split: Path, python: Command) -> None:
    """The verbs print what was done, as lines or as JSON; a refusal is one line and exit code 1."""

    def run(*arguments: str, code: int = 0) -> str:
        done = python("-m", "formats", *arguments)
        assert code == done.returncode, done.stderr
        return done.stdout or done.stderr

    assert "a-00001-of-00002.data" in run("files", "a.onnx")
    assert "a.onnx -> b.onnx + 2 data files  16.6 kB\n" == run("cp", "a.onnx", "b.onnx")
    assert "" == run("mv", "b.onnx", "c.onnx", "--quiet")
    assert '"destination": null' in run("rm", "c.onnx", "--json")
    assert "removed a.onnx + 2 data files\n" == run("rm", "a.onnx")
    assert [] == names(split.parent)
    assert 1 == len(run("mv", "a.onnx", "b.onnx", code=1).splitlines())


def test_moves_need_no_hard_links_to_stay_closed(split: Path) -> None:
    """After a move, the files can be read with `hard_links=False`."""
    formats.mv(split, split.parent / "b.onnx")
    formats.load(split.parent / "b.onnx", hard_links=False).close()


@pytest.mark.outer
def test_of_two_moves_at_once_one_is_done(split: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that moves a model during another move waits, finds it gone, and leaves nothing."""
    program = "import sys, formats; formats.mv(sys.argv[1], sys.argv[2])"
    command = [sys.executable, "-c", program, split, split.parent / "other.onnx"]
    others: list[subprocess.Popen[bytes]] = []
    execute = relocation.execute_replacing

    def meanwhile(*arguments: Any, **options: Any) -> Any:
        others.append(subprocess.Popen(command, stderr=subprocess.DEVNULL))
        with suppress(subprocess.TimeoutExpired):
            others[0].wait(2)
        return execute(*arguments, **options)

    monkeypatch.setattr(relocation, "execute_replacing", meanwhile)
    formats.mv(split, split.parent / "b.onnx")
    assert 1 == others[0].wait()
    assert ["b-00001-of-00002.data", "b-00002-of-00002.data", "b.onnx"] == names(split.parent)
    assert 2 == len(weights(split.parent / "b.onnx"))


IN_CIRCLES = """
import random, sys, time, formats
names, number, longest = sys.argv[3:], int(sys.argv[1]), 0.0
state = random.Random(number)
for turn in range(int(sys.argv[2])):
    first = state.randrange(len(names))
    src, dst = names[first], names[(first + (-1) ** number) % len(names)]
    started = time.perf_counter()
    try:
        formats.mv(src, dst)
    except (OSError, formats.FormatError) as error:
        if "another process" in str(error):
            raise
    longest = max(longest, time.perf_counter() - started)
print(longest)
"""


@pytest.mark.outer
@pytest.mark.parametrize("layout", [{}, {"external_data": True}], ids=["one file", "two files"])
def test_moves_in_circles_end_and_lose_no_model(tmp_path: Path, layout: Any) -> None:
    """Processes that rename models in circles, in both directions, never wait for each other, and all models stay."""
    (tmp_path / "in").mkdir()
    places = ["a.onnx", "in/b.onnx", "c.onnx", "in/d.onnx", "e.onnx"]
    for number, place in enumerate(places[:4]):
        formats.save(model(number), tmp_path / place, **layout)
    running = [
        subprocess.Popen(
            [sys.executable, "-c", IN_CIRCLES, str(number), "100", *places], stdout=subprocess.PIPE, cwd=tmp_path
        )
        for number in range(4)
    ]
    longest = [float(process.communicate(timeout=PATIENCE_SECONDS)[0]) for process in running]
    assert max(longest) < lock.WAIT_SECONDS, longest
    found = [path for place in places if (path := tmp_path / place).exists()]
    assert sorted(weights(path) for path in found) == sorted(
        [t.source().read() for t in model(n).graph.initializer] for n in range(4)
    )
    data = [f"{path.name}.data" for path in found] if layout else []
    left = [*names(tmp_path), *names(tmp_path / "in")]
    assert sorted([*(path.name for path in found), *data, "in"]) == sorted(left)


@pytest.mark.parametrize("verb", ["remove", "move"])
@pytest.mark.parametrize("links", ["folder", "folder and model", "folder of a folder", "within"])
def test_the_data_of_a_linked_folder_stays(tmp_path: Path, verb: str, links: str) -> None:
    """A data file stays if a link on the way to it leads out of the model's folder: another model may need it."""
    (tmp_path / "real" / "data" / "deep").mkdir(parents=True)
    (tmp_path / "view").mkdir()
    (tmp_path / "new").mkdir()
    place = "data/deep" if links == "folder of a folder" else "data"
    weights = [formats.from_numpy(np.arange(1000, dtype="float32"), "w")]
    formats.save(Model(ir_version=8, graph=Graph(name="g", initializer=weights)), tmp_path / "real" / "m.onnx")
    model = onnxpb.load(tmp_path / "real" / "m.onnx")
    model.graph.initializer[0].ClearField("raw_data")
    model.graph.initializer[0].data_location = 1
    model.graph.initializer[0].external_data.add(key="location", value=f"{place}/m.bin")
    data = tmp_path / "real" / place / "m.bin"
    data.write_bytes(np.arange(1000, dtype="float32").tobytes())
    (tmp_path / "real" / "m.onnx").write_bytes(model.SerializeToString())
    if links == "within":
        (tmp_path / "real" / "linked").symlink_to("data")
        model.graph.initializer[0].external_data[0].value = "linked/m.bin"
        given = tmp_path / "real" / "m.onnx"
        given.write_bytes(model.SerializeToString())
    else:
        given = tmp_path / "view" / "m.onnx"
        (tmp_path / "view" / "data").symlink_to("../real/data")
        if links == "folder and model":
            given.symlink_to("../real/m.onnx")
        else:
            given.write_bytes(model.SerializeToString())
    if links not in ("within", "folder and model"):
        with pytest.raises(formats.FormatError):  # its data is outside of its folder, so it cannot even be read
            formats.rm(given) if verb == "remove" else formats.mv(given, tmp_path / "new" / "m.onnx")
    elif verb == "remove":
        formats.rm(given)
    else:
        formats.mv(given, tmp_path / "new" / "m.onnx")
        assert formats.load(tmp_path / "new" / "m.onnx").graph.initializer[0].numpy()[-1] == 999
    assert data.exists() == (links != "within")


@pytest.mark.parametrize("modes", [(0o600, 0o644), (0o644, 0o600)])
@pytest.mark.parametrize("verb", ["copy", "move"])
@pytest.mark.parametrize("name", ["new/n.onnx", "n.onnx", "new/m.onnx"])
def test_a_new_graph_is_as_secret_as_its_sources(tmp_path: Path, modes: tuple[int, int], verb: str, name: str) -> None:
    """The graph of a copied or moved model has no permission that the graph or a data file did not have."""
    if os.name == "nt":
        pytest.skip("Windows has no such permissions")
    weights = [formats.from_numpy(np.arange(1000, dtype="float32"), "w")]
    graph = Graph(name="g", initializer=weights)
    formats.save(Model(ir_version=8, graph=graph), tmp_path / "m.onnx", external_data=True)
    (data,) = (path for path in tmp_path.iterdir() if path.name != "m.onnx")
    (tmp_path / "m.onnx").chmod(modes[0])
    data.chmod(modes[1])
    (tmp_path / "new").mkdir()
    (formats.cp if verb == "copy" else formats.mv)(tmp_path / "m.onnx", tmp_path / name)
    new = tmp_path / name
    kept = modes[0] & 0o077 if name == "new/m.onnx" and verb == "move" else 0  # the file itself has another name
    assert stat.S_IMODE(new.stat().st_mode) & 0o077 == kept


@pytest.mark.parametrize(("call", "place"), [("link", "n.onnx"), ("link", "sub/n.onnx"), ("stat", "sub/n.onnx")])
def test_another_file_is_neither_moved_nor_removed(
    tmp_path: Path, call: str, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If another process replaces a data file while its model moves, the move is refused, and the other file stays."""
    weights = [formats.from_numpy(np.arange(1000, dtype="float32"), "w")]
    formats.save(
        Model(ir_version=8, graph=Graph(name="g", initializer=weights)), tmp_path / "m.onnx", external_data=True
    )
    (data,) = (path for path in tmp_path.iterdir() if path.name != "m.onnx")
    real = getattr(os, call)
    theirs = b"theirs"

    def replaced(*arguments: Any, **keywords: Any) -> Any:
        is_data = any(word in str(arguments[0]) for word in (data.name, "/proc/self/fd/"))
        if is_data and not (call == "stat" and "dir_fd" not in keywords):
            (tmp_path / "t").write_bytes(theirs)
            (tmp_path / "t").replace(data)
        return real(*arguments, **keywords)

    with monkeypatch.context() as patch:
        patch.setattr(os, call, replaced)
        with pytest.raises(formats.FormatError):
            formats.mv(tmp_path / "m.onnx", tmp_path / place, parents=True)
    assert theirs == data.read_bytes()


@pytest.mark.parametrize("verb", [formats.cp, formats.mv])
@pytest.mark.parametrize("extension", ["textproto", "json"])
def test_text_stays_text(verb: Any, extension: str, split: Path) -> None:
    """A text model whose data files get new names is text again, and has its weights."""
    text = split.with_suffix(f".{extension}")
    formats.convert(split, text)
    split.unlink()
    done = verb(text, text.with_name(f"b.{extension}"))
    assert done.destination.read_bytes().isascii()
    loaded = formats.load(done.destination)
    assert loaded.graph is not None
    assert model().graph is not None
    assert [tensor.source().read() for tensor in loaded.graph.initializer] == [
        tensor.source().read()
        for tensor in model().graph.initializer  # type: ignore[union-attr]  # as checked
    ]


@pytest.mark.parametrize("verb", [formats.cp, formats.mv])
def test_a_name_without_an_extension_is_answered(verb: Any, split: Path) -> None:
    """A destination without an extension is perhaps a folder that is missing: the error names both ways."""
    with pytest.raises(FormatError, match=r"a model has an extension: type \S*/t.onnx, or \S*/t/ for a folder"):
        verb(split, split.parent / "t")


def test_a_program_sees_the_progress(tmp_path: Path) -> None:
    """`cp` calls `progress` with the bytes done and to do; the last call says that all is done."""
    formats.save(model(), tmp_path / "m.onnx", external_data=True, size_threshold=0)
    total = sum(path.stat().st_size for path in tmp_path.iterdir())
    seen: list[tuple[int, int]] = []
    formats.cp(tmp_path / "m.onnx", tmp_path / "n.onnx", progress=lambda *given: seen.append(given))
    assert (total, total) == seen[-1]
