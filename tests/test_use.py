"""Other uses of a model besides conversion: pickle and copy it, close it, find its parts."""

from __future__ import annotations

import copy
import os
import pickle
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest

import formats
from formats.ir.model import MESSAGE_CLASSES
from formats.tensordata.file import File
from formats.tensordata.local.osio import SYSTEM
from formats.tensordata.sources.source import Concat, FileSpan, Literal, Source
from formats.tensordata.sources.transform import bit_packing, casting, clamp, varints

FORMATS = {
    "onnx": {},
    "onnxz": {},
    "rten": {},
    "textproto": {},
    "json": {},
    "onnxc": {"key": formats.Key(b"secret words")},
}
WEIGHT = np.arange(4096, dtype=np.float32).reshape(64, 64)
NODES = 2000  # so many that they stay undecoded


def value(name: str) -> formats.ValueInfo:
    """Return a matrix of floats."""
    dims = [formats.Dimension(dim_param="n"), formats.Dimension(dim_value=64)]
    return formats.ValueInfo(name, formats.Type(formats.TensorType(1, formats.TensorShape(dims))))


def large_model() -> formats.Model:
    """Return a model with a weight, a constant in an attribute of a subgraph, and many nodes."""
    nodes = [formats.Node(["x"], ["0"], op_type="Relu")]
    nodes += [formats.Node([f"{n}"], [f"{n + 1}"], f"node {n}", "Relu") for n in range(NODES)]
    nodes.append(formats.Node([str(NODES), "w"], ["y"], op_type="MatMul"))
    graph = formats.Graph(nodes, "large", [formats.from_numpy(WEIGHT, "w")], input=[value("x")], output=[value("y")])
    return formats.Model(8, [formats.OperatorSetId("", 17)], "us", "1", graph=graph)


@pytest.fixture(params=FORMATS)
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A file of each format."""
    path = tmp_path / f"model.{request.param}"
    formats.save(large_model(), path, **FORMATS[request.param])
    return path


def opened(path: Path) -> formats.Model:
    """Return the model in a file of any format."""
    return formats.load(path, **FORMATS[path.suffix[1:]])


def name_and_sum(tensor: formats.Tensor) -> tuple[str | None, float]:
    """Return a tensor's name and sum, in a worker."""
    return tensor.name, float(tensor.numpy().sum())


def node_count(model: formats.Model) -> int:
    """Return the number of nodes, in a worker."""
    assert model.graph
    return len(model.graph.node)


# Pickles


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    "protocol",
    [
        *(pytest.param(each, marks=pytest.mark.outer) for each in range(1, pickle.HIGHEST_PROTOCOL)),
        0,
        pickle.HIGHEST_PROTOCOL,
    ],
)
def test_a_pickled_model_is_equal(path: Path, protocol: int) -> None:
    """A model of every format is the same after pickling, with every protocol, and so is each of its tensors."""
    model = opened(path)
    data = pickle.dumps(model, protocol)
    assert b"secret words" not in data
    assert model == pickle.loads(data)
    for _, tensor in model.tensors():
        again = pickle.loads(pickle.dumps(tensor, protocol))
        assert tensor == again
        assert np.array_equal(tensor.numpy(), again.numpy())


def test_a_pickle_has_no_weight_that_is_in_a_file(tmp_path: Path) -> None:
    """The pickle of a model is small: unread weights and nodes are offsets in the file."""
    path = tmp_path / "model.onnx"
    formats.save(large_model(), path)
    model = formats.load(path)
    data = pickle.dumps(model)
    assert len(data) < 4000 < WEIGHT.nbytes
    again = pickle.loads(data)
    assert "node" not in vars(again.graph)
    assert model == again


def test_buffers_go_beside_the_pickle() -> None:
    """With protocol 5, the bytes of a weight in memory can be passed on without a copy."""
    buffers: list[pickle.PickleBuffer] = []
    tensor = formats.from_numpy(WEIGHT, "w")
    data = pickle.dumps(tensor, 5, buffer_callback=buffers.append)
    assert len(data) < 1000
    again = pickle.loads(data, buffers=buffers)
    assert np.shares_memory(again.numpy(), WEIGHT)
    assert tensor == again


