"""Where everything is in a .safetensors file that contains a model.

Spec: safetensors, "Format".
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from formats import DecodeError, EncodeError, LimitError, Model, Tensor, TensorDataError, TruncatedError
from formats.codec import (
    BY_NAME,
    BY_NUMBER,
    EXTERNAL,
    SMALL_BYTES,
    Concat,
    FilePlan,
    Region,
    WritePlan,
    decode,
    encode,
    external_tensors,
    lay_out,
    movable_tensors,
    with_raw_data,
    with_reference,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from formats.codec import Segment, Source
    from formats_safetensors import SafetensorsOptions

GRAPH = "__model_proto__"
METADATA = "__metadata__"
LENGTH_BYTES = 8  # of the number before the header
MAX_HEADER_BYTES = 100_000_000  # the limit of safetensors
# The names of element types in safetensors; it does not have ONNX's other types, or not with the same bytes.
NAMES = {
    "BOOL": "BOOL",
    "UINT8": "U8",
    "INT8": "I8",
    "FLOAT8E4M3FN": "F8_E4M3",
    "FLOAT8E5M2": "F8_E5M2",
    "UINT16": "U16",
    "INT16": "I16",
    "FLOAT16": "F16",
    "BFLOAT16": "BF16",
    "UINT32": "U32",
    "INT32": "I32",
    "FLOAT": "F32",
    "UINT64": "U64",
    "INT64": "I64",
    "DOUBLE": "F64",
}
TYPES = {BY_NAME[onnx].number: theirs for onnx, theirs in NAMES.items()}


class Entry(NamedTuple):
    """A tensor in the header; `start` and `end` are in bytes from the end of the header."""

    dtype: str
    shape: tuple[int, ...]
    start: int
    end: int


# Writing


def plan_model(model: Model, destination: Path, options: SafetensorsOptions) -> WritePlan:
    """How to write `model` to the one file `destination`.

    Raises: EncodeError for a model without a graph; TensorDataError if the bytes of a weight cannot be read.
    """
    if model.graph is None:
        raise EncodeError("the model has no graph")
    moved: dict[int, str] = {}  # the names of tensors with an entry, by their id
    sources: dict[str, tuple[Tensor, Source]] = {}
    inside: dict[int, Source] = {}
    for where, tensor in movable_tensors(model, options.size_threshold):
        try:
            source = tensor.source()
        except TensorDataError as error:
            if tensor.data_location != EXTERNAL:  # such as strings: it stays unchanged
                continue
            error.where = where
            raise
        if tensor.data_type in TYPES and source.nbytes >= options.size_threshold:
            moved[id(tensor)] = name = _new_name(tensor.name or "tensor", sources)
            sources[name] = (tensor, source)
        elif tensor.data_location == EXTERNAL:
            inside[id(tensor)] = source

    def stored(tensor: Tensor) -> Tensor:
        if name := moved.get(id(tensor)):
            return with_reference(tensor, {"location": name})
        return with_raw_data(tensor, inside[id(tensor)]) if id(tensor) in inside else tensor

    graph_writes, graph_nbytes = lay_out(encode(model, stored), small_bytes=SMALL_BYTES)
    # Gaps are not allowed, so tensors with the widest elements come first: then each is aligned to its elements.
    order = sorted(sources, key=lambda name: -BY_NUMBER[sources[name][0].data_type or 0].bits)
    header: dict[str, Any] = {METADATA: {"format": "onnx", **(options.note or {})}}
    segments: list[Segment] = []
    position = 0
    for name in order:
        tensor, source = sources[name]
        header[name] = _entry(TYPES[tensor.data_type or 0], tensor.dims, position, source.nbytes)
        segments.append(source)
        position += source.nbytes
    header[GRAPH] = _entry("U8", [graph_nbytes], position, graph_nbytes)
    segments.append(Concat.of(*(write.source for write in graph_writes)))
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
    text += b" " * (-(LENGTH_BYTES + len(text)) % options.buffer_alignment)
    if len(text) > MAX_HEADER_BYTES:
        raise EncodeError(f"the header has {len(text)} bytes, and safetensors reads up to {MAX_HEADER_BYTES}")
    writes, nbytes = lay_out([len(text).to_bytes(LENGTH_BYTES, "little") + text, *segments], small_bytes=SMALL_BYTES)
    return WritePlan((FilePlan(destination, nbytes, tuple(writes)),))


def _new_name(wish: str, taken: dict[str, Any]) -> str:
    """A name that no other tensor has: tensors of inner graphs may have the same names."""
    name, count = wish, 1
    while name in taken or name in (GRAPH, METADATA):
        count += 1
        name = f"{wish}.{count}"
    return name


def _entry(dtype: str, shape: list[int], position: int, nbytes: int) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [position, position + nbytes]}


# Reading


def read_model(source: Source, max_depth: int) -> Model:
    """The model in `source`, with its weights as ranges of the file.

    Raises: DecodeError if the header, the graph or a reference is wrong.
    """
    entries, start = read_entries(source)
    graph = entries.get(GRAPH)
    if graph is None:
        raise DecodeError(f"there is no tensor {GRAPH}, so the file has weights but no graph")
    model = decode(source.slice(start + graph.start, graph.end - graph.start), Model, max_depth)
    if model.graph is None:
        raise DecodeError("the message has no graph, so it is not an ONNX model")
    for where, tensor in external_tensors(model):
        name = next((entry.value for entry in tensor.external_data if entry.key == "location"), None) or ""
        entry = entries.get(name)
        if entry is None or name == GRAPH:
            raise DecodeError(f"the file has no tensor {name!r:.80}", where=where)
        if entry.dtype != TYPES.get(tensor.data_type or 0) or entry.shape != tuple(tensor.dims):
            raise DecodeError(f"type or shape of {name!r:.80} are others in the header than in the graph", where=where)
        tensor.raw_data = source.slice(start + entry.start, entry.end - entry.start)
        tensor.data_location, tensor.external_data = None, []
    return model


def read_entries(source: Source) -> tuple[dict[str, Entry], int]:
    """The tensors in the header of a file, in their order, and where the header ends, in bytes.

    Raises: DecodeError if the file breaks safetensors' rules: the tensors fill the rest without gap or overlap.
    """
    if source.nbytes < LENGTH_BYTES:
        raise TruncatedError(f"needed {LENGTH_BYTES} bytes for the length of the header, found {source.nbytes}")
    nbytes = int.from_bytes(source.read(0, LENGTH_BYTES), "little")
    if nbytes > MAX_HEADER_BYTES:
        raise LimitError(f"the header has {nbytes} bytes, but at most {MAX_HEADER_BYTES} are allowed", file_offset=0)
    start = LENGTH_BYTES + nbytes
    if start > source.nbytes:
        raise TruncatedError(f"needed {nbytes} bytes for the header, found {source.nbytes - LENGTH_BYTES}")
    try:
        header = json.loads(source.read(LENGTH_BYTES, nbytes).decode(), object_pairs_hook=_without_repetition)
    except (ValueError, RecursionError) as error:
        raise DecodeError(f"the header is not JSON: {error}", file_offset=LENGTH_BYTES) from None
    if not isinstance(header, dict):
        raise DecodeError("the header is not a JSON object", file_offset=LENGTH_BYTES)
    entries = {name: _checked(name, value) for name, value in header.items() if name != METADATA}
    position = 0
    for name, entry in sorted(entries.items(), key=lambda item: (item[1].start, item[1].end)):
        if entry.start != position:
            raise DecodeError(f"tensor {name!r:.80} begins at {entry.start}, expected {position}")
        position = entry.end
    if position != source.nbytes - start:
        raise TruncatedError(f"the tensors need {position} bytes, {source.nbytes - start} follow the header")
    return entries, start


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({name for name, _ in pairs}) != len(pairs):
        raise ValueError("a name is given twice")
    return dict(pairs)


def _checked(name: str, value: Any) -> Entry:
    """The entry of a tensor, after a check of the types of its parts."""
    try:
        dtype, shape, (start, end) = value["dtype"], tuple(value["shape"]), value["data_offsets"]
    except (TypeError, KeyError, ValueError):
        raise DecodeError(f"the header does not tell where tensor {name!r:.80} is") from None
    numbers = (*shape, start, end)
    if not isinstance(dtype, str) or not all(type(number) is int and number >= 0 for number in numbers) or start > end:
        raise DecodeError(f"what the header says of tensor {name!r:.80} is not possible")
    return Entry(dtype, shape, start, end)


def regions_of(source: Source) -> Iterator[Region]:
    """The header and the graph of a file."""
    entries, start = read_entries(source)
    yield Region(0, start, "header", "header")
    if graph := entries.get(GRAPH):
        yield Region(start + graph.start, graph.end - graph.start, "model", GRAPH)
