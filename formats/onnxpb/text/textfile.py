"""What the text formats share: the file around a message, its fields as plain values, and what they cannot express.

A field that the IR keeps as a `Source` is a list of numbers here, or a source of bytes. Many bytes become text only
while the file is written, a piece at a time.
"""

from __future__ import annotations

import os
import struct
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

from formats.codecs.contract import DEEPEST
from formats.errors import DecodeError, FormatError, LimitError, WireError
from formats.ir import walk
from formats.ir.model import EXTERNAL, MESSAGE_CLASSES, SOURCE_FIELDS, Model
from formats.ir.storage import external_places, location_of
from formats.onnxpb.external import model as external
from formats.onnxpb.wire.decoder import MAX_MESSAGES, decode
from formats.onnxpb.wire.schema import ENUMS, MESSAGES, MessageField
from formats.onnxpb.wire.varints import encode_varint
from formats.tensordata.file import is_address
from formats.tensordata.plan import INTERFACE, SPECIAL, FilePlan, Loss, PlacedWrite, WritePlan
from formats.tensordata.sources.source import Concat, FileSpan, Literal, Source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from formats.codecs.contract import ReadOptions
    from formats.onnxpb.options import TextOptions
    from formats.tensordata.file import File


MAX_MARGIN = 40  # spaces: 20 levels
PIECE_BYTES = 1 << 20  # that become text at a time: each byte is temporarily a separate string
INTEGER_RANGES = {
    "int32": range(-(1 << 31), 1 << 31),
    "enum": range(-(1 << 31), 1 << 31),
    "int64": range(-(1 << 63), 1 << 63),
    "uint64": range(1 << 64),
}
_NUMPY_CODES = {"float": "<f4", "double": "<f8", "int32": "<i4", "int64": "<i8", "uint64": "<u8"}
_FLOAT = struct.Struct("<f")
# The bits of the only NaN that a text has, by the kind of a field.
NANS = {"float": "0x7fc00000", "double": "0x7ff8000000000000"}
CLASSES = {cls.message: cls for cls in MESSAGE_CLASSES}


# From messages


@cache
def fields_in_order(message: str) -> tuple[MessageField, ...]:
    """The rows of a message in the order of field numbers, in which fields are written."""
    return tuple(sorted(MESSAGES[message]))


def wider(margin: str) -> str:
    """The margin of lines that are one level deeper; the deepest levels share one, or the margins alone would be text.

    A model can have hundreds of levels, so each of its bytes could become hundreds of spaces.
    """
    return margin if len(margin) > MAX_MARGIN else f"{margin}  "


def present_fields(message: Any) -> Iterator[tuple[MessageField, Sequence[Any]]]:
    """The fields that are set, each with its values: one value if the field is not repeated.

    Raises: WireError if typed data of a tensor are damaged.
    """
    for row in fields_in_order(message.message):
        value = getattr(message, row.name)
        if isinstance(value, Source):
            value = _read(value, row)
        elif row.label != "repeated" and value is not None:
            value = (value,)
        if value:
            yield row, value


def _read(source: Source, row: MessageField) -> Sequence[Any]:
    """The bytes of a field, as a source if they are many, or its numbers."""
    if row.kind == "bytes":
        return (source if source.nbytes > PIECE_BYTES else source.read(),)
    import numpy as np

    from formats.tensordata.sources.transform import varints

    data = source.view()
    dtype = np.dtype(_NUMPY_CODES[row.kind])
    try:
        if row.kind in INTEGER_RANGES:
            data = varints(row.kind).apply(data)
        elif len(data) % dtype.itemsize:
            raise WireError(f"{len(data)} bytes are not a whole number of {dtype.itemsize}-byte elements")
    except FormatError as error:
        error.where = row.name
        raise
    return np.frombuffer(data, dtype).tolist()  # type: ignore[no-any-return]


@lru_cache(maxsize=4096)
def enum_name(enum: str, number: int) -> str | None:
    """The name of an enum's value, if it has one."""
    return next((name for name, value in ENUMS[enum].items() if value == number), None)


