"""Entries and the IR: which tensors have an entry of their own, and how the graph refers to it.

The last entry is the graph, a valid ModelProto. A tensor with an entry is stored as ONNX external data whose
`location` is the entry's name, so that unpacking an archive gives a model that every ONNX tool loads.

Spec: docs/onnxz.md; onnx.proto, `TensorProto.external_data`.
"""

from __future__ import annotations

import struct
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

from formats.errors import DecodeError, EncodeError, ExternalDataError, FormatError, TensorDataError, TruncatedError
from formats.ir import walk
from formats.ir.dtypes import TYPED_FIELDS
from formats.ir.model import DEFAULT, EXTERNAL, Model, Tensor
from formats.ir.storage import raw_source, with_raw_data
from formats.onnxpb.decoder import decode
from formats.onnxpb.encoder import encode
from formats.onnxpb.references import referring
from formats.onnxzip import records
from formats.onnxzip.duplicates import Duplicates
from formats.onnxzip.entry_groups import Checksums, EntryGroup, grouped
from formats.onnxzip.external_tensors import KEYS, external_tensor
from formats.onnxzip.external_tensors import check as check_external
from formats.onnxzip.graph_scan import check_undecoded, scan
from formats.onnxzip.lenient import KIND as LENIENT
from formats.onnxzip.lenient import model_entry, read_loose_entries
from formats.onnxzip.names import MODEL_NAME, EntryNames
from formats.onnxzip.reader import read_entries
from formats.registry import DEEPEST, MAX_DEPTH
from formats.tensordata.plan import SMALL_BYTES, Digest, FilePlan, LateWrite, Loss, PlacedWrite, WritePlan, lay_out
from formats.tensordata.source import Concat, place_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from formats.onnxzip import ArchiveOptions
    from formats.onnxzip.lenient import LooseEntry
    from formats.onnxzip.records import Entry
    from formats.tensordata.source import Source

VERSION = ".onnxz 1.0"
MODEL_ALIGNMENT = 64  # at most: nobody maps the graph
MAX_DIGITS = 20
_TYPED_FIELDS = frozenset(TYPED_FIELDS)
_OFFSET = {"offset": "0"}


# Writing


def plan_model(model: Model, destination: Path, options: ArchiveOptions) -> WritePlan:
    """How to write `model` to the one file `destination`.

    Raises: EncodeError for a model without a graph; TensorDataError where the bytes of an external tensor don't fit it.
    """
    if model.graph is None:
        raise EncodeError("the model has no graph, so nothing could read its archive")
    packing = Packing(options)
    packing.pack(model)
    return WritePlan((packing.file_plan(destination),), losses=tuple(packing.losses))


