"""Operators of classical machine learning, of the domain ai.onnx.ml, as standard operators; trees are in `trees.py`.

Spec: ONNX, Operators-md; where it is not clear, this follows ONNX Runtime.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan, prod
from typing import Any

import numpy as np

from formats.ir import MACHINE_LEARNING
from formats.ir.attributes import attribute_named, get_float, get_floats, get_int, get_ints, get_string, get_strings
from formats.ir.dtypes import FLOAT, INT32, INT64
from formats.ir.model import Node
from formats.rten.convert import budget
from formats.rten.convert.context import Context
from formats.rten.convert.refusal import Refused
from formats.rten.operators import shape
from formats.rten.spec import because, rewritten
from formats.rten.types import NOT_NUMBERS

_STRINGS = "uses strings, which RTen does not support"
_STRINGS_REMEDY = "train with numbers instead"


def _of_features(node: Node, context: Context, name: str) -> str:
    """A constant with one number, or one for each feature, which are along the second axis."""
    values = get_floats(node, name) or ()
    if len(values) == 1:
        return context.array(values[0])
    rank = context.known_rank(context.input(0))
    features = (context.dims(context.input(0)) or ())[min(rank - 1, 1)]
    if isinstance(features, int) and len(values) != features:  # onnxruntime stops, too, if only the run can tell
        raise Refused(f"has {len(values)} numbers in {name!r} for {features} features")
    return context.op("Reshape", context.array(values), [-1] + [1] * max(rank - 2, 0))


def scaler(node: Node, context: Context) -> list[Node] | None:
    """Write it as (x - offset) * scale."""
    data = context.cast(context.input(0), FLOAT)
    shifted = context.op("Sub", data, _of_features(node, context, "offset"))
    return context.replace(context.op("Mul", shifted, _of_features(node, context, "scale")))


def normalizer(node: Node, context: Context) -> list[Node] | None:
    """Write it as a division of each sample by its norm, if that is not zero."""
    op = context.op
    data = context.cast(context.input(0), FLOAT)
    reductions = {"MAX": "ReduceMax", "L1": "ReduceL1", "L2": "ReduceL2"}
    name = get_string(node, "norm", "MAX")
    if name not in reductions:
        raise Refused(f"has the unknown norm {name!r}")
    axis = min(context.known_rank(data) - 1, 1)
    size = op(reductions[name], data, [axis], keepdims=1)  # a norm for each sample
    is_zero = op("Equal", size, 0.0)
    divisor = op("Where", is_zero, 1.0, size)
    return context.replace(op("Div", data, divisor))


def binarizer(node: Node, context: Context) -> list[Node] | None:
    """Write it as a comparison with the threshold."""
    data = context.input(0)
    limit = context.array(get_float(node, "threshold"), context.elem_type(data) or FLOAT)
    return context.replace(context.cast(context.op("Greater", data, limit), context.elem_type(data) or FLOAT))


def array_feature_extractor(node: Node, context: Context) -> list[Node] | None:
    """Write it as a Gather of columns."""
    data = context.input(0)
    if context.known_rank(data) == 1:
        data = context.op("Unsqueeze", data, [0])
    places = context.op("Reshape", context.input(1), [-1])
    return context.replace(context.op("Gather", data, places, axis=-1))


def _for_each_feature(context: Context, values: str, count: int, features: str) -> str:
    """The values if they are as many as there are features, or else the first one for each feature."""
    op = context.op
    columns = op("Squeeze", features, [0])
    numbers = shape.numbers_below(context, columns)
    is_fitting = op("Equal", features, [count])
    places = op("Where", is_fitting, numbers, [0])
    return op("Gather", values, places, axis=0)


def imputer(node: Node, context: Context) -> list[Node] | None:
    """Write it as Where the number that means "missing" is found."""
    op = context.op
    data = context.input(0)
    elem_type = context.elem_type(data) or FLOAT
    is_float = attribute_named(node, "imputed_value_floats") is not None
    values = (get_floats(node, "imputed_value_floats") if is_float else get_ints(node, "imputed_value_int64s")) or []
    rank = context.known_rank(data)
    if not values:
        raise Refused("has no values to impute")
    axis = min(rank - 1, 1)
    features = (context.dims(data) or ())[axis]
    if isinstance(features, int):
        values = values if features == len(values) else values[:1]  # as in ONNX Runtime
    fill = context.array(values, elem_type)
    if len(values) > 1 and not isinstance(features, int):
        fill = _for_each_feature(context, fill, len(values), shape.sizes_of(context, data, axis, axis + 1))
    if rank > 2 and len(values) > 1:
        fill = op("Reshape", fill, [-1] + [1] * (rank - 2))
    missing = get_float(node, "replaced_value_float") if is_float else get_int(node, "replaced_value_int64")
    is_missing = op("IsNaN", data) if isnan(missing) else op("Equal", data, context.array(missing, elem_type))
    return context.replace(op("Where", is_missing, fill, data))


def feature_vectorizer(node: Node, context: Context) -> list[Node] | None:
    """Write it as Concat of the inputs, each cut or padded to its number of columns."""
    op = context.op
    parts = []
    for place, width in enumerate(get_ints(node, "inputdimensions") or ()):
        data = context.cast(context.input(place), FLOAT)
        rows = context.int64([1]) if context.known_rank(data) == 1 else shape.sizes_of(context, data, 0, 1)
        part = op("Reshape", data, shape.joined(context, rows, context.int64([-1])))  # samples, all features
        feature_dims = (context.dims(data) or ())[min(context.known_rank(data) - 1, 1) :]
        sizes = [dim for dim in feature_dims if isinstance(dim, int)]
        columns = prod(sizes) if len(sizes) == len(feature_dims) else None
        if columns is None or columns < width:
            part = op("Pad", part, [0, 0, 0, width - (columns or 0)])
        if columns is None or columns > width:
            bounds = (context.int64([number]) for number in (0, width, 1))
            part = op("Slice", part, *bounds)  # samples, width
        parts.append(part)
    if len(parts) != len(node.input):
        raise Refused(f"has {len(node.input)} inputs, but inputdimensions for {len(parts)}")
    return context.replace(op("Concat", *parts, axis=1))


def _places(context: Context, data: str, keys: Sequence[Any], elem_type: int) -> str:
    """The place of each element among the keys counted from one, INT32; zero for one that is not there."""
    op = context.op
    column = op("Unsqueeze", data, [-1])  # ..., 1, compared with all keys: ..., keys
    is_key = op("Equal", column, context.array(keys, elem_type))
    if any(isinstance(key, float) and isnan(key) for key in keys):
        nan_key = context.array([isinstance(key, float) and isnan(key) for key in keys], INT32)
        both = op("Mul", context.cast(op("IsNaN", column), INT32), nan_key)
        is_key = op("Or", is_key, op("Equal", both, context.array(1, INT32)))
    numbers = context.array(range(1, len(keys) + 1), INT32)
    places = op("Where", is_key, numbers, context.array(0, INT32))
    return op("ReduceMax", places, [-1], keepdims=0)  # ...


def one_hot_encoder(node: Node, context: Context) -> list[Node] | None:
    """Write it as comparisons with the categories."""
    categories = get_ints(node, "cats_int64s")
    if categories is None:
        raise Refused(_STRINGS, _STRINGS_REMEDY)
    data = context.input(0)
    elem_type = context.elem_type(data)
    if elem_type not in (INT32, INT64):
        data, elem_type = context.cast(data, INT32), INT32
    column = context.op("Unsqueeze", data, [-1])
    is_category = context.op("Equal", column, context.array(categories, elem_type))  # ..., categories
    return context.replace(context.cast(is_category, FLOAT))


def _table(node: Node, context: Context, what: str) -> tuple[list[Any], int]:
    """The keys or values of a LabelEncoder, and their element type."""
    tensor = attribute_named(node, f"{what}_tensor")
    if tensor is not None and tensor.t is not None and tensor.t.data_type not in NOT_NUMBERS:
        return list(tensor.t.numpy().reshape(-1).tolist()), tensor.t.data_type or FLOAT
    if attribute_named(node, f"{what}_int64s") is not None:
        return list(get_ints(node, f"{what}_int64s") or ()), INT64
    if attribute_named(node, f"{what}_floats") is not None:
        return list(get_floats(node, f"{what}_floats") or ()), FLOAT
    raise Refused(_STRINGS, _STRINGS_REMEDY)


def label_encoder(node: Node, context: Context) -> list[Node] | None:
    """Write it as a lookup in a table of keys; the first of equal keys counts."""
    keys, key_type = _table(node, context, "keys")
    values, value_type = _table(node, context, "values")
    default: Any = get_int(node, "default_int64", -1) if value_type == INT64 else get_float(node, "default_float", -0.0)
    default_tensor = attribute_named(node, "default_tensor")
    if default_tensor is not None and default_tensor.t is not None:
        default = default_tensor.t.numpy().reshape(-1).tolist()[0]
    first: dict[Any, Any] = {}
    for key, value in zip(keys, values, strict=True):
        first.setdefault("nan" if key != key else key, value)
    distinct_keys = [float("nan") if key == "nan" else key for key in first]
    places = _places(context, context.input(0), distinct_keys, key_type)
    table = context.array([default, *first.values()], value_type)
    return context.replace(context.op("Gather", table, places, axis=0))


@because("Refuse it: RTen has no dictionaries")
def zip_map(node: Node, context: Context) -> list[Node] | None:
    raise Refused(
        "outputs dictionaries, which RTen does not support",
        "export without it (skl2onnx: options={'zipmap': False}), or make its input an output",
    )


def _probit(context: Context, data: str) -> str:
    """The inverse of the normal distribution, by the approximation that ONNX Runtime has.

    Spec: ONNX Runtime, ml_common.h, `ErfInv`.
    """
    op = context.op
    one, unit = context.scalar(1.0), context.scalar(0.147)
    x = op("Sub", op("Mul", data, 2.0), one)
    inner = op("Mul", op("Sub", one, x), op("Add", one, x))
    log = op("Log", inner)
    half = op("Mul", log, 0.5)
    first = op("Add", half, context.scalar(2 / (3.14159 * 0.147)))
    square = op("Mul", first, first)
    root = op("Sqrt", op("Sub", square, op("Div", log, unit)))
    size = op("Sqrt", op("Sub", root, first))
    is_negative = op("Less", x, 0.0)
    signed = op("Where", is_negative, op("Neg", size), size)  # the inverse error function is odd
    return op("Mul", signed, context.scalar(2**0.5))


def _softmax_zero(context: Context, data: str) -> str:
    """Softmax of the numbers that are not zero, which stay zero."""
    op = context.op
    largest = op("ReduceMax", data, [-1], keepdims=1)
    grown = op("Exp", op("Sub", data, largest))
    is_something = op("Greater", op("Abs", data), 0.0000001)
    exponentials = op("Where", is_something, grown, 0.0)
    small = op("Mul", data, op("Exp", op("Neg", largest)))
    total = op("ReduceSum", exponentials, [-1], keepdims=1)
    return op("Div", op("Where", is_something, grown, small), total)


def post_transform(context: Context, scores: str, name: str, count: int) -> str:
    """Scores, of which each sample has a row of `count`, put through the function that an attribute names.

    Raises: Refused for a single score if ONNX and ONNX Runtime differ.
    """
    if name in ("", "NONE"):
        return scores
    if count == 1 and name != "PROBIT":
        raise Refused(
            f"has post_transform = {name!r}, which ONNX Runtime does not apply to a single score",
            "set it to NONE, or add a node after it",
        )
    if name == "LOGISTIC":
        return context.op("Sigmoid", scores)
    if name == "SOFTMAX":
        return context.op("Softmax", scores, axis=-1)
    if name == "SOFTMAX_ZERO":
        return _softmax_zero(context, scores)
    if name == "PROBIT":
        return _probit(context, scores)
    raise Refused(f"has the unknown post_transform {name!r}")


def samples(context: Context, elem_type: int = FLOAT) -> str:
    """The first input as a matrix of floats; a vector is one sample."""
    data = context.cast(context.input(0), elem_type)
    rank = context.known_rank(data)
    if rank not in (1, 2):
        raise Refused(f"has samples with {rank - 1} axes; at most one can be converted", "flatten them")
    return data if rank == 2 else context.op("Unsqueeze", data, [0])


def _linear(node: Node, context: Context, targets: int) -> str:
    """The product of the samples and the coefficients, and the intercepts."""
    coefficients, intercepts = get_floats(node, "coefficients") or [], get_floats(node, "intercepts")
    if not targets or len(coefficients) % targets:
        raise Refused(f"has {len(coefficients)} coefficients for {targets} targets")
    weight = np.asarray(coefficients, np.float32).reshape(targets, -1)  # targets, features
    inputs = [samples(context), context.array(weight)]
    if intercepts:
        inputs.append(context.array(intercepts))
    return context.op("Gemm", *inputs, transB=1)


def linear_regressor(node: Node, context: Context) -> list[Node] | None:
    """Write it as Gemm."""
    targets = get_int(node, "targets", 1)
    scores = _linear(node, context, targets)
    return context.replace(post_transform(context, scores, get_string(node, "post_transform"), targets))


def int_labels(node: Node, context: Context, name: str) -> list[int]:
    """The labels of classes; if they are strings that no node reads, their places in the list."""
    strings = get_strings(node, "classlabels_strings")
    if strings and context.wanted(0):
        reason = "outputs strings as labels, which RTen does not support"
        raise Refused(reason, "train with numbers, or drop that output")
    return list(range(len(strings))) if strings else list(get_ints(node, name) or ())


def label_of_largest(context: Context, scores: str, labels: Sequence[int]) -> str:
    """The label of the largest score of each sample, the first of equal ones."""
    op = context.op
    largest = op("ReduceMax", scores, [-1], keepdims=1)  # samples, 1
    is_largest = op("Equal", scores, largest)  # samples, classes
    count = len(labels)
    places = op("Where", is_largest, context.array(range(count), INT32), context.array(count, INT32))
    first = op("ReduceMin", places, [-1], keepdims=0)  # samples
    return op("Gather", [*labels, labels[0]], first, axis=0)


def label_above(context: Context, scores: str, limit: float, labels: Sequence[int]) -> str:
    """The second label where the only score of a sample exceeds a limit, else the first."""
    column = context.op("Squeeze", scores, [1])  # samples
    above = context.op("Greater", column, context.scalar(limit, like=scores))
    first, second = (context.int64_scalar(label) for label in labels)
    return context.op("Where", above, second, first)


def linear_classifier(node: Node, context: Context) -> list[Node] | None:
    """Write it as Gemm, and ArgMax for the label."""
    op = context.op
    labels = int_labels(node, context, "classlabels_ints")
    count, name = len(get_floats(node, "intercepts") or ()), get_string(node, "post_transform")
    scores = _linear(node, context, count)
    if count != 1:  # one score for each class
        if len(labels) != count:
            raise Refused(f"has {len(labels)} labels for {count} classes")
        return context.replace(label_of_largest(context, scores, labels), post_transform(context, scores, name, count))
    label = label_above(context, scores, 0.0, labels if len(labels) == 2 else (0, 1))
    if len(labels) != 2:
        return context.replace(label, post_transform(context, scores, name, count))
    if name == "PROBIT":
        raise Refused("has a post_transform that is not defined for two classes with one score")
    if name == "LOGISTIC":
        scores = op("Concat", op("Neg", scores), scores, axis=1)
        return context.replace(label, op("Sigmoid", scores))
    rest = op("Sub", 1.0, scores)  # the score of the first class
    return context.replace(label, op("Concat", rest, scores, axis=1))


def _kernels(node: Node, context: Context, count: int) -> str:
    """The kernel of each sample with each of the vectors."""
    op = context.op
    vectors = np.asarray(get_floats(node, "support_vectors") or (), np.float32).reshape(count, -1)
    gamma, offset, degree = (*(get_floats(node, "kernel_params") or ()), 0.0, 0.0, 0.0)[:3]
    data, kind = samples(context), get_string(node, "kernel_type", "LINEAR")
    if kind == "RBF":
        column = op("Unsqueeze", data, [1])  # samples, 1, features
        apart = op("Sub", column, context.array(vectors))  # samples, vectors, features
        square = op("ReduceSumSquare", apart, [2], keepdims=0)  # samples, vectors
        return op("Exp", op("Mul", square, context.scalar(-gamma)))
    product = op("MatMul", data, context.array(vectors.T))  # samples, vectors
    if kind == "LINEAR":
        return product
    scaled = op("Mul", product, context.scalar(gamma))
    moved = op("Add", scaled, context.scalar(offset))
    if kind == "POLY":
        return op("Pow", moved, context.scalar(degree))
    if kind == "SIGMOID":
        return op("Tanh", moved)
    raise Refused(f"has the unknown kernel_type {kind!r}")


def svm_regressor(node: Node, context: Context) -> list[Node] | None:
    """Write it as a sum of kernels times coefficients; for one class, as its sign."""
    op = context.op
    if get_string(node, "post_transform", "NONE") != "NONE":
        raise Refused("has a post_transform, which ONNX Runtime ignores", "set it to NONE")
    count = get_int(node, "n_supports")
    kernels = _kernels(node, context, count) if count else samples(context)
    coefficients = np.asarray(get_floats(node, "coefficients") or (), np.float32).reshape(-1, 1)
    offset = context.scalar((get_floats(node, "rho") or [0.0])[0])
    total = op("Add", op("MatMul", kernels, context.array(coefficients)), offset)
    if get_int(node, "one_class"):
        is_inside = op("Greater", total, 0.0)
        total = op("Where", is_inside, 1.0, -1.0)
    return context.replace(total)


def svm_classifier(node: Node, context: Context) -> list[Node] | None:
    """Write it as kernels for each pair of classes; the class that wins most often is the label."""
    op = context.op
    labels, supports = int_labels(node, context, "classlabels_ints"), get_ints(node, "vectors_per_class") or []
    if get_floats(node, "prob_a"):
        raise Refused("computes probabilities in a way that ONNX does not define", "train without them")
    if len(labels) < 2 or len(supports) != len(labels) or get_string(node, "post_transform", "NONE") != "NONE":
        raise Refused("has a post_transform, or does not list support vectors for each class")
    count, classes = sum(supports), len(labels)
    # The axes: classes - 1, vectors.
    by_class = np.asarray(get_floats(node, "coefficients") or (), np.float32).reshape(classes - 1, count)
    budget.count_elements(sum(supports))
    budget.steps(classes * (classes - 1) // 2)
    # A pair of classes has a column: the coefficients of both classes' vectors against the other class. In ONNX, row n
    # has those against the nth of the other classes.
    owners = np.repeat(budget.arange(classes), supports)  # the class of each vector
    pairs = [(one, other) for one in range(classes) for other in range(one + 1, classes)]
    coefficients = budget.zeros((count, len(pairs)), np.float32)
    for place, (one, other) in enumerate(pairs):
        coefficients[owners == one, place] = by_class[other - 1, owners == one]
        coefficients[owners == other, place] = by_class[one, owners == other]
    product = op("MatMul", _kernels(node, context, count), context.array(coefficients))  # samples, pairs
    scores = op("Add", product, context.array([(get_floats(node, "rho") or ())[: len(pairs)]]))
    if classes == 2:
        both = op("Concat", op("Neg", scores), scores, axis=1)
        return context.replace(label_above(context, scores, 0.0, labels[::-1]), both)
    winners, losers = np.asarray(pairs).T
    wins = op("Greater", scores, 0.0)
    winner = op("Where", wins, context.array(winners, INT32), context.array(losers, INT32))
    column = op("Unsqueeze", winner, [2])  # samples, pairs, 1
    # Each pair votes for its winner: samples, pairs, classes.
    votes = context.cast(op("Equal", column, context.array(range(classes), INT32)), INT32)
    total = op("ReduceSum", votes, [1], keepdims=0)  # samples, classes
    return context.replace(label_of_largest(context, total, labels), scores)


REWRITTEN = rewritten(
    MACHINE_LEARNING,
    ArrayFeatureExtractor=array_feature_extractor,
    Binarizer=binarizer,
    FeatureVectorizer=feature_vectorizer,
    Imputer=imputer,
    LabelEncoder=label_encoder,
    LinearClassifier=linear_classifier,
    LinearRegressor=linear_regressor,
    Normalizer=normalizer,
    OneHotEncoder=one_hot_encoder,
    SVMClassifier=svm_classifier,
    SVMRegressor=svm_regressor,
    Scaler=scaler,
    ZipMap=zip_map,
)
