"""Tensors made of a few numbers or of random ones, and what drops elements at random in training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil
from typing import Any

from formats.errors import EncodeError
from formats.ir.attributes import attribute_named, get_float, get_int, get_ints
from formats.ir.dtypes import BOOL, DOUBLE, FLOAT, FLOAT16, INT32, INT64, STRING, numpy_dtype
from formats.ir.model import Node, Tensor
from formats.ir.storage import from_numpy
from formats.rten.convert import budget
from formats.rten.convert.context import Context
from formats.rten.convert.refusal import Refused
from formats.rten.convert.scope import Scope
from formats.rten.convert.value_types import Dims, Interval, ValueType
from formats.rten.graph.constants import densify
from formats.rten.operators import ranges
from formats.rten.operators.rules import (
    INDEX_TYPES,
    MAX_CONTENTS,
    always,
    for_outputs,
    of_attribute,
    same,
    same_all,
    unknown_dims,
)
from formats.rten.spec import (
    ANY,
    Field,
    OnnxLoader,
    OperatorSpec,
    Outputs,
    Row,
    ToOnnx,
    ToRten,
    because,
    of_input,
    unknown,
)
from formats.rten.target import RTEN_0_26, Fault
from formats.rten.types import FLOAT_TYPES, FLOATS, INTS, READ_TYPES, VALUE_TYPES

# By the attribute of a Constant: the field that has its value, the value that a writer may omit, and the type.
_FIELDS_OF_VALUES: Mapping[str, tuple[str, Any, str]] = {
    "value_float": ("f", 0.0, "float32"),
    "value_floats": ("floats", [], "float32"),
    "value_int": ("i", 0, "int64"),
    "value_ints": ("ints", [], "int64"),
}


def constant_tensor(node: Node) -> Tensor:
    """The tensor of a Constant node, in any of its attributes.

    Raises: EncodeError if there is none.
    """
    for attribute in node.attribute:
        if attribute.name == "value" and attribute.t is not None:
            return attribute.t
        if attribute.name == "sparse_value" and attribute.sparse_tensor is not None:
            return densify(attribute.sparse_tensor)
        if attribute.name in ("value_string", "value_strings"):
            return Tensor(data_type=STRING)
        if (field := _FIELDS_OF_VALUES.get(attribute.name or "")) is not None:
            import numpy

            return from_numpy(numpy.array(getattr(attribute, field[0]) or field[1], field[2]))
    raise EncodeError(f"the Constant node of {', '.join(node.output)!r} has no value")


def is_readable_constant(node: Node) -> bool:
    """Whether RTen's ONNX loader reads a Constant: it has numbers, or a tensor of a type that RTen supports."""
    if len(node.attribute) != 1 or len(node.output) != 1:
        return False
    (attribute,) = node.attribute
    if attribute.name == "value":
        return attribute.t is not None and attribute.t.data_type in READ_TYPES
    return attribute.name in ("value_int", "value_ints", "value_float", "value_floats")


Constant = OperatorSpec(
    "Constant",
    Outputs(elements=unknown),
    ToRten(constant=constant_tensor),
    onnx_loader=OnnxLoader(reads_constant=is_readable_constant),
)


def constant_of_shape_dims(node: Node, scope: Scope, types: list[ValueType]) -> list[Dims | None]:
    """The dims that the input gives."""
    target = scope.contents_of(node.input[0])
    if target is None:
        return [unknown_dims((types[0].dims or (None,))[0])]
    return [target]


def _filled_type(node: Node, scope: Scope, types: list[ValueType]) -> Sequence[int | None]:
    """The type of the attribute `value`, a float by default."""
    value = next((attribute.t for attribute in node.attribute if attribute.name == "value"), None)
    return (FLOAT if value is None else value.data_type,)


def constant_of_shape_contents(node: Node, scope: Scope, types: list[ValueType]) -> Dims | None:
    """The one integer value, repeated."""
    lengths, attribute = scope.ints(node.input[0]), attribute_named(node, "value")
    if lengths is None or len(lengths) > 1 or attribute is None or attribute.t is None:
        return None
    length = lengths[0] if lengths else 1
    if attribute.t.data_type not in INDEX_TYPES or length > MAX_CONTENTS:
        return None
    return (int(attribute.t.numpy().reshape(())),) * length


@ranges.exact
def _filled_range(node: Node, scope: Scope, types: list[ValueType]) -> Interval:
    """The interval of the value that fills the tensor."""
    value = next((attribute.t for attribute in node.attribute if attribute.name == "value"), None)
    array = None if value is None else value.numpy().reshape(())
    return Interval(int(array), int(array)) if array is not None and array.dtype.kind in "iub" else ranges.UNBOUNDED


_RANK_OF_INPUT = Fault("mistakes the rank of unknown sizes for that of the tensor", until=RTEN_0_26)


