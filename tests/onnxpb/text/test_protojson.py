"""Tests of protobuf's JSON mapping, checked against the `protobuf` package; test_textfile.py has more."""

from __future__ import annotations

import json
import math
from typing import Any

import onnx
import pytest
from google.protobuf import json_format
from hypothesis import given, settings
from hypothesis import strategies as st

from formats.codecs.contract import Match
from formats.errors import DecodeError, EncodeError, LimitError
from formats.ir import model as ir
from formats.onnxpb.codecs import JSON_CODEC
from formats.onnxpb.text import protojson
from formats.onnxpb.wire.schema import MESSAGES
from formats.tensordata.sources.source import Literal
from tests.onnxpb.protos import CLASSES, encoded, message_type

LARGEST_FLOAT = 3.4028234663852886e38
# Printing


@pytest.mark.parametrize(
    ("message", "member"),
    [
        (ir.Attribute(f=0.1), '"f": 0.1'),
        (ir.Attribute(f=1 / 3), '"f": 0.33333334'),
        (ir.Attribute(f=LARGEST_FLOAT), '"f": 3.4028235e+38'),
        (ir.Attribute(f=1.0), '"f": 1.0'),
        (ir.Attribute(f=math.inf), '"f": "Infinity"'),
        (ir.Attribute(f=-1e39), '"f": "-Infinity"'),
        (ir.Attribute(f=math.nan), '"f": "NaN"'),
        (ir.Attribute(i=-5), '"i": "-5"'),
        (ir.Tensor(data_type=-5), '"data_type": -5'),
        (ir.Attribute(type=2), '"type": "INT"'),
        (ir.Attribute(type=20), '"type": 20'),
        (ir.Attribute(s=b"\xff\xfe?"), '"s": "//4/"'),
        (ir.Attribute(s=b""), '"s": ""'),
        (ir.Node(name='ä"\\\n😀'), '"name": "\\u00e4\\"\\\\\\n\\ud83d\\ude00"'),
        (ir.Tensor(double_data=Literal(b"\0\0\0\0\0\0\xf8\x3f")), '"double_data": [\n    1.5\n  ]'),
        (ir.Tensor(uint64_data=Literal(b"\xff" * 9 + b"\x01")), '"uint64_data": [\n    "18446744073709551615"\n  ]'),
        (ir.Model(graph=ir.Graph()), '"graph": {}'),
    ],
)
def test_values_and_their_text(message: Any, member: str) -> None:
    """Each kind of value is printed like this, and the text is parsed to the same message."""
    printed = f"{{\n  {member}\n}}"
    assert printed == protojson.to_json(message)
    assert printed == protojson.to_json(protojson.parse_json(printed, type(message)))


def test_strings_that_are_not_utf8_are_refused() -> None:
    """JSON cannot express a name that is not UTF-8."""
    with pytest.raises(EncodeError, match="does not fit its type or JSON"):
        protojson.to_json(ir.Node(name=b"\xe9t".decode("utf-8", "surrogateescape")))


# Parsing


@pytest.mark.parametrize("name", MESSAGES)
def test_names_have_two_spellings(name: str) -> None:
    """The JSON name of a field in protobuf means the same field as its name in onnx.proto; both exclude each other."""
    for field in message_type(name).DESCRIPTOR.fields:
        names = {field.json_name: None}
        assert CLASSES[name]() == protojson.parse_json(json.dumps(names), CLASSES[name])
        if field.name != field.json_name:
            with pytest.raises(DecodeError, match=f"{field.name} is there twice"):
                protojson.parse_json(json.dumps({**names, field.name: None}), CLASSES[name])


