"""Tests of data files that are `.safetensors` files; the package `safetensors` and onnxruntime are the oracles."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import safetensors
from onnx import numpy_helper
from safetensors.numpy import load_file

import formats
from formats import OptionError
from formats.ir import dtypes, walk
from formats.ir.model import Tensor
from formats.ir.storage import external_places
from formats.onnxpb.external import safetensors as data_files
from formats.onnxpb.wire.varints import encode_varint
from formats.tensordata.sources.source import Literal
from formats.verbs.model_files import layout
from tests.onnxpb.references import proto_with_weights_everywhere, weight

SEEDS = range(20)


def model_of(*tensors: Tensor) -> formats.Model:
    """Return a model with these initialisers."""
    return formats.Model(ir_version=10, graph=formats.Graph(name="g", initializer=[*tensors]))


def raw(name: str | None, number: int, dims: list[int], seed: int = 0) -> Tensor:
    """Return a tensor of any type with random bytes; booleans are 0 and 1."""
    nbytes = dtypes.BY_NUMBER[number].nbytes(dims)
    data = random.Random(seed).randbytes(nbytes)
    if number == dtypes.BOOL:
        data = bytes(byte & 1 for byte in data)
    return Tensor(dims=dims, data_type=number, name=name, raw_data=Literal(data))


def entries(path: Path) -> dict[str, Any]:
    """Return what the package finds in a file, including padding."""
    return dict(safetensors.deserialize(path.read_bytes()))


def outside(path: Path) -> dict[str, tuple[Tensor, dict[str, str]]]:
    """Return the tensors of a model that are in data files, by place."""
    return {where: (tensor, external_places(tensor)) for where, tensor in walk.external_tensors(formats.load(path))}


def header(path: Path) -> dict[str, Any]:
    """Return the header of a file."""
    with path.open("rb") as file:
        found: dict[str, Any] = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    return found


def check(path: Path, alignment: int = 256) -> None:
    """Check that the package reads each data file of a model, and finds only its tensors and padding."""
    wanted: dict[str, list[tuple[Any, ...]]] = {}
    for tensor, places in outside(path).values():
        assert 0 == int(places["offset"]) % alignment
        entry = (
            int(places["offset"]),
            data_files.TYPES[tensor.data_type or 0],
            tuple(tensor.dims),
            tensor.source().read(),
        )
        wanted.setdefault(places["location"], []).append(entry)
    for name, tensors in wanted.items():
        file = path.with_name(name)
        start = 8 + int.from_bytes(file.read_bytes()[:8], "little")
        read, told = entries(file), header(file)
        told.pop("__metadata__", None)
        assert told.keys() == read.keys()
        found = {
            (start + told[entry]["data_offsets"][0], each["dtype"], tuple(each["shape"]), bytes(each["data"]))
            for entry, each in read.items()
        }
        assert found >= {*tensors}
        padding = [entry for entry in found - {*tensors} if any(entry[-1])]
        assert not padding
        assert len(found - {*tensors}) <= sum(entry.startswith("__pad_") for entry in read)


@pytest.mark.parametrize("seed", SEEDS)
def test_safetensors_reads_what_the_model_refers_to(seed: int, tmp_path: Path) -> None:
    """Whatever types, sizes and names the tensors of a model have, the package finds the same tensors in the file."""
    made = random.Random(seed)
    numbers = [row.number for row in dtypes.DATA_TYPES if row.bits]
    names = ["w", "w", "w_2", "__metadata__", "__pad_0", "__pad_1", 'ü/é\n"\\', "", None, "\udcff", "a" * 300]
    tensors = []
    for index in range(made.randint(1, 40)):
        dims = [made.choice([0, 1, 2, 3, 7, 64, 300]) for _ in range(made.randint(0, 2))]
        tensors.append(raw(made.choice([*names, f"t{index}"]), made.choice(numbers), dims, index))
    tensors += [made.choice(tensors) for _ in range(made.randint(0, 3))]
    alignment = made.choice([None, None, 1, 3, 8, 4096])
    limit = made.choice([0, 0, 40_000])
    path, threshold = tmp_path / "m.onnx", made.choice([0, 1, 100])
    formats.save(
        model_of(*tensors),
        path,
        external_data="m.safetensors",
        size_threshold=threshold,
        max_external_file_size=limit,
        alignment=alignment,
    )
    check(path, alignment or 256)
    graph = formats.load(path).graph
    assert graph is not None
    written = graph.initializer
    assert [tensor.source().read() for tensor in tensors] == [tensor.source().read() for tensor in written]
    for tensor in written:
        is_outside = data_files.holds(tensor) and tensor.source().nbytes >= threshold
        assert is_outside is (tensor.data_location == formats.ir.model.EXTERNAL)
    names_of_files = sorted({places["location"] for _, places in outside(path).values()})
    every = [name for file in names_of_files for name in header(tmp_path / file) if name != "__metadata__"]
    assert len(every) == len({*every})
    for file in names_of_files:
        own = [name for name in header(tmp_path / file) if not name.startswith("__")]
        assert not limit or (tmp_path / file).stat().st_size <= limit or len(own) <= 1


def test_onnxruntime_computes_the_same(shared_models: list[Path], tmp_path: Path) -> None:
    """Real models compute the same bits if their weights are in a `.safetensors` file."""
    for model in shared_models:
        path = tmp_path / "m.onnx"
        formats.convert(model, path, external_data="m.safetensors", overwrite=True)
        check(path)
        stored = np.load(model.with_suffix(".npz"))
        results = []
        for each in (model, path):
            options = onnxruntime.SessionOptions()
            options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
            session = onnxruntime.InferenceSession(each, options, providers=["CPUExecutionProvider"])
            feeds = {value.name: stored[f"in_{value.name}"] for value in session.get_inputs()}
            results.append([result.tobytes() for result in session.run(None, feeds)])
        assert results[0] == results[1]


def test_every_kind_of_tensor(tmp_path: Path) -> None:
    """Initialisers, sparse ones, attributes, typed data, and tensors of subgraphs and functions are in the file."""
    proto = proto_with_weights_everywhere()
    (tmp_path / "in.onnx").write_bytes(proto.SerializeToString())
    report = formats.convert(tmp_path / "in.onnx", tmp_path / "m.onnx", external_data="m.safetensors")
    assert [loss.kind for loss in report.losses] == ["kept_in_graph"]  # a weight below the threshold
    check(tmp_path / "m.onnx")
    assert {"a", "typed", "k", "k_2", "i", "i_2", "f", "s"} < {*load_file(tmp_path / "m.safetensors")}
    model = onnx.load(tmp_path / "m.onnx")
    assert proto == onnx.load(tmp_path / "in.onnx")
    assert np.array_equal(
        numpy_helper.to_array(model.graph.initializer[0]), numpy_helper.to_array(weight("a", 1000, 1))
    )


def test_types_that_safetensors_lacks_stay_and_are_told(tmp_path: Path) -> None:
    """Types that safetensors lacks, or does not define clearly, stay in the graph, even from another data file."""
    lacking = ["COMPLEX128", "FLOAT4E2M1", "FLOAT6E2M3", "FLOAT6E3M2", "INT2", "INT4", "UINT2", "UINT4"]
    rows = [row for row in dtypes.DATA_TYPES if row.bits]
    model = model_of(*(raw(row.name, row.number, [1024]) for row in rows))
    formats.save(model, tmp_path / "all.onnx", external_data=True, size_threshold=0)
    report = formats.convert(
        tmp_path / "all.onnx", tmp_path / "m.onnx", external_data="m.safetensors", size_threshold=0, strict=True
    )
    told = [loss.detail for loss in report.losses if loss.kind == "kept_in_graph"]
    assert lacking == [detail.rpartition(" ")[2] for detail in told]
    assert told[0] == "1 tensor stays in the graph, since safetensors has no type for COMPLEX128"
    assert {row.name for row in rows} - {*lacking} == {*header(tmp_path / "m.safetensors")} - {"__pad_0"}
    assert formats.diff(tmp_path / "all.onnx", tmp_path / "m.onnx").equal


def test_dims_that_overflow_stay(tmp_path: Path) -> None:
    """An empty tensor whose first dims overflow in the package stays in the graph."""
    large = raw("large", dtypes.FLOAT, [1 << 62, 4, 0])
    report = formats.save(
        model_of(large, raw("w", 1, [3])), tmp_path / "m.onnx", external_data="m.safetensors", size_threshold=0
    )
    assert ["kept_in_graph"] == [loss.kind for loss in report.losses]
    assert {"w"} == {*entries(tmp_path / "m.safetensors")}


def test_weights_that_share_bytes(tmp_path: Path) -> None:
    """Bytes that several tensors share are stored once; other names are recorded as in `safetensors.torch`.

    For other dims they are stored again, because the format cannot express this.
    """
    first = raw("first", dtypes.FLOAT, [100])
    tied = Tensor(dims=[100], data_type=dtypes.FLOAT, name="tied", raw_data=first.raw_data)
    shaped = Tensor(dims=[10, 10], data_type=dtypes.FLOAT, name="shaped", raw_data=first.raw_data)
    path = tmp_path / "m.onnx"
    formats.save(model_of(first, tied, shaped, tied), path, external_data="m.safetensors", size_threshold=0)
    with safetensors.safe_open(tmp_path / "m.safetensors", "numpy") as file:
        assert {"tied": "first", "tied_2": "first"} == file.metadata()
        assert {"first", "shaped", "__pad_0"} == {*file.keys()}
    places = [int(places["offset"]) for _, places in outside(path).values()]
    assert places[0] == places[1] == places[3] != places[2]


def test_names_of_padding_are_no_tensors(tmp_path: Path) -> None:
    """A tensor keeps its name even if padding usually has that name; only `__metadata__` cannot be kept."""
    tensors = [raw(name, dtypes.INT8, [2000]) for name in ("__pad_0", "__metadata__", "__pad_2", "x")]
    formats.save(model_of(*tensors), tmp_path / "m.onnx", external_data="m.safetensors")
    names = {name: len(entry["data"]) for name, entry in entries(tmp_path / "m.safetensors").items()}
    own = {"__pad_0": 2000, "__metadata___2": 2000, "__pad_2": 2000, "x": 2000}
    assert names == {**own, "__pad_1": 48, "__pad_3": 48, "__pad_4": 48}


def test_shards(tmp_path: Path) -> None:
    """Several files are named as on the Hub, are not larger than the limit, and can each be read alone."""
    path = tmp_path / "m.onnx"
    tensors = [raw("w", dtypes.FLOAT, [1000], seed) for seed in range(5)]
    formats.save(model_of(*tensors), path, external_data="m.safetensors", max_external_file_size=9000)
    check(path)
    names = [f"m-0000{index}-of-00003.safetensors" for index in (1, 2, 3)]
    assert sorted([*names, "m.onnx"]) == sorted(os.listdir(tmp_path))
    found = [name for file in names for name in load_file(tmp_path / file) if not name.startswith("__")]
    assert ["w", "w_2", "w_3", "w_4", "w_5"] == sorted(found)
    assert all((tmp_path / name).stat().st_size <= 9000 for name in names)


def test_headers_that_are_too_long_are_refused(tmp_path: Path) -> None:
    """A header that the package would refuse is an error that says what to do, and nothing is written."""
    with pytest.raises(formats.EncodeError, match=r"the header of m.safetensors needs .* smaller `alignment`"):
        formats.save(
            model_of(raw("w", 1, [1000])), tmp_path / "m.onnx", external_data="m.safetensors", alignment="128M"
        )
    assert [] == os.listdir(tmp_path)


@pytest.mark.outer
def test_many_small_weights(tmp_path: Path) -> None:
    """The package finds a hundred thousand weights, each at a multiple of the alignment."""
    count, data = 100_000, random.Random(0).randbytes(400_000)
    tensor = b"\x08\x01\x10\x01\x42\x06t%05d\x4a\x04%b"  # dims, data_type, name and raw_data
    parts = [tensor % (index, data[4 * index : 4 * index + 4]) for index in range(count)]
    graph = b"".join(b"\x2a%c%b" % (len(part), part) for part in parts)
    head = onnx.helper.make_model(onnx.helper.make_graph([], "g", [], [], [])).SerializeToString()
    (tmp_path / "in.onnx").write_bytes(head + b"\x3a" + encode_varint(len(graph)) + graph)
    formats.convert(tmp_path / "in.onnx", tmp_path / "m.onnx", external_data="m.safetensors", size_threshold=0)
    with safetensors.safe_open(tmp_path / "m.safetensors", "numpy") as file:
        assert 2 * count - 1 == len(file.keys())
        for index in (0, 1, 5000, count - 1):
            assert data[4 * index : 4 * index + 4] == file.get_tensor(f"t{index:05}").tobytes()


@pytest.mark.parametrize(
    "options",
    [
        {"external_data": "m.safetensors", "one_file_per_tensor": True},
        {"external_data": "m.safetensors", "runtime": "rten"},
        {"external_data": "m.safetensors", "link": True},
    ],
)
def test_what_does_not_go_together(options: dict[str, Any], digits: Path) -> None:
    """Options that contradict each other are refused before the model is read, and nothing is written."""
    before = {*digits.parent.iterdir()}
    with pytest.raises(OptionError):
        formats.convert(digits.with_name("absent.onnx"), digits.with_name("m.onnx"), **options)
    assert before == {*digits.parent.iterdir()}


def test_models_that_share_weights_have_other_data_files(digits: Path) -> None:
    """Only functions that write a single model make a `.safetensors` file; other data files cannot have such a name."""
    with pytest.raises(OptionError, match=r"does not write \.safetensors files"):
        formats.share([digits], digits.parent / "out", external_data="all.safetensors")
    assert not (digits.parent / "out").exists()


def test_other_formats_and_back(digits: Path) -> None:
    """A model with such data is converted to an archive, to text and to a single file, and back, bit by bit."""
    folder = digits.parent
    formats.convert(digits, folder / "m.onnx", external_data="m.safetensors", size_threshold=0)
    for name in ("a.onnxz", "whole.onnx", "a.textproto", "a.rten"):
        inline: dict[str, Any] = {"external_data": False} if name in ("whole.onnx", "a.textproto") else {}
        formats.convert(folder / "m.onnx", folder / name, **inline)
        assert formats.verify(folder / name).ok
    formats.convert(folder / "a.onnxz", folder / "back.onnx", external_data="back.safetensors", size_threshold=0)
    assert (folder / "m.safetensors").read_bytes() == (folder / "back.safetensors").read_bytes()
    for name in ("a.onnxz", "whole.onnx", "a.textproto", "back.onnx"):
        assert formats.diff(digits, folder / name).equal
    check(folder / "back.onnx")


def test_replacing_the_file_that_is_read(digits: Path) -> None:
    """A model can replace itself with another alignment, and again with the first one, which gives the first bytes."""
    path = digits.with_name("m.onnx")
    formats.convert(digits, path, external_data="m.safetensors", size_threshold=0)
    first = path.with_suffix(".safetensors").read_bytes()
    formats.convert(path, path, external_data="m.safetensors", size_threshold=0, alignment=4096, overwrite=True)
    check(path, 4096)
    formats.convert(path, path, external_data="m.safetensors", size_threshold=0, overwrite=True, threads=1)
    assert first == path.with_suffix(".safetensors").read_bytes()
    assert formats.diff(digits, path).equal


def test_checksums_of_the_whole_file(digits: Path) -> None:
    """The checksum includes the header of the file, and any damage is found."""
    path = digits.with_name("m.onnx")
    formats.convert(digits, path, external_data="m.safetensors", checksum=True)
    assert formats.verify(path, data=True).ok
    data = bytearray(path.with_suffix(".safetensors").read_bytes())
    data[10] ^= 1
    path.with_suffix(".safetensors").write_bytes(data)
    assert not formats.verify(path, data=True).ok


def test_the_files_of_a_model_stay_together(digits: Path) -> None:
    """If a model is copied, moved or removed, so is its data file, which gets the model's name and can be read."""
    folder = digits.parent
    formats.convert(digits, folder / "m.onnx", external_data="m.safetensors")
    data = (folder / "m.safetensors").read_bytes()
    formats.cp(folder / "m.onnx", folder / "copy.onnx")
    formats.mv(folder / "m.onnx", folder / "n.onnx")
    assert data == (folder / "copy.safetensors").read_bytes() == (folder / "n.safetensors").read_bytes()
    check(folder / "copy.onnx")
    formats.rm(folder / "n.onnx")
    assert {"digits.onnx", "copy.onnx", "copy.safetensors"} == {*os.listdir(folder)}


