"""Graphs whose external data are in an archive: which programs read them, and when they are refused."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import onnx_ir
import onnxruntime
import pytest

import formats
from formats import Graph, Model, Node, OperatorSetId, onnxpb, onnxzip
from formats.errors import DecodeError, EncodeError, ExternalDataError, FormatError, OptionError, UnsupportedError
from formats.ir.archive_link import ARCHIVE, DIRECTORY, KEYS, NBYTES
from formats.onnxzip.reader import read_entries
from formats.tensordata.sources.source import Literal
from tests import commands

if TYPE_CHECKING:
    from tests.runtime.runner import Runner


def weights(seed: int, rows: int = 32) -> np.ndarray[Any, Any]:
    """Return numbers whose sums are exact."""
    return np.random.default_rng(seed).integers(-8, 8, (rows, rows)).astype("float32")


def model_of(**arrays: np.ndarray[Any, Any]) -> Model:
    """Return a chain of matrix products with these weights."""
    names = ["x", *(f"{name}_out" for name in arrays)]
    nodes = [
        onnx.helper.make_node("MatMul", [names[index], name], [names[index + 1]]) for index, name in enumerate(arrays)
    ]
    size = next(iter(arrays.values())).shape[0]
    values = [
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["n", size]) for name in (names[0], names[-1])
    ]
    initializer = [onnx.numpy_helper.from_array(array, name) for name, array in arrays.items()]
    graph = onnx.helper.make_graph(nodes, "g", values[:1], values[1:], initializer)
    opset = [onnx.helper.make_opsetid("", 17)]
    return formats.from_onnx(onnx.helper.make_model(graph, opset_imports=opset, ir_version=8))


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """An archive of two weights."""
    path = tmp_path / "m.onnxz"
    formats.save(model_of(a=weights(1), b=weights(2)), path)
    return path


@pytest.fixture
def linked(archive: Path) -> Path:
    """A graph that is linked to the archive."""
    path = archive.with_name("m.onnx")
    formats.link(archive, path)
    return path


def edited(path: Path, change: Callable[[onnx.ModelProto], None]) -> Path:
    """Change the graph at `path` like a program that knows nothing about archives."""
    proto = onnx.load(path, load_external_data=False)
    change(proto)
    path.write_bytes(proto.SerializeToString())
    return path


def run(path: Path, **inputs: Any) -> list[Any]:
    """Return what onnxruntime computes with the model at `path`."""
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return list(session.run(None, inputs))


def metadata(path: Path) -> dict[str, str]:
    """Return the metadata of a graph, as `onnx` reads them."""
    return {entry.key: entry.value for entry in onnx.load(path, load_external_data=False).metadata_props}


def test_what_to_do_without_weights_to_link(tmp_path: Path) -> None:
    """A link to an archive whose weights are in typed fields says what makes them entries, and that works."""
    tensor = onnx.helper.make_tensor("w", 1, [1000], [1.0] * 1000)
    graph = onnx.helper.make_graph([], "g", [], [], [tensor])
    onnx.save(onnx.helper.make_model(graph), tmp_path / "m.onnx")
    formats.convert(tmp_path / "m.onnx", tmp_path / "m.onnxz")
    with pytest.raises(EncodeError, match=r"in fields such as float_data.* first run .* --external-data"):
        formats.link(tmp_path / "m.onnxz", tmp_path / "linked.onnx")
    formats.convert(tmp_path / "m.onnx", tmp_path / "new.onnx", external_data=True)
    formats.convert(tmp_path / "new.onnx", tmp_path / "new.onnxz")
    formats.link(tmp_path / "new.onnxz", tmp_path / "linked.onnx")
    assert onnx.numpy_helper.to_array(onnx.load(tmp_path / "linked.onnx").graph.initializer[0]).sum() == 1000


# Programs that read them


@pytest.mark.sample(3)
def test_shared_models_give_the_same_numbers(shared_model: Path, tmp_path: Path) -> None:
    """onnx, onnx-ir, onnxruntime and our readers read a linked graph as the original model, bit by bit."""
    archive, linked = tmp_path / "m.onnxz", tmp_path / "m.onnx"
    formats.convert(shared_model, archive, size_threshold=1)
    if max(entry.nbytes for entry in formats.inspect(archive).tensors) < 1024:
        with pytest.raises(EncodeError, match="no weight of at least 1024 bytes"):
            formats.convert(archive, linked, link=True)
        return
    formats.convert(archive, linked, link=True)
    with np.load(shared_model.with_suffix(".npz")) as arrays:
        inputs = {key.removeprefix("in_"): arrays[key] for key in arrays.files if key.startswith("in_")}
    for mine, original in zip(run(linked, **inputs), run(shared_model, **inputs), strict=True):
        np.testing.assert_array_equal(mine, original)
    first, second = onnx.load(shared_model), onnx.load(linked)
    for mine_tensor, tensor in zip(second.graph.initializer, first.graph.initializer, strict=True):
        np.testing.assert_array_equal(onnx.numpy_helper.to_array(mine_tensor), onnx.numpy_helper.to_array(tensor))
    mine_ir, original_ir = onnx_ir.load(linked), onnx_ir.load(shared_model)
    for name, value in original_ir.graph.initializers.items():
        got = mine_ir.graph.initializers[name].const_value
        assert got is not None and value.const_value is not None
        np.testing.assert_array_equal(got.numpy(), value.const_value.numpy())
    assert formats.diff(linked, shared_model).equal
    assert formats.verify(linked, data=True).errors == formats.verify(shared_model).errors
    formats.convert(linked, tmp_path / "inline.onnx", external_data=False)
    formats.convert(archive, tmp_path / "direct.onnx", external_data=False)
    assert (tmp_path / "inline.onnx").read_bytes() == (tmp_path / "direct.onnx").read_bytes()


def test_the_graph_is_small_and_its_weights_are_the_archive(archive: Path, linked: Path) -> None:
    """References contain the archive's name, the payloads' offsets and sizes; metadata identify the archive."""
    tensors = onnx.load(linked, load_external_data=False).graph.initializer
    told = [{entry.key: entry.value for entry in tensor.external_data} for tensor in tensors]
    entries = read_entries(Literal(archive.read_bytes()))
    assert told == [
        {"location": "m.onnxz", "offset": str(entry.payload_offset), "length": str(entry.nbytes)}
        for entry in entries[:-1]
    ]
    import hashlib

    digest = hashlib.sha256(archive.read_bytes()[entries[-1].end :]).hexdigest()
    assert metadata(linked) == {ARCHIVE: "m.onnxz", NBYTES: str(archive.stat().st_size), DIRECTORY: digest}
    assert linked.stat().st_size < 1024
    onnx.checker.check_model(str(linked), full_check=True)


def test_weights_in_attributes_and_subgraphs_are_linked(tmp_path: Path) -> None:
    """Every tensor with an entry is a reference, wherever it is in the model."""
    constant = onnx.helper.make_node("Constant", [], ["c"], value=onnx.numpy_helper.from_array(weights(4), "value"))
    inner = onnx.helper.make_graph(
        [onnx.helper.make_node("Add", ["x", "w"], ["y"])],
        "inner",
        [],
        [onnx.helper.make_tensor_value_info("y", 1, [32, 32])],
        [onnx.numpy_helper.from_array(weights(5), "w")],
    )
    branch = onnx.helper.make_node("If", ["flag"], ["z"], then_branch=inner, else_branch=inner)
    graph = onnx.helper.make_graph(
        [constant, branch, onnx.helper.make_node("Add", ["z", "c"], ["out"])],
        "g",
        [onnx.helper.make_tensor_value_info("x", 1, [32, 32]), onnx.helper.make_tensor_value_info("flag", 9, [])],
        [onnx.helper.make_tensor_value_info("out", 1, [32, 32])],
    )
    proto = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    formats.save(formats.from_onnx(proto), tmp_path / "m.onnxz")
    report = formats.link(tmp_path / "m.onnxz", tmp_path / "m.onnx")
    assert report.nbytes < 2048
    (out,) = run(tmp_path / "m.onnx", x=weights(6), flag=np.array(True))
    np.testing.assert_array_equal(out, weights(6) + weights(5) + weights(4))


def test_rten_wants_a_name_that_ends_in_data(tmp_path: Path, runtimes: dict[str, Runner]) -> None:
    """RTen runs a linked graph if the archive's name ends in .data, and refuses other names."""
    model = model_of(a=weights(1), b=weights(2))
    x = weights(7)
    for name, is_taken in (("m.onnxz.data", True), ("m.onnxz", False)):
        formats.save(model, tmp_path / name, format="onnxz")
        formats.link(tmp_path / name, tmp_path / "m.onnx", overwrite=True)
        for runner in runtimes.values():
            if is_taken:
                (out,) = runner.run(tmp_path / "m.onnx", {"x": x}, mmap=True)
                np.testing.assert_array_equal(out, x @ weights(1) @ weights(2))
            else:
                with pytest.raises(RuntimeError, match=r"load: .*m\.onnxz"):
                    runner.run(tmp_path / "m.onnx", {"x": x})


