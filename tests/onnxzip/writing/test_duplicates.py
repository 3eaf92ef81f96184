"""Equal weights are found by their bytes, and stored only once on request."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import formats
from formats import onnxzip
from formats.ir.model import Graph, Model, Tensor
from formats.onnxzip.options import ArchiveOptions
from formats.onnxzip.reading.reader import read_entries
from formats.onnxzip.writing.duplicates import Duplicates
from formats.tensordata.engine import to_bytes
from formats.tensordata.sources.source import Literal, Source, Transformed
from formats.tensordata.sources.transform import Transform

FLOAT, INT8 = 1, 3


class Counted(Literal):
    """Bytes that record how often they were read."""

    def __init__(self, data: bytes, reads: list[int]) -> None:
        super().__init__(data)
        object.__setattr__(self, "_reads", reads)

    def read(self, offset: int = 0, nbytes: int | None = None) -> bytes:
        """Record the call and read."""
        self._reads.append(len(self.data))  # type: ignore[attr-defined]
        return super().read(offset, nbytes)


def tensor(name: str, data: bytes, data_type: int = FLOAT) -> Tensor:
    """Return a tensor of one dimension."""
    width = 4 if data_type == FLOAT else 1
    return Tensor(name=name, data_type=data_type, dims=[len(data) // width], raw_data=Literal(data))


def pack(*tensors: Tensor, **options: Any) -> bytes:
    """Return an archive of tensors."""
    model = Model(ir_version=10, graph=Graph(initializer=list(tensors)))
    return to_bytes(onnxzip.CODEC.plan(model, Path("m.onnxz"), ArchiveOptions(**options)))


def test_the_first_of_equals_stands_for_all() -> None:
    """For several sources with equal bytes, the first of them is always returned."""
    one, two, other, three = (Literal(bytes(data)) for data in (b"abcd" * 9, b"abcd" * 9, b"abce" * 9, b"abcd" * 9))
    contents = Duplicates()
    assert [id(one), id(one), id(other), id(one)] == [id(contents.first(source)) for source in (one, two, other, three)]


def test_what_is_alone_in_its_size_is_not_read() -> None:
    """Sources are read only if another has the same size, and then only once."""
    reads: list[int] = []
    contents = Duplicates()
    for data in (b"a", b"bb", b"ccc", b"dd", b"ee"):
        contents.first(Counted(data, reads))
    assert [2, 2, 2] == reads


def test_dedup_stores_equal_weights_once() -> None:
    """With `dedup`, an archive has one entry for tensors with equal bytes of any type, and all are read correctly."""
    same, other = bytes(range(256)) * 8, bytes(2048)
    copies = [bytes(bytearray(same)) for _ in range(2)]
    tensors = [tensor("a", same), tensor("b", other), tensor("c", copies[0]), tensor("d", copies[1], INT8)]
    plain, short = pack(*tensors), pack(*tensors, dedup=True)
    assert ["a", "b", "c", "d", "__MODEL_PROTO"] == [entry.name for entry in read_entries(Literal(plain))]
    assert ["a", "b", "__MODEL_PROTO"] == [entry.name for entry in read_entries(Literal(short))]
    assert onnxzip.CODEC.read(Literal(plain), None) == onnxzip.CODEC.read(Literal(short), None)


def test_dedup_changes_nothing_without_equals() -> None:
    """If no two tensors are equal, the archive is the same with `dedup` and without."""
    tensors = [tensor(str(number), number.to_bytes(4, "little") * 300) for number in range(9)]
    assert pack(*tensors) == pack(*tensors, dedup=True)


@pytest.mark.parametrize("granule", [0, 4])
def test_transformed_sources_are_compared_by_what_they_give(granule: int) -> None:
    """Transformed sources are compared by their bytes after the transform, whether it works in pieces or not."""
    flip = Transform("flip", granule, granule, lambda data: memoryview(bytes(255 - byte for byte in data)))
    plain: Source = Literal(b"\xff" * 64)
    flipped = Transformed(Literal(bytes(64)), flip, 64)
    contents = Duplicates()
    assert contents.first(plain) is contents.first(flipped)


def test_command_stores_equal_weights_once(tmp_path: Path, command: Any) -> None:
    """`--dedup` makes an archive of a model with equal weights smaller; other formats refuse it."""
    formats.save(Model(graph=Graph(initializer=[tensor(name, bytes(4096)) for name in "ab"])), tmp_path / "m.onnx")
    sizes = {}
    for flags in ((), ("--dedup",)):
        assert 0 == command("m.onnx", "m.onnxz", "--force", *flags).returncode
        sizes[flags] = (tmp_path / "m.onnxz").stat().st_size
    assert sizes["--dedup",] < sizes[()] - 4096
    done = command("m.onnx", "n.onnx", "--dedup")
    assert (2, "convert: error: --dedup cannot be used for ONNX protobuf\n") == (done.returncode, done.stderr)
