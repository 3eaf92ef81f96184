"""Tests of models that are passed to and from other packages, and to onnxruntime."""

from __future__ import annotations

import gc
import inspect
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import formats
import formats.onnxpb
from formats.bridges import from_others, to_others
from formats.errors import EncodeError, ExternalDataError, TensorDataError
from formats.ir import dtypes, walk
from formats.ir.model import Model, Tensor
from formats.onnx_compat.protos import classes as skin
from formats.onnxpb.wire import encoder
from formats.tensordata.sources.source import FileSpan, Literal
from tests.corpus import backend_files

SIZE = 600  # elements of a vector whose weights are moved to external data


def add_model(*tensors: onnx.TensorProto, branch: onnx.TensorProto | None = None) -> onnx.ModelProto:
    """Return a model that adds each of the given vectors to x, and, if its largest element is not 0, `branch`."""
    nodes = [helper.make_node("Add", [f"s{i}", tensor.name], [f"s{i + 1}"]) for i, tensor in enumerate(tensors)]
    nodes.insert(0, helper.make_node("Identity", ["x"], ["s0"]))
    last = f"s{len(tensors)}"
    if branch is not None:
        result = [helper.make_tensor_value_info("r", 1, [SIZE])]
        then = helper.make_graph([helper.make_node("Add", [last, branch.name], ["r"])], "then", [], result, [branch])
        other = helper.make_graph([helper.make_node("Identity", [last], ["r"])], "other", [], result)
        nodes += [
            helper.make_node("ReduceMax", [last], ["m"], keepdims=0),
            helper.make_node("Cast", ["m"], ["c"], to=TensorProto.BOOL),
            helper.make_node("If", ["c"], ["if"], then_branch=then, else_branch=other),
        ]
        last = "if"
    nodes.append(helper.make_node("Identity", [last], ["y"]))
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [SIZE]) for name in "xy")
    graph = helper.make_graph(nodes, "g", [x], [y], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def weight(name: str, seed: int = 0) -> onnx.TensorProto:
    """Return a vector of random numbers."""
    return numpy_helper.from_array(np.random.default_rng(seed).random(SIZE, np.float32), name)


def run(session: Any, size: int = SIZE) -> np.ndarray[Any, Any]:
    """Return what a session computes for the numbers from 0 on."""
    (output,) = session.run(None, {"x": np.arange(size, dtype=np.float32)})
    return np.asarray(output)


# onnx


def test_from_onnx_and_back() -> None:
    """Every model file of the `onnx` package is the same after both conversions."""
    for name, path in backend_files():
        given = onnx.load(path)
        model = from_others.from_onnx(given)
        assert given.SerializeToString() == to_others.to_onnx(model).SerializeToString(), name


def test_a_message_above_the_limit_goes_by_its_fields(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the bytes would be too many for protobuf, the model is the same nevertheless."""
    given = add_model(weight("a"), weight("b", 1), branch=weight("c", 2))
    given.metadata_props.add(key="k", value="v")
    given.graph.node[0].doc_string = "text"
    for limit in (40, 1000, 4000, 6000):
        monkeypatch.setattr(encoder, "PROTOBUF_LIMIT_BYTES", limit)
        monkeypatch.setattr(from_others, "PROTOBUF_LIMIT_BYTES", limit)
        model = from_others.from_onnx(given)
        assert formats.dumps(model, "onnx") == given.SerializeToString()
        assert given == to_others.to_onnx(model)


def test_to_onnx_takes_the_wrapped_message_too() -> None:
    """A message of formats.onnxpb is converted like the model under it, and shares nothing with the result."""
    message = skin.ModelProto.FromString(add_model(weight("a")).SerializeToString())
    converted = to_others.to_onnx(message)
    message.graph.name = "changed"
    assert "g" == converted.graph.name


def test_external_data_go_along(tmp_path: Path) -> None:
    """External data are read from the named directory; in the message of `onnx`, they are inside."""
    given = add_model(weight("a"))
    wanted = given.SerializeToString()
    onnx.save(onnx.ModelProto.FromString(wanted), tmp_path / "m.onnx", save_as_external_data=True, location="w")
    references = onnx.load(tmp_path / "m.onnx", load_external_data=False)
    (tensor,) = from_others.from_onnx(references, tmp_path).graph.initializer  # type: ignore[union-attr]
    assert numpy_helper.to_array(given.graph.initializer[0]).tolist() == tensor.numpy().tolist()
    assert wanted == to_others.to_onnx(formats.load(tmp_path / "m.onnx")).SerializeToString()
    assert references == to_others.to_onnx(from_others.from_onnx(references))
    with pytest.raises(ExternalDataError):
        from_others.from_onnx(references, tmp_path / "elsewhere")


# onnx_ir


def test_onnx_ir_and_back(tmp_path: Path) -> None:
    """A model is the same after conversion to `onnx_ir` and back, and its large weights are not copied for it."""
    path = tmp_path / "m.onnx"
    onnx.save(add_model(weight("a"), branch=weight("b", 1)), path)
    model = formats.load(path)
    converted = to_others.to_onnx_ir(model)
    array = converted.graph.initializers["a"].const_value.numpy()
    assert not array.flags.owndata
    assert not array.flags.writeable
    back = from_others.from_onnx_ir(converted)
    expected = onnx.load(path)
    onnx.checker.check_model(to_others.to_onnx(back))
    for given, found in zip(walk.tensors(from_others.from_onnx(expected)), walk.tensors(back), strict=True):
        assert given[1].numpy().tolist() == found[1].numpy().tolist()


def test_external_data_of_onnx_ir_stay_where_they_are(tmp_path: Path) -> None:
    """External data are found in the directory that `onnx_ir` uses, and are read only when they are needed."""
    onnx.save(add_model(weight("a")), tmp_path / "m.onnx", save_as_external_data=True, location="w")
    model = from_others.from_onnx_ir(onnx_ir.load(tmp_path / "m.onnx"))
    (tensor,) = model.graph.initializer  # type: ignore[union-attr]
    assert [tmp_path / "w"] == [file.path for file in tensor.source().files()]
    assert numpy_helper.to_array(weight("a")).tolist() == tensor.numpy().tolist()


def test_lazy_tensors_of_onnx_ir_stay_lazy(tmp_path: Path) -> None:
    """A `LazyTensor` is evaluated when the model is saved, not before; the given model and its order do not change."""
    given = onnx_ir.from_proto(add_model(weight("a"), weight("b", 1)))
    evaluated: list[str] = []

    def elements() -> Any:
        evaluated.append("b")
        return onnx_ir.tensor(numpy_helper.to_array(weight("b", 1)))

    lazy = onnx_ir.LazyTensor(elements, onnx_ir.DataType.FLOAT, onnx_ir.Shape([SIZE]), name="b", doc_string="text")
    given.graph.initializers["b"].const_value = lazy
    model = from_others.from_onnx_ir(given)
    assert evaluated == []
    assert given.graph.initializers["b"].const_value is lazy
    formats.save(model, tmp_path / "m.onnx", external_data=True)
    assert evaluated == ["b"]
    found = onnx.load(tmp_path / "m.onnx").graph.initializer
    expected = [weight("a"), weight("b", 1)]
    assert [numpy_helper.to_array(each).tolist() for each in found] == [
        numpy_helper.to_array(each).tolist() for each in expected
    ]
    assert [each.doc_string for each in found] == ["", "text"]


@pytest.mark.parametrize("size", [SIZE - 1, SIZE + 1])
def test_a_lazy_tensor_of_another_size_is_an_error(size: int) -> None:
    """If the function of a `LazyTensor` gives more or fewer elements than its shape says, reading it is an error."""
    given = onnx_ir.from_proto(add_model(weight("a")))
    given.graph.initializers["a"].const_value = onnx_ir.LazyTensor(
        lambda: onnx_ir.tensor(np.zeros(size, np.float32)), onnx_ir.DataType.FLOAT, onnx_ir.Shape([SIZE]), name="a"
    )
    (tensor,) = from_others.from_onnx_ir(given).graph.initializer  # type: ignore[union-attr]
    with pytest.raises(TensorDataError, match=f"the LazyTensor 'a' gave {4 * size} bytes, not the {4 * SIZE}"):
        tensor.numpy()


def test_what_onnx_ir_does_not_take() -> None:
    """A model that onnx_ir refuses, here since two nodes make one value, is an error of ours."""
    nodes = [helper.make_node("Relu", ["x"], ["y"])] * 2
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xy"]
    model = from_others.from_onnx(helper.make_model(helper.make_graph(nodes, "g", ends[:1], ends[1:]), ir_version=8))
    with pytest.raises(EncodeError, match="onnx_ir does not take this model"):
        to_others.to_onnx_ir(model)


def test_weights_stay_in_their_file_on_the_way_to_onnx_ir_and_back(tmp_path: Path) -> None:
    """What came from a file of ours is read from that file again, and not from `onnx_ir`; also if it was pickled."""
    onnx.save(add_model(weight("a")), tmp_path / "m.onnx")
    (before,) = formats.load(tmp_path / "m.onnx").graph.initializer  # type: ignore[union-attr]
    converted = to_others.to_onnx_ir(formats.load(tmp_path / "m.onnx"))
    (after,) = from_others.from_onnx_ir(converted).graph.initializer  # type: ignore[union-attr]
    assert type(before.source()) is type(after.source()) is FileSpan
    lazy = pickle.loads(pickle.dumps(converted.graph.initializers["a"].const_value))
    assert lazy.numpy().tolist() == before.numpy().tolist()


def test_messages_of_ours_go_through_onnx_ir() -> None:
    """What `onnx_ir.from_proto` makes of a message of ours, with tensors in nodes, too, is taken as a model again."""
    given = add_model(weight("a"), branch=weight("b", 1))
    given.graph.node.append(helper.make_node("Constant", [], ["k"], value=weight("k")))
    ours = formats.onnxpb.ModelProto.FromString(given.SerializeToString())
    back = to_others.to_onnx(from_others.from_onnx_ir(onnx_ir.from_proto(ours)))
    assert back == onnx_ir.to_proto(onnx_ir.from_proto(given))


def test_nodes_of_onnx_ir_may_be_in_any_order(tmp_path: Path) -> None:
    """A graph whose nodes are not in order is taken as it is, also from `onnx_ir`."""
    model = add_model(weight("a"))
    model.graph.node.reverse()
    back = to_others.to_onnx(from_others.from_onnx_ir(to_others.to_onnx_ir(from_others.from_onnx(model))))
    assert list(model.graph.node) == list(back.graph.node)


@pytest.mark.outer
def test_memory_of_onnx_ir_does_not_grow_with_the_weights(tmp_path: Path) -> None:
    """A model with 2 GiB of weights goes to `onnx_ir` and back in 32 MiB."""
    with (tmp_path / "m.data").open("wb") as data:
        data.truncate(2 << 30)
    places = [("location", "m.data"), ("offset", "0"), ("length", str(2 << 30))]
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[1 << 29], data_location=TensorProto.EXTERNAL)
    for key, value in places:
        tensor.external_data.add(key=key, value=value)
    model = helper.make_model(helper.make_graph([], "g", [], [], [tensor]), ir_version=10)
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    text = (
        "import resource, formats, onnx_ir\n"
        "def peak():\n    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10\n"
        "before = peak()\n"
        "model = formats.from_onnx_ir(formats.to_onnx_ir(formats.load('m.onnx')))\n"
        "assert model.graph.initializer[0].source().nbytes == 2 << 30\n"
        "print(peak() - before)\n"
    )
    run = subprocess.run([sys.executable, "-c", text], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert int(run.stdout) < 32


@pytest.mark.parametrize("row", [row for row in dtypes.DATA_TYPES if row.bits], ids=lambda row: row.name)
def test_every_data_type_goes_to_onnx_ir(row: dtypes.DataType) -> None:
    """The bytes of a tensor of any type are the same in `onnx_ir`, and after the way back."""
    data = bytes(range(256)) * (row.bits // 2)
    if row.name == "BOOL":
        data = bytes(index % 2 for index in range(len(data)))
    tensor = formats.Tensor(dims=[len(data) * 8 // row.bits], data_type=row.number, name="t", raw_data=Literal(data))
    model = Model(ir_version=13, graph=formats.Graph(name="g", initializer=[tensor]))
    converted = to_others.to_onnx_ir(model)
    assert data == converted.graph.initializers["t"].const_value.tobytes()
    (back,) = from_others.from_onnx_ir(converted).graph.initializer  # type: ignore[union-attr]
    assert data == back.source().read()


# onnxruntime

WRITERS: dict[str, Callable[[onnx.ModelProto, Path], Path]] = {}


def writer(function: Callable[[onnx.ModelProto, Path], Path]) -> Callable[[onnx.ModelProto, Path], Path]:
    """Register a way to write a model."""
    WRITERS[function.__name__] = function
    return function


@writer
def inline(model: onnx.ModelProto, folder: Path) -> Path:
    """Write everything into the model file."""
    onnx.save(model, folder / "m.onnx")
    return folder / "m.onnx"


@writer
def external(model: onnx.ModelProto, folder: Path) -> Path:
    """Write weights to a data file."""
    formats.save(from_others.from_onnx(model), folder / "m.onnx", external_data=True)
    return folder / "m.onnx"


@writer
def split(model: onnx.ModelProto, folder: Path) -> Path:
    """Write each weight to its own file."""
    formats.save(from_others.from_onnx(model), folder / "m.onnx", external_data=True, one_file_per_tensor=True)
    return folder / "m.onnx"


@writer
def linked(model: onnx.ModelProto, folder: Path) -> Path:
    """Write links to blobs in another folder, as in the cache of Hugging Face."""
    (folder / "blobs").mkdir()
    (folder / "snapshots").mkdir()
    formats.save(from_others.from_onnx(model), folder / "blobs" / "m.onnx", external_data="w")
    for name in ("m.onnx", "w"):
        (folder / "snapshots" / name).symlink_to(folder / "blobs" / name)
    return folder / "snapshots" / "m.onnx"


@writer
def archive(model: onnx.ModelProto, folder: Path) -> Path:
    """Write an archive."""
    formats.save(from_others.from_onnx(model), folder / "m.onnxz")
    return folder / "m.onnxz"


@writer
def rten(model: onnx.ModelProto, folder: Path) -> Path:
    """Write a model of RTen."""
    formats.save(from_others.from_onnx(model), folder / "m.rten")
    return folder / "m.rten"


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS.keys())
def test_session_from_a_file(write: Callable[[onnx.ModelProto, Path], Path], tmp_path: Path) -> None:
    """A session of a model in any format and layout computes the same as of the model itself; no file is written."""
    model = add_model(weight("a"), weight("b", 1), branch=weight("c", 2))
    wanted = run(onnxruntime.InferenceSession(model.SerializeToString()))
    path = write(model, tmp_path)
    before = sorted(os.walk(tmp_path))
    session = to_others.onnxruntime_session(path, providers=["CPUExecutionProvider"])
    assert wanted.tolist() == run(session).tolist()
    assert before == sorted(os.walk(tmp_path))


@pytest.mark.sample(3)
def test_session_of_real_models(shared_model: Path, tmp_path: Path) -> None:
    """An exporter's model computes the same, bit for bit, from an archive and with its weights in a data file."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(shared_model, options)
    with np.load(shared_model.with_suffix(".npz")) as arrays:
        inputs = {value.name: arrays[f"in_{value.name}"] for value in session.get_inputs()}
    expected = session.run(None, inputs)
    formats.save(formats.load(shared_model), tmp_path / "m.onnxz")
    formats.save(formats.load(shared_model), tmp_path / "m.onnx", external_data=True)
    for name in ("m.onnxz", "m.onnx"):
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        found = to_others.onnxruntime_session(tmp_path / name, sess_options=options).run(None, inputs)
        assert all(np.array_equal(*pair) for pair in zip(expected, found, strict=True))


def test_session_from_memory() -> None:
    """A model in memory, a wrapped one, and one with weights both in files and in memory work like a file."""
    given = add_model(weight("a"), weight("b", 1), branch=weight("c", 2))
    wanted = run(onnxruntime.InferenceSession(given.SerializeToString())).tolist()
    model = from_others.from_onnx(given)
    assert wanted == run(to_others.onnxruntime_session(model)).tolist()
    assert wanted == run(to_others.onnxruntime_session(skin.wrap(model))).tolist()


def test_session_of_weights_in_files_and_memory(tmp_path: Path) -> None:
    """Weights of one model can be in files of several folders and in memory."""
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    given = add_model(weight("a"), weight("b", 1), weight("c", 2))
    wanted = run(onnxruntime.InferenceSession(given.SerializeToString())).tolist()
    onnx.save(given, tmp_path / "one" / "m.onnx")
    onnx.save(given, tmp_path / "two" / "m.onnx")
    one, two = formats.load(tmp_path / "one" / "m.onnx"), formats.load(tmp_path / "two" / "m.onnx")
    assert one.graph and two.graph
    one.graph.initializer[1] = two.graph.initializer[1]
    one.graph.initializer[2].raw_data = Literal(two.graph.initializer[2].source().read())
    assert wanted == run(to_others.onnxruntime_session(one)).tolist()


def test_session_after_the_model_file_was_replaced(tmp_path: Path) -> None:
    """The weights of a file that was replaced are those of the file that was read, not of the new one."""
    path = tmp_path / "m.onnx"
    onnx.save(add_model(weight("a")), path)
    model = formats.load(path)
    onnx.save(add_model(weight("a", 9)), tmp_path / "new.onnx")
    (tmp_path / "new.onnx").replace(path)
    wanted = run(onnxruntime.InferenceSession(add_model(weight("a")).SerializeToString())).tolist()
    assert wanted == run(to_others.onnxruntime_session(model)).tolist()


TYPES = {  # types for which onnxruntime has a Cast to float
    "FLOAT", "DOUBLE", "FLOAT16", "BFLOAT16", "INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64",
    "BOOL", "FLOAT8E4M3FN", "FLOAT8E5M2", "INT4", "UINT4",
}  # fmt: skip


@pytest.mark.parametrize("where", ["file", "raw", "typed"])
@pytest.mark.parametrize("name", sorted(TYPES))
def test_session_with_every_data_type(name: str, where: str, tmp_path: Path) -> None:
    """A large initialiser of any type, in a file, in memory or in a typed field, has its value in the session."""
    row = dtypes.BY_NAME[name]
    values = np.arange(4096) % 3 % 2
    tensor = helper.make_tensor("w", row.number, [4096], values.tolist())
    if where != "typed":
        tensor = numpy_helper.from_array(numpy_helper.to_array(tensor), "w")
    nodes = [helper.make_node("Cast", ["w"], ["c"], to=1), helper.make_node("Add", ["x", "c"], ["y"])]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [4096]) for name in "xy")
    graph = helper.make_graph(nodes, "g", [x], [y], [tensor])
    given = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    model = from_others.from_onnx(given)
    if where == "file":
        onnx.save(given, tmp_path / "m.onnx")
        model = formats.load(tmp_path / "m.onnx")
    found = run(to_others.onnxruntime_session(model), 4096)
    assert (values + np.arange(4096)).tolist() == found.tolist()


