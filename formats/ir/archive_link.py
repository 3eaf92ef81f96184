"""What a graph says about the `.onnxz` archive that contains its weights: its name and its state.

Such a graph is an ONNX file whose external data are an archive in its own folder. These facts are in its metadata, so
that readers that know them notice if the archive was replaced; other readers can still read the graph.

Spec: docs/links.md.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from formats.errors import DecodeError
from formats.ir.model import StringStringEntry, entries

if TYPE_CHECKING:
    from formats.ir.model import Model

ARCHIVE = "onnxz.archive"
NBYTES = "onnxz.archive_nbytes"
DIRECTORY = "onnxz.archive_directory_sha256"
KEYS = (ARCHIVE, NBYTES, DIRECTORY)
NOT_IN_NAMES = frozenset("/\\\0")

_NBYTES = re.compile(r"0|[1-9][0-9]{0,18}")
_SHA256 = re.compile(r"[0-9a-f]{64}")


class ArchiveLink(NamedTuple):
    """The name of an archive, its size in bytes, and the SHA-256, in hexadecimal, of its directory and what follows."""

    archive: str
    nbytes: int
    directory_sha256: str

    @classmethod
    def of(cls, model: Model) -> ArchiveLink | None:
        """The link of a model, if it has one.

        Raises: DecodeError if it is incomplete or impossible.
        """
        found_entries = [
            (entry.key, entry.value or "") for entry in entries(model, "metadata_props") if entry.key in KEYS
        ]
        if not found_entries:
            return None
        values = dict(found_entries)
        if len(found_entries) != len(KEYS) or len(values) != len(KEYS):
            keys = ", ".join(key for key, _ in found_entries)
            message = f"the metadata has {keys}; a graph that is linked to an archive has {', '.join(KEYS)}, each once"
            raise DecodeError(message, where="metadata_props")
        for key, is_possible in (
            (ARCHIVE, is_name(values[ARCHIVE])),
            (NBYTES, _NBYTES.fullmatch(values[NBYTES])),
            (DIRECTORY, _SHA256.fullmatch(values[DIRECTORY])),
        ):
            if not is_possible:
                raise DecodeError(f"{key} is {values[key]!r:.80}, which is not valid", where="metadata_props")
        return cls(values[ARCHIVE], int(values[NBYTES]), values[DIRECTORY])

    def added_to(self, model: Model) -> Model:
        """A copy of the model with this link in place of any other."""
        texts = (self.archive, str(self.nbytes), self.directory_sha256)
        new = [StringStringEntry(key, text) for key, text in zip(KEYS, texts, strict=True)]
        return replace(model, metadata_props=[*_others(model), *new])


def is_name(text: str) -> bool:
    """Whether a text can be the name of a file, without a folder."""
    return text not in ("", ".", "..") and NOT_IN_NAMES.isdisjoint(text)


def without_link(model: Model) -> Model:
    """The model, or a copy of it without the facts about an archive."""
    others = _others(model)
    return model if len(others) == len(entries(model, "metadata_props")) else replace(model, metadata_props=others)


def _others(model: Model) -> list[StringStringEntry]:
    return [entry for entry in entries(model, "metadata_props") if entry.key not in KEYS]
