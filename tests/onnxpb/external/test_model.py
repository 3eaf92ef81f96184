"""Tests of external data: where they may be, their layout, and what is refused; `onnx` is the oracle."""

from __future__ import annotations

import hashlib
import os
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import formats
from formats.cli.report_lines import summary
from formats.errors import ExternalDataError, TensorDataError
from formats.ir import walk
from formats.ir.model import Model
from formats.onnxpb.codecs import CODEC
from formats.onnxpb.options import OnnxOptions
from formats.tensordata.engine import EngineOptions, execute
from formats.tensordata.file import File
from formats.tensordata.sources.source import Literal
from formats.verbs.report import ConversionReport
from tests import commands
from tests.onnxpb.references import model_with_references, proto_with_weights_everywhere, weight


def read(path: Path) -> Model:
    """Return the model at `path`."""
    return CODEC.read(File.open(path).span(), path)


def write(model: Model, path: Path, **options: Any) -> None:
    """Write the model."""
    execute(CODEC.plan(model, path, OnnxOptions(**options)), EngineOptions(overwrite=True))


def arrays(path: Path) -> dict[str, bytes]:
    """Return the bytes of every tensor, by place, as the reader finds them."""
    return {
        where: b"".join(tensor.string_data) or tensor.numpy().tobytes() for where, tensor in walk.tensors(read(path))
    }


@pytest.fixture
def inline(tmp_path: Path) -> Path:
    """A model file that contains all weights."""
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
    """Every large tensor, wherever it is, is moved to the data file at the requested alignment, and back."""
    out = tmp_path / "out.onnx"
    write(read(inline), out, external_data=True, alignment=alignment)
    proto = onnx.load(out, load_external_data=False)
    moved = {tensor.name: tensor for tensor in onnx.external_data_helper._get_all_tensors(proto)}
    external = {n for n, t in moved.items() if onnx.external_data_helper.uses_external_data(t)}
    assert {"a", "i", "k", "f", "typed"} <= external
    assert not {"tiny", "strings"} & external
    for where, tensor in walk.tensors(read(out)):
        assert (tensor.data_location == 1) == (not tensor.string_data and tensor.source().nbytes >= 1024), where
    offsets = [int(e.value) for t in moved.values() for e in t.external_data if e.key == "offset"]
    assert all(offset % alignment == 0 for offset in offsets)
    assert arrays(inline) == arrays(out)
    write(read(out), tmp_path / "back.onnx", external_data=False)
    assert arrays(inline) == arrays(tmp_path / "back.onnx")
    assert not (tmp_path / "back.onnx.data").exists()


def test_storage_is_kept(external: Path, tmp_path: Path) -> None:
    """Without an option, external tensors stay external, inline ones inline, and the external data are copied, too."""
    out = tmp_path / "copy.onnx"
    write(read(external), out)
    proto = onnx.load(out, load_external_data=False)
    assert [1, 1, 0] == [tensor.data_location for tensor in proto.graph.initializer]
    assert {"copy.onnx.data"} == {
        e.value for t in proto.graph.initializer for e in t.external_data if e.key == "location"
    }
    assert arrays(external) == arrays(out)


def test_shared_bytes_are_written_once(tmp_path: Path) -> None:
    """Two tensors with the same range of a file share a range in the new file, too."""
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


@pytest.mark.parametrize(
    "entries", [{}, {"offset": "0"}, {"length": "400"}, {"length": "0"}, {"offset": "0", "length": "400", "x": "y"}]
)
def test_offset_and_length_may_be_missing(tmp_path: Path, entries: dict[str, str]) -> None:
    """Offset and length may be missing, or the latter 0: they are the start of the file and the size of the tensor."""
    (tmp_path / "w.data").write_bytes(bytes(400))
    assert 1 == len(arrays(model_with_references(tmp_path / "m.onnx", {"location": "w.data", **entries})))


