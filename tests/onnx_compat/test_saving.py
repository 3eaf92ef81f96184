"""Tests of `onnxpb.save` and the like against `onnx.save`: locations, attributes, text, serializers, errors."""

from __future__ import annotations

import io
import pickle
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import google.protobuf.json_format
import google.protobuf.message
import google.protobuf.text_format
import google.protobuf.unknown_fields
import numpy as np
import onnx
import pytest
from google.protobuf.unknown_fields import UnknownFieldSet as TheirUnknownFieldSet
from onnx import external_data_helper as theirs
from onnx import helper, numpy_helper

import formats.onnxpb as drop_in
from formats.errors import DecodeError, ExternalDataError, LimitError, UnknownFormatError
from formats.onnx_compat.protos import classes
from formats.onnxpb import external_data_helper as ours
from formats.tensordata.sources.source import FileSpan, Literal

EXTENSIONS = ("onnx", "textproto", "json")
SIZE = 600


def example() -> onnx.ModelProto:
    """Return a model with weights in an initialiser, attribute, subgraph, sparse initialiser and typed field."""
    inner = helper.make_graph([], "inner", [], [], [numpy_helper.from_array(np.full(SIZE, 2.0, "float32"), "inner")])
    constant = numpy_helper.from_array(np.full(SIZE, 3.0, "float32"), "constant")
    nodes = [
        helper.make_node("If", ["c"], ["y"], then_branch=inner, else_branch=helper.make_graph([], "e", [], [])),
        helper.make_node("Constant", [], ["k"], value=constant),
    ]
    weights = [
        numpy_helper.from_array(np.arange(SIZE, dtype="float32"), "raw"),
        helper.make_tensor("typed", onnx.TensorProto.FLOAT, [SIZE], range(SIZE)),
    ]
    graph = helper.make_graph(nodes, "g", [], [], weights)
    return helper.make_model(graph, ir_version=10)


BYTES = example().SerializeToString()


def model() -> drop_in.ModelProto:
    """Return the example in our classes."""
    return drop_in.ModelProto.FromString(BYTES)


def outside(path: Path) -> set[str]:
    """Return the names of the tensors that are outside of a model file, as `onnx` sees it."""
    format_name = {"onnx": "protobuf"}.get(path.suffix[1:], path.suffix[1:])
    loaded = onnx.load(path, format_name, load_external_data=False)
    return {tensor.name for tensor in theirs._get_all_tensors(loaded) if theirs.uses_external_data(tensor)}


def elements(path: Path) -> dict[str, list[float]]:
    """Return the elements of all tensors, as `onnx` reads them."""
    loaded = onnx.load(path, {"onnx": "protobuf"}.get(path.suffix[1:], path.suffix[1:]))
    return {tensor.name: numpy_helper.to_array(tensor).tolist() for tensor in theirs._get_all_tensors(loaded)}


EXPECTED = {
    "raw": list(range(SIZE)),
    "typed": list(range(SIZE)),
    "inner": [2.0] * SIZE,
    "constant": [3.0] * SIZE,
}


