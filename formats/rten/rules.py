"""Which rule gives the element types and the dims of each operator's outputs.

Spec: ONNX, Operators.md, the type constraints.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from formats.rten import dims, window_dims
from formats.rten.convert.value_types import (
    BOOL,
    FLOAT,
    INT32,
    INT64,
    UINT8,
    UNKNOWN,
    ValueType,
    declared_type,
    nameless,
)
from formats.rten.graph.attributes import get_int

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from formats.ir.model import Node
    from formats.rten.convert.scope import Scope
    from formats.rten.convert.value_types import Dims
    from formats.rten.dims import DimsRule

    ElementRule = Callable[[Node, list[ValueType], int], int | None]  # the last is the place of the output


def _same(place: int) -> ElementRule:
    """The element type of an input."""

    def rule(node: Node, types: list[ValueType], output: int) -> int | None:
        return types[place].elem_type

    return rule


def _fixed(elem_type: int) -> ElementRule:
    """One element type, always."""

    def rule(node: Node, types: list[ValueType], output: int) -> int | None:
        return elem_type

    return rule


def _attribute(name: str, default: int | None) -> ElementRule:
    """The element type that an attribute gives; by default a type, or that of the first input for `None`."""

    def rule(node: Node, types: list[ValueType], output: int) -> int | None:
        return get_int(node, name) or (types[0].elem_type if default is None else default)

    return rule


def _any_input(node: Node, types: list[ValueType], output: int) -> int | None:
    """The element type that all inputs share."""
    return next((entry.elem_type for entry in types if entry.elem_type), None)


def _either(first: int, second: int) -> ElementRule:
    """The element type that two inputs share."""

    def rule(node: Node, types: list[ValueType], output: int) -> int | None:
        return types[first].elem_type or types[second].elem_type

    return rule


def _quantized(node: Node, types: list[ValueType], output: int) -> int | None:
    """The type of the zero point, the attribute where there is none, and UINT8 where nothing says otherwise."""
    if len(types) > 2 and node.input[2]:
        return types[2].elem_type
    return get_int(node, "output_dtype") or UINT8


def _dequantized(node: Node, types: list[ValueType], output: int) -> int | None:
    return get_int(node, "output_dtype") or types[1].elem_type


def _filled(node: Node, types: list[ValueType], output: int) -> int | None:
    """The type of the attribute `value`, a float by default."""
    value = next((attribute.t for attribute in node.attribute if attribute.name == "value"), None)
    return FLOAT if value is None else value.data_type


def _subgraph_outputs(node: Node) -> list[list[ValueType]]:
    """What each subgraph of a node says of its outputs."""
    graphs = [attribute.g for attribute in node.attribute if attribute.g is not None]
    return [
        [UNKNOWN if value.type is None else nameless(declared_type(value.type)) for value in graph.output]
        for graph in graphs
    ]


def _branch_dims(node: Node, scope: Scope, types: list[ValueType]) -> list[Dims | None]:
    """Where all branches agree, their dims."""
    branches = zip(*_subgraph_outputs(node), strict=True)
    return [first.dims if all(first.dims == other.dims for other in rest) else None for first, *rest in branches]


def _loop_dims(node: Node, scope: Scope, types: list[ValueType]) -> list[Dims | None]:
    """Of carried values nothing, since they may change; what is collected has a row for each step."""
    carried, collected = len(node.input) - 2, _subgraph_outputs(node)[0][1:]
    return [None] * carried + [None if kind.dims is None else (None, *kind.dims) for kind in collected[carried:]]


def _subgraph_element(node: Node, types: list[ValueType], output: int) -> int | None:
    """The element type of the output of a subgraph: that of an If is at the same place, a Loop's one further."""
    return _subgraph_outputs(node)[0][output + (node.op_type == "Loop")].elem_type


class Rule(NamedTuple):
    """How an operator's outputs follow from its inputs; the last element rule holds for all further outputs."""

    dims: DimsRule
    elements: tuple[ElementRule, ...] = (_same(0),)


_SHARED, _TRUTH, _INDEX = (_any_input,), (_fixed(BOOL),), (_fixed(INT64),)

