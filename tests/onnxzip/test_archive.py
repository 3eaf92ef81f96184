"""Models and archives: which tensors become entries, the references to them, and how other tools read archives."""

from __future__ import annotations

import copy
import io
import subprocess
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from formats import onnxzip
from formats.codecs.contract import Match
from formats.errors import DecodeError, EncodeError, ExternalDataError, FormatError
from formats.ir import walk
from formats.ir.model import (
    Attribute,
    Function,
    Graph,
    Model,
    Node,
    SparseTensor,
    StringStringEntry,
    Tensor,
    TensorSegment,
    TrainingInfo,
)
from formats.onnxpb.codecs import CODEC as ONNX
from formats.onnxpb.wire.encoder import encode
from formats.onnxzip import records
from formats.onnxzip.entry_groups import Checksums, EntryGroup, grouped
from formats.onnxzip.options import ArchiveOptions
from formats.onnxzip.reader import read_entries
from formats.tensordata.engine import execute, to_bytes
from formats.tensordata.file import File
from formats.tensordata.plan import WritePlan, lay_out
from formats.tensordata.sources.digest import new_digester
from formats.tensordata.sources.source import Concat, Literal, Source
from formats.tensordata.sources.transform import varints
from tests.onnxzip.archives import Zeros
from tests.programs import need

MODELS = Path(__file__).parents[3] / "shared" / "models"
NAMES = sorted(path.stem for path in MODELS.glob("*.onnx")) or [
    pytest.param("none", marks=pytest.mark.skip(reason="needs the models in ../shared/models"))
]
GIB = 1 << 30
EXTERNAL = 1


def plan(model: Model, **options: Any) -> WritePlan:
    """Return the plan of an archive."""
    return onnxzip.CODEC.plan(model, Path("m.onnxz"), ArchiveOptions(**options))


def pack(model: Model, **options: Any) -> bytes:
    """Return an archive."""
    return to_bytes(plan(model, **options))


def unpack(data: bytes) -> Model:
    """Return the model of an archive."""
    return onnxzip.CODEC.read(Literal(data), None)


def payloads(data: bytes) -> dict[str, bytes]:
    """Return the files of an archive as `zipfile` reads them, with verified checksums."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {info.filename: archive.read(info) for info in archive.infolist()}


def referring(data: bytes) -> list[Tensor]:
    """Return the tensors of an archive's graph that refer to entries."""
    graph = ONNX.read(Literal(payloads(data)["__MODEL_PROTO"]), None)
    return [tensor for _, tensor in walk.tensors(graph) if tensor.data_location == EXTERNAL]


def model_of(*tensors: Tensor) -> Model:
    """Return a model with these initialisers."""
    return Model(ir_version=10, graph=Graph(name="g", initializer=list(tensors)))


def bytes_tensor(name: str | None, data: bytes, **fields: Any) -> Tensor:
    """Return a tensor of bytes."""
    return Tensor(**{"dims": [len(data)], "data_type": 2, "name": name, "raw_data": Literal(data), **fields})


def serialised(model: Model) -> bytes:
    """Return the bytes of a model."""
    return Concat.of(*(write.source for write in lay_out(encode(model))[0])).read()


def everywhere(nbytes: int = 2000) -> Model:
    """Return a model with 12 tensors in all places where ONNX allows one, each with different bytes."""
    count = iter(range(100))

    def tensor(name: str | None = None) -> Tensor:
        return bytes_tensor(name, bytes([next(count)]) * nbytes)

    def node() -> Node:
        inner = Graph(node=[Node(op_type="Constant", attribute=[Attribute(name="value", t=tensor())])])
        attributes = [
            Attribute(name="value", t=tensor("t")),
            Attribute(name="many", tensors=[tensor(), tensor()]),
            Attribute(name="then_branch", g=inner),
            Attribute(name="sparse", sparse_tensor=SparseTensor(values=tensor(), indices=tensor("indices"))),
        ]
        return Node(op_type="If", attribute=attributes)

    sparse = SparseTensor(values=tensor("s"), indices=tensor())
    graph = Graph(name="g", node=[node()], initializer=[tensor("encoder.layer.0.weight")], sparse_initializer=[sparse])
    function = Function(name="f", node=[Node(attribute=[Attribute(name="value", t=tensor())])])
    training = TrainingInfo(algorithm=Graph(initializer=[tensor("lr")]))
    return Model(ir_version=10, graph=graph, functions=[function], training_info=[training])


