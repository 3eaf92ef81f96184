"""Random models of the operators of ai.onnx.ml, in all the forms that exporters write.

`python tests/rten/learned.py --seed N --count N` runs more of them in onnxruntime and in RTen than the tests do.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from formats.ir.model import Model
from formats.onnxpb.wire.decoder import decode
from formats.rten import CODEC
from formats.rten.convert.refusal import RefusalError
from formats.rten.options import RtenOptions
from formats.tensordata.engine import to_bytes
from formats.tensordata.sources.source import Literal
from tests.rten import evaluation
from tests.runtime.runner import RELEASES, Runner

DOMAIN = "ai.onnx.ml"
POST_TRANSFORMS = ("NONE", "NONE", "NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO", "PROBIT")
MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")  # by their numbers
MEMBER = len(MODES)
TOLERANCE = {"rtol": 3e-5, "atol": 2e-6}
NEAR_ZERO = 4e-6  # the allowed difference of the squares of results of the inverse normal distribution


class Learned:
    """A model of one operator, made from a seed: `proto`, and its inputs."""

    def __init__(self, seed: int, op_type: str = "") -> None:
        self.choose, self.numbers = random.Random(seed), np.random.default_rng(seed)
        self.op_type = op_type or self.choose.choice(list(OPERATORS))
        self.version, self.outputs = self.choose.choice([1, 3]), ["y"]
        self.feeds: dict[str, np.ndarray] = {}
        self.attributes = attributes = OPERATORS[self.op_type](self)
        self.is_probit = attributes.get("post_transform") == "PROBIT"
        named = self.choose.random() < 0.3
        inputs = [
            helper.make_tensor_value_info(
                name,
                helper.np_dtype_to_tensor_dtype(value.dtype),
                ["n", value.shape[1]] if named and value.ndim == 2 else value.shape,
            )
            for name, value in self.feeds.items()
        ]
        node = helper.make_node(self.op_type, list(self.feeds), self.outputs, domain=DOMAIN, **attributes)
        outputs = [onnx.ValueInfoProto(name=name) for name in self.outputs]
        imports = [helper.make_opsetid("", 17), helper.make_opsetid(DOMAIN, self.version)]
        graph = helper.make_graph([node], "learned", inputs, outputs)
        self.proto = helper.make_model(graph, opset_imports=imports, ir_version=10)

    def may(self, probability: float) -> bool:
        """Decide at random."""
        return self.choose.random() < probability

    def floats(self, count: int, low: float = -2, high: float = 2) -> list[float]:
        """Return numbers that are FLOAT."""
        return [float(number) for number in self.numbers.uniform(low, high, count).astype(np.float32)]

    def samples(self, *dtypes: str, rank: int = 0) -> np.ndarray:
        """Return samples in rows, or one sample as a vector."""
        rank, dtype = rank or self.choose.choice([1, 2, 2, 2]), self.choose.choice(dtypes or ("float32",))
        features = self.choose.choice([1, 2, 3, 6])
        dims = (features,) if rank == 1 else (self.choose.choice([1, 2, 5, 9]), features)
        if dtype.startswith("float"):
            return self.numbers.uniform(-2, 2, dims).astype(np.float32).astype(dtype)
        return self.numbers.integers(-5, 6, dims).astype(dtype)

    def post_transform(self) -> str:
        """Return a function for scores."""
        return self.choose.choice(POST_TRANSFORMS)


NUMBERS = ("float32", "float32", "int64", "int32", "float64")


def scaler(model: Learned) -> dict[str, Any]:
    """With one number, or one for each feature."""
    model.feeds["x"] = data = model.samples(*NUMBERS)
    count = model.choose.choice([1, data.shape[-1]])
    return {"offset": model.floats(count), "scale": model.floats(count)}


def normalizer(model: Learned) -> dict[str, Any]:
    """With zeros, too."""
    model.feeds["x"] = model.samples(*NUMBERS) * model.choose.choice([0, 1, 1])
    return {"norm": model.choose.choice(["MAX", "L1", "L2"])}


def binarizer(model: Learned) -> dict[str, Any]:
    """With values at the threshold, too."""
    model.feeds["x"] = data = model.samples()
    return {"threshold": float(model.choose.choice([0, 0.5, data.flat[0]]))}


def array_feature_extractor(model: Learned) -> dict[str, Any]:
    """With columns in any order, also repeated."""
    model.feeds["x"] = data = model.samples(*NUMBERS)
    count = model.choose.choice([1, 2, 4])
    dims = model.choose.choice([(count,), (1, count)])
    model.feeds["i"] = model.numbers.integers(0, data.shape[-1], dims).astype(np.int64)
    return {}


def imputer(model: Learned) -> dict[str, Any]:
    """With replacements for NaN, for a float, and for an integer."""
    data = model.samples("float32", "float32", "int64")
    count = model.choose.choice([1, data.shape[-1]])
    if data.dtype == np.int64:
        model.feeds["x"] = data
        values = model.numbers.integers(-9, 9, count).tolist()
        return {"imputed_value_int64s": values, "replaced_value_int64": int(data.flat[0])}
    gone = model.choose.choice([float("nan"), 0.0, 1.0])
    is_gone = model.numbers.random(data.shape) < 0.4
    model.feeds["x"] = np.where(is_gone, np.float32(gone), data)
    return {"imputed_value_floats": model.floats(count), "replaced_value_float": gone}


def feature_vectorizer(model: Learned) -> dict[str, Any]:
    """With as many columns as there are, more, or fewer."""
    rows, dtype = model.choose.choice([1, 3]), model.choose.choice(["float32", "int64", "int32", "float64"])
    widths = []
    for place in range(model.choose.choice([1, 2, 3])):
        columns = model.choose.choice([1, 2, 3])
        model.feeds[f"x{place}"] = model.numbers.integers(-9, 9, (rows, columns)).astype(dtype)
        widths.append(max(1, columns + model.choose.choice([0, 0, 1, -1])))
    return {"inputdimensions": widths}


def one_hot_encoder(model: Learned) -> dict[str, Any]:
    """With numbers that are not a category."""
    dims, dtype = model.choose.choice([(4,), (3, 2), (2, 1)]), model.choose.choice(["int64", "float32", "float64"])
    model.feeds["x"] = model.numbers.integers(-1, 6, dims).astype(dtype)
    return {"cats_int64s": model.choose.sample(range(-1, 7), 4), "zeros": 1}


def label_encoder(model: Learned) -> dict[str, Any]:
    """With integers and floats, NaN, tensors, and repeated keys."""
    model.version = model.choose.choice([2, 4])
    keys, values = (model.choose.choice(["int64s", "floats"]) for _ in range(2))
    data = model.numbers.integers(0, 8, (3, 2)).astype(np.int64 if keys == "int64s" else np.float32)
    model.feeds["x"] = data
    if model.version == 4 and model.may(0.4):
        return {
            "keys_tensor": numpy_helper.from_array(data.reshape(-1)[:4]),
            "values_tensor": numpy_helper.from_array(model.numbers.integers(0, 9, 4)),
            "default_tensor": numpy_helper.from_array(np.array([-3])),
        }
    known: list[Any] = model.choose.sample(range(8), 5)
    if keys == "floats":
        known = [float(key) for key in known]
        if model.version == 4 and model.may(0.5):
            known[2] = data[0, 0] = np.nan
    held = model.floats(5) if values == "floats" else model.numbers.integers(-9, 9, 5).tolist()
    attributes = {f"keys_{keys}": known, f"values_{values}": held}
    if model.may(0.5):
        attributes["default_float" if values == "floats" else "default_int64"] = 7.5 if values == "floats" else 7
    return attributes


def linear_regressor(model: Learned) -> dict[str, Any]:
    """With one target and several, with intercepts and without."""
    model.feeds["x"] = data = model.samples()
    targets = model.choose.choice([1, 2, 3])
    attributes = {"coefficients": model.floats(targets * data.shape[-1]), "targets": targets}
    if model.may(0.7):
        attributes["intercepts"] = model.floats(targets)
    return {**attributes, "post_transform": model.post_transform()}


def linear_classifier(model: Learned) -> dict[str, Any]:
    """With one score for two classes, and with equal scores."""
    model.feeds["x"] = data = model.samples(*NUMBERS)
    model.outputs = ["y", "z"]
    features, classes = data.shape[-1], model.choose.choice([1, 1, 2, 3, 4])
    coefficients, intercepts = model.floats(classes * features), model.floats(classes)
    if classes > 1 and model.may(0.2):
        coefficients, intercepts = coefficients[:features] * classes, [0.5] * classes
    count = model.choose.choice([2, 2, 0]) if classes == 1 else classes
    attributes = {"coefficients": coefficients, "intercepts": intercepts, "post_transform": model.post_transform()}
    return {**attributes, **({"classlabels_ints": model.choose.sample(range(-9, 30), count)} if count else {})}


class Forest:
    """Trees as lists of nodes: the feature, the split, the children and the mode, or `None` for a leaf."""

    def __init__(self, model: Learned, features: int) -> None:
        self._model, self._features = model, features
        self.modes = model.choose.choice(
            [["BRANCH_LEQ"], ["BRANCH_LEQ"], ["BRANCH_LT"], ["BRANCH_GT"], ["BRANCH_LEQ", "BRANCH_GTE"], list(MODES)]
        )

    def tree(self, depth: int) -> list[list[Any] | None]:
        """Return the nodes of a tree, each before its children."""
        nodes: list[list[Any] | None] = []
        self._grow(nodes, depth)
        return nodes

    def _grow(self, nodes: list[list[Any] | None], depth: int) -> int:
        place, choose = len(nodes), self._model.choose
        nodes.append(None)
        if depth and not self._model.may(0.2):
            split = choose.choice([-1, -0.5, 0, 0.25, 1, *self._model.floats(1)])
            node = [choose.randrange(self._features), float(split), 0, 0, choose.choice(self.modes)]
            nodes[place] = node
            node[2:4] = [self._grow(nodes, depth - 1), self._grow(nodes, depth - 1)]
        return place


def _votes(model: Learned, classes: int, is_classifier: bool) -> Callable[[int], list[int]]:
    """Return the targets for which the leaves of a tree have numbers."""
    kinds = ["all", "one for each tree", "some"] if classes > 1 else ["all"]
    kind, only = model.choose.choice(kinds), model.choose.randrange(classes)
    if is_classifier and classes == 2 and model.may(0.6):
        return lambda tree: [only]
    if kind == "one for each tree":
        return lambda tree: [tree % classes]
    if kind == "some":
        return lambda tree: [number for number in range(classes) if model.may(0.6)] or [0]
    return lambda tree: list(range(classes))


def _ensemble(model: Learned, prefix: str, classes: int) -> dict[str, Any]:
    """Return the attributes of an ensemble: trees of all depths, ids that need not start at zero, with NaN or not."""
    model.feeds["x"] = data = _tree_samples(model)
    forest, count, offset = (
        Forest(model, data.shape[1]),
        model.choose.choice([1, 2, 3, 7, 30]),
        model.choose.choice([0, 5]),
    )
    votes, is_positive = _votes(model, classes, prefix == "class"), model.may(0.5)
    nodes: dict[str, list[Any]] = {
        name: [] for name in ("nodeids", "treeids", "featureids", "modes", "values", "truenodeids", "falsenodeids")
    }
    weights: dict[str, list[Any]] = {name: [] for name in ("ids", "nodeids", "treeids", "weights")}
    for number in range(count):
        for place, node in enumerate(forest.tree(model.choose.choice([0, 1, 2, 4]))):
            feature, split, true, false, mode = node or (0, 0.0, 0, 0, "LEAF")
            row = (place, number + offset, feature, mode, split, true, false)
            for name, value in zip(nodes, row, strict=True):
                nodes[name].append(value)
            for target in votes(number) if node is None else ():
                weight = model.floats(1, 0 if is_positive else -1, 1)[0] / count
                for name, value in zip(weights, (target, place, number + offset, weight), strict=True):
                    weights[name].append(value)
    attributes: dict[str, Any] = {f"nodes_{name}": values for name, values in nodes.items()}
    attributes |= {f"{prefix}_{name}": values for name, values in weights.items()}
    if model.may(0.5):
        attributes["nodes_missing_value_tracks_true"] = [int(model.may(0.5)) for _ in nodes["modes"]]
    attributes["post_transform"] = model.post_transform()
    return attributes


def _tree_samples(model: Learned) -> np.ndarray:
    """Return samples that often equal the number at which a node splits, or NaN."""
    data = model.samples("float32", "float32", "float64", rank=2)
    data = np.where(model.numbers.random(data.shape) < 0.3, np.round(data * 4) / 4, data).astype(data.dtype)
    if model.may(0.4):
        data = np.where(model.numbers.random(data.shape) < 0.2, np.nan, data).astype(data.dtype)
    return data


def tree_ensemble_classifier(model: Learned) -> dict[str, Any]:
    """With two and more classes."""
    classes, model.outputs = model.choose.choice([2, 2, 3, 4]), ["y", "z"]
    attributes = _ensemble(model, "class", classes)
    attributes["classlabels_int64s"] = [model.choose.randint(-5, 50) + 100 * number for number in range(classes)]
    if base := model.choose.choice([0, 0, 1, classes] if classes == 2 else [0, classes]):
        attributes["base_values"] = model.floats(base, -0.5, 0.5)
    return attributes


def tree_ensemble_regressor(model: Learned) -> dict[str, Any]:
    """With one target and more, with each way to combine trees."""
    targets = model.choose.choice([1, 1, 2, 3])
    attributes = _ensemble(model, "target", targets)
    if model.may(0.4):
        attributes["base_values"] = model.floats(targets, -0.5, 0.5)
    aggregate = model.choose.choice(["SUM", "SUM", "AVERAGE", "MIN", "MAX"])
    return {**attributes, "n_targets": targets, "aggregate_function": aggregate}


def tree_ensemble(model: Learned) -> dict[str, Any]:
    """The newest form, with leaves in their own list, and nodes that test for members of a set of integers."""
    model.version, targets = 5, model.choose.choice([1, 2, 3])
    forest, dtype = Forest(model, 3), model.choose.choice([np.float32, np.float32, np.float64])
    asks_for_members = model.may(0.4)
    columns: dict[str, list[Any]] = {
        name: [] for name in ("featureids", "splits", "modes", "truenodeids", "trueleafs", "falsenodeids", "falseleafs")
    }
    leaves: list[int] = []
    roots, members = [], []
    for number in range(model.choose.choice([1, 2, 5])):
        tree = forest.tree(model.choose.choice([1, 2, 4]))
        if tree[0] is None:
            tree = [[0, 0.5, 1, 2, "BRANCH_LEQ"], None, None]
        start = len(columns["modes"])
        roots.append(start)
        inner = {place: start + count for count, place in enumerate(p for p, node in enumerate(tree) if node)}
        outer = {place: len(leaves) + count for count, place in enumerate(p for p, node in enumerate(tree) if not node)}
        leaves += [number % targets for _ in outer]
        for node in filter(None, tree):
            mode = MODES.index(node[4])
            if asks_for_members and model.may(0.5):
                mode = MEMBER
                members += [*map(float, model.choose.sample(range(5), model.choose.randint(1, 3))), float("nan")]
            children = [
                value for child in node[2:4] for value in (inner.get(child, outer.get(child)), int(child in outer))
            ]
            for name, value in zip(columns, (node[0], node[1], mode, *children), strict=True):
                columns[name].append(value)
    low = 0 if asks_for_members else -2
    model.feeds["x"] = model.numbers.integers(low, 5, (model.choose.choice([1, 4, 9]), 3)).astype(dtype)
    attributes: dict[str, Any] = {f"nodes_{name}": values for name, values in columns.items()}
    attributes["nodes_splits"] = numpy_helper.from_array(np.array(columns["splits"], dtype))
    attributes["nodes_modes"] = numpy_helper.from_array(np.array(columns["modes"], np.uint8))
    attributes["leaf_weights"] = numpy_helper.from_array(np.array(model.floats(len(leaves)), dtype))
    if members:
        attributes["membership_values"] = numpy_helper.from_array(np.array(members, dtype))
    aggregate = model.choose.choice([0, 1, 1, 2, 3])
    return {
        **attributes, "leaf_targetids": leaves, "tree_roots": roots, "n_targets": targets,
        "aggregate_function": aggregate, "post_transform": model.choose.choice([0, 0, 3]),
    }  # fmt: skip


OPERATORS: Mapping[str, Callable[[Learned], dict[str, Any]]] = {
    "ArrayFeatureExtractor": array_feature_extractor,
    "Binarizer": binarizer,
    "FeatureVectorizer": feature_vectorizer,
    "Imputer": imputer,
    "LabelEncoder": label_encoder,
    "LinearClassifier": linear_classifier,
    "LinearRegressor": linear_regressor,
    "Normalizer": normalizer,
    "OneHotEncoder": one_hot_encoder,
    "Scaler": scaler,
    "TreeEnsemble": tree_ensemble,
    "TreeEnsembleClassifier": tree_ensemble_classifier,
    "TreeEnsembleRegressor": tree_ensemble_regressor,
}


def reference(proto: onnx.ModelProto, feeds: Mapping[str, np.ndarray]) -> list[np.ndarray] | None:
    """Return what onnxruntime computes with one thread, so that sums have one order; `None` if it refuses the model."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    try:
        return list(evaluation.session(proto.SerializeToString(), options).run(None, dict(feeds)))
    except Exception:
        return None


