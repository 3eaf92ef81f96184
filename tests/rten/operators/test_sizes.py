"""Products and convolutions at the sizes of kernels: RTen and the way back compute the same as onnxruntime.

CI runs a sample. `FORMATS_SIZES=1000 pytest tests/rten/operators/test_sizes.py` draws a thousand cases of each family,
and `FORMATS_SEED=...` other ones.
"""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnxruntime.capi.onnxruntime_pybind11_state import Fail

import formats
from formats.rten.convert.refusal import RefusalError
from tests.rten.evaluation import evaluate, held
from tests.rten.rten_sizes import FAMILIES, Draw, SizedCase
from tests.runtime.runner import RunnerError

COUNT = int(os.environ.get("FORMATS_SIZES", "4"))
SEED = os.environ.get("FORMATS_SEED", "1")


def difference(wanted: list[Any], found: list[Any], steps: int) -> str:
    """Return how outputs differ in dims or, except for rounding, in elements; empty if they do not."""
    for place, (expected, got) in enumerate(zip(wanted, found, strict=True)):
        want, have = np.asarray(held(expected)), np.asarray(held(got))
        if want.shape != have.shape:
            return f"output {place} has dims {have.shape} instead of {want.shape}"
        tolerance = steps or 1e-4 * max(1.0, float(np.abs(want, dtype=float).max(initial=0)))
        if want.dtype.kind in "iub" and not steps:
            tolerance = 0
        if not np.allclose(want.astype(float), have.astype(float), rtol=0, atol=tolerance, equal_nan=True):
            wrong = ~np.isclose(want.astype(float), have.astype(float), rtol=0, atol=tolerance, equal_nan=True)
            return f"output {place} has {wrong.sum()} wrong elements of {wrong.size}, first at {np.argwhere(wrong)[0]}"
    return ""


def faults(case: SizedCase, runtimes: Any, folder: Path) -> list[str]:
    """Return what goes wrong with a case on each route."""
    onnx.save(case.proto, folder / "m.onnx")
    data, found, is_run = case.proto.SerializeToString(), list[str](), True
    try:
        wanted = evaluate(data, case.inputs, optimize=False)
    except Fail:  # onnxruntime does not support the form, and may not support what it becomes
        assert case.expected is not None
        wanted, is_run = list(case.expected), False

    def compare(route: str, run: Any) -> None:
        try:
            text = difference(wanted, run(), case.steps)
        except Fail as error:
            text = str(error) if is_run else ""
        except RunnerError as error:
            text = str(error)
        if text:
            found.append(f"{route}: {text}")

    try:
        formats.convert(folder / "m.onnx", folder / "m.rten")
    except RefusalError:  # some forms need known sizes
        for value in case.proto.graph.input:
            for dim, size in zip(value.type.tensor_type.shape.dim, case.inputs[value.name].shape, strict=True):
                dim.dim_value = size
        onnx.save(case.proto, folder / "m.onnx")
    for exact in (False, True):
        formats.convert(folder / "m.onnx", folder / "m.rten", exact=exact, overwrite=True)
        for release, runtime in runtimes.items():
            compare(f"{release}{' exact' if exact else ''}", partial(runtime.run, folder / "m.rten", case.inputs))
        formats.convert(folder / "m.rten", folder / "back.onnx", overwrite=True)
        compare("back", lambda: evaluate((folder / "back.onnx").read_bytes(), case.inputs, optimize=False))
    formats.convert(folder / "m.onnx", folder / "r.onnx", runtime="rten", overwrite=True)
    compare("loader", lambda: list(runtimes.values())[-1].run(folder / "r.onnx", case.inputs))
    formats.convert(folder / "m.onnx", folder / "e.onnx", runtime="rten", exact=True, overwrite=True)
    compare("loader exact", lambda: list(runtimes.values())[-1].run(folder / "e.onnx", case.inputs))
    compare("loader's model", lambda: evaluate((folder / "r.onnx").read_bytes(), case.inputs, optimize=False))
    return found


@pytest.mark.parametrize("number", range(COUNT))
@pytest.mark.parametrize("name", FAMILIES)
def test_operators_at_all_sizes(name: str, number: int, runtimes: Any, tmp_path: Path) -> None:
    """An operator computes the same as in onnxruntime on every route, at sizes around the blocks of kernels."""
    case = FAMILIES[name](Draw(f"{SEED} {name} {number}"))
    assert [] == faults(case, runtimes, tmp_path), onnx.printer.to_text(case.proto)[:2000]
