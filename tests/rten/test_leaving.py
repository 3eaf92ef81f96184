"""From .rten to .onnx in one runtime: RTen's ONNX loader gives the same results as its .rten loader."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

import formats
from formats.ir.model import Graph, Model, OperatorSetId, ValueInfo
from formats.ir.storage import from_numpy
from formats.rten.graph.attributes import make_node
from formats.rten.spec import RTEN_DOMAIN
from tests.rten import rten_golden
from tests.rten.evaluation import evaluate_in_onnxruntime, held
from tests.runtime.runner import DEFAULT_RELEASES

RELEASE = DEFAULT_RELEASES[-1]  # users who leave .rten use the newest
TOLERANCE = 1e-6  # relative to the largest number, because sums may have another order
GOLDEN = sorted(rten_golden.GOLDEN.glob("*/*.rten"))


@pytest.fixture(scope="module")
def newest(runtimes):
    """The newest release of the runtime in the tests."""
    if RELEASE not in runtimes:
        pytest.skip(f"needs RTen {RELEASE} in RTEN_RELEASES")
    return runtimes[RELEASE]


def difference(got, wanted):
    """Describe how outputs differ, "" if they are the same except for the last digits; types count."""
    if isinstance(wanted, list):
        if not isinstance(got, list) or len(got) != len(wanted):
            return f"{wanted} became {got}"
        return next((text for pair in zip(got, wanted, strict=True) if (text := difference(*pair))), "")
    if (got.dtype, got.shape) != (wanted.dtype, wanted.shape):
        return f"{wanted.dtype}{list(wanted.shape)} became {got.dtype}{list(got.shape)}"
    scale = np.abs(wanted[np.isfinite(wanted)].astype(float)).max(initial=0)
    same = np.allclose(got.astype(float), wanted.astype(float), rtol=0, atol=TOLERANCE * scale, equal_nan=True)
    return "" if same else f"{wanted.ravel()[:6]} became {got.ravel()[:6]}"


def found_in_both(path, inputs, runtime, **options):
    """Describe how the .onnx files of a .rten file differ from it in RTen: inline, and with mapped external data."""
    given = {name: held(value) for name, value in inputs.items()}
    wanted = runtime.run(path, given)
    inline, external = (path.with_name(f"{kind}.onnx") for kind in ("inline", "external"))
    formats.convert(path, inline, overwrite=True, fsync=False)
    formats.convert(path, external, overwrite=True, fsync=False, external_data=True, size_threshold=1)
    return [
        text
        for other, mmap in ((inline, False), (external, False), (external, True))
        if (text := difference(runtime.run(other, given, mmap=mmap), wanted))
    ]


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_golden_files(path: Path, newest, tmp_path: Path) -> None:
    """A file of any release of rten-convert computes the same when converted to ONNX."""
    copy = tmp_path / "m.rten"
    copy.write_bytes(path.read_bytes())
    assert [] == found_in_both(copy, rten_golden.inputs(path.name.split(".")[0]), newest)


@pytest.mark.parametrize("options", [
    {"max_external_file_size": 40}, {"one_file_per_tensor": True}, {"checksum": True}, {"alignment": 1}
], ids=str)  # fmt: skip
def test_files_of_weights(options, newest, tmp_path: Path) -> None:
    """In whatever way weights are put into files, RTen finds and maps them."""
    path, target = tmp_path / "m.rten", tmp_path / "m.onnx"
    path.write_bytes((rten_golden.GOLDEN / "0.22.0" / "recurrent.v2.rten").read_bytes())
    formats.convert(path, target, external_data=True, size_threshold=1, **options)
    inputs = rten_golden.inputs("recurrent")
    wanted = newest.run(path, inputs)
    for mmap in (False, True):
        assert not difference(newest.run(target, inputs, mmap=mmap), wanted)


def test_integers_beyond_32_bits_are_told(newest, tmp_path: Path) -> None:
    """If RTen's integers wrap and ONNX's do not, the report says so, but not for sizes."""
    text = """<ir_version: 8, opset_import: ["": 13]> g (float[n, 2] x) => (float y, float[k] z)
        <int64 million = {1000000}> {
        size = Size(x) most = Mul(size, million) much = Mul(most, million) y = Cast<to = 1>(much)
        shape = Shape(x) all = ReduceProd<keepdims = 1>(shape) z = Reshape(x, all) }"""
    source, path, target = (tmp_path / name for name in ("m.onnx", "m.rten", "back.onnx"))
    source.write_bytes(onnx.parser.parse_model(text).SerializeToString())
    formats.convert(source, path)
    report = formats.convert(path, target)
    assert ["Mul: numbers beyond 32 bits wrap in RTen, but are right in ONNX (most, much)"] == [
        loss.detail for loss in report.losses if loss.kind == "deviation"
    ]
    inputs = {"x": np.ones((3, 2), np.float32)}
    assert not difference(newest.run(target, inputs), newest.run(path, inputs))
    assert evaluate_in_onnxruntime(target.read_bytes(), inputs)[0] == 6e12


@pytest.mark.parametrize("text", [
    "() => (float[3] y) <float[3] x = {1, 2, 3}, float d = {2}> { y = Div(x, d) }",
    "() => (float y) <float x = {1}, float d = {2}> { y = Div(x, d) }",
    "() => (float[2] y) <float x = {1}, float[2] d = {2, 4}> { y = Div(x, d) }",
    "() => (float[2] y) <float[2] x = {1, 3}, float d = {2}, float e = {8}> { a = Mul(x, d) y = Div(a, e) }",
    "() => (float[1] y) <float x = {1}, float d = {2}, int64[1] z = {0}> { a = Unsqueeze(x, z) y = Div(a, d) }",
])  # fmt: skip
@pytest.mark.parametrize("runtime", [None, "rten"])
def test_whole_floats_are_divided_as_floats(text, runtime, newest, tmp_path: Path) -> None:
    """A division that RTen would do in integers is written differently, in .rten files and in ONNX for RTen."""
    source, path = tmp_path / "m.onnx", tmp_path / ("m.onnx.rten" if runtime is None else "for-rten.onnx")
    source.write_bytes(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 13]> g {text}').SerializeToString())
    formats.convert(source, path, runtime=runtime)
    wanted = evaluate_in_onnxruntime(source.read_bytes(), {})
    assert not difference(newest.run(path, {}), wanted)


def test_division_of_whole_floats_is_told(newest, tmp_path: Path) -> None:
    """Another program's .rten file with such a division gives integers in RTen, and the report says so."""
    node = make_node("Div", ["x", "d"], ["y"])
    node.domain = RTEN_DOMAIN
    tensors = [from_numpy(np.array(values, np.float32), name) for name, values in (("x", [1, 3]), ("d", 2))]
    graph = Graph(node=[node], output=[ValueInfo(name="y")], initializer=tensors)
    path, target = tmp_path / "m.rten", tmp_path / "m.onnx"
    formats.save(Model(opset_import=[OperatorSetId(domain=RTEN_DOMAIN, version=1)], graph=graph), path)
    report = formats.convert(path, target)
    assert [True] == [loss.matters for loss in report.losses if loss.kind == "deviation"]
    assert [0, 1] == newest.run(path, {})[0].tolist() == newest.run(target, {})[0].tolist()
    assert [0.5, 1.5] == evaluate_in_onnxruntime(target.read_bytes(), {})[0].tolist()


def test_extremes_agree_in_onnxruntime(newest, tmp_path: Path) -> None:
    """Both runtimes return the last of equal extremes, although RTen refuses the attribute for this."""
    nodes = "a = ArgMax<axis = 1, select_last_index = 1>(x) i = ArgMin<select_last_index = 1>(x)"
    text = f'<ir_version: 8, opset_import: ["": 13]> g (float[2, n] x) => (a, i) {{ {nodes} }}'
    source, path, target = (tmp_path / name for name in ("m.onnx", "m.rten", "back.onnx"))
    source.write_bytes(onnx.parser.parse_model(text).SerializeToString())
    formats.convert(source, path)
    formats.convert(path, target)
    inputs = {"x": np.array([[1, 3, 3, 0], [1, 0, 3, 0]], np.float32)}
    wanted = [[[2], [2]], [[1, 1, 1, 1]]]
    for outputs in (newest.run(path, inputs), newest.run(target, inputs)):
        assert wanted == [output.tolist() for output in outputs]
    assert wanted == [output.tolist() for output in evaluate_in_onnxruntime(target.read_bytes(), inputs)]
