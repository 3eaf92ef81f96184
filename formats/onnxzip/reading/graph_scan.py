"""The graph of an archive as a reader of archives sees it: one pass over its bytes, without decoding.

Messages without tensors are skipped, so it does not matter here whether a graph is a valid ONNX model. The table of
messages to read belongs to the format: it does not grow with ONNX.

Spec: docs/onnxz.md, section 6; Protocol Buffers, "Encoding".
"""

from __future__ import annotations

from collections import defaultdict, deque
from typing import TYPE_CHECKING, Any, TypeAlias

from formats.codecs.contract import DEEPEST, MAX_DEPTH
from formats.errors import FormatError, LimitError, TruncatedError
from formats.ir import walk
from formats.ir.model import EXTERNAL, Tensor
from formats.onnxpb.wire.fields_in_source import FieldsInSource
from formats.onnxpb.wire.varints import (
    MAX_FIELD_NUMBER,
    GroupError,
    VarintError,
    WireType,
    decode_prefix,
    decode_varint,
    end_of_whole_fields,
    make_tag,
    signed,
    skip_field,
)
from formats.onnxzip.reading.graph import OWN_DATA, SEGMENT, ExternalTensor
from formats.tensordata.sources.source import Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from formats.ir.model import Undecoded
    from formats.onnxzip.reading.forms import Forms
    from formats.tensordata.sources.source import Source

ENTERED = {  # message -> the number of a field -> the message in it
    "ModelProto": {7: "GraphProto", 20: "TrainingInfoProto", 25: "FunctionProto"},
    "TrainingInfoProto": {1: "GraphProto", 2: "GraphProto"},
    "FunctionProto": {7: "NodeProto", 11: "AttributeProto"},
    "GraphProto": {1: "NodeProto", 5: "TensorProto", 15: "SparseTensorProto"},
    "NodeProto": {5: "AttributeProto"},
    "AttributeProto": {
        5: "TensorProto",
        6: "GraphProto",
        10: "TensorProto",
        11: "GraphProto",
        22: "SparseTensorProto",
        23: "SparseTensorProto",
    },
    "SparseTensorProto": {1: "TensorProto", 2: "TensorProto"},
    "TensorProto": {},
}
_MERGED = (("AttributeProto", 5), ("AttributeProto", 22), ("SparseTensorProto", 1), ("SparseTensorProto", 2))

_GRAPH_TAG = make_tag(7, WireType.LEN)
_NAME_TAGS = tuple(make_tag(number, WireType.LEN) for number in (1, 2, 3))  # input, output and name of a node
DIM_TAG, _DIMS_TAG = make_tag(1, WireType.VARINT), make_tag(1, WireType.LEN)
TYPE_TAG, LOCATION_TAG = make_tag(2, WireType.VARINT), make_tag(14, WireType.VARINT)
NAME_TAG, EXTERNAL_TAG = (make_tag(number, WireType.LEN) for number in (8, 13))  # of a tensor
_PLAIN_NUMBERS = frozenset((DIM_TAG, TYPE_TAG))
_PLAIN_TEXTS = frozenset(make_tag(number, WireType.LEN) for number in (1, 4, 5, 7, 8, 9))  # packed dims, data, name
KEY_TAG, VALUE_TAG = _NAME_TAGS[:2]
WHOLE_BYTES = 1 << 24  # a message up to this size is read in one piece
WINDOW_BYTES = 1 << 16  # for a larger one, only fields up to this size are
_REFUSED = frozenset((SEGMENT, *OWN_DATA))
_INT32, _INT64 = (32, True), (64, True)
_NODE_BYTES = 1 << 9  # the rest of a node this small is looked up: a large graph usually has an equal one
_MAX_NODES = 1 << 14


