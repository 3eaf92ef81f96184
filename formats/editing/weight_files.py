"""Weights in files of other programs: all tensors of one are read, and one tensor is written.

`.safetensors`, `.npz` and `.npy` files are read; their elements stay in the file, unless they are compressed. An
index, such as `model.safetensors.index.json`, says in which of several `.safetensors` files each tensor is. One tensor
becomes a `.npy` or `.safetensors` file.

Spec: safetensors (0.8), "Format"; numpy.lib.format, "Format Version 1.0" to "3.0"; huggingface_hub, "Serialization".
"""

from __future__ import annotations

import errno
import io
import json
import tokenize
import warnings
import zipfile
import zlib
from contextlib import contextmanager
from functools import partial
from math import prod
from pathlib import PurePosixPath, PureWindowsPath
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.lib import format as npy

from formats.errors import DecodeError, ExternalDataError, FormatError, TensorDataError, UnsupportedError
from formats.ir import dtypes
from formats.ir.model import Tensor
from formats.ir.storage import from_numpy
from formats.onnxpb.external import safetensors
from formats.onnxpb.external.confinement import DataFiles
from formats.onnxpb.external.safetensors import LENGTH_BYTES, MAX_HEADER_BYTES, METADATA, PADDING, TYPES
from formats.tensordata.file import File
from formats.tensordata.plan import FilePlan, PlacedWrite
from formats.tensordata.sources.source import Literal
from formats.tensordata.sources.transform import Transform

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from formats.ir.dtypes import DataType
    from formats.tensordata.sources.source import Source
    from formats.tensordata.sources.transform import Buffer


SAFETENSORS, NPZ, NPY = ".safetensors", ".npz", ".npy"
INDEX = ".safetensors.index.json"
WRITTEN = (NPY, SAFETENSORS)  # the suffixes of files with one tensor
MAX_INDEX_BYTES = 100_000_000
MAX_TEXT_BYTES = 100_000_000  # of all arrays of texts in a file, which are read as a whole
MAX_ARRAYS = 100_000  # in an .npz file
MAX_NPY_HEADER_BYTES = 10_000  # which numpy reads, too
_MAX_NPY_START_BYTES = MAX_NPY_HEADER_BYTES + 12  # with what stands before it
ALIGNMENT = 64  # of the elements in a file that is written
_NUMBERS = {name: number for number, name in TYPES.items()}
# What json, zipfile and numpy raise for damaged files; RuntimeError is for encrypted entries, and nested lists.
_DAMAGED = (zipfile.BadZipFile, zlib.error, ValueError, LookupError, TypeError, RuntimeError, OverflowError, EOFError)
_LOCAL_HEADER_BYTES = 30  # of a zip entry, before its name


def has_weights(path: Path) -> bool:
    """Whether the name of a file is that of weights, and not of a model."""
    return path.name.lower().endswith((SAFETENSORS, NPZ, NPY, INDEX))


def read_weights(path: Path, files: list[File] | None = None) -> dict[str, Tensor]:
    """The tensors in a `.safetensors` or `.npz` file, or in all files of an index, by name; the files go to `files`.

    The tensor in an `.npy` file has the name of the file without this suffix.

    Raises: DecodeError if a file is damaged; OSError if it cannot be read.
    """
    file = File.open(path)
    files = [] if files is None else files
    files.append(file)
    with _damage_named(path):
        if path.name.lower().endswith(INDEX):
            return _of_index(file, path, files)
        if path.suffix.lower() == NPY:
            return {path.stem: _of_npy(file.span(), path)}
        return _of_npz(file, path) if path.suffix.lower() == NPZ else _of_safetensors(file.span(), path)


@contextmanager
def _damage_named(path: Path) -> Iterator[None]:
    """A context in which errors of other packages become one that names the file, in our words."""
    try:
        yield
    except FormatError as error:
        error.path = error.path or path
        raise
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise DecodeError(f"the text is not JSON ({place})", path=path) from error
    except _DAMAGED as error:
        kind = INDEX if path.name.lower().endswith(INDEX) else path.suffix
        raise DecodeError(f"this is no valid {kind} file: it is damaged, or in another format", path=path) from error
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        raise DecodeError("this is no valid .npz file: an entry begins before the file", path=path) from error


