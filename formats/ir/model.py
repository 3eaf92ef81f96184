"""The messages of ONNX as plain data.

Class names are the message names of onnx.proto without "Proto", field names exactly the spec's, so a search in the spec
finds the code. A missing field is `None`, a repeated field is a list, and equality is by value. Fields for weights are
a `Source`: a place where bytes are, not the bytes. Fields that a newer version of ONNX added stay serialised in
`unknown_fields`, and are written back.

Spec: onnx.proto (IR version 14).
"""

from __future__ import annotations

import sys
import typing
from dataclasses import MISSING as NO_DEFAULT
from dataclasses import dataclass, field, fields
from enum import IntEnum
from inspect import Parameter, Signature
from reprlib import recursive_repr
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

from formats.errors import FormatError

if sys.version_info >= (3, 11):
    from typing import dataclass_transform
else:
    from typing_extensions import dataclass_transform

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from collections.abc import Sequence as SequenceOf
    from dataclasses import Field
    from typing import Generic, TypeVar

    import numpy as np

    from formats.editing.patterns import Match
    from formats.editing.values import Value
    from formats.tensordata.sources.source import Source

    T = TypeVar("T")

    class _AnyFunction(Protocol):
        """What can be called; where `Callable[..., Any]` stands, Pyright does not know the types of a lambda."""

        @property
        def __call__(self) -> Any:
            """Call it."""

    # A pattern, or what takes its place, so that type checkers know the arguments of lambdas that have few of them.
    Computation = (
        Callable[[Any], Any]
        | Callable[[Any, Any], Any]
        | Callable[[Any, Any, Any], Any]
        | Callable[[Any, Any, Any, Any], Any]
        | Callable[[Any, Any, Any, Any, Any], Any]
        | Callable[[Any, Any, Any, Any, Any, Any], Any]
        | Callable[[Any, Any, Any, Any, Any, Any, Any], Any]
        | _AnyFunction
    )

DEFAULT, EXTERNAL = 0, 1  # TensorProto.DataLocation
SHOWN_VALUES = 8  # of a list of numbers or texts, in the text of a message


class AttributeType(IntEnum):
    """The type of an attribute (AttributeProto.AttributeType)."""

    UNDEFINED = 0
    FLOAT = 1
    INT = 2
    STRING = 3
    TENSOR = 4
    GRAPH = 5
    FLOATS = 6
    INTS = 7
    STRINGS = 8
    TENSORS = 9
    GRAPHS = 10
    SPARSE_TENSOR = 11
    SPARSE_TENSORS = 12
    TYPE_PROTO = 13
    TYPE_PROTOS = 14


# The field that holds the value of an attribute, by the number of its type.
VALUE_FIELDS: tuple[str, ...] = ("", "f", "i", "s", "t", "g", "floats", "ints", "strings", "tensors", "graphs")
VALUE_FIELDS += ("sparse_tensor", "sparse_tensors", "tp", "type_protos")


class Differing(NamedTuple):
    """Where two lists differ: the number of equal elements at the start, the elements between, and those at the end."""

    first_count: int
    mine: list[Any]
    theirs: list[Any]
    last_count: int


class Undecoded(Protocol):
    """The elements of a repeated field, left in the file until the field is read."""

    @property
    def largest_nbytes(self) -> int:
        """The size of the largest element in bytes."""

    @property
    def has_references(self) -> bool:
        """Whether an element may contain a tensor with external data."""

    @property
    def may_have_references(self) -> bool:
        """What `has_references` is at least, without decoding anything to know."""

    @property
    def segments(self) -> list[bytes | Source]:
        """The elements as they are in the file, including their tags."""

    def check(self) -> None:
        """Refuse elements that cannot be decoded.

        Raises: DecodeError.
        """

    def decode(self) -> list[Any]:
        """The elements.

        Raises: DecodeError.
        """

    def each(self) -> Iterator[Any]:
        """The elements, few of which are in memory at a time.

        Raises: DecodeError.
        """

    def of(self, family: Any) -> Undecoded:
        """The same elements, as messages of the family with these tables."""

    def differing(self, other: Undecoded) -> Differing | None:
        """Where this list and another differ, without decoding equal elements; `None` if this is not possible."""


class UndecodedEntries(Undecoded, Protocol):
    """The entries of a tensor's external data, left as they are in the file."""

    def pairs(self) -> list[tuple[str | None, str | None]]:
        """The key and the value of each."""