def test_the_drop_in_functions_read_it(linked: Path) -> None:
    """`onnxpb.load` reads the weights and drops metadata that are no longer true; without the data, it keeps all."""
    model = onnxpb.load(linked)
    assert not model.metadata_props
    np.testing.assert_array_equal(onnx.numpy_helper.to_array(model.graph.initializer[0]), weights(1))
    model = onnxpb.load(linked, load_external_data=False)
    assert [entry.key for entry in model.metadata_props] == [*KEYS]
    onnxpb.load_external_data_for_model(model, linked.parent)
    np.testing.assert_array_equal(onnx.numpy_helper.to_array(model.graph.initializer[1]), weights(2))


def test_our_sessions_and_messages_take_it(linked: Path) -> None:
    """`onnxruntime_session` runs a linked graph; converted to an object of `onnx`, it has its weights and no link."""
    session = formats.onnxruntime_session(linked)
    (out,) = session.run(None, {"x": weights(7)})
    np.testing.assert_array_equal(out, weights(7) @ weights(1) @ weights(2))
    proto = formats.to_onnx(formats.load(linked))
    assert not proto.metadata_props
    np.testing.assert_array_equal(onnx.numpy_helper.to_array(proto.graph.initializer[0]), weights(1))


# In our tools


def test_converting_gives_back_the_archive(archive: Path, linked: Path, tmp_path: Path) -> None:
    """A linked graph is converted to the same archive again; in other formats, it has no link."""
    formats.convert(linked, tmp_path / "again.onnxz")
    assert (tmp_path / "again.onnxz").read_bytes() == archive.read_bytes()
    formats.convert(linked, tmp_path / "copy.onnx")
    assert (tmp_path / "copy.onnx.data").stat().st_size == weights(1).nbytes * 2
    assert not metadata(tmp_path / "copy.onnx")
    formats.convert(linked, tmp_path / "m.rten", onnx_hash=False)
    formats.convert(archive, tmp_path / "other.rten", onnx_hash=False)
    assert (tmp_path / "m.rten").read_bytes() == (tmp_path / "other.rten").read_bytes()


