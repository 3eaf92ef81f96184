"""Random products and convolutions at the sizes of RTen's kernels, which work in blocks of rows and columns.

Each function draws one case: dims below, at and above the blocks, different scales and zero points for the channels,
all element types, both layouts of operands. Where onnxruntime has no kernel, ONNX's reference implementation is the
judge.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import helper, numpy_helper

SIZES = (1, 7, 8, 9, 31, 32, 33, 63, 64, 65, 300)
MAX_ELEMENTS = 1 << 18
MICROSOFT = "com.microsoft"
TYPES = {"u1": "uint8", "i1": "int8"}


class SizedCase(NamedTuple):
    """A model, and its inputs."""

    proto: onnx.ModelProto
    inputs: Mapping[str, np.ndarray[Any, Any]]
    steps: int = 0  # the allowed difference of quantised results
    expected: Sequence[Any] | None = None  # if onnxruntime does not support the form


class Draw:
    """Draws one case, and collects its nodes, inputs and constants."""

    def __init__(self, seed: str) -> None:
        self.rng = random.Random(seed)
        self.numpy = np.random.default_rng(self.rng.randrange(1 << 30))
        self.nodes: list[onnx.NodeProto] = []
        self.inputs: dict[str, np.ndarray[Any, Any]] = {}
        self.constants: dict[str, np.ndarray[Any, Any]] = {}
        self.is_symbolic = self.rng.random() < 0.3

    def size(self, most: int = 300) -> int:
        """Return the size of an axis."""
        return self.rng.choice([size for size in SIZES if size <= most])

    def dims(self, rank: int, most: int = 300) -> tuple[int, ...]:
        """Return dims whose product is moderate."""
        while True:
            dims = tuple(self.size(most) for _ in range(rank))
            if math.prod(dims) <= MAX_ELEMENTS:
                return dims

    def batch(self) -> tuple[int, ...]:
        """Return the leading dims: none, one, two, or one and two."""
        return self.rng.choice(((), (1,), (2,), (2, 1), (1, 3)))

    def chance(self, probability: float = 0.5) -> bool:
        """Return true as often as asked."""
        return self.rng.random() < probability

    def floats(self, *dims: int) -> np.ndarray[Any, Any]:
        """Return numbers between -2 and 2."""
        return self.numpy.uniform(-2, 2, dims).astype(np.float32)

    def integers(self, dtype: str, *dims: int, low: int | None = None, high: int | None = None) -> Any:
        """Return numbers of the complete range of a type, by default."""
        limits = np.iinfo(dtype)
        least, most = limits.min if low is None else low, limits.max if high is None else high
        return self.numpy.integers(least, most, dims, endpoint=high is None).astype(dtype)

    def give(self, array: Any, constant: float = 0.4, *, turn: bool = False) -> str:
        """Return the name of a value: a constant or an input. With `turn`, a Transpose may make it."""
        array = np.asarray(array)
        name = f"x{len(self.inputs) + len(self.constants)}"
        turned = turn and array.ndim > 1 and self.chance()
        stored = np.ascontiguousarray(array.swapaxes(-1, -2)) if turned else array
        (self.constants if self.chance(constant) else self.inputs)[name] = stored
        if turned:
            perm = [*range(array.ndim - 2), array.ndim - 1, array.ndim - 2]
            return self.op("Transpose", name, perm=perm)
        return name

    def constant(self, array: Any) -> str:
        """Return the name of a constant."""
        return self.give(array, 1)

    def op(self, op_type: str, *inputs: str, **attributes: Any) -> str:
        """Add a node, and return the name of its output."""
        name = f"v{len(self.nodes)}"
        given = list(inputs)
        while given and not given[-1]:
            given.pop()
        self.nodes.append(helper.make_node(op_type, given, [name], **attributes))
        return name

    def case(self, version: int, steps: int = 0) -> SizedCase:
        """Return the case: the last node's output is that of the model."""
        inputs = [
            helper.make_tensor_value_info(
                name,
                helper.np_dtype_to_tensor_dtype(array.dtype),
                [f"{name}_{axis}" for axis in range(array.ndim)] if self.is_symbolic else array.shape,
            )
            for name, array in self.inputs.items()
        ]
        constants = [numpy_helper.from_array(array, name) for name, array in self.constants.items()]
        graph = helper.make_graph(
            self.nodes, "sizes", inputs, [onnx.ValueInfoProto(name=self.nodes[-1].output[0])], constants
        )
        domains = sorted({node.domain for node in self.nodes if node.domain})
        imports = [helper.make_opsetid("", version), *(helper.make_opsetid(domain, 1) for domain in domains)]
        proto = helper.make_model(graph, opset_imports=imports, ir_version=10)
        return SizedCase(proto, self.inputs, steps)


