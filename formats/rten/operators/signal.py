"""Signals and rows of numbers: running totals, Fourier transforms, windows, and counts of n-grams.

Spec: ONNX, Operators.md, CumSum, CumProd, DFT, MelWeightMatrix and TfIdfVectorizer.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import pi
from typing import Final

from formats.ir.attributes import attribute_named, get_int, get_ints, get_string
from formats.ir.dtypes import FLOAT, INT32, INT64
from formats.ir.model import Graph, Node
from formats.rten.convert import budget
from formats.rten.convert.context import Context
from formats.rten.convert.refusal import Refused
from formats.rten.convert.scope import Scope
from formats.rten.convert.value_types import Dims, ValueType
from formats.rten.graph.attributes import with_input
from formats.rten.operators import ranges, shape, slicing
from formats.rten.operators.rules import always, normalize, of_attribute, of_floats, same
from formats.rten.spec import (
    Deviation,
    Field,
    OnnxLoader,
    OperatorSpec,
    Outputs,
    Rewriting,
    Row,
    ToOnnx,
    ToRten,
    because,
    unknown,
)
from formats.rten.target import RTEN_0_26, Fault
from formats.rten.types import INT32_LIMITS, INT64_MAX
from formats.tensordata.plan import SPECIAL


@because("Before operator set 20, the axis was an attribute, 1 by default")
def dft_axis(node: Node, context: Context) -> list[Node] | None:
    if context.version >= 20:
        return None
    axis = context.int64_scalar(get_int(node, "axis", 1))
    return context.changed(with_input(node, 2, axis), without=("axis",))


_NAN_ELSEWHERE: Final = Deviation(
    "with NaN or infinities, RTen and onnxruntime may return NaN for different elements", SPECIAL
)
_NOT_FINITE: Final = of_floats(_NAN_ELSEWHERE)

DFT = OperatorSpec(
    "DFT",
    to_rten=ToRten(
        Row(3, 1, "DFTAttrs", (Field("inverse", bool, 0), Field("onesided", bool, 0))),
        older=(dft_axis,),
        unspecified=_NOT_FINITE,
    ),
    to_onnx=ToOnnx("xil", ranks={1: 0, 2: 0}),
    onnx_loader=OnnxLoader(inputs={"axis": 2}, version=20),
)
STFT = OperatorSpec(
    "STFT",
    to_rten=ToRten(Row(4, 1, "STFTAttrs", (Field("onesided", bool, 1),)), unspecified=_NOT_FINITE),
    to_onnx=ToOnnx("xIxI", ranks={1: 0, 3: 0}),
    onnx_loader=OnnxLoader(version=17),
)


def cosine_window(*weights: float) -> Rewriting:
    """A rewriting to a sum of cosines: of no, one, two ... periods over the window, with alternating signs."""

    def rewriting(node: Node, context: Context) -> list[Node] | None:
        op = context.op
        size = context.input(0)
        elem_type = get_int(node, "output_datatype", FLOAT)
        steps = op("Range", context.scalar(0, like=size), size, context.scalar(1, like=size))
        period = size if get_int(node, "periodic", 1) else op("Sub", size, context.scalar(1, like=size))
        phase = op("Div", context.cast(steps, FLOAT), context.cast(period, FLOAT))  # from 0 to below 1, or to 1
        total = context.scalar(weights[0])
        for number, weight in enumerate(weights[1:], start=1):
            angle = op("Mul", phase, context.scalar(2 * pi * number))
            term = op("Mul", op("Cos", angle), context.scalar(weight))
            total = op("Sub" if number % 2 else "Add", total, term)
        return context.replace(context.cast(total, elem_type))

    return rewriting


BlackmanWindow = OperatorSpec(
    "BlackmanWindow", Outputs(elements=unknown), ToRten(rewritings=(cosine_window(0.42, 0.5, 0.08),))
)
HammingWindow = OperatorSpec(
    "HammingWindow", Outputs(elements=unknown), ToRten(rewritings=(cosine_window(25 / 46, 21 / 46),))
)
HannWindow = OperatorSpec("HannWindow", Outputs(elements=unknown), ToRten(rewritings=(cosine_window(0.5, 0.5),)))


@budget.without_warnings
def mel_weight_matrix(node: Node, context: Context) -> list[Node] | None:
    """Write it as a constant, if all of its inputs are known.

    Spec: ONNX, Operators.md, MelWeightMatrix.
    """
    import numpy

    bins, length, rate = (context.static_ints(context.input(place))[0] for place in range(3))
    edges = [context.scope.array(context.input(place)) for place in (3, 4)]
    if edges[0] is None or edges[1] is None:
        raise Refused("has edges that are known only when the model runs", "make them constant")
    context.check_size(bins, length)
    low, high = (2595 * numpy.log10(1 + edge.reshape(-1)[0].astype(float) / 700) for edge in edges if edge is not None)
    # The edges of the triangles are equally far apart in mel, a unit of pitch; each becomes the number of a frequency.
    mels = budget.arange(bins + 2) * ((high - low) / (bins + 2)) + low
    points = (((length + 1) * (700 * (10 ** (mels / 2595) - 1))) // rate).astype(int)
    left, centre, right = points[:-2], points[1:-1], points[2:]  # bins
    place = budget.arange(length // 2 + 1)[:, None]  # frequencies, 1
    if bins < 1 or length < 1 or (points < 0).any() or (points > length // 2).any():
        raise Refused("has triangles outside the range of frequencies")
    rising, falling = (place - left) / (centre - left), (right - place) / (right - centre)  # frequencies, bins
    matrix = numpy.where((left <= place) & (place <= centre), rising, 0.0)
    matrix = numpy.where((left == centre) & (place == centre), 1.0, matrix)
    matrix = numpy.where((centre <= place) & (place < right), falling, matrix)
    elem_type = get_int(node, "output_datatype", FLOAT)
    return context.replace(context.op("Identity", context.array(matrix, elem_type)))


MelWeightMatrix = OperatorSpec(
    "MelWeightMatrix", Outputs(elements=of_attribute("output_datatype", FLOAT)), ToRten(rewritings=(mel_weight_matrix,))
)


MODES = ("TF", "IDF", "TFIDF")


def _found(context: Context, data: str, grams: Sequence[Sequence[int]], distance: int) -> str:
    """How often each n-gram is in each row, with that distance between its elements: a matrix, INT32."""
    op = context.op
    length, is_there = len(grams[0]), ""
    for place, column in enumerate(zip(*grams, strict=True)):
        behind = (length - 1 - place) * distance
        end = context.int64([-behind if behind else INT32_LIMITS[1]])
        window = op("Slice", data, [place * distance], end, [1])  # rows, places
        rows = op("Unsqueeze", window, [1])  # rows, 1, places, compared with n-grams, 1
        column_numbers = context.array([[number] for number in column], INT32)
        is_equal = op("Equal", rows, column_numbers)  # rows, n-grams, places
        is_there = op("And", is_there, is_equal) if is_there else is_equal
    return op("ReduceSum", context.cast(is_there, INT32), [2], keepdims=0)  # rows, n-grams


def tf_idf_vectorizer(node: Node, context: Context) -> list[Node] | None:
    """Write it as comparisons of the numbers with each n-gram, at each place. It has no strings."""
    if attribute_named(node, "pool_strings") is not None:
        raise Refused("looks for strings, which RTen does not support")
    pool, starts, places = (get_ints(node, name) or [] for name in ("pool_int64s", "ngram_counts", "ngram_indexes"))
    if any(not INT32_LIMITS[0] <= number <= INT32_LIMITS[1] for number in pool):
        raise Refused("looks for numbers that do not fit into 32 bits")
    if len(set(places)) < len(places) or not places or min(places) < 0:
        raise Refused("does not have a place of its own for each n-gram")
    lengths = range(get_int(node, "min_gram_length"), get_int(node, "max_gram_length") + 1)
    data = context.cast(context.input(0), INT32)
    is_vector = context.known_rank(data) == 1
    if is_vector:
        data = context.op("Unsqueeze", data, [0])
    counts: list[str] = []  # for the n-grams of each length
    column_of: dict[int, int] = {}  # by the place in the output
    number = 0
    for length, (start, end) in enumerate(pairwise([*starts, len(pool)]), 1):
        if not 0 <= start <= end <= len(pool):
            raise Refused("has a pool that does not consist of whole n-grams")
        grams = [pool[first : first + length] for first in range(start, end, length)]
        if (end - start) % length or number + len(grams) > len(places):
            raise Refused("has a pool that does not consist of whole n-grams")
        if grams and length in lengths:
            distances = range(1, 2 if length == 1 else get_int(node, "max_skip_count") + 2)
            column_of |= {places[number + row]: len(column_of) + row for row in range(len(grams))}
            total = ""
            for distance in distances:
                counted = _found(context, data, grams, distance)
                total = context.op("Add", total, counted) if total else counted
            counts.append(total)
        number += len(grams)
    columns = [column_of.get(place, len(column_of)) for place in budget.steps(max(places) + 1)]
    result = _weighted(node, context, data, counts, columns)
    return context.replace(context.op("Squeeze", result, [0]) if is_vector else result)


def _weighted(node: Node, context: Context, data: str, counts: Sequence[str], columns: Sequence[int]) -> str:
    """The counts with the weights of the mode. `columns` has the column of `counts` for each place in the output."""
    op = context.op
    mode = get_string(node, "mode")
    if mode not in MODES:
        raise Refused(f"has the unknown mode {mode!r}")
    rows = shape.joined(context, shape.sizes_of(context, data, 0, 1), context.int64([1]))
    none = op("Expand", context.array([[0]], INT32), rows)  # for places without an n-gram
    all_counts = op("Concat", *counts, none, axis=1)  # rows, n-grams and one column of zeros
    counted = op("Gather", all_counts, context.int64(columns), axis=1)  # rows, places in the output
    if mode == "IDF":
        counted = op("Greater", counted, context.array(0, INT32))
    result = context.cast(counted, FLOAT)
    weights = attribute_named(node, "weights")
    if mode != "TF" and weights is not None:
        places = get_ints(node, "ngram_indexes") or []
        if len(weights.floats) != len(places):
            raise Refused(f"has {len(weights.floats)} weights for {len(places)} n-grams")
        by_place = dict(zip(places, weights.floats, strict=True))
        factors = [by_place.get(place, 0.0) for place in range(len(columns))]
        result = op("Mul", result, context.array(factors))
    return result


def tf_idf_dims(node: Node, scope: Scope, types: list[ValueType]) -> list[Dims | None]:
    """The dims of the input, whose last one becomes the number of places."""
    dims, places = types[0].dims, get_ints(node, "ngram_indexes") or []
    return [None if not dims or not places else (*dims[:-1], max(places) + 1)]


TfIdfVectorizer = OperatorSpec(
    "TfIdfVectorizer", Outputs(tf_idf_dims, always(FLOAT)), ToRten(rewritings=(tf_idf_vectorizer,))
)


_FORWARDS = Fault("sums only forwards and inclusively", until=RTEN_0_26)


def _sizes_around(context: Context, data: str, axis: str) -> tuple[str, str, str]:
    """How many elements there are before, along and after an axis, which may be known only when the model runs."""
    op = context.op
    known_axis, rank = context.scope.ints(axis), context.rank(data)
    if known_axis is not None and rank is not None:
        place = normalize(known_axis[0], rank)
        along = shape.sizes_of(context, data, place, place + 1)
        return shape.size_of(context, data, 0, place), along, shape.size_of(context, data, place + 1, rank)
    dims, zero, one = op("Shape", data), context.int64([0]), context.int64([1])
    number = op("Reshape", context.cast(axis, INT64), one)
    from_end = op("Add", number, op("Shape", dims))
    number = op("Where", op("Less", number, zero), from_end, number)
    after = op("Add", number, one)
    parts = ((zero, number), (number, after), (after, context.int64([INT64_MAX])))
    before, along, behind = (op("ReduceProd", op("Slice", dims, *ends, zero), keepdims=1) for ends in parts)
    return before, along, behind


def _in_three_axes(context: Context, data: str, axis: str) -> str:
    """The data with what is before the axis, the axis, and what is after it."""
    return context.op("Reshape", data, shape.joined(context, *_sizes_around(context, data, axis)), allowzero=1)


def _moved_on(context: Context, data: str, axis: int) -> str:
    """The data moved by one along an axis, after a zero. The number of elements stays the same, even if it is zero."""
    rank = context.known_rank(data)
    pads = [int(place == axis) for place in range(rank)] + [0] * rank
    longer = context.op("Pad", data, context.int64(pads))  # one more along the axis
    return context.op("Slice", longer, [0], [-1], [axis])


@because("Older releases sum only forwards and inclusively, so data are reversed or shifted")
def cum_sum(node: Node, context: Context) -> list[Node] | None:
    data, axis = context.input(0), context.input(1)
    reverse, exclusive = get_int(node, "reverse"), get_int(node, "exclusive")
    if not (reverse or exclusive) or not context.target.deviates(_FORWARDS):
        return None
    if exclusive and (context.scope.ints(axis) is None or context.rank(data) is None):
        total = context.copy([_in_three_axes(context, data, axis), context.int64_scalar(1)])
        return context.replace(context.op("Reshape", total, context.op("Shape", data), allowzero=1))
    data = slicing.flipped(context, data, axis) if reverse else data
    if exclusive:
        data = _moved_on(context, data, normalize(context.static_ints(axis)[0], context.known_rank(data)))
    total = context.op("CumSum", data, axis)
    return context.replace(slicing.flipped(context, total, axis) if reverse else total)


CumSum = OperatorSpec(
    "CumSum",
    Outputs(same, range=ranges.running_totals),
    ToRten(
        Row(
            2,
            1,
            "CumSumAttrs",
            (Field("exclusive", bool, 0, since=RTEN_0_26), Field("reverse", bool, 0, since=RTEN_0_26)),
            optional=True,
        ),
        rewritings=(cum_sum,),
        faults=(_FORWARDS,),
    ),
    ToOnnx("Ni", "N", ranks={1: 0}),
)


@because("RTen has no CumProd, so one slice after the other is multiplied, in a loop")
def cumulative_product(node: Node, context: Context) -> list[Node] | None:
    data = context.input(0)
    slices = _in_three_axes(context, data, context.input(1))  # before, along, after
    elem_type, dims = context.elem_type(data) or FLOAT, context.dims(slices) or (None,) * 3
    outer = (dims[0], dims[2])
    size = shape.joined(context, shape.sizes_of(context, slices, 0, 1), shape.sizes_of(context, slices, 2, 3))
    ones = context.op("Expand", context.scalar(1, elem_type=elem_type), size)  # before, after
    inner = context.nested()
    before, factor = (context.names.new(f"{node.output[0]}/{what}") for what in ("before", "factor"))
    for name in (before, factor):
        inner.scope.add_input(name, ValueType(elem_type, outer))
    after = inner.op("Mul", before, factor)
    result = inner.op("Identity", before if get_int(node, "exclusive") else after)
    body = Graph(
        name=f"{node.output[0]}/body",
        node=inner.emitted,
        input=[context.value_info(name, elem_type, outer) for name in (before, factor)],
        output=[context.value_info(name, elem_type, outer) for name in (after, result)],
    )
    directions = [get_int(node, "reverse")]
    _, products = context.op_outputs(
        "Scan",
        [ones, slices],
        2,
        body=body,
        num_scan_inputs=1,
        scan_input_axes=[1],
        scan_input_directions=directions,
        scan_output_axes=[1],
        scan_output_directions=directions,
    )
    return context.replace(context.op("Reshape", products, context.op("Shape", data), allowzero=1))


CumProd = OperatorSpec("CumProd", Outputs(same), ToRten(rewritings=(cumulative_product,)))
