"""What the reader of FlatBuffers schemas understands, and what it refuses."""

from __future__ import annotations

import re

import pytest

from formats.flatbuffer.rows import RefusalWords, Schema, read_schema

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


def schema_of(text: str) -> Schema:
    """Return the schema with this text."""
    return read_schema(text, RefusalWords("", "", "", "", ""))


def test_everything_becomes_a_row() -> None:
    """A union takes two slots, an enum's default is its member 0, and null makes a scalar optional."""
    schema = schema_of(TEXT)
    assert (schema.root, schema.identifier) == ("Tree", b"TREE")
    assert schema.enums == {"Color": ("ubyte", {"Red": 0, "Green": 5})}
    assert schema.structs == {"Nest": ("float", "uint")}
    assert schema.unions == {"Either": ("Leaf", "Tree")}
    assert schema.tables == {
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


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("table T { a: int", "a declaration that cannot be read"),
        ("service S {}", "a declaration that cannot be read: 'service S"),
        ("table T { a int; }", "a part that cannot be read: 'a int'"),
        ("table T { a: int b: int; }", "a part that cannot be read"),
        ("enum E : byte { A, B = 0 }", "a part that cannot be read: 'A'"),
        ("table T { a: U; }", "does not declare U"),
        ("union U { T }", "does not declare T"),
        ("table T { a: int = 0.5; }", "0.5"),
        ("table T { a: int (deprecated); }", "deprecated"),
    ],
)
def test_refused(text: str, message: str) -> None:
    """What is not of the language, or not of the part that the formats need, is refused."""
    with pytest.raises((ValueError, TypeError), match=re.escape(message)):
        schema_of(text)
