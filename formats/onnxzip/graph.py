"""The graph of an archive as a reader of archives sees it: the messages it enters, and its external tensors.

All other fields are free, so it does not matter here whether a graph is a valid ONNX model. The fields to read belong
to the format: they do not grow with ONNX.

Spec: docs/onnxz.md, sections 6 and 7; onnx.proto, `TensorProto.external_data`.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from formats.codecs.contract import MAX_DEPTH
from formats.errors import ExternalDataError, FormatError, LimitError, TruncatedError
from formats.ir.dtypes import BY_NUMBER, dims_shown, type_name
from formats.ir.model import EXTERNAL, Message
from formats.ir.storage import entries_of
from formats.onnxpb.wire.decoder import DepthError, MessageDecoder, Reading
from formats.onnxpb.wire.fields_in_source import FieldsInSource
from formats.onnxpb.wire.tables import IR_FAMILY, BytesRow, MessageRow, PresenceRow, Tables, tables_of
from formats.onnxpb.wire.varints import INT64, GroupError, VarintError, WireType, make_tag, unpack_numbers
from formats.tensordata.sources.source import Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from formats.ir.model import Tensor, Undecoded
    from formats.onnxpb.wire.tables import FieldRow
    from formats.tensordata.sources.source import Source

READ_FIELDS = {  # of each message that a reader enters: the messages to enter, and the values that it needs
    "ModelProto": (7, 20, 25),
    "TrainingInfoProto": (1, 2),
    "FunctionProto": (7, 11),
    "GraphProto": (1, 5, 15),
    "NodeProto": (5,),
    "AttributeProto": (5, 6, 10, 11, 22, 23),
    "SparseTensorProto": (1, 2),
    "TensorProto": (1, 2, 14),  # dims, data_type, data_location
    "StringStringEntryProto": (1, 2),
}
_PACKED_DIMS_TAG, _EXTERNAL_DATA_TAG = (make_tag(number, WireType.LEN) for number in (1, 13))
KEYS = frozenset(("location", "offset", "length"))
FORBIDDEN = {  # fields that an external tensor must not have, whatever their wire type
    "segment": 3,
    "float_data": 4,
    "int32_data": 5,
    "string_data": 6,
    "int64_data": 7,
    "raw_data": 9,
    "double_data": 10,
    "uint64_data": 11,
}
_FORBIDDEN_NAMES = frozenset(FORBIDDEN)


class ExternalTensor(NamedTuple):
    """An external tensor (`data_location` EXTERNAL): where its data is, and what it must fit; its FORBIDDEN fields."""

    places: Sequence[tuple[str, str]]
    data_type: int
    dims: Sequence[int]
    forbidden: frozenset[str] = frozenset()


def external_tensor(tensor: Tensor) -> ExternalTensor:
    """The external data of a decoded tensor."""
    values = vars(tensor)
    places = [(key or "", value or "") for key, value in entries_of(tensor)]
    is_plain = "unknown_fields" not in values and values.keys().isdisjoint(FORBIDDEN)
    return ExternalTensor(
        places, tensor.data_type or 0, tensor.dims, frozenset() if is_plain else _forbidden_fields(tensor)
    )


def _forbidden_fields(tensor: Tensor) -> frozenset[str]:
    """The names of the forbidden fields of a decoded tensor; those with another wire type are unknown fields of it."""
    unknown: dict[str, Any] = {}
    source = Literal(tensor.unknown_fields)
    decoder = MessageDecoder(source, MAX_DEPTH, _graph_tables(), visit=lambda fields, depth: None)
    decoder.merge(unknown, _graph_tables()["TensorProto"], 0, source.nbytes, 0)
    return frozenset(name for name in FORBIDDEN if name in unknown or vars(tensor).get(name) not in (None, []))


def check_external(tensor: ExternalTensor, entry_nbytes: Mapping[str, int]) -> str:
    """The entry that a tensor refers to, from entries with these sizes in bytes, if everything is right.

    Raises: ExternalDataError.
    """
    places = dict(tensor.places)
    location = _location(tensor, places, entry_nbytes)
    nbytes = entry_nbytes[location]
    if places.get("offset", "0") != "0":
        message = f"offset is {places['offset']!r:.40}, but must be '0': a tensor begins at the first byte of its entry"
        raise ExternalDataError(message, requirement="Z-7.4")
    if places.get("length", str(nbytes)) != str(nbytes):
        message = f"length is {places['length']!r:.40}, entry {location} has {nbytes} bytes"
        raise ExternalDataError(message, requirement="Z-7.5")
    if own_data := [name for name in FORBIDDEN if name in tensor.forbidden and name != "segment"]:
        message = f"the tensor has data both in an entry and in the graph ({', '.join(own_data)})"
        raise ExternalDataError(message, requirement="Z-7.6")
    if "segment" in tensor.forbidden:
        raise ExternalDataError("the tensor is a segment of a larger one", requirement="Z-7.7")
    row = BY_NUMBER.get(tensor.data_type)
    if row is None or not row.bits:
        message = f"element type {type_name(tensor.data_type)} has no known size in bytes, so it cannot have an entry"
        raise ExternalDataError(message, requirement="Z-7.8")
    if tensor.dims and min(tensor.dims) < 0:
        message = f"the tensor has a negative dimension: {dims_shown(tensor.dims)}"
        raise ExternalDataError(message, requirement="Z-7.9")
    if row.nbytes(tensor.dims) != nbytes:
        message = (
            f"entry {location} has {nbytes} bytes of data; "
            f"dims {dims_shown(tensor.dims)} of {row.name} need {row.nbytes(tensor.dims)}"
        )
        raise ExternalDataError(message, requirement="Z-7.10")
    return location


def _location(tensor: ExternalTensor, places: Mapping[str, str], entries: Mapping[str, int]) -> str:
    """The name of the tensor's entry.

    Raises: ExternalDataError if its keys are wrong, or there is no such entry.
    """
    if len(places) != len(tensor.places) or not places.keys() <= KEYS or "location" not in places:
        keys = ", ".join(repr(key) for key, _ in tensor.places[:9])
        message = (
            f"external_data has the keys {keys or 'none'}; it must have location, and may have offset and length, "
            "each once"
        )
        raise ExternalDataError(message, requirement="Z-7.2")
    location = places["location"]
    if location not in entries:
        message = f"the data are in {location!r:.80}, which is not an entry of the archive"
        raise ExternalDataError(message, requirement="Z-7.3")
    return location


@cache
def _graph_tables() -> Tables:
    """The tables of onnx.proto with no other fields than those that a reader of archives reads.

    A message in a repeated field is visited. One in another field is part of the message around it, because it may come
    in several parts. What is checked in external tensors only stays bytes until it is known whether a tensor is one.
    """
    tables = tables_of(IR_FAMILY)
    for name, table in tables.items():
        read = READ_FIELDS.get(name, ())
        table.by_tag = {tag: _visited(row) for tag, row in table.by_tag.items() if tag >> 3 in read}
    tensor_rows = tables["TensorProto"].by_tag
    tensor_rows[_PACKED_DIMS_TAG] = BytesRow("packed_dims", repeated=True)
    tensor_rows[_EXTERNAL_DATA_TAG] = BytesRow("external_data", repeated=True)
    for name, number in FORBIDDEN.items():
        for wire_type in set(WireType) - {WireType.EGROUP}:
            tensor_rows[make_tag(number, wire_type)] = PresenceRow(name, repeated=False)
    for table in tables.values():
        table.runs = {tag: row for tag, row in table.runs.items() if tag not in table.by_tag}  # what is skipped
    return tables


def _visited(row: FieldRow) -> FieldRow:
    return replace(row, is_visited=True) if row.repeated and isinstance(row, MessageRow) else row


class _Visitor:
    """Reads messages of a graph, and judges each external tensor as soon as it is complete."""

    def __init__(self, judge: Callable[[ExternalTensor], object], max_depth: int) -> None:
        self.judge = judge
        # The decoder that calls `visit` is not here: in a cycle, it would keep files open.
        self.entries = MessageDecoder(Literal(b""), max_depth, _graph_tables())

    def decoder(self, source: Source) -> MessageDecoder:
        """The decoder that calls `visit`."""
        return MessageDecoder(source, self.entries.max_depth, self.entries.tables, visit=self.visit)

    def visit(self, fields: dict[str, Any], depth: int) -> None:
        """Judge a message with these fields, if it is an external tensor, and those that are parts of it."""
        if fields.get("data_location") == EXTERNAL:
            self.judge(self.external_tensor(fields, depth))
        for value in fields.values():
            if isinstance(value, Message):
                self.visit(vars(value), depth + 1)

    def external_tensor(self, fields: dict[str, Any], depth: int) -> ExternalTensor:
        """The tensor with these fields."""
        places = [self.place(entry, depth + 1) for entry in fields.get("external_data", ())]
        dims = list(fields.get("dims", ()))
        for packed in fields.get("packed_dims", ()):
            try:
                numbers = unpack_numbers(packed, INT64)
            except (IndexError, FormatError):
                message = "the numbers in dims do not fill their field exactly"
                raise TruncatedError(message, requirement="Z-6.7") from None
            dims += numbers
        return ExternalTensor(places, fields.get("data_type", 0), dims, _FORBIDDEN_NAMES.intersection(fields))

    def place(self, entry: bytes, depth: int) -> tuple[str, str]:
        """The key and the value of a StringStringEntryProto."""
        reading = Reading({}, self.entries.tables["StringStringEntryProto"], depth, entry)
        try:
            self.entries.fields(reading, 0, len(entry))
        except FormatError as error:
            error.file_offset = None  # it counts from the start of the entry; the decoder adds that of the tensor
            raise
        return reading.values.get("key", ""), reading.values.get("value", "")


def broken_by(error: FormatError) -> str | None:
    """The requirement that is broken where the decoder of messages has this error; `None` for its own limits."""
    requirements = {DepthError: "Z-6.4", GroupError: "Z-6.3", VarintError: "Z-6.2", LimitError: None}
    return next((number for error_class, number in requirements.items() if isinstance(error, error_class)), "Z-6.1")


def _read(decoder: MessageDecoder, message: str, start: int, stop: int, depth: int) -> dict[str, Any]:
    """The fields of a message in a range of the source that are not visited.

    Raises: DecodeError with the file offset and the broken requirement; the errors of `judge`.
    """
    fields: dict[str, Any] = {}
    try:
        decoder.merge(fields, decoder.tables[message], start, stop, depth)
    except FormatError as error:
        error.where = None  # the elements of lists are not counted
        error.requirement = error.requirement or broken_by(error)
        raise
    return fields


def visit_graph(source: Source, judge: Callable[[ExternalTensor], object], max_depth: int = MAX_DEPTH) -> bool:
    """Whether there is a graph in the ModelProto in `source`; `judge` is called with every external tensor in it.

    Raises: DecodeError with the file offset in `source`; the errors of `judge`.
    """
    decoder = _Visitor(judge, max_depth).decoder(source)
    return "graph" in _read(decoder, "ModelProto", 0, source.nbytes, 0)


def check_undecoded(fields: Undecoded, max_depth: int = MAX_DEPTH) -> None:
    """Check that undecoded elements, none of which is an external tensor, are allowed in an archive.

    Raises: DecodeError with the file offset in the source of the fields.
    """
    if isinstance(fields, FieldsInSource):  # others are copies of decoded ones
        decoder = _Visitor(lambda _: None, max_depth).decoder(fields.source)
        for start, stop in fields.ranges:
            _read(decoder, fields.message, start, stop, fields.depth)
