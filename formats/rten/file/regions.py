"""What a .rten file says about its own bytes: its sections, and the hash of its source file.

Spec: RTen, rten-model-file: the header, schema.fbs `Metadata.onnx_hash`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from formats.codecs.contract import Checksum, Region
from formats.rten.file.header import HEADER_NBYTES, decode_header, is_v2
from formats.rten.options import HASH_KEY

if TYPE_CHECKING:
    from collections.abc import Iterator

    from formats.ir.model import Model
    from formats.tensordata.sources.source import Source


def regions_of(source: Source) -> Iterator[Region]:
    """The header and the model of the file in `source`; a version 1 file has no header."""
    head = source.read(0, min(HEADER_NBYTES, source.nbytes))
    if not is_v2(head):
        yield Region(0, source.nbytes, "model", "model")
        return
    header = decode_header(head, source.nbytes)
    yield Region(0, HEADER_NBYTES, "header", "header")
    yield Region(header.model_offset, header.model_nbytes, "model", "model")


def checksums_of(model: Model, original: Source | None) -> Iterator[Checksum]:
    """The SHA-256 of the file `original` that the model was converted from, if both are known."""
    if original is not None:
        for entry in model.metadata_props:
            if entry.key == HASH_KEY:
                yield Checksum("metadata.onnx_hash", "sha256", (entry.value or "").lower(), original)
