"""What a format is to the rest of the package, and which format a file has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from formats.codecs.contract import ARCHIVE_ENTRIES, EXTENSIONS

if TYPE_CHECKING:
    from collections.abc import Callable

    from formats.onnxzip.records import Entry
    from formats.tensordata.sources.source import Source


def _archive_entries() -> Callable[[Source], list[Entry]]:
    from formats.onnxzip.reader import read_entries

    return read_entries


def _extensions() -> frozenset[str]:
    from formats.codecs.lookup import built_in

    return frozenset(extension for codec in built_in() for extension in codec.extensions)


ARCHIVE_ENTRIES.hand_in(_archive_entries)
EXTENSIONS.hand_in(_extensions)
