"""How a model becomes an archive: which tensors have their own entry, and how the graph refers to them.

The last entry is the graph, a valid ModelProto. A tensor with an entry is stored as ONNX external data whose
`location` is the entry's name, so that unpacking an archive gives a model with external data.

Spec: docs/onnxz.md; onnx.proto, `TensorProto.external_data`.
"""

from __future__ import annotations

import struct
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from formats.codecs.contract import DEEPEST
from formats.errors import EncodeError, TensorDataError
from formats.ir import walk
from formats.ir.dtypes import TYPED_FIELDS
from formats.ir.model import DEFAULT, EXTERNAL, Model, Tensor
from formats.ir.storage import entries_of, raw_source, with_raw_data
from formats.onnxpb.wire.encoder import encode, referring
from formats.onnxzip import records
from formats.onnxzip.entry_groups import Checksums, Crc32AndHash, EntryGroup, grouped
from formats.onnxzip.graph import KEYS, check_undecoded
from formats.onnxzip.names import HASHES_NAME, EntryNames, entry_of, hashes_nbytes
from formats.tensordata.plan import (
    DOCUMENTATION,
    SMALL_BYTES,
    USE,
    Digest,
    FilePlan,
    LateWrite,
    Loss,
    PlacedWrite,
    WritePlan,
    lay_out,
)
from formats.tensordata.sources.digest import Duplicates, crc32_function
from formats.tensordata.sources.source import Concat, Literal, storage_key

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
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
    packing = Packing(options)
    packing.pack(model)
    packing.finish({}, {} if options.sha256 else None)
    return packing.plan(destination)