WRITTEN = [
    '{"op_type": "a", "docString": "b"}',
    '{"opType": "a", "doc_string": "b"}',
    '{"name": "\\u00e4\\ud83d\\ude00", "domain": "ä"}',
    '{"name": null, "input": null, "attribute": null}',
    '{"attribute": [{"i": 5}, {"i": "5"}, {"i": 5.0}, {"i": "-5"}, {"i": 1e3}, {"i": "1e3"}, {"i": "2.50e1"}]}',
    '{"attribute": [{"i": "9223372036854775807", "ints": [-9223372036854775808, 9007199254740993]}]}',
    '{"attribute": [{"f": 5}, {"f": "5"}, {"f": 0.1}, {"f": "0.1"}, {"f": "-1.5e3"}, {"f": 1e-60}]}',
    '{"attribute": [{"f": "Infinity"}, {"f": "-Infinity"}, {"floats": ["Infinity", 0.25, "7"]}]}',
    '{"attribute": [{"type": "INTS"}, {"type": 7}, {"type": "7"}]}',
    '{"attribute": [{"s": "/+8="}, {"s": "_-8="}, {"s": "_-8"}, {"s": "//4/"}, {"s": ""}]}',
    " {\r\n} ",
]


@pytest.mark.parametrize("written_text", WRITTEN)
def test_json_of_others_is_parsed_as_protobuf_does(written_text: str) -> None:
    """Every form that the mapping allows means the same as in protobuf."""
    expected = json_format.Parse(written_text, onnx.NodeProto())
    assert expected.SerializeToString() == encoded(protojson.parse_json(written_text, ir.Node))


def test_largest_float() -> None:
    """The largest number of 32 bits is read as it is printed, rounded to 8 digits; protobuf refuses it."""
    assert LARGEST_FLOAT == protojson.parse_json('{"f": 3.4028235e+38}', ir.Attribute).f


@pytest.mark.parametrize(
    ("written_text", "where", "problem"),
    [
        ("", None, "the text is not JSON: Expecting value (line 1, column 1)"),
        ('{"name":\n  5x}', None, "the text is not JSON: Expecting ',' delimiter (line 2, column 4)"),
        ('{"attribute": [{"f": NaN}]}', None, "NaN must be in quotes"),
        ('{"attribute": [{"f": -Infinity}]}', None, "-Infinity must be in quotes"),
        ('"a"', None, 'expected an object with the fields of NodeProto, found "a"'),
        ('{"nam": "a"}', None, "NodeProto has no field 'nam'"),
        ('{"OpType": "a"}', None, "NodeProto has no field 'OpType'"),
        ('{"name": "a", "name": "b"}', None, "name is there twice"),
        ('{"input": "a"}', None, 'expected a list for input, found "a"'),
        ('{"input": {}}', None, "expected a list for input, found an object"),
        ('{"input": ["a", null]}', "input[1]", "expected text, found null"),
        ('{"name": 5}', "name", "expected text, found 5"),
        ('{"name": ["a"]}', "name", "expected text, found a list"),
        ('{"name": "\\ud800"}', "name", "expected text, found"),
        ('{"attribute": [null]}', "attribute[0]", "expected an object with the fields of AttributeProto, found null"),
        ('{"attribute": [{"g": [{}]}]}', "attribute[0].g", "found a list"),
        ('{"attribute": [{"i": 1.5}]}', "attribute[0].i", "expected an int64, found 1.5"),
        ('{"attribute": [{"i": true}]}', "attribute[0].i", "expected an int64, found true"),
        ('{"attribute": [{"i": " 5"}]}', "attribute[0].i", 'expected an int64, found " 5"'),
        ('{"attribute": [{"i": "5x"}]}', "attribute[0].i", 'expected an int64, found "5x"'),
        ('{"attribute": [{"i": ""}]}', "attribute[0].i", 'expected an int64, found ""'),
        ('{"attribute": [{"i": "0x5"}]}', "attribute[0].i", 'expected an int64, found "0x5"'),
        ('{"attribute": [{"i": [5]}]}', "attribute[0].i", "expected an int64, found a list"),
        (
            '{"attribute": [{"i": 9223372036854775808}]}',
            "attribute[0].i",
            "expected an int64, found 9223372036854775808",
        ),
        ('{"attribute": [{"ints": [0, "1e400"]}]}', "attribute[0].ints[1]", 'expected an int64, found "1e400"'),
        ('{"attribute": [{"f": "x"}]}', "attribute[0].f", "expected a float number"),
        ('{"attribute": [{"f": ""}]}', "attribute[0].f", "expected a float number"),
        ('{"attribute": [{"f": 1e39}]}', "attribute[0].f", "found 1e+39"),
        ('{"attribute": [{"f": 1e999}]}', "attribute[0].f", "expected a float number"),
        ('{"attribute": [{"f": {}}]}', "attribute[0].f", "found an object"),
        ('{"attribute": [{"type": "FLAT"}]}', "attribute[0].type", "a name of AttributeProto.AttributeType"),
        ('{"attribute": [{"s": 5}]}', "attribute[0].s", "expected bytes in base64, found 5"),
        ('{"attribute": [{"s": "A"}]}', "attribute[0].s", 'expected bytes in base64, found "A"'),
    ],
)
def test_wrong_json_is_refused(written_text: str, where: str | None, problem: str) -> None:
    """Text that is not JSON of a message is refused, as by protobuf; the error says what was expected, and where."""
    with pytest.raises((json_format.ParseError, AttributeError)):
        json_format.Parse(written_text, onnx.NodeProto())
    with pytest.raises(DecodeError) as caught:
        protojson.parse_json(written_text, ir.Node)
    assert problem in caught.value.message
    assert where == caught.value.where