if TYPE_CHECKING:

    class Submessage(Generic[T]):
        """A field that holds a message, or `None` if it is missing.

        Type checkers let programs use it without a check, as they do for a group of `re.Match`: the message is nearly
        always there, and every reader refuses a model without a graph. They find all other wrong types.
        """

        def __get__(self, message: Message, message_class: type[Message]) -> T | Any: ...
        def __set__(self, message: Message, value: T | None) -> None: ...

    MISSING: Submessage[Any] = Submessage()
else:
    Submessage = typing.Optional  # what the annotations mean for programs that read them
    MISSING = None


class Fielded:
    """An object that is made of the dictionary of its fields: a message here, or one that is like those of `onnx`."""


class _UnreadList:
    """A repeated field that has not been read yet: the first reader puts its elements into the message.

    Until then, the message has no such attribute, so Python asks its class. Asking `__getattr__` takes twice as
    long, because Python makes an error first.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, message: Message | None, message_class: type[Message]) -> list[Any]:
        if message is None:
            raise AttributeError(f"type object {message_class.__name__!r} has no attribute {self._name!r}")
        name, values = self._name, message.__dict__
        undecoded = message.undecoded.get(name) if "undecoded" in values else None
        elements: list[Any] = values.setdefault(name, undecoded.decode() if undecoded else [])
        return elements


def _signature(message_class: type[Message]) -> Signature:
    """The fields of a message as the parameters of its class."""
    return Signature(
        [
            Parameter(
                row.name,
                Parameter.POSITIONAL_OR_KEYWORD,
                default=[] if row.default is NO_DEFAULT else row.default,
                annotation=row.type,
            )
            for row in fields(message_class)
        ]
    )


@dataclass_transform(eq_default=False, field_specifiers=(field,))
class Message(Fielded):
    """The common base of all messages, each of which is a dataclass: a repeated field is created when it is first read.

    A decoder sets only the fields that it finds. A missing field is `None`, an empty list, or what `undecoded` has for
    it, so neither the many empty lists of a message nor unread lists cost anything.
    """

    message: ClassVar[str]
    __match_args__: ClassVar[tuple[str, ...]]  # the names of all fields
    oneof: ClassVar[tuple[str, ...]] = ()  # the fields of which at most one is set
    undecoded: ClassVar[Mapping[str, Undecoded]] = MappingProxyType({})  # an instance may have its own mapping
    if TYPE_CHECKING:
        __dataclass_fields__: ClassVar[dict[str, Field[Any]]]
    else:  # a type checker makes the signature of a class from its fields

        def __init_subclass__(cls) -> None:
            """Make the class a dataclass without methods of its own."""
            dataclass(init=False, repr=False, eq=False)(cls)
            for row in fields(cls):
                if row.default_factory is list:
                    setattr(cls, row.name, _UnreadList(row.name))
            cls.__signature__ = _signature(cls)

        def __init__(self, *values, **named):
            """Set these fields; the others have their defaults.

            Raises: TypeError for an unknown field; ValueError if two members of the oneof have a value.
            """
            names = self.__match_args__
            assigned = dict(zip(names, values), **named)  # noqa: B905 - the next check finds a different length
            if len(assigned) != len(values) + len(named) or not assigned.keys() <= {*names}:
                unknown = [name for name in assigned if name not in names]
                reason = f"no field {unknown[0]!r}" if unknown else f"{len(names)} fields, and each can be given once"
                raise TypeError(f"{type(self).__name__} has {reason}")
            set_fields(self, assigned)
            members = [name for name in self.oneof if getattr(self, name) is not None]
            if len(members) > 1:
                raise ValueError(f"{type(self).__name__} can have only one of {' and '.join(members)}")

    def __eq__(self, other: object) -> bool:
        """Whether the other is a message of the same class with equal fields."""
        if other.__class__ is not self.__class__:
            return NotImplemented
        names = set_names(self, other)
        return [getattr(self, name) for name in names] == [getattr(other, name) for name in names]

    @recursive_repr()
    def __repr__(self) -> str:
        """The fields that are set, in short: submessages whole, long lists cut, lists of messages as numbers."""
        shown = ((name, _shown(self, name)) for name in self.__match_args__)
        arguments = ", ".join(f"{name}={text}" for name, text in shown if text not in _UNSET)
        return f"{type(self).__qualname__}({arguments})"

    # Without `__getattr__`, reading a field takes half as long. Python itself suggests names if there is no such field.
    if not TYPE_CHECKING:  # a type checker must see only the fields

        def __setattr__(self, name: str, value: Any) -> None:
            """Set a field, and clear the others of its oneof; a decoder uses `set_fields` instead."""
            if name in self.__match_args__:
                self.__dict__[name] = value
                if name in self.oneof and value is not None:
                    self.__dict__.update({other: None for other in self.oneof if other != name})
            elif hasattr(type(self), name):
                object.__setattr__(self, name, value)
            else:
                raise _NoFieldError(self, name)


def set_names(*messages: Message) -> list[str]:
    """The fields that at least one of these messages of one class has, in the order of the class.

    Reading any other field would create an empty list in the message, which needs more memory than a small message.
    """
    in_some = {name for message in messages for name in (*vars(message), *message.undecoded)}
    return [name for name in messages[0].__match_args__ if name in in_some]


def entries(message: Message, name: str) -> list[Any]:
    """The elements of the repeated field with this name, for reading only; a missing list is not created."""
    values = vars(message)
    elements: list[Any] = (
        values[name] if name in values else getattr(message, name) if name in message.undecoded else []
    )
    return elements


def remove_field(message: Fielded, name: str) -> None:
    """Remove a field from a message, whether it is decoded or not; it is the default then."""
    values = vars(message)
    values.pop(name, None)
    if name in values.get("undecoded", ()):
        values["undecoded"] = {other: elements for other, elements in values["undecoded"].items() if other != name}


# Sets all fields of a new message at once. An assignment to `__dict__` would call `__setattr__`, and take longer.
set_fields: Callable[[Fielded, dict[str, Any]], None] = vars(Fielded)["__dict__"].__set__


class _NoFieldError(AttributeError):
    """A message has no field with this name; similar names are searched only when the text is read."""

    def __init__(self, message: Message, name: str) -> None:
        super().__init__(f"{type(message).__name__!r} object has no attribute {name!r}")
        self._message, self._name = message, name

    def __str__(self) -> str:
        from difflib import get_close_matches

        near = get_close_matches(self._name, self._message.__match_args__, 3)
        return f"{self.args[0]}; did you mean {' or '.join(map(repr, near))}?" if near else str(self.args[0])


_UNSET = ("None", "b''", "[]")  # the texts of unset fields


def _shown(message: Message, name: str) -> str:
    """The value of a field in short."""
    try:
        value = getattr(message, name)
    except FormatError as error:  # it is still undecoded, and damaged
        return f"<{error.message}>"
    if not isinstance(value, list) or not value:
        return repr(value)
    if isinstance(value[0], Message):
        plural = "" if len(value) == 1 else "s"
        return f"<{len(value)} {type(value[0]).__name__}{plural}>"
    more = f", ... {len(value)} in all]" if len(value) > SHOWN_VALUES else "]"
    return f"[{', '.join(map(repr, value[:SHOWN_VALUES]))}{more}"


class StringStringEntry(Message):
    """A key and a value."""

    message: ClassVar[str] = "StringStringEntryProto"
    key: str | None = None
    value: str | None = None
    unknown_fields: bytes = b""


class OperatorSetId(Message):
    """The version of an operator set that a model uses; the domain "" is ONNX's own."""

    message: ClassVar[str] = "OperatorSetIdProto"
    domain: str | None = None
    version: int | None = None
    unknown_fields: bytes = b""


