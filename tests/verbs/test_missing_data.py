"""What only looks at a model works without its data files, and says which are missing; the others say what to do."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import formats
from formats.errors import ExternalDataError
from formats.onnxpb.wire.encoder import encode

Command = Callable[..., "subprocess.CompletedProcess[str]"]

NBYTES = 2 * 8192
POINTER = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'4d' * 32}\nsize 12345\n"
IS_POINTER = (
    "this is a Git LFS pointer, a few lines instead of the file; fetch the file itself with `git lfs pull`, or "
    "download it"
)


def model() -> formats.Model:
    """Return a graph with two weights of 8 KiB that nothing uses."""
    weights = [formats.from_numpy(np.full(2048, index + 1, "float32"), f"w{index}") for index in range(2)]
    value = formats.ValueInfo(name="x", type=formats.Type(tensor_type=formats.TensorType(1, formats.TensorShape())))
    graph = formats.Graph(name="g", initializer=weights, input=[value], output=[value])
    return formats.Model(ir_version=10, opset_import=[formats.OperatorSetId("", 17)], graph=graph)


def onnx_bytes(model: formats.Model) -> bytes:
    """Return the model as it is, with its references."""
    return b"".join(segment if isinstance(segment, bytes) else segment.read() for segment in encode(model))


def gone(folder: Path, extension: str) -> tuple[str, int | None, str]:
    """Remove the data file of a model."""
    (folder / "a.data").unlink()
    return (
        f"the data file of a{extension} does not exist; copy it to this place",
        None,
        "; the model needs 16,384 bytes of it",
    )


def short(folder: Path, extension: str) -> tuple[str, int | None, str]:
    """Cut the data file of a model off in its second tensor."""
    os.truncate(folder / "a.data", 9000)
    told = "the data file has 9,000 bytes, but the model needs 16,384; it is incomplete: copy or download it again"
    return told, 9000, ""


def pointer(folder: Path, extension: str) -> tuple[str, int | None, str]:
    """Replace the data file of a model by what git has without git lfs."""
    (folder / "a.data").write_text(POINTER)
    return IS_POINTER, len(POINTER), "; the model needs 16,384 bytes of it"


Damage = Callable[[Path, str], "tuple[str, int | None, str]"]


@pytest.mark.parametrize("extension", [".onnx", ".textproto", ".json"])
@pytest.mark.parametrize("damage", [gone, short, pointer])
def test_what_looks_works_without_data_and_what_reads_weights_says_what_to_do(
    tmp_path: Path, damage: Damage, extension: str
) -> None:
    """`inspect`, `files` and `verify` say which files are missing and their sizes; `convert` names the file."""
    path = tmp_path / f"a{extension}"
    formats.save(model(), tmp_path / "a.onnx", external_data="a.data")
    if extension != ".onnx":
        formats.convert(tmp_path / "a.onnx", path)
    complete = formats.inspect(path)
    assert () == complete.missing
    told, found_nbytes, needs = damage(tmp_path, extension)

    seen = formats.inspect(path)
    (missing,) = seen.missing
    assert (tmp_path / "a.data", NBYTES, found_nbytes, told + needs) == tuple(missing)
    assert [(entry.name, entry.nbytes) for entry in complete.tensors] == [(e.name, e.nbytes) for e in seen.tensors]
    assert complete.parameters == seen.parameters
    assert str(tmp_path / "a.data") == seen.to_json()["missing"][0]["path"]

    assert [(tmp_path / "a.data", told + needs)] == [
        (file.path, file.missing) for file in formats.files(path).files if file.missing
    ]
    for data in (False, True):
        result = formats.verify(path, data=data)
        missing = ("missing", str(tmp_path / "a.data"), told + needs, "V104")
        assert [missing] == [tuple(error) for error in result.errors]
        assert not [note for note in result.notes if note.kind == "gap"]

    for act in (lambda: formats.load(path), lambda: formats.convert(path, tmp_path / "b.rten")):
        with pytest.raises(ExternalDataError) as caught:
            act()
        assert (tmp_path / "a.data", told) == (caught.value.path, caught.value.message)
    assert not (tmp_path / "b.rten").exists()


def test_each_missing_file_is_listed_once(tmp_path: Path, python: Command) -> None:
    """Of several data files, exactly those that are missing are listed; `verify` has an error for each."""
    path = tmp_path / "a.onnx"
    formats.save(model(), path, external_data=True, max_external_file_size=9000)
    names = ["a-00001-of-00002.data", "a-00002-of-00002.data"]
    for name in reversed(names):
        (tmp_path / name).unlink()
        found = [file.path.name for file in formats.inspect(path).missing]
        assert found == [Path(error.where).name for error in formats.verify(path).errors]
        assert name in found
    assert names == found
    done = python("-m", "formats", "inspect", path)
    assert (0, 2) == (done.returncode, done.stdout.count("does not exist; copy it to this place"))
    assert 1 == python("-m", "formats", "verify", path).returncode


def test_a_linked_graph_without_its_archive_can_be_inspected(tmp_path: Path) -> None:
    """The archive is what is missing."""
    formats.save(model(), tmp_path / "c.onnxz")
    formats.link(tmp_path / "c.onnxz", tmp_path / "c.onnx")
    (tmp_path / "c.onnxz").unlink()
    assert ["c.onnxz"] == [file.path.name for file in formats.inspect(tmp_path / "c.onnx").missing]
    assert ["missing"] == [error.kind for error in formats.verify(tmp_path / "c.onnx", data=True).errors]


def test_a_data_file_of_unknown_size_is_missing_too(tmp_path: Path) -> None:
    """A reference without a length to a tensor without a known size needs no number of bytes."""
    made = model()
    assert made.graph is not None
    tensor = formats.Tensor(name="t", data_type=8, dims=[1], data_location=1)
    tensor.external_data.append(formats.StringStringEntry(key="location", value="t.data"))
    made.graph.initializer.append(tensor)
    (tmp_path / "a.onnx").write_bytes(onnx_bytes(made))
    (missing,) = formats.inspect(tmp_path / "a.onnx").missing
    assert (tmp_path / "t.data", 0) == (missing.path, missing.nbytes)


def test_what_is_not_allowed_is_not_missing(tmp_path: Path) -> None:
    """A data file outside the folder of the model is refused by everything, whether it exists or not."""
    (tmp_path / "sub").mkdir()
    path = tmp_path / "sub" / "a.onnx"
    formats.save(model(), path, external_data="a.data")
    path.write_bytes(path.read_bytes().replace(b"a.data", b"../a.d"))
    with pytest.raises(ExternalDataError, match="leads outside"):
        formats.inspect(path)
    assert ["structure"] == [error.kind for error in formats.verify(path).errors]


@pytest.mark.parametrize(("damage", "stays"), [(gone, []), (short, []), (pointer, ["a.onnx.data"])])
def test_a_model_without_its_data_can_be_removed(tmp_path: Path, damage: Damage, stays: list[str]) -> None:
    """`rm` needs no weights; a file that does not have the weights stays."""
    formats.save(model(), tmp_path / "a.onnx", external_data="a.data")
    damage(tmp_path, ".onnx")
    data = tmp_path / "a.data"
    done = formats.rm(tmp_path / "a.onnx")
    assert tmp_path / "a.onnx" in done.removed
    assert bool(stays) == data.exists() == bool(done.kept)
    assert [] == [path for path in tmp_path.iterdir() if path != data]
