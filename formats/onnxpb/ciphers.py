"""The ciphers of encrypted models, by ranges: any part of a text by itself, and the tag of a whole in one pass.

GCM and ChaCha20-Poly1305 each combine a stream of key bytes that is addressed by a counter with a checksum under a
key of the ciphertext. The library offers them only for a text that comes in order and, for the second, in memory; so
the parts are combined here. This is the only module that imports `cryptography`.

Spec: NIST SP 800-38A (CBC, CTR) and SP 800-38D (GCM); RFC 8439 (ChaCha20-Poly1305).
"""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

from cryptography.hazmat.primitives.ciphers import Cipher as LibraryCipher
from cryptography.hazmat.primitives.ciphers import algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.poly1305 import Poly1305

from formats.tensordata.digest import Digester

if TYPE_CHECKING:
    from collections.abc import Callable

BLOCK_BYTES = 16  # of AES, and of both checksums
CHACHA_BLOCK_BYTES = 64
GCM_FIRST_COUNTER = 2  # 1 encrypts the tag
CHACHA_FIRST_COUNTER = 1  # 0 makes the key of the tag
GCM_POLYNOMIAL = 0xE1 << 120  # bit-reversed: the highest bit is the coefficient of x to the power of 0


class Stream(ABC):
    """Key bytes that are combined with a text, which encrypts and decrypts alike."""

    __slots__ = ("_header", "_key", "_nonce")

    def __init__(self, key: bytes, nonce: bytes, header: bytes) -> None:
        """Ready for one text: `nonce` must be new for the key, and `header` is under the tag too."""
        self._key, self._nonce, self._header = key, nonce, header

    @abstractmethod
    def combine(self, offset: int, data: bytes | memoryview) -> bytes:
        """`data`, which is at `offset` (in bytes) of the text, encrypted or decrypted."""

    @abstractmethod
    def new_tag(self) -> Digester:
        """The tag of no ciphertext yet."""


class AesGcm(Stream):
    """AES-256-GCM."""

    __slots__ = ()

    def combine(self, offset: int, data: bytes | memoryview) -> bytes:
        """Combine with the counters from `offset` on: the nonce, and the block's number in four bytes."""
        block, skip = divmod(offset, BLOCK_BYTES)
        counter = self._nonce + (GCM_FIRST_COUNTER + block).to_bytes(4, "big")
        stream = LibraryCipher(algorithms.AES(self._key), modes.CTR(counter)).encryptor()
        stream.update(bytes(skip))
        return stream.update(data)

    def new_tag(self) -> Digester:
        """The tag of no ciphertext yet."""
        return AesGcmTag(self._key, self._nonce, self._header)


class AesGcmTag(Digester):
    """The tag of AES-GCM, from the ciphertext alone.

    The library computes a tag of ciphertext only while it decrypts, and then does not tell it. But associated data
    are hashed in the same way; so the ciphertext is given to it as such, behind the header and its padding, and the
    last block, of the two lengths, is put right. The hash of blocks X1 ... Xn is X1 H^n + ... + Xn H, so that a
    change of the last block changes it by that times H.
    """

    __slots__ = ("_hash", "_hash_key", "_header_nbytes", "_nbytes")
    in_order: ClassVar[bool] = True

    def __init__(self, key: bytes, nonce: bytes, header: bytes) -> None:
        zeros = bytes(BLOCK_BYTES)
        self._hash_key = LibraryCipher(algorithms.AES(key), modes.CTR(zeros)).encryptor().update(zeros)
        self._hash = LibraryCipher(algorithms.AES(key), modes.GCM(nonce)).encryptor()
        self._hash.authenticate_additional_data(header + _padding(len(header)))
        self._header_nbytes = len(header)
        self._nbytes = 0

    def update(self, offset: int, data: bytes | memoryview) -> None:
        """Take in the ciphertext after the last."""
        self._hash.authenticate_additional_data(data)
        self._nbytes += len(data)

    def digest(self) -> bytes:
        """The tag of all that was taken in; there can be no more."""
        self._hash.finalize()
        padded = self._header_nbytes + len(_padding(self._header_nbytes))
        counted = 8 * (padded + self._nbytes) << 64
        wanted = 8 * self._header_nbytes << 64 | 8 * self._nbytes
        change = _gcm_product(counted ^ wanted, int.from_bytes(self._hash_key, "big"))
        return (int.from_bytes(self._hash.tag, "big") ^ change).to_bytes(BLOCK_BYTES, "big")


class ChaCha20Poly1305(Stream):
    """ChaCha20-Poly1305."""

    __slots__ = ()

    def combine(self, offset: int, data: bytes | memoryview) -> bytes:
        """Combine with the blocks from `offset` on, which the counter before the nonce addresses."""
        block, skip = divmod(offset, CHACHA_BLOCK_BYTES)
        return self._stream(CHACHA_FIRST_COUNTER + block, skip, data)

    def new_tag(self) -> Digester:
        """The tag of no ciphertext yet."""
        return Poly1305Tag(self._stream(0, 0, bytes(32)), self._header)

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
        """Take in the ciphertext after the last."""
        self._hash.update(data)
        self._nbytes += len(data)

    def digest(self) -> bytes:
        """The tag of all that was taken in; there can be no more."""
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
    """A checksum of numbered pieces of data, 16 bytes each, under a key that nobody knows.

    It tells in this process whether a piece is what it was, also where somebody would like it not to.
    """
    library = AESGCM(secrets.token_bytes(32))
    return lambda number, data: library.encrypt(number.to_bytes(12, "big"), b"", data)


def _padding(nbytes: int) -> bytes:
    """Zeros up to a whole block."""
    return bytes(-nbytes % BLOCK_BYTES)


def _gcm_product(a: int, b: int) -> int:
    """The product of two blocks in the field of GCM.

    Spec: NIST SP 800-38D, 6.3.
    """
    product = 0
    for bit in range(127, -1, -1):
        if a >> bit & 1:
            product ^= b
        b = b >> 1 ^ (GCM_POLYNOMIAL if b & 1 else 0)
    return product
