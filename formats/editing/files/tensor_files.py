"""One tensor as a `.npy` or `.safetensors` file: its header, and then its bytes.

Spec: numpy.lib.format, "Format Version 1.0"; safetensors (0.8), "Format".
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from formats.editing.files.weight_files import NPY, SAFETENSORS
from formats.errors import UnsupportedError
from formats.ir import dtypes
from formats.onnxpb.external import safetensors
from formats.tensordata.plan import FilePlan, PlacedWrite
from formats.tensordata.sources.source import Literal

if TYPE_CHECKING:
    from pathlib import Path

    from formats.ir.model import Tensor

SUFFIXES = (NPY, SAFETENSORS)
ALIGNMENT = 64  # of the elements in the file


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
    from numpy.lib import format as npy

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
