"""The archive that the specification shows, byte by byte."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path

import pytest

from formats import onnxzip
from formats.errors import FormatError
from formats.tensordata.source import Literal

GOLDEN = Path(__file__).with_name("golden")
SMALL = GOLDEN / "small.onnxz"
VECTORS = GOLDEN / "vectors.json"
SPECIFICATION = Path(__file__).parents[2] / "docs" / "onnxz.md"


def test_writer_makes_the_golden_archive() -> None:
    """The script beside the golden archive makes the same bytes today."""
    assert SMALL.read_bytes() == runpy.run_path(str(GOLDEN / "make.py"))["archive"]()


def test_reader_gives_the_golden_model() -> None:
    """The golden archive holds the model that its script made."""
    assert runpy.run_path(str(GOLDEN / "make.py"))["model"]() == onnxzip.read(Literal(SMALL.read_bytes()), None)


def test_specification_shows_the_golden_archive() -> None:
    """The example of the specification is the golden archive, every byte at the offset that it says."""
    example = re.search(r"```hex\n(.*?)```", SPECIFICATION.read_text(encoding="utf-8"), re.DOTALL)
    assert example is not None
    shown = bytearray()
    for line in example[1].splitlines():
        offset, octets = line[:4], line[6:53]
        assert int(offset, 16) == len(shown)
        shown += bytes.fromhex(octets)
    assert SMALL.read_bytes() == shown


def test_vectors_are_those_of_the_reader() -> None:
    """The script beside the vectors makes the same ones today."""
    assert VECTORS.read_text(encoding="utf-8") == runpy.run_path(str(GOLDEN / "vectors.py"))["vectors"]()


def test_vectors_are_taken_or_refused() -> None:
    """Each vector is refused for its reason, and what is closest to it taken."""
    vectors = json.loads(VECTORS.read_text(encoding="utf-8"))
    assert len(vectors) > 50
    for vector in vectors:
        with pytest.raises(FormatError, match=vector["reason"]):
            onnxzip.read(Literal(bytes.fromhex(vector["refused"])), None)
        assert onnxzip.read(Literal(bytes.fromhex(vector["taken"])), None).graph is not None