# Real models


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", NAMES)
def test_real_model_comes_back(name: str, tmp_path: Path) -> None:
    """An exporter's model is the same after conversion to an archive and back; the archive has the planned size."""
    source = MODELS / f"{name}.onnx"
    model = ONNX.read(File.open(source).span(), source)
    archive = tmp_path / "m.onnxz"
    planned = onnxzip.CODEC.plan(model, archive, ArchiveOptions())
    execute(planned)
    assert planned.nbytes == archive.stat().st_size
    assert {loss.kind for loss in planned.losses} <= {"typed_data"}  # of quantisers, which write such fields
    assert Match.STRONG is onnxzip.CODEC.sniff(archive.read_bytes()[:4096], planned.nbytes)
    back = onnxzip.CODEC.read(File.open(archive).span(), archive)
    assert model == back
    assert source.read_bytes() == serialised(back)
    assert archive.read_bytes() == pack(back)


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", NAMES)
def test_unpacked_real_model_runs(name: str, tmp_path: Path) -> None:
    """The unpacked files are a model that `onnx` loads unchanged and that computes the reference outputs."""
    onnx = pytest.importorskip("onnx", reason="needs the package onnx")
    onnxruntime = pytest.importorskip("onnxruntime", reason="needs the package onnxruntime")
    import numpy as np

    source = MODELS / f"{name}.onnx"
    data = pack(ONNX.read(File.open(source).span(), source), size_threshold=64)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        archive.extractall(tmp_path)
    loaded = onnx.load(tmp_path / "__MODEL_PROTO")
    for tensor in loaded.graph.initializer:
        tensor.ClearField("data_location")  # onnx sets it to the default, which means the same as no value
    for node in loaded.graph.node:
        for attribute in node.attribute:
            attribute.t.ClearField("data_location") if attribute.HasField("t") else None
    assert onnx.load(source) == loaded

    assert passes_checker(source) == passes_checker(tmp_path / "__MODEL_PROTO")
    arrays = np.load(source.with_suffix(".npz"))
    session = onnxruntime.InferenceSession(tmp_path / "__MODEL_PROTO", providers=["CPUExecutionProvider"])
    outputs = session.run(None, {i.name: arrays[f"in_{i.name}"] for i in session.get_inputs()})
    for index, output in enumerate(outputs):
        np.testing.assert_allclose(output, arrays[f"out_{index}"], rtol=1e-3, atol=1e-4)


def passes_checker(path: Path) -> bool:
    """Return whether ONNX's own checker accepts the model; it refuses some exporters' models."""
    from onnx import checker

    try:
        checker.check_model(path)
    except checker.ValidationError:
        return False
    return True


TOOLS = {  # each tool reads the whole archive, or shows everything in it
    "unzip": "unzip -tq {}",
    "zipinfo": "zipinfo -v {}",
    "7z": "7z t {}",
    "bsdtar": "bsdtar -cf /dev/null @{}",
}


def accept(tool: str, path: Path) -> None:
    """Assert that another program finds no fault in an archive."""
    need(tool)
    command = TOOLS[tool].format(path.name).split()
    done = subprocess.run(command, cwd=path.parent, capture_output=True, text=True, check=False)
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    assert "warning" not in said.lower()


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("alignment", [1, 64, 65536])
def test_zip_tools_accept_it(tool: str, alignment: int, tmp_path: Path) -> None:
    """Other zip programs find no fault in an archive, even if the padding has its greatest length."""
    (tmp_path / "m.onnxz").write_bytes(pack(everywhere(), alignment=alignment))
    accept(tool, tmp_path / "m.onnxz")


