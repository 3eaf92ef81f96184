# ruff: noqa: D103 - a template is named after what it adds
"""Templates for operators that compute each element alone."""

from __future__ import annotations

import numpy as np
from onnx import helper

from tests.rten.random_graphs.builder import (
    ANY_TYPE,
    BYTES,
    FLOATS,
    LIMIT,
    NUMBERS,
    SHORTS,
    Builder,
    is_nonzero,
    is_small,
    template,
)
from tests.rten.random_graphs.graph import Discarded, Value


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
