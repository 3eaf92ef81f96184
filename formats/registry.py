"""The names of `codecs.contract` and `codecs.lookup`, for modules above the codecs that still import them from here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from formats.codecs.contract import (
        DEEPEST,
        ENCRYPTED,
        HEAD_BYTES,
        KEY,
        KEY_FLAGS,
        MAX_DEPTH,
        READ_DEFAULTS,
        READING,
        Change,
        Checksum,
        Codec,
        Match,
        Reader,
        ReadOptions,
        Region,
        Runnable,
        Runtime,
    )
    from formats.codecs.lookup import (
        ENTRY_POINTS,
        FORMAT,
        RUNTIME,
        USUAL_DOMAINS,
        Installed,
        built_in,
        by_name,
        codecs,
        for_reading,
        for_writing,
        installed,
        is_marked_by_others,
        of_domains,
        runtime,
    )

__all__ = [
    "DEEPEST",
    "ENCRYPTED",
    "ENTRY_POINTS",
    "FORMAT",
    "HEAD_BYTES",
    "KEY",
    "KEY_FLAGS",
    "MAX_DEPTH",
    "READING",
    "READ_DEFAULTS",
    "RUNTIME",
    "USUAL_DOMAINS",
    "Change",
    "Checksum",
    "Codec",
    "Installed",
    "Match",
    "ReadOptions",
    "Reader",
    "Region",
    "Runnable",
    "Runtime",
    "built_in",
    "by_name",
    "codecs",
    "for_reading",
    "for_writing",
    "installed",
    "is_marked_by_others",
    "of_domains",
    "runtime",
]


def __getattr__(name: str) -> Any:
    """The name in the module that has it."""
    from formats.codecs import contract, lookup

    if hasattr(lookup, name):
        return getattr(lookup, name)
    return getattr(contract, name)
