"""What is known of the values of a graph without running it: element types, dims, and small integer contents.

A `Scope` holds that knowledge for one graph and is filled front to back, a node at a time, in one pass. It is never
wrong for a valid model: where a rule is missing, or what it needs is unknown, so is its result.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from formats.rten import contents, dims, window_dims
from formats.rten.attributes import get_int
from formats.rten.dims import ValueType
from formats.rten.operators import STANDARD_DOMAINS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    import numpy as np

    from formats.ir.model import Node, Tensor, Type, ValueInfo
    from formats.rten.dims import Dim, Dims, DimsRule

    ElementRule = Callable[[Node, list[ValueType]], int | None]

FLOAT, UINT8, INT8, INT32, INT64, BOOL = 1, 2, 3, 6, 7, 9  # Spec: onnx.proto, TensorProto.DataType
UNKNOWN = ValueType()


# What a rule may raise for a node that is not well formed.
MALFORMED = (LookupError, TypeError, ValueError, ArithmeticError)


class Scope:
    """The values that the nodes of one graph can see, those of the graphs around it included."""

    def __init__(self, outer: Scope | None = None) -> None:
        self.outer = outer
        self.types: dict[str, ValueType] = {}
        self.tensors: dict[str, Tensor] = {}
        self.declared: dict[str, ValueType] = {}
        self._contents: dict[str, Dims | None] = {}

    def type_of(self, name: str) -> ValueType:
        """What is known of the value called `name`."""
        scope: Scope | None = self
        while scope is not None:
            found = scope.types.get(name)
            if found is not None:
                return found
            scope = scope.outer
        return UNKNOWN

    def constant(self, name: str) -> Tensor | None:
        """The initialiser called `name`, or `None` where the value is computed or given."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.types:
                return scope.tensors.get(name)
            scope = scope.outer
        return None

    def contents_of(self, name: str) -> Dims | None:
        """The elements of a small integer scalar or vector, as far as they are known."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope._contents:
                return scope._contents[name]
            if name in scope.types:
                tensor = scope.tensors.get(name)
                held = scope._contents[name] = None if tensor is None else _elements(tensor)
                return held
            scope = scope.outer
        return None

    def ints(self, name: str) -> tuple[int, ...] | None:
        """The elements of a small integer scalar or vector where all of them are known numbers."""
        held = self.contents_of(name)
        if held is None:
            return None
        numbers = tuple(item for item in held if isinstance(item, int))
        return numbers if len(numbers) == len(held) else None

    def numbers(self, name: str) -> list[float] | None:
        """The elements of a constant, flat, as Python numbers; `None` where it is no constant.

        Raises: TensorDataError where the data cannot be had.
        """
        tensor = self.constant(name)
        return None if tensor is None else tensor.numpy().astype(float).ravel().tolist()

    def array(self, name: str) -> np.ndarray[Any, np.dtype[Any]] | None:
        """The elements of a constant; `None` where it is no constant.

        Raises: TensorDataError where the data cannot be had.
        """
        tensor = self.constant(name)
        return None if tensor is None else tensor.numpy()

    def add_tensor(self, tensor: Tensor) -> None:
        """Know an initialiser."""
        name = tensor.name or ""
        self.types[name] = ValueType(tensor.data_type, tuple(tensor.dims))
        self.tensors[name] = tensor

    def add_input(self, name: str, value_type: ValueType) -> None:
        """Know a value that comes from outside of the graph."""
        self.types[name] = merge(value_type, self.declared.get(name))

    def declare(self, values: Iterable[ValueInfo]) -> None:
        """Take what the graph says of its values, to fill in what inference does not find out.

        Names of dimensions count in the outermost graph only: in the body of a loop one may be another size each time.
        """
        for value in values:
            if value.name and value.type is not None:
                elem_type, shape = declared_type(value.type)
                if self.outer is not None and shape is not None:
                    shape = tuple(dim if isinstance(dim, int) else None for dim in shape)
                self.declared[value.name] = ValueType(elem_type, shape)

    def forget(self, name: str) -> None:
        """Know nothing of a value any more, since it is now called something else."""
        self.types.pop(name, None)
        self._contents.pop(name, None)

    def infer(self, node: Node) -> None:
        """Know the outputs of a node whose inputs are known as far as they will be."""
        rule = RULES.get(node.op_type or "") if node.domain in STANDARD_DOMAINS else None
        declared = self.declared
        if rule is None:
            for name in node.output:
                self.types[name] = declared.get(name, UNKNOWN)
            return
        types = [self.type_of(name) if name else UNKNOWN for name in node.input]
        try:
            shapes = rule.dims(node, self, types)
        except MALFORMED:
            shapes = ()
        last = len(rule.elements) - 1
        for place, name in enumerate(node.output):
            try:
                elem_type = rule.elements[min(place, last)](node, types)
            except MALFORMED:
                elem_type = None
            found = ValueType(elem_type, shapes[place] if place < len(shapes) else None)
            self.types[name] = merge(found, declared[name]) if name in declared else found
        fold = contents.RULES.get(node.op_type or "")
        if fold is not None:
            self._fold(node, fold, types)

    def _fold(self, node: Node, fold: contents.ContentsRule, types: list[ValueType]) -> None:
        name = node.output[0] if node.output else ""
        found = self.types.get(name, UNKNOWN)
        if found.dims is None or len(found.dims) > 1 or found.elem_type not in (*contents.INTEGERS, BOOL):
            return
        try:
            held = fold(node, self, types)
        except MALFORMED:
            return
        length = found.dims[0] if found.dims else 1
        if held is not None and len(held) == length <= contents.MAX_ELEMENTS:
            self._contents[name] = held


def _elements(tensor: Tensor) -> Dims | None:
    """The elements of an initialiser if it is small, of integers, and has no more than one axis."""
    if len(tensor.dims) > 1 or tensor.data_type not in (*contents.INTEGERS, BOOL):
        return None
    if tensor.dims and not 0 <= tensor.dims[0] <= contents.MAX_ELEMENTS:
        return None
    return tuple(int(number) for number in tensor.numpy().ravel())


def declared_type(value_type: Type) -> ValueType:
    """What a `Type` message says of a tensor; of a sequence, the element type of its tensors."""
    if value_type.sequence_type is not None:
        inner = value_type.sequence_type.elem_type
        return ValueType(None if inner is None else declared_type(inner).elem_type)
    tensor = value_type.tensor_type
    if tensor is None:
        return UNKNOWN
    shape = tensor.shape
    known = None if shape is None else tuple(_declared_dim(dim.dim_value, dim.dim_param) for dim in shape.dim)
    return ValueType(tensor.elem_type or None, known)


def _declared_dim(value: int | None, name: str | None) -> Dim:
    if value is not None:
        return value if value >= 0 else None
    return name or None


def merge(found: ValueType, declared: ValueType | None) -> ValueType:
    """What inference found, completed by what was declared."""
    if declared is None or found == declared:
        return found
    elem_type = found.elem_type or declared.elem_type
    if found.dims is None:
        return ValueType(elem_type, declared.dims)
    if declared.dims is None or len(declared.dims) != len(found.dims):
        return ValueType(elem_type, found.dims)
    return ValueType(elem_type, tuple(map(_merge_dim, found.dims, declared.dims)))


def _merge_dim(found: Dim, declared: Dim) -> Dim:
    if found is None or (isinstance(declared, int) and not isinstance(found, int)):
        return declared
    return found


def _same(place: int) -> ElementRule:
    """The element type of an input."""

    def rule(node: Node, types: list[ValueType]) -> int | None:
        return types[place].elem_type

    return rule


def _fixed(elem_type: int) -> ElementRule:
    """One element type, always."""

    def rule(node: Node, types: list[ValueType]) -> int | None:
        return elem_type

    return rule


def _attribute(name: str, default: int | None) -> ElementRule:
    """The element type that an attribute gives; by default a type, or that of the first input for `None`."""

    def rule(node: Node, types: list[ValueType]) -> int | None:
        return get_int(node, name) or (types[0].elem_type if default is None else default)

    return rule


def _any_input(node: Node, types: list[ValueType]) -> int | None:
    """The element type that all inputs share."""
    return next((entry.elem_type for entry in types if entry.elem_type), None)


def _either(first: int, second: int) -> ElementRule:
    """The element type that two inputs share."""

    def rule(node: Node, types: list[ValueType]) -> int | None:
        return types[first].elem_type or types[second].elem_type

    return rule


def _quantized(node: Node, types: list[ValueType]) -> int | None:
    """The type of the zero point, the attribute where there is none, and UINT8 where nothing says otherwise."""
    if len(types) > 2 and node.input[2]:
        return types[2].elem_type
    return get_int(node, "output_dtype") or UINT8


def _dequantized(node: Node, types: list[ValueType]) -> int | None:
    return get_int(node, "output_dtype") or types[1].elem_type


def _filled(node: Node, types: list[ValueType]) -> int | None:
    """The type of the attribute `value`, a float by default."""
    value = next((attribute.t for attribute in node.attribute if attribute.name == "value"), None)
    return FLOAT if value is None else value.data_type


class Rule(NamedTuple):
    """How an operator's outputs follow from its inputs; the last element rule holds for all further outputs."""

    dims: DimsRule
    elements: tuple[ElementRule, ...] = (_same(0),)


