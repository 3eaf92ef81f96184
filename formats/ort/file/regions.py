"""What an .ort file says about its own bytes, and which releases of onnxruntime read it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from formats.codecs.contract import Region
from formats.ort.file.buffers import READ_BYTES, place_in, root_place, text_at

if TYPE_CHECKING:
    from collections.abc import Iterator

    from formats.tensordata.sources.source import Source

HEADER_NBYTES: Final = 8  # the offset of the root, and the mark of the format
# The first known release that reads a version of the format; the older releases that some have are not known here.
FIRST_RELEASE: Final = {"6": "1.16"}
OLDEST: Final = "1.15"


def regions_of(source: Source) -> Iterator[Region]:
    """The beginning of the file in `source`, and the tables with the graph, between which the weights are."""
    yield Region(0, HEADER_NBYTES, "header", "offset of the first table")
    yield Region(HEADER_NBYTES, source.nbytes - HEADER_NBYTES, "model", "tables of the graph")


def first_release(source: Source) -> str:
    """The first known release of onnxruntime that reads the file in `source`, whose model has been read."""
    data = memoryview(source.read() if source.nbytes <= READ_BYTES else source.view())
    place = place_in(data, root_place(data), "InferenceSession", "ort_version")
    return FIRST_RELEASE.get(text_at(data, place), OLDEST)
