# ruff: noqa: D103 - a template is named after what it adds
"""Random graphs, compared in onnxruntime, in the real RTen runtimes as .rten files, and after conversion back.

`python tests/rten/graphs.py --seed N --count N` makes any number of graphs, and shows the smallest form of each fault.
A graph is made from front to back, one node at a time. Each node is run in onnxruntime as soon as it is made, so it
is always valid, and all its values are known when the next node is chosen.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import os
import random
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from select import select
from signal import SIGKILL
from typing import Any, NamedTuple

import evaluation
import numpy as np
import onnx
import onnxruntime
from onnx import helper, inliner, numpy_helper

import formats

sys.path.insert(0, str(Path(__file__).parents[1]))  # if this is run as a program

from runtime.runner import RELEASES, Runner, RunnerError

NEWEST_RELEASE = "0.27"  # of RTen: .rten files are converted for the .onnx loader of this one
LIMIT = 1 << 31  # the range of integers in a graph, if it has no wide integers
MAX_ELEMENTS = 4096
NEWEST = 24
VERSIONS = (7, 8, 9, 10, 11, 12, 13, 13, 14, 15, 16, 17, 18, 18, 19, 20, 21, 21, 22, 23, 23, NEWEST)
FLOATS = ("float32",)
INDICES = ("int64", "int32")
BYTES = ("int8", "uint8")
SHORTS = ("int16", "uint16")
WIDES = ("uint32", "uint64", "int64")
HELD_AS = {  # the type that RTen uses for each other one
    **dict.fromkeys(("int64", "bool", "int16", "uint16", "uint32", "uint64"), "int32"),
    **dict.fromkeys(("float16", "float64"), "float32"),
}
EXPLAIN_NOTHING = frozenset(("interface_type", "widened"))  # among the losses that matter


SECONDS = 300  # for one graph with its smallest form: far more than any needs
BLOCK_SIZES = (7, 8, 9, 31, 32, 33, 63, 64, 65)  # below, at and above the blocks that kernels work in


class Value(NamedTuple):
    """A value of a graph in construction; a list of arrays is a sequence."""

    name: str
    array: Any

    @property
    def is_exact(self) -> bool:
        """Whether rounding cannot have changed the value, so that it can be compared, rounded and counted."""
        if isinstance(self.array, list) or self.array.dtype.kind != "f":
            return True
        known = self.array[np.isfinite(self.array)].astype(np.float64)
        return bool(np.all(known * 256 == np.round(known * 256)) and np.all(np.abs(known) < 1 << 16))


class Discarded(Exception):
    """onnxruntime does not run a node, or its values exceed the allowed range."""


class Graph(NamedTuple):
    """A model with its inputs."""

    model: onnx.ModelProto
    feeds: dict[str, np.ndarray]


def session(model: onnx.ModelProto) -> onnxruntime.InferenceSession:
    """Return a session that does not rewrite the graph."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return evaluation.session(model.SerializeToString(), options)


def run_in_onnxruntime(model: onnx.ModelProto, feeds: Mapping[str, Any]) -> list[Any]:
    """Return the outputs of a model."""
    return list(session(model).run(None, dict(feeds)))


def info(name: str, value: Any, dims: Sequence[Any] | None = None, *, ranked: bool = True) -> onnx.ValueInfoProto:
    """Return the value info of a value, with its own dims if no others are given."""
    if isinstance(value, list):
        return helper.make_tensor_sequence_value_info(name, helper.np_dtype_to_tensor_dtype(value[0].dtype), None)
    shape = None if not ranked else list(value.shape if dims is None else dims)
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), shape)


def free_names(nodes: Iterable[onnx.NodeProto], bound: Iterable[str] = ()) -> list[str]:
    """Return the names that nodes and their subgraphs use but do not produce, in order."""
    made, found = set(bound), {}
    for node in nodes:
        used = list(node.input)
        for attribute in node.attribute:
            if attribute.HasField("g"):
                inner = attribute.g
                own = [*(value.name for value in inner.input), *(tensor.name for tensor in inner.initializer)]
                used += free_names(inner.node, own)
                produced = {*own, *(name for made_by in inner.node for name in made_by.output)}
                used += [value.name for value in inner.output if value.name not in produced]
        found.update(dict.fromkeys(name for name in used if name and name not in made))
        made.update(node.output)
    return list(found)


def as_fed(value: Any) -> Any:
    """Return a value in the form that onnxruntime accepts: a numpy scalar becomes an array without axes."""
    return value if isinstance(value, list) else np.asarray(value)


Template = Callable[["Builder"], Any]


class Shares(NamedTuple):
    """The shares of graphs with large integers, with NaN and infinities, with empty tensors, and with other sizes."""

    wide: float = 0.1
    wild: float = 0.12
    empty: float = 0.08
    resized: float = 0.2


@dataclass
class Templates:
    """Templates for nodes, with their weights; a third of the nodes are from others, if there are any."""

    shares: Shares = field(default_factory=Shares)
    others: Templates | None = None
    domains: Mapping[str, int] = field(default_factory=dict)
    made: list[Template] = field(default_factory=list)
    weights: list[float] = field(default_factory=list)

    def add(self, weight: float = 1.0, since: int = 7) -> Callable[[Template], Template]:
        """Register a function as a template, for operator sets from a version on."""

        def register(function: Template) -> Template:
            def guarded(b: Builder) -> Any:
                if b.version < since:
                    raise Discarded
                return function(b)

            guarded.__name__ = function.__name__
            self.made.append(guarded)
            self.weights.append(weight)
            return guarded

        return register

    def choose(self, rng: random.Random) -> Template:
        """Return a template."""
        if self.others is not None and rng.random() < 0.35:
            return self.others.choose(rng)
        return rng.choices(self.made, self.weights)[0]


FIRST = Templates()
template = FIRST.add


@dataclass
class Builder:
    """Makes a graph or a subgraph."""

    rng: random.Random
    version: int
    parent: Builder | None = None
    values: list[Value] = field(default_factory=list)
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    initializers: list[onnx.TensorProto] = field(default_factory=list)
    inputs: list[Value] = field(default_factory=list)
    inner_names: set[str] = field(default_factory=set)  # names in finished subgraphs, which can be used again
    is_wide: bool = False  # integers of 32 bits and more may have any value
    is_wild: bool = False  # NaN, infinities and signed zeros
    has_empty: bool = False  # dims of zero
    templates: Templates = field(default_factory=lambda: FIRST)

    @property
    def depth(self) -> int:
        """The number of outer graphs."""
        return 0 if self.parent is None else self.parent.depth + 1

    def child(self) -> Builder:
        """Return a builder for a subgraph, which can use the values of this graph."""
        return Builder(self.rng, self.version, self, list(self.values), is_wide=self.is_wide, is_wild=self.is_wild,
                       has_empty=self.has_empty, templates=self.templates)  # fmt: skip

    def seen(self) -> dict[str, Any]:
        """Return all values that a node here may use."""
        return {value.name: value.array for value in self.values}

    def new_name(self) -> str:
        """Return a new name that is not visible here; subgraphs next to each other use the same names."""
        taken = {value.name for value in self.values}
        again = sorted(self.inner_names - taken)
        if again and self.rng.random() < 0.1:
            return again[0]
        prefix = "vtuw"[min(self.depth, 3)]
        return next(name for number in range(1 << 20) if (name := f"{prefix}{number}") not in taken)

    # Leaves.

    def dims(self, rank: int | None = None) -> tuple[int, ...]:
        """Return small dims."""
        rank = self.rng.choice((0, 1, 1, 2, 2, 2, 3, 3, 4)) if rank is None else rank
        dims = [self.rng.choice((1, 2, 2, 3, 3, 4)) for _ in range(rank)]
        if dims and self.rng.random() < 0.06:  # an axis as long as the blocks of kernels
            dims[self.rng.randrange(rank)] = self.rng.choice(BLOCK_SIZES)
        if self.has_empty and dims and self.rng.random() < 0.25:
            dims[self.rng.randrange(rank)] = 0
        return tuple(dims)

    def width(self, most: int) -> int:
        """Return a small number of rows, columns or channels, or sometimes one around the blocks of kernels."""
        return self.rng.choice(BLOCK_SIZES) if self.rng.random() < 0.2 else self.rng.randint(1, most)

    def zero_point(self, dtype: str, lines: int) -> Value:
        """Return a zero point, or one for each row, column or channel."""
        limits = np.iinfo(dtype)
        count = () if self.rng.random() < 0.4 else (lines,)
        numbers = np.random.default_rng(self.rng.randrange(1 << 30)).integers(limits.min, limits.max, count)
        return self.leaf(np.asarray(numbers, dtype), constant=self.rng.random() < 0.8 or self.parent is not None)

    def data(self, dtype: str, dims: Sequence[int]) -> np.ndarray:
        """Return numbers that arithmetic keeps exact, and sometimes special ones."""
        rng = np.random.default_rng(self.rng.randrange(1 << 30))
        if dtype == "bool":
            return rng.random(dims) < 0.5
        if dtype.startswith("float"):
            found = rng.integers(-16, 17, dims) / 4
            if self.is_wild and found.size and self.rng.random() < 0.4:
                flat = np.asarray(found, np.float64).reshape(-1)
                for _ in range(self.rng.randint(1, 2)):
                    flat[self.rng.randrange(flat.size)] = self.rng.choice((np.nan, -0.0, np.inf, -np.inf, 0.0, 1e12))
                found = flat.reshape(dims)
            return np.asarray(found, dtype)
        least, greatest = (0, 20) if dtype.startswith("u") else (-9, 10)
        if dtype in BYTES + SHORTS and self.rng.random() < 0.4:
            least, greatest = np.iinfo(dtype).min, np.iinfo(dtype).max
        elif self.is_wide and self.rng.random() < 0.5:
            least, greatest = (0, 1 << 24) if dtype.startswith("u") else (-(1 << 24), 1 << 24)
        return np.asarray(rng.integers(least, greatest, dims), dtype)

    def leaf(self, array: np.ndarray, *, constant: bool | None = None) -> Value:
        """Add a new input, initialiser or Constant."""
        value = Value(self.new_name(), array)
        if constant is None:
            constant = self.parent is not None or self.rng.random() < 0.35
        if not constant:
            assert self.parent is None
            self.inputs.append(value)
        elif self.rng.random() < 0.3:
            self.nodes.append(helper.make_node("Constant", [], [value.name], value=numpy_helper.from_array(array)))
        else:
            self.initializers.append(numpy_helper.from_array(array, value.name))
        self.values.append(value)
        return value

    def constant(self, array: Any, dtype: str = "int64") -> str:
        """Return the name of a constant; an existing one with the same value may be used again."""
        array = np.asarray(array, dtype)
        for value in self.values:
            same = isinstance(value.array, np.ndarray) and value.array.dtype == array.dtype
            if same and value.array.shape == array.shape and np.array_equal(value.array, array) and self.shared(value):
                return value.name
        return self.leaf(array, constant=True).name

    def shared(self, value: Value) -> bool:
        """Whether a value is a constant of this graph or an outer one."""
        scope: Builder | None = self
        while scope is not None:
            if any(tensor.name == value.name for tensor in scope.initializers):
                return True
            scope = scope.parent
        return False

    def knob(self, array: Any, dtype: str = "int64") -> str:
        """Return a shape, axis or index: usually a constant, sometimes known only at run time."""
        array = np.asarray(array, dtype)
        if self.parent is None and self.rng.random() < 0.15:
            return self.leaf(array, constant=False).name
        return self.constant(array, dtype)

    # Operands.

    def some(
        self,
        dtypes: Sequence[str] = FLOATS,
        rank: int | Sequence[int] | None = None,
        *,
        exact: bool = False,
        fits: Callable[[np.ndarray], bool] | None = None,
        dims: Sequence[int] | None = None,
        weight: bool = False,
    ) -> Value:
        """Return a value of one of some types and ranks: an existing one, or a new leaf; a weight is usually new."""
        ranks = (rank,) if isinstance(rank, int) else rank

        def is_fit(value: Value) -> bool:
            if isinstance(value.array, list) or value.array.dtype.name not in dtypes:
                return False
            return (
                (ranks is None or value.array.ndim in ranks)
                and (dims is None or value.array.shape == tuple(dims))
                and (not exact or value.is_exact)
                and (fits is None or fits(value.array))
            )

        there = list(filter(is_fit, self.values)) if not weight or self.rng.random() < 0.1 else []
        if there and self.rng.random() < 0.85:
            recent = there[-6:] if self.rng.random() < 0.7 else there
            return self.rng.choice(recent)
        for _ in range(20):
            asked = tuple(dims) if dims is not None else self.dims(self.rng.choice(ranks) if ranks else None)
            value = Value("", self.data(self.rng.choice(dtypes), asked))
            if is_fit(value):
                return self.leaf(value.array, constant=True if weight and self.rng.random() < 0.9 else None)
        raise Discarded

    def like(self, value: Value, *, exact: bool = False, fits: Callable[[np.ndarray], bool] | None = None) -> Value:
        """Return a value of the same type that broadcasts with another one."""
        array = value.array

        def broadcasts(other: np.ndarray) -> bool:
            try:
                np.broadcast_shapes(array.shape, other.shape)
            except ValueError:
                return False
            return fits is None or fits(other)

        try:
            if self.rng.random() < 0.6:
                return self.some((array.dtype.name,), exact=exact, fits=broadcasts)
        except Discarded:
            pass
        dims = [1 if self.rng.random() < 0.25 else size for size in array.shape][self.rng.randint(0, array.ndim) :]
        if self.rng.random() < 0.1:
            dims = [1] * (self.rng.randint(0, 2)) + dims
        if self.rng.random() < 0.1:
            dims = [1] * (array.ndim + 1)
        return self.some((array.dtype.name,), exact=exact, fits=fits, dims=dims)

    # Nodes.

    def emit(self, op_type: str, inputs: Sequence[str | Value], outputs: int = 1, domain: str = "", **attributes: Any
             ) -> list[Value]:  # fmt: skip
        """Add a node, and return its outputs.

        Raises: Discarded if onnxruntime does not run it, or if the outputs are too large.
        """
        names = [value if isinstance(value, str) else value.name for value in inputs]
        while names and not names[-1]:
            names.pop()
        placed: list[str] = []
        for _ in range(outputs):
            self.values.append(Value(self.new_name(), np.zeros(0)))
            placed.append(self.values[-1].name)
        del self.values[-outputs:]
        kept = {name: value for name, value in attributes.items() if value is not None}
        node = helper.make_node(op_type, names, placed, domain=domain, **kept)
        seen = self.seen()
        feeds = {name: as_fed(seen[name]) for name in free_names([node])}
        graph = helper.make_graph(
            [node],
            "one",
            [info(name, value) for name, value in feeds.items()],
            [onnx.ValueInfoProto(name=name) for name in placed],
        )
        try:
            results = run_in_onnxruntime(self.whole(graph), feeds)
        except Exception as error:
            raise Discarded(str(error)) from None
        for result in results:
            self.check(result)
        made = [Value(name, result) for name, result in zip(placed, results, strict=True)]
        self.nodes.append(node)
        self.values += made
        return made

    def emit_chain(self, first: str, inputs: Sequence[Value | str], second: str, more: Sequence[Value | str]) -> None:
        """Add two nodes, of which the first has a type that numpy lacks.

        Raises: Discarded if onnxruntime does not run them.
        """
        names = [[value if isinstance(value, str) else value.name for value in values] for values in (inputs, more)]
        self.values.append(Value(self.new_name(), np.zeros(0)))
        middle, last = self.values[-1].name, self.new_name()
        del self.values[-1]
        nodes = [helper.make_node(first, names[0], [middle]), helper.make_node(second, [middle, *names[1]], [last])]
        seen = self.seen()
        given = {name: as_fed(seen[name]) for name in dict.fromkeys([*names[0], *names[1]]) if name in seen}
        known = {tensor.name: tensor for tensor in self.initializers}
        feeds = {name: value for name, value in given.items() if name not in known}
        infos = [info(name, value) for name, value in feeds.items()]
        graph = helper.make_graph(nodes, "two", infos, [onnx.ValueInfoProto(name=last)],
                                  [known[name] for name in given if name in known])  # fmt: skip
        try:
            (result,) = run_in_onnxruntime(self.whole(graph), feeds)
        except Exception as error:
            raise Discarded(str(error)) from None
        self.check(result)
        self.nodes += nodes
        self.values.append(Value(last, result))

    def whole(self, graph: onnx.GraphProto, functions: Sequence[onnx.FunctionProto] = ()) -> onnx.ModelProto:
        """Return a model of a graph."""
        imports = [helper.make_opsetid("", self.version), helper.make_opsetid("com.microsoft", 1)]
        imports += [helper.make_opsetid("local", 1)] if functions else []
        imports += [helper.make_opsetid(*entry) for entry in self.templates.domains.items()]
        return helper.make_model(graph, opset_imports=imports, ir_version=9 if self.version < 22 else 10,
                                 functions=functions)  # fmt: skip

    def check(self, result: Any) -> None:
        """Raise Discarded if a graph may not have a value."""
        if isinstance(result, list):
            if not result or len(result) > 8:
                raise Discarded
            for part in result:
                self.check(part)
            return
        if result.size > MAX_ELEMENTS or result.ndim > 6 or (not self.has_empty and not result.size):
            raise Discarded
        if result.dtype.kind == "f":
            known = result[np.isfinite(result)].astype(np.float64)
            if not self.is_wild and (known.size < result.size or np.abs(known).max(initial=0) > 1e6):
                raise Discarded
        elif result.dtype.kind in "iu" and not self.is_wide:
            if result.size and not -LIMIT <= int(result.min()) <= int(result.max()) < LIMIT:
                raise Discarded
        elif result.dtype.kind not in "iub":
            raise Discarded

    def grow(self, count: int) -> None:
        """Add some nodes."""
        for _ in range(count * 8):
            if count <= 0:
                return
            kept = len(self.values), len(self.nodes), len(self.initializers), len(self.inputs)
            template = self.templates.choose(self.rng)
            try:
                template(self)
                count -= 1
            except Discarded:
                for held, length in zip((self.values, self.nodes, self.initializers, self.inputs), kept, strict=True):
                    del held[length:]

    def subgraph(self, name: str, inputs: Sequence[Value], outputs: Sequence[Value]) -> onnx.GraphProto:
        """Return the graph for an attribute."""
        assert self.parent is not None
        self.parent.inner_names.update(name for node in self.nodes for name in node.output)
        return helper.make_graph(
            self.nodes,
            name,
            [
                info(value.name, value.array, ranked=value.array.ndim == 0 or self.rng.random() < 0.3)
                for value in inputs
            ],
            [info(value.name, value.array, ranked=False) for value in outputs],
            self.initializers,
        )