@pytest.mark.parametrize(
    "names",
    [
        pytest.param(["model.onnx.data"] * 3, id="torch"),
        pytest.param(["model.onnx_data", "model.onnx_data_1", "model.onnx_data_2"], id="transformers.js"),
        pytest.param(["model.data", "model.data.1", "model.data.2"], id="sparsezoo"),
        pytest.param(["model.onnx.data", "model.onnx.data.1", "model.onnx.data.2"], id="onnx-light"),
        pytest.param([f"model-0000{i}-of-00003.data" for i in (1, 2, 3)], id="onnx-ir"),
        pytest.param(["a0f1.data", "layer.0.weight", "onnx__MatMul_123"], id="a file for each tensor"),
        pytest.param(["w/model.bin", "w/deep/er/model.bin", "./w/model.bin"], id="subfolders"),
        pytest.param(["Gewichte ä.data", "重み.data", "w%20.data"], id="any names"),
    ],
)
@pytest.mark.parametrize("missing", [(), ("offset",), ("length",), ("offset", "length")], ids="-".join)
def test_layouts_found_in_the_wild(tmp_path: Path, names: list[str], missing: tuple[str, ...]) -> None:
    """Data with the file names of other tools, with or without offset and length, are read as `onnx` reads them."""
    path = tmp_path / "in" / "model.onnx"
    (path.parent / "w" / "deep" / "er").mkdir(parents=True)
    places = []
    for number, name in enumerate(names):
        file = path.parent / name
        start = file.stat().st_size if file.exists() and "offset" not in missing else 0
        with file.open("ab" if start else "wb") as data:
            data.write(np.full(100, number, "float32").tobytes())
        entries = {"location": name, "offset": str(start), "length": "400"}
        places.append({key: value for key, value in entries.items() if key not in missing})
    model_with_references(path, *places)
    ours = [tensor.numpy().tolist() for _, tensor in walk.tensors(read(path))]
    if missing != ("length",):  # without it, `onnx` reads the rest of the file, which is more than the dims need
        assert [numpy_helper.to_array(tensor).tolist() for tensor in onnx.load(path).graph.initializer] == ours
    if not missing:
        assert [[float(number)] * 100 for number in range(3)] == ours
    write(read(path), tmp_path / "out.onnx")
    assert list(arrays(path).values()) == list(arrays(tmp_path / "out.onnx").values())


def test_model_from_memory_has_no_external_data(external: Path) -> None:
    """A model that is decoded from bytes keeps its references, and reading their data is an error that says why."""
    model = CODEC.read(Literal(external.read_bytes()), None)
    assert model.graph is not None
    with pytest.raises(TensorDataError, match="another file"):
        model.graph.initializer[0].numpy()


