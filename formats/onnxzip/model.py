"""The model of an archive: its graph, in which each tensor that refers to an entry gets the entry as its data.

Spec: docs/onnxz.md, sections 6, 7 and 9.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from formats.codecs.contract import MAX_DEPTH
from formats.errors import DecodeError, ExternalDataError, FormatError, OptionError, TensorDataError, TruncatedError
from formats.ir import walk
from formats.ir.model import DEFAULT, Model, Tensor, remove_field
from formats.ir.storage import entries_of, raw_source
from formats.onnxpb.wire.decoder import decode
from formats.onnxzip.archive import has_typed_data
from formats.onnxzip.far_entries import payload_of
from formats.onnxzip.graph import check_external, check_undecoded, external_tensor, visit_graph
from formats.onnxzip.lenient import LENIENT, is_about_others, is_graph, model_entry, read_loose_entries
from formats.onnxzip.reader import read_contents
from formats.tensordata.plan import USE, Loss
from formats.tensordata.sources.source import Literal

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from formats.onnxzip.graph import ExternalTensor
    from formats.onnxzip.lenient import LooseEntry
    from formats.onnxzip.reader import Contents
    from formats.onnxzip.records import Entry
    from formats.tensordata.sources.source import Source

VERSION = ".onnxz 1.0"
MAX_DIGITS = 20


def read_model(source: Source, max_depth: int = MAX_DEPTH, name: str | None = None) -> Model:
    """The model of the archive in `source`; tensors stay there, and only small ones are read, with the headers.

    If there are several, it is the one with this name, or the default one.

    Raises: DecodeError with the reason why the archive is refused; ExternalDataError if a graph and the entries don't
    match; both with the broken requirement. A DecodeError without a requirement is about the graph: it is not a model,
    but the archive is valid. OptionError if there is no such model.
    """
    contents = read_contents(source)
    graph = contents.graph(name)
    unused = {entry.name: None for entry in contents.tensors}  # in the order of the archive, for the error
    for other in contents.graphs.values():
        if other is not graph:  # each graph must be right, although only one becomes a model
            _check_graph(source, other, contents, unused, max_depth)
    message = _message(source, graph)
    with _offsets_counted_from(graph.payload_offset):
        try:
            model = decode(message, Model, max_depth)
            _attach_entries(model, contents, source, unused, max_depth)
        except DecodeError as error:
            if error.requirement is None:
                # The decoder refuses more than the format does: an archive that is not valid has its own error.
                _check_graph(message, None, contents, unused, max_depth)
                _check_unused(unused)
            raise
        if model.graph is None:
            raise _without_graph()
    _check_unused(unused)
    return model


@contextmanager
def _offsets_counted_from(payload_offset: int) -> Iterator[None]:
    """A context in which the offset of an error, in a graph that begins there, becomes that in the archive."""
    try:
        yield
    except FormatError as error:
        if error.file_offset is not None:
            error.file_offset += payload_offset
        raise


def _message(source: Source, graph: Entry) -> Source:
    """The ModelProto of a graph."""
    message = source.slice(graph.payload_offset, graph.nbytes)
    if not all(file.is_local for file in source.files()):
        return Literal(message.read())  # a few requests, not one for each part of it
    return message


def advised(error: FormatError, source: Source, max_depth: int, name: str | None = None) -> FormatError:
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
        read_loose_model(source, max_depth, name)  # `--lenient` is advice only where it helps
    except (FormatError, OptionError):
        return error
    error.message += "; if another zip tool made the file, `formats convert --lenient` reads it"
    return error


def check_archive(source: Source, max_depth: int = MAX_DEPTH) -> None:
    """Check that `source` is an archive, even if a graph in it is not a valid model.

    Raises: DecodeError or ExternalDataError with the broken requirement.
    """
    contents = read_contents(source)
    unused = {entry.name: None for entry in contents.tensors}
    for graph in contents.graphs.values():
        _check_graph(source, graph, contents, unused, max_depth)
    _check_unused(unused)


def _check_graph(
    source: Source, graph: Entry | None, contents: Contents, unused: dict[str, None], max_depth: int
) -> None:
    """Check a graph, or the ModelProto that is all of `source`; remove the entries of its tensors from `unused`."""
    sizes = {entry.name: entry.nbytes for entry in contents.tensors}
    message = source if graph is None else _message(source, graph)

    def use(tensor: ExternalTensor) -> None:
        unused.pop(check_external(tensor, sizes), None)

    with _offsets_counted_from(0 if graph is None else graph.payload_offset):
        if not visit_graph(message, use, max_depth):
            raise _without_graph()


def _without_graph() -> DecodeError:
    message = "the message has no graph, so it is not an ONNX model"
    return DecodeError(message, file_offset=0, requirement="Z-6.5")


def _check_unused(unused: dict[str, None]) -> None:
    if names := list(unused):
        message = f"{len(names)} entries belong to no tensor ({', '.join(names[:3])}): unknown data is not allowed"
        raise DecodeError(message, requirement="Z-7.11")


def _attach_entries(model: Model, contents: Contents, source: Source, unused: dict[str, None], max_depth: int) -> None:
    """Give each tensor its entry, which is then not in `unused` any more."""
    sizes = {entry.name: entry.nbytes for entry in contents.tensors}
    entries = {entry.name: entry for entry in contents.tensors}
    for where, tensor in walk.external_tensors(model, lambda undecoded: check_undecoded(undecoded, max_depth)):
        try:
            # The same check as of tensors that are only visited, but the error has the place in the model.
            location = check_external(external_tensor(tensor), sizes)
        except ExternalDataError as error:
            error.where = where
            raise
        _restore(tensor, payload_of(source, entries[location]))
        unused.pop(location, None)


def read_loose_model(
    source: Source, max_depth: int = MAX_DEPTH, name: str | None = None
) -> tuple[Model, tuple[Loss, ...]]:
    """The model of an archive that a user made with any zip tool, and notes on faults that `read_model` refuses.

    Tensors may be parts of entries, and entries may be in a directory together with the graph, and be unused.

    Raises: as `read_model` does, if the meaning is not clear.
    """
    entries, notes = read_loose_entries(source)
    graph = model_entry(entries, name)
    directory = graph.name[: graph.name.rfind("/") + 1]
    names = {entry.name: entry.name.removeprefix(directory) for entry in entries}
    payloads = {
        names[entry.name]: source.slice(entry.payload_offset, entry.nbytes)
        for entry in entries
        if not is_about_others(names[entry.name])
    }
    model = _decode_loose(source, graph, max_depth)
    unused = _attach_parts(model, payloads)
    for other in entries:
        if other is not graph and is_graph(names[other.name]):
            unused &= _attach_parts(_decode_loose(source, other, max_depth), payloads)
    if directory:
        notes.append(Loss(LENIENT, "", f"the model is in the directory {directory!r:.80}", USE))
    if unused:
        notes.append(Loss(LENIENT, min(unused), f"{len(unused)} entries belong to no tensor", USE))
    return model, tuple(notes)


def _decode_loose(source: Source, graph: LooseEntry, max_depth: int) -> Model:
    """The model in the archive, without the data of its tensors."""
    with _offsets_counted_from(graph.payload_offset):
        model = decode(source.slice(graph.payload_offset, graph.nbytes), Model, max_depth)
        if model.graph is None:
            raise _without_graph()
    return model


def _attach_parts(model: Model, payloads: Mapping[str, Source]) -> set[str]:
    """The names of the entries without a tensor, after each tensor got its bytes."""
    unused = set(payloads)
    for where, tensor in walk.external_tensors(model):
        entries = entries_of(tensor)
        places = {str(key): value or "" for key, value in entries}
        try:
            # What a strict reader checks of sizes and types is checked when the tensor gets its bytes.
            if len(places) != len(entries):
                raise ExternalDataError("external_data has a key twice")
            tensor.external_source = _part_of_entry(places, payloads)
            if has_typed_data(tensor):
                raise ExternalDataError("the tensor has data both in an entry and in the graph")
            _restore(tensor, raw_source(tensor))
        except TensorDataError as error:
            raise ExternalDataError(error.message, where=where) from None
        unused.discard(places["location"])
    return unused


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
    # The writer puts `offset` last for DEFAULT; archives from before version 1.0 may have one of the two keys only.
    keys = [key for key, _ in entries_of(tensor)]
    is_explicit = "offset" in keys and "length" not in keys[keys.index("offset") :]
    tensor.data_location = DEFAULT if is_explicit else None
    for name in ("external_data", "external_source"):
        remove_field(tensor, name)
    tensor.raw_data = source