def _of_index(file: File, path: Path, files: list[File]) -> dict[str, Tensor]:
    """The tensors in the files next to an index, which are only those that it names, by the rules of data files."""
    source = file.span()
    if source.nbytes > MAX_INDEX_BYTES:
        raise DecodeError(f"the index has {source.nbytes:,} bytes, more than {MAX_INDEX_BYTES:,}", path=path)
    content = json.loads(source.read())
    places = content.get("weight_map") if isinstance(content, dict) else None
    if not isinstance(places, dict) or not all(isinstance(name, str) for name in places.values()):
        raise DecodeError("the index has no weight_map with the name of a file for each tensor", path=path)
    data_files = DataFiles(path, model_file=file)
    shards: dict[str, dict[str, Tensor]] = {}
    for name in dict.fromkeys(places.values()):
        is_plain = name == PurePosixPath(name).name == PureWindowsPath(name).name
        if not (is_plain and name.endswith(SAFETENSORS)):
            raise DecodeError(f"the index names {name!r:.80}, which is no .safetensors file next to it", path=path)
        try:
            shard = data_files.open(name)
        except ExternalDataError as error:
            error.path = error.path or path.with_name(name)
            raise
        files.append(shard)
        with _damage_named(path.with_name(name)):
            shards[name] = _of_safetensors(shard.span(), path.with_name(name))
    for tensor, name in places.items():
        if tensor not in shards[name]:
            raise DecodeError(f"{name:.80} has no tensor {tensor!r:.80}, which the index says", path=path)
    return {tensor: shards[name][tensor] for tensor, name in places.items()}


def _of_safetensors(source: Source, path: Path) -> dict[str, Tensor]:
    length = int.from_bytes(source.read(0, min(LENGTH_BYTES, source.nbytes)), "little")
    start = LENGTH_BYTES + length
    if length > MAX_HEADER_BYTES or start > source.nbytes:
        raise DecodeError("the header is longer than the file", path=path)
    header = json.loads(source.read(LENGTH_BYTES, length))
    shared = header.pop(METADATA, None) or {} if isinstance(header, dict) else None
    if not isinstance(shared, dict):
        raise DecodeError("the header is no JSON object", path=path)
    tensors = {}
    for name, entry in header.items():
        if not name.startswith(PADDING):
            tensors[name] = _tensor(name, entry, source, start, path)
    for name, kept in shared.items():
        if name not in tensors and kept in tensors:
            tensors[name] = tensors[kept]
    return tensors


def _tensor(name: str, entry: Mapping[str, Any], source: Source, start: int, path: Path) -> Tensor:
    begin, end = entry["data_offsets"]
    dims = entry["shape"]
    number = _NUMBERS.get(entry["dtype"])
    if number is None:
        raise DecodeError(f"ONNX has no type {entry['dtype']!r:.40}, which {name:.80} has", path=path)
    if not all(type(value) is int and value >= 0 for value in (begin, end, *dims)):
        raise DecodeError(f"{name:.80} has a place or dims that are no numbers", path=path)
    row = dtypes.BY_NUMBER[number]
    if not begin <= end <= source.nbytes - start or end - begin != row.nbytes(dims):
        raise DecodeError(f"{name:.80} has a place that is not in the file, or too small for its dims", path=path)
    return Tensor(dims=dims, data_type=number, name=name, raw_data=source.slice(start + begin, end - begin))


def _of_npz(file: File, path: Path) -> dict[str, Tensor]:
    tensors: dict[str, Tensor] = {}
    text_bytes = 0
    with zipfile.ZipFile(path) as archive:
        entries = [entry for entry in archive.infolist() if entry.filename.endswith(NPY)]
        if len(entries) > MAX_ARRAYS:
            raise DecodeError(f"the file has {len(entries):,} arrays; at most {MAX_ARRAYS:,} are read", path=path)
        for entry in entries:
            name = entry.filename.removesuffix(NPY)
            if name in tensors:
                raise DecodeError(f"two arrays are called {name!r:.80}", path=path)
            tensors[name] = _array(name, archive, entry, file.span(), path, MAX_TEXT_BYTES - text_bytes)
            if tensors[name].data_type == dtypes.STRING:  # entries may share the bytes of their texts
                text_bytes += entry.file_size
    return tensors


