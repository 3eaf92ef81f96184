"""The rules of `save` and similar functions, which are those of `onnx.save`: which weights move to which file.

Only raw data move: typed fields stay in the model, as in `onnx`. Tensors that a caller marked as external go to the
file that the mark names.

Spec: the `onnx` package (1.23), `onnx.save` and `onnx.external_data_helper`.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from functools import cache
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from formats.codecs.contract import DEEPEST, Codec
from formats.errors import ExternalDataError
from formats.ir import walk
from formats.ir.model import EXTERNAL, Model
from formats.ir.storage import external_places, raw_source, with_raw_data
from formats.onnx_compat.protos.message import ProtoMessage
from formats.onnxpb.codecs import CODEC, JSON_CODEC, TEXT_CODEC
from formats.onnxpb.external import data_files
from formats.onnxpb.external.confinement import check_location
from formats.onnxpb.external.model import PlacedModel, plan_files
from formats.onnxpb.options import OnnxOptions
from formats.onnxpb.text import protojson, textproto
from formats.onnxpb.wire.decoder import decode
from formats.onnxpb.wire.encoder import encode
from formats.onnxpb.wire.schema import MESSAGES
from formats.tensordata.plan import SMALL_BYTES, FilePlan, PlacedWrite, WritePlan, lay_out
from formats.tensordata.sources.source import Concat, FileSpan, Literal

if TYPE_CHECKING:
    from formats.ir.model import Tensor
    from formats.onnxpb.serialization import ProtoSerializer
    from formats.tensordata.sources.source import Source

BESIDE = (CODEC, TEXT_CODEC, JSON_CODEC)  # the formats whose external data are files next to the model
_INITIALISER = re.compile(r"(^|\.)initializer\[\d+\]$")


@dataclass(frozen=True, slots=True)
class SerializeOptions:
    """How a model is written.

    `save_as_external_data`: raw data of at least `size_threshold` bytes go to the file `location` next to the model
    (`<model file name>.data` by default), each at a multiple of `alignment` bytes, and to other files if this one would
    exceed `max_external_file_size` bytes. Without `all_tensors_to_one_file`, each goes to its own file. Only data of
    initialisers move, except with `convert_attribute`. `num_threads` threads write (0 or less: a suitable number); a
    model of more than `max_serialized_size_bytes` is refused, unless that is 0. `min_block_size` is that of onnx-light,
    and has no effect: the file determines how much a thread writes at once.
    """

    save_as_external_data: bool = False
    all_tensors_to_one_file: bool = True
    location: str | None = None
    size_threshold: int = 1024
    convert_attribute: bool = False
    max_external_file_size: int | None = None
    alignment: int = 64
    num_threads: int = 0
    max_serialized_size_bytes: int = 0
    min_block_size: int = 0


def plan_message(message: Any, path: Path, form: Codec | ProtoSerializer, options: SerializeOptions) -> WritePlan:
    """How to write a message of any class to `path`, and the data of a model next to it.

    Raises: TypeError for options that the format does not have; FormatError if it does not support the message.
    """
    plan = _plan(message, path, form, options)
    _limit(plan.files[-1].nbytes, options)
    return plan


def is_whole(message: ProtoMessage) -> bool:
    """Whether no tensor in a message is in another file, so that the message is written as it is."""
    stack = [message]
    while stack:
        part = stack.pop()
        values = part.__dict__
        if any(fields.has_references for fields in values.get("undecoded", {}).values()):
            return False
        name = part.DESCRIPTOR.scoped_name
        if name == "TensorProto" and values.get("data_location") == EXTERNAL:
            return False
        for field in _ways_to_tensors()[name]:
            if field in values:
                stack += values[field] if isinstance(values[field], list) else (values[field],)
    return True


@cache
def _ways_to_tensors() -> dict[str, tuple[str, ...]]:
    """The fields of each message that hold tensors, or messages in which there may be some."""
    holders = {"TensorProto"}
    while True:
        ways = {name: tuple(row.name for row in rows if row.type_name in holders) for name, rows in MESSAGES.items()}
        more = {"TensorProto", *(name for name, fields in ways.items() if fields)}
        if more == holders:
            return ways
        holders = more


def plan_whole(message: ProtoMessage, path: Path, options: SerializeOptions) -> WritePlan:
    """How to write such a message of any class to `path` in the binary format.

    Raises: ValueError if it is larger than the options allow; EncodeError.
    """
    writes, nbytes = lay_out(message._segments(), small_bytes=SMALL_BYTES)
    _limit(nbytes, options)
    return WritePlan((FilePlan(path, nbytes, tuple(writes)),))


def _limit(nbytes: int, options: SerializeOptions) -> None:
    if 0 < options.max_serialized_size_bytes < nbytes:
        raise ValueError(f"the message has {nbytes} bytes, more than the {options.max_serialized_size_bytes} allowed")


def _plan(message: Any, path: Path, form: Codec | ProtoSerializer, options: SerializeOptions) -> WritePlan:
    is_model = isinstance(message, Model)
    if isinstance(form, Codec) and form not in BESIDE:
        if not is_model:
            raise TypeError(f"{form.title} can hold only models")
        if options.save_as_external_data:
            raise TypeError(f"{form.title} has no external data")
        return form.plan(message, path, form.options())
    plan = _plan_binary(message, path, options) if is_model else None
    if plan is None:
        return WritePlan((_plan_part(message, path, form),))
    if form is CODEC:
        return plan
    *companions, binary = plan.files
    source = Concat.of(*(write.source for write in binary.writes))
    return plan._replace(files=(*companions, _plan_part(decode(source, Model, DEEPEST), path, form)))


def _plan_part(message: Any, path: Path, form: Codec | ProtoSerializer) -> FilePlan:
    """How to write a message of any class to one file, with its references unchanged."""
    if form is CODEC:
        writes, nbytes = lay_out(encode(message), small_bytes=SMALL_BYTES)
        return FilePlan(path, nbytes, tuple(writes))
    if form is TEXT_CODEC:
        data = textproto.to_text(message).encode()
    elif form is JSON_CODEC:
        data = protojson.to_json(message).encode()
    else:
        from formats.onnx_compat.protos.classes import wrap

        assert not isinstance(form, Codec)
        data = form.serialize_proto(wrap(message))
    return FilePlan(path, len(data), (PlacedWrite(0, Literal(data)),))


class OutgoingTensor(NamedTuple):
    """A tensor whose bytes go to the data file at `location`; without a location, to one of several files."""

    tensor: Tensor
    source: Source
    location: str | None


def _plan_binary(model: Model, path: Path, options: SerializeOptions) -> WritePlan | None:
    """How to write a model and its data files, or `None` if it is written unchanged."""
    moves = moves_of(model, path, options)
    if not moves:
        return None
    is_numbered = options.all_tensors_to_one_file and bool(options.max_external_file_size)
    file_name = options.location if options.save_as_external_data and is_numbered else None
    chosen = OnnxOptions(
        external_data=file_name or True,
        alignment=options.alignment,
        max_external_file_size=options.max_external_file_size or 0,
        one_file_per_tensor=not options.all_tensors_to_one_file,
    )
    outside = data_files.ExternalLayout(chosen)
    for tensor, source, location in moves:
        if location is not None:
            check_place(location, path)
        outside.add(tensor, source, location)
    return plan_files([PlacedModel(model, path, {})], outside)


def moves_of(model: Model, path: Path, options: SerializeOptions) -> list[OutgoingTensor]:
    """The tensors whose bytes are written next to the model."""
    moves: list[OutgoingTensor] = []
    staying: list[tuple[str, Tensor, str]] = []
    moves_out = options.save_as_external_data
    is_one_file = options.all_tensors_to_one_file and not options.max_external_file_size
    usual = f"{path.name}.data"
    chosen = options.location or usual if is_one_file else None
    for where, tensor in walk.movable_tensors(model, options.size_threshold if moves_out else inf):
        is_chosen = moves_out and _goes_out(tensor, where, options)
        if tensor.data_location != EXTERNAL:
            if is_chosen:
                moves.append(OutgoingTensor(tensor, _bytes_of(tensor, where), chosen))
            continue
        location = external_places(tensor).get("location", "")
        if tensor.raw_data is not None:  # marked by hand, or by `convert_model_to_external_data`
            moves.append(OutgoingTensor(tensor, _bytes_of(tensor, where), chosen if is_chosen else location))
        elif tensor.external_source is not None and (moves_out or not _holds(tensor, location, path)):
            moves.append(OutgoingTensor(tensor, _bytes_of(tensor, where), chosen if moves_out else usual))
        else:
            staying.append((where, tensor, location))
    written = {move.location for move in moves}  # other references to these files are moved, too
    along = [(where, tensor, location) for where, tensor, location in staying if location in written]
    return moves + [OutgoingTensor(tensor, _bytes_of(tensor, where), location) for where, tensor, location in along]


def _goes_out(tensor: Tensor, where: str, options: SerializeOptions) -> bool:
    data = tensor.raw_data
    if data is None or data.nbytes < options.size_threshold:
        return False
    return options.convert_attribute or is_initialiser(where)


def is_initialiser(where: str) -> bool:
    """Whether the tensor at this place is an initialiser of a graph."""
    return bool(_INITIALISER.search(where))


def _bytes_of(tensor: Tensor, where: str) -> Source:
    """The bytes of a tensor to write: its own data, or those to which it refers."""
    try:
        return raw_source(tensor if tensor.raw_data is None else with_raw_data(tensor, tensor.raw_data))
    except ExternalDataError as error:
        error.where = where
        raise


def _holds(tensor: Tensor, location: str, path: Path) -> bool:
    """Whether a reference leads to the same file from the folder of `path`."""
    source = tensor.external_source
    if not isinstance(source, FileSpan) or not location:
        return False
    place = path.parent / location
    return place.exists() and place.samefile(source.file.path)


def check_place(location: str, path: Path, *, with_model: bool = True) -> None:
    """Return nothing if the file `location` may be next to the model `path`: in its folder, or new in a subfolder.

    Raises: ExternalDataError for a location that leads elsewhere, by a link too, or is the model itself; and for a file
    in a folder below that exists, if it is written together with the model, because it cannot be replaced together.
    """
    check_location(location)
    place = path.parent / location
    folder = os.path.realpath(path.parent)
    replaced = place.parent if with_model else place  # together with the model, a link is replaced and not followed
    if os.path.commonpath((folder, os.path.realpath(replaced))) != folder:
        raise ExternalDataError(f"location {location!r:.80} leads outside the model's directory", path=path)
    if not place.parent.is_dir():
        raise ExternalDataError(f"there is no folder for the data file {location!r:.80}", path=path)
    if place.parent == path.parent:
        if place.name.casefold() == path.name.casefold():  # one file, on some systems
            raise ExternalDataError(
                f"{location!r:.80} cannot be the data file, because it is the model itself", path=path
            )
    elif with_model and os.path.lexists(place):
        reason = f"{location!r:.80} exists, and cannot be replaced together with the model; remove it first"
        raise ExternalDataError(reason, path=path)