ZERO_POINTS = ("none", "scalar", "one", "each", "each")
Family = Callable[[Draw], SizedCase]
FAMILIES: dict[str, Family] = {}


def family(function: Family) -> Family:
    """Register a function that draws cases."""
    FAMILIES[function.__name__] = function
    return function


def matrices(d: Draw, make: Callable[..., Any]) -> tuple[str, str, tuple[int, ...], tuple[int, ...]]:
    """Return two matrices that can be multiplied, vectors among them, and their dims."""
    rows, depth, columns = d.dims(3)
    while rows * depth * columns > 1 << 22:
        rows, depth, columns = d.dims(3)
    left, right = (*d.batch(), rows, depth), (depth, columns)
    if d.chance(0.4):
        right = (*(left[:-2] if d.chance() else d.rng.choice(((2,), (3,)))), *right)
        if left[:-2] != right[:-2]:
            left = left[-2:]
    if d.chance(0.1):
        left = left[-1:]
    if d.chance(0.1):
        right = right[-2:-1]
    return d.give(make(0, left), turn=True), d.give(make(1, right), turn=True), left, right


@family
def products(d: Draw) -> SizedCase:
    """MatMul of floats."""
    a, b, _, _ = matrices(d, lambda place, dims: d.floats(*dims))
    d.op("MatMul", a, b)
    return d.case(13)


@family
def general_products(d: Draw) -> SizedCase:
    """Gemm with both layouts, and what it adds."""
    rows, depth, columns = d.dims(3)
    a, b = d.chance(), d.chance()
    first, second = (depth, rows) if a else (rows, depth), (columns, depth) if b else (depth, columns)
    more = d.rng.choice(((), (columns,), (rows, 1), (rows, columns), (1, columns)))
    inputs = [d.give(d.floats(*first)), d.give(d.floats(*second))] + ([d.give(d.floats(*more))] if d.chance() else [])
    d.op("Gemm", *inputs, transA=int(a), transB=int(b), alpha=d.rng.choice((1.0, 0.5)), beta=d.rng.choice((1.0, 2.0)))
    return d.case(13)


def zero_points(d: Draw, dtype: str, lines: int, forms: Sequence[str] = ZERO_POINTS) -> str:
    """Return no zero point, one, or one for each row, column or channel."""
    form = d.rng.choice(forms)
    if form == "none":
        return ""
    dims = {"scalar": (), "one": (1,), "each": (lines,)}[form]
    return d.give(d.integers(dtype, *dims), 0.7)