def _of_npy(source: Source, path: Path) -> Tensor:
    """The tensor in a file, whose elements stay there."""
    stream = io.BytesIO(source.read(0, min(source.nbytes, _MAX_NPY_START_BYTES)))
    header = _npy_header(stream)
    start = stream.tell()
    row = _checked(path.stem, header, source.nbytes - start, MAX_TEXT_BYTES)
    data = source.slice(start, source.nbytes - start)
    if not row.bits:
        return _of_texts(path.stem, header, data.read())
    if header.is_fortran or header.dtype.newbyteorder("<") != header.dtype:
        data = Transform("an array of numpy", 0, 0, partial(_by_rows, header)).of(data, data.nbytes)
    return Tensor(dims=[*header.dims], data_type=row.number, name=path.stem, raw_data=data)


def _of_texts(name: str, header: _ArrayHeader, data: bytes) -> Tensor:
    """The tensor of an array of texts."""
    order: Any = "F" if header.is_fortran else "C"
    return from_numpy(np.ndarray(header.dims, header.dtype, data, order=order), name)


def _array(
    name: str, archive: zipfile.ZipFile, entry: zipfile.ZipInfo, source: Source, path: Path, most_text_bytes: int
) -> Tensor:
    """The tensor in an entry, whose elements stay in the file until they are read, unless they are texts."""
    with archive.open(entry) as stream:
        header = _npy_header(stream)
        start = stream.tell()
        nbytes = entry.file_size - start
        row = _checked(name, header, nbytes, most_text_bytes)
        if not row.bits:
            return _of_texts(name, header, stream.read(nbytes))
    head = source.read(entry.header_offset, _LOCAL_HEADER_BYTES)
    begin = entry.header_offset + len(head) + sum(int.from_bytes(head[at : at + 2], "little") for at in (26, 28))
    data = source.slice(begin, entry.compress_size)
    is_stored = entry.compress_type == zipfile.ZIP_STORED
    if is_stored and not header.is_fortran and header.dtype.newbyteorder("<") == header.dtype:
        data = data.slice(start, nbytes)
    elif is_stored or entry.compress_type == zipfile.ZIP_DEFLATED:
        unpack = partial(_elements, path, not is_stored, entry.CRC, start, header)
        data = Transform("an array of numpy", 0, 0, unpack).of(data, nbytes)
    else:
        raise DecodeError(f"{name:.80} is packed in a way that numpy does not use; save it with numpy.savez", path=path)
    return Tensor(dims=list(header.dims), data_type=row.number, name=name, raw_data=data)


class _ArrayHeader(NamedTuple):
    """The dims, whether the elements stand by columns, and the type of an array."""

    dims: tuple[int, ...]
    is_fortran: bool
    dtype: np.dtype[Any]


def _checked(name: str, header: _ArrayHeader, nbytes: int, most_text_bytes: int) -> DataType:
    """The element type of an array with so many bytes. Raises: DecodeError if ONNX has none, or if they do not fit."""
    dtype = header.dtype
    if dtype.hasobject:
        raise DecodeError(f"{name:.80} is an array of Python objects, which may run code when it is read")
    row = dtypes.from_numpy_dtype(dtype)
    if row is None:
        raise DecodeError(f"{name:.80} has numpy's type {dtype}, which ONNX does not have")
    elements = prod(header.dims)
    needed = elements * dtype.itemsize
    if needed != nbytes or (elements and not needed):
        raise DecodeError(f"{name:.80} has {nbytes:,} bytes, but its {elements:,} elements need {needed:,}")
    if not row.bits and nbytes > most_text_bytes:
        raise DecodeError(f"up to {name:.80}, the file has more than {MAX_TEXT_BYTES:,} bytes of text, the maximum")
    return row


