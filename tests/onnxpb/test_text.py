"""Facts about models in protobuf's text format, checked against the `protobuf` package."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import onnx
import pytest
from corpus import backend_files
from google.protobuf import text_format
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from protos import message_type, protos

from formats import registry
from formats.errors import DecodeError, EncodeError, ExternalDataError, LimitError, WireError
from formats.ir import model as ir
from formats.onnxpb import CODEC, JSON_CODEC, TEXT_CODEC, OnnxOptions, TextOptions, codec, text
from formats.onnxpb.codec import decode
from formats.registry import Match
from formats.tensordata.engine import execute, to_bytes
from formats.tensordata.osio import File
from formats.tensordata.source import Literal, Source

CLASSES = {cls.message: cls for cls in ir.MESSAGE_CLASSES}
RELAXED = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


def decoded(proto: Any) -> Any:
    """Our message for one of the `onnx` package."""
    name = proto.DESCRIPTOR.full_name.removeprefix("onnx.")
    return decode(Literal(proto.SerializeToString()), CLASSES[name])


def encoded(message: Any) -> bytes:
    """Our message on the wire."""
    return b"".join(part.read() if isinstance(part, Source) else bytes(part) for part in codec.encode(message))


def written(model: ir.Model, options: TextOptions | None = None) -> bytes:
    """The file that the codec writes."""
    return to_bytes(TEXT_CODEC.plan(model, Path("m.textproto"), options or TextOptions()))


# Printing


@RELAXED
@given(protos())
def test_any_message_is_printed_as_protobuf_prints_it(case: tuple[str, Any]) -> None:
    """Whatever `onnx` can build, infinities and all, is printed byte for byte alike, and parsed to the same again."""
    name, proto = case
    printed = text.to_text(decoded(proto))
    assert text_format.MessageToString(proto) == printed
    parsed = text.parse(printed, CLASSES[name])
    assert text_format.Parse(printed, message_type(name)()).SerializeToString() == encoded(parsed)
    assert printed == text.to_text(parsed)


def test_real_models(shared_model: Path) -> None:
    """A real exporter's model is written as `onnx` writes it, and read from that as from its own file."""
    source = File.open(shared_model).span()
    model = CODEC.read(source, shared_model)
    data = written(model)
    proto = onnx.ModelProto.FromString(source.read())
    assert onnx.serialization.registry.get("textproto").serialize_proto(proto) == data
    assert model == TEXT_CODEC.read(Literal(data), None)


def test_models_of_the_backend_suite() -> None:
    """A sample of the files that come with `onnx` is printed as protobuf prints it, and parsed to the same bytes."""
    for name, path in backend_files()[::6]:
        proto = onnx.ModelProto.FromString(path.read_bytes())
        printed = text.to_text(decoded(proto))
        assert text_format.MessageToString(proto) == printed, name
        assert proto.SerializeToString() == encoded(text.parse(printed, ir.Model)), name


