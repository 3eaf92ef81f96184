"""How often a warning about numbers is untrue: random graphs of DOUBLE and of wide integers, each with twenty inputs.

A warning of a graph is true if RTen's results differ from onnxruntime's in any bit for one of the inputs. Floats are
numbers that FLOAT has: normal ones, quarters and small integers. 64-bit integers are up to 2^24, as docs/rten.md
assumes of inputs, and those of other types up to the ends of what RTen has; a tenth of the tensors have one number at
these ends everywhere, or 10^10 if they are floats.

`python -m tests.rten.alarms --seed N --count N` counts the graphs of these seeds.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import onnx
from onnx import helper

import formats
from tests.rten.graphs import apart
from tests.rten.random_graphs.builder import Builder, Discarded, Shares, Templates, axis_of, is_nonzero
from tests.rten.random_graphs.graph import Value, session
from tests.rten.random_graphs.whole import generate
from tests.runtime.runner import RELEASES, Runner

INPUTS = 20
ABOUT_NUMBERS = ("clamped", "precision", "range", "rounded")
WIDE = ("int64", "int64", "int64", "uint32", "uint64")
WITH_DOUBLE = ("float64", "float64", "float64", "float32")
LIMITS = {"int64": 1 << 24, "uint64": 1 << 24, "uint32": 1 << 24, "int32": (1 << 31) - 1}

NUMBERS = Templates(Shares(wide=0, wild=0, empty=0, resized=0))
template = NUMBERS.add


def number(b: Builder, dtype: str) -> Value:
    """Return a constant as models have them: a small integer, a fraction that FLOAT has, or one that it lacks."""
    numbers = (0, 1, 2, 3, 10, -1, 100, 4096) if dtype in WIDE else (0.5, 1, 2, 3, -1, 0.25, 100, 1000.5, 0.1, 1 / 3)
    return b.leaf(np.asarray(abs(n) if dtype[0] == "u" else n, dtype)
                  if (n := b.rng.choice(numbers)) is not None else np.zeros(0), constant=True)  # fmt: skip


def second(b: Builder, first: Value) -> Value:
    """Return a constant or a value for the second operand."""
    return number(b, first.array.dtype.name) if b.rng.random() < 0.6 else b.like(first)


@template(6)
def casts(b: Builder) -> None:
    """To DOUBLE or to wide integers, from all that models cast."""
    source = b.some(("int64", "int32", "int8", "uint8", "int16", "uint16", "uint32", "bool", "float32", "float64"))
    kinds = ("float64", "float64", "float64", "int64", "float32", "int32", "uint32")
    target = b.rng.choice(kinds[:4] if source.array.dtype.kind != "f" else kinds)
    b.emit("Cast", [source], to=helper.np_dtype_to_tensor_dtype(np.dtype(target)))


@template(6)
def arithmetic(b: Builder) -> None:
    """Of DOUBLE and of wide integers."""
    first = b.some(WITH_DOUBLE if b.rng.random() < 0.5 else WIDE)
    op_type = b.rng.choice(("Add", "Sub", "Mul", "Mul", "Div"))
    other = second(b, first)
    if op_type == "Div" and (first.array.dtype == np.float32 or not is_nonzero(other.array)):
        raise Discarded  # of FLOAT, kernels may differ in the last bit
    b.emit(op_type, [first, other])


@template(3)
def choices(b: Builder) -> None:
    """Comparisons, and the largest and the least."""
    first = b.some(WITH_DOUBLE if b.rng.random() < 0.5 else WIDE)
    op_type = b.rng.choice(("Less", "Greater", "Equal", "Max", "Min", "Where"))
    other = second(b, first)
    b.emit(op_type, [b.some(("bool",), dims=()), first, other] if op_type == "Where" else [first, other])


@template(3)
def of_one(b: Builder) -> None:
    """Functions of one value."""
    first = b.some(("float64", "float64", "int64"))
    names = ("Abs", "Neg", "Sign", "Identity") if first.array.dtype.kind == "i" else (
        *("Abs", "Neg", "Floor", "Ceil", "Round", "Relu", "Sqrt", "Exp", "Sigmoid"),)  # fmt: skip
    b.emit(b.rng.choice(names), [first])


@template(3, since=18)
def reductions(b: Builder) -> None:
    """Sums, products and means, of all elements or along one axis."""
    first = b.some(("float64", "int64", "int64", "bool"), (1, 2, 3))
    if first.array.dtype == bool:
        (first,) = b.emit("Cast", [first], to=onnx.TensorProto.INT64)
    op_type = b.rng.choice(("ReduceSum", "ReduceMax", "ReduceMean", "ReduceProd", "ReduceSumSquare", "ReduceL1"))
    b.emit(op_type, [first, b.constant([axis_of(b, first)])] if b.rng.random() < 0.6 else [first], keepdims=0)


@template(2, since=14)
def running_totals(b: Builder) -> None:
    """Of masks and of integers."""
    first = b.some(("int64", "bool", "int64", "float64"), (1, 2))
    if first.array.dtype == bool:
        (first,) = b.emit("Cast", [first], to=onnx.TensorProto.INT64)
    b.emit("CumSum", [first, b.constant(axis_of(b, first))])


@template(4, since=13)
def places(b: Builder) -> None:
    """Places and counts of elements, which are of INT64."""
    first = b.some(("float32", "float64", "int64", "int32"), (1, 2))
    op_type = b.rng.choice(("Shape", "Size", "ArgMax", "NonZero", "TopK", "Unique", "MaxPool"))
    if op_type == "TopK":
        b.emit("TopK", [first, b.constant([1])], 2)
    elif op_type == "Unique":
        b.emit("Unique", [first], 4)
    elif op_type == "MaxPool":
        b.emit("MaxPool", [b.some(rank=4)], 2, kernel_shape=[1, 1])
    else:
        b.emit(op_type, [first])


@template(2, since=10)
def slices(b: Builder) -> None:
    """To the end, as exporters write it."""
    first, end = (
        b.some((*WITH_DOUBLE, *WIDE), (1, 2, 3)),
        b.rng.choice(((1 << 63) - 1, 1 << 62, (1 << 31) - 1, 1 << 40)),
    )
    ends = b.constant([end])
    if b.rng.random() < 0.3:  # computed, as exporters of shapes write it
        (kept,) = b.emit("Concat", [ends], axis=0)
        ends = kept.name
    b.emit("Slice", [first, b.constant([0]), ends, b.constant([axis_of(b, first)])])


@template(2, since=11)
def others(b: Builder) -> None:
    """What moves, chooses and clips elements."""
    first = b.some((*WITH_DOUBLE, *WIDE), (1, 2))
    op_type = b.rng.choice(("Gather", "Concat", "Clip", "Range", "MatMul", "Mod", "Transpose"))
    name = first.array.dtype.name
    if op_type == "Gather":
        b.emit("Gather", [first, b.constant(0)])
    elif op_type == "Concat":
        b.emit("Concat", [first, first], axis=0)
    elif op_type == "Clip":
        b.emit("Clip", [first, b.constant(0, name), b.constant(b.rng.choice((1, 1000)), name)])
    elif op_type == "Range":
        b.emit("Range", [b.constant(0), b.leaf(np.asarray(5, np.int64)), b.constant(1)])
    elif op_type == "MatMul":
        if name == "float32":
            raise Discarded  # likewise
        b.emit("MatMul", [first, b.leaf(b.data(name, (first.array.shape[-1], 2)))])
    elif op_type == "Mod":
        b.emit("Mod", [first, b.constant(7, name)], fmod=int(first.array.dtype.kind == "f"))
    else:
        b.emit("Transpose", [first])


def drawn(array: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return another input of the same type and shape."""
    kind, name, dims = array.dtype.kind, array.dtype.name, array.shape
    if kind == "b":
        return np.asarray(rng.random(dims) < 0.5)
    if kind == "f":
        if rng.random() < 0.1:
            return np.full(dims, rng.choice((-1, 1)) * 1e10, name)
        found = (rng.normal(0, 3, dims), rng.integers(-40, 41, dims) / 4, rng.integers(-9, 100, dims))[rng.integers(3)]
        return np.asarray(found, np.float32).astype(name)
    top = LIMITS.get(name) or int(np.iinfo(name).max)
    top = min(top, (10, 300, 1 << 16, top)[rng.integers(4)])
    least = 0 if kind == "u" else -top
    if rng.random() < 0.1:
        return np.full(dims, rng.choice((least, top)), name)
    return np.asarray(rng.integers(least, top + 1, dims), name)


