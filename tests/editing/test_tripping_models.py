"""Edits of random models that are made to trip them: onnxruntime computes the same from the result."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import formats
from tests.editing.test_exported import run
from tests.editing.tripping_models import tripping
from tests.systems import NIGHT, OF_THE_DAY

SEEDS = 12
MORE = 60 if NIGHT else 20
INPUTS = [
    {"x": np.array([0.5, 1.5], "float32"), "c1": np.array(first), "c2": np.array(second)}
    for first in (True, False)
    for second in (True, False)
]
Inputs = dict[str, Any]
Edit = Callable[[Path, Path], object]


def renamed(**names: str) -> Callable[[Inputs], Inputs]:
    """Return what gives the inputs their new names."""
    return lambda inputs: {names.get(name, name): array for name, array in inputs.items()}


def weight_of(seed: int) -> np.ndarray:
    """Return the value that the weight w has already."""
    return np.array([2 + seed % 5], "float32")


def rewritten(old: Path, new: Path) -> None:
    """Put Identities around each Add and Mul, other nodes in place of each Sub, and take the Identities out again."""
    model = formats.load(old)
    model = model.rewrite(lambda op, x, y: op.Add(x, y), lambda op, x, y: op.Identity(op.Add(op.Identity(x), y)))
    model = model.rewrite(lambda op, x, y: op.Mul(x, y), lambda op, x, y: op.Identity(op.Mul(x, op.Identity(y))))
    model = model.rewrite(lambda op, x, y: op.Sub(x, y), lambda op, x, y: op.Add(op.Mul(y, np.float32([-1])), x))
    formats.save(model.rewrite(lambda op, x: op.Identity(x), lambda op, x: x), new)


EDITS: dict[str, tuple[Callable[[int], Edit], Callable[[Inputs], Inputs]]] = {
    "rename to inner names": (
        lambda _: lambda old, new: formats.edit(old, new, rename={"x": "t", "w": "h", "c1": "z"}),
        renamed(x="t", c1="z"),
    ),
    "exchange names": (lambda _: lambda old, new: formats.edit(old, new, rename={"w": "u", "u": "w"}), renamed()),
    "rename to names of a function": (
        lambda _: lambda old, new: formats.edit(old, new, rename={"x": "a", "y": "x", "c2": "y"}),
        renamed(x="a", c2="y"),
    ),
    "dim": (lambda _: lambda old, new: formats.edit(old, new, dim={"n": 2}), renamed()),
    "prefix": (lambda _: lambda old, new: formats.edit(old, new, prefix="t"), renamed(x="tx", c1="tc1", c2="tc2")),
    "rewrite": (lambda _: rewritten, renamed()),
    "prune": (lambda _: lambda old, new: formats.edit(old, new, prune=True), renamed()),
    "opset 11": (lambda _: lambda old, new: formats.edit(old, new, opset=11), renamed()),
    "opset 21": (lambda _: lambda old, new: formats.edit(old, new, opset=21), renamed()),
    "weights": (lambda seed: lambda old, new: formats.edit(old, new, weights={"w": weight_of(seed)}), renamed()),
}


def outcome(edit: str, seed: int, folder: Path) -> str:
    """Check that the edited model of a seed computes what the model does, and return whether it did."""
    old, new = folder / "old.onnx", folder / "new.onnx"
    onnx.save(tripping(seed), old)
    wanted = [run(old, inputs) for inputs in INPUTS]
    make, names = EDITS[edit]
    try:
        make(seed)(old, new)
    except formats.FormatError as error:
        assert edit == "rename to inner names" and "would hide it" in str(error)
        assert not new.exists()
        return "refused"
    onnx.checker.check_model(new, full_check=True)
    known = {value.name for value in onnx.load(new).graph.input}
    for inputs, expected in zip(INPUTS, wanted, strict=True):
        given = {name: array for name, array in names(inputs).items() if name in known}
        for before, after in zip(expected, run(new, given), strict=True):
            np.testing.assert_array_equal(before, after, err_msg=f"{edit}, seed {seed}")
    new.unlink()
    return "right"


@pytest.mark.sample(3)
@pytest.mark.parametrize("edit", EDITS)
def test_an_edit_changes_no_result(edit: str, tmp_path: Path) -> None:
    """Names that several branches use, captures through two levels and functions make no difference to the results."""
    found = Counter(outcome(edit, seed, tmp_path) for seed in range(SEEDS))
    assert found["right"] >= SEEDS // 8


@pytest.mark.outer
@pytest.mark.parametrize("edit", EDITS)
def test_an_edit_changes_no_result_of_any_model(edit: str, tmp_path: Path) -> None:
    """So it is for models with seeds that nobody chose."""
    found = Counter(outcome(edit, seed, tmp_path) for seed in range(OF_THE_DAY, OF_THE_DAY + MORE))
    assert found["right"] >= MORE // 8
