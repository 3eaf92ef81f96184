"""Which of many sources have equal bytes, found with as little reading as possible."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from formats.tensordata.sources.source import Source


class Duplicates:
    """Sources by their bytes; only sources whose size occurs twice are read, a piece at a time."""

    def __init__(self) -> None:
        self._unread: dict[int, Source | None] = {}  # the only source of its size, if there is only one
        self._by_digest: dict[tuple[int, bytes], Source] = {}

    def first(self, source: Source) -> Source:
        """The first of all given sources with the bytes of `source`; possibly this one."""
        alone = self._unread.setdefault(source.nbytes, source)
        if alone is source:
            return source
        if alone is not None:
            self._by_digest[_key(alone)] = alone
            self._unread[source.nbytes] = None
        return self._by_digest.setdefault(_key(source), source)


def _key(source: Source) -> tuple[int, bytes]:
    """The size and the SHA-256 of a source."""
    import hashlib  # its import takes as long as a small conversion to an archive

    digest = hashlib.sha256()
    for piece in source.chunks() if source.granule_bytes else (source.view(),):
        digest.update(piece)
    return source.nbytes, digest.digest()
