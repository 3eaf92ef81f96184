"""The model of an archive: its graph, in which each tensor that refers to an entry gets the entry as its data.

Spec: docs/onnxz.md, sections 6, 7 and 9.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from formats.codecs.contract import MAX_DEPTH
from formats.errors import DecodeError, ExternalDataError, FormatError, TensorDataError, TruncatedError
from formats.ir import walk
from formats.ir.model import DEFAULT, Model, Tensor
from formats.ir.storage import raw_source
from formats.onnxpb.wire.decoder import decode
from formats.onnxzip.names import MODEL_NAME
from formats.onnxzip.reading.external_tensors import check_external, external_tensor
from formats.onnxzip.reading.far_entries import payload_of
from formats.onnxzip.reading.graph_scan import check_undecoded, scan
from formats.onnxzip.reading.lenient import LENIENT, model_entry, read_loose_entries
from formats.onnxzip.reading.reader import read_entries
from formats.onnxzip.writing.archive import has_typed_data
from formats.tensordata.plan import USE, Loss
from formats.tensordata.sources.source import Literal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from formats.onnxzip.reading.lenient import LooseEntry
    from formats.onnxzip.records import Entry
    from formats.tensordata.sources.source import Source

VERSION = ".onnxz 1.0"
MAX_DIGITS = 20


def read_model(source: Source, max_depth: int = MAX_DEPTH) -> Model:
    """The model of the archive in `source`; tensors stay there, and only small ones are read, with the headers.

    Raises: DecodeError with the reason why the archive is refused; ExternalDataError if the graph and the entries don't
    match; both with the broken requirement. A DecodeError without a requirement is about the graph: it is not a model,
    but the archive is valid.
    """
    *entries, graph = read_entries(source)
    message: Source = source.slice(graph.payload_offset, graph.nbytes)
    if not all(file.is_local for file in source.files()):
        message = Literal(message.read())  # a few requests, not one for each part of it
    try:
        try:
            model = decode(message, Model, max_depth)
            unused = _attach_entries(model, entries, source, max_depth)
        except DecodeError as error:
            if error.requirement is None:
                _check_unused(_check_graph(message, entries, max_depth))
            raise
        if model.graph is None:
            raise _without_graph()
    except DecodeError as error:
        if error.file_offset is not None:
            error.file_offset += graph.payload_offset
        raise
    _check_unused(unused)
    return model


def advised(error: FormatError, source: Source, max_depth: int) -> FormatError:
    """`error`, for which `read_model` refuses the archive in `source`, with the broken requirement and advice."""
    if isinstance(error, TruncatedError) and not (error.requirement or "").startswith("Z-2"):
        # The file is complete, because it has its end record.
        requirement, where = error.requirement, error.where
        error = DecodeError(error.message, file_offset=error.file_offset, where=where, requirement=requirement)
    if error.requirement is None:
        if isinstance(error, DecodeError):
            error.message += "; the archive is valid, but the graph in it is not"
        return error
    error.message += f" ({VERSION}, {error.requirement})"
    if error.requirement == "Z-3.4":
        error.message += "; unpack it and archive the files again with `zip -0`"
        return error
    try:
        read_loose_model(source, max_depth)
    except FormatError:
        return error
    error.message += "; if another zip tool made the file, `formats convert --lenient` reads it"
    return error


def check(source: Source, max_depth: int = MAX_DEPTH) -> None:
    """Check that `source` is an archive, even if the graph in it is not a valid model.

    Raises: DecodeError or ExternalDataError with the broken requirement.
    """
    *entries, graph = read_entries(source)
    try:
        unused = _check_graph(source.slice(graph.payload_offset, graph.nbytes), entries, max_depth)
    except FormatError as error:
        if error.file_offset is not None:
            error.file_offset += graph.payload_offset
        raise
    _check_unused(unused)


def _check_graph(message: Source, entries: Sequence[Entry], max_depth: int) -> list[str]:
    """The names of the entries without a tensor, for the ModelProto in `message`."""
    sizes = {entry.name: entry.nbytes for entry in entries}
    unused = dict.fromkeys(sizes)
    if not scan(message, lambda tensor: unused.pop(check_external(tensor, sizes), None), max_depth):
        raise _without_graph()
    return list(unused)


def _without_graph() -> DecodeError:
    message = "the message has no graph, so it is not an ONNX model"
    return DecodeError(message, file_offset=0, requirement="Z-6.5")


def _check_unused(names: Sequence[str]) -> None:
    if names:
        message = f"{len(names)} entries belong to no tensor ({', '.join(names[:3])}): unknown data is not allowed"
        raise DecodeError(message, requirement="Z-7.11")


def _attach_entries(model: Model, entries: Sequence[Entry], source: Source, max_depth: int) -> list[str]:
    """The names of the entries without a tensor, after each tensor got its entry."""
    sizes = {entry.name: entry.nbytes for entry in entries}
    payloads = {entry.name: payload_of(source, entry) for entry in entries}
    unused = dict.fromkeys(payloads)
    for where, tensor in walk.external_tensors(model, lambda left: check_undecoded(left, max_depth)):
        try:
            location = check_external(external_tensor(tensor), sizes)
        except ExternalDataError as error:
            error.where = where
            raise
        _restore(tensor, payloads[location])
        unused.pop(location, None)
    return list(unused)


def read_loose_model(source: Source, max_depth: int = MAX_DEPTH) -> tuple[Model, tuple[Loss, ...]]:
    """The model of an archive that a user made with any zip tool, and notes on faults that `read_model` refuses.

    Tensors may be parts of entries, and entries may be in a directory together with the graph, and be unused.

    Raises: as `read_model` does, if the meaning is not clear.
    """
    entries, notes = read_loose_entries(source)
    graph = model_entry(entries)
    model = _decode_loose(source, graph, max_depth)
    directory = graph.name.removesuffix(MODEL_NAME)
    payloads = {
        entry.name.removeprefix(directory): source.slice(entry.payload_offset, entry.nbytes)
        for entry in entries
        if entry is not graph
    }
    unused = _attach_parts(model, payloads)
    if directory:
        notes.append(Loss(LENIENT, "", f"the model is in the directory {directory!r:.80}", USE))
    if unused:
        notes.append(Loss(LENIENT, unused[0], f"{len(unused)} entries belong to no tensor", USE))
    return model, tuple(notes)


def _decode_loose(source: Source, graph: LooseEntry, max_depth: int) -> Model:
    """The model in the archive, without the data of its tensors."""
    try:
        model = decode(source.slice(graph.payload_offset, graph.nbytes), Model, max_depth)
        if model.graph is None:
            raise _without_graph()
    except DecodeError as error:
        if error.file_offset is not None:
            error.file_offset += graph.payload_offset
        raise
    return model


def _attach_parts(model: Model, payloads: Mapping[str, Source]) -> list[str]:
    """The names of the entries without a tensor, after each tensor got its bytes."""
    unused = dict.fromkeys(payloads)
    for where, tensor in walk.external_tensors(model):
        places = {str(entry.key): entry.value or "" for entry in tensor.external_data}
        try:
            if len(places) != len(tensor.external_data):
                raise ExternalDataError("external_data has a key twice")
            tensor.external_source = _part_of_entry(places, payloads)
            if has_typed_data(tensor):
                raise ExternalDataError("the tensor has data both in an entry and in the graph")
            _restore(tensor, raw_source(tensor))
        except TensorDataError as error:
            raise ExternalDataError(error.message, where=where) from None
        unused.pop(places["location"], None)
    return list(unused)


def _part_of_entry(places: Mapping[str, str], payloads: Mapping[str, Source]) -> Source:
    """The range of an entry that external data name.

    Raises: ExternalDataError.
    """
    location = places.get("location", "")
    payload = payloads.get(location)
    if payload is None:
        raise ExternalDataError(f"the data are in {location!r:.80}, which is not an entry of the archive")
    offset, length = places.get("offset") or "0", places.get("length") or ""
    for number in (offset, length or "0"):
        if not (number.isascii() and number.isdecimal()) or len(number) > MAX_DIGITS:
            raise ExternalDataError(f"{number!r:.40} is not a number of bytes")
    nbytes = int(length) if length else max(payload.nbytes - int(offset), 0)
    if int(offset) + nbytes > payload.nbytes:
        message = f"{nbytes} bytes from {offset} on are not in entry {location} of {payload.nbytes} bytes"
        raise ExternalDataError(message)
    return payload.slice(int(offset), nbytes)


def _restore(tensor: Tensor, source: Source) -> None:
    """Make `source` the tensor's raw data, and restore `data_location`, which the order of the keys shows.

    Spec: docs/onnxz.md, Z-9.2.
    """
    keys = [entry.key for entry in tensor.external_data]
    is_told = "offset" in keys and "length" not in keys[keys.index("offset") :]
    tensor.data_location = DEFAULT if is_told else None
    for name in ("external_data", "external_source"):
        vars(tensor).pop(name, None)
    tensor.raw_data = source
