"""An encoder, a decoder, a decoder with a past and a tokenizer run from one mapped file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import formats
from tests.onnxzip.translation import SENTENCES, Run, in_onnxruntime, pack, random_weights, translated, vocabulary_in

if TYPE_CHECKING:
    from tests.runtime.runner import Runner

RELEASE = "0.27"
"""The release of RTen for which the reader in Rust is made."""


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> formats.Packed:
    """What `formats.pack` says of the archive."""
    return pack(tmp_path_factory.mktemp("translation") / "translation.onnxz")


def all_translated(run: Run, path: Path, *, with_past: bool) -> list[str]:
    """The translation of each sentence."""
    words = vocabulary_in(path)
    return [translated(run, words, sentence, with_past=with_past) for sentence in SENTENCES]


def test_weights_of_both_decoders_are_stored_once(packed: formats.Packed) -> None:
    """The second decoder adds no weights to the first; the words are those of the encoder, too."""
    arrays = random_weights()
    weights = sum(array.nbytes for array in arrays.values())
    shared = sum(array.nbytes for name, array in arrays.items() if "encoder" not in name) + arrays["words"].nbytes
    assert packed.shared_nbytes >= shared
    assert packed.nbytes < weights + 64_000


def test_onnxruntime_translates_with_a_past_as_without(packed: formats.Packed) -> None:
    """Sentences become different words, and the keys and values of a past change none of them."""
    found = all_translated(in_onnxruntime(packed.path), packed.path, with_past=True)
    assert found == all_translated(in_onnxruntime(packed.path), packed.path, with_past=False)
    assert len(set(found)) == len(SENTENCES) and all(len(set(words.split())) > 3 for words in found)


def test_rten_translates_as_onnxruntime(packed: formats.Packed, runtimes: dict[str, Runner]) -> None:
    """RTen takes each model by its name from the mapped archive, and finds the same words."""

    def run(name: str, inputs: dict[str, object]) -> list[object]:
        return [*runtimes[RELEASE].run(packed.path, inputs, name=name)]

    expected = all_translated(in_onnxruntime(packed.path), packed.path, with_past=True)
    for with_past in (True, False):
        assert expected == all_translated(run, packed.path, with_past=with_past)
