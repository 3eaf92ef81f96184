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
from math import inf
from typing import TYPE_CHECKING, Any, TypeVar

from formats.codecs.contract import DEEPEST, MAX_DEPTH
from formats.collector import collector_paused
from formats.errors import FormatError, LimitError, TruncatedError, WireError
from formats.ir.model import EXTERNAL, set_fields
from formats.onnxpb.wire.fields_in_source import FieldsInSource
from formats.onnxpb.wire.tables import (
    BytesRow,
    FixedWidthRow,
    IntegerRow,
    MessageRow,
    PresenceRow,
    SourceRow,
    TextRow,
    tables,
)
from formats.onnxpb.wire.varints import (
    WireType,
    decode_prefix,
    decode_varint,
    end_of_run,
    end_of_whole_fields,
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
CUT_NUMBER = "the last number of a packed field is cut"
FAR_INLINE_BYTES = 1 << 10  # the same if the file is elsewhere: each request costs time
BULK_BYTES = 1 << 12  # a list this long is left undecoded; decoding a shorter one costs no more than the check
RUN_BYTES = 1 << 10  # of values in a row: after a shorter run, no other is looked for in a message
NUMPY_BYTES = 1 << 15  # of numbers in a row: decoding fewer one by one takes no longer than importing numpy
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
    return decode_in(tables(), message_class.message, source, max_depth)  # type: ignore[attr-defined]


def decode_in(
    family: Tables, name: str, source: Source, max_depth: int = MAX_DEPTH, *, at_once: bool = False
) -> tuple[Any, bool]:
    """The message with this name, of the classes of the family, and whether some tensor may have external data.

    Raises: DecodeError as `decode` does.
    """
    values: dict[str, Any] = {}
    with collector_paused():
        decoder = MessageDecoder(source, max_depth, family, at_once=at_once)
        decoder.merge(values, family[name], 0, source.nbytes, 0)
        decoder.join()
        return _made(family[name], values), decoder.may_have_references()


class MessageDecoder:
    """The source that is decoded, and what was read of it so far.

    `tables` are those of the messages to make. `at_once` leaves nothing undecoded.

    If there is `visit`, unknown fields are dropped, and it is called with the fields and the depth of each message that
    the tables say is visited. These are not kept, so there may be any number of them.

    While a message is decoded, it is the dict of its fields.
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
            self.fields(values, table, self.source.data, start, end, 0, depth)
        elif end - start <= WHOLE_BYTES:
            self.fields(values, table, self.source.read(start, end - start), 0, end - start, start, depth)
        else:
            self.large(values, table, start, end, depth)

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

    def large(
        self, values: dict[str, Any], table: MessageTable, start: int, end: int, depth: int, window: bytes = b""
    ) -> None:
        """Merge the fields in the range `start` to `end` of the source into `values`, reading little of it.

        A window moves over the range. At first it has the bytes that were already read. A field that is wholly in the
        window is decoded there.
        """
        if depth > self.max_depth:
            raise self.excess(depth)
        position = start
        ahead = min(HEAD_BYTES, WINDOW_BYTES) if table is self.tensor else WINDOW_BYTES
        if table is self.attribute:
            window = b""  # in a short window, a long list would look short
        numbers = {tag: row for tag, row in table.runs.items() if not isinstance(row, (MessageRow, BytesRow))}
        while position < end:
            if window and window[0] in numbers:
                stop = self.numbers_in_source(values, table, window[0], position, end, depth)
                if stop > position:
                    position, window = stop, window[stop - position :]
                    continue
                numbers = {}  # these must be decoded
            if stop := end_of_whole_fields(window, numbers):
                self.fields(values, table, window, 0, stop, position, depth)
                position, window = position + stop, window[stop:]
                ahead = min(2 * ahead, WINDOW_BYTES)  # after small fields, more of them are likely
            if window and (_is_large(window) or len(window) == min(WINDOW_BYTES, end - position)):
                position, window = self.large_field(values, table, window, position, end, depth), b""
                ahead = min(HEAD_BYTES, WINDOW_BYTES)
            elif position < end:
                nbytes = min(max(ahead, 2 * len(window)), WINDOW_BYTES, end - position)
                window = self.source.read(position, nbytes)

    def large_field(
        self, values: dict[str, Any], table: MessageTable, window: bytes, position: int, end: int, depth: int
    ) -> int:
        """Merge the field that begins with `window` at `position` of the source; return the position after it.

        A message is decoded, weights stay where they are, and all other fields are read.
        """
        row = None
        try:
            tag, after_tag = decode_prefix(window, 0)
            row = table.by_tag.get(tag)
            if tag & 7 != WireType.LEN:  # a group, or a field that the end of the data cuts
                data, stop = self.group(position, end, tag, after_tag)
                row = None  # an error in the field will name it
                return position + self.fields(values, table, data, 0, min(stop, len(data)), position, depth)
            size, after = decode_prefix(window, after_tag)
            begin, stop = position + after, position + after + size
            if stop > end:
                raise TruncatedError(f"needed {size} bytes, {end - begin} left")
            if self.visit and (row is None or isinstance(row, PresenceRow)):
                skip_field(window, after_tag, tag)  # refuses a wrong number, and reads no payload
                if row:
                    values[row.name] = True
            elif isinstance(row, MessageRow):
                self.large_message(values, table, row, (position, begin, stop), depth, window[after:])
            elif isinstance(row, SourceRow):
                part = self.source.slice(begin, size)
                if row.width == 0 and size and part.read(size - 1)[0] >= 0x80:
                    raise TruncatedError(CUT_NUMBER)
                self.set_source(values, row, part)
            else:
                row = None  # as above
                data = self.read(position, stop - position)
                self.fields(values, table, data, 0, stop - position, position, depth)
        except IndexError:
            raise TruncatedError("the data ends inside a field", file_offset=position) from None
        except FormatError as error:
            _locate(error, values, row, position)
            raise
        return stop

    def large_message(
        self,
        values: dict[str, Any],
        table: MessageTable,
        row: MessageRow,
        place: tuple[int, int, int],
        depth: int,
        window: bytes,
    ) -> None:
        """Merge a message that is a field; `place` has the positions of the field, of its payload, and of their end."""
        position, begin, end = place
        if row.name in values and not row.repeated:
            present = _to_merge(values[row.name])
            self.large(present, row.table, begin, end, depth + 1, window)
            if row.table.finish:
                row.table.finish(present)
            return
        fields: dict[str, Any] = {}
        self.large(fields, row.table, begin, end, depth + 1, window)
        if row.is_visited and self.visit:
            self.visit(fields, depth + 1)
            return
        message = _made(row.table, fields)
        undecoded = self.undecoded(values, table, row, end - begin, end - begin, depth) if row.is_bulk else None
        if undecoded:
            undecoded.add_known(position, end, message)
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

    def group(self, position: int, end: int, tag: int, after: int) -> tuple[bytes, int]:
        """The bytes from `position` of the source on, just enough for the field there, and its end in these bytes."""
        nbytes = WINDOW_BYTES
        while True:
            nbytes = min(2 * nbytes, end - position)
            data = self.read(position, nbytes)
            try:
                stop = skip_field(data, after, tag)
            except (IndexError, TruncatedError):
                stop = nbytes + 1
                if nbytes == end - position:
                    raise
            if stop <= nbytes or nbytes == end - position:
                return data, stop

    # Long lists, which stay undecoded

    def undecoded(
        self, values: dict[str, Any], table: MessageTable, row: FieldRow, nbytes: int, largest_nbytes: int, depth: int
    ) -> FieldsInSource | None:
        """The list for elements of a field that stay undecoded; `None` if they do not.

        `nbytes` is the size of all elements that are there now, `largest_nbytes` that of the largest one.
        """
        if self.at_once:
            return None
        lists: dict[str, FieldsInSource] = values.get("undecoded", {})
        has_large_tensor = isinstance(row, MessageRow) and row.table is self.tensor and largest_nbytes >= MOVED_BYTES
        if row.name not in lists and row.name not in values and nbytes >= BULK_BYTES and not has_large_tensor:
            fields = FieldsInSource(self, table, row.name, depth)
            lists = values["undecoded"] = {**lists, row.name: fields}
            self.undecoded_lists.append(fields)
        return lists.get(row.name)

    def decode_undecoded(self, values: dict[str, Any], name: str) -> None:
        """Decode a list that stayed undecoded so far, because its next elements do not."""
        lists = dict(values["undecoded"])
        values[name] = lists.pop(name).decode()
        values["undecoded"] = lists

    def numbers_in_source(
        self, values: dict[str, Any], table: MessageTable, tag: int, start: int, end: int, depth: int
    ) -> int:
        """The end of the numbers behind tags from `start` of the source on if they stay there; else `start`."""
        row = table.runs[tag]
        numbers = unpacked(self.source, start, end, tag, _width(row))
        if numbers is None:
            return start
        stop = start + numbers.source.nbytes
        if isinstance(row, SourceRow):
            self.set_source(values, row, numbers)
        elif undecoded := self.undecoded(values, table, row, stop - start, 0, depth):
            undecoded.add(start, stop, 0, False)
        else:
            return start
        return stop

    def run(
        self, values: dict[str, Any], table: MessageTable, data: bytes, start: int, end: int, origin: int, depth: int
    ) -> tuple[int, int]:
        """Leave or decode the adjacent elements of a list together, if they are many; `data` starts at `origin`.

        The results are the position after them, which is `start` if they are few or the first one is wrong, and the
        position from which on another run may begin.
        """
        tag = data[start]
        row = table.runs[tag]
        if isinstance(row, (MessageRow, BytesRow)):
            if self.at_once:
                return start, end
            try:
                stop, largest_nbytes = end_of_run(data, start, end)
            except (IndexError, FormatError):  # decoding one by one will find the place
                return start, end
            undecoded = self.undecoded(values, table, row, stop - start, largest_nbytes, depth) if stop <= end else None
            if undecoded is None:
                return start, stop if isinstance(row, MessageRow) else end
            if isinstance(row, BytesRow):
                undecoded.add(origin + start, origin + stop, 0, False)
            else:
                has_references = self.look_for_references(row, data, start, stop)
                undecoded.add(origin + start, origin + stop, largest_nbytes, has_references)
            return stop, stop
        stop = start
        if isinstance(row, SourceRow) or not self.at_once:
            stop = self.numbers_in_source(values, table, tag, origin + start, origin + end, depth) - origin
        if stop == start and not isinstance(row, SourceRow) and row.name not in values.get("undecoded", ()):
            numbers, nbytes = _numbers_of_run(data, start, end, row)
            if numbers:
                values.setdefault(row.name, []).extend(numbers)
            stop += nbytes
        return stop, stop if stop - start >= RUN_BYTES else end

    def look_for_references(self, row: MessageRow, data: bytes, start: int, stop: int) -> bool | None:
        """Whether there is a tensor with external data in the elements in `data[start:stop]`; `None` if it seems so."""
        if row.table.name == "ValueInfoProto":  # in which there are no tensors
            return False
        return None if _ANY_EXTERNAL.search(data, start, stop) else False

    # Fields in memory

    def fields(
        self, values: dict[str, Any], table: MessageTable, data: bytes, position: int, end: int, origin: int, depth: int
    ) -> int:
        """Merge the fields in `data[position:end]` into `values` and return `end`.

        `data` starts at `origin` of the source. This is the inner loop of decoding, so the usual texts, numbers and
        tags are decoded here, not in functions.
        """
        self.messages += 1
        if depth > self.max_depth or self.messages > self.max_messages:
            raise self.excess(depth)
        by_tag, runs = table.by_tag, table.runs
        undecoded = values["undecoded"] if "undecoded" in values else ()  # noqa: SIM401 - no call for each of many messages
        is_long = end - position >= BULK_BYTES or undecoded
        look_from = position  # where the next run of elements of a list may begin
        start, row = position, None
        value: Any
        try:
            while position < end:
                start = position
                tag = data[position]
                position += 1
                if tag >= 0x80:
                    tag, position = decode_prefix(data, start)
                row = by_tag.get(tag)
                if row is None:
                    position = skip_field(data, position, tag)
                    if self.visit is None:
                        self.add(values, "unknown_fields", data[start:position])
                    continue
                if is_long:
                    is_first = tag in runs and start >= look_from and data[start] == tag
                    if is_first and tag & 7 == _LEN and data[position] < 0x80:
                        after = position + 1 + data[position]
                        is_first = after >= end or data[after] == tag  # a short element before another field is alone
                    if is_first:
                        stop, look_from = self.run(values, table, data, start, end, origin, depth)
                        undecoded = values.get("undecoded", ())
                        if stop > start:
                            position = stop
                            continue
                    if row.name in undecoded:
                        self.decode_undecoded(values, row.name)
                        undecoded = values.get("undecoded", ())
                if tag & 7 == _LEN:
                    size = data[position]
                    position += 1
                    if size >= 0x80:
                        size, position = decode_prefix(data, position - 1)
                    begin, position = position, position + size
                    if position > end:
                        raise TruncatedError(f"needed {size} bytes, {end - begin} left")
                    if type(row) is TextRow:
                        try:
                            value = data[begin:position].decode()
                        except UnicodeDecodeError:
                            value = table.decode_text(data[begin:position])
                    elif type(row) is MessageRow:
                        if row.is_visited:
                            self.visited_message(row.table, data, begin, position, origin, depth + 1)
                            continue
                        value = self.message(values, row, data, begin, position, origin, depth + 1)
                        if value is None:
                            continue
                    elif type(row) is BytesRow:
                        value = data[begin:position]
                    else:
                        self.other_payload(values, row, data, begin, position, origin)
                        continue
                elif type(row) is IntegerRow:
                    value = data[position]
                    position += 1
                    if value >= 0x80:
                        value, position = decode_varint(data, position - 1)
                        value = signed(value, row.number_type)
                    if row.enum_numbers is not None and value not in row.enum_numbers:
                        if self.visit is None:
                            self.add(values, "unknown_fields", data[start:position])
                        continue
                elif type(row) is FixedWidthRow:
                    (value,) = row.number_type.unpack_from(data, position)
                    position += row.number_type.size
                elif type(row) is SourceRow:  # a number that is not packed
                    begin, position = position, skip_field(data, position, tag)
                    self.set_source(values, row, Literal(data[begin:position]))
                    continue
                else:  # a PresenceRow
                    position = skip_field(data, position, tag)
                    value = True
                if row.repeated:  # as `set`, without a call for each field
                    if row.name in values:
                        values[row.name].append(value)
                    else:
                        values[row.name] = [value]
                else:
                    values[row.name] = value
                    for sibling in row.siblings:
                        values.pop(sibling, None)
            if position > end:
                raise TruncatedError("the message ends inside a field")
            if table is self.tensor and values.get("data_location") == EXTERNAL:
                self.has_references = True
        except (IndexError, struct.error):
            raise TruncatedError("the data ends inside a field", file_offset=origin + start) from None
        except FormatError as error:
            _locate(error, values, row, origin + start)
            raise
        return end

    def message(
        self, values: dict[str, Any], row: MessageRow, data: bytes, begin: int, end: int, origin: int, depth: int
    ) -> Any:
        """The message in a field; `None` if it was merged into the one that is there."""
        table = row.table
        if row.name in values and not row.repeated:
            present = _to_merge(values[row.name])
            self.fields(present, table, data, begin, end, origin, depth)
            if table.finish:
                table.finish(present)
            return None
        fields: dict[str, Any] = {}
        self.fields(fields, table, data, begin, end, origin, depth)
        if table.finish:
            table.finish(fields)
        message = _new(table.message_class)
        set_fields(message, fields)
        return message

    def visited_message(self, table: MessageTable, data: bytes, begin: int, end: int, origin: int, depth: int) -> None:
        """Show a message to `visit`, unless it is an attribute that was seen to have nothing in it."""
        attribute = data[begin:end] if table is self.attribute and end - begin <= VISITED_BYTES else None
        if attribute in self.visited and depth <= self.max_depth:
            return
        fields: dict[str, Any] = {}
        self.fields(fields, table, data, begin, end, origin, depth)
        if fields and self.visit:
            self.visit(fields, depth)
        elif attribute is not None and len(self.visited) < MAX_VISITED:
            self.visited.add(attribute)

    def other_payload(
        self, values: dict[str, Any], row: FieldRow, data: bytes, begin: int, end: int, origin: int
    ) -> None:
        """Set a field that can be weights, packed numbers, or one of which only the presence matters."""
        if type(row) is SourceRow:
            if row.width == 0 and end > begin and data[end - 1] >= 0x80:
                raise TruncatedError(CUT_NUMBER)
            is_small = end - begin <= self.inline_bytes
            part = Literal(data[begin:end]) if is_small else self.source.slice(origin + begin, end - begin)
            self.set_source(values, row, part)
        elif type(row) is IntegerRow or type(row) is FixedWidthRow:
            values.setdefault(row.name, []).extend(unpack_numbers(data[begin:end], row.number_type))
        else:
            values[row.name] = True


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


def _width(row: FieldRow) -> int:
    """The size in bytes of the numbers in a field; 0 for varints."""
    if isinstance(row, SourceRow):
        return row.width
    return row.number_type.size if isinstance(row, FixedWidthRow) else 0


def _numbers_of_run(data: bytes, start: int, end: int, row: FieldRow) -> tuple[list[Any], int]:
    """The numbers in the fields of the list of `row` from `start` on, and the size of the fields in bytes.

    There are none if the first one is wrong, or if all are so few that one by one is as fast. A wrong one ends them.
    """
    fields = data[start : min(start + BLOCK_BYTES, end)]
    if len(fields) < NUMPY_BYTES:
        return [], 0
    import numpy

    from formats.tensordata.sources.transform import decode_varints

    width = _width(row)
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
        is_element = row.repeated and isinstance(row, MessageRow)
        step = f"{row.name}[{len(values.get(row.name, ()))}]" if is_element else row.name
        error.where = f"{step}.{error.where}" if error.where else step
