"""Time and memory are proportional to the file, with factors for the worst small files; counted, not timed.

The number of function calls represents time. For each file, the calls and the peak of memory are counted at two sizes:
they must be proportional to the file, and below the factors in the table of `docs/security.md`.
"""

from __future__ import annotations

import re
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import pytest

import formats
from formats.errors import FormatError
from formats.ir import walk

SMALL, LARGE = 1 << 11, 1 << 13
GROWTH = 1.5  # of calls and of memory per byte, from the small file to the large one


def varint(number: int) -> bytes:
    """Return a protobuf varint."""
    data = bytearray()
    while number > 127:
        data.append(number & 127 | 128)
        number >>= 7
    return bytes([*data, number])


def held(field: int, data: bytes = b"") -> bytes:
    """Return a field with a length."""
    return varint(field << 3 | 2) + varint(len(data)) + data


def number(field: int, value: int) -> bytes:
    """Return a field with a number."""
    return varint(field << 3) + varint(value)


def filled(piece: bytes, nbytes: int) -> bytes:
    """Return as many pieces as fit."""
    return piece * (nbytes // len(piece))


def graph(body: bytes) -> bytes:
    """Return a model with this graph."""
    return number(1, 8) + held(8, number(2, 17)) + held(7, body)


def deep(body: bytes, levels: int = 30) -> bytes:
    """Return a node with nested graphs, with `body` in the innermost."""
    for _ in range(levels):
        body = held(1, held(5, held(1, b"b") + held(6, body)))
    return body


def long_name(body: bytes, nbytes: int) -> bytes:
    """Return a graph in an attribute with a long name."""
    return held(1, held(5, held(1, b"n" * nbytes) + held(6, body)))


def branches(depth: int, body: bytes = b"") -> bytes:
    """Return an If in an If, and so on."""
    for _ in range(depth):
        body = held(1, held(4, b"If") + held(5, held(1, b"then_branch") + held(6, body)))
    return body


WORST: dict[str, Callable[[int], bytes]] = {
    "empty nodes": lambda n: graph(filled(held(1), n)),
    "nodes that use what nothing makes": lambda n: graph(filled(held(1, held(1, b"q")), n)),
    "empty attributes": lambda n: graph(held(1, filled(held(5), n))),
    "attributes with a name": lambda n: graph(held(1, filled(held(5, held(1, b"a")), n))),
    "attributes with an empty tensor": lambda n: graph(held(1, filled(held(5, held(5)), n))),
    "attributes with an empty graph": lambda n: graph(held(1, filled(held(5, held(6)), n))),
    "empty graphs of one attribute": lambda n: graph(held(1, held(5, filled(held(11), n)))),
    "empty tensors": lambda n: graph(filled(held(5), n)),
    "empty tensors of one attribute": lambda n: graph(held(1, held(5, filled(held(10), n)))),
    "empty values": lambda n: graph(filled(held(13), n)),
    "empty dims": lambda n: graph(held(11, held(2, held(1, held(2, filled(held(1), n)))))),
    "dims of a tensor": lambda n: graph(held(5, number(2, 1) + held(1, b"\2" * n))),
    "large dims of a tensor": lambda n: graph(held(5, number(2, 1) + held(1, filled(varint((1 << 63) - 1), n)))),
    "numbers in varints": lambda n: graph(held(5, number(2, 7) + number(1, n) + held(7, b"\1" * n))),
    "strings": lambda n: graph(held(5, number(2, 8) + number(1, n // 2) + filled(held(6), n))),
    "entries of external data": lambda n: graph(held(5, number(14, 1) + filled(held(13), n))),
    "empty functions": lambda n: graph(b"") + filled(held(25), n),
    "unknown fields": lambda n: graph(b"") + filled(number(100, 1), n),
    "unknown fields between nodes": lambda n: graph(filled(number(100, 1) + held(1), n)),
    "pieces of one graph": lambda n: number(1, 8) + filled(held(7, held(1)), n),
    "nodes far down": lambda n: graph(deep(filled(held(1, held(1, b"v")), n))),
    "tensors far down": lambda n: graph(deep(filled(held(5), n))),
    "tensors below a long name": lambda n: graph(long_name(filled(held(5), n // 2), n // 2)),
    "nodes below a long name": lambda n: graph(long_name(filled(held(1, held(1, b"q")), n // 2), n // 2)),
    "uses in a node of a long type": lambda n: graph(held(1, held(4, b"n" * (n // 2)) + filled(held(1, b"q"), n // 2))),
    "graphs in graphs": lambda n: graph(filled(branches(14), n)),
    "one graph far down": lambda n: graph(branches(14, filled(held(1, held(4, b"Relu")), n))),
    "types in types": lambda n: graph(filled(held(13, held(2, held(4, held(1, held(4, held(1)))))), n)),
}
TEXTS: dict[str, Callable[[int], str]] = {
    "textproto: nodes": lambda n: "graph{" + "node{}" * (n // 6) + "}",
    "textproto: digits": lambda n: "ir_version:" + "0" * n,
    "textproto: dims": lambda n: "graph{initializer{data_type:1 dims:[" + "1," * (n // 2) + "1]}}",
    "textproto: open messages": lambda n: "graph{" * (n // 6),
    "textproto: escapes": lambda n: 'producer_name:"' + "\\x41" * (n // 4) + '"',
    "json: nodes": lambda n: '{"graph":{"node":[' + "{}," * (n // 3) + "{}]}}",
    "json: digits": lambda n: '{"irVersion":' + "9" * n + "}",
    "json: dims": lambda n: '{"graph":{"initializer":[{"dataType":1,"dims":[' + "1," * (n // 2) + "1]}]}}",
    "json: lists": lambda n: "[" * n,
}
FILES = {**{name: ("onnx", make) for name, make in WORST.items()}} | {
    name: (name.partition(":")[0], lambda n, make=make: make(n).encode()) for name, make in TEXTS.items()
}


def read_all(path: Path) -> None:
    """Read the model, and its weights as arrays."""
    for _, tensor in walk.tensors(formats.load(path)):
        try:
            tensor.numpy()
        except FormatError:
            pass


MAIN_USE = "read"  # the inner ring has this one with all files, and an eighth of the others
USES: dict[str, Callable[[Path], Any]] = {
    MAIN_USE: read_all,
    "verify": lambda path: formats.verify(path, data=True),
    "inspect": formats.inspect,
    "diff": lambda path: formats.diff(path, path),
    "convert": lambda path: formats.convert(path, path.with_name("out.onnxz"), overwrite=True),
    "json": lambda path: formats.convert(path, path.with_name("out.json"), overwrite=True),
    "textproto": lambda path: formats.convert(path, path.with_name("out.textproto"), overwrite=True),
    "rten": lambda path: formats.convert(path, path.with_name("out.rten"), overwrite=True),
    "ort": lambda path: formats.convert(path, path.with_name("out.ort"), overwrite=True),
}


class Work(NamedTuple):
    """The cost of a use per byte of the file."""

    calls: float
    memory: float


def work(use: Callable[[Path], Any], path: Path) -> Work:
    """Return the calls of Python functions, and the peak of memory in bytes, per byte of the file."""
    calls = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    def run() -> None:
        try:
            use(path)
        except FormatError:
            pass

    run()  # imports and caches do not count
    sys.setprofile(count)
    try:
        run()
    finally:
        sys.setprofile(None)
    tracemalloc.start()
    try:
        run()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    return Work(calls / path.stat().st_size, peak / path.stat().st_size)


def factors() -> dict[str, Work]:
    """Return the factors that the document promises, by use."""
    text = (Path(__file__).parents[1] / "docs" / "security.md").read_text(encoding="utf-8")
    section = text.partition("### Limits")[2]
    rows = re.findall(r"^\| (\w+) \| (\d+) \| (\d+) \|", section, re.MULTILINE)
    return {name: Work(float(calls), float(memory)) for name, calls, memory in rows}


@pytest.mark.sample(5)
@pytest.mark.parametrize(
    ("use", "name"),
    [
        pytest.param(use, name, marks=[pytest.mark.outer] if use != MAIN_USE and (row + column) % 8 else [])
        for row, use in enumerate(USES)
        for column, name in enumerate(FILES)
    ],
)
def test_work_is_in_proportion_to_the_file(use: str, name: str, tmp_path: Path) -> None:
    """A file of four times the size needs four times the work, and no byte costs more than the document says."""
    form, make = FILES[name]
    small, large = tmp_path / f"small.{form}", tmp_path / f"large.{form}"
    small.write_bytes(make(SMALL))
    large.write_bytes(make(LARGE))
    first, second = work(USES[use], small), work(USES[use], large)
    most = factors()[use]
    assert second.calls <= max(GROWTH * first.calls, 1)
    assert second.memory <= max(GROWTH * first.memory, 20)
    assert (second.calls <= most.calls, second.memory <= most.memory) == (True, True), second