@because("RTen fills only with floats and 32-bit integers, and older releases may mistake the rank")
def constant_of_shape(node: Node, context: Context) -> list[Node] | None:
    import numpy

    attribute = attribute_named(node, "value")
    if attribute is None or attribute.t is None:
        if context.target.is_onnx:
            return None
        return context.changed(value=from_numpy(budget.zeros(1, dtype=numpy.float32)))
    elem_type = attribute.t.data_type
    if elem_type in FLOATS or elem_type in INTS:
        sizes = context.input(0)
        if context.scope.constant(sizes) is not None or not context.target.deviates(_RANK_OF_INPUT):
            return None
        known_sizes = context.scope.ints(sizes)
        if known_sizes is not None:
            return context.changed([context.int64(known_sizes)])
        # Expand knows the rank, where ConstantOfShape mistakes it.
        number = context.constants.add(attribute.t.numpy().reshape(()))
        return context.replace(context.op("Expand", number, sizes))
    # Bytes and truth values are filled in 32 bits.
    value = numpy.array([int(attribute.t.numpy().reshape(()))], dtype="int32")
    filled = context.op("ConstantOfShape", context.input(0), value=from_numpy(value))
    return context.replace(context.op("Cast", filled, to=elem_type))


ConstantOfShape = OperatorSpec(
    "ConstantOfShape",
    Outputs(constant_of_shape_dims, _filled_type, contents=constant_of_shape_contents, range=_filled_range, sizes=(0,)),
    ToRten(
        Row(1, 1, "ConstantOfShapeAttrs", (Field("value", Tensor),)),
        rewritings=(constant_of_shape,),
        faults=(_RANK_OF_INPUT,),
    ),
    ToOnnx("l"),
)


def range_dims(node: Node, scope: Scope, types: list[ValueType]) -> list[Dims | None]:
    """One dim; its size if the bounds are known."""
    bounds = [scope.contents_of(name) for name in node.input]
    if all(bound and isinstance(bound[0], int) for bound in bounds):
        start, limit, delta = (bound[0] for bound in bounds if bound)
        return [(len(range(start, limit, delta)),)]  # type: ignore[arg-type]
    first, last, step = bounds
    return [((last or (None,))[0] if (first, step) == ((0,), (1,)) else None,)]


def range_contents(node: Node, scope: Scope, types: list[ValueType]) -> Dims | None:
    """The numbers of a range."""
    start, limit, delta = (scope.ints(name) for name in node.input)
    if start is None or limit is None or delta is None:
        return None
    numbers = range(start[0], limit[0], delta[0])
    return tuple(numbers) if len(numbers) <= MAX_CONTENTS else None


SPLIT = 4097.0  # to get the first 12 bits of a float of 24 bits: multiply by this, then subtract the excess
MAX_FOLDED = 1 << 16  # the most numbers that are made here


def _rounded_off(context: Context, number: str, less: str, difference: str) -> str:
    """The rounding error of a difference of two floats. This error is a float as well.

    Spec: Knuth, The Art of Computer Programming, volume 2, 4.2.2, theorem B.
    """
    op = context.op
    taken = op("Sub", difference, number)
    of_number = op("Sub", number, op("Sub", difference, taken))  # what the difference lost of the number
    return op("Sub", of_number, op("Add", less, taken))


def _count(context: Context, start: str, limit: str, delta: str) -> str:
    """The steps from the start to the limit, rounded up, as a float.

    The quotient may be rounded to a whole number. So the remainder after that many steps decides whether there is one
    more step. It is computed without rounding, from the two halves of each number, which have 12 bits each.
    """
    op = context.op
    way = op("Sub", limit, start)  # rounded; its error is added below
    steps = op("Floor", op("Div", way, delta))
    # Dekker's split: `high` has the first 12 bits of the step, and `low` the others. The number of steps is split, too.
    long = op("Mul", delta, context.scalar(SPLIT))
    high = op("Sub", long, op("Sub", long, delta))
    low = op("Sub", delta, high)
    many = op("Div", steps, 4096.0)
    many = op("Mul", op("Floor", many), 4096.0)
    few = op("Sub", steps, many)
    remainder = way
    for pair in ((many, high), (few, high), (many, low), (few, low)):
        remainder = op("Sub", remainder, op("Mul", *pair))
    remainder = op("Add", remainder, _rounded_off(context, limit, start, way))
    for rest in (remainder, op("Sub", remainder, delta)):  # RTen's quotient may be one too small
        is_more = op("Greater", op("Div", rest, delta), 0.0)
        steps = op("Add", steps, op("Cast", is_more, to=FLOAT))
    return steps


