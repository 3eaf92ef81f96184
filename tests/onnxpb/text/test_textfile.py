"""Tests of both text formats for models, compared with the `protobuf` package."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import pytest
from google.protobuf import json_format, text_format
from hypothesis import given, settings

from formats.codecs import contract, lookup
from formats.errors import DecodeError, EncodeError, ExternalDataError, LimitError, OptionError, WireError
from formats.ir import model as ir
from formats.onnxpb.codecs import CODEC, JSON_CODEC, TEXT_CODEC
from formats.onnxpb.options import OnnxOptions, TextOptions
from formats.onnxpb.text import protojson, textfile, textproto
from formats.tensordata.engine import execute, to_bytes
from formats.tensordata.file import File
from formats.tensordata.sources.source import Literal
from tests.corpus import backend_files
from tests.onnxpb.protos import CLASSES, decoded, encoded, message_type, protos

LARGEST_FLOAT = "3.4028235e+38"


class Notation(NamedTuple):
    """One of the formats, and the functions of the `protobuf` package for it."""

    codec: contract.Codec
    to_text: Callable[[Any], str]
    parse: Callable[[str, Any], Any]
    their_to_text: Callable[[Any], str]
    their_parse: Callable[[str, Any], Any]

    def written(self, model: ir.Model) -> bytes:
        """Return the file that the codec writes."""
        return to_bytes(self.codec.plan(model, Path("m"), TextOptions()))


NOTATIONS = {
    "text": Notation(
        TEXT_CODEC, textproto.to_text, textproto.parse_text, text_format.MessageToString, text_format.Parse
    ),
    "json": Notation(
        JSON_CODEC,
        protojson.to_json,
        protojson.parse_json,
        partial(json_format.MessageToJson, preserving_proto_field_name=True),
        json_format.Parse,
    ),
}
both = pytest.mark.parametrize("notation", NOTATIONS.values(), ids=NOTATIONS)


# The text


@both
@settings(max_examples=100)
@given(case=protos())
def test_any_message_is_printed_as_protobuf_prints_it(notation: Notation, case: tuple[str, Any]) -> None:
    """Everything that `onnx` can build, even infinities, is printed byte for byte as by protobuf, and parsed back."""
    name, proto = case
    printed = notation.to_text(decoded(proto))
    assert notation.their_to_text(proto) == printed
    parsed = notation.parse(printed, CLASSES[name])
    assert printed == notation.to_text(parsed)
    if notation.codec is TEXT_CODEC or LARGEST_FLOAT not in printed:  # protobuf prints it in JSON, but refuses it
        assert notation.their_parse(printed, message_type(name)()).SerializeToString() == encoded(parsed)


@pytest.mark.sample(3)
@both
def test_real_models(notation: Notation, shared_model: Path) -> None:
    """A real exporter's model is written as `onnx` writes it, and that text is read as the same model."""
    source = File.open(shared_model).span()
    model = CODEC.read(source, shared_model)
    data = notation.written(model)
    proto = onnx.ModelProto.FromString(source.read())
    assert onnx.serialization.registry.get(notation.codec.name).serialize_proto(proto) == data
    assert model == notation.codec.read(Literal(data), None)


@both
def test_models_of_the_backend_suite(notation: Notation) -> None:
    """A sample of the files that come with `onnx` is printed as protobuf prints it, and parsed to the same bytes."""
    for name, path in backend_files()[::6]:
        proto = onnx.ModelProto.FromString(path.read_bytes())
        printed = notation.to_text(decoded(proto))
        assert notation.their_to_text(proto) == printed, name
        assert proto.SerializeToString() == encoded(notation.parse(printed, ir.Model)), name


@both
@pytest.mark.parametrize(
    "message",
    [
        ir.Node(name=5),  # type: ignore[arg-type]
        ir.Node(name="\ud800"),
        ir.Dimension(dim_value=1 << 63),
        ir.Dimension(dim_value=1.5),  # type: ignore[arg-type]
        ir.Model(graph="g"),  # type: ignore[arg-type]
        ir.Attribute(f="x"),  # type: ignore[arg-type]
        ir.Attribute(s="x"),  # type: ignore[arg-type]
        ir.Tensor(dims=["n"]),  # type: ignore[list-item]
    ],
)
def test_values_that_do_not_fit_are_refused(notation: Notation, message: Any) -> None:
    """A value that its field cannot represent is refused."""
    with pytest.raises(EncodeError, match="does not fit"):
        notation.to_text(message)


