"""The checksums in a model for its external data.

Spec: onnx.proto, `TensorProto.external_data`: `checksum` is the SHA-1 of the whole file at `location`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from formats.codecs.contract import Checksum
from formats.ir import walk
from formats.ir.storage import entries_of
from formats.onnxpb.external import archive_links
from formats.tensordata.absent import AbsentFile

if TYPE_CHECKING:
    from collections.abc import Iterator

    from formats.ir.model import Model


def checksums_of(model: Model) -> Iterator[Checksum]:
    """The checksum that each tensor has for its file, and that the linked archive has for its entries."""
    yield from archive_links.checksums_of(model)
    for where, tensor in walk.external_tensors(model):
        stated = next((value or "" for key, value in entries_of(tensor) if key == "checksum"), None)
        if stated is not None and tensor.external_source is not None:
            for file in tensor.external_source.files():
                if not isinstance(file, AbsentFile):
                    yield Checksum(where, "sha1", stated.lower(), file.span())
