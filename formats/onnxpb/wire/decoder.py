"""Decodes any ONNX message by the rows of its table.

Bytes that can be weights are never read: a field that the IR declares as a `Source` becomes a slice of the source being
decoded. Long lists of nodes, of value infos and of small tensors also stay there until they are read. A repeated scalar
may be packed or not, a message in parts is merged, the last member of a oneof wins, and unknown fields are kept in
`unknown_fields`.

Spec: Protocol Buffers, "Encoding"; onnx.proto.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Any, TypeVar

from formats.codecs.contract import DEEPEST, MAX_DEPTH
from formats.collector import collector_paused
from formats.errors import FormatError, LimitError, TruncatedError, WireError
from formats.ir.model import EXTERNAL, set_fields
from formats.onnxpb.wire.fields_in_source import NUMPY_BYTES, RUN_BYTES, Entries, FieldsInSource, is_usual_entry
from formats.onnxpb.wire.tables import (
    BytesRow,
    FixedWidthRow,
    IntegerRow,
    MessageRow,
    PresenceRow,
    SourceRow,
    TextRow,
    tables,
    width_of,
)
from formats.onnxpb.wire.varints import (
    WireType,
    check_end,
    check_packed,
    decode_prefix,
    decode_varint,
    end_of_run,
    end_of_whole_fields,
    payloads,
    signed,
    skip_field,
    unpack_numbers,
)
from formats.tensordata.sources.source import Literal, Source, joined_sources
from formats.tensordata.sources.unpacked import BLOCK_BYTES, unpacked, whole_fields, without_tags

if TYPE_CHECKING:
    from collections.abc import Callable

    from formats.onnxpb.wire.tables import FieldRow, MessageTable, Tables

T = TypeVar("T")

MAX_MESSAGES = 1 << 24  # two bytes can create an object of 200 bytes, so their number is limited
WHOLE_BYTES = 1 << 24  # a source up to this size is read in one piece
VISITED_BYTES, MAX_VISITED = 256, 4096  # the longest attribute, and the number of attributes, that are remembered
WINDOW_BYTES = 1 << 16  # for a larger one, only fields up to this size are
HEAD_BYTES = 1 << 9  # the usual size of a tensor before its weights
FIELD_BYTES = 1 << 31  # other data than messages and weights must fit into memory, and into any protobuf message
INLINE_BYTES = 1 << 8  # data this small is kept in memory, which takes less of it than a place in a file
FAR_INLINE_BYTES = 1 << 10  # the same if the file is elsewhere: each request costs time
BULK_BYTES = 1 << 12  # a list this long is left undecoded; decoding a shorter one costs no more than the check
PLACE_BYTES = 1 << 9  # of entries of external data that stay undecoded; a usual tensor has a fifth
MOVED_BYTES = 1 << 10  # a tensor this large is decoded: readers search a list for it, and would decode the whole list

# The possible first bytes of the field data_location with the value EXTERNAL: as short as possible, or with a tag or
# value that is longer than necessary. Every reference to another file has this field.
_TAG = next(tag for tag, row in tables()["TensorProto"].by_tag.items() if row.name == "data_location")
_EXTERNAL = [bytes(pair) for pair in ((_TAG, EXTERNAL), (_TAG, EXTERNAL | 0x80), (_TAG | 0x80, 0), (_TAG | 0x80, 0x80))]
_ANY_EXTERNAL = re.compile(b"|".join(map(re.escape, _EXTERNAL)))
_new = object.__new__
_LEN = int(WireType.LEN)


class DepthError(LimitError):
    """Messages are nested too deeply."""


def decode(source: Source, message_class: type[T], max_depth: int = MAX_DEPTH, *, at_once: bool = False) -> T:
    """The message in `source`, with its weights as slices of `source`.

    Messages may be nested up to `max_depth`. A long list of nodes, value infos or small tensors is decoded when it is
    first read, or `at_once`.

    Raises: DecodeError with the file offset and the dotted place where the bytes are wrong, here or at that first use.
    """
    name: str = message_class.message  # type: ignore[attr-defined]
    message: T = decode_in(tables(), name, source, max_depth, at_once=at_once)[0]
    return message


def decode_and_look(source: Source, message_class: type[T], max_depth: int = MAX_DEPTH) -> tuple[T, bool]:
    """The message as `decode` returns it, and whether some tensor in it may have external data."""
    message, decoder = decode_in(tables(), message_class.message, source, max_depth)  # type: ignore[attr-defined]
    return message, decoder.may_have_references()


def decode_in(
    family: Tables, name: str, source: Source, max_depth: int = MAX_DEPTH, *, at_once: bool = False
) -> tuple[Any, MessageDecoder]:
    """The message with this name, of the classes of the family, and what decoded it.

    Raises: DecodeError as `decode` does.
    """
    values: dict[str, Any] = {}
    with collector_paused():
        decoder = MessageDecoder(source, max_depth, family, at_once=at_once)
        decoder.merge(values, family[name], 0, source.nbytes, 0)
        decoder.join()
        return _made(family[name], values), decoder


@dataclass(slots=True)
class Reading:
    """A message while it is decoded: its fields so far, and bytes of the source in which more of them are."""

    values: dict[str, Any]
    table: MessageTable
    depth: int
    data: bytes = b""
    origin: int = 0  # the offset in the source at which `data` starts
    look_from: int = 0  # the offset in `data` from which on the next run of elements may begin


class MessageDecoder:
    """The source that is decoded, and what was read of it so far.

    `tables` are those of the messages to make. `at_once` leaves nothing undecoded.

    If there is `visit`, unknown fields and long lists are dropped, and it is called with the fields and the depth of
    each message that the tables say is visited. These are not kept, so there may be any number of them.
    """

    def __init__(
        self,
        source: Source,
        max_depth: int,
        tables: Tables,
        *,
        at_once: bool = False,
        visit: Callable[[dict[str, Any], int], None] | None = None,
    ) -> None:
        self.source = source
        is_near = isinstance(source, Literal) or all(file.is_local for file in source.files())
        self.inline_bytes = INLINE_BYTES if is_near else FAR_INLINE_BYTES
        self.max_depth = max_depth
        self.tables = tables
        self.tensor, self.attribute = tables["TensorProto"], tables["AttributeProto"]
        self.at_once = at_once
        self.visit = visit
        self.visited: set[bytes] = set()  # attributes with nothing to visit: most nodes have the same ones
        self.messages = 0
        self.max_messages = inf if visit else MAX_MESSAGES
        self.has_references = False  # of what was decoded
        self.undecoded_lists: list[FieldsInSource] = []
        # Of fields that come in many parts: the fields of the message, and the parts.
        self.parts: dict[tuple[int, str], tuple[dict[str, Any], list[Any]]] = {}

    def may_have_references(self) -> bool:
        """Whether some tensor may have external data, also in what is undecoded."""
        return self.has_references or any(fields.has_references for fields in self.undecoded_lists)

    def excess(self, depth: int) -> LimitError:
        """The error to raise if there are too many messages, or one is too deep."""
        if depth > self.max_depth:
            return DepthError(
                f"messages are nested more than {self.max_depth} deep; `max_depth` allows up to {DEEPEST}"
            )
        return LimitError(f"the file holds more than {MAX_MESSAGES} messages")

    def merge(self, values: dict[str, Any], table: MessageTable, start: int, end: int, depth: int) -> None:
        """Merge the fields in the range `start` to `end` of the source into `values`."""
        if isinstance(self.source, Literal) and isinstance(self.source.data, bytes):
            self.fields(Reading(values, table, depth, self.source.data), start, end)
        elif end - start <= WHOLE_BYTES:
            data = self.source.read(start, end - start)
            self.fields(Reading(values, table, depth, data, start), 0, end - start)
        else:
            self.large(Reading(values, table, depth), start, end)

    # Setting fields

    def set(self, values: dict[str, Any], row: FieldRow, value: Any) -> None:
        """Set a field, or append to a repeated one."""
        if row.repeated:
            values.setdefault(row.name, []).append(value)
        else:
            values[row.name] = value
            for sibling in row.siblings:
                values.pop(sibling, None)

    def add(self, values: dict[str, Any], name: str, part: Any) -> None:
        """Add to the bytes of a field; `join` joins all parts, once, however many there are."""
        if name not in values:
            values[name] = part
        else:
            _, parts = self.parts.setdefault((id(values), name), (values, [values[name]]))
            parts.append(part)

    def join(self) -> None:
        """Join the fields that came in parts."""
        for (_, name), (values, parts) in self.parts.items():
            values[name] = joined_sources(parts) if isinstance(parts[0], Source) else b"".join(parts)

    def set_source(self, values: dict[str, Any], row: SourceRow, part: Source) -> None:
        """Set a field whose bytes stay in the source, or add to a repeated one.

        Raises: WireError.
        """
        if row.width > 1 and part.nbytes % row.width:
            raise WireError(f"{part.nbytes} bytes are not a whole number of {row.width}-byte elements")
        if row.repeated:
            self.add(values, row.name, part)
        else:
            values[row.name] = part

    # Ranges that are too large to be read at once

    def large(self, reading: Reading, start: int, end: int) -> None:
        """Merge the fields in the range `start` to `end` of the source, reading little of it.

        A window moves over the range. At first it has the bytes that were already read. A field that is wholly in the
        window is decoded there.
        """
        if reading.depth > self.max_depth:
            raise self.excess(reading.depth)
        table, window, position = reading.table, reading.data, start
        ahead = min(HEAD_BYTES, WINDOW_BYTES) if table is self.tensor else WINDOW_BYTES
        if table is self.attribute:
            window = b""  # in a short window, a long list would look short
        numbers = {tag: row for tag, row in table.runs.items() if not isinstance(row, (MessageRow, BytesRow))}
        while position < end:
            if window and window[0] in numbers:
                row = numbers[window[0]]
                if self.at_once and not isinstance(row, SourceRow):
                    window = self.source.read(position, min(WINDOW_BYTES, end - position))
                    decoded, nbytes = _numbers_of_run(window, 0, len(window), row)
                    reading.values.setdefault(row.name, []).extend(decoded)
                    stop = position + nbytes
                else:
                    stop = self.numbers_in_source(reading, window[0], position, end)
                if stop > position:
                    position, window = stop, window[stop - position :]
                    continue
                numbers = {}  # these must be decoded
            if stop := end_of_whole_fields(window, numbers):
                reading.data, reading.origin = window, position
                self.fields(reading, 0, stop)
                position, window = position + stop, window[stop:]
                ahead = min(2 * ahead, WINDOW_BYTES)  # after small fields, more of them are likely
            if window and (_is_large(window) or len(window) == min(WINDOW_BYTES, end - position)):
                reading.data, reading.origin = window, position
                position, window = self.large_field(reading, end), b""
                ahead = min(HEAD_BYTES, WINDOW_BYTES)
            elif position < end:
                nbytes = min(max(ahead, 2 * len(window)), WINDOW_BYTES, end - position)
                window = self.source.read(position, nbytes)

    def large_field(self, reading: Reading, end: int) -> int:
        """Merge the field at the start of the data of which more is in the source, up to `end`; the position after it.

        A message is decoded, weights stay where they are, and all other fields are read.
        """
        values, window, position = reading.values, reading.data, reading.origin
        row = None
        try:
            tag, after_tag = decode_prefix(window, 0)
            row = reading.table.by_tag.get(tag)
            if tag & 7 != WireType.LEN:  # a group, or a field that the end of the data cuts
                reading.data, stop = self.group(position, end, tag, after_tag, reading.depth)
                row = None  # an error in the field will name it
                return position + self.fields(reading, 0, min(stop, len(reading.data)))
            size, after = decode_prefix(window, after_tag)
            begin, stop = position + after, position + after + size
            if stop > end:
                raise TruncatedError(f"needed {size} bytes, {end - begin} left")
            if self.visit and (row is None or isinstance(row, PresenceRow)):
                skip_field(window, after_tag, tag, reading.depth)  # refuses a wrong number, and reads no payload
                if row:
                    values[row.name] = True
            elif isinstance(row, MessageRow):
                self.large_message(reading, row, begin, stop)
            elif isinstance(row, SourceRow):
                part = self.source.slice(begin, size)
                if row.width == 0:
                    check_end(part)  # the encoder checks the others, which are not read here
                self.set_source(values, row, part)
            else:
                row = None  # as above
                reading.data = self.read(position, stop - position)
                self.fields(reading, 0, stop - position)
        except IndexError:
            raise TruncatedError("the data ends inside a field", file_offset=position) from None
        except FormatError as error:
            _locate(error, values, row, position)
            raise
        return stop

    def large_message(self, reading: Reading, row: MessageRow, begin: int, end: int) -> None:
        """Merge a message that is the field at the start of the data; its own fields begin at `begin` of the source."""
        values, field_start = reading.values, reading.origin
        window = reading.data[begin - field_start :]
        if row.name in values and not row.repeated:
            present = _to_merge(values[row.name])
            self.large(Reading(present, row.table, reading.depth + 1, window), begin, end)
            if row.table.finish:
                row.table.finish(present)
            return
        if row.name in values.get("undecoded", ()) and row.is_place:
            self.decode_undecoded(values, row.name)
        inner = Reading({}, row.table, reading.depth + 1, window)
        self.large(inner, begin, end)
        if row.is_visited and self.visit:
            self.visit(inner.values, inner.depth)
            return
        message = _made(row.table, inner.values)
        undecoded = self.undecoded(reading, row, end - begin, end - begin) if row.is_bulk else None
        if undecoded:
            undecoded.add_known(field_start, end, message)
        else:
            self.set(values, row, message)

    def read(self, position: int, nbytes: int) -> bytes:
        """The bytes of a field that are needed in memory.

        Raises: LimitError if they are too many.
        """
        if nbytes > FIELD_BYTES:
            raise LimitError(
                f"a field that does not contain weights has {nbytes} bytes; at most {FIELD_BYTES} are read"
            )
        return self.source.read(position, nbytes)

    def group(self, position: int, end: int, tag: int, after: int, depth: int) -> tuple[bytes, int]:
        """The bytes from `position` of the source on, just enough for the field there, and its end in these bytes."""
        nbytes = WINDOW_BYTES
        while True:
            nbytes = min(2 * nbytes, end - position)
            data = self.read(position, nbytes)
            try:
                stop = skip_field(data, after, tag, depth)
            except (IndexError, TruncatedError):
                stop = nbytes + 1
                if nbytes == end - position:
                    raise
            if stop <= nbytes or nbytes == end - position:
                return data, stop

    # Long lists, which stay undecoded

    def undecoded(self, reading: Reading, row: FieldRow, nbytes: int, largest_nbytes: int) -> FieldsInSource | None:
        """The list for elements of a field that stay undecoded; `None` if they do not.

        `nbytes` is the size of all elements that are there now, `largest_nbytes` that of the largest one.
        """
        if self.at_once:
            return None
        values = reading.values
        lists: dict[str, FieldsInSource] = values.get("undecoded", {})
        has_large_tensor = isinstance(row, MessageRow) and row.table is self.tensor and largest_nbytes >= MOVED_BYTES
        if row.name not in lists and row.name not in values and nbytes >= BULK_BYTES and not has_large_tensor:
            fields = FieldsInSource(self, reading.table, row.name, reading.depth)
            lists = values["undecoded"] = {**lists, row.name: fields}
            self.undecoded_lists.append(fields)
        return lists.get(row.name)

    def decode_undecoded(self, values: dict[str, Any], name: str) -> None:
        """Decode a list that stayed undecoded so far, because its next elements do not."""
        lists = dict(values["undecoded"])
        values[name] = lists.pop(name).decode()
        values["undecoded"] = lists

    def stays_as_entry(self, reading: Reading, row: MessageRow, begin: int, end: int) -> bool:
        """Whether the message in `data[begin:end]` of a reading stays undecoded, as an entry of external data.

        If not, those before it are decoded.
        """
        values = reading.values
        lists = values.get("undecoded", {})
        if row.name not in values and reading.depth < self.max_depth:
            field = reading.data[begin - 2 : end]
            places = lists.get(row.name) or Entries(b"", self.tables)
            if is_usual_entry(field) and len(places.data) + len(field) <= PLACE_BYTES:
                self.messages += 1
                places.data += field
                values["undecoded"] = {row.name: places}
                return True
        if row.name in lists:
            self.decode_undecoded(values, row.name)
        return False

    def numbers_in_source(self, reading: Reading, tag: int, start: int, end: int) -> int:
        """The end of the numbers behind tags from `start` of the source on if they stay there; else `start`."""
        row = reading.table.runs[tag]
        numbers = unpacked(self.source, start, end, tag, width_of(row))
        if numbers is None:
            return start
        stop = start + numbers.source.nbytes
        if self.visit:
            return stop
        if isinstance(row, SourceRow):
            self.set_source(reading.values, row, numbers)
        elif undecoded := self.undecoded(reading, row, stop - start, 0):
            undecoded.add(start, stop, 0, False)
        else:
            return start
        return stop

    def run(self, reading: Reading, row: FieldRow | None, start: int, end: int) -> int:
        """Leave or decode the adjacent elements of a list together, if they are many; the position after them.

        It is `start` if they are few, or the first one is wrong: then `look_from` says where another run may begin.
        """
        data, stop = reading.data, start
        listed = reading.table.runs.get(data[start]) if start >= reading.look_from else None
        if isinstance(listed, (MessageRow, BytesRow)):
            after = start + 2 + data[start + 1]
            is_alone = data[start + 1] < 0x80 and after < end and data[after] != data[start]
            if not is_alone and not (self.at_once and isinstance(listed, MessageRow)):
                stop = self.run_of_payloads(reading, listed, start, end)
        elif listed is not None:
            stop = self.run_of_numbers(reading, listed, start, end)
        if stop == start and row is not None and row.name in reading.values.get("undecoded", ()):
            self.decode_undecoded(reading.values, row.name)
        return stop

    def run_of_payloads(self, reading: Reading, row: MessageRow | BytesRow, start: int, end: int) -> int:
        """What `run` does with messages and texts, which stay undecoded."""
        data, origin = reading.data, reading.origin
        reading.look_from = end
        try:
            stop, largest_nbytes = end_of_run(data, start, end)
        except (IndexError, FormatError):  # decoding one by one will find the place
            return start
        if isinstance(row, MessageRow):
            reading.look_from = stop
        if stop <= end and (self.visit or self.at_once):
            reading.look_from = stop
            if self.at_once:
                reading.values.setdefault(row.name, []).extend(payloads(data[start:stop]))
            return stop
        undecoded = self.undecoded(reading, row, stop - start, largest_nbytes) if stop <= end else None
        if undecoded is None:
            return start
        reading.look_from = stop
        if isinstance(row, MessageRow):
            has_references = self.look_for_references(row, data, start, stop)
            undecoded.add(origin + start, origin + stop, largest_nbytes, has_references)
        else:
            undecoded.add(origin + start, origin + stop, 0, False)
        return stop

    def run_of_numbers(self, reading: Reading, row: FieldRow, start: int, end: int) -> int:
        """What `run` does with numbers, each behind a tag."""
        values, origin = reading.values, reading.origin
        stop = start
        if isinstance(row, SourceRow) or not self.at_once:
            stop = self.numbers_in_source(reading, reading.data[start], origin + start, origin + end) - origin
        is_decoded = not (self.visit or isinstance(row, SourceRow) or row.name in values.get("undecoded", ()))
        if stop == start and is_decoded:
            numbers, nbytes = _numbers_of_run(reading.data, start, end, row)
            if numbers:
                values.setdefault(row.name, []).extend(numbers)
            stop += nbytes
        reading.look_from = stop if stop - start >= RUN_BYTES else end
        return stop

    def look_for_references(self, row: MessageRow, data: bytes, start: int, stop: int) -> bool | None:
        """Whether there is a tensor with external data in the elements in `data[start:stop]`; `None` if it seems so."""
        if row.table.name == "ValueInfoProto":  # in which there are no tensors
            return False
        return None if _ANY_EXTERNAL.search(data, start, stop) else False

    # Fields in memory

    def fields(self, reading: Reading, position: int, end: int) -> int:
        """Merge the fields in `data[position:end]` of the reading into its values, and return `end`."""
        self.messages += 1
        if reading.depth > self.max_depth or self.messages > self.max_messages:
            raise self.excess(reading.depth)
        values, data, by_tag = reading.values, reading.data, reading.table.by_tag
        is_long = end - position >= BULK_BYTES or "undecoded" in values
        reading.look_from = start = position
        row = None
        try:
            while position < end:
                start = position
                tag, position = decode_prefix(data, start)
                row = by_tag.get(tag)
                if is_long and (stop := self.run(reading, row, start, end)) > start:
                    position = stop
                    continue
                if row is None:
                    position = skip_field(data, position, tag, reading.depth)
                    self.add_unknown(reading, start, position)
                    continue
                if tag & 7 == _LEN:
                    size, begin = decode_prefix(data, position)
                    position = begin + size
                    if position > end:
                        raise TruncatedError(f"needed {size} bytes, {end - begin} left")
                    value = self.payload(reading, row, begin, position)
                else:
                    value, position = self.number(reading, row, tag, start, position)
                if value is not None:
                    self.set(values, row, value)
            if position > end:
                raise TruncatedError("the message ends inside a field")
        except (IndexError, struct.error):
            raise TruncatedError("the data ends inside a field", file_offset=reading.origin + start) from None
        except FormatError as error:
            _locate(error, values, row, reading.origin + start)
            raise
        if reading.table is self.tensor and values.get("data_location") == EXTERNAL:
            self.has_references = True
            if self.tables is tables():  # a dict that grows when the data is located leaves a hole in memory
                values.setdefault("external_source")
        return end

    def payload(self, reading: Reading, row: FieldRow, begin: int, end: int) -> Any:
        """The value in `data[begin:end]` of a reading; `None` if it is already among its values."""
        data = reading.data
        if type(row) is TextRow:
            try:
                return data[begin:end].decode()
            except UnicodeDecodeError:
                return reading.table.decode_text(data[begin:end])
        if type(row) is MessageRow:
            return self.message(reading, row, begin, end)
        if type(row) is BytesRow:
            return data[begin:end]
        if type(row) is SourceRow:
            if row.width == 0:
                check_packed(Literal(memoryview(data)[begin:end]))
            is_small = end - begin <= self.inline_bytes
            origin = reading.origin
            part = Literal(data[begin:end]) if is_small else self.source.slice(origin + begin, end - begin)
            self.set_source(reading.values, row, part)
        elif type(row) is IntegerRow or type(row) is FixedWidthRow:
            numbers = unpack_numbers(data[begin:end], row.number_type)
            before = reading.values.setdefault(row.name, numbers)
            if before is not numbers:
                before.extend(numbers)
        else:  # a PresenceRow
            reading.values[row.name] = True
        return None

    def message(self, reading: Reading, row: MessageRow, begin: int, end: int) -> Any:
        """The message in `data[begin:end]`; `None` if it was shown to `visit`, merged into one there, or stays so."""
        table, depth = row.table, reading.depth + 1
        if row.is_place and self.stays_as_entry(reading, row, begin, end):
            return None
        if row.is_visited:
            self.visited_message(Reading({}, table, depth, reading.data, reading.origin), begin, end)
            return None
        if row.name in reading.values and not row.repeated:
            present = _to_merge(reading.values[row.name])
            self.fields(Reading(present, table, depth, reading.data, reading.origin), begin, end)
            if table.finish:
                table.finish(present)
            return None
        values: dict[str, Any] = {}
        self.fields(Reading(values, table, depth, reading.data, reading.origin), begin, end)
        return _made(table, values)

    def visited_message(self, reading: Reading, begin: int, end: int) -> None:
        """Show a message to `visit`, unless it is an attribute that was seen to have nothing in it."""
        is_short = reading.table is self.attribute and end - begin <= VISITED_BYTES
        attribute = reading.data[begin:end] if is_short else None
        if attribute in self.visited and reading.depth <= self.max_depth:
            return
        self.fields(reading, begin, end)
        if reading.values and self.visit:
            self.visit(reading.values, reading.depth)
        elif attribute is not None and len(self.visited) < MAX_VISITED:
            self.visited.add(attribute)

    def number(self, reading: Reading, row: FieldRow, tag: int, start: int, position: int) -> tuple[Any, int]:
        """The value of a field without a length, `None` if it is already among the values, and the position after it.

        The tag is in `data[start:position]`.
        """
        data = reading.data
        if type(row) is IntegerRow:
            value, position = decode_varint(data, position)
            if value >> 31:  # else it is what the type makes of it
                value = signed(value, row.number_type)
            if row.enum_numbers is not None and value not in row.enum_numbers:
                self.add_unknown(reading, start, position)
                return None, position
            return value, position
        if type(row) is FixedWidthRow:
            (value,) = row.number_type.unpack_from(data, position)
            return value, position + row.number_type.size
        stop = skip_field(data, position, tag)
        if type(row) is SourceRow:  # a number that is not packed
            self.set_source(reading.values, row, Literal(data[position:stop]))
            return None, stop
        return True, stop  # a PresenceRow

    def add_unknown(self, reading: Reading, start: int, stop: int) -> None:
        """Keep a field that the table does not have."""
        if self.visit is None:
            self.add(reading.values, "unknown_fields", reading.data[start:stop])


def _made(table: MessageTable, values: dict[str, Any]) -> Any:
    """The message with these fields, all of which were decoded."""
    if table.finish:
        table.finish(values)
    message = _new(table.message_class)
    set_fields(message, values)
    return message


def _to_merge(message: Any) -> dict[str, Any]:
    """The fields of a message to which others will be added, with lists of Python; who adds to them finishes it."""
    values: dict[str, Any] = message.__dict__
    for name, value in values.items():
        if isinstance(value, list) and type(value) is not list:
            values[name] = list(value)
    return values


def _numbers_of_run(data: bytes, start: int, end: int, row: FieldRow) -> tuple[list[Any], int]:
    """The numbers in the fields of the list of `row` from `start` on, and the size of the fields in bytes.

    There are none if the first one is wrong, or if all are so few that one by one is as fast. A wrong one ends them.
    """
    fields = data[start : min(start + BLOCK_BYTES, end)]
    if len(fields) < NUMPY_BYTES:
        return [], 0
    import numpy

    from formats.tensordata.sources.transform import decode_varints

    width = width_of(row)
    nbytes, _ = whole_fields(fields, data[start], width)
    numbers = without_tags(fields[:nbytes], width)
    if width:
        return numpy.frombuffer(numbers, f"<f{width}").tolist(), nbytes
    return decode_varints(numbers, numpy.dtype("<i8")).view("<i8").tolist(), nbytes


def _is_large(window: bytes) -> bool:
    """Whether the field at the start of the window is larger than any window."""
    try:
        tag, after = decode_prefix(window, 0)
        return tag & 7 == WireType.LEN and decode_prefix(window, after)[0] > WINDOW_BYTES
    except (IndexError, FormatError):
        return False


def _locate(error: FormatError, values: dict[str, Any], row: FieldRow | None, file_offset: int) -> None:
    """Add the place to an error. It arose in the field of `row` of a message with the fields `values`."""
    if error.file_offset is None:
        error.file_offset = file_offset
    if row:
        step = row.name
        if row.repeated and isinstance(row, MessageRow):
            places = values.get("undecoded", {}).get(row.name) if row.is_place else None
            step += f"[{len(places.pairs() if places else values.get(row.name, ()))}]"
        error.where = f"{step}.{error.where}" if error.where else step
