"""Support vector machines as products of matrices: the kernel of each sample with each vector, and its coefficients.

Spec: ONNX, Operators-ml.md, SVMClassifier and SVMRegressor; where it is not clear, this follows ONNX Runtime.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from formats.ir.dtypes import INT32
from formats.rten.convert import budget
from formats.rten.convert.refusal import Refused
from formats.rten.graph.attributes import get_floats, get_int, get_ints, get_string
from formats.rten.operators import ml
from formats.rten.operators.shared.spec import MACHINE_LEARNING, OperatorSpec, ToRten

if TYPE_CHECKING:
    from formats.ir.model import Node
    from formats.rten.convert.context import Context


def _kernels(node: Node, context: Context, count: int) -> str:
    """The kernel of each sample with each of the vectors."""
    import numpy

    op = context.op
    vectors = numpy.asarray(get_floats(node, "support_vectors") or (), numpy.float32).reshape(count, -1)
    gamma, offset, degree = (*(get_floats(node, "kernel_params") or ()), 0.0, 0.0, 0.0)[:3]
    data, kind = ml.samples(context), get_string(node, "kernel_type", "LINEAR")
    if kind == "RBF":
        column = op("Unsqueeze", data, context.int64([1]))
        apart = op("Sub", column, context.array(vectors))
        square = op("ReduceSumSquare", apart, context.int64([2]), keepdims=0)
        return op("Exp", op("Mul", square, context.scalar(-gamma)))
    product = op("MatMul", data, context.array(vectors.T))
    if kind == "LINEAR":
        return product
    scaled = op("Mul", product, context.scalar(gamma))
    moved = op("Add", scaled, context.scalar(offset))
    if kind == "POLY":
        return op("Pow", moved, context.scalar(degree))
    if kind == "SIGMOID":
        return op("Tanh", moved)
    raise Refused(f"has the unknown kernel_type {kind!r}")


def regressor(node: Node, context: Context) -> list[Node] | None:
    """Write it as a sum of kernels times coefficients; for one class, as its sign."""
    import numpy

    op = context.op
    if get_string(node, "post_transform", "NONE") != "NONE":
        raise Refused("has a post_transform, which ONNX Runtime ignores", "set it to NONE")
    count = get_int(node, "n_supports")
    kernels = _kernels(node, context, count) if count else ml.samples(context)
    coefficients = numpy.asarray(get_floats(node, "coefficients") or (), numpy.float32).reshape(-1, 1)
    offset = context.scalar((get_floats(node, "rho") or [0.0])[0])
    total = op("Add", op("MatMul", kernels, context.array(coefficients)), offset)
    if get_int(node, "one_class"):
        is_inside = op("Greater", total, context.scalar(0.0))
        total = op("Where", is_inside, context.scalar(1.0), context.scalar(-1.0))
    return context.replace(total)


SVMRegressor = OperatorSpec("SVMRegressor", to_rten=ToRten(rewritings=(regressor,)), domain=MACHINE_LEARNING)


def classifier(node: Node, context: Context) -> list[Node] | None:
    """Write it as kernels for each pair of classes; the class that wins most often is the label."""
    import numpy

    op = context.op
    labels, supports = ml.int_labels(node, context, "classlabels_ints"), get_ints(node, "vectors_per_class") or []
    if get_floats(node, "prob_a"):
        raise Refused("computes probabilities in a way that ONNX does not define", "train without them")
    if len(labels) < 2 or len(supports) != len(labels) or get_string(node, "post_transform", "NONE") != "NONE":
        raise Refused("has a post_transform, or does not list support vectors for each class")
    count, classes = sum(supports), len(labels)
    given = numpy.asarray(get_floats(node, "coefficients") or (), numpy.float32).reshape(classes - 1, count)
    budget.elements(sum(supports))
    budget.steps(classes * (classes - 1) // 2)
    owners = numpy.repeat(budget.arange(classes), supports)
    pairs = [(one, other) for one in range(classes) for other in range(one + 1, classes)]
    coefficients = budget.zeros((count, len(pairs)), numpy.float32)
    for place, (one, other) in enumerate(pairs):
        coefficients[owners == one, place] = given[other - 1, owners == one]
        coefficients[owners == other, place] = given[one, owners == other]
    product = op("MatMul", _kernels(node, context, count), context.array(coefficients))
    scores = op("Add", product, context.array([(get_floats(node, "rho") or ())[: len(pairs)]]))
    if classes == 2:
        both = op("Concat", op("Neg", scores), scores, axis=1)
        return context.replace(ml.label_above(context, scores, 0.0, labels[::-1]), both)
    winners, losers = numpy.asarray(pairs).T
    wins = op("Greater", scores, context.scalar(0.0))
    winner = op("Where", wins, context.array(winners, INT32), context.array(losers, INT32))
    column = op("Unsqueeze", winner, context.int64([2]))
    votes = context.cast(op("Equal", column, context.array(range(classes), INT32)), INT32)
    total = op("ReduceSum", votes, context.int64([1]), keepdims=0)
    return context.replace(ml.label_of_largest(context, total, labels), scores)


SVMClassifier = OperatorSpec("SVMClassifier", to_rten=ToRten(rewritings=(classifier,)), domain=MACHINE_LEARNING)
