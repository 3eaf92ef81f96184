"""Tests of the storage of a tensor's elements, compared with `onnx.numpy_helper`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from formats.errors import TensorDataError
from formats.ir import dtypes
from formats.ir.model import StringStringEntry, Tensor, TensorSegment
from formats.ir.storage import (
    entries_of,
    external_places,
    from_numpy,
    location_of,
    moved_entries,
    with_raw_data,
    with_reference,
    without_data,
)
from formats.onnxpb.wire.decoder import decode
from formats.onnxpb.wire.encoder import encode
from formats.tensordata.sources.source import Literal, Source

NUMBERS = [row.number for row in dtypes.DATA_TYPES if row.name != "STRING"]
SHAPES = [(), (1,), (7,), (2, 3), (0, 3)]


def encoded(tensor: Tensor) -> bytes:
    """Return a tensor in bytes."""
    return b"".join(segment for segment in encode(tensor) if isinstance(segment, bytes))


def sample(number: int, shape: tuple[int, ...]) -> Any:
    """Return fixed elements that use all bits of the type."""
    row = dtypes.BY_NUMBER[number]
    count = int(np.prod(shape, dtype=int))
    dtype = dtypes.numpy_dtype(number)
    random = np.random.default_rng(number)
    if row.name == "BOOL":
        return random.integers(0, 2, count).astype(bool).reshape(shape)
    raw = random.integers(0, 256, count * dtype.itemsize, dtype=np.uint8)
    if row.bits < 8:
        raw &= (1 << row.bits) - 1
    return raw.view(dtype).reshape(shape)


def bits(array: Any) -> bytes:
    """Return the elements in a form that compares NaN by its bits."""
    return np.ascontiguousarray(array).tobytes()


def ours(proto: onnx.TensorProto) -> Tensor:
    """Return the same tensor in the IR."""
    return decode(Literal(proto.SerializeToString()), Tensor)


def test_rows_agree_with_onnx() -> None:
    """Every element type of onnx has its row, with the same numpy type and typed field."""
    names = dict(onnx.TensorProto.DataType.items())
    assert names == {"UNDEFINED": 0} | {row.name: row.number for row in dtypes.DATA_TYPES}
    for row in dtypes.DATA_TYPES:
        assert onnx.helper.tensor_dtype_to_np_dtype(row.number) == dtypes.numpy_dtype(row.number)
        assert onnx.helper.tensor_dtype_to_field(row.number) == row.field


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("number", NUMBERS)
def test_raw_data(number: int, shape: tuple[int, ...]) -> None:
    """Raw data of every type are read and made as in onnx."""
    array = sample(number, shape)
    proto = numpy_helper.from_array(array, "t")
    assert bits(numpy_helper.to_array(proto)) == bits(ours(proto).numpy())
    mine = from_numpy(array, "t")
    assert proto.SerializeToString() == b"".join(p.read() if isinstance(p, Source) else p for p in encode(mine))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("number", NUMBERS)
def test_typed_fields(number: int, shape: tuple[int, ...]) -> None:
    """Elements in a typed field are read as in onnx."""
    row = dtypes.BY_NUMBER[number]
    array = sample(number, shape)
    proto = onnx.TensorProto(data_type=number, dims=shape, name="t")
    flat = array.reshape(-1)
    if row.name.startswith("COMPLEX"):
        proto_values = flat.view(np.float32 if number == 14 else np.float64)
    elif row.field in ("float_data", "double_data"):
        proto_values = flat
    elif row.bits in (2, 4):
        proto_values = np.frombuffer(from_numpy(array).source().read(), np.uint8)
    elif row.name in ("FLOAT16", "BFLOAT16") or (row.bits < 9 and row.name not in ("INT8", "UINT8")):
        proto_values = flat.view(np.uint16 if row.bits == 16 else np.uint8)
    else:
        proto_values = flat
    getattr(proto, row.field).extend(proto_values.tolist())
    tensor = ours(proto)
    assert bits(numpy_helper.to_array(proto)) == bits(tensor.numpy())
    assert row.nbytes(shape) == tensor.source().nbytes


@pytest.mark.parametrize(("dims", "number"), [([3], 7), ([1 << 40], 3), ([2, 3], 10), ([9], 22), ([5], 28)])
def test_typed_fields_have_an_entry_for_each_element(dims: list[int], number: int) -> None:
    """Dims that need more integers than there are bytes are refused before memory is allocated for them."""
    row = dtypes.BY_NUMBER[number]
    tensor = Tensor(name="t", dims=dims, data_type=number, **{row.field: Literal(b"\1\2")})
    with pytest.raises(TensorDataError, match=rf"found 2 bytes of {row.field} for \d+ integers, which dims \["):
        tensor.source()


@pytest.mark.parametrize("dims", [[1 << 40, 1 << 40, 0], [1] * 100])
def test_dims_beyond_those_of_numpy(dims: list[int]) -> None:
    """Dims that numpy does not support are one of our errors."""
    with pytest.raises(TensorDataError, match="tensor 't' cannot become a numpy array"):
        Tensor(name="t", dims=dims, data_type=2, raw_data=Literal(bytes(0 not in dims))).numpy()


def test_strings() -> None:
    """Strings become an object array of str, and are written back as bytes."""
    proto = onnx.helper.make_tensor("t", onnx.TensorProto.STRING, [2], [b"a", "ü".encode()])
    array = ours(proto).numpy()
    assert ["a", "ü"] == array.tolist()
    assert [b"a", "ü".encode()] == from_numpy(array).string_data


def test_strings_that_are_not_utf8_are_refused() -> None:
    """A string tensor that is not UTF-8 has no array."""
    with pytest.raises(TensorDataError):
        Tensor(dims=[1], data_type=8, string_data=[b"\xff"]).numpy()


def test_arrays_are_read_only_views() -> None:
    """An array of raw data uses the bytes themselves, and cannot be written to."""
    data = bytes(range(16))
    array = Tensor(dims=[4], data_type=1, raw_data=Literal(data)).numpy()
    assert np.shares_memory(array, np.frombuffer(data, np.uint8))
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 1


def test_foreign_layouts_are_stored_in_order() -> None:
    """Transposed, strided and big-endian arrays become row-major little-endian data."""
    array = np.arange(12, dtype=">i4").reshape(3, 4).T[::2]
    assert np.array_equal(array, from_numpy(array).numpy())


@pytest.mark.parametrize(
    "tensor",
    [
        Tensor(dims=[2], data_type=1, raw_data=Literal(bytes(7))),
        Tensor(dims=[2], data_type=1),
        Tensor(dims=[-1], data_type=1, raw_data=Literal(b"")),
        Tensor(dims=[1], data_type=99, raw_data=Literal(b"a")),
        Tensor(dims=[1], raw_data=Literal(b"a")),
        Tensor(dims=[1], data_type=1, raw_data=Literal(bytes(4)), segment=TensorSegment(0, 1)),
        Tensor(dims=[1], data_type=1, data_location=1),
        Tensor(dims=[1], data_type=8, string_data=[b"a", b"b"]),
        Tensor(dims=[2], data_type=6, int32_data=Literal(b"\x01")),
        Tensor(dims=[1], data_type=6, int32_data=Literal(b"\x01\x02")),
        Tensor(dims=[1 << 40, 1 << 40], data_type=1, raw_data=Literal(b"")),
    ],
)
def test_data_that_do_not_fit_are_refused(tensor: Tensor) -> None:
    """Missing, short, long or impossible data raise a TensorDataError when they are read."""
    with pytest.raises(TensorDataError):
        tensor.numpy()


def test_unknown_numpy_types_are_refused() -> None:
    """An array whose type ONNX lacks is refused."""
    with pytest.raises(TensorDataError, match="datetime64"):
        from_numpy(np.zeros(2, "datetime64[s]"))


@pytest.mark.parametrize("values", [[1, None], ["a", 1], [b"a", np.zeros(2)]])
def test_objects_that_are_no_texts_are_refused(values: list[object]) -> None:
    """An array of objects is a tensor of strings only if all of them are texts or bytes."""
    array = np.empty(len(values), object)
    array[:] = values
    with pytest.raises(TensorDataError, match=r"can hold only texts and bytes, but element \d is"):
        from_numpy(array)


def test_raw_data_replaces_any_other_form() -> None:
    """A tensor that gets raw data loses all other data, and keeps its name."""
    tensor = Tensor(dims=[1], data_type=1, name="t", float_data=Literal(bytes(4)), data_location=1)
    assert Tensor(dims=[1], data_type=1, name="t", raw_data=Literal(b"abcd")) == with_raw_data(tensor, Literal(b"abcd"))


def test_a_reference_replaces_any_form() -> None:
    """A tensor that refers to a data file has no other data; of two entries with the same key, the last one counts."""
    tensor = Tensor(dims=[1], data_type=1, name="t", float_data=Literal(bytes(4)))
    made = with_reference(tensor, {"location": "a", "offset": "0"}, Literal(b"abcd"))
    assert (None, b"abcd") == (made.float_data, made.source().read())
    assert {"location": "a", "offset": "0"} == external_places(made)
    made.external_data.append(StringStringEntry("offset", "8"))
    assert {"location": "a", "offset": "8"} == external_places(made)


def test_other_forms_lose_references() -> None:
    """A reference is gone when the elements have another form; metadata stay."""
    entries = [StringStringEntry("location", "w.bin"), StringStringEntry("offset", "8"), StringStringEntry("location")]
    given = Tensor(name="t", external_data=entries, data_location=1)
    for tensor in (given, decode(Literal(encoded(given)), Tensor)):
        assert [("location", "w.bin"), ("offset", "8"), ("location", None)] == entries_of(tensor)
        assert location_of(tensor) == "w.bin"
        assert Tensor(name="t", raw_data=Literal(b"abcd")) == with_raw_data(tensor, Literal(b"abcd"))
        assert {"location": "a"} == external_places(with_reference(tensor, {"location": "a"}))
    given.external_data.pop()
    given.metadata_props.append(StringStringEntry("k", "v"))
    tensor = decode(Literal(encoded(given)), Tensor)
    assert Tensor(name="t", metadata_props=given.metadata_props) == without_data(tensor)
    assert location_of(tensor) == "w.bin"


@pytest.mark.parametrize("location", ["new.bin", "ö.bin", "d/" + "n" * 200, "n" * 20000])
def test_locations_change(location: str) -> None:
    """Entries have another location; other entries, and the tensor that they were copied from, do not change."""
    entries = [StringStringEntry("location", "w.bin"), StringStringEntry("offset", "8")]
    given = Tensor(name="t", external_data=entries, data_location=1)
    for tensor in (given, decode(Literal(encoded(given)), Tensor)):
        assert tensor.external_data == moved_entries(tensor, {"other": location}.get)
        copy = replace(tensor, external_data=moved_entries(tensor, {"w.bin": location}.get))
        assert {"location": location, "offset": "8"} == external_places(copy)
        assert copy == decode(Literal(encoded(copy)), Tensor)
        assert {"location": "w.bin", "offset": "8"} == external_places(tensor)


def test_bfloat16_is_that_of_ml_dtypes() -> None:
    """Types that numpy lacks are those of ml_dtypes."""
    assert ml_dtypes.bfloat16 == Tensor(dims=[1], data_type=16, raw_data=Literal(bytes(2))).numpy().dtype


def test_a_product_of_many_dims_takes_no_time() -> None:
    """Dims whose product has a million bits are refused at once, with a short message."""
    tensor = Tensor(dims=[(1 << 62) + 1] * 100_000, data_type=1, raw_data=Literal(bytes(4)))
    with pytest.raises(TensorDataError) as caught:
        tensor.source()
    assert len(str(caught.value)) < 500


def test_no_elements_where_one_dim_is_zero() -> None:
    """If one dim is zero, the tensor is empty, however large the others are."""
    assert 0 == dtypes.count([1 << 62] * 1000 + [0])
    assert 6 == dtypes.count([1, 2, 3])
    assert 1 == dtypes.count([])


def test_two_places_for_the_same_elements() -> None:
    """A tensor with raw data and external data is refused, because it is not clear which of them count."""
    tensor = Tensor(dims=[4], data_type=3, data_location=1, external_source=Literal(b"abcd"))
    assert b"abcd" == tensor.source().read()
    tensor.raw_data = Literal(b"efgh")
    with pytest.raises(TensorDataError, match="raw data and external data"):
        tensor.source()
    tensor.data_location = None
    assert b"efgh" == tensor.source().read()
