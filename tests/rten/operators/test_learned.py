"""Operators of ai.onnx.ml compute the same in RTen as in onnxruntime, in random models and in real ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import formats
from formats.ir.model import Model
from formats.onnxpb.wire.decoder import decode
from formats.rten import CODEC
from formats.rten.convert.legalize import legalize
from formats.rten.options import RtenOptions
from formats.tensordata.engine import to_bytes
from formats.tensordata.sources.source import Literal
from tests.rten.learned import OPERATORS, POST_TRANSFORMS, Learned, is_same, outcome, reference
from tests.rten.way_back import WayBack

SEEDS = 12
MODELS = sorted((Path(__file__).parents[1] / "learned").glob("*.onnx"))


@pytest.mark.parametrize("op_type", OPERATORS)
def test_random_models(op_type: str, runtimes: dict[str, Any], tmp_path: Path) -> None:
    """All outputs equal those of onnxruntime, or the model is refused; labels never differ."""
    found = [outcome(Learned(seed, op_type), runtimes, tmp_path / "m.rten") for seed in range(SEEDS)]
    assert {"right", "refused", "invalid"} >= set(found)
    assert found.count("right") > SEEDS / 2


@pytest.mark.parametrize("op_type", OPERATORS)
def test_random_models_come_back(op_type: str, tmp_path: Path) -> None:
    """As ONNX again, all outputs equal those of onnxruntime, or the model is refused."""
    models = [Learned(seed, op_type) for seed in range(4)]
    assert {"right", "refused", "invalid"} >= {outcome(each, {"onnx": WayBack}, tmp_path / "m.rten") for each in models}


@pytest.mark.parametrize("name", sorted({*POST_TRANSFORMS}))
def test_each_function_for_scores_comes_back(name: str, tmp_path: Path) -> None:
    """Several scores put through any function are converted, and equal those of onnxruntime as ONNX again."""
    drawn = (Learned(seed, "LinearRegressor") for seed in range(200))
    found = [model for model in drawn if (model.attributes["post_transform"], model.attributes["targets"]) == (name, 3)]
    assert ["right"] * 2 == [outcome(model, {"onnx": WayBack}, tmp_path / "m.rten") for model in found[:2]]


@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
def test_models_of_libraries(path: Path, runtimes: dict[str, Any], tmp_path: Path) -> None:
    """Models of scikit-learn, LightGBM and XGBoost give the same labels and scores, also converted back."""
    proto, made, back = onnx.load(path), tmp_path / "m.rten", tmp_path / "back.onnx"
    (name,) = (value.name for value in proto.graph.input)
    feeds = {name: np.load(path.parent / "samples.npz")[path.stem.partition(".")[2]]}
    wanted = reference(proto, feeds)
    assert wanted is not None
    formats.convert(path, made)
    formats.convert(made, back)
    results = [runtime.run(made, feeds) for runtime in runtimes.values()]
    for outputs in [*results, reference(onnx.load(back), feeds)]:
        assert all(is_same(one, other, is_probit=False) for one, other in zip(wanted, outputs, strict=True))


def model_of(op_type: str, outputs: tuple[str, ...] = ("y",), **attributes: Any) -> Model:
    """Return a model of one operator for three samples of two features."""
    node = helper.make_node(op_type, ["x"], outputs, domain="ai.onnx.ml", **attributes)
    values = [onnx.ValueInfoProto(name=name) for name in outputs]
    graph = helper.make_graph([node], "g", [helper.make_tensor_value_info("x", 1, [3, 2])], values)
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    proto = helper.make_model(graph, opset_imports=imports, ir_version=10)
    return decode(Literal(proto.SerializeToString()), Model)


LINEAR = {"coefficients": [1.0, 2.0], "intercepts": [0.5], "post_transform": "NONE"}
STUMP = {
    "nodes_nodeids": [0, 1, 2],
    "nodes_treeids": [0, 0, 0],
    "nodes_featureids": [0, 0, 0],
    "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
    "nodes_values": [0.5, 0.0, 0.0],
    "nodes_truenodeids": [1, 0, 0],
    "nodes_falsenodeids": [2, 0, 0],
    "target_treeids": [0, 0],
    "target_nodeids": [1, 2],
    "target_ids": [0, 0],
    "target_weights": [1.0, 2.0],
    "n_targets": 1,
}
REFUSED: dict[str, tuple[str, dict[str, Any], str]] = {
    "dictionaries": ("ZipMap", {"classlabels_int64s": [0, 1]}, "outputs dictionaries, which RTen does not support"),
    "words": ("LabelEncoder", {"keys_strings": ["a"], "values_int64s": [1]}, "uses strings, which RTen does not"),
    "labels": ("LinearClassifier", {**LINEAR, "classlabels_strings": ["a", "b"]}, "outputs strings as labels"),
    "scores": ("LinearRegressor", {**LINEAR, "post_transform": "LOGISTIC"}, "has post_transform"),
    "lost": ("TreeEnsembleRegressor", {**STUMP, "nodes_truenodeids": [7, 0, 0]}, "is not well formed"),
    "circle": ("TreeEnsembleRegressor", {**STUMP, "nodes_modes": ["BRANCH_LEQ"] * 2 + ["LEAF"],
                                         "nodes_falsenodeids": [1, 0, 0]}, "has trees with more than 256 levels"),
    "twice": ("TreeEnsembleRegressor", {**STUMP, "n_targets": 2, "target_nodeids": [1, 1]}, "has leaves with several"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_has_no_counterpart_is_refused(case: str) -> None:
    """Strings, dictionaries and invalid trees are refused, with a remedy if there is one."""
    op_type, attributes, reason = REFUSED[case]
    refusals = legalize(
        model_of(op_type, ("y", "z") if op_type == "LinearClassifier" else ("y",), **attributes)
    ).refusals
    assert [found.op_type for found in refusals] == [op_type]
    assert reason in refusals[0].reason
    assert refusals[0].remedy or op_type == "TreeEnsembleRegressor"


def test_scores_do_without_string_labels() -> None:
    """Labels may be strings if they are not an output."""
    proto = model_of("LinearClassifier", ("", "z"), **LINEAR, classlabels_strings=["a", "b"])
    assert legalize(proto).refusals == ()


def forest(trees: int) -> dict[str, list[Any]]:
    """Return the attributes of this many trees of one split."""
    return {
        name: [tree for tree in range(trees) for _ in values] if name.endswith("treeids") else list(values) * trees
        for name, values in STUMP.items()
        if name != "n_targets"
    }


def test_tables_are_not_larger_than_the_model() -> None:
    """A forest whose leaves use few of many classes is refused, because its tables would have all classes."""
    trees, classes = 100, 400
    attributes = {name.replace("target_", "class_"): values for name, values in forest(trees).items()}
    attributes["class_ids"] = [number % classes for number in range(2 * trees)]
    attributes["classlabels_int64s"] = list(range(classes))
    (refusal,) = legalize(model_of("TreeEnsembleClassifier", ("y", "z"), **attributes)).refusals
    assert refusal.reason == "it has trees whose tables would be larger than the model"


def grown(depth: int, trees: int, dtype: type, missing: bool | None) -> dict[str, Any]:
    """Return the attributes of this many full trees of operator set 5; if `missing` is `None`, NaN differs by node."""
    numbers, inner = np.random.default_rng(depth), 2**depth - 1
    places = np.tile(np.arange(inner), trees)
    starts = np.repeat(np.arange(trees), inner)
    is_low = places >= inner // 2  # the children are leaves
    first = np.where(is_low, (2 * places + 1 - inner) + starts * (inner + 1), 2 * places + 1 + starts * inner)
    count, leaves = trees * inner, trees * (inner + 1)
    tracks = numbers.integers(0, 2, count) if missing is None else np.full(count, int(missing))
    return {
        "nodes_featureids": numbers.integers(0, 2, count).tolist(),
        "nodes_splits": numpy_helper.from_array(numbers.normal(size=count).astype(dtype)),
        "nodes_modes": numpy_helper.from_array(np.zeros(count, np.uint8)),
        "nodes_truenodeids": first.tolist(),
        "nodes_falsenodeids": (first + 1).tolist(),
        "nodes_trueleafs": is_low.astype(int).tolist(),
        "nodes_falseleafs": is_low.astype(int).tolist(),
        "nodes_missing_value_tracks_true": tracks.tolist(),
        "tree_roots": (np.arange(trees) * inner).tolist(),
        "leaf_targetids": [0] * leaves,
        "leaf_weights": numpy_helper.from_array(numbers.normal(size=leaves).astype(dtype)),
        "n_targets": 1,
        "aggregate_function": 1,
        "post_transform": 0,
    }


@pytest.mark.parametrize("missing", [False, True, None])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_forests_of_gradient_boosting(
    dtype: type, missing: bool | None, runtimes: dict[str, Any], tmp_path: Path
) -> None:
    """Many full trees, as LightGBM exports them, have tables that are not larger than the model, and are right."""
    node = helper.make_node("TreeEnsemble", ["x"], ["y"], domain="ai.onnx.ml", **grown(5, 300, dtype, missing))
    elem_type = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    values = [helper.make_tensor_value_info(name, elem_type, ["N", width]) for name, width in (("x", 2), ("y", 1))]
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("ai.onnx.ml", 5)]
    proto = helper.make_model(
        helper.make_graph([node], "g", values[:1], values[1:]), opset_imports=imports, ir_version=10
    )
    source, made = tmp_path / "m.onnx", tmp_path / "m.rten"
    onnx.save(proto, source)
    formats.convert(source, made)
    assert made.stat().st_size < source.stat().st_size
    feeds = {"x": np.random.default_rng(1).normal(size=(50, 2)).astype(np.float32)}
    feeds["x"][::7, 0] = np.nan
    wanted = reference(proto, {"x": feeds["x"].astype(dtype)})
    assert wanted is not None
    for runtime in runtimes.values():
        np.testing.assert_allclose(runtime.run(made, feeds)[0], wanted[0], rtol=1e-5, atol=1e-5)


def test_scores_are_those_of_onnxruntime_to_the_last_bit(runtimes: dict[str, Any], tmp_path: Path) -> None:
    """Trees are summed in their order, so that scores at the limit between two labels give the same label."""
    numbers, trees = np.random.default_rng(3), 100
    attributes = forest(trees)
    attributes["nodes_values"] = [float(np.float32(number)) for number in numbers.normal(size=3 * trees)]
    attributes["target_weights"] = [float(np.float32(number)) for number in numbers.uniform(-1, 1, 2 * trees)]
    model, path = model_of("TreeEnsembleRegressor", **attributes, n_targets=1), tmp_path / "m.rten"
    feeds = {"x": numbers.normal(size=(3, 2)).astype(np.float32)}
    wanted = reference(onnx.ModelProto.FromString(formats.dumps(model, format="onnx")), feeds)
    assert wanted is not None
    path.write_bytes(to_bytes(CODEC.plan(model, path, RtenOptions())))
    for runtime in runtimes.values():
        assert runtime.run(path, feeds)[0].tolist() == wanted[0].tolist()
