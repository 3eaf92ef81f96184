"""Small models of single operators in forms that RTen lacks, for the tests of legalisation and inference.

Each is written for the operator set that it names; if onnxruntime does not support it, the case contains the right
outputs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import helper, numpy_helper

from formats.ir.model import Model
from formats.onnxpb.wire.decoder import decode
from formats.onnxpb.wire.encoder import encode
from formats.tensordata.sources.source import Literal, Source
from tests.rten import evaluation

CONTRIB = "com.microsoft"


class Case(NamedTuple):
    """A model in short form: nodes, inputs and constants."""

    name: str
    version: int
    nodes: list[onnx.NodeProto]
    inputs: Mapping[str, np.ndarray]
    constants: Mapping[str, np.ndarray] = {}
    expected: list[np.ndarray] | None = None  # if onnxruntime does not support the operator set
    exact: bool = False
    outputs: tuple[str, ...] = ("y",)
    symbolic: bool = False  # the dims of the inputs are not declared
    steps: int = 0  # the allowed difference of quantised results: RTen multiplies by the reciprocal of a scale
    onnxruntime: bool = True  # runs the legal form, which is always ONNX

    def proto(self) -> onnx.ModelProto:
        """Return the model as a message of onnx."""
        inputs = [
            helper.make_tensor_value_info(
                name,
                helper.np_dtype_to_tensor_dtype(value.dtype),
                [f"{name}_{axis}" for axis in range(value.ndim)] if self.symbolic else value.shape,
            )
            for name, value in self.inputs.items()
        ]
        outputs = [onnx.ValueInfoProto(name=name) for name in self.outputs]
        constants = [numpy_helper.from_array(np.asarray(value), name) for name, value in self.constants.items()]
        graph = helper.make_graph(self.nodes, self.name, inputs, outputs, constants)
        domains = {node.domain for node in self.nodes if node.domain}
        imports = [
            helper.make_opsetid("", self.version),
            *(helper.make_opsetid(domain, 1) for domain in sorted(domains)),
        ]
        return helper.make_model(graph, opset_imports=imports, ir_version=10)

    def model(self) -> Model:
        """Return the model in our classes."""
        return decode(Literal(self.proto().SerializeToString()), Model)

    def reference(self) -> list[Any]:
        """Return the outputs of the model, computed by onnxruntime if they are not given."""
        return self.expected if self.expected is not None else run(self.proto(), self.inputs)


def run(proto: onnx.ModelProto, inputs: Mapping[str, np.ndarray]) -> list[Any]:
    """Return the outputs of onnxruntime, which does not rewrite the model; skip the test if it is too old to judge."""
    import onnxruntime

    evaluation.need_judge()
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    return evaluation.session(proto.SerializeToString(), options).run(
        None, {name: np.asarray(value) for name, value in inputs.items()}
    )


def to_proto(model: Model) -> onnx.ModelProto:
    """Return one of our models as a message of onnx."""
    data = b"".join(part.read() if isinstance(part, Source) else bytes(part) for part in encode(model))
    return onnx.ModelProto.FromString(data)


_RANDOM = np.random.default_rng(7)


def floats(*dims: int) -> np.ndarray:
    """Return numbers between -2 and 2."""
    return _RANDOM.uniform(-2, 2, dims).astype(np.float32)


def numbers(*dims: int, dtype: str = "int64", low: int = -9, high: int = 9) -> np.ndarray:
    """Return whole numbers."""
    return _RANDOM.integers(low, high, dims).astype(dtype)


def int64(*values: int) -> np.ndarray:
    """Return a vector."""
    return np.array(values, np.int64)


def float32(*values: float) -> np.ndarray:
    """Return a vector."""
    return np.array(values, np.float32)


def node(op_type: str, inputs: str, outputs: str = "y", **attributes: Any) -> onnx.NodeProto:
    """Return a node; names are separated by spaces, and `_` is an omitted one."""
    names = [["" if name == "_" else name for name in text.split()] for text in (inputs, outputs)]
    return helper.make_node(op_type, *names, **attributes)


def one(name: str, version: int, op_type: str, inputs: Mapping[str, np.ndarray], given: str = "", **rest: Any) -> Case:
    """Return a case of one node with `given` as inputs, by default all; capitals in `rest` are fields of the case."""
    fields = {key.lower(): rest.pop(key) for key in list(rest) if key.isupper() and key.lower() in Case._fields}
    constants = fields.get("constants", {})
    outputs = fields.get("outputs", ("y",))
    names = given or " ".join([*inputs, *constants])
    return Case(name, version, [node(op_type, names, " ".join(outputs), **rest)], inputs, **fields)


def softmax(x: np.ndarray, axis: int | tuple[int, ...]) -> np.ndarray:
    """Return the exponentials as parts of their sum."""
    grown = np.exp(x - x.max(axis, keepdims=True))
    return grown / grown.sum(axis, keepdims=True)


X = floats(2, 3, 4)
FOUR = floats(4)
_EIGHT = numbers(1, 8, 2, 3)
IMAGE = floats(1, 4, 9, 9)
_BYTES = np.random.default_rng(3).integers(0, 255, (3, 4)).astype(np.uint8)
_OTHERS = np.random.default_rng(4).integers(0, 255, (4, 2)).astype(np.uint8)
BYTES = numbers(2, 3, dtype="uint8", low=0, high=255)
SIGNED = numbers(2, 3, dtype="int8", low=-128, high=127)
CHANNELS = floats(3)

OLD_FORMS = [
    one("add_axis", 6, "Add", {"a": X, "b": CHANNELS}, broadcast=1, axis=1, EXPECTED=[X + CHANNELS[:, None]]),
    one("mul_trailing", 6, "Mul", {"a": X, "b": FOUR}, broadcast=1, axis=2, consumed_inputs=[0, 0],
        EXPECTED=[X * FOUR]),
    one("prelu_channels", 6, "PRelu", {"x": X, "s": CHANNELS}, EXPECTED=[np.where(X < 0, X * CHANNELS[:, None], X)]),
    one("cast_name", 1, "Cast", {"x": X}, to="INT32", EXPECTED=[X.astype(np.int32)]),
    one("clip_attributes", 6, "Clip", {"x": X}, min=-1.0, max=0.5, EXPECTED=[X.clip(-1, 0.5)]),
    one("clip_one_bound", 10, "Clip", {"x": X}, max=0.5),
    one("concat_default", 1, "Concat", {"a": X, "b": X}, EXPECTED=[np.concatenate([X, X], 1)]),
    one("pad_1", 1, "Pad", {"x": X}, paddings=[0, 1, 0, 0, 0, 2], EXPECTED=[np.pad(X, [(0, 0), (1, 0), (0, 2)])]),
    one("pad_2", 10, "Pad", {"x": X}, pads=[0, 1, 0, 0, 0, 2], value=1.5),
    one("reshape_1", 1, "Reshape", {"x": X}, shape=[0, -1], EXPECTED=[X.reshape(2, 12)]),
    one("slice_1", 9, "Slice", {"x": X}, starts=[1, -3], ends=[9223372036854775807, -1], axes=[1, 2]),
    one("split_1", 1, "Split", {"x": X}, axis=2, split=[1, 3], OUTPUTS=("a", "b"), EXPECTED=[X[..., :1], X[..., 1:]]),
    one("split_1_input", 1, "Split", {"x": X}, "x n", axis=2, CONSTANTS={"n": float32(1, 3)}, OUTPUTS=("a", "b"),
        EXPECTED=[X[..., :1], X[..., 1:]]),
    one("split_equal", 11, "Split", {"x": X}, axis=2, OUTPUTS=("a", "b")),
    one("split_uneven", 18, "Split", {"x": floats(7)}, num_outputs=3, OUTPUTS=("a", "b", "c")),
    one("squeeze_1", 11, "Squeeze", {"x": X[:1]}, axes=[0]),
    one("unsqueeze_1", 11, "Unsqueeze", {"x": X}, axes=[0, 4]),
    one("reduce_axes", 12, "ReduceSum", {"x": X}, axes=[-1, 0], keepdims=0),
    one("reduce_all", 17, "ReduceMax", {"x": X}, keepdims=0),
    one("top_k_1", 9, "TopK", {"x": X}, k=2, axis=1, OUTPUTS=("y", "i")),
    one("softmax_11", 11, "Softmax", {"x": X}),
    one("softmax_last", 11, "Softmax", {"x": X}, axis=2),
    one("log_softmax_1", 1, "LogSoftmax", {"x": X}, axis=1, EXPECTED=[np.log(softmax(X, (1, 2)))]),
    one("hardmax_11", 11, "Hardmax", {"x": X}),
    one("hardmax", 13, "Hardmax", {"x": X}, axis=1),
    one("batch_normalization_1", 1, "BatchNormalization", {"x": X},  "x s b m v", is_test=1, epsilon=0.0,
        CONSTANTS={"s": CHANNELS, "b": CHANNELS, "m": float32(0, 0, 0), "v": float32(1, 1, 1)},
        EXPECTED=[X * CHANNELS[:, None] + CHANNELS[:, None]]),
    one("batch_normalization_8", 8, "BatchNormalization", {"x": X}, "x s b m v",
        CONSTANTS={"s": CHANNELS, "b": CHANNELS, "m": CHANNELS, "v": np.abs(CHANNELS)}),
    one("dropout_6", 6, "Dropout", {"x": X}, is_test=1, ratio=0.4, EXPECTED=[X]),
    one("dropout_7", 7, "Dropout", {"x": X}, ratio=0.4),
    one("dropout_mask", 12, "Dropout", {"x": X}, OUTPUTS=("y", "m")),
    one("tile_1", 1, "Tile", {"x": X}, "x n a", CONSTANTS={"n": float32(2), "a": float32(1)},
        EXPECTED=[np.tile(X, (1, 2, 1))]),
    one("upsample_7", 7, "Upsample", {"x": IMAGE}, scales=[1.0, 1.0, 2.0, 3.0]),
    one("upsample_9", 9, "Upsample", {"x": IMAGE}, "x s", mode="linear", CONSTANTS={"s": float32(1, 1, 2, 2)}),
    one("resize_10", 10, "Resize", {"x": IMAGE}, "x s", CONSTANTS={"s": float32(1, 1, 2, 2)}),
    *(one(f"tf_idf_{mode.lower()}_{name}", 17, "TfIdfVectorizer", {"x": np.int32([[1, 3, 2, 3], [2, 2, 1, 3]])},
          mode=mode, min_gram_length=1, max_gram_length=2, max_skip_count=1, ngram_counts=[0, 2],
          ngram_indexes=[3, 0, 1], pool_int64s=[2, 3, 1, 3],
          **({"weights": [0.5, 2.0, 3.0]} if name == "weighted" else {}))
      for mode in ("TF", "IDF", "TFIDF") for name in ("weighted", "plain")),
    one("matmul_integer_zeros_of_rows_and_columns", 17, "MatMulInteger", {"x": _BYTES}, "x w a b",
        CONSTANTS={"w": _OTHERS, "a": np.uint8([1, 0, 200]), "b": np.uint8([7, 9])},
        EXPECTED=[(_BYTES.astype("int32") - np.int32([[1], [0], [200]])) @ (_OTHERS.astype("int32") - [7, 9])]),
    one("resize_10_up_and_down", 10, "Resize", {"x": IMAGE}, "x s", CONSTANTS={"s": float32(1, 1, 1.5, 0.5)}),
    one("resize_10_down", 10, "Resize", {"x": IMAGE}, "x s", CONSTANTS={"s": float32(1, 1, 0.4, 0.4)}),
    one("resize_11", 11, "Resize", {"x": IMAGE}, "x r s", mode="linear",
        CONSTANTS={"r": float32(), "s": float32(1, 1, 2, 2)}),
    one("dft_17", 17, "DFT", {"x": floats(1, 8, 3, 1)}, axis=1),
    one("grid_sample_16", 16, "GridSample", {"x": floats(1, 2, 4, 4), "g": floats(1, 3, 3, 2) / 2}, mode="bilinear"),
    one("scatter", 9, "Scatter", {"x": X, "i": numbers(2, 3, 4, low=0, high=2), "u": X}, axis=1, EXPECTED=None),
    one("selu_1", 1, "Selu", {"x": X}, EXPECTED=[1.0507 * np.where(X > 0, X, 1.6732 * (np.exp(X) - 1))]),
    one("group_normalization_18", 18, "GroupNormalization", {"x": floats(2, 4, 5)}, "x s b", num_groups=2,
        CONSTANTS={"s": floats(2), "b": floats(2)}),
]  # fmt: skip

ELEMENTWISE = [
    one("cast_bool", 13, "Cast", {"x": np.array([0, 0.5, 2.5, -1, np.nan], np.float32)}, to=9),
    one("cast_bool_bytes", 13, "Cast", {"x": BYTES}, to=9),
    one("cast_like", 15, "CastLike", {"x": X, "t": np.array([True])}, EXPECTED=None),
    one("pow_integer", 15, "Pow", {"x": np.abs(X), "e": numbers(4, low=0, high=4)}),
    one("relu_integer", 14, "Relu", {"x": numbers(5, dtype="int32")}),
    one("sign_exact", 13, "Sign", {"x": float32(-2, -0.0, 0.0, 3)}, EXACT=True),
    one("softplus_exact", 1, "Softplus", {"x": float32(-100, -20, -1, 0, 1, 20, 90, 200)}, EXACT=True),
    one("is_inf_positive", 20, "IsInf", {"x": float32(1, np.inf, -np.inf, np.nan)}, detect_negative=0),
    one("is_inf_negative", 10, "IsInf", {"x": float32(1, np.inf, -np.inf, np.nan)}, detect_positive=0),
    one("is_inf_neither", 10, "IsInf", {"x": float32(1, np.inf)}, detect_positive=0, detect_negative=0),
    one("bit_shift_left", 11, "BitShift", {"x": BYTES, "n": np.array([1, 3, 9], np.uint8)}, direction="LEFT",
        EXPECTED=[(BYTES.astype(int) << [1, 3, 9]).astype(np.uint8)]),
    one("bit_shift_right", 11, "BitShift", {"x": BYTES, "n": np.array([1, 3, 2], np.uint8)}, direction="RIGHT"),
    one("bitwise_not", 18, "BitwiseNot", {"x": numbers(5, dtype="int32")}),
    one("bitwise_not_bytes", 18, "BitwiseNot", {"x": BYTES}),
    one("celu", 12, "Celu", {"x": X}, alpha=0.5),
    one("selu", 6, "Selu", {"x": X}),
    one("mish", 18, "Mish", {"x": X}),
    one("shrink", 9, "Shrink", {"x": X}, lambd=0.7, bias=0.2),
    one("softsign", 1, "Softsign", {"x": X}),
    one("thresholded_relu", 10, "ThresholdedRelu", {"x": X}, alpha=0.3),
    one("swish", 24, "Swish", {"x": X}, alpha=1.5, EXPECTED=[X / (1 + np.exp(-1.5 * X))]),
    one("add_bytes", 14, "Add", {"a": BYTES, "b": BYTES[:1]}, EXPECTED=[BYTES + BYTES[:1]]),
    one("sub_bytes", 14, "Sub", {"a": BYTES, "b": BYTES[:1]}, EXPECTED=[BYTES - BYTES[:1]]),
    one("div_signed_bytes", 14, "Div", {"a": SIGNED, "b": np.array([3, -5, 7], np.int8)}, EXPECTED=None),
    one("max_bytes", 13, "Max", {"a": BYTES, "b": BYTES[:1], "c": BYTES[1:]}),
    one("clip_bytes", 12, "Clip", {"x": SIGNED}, "x l h", CONSTANTS={"l": np.int8(-5), "h": np.int8(9)}),
    one("where_bytes", 16, "Where", {"c": BYTES > 99, "a": BYTES, "b": BYTES[:1]}),
    one("concat_bytes", 13, "Concat", {"a": BYTES, "b": BYTES}, axis=0),
    one("equal_bytes", 13, "Equal", {"a": BYTES, "b": BYTES[:1]}),
    one("reduce_max_of_nothing", 20, "ReduceMax", {"x": np.zeros((2, 0), bool)}, "x a", CONSTANTS={"a": int64(1)},
        EXPECTED=[np.zeros((2, 1), bool)]),
    one("reduce_min_of_truths", 20, "ReduceMin", {"x": X > 0}, "x a", keepdims=0, CONSTANTS={"a": int64(1)},
        EXPECTED=[(X > 0).all(1)]),
    one("reduce_max_bytes", 18, "ReduceMax", {"x": SIGNED}, "x a", CONSTANTS={"a": int64(1)}),
    one("top_k_bytes", 11, "TopK", {"x": BYTES}, "x k", CONSTANTS={"k": int64(2)}, OUTPUTS=("y", "i"),
        EXPECTED=[np.sort(BYTES)[:, :0:-1], np.argsort(-BYTES.astype(int), kind="stable")[:, :2]]),
]  # fmt: skip

_WIDE = np.array([0, 5, -7, 40000, -40000, 65535, 65536, 2**31 - 1, -(2**31)], np.int32)
_SHORT, _USHORT = (np.array(v, t) for v, t in (([9, -32768, 32767, -5], "int16"), ([9, 0, 65535, 40000], "uint16")))
_PLACES = np.array([0, 1, 4, 7, 8, 15, 16, 31, 32], np.int32)


def _shifted(data: np.ndarray, places: np.ndarray, direction: str) -> Case:
    """Return all numbers shifted by all numbers of places."""
    return one(
        f"bit_shift_{direction.lower()}_{data.dtype}",
        28,
        "BitShift",
        {"x": data[:, None], "n": places.astype(data.dtype)},
        direction=direction,
        EXPECTED=[_shift(data[:, None].astype(object), places, direction, data.dtype)],
        ONNXRUNTIME=False,
    )  # signed ones are newer than this operator set


def _shift(data: np.ndarray, places: np.ndarray, direction: str, dtype: np.dtype[Any]) -> np.ndarray:
    """Return the result of a shift of numbers without limits, cut off."""
    found = data * 2 ** places.astype(object) if direction == "LEFT" else data // 2 ** places.astype(object)
    bits = 8 * dtype.itemsize
    low = 0 if dtype.kind == "u" else 1 << bits - 1
    return ((found + low) % (1 << bits) - low).astype(dtype)


BITS = [
    *(one(f"cast_{data.dtype}_to_{number}", 13, "Cast", {"x": data}, to=number, EXPECTED=[data.astype(target)])
      for data in (_WIDE, _SHORT, _USHORT, BYTES, SIGNED)
      for number, target in ((2, "uint8"), (3, "int8"), (4, "uint16"), (5, "int16"), (7, "int64"))),
    *(one(f"cast_{data.dtype}_to_{number}", 13, "Cast", {"x": data}, to=number)
      for data in (_USHORT, BYTES, np.abs(X)) for number in (12, 13)),
    one("cast_int64_to_int16", 13, "Cast", {"x": _WIDE.astype(np.int64)}, to=5),
    one("cast_float_to_int16", 13, "Cast", {"x": float32(1.9, -1.9, 32767, -32768)}, to=5),
    one("cast_floats_to_uint16", 13, "Cast", {"x": float32(1.9, 65535)}, to=4),
    Case("cast_sizes_to_uint32", 13, [node("Shape", "x", "s"), node("Cast", "s", to=12)], {"x": X}),
    *(_shifted(data, _PLACES, direction) for data in (_WIDE, _SHORT, _USHORT) for direction in ("LEFT", "RIGHT")),
    _shifted(np.array([0, 5, 2**31 - 1], np.uint32), _PLACES, "RIGHT"),
    _shifted(np.array([0, 5, -7, 2**31 - 1], np.int64), np.append(_PLACES, 63), "RIGHT"),
    one("bitwise_not_shorts", 18, "BitwiseNot", {"x": _SHORT}),
    one("bitwise_not_unsigned_shorts", 18, "BitwiseNot", {"x": _USHORT}),
    *(one(f"{op_type}_{data.dtype}".lower(), 18, op_type, {"a": data.reshape(-1, 1), "b": data.ravel()})
      for op_type in ("BitwiseAnd", "BitwiseOr", "BitwiseXor")
      for data in (_WIDE, _WIDE.astype(np.int64), _SHORT, _USHORT, BYTES, SIGNED, np.array([3, 9, 2**30], np.uint32))),
    one("add_shorts", 14, "Add", {"a": _SHORT, "b": _SHORT}, EXPECTED=[_SHORT + _SHORT]),
    one("mul_unsigned_shorts", 14, "Mul", {"a": _USHORT, "b": np.array([3, 3, 3, 3], np.uint16)},
        EXPECTED=[_USHORT * np.uint16(3)]),
    one("neg_shorts", 13, "Neg", {"x": _SHORT}, EXPECTED=[-_SHORT]),
]  # fmt: skip

SHAPES = [
    one("slice_steps_no_axes", 13, "Slice", {"x": X}, "x s e _ t",
        CONSTANTS={"s": int64(0, 2), "e": int64(2, -99), "t": int64(1, -1)}),
    one("pad_axes", 18, "Pad", {"x": X}, "x p _ a", CONSTANTS={"p": int64(1, 0, 0, 2), "a": int64(-1, 0)}),
    one("pad_negative", 13, "Pad", {"x": X}, "x p", CONSTANTS={"p": int64(0, -1, 2, 1, 0, -1)}),
    one("pad_edge_everywhere", 13, "Pad", {"x": X}, "x p", mode="edge", CONSTANTS={"p": int64(1, 0, 2, 0, 3, 1)}),
    one("constant_of_shape_default", 9, "ConstantOfShape", {}, "n", CONSTANTS={"n": int64(2, 3)}),
    one("constant_of_shape_bytes", 9, "ConstantOfShape", {"n": int64(2, 3)},
        value=numpy_helper.from_array(np.array([7], np.uint8))),
    one("one_hot_floats", 11, "OneHot", {"i": float32(0, 2, 1)}, "i d v",
        CONSTANTS={"d": np.float32(3), "v": float32(-1, 5)}),
    one("non_zero_scalar", 13, "NonZero", {"x": np.array(2.0, np.float32)}),
    one("expand_fewer_sizes", 13, "Expand", {"x": X, "n": int64(3, 4)}),
    one("compress_axis", 11, "Compress", {"x": X, "c": np.array([True, False, True])}, axis=1),
    one("compress_flat", 11, "Compress", {"x": X, "c": np.array([False, True, True, False, True])}),
    one("space_to_depth", 13, "SpaceToDepth", {"x": floats(2, 3, 4, 6)}, blocksize=2),
    one("shape_of_all_axes", 15, "Shape", {"x": X}, start=-(1 << 40), end=(1 << 63) - 1),
    one("space_to_depth_symbolic", 13, "SpaceToDepth", {"x": floats(2, 3, 4, 6)}, blocksize=2, SYMBOLIC=True),
    one("depth_to_space_integers", 13, "DepthToSpace", {"x": _EIGHT}, blocksize=2,
        EXPECTED=[_EIGHT.reshape(1, 2, 2, 2, 2, 3).transpose(0, 3, 4, 1, 5, 2).reshape(1, 2, 4, 6)], SYMBOLIC=True),
    one("center_crop_pad", 18, "CenterCropPad", {"x": floats(5, 4, 3)}, "x n", axes=[0, 1],
        CONSTANTS={"n": int64(2, 7)}),
    one("cum_sum_reverse", 14, "CumSum", {"x": X}, "x a", reverse=1, CONSTANTS={"a": np.int32(1)}),
    one("cum_sum_exclusive", 14, "CumSum", {"x": X}, "x a", exclusive=1, reverse=1, CONSTANTS={"a": np.int64(-1)}),
    one("range_one_more", 11, "Range", {"a": np.float32(0), "b": np.float32(7), "d": np.float32(0.7)}),
    one("range_backwards", 11, "Range", {"a": np.float32(2848.7), "b": np.float32(-7.3), "d": np.float32(-0.7)}),
    one("range_constant", 11, "Range", {"a": np.float32(-7.3)}, "s b d",
        CONSTANTS={"s": np.float32(0), "b": np.float32(7), "d": np.float32(0.7)}),
    one("unsqueeze_scalar_axis", 13, "Unsqueeze", {"x": X}, "x a", CONSTANTS={"a": np.int64(1)}, EXPECTED=[X[:, None]]),
    one("tensor_scatter", 24, "TensorScatter", {"c": X, "u": X[:, :2], "w": int64(1, 0)},
        EXPECTED=[np.stack([X[0, [0, 0, 1]], X[1]])]),
    one("tensor_scatter_circular", 24, "TensorScatter", {"c": X, "u": X[:, :2], "w": int64(2, 0)}, mode="circular",
        EXPECTED=[np.stack([X[0, [1, 1, 0]], X[1]])]),
]  # fmt: skip

REDUCTIONS = [
    one("reduce_noop", 18, "ReduceSumSquare", {"x": X}, "x a", noop_with_empty_axes=1, CONSTANTS={"a": int64()}),
    one("reduce_empty_axes", 18, "ReduceMean", {"x": X}, "x a", CONSTANTS={"a": int64()}),
    one("reduce_mean_integers", 18, "ReduceMean", {"x": numbers(3, 4, dtype="int32")}, "x a",
        CONSTANTS={"a": int64(1)}),
    one("reduce_log_sum", 18, "ReduceLogSum", {"x": np.abs(X)}, "x a", CONSTANTS={"a": int64(1)}),
    one("reduce_log_sum_exp", 18, "ReduceLogSumExp", {"x": X * 90}, "x a", keepdims=0, CONSTANTS={"a": int64(0, 2)}),
    one("arg_max_exact", 13, "ArgMax", {"x": numbers(3, 8, low=0, high=3).astype(np.float32)}, axis=1, EXACT=True),
    one("arg_min_exact", 13, "ArgMin", {"x": numbers(3, 8, low=0, high=3).astype(np.float32)}, keepdims=0, EXACT=True),
    one("lp_normalization", 1, "LpNormalization", {"x": X}, axis=1, p=1),
    one("lp_normalization_zero", 1, "LpNormalization", {"x": X * (X > 5)}),
    one("global_lp_pool", 2, "GlobalLpPool", {"x": IMAGE}, p=1),
    one("layer_normalization_outputs", 17, "LayerNormalization", {"x": X, "s": floats(4), "b": floats(4)},
        OUTPUTS=("y", "m", "d")),
    one("mean_variance_normalization", 13, "MeanVarianceNormalization", {"x": IMAGE}),
    one("group_normalization_21", 21, "GroupNormalization", {"x": floats(2, 4, 5)}, "x s b", num_groups=2,
        CONSTANTS={"s": floats(4), "b": floats(4)}),
    one("rms_normalization", 23, "RMSNormalization", {"x": X, "s": floats(3, 4)}, axis=1),
    one("nll", 13, "NegativeLogLikelihoodLoss", {"x": floats(3, 5, 2), "t": numbers(3, 2, low=0, high=5)}, "x t w",
        CONSTANTS={"w": np.abs(floats(5))}, ignore_index=3),
    one("cross_entropy", 13, "SoftmaxCrossEntropyLoss", {"x": floats(3, 5), "t": numbers(3, low=0, high=5)},
        OUTPUTS=("y", "p")),
]  # fmt: skip

WINDOWS = [
    one("conv_1d_defaults", 11, "Conv", {"x": floats(1, 3, 8)}, "x w", CONSTANTS={"w": floats(2, 3, 3)}),
    one("conv_same_lower", 11, "Conv", {"x": floats(1, 3, 9, 8)}, "x w", auto_pad="SAME_LOWER", strides=[2, 2],
        CONSTANTS={"w": floats(2, 3, 4, 4)}),
    one("conv_same_upper_symbolic", 11, "Conv", {"x": floats(1, 3, 9, 8)}, "x w", auto_pad="SAME_UPPER",
        strides=[2, 2], CONSTANTS={"w": floats(2, 3, 4, 4)}, SYMBOLIC=True),
    one("conv_3d", 11, "Conv", {"x": floats(2, 4, 5, 6, 7)}, "x w b", group=2, strides=[2, 1, 2],
        pads=[1, 0, 1, 2, 1, 0], dilations=[2, 1, 1], CONSTANTS={"w": floats(6, 2, 2, 3, 2), "b": floats(6)}),
    one("conv_integer_padded", 10, "ConvInteger", {"x": numbers(1, 1, 4, 4, dtype="uint8", low=0, high=99)}, "x w z",
        pads=[1, 1, 1, 1],
        CONSTANTS={"w": numbers(1, 1, 2, 2, dtype="uint8", low=0, high=9), "z": np.uint8(3)}),
    one("conv_transpose_groups", 11, "ConvTranspose", {"x": floats(1, 4, 3, 3)}, "x w b", group=2, strides=[2, 2],
        CONSTANTS={"w": floats(4, 2, 3, 3), "b": floats(4)}),
    one("conv_transpose_dilated", 11, "ConvTranspose", {"x": floats(1, 2, 4, 4)}, "x w", dilations=[2, 3],
        CONSTANTS={"w": floats(2, 3, 3, 2)}),
    one("conv_transpose_output_shape", 11, "ConvTranspose", {"x": floats(1, 2, 4, 4)}, "x w", output_shape=[8, 7],
        strides=[2, 2], CONSTANTS={"w": floats(2, 3, 3, 3)}),
    one("conv_transpose_same", 11, "ConvTranspose", {"x": floats(1, 2, 5)}, "x w", auto_pad="SAME_UPPER", strides=[2],
        CONSTANTS={"w": floats(2, 3, 5)}),
    one("max_pool_ceil", 12, "MaxPool", {"x": IMAGE}, kernel_shape=[3, 2], strides=[2, 2], ceil_mode=1),
    *(one(f"max_pool_same_lower_symbolic_{size}", 12, "MaxPool", {"x": floats(1, 2, size, 7)}, kernel_shape=[3, 2],
          strides=[2, 3], auto_pad="SAME_LOWER", SYMBOLIC=True) for size in (1, 4, 9)),
    *(one(f"average_pool_same_lower_symbolic_{mode}", 11, "AveragePool", {"x": floats(1, 2, 8, 7)}, kernel_shape=[3, 4],
          strides=[2, 3], auto_pad="SAME_LOWER", count_include_pad=mode, SYMBOLIC=True) for mode in (0, 1)),
    *(one(f"conv_same_lower_symbolic_{size}", 11, "Conv", {"x": floats(2, 3, size, 8)}, "x w b", auto_pad="SAME_LOWER",
          strides=[3, 2], SYMBOLIC=True, CONSTANTS={"w": floats(2, 3, 2, 3), "b": floats(2)}) for size in (1, 7, 9)),
    one("conv_of_volumes_same_symbolic", 11, "Conv", {"x": floats(1, 2, 5, 4, 6)}, "x w", auto_pad="SAME_UPPER",
        strides=[2, 2, 3], SYMBOLIC=True, CONSTANTS={"w": floats(2, 2, 3, 2, 3)}),
    *(one(f"conv_transpose_to_size_symbolic_{pad}_{size}", 11, "ConvTranspose", {"x": floats(1, 2, 3, 4)}, "x w b",
          auto_pad=pad, strides=[2, 3], output_shape=[size, size], SYMBOLIC=True,
          CONSTANTS={"w": floats(2, 3, 3, 4), "b": floats(3)})
      for pad, size in (("SAME_UPPER", 6), ("SAME_LOWER", 6), ("NOTSET", 5))),
    one("conv_transpose_to_larger_symbolic", 11, "ConvTranspose", {"x": floats(1, 2, 3)}, "x w b", strides=[2],
        output_shape=[8], SYMBOLIC=True, CONSTANTS={"w": floats(2, 3, 3), "b": floats(3)}),
    one("max_pool_ceil_same_symbolic", 12, "MaxPool", {"x": IMAGE}, kernel_shape=[3, 2], strides=[2, 2], ceil_mode=1,
        auto_pad="SAME_UPPER", SYMBOLIC=True),
    one("max_pool_ceil_symbolic", 12, "MaxPool", {"x": IMAGE}, kernel_shape=[3, 2], strides=[2, 2], ceil_mode=1,
        SYMBOLIC=True),
    one("max_pool_1d", 12, "MaxPool", {"x": X}, kernel_shape=[2]),
    one("max_pool_bytes", 12, "MaxPool", {"x": numbers(1, 2, 5, 5, dtype="uint8", low=0, high=255)},
        kernel_shape=[2, 2]),
    one("max_pool_dilated", 12, "MaxPool", {"x": IMAGE}, kernel_shape=[2, 3], dilations=[2, 2], strides=[1, 2],
        pads=[1, 0, 0, 1]),
    one("max_pool_3d", 12, "MaxPool", {"x": floats(1, 2, 5, 6, 7)}, kernel_shape=[2, 3, 2], strides=[2, 1, 2],
        pads=[1, 0, 1, 0, 1, 0]),
    one("average_pool_3d", 11, "AveragePool", {"x": floats(1, 2, 5, 6, 7)}, kernel_shape=[2, 3, 2],
        pads=[1, 0, 1, 0, 1, 0]),
    one("average_pool_ceil", 19, "AveragePool", {"x": IMAGE}, kernel_shape=[4, 2], strides=[2, 2], ceil_mode=1),
    one("average_pool_ceil_pads", 19, "AveragePool", {"x": IMAGE}, kernel_shape=[4, 4], strides=[3, 3], ceil_mode=1,
        pads=[1, 1, 1, 1], count_include_pad=1),
    one("cum_sum_any_axis", 14, "CumSum", {"x": X, "a": np.array(-2)}, exclusive=1, reverse=1, SYMBOLIC=True),
    one("cum_sum_any_rank", 14, "CumSum", {"x": X, "a": np.array(1, np.int32)}, exclusive=1),
    one("cum_prod", 26, "CumProd", {"x": X}, "x a", reverse=1, exclusive=1, CONSTANTS={"a": np.int64(1)},
        EXPECTED=[np.stack([X[:, 2] * X[:, 1], X[:, 2], X[:, 2] ** 0], axis=1)]),
    one("cum_prod_any_axis", 26, "CumProd", {"x": X, "a": np.array(-2)}, EXPECTED=[np.cumprod(X, axis=-2)]),
    one("cum_prod_of_nothing", 26, "CumProd", {"x": X[:, :0], "a": np.array(1)}, EXPECTED=[X[:, :0]], SYMBOLIC=True),
    one("average_pool_dilated", 19, "AveragePool", {"x": IMAGE}, kernel_shape=[2, 2], dilations=[2, 2],
        pads=[1, 1, 1, 1]),
    one("max_pool_dilated_ceil", 19, "MaxPool", {"x": floats(1, 1, 7, 4)}, kernel_shape=[3, 1], dilations=[2, 2],
        strides=[3, 3], pads=[1, 0, 1, 0], ceil_mode=1),
    one("max_pool_places", 18, "MaxPool", {"x": numbers(2, 2, 5, 6, dtype="float32", low=0, high=3)},
        kernel_shape=[3, 2], strides=[2, 1], pads=[1, 1, 1, 0], storage_order=1, OUTPUTS=("y", "i"), SYMBOLIC=True),
    *(one(f"lp_pool_{way.lower()}_symbolic", 18, "LpPool", {"x": floats(1, 2, 5, 7)}, kernel_shape=[3, 2],
          strides=[2, 3], auto_pad=way, SYMBOLIC=True) for way in ("SAME_LOWER", "SAME_UPPER")),
    *(one(f"conv_integer_{way.lower()}_symbolic", 10, "ConvInteger",
          {"x": numbers(1, 2, 5, 7, dtype="uint8", low=0, high=255)}, "x w z", strides=[2, 3], auto_pad=way,
          SYMBOLIC=True, CONSTANTS={"w": numbers(3, 2, 3, 2, dtype="uint8", low=0, high=255), "z": np.uint8(7)})
      for way in ("SAME_LOWER", "SAME_UPPER")),
    *(one(f"max_pool_places_{way.lower()}_symbolic", 18, "MaxPool",
          {"x": numbers(2, 2, 5, 7, dtype="float32", low=0, high=3)}, kernel_shape=[3, 2], strides=[2, 3],
          auto_pad=way, OUTPUTS=("y", "i"), SYMBOLIC=True) for way in ("SAME_LOWER", "SAME_UPPER")),
    one("max_pool_places_of_nan", 18, "MaxPool",
        {"x": float32(np.nan, 1, 2, -np.inf, np.nan, 3, -np.inf, -np.inf).reshape(1, 2, 4)}, kernel_shape=[2],
        OUTPUTS=("y", "i")),
    one("max_pool_places_of_bytes", 18, "MaxPool", {"x": numbers(2, 1, 4, 3, 5, dtype="uint8", low=0, high=2)},
        kernel_shape=[2, 2, 2], dilations=[2, 1, 1], ceil_mode=1, strides=[1, 2, 3], OUTPUTS=("y", "i")),
    one("lp_pool_of_volumes", 18, "LpPool", {"x": floats(1, 2, 4, 5, 3)}, kernel_shape=[2, 3, 2], strides=[1, 2, 1],
        pads=[1, 0, 1, 0, 1, 0]),
    one("average_pool_same_lower", 11, "AveragePool", {"x": IMAGE}, kernel_shape=[2, 2], auto_pad="SAME_LOWER"),
    one("batch_norm_training", 15, "BatchNormalization", {"x": floats(2, 3, 4)}, "x s b m v", training_mode=1,
        momentum=0.7, OUTPUTS=("y", "o", "p"),
        CONSTANTS={"s": CHANNELS, "b": CHANNELS + 1, "m": CHANNELS - 2, "v": np.abs(CHANNELS)}),
    one("lp_pool", 18, "LpPool", {"x": IMAGE}, kernel_shape=[3, 3], strides=[2, 2], p=2, pads=[1, 1, 1, 1]),
    one("lp_pool_3", 11, "LpPool", {"x": IMAGE}, kernel_shape=[2, 2], p=3),
    one("lrn", 13, "LRN", {"x": IMAGE}, size=3, alpha=0.2, beta=0.6, bias=1.5),
    one("max_unpool", 11, "MaxUnpool", {"x": floats(1, 1, 2, 2), "i": int64(5, 7, 13, 15).reshape(1, 1, 2, 2)},
        kernel_shape=[2, 2], strides=[2, 2]),
    one("max_unpool_of_any_size", 11, "MaxUnpool", {"x": floats(1, 1, 2, 2),
        "i": int64(5, 7, 13, 15).reshape(1, 1, 2, 2), "s": int64(1, 1, 5, 4)}, kernel_shape=[2, 2], strides=[2, 2]),
    one("max_unpool_symbolic", 11, "MaxUnpool", {"x": floats(1, 1, 2, 2), "i": int64(1, 3, 5, 7).reshape(1, 1, 2, 2)},
        kernel_shape=[3, 2], strides=[2, 2], pads=[1, 0, 0, 0], SYMBOLIC=True),
    one("col2im", 18, "Col2Im", {"x": floats(1, 12, 6)}, "x i b", strides=[2, 1],
        CONSTANTS={"i": int64(5, 4), "b": int64(2, 2)}),
    one("col2im_of_any_size", 18, "Col2Im", {"x": floats(2, 12, 9), "i": int64(5, 4), "b": int64(3, 2)},
        strides=[2, 1], pads=[0, 1, 2, 0], dilations=[1, 2], SYMBOLIC=True),
    one("col2im_of_volumes", 18, "Col2Im", {"x": floats(2, 24, 12)}, "x i b", CONSTANTS={"i": int64(3, 4, 3),
        "b": int64(2, 2, 2)}),
]  # fmt: skip

_DOWN, _UP, _ODD = float32(1, 1, 0.6, 0.6), float32(1, 1, 2, 3), float32(1, 1, 1.3, 2.7)
_RESIZES: list[tuple[str, dict[str, Any], np.ndarray]] = [
    ("nearest_up", {}, _UP),
    ("nearest_odd", {}, _ODD),
    ("nearest_floor_odd", {"nearest_mode": "floor", "coordinate_transformation_mode": "asymmetric"}, _ODD),
    ("nearest_ceil_down", {"nearest_mode": "ceil"}, _DOWN),
    ("nearest_prefer_ceil", {"nearest_mode": "round_prefer_ceil"}, _DOWN),
    ("linear_odd", {"mode": "linear"}, _ODD),
    ("linear_down", {"mode": "linear"}, _DOWN),
    ("linear_asymmetric_odd", {"mode": "linear", "coordinate_transformation_mode": "asymmetric"}, _ODD),
    ("linear_align_corners", {"mode": "linear", "coordinate_transformation_mode": "align_corners"}, _ODD),
    ("linear_pytorch", {"mode": "linear", "coordinate_transformation_mode": "pytorch_half_pixel"}, _DOWN),
    ("linear_symmetric", {"mode": "linear", "coordinate_transformation_mode": "half_pixel_symmetric"}, _ODD),
    ("cubic_up", {"mode": "cubic"}, _UP),
    ("cubic_odd", {"mode": "cubic", "cubic_coeff_a": -0.5}, _ODD),
    ("cubic_exclude_outside", {"mode": "cubic", "exclude_outside": 1}, _ODD),
    ("linear_antialias", {"mode": "linear", "antialias": 1}, _DOWN),
    ("cubic_antialias", {"mode": "cubic", "antialias": 1}, _DOWN),
]
# Their sizes or scales are known only when the model runs, but onnxruntime needs the number of sizes.
_LATE_RESIZES = [
    ("s", float32(1, 1, 1.7, 0.6), {"mode": "linear"}),
    ("s", float32(1, 2, 1.7, 0.6), {"mode": "nearest", "nearest_mode": "ceil"}),
    (
        "s",
        float32(1, 1, 1.5, 2.3),
        {"mode": "cubic", "exclude_outside": 1, "coordinate_transformation_mode": "asymmetric"},
    ),
    ("s", float32(1, 1, 0.7, 0.4), {"mode": "cubic", "antialias": 1}),
    ("n", int64(1, 2, 7, 3), {"mode": "linear", "coordinate_transformation_mode": "half_pixel_symmetric"}),
    (
        "n",
        int64(1, 2, 3, 1),
        {"mode": "linear", "antialias": 1, "coordinate_transformation_mode": "pytorch_half_pixel"},
    ),
    ("n", int64(2, 3), {"mode": "nearest", "axes": [3, 1], "nearest_mode": "round_prefer_ceil"}),
    ("s", float32(1.5, 0.5), {"mode": "linear", "axes": [-2, 3], "coordinate_transformation_mode": "align_corners"}),
]

RESIZES = [
    *(one(f"resize_{name}", 19, "Resize", {"x": floats(1, 2, 7, 6)}, "x _ s", **attributes, CONSTANTS={"s": scales})
      for name, attributes, scales in _RESIZES),
    one("resize_sizes", 13, "Resize", {"x": IMAGE}, "x _ _ n", mode="linear", CONSTANTS={"n": int64(1, 4, 5, 13)}),
    one("resize_axes", 18, "Resize", {"x": IMAGE}, "x _ _ n", mode="linear", axes=[3, 2],
        CONSTANTS={"n": int64(13, 5)}),
    one("resize_axes_scales", 18, "Resize", {"x": IMAGE}, "x _ s", axes=[3, 2], CONSTANTS={"s": float32(2, 3)}),
    one("resize_not_larger", 18, "Resize", {"x": floats(1, 1, 4, 6)}, "x _ _ n", mode="linear", axes=[2, 3],
        keep_aspect_ratio_policy="not_larger", CONSTANTS={"n": int64(8, 8)}),
    one("resize_crop", 13, "Resize", {"x": floats(1, 1, 4, 4)}, "x r _ n", mode="linear",
        coordinate_transformation_mode="tf_crop_and_resize", extrapolation_value=9.0,
        CONSTANTS={"r": float32(0, 0, 0.4, 0.6, 1, 1, 1.2, 1.7), "n": int64(1, 1, 3, 3)}),
    *(one(f"resize_late_{number}", 19, "Resize", {"x": floats(1, 2, 4, 5), name: given},
          "x _ _ n" if name == "n" else "x _ s", SYMBOLIC=name == "s", **attributes)
      for number, (name, given, attributes) in enumerate(_LATE_RESIZES)),
    one("resize_late_region", 19, "Resize", {"x": floats(1, 1, 4, 4), "r": float32(0, 0, 0.4, 0.6, 1, 1, 1.2, 1.7),
                                             "n": int64(1, 1, 3, 5)}, "x r _ n", mode="linear",
        coordinate_transformation_mode="tf_crop_and_resize", extrapolation_value=9.0),
    one("resize_late_not_smaller", 18, "Resize", {"x": floats(1, 1, 4, 6), "n": int64(7, 8)}, "x _ _ n", mode="cubic",
        axes=[2, 3], keep_aspect_ratio_policy="not_smaller"),
    one("resize_first_axis", 13, "Resize", {"x": floats(2, 1, 2, 2)}, "x _ s", CONSTANTS={"s": float32(2, 1, 1, 1)}),
    one("resize_bytes", 13, "Resize", {"x": numbers(1, 1, 2, 2, dtype="uint8", low=0, high=255)}, "x _ s",
        CONSTANTS={"s": _UP}),
]  # fmt: skip


_GRID = floats(2, 3, 2, 2) * np.float32(0.8)
_VOLUME = floats(1, 2, 3, 2, 3)
_OFFSETS, _SHARES = floats(1, 16, 3, 3), np.abs(floats(1, 8, 3, 3))
GRIDS = [
    *(one(f"grid_{mode}_{padding}_{aligned}", 20, "GridSample", {"x": floats(2, 2, 4, 3), "g": _GRID}, mode=mode,
          padding_mode=padding, align_corners=aligned, SYMBOLIC=True)
      for mode in ("linear", "nearest", "cubic")
      for padding, aligned in (("border", 1), ("reflection", 0), ("zeros", 1))),
    one("grid_volume", 20, "GridSample", {"x": _VOLUME, "g": floats(1, 2, 2, 3, 3)}, mode="linear",
        padding_mode="reflection", align_corners=1),
    one("grid_volume_nearest", 20, "GridSample", {"x": _VOLUME, "g": floats(1, 2, 2, 3, 3)}, mode="nearest"),
    one("affine_grid_late", 20, "AffineGrid", {"t": floats(2, 2, 3), "s": int64(2, 1, 3, 4)}),
    one("affine_grid_volume_late", 20, "AffineGrid", {"t": floats(1, 3, 4), "s": int64(1, 2, 3, 1, 2)},
        align_corners=1),
    one("deform_conv", 22, "DeformConv", {"x": floats(1, 4, 4, 4), "o": _OFFSETS}, "x w o b m", group=2, offset_group=2,
        CONSTANTS={"w": floats(4, 2, 2, 2), "b": floats(4), "m": _SHARES}),
    one("deform_conv_strides", 22, "DeformConv", {"x": floats(2, 2, 6, 5), "o": floats(2, 12, 3, 4)}, "x w o",
        strides=[2, 1], dilations=[1, 2], pads=[0, 1, 1, 0], kernel_shape=[3, 2], SYMBOLIC=True,
        CONSTANTS={"w": floats(3, 2, 3, 2)}),
    one("centre_late", 18, "CenterCropPad", {"x": floats(4, 3, 7), "s": int64(7, 4)}, axes=[0, -1]),
    one("pad_axes_late", 18, "Pad", {"x": X, "p": int64(1, 0, 2, 1)}, "x p _ a", CONSTANTS={"a": int64(-1, 0)}),
    one("pad_any_axes", 18, "Pad", {"x": X, "p": int64(1, 0, 2, 1), "a": int64(-1, 0)}, "x p _ a"),
]  # fmt: skip


def _boxes(name: str, given: str, centre: int = 0, **inputs: np.ndarray) -> Case:
    """Return a case of two images and three classes, with boxes that overlap equally, and have equal scores."""
    return one(
        name, 13, "NonMaxSuppression",
        {"b": numbers(2, 9, 4, dtype="float32", low=0, high=7), "s": numbers(2, 3, 9, dtype="float32", low=0, high=5)},
        given, center_point_box=centre, SYMBOLIC=True, CONSTANTS=inputs,
    )  # fmt: skip


SUPPRESSIONS = [
    _boxes("suppression", "b s m o t", m=int64(4), o=float32(0.25), t=float32(1)),
    _boxes("suppression_centred", "b s m o", 1, m=np.int64(9), o=np.float32(0.5)),
    _boxes("suppression_of_one", "b s m _ t", m=int64(1), t=float32(-1)),
    _boxes("suppression_of_all", "b s m o t", m=int64(3), o=float32(0.5), t=float32(9)),
    _boxes("suppression_to_none", "b s m", m=int64(0)),
    _boxes("suppression_without_most", "b s"),
]

_SCALE, _ZERO = np.float32(0.02), np.uint8(128)


def small_integers(*dims: int) -> np.ndarray:
    """Return numbers of eight bits."""
    return numbers(*dims, dtype="int8")


QUANTISED = [
    one("quantize_no_zero", 13, "QuantizeLinear", {"x": np.abs(X)}, "x s", CONSTANTS={"s": _SCALE}),
    one("quantize_vector_of_one", 13, "QuantizeLinear", {"x": X}, "x s z",
        CONSTANTS={"s": float32(0.03), "z": np.array([3], np.int8)}),
    one("quantize_axis", 13, "QuantizeLinear", {"x": X}, "x s z", axis=1,
        CONSTANTS={"s": np.abs(CHANNELS), "z": numbers(3, dtype="uint8", low=0, high=9)}),
    one("quantize_output_dtype", 21, "QuantizeLinear", {"x": X}, "x s", output_dtype=3, CONSTANTS={"s": _SCALE}),
    one("quantize_shorts", 21, "QuantizeLinear", {"x": X * 900}, "x s z", CONSTANTS={"s": _SCALE, "z": np.int16(-3)}),
    one("quantize_shorts_axis", 21, "QuantizeLinear", {"x": X * 900}, "x s z", axis=1,
        CONSTANTS={"s": np.abs(CHANNELS), "z": numbers(3, dtype="uint16", low=0, high=9)}),
    one("quantize_blocks", 21, "QuantizeLinear", {"x": X}, "x s z", axis=2, block_size=3,
        CONSTANTS={"s": np.abs(floats(2, 3, 2)), "z": numbers(2, 3, 2, dtype="int8")}),
    *(one(f"{op.lower()}_blocks_symbolic_{columns}", 21, f"{op}Linear",
          {"x": values(3, columns), "s": np.abs(floats(3, 3)), "z": numbers(3, 3, dtype="int8")}, axis=1, block_size=3,
          SYMBOLIC=True)
      for op, values in (("Quantize", floats), ("Dequantize", small_integers)) for columns in (7, 9)),
    one("dequantize_no_zero", 13, "DequantizeLinear", {"x": BYTES}, "x s", CONSTANTS={"s": _SCALE}),
    one("dequantize_vector_of_one", 13, "DequantizeLinear", {"x": SIGNED}, "x s",  CONSTANTS={"s": float32(0.03)}),
    one("dequantize_given_vector", 13, "DequantizeLinear", {"x": SIGNED, "s": float32(0.03)}),
    one("dequantize_int32", 13, "DequantizeLinear", {"x": numbers(4, dtype="int32")}, "x s", CONSTANTS={"s": _SCALE}),
    one("dequantize_blocks", 21, "DequantizeLinear", {"x": numbers(3, 8, dtype="int8")}, "x s z", axis=1, block_size=3,
        CONSTANTS={"s": np.abs(floats(3, 3)), "z": numbers(3, 3, dtype="int8")}),
    one("q_linear_mat_mul", 10, "QLinearMatMul", {"a": BYTES, "b": BYTES.T.copy()}, "a s z b s z t z",
        CONSTANTS={"s": _SCALE, "z": _ZERO, "t": np.float32(0.1)}),
    one("q_linear_conv", 10, "QLinearConv", {"x": numbers(1, 2, 5, 5, dtype="uint8", low=0, high=255)},
        "x s z w v o t z b", pads=[1, 1, 1, 1],
        CONSTANTS={"s": _SCALE, "z": _ZERO, "w": numbers(3, 2, 3, 3, dtype="int8"), "v": np.abs(floats(3)),
                   "o": np.zeros(3, np.int8), "t": np.float32(0.4), "b": numbers(3, dtype="int32")}),
    one("mat_mul_integers", 13, "MatMul", {"a": numbers(2, 3, 4, dtype="int32"), "b": numbers(4, 5, dtype="int32")}),
    one("mat_mul_integer_vectors", 13, "MatMul", {"a": numbers(4, dtype="int32"), "b": numbers(4, dtype="int32")}),
    Case("mat_mul_plus_one", 13, [node("MatMul", "a b", "p"), node("Add", "p c")], {"a": floats(3, 1)},
         {"b": floats(1, 4), "c": float32(0.5)}),
    Case("mat_mul_plus_row", 13, [node("MatMul", "a b", "p"), node("Add", "c p")], {"a": floats(3, 2)},
         {"b": floats(2, 1), "c": floats(4)}),
    Case("arg_max_of_truths", 13,
         [node("Less", "x z", "l"), node("Cast", "l", "c", to=1), node("ArgMax", "c", axis=1)], {"x": X}, {"z": FOUR}),
    one("mat_mul_stack_by_vector", 13, "MatMul", {"a": floats(2, 3, 4, 5), "b": floats(5)}),
    one("mat_mul_stack_by_vector_symbolic", 13, "MatMul", {"a": floats(2, 3, 4, 5), "b": floats(5)}, SYMBOLIC=True),
    one("gemm_integers", 13, "Gemm", {"a": SIGNED.astype("int32"), "b": SIGNED.astype("int32")}, transB=1,
        EXPECTED=[SIGNED.astype("int32") @ SIGNED.astype("int32").T]),
]  # fmt: skip


def _layer(name: str, op_type: str, gates: int, given: str = "x w r b", **rest: Any) -> Case:
    """Return a recurrent layer of 3 inputs and 2 hidden numbers over 5 steps of 2 samples."""
    directions = 2 if rest.get("direction") == "bidirectional" else 1
    constants = {
        "w": floats(directions, gates * 2, 3),
        "r": floats(directions, gates * 2, 2),
        "b": floats(directions, gates * 4),
        "n": np.array([3, 5], np.int32),
        "h": floats(directions, 2, 2),
        "c": floats(directions, 2, 2),
        "p": floats(directions, 6),
    }
    data = floats(2, 5, 3) if rest.get("layout") else floats(5, 2, 3)
    outputs = ("y", "yh", "yc") if op_type == "LSTM" else ("y", "yh")
    used = {key: value for key, value in constants.items() if key in given.split()}
    return one(name, 14, op_type, {"x": data}, given, hidden_size=2, CONSTANTS=used, OUTPUTS=outputs, **rest)


RECURRENT = [
    _layer("rnn", "RNN", 1),
    _layer("rnn_bidirectional", "RNN", 1, "x w r b _ h", direction="bidirectional"),
    _layer("rnn_affine", "RNN", 1, activations=["Affine"], activation_alpha=[0.4], activation_beta=[0.1]),
    _layer("gru", "GRU", 3),
    _layer("gru_reverse", "GRU", 3, "x w r _ _ h", direction="reverse"),
    _layer("gru_linear_first", "GRU", 3, linear_before_reset=1),
    _layer("gru_lengths", "GRU", 3, "x w r b n h", direction="bidirectional", linear_before_reset=1),
    _layer("gru_activations", "GRU", 3, activations=["HardSigmoid", "Relu"]),
    _layer("lstm_lengths", "LSTM", 4, "x w r b n h c", direction="reverse"),
    _layer("lstm_peepholes", "LSTM", 4, "x w r b _ h c p"),
    _layer("lstm_clip", "LSTM", 4, clip=0.3),
    _layer("lstm_input_forget", "LSTM", 4, input_forget=1),
    _layer("lstm_softsign", "LSTM", 4, activations=["Sigmoid", "Softsign", "Tanh"]),
    _layer("lstm_symbolic", "LSTM", 4, "x w r b n", SYMBOLIC=True),
]

SEQUENCES = [
    Case("sequence_insert_from_end", 12,
         [node("SequenceConstruct", "x x x", "s"), node("SequenceInsert", "s z p", "t"), node("SequenceAt", "t q")],
         {"x": X, "z": X * 0, "q": np.asarray(2)}, {"p": np.asarray(-1)}),
    Case("sequence_insert_anywhere", 12,
         [node("SequenceConstruct", "x x x", "s"), node("SequenceInsert", "s z p", "t"),
          node("ConcatFromSequence", "t", axis=-1)],
         {"x": X, "z": X * 0, "p": np.asarray(-2)}),
    Case("new_axis_last", 12,
         [node("SequenceConstruct", "a b", "s"), node("ConcatFromSequence", "s", axis=-1, new_axis=1)],
         {"a": X, "b": -X}),
    Case("new_axis_from_end", 12,
         [node("SplitToSequence", "x", "s", axis=1, keepdims=0), node("ConcatFromSequence", "s", axis=-2, new_axis=1)],
         {"x": X}),
]  # fmt: skip

SIGNALS = [
    one("hann_window", 17, "HannWindow", {"n": np.int64(9)}),
    one("hamming_window_symmetric", 17, "HammingWindow", {}, "n", periodic=0, CONSTANTS={"n": np.int64(9)}),
    one("blackman_window", 17, "BlackmanWindow", {"n": np.int64(9)}),
    one("det_2", 11, "Det", {"x": floats(3, 2, 2)}),
    one("det_3", 11, "Det", {"x": floats(3, 3)}),
    one("affine_grid", 20, "AffineGrid", {"t": floats(2, 2, 3)}, "t n", CONSTANTS={"n": int64(2, 3, 4, 5)}),
    one("affine_grid_aligned", 20, "AffineGrid", {"t": floats(2, 3, 4)}, "t n", align_corners=1,
        CONSTANTS={"n": int64(2, 3, 2, 4, 5)}),
    one("roi_align", 16, "RoiAlign", {"x": floats(2, 3, 7, 9), "r": 6 * floats(4, 4)}, "x r b", output_height=3,
        output_width=2, sampling_ratio=2, spatial_scale=0.7, CONSTANTS={"b": int64(0, 1, 1, 0)}),
    one("roi_align_old_symbolic", 10, "RoiAlign", {"x": floats(2, 3, 7, 9), "r": 6 * floats(4, 4)}, "x r b",
        output_height=2, output_width=2, sampling_ratio=3, mode="avg", CONSTANTS={"b": int64(0, 1, 1, 0)},
        SYMBOLIC=True),
    one("mel_weight_matrix", 17, "MelWeightMatrix", {}, "n l r a e", CONSTANTS={
        "n": np.int64(12), "l": np.int64(128), "r": np.int64(8000), "a": np.float32(20), "e": np.float32(3900)}),
    one("bits_of_bytes", 26, "BitCast", {"x": SIGNED}, to=2, EXPECTED=[SIGNED.view("uint8")]),
    one("grid_sample_border", 16, "GridSample", {"x": floats(1, 2, 4, 5), "g": floats(1, 3, 3, 2)},
        padding_mode="border"),
    one("grid_sample_border_aligned", 16, "GridSample", {"x": floats(1, 2, 4, 5), "g": floats(1, 3, 3, 2)},
        padding_mode="border", align_corners=1),
]  # fmt: skip


def contrib(name: str, op_type: str, inputs: Mapping[str, np.ndarray], given: str = "", **rest: Any) -> Case:
    """Return a case of one of onnxruntime's own operators."""
    return one(name, 17, op_type, inputs, given, domain=CONTRIB, **rest)


