"""The example model is what its script makes, and it does what it says."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
MODEL = EXAMPLES / "digits.onnx"

np = pytest.importorskip("numpy")
onnx = pytest.importorskip("onnx", reason="the script builds with the onnx package")


@pytest.fixture(scope="module")
def make_model() -> ModuleType:
    """Return examples/make_model.py as a module."""
    spec = importlib.util.spec_from_file_location("make_model", EXAMPLES / "make_model.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def session() -> Any:
    """Return an onnxruntime session of the checked-in model."""
    onnxruntime = pytest.importorskip("onnxruntime", reason="the oracle is onnxruntime")
    return onnxruntime.InferenceSession(MODEL, providers=["CPUExecutionProvider"])


def test_the_script_makes_the_checked_in_bytes(make_model: ModuleType) -> None:
    """Training and building anew gives the file byte for byte."""
    assert make_model.make_model().SerializeToString() == MODEL.read_bytes()


def test_onnx_accepts_the_model() -> None:
    """The checker passes with types inferred, and the versions are the stated ones."""
    model = onnx.load(MODEL)
    onnx.checker.check_model(model, full_check=True)
    assert (model.ir_version, model.opset_import[0].version) == (8, 17)
    assert {"labels", "licence"} == {entry.key for entry in model.metadata_props}
    assert all(tensor.HasField("raw_data") for tensor in model.graph.initializer)


def test_the_model_reads_every_shifted_digit(make_model: ModuleType, session: Any) -> None:
    """Each drawing up to three pixels off the centre gets the highest probability for its digit."""
    images = np.stack([make_model.draw(digit, *shift) for digit in range(10) for shift in make_model.SHIFTS])
    (probabilities,) = session.run(["probabilities"], {"image": images})
    assert probabilities.shape == (490, 10)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-5)
    np.testing.assert_array_equal(probabilities.argmax(axis=1), np.repeat(np.arange(10), 49))


def test_the_model_takes_one_image(make_model: ModuleType, session: Any) -> None:
    """A batch of one works as any other."""
    (probabilities,) = session.run(None, {"image": make_model.draw(7)[None]})
    assert int(probabilities.argmax()) == 7