class _Message:
    """The fields of a message for a reader of archives, by tag: messages to read, and those of them that are merged."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.entered: dict[int, _Message] = {}
        self.merged = frozenset(make_tag(number, WireType.LEN) for message, number in _MERGED if message == name)


_MESSAGES = {name: _Message(name) for name in ENTERED}
for _name, _fields in ENTERED.items():
    _MESSAGES[_name].entered.update(
        {make_tag(number, WireType.LEN): _MESSAGES[inner] for number, inner in _fields.items()}
    )
_MODEL, _NODE, _TENSOR = (_MESSAGES[name] for name in ("ModelProto", "NodeProto", "TensorProto"))


def scan(
    source: Source,
    judge: Callable[[ExternalTensor], object],
    max_depth: int = MAX_DEPTH,
) -> bool:
    """Whether there is a graph in the ModelProto in `source`; `judge` is called with every external tensor in it.

    Raises: DecodeError with the file offset in `source`; the errors of `judge`.
    """
    scanner = _Scanner(source, judge, max_depth)
    scanner.message(_MODEL, 0, source.nbytes, 0, {})
    return scanner.has_graph


def check_undecoded(fields: Undecoded, max_depth: int = MAX_DEPTH) -> None:
    """Check that undecoded elements, none of which is an external tensor, are allowed in an archive.

    Raises: DecodeError with the file offset in the source of the fields.
    """
    if isinstance(fields, FieldsInSource):  # others are copies of decoded ones
        scanner = _Scanner(fields.source, lambda _: None, max_depth)
        for start, stop in fields.ranges:
            if element := fields.known.get(start):  # decoded, except for its own such fields
                deque(walk.visit(element, Tensor, enter=lambda left: check_undecoded(left, max_depth)), 0)
            else:
                scanner.message(_MESSAGES[fields.message], start, stop, fields.depth, {})


class _Tensor:
    """The parts of a tensor that were read; its fields may come in several parts."""

    __slots__ = ("data_type", "dims", "external_data", "location", "others")

    def __init__(self) -> None:
        self.location = self.data_type = 0
        self.dims: list[bytes] = []  # varints
        self.external_data: list[bytes] = []
        self.others: set[int] = set()

    def add(self, data: bytes, position: int, tag: int) -> int:
        """Add the field whose tag ends at `position`; return the position after it."""
        stop = skip_field(data, position, tag)
        if tag == LOCATION_TAG:
            self.location, _ = decode_varint(data, position)
        elif tag == TYPE_TAG:
            self.data_type, _ = decode_varint(data, position)
        elif tag == DIM_TAG:
            self.dims.append(data[position:stop])
        elif tag in (_DIMS_TAG, EXTERNAL_TAG):
            _, begin = decode_prefix(data, position)
            (self.dims if tag == _DIMS_TAG else self.external_data).append(data[begin:stop])
        elif tag >> 3 in _REFUSED:
            self.others.add(tag >> 3)
        return stop


# What several fields of a message add to: a tensor with the key 0, and the same for inner messages with their tags.
_Parts: TypeAlias = "dict[int, Any]"


class _Scanner:
    """Searches a source for external tensors."""

    def __init__(
        self,
        source: Source,
        judge: Callable[[ExternalTensor], object],
        max_depth: int,
    ) -> None:
        from formats.onnxzip.reading.forms import Forms  # a conversion to an archive scans no graph

        self.source = source
        self.judge = judge
        self.max_depth = max_depth
        self.has_graph = False
        self.external_tensors = 0
        self.nodes: dict[int, set[bytes]] = {}  # by depth, the ends of nodes without external tensors
        self.forms: defaultdict[tuple[int, int], Forms] = defaultdict(Forms)  # by tag and depth

    def message(self, message: _Message, start: int, end: int, depth: int, parts: _Parts) -> None:
        """Read the fields in a range of the source."""
        if isinstance(self.source, Literal) and isinstance(self.source.data, bytes):
            self.fields(message, self.source.data, start, end, 0, depth, parts)
        elif end - start <= WHOLE_BYTES:
            self.fields(message, self.source.read(start, end - start), 0, end - start, start, depth, parts)
        else:
            self.large(message, start, end, depth, parts)

    def fields(
        self, message: _Message, data: bytes, position: int, end: int, origin: int, depth: int, parts: _Parts
    ) -> None:
        """Read the fields in `data[position:end]`; `data` starts at `origin` of the source."""
        entered, tensor = message.entered, parts.get(0)
        start = position
        try:
            while position < end:
                start = position
                tag = data[position]
                position += 1
                if tag >= 0x80:
                    tag, position = decode_prefix(data, start)
                inner = entered.get(tag)
                if inner is None:
                    position = tensor.add(data, position, tag) if tensor else skip_field(data, position, tag)
                    continue
                size = data[position]
                position += 1
                if size >= 0x80:
                    size, position = decode_prefix(data, position - 1)
                begin, position = position, position + size
                if position > end:
                    raise TruncatedError(f"needed {size} bytes, {end - begin} left")
                if inner is _NODE:
                    position = self.run_of_nodes(data, (tag, begin, position, end), origin, depth + 1)
                elif inner is _TENSOR and tag not in message.merged and _is_plain_tensor(data, begin, position):
                    self.check_depth(depth + 1)
                    position = self.run_of_tensors(data, (tag, begin, position, end), depth + 1)
                else:
                    self.enter(message, tag, data, (begin, position, origin), depth + 1, parts)
            if position > end:
                raise TruncatedError("the message ends inside a field")
        except (IndexError, FormatError) as error:
            raise _with_place(error, origin + start) from None

    def run_of_nodes(self, data: bytes, place: tuple[int, int, int, int], origin: int, depth: int) -> int:
        """Read adjacent nodes, and return the end of the last one.

        `place` has their tag, the start and the end of the first one, and the end of all fields. The rest after the
        names of a node is read only once, however many nodes have the same rest.
        """
        self.check_depth(depth)
        tag, begin, stop, end = place
        seen = self.nodes.setdefault(depth, set())
        forms = self.forms[tag, depth]
        while True:
            position = begin
            while position < stop - 1 and data[position] in _NAME_TAGS and data[position + 1] < 0x80:
                position += 2 + data[position + 1]
            if position > stop or data[position:stop] not in seen:
                found = self.external_tensors
                self.fields(_NODE, data, begin, stop, origin, depth, {})
                if stop - position <= _NODE_BYTES and found == self.external_tensors and len(seen) < _MAX_NODES:
                    seen.add(data[position:stop])
            if forms.wants_one and position <= stop and data[position:stop] in seen:
                forms.add(tag, data[begin:stop], _texts(data, begin, position))
            stop = forms.end_of_run(data, stop, end)
            if stop >= end - 1 or data[stop] != tag:
                return stop
            size, begin = data[stop + 1], stop + 2
            if size >= 0x80:
                size, begin = decode_prefix(data, stop + 1)
            if begin + size > end:  # the caller reports it
                return stop
            stop = begin + size

    def run_of_tensors(self, data: bytes, place: tuple[int, int, int, int], depth: int) -> int:
        """The end of the tensors of known forms that follow a plain one; `place` is as that of `run_of_nodes`."""
        tag, begin, stop, end = place
        forms = self.forms[tag, depth]
        if forms.wants_one:
            forms.add(tag, data[begin:stop], _texts(data, begin, stop))
        return forms.end_of_run(data, stop, end)

    def large(self, message: _Message, start: int, end: int, depth: int, parts: _Parts) -> None:
        """Read the fields in a large range of the source, without reading skipped parts."""
        position = start
        while position < end:
            window = self.source.read(position, min(WINDOW_BYTES, end - position))
            stop = end_of_whole_fields(window)
            if stop:
                self.fields(message, window, 0, stop, position, depth, parts)
                position += stop
                continue
            try:
                position = self.large_field(message, window, position, end, depth, parts)
            except (IndexError, FormatError) as error:
                raise _with_place(error, position) from None

    def large_field(self, message: _Message, window: bytes, position: int, end: int, depth: int, parts: _Parts) -> int:
        """Read the field at `position` of the source, which begins with `window`; return the position after it."""
        tag, after = decode_prefix(window, 0)
        if tag & 7 != WireType.LEN:  # a group, or an incomplete field
            data = self.source.read(position, end - position)
            stop = skip_field(data, after, tag)
            self.fields(message, data, 0, min(stop, len(data)), position, depth, parts)
            if stop > len(data):
                raise TruncatedError("the message ends inside a field")
            return position + stop
        size, after = decode_prefix(window, after)
        begin, stop = position + after, position + after + size
        if stop > end:
            raise TruncatedError(f"needed {size} bytes, {end - begin} left")
        tensor = parts.get(0)
        if tag in message.entered:
            self.enter(message, tag, None, (begin, stop, 0), depth + 1, parts)
        elif tensor and tag >> 3 in _REFUSED:
            tensor.others.add(tag >> 3)
        elif tensor and tag in (_DIMS_TAG, EXTERNAL_TAG):
            (tensor.dims if tag == _DIMS_TAG else tensor.external_data).append(self.source.read(begin, size))
        elif not 0 < tag >> 3 <= MAX_FIELD_NUMBER:
            skip_field(window, after, tag)
        return stop

    def enter(
        self, outer: _Message, tag: int, data: bytes | None, place: tuple[int, int, int], depth: int, parts: _Parts
    ) -> None:
        """Read an inner message, in `data` or in the source.

        `place` has its start and its end, and the offset of `data` in the source.
        """
        self.check_depth(depth)
        message, (begin, end, origin) = outer.entered[tag], place
        if outer is _MODEL and tag == _GRAPH_TAG:
            self.has_graph = True
        is_merged = tag in outer.merged
        inner: _Parts | None = parts.get(tag) if is_merged else None
        if inner is None:
            inner = {0: _Tensor()} if message is _TENSOR else {}
            if is_merged:
                parts[tag] = inner
        if data is None:
            self.message(message, begin, end, depth, inner)
        else:
            self.fields(message, data, begin, end, origin, depth, inner)
        if not is_merged:
            self.finish(inner, depth)

    def check_depth(self, depth: int) -> None:
        """Check that a message is not nested too deeply."""
        if depth > self.max_depth:
            message = f"messages are nested more than {self.max_depth} deep; `max_depth` allows up to {DEEPEST}"
            raise LimitError(message, requirement="Z-6.4")

    def finish(self, parts: _Parts, depth: int) -> None:
        """Judge the tensors of a message after all its fields were read."""
        for tag, part in parts.items():
            if tag:
                self.finish(part, depth + 1)
            elif signed(part.location, _INT32) == EXTERNAL:
                self.external_tensors += 1
                if part.external_data:
                    self.check_depth(depth + 1)
                places = [_place(entry) for entry in part.external_data]
                dims = [signed(value, _INT64) for varints in part.dims for value in _dims(varints)]
                data_type = signed(part.data_type, _INT32)
                self.judge(ExternalTensor(places, data_type, dims, frozenset(part.others)))


def _is_plain_tensor(data: bytes, position: int, end: int) -> bool:
    """Whether the tensor in `data[position:end]` is not external, and has only complete fields of the usual kinds.

    This takes a fifth of the time of reading such a tensor field by field.
    """
    while position < end - 1:
        tag, size = data[position], data[position + 1]
        if tag in _PLAIN_NUMBERS and size < 0x80:
            position += 2
        elif tag not in _PLAIN_TEXTS:
            return False
        elif size < 0x80:
            position += 2 + size
        elif position + 2 < end and data[position + 2] < 0x80:
            position += 3 + (size & 0x7F | data[position + 2] << 7)
        else:
            return False
    return position == end


def _texts(data: bytes, begin: int, end: int) -> list[tuple[int, int]]:
    """Where in `data[begin:end]` the values of length-delimited fields are; its fields are those of a plain tensor."""
    found = []
    position = begin
    while position < end:
        if data[position] in _PLAIN_NUMBERS:
            position += 2
            continue
        size, start = decode_prefix(data, position + 1)
        position = start + size
        found.append((start - begin, position - begin))
    return found


def _place(entry: bytes) -> tuple[str, str]:
    """The key and the value of a StringStringEntryProto."""
    found = {KEY_TAG: b"", VALUE_TAG: b""}
    position = 0
    while position < len(entry):
        tag, begin = decode_prefix(entry, position)
        position = skip_field(entry, begin, tag)
        if tag in found:
            _, begin = decode_prefix(entry, begin)
            found[tag] = entry[begin:position]
    if position > len(entry):
        raise TruncatedError("the message ends inside a field")
    key, value = (text.decode("utf-8", "surrogateescape") for text in found.values())
    return key, value


def _dims(data: bytes) -> Iterator[int]:
    """The numbers of a packed field."""
    position = 0
    try:
        while position < len(data):
            value, position = decode_varint(data, position)
            yield value
    except (IndexError, FormatError):
        raise TruncatedError("the numbers in dims do not fill their field exactly", requirement="Z-6.7") from None


def _with_place(error: IndexError | FormatError, file_offset: int) -> FormatError:
    """The error with the broken requirement and the place, if it has no more exact one."""
    if isinstance(error, IndexError):
        return TruncatedError("the data ends inside a field", file_offset=file_offset, requirement="Z-6.1")
    if error.requirement is None:
        in_group = isinstance(error, GroupError | LimitError)
        error.requirement = "Z-6.3" if in_group else "Z-6.2" if isinstance(error, VarintError) else "Z-6.1"
    if error.file_offset is None:
        error.file_offset = file_offset
    return error
