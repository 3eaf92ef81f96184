"""Encrypted models, `.onnxc`: the layout of the file, and which parts can be trusted when.

| magic, 8   | salt | then      | then    | then                        | also under the tag |
|------------|------|-----------|---------|-----------------------------|--------------------|
| `ONNXCRY1` | 16   | IV, 16    |         | AES-256-CBC, PKCS#7 padding | there is no tag    |
| `ONNXCRY2` | 16   | nonce, 12 | tag, 16 | ChaCha20-Poly1305           | nothing            |
| `ONNXCRY3` | 16   | nonce, 12 | tag, 16 | AES-256-GCM                 | all before the tag |

The key comes from a password and the salt; the text is a serialised ModelProto.

Reading takes a pass over the file that checks the tag, in bounded memory, and remembers a checksum of every piece. From
then on, ranges are decrypted when they are read, after their pieces were checked again. So a reader gets only data that
the tag covers, even if the file changes meanwhile. The whole text of a large model is neither on disk nor in memory.

`ONNXCRY1` has no tag. With a wrong key, the padding is wrong or the text is not a ModelProto. But nothing shows a
change in the middle of a weight. Worse, all variants derive the same key from a password and a salt. So an attacker who
has an `ONNXCRY3` file and guesses 16 bytes of its text knows one block of AES with that key. This is enough to write an
`ONNXCRY1` file for this key with another text. Therefore such a file is opened only if the caller names the variant.
Write it only for readers that support nothing else. `docs/security.md` lists all ways from one variant to another.

Spec: onnx-light, "Encrypted model I/O"; RFC 8018 (PBKDF2).
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from formats.codecs.contract import DEEPEST
from formats.codecs.keys import Key
from formats.errors import CryptError, DecodeError
from formats.extras import needed
from formats.ir import walk
from formats.ir.model import Model
from formats.onnxpb.encryption.ciphertext import (
    CBC_BLOCK_BYTES,
    ChainedCiphertext,
    Pieces,
    Plaintext,
    StreamCiphertext,
    read_ciphertext,
)
from formats.onnxpb.wire.decoder import decode
from formats.tensordata.plan import INTERFACE, USE, Digest, FilePlan, LateWrite, Loss, PlacedWrite, WritePlan
from formats.tensordata.sources.source import Concat, Literal

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from formats.codecs.contract import ReadOptions
    from formats.onnxpb.encryption.ciphers import CipherStream
    from formats.onnxpb.options import CryptOptions
    from formats.tensordata.sources.source import Source

MAGIC = b"ONNXCRY"
SALT_BYTES = 16
TAG_BYTES = 16
KEY_BYTES = 32
KEY_ITERATIONS = 100_000
PEER_LIMIT_BYTES = (1 << 31) - 1  # onnx-light counts with an int
UNVOUCHED = "nobody can detect whether such a file was changed or forged"
WRONG = "the key is wrong, or the encrypted model was changed or truncated"


class Variant(NamedTuple):
    """One form of the file."""

    number: int
    title: str
    nonce_nbytes: int
    tag_nbytes: int
    max_nbytes: int  # the largest text, limited by a counter of 32 bits

    @property
    def magic(self) -> bytes:
        """The first bytes of the file."""
        return MAGIC + b"%d" % self.number

    @property
    def header_nbytes(self) -> int:
        """The size of what comes before the tag: magic, salt and nonce."""
        return len(self.magic) + SALT_BYTES + self.nonce_nbytes

    @property
    def ciphertext_offset(self) -> int:
        """Where the ciphertext starts, in bytes from the start of the file."""
        return self.header_nbytes + self.tag_nbytes


CBC = Variant(1, "AES-256-CBC", CBC_BLOCK_BYTES, 0, (1 << 63) - 1)
CHACHA20_POLY1305 = Variant(2, "ChaCha20-Poly1305", 12, TAG_BYTES, ((1 << 32) - 1) * 64)
GCM = Variant(3, "AES-256-GCM", 12, TAG_BYTES, ((1 << 32) - 2) * 16)
VARIANTS = {variant.number: variant for variant in (CBC, CHACHA20_POLY1305, GCM)}
BY_TITLE = {variant.title: variant for variant in VARIANTS.values()}


def read_model(source: Source, path: Path | None, options: ReadOptions) -> Model:
    """The model in the encrypted file `source`; its weights are decrypted when they are read.

    Raises: CryptError as `decrypt` does, and without a key; DecodeError if the text is not a model.
    """
    from formats.onnxpb.external import model as external

    if options.key is None:
        raise CryptError("the model is encrypted, and no key was given; pass one with `key`")
    text = decrypt(source, Key.of(options.key).password, allow_encryption=options.allow_encryption)
    return external.read_model(text, path, options)


def cautions(source: Source, model: Model) -> Iterator[Loss]:
    """A loss for each part of the encrypted model `source`, read as `model`, that its key does not protect."""
    if sniff_variant(source.read(0, len(CBC.magic))) is CBC:
        yield Loss("unauthenticated", "", f"{CBC.magic.decode()} files have no tag: {UNVOUCHED}", USE)
    outside = [where for where, _ in walk.external_tensors(model)]
    if outside:
        yield Loss(
            "unauthenticated",
            outside[0],
            f"{len(outside)} tensors are in other files, which are not encrypted",
            INTERFACE,
        )


def plan_model(model: Model, destination: Path, options: CryptOptions) -> WritePlan:
    """How to write `model`, encrypted, to the one file `destination`; external data move into it.

    Raises: CryptError if there is no key, or a short one, and as `encrypt` does; ExternalDataError if weights are
    missing.
    """
    from formats.onnxpb.external import model as external
    from formats.onnxpb.options import OnnxOptions

    if options.key is None:
        raise CryptError("no key was given to encrypt the model with; pass one with `key`")
    key = Key.of(options.key).for_writing()
    plain = external.plan_model(model, destination, OnnxOptions(external_data=False))
    text = Concat.of(*(write.source for write in plain.files[-1].writes))
    file = encrypt(text, destination, key.password, options.encryption)
    losses = [loss for loss in plain.losses if loss.kind != "protobuf_limit"]
    if options.encryption == CBC.number:
        detail = f"{CBC.magic.decode()} files have no tag: {UNVOUCHED}, and readers open them only on request"
        losses.append(Loss("unauthenticated", "", detail, USE))
    if file.nbytes > PEER_LIMIT_BYTES:
        losses.append(
            Loss("peer_limit", "", f"the file has {file.nbytes} bytes; onnx-light reads up to 2 GiB", INTERFACE)
        )
    return WritePlan((file,), losses=tuple(losses))


def derive_key(password: bytes, salt: bytes) -> bytes:
    """The key of one file; takes about a tenth of a second, on purpose."""
    return hashlib.pbkdf2_hmac("sha256", password, salt, KEY_ITERATIONS, KEY_BYTES)


def encrypt(
    text: Source,
    path: Path,
    password: bytes,
    variant: int = GCM.number,
    *,
    salt: bytes | None = None,
    nonce: bytes | None = None,
) -> FilePlan:
    """How to write `text`, encrypted, to `path`: in one pass, in bounded memory.

    Salt and nonce are random; only tests pass them.

    Raises: CryptError if the variant does not exist, or cannot encrypt so much.
    """
    form = VARIANTS.get(variant)
    if form is None:
        raise CryptError(f"there is no variant {variant} of encrypted models, only {', '.join(map(str, VARIANTS))}")
    if text.nbytes > form.max_nbytes:
        raise CryptError(f"{form.title} encrypts at most {form.max_nbytes} bytes, and the model has {text.nbytes}")
    salt = secrets.token_bytes(SALT_BYTES) if salt is None else salt
    nonce = secrets.token_bytes(form.nonce_nbytes) if nonce is None else nonce
    header = form.magic + salt + nonce
    assert len(header) == form.header_nbytes, "salt and nonce have the sizes that the variant demands"
    key = derive_key(password, salt)
    start = PlacedWrite(0, Literal(header))
    if form is CBC:
        chained = ChainedCiphertext(text, nonce, partial(_ciphers().encrypt_cbc, key))
        return FilePlan(path, len(header) + chained.nbytes, (start, PlacedWrite(len(header), chained)))
    stream = _new_stream(form, key, header)
    ciphertext = StreamCiphertext(text, stream.combine)
    write = PlacedWrite(form.ciphertext_offset, ciphertext, Digest("tag", stream.new_tag))
    tag = LateWrite(form.header_nbytes, TAG_BYTES, lambda digests: digests["tag"], "tag")
    return FilePlan(path, write.end, (start, write), (tag,))


def decrypt(source: Source, password: bytes, *, allow_encryption: int | None = None) -> Source:
    """The text of the encrypted model `source`, after a check that it is intact. Reading a range decrypts it.

    Reads all of `source` once. Variant 1 cannot be checked. It is opened only if `allow_encryption` is
    its number.

    Raises: CryptError if the key is wrong, the file was changed or cut short, now or later, or its variant is not
    allowed.
    """
    head = read_ciphertext(source, 0, min(source.nbytes, GCM.ciphertext_offset))
    variant = sniff_variant(head)
    if not variant.tag_nbytes and allow_encryption != variant.number:
        raise CryptError(
            f"the model is encrypted as {variant.magic.decode()} ({variant.title}), and {UNVOUCHED}, even by someone "
            f"without the key; `allow_encryption={variant.number}` opens it anyway"
        )
    nbytes = source.nbytes - variant.ciphertext_offset
    if nbytes < 0 or (variant is CBC and (not nbytes or nbytes % CBC_BLOCK_BYTES)):
        raise CryptError(f"the encrypted model was truncated: {source.nbytes} bytes are too few")
    if nbytes > variant.max_nbytes:
        raise CryptError(f"{variant.title} encrypts at most {variant.max_nbytes} bytes, and the file has {nbytes}")
    ciphers = _ciphers()
    header, tag = head[: variant.header_nbytes], head[variant.header_nbytes : variant.ciphertext_offset]
    key = derive_key(password, header[len(variant.magic) : -variant.nonce_nbytes])
    lead_nbytes = CBC_BLOCK_BYTES if variant is CBC else 0
    pieces = Pieces(source, variant.ciphertext_offset, lead_nbytes, ciphers.new_piece_check())
    for file in source.files():
        file.is_encrypted = True
    if variant is CBC:
        return _decrypt_cbc(pieces, partial(ciphers.decrypt_cbc, key))
    stream = _new_stream(variant, key, header)
    if not stream.is_intact(pieces.first_pass(), tag):
        raise CryptError(WRONG)
    return Plaintext(pieces, stream.combine)


def sniff_variant(head: bytes) -> Variant:
    """The variant of the encrypted model that starts with `head`.

    Raises: CryptError if it is not encrypted, or with an unknown variant.
    """
    for variant in VARIANTS.values():
        if head.startswith(variant.magic):
            return variant
    if head.startswith(MAGIC) and len(head) > len(MAGIC):
        raise CryptError(f"this version does not know encrypted models that start with {head[:8]!r}")
    raise CryptError(f"an encrypted model starts with {MAGIC!r}, this file with {head[:8]!r}")


def by_title(title: str) -> Variant:
    """The variant with the cipher of this name.

    Raises: ValueError if there is none.
    """
    if title not in BY_TITLE:
        raise ValueError(f"encryption is {title!r}, but must be one of {', '.join(BY_TITLE)}")
    return BY_TITLE[title]


def check_variant(source: Source, wanted: Variant) -> None:
    """Return nothing if the encrypted model `source` has the variant that the caller wants.

    Raises: CryptError if it has another one, or none.
    """
    variant = sniff_variant(read_ciphertext(source, 0, min(source.nbytes, len(CBC.magic))))
    if variant is not wanted:
        raise CryptError(f"the model is encrypted with {variant.title}, not with {wanted.title}")


def _decrypt_cbc(pieces: Pieces, decrypt_cbc: Any) -> Source:
    """The text of an AES-256-CBC ciphertext, if its end is padding and it is a model."""

    def decrypt_piece(offset: int, piece: bytes) -> bytes:
        plain: bytes = decrypt_cbc(piece[:CBC_BLOCK_BYTES], piece[CBC_BLOCK_BYTES:])
        return plain

    for _ in pieces.first_pass():
        pass
    padded = Plaintext(pieces, decrypt_piece)
    end = padded.read(padded.nbytes - CBC_BLOCK_BYTES)
    padding = end[-1:] * end[-1]
    if 1 <= len(padding) <= CBC_BLOCK_BYTES and end.endswith(padding):
        text = padded.slice(0, padded.nbytes - len(padding))
        if _is_model(text):
            return text
    raise CryptError(WRONG)


def _is_model(text: Source) -> bool:
    """Whether the text is a ModelProto with a known field, or without any."""
    try:
        model = decode(text, Model, DEEPEST)
    except DecodeError:
        return False
    return not text.nbytes or replace(model, unknown_fields=b"") != Model()


def _new_stream(variant: Variant, key: bytes, header: bytes) -> CipherStream:
    ciphers, nonce = _ciphers(), header[-variant.nonce_nbytes :]
    stream: CipherStream = (
        ciphers.AesGcm(key, nonce, header) if variant is GCM else ciphers.ChaCha20Poly1305(key, nonce, b"")
    )
    return stream


def _ciphers() -> Any:
    """The module `ciphers`.

    Raises: MissingPackageError if the library that it needs is missing.
    """
    with needed("cryptography", "encrypted models"):
        from formats.onnxpb.encryption import ciphers
    return ciphers