@pytest.fixture(params=EXTENSIONS)
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A path to write, in each format that puts external data next to the model."""
    return tmp_path / f"m.{request.param}"


# Tensors that become external


@pytest.mark.parametrize("convert_attribute", [False, True])
@pytest.mark.parametrize("threshold", [0, 4 * SIZE, 4 * SIZE + 1])
def test_the_same_tensors_move_as_with_onnx(path: Path, convert_attribute: bool, threshold: int) -> None:
    """Raw data of initialisers become external, those of attributes on request, typed data never, in every format."""
    options = {"save_as_external_data": True, "convert_attribute": convert_attribute, "size_threshold": threshold}
    drop_in.save(model(), path, **options)
    expected = {"raw", "inner", *(["constant"] * convert_attribute)} if threshold <= 4 * SIZE else set()
    assert expected == outside(path)
    assert EXPECTED == elements(path)
    assert BYTES == model().SerializeToString()
    reference = path.with_name(f"reference{path.suffix}")
    onnx.save(
        example(), reference, **{**options, "size_threshold": threshold + 33 * (threshold > 0)}, location="r.data"
    )
    assert outside(reference) == expected


def test_locations_are_kept(path: Path) -> None:
    """Tensors that are marked with a location are written there, and the rest of the model stays inside."""
    marked = model()
    ours.set_external_data(marked.graph.initializer[0], "weights.bin")
    ours.set_external_data(marked.graph.node[1].attribute[0].t, "sub/constant")
    (path.parent / "sub").mkdir()
    drop_in.save(marked, path)
    assert {"raw", "constant"} == outside(path)
    assert EXPECTED == elements(path)
    assert np.arange(SIZE, dtype="float32").tobytes() == (path.parent / "weights.bin").read_bytes()
    assert 4 * SIZE == (path.parent / "sub" / "constant").stat().st_size
    assert marked.graph.initializer[0].HasField("raw_data")
    with pytest.raises(ExternalDataError, match=r"sub/constant.* exists"):
        drop_in.save(marked, path)


def test_a_failed_save_leaves_nothing_in_folders_below(tmp_path: Path) -> None:
    """If the model cannot be written, a data file in a subfolder is removed again."""
    marked = model()
    ours.set_external_data(marked.graph.initializer[0], "sub/w")
    (tmp_path / "sub").mkdir()
    (tmp_path / "m.onnx").mkdir()
    with pytest.raises(OSError, match=r"m\.onnx"):
        drop_in.save(marked, tmp_path / "m.onnx")
    assert [] == list((tmp_path / "sub").iterdir())


def test_tensors_with_one_location_share_its_file(tmp_path: Path) -> None:
    """Several tensors with one location are written one after another to this file, which is replaced."""
    marked = model()
    ours.convert_model_to_external_data(marked, location="w", convert_attribute=True)
    for _ in range(2):
        drop_in.save(marked, tmp_path / "m.onnx")
        assert ["m.onnx", "w"] == sorted(entry.name for entry in tmp_path.iterdir())
        assert 3 * 4 * SIZE <= (tmp_path / "w").stat().st_size <= 3 * 4 * SIZE + 3 * 64
    assert EXPECTED == elements(tmp_path / "m.onnx")


def test_references_into_a_file_that_is_replaced_move_along(tmp_path: Path) -> None:
    """If new data replace a file that other tensors refer to, their data are copied to the new file, too."""
    marked = model()
    ours.convert_model_to_external_data(marked, location="w")
    drop_in.save(marked, tmp_path / "m.onnx")
    references = drop_in.load(tmp_path / "m.onnx", load_external_data=False)
    ours.set_external_data(references.graph.node[1].attribute[0].t, "w")
    drop_in.save(references, tmp_path / "m.onnx")
    assert {"raw", "inner", "constant"} == outside(tmp_path / "m.onnx")
    assert EXPECTED == elements(tmp_path / "m.onnx")


@pytest.mark.parametrize("location", ["/tmp/w", "../w", "", "missing/w", "m.onnx", "link/w", "C:\\w", "a\0b"])
def test_a_location_outside_is_refused(tmp_path: Path, location: str) -> None:
    """A location that leads elsewhere, also by a link, or is the model itself, is an error; nothing is written."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "link").symlink_to(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    marked = model()
    ours.set_external_data(marked.graph.initializer[0], location)
    with pytest.raises(ExternalDataError) as caught:
        drop_in.save(marked, tmp_path / "in" / "m.onnx")
    assert isinstance(caught.value, onnx.checker.ValidationError)
    if location:
        with pytest.raises(ExternalDataError):
            drop_in.save(model(), tmp_path / "in" / "m.onnx", save_as_external_data=True, location=location)
    assert before == sorted(tmp_path.rglob("*"))


def test_a_file_that_is_open_has_companions_beside_it(tmp_path: Path) -> None:
    """The data of a model that is written to an open file are put in the folder of this file."""
    with (tmp_path / "m.onnx").open("wb") as file:
        drop_in.save(model(), file, save_as_external_data=True, location="w")
    assert EXPECTED == elements(tmp_path / "m.onnx")
    assert (tmp_path / "w").exists()


