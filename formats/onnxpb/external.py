"""External data: models read with it, and laid out with it or without.

Spec: onnx.proto, `TensorProto.external_data`; ONNX docs, "External Data".
"""

from __future__ import annotations

import re
import secrets
from dataclasses import replace
from functools import partial
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from formats.errors import DecodeError, EncodeError, ExternalDataError
from formats.ir import dtypes, walk
from formats.ir.model import Model, Tensor
from formats.ir.storage import EXTERNAL, with_raw_data, with_reference
from formats.onnxpb.decoder import decode
from formats.onnxpb.encoder import encode
from formats.onnxpb.locations import DataFiles, check_location
from formats.registry import READ_DEFAULTS
from formats.tensordata.plan import Align, Digest, FilePlan, LateWrite, Loss, PlacedWrite, Segment, WritePlan, lay_out
from formats.tensordata.source import Concat, Literal, place_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from formats.onnxpb import OnnxOptions
    from formats.registry import ReadOptions
    from formats.tensordata.source import Source

PROTOBUF_LIMIT_BYTES = (1 << 31) - 1
MOST_PACKED = 8  # an int64 of 8 bytes can be a varint of one in a typed field
STRING = dtypes.BY_NAME["STRING"].number
SHA1_BYTES = 20
INDEX_DIGITS = 8  # of the number of a data file, in hexadecimal
OF_OLD_FILE = ("checksum", "basepath", "prepacked_")  # entries, and beginnings of such, that no other file makes true


def read_model(source: Source, path: Path | None, options: ReadOptions = READ_DEFAULTS) -> Model:
    """The model in `source`, with the place of each external tensor's bytes found and checked.

    External data of a model that came from memory (`path` is `None`) cannot be looked for; such tensors have none.
    """
    return locate_data(decode(source, Model, options.max_depth), path, hard_links=options.hard_links)


def locate_data(model: Model, path: Path | None, *, hard_links: bool = True) -> Model:
    """The same model, of which every external tensor knows where its bytes are, for a model read from `path`.

    Raises: DecodeError where there is no graph; ExternalDataError where a place cannot be or may not be read.
    """
    if model.graph is None:
        raise DecodeError("the message has no graph, so it is not an ONNX model")
    if path is not None:
        files = DataFiles(path, hard_links=hard_links)
        for where, tensor in walk.movable_tensors(model):
            if tensor.data_location == EXTERNAL:
                tensor.external_source = files.find(tensor, where)
    return model


