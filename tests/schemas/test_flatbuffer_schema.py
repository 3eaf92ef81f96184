"""What the reader of our FlatBuffers schemas understands, what it generates, and what it refuses, with the line."""

from __future__ import annotations

import re
from typing import Any

import flatbuffer_schema
import pytest

TEXT = """
/// A comment.
enum Color : ubyte { Red = 0, Green = 5 }  // another
table Leaf {}
table Tree {
  size: uint = 3;
  ratio: float = -0.5;
  tall: bool = true;
  color: Color;
  leaf_color: Color = null;
  age: int = null;
  any: Either (required);
  name: string;
  leaves: [Leaf];
  rings: [double] (required, in_place);
  notes: [string] (binary);
  nests: [Nest];
}
struct Nest { height: float; eggs: uint; }
union Either { Leaf, Tree, }
root_type Tree;
file_identifier "TREE";
"""


def generated(text: str) -> dict[str, Any]:
    """Return the names that are defined in the module that is generated from a text."""
    names: dict[str, Any] = {"__name__": "generated"}
    exec(flatbuffer_schema.generate(text), names)
    return names


def test_everything_becomes_a_row() -> None:
    """A union takes two slots, an enum's default is its member 0, and null makes a scalar optional."""
    names = generated(TEXT)
    assert names["ENUMS"] == {"Color": ("ubyte", {"Red": 0, "Green": 5})}
    assert names["STRUCTS"] == {"Nest": ("float", "uint")}
    assert names["UNIONS"] == {"Either": ("Leaf", "Tree")}
    assert names["TABLES"] == {
        "Leaf": (),
        "Tree": (
            (0, "size", "uint", 3, False, False, False, False),
            (1, "ratio", "float", -0.5, False, False, False, False),
            (2, "tall", "bool", True, False, False, False, False),
            (3, "color", "Color", "Red", False, False, False, False),
            (4, "leaf_color", "Color", None, False, True, False, False),
            (5, "age", "int", None, False, True, False, False),
            (6, "any", "Either", None, True, False, False, False),
            (8, "name", "string", None, False, False, False, False),
            (9, "leaves", "[Leaf]", None, False, False, False, False),
            (10, "rings", "[double]", None, True, False, True, False),
            (11, "notes", "[string]", None, False, False, False, True),
            (12, "nests", "[Nest]", None, False, False, False, False),
        ),
    }


def test_long_enums_are_one_member_a_line() -> None:
    """An enum that does not fit on a line is formatted as the formatter does it."""
    members = [f"Member{number} = {number}" for number in range(9)]
    text = flatbuffer_schema.generate(f"enum Long : ushort {{ {', '.join(members)} }}")
    assert '    "Long": Enum(\n        "ushort",\n        {\n            "Member0": 0,\n' in text
    assert max(map(len, text.splitlines())) <= 120


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("table T { a: int }", 1, "found }, expected ;"),
        ("table T {\n a: int\n", 3, "found the end of the text, expected ;"),
        ("service S {}", 1, "found service, expected table or enum"),
        ("struct S { a: long; }", 1, "found long, expected int or uint or float"),
        ("struct S { a: int; } table T { a: S; }", 1, "no type S is declared"),
        ("table T { a: int (deprecated); }", 1, "found deprecated, expected required"),
        ("table T { a: §; }", 1, "nothing in a schema starts with"),
        ("table T {}\ntable T {}", 2, "T is declared already"),
        ("table int {}", 1, "int is declared already"),
        ("table T { a: int;\n a: int; }", 2, "T has a field a already"),
        ("table T { a: U; }", 1, "no type U is declared"),
        ("enum E : byte { A = 0 } table T { a: [E]; }", 1, "a vector of E"),
        ("union U { T }", 1, "no table T is declared"),
        ("table T {} union U { T,\n T }", 2, "U has a member T already"),
        ("enum E : float { A = 0 }", 1, "found float, expected byte"),
        ("enum E : byte { A = 0, B = 0 }", 1, "E has B or 0 already"),
        ("enum E : byte { A = 0 B = 1 }", 1, "found B, expected ,"),
        ("enum E : byte { A = 1 } table T { a: E; }", 1, "no member 0 to be the default of a"),
        ("enum E : byte { A = 0 } table T { a: E = B; }", 1, "no member B"),
        ("table T { a: int = 0.5; }", 1, "0.5 is not a int"),
        ("table T { a: bool = 1; }", 1, "1 is not a bool"),
        ("table T { a: float = true; }", 1, "true is not a float"),
        ("table T { a: string = null; }", 1, "a is not a scalar and can have no default"),
        ("table T { a: [int] = 1; }", 1, "a is not a scalar and can have no default"),
        ("table T { a: int (required); }", 1, "a is a scalar and cannot be required"),
        ("table T { a: [T] (in_place); }", 1, "a is not a vector of scalars and cannot be in place"),
        ("table T { a: [ubyte] (binary); }", 1, "a is not a string and cannot be binary"),
    ],
)
def test_refused(text: str, line: int, message: str) -> None:
    """Errors, and parts of the language that we do not support, are reported with their line."""
    with pytest.raises(ValueError, match=f"^line {line}: .*{re.escape(message)}"):
        flatbuffer_schema.generate(text)
