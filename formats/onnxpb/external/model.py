"""External data: reading models with it, and its layout for writing.

Spec: onnx.proto, `TensorProto.external_data`; ONNX docs, "External Data".
"""

from __future__ import annotations

import os
import posixpath
import re
from collections import defaultdict
from functools import partial
from math import inf
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from formats.codecs.contract import READ_DEFAULTS
from formats.errors import DecodeError, EncodeError, ExternalDataError
from formats.ir import dtypes, walk
from formats.ir.archive_link import ArchiveLink, without_link
from formats.ir.model import EXTERNAL, Model, StringStringEntry, Tensor
from formats.ir.storage import entries_of, location_of, raw_source, with_raw_data, with_reference
from formats.onnxpb.external.confinement import DataFiles
from formats.onnxpb.external.data_files import (
    ExternalLayout,
    MovedTensor,
    browser_losses,
    files_in_place,
    is_unused,
    locations_of_source,
    transformers_js_settings,
)
from formats.onnxpb.options import OnnxOptions
from formats.onnxpb.wire.decoder import decode_and_look
from formats.onnxpb.wire.encoder import PROTOBUF_LIMIT_BYTES, encode, referring
from formats.options import option_rows
from formats.tensordata.file import File, UnusedFile, is_address, is_stream
from formats.tensordata.plan import (
    DOCUMENTATION,
    INTERFACE,
    MAX_NAMES,
    SMALL_BYTES,
    USE,
    FilePlan,
    LateWrite,
    Loss,
    WritePlan,
    lay_out,
)
from formats.tensordata.sources.digest import Duplicates
from formats.tensordata.sources.source import Literal, storage_key
from formats.words import counted, in_units, joined, listed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from formats.codecs.contract import ReadOptions
    from formats.tensordata.sources.source import Source

MOST_PACKED = 8  # in a typed field, an int64 of 8 bytes can be a varint of one byte
STRING = dtypes.BY_NAME["STRING"].number
SHA1_BYTES = 20
INDEX_DIGITS = 8  # of the number of a data file, in hexadecimal
OF_OLD_FILE = ("checksum", "basepath", "prepacked_")  # keys, and starts of keys, whose values are for the old file only


def read_model(source: Source, path: Path | None, options: ReadOptions = READ_DEFAULTS) -> Model:
    """The model in `source`, with the checked place of each external tensor's bytes.

    External data of a model from memory (`path` is `None`) cannot be found; such tensors have none.
    """
    model, has_references = decode_and_look(source, Model, options.max_depth)
    file = next(source.files(), None)
    return locate_data(model, path, file, options, has_references=has_references)


def locate_data(
    model: Model,
    path: Path | None,
    file: File | None = None,
    options: ReadOptions = READ_DEFAULTS,
    *,
    has_references: bool = True,
) -> Model:
    """The same model, read from `path`, in which every external tensor knows where its bytes are.

    `file` is the file that was opened at `path`, if any. A model without external tensors need not have
    `has_references`.

    Raises: DecodeError if there is no graph; ExternalDataError if a place is impossible or not allowed.
    """
    if model.graph is None:
        raise DecodeError("the message has no graph, so it is not an ONNX model")
    if path is not None:
        link = ArchiveLink.of(model)
        files = DataFiles(
            path,
            model_file=file,
            hard_links=options.hard_links,
            link=link,
            allow_absent=options.allow_absent,
            no_data=options.no_data,
        )
        for where, tensor in walk.external_tensors(model) if has_references else ():
            tensor.external_source = files.find(tensor, where)
    return model