def shortest(value: float) -> float:
    """The number with the fewest decimal digits, but at least 6, that is equal to `value` when rounded to 32 bits."""
    value = to_float(value)
    for digits in range(6, 9):
        rounded = float(f"{value:.{digits}g}")
        if to_float(rounded) == value:
            return rounded
    return float(f"{value:.9g}")


def to_float(value: float) -> float:
    """The nearest number of 32 bits; a number that is too large becomes infinite.

    Raises: TypeError if it is not a number.
    """
    try:
        return float(_FLOAT.unpack(_FLOAT.pack(value))[0])
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")
    except struct.error:
        raise TypeError(f"must be a number, not {type(value).__name__}") from None


def other_nans(value: Any, row: MessageField) -> int:
    """The number of NaNs in a field whose bits are not those of the NaN that a text has."""
    if isinstance(value, Source):
        return _other_nans(value, row.kind)
    code = {"float": ">f", "double": ">d"}[row.kind]
    nans = [number for number in (value if isinstance(value, list) else (value,)) if number != number]
    return sum(f"0x{struct.pack(code, number).hex()}" != NANS[row.kind] for number in nans)


def _other_nans(source: Source, kind: str) -> int:
    """The same, of the packed numbers of a tensor."""
    import numpy as np

    numbers = np.frombuffer(source.view(), _NUMPY_CODES[kind])
    bits = numbers.view(f"<u{numbers.itemsize}")
    return int(np.count_nonzero(np.isnan(numbers) & (bits != int(NANS[kind], 16))))


# To messages


def message_of_fields(message: str, values: Mapping[str, Sequence[Any]]) -> Any:
    """The message with these fields; a field that is not repeated has one value."""
    in_place = SOURCE_FIELDS[message]
    arguments: dict[str, Any] = {}
    for row in fields_in_order(message):
        if found := values.get(row.name):
            if row.name in in_place:
                arguments[row.name] = Literal(_packed(found, row))
            else:
                arguments[row.name] = list(found) if row.label == "repeated" else found[0]
    return CLASSES[message](**arguments)


def _packed(values: Sequence[Any], row: MessageField) -> bytes:
    if row.kind == "bytes":
        return values[0]  # type: ignore[no-any-return]
    if row.kind in INTEGER_RANGES:
        return b"".join(map(encode_varint, values))
    return struct.pack(f"<{len(values)}{'f' if row.kind == 'float' else 'd'}", *values)


class Limits:
    """The number of messages that were begun, and its limit."""

    __slots__ = ("max_depth", "messages")

    def __init__(self, max_depth: int) -> None:
        self.max_depth = max_depth
        self.messages = 0

    def enter(self, depth: int) -> None:
        """Count a message that is nested in `depth` others.

        Raises: LimitError.
        """
        self.messages += 1
        if depth > self.max_depth:
            raise LimitError(f"messages are nested more than {self.max_depth} deep; `max_depth` allows up to {DEEPEST}")
        if self.messages > MAX_MESSAGES:
            raise LimitError(f"the file holds more than {MAX_MESSAGES} messages")


def step_of(row: MessageField, index: int) -> str:
    """The step of a dotted place that leads to the value `index` of the field `row`."""
    return f"{row.name}[{index}]" if row.label == "repeated" else row.name


def locate(error: FormatError, row: MessageField, index: int) -> None:
    """Add the place to an error in the value `index` of the field `row`, for the message around it."""
    step = step_of(row, index)
    error.where = f"{step}.{error.where}" if error.where else step


def read_model(
    source: Source, path: Path | None, options: ReadOptions, parse: Callable[[str, type[Model], int], Model]
) -> Model:
    """The model that its parser finds in the text `source`; its external data are searched next to `path`.

    Raises: DecodeError if the text is wrong; ExternalDataError as for `.onnx` files.
    """
    model = parse(read_text(source), Model, options.max_depth)
    return external.locate_data(model, path, next(source.files(), None), options)