@pytest.mark.parametrize(
    ("data_type", "words"),
    [(None, "type information"), (0, "type information"), (99, "99 is not the number of a type")],
)
def test_initialisers_without_a_size_stay(data_type: int | None, words: str) -> None:
    """A large initialiser without a type, or of an unknown one, stays in the model, which is then refused in words."""
    model = from_others.from_onnx(add_model(weight("a")))
    assert model.graph
    tensor = Tensor(name="w", dims=[4 * SIZE], data_type=data_type, raw_data=Literal(bytes(16 * SIZE)))
    model.graph.initializer.append(tensor)
    with pytest.raises(Exception, match=words):
        to_others.onnxruntime_session(model)


def test_large_texts_stay() -> None:
    """A large initialiser of strings stays in the model, and has its value in the session."""
    graph = helper.make_graph(
        [helper.make_node("Identity", ["w"], ["y"])],
        "g",
        [],
        [helper.make_tensor_value_info("y", TensorProto.STRING, [4 * SIZE])],
        [helper.make_tensor("w", TensorProto.STRING, [4 * SIZE], [b"text"] * 4 * SIZE)],
    )
    given = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    (found,) = to_others.onnxruntime_session(from_others.from_onnx(given)).run(None, {})
    assert ["text"] * 4 * SIZE == found.tolist()