def _quantized_layer(name: str, given: str, *, columns: bool = False, signed: bool = False, **rest: Any) -> Case:
    """Return a quantised layer of 3 inputs and 2 hidden numbers over 5 steps of one sample."""
    directions = 2 if rest.get("direction") == "bidirectional" else 1
    dims = (directions, 8) if columns else (directions,)
    dtype, low, high = ("int8", -128, 127) if signed else ("uint8", 0, 255)
    constants = {
        "w": numbers(directions, 3, 8, dtype=dtype, low=low, high=high),
        "r": numbers(directions, 2, 8, dtype=dtype, low=low, high=high),
        "b": floats(directions, 16),
        "n": np.array([3], np.int32),
        "h": floats(directions, 1, 2),
        "c": floats(directions, 1, 2),
        "p": floats(directions, 6),
        "s": np.abs(floats(*dims)) / 100,
        "z": np.full(dims, 0 if signed else 131, dtype),
        "t": np.abs(floats(*dims)) / 100,
        "o": np.full(dims, 0 if signed else 117, dtype),
    }
    given = f"{given} s z t o"
    used = {key: value for key, value in constants.items() if key in given.split()}
    fields = {"CONSTANTS": used, "OUTPUTS": ("y", "yh", "yc"), **rest}
    return contrib(name, "DynamicQuantizeLSTM", {"x": floats(5, 1, 3)}, given, hidden_size=2, **fields)