def read_text(source: Source) -> str:
    """The text of a file, in memory, without a byte order mark at its start.

    Raises: DecodeError if it is not UTF-8.
    """
    try:
        return str(source.view(), "utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise DecodeError("the file is not text in UTF-8", file_offset=error.start) from None


def plan_model(
    model: Model, destination: Path, options: TextOptions, parts_of: Callable[[Model], Iterable[str | Source]]
) -> WritePlan:
    """How to write the text whose parts `parts_of` makes of `model` to the one file `destination`.

    Raises: EncodeError if the text cannot express the model; ExternalDataError if weights that it must contain are
    missing.
    """
    losses: list[Loss] = []
    if options.external_data is False or _cannot_refer(model):
        model, losses = _inline(model, destination)
    writes: list[PlacedWrite] = []
    nbytes = 0
    for source in _sources(parts_of(model)):
        writes.append(PlacedWrite(nbytes, source))
        nbytes += source.nbytes
    losses += _unwritten(model, "")
    losses += _far_weights(model, destination)
    return WritePlan((FilePlan(destination, nbytes, tuple(writes)),), losses=tuple(losses))


def _sources(parts: Iterable[str | Source]) -> Iterator[Source]:
    """The parts of a text as sources of bytes; texts that follow each other are one."""
    texts: list[str] = []
    for part in parts:
        if isinstance(part, str):
            texts.append(part)
        else:
            yield Literal("".join(texts).encode())
            texts.clear()
            yield part
    yield Literal("".join(texts).encode())


def joined(parts: Iterable[str | Source]) -> str:
    """The text that consists of these parts."""
    return "".join(part if isinstance(part, str) else str(part.view(), "ascii") for part in parts)


def _inline(model: Model, destination: Path) -> tuple[Model, list[Loss]]:
    """A copy of the model without external data, and the losses."""
    from formats.onnxpb.options import OnnxOptions

    plan = external.plan_model(model, destination, OnnxOptions(external_data=False))
    source = Concat.of(*(write.source for write in plan.files[-1].writes))
    return decode(source, Model, DEEPEST), [loss for loss in plan.losses if loss.kind != "protobuf_limit"]


def _cannot_refer(model: Model) -> bool:
    """Whether references cannot say where all weights are: one has no location, or two files have one location."""
    files: dict[str, File] = {}
    for _, tensor in walk.external_tensors(model):
        location, source = location_of(tensor), tensor.external_source
        if source is not None and not location:
            return True
        for file in source.files() if source is not None else ():
            if files.setdefault(location, file) is not file:
                return True
    return False


def _far_weights(model: Model, destination: Path) -> Iterator[Loss]:
    """A note for each data file that a reader of `destination` will not find."""
    seen: set[str | None] = set()
    for where, tensor in walk.tensors(model):
        if tensor.data_location != EXTERNAL:
            continue
        location, source = external_places(tensor).get("location"), tensor.external_source
        if location in seen or not location or not isinstance(source, FileSpan):
            continue
        seen.add(location)
        if not _is_at(source.file.path, destination.parent / location):
            detail = f"the weights stay in {source.file.path}, and {location!r} must be next to the text file"
            yield Loss("external_data", where, detail, INTERFACE)


def _is_at(path: Path, place: Path) -> bool:
    """Whether a file is the one at a path, after following links."""
    if is_address(path) or is_address(place):
        return path == place
    return os.path.realpath(path) == os.path.realpath(place)


def _unwritten(message: Any, where: str) -> Iterator[Loss]:
    """A note for each message with unknown fields, and for each field with a NaN whose bits a text does not have."""
    if nbytes := len(message.unknown_fields):
        detail = f"{nbytes} bytes of fields that this version of ONNX does not know cannot be written as text"
        yield Loss("unknown_fields", where, detail, INTERFACE)
    for row in _rows(message.message):
        if not (value := getattr(message, row.name)):
            continue
        if row.kind == "message":
            for index, inner in enumerate(value if row.label == "repeated" else (value,)):
                yield from _unwritten(inner, f"{where}.{step_of(row, index)}" if where else step_of(row, index))
        elif count := other_nans(value, row):
            detail = f"{count} NaN with a sign or a payload: text has only one NaN, and the bits {NANS[row.kind]}"
            yield Loss("nan", f"{where}.{row.name}" if where else row.name, detail, SPECIAL)


@cache
def _rows(message: str) -> tuple[MessageField, ...]:
    """The rows of a message whose values may have something that a text does not have."""
    return tuple(row for row in fields_in_order(message) if row.kind == "message" or row.kind in NANS)