def test_text_keeps_the_link(linked: Path, tmp_path: Path) -> None:
    """A linked graph as text is still linked and checked; with all weights in the text, it is not."""
    formats.convert(linked, tmp_path / "m.json")
    assert formats.diff(tmp_path / "m.json", linked).equal
    formats.convert(linked, tmp_path / "inline.json", external_data=False)
    assert ARCHIVE not in (tmp_path / "inline.json").read_text()
    (tmp_path / "m.onnxz").write_bytes((tmp_path / "m.onnxz").read_bytes() + b"\0")
    with pytest.raises(ExternalDataError, match="when the graph was linked to it"):
        formats.load(tmp_path / "m.json")


def test_the_commands_speak_of_the_archive(archive: Path, linked: Path, tmp_path: Path) -> None:
    """`convert --link` makes the same graph; `inspect`, `verify` and `diff` support the archive."""
    again = tmp_path / "again.onnx"
    assert commands.run("formats", "convert", archive, again, "--link").exit_code == 0
    assert again.read_bytes() == linked.read_bytes()
    shown = commands.run("formats", "inspect", linked)
    assert f"linked to   {archive}" in shown.stdout
    seen = json.loads(commands.run("formats", "inspect", linked, "--json").stdout)
    assert seen["archive"] == str(archive)
    assert [Path(file["path"]).name for file in seen["files"]] == ["m.onnx", "m.onnxz"]
    checked = json.loads(commands.run("formats", "verify", linked, "--data", "--json").stdout)
    assert (checked["ok"], checked["checksums"], checked["notes"]) == (True, 3, [])
    assert commands.run("formats", "diff", linked, archive).exit_code == 0
    assert commands.run("formats", "inspect", linked, "--picture", tmp_path / "m.svg").exit_code == 0
    assert "header of a" in (tmp_path / "m.svg").read_text()