def test_session_outlives_what_it_was_made_of(tmp_path: Path) -> None:
    """A session needs neither the model nor its source, and the file may even be removed."""
    given = add_model(weight("a"), weight("b", 1))
    wanted = run(onnxruntime.InferenceSession(given.SerializeToString())).tolist()
    onnx.save(given, tmp_path / "m.onnx")
    model = formats.load(tmp_path / "m.onnx")
    assert model.graph
    model.graph.initializer[1].raw_data = Literal(model.graph.initializer[1].source().read())
    session = to_others.onnxruntime_session(model)
    del model
    gc.collect()
    (tmp_path / "m.onnx").unlink()
    assert wanted == run(session).tolist()


def test_session_options_are_used() -> None:
    """Options of the session and of InferenceSession reach onnxruntime."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = to_others.onnxruntime_session(
        formats.from_onnx(add_model(weight("a"))), options, ["CPUExecutionProvider"], [{}]
    )
    assert ["CPUExecutionProvider"] == session.get_providers()
    assert 3 == session.get_session_options().log_severity_level


def test_arguments_are_those_of_inference_session() -> None:
    """Arguments have the names and the order of InferenceSession, bytes are a model, and another order is an error."""
    theirs, ours = (
        list(inspect.signature(function).parameters)
        for function in (onnxruntime.InferenceSession.__init__, to_others.onnxruntime_session)
    )
    assert theirs[2:5] == ours[1:4] == ["sess_options", "providers", "provider_options"]
    model = add_model(weight("a"))
    wanted = run(onnxruntime.InferenceSession(model.SerializeToString())).tolist()
    for given in (model.SerializeToString(), bytearray(model.SerializeToString()), model, onnx_ir.from_proto(model)):
        assert wanted == run(to_others.onnxruntime_session(given)).tolist()
    with pytest.raises(TypeError, match="sess_options comes before providers"):
        to_others.onnxruntime_session(model, ["CPUExecutionProvider"])


def test_session_of_an_encrypted_model(tmp_path: Path) -> None:
    """`key` opens an encrypted file or its bytes; a model object needs none."""
    model = add_model(weight("a"))
    formats.save(model, path := tmp_path / "m.onnxc", key="secret words")
    wanted = run(onnxruntime.InferenceSession(model.SerializeToString())).tolist()
    for given in (path, path.read_bytes()):
        assert wanted == run(to_others.onnxruntime_session(given, key="secret words")).tolist()
    with pytest.raises(formats.CryptError, match="pass one with `key`"):
        to_others.onnxruntime_session(path)
    with pytest.raises(formats.OptionError, match="`key` is for an encrypted file"):
        to_others.onnxruntime_session(model, key="secret words")


def test_models_of_every_package_are_saved(tmp_path: Path) -> None:
    """`save`, `dumps` and `raise_model` accept messages of `onnx` and of ours, and models of `onnx_ir`."""
    model = add_model(weight("a"))
    data = formats.dumps(formats.loads(model.SerializeToString()), "onnx")
    for index, given in enumerate((model, skin.ModelProto.FromString(model.SerializeToString()))):
        formats.save(given, tmp_path / f"{index}.onnx")
        assert data == (tmp_path / f"{index}.onnx").read_bytes() == formats.dumps(given, "onnx")
        assert data == formats.dumps(formats.raise_model(given)[0], "onnx")
    formats.save(onnx_ir.from_proto(model), tmp_path / "ir.onnx")
    assert (
        run(onnxruntime.InferenceSession(model.SerializeToString())).tolist()
        == run(onnxruntime.InferenceSession(tmp_path / "ir.onnx")).tolist()
    )
    for wrong in (model.graph, skin.GraphProto(), None, {}, "model.onnx", b"model"):
        with pytest.raises(TypeError, match="expected a model"):
            formats.save(wrong, tmp_path / "wrong.onnx")
    assert not (tmp_path / "wrong.onnx").exists()


@pytest.mark.parametrize("given", [b"x", None, 3], ids=type)
def test_what_is_no_path_is_told(given: Any, tmp_path: Path) -> None:
    """Bytes or a number instead of a path are a TypeError that says which function accepts them."""
    model = formats.from_onnx(add_model(weight("a")))
    calls: list[Callable[[], Any]] = [
        lambda: formats.load(given),
        lambda: formats.save(model, given),
        lambda: formats.convert(given, tmp_path / "x.onnx"),
        lambda: formats.inspect(given),
        lambda: formats.verify(given),
        lambda: formats.diff(given, given),
    ]
    for call in calls:
        with pytest.raises(TypeError, match="expected the path of a model file, got") as caught:
            call()
        assert ("formats.loads" in str(caught.value)) is (given is not None and given != 3)
    if not isinstance(given, bytes):
        with pytest.raises(TypeError, match=r"expected the bytes of a model, got .*use formats\.load"):
            formats.loads(given)


def test_a_model_too_large_without_its_weights_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that onnxruntime could not read is refused with the reason."""
    monkeypatch.setattr(encoder, "PROTOBUF_LIMIT_BYTES", 100)
    with pytest.raises(EncodeError, match="without its initialisers"):
        to_others.onnxruntime_session(from_others.from_onnx(onnx.ModelProto(doc_string="x" * 100)))


