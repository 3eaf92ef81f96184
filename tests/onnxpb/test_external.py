"""Facts about external data: where it may lie, how it is laid out, and what is refused; `onnx` is the oracle."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from formats.errors import EncodeError, ExternalDataError, FormatError, TensorDataError
from formats.ir import walk
from formats.ir.model import Model
from formats.onnxpb import CODEC, OnnxOptions
from formats.tensordata.engine import EngineOptions, execute
from formats.tensordata.osio import File
from formats.tensordata.source import Literal


def weight(name: str, size: int, seed: int = 0) -> onnx.TensorProto:
    """A float tensor."""
    return numpy_helper.from_array(np.random.default_rng(seed).random(size).astype("float32"), name)


def proto_with_weights_everywhere() -> onnx.ModelProto:
    """A model with tensors as initialisers, attributes, in a subgraph, a function and a sparse initialiser."""
    sparse = onnx.helper.make_sparse_tensor(weight("s", 600), numpy_helper.from_array(np.arange(600)), [1000])
    inner = onnx.helper.make_graph(
        [onnx.helper.make_node("Constant", [], ["k"], value=weight("k", 500))],
        "inner",
        [],
        [onnx.helper.make_tensor_value_info("k", 1, [500])],
        [weight("i", 400)],
    )
    node = onnx.helper.make_node("If", ["c"], ["y"], then_branch=inner, else_branch=inner)
    function = onnx.helper.make_function(
        "local", "f", [], ["y"], [onnx.helper.make_node("Constant", [], ["y"], value=weight("f", 300))], []
    )
    typed = onnx.helper.make_tensor("typed", 1, [700], np.arange(700, dtype="float32").tolist())
    strings = onnx.helper.make_tensor("strings", 8, [1], [b"x" * 5000])
    graph = onnx.helper.make_graph(
        [node],
        "g",
        [onnx.helper.make_tensor_value_info("c", 9, [])],
        [onnx.helper.make_tensor_value_info("y", 1, [500])],
        [weight("a", 1000, 1), weight("tiny", 3), typed, strings],
        sparse_initializer=[sparse],
    )
    return onnx.helper.make_model(graph, functions=[function])


def read(path: Path) -> Model:
    """The model at `path`."""
    return CODEC.read(File.open(path).span(), path)


def write(model: Model, path: Path, **options: Any) -> None:
    """Write the model."""
    execute(CODEC.plan(model, path, OnnxOptions(**options)), EngineOptions(overwrite=True))


def arrays(path: Path) -> dict[str, bytes]:
    """The bytes of every tensor, by place, as the reader finds them."""
    return {
        where: b"".join(tensor.string_data) or tensor.numpy().tobytes() for where, tensor in walk.tensors(read(path))
    }


@pytest.fixture
def inline(tmp_path: Path) -> Path:
    """A model file with everything inside."""
    path = tmp_path / "inline.onnx"
    path.write_bytes(proto_with_weights_everywhere().SerializeToString())
    return path


@pytest.fixture
def external(tmp_path: Path) -> Path:
    """A model that `onnx` wrote with external data."""
    path = tmp_path / "in" / "m.onnx"
    path.parent.mkdir()
    graph = onnx.helper.make_graph([], "g", [], [], [weight("a", 1000, 1), weight("b", 500, 2), weight("c", 3)])
    onnx.save(onnx.helper.make_model(graph), path, save_as_external_data=True, location="w.data", size_threshold=1000)
    return path


@pytest.mark.parametrize("alignment", [1, 64, 4096])
def test_weights_move_out_and_back(inline: Path, tmp_path: Path, alignment: int) -> None:
    """Every large tensor, wherever it is, moves to the data file at the alignment asked for, and comes back."""
    out = tmp_path / "out.onnx"
    write(read(inline), out, external_data=True, alignment=alignment)
    proto = onnx.load(out, load_external_data=False)
    moved = {tensor.name: tensor for tensor in onnx.external_data_helper._get_all_tensors(proto)}
    external = {n for n, t in moved.items() if onnx.external_data_helper.uses_external_data(t)}
    assert {"a", "i", "k", "f", "typed"} <= external
    assert not {"tiny", "strings"} & external
    offsets = [int(e.value) for t in moved.values() for e in t.external_data if e.key == "offset"]
    assert all(offset % alignment == 0 for offset in offsets)
    assert arrays(inline) == arrays(out)
    write(read(out), tmp_path / "back.onnx", external_data=False)
    assert arrays(inline) == arrays(tmp_path / "back.onnx")
    assert not (tmp_path / "back.onnx.data").exists()


def test_onnx_reads_what_is_written(inline: Path, tmp_path: Path) -> None:
    """The initialisers that `onnx` loads from the data file are those of the inline model."""
    out = tmp_path / "out.onnx"
    write(read(inline), out, external_data="weights.data")
    ours = {t.name: numpy_helper.to_array(t).tolist() for t in onnx.load(out).graph.initializer}
    assert {t.name: numpy_helper.to_array(t).tolist() for t in onnx.load(inline).graph.initializer} == ours


def test_writing_does_not_change_the_model(inline: Path, tmp_path: Path) -> None:
    """The model in memory is the same after weights were written elsewhere."""
    model = read(inline)
    write(model, tmp_path / "out.onnx", external_data=True)
    assert read(inline) == model


def test_external_data_is_read(external: Path) -> None:
    """Tensors that `onnx` wrote to another file are read, without being loaded."""
    graph = read(external).graph
    assert graph is not None
    assert [1000, 500, 3] == [tensor.numpy().size for tensor in graph.initializer]
    assert onnx.numpy_helper.to_array(weight("b", 500, 2)).tolist() == graph.initializer[1].numpy().tolist()


def test_storage_is_kept(external: Path, tmp_path: Path) -> None:
    """Without an option, external stays external, inline inline, and the weights travel along."""
    out = tmp_path / "copy.onnx"
    write(read(external), out)
    proto = onnx.load(out, load_external_data=False)
    assert [1, 1, 0] == [tensor.data_location for tensor in proto.graph.initializer]
    assert {"copy.onnx.data"} == {
        e.value for t in proto.graph.initializer for e in t.external_data if e.key == "location"
    }
    assert arrays(external) == arrays(out)


def test_saving_again_replaces_the_data_file(external: Path, tmp_path: Path) -> None:
    """A second save to the same place has the size of the first: nothing is appended."""
    out = tmp_path / "copy.onnx"
    write(read(external), out)
    first = (tmp_path / "copy.onnx.data").stat().st_size
    write(read(out), out)
    assert first == (tmp_path / "copy.onnx.data").stat().st_size
    assert arrays(external) == arrays(out)


def test_shared_bytes_are_written_once(tmp_path: Path) -> None:
    """Two tensors on the same range of a file share their place in the new one."""
    source = tmp_path / "m.onnx"
    shared = [weight("a", 1000), weight("b", 1000)]
    for tensor in shared:
        tensor.ClearField("raw_data")
        onnx.external_data_helper.set_external_data(tensor, "w.data", 0, 4000) if tensor.HasField("raw_data") else None
        tensor.data_location = 1
        for key, value in (("location", "w.data"), ("offset", "0"), ("length", "4000")):
            tensor.external_data.add(key=key, value=value)
    (tmp_path / "w.data").write_bytes(os.urandom(4000))
    source.write_bytes(onnx.helper.make_model(onnx.helper.make_graph([], "g", [], [], shared)).SerializeToString())
    write(read(source), tmp_path / "out.onnx")
    assert 4000 == (tmp_path / "out.onnx.data").stat().st_size
    assert arrays(source) == arrays(tmp_path / "out.onnx")


def place(path: Path, **entries: str) -> Path:
    """A model with one tensor of 100 floats at the given external place."""
    tensor = onnx.TensorProto(name="t", dims=[100], data_type=1, data_location=1)
    for key, value in entries.items():
        tensor.external_data.add(key=key, value=value)
    path.write_bytes(onnx.helper.make_model(onnx.helper.make_graph([], "g", [], [], [tensor])).SerializeToString())
    return path


@pytest.mark.parametrize(
    "location",
    [
        "",
        "/etc/passwd",
        "../w.data",
        "sub/../../w.data",
        "a\\..\\..\\w.data",
        "C:\\w.data",
        "c:w.data",
        "\\\\server\\share\\w.data",
        "//server/share/w.data",
        "w.data\0",
        "*/_ORT_MEM_ADDR_/*",
    ],
)
def test_locations_that_lead_away_are_refused(tmp_path: Path, location: str) -> None:
    """Absolute, upward, drive, UNC, NUL and in-memory locations are refused, whatever is there."""
    (tmp_path / "w.data").write_bytes(bytes(400))
    (tmp_path / "in").mkdir()
    with pytest.raises(ExternalDataError):
        read(place(tmp_path / "in" / "m.onnx", location=location))


@pytest.mark.parametrize(
    "entries",
    [
        {"offset": "1"},
        {"length": "396"},
        {"length": "404"},
        {"offset": "-4"},
        {"offset": "x"},
        {"offset": "9" * 30},
        {"offset": "²"},
        {"length": str(1 << 62)},
    ],
)
def test_ranges_that_do_not_fit_are_refused(tmp_path: Path, entries: dict[str, str]) -> None:
    """An offset or length outside the file, or unlike dims and data type, is refused with the place of the tensor."""
    (tmp_path / "w.data").write_bytes(bytes(400))
    with pytest.raises(ExternalDataError) as caught:
        read(place(tmp_path / "m.onnx", location="w.data", **entries))
    assert "graph.initializer[0]" == caught.value.where


@pytest.mark.parametrize(
    "entries", [{}, {"offset": "0"}, {"length": "400"}, {"offset": "0", "length": "400", "x": "y"}]
)
def test_offset_and_length_may_be_missing(tmp_path: Path, entries: dict[str, str]) -> None:
    """A legal near-miss: defaults are the start of the file and the size that the tensor needs."""
    (tmp_path / "w.data").write_bytes(bytes(400))
    assert 1 == len(arrays(place(tmp_path / "m.onnx", location="w.data", **entries)))


def test_missing_data_file(tmp_path: Path) -> None:
    """A data file that is not there is named."""
    with pytest.raises(ExternalDataError, match=r"gone\.data.*does not exist"):
        read(place(tmp_path / "m.onnx", location="gone.data"))


def test_data_file_that_is_no_file(tmp_path: Path) -> None:
    """A pipe or a directory is refused, without waiting for it."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FormatError):
        read(place(tmp_path / "m.onnx", location="pipe"))
    (tmp_path / "folder").mkdir()
    with pytest.raises((FormatError, IsADirectoryError)):
        read(place(tmp_path / "m.onnx", location="folder"))


