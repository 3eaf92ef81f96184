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
    BULK,
    BYTES,
    CLOSED_ENUM,
    FIXED_WIDTH,
    INTEGER,
    LAST_MESSAGE,
    LAST_WITH_LENGTH,
    MESSAGE,
    PACKED,
    PLACE,
    PLACE_ONE,
    PLACES,
    PRESENCE,
    TEXT,
    VISIT,
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
    unpack,
)
from formats.tensordata.sources.source import Literal, Source, joined
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
        decoder = Decoder(source, max_depth, family, at_once=at_once)
        decoder.merge(values, family[name], 0, source.nbytes, 0)
        decoder.join()
        return _made(family[name], values), decoder.may_have_references()


class Decoder:
    """The source that is decoded, and what was read of it so far.

    `family` has the tables of the messages to make. `at_once` leaves nothing undecoded.

    If there is `visit`, unknown fields are dropped, and it is called with the fields and the depth of each message that
    `family` says is visited. These are not kept, so there may be any number of them.

    While a message is decoded, it is the dict of its fields.
    """

    def __init__(
        self,
        source: Source,
        max_depth: int,
        family: Tables,
        *,
        at_once: bool = False,
        visit: Callable[[dict[str, Any], int], None] | None = None,
    ) -> None:
        self.source = source
        is_near = isinstance(source, Literal) or all(file.is_local for file in source.files())
        self.inline_bytes = INLINE_BYTES if is_near else FAR_INLINE_BYTES
        self.max_depth = max_depth
        self.at_once = at_once
        self.visit = visit
        self.visited: set[bytes] = set()  # attributes with nothing to visit: most nodes have the same ones
        self.messages = 0
        self.max_messages = inf if visit else MAX_MESSAGES
        self.has_references = False  # of what was decoded
        self.left: list[FieldsInSource] = []  # what was not
        self.tables = family
        self.tensor, self.attribute = self.tables["TensorProto"], self.tables["AttributeProto"]
        self.parts: dict[tuple[int, str], tuple[dict[str, Any], list[Any]]] = {}

    def may_have_references(self) -> bool:
        """Whether some tensor in what was decoded or left may have external data."""
        return self.has_references or any(fields.has_references for fields in self.left)

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

    def add(self, values: dict[str, Any], name: str, parts: list[Any]) -> None:
        """Add to the existing bytes of a field; `join` joins all parts, once, however many there are."""
        _, present = self.parts.setdefault((id(values), name), (values, [values[name]]))
        present += parts

    def join(self) -> None:
        """Join the fields that came in parts."""
        for (_, name), (values, parts) in self.parts.items():
            values[name] = joined(parts) if isinstance(parts[0], Source) else b"".join(parts)

    def place(self, values: dict[str, Any], row: FieldRow, parts: list[Source]) -> None:
        """Set a field whose bytes stay in the source, or append to a repeated one, which may come in parts.

        Raises: WireError.
        """
        if row.inner and (wrong := [part.nbytes for part in parts if part.nbytes % row.inner]):
            # Not the sizes of the others, which depend on how many elements were left together.
            raise WireError(f"{wrong[0]} bytes are not a whole number of {row.inner}-byte elements")
        if row.repeated and row.name in values:
            self.add(values, row.name, parts)
        else:
            values[row.name] = joined(parts) if parts[1:] else parts[0]

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
        numbers = {tag: row for tag, row in table.runs.items() if row.action != BYTES}
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
                row = None  # an error will name the field
                return position + self.fields(values, table, data, 0, min(stop, len(data)), position, depth)
            size, after = decode_prefix(window, after_tag)
            begin, stop = position + after, position + after + size
            if stop > end:
                raise TruncatedError(f"needed {size} bytes, {end - begin} left")
            if self.visit and (row is None or row.action == PRESENCE):
                skip_field(window, after_tag, tag)  # refuses a wrong number, and reads no payload
                if row:
                    values[row.name] = True
            elif row and row.action in (MESSAGE, BULK, VISIT):
                if row.name in values and not row.repeated:
                    present = _to_merge(values[row.name])
                    self.large(present, row.inner, begin, stop, depth + 1, window[after:])
                    if row.inner.finish:
                        row.inner.finish(present)
                else:
                    fields: dict[str, Any] = {}
                    self.large(fields, row.inner, begin, stop, depth + 1, window[after:])
                    if self.visit and row.action == VISIT:
                        self.visit(fields, depth + 1)
                        return stop
                    inner = _made(row.inner, fields)
                    undecoded = self.undecoded(values, table, row, (size, size), depth) if row.action == BULK else None
                    if undecoded:
                        undecoded.add_known(position, stop, inner)
                    else:
                        _set(values, row, inner)
            elif row and row.action in (PLACE, PLACES):
                part = self.source.slice(begin, size)
                if row.action == PLACES and row.inner == 0 and size and part.read(size - 1)[0] >= 0x80:
                    raise TruncatedError(CUT_NUMBER)
                self.place(values, row, [part])
            else:
                data = self.read(position, stop - position)
                row = None  # likewise
                self.fields(values, table, data, 0, stop - position, position, depth)
        except IndexError:
            raise TruncatedError("the data ends inside a field", file_offset=position) from None
        except FormatError as error:
            _locate(error, values, row, position)
            raise
        return stop

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

    def undecoded(
        self, values: dict[str, Any], table: MessageTable, row: FieldRow, sizes: tuple[int, int], depth: int
    ) -> FieldsInSource | None:
        """The list for elements of a field that stay undecoded; `None` if they do not.

        `sizes` are the size of all elements and that of the largest one, in bytes.
        """
        if self.at_once:
            return None
        lists: dict[str, FieldsInSource] = values.get("undecoded", {})
        moved = row.inner is self.tensor and sizes[1] >= MOVED_BYTES
        if row.name not in lists and row.name not in values and sizes[0] >= BULK_BYTES and not moved:
            fields = FieldsInSource(self, table, row.name, depth)
            lists = values["undecoded"] = {**lists, row.name: fields}
            self.left.append(fields)
        return lists.get(row.name)

    def leave(
        self,
        values: dict[str, Any],
        table: MessageTable,
        row: FieldRow,
        data: bytes,
        start: int,
        end: int,
        place: tuple[int, int],
    ) -> tuple[int, bool]:
        """The end of the adjacent elements that begin at `start` of `data`, and whether they stay undecoded.

        `place` is the place of `data` in the source and its depth.
        """
        stop, largest = end_of_run(data, start, end)
        origin, depth = place
        undecoded = self.undecoded(values, table, row, (stop - start, largest), depth)
        if undecoded:
            has_references = self.look_for_references(row, data, start, stop)
            undecoded.add(origin + start, origin + stop, largest, has_references)
        return stop, bool(undecoded)

    def numbers_in_source(
        self, values: dict[str, Any], table: MessageTable, tag: int, start: int, end: int, depth: int
    ) -> int:
        """The end of the numbers behind tags from `start` of the source on if they stay there; else `start`."""
        row = table.runs[tag]
        run = unpacked(self.source, start, end, tag, _width(row))
        if run is None:
            return start
        stop = start + run.source.nbytes
        if row.action == PLACE_ONE:
            self.place(values, row, [run])
        elif undecoded := self.undecoded(values, table, row, (stop - start, 0), depth):
            undecoded.add(start, stop, 0, False)
        else:
            return start
        return stop

    def run(
        self, values: dict[str, Any], table: MessageTable, data: bytes, place: tuple[int, int], origin: int, depth: int
    ) -> int:
        """The end of the values of a list of an attribute, which stay undecoded or are decoded together.

        `place` has the start of the first one, and the end of the attribute. The result is the start if the values are
        few, or the first one is wrong.
        """
        start, end = place
        tag = data[start]
        row = table.runs[tag]
        if row.action == BYTES:
            try:
                stop, _ = end_of_run(data, start, end)
            except (IndexError, FormatError):  # decoding one by one will find the place
                return start
            undecoded = self.undecoded(values, table, row, (stop - start, 0), depth) if stop <= end else None
            if undecoded is None:
                return start
            undecoded.add(origin + start, origin + stop, 0, False)
            return stop
        stop = origin + start
        if not self.at_once:
            stop = self.numbers_in_source(values, table, tag, origin + start, origin + end, depth)
        if stop == origin + start and row.name not in values.get("undecoded", ()):
            numbers, nbytes = _numbers_of_run(data, start, end, row)
            if numbers:
                values.setdefault(row.name, []).extend(numbers)
            stop += nbytes
        return stop - origin

    def look_for_references(self, row: FieldRow, data: bytes, start: int, stop: int) -> bool | None:
        """Whether there is a tensor with external data in the elements in `data[start:stop]`; `None` if it seems so."""
        if row.inner.name == "ValueInfoProto":  # in which there are no tensors
            return False
        return None if _ANY_EXTERNAL.search(data, start, stop) else False

    def fields(
        self, values: dict[str, Any], table: MessageTable, data: bytes, position: int, end: int, origin: int, depth: int
    ) -> int:
        """Merge the fields in `data[position:end]` into `values` and return `end`.

        `data` starts at `origin` of the source. This is the inner loop of decoding.
        """
        self.messages += 1
        if depth > self.max_depth or self.messages > self.max_messages:
            raise self.excess(depth)
        by_tag = table.by_tag
        is_long = end - position >= BULK_BYTES or "undecoded" in values
        has_runs = is_long  # maybe: a search costs as much as decoding some values
        runs = table.runs
        unknown: list[bytes] | None = None
        places: dict[str, tuple[FieldRow, list[Source]]] | None = None
        run_end = 0  # the elements of a bulk field up to here are decoded one by one
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
                        unknown = unknown or []
                        unknown.append(data[start:position])
                    continue
                action, name, repeated, inner, siblings = row
                if is_long and action != BULK:
                    if has_runs and tag in runs and data[start] == tag and action != PLACE_ONE:
                        stop = self.run(values, table, data, (start, end), origin, depth)
                        has_runs = stop - start >= RUN_BYTES
                        if stop > start:
                            position = stop
                            continue
                    if name in values.get("undecoded", ()):  # its last values are decoded, and so are all
                        elements = values["undecoded"][name].decode()
                        left = values["undecoded"].items()
                        values["undecoded"] = {other: fields for other, fields in left if other != name}
                        values[name] = elements
                if action <= LAST_WITH_LENGTH:
                    size = data[position]
                    position += 1
                    if size >= 0x80:
                        size, position = decode_prefix(data, position - 1)
                    begin, position = position, position + size
                    if position > end:
                        raise TruncatedError(f"needed {size} bytes, {end - begin} left")
                    if action == TEXT:
                        try:
                            value = data[begin:position].decode()
                        except UnicodeDecodeError:
                            value = table.decode_text(data[begin:position])
                    elif action <= LAST_MESSAGE:
                        if action == BULK and start >= run_end and not self.at_once:
                            run_end, left = self.leave(values, table, row, data, start, end, (origin, depth))
                            if left:
                                position = run_end
                                continue
                        if name in values and not repeated:
                            present = _to_merge(values[name])
                            self.fields(present, inner, data, begin, position, origin, depth + 1)
                            if inner.finish:
                                inner.finish(present)
                            continue
                        is_attribute = inner is self.attribute and action == VISIT and size <= VISITED_BYTES
                        if is_attribute and depth < self.max_depth and data[begin:position] in self.visited:
                            continue
                        fields: dict[str, Any] = {}
                        self.fields(fields, inner, data, begin, position, origin, depth + 1)
                        if action == VISIT:
                            if fields and self.visit:
                                self.visit(fields, depth + 1)
                            elif is_attribute and len(self.visited) < MAX_VISITED:
                                self.visited.add(data[begin:position])
                            continue
                        if inner.finish:
                            inner.finish(fields)
                        value = _new(inner.message_class)
                        set_fields(value, fields)
                    elif action == BYTES:
                        value = data[begin:position]
                    elif action == PACKED:
                        values.setdefault(name, []).extend(unpack(data[begin:position], inner))
                        continue
                    else:
                        small = size <= self.inline_bytes
                        value = Literal(data[begin:position]) if small else self.source.slice(origin + begin, size)
                        if action == PLACES:
                            if inner == 0 and size and data[position - 1] >= 0x80:
                                raise TruncatedError(CUT_NUMBER)
                            places = places or {}
                            places.setdefault(name, (row, []))[1].append(value)
                            continue
                elif action == INTEGER:
                    value = data[position]
                    position += 1
                    if value >= 0x80:
                        value, position = decode_varint(data, position - 1)
                        value = signed(value, inner)
                elif action == FIXED_WIDTH:
                    (value,) = inner.unpack_from(data, position)
                    position += inner.size
                elif action == CLOSED_ENUM:
                    value, position = decode_varint(data, position)
                    value = signed(value, inner.width)
                    if value not in inner.numbers:
                        unknown = unknown or []
                        unknown.append(data[start:position])
                        continue
                elif action == PRESENCE:
                    position = skip_field(data, position, tag)
                    value = True
                else:
                    places = places or {}
                    if has_runs and data[start] == tag:
                        run = unpacked(self.source, origin + start, origin + end, tag, inner)
                        if has_runs := run is not None:
                            places.setdefault(name, (row, []))[1].append(run)
                            position = start + run.source.nbytes
                            continue
                    begin, position = position, skip_field(data, position, tag)
                    places.setdefault(name, (row, []))[1].append(Literal(data[begin:position]))
                    continue
                if repeated:
                    if name in values:
                        values[name].append(value)
                    else:
                        values[name] = [value]
                else:
                    values[name] = value
                    for sibling in siblings:
                        values.pop(sibling, None)
            if position > end:
                raise TruncatedError("the message ends inside a field")
            if places:
                for row, sources in places.values():
                    self.place(values, row, sources)
            if table is self.tensor and values.get("data_location") == EXTERNAL:
                self.has_references = True
            if unknown:
                if "unknown_fields" in values:
                    self.add(values, "unknown_fields", unknown)
                else:
                    values["unknown_fields"] = b"".join(unknown)
        except (IndexError, struct.error):
            raise TruncatedError("the data ends inside a field", file_offset=origin + start) from None
        except FormatError as error:
            _locate(error, values, row, origin + start)
            raise
        return end


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
    if row.action == INTEGER:
        return 0
    return row.inner if row.action == PLACE_ONE else row.inner.size  # type: ignore[no-any-return]


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


def _set(values: dict[str, Any], row: FieldRow, value: Any) -> None:
    """Set a field, or append to a repeated one."""
    if row.repeated:
        values.setdefault(row.name, []).append(value)
    else:
        values[row.name] = value
        for sibling in row.siblings:
            values.pop(sibling, None)


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
        is_element = row.repeated and row.action in (MESSAGE, BULK)
        step = f"{row.name}[{len(values.get(row.name, ()))}]" if is_element else row.name
        error.where = f"{step}.{error.where}" if error.where else step