def feeds_of(feeds: Mapping[str, np.ndarray], seed: int) -> Iterable[dict[str, np.ndarray]]:
    """Yield inputs: first those of the graph; then some stay, since an index or a shape may fit no other."""
    rng = np.random.default_rng(seed)
    yield dict(feeds)
    for _ in range(INPUTS * 3):
        yield {name: array if rng.random() < 0.15 else drawn(np.asarray(array), rng) for name, array in feeds.items()}


def same(want: np.ndarray, found: np.ndarray) -> bool:
    """Whether two results are the same numbers, whatever their types."""
    return want.shape == found.shape and np.array_equal(
        want, found.astype(want.dtype), equal_nan=want.dtype.kind == "f"
    )


class Judged(NamedTuple):
    """The kinds of warnings about numbers of a graph, and whether any of its results differs."""

    warned: list[str]
    differs: bool
    details: list[str]


def judge(seed: int, runner: Runner, folder: Path) -> Judged | None:
    """Return what the graph of a seed is warned about, and whether it is true; `None` if there is no such graph."""
    graph = generate(seed, NUMBERS)
    if graph is None:
        return None
    source, target = folder / "a.onnx", folder / "a.rten"
    source.write_bytes(graph.model.SerializeToString())
    try:
        report = formats.convert(source, target, overwrite=True)
    except formats.FormatError:
        return None
    about = [loss for loss in report.losses if loss.matters and loss.kind in ABOUT_NUMBERS]
    others = [loss for loss in report.losses if loss.kind == "deviation"]
    reference, runs, differs = session(graph.model), 0, False
    for feeds in feeds_of(graph.feeds, seed):
        try:
            want = reference.run(None, feeds)
        except Exception:
            continue
        runs += 1
        differs = not all(map(same, want, runner.run(target, feeds)))
        if differs or runs == INPUTS:
            break
    if differs and others and not about:
        return None  # another warning explains it
    return Judged(sorted({loss.kind for loss in about}), differs, [loss.detail for loss in about])