def attended(query: np.ndarray, key: np.ndarray, value: np.ndarray) -> np.ndarray:
    """Return attention with the heads as third axis, which are next to each other in the result."""
    products = np.einsum("bqhd,bkhd->bhqk", query, key) / np.sqrt(query.shape[-1])
    return np.einsum("bhqk,bkhd->bqhd", softmax(products, -1), value).reshape(*query.shape[:2], -1)


_WORDS = floats(2, 3, 8)
_PACKED, _PAIRS = floats(2, 3, 2, 3, 4), floats(2, 5, 2, 2, 4)
_LINEAR = {"s": _SCALE, "z": _ZERO, "t": np.float32(0.04), "o": np.uint8(110)}


def _grouped(name: str, given: str, steps: int, ends: list[int], total: int, **rest: Any) -> Case:
    """Return a case of four heads of 16 numbers and two of keys and values, with room for five past tokens."""
    names, count = given.split(), len(ends)
    room = numbers(count, 2, 5, 16, dtype="float32") * (
        np.arange(5)[:, None] < np.array(ends)[:, None, None, None] - steps
    )
    every = {
        "q": floats(count, steps, 64 if "k" in names else 128), "k": floats(count, steps, 32),
        "v": floats(count, steps, 32), "p": room.astype(np.float32), "l": np.array(ends, np.int32) - 1,
        "t": np.int32(total), "c": floats(9, 8), "s": floats(9, 8),
        "n": np.arange(steps)[None] + int64(ends[0] - steps),
        "b": floats(1, 4, steps, total), "k0": floats(4),
    }  # fmt: skip
    inputs = {name: every[name] for name in dict.fromkeys(names) if name != "_"}
    return contrib(name, "GroupQueryAttention", inputs, given, num_heads=4, kv_num_heads=2,
                   OUTPUTS=("y", "present_k", "present_v"), **rest)  # fmt: skip


