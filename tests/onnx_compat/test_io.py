"""Tests of the functions that programs know from `onnx`: what they read and write, and what they leave unchanged."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import formats
import formats.onnxpb as drop_in
from formats.errors import CryptError, DecodeError, ExternalDataError, FormatError
from formats.ir import walk
from formats.onnx_compat.protos import classes
from formats.tensordata.file import File
from formats.tensordata.sources.source import FileSpan, Literal
from tests.corpus import backend_files


def example(size: int = 600) -> onnx.ModelProto:
    """Return a model with a large weight, a small one, one in a subgraph and one in an attribute."""
    then = helper.make_graph([], "then", [], [], [numpy_helper.from_array(np.full(size, 2.0, "float32"), "inner")])
    constant = numpy_helper.from_array(np.full(size, 3.0, "float32"), "constant")
    nodes = [
        helper.make_node("If", ["c"], ["y"], then_branch=then, else_branch=helper.make_graph([], "else", [], [])),
        helper.make_node("Constant", [], ["k"], value=constant),
    ]
    weights = [
        numpy_helper.from_array(np.arange(size, dtype="float32"), "large"),
        numpy_helper.from_array(np.ones(3), "s"),
    ]
    return helper.make_model(helper.make_graph(nodes, "g", [], [], weights), ir_version=10)


MODEL = example()
BYTES = MODEL.SerializeToString()


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """The example written by `onnx`, with its large weights in a file next to it."""
    path = tmp_path / "saved" / "m.onnx"
    path.parent.mkdir()
    copied = onnx.ModelProto.FromString(BYTES)
    onnx.save(copied, path, save_as_external_data=True, location="m.weights", convert_attribute=True)
    return path


def sources(model: Any) -> list[Any]:
    """Return the sources of the initialisers' raw data."""
    return [tensor.raw_data for tensor in classes.unwrap(model).graph.initializer]


def without_locations(model: Any) -> bytes:
    """Return the bytes of a model without the note of loaded external data, which says that the data are inside now."""
    plain = classes.unwrap(model)
    for _, tensor in walk.tensors(plain):
        tensor.data_location = tensor.data_location or None
    return bytes(classes.wrap(plain).SerializeToString())


# Reading


def test_load_gives_what_onnx_gives() -> None:
    """Every model file of the `onnx` package gives the same message, from a path, a file or bytes, by every name."""
    for name, path in backend_files():
        expected = onnx.load(path)
        data = expected.SerializeToString()
        assert data == drop_in.load(path).SerializeToString(), name
    with path.open("rb") as file:
        assert data == drop_in.load(file).SerializeToString()
    assert data == drop_in.load_model(os.fspath(path)).SerializeToString()
    assert data == drop_in.load_model_from_string(path.read_bytes()).SerializeToString()
    assert data == drop_in.load(io.BytesIO(path.read_bytes())).SerializeToString()
    assert isinstance(drop_in.load(path), drop_in.ModelProto)


def test_external_data_are_loaded_as_onnx_does(saved: Path) -> None:
    """External data become raw data that can stay in their file until they are read; or references stay references."""
    model = drop_in.load(saved, file_load_mode="MMAP")
    assert all(isinstance(source, (FileSpan, Literal)) for source in sources(model))
    assert isinstance(sources(model)[0], FileSpan)
    assert onnx.load(saved).SerializeToString() == model.SerializeToString()
    with saved.open("rb") as file:
        assert model == drop_in.load(file)
    references = drop_in.load(saved, load_external_data=False)
    expected = onnx.load(saved, load_external_data=False)
    assert expected.SerializeToString() == references.SerializeToString()
    assert expected.SerializeToString() == drop_in.load(saved.read_bytes()).SerializeToString()


def test_references_need_no_files(saved: Path) -> None:
    """Without external data, a model is read even if data files are missing; with external data, this is an error."""
    (saved.parent / "m.weights").unlink()
    assert "g" == drop_in.load(saved, None, False).graph.name
    with pytest.raises(ExternalDataError):
        drop_in.load(saved)


def test_location_names_the_data_file(saved: Path) -> None:
    """The data may be in another file than the model says, next to the model or anywhere else, also for bytes."""
    expected = onnx.load(saved).SerializeToString()
    (saved.parent / "elsewhere").mkdir()
    moved = (saved.parent / "m.weights").rename(saved.parent / "elsewhere" / "renamed")
    assert expected == drop_in.load(saved, location="elsewhere/renamed").SerializeToString()
    assert expected == drop_in.load(saved, location=moved).SerializeToString()
    assert expected == drop_in.load(saved.read_bytes(), location=moved).SerializeToString()