class Packing:
    """The layout of an archive: existing entries, followed by new ones with payloads.

    `kept` are the existing ones; `places` maps sources to those of them that contain these sources. Models that are
    packed share entries; `finish` adds what comes after all tensors.
    """

    def __init__(
        self,
        options: ArchiveOptions,
        kept: Sequence[Entry] = (),
        places: Mapping[tuple[object, ...], Entry] | None = None,
    ) -> None:
        self.options = options
        self.kept = kept
        self.entries: list[Entry] = []  # new ones
        self.payloads: list[Source] = []  # theirs; that of the hashes is empty until all others are written
        self.losses: list[Loss] = []
        self.shared_nbytes = 0  # of tensors whose bytes another tensor has already added
        self._end = kept[-1].end if kept else 0
        self._names = EntryNames(entry.name for entry in kept)
        self._by_place = dict(places or {})
        self._duplicates = Duplicates()
        self._graphs: dict[str | None, Source] = {}
        self._hashes: dict[str, str] | None = None

    def pack(self, model: Model, name: str | None = None) -> None:
        """Add the tensors of the model that get an entry; its graph is added at the end.

        Raises: EncodeError for a model without a graph; TensorDataError if external data don't fit their tensor.
        """
        if model.graph is None:
            raise EncodeError("the model has no graph, so no program could read its archive")
        # Lists without weights stay undecoded, and must be what readers accept; they may have been read with any depth.
        check = partial(check_undecoded, max_depth=DEEPEST)
        moved: dict[int, Entry | Source] = {}  # new elements of tensors that change, by the `id` of the tensor
        typed_places: list[str] = []
        for where, tensor in walk.movable_tensors(model, self.options.size_threshold, check):
            elements = self.store(tensor, where)
            if elements is not None:
                moved[id(tensor)] = elements
            elif has_typed_data(tensor) and not tensor.string_data:
                typed_places.append(where)
        if typed_places:
            self.losses.append(Loss("typed_data", typed_places[0], _why_typed(len(typed_places)), USE))
        # The model is not changed: the encoder gets another tensor for each one whose elements move.
        segments = encode(model, lambda tensor: _with_elements(tensor, moved.get(id(tensor))))
        writes, _ = lay_out(segments, small_bytes=SMALL_BYTES)
        self._graphs[name] = Concat.of(*(write.source for write in writes))

    def repeat(self, name: str, source: Source) -> None:
        """Add an entry of another archive under its name, for graphs that refer to it."""
        self._names.add(name)
        entry = records.place(name, source.nbytes, self._end, self.options.alignment)
        if entry.name != name:  # if the padding would not fit
            entry = records.place(name, source.nbytes, self._end, MODEL_ALIGNMENT)
        self._append(entry, source)
        self._by_place[storage_key(source)] = entry

    def repeat_graph(self, name: str | None, graph: Source) -> None:
        """Add a graph of another archive, all of whose entries are here."""
        self._graphs[name] = graph

    def finish(self, files: Mapping[str, Source], hashes: Mapping[str, str] | None = None) -> None:
        """Add files by the names of their entries, hashes if there must be some, and the graphs, the default one last.

        `hashes` has the SHA-256 of kept entries by their names, in hexadecimal.
        """
        alignment = min(self.options.alignment, MODEL_ALIGNMENT)
        for name, source in files.items():
            self.add(name, source, alignment)
        graphs = sorted(self._graphs.items(), key=lambda item: item[0] is None)
        if hashes is not None:
            # The size of the hashes depends only on the names, so they have their place before any hash is known.
            self._hashes = dict(hashes)
            names = [entry.name for entry in (*self.kept, *self.entries)]
            names += [entry_of(name) for name, _ in graphs]
            self._append(records.place(HASHES_NAME, hashes_nbytes(names), self._end, alignment), Literal(b""))
        for model, graph in graphs:
            self.add(entry_of(model), graph, alignment)

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
            self._report_dropped_keys(tensor, where)
        # A small weight stays in the graph, unless its bytes are in an entry anyway, that of a tied weight.
        is_small = not source.nbytes or source.nbytes < self.options.size_threshold
        if is_small and storage_key(source) not in self._by_place:
            return source if external else None
        return self._entry_of(tensor, where, source)

    def add(self, name: str, source: Source, alignment: int) -> Entry:
        """A new entry after the existing ones."""
        entry = records.place(name, source.nbytes, self._end, alignment)
        self._append(entry, source)
        return entry

    def _append(self, entry: Entry, payload: Source) -> None:
        self._end = entry.end
        self.entries.append(entry)
        self.payloads.append(payload)

    def plan(self, destination: Path) -> WritePlan:
        """How to write the archive to the one file `destination`."""
        return WritePlan((self.file_plan(destination),), losses=tuple(self.losses))

    def file_plan(self, destination: Path) -> FilePlan:
        """How to write the new entries and the directory.

        A header has the CRC-32 of its payload, so it is written late: after the engine has written the payload, and
        knows its digest. Neighbours with small payloads are one write, whose source computes their headers. The hashes
        and the directory come last, because they depend on all payloads.
        """
        groups = [(self.entries[begin:end], self.payloads[begin:end]) for begin, end in grouped(self.entries)]
        end_parts = _EndParts(self.kept, [entries for entries, _ in groups], self._hashes or {})
        with_sha256 = self._hashes is not None
        writes: list[PlacedWrite] = []
        late: list[LateWrite] = []
        for entries, payloads in groups:
            first = entries[0]
            if first.name == HASHES_NAME:
                late.append(LateWrite(first.file_offset, first.end - first.file_offset, end_parts.hashes, first.name))
            elif len(entries) > 1:
                digest = Digest(first.name, partial(Checksums, tuple(entries), with_sha256))
                writes.append(PlacedWrite(first.file_offset, EntryGroup(tuple(entries), tuple(payloads)), digest))
            else:
                digest = Digest(first.name, Crc32AndHash if with_sha256 else "crc32")
                writes.append(PlacedWrite(first.payload_offset, payloads[0], digest, first.name))
                header = partial(_late_header, first)
                late.append(LateWrite(first.file_offset, first.header_nbytes, header, first.name))
        directory_nbytes = records.directory_nbytes(end_parts.entries)
        late.append(LateWrite(self._end, directory_nbytes, end_parts.directory, "directory"))
        return FilePlan(destination, self._end + directory_nbytes, tuple(writes), tuple(late))

    def _entry_of(self, tensor: Tensor, where: str, source: Source) -> Entry:
        """The entry with the bytes of `source`; the same range of the same file is stored once."""
        place = storage_key(source)
        entry = self._by_place.get(place)
        if entry is None:
            # Only `dedup` reads bytes. Tied weights, which are one range of one file, are found by their place.
            if self.options.dedup:
                entry = self._by_place.get(storage_key(self._duplicates.first(source)))
            if entry is None:
                name = self._names.add(tensor.name or "", where)
                self._by_place[place] = entry = self.add(name, source, self.options.alignment)
                return entry
            self._by_place[place] = entry
        self.shared_nbytes += source.nbytes
        return entry

    def _report_dropped_keys(self, tensor: Tensor, where: str) -> None:
        """Report the entries in references to external data that are not about the place."""
        keys = {key for key, _ in entries_of(tensor)}.difference(KEYS)
        if "checksum" in keys:
            detail = "the checksum of the external data file does not apply to an archive"
            self.losses.append(Loss("checksum", where, detail, DOCUMENTATION))
        if others := sorted(str(key) for key in keys - {"checksum"}):
            detail = f"an archive cannot hold {', '.join(others)} of external data"
            self.losses.append(Loss("external_data", where, detail, DOCUMENTATION))