# Templates for nodes. A template adds one node or a few to a graph.


def is_nonzero(array: np.ndarray) -> bool:
    """Whether a value can be a divisor; the least integer divided by minus one ends the process."""
    return bool(np.all(array != 0) and (array.dtype.kind != "i" or np.all(array != -1)))


def is_small(array: np.ndarray) -> bool:
    """Whether powers of a value stay finite."""
    return bool(np.all(np.isfinite(array)) and np.all(np.abs(array.astype(float)) < 10))


NUMBERS = ("float32", "float32", "float32", "int64", "int64", "int32", "int8", "uint8", "int16", "uint16", "uint32")
ANY_TYPE = (*NUMBERS, "bool", "float16", "float64")


def axis_of(b: Builder, value: Value) -> int:
    """Return an axis, counted from either end."""
    rank = value.array.ndim
    if not rank:
        raise Discarded
    return b.rng.randrange(-rank, rank)


def some_axes(b: Builder, value: Value) -> list[int]:
    """Return different axes."""
    rank = value.array.ndim
    if not rank:
        raise Discarded
    axes = sorted(b.rng.sample(range(rank), b.rng.randint(1, rank)))
    return [axis - rank if b.rng.random() < 0.3 else axis for axis in axes]


@template(4)
def smooth(b: Builder) -> None:
    names = ["Exp", "Sigmoid", "Tanh", "Sin", "Cos", "Tan", "Atan", "Softsign", "Softplus", "Erf", "Elu", "Selu",
             "LeakyRelu", "Relu", "Neg", "Abs", "Sqrt", "Log", "Reciprocal", "Asin", "Acos", "Sinh", "Cosh", "Asinh",
             "Acosh", "Atanh", "HardSigmoid", "ThresholdedRelu", "Identity", "Celu", "HardSwish", "Gelu", "Mish",
             "Swish"]  # fmt: skip
    b.emit(b.rng.choice(names), [b.some(("float32",) * 8 + ("float16", "float64"))])


@template(2)
def stepped(b: Builder) -> None:
    op_type = b.rng.choice(("Floor", "Ceil", "Round", "Sign", "IsNaN", "Shrink"))
    kinds = ("float32", "int64", "int32", "uint8") if op_type == "Shrink" else FLOATS
    b.emit(op_type, [b.some(kinds, exact=True)], bias=0.5 if op_type == "Shrink" and b.rng.random() < 0.5 else None)


@template(0.5, since=10)
def infinite(b: Builder) -> None:
    b.emit("IsInf", [b.some(exact=True)])


@template(1.5)
def integer_function(b: Builder) -> None:
    b.emit(b.rng.choice(("Abs", "Neg", "Sign", "Identity", "Identity")), [b.some(NUMBERS)])


@template(7)
def arithmetic(b: Builder) -> None:
    first = b.some(NUMBERS)
    second = b.like(first)
    pair = [first, second] if b.rng.random() < 0.5 else [second, first]
    b.emit(b.rng.choice(("Add", "Sub", "Mul", "Add", "Mul", "Max", "Min", "Sum", "Mean")), pair)


@template(3)
def division(b: Builder) -> None:
    first = b.some(NUMBERS)
    op_type = b.rng.choice(("Div", "Div", "Mod")) if b.version >= 10 else "Div"
    if op_type == "Div":
        b.emit("Div", [first, b.like(first, fits=is_nonzero)])
        return
    if first.array.dtype.kind == "f" and not first.is_exact:
        raise Discarded
    fmod = 1 if first.array.dtype.kind == "f" else b.rng.randint(0, 1)
    b.emit("Mod", [first, b.like(first, exact=True, fits=is_nonzero)], fmod=fmod)


@template(1)
def power(b: Builder) -> None:
    base = b.some(("float32", "float32", "int32", "int64"), fits=is_small)
    exponents = ("float32", "int64", "int32") if b.version >= 12 else (base.array.dtype.name,)
    dims = base.array.shape if b.rng.random() < 0.5 else b.rng.choice(((), (1,), (1,) * (base.array.ndim + 1)))
    exponent = b.some((b.rng.choice(exponents),), dims=dims,
                      fits=lambda array: bool(np.all(array >= 0) and np.all(array < 5)))  # fmt: skip
    if base.array.dtype.kind == "i" and exponent.array.dtype.kind == "f" and np.any(base.array < 0):
        raise Discarded  # a negative number to a fractional power, as an integer
    b.emit("Pow", [base, exponent])


@template(2)
def comparison(b: Builder) -> None:
    names = ["Equal", "Less", "Greater"] + (["LessOrEqual", "GreaterOrEqual"] if b.version >= 12 else [])
    types = ("float32", "int64", "int32") if b.version < 11 else (*NUMBERS, "bool")
    first = b.some(types, exact=True)
    b.emit(b.rng.choice(names), [first, b.like(first, exact=True)])


@template(2)
def logic(b: Builder) -> None:
    first = b.some(("bool",))
    if b.rng.random() < 0.3:
        b.emit("Not", [first])
    else:
        b.emit(b.rng.choice(("And", "Or", "Xor")), [first, b.like(first)])


@template(2, since=9)
def where(b: Builder) -> None:
    first = b.some(ANY_TYPE)
    b.emit("Where", [b.like(Value("", np.zeros(first.array.shape, bool))), first, b.like(first)])


CAST_TARGETS = ("float32", "float32", "int64", "int64", "int32", "int32", "int8", "uint8", "int16", "uint16", "bool",
                "float16", "float64", "uint32", "uint64")  # fmt: skip


@template(5)
def cast(b: Builder) -> None:
    target = b.rng.choice(CAST_TARGETS)
    kind = np.dtype(target).kind

    def fits(array: np.ndarray) -> bool:
        if array.dtype.kind != "f" or kind not in "iu":
            return True  # for floats, ONNX only defines the cast of numbers in range
        limits = np.iinfo(target)
        wide = array.astype(np.float64)
        within = np.isfinite(wide) & (wide > max(limits.min, -(2.0**62))) & (wide < min(limits.max, 2.0**62))
        return bool(np.all(within))

    b.emit("Cast", [b.some(ANY_TYPE, exact=True, fits=fits)], to=helper.np_dtype_to_tensor_dtype(np.dtype(target)))


OUTSIDE = (300, -1, -129, 255, 256, 40000, -40000, 70000, 128, 0, 7)  # outside of the range of some integer type


@template(1)
def narrowing(b: Builder) -> None:
    """Cast numbers that the target type does not have: integers wrap, and losses of floats are reported."""
    source = b.rng.choice(("int64", "int32", "int16", "uint16", "uint32", "float32", "float64"))
    target = b.rng.choice((*BYTES, *SHORTS, "uint32", "int32"))
    numbers = [number + (b.rng.choice((0, 0.5)) if source.startswith("float") else 0) for number in OUTSIDE]
    least = np.iinfo(source).min if not source.startswith("float") else -LIMIT
    greatest = np.iinfo(source).max if not source.startswith("float") else LIMIT
    fits = [number for number in numbers if least <= number <= greatest]
    dims = b.dims()
    array = np.array([b.rng.choice(fits) for _ in range(int(np.prod(dims)))], source).reshape(dims)
    b.emit("Cast", [b.leaf(array)], to=helper.np_dtype_to_tensor_dtype(np.dtype(target)))


@template(0.5, since=15)
def cast_like(b: Builder) -> None:
    b.emit("CastLike", [b.some(("int32", "int64", "bool", "uint8")), b.some(("float32", "int64", "int32"))])


REDUCTIONS = ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2",
              "ReduceSumSquare", "ReduceLogSumExp", "ReduceLogSum")  # fmt: skip


def axes_of(b: Builder, op_type: str, axes: list[int] | None) -> tuple[list[str], dict[str, Any]]:
    """Return axes in the form of the operator set: additional inputs, and attributes."""
    as_input = 13 if op_type in ("ReduceSum", "Squeeze", "Unsqueeze") else 18
    if axes is not None and b.version < 11:
        axes = [abs(axis) for axis in axes]
    if axes is None:
        return [], {}
    return ([b.constant(axes)], {}) if b.version >= as_input else ([], {"axes": axes})


@template(3)
def reduction(b: Builder) -> None:
    op_type = b.rng.choice(REDUCTIONS)
    integers = op_type in ("ReduceSum", "ReduceMax", "ReduceMin", "ReduceMean", "ReduceProd", "ReduceL1")
    value = b.some(("float32", "float32", "float32", "int32", "int64") if integers else FLOATS)
    axes = some_axes(b, value) if b.rng.random() < 0.8 else None
    keep = b.rng.choice((None, 0, 1))
    inputs, attributes = axes_of(b, op_type, axes)
    (result,) = b.emit(op_type, [value, *inputs], keepdims=keep, **attributes)
    right = np.sum(value.array, None if axes is None else tuple(axes), keepdims=keep != 0)
    if result.array.shape != np.shape(right):  # without elements, onnxruntime may not reduce negative axes
        raise Discarded


@template(1.5)
def arg(b: Builder) -> None:
    value = b.some(("float32", "float32", "int32", "int8"), exact=True)
    axis = axis_of(b, value)
    if not value.array.shape[axis]:
        raise Discarded
    last = b.rng.choice((None, None, 0, 1)) if b.version >= 12 else None
    axis = axis if b.version >= 11 else axis % value.array.ndim
    b.emit(b.rng.choice(("ArgMax", "ArgMin")), [value], axis=axis, keepdims=b.rng.choice((None, 0, 1)),
           select_last_index=last)  # fmt: skip