class Packing:
    """The entries of an archive that is being laid out: those that are there already, then new ones with payloads.

    `kept` are the former; `places` says which sources are the payloads of which of them.
    """

    def __init__(
        self,
        options: ArchiveOptions,
        kept: Sequence[Entry] = (),
        places: Mapping[tuple[object, ...], Entry] | None = None,
    ) -> None:
        self.options = options
        self.kept = kept
        self.members: list[tuple[Entry, Source]] = []
        self.losses: list[Loss] = []
        self._end = kept[-1].end if kept else 0
        self._names = EntryNames(entry.name for entry in kept)
        self._by_place = dict(places or {})
        self._duplicates = Duplicates()

    def pack(self, model: Model) -> None:
        """Add the tensors of the model that get an entry, and the model itself."""
        looked_at = partial(check_undecoded, max_depth=DEEPEST)  # what is deeper than readers take, `max_depth` allowed
        tensors = walk.movable_tensors(model, self.options.size_threshold, looked_at)
        places = {id(tensor): self.store(tensor, where) for where, tensor in tensors}

        def stored(tensor: Tensor) -> Tensor:
            place = places.get(id(tensor))
            if isinstance(place, records.Entry):
                return _referring(tensor, place)
            return tensor if place is None else with_raw_data(tensor, place)

        writes, _ = lay_out(encode(model, stored), small_bytes=SMALL_BYTES)
        graph = Concat.of(*(write.source for write in writes))
        self.add(MODEL_NAME, graph, min(self.options.alignment, MODEL_ALIGNMENT))

    def store(self, tensor: Tensor, where: str) -> Entry | Source | None:
        """Where the elements of `tensor` go: into an entry, raw into the graph, or into the graph as they are.

        Typed fields stay as they are, so that they come back as they were. So does what could not be checked against
        the tensor's type and shape when it is read.
        """
        external = tensor.data_location == EXTERNAL
        if not external and not _is_plain_raw(tensor):
            return None
        try:
            source = raw_source(tensor)
        except TensorDataError as error:
            if not external:
                return None
            error.where = where
            raise
        if external:
            self._report(tensor, where)
        is_small = not source.nbytes or source.nbytes < self.options.size_threshold
        if is_small and place_of(source) not in self._by_place:
            return source if external else None
        return self._entry_of(tensor, where, source)

    def add(self, name: str, source: Source, alignment: int) -> Entry:
        """A new entry behind those there are."""
        entry = records.place(name, source.nbytes, self._end, alignment)
        self._end = entry.end
        self.members.append((entry, source))
        return entry

    def file_plan(self, destination: Path) -> FilePlan:
        """New payloads as they are; their headers and the directory when the checksums of the payloads are known."""
        writes, headers, groups = [], [], []
        for group in grouped(self.members):
            entries, sources = zip(*group, strict=True)
            first, source = group[0]
            groups.append(entries)
            if len(group) > 1:
                digest = Digest(first.name, partial(Checksums, entries))
                writes.append(PlacedWrite(first.file_offset, EntryGroup(entries, sources), digest))
            else:
                writes.append(PlacedWrite(first.payload_offset, source, Digest(first.name, "crc32"), first.name))
                render = partial(_render_header, first)
                headers.append(LateWrite(first.file_offset, first.header_nbytes, render, first.name))
        every = [*self.kept, *(entry for entry, _ in self.members)]
        end, nbytes = every[-1].end, records.directory_nbytes(every)
        directory = LateWrite(end, nbytes, partial(_render_directory, self.kept, groups), "directory")
        return FilePlan(destination, end + nbytes, tuple(writes), (*headers, directory))

    def _entry_of(self, tensor: Tensor, where: str, source: Source) -> Entry:
        """The entry with the bytes of `source`; the same range of the same file is stored once."""
        place = place_of(source)
        entry = self._by_place.get(place)
        if entry is None:
            if self.options.dedup:
                entry = self._by_place.get(place_of(self._duplicates.first(source)))
            if entry is None:
                name = self._names.add(tensor.name or "", where)
                entry = self.add(name, source, self.options.alignment)
            self._by_place[place] = entry
        return entry

    def _report(self, tensor: Tensor, where: str) -> None:
        """Note what the references of external data said beyond the place."""
        keys = {entry.key for entry in tensor.external_data}.difference(KEYS)
        if "checksum" in keys:
            detail = "the checksum of the external data file does not hold for an archive"
            self.losses.append(Loss("checksum", where, detail, matters=False))
        if others := sorted(str(key) for key in keys - {"checksum"}):
            detail = f"an archive has no place for {', '.join(others)} of external data"
            self.losses.append(Loss("external_data", where, detail, matters=False))


def _is_plain_raw(tensor: Tensor) -> bool:
    """Whether raw data are all that the tensor says of its elements, so that a reference can stand for them."""
    plain = tensor.data_location in (None, DEFAULT) and not vars(tensor).get("external_data")
    return plain and tensor.raw_data is not None and not _has_typed_data(tensor)


def _has_typed_data(tensor: Tensor) -> bool:
    values = vars(tensor)
    return any(values[field] for field in _TYPED_FIELDS.intersection(values))


def _referring(tensor: Tensor, entry: Entry) -> Tensor:
    """The tensor with its elements in an entry.

    The order keeps a distinction that ONNX files make: `length` comes before `offset` where the `data_location` was
    DEFAULT, and behind it where there was none. Both are always there, since RTen wants both.

    Spec: docs/onnxz.md, Z-8.4.
    """
    place, length = {"location": entry.name}, {"length": str(entry.nbytes)}
    if tensor.data_location == DEFAULT:
        return referring(tensor, place | length | _OFFSET)
    return referring(tensor, place | _OFFSET | length)


def _with_checksums(entries: Sequence[Entry], digests: Mapping[str, bytes]) -> Iterator[Entry]:
    """The entries of a group with their checksums, whose key is the name of the first."""
    checksums = struct.unpack(f">{len(entries)}I", digests[entries[0].name])
    return map(records.Entry.with_checksum, entries, checksums)


def _render_header(entry: Entry, digests: Mapping[str, bytes]) -> bytes:
    return b"".join(map(records.local_header, _with_checksums([entry], digests)))


def _render_directory(kept: Sequence[Entry], groups: Sequence[Sequence[Entry]], digests: Mapping[str, bytes]) -> bytes:
    return records.directory([*kept, *chain.from_iterable(_with_checksums(group, digests) for group in groups)])


# Reading