CONTRIBUTED = [
    contrib("gelu", "Gelu", {"x": X}),
    contrib("bias_gelu", "BiasGelu", {"x": X, "b": floats(4)}),
    contrib("skip_layer_normalization_mean", "SkipLayerNormalization", {"x": _WORDS, "k": _WORDS[::-1].copy()}, "x k g",
            CONSTANTS={"g": floats(8)}, OUTPUTS=("y", "m", "d", "t")),
    Case("skip_simplified_deviation", 17, [node("SkipSimplifiedLayerNormalization", "x k g", "y _ d", domain=CONTRIB)],
         {"x": _WORDS, "k": _WORDS[::-1].copy()}, {"g": floats(8)}, outputs=("y", "d")),
    contrib("fast_gelu", "FastGelu", {"x": X, "b": floats(4)}),
    contrib("quick_gelu", "QuickGelu", {"x": X}),
    contrib("skip_layer_normalization", "SkipLayerNormalization", {"x": _WORDS, "k": _WORDS[::-1].copy()},
            "x k g b c", CONSTANTS={"g": floats(8), "b": floats(8), "c": floats(8)}),
    contrib("skip_simplified", "SkipSimplifiedLayerNormalization", {"x": _WORDS, "k": _WORDS[::-1].copy()}, "x k g",
            CONSTANTS={"g": floats(8)}),
    Case("embed", 17, [node("EmbedLayerNormalization", "i _ w p _ g b", "y m", domain=CONTRIB)],
         {"i": numbers(2, 3, dtype="int32", low=0, high=5)},
         {"w": floats(5, 8), "p": floats(4, 8), "g": floats(8), "b": floats(8)}),
    contrib("fused_mat_mul", "FusedMatMul", {"a": floats(2, 3, 4), "b": floats(2, 5, 4)}, transB=1, alpha=0.5),
    contrib("fused_conv", "FusedConv", {"x": floats(1, 2, 5, 5)}, "x w b", activation="LeakyRelu",
            activation_params=[0.2], CONSTANTS={"w": floats(3, 2, 3, 3), "b": floats(3)}),
    contrib("fused_gemm", "FusedGemm", {"a": floats(2, 3), "b": floats(3, 4), "c": floats(4)}, activation="Relu"),
    contrib("rotary_embedding", "RotaryEmbedding", {"x": floats(1, 2, 3, 8), "p": int64(0, 1, 2).reshape(1, 3)},
            "x p c s", CONSTANTS={"c": floats(4, 4), "s": floats(4, 4)}),
    contrib("rotary_embedding_from_a_position", "RotaryEmbedding", {"x": floats(2, 3, 8), "p": int64(1)}, "x p c s",
            CONSTANTS={"c": floats(5, 2), "s": floats(5, 2)}, num_heads=2),
    contrib("twin_pad", "Pad", {"x": floats(2, 3)}, "x p v", CONSTANTS={"p": int64(1, 0, 0, 2), "v": np.float32(0.5)}),
    contrib("twin_pad_of_edges", "Pad", {"x": floats(2, 3)}, "x p", mode="edge", CONSTANTS={"p": int64(1, 0, 0, 2)}),
    contrib("twin_range", "Range", {"a": np.float32(1), "b": np.float32(4)}, "a b"),
    contrib("twin_gather_nd", "GatherND", {"x": floats(2, 3), "i": int64(1, 2).reshape(1, 2)}, "x i"),
    Case("twin_unique", 17, [node("Unique", "x", "y i n", domain=CONTRIB)],
         {"x": np.array([2, 1, 2, 3, 1], np.float32)}),
    contrib("multi_head_attention", "MultiHeadAttention", {"q": _WORDS, "k": floats(2, 5, 8), "v": floats(2, 5, 8)},
            "q k v b m", num_heads=2,
            CONSTANTS={"b": floats(24), "m": np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 0]], np.int32)}),
    contrib("attention", "Attention", {"x": _WORDS}, "x w b", num_heads=2, unidirectional=1,
            CONSTANTS={"w": floats(8, 24), "b": floats(24)}),
    contrib("attention_mask_and_past", "Attention", {"x": _WORDS, "p": floats(2, 2, 2, 5, 4)}, "x w b m p", num_heads=2,
            unidirectional=1, OUTPUTS=("y", "present"),
            CONSTANTS={"w": floats(8, 24), "b": floats(24),
                       "m": np.array([[1, 1, 0, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1, 1, 0]], np.int32)}),
    contrib("attention_lengths", "Attention", {"x": _WORDS, "m": np.array([3, 2], np.int32)}, "x w b m", num_heads=2,
            CONSTANTS={"w": floats(8, 24), "b": floats(24)}),
    contrib("attention_starts", "Attention", {"x": _WORDS, "m": np.array([3, 2, 1, 0], np.int32)}, "x w b m",
            num_heads=2, SYMBOLIC=True, CONSTANTS={"w": floats(8, 24), "b": floats(24)}),
    contrib("attention_lengths_symbolic", "Attention", {"x": _WORDS, "m": np.array([3, 2], np.int32)}, "x w b m",
            num_heads=2, SYMBOLIC=True, CONSTANTS={"w": floats(8, 24), "b": floats(24)}),
    contrib("attention_starts_of_samples", "Attention", {"x": _WORDS}, "x w b m", num_heads=2,
            CONSTANTS={"w": floats(8, 24), "b": floats(24), "m": np.array([3, 2, 1, 0], np.int32)}),
    contrib("multi_head_attention_more_lengths", "MultiHeadAttention", {"q": _WORDS, "k": _WORDS, "v": _WORDS},
            "q k v _ m", num_heads=2, CONSTANTS={"m": np.array([2, 3, 0, 3, 6, 0, 3, 6], np.int32)}),
    contrib("attention_causal_mask", "Attention", {"x": _WORDS}, "x w b m", num_heads=4, unidirectional=1,
            CONSTANTS={"w": floats(8, 24), "b": floats(24), "m": np.array([[1, 1, 0], [1, 1, 1]], np.int32)}),
    contrib("q_attention", "QAttention", {"x": numbers(2, 3, 8, dtype="uint8", low=0, high=255)}, "x w b s t m z v",
            num_heads=2, CONSTANTS={"w": numbers(8, 24, dtype="int8", low=-128, high=127), "b": floats(24), "s": _SCALE,
                                    "t": np.float32(0.01), "m": np.array([3, 2], np.int32), "z": _ZERO,
                                    "v": np.int8(3)}),
    contrib("multi_head_attention_packed", "MultiHeadAttention", {"q": _PACKED}, num_heads=2,
            EXPECTED=[attended(*np.moveaxis(_PACKED, 3, 0))]),
    contrib("multi_head_attention_packed_keys", "MultiHeadAttention", {"q": _WORDS, "k": _PAIRS},
            num_heads=2, EXPECTED=[attended(_WORDS.reshape(2, 3, 2, 4), *np.moveaxis(_PAIRS, 3, 0))]),
    contrib("multi_head_attention_of_heads", "MultiHeadAttention",
            {"q": _WORDS, "k": floats(2, 2, 5, 4), "v": floats(2, 2, 5, 4)}, num_heads=2),
    contrib("multi_head_attention_mask_of_queries", "MultiHeadAttention", {"q": _WORDS, "k": _WORDS, "v": _WORDS},
            "q k v _ m", num_heads=2, CONSTANTS={"m": np.tri(3, dtype=np.int32)[None].repeat(2, 0)}),
    contrib("multi_head_attention_causal", "MultiHeadAttention", {"q": _WORDS, "k": _WORDS, "v": _WORDS[::-1].copy()},
            "q k v _ m", num_heads=2, unidirectional=1, CONSTANTS={"m": np.array([2, 3], np.int32)}),
    _grouped("group_query_attention", "q k v _ _ l t", 3, [3], 3),
    _grouped("group_query_attention_packed", "q _ _ p p l t c s", 1, [6], 6, do_rotary=1, local_window_size=3),
    _grouped("group_query_attention_of_samples", "q k v p p l t c s", 1, [6, 4], 6, do_rotary=1, softcap=2.0,
             rotary_interleaved=1),
    _grouped("group_query_attention_with_sinks", "q k v p p l t c s n b k0", 3, [8], 8, do_rotary=1),
    _grouped("group_query_attention_with_room", "q k v p p l t c s", 1, [4, 2], 4, do_rotary=1),
    *(_grouped(f"group_query_attention_symbolic_{place}", given, 3, [8], 8, **rest, SYMBOLIC=True)
      for place, (given, rest) in enumerate((("q k v p p l t", {}), ("q _ _ p p l t", {}),
                                             ("q k v p p l t _ _ _ b k0", {"local_window_size": 3})))),
    _grouped("group_query_attention_symbolic_prompt", "q k v _ _ l t", 3, [3], 3, SYMBOLIC=True),
    contrib("multi_head_attention_nothing_seen", "MultiHeadAttention", {"q": _WORDS, "k": _WORDS, "v": _WORDS},
            "q k v _ m a", num_heads=2, mask_filter_value=-100.0,
            CONSTANTS={"m": np.array([[1, 1, 0], [0, 0, 0]], np.int32), "a": floats(2, 2, 3, 3)}),
    contrib("multi_head_attention_weak_mask", "MultiHeadAttention", {"q": _WORDS, "k": _WORDS, "v": _WORDS},
            "q k v _ m", num_heads=2, mask_filter_value=-1.0,
            CONSTANTS={"m": np.array([[1, 1, 0], [0, 1, 1]], np.int32)}),
    contrib("multi_head_attention_weak_order", "MultiHeadAttention", {"q": _WORDS, "k": _WORDS, "v": _WORDS},
            num_heads=2, mask_filter_value=-1.0, unidirectional=1),
    contrib("multi_head_attention_bias", "MultiHeadAttention",
            {"q": _WORDS, "k": floats(2, 5, 8), "v": floats(2, 5, 8)}, "q k v b _ a", num_heads=2, scale=0.3,
            CONSTANTS={"b": floats(24), "a": floats(1, 2, 3, 5)}),
    contrib("multi_head_attention_scale_zero", "MultiHeadAttention", {"q": _WORDS, "k": _WORDS, "v": _WORDS},
            num_heads=2, scale=0.0),
    contrib("multi_head_attention_symbolic", "MultiHeadAttention", {"q": _WORDS, "k": floats(2, 5, 8),
            "v": floats(2, 5, 8), "b": floats(24)}, "q k v b", num_heads=2, SYMBOLIC=True),
    contrib("distances", "CDist", {"a": floats(3, 4), "b": floats(5, 4)}, metric="euclidean"),
    contrib("expand_dims", "ExpandDims", {"x": X}, "x a", CONSTANTS={"a": np.int32(1)}),
    contrib("nhwc_max_pool", "NhwcMaxPool", {"x": numbers(1, 6, 5, 3, dtype="uint8", low=0, high=255)},
            kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 0, 1]),
    contrib("mat_mul_eight_bits", "MatMulNBits", {"a": floats(3, 32)}, "a b s z", N=4, K=32, bits=8, block_size=16,
            CONSTANTS={"b": numbers(4, 2, 16, dtype="uint8", low=0, high=255), "s": np.abs(floats(8)),
                       "z": numbers(8, dtype="uint8", low=0, high=255)}),
    contrib("q_linear_conv_last", "QLinearConv", {"a": numbers(1, 6, 6, 2, dtype="uint8", low=0, high=255)},
            "a s z w s z t o", channels_last=1, STEPS=1,
            CONSTANTS={**_LINEAR, "w": numbers(3, 2, 3, 3, dtype="uint8", low=0, high=255)}),
    contrib("gather_block_quantized", "GatherBlockQuantized", {"i": numbers(2, 3, low=0, high=5)}, "w i s",
            block_size=16, bits=4, quantize_axis=1,
            CONSTANTS={"w": numbers(5, 16, dtype="uint8", low=0, high=255), "s": np.abs(floats(5, 2))}),
    contrib("gather_packed_zeros", "GatherBlockQuantized", {"i": numbers(3, low=0, high=5)}, "w i s z",
            block_size=16, bits=4, quantize_axis=1,
            CONSTANTS={"w": numbers(5, 24, dtype="uint8", low=0, high=255), "s": np.abs(floats(5, 3)),
                       "z": numbers(5, 2, dtype="uint8", low=0, high=255)}),
    contrib("gather_eight_bits", "GatherBlockQuantized", {"i": numbers(3, low=0, high=5)}, "w i s z",
            block_size=16, bits=8, quantize_axis=1,
            CONSTANTS={"w": numbers(5, 32, dtype="uint8", low=0, high=255), "s": np.abs(floats(5, 2)),
                       "z": numbers(5, 2, dtype="uint8", low=0, high=255)}),
    contrib("q_linear_average_pool_last", "QLinearAveragePool",
            {"a": numbers(1, 6, 6, 2, dtype="uint8", low=0, high=255)}, "a s z t o", kernel_shape=[2, 2],
            strides=[2, 2], channels_last=1, CONSTANTS=_LINEAR, STEPS=1),
    contrib("mat_mul_n_bits", "MatMulNBits", {"a": floats(3, 32)}, "a b s", N=4, K=32, bits=4, block_size=16,
            CONSTANTS={"b": numbers(4, 2, 8, dtype="uint8", low=0, high=255), "s": np.abs(floats(8))}),
    contrib("mat_mul_n_bits_groups", "MatMulNBits", {"a": floats(3, 40)}, "a b s _ g", N=2, K=40, bits=4, block_size=32,
            CONSTANTS={"b": numbers(2, 2, 16, dtype="uint8", low=0, high=255), "s": floats(2, 2),
                       "g": numbers(64, dtype="int32", low=0, high=1)}),
    contrib("mat_mul_n_bits_groups_ignored_zeros", "MatMulNBits", {"a": floats(3, 40)}, "a b s z g", N=2, K=40, bits=4,
            block_size=32, CONSTANTS={"b": numbers(2, 2, 16, dtype="uint8", low=0, high=255), "s": floats(2, 2),
                                      "z": numbers(2, dtype="uint8", low=0, high=255),
                                      "g": numbers(64, dtype="int32", low=0, high=1)}),
    contrib("mat_mul_n_bits_float_zeros", "MatMulNBits", {"a": floats(3, 40)}, "a b s z", N=2, K=40, bits=4,
            block_size=32, CONSTANTS={"b": numbers(2, 2, 16, dtype="uint8", low=0, high=255), "s": floats(2, 2),
                                      "z": floats(2, 2)}),
    contrib("mat_mul_two_bits", "MatMulNBits", {"a": floats(3, 40)}, "a b s z", N=3, K=40, bits=2, block_size=16,
            ONNXRUNTIME=False, CONSTANTS={"b": numbers(3, 3, 4, dtype="uint8", low=0, high=255), "s": floats(3, 3),
                       "z": numbers(3, 1, dtype="uint8", low=0, high=255)}),
    contrib("mat_mul_n_bits_zeros", "MatMulNBits", {"a": floats(3, 32)}, "a b s z", N=4, K=32, bits=4, block_size=16,
            CONSTANTS={"b": numbers(4, 2, 8, dtype="uint8", low=0, high=255), "s": np.abs(floats(8)),
                       "z": numbers(4, dtype="uint8", low=0, high=255)}),
    contrib("q_linear_add_between_steps", "QLinearAdd",
            {"a": np.ones((1, 1), np.uint8), "b": numbers(3, 50, dtype="uint8", low=0, high=255)},
            "a s z b t o t z", CONSTANTS={"s": np.float32(0.003921569), "z": np.uint8(0), "o": np.uint8(128),
                                          "t": np.float32(0.007843139)}),
    contrib("q_linear_add", "QLinearAdd", {"a": BYTES, "b": BYTES[::-1].copy()}, "a s z b s z t o",
            CONSTANTS=_LINEAR, STEPS=1),
    contrib("q_linear_mul", "QLinearMul", {"a": BYTES, "b": BYTES[::-1].copy()}, "a s z b s z t o",
            CONSTANTS=_LINEAR, STEPS=1),
    contrib("q_linear_sigmoid", "QLinearSigmoid", {"a": BYTES}, "a s z t o", CONSTANTS=_LINEAR, STEPS=1),
    contrib("q_linear_leaky_relu", "QLinearLeakyRelu", {"a": BYTES}, "a s z t o", alpha=0.3,
            CONSTANTS=_LINEAR, STEPS=1),
    contrib("q_linear_concat", "QLinearConcat", {"a": BYTES, "b": BYTES}, "t o a s z b s z", axis=1,
            CONSTANTS=_LINEAR, STEPS=1),
    contrib("q_linear_average_pool", "QLinearAveragePool",
            {"a": numbers(1, 2, 6, 6, dtype="uint8", low=0, high=255)}, "a s z t o", kernel_shape=[2, 2],
            strides=[2, 2], CONSTANTS=_LINEAR, STEPS=1),
    contrib("q_linear_global_average_pool", "QLinearGlobalAveragePool",
            {"a": numbers(1, 2, 6, 6, dtype="uint8", low=0, high=255)}, "a s z t o", CONSTANTS=_LINEAR, STEPS=1),
    contrib("dynamic_quantize_mat_mul", "DynamicQuantizeMatMul", {"a": floats(3, 4)}, "a b s z c",
            CONSTANTS={"b": numbers(4, 5, dtype="uint8", low=0, high=255), "s": _SCALE, "z": _ZERO, "c": floats(5)}),
    _quantized_layer("dynamic_quantize_lstm", "x w r b _ _ _ _"),
    _quantized_layer("dynamic_quantize_lstm_whole", "x w r b n h c p", columns=True, direction="bidirectional",
                     clip=0.7, activations=["Sigmoid", "Relu", "Tanh", "HardSigmoid", "Tanh", "Affine"],
                     activation_alpha=[0.3, 0.9], activation_beta=[0.4]),
    _quantized_layer("dynamic_quantize_lstm_symbolic", "x w r _ n h _ _", signed=True, direction="reverse",
                     input_forget=1, SYMBOLIC=True),
]  # fmt: skip

