"""Tests of encrypted models, checked against the `openssl` command and the one-shot ciphers of `cryptography`."""

from __future__ import annotations

import hashlib
import os
import random
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from formats.codecs.contract import Match, ReadOptions
from formats.codecs.keys import MAX_KEY_BYTES, Key
from formats.errors import CryptError, DecodeError, ExternalDataError, MissingPackageError, OptionError, TensorDataError
from formats.ir.model import Graph, Model, Tensor
from formats.onnxpb.codecs import CODEC, CRYPT_CODEC
from formats.onnxpb.encryption import ciphers, ciphertext, crypt
from formats.onnxpb.options import CryptOptions, OnnxOptions
from formats.tensordata.engine import EngineOptions, execute, to_bytes
from formats.tensordata.file import File
from formats.tensordata.plan import WritePlan
from formats.tensordata.sources.source import Concat, Literal, Source
from tests.programs import need

PASSWORD = b"correct horse"
SALT = bytes(range(16))
ITERATIONS = crypt.KEY_ITERATIONS
NONCES = {1: bytes(range(100, 116)), 2: bytes(range(100, 112)), 3: bytes(range(200, 212))}
PIECE = ciphertext.PIECE_BYTES
SIZES = [0, 1, 15, 16, 17, 63, 64, 65, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE + 100]
VARIANTS = [1, 2, 3]
TAGGED = [2, 3]
READING = ReadOptions(key=Key(PASSWORD), allow_encryption=1)


@pytest.fixture(autouse=True)
def quick_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Derive keys in one round: some tests need hundreds of keys."""
    monkeypatch.setattr(crypt, "KEY_ITERATIONS", 1)


def model_text(nbytes: int = 5000) -> bytes:
    """Return a serialised model with a weight of `nbytes` bytes."""
    weight = onnx.TensorProto(name="w", data_type=2, dims=[nbytes], raw_data=random.Random(nbytes).randbytes(nbytes))
    return onnx.ModelProto(ir_version=10, graph=onnx.GraphProto(name="g", initializer=[weight])).SerializeToString()


def encrypt(
    text: bytes | Source, variant: int, options: EngineOptions | None = None, *, password: bytes = PASSWORD
) -> bytes:
    """Return the file that we write with a fixed salt and nonce."""
    source = Literal(text) if isinstance(text, bytes) else text
    file = crypt.encrypt(source, Path("m"), password, variant, salt=SALT, nonce=NONCES[variant])
    return to_bytes(WritePlan((file,)), options)


def decrypt(source: Source, password: bytes) -> Source:
    """Return the text of an encrypted model of any variant."""
    return crypt.decrypt(source, password, allow_encryption=1)


def expected(text: bytes, variant: int, iterations: int = 1) -> bytes:
    """Return the file as the description of the format defines it, made without our code."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305

    key = hashlib.pbkdf2_hmac("sha256", PASSWORD, SALT, iterations, 32)
    header = b"ONNXCRY%d" % variant + SALT + NONCES[variant]
    if variant == 1:
        return header + openssl_cbc(key, NONCES[1], text)
    if variant == 2:
        sealed = ChaCha20Poly1305(key).encrypt(NONCES[2], text, None)
    else:
        sealed = AESGCM(key).encrypt(NONCES[3], text, header)
    return header + sealed[-16:] + sealed[:-16]


def openssl_cbc(key: bytes, iv: bytes, text: bytes) -> bytes:
    """Return what the `openssl` command encrypts with AES-256-CBC."""
    need("openssl")
    command = ["openssl", "enc", "-aes-256-cbc", "-K", key.hex(), "-iv", iv.hex()]
    return subprocess.run(command, input=text, stdout=subprocess.PIPE, check=True).stdout


# Comparison with other programs

