"""`formats edit` and `formats.edit`: several edits at once, in every format, and in place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import commands
import pytest

import formats


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


@pytest.mark.parametrize("source", ["tiny.onnx", "tiny.onnxz", "tiny.textproto", "tiny.json", "data.onnx"])
@pytest.mark.parametrize("target", ["new.onnx", "new.onnxz", "new.rten", "new.textproto", "new.json"])
def test_every_format(source: str, target: str, folder: Path) -> None:
    """All edits are made at once, from each format to each, and the answer has a line for each."""
    done = run(source, target, *EDITS)
    assert (0, "") == (done.exit_code, done.stderr)
    names, metadata = interface(target)
    assert names == ["images", "scores"]
    assert metadata["license"] == "MIT"
    lines = done.stdout.splitlines()
    assert lines[1:5] == [
        "edited: n is 2, in 2 places",
        "edited: x is now images, in 2 places",
        "edited: y is now scores, in 2 places",
        "edited: the metadata says license=MIT",
    ]
    tensor = next(tensor for tensor in formats.load(target).graph.initializer)
    assert tensor.numpy()[3, 5] == 101


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
    assert report["verdict"] == "computes the same but for what was edited"


def test_a_dry_run_changes_nothing(folder: Path) -> None:
    """A dry run says what would be edited."""
    before = (folder / "tiny.onnxz").read_bytes()
    done = run("tiny.onnxz", "--dry-run", "--rename", "x=images")
    assert (0, "") == (done.exit_code, done.stderr)
    assert "edited: x is now images" in done.stdout
    assert before == (folder / "tiny.onnxz").read_bytes()
    assert run("tiny.onnx", "new.onnx", "--dry-run", "--rename", "x=images").exit_code == 0
    assert not (folder / "new.onnx").exists()


@pytest.mark.parametrize(
    "line,code,message",
    [
        ("tiny.onnx --rename x=a", 2, "the destination is missing; only an archive (.onnxz) can be edited in place"),
        ("tiny.onnx new.onnx --rename z=a", 1, "tiny.onnx: no value is called 'z'"),
        ("tiny.onnx new.onnx --rename x", 2, "--rename is 'x', but must be names by name, such as input=images"),
        ("tiny.onnx new.onnx --dim n=-1", 2, "--dim is {'n': '-1'}, but must be sizes or names"),
        ("tiny.onnx new.onnx --dim m=1", 1, "tiny.onnx: no dim is called 'm'"),
        ("tiny.onnx new.onnx --metadata key=", 1, "tiny.onnx: the metadata has no key 'key'"),
        ("tiny.onnxz --lenient --rename x=a", 2, "--lenient needs a destination"),
        ("tiny.onnxz --to onnx --rename x=a", 2, "--to needs a destination"),
        ("tiny.onnxz --backup --rename x=a", 2, "--backup"),
        ("tiny.onnx tiny.onnxz --rename x=a", 1, "File exists"),
    ],
)
def test_mistakes(line: str, code: int, message: str, folder: Path) -> None:
    """A mistake gets one line, the exit code says whose it is, and nothing is written."""
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    done = run(*line.split())
    assert code == done.exit_code
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert before == {path.name: path.read_bytes() for path in folder.iterdir()}


def test_metadata(folder: Path) -> None:
    """A text is set or replaced, an empty one removes its key, and a value may have equals signs in it."""
    formats.edit("tiny.onnx", "new.onnx", metadata={"a": "b=c", "d": "e"})
    assert interface("new.onnx")[1] == {"a": "b=c", "d": "e"}
    assert run("new.onnx", "newer.onnx", "--metadata", "a=", "--metadata", "d=f=g").exit_code == 0
    assert interface("newer.onnx")[1] == {"d": "f=g"}


def test_strict_refuses_what_is_lost(folder: Path) -> None:
    """A loss that matters is refused, also in place."""
    model = formats.load("tiny.onnx")
    model.graph.node[0].op_type, model.graph.node[0].domain = "Unknown", "own"
    model.opset_import.append(formats.OperatorSetId("own", 1))
    formats.save(model, "own.onnxz")
    done = run("own.onnxz", "--dim", "x:0=2", "--strict")
    assert (1, True) == (done.exit_code, "the dims of the output y are not known any more" in done.stderr)
    assert run("own.onnxz", "--dim", "x:0=2").exit_code == 0