@because("RTen's Range of floats adds up its steps, and can have one element too many")
def range_of_floats(node: Node, context: Context) -> list[Node] | None:
    # They are then added up in the same way as by RTen and onnxruntime, with any rounding.
    import numpy

    op = context.op
    start, limit, delta = (context.input(place) for place in range(3))
    if context.elem_type(start) not in FLOATS:
        return None
    constants = [context.scope.numbers(name) for name in (start, limit, delta)]
    first, last, step = (None if values is None else values[0] for values in constants)
    if first is not None and last is not None and step:
        count = ceil(max((last - first) / step, 0))
        if count <= MAX_FOLDED:
            steps = budget.full(count, step, numpy.float32)
            steps[:1] = first
            return context.replace(
                context.array(numpy.cumsum(steps, dtype=numpy.float32), context.elem_type(start) or FLOAT)
            )
    if first == 0 and step is not None and step == int(step):
        return None  # RTen, which adds whole numbers up to the limit, makes as many as ONNX
    start, limit, delta = (context.cast(name, FLOAT) for name in (start, limit, delta))
    places = op("Range", context.scalar(0.0), _count(context, start, limit, delta), 1.0)
    is_first = op("Equal", places, 0.0)
    parts = op("Where", is_first, start, delta)  # the start, then one step for each number
    numbers = op("CumSum", parts, 0)
    return context.replace(context.cast(numbers, context.elem_type(context.input(0)) or FLOAT))


Range = OperatorSpec(
    "Range",
    Outputs(range_dims, contents=range_contents, range=ranges.inexact(ranges.of(0, 1)), sizes=(1,)),
    ToRten(Row(3, neutral={"stash_type": ANY}), rewritings=(range_of_floats,)),
    ToOnnx("N", "N", ranks={0: 0, 1: 0, 2: 0}),
    onnx_loader=OnnxLoader(takes={"stash_type": (1,)}),
)
EyeLike = OperatorSpec(
    "EyeLike",
    Outputs(same, of_attribute("dtype", None), range=ranges.truths),
    ToRten(Row(1, 1, "EyeLikeAttrs", (Field("dtype", int, choices=VALUE_TYPES), Field("k", int, 0)))),
    ToOnnx("w"),
)


_SEED = Field("seed", float)
_FLOAT_OUTPUT = {"dtype": FLOAT_TYPES}
_ONNX_FORM = OnnxLoader(takes={"dtype": (FLOAT, FLOAT16, DOUBLE)})


def _with_shape(name: str, *fields: Field) -> OperatorSpec:
    """An operator whose output has the dims in its attribute."""
    return OperatorSpec(
        name,
        Outputs(lambda node, scope, types: [tuple(get_ints(node, "shape") or ())], of_attribute("dtype", FLOAT)),
        ToRten(Row(0, 1, f"{name}Attrs", fields, _FLOAT_OUTPUT)),
        onnx_loader=_ONNX_FORM,
    )


def _like_input(name: str, *fields: Field) -> OperatorSpec:
    """An operator whose output has the dims of its input."""
    return OperatorSpec(
        name,
        Outputs(same, of_attribute("dtype", None)),
        ToRten(Row(1, 1, f"{name}Attrs", fields, _FLOAT_OUTPUT)),
        ToOnnx("w", rewriting=lambda node, context: context.changed(dtype=FLOAT)),
        onnx_loader=_ONNX_FORM,
    )


_MEAN, _SCALE = Field("mean", float, 0.0), Field("scale", float, 1.0)
_HIGH, _LOW = Field("high", float, 1.0), Field("low", float, 0.0)
_SHAPE = Field("shape", list, minimum=0, required=True)
RandomNormal = _with_shape("RandomNormal", _MEAN, _SCALE, _SEED, _SHAPE)
RandomNormalLike = _like_input("RandomNormalLike", _MEAN, _SCALE, _SEED)
RandomUniform = _with_shape("RandomUniform", _SHAPE, _HIGH, _LOW, _SEED)
RandomUniformLike = _like_input("RandomUniformLike", _HIGH, _LOW, _SEED)


def bernoulli(node: Node, context: Context) -> list[Node] | None:
    """Write it as a comparison of random numbers with the probabilities."""
    data = context.input(0)
    seed = get_float(node, "seed") if attribute_named(node, "seed") is not None else None
    elem_type = context.elem_type(data) or FLOAT
    number = context.op("RandomUniformLike", data, dtype=elem_type, seed=seed)
    return context.replace(context.op("Cast", context.op("Less", number, data), to=get_int(node, "dtype") or elem_type))


Bernoulli = OperatorSpec("Bernoulli", Outputs(same, of_attribute("dtype", None)), ToRten(rewritings=(bernoulli,)))


Multinomial = OperatorSpec(
    "Multinomial",
    Outputs(elements=of_attribute("dtype", INT32)),
    ToRten(Row(1, 1, "MultinomialAttrs", (Field("sample_size", int, 1), _SEED), {"dtype": (INT32, INT64)})),
    ToOnnx(rewriting=lambda node, context: context.changed(dtype=INT32)),
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
    Outputs(same_all, for_outputs(of_input(0), always(BOOL)), range=ranges.of(0)),
    ToRten(Row(2, 2, "DropoutAttrs", (Field("seed", int),)), rewritings=(dropout,)),
    ToOnnx("xxb"),
    onnx_loader=OnnxLoader(inputs={"ratio": 1}),
)