def test_a_large_graph_in_the_archive_is_no_gap(tmp_path: Path) -> None:
    """The archive's own graph, next to its weights, is not reported as unused."""
    model = model_of(a=weights(1))
    model.doc_string = "x" * 200_000
    formats.save(model, tmp_path / "m.onnxz")
    formats.link(tmp_path / "m.onnxz", tmp_path / "m.onnx")
    assert not formats.verify(tmp_path / "m.onnx").notes


def test_edited_models_can_be_linked(archive: Path, tmp_path: Path) -> None:
    """Tensors that were added to a model of an archive are in its graph, and the rest stays in the archive."""
    model = formats.load(archive)
    assert model.graph is not None
    model.graph.node.append(Node(op_type="Add", input=["b_out", "c"], output=["sum"]))
    model.graph.initializer.append(formats.from_numpy(weights(8, 32), "c"))
    model.graph.output[0].name = "sum"
    formats.save(model, tmp_path / "variant.onnx", link=True)
    x = weights(9)
    (out,) = run(tmp_path / "variant.onnx", x=x)
    np.testing.assert_array_equal(out, x @ weights(1) @ weights(2) + weights(8))
    again = formats.load(tmp_path / "variant.onnx")
    again.producer_name = "me"
    formats.save(again, tmp_path / "variant2.onnx", link=True)
    assert metadata(tmp_path / "variant2.onnx") == metadata(tmp_path / "variant.onnx")


# When a link is refused


def test_a_link_needs_the_folder_of_the_archive(archive: Path, tmp_path: Path) -> None:
    """A graph in another folder is refused, also through a link; so is an archive that is a symbolic link."""
    other = tmp_path / "other"
    other.mkdir()
    with pytest.raises(EncodeError, match="must be in the folder of its archive"):
        formats.link(archive, other / "m.onnx")
    (tmp_path / "away.onnx").symlink_to(other / "m.onnx")
    with pytest.raises(EncodeError, match="must be in the folder of its archive"):
        formats.link(archive, tmp_path / "away.onnx")
    (other / "n.onnxz").symlink_to(archive)
    with pytest.raises(EncodeError, match="is a symbolic link"):
        formats.link(other / "n.onnxz", other / "m.onnx")
    assert [path.name for path in other.iterdir()] == ["n.onnxz"]