@pytest.mark.outer
def test_zip_tools_accept_more_entries_than_16_bits_count(tmp_path: Path) -> None:
    """Other zip programs find no fault in an archive of 66,000 tensors."""
    weights = [bytes_tensor(f"w{number}", b"x") for number in range(66_000)]
    (tmp_path / "m.onnxz").write_bytes(pack(model_of(*weights), size_threshold=1))
    for tool in TOOLS:
        accept(tool, tmp_path / "m.onnxz")


HOSTILE = ["", "x" * 300, "\N{GRINNING FACE}", "../x", "/etc/passwd", "a\\b", "a:b", "A", "a", "con", "NUL.txt", "a\0b"]
HOSTILE += ["__MODEL_PROTO", "__model_proto", "class", "-rf", "a b\n", " ", "\N{RIGHT-TO-LEFT OVERRIDE}a"]


def test_hostile_names_survive(tmp_path: Path) -> None:
    """Whatever names tensors have, they are restored, and `onnx` reads the unpacked files, all in one folder."""
    onnx = pytest.importorskip("onnx", reason="needs the package onnx")
    need("unzip")
    model = model_of(*(bytes_tensor(name, bytes([index]) * 2000) for index, name in enumerate(HOSTILE)))
    (tmp_path / "m.onnxz").write_bytes(pack(model))
    assert model == unpack((tmp_path / "m.onnxz").read_bytes())
    subprocess.run(["unzip", "-q", "m.onnxz", "-d", "unpacked"], cwd=tmp_path, check=True)
    found = list((tmp_path / "unpacked").iterdir())
    assert all(path.is_file() for path in found)
    assert len(HOSTILE) + 1 == len({path.name.lower() for path in found})
    tensors = onnx.load(tmp_path / "unpacked" / "__MODEL_PROTO").graph.initializer
    assert HOSTILE == [tensor.name for tensor in tensors]
    assert [bytes([index]) * 2000 for index in range(len(HOSTILE))] == [tensor.raw_data for tensor in tensors]


@pytest.mark.parametrize("alignment", [64, 4096])
def test_weights_are_used_where_they_are(alignment: int, tmp_path: Path) -> None:
    """The array of a tensor in an archive is the mapped file: aligned, read-only, and the same memory each time."""
    np = pytest.importorskip("numpy")
    path = tmp_path / "m.onnxz"
    path.write_bytes(pack(everywhere(), alignment=alignment))
    for _, tensor in walk.tensors(onnxzip.CODEC.read(File.open(path).span(), path)):
        first, second = tensor.numpy(), tensor.numpy()
        assert first.ctypes.data == second.ctypes.data
        assert (0, False) == (first.ctypes.data % alignment, first.flags.writeable)
        assert np.array_equal(first, np.frombuffer(tensor.source().read(), "uint8"))


# Tensors that become entries


def test_tensors_everywhere_move() -> None:
    """Every tensor, at any depth, gets an entry with its bytes, named after the tensor or its place."""
    data = pack(everywhere())
    names = [
        "t",
        "graph_node_0_attribute_many_tensors_0",
        "graph_node_0_attribute_many_tensors_1",
        "graph_node_0_attribute_then_branch_g_node_0_attribute_value_t",
        "graph_node_0_attribute_sparse_sparse_tensor_values",
        "indices",
        "encoder_layer_0_weight",
        "s",
        "graph_sparse_initializer_0_indices",
        "lr",
        "functions_0_node_0_attribute_value_t",
        "__MODEL_PROTO",
    ]
    assert sorted(names) == sorted(payloads(data))
    assert "__MODEL_PROTO" == list(payloads(data))[-1]
    assert len(payloads(data)["__MODEL_PROTO"]) < 2000
    places = [tuple(entry.value for entry in tensor.external_data) for tensor in referring(data)]
    assert [(name, "0", "2000") for name in payloads(data) if name != "__MODEL_PROTO"] == places
    assert everywhere() == unpack(data)


def test_model_is_not_changed() -> None:
    """Planning does not change the model, and gives the same plan each time."""
    model = everywhere()
    before, tensors = copy.deepcopy(model), [id(tensor) for _, tensor in walk.tensors(model)]
    first = pack(model)
    assert before == model
    assert tensors == [id(tensor) for _, tensor in walk.tensors(model)]
    assert first == pack(model)