@pytest.mark.parametrize(
    "source",
    [
        Literal(b"12345678"),
        Literal(memoryview(bytearray(b"x12345678x"))[1:-1]),
        Concat.of(Literal(b"1234"), Literal(b"5678")),
        casting("float32", "float16").of(Literal(bytes(8))),
        clamp("int64", "int32").of(Literal(bytes(8))),
        varints("int32").of(Literal(b"\x01\x02"), 8),
        bit_packing(4).of(Literal(bytes(8))),
    ],
    ids=("bytes", "memory", "joined", "cast", "clamp", "varints", "pack"),
)
def test_sources_are_pickled(source: Source) -> None:
    """Every kind of source in memory is the same after pickling."""
    again = pickle.loads(pickle.dumps(source))
    assert type(source) is type(again)
    assert source == again


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_tensors_and_models_go_through_a_pool_of_processes(tmp_path: Path, method: str) -> None:
    """Workers of a pool read the weights of tensors from their file, and also get whole models."""
    path = tmp_path / "model.onnx"
    formats.save(large_model(), path)
    model = formats.load(path)
    with ProcessPoolExecutor(2, get_context(method)) as pool:
        assert [("w", float(WEIGHT.sum()))] == list(pool.map(name_and_sum, (tensor for _, tensor in model.tensors())))
        assert [NODES + 2] * 2 == list(pool.map(node_count, [model, model]))


@pytest.mark.parametrize("change", ["longer", "as long", "gone"])
def test_another_file_at_the_path_is_refused(tmp_path: Path, change: str) -> None:
    """If the file of a pickled model was changed or replaced, reading it is an error, but not unpickling."""
    path = tmp_path / "model.onnx"
    formats.save(large_model(), path)
    model = formats.load(path)
    assert model.graph
    data = pickle.dumps(model.graph.initializer[0])
    if change == "gone":
        path.unlink()
    elif change == "longer":
        with path.open("ab") as file:
            file.write(b"x")
    else:
        content = path.read_bytes()
        path.unlink()
        path.write_bytes(content[::-1])
    tensor = pickle.loads(data)
    with pytest.raises(FileNotFoundError if change == "gone" else formats.TensorDataError) as caught:
        tensor.numpy()
    assert str(path) in str(caught.value)


def test_a_pickled_file_is_opened_once_and_only_when_read(tmp_path: Path) -> None:
    """The copies from one pickle share a file, which is opened at the first read, and mapped like the original."""
    path = tmp_path / "data"
    path.write_bytes(b"0123456789" * 1000)
    span = File.open(path).span()
    one, other = pickle.loads(pickle.dumps([span.slice(0, 5), span.slice(5, 5)]))
    assert one.file is other.file
    assert one.file._descriptor is None
    assert b"01234" == one.read() == bytes(one.view())
    descriptor = one.file._descriptor
    assert b"56789" == other.read()
    assert descriptor is not None
    assert descriptor == other.file._descriptor
    assert one.file._mapping is not None