def read_model(source: Source, max_depth: int = MAX_DEPTH) -> Model:
    """The model of the archive in `source`; tensors stay there, and only small ones are read, along with headers.

    Raises: DecodeError with the reason for which the archive is refused; ExternalDataError where the graph and the
    entries don't fit; either with the requirement that is broken. A DecodeError without one is about the graph: it is
    no model, though the archive is one.
    """
    *entries, graph = read_entries(source)
    message = source.slice(graph.payload_offset, graph.nbytes)
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
    """`error`, for which `read_model` refuses the archive in `source`, with what is broken and what a person can do."""
    if isinstance(error, TruncatedError) and not (error.requirement or "").startswith("Z-2"):
        # The file is whole, for its end record is there.
        requirement, where = error.requirement, error.where
        error = DecodeError(error.message, file_offset=error.file_offset, where=where, requirement=requirement)
    if error.requirement is None:
        if isinstance(error, DecodeError):
            error.message += "; the archive is as it must be, and the graph in it is not"
        return error
    error.message += f" ({VERSION}, {error.requirement})"
    if error.requirement == "Z-3.4":
        error.message += "; unpack it and archive the files anew with `zip -0`"
        return error
    try:
        read_loose_model(source, max_depth)
    except FormatError:
        return error
    error.message += "; as a zip file that a person made, `formats convert --lenient` reads it"
    return error


def check(source: Source, max_depth: int = MAX_DEPTH) -> None:
    """Nothing, where `source` is an archive, whatever the graph in it is besides.

    Raises: DecodeError or ExternalDataError with the requirement that is broken.
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
    """The names of the entries that no tensor has, of the ModelProto in `message`."""
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
        message = f"{len(names)} entries belong to no tensor ({', '.join(names[:3])}): unexplained data are not allowed"
        raise DecodeError(message, requirement="Z-7.11")


def _attach_entries(model: Model, entries: Sequence[Entry], source: Source, max_depth: int) -> list[str]:
    """The names of the entries that no tensor has, after each tensor got the entry that it refers to."""
    sizes = {entry.name: entry.nbytes for entry in entries}
    payloads = {entry.name: source.slice(entry.payload_offset, entry.nbytes) for entry in entries}
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
    """The model of an archive that a person made with any zip tool, and notes on what `read_model` refuses.

    Tensors may be parts of entries, and entries may be in a directory together with the graph, and be unused.

    Raises: as `read_model` does, where it is not clear what is meant.
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
        notes.append(Loss(LENIENT, "", f"the model is in the directory {directory!r:.80}"))
    if unused:
        notes.append(Loss(LENIENT, unused[0], f"{len(unused)} entries belong to no tensor"))
    return model, tuple(notes)


def _decode_loose(source: Source, graph: LooseEntry, max_depth: int) -> Model:
    """The model in the archive, its tensors not yet with their data."""
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
    """The names of the entries that no tensor has, after each tensor got the bytes that it refers to."""
    unused = dict.fromkeys(payloads)
    for where, tensor in walk.external_tensors(model):
        places = {str(entry.key): entry.value or "" for entry in tensor.external_data}
        try:
            if len(places) != len(tensor.external_data):
                raise ExternalDataError("external data have a key twice; allowed is each once")
            tensor.external_source = _part_of_entry(places, payloads)
            if _has_typed_data(tensor):
                raise ExternalDataError("the tensor has data in an entry and in the graph as well")
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
        raise ExternalDataError(f"the data are in {location!r:.80}, which is no entry of the archive")
    offset, length = places.get("offset") or "0", places.get("length") or ""
    for number in (offset, length or "0"):
        if not (number.isascii() and number.isdecimal()) or len(number) > MAX_DIGITS:
            raise ExternalDataError(f"{number!r:.40} is no number of bytes")
    nbytes = int(length) if length else max(payload.nbytes - int(offset), 0)
    if int(offset) + nbytes > payload.nbytes:
        message = f"{nbytes} bytes from {offset} on are not in entry {location} of {payload.nbytes} bytes"
        raise ExternalDataError(message)
    return payload.slice(int(offset), nbytes)


def _restore(tensor: Tensor, source: Source) -> None:
    """Make `source` the tensor's raw data, and `data_location` what it was: the order of the keys tells it.

    Spec: docs/onnxz.md, Z-9.2.
    """
    keys = [entry.key for entry in tensor.external_data]
    is_told = "offset" in keys and "length" not in keys[keys.index("offset") :]
    tensor.data_location = DEFAULT if is_told else None
    for name in ("external_data", "external_source"):
        vars(tensor).pop(name, None)
    tensor.raw_data = source
