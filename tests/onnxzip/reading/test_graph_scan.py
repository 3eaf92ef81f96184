"""Parts of a graph that are skipped quickly are accepted or refused as if each field were examined."""

from __future__ import annotations

import random
from typing import Any
from unittest import mock

from hypothesis import example, given
from hypothesis import strategies as st

from formats.errors import FormatError
from formats.onnxpb.wire.varints import encode_varint
from formats.onnxzip.reading import forms, graph_scan
from formats.onnxzip.reading.graph import ExternalTensor
from formats.onnxzip.reading.forms import Forms
from formats.tensordata.sources.source import Literal


def field(tag: int, payload: bytes) -> bytes:
    """Return a field with a length."""
    return encode_varint(tag) + encode_varint(len(payload)) + payload


NAMES = [field(0x42, b"n" * size) for size in (0, 5, 127, 128, 300, 20_000)]
DATA = [field(0x4A, bytes(size)) for size in (0, 4, 129)] + [field(0x22, bytes(8)), field(0x0A, b"\x01\xff")]
NUMBERS = [b"\x08\x03", b"\x08\x83\x00", b"\x10\x01", b"\x10\x81\x00", b"\x70\x00", b"\x70\x01"]
EXTERNAL = [field(0x6A, b"\x0a\x08location\x12\x01w"), b"\x70\x01"]
BROKEN = [b"\x42", b"\x42\x05a", b"\x42\x85", b"\x42\x85\x80\x80", b"\x08", b"\x08\x80", b"\x07", b"\x1b", b"\x00\x00"]
FIELDS = st.lists(st.sampled_from([*NAMES, *DATA, *NUMBERS, *EXTERNAL, *BROKEN]), max_size=5).map(b"".join)


def seen(model: bytes) -> Any:
    """Return the external tensors that a reader of archives finds, or the reason why it refuses the graph."""
    found: list[ExternalTensor] = []
    try:
        graph_scan.scan(Literal(model), found.append)
    except FormatError as error:
        return type(error), error.message, error.requirement, error.file_offset
    return found


NAMES_OF_NODES = [field(tag, b"n" * size) for tag in (0x0A, 0x12, 0x1A) for size in (0, 1, 5, 127, 128)]
WEIGHT = field(0x6A, b"\x0a\x08location\x12\x01w") + b"\x70\x01"
ATTRIBUTES = [
    field(0x2A, field(0x0A, b"a") + rest) for rest in (b"", b"\x18\x07", field(0x2A, WEIGHT), field(0x2A, b"\x08"))
]
TYPES = [field(0x22, name) for name in (b"Constant", b"If", b"")]
NODES = st.lists(st.sampled_from([*NAMES_OF_NODES, *ATTRIBUTES, *TYPES, b"\x0a", b"\x0a\x05a", b"\x07"]), max_size=6)


@given(st.lists(NODES.map(b"".join), max_size=6), st.sampled_from((b"", b"\x12\x01g")))
@example([b"\x0a\x01\x03\x12\x01n" + ATTRIBUTES[0], b"\x0a\x03\x0a\x01n" + ATTRIBUTES[0]], b"")
def test_nodes_passed_over(nodes: list[bytes], behind: bytes) -> None:
    """Skipping a node that ends like an earlier one has the same result as reading it; each is read only once."""
    model = field(0x3A, b"".join(field(0x0A, node) for node in nodes) + behind)
    at_once = seen(model)
    with mock.patch.object(graph_scan, "_MAX_NODES", 0):
        assert seen(model) == at_once


def test_equal_nodes_are_read_once() -> None:
    """Of nodes that differ only in names, of whatever length, one is read."""
    sizes = (0, 1, 5, 60, 127)
    nodes = [field(0x0A, b"n" * size) + field(0x12, b"m" * size) + TYPES[0] + ATTRIBUTES[1] for size in sizes]
    model = field(0x3A, b"".join(field(0x0A, node) for node in nodes))
    read: list[int] = []
    fields = graph_scan._Scanner.fields

    def counted(scan: Any, message: Any, *rest: Any) -> Any:
        read.extend([1] * (message is graph_scan._NODE))
        return fields(scan, message, *rest)

    with mock.patch.object(graph_scan._Scanner, "fields", counted):
        assert [] == seen(model)
    assert 1 == len(read)


@given(st.lists(FIELDS, max_size=4), st.sampled_from((b"", b"\x12\x01g")))
@example([b"\x42\x05a"], b"\x12\x01g")  # a name reaches into the next field
def test_tensors_passed_over_at_once(tensors: list[bytes], behind: bytes) -> None:
    """Skipping a whole tensor has the same result as examining each of its fields."""
    model = field(0x3A, b"".join(field(0x2A, tensor) for tensor in tensors) + behind)
    at_once = seen(model)
    with mock.patch.object(graph_scan, "_is_plain_tensor", lambda *_: False):
        assert seen(model) == at_once


PLAIN = [
    b"".join(parts) for parts in ((NUMBERS[0], NAMES[1]), (NUMBERS[0], NUMBERS[2], NAMES[2], DATA[1]), (NAMES[1],))
]
TENSORS = st.sampled_from(PLAIN) | FIELDS


@given(
    st.lists(st.tuples(st.just(0x0A), NODES.map(b"".join)) | st.tuples(st.just(0x2A), TENSORS), max_size=9),
    st.integers(1, 4),
    st.sampled_from((b"", b"\x12\x01g", *EXTERNAL, *BROKEN)),
)
def test_known_forms_change_no_verdict(parts: list[tuple[int, bytes]], times: int, behind: bytes) -> None:
    """A reader that learns the form of each message finds the same as one that learns none."""
    model = field(0x3A, b"".join(field(tag, payload) * times for tag, payload in parts) + behind)
    with mock.patch.object(forms, "SAMPLE", 1 << 20):
        one_by_one = seen(model)
    with mock.patch.object(forms, "SAMPLE", 1):
        assert seen(model) == one_by_one


def test_changes_in_runs_are_found() -> None:
    """A changed byte in one of many nodes and tensors of known forms has the same effect as without forms."""
    nodes = [field(0x0A, b"\x0a\x04x%03d\x12\x04y%03d\x22\x04Relu" % (n, n)) for n in range(100)]
    tensors = [field(0x2A, b"\x08\x01\x10\x01\x42\x04w%03d\x4a\x04abcd" % n) for n in range(100)]
    graph = b"".join(nodes + tensors)
    rng = random.Random(5)
    errors = 0
    for _ in range(300):
        changed = bytearray(graph)
        changed[rng.randrange(len(changed))] = rng.choice((0, 1, 8, 10, 13, 42, 106, 112, 127, 128, 255))
        model = field(0x3A, bytes(changed))
        with mock.patch.object(forms, "SAMPLE", 1 << 20):
            one_by_one = seen(model)
        with mock.patch.object(forms, "SAMPLE", 2):
            assert seen(model) == one_by_one
        errors += isinstance(one_by_one, tuple)
    assert 30 < errors < 270


def test_a_large_graph_takes_few_steps() -> None:
    """Of many nodes whose names differ, only a few are looked at one by one."""
    nodes = b"".join(field(0x0A, b"\x0a\x05x%04d\x12\x05y%04d\x22\x04Relu" % (n, n)) for n in range(9000))
    with mock.patch.object(Forms, "end_of_run", autospec=True, side_effect=Forms.end_of_run) as run:
        seen(field(0x3A, nodes))
    assert run.call_count < 3 * forms.SAMPLE
