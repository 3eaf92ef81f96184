"""Common parts of the text formats: the file around a message, and what they cannot express."""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING, Any

from formats.codecs.contract import DEEPEST
from formats.errors import DecodeError
from formats.ir import walk
from formats.ir.model import EXTERNAL, Model
from formats.ir.storage import places_of
from formats.onnxpb.external import model as external
from formats.onnxpb.text.fields import NANS, other_nans, rows_of, step_of
from formats.onnxpb.wire.decoder import decode
from formats.tensordata.file import is_address
from formats.tensordata.plan import INTERFACE, SPECIAL, FilePlan, Loss, PlacedWrite, WritePlan
from formats.tensordata.sources.source import Concat, FileSpan, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from formats.codecs.contract import ReadOptions
    from formats.onnxpb.options import TextOptions
    from formats.onnxpb.wire.schema import MessageField
    from formats.tensordata.sources.source import Source


def read_model(
    source: Source, path: Path | None, options: ReadOptions, parse: Callable[[str, type[Model], int], Model]
) -> Model:
    """The model that `parse` finds in the text `source`; its external data are searched next to `path`.

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
    model: Model, destination: Path, options: TextOptions, print_message: Callable[[Model], str]
) -> WritePlan:
    """How to write the text that `print_message` makes of `model` to the one file `destination`.

    Raises: EncodeError if the text cannot express the model; ExternalDataError if weights that it must contain are
    missing.
    """
    losses: list[Loss] = []
    if options.external_data is False:
        model, losses = _inline(model, destination)
    text = print_message(model).encode()
    losses += _unwritten(model, "")
    losses += _far_weights(model, destination)
    return WritePlan((FilePlan(destination, len(text), (PlacedWrite(0, Literal(text)),)),), losses=tuple(losses))


def _inline(model: Model, destination: Path) -> tuple[Model, list[Loss]]:
    """A copy of the model without external data, and the losses."""
    from formats.onnxpb.options import OnnxOptions

    plan = external.plan_model(model, destination, OnnxOptions(external_data=False))
    source = Concat.of(*(write.source for write in plan.files[-1].writes))
    return decode(source, Model, DEEPEST), [loss for loss in plan.losses if loss.kind != "protobuf_limit"]


def _far_weights(model: Model, destination: Path) -> Iterator[Loss]:
    """A note for each data file that a reader of `destination` will not find."""
    seen: set[str | None] = set()
    for where, tensor in walk.tensors(model):
        if tensor.data_location != EXTERNAL:
            continue
        location, source = places_of(tensor).get("location"), tensor.external_source
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
    return tuple(row for row in rows_of(message) if row.kind == "message" or row.kind in NANS)