@pytest.mark.parametrize("threads", [-1, 0, 1, 3])
def test_threads_read_everything_into_memory(saved: Path, threads: int) -> None:
    """With a number of threads, all weights are read into memory, so that the files can be removed."""
    expected = onnx.load(saved).SerializeToString()
    model = drop_in.load(saved, num_threads=threads)
    assert all(isinstance(source, Literal) for source in sources(model))
    for path in saved.parent.iterdir():
        path.write_bytes(b"")
    assert expected == model.SerializeToString()


def test_a_buffer_is_copied_unless_that_is_declined() -> None:
    """A buffer that may change is copied; with `no_copy`, the weights point into it and keep it alive."""
    buffer = bytearray(BYTES)
    copied, shared = drop_in.load(buffer), drop_in.load(memoryview(buffer), no_copy=True)
    place = BYTES.index(np.arange(600, dtype="float32").tobytes()) + 4
    buffer[place : place + 4] = np.float32(7).tobytes()
    assert 1 == numpy_helper.to_array(onnx.ModelProto.FromString(copied.SerializeToString()).graph.initializer[0])[1]
    array = classes.unwrap(shared).graph.initializer[0].numpy()
    del shared
    assert 7 == array[1]
    with pytest.raises(BufferError):
        buffer.extend(b"more")


def test_weights_are_skipped() -> None:
    """Structure-only reading leaves out weights above a size, wherever they are; everything else is read."""
    model = drop_in.load(BYTES, skip_raw_data=True)
    large, small = model.graph.initializer
    assert (False, [600], True) == (large.HasField("raw_data"), list(large.dims), small.HasField("raw_data"))
    inner = model.graph.node[0].attribute[1].g.initializer or model.graph.node[0].attribute[0].g.initializer
    assert not inner[0].HasField("raw_data")
    assert len(model.SerializeToString()) < 1200
    (small,) = drop_in.load(BYTES, skip_raw_data=True, raw_data_threshold=2400).graph.initializer[1:]
    assert small.HasField("raw_data")
    typed = helper.make_tensor("t", onnx.TensorProto.FLOAT, [600], range(600))
    message = onnx.ModelProto(graph={"initializer": [typed]}).SerializeToString()
    assert [] == drop_in.load(message, skip_raw_data=True).graph.initializer[0].float_data


def test_skipped_weights_are_not_read(tmp_path: Path) -> None:
    """Structure-only reading of a sparse file of 5 GiB reads no weight."""
    size = 5 << 30
    head = onnx.ModelProto(ir_version=8, graph={"name": "g"}).SerializeToString()
    tensor = onnx.TensorProto(name="t", dims=[size], data_type=2).SerializeToString()

    def field(number: int, nbytes: int) -> bytes:
        tag, rest = bytes((number << 3 | 2,)), bytearray()
        while nbytes >= 0x80:
            rest.append(nbytes & 0x7F | 0x80)
            nbytes >>= 7
        return tag + bytes((*rest, nbytes))

    inner = tensor + field(9, size)
    middle = field(5, len(inner) + size) + inner
    path = tmp_path / "m.onnx"
    with path.open("wb") as file:
        file.write(head + field(7, len(middle) + size) + middle)
        file.truncate(file.tell() + size)
    model = drop_in.load(path, skip_raw_data=True)
    assert ("t", [size], False) == (
        model.graph.initializer[0].name,
        list(model.graph.initializer[0].dims),
        model.graph.initializer[0].HasField("raw_data"),
    )
    assert size < drop_in.load(path).ByteSize()


@pytest.mark.parametrize(("name", "extension"), [("textproto", ".txtpb"), ("json", ".json"), (None, ".onnxz")])
def test_other_formats(name: str | None, extension: str, tmp_path: Path) -> None:
    """Text and archives are read and written by their extension, or by the name of the format."""
    path = tmp_path / f"m{extension}"
    drop_in.save(MODEL_SKIN, path)
    assert BYTES == drop_in.load(path).SerializeToString()
    if name:
        assert onnx.load(path) == MODEL
        drop_in.save(MODEL_SKIN, tmp_path / "m", name)
        assert path.read_bytes() == (tmp_path / "m").read_bytes()
        assert BYTES == drop_in.load(tmp_path / "m", name).SerializeToString()
        assert BYTES == drop_in.load_model_from_string(path.read_bytes(), name).SerializeToString()