def _rules() -> Mapping[str, Rule]:
    """The rule of each operator, in its newest form."""
    shared, truth, index = (_any_input,), (_fixed(BOOL),), (_fixed(INT64),)
    classes: list[tuple[str, Rule]] = [
        (
            "Abs Acos Acosh Asin Asinh Atan Atanh BatchNormalization BitwiseNot Ceil Celu Clip Cos Cosh CumProd CumSum Elu"
            " Erf Exp Floor Gelu HardSigmoid HardSwish Hardmax Identity InstanceNormalization LRN LayerNormalization"
            " LeakyRelu Log LogSoftmax LpNormalization MeanVarianceNormalization Mish Neg Reciprocal Relu"
            " ReverseSequence RotaryEmbedding Round ScatterElements ScatterND Selu Shrink Sigmoid Sign Sin Sinh"
            " Softmax Softplus Softsign Sqrt Swish Tan Tanh TensorScatter ThresholdedRelu Trilu",
            Rule(dims.same),
        ),
        ("GroupNormalization RMSNormalization", Rule(dims.same)),
        ("IsInf IsNaN Not", Rule(dims.same, truth)),
        ("Dropout", Rule(dims.same_all, (_same(0), _fixed(BOOL)))),
        ("Cast", Rule(dims.same, (_attribute("to", None),))),
        ("CastLike", Rule(dims.same, (_same(1),))),
        ("EyeLike Bernoulli", Rule(dims.same, (_attribute("dtype", None),))),
        ("RandomNormalLike RandomUniformLike", Rule(dims.same, (_attribute("dtype", None),))),
        ("RandomNormal RandomUniform", Rule(dims.random_shape, (_attribute("dtype", FLOAT),))),
        ("Add BitShift BitwiseAnd BitwiseOr BitwiseXor Div Max Mean Min Mod Mul Sub Sum", Rule(dims.broadcast, shared)),
        ("Pow PRelu", Rule(dims.broadcast)),
        ("And Equal Greater GreaterOrEqual Less LessOrEqual Or Xor", Rule(dims.broadcast, truth)),
        ("Where", Rule(dims.broadcast, (_either(1, 2),))),
        ("MatMul", Rule(dims.matmul, shared)),
        ("MatMulInteger", Rule(dims.matmul, (_fixed(INT32),))),
        ("Gemm", Rule(dims.gemm, shared)),
        ("Einsum", Rule(dims.einsum, shared)),
        ("Transpose", Rule(dims.transpose)),
        ("Gather", Rule(dims.gather)),
        ("GatherElements", Rule(dims.like_second)),
        ("GatherND", Rule(dims.gather_nd)),
        (
            "ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum"
            " ReduceSumSquare",
            Rule(dims.reduce),
        ),
        ("ArgMax ArgMin", Rule(dims.arg_reduce, index)),
        ("Concat", Rule(dims.concat, shared)),
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
        ("Shape", Rule(dims.shape, index)),
        ("Size SequenceLength", Rule(dims.scalar, index)),
        ("NonZero", Rule(dims.non_zero, index)),
        ("NonMaxSuppression", Rule(dims.non_max_suppression, index)),
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
        # Of a sequence, the element type is that of its tensors.
        ("ConcatFromSequence SequenceAt SequenceConstruct SequenceErase SequenceInsert", Rule(dims.unknown)),
        ("SplitToSequence", Rule(dims.unknown)),
        ("SequenceEmpty", Rule(dims.unknown, (_attribute("dtype", FLOAT),))),
    ]
    return {op_type: rule for op_types, rule in classes for op_type in op_types.split()}


RULES = _rules()