@family
def integer_products(d: Draw) -> SizedCase:
    """MatMulInteger with all kinds of zero points: one, one for each row or column, one for these of each matrix."""
    types = [d.rng.choice(("uint8", "int8")) for _ in range(2)]
    made: list[Any] = []

    def make(place: int, dims: tuple[int, ...]) -> Any:
        made.append(d.integers(types[place], *dims))
        return made[-1]

    a, b, left, right = matrices(d, make)
    zeros, names = [], []
    for dtype, dims, lines in zip(types, (left, right), (left[-2:][0], right[-1]), strict=True):
        forms = ["none", "scalar", "one"] + ["each", "each", "each of each"] * (len(dims) > 1)
        form = d.rng.choice(forms)
        column = (lines, 1) if dims is left else (1, lines)
        sizes = {"one": (1,), "each": (lines,), "each of each": (*dims[:-2], *column)}.get(form, ())
        zero = d.integers(dtype, *sizes)
        names.append("" if form == "none" and (zeros or not d.chance()) else d.give(zero, 0.7))
        zeros.append(zero.astype(np.int32) * bool(names[-1]))
    if zeros[0].ndim == 1 and zeros[0].size > 1:
        zeros[0] = zeros[0][:, None]
    d.op("MatMulInteger", a, b, *names)
    return d.case(13)._replace(expected=[np.matmul(made[0] - zeros[0], made[1] - zeros[1])])


@family
def quantized_products(d: Draw) -> SizedCase:
    """QLinearMatMul with a scale and a zero point for each column."""
    rows, depth, columns = d.dims(3)
    dtype, lines = d.rng.choice(("uint8", "int8")), (columns,) if d.chance() else ()
    a = d.give(d.integers("uint8", *d.batch(), rows, depth), turn=True)
    b = d.give(d.integers(dtype, depth, columns), turn=True)
    scale = d.constant((d.numpy.random(lines) / 64 + 0.005).astype(np.float32))
    zero = d.constant(d.integers(dtype, *lines))
    result = np.float32(depth / 24 + 0.3)
    d.op("QLinearMatMul", a, d.constant(np.float32(0.02)), d.constant(np.uint8(d.rng.randrange(256))), b, scale, zero,
         d.constant(result), d.constant(np.uint8(120)))  # fmt: skip
    return d.case(13, steps=1)


@family
def fused_integer_products(d: Draw) -> SizedCase:
    """The operators of ONNX Runtime that multiply bytes and scale the result."""
    rows, depth, columns = d.dims(3, 65)
    dtype, lines = d.rng.choice(("uint8", "int8")), (columns,) if d.chance(0.7) else ()
    b = d.constant(d.integers(dtype, depth, columns))
    scale = d.constant((d.numpy.random(lines) / 64 + 0.005).astype(np.float32))
    zero = d.constant(d.integers(dtype, *lines))
    if d.chance():
        d.op("DynamicQuantizeMatMul", d.give(d.floats(rows, depth), 0), b, scale, zero, domain=MICROSOFT)
    else:
        a = d.give(d.integers("uint8", rows, depth), 0)
        d.op("MatMulIntegerToFloat", a, b, d.constant(np.float32(0.02)), scale, d.constant(np.uint8(99)), zero,
             domain=MICROSOFT)  # fmt: skip
    return d.case(18)


