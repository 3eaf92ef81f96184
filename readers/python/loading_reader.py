"""A loading reader of .onnxz (docs/onnxz.md, Z-1.6) over `onnx`, to copy into a program that only needs a model.

The weights are slices of the mapped file: `proto, weights = load("model.onnxz")`.
"""

import math
import mmap
import struct
from pathlib import Path

import onnx

# The bits of an element, by data_type.
BITS = [0, 32, 8, 8, 16, 16, 32, 64, 0, 8, 16, 64, 32, 64, 64, 128, 16, 8, 8, 8, 8, 4, 4, 4, 8, 2, 2, 6, 6]


def check(*facts):
    """Refuse the archive unless all are true."""
    if not all(facts):
        raise ValueError("this is no valid archive")


def load(path, model=None):
    """The ModelProto, and the bytes of each external tensor by its location."""
    with Path(path).open("rb") as file:
        entries = entries_of(memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)))
    graphs = [name for name in entries if name.startswith("__MODEL_PROTO")]
    name = f"__MODEL_PROTO_{model}" if model else "__MODEL_PROTO" if "__MODEL_PROTO" in entries else graphs[0]
    proto = onnx.ModelProto.FromString(bytes(entries[name]))
    weights = {name: data for name, data in entries.items() if not name.startswith(("__", "files/"))}
    return proto, dict(weight_of(tensor, weights) for tensor in tensors_of(proto) if tensor.data_location == 1)


def entries_of(file):
    """The payloads by name, in the order of the file."""
    signature, here, count, size, start, comment = struct.unpack("<4s4xHHIIH", file[-22:])
    stop = len(file) - 22
    if 0xFFFF in (here, count) or 0xFFFFFFFF in (size, start):
        stop -= 76
        check(file[stop : stop + 4] == b"PK\6\6", file[stop + 56 : stop + 60] == b"PK\6\7")
        count, size, start = struct.unpack("<3Q", file[stop + 32 : stop + 56])
    check(signature == b"PK\5\6", comment == 0, start + size == stop)
    found, at, position = {}, start, 0
    for _ in range(count):
        signature, flags, method, packed, nbytes, named, extra, comment, offset = struct.unpack(
            "<4s4xHH8xIIHHH8xI", file[at : at + 46]
        )
        check(signature == b"PK\1\2", flags == method == comment == 0, packed == nbytes)
        name, wide = bytes(file[at + 46 : at + 46 + named]).decode("ascii"), file[at + 46 + named + 4 :]
        if nbytes == 0xFFFFFFFF:
            (nbytes, _), wide = struct.unpack("<QQ", wide[:16]), wide[16:]
        if offset == 0xFFFFFFFF:
            (offset,) = struct.unpack("<Q", wide[:8])
        check(offset == position, file[offset : offset + 4] == b"PK\3\4", name.lower() not in map(str.lower, found))
        begin = offset + 30 + sum(struct.unpack("<HH", file[offset + 26 : offset + 30]))
        position, at = begin + nbytes, at + 46 + named + extra
        check(position <= start)
        found[name] = file[begin:position]
    check(at == stop, position == start, found, name.startswith("__MODEL_PROTO"))
    return found


def tensors_of(message):
    """All TensorProtos in a message."""
    for _, value in message.ListFields():
        for inner in value if hasattr(value, "append") else [value]:
            if isinstance(inner, onnx.TensorProto):
                yield inner
            elif hasattr(inner, "ListFields"):
                yield from tensors_of(inner)


def weight_of(tensor, weights):
    """The location of an external tensor, and its bytes."""
    place = {entry.key: entry.value for entry in tensor.external_data}
    data = weights[place["location"]]
    check(len(tensor.external_data) == len(place), {*place} <= {"location", "offset", "length"})
    check(place.get("offset", "0") == "0", place.get("length", str(len(data))) == str(len(data)))
    bits = BITS[tensor.data_type] if 0 <= tensor.data_type < len(BITS) else 0
    check(bits, min(tensor.dims, default=0) >= 0, len(data) == -(-math.prod(tensor.dims) * bits // 8))
    return place["location"], data