def plan_model(model: Model, destination: Path, options: OnnxOptions) -> WritePlan:
    """How to write `model` to `destination`, and its external data beside it.

    Raises: EncodeError or ExternalDataError where the data file cannot have the name that is asked for.
    """
    if options.alignment < 1:
        raise EncodeError(f"an alignment of {options.alignment} bytes is not possible")
    stored: dict[int, Tensor] = {}
    losses: list[Loss] = []
    moving: list[_Moving] = []
    least_nbytes = options.size_threshold / MOST_PACKED if options.external_data else inf
    for where, tensor in walk.movable_tensors(model, least_nbytes):
        source = _source_to_place(tensor, where, options)
        if source is None:
            continue
        outside = _goes_outside(tensor, source, options)
        losses += _left_behind(tensor, where, outside and options.checksum)
        if outside:
            moving.append(_Moving(tensor, source))
        elif tensor.data_location == EXTERNAL:
            stored[id(tensor)] = with_raw_data(tensor, source)
    nonce = secrets.token_hex(SHA1_BYTES - INDEX_DIGITS // 2) if options.checksum else ""
    files = _lay_out_data_files(moving, destination, options, stored, nonce)
    writes, nbytes = lay_out(encode(model, (lambda tensor: stored.get(id(tensor), tensor)) if stored else None))
    if nbytes > PROTOBUF_LIMIT_BYTES:
        detail = (
            f"the file has {nbytes} bytes, and onnx and onnxruntime read up to 2 GiB; "
            "--external-data puts weights into another file"
        )
        losses.append(Loss("protobuf_limit", "", detail))
    file = FilePlan(destination, nbytes, tuple(writes))
    return WritePlan((*files, _with_checksums(file, nonce) if nonce else file), losses=tuple(losses))


class _Moving(NamedTuple):
    """A tensor whose bytes go to a data file."""

    tensor: Tensor
    source: Source

    @property
    def place(self) -> tuple[object, ...]:
        """Equal for tensors whose bytes are stored once."""
        return place_of(self.source)


def _source_to_place(tensor: Tensor, where: str, options: OnnxOptions) -> Source | None:
    """The bytes of a tensor that may have to move, or `None` where it is written as it is."""
    external = tensor.data_location == EXTERNAL
    if tensor.string_data or not (external or (options.external_data and tensor.data_type != STRING)):
        return None
    try:
        return tensor.source()
    except ExternalDataError as error:
        error.where = where
        raise


def _goes_outside(tensor: Tensor, source: Source, options: OnnxOptions) -> bool:
    if options.external_data is None:
        return tensor.data_location == EXTERNAL
    return bool(options.external_data) and source.nbytes >= options.size_threshold


def _left_behind(tensor: Tensor, where: str, new_checksum: bool) -> Iterator[Loss]:
    """What the references of a tensor tell of the old data file that does not hold for another one."""
    keys = [entry.key or "" for entry in tensor.external_data]
    if "checksum" in keys and not new_checksum:
        detail = "the checksum of the old data file does not hold for the new"
        yield Loss("checksum", where, detail, matters=False)
    if any(key.startswith("prepacked_") for key in keys):
        detail = "what onnxruntime packed into the old data file is not in the new one; it packs again"
        yield Loss("prepacked", where, detail, matters=False)


def _lay_out_data_files(
    moving: list[_Moving], destination: Path, options: OnnxOptions, stored: dict[int, Tensor], nonce: str
) -> list[FilePlan]:
    """The plans of the data files; `stored` receives the tensors that refer to them.

    With a `nonce`, these get checksums that are not known yet: the nonce and the number of the file, in the size of a
    SHA-1, which is also the key of the digest that goes there.
    """
    groups: list[list[_Moving]] = []
    group_of: dict[tuple[object, ...], int] = {}
    size = 0
    for item in moving:
        if item.place not in group_of:
            end = size + -size % options.alignment + item.source.nbytes
            if not groups or options.one_file_per_tensor or end > (options.max_external_file_size or end):
                groups.append([])
                end = item.source.nbytes
            size = end
            group_of[item.place] = len(groups) - 1
        groups[group_of[item.place]].append(item)
    names = _data_file_names(groups, destination, options)
    return [
        _lay_out_data_file(
            destination.with_name(name), group, options.alignment, stored, nonce and f"{nonce}{index:0{INDEX_DIGITS}x}"
        )
        for index, (name, group) in enumerate(zip(names, groups, strict=True))
    ]


def _lay_out_data_file(
    path: Path, group: list[_Moving], alignment: int, stored: dict[int, Tensor], checksum: str
) -> FilePlan:
    segments: list[Segment] = []
    offsets: dict[tuple[object, ...], int] = {}
    size = 0
    for item in group:
        if item.place not in offsets:
            offsets[item.place] = size + -size % alignment
            segments += (Align(alignment), item.source)
            size = offsets[item.place] + item.source.nbytes
        stored[id(item.tensor)] = _reference(item, path.name, offsets[item.place], checksum)
    writes, nbytes = lay_out(segments)
    if checksum:  # of the whole file, padding included
        writes = [PlacedWrite(0, Concat.of(*(write.source for write in writes)), Digest(checksum, "sha1"))]
    return FilePlan(path, nbytes, tuple(writes))


def _reference(item: _Moving, location: str, offset: int, checksum: str) -> Tensor:
    """The tensor as a reference to its place in a data file; entries that say something else are kept."""
    places = {"location": location, "offset": str(offset), "length": str(item.source.nbytes)}
    others = [
        entry
        for entry in item.tensor.external_data
        if entry.key not in places and not (entry.key or "").startswith(OF_OLD_FILE)
    ]
    if checksum:
        places["checksum"] = checksum
    return with_reference(item.tensor, places, item.source, others)


def _with_checksums(file: FilePlan, nonce: str) -> FilePlan:
    """The same plan, of which the bytes with a checksum in them are written when that is known."""
    pattern = re.compile(rb"%b[0-9a-f]{%d}" % (nonce.encode(), INDEX_DIGITS))

    def render(data: bytes, digests: Mapping[str, bytes]) -> bytes:
        return pattern.sub(lambda match: digests[match[0].decode()].hex().encode(), data)

    writes, late_writes = [], []
    for write in file.writes:
        data = write.source.data if isinstance(write.source, Literal) else b""
        if isinstance(data, bytes) and pattern.search(data):
            late_writes.append(LateWrite(write.file_offset, len(data), partial(render, data), "checksums"))
        else:
            writes.append(write)
    return replace(file, writes=tuple(writes), late_writes=tuple(late_writes))


def _data_file_names(groups: list[list[_Moving]], destination: Path, options: OnnxOptions) -> list[str]:
    """The names of the data files, all of which RTen's own loader accepts: their extension starts with "data"."""
    given = options.external_data if isinstance(options.external_data, str) else None
    name = f"{destination.name}.data" if given is None else given
    check_location(name)
    if Path(name).name != name or name == destination.name:
        raise EncodeError(f"{name!r} cannot be the data file: it must be another file in the model's own directory")
    if options.one_file_per_tensor:
        return _names_by_tensor(groups, destination.stem)
    if len(groups) == 1 or not options.max_external_file_size:
        return [name] * len(groups)
    stem, extension = (destination.stem, ".data") if given is None else (Path(name).stem, Path(name).suffix)
    return [f"{stem}-{index:05}-of-{len(groups):05}{extension}" for index in range(1, len(groups) + 1)]


def _names_by_tensor(groups: list[list[_Moving]], stem: str) -> list[str]:
    """A file name for each tensor, unique also where case does not count."""
    names: dict[str, str] = {}
    for group in groups:
        plain = re.sub(r"[^A-Za-z0-9_.-]", "_", group[0].tensor.name or "tensor")[:100]
        candidate, count = f"{stem}.{plain}.data", 1
        while candidate.lower() in names:
            count += 1
            candidate = f"{stem}.{plain}_{count}.data"
        names[candidate.lower()] = candidate
    return list(names.values())
