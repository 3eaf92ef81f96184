"""Tests of forged files that somebody makes from encrypted models without the key, or puts in their place."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

import formats
from formats import onnxpb
from formats.errors import CryptError, FormatError
from formats.onnxpb.encryption import crypt
from formats.tensordata.sources.source import Literal

pytest.importorskip("cryptography")

KEY = "correct horse"
MODEL = onnx.ModelProto(
    ir_version=8,
    producer_name="pytorch",
    producer_version="2.5.1",
    graph=onnx.GraphProto(name="g"),
    opset_import=[onnx.OperatorSetIdProto(version=17)],
)
KNOWN = b"\x08\x08\x12\x07pytorch\x1a\x052.5.1"[:16]  # the usual start of such a model, which anybody can guess
UNKNOWN = b"\xf8\x3f"  # the tag of field 1023, a varint; ModelProto has no such field
SWALLOW = b"\xfa\x3f\x10"  # the same field with a value of 16 bytes


@pytest.fixture(autouse=True)
def quick_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Derive keys in one round."""
    monkeypatch.setattr(crypt, "KEY_ITERATIONS", 1)


def encrypted(variant: int) -> bytes:
    """Return the model, encrypted."""
    return formats.dumps(formats.loads(MODEL.SerializeToString()), "onnxc", key=KEY, encryption=variant)


def xor(first: bytes, second: bytes) -> bytes:
    """Return two blocks combined by exclusive or."""
    return bytes(a ^ b for a, b in zip(first, second, strict=True))


def forged(victim: bytes) -> bytes:
    """Make a file from `victim`, of variant 3, without its key; the key opens it as variant 1, with another graph.

    The first 16 bytes of the text are known, so one block of key bytes is known: the encryption of the nonce and the
    counter 2. In AES-256-CBC, a block with these key bytes is decrypted to that counter, and the block before it
    chooses the text. That block itself is decrypted to random bytes, which an unknown field takes.
    """
    salt, nonce, ciphertext = victim[8:24], victim[24:36], victim[52:]
    counter, block = nonce + (2).to_bytes(4, "big"), xor(ciphertext[:16], KNOWN)
    first = b"\x08\x08" + UNKNOWN + b"\x80" * 8 + b"\0" + SWALLOW
    last = b"\x3a\x05\x12\x03bad" + UNKNOWN + b"\x80" * 5 + b"\0" + b"\1"  # the graph, and padding
    return b"ONNXCRY1" + salt + xor(counter, first) + block + xor(counter, last) + block


def test_downgrade_is_refused(tmp_path: Path) -> None:
    """An AES-256-GCM file that was turned into an AES-256-CBC file is refused by every function that opens files."""
    path = tmp_path / "m.onnxc"
    path.write_bytes(forged(encrypted(3)))
    for use in (
        lambda: formats.load(path, key=KEY),
        lambda: formats.loads(path.read_bytes(), key=KEY),
        lambda: formats.inspect(path, key=KEY),
        lambda: formats.convert(path, tmp_path / "m.onnx", key=KEY),
        lambda: formats.convert(path, tmp_path / "new.onnxc", key=KEY),
        lambda: formats.diff(path, path, key=KEY),
        lambda: onnxpb.load_encrypted(path, KEY),
        lambda: onnxpb.load_encrypted(path, KEY, encryption="AES-256-GCM"),
        lambda: onnxpb.load_encrypted_string(path.read_bytes(), KEY),
    ):
        with pytest.raises(CryptError, match=r"changed or forged|not with AES-256-GCM"):
            use()
    found = formats.verify(path, key=KEY, data=True)
    assert (False, ["encryption"]) == (found.ok, [finding.kind for finding in found.errors])
    assert [path] == list(tmp_path.iterdir())


def test_forgery_works_where_it_is_allowed() -> None:
    """The attack of the test above is real: with the permission, the file opens with the attacker's graph."""
    model = formats.loads(forged(encrypted(3)), key=KEY, allow_encryption=1)
    assert model.graph is not None
    assert "bad" == model.graph.name


@pytest.mark.parametrize("found", [1, 2, 3])
@pytest.mark.parametrize("claimed", [1, 2, 3])
@pytest.mark.parametrize("allowed", [None, 1])
def test_labels_cannot_be_exchanged(found: int, claimed: int, allowed: int | None) -> None:
    """A file with the magic of another variant cannot be opened without a permission, however the nonce is cut."""
    file = encrypted(found)
    magic, whole_blocks = b"ONNXCRY%d" % claimed, len(file) - (len(file) - 40) % 16
    for body in (file[8:], file[8:36] + file[40:], file[8:36] + bytes(16) + file[36:], file[8:whole_blocks]):
        if found == claimed and body == file[8:]:
            continue
        # Without a tag, one cut in 256 leaves what looks like padding: then the message is wrong.
        with pytest.raises(FormatError if (found, claimed, allowed) == (1, 1, 1) else CryptError):
            formats.loads(magic + body, key=KEY, allow_encryption=allowed)


