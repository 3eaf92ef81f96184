"""The codec passes the contract, and the library of safetensors reads its files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from formats_safetensors import CODEC, SafetensorsOptions

import formats
from formats.testing import Check, contract, linear

OPTIONS = [SafetensorsOptions(), SafetensorsOptions(size_threshold=0, buffer_alignment=4096, note={"author": "me"})]


@pytest.mark.parametrize("check", contract(CODEC, options=OPTIONS), ids=str)
def test_contract(check: Check, tmp_path: Path) -> None:
    """Every check of the contract passes."""
    check(tmp_path)


def test_safetensors_reads_the_weights(tmp_path: Path) -> None:
    """Other programs read the model's tensors with their names, and the note."""
    from safetensors import safe_open

    model = linear(100)
    formats.save(model, tmp_path / "m.safetensors", options=SafetensorsOptions(note={"author": "me"}))
    with safe_open(tmp_path / "m.safetensors", "numpy") as file:
        assert {"w", "__model_proto__"} == {*file.keys()}
        assert file.metadata() == {"format": "onnx", "author": "me"}
        read = formats.load(tmp_path / "m.safetensors").graph
        assert read is not None
        assert np.array_equal(file.get_tensor("w"), read.initializer[0].numpy())


def test_files_of_others_are_named(tmp_path: Path) -> None:
    """The error about weights without a graph says so."""
    from safetensors.numpy import save_file

    save_file({"w": np.zeros(3)}, tmp_path / "w.safetensors")
    with pytest.raises(formats.UnknownFormatError, match="a safetensors file"):
        formats.load(tmp_path / "w.safetensors")


def damaged(tmp_path: Path, change: Any) -> Path:
    """Return a file with a changed header."""
    path = tmp_path / "m.safetensors"
    formats.save(linear(100), path)
    data = path.read_bytes()
    end = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:end])
    change(header)
    text = json.dumps(header, separators=(",", ":")).encode().ljust(end - 8)
    path.write_bytes(len(text).to_bytes(8, "little") + text + data[end:])
    return path


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda header: header["w"]["data_offsets"].reverse(), "is not possible"),
        (lambda header: header["w"].update(shape=[1]), "are others in the header"),
        (lambda header: header["w"].update(dtype="I32"), "are others in the header"),
        (lambda header: header["w"].update(data_offsets=[8, 40000]), "expected 0"),
        (lambda header: header["w"].pop("shape"), "does not tell"),
        (lambda header: header.pop("__model_proto__"), "need 40000 bytes"),
        (lambda header: header.update(v=header.pop("w")), "no tensor 'w'"),
    ],
)
def test_wrong_headers_are_refused(tmp_path: Path, change: Any, words: str) -> None:
    """A file that safetensors does not allow, or that does not fit its graph, is an error that says why."""
    with pytest.raises(formats.DecodeError, match=words):
        formats.load(damaged(tmp_path, change), format="safetensors")
