"""Entries and the IR: which tensors have an entry of their own, and how the graph refers to it.

The last entry is the graph, a valid ModelProto. A tensor with an entry is stored as ONNX external data whose
`location` is the entry's name, so that unpacking an archive gives a model that every ONNX tool loads.

Spec: docs/onnxz.md; onnx.proto, `TensorProto.external_data`.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from formats.errors import DecodeError, EncodeError, ExternalDataError, TensorDataError
from formats.ir import walk
from formats.ir.dtypes import DATA_TYPES
from formats.ir.model import Model, StringStringEntry, Tensor
from formats.ir.storage import EXTERNAL, with_raw_data, without_data
from formats.onnxpb.codec import decode, encode
from formats.onnxzip import records
from formats.onnxzip.names import MODEL_NAME, EntryNames
from formats.onnxzip.reader import read_entries
from formats.tensordata.plan import Digest, FilePlan, LateWrite, Loss, PlacedWrite, WritePlan, lay_out
from formats.tensordata.source import Concat, place_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from formats.onnxzip import ArchiveOptions
    from formats.onnxzip.records import Entry
    from formats.tensordata.source import Source

MODEL_ALIGNMENT = 64  # at most: nobody maps the graph
DEFAULT = 0  # TensorProto.DataLocation
_PLACE_KEYS = ("location", "offset", "length")
_TYPED_FIELDS = tuple(dict.fromkeys(row.field for row in DATA_TYPES))


# Writing


def plan_model(model: Model, destination: Path, options: ArchiveOptions) -> WritePlan:
    """How to write `model` to the one file `destination`.

    Raises: EncodeError for a model without a graph; TensorDataError where the bytes of an external tensor don't fit it.
    """
    if model.graph is None:
        raise EncodeError("the model has no graph, so nothing could read its archive")
    packing = _Packing(options)
    stored = {id(tensor): packing.store(tensor, where) for where, tensor in walk.tensors(model)}
    writes, _ = lay_out(encode(model, lambda tensor: stored[id(tensor)]))
    packing.add(MODEL_NAME, Concat.of(*(write.source for write in writes)), min(options.alignment, MODEL_ALIGNMENT))
    return WritePlan((_file_plan(destination, packing.members),), losses=tuple(packing.losses))


class _Packing:
    """The entries of an archive that is being laid out, each with its payload."""

    def __init__(self, options: ArchiveOptions) -> None:
        self.options = options
        self.members: list[tuple[Entry, Source]] = []
        self.losses: list[Loss] = []
        self._names = EntryNames()
        self._by_place: dict[tuple[object, ...], Entry] = {}

    def store(self, tensor: Tensor, where: str) -> Tensor:
        """The tensor to write in the graph in place of `tensor`: the same one, or one that refers to an entry.

        Typed fields stay as they are, so that they come back as they were. So does what could not be checked against
        the tensor's type and shape when it is read.
        """
        external = tensor.data_location == EXTERNAL
        if not external and not _is_plain_raw(tensor):
            return tensor
        try:
            source = tensor.source()
        except TensorDataError as error:
            if not external:
                return tensor
            error.where = where
            raise
        if external:
            self._report(tensor, where)
        if not source.nbytes or source.nbytes < self.options.size_threshold:
            return with_raw_data(tensor, source) if external else tensor
        return _referring(tensor, self._entry_of(tensor, where, source))

    def add(self, name: str, source: Source, alignment: int) -> Entry:
        """A new entry behind those there are."""
        position = self.members[-1][0].end if self.members else 0
        entry = records.place(name, source.nbytes, position, alignment)
        self.members.append((entry, source))
        return entry

    def _entry_of(self, tensor: Tensor, where: str, source: Source) -> Entry:
        """The entry with the bytes of `source`; the same range of the same file is stored once."""
        place = place_of(source)
        entry = self._by_place.get(place)
        if entry is None:
            name = self._names.add(tensor.name or "", where)
            entry = self._by_place[place] = self.add(name, source, self.options.alignment)
        return entry

    def _report(self, tensor: Tensor, where: str) -> None:
        """Note what the references of external data said beyond the place."""
        keys = {entry.key for entry in tensor.external_data}.difference(_PLACE_KEYS)
        if "checksum" in keys:
            detail = "the checksum of the external data file does not hold for an archive"
            self.losses.append(Loss("checksum", where, detail))
        if others := sorted(str(key) for key in keys - {"checksum"}):
            detail = f"an archive has no place for {', '.join(others)} of external data"
            self.losses.append(Loss("external_data", where, detail))


def _is_plain_raw(tensor: Tensor) -> bool:
    """Whether raw data are all that the tensor says of its elements, so that a reference can stand for them."""
    plain = tensor.data_location in (None, DEFAULT) and not tensor.external_data
    return plain and tensor.raw_data is not None and not _has_typed_data(tensor)


def _has_typed_data(tensor: Tensor) -> bool:
    return any(getattr(tensor, field) for field in _TYPED_FIELDS)


def _referring(tensor: Tensor, entry: Entry) -> Tensor:
    """The tensor with its elements in an entry.

    `offset`, which is zero whether it is there or not, keeps a distinction that ONNX files make: it is there where
    the tensor's `data_location` was DEFAULT, and not where there was none.
    """
    places = {"location": entry.name, "length": str(entry.nbytes)}
    if tensor.data_location == DEFAULT:
        places["offset"] = "0"
    external_data = [StringStringEntry(key, value) for key, value in places.items()]
    return replace(without_data(tensor), data_location=EXTERNAL, external_data=external_data)


def _file_plan(destination: Path, members: Sequence[tuple[Entry, Source]]) -> FilePlan:
    """Payloads as they are; headers and directory when the checksums of the payloads are known."""
    entries = [entry for entry, _ in members]
    writes = tuple(
        PlacedWrite(entry.payload_offset, source, Digest(entry.name, "crc32"), entry.name) for entry, source in members
    )
    headers = [
        LateWrite(entry.file_offset, entry.header_nbytes, partial(_render_header, entry), entry.name)
        for entry in entries
    ]
    end = entries[-1].end
    directory_nbytes = len(records.directory(entries))
    directory = LateWrite(end, directory_nbytes, partial(_render_directory, entries), "directory")
    return FilePlan(destination, end + directory_nbytes, writes, (*headers, directory))


def _with_checksum(entry: Entry, digests: Mapping[str, bytes]) -> Entry:
    return entry._replace(crc32=int.from_bytes(digests[entry.name], "big"))


def _render_header(entry: Entry, digests: Mapping[str, bytes]) -> bytes:
    return records.local_header(_with_checksum(entry, digests))


def _render_directory(entries: Sequence[Entry], digests: Mapping[str, bytes]) -> bytes:
    return records.directory([_with_checksum(entry, digests) for entry in entries])


# Reading


def read_model(source: Source) -> Model:
    """The model of the archive in `source`; no tensor's bytes are read.

    Raises: DecodeError with the reason for which the archive is refused; ExternalDataError where the graph and the
    entries don't fit.
    """
    *entries, graph = read_entries(source)
    try:
        model = decode(source.slice(graph.payload_offset, graph.nbytes), Model)
    except DecodeError as error:
        if error.file_offset is not None:
            error.file_offset += graph.payload_offset
        raise
    if model.graph is None:
        raise DecodeError("the message has no graph, so it is not an ONNX model", file_offset=graph.payload_offset)
    by_name = {entry.name: entry for entry in entries}
    unused = dict.fromkeys(by_name)
    for where, tensor in walk.tensors(model):
        if tensor.data_location == EXTERNAL:
            try:
                entry = _entry_for(tensor, by_name)
                _attach(tensor, source.slice(entry.payload_offset, entry.nbytes))
            except TensorDataError as error:
                raise ExternalDataError(error.message, where=where) from None
            unused.pop(entry.name, None)
    if unused:
        names = ", ".join(list(unused)[:3])
        raise DecodeError(f"{len(unused)} entries belong to no tensor ({names}): unexplained data are not allowed")
    return model


def _entry_for(tensor: Tensor, by_name: Mapping[str, Entry]) -> Entry:
    """The entry that the tensor's external data name, where they name nothing else.

    Raises: ExternalDataError.
    """
    places = {entry.key: entry.value or "" for entry in tensor.external_data}
    if len(places) != len(tensor.external_data) or not places.keys() <= set(_PLACE_KEYS):
        keys = ", ".join(str(entry.key) for entry in tensor.external_data)
        raise ExternalDataError(f"external data have the keys {keys}; allowed are {', '.join(_PLACE_KEYS)}, each once")
    location = places.get("location", "")
    entry = by_name.get(location)
    if entry is None:
        raise ExternalDataError(f"the data are in {location!r:.80}, which is no entry of the archive")
    if places.get("offset", "0") != "0":
        raise ExternalDataError(f"offset is {places['offset']!r:.40}: a tensor has an entry from its first byte on")
    if places.get("length", str(entry.nbytes)) != str(entry.nbytes):
        raise ExternalDataError(f"length is {places['length']!r:.40}, entry {location} has {entry.nbytes} bytes")
    return entry


def _attach(tensor: Tensor, source: Source) -> None:
    """Make `source` the tensor's raw data, where that is what its type and shape demand.

    Raises: TensorDataError.
    """
    if tensor.raw_data is not None or _has_typed_data(tensor):
        raise TensorDataError("the tensor has data in an entry and in the graph as well")
    tensor.external_source = source
    tensor.source()
    tensor.external_source = None
    tensor.data_location = DEFAULT if any(entry.key == "offset" for entry in tensor.external_data) else None
    tensor.external_data = []
    tensor.raw_data = source
