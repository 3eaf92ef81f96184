"""Encrypted models with onnx-light's functions and terms: `save_encrypted`, `load_encrypted` and similar ones.

Spec: onnx-light, "Encrypted model I/O".
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from formats.codecs.contract import ReadOptions
from formats.onnx_compat.protos.classes import ModelProto, unwrap
from formats.onnx_compat.protos.copies import adopted
from formats.onnxpb.encryption import crypt
from formats.onnxpb.options import CryptOptions
from formats.tensordata.engine import EngineOptions, execute, to_bytes
from formats.tensordata.file import File
from formats.tensordata.sources.source import Literal

if TYPE_CHECKING:
    import os

    from formats.codecs.keys import Key
    from formats.tensordata.plan import WritePlan
    from formats.tensordata.sources.source import Source

__all__ = ["load_encrypted", "load_encrypted_string", "save_encrypted", "save_encrypted_string"]


def save_encrypted(
    proto: Any, f: str | os.PathLike[str], key: Key | str | bytes, *, encryption: str = crypt.GCM.title
) -> None:
    """Write a model to an encrypted file, with all its weights.

    `encryption` is "AES-256-GCM", "ChaCha20-Poly1305" or "AES-256-CBC". The last, which onnx-light uses by default,
    does not detect changes and forgeries.

    Raises: CryptError if it cannot be encrypted; TensorDataError if weights are missing; OSError.
    """
    execute(_encrypted(proto, Path(f), key, encryption), EngineOptions(overwrite=True))


def load_encrypted(f: str | os.PathLike[str], key: Key | str | bytes, *, encryption: str | None = None) -> ModelProto:
    """The ModelProto in an encrypted file; its weights are decrypted when they are read.

    The file may be of each kind that shows whether it was changed, or of the kind `encryption` only, where that is
    given: "AES-256-CBC" opens what cannot show it.

    Raises: CryptError if the key is wrong, the file was tampered with or is of another kind; DecodeError; OSError.
    """
    return _decrypted(File.open(f).span(), Path(f), key, encryption)


def save_encrypted_string(proto: Any, key: Key | str | bytes, *, encryption: str = crypt.GCM.title) -> bytes:
    """The bytes of an encrypted file, as `save_encrypted` writes it."""
    return to_bytes(_encrypted(proto, Path("model.onnxc"), key, encryption))


def load_encrypted_string(data: bytes, key: Key | str | bytes, *, encryption: str | None = None) -> ModelProto:
    """The ModelProto in the bytes of an encrypted file, as `load_encrypted` reads it."""
    return _decrypted(Literal(data), None, key, encryption)


def _encrypted(proto: Any, path: Path, key: Key | str | bytes, encryption: str) -> WritePlan:
    return crypt.plan_model(unwrap(proto), path, CryptOptions(key, crypt.by_title(encryption).number))


def _decrypted(source: Source, path: Path | None, key: Key | str | bytes, encryption: str | None) -> ModelProto:
    allowed = None
    if encryption is not None:
        wanted = crypt.by_title(encryption)
        crypt.check_variant(source, wanted)
        allowed = None if wanted.tag_nbytes else wanted.number
    found: ModelProto = adopted(crypt.read_model(source, path, ReadOptions(key=key, allow_encryption=allowed)))
    return found