def test_a_relative_path_is_found_from_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that was read from a relative path is found by a process in another folder."""
    monkeypatch.chdir(tmp_path)
    formats.save(large_model(), "model.onnx")
    data = pickle.dumps(formats.load("model.onnx"))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert np.array_equal(WEIGHT, pickle.loads(data).tensor("w").numpy())


def test_errors_are_pickled() -> None:
    """An error of a worker arrives unchanged, with its place."""
    error = formats.WireError("bad tag", path="model.onnx", file_offset=3, where="graph")
    again = pickle.loads(pickle.dumps(error))
    assert (str(error), type(error), vars(error)) == (str(again), type(again), vars(again))


# Copies


@pytest.mark.sample(3)
def test_a_deep_copy_is_another_model(path: Path) -> None:
    """A deep copy is equal, shares nothing that can change, and has the same weights."""
    model = opened(path)
    twin = copy.deepcopy(model)
    assert model == twin
    assert model.graph
    assert twin.graph
    twin.graph.node[0].name = "another"
    twin.graph.initializer[0].dims.append(1)
    assert model.graph.node[0].name != "another"
    assert [64, 64] == model.graph.initializer[0].dims
    assert model != twin


# Threads


@pytest.mark.sample(3)
def test_threads_share_a_model(path: Path) -> None:
    """Threads that read one model at the same time, including undecoded lists, get the same."""
    for _ in range(5):
        model = opened(path)

        def look(model: formats.Model = model) -> tuple[int, list[str | None], float]:
            assert model.graph
            names = [node.name for node in model.graph.node]
            return id(model.graph.node), names, sum(float(tensor.numpy().sum()) for _, tensor in model.tensors())

        with ThreadPoolExecutor(8) as pool:
            seen = [future.result() for future in [pool.submit(look) for _ in range(16)]]
        assert all(entry == seen[0] for entry in seen)


# Closing


def descriptors(path: Path) -> int:
    """Return how many descriptors and mappings of a file this process has."""
    links = [Path("/proc/self/fd") / name for name in os.listdir("/proc/self/fd")]
    count = sum(link.is_symlink() and os.path.exists(link) and os.path.samefile(link, path) for link in links)
    return count + Path("/proc/self/maps").read_text().count(str(path))


@pytest.mark.sample(3)
@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="only Linux lists mappings")
def test_close_lets_go_of_all_files(path: Path) -> None:
    """After `with`, no file of the model is open or mapped any more; weights that are read later are still right."""
    with opened(path) as model:
        for _, tensor in model.tensors():
            tensor.numpy()
        assert model.graph
        before = descriptors(path)
    assert 0 == descriptors(path)
    assert before > 0 or path.suffix in (".textproto", ".json")
    assert any(
        np.array_equal(WEIGHT, tensor.numpy().reshape(64, 64)) for _, tensor in model.tensors() if len(tensor.dims) == 2
    )


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="only Linux lists mappings")
def test_close_finds_what_is_undecoded_and_external(tmp_path: Path) -> None:
    """Files that are only used by an undecoded list or an external tensor are closed, too."""
    path = tmp_path / "model.onnx"
    formats.save(large_model(), path, external_data=True)
    data = tmp_path / "model.onnx.data"
    model = formats.load(path)
    model.tensor("w").numpy()
    assert model.graph
    model.graph.initializer[0].raw_data = None
    assert "node" not in vars(model.graph)
    assert descriptors(path)
    assert descriptors(data)
    model.close()
    assert 0 == descriptors(path)
    assert 0 == descriptors(data)
    assert NODES + 2 == len(model.graph.node)


def test_arrays_outlive_the_model(tmp_path: Path) -> None:
    """An array that was made before closing stays valid, and keeps the mapping only as long as it exists."""
    path = tmp_path / "model.onnx"
    formats.save(large_model(), path)
    with formats.load(path) as model:
        array = model.tensor("w").numpy()
    assert np.array_equal(WEIGHT, array)
    if Path("/proc/self/maps").exists():
        assert descriptors(path)
        del array
        assert not descriptors(path)


def test_closed_where_open_files_are_locked(tmp_path: Path) -> None:
    """If the system locks open files, the file of a closed model can be replaced; reading it later is an error."""
    path = tmp_path / "data"
    path.write_bytes(bytes(1000))
    file = File.open(path, capabilities=replace(SYSTEM, locks_open_files=True))
    tensor = formats.Tensor(dims=[250], data_type=1, raw_data=FileSpan(file, 0, 1000))
    with formats.Model(graph=formats.Graph(initializer=[tensor])):
        assert 0 == tensor.numpy().sum()
    assert file._descriptor is None
    assert file._mapping is None
    assert 0 == tensor.numpy().sum()
    path.write_bytes(bytes(999))
    with pytest.raises(formats.TensorDataError, match="changed"):
        tensor.numpy()


def test_an_error_closes_too(digits: Path) -> None:
    """An exception inside `with` is passed on, and the files are closed."""
    with pytest.raises(ZeroDivisionError), formats.load(digits) as model:
        span = next(tensor.source() for _, tensor in model.tensors() if isinstance(tensor.source(), FileSpan))
        _ = 1 / 0
    assert isinstance(span, FileSpan)
    assert span.file._descriptor is None


# Finding tensors


def test_tensors_have_names_and_places() -> None:
    """Every tensor is found by its name and by its dotted place, in attributes and subgraphs, too."""
    inner = formats.Graph(initializer=[formats.Tensor(name="w"), formats.Tensor(name="inner")])
    attributes = [formats.Attribute("then_branch", g=inner), formats.Attribute("value", t=formats.Tensor(name="value"))]
    graph = formats.Graph(node=[formats.Node(attribute=attributes)], initializer=[formats.Tensor(name="w")])
    model = formats.Model(graph=graph)
    places = dict(model.tensors())
    assert {
        'graph.node[0].attribute["then_branch"].g.initializer[0]': "w",
        'graph.node[0].attribute["then_branch"].g.initializer[1]': "inner",
        'graph.node[0].attribute["value"].t': "value",
        "graph.initializer[0]": "w",
    } == {where: tensor.name for where, tensor in places.items()}
    assert graph.initializer[0] is model.tensor("w")
    assert inner.initializer[1] is model.tensor("inner")
    for where, tensor in places.items():
        assert tensor is model.tensor(where)


def test_a_tensor_that_is_not_there() -> None:
    """An unknown tensor name is a LookupError that lists similar names; an ambiguous name lists the places."""
    graph = formats.Graph(initializer=[formats.Tensor(name="weight"), formats.Tensor(name="bias")])
    with pytest.raises(LookupError, match=r"no tensor is called 'wieght'; there is weight"):
        formats.Model(graph=graph).tensor("wieght")
    with pytest.raises(LookupError, match=r"no tensor is called ''"):
        formats.Model().tensor("")
    inner = [formats.Graph(initializer=[formats.Tensor(name="twice")]) for _ in range(2)]
    attributes = [formats.Attribute(name, g=graph) for name, graph in zip(("then", "else"), inner, strict=True)]
    model = formats.Model(graph=formats.Graph(node=[formats.Node(attribute=attributes)]))
    with pytest.raises(LookupError, match=r"2 tensors are called 'twice'; their places are .*then.*else"):
        model.tensor("twice")


# Notebooks


def test_a_notebook_shows_a_short_table(digits: Path) -> None:
    """A model is shown as a short table: a few hundred characters of HTML, however large it is."""
    html = formats.load(digits)._repr_html_()
    assert html.startswith("<table>")
    assert "float[n,1,8,8]" in html or "float[" in html
    large = large_model()._repr_html_()
    assert len(large) < 1000
    assert f"{NODES + 2}: {NODES + 1} Relu, 1 MatMul" in large
    assert "1, 16384 bytes" in large


def test_a_table_is_text_whatever_the_model_says() -> None:
    """Names from a model cannot put tags into a notebook, and missing or damaged parts are not an error."""
    evil = '<script>alert("x")</script>&'
    graph = formats.Graph(
        [formats.Node(op_type=evil)], evil, input=[formats.ValueInfo(evil)], output=[formats.ValueInfo()] * 100
    )
    html = formats.Model(producer_name=evil, graph=graph, opset_import=[formats.OperatorSetId(evil, 1)])._repr_html_()
    assert "<script>" not in html
    assert "and 88 more" in html
    assert "<table>" in formats.Model()._repr_html_()
    damaged = formats.loads(formats.dumps(large_model(), "onnx").replace(b"node 1999", b"node \xff999", 1))
    assert "<table>" in damaged._repr_html_()


def test_every_public_message_refuses_what_it_lacks() -> None:
    """A misspelt field is refused, also after pickling and copying."""
    for message_class in MESSAGE_CLASSES:
        for message in (copy.copy(message_class()), pickle.loads(pickle.dumps(message_class()))):
            with pytest.raises(AttributeError):
                message.opset_imports = 1