# Kinds of models that are saved


@pytest.mark.parametrize("given", [BYTES, bytearray(BYTES), memoryview(BYTES), example(), model()], ids=type)
def test_models_of_every_kind_are_saved(path: Path, given: Any) -> None:
    """A model is saved from its bytes, from a message of `onnx`, or from a message of ours."""
    drop_in.save(given, path)
    assert EXPECTED == elements(path)


def test_tensors_and_text_of_every_kind(tmp_path: Path) -> None:
    """A tensor of `onnx` is saved, too, and text is read from `str` and from files that are open as text."""
    drop_in.save_tensor(example().graph.initializer[0], tmp_path / "t.pb")
    assert onnx.load_tensor(tmp_path / "t.pb") == example().graph.initializer[0]
    text = str(google.protobuf.text_format.MessageToString(example()))
    assert BYTES == drop_in.load_model_from_string(text, "textproto").SerializeToString()
    assert BYTES == drop_in.load(io.StringIO(text), "textproto").SerializeToString()
    tensor_text = google.protobuf.text_format.MessageToString(example().graph.initializer[0])
    assert "raw" == drop_in.load_tensor_from_string(tensor_text, "textproto").name


# Serializers


class Reversed:
    """A format that stores the bytes of a message backwards."""

    supported_format = "reversed"
    file_extensions = frozenset({".xnno"})

    def serialize_proto(self, message: Any) -> bytes:
        """Return the bytes."""
        return bytes(message.SerializeToString()[::-1])

    def deserialize_proto(self, serialized: bytes, message: Any) -> Any:
        """Return the message."""
        message.ParseFromString(serialized[::-1])
        return message


@pytest.fixture
def registered() -> Iterator[None]:
    """Restore the registry afterwards."""
    registry = drop_in.serialization.registry
    before = dict(registry._registered)
    registry.register(Reversed())
    yield
    registry._registered = before


@pytest.mark.usefixtures("registered")
def test_a_registered_serializer(tmp_path: Path) -> None:
    """A registered serializer is used by its name and by its extension, also for external data."""
    for path, name in ((tmp_path / "named", "reversed"), (tmp_path / "m.xnno", None)):
        drop_in.save(model(), path, name)
        assert BYTES[::-1] == path.read_bytes()
        assert BYTES == drop_in.load(path, name).SerializeToString()
    drop_in.save(model(), tmp_path / "m.xnno", save_as_external_data=True, location="w")
    assert (tmp_path / "m.xnno").stat().st_size < len(BYTES)
    loaded = drop_in.load(tmp_path / "m.xnno", file_load_mode="MMAP")
    assert (
        list(range(SIZE))
        == numpy_helper.to_array(onnx.ModelProto.FromString(loaded.SerializeToString()).graph.initializer[0]).tolist()
    )
    assert isinstance(classes.unwrap(loaded).graph.initializer[0].raw_data, FileSpan)
    assert isinstance(drop_in.serialization.registry.get("reversed"), Reversed)


@pytest.mark.parametrize("name", ["protobuf", "textproto", "json"])
def test_our_serializers_are_those_of_onnx(name: str) -> None:
    """Each serializer writes the bytes that the one of `onnx` reads, and reads those that it writes."""
    mine, other = drop_in.serialization.registry.get(name), onnx.serialization.registry.get(name)
    assert example() == other.deserialize_proto(mine.serialize_proto(model()), onnx.ModelProto())
    assert model() == mine.deserialize_proto(other.serialize_proto(example()), drop_in.ModelProto())
    assert set(other.file_extensions) <= set(mine.file_extensions)
    for extension in other.file_extensions:
        assert name == drop_in.serialization.registry.get_format_from_file_extension(extension)