def plan_model(model: Model, destination: Path, options: OnnxOptions) -> WritePlan:
    """How to write `model` to `destination`, and its external data next to it.

    If the model that is replaced has the data in the right places already, only the graph is written, unless the
    options ask for a layout.

    Raises: EncodeError or ExternalDataError if the data file cannot have the requested name.
    """
    if options.link:
        from formats.onnxpb.external import archive_links

        return archive_links.plan_model(model, destination, options.size_threshold)
    weights = weights_of(model, options)
    given = weights.outside
    if options.dedup:
        weights = weights._replace(outside=_with_equals_once(given, options))
    old = None  # the graph that has the data now; opened before it is asked, so that a later one is noticed
    if options.same_data:
        in_place = locations_of_source(weights.outside, destination)
    else:
        if weights.outside and not (is_address(destination) or is_stream(destination)) and destination.is_file():
            old = File.open(destination, keep_open=False)  # some systems replace no file that is open
        in_place = files_in_place(weights.outside, destination)
    link = ArchiveLink.of(model)
    layout = _layout_of(options)
    is_beside = bool(in_place) and not is_unused(weights.outside[0].source)
    if is_beside and options.strip_weights and layout:
        raise EncodeError(
            f"the data in {listed([*in_place], MAX_NAMES)} stays as it is, so the graph cannot have the layout that "
            f"{_asked(layout)}; write the graph to another name"
        )
    if in_place and (options.external_data is None or (options.strip_weights and is_beside)):
        if link is not None and link.archive not in map(posixpath.normpath, in_place):  # it is in another folder now
            model = without_link(model)
        return _graph_alone(model, destination, weights, in_place)._replace(replaced=old)
    model = without_link(model)
    placed = PlacedModel(model, destination, weights.inside)
    data_files = laid_out(weights.outside, options)
    losses = [*weights.losses, *_beyond_limit(data_files, destination)]
    if is_beside:
        losses.append(Loss("data_moved", "", f"all data was written again, which {_asked(layout)}", USE))
    if options.dedup:
        losses += _saved(given, data_files)
    if options.external_data and model.graph is not None:
        losses += _kept(model.graph.initializer, weights)
    plan = plan_files([placed], data_files, losses)
    if options.external_data is None and plan.files[-1].nbytes > PROTOBUF_LIMIT_BYTES:
        plan = plan_model(model, destination, OnnxOptions(external_data=True, dedup=options.dedup))
        detail = "the weights are in a data file, since onnx and onnxruntime read at most 2 GiB in one file"
        return plan._replace(losses=(*plan.losses, Loss("data_moved", "", detail, USE)))
    if options.strip_weights:
        return _without_data_files(plan)
    if options.data_names is None:
        return plan
    settings = transformers_js_settings(destination, len(plan.files) - 1)
    return plan._replace(settings=settings, losses=(*plan.losses, *browser_losses(plan.files)))


def _graph_alone(model: Model, destination: Path, weights: Weights, files: Mapping[str, File]) -> WritePlan:
    """How to write the graph of a model whose data `files`, by location, stay as they are."""
    locations = {file: location for location, file in files.items()}
    outside = {
        id(tensor): locations[file]
        for _, tensor, source in weights.outside
        for file in source.files()
        if location_of(tensor) != locations[file]
    }
    staying = {tensor.where for tensor in weights.outside} if weights.losses else ()
    losses = [loss for loss in weights.losses if loss.where not in staying]  # others are of data that moves
    plan = plan_files([PlacedModel(model, destination, weights.inside, outside)], ExternalLayout(OnnxOptions()), losses)
    names = listed([*files], MAX_NAMES)
    used = {destination.parent / location: file for location, file in files.items() if not isinstance(file, UnusedFile)}
    if used:
        stays = "stays as it is" if len(files) == 1 else "stay as they are"
        nbytes = in_units(sum(file.nbytes for file in used.values()))
        detail = f"the data in {names} ({nbytes}) {stays}; only the graph was written"
    else:
        detail = f"only the graph was written; it refers to {names}, seen from its folder"
    return plan._replace(losses=(*plan.losses, Loss("data_in_place", "", detail, USE)), used=used)


def _without_data_files(plan: WritePlan) -> WritePlan:
    """The same plan for the graph alone; checksums are those of the data files that could be written."""
    companions, graph = plan.files[:-1], plan.files[-1]
    digests = tuple((write.digest, write.source) for file in companions for write in file.writes if write.digest)
    names = listed([file.path.name for file in companions], MAX_NAMES) or "nothing"
    nbytes = in_units(sum(file.nbytes for file in companions))
    detail = f"the weights were not written: the graph refers to {names} ({nbytes})"
    if there := [file.path.name for file in companions if os.path.lexists(file.path)]:
        detail = f"{detail}; there is already {listed(there, MAX_NAMES)}, perhaps with other weights"
    loss = Loss("external_data", "", detail, INTERFACE if there else USE)
    return plan._replace(files=(graph,), digests=digests, losses=(*plan.losses, loss))


