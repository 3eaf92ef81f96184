"""Files that releases of rten-convert made of our models, from the first release on, are read as these models."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx.parser
import pytest
from onnx.reference import ReferenceEvaluator

import formats
from formats.rten.header import is_v2
from tests.rten import rten_golden
from tests.rten.evaluation import difference, evaluate

FILES = sorted(rten_golden.GOLDEN.glob("*/*.rten"))
TOLERANCE = 1e-5


def identify(path: Path) -> str:
    """Return the id of a test for a file."""
    return f"{path.parent.name}-{path.stem}"


def test_all_releases_and_models_are_there() -> None:
    """There are files of every model, in both versions, by every release that has both."""
    found = {(path.parent.name, int(path.stem[-1])) for path in FILES}
    assert {(release, version) for release, versions in rten_golden.RELEASES.items() for version in versions} == found
    assert set(rten_golden.TEXTS) == {path.name.partition(".")[0] for path in FILES}


@pytest.mark.parametrize("path", FILES, ids=identify)
def test_golden_files(path: Path, runtime, tmp_path: Path) -> None:
    """A file has its metadata, computes in onnxruntime the same as the model, and in RTen the same after rewriting."""
    name, version = path.name.split(".")[:2]
    model = formats.load(path)
    source = rten_golden.model(name).SerializeToString(deterministic=True)
    assert is_v2(path.read_bytes()) == (version == "v2")
    metadata = {entry.key: entry.value for entry in model.metadata_props}
    assert 64 == len(metadata.pop("onnx_hash"))
    assert rten_golden.METADATA == metadata

    inputs = rten_golden.inputs(name)
    wanted = evaluate(source, inputs)
    formats.convert(path, tmp_path / "back.onnx")
    got = evaluate((tmp_path / "back.onnx").read_bytes(), inputs)
    assert [""] * len(wanted) == [difference(*pair, TOLERANCE) for pair in zip(got, wanted, strict=True)]

    for rewritten in (1, 2):
        other = tmp_path / f"v{rewritten}.rten"
        formats.convert(path, other, rten_version=rewritten)
        assert model == formats.load(other)
        outputs = runtime.run(other, inputs)
        assert [""] * len(wanted) == [difference(*pair, TOLERANCE) for pair in zip(outputs, wanted, strict=True)]


ROW = np.linspace(-2, 2, 24, dtype=np.float32).reshape(1, 2, 12)
STEPS = np.linspace(-0.1, 0.2, 4, dtype=np.float32).reshape(2, 1, 2)
# Models that rten-convert 0.22 converts wrongly, refuses, or converts to files that do not run, and that no other test
# has.
FAULTS: dict[str, tuple[int, str, dict[str, np.ndarray]]] = {
    "integers of attributes are not taken modulo 2**32": (
        13,
        """(float[1, 2, 12] x) => (y) {
            s = Constant <value_ints = [1]> () e = Constant <value_ints = [9223372036854775807]> ()
            a = Constant <value_ints = [-1]> () y = Slice (x, s, e, a) }""",
        {"x": ROW},
    ),
    "the middle of a transposed convolution is that of SAME_LOWER": (
        11,
        """(float[1, 2, 12] x) => (y) <float[2, 1, 2] w = {1, 2, 3, 4}>
        { y = ConvTranspose <auto_pad = "SAME_LOWER", kernel_shape = [2], strides = [1]> (x, w) }""",
        {"x": ROW},
    ),
    "the window of a maximum is that of SAME_LOWER": (
        11,
        '(float[1, 2, 12] x) => (y) { y = MaxPool <auto_pad = "SAME_LOWER", kernel_shape = [2], strides = [1]> (x) }',
        {"x": ROW},
    ),
    "the axis of DFT is 1 by default before opset 20": (
        17,
        "(float[1, 2, 12] x) => (y) <float[1, 12, 1] z = {0,1,2,3,4,5,6,7,8,9,10,11}> { y = DFT (z) }",
        {"x": ROW},
    ),
    "convolutions without a kernel's shape may be VALID": (
        11,
        '(float[1, 2, 12] x) => (y) <float[1, 2, 2] w = {1, 2, 3, 4}> { y = Conv <auto_pad = "VALID"> (x, w) }',
        {"x": ROW},
    ),
    "windows of one dimension have defaults of one dimension": (
        11,
        """(float[1, 2, 12] x) => (y) <float[2, 1, 2] w = {1, 2, 3, 4}>
        { p = AveragePool <kernel_shape = [3]> (x) y = ConvTranspose (p, w) }""",
        {"x": ROW},
    ),
    "a branch omits an input, and nodes have no names": (
        13,
        """(bool c, float[1, 2, 12] x) => (y) <float one = {1}> {
            y = If (c) <then_branch = t () => (a) { b = Clip (x, "", one) a = Neg (b) }, else_branch = e () => (d)
            { d = Neg (x) }> }""",
        {"c": np.array(True), "x": ROW},
    ),
    "dropout of everything passes everything on where nothing is trained": (
        13,
        """(float[1, 2, 12] x) => (y) <float ratio = {1}, bool training = {0}>
        { y = Dropout (x, ratio, training) }""",
        {"x": ROW},
    ),
    "two nodes without names have attributes that became inputs": (
        11,
        "(float[1, 2, 12] x) => (y) { a = Unsqueeze <axes = [0]> (x) y = Unsqueeze <axes = [0]> (a) }",
        {"x": ROW},
    ),
    "the saturation of small floats is no matter for others": (
        19,
        "(float[1, 2, 12] x) => (y) { y = Cast <to = 6, saturate = 0> (x) }",
        {"x": ROW},
    ),
    "types that RTen lacks do not matter where they are not used": (
        13,
        """(float[1, 2, 12] x) => (y) <uint64[12] none, string[1] words = {"unused"}> { y = Neg (x) }""",
        {"x": ROW},
    ),
    "a domain has two spellings": (
        13,
        "(float[1, 2, 12] x) => (y) { a = ai.onnx.Neg (x) y = Abs (a) }",
        {"x": ROW},
    ),
    "activations may be the default ones": (
        14,
        """(float[2, 1, 2] x) => (y) <float[1, 4, 2] w = {1, 2, 3, 4, 5, 6, 7, 8}, float[1, 4, 1] r = {1, 2, 3, 4}>
        { y = LSTM <hidden_size = 1, activations = ["Sigmoid", "Tanh", "Tanh"]> (x, w, r) }""",
        {"x": STEPS},
    ),
    "the size of a hidden state shows in the weights": (
        14,
        """(float[2, 1, 2] x) => (y) <float[1, 3, 2] w = {1, 2, 3, 4, 5, 6}, float[1, 3, 1] r = {1, 2, 3}>
        { y = GRU (x, w, r) }""",
        {"x": STEPS},
    ),
    "constants of no dimension come of no sizes": (
        13,
        """(float[1, 2, 12] x) => (y) <int64[0] nothing = {}> { a = ConstantOfShape (nothing) y = Add (x, a) }""",
        {"x": ROW},
    ),
    "the axis of extrema is the first by default": (
        13,
        "(float[1, 2, 12] x) => (y) { y = ArgMin (x) }",
        {"x": ROW},
    ),
}
# The models that onnxruntime refuses, so that ONNX's reference implementation computes the right result.
REFUSED_BY_ONNXRUNTIME = {
    "dropout of everything passes everything on where nothing is trained",
    "the saturation of small floats is no matter for others",
    "the size of a hidden state shows in the weights",
}


@pytest.mark.parametrize("name", FAULTS)
def test_faults_of_the_peer(name: str, runtime, tmp_path: Path) -> None:
    """Models that rten-convert converts wrongly are right in the real runtime."""
    opset, text, inputs = FAULTS[name]
    proto = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["": {opset}]> g {text}')
    source, target = tmp_path / "m.onnx", tmp_path / "m.rten"
    source.write_bytes(proto.SerializeToString())
    formats.convert(source, target)
    if name in REFUSED_BY_ONNXRUNTIME:
        wanted = ReferenceEvaluator(proto).run(None, inputs)
    else:
        wanted = evaluate(source.read_bytes(), inputs)
    outputs = runtime.run(target, inputs)
    assert [""] * len(wanted) == [difference(*pair, TOLERANCE) for pair in zip(outputs, wanted, strict=True)]