class Dimension(Message):
    """One dimension of a shape: a size, a name, or unknown if both are missing."""

    message: ClassVar[str] = "TensorShapeProto.Dimension"
    oneof: ClassVar[tuple[str, ...]] = ("dim_value", "dim_param")
    dim_value: int | None = None
    dim_param: str | None = None
    denotation: str | None = None
    unknown_fields: bytes = b""


class TensorShape(Message):
    """A shape of known rank."""

    message: ClassVar[str] = "TensorShapeProto"
    dim: list[Dimension] = field(default_factory=list)
    unknown_fields: bytes = b""


class TensorType(Message):
    """The type of a tensor value."""

    message: ClassVar[str] = "TypeProto.Tensor"
    elem_type: int | None = None
    shape: Submessage[TensorShape] = MISSING
    unknown_fields: bytes = b""


class SequenceType(Message):
    """The type of a sequence value."""

    message: ClassVar[str] = "TypeProto.Sequence"
    elem_type: Submessage[Type] = MISSING
    unknown_fields: bytes = b""


class MapType(Message):
    """The type of a map value."""

    message: ClassVar[str] = "TypeProto.Map"
    key_type: int | None = None
    value_type: Submessage[Type] = MISSING
    unknown_fields: bytes = b""


class OptionalType(Message):
    """The type of a value that may be absent."""

    message: ClassVar[str] = "TypeProto.Optional"
    elem_type: Submessage[Type] = MISSING
    unknown_fields: bytes = b""


class SparseTensorType(Message):
    """The type of a sparse tensor value."""

    message: ClassVar[str] = "TypeProto.SparseTensor"
    elem_type: int | None = None
    shape: Submessage[TensorShape] = MISSING
    unknown_fields: bytes = b""