_CLASSES: tuple[tuple[str, Rule], ...] = (
    (
        "Abs Acos Acosh Asin Asinh Atan Atanh BatchNormalization BitwiseNot Ceil Celu Clip Cos Cosh CumProd CumSum"
        " Elu Erf Exp Floor Gelu HardSigmoid HardSwish Hardmax Identity InstanceNormalization LRN"
        " LayerNormalization LeakyRelu Log LogSoftmax LpNormalization MeanVarianceNormalization Mish Neg"
        " Reciprocal Relu ReverseSequence RotaryEmbedding Round ScatterElements ScatterND Selu Shrink Sigmoid Sign"
        " Sin Sinh Softmax Softplus Softsign Sqrt Swish Tan Tanh TensorScatter ThresholdedRelu Trilu",
        Rule(dims.same),
    ),
    ("GroupNormalization RMSNormalization", Rule(dims.same)),
    ("IsInf IsNaN Not", Rule(dims.same, _TRUTH)),
    ("Dropout", Rule(dims.same_all, (_same(0), _fixed(BOOL)))),
    ("Cast", Rule(dims.same, (_attribute("to", None),))),
    ("CastLike", Rule(dims.same, (_same(1),))),
    ("EyeLike Bernoulli", Rule(dims.same, (_attribute("dtype", None),))),
    ("RandomNormalLike RandomUniformLike", Rule(dims.same, (_attribute("dtype", None),))),
    ("RandomNormal RandomUniform", Rule(dims.random_shape, (_attribute("dtype", FLOAT),))),
    ("Add BitShift BitwiseAnd BitwiseOr BitwiseXor Div Max Mean Min Mod Mul Sub Sum", Rule(dims.broadcast, _SHARED)),
    ("Pow PRelu", Rule(dims.broadcast)),
    ("And Equal Greater GreaterOrEqual Less LessOrEqual Or Xor", Rule(dims.broadcast, _TRUTH)),
    ("Where", Rule(dims.broadcast, (_either(1, 2),))),
    ("MatMul", Rule(dims.matmul, _SHARED)),
    ("MatMulInteger", Rule(dims.matmul, (_fixed(INT32),))),
    ("Gemm", Rule(dims.gemm, _SHARED)),
    ("Einsum", Rule(dims.einsum, _SHARED)),
    ("Transpose", Rule(dims.transpose)),
    ("Gather", Rule(dims.gather)),
    ("GatherElements", Rule(dims.like_second)),
    ("GatherND", Rule(dims.gather_nd)),
    (
        "ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum"
        " ReduceSumSquare",
        Rule(dims.reduce),
    ),
    ("ArgMax ArgMin", Rule(dims.arg_reduce, _INDEX)),
    ("Concat", Rule(dims.concat, _SHARED)),
    ("Reshape", Rule(dims.reshape)),
    ("Flatten", Rule(dims.flatten)),
    ("Squeeze", Rule(dims.squeeze)),
    ("Unsqueeze", Rule(dims.unsqueeze)),
    ("Expand", Rule(dims.expand)),
    ("ConstantOfShape", Rule(dims.constant_of_shape, (_filled,))),
    ("Tile", Rule(dims.tile)),
    ("Slice", Rule(dims.slice_)),
    ("Split", Rule(dims.split)),
    ("Pad", Rule(dims.pad)),
    ("TopK", Rule(dims.top_k, (_same(0), _fixed(INT64)))),
    ("OneHot", Rule(dims.one_hot, (_same(2),))),
    ("Shape", Rule(dims.shape, _INDEX)),
    ("Size SequenceLength", Rule(dims.scalar, _INDEX)),
    ("NonZero", Rule(dims.non_zero, _INDEX)),
    ("NonMaxSuppression", Rule(dims.non_max_suppression, _INDEX)),
    ("Range", Rule(dims.arange)),
    ("Multinomial", Rule(dims.unknown, (_attribute("dtype", INT32),))),
    ("Conv", Rule(window_dims.conv)),
    ("ConvInteger", Rule(window_dims.conv, (_fixed(INT32),))),
    ("ConvTranspose", Rule(window_dims.conv_transpose)),
    ("AveragePool LpPool", Rule(window_dims.pool)),
    ("MaxPool", Rule(window_dims.pool, (_same(0), _fixed(INT64)))),
    ("GlobalAveragePool GlobalLpPool GlobalMaxPool", Rule(window_dims.global_pool)),
    ("Resize", Rule(window_dims.resize)),
    ("DepthToSpace", Rule(window_dims.depth_to_space)),
    ("GridSample", Rule(window_dims.grid_sample)),
    ("GRU LSTM RNN", Rule(window_dims.recurrent)),
    ("Attention", Rule(window_dims.attention)),
    ("QuantizeLinear", Rule(dims.same, (_quantized,))),
    ("DequantizeLinear", Rule(dims.same, (_dequantized,))),
    ("DynamicQuantizeLinear", Rule(dims.dynamic_quantize, (_fixed(UINT8), _fixed(FLOAT), _fixed(UINT8)))),
    ("QLinearMatMul", Rule(dims.unknown, (_same(7),))),
    ("QLinearConv", Rule(dims.unknown, (_same(7),))),
    ("DFT STFT AffineGrid Col2Im Compress Det MaxUnpool SpaceToDepth", Rule(dims.unknown)),
    ("If", Rule(_branch_dims, (_subgraph_element,))),
    ("Loop", Rule(_loop_dims, (_subgraph_element,))),
    # Of a sequence, the element type and the dims are those of its tensors.
    ("SequenceAt SequenceErase", Rule(dims.same)),
    ("SequenceConstruct SequenceInsert", Rule(dims.joined)),
    ("SplitToSequence", Rule(dims.split_to_sequence)),
    ("ConcatFromSequence", Rule(dims.concat_from_sequence)),
    ("SequenceEmpty", Rule(dims.unknown, (_attribute("dtype", FLOAT),))),
)

RULES: Mapping[str, Rule] = {op_type: rule for op_types, rule in _CLASSES for op_type in op_types.split()}
