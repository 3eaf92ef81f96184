"""Tests of protobuf's text format, checked against the `protobuf` package; test_textfile.py has more."""

from __future__ import annotations

from typing import Any

import onnx
import pytest
from google.protobuf import text_format
from hypothesis import given, settings
from hypothesis import strategies as st

from formats.codecs.contract import Match
from formats.errors import DecodeError
from formats.ir import model as ir
from formats.onnxpb.codecs import TEXT_CODEC
from formats.onnxpb.text import textproto
from formats.tensordata.sources.source import Literal
from tests.onnxpb.protos import encoded

# Printing


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
    """Each kind of value is printed like this, and the line is parsed to the same message."""
    assert f"{line}\n" == textproto.to_text(message)
    assert f"{line}\n" == textproto.to_text(textproto.parse_text(line, type(message)))


def test_fields_that_are_there() -> None:
    """A message without fields is empty text; an empty field is different from a missing one."""
    assert "" == textproto.to_text(ir.Model())
    assert ir.Model() == textproto.parse_text("", ir.Model) == textproto.parse_text(" # nothing\n", ir.Model)
    assert "graph {\n}\n" == textproto.to_text(ir.Model(graph=ir.Graph()))
    assert ir.Tensor() == textproto.parse_text("float_data: []", ir.Tensor)


# Parsing text that people write

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
    """Every syntax that people use means the same as in protobuf."""
    expected = text_format.Parse(written_text, onnx.NodeProto())
    assert expected.SerializeToString() == encoded(textproto.parse_text(written_text, ir.Node))


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
    """Syntax that the specification allows, but Python's protobuf does not read, is read."""
    assert expected == textproto.parse_text(written_text, ir.Node).attribute


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
    """Text that is not a message is refused, as by protobuf; the error says what was expected, with line and column."""
    with pytest.raises(text_format.ParseError):
        text_format.Parse(written_text, onnx.NodeProto())
    with pytest.raises(DecodeError) as caught:
        textproto.parse_text(written_text, ir.Node)
    assert problem in caught.value.message


@pytest.mark.parametrize("escape", [r"\q", r"\8", r"\400"])
def test_escapes_that_do_not_exist_are_refused(escape: str) -> None:
    """A backslash before any other character is an error, although Python's protobuf accepts some."""
    with pytest.raises(DecodeError) as caught:
        textproto.parse_text(f"name: '{escape}'", ir.Node)
    assert "the string has an escape that does not exist" in caught.value.message


def test_members_of_a_oneof_exclude_each_other() -> None:
    """A dimension has a value or a name, not both."""
    with pytest.raises(DecodeError, match="dim_param and dim_value exclude each other"):
        textproto.parse_text("dim_value: 1 dim_param: 'n'", ir.Dimension)


def test_errors_say_where() -> None:
    """An error names the dotted place, and the line and column in a long text."""
    with pytest.raises(DecodeError) as caught:
        textproto.parse_text(
            "graph {\n  node {}\n  node {\n    attribute { ints: 1 ints: 2 ints: x }\n  }\n}", ir.Model
        )
    assert "graph.node[1].attribute[0].ints[2]" == caught.value.where
    assert "(line 4, column 39)" in caught.value.message


@settings(max_examples=300)
@given(st.text(st.sampled_from("abgiknmoruty_:{}<>[]'\"\\#\n ,;-.019exinf"), max_size=40), st.booleans())
def test_any_text_gives_a_message_or_a_decode_error(content: str, in_message: bool) -> None:
    """Arbitrary text raises only DecodeError."""
    try:
        textproto.parse_text(f"attribute {{ {content}" if in_message else content, ir.Node)
    except DecodeError:
        pass


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