def test_old_files_become_authenticated_ones(tmp_path: Path) -> None:
    """With the permission, an AES-256-CBC file is converted to one with a tag; the report says what it cannot prove."""
    old, new = tmp_path / "old.onnxc", tmp_path / "new.onnxc"
    old.write_bytes(encrypted(1))
    report = formats.convert(old, new, key=KEY, allow_encryption=1, strict=True)
    assert ["unauthenticated"] == [loss.kind for loss in report.losses]
    assert formats.loads(MODEL.SerializeToString()) == formats.load(new, key=KEY)
    found = formats.verify(old, key=KEY, allow_encryption=1)
    assert (True, ["encryption"]) == (found.ok, [finding.kind for finding in found.notes])
    assert (True, ()) == (lambda verified: (verified.ok, verified.notes))(formats.verify(new, key=KEY))


def test_writing_without_a_tag_is_told(tmp_path: Path) -> None:
    """A conversion to AES-256-CBC reports that nothing protects the file against changes."""
    model = formats.loads(MODEL.SerializeToString())
    for variant, kinds in ((1, ["unauthenticated"]), (2, []), (3, [])):
        report = formats.save(model, tmp_path / f"{variant}.onnxc", key=KEY, encryption=variant)
        assert kinds == [loss.kind for loss in report.losses]


@pytest.mark.parametrize("value", [0, 2, 3, 4, "1", (1,)])
def test_only_what_needs_it_is_permitted(value: object) -> None:
    """A permission for anything but variant 1 is an error, which is reported before a file is opened."""
    with pytest.raises(ValueError, match=r"`allow_encryption` is .*, but must be 1"):
        formats.load("missing.onnxc", key=KEY, allow_encryption=value)


# Plain files in the place of an encrypted one

FORMATS = ("onnx", "onnxz", "rten", "json", "textproto")


@pytest.mark.parametrize("form", FORMATS)
def test_plain_files_in_the_place_of_encrypted_ones(form: str, tmp_path: Path) -> None:
    """A file called .onnxc that is not encrypted is refused, even without a key: anyone could have made it."""
    path = tmp_path / "m.onnxc"
    path.write_bytes(formats.dumps(formats.loads(MODEL.SerializeToString()), form))
    for key in (KEY, None):
        with pytest.raises(CryptError):
            formats.load(path, key=key)
        with pytest.raises(CryptError):
            formats.convert(path, tmp_path / "new.onnxc", key=KEY)
    assert formats.load(path, format=form) is not None  # a caller who knows better can name the format


@pytest.mark.parametrize("form", FORMATS)
def test_key_for_a_plain_file(form: str, tmp_path: Path) -> None:
    """A key for a file that is not encrypted is refused, for any file name, since the key would protect nothing."""
    path = tmp_path / "m"
    path.write_bytes(formats.dumps(formats.loads(MODEL.SerializeToString()), form))
    for use in (
        lambda: formats.load(path, key=KEY),
        lambda: formats.loads(path.read_bytes(), format=form, key=KEY),
        lambda: formats.load(path, format=form, key=KEY),
        lambda: formats.inspect(path, format=form, key=KEY),
        lambda: formats.convert(path, tmp_path / "new.onnx", from_format=form, key=KEY),
        lambda: formats.diff(path, path, key=KEY),
    ):
        with pytest.raises(CryptError, match="anyone could have made it"):
            use()
    assert not formats.verify(path, key=KEY).ok
    formats.convert(path, tmp_path / "new.onnxc", from_format=form, key=KEY)  # here the key is for the new file
    assert formats.diff(path, tmp_path / "new.onnxc", key=KEY).formats == (form, "onnxc")


def test_weights_outside_of_an_encrypted_model(tmp_path: Path) -> None:
    """An encrypted graph with unencrypted weights next to it fails verification, and a conversion reports it."""
    model = onnx.ModelProto.FromString(MODEL.SerializeToString())
    tensor = model.graph.initializer.add(name="w", data_type=2, dims=[3], data_location=1)
    tensor.external_data.add(key="location", value="w.data")
    (tmp_path / "w.data").write_bytes(b"abc")
    text = Literal(model.SerializeToString())
    path = tmp_path / "m.onnxc"
    file = crypt.encrypt(text, path, KEY.encode())
    path.write_bytes(formats.tensordata.engine.to_bytes(formats.tensordata.plan.WritePlan((file,))))
    found = formats.verify(path, key=KEY)
    assert [("encryption", "graph.initializer[0]")] == [(finding.kind, finding.where) for finding in found.errors]
    report = formats.convert(path, tmp_path / "new.onnxc", key=KEY)
    assert ["unauthenticated"] == [loss.kind for loss in report.losses if loss.matters]
    assert formats.verify(tmp_path / "new.onnxc", key=KEY).ok