def test_many_data_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a data file for each tensor, few files are open at once, and all are found after a change of directory."""
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
    monkeypatch.chdir(tmp_path)
    model = read(Path("in/m.onnx"))
    monkeypatch.chdir("/")
    write(model, tmp_path / "out.onnx")
    assert arrays(path) == arrays(tmp_path / "out.onnx")


def test_spellings_of_one_file(tmp_path: Path) -> None:
    """Locations that name one file in different ways share its bytes, which are written once, and cannot overlap."""
    (tmp_path / "w.data").write_bytes(bytes(800))
    (tmp_path / "link").symlink_to("w.data")
    places = [{"location": location, "offset": "0"} for location in ("w.data", "./w.data", ".//w.data", "link")]
    write(read(model_with_references(tmp_path / "m.onnx", *places)), tmp_path / "out.onnx")
    assert 400 == (tmp_path / "out.onnx.data").stat().st_size
    for place in places[1:]:
        with pytest.raises(ExternalDataError, match="overlap"):
            read(model_with_references(tmp_path / "m.onnx", places[0], {**place, "offset": "200"}))


def test_large_files_warn(tmp_path: Path) -> None:
    """For a model that grows over 2 GiB, the plan has a warning that names the remedy, and the command prints it."""
    path = model_with_references(tmp_path / "m.onnx", {"location": "w.data"})
    proto = onnx.load(path, load_external_data=False)
    proto.graph.initializer[0].dims[:] = [1 << 29]
    path.write_bytes(proto.SerializeToString())
    with (tmp_path / "w.data").open("wb") as file:
        file.truncate(1 << 31)
    plan = CODEC.plan(read(path), tmp_path / "out.onnx", OnnxOptions(external_data=False))
    (loss,) = plan.losses
    assert ("protobuf_limit", True) == (loss.kind, loss.matters)
    report = ConversionReport(path, tmp_path / "out.onnx", "onnx", "onnx", (plan.files[0],), 1.0, plan.losses)
    assert (
        "onnx and onnxruntime read at most 2 GiB; `external_data=True` puts weights into another file"
        in summary(report)[2]
    )
    assert () == CODEC.plan(read(path), tmp_path / "out.onnx", OnnxOptions()).losses
    done = commands.run("convert", path, tmp_path / "out.onnx", "--no-external-data", "--strict")
    assert (1, True) == (done.exit_code, "--external-data" in done.stderr)
    assert not (tmp_path / "out.onnx").exists()


def test_entries_about_the_old_file_are_not_kept(tmp_path: Path) -> None:
    """Checksums, base paths and packed weights belong to the old file, and are dropped; unknown entries are kept."""
    (tmp_path / "w.data").write_bytes(bytes(400))
    entries = {"location": "w.data", "checksum": "00", "basepath": "/home", "prepacked_0": "k|8;9", "other": "kept"}
    model = read(model_with_references(tmp_path / "m.onnx", entries))
    plan = CODEC.plan(model, tmp_path / "out.onnx", OnnxOptions())
    assert [("checksum", False), ("prepacked", False)] == [(loss.kind, loss.matters) for loss in plan.losses]
    execute(plan)
    kept = onnx.load(tmp_path / "out.onnx", load_external_data=False).graph.initializer[0].external_data
    assert {"location": "out.onnx.data", "offset": "0", "length": "400", "other": "kept"} == {
        entry.key: entry.value for entry in kept
    }


@pytest.mark.parametrize(
    "options", [{}, {"max_external_file_size": 4500}, {"one_file_per_tensor": True}, {"alignment": 4096}]
)
def test_checksums_are_noted(inline: Path, tmp_path: Path, options: dict[str, Any]) -> None:
    """Each reference has the SHA-1 of its whole file; `onnx` reads the model, and `verify` finds changed files."""
    out = tmp_path / "out" / "m.onnx"
    out.parent.mkdir()
    write(read(inline), out, external_data=True, checksum=True, **options)
    told = set()
    for _, tensor in walk.tensors(read(out)):
        entries = {entry.key: entry.value for entry in tensor.external_data}
        if entries:
            told.add((entries["location"], entries["checksum"]))
    assert {(name, hashlib.sha1((out.parent / name).read_bytes()).hexdigest()) for name in data_files(out)} == told
    assert arrays(inline) == arrays(out)
    assert onnx.load(out).graph.initializer[0].raw_data == onnx.load(inline).graph.initializer[0].raw_data
    assert (sum(data_files(out).values()), set()) == wrong_checksums(out)
    last = out.parent / max(data_files(out))
    last.write_bytes(last.read_bytes()[:-1] + b"!")
    users = {where for where, tensor in walk.tensors(read(out)) if last.name in {e.value for e in tensor.external_data}}
    assert (sum(data_files(out).values()), users) == wrong_checksums(out)


def test_checksums_are_renewed(inline: Path, tmp_path: Path) -> None:
    """On request, a model with checksums gets new ones, and this is not a loss."""
    out = tmp_path / "out.onnx"
    write(read(inline), out, external_data=True, checksum=True)
    plan = CODEC.plan(read(out), tmp_path / "again.onnx", OnnxOptions(alignment=4096, checksum=True))
    assert ["kept_in_graph"] == [loss.kind for loss in plan.losses]  # a weight below the threshold
    execute(plan)
    assert (38064, set()) == wrong_checksums(tmp_path / "again.onnx")


def test_no_data_no_checksum(tmp_path: Path) -> None:
    """A request for checksums changes nothing if all weights are small and stay inside."""
    (tmp_path / "m.onnx").write_bytes(proto_with_weights_everywhere().SerializeToString())
    write(read(tmp_path / "m.onnx"), tmp_path / "out.onnx", checksum=True, size_threshold=1 << 30)
    write(read(tmp_path / "m.onnx"), tmp_path / "plain.onnx")
    assert (tmp_path / "plain.onnx").read_bytes() == (tmp_path / "out.onnx").read_bytes()


def wrong_checksums(path: Path) -> tuple[int, set[str]]:
    """Return the number of bytes that were read to check checksums, and the places of wrong ones."""
    found = formats.verify(path, data=True)
    return found.read_bytes, {error.where for error in found.errors if error.kind == "checksum"}


def data_files(path: Path) -> dict[str, int]:
    """Return the size of each file next to the model at `path`."""
    return {file.name: file.stat().st_size for file in sorted(path.parent.iterdir()) if file != path}


def test_data_split_by_size(inline: Path, tmp_path: Path) -> None:
    """A limit on the size of data files splits them between tensors, with names that other tools accept."""
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


def test_a_file_for_each_tensor(tmp_path: Path) -> None:
    """Each tensor can have its own file with its name, even if names differ only by case or are not file names."""
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
    """Two tensors may have the same range of a file, or neighbouring ones, but not overlapping ones."""
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


@pytest.mark.parametrize("count", [1, 500])
def test_typed_data_count_as_what_they_are(tmp_path: Path, count: int) -> None:
    """The size of a tensor is that of its elements, even if its varints in a long list take an eighth of it."""
    tensor = onnx.TensorProto(name="t", dims=[200], data_type=onnx.TensorProto.INT64, int64_data=range(100, 300))
    tensor.int64_data[:] = [1] * 200
    nodes = [onnx.helper.make_node("Relu", [f"x{i}"], [f"y{i}"], name=f"n{i}") for i in range(count)]
    nodes.append(onnx.helper.make_node("Constant", [], ["c"], value=tensor))
    data = onnx.ModelProto(graph=onnx.GraphProto(node=nodes)).SerializeToString()
    model = formats.loads(data, format="onnx")
    formats.save(model, tmp_path / "m.onnx", external_data=True, size_threshold=1024)
    assert 1600 == (tmp_path / "m.onnx.data").stat().st_size


def test_data_that_another_model_needs(inline: Path, tmp_path: Path) -> None:
    """Another model's data file is replaced only with `overwrite`; this is reported, and `strict` refuses it."""
    folder = tmp_path / "out"
    folder.mkdir()
    formats.convert(inline, folder / "first.onnx", external_data="w.data")
    formats.convert(inline, folder / "alone.onnx", external_data=True)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(FileExistsError, match=r"first\.onnx uses it"):
        formats.convert(inline, folder / "second.onnx", external_data="w.data")
    with pytest.raises(formats.UnsupportedError, match=r"first\.onnx also has its weights in w\.data"):
        formats.convert(inline, folder / "second.onnx", external_data="w.data", overwrite=True, strict=True)
    assert before == {path.name: path.read_bytes() for path in folder.iterdir()}
    report = formats.convert(inline, folder / "second.onnx", external_data="w.data", overwrite=True)
    shared, kept = report.losses
    assert ("shared_data", "first.onnx", True, "kept_in_graph") == (*shared[:2], shared.matters, kept.kind)
    (folder / "first.onnx").unlink()
    (folder / "broken.onnx").write_bytes(b"no model")
    _, loss = formats.convert(inline, folder / "second.onnx", external_data="w.data", overwrite=True).losses
    assert loss.detail.startswith("broken.onnx cannot be read, so it may also have its weights in w.data")


