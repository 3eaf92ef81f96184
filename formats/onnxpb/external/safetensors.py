"""Data files that are `.safetensors` files, too: their header, and the places of tensors after it.

The format has no holes. So the padding that aligns a tensor is also a tensor: `__pad_0` and so on.

Spec: safetensors (0.8), "Format" and `Dtype` in tensor.rs.
"""

from __future__ import annotations

import json
from collections import Counter
from itertools import count
from math import inf, lcm
from typing import TYPE_CHECKING

from formats.codecs.contract import Region
from formats.errors import EncodeError
from formats.ir import dtypes
from formats.onnxpb.external.data_files import DataFileLayout, ExternalLayout, TensorPlace
from formats.tensordata.plan import USE, Loss
from formats.tensordata.sources.source import storage_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from formats.ir.model import Tensor
    from formats.onnxpb.external.data_files import MovedTensor
    from formats.onnxpb.options import OnnxOptions
    from formats.tensordata.sources.source import Source

LENGTH_BYTES = 8  # of the number before the header
MAX_HEADER_BYTES = 100_000_000  # MAX_HEADER_SIZE of tensor.rs
HEADER_ALIGNMENT = 8  # of the data after the header, as the library itself writes it
METADATA = "__metadata__"
PADDING = "__pad_"
MAX_ELEMENTS = (1 << 64) - 1  # in the product of dims, even if a later one is 0

_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode

# The names of element types. safetensors lacks ONNX's types STRING, COMPLEX128, INT4, UINT4, INT2 and UINT2; for
# FLOAT4E2M1, FLOAT6E2M3 and FLOAT6E3M2, it does not define which bits of a byte are the first element.
TYPES = {
    dtypes.BOOL: "BOOL",
    dtypes.UINT8: "U8",
    dtypes.INT8: "I8",
    dtypes.FLOAT8E4M3FN: "F8_E4M3",
    dtypes.FLOAT8E4M3FNUZ: "F8_E4M3FNUZ",
    dtypes.FLOAT8E5M2: "F8_E5M2",
    dtypes.FLOAT8E5M2FNUZ: "F8_E5M2FNUZ",
    dtypes.FLOAT8E8M0: "F8_E8M0",
    dtypes.UINT16: "U16",
    dtypes.INT16: "I16",
    dtypes.FLOAT16: "F16",
    dtypes.BFLOAT16: "BF16",
    dtypes.UINT32: "U32",
    dtypes.INT32: "I32",
    dtypes.FLOAT: "F32",
    dtypes.COMPLEX64: "C64",
    dtypes.UINT64: "U64",
    dtypes.INT64: "I64",
    dtypes.DOUBLE: "F64",
}


def holds(tensor: Tensor) -> bool:
    """Whether a tensor can be in a `.safetensors` file, by its element type and dims."""
    return tensor.data_type in TYPES and _elements_can_be_counted(tensor.dims)


def _elements_can_be_counted(dims: Iterable[int]) -> bool:
    """Whether no product of the first few dims overflows: the library multiplies one by one, even after a 0."""
    product = 1
    for dim in dims:
        product *= dim
        if product > MAX_ELEMENTS:
            return False
    return True


def losses(staying: Iterable[Tensor]) -> Iterator[Loss]:
    """The losses for tensors that stay in the graph: the number for each type."""
    for name, number in sorted(Counter(dtypes.type_name(tensor.data_type) for tensor in staying).items()):
        tensors = "1 tensor stays" if number == 1 else f"{number} tensors stay"
        detail = f"{tensors} in the graph, since a .safetensors file cannot hold {name} of these dims"
        if dtypes.BY_NAME[name].number not in TYPES:
            detail = f"{tensors} in the graph, since safetensors has no type for {name}"
        yield Loss("kept_in_graph", "", detail, USE)


class SafetensorsFile(DataFileLayout):
    """The layout of a data file as `.safetensors`; places in it are counted from the end of the header."""

    def __init__(self, label: str, alignment: int) -> None:
        super().__init__(label)
        self.alignment = alignment
        self._entries: list[bytes] = []  # of tensors, in the form of the header
        self._entries_nbytes = 0
        self._shared: dict[str, str] = {}  # the names of tensors whose bytes are those of another, named tensor
        self._shared_nbytes = 0

    @property
    def start(self) -> int:
        """Where the header ends, in bytes from the start of the file."""
        return self._start()

    def _start(self, more_nbytes: int = 0, more_shared: int = 0) -> int:
        shared = self._shared_nbytes + more_shared
        metadata = len(_metadata({})) + shared + 1 if shared else 0
        nbytes = LENGTH_BYTES + len("{}") + metadata + self._entries_nbytes + more_nbytes
        return nbytes + -nbytes % lcm(self.alignment, HEADER_ALIGNMENT)

    def entries_for(self, name: str, tensor: Tensor, nbytes: int, padding: str) -> tuple[list[bytes], int, int]:
        """The header's entries for another tensor and its padding, the tensor's start, and the new size of the file."""
        offset = self.nbytes + -self.nbytes % self.alignment
        entries = [_entry(name, TYPES[tensor.data_type or 0], tensor.dims, offset, offset + nbytes)]
        if offset > self.nbytes:
            entries.insert(0, _entry(padding, "U8", [offset - self.nbytes], self.nbytes, offset))
        return entries, offset, self._start(sum(map(len, entries)) + len(entries)) + offset + nbytes

    def add_entries(self, entries: list[bytes]) -> None:
        """Add these entries to the header."""
        self._entries += entries
        self._entries_nbytes += sum(map(len, entries)) + len(entries)

    def size_with_name(self, name: str, shared_with: str) -> int:
        """The file's size in bytes if one of its tensors gets another name."""
        return self._start(more_shared=_shared_nbytes(name, shared_with)) + self.nbytes

    def add_name(self, name: str, shared_with: str) -> None:
        """Give the tensor `shared_with` another name, in the metadata, as `safetensors.torch.save_model` does."""
        self._shared[name] = shared_with
        self._shared_nbytes += _shared_nbytes(name, shared_with)

    def head(self, path: Path) -> bytes:
        """The header with its length. Raises: EncodeError if it is longer than safetensors allows."""
        start = self.start
        if start - LENGTH_BYTES > MAX_HEADER_BYTES:
            reason = (
                f"the header of {path.name} needs {start - LENGTH_BYTES:,} bytes, but safetensors reads at most "
                f"{MAX_HEADER_BYTES:,}; set `max_external_file_size` to write more files, or a smaller `alignment`"
            )
            raise EncodeError(reason, path=path)
        entries = [_metadata(self._shared), *self._entries] if self._shared else self._entries
        text = b",".join(entries)
        length = (start - LENGTH_BYTES).to_bytes(LENGTH_BYTES, "little")
        return b"".join([length, b"{", text, b"}", b" " * (start - len(length) - len(text) - len("{}"))])