def test_a_folder_may_be_reached_by_a_link(archive: Path, tmp_path: Path) -> None:
    """The same folder under another name is the same folder."""
    (tmp_path / "alias").symlink_to(tmp_path, target_is_directory=True)
    formats.link(tmp_path / "alias" / "m.onnxz", tmp_path / "m.onnx")
    assert formats.diff(tmp_path / "m.onnx", archive).equal


def test_the_archive_is_never_the_destination(archive: Path) -> None:
    """A graph never replaces the archive that it needs, even with `overwrite`."""
    before = archive.read_bytes()
    with pytest.raises(EncodeError, match="is the archive itself"):
        formats.convert(archive, archive, to_format="onnx", link=True, overwrite=True)
    assert archive.read_bytes() == before


def test_a_link_needs_alignment(tmp_path: Path) -> None:
    """An archive with unaligned weights is refused; one whose elements are single bytes is not."""
    archive = tmp_path / "m.onnxz"
    formats.save(model_of(abc=weights(1)), archive, alignment=1)
    (entry, _) = read_entries(Literal(archive.read_bytes()))
    assert entry.payload_offset % 4
    with pytest.raises(EncodeError, match="not a multiple of the 4 bytes of an element"):
        formats.link(archive, tmp_path / "m.onnx")
    assert (
        commands.run("formats", "convert", archive, tmp_path / "m.onnx", "--link").stderr.count("--alignment 64") == 1
    )
    graph = Graph(name="g", initializer=[formats.from_numpy(np.zeros(5000, "uint8"), "abc")])
    model = Model(ir_version=8, opset_import=[OperatorSetId("", 17)], graph=graph)
    formats.save(model, archive, alignment=1, overwrite=True)
    formats.link(archive, tmp_path / "m.onnx")


def test_a_link_needs_an_archive_with_weights(linked: Path, tmp_path: Path) -> None:
    """A model without an archive, or with tensors in two archives, cannot be linked."""
    formats.save(model_of(a=weights(1)), tmp_path / "plain.onnx")
    for name in ("plain.onnx", "plain.onnxz"):
        if name == "plain.onnxz":
            formats.convert(tmp_path / "plain.onnx", tmp_path / name, size_threshold="1M")
        with pytest.raises(EncodeError, match=r"no weight .* is in an \.onnxz archive"):
            formats.link(tmp_path / name, tmp_path / "x.onnx")
    formats.save(model_of(a=weights(3)), tmp_path / "second.onnxz")
    model, other = formats.load(linked), formats.load(tmp_path / "second.onnxz")
    assert model.graph is not None and other.graph is not None
    model.graph.initializer[0] = other.graph.initializer[0]
    with pytest.raises(EncodeError, match=r"several archives, .*m\.onnxz and .*second\.onnxz"):
        formats.save(model, tmp_path / "x.onnx", link=True)
    assert not (tmp_path / "x.onnx").exists()


def test_archives_of_other_tools_are_linked_only_where_they_are_sound(archive: Path, tmp_path: Path) -> None:
    """An archive that only a lenient reader accepts cannot be linked."""
    archive.write_bytes(archive.read_bytes()[:-2] + b"\x02\x00ab")
    with pytest.raises(EncodeError, match=r"no weight .* is in an \.onnxz archive"):
        formats.convert(archive, tmp_path / "m.onnx", lenient=True, link=True)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such names")
@pytest.mark.parametrize("name", ["a\\b.onnxz", os.fsdecode(b"\xff.onnxz")])
def test_names_that_are_paths_elsewhere_are_refused(archive: Path, name: str) -> None:
    """The archive's name must be one that a graph can contain and that is not a path on any system."""
    other = archive.rename(archive.with_name(name))
    with pytest.raises(EncodeError, match="rename it"):
        formats.link(other, archive.with_name("m.onnx"))