@pytest.mark.parametrize(
    ("message", "line"),
    [
        (ir.Attribute(f=0.1), "f: 0.1"),
        (ir.Attribute(f=1 / 3), "f: 0.33333334"),
        (ir.Attribute(f=1e-45), "f: 1.4013e-45"),
        (ir.Attribute(f=3.4028234663852886e38), "f: 3.4028235e+38"),
        (ir.Attribute(f=1e39), "f: inf"),
        (ir.Attribute(f=-1e39), "f: -inf"),
        (ir.Attribute(f=float("nan")), "f: nan"),
        (ir.Attribute(f=16777216), "f: 16777216.0"),
        (ir.Attribute(type=20), "type: 20"),
        (ir.Attribute(type=-1), "type: -1"),
        (ir.Attribute(s=b""), 's: ""'),
        (ir.Attribute(s=bytes(range(7, 14)) + b"\x7f\x80\xff"), r's: "\007\010\t\n\013\014\r\177\200\377"'),
        (ir.Node(name="ä\0'\"\\\n→😀"), 'name: "ä\\000\\\'\\"\\\\\\n→😀"'),
        (ir.Node(name=b"\xe9t\xe2\x82".decode("utf-8", "surrogateescape")), r'name: "\351t\342\202"'),
        (ir.Tensor(double_data=Literal(b"\0\0\0\0\0\0\xf8\x3f")), "double_data: 1.5"),
        (ir.Tensor(int32_data=Literal(b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01")), "int32_data: -1"),
    ],
)
def test_values_and_their_text(message: Any, line: str) -> None:
    """Each kind of value is printed like this, and parsed to the same line again."""
    assert f"{line}\n" == text.to_text(message)
    assert f"{line}\n" == text.to_text(text.parse(line, type(message)))


def test_fields_that_are_there() -> None:
    """A message without fields is empty; one that is there and empty is not absent."""
    assert "" == text.to_text(ir.Model())
    assert ir.Model() == text.parse("", ir.Model) == text.parse(" # nothing\n", ir.Model)
    assert "graph {\n}\n" == text.to_text(ir.Model(graph=ir.Graph()))
    assert ir.Tensor() == text.parse("float_data: []", ir.Tensor)


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
def test_values_that_do_not_fit_are_refused(message: Any) -> None:
    """A value that its field cannot hold is refused, and the field named."""
    with pytest.raises(EncodeError, match="does not fit"):
        text.to_text(message)


@pytest.mark.parametrize("tensor", [ir.Tensor(float_data=Literal(b"123")), ir.Tensor(int32_data=Literal(b"\xff"))])
def test_typed_data_that_are_wrong(tensor: ir.Tensor) -> None:
    """Typed data that end within an element are refused, and their place named."""
    with pytest.raises(WireError) as caught:
        text.to_text(ir.Graph(initializer=[ir.Tensor(), tensor]))
    assert str(caught.value.where).startswith("initializer[1].")


def test_a_model_within_itself_is_refused() -> None:
    """Printing a graph that contains itself ends in an error."""
    graph = ir.Graph()
    graph.node.append(ir.Node(attribute=[ir.Attribute(g=graph)]))
    with pytest.raises(EncodeError):
        text.to_text(graph)


# Parsing what people write

WRITTEN = [
    'name: "a"',
    "name: 'a'",
    """name: "a" 'b' "c"  # and more\n 'd'""",
    'name : "a" ; op_type:"b",domain:"c"',
    "# first\nname: 'a' # then\n#last",
    "input: 'a' input: 'b'",
    "input: ['a', 'b' 'c'] input: []",
    "attribute {}",
    "attribute: <name: 'a'>",
    "attribute < name: 'a' i: 1 > attribute: { name: 'b', };",
    "attribute [{i: 1}, <i: 2>]",
    "attribute: [ ]",
    "attribute { i: 0x7Fff } attribute { i: -0x10 } attribute { i: 0777 } attribute { i: -07 } attribute { i: 0 }",
    "attribute { ints: [1, -2, 0x3] ints: 4 }",
    "attribute { i: 9223372036854775807 ints: -9223372036854775808 }",
    "attribute { type: INTS } attribute { type: 7 } attribute { type: 0x7 }",
    "attribute { floats: [1, 1., .5, 1.5e3, 1E-2, 1e+2, 2f, 2.5F, -1.5, -.5, 0, 0.25, 0.1] }",
    "attribute { floats: [inf, -inf, Infinity, -infinity, INF, 1e39, -1e39, 1e-60] }",
    r"""name: "\a\b\f\n\r\t\v\\\'\"\0\12\123\x4\x41\u00e9\U0001f600" """,
    r"""name: "\\n\\\n\\\\x41\1234\08" """,
    r"""attribute { s: "\377\xe9\200\0001" }""",
    "name: 'ä→😀 \"'",
    "\r\n\t name: 'a'\f\v",
]


@pytest.mark.parametrize("written_text", WRITTEN)
def test_text_of_people_is_parsed_as_protobuf_does(written_text: str) -> None:
    """Every syntax that people use means the same as for protobuf."""
    expected = text_format.Parse(written_text, onnx.NodeProto())
    assert expected.SerializeToString() == encoded(text.parse(written_text, ir.Node))


@pytest.mark.parametrize(
    ("written_text", "expected"),
    [
        ("attribute { i: - 5 f: - inf }", [ir.Attribute(i=-5, f=float("-inf"))]),
        (r'attribute { s: "\ud83d\ude00" }', [ir.Attribute(s="😀".encode())]),
        (r'attribute { s: "\?\X7a\X4" }', [ir.Attribute(s=b"?z\x04")]),
        (r"attribute { s: '" + "a" * 70000 + "' }", [ir.Attribute(s=b"a" * 70000)]),
    ],
)
def test_text_of_the_specification(written_text: str, expected: list[ir.Attribute]) -> None:
    """What the specification allows and Python's protobuf does not read is read."""
    assert expected == text.parse(written_text, ir.Node).attribute


@pytest.mark.parametrize(
    ("written_text", "problem"),
    [
        ("nam: 'a'", "expected a field of NodeProto, found 'nam' (line 1, column 1)"),
        ("name: 'a'\n  name: 'b'", "name is there twice (line 2, column 3)"),
        ("name 'a'", 'expected ":" after name, found "\'" (line 1, column 6)'),
        ("name: a", "expected a string, found 'a' (line 1, column 7)"),
        ("name: 5", "expected a string, found '5'"),
        ("name: ['a']", "expected a string, found '['"),
        ("name:", "expected a string, found the end of the text (line 1, column 6)"),
        ("name: 'a", "the string does not end on its line (line 1, column 7)"),
        ("name: 'a\nb'", "the string does not end on its line (line 1, column 7)"),
        (r"name: 'a\'", "the string does not end on its line (line 1, column 7)"),
        (r"name: '\x'", "the string has an escape that does not exist"),
        (r"name: '\u12'", "the string has an escape that does not exist"),
        (r"name: '\ud800'", "the string has an escape that does not exist"),
        (r"name: '\U00110000'", "the string has an escape that does not exist"),
        ("attribute { i: 1.5 }", "expected an integer for i, found '1.5' (line 1, column 16)"),
        ("attribute { i: 09 }", "expected an integer for i, found '09'"),
        ("attribute { i: 0x }", "expected an integer for i, found '0x'"),
        ("attribute { i: 9223372036854775808 }", "expected an int64 for i, found '9223372036854775808'"),
        ("attribute { i: -9223372036854775809 }", "expected an int64 for i"),
        ("attribute { i: " + "9" * 5000 + " }", "expected an integer for i, found '999"),
        ("attribute { type: FLAT }", "expected a name of AttributeProto.AttributeType for type, found 'FLAT'"),
        ("attribute { type: -FLOAT }", "expected an integer for type, found 'FLOAT'"),
        ("attribute { f: 010 }", "expected a number for f, found '010'"),
        ("attribute { f: 0x10 }", "expected a number for f, found '0x10'"),
        ("attribute { f: 1e }", "expected a number for f, found '1e'"),
        ("attribute { f: 1e+-5 }", "expected a number for f, found '1e+'"),
        ("attribute { f: infinite }", "expected a number for f, found 'infinite'"),
        (
            "attribute { i: 1",
            'expected a field of AttributeProto or "}", found the end of the text (line 1, column 17)',
        ),
        ("attribute { i: 1 >", "expected a field of AttributeProto or \"}\", found '>'"),
        ("attribute 5", "expected \"{\" before the fields of attribute, found '5'"),
        ("attribute { ints: [1 2] }", 'expected "," or "]", found \'2\''),
        ("attribute { ints: [1,] }", "expected an integer for ints, found ']'"),
        ("attribute { ints: [,] }", "expected an integer for ints, found ','"),
        ("attribute { ints: [1 }", 'expected "," or "]", found \'}\''),
        ("}", "expected a field of NodeProto, found '}'"),
        ("[onnx.ext]: 5", "expected a field of NodeProto, found '['"),
        ("3: 'a'", "expected a field of NodeProto, found '3'"),
        ("name: 'a',, op_type: 'b'", "expected a field of NodeProto, found ','"),
        ("\0", r"expected a field of NodeProto, found '\x00'"),
    ],
)
def test_wrong_text_is_refused(written_text: str, problem: str) -> None:
    """What is no text of a message is refused, as protobuf does, with what was expected, and line and column."""
    with pytest.raises(text_format.ParseError):
        text_format.Parse(written_text, onnx.NodeProto())
    with pytest.raises(DecodeError) as caught:
        text.parse(written_text, ir.Node)
    assert problem in caught.value.message


@pytest.mark.parametrize("escape", [r"\q", r"\8", r"\400"])
def test_escapes_that_do_not_exist_are_refused(escape: str) -> None:
    """A backslash before any other character is an error, though Python's protobuf lets some stand."""
    with pytest.raises(DecodeError) as caught:
        text.parse(f"name: '{escape}'", ir.Node)
    assert "the string has an escape that does not exist" in caught.value.message


def test_members_of_a_oneof_exclude_each_other() -> None:
    """A dimension has a value or a name, not both."""
    with pytest.raises(DecodeError, match="dim_param and dim_value exclude each other"):
        text.parse("dim_value: 1 dim_param: 'n'", ir.Dimension)


def test_errors_say_where() -> None:
    """An error names the dotted place, and says line and column of a text of many lines."""
    with pytest.raises(DecodeError) as caught:
        text.parse("graph {\n  node {}\n  node {\n    attribute { ints: 1 ints: 2 ints: x }\n  }\n}", ir.Model)
    assert "graph.node[1].attribute[0].ints[2]" == caught.value.where
    assert "(line 4, column 39)" in caught.value.message


def nested(depth: int) -> str:
    """A type within `depth` sequences."""
    return "sequence_type { elem_type { " * depth + "} } " * depth


def test_nesting_is_limited() -> None:
    """A hundred messages within each other are parsed, more are refused and overflow no stack."""
    assert text.parse(nested(50), ir.Type) == decode(Literal(encoded(text.parse(nested(50), ir.Type))), ir.Type)
    for depth in (51, 100_000):
        with pytest.raises(LimitError, match="nested"):
            text.parse(nested(depth), ir.Type)


def test_number_of_messages_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """A small text cannot ask for any number of objects."""
    monkeypatch.setattr("formats.onnxpb.fields.MAX_MESSAGES", 1000)
    text.parse("node{}" * 999, ir.Graph)
    with pytest.raises(LimitError, match="messages"):
        text.parse("node{}" * 1001, ir.Graph)


@settings(max_examples=300, deadline=None)
@given(st.text(st.sampled_from("abgiknmoruty_:{}<>[]'\"\\#\n ,;-.019exinf"), max_size=40), st.booleans())
def test_any_text_gives_a_message_or_a_decode_error(content: str, in_message: bool) -> None:
    """Arbitrary text raises nothing but DecodeError."""
    try:
        text.parse(f"attribute {{ {content}" if in_message else content, ir.Node)
    except DecodeError:
        pass


def test_mutations_give_a_model_or_a_decode_error() -> None:
    """Flipped, cut and doubled pieces of a text raise nothing but DecodeError."""
    tensor = onnx.helper.make_tensor("t", onnx.TensorProto.FLOAT, [3], [1.5, float("inf"), -2])
    node = onnx.helper.make_node("If", ["c"], ["y"], g=onnx.GraphProto(initializer=[tensor]), s="\n\xff", i=-7)
    printed = text_format.MessageToString(onnx.helper.make_model(onnx.helper.make_graph([node], "g", [], [])))
    chance = random.Random(3)
    for _ in range(1500):
        start, end = sorted(chance.randrange(len(printed)) for _ in range(2))
        piece = printed[start : min(end, start + 9)]
        mutated = chance.choice([printed[:start] + printed[end:], printed[:end] + piece + printed[end:]])
        try:
            text.parse(mutated.replace(chance.choice(printed), chance.choice(printed), 1), ir.Model)
        except DecodeError:
            pass


# The codec


@pytest.mark.parametrize("name", ["m.textproto", "m.txtpb", "m.PROTOTXT", "m.pbtxt"])
def test_extensions(name: str) -> None:
    """The extensions that `onnx` has for the text format are those of the codec."""
    assert TEXT_CODEC is registry.for_writing(Path(name))
    assert name[1:].lower() in onnx.serialization.registry.get("textproto").file_extensions


@pytest.mark.parametrize(
    ("head", "match"),
    [
        (b"ir_version: 8\n", Match.WEAK),
        (b"\xef\xbb\xbfgraph {", Match.WEAK),
        (b"# a comment\n\n  graph<", Match.WEAK),
        (b"# a long comm", Match.WEAK),
        (b"layer {", Match.NONE),
        (b"graph", Match.NONE),
        (b"", Match.NONE),
        (b"{}", Match.NONE),
        (b"\x08\x0a\x12\x03abc", Match.NONE),
    ],
)
def test_sniffing(head: bytes, match: Match) -> None:
    """Text that begins with a field of a model, after comments, may be a model."""
    assert match is TEXT_CODEC.sniff(head, 1000)


def test_recognised_by_content() -> None:
    """A text file with a strange extension is found to be one, and a model with the extension of text is too."""
    data = written(ir.Model(ir_version=8, graph=ir.Graph()))
    assert TEXT_CODEC is registry.for_reading(data, len(data), Path("m.unknown"))
    binary = encoded(ir.Model(ir_version=8, graph=ir.Graph(name="g")))
    assert CODEC is registry.for_reading(binary, len(binary), Path("m.textproto"))


def test_other_encodings_are_refused() -> None:
    """A file that is not UTF-8 is refused, and the place said; a byte order mark does no harm."""
    with pytest.raises(DecodeError) as caught:
        TEXT_CODEC.read(Literal(b"graph { name: '\xe9' }"), None)
    assert 15 == caught.value.file_offset
    expected = ir.Model(graph=ir.Graph(name="é"))
    assert expected == TEXT_CODEC.read(Literal("\ufeffgraph { name: 'é' }".encode()), None)


@pytest.mark.parametrize("target", [TEXT_CODEC, JSON_CODEC])
def test_a_text_without_a_graph_is_no_model(target: registry.Codec) -> None:
    """A message without a graph is refused as `.onnx` files without one are."""
    with pytest.raises(DecodeError, match="no graph"):
        target.read(Literal(b"{}" if target is JSON_CODEC else b"ir_version: 8"), None)


def external_model(folder: Path) -> Path:
    """A model with a weight in a file beside it."""
    weight = onnx.TensorProto(name="w", data_type=2, dims=[5000], raw_data=bytes(5000))
    proto = onnx.ModelProto(ir_version=8, graph=onnx.GraphProto(initializer=[weight]))
    path = folder / "m.onnx"
    execute(CODEC.plan(decoded(proto), path, OnnxOptions(external_data=True)))
    return path


@pytest.mark.parametrize("target", [TEXT_CODEC, JSON_CODEC])
def test_external_data_stay_outside(target: registry.Codec, tmp_path: Path) -> None:
    """References are kept, and lead to the weights from where the text is; elsewhere a loss says so."""
    path = external_model(tmp_path)
    model = CODEC.read(File.open(path).span(), path)
    beside = tmp_path / f"m{target.extensions[0]}"
    plan = target.plan(model, beside, TextOptions())
    assert () == plan.losses
    execute(plan)
    assert beside.stat().st_size < 1000
    again = target.read(File.open(beside).span(), beside)
    assert again == model
    assert again.graph is not None
    assert bytes(5000) == again.graph.initializer[0].source().read()
    (tmp_path / "far").mkdir()
    far = target.plan(model, tmp_path / "far" / "m", TextOptions())
    assert ["external_data"] == [loss.kind for loss in far.losses]
    assert "graph.initializer[0]" == far.losses[0].where


@pytest.mark.parametrize("target", [TEXT_CODEC, JSON_CODEC])
def test_external_data_move_inside(target: registry.Codec, tmp_path: Path) -> None:
    """All weights are in the text where that is wanted; they cannot be moved out of it, or invented."""
    path = external_model(tmp_path)
    model = CODEC.read(File.open(path).span(), path)
    data = to_bytes(target.plan(model, tmp_path / "far" / "m", TextOptions(external_data=False)))
    moved = target.read(Literal(data), None)
    assert moved.graph is not None
    assert bytes(5000) == moved.graph.initializer[0].source().read()
    assert [] == moved.graph.initializer[0].external_data
    assert model == CODEC.read(File.open(path).span(), path)
    with pytest.raises(EncodeError):
        target.plan(model, path, TextOptions(external_data=True))
    with pytest.raises(ExternalDataError):
        target.plan(CODEC.read(Literal(path.read_bytes()), None), path, TextOptions(external_data=False))


@pytest.mark.parametrize("target", [TEXT_CODEC, JSON_CODEC])
def test_unknown_fields_are_a_loss(target: registry.Codec) -> None:
    """Fields of a newer ONNX have no names, so they are left out, and each message that had some is named."""
    model = ir.Model(graph=ir.Graph(node=[ir.Node(), ir.Node(unknown_fields=b"\xa2\x06\x03new")]))
    plan = target.plan(model, Path("m"), TextOptions())
    assert [("unknown_fields", "graph.node[1]")] == [(loss.kind, loss.where) for loss in plan.losses]
    assert ir.Model(graph=ir.Graph(node=[ir.Node(), ir.Node()])) == target.read(Literal(to_bytes(plan)), None)
