"""The constants of a model: their elements in RTen's types, and their offsets in the tensor section.

Nothing here reads weights, except integers that may be too large for 32 bits.
"""

from __future__ import annotations

import struct
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from formats.errors import EncodeError, TensorDataError
from formats.ir import dtypes
from formats.ir.dtypes import count
from formats.ir.storage import from_numpy, raw_source
from formats.rten.operators import spec_of
from formats.rten.types import FLOATS, HOLDERS, INT32_LIMITS, INT64_LIMITS, PARTLY_HELD, clamp_int32
from formats.tensordata.plan import PlacedWrite
from formats.tensordata.sources.source import Literal, storage_key

if TYPE_CHECKING:
    from collections.abc import Iterable

    from formats.ir.dtypes import DataType
    from formats.ir.model import Node, SparseTensor, Tensor
    from formats.rten.types import Element
    from formats.tensordata.sources.source import Source
    from formats.tensordata.sources.transform import Transform

INLINE_ELEMENTS = 16  # constants up to this size are in the model section, where RTen reads shapes
ALIGNMENT = 64  # of tensors, and of their section in the file
MAX_DENSE_BYTES = 1 << 30  # limit for a sparse tensor, which is made dense in memory


class Constant(NamedTuple):
    """A tensor as RTen stores it, and how its elements were changed."""

    element: Element
    dims: tuple[int, ...]
    source: Source  # the elements, row-major and little-endian
    change: str  # "", "widened" (exactly), "rounded" or "clamped"


def as_rten_constant(tensor: Tensor) -> Constant:
    """The tensor with one of RTen's types; its elements are converted when they are read.

    Raises: EncodeError for strings and complex numbers, TensorDataError if the data is missing.
    """
    element = HOLDERS.get(tensor.data_type or 0)
    if element is None:
        raise EncodeError(f"its element type is {dtypes.type_name(tensor.data_type)}")
    dims = tuple(tensor.dims)
    source = raw_source(tensor)
    if tensor.data_type == element.number:
        return Constant(element, dims, source, "")  # as it is
    row = dtypes.BY_NUMBER[tensor.data_type or 0]
    if row.number == dtypes.INT64 and source.nbytes <= INLINE_ELEMENTS * 8:
        return _few_integers(element, dims, source)
    from formats.tensordata.sources.transform import are_kept, casting, clamp, range_of

    if row.bits < 16 and row.kind != "b":
        nbytes = prod(dims) * element.nbytes  # the packed source may have padding
        return Constant(element, dims, _widen_small(row, element).of(source, nbytes), "widened")
    if row.number in PARTLY_HELD:
        converted = clamp(row.numpy_name, element.numpy_name).of(source)
        is_clamped = needs_clamping(*range_of(source, row.numpy_name))  # the only weights that are read here
        return Constant(element, dims, converted, "clamped" if is_clamped else "")
    change = "" if row.number not in FLOATS else "widened" if row.bits < 32 else "rounded"
    # No number changes if each is also one of FLOAT.
    if change == "rounded" and are_kept(source, row.numpy_name, element.numpy_name):
        change = ""
    return Constant(element, dims, casting(row.numpy_name, element.numpy_name).of(source), change)


def _few_integers(element: Element, dims: tuple[int, ...], source: Source) -> Constant:
    """The same for a shape or a bound of INT64: converted at once and without numpy, which is faster than a plan."""
    count = source.nbytes // 8
    numbers = struct.unpack(f"<{count}q", source.read())
    clamped = Literal(struct.pack(f"<{count}i", *map(clamp_int32, numbers)))
    is_clamped = needs_clamping(min(numbers, default=0), max(numbers, default=0))
    return Constant(element, dims, clamped, "clamped" if is_clamped else "")