def _npy_header(stream: IO[bytes]) -> _ArrayHeader:
    version = npy.read_magic(stream)
    read, length_bytes = (npy.read_array_header_1_0, 2) if version == (1, 0) else (npy.read_array_header_2_0, 4)
    length = stream.read(length_bytes)
    nbytes = int.from_bytes(length, "little")
    if nbytes > MAX_NPY_HEADER_BYTES:  # numpy unpacks all of it before it looks
        raise DecodeError(f"the header of an array has {nbytes:,} bytes; at most {MAX_NPY_HEADER_BYTES:,} are read")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of files that Python 2 wrote
        try:
            return _ArrayHeader(*read(io.BytesIO(length + stream.read(nbytes))))
        except (SyntaxError, tokenize.TokenError, MemoryError):  # numpy reads it as Python, whose parser has a limit
            raise DecodeError("the header of an array is not valid") from None


def _elements(
    path: Path,
    is_packed: bool,
    crc: int,
    start: int,
    header: _ArrayHeader,
    data: Buffer,
) -> np.ndarray[Any, Any]:
    """The elements of an entry of the file at `path` as ONNX has them: by rows, and little-endian."""
    content = data
    try:
        if is_packed:
            unpacker = zlib.decompressobj(-zlib.MAX_WBITS)
            content = unpacker.decompress(data, start + prod(header.dims) * header.dtype.itemsize + 1)
    except zlib.error:
        raise TensorDataError("an entry cannot be unpacked; the file is damaged", path=path) from None
    if zlib.crc32(content) != crc:
        raise TensorDataError("the checksum of the entry differs; the file is damaged", path=path)
    return _by_rows(header, memoryview(content)[start:])


def _by_rows(header: _ArrayHeader, data: Buffer) -> np.ndarray[Any, Any]:
    """The elements of an array, at the start of `data`, as ONNX has them: by rows, and little-endian."""
    array = np.frombuffer(data, header.dtype, prod(header.dims))
    array = array.reshape(header.dims, order="F" if header.is_fortran else "C")
    return np.ascontiguousarray(array, header.dtype.newbyteorder("<"))


def tensor_plan(tensor: Tensor, name: str, path: Path) -> FilePlan:
    """How to write a tensor to a file, in the format of its suffix.

    Raises: UnsupportedError if the format does not have the tensor's type; TensorDataError if it has no elements.
    """
    head = _npy_head(tensor, path) if path.suffix.lower() == NPY else _safetensors_head(tensor, name, path)
    source = tensor.source()
    writes = [PlacedWrite(0, Literal(head))]
    if source.nbytes:
        writes.append(PlacedWrite(len(head), source))
    return FilePlan(path, len(head) + source.nbytes, tuple(writes))


def _npy_head(tensor: Tensor, path: Path) -> bytes:
    row = dtypes.BY_NUMBER.get(tensor.data_type or 0)
    dtype = None if row is None or row.bits < 8 else dtypes.numpy_dtype(row.number)
    if dtype is None or dtype.type.__module__ != "numpy":
        name = dtypes.type_name(tensor.data_type)
        hint = f"; name a {SAFETENSORS} file" if safetensors.holds(tensor) else ""
        raise UnsupportedError(f"numpy has no type for {name}{hint}", path=path)
    head = io.BytesIO()
    header = {"descr": npy.dtype_to_descr(dtype), "fortran_order": False, "shape": tuple(tensor.dims)}
    npy.write_array_header_1_0(head, header)
    return head.getvalue()


def _safetensors_head(tensor: Tensor, name: str, path: Path) -> bytes:
    if not safetensors.holds(tensor):
        raise UnsupportedError(f"safetensors has no type for {dtypes.type_name(tensor.data_type)}", path=path)
    file = safetensors.SafetensorsFile(name, ALIGNMENT)
    entries, _, _ = file.entries_for(name, tensor, tensor.source().nbytes, f"{safetensors.PADDING}0")
    file.add_entries(entries)
    return file.head(path)
