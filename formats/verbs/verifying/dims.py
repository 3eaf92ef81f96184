"""What operators of ONNX need of the dims of their inputs, and the dims of their results, as far as both are plain.

A dim is a number, a name, or `None` if it is not known. What depends on the content of an input is not looked at.

Spec: ONNX docs, "Operators.md" and "Broadcasting.md".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from formats.ir.attributes import get_int, get_ints
from formats.words import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from formats.ir.model import Node

Dim = int | str | None
Dims = tuple[Dim, ...]


# Operators whose result has the dims of their first input.
SAME = {
    *("Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "BitwiseNot", "Cast", "Ceil", "Celu", "Clip", "Cos"),
    *("Cosh", "CumSum", "Dropout", "Elu", "Erf", "Exp", "Floor", "Gelu", "HardSigmoid", "HardSwish", "Hardmax"),
    *("Identity", "IsInf", "IsNaN", "LRN", "LayerNormalization", "LeakyRelu", "Log", "LogSoftmax", "LpNormalization"),
    *("MeanVarianceNormalization", "Mish", "Neg", "Not", "Reciprocal", "Relu", "Round", "Selu", "Shrink", "Sigmoid"),
    *("Sign", "Sin", "Sinh", "Softmax", "Softplus", "Softsign", "Sqrt", "Swish", "Tan", "Tanh", "ThresholdedRelu"),
    "Trilu",
}
# Operators that broadcast their inputs, and the version of the set that brought it.
BROADCASTING = {
    **dict.fromkeys(("Add", "And", "Div", "Equal", "Greater", "Less", "Mul", "Or", "Pow", "Sub", "Xor"), 7),
    **dict.fromkeys(("Max", "Mean", "Min", "Sum"), 8),
    **dict.fromkeys(("BitwiseAnd", "BitwiseOr", "BitwiseXor"), 18),
    **dict.fromkeys(("GreaterOrEqual", "LessOrEqual"), 12),
    "BitShift": 11,
    "Mod": 10,
    "Where": 9,
}
# The number of dims that an input must have, by its index.
RANKS = {
    "ConstantOfShape": {0: 1},
    "DepthToSpace": {0: 4},
    "Expand": {1: 1},
    "GRU": {0: 3, 1: 3, 2: 3},
    "Gemm": {0: 2, 1: 2},
    "LSTM": {0: 3, 1: 3, 2: 3},
    "NonMaxSuppression": {0: 3, 1: 3},
    "RNN": {0: 3, 1: 3, 2: 3},
    "Reshape": {1: 1},
    "SpaceToDepth": {0: 4},
}
# Operators whose attribute `axis` names a dim of the first input.
WITH_AXIS = {
    *("ArgMax", "ArgMin", "Concat", "Gather", "GatherElements", "Hardmax", "LogSoftmax", "LpNormalization"),
    *("ScatterElements", "Softmax", "Split", "TopK"),
}


def dims_problem(node: Node, version: int, dims: Sequence[Dims | None]) -> str | None:
    """Why the dims of the inputs do not fit the operator, or `None` if they do or too little is known of them."""
    name = node.op_type or ""
    for index, rank in RANKS.get(name, {}).items():
        of_input = dims[index] if index < len(dims) else None
        if of_input is not None and len(of_input) != rank:
            shown = dims_text(of_input)
            return f"input {index} of {name} has dims {shown}, but must have {counted(rank, 'dim')}"
    first = dims[0] if dims else None
    if name in BROADCASTING and version >= BROADCASTING[name]:
        together: Dims = ()
        for shape in dims:
            result = _broadcast([together, shape or ()])
            if result is None:
                return f"{name} cannot broadcast dims {dims_text(together)} and {dims_text(shape)}"
            together = result
    if name == "MatMul" and len(dims) > 1:
        return _matrix_problem(name, dims[0], dims[1], False, False)
    if name == "Gemm" and len(dims) > 1:
        return _matrix_problem(name, dims[0], dims[1], bool(get_int(node, "transA")), bool(get_int(node, "transB")))
    weights = dims[1] if len(dims) > 1 and name in ("Conv", "ConvTranspose") else None
    if first is not None and weights is not None and (len(first) < 3 or len(weights) != len(first)):
        return f"{name} has an input with dims {dims_text(first)} and weights with dims {dims_text(weights)}"
    if first is None:
        return None
    if name == "Transpose" and (perm := get_ints(node, "perm")) and sorted(perm) != list(range(len(first))):
        return f"the attribute 'perm' of Transpose is {str(perm)[:80]}, but the input has {counted(len(first), 'dim')}"
    axis = get_int(node, "axis", None) if name in WITH_AXIS else None
    if axis is not None and first and not -len(first) <= axis < len(first):
        return f"the attribute 'axis' of {name} is {axis}, but the input has {counted(len(first), 'dim')}"
    if name == "Concat" and axis is not None and first:
        return _concat_problem(dims, axis)
    return None


def _concat_problem(dims: Sequence[Dims | None], axis: int) -> str | None:
    """Why values cannot be put together along an axis: all other dims must be equal."""
    first, *others = [shape for shape in dims if shape is not None]
    for other in others:
        axes = [index for index in range(len(first)) if index != axis % len(first)]
        if len(other) != len(first) or any(differ(first[index], other[index]) for index in axes):
            return f"Concat cannot join dims {dims_text(first)} and {dims_text(other)} on axis {axis}"
    return None


def _matrix_problem(name: str, first: Dims | None, second: Dims | None, turn_a: bool, turn_b: bool) -> str | None:
    """Why two matrices cannot be multiplied."""
    if first == () or second == ():
        return f"{name} needs at least one dim, but an input has none"
    if first is None or second is None:
        return None
    inner = first[-2 if turn_a and len(first) > 1 else -1]
    other = second[0] if len(second) == 1 else second[-1 if turn_b else -2]
    if differ(inner, other) or (name == "MatMul" and _broadcast([first[:-2], second[:-2]]) is None):
        return f"{name} cannot multiply dims {dims_text(first)} and {dims_text(second)}"
    return None


def dims_of_results(node: Node, version: int, dims: Sequence[Dims | None]) -> Sequence[Dims | None]:
    """The dims of the results of a node with inputs of these dims, as far as they are plain."""
    operator = node.op_type or ""
    if operator == "Constant":
        tensor = node.attribute[0].t if len(node.attribute) == 1 else None
        return [] if tensor is None else [tuple(tensor.dims)]
    if operator in SAME:
        return [dims[0] if dims else None]
    if operator in BROADCASTING and version >= BROADCASTING[operator]:
        return [_broadcast([shape for shape in dims if shape is not None])] if None not in dims and dims else []
    if operator not in RESULTS:
        return []
    count, dims_of_result = RESULTS[operator]
    shapes = [shape for shape in dims[:count] if shape is not None]
    if not shapes or len(shapes) < (count or len(dims)):
        return []
    return [] if (result := dims_of_result(node, shapes)) is None else [result]


def _transposed(node: Node, shapes: Sequence[Dims]) -> Dims:
    shape = shapes[0]
    return tuple(shape[index] for index in get_ints(node, "perm") or reversed(range(len(shape))))


def _matrix_product(_: Node, shapes: Sequence[Dims]) -> Dims | None:
    first, second = shapes
    if len(first) < 2 or len(second) < 2:
        return None
    outer = _broadcast([first[:-2], second[:-2]])
    return None if outer is None else (*outer, first[-2], second[-1])


def _gemm(node: Node, shapes: Sequence[Dims]) -> Dims:
    first, second = shapes
    return first[bool(get_int(node, "transA"))], second[not get_int(node, "transB")]


def _convolved(node: Node, shapes: Sequence[Dims]) -> Dims:
    data, weights = shapes
    return data[0], weights[0] if node.op_type == "Conv" else None, *[None] * (len(data) - 2)


def _concatenated(node: Node, shapes: Sequence[Dims]) -> Dims | None:
    first, axis = shapes[0], get_int(node, "axis", None)
    if axis is None or not first:
        return None
    axis %= len(first)
    numbers = [dim for shape in shapes if isinstance(dim := shape[axis], int)]
    together = sum(numbers) if len(numbers) == len(shapes) else None
    return (*first[:axis], together, *first[axis + 1 :])


# How many of the first inputs must have known dims (`None`: all), and the dims of the result that follow from these.
RESULTS: dict[str, tuple[int | None, Callable[[Node, Sequence[Dims]], Dims | None]]] = {
    "Concat": (None, _concatenated),
    "Conv": (2, _convolved),
    "ConvTranspose": (2, _convolved),
    "Gemm": (2, _gemm),
    "MatMul": (2, _matrix_product),
    "Transpose": (1, _transposed),
}


def _broadcast(shapes: Sequence[Dims]) -> Dims | None:
    """The dims of values that are broadcast together, or `None` if they do not fit."""
    rank = max(map(len, shapes), default=0)
    result: list[Dim] = []
    for place in range(-rank, 0):
        dims = [shape[place] for shape in shapes if len(shape) >= -place]
        numbers = {dim for dim in dims if isinstance(dim, int) and dim != 1}
        if len(numbers - {0}) > 1:
            return None
        others = {dim for dim in dims if not isinstance(dim, int)}
        if numbers:
            result.append(numbers.pop() if len(numbers) == 1 else None)
        else:
            result.append(1 if not others else others.pop() if len(others) == 1 else None)
    return tuple(result)


def differ(one: Dim, other: Dim) -> bool:
    """Whether both dims are known and differ."""
    return isinstance(one, int) and isinstance(other, int) and one != other


def dims_text(dims: Dims | None) -> str:
    """Dims, for a message."""
    return f"[{','.join('?' if dim is None else str(dim) for dim in dims or ())}]"[:80]
