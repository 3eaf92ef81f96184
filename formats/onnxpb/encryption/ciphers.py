"""The ciphers of encrypted models, by ranges: any part of a text separately, and the tag of the whole in one pass.

GCM and ChaCha20-Poly1305 each have two parts: a stream of key bytes, addressed by a counter, and a checksum of the
ciphertext under a key. Data in order are encrypted with the library's own AES-GCM. The library lacks two things, which
this module makes from its parts: encryption of a range, with the counter of its first block, and ChaCha20-Poly1305 for
a text that is not in memory. This is the only module that imports `cryptography`.

Spec: NIST SP 800-38A (CBC, CTR) and SP 800-38D (GCM); RFC 8439 (ChaCha20-Poly1305).
"""

from __future__ import annotations

import hmac
import secrets
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers import Cipher as LibraryCipher
from cryptography.hazmat.primitives.ciphers import algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.poly1305 import Poly1305

from formats.tensordata.sources.digest import Digester

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from cryptography.hazmat.primitives.ciphers import CipherContext

BLOCK_BYTES = 16  # of AES, and of Poly1305
CHACHA_BLOCK_BYTES = 64
GCM_FIRST_COUNTER = 2  # 1 encrypts the tag
CHACHA_FIRST_COUNTER = 1  # 0 makes the key of the tag


class CipherStream(ABC):
    """Key bytes that are combined with a text. The same operation encrypts and decrypts."""

    __slots__ = ("_header", "_key", "_nonce")

    def __init__(self, key: bytes, nonce: bytes, header: bytes) -> None:
        """Prepare for one text: `nonce` must be new for the key, and the tag also protects `header`."""
        self._key, self._nonce, self._header = key, nonce, header

    @abstractmethod
    def combine(self, offset: int, data: bytes | memoryview) -> bytes:
        """`data`, which is at `offset` (in bytes) of the text, encrypted or decrypted."""

    @abstractmethod
    def new_tag(self) -> Digester:
        """A tag that has no ciphertext yet."""

    @abstractmethod
    def is_intact(self, ciphertext: Iterable[bytes], tag: bytes) -> bool:
        """Whether `tag` is that of a ciphertext in pieces; this reads all of them."""


class AesGcm(CipherStream):
    """AES-256-GCM."""

    __slots__ = ()

    def combine(self, offset: int, data: bytes | memoryview) -> bytes:
        """Combine with the counters from `offset` on: the nonce, and the block's number in four bytes."""
        return _gcm_stream(self._key, self._nonce, offset).update(data)

    def new_tag(self) -> Digester:
        """A tag that has no ciphertext yet."""
        return AesGcmTag(self._key, self._nonce, self._header)

    def is_intact(self, ciphertext: Iterable[bytes], tag: bytes) -> bool:
        """Whether the library decrypts the pieces and finds their tag right; the text is not kept."""
        library = LibraryCipher(algorithms.AES(self._key), modes.GCM(self._nonce)).decryptor()
        library.authenticate_additional_data(self._header)
        for piece in ciphertext:
            library.update(piece)
        try:
            library.finalize_with_tag(tag)
        except InvalidTag:
            return False
        return True


class AesGcmTag(Digester):
    """The tag of AES-GCM, from the ciphertext.

    The library gives a tag only for data that it encrypts itself, in order. The ciphertext may have been made in
    ranges. So it is decrypted, and the library encrypts the text again.
    """

    __slots__ = ("_library", "_stream")
    in_order: ClassVar[bool] = True

    def __init__(self, key: bytes, nonce: bytes, header: bytes) -> None:
        self._stream = _gcm_stream(key, nonce, 0)
        self._library = LibraryCipher(algorithms.AES(key), modes.GCM(nonce)).encryptor()
        self._library.authenticate_additional_data(header)

    def update(self, offset: int, data: bytes | memoryview) -> None:
        """Add the next part of the ciphertext."""
        self._library.update(self._stream.update(data))

    def digest(self) -> bytes:
        """The tag of all parts; no more can be added."""
        self._library.finalize()
        return self._library.tag