def window(d: Draw, rank: int, *, dilated: bool = True) -> dict[str, list[int]]:
    """Return the attributes of a window."""
    kernel = [d.rng.choice((1, 1, 2, 3, 5)) for _ in range(rank)]
    more = {"strides": [d.rng.choice((1, 1, 2, 3)) for _ in range(rank)]}
    more["dilations"] = [d.rng.choice((1, 1, 1, 2)) if dilated else 1 for _ in range(rank)]
    more["pads"] = [d.rng.choice((0, 0, (size - 1) // 2, size - 1)) for size in kernel] * 2
    return {"kernel_shape": kernel, **more}


def image(d: Draw, attributes: Mapping[str, list[int]]) -> tuple[int, ...]:
    """Return the spatial dims of data that the window fits in."""
    extents = [(k - 1) * s + 1 for k, s in zip(attributes["kernel_shape"], attributes["dilations"], strict=True)]
    return tuple(max(extent, d.size(33 if len(extents) < 3 else 9)) for extent in extents)


def channels(d: Draw) -> tuple[int, int, int]:
    """Return the channels of the data, those of the result, and the groups."""
    group = d.rng.choice((1, 1, 1, 2, 4, 8))
    most = 65 if group == 1 else 9
    inner, outer = group * d.size(most), group * d.size(most)
    return (inner, inner, inner) if d.chance(0.2) else (inner, outer, group)


@family
def convolutions(d: Draw) -> SizedCase:
    """Conv of lines, images and volumes, with groups or for each channel."""
    rank = d.rng.choice((1, 2, 2, 2, 3))
    attributes, (inner, outer, group) = window(d, rank), channels(d)
    data = d.give(d.floats(d.rng.choice((1, 1, 2)), inner, *image(d, attributes)), 0)
    weight = d.give(d.floats(outer, inner // group, *attributes["kernel_shape"]))
    bias = [d.give(d.floats(outer))] if d.chance() else []
    d.op("Conv", data, weight, *bias, group=group, **attributes)
    return d.case(13)


@family
def transposed_convolutions(d: Draw) -> SizedCase:
    """ConvTranspose of lines and images."""
    rank = d.rng.choice((1, 2, 2))
    attributes, (inner, outer, group) = window(d, rank), channels(d)
    attributes["pads"] = [0] * (2 * rank)
    data = d.give(d.floats(d.rng.choice((1, 1, 2)), inner, *(d.size(9) for _ in range(rank))), 0)
    weight = d.give(d.floats(inner, outer // group, *attributes["kernel_shape"]))
    bias = [d.give(d.floats(outer))] if d.chance() else []
    d.op("ConvTranspose", data, weight, *bias, group=group, **attributes)
    return d.case(13)


@family
def integer_convolutions(d: Draw) -> SizedCase:
    """ConvInteger with all types and kinds of zero points."""
    rank = d.rng.choice((1, 2, 2))
    attributes, (inner, outer, group) = window(d, rank), channels(d)
    types = [d.rng.choice(("uint8", "int8")) for _ in range(2)]
    data = d.give(d.integers(types[0], d.rng.choice((1, 1, 2, 9)), inner, *image(d, attributes)), 0)
    weight = d.give(d.integers(types[1], outer, inner // group, *attributes["kernel_shape"]), 0.8)
    zeros = [d.constant(d.integers(types[0])) if d.chance(0.7) else ""]
    # ONNX's reference implementation has no zero points for the channels of lines, and onnxruntime for none
    zeros.append(zero_points(d, types[1], outer, ZERO_POINTS[: 3 if rank == 1 else 5]))
    if zeros[1] and not zeros[0]:
        zeros[0] = d.constant(d.integers(types[0]))
    d.op("ConvInteger", data, weight, *zeros, group=group, **attributes)
    return d.case(13)


@family
def quantized_convolutions(d: Draw) -> SizedCase:
    """QLinearConv with a scale and a zero point for each channel."""
    attributes, (inner, outer, group) = window(d, 2), channels(d)
    dtype, lines = d.rng.choice(("uint8", "int8")), (outer,) if d.chance() else ()
    depth = inner // group * math.prod(attributes["kernel_shape"])
    data = d.give(d.integers("uint8", d.rng.choice((1, 2)), inner, *image(d, attributes)), 0)
    weight = d.constant(d.integers(dtype, outer, inner // group, *attributes["kernel_shape"]))
    scale = d.constant((d.numpy.random(lines) / 64 + 0.005).astype(np.float32))
    # onnxruntime needs equal zero points for all channels
    zero = d.constant(np.full(lines, d.integers(dtype), dtype))
    bias = [d.constant(d.integers("int32", outer, low=-1000, high=1000))] if d.chance() else []
    given = [data, d.constant(np.float32(0.02)), d.constant(np.uint8(99)), weight, scale, zero]
    result = [d.constant(np.float32(depth / 24 + 0.3)), d.constant(np.uint8(120)), *bias]
    d.op("QLinearConv", *given, *result, group=group, **attributes)
    return d.case(13, steps=1)
