"""The operators of RTen: one row each, read in both directions by `attribute_tables.py`.

An operator has the name of the ONNX operator that it computes, in its newest form; the rows say how many inputs and
outputs the runtime takes, which attribute table goes with it, and how each field of that table and an ONNX attribute
become one another. What older operator sets said differently is rewritten before a row is asked.

Spec: RTen 0.25.0, schema.fbs and the operator readers; ONNX, Operators.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from formats.rten.types import HOLDERS, INT32_LIMITS

if TYPE_CHECKING:
    from collections.abc import Mapping

RTEN_DOMAIN: Final = "rten"  # of the nodes of a model that was read from a .rten file
STANDARD_DOMAINS: Final = (None, "", "ai.onnx")


class Kind(Enum):
    """How the value of an ONNX attribute and of a field of an attribute table become one another."""

    INT = "INT"  # must fit the field
    BOUND = "BOUND"  # an integer of which the nearest that fits means the same
    BOOL = "BOOL"  # an ONNX integer
    FLOAT = "FLOAT"
    INTS = "INTS"
    STRING = "STRING"
    CHOICE = "CHOICE"  # an ONNX string or integer, an enumerator of RTen
    SCALAR = "SCALAR"  # an ONNX tensor of one element, a union of RTen
    GRAPH = "GRAPH"


class Field(NamedTuple):
    """One field of an attribute table, and the ONNX attribute that it comes from."""

    name: str
    kind: Kind
    default: Any = None  # what an absent attribute means, in ONNX terms; None leaves the field absent
    attribute: str = ""  # where ONNX has another name
    choices: Mapping[Any, str | None] = {}  # ONNX value to enumerator; the first of several is what reading gives
    minimum: int = INT32_LIMITS[0]  # of an integer; 0 stands for an unsigned field
    required: bool = False  # by ONNX
    later: bool = False  # runtimes of the release that we write for ignore the field

    @property
    def onnx_name(self) -> str:
        """The name of the ONNX attribute."""
        return self.attribute or self.name


class Operator(NamedTuple):
    """One operator. `inputs` and `outputs` are the most that it takes, `None` where there is no limit."""

    name: str
    inputs: int | None
    outputs: int | None = 1
    attrs: str = ""
    fields: tuple[Field, ...] = ()
    neutral: Mapping[str, tuple[Any, ...]] = {}  # attributes without a field, and the values that ask for nothing
    optional: bool = False  # the attribute table may be absent, and then has its defaults
    later: bool = False  # newer than the release that we write for


ANY: Final = ("any",)  # an attribute that does not change what inference computes, or is implied by the inputs
ONES: Final = ((1,), (1, 1), (1, 1, 1))
FLOAT_TYPES: Final = (0, 1, 10, 11, 16)  # all of them are float32 at run time

_INT, _BOOL, _FLOAT, _INTS, _CHOICE = Kind.INT, Kind.BOOL, Kind.FLOAT, Kind.INTS, Kind.CHOICE

VALUE_TYPES: Final[Mapping[int, str]] = {number: element.value_type for number, element in HOLDERS.items()}
# RTen cuts off bits only where it has eight of them; `rewriting/bits.py` cuts them off before, and truth values are
# comparisons. Floats of eight bits and less would have to be rounded as they are.
CAST_TYPES: Final = {
    number: VALUE_TYPES[number] for number in (1, 6, 3, 2, 7, 10, 11, 16, 4, 5, 12, 13, 21, 22, 25, 26)
}
QUANTIZED_TYPES: Final[Mapping[int, str | None]] = {2: "UInt8", 3: "Int8", 0: None}

_AUTO_PAD = {"NOTSET": "NotSet", "SAME_UPPER": "Same"}
_DIRECTION = {"forward": "Forward", "reverse": "Reverse", "bidirectional": "Bidirectional"}
_RESIZE_MODE = {"nearest": "Nearest", "linear": "Linear"}
_REDUCTION = {"none": "None", "add": "Add", "mul": "Mul", "min": "Min", "max": "Max"}
_PAD_MODE = {"constant": "Constant", "reflect": "Reflect", "edge": "Edge", "wrap": "Wrap"}
_COORDINATES = {
    "half_pixel": "HalfPixel",
    "asymmetric": "Asymmetric",
    "align_corners": "AlignCorners",
    "pytorch_half_pixel": "PytorchHalfPixel",
}
_NEAREST = {
    "floor": "Floor",
    "ceil": "Ceil",
    "round_prefer_floor": "RoundPreferFloor",
    "round_prefer_ceil": "RoundPreferCeil",
}


def _axis(default: int | None) -> Field:
    return Field("axis", _INT, default, required=default is None)


def _sizes(name: str, attribute: str = "", *, later: bool = False) -> Field:
    return Field(name, _INTS, attribute=attribute, minimum=0, later=later)


_PADDING = (Field("auto_pad", _CHOICE, "NOTSET", choices=_AUTO_PAD), _sizes("pads"))
_KERNEL = Field("kernel_size", _INTS, attribute="kernel_shape", minimum=0, required=True)
_GROUPS = Field("groups", _INT, 1, "group", minimum=0)
_CONV = (*_PADDING, _GROUPS, _sizes("strides"), _sizes("dilations"))
_KEEP_DIMS = Field("keep_dims", _BOOL, 1, "keepdims")
_CEIL_MODE = Field("ceil_mode", _BOOL, 0)
_SEED = Field("seed", _FLOAT)
_REDUCE = (Field("axes", _INTS), _KEEP_DIMS, Field("noop_with_empty_axes", _BOOL, 0))
_EPSILON = Field("epsilon", _FLOAT, 1e-5)
_REDUCTION_FIELD = Field("reduction", _CHOICE, "none", choices=_REDUCTION)
_RNN = (Field("direction", _CHOICE, "forward", choices=_DIRECTION), Field("hidden_size", _INT, 0, minimum=0))
_RNN_NEUTRAL = {"activation_alpha": ANY, "activation_beta": ANY, "clip": (0.0,), "layout": (0,)}
_KERNEL_IMPLIED = {"kernel_shape": ANY}  # the weight has the same shape
_FLOAT_OUTPUT = {"dtype": FLOAT_TYPES}

OPERATORS: Final[tuple[Operator, ...]] = (
    Operator("Abs", 1),
    Operator("Acos", 1),
    Operator("Acosh", 1),
    Operator("Add", 2),
    Operator("And", 2),
    Operator("ArgMax", 1, 1, "ArgMaxAttrs", (_axis(0), _KEEP_DIMS), {"select_last_index": ANY}),
    Operator("ArgMin", 1, 1, "ArgMaxAttrs", (_axis(0), _KEEP_DIMS), {"select_last_index": ANY}),
    Operator("Asin", 1),
    Operator("Asinh", 1),
    Operator("Atan", 1),
    Operator("Atanh", 1),
    Operator(
        "Attention", 7, 3, "AttentionAttrs",
        (
            Field("is_causal", _BOOL, 0),
            Field("q_num_heads", _INT, minimum=0),
            Field("kv_num_heads", _INT, minimum=0),
            Field("scale", _FLOAT),
            Field("softcap", _FLOAT, 0.0),
        ),
        {
            "qk_matmul_output_mode": ANY,  # of the fourth output, which there is not
            "softmax_precision": ANY,
            "left_window_size": (-1,),
            "right_window_size": (-1,),
        },
    ),
    Operator(
        "AveragePool", 1, 1, "AveragePoolAttrs",
        (_KERNEL, *_PADDING, _sizes("strides"), Field("count_include_pad", _BOOL, 0), _CEIL_MODE),
        {"dilations": ONES},
    ),
    Operator(
        "BatchNormalization", 5, 1, "BatchNormalizationAttrs", (_EPSILON,), {"momentum": ANY, "training_mode": (0,)}
    ),
    Operator(
        "Cast", 1, 1, "CastAttrs", (Field("to", _CHOICE, choices=CAST_TYPES, required=True),),
        {"saturate": ANY, "round_mode": ANY},  # of eight-bit floats, which RTen has not
    ),
    Operator("CastLike", 2, 1, "CastLikeAttrs", (), {"saturate": ANY, "round_mode": ANY}),
    Operator("Ceil", 1),
    Operator("Clip", 3),
    Operator("Concat", None, 1, "ConcatAttrs", (_axis(None),)),
    Operator("ConcatFromSequence", 1, 1, "ConcatFromSequenceAttrs", (_axis(None), Field("new_axis", _BOOL, 0))),
    Operator("ConstantOfShape", 1, 1, "ConstantOfShapeAttrs", (Field("value", Kind.SCALAR),)),
    Operator("Conv", 3, 1, "ConvAttrs", _CONV, _KERNEL_IMPLIED),
    Operator("ConvInteger", 4, 1, "ConvAttrs", _CONV, _KERNEL_IMPLIED),
    Operator(
        "ConvTranspose", 3, 1, "ConvTransposeAttrs",
        (
            *_PADDING,
            _GROUPS,
            _sizes("strides"),
            _sizes("output_padding"),
            _sizes("dilations", later=True),
        ),
        _KERNEL_IMPLIED,
    ),
    Operator("Cos", 1),
    Operator("Cosh", 1),
    Operator(
        "CumSum", 2, 1, "CumSumAttrs",
        (Field("exclusive", _BOOL, 0, later=True), Field("reverse", _BOOL, 0, later=True)), optional=True,
    ),
    Operator("DFT", 3, 1, "DFTAttrs", (Field("inverse", _BOOL, 0), Field("onesided", _BOOL, 0))),
    Operator(
        "DepthToSpace", 1, 1, "DepthToSpaceAttrs",
        (
            Field("mode", _CHOICE, "DCR", choices={"DCR": "DCR", "CRD": "CRD"}),
            Field("block_size", _INT, None, "blocksize", minimum=0, required=True),
        ),
    ),
    Operator(
        "DequantizeLinear", 3, 1, "DequantizeLinearAttrs", (_axis(1),),
        {"block_size": (0,), "output_dtype": FLOAT_TYPES},
    ),
    Operator("Div", 2),
    Operator("Dropout", 2, 2, "DropoutAttrs", (Field("seed", _INT),)),
    Operator("DynamicQuantizeLinear", 1, 3),
    Operator("Einsum", None, 1, "EinsumAttrs", (Field("equation", Kind.STRING, required=True),)),
    Operator("Elu", 1, 1, "EluAttrs", (Field("alpha", _FLOAT, 1.0),)),
    Operator("Equal", 2),
    Operator("Erf", 1),
    Operator("Exp", 1),
    Operator("Expand", 2),
    Operator(
        "EyeLike", 1, 1, "EyeLikeAttrs", (Field("dtype", _CHOICE, choices=VALUE_TYPES), Field("k", _INT, 0))
    ),
    Operator("Flatten", 1, 1, "FlattenAttrs", (_axis(1),)),
    Operator("Floor", 1),
    Operator("GRU", 6, 2, "GRUAttrs",
        (*_RNN, Field("linear_before_reset", _BOOL, 0)),
        {**_RNN_NEUTRAL, "activations": (("Sigmoid", "Tanh"), ("Sigmoid", "Tanh") * 2)},
    ),
    Operator("Gather", 2, 1, "GatherAttrs", (_axis(0),)),
    Operator("GatherElements", 2, 1, "GatherAttrs", (_axis(0),)),
    Operator("GatherND", 2, 1, "GatherNDAttrs", (Field("batch_dims", _INT, 0),)),
    Operator(
        "Gelu", 1, 1, "GeluAttrs",
        (Field("approximate", _CHOICE, "none", choices={"none": "None", "tanh": "Tanh"}),),
    ),
    Operator(
        "Gemm", 3, 1, "GemmAttrs",
        (
            Field("alpha", _FLOAT, 1.0),
            Field("beta", _FLOAT, 1.0),
            Field("transpose_a", _BOOL, 0, "transA"),
            Field("transpose_b", _BOOL, 0, "transB"),
        ),
    ),
    Operator("GlobalAveragePool", 1),
    Operator("GlobalMaxPool", 1),
    Operator("Greater", 2),
    Operator("GreaterOrEqual", 2),
    Operator(
        "GridSample", 2, 1, "GridSampleAttrs", (Field("align_corners", _BOOL, 0),),
        {"mode": ("linear", "bilinear"), "padding_mode": ("zeros",)},
    ),
    Operator(
        "HardSigmoid", 1, 1, "HardSigmoidAttrs", (Field("alpha", _FLOAT, 0.2), Field("beta", _FLOAT, 0.5))
    ),
    Operator("HardSwish", 1),
    Operator("Identity", 1),
    Operator(
        "If", 1, None, "IfAttrs",
        (Field("then_branch", Kind.GRAPH, required=True), Field("else_branch", Kind.GRAPH, required=True)),
    ),
    Operator("InstanceNormalization", 3, 1, "BatchNormalizationAttrs", (_EPSILON,)),
    Operator("IsInf", 1, 1, "IsInfAttrs", (), {"detect_negative": (1,), "detect_positive": (1,)}),
    Operator("IsNaN", 1),
    Operator(
        "LSTM", 7, 3, "LSTMAttrs", _RNN,
        {
            **_RNN_NEUTRAL,
            "activations": (("Sigmoid", "Tanh", "Tanh"), ("Sigmoid", "Tanh", "Tanh") * 2),
            "input_forget": (0,),
        },
    ),
    Operator("LayerNormalization", 3, 1, "LayerNormalizationAttrs", (_axis(-1), _EPSILON), {"stash_type": ANY}),
    Operator("LeakyRelu", 1, 1, "LeakyReluAttrs", (Field("alpha", _FLOAT, 0.01),)),
    Operator("Less", 2),
    Operator("LessOrEqual", 2),
    Operator("Log", 1),
    Operator("LogSoftmax", 1, 1, "SoftmaxAttrs", (_axis(-1),)),
    Operator("Loop", None, None, "LoopAttrs", (Field("body", Kind.GRAPH, required=True),)),
    Operator(
        "LpNormalization", 1, 1, "LpNormalizationAttrs", (_axis(-1), Field("p", _INT, 2, minimum=0)), later=True
    ),
    Operator("MatMul", 2),
    Operator("MatMulInteger", 4),
    Operator("Max", None),
    Operator(
        "MaxPool", 1, 1, "MaxPoolAttrs", (_KERNEL, *_PADDING, _sizes("strides"), _CEIL_MODE),
        {"dilations": ONES, "storage_order": ANY},  # the order of the second output, which there is not
    ),
    Operator("Mean", None),
    Operator("Min", None),
    Operator("Mod", 2, 1, "ModAttrs", (Field("fmod", _BOOL, 0),)),
    Operator("Mul", 2),
    Operator(
        "Multinomial", 1, 1, "MultinomialAttrs", (Field("sample_size", _INT, 1), _SEED), {"dtype": (6, 7)}
    ),
    Operator("Neg", 1),
    Operator(
        "NonMaxSuppression", 5, 1, "NonMaxSuppressionAttrs",
        (
            Field(
                "box_order", _CHOICE, 0, "center_point_box",
                choices={0: "TopLeftBottomRight", 1: "CenterWidthHeight"},
            ),
        ),
    ),
    Operator("NonZero", 1),
    Operator("Not", 1),
    Operator("OneHot", 3, 1, "OneHotAttrs", (_axis(-1),)),
    Operator("Or", 2),
    Operator("PRelu", 2),
    Operator(
        "Pad", 4, 1, "PadAttrs", (Field("mode", _CHOICE, "constant", choices=_PAD_MODE),), optional=True
    ),
    Operator("Pow", 2),
    Operator(
        "QuantizeLinear", 3, 1, "QuantizeLinearAttrs",
        (_axis(1), Field("output_dtype", _CHOICE, choices=QUANTIZED_TYPES)),
        {"saturate": ANY, "precision": FLOAT_TYPES, "block_size": (0,)},
    ),
    Operator(
        "RandomNormal", 0, 1, "RandomNormalAttrs",
        (
            Field("mean", _FLOAT, 0.0),
            Field("scale", _FLOAT, 1.0),
            _SEED,
            Field("shape", _INTS, minimum=0, required=True),
        ),
        _FLOAT_OUTPUT,
    ),
    Operator(
        "RandomNormalLike", 1, 1, "RandomNormalLikeAttrs",
        (Field("mean", _FLOAT, 0.0), Field("scale", _FLOAT, 1.0), _SEED), _FLOAT_OUTPUT,
    ),
    Operator(
        "RandomUniform", 0, 1, "RandomUniformAttrs",
        (
            Field("shape", _INTS, minimum=0, required=True),
            Field("high", _FLOAT, 1.0),
            Field("low", _FLOAT, 0.0),
            _SEED,
        ),
        _FLOAT_OUTPUT,
    ),
    Operator(
        "RandomUniformLike", 1, 1, "RandomUniformLikeAttrs",
        (Field("high", _FLOAT, 1.0), Field("low", _FLOAT, 0.0), _SEED), _FLOAT_OUTPUT,
    ),
    Operator("Range", 3, 1, neutral={"stash_type": ANY}),
    Operator("Reciprocal", 1),
    Operator("ReduceL1", 2, 1, "ReduceMeanAttrs", _REDUCE),
    Operator("ReduceL2", 2, 1, "ReduceMeanAttrs", _REDUCE),
    Operator("ReduceLogSum", 2, 1, "ReduceMeanAttrs", _REDUCE, later=True),
    Operator("ReduceLogSumExp", 2, 1, "ReduceMeanAttrs", _REDUCE, later=True),
    Operator("ReduceMax", 2, 1, "ReduceMeanAttrs", _REDUCE),
    Operator("ReduceMean", 2, 1, "ReduceMeanAttrs", _REDUCE),
    Operator("ReduceMin", 2, 1, "ReduceMeanAttrs", _REDUCE),
    Operator("ReduceProd", 2, 1, "ReduceMeanAttrs", _REDUCE),
    Operator("ReduceSum", 2, 1, "ReduceMeanAttrs", _REDUCE),
    Operator("ReduceSumSquare", 2, 1, "ReduceMeanAttrs", _REDUCE),
    Operator("Relu", 1),
    Operator("Reshape", 2, 1, "ReshapeAttrs", (Field("allow_zero", _BOOL, 0, "allowzero"),)),
    Operator(
        "Resize", 4, 1, "ResizeAttrs",
        (
            Field("mode", _CHOICE, "nearest", choices=_RESIZE_MODE),
            Field("coord_mode", _CHOICE, "half_pixel", "coordinate_transformation_mode", choices=_COORDINATES),
            Field("nearest_mode", _CHOICE, "round_prefer_floor", choices=_NEAREST),
        ),
        {
            "antialias": (0,),
            "cubic_coeff_a": ANY,
            "exclude_outside": (0,),
            "extrapolation_value": ANY,  # of tf_crop_and_resize, which there is not
            "keep_aspect_ratio_policy": ("stretch",),
        },
    ),
    Operator(
        "ReverseSequence", 2, 1, "ReverseSequenceAttrs",
        (Field("batch_axis", _INT, 1), Field("time_axis", _INT, 0)),
    ),
    Operator(
        "RotaryEmbedding", 4, 1, "RotaryEmbeddingAttrs",
        (
            Field("interleaved", _BOOL, 0),
            Field("num_heads", _INT, 0, minimum=0),
            Field("rotary_embedding_dim", _INT, 0, minimum=0),
        ),
    ),
    Operator("Round", 1),
    Operator("STFT", 4, 1, "STFTAttrs", (Field("onesided", _BOOL, 1),)),
    Operator("Scatter", 3, 1, "ScatterElementsAttrs", (_axis(0), _REDUCTION_FIELD)),
    Operator("ScatterElements", 3, 1, "ScatterElementsAttrs", (_axis(0), _REDUCTION_FIELD)),
    Operator("ScatterND", 3, 1, "ScatterNDAttrs", (_REDUCTION_FIELD,)),
    Operator("SequenceAt", 2),
    Operator("SequenceConstruct", None),
    Operator("SequenceEmpty", 0, 1, "SequenceEmptyAttrs", (Field("dtype", _CHOICE, choices=VALUE_TYPES),)),
    Operator("SequenceErase", 2),
    Operator("SequenceInsert", 3),
    Operator("SequenceLength", 1),
    Operator(
        "Shape", 1, 1, "ShapeAttrs", (Field("start", Kind.BOUND), Field("end", Kind.BOUND)), optional=True
    ),
    Operator("Sigmoid", 1),
    Operator("Sign", 1),
    Operator("Sin", 1),
    Operator("Sinh", 1),
    Operator("Size", 1),
    Operator("Slice", 5),
    Operator("Softmax", 1, 1, "SoftmaxAttrs", (_axis(-1),)),
    Operator("Softplus", 1),
    Operator("Split", 2, None, "SplitAttrs", (_axis(0), Field("num_outputs", _INT))),
    Operator("SplitToSequence", 2, 1, "SplitToSequenceAttrs", (_axis(0), _KEEP_DIMS)),
    Operator("Sqrt", 1),
    Operator("Squeeze", 2),
    Operator("Sub", 2),
    Operator("Sum", None),
    Operator("Tan", 1),
    Operator("Tanh", 1),
    Operator("Tile", 2),
    Operator(
        "TopK", 2, 2, "TopKAttrs",
        (_axis(-1), Field("largest", _BOOL, 1), Field("sorted", _BOOL, 1)),
    ),
    Operator("Transpose", 1, 1, "TransposeAttrs", (_sizes("perm"),)),
    Operator("Trilu", 2, 1, "TriluAttrs", (Field("upper", _BOOL, 1),)),
    Operator("Unsqueeze", 2),
    Operator("Upsample", 2, 1, "UpsampleAttrs", (Field("mode", _CHOICE, "nearest", choices=_RESIZE_MODE),)),
    Operator("Where", 3),
    Operator("Xor", 2),
)  # fmt: skip

BY_NAME: Final[Mapping[str, Operator]] = {row.name: row for row in OPERATORS}
