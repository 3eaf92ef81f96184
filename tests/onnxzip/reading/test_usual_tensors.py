"""Tensors that are recognised by their bytes: whatever differs is judged field by field, with the same result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from archives import EXTERNAL, around, external, message, model, number, of_graph, tensor
from vector_rows.the_graph import attribute

from formats import onnxzip
from formats.codecs.contract import ReadOptions
from formats.errors import FormatError
from formats.onnxzip.reading.contents import read_contents
from formats.onnxzip.reading.usual_tensors import UsualTensors
from formats.tensordata.sources.source import Literal

USUAL = tensor(places=external(location="w", offset="0", length="8"))


def verdicts(graph: bytes, max_depth: int = 100) -> list[Any]:
    """Return what the reader and the check of archives say of one with this graph."""
    source = Literal(around(graph).bytes())
    reads: tuple[Callable[[], object], ...] = (
        lambda: onnxzip.read(source, None, ReadOptions(max_depth=max_depth)),
        lambda: onnxzip.check(source),
    )
    found: list[Any] = []
    for read in reads:
        try:
            found.append(read())
        except FormatError as error:
            found.append((str(error), error.requirement))
    return found


def of_fields(graph: bytes, monkeypatch: pytest.MonkeyPatch, max_depth: int = 100) -> list[Any]:
    """Return the same without the short way."""
    with monkeypatch.context() as patch:
        patch.setattr(UsualTensors, "found", lambda *_: None)
        return verdicts(graph, max_depth)


def test_usual_tensor_is_recognised() -> None:
    """A tensor as our writer writes it is recognised; its entry is used then."""
    source = Literal(around(model(USUAL)).bytes())
    unused = {"w": None, "other": None}
    usual = UsualTensors(read_contents(source).tensors, source, unused)
    fields = usual.fields(b"?" + USUAL + b"?", 1, len(USUAL) + 1)
    assert fields is not None
    assert (fields["dims"], fields["data_type"], fields["name"]) == ([8], 2, "w")
    assert ["other"] == list(unused)
    assert fields["dims"] is not (usual.fields(USUAL, 0, len(USUAL)) or {})["dims"]


def test_every_change_of_a_byte_has_the_same_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever byte of a usual tensor is changed, removed or repeated, the verdict is that of reading its fields."""
    assert verdicts(model(USUAL)) == of_fields(model(USUAL), monkeypatch)
    for position in range(len(USUAL)):
        before, byte, after = USUAL[:position], USUAL[position], USUAL[position + 1 :]
        for new in (bytes((byte ^ 1,)), bytes((byte ^ 0x80,)), b"B", b"", bytes((byte, byte))):
            graph = model(before + new + after)
            assert verdicts(graph) == of_fields(graph, monkeypatch)


@pytest.mark.parametrize(
    "graph",
    [
        model(USUAL, USUAL),
        model(USUAL + number(14, 0)),
        model(number(1, 66) + USUAL),
        model(tensor(dims=(66,), places=external(location="w", offset="0", length="66"))),
        model(tensor(dims=(2, 4), places=external(location="w", offset="0", length="8"))),
        model(tensor(dims=(-8,), places=external(location="w", offset="0", length="8"))),
        model(tensor(data_type=None, places=external(location="w", offset="0", length="8"))),
        model(tensor(data_type=8, places=external(location="w", offset="0", length="8"))),
        model(tensor(places=external(location="w" * 130, offset="0", length="8"))),
        of_graph(message(1, attribute(message(5, USUAL)))),
        of_graph(message(1, attribute(message(5, USUAL), message(5, external(location="w"))))),
        of_graph(message(1, attribute(message(5, USUAL), message(5, message(12, b"documented"))))),
        of_graph(message(15, message(1, USUAL), message(1, EXTERNAL))),
        of_graph(message(15, message(1, USUAL), message(2, USUAL))),
    ],
)
def test_other_tensors_have_the_same_verdict(graph: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tensors that are similar to usual ones, come in parts, or are elsewhere, have the verdict of reading fields."""
    assert verdicts(graph) == of_fields(graph, monkeypatch)


@pytest.mark.parametrize("max_depth", range(1, 6))
def test_depth_is_limited(max_depth: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit on nested messages counts the external data of a usual tensor, too."""
    graph = model(USUAL)
    assert verdicts(graph, max_depth) == of_fields(graph, monkeypatch, max_depth)