@both
def test_errors_of_printing_say_where(notation: Notation) -> None:
    """The error about a value that does not fit names its dotted place."""
    attribute = ir.Attribute(g=ir.Graph(name=5))  # type: ignore[arg-type]
    with pytest.raises(EncodeError) as caught:
        notation.to_text(ir.Graph(node=[ir.Node(), ir.Node(attribute=[attribute])]))
    assert "node[1].attribute[0].g" == caught.value.where


@both
@pytest.mark.parametrize("tensor", [ir.Tensor(float_data=Literal(b"123")), ir.Tensor(int32_data=Literal(b"\xff"))])
def test_typed_data_that_are_wrong(notation: Notation, tensor: ir.Tensor) -> None:
    """Typed data that end inside an element are refused, and the error names their place."""
    with pytest.raises(WireError) as caught:
        notation.to_text(ir.Graph(initializer=[ir.Tensor(), tensor]))
    assert f"initializer[1].{'float' if tensor.float_data else 'int32'}_data" == caught.value.where


@both
def test_a_model_within_itself_is_refused(notation: Notation) -> None:
    """Printing a graph that contains itself raises an error."""
    graph = ir.Graph()
    graph.node.append(ir.Node(attribute=[ir.Attribute(g=graph)]))
    with pytest.raises(EncodeError, match="nested too deeply"):
        notation.to_text(graph)


@both
def test_number_of_messages_is_limited(notation: Notation, monkeypatch: pytest.MonkeyPatch) -> None:
    """A small text cannot make the parser create an unlimited number of objects."""
    monkeypatch.setattr("formats.onnxpb.text.textfile.MAX_MESSAGES", 1000)
    notation.parse(notation.to_text(ir.Graph(node=[ir.Node()] * 999)), ir.Graph)
    with pytest.raises(LimitError, match="messages"):
        notation.parse(notation.to_text(ir.Graph(node=[ir.Node()] * 1001)), ir.Graph)


# The codec


@both
def test_extensions(notation: Notation) -> None:
    """The codec has the extensions that `onnx` has for this format, in upper and lower case."""
    extensions = onnx.serialization.registry.get(notation.codec.name).file_extensions
    assert {*extensions} == {*notation.codec.extensions}
    for extension in extensions:
        assert notation.codec is lookup.for_writing(Path(f"m{extension}"))
        assert notation.codec is lookup.for_writing(Path(f"m{extension.upper()}"))


@both
def test_recognised_by_content(notation: Notation) -> None:
    """A text is recognised with an unknown extension, and a binary model even with the extension of a text."""
    data = notation.written(ir.Model(ir_version=8, graph=ir.Graph()))
    assert notation.codec is lookup.for_reading(data, len(data), Path("m.unknown"))
    binary = encoded(ir.Model(ir_version=8, graph=ir.Graph(name="g")))
    assert CODEC is lookup.for_reading(binary, len(binary), Path(f"m{notation.codec.extensions[0]}"))


@both
def test_other_encodings_are_refused(notation: Notation) -> None:
    """A file that is not UTF-8 is refused with the place of the error; a byte order mark is ignored."""
    data = notation.to_text(ir.Model(graph=ir.Graph(name="?"))).encode()
    with pytest.raises(DecodeError) as caught:
        notation.codec.read(Literal(data.replace(b"?", b"\xe9")), None)
    assert data.index(b"?") == caught.value.file_offset
    marked = b"\xef\xbb\xbf" + data.replace(b"?", "é".encode())
    assert ir.Model(graph=ir.Graph(name="é")) == notation.codec.read(Literal(marked), None)


@both
def test_a_text_without_a_graph_is_no_model(notation: Notation) -> None:
    """A text without a graph is refused, like a `.onnx` file without one."""
    with pytest.raises(DecodeError, match="no graph"):
        notation.codec.read(Literal(notation.to_text(ir.Model(ir_version=8)).encode()), None)


@pytest.fixture
def external_model(tmp_path: Path) -> Path:
    """A model with a weight in a file next to it."""
    weight = onnx.TensorProto(name="w", data_type=2, dims=[5000], raw_data=bytes(5000))
    proto = onnx.ModelProto(ir_version=8, graph=onnx.GraphProto(initializer=[weight]))
    path = tmp_path / "m.onnx"
    execute(CODEC.plan(decoded(proto), path, OnnxOptions(external_data=True)))
    return path


