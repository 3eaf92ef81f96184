"""The part of the FlatBuffers schema language that our schemas use, and the Python module made from each.

All other parts of the language (services, namespaces, includes, attributes except `required` and two of our own) are
refused, with the line.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NamedTuple

from tokens import LINE_LENGTH, SchemaError, Token, TokenReader, tuple_entry

INTEGERS = {"byte", "ubyte", "short", "ushort", "int", "uint", "long", "ulong"}
FLOATS = {"float", "double"}
SCALARS = INTEGERS | FLOATS | {"bool"}

_TOKEN = re.compile(
    r"""(?P<space>[ \t\r\n]+|//[^\n]*)
    |(?P<word>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<number>-?[0-9]+(\.[0-9]+)?(?![A-Za-z0-9_.]))
    |(?P<string>"[^"\\\n]*")
    |(?P<mark>[{}()\[\]:;=,])""",
    re.VERBOSE,
)

HEADER = '''"""The tables, enums and unions of {article} .{format} file as rows: what is in each slot of each table.

Generated from schemas/{format}.fbs by `python schemas/generate.py`; change that file, not this one.
"""

from __future__ import annotations

from formats.flatbuffer.rows import Enum, TableField

'''
ATTRIBUTES = ("required", "in_place", "binary")  # `TableField` says what they mean


class Field(NamedTuple):
    """One field as written: `default` is the text after the equals sign, empty if there is none."""

    name: str
    type: str
    default: str
    attributes: tuple[str, ...]
    line: int


@dataclass
class Schema:
    """The declarations of the text, by name and in its order."""

    tables: dict[str, list[Field]] = field(default_factory=dict)
    enums: dict[str, tuple[str, dict[str, int]]] = field(default_factory=dict)
    unions: dict[str, list[Token]] = field(default_factory=dict)
    structs: dict[str, list[str]] = field(default_factory=dict)  # the types of their members


def generate(source_text: str, file_format: str = "rten") -> str:
    """Return the text of the module of rows for the text of the schema of a format.

    Raises: SchemaError if the text is not a schema, or uses more of the language than this module supports.
    """
    schema = parse(source_text)
    lines = ["TABLES: dict[str, tuple[TableField, ...]] = {"]
    for name, fields in schema.tables.items():
        lines += tuple_entry(name, _rows(fields, schema))
    lines += ["}", "", "ENUMS: dict[str, Enum] = {"]
    for name, (base, values) in schema.enums.items():
        lines += _enum_lines(name, base, [f'"{member}": {value}' for member, value in values.items()])
    lines += ["}", "", "# The tag of a member is its place, counted from 1."]
    lines += ["UNIONS: dict[str, tuple[str, ...]] = {"]
    for name, members in schema.unions.items():
        lines += tuple_entry(name, [f'"{member.text}"' for member in members])
    lines += ["}", ""]
    if schema.structs:
        lines += ["# The types of the members, each of 4 bytes.", "STRUCTS: dict[str, tuple[str, ...]] = {"]
        for name, types in schema.structs.items():
            lines += tuple_entry(name, [f'"{type_name}"' for type_name in types])
        lines += ["}", ""]
    return HEADER.format(format=file_format, article="an" if file_format[0] in "aeiou" else "a") + "\n".join(lines)


def _rows(fields: list[Field], schema: Schema) -> list[str]:
    rows = []
    slot = 0
    for row in fields:
        arguments = [str(slot), f'"{row.name}"', f'"{row.type}"']
        if row.type in SCALARS or row.type in schema.enums:
            arguments.append("optional=True" if row.default == "null" else _default(row, schema))
        arguments += [f"{attribute}=True" for attribute in ATTRIBUTES if attribute in row.attributes]
        rows.append(f"TableField({', '.join(arguments)})")
        slot += 2 if row.type in schema.unions else 1
    return rows


def _default(row: Field, schema: Schema) -> str:
    """Return the default of a scalar in Python's notation; the value 0 if the schema has none."""
    if row.type in schema.enums:
        values = schema.enums[row.type][1]
        default = row.default or next((name for name, value in values.items() if value == 0), "")
        if default not in values:
            raise SchemaError(row.line, f"{row.type} has no member {default or 0} to be the default of {row.name}")
        return f'"{default}"'
    try:
        if row.type == "bool":
            return {"": "False", "false": "False", "true": "True"}[row.default]
        return str(float(row.default or 0) if row.type in FLOATS else int(row.default or 0))
    except (KeyError, ValueError):
        raise SchemaError(row.line, f"{row.default} is not a {row.type}") from None


def _enum_lines(name: str, base: str, items: list[str]) -> list[str]:
    one_line = f'    "{name}": Enum("{base}", {{{", ".join(items)}}}),'
    if len(one_line) <= LINE_LENGTH:
        return [one_line]
    members = [f"            {item}," for item in items]
    return [f'    "{name}": Enum(', f'        "{base}",', "        {", *members, "        },", "    ),"]


def parse(source_text: str) -> Schema:
    """Return the declarations of the text, after a check that every type exists and fits its place.

    Raises: SchemaError if the text is not a schema, or uses more of the language than this module supports.
    """
    schema = _Parser(source_text).schema()
    for fields in schema.tables.values():
        for row in fields:
            _check_field(row, schema)
    for members in schema.unions.values():
        for member in members:
            if member.text not in schema.tables:
                raise SchemaError(member.line, f"no table {member.text} is declared")
    return schema


def _check_field(row: Field, schema: Schema) -> None:
    element = row.type.strip("[]")
    is_vector = element != row.type
    is_scalar = element in SCALARS or element in schema.enums
    is_known = is_scalar or element == "string" or element in {**schema.tables, **schema.unions, **schema.structs}
    if not is_known or (element in schema.structs and not is_vector):
        raise SchemaError(row.line, f"no type {element} is declared")
    if is_vector and (element in schema.enums or element in schema.unions):
        raise SchemaError(row.line, f"a vector of {element} is more than this module reads")
    if row.default and (is_vector or not is_scalar):
        raise SchemaError(row.line, f"{row.name} is not a scalar and can have no default")
    if "required" in row.attributes and is_scalar and not is_vector:
        raise SchemaError(row.line, f"{row.name} is a scalar and cannot be required")
    if "in_place" in row.attributes and not (is_vector and element in SCALARS):
        raise SchemaError(row.line, f"{row.name} is not a vector of scalars and cannot be in place")
    if "binary" in row.attributes and element != "string":
        raise SchemaError(row.line, f"{row.name} is not a string and cannot be binary")


class _Parser(TokenReader):
    """Reads declarations one after another."""

    def __init__(self, source_text: str) -> None:
        super().__init__(source_text, _TOKEN)
        self._schema = Schema()

    def schema(self) -> Schema:
        """Return everything that the text declares; types are as written."""
        while self._next.kind != "end":
            keyword = self._expect("table", "enum", "union", "struct", "root_type", "file_identifier")
            if keyword == "table":
                self._table()
            elif keyword == "enum":
                self._enum()
            elif keyword == "union":
                self._union()
            elif keyword == "struct":
                self._struct()
            else:
                self._take("word" if keyword == "root_type" else "string")
                self._expect(";")
        return self._schema

    def _declare(self) -> str:
        """Return the name of the next table, enum or union, which must be new."""
        token = self._take("word")
        schema = self._schema
        known = (*schema.tables, *schema.enums, *schema.unions, *schema.structs, *SCALARS, "string")
        if token.text in known:
            raise SchemaError(token.line, f"{token.text} is declared already")
        return token.text

    def _table(self) -> None:
        name = self._declare()
        fields = self._schema.tables[name] = []
        self._expect("{")
        while not self._accept("}"):
            row = self._field()
            if any(row.name == other.name for other in fields):
                raise SchemaError(row.line, f"{name} has a field {row.name} already")
            fields.append(row)

    def _field(self) -> Field:
        name = self._take("word")
        self._expect(":")
        is_vector = self._accept("[")
        type_name = self._take("word").text
        if is_vector:
            self._expect("]")
            type_name = f"[{type_name}]"
        default = ""
        if self._accept("="):
            default = self._take("number" if self._next.kind == "number" else "word").text
        attributes = []
        if self._accept("("):
            attributes.append(self._expect(*ATTRIBUTES))
            while self._accept(","):
                attributes.append(self._expect(*ATTRIBUTES))
            self._expect(")")
        self._expect(";")
        return Field(name.text, type_name, default, tuple(attributes), name.line)

    def _struct(self) -> None:
        """Read a struct; all its members take 4 bytes, so that it has no padding."""
        types = self._schema.structs[self._declare()] = []
        self._expect("{")
        while not self._accept("}"):
            self._take("word")
            self._expect(":")
            types.append(self._expect("int", "uint", "float"))
            self._expect(";")

    def _enum(self) -> None:
        name = self._declare()
        self._expect(":")
        base = self._expect(*sorted(INTEGERS))
        values: dict[str, int] = {}
        self._schema.enums[name] = (base, values)
        self._expect("{")
        while not self._accept("}"):
            member = self._take("word")
            self._expect("=")
            value = int(self._take("number").text)
            if member.text in values or value in values.values():
                raise SchemaError(member.line, f"{name} has {member.text} or {value} already")
            values[member.text] = value
            self._separator()

    def _union(self) -> None:
        name = self._declare()
        members = self._schema.unions[name] = []
        self._expect("{")
        while not self._accept("}"):
            member = self._take("word")
            if any(member.text == other.text for other in members):
                raise SchemaError(member.line, f"{name} has a member {member.text} already")
            members.append(member)
            self._separator()

    def _separator(self) -> None:
        """Skip the comma between members; the last one need not have one."""
        if self._next.text != "}":
            self._expect(",")