def test_what_is_no_model_is_refused(tmp_path: Path) -> None:
    """Bytes that are not a model give an error with a reason, and so do unknown options."""
    for data in (b"PK", b"\xff" * 10, b"\x00", os.urandom(2) + b"\xff\xff"):
        with pytest.raises(FormatError):
            drop_in.load(data)
    with pytest.raises(DecodeError, match="no graph"):
        drop_in.load(onnx.ModelProto(ir_version=3).SerializeToString())
    with pytest.raises(FileNotFoundError):
        drop_in.load(tmp_path / "missing.onnx")
    with pytest.raises(TypeError):
        drop_in.load(BYTES, nonsense=1)
    with pytest.raises(ValueError, match="no format is called"):
        drop_in.load(BYTES, "nonsense")


# Writing

MODEL_SKIN = classes.ModelProto.FromString(BYTES)


def test_save_writes_what_onnx_writes(tmp_path: Path) -> None:
    """For a model, wrapped or plain, the path or the open file gets the same bytes as with `onnx`."""
    onnx.save(MODEL, tmp_path / "theirs")
    expected = (tmp_path / "theirs").read_bytes()
    for model in (MODEL_SKIN, classes.unwrap(MODEL_SKIN)):
        drop_in.save(model, tmp_path / "mine.onnx")
        assert expected == (tmp_path / "mine.onnx").read_bytes()
    file = io.BytesIO()
    drop_in.save_model(MODEL_SKIN, file)
    assert expected == file.getvalue()
    drop_in.save(MODEL_SKIN, os.fspath(tmp_path / "without_extension"))
    assert expected == (tmp_path / "without_extension").read_bytes()


def test_external_data_by_size_and_file(tmp_path: Path) -> None:
    """The threshold counts bytes of raw data; data are split by size or by tensor, or have the usual name."""

    def files(**options: Any) -> list[str]:
        for path in tmp_path.iterdir():
            path.unlink()
        drop_in.save(MODEL_SKIN, tmp_path / "m.onnx", save_as_external_data=True, **options)
        assert onnx.load(tmp_path / "m.onnx").graph.name == "g"
        return sorted(entry.name for entry in tmp_path.iterdir())

    assert ["m.onnx"] == files(size_threshold=2401)
    assert ["m.onnx", "m.onnx.data"] == files(size_threshold=2400)
    assert ["m-00001-of-00002.data", "m-00002-of-00002.data", "m.onnx"] == files(max_external_file_size=4000)
    assert 3 == len(files(all_tensors_to_one_file=False))
    assert 4 == len(files(all_tensors_to_one_file=False, convert_attribute=True))


def test_saving_where_it_was_loaded_from(saved: Path) -> None:
    """A model can replace the files that contain its own weights, and then contain them or refer to them."""
    expected = drop_in.load(saved).SerializeToString()
    model = drop_in.load(saved)
    drop_in.save(model, saved, save_as_external_data=True, location="m.weights")
    assert expected == drop_in.load(saved).SerializeToString() == model.SerializeToString()
    drop_in.save(drop_in.load(saved), saved)
    (saved.parent / "m.weights").unlink()
    assert expected == drop_in.load(saved).SerializeToString()


def test_references_stay_where_they_hold(saved: Path, tmp_path: Path) -> None:
    """Saving in the same folder keeps references, elsewhere the data are copied; dangling references are kept, too."""
    expected = drop_in.load(saved).SerializeToString()
    references = drop_in.load(saved, load_external_data=False)
    before = saved.read_bytes()
    drop_in.save(references, saved.parent / "again.onnx")
    assert before == (saved.parent / "again.onnx").read_bytes()
    assert ["again.onnx", "m.onnx", "m.weights"] == sorted(entry.name for entry in saved.parent.iterdir())
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    drop_in.save(references, elsewhere / "m.onnx")
    assert expected == drop_in.load(elsewhere / "m.onnx").SerializeToString()
    drop_in.save(references, elsewhere / "inside.onnx", save_as_external_data=True, size_threshold=1 << 20)
    assert BYTES == without_locations(drop_in.load(elsewhere / "inside.onnx"))
    (saved.parent / "m.weights").unlink()
    dangling = drop_in.load(saved, load_external_data=False)
    drop_in.save(dangling, tmp_path / "dangling.onnx")
    assert before == (tmp_path / "dangling.onnx").read_bytes()