def is_same(one: np.ndarray, other: np.ndarray, is_probit: bool) -> bool:
    """Whether integers are equal, and floats except for rounding."""
    if one.dtype.kind == "i":
        return bool((one == other).all())
    if is_probit:
        return bool(np.allclose(other * abs(other), one * abs(one), rtol=3e-5, atol=NEAR_ZERO, equal_nan=True))
    return bool(np.allclose(other, one, **TOLERANCE, equal_nan=True))


def outcome(model: Learned, runtimes: Mapping[str, Any], path: Path) -> str:
    """Return the outcome of a model: "right", "refused", "invalid" for onnxruntime, or the difference."""
    wanted = reference(model.proto, model.feeds)
    if wanted is None:
        return "invalid"
    try:
        path.write_bytes(
            to_bytes(CODEC.plan(decode(Literal(model.proto.SerializeToString()), Model), path, RtenOptions()))
        )
    except RefusalError:
        return "refused"
    for release, runtime in runtimes.items():
        for one, other in zip(wanted, runtime.run(path, model.feeds), strict=True):
            if one.shape != other.shape:
                return f"{model.op_type}: dims {other.shape} for {one.shape} in {release}"
            if not is_same(one, other, model.is_probit):
                return f"{model.op_type}: {other.tolist()} for {one.tolist()} in {release}"
    return "right"


def main() -> int:
    """Run the models of many seeds, and print the outcomes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=1000)
    options = parser.parse_args()
    runtimes = {release: runner for release in RELEASES if (runner := Runner.find(release)) is not None}
    counts: Counter[tuple[str, str]] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(options.seed, options.seed + options.count):
            model = Learned(seed)
            found = outcome(model, runtimes, Path(folder) / "m.rten")
            if found not in ("right", "refused", "invalid"):
                print(f"{seed}: {found}")
                found = "wrong"
            counts[model.op_type, found] += 1
    for (op_type, found), count in sorted(counts.items()):
        print(f"{op_type} {found}: {count}")
    return any(found == "wrong" for _, found in counts)


if __name__ == "__main__":
    sys.exit(main())