class OpaqueType(Message):
    """A type that only its domain defines."""

    message: ClassVar[str] = "TypeProto.Opaque"
    domain: str | None = None
    name: str | None = None
    unknown_fields: bytes = b""


class Type(Message):
    """The type of a value; at most one of the fields ending in `_type` is set."""

    message: ClassVar[str] = "TypeProto"
    oneof: ClassVar[tuple[str, ...]] = (
        "tensor_type",
        "sequence_type",
        "map_type",
        "optional_type",
        "sparse_tensor_type",
        "opaque_type",
    )
    tensor_type: Submessage[TensorType] = MISSING
    sequence_type: Submessage[SequenceType] = MISSING
    map_type: Submessage[MapType] = MISSING
    optional_type: Submessage[OptionalType] = MISSING
    sparse_tensor_type: Submessage[SparseTensorType] = MISSING
    opaque_type: Submessage[OpaqueType] = MISSING
    denotation: str | None = None
    unknown_fields: bytes = b""


class ValueInfo(Message):
    """The name and type of a value."""

    message: ClassVar[str] = "ValueInfoProto"
    name: str | None = None
    type: Submessage[Type] = MISSING
    doc_string: str | None = None
    metadata_props: list[StringStringEntry] = field(default_factory=list)
    unknown_fields: bytes = b""


class TensorSegment(Message):
    """The range of elements in a tensor, if a large tensor is stored in several."""

    message: ClassVar[str] = "TensorProto.Segment"
    begin: int | None = None
    end: int | None = None
    unknown_fields: bytes = b""


class Tensor(Message):
    """A constant tensor.

    The elements are in `raw_data`, in one of the typed fields (`float_data`, ...: the packed payload as in the binary
    format), in `string_data`, or in another file that `external_data` names; `external_source`, which is not a field of
    the message, then says where a reader found these bytes.
    """

    message: ClassVar[str] = "TensorProto"
    if TYPE_CHECKING:
        undecoded: ClassVar[Mapping[str, UndecodedEntries]]
    dims: list[int] = field(default_factory=list)
    data_type: int | None = None
    segment: Submessage[TensorSegment] = MISSING
    float_data: Source | None = None
    int32_data: Source | None = None
    string_data: list[bytes] = field(default_factory=list)
    int64_data: Source | None = None
    name: str | None = None
    doc_string: str | None = None
    raw_data: Source | None = None
    external_data: list[StringStringEntry] = field(default_factory=list)
    data_location: int | None = None
    double_data: Source | None = None
    uint64_data: Source | None = None
    metadata_props: list[StringStringEntry] = field(default_factory=list)
    unknown_fields: bytes = b""
    external_source: Source | None = None

    def source(self) -> Source:
        """Return the elements in raw form (row-major, little-endian, packed) as a source, without reading them.

        For example:

            >>> model = formats.load("model.onnx")
            >>> model.tensor("conv1.bias").source().nbytes
            32

        Raises: TensorDataError if there is no raw form, no data, or another amount of data than `dims` require.
        """
        from formats.ir.storage import raw_source

        return raw_source(self)

    def numpy(self) -> np.ndarray[Any, np.dtype[Any]]:
        """Return the elements as a read-only array of shape `dims`, without a copy if the stored bytes allow it.

        The array keeps the file mapping or buffer behind it alive. Types that numpy lacks are those of `ml_dtypes`,
        elements narrower than a byte take one byte each, and strings are an object array of `str`.

        The array may map the file itself. If another program truncates the file later, reading the array ends the
        process (SIGBUS); if it writes into the file, the array changes. Programs that replace files, as this one does,
        cause neither. To be safe, use `source().read()`, which copies and raises an error if the file is too short.

        For example:

            >>> model = formats.load("model.onnx")
            >>> model.tensor("conv1.bias").numpy().shape
            (8,)

        Raises: TensorDataError as `source` does.
        """
        from formats.ir.storage import to_numpy

        return to_numpy(self)


def type_of_tensor(tensor: Tensor) -> Type:
    """The type of a value that is this tensor."""
    shape = TensorShape([Dimension(dim) for dim in tensor.dims])
    return Type(tensor_type=TensorType(tensor.data_type, shape))


class SparseTensor(Message):
    """A sparse constant tensor in coordinate form."""

    message: ClassVar[str] = "SparseTensorProto"
    values: Submessage[Tensor] = MISSING
    indices: Submessage[Tensor] = MISSING
    dims: list[int] = field(default_factory=list)
    unknown_fields: bytes = b""