def test_links_exclude_other_ways_to_store_weights(archive: Path, tmp_path: Path) -> None:
    """`link` and options about data files contradict each other, and other formats do not support links."""
    for options in ({"external_data": True}, {"external_data": False}, {"size_threshold": 8}, {"checksum": True}):
        with pytest.raises(OptionError, match="exclude each other"):
            formats.convert(archive, tmp_path / "m.onnx", link=True, **options)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="`link` cannot be used for"):
        formats.convert(archive, tmp_path / "m.rten", link=True)


def test_a_hard_link_is_told(archive: Path, tmp_path: Path) -> None:
    """An archive with two hard links can be linked, with a warning that onnx does not read it."""
    os.link(archive, tmp_path / "second name")
    report = formats.link(archive, tmp_path / "m.onnx", overwrite=True)
    assert [loss.kind for loss in report.losses] == ["hard_link"]
    with pytest.raises(Exception, match="hard link"):
        onnx.load(tmp_path / "m.onnx")


def test_what_exists_stays_unless_asked(linked: Path, archive: Path) -> None:
    """A link replaces an existing graph only with `overwrite`."""
    with pytest.raises(FileExistsError):
        formats.link(archive, linked)
    formats.link(archive, linked, overwrite=True)


# When a linked graph is refused


READERS: dict[str, Callable[[Path], Any]] = {
    "load": formats.load,
    "inspect": formats.inspect,
    "onnxpb.load": onnxpb.load,
    "helper": lambda path: onnxpb.load_external_data_for_model(
        onnxpb.load(path, load_external_data=False), path.parent
    ),
    "from_onnx_ir": lambda path: formats.from_onnx_ir(onnx_ir.load(path)),
    "from_onnx": lambda path: formats.from_onnx(onnx.load(path, load_external_data=False), path.parent),
}


def other_weights(archive: Path) -> None:
    """Write an archive of the same size with the same offsets."""
    formats.save(model_of(a=weights(3), b=weights(4)), archive, overwrite=True)


def longer(archive: Path) -> None:
    """Add a byte at the end."""
    archive.write_bytes(archive.read_bytes() + b"\0")


def shorter(archive: Path) -> None:
    """Remove the end."""
    archive.write_bytes(archive.read_bytes()[:-100])


def damaged(archive: Path) -> None:
    """Write other bytes of the same size, which are not an archive."""
    archive.write_bytes(archive.read_bytes()[:-22] + bytes(22))


def other_header(archive: Path) -> None:
    """Keep the directory, but change a header so that it contradicts the directory."""
    data = bytearray(archive.read_bytes())
    data[4] ^= 1
    archive.write_bytes(data)


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("change", [other_weights, longer, shorter, damaged, other_header], ids=lambda f: f.__name__)
def test_another_archive_is_refused(archive: Path, linked: Path, change: Callable[[Path], None], reader: str) -> None:
    """Every reader refuses a graph if the directory of its archive has changed in any byte."""
    READERS[reader](linked)
    change(archive)
    with pytest.raises(FormatError, match="archive"):
        READERS[reader](linked)


def test_changed_weights_are_found_by_their_checksums(archive: Path, linked: Path) -> None:
    """If a weight was changed in place, with the same directory, `verify` with data reports it."""
    data = bytearray(archive.read_bytes())
    data[read_entries(Literal(bytes(data)))[0].payload_offset] ^= 1
    archive.write_bytes(data)
    assert formats.verify(linked).ok
    (error,) = formats.verify(linked, data=True).errors
    assert (error.kind, error.where) == ("checksum", "a")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (ARCHIVE, "../m.onnxz"),
        (ARCHIVE, "/etc/passwd"),
        (ARCHIVE, "sub/m.onnxz"),
        (ARCHIVE, "a\\m.onnxz"),
        (ARCHIVE, ".."),
        (ARCHIVE, ""),
        (NBYTES, "-1"),
        (NBYTES, "0x10"),
        (NBYTES, "1e3"),
        (NBYTES, "٣"),
        (NBYTES, "9" * 5000),
        (DIRECTORY, ""),
        (DIRECTORY, "A" * 64),
        (DIRECTORY, "0" * 63),
        (NBYTES, None),
        (DIRECTORY, None),
    ],
)
def test_metadata_that_cannot_be_are_refused(linked: Path, key: str, value: str | None) -> None:
    """A link that is incomplete, or has a path as name or a wrong number, is refused before a file is read."""

    def change(proto: onnx.ModelProto) -> None:
        kept = [entry for entry in proto.metadata_props if value is not None or entry.key != key]
        del proto.metadata_props[:]
        proto.metadata_props.extend(kept)
        for entry in proto.metadata_props:
            if entry.key == key and value is not None:
                entry.value = value

    (linked.parent / "m.onnxz").unlink()
    with pytest.raises(DecodeError, match=r"metadata has|which is not valid") as caught:
        formats.load(edited(linked, change))
    assert caught.value.where == "metadata_props"