def _gcm_stream(key: bytes, nonce: bytes, offset: int) -> CipherContext:
    """The stream of AES-GCM's key bytes from `offset` (in bytes) of the text on: AES in counter mode."""
    block, skip = divmod(offset, BLOCK_BYTES)
    counter = nonce + (GCM_FIRST_COUNTER + block).to_bytes(4, "big")
    stream = LibraryCipher(algorithms.AES(key), modes.CTR(counter)).encryptor()
    stream.update(bytes(skip))
    return stream


class ChaCha20Poly1305(CipherStream):
    """ChaCha20-Poly1305."""

    __slots__ = ()

    def combine(self, offset: int, data: bytes | memoryview) -> bytes:
        """Combine with the key stream from `offset` on; the counter before the nonce selects its blocks."""
        block, skip = divmod(offset, CHACHA_BLOCK_BYTES)
        return self._stream(CHACHA_FIRST_COUNTER + block, skip, data)

    def new_tag(self) -> Digester:
        """A tag that has no ciphertext yet."""
        return Poly1305Tag(self._stream(0, 0, bytes(32)), self._header)

    def is_intact(self, ciphertext: Iterable[bytes], tag: bytes) -> bool:
        """Whether the pieces have this tag."""
        digester = self.new_tag()
        for piece in ciphertext:
            digester.update(0, memoryview(piece))
        return hmac.compare_digest(digester.digest(), tag)

    def _stream(self, counter: int, skip: int, data: bytes | memoryview) -> bytes:
        place = counter.to_bytes(4, "little") + self._nonce
        stream = LibraryCipher(algorithms.ChaCha20(self._key, place), mode=None).encryptor()
        stream.update(bytes(skip))
        return stream.update(data)


class Poly1305Tag(Digester):
    """The tag of ChaCha20-Poly1305, from the ciphertext alone."""

    __slots__ = ("_hash", "_header_nbytes", "_nbytes")
    in_order: ClassVar[bool] = True

    def __init__(self, key: bytes, header: bytes) -> None:
        self._hash = Poly1305(key)
        self._hash.update(header + _padding(len(header)))
        self._header_nbytes = len(header)
        self._nbytes = 0

    def update(self, offset: int, data: bytes | memoryview) -> None:
        """Add the next part of the ciphertext."""
        self._hash.update(data)
        self._nbytes += len(data)

    def digest(self) -> bytes:
        """The tag of all parts; no more can be added."""
        lengths = self._header_nbytes.to_bytes(8, "little") + self._nbytes.to_bytes(8, "little")
        self._hash.update(_padding(self._nbytes) + lengths)
        return self._hash.finalize()


def encrypt_cbc(key: bytes, previous: bytes, data: bytes | memoryview) -> bytes:
    """Whole blocks encrypted with AES-256-CBC, after `previous`, the last encrypted block before them."""
    return LibraryCipher(algorithms.AES(key), modes.CBC(previous)).encryptor().update(data)


def decrypt_cbc(key: bytes, previous: bytes, data: bytes | memoryview) -> bytes:
    """Whole blocks decrypted with AES-256-CBC, after `previous`, the last encrypted block before them."""
    return LibraryCipher(algorithms.AES(key), modes.CBC(previous)).decryptor().update(data)


def new_piece_check() -> Callable[[int, bytes], bytes]:
    """A checksum of numbered pieces of data, 16 bytes each, with a random key.

    It shows in this process whether a piece is unchanged, even if somebody changes pieces on purpose.
    """
    library = AESGCM(secrets.token_bytes(32))
    return lambda number, data: library.encrypt(number.to_bytes(12, "big"), b"", data)


def _padding(nbytes: int) -> bytes:
    """Zeros up to a whole block."""
    return bytes(-nbytes % BLOCK_BYTES)