@both
def test_external_data_stay_outside(notation: Notation, external_model: Path) -> None:
    """References are kept if the text is in the folder of the weights; elsewhere, a loss is reported."""
    codec = notation.codec
    model = CODEC.read(File.open(external_model).span(), external_model)
    beside = external_model.with_suffix(codec.extensions[0])
    plan = codec.plan(model, beside, TextOptions())
    assert () == plan.losses
    execute(plan)
    assert beside.stat().st_size < 1000
    again = codec.read(File.open(beside).span(), beside)
    assert again == model
    assert again.graph is not None
    assert bytes(5000) == again.graph.initializer[0].source().read()
    far = codec.plan(model, external_model.parent / "far" / "m", TextOptions())
    assert [("external_data", "graph.initializer[0]")] == [(loss.kind, loss.where) for loss in far.losses]


@both
def test_external_data_move_inside(notation: Notation, external_model: Path) -> None:
    """On request, all weights are put into the text; the text cannot move weights to files, or invent missing ones."""
    codec, path = notation.codec, external_model
    model = CODEC.read(File.open(path).span(), path)
    data = to_bytes(codec.plan(model, path.parent / "far" / "m", TextOptions(external_data=False)))
    moved = codec.read(Literal(data), None)
    assert moved.graph is not None
    assert bytes(5000) == moved.graph.initializer[0].source().read()
    assert [] == moved.graph.initializer[0].external_data
    assert model == CODEC.read(File.open(path).span(), path)
    with pytest.raises(OptionError):
        codec.plan(model, path, TextOptions(external_data=True))
    with pytest.raises(ExternalDataError):
        codec.plan(CODEC.read(Literal(path.read_bytes()), None), path, TextOptions(external_data=False))


@both
def test_unknown_fields_are_a_loss(notation: Notation) -> None:
    """Fields of a newer ONNX have no known names, so they are dropped, and the report names the messages."""
    model = ir.Model(graph=ir.Graph(node=[ir.Node(), ir.Node(unknown_fields=b"\xa2\x06\x03new")]))
    plan = notation.codec.plan(model, Path("m"), TextOptions())
    assert [("unknown_fields", "graph.node[1]")] == [(loss.kind, loss.where) for loss in plan.losses]
    assert ir.Model(graph=ir.Graph(node=[ir.Node(), ir.Node()])) == notation.codec.read(Literal(to_bytes(plan)), None)


# Much data


def much(nbytes: int) -> onnx.ModelProto:
    """A model with a weight of this size, and another one."""
    raw = bytes(range(256)) * (nbytes // 256) + bytes(nbytes % 256)
    weights = [
        onnx.TensorProto(name="w", data_type=onnx.TensorProto.UINT8, dims=[nbytes], raw_data=raw),
        onnx.numpy_helper.from_array(np.arange(3, dtype="float32"), "v"),
    ]
    return onnx.helper.make_model(onnx.helper.make_graph([], "g", [], [], weights))


@both
@pytest.mark.parametrize("more", [0, 1, 2, 1 << 20])
def test_what_is_written_in_pieces_is_one_text(notation: Notation, more: int) -> None:
    """More bytes than are made text at a time give the text that protobuf writes, and that `to_text` returns."""
    proto = much(textfile.PIECE_BYTES + more)
    model = decoded(proto)
    written = notation.written(model)
    assert notation.their_to_text(proto).encode() == written
    assert notation.to_text(model).encode() == written


PEAK = """
import re, sys, formats
formats.convert(sys.argv[1], sys.argv[2], threads=1)
print(int(re.search(r"VmHWM:\\s*(\\d+)", open("/proc/self/status").read())[1]) << 10)
"""


@pytest.mark.outer
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="this system does not tell the memory in use")
@pytest.mark.parametrize("extension", ["textproto", "json"])
def test_a_text_is_written_in_little_memory(extension: str, tmp_path: Path) -> None:
    """The memory for 96 MiB of weights is less than these weights, though their text is larger."""
    peaks = []
    for name, nbytes in (("small", 1 << 10), ("large", 96 << 20)):
        path = tmp_path / f"{name}.onnx"
        onnx.save(much(nbytes), path)
        command = [sys.executable, "-c", PEAK, path, path.with_suffix(f".{extension}")]
        peaks.append(int(subprocess.run(command, capture_output=True, check=True).stdout))
        path.unlink()
    assert peaks[1] - peaks[0] < 64 << 20