def _layout_of(options: OnnxOptions) -> list[str]:
    """The options that ask for a layout of data files."""
    rows = [row for row in option_rows(OnnxOptions) if row.implies and getattr(options, row.name) != row.default]
    return [f"`{row.name}`" for row in rows if row.name != "strip_weights"]


def _asked(layout: list[str]) -> str:
    """The options that ask for a layout, and a verb."""
    names = layout or ["`external_data`"]
    return f"{joined(names)} ask{'s' * (len(names) == 1)} for"


def laid_out(moved_tensors: list[MovedTensor], options: OnnxOptions) -> ExternalLayout:
    """The data files of these tensors."""
    if options.is_safetensors:
        from formats.onnxpb.external.safetensors import SafetensorsLayout

        return SafetensorsLayout(options, moved_tensors)
    data_files = ExternalLayout(options)
    for moved in moved_tensors:
        data_files.add(moved.tensor, moved.source)
    return data_files


class Weights(NamedTuple):
    """The tensors of a model that go to data files, and, by `id`, the bytes of tensors that leave them.

    All other tensors are written unchanged.
    """

    outside: list[MovedTensor]
    inside: dict[int, Source]
    losses: list[Loss]
    read_at_load: list[str]  # the places of small constants that stay inside whatever the threshold is
    not_possible: list[str]  # the places of tensors that stay inside because the data file cannot contain them


def weights_of(model: Model, options: OnnxOptions) -> Weights:
    """The tensors of a model that must move.

    Raises: ExternalDataError if the bytes of one cannot be read.
    """
    is_safetensors = options.is_safetensors
    if is_safetensors:
        from formats.onnxpb.external import safetensors
    weights = Weights([], {}, [], [], [])
    staying: list[Tensor] = []  # because a data file cannot contain them
    least_nbytes = options.size_threshold / MOST_PACKED if options.external_data else inf
    movable = [*walk.movable_tensors(model, least_nbytes)]
    is_read_at_load = _read_at_load(model, movable, options)
    for where, tensor in movable:
        source = _source_to_place(tensor, where, options)
        if source is None:
            continue
        is_outside = _goes_outside(tensor, source, options)
        if is_outside and id(tensor) in is_read_at_load and not is_unused(source):
            is_outside = False
            weights.read_at_load.append(where)
        if is_outside and is_safetensors and not safetensors.holds(tensor):
            is_outside = False
            staying.append(tensor)
            weights.not_possible.append(where)
        if external_entries := entries_of(tensor):
            weights.losses.extend(_left_behind(external_entries, where, is_outside and options.checksum))
        if is_outside:
            weights.outside.append(MovedTensor(where, tensor, source))
        elif tensor.data_location == EXTERNAL:
            weights.inside[id(tensor)] = source
    if staying:
        weights.losses.extend(safetensors.losses(staying))
    return weights


def _with_equals_once(moved_tensors: Sequence[MovedTensor], options: OnnxOptions) -> list[MovedTensor]:
    """The same tensors; those with equal bytes have one source, so that they get one place."""
    duplicates: defaultdict[tuple[int, ...], Duplicates] = defaultdict(Duplicates)
    return [
        moved._replace(source=duplicates[_kind_of(moved.tensor, options)].first(moved.source))
        for moved in moved_tensors
    ]


def _kind_of(tensor: Tensor, options: OnnxOptions) -> tuple[int, ...]:
    """What tensors in one place must have in common: in a `.safetensors` file the type and the shape."""
    return (tensor.data_type or 0, *tensor.dims) if options.is_safetensors else ()


