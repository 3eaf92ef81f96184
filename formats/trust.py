"""Whom a file may come from where a key is given, and whom what is made of it may be shown to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from formats.errors import CryptError
from formats.tensordata.plan import OWNER_ACCESS, Permissions

if TYPE_CHECKING:
    from formats.registry import Codec, ReadOptions
    from formats.tensordata.source import Source


def check_key(options: ReadOptions, *codecs: Codec) -> None:
    """Nothing, where no key was given, or one of the files is encrypted.

    Who gives a key relies on nobody else having made the file.

    Raises: CryptError if a file that anybody could have put there was found instead.
    """
    if options.key is not None and not any(codec.encrypted for codec in codecs):
        found = " and ".join(codec.title for codec in codecs)
        raise CryptError(f"a key was given, but this is {found}, which is not encrypted; anyone could have made it")


def permissions(source: Source, codec: Codec, target: Codec) -> Permissions:
    """What may be done with a file in the format `target` that is made of `source`, a file in the format `codec`.

    Others than its owner may do no more with it than with the source. A file that is replaced keeps its own
    permissions, for somebody has given it those; but what was encrypted is never left to more people than it was for.
    """
    most = 0o777
    for file in source.files():
        most &= file.permissions
    if codec.encrypted and not target.encrypted:
        return Permissions(most & Permissions().new, most)
    return Permissions((most | OWNER_ACCESS) & Permissions().new)
