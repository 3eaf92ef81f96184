"""Edits of models that exporters wrote, alone and in pairs: each result computes what the whole model does.

Counterparts are onnx's checker, its tools for the same work, and the numbers of onnxruntime. The inputs are recorded.
"""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.utils
import onnxruntime
import pytest

import formats

EDITS = ("rename", "dim", "metadata", "weights", "prune")


def recorded(path: Path) -> dict[str, Any]:
    """Return the recorded inputs of a model."""
    with np.load(path.with_suffix(".npz")) as arrays:
        return {key.removeprefix("in_"): arrays[key] for key in arrays.files if key.startswith("in_")}


def run(path: Path, inputs: dict[str, Any], outputs: list[str] | None = None) -> list[Any]:
    """Return what onnxruntime computes from a file, without optimisations, so that the order of sums is the same."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3  # not what it does with weights that nobody uses
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    found: list[Any] = session.run(outputs, inputs)
    return found


def options_of(path: Path, kinds: tuple[str, ...], inputs: dict[str, Any]) -> dict[str, Any]:
    """Return the options of some edits that do not change what a model computes."""
    model = formats.load(path)
    values = [value.name or "" for value in (*model.graph.input, *model.graph.output)]
    values += [node.output[0] for node in model.graph.node[::7] if node.output[0]]
    first = model.graph.input[0].name or ""
    found = {
        "rename": {name: f"new/{number}:0" for number, name in enumerate(dict.fromkeys(values))},
        "dim": {f"{first}:0": inputs[first].shape[0], f"{first}:1": inputs[first].shape[1]},
        "metadata": {"edited": "yes"},
        "prune": True,
        "weights": {tensor.name: tensor for tensor in model.graph.initializer[::3] if tensor.name},
    }
    return {kind: found[kind] for kind in kinds if found[kind]}


@pytest.mark.sample(3)
@pytest.mark.parametrize("kinds", [*((kind,) for kind in EDITS), *combinations(EDITS, 2), EDITS], ids="-".join)
def test_edits(kinds: tuple[str, ...], shared_models: list[Path], tmp_path: Path, request: Any) -> None:
    """Each edit, each pair, and all together: the checker accepts the result, and it computes bit by bit the same."""
    for path in shared_models if kinds == EDITS else shared_models[len("-".join(kinds)) % 3 :: 3]:
        inputs = recorded(path)
        options = options_of(path, kinds, inputs)
        new = tmp_path / path.name
        report = formats.edit(path, new, overwrite=True, **options)
        assert not [loss for loss in report.losses if loss.matters]
        check(path, new)
        names = options.get("rename", {})
        mine = run(new, {names.get(name, name): array for name, array in inputs.items()})
        for one, other in zip(mine, run(path, inputs), strict=True):
            np.testing.assert_array_equal(one, other)


def check(path: Path, new: Path) -> None:
    """Check that onnx accepts a model, if it accepts the one that this is made of."""
    try:
        onnx.checker.check_model(path, full_check=True)
    except Exception:  # its nodes are not in order, or it has operators of onnxruntime
        assert path.stem in ("unet.ts17.fp16", "bert.ts17.dynq8"), path
        return
    onnx.checker.check_model(new, full_check=True)


def test_parts(shared_models: list[Path], tmp_path: Path) -> None:
    """A part between inner values, and its rest, compute what the whole does; onnx's tool makes the same nodes."""
    for path in shared_models:
        inputs = recorded(path)
        proto = onnx.load(path)
        cut = middle(proto)
        if cut is None:
            continue
        first, second, theirs = (tmp_path / f"{name}.onnx" for name in ("first", "second", "theirs"))
        outputs = [value.name for value in proto.graph.output]
        formats.extract(path, first, outputs=[cut], overwrite=True)
        needed = [value.name or "" for value in formats.load(first).graph.input]
        onnx.utils.extract_model(path, theirs, needed, [cut], check_model=False)
        mine, other = onnx.load(first), onnx.load(theirs)
        assert sorted(map(str, mine.graph.node)) == sorted(map(str, other.graph.node))
        assert sorted(t.name for t in mine.graph.initializer) == sorted(t.name for t in other.graph.initializer)
        (value,) = run(first, {name: inputs[name] for name in needed})
        formats.extract(path, second, inputs=[cut, *inputs], outputs=outputs, overwrite=True)
        rest = [each.name or "" for each in formats.load(second).graph.input]
        given = {name: value if name == cut else inputs[name] for name in rest}
        for one, whole in zip(run(second, given), run(path, inputs), strict=True):
            nearly = 1e-2 if "fp16" in path.stem else 0  # onnxruntime computes in float32, and rounds at the cut
            np.testing.assert_allclose(one, whole, rtol=nearly, atol=nearly)


def middle(proto: onnx.ModelProto) -> str | None:
    """Return an inner value of a model whose type onnx infers."""
    known = {value.name: value for value in onnx.shape_inference.infer_shapes(proto).graph.value_info}
    nodes = proto.graph.node
    for node in (*nodes[len(nodes) // 2 :], *nodes):
        name = node.output[0]
        if name in known and known[name].type.tensor_type.HasField("shape") and node.op_type != "Constant":
            return str(name)
    return None
