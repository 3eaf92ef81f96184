"""Random numbers, and what drops elements at random in training."""

from __future__ import annotations

from typing import TYPE_CHECKING

from formats.ir.dtypes import BOOL, DOUBLE, FLOAT, FLOAT16, INT32, INT64, numpy_dtype
from formats.ir.storage import from_numpy
from formats.rten.convert import budget
from formats.rten.convert.refusal import Refused
from formats.rten.convert.value_types import Dims, ValueType
from formats.rten.graph.attributes import find, get_float, get_int, get_ints
from formats.rten.operators.shared import ranges
from formats.rten.operators.shared.rules import always, in_order, of_attribute, same, same_all
from formats.rten.operators.shared.spec import (
    Field,
    FieldKind,
    OnnxLoader,
    OperatorSpec,
    Outputs,
    Row,
    Signature,
    ToOnnx,
    ToRten,
    because,
    of_input,
)
from formats.rten.types import FLOAT_TYPES

if TYPE_CHECKING:
    from formats.ir.model import Node
    from formats.rten.convert.context import Context
    from formats.rten.convert.scope import Scope

_SEED = Field("seed", FieldKind.FLOAT)
_FLOAT_OUTPUT = {"dtype": FLOAT_TYPES}
_ONNX_FORM = OnnxLoader(takes={"dtype": (FLOAT, FLOAT16, DOUBLE)})


def random_dims(node: Node, scope: Scope, types: list[ValueType]) -> list[Dims | None]:
    """The dims in the attribute."""
    return [tuple(get_ints(node, "shape") or ())]


def float_like_raised(node: Node, context: Context) -> list[Node]:
    """RTen's random numbers are floats, whatever they are like."""
    return context.changed(dtype=FLOAT)


def _with_shape(name: str, *fields: Field) -> OperatorSpec:
    """An operator whose output has the dims in its attribute."""
    return OperatorSpec(
        name,
        Outputs(random_dims, elements=of_attribute("dtype", FLOAT)),
        ToRten(Row(0, 1, f"{name}Attrs", fields, _FLOAT_OUTPUT)),
        onnx_loader=_ONNX_FORM,
    )


def _like_input(name: str, *fields: Field) -> OperatorSpec:
    """An operator whose output has the dims of its input."""
    return OperatorSpec(
        name,
        Outputs(same, elements=of_attribute("dtype", None)),
        ToRten(Row(1, 1, f"{name}Attrs", fields, _FLOAT_OUTPUT)),
        to_onnx=ToOnnx(Signature("w"), rewriting=float_like_raised),
        onnx_loader=_ONNX_FORM,
    )


_MEAN, _SCALE = Field("mean", FieldKind.FLOAT, 0.0), Field("scale", FieldKind.FLOAT, 1.0)
_HIGH, _LOW = Field("high", FieldKind.FLOAT, 1.0), Field("low", FieldKind.FLOAT, 0.0)
_SHAPE = Field("shape", FieldKind.INTS, minimum=0, required=True)
RandomNormal = _with_shape("RandomNormal", _MEAN, _SCALE, _SEED, _SHAPE)
RandomNormalLike = _like_input("RandomNormalLike", _MEAN, _SCALE, _SEED)
RandomUniform = _with_shape("RandomUniform", _SHAPE, _HIGH, _LOW, _SEED)
RandomUniformLike = _like_input("RandomUniformLike", _HIGH, _LOW, _SEED)


def bernoulli(node: Node, context: Context) -> list[Node] | None:
    """Write it as a comparison of random numbers with the probabilities."""
    data = context.input(0)
    seed = get_float(node, "seed") if find(node, "seed") is not None else None
    elem_type = context.elem_type(data) or FLOAT
    number = context.op("RandomUniformLike", data, dtype=elem_type, seed=seed)
    return context.replace(context.op("Cast", context.op("Less", number, data), to=get_int(node, "dtype") or elem_type))


Bernoulli = OperatorSpec(
    "Bernoulli", Outputs(same, elements=of_attribute("dtype", None)), ToRten(rewritings=(bernoulli,))
)


def multinomial_raised(node: Node, context: Context) -> list[Node]:
    """RTen draws integers of 32 bits."""
    return context.changed(dtype=INT32)


Multinomial = OperatorSpec(
    "Multinomial",
    Outputs(elements=of_attribute("dtype", INT32)),
    ToRten(Row(1, 1, "MultinomialAttrs", (Field("sample_size", FieldKind.INT, 1), _SEED), {"dtype": (INT32, INT64)})),
    to_onnx=ToOnnx(rewriting=multinomial_raised),
    onnx_loader=OnnxLoader(takes={"dtype": (INT32, INT64)}),
)


@because("In inference, Dropout returns its input and a mask of all true")
def dropout(node: Node, context: Context) -> list[Node] | None:
    # Before operator set 12, ONNX does not define the mask in inference, and onnxruntime returns zeros.

    op = context.op
    data, ratio, training = context.input(0), context.optional(1), context.optional(2)
    if context.version < 7 and not get_int(node, "is_test"):
        raise Refused("is in its training form (is_test = 0)", "set is_test to 1")
    if (
        training
        and context.scope.ints(training) != (0,)
        and (context.scope.numbers(ratio) if ratio else [0.5]) != [0.0]
    ):
        raise Refused("may be in training mode", "export the model for inference")
    if not context.wanted(1):
        return context.replace(op("Identity", data), "")
    elem_type = BOOL if context.version >= 10 else context.elem_type(data) or FLOAT
    value = from_numpy(budget.full(1, context.version >= 12, dtype=numpy_dtype(elem_type)))
    mask = op("ConstantOfShape", op("Shape", data), value=value)
    return context.replace(op("Identity", data), mask)


Dropout = OperatorSpec(
    "Dropout",
    Outputs(same_all, elements=in_order(of_input(0), always(BOOL)), range=ranges.of(0)),
    ToRten(Row(2, 2, "DropoutAttrs", (Field("seed", FieldKind.INT),)), rewritings=(dropout,)),
    to_onnx=ToOnnx(Signature("xxb")),
    onnx_loader=OnnxLoader(inputs={"ratio": 1}),
)
