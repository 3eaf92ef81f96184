"""The parts of ONNX's messages in the form of protobuf's descriptors: made from the schema's rows.

Also the values that a scalar field accepts: the type and range checks of the Python protobuf runtime, with its
exceptions.

Spec: google.protobuf.descriptor and google.protobuf.internal.enum_type_wrapper (protobuf 7), the parts that programs
use; google.protobuf's descriptor.proto for the numbers of types.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from importlib import import_module
from operator import index
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from formats.ir.model import MESSAGE_CLASSES, SOURCE_FIELDS
from formats.onnxpb.text.textfile import INTEGER_RANGES, to_float
from formats.onnxpb.wire.schema import ENUMS, MESSAGES

if TYPE_CHECKING:
    from collections.abc import Callable

    from formats.onnxpb.wire.schema import MessageField

PACKAGE = "onnx"


class _Kind(NamedTuple):
    """A scalar type: its numbers in descriptors, its value when unset, and a function to the stored value."""

    type: int
    cpp_type: int
    default: Any
    check: Callable[[Any], Any] | None = None


def _integer(value: Any, allowed: range) -> int:
    if isinstance(value, bool):
        raise TypeError("expected an int, got a boolean")
    number = index(value)
    if number not in allowed:
        raise ValueError(f"Value out of range: {number}")
    return number


def _double(value: Any) -> float:
    if hasattr(value, "__len__"):  # texts and arrays, which float() would accept
        raise TypeError(f"must be real number, not {type(value).__name__}")
    return float(value)


def _float(value: Any) -> float:
    return to_float(_double(value))


def _string(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode()
    if not isinstance(value, str):
        raise TypeError(f"expected str, {type(value).__name__} found")
    value.encode()  # refuses half of a surrogate pair
    return str(value)


def _bytes(value: Any) -> bytes:
    if not isinstance(value, bytes):
        raise TypeError(f"expected bytes, {type(value).__name__} found")
    return bytes(value)


_KINDS = {
    "double": _Kind(1, 5, 0.0, _double),
    "float": _Kind(2, 6, 0.0, _float),
    "int64": _Kind(3, 2, 0, partial(_integer, allowed=INTEGER_RANGES["int64"])),
    "uint64": _Kind(4, 4, 0, partial(_integer, allowed=INTEGER_RANGES["uint64"])),
    "int32": _Kind(5, 1, 0, partial(_integer, allowed=INTEGER_RANGES["int32"])),
    "string": _Kind(9, 9, "", _string),
    "message": _Kind(11, 10, None),
    "bytes": _Kind(12, 9, b"", _bytes),
    "enum": _Kind(14, 8, 0),
}


class _LikeTheirs:
    """A descriptor. What ours does not have, such as `GetOptions`, is that of `onnx`, if it is installed."""

    full_name: str

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "full_name":
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self._theirs(), name)

    def _theirs(self) -> Any:
        """The descriptor that `onnx` has registered.

        Raises: AttributeError if it is not installed, or does not have it.
        """
        try:
            import_module("onnx")
            pool = import_module("google.protobuf.descriptor_pool").Default()
            return self._found(pool)
        except (ImportError, KeyError) as error:
            raise AttributeError(f"the descriptor of {self.full_name} needs the package onnx for this") from error

    def _found(self, pool: Any) -> Any:
        raise KeyError(self.full_name)


class EnumValueDescriptor(_LikeTheirs):
    """One name of an enum."""

    has_options: ClassVar[bool] = False

    def __init__(self, name: str, number: int, place: int, enum: EnumDescriptor) -> None:
        self.name = name
        self.number = number
        self.index = place
        self.type = enum
        self.full_name = f"{enum.full_name.rpartition('.')[0]}.{name}"

    def _found(self, pool: Any) -> Any:
        return pool.FindEnumTypeByName(self.type.full_name).values_by_name[self.name]


class FileDescriptor(_LikeTheirs):
    """A file that defines messages and enums, with these by their names."""

    package = PACKAGE
    has_options: ClassVar[bool] = True

    def __init__(self, name: str) -> None:
        self.name = self.full_name = name
        self.message_types_by_name: dict[str, Descriptor] = {}
        self.enum_types_by_name: dict[str, EnumDescriptor] = {}

    def _found(self, pool: Any) -> Any:
        return pool.FindFileByName(self.name)


FILE = FileDescriptor("onnx/onnx-ml.proto")
DATA_FILE = FileDescriptor("onnx/onnx-data.proto")
IN_DATA_FILE = ("SequenceProto", "MapProto", "OptionalProto")


class _InFile(_LikeTheirs):
    """A descriptor of something in a file."""

    has_options: bool = False

    @property
    def file(self) -> FileDescriptor:
        """The file that defines it."""
        return DATA_FILE if self.full_name.split(".")[1] in IN_DATA_FILE else FILE


class EnumDescriptor(_InFile):
    """An enum: its names and numbers, in the order of the schema."""

    is_closed: ClassVar[bool] = True

    def __init__(self, name: str) -> None:
        self.full_name = f"{PACKAGE}.{name}"
        self.name = name.rpartition(".")[2]
        self.containing_type: Descriptor | None = None
        self.values = [EnumValueDescriptor(*item, place, self) for place, item in enumerate(ENUMS[name].items())]
        self.values_by_name = {value.name: value for value in self.values}
        self.values_by_number = {value.number: value for value in self.values}

    def _found(self, pool: Any) -> Any:
        return pool.FindEnumTypeByName(self.full_name)

    def check(self, value: Any) -> int:
        """The number of `value`, which is a number or a name.

        Raises: ValueError for a number or name that the enum does not have; TypeError for anything else.
        """
        if isinstance(value, str):
            if value not in self.values_by_name:
                raise ValueError(f'unknown enum label "{value}"')
            return self.values_by_name[value].number
        number = _integer(value, INTEGER_RANGES["enum"])
        if number not in self.values_by_number:
            raise ValueError(f"invalid enumerator {number}")
        return number


class EnumTypeWrapper:
    """An enum as programs use it; its names are also attributes with their numbers."""

    ValueType: ClassVar[type[int]] = int

    def __init__(self, descriptor: EnumDescriptor) -> None:
        self.DESCRIPTOR = descriptor

    def Name(self, number: int) -> str:  # noqa: N802 - protobuf's name
        """The name of a number.

        Raises: ValueError if there is none; TypeError if `number` is not an integer.
        """
        value = None
        with suppress(TypeError):
            value = self.DESCRIPTOR.values_by_number.get(index(number))  # of numpy, too
        if value is None and not isinstance(number, int):
            raise TypeError(f"Enum value for {self.DESCRIPTOR.name} must be an int, but got {type(number)} {number!r}.")
        if value is None:
            raise ValueError(f"Enum {self.DESCRIPTOR.name} has no name defined for value {number!r}")
        return value.name

    def Value(self, name: str) -> int:  # noqa: N802 - protobuf's name
        """The number of a name.

        Raises: ValueError if there is none.
        """
        value = self.DESCRIPTOR.values_by_name.get(name)
        if value is None:
            raise ValueError(f"Enum {self.DESCRIPTOR.name} has no value defined for name {name!r}")
        return value.number

    def keys(self) -> list[str]:
        """The names that the installed release of `onnx` has, or all."""
        return [name for name, _ in self.items()]

    def values(self) -> list[int]:
        """The numbers of these names."""
        return [number for _, number in self.items()]

    def items(self) -> list[tuple[str, int]]:
        """The names that the installed release of `onnx` has with their numbers, or all.

        Programs look each of them up in tables of that release. Messages take the others, too.
        """
        try:
            values = self.DESCRIPTOR._theirs().values
        except AttributeError:
            values = self.DESCRIPTOR.values
        return [(value.name, value.number) for value in values]

    def __getattr__(self, name: str) -> int:
        value = self.DESCRIPTOR.values_by_name.get(name) if name != "DESCRIPTOR" else None
        if value is None:
            raise AttributeError(f"the enum has no value {name!r}")
        return value.number

    def __or__(self, other: Any) -> Any:
        """The type in an annotation such as `TensorProto.DataType | None`."""
        return type(self) | other


class FieldDescriptor(_InFile):
    """One field of a message.

    `siblings` are the names of the other fields of its oneof. `in_place` says that the IR has a source there, not
    values: bytes, or the packed payload of a repeated number.
    """

    TYPE_DOUBLE: ClassVar[int] = 1
    TYPE_FLOAT: ClassVar[int] = 2
    TYPE_INT64: ClassVar[int] = 3
    TYPE_UINT64: ClassVar[int] = 4
    TYPE_INT32: ClassVar[int] = 5
    TYPE_STRING: ClassVar[int] = 9
    TYPE_MESSAGE: ClassVar[int] = 11
    TYPE_BYTES: ClassVar[int] = 12
    TYPE_ENUM: ClassVar[int] = 14
    CPPTYPE_INT32: ClassVar[int] = 1
    CPPTYPE_INT64: ClassVar[int] = 2
    CPPTYPE_UINT64: ClassVar[int] = 4
    CPPTYPE_DOUBLE: ClassVar[int] = 5
    CPPTYPE_FLOAT: ClassVar[int] = 6
    CPPTYPE_ENUM: ClassVar[int] = 8
    CPPTYPE_STRING: ClassVar[int] = 9
    CPPTYPE_MESSAGE: ClassVar[int] = 10
    LABEL_OPTIONAL: ClassVar[int] = 1
    LABEL_REQUIRED: ClassVar[int] = 2
    LABEL_REPEATED: ClassVar[int] = 3

    def __init__(self, row: MessageField, place: int, containing_type: Descriptor) -> None:
        kind = _KINDS[row.kind]
        head, *tail = row.name.split("_")
        self.name = row.name
        self.json_name = self.camelcase_name = head + "".join(word.capitalize() for word in tail)
        self.full_name = f"{containing_type.full_name}.{row.name}"
        self.number = row.number
        self.index = place
        self.kind = row.kind
        self.type = kind.type
        self.cpp_type = kind.cpp_type
        self.is_repeated = row.label == "repeated"
        self.is_required = row.label == "required"
        self.is_extension = False
        self.is_packed = row.packed
        self.has_options = row.packed
        self.has_presence = not self.is_repeated
        self.label = self.LABEL_REPEATED if self.is_repeated else self.LABEL_OPTIONAL
        self.has_default_value = False
        self.default_value = [] if self.is_repeated else kind.default
        self.containing_type = containing_type
        self.containing_oneof: OneofDescriptor | None = None
        self.message_type: Descriptor | None = None
        self.enum_type: EnumDescriptor | None = None
        self.siblings: tuple[str, ...] = ()
        self.check = kind.check
        self.in_place = False

    def _found(self, pool: Any) -> Any:
        return pool.FindFieldByName(self.full_name)

    def __repr__(self) -> str:
        return f"<field {self.full_name}>"


class OneofDescriptor(_LikeTheirs):
    """Fields of which at most one is set."""

    def __init__(self, name: str, place: int, containing_type: Descriptor) -> None:
        self.name = name
        self.full_name = f"{containing_type.full_name}.{name}"
        self.index = place
        self.containing_type = containing_type
        self.fields: list[FieldDescriptor] = []
        self.has_options = False

    def _found(self, pool: Any) -> Any:
        return pool.FindOneofByName(self.full_name)


class Descriptor(_InFile):
    """One message: its fields in the order of their numbers, its oneofs, and the types that are defined inside it.

    `ir_class` is the dataclass of the IR for its values, and `_concrete_class` the class of its messages.
    """

    is_extendable: ClassVar[bool] = False

    def __init__(self, ir_class: type[Any]) -> None:
        scoped_name: str = ir_class.message
        self.scoped_name = scoped_name
        self.full_name = f"{PACKAGE}.{scoped_name}"
        self.name = scoped_name.rpartition(".")[2]
        self.ir_class = ir_class
        self._concrete_class: Any = None
        self.containing_type: Descriptor | None = None
        self.nested_types_by_name: dict[str, Descriptor] = {}
        self.enum_types_by_name: dict[str, EnumDescriptor] = {}
        self.oneofs_by_name: dict[str, OneofDescriptor] = {}
        rows = sorted(MESSAGES[scoped_name], key=lambda row: row.number)
        self.fields = [FieldDescriptor(row, place, self) for place, row in enumerate(rows)]
        self.fields_by_name = {field.name: field for field in self.fields}
        self.fields_by_number = {field.number: field for field in self.fields}
        for row, field in zip(rows, self.fields, strict=True):
            if row.oneof:
                new = OneofDescriptor(row.oneof, len(self.oneofs_by_name), self)
                field.containing_oneof = self.oneofs_by_name.setdefault(row.oneof, new)
                field.containing_oneof.fields.append(field)
        for oneof in self.oneofs:
            for field in oneof.fields:
                field.siblings = tuple(other.name for other in oneof.fields if other is not field)
        for field in self.fields:
            field.in_place = field.name in SOURCE_FIELDS[ir_class.message]

    def _found(self, pool: Any) -> Any:
        return pool.FindMessageTypeByName(self.full_name)

    @property
    def fields_by_camelcase_name(self) -> dict[str, FieldDescriptor]:
        """The fields by the names that they have in JSON."""
        return {field.camelcase_name: field for field in self.fields}

    @property
    def oneofs(self) -> list[OneofDescriptor]:
        """The oneofs."""
        return list(self.oneofs_by_name.values())

    @property
    def nested_types(self) -> list[Descriptor]:
        """The messages defined inside this one."""
        return list(self.nested_types_by_name.values())

    @property
    def enum_types(self) -> list[EnumDescriptor]:
        """The enums defined inside this message."""
        return list(self.enum_types_by_name.values())

    @property
    def enum_values_by_name(self) -> dict[str, EnumValueDescriptor]:
        """The values of those enums, whose names are unique in the message."""
        return {value.name: value for enum in self.enum_types for value in enum.values}

    def __repr__(self) -> str:
        return f"<message {self.full_name}>"


ENUM_DESCRIPTORS = {name: EnumDescriptor(name) for name in ENUMS}
DESCRIPTORS = {cls.message: Descriptor(cls) for cls in MESSAGE_CLASSES}


def _connect() -> None:
    """Set the references of every descriptor to others."""
    for name, enum in ENUM_DESCRIPTORS.items():
        outer = name.rpartition(".")[0]
        if outer:
            DESCRIPTORS[outer].enum_types_by_name[enum.name] = enum
            enum.containing_type = DESCRIPTORS[outer]
        else:
            enum.file.enum_types_by_name[enum.name] = enum
    for name, descriptor in DESCRIPTORS.items():
        outer = name.rpartition(".")[0]
        if outer:
            descriptor.containing_type = DESCRIPTORS[outer]
            DESCRIPTORS[outer].nested_types_by_name[descriptor.name] = descriptor
        else:
            descriptor.file.message_types_by_name[name] = descriptor
        types = {row.name: row.type_name for row in MESSAGES[name]}
        for field in descriptor.fields:
            if field.kind == "message":
                field.message_type = DESCRIPTORS[types[field.name]]
            elif field.kind == "enum":
                field.enum_type = ENUM_DESCRIPTORS[types[field.name]]
                field.check = field.enum_type.check


_connect()
