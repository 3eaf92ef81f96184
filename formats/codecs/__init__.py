"""What a format is to the rest of the package, and which format a file has."""

from __future__ import annotations

from formats.codecs.contract import EXTENSIONS


def _extensions() -> frozenset[str]:
    from formats.codecs.lookup import built_in

    return frozenset(extension for codec in built_in() for extension in codec.extensions)


EXTENSIONS.hand_in(_extensions)