def test_onnxtxt_is_that_of_onnx(tmp_path: Path) -> None:
    """The text format of `onnx` is written and read with its own printer and parser."""
    x, y = (helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [x], [y])
    simple = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        drop_in.save(simple, tmp_path / "m.onnxtxt")
        assert onnx.printer.to_text(simple) == (tmp_path / "m.onnxtxt").read_text()
        expected = onnx.load(tmp_path / "m.onnxtxt").SerializeToString()
        assert expected == drop_in.load(tmp_path / "m.onnxtxt").SerializeToString()
        assert expected == drop_in.load(tmp_path / "m.onnxtxt", "onnxtxt").SerializeToString()


def test_an_unknown_serializer() -> None:
    """An unknown name is an error of the package that is also a ValueError, as in `onnx`."""
    with pytest.raises(ValueError, match="no serializer is called 'nonsense'") as caught:
        drop_in.serialization.registry.get("nonsense")
    assert isinstance(caught.value, UnknownFormatError)
    with pytest.raises(ValueError, match="no format is called"):
        drop_in.load(BYTES, "nonsense")
    assert drop_in.serialization.registry.get_format_from_file_extension(".nonsense") is None


# Errors


def test_errors_are_also_those_of_protobuf() -> None:
    """Input that cannot be read raises our error, which is also protobuf's DecodeError, or ParseError for text."""
    for call in (lambda: drop_in.load(b"\xff" * 9), lambda: drop_in.ModelProto.FromString(b"\xff" * 9)):
        with pytest.raises(google.protobuf.message.DecodeError) as caught:
            call()
        assert isinstance(caught.value, DecodeError)
    with pytest.raises(google.protobuf.text_format.ParseError) as caught:
        drop_in.load(b"?", "textproto")
    assert isinstance(caught.value, DecodeError)
    with pytest.raises(google.protobuf.json_format.ParseError) as caught:
        drop_in.load(b"?", "json")
    assert isinstance(caught.value, DecodeError)
    assert "DecodeError" == type(caught.value).__name__


def test_an_error_that_is_both_is_pickled() -> None:
    """An error of a worker process arrives as one of ours, with its place."""
    with pytest.raises(DecodeError) as caught:
        drop_in.load(b"\xff" * 9)
    error = caught.value
    again = pickle.loads(pickle.dumps(error))
    assert isinstance(again, DecodeError)
    assert (str(error), vars(error)) == (str(again), vars(again))


# convert_model_to_external_data and related functions


@pytest.mark.parametrize("options", [{}, {"size_threshold": 0}, {"convert_attribute": True}, {"location": "w"}])
@pytest.mark.parametrize("one_file", [True, False])
def test_the_same_tensors_are_marked(options: dict[str, Any], one_file: bool) -> None:
    """Our functions and those of `onnx` mark and unmark the same tensors of the same model, with the same names."""
    mine, other = model(), example()
    ours.convert_model_to_external_data(mine, one_file, **options)
    theirs.convert_model_to_external_data(other, one_file, **options)

    def marks(tensors: Any) -> list[tuple[str, str]]:
        found = [(tensor.name, theirs.ExternalDataInfo(tensor).location) for tensor in tensors]
        return [(name, "" if location.endswith(".data") else location) for name, location in found]

    assert marks(theirs._get_all_tensors(other)) == marks(theirs._get_all_tensors(mine))
    ours.convert_model_from_external_data(mine)
    theirs.convert_model_from_external_data(other)
    assert other.SerializeToString() == mine.SerializeToString()


def test_marking_refuses_what_onnx_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Absolute locations, existing files, and tensors without raw data are errors."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there").touch()
    with pytest.raises(ValueError, match="relative"):
        ours.convert_model_to_external_data(model(), location=str(tmp_path / "w"))
    with pytest.raises(FileExistsError):
        ours.convert_model_to_external_data(model(), location="there")
    with pytest.raises(ValueError, match="no raw data"):
        ours.set_external_data(model().graph.initializer[1], "w")
    references = model()
    ours.set_external_data(references.graph.initializer[0], "w", 1, 2, "sum", "base")
    info, other = (found.ExternalDataInfo(references.graph.initializer[0]) for found in (ours, theirs))
    assert vars(other) == vars(info)
    references.graph.initializer[0].ClearField("raw_data")
    with pytest.raises(ValueError, match="raw data"):
        ours.convert_model_from_external_data(references)
    ours.remove_external_data_field(references.graph.initializer[0], "offset")
    assert ours.ExternalDataInfo(references.graph.initializer[0]).offset is None
    for value in ("-1", "abc"):
        references.graph.initializer[0].external_data.add(key="offset", value=value)
        with pytest.raises(ValueError, match=r"."):
            ours.ExternalDataInfo(references.graph.initializer[0])


