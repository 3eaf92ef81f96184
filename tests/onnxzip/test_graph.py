"""A reader of archives visits a graph: it finds each external tensor, reads no weights, and keeps nothing."""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Iterator
from dataclasses import dataclass, field

import onnx
import pytest
from google.protobuf.message import DecodeError, Message
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto

from formats.errors import FormatError
from formats.onnxpb.wire import decoder
from formats.onnxpb.wire.varints import encode_varint
from formats.onnxzip.graph import ExternalTensor, visit_graph
from formats.tensordata.sources.source import Literal, Source
from tests.onnxpb.protos import Watched
from tests.onnxpb.wire import test_fields_in_source as attributes
from tests.onnxzip.archives import number, tag


def external(location: str) -> TensorProto:
    """Return a tensor with external data."""
    tensor = TensorProto(data_type=1, dims=[2, 3], data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value=location)
    return tensor


def model() -> onnx.ModelProto:
    """Return a model with tensors in all messages that can have one."""
    made = onnx.ModelProto()
    made.graph.initializer.extend([external("a"), TensorProto(data_type=1, raw_data=b"1234")])
    made.graph.sparse_initializer.add(values=external("b"), indices=external("c"))
    attribute = made.graph.node.add(op_type="If").attribute.add(name="then_branch")
    attribute.g.node.add().attribute.add(t=external("d"), tensors=[external("e")])
    attribute.graphs.add().initializer.append(external("f"))
    attribute.sparse_tensor.values.CopyFrom(external("g"))
    attribute.sparse_tensors.add().indices.CopyFrom(external("h"))
    made.training_info.add().algorithm.initializer.append(external("i"))
    function = made.functions.add()
    function.node.add().attribute.add(t=external("j"))
    function.attribute_proto.add(t=external("k"))
    return made


def tensors_of(part: Message) -> Iterator[TensorProto]:
    """Yield all tensors in a message of the official library."""
    if isinstance(part, TensorProto):
        yield part
    for row, value in part.ListFields():
        if row.message_type:
            for inner in [value] if isinstance(value, Message) else value:
                yield from tensors_of(inner)


def text(value: str | bytes) -> str:
    """Return a text of the official library, which has bytes where it is not UTF-8."""
    return value if isinstance(value, str) else value.decode("utf-8", "surrogateescape")


def found(data: bytes) -> list[ExternalTensor]:
    """Return the external tensors in the bytes of a model."""
    tensors: list[ExternalTensor] = []
    visit_graph(Literal(data), tensors.append)
    return tensors


def test_the_official_parser_finds_the_same_tensors() -> None:
    """In each damaged model that both read, and in two models one after another, all external tensors are the same."""
    rng = random.Random(4)
    data = model().SerializeToString()
    damaged = [data, data + data]
    for _ in range(1500):
        changed = bytearray(data)
        changed[rng.randrange(len(changed))] = rng.choice((0, 1, 8, 10, 16, 42, 50, 106, 112, 128, rng.randrange(256)))
        damaged.append(bytes(changed))
    compared = 0
    for changed_data in damaged:
        try:
            parsed, tensors = onnx.ModelProto.FromString(changed_data), found(changed_data)
        except (FormatError, DecodeError):
            continue
        expected = [
            ([(text(entry.key), text(entry.value)) for entry in tensor.external_data], tensor.data_type, [*tensor.dims])
            for tensor in tensors_of(parsed)
            if tensor.data_location == TensorProto.EXTERNAL
        ]
        assert sorted(expected) == sorted((places, data_type, dims) for places, data_type, dims, _ in tensors)
        compared += 1
    assert compared > 300


@dataclass
class Counted(Source):
    """Zeros between bytes, none of which are stored; the number of bytes that were read."""

    first: bytes
    nbytes: int
    reads: list[int] = field(default_factory=list)

    def readinto(self, offset: int, buffer: memoryview) -> None:
        """Copy a range."""
        self.reads.append(len(buffer))
        part = self.first[offset : offset + len(buffer)]
        buffer[:] = part + bytes(len(buffer) - len(part))


def test_weights_in_a_graph_are_not_read() -> None:
    """Of a tensor with 1 GiB of data in the graph, only the start is read, and that it has data is known."""
    nbytes = 1 << 30
    tensor = number(14, 1) + tag(9, 2) + encode_varint(nbytes)
    graph = tag(5, 2) + encode_varint(len(tensor) + nbytes) + tensor
    head = tag(7, 2) + encode_varint(len(graph) + nbytes) + graph
    tensors: list[ExternalTensor] = []
    source = Counted(head, len(head) + nbytes)
    assert visit_graph(source, tensors.append)
    assert [ExternalTensor([], 0, [], frozenset(("raw_data",)))] == tensors
    assert sum(source.reads) < 1 << 20


def test_a_visited_graph_is_not_kept() -> None:
    """The memory that a reader needs does not grow with the number of nodes and weights."""
    made = model()
    for index in range(2000):
        made.graph.node.add(op_type="Conv", name=str(index)).attribute.add(name="group", i=1, type=2)
        made.graph.initializer.append(external(str(index)))
    source = Literal(made.SerializeToString())
    visit_graph(source, lambda _: None)  # the tables
    tracemalloc.start()
    try:
        visit_graph(source, lambda _: None)
        _, peak_nbytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_nbytes < 50_000


def verdict(source: Source) -> list[ExternalTensor] | tuple[str | None, int | None]:
    """Return the external tensors in a model, or the requirement that its graph breaks, and where."""
    tensors: list[ExternalTensor] = []
    try:
        visit_graph(source, tensors.append)
    except FormatError as error:
        return error.requirement, error.file_offset
    return tensors


@settings(max_examples=60)
@given(
    attributes.attribute_bytes, st.one_of(attributes.broken, st.binary(max_size=6), st.just(b"")), st.integers(0, 2000)
)
def test_long_lists_are_skipped_as_if_each_element_were(lists: bytes, damage: bytes, more: int) -> None:
    """A graph with lists that no reader enters has the same verdict whether they are skipped one by one or together."""
    values = b"".join(bytes((attributes.INT,)) + encode_varint(value) for value in range(more)) + b"J\x03abc" * more
    attribute = lists + values + damage
    node = attributes.field(attributes.NODE, attributes.field(attributes.ATTRIBUTE, attribute))
    data = attributes.field(0x3A, node + attributes.field(0x2A, external("a").SerializeToString()))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decoder, "BULK_BYTES", 1 << 30)
        patch.setattr(decoder, "WHOLE_BYTES", 1 << 30)
        expected = verdict(Literal(data))
        patch.setattr(decoder, "BULK_BYTES", 0)
        assert expected == verdict(Literal(data))
        patch.setattr(decoder, "WHOLE_BYTES", 0)
        found_in_windows = verdict(Watched(data))
    assert expected == found_in_windows


def test_numbers_in_a_graph_are_skipped_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """A graph with very many numbers in an attribute is visited without a look at each of them."""
    numbers = onnx.helper.make_attribute("ints", [*range(100_000)])
    texts = onnx.helper.make_attribute("strings", [b"LEAF"] * 100_000)
    made = model()
    made.graph.node.add(op_type="Trees").attribute.extend([numbers, texts])
    looks: list[int] = []
    skip = decoder.skip_field

    def counted(data: bytes, position: int, tag: int, depth: int = 0) -> int:
        looks.append(position)
        return skip(data, position, tag, depth)

    monkeypatch.setattr(decoder, "skip_field", counted)
    assert len(found(made.SerializeToString())) == len(found(model().SerializeToString()))
    assert len(looks) < 1000