def test_subfolders_are_allowed(tmp_path: Path) -> None:
    """A location may go down."""
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "w.data").write_bytes(bytes(400))
    assert 1 == len(arrays(place(tmp_path / "m.onnx", location="sub/w.data")))


def test_links_out_of_the_directory_are_refused(tmp_path: Path) -> None:
    """A symbolic link, or a linked folder, that leads elsewhere is refused."""
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "w.data").write_bytes(bytes(400))
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "w.data").symlink_to(tmp_path / "secret" / "w.data")
    (tmp_path / "in" / "folder").symlink_to(tmp_path / "secret")
    for location in ("w.data", "folder/w.data"):
        with pytest.raises(ExternalDataError, match="outside"):
            read(place(tmp_path / "in" / "m.onnx", location=location))


def test_links_of_a_model_cache_are_followed(tmp_path: Path) -> None:
    """Model and data as links into one folder of blobs, as the Hugging Face cache has them, are read."""
    blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshots" / "1"
    blobs.mkdir()
    snapshot.mkdir(parents=True)
    (blobs / "data-hash").write_bytes(bytes(400))
    place(blobs / "model-hash", location="model.onnx_data")
    (snapshot / "model.onnx").symlink_to("../../blobs/model-hash")
    (snapshot / "model.onnx_data").symlink_to("../../blobs/data-hash")
    assert 1 == len(arrays(snapshot / "model.onnx"))