@pytest.mark.parametrize(
    ("threshold", "moved"),
    [(0, ["a", "b", "c"]), (8, ["a", "b", "c"]), (9, ["b", "c"]), (1024, ["c"]), (1025, [])],
)
def test_size_threshold(threshold: int, moved: list[str]) -> None:
    """Tensors whose size in bytes is at least the threshold become entries; empty ones never do."""
    sizes = {"a": 8, "b": 1023, "c": 1024, "empty": 0}
    model = model_of(*(bytes_tensor(name, bytes(size)) for name, size in sizes.items()))
    data = pack(model, size_threshold=threshold)
    assert [*moved, "__MODEL_PROTO"] == list(payloads(data))
    assert model == unpack(data)


BLOCK = bytes(range(256)) * 8
STAYING = {
    "typed field": Tensor(dims=[512], data_type=1, float_data=Literal(BLOCK)),
    "strings": Tensor(dims=[1], data_type=8, string_data=[BLOCK]),
    "too many bytes": bytes_tensor("w", BLOCK, dims=[2047]),
    "too few bytes": bytes_tensor("w", BLOCK, dims=[2049]),
    "negative dimensions": bytes_tensor("w", BLOCK, dims=[-2, -1024]),
    "unknown type": bytes_tensor("w", BLOCK, data_type=99),
    "no type": bytes_tensor("w", BLOCK, data_type=None),
    "strings in raw data": bytes_tensor("w", BLOCK, data_type=8),
    "segment": bytes_tensor("w", BLOCK, segment=TensorSegment(0, 2048)),
    "two stores": bytes_tensor("w", BLOCK, int32_data=Literal(bytes(len(BLOCK)))),
    "left-over places": bytes_tensor("w", BLOCK, external_data=[StringStringEntry("location", "w")]),
    "unknown location": bytes_tensor("w", BLOCK, data_location=7),
}


@pytest.mark.parametrize("tensor", STAYING.values(), ids=STAYING)
def test_what_could_not_be_restored_stays(tensor: Tensor) -> None:
    """Typed fields, strings, and data that don't fit their tensor stay in the graph and are restored unchanged."""
    data = pack(model_of(tensor))
    assert ["__MODEL_PROTO"] == list(payloads(data))
    assert model_of(tensor) == unpack(data)


def test_typed_fields_that_stay_are_told() -> None:
    """A large weight in a typed field is in a note that says what to do; strings and small ones are not."""
    typed = STAYING["typed field"]
    for tensor, kinds in ((typed, ["typed_data"]), (STAYING["strings"], []), (bytes_tensor("w", BLOCK), [])):
        planned = onnxzip.CODEC.plan(model_of(tensor), Path("m.onnxz"), ArchiveOptions())
        assert kinds == [loss.kind for loss in planned.losses]
        assert all("1 weight stays in the graph" in loss.detail for loss in planned.losses)


@pytest.mark.parametrize("data_location", [None, 0])
def test_data_location_comes_back(data_location: int | None) -> None:
    """An explicit default `data_location` of a tensor is restored, and so are all its other fields."""
    tensor = bytes_tensor(
        "w",
        BLOCK,
        data_location=data_location,
        doc_string="weights",
        metadata_props=[StringStringEntry("k", "v")],
        unknown_fields=b"\xf8\x07\x01",
    )
    data = pack(model_of(tensor))
    assert 1 == len(referring(data))
    assert model_of(tensor) == unpack(data)


def test_one_tensor_twice_is_stored_once() -> None:
    """Tensors that share their bytes share an entry, and still do after reading it."""
    source = Literal(BLOCK)
    model = model_of(bytes_tensor("a", BLOCK, raw_data=source), bytes_tensor("b", BLOCK, raw_data=source))
    data = pack(model)
    assert ["a", "__MODEL_PROTO"] == list(payloads(data))
    assert model == unpack(data)


