"""The recipe in docs/security.md: a file signed with `model-signing` is verified, a changed file is not."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import formats
from tests.programs import need

pytestmark = pytest.mark.outer


def keys(folder: Path) -> tuple[Path, Path]:
    """Make a private and a public key with openssl."""
    private, public = folder / "private.pem", folder / "public.pem"
    subprocess.run(["openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", private], check=True)
    subprocess.run(["openssl", "ec", "-in", private, "-pubout", "-out", public], check=True, capture_output=True)
    return private, public


@pytest.mark.parametrize("form", ["onnxz", "onnx"])
def test_recipe_of_signing(form: str, digits: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A signed archive, or a folder with a model and its data file, is verified; one changed byte is noticed."""
    signing = pytest.importorskip("model_signing", reason="needs the package model-signing", exc_type=ImportError)
    need("openssl")
    folder, outside = tmp_path_factory.mktemp("model"), tmp_path_factory.mktemp("keys")
    private, public = keys(outside)
    options = {"external_data": True} if form == "onnx" else {}
    formats.convert(digits, folder / f"model.{form}", **options)
    signature = outside / "model.sig"
    target = folder / "model.onnxz" if form == "onnxz" else folder
    signing.signing.Config().use_elliptic_key_signer(private_key=private).sign(target, signature)

    def verify() -> None:
        signing.verifying.Config().use_elliptic_key_verifier(public_key=public).verify(target, signature)

    verify()
    path = folder / ("model.onnxz" if form == "onnxz" else "model.onnx.data")
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(ValueError, match=r"(?i)mismatch|differ"):
        verify()
