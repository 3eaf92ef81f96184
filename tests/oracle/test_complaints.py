"""Complaints about `onnx`, onnx-ir and rten-convert: these programs have the fault, and we do not.

Each test first shows the fault in the version of the program that is named in `COMPLAINED_OF`; with any other version
it asserts nothing about the program, because the fault may be gone. Faults that a small file cannot show (time, memory)
are in benchmarks/.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir
import pytest
from onnx import helper, numpy_helper

import formats
from formats import onnxpb
from formats.onnxpb.wire.varints import encode_varint
from tests.onnxpb.references import model_with_references

COMPLAINED_OF = {"onnx": "1.23.2", "onnx-ir": "1.1.0", "rten-convert": "0.22.0"}
ONNX, ONNX_IR, RTEN_CONVERT = (importlib.metadata.version(name) == version for name, version in COMPLAINED_OF.items())

LARGE = np.arange(4096, dtype=np.float32)


def proto(*tensors: onnx.TensorProto, nodes: tuple[onnx.NodeProto, ...] = ()) -> onnx.ModelProto:
    """Return a model with these tensors, or with one of 16 KiB."""
    given = tensors or (numpy_helper.from_array(LARGE, "w"),)
    return helper.make_model(helper.make_graph(nodes, "g", [], [], given), ir_version=10)


def test_page_names_the_releases() -> None:
    """docs/comparison.md names the releases of the programs that have these faults."""
    page = (Path(__file__).parents[2] / "docs" / "comparison.md").read_text(encoding="utf-8")
    assert not [name for name, version in COMPLAINED_OF.items() if f"{name} {version}" not in page.replace("\n", " ")]


@pytest.fixture
def inline(tmp_path: Path) -> Path:
    """A file that contains a weight of 16 KiB, in its own folder."""
    path = tmp_path / "inline" / "m.onnx"
    path.parent.mkdir()
    path.write_bytes(proto().SerializeToString())
    return path


@pytest.fixture
def outside(inline: Path, tmp_path: Path) -> Path:
    """The same model with the weight in `m.onnx.data` next to it, in its own folder."""
    path = tmp_path / "outside" / "m.onnx"
    path.parent.mkdir()
    formats.convert(inline, path, external_data=True)
    return path


def weight(path: Path) -> Any:
    """Return the first weight of a model file, as `formats` reads it."""
    return formats.load(path).graph.initializer[0].numpy()  # type: ignore[union-attr]


def names(folder: Path) -> list[str]:
    """Return the names of the files in a folder."""
    return sorted(path.name for path in folder.iterdir())


def attempt(call: Any) -> Any:
    """Return the result of a call, or its exception."""
    try:
        return call()
    except Exception as error:
        return error


# Size


@pytest.fixture(scope="module")
def huge(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A legal file over 2 GiB that is almost completely a hole: it contains one weight of zeros."""
    nbytes = (1 << 31) + (1 << 20)
    head = b"\x08" + encode_varint(nbytes) + b"\x10\x03" + b"\x42\x01w" + b"\x4a" + encode_varint(nbytes)
    for tag in (b"\x2a", b"\x3a"):  # the initializer of a graph, the graph of a model
        head = tag + encode_varint(len(head) + nbytes) + head
    path = tmp_path_factory.mktemp("huge") / "m.onnx"
    with path.open("wb") as file:
        file.write(b"\x08\x0a" + head)
        file.truncate(file.tell() + nbytes)
    return path


@pytest.mark.outer
def test_files_over_2_gib(huge: Path) -> None:
    """A file over 2 GiB is legal, but the protobuf runtime calls it corrupt; `formats` loads it without reading it."""
    if ONNX:
        assert "corrupt" in str(attempt(lambda: onnx.load(huge)))
    (tensor,) = formats.load(huge).graph.initializer  # type: ignore[union-attr]
    assert (1 << 31) + (1 << 20) == tensor.source().nbytes
    assert 0 == tensor.numpy()[-1]


def test_tensors_in_every_place_move_out(tmp_path: Path) -> None:
    """`onnx` keeps tensors in attributes inside unless asked, and those of sparse tensors always (onnx#4394)."""
    large = numpy_helper.from_array(LARGE, "t")
    sparse = helper.make_sparse_tensor(large, numpy_helper.from_array(np.arange(4096), "i"), [4096])
    inner = helper.make_graph([], "inner", [], [], [large])
    nodes = (helper.make_node("Constant", [], ["c"], value=large), helper.make_node("If", [], [], then_branch=inner))
    model = proto(large, nodes=nodes)
    model.graph.sparse_initializer.append(sparse)
    model.functions.add(name="f", node=nodes[:1])
    theirs, ours = tmp_path / "theirs.onnx", tmp_path / "ours.onnx"
    if ONNX:
        onnx.save(onnx.ModelProto.FromString(model.SerializeToString()), theirs, save_as_external_data=True)
        assert theirs.stat().st_size > 4 * LARGE.nbytes
    formats.save(formats.from_onnx(model), ours, external_data=True)
    assert ours.stat().st_size < 2000