@pytest.mark.parametrize("alignment", [1, 2, 8, 64, 4096, 65536])
def test_alignment(alignment: int) -> None:
    """Every tensor begins at a multiple of the alignment, and the graph at a multiple of it, but of 64 at most."""
    model = model_of(*(bytes_tensor("w" * size, bytes(size)) for size in range(1, 40)))
    data = pack(model, alignment=alignment, size_threshold=0)
    *entries, graph = read_entries(Literal(data))
    assert 39 == len(entries)
    assert not any(entry.payload_offset % alignment for entry in entries)
    assert not graph.payload_offset % min(alignment, 64)
    assert model == unpack(data)


@pytest.mark.parametrize("options", [{"alignment": n} for n in (0, -64, 3, 1 << 17)] + [{"size_threshold": -1}])
def test_impossible_options_are_refused(options: dict[str, int]) -> None:
    """An alignment that is not a power of two or over 65,536, or a negative threshold, is a ValueError."""
    with pytest.raises(ValueError, match=r"`alignment` is|`size_threshold` is"):
        ArchiveOptions(**options)


def test_model_without_a_graph_is_refused() -> None:
    """A model that could not be read again is an EncodeError."""
    with pytest.raises(EncodeError, match="no graph"):
        plan(Model(ir_version=10))


@given(
    st.lists(st.tuples(st.text(), st.integers(0, 300)), max_size=20),
    st.integers(0, 16).map(lambda power: 1 << power),
    st.integers(0, 100),
)
def test_any_model_makes_a_sound_archive(tensors: list[tuple[str, int]], alignment: int, threshold: int) -> None:
    """Whatever names and sizes tensors have, `zipfile` and our reader find them, aligned."""
    views = [memoryview(bytes([size % 256]) * size) for _, size in tensors]  # CPython shares single bytes
    sources = [(name, Literal(view)) for (name, _), view in zip(tensors, views, strict=True)]
    model = model_of(*(bytes_tensor(name, source.read(), raw_data=source) for name, source in sources))
    data = pack(model, alignment=alignment, size_threshold=threshold)
    assert [bytes([size % 256]) * size for _, size in tensors if size and size >= threshold] == list(
        payloads(data).values()
    )[:-1]
    assert not any(entry.payload_offset % alignment for entry in read_entries(Literal(data))[:-1])
    assert model == unpack(data)


# Equal weights, and how entries are written


def test_dedup_stores_equal_weights_once() -> None:
    """With `dedup`, an archive has one entry for tensors with equal bytes of any type, and all are read correctly."""
    copies = [bytes(bytearray(BLOCK)) for _ in range(2)]
    tensors = [bytes_tensor("a", BLOCK), bytes_tensor("b", bytes(2048)), bytes_tensor("c", copies[0])]
    model = model_of(*tensors, bytes_tensor("d", copies[1], data_type=3))
    plain, short = pack(model), pack(model, dedup=True)
    assert ["a", "b", "c", "d", "__MODEL_PROTO"] == list(payloads(plain))
    assert ["a", "b", "__MODEL_PROTO"] == list(payloads(short))
    assert unpack(plain) == unpack(short)


def test_dedup_changes_nothing_without_equals() -> None:
    """If no two tensors are equal, the archive is the same with `dedup` and without."""
    model = model_of(*(bytes_tensor(str(number), number.to_bytes(4, "little") * 300) for number in range(9)))
    assert pack(model) == pack(model, dedup=True)


def placed(*sizes: int) -> list[records.Entry]:
    """Return entries of these sizes, one after another, not at the start of the file."""
    entries: list[records.Entry] = []
    for index, size in enumerate(sizes):
        entries.append(records.place(f"w{index}", size, entries[-1].end if entries else 1000, 64))
    return entries


