"""Files that three releases of onnxruntime wrote are read as the models that they were made from."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from onnxruntime import GraphOptimizationLevel, InferenceSession, SessionOptions

import formats
from tests.ort import ort_golden

GOLDEN = sorted(ort_golden.GOLDEN.glob("*.ort"))
FEEDS = {
    "net": {"x": np.linspace(-1, 1, 216, dtype=np.float32).reshape(2, 3, 6, 6)},
    "kinds": {
        "condition": np.array(True),
        "x": np.array([0.5, 2], np.float32),
        "m": np.arange(8, dtype=np.float32).reshape(2, 4),
        "words": np.array(["a", "x", "b\xe9"], object),
        "one": np.array([3], np.int64),
    },
}


def results(path: Path, name: str) -> list[str]:
    """Return what onnxruntime computes from fixed inputs, as texts, with the numbers rounded."""
    options = SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = GraphOptimizationLevel.ORT_DISABLE_ALL
    session = InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return [
        str(np.round(found, 4) + 0.0 if getattr(found, "dtype", object) == np.float32 else found)
        for found in session.run(None, FEEDS[name])
    ]


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
@pytest.mark.parametrize("extension", [".onnx", ".ort"])
def test_golden_files_compute_the_same(path: Path, extension: str, tmp_path: Path) -> None:
    """A file of each release and each level of optimization computes the same as .onnx, and as a file of ours."""
    formats.convert(path, tmp_path / f"new{extension}")
    name = path.name.split(".")[0]
    assert results(path, name) == results(tmp_path / f"new{extension}", name)


def test_what_the_file_says_is_kept() -> None:
    """Names, documentation, types, metadata and attributes are those of the file, whose graphs have no names."""
    (path,) = (path for path in GOLDEN if path.name == "kinds.1.32.none.ort")
    model = formats.load(path)
    graph = model.graph
    assert graph is not None
    assert ("golden", "what it is for", 7, "org.example", 8) == (
        model.producer_name,
        model.doc_string,
        model.model_version,
        model.domain,
        model.ir_version,
    )
    assert {"author": "someone", "licence": "MIT"} == {entry.key: entry.value for entry in model.metadata_props}
    assert [("", 15), ("ai.onnx.ml", 2)] == [(entry.domain, entry.version) for entry in model.opset_import]
    assert ["condition", "x", "m", "words", "one"] == [value.name for value in graph.input]
    assert ["if", "dropout", "clip", "sequence", "product", "labels"] == [node.name for node in graph.node if node.name]
    (labels,) = (node for node in graph.node if node.name == "labels")
    texts = {attribute.name: attribute.strings for attribute in labels.attribute if attribute.strings}
    assert {"keys_strings": [b"a", "b\xe9".encode()]} == texts
    (clip,) = (node for node in graph.node if node.name == "clip")
    assert (["", "high"], "at most") == (clip.input[1:], clip.doc_string)
    (sparse,) = graph.sparse_initializer
    assert sparse.values is not None
    assert [4, 1] == sparse.dims


@pytest.mark.parametrize(("name", "words"), [("net.1.32.all", "com.microsoft.nchwc"), ("net.1.32.none", "kernels")])
def test_what_is_left_out_is_told(name: str, words: str, tmp_path: Path) -> None:
    """Operators that only onnxruntime has are a warning, and what only its loader uses is a note."""
    report = formats.convert(ort_golden.GOLDEN / f"{name}.ort", tmp_path / "new.onnx")
    assert [loss for loss in report.losses if words in f"{loss.detail} {loss.kind}"]


def outcome(data: bytes) -> str:
    """Return how reading ends."""
    try:
        formats.loads(data)
    except formats.FormatError as error:
        return type(error).__name__
    return "read"


def test_every_prefix_is_refused() -> None:
    """A file that is cut anywhere is refused; only the padding at the end may miss."""
    data = (ort_golden.GOLDEN / "kinds.1.32.none.ort").read_bytes()
    wrong = [nbytes for nbytes in range(8, len(data) - 8) if outcome(data[:nbytes]) == "read"]
    assert [] == wrong


def test_changed_bytes_are_read_or_refused() -> None:
    """Files with changed bytes are read or refused, and nothing else happens; a third or more are refused."""
    data = (ort_golden.GOLDEN / "kinds.1.32.none.ort").read_bytes()
    rng = random.Random(7)
    found: Counter[str] = Counter()
    for _ in range(1500):
        changed = bytearray(data)
        for _ in range(rng.choice((1, 1, 2, 8))):
            changed[rng.randrange(8, len(data))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        found[outcome(bytes(changed))] += 1
    assert found["read"] < 1000
    assert found.keys() <= {"read", "DecodeError", "WireError", "LimitError", "TruncatedError"}


def test_a_newer_version_is_refused() -> None:
    """A version that this release does not know is named."""
    data = bytearray((ort_golden.GOLDEN / "net.1.32.none.ort").read_bytes())
    places = [place for place in range(len(data)) if data[place : place + 6] == b"\1\0\0\0006\0"]
    for place in places:
        data[place + 4 : place + 5] = b"9"
    with pytest.raises(formats.DecodeError, match="version '9' of the format, only 1 to 6"):
        formats.loads(bytes(data))


@pytest.mark.parametrize(
    ("name", "first"), [("net.1.12.none", "1.15"), ("net.1.14.none", "1.15"), ("net.1.17.none", "1.16")]
)
def test_inspect_says_which_releases_read_the_file(name: str, first: str) -> None:
    """Version 6 needs onnxruntime 1.16, whatever the operators need; older versions are read by all known releases."""
    (releases,) = formats.inspect(ort_golden.GOLDEN / f"{name}.ort").releases.values()
    assert (first, True) == (releases[0], len(releases) > 10)


def test_another_runtime_does_not_read_the_format(tmp_path: Path) -> None:
    """A file for another runtime than onnxruntime is refused in this format, and one for a release has its versions."""
    path = ort_golden.GOLDEN / "kinds.1.32.none.ort"
    with pytest.raises(formats.OptionError, match="rten, which does not read the format of ONNX Runtime"):
        formats.convert(path, tmp_path / "new.ort", runtime="rten")
    assert [] == list(tmp_path.iterdir())
    formats.convert(path, tmp_path / "new.ort", runtime="onnxruntime==1.15")
    assert results(path, "kinds") == results(tmp_path / "new.ort", "kinds")