# Saving


def test_saving_again_does_not_append(inline: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If `onnx` saves twice from another directory, the data file has twice the size (onnx#6655)."""
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    if ONNX:
        for _ in range(2):
            onnx.save(proto(), tmp_path / "t.onnx", save_as_external_data=True, location="t.data")
        assert 2 * LARGE.nbytes == (tmp_path / "t.data").stat().st_size
    for _ in range(2):
        formats.convert(inline, tmp_path / "m.onnx", external_data=True, overwrite=True)
    assert LARGE.nbytes == (tmp_path / "m.onnx.data").stat().st_size


def test_saving_does_not_change_the_model(inline: Path, tmp_path: Path) -> None:
    """If `onnx` saves with external data, it removes the weights from the caller's model."""
    theirs, ours = proto(), formats.load(inline)
    if ONNX:
        onnx.save(theirs, tmp_path / "t.onnx", save_as_external_data=True)
        assert b"" == theirs.graph.initializer[0].raw_data
    formats.save(ours, tmp_path / "m.onnx", external_data=True)
    assert formats.load(inline) == ours
    np.testing.assert_array_equal(LARGE, ours.graph.initializer[0].numpy())  # type: ignore[union-attr]


def test_weights_that_were_given_to_references_are_saved(outside: Path) -> None:
    """A reference with new bytes in memory cannot be saved over its file by `onnx` (similar to onnx#8471)."""
    for holds, module in ((ONNX, onnx), (True, onnxpb)):
        model: Any = module.load(outside, load_external_data=False)
        model.graph.initializer[0].raw_data = (2 * LARGE).tobytes()
        found = attempt(lambda module=module, model=model: module.save(model, outside))
        assert isinstance(found, Exception) == (module is onnx) or not holds
    np.testing.assert_array_equal(2 * LARGE, weight(outside))
    assert LARGE.nbytes == outside.with_name("m.onnx.data").stat().st_size


def test_permissions_follow_the_umask(inline: Path, tmp_path: Path) -> None:
    """Only their owner can read the data files of `onnx`."""

    def mode(path: Path) -> int:
        return stat.S_IMODE(path.stat().st_mode)

    before = os.umask(0o022)
    try:
        if ONNX:
            onnx.save(proto(), tmp_path / "t.onnx", save_as_external_data=True, location="t.data")
            assert 0o600 == mode(tmp_path / "t.data")
        formats.convert(inline, tmp_path / "m.onnx", external_data=True)
    finally:
        os.umask(before)
    assert {0o644} == {mode(tmp_path / "m.onnx"), mode(tmp_path / "m.onnx.data")}


WRITERS = {
    "onnx": (ONNX, "import onnx; onnx.save(onnx.load(SOURCE), TARGET)"),
    "onnx_ir": (ONNX_IR, "import onnx_ir; onnx_ir.save(onnx_ir.load(SOURCE), TARGET)"),
    "rten-convert": (
        RTEN_CONVERT,
        "import rten_convert.converter as c; sys.argv[1:] = ['--no-infer-shapes', SOURCE, TARGET]; c.main()",
    ),
    "onnx_of_ours": (True, "import formats; formats.convert(SOURCE, TARGET, overwrite=True)"),
    "onnxz_of_ours": (True, "import formats; formats.convert(SOURCE, TARGET, to_format='onnxz', overwrite=True)"),
    "rten_of_ours": (True, "import formats; formats.convert(SOURCE, TARGET, to_format='rten', overwrite=True)"),
}


@pytest.mark.sample(3)
@pytest.mark.parametrize("writer", WRITERS)
def test_a_full_disk_leaves_the_old_file(root: Path, tmp_path: Path, writer: str) -> None:
    """If a file cannot be written completely, other programs leave half of the new file in place of the old one."""
    holds, code = WRITERS[writer]
    target = tmp_path / "m.onnx"
    target.write_bytes(b"old")
    limit = "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))"
    places = f"SOURCE, TARGET = {str(root / 'examples' / 'digits.onnx')!r}, {str(target)!r}"
    command = [sys.executable, "-B", "-c", f"{limit}; {places}; {code}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert 0 != done.returncode
    if writer.endswith("_of_ours"):
        assert "the file would be too large" in done.stderr
        assert b"old" == target.read_bytes()
        assert ["m.onnx"] == names(tmp_path)
    elif holds:
        assert b"old" != target.read_bytes()


# Loading


def test_checksums_are_compared(outside: Path) -> None:
    """`onnx` never checks the SHA-1 of a data file in a reference."""
    model = onnx.load(outside, load_external_data=False)
    model.graph.initializer[0].external_data.add(key="checksum", value=hashlib.sha1(b"other").hexdigest())
    outside.write_bytes(model.SerializeToString())
    if ONNX:
        np.testing.assert_array_equal(LARGE, numpy_helper.to_array(onnx.load(outside).graph.initializer[0]))
        onnx.checker.check_model(outside)
    found = formats.verify(outside, data=True)
    assert not found.ok
    assert ["checksum"] == [error.kind for error in found.errors]
    formats.convert(outside, outside.with_name("n.onnx"), external_data=True, checksum=True)
    found = formats.verify(outside.with_name("n.onnx"), data=True)
    assert found.ok
    assert 1 == found.checksums


def test_lengths_that_disagree_with_the_shape(tmp_path: Path) -> None:
    """A reference to more bytes than the shape needs is accepted by `onnx`, but the weight cannot be used."""
    (tmp_path / "w.data").write_bytes(bytes(800))
    path = model_with_references(tmp_path / "m.onnx", {"location": "w.data", "length": "800"})
    if ONNX:
        assert 800 == len(onnx.load(path).graph.initializer[0].raw_data)
    with pytest.raises(formats.TensorDataError):
        formats.load(path)


def test_ranges_that_overlap(tmp_path: Path) -> None:
    """In `onnx`, the bytes of two weights may overlap."""
    (tmp_path / "w.data").write_bytes(bytes(800))
    places = [{"location": "w.data", "offset": offset, "length": "400"} for offset in ("0", "200")]
    path = model_with_references(tmp_path / "m.onnx", *places)
    if ONNX:
        onnx.checker.check_model(path)
        onnx.load(path)
    with pytest.raises(formats.ExternalDataError, match="overlap"):
        formats.load(path)


def test_links_of_the_hugging_face_cache(outside: Path, tmp_path: Path) -> None:
    """`onnx` cannot load a model in the cache of Hugging Face, where files are links to blobs."""
    blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshots" / "1"
    snapshot.mkdir(parents=True)
    blobs.mkdir()
    for name in ("m.onnx", "m.onnx.data"):
        (outside.parent / name).rename(blobs / f"sha-of-{name}")
        (snapshot / name).symlink_to(f"../../blobs/sha-of-{name}")
    if ONNX:
        assert "symbolic link" in str(attempt(lambda: onnx.load(snapshot / "m.onnx")))
    if ONNX_IR:
        found = attempt(lambda: onnx_ir.load(snapshot / "m.onnx").graph.initializers["w"].const_value.numpy())
        assert isinstance(found, Exception)
    np.testing.assert_array_equal(LARGE, weight(snapshot / "m.onnx"))


def test_hard_links(outside: Path) -> None:
    """`onnx` refuses a data file that a tool has hard-linked into a store as an attack."""
    os.link(outside.with_name("m.onnx.data"), outside.with_name("other"))
    if ONNX:
        assert "hard link" in str(attempt(lambda: onnx.load(outside)))
    np.testing.assert_array_equal(LARGE, weight(outside))
    with pytest.raises(formats.ExternalDataError, match="link"):
        formats.load(outside, hard_links=False)


def test_unknown_fields_are_kept(tmp_path: Path) -> None:
    """onnx-ir loses fields that a newer version of ONNX has added."""
    unknown = b"\xfa\x3f\x03new"  # field 1023
    data = proto().SerializeToString() + unknown
    if ONNX_IR:
        read = onnx_ir.from_proto(onnx.ModelProto.FromString(data))
        assert b"new" not in onnx_ir.to_proto(read).SerializeToString()
    for extension in ("onnx", "onnxz"):
        (tmp_path / "m.onnx").write_bytes(data)
        formats.convert(tmp_path / "m.onnx", tmp_path / f"n.{extension}")
        assert data == formats.dumps(formats.load(tmp_path / f"n.{extension}"), "onnx")


def test_sparse_initializers_are_kept(tmp_path: Path) -> None:
    """Other programs lose sparse initializers without a message."""
    indices = numpy_helper.from_array(np.arange(4096), "i")
    model = proto()
    model.graph.sparse_initializer.add(values=numpy_helper.from_array(LARGE, "s"), indices=indices, dims=[4096])
    if ONNX_IR:
        assert not onnx_ir.to_proto(onnx_ir.from_proto(model)).graph.sparse_initializer
    formats.save(formats.from_onnx(model), tmp_path / "m.onnxz")
    assert model == formats.to_onnx(formats.load(tmp_path / "m.onnxz"))
