"""Counts of n-grams: comparisons with windows of the numbers, whose elements may have gaps between them.

Spec: ONNX, Operators.md, TfIdfVectorizer.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from formats.ir.dtypes import FLOAT, INT32
from formats.rten.convert import budget
from formats.rten.convert.refusal import Refused
from formats.rten.graph.attributes import find, get_int, get_ints, get_string
from formats.rten.operators import shape
from formats.rten.operators.shared.rules import always
from formats.rten.operators.shared.spec import OperatorSpec, Outputs, ToRten
from formats.rten.types import INT32_LIMITS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from formats.ir.model import Node
    from formats.rten.convert.context import Context
    from formats.rten.convert.scope import Scope
    from formats.rten.convert.value_types import Dims, ValueType

MODES = ("TF", "IDF", "TFIDF")


def _found(context: Context, data: str, grams: Sequence[Sequence[int]], distance: int) -> str:
    """How often each n-gram is in each row, with that distance between its elements: a matrix, INT32."""
    op = context.op
    length, is_there = len(grams[0]), ""
    for place, column in enumerate(zip(*grams, strict=True)):
        behind = (length - 1 - place) * distance
        end = context.int64([-behind if behind else INT32_LIMITS[1]])
        window = op("Slice", data, context.int64([place * distance]), end, context.int64([1]))
        rows = op("Unsqueeze", window, context.int64([1]))
        wanted = context.array([[number] for number in column], INT32)
        is_equal = op("Equal", rows, wanted)
        is_there = op("And", is_there, is_equal) if is_there else is_equal
    return op("ReduceSum", context.cast(is_there, INT32), context.int64([2]), keepdims=0)


def tf_idf_vectorizer(node: Node, context: Context) -> list[Node] | None:
    """Write it as comparisons of the numbers with each n-gram, at each place. It has no strings."""
    if find(node, "pool_strings") is not None:
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
        data = context.op("Unsqueeze", data, context.int64([0]))
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
                found = _found(context, data, grams, distance)
                total = context.op("Add", total, found) if total else found
            counts.append(total)
        number += len(grams)
    columns = [column_of.get(place, len(column_of)) for place in budget.steps(max(places) + 1)]
    result = _weighted(node, context, data, counts, columns)
    return context.replace(context.op("Squeeze", result, context.int64([0])) if is_vector else result)


def _weighted(node: Node, context: Context, data: str, counts: Sequence[str], columns: Sequence[int]) -> str:
    """The counts with the weights of the mode. `columns` has the column of `counts` for each place in the output."""
    op = context.op
    mode = get_string(node, "mode")
    if mode not in MODES:
        raise Refused(f"has the unknown mode {mode!r}")
    rows = shape.joined(context, shape.sizes_of(context, data, 0, 1), context.int64([1]))
    none = op("Expand", context.array([[0]], INT32), rows)  # for places without an n-gram
    every = op("Concat", *counts, none, axis=1)
    found = op("Gather", every, context.int64(columns), axis=1)
    if mode == "IDF":
        found = op("Greater", found, context.array(0, INT32))
    result = context.cast(found, FLOAT)
    weights = find(node, "weights")
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
    "TfIdfVectorizer", Outputs(tf_idf_dims, elements=always(FLOAT)), ToRten(rewritings=(tf_idf_vectorizer,))
)