class Attribute(Message):
    """A named parameter of a node; `type` says which field holds the value, and `save` sets a missing one."""

    message: ClassVar[str] = "AttributeProto"
    name: str | None = None
    ref_attr_name: str | None = None
    doc_string: str | None = None
    type: int | None = None
    f: float | None = None
    i: int | None = None
    s: bytes | None = None
    t: Submessage[Tensor] = MISSING
    g: Submessage[Graph] = MISSING
    sparse_tensor: Submessage[SparseTensor] = MISSING
    tp: Submessage[Type] = MISSING
    floats: list[float] = field(default_factory=list)
    ints: list[int] = field(default_factory=list)
    strings: list[bytes] = field(default_factory=list)
    tensors: list[Tensor] = field(default_factory=list)
    graphs: list[Graph] = field(default_factory=list)
    sparse_tensors: list[SparseTensor] = field(default_factory=list)
    type_protos: list[Type] = field(default_factory=list)
    unknown_fields: bytes = b""


def values_held(attribute: Attribute) -> list[str]:
    """The fields that hold a value, of which a right attribute has one."""
    values = vars(attribute)
    names = [name for name in values if name in VALUE_FIELDS and values[name] is not None and values[name] != []]
    names += (name for name in attribute.undecoded if name not in values)
    return sorted(names, key=VALUE_FIELDS.index)


class IntIntListEntry(Message):
    """An integer and the integers that it means."""

    message: ClassVar[str] = "IntIntListEntryProto"
    key: int | None = None
    value: list[int] = field(default_factory=list)
    unknown_fields: bytes = b""


class SimpleShardedDim(Message):
    """A part of a dimension, split evenly."""

    message: ClassVar[str] = "SimpleShardedDimProto"
    oneof: ClassVar[tuple[str, ...]] = ("dim_value", "dim_param")
    dim_value: int | None = None
    dim_param: str | None = None
    num_shards: int | None = None
    unknown_fields: bytes = b""


class ShardedDim(Message):
    """How one axis of a tensor is split over devices."""

    message: ClassVar[str] = "ShardedDimProto"
    axis: int | None = None
    simple_sharding: list[SimpleShardedDim] = field(default_factory=list)
    unknown_fields: bytes = b""


class ShardingSpec(Message):
    """How one tensor of a node is split over devices."""

    message: ClassVar[str] = "ShardingSpecProto"
    tensor_name: str | None = None
    device: list[int] = field(default_factory=list)
    index_to_device_group_map: list[IntIntListEntry] = field(default_factory=list)
    sharded_dim: list[ShardedDim] = field(default_factory=list)
    unknown_fields: bytes = b""


class NodeDeviceConfiguration(Message):
    """How a node runs under one device configuration of the model."""

    message: ClassVar[str] = "NodeDeviceConfigurationProto"
    configuration_id: str | None = None
    sharding_spec: list[ShardingSpec] = field(default_factory=list)
    pipeline_stage: int | None = None
    unknown_fields: bytes = b""


class DeviceConfiguration(Message):
    """A named set of devices."""

    message: ClassVar[str] = "DeviceConfigurationProto"
    name: str | None = None
    num_devices: int | None = None
    device: list[str] = field(default_factory=list)
    unknown_fields: bytes = b""


class Node(Message):
    """One operator call; an empty name in `input` or `output` is an omitted optional one."""

    message: ClassVar[str] = "NodeProto"
    input: list[str] = field(default_factory=list)
    output: list[str] = field(default_factory=list)
    name: str | None = None
    op_type: str | None = None
    domain: str | None = None
    overload: str | None = None
    attribute: list[Attribute] = field(default_factory=list)
    doc_string: str | None = None
    metadata_props: list[StringStringEntry] = field(default_factory=list)
    device_configurations: list[NodeDeviceConfiguration] = field(default_factory=list)
    unknown_fields: bytes = b""


class TensorAnnotation(Message):
    """The names of the tensors with a value's quantisation parameters."""

    message: ClassVar[str] = "TensorAnnotation"
    tensor_name: str | None = None
    quant_parameter_tensor_names: list[StringStringEntry] = field(default_factory=list)
    unknown_fields: bytes = b""


class Graph(Message):
    """A list of nodes with its constants, inputs and outputs."""

    message: ClassVar[str] = "GraphProto"
    node: list[Node] = field(default_factory=list)
    name: str | None = None
    initializer: list[Tensor] = field(default_factory=list)
    sparse_initializer: list[SparseTensor] = field(default_factory=list)
    doc_string: str | None = None
    input: list[ValueInfo] = field(default_factory=list)
    output: list[ValueInfo] = field(default_factory=list)
    value_info: list[ValueInfo] = field(default_factory=list)
    quantization_annotation: list[TensorAnnotation] = field(default_factory=list)
    metadata_props: list[StringStringEntry] = field(default_factory=list)
    unknown_fields: bytes = b""