@template(1)
def top(b: Builder) -> None:
    value = b.some(("float32", "float32", "int64"), exact=True)
    axis = axis_of(b, value)
    size = value.array.shape[axis]
    axis = axis if b.version >= 11 else abs(axis) % value.array.ndim
    size = value.array.shape[axis]
    if b.version >= 11:
        largest = b.rng.choice((None, 0, 1))
        b.emit(
            "TopK",
            [value, b.knob([b.rng.randint(0 if b.has_empty else min(1, size), size)])],
            2,
            axis=axis,
            largest=largest,
        )
    elif b.version == 10:
        b.emit("TopK", [value, b.knob([size])], 2, axis=axis)
    else:
        b.emit("TopK", [value], 2, axis=axis, k=size)


@template(2.5)
def softmax(b: Builder) -> None:
    value = b.some(rank=(1, 2, 3, 4))
    axis = axis_of(b, value)
    axis = axis if b.version >= 11 else abs(axis) % value.array.ndim
    b.emit(b.rng.choice(("Softmax", "LogSoftmax")), [value], axis=b.rng.choice((None, axis)))


@template(0.7)
def hardmax(b: Builder) -> None:
    value = b.some(rank=(1, 2, 3), exact=True)
    axis = axis_of(b, value)
    b.emit("Hardmax", [value], axis=axis if b.version >= 11 else abs(axis) % value.array.ndim)


@template(3)
def shape(b: Builder) -> None:
    value = b.some(ANY_TYPE)
    start = b.rng.randint(-2, 2) if b.version >= 15 and b.rng.random() < 0.4 else None
    end = b.rng.randint(-1, 4) if b.version >= 15 and b.rng.random() < 0.4 else None
    if b.rng.random() < 0.25:
        b.emit("Size", [value])
    else:
        b.emit("Shape", [value], start=start, end=end)


def targets(array: np.ndarray, rng: random.Random) -> list[int]:
    """Return dims with the same number of elements."""
    size, dims = array.size, []
    for _ in range(rng.randint(0, 3)):
        factor = rng.choice([number for number in (1, 2, 3, 4, 6) if size % number == 0] or [1])
        dims.append(factor)
        size //= factor
    dims.insert(rng.randint(0, len(dims)), size)
    return dims


@template(3)
def reshape(b: Builder) -> None:
    value = b.some(ANY_TYPE)
    dims = targets(value.array, b.rng)
    if b.rng.random() < 0.4 and value.array.size:
        dims[b.rng.randrange(len(dims))] = -1
    for place, size in enumerate(dims):
        if place < value.array.ndim and value.array.shape[place] == size and b.rng.random() < 0.3:
            dims[place] = 0
    b.emit("Reshape", [value, b.knob(dims)])


@template(1)
def reshape_computed(b: Builder) -> None:
    """Reshape to a shape that is computed from another value's."""
    value = b.some(ANY_TYPE)
    (dims,) = b.emit("Shape", [value])
    if value.array.ndim < 1 or not value.array.size:
        raise Discarded
    if b.rng.random() < 0.5:
        (first,) = b.emit("Gather", [dims, b.constant([0])], axis=0)
        (target,) = b.emit("Concat", [first, b.constant([-1])], axis=0)
    else:
        (target,) = b.emit("ReduceProd", [dims], keepdims=1)
    b.emit("Reshape", [value, target])


@template(1)
def flatten(b: Builder) -> None:
    value = b.some(rank=(1, 2, 3, 4))
    b.emit("Flatten", [value], axis=b.rng.randint(0, value.array.ndim))


@template(2)
def squeeze(b: Builder) -> None:
    value = b.some(ANY_TYPE, fits=lambda array: 1 in array.shape)
    ones = [axis for axis, size in enumerate(value.array.shape) if size == 1]
    inputs, attributes = axes_of(b, "Squeeze", b.rng.choice((None, ones[:1], ones)))
    b.emit("Squeeze", [value, *inputs], **attributes)


@template(2)
def unsqueeze(b: Builder) -> None:
    value = b.some(ANY_TYPE, rank=(0, 1, 2, 3))
    rank = value.array.ndim + b.rng.randint(1, 2)
    axes = b.rng.sample(range(rank), rank - value.array.ndim)
    if b.version >= 11:
        axes = [axis - rank if b.rng.random() < 0.3 else axis for axis in axes]
    inputs, attributes = axes_of(b, "Unsqueeze", axes)
    b.emit("Unsqueeze", [value, *inputs], **attributes)


@template(2)
def transpose(b: Builder) -> None:
    value = b.some(ANY_TYPE)
    perm = list(range(value.array.ndim))
    b.rng.shuffle(perm)
    b.emit("Transpose", [value], perm=b.rng.choice((perm, perm, None)) if perm else None)


@template(1.5)
def expand(b: Builder) -> None:
    value = b.some(ANY_TYPE)
    dims = [b.rng.choice((size, size, 1)) if size != 1 else b.rng.randint(1, 3) for size in value.array.shape]
    extra = [b.rng.randint(1, 2) for _ in range(b.rng.choice((0, 0, 1)))]
    skipped = b.rng.choice((0, 0, 0, 1)) if not extra else 0
    b.emit("Expand", [value, b.knob([*extra, *dims[skipped:]])])


@template(1)
def tile(b: Builder) -> None:
    value = b.some(ANY_TYPE, rank=(1, 2, 3))
    b.emit("Tile", [value, b.knob([b.rng.randint(0 if b.has_empty else 1, 2) for _ in value.array.shape])])


@template(4)
def concat(b: Builder) -> None:
    value = b.some(ANY_TYPE, rank=(1, 2, 3))
    axis = b.rng.randrange(value.array.ndim)
    rest = [b.some((value.array.dtype.name,), dims=value.array.shape) for _ in range(b.rng.randint(0, 2))]
    b.emit("Concat", [value, *rest], axis=axis - (value.array.ndim if b.version >= 11 and b.rng.random() < 0.3 else 0))


@template(4)
def cut(b: Builder) -> None:
    value = b.some(ANY_TYPE, rank=(1, 2, 3, 4))
    rank = value.array.ndim
    axes = sorted(b.rng.sample(range(rank), b.rng.randint(1, rank)))
    if b.rng.random() < 0.3:
        axes = list(range(len(axes)))
    starts, ends, steps = [], [], []
    for axis in axes:
        size = value.array.shape[axis]
        step = b.rng.choice((1, 1, 1, 2, -1, -2)) if b.version >= 10 else 1
        start = b.rng.randint(-size - 1, size)
        end = b.rng.choice((b.rng.randint(-size - 1, size + 1), (1 << 63) - 1, (1 << 31) - 1))
        if step < 0:
            start, end = (
                b.rng.choice((-1, size, size - 1, -size - 1, -(1 << 31))),
                b.rng.choice((-size - 1, -(1 << 31), -(1 << 63), 0)),
            )
        starts.append(start), ends.append(end), steps.append(step)
    if b.version < 10:
        b.emit("Slice", [value], starts=starts, ends=ends, axes=axes)
        return
    has_axes = axes != list(range(len(axes))) or b.rng.random() < 0.4
    has_steps = any(step != 1 for step in steps) or b.rng.random() < 0.3
    narrow = all(abs(number) < 1 << 31 for number in starts + ends) and b.rng.random() < 0.3
    kind = "int32" if narrow else "int64"
    axes = [axis - rank if b.rng.random() < 0.3 else axis for axis in axes]
    tail = [b.constant(axes, kind) if has_axes else "", b.constant(steps, kind) if has_steps else ""]
    b.emit("Slice", [value, b.knob(starts, kind), b.knob(ends, kind), *tail])


@template(1.5)
def split(b: Builder) -> None:
    value = b.some(ANY_TYPE, rank=(1, 2, 3))
    axis = b.rng.randrange(value.array.ndim)
    size = value.array.shape[axis]
    count = b.rng.randint(1, 3)
    if b.rng.random() < 0.5 or (size % count and b.version < 18):
        cuts = sorted(b.rng.randint(0, size) for _ in range(count - 1))
        sizes = np.diff([0, *cuts, size]).tolist()
        if b.version >= 13:
            b.emit("Split", [value, b.constant(sizes)], count, axis=axis)
        else:
            b.emit("Split", [value], count, axis=axis, split=sizes)
    else:
        b.emit("Split", [value], count, axis=axis, num_outputs=count if b.version >= 18 else None)


@template(1.5)
def pad(b: Builder) -> None:
    value = b.some(("float32", "float32", "int32", "int64"), rank=(1, 2, 3))
    pads = [b.rng.choice((0, 0, 1, 2, -1)) for _ in range(2 * value.array.ndim)]
    mode = b.rng.choice((None, None, "constant", "reflect", "edge", "wrap"))
    if b.version < 11:
        b.emit("Pad", [value], pads=pads, mode=mode)
        return
    fill = b.constant(b.data(value.array.dtype.name, ()), value.array.dtype.name) if b.rng.random() < 0.4 else ""
    b.emit("Pad", [value, b.knob(pads), fill], mode=mode)


@template(3)
def gather(b: Builder) -> None:
    value = b.some(ANY_TYPE, rank=(1, 2, 3), fits=lambda array: 0 not in array.shape)
    axis = b.rng.randrange(value.array.ndim)
    size = value.array.shape[axis]
    dims = b.dims(b.rng.choice((0, 1, 1, 2)))
    lowest = -size if b.version >= 11 else 0
    indices = np.random.default_rng(b.rng.randrange(1 << 30)).integers(lowest, size, dims)
    b.emit("Gather", [value, b.knob(indices, b.rng.choice(INDICES))], axis=axis)


@template(1, since=11)
def gather_elements(b: Builder) -> None:
    value = b.some(ANY_TYPE, rank=(1, 2, 3), fits=lambda array: 0 not in array.shape)
    axis = b.rng.randrange(value.array.ndim)
    dims = [size if place == axis else b.rng.randint(1, size) for place, size in enumerate(value.array.shape)]
    dims[axis] = b.rng.randint(1, 3)
    size = value.array.shape[axis]
    indices = np.random.default_rng(b.rng.randrange(1 << 30)).integers(-size, size, dims)
    b.emit("GatherElements", [value, b.knob(indices)], axis=axis)


@template(1, since=12)
def gather_nd(b: Builder) -> None:
    value = b.some(ANY_TYPE, rank=(1, 2, 3), fits=lambda array: 0 not in array.shape)
    count = b.rng.randint(1, value.array.ndim)
    rows = b.rng.randint(1, 3)
    columns = [[b.rng.randrange(-size, size) for _ in range(rows)] for size in value.array.shape[:count]]
    b.emit("GatherND", [value, b.knob(np.array(columns).T)])


def scatter_data(b: Builder) -> Value:
    """Return the data for a scatter operator."""
    types = ("float32", "float32", "int64", "int32", "int16", "uint8", "bool")
    return b.some(types, rank=(1, 2, 3), fits=lambda array: 0 not in array.shape)


@template(1.5, since=11)
def scatter_elements(b: Builder) -> None:
    value = scatter_data(b)
    axis = b.rng.randrange(value.array.ndim)
    dims = [b.rng.randint(1, size) for size in value.array.shape]
    whole = np.argsort(np.random.default_rng(b.rng.randrange(1 << 30)).random(value.array.shape), axis)
    indices = whole[tuple(slice(0, size) for size in dims)]
    names = [None, None, *(["add", "mul"] if b.version >= 16 else []), *(["min", "max"] if b.version >= 18 else [])]
    updates = b.some((value.array.dtype.name,), dims=dims)
    b.emit("ScatterElements", [value, b.knob(indices), updates], axis=axis, reduction=b.rng.choice(names))


@template(1, since=11)
def scatter_nd(b: Builder) -> None:
    value = scatter_data(b)
    count = b.rng.randint(1, value.array.ndim)
    places = list(np.ndindex(*value.array.shape[:count]))
    chosen = b.rng.sample(places, b.rng.randint(1, min(3, len(places))))
    names = [None, None, *(["add", "mul"] if b.version >= 16 else []), *(["min", "max"] if b.version >= 18 else [])]
    updates = b.some((value.array.dtype.name,), dims=(len(chosen), *value.array.shape[count:]))
    b.emit("ScatterND", [value, b.knob(chosen), updates], reduction=b.rng.choice(names))


@template(1, since=9)
def one_hot(b: Builder) -> None:
    indices = b.some(("int64", "int32"), rank=(1, 2))
    values = b.constant(b.rng.choice(([0, 1], [-1, 3])), b.rng.choice(("float32", "int64", "int32")))
    depth = b.constant(b.rng.choice(([4], 4)))
    b.emit("OneHot", [indices, depth, values], axis=b.rng.choice((None, 0, -1)))


@template(0.7, since=9)
def non_zero(b: Builder) -> None:
    b.emit("NonZero", [b.some(("float32", "int32", "bool", "int64", "uint8"), exact=True)])


@template(0.5, since=9)
def compress(b: Builder) -> None:
    value = b.some(("float32", "int64"), rank=(1, 2))
    axis = b.rng.randrange(value.array.ndim)
    b.emit("Compress", [value, b.some(("bool",), dims=(value.array.shape[axis],))], axis=axis)


@template(1, since=14)
def trilu(b: Builder) -> None:
    value = b.some(("float32", "int64", "bool"), rank=(2, 3))
    k = b.knob(b.rng.randint(-2, 2)) if b.rng.random() < 0.5 else ""
    b.emit("Trilu", [value, k], upper=b.rng.choice((None, 0, 1)))


@template(1, since=11)
def cum_sum(b: Builder) -> None:
    value = b.some(("float32", "int64", "int32"), rank=(1, 2, 3))
    b.emit("CumSum", [value, b.constant(axis_of(b, value), b.rng.choice(INDICES))],
           exclusive=b.rng.choice((None, 1)), reverse=b.rng.choice((None, 1)))  # fmt: skip


@template(1, since=11)
def numbers(b: Builder) -> None:
    kind = b.rng.choice(("int64", "int32", "float32"))
    bounds = [b.knob(number, kind) for number in (b.rng.randint(-3, 1), b.rng.randint(2, 6), b.rng.choice((1, 2)))]
    b.emit("Range", bounds)


@template(1, since=9)
def filled(b: Builder) -> None:
    kind = b.rng.choice(("float32", "int64", "int32", "bool", "uint8"))
    tensor = numpy_helper.from_array(b.data(kind, (1,)))
    if b.rng.random() < 0.5:
        (dims,) = b.emit("Shape", [b.some(ANY_TYPE)])
        b.emit("ConstantOfShape", [dims], value=tensor)
    else:
        b.emit("ConstantOfShape", [b.knob(list(b.dims(2)))], value=b.rng.choice((tensor, None)))