def _saved(given: Sequence[MovedTensor], data_files: ExternalLayout) -> Iterator[Loss]:
    """How much less there is in data files because tensors with equal bytes have one place; `given` had their own."""
    before = {
        (*_kind_of(moved.tensor, data_files.options), *storage_key(moved.source)): moved.source.nbytes
        for moved in given
    }
    after = {*data_files.places.values()}
    if (number := len(before) - len(after)) > 0:
        nbytes = sum(before.values()) - sum(place.nbytes for place in after)
        detail = f"{counted(number, 'weight')} with the bytes of another one: {in_units(nbytes)} less in data files"
        yield Loss("dedup", "", detail, USE)


def _read_at_load(model: Model, movable: Sequence[tuple[str, Tensor]], options: OnnxOptions) -> set[int]:
    """The `id` of each small tensor that onnxruntime reads before it opens a data file, so that it stays inside."""
    if options.external_data is False or not movable:
        return set()
    from formats.onnxruntime import small_constants

    if options.external_data and options.size_threshold >= small_constants.SMALL_BYTES:
        return set()
    small = [
        (tensor, small_constants.in_attribute(where))
        for where, tensor in movable
        if tensor.data_type != STRING and small_constants.is_small(tensor)
    ]
    initializers = {tensor.name or "" for tensor, in_attribute in small if not in_attribute}
    names = small_constants.read_at_load(model, initializers)
    return {id(tensor) for tensor, in_attribute in small if in_attribute or tensor.name in names}


def _kept(initializers: Sequence[Tensor], weights: Weights) -> Iterator[Loss]:
    """The weights that stay in the graph, although data files are asked for, counted."""
    if number := len(weights.read_at_load):
        detail = (
            f"{number} small constant{'s stay' if number > 1 else ' stays'} in the graph, whatever `size_threshold` "
            "is: onnxruntime reads them before data files"
        )
        yield Loss("kept_in_graph", weights.read_at_load[0], detail, USE)
    others = (*(moved.where for moved in weights.outside), *weights.read_at_load, *weights.not_possible)
    of_main_graph = sum(where.startswith("graph.initializer") for where in others)
    number = sum(tensor.data_type != STRING for tensor in initializers) - of_main_graph
    if number:
        stay = "stays in the graph, since it is" if number == 1 else "stay in the graph, since they are"
        detail = f"{number:,} of {len(initializers):,} weights {stay} smaller than `size_threshold`"
        yield Loss("kept_in_graph", "", detail, USE)


def _beyond_limit(data_files: ExternalLayout, destination: Path) -> Iterator[Loss]:
    """The data files that are larger than the limit, because a single tensor is."""
    limit = data_files.options.max_external_file_size
    sizes = {data_files.files[index].nbytes: name for index, name in enumerate(data_files.names(destination))}
    large = [nbytes for nbytes in sizes if limit and nbytes > limit]
    if large:
        number = sum(file.nbytes > limit for file in data_files.files)
        files = "1 data file is" if number == 1 else f"{number} data files are"
        detail = f"{files} larger than `max_external_file_size`, since a single tensor is; {sizes[max(large)]} has "
        yield Loss("file_size", sizes[max(large)], f"{detail}{in_units(max(large))}", USE)


class PlacedModel(NamedTuple):
    """A model that will be written to a file.

    By the `id` of tensors, `inside` has the raw data of those that go inside, and `outside` the locations of those
    whose data stay where they are, but not under the location that they have.
    """

    model: Model
    destination: Path
    inside: Mapping[int, Source]
    outside: Mapping[int, str] = MappingProxyType({})