@pytest.mark.parametrize("name", ["../w.data", "/tmp/w.data", "sub/w.data", "", "out.onnx", "C:w"])
def test_data_file_names_that_are_refused(inline: Path, tmp_path: Path, name: str) -> None:
    """The data file is written beside the model and nowhere else."""
    with pytest.raises((EncodeError, ExternalDataError)):
        write(read(inline), tmp_path / "out.onnx", external_data=name)
    assert not (tmp_path / "out.onnx").exists()


def test_model_from_memory_has_no_external_data(external: Path) -> None:
    """A model decoded from bytes keeps its references, and says so when their data are wanted."""
    model = CODEC.read(Literal(external.read_bytes()), None)
    assert model.graph is not None
    with pytest.raises(TensorDataError, match="another file"):
        model.graph.initializer[0].numpy()


def test_many_data_files(tmp_path: Path) -> None:
    """A model with a file for each of many tensors is read and written with few files open at a time."""
    graph = onnx.helper.make_graph([], "g", [], [], [weight(f"t{i}", 10, i) for i in range(300)])
    path = tmp_path / "in" / "m.onnx"
    path.parent.mkdir()
    onnx.save(
        onnx.helper.make_model(graph),
        path,
        save_as_external_data=True,
        all_tensors_to_one_file=False,
        size_threshold=0,
    )
    write(read(path), tmp_path / "out.onnx")
    assert arrays(path) == arrays(tmp_path / "out.onnx")