def test_external_data_are_written_and_loaded(tmp_path: Path) -> None:
    """Marked tensors are written so that `onnx` reads them, then refer to their files, and can be loaded again."""
    mine = model()
    ours.convert_model_to_external_data(mine, location="w", convert_attribute=True)
    assert mine is ours.write_external_data_tensors(mine, tmp_path)
    assert not mine.graph.initializer[0].HasField("raw_data")
    (tmp_path / "m.onnx").write_bytes(mine.SerializeToString())
    assert EXPECTED == elements(tmp_path / "m.onnx")
    ours.load_external_data_for_model(mine, tmp_path)
    assert not ours.uses_external_data(mine.graph.initializer[0])
    restored = onnx.ModelProto.FromString(mine.SerializeToString())
    assert EXPECTED["raw"] == numpy_helper.to_array(restored.graph.initializer[0]).tolist()
    with pytest.raises(ExternalDataError):
        ours.load_external_data_for_model(drop_in.load(tmp_path / "m.onnx", load_external_data=False), tmp_path.parent)


def test_tensors_are_appended_to_a_data_file(tmp_path: Path) -> None:
    """Single tensors are appended to their file, and the reference points there, as with `onnx`."""
    for helper_module, tensors, name in (
        (
            ours,
            [drop_in.TensorProto.FromString(t.SerializeToString()) for t in example().graph.initializer[:1] * 3],
            "w",
        ),
        (
            theirs,
            [onnx.TensorProto.FromString(t.SerializeToString()) for t in example().graph.initializer[:1] * 3],
            "x",
        ),
    ):
        offsets = []
        for tensor, offset in zip(tensors, (None, 4 * SIZE + 100, None), strict=True):
            helper_module.set_external_data(tensor, name, offset)
            helper_module.save_external_data(tensor, str(tmp_path))
            info = theirs.ExternalDataInfo(tensor)
            offsets.append((info.offset, info.length))
        assert [(0, 4 * SIZE), (4 * SIZE + 100, 4 * SIZE), (8 * SIZE + 100, 4 * SIZE)] == offsets
    assert (tmp_path / "w").read_bytes() == (tmp_path / "x").read_bytes()
    for offset in (0, 1 << 20):
        helper_module = ours
        tensor = drop_in.TensorProto.FromString(example().graph.initializer[0].SerializeToString())
        ours.set_external_data(tensor, "w", offset)
        with pytest.raises(ExternalDataError, match="must be between") as caught:
            ours.save_external_data(tensor, tmp_path)
        assert isinstance(caught.value, onnx.checker.ValidationError)
    with pytest.raises(ExternalDataError, match="no raw data"):
        ours.save_external_data(drop_in.TensorProto(name="t"), tmp_path)


def test_tensors_are_written_in_the_order_of_their_offsets(tmp_path: Path) -> None:
    """Tensors with offsets are first in their file, in the order of these, as in onnx 1.24."""
    mine = model()
    raw = {offset: drop_in.helper.make_tensor(f"t{offset}", 2, [2], bytes([offset, 9]), True) for offset in (2, 0, 7)}
    for offset, tensor in raw.items():
        ours.set_external_data(tensor, "w", None if offset == 7 else offset)
    del mine.graph.initializer[:]
    mine.graph.initializer.extend([raw[7], raw[2], raw[0]])
    ours.write_external_data_tensors(mine, tmp_path)
    assert bytes([0, 9, 2, 9, 7, 9]) == (tmp_path / "w").read_bytes()