def plan_files(models: Sequence[PlacedModel], data_files: ExternalLayout, losses: Sequence[Loss] = ()) -> WritePlan:
    """How to write models to one folder, with their own and their shared data files.

    Raises: EncodeError or ExternalDataError as `plan_model` does.
    """
    first = models[0].destination
    names = data_files.names(first)
    nonce = os.urandom(SHA1_BYTES - INDEX_DIGITS // 2).hex() if data_files.options.checksum else ""
    checksums = [f"{nonce}{index:0{INDEX_DIGITS}x}" if nonce else "" for index in range(len(names))]
    losses = list(losses)
    graphs = []
    for placed in models:
        is_as_read = not (placed.inside or placed.outside or names)
        stored = None if is_as_read else partial(_stored, placed, data_files, names, checksums)
        small_bytes = 0 if nonce else SMALL_BYTES  # checksums are computed over bytes
        writes, nbytes = lay_out(encode(placed.model, stored), small_bytes=small_bytes)
        if nbytes > PROTOBUF_LIMIT_BYTES:
            detail = (
                f"the file has {nbytes} bytes, but onnx and onnxruntime read at most 2 GiB; `external_data=True` puts "
                "weights into another file"
            )
            losses.append(Loss("protobuf_limit", "", detail, INTERFACE))
        file = FilePlan(placed.destination, nbytes, tuple(writes))
        graphs.append(_with_checksums(file, nonce) if nonce else file)
    plans = [
        data_file.plan(first.parent / name, checksum)
        for data_file, name, checksum in zip(data_files.files, names, checksums, strict=True)
    ]
    return WritePlan((*plans, *graphs), losses=tuple(losses), models=len(graphs))


def _stored(
    placed: PlacedModel, data_files: ExternalLayout, names: Sequence[str], checksums: Sequence[str], tensor: Tensor
) -> Tensor | bytes:
    """A tensor as the file of its model has it: with its bytes, or with the place of these in a data file."""
    if place := data_files.places.get(id(tensor)):
        file_offset = data_files.files[place.file].start + place.offset
        return _referring(tensor, names[place.file], file_offset, place.nbytes, checksums[place.file])
    if location := placed.outside.get(id(tensor)):
        return _elsewhere(tensor, location)
    source = placed.inside.get(id(tensor))
    return tensor if source is None else with_raw_data(tensor, source)


def _source_to_place(tensor: Tensor, where: str, options: OnnxOptions) -> Source | None:
    """The bytes of a tensor that may have to move, or `None` if it is written unchanged."""
    external = tensor.data_location == EXTERNAL
    if not (external or (options.external_data and tensor.data_type != STRING)) or vars(tensor).get("string_data"):
        return None
    try:
        return raw_source(tensor)
    except ExternalDataError as error:
        error.where = where
        raise


def _goes_outside(tensor: Tensor, source: Source, options: OnnxOptions) -> bool:
    if options.external_data is None:
        return tensor.data_location == EXTERNAL
    return bool(options.external_data) and source.nbytes >= options.size_threshold


def _left_behind(entries: Sequence[tuple[str | None, str | None]], where: str, new_checksum: bool) -> Iterator[Loss]:
    """The entries in the reference of a tensor that are only true for the old data file."""
    keys = [key or "" for key, _ in entries]
    if "checksum" in keys and not new_checksum:
        detail = "the checksum of the old data file does not apply to the new one"
        yield Loss("checksum", where, detail, DOCUMENTATION)
    if any(key.startswith("prepacked_") for key in keys):
        detail = "weights that onnxruntime prepacked are not in the new data file; it will prepack them again"
        yield Loss("prepacked", where, detail, DOCUMENTATION)


def _referring(tensor: Tensor, location: str, file_offset: int, nbytes: int, checksum: str) -> Tensor | bytes:
    """The tensor as a reference to its place in a data file; entries that say something else are kept."""
    places = {"location": location, "offset": str(file_offset), "length": str(nbytes)}

    def is_other(key: str | None) -> bool:
        return key not in places and not (key or "").startswith(OF_OLD_FILE)

    others: list[StringStringEntry] = []
    if any(is_other(key) for key, _ in entries_of(tensor)):
        others = [entry for entry in tensor.external_data if is_other(entry.key)]
    if checksum:
        places["checksum"] = checksum
    return with_reference(tensor, places, others=others) if others else referring(tensor, places)


def _elsewhere(tensor: Tensor, location: str) -> Tensor:
    """The tensor with a reference to the same data file at another location."""
    others = [entry for entry in tensor.external_data if entry.key != "location"]
    return with_reference(tensor, {"location": location}, others=others)


def _with_checksums(file: FilePlan, nonce: str) -> FilePlan:
    """The same plan. Bytes that contain a checksum are written when that checksum is known."""
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
    return file._replace(writes=tuple(writes), late_writes=tuple(late_writes))