def test_checksum_of_the_old_file_is_not_kept(tmp_path: Path) -> None:
    """A checksum entry speaks of the file it came from; it is dropped and reported."""
    (tmp_path / "w.data").write_bytes(bytes(400))
    model = read(place(tmp_path / "m.onnx", location="w.data", checksum="00", other="kept"))
    plan = CODEC.plan(model, tmp_path / "out.onnx", OnnxOptions())
    assert ["checksum"] == [loss.kind for loss in plan.losses]
    execute(plan)
    entries = onnx.load(tmp_path / "out.onnx", load_external_data=False).graph.initializer[0].external_data
    assert {"location": "out.onnx.data", "offset": "0", "length": "400", "other": "kept"} == {
        entry.key: entry.value for entry in entries
    }


def data_files(path: Path) -> dict[str, int]:
    """The size of each file beside the model at `path`."""
    return {file.name: file.stat().st_size for file in sorted(path.parent.iterdir()) if file != path}


def test_data_split_by_size(inline: Path, tmp_path: Path) -> None:
    """A limit on the size of data files splits between tensors, under names that other tools accept."""
    out = tmp_path / "out" / "m.onnx"
    out.parent.mkdir()
    write(read(inline), out, external_data=True, max_external_file_size=4500)
    files = data_files(out)
    count = len(files)
    assert count > 2
    assert [f"m-{index:05}-of-{count:05}.data" for index in range(1, count + 1)] == list(files)
    assert sorted(size for size in files.values() if size > 4500) == [4800]  # one tensor is larger than the limit
    assert arrays(inline) == arrays(out)
    assert onnx.load(out).graph.initializer[0].raw_data == onnx.load(inline).graph.initializer[0].raw_data


def test_data_that_fit_one_file_are_not_split(inline: Path, tmp_path: Path) -> None:
    """A limit that is not reached leaves the usual name."""
    out = tmp_path / "out" / "m.onnx"
    out.parent.mkdir()
    write(read(inline), out, external_data=True, max_external_file_size=1 << 30)
    assert ["m.onnx.data"] == list(data_files(out))


def test_a_file_for_each_tensor(tmp_path: Path) -> None:
    """Each tensor can have a file of its own, named after it, also where names differ only by case or are no names."""
    names = ["w", "W", "a/b", "a_b", "", "é" * 300, "con"]
    graph = onnx.helper.make_graph([], "g", [], [], [weight(name, 300, i) for i, name in enumerate(names)])
    source, out = tmp_path / "m.onnx", tmp_path / "out" / "m.onnx"
    source.write_bytes(onnx.helper.make_model(graph).SerializeToString())
    out.parent.mkdir()
    write(read(source), out, external_data=True, one_file_per_tensor=True)
    assert 7 == len({name.lower() for name in data_files(out)})
    assert {"m.w.data", "m.W_2.data", "m.a_b.data", "m.a_b_2.data", "m.tensor.data"} <= set(data_files(out))
    assert arrays(source) == arrays(out)


def test_ranges_that_overlap_are_refused(tmp_path: Path) -> None:
    """Two tensors may have the same range of a file, or neighbouring ones, but not parts of each other's."""
    (tmp_path / "w.data").write_bytes(bytes(1200))

    def model(*offsets: int) -> Path:
        tensors = [onnx.TensorProto(name="t", dims=[100], data_type=1, data_location=1) for _ in offsets]
        for tensor, offset in zip(tensors, offsets, strict=True):
            tensor.external_data.add(key="location", value="w.data")
            tensor.external_data.add(key="offset", value=str(offset))
        path = tmp_path / "m.onnx"
        path.write_bytes(onnx.helper.make_model(onnx.helper.make_graph([], "g", [], [], tensors)).SerializeToString())
        return path

    assert 4 == len(arrays(model(800, 0, 400, 0)))
    for offsets in ((0, 399), (399, 0), (0, 800, 700), (400, 0, 800, 401)):
        with pytest.raises(ExternalDataError, match="overlap"):
            read(model(*offsets))
