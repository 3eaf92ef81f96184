"""Scales and zero points of each granularity, mixed: every quantised operator is right on each route, or refused.

A form is an operator with a granularity for each scale and each zero point, the place where they come from, and the
types of the data. CI runs a sample; `FORMATS_FORMS=1000000 pytest tests/rten/operators/test_granularity.py` runs all
forms, and `FORMATS_SEED=...` another sample. The judge is numpy, and onnxruntime where it accepts the form.
"""

from __future__ import annotations

import itertools
import os
import random
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from onnxruntime.capi import onnxruntime_pybind11_state as state

import formats
from formats.rten.convert.refusal import RefusalError
from tests.rten.evaluation import evaluate_in_onnxruntime
from tests.runtime.runner import RunnerError

COUNT = int(os.environ.get("FORMATS_FORMS", "12"))
SEED = os.environ.get("FORMATS_SEED", "1")
MICROSOFT = "com.microsoft"
FAILURES = (RunnerError, state.Fail, state.InvalidArgument, state.InvalidGraph, state.NotImplemented)

# One number as a scalar or as a vector of one; a number for each place of an axis; a matrix of one column or row for
# each matrix; a number for each block; no parameter.
SCALAR, ONE, AXIS, EACH, BLOCKS, NONE = "scalar", "one", "axis", "each", "blocks", "none"
TENSOR, CHANNELS = (SCALAR, ONE), (SCALAR, ONE, AXIS)
SOURCES = ("constant", "run time", "unknown sizes")  # of parameters; constant, or inputs
TYPES = (("uint8", "uint8"), ("uint8", "int8"), ("int8", "int8"))


class Form(NamedTuple):
    """An operator, the granularities of its parameters in order, their source, and the types of its operands."""

    operator: str
    granularities: tuple[str, ...]
    source: str
    types: tuple[str, str]


class Case(NamedTuple):
    """A model, its inputs, and what it computes."""

    proto: onnx.ModelProto
    inputs: dict[str, Any]
    expected: Any


