"""The keys of encrypted models. They are never part of the argument list, which other users can see."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from formats.errors import CryptError

MAX_KEY_BYTES = 1 << 16  # a file of this size is not a key file
MIN_KEY_BYTES = 8  # of the key of a new file (NIST SP 800-63B, 3.1.1: passwords have at least 8 characters)


@dataclass(frozen=True, slots=True)
class Key:
    """A password from which the key of each file is derived; printing this object does not show it."""

    password: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if not _without_fill(self.password):  # HMAC fills a key up with zero bytes, so these are all the same key
            raise CryptError(
                f"the key {'has only zero bytes, so it is like an empty one' if self.password else 'is empty'}"
            )

    @classmethod
    def of(cls, password: Key | str | bytes) -> Key:
        """Make a key from a password: bytes directly, and text as UTF-8.

        onnx-light reads bytes as Latin-1 text and encodes this as UTF-8. To open a file that it encrypted with bytes
        above 0x7f, pass this text: `password.decode("latin-1")`.

        Raises: TypeError for a value of another type; CryptError if it is empty.
        """
        if isinstance(password, Key):
            return password
        if isinstance(password, str):
            return cls(password.encode("utf-8", "surrogateescape"))  # the form of bytes that are not UTF-8
        if isinstance(password, bytes):
            return cls(password)
        raise TypeError(f"a key is a Key, text or bytes, not {type(password).__name__}")

    def for_writing(self) -> Key:
        """This key, if it is long enough for a new file; old files open with any key.

        Raises: CryptError if it is too short. Zero bytes at its end do not count, because they change nothing.
        """
        nbytes = len(_without_fill(self.password))
        if nbytes < MIN_KEY_BYTES:
            remedy = "use a random one, for example that of `openssl rand -hex 32`"
            raise CryptError(f"the key has {nbytes} bytes, and a new file needs at least {MIN_KEY_BYTES}; {remedy}")
        return self

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> Key:
        """The content of a file, without the line end that editors add.

        Raises: OSError if it cannot be read; CryptError if it is empty or too long to be a key.
        """
        with Path(path).open("rb") as file:
            content = file.read(MAX_KEY_BYTES + 1)
        if len(content) > MAX_KEY_BYTES:
            raise CryptError(f"the key file has more than {MAX_KEY_BYTES} bytes, the maximum", path=path)
        if not (password := content.removesuffix(b"\n").removesuffix(b"\r")):
            raise CryptError("the key file is empty", path=path)
        return cls(password)

    @classmethod
    def from_environment(cls, name: str) -> Key:
        """The value of an environment variable.

        Raises: CryptError if it is not set or is empty.
        """
        if not (value := os.environ.get(name)):
            raise CryptError(f"the environment variable {name}, which should hold the key, is not set")
        return cls(os.fsencode(value))


def _without_fill(password: bytes) -> bytes:
    """The key without zero bytes at its end, with which it opens the same files."""
    return password.rstrip(b"\0")
