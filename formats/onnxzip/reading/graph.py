"""The rules for an external tensor of an archive: the same for tensors in memory and in bytes.

Spec: docs/onnxz.md, section 7; onnx.proto, `TensorProto.external_data`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from formats.errors import ExternalDataError
from formats.ir.dtypes import BY_NUMBER, type_name
from formats.ir.storage import entries_of
from formats.onnxpb.wire.varints import decode_varint, skip_field

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from formats.ir.model import Tensor

KEYS = frozenset(("location", "offset", "length"))
SEGMENT = 3
OWN_DATA = {
    4: "float_data",
    5: "int32_data",
    6: "string_data",
    7: "int64_data",
    9: "raw_data",
    10: "double_data",
    11: "uint64_data",
}
_NUMBERS = {name: number for number, name in OWN_DATA.items()} | {"segment": SEGMENT}


class ExternalTensor(NamedTuple):
    """An external tensor (`data_location` EXTERNAL): its entries of external data, its elements, and other data."""

    places: Sequence[tuple[str, str]]
    data_type: int
    dims: Sequence[int]
    others: frozenset[int] = frozenset()  # the numbers of the forbidden fields that it has


def external_tensor(tensor: Tensor) -> ExternalTensor:
    """The external data of a decoded tensor."""
    values = vars(tensor)
    places = [(key or "", value or "") for key, value in entries_of(tensor)]
    others = _others(tensor) if "unknown_fields" in values or not values.keys().isdisjoint(_NUMBERS) else frozenset()
    return ExternalTensor(places, tensor.data_type or 0, tensor.dims, others)


def _others(tensor: Tensor) -> frozenset[int]:
    values = vars(tensor)
    found = {number for name, number in _NUMBERS.items() if values.get(name) not in (None, [])}
    unknown, position = tensor.unknown_fields, 0
    while position < len(unknown):  # a field with a wrong wire type
        tag, position = decode_varint(unknown, position)
        position = skip_field(unknown, position, tag)
        found.add(tag >> 3)
    return frozenset(found.intersection(_NUMBERS.values()))


def check_external(tensor: ExternalTensor, entry_nbytes: Mapping[str, int]) -> str:
    """The entry that a tensor refers to, from entries with these sizes in bytes, if everything is right.

    Raises: ExternalDataError.
    """
    places = dict(tensor.places)
    location = _location(tensor, places, entry_nbytes)
    nbytes = entry_nbytes[location]
    if places.get("offset", "0") != "0":
        message = f"offset is {places['offset']!r:.40}, but must be '0': a tensor begins at the first byte of its entry"
        raise ExternalDataError(message, requirement="Z-7.4")
    if places.get("length", text := str(nbytes)) != text:
        message = f"length is {places['length']!r:.40}, entry {location} has {nbytes} bytes"
        raise ExternalDataError(message, requirement="Z-7.5")
    if tensor.others:
        if own := [name for number, name in OWN_DATA.items() if number in tensor.others]:
            message = f"the tensor has data both in an entry and in the graph ({', '.join(own)})"
            raise ExternalDataError(message, requirement="Z-7.6")
        if SEGMENT in tensor.others:
            raise ExternalDataError("the tensor is a segment of a larger one", requirement="Z-7.7")
    row = BY_NUMBER.get(tensor.data_type)
    if row is None or not row.bits:
        message = f"element type {type_name(tensor.data_type)} has no known size in bytes, so it cannot have an entry"
        raise ExternalDataError(message, requirement="Z-7.8")
    if tensor.dims and min(tensor.dims) < 0:
        message = f"the tensor has a negative dimension: {_shortened(tensor.dims)}"
        raise ExternalDataError(message, requirement="Z-7.9")
    if row.nbytes(tensor.dims) != nbytes:
        message = (
            f"entry {location} has {nbytes} bytes of data; "
            f"dims {_shortened(tensor.dims)} of {row.name} need {row.nbytes(tensor.dims)}"
        )
        raise ExternalDataError(message, requirement="Z-7.10")
    return location


def _location(tensor: ExternalTensor, places: Mapping[str, str], entries: Mapping[str, int]) -> str:
    """The name of the tensor's entry.

    Raises: ExternalDataError if its keys are wrong, or there is no such entry.
    """
    if len(places) != len(tensor.places) or not places.keys() <= KEYS or "location" not in places:
        keys = ", ".join(repr(key) for key, _ in tensor.places[:9])
        message = (
            f"external_data has the keys {keys or 'none'}; it must have location, and may have offset and length, "
            "each once"
        )
        raise ExternalDataError(message, requirement="Z-7.2")
    location = places["location"]
    if location not in entries:
        message = f"the data are in {location!r:.80}, which is not an entry of the archive"
        raise ExternalDataError(message, requirement="Z-7.3")
    return location


def _shortened(dims: Sequence[int]) -> str:
    return str(list(dims)) if len(dims) < 10 else f"{list(dims[:8])} and {len(dims) - 8} more"