@pytest.mark.parametrize(
    ("written_text", "problem"),
    [
        ("[]", "expected an object with the fields of AttributeProto, found a list"),
        ('{"doc_string": "a", "docString": "b"}', "doc_string is there twice"),
        ('{"f": true}', "found true"),
        ('{"f": "inf"}', 'found "inf"'),
        ('{"f": "1e39"}', 'found "1e39"'),
        ('{"f": ' + "9" * 400 + "}", "found 999"),
        ('{"i": ' + "9" * 5000 + "}", "not JSON"),
        ('{"i": "' + "9" * 5000 + '"}', "found"),
        ('{"s": "//4*/"}', "base64"),
        ('{"s": "AA\\u00e4="}', "base64"),
    ],
)
def test_values_that_only_protobuf_takes_are_refused(written_text: str, problem: str) -> None:
    """Values that the mapping does not allow are refused, even if Python's protobuf accepts them."""
    with pytest.raises(DecodeError) as caught:
        protojson.parse_json(written_text, ir.Attribute)
    assert problem in caught.value.message


def test_members_of_a_oneof_exclude_each_other() -> None:
    """A dimension has a value or a name, not both, unless one is null."""
    assert ir.Dimension(dim_value=1) == protojson.parse_json('{"dimParam": null, "dimValue": 1}', ir.Dimension)
    with pytest.raises(DecodeError, match="dim_param and dim_value exclude each other"):
        protojson.parse_json('{"dimValue": 1, "dimParam": "n"}', ir.Dimension)


def test_an_empty_list_is_absent() -> None:
    """An empty repeated field is equal to a missing one, as in the binary format."""
    assert ir.Tensor() == protojson.parse_json('{"floatData": [], "dims": []}', ir.Tensor)


def test_number_of_brackets_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """A small text cannot contain an unlimited number of lists that are not messages."""
    monkeypatch.setattr(protojson, "MAX_BRACKETS", 1000)
    with pytest.raises(LimitError, match="objects and lists"):
        protojson.parse_json("[" + "[]," * 1000 + "0]", ir.Graph)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["i", "s", "ints", "g", "type"]), inner)
    ),
    max_leaves=8,
)


@settings(max_examples=150)
@given(VALUES)
def test_any_json_gives_a_message_or_a_decode_error(value: Any) -> None:
    """Arbitrary JSON raises only DecodeError."""
    try:
        protojson.parse_json(json.dumps(value), ir.Attribute)
    except DecodeError:
        pass


@pytest.mark.parametrize(
    ("head", "match"),
    [
        (b'{\n  "ir_version": "8"', Match.WEAK),
        (b'\xef\xbb\xbf {"opsetImport" :', Match.WEAK),
        (b'{"model_type": "bert"', Match.NONE),
        (b"{}", Match.NONE),
        (b"", Match.NONE),
        (b"graph {", Match.NONE),
        (b"\x08\x0a\x12\x03abc", Match.NONE),
    ],
)
def test_sniffing(head: bytes, match: Match) -> None:
    """An object that begins with a field of a model may be a model; another one, such as a configuration, is not."""
    assert match is JSON_CODEC.sniff(head, 1000)