def test_the_picture_shows_the_header(digits: Path) -> None:
    """The header of the data file is a region of its own in the layout."""
    path = digits.with_name("m.onnx")
    formats.convert(digits, path, external_data="m.safetensors")
    _, data = layout(path)
    assert ("header", 0) == (data.regions[0].kind, data.regions[0].file_offset)
    assert data.regions[0].nbytes == 8 + int.from_bytes(path.with_suffix(".safetensors").read_bytes()[:8], "little")


def test_a_file_of_others_is_read(tmp_path: Path) -> None:
    """A graph can refer to the tensors of a file that the package itself wrote."""
    from safetensors.numpy import save_file

    array = np.arange(600, dtype="float32")
    save_file({"w": array}, tmp_path / "theirs.safetensors")
    start = 8 + int.from_bytes((tmp_path / "theirs.safetensors").read_bytes()[:8], "little")
    proto = onnx.TensorProto(name="w", dims=[600], data_type=1, data_location=1)
    for key, value in {"location": "theirs.safetensors", "offset": str(start), "length": "2400"}.items():
        proto.external_data.add(key=key, value=value)
    model = onnx.helper.make_model(onnx.helper.make_graph([], "g", [], [], [proto]))
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    graph = formats.load(tmp_path / "m.onnx").graph
    assert graph is not None
    assert np.array_equal(array, graph.initializer[0].numpy())