class Function(Message):
    """An operator defined by the model itself."""

    message: ClassVar[str] = "FunctionProto"
    name: str | None = None
    input: list[str] = field(default_factory=list)
    output: list[str] = field(default_factory=list)
    attribute: list[str] = field(default_factory=list)
    attribute_proto: list[Attribute] = field(default_factory=list)
    node: list[Node] = field(default_factory=list)
    doc_string: str | None = None
    opset_import: list[OperatorSetId] = field(default_factory=list)
    domain: str | None = None
    overload: str | None = None
    value_info: list[ValueInfo] = field(default_factory=list)
    metadata_props: list[StringStringEntry] = field(default_factory=list)
    unknown_fields: bytes = b""


class TrainingInfo(Message):
    """How a model is initialised and trained."""

    message: ClassVar[str] = "TrainingInfoProto"
    initialization: Submessage[Graph] = MISSING
    algorithm: Submessage[Graph] = MISSING
    initialization_binding: list[StringStringEntry] = field(default_factory=list)
    update_binding: list[StringStringEntry] = field(default_factory=list)
    unknown_fields: bytes = b""


class Model(Message):
    """A model: a graph, the operator sets that it uses, and who made it."""

    message: ClassVar[str] = "ModelProto"
    ir_version: int | None = None
    opset_import: list[OperatorSetId] = field(default_factory=list)
    producer_name: str | None = None
    producer_version: str | None = None
    domain: str | None = None
    model_version: int | None = None
    doc_string: str | None = None
    graph: Submessage[Graph] = MISSING
    metadata_props: list[StringStringEntry] = field(default_factory=list)
    training_info: list[TrainingInfo] = field(default_factory=list)
    functions: list[Function] = field(default_factory=list)
    configuration: list[DeviceConfiguration] = field(default_factory=list)
    unknown_fields: bytes = b""

    def tensors(self) -> Iterator[tuple[str, Tensor]]:
        """Yield every tensor with its dotted place: initialisers, attributes, and the two parts of sparse tensors.

        They include those of subgraphs, functions and training information, in the order of the fields of the messages.

        For example:

            >>> model = formats.load("model.onnx")
            >>> [place for place, tensor in model.tensors()][:2]
            ['graph.initializer[0]', 'graph.initializer[1]']
        """
        from formats.ir.walk import tensors

        return tensors(self)

    def tensor(self, name: str) -> Tensor:
        """Return the tensor with this name or dotted place; an initialiser of the main graph takes precedence.

        The tensor of a Constant node also has the name of the node's output.

        For example:

            >>> model = formats.load("model.onnx")
            >>> model.tensor("conv1.bias").dims
            [8]

        Raises: LookupError if there is none, or if several others have this name.
        """
        from formats.ir.walk import tensor_named

        return tensor_named(self, name)

    def edit(
        self,
        *,
        sort: bool = False,
        weights: Mapping[str, Any] | None = None,
        cast: bool = False,
        initializer_to_input: SequenceOf[str] | None = None,
        input_to_initializer: Mapping[str, Any] | SequenceOf[str] | None = None,
        dim: Mapping[str, int | str] | None = None,
        set_operator: Mapping[str, str] | None = None,
        set_domain: Mapping[str, str] | None = None,
        set_attribute: Mapping[str, Any] | None = None,
        bypass: SequenceOf[str] | None = None,
        add_output: SequenceOf[str] | None = None,
        remove_output: SequenceOf[str] | None = None,
        fold: bool = False,
        prune: bool = False,
        uint8_input: SequenceOf[str] | None = None,
        scale: str | float | None = None,
        mean: float | SequenceOf[float] | None = None,
        std: float | SequenceOf[float] | None = None,
        layout: Mapping[str, str] | None = None,
        rename: Mapping[str, str] | None = None,
        prefix: str | None = None,
        strip_docs: bool = False,
        strip_training: bool = False,
        metadata: Mapping[str, str] | None = None,
    ) -> Model:
        """Return a new model with these edits, made in this order, as `formats.edit` makes them.

        For example:

            >>> model = formats.load("model.onnx")
            >>> model.edit(rename={"image": "pixels"}).graph.input[0].name
            'pixels'

        Raises: EditError if an edit does not fit the model; OptionError for an invalid value.
        """
        from formats.editing import model_edits

        return model_edits.edit(
            self,
            metadata,
            sort=sort,
            weights=weights,
            cast=cast,
            initializer_to_input=initializer_to_input,
            input_to_initializer=input_to_initializer,
            dim=dim,
            set_operator=set_operator,
            set_domain=set_domain,
            set_attribute=set_attribute,
            bypass=bypass,
            add_output=add_output,
            remove_output=remove_output,
            fold=fold,
            prune=prune,
            uint8_input=uint8_input,
            scale=scale,
            mean=mean,
            std=std,
            layout=layout,
            rename=rename,
            prefix=prefix,
            strip_docs=strip_docs,
            strip_training=strip_training,
        )

    def rename(self, names: Mapping[str, str]) -> Model:
        """Return a new model whose values have new names, wherever they are used: `edit(rename=names)`.

        For example:

            >>> model = formats.load("model.onnx")
            >>> model.rename({"image": "pixels"}).graph.input[0].name
            'pixels'
        """
        return self.edit(rename=names)

    def extract(
        self, inputs: SequenceOf[str] | str | None = None, outputs: SequenceOf[str] | str | None = None
    ) -> Model:
        """Return a new model of the part that computes `outputs` from `inputs`; without one, those of the model count.

        For example:

            >>> model = formats.load("model.onnx")
            >>> part = model.extract(outputs="conv1.output")
            >>> [node.op_type for node in part.graph.node]
            ['Conv']

        Raises: EditError for an unknown name, or if an output needs something else than the inputs.
        """
        from formats.editing import model_edits

        return model_edits.extract(self, inputs, outputs)

    def merge(
        self, second: Model, connect: Mapping[str, str | SequenceOf[str]] | None = None, prefix: str | None = None
    ) -> Model:
        """Return a new model of two; `connect` has inputs of the second one by outputs of this one.

        For example:

            >>> model = formats.load("model.onnx")
            >>> body, head = model.extract(outputs="features"), model.extract(inputs="features")
            >>> body.merge(head, connect={"features": "features"}).graph.output[0].name
            'probabilities'

        Raises: EditError for an unknown name, or for models that do not fit each other.
        """
        from formats.editing import model_edits

        return model_edits.merge(self, second, connect, prefix)

    def insert(self, node: Node | str, after: str, **attributes: Any) -> Model:
        """Return a new model with a node behind a value: what used the value, uses the first output of the node.

        `node` is a node that uses the value, or an operator with one input and one output, and `attributes`.

        For example:

            >>> model = formats.load("model.onnx")
            >>> [node.op_type for node in model.insert("Abs", after="conv1.output").graph.node][:3]
            ['Conv', 'Abs', 'Relu']

        Raises: EditError for an unknown value, or a node that does not use it.
        """
        from formats.editing import model_edits

        return model_edits.insert(self, node, after, attributes)

    def bypass(self, nodes: str | Callable[[Node], bool]) -> Model:
        """Return a new model without the nodes of an operator, or those that a function chooses.

        What used their output, uses their input. Inputs and outputs of the model keep their names.

        For example:

            >>> model = formats.load("model.onnx")
            >>> [node.op_type for node in model.bypass("Relu").graph.node][:3]
            ['Conv', 'MaxPool', 'Conv']

        Raises: EditError for a node with several inputs or outputs.
        """
        from formats.editing import model_edits

        return model_edits.bypass(self, nodes)

    def find(self, pattern: Computation) -> list[Match]:
        """Return the places in its graphs and functions that have a pattern.

        A pattern is a function that computes what the nodes do, such as `lambda op, x: op.Mul(x, op.Sigmoid(x))`: `op`
        has the operators, and the other arguments stand for any value, or for any value of an attribute.

        For example:

            >>> model = formats.load("model.onnx")
            >>> places = model.find(lambda op, x, w, b: op.Relu(op.Conv(x, w, b)))
            >>> [node.op_type for node in places[0].nodes]
            ['Conv', 'Relu']
        """
        from formats.editing import model_edits

        return model_edits.find(self, pattern)

    def rewrite(self, pattern: Computation, replacement: Computation) -> Model:
        """Return a new model with other nodes wherever `find` finds a pattern; what no output needs then goes.

        `replacement` is a function like the pattern, such as `lambda op, x: op.Swish(x)`, which gets the values and
        attributes by name; if it returns `None`, the place stays as it is.

        For example:

            >>> model = formats.load("model.onnx")
            >>> changed = model.rewrite(lambda op, x: op.Relu(x), lambda op, x: op.Clip(x, 0.0, 6.0))
            >>> [node.op_type for node in changed.graph.node][:3]
            ['Conv', 'Clip', 'MaxPool']

        Raises: EditError if an operator is not in the model's operator sets, or if the nodes do not fit each other.
        """
        from formats.editing import model_edits

        return model_edits.rewrite(self, pattern, replacement)

    def sort(self) -> Model:
        """Return a new model in which each node comes after those whose values it uses.

        For example:

            >>> model = formats.load("model.onnx")
            >>> [node.op_type for node in model.sort().graph.node][:2]
            ['Conv', 'Relu']

        Raises: EditError if nodes need each other in a circle.
        """
        from formats.editing import model_edits

        return model_edits.sort(self)

    def infer_shapes(self) -> Model:
        """Return a new model with the types and shapes that the package onnx infers; weights are not read.

        For example:

            >>> model = formats.load("model.onnx")
            >>> len(model.infer_shapes().graph.value_info)
            8

        Raises: MissingPackageError if onnx is not installed; EditError if the model contradicts itself.
        """
        from formats.editing import model_edits

        return model_edits.infer_shapes(self)

    def to_float16(self, *, keep_io_types: bool = False, keep: SequenceOf[str] = ()) -> Model:
        """Return a new model with float16 in place of float32, as `formats.convert` writes it with `dtype="float16"`.

        Inputs and outputs become float16, too, unless `keep_io_types`. Operators or nodes with names in `keep` stay in
        float32. Its weights are converted when they are read.

        For example:

            >>> model = formats.load("model.onnx")
            >>> model.to_float16().tensor("conv1.bias").numpy().dtype.name
            'float16'

        Raises: UnsupportedError for a type that is not known; EditError for a name that no node has.
        """
        from formats.editing import model_edits

        return model_edits.to_dtype(self, "float16", keep_io_types=keep_io_types, keep=keep)

    def values(self) -> dict[str, Value]:
        """Return the values of the main graph by name, each with the node that makes it and those that use it.

        For example:

            >>> model = formats.load("model.onnx")
            >>> model.values()["conv1.output"].producer.op_type
            'Conv'
        """
        from formats.editing import model_edits

        return model_edits.values(self)

    def close(self) -> None:
        """Close the files that contain the weights, so that they can be replaced and removed, even on Windows.

        Existing arrays and views of weights stay valid; on Windows they keep their file open until the last one is
        deleted. If a weight is read later, the file is opened again and must not have changed. Copies of the model, and
        models that share its tensors, use the same files. No other thread may read at the same time.

        For example:

            >>> with formats.load("model.onnx") as model:
            ...     array = model.tensor("conv1.bias").numpy().copy()
        """
        from formats.ir.storage import files_of

        for file in files_of(self):
            file.close()

    def __enter__(self) -> Model:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _repr_html_(self) -> str:
        """A short table, which notebooks show."""
        from formats.ir.summary import model_table

        return model_table(self)