def test_bytes_and_checksums_of_a_group(tmp_path: Path) -> None:
    """Headers with the right checksums precede the payloads in every way to read them; the digest has them, too."""
    sizes = (3, 1024, 0, 5000, 100)
    (tmp_path / "w").write_bytes(bytes(index % 251 for index in range(sum(sizes))))
    span = File.open(tmp_path / "w").span()
    spans = [span.slice(sum(sizes[:index]), size) for index, size in enumerate(sizes)]
    sources = tuple(Literal(part.read()) if index % 2 else part for index, part in enumerate(spans))
    entries = placed(*sizes)
    group = EntryGroup(tuple(entries), sources)
    crcs = [zlib.crc32(source.read()) for source in sources]
    expected = b"".join(
        records.local_header(entry._replace(crc32=crc)) + source.read()
        for entry, crc, source in zip(entries, crcs, sources, strict=True)
    )
    assert expected == group.read() == bytes(group.view()) == group.slice(0, group.nbytes).read()
    assert expected[70:1500] == group.read(70, 1430) == group.slice(70, 1430).read()
    assert group.granule_bytes == 0
    assert len(set(group.files())) == 1
    digester = Checksums(tuple(entries))
    digester.update(1000, memoryview(expected))
    assert b"".join(crc.to_bytes(4, "big") for crc in crcs) == digester.digest()


def test_error_in_a_group_names_the_entry() -> None:
    """A payload that cannot be computed is an error with the name of its entry."""
    broken = varints("int32").of(Literal(b"\xff"), 4)
    with pytest.raises(FormatError) as caught:
        EntryGroup(tuple(placed(4, 4, 4)), (Literal(b"1234"), broken, Literal(b"1234"))).read()
    assert caught.value.where == "w1"


def test_groups() -> None:
    """Small neighbours are grouped, up to a limit; large entries and the hashes are alone, and none is missing."""
    sizes = [10, 20, 1 << 20, 30, 1 << 16, *[60_000] * 40]
    entries = placed(*sizes)
    groups = list(grouped(entries))
    assert [*range(len(entries))] == [index for begin, end in groups for index in range(begin, end)]
    assert [2, 1, 1, 1] == [end - begin for begin, end in groups][:4]
    assert all(entries[end - 1].end - entries[begin].file_offset <= 1 << 20 for begin, end in groups[4:])
    assert len(groups) < 10
    hashes = entries[1]._replace(name="__SHA256SUMS")
    assert [(0, 1), (1, 2), (2, 3)] == list(grouped([entries[0], hashes, entries[3]]))
    assert [] == list(grouped([]))


# External data of an .onnx file


@pytest.fixture
def external(tmp_path: Path) -> Iterator[Model]:
    """Yield a model with tensors in another file: a large one, a small one, and one with the large one's bytes."""
    (tmp_path / "m.data").write_bytes(BLOCK + b"small")

    def tensor(name: str, offset: int, length: int, **more: str) -> Tensor:
        places = {"location": "m.data", "offset": str(offset), "length": str(length), **more}
        entries = [StringStringEntry(key, value) for key, value in places.items()]
        return Tensor(dims=[length], data_type=2, name=name, data_location=EXTERNAL, external_data=entries)

    tensors = tensor("w", 0, 2048), tensor("tied", 0, 2048, checksum="0", hint="x"), tensor("small", 2048, 5)
    path = tmp_path / "m.onnx"
    path.write_bytes(serialised(model_of(*tensors)))
    yield ONNX.read(File.open(path).span(), path)


def test_external_data_become_entries(external: Model) -> None:
    """External data are included: large tensors become one entry each, small ones are put in the graph."""
    data = pack(external)
    assert ["w", "__MODEL_PROTO"] == list(payloads(data))
    assert 2 == len(referring(data))
    inline = model_of(bytes_tensor("w", BLOCK), bytes_tensor("tied", BLOCK), bytes_tensor("small", b"small"))
    assert inline == unpack(data)


def test_lost_keys_of_external_data_are_reported(external: Model) -> None:
    """A checksum of the old file, and keys that ONNX does not define, are losses, each with its place."""
    losses = plan(external).losses
    where = "graph.initializer[1]"
    assert [("checksum", where), ("external_data", where)] == [(loss.kind, loss.where) for loss in losses]
    assert "hint" in losses[1].detail


def test_unreachable_external_data_are_an_error() -> None:
    """A tensor whose data were not found cannot be written, and the error names it."""
    places = [StringStringEntry("location", "w.data")]
    with pytest.raises(ExternalDataError) as caught:
        plan(model_of(bytes_tensor("w", b"", raw_data=None, data_location=EXTERNAL, external_data=places)))
    assert "graph.initializer[0]" == caught.value.where