class SafetensorsLayout(ExternalLayout):
    """The layout of a model's `.safetensors` files, with the names of the tensors.

    If several tensors have the same name, it gets a number at its end, even if they go to different files.
    """

    def __init__(self, options: OnnxOptions, moving: list[MovedTensor]) -> None:
        super().__init__(options)
        wishes = [_text(moved.tensor.name or moved.where) for moved in moving]
        taken = {*wishes, METADATA}
        padding_names = (f"{PADDING}{number}" for number in count())
        self._padding = (name for name in padding_names if name not in taken)
        self._next_padding = next(self._padding)
        self._kept: dict[tuple[object, ...], tuple[TensorPlace, str]] = {}
        self._current: SafetensorsFile | None = None
        self._most_nbytes = options.most_nbytes or inf
        for moved, name in zip(moving, _distinct(wishes, taken), strict=True):
            self.places[id(moved.tensor)] = self._place(moved, name)

    def _place(self, moving: MovedTensor, name: str) -> TensorPlace:
        """The place of a tensor: that of another one with the same bytes, type and dims, or a new one."""
        tensor, source = moving.tensor, moving.source
        key = (*storage_key(source), tensor.data_type, *tensor.dims)
        if key in self._kept:
            place, kept = self._kept[key]
            file = self.files[place.file]
            assert isinstance(file, SafetensorsFile)
            if file.size_with_name(name, kept) <= self._most_nbytes:
                file.add_name(name, kept)
                return place
        place = self._new_place_for(name, tensor, source)
        self._kept.setdefault(key, (place, name))
        return place

    def _new_place_for(self, name: str, tensor: Tensor, source: Source) -> TensorPlace:
        file = self._current
        if file is not None:
            entries, offset, size = file.entries_for(name, tensor, source.nbytes, self._next_padding)
        if file is None or size > self._most_nbytes:
            file = self._current = SafetensorsFile(name, self.options.aligned_to)
            self.files.append(file)
            entries, offset, _ = file.entries_for(name, tensor, source.nbytes, self._next_padding)
        if len(entries) > 1:
            self._next_padding = next(self._padding)
        file.add_entries(entries)
        file.add(offset, source)
        return TensorPlace(len(self.files) - 1, offset, source.nbytes)


def _text(name: str) -> str:
    """The name as text of JSON in UTF-8: invalid UTF-8 is replaced."""
    return name.encode("utf-8", "replace").decode()


def _distinct(wishes: list[str], taken: set[str]) -> Iterator[str]:
    """A name for each wanted one: itself, or with a number if another tensor or the format has this name."""
    used = {METADATA}
    numbers: Counter[str] = Counter()
    for wish in wishes:
        name = wish
        while name in used or (name != wish and name in taken):
            numbers[wish] += 1
            name = f"{wish}_{numbers[wish] + 1}"
        used.add(name)
        yield name


def _entry(name: str, dtype: str, dims: list[int], begin: int, end: int) -> bytes:
    shape = ",".join(map(str, dims))  # there may be many thousands of entries
    return f'{_json(name)}:{{"dtype":"{dtype}","shape":[{shape}],"data_offsets":[{begin},{end}]}}'.encode()


def _metadata(shared: dict[str, str]) -> bytes:
    return f"{_json(METADATA)}:{_json(shared)}".encode()


def _shared_nbytes(name: str, shared_with: str) -> int:
    return len(f"{_json(name)}:{_json(shared_with)},".encode())


def header_of(data_file: Source) -> Iterator[Region]:
    """The header of a data file, if that is a `.safetensors` file by its first bytes."""
    head = data_file.read(0, min(LENGTH_BYTES + 1, data_file.nbytes))
    end = LENGTH_BYTES + int.from_bytes(head[:LENGTH_BYTES], "little")
    if head[LENGTH_BYTES:] == b"{" and end <= min(data_file.nbytes, LENGTH_BYTES + MAX_HEADER_BYTES):
        yield Region(0, end, "header", "header")