MEASURE = """
import sys, formats
def memory():
    with open("/proc/self/status") as file:
        lines = dict(line.split(":", 1) for line in file)
    return {name: int(lines[name].split()[0]) // 1024 for name in ("RssAnon", "RssFile", "VmHWM")}
import numpy, onnxruntime
from formats.bridges.to_others import onnxruntime_session
for path in sys.argv[1:]:
    before = memory()
    session = onnxruntime_session(path, providers=["CPUExecutionProvider"])
    after = memory()
    assert all(after[name] - before[name] < 48 for name in before), (path, before, after)
    assert [7.0] == session.run(None, {"x": numpy.array([5])})[0].tolist()
"""


@pytest.mark.outer
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux lists mappings")
def test_session_copies_and_reads_no_weight(tmp_path: Path) -> None:
    """A weight of 128 MB adds less than 48 MB to the memory of the process, at any time while a session is created."""
    array = np.full(1 << 25, 7, np.float32)
    x, y = helper.make_tensor_value_info("x", TensorProto.INT64, [1]), helper.make_tensor_value_info("y", 1, [1])
    node = helper.make_node("Gather", ["w", "x"], ["y"])
    graph = helper.make_graph([node], "g", [x], [y], [numpy_helper.from_array(array, "w")])
    given = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    paths = [tmp_path / "m.onnx", tmp_path / "m.onnxz"]
    for path in paths:
        formats.save(from_others.from_onnx(given), path)
    done = subprocess.run([sys.executable, "-c", MEASURE, *paths], capture_output=True, text=True, check=False)
    assert 0 == done.returncode, done.stderr


def test_a_session_of_an_ort_file_maps_it(tmp_path: Path) -> None:
    """Onnxruntime gets an .ort file itself, with the settings that map it; a damaged file is refused before that."""
    example = Path(__file__).parents[2] / "examples" / "digits.onnx"
    image = np.arange(784, dtype=np.float32).reshape(1, 1, 28, 28) / 784
    formats.convert(example, tmp_path / "m.ort")
    options = onnxruntime.SessionOptions()
    session = formats.onnxruntime_session(tmp_path / "m.ort", options)
    assert "1" == options.get_session_config_entry("session.use_memory_mapped_ort_model")
    expected = onnxruntime.InferenceSession(str(example)).run(None, {"image": image})
    np.testing.assert_allclose(session.run(None, {"image": image})[0], expected[0], rtol=1e-4, atol=1e-6)
    (tmp_path / "m.ort").write_bytes((tmp_path / "m.ort").read_bytes()[:3000])
    with pytest.raises(formats.DecodeError):
        formats.onnxruntime_session(tmp_path / "m.ort")