def _why_typed(count: int) -> str:
    """Why weights are not entries, which a program could map, and what makes them entries."""
    stay = "weights stay" if count > 1 else "weight stays"
    return (
        f"{count} {stay} in the graph, with elements in fields such as float_data; `formats convert MODEL NEW.onnx "
        "--external-data` makes a model without such fields"
    )


def _is_plain_raw(tensor: Tensor) -> bool:
    """Whether raw data are all that the tensor contains as elements, so that a reference can replace them."""
    plain = tensor.data_location in (None, DEFAULT) and not entries_of(tensor)
    return plain and tensor.raw_data is not None and not has_typed_data(tensor)


def has_typed_data(tensor: Tensor) -> bool:
    """Whether a typed field is not empty."""
    values = vars(tensor)
    if _TYPED_FIELDS.isdisjoint(values):  # like nearly all
        return False
    return any(values[field] for field in _TYPED_FIELDS.intersection(values))


def _with_elements(tensor: Tensor, elements: Entry | Source | None) -> Tensor | bytes:
    """The tensor as it is in the graph, if its elements are in an entry or become raw data; `None` for no change."""
    if elements is None:
        return tensor
    return _referring(tensor, elements) if isinstance(elements, records.Entry) else with_raw_data(tensor, elements)


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


def _checksums_of(entries: Sequence[Entry], digests: Mapping[str, bytes]) -> tuple[int, ...]:
    """The CRC-32s of entries that were written at once; the key of their digest is the name of the first one."""
    return struct.unpack_from(f">{len(entries)}I", digests[entries[0].name])


def _hashes_of(entries: Sequence[Entry], digests: Mapping[str, bytes]) -> list[str]:
    """Their SHA-256s in hexadecimal, which follow the CRC-32s in the digest."""
    sha256s = digests[entries[0].name][4 * len(entries) :]
    return [sha256s[start : start + 32].hex() for start in range(0, len(sha256s), 32)]


def _late_header(entry: Entry, digests: Mapping[str, bytes]) -> bytes:
    return records.local_header(entry, *_checksums_of([entry], digests))


class _EndParts(NamedTuple):
    """What depends on the digests of all entries: the hashes, and the directory.

    The entries are those that were `kept`, and the new ones in `groups` that are written at once, the hashes alone.
    """

    kept: Sequence[Entry]
    groups: Sequence[Sequence[Entry]]
    kept_hashes: Mapping[str, str]

    @property
    def entries(self) -> list[Entry]:
        """All entries in the order of the archive."""
        return [*self.kept, *chain.from_iterable(self.groups)]

    def directory(self, digests: Mapping[str, bytes]) -> bytes:
        """The directory and the end records."""
        checksums = [entry.crc32 for entry in self.kept]
        for group in self.groups:
            if group[0].name == HASHES_NAME:
                checksums.append(crc32_function()(self._text_of_hashes(digests)))
            else:
                checksums += _checksums_of(group, digests)
        return records.directory(self.entries, checksums)

    def hashes(self, digests: Mapping[str, bytes]) -> bytes:
        """The entry with the hashes, header and payload."""
        text = self._text_of_hashes(digests)
        (entry,) = (group[0] for group in self.groups if group[0].name == HASHES_NAME)
        return records.local_header(entry, crc32_function()(text)) + text

    def _text_of_hashes(self, digests: Mapping[str, bytes]) -> bytes:
        """A line with the SHA-256 and the name of each entry, as `sha256sum` writes it."""
        hashes = {entry.name: self.kept_hashes[entry.name] for entry in self.kept}
        for group in self.groups:
            if group[0].name != HASHES_NAME:
                hashes |= zip((entry.name for entry in group), _hashes_of(group, digests), strict=True)
        return "".join(f"{sha256}  {name}\n" for name, sha256 in hashes.items()).encode()