class Sequence(Message):
    """A list of values; `elem_type` says which field has them. This class and the next two are not part of a model."""

    message: ClassVar[str] = "SequenceProto"
    name: str | None = None
    elem_type: int | None = None
    tensor_values: list[Tensor] = field(default_factory=list)
    sparse_tensor_values: list[SparseTensor] = field(default_factory=list)
    sequence_values: list[Sequence] = field(default_factory=list)
    map_values: list[Map] = field(default_factory=list)
    optional_values: list[Optional] = field(default_factory=list)
    unknown_fields: bytes = b""


class Map(Message):
    """Keys, and as many values in the same order."""

    message: ClassVar[str] = "MapProto"
    name: str | None = None
    key_type: int | None = None
    keys: list[int] = field(default_factory=list)
    string_keys: list[bytes] = field(default_factory=list)
    values: Submessage[Sequence] = MISSING
    unknown_fields: bytes = b""


class Optional(Message):
    """A value that may be absent; `elem_type` says which field has it."""

    message: ClassVar[str] = "OptionalProto"
    name: str | None = None
    elem_type: int | None = None
    tensor_value: Submessage[Tensor] = MISSING
    sparse_tensor_value: Submessage[SparseTensor] = MISSING
    sequence_value: Submessage[Sequence] = MISSING
    map_value: Submessage[Map] = MISSING
    optional_value: Submessage[Optional] = MISSING
    unknown_fields: bytes = b""


MESSAGE_CLASSES: tuple[type[Any], ...] = tuple(Message.__subclasses__())

# The fields of a message that are sources, by its name: their bytes can be weights, and stay in the file.
SOURCE_FIELDS: dict[str, frozenset[str]] = {
    message_class.message: frozenset(
        name for name, kind in message_class.__annotations__.items() if kind == "Source | None"
    )
    for message_class in MESSAGE_CLASSES
}