_ROWS = np.array([[1, 0, 3], [0, 5, np.nan], [7, 8, 9]], np.float32)


def _learned(name: str, op_type: str, inputs: Mapping[str, np.ndarray], **attributes: Any) -> Case:
    """Return a case of an operator of machine learning, with dims that are not declared."""
    return one(name, 17, op_type, inputs, domain="ai.onnx.ml", SYMBOLIC=True, **attributes)


LEARNED = [
    _learned("scaler_of_unknown_columns", "Scaler", {"x": _ROWS}, offset=[1.0, 2.0, 3.0], scale=[2.0, 3.0, 4.0]),
    _learned("imputer_of_unknown_columns", "Imputer", {"x": _ROWS}, imputed_value_floats=[1.5, 2.5, 3.5],
             replaced_value_float=0.0),
    _learned("imputer_of_fewer_unknown_columns", "Imputer", {"x": _ROWS}, imputed_value_floats=[1.5, 2.5],
             replaced_value_float=float("nan")),
    _learned("feature_vectorizer_of_unknown_columns", "FeatureVectorizer",
             {"a": np.abs(_ROWS[:2, :2]), "b": floats(2, 4), "c": floats(2, 3)}, inputdimensions=[3, 2, 3]),
]  # fmt: skip

STAYING = [  # for RTen's ONNX loader, which reads these attributes and inputs
    contrib("skip_layer_normalization_stays", "SkipLayerNormalization", {"x": _WORDS, "k": _WORDS[::-1].copy()},
            "x k g b", epsilon=1e-4, CONSTANTS={"g": floats(8), "b": floats(8)}),
    contrib("skip_simplified_stays", "SkipSimplifiedLayerNormalization", {"x": _WORDS, "k": _WORDS[::-1].copy()},
            "x k g", epsilon=1e-4, CONSTANTS={"g": floats(8)}),
    one("simplified_layer_normalization", 17, "SimplifiedLayerNormalization", {"x": _WORDS}, "x g", axis=-1,
        epsilon=1e-4, CONSTANTS={"g": floats(8)}),
    one("layer_normalization_axis", 17, "LayerNormalization", {"x": _WORDS}, "x g b", axis=1,
        CONSTANTS={"g": floats(3, 8), "b": floats(3, 8)}),
    contrib("multi_head_attention_attributes", "MultiHeadAttention", {"q": _WORDS, "k": _WORDS, "v": _WORDS},
            "q k v _ m", num_heads=2, scale=0.3, mask_filter_value=-50.0,
            CONSTANTS={"m": np.array([[1, 1, 0], [1, 1, 1]], np.int32)}),
    Case("multi_head_attention_of_unknown_width", 17, [
        node("MultiHeadAttention", "q k v", "a", domain=CONTRIB, num_heads=2), node("Mul", "a c", "y")],
        dict.fromkeys("qkv", _WORDS), {"c": floats(8)}, symbolic=True),
    contrib("multi_head_attention_unidirectional", "MultiHeadAttention", {"q": _WORDS, "k": _WORDS, "v": _WORDS},
            num_heads=2, unidirectional=1),
    contrib("quick_gelu_alpha", "QuickGelu", {"x": X}, alpha=0.7),
    contrib("rotary_embedding_interleaved", "RotaryEmbedding",
            {"x": floats(1, 2, 3, 8), "p": int64(0, 1, 2).reshape(1, 3)}, "x p c s", interleaved=1,
            CONSTANTS={"c": floats(4, 4), "s": floats(4, 4)}),
    one("pad_reflect", 13, "Pad", {"x": floats(1, 2, 4, 5)}, "x p", mode="reflect",
        CONSTANTS={"p": int64(0, 0, 1, 2, 0, 0, 0, 1)}),
    one("resize_nearest_ceil", 13, "Resize", {"x": floats(1, 1, 4, 4)}, "x _ s", mode="nearest", nearest_mode="ceil",
        coordinate_transformation_mode="asymmetric", CONSTANTS={"s": float32(1, 1, 1.5, 2)}),
    one("reduce_l1_axes", 13, "ReduceL1", {"x": X}, axes=[1], keepdims=0),
    *(one(f"{op}_axes", 13, op, {"x": np.abs(X) + 1}, axes=[1])
      for op in ("ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMin", "ReduceProd")),
    *(one(f"{op}_of_no_axes", 18, op, {"x": np.abs(X) + 1}, noop_with_empty_axes=1)
      for op in ("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin",
                 "ReduceProd")),
    one("conv_integer_groups", 10, "ConvInteger", {"x": numbers(2, 4, 5, 6, dtype="uint8", low=0, high=255)}, "x w",
        group=2, CONSTANTS={"w": numbers(6, 2, 3, 2, dtype="uint8", low=0, high=255)}),
    one("dft_length", 17, "DFT", {"x": floats(2, 8, 1)}, "x n", axis=1, CONSTANTS={"n": np.array(6)}),
    one("stft_both_sides", 17, "STFT", {"x": floats(2, 32, 1)}, "x s w", onesided=0,
        CONSTANTS={"s": np.array(4), "w": np.abs(floats(8))}),
    one("top_k_in_any_order", 11, "TopK", {"x": X}, "x k", sorted=0, CONSTANTS={"k": int64(1)}, OUTPUTS=("y", "i")),
    *(Case(f"sequence_erase_{place or 'last'}", 17, [
        node("SequenceConstruct", "a b c", "s"), node("SequenceErase", f"s {place}".strip(), "t"),
        node("ConcatFromSequence", "t", axis=0)], {name: floats(2, 3) + at for at, name in enumerate("abc")},
        {"p": np.array(1)}) for place in ("", "p")),
    contrib("mat_mul_n_bits_accuracy", "MatMulNBits", {"a": floats(3, 32)}, "a b s", N=4, K=32, bits=4, block_size=16,
            accuracy_level=1, CONSTANTS={"b": numbers(4, 2, 8, dtype="uint8", low=0, high=255),
                                         "s": np.abs(floats(8))}),
    one("reduce_square_axes", 13, "ReduceSumSquare", {"x": X}, axes=[0, 2]),
    *(one(f"{op}_of_given_axes", 18, op, {"x": np.abs(X) + 1, "a": int64(1)}, noop_with_empty_axes=1)
      for op in ("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin",
                 "ReduceProd", "ReduceSumSquare")),
    *(one(f"{op.lower()}_{direction}_with_states", 14, op,
          {"x": floats(3, 2, 4), **{name: floats(count, 2, 5) for name in ("hc" if gates == 4 else "h")}},
          "x w r b _ h c" if gates == 4 else "x w r b _ h", hidden_size=5, direction=direction,
          OUTPUTS=("y", "last"), **({} if gates == 4 else {"linear_before_reset": 1}),
          CONSTANTS={"w": floats(count, gates * 5, 4), "r": floats(count, gates * 5, 5),
                     "b": floats(count, 2 * gates * 5)})
      for op, gates in (("GRU", 3), ("LSTM", 4))
      for direction, count in (("forward", 1), ("reverse", 1), ("bidirectional", 2))),
    one("pad_wrap_last", 19, "Pad", {"x": floats(1, 2, 4, 5)}, "x p", mode="wrap",
        CONSTANTS={"p": int64(0, 0, 1, 2, 0, 0, 0, 1)}),
    one("quantize_of_stated_type", 21, "QuantizeLinear", {"x": floats(3, 4)}, "x s z", output_dtype=3,
        CONSTANTS={"s": np.float32(0.125), "z": np.int8(3)}),
    *(one(f"resize_nearest_up_{mode}_{scale}", 13, "Resize", {"x": floats(1, 1, 4, 4)}, "x _ s", mode="nearest",
          nearest_mode="round_prefer_ceil", coordinate_transformation_mode=mode,
          CONSTANTS={"s": float32(1, 1, scale, scale)})
      for mode, scale in (("asymmetric", 3), ("asymmetric", 0.5), ("half_pixel", 2), ("align_corners", 1.5))),
    one("conv_integer_zero_points", 10, "ConvInteger", {"x": numbers(1, 2, 5, 5, dtype="uint8", low=0, high=255)},
        "x w z v", CONSTANTS={"w": numbers(3, 2, 2, 2, dtype="uint8", low=0, high=255), "z": np.uint8(3),
                              "v": np.uint8(7)}),
    contrib("multi_head_attention_without_mask", "MultiHeadAttention", {"q": _WORDS, "k": _WORDS, "v": _WORDS},
            num_heads=2, mask_filter_value=-50.0),
    *(one(f"sign_of_{dtype}", 13, "Sign", {"x": numbers(2, 5, dtype=dtype)}) for dtype in ("int32", "int64")),
]  # fmt: skip

CASES = [
    *OLD_FORMS,
    *ELEMENTWISE,
    *SUPPRESSIONS,
    *GRIDS,
    *BITS,
    *SHAPES,
    *REDUCTIONS,
    *WINDOWS,
    *RESIZES,
    *QUANTISED,
    *RECURRENT,
    *SEQUENCES,
    *SIGNALS,
    *CONTRIBUTED,
    *LEARNED,
    *STAYING,
]