@template(0.5, since=9)
def eye(b: Builder) -> None:
    b.emit("EyeLike", [b.some(("float32", "int64"), rank=2)], k=b.rng.choice((None, 1, -1)))


@template(1, since=13)
def clip_integers(b: Builder) -> None:
    value = b.some(("int32", "int64", "int8", "uint8"))
    kind = value.array.dtype.name
    bounds = [b.constant(b.rng.choice((1, 2)), kind), b.constant(b.rng.choice((3, 5)), kind)]
    b.emit("Clip", [value, *(bound if b.rng.random() < 0.7 else "" for bound in bounds)])


@template(1)
def clip(b: Builder) -> None:
    value = b.some()
    if b.version < 11:
        b.emit("Clip", [value], min=b.rng.choice((None, -1.0)), max=b.rng.choice((None, 1.5)))
    else:
        bounds = [b.knob(-1.0, "float32"), b.knob(1.5, "float32")]
        b.emit("Clip", [value, *(bound if b.rng.random() < 0.7 else "" for bound in bounds)])


@template(3)
def matrix_product(b: Builder) -> None:
    first = b.some(rank=(1, 2, 2, 3, 4), fits=lambda array: 0 not in array.shape)  # onnxruntime does not fill these
    depth = first.array.shape[-1]
    batch = first.array.shape[:-2] if b.rng.random() < 0.5 else ()
    dims = b.rng.choice(((depth,), (*batch, depth, b.width(3)), (*batch, depth, b.width(3))))
    b.emit("MatMul", [first, b.some(dims=dims)])


@template(1.5)
def gemm(b: Builder) -> None:
    first = b.some(rank=2)
    rows, depth = first.array.shape
    flip_first, flip_second = b.rng.random() < 0.3, b.rng.random() < 0.4
    if flip_first:
        rows, depth = depth, rows
    columns = b.width(3)
    second = b.some(dims=(columns, depth) if flip_second else (depth, columns))
    bias = b.some(dims=b.rng.choice(((columns,), (rows, columns), (1,), ())))
    attributes = {"alpha": b.rng.choice((None, 0.5)), "beta": b.rng.choice((None, 2.0))}
    extra = [bias] if b.version < 11 or b.rng.random() < 0.7 else []
    b.emit("Gemm", [first, second, *extra], transA=int(flip_first), transB=int(flip_second), **attributes)


@template(1, since=12)
def einsum(b: Builder) -> None:
    first = b.some(rank=2)
    equation = b.rng.choice(("ij,jk->ik", "ij,jk", "ij,kj->ik", "ij->ji", "ij->i", "ij,ij->ij"))
    rows, depth = first.array.shape
    inputs = [first]
    if "," in equation:
        dims = {"jk": (depth, 2), "kj": (2, depth), "ij": (rows, depth)}[equation.split(",")[1].split("-")[0]]
        inputs.append(b.some(dims=dims))
    b.emit("Einsum", inputs, equation=equation)


def window_attributes(b: Builder, spatial: Sequence[int], kernel: Sequence[int]) -> dict[str, Any]:
    """Return attributes for a window."""
    attributes: dict[str, Any] = {"strides": b.rng.choice((None, [b.rng.randint(1, 2) for _ in spatial]))}
    if b.rng.random() < 0.3:
        attributes["auto_pad"] = b.rng.choice(("SAME_UPPER", "SAME_LOWER", "VALID"))
    elif b.rng.random() < 0.5:
        attributes["pads"] = [b.rng.randint(0, max(0, size - 1)) for size in (*kernel, *kernel)]
    return attributes