def clamped_text(tensor: Tensor) -> str:
    """The report on a tensor whose integers are clamped."""
    holder = dtypes.type_name(HOLDERS[tensor.data_type or 0].number)
    kinds = f"{dtypes.type_name(tensor.data_type)} constants become {holder}"
    return f"{kinds}; a value that does not fit becomes the nearest one that does"


def needs_clamping(least: int, greatest: int) -> bool:
    """Whether an integer needs more than 32 bits and is not one of the two that mean "no limit"."""
    return not (
        (INT32_LIMITS[0] <= least or least == INT64_LIMITS[0])
        and (greatest <= INT32_LIMITS[1] or greatest == INT64_LIMITS[1])
    )


def _widen_small(row: DataType, element: Element) -> Transform:
    """Elements of eight bits or fewer, packed, as elements of one of RTen's types."""
    from formats.tensordata.sources.transform import Transform, unpacked_elements

    def apply(data: bytes | bytearray | memoryview) -> Any:
        import numpy

        if row.bits < 8:
            array = unpacked_elements(data, row.bits, len(data) * 8 // row.bits)
        else:
            array = numpy.frombuffer(data, numpy.uint8)
        return array.view(dtypes.numpy_dtype(row.number)).astype(f"<{numpy.dtype(element.numpy_name).str[1:]}")

    packed = 3 if row.bits == 6 else 1
    return Transform(f"widen {row.name}", packed, packed * 8 // row.bits * element.nbytes, apply)


def densify(sparse: SparseTensor) -> Tensor:
    """The dense form of a sparse tensor; its name is that of the values.

    Raises: TensorDataError if values, indices and dims do not match.

    Spec: onnx.proto, SparseTensorProto.
    """
    import numpy

    values, indices = sparse.values, sparse.indices
    if values is None or indices is None:
        raise TensorDataError("a sparse tensor has no values or no indices")
    try:
        numbers, places = values.numpy(), indices.numpy()
        if count(sparse.dims) * numbers.itemsize > MAX_DENSE_BYTES:  # a few bytes of a file could request more
            raise TensorDataError(f"the sparse tensor {values.name!r} has {count(sparse.dims)} elements, too many")
        dense = numpy.zeros(sparse.dims, numbers.dtype)
        if places.ndim == 2:
            dense[tuple(places.T)] = numbers
        else:
            dense.reshape(-1)[places] = numbers
    except (ValueError, IndexError, MemoryError) as error:
        reason = "its values, indices and shape do not agree, or are too large for the memory"
        raise TensorDataError(f"the sparse tensor {values.name!r} is not well formed: {reason}") from error
    return from_numpy(dense, values.name)


def is_constant_node(node: Node) -> bool:
    """Whether a node becomes a tensor of the graph."""
    if node.input or len(node.output) != 1:
        return False
    spec = spec_of(node)
    return spec is not None and spec.to_rten.constant is not None


def constant_nodes(nodes: Iterable[Node]) -> list[Node]:
    """The nodes that become tensors of their graph."""
    return [node for node in nodes if not node.input and is_constant_node(node)]


class TensorSection:
    """The tensors outside the model section, one after another; each source is stored once."""

    def __init__(self) -> None:
        self._tensors: list[tuple[int, Source, str]] = []  # with the offset and the label
        self._places: dict[object, int] = {}
        self.nbytes = 0

    def place(self, source: Source, label: str) -> int:
        """The offset of the source, in bytes from the start of the section."""
        # Two tensors with the same bytes of the same file, such as tied weights, are stored once.
        identity = storage_key(source)
        offset = self._places.get(identity)
        if offset is None:
            offset = self._places[identity] = -(-self.nbytes // ALIGNMENT) * ALIGNMENT
            self._tensors.append((offset, source, label))
            self.nbytes = offset + source.nbytes
        return offset

    def writes(self, file_offset: int) -> list[PlacedWrite]:
        """The tensors at their offsets in a file in which the section starts at `file_offset`."""
        return [PlacedWrite(file_offset + offset, source, None, label) for offset, source, label in self._tensors]
