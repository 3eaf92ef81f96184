"""onnx, onnxruntime and RTen's own loader of `.onnx` files read every layout of external data that we write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import formats
from tests.runtime.runner import Runner

IMAGE = np.random.default_rng(0).random((2, 1, 28, 28), dtype="float32")


LAYERS = [f"{layer}.{part}" for layer in ("classifier", "conv1", "conv2") for part in ("bias", "weight")]


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({}, ["m.onnx.data"]),
        ({"alignment": 4096}, ["m.onnx.data"]),
        ({"alignment": 65536, "checksum": True}, ["m.onnx.data"]),
        ({"max_external_file_size": 10_000}, [f"m-0000{number}-of-00003.data" for number in (1, 2, 3)]),
        ({"external_data": "m.onnx_data"}, ["m.onnx_data"]),
        (
            {"external_data": "w.onnx_data", "max_external_file_size": 50_000},
            ["w-00001-of-00002.onnx_data", "w-00002-of-00002.onnx_data"],
        ),
        ({"one_file_per_tensor": True, "checksum": True}, [f"m.{name}.data" for name in LAYERS]),
    ],
)
def test_all_runtimes_read_what_is_written(
    digits: Path, tmp_path: Path, runtimes: dict[str, Runner], options: dict[str, Any], names: list[str]
) -> None:
    """RTen accepts the names, and the outputs are those of the model with all weights inside."""
    path = tmp_path / "out" / "m.onnx"
    path.parent.mkdir()
    formats.convert(digits, path, **{"external_data": True, "size_threshold": 1, **options})
    assert names == sorted(file.name for file in path.parent.iterdir() if file != path)
    onnx.checker.check_model(path)
    (expected,) = onnxruntime.InferenceSession(digits).run(None, {"image": IMAGE})
    (actual,) = onnxruntime.InferenceSession(path).run(None, {"image": IMAGE})
    np.testing.assert_array_equal(expected, actual)
    for rten in runtimes.values():
        for mmap in (False, True):
            (of_rten,) = rten.run(path, {"image": IMAGE}, mmap=mmap)
            np.testing.assert_allclose(expected, of_rten, rtol=1e-4, atol=1e-5)
