"""How a model becomes an archive: which tensors have their own entry, and how the graph refers to them.

The last entry is the graph, a valid ModelProto. A tensor with an entry is stored as ONNX external data whose
`location` is the entry's name, so that unpacking an archive gives a model with external data.

Spec: docs/onnxz.md; onnx.proto, `TensorProto.external_data`.
"""

from __future__ import annotations

import struct
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

from formats.codecs.contract import DEEPEST
from formats.errors import EncodeError, TensorDataError
from formats.ir import walk
from formats.ir.dtypes import TYPED_FIELDS
from formats.ir.model import DEFAULT, EXTERNAL, Model, Tensor
from formats.ir.storage import raw_source, with_raw_data
from formats.onnxpb.external.references import referring
from formats.onnxpb.wire.encoder import encode
from formats.onnxzip import records
from formats.onnxzip.names import MODEL_NAME, EntryNames
from formats.onnxzip.reading.external_tensors import KEYS
from formats.onnxzip.reading.graph_scan import check_undecoded
from formats.onnxzip.writing.duplicates import Duplicates
from formats.onnxzip.writing.entry_groups import Checksums, EntryGroup, grouped
from formats.tensordata.plan import (
    DOCUMENTATION,
    SMALL_BYTES,
    Digest,
    FilePlan,
    LateWrite,
    Loss,
    PlacedWrite,
    WritePlan,
    lay_out,
)
from formats.tensordata.sources.source import Concat, place_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from formats.onnxzip.options import ArchiveOptions
    from formats.onnxzip.records import Entry
    from formats.tensordata.sources.source import Source

MODEL_ALIGNMENT = 64  # at most: no program maps the graph
_TYPED_FIELDS = frozenset(TYPED_FIELDS)


def plan_model(model: Model, destination: Path, options: ArchiveOptions) -> WritePlan:
    """How to write `model` to the one file `destination`.

    Raises: EncodeError for a model without a graph; TensorDataError if the bytes of an external tensor don't fit it.
    """
    if model.graph is None:
        raise EncodeError("the model has no graph, so no program could read its archive")
    packing = Packing(options)
    packing.pack(model)
    return WritePlan((packing.file_plan(destination),), losses=tuple(packing.losses))


class Packing:
    """The layout of an archive: existing entries, followed by new ones with payloads.

    `kept` are the existing ones; `places` maps sources to those of them that contain these sources.
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
        looked_at = partial(check_undecoded, max_depth=DEEPEST)  # `max_depth` may allow more depth than readers accept
        tensors = walk.movable_tensors(model, self.options.size_threshold, looked_at)
        stored: dict[int, Tensor | bytes] = {}  # by the `id` of the tensor that is stored otherwise
        for where, tensor in tensors:
            place = self.store(tensor, where)
            if isinstance(place, records.Entry):
                stored[id(tensor)] = _referring(tensor, place)
            elif place is not None:
                stored[id(tensor)] = with_raw_data(tensor, place)
        segments = encode(model, lambda tensor: stored.get(id(tensor), tensor))
        writes, _ = lay_out(segments, small_bytes=SMALL_BYTES)
        graph = Concat.of(*(write.source for write in writes))
        self.add(MODEL_NAME, graph, min(self.options.alignment, MODEL_ALIGNMENT))

    def store(self, tensor: Tensor, where: str) -> Entry | Source | None:
        """Where the elements of `tensor` go: into an entry, into the graph as raw data, or into the graph unchanged.

        Typed fields stay unchanged, so that they are restored exactly. So do data that a reader could not check against
        the tensor's type and shape.
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
        """A new entry after the existing ones."""
        entry = records.place(name, source.nbytes, self._end, alignment)
        self._end = entry.end
        self.members.append((entry, source))
        return entry

    def file_plan(self, destination: Path) -> FilePlan:
        """The new payloads unchanged; their headers and the directory when the checksums of the payloads are known."""
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
        """Report the entries in references to external data that are not about the place."""
        keys = {entry.key for entry in tensor.external_data}.difference(KEYS)
        if "checksum" in keys:
            detail = "the checksum of the external data file does not apply to an archive"
            self.losses.append(Loss("checksum", where, detail, DOCUMENTATION))
        if others := sorted(str(key) for key in keys - {"checksum"}):
            detail = f"an archive cannot hold {', '.join(others)} of external data"
            self.losses.append(Loss("external_data", where, detail, DOCUMENTATION))


def _is_plain_raw(tensor: Tensor) -> bool:
    """Whether raw data are all that the tensor contains as elements, so that a reference can replace them."""
    plain = tensor.data_location in (None, DEFAULT) and not vars(tensor).get("external_data")
    return plain and tensor.raw_data is not None and not has_typed_data(tensor)


def has_typed_data(tensor: Tensor) -> bool:
    """Whether a typed field is not empty."""
    values = vars(tensor)
    if _TYPED_FIELDS.isdisjoint(values):  # like nearly all
        return False
    return any(values[field] for field in _TYPED_FIELDS.intersection(values))


def _referring(tensor: Tensor, entry: Entry) -> Tensor | bytes:
    """The tensor with its elements in an entry.

    The order keeps a distinction of ONNX files: `length` comes before `offset` if the `data_location` was DEFAULT, and
    after it if there was none. Both are always present, because RTen requires both.

    Spec: docs/onnxz.md, Z-8.4.
    """
    length = str(entry.nbytes)
    if tensor.data_location == DEFAULT:
        return referring(tensor, {"location": entry.name, "length": length, "offset": "0"})
    return referring(tensor, {"location": entry.name, "offset": "0", "length": length})


def _with_checksums(entries: Sequence[Entry], digests: Mapping[str, bytes]) -> Iterator[Entry]:
    """The entries of a group with their checksums, whose key is the name of the first entry."""
    checksums = struct.unpack(f">{len(entries)}I", digests[entries[0].name])
    return map(records.Entry.with_checksum, entries, checksums)


def _render_header(entry: Entry, digests: Mapping[str, bytes]) -> bytes:
    return b"".join(map(records.local_header, _with_checksums([entry], digests)))


def _render_directory(kept: Sequence[Entry], groups: Sequence[Sequence[Entry]], digests: Mapping[str, bytes]) -> bytes:
    return records.directory([*kept, *chain.from_iterable(_with_checksums(group, digests) for group in groups)])
