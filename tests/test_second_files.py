"""No command line writes or prints what a second file that a model names has outside of the folder of the model."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import onnx
import pytest

import formats
from formats.tensordata.replacing.journal import Journal, NewFile
from formats.verbs.steps import replacement
from tests import commands, routes
from tests.faults.scenarios import SPLIT, killed, model, write

SECRET = b"S3CRET!!" * 2048
# By owner, which a command line names: the graph or index, and the second file that it names.
OWNERS = {
    "data.onnx": ("data.onnx", "weights.bin"),
    "w.safetensors.index.json": ("w.safetensors.index.json", "part.safetensors"),
    "models": ("models/data.onnx", "models/data-00001-of-00003.data"),
    "linked.onnx": ("linked.onnx", "m.onnxz"),
}
LINES = {
    **routes.ROUTES,
    "linked": "convert linked.onnx new.onnx",
    "linked files": "files linked.onnx",
    "linked moved": "mv linked.onnx deep/linked.onnx --parents",
    "linked and packed": "pack linked.onnx new.onnxz",
}


def owner_in(line: str) -> str | None:
    """Return the first owner of a second file that a line names: what it reads comes before what it replaces."""
    words = [part for word in line.split() for part in (word, word.partition("/")[0])]
    return next((word for word in words if word in OWNERS), None)


READING = {name: line for name, line in LINES.items() if owner_in(line) is not None}


def rename(owner: Path, name: str) -> None:
    """Let a graph or an index name this second file."""
    if owner.suffix == ".json":
        owner.write_text(json.dumps({"weight_map": {"w": name}}))
        return
    model = onnx.load(owner, load_external_data=False)
    for tensor in model.graph.initializer:
        for entry in tensor.external_data:
            if entry.key == "location":
                entry.value = name
    owner.write_bytes(model.SerializeToString())


def link(owner: Path, second: Path, secret: Path) -> None:
    """Put a link in the place of the second file."""
    second.unlink()
    second.symlink_to(secret)


def relative_link(owner: Path, second: Path, secret: Path) -> None:
    """Put a relative link in the place of the second file."""
    second.unlink()
    second.symlink_to(os.path.relpath(secret, second.parent))


def linked_folder(owner: Path, second: Path, secret: Path) -> None:
    """Name a second file in a folder to which a link leads."""
    (owner.parent / "sub").symlink_to(secret.parent)
    rename(owner, f"sub/{secret.name}")


def parent(owner: Path, second: Path, secret: Path) -> None:
    """Name a second file with `..`."""
    rename(owner, os.path.relpath(secret, owner.parent))


def absolute(owner: Path, second: Path, secret: Path) -> None:
    """Name a second file by its whole path."""
    rename(owner, str(secret))


def pipe(owner: Path, second: Path, secret: Path) -> None:
    """Put a pipe in the place of the second file, from which nothing ever comes."""
    second.unlink()
    os.mkfifo(second)


ATTACKS = (link, relative_link, linked_folder, parent, absolute, pipe)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the routes, with a graph that is linked to an archive."""
    path = tmp_path_factory.mktemp("template")
    routes.make_folder(path)
    formats.link(path / "m.onnxz", path / "linked.onnx")
    return path


@pytest.fixture
def place(template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the folder, which is the working folder."""
    folder = tmp_path / "folder"
    shutil.copytree(template, folder)
    monkeypatch.chdir(folder)
    return folder


def found(folder: Path) -> Iterator[Path]:
    """The files in and below a folder, without those behind links, that have bytes of the secret."""
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink() and SECRET[:8] in path.read_bytes():
            yield path


@pytest.mark.skipif(sys.platform == "win32", reason="needs links and pipes")
@pytest.mark.sample(12)
@pytest.mark.parametrize("attack", [pytest.param(each, id=each.__name__) for each in ATTACKS])
@pytest.mark.parametrize("name", READING)
def test_no_second_file_leads_out(name: str, attack: Callable[[Path, Path, Path], None], place: Path) -> None:
    """Links, `..`, absolute names and pipes give no bytes of another folder, and no file there changes or goes."""
    line = READING[name]
    owner, second = (place / each for each in OWNERS[str(owner_in(line))])
    outside = place.parent / "outside"
    outside.mkdir()
    is_shard = second.suffix == ".safetensors"
    head = second.read_bytes()[: 8 + int.from_bytes(second.read_bytes()[:8], "little")] if is_shard else b""
    secret = outside / f"secret{second.suffix}"
    secret.write_bytes(head + SECRET)
    attack(owner, second, secret)
    done = commands.run("formats", *line.split())
    assert [] == [*found(place)]
    assert "S3CRET" not in done.stdout + done.stderr
    assert {secret.name: head + SECRET} == {path.name: path.read_bytes() for path in outside.iterdir()}
    reads_it = line.split()[0] not in ("files", "rm", "unpack", "repair", "batch") and name != "data files replaced"
    assert done.exit_code or not reads_it, done.stdout


@pytest.mark.parametrize("name", ["data files read", "cp", "weights of an index"])
def test_a_second_file_in_the_folder_is_read(name: str, place: Path) -> None:
    """The same bytes in a second file in the folder are read and written: so the test above could find them."""
    line = READING[name]
    second = place / OWNERS[str(owner_in(line))][1]
    is_shard = second.suffix == ".safetensors"
    content = second.read_bytes()
    first = 8 + int.from_bytes(content[:8], "little") if is_shard else 0
    second.write_bytes(content[:first] + (SECRET * 9)[: len(content) - first])
    assert commands.run("formats", *line.split()).exit_code == 0
    assert len([*found(place)]) > 1


@pytest.mark.skipif(sys.platform == "win32", reason="needs links")
def test_a_short_data_file_that_becomes_a_link_is_in_no_backup(place: Path) -> None:
    """A data file that is too short is opened again by the rule of the first time: a link out is not followed."""
    second = place / "weights.bin"
    second.write_bytes(b"short")
    old = replacement.old_model(place / "data.onnx")
    assert [*replacement._data_of(old)] == ["weights.bin"]
    assert replacement._data_of(old)["weights.bin"] is not None
    (place.parent / "secret").write_bytes(SECRET)
    link(place, second, place.parent / "secret")
    assert replacement._data_of(old) == {"weights.bin": None}


@pytest.mark.skipif(sys.platform == "win32", reason="needs links")
def test_a_new_graph_that_becomes_a_link_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While several files take their places, a link in the place of the checked new graph is not followed."""
    folder = tmp_path / "folder"
    folder.mkdir()
    formats.save(model("secret", 3), tmp_path / "secret.onnx")
    killed(write("m.onnx", 2, "new", overwrite=True, **SPLIT), 1)(folder)  # the old graph was put aside
    assert formats.load(folder / "m.onnx").producer_name == "new"
    is_new = Journal.is_new

    def is_new_and_swapped(journal: Journal, move: NewFile, path: Path) -> bool:
        answer = is_new(journal, move, path)
        if move.name == "m.onnx" and answer:
            link(folder, path, tmp_path / "secret.onnx")
        return answer

    monkeypatch.setattr(Journal, "is_new", is_new_and_swapped)
    with pytest.raises(FileNotFoundError):
        formats.load(folder / "m.onnx")
