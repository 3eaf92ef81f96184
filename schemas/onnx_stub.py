"""The Python stub with the types of the message classes, made from `onnx.proto`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from onnx_schema import Field, Message, Schema, parse

HEADER = '''"""The types of the message classes, which `classes.py` makes from the schema when it is imported.

Generated from schemas/onnx.proto by `python schemas/generate.py`; change that file, not this one.
"""
# ruff: noqa - a table, with the names of ONNX and a line for each, however long
# fmt: off

from collections.abc import Iterable
from typing import Any, ClassVar, Literal, TypeVar, overload

from formats.ir.model import Model, Tensor
from formats.onnx_compat.protos.containers import RepeatedMessages, RepeatedNumbers, RepeatedScalars
from formats.onnx_compat.protos.descriptor import EnumDescriptor
from formats.onnx_compat.protos.message import ProtoMessage

E = TypeVar("E")

class EnumType(type):
    DESCRIPTOR: EnumDescriptor
    def Name(cls, number: int) -> str: ...
    def Value(cls: type[E], name: str) -> E: ...
    def keys(cls) -> list[str]: ...
    def values(cls: type[E]) -> list[E]: ...
    def items(cls: type[E]) -> list[tuple[str, E]]: ...

CLASSES: dict[str, type[ProtoMessage]]

@overload
def wrap(ir: Model) -> ModelProto: ...
@overload
def wrap(ir: Tensor) -> TensorProto: ...
@overload
def wrap(ir: Any) -> Any: ...
@overload
def unwrap(message: ModelProto | Model) -> Model: ...
@overload
def unwrap(message: Any) -> Any: ...
'''

PYTHON_TYPES = {"string": "str", "bytes": "bytes", "float": "float", "double": "float"}  # any other scalar: int
IN_PLACE = {"float_data", "int32_data", "int64_data", "double_data", "uint64_data"}  # numbers that stay packed


def generate(source_text: str) -> str:
    """Return the text of `formats/onnx_compat/protos/classes.pyi` for the text of `onnx.proto`.

    Raises: SchemaError if the text is not proto2, or uses more of it than this module supports.
    """
    schema = parse(source_text)
    lines = []
    for name in schema.enums:
        if "." not in name:
            lines += ["", *_enum(name, schema)]
            lines += [f"{value}: {name}" for value in schema.enums[name]]
    for name in schema.messages:
        if "." not in name:
            lines += ["", *_message(name, schema)]
    return HEADER + "\n".join(lines) + "\n"


def _indented(lines: Iterator[str] | list[str]) -> list[str]:
    return [f"    {line}" if line else "" for line in lines]


def _enum(name: str, schema: Schema) -> list[str]:
    values = [f"{value}: ClassVar[{name}]" for value in schema.enums[name]]
    return [f"class {name.rpartition('.')[2]}(int, metaclass=EnumType):", *_indented(values), ""]


def _message(name: str, schema: Schema) -> list[str]:
    """The class of a message, with its inner declarations."""
    message = schema.messages[name]
    lines: list[str] = []
    for enum in _inside(name, schema.enums):
        lines += _enum(enum, schema)
        lines += [f"{value}: ClassVar[{enum}]" for value in schema.enums[enum]]
    for inner in _inside(name, schema.messages):
        lines += [*_message(inner, schema), ""]
    lines += [f"{row.name.upper()}_FIELD_NUMBER: ClassVar[Literal[{row.number}]]" for row in message.fields]
    for row in message.fields:
        lines += _field(row)
    arguments = "".join(f", {row.name}: {_given(row)} | None = ..." for row in message.fields)
    lines.append(f"def __init__(self, *{arguments}) -> None: ...")
    return [f"class {name.rpartition('.')[2]}(ProtoMessage):", *_indented([*lines, *_presence(message)])]


def _inside(scope: str, names: Mapping[str, object]) -> list[str]:
    """The names that are declared directly inside `scope`."""
    return [name for name in names if name.rpartition(".")[0] == scope]


def _value(row: Field) -> str:
    """The type of one value of a field."""
    return row.type_name or PYTHON_TYPES.get(row.kind, "int")


def _field(row: Field) -> list[str]:
    """The field as a member: it can be assigned only if it is neither a message nor repeated."""
    if row.label == "repeated":
        kind = "Messages" if row.kind == "message" else "Numbers" if row.name in IN_PLACE else "Scalars"
        return ["@property", f"def {row.name}(self) -> Repeated{kind}[{_value(row)}]: ..."]
    if row.kind == "message":
        return ["@property", f"def {row.name}(self) -> {_value(row)}: ..."]
    return [
        *("@property", f"def {row.name}(self) -> {_value(row)}: ..."),
        *(f"@{row.name}.setter", f"def {row.name}(self, value: {_value(row)}) -> None: ..."),
    ]


def _given(row: Field) -> str:
    """The type of a constructor's argument for a field."""
    other = {"message": " | dict[str, Any]", "enum": " | str"}.get(row.kind, "")
    return f"Iterable[{_value(row)}{other}]" if row.label == "repeated" else _value(row) + other


def _presence(message: Message) -> list[str]:
    """The methods with the name of a field or oneof as argument, with the possible names."""
    oneofs: dict[str, list[str]] = {}
    for row in message.fields:
        if row.oneof:
            oneofs.setdefault(row.oneof, []).append(row.name)
    singular = [row.name for row in message.fields if row.label != "repeated"] + list(oneofs)
    every = [row.name for row in message.fields] + list(oneofs)
    lines = [f"def HasField(self, name: {_literal(singular)}) -> bool: ..."] if singular else []
    lines.append(f"def ClearField(self, name: {_literal(every)}) -> None: ...")
    for oneof, names in oneofs.items():
        lines.append(f"def WhichOneof(self, name: {_literal([oneof])}) -> {_literal(names)} | None: ...")
    return lines


def _literal(names: list[str]) -> str:
    quoted = [f'"{name}"' for name in names]
    return f"Literal[{', '.join(quoted)}]"