def test_options_that_a_format_does_not_have(tmp_path: Path) -> None:
    """External data need a path and a format that supports them; otherwise nothing is written."""
    with pytest.raises(TypeError):
        drop_in.save(MODEL_SKIN, io.BytesIO(), save_as_external_data=True)
    with pytest.raises(TypeError):
        drop_in.save(MODEL_SKIN, tmp_path / "m.onnxz", save_as_external_data=True)
    with pytest.raises(TypeError):
        drop_in.save(MODEL_SKIN, tmp_path / "m.onnx", nonsense=1)
    with pytest.raises(TypeError):
        drop_in.save("no model", tmp_path / "m.onnx")
    with pytest.raises(TypeError):
        drop_in.save_tensor(MODEL_SKIN.graph.initializer[0], tmp_path / "t.onnxz")
    with pytest.raises(ExternalDataError):
        drop_in.save(MODEL_SKIN, tmp_path / "m.onnx", save_as_external_data=True, location="../w")
    assert [] == list(tmp_path.iterdir())


# Tensors, and the methods of messages


@pytest.mark.parametrize("extension", [".pb", "", ".textproto", ".json"])
def test_tensors(extension: str, tmp_path: Path) -> None:
    """A single tensor is read and written as `onnx` does it."""
    tensor, path = MODEL.graph.initializer[0], tmp_path / f"t{extension}"
    drop_in.save_tensor(MODEL_SKIN.graph.initializer[0], path)
    assert tensor == onnx.load_tensor(path)
    assert tensor.SerializeToString() == drop_in.load_tensor(path).SerializeToString()
    if extension in (".pb", ""):
        assert tensor.SerializeToString() == drop_in.load_tensor_from_string(path.read_bytes()).SerializeToString()


def test_methods_for_files(tmp_path: Path) -> None:
    """Messages of any class have methods to write and read files, models with their external data."""
    path = tmp_path / "m.onnx"
    MODEL_SKIN.SerializeToFile(path, drop_in.SerializeOptions(size_threshold=2000), "weights")
    assert ["m.onnx", "weights"] == sorted(entry.name for entry in tmp_path.iterdir())
    model = drop_in.ModelProto()
    model.ParseFromFile(path)
    assert 600 == len(classes.unwrap(model).graph.initializer[0].numpy())
    model.ParseFromFile(path, drop_in.ParseOptions(load_external_data=False))
    assert onnx.load(path, load_external_data=False).SerializeToString() == model.SerializeToString()
    MODEL_SKIN.graph.SerializeToFile(tmp_path / "graph")
    graph = drop_in.GraphProto(name="old")
    graph.ParseFromFile(tmp_path / "graph")
    assert MODEL_SKIN.graph == graph
    with pytest.raises(FileNotFoundError):
        graph.ParseFromFile(tmp_path / "missing")


# Encrypted models


def test_encrypted_models(tmp_path: Path) -> None:
    """A model is the same after encryption, in a file or in bytes, with a key in any form; a wrong key is an error."""
    pytest.importorskip("cryptography")
    path = tmp_path / "m.onnxc"
    drop_in.save_encrypted(MODEL_SKIN, path, "a long key")
    assert BYTES == drop_in.load_encrypted(path, b"a long key").SerializeToString()
    data = drop_in.save_encrypted_string(classes.unwrap(MODEL_SKIN), b"a long key", encryption="ChaCha20-Poly1305")
    assert BYTES == drop_in.load_encrypted_string(data, "a long key").SerializeToString()
    assert b"ONNXCRY3" == path.read_bytes()[:8] != data[:8] == b"ONNXCRY2"
    with pytest.raises(CryptError):
        drop_in.load_encrypted(path, "wrong")
    with pytest.raises(CryptError):
        drop_in.load(path)