# Reading


@dataclass(frozen=True, eq=False)
class Watched(Source):
    """A source that records which of its bytes were read."""

    data: bytes
    start: int
    nbytes: int
    seen: set[int]

    def readinto(self, offset: int, buffer: memoryview) -> None:
        """Record the range and read it."""
        first = self.start + offset
        self.seen.update(range(first, first + len(buffer)))
        buffer[:] = self.data[first : first + len(buffer)]

    def slice(self, offset: int, nbytes: int) -> Watched:
        """Return a part that records its reads as well."""
        return replace(self, start=self.start + offset, nbytes=nbytes)

    def view(self) -> memoryview:
        """Return everything."""
        return memoryview(self.read())


def test_reading_touches_no_tensor() -> None:
    """Reading a model reads only headers, directory and graph, if all tensors have at least the size of a page."""
    model = everywhere(4096)
    data = pack(model)
    source = Watched(data, 0, len(data), set())
    back = onnxzip.CODEC.read(source, None)
    *entries, _ = read_entries(Literal(data))
    assert not any(source.seen.intersection(range(entry.payload_offset, entry.end)) for entry in entries)
    assert model == back


def graph_with(**fields: Any) -> Tensor:
    """Return a tensor in the entry `w` of 8 bytes, with some fields changed; `places` are its external data."""
    places = fields.pop("places", {"location": "w", "length": "8"})
    external = [
        StringStringEntry(key, value) for key, value in (places.items() if isinstance(places, dict) else places)
    ]
    return Tensor(**{"dims": [8], "data_type": 2, "data_location": EXTERNAL, "external_data": external, **fields})


def archived(*tensors: Tensor, entry: str = "w") -> bytes:
    """Return an archive with an entry of 8 bytes and a graph with these initialisers."""
    weights = [(entry, bytes(range(8)))] if entry else []
    entries: list[records.Entry] = []
    parts: list[bytes] = []
    for name, payload in [*weights, ("__MODEL_PROTO", serialised(model_of(*tensors)))]:
        made = records.place(name, len(payload), entries[-1].end if entries else 0, 64)
        entries.append(made._replace(crc32=zlib.crc32(payload)))
        parts += [records.local_header(entries[-1]), payload]
    return b"".join((*parts, records.directory(entries)))


TAKEN = {
    "location only": graph_with(places={"location": "w"}),
    "location and length": graph_with(),
    "offset zero": graph_with(places={"location": "w", "offset": "0"}),
    "half the elements": graph_with(dims=[2, 2], data_type=4),
    "sixteen of four bits": graph_with(dims=[16], data_type=22),
}


@pytest.mark.parametrize("tensor", TAKEN.values(), ids=TAKEN)
def test_references_that_fit(tensor: Tensor) -> None:
    """A tensor that refers to an entry of the right size gets it as its raw data, and has no reference any more."""
    model = unpack(archived(tensor))
    assert model.graph is not None
    (found,) = model.graph.initializer
    assert Literal(bytes(range(8))) == found.raw_data
    assert ([], None) == (found.external_data, found.external_source)
    assert found.data_location in (None, 0)


ORDERS = {
    ("location", "length", "offset"): 0,
    ("location", "offset", "length"): None,
    ("location",): None,
    # Archives from before the first numbered version of the specification:
    ("location", "length"): None,
    ("location", "offset"): 0,
}


@pytest.mark.parametrize(("keys", "data_location"), ORDERS.items())
def test_order_of_the_reference_says_whether_there_was_a_data_location(
    keys: tuple[str, ...], data_location: int | None
) -> None:
    """The order of the keys says whether there was a `data_location`; older archives keep their meaning."""
    values = {"location": "w", "offset": "0", "length": "8"}
    model = unpack(archived(graph_with(places={key: values[key] for key in keys})))
    assert model.graph is not None
    (found,) = model.graph.initializer
    assert data_location == found.data_location
    again = referring(pack(model, size_threshold=1))[0]
    expected = ("location", "offset", "length") if data_location is None else ("location", "length", "offset")
    assert expected == tuple(entry.key for entry in again.external_data)


