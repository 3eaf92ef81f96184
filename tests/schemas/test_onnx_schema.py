"""What the reader of onnx.proto understands, and what it refuses, with the line."""

from __future__ import annotations

import re
from pathlib import Path

import onnx_schema
import pytest
from tokens import SchemaError

ROOT = Path(__file__).resolve().parents[2]
HEAD = 'syntax = "proto2";\npackage p;\n'


def rows(schema: onnx_schema.Schema, name: str) -> list[tuple[object, ...]]:
    """Return the fields of a message without their lines."""
    return [tuple(row)[:-1] for row in schema.messages[name].fields]


def test_fields_come_in_order_of_number() -> None:
    """Labels, packed and oneof are read, and the order in the text does not matter."""
    schema = onnx_schema.parse(
        HEAD + "message M { repeated int64 c = 0x10 [packed = true]; required bytes b = 3;\n"
        "oneof which { string a = 2; float d = 1; } }"
    )
    assert rows(schema, "M") == [
        (1, "d", "float", "optional", "", False, "which"),
        (2, "a", "string", "optional", "", False, "which"),
        (3, "b", "bytes", "required", "", False, ""),
        (16, "c", "int64", "repeated", "", True, ""),
    ]


def test_the_innermost_type_of_a_name_is_meant() -> None:
    """A nested declaration hides an outer one, even if it comes later."""
    schema = onnx_schema.parse(
        HEAD + "message T {} message M { optional T a = 1; optional M.T b = 2; enum T { Z = -1; }\n"
        "message N { optional T c = 1; } } message O { optional T d = 1; }"
    )
    assert [row[2:5] for row in rows(schema, "M")] == [("enum", "optional", "M.T")] * 2
    assert [row[2:5] for row in rows(schema, "M.N")] == [("enum", "optional", "M.T")]
    assert [row[2:5] for row in rows(schema, "O")] == [("message", "optional", "T")]
    assert schema.enums == {"M.T": {"Z": -1}}


def test_comments_are_space() -> None:
    """Both kinds of comment are allowed between any two tokens."""
    schema = onnx_schema.parse(HEAD + "message/* { */M // }\n{ optional/**/int32 a\n= 1; /* \n */ }")
    assert rows(schema, "M") == [(1, "a", "int32", "optional", "", False, "")]


@pytest.mark.parametrize(
    ("line", "text", "found"),
    [
        (1, 'syntax = "proto3";', 'found "proto3", expected "proto2"'),
        (1, "message M {}", "found message, expected syntax"),
        (1, "", "found the end of the text, expected syntax"),
        (3, HEAD + 'import "q.proto";', "found import, expected message or enum"),
        (3, HEAD + "message M {", "found the end of the text"),
        (3, HEAD + "message M {}}", "found }, expected message or enum"),
        (3, HEAD + "message A.B {}", "found A.B, expected a name without dots"),
        (4, HEAD + "message M {}\nenum M {}", "M is declared already"),
        (4, HEAD + "message M {\nint32 a = 1; }", "found int32, expected message"),
        (4, HEAD + "message M {\nextensions 4; }", "found extensions, expected message"),
        (4, HEAD + "message M {\noptional int32 a; }", "found ;, expected ="),
        (4, HEAD + "message M {\noptional int32 a = one; }", "found one, expected a number"),
        (4, HEAD + "message M {\noptional int32 a = 010; }", "nothing in a schema starts with '010"),
        (4, HEAD + "message M {\noptional int32 a = 0; }", "0 is not a number that a field can have"),
        (4, HEAD + "message M {\noptional int32 a = -1; }", "-1 is not a number"),
        (4, HEAD + "message M {\noptional int32 a = 19500; }", "19500 is not a number"),
        (4, HEAD + "message M {\noptional int32 a = 0x20000000; }", "536870912 is not a number"),
        (4, HEAD + "message M {\noptional int32 a = 1 [default = 3]; }", "found default, expected packed"),
        (4, HEAD + "message M {\noptional int32 a = 1 [packed = true]; }", "a cannot be packed"),
        (4, HEAD + "message M {\nrepeated bytes a = 1 [packed = true]; }", "a cannot be packed"),
        (4, HEAD + "message M {\noptional Other a = 1; }", "no type Other is declared"),
        (4, HEAD + "message M { optional int32 a = 1;\noptional int32 b = 1; }", "b or 1 already"),
        (4, HEAD + "message M { optional int32 a = 1;\noptional int32 a = 2; }", "a or 2 already"),
        (5, HEAD + "message M {\nreserved 2, 4 to 6;\noptional int32 a = 6; }", "M reserves a or 6"),
        (5, HEAD + 'message M {\nreserved "a", "b";\noptional int32 b = 1; }', "M reserves b or 1"),
        (4, HEAD + "message M { oneof o {\noptional int32 a = 1; } }", "found a, expected ="),
        (5, HEAD + "enum E {\nA = 0;\nB = 0; }", "E has B or 0 already"),
        (5, HEAD + "enum E {\nA = 0;\nA = 1; }", "E has A or 1 already"),
        (3, HEAD + "/* never closed", "nothing in a schema starts with '/* never"),
        (3, HEAD + "\f", "nothing in a schema starts with"),
    ],
)
def test_malformed_text_is_refused_with_its_line(line: int, text: str, found: str) -> None:
    """The message begins with the line, counted from 1, and says what is there."""
    with pytest.raises(SchemaError) as caught:
        onnx_schema.parse(text)
    assert str(caught.value).startswith(f"line {line}: ")
    assert found in str(caught.value)


def test_the_real_text_cut_inside_a_declaration_is_refused() -> None:
    """If a declaration is not closed, this is a SchemaError at the last line, and no other error."""
    text = (ROOT / "schemas/onnx.proto").read_text("utf-8")
    for match in re.finditer("{", text):
        with pytest.raises(SchemaError, match="found the end of the text") as caught:
            onnx_schema.parse(text[: match.end()])
        assert str(caught.value).startswith(f"line {text.count(chr(10), 0, match.end()) + 1}: ")
