"""What makes a graph: templates, and a builder that runs each node in onnxruntime as soon as it is made.

So a graph is always valid, and all its values are known when the next node is chosen.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import helper, numpy_helper

from tests.rten.random_graphs.graph import Discarded, Value, as_fed, free_names, info, run_in_onnxruntime

LIMIT = 1 << 31  # the range of integers in a graph, if it has no wide integers
MAX_ELEMENTS = 4096
FLOATS = ("float32",)
INDICES = ("int64", "int32")
BYTES = ("int8", "uint8")
SHORTS = ("int16", "uint16")
WIDES = ("uint32", "uint64", "int64")
BLOCK_SIZES = (7, 8, 9, 31, 32, 33, 63, 64, 65)  # below, at and above the blocks that kernels work in


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