@template(2.5)
def convolution(b: Builder) -> None:
    value = b.some(rank=b.rng.choice((3, 4, 4, 5)), fits=lambda array: 0 not in array.shape)
    channels, spatial = value.array.shape[1], value.array.shape[2:]
    group = b.rng.choice((1, 1, channels))
    kernel = [b.rng.randint(1, 3) for _ in spatial]
    weight = b.some(dims=(group * b.width(2), channels // group, *kernel), weight=True)
    bias = [b.some(dims=(weight.array.shape[0],))] if b.rng.random() < 0.5 else []
    attributes = window_attributes(b, spatial, kernel)
    if "auto_pad" not in attributes and b.rng.random() < 0.3:
        attributes["dilations"] = [b.rng.randint(1, 2) for _ in spatial]
    b.emit("Conv", [value, weight, *bias], group=group, **attributes)


@template(1)
def transposed_convolution(b: Builder) -> None:
    value = b.some(rank=b.rng.choice((3, 4)), fits=lambda array: 0 not in array.shape)
    channels, spatial = value.array.shape[1], value.array.shape[2:]
    kernel = [b.rng.randint(1, 3) for _ in spatial]
    group = b.rng.choice((1, 1, channels))
    weight = b.some(dims=(channels, b.rng.randint(1, 2), *kernel), weight=True)
    bias = [b.some(dims=(weight.array.shape[1] * group,))] if b.rng.random() < 0.5 else []
    strides = b.rng.choice((None, [b.rng.randint(1, 2) for _ in spatial]))
    b.emit("ConvTranspose", [value, weight, *bias], group=group, strides=strides,
           dilations=b.rng.choice((None, None, [b.rng.randint(1, 2) for _ in spatial])))  # fmt: skip


@template(1.5, since=10)
def integer_convolution(b: Builder) -> None:
    value = b.some(("uint8",), rank=4, fits=lambda array: 0 not in array.shape)
    kernel = [b.rng.randint(1, 2) for _ in range(2)]
    weight = b.some((b.rng.choice(("uint8", "int8")),), dims=(b.width(2), value.array.shape[1], *kernel), weight=True)
    zeros = [b.constant(3, "uint8")] if b.rng.random() < 0.5 else []
    if zeros and b.rng.random() < 0.5:  # onnxruntime has none for each channel
        zeros.append(b.constant(b.rng.choice((7, 100)), weight.array.dtype.name))
    steps = {
        name: b.rng.choice((None, None, [b.rng.randint(1, 2) for _ in range(2)])) for name in ("strides", "dilations")
    }
    b.emit("ConvInteger", [value, weight, *zeros], **steps)


@template(1.5, since=10)
def integer_product(b: Builder) -> None:
    first = b.some(("uint8", "int8"), rank=(2, 3), fits=lambda array: 0 not in array.shape)
    second = b.some((b.rng.choice(BYTES),), dims=(first.array.shape[-1], b.width(3)))
    zeros = []
    if b.rng.random() < 0.6:
        columns = second.array.shape[1]
        zeros = [b.constant(3, first.array.dtype.name), b.zero_point(second.array.dtype.name, columns)]
    b.emit("MatMulInteger", [first, second, *zeros])


@template(2)
def pool(b: Builder) -> None:
    value = b.some(rank=b.rng.choice((3, 4, 4, 5)), fits=lambda array: 0 not in array.shape)
    spatial = value.array.shape[2:]
    kernel = [b.rng.randint(1, min(3, size)) for size in spatial]  # for larger windows, runtimes differ
    op_type = b.rng.choice(("MaxPool", "AveragePool", "LpPool"))
    attributes = window_attributes(b, spatial, kernel)
    if op_type == "AveragePool":
        attributes["count_include_pad"] = b.rng.choice((None, 1))
    if b.version >= 10 and op_type != "LpPool":
        attributes["ceil_mode"] = b.rng.choice((None, None, 1))
    b.emit(op_type, [value], kernel_shape=kernel, **attributes)


@template(0.7)
def global_pool(b: Builder) -> None:
    b.emit(b.rng.choice(("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")), [b.some(rank=(3, 4))])


@template(1.5, since=9)
def normalization(b: Builder) -> None:
    value = b.some(rank=(2, 3, 4), fits=lambda array: 0 not in array.shape)
    channels = value.array.shape[1]
    scale, bias, mean = (b.some(dims=(channels,)) for _ in range(3))
    which = b.rng.randrange(4)
    if which == 0:
        variance = b.leaf(np.abs(b.data("float32", (channels,))) + 0.5)
        b.emit("BatchNormalization", [value, scale, bias, mean, variance])
    elif which == 1 and value.array.ndim > 2:
        b.emit("InstanceNormalization", [value, scale, bias])
    elif which == 2 and b.version >= 17:
        last = value.array.shape[-1]
        extra = [b.some(dims=(last,))] if b.rng.random() < 0.6 else []
        b.emit("LayerNormalization", [value, b.some(dims=(last,)), *extra])
    else:
        op_type = b.rng.choice(("LpNormalization", "MeanVarianceNormalization", "LRN"))
        if op_type == "MeanVarianceNormalization" and value.array.ndim != 4:
            raise Discarded  # the axes of images
        b.emit(op_type, [value], **({"size": 3} if op_type == "LRN" else {}))


@template(1)
def prelu(b: Builder) -> None:
    value = b.some(rank=(1, 2, 3, 4))
    b.emit("PRelu", [value, b.some(dims=(value.array.shape[-1],))])


@template(0.5)
def dropout(b: Builder) -> None:
    b.emit("Dropout", [b.some()], b.rng.choice((1, 1, 2)) if b.version >= 12 else 1)


@template(1)
def depth_and_space(b: Builder) -> None:
    value = b.some(rank=4)
    b.emit(b.rng.choice(("DepthToSpace", "SpaceToDepth")), [value], blocksize=b.rng.choice((1, 2)))


@template(1.5, since=11)
def resize(b: Builder) -> None:
    value = b.some(rank=4, fits=lambda array: 0 not in array.shape)
    mode = b.rng.choice(("nearest", "linear"))
    transform = b.rng.choice((None, "asymmetric", "align_corners", "pytorch_half_pixel"))
    nearest = b.rng.choice((None, "floor")) if mode == "nearest" else None
    scales = sizes = ""
    if b.rng.random() < 0.6:
        scales = b.knob([1, 1, b.rng.choice((0.5, 1, 1.5, 2)), b.rng.choice((0.75, 1, 2, 3))], "float32")
    else:
        sizes = b.knob([*value.array.shape[:2], b.rng.randint(1, 6), b.rng.randint(1, 6)])
    b.emit("Resize", [value, b.constant([], "float32"), scales, sizes], mode=mode,
           coordinate_transformation_mode=transform, nearest_mode=nearest)  # fmt: skip


@template(2, since=10)
def quantization(b: Builder) -> None:
    kind = b.rng.choice(BYTES)
    scale = b.constant(b.rng.choice((0.25, 0.5, 0.5, 0.3)), "float32")
    zero = b.constant(b.rng.choice((0, 3)), kind)
    (whole,) = b.emit("QuantizeLinear", [b.some(exact=True), scale, zero])
    if b.rng.random() < 0.7:
        b.emit("DequantizeLinear", [whole, scale, zero])


@template(1, since=10)
def dequantization(b: Builder) -> None:
    value = b.some(("uint8", "int8"))
    b.emit("DequantizeLinear", [value, b.constant(0.25, "float32"), b.constant(2, value.array.dtype.name)])


@template(0.7, since=11)
def dynamic_quantization(b: Builder) -> None:
    whole, scale, zero = b.emit("DynamicQuantizeLinear", [b.some(exact=True)], 3)
    b.emit("DequantizeLinear", [whole, scale, zero])


@template(0.7)
def recurrence(b: Builder) -> None:
    op_type, gates = b.rng.choice((("LSTM", 4), ("GRU", 3), ("RNN", 1)))
    steps, batch, width, hidden = b.rng.randint(1, 3), b.rng.randint(1, 2), b.rng.randint(1, 3), b.rng.randint(1, 3)
    direction = b.rng.choice(("forward", "forward", "reverse", "bidirectional"))
    count = 2 if direction == "bidirectional" else 1
    inputs = [
        b.some(dims=(steps, batch, width)),
        b.leaf(b.data("float32", (count, gates * hidden, width)) / np.float32(4), constant=True),
        b.leaf(b.data("float32", (count, gates * hidden, hidden)) / np.float32(4), constant=True),
    ]
    if b.rng.random() < 0.5:
        inputs.append(b.leaf(b.data("float32", (count, 2 * gates * hidden)) / np.float32(4), constant=True))
    attributes = {"linear_before_reset": b.rng.choice((None, 1))} if op_type == "GRU" else {}
    b.emit(op_type, inputs, 2, hidden_size=hidden, direction=direction, **attributes)


@template(0.7, since=11)
def bits(b: Builder) -> None:
    if b.version >= 18 and b.rng.random() < 0.7:
        first = b.some(("int32", "uint8", "int8", "int16", "int64"))
        op_type = b.rng.choice(("BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot"))
        b.emit(op_type, [first, *([] if op_type == "BitwiseNot" else [b.like(first)])])
    else:
        first = b.some(("uint8", "uint32"))
        places = b.constant(b.rng.randint(0, 5), first.array.dtype.name)
        b.emit("BitShift", [first, places], direction=b.rng.choice(("LEFT", "RIGHT")))


@template(0.5, since=10)
def reverse_sequence(b: Builder) -> None:
    value = b.some(rank=(2, 3), fits=lambda array: 0 not in array.shape)
    time_axis = b.rng.randint(0, 1)
    lengths = [b.rng.randint(1, value.array.shape[time_axis]) for _ in range(value.array.shape[1 - time_axis])]
    b.emit("ReverseSequence", [value, b.knob(lengths)], time_axis=time_axis, batch_axis=1 - time_axis)


@template(0.5, since=11)
def suppression(b: Builder) -> None:
    images, classes, count = b.rng.randint(1, 2), b.rng.randint(1, 3), b.rng.randint(1, 9)
    random = np.random.default_rng(b.rng.randrange(1 << 20))
    boxes = random.integers(0, 9, (images, count, 4)).astype(np.float32) / 2  # many of them overlap equally
    scores = random.integers(0, 9, (images, classes, count)).astype(np.float32) / 8
    given = [
        b.leaf(boxes),
        b.leaf(scores),
        b.knob([b.rng.randint(0, count)]),
        b.constant([b.rng.choice((0.3, 0.5))], "float32"),
    ]
    if b.rng.random() < 0.6:
        given.append(b.knob([b.rng.choice((0, 0.25, 0.5, 2))], "float32"))
    b.emit("NonMaxSuppression", given, center_point_box=b.rng.choice((None, 0, 1)))


@template(0.4, since=16)
def grid_sample(b: Builder) -> None:
    value = b.some(rank=4, fits=lambda array: 0 not in array.shape)
    grid = b.leaf(b.data("float32", (value.array.shape[0], 2, 3, 2)) / np.float32(8))
    b.emit("GridSample", [value, grid])


@template(1.5, since=11)
def sequence(b: Builder) -> None:
    first = b.some(("float32", "int64"), rank=(0, 1, 2))
    rest = [b.some((first.array.dtype.name,), dims=first.array.shape) for _ in range(b.rng.randint(0, 2))]
    (made,) = b.emit("SequenceConstruct", [first, *rest])
    length = 1 + len(rest)
    place = b.rng.randint(-length, length)
    if b.rng.random() < 0.6:
        position = b.knob(place) if b.rng.random() < 0.5 else integer_scalar(b, place)
        (made,) = b.emit("SequenceInsert", [made, first, position])
        length += 1
    if b.rng.random() < 0.3 and length > 1:
        (made,) = b.emit("SequenceErase", [made, b.knob(b.rng.randrange(-length, length))])
        length -= 1
    if b.rng.random() < 0.5:
        b.emit("SequenceAt", [made, b.knob(b.rng.randrange(-length, length))])
    elif b.rng.random() < 0.5:
        b.emit("ConcatFromSequence", [made], axis=b.rng.choice((0, -1)), new_axis=b.rng.choice((None, 0, 1)))
    else:
        b.emit("SequenceLength", [made])


def integer_scalar(b: Builder, number: int) -> Value:
    """Return a computed scalar, from an input if the graph has inputs."""
    sign = b.rng.choice((1, -1))
    source = b.leaf(np.asarray(number * sign, np.int64))
    (made,) = b.emit("Abs" if number >= 0 else "Neg", [source]) if (number >= 0 or sign < 0) else [source]
    return made


@template(1, since=11)
def split_to_sequence(b: Builder) -> None:
    value = b.some(("float32", "int64"), rank=(1, 2), fits=lambda array: 0 not in array.shape)
    axis = b.rng.randrange(value.array.ndim)
    size = value.array.shape[axis]
    split = b.rng.choice(("", b.constant(b.rng.randint(1, size))))
    keepdims = None if split else b.rng.choice((None, 0, 1))  # onnxruntime checks it even if there is a split input
    (made,) = b.emit("SplitToSequence", [value, split], axis=axis, keepdims=keepdims)
    b.emit("SequenceAt", [made, b.constant(0)])


@template(1)
def activation_of_two(b: Builder) -> None:
    """Operators that onnxruntime fuses with activations."""
    value = b.some(rank=(2, 3))
    width = value.array.shape[-1]
    which = b.rng.randrange(4)
    if which == 0:
        b.emit("QuickGelu", [value], domain="com.microsoft", alpha=b.rng.choice((None, 1.5)))
    elif which == 1:
        bias = [b.some(dims=(width,))] if b.rng.random() < 0.5 else []
        b.emit("FastGelu", [value, *bias], domain="com.microsoft")
    elif which == 2:
        b.emit("BiasGelu", [value, b.some(dims=(width,))], domain="com.microsoft")
    else:
        b.emit("Shrink", [b.some(exact=True)], lambd=b.rng.choice((None, 0.25)), bias=b.rng.choice((None, 0.5)))


@template(1)
def fused(b: Builder) -> None:
    """Products of onnxruntime's own domain, with scales and activations."""
    value = b.some(rank=2, fits=lambda array: 0 not in array.shape)
    rows, depth = value.array.shape
    columns = b.rng.randint(1, 3)
    activation = b.rng.choice(("Relu", "Tanh", "Sigmoid", "LeakyRelu"))
    if b.rng.random() < 0.5:
        flip, flip_first = b.rng.randint(0, 1), b.rng.randint(0, 1)
        depth = rows if flip_first else depth
        second = b.some(dims=(columns, depth) if flip else (depth, columns))
        b.emit("FusedMatMul", [value, second], domain="com.microsoft", alpha=b.rng.choice((None, 0.5)),
               transA=flip_first, transB=flip)  # fmt: skip
    else:
        bias = b.some(dims=(columns,))
        b.emit("FusedGemm", [value, b.some(dims=(depth, columns)), bias], domain="com.microsoft", activation=activation,
               alpha=b.rng.choice((None, 0.5)))  # fmt: skip


@template(0.5)
def fused_convolution(b: Builder) -> None:
    value = b.some(rank=4, fits=lambda array: 0 not in array.shape)
    channels = value.array.shape[1]
    weight = b.some(dims=(2, channels, 1, 1), weight=True)
    b.emit("FusedConv", [value, weight, b.some(dims=(2,))], domain="com.microsoft",
           activation=b.rng.choice(("Relu", "Tanh", "Sigmoid")))  # fmt: skip


@template(1)
def skipped(b: Builder) -> None:
    """Normalisations of the kinds that transformers have."""
    value = b.some(rank=(2, 3), fits=lambda array: 0 not in array.shape)
    width = value.array.shape[-1]
    scale = b.some(dims=(width,))
    which = b.rng.randrange(5)
    if which == 0 and value.array.ndim == 3:
        extra = [b.some(dims=(width,))] if b.rng.random() < 0.6 else []
        b.emit("SkipLayerNormalization", [value, b.some(dims=value.array.shape), scale, *extra], domain="com.microsoft",
               epsilon=b.rng.choice((None, 0.5)))  # fmt: skip
    elif which == 1 and value.array.ndim == 3:
        b.emit("SkipSimplifiedLayerNormalization", [value, b.some(dims=value.array.shape), scale],
               domain="com.microsoft")  # fmt: skip
    elif which == 2 and b.version >= 23:
        b.emit("RMSNormalization", [value, scale])
    elif which == 3 and b.version >= 17:
        b.emit("LayerNormalization", [value, scale], b.rng.choice((1, 3)), epsilon=b.rng.choice((None, 0.5)))
    else:
        b.emit("SimplifiedLayerNormalization", [value, scale])


@template(0.5, since=18)
def group_normalization(b: Builder) -> None:
    value = b.some(rank=(3, 4), fits=lambda array: 0 not in array.shape)
    channels = value.array.shape[1]
    groups = b.rng.choice([number for number in (1, 2, 3, 4) if channels % number == 0])
    count = channels if b.version >= 21 else groups
    b.emit("GroupNormalization", [value, b.some(dims=(count,)), b.some(dims=(count,))], num_groups=groups)


@template(1.2)
def attention(b: Builder) -> None:
    """Attention of ONNX and of onnxruntime, with masks, biases, caches and fewer heads of keys."""
    batch, heads, steps, keys, size = (b.rng.randint(1, 2), b.rng.choice((1, 2, 2, 4)), b.rng.randint(1, 3),
                                       b.rng.randint(1, 4), b.rng.choice((1, 2, 4)))  # fmt: skip
    if b.version < 23 or b.rng.random() < 0.4:
        width = heads * size
        query, key, value = (b.some(dims=(batch, count, width)) for count in (steps, keys, keys))
        bias = b.some(dims=(3 * width,)) if b.rng.random() < 0.4 else ""
        mask = b.leaf(np.asarray(np.tri(batch, keys) > 0, np.int32)) if b.rng.random() < 0.3 else ""
        added = b.some(dims=(b.rng.choice((1, batch)), heads, steps, keys)) if b.rng.random() < 0.3 else ""
        b.emit("MultiHeadAttention", [query, key, value, bias, mask, added], domain="com.microsoft", num_heads=heads,
               scale=b.rng.choice((None, 0.5)))  # fmt: skip
        return
    of_keys = b.rng.choice([number for number in (1, 2, 4) if heads % number == 0])
    causal = b.rng.choice((None, 0, 1))
    attributes = {"is_causal": causal, "scale": b.rng.choice((None, 0.5)), "softcap": b.rng.choice((None, None, 2.0))}
    if b.rng.random() < 0.4:
        inputs: list[Any] = [b.some(dims=(batch, steps, heads * size))]
        inputs += [b.some(dims=(batch, keys, of_keys * size)) for _ in range(2)]
        attributes |= {"q_num_heads": heads, "kv_num_heads": of_keys}
    else:
        inputs = [b.some(dims=(batch, heads, steps, size)), *(b.some(dims=(batch, of_keys, keys, size)) for _ in "kv")]
    past = b.rng.choice((0, 0, 0, 1, 2))
    dims = b.rng.choice(((steps, keys + past), (batch, 1, steps, keys + past), (1, heads, steps, keys + past)))
    kind = b.rng.random()
    mask_of = b.some(dims=dims) if kind < 0.3 else b.some(("bool",), dims=dims) if kind < 0.5 else ""
    caches = [b.some(dims=(batch, of_keys, past, size)) for _ in "kv"] if past else []
    b.emit("Attention", [*inputs, mask_of, *caches], 3 if past else 1, **attributes)


@template(0.5, since=23)
def rotary(b: Builder) -> None:
    batch, heads, steps, size = b.rng.randint(1, 2), b.rng.randint(1, 2), b.rng.randint(1, 3), b.rng.choice((2, 4))
    value = b.some(dims=(batch, heads, steps, size))
    positions = b.constant(np.arange(batch * steps).reshape(batch, steps) % 3)
    caches = [b.some(dims=(3, size // 2)) for _ in "cs"]
    b.emit("RotaryEmbedding", [value, *caches, positions], interleaved=b.rng.choice((None, 1)))


@template(0.7, since=12)
def loss(b: Builder) -> None:
    scores = b.some(rank=(2, 3), fits=lambda array: 0 not in array.shape)
    classes = scores.array.shape[1]
    dims = (scores.array.shape[0], *scores.array.shape[2:])
    chosen = np.random.default_rng(b.rng.randrange(1 << 30)).integers(0, classes, dims)
    inputs = [scores, b.knob(chosen, b.rng.choice(INDICES))]
    if b.rng.random() < 0.4:
        inputs.append(b.leaf(np.abs(b.data("float32", (classes,))) + np.float32(0.5)))
    attributes = {"reduction": b.rng.choice((None, "none", "sum", "mean")), "ignore_index": b.rng.choice((None, 0))}
    if b.rng.random() < 0.5:
        b.emit("NegativeLogLikelihoodLoss", inputs, **attributes)
    else:
        b.emit("SoftmaxCrossEntropyLoss", inputs, b.rng.choice((1, 2)), **attributes)


@template(0.7, since=17)
def signal(b: Builder) -> None:
    if b.rng.random() < 0.5:
        size = b.knob(b.rng.randint(1, 6)) if b.rng.random() < 0.3 else b.constant(b.rng.randint(1, 6))
        names = ("HannWindow", "HammingWindow", "BlackmanWindow")
        b.emit(b.rng.choice(names), [size], periodic=b.rng.choice((None, 0)))
        return
    value = b.some(dims=(b.rng.randint(1, 2), b.rng.randint(2, 5), b.rng.randint(1, 2)))
    length = b.constant(b.rng.randint(2, 6)) if b.rng.random() < 0.3 else ""
    real = value.array.shape[-1] == 1
    onesided = b.rng.choice((None, 1)) if real else None
    if b.version >= 20:
        axis = [length, b.constant(1)] if length or b.rng.random() < 0.5 else []
        b.emit("DFT", [value, *axis], onesided=onesided, inverse=None if real else b.rng.choice((None, 1)))
    else:
        b.emit("DFT", [value, length], axis=1, onesided=onesided, inverse=None if real else b.rng.choice((None, 1)))


@template(0.7)
def upsample(b: Builder) -> None:
    if b.version > 9:
        raise Discarded
    value = b.some(rank=4, fits=lambda array: 0 not in array.shape)
    scales = [1.0, 1.0, float(b.rng.randint(1, 3)), float(b.rng.randint(1, 3))]
    mode = b.rng.choice((None, "nearest", "linear"))
    if b.version >= 9:
        b.emit("Upsample", [value, b.constant(scales, "float32")], mode=mode)
    else:
        b.emit("Upsample", [value], mode=mode, scales=scales)


@template(0.5, since=9)
def old_scatter(b: Builder) -> None:
    if b.version >= 11:
        raise Discarded
    value = b.some(("float32", "int64"), rank=(1, 2), fits=lambda array: 0 not in array.shape)
    axis = b.rng.randrange(value.array.ndim)
    dims = [1 if place == axis else b.rng.randint(1, size) for place, size in enumerate(value.array.shape)]
    indices = np.full(dims, b.rng.randrange(value.array.shape[axis]))
    b.emit("Scatter", [value, b.knob(indices), b.some((value.array.dtype.name,), dims=dims)], axis=axis)


@template(0.7, since=18)
def placed(b: Builder) -> None:
    """Values cropped and padded around the centre, patches, grids."""
    which = b.rng.randrange(3)
    if which == 0:
        value = b.some(("float32", "int64"), rank=(2, 3), fits=lambda array: 0 not in array.shape)
        axes = sorted(b.rng.sample(range(value.array.ndim), b.rng.randint(1, value.array.ndim)))
        b.emit("CenterCropPad", [value, b.constant([b.rng.randint(1, 5) for _ in axes])], axes=axes)
    elif which == 1:
        block, image = (b.rng.randint(1, 2), b.rng.randint(1, 2)), (b.rng.randint(2, 4), b.rng.randint(2, 4))
        count = (image[0] - block[0] + 1) * (image[1] - block[1] + 1)
        value = b.some(dims=(1, 2 * block[0] * block[1], count))
        b.emit("Col2Im", [value, b.constant(image), b.constant(block)])
    elif b.version >= 20:
        theta = b.some(dims=(2, 2, 3))
        b.emit("AffineGrid", [theta, b.constant([2, 1, b.rng.randint(1, 3), b.rng.randint(1, 3)])],
               align_corners=b.rng.choice((None, 1)))  # fmt: skip


@template(1, since=10)
def quantized(b: Builder) -> None:
    """Arithmetic on quantised values, with its scales."""
    first = b.some(("uint8",), rank=(1, 2), fits=lambda array: 0 not in array.shape)
    scale = [b.constant(number, "float32") for number in (0.5, 0.25, 0.5)]
    zero = b.constant(b.rng.choice((0, 3)), "uint8")
    which = b.rng.randrange(5)
    if which == 0:
        second = b.some(("uint8",), dims=first.array.shape)
        name = b.rng.choice(("QLinearAdd", "QLinearMul"))
        inputs = [first, scale[0], zero, second, scale[1], zero, scale[2], zero]
        b.emit(name, inputs, domain="com.microsoft")
    elif which == 1:
        name = b.rng.choice(("QLinearSigmoid", "QLinearLeakyRelu"))
        b.emit(name, [first, scale[0], zero, scale[1], zero], domain="com.microsoft")
    elif which == 2 and first.array.ndim == 2:
        second = b.some(("uint8",), dims=(first.array.shape[1], b.rng.randint(1, 3)))
        b.emit("QLinearMatMul", [first, scale[0], zero, second, scale[1], zero, b.constant(8.0, "float32"), zero])
    elif which == 3:
        value = b.some(("uint8",), rank=4, fits=lambda array: 0 not in array.shape)
        weight = b.some(("uint8",), dims=(2, value.array.shape[1], 1, 1), weight=True)
        b.emit("QLinearConv", [value, scale[0], zero, weight, scale[1], zero, b.constant(8.0, "float32"), zero])
    elif first.array.ndim == 2:
        second = b.some(("uint8",), dims=(first.array.shape[1], b.rng.randint(1, 3)))
        b.emit("MatMulIntegerToFloat", [first, second, scale[0], scale[1], zero, zero], domain="com.microsoft")


@template(0.4, since=10)
def dynamically_quantized_product(b: Builder) -> None:
    value = b.some(rank=2, fits=lambda array: 0 not in array.shape)
    weight = b.some(("uint8", "int8"), dims=(value.array.shape[1], b.rng.randint(1, 3)), weight=True)
    zero = [b.constant(b.rng.choice((0, 3)), weight.array.dtype.name)] if b.rng.random() < 0.5 else []
    b.emit("DynamicQuantizeMatMul", [value, weight, b.constant(0.25, "float32"), *zero], domain="com.microsoft")


@template(0.4, since=11)
def unpooled(b: Builder) -> None:
    value = b.leaf(b.data("float32", (1, 1, 2, 2)))
    indices = np.array([[[[0, 2], [8, 10]]]])
    b.emit("MaxUnpool", [value, b.constant(indices)], kernel_shape=[2, 2], strides=[2, 2])


@template(0.6, since=15)
def optional(b: Builder) -> None:
    """An optional with a value in it."""
    (made,) = b.emit("Identity", [b.some(("float32", "int64"))])
    if b.version >= 18:
        b.emit(b.rng.choice(("OptionalHasElement", "OptionalGetElement")), [made])


@template(0.6, since=17)
def mapped_sequence(b: Builder) -> None:
    """A function of each element of a sequence."""
    if b.depth > 1:
        raise Discarded
    first = b.some(rank=(1, 2))
    rest = [b.some(dims=first.array.shape) for _ in range(b.rng.randint(0, 2))]
    (made,) = b.emit("SequenceConstruct", [first, *rest])
    inner = b.child()
    element = Value(inner.new_name(), first.array)
    inner.values.append(element)
    known = len(inner.values)
    inner.grow(b.rng.randint(1, 2))
    result = result_of(inner, known, "float32")
    (mapped,) = b.emit("SequenceMap", [made], body=inner.subgraph("body", [element], [result]))
    b.emit("SequenceAt", [mapped, b.knob(0)])


@template(0.4, since=24)
def written(b: Builder) -> None:
    cache = b.some(dims=(2, 1, 4, 2))
    update = b.some(dims=(2, 1, b.rng.randint(1, 2), 2))
    b.emit("TensorScatter", [cache, update, b.knob([0, 1])], mode=b.rng.choice((None, "circular")))


@template(1.5)
def limits_of_numbers(b: Builder) -> None:
    """The limits of a type, where sums wrap."""
    dtype = b.rng.choice(("int8", "uint8", "int16", "uint16", "int32"))
    ends = np.iinfo(dtype)
    numbers = [ends.min, ends.max, 0, 1, ends.max - 1, ends.min + 1]
    value = b.leaf(np.asarray([b.rng.choice(numbers) for _ in range(4)], dtype))
    op_type = b.rng.choice(("Max", "Min", "Cast", "Equal", "Where", "Relu"))
    if op_type == "Cast":
        b.emit("Cast", [value], to=helper.np_dtype_to_tensor_dtype(np.dtype(b.rng.choice(CAST_TARGETS))))
    elif op_type == "Where":
        b.emit("Where", [b.some(("bool",), dims=(4,)), value, b.like(value)])
    elif op_type == "Relu":
        b.emit("Relu", [value])
    else:
        b.emit(op_type, [value, b.like(value)])


# Subgraphs.


def result_of(b: Builder, outer: int, dtype: str | None, dims: Sequence[int] | None = None) -> Value:
    """Return the output of a subgraph: a value that it computes itself, with the given type and dims, if any."""
    own = [value for value in b.values[outer:] if any(value.name in node.output for node in b.nodes)]
    for value in reversed(own):
        fits = not isinstance(value.array, list) and (dtype is None or value.array.dtype.name == dtype)
        if fits and (dims is None or value.array.shape == tuple(dims)):
            return value
    there = [
        value
        for value in b.values
        if not isinstance(value.array, list)
        and (dtype is None or value.array.dtype.name == dtype)
        and (dims is None or value.array.shape == tuple(dims))
    ]
    if not there:
        (made,) = b.emit("Identity", [b.some((dtype or "float32",), dims=dims)])
        return made
    (made,) = b.emit("Identity", [b.rng.choice(there)])
    return made


@template(2, since=9)
def branch(b: Builder) -> None:
    if b.depth > 1:
        raise Discarded
    condition = b.some(("bool",), rank=0)
    made: list[tuple[onnx.GraphProto, Value]] = []
    for name in ("then_branch", "else_branch"):
        inner = b.child()
        inner.grow(b.rng.randint(1, 3))
        result = result_of(inner, len(b.values), made[0][1].array.dtype.name if made else None)
        made.append((inner.subgraph(name, [], [result]), result))
    b.emit("If", [condition], then_branch=made[0][0], else_branch=made[1][0])


@template(2, since=11)
def loop(b: Builder) -> None:
    if b.depth > 1:
        raise Discarded
    trips = b.rng.choice((0, 1, 2, 2, 3))
    if trips == 0 and b.rng.random() < 0.6:
        trips = 2
    carried = [b.some(("float32", "int64", "float32")) for _ in range(b.rng.randint(1, 2))]
    inner = b.child()
    step = Value(inner.new_name(), np.asarray(0, np.int64))
    inner.values.append(step)
    goes_on = Value(inner.new_name(), np.asarray(True))
    inner.values.append(goes_on)
    states = []
    for value in carried:
        states.append(Value(inner.new_name(), value.array))
        inner.values.append(states[-1])
    known = len(inner.values)
    inner.grow(b.rng.randint(1, 3))
    results = [result_of(inner, known, value.array.dtype.name, value.array.shape) for value in carried]
    collected = [result_of(inner, known, None)] if b.rng.random() < 0.5 else []
    results = results if len({value.name for value in results}) == len(results) else [
        inner.emit("Identity", [value])[0] for value in results]  # fmt: skip
    if collected and collected[0].name in {value.name for value in results}:
        collected = [inner.emit("Identity", [collected[0]])[0]]
    (condition,) = inner.emit("Identity", [goes_on])
    body = inner.subgraph("body", [step, goes_on, *states], [condition, *results, *collected])
    count = b.knob(trips) if b.rng.random() < 0.8 else b.constant(trips)
    start = b.rng.choice(("", b.constant(True, "bool")))
    b.emit("Loop", [count, start, *carried], len(results) + len(collected), body=body)


@template(1, since=11)
def scan(b: Builder) -> None:
    if b.depth > 1:
        raise Discarded
    data = b.some(rank=(2, 3), fits=lambda array: 0 not in array.shape)
    state = b.some()
    inner = b.child()
    inputs = []
    for array in (state.array, data.array[0]):
        inputs.append(Value(inner.new_name(), array))
        inner.values.append(inputs[-1])
    known = len(inner.values)
    inner.grow(b.rng.randint(1, 3))
    result = result_of(inner, known, "float32", state.array.shape)
    collected = inner.emit("Identity", [result_of(inner, known, None)])[0]
    body = inner.subgraph("body", inputs, [result, collected])
    b.emit("Scan", [state, data], 2, body=body, num_scan_inputs=1,
           scan_input_directions=b.rng.choice((None, [1])),
           scan_output_directions=b.rng.choice((None, [1])))  # fmt: skip


# Whole graphs.


def renamed(node: onnx.NodeProto, names: Mapping[str, str]) -> onnx.NodeProto:
    """Return a node with other names, also in its subgraphs."""
    made = onnx.NodeProto()
    made.CopyFrom(node)
    for held in (made.input, made.output):
        held[:] = [names.get(name, name) for name in held]
    for attribute in made.attribute:
        if attribute.HasField("g"):
            graph = attribute.g
            own = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
            own |= {name for inner in graph.node for name in inner.output}
            outer = {old: new for old, new in names.items() if old not in own}
            nodes = [renamed(inner, outer) for inner in graph.node]
            del graph.node[:]
            graph.node.extend(nodes)
            for value in graph.output:
                value.name = outer.get(value.name, value.name)
    return made


def as_function(b: Builder, wanted: set[str], name: str, calls: bool = False) -> onnx.FunctionProto | None:
    """Replace some nodes of a graph by a call of a function; return `None` if this is impossible.

    With `calls`, it is a function that calls another one: the call is one of its nodes.
    """
    starts = [place for place, node in enumerate(b.nodes) if not calls or node.domain == "local"]
    if not starts:
        return None
    start = max(0, b.rng.choice(starts) - (b.rng.randint(0, 1) if calls else 0))
    part = b.nodes[start : start + b.rng.randint(2 if calls else 1, 3)]
    rest = b.nodes[start + len(part) :]
    used = set(free_names(rest)) | wanted
    inputs = free_names(part)
    outputs = [name for node in part for name in node.output if name in used]
    if any(b"SimplifiedLayerNormalization" in node.SerializeToString() for node in part):
        return None  # onnxruntime crashes for these in functions
    if not outputs or not inputs or any(isinstance(b.seen()[name], list) for name in (*inputs, *outputs)):
        return None
    made = [name for node in part for name in node.output]
    names = {name: f"p{place}" for place, name in enumerate(dict.fromkeys((*inputs, *made)))}
    imports = [
        helper.make_opsetid("", b.version),
        helper.make_opsetid("com.microsoft", 1),
        helper.make_opsetid("local", 1),
    ]
    nodes = [renamed(node, names) for node in part]
    function = helper.make_function("local", name, [names[name] for name in inputs],
                                    [names[name] for name in outputs], nodes, imports)  # fmt: skip
    b.nodes[start : start + len(part)] = [helper.make_node(name, inputs, outputs, domain="local")]
    return function


def generate(seed: int, templates: Templates = FIRST) -> Graph | None:
    """Return the graph of a seed, or `None` if onnxruntime does not run it."""
    evaluation.need_judge()  # an older one dies when it divides an integer by zero
    rng = random.Random(seed)
    b = Builder(rng, rng.choice(VERSIONS), templates=templates)
    b.is_wide, b.is_wild, b.has_empty = (rng.random() < share for share in templates.shares[:3])
    b.leaf(b.data("float32", b.dims(rng.choice((1, 2, 3, 4)))), constant=False)
    b.grow(rng.choice((2, 3, 4, 5, 6, 8, 12, 20)))
    used = set(free_names(b.nodes))
    made = [value for value in b.values if any(value.name in node.output for node in b.nodes)]
    ends = [value for value in made if value.name not in used or rng.random() < 0.1]
    ends = [value for value in ends if not isinstance(value.array, list)]
    ends = [value for value in ends if not any(
        node.op_type == "Constant" and value.name in node.output for node in b.nodes)] or ends[:1]  # fmt: skip
    if not ends:
        return None
    rng.shuffle(ends)
    wanted = {value.name for value in ends}
    functions = []
    if b.version >= 13 and rng.random() < 0.2:
        function = as_function(b, wanted, "Part")
        functions = [function] if function is not None else []
        if functions and rng.random() < 0.4:
            outer = as_function(b, wanted, "Whole", calls=True)
            functions += [outer] if outer is not None else []
    if rng.random() < 0.1:  # an unused initialiser
        b.leaf(b.data("float32", (2,)), constant=True)
    inputs = []
    for value in b.inputs:
        dims = [f"N{size}" if rng.random() < 0.15 else f"{value.name}_{axis}" if rng.random() < 0.3 else size
                for axis, size in enumerate(value.array.shape)]  # fmt: skip
        inputs.append(info(value.name, value.array, dims, ranked=rng.random() < 0.95))
    shared = [value for value in b.values if b.shared(value)]
    if shared and rng.random() < 0.1:  # a constant that a caller may replace
        value = rng.choice(shared)
        inputs.append(info(value.name, value.array))
    given = [value for value in (*b.inputs, *shared) if not isinstance(value.array, list)]
    ends += [value for value in given if rng.random() < 0.02]  # an input or a constant as an output
    outputs = [info(value.name, value.array, ranked=rng.random() < 0.3) for value in ends]
    graph = helper.make_graph(b.nodes, "graph", inputs, outputs, b.initializers)
    feeds = {value.name: value.array for value in b.inputs}
    model = b.whole(graph, functions)
    try:
        run_in_onnxruntime(model, feeds)
    except Exception:
        return None
    graph = Graph(model, feeds)
    return resized(graph, rng) if rng.random() < templates.shares.resized else graph


# Other sizes than those with which a graph was made.

RECURRENT = (b"GRU", b"LSTM", b"RNN")  # without samples, they crash onnxruntime
SUMS = (
    *("Attention", "Conv", "ConvTranspose", "Einsum", "GRU", "Gemm", "LSTM", "LayerNormalization", "MatMul", "RNN"),
    *("ReduceMean", "ReduceSum", "Softmax"),
)  # the operators whose results depend on the order in which a kernel adds
POOLS = ("AveragePool", "LpPool", "MaxPool", "QLinearAveragePool")


def resized(graph: Graph, rng: random.Random) -> Graph:
    """Return the graph with other sizes for named dims; unchanged if onnxruntime does not run it with them."""
    ends_process = any(name in graph.model.SerializeToString() for name in RECURRENT)
    for _ in range(3):
        sizes: dict[str, int] = {}
        feeds = {}
        for value in graph.model.graph.input:
            if value.name not in graph.feeds:
                continue
            array = graph.feeds[value.name]
            dims = list(array.shape)
            for axis, dim in enumerate(value.type.tensor_type.shape.dim):
                if dim.dim_param:
                    size = dims[axis]
                    dims[axis] = sizes.setdefault(
                        dim.dim_param, rng.choice((size, size, int(ends_process), 1, size + 1, size + 3))
                    )
            feeds[value.name] = np.resize(array, dims) if tuple(dims) != array.shape else array
        other = Graph(onnx.ModelProto(), feeds)
        other.model.CopyFrom(graph.model)
        for value in other.model.graph.output:  # these are other sizes, too
            value.type.tensor_type.ClearField("shape")
        try:
            run_in_onnxruntime(other.model, feeds)
        except Exception:
            continue
        if is_strict(other):
            return other
    return graph


QUANTISED = ("DequantizeLinear", "QLinearConv", "QLinearMatMul", "QuantizeLinear")


def pairs_of(node: onnx.NodeProto) -> list[tuple[str, str]]:
    """Return the names of the scales and zero points of a quantised operator."""
    places = (1, 4, 6) if node.op_type.startswith("QLinear") else (1,)
    return [(node.input[place], node.input[place + 1]) for place in places if place + 1 < len(node.input)]


def is_strict(graph: Graph) -> bool:
    """Whether ONNX allows the sizes of a graph: onnxruntime also accepts some others, as far as we know."""
    values = everything(graph)
    shapes = {name: np.shape(value) for name, value in values.items() if not isinstance(value, list)}
    shapes |= {tensor.name: tuple(tensor.dims) for tensor in graph.model.graph.initializer}
    for node in graph.model.graph.node:
        attributes = {entry.name: helper.get_attribute_value(entry) for entry in node.attribute}
        given = [shapes[name] for name in node.input if name in shapes]
        if node.op_type == "Concat":  # tensors without elements may have any dims
            others = {tuple(np.delete(dims, attributes["axis"])) for dims in given}
            if len(others) > 1:
                return False
        elif node.op_type == "Pad" and given and 0 in given[0]:  # there is nothing to repeat or to reflect
            if attributes.get("mode", b"constant") != b"constant":
                return False
        elif node.op_type == "Compress" and len(given) > 1:  # more conditions than elements
            if given[1][0] > (given[0][attributes["axis"]] if "axis" in attributes else np.prod(given[0])):
                return False
        elif node.op_type in POOLS and given and "kernel_shape" in attributes:  # windows larger than their data
            kernel = attributes["kernel_shape"]
            pads, gaps = (
                attributes.get(name, [one] * 2 * len(kernel)) for name, one in (("pads", 0), ("dilations", 1))
            )
            sizes = given[0][1:-1] if attributes.get("channels_last") else given[0][2:]
            if any(size + pads[axis] + pads[axis + len(kernel)] <= (kernel[axis] - 1) * gaps[axis]
                   for axis, size in enumerate(sizes)):  # fmt: skip
                return False
        elif node.op_type == "LinearRegressor" and given:  # a weight for each column
            if given[0][-1] * attributes["targets"] != len(attributes["coefficients"]):
                return False
        elif node.op_type == "RotaryEmbedding" and given:  # an angle for each pair of numbers
            if given[0][-1] % 2:
                return False
        elif node.op_type in ("GatherND", "ScatterND") and len(given) > 1:  # an index has a number at least
            if given[1] and given[1][-1] == 0:
                return False
        elif node.op_type in QUANTISED:  # a zero point for each scale
            if any(shapes.get(scale, ()) != shapes.get(zero, ()) for scale, zero in pairs_of(node) if zero in shapes):
                return False
        elif node.op_type == "NonMaxSuppression":  # its numbers are scalars or vectors of one
            if any(np.prod(shapes.get(name, ())) != 1 for name in node.input[2:] if name):
                return False
        elif node.op_type.startswith("Reduce") and given and 0 in given[0]:  # negative axes are not reduced
            return False
    return True


# Outcomes of a graph.


class Outcome(NamedTuple):
    """The outcome of a graph: one word, and the details."""

    kind: str
    detail: str = ""

    @property
    def is_fault(self) -> bool:
        """Whether the outcome is a fault."""
        return self.kind not in ("right", "refused", "told")


def held(value: Any) -> Any:
    """Return a value in RTen's types."""
    if isinstance(value, list):
        return [held(part) for part in value]
    array = np.asarray(value)
    if array.dtype.name in WIDES:
        array = np.clip(array, None if array.dtype.kind == "u" else -LIMIT, LIMIT - 1)
    return np.asarray(array.astype(HELD_AS.get(array.dtype.name, array.dtype.name)))


WIDEST = 1 << 24  # the largest number of a 64-bit or unsigned input, as docs/rten.md states


def stated(value: Any, rng: np.random.Generator) -> Any:
    """Return another input with the dims and type of one, with numbers of the range that docs/rten.md states."""
    if isinstance(value, list):
        return [stated(part, rng) for part in value]
    array = np.asarray(value)
    if array.dtype.kind == "f":
        size = rng.choice((1.0, 16.0, 1e3, 1e6, 1e12) if array.dtype.itemsize > 2 else (1.0, 16.0, 1e3))
        return np.asarray(rng.normal(0, size, array.shape), array.dtype)
    if array.dtype.kind == "b":
        return np.asarray(rng.random(array.shape) < 0.5)
    limits = np.iinfo(array.dtype)
    greatest = min(int(limits.max), rng.choice((9, 255, 1 << 16, WIDEST if array.dtype.name in WIDES else limits.max)))
    return np.asarray(rng.integers(max(int(limits.min), -greatest), greatest, array.shape, np.int64), array.dtype)


def difference(want: Sequence[Any], found: Sequence[Any]) -> str:
    """Describe how results differ; empty if they are the same except for rounding."""
    return next((text for _, text in differences(want, found)), "")


def differences(want: Sequence[Any], found: Sequence[Any]) -> Iterator[tuple[int, str]]:
    """Describe the outputs that differ, by their places; the place is negative if their number is wrong."""
    if len(want) != len(found):
        yield -1, f"{len(found)} outputs for {len(want)}"
        return
    for place, (expected, got) in enumerate(zip(want, found, strict=True)):
        if text := _difference(expected, got):
            yield place, f"output {place} {text}"


def _difference(expected: Any, got: Any) -> str:
    first, second = held(expected), held(got)
    if first.shape != second.shape:
        return f"has dims {second.shape} for {first.shape}"
    if first.dtype != second.dtype:
        return f"is {second.dtype} for {first.dtype}"
    known = first[np.isfinite(first)].astype(float)
    scale = max(1.0, float(np.abs(known).max(initial=0))) if first.dtype.kind == "f" else 0
    tolerance = 2e-3 if np.asarray(expected).dtype == np.float16 else 2e-4
    if np.allclose(second.astype(float), first.astype(float), rtol=0, atol=tolerance * scale, equal_nan=True):
        return ""
    return f"is {np.asarray(second).ravel()[:6]} for {np.asarray(first).ravel()[:6]}"


class Surroundings(NamedTuple):
    """What an output is computed from: the operators, and whether there are special values."""

    op_types: frozenset[str]
    is_finite: bool
    has_empty: bool
    names: frozenset[str] = frozenset()  # of its nodes, which are those of their outputs, and of constants
    types: frozenset[str] = frozenset()  # of elements


def surroundings(graph: Graph, output: str, values: Mapping[str, Any]) -> Surroundings:
    """Return what one output is computed from; `values` are those of the graph."""
    model = graph.model
    bodies = {function.name: list(function.node) for function in model.functions}
    needed, op_types, made, seen = {output}, set(), set(), []

    def enter(nodes: Iterable[onnx.NodeProto]) -> None:
        for node in nodes:
            op_types.add(node.op_type)
            enter(bodies.get(node.op_type, ()) if node.domain == "local" else ())
            for attribute in node.attribute:
                if attribute.HasField("g"):
                    enter(attribute.g.node)
                    seen.extend(map(numpy_helper.to_array, attribute.g.initializer))

    for node in reversed(model.graph.node):
        if needed.intersection(node.output):
            needed.update(free_names([node]))
            made.update(node.output)
            enter([node])
    for name, value in values.items():
        if name in needed:
            seen += value if isinstance(value, list) else [value]
    seen += [numpy_helper.to_array(tensor) for tensor in model.graph.initializer if tensor.name in needed]
    floats = [array for array in map(np.asarray, seen) if array.dtype.kind == "f"]
    is_finite = all(bool(np.all(np.isfinite(array)) and np.all(np.abs(array) < 1e10)) for array in floats)
    types = frozenset(np.asarray(array).dtype.name.upper() for array in seen)
    has_empty = any(np.asarray(array).size == 0 for array in seen)
    names = frozenset() if model.functions else frozenset(needed | made)  # the nodes of functions get other names
    return Surroundings(frozenset(op_types), is_finite, has_empty, names, types)


def everything(graph: Graph) -> dict[str, Any]:
    """Return all values of a graph outside of its subgraphs and functions, as far as onnxruntime returns them."""
    probe = onnx.ModelProto()
    probe.CopyFrom(graph.model)
    names = list(dict.fromkeys(name for node in graph.model.graph.node for name in node.output if name))
    del probe.graph.output[:]
    probe.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    try:
        return {**graph.feeds, **dict(zip(names, run_in_onnxruntime(probe, graph.feeds), strict=True))}
    except Exception:
        return dict(graph.feeds)


# Where onnxruntime stops if there are no samples, no places or no pixels, as its own operators do not.
NEEDS_ELEMENTS = ("cpu/llm/attention", "cpu/nn/pool_attributes")
OF_ALL = frozenset(("clamped", "precision", "rounded"))  # losses about constants and types, wherever these are
NAMES = re.compile(r"\(([^()]*)\)$")  # at the end of a loss
FLOAT_TYPES = {"FLOAT16": "FLOAT16", "DOUBLE": "FLOAT64"}  # their names in losses and in numpy
SPECIAL = ("NaN", "infinit", "-inf")  # words in deviations about numbers that are not finite, or huge


def explains(loss: Any, around: Surroundings, *, back: bool = False) -> bool:
    """Whether a loss can explain that an output differs: it is about an operator and values that it depends on."""
    if loss.kind in EXPLAIN_NOTHING or not (loss.matters or loss.kind == "deviation"):
        return False
    if loss.kind not in ("deviation", "range"):
        types = [ours for theirs, ours in FLOAT_TYPES.items() if theirs in loss.detail]
        return loss.kind in OF_ALL and (back or not types or not around.types.isdisjoint(types) or not around.types)
    if not back and not is_about(loss, around):
        return False
    op_type, _, sentence = loss.detail.partition(": ")
    if op_type not in around.op_types and not back:  # the way back has other operators
        return False

    def may_be(part: str) -> bool:
        if "no elements" in part:
            return around.has_empty
        return not around.is_finite or not any(word in part for word in SPECIAL)

    return any(map(may_be, sentence.split("; ")))


def is_of_nothing(error: Exception, graph: Graph) -> bool:
    """Whether onnxruntime stops because tensors have no elements, in an operator that another one became."""
    if not any(place in str(error) for place in NEEDS_ELEMENTS):
        return False
    return any(not isinstance(value, list) and np.size(value) == 0 for value in everything(graph).values())


def stops_at_nothing(graph: Graph, report: Any) -> bool:
    """Whether a report says that RTen fails for tensors without elements, of a node that an empty output is made by."""
    values = everything(graph)
    for value in graph.model.graph.output:
        around = surroundings(graph, value.name, values)
        told = [loss for loss in report.losses if "RTen fails" in loss.detail or "RTen stops" in loss.detail]
        if around.has_empty and any("no elements" in loss.detail and is_about(loss, around) for loss in told):
            return True
    return False


def is_about(loss: Any, around: Surroundings) -> bool:
    """Whether a loss names a node that an output depends on; a loss of more than three nodes has names of some only."""
    found = NAMES.search(loss.detail)
    names = found[1] if found else " more"
    if " more" in names or not around.names or ".g." in loss.where:
        return True
    return any(name in around.names or name.partition("/")[0] in around.names for name in names.split(", "))


TRIES = 12  # changes of last bits


def is_of_last_bits(graph: Graph, values: Mapping[str, Any], place: int, found: Any) -> bool:
    """Whether onnxruntime computes the same if what its nodes compute differs in the last bits of float32.

    Constants and inputs stay: what is exactly halfway between two steps before any sum explains nothing.
    """
    rng, wanted = np.random.default_rng(0), held(values.get(graph.model.graph.output[place].name))
    got = held(found)
    if wanted.shape != got.shape:
        return False
    left = ~np.isclose(got.astype(float), wanted.astype(float), rtol=1e-3, atol=1e-3, equal_nan=True)
    for _ in range(TRIES):
        model = onnx.ModelProto()
        model.CopyFrom(graph.model)
        del model.graph.node[:]
        for node in graph.model.graph.node:
            model.graph.node.add().CopyFrom(node)
            for at, name in enumerate(node.output):
                value = values.get(name)
                if node.op_type in SUMS and isinstance(value, np.ndarray) and value.dtype == np.float32:
                    model.graph.node[-1].output[at] = f"{name}/sum"
                    factor = np.asarray(1 + rng.choice((-1, 1), value.shape) * 2.0**-22, np.float32)
                    model.graph.initializer.append(numpy_helper.from_array(factor, f"{name}/bits"))
                    model.graph.node.add().CopyFrom(helper.make_node("Mul", [f"{name}/sum", f"{name}/bits"], [name]))
        try:
            other = held(run_in_onnxruntime(model, graph.feeds)[place])
        except Exception:
            return False
        if other.shape == got.shape:
            left &= ~np.isclose(got.astype(float), other.astype(float), rtol=1e-3, atol=1e-3, equal_nan=True)
        if not left.any():
            return True
    return False


class Bench:
    """Runs graphs in all runtimes."""

    def __init__(self, runners: Mapping[str, Runner], folder: Path, **options: Any) -> None:
        self.runners = runners
        self.folder = folder
        self.options = options

    def outcome(self, graph: Graph) -> Outcome:
        """Return the outcome of a graph."""
        try:
            want = run_in_onnxruntime(graph.model, graph.feeds)
        except Exception as error:
            return Outcome("right", f"not valid: {error}")
        source, target = self.folder / "m.onnx", self.folder / "m.rten"
        source.write_bytes(graph.model.SerializeToString())
        try:
            report = formats.convert(source, target, overwrite=True, **self.options)
        except formats.FormatError as error:
            kind = "endless" if "its rewriting does not end" in str(error) else "refused"
            return Outcome(kind, str(error))
        except Exception as error:
            return Outcome("error", repr(error))
        feeds = {name: held(value) for name, value in graph.feeds.items()}
        results = {}
        for release, runner in self.runners.items():
            try:
                results[release] = runner.run(target, feeds)
            except RunnerError as error:
                if error.stage != "load" and stops_at_nothing(graph, report):
                    return Outcome("told", error.message)
                return Outcome("load" if error.stage == "load" else "run", f"{release}: {error.message}")
        values = everything(graph) if any(difference(want, found) for found in results.values()) else {}
        told = ""
        for release, found in results.items():
            wrong, explained = self.unexplained(graph, values, want, found, report)
            if wrong:
                return Outcome("wrong", f"{release}: {wrong}")
            told = told or explained
        back = self.way_back(target, graph, results) or self.for_loader(source, graph, want, values)
        if back is not None:
            return back
        return Outcome("told", told) if told else Outcome("right")

    def unexplained(
        self,
        graph: Graph,
        values: Mapping[str, Any],
        want: Sequence[Any],
        results: Sequence[Any],
        report: Any,
        *,
        back: bool = False,
    ) -> tuple[str, str]:
        """Return the first difference that no report explains, and the first that a report explains."""
        wrong = told = ""
        for place, text in differences(want, results):
            around = surroundings(graph, graph.model.graph.output[place].name, values)
            if place >= 0 and any(explains(loss, around, back=back) for loss in report.losses):
                told = told or text
            elif place >= 0 and not back and is_of_last_bits(graph, values, place, results[place]):
                continue
            else:
                wrong = wrong or text
        return wrong, told

    def way_back(self, target: Path, graph: Graph, results: Mapping[str, list[Any]]) -> Outcome | None:
        """Return what is wrong with the .onnx file that the .rten file becomes, or `None`."""
        back = self.folder / "back.onnx"
        try:
            formats.convert(target, back, overwrite=True, runtime="rten")
            wrong = self.in_onnx_loader(back, graph, results)
            report = formats.convert(target, back, overwrite=True)
        except Exception as error:
            return Outcome("back", repr(error))
        if wrong:
            return Outcome("loader", wrong)
        model = onnx.load(back)
        kinds = {
            value.name: helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type) for value in model.graph.input
        }
        feeds = {name: held(graph.feeds[name]).astype(kind) for name, kind in kinds.items()}
        try:
            found = run_in_onnxruntime(model, feeds)
        except Exception as error:
            return None if is_of_nothing(error, graph) else Outcome("back", str(error))
        values = everything(graph) if any(difference(wanted, found) for wanted in results.values()) else {}
        for release, wanted in results.items():
            wrong, _ = self.unexplained(graph, values, wanted, found, report, back=True)
            if wrong:
                return Outcome("back", f"{release}: {wrong}")
        return None

    def for_loader(self, source: Path, graph: Graph, want: list[Any], values: Mapping[str, Any]) -> Outcome | None:
        """Return what is wrong with the .onnx file that the graph becomes for RTen's ONNX loader, or `None`."""
        if NEWEST_RELEASE not in self.runners:
            return None
        path = self.folder / "for_rten.onnx"
        try:
            report = formats.convert(source, path, overwrite=True, runtime="rten", **self.options)
            model = onnx.load(path)
            kinds = {value.name: value.type.tensor_type.elem_type for value in model.graph.input}
            feeds = {name: held(graph.feeds[name]).astype(helper.tensor_dtype_to_np_dtype(kind))
                     for name, kind in kinds.items() if name in graph.feeds}  # fmt: skip
            elsewhere = run_in_onnxruntime(model, feeds)
        except formats.FormatError as error:
            return Outcome("runtime", f"refused, but not as .rten: {error}")
        except Exception as error:
            return None if is_of_nothing(error, graph) else Outcome("runtime", repr(error))
        try:
            feeds = {name: held(value) for name, value in graph.feeds.items()}
            found = self.runners[NEWEST_RELEASE].run(path, feeds)
        except RunnerError as error:
            return Outcome("runtime", f"{error.stage}: {error.message}")
        for results in (found, elsewhere):
            if difference(want, results):
                values = values or everything(graph)
                wrong, _ = self.unexplained(graph, values, want, results, report)
                if wrong:
                    return Outcome("runtime", f"{'RTen' if results is found else 'onnxruntime'}: {wrong}")
        return None

    def in_onnx_loader(self, back: Path, graph: Graph, results: Mapping[str, list[Any]]) -> str:
        """Return how the .onnx file differs from the .rten file in the same runtime, whatever is reported."""
        if NEWEST_RELEASE not in results:
            return ""
        feeds = {name: held(value) for name, value in graph.feeds.items()}
        try:
            found = self.runners[NEWEST_RELEASE].run(back, feeds)
        except RunnerError as error:
            return f"{error.stage}: {error.message}"
        return difference(results[NEWEST_RELEASE], found)


# Reduction of a graph with a fault.


def smaller(graph: Graph) -> Iterator[Graph]:
    """Yield graphs with a little less: no functions, fewer outputs, fewer nodes."""
    model, feeds = graph
    if model.functions:
        yield Graph(inliner.inline_local_functions(model), feeds)
    nodes, outputs = list(model.graph.node), list(model.graph.output)
    for output in outputs:
        if len(outputs) > 1:
            yield pruned(graph, nodes, [other for other in outputs if other is not output])
    everything = {name: None for node in nodes for name in node.output}
    probe = onnx.ModelProto()
    probe.CopyFrom(model)
    del probe.graph.output[:]
    probe.graph.output.extend(onnx.ValueInfoProto(name=name) for name in everything if name)
    try:
        values = dict(zip(filter(None, everything), run_in_onnxruntime(probe, feeds), strict=True))
    except Exception:
        values = {}
    for node in nodes[::-1]:  # earlier outputs
        made = [name for name in node.input if isinstance(values.get(name), np.ndarray)]
        if any(output.name in node.output for output in outputs) and made:
            kept = [output for output in outputs if output.name not in node.output]
            added = [info(name, values[name], ranked=False) for name in made]
            known = {output.name for output in kept}
            yield pruned(graph, nodes, [*kept, *(value for value in added if value.name not in known)])
    for node in nodes:  # a node's outputs as inputs
        made = [name for name in node.output if name]
        if all(isinstance(values.get(name), np.ndarray) for name in made) and node.op_type != "Constant":
            rest = [other for other in nodes if other is not node]
            yield pruned(graph, rest, outputs, {name: values[name] for name in made})
    for place, node in enumerate(nodes):  # a branch instead of its If
        for attribute in node.attribute:
            if attribute.HasField("g") and not attribute.g.input:
                names = {value.name: new for value, new in zip(attribute.g.output, node.output, strict=True)}
                inner = [renamed(held_by, names) for held_by in attribute.g.node]
                whole = pruned(graph, [*nodes[:place], *inner, *nodes[place + 1 :]], outputs)
                whole.model.graph.initializer.extend(attribute.g.initializer)
                yield whole
    for node in nodes:  # fewer nodes in a subgraph
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from smaller_bodies(graph, nodes, node, attribute.name)


def smaller_bodies(graph: Graph, nodes: list[onnx.NodeProto], node: onnx.NodeProto, name: str) -> Iterator[Graph]:
    """Yield the graph with one node less in a subgraph, replaced by its first input."""
    inner = next(attribute.g for attribute in node.attribute if attribute.name == name)
    for index, dead in enumerate(inner.node):
        made = onnx.NodeProto()
        made.CopyFrom(node)
        body = next(attribute.g for attribute in made.attribute if attribute.name == name)
        replacement = [helper.make_node("Identity", dead.input[:1], dead.output[:1])] if dead.input else []
        if dead.op_type == "Identity":
            replacement = []
        rest = [*body.node[:index], *replacement, *body.node[index + 1 :]]
        del body.node[:]
        body.node.extend(rest)
        yield pruned(graph, [made if other is node else other for other in nodes], list(graph.model.graph.output))


def pruned(
    graph: Graph, nodes: list[onnx.NodeProto], outputs: list[Any], given: Mapping[str, Any] | None = None
) -> Graph:
    """Return the part of a graph that some outputs need; given values are inputs."""
    needed = {output.name for output in outputs}
    kept: list[onnx.NodeProto] = []
    for node in reversed(nodes):
        if needed.intersection(node.output):
            kept.insert(0, node)
            needed.update(free_names([node]))
    model = onnx.ModelProto()
    model.CopyFrom(graph.model)
    made = {name for node in kept for name in node.output}
    feeds = {**graph.feeds, **(given or {})}
    inputs = [value for value in model.graph.input if value.name in needed]
    inputs += [info(name, value) for name, value in (given or {}).items() if name in needed and name not in made]
    tensors = [tensor for tensor in model.graph.initializer if tensor.name in needed]
    for held_in, values in ((model.graph.node, kept), (model.graph.output, outputs), (model.graph.input, inputs),
                            (model.graph.initializer, tensors)):  # fmt: skip
        copies = [type(value).FromString(value.SerializeToString()) for value in values]
        del held_in[:]
        held_in.extend(copies)
    return Graph(model, {value.name: feeds[value.name] for value in inputs if value.name in feeds})


def shrink(bench: Bench, graph: Graph, kind: str, seconds: float = 60) -> Graph:
    """Return a graph with the same fault that cannot be reduced further."""
    end = time.monotonic() + seconds
    goes_on = True
    while goes_on and time.monotonic() < end:
        goes_on = False
        for candidate in smaller(graph):
            if bench.outcome(candidate).kind == kind:
                graph, goes_on = candidate, True
                break
            if time.monotonic() > end:
                break
    return graph


def shown(graph: Graph) -> str:
    """Return a graph and its inputs as text."""
    small = {name: np.array2string(np.asarray(value), threshold=24) for name, value in graph.feeds.items()}
    kinds = {name: f"{np.asarray(value).dtype}{list(np.shape(value))}" for name, value in graph.feeds.items()}
    fed = "".join(f"\n    {name}: {kinds[name]} = {text}" for name, text in small.items())
    text = onnx.printer.to_text(graph.model)
    return f"{text[:6000]}{fed}"


def apart(seeds: range, work: Callable[[int], Any], seconds: float = SECONDS) -> Iterator[tuple[int, Any]]:
    """Yield what a function returns for each seed, from another process, in forms of JSON.

    onnxruntime ends its process if it divides an integer by zero, and never ends if the bias of a Conv is too short:
    then, or after so many seconds without an answer, the next process goes on with the next seed.
    """
    while seeds:
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            faulthandler.disable()  # a process that dies is no news
            with os.fdopen(writing, "w", buffering=1) as answers:
                for seed in seeds:
                    print(json.dumps((seed, work(seed))), file=answers)
            os._exit(0)
        os.close(writing)
        try:
            with os.fdopen(reading, "rb", buffering=0) as answers:  # a buffer would hide lines from `select`
                while select([answers], [], [], seconds)[0] and (line := answers.readline()):
                    seed, found = json.loads(line)
                    seeds = range(seed + 1, seeds.stop)
                    yield seed, found
        finally:
            os.kill(child, SIGKILL)
            os.waitpid(child, 0)
        seeds = seeds[1:]


def main(templates: Templates = FIRST) -> int:
    """Make graphs, and print their outcomes."""
    parser = argparse.ArgumentParser(description=sys.modules["__main__"].__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0, help="of the first graph")
    parser.add_argument("--count", type=int, default=1000, help="how many graphs")
    parser.add_argument("--exact", action="store_true", help="convert with exact forms of what deviates")
    parser.add_argument("--no-shrink", action="store_true", help="show graphs that fail as they are")
    parser.add_argument("--quiet", action="store_true", help="one line a graph that fails")
    given = parser.parse_args()
    runners = {release: runner for release in RELEASES if (runner := Runner.find(release)) is not None}
    options = {"exact": True} if given.exact else {}
    counts, operators, refused = Counter[str](), Counter[str](), Counter[str]()
    with tempfile.TemporaryDirectory(prefix="graphs-") as folder:
        bench = Bench(runners, Path(folder), **options)

        def judged(seed: int) -> tuple[str, str, list[str], str]:
            graph = generate(seed, templates)
            if graph is None:
                return "not made", "", [], ""
            outcome, text = bench.outcome(graph), ""
            if outcome.is_fault:
                small = graph if given.no_shrink else shrink(bench, graph, outcome.kind)
                final = bench.outcome(small)
                ops = ",".join(node.op_type for node in small.model.graph.node)
                text = f"seed {seed}: {final.kind} [{ops}] {final.detail[:200]}"
                text += "" if given.quiet else f"\n{shown(small)}"
            return outcome.kind, outcome.detail, sorted({node.op_type for node in graph.model.graph.node}), text

        for _, (kind, detail, ops, text) in apart(range(given.seed, given.seed + given.count), judged):
            counts[kind] += 1
            operators.update(ops)
            if kind == "refused":
                refused[detail.rpartition("cannot be converted for RTen: ")[2].partition(" [")[0]] += 1
            if text:
                print(text, flush=True)
    counts["no answer"] += given.count - counts.total()
    print(", ".join(f"{kind} {count}" for kind, count in counts.most_common() if count))
    print(f"{len(operators)} operators: " + ", ".join(f"{name} {count}" for name, count in operators.most_common()))
    for reason, count in refused.most_common(20):
        print(f"refused {count}: {reason}")
    return 0 if not any(Outcome(kind).is_fault for kind in counts if kind not in ("not made", "no answer")) else 1


if __name__ == "__main__":
    sys.exit(main())