def counted(seeds: range, release: str = RELEASES[-1]) -> list[tuple[int, Judged]]:
    """Return what the graphs of some seeds are warned about, and whether it is true."""
    with tempfile.TemporaryDirectory() as folder:
        runner: list[Runner] = []

        def work(seed: int) -> Judged | None:
            if not runner:  # one for each process that runs graphs
                runner.append(Runner(release))
            return judge(seed, runner[0], Path(folder))

        return [(seed, Judged(*found)) for seed, found in apart(seeds, work) if found is not None]


def main() -> int:
    """Count the graphs of some seeds."""
    parser = argparse.ArgumentParser(description=sys.modules["__main__"].__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0, help="of the first graph")
    parser.add_argument("--count", type=int, default=1000, help="how many graphs")
    parser.add_argument("--show", action="store_true", help="show each untrue warning and each lost one")
    given = parser.parse_args()
    found = counted(range(given.seed, given.seed + given.count))
    totals: Counter[tuple[str, bool]] = Counter()
    for seed, judged in found:
        kinds = [*judged.warned, "any warning"] if judged.warned else ["no warning"]
        totals.update((kind, judged.differs) for kind in kinds)
        if given.show and bool(judged.warned) != judged.differs:
            print(f"{seed} {'untrue' if judged.warned else 'LOST'}", *judged.details, sep="\n    ")
    for kind in sorted({kind for kind, _ in totals}):
        print(f"{kind}: {totals[kind, True]} differ, {totals[kind, False]} never differ")
    return 0


if __name__ == "__main__":
    sys.exit(main())
