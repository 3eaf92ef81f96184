"""Weights get new elements by name, from each kind of file; dims and types are checked, and what is unused is named."""

from __future__ import annotations

import json
import re
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper
from safetensors.numpy import save_file

import formats
from formats.editing.weight_files import read_weights
from formats.editing.weights import set_weights_in
from formats.ir.copies import copied
from formats.tensordata.sources.source import FileSpan
from tests import commands

NEW = np.arange(1024, dtype="float32").reshape(32, 32) * 2


def weight_of(path: str | Path) -> Any:
    """Return the weight of a model."""
    return formats.load(path).graph.initializer[0].numpy()


@pytest.fixture
def files(tiny_model: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with new weights in files of each kind."""
    monkeypatch.chdir(tiny_model.parent)
    save_file({"w": NEW, "other": NEW[:1]}, "new.safetensors")
    np.savez("new.npz", w=NEW, other=NEW)
    np.savez_compressed("packed.npz", w=NEW)
    np.savez("columns.npz", w=np.asfortranarray(NEW))
    np.savez("big.npz", w=NEW.astype(">f4"))
    formats.edit("tiny.onnx", "new.onnxz", weights={"w": NEW})
    formats.convert("new.onnxz", "split.onnx", external_data="split.safetensors", size_threshold=0)
    return tiny_model.parent


@pytest.mark.parametrize(
    "name",
    [
        "new.safetensors", "new.npz", "packed.npz", "columns.npz", "big.npz", "new.onnxz", "split.onnx",
        "split.safetensors",
    ],
)  # fmt: skip
@pytest.mark.parametrize("target", ["done.onnx", "done.onnxz"])
def test_each_kind_of_file(name: str, target: str, files: Path) -> None:
    """The elements are those of the file, and the rest of the model is as it was."""
    report = formats.edit("tiny.onnx", target, weights=name)
    np.testing.assert_array_equal(weight_of(target), NEW)
    assert report.edits[0][:2] == ("weights", f"1 weight of 1 replaced from {name}")
    unused = [loss.detail for loss in report.losses]
    assert unused == (
        ["other was not used: the model has no such weight"] if name.startswith("new.") * (name != "new.onnxz") else []
    )
    formats.edit(target, "back.onnx", weights="tiny.onnx")
    assert formats.diff("tiny.onnx", "back.onnx").equal


def test_an_archive_in_place(files: Path) -> None:
    """A weight of an archive is replaced in place."""
    formats.convert("tiny.onnx", "tiny.onnxz")
    formats.edit("tiny.onnxz", weights="new.safetensors")
    np.testing.assert_array_equal(weight_of("tiny.onnxz"), NEW)
    assert formats.verify("tiny.onnxz", data=True).ok


def test_elements_stay_in_their_file(files: Path) -> None:
    """What is stored as ONNX needs it stays where it is."""
    for name in ("new.safetensors", "new.npz", "split.safetensors"):
        assert isinstance(read_weights(files / name)["w"].raw_data, FileSpan), name


@pytest.mark.parametrize(
    "values,message",
    [
        ({"w": NEW[:16]}, r"w has dims \[16, 32\], but \[32, 32\] in the model"),
        ({"w": NEW.astype("float16")}, "w has type FLOAT16, but FLOAT in the model"),
        ({"v": NEW}, "no weight is called like a tensor, such as 'v'; the only weight is w"),
        ({}, "there is no tensor"),
    ],
)
def test_weights_that_do_not_fit(values: dict[str, Any], message: str, tiny_model: Path) -> None:
    """Other dims, another type, or no name that fits is an error."""
    with pytest.raises(formats.EditError, match=message):
        formats.edit(tiny_model, tiny_model.parent / "x.onnx", weights=values)
    assert not (tiny_model.parent / "x.onnx").exists()


def test_constants_subgraphs_and_texts() -> None:
    """A constant is replaced by the name of its output, a weight of a subgraph by its own; texts are weights, too."""
    inner = helper.make_graph(
        [helper.make_node("Identity", ["i"], ["o"])],
        "b",
        [],
        [helper.make_tensor_value_info("o", 1, [2])],
        [numpy_helper.from_array(np.zeros(2, "float32"), "i")],
    )
    constant = helper.make_node("Constant", [], ["c"], value=numpy_helper.from_array(np.array(True)))
    node = helper.make_node("If", ["c"], ["y"], then_branch=inner, else_branch=inner)
    text = helper.make_tensor("t", onnx.TensorProto.STRING, [2], [b"a", b"b"])
    graph = helper.make_graph([constant, node], "g", [], [helper.make_tensor_value_info("y", 1, [2])], [text])
    before = formats.from_onnx(helper.make_model(graph))
    model = copied(before)
    done = set_weights_in(model, {"c": np.array(False), "i": np.ones(2, "float32"), "t": np.array(["x", "y"])})
    assert done.edits[0].detail == "4 weights of 4 replaced"
    assert not model.graph.node[0].attribute[0].t.numpy()
    assert [attribute.g.initializer[0].numpy().tolist() for attribute in model.graph.node[1].attribute] == [[1, 1]] * 2
    assert model.graph.initializer[0].numpy().tolist() == ["x", "y"]
    assert before == formats.from_onnx(helper.make_model(graph)), "what was given is not changed"


def test_types_of_few_bits(tmp_path: Path) -> None:
    """Types that numpy lacks come from safetensors as their bytes."""
    array = np.arange(8).astype(ml_dtypes.bfloat16)
    save_file({"w": array}, tmp_path / "new.safetensors")
    model = formats.Model(graph=formats.Graph(initializer=[formats.from_numpy(np.zeros_like(array), "w")]))
    set_weights_in(model, read_weights(tmp_path / "new.safetensors"))
    np.testing.assert_array_equal(model.graph.initializer[0].numpy(), array)


def header(entries: Any, data: bytes = b"", length: int | None = None) -> bytes:
    """Return the bytes of a .safetensors file."""
    text = entries if isinstance(entries, bytes) else json.dumps(entries).encode()
    return (len(text) if length is None else length).to_bytes(8, "little") + text + data


F4 = {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"1234",
        header({}, length=1 << 60),
        header(b"[]"),
        header(b"{"),
        header(b"[" * 100_000),
        header(b"\xff\xff"),
        header({"w": F4}),
        header({"w": {**F4, "shape": [2]}}, bytes(4)),
        header({"w": {**F4, "shape": [-1]}}, bytes(4)),
        header({"w": {**F4, "shape": [1.0]}}, bytes(4)),
        header({"w": {**F4, "shape": "1"}}, bytes(4)),
        header({"w": {**F4, "data_offsets": [4, 0]}}, bytes(4)),
        header({"w": {**F4, "data_offsets": [0, 1 << 70]}}, bytes(4)),
        header({"w": {**F4, "data_offsets": 3}}, bytes(4)),
        header({"w": {**F4, "dtype": "F9"}}, bytes(4)),
        header({"w": {**F4, "dtype": []}}, bytes(4)),
        header({"w": {"dtype": "F32"}}, bytes(4)),
        header({"w": 3}, bytes(4)),
        header({"w": F4, "__metadata__": {"a": [1]}}, bytes(4)),
        header({"w": F4, "__metadata__": 7}, bytes(4)),
    ],
)
def test_damaged_safetensors(data: bytes, tmp_path: Path) -> None:
    """A damaged file is an error, whatever its header says, and never takes more memory than the file has."""
    path = tmp_path / "bad.safetensors"
    path.write_bytes(data)
    tracemalloc.start()
    try:
        with pytest.raises(formats.DecodeError):
            read_weights(path)
        assert tracemalloc.get_traced_memory()[1] < 20 << 20
    finally:
        tracemalloc.stop()


def test_files_of_an_index_are_confined(tmp_path: Path, tiny_model: Path) -> None:
    """A file of an index may be a link into its folder, or into that of the index's own target, and nowhere else."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "blobs").mkdir()
    (tmp_path / "model").mkdir()
    save_file({"w": NEW}, tmp_path / "outside" / "private.safetensors")
    save_file({"w": NEW}, tmp_path / "blobs" / "0a1b")
    shard = tmp_path / "model" / "w.safetensors"
    path = index(tmp_path / "model", {"w": "w.safetensors"})
    shard.symlink_to("../outside/private.safetensors")
    with pytest.raises(
        formats.ExternalDataError, match=r"w\.safetensors: the data file is outside the model's directory"
    ):
        read_weights(path)
    shard.unlink()
    shard.symlink_to("../blobs/0a1b")
    path.rename(tmp_path / "blobs" / "2c3d")
    path.symlink_to("../blobs/2c3d")  # as in the cache of Hugging Face
    np.testing.assert_array_equal(read_weights(path)["w"].numpy(), NEW)


@pytest.mark.parametrize("cut", [0, 10, 200, 1000, 4200])
def test_damaged_npz(cut: int, files: Path) -> None:
    """An .npz file that is cut, that has Python objects or a strange type, or lies about its size is an error."""
    path = files / "bad.npz"
    path.write_bytes((files / "new.npz").read_bytes()[:cut])
    with pytest.raises(formats.DecodeError):
        read_weights(path)


def test_mutants_of_npz_name_the_file(files: Path, tmp_path: Path) -> None:
    """Whatever bytes an .npz file has, its weights are read, or one error names the file."""
    random = np.random.default_rng(8)
    path = tmp_path / "mutant.npz"
    data = (files / "packed.npz").read_bytes()
    for _ in range(300):
        mutant = bytearray(data)
        for place in random.integers(0, len(data), random.integers(1, 5)):
            mutant[place] = random.integers(0, 256)
        path.write_bytes(mutant)
        try:
            for tensor in read_weights(path).values():
                tensor.numpy()
        except formats.FormatError as error:
            assert path == error.path


@pytest.mark.parametrize("nested", [b"(" * 500, b"{1:" * 500, b"-" * 9000])
def test_a_header_that_is_nested_too_deeply(nested: bytes, tmp_path: Path) -> None:
    """A header that Python's parser cannot follow is damage, and no lack of memory."""
    with zipfile.ZipFile(tmp_path / "w.npz", "w") as archive:
        archive.writestr("w.npy", b"\x93NUMPY\1\0" + len(nested).to_bytes(2, "little") + nested)
    with pytest.raises(formats.DecodeError, match=r"the header of an array is not valid|it is damaged"):
        read_weights(tmp_path / "w.npz")


def test_strange_npz(tmp_path: Path) -> None:
    """Python objects are never unpickled, and an array must have the size that its header says."""
    np.savez(tmp_path / "objects.npz", w=np.array([{}], dtype=object))
    np.savez(tmp_path / "type.npz", w=np.zeros(2, "timedelta64[s]"))
    np.savez(tmp_path / "ok.npz", w=np.zeros(4, "float32"))
    with zipfile.ZipFile(tmp_path / "ok.npz") as archive:
        data = archive.read("w.npy")
    for name, text in (("short", data[:-4]), ("dims", data.replace(b"(4,)", b"(9,)")), ("empty", b"")):
        with zipfile.ZipFile(tmp_path / f"{name}.npz", "w") as archive:
            archive.writestr("w.npy", text)
    for name, words in (
        ("objects", "Python objects"),
        ("type", "timedelta64"),
        ("short", "12 bytes"),
        ("dims", "need 36"),
        ("empty", "valid"),
    ):
        with pytest.raises(formats.DecodeError, match=words):
            read_weights(tmp_path / f"{name}.npz")


def npz(path: Path, header: str, data: bytes, method: int = zipfile.ZIP_DEFLATED) -> Path:
    """Write an .npz file with the array `w`."""
    head = header.encode() + b" " * (-(len(header) + 11) % 64) + b"\n"
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr("w.npy", b"\x93NUMPY\1\0" + len(head).to_bytes(2, "little") + head + data)
    return path


HEADER = "{{'descr': {!r}, 'fortran_order': {}, 'shape': {}, }}"


@pytest.mark.parametrize("kind", ["|S0", "<U0"])
def test_elements_without_bytes_are_refused(kind: str, tmp_path: Path) -> None:
    """A hundred million elements of a type without bytes are not made."""
    path = npz(tmp_path / "w.npz", HEADER.format(kind, False, (10**8,)), b"")
    with pytest.raises(formats.DecodeError, match=r"w has 0 bytes, but its 100,000,000 elements need 0"):
        read_weights(path)


def test_only_what_is_needed_is_unpacked(tmp_path: Path) -> None:
    """A packed array is unpacked when it is read, with the check of the zip format; others stay packed."""
    elements = 1 << 25
    path = npz(tmp_path / "w.npz", HEADER.format(">f4", True, (2, elements // 2)), bytes(4 * elements))
    tracemalloc.start()
    try:
        tensor = read_weights(path)["w"]
        assert tracemalloc.get_traced_memory()[1] < 2 << 20
    finally:
        tracemalloc.stop()
    assert (tensor.dims, tensor.source().nbytes) == ([2, elements // 2], 4 * elements)
    numbers = np.random.default_rng(1).integers(0, 1 << 30, (2, 50_000)).astype(">i4")
    path = npz(tmp_path / "n.npz", HEADER.format(">i4", True, numbers.shape), numbers.tobytes("F"))
    np.testing.assert_array_equal(read_weights(path)["w"].numpy(), numbers)
    damaged = bytearray(path.read_bytes())
    for place in (damaged.index(b"PK\1\2") + 16, 14):  # the checksum of the entry in both headers
        damaged[place] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(formats.FormatError, match="checksum"):
        read_weights(path)["w"].numpy()


def test_arrays_of_python_2_are_read_quietly(tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    """A header with a long integer of Python 2 is read without a warning of numpy."""
    path = npz(tmp_path / "w.npz", "{'descr': '<f4', 'fortran_order': False, 'shape': (2L,), }", bytes(8))
    assert read_weights(path)["w"].dims == [2]
    assert not recwarn.list


def index(folder: Path, places: Any) -> Path:
    """Write the index of several files, and return its path."""
    path = folder / "model.safetensors.index.json"
    path.write_text(json.dumps({"metadata": {"total_size": 1}, "weight_map": places}))
    return path


def test_an_index_of_several_files(tmp_path: Path) -> None:
    """The weights of all files of an index are taken, each from the file that the index says."""
    arrays = {name: np.full((2, 2), number, "float32") for number, name in enumerate("abc", 1)}
    old = [numpy_helper.from_array(np.zeros((2, 2), "float32"), name) for name in "abc"]
    x, y = (helper.make_tensor_value_info(name, 1, [2, 2]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Sum", ["x", *"abc"], ["y"])], "g", [x], [y], old)
    onnx.save(helper.make_model(graph), tmp_path / "m.onnx")
    save_file({"a": arrays["a"], "b": arrays["a"]}, tmp_path / "model-00001-of-00002.safetensors")
    save_file({"b": arrays["b"], "c": arrays["c"]}, tmp_path / "model-00002-of-00002.safetensors")
    first, second = (f"model-0000{number}-of-00002.safetensors" for number in (1, 2))
    path = index(tmp_path, {"a": first, "b": second, "c": second})
    report = formats.edit(tmp_path / "m.onnx", tmp_path / "new.onnx", weights=path)
    assert [edit.detail for edit in report.edits] == [
        "3 weights of 3 replaced from model.safetensors.index.json",
    ]
    found = {tensor.name or "": tensor.numpy() for tensor in formats.load(tmp_path / "new.onnx").graph.initializer}
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], array)


@pytest.mark.parametrize(
    "places,words",
    [
        (None, "the index has no weight_map"),
        ({"a": 1}, "the index has no weight_map"),
        ({"a": "../up.safetensors"}, "which is no .safetensors file next to it"),
        ({"a": "sub\\up.safetensors"}, "which is no .safetensors file next to it"),
        ({"a": "/tmp/up.safetensors"}, "which is no .safetensors file next to it"),
        ({"a": "C:up.safetensors"}, "which is no .safetensors file next to it"),
        ({"a": "model.safetensors.index.json"}, "which is no .safetensors file next to it"),
        ({"a": ""}, "which is no .safetensors file next to it"),
        ({"a": "w.safetensors", "z": "w.safetensors"}, "w.safetensors has no tensor 'z'"),
    ],
)
def test_a_wrong_index(places: Any, words: str, tmp_path: Path) -> None:
    """An index without places, with a file elsewhere, or with a tensor that its file does not have is an error."""
    save_file({"a": NEW}, tmp_path / "w.safetensors")
    with pytest.raises(formats.DecodeError, match=f"^(?!.*this is no valid).*{words}"):
        read_weights(index(tmp_path, places))


def test_an_index_names_a_file_that_is_missing(tiny_model: Path) -> None:
    """A missing file is named."""
    path = index(tiny_model.parent, {"w": "gone.safetensors"})
    with pytest.raises(formats.ExternalDataError, match=r"gone\.safetensors: the data file of model.* does not exist"):
        formats.edit(tiny_model, tiny_model.with_name("new.onnx"), weights=path)
    path = index(tiny_model.parent, {"w": f"{'long' * 200}.safetensors"})
    with pytest.raises(
        formats.ExternalDataError, match=r"model\.safetensors\.index\.json: location 'long.* is too long"
    ):
        formats.edit(tiny_model, tiny_model.with_name("new.onnx"), weights=path)


# One weight of a file, of another type, and of another size


@pytest.fixture
def head(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a model whose last weight decides how many classes there are."""
    monkeypatch.chdir(tmp_path)
    x, y = (helper.make_tensor_value_info(name, 1, ["n", size]) for name, size in (("x", 4), ("y", 3)))
    nodes = [
        helper.make_node("MatMul", ["x", "body"], ["h"]),
        helper.make_node("MatMul", ["h", "head"], ["y"]),
    ]
    weights = [
        numpy_helper.from_array(np.ones(dims, "float32"), name) for name, dims in (("body", (4, 4)), ("head", (4, 3)))
    ]
    graph = helper.make_graph(nodes, "g", [x], [y], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), "m.onnx")
    return tmp_path


def computed(path: str) -> Any:
    """What onnxruntime computes of ones."""
    return onnxruntime.InferenceSession(path).run(None, {"x": np.ones((1, 4), "float32")})[0]


@pytest.mark.usefixtures("head")
@pytest.mark.parametrize("form", ["npy", "npz", "safetensors", "onnx", "columns.npy", "big.npy"])
def test_one_weight_of_a_file(form: str) -> None:
    """NAME=FILE is the tensor with this name in a file of any kind, or the only one that is there."""
    new = np.arange(12, dtype="float32").reshape(4, 3)
    file = f"any.{form}"
    if form == "onnx":
        formats.edit("m.onnx", file, weights={"head": new})
    elif form == "safetensors":
        save_file({"any": new}, file)
    elif form == "npz":
        np.savez(file, any=new)
    else:
        np.save(file, {"columns.npy": np.asfortranarray(new), "big.npy": new.astype(">f4")}.get(form, new))
    done = commands.run("formats", "edit", "m.onnx", "new.onnx", "--weights", f"head={file}")
    assert done.exit_code == 0, done.output
    assert f"1 weight of 2 replaced from {file}" in done.output
    np.testing.assert_array_equal(computed("new.onnx"), np.full((1, 4), 4, "float32") @ new)
    formats.edit("m.onnx", "library.onnx", weights={"head": file})
    assert Path("library.onnx").read_bytes() == Path("new.onnx").read_bytes()


@pytest.mark.usefixtures("head")
def test_what_is_extracted_goes_in_again() -> None:
    """A weight that was written to a file by its name is taken from there, and several files can be given."""
    for suffix in ("npy", "safetensors"):
        formats.extract("m.onnx", f"head.{suffix}", tensor="head")
        formats.edit("m.onnx", f"{suffix}.onnx", weights=f"head.{suffix}")
        assert formats.diff("m.onnx", f"{suffix}.onnx").equal
    np.save("body=2.npy", np.full((4, 4), 2, "float32"))
    np.save("w.npy", np.full((4, 3), 3, "float32"))
    commands.run("formats", "edit", "m.onnx", "new.onnx", "--weights", "body=body=2.npy", "--weights", "head=w.npy")
    assert (computed("new.onnx") == 96).all()


@pytest.mark.usefixtures("head")
@pytest.mark.parametrize(
    "value,message",
    [
        ("other=head.npy", "no weight is called 'other'; the weights are body, head"),
        ("head=two.npz", "two.npz has no tensor 'head'; the tensors are a, b"),
        ("head=missing.npy", "missing.npy"),
        ("head.npy=1.npz", "no weight is called 'head.npy'; did you mean head?"),
        ("bad.npy", "this is no valid .npy file"),
    ],
)
def test_one_weight_that_is_not_there(value: str, message: str) -> None:
    """The name of no weight, a file without the tensor, and a damaged file are errors that name them."""
    np.save("head.npy", np.ones((4, 3), "float32"))
    np.savez("two.npz", a=NEW, b=NEW)
    Path("bad.npy").write_bytes(b"\x93NUMPY\1\0")
    done = commands.run("formats", "edit", "m.onnx", "new.onnx", "--weights", value)
    assert done.exit_code == 1
    assert message in done.output
    assert not Path("new.onnx").exists()


@pytest.mark.usefixtures("head")
@pytest.mark.parametrize("given", ["float16", "float64", "bfloat16"])
def test_another_float_type_is_converted(given: str) -> None:
    """With `cast`, weights of another float type are rounded to that of the model, and a report says so."""
    new = (np.arange(12).reshape(4, 3) / 7).astype(ml_dtypes.bfloat16 if given == "bfloat16" else given)
    with pytest.raises(formats.EditError, match=r"head has type \w+, but FLOAT in the model; `cast=True` converts it"):
        formats.edit("m.onnx", "new.onnx", weights={"head": new})
    report = formats.edit("m.onnx", "new.onnx", weights={"head": new}, cast=True)
    assert ("cast", "head is converted to its type in the model", "") in report.edits
    np.testing.assert_array_equal(formats.load("new.onnx").tensor("head").numpy(), new.astype("float32"))


@pytest.mark.usefixtures("head")
@pytest.mark.parametrize("wanted", ["float16", "bfloat16"])
def test_a_cast_to_fewer_bits(wanted: str) -> None:
    """Weights are rounded to a type of fewer bits as numpy does it; a number that is too large is an error."""
    kind = np.dtype(ml_dtypes.bfloat16 if wanted == "bfloat16" else wanted)
    model = formats.Model(ir_version=8, graph=formats.Graph(initializer=[formats.from_numpy(np.zeros(3, kind), "w")]))
    new = np.array([1 / 3, -np.inf, np.nan], "float32")
    cast = model.edit(weights={"w": new}, cast=True).graph.initializer[0].numpy()
    assert cast.tobytes() == new.astype(kind).tobytes()
    large = model.edit(weights={"w": np.array([1, 3.4e38, 1], "float32")}, cast=True)
    with pytest.raises(formats.FormatError, match=f"w has numbers that are too large for {wanted.upper()}"):
        formats.save(large, "new.onnx")
    assert not Path("new.onnx").exists()
    with pytest.raises(formats.EditError, match=f"w has type INT32, but {wanted.upper()} in the model$"):
        model.edit(weights={"w": np.zeros(3, "int32")}, cast=True)


@pytest.mark.usefixtures("head")
def test_another_size_that_fits() -> None:
    """Dims may change where the nodes fit them; shapes that follow are inferred, and a new interface is a warning."""
    report = formats.edit("m.onnx", "new.onnx", weights={"head": np.full((4, 5), 2, "float32")})
    assert [edit.detail for edit in report.edits] == [
        "1 weight of 2 replaced", "head has dims [4, 5] in place of [4, 3]"
    ]  # fmt: skip
    assert [(loss.kind, loss.matters) for loss in report.losses] == [("shape", True)]
    assert computed("new.onnx").tolist() == [[32] * 5]
    assert onnx.load("new.onnx").graph.output[0].type.tensor_type.shape.dim[1].dim_value == 5


@pytest.mark.usefixtures("head")
def test_another_size_that_does_not_fit() -> None:
    """Dims that no node accepts, or that an input states, are refused with the reason."""
    with pytest.raises(formats.EditError, match=r"head has dims \[5, 3\], but \[4, 3\] in the model; .*dimension"):
        formats.edit("m.onnx", "new.onnx", weights={"head": np.zeros((5, 3), "float32")})
    model = onnx.load("m.onnx")
    model.graph.input.append(helper.make_tensor_value_info("head", 1, [4, 3]))
    onnx.save(model, "m.onnx")
    with pytest.raises(formats.EditError, match=r"but \[4, 3\] in the model, where it is an input"):
        formats.edit("m.onnx", "new.onnx", weights={"head": np.zeros((4, 5), "float32")})


@pytest.mark.parametrize(
    "name,content,words",
    [
        ("w.npz", b"PK\3\4", "this is no valid .npz file: it is damaged, or in another format"),
        ("w.safetensors", b"\2" + bytes(7) + b"[]", "the header is no JSON object"),
        (
            "w.safetensors",
            b"\11" + bytes(7) + b'{"w": []}',
            "this is no valid .safetensors file: it is damaged, or in another format",
        ),
        ("w.safetensors", b"\1" + bytes(7) + b"{", r"the text is not JSON \(line 1, column 2\)"),
        ("w.safetensors.index.json", b"{", r"the text is not JSON \(line 1, column 2\)"),
    ],
)
def test_no_text_of_another_package_in_an_error(name: str, content: bytes, words: str, tmp_path: Path) -> None:
    """What zipfile, json, numpy and Python say of a damaged file is not in our error, which names the file."""
    (tmp_path / name).write_bytes(content)
    with pytest.raises(formats.DecodeError, match=f"^.*{re.escape(name)}: {words}$") as raised:
        read_weights(tmp_path / name)
    assert str(raised.value.__cause__) not in str(raised.value)


def test_a_damaged_file_of_an_index_is_named(tmp_path: Path) -> None:
    """If a file of an index is damaged, the error names this file, not the index."""
    (tmp_path / "w.safetensors").write_bytes(b"\1" + bytes(7) + b"{")
    with pytest.raises(formats.DecodeError, match=r"w\.safetensors: the text is not JSON"):
        read_weights(index(tmp_path, {"a": "w.safetensors"}))