def test_kinds_of_encryption(tmp_path: Path) -> None:
    """Kinds of encryption have onnx-light's names; AES-256-CBC is opened only if named, and only the named kind is."""
    pytest.importorskip("cryptography")
    path = tmp_path / "m.onnxc"
    words = {"AES-256-CBC": b"ONNXCRY1", "ChaCha20-Poly1305": b"ONNXCRY2", "AES-256-GCM": b"ONNXCRY3"}
    for word, magic in words.items():
        drop_in.save_encrypted(MODEL_SKIN, f=path, key="a long key", encryption=word)
        data = path.read_bytes()
        assert magic == data[:8]
        assert BYTES == drop_in.load_encrypted(path, "a long key", encryption=word).SerializeToString()
        assert BYTES == drop_in.load_encrypted_string(data, "a long key", encryption=word).SerializeToString()
        for other in words.keys() - {word}:
            with pytest.raises(CryptError, match=f"with {word}, not with {other}"):
                drop_in.load_encrypted(path, "a long key", encryption=other)
        if word == "AES-256-CBC":
            with pytest.raises(CryptError, match="changed or forged"):
                drop_in.load_encrypted(path, "a long key")
        else:
            assert BYTES == drop_in.load_encrypted_string(data, "a long key").SerializeToString()
    with pytest.raises(ValueError, match="must be one of AES-256-CBC"):
        drop_in.load_encrypted(path, "a long key", encryption="rot13")


# The module


# Functions that neither read nor write models, and the operator schemas, which no model contains.
OF_ONNX_ALONE = {
    *("ONNX_ML", "OperatorProto", "OperatorSetProto", "checker", "compose", "defs", "gen_proto", "helper"),
    *("numpy_helper", "parser", "printer", "shape_inference", "utils", "version_converter"),
}


def test_names_are_found_when_they_are_asked_for() -> None:
    """Every name of the drop-in API is an attribute of the package; other names are not."""
    theirs = {*vars(onnx.onnx_ml_pb2), *vars(onnx.onnx_data_pb2)} & set(onnx.__all__)
    for name in (*theirs, "wrap", "unwrap"):
        assert getattr(drop_in, name) is not None
    assert {*onnx.__all__} - {*drop_in.__all__} == OF_ONNX_ALONE
    assert {*drop_in.__all__} <= {*dir(drop_in)}
    scope: dict[str, Any] = {}
    exec("from formats.onnxpb import *", scope)
    assert {*drop_in.__all__} == scope.keys() - {"__builtins__"}
    for name in drop_in.__all__:
        assert scope[name] is getattr(drop_in, name)
    assert {"ModelProto", "MapProto", "IR_VERSION_2019_9_19", "STABLE"} <= theirs
    assert drop_in.ModelProto is classes.ModelProto
    assert not hasattr(drop_in, "nonsense")


def test_plain_models_are_as_good(tmp_path: Path) -> None:
    """These functions save a model of `formats.load`, and `formats.save` saves a model of theirs."""
    drop_in.save(MODEL_SKIN, tmp_path / "a.onnx")
    drop_in.save(formats.load(tmp_path / "a.onnx"), tmp_path / "b.onnx")
    formats.save(classes.unwrap(drop_in.load(tmp_path / "b.onnx")), tmp_path / "c.onnx")
    assert BYTES == (tmp_path / "c.onnx").read_bytes()
    assert isinstance(File.open(tmp_path / "c.onnx").span(), FileSpan)


def test_without_onnx_and_protobuf(python: Callable[..., Any], root: Path) -> None:
    """Messages are read, changed, compared, shown and written where neither onnx nor protobuf is installed."""
    code = (
        "import sys; sys.modules['onnx'] = sys.modules['google'] = sys.modules['google.protobuf'] = None\n"
        "import formats, formats.onnxpb as onnx\n"
        f"model = onnx.load({str(root / 'examples' / 'digits.onnx')!r})\n"
        "model.graph.node.add(op_type='Relu'); other = onnx.ModelProto.FromString(model.SerializeToString())\n"
        "onnx.save(model, 'm.onnx', save_as_external_data=True); onnx.save(other, 'm.textproto')\n"
        "assert other == onnx.load('m.textproto') and 'Relu' in str(other) and formats.from_onnx(other).graph.name\n"
        "try: onnx.helper\n"
        "except formats.MissingPackageError as error: print(error)"
    )
    done = python("-c", code)
    assert "" == done.stderr
    assert done.stdout.endswith(
        "helper need the package onnx, which is not installed: pip install 'onnx-formats[onnx]'\n"
    )
