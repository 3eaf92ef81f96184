"""Checks who may have made a file if a key is given, and limits who may read the files made from it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from formats.errors import CryptError
from formats.tensordata.plan import OWNER_ACCESS, Permissions

if TYPE_CHECKING:
    from collections.abc import Iterable

    from formats.codecs.contract import Codec, ReadOptions
    from formats.tensordata.sources.source import Source


def check_key(options: ReadOptions, *codecs: Codec) -> None:
    """Check that a file is encrypted if a key was given.

    A user who gives a key expects that only owners of the key can have made the file.

    Raises: CryptError if none of the files is encrypted, so that anyone could have made them.
    """
    if options.key is not None and not any(codec.encrypted for codec in codecs):
        found = " and ".join(codec.title for codec in codecs)
        raise CryptError(f"a key was given, but this is {found}, which is not encrypted; anyone could have made it")


def common_permissions(given: Iterable[Permissions]) -> Permissions:
    """Return the permissions that all of these allow, for a file that is made from several."""
    found = Permissions(0o777)
    for each in given:
        found = Permissions(found.new & each.new, found.replaced & each.replaced)
    return found


def permissions(source: Source, codec: Codec, target: Codec) -> Permissions:
    """Return the permissions of a file in the format `target` that is made from `source`, a file in the format `codec`.

    Users other than its owner have no more permissions than for the source. A file that is replaced keeps its own
    permissions, which a user chose; but decrypted content never gets more readers than the encrypted file had.
    """
    most = 0o777
    for file in source.files():
        most &= file.permissions
    if codec.encrypted and not target.encrypted:
        return Permissions(most & Permissions().new, most)
    return Permissions((most | OWNER_ACCESS) & Permissions().new)
