"""The ways a tensor can store its elements, as one source of raw bytes and as arrays.

Spec: onnx.proto, the comments of TensorProto's data fields.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from formats.errors import ExternalDataError, TensorDataError
from formats.ir import dtypes, walk
from formats.ir.copies import shallow
from formats.ir.model import EXTERNAL, Message, StringStringEntry, Tensor, entries, set_fields
from formats.tensordata.sources.source import Literal, Source

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy as np

    from formats.ir.dtypes import DataType
    from formats.ir.model import Attribute, Model, UndecodedEntries
    from formats.tensordata.file import File

# The keys of a tensor that are about its elements; of its lists, only the entries of external data can be undecoded.
STORAGE = frozenset(
    ("raw_data", *dtypes.TYPED_FIELDS, "external_data", "undecoded", "data_location", "external_source")
)


def data_type(tensor: Tensor) -> DataType:
    """The row of the tensor's element type.

    Raises: TensorDataError if it has none, or an unknown one.
    """
    row = dtypes.BY_NUMBER.get(tensor.data_type or 0)
    if row is None:
        raise TensorDataError(f"tensor {tensor.name!r:.80} has element type {dtypes.type_name(tensor.data_type)}")
    return row


def raw_source(tensor: Tensor) -> Source:
    """The elements in raw form, as `Tensor.source` promises."""
    row = data_type(tensor)
    if not row.bits:
        raise TensorDataError(f"tensor {tensor.name!r:.80} holds strings, which have no raw form")
    if tensor.segment is not None:
        raise TensorDataError(f"tensor {tensor.name!r:.80} is a segment of a larger one, which is not supported")
    dims = tensor.dims
    if dims and min(dims) < 0:
        raise TensorDataError(f"tensor {tensor.name!r:.80} has a negative dimension in {dtypes.dims_shown(dims)}")
    nbytes = row.nbytes(dims)
    if tensor.data_location == EXTERNAL:
        if tensor.external_source is None:
            raise ExternalDataError(
                f"tensor {tensor.name!r:.80} is in another file, and the model was not read from one"
            )
        if tensor.raw_data is not None:
            raise TensorDataError(f"tensor {tensor.name!r:.80} has raw data and external data; clear one of them")
        source = tensor.external_source
    elif tensor.raw_data is not None:
        source = tensor.raw_data
    else:
        field: Source = getattr(tensor, row.field) or Literal(b"")
        source = _typed(field, row, tensor.dims) if field.nbytes else field
    if source.nbytes != nbytes:
        raise TensorDataError(
            f"tensor {tensor.name!r:.80} has {source.nbytes} bytes of data; "
            f"dims {dtypes.dims_shown(tensor.dims)} of {row.name} need {nbytes}"
        )
    return source


def _typed(field: Source, row: DataType, dims: list[int]) -> Source:
    """A typed field in raw form: floats have it already, integers are varints with the element in their low bits."""
    if row.field in ("float_data", "double_data"):
        return field
    from formats.tensordata.sources.transform import bit_packing, varints

    entries = dtypes.count(dims) if row.bits == 6 else row.nbytes(dims) * 8 // max(row.bits, 8)
    if entries > field.nbytes:  # each needs at least a byte; otherwise, dims alone could request any amount of memory
        size = f"{field.nbytes} bytes of {row.field}"
        raise TensorDataError(f"found {size} for {entries} integers, which dims {dtypes.dims_shown(dims)} need")
    if row.bits == 6:  # one element per entry, unlike the other types narrower than a byte
        return bit_packing(6).of(varints("uint8").of(field, dtypes.count(dims)), row.nbytes(dims))
    return varints(f"uint{max(row.bits, 8)}").of(field, row.nbytes(dims))


def to_numpy(tensor: Tensor) -> np.ndarray[Any, np.dtype[Any]]:
    """The elements as an array, as `Tensor.numpy` promises."""
    import numpy

    row = data_type(tensor)
    if not row.bits:
        try:
            strings = [value.decode() for value in tensor.string_data]
            array = numpy.array(strings, dtype=object).reshape(tensor.dims)
        except ValueError as error:
            count = f"{len(tensor.string_data):,} texts for the dims {dtypes.dims_shown(tensor.dims)}"
            raise TensorDataError(f"tensor {tensor.name!r:.80} has {count}, or one that is not UTF-8") from error
    else:
        from formats.tensordata.sources.transform import unpacked_elements

        data = raw_source(tensor).view()
        if row.bits < 8:
            array = unpacked_elements(data, row.bits, dtypes.count(tensor.dims)).view(dtypes.numpy_dtype(row.number))
        else:
            array = numpy.frombuffer(data, dtype=dtypes.numpy_dtype(row.number))
        try:
            array = array.reshape(tensor.dims)
        except ValueError as error:  # many dims, or large ones next to a zero
            text = f"tensor {tensor.name!r:.80} cannot become a numpy array with dims {dtypes.dims_shown(tensor.dims)}"
            raise TensorDataError(text) from error
    array.flags.writeable = False
    return array


def from_numpy(array: np.ndarray[Any, np.dtype[Any]], name: str | None = None) -> Tensor:
    """Make a tensor with the elements of `array` as raw data, or as strings if they are `str` or `bytes`.

    The data is copied only if it is not contiguous and little-endian.

    For example:

        >>> import numpy
        >>> formats.from_numpy(numpy.zeros((2, 3), "float32"), "weight").dims
        [2, 3]

    Raises: TensorDataError for a numpy type that ONNX lacks, and for an array of other objects.
    """
    import numpy

    row = dtypes.from_numpy_dtype(array.dtype)
    if row is None:
        raise TensorDataError(f"ONNX has no element type for numpy's {array.dtype}")
    tensor = Tensor(dims=list(array.shape), data_type=row.number, name=name)
    if not row.bits:
        values = array.ravel().tolist()
        for index, value in enumerate(values):
            if not isinstance(value, (str, bytes)):
                problem = f"element {index} is {value!r:.80} ({type(value).__name__})"
                raise TensorDataError(f"an array of objects can hold only texts and bytes, but {problem}")
        tensor.string_data = [value if isinstance(value, bytes) else value.encode() for value in values]
        return tensor
    array = numpy.ascontiguousarray(array, dtype=dtypes.numpy_dtype(row.number)).reshape(-1)
    data = array.view(numpy.uint8).data
    if row.bits < 8:
        from formats.tensordata.sources.transform import bit_packing

        data = memoryview(bit_packing(row.bits).apply(data)).cast("B")
    tensor.raw_data = Literal(data)
    return tensor


def constant_of(attribute: Attribute) -> Tensor | None:
    """The tensor that an attribute of a Constant node means; `None` if it is sparse, or not one of that operator.

    Spec: ONNX operators, Constant.
    """
    import numpy

    if attribute.name in ("value_float", "value_floats"):
        value = 0.0 if attribute.f is None else attribute.f  # `or` would make 0.0 of -0.0
        values: Any = value if attribute.name == "value_float" else attribute.floats
        return from_numpy(numpy.array(values, "float32"))
    if attribute.name in ("value_int", "value_ints"):
        values = (attribute.i or 0) if attribute.name == "value_int" else attribute.ints
        return from_numpy(numpy.array(values, "int64"))
    if attribute.name in ("value_string", "value_strings"):
        values = (attribute.s or b"") if attribute.name == "value_string" else attribute.strings
        return from_numpy(numpy.array(values, "object"))
    return attribute.t


def files_of(model: Model) -> set[File]:
    """The files that the tensors of a model use, and its lists that are still undecoded."""
    all_files: set[File] = set()
    stack: list[Any] = [model]
    while stack:
        message = stack.pop()
        values = vars(message)
        for value in values.values():
            if isinstance(value, Source):
                all_files.update(value.files())
            elif isinstance(value, Message):
                stack.append(value)
            elif isinstance(value, list) and value and isinstance(value[0], Message):
                stack += value
        for name, undecoded in message.undecoded.items():
            if name not in values:
                for part in undecoded.segments:
                    if isinstance(part, Source):
                        all_files.update(part.files())
    return all_files


def without_data(tensor: Tensor) -> Tensor:
    """A copy of the tensor without elements in any form."""
    return _stored(tensor)


def with_raw_data(tensor: Tensor, source: Source) -> Tensor:
    """A copy of the tensor with `source` as its raw data, whatever form its elements had."""
    return _stored(tensor, raw_data=source)


def with_elements(tensor: Tensor, source: Source) -> Tensor:
    """A copy of the tensor with `source` as its elements; those of a tensor in a data file are for a data file, too."""
    if tensor.data_location == EXTERNAL:
        return _stored(tensor, data_location=EXTERNAL, external_source=source)
    return with_raw_data(tensor, source)


def _stored(tensor: Tensor, **storage: Any) -> Tensor:
    """A copy of the tensor whose elements are only in the fields of `storage`."""
    values = {name: value for name, value in vars(tensor).items() if name not in STORAGE}
    new = object.__new__(Tensor)
    set_fields(new, values | storage)  # a fifth of the time of `replace`, once for each weight
    return new


def entries_of(tensor: Tensor) -> list[tuple[str | None, str | None]]:
    """The key and the value of each entry of the tensor's external data; what is undecoded stays so."""
    undecoded = _undecoded_entries(tensor)
    if undecoded is not None:
        return undecoded.pairs()
    return [(entry.key, entry.value) for entry in entries(tensor, "external_data")]


