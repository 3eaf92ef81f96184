"""Tests of the example model: its script makes the same file, and it works as described."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import make_model
import numpy as np
import onnx
import onnxruntime
import pytest

MODEL = Path(make_model.__file__).with_name("digits.onnx")


@pytest.fixture(scope="module")
def session() -> Any:
    """Return an onnxruntime session of the checked-in model."""
    return onnxruntime.InferenceSession(MODEL, providers=["CPUExecutionProvider"])


def test_the_script_makes_the_checked_in_bytes() -> None:
    """Training and building again gives the same file, byte for byte."""
    assert make_model.make_model().SerializeToString() == MODEL.read_bytes()


def test_onnx_accepts_the_model() -> None:
    """The checker accepts the model with inferred types, and the versions are the documented ones."""
    model = onnx.load(MODEL)
    onnx.checker.check_model(model, full_check=True)
    assert (model.ir_version, model.opset_import[0].version) == (8, 17)
    assert {"labels", "licence"} == {entry.key for entry in model.metadata_props}
    assert all(tensor.HasField("raw_data") for tensor in model.graph.initializer)


def test_the_model_reads_every_shifted_digit(session: Any) -> None:
    """Each drawing that is up to three pixels off the centre gets the highest probability for its digit."""
    images = np.stack([make_model.draw(digit, *shift) for digit in range(10) for shift in make_model.SHIFTS])
    (probabilities,) = session.run(["probabilities"], {"image": images})
    assert probabilities.shape == (490, 10)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-5)
    np.testing.assert_array_equal(probabilities.argmax(axis=1), np.repeat(np.arange(10), 49))


def test_the_model_takes_one_image(session: Any) -> None:
    """A batch of one image works like any other."""
    (probabilities,) = session.run(None, {"image": make_model.draw(7)[None]})
    assert int(probabilities.argmax()) == 7