GOLDEN = {
    1: "4f4e4e5843525931000102030405060708090a0b0c0d0e0f6465666768696a6b6c6d6e6f70717273"
    "02f5f18856c75d32864aef7a8eee0afe",
    2: "4f4e4e5843525932000102030405060708090a0b0c0d0e0f6465666768696a6b6c6d6e6f3a63102f"
    "b340ac0b9526c14261b61f4a194cbc6d01f9cf",
    3: "4f4e4e5843525933000102030405060708090a0b0c0d0e0fc8c9cacbcccdcecfd0d1d2d35073703f"
    "2f28bcfb576c6884f6aef443c145480f20a82e",
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_golden_files(variant: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model of a few bytes, with a key of 100,000 rounds, is written with the same bytes as ever, and can be read."""
    monkeypatch.setattr(crypt, "KEY_ITERATIONS", ITERATIONS)
    text = onnx.ModelProto(ir_version=10, graph=onnx.GraphProto(name="g")).SerializeToString()
    golden = bytes.fromhex(GOLDEN[variant])
    assert golden == encrypt(text, variant)
    assert golden == expected(text, variant, 100_000)
    assert Model(ir_version=10, graph=Graph(name="g")) == CRYPT_CODEC.read(Literal(golden), None, READING)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("nbytes", SIZES)
def test_ciphertext_is_that_of_others(variant: int, nbytes: int) -> None:
    """Texts of any size near a block or a piece are encrypted to the same bytes as by others, including the tag."""
    text = random.Random(nbytes).randbytes(nbytes)
    assert expected(text, variant) == encrypt(text, variant)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("nbytes", [0, *range(1, 40), PIECE - 60, 2 * PIECE])
def test_files_of_others_are_read(variant: int, nbytes: int) -> None:
    """A file that others encrypted is decrypted, as a whole and in ranges."""
    text = model_text(nbytes)
    decrypted = decrypt(Literal(expected(text, variant)), PASSWORD)
    assert text == decrypted.read()
    assert text == bytes(decrypted.view())
    assert text[3:9] == decrypted.read(3, 6)
    assert text[5:-2] == decrypted.slice(5, len(text) - 7).slice(0, len(text) - 7).read()


@settings(max_examples=60)
@given(st.binary(max_size=70), st.binary(max_size=200), st.binary(min_size=32, max_size=32), st.integers(0, 200))
def test_tags_of_any_header_and_text(header: bytes, text: bytes, key: bytes, split: int) -> None:
    """The tag of any header and text, processed in two parts, equals that of the library."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305

    nonce = key[:12]
    for stream, library in (
        (ciphers.AesGcm(key, nonce, header), AESGCM(key)),
        (ciphers.ChaCha20Poly1305(key, nonce, header), ChaCha20Poly1305(key)),
    ):
        sealed = library.encrypt(nonce, text, header)
        tag = stream.new_tag()
        tag.update(0, memoryview(sealed[:-16])[:split])
        tag.update(0, memoryview(sealed[:-16])[split:])
        assert sealed == stream.combine(0, text) + tag.digest()


def test_tag_counts_more_than_32_bits() -> None:
    """The tag of a text over 512 MiB, whose length in bits needs more than 32 bits, equals that of the library."""
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    key, nonce, chunk = bytes(32), bytes(12), bytes(1 << 20)
    library = Cipher(algorithms.AES(key), modes.GCM(nonce)).encryptor()
    tag = ciphers.AesGcm(key, nonce, b"").new_tag()
    for _ in range(513):
        tag.update(0, memoryview(library.update(chunk)))
    library.finalize()
    assert library.tag == tag.digest()


# Far offsets in large files


@dataclass(frozen=True, slots=True, eq=False)
class Sparse(Source):
    """Any number of zeros, with some other bytes at one place."""

    nbytes: int
    offset: int = 0
    data: bytes = b""

    def readinto(self, offset: int, buffer: memoryview) -> None:
        """Fill the buffer with zeros and the part of the data in this range."""
        self._check_range(offset, len(buffer))
        buffer[:] = bytes(len(buffer))
        low, high = max(offset, self.offset), min(offset + len(buffer), self.offset + len(self.data))
        if low < high:
            buffer[low - offset : high - offset] = self.data[low - self.offset : high - self.offset]

    def slice(self, offset: int, nbytes: int) -> Source:
        """Not needed."""
        raise NotImplementedError

    def view(self) -> memoryview:
        """Not needed."""
        raise NotImplementedError


def gcm_key_bytes(key: bytes, nonce: bytes, block: int) -> bytes:
    """Return the key bytes of one block of AES-GCM, computed with the block cipher itself."""
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    counter = nonce + (block + 2).to_bytes(4, "big")
    return Cipher(algorithms.AES(key), modes.ECB()).encryptor().update(counter)


def chacha_key_bytes(key: bytes, nonce: bytes, block: int) -> bytes:
    """Return the key bytes of one block of ChaCha20, as RFC 8439 describes them."""
    words = [int.from_bytes(part[i : i + 4], "little") for part in (key, nonce) for i in range(0, len(part), 4)]
    start = [0x61707865, 0x3320646E, 0x79622D32, 0x6B206574, *words[:8], block + 1, *words[8:]]
    state = list(start)

    def turn(a: int, b: int, by: int, into: int) -> None:
        state[a] = (state[a] + state[b]) & 0xFFFFFFFF
        mixed = state[into] ^ state[a]
        state[into] = (mixed << by | mixed >> (32 - by)) & 0xFFFFFFFF

    for _ in range(10):
        for step in (0, 1):
            for column in range(4):
                a, b, c, d = (row * 4 + (column + step * row) % 4 for row in range(4))
                turn(a, b, 16, d)
                turn(c, d, 12, b)
                turn(a, b, 8, d)
                turn(c, d, 7, b)
    return b"".join(((s + t) & 0xFFFFFFFF).to_bytes(4, "little") for s, t in zip(state, start, strict=True))


@pytest.mark.parametrize(("variant", "block_nbytes", "key_bytes"), [(2, 64, chacha_key_bytes), (3, 16, gcm_key_bytes)])
@pytest.mark.parametrize("offset", [0, 1 << 31, (1 << 32) + 5, 5 << 30, (1 << 36) - 32 - 100])
def test_ranges_far_into_a_text(
    variant: int, block_nbytes: int, key_bytes: Callable[[bytes, bytes, int], bytes], offset: int
) -> None:
    """A range at any offset up to the last is encrypted with the key bytes for that offset."""
    text = Sparse(crypt.VARIANTS[3].max_nbytes, offset, b"far away")
    plan = crypt.encrypt(text, Path("m"), PASSWORD, variant, salt=SALT, nonce=NONCES[variant])
    key = crypt.derive_key(PASSWORD, SALT)
    block, skip = divmod(offset, block_nbytes)
    stream = b"".join(key_bytes(key, NONCES[variant], block + number) for number in range(2))[skip:]
    assert (52, 52 + text.nbytes) == (plan.writes[-1].file_offset, plan.nbytes)
    assert bytes(a ^ b for a, b in zip(b"far away", stream, strict=False)) == plan.writes[-1].source.read(offset, 8)


@pytest.mark.parametrize(("variant", "limit"), [(2, (1 << 38) - 64), (3, (1 << 36) - 32)])
def test_no_more_than_the_counter_reaches(variant: int, limit: int) -> None:
    """A text as long as the cipher permits is planned, and encrypted to its last byte; a longer text is refused."""
    plan = crypt.encrypt(Sparse(limit), Path("m"), PASSWORD, variant)
    assert 1 == len(plan.writes[-1].source.read(limit - 1, 1))
    with pytest.raises(CryptError, match="encrypts at most"):
        crypt.encrypt(Sparse(limit + 1), Path("m"), PASSWORD, variant)
    with pytest.raises(CryptError, match="encrypts at most"):
        decrypt(Sparse(52 + limit + 1, 0, b"ONNXCRY%d" % variant), PASSWORD)


def test_no_limit_without_a_counter() -> None:
    """AES-256-CBC takes a text of any size."""
    assert (1 << 40) + 56 == crypt.encrypt(Sparse(1 << 40), Path("m"), PASSWORD, 1).nbytes


# Writing


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("threads", [1, 2, 8])
@pytest.mark.parametrize("chunk_bytes", [1000, 1 << 16, 1 << 22])
def test_threads_and_chunks_do_not_show(variant: int, threads: int, chunk_bytes: int) -> None:
    """The bytes are the same however the engine splits the work."""
    text = random.Random(1).randbytes(5 * PIECE + 7)
    options = EngineOptions(threads=threads, chunk_bytes=chunk_bytes, in_flight_bytes=1 << 16)
    assert encrypt(text, variant) == encrypt(text, variant, options)


@pytest.mark.parametrize("variant", VARIANTS)
def test_ciphertext_in_any_order(variant: int) -> None:
    """Ranges of a ciphertext are the same in any order, and so are ranges of ranges."""
    text = random.Random(2).randbytes(4 * PIECE)
    plan = crypt.encrypt(Literal(text), Path("m"), PASSWORD, variant, salt=SALT, nonce=NONCES[variant])
    source = plan.writes[-1].source
    whole = encrypt(text, variant)[plan.writes[-1].file_offset :]
    for offset, nbytes in ((3 * PIECE + 5, 9), (0, 1), (PIECE, 2 * PIECE), (PIECE - 1, 2), (7, 0)):
        assert whole[offset : offset + nbytes] == source.read(offset, nbytes)
        assert whole[offset : offset + nbytes] == source.slice(offset, nbytes).read()


def test_salt_and_nonce_are_new_each_time() -> None:
    """The same model, encrypted twice, has different salts, nonces and ciphertexts."""
    model = CODEC.read(Literal(model_text()), None)
    one, two = (to_bytes(CRYPT_CODEC.plan(model, Path("m"), CryptOptions(Key(PASSWORD)))) for _ in range(2))
    assert all(one[i : i + 12] != two[i : i + 12] for i in (8, 24, 36, 52))


def test_variant_3_is_written_by_default() -> None:
    """By default, the variant is written whose tag protects everything."""
    model = CODEC.read(Literal(model_text()), None)
    assert to_bytes(CRYPT_CODEC.plan(model, Path("m"), CryptOptions(Key(PASSWORD)))).startswith(b"ONNXCRY3")
    with pytest.raises(OptionError, match="`encryption` is 4"):
        CryptOptions(Key(PASSWORD), 4)


@pytest.mark.parametrize("variant", VARIANTS)
def test_external_data_are_encrypted_too(variant: int, tmp_path: Path) -> None:
    """A model with external data becomes one file that contains them, and nothing else is written."""
    model = CODEC.read(Literal(model_text()), None)
    execute(CODEC.plan(model, tmp_path / "m.onnx", OnnxOptions(external_data=True)))
    path = tmp_path / "m.onnx"
    external = CODEC.read(File.open(path).span(), path)
    (tmp_path / "out").mkdir()
    execute(CRYPT_CODEC.plan(external, tmp_path / "out" / "m.onnxc", CryptOptions(Key(PASSWORD), variant)))
    assert ["m.onnxc"] == [found.name for found in (tmp_path / "out").iterdir()]
    path = tmp_path / "out" / "m.onnxc"
    assert model == CRYPT_CODEC.read(File.open(path).span(), path, READING)


def test_missing_weights_are_not_left_outside() -> None:
    """A model whose external data were not found is refused, and not encrypted without them."""
    tensor = onnx.TensorProto(name="w", data_type=2, dims=[3], data_location=1)
    tensor.external_data.add(key="location", value="w.data")
    proto = onnx.ModelProto(graph=onnx.GraphProto(initializer=[tensor]))
    model = CODEC.read(Literal(proto.SerializeToString()), None)
    with pytest.raises(ExternalDataError):
        CRYPT_CODEC.plan(model, Path("m"), CryptOptions(Key(PASSWORD)))


def test_large_files_warn_about_peers() -> None:
    """For a file over 2 GiB, the plan has a note that onnx-light cannot read it."""
    model = CODEC.read(Literal(model_text()), None)
    assert model.graph is not None
    tensor = model.graph.initializer[0]
    tensor.dims, tensor.raw_data = [3 << 30], Sparse(3 << 30)
    plan = CRYPT_CODEC.plan(model, Path("m"), CryptOptions(Key(PASSWORD)))
    assert ["peer_limit"] == [loss.kind for loss in plan.losses]
    assert plan.nbytes > 3 << 30


@pytest.mark.outer
@pytest.mark.parametrize("variant", TAGGED)
def test_more_than_2_gib_both_ways(variant: int) -> None:
    """A model over 2 GiB is encrypted and read again in a few MiB of memory, and its last part is unchanged."""
    nbytes, far = (1 << 31) + (1 << 20), 1 << 31
    tensor = Tensor(name="w", data_type=2, dims=[nbytes], raw_data=Sparse(nbytes, far, b"far away"))
    model = Model(ir_version=10, graph=Graph(name="g", initializer=[tensor]))
    tracemalloc.start()
    try:
        (file,) = CRYPT_CODEC.plan(model, Path("m"), CryptOptions(Key(PASSWORD), variant)).files
        header, text = file.writes
        assert text.digest is not None
        digests = execute(WritePlan((), digests=((text.digest, text.source),)), EngineOptions(threads=1)).digests
        tag = Literal(file.late_writes[0].render(digests))
        graph = CRYPT_CODEC.read(Concat.of(header.source, tag, text.source), None, READING).graph
        assert graph is not None
        assert bytes(3) + b"far away" + bytes(3) == graph.initializer[0].source().read(far - 3, 14)
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("variant", VARIANTS)
def test_memory_is_bounded_on_write(variant: int, tmp_path: Path) -> None:
    """A file is encrypted piece by piece, even if each block depends on the one before."""
    file = crypt.encrypt(Sparse(64 << 20), tmp_path / "m", PASSWORD, variant)
    tracemalloc.start()
    try:
        execute(WritePlan((file,)), EngineOptions(threads=2, chunk_bytes=1 << 20))
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()
    assert file.nbytes == (tmp_path / "m").stat().st_size


# Reading damaged files


@pytest.mark.parametrize("variant", VARIANTS)
def test_wrong_keys_are_noticed(variant: int) -> None:
    """Many wrong keys never give a text, although one in 256 gives a padding that could be valid."""
    data = Literal(encrypt(model_text(100), variant))
    for number in range(600):
        with pytest.raises(CryptError, match="key is wrong"):
            decrypt(data, b"wrong %d" % number)


@pytest.mark.parametrize("variant", TAGGED)
def test_every_flipped_bit_is_noticed(variant: int) -> None:
    """A file with any single bit flipped, in magic, salt, nonce, tag or ciphertext, gives no text."""
    data = bytearray(encrypt(model_text(20), variant))
    for bit in range(8 * len(data)):
        data[bit // 8] ^= 1 << bit % 8
        with pytest.raises(CryptError):
            decrypt(Literal(bytes(data)), PASSWORD)
        data[bit // 8] ^= 1 << bit % 8
    decrypt(Literal(bytes(data)), PASSWORD)


@pytest.mark.parametrize("nbytes", [20, 29, 3 * PIECE])
def test_flipped_bits_that_cbc_can_notice(nbytes: int) -> None:
    """Without a tag, a flip in magic, salt or the first blocks is noticed or changes the text."""
    text = model_text(nbytes)
    data = bytearray(encrypt(text, 1))
    for bit in range(8 * 60):
        data[bit // 8] ^= 1 << bit % 8
        try:
            assert text != decrypt(Literal(bytes(data)), PASSWORD).read()
        except CryptError:
            pass
        data[bit // 8] ^= 1 << bit % 8
    data[3] ^= 1
    with pytest.raises(CryptError):
        decrypt(Literal(bytes(data)), PASSWORD)


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_truncation_is_noticed(variant: int) -> None:
    """A file that is cut anywhere, or has additional bytes at the end, gives no text."""
    data = encrypt(model_text(60), variant)
    for end in range(len(data)):
        with pytest.raises(CryptError):
            decrypt(Literal(data[:end]), PASSWORD)
    for more in (b"\0", bytes(16)):
        with pytest.raises(CryptError):
            decrypt(Literal(data + more), PASSWORD)


@settings(max_examples=200)
@given(st.sampled_from([b"", b"ONNXCRY1", b"ONNXCRY2", b"ONNXCRY3", b"ONNXCRY9"]), st.binary(max_size=120))
def test_any_bytes_give_a_crypt_error(magic: bytes, rest: bytes) -> None:
    """Arbitrary bytes raise only CryptError."""
    with pytest.raises(CryptError):
        decrypt(Literal(magic + rest), PASSWORD)


def test_unknown_variant_is_named() -> None:
    """An unknown variant is refused by its name, and still recognised as an encrypted model."""
    with pytest.raises(CryptError, match="ONNXCRY4"):
        decrypt(Literal(b"ONNXCRY4" + bytes(100)), PASSWORD)
    assert Match.STRONG is CRYPT_CODEC.sniff(b"ONNXCRY4", 108)
    assert Match.NONE is CRYPT_CODEC.sniff(b"\x08\x0a", 108)


def test_intact_file_without_a_model() -> None:
    """An encrypted file with a valid tag that is not a model gives a DecodeError: the key was right."""
    with pytest.raises(DecodeError):
        CRYPT_CODEC.read(Literal(encrypt(b"no model", 3)), None, READING)
    with pytest.raises(CryptError):
        decrypt(Literal(encrypt(b"no model", 1)), PASSWORD)


# Reading files that change


@pytest.mark.parametrize("variant", VARIANTS)
def test_change_after_opening_is_noticed(variant: int) -> None:
    """Bytes that change after the file was opened are refused; other parts can still be read."""
    text = model_text(3 * PIECE)
    data = bytearray(encrypt(text, variant))
    decrypted = decrypt(Literal(memoryview(data)), PASSWORD)
    data[2 * PIECE] ^= 1
    assert text[:PIECE] == decrypted.read(0, PIECE)
    with pytest.raises(CryptError, match="changed"):
        decrypted.read(2 * PIECE - 100, 50)
    with pytest.raises(CryptError, match="changed"):
        decrypted.view()


@pytest.mark.parametrize("variant", VARIANTS)
def test_shrunken_file_is_noticed(variant: int, tmp_path: Path) -> None:
    """A file that is truncated while the model is in use is an error, and so is one that was truncated earlier."""
    path = tmp_path / "m.onnxc"
    path.write_bytes(encrypt(model_text(3 * PIECE), variant))
    model = CRYPT_CODEC.read(File.open(path).span(), path, READING)
    assert model.graph is not None
    source, opened = model.graph.initializer[0].source(), File.open(path).span()
    path.write_bytes(path.read_bytes()[:PIECE])
    with pytest.raises(CryptError, match="changed"):
        source.read()
    with pytest.raises(CryptError, match="changed"):
        decrypt(opened, PASSWORD)


def test_engine_checks_the_encrypted_file(tmp_path: Path) -> None:
    """A conversion fails if the encrypted file changes meanwhile, even if everything that was read was right."""
    path = tmp_path / "m.onnxc"
    path.write_bytes(encrypt(model_text(3 * PIECE), 3))
    model = CRYPT_CODEC.read(File.open(path).span(), path, READING)
    path.write_bytes(path.read_bytes())
    with pytest.raises(TensorDataError, match="changed"):
        execute(CODEC.plan(model, tmp_path / "m.onnx", OnnxOptions()))


@pytest.mark.parametrize("variant", VARIANTS)
def test_weights_are_decrypted_when_asked_for(variant: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading a large model decrypts its structure; each weight is decrypted only when it is read."""
    text = model_text(1 << 20)
    data = Literal(encrypt(text, variant))
    monkeypatch.setattr("formats.onnxpb.wire.decoder.WHOLE_BYTES", 1 << 16)
    decrypted: list[int] = []
    original = ciphertext.Pieces.read
    monkeypatch.setattr(
        ciphertext.Pieces, "read", lambda self, number: decrypted.append(number) or original(self, number)
    )
    model = CRYPT_CODEC.read(data, None, READING)
    assert len(set(decrypted)) <= 4
    assert model.graph is not None
    assert CODEC.read(Literal(text), None) == model


# Keys and codec


def test_key_is_not_shown() -> None:
    """Printing a key or options that contain it does not show the password, in whatever form it was given."""
    for key in (Key(b"secret"), "secret", b"secret"):
        assert "secret" not in repr(CryptOptions(key)) + repr(ReadOptions(key=key))
    assert "secret" not in str(Key(b"secret"))


def test_keys_of_files(tmp_path: Path) -> None:
    """The key is the content of a key file without one line end; content that cannot be a key is refused."""
    path = tmp_path / "key"
    for content, password in (
        (b"k\n", b"k"),
        (b"k\r\n", b"k"),
        (b"k", b"k"),
        (b" k \n\n", b" k \n"),
        (b"\xff\0", b"\xff\0"),
    ):
        path.write_bytes(content)
        assert password == Key.from_file(path).password
    for content in (b"", b"\n", bytes(MAX_KEY_BYTES + 1)):
        path.write_bytes(content)
        with pytest.raises(CryptError, match="key file"):
            Key.from_file(path)
    with pytest.raises(FileNotFoundError):
        Key.from_file(tmp_path / "none")


def test_keys_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """The value of an environment variable is the key; the error names a variable that is not set."""
    monkeypatch.setenv("MODEL_KEY", "pä")
    assert "pä".encode() == Key.from_environment("MODEL_KEY").password
    monkeypatch.delenv("MODEL_KEY")
    with pytest.raises(CryptError, match="MODEL_KEY"):
        Key.from_environment("MODEL_KEY")
    with pytest.raises(CryptError, match="empty"):
        Key(b"")


@pytest.mark.parametrize("password", [b"\0", bytes(32), bytes(100)])
def test_zero_bytes_are_an_empty_key(password: bytes) -> None:
    """A key of zero bytes opens what an empty key opens, so it is refused like an empty one."""
    with pytest.raises(CryptError, match="only zero bytes"):
        Key(password)


@pytest.mark.parametrize("password", [b"k", b"7 bytes", b"7 bytes" + bytes(60)])
def test_a_short_key_encrypts_nothing_new(password: bytes) -> None:
    """A new file needs 8 bytes of key, without zero bytes at the end; an old file opens with its short key."""
    model = Model(graph=Graph(name="g"))
    with pytest.raises(CryptError, match="at least 8; use a random one"):
        CRYPT_CODEC.plan(model, Path("m"), CryptOptions(password))
    CRYPT_CODEC.plan(model, Path("m"), CryptOptions(b"8 bytes."))
    old = encrypt(model_text(100), 3, password=password)
    assert CODEC.read(Literal(model_text(100)), None) == CRYPT_CODEC.read(Literal(old), None, ReadOptions(key=password))


@pytest.mark.parametrize("key", [b"correct horse", b"a long key" * 10])
def test_which_keys_are_equal(key: bytes) -> None:
    """Zero bytes at the end of a key change nothing, and a key over 64 bytes equals its SHA-256; no other key opens."""
    equal = hashlib.sha256(key).digest() if len(key) > 64 else key + b"\0\0"
    old = encrypt(model_text(100), 3, password=key)
    assert CODEC.read(Literal(model_text(100)), None) == CRYPT_CODEC.read(Literal(old), None, ReadOptions(key=equal))
    for other in (key[:-1], b"\0" + key, key + b"\0x", key + b" "):
        with pytest.raises(CryptError, match="key is wrong"):
            CRYPT_CODEC.read(Literal(old), None, ReadOptions(key=other))


def test_one_sequence_of_bytes_is_one_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same bytes are the same key from a call, a file, a variable and text that contains them."""
    for password in (b"k", b"\xe9", b"\xff\xfe", "é".encode(), bytes(range(1, 256))):
        (tmp_path / "key").write_bytes(password + b"\n")
        monkeypatch.setitem(os.environb, b"MODEL_KEY", password)
        keys = [Key(password), Key.of(password), Key.of(os.fsdecode(password)), Key.from_file(tmp_path / "key")]
        keys += [Key.from_environment("MODEL_KEY"), Key.of(Key(password))]
        assert [Key(password)] * 6 == keys
        assert all(options(key=password).key == keys[0] for options in (ReadOptions, CryptOptions))
    assert Key.of("é") == Key.of("é".encode())


@pytest.mark.parametrize("key", [5, bytearray(b"k"), Path("key"), ["k"]])
def test_other_values_are_no_keys(key: Any) -> None:
    """A value that is neither text nor bytes is a TypeError that says what a key is."""
    for use in (Key.of, lambda value: ReadOptions(key=value), lambda value: CryptOptions(key=value)):
        with pytest.raises(TypeError, match=r"must be text, bytes or a `formats.Key`|a key is a Key, text or bytes"):
            use(key)


def test_bytes_that_onnx_light_takes_for_text() -> None:
    """onnx-light reads bytes as Latin-1 text; the same text opens its file."""
    file = encrypt(model_text(100), 3, password="é".encode())
    opened = CRYPT_CODEC.read(Literal(file), None, ReadOptions(key=b"\xe9".decode("latin-1")))
    assert CODEC.read(Literal(model_text(100)), None) == opened
    with pytest.raises(CryptError, match="key is wrong"):
        CRYPT_CODEC.read(Literal(file), None, ReadOptions(key=b"\xe9"))


def test_no_key_is_asked_for() -> None:
    """Without a key, nothing is read or written, and the error says how to give one."""
    with pytest.raises(CryptError, match="pass one with `key`"):
        CRYPT_CODEC.read(Literal(b"ONNXCRY3" + bytes(100)), None)
    with pytest.raises(CryptError, match="pass one with `key`"):
        CRYPT_CODEC.plan(Model(graph=Graph()), Path("m"), CryptOptions())


def test_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the library, the error names the extra that installs it."""
    for name in [name for name in sys.modules if name.split(".")[0] == "cryptography"]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, "formats.onnxpb.encryption.ciphers")
    monkeypatch.delattr(sys.modules["formats.onnxpb.encryption"], "ciphers")
    with pytest.raises(MissingPackageError, match=r"onnx-formats\[crypto\]"):
        decrypt(Literal(b"ONNXCRY3" + bytes(100)), PASSWORD)
    with pytest.raises(MissingPackageError, match=r"onnx-formats\[crypto\]"):
        crypt.encrypt(Literal(b""), Path("m"), PASSWORD)