@pytest.mark.parametrize("name", ["m.data", "m.safetensors"])
def test_wide_gaps_take_no_memory(name: str, tmp_path: Path) -> None:
    """Padding takes no memory, however long it is, and consists of zeros."""
    tensors = [weight(f"w{index}", 9) for index in range(20)]
    graph = onnx.helper.make_graph([], "g", [], [], tensors)
    onnx.save(onnx.helper.make_model(graph), tmp_path / "in.onnx")
    model = read(tmp_path / "in.onnx")
    tracemalloc.start()
    options = OnnxOptions(external_data=name, size_threshold=0, alignment=8 << 20)  # 152 MiB of padding
    assert 152 << 20 <= CODEC.plan(model, tmp_path / "m.onnx", options).nbytes
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 48 << 20  # the header of a .safetensors file has padding, too
    write(model, tmp_path / "m.onnx", external_data=name, size_threshold=0, alignment=3 << 16, checksum=True)
    assert arrays(tmp_path / "in.onnx") == arrays(tmp_path / "m.onnx")
    assert formats.verify(tmp_path / "m.onnx", data=True).ok
    data = (tmp_path / name).read_bytes()
    assert not any(data[-(3 << 16) : -36])


def test_what_stays_and_what_is_too_large_is_counted(tmp_path: Path) -> None:
    """Weights below the threshold, and data files that one tensor makes larger than the limit, are notes."""
    sizes = [1, 2, 500, 600, 3000]
    weights = [numpy_helper.from_array(np.ones(size, "float32"), f"w{size}") for size in sizes]
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])
    graph = helper.make_graph([helper.make_node("Identity", ["w1"], ["y"])], "g", [], [y], weights)
    onnx.save(helper.make_model(graph, ir_version=8), tmp_path / "m.onnx")
    report = formats.convert(tmp_path / "m.onnx", tmp_path / "n.onnx", max_external_file_size=2200)
    assert [(loss.kind, loss.detail, loss.matters) for loss in report.losses] == [
        (
            "file_size",
            "2 data files are larger than `max_external_file_size`, since a single tensor is; "
            "n-00003-of-00003.data has 12.0 kB",
            False,
        ),
        (
            "kept_in_graph",
            "2 of 5 weights stay in the graph, since they are smaller than `size_threshold`",
            False,
        ),
    ]
    report = formats.convert(tmp_path / "m.onnx", tmp_path / "o.onnx", external_data=True, size_threshold=4)
    assert [loss.kind for loss in report.losses] == ["kept_in_graph"]  # what Identity reads


@pytest.mark.parametrize("stem", ["m" * 200, "m" * 240, "é" * 110])
def test_names_of_files_of_tensors_fit_a_filesystem(stem: str, tmp_path: Path) -> None:
    """A long name of a model leaves less of the tensors' names in those of their files, which stay apart."""
    names = ["layers.0.attention." + "a" * 40, "layers.0.attention." + "a" * 40 + "b"]
    tensors = [formats.from_numpy(np.full(4, index, "float32"), name) for index, name in enumerate(names)]
    path = tmp_path / f"{stem}.onnx"
    write(
        Model(graph=formats.Graph(initializer=tensors)),
        path,
        external_data=True,
        one_file_per_tensor=True,
        size_threshold=0,
    )
    assert 3 == len(list(tmp_path.iterdir()))
    assert [0, 1] == [tensor.numpy()[0] for tensor in read(path).graph.initializer]