class Draw:
    """Draws the data and the parameters of a form."""

    def __init__(self, form: Form) -> None:
        self.form, self.rng = form, np.random.default_rng(7)
        self.first, self.second = form.types
        self.granularities = iter(form.granularities)
        self.arrays: dict[str, Any] = {}
        self.parameters: set[str] = set()

    def data(self, name: str, dtype: str, *dims: int) -> Any:
        """Return data of a type, with the shape `dims`."""
        least, most = (-1000, 1000) if dtype == "int32" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
        self.arrays[name] = self.rng.integers(least, most, dims).astype(dtype)
        return self.arrays[name].astype(float)

    def floats(self, name: str, *dims: int) -> Any:
        """Return floats, with the shape `dims`."""
        self.arrays[name] = self.rng.uniform(-2, 2, dims).astype(np.float32)
        return self.arrays[name].astype(float)

    def parameter(self, name: str, dtype: str, dims: tuple[int, ...], axis: int, block: int = 0) -> Any:
        """Return a parameter in the next granularity, in dims that fit data of the shape `dims`."""
        granularity, axis = next(self.granularities), axis % len(dims)
        if granularity == NONE:
            return np.float64(0)
        blocks = tuple(-(-size // block) if block and place == axis else size for place, size in enumerate(dims))
        others = tuple(1 if place == (len(dims) * 2 - 3 - axis) else size for place, size in enumerate(dims))
        sizes = {SCALAR: (), ONE: (1,), AXIS: (dims[axis],), EACH: others, BLOCKS: blocks}[granularity]
        least, most = {"float32": (0.01, 0.05), "uint8": (100, 150), "int8": (-20, 20), "int32": (0, 0)}[dtype]
        array = self.arrays[name] = np.asarray(self.rng.uniform(least, most, sizes), dtype)
        self.parameters.add(name)
        if granularity == BLOCKS:
            return np.repeat(array, block, axis).astype(float)[tuple(map(slice, dims))]
        if granularity == AXIS:
            return array.astype(float).reshape([-1 if place == axis else 1 for place in range(len(dims))])
        return array.astype(float) if granularity == EACH else array.astype(float).reshape(())

    def real(self, name: str, dtype: str, *dims: int, axis: int = 1, block: int = 0) -> Any:
        """Return the numbers that data stand for, with a scale and a zero point."""
        data = self.data(name, dtype, *dims)
        scale = self.parameter(f"{name}_scale", "float32", dims, axis, block)
        return (data - self.parameter(f"{name}_zero", dtype, dims, axis, block)) * scale

    def quantised(self, numbers: Any, dtype: str, axis: int = 1, block: int = 0) -> Any:
        """Return numbers as bytes, with a scale and a zero point."""
        scale = self.parameter("y_scale", "float32", numbers.shape, axis, block)
        zero = self.parameter("y_zero", dtype, numbers.shape, axis, block)
        limits = np.iinfo(dtype)
        return np.clip(np.rint(numbers / scale) + zero, limits.min, limits.max).astype(dtype)

    def case(self, expected: Any, inputs: str, domain: str = "", **attributes: Any) -> Case:
        """Return the model with a node that has these inputs; those that are left out are omitted ones."""
        names = [name if name in self.arrays else "" for name in inputs.split()]
        values, constants, given = [], [], {}
        for name, array in self.arrays.items():
            if name in self.parameters and self.form.source == "constant":
                constants.append(numpy_helper.from_array(array, name))
                continue
            is_unknown = name in self.parameters and self.form.source == "unknown sizes"
            dims = [f"{name}_{axis}" if is_unknown else size for axis, size in enumerate(array.shape)]
            elem_type = helper.np_dtype_to_tensor_dtype(array.dtype)
            values.append(helper.make_tensor_value_info(name, elem_type, dims))
            given[name] = array
        node = helper.make_node(self.form.operator.split(":")[0], names, ["y"], domain=domain, **attributes)
        elem_type = helper.np_dtype_to_tensor_dtype(expected.dtype)
        result = helper.make_tensor_value_info("y", elem_type, expected.shape)
        graph = helper.make_graph([node], "g", values, [result], constants)
        sets = [helper.make_opsetid("", 21), helper.make_opsetid(MICROSOFT, 1)]
        return Case(helper.make_model(graph, opset_imports=sets, ir_version=10), given, expected)


def quantize(d: Draw, domain: str = "") -> Case:
    """QuantizeLinear, whose result is UINT8 without a zero point."""
    dtype = "uint8" if d.form.granularities[1] == NONE else d.second
    blocks = {"block_size": 3} if BLOCKS in d.form.granularities else {}
    return d.case(d.quantised(d.floats("x", 2, 4, 6), dtype, 2, 3), "x y_scale y_zero", domain, axis=2, **blocks)


def dequantize(d: Draw, domain: str = "") -> Case:
    """DequantizeLinear."""
    blocks = {"block_size": 3} if BLOCKS in d.form.granularities else {}
    numbers = d.real("x", d.second, 2, 4, 6, axis=2, block=3)
    return d.case(numbers.astype(np.float32), "x x_scale x_zero", domain, axis=2, **blocks)


def convolved(x: Any, w: Any) -> Any:
    """Return the convolution of images, without padding, strides or groups."""
    views = np.lib.stride_tricks.sliding_window_view(x, w.shape[2:], (2, 3))
    return np.einsum("nchwij,mcij->nmhw", views, w)


def conv(d: Draw, domain: str = "") -> Case:
    """QLinearConv."""
    x, w = d.real("x", d.first, 2, 3, 5, 5), d.real("w", d.second, 4, 3, 3, 3, axis=0)
    return d.case(d.quantised(convolved(x, w), d.first), "x x_scale x_zero w w_scale w_zero y_scale y_zero", domain)


def matmul(d: Draw, *batch: int) -> Case:
    """QLinearMatMul of matrices, or of stacks of them."""
    a, b = d.real("a", d.first, *batch, 3, 4, axis=-2), d.real("b", d.second, *batch, 4, 5, axis=-1)
    return d.case(d.quantised(a @ b, d.first, -2), "a a_scale a_zero b b_scale b_zero y_scale y_zero")


def conv_integer(d: Draw) -> Case:
    """ConvInteger."""
    x, w = d.data("x", d.first, 2, 3, 5, 5), d.data("w", d.second, 4, 3, 3, 3)
    x, w = x - d.parameter("x_zero", d.first, x.shape, 0), w - d.parameter("w_zero", d.second, w.shape, 0)
    return d.case(convolved(x, w).astype(np.int32), "x w x_zero w_zero")


def matmul_integer(d: Draw, *batch: int) -> Case:
    """MatMulInteger of matrices, or of stacks of them."""
    a, b = d.data("a", d.first, *batch, 3, 4), d.data("b", d.second, *batch, 4, 5)
    a, b = a - d.parameter("a_zero", d.first, a.shape, -2), b - d.parameter("b_zero", d.second, b.shape, -1)
    return d.case((a @ b).astype(np.int32), "a b a_zero b_zero")


def matmul_to_float(d: Draw) -> Case:
    """MatMulIntegerToFloat."""
    result = d.real("a", d.first, 3, 4) @ d.real("b", d.second, 4, 5)
    return d.case(result.astype(np.float32), "a b a_scale b_scale a_zero b_zero", MICROSOFT)


def dynamic_matmul(d: Draw) -> Case:
    """DynamicQuantizeMatMul."""
    a = d.floats("a", 3, 4)
    scale = np.float32((max(a.max(), 0) - min(a.min(), 0)) / 255)
    zero = np.rint(-min(a.min(), 0) / scale)
    result = ((np.rint(a / scale) + zero).clip(0, 255) - zero) * scale @ d.real("b", d.second, 4, 5)
    return d.case(result.astype(np.float32), "a b b_scale b_zero", MICROSOFT)


def gemm(d: Draw) -> Case:
    """QGemm, whose result is a float if it has no scale."""
    product = d.real("a", d.first, 3, 4) @ d.real("b", d.second, 4, 5)
    inputs = "a a_scale a_zero b b_scale b_zero c y_scale y_zero"
    if d.form.granularities[4] == NONE:
        return d.case(product.astype(np.float32), inputs[:-16], MICROSOFT)
    return d.case(d.quantised(product, d.first), inputs, MICROSOFT)


def binary(
    d: Draw, compute: Callable[..., Any], inputs: str = "a a_scale a_zero b b_scale b_zero y_scale y_zero"
) -> Case:
    """QLinearAdd and the like."""
    a, b = d.real("a", d.first, 3, 4), d.real("b", d.first, 3, 4)
    return d.case(d.quantised(compute(a, b), d.first), inputs, MICROSOFT, **({"axis": 1} if compute is beside else {}))


def beside(a: Any, b: Any) -> Any:
    """Return two matrices as one."""
    return np.concatenate([a, b], 1)


def unary(d: Draw, compute: Callable[[Any], Any], **attributes: Any) -> Case:
    """QLinearSigmoid and the like."""
    x = d.real("x", d.first, 2, 3, 4, 4)
    return d.case(d.quantised(compute(x), d.first), "x x_scale x_zero y_scale y_zero", MICROSOFT, **attributes)


def softmax(x: Any) -> Any:
    """Return the softmax of the last axis."""
    numbers = np.exp(x)
    return numbers / numbers.sum(-1, keepdims=True)


def where(d: Draw) -> Case:
    """QLinearWhere."""
    d.arrays["c"] = np.arange(12).reshape(3, 4) % 3 > 0
    result = np.where(d.arrays["c"], d.real("a", d.first, 3, 4), d.real("b", d.first, 3, 4))
    return d.case(d.quantised(result, d.first), "c a a_scale a_zero b b_scale b_zero y_scale y_zero", MICROSOFT)


ALL = ((SCALAR, ONE, AXIS, BLOCKS), (SCALAR, ONE, AXIS, BLOCKS, NONE))
ONE_EACH = (TENSOR, TENSOR)
COLUMNS = (CHANNELS, CHANNELS)
STACKS = ((SCALAR, ONE, EACH), (SCALAR, ONE, EACH))
# The granularities that each parameter may have, in the order in which the function draws them.
OPERATORS: dict[str, tuple[Callable[[Draw], Case], tuple[tuple[str, ...], ...]]] = {
    "QuantizeLinear": (quantize, ALL),
    "DequantizeLinear": (dequantize, ALL),
    "QuantizeLinear:microsoft": (partial(quantize, domain=MICROSOFT), (CHANNELS, CHANNELS)),
    "DequantizeLinear:microsoft": (partial(dequantize, domain=MICROSOFT), (CHANNELS, CHANNELS)),
    "QLinearConv": (conv, (*ONE_EACH, *COLUMNS, *ONE_EACH)),
    "QLinearConv:microsoft": (partial(conv, domain=MICROSOFT), (*ONE_EACH, *COLUMNS, *ONE_EACH)),
    "QLinearMatMul": (matmul, (*COLUMNS, *COLUMNS, *ONE_EACH)),
    "QLinearMatMul:stacks": (lambda d: matmul(d, 2), (*STACKS, *STACKS, *ONE_EACH)),
    "ConvInteger": (conv_integer, ((*TENSOR, NONE), (*CHANNELS, NONE))),
    "MatMulInteger": (matmul_integer, ((*CHANNELS, NONE), (*CHANNELS, NONE))),
    "MatMulInteger:stacks": (lambda d: matmul_integer(d, 2), ((SCALAR, ONE, EACH, NONE),) * 2),
    "MatMulIntegerToFloat": (matmul_to_float, (TENSOR, (*TENSOR, NONE), CHANNELS, (*CHANNELS, NONE))),
    "DynamicQuantizeMatMul": (dynamic_matmul, (CHANNELS, (*CHANNELS, NONE))),
    "QGemm": (gemm, (*ONE_EACH, *COLUMNS, (*TENSOR, NONE), TENSOR)),
    "QLinearAdd": (partial(binary, compute=np.add), (TENSOR, (*TENSOR, NONE)) * 3),
    "QLinearMul": (partial(binary, compute=np.multiply), (TENSOR, (*TENSOR, NONE)) * 3),
    "QLinearConcat": (
        partial(binary, compute=beside, inputs="y_scale y_zero a a_scale a_zero b b_scale b_zero"),
        (TENSOR, TENSOR) * 3,
    ),
    "QLinearWhere": (where, (TENSOR, TENSOR) * 3),
    "QLinearSigmoid": (partial(unary, compute=lambda x: 1 / (1 + np.exp(-x))), (TENSOR, (*TENSOR, NONE)) * 2),
    "QLinearLeakyRelu": (
        partial(unary, compute=lambda x: np.where(x < 0, x / 4, x), alpha=0.25),
        (TENSOR, (*TENSOR, NONE)) * 2,
    ),
    "QLinearSoftmax": (partial(unary, compute=softmax, axis=-1, opset=13), (TENSOR, (*TENSOR, NONE)) * 2),
    "QLinearGlobalAveragePool": (
        partial(unary, compute=lambda x: x.mean((2, 3), keepdims=True)),
        (TENSOR, (*TENSOR, NONE)) * 2,
    ),
    "QLinearAveragePool": (
        partial(
            unary,
            compute=lambda x: np.lib.stride_tricks.sliding_window_view(x, (2, 2), (2, 3)).mean((4, 5)),
            kernel_shape=[2, 2],
        ),
        (TENSOR, (*TENSOR, NONE)) * 2,
    ),
}


def forms_of(operator: str) -> list[Form]:
    """Return all forms of an operator."""
    _, choices = OPERATORS[operator]
    return [
        Form(operator, granularities, source, types)
        for granularities, source, types in itertools.product(itertools.product(*choices), SOURCES, TYPES)
    ]


def is_near(got: Any, wanted: Any) -> bool:
    """Return whether results are equal: floats up to rounding, and quantised ones up to one step."""
    got, wanted = np.asarray(got), np.asarray(wanted)
    if wanted.dtype == np.int32:
        return got.shape == wanted.shape and np.array_equal(got, wanted)
    tolerance = 1e-4 * max(1, np.abs(wanted).max()) if wanted.dtype.kind == "f" else 1
    return got.shape == wanted.shape and bool(np.abs(got.astype(float) - wanted.astype(float)).max() <= tolerance)


def outcome(form: Form, runtimes: Any, folder: Path) -> dict[str, str]:
    """Return what each route does with a form: "right", "refused: ...", or what goes wrong."""
    case = OPERATORS[form.operator][0](Draw(form))
    path, outcomes = folder / "m.onnx", dict[str, str]()
    onnx.save(case.proto, path)

    def judge(route: str, run: Callable[[], list[Any]]) -> None:
        try:
            (got,) = run()
        except FAILURES as error:
            outcomes[route] = f"fails: {error}"[:300]
        else:
            is_right = is_near(got, case.expected)
            outcomes[route] = "right" if is_right else f"{np.ravel(case.expected)[:6]} became {np.ravel(got)[:6]}"

    def in_onnxruntime(file: Path) -> Callable[[], list[Any]]:
        return lambda: evaluate_in_onnxruntime(file.read_bytes(), case.inputs, optimize=False)

    judge("onnxruntime", in_onnxruntime(path))
    for exact in (False, True):
        word = " exact" if exact else ""
        for route, new, runtime in ((".rten", "m.rten", None), ("loader", "r.onnx", "rten")):
            try:
                formats.convert(path, folder / new, exact=exact, runtime=runtime, overwrite=True)
            except RefusalError as error:
                outcomes[f"{route}{word}"] = f"refused: {error}"
                continue
            # RTen's newest release reads the ONNX that is for its own loader.
            for release, runner in list(runtimes.items())[-1 if runtime else 0 :]:
                judge(f"{route}{word} {release}", partial(runner.run, folder / new, case.inputs))
            if runtime is None:
                formats.convert(folder / new, folder / "back.onnx", overwrite=True)
                judge(f"back{word}", in_onnxruntime(folder / "back.onnx"))
            elif outcomes["onnxruntime"] == "right":
                judge(f"loader's model{word}", in_onnxruntime(folder / new))
    return outcomes


def expected_of(form: Form) -> str:
    """Return what each route must do with a form. Numbers of blocks beside those of an axis have no meaning."""
    if not {AXIS, BLOCKS} <= set(form.granularities):
        return "right"
    return "fails" if form.source == "unknown sizes" else "refused"


def check(operator: str, count: int, runtimes: Any, folder: Path) -> None:
    """Assert that some forms of an operator are right on each route, or if they have no meaning, right on none."""
    forms = forms_of(operator)
    for form in random.Random(f"{SEED} {operator}").sample(forms, min(count, len(forms))):
        outcomes = outcome(form, runtimes, folder)
        if outcomes["onnxruntime"].startswith("fails"):  # its kernels lack many mixed forms
            del outcomes["onnxruntime"]
        assert {expected_of(form)} == {words.split(":")[0] for words in outcomes.values()}, (form, outcomes)


@pytest.mark.parametrize("operator", OPERATORS)
def test_every_granularity(operator: str, tmp_path: Path) -> None:
    """What is written for RTen computes the same in onnxruntime, whatever the granularity of each parameter."""
    check(operator, 2, {}, tmp_path)


@pytest.mark.parametrize("operator", OPERATORS)
def test_every_granularity_in_rten(operator: str, runtimes: Any, tmp_path: Path) -> None:
    """RTen computes the same in each release and with both loaders, whatever the granularity of each parameter."""
    check(operator, COUNT, runtimes, tmp_path)


@pytest.mark.parametrize("granularity", [AXIS, EACH])
def test_several_scales_of_a_result(granularity: str, tmp_path: Path) -> None:
    """QLinearMatMul whose result has several scales is refused: ONNX does not say what they are for."""
    form = Form("QLinearMatMul", (SCALAR,) * 4 + (granularity,) * 2, "constant", TYPES[0])
    onnx.save(matmul(Draw(form)).proto, tmp_path / "m.onnx")
    with pytest.raises(RefusalError, match=r"has a scale or zero point of dims .* for a tensor that has only one"):
        formats.convert(tmp_path / "m.onnx", tmp_path / "m.rten")