def test_references_that_do_not_fit_are_refused_with_their_place() -> None:
    """A tensor with a wrong reference is an ExternalDataError with its place in the model."""
    with pytest.raises(ExternalDataError, match="length is '7', entry w has 8 bytes") as caught:
        unpack(archived(graph_with(), graph_with(places={"location": "w", "length": "7"})))
    assert ("graph.initializer[1]", "Z-7.5") == (caught.value.where, caught.value.requirement)


def test_damaged_graph_is_an_error_at_its_place() -> None:
    """An error in the graph is reported with its offset in the archive."""
    data = pack(model_of(bytes_tensor("w", BLOCK)))
    start = read_entries(Literal(data))[-1].payload_offset
    damaged = bytearray(data)
    damaged[start + 3] = 0xFF  # the graph's length
    with pytest.raises(DecodeError) as caught:
        unpack(bytes(damaged))
    assert caught.value.file_offset is not None
    assert caught.value.file_offset >= start


def test_archive_without_a_graph_in_its_model_is_refused() -> None:
    """An empty ModelProto is not a model."""
    entry = records.place("__MODEL_PROTO", 0, 0, 64)
    with pytest.raises(DecodeError, match="no graph"):
        unpack(records.local_header(entry) + records.directory([entry]))


# Sizes beyond 4 GiB


class AsFile(io.RawIOBase):
    """A source as a file object, for `zipfile`."""

    def __init__(self, source: Source) -> None:
        self.source, self.position = source, 0

    def seekable(self) -> bool:
        """Return True."""
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        """Move the position, relative to the start, the position or the end."""
        self.position = offset + (0, self.position, self.source.nbytes)[whence]
        return self.position

    def tell(self) -> int:
        """Return the position."""
        return self.position

    def read(self, nbytes: int = -1) -> bytes:
        """Return up to `nbytes` bytes."""
        left = self.source.nbytes - self.position
        data = self.source.read(self.position, left if nbytes < 0 else min(nbytes, left))
        self.position += len(data)
        return data


def unwritten(plan: WritePlan) -> Source:
    """Return the bytes of a plan, with zero checksums of large payloads; nothing may be missing or overlap."""
    (file,) = plan.files
    digests = {}
    for write in file.writes:
        assert write.digest
        digester = new_digester(write.digest.algorithm)
        if write.source.nbytes < GIB:
            digester.update(write.file_offset, memoryview(write.source.read()))
        digests[write.digest.key] = digester.digest()
    parts = [(write.file_offset, write.source) for write in file.writes if write.source.nbytes]
    parts += [(late.file_offset, Literal(late.render(digests))) for late in file.late_writes]
    position = 0
    for file_offset, part in sorted(parts, key=lambda item: item[0]):
        assert file_offset == position
        position += part.nbytes
    assert position == file.nbytes
    return Concat.of(*(part for _, part in sorted(parts, key=lambda item: item[0])))


def test_archive_beyond_4_gib() -> None:
    """The reader and `zipfile` find a tensor of 5 GiB and a small one after it."""
    large = Tensor(dims=[5, GIB], data_type=2, name="large", raw_data=Zeros(5 * GIB))
    small = bytes_tensor("small", BLOCK)
    first = bytes_tensor("first", bytes(bytearray(BLOCK)))  # equal, but not the same object
    source = unwritten(plan(model_of(first, large, small)))
    model = onnxzip.CODEC.read(source, None)
    assert model.graph is not None
    assert [2048, 5 * GIB, 2048] == [tensor.source().nbytes for tensor in model.graph.initializer]
    assert BLOCK == model.graph.initializer[2].source().read()

    with zipfile.ZipFile(AsFile(source)) as archive:  # type: ignore[arg-type]
        infos = archive.infolist()
        assert ["first", "large", "small", "__MODEL_PROTO"] == [info.filename for info in infos]
        assert [10, 45, 45, 45] == [info.extract_version for info in infos]
        assert infos[1].file_size == 5 * GIB < infos[2].header_offset
        with archive.open("large") as stream:
            assert bytes(100) == stream.read(100)