def _undecoded_entries(tensor: Tensor) -> UndecodedEntries | None:
    return None if "external_data" in vars(tensor) else tensor.undecoded.get("external_data")


def external_places(tensor: Tensor) -> dict[str, str]:
    """The entries of the tensor's external data, by key; of two with the same key, the last one counts."""
    return {key or "": value or "" for key, value in entries_of(tensor)}


def location_of(tensor: Tensor) -> str:
    """The location in the tensor's external data; of several, the first one."""
    return next((value or "" for key, value in entries_of(tensor) if key == "location"), "")


def moved_entries(tensor: Tensor, new: Callable[[str], str | None]) -> list[StringStringEntry]:
    """Copies of the entries of the tensor's external data, with what `new` returns for the location in its place.

    `None` changes nothing. The entries of the tensor stay as they are, also undecoded.
    """
    undecoded = _undecoded_entries(tensor)
    moved = map(shallow, entries(tensor, "external_data")) if undecoded is None else undecoded.decode()
    listed: list[StringStringEntry] = [*moved]
    for entry in listed:
        if entry.key == "location":
            entry.value = new(entry.value or "") or entry.value
    return listed


def with_reference(
    tensor: Tensor, places: Mapping[str, str], source: Source | None = None, others: Sequence[StringStringEntry] = ()
) -> Tensor:
    """A copy of the tensor whose elements are external, with the entries `places`; `source` has them here.

    `others` are entries with other keys.
    """
    made = [*(StringStringEntry(key, value) for key, value in places.items()), *others]
    return _stored(tensor, data_location=EXTERNAL, external_data=made, external_source=source)


def check_is_alone(model: Model) -> None:
    """Raises ExternalDataError if a model from a stream needs other files."""
    for where, tensor in walk.external_tensors(model):
        locations = [value for key, value in entries_of(tensor) if key == "location"]
        raise ExternalDataError(
            f"the model has external data in {(locations or [''])[0]!r:.80}, and a stream has no folder for that; give "
            "the path of the model",
            where=where,
        )