@pytest.mark.skipif(sys.platform == "win32", reason="needs links")
def test_no_data_file_behind_a_link_is_read_or_written(tmp_path: Path) -> None:
    """A link out of the folder in the place of a data file is refused: nothing is appended to what it leads to."""
    (tmp_path / "in").mkdir()
    (tmp_path / "secret").write_bytes(b"secret")
    (tmp_path / "in" / "w").symlink_to("../secret")
    tensor = drop_in.TensorProto.FromString(example().graph.initializer[0].SerializeToString())
    ours.set_external_data(tensor, "w")
    mine = model()
    ours.convert_model_to_external_data(mine, location="w", convert_attribute=True)
    for write in (
        lambda: ours.save_external_data(tensor, tmp_path / "in"),
        lambda: ours.write_external_data_tensors(mine, tmp_path / "in"),
    ):
        with pytest.raises(ExternalDataError, match="leads outside"):
            write()
    assert (tmp_path / "secret").read_bytes() == b"secret"
    assert (tmp_path / "in" / "w").is_symlink()


# Fields


def test_in_says_what_is_set() -> None:
    """`in` is another way to write HasField, with the same errors."""
    mine, other = drop_in.ModelProto(ir_version=3), onnx.ModelProto(ir_version=3)
    for name in ("ir_version", "graph", "domain"):
        assert (name in other) is (name in mine)
    for name in ("functions", "nonsense"):
        with pytest.raises(ValueError, match=r"."):
            _ = name in other
        with pytest.raises(ValueError, match=r"."):
            _ = name in mine


def test_unknown_fields_are_those_of_protobuf() -> None:
    """Fields that this version of ONNX lacks are shown as protobuf shows them, including groups."""
    data = bytes.fromhex(
        "a006ac02a106 0102030405060708 a2060568656c6c6f a506 01020304 a306 0805 a306 1001 a406 a406 a80601"
    )
    mine, other = drop_in.ModelProto.FromString(data), onnx.ModelProto.FromString(data)

    def plain(fields: Any) -> list[tuple[int, int, Any]]:
        return [
            (field.field_number, field.wire_type, plain(field.data) if field.wire_type == 3 else field.data)
            for field in fields
        ]

    assert plain(TheirUnknownFieldSet(other)) == plain(drop_in.UnknownFieldSet(mine))
    assert 6 == len(drop_in.UnknownFieldSet(mine))
    assert [] == list(drop_in.UnknownFieldSet(model()))
    assert "UnknownFieldSet([])" == repr(drop_in.UnknownFieldSet(model()))


# What is written and read as it is


@pytest.mark.sample(3)
@pytest.mark.parametrize("place", ["initializer", "attribute", "subgraph", "sparse", "function"])
@pytest.mark.parametrize("is_read", [False, True])
def test_references_are_found_everywhere(place: str, is_read: bool, tmp_path: Path) -> None:
    """A tensor with external data is loaded and saved as such, wherever it is, and however much of a model is read."""
    (tmp_path / "w.bin").write_bytes(bytes(range(8)))
    tensor = onnx.TensorProto(name="w", dims=[8], data_type=2, data_location=1)
    tensor.external_data.add(key="location", value="w.bin")
    made = onnx.ModelProto(ir_version=8, graph={"name": "g"})
    for index in range(300):  # so many that the list stays undecoded
        made.graph.node.add(op_type="Relu", name=f"n{index}", input=["x"], output=["x"])
    node = made.graph.node.add(op_type="Constant")
    if place == "initializer":
        made.graph.initializer.append(tensor)
    elif place == "sparse":
        made.graph.sparse_initializer.add().values.CopyFrom(tensor)
    elif place == "subgraph":
        node.attribute.add(name="body", type=5).g.initializer.append(tensor)
    else:
        nodes = made.functions.add(name="f").node if place == "function" else made.graph.node
        nodes.add(op_type="Constant").attribute.add(name="value", type=4).t.CopyFrom(tensor)
    path = tmp_path / "m.onnx"
    path.write_bytes(made.SerializeToString())
    for found in tensors_in(made):
        found.CopyFrom(onnx.TensorProto(name="w", dims=[8], data_type=2, raw_data=bytes(range(8))))
    assert without_locations(drop_in.load(path)) == made.SerializeToString()
    references = drop_in.load(path, load_external_data=False)
    if is_read:
        assert 1 == len(list(tensors_in(references)))
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    drop_in.save(references, elsewhere / "m.onnx")
    assert without_locations(drop_in.load(elsewhere / "m.onnx")) == made.SerializeToString()