@pytest.mark.parametrize("key", KEYS)
def test_metadata_that_lie_are_refused(linked: Path, key: str) -> None:
    """A link with another size or digest, or with a repeated key, is refused."""

    def change(proto: onnx.ModelProto) -> None:
        for entry in list(proto.metadata_props):
            if entry.key == key == ARCHIVE:
                proto.metadata_props.add(key=key, value=entry.value)
            elif entry.key == key:
                entry.value = entry.value[::-1].replace("0", "1")

    with pytest.raises(FormatError, match=r"each once|linked to"):
        formats.load(edited(linked, change))


@pytest.mark.parametrize(("offset", "length"), [(4, 0), (0, -4), (-64, 0), (1 << 62, 0)])
@pytest.mark.parametrize("spelling", ["m.onnxz", "./m.onnxz", ".//m.onnxz"])
def test_a_part_of_an_entry_is_refused(linked: Path, offset: int, length: int, spelling: str) -> None:
    """A reference must be a complete entry of the archive, however the archive's name is written."""

    def change(proto: onnx.ModelProto) -> None:
        tensor = proto.graph.initializer[0]
        told = {entry.key: entry for entry in tensor.external_data}
        told["location"].value = spelling
        told["offset"].value = str(int(told["offset"].value) + offset)
        told["length"].value = str(int(told["length"].value) + length)
        tensor.dims[:] = [int(told["length"].value) // 4]

    with pytest.raises(ExternalDataError) as caught:
        formats.load(edited(linked, change))
    assert caught.value.where == "graph.initializer[0]"


def test_the_graph_of_the_archive_is_no_weight(archive: Path, linked: Path) -> None:
    """A reference to the entry of the graph is refused, although it is a complete entry."""
    entry = read_entries(Literal(archive.read_bytes()))[-1]

    def change(proto: onnx.ModelProto) -> None:
        tensor = proto.graph.initializer[0]
        tensor.data_type, tensor.dims[:] = onnx.TensorProto.UINT8, [entry.nbytes]
        for place in tensor.external_data:
            if place.key != "location":
                place.value = str(entry.payload_offset if place.key == "offset" else entry.nbytes)

    with pytest.raises(ExternalDataError, match="are not an entry of the archive"):
        formats.load(edited(linked, change))


def test_an_archive_elsewhere_is_refused(archive: Path, linked: Path, tmp_path: Path) -> None:
    """The archive may not be outside of the graph's folder, neither by a path nor through a symbolic link."""
    inner = tmp_path / "inner"
    inner.mkdir()
    moved = linked.rename(inner / "m.onnx")
    (inner / "m.onnxz").symlink_to(archive)
    with pytest.raises(ExternalDataError, match="outside the model's directory"):
        formats.load(moved)

    def change(proto: onnx.ModelProto) -> None:
        for tensor in proto.graph.initializer:
            tensor.external_data[0].value = "../m.onnxz"

    with pytest.raises(ExternalDataError, match="outside the model's directory"):
        formats.load(edited(moved, change))


def test_a_missing_archive_is_named(archive: Path, linked: Path) -> None:
    """If the archive is missing, the graph is refused, and the error names the archive's path."""
    archive.unlink()
    with pytest.raises(ExternalDataError, match="does not exist") as caught:
        formats.load(linked)
    assert caught.value.path == archive


def test_weights_that_another_tool_moved_are_read(linked: Path, archive: Path) -> None:
    """A graph that `onnx` saves with its own data is no longer linked, even if its metadata say so."""
    proto = onnx.load(linked)
    other = linked.with_name("other.onnx")
    onnx.save(proto, other, save_as_external_data=True, location="own.data", size_threshold=0)
    archive.unlink()
    model = formats.load(other)
    assert model.graph is not None
    np.testing.assert_array_equal(model.graph.initializer[0].numpy(), weights(1))
    formats.save(model, linked.with_name("again.onnx"))
    assert not metadata(linked.with_name("again.onnx"))


# When the archive changes


def rename(model: Model) -> None:
    """Change only the graph, which an update does in place."""
    assert model.graph is not None
    model.graph.name = "renamed"


def replace_first(model: Model) -> None:
    """Change the first weight, so that the archive is written completely."""
    assert model.graph is not None
    model.graph.initializer[0] = formats.from_numpy(weights(5), "a")


@pytest.mark.parametrize(("change", "in_place"), [(rename, True), (replace_first, False)])
def test_an_update_says_which_links_it_makes_stale(
    archive: Path, linked: Path, change: Callable[[Model], None], in_place: bool
) -> None:
    """An update reports the graphs whose links it breaks, but not those that were broken before, or other graphs."""
    formats.save(model_of(a=weights(3), b=weights(4)), linked.with_name("other.onnxz"))
    formats.link(linked.with_name("other.onnxz"), linked.with_name("other.onnx"))
    formats.save(model_of(a=weights(3)), linked.with_name("plain.onnx"))
    linked.with_name("broken.onnx").write_bytes(b"\xff" * 100)
    model = formats.load(archive)
    change(model)
    done = onnxzip.update(model, archive)
    assert done.in_place is in_place
    assert [(loss.kind, loss.where) for loss in done.losses] == [("stale_link", "m.onnx")]
    with pytest.raises(ExternalDataError):
        formats.load(linked)
    model = formats.load(archive)
    model.doc_string = "again"
    assert not onnxzip.update(model, archive).losses
    formats.link(archive, linked, overwrite=True)
    assert formats.diff(linked, archive).equal


def test_an_update_that_changes_nothing_keeps_links(archive: Path, linked: Path) -> None:
    """Writing the same model again leaves the archive and its links unchanged."""
    assert not onnxzip.update(formats.load(archive), archive).losses
    formats.load(linked)


def test_replacing_an_archive_tells_of_its_links(archive: Path, linked: Path, tmp_path: Path) -> None:
    """`convert` to an existing archive reports the graphs that are linked to it, and `strict` refuses it."""
    formats.save(model_of(a=weights(3), b=weights(4)), tmp_path / "new.onnx")
    with pytest.raises(UnsupportedError, match=r"m\.onnx is linked to the replaced archive m\.onnxz"):
        formats.convert(tmp_path / "new.onnx", archive, overwrite=True, strict=True)
    formats.load(linked)
    report = formats.convert(tmp_path / "new.onnx", archive, overwrite=True)
    assert [(loss.kind, loss.where) for loss in report.losses] == [("stale_link", "m.onnx")]
    assert not formats.convert(tmp_path / "new.onnx", tmp_path / "another.onnxz").losses


def test_an_interrupted_update_leaves_no_link_that_works(archive: Path, linked: Path) -> None:
    """While an archive is incomplete, a graph that is linked to it is refused; after a repair, it is read again."""
    data = archive.read_bytes()
    archive.write_bytes(data[:-50])
    with pytest.raises(ExternalDataError):
        formats.load(linked)
    archive.write_bytes(data)
    formats.load(linked)