def tensors_in(message: Any) -> Iterator[Any]:
    """Yield all tensors in a message of ours or of `onnx`."""
    if message.DESCRIPTOR.name == "TensorProto":
        yield message
    for field, value in message.ListFields():
        if field.message_type:
            for inner in (value,) if hasattr(value, "ListFields") else value:  # older releases have no `is_repeated`
                yield from tensors_in(inner)


def without_locations(message: Any) -> bytes:
    """Return the bytes of a model without the note of loaded external data, which says that the data are inside now."""
    copied = onnx.ModelProto.FromString(message.SerializeToString())
    for tensor in tensors_in(copied):
        tensor.ClearField("data_location")
    return copied.SerializeToString()


def test_entries_of_references_are_removed_by_key() -> None:
    """`remove_external_data_field` removes every entry with a key, as that of `onnx` does, from messages of both."""
    for library in (onnx, drop_in):
        tensor = library.TensorProto(external_data=[{"key": "offset"}, {"key": "location"}, {"key": "offset"}])
        ours.remove_external_data_field(tensor, "offset")
        assert ["location"] == [entry.key for entry in tensor.external_data]


def test_messages_of_onnx_are_changed_or_refused() -> None:
    """A function that changes a tensor changes one of `onnx`, too; one that changes a model refuses that of `onnx`."""
    tensor = numpy_helper.from_array(np.zeros(3, "float32"), "w")
    ours.set_external_data(tensor, "w.bin", offset=4)
    assert ours.uses_external_data(tensor)
    assert [("location", "w.bin"), ("offset", "4")] == [(entry.key, entry.value) for entry in tensor.external_data]
    before = example().SerializeToString()
    given = example()
    for change in (
        ours.convert_model_to_external_data,
        ours.convert_model_from_external_data,
        lambda model: ours.load_external_data_for_model(model, "."),
        lambda model: ours.write_external_data_tensors(model, "."),
    ):
        with pytest.raises(TypeError, match=r"onnx\.external_data_helper"):
            change(given)
    assert before == given.SerializeToString()


# Keywords of onnx-light


def test_keywords_of_onnx_light(tmp_path: Path) -> None:
    """onnx-light's names of limits and modes are understood."""
    path = tmp_path / "m.onnx"
    drop_in.save(model(), path, min_block_size=1 << 20)
    for mode, kind in (("AUTO", Literal), ("MMAP", FileSpan), ("IFSTREAM", Literal)):
        loaded = drop_in.load(path, file_load_mode=mode, touch_raw_data_pages=True, min_block_size=1)
        assert isinstance(classes.unwrap(loaded).graph.initializer[0].raw_data, kind)
        assert BYTES == loaded.SerializeToString()
    with pytest.raises(ValueError, match="file_load_mode is 'FAST'"):
        drop_in.load(path, file_load_mode="FAST")
    with pytest.raises(LimitError, match=f"{4 * SIZE} bytes, more than the 2399 allowed"):
        drop_in.load(path, max_tensor_size_bytes=4 * SIZE - 1)
    assert BYTES == drop_in.load(path, max_tensor_size_bytes=4 * SIZE).SerializeToString()
    with pytest.raises(LimitError, match="nested more than"):
        drop_in.load(path, max_recursion_depth=1)
    with pytest.raises(ValueError, match="more than the 100 allowed"):
        drop_in.save(model(), tmp_path / "n.onnx", max_serialized_size_bytes=100)
    assert not (tmp_path / "n.onnx").exists()
