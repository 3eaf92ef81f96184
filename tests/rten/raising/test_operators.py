"""Every operator of RTen, in ONNX: onnxruntime and RTen's ONNX loader compute the same as RTen with a .rten file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from formats.ir.model import Model, OperatorSetId, Tensor, ValueInfo
from formats.ir.storage import from_numpy
from formats.onnxpb.codecs import CODEC as ONNX
from formats.onnxpb.options import OnnxOptions
from formats.rten import CODEC
from formats.rten.graph.attributes import make_node
from formats.rten.operators import SPECS
from formats.rten.options import RtenOptions
from formats.rten.raising.kinds import INTEGER_LETTERS
from formats.rten.raising.model import raise_model
from formats.rten.spec import RTEN_DOMAIN
from formats.tensordata.engine import to_bytes
from formats.tensordata.sources.source import Literal
from tests.rten.evaluation import evaluate
from tests.rten.rten_operators import HELD
from tests.runtime.runner import DEFAULT_RELEASES, RunnerError

RNG = np.random.default_rng(5)
INF, NAN = np.inf, np.nan
F, I = np.float32, np.int32  # noqa: E741 - the letters of RTen's own documentation


def floats(*dims):
    """Return small numbers of either sign."""
    return RNG.normal(size=dims).astype(F)


def positive(*dims):
    """Return numbers between a half and three halves."""
    return (RNG.random(dims) + 0.5).astype(F)


def ints(*values):
    """Return a vector of integers."""
    return np.array(values, I)


def grid(*dims):
    """Return the integers starting with -3."""
    return (np.arange(np.prod(dims, dtype=int), dtype=I) - 3).reshape(dims)


def case(op_type, *inputs, outputs=1, **attributes):
    """Return one row of the table: a node and its input arrays, with None for an omitted input."""
    text = ",".join(f"{name}={value}" for name, value in attributes.items() if not isinstance(value, Tensor))
    kinds = "".join("-" if array is None else f"{array.dtype.char}{array.ndim}" for array in inputs)
    return pytest.param(op_type, inputs, outputs, attributes, id=f"{op_type}-{kinds}-{text}".strip("-"))


def scalar(value, dtype=I):
    """Return an array without axes."""
    return np.array(value, dtype)


IMAGE, LINE = floats(2, 4, 7, 6), floats(2, 4, 9)
MATRIX, NUMBERS = floats(3, 4), grid(3, 4)
EXTREMES = np.array([[[3, 3, 1], [1, 1, 3]], [[NAN, 7, NAN], [7, NAN, 7]], [[0.0, -0.0, 0], [-INF, INF, INF]]], F)
# fmt: off
UNARY = [
    "Abs", "Asin", "Asinh", "Atan", "Atanh", "Ceil", "Cos", "Cosh", "Elu", "Erf", "Exp", "Floor", "Gelu", "HardSigmoid",
    "HardSwish", "Identity", "LeakyRelu", "Neg", "Reciprocal", "Relu", "Round", "Sigmoid", "Sign", "Sin", "Sinh",
    "Softplus", "Tan", "Tanh",
]
BINARY = ["Add", "Div", "Mul", "Sub", "Mod", "Max", "Min", "Mean", "Sum"]
COMPARISONS = ["Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"]
REDUCTIONS = ["L1", "L2", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare"]

CASES = [
    *(case(op_type, (MATRIX / 4).astype(F)) for op_type in UNARY),
    *(case(op_type, positive(3, 4) + 1) for op_type in ("Acosh", "Log", "Sqrt")),
    case("Acos", (MATRIX / 4).astype(F)),
    *(case(op_type, NUMBERS) for op_type in ("Abs", "Identity", "Neg", "Sign")),
    *(case(op_type, MATRIX, positive(4)) for op_type in (*BINARY, "PRelu")),
    *(case(op_type, NUMBERS, ints(3, -2, 5, 1)) for op_type in BINARY if op_type != "Mean"),
    *(case(op_type, MATRIX, None, MATRIX * 2) for op_type in ("Max", "Sum", "Mean")),
    case("Sum", NUMBERS),
    case("Sum", NUMBERS, NUMBERS, ints(1)),
    case("Mod", MATRIX, floats(3, 4)),
    case("Mod", np.array([6, -6, -4, 4, 0, -0.0, 5, -5, 5, np.nan, np.inf, 1e-30], F),
         np.array([-3, 3, -3, 3, -3, -3, np.inf, np.inf, -np.inf, -1, -1, -1e30], F)),
    case("Mod", MATRIX, floats(4), fmod=1),
    case("Mod", NUMBERS, ints(-3, 3, 2, 5), fmod=1),
    *(case(op_type, MATRIX.round(), floats(3, 4).round()) for op_type in COMPARISONS),
    *(case(op_type, NUMBERS, ints(3, -2, 5, 1)) for op_type in COMPARISONS),
    *(case(op_type, NUMBERS, ints(0, 1, 2, 0)) for op_type in ("And", "Or", "Xor")),
    case("Not", NUMBERS),
    case("Where", NUMBERS, MATRIX, floats(4)),
    case("Where", NUMBERS, NUMBERS, ints(7)),
    case("Pow", positive(3, 4), floats(4)),
    case("Pow", grid(4), scalar(2.0, F)),
    case("Pow", grid(4), ints(3)),
    case("Clip", MATRIX, scalar(-0.5, F), scalar(0.5, F)),
    case("Clip", MATRIX, None, np.full((1, 1), 0.5, F)),
    case("Clip", NUMBERS, ints(0), None),
    case("IsNaN", np.array([0, np.nan, np.inf], F)),
    case("IsInf", np.array([0, np.nan, np.inf, -np.inf], F)),
    case("BatchNormalization", IMAGE, positive(4), floats(4), floats(4), positive(4), epsilon=0.01),
    case("InstanceNormalization", IMAGE, positive(4), floats(4), epsilon=0.01),
    case("LayerNormalization", MATRIX, positive(4), floats(4), axis=-1, epsilon=0.01),
    case("LayerNormalization", MATRIX, positive(3, 4), axis=0, epsilon=0.01),
    case("Softmax", MATRIX, axis=0),
    case("LogSoftmax", MATRIX, axis=-1),
    case("MatMul", MATRIX, floats(4, 2)),
    case("MatMul", floats(5, 3, 4), floats(5, 4, 2)),
    case("Gemm", MATRIX, floats(2, 4), floats(2), alpha=0.5, beta=2.0, transB=1),
    case("Einsum", MATRIX, floats(4, 2), equation="ij,jk->ki"),
    case("MatMulInteger", grid(3, 4).astype("u1"), grid(4, 2).astype("i1"), scalar(3, "u1"), scalar(-2, "i1")),
    case("Conv", LINE, floats(6, 2, 3), floats(6), group=2, pads=[1, 2], strides=[2], dilations=[1]),
    case("Conv", IMAGE, floats(6, 4, 3, 2), None, auto_pad="SAME_UPPER", strides=[2, 1]),
    case("Conv", IMAGE, floats(6, 4, 3, 2), floats(6), pads=[1, 0, 2, 1], dilations=[2, 1], strides=[1, 2]),
    case("Conv", IMAGE, floats(6, 4, 3, 2)),
    case("Conv", LINE, floats(6, 4, 3), pads=[0, 0], strides=[1], dilations=[1]),
    case("ConvTranspose", LINE, floats(4, 3, 2), pads=[0, 1], strides=[2]),
    case("ConvTranspose", IMAGE, floats(4, 3, 3, 2)),
    case("AveragePool", LINE, kernel_shape=[3], pads=[0, 0]),
    case("AveragePool", IMAGE, kernel_shape=[3, 2]),
    case("MaxPool", IMAGE, kernel_shape=[3, 2]),
    case("ConvInteger", grid(1, 2, 4, 4).astype("u1"), grid(3, 2, 2, 2).astype("u1"), scalar(2, "u1")),
    case("ConvTranspose", IMAGE, floats(4, 3, 3, 2), None, strides=[2, 2], output_padding=[1, 0], pads=[0, 1, 1, 0]),
    case("ConvTranspose", IMAGE, floats(4, 3, 3, 2), floats(3), auto_pad="SAME_UPPER", strides=[2, 2]),
    case("AveragePool", IMAGE, kernel_shape=[3, 2], strides=[2, 2], pads=[1, 0, 1, 0], count_include_pad=1),
    case("AveragePool", IMAGE, kernel_shape=[3, 2], auto_pad="SAME_UPPER"),
    case("MaxPool", LINE, kernel_shape=[3], strides=[2], pads=[1, 1]),
    case("MaxPool", IMAGE, kernel_shape=[2, 2], auto_pad="SAME_UPPER", strides=[2, 2]),
    case("GlobalAveragePool", IMAGE),
    case("GlobalMaxPool", IMAGE),
    case("DepthToSpace", floats(1, 8, 2, 3), blocksize=2, mode="CRD"),
    case("GridSample", IMAGE, (floats(2, 3, 5, 2) / 2).astype(F), align_corners=1),
    case("Resize", IMAGE, None, np.array([1, 1, 2, 3], F), mode="linear", coordinate_transformation_mode="asymmetric"),
    case("Resize", IMAGE, None, np.zeros(0, F), ints(2, 4, 9, 5), mode="nearest", nearest_mode="ceil"),
    case("Resize", IMAGE, None, None, ints(2, 4, 14, 12), mode="linear"),
    case("Upsample", IMAGE, np.array([1, 1, 2, 3], F), mode="linear"),
    case("Upsample", IMAGE, np.array([1, 1, 2, 3], F), mode="nearest"),
    case("Concat", MATRIX, floats(2, 4), axis=0),
    case("Concat", NUMBERS, NUMBERS, axis=-1),
    case("Transpose", IMAGE, perm=[0, 2, 3, 1]),
    case("Transpose", NUMBERS),
    case("Flatten", IMAGE, axis=2),
    case("Reshape", MATRIX, ints(2, -1)),
    case("Reshape", NUMBERS, ints(0, 2, 2), allowzero=0),
    case("Squeeze", floats(1, 3, 1), ints(0)),
    case("Squeeze", floats(1, 3, 1)),
    case("Unsqueeze", NUMBERS, ints(0, -1)),
    case("Expand", floats(3, 1), ints(2, 1, 4)),
    case("Tile", NUMBERS, ints(2, 1)),
    case("Gather", MATRIX, np.array([[0, -1]], I), axis=1),
    case("Gather", NUMBERS, scalar(1)),
    case("GatherElements", MATRIX, np.array([[0, 1, 2, -1]], I), axis=0),
    case("GatherND", NUMBERS, np.array([[0, 1], [2, 3]], I)),
    case("GatherND", MATRIX, np.array([[0], [2], [3]], I), batch_dims=1),
    case("ScatterElements", MATRIX, np.array([[1, 0]], I), floats(1, 2), axis=1, reduction="add"),
    case("Scatter", NUMBERS, np.array([[1, 0]], I), np.array([[9, 8]], I), axis=1),
    case("ScatterND", MATRIX, np.array([[1], [0]], I), floats(2, 4), reduction="max"),
    case("Slice", MATRIX, ints(1), ints(2**31 - 1), ints(-1), ints(2)),
    case("Slice", NUMBERS, ints(-1, -1), ints(-(2**31), 0), ints(0, 1), ints(-1, -2)),
    case("Slice", NUMBERS, ints(1, -2), ints(3, 4)),
    case("Split", MATRIX, ints(1, 3), outputs=2, axis=1),
    case("Split", MATRIX, outputs=2, axis=1, num_outputs=2),
    case("Split", NUMBERS, outputs=3, axis=0),
    case("Pad", MATRIX, ints(1, 0, 0, 2), scalar(1.5, F)),
    case("Pad", NUMBERS, ints(1, 0, 0, 2), ints(7)),
    case("Pad", MATRIX, ints(1, 0, 0, 2), mode="reflect"),
    case("Trilu", MATRIX, ints(1), upper=0),
    case("Trilu", NUMBERS, upper=1),
    case("EyeLike", MATRIX, k=1),
    case("EyeLike", NUMBERS, dtype=1),
    case("EyeLike", NUMBERS),
    case("ReverseSequence", MATRIX, ints(1, 2, 3, 3), time_axis=0, batch_axis=1),
    case("OneHot", ints(0, 2, -1, 7), scalar(4), np.array([0.5, 2], F), axis=0),
    case("OneHot", ints(0, 2), ints(3), ints(5, 7)),
    case("Range", scalar(1.0, F), scalar(4.0, F), scalar(0.5, F)),
    case("Range", ints(5), scalar(-3), scalar(-2)),
    case("Shape", IMAGE),
    case("Shape", IMAGE, start=1, end=-1),
    case("Size", NUMBERS),
    case("NonZero", NUMBERS),
    case("ConstantOfShape", ints(2, 3), value=from_numpy(np.array([7], I))),
    case("ConstantOfShape", ints(2, 3), value=from_numpy(np.array([0.5], F))),
    case("TopK", MATRIX, ints(2), outputs=2, axis=-1),
    case("TopK", NUMBERS, scalar(2), outputs=2, axis=0, largest=0),
    *(case(op_type, np.array([[1, 3, 3], [2, 0, 0]], F), axis=1) for op_type in ("ArgMax", "ArgMin")),
    *(case(op_type, EXTREMES, axis=axis, keepdims=keep) for op_type in ("ArgMax", "ArgMin") for axis in (0, -2, 2)
      for keep in (0, 1)),
    *(case(op_type, EXTREMES[0].astype(I), axis=1) for op_type in ("ArgMax", "ArgMin")),
    case("ArgMax", NUMBERS, axis=0, keepdims=0),
    case("ArgMin", floats(3, 1, 2), axis=1),
    case("ArgMin", floats(0, 3), axis=1),
    *(case(f"Reduce{kind}", MATRIX, ints(0), keepdims=0) for kind in REDUCTIONS),
    *(case(f"Reduce{kind}", MATRIX, axes=[-1], keepdims=1) for kind in REDUCTIONS),
    *(case(f"Reduce{kind}", NUMBERS) for kind in REDUCTIONS if kind not in ("L2", "Mean")),
    case("ReduceSum", MATRIX, ints(1), axes=[0]),
    case("CumSum", MATRIX, scalar(1)),
    case("CumSum", NUMBERS, ints(0)),
    *(case("Cast", array, to=to) for array in (MATRIX, NUMBERS, NUMBERS.astype("i1")) for to in (1, 3, 6)),
    case("Cast", np.abs(NUMBERS), to=2),
    case("CastLike", NUMBERS, MATRIX),
    case("CastLike", MATRIX, NUMBERS),
    case("QuantizeLinear", MATRIX, scalar(0.1, F), scalar(3, "u1")),
    case("QuantizeLinear", MATRIX, scalar(0.1, F), scalar(3, "i1"), output_dtype=3),
    case("QuantizeLinear", MATRIX, positive(4), np.zeros(4, "u1"), axis=1, output_dtype=2),
    case("QuantizeLinear", floats(2, 3, 4), positive(3), np.zeros(3, "u1"), output_dtype=2),
    case("DequantizeLinear", NUMBERS.astype("i1"), scalar(0.1, F), scalar(3, "i1")),
    case("DequantizeLinear", grid(2, 3, 4).astype("i1"), positive(3), np.zeros(3, "i1")),
    case("DequantizeLinear", NUMBERS, positive(4), np.zeros(4, I), axis=1),
    case("DequantizeLinear", NUMBERS, positive(4), ints(1, 2, 3, 4), axis=1),
    case("DequantizeLinear", NUMBERS, scalar(0.5, F), scalar(2)),
    case("DynamicQuantizeLinear", np.arange(12, dtype=F), outputs=3),
    case("Dropout", MATRIX, scalar(0.25, F), outputs=2, seed=3),
    case("LSTM", floats(5, 2, 3), floats(1, 16, 3), floats(1, 16, 4), floats(1, 32), outputs=3, hidden_size=4),
    case("LSTM", floats(5, 2, 3), floats(2, 16, 3), floats(2, 16, 4), outputs=3, direction="bidirectional"),
    case("LSTM", floats(5, 2, 3), floats(1, 16, 3), floats(1, 16, 4), None, ints(2, 3), direction="reverse"),
    case("GRU", floats(5, 2, 3), floats(1, 12, 3), floats(1, 12, 4), None, None, floats(1, 2, 4), outputs=2,
         linear_before_reset=1, hidden_size=4),
    case("DFT", floats(2, 8, 1), None, scalar(1), onesided=1),
    case("DFT", floats(2, 8, 2), ints(6), scalar(-2), inverse=1),
    case("STFT", floats(1, 32), scalar(4), positive(8), scalar(8), onesided=1),
    case("NonMaxSuppression", np.array([[[0, 0, 1, 1], [0, 0, 1, 1.1], [2, 2, 3, 3]]], F),
         np.array([[[0.9, 0.8, 0.7]]], F), ints(3), scalar(0.5, F), scalar(0.1, F)),
    case("RotaryEmbedding", floats(1, 2, 3, 4), floats(5, 2), floats(5, 2), np.array([[0, 2, 4]], I), interleaved=1),
    case("RotaryEmbedding", floats(1, 3, 8), floats(1, 3, 2), floats(1, 3, 2), num_heads=2),
    case("Attention", floats(1, 2, 3, 4), floats(1, 2, 5, 4), floats(1, 2, 5, 4), is_causal=1),
    case("Attention", floats(1, 2, 3, 4), floats(1, 2, 5, 4), floats(1, 2, 5, 4), np.tri(3, 5, 1, I), scale=0.3),
    case("Attention", floats(1, 3, 8), floats(1, 5, 8), floats(1, 5, 8), floats(3, 5), q_num_heads=2, kv_num_heads=2),
]
RANDOM = [
    case("RandomUniform", shape=[200], high=3.0, low=2.0, seed=1.0),
    case("RandomNormal", shape=[200], mean=9.0, scale=0.01),
    case("RandomUniformLike", grid(200), high=3.0, low=2.0),
    case("RandomNormalLike", floats(200), mean=9.0, scale=0.01),
    case("Multinomial", floats(2, 5), sample_size=400),
]
LATER = [
    ("LpNormalization", [MATRIX], {"p": 1, "axis": 0}, MATRIX / np.abs(MATRIX).sum(0)),
    ("ReduceLogSum", [positive(3, 4)], {"axes": [1]}, lambda x: np.log(x.sum(1, keepdims=True))),
    ("ReduceLogSumExp", [MATRIX], {"keepdims": 0}, np.log(np.exp(MATRIX).sum())),
    ("CumSum", [NUMBERS, scalar(1)], {"exclusive": 1}, NUMBERS.cumsum(1, I) - NUMBERS),
    ("CumSum", [NUMBERS, scalar(1)], {"reverse": 1}, NUMBERS[:, ::-1].cumsum(1, I)[:, ::-1]),
]
# fmt: on
SUBGRAPHS_AND_SEQUENCES = {
    *("If", "Loop"),
    *("ConcatFromSequence", "SequenceAt", "SequenceConstruct", "SequenceEmpty", "SequenceErase", "SequenceInsert"),
    *("SequenceLength", "SplitToSequence"),
}


def native(graph):
    """Return a model in RTen's form."""
    for node in graph.node:
        node.domain = RTEN_DOMAIN
    return Model(opset_import=[OperatorSetId(domain=RTEN_DOMAIN, version=1)], graph=graph)


def node_model(make, op_type, inputs, outputs, attributes, *, constant):
    """Return a model of one operator, with its inputs and their values, or with constants instead of inputs."""
    names = [f"in{place}" if array is not None else "" for place, array in enumerate(inputs)]
    given = {name: array for name, array in zip(names, inputs, strict=True) if name}
    tensors = [from_numpy(array, name) for name, array in given.items()]
    results = [f"out{place}" for place in range(outputs)]
    graph = make.graph(
        [make_node(op_type, names, results, **attributes)],
        [] if constant else [make.value(tensor.name, tensor.data_type, tensor.dims) for tensor in tensors],
        [ValueInfo(name=name) for name in results],
        tensors if constant else (),
    )
    return native(graph), {} if constant else given


def in_rten(model, given, runtime, path):
    """Return the outputs of RTen, and the model as it is read from the file that RTen ran."""
    path.write_bytes(to_bytes(CODEC.plan(model, path, RtenOptions())))
    return runtime.run(path, given), CODEC.read(Literal(path.read_bytes()), path)


def assert_right(model, given, wanted, runtime, folder, *, shapes=False):
    """Fail if the ONNX form of a model in RTen's form gives other outputs than the .rten file."""
    data = in_onnx(model)
    if shapes:  # the checker requires this for every output
        onnx.checker.check_model(onnx.load_from_string(data), full_check=True)
    assert_equal(evaluate(data, given), wanted)
    if runtime.release >= DEFAULT_RELEASES[-1]:  # users who leave .rten use the ONNX loader of this release
        path = folder / "m.onnx"
        path.write_bytes(data)
        assert_equal(runtime.run(path, given), wanted)


def in_onnx(model):
    """Return the .onnx file of a model in RTen's form."""
    return to_bytes(ONNX.plan(raise_model(model).model, Path("m.onnx"), OnnxOptions()))


def assert_equal(got, wanted):
    """Fail if types, shapes or values differ by more than the last bits."""
    assert len(got) == len(wanted)
    for ours, theirs in zip(got, wanted, strict=True):
        if isinstance(theirs, list):
            assert_equal(ours, theirs)
            continue
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("constant", [False, True], ids=["given", "constant"])
@pytest.mark.parametrize(("op_type", "inputs", "outputs", "attributes"), CASES)
def test_operators(op_type, inputs, outputs, attributes, constant, make, runtime, tmp_path):
    """Onnxruntime and RTen compute the same from an operator's ONNX form as RTen from its own, in the same types."""
    model, given = node_model(make, op_type, inputs, outputs, attributes, constant=constant)
    wanted, model = in_rten(model, given, runtime, tmp_path / "m.rten")
    assert_right(model, given, wanted, runtime, tmp_path)


def is_integer(array):
    """Return whether an input is one of RTen's integers."""
    return array is not None and array.dtype == I


@pytest.mark.parametrize("elem_type", ["int64", "bool"])
@pytest.mark.parametrize(
    ("op_type", "inputs", "outputs", "attributes"), [row for row in CASES if any(map(is_integer, row.values[1]))]
)
def test_integers_of_other_types(op_type, inputs, outputs, attributes, elem_type, make, runtime, tmp_path):
    """Integers that are INT64 or BOOL in ONNX because of their source work with every operator."""
    model, given = node_model(make, op_type, inputs, outputs, attributes, constant=False)
    graph = model.graph
    node = graph.node.pop()
    if elem_type == "int64":
        graph.initializer.append(from_numpy(floats(0), "nothing"))
        graph.node.append(make_node("Size", ["nothing"], ["zero"]))
    for place, array in enumerate(inputs):
        if is_integer(array):
            name = node.input[place]
            node.input[place] = f"{name}/{elem_type}"
            if elem_type == "int64":
                graph.node.append(make_node("Add", [name, "zero"], [node.input[place]]))
            else:
                graph.node.append(make_node("Not", [name], [f"{name}/not"]))
                graph.node.append(make_node("Not", [f"{name}/not"], [node.input[place]]))
    graph.node.append(node)
    try:
        wanted, model = in_rten(native(graph), given, runtime, tmp_path / "m.rten")
    except RunnerError:
        assert elem_type == "bool"  # a divisor or size that became zero or one
        return
    assert_right(model, given, wanted, runtime, tmp_path)


@pytest.mark.parametrize("op_type", ["ArgMax", "ArgMin"])
@pytest.mark.parametrize("axis", [1, -2])
@pytest.mark.parametrize("dims", [None, ["a", "b", "c"]])
def test_extremes_of_unknown_dims(op_type, axis, dims, make, runtime, tmp_path):
    """Of equal extremes, the last is found, even if their number or the axes are known only at run time."""
    node = make_node(op_type, ["x"], ["y"], axis=axis)
    graph = make.graph([node], [make.value("x", 1, dims)], [ValueInfo(name="y")])
    given = {"x": EXTREMES}
    wanted, model = in_rten(native(graph), given, runtime, tmp_path / "m.rten")
    assert_right(model, given, wanted, runtime, tmp_path)


@pytest.mark.parametrize(("op_type", "inputs", "outputs", "attributes"), RANDOM)
def test_random_numbers(op_type, inputs, outputs, attributes, make, runtime, tmp_path):
    """Random numbers differ, but have the same type, shape and range."""
    model, given = node_model(make, op_type, inputs, outputs, attributes, constant=False)
    (wanted,), model = in_rten(model, given, runtime, tmp_path / "m.rten")
    (got,) = evaluate(in_onnx(model), given)
    assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape)
    assert abs(got.mean() - wanted.mean()) < 0.5


@pytest.mark.parametrize(("op_type", "inputs", "attributes", "wanted"), LATER)
def test_later_operators(op_type, inputs, attributes, wanted, make, tmp_path):
    """Operators that only later versions of RTen have are right in ONNX, too."""
    model, given = node_model(make, op_type, inputs, 1, attributes, constant=False)
    model = CODEC.read(Literal(to_bytes(CODEC.plan(model, tmp_path, RtenOptions()))), None)
    assert_equal(evaluate(in_onnx(model), given), [wanted(*inputs) if callable(wanted) else wanted])


def test_sequences(make, runtime, tmp_path):
    """All operators that create, change and read sequences work with integers, comparisons and shapes, too."""
    nodes = [
        make_node("Equal", ["x", "x"], ["same"]),
        make_node("Shape", ["x"], ["shape"]),
        make_node("SequenceConstruct", ["x", "same", "shape"], ["s"]),
        make_node("SequenceInsert", ["s", "shape", "one"], ["t"]),
        make_node("SequenceErase", ["t", "one"], ["u"]),
        make_node("SequenceLength", ["t"], ["length"]),
        make_node("SequenceAt", ["t", "one"], ["element"]),
        make_node("SplitToSequence", ["x", "one"], ["parts"], axis=0),
        make_node("ConcatFromSequence", ["parts"], ["whole"], axis=0),
        make_node("SequenceEmpty", [], ["nothing"]),
        make_node("SequenceInsert", ["nothing", "f"], ["floats"]),
        make_node("ConcatFromSequence", ["floats"], ["stacked"], axis=0, new_axis=1),
    ]
    values = [make.value("x", 6, [2, 2]), make.value("f", 1, [3])]
    names = ["t", "u", "length", "element", "parts", "whole", "stacked"]
    graph = make.graph(nodes, values, [ValueInfo(name=name) for name in names], [from_numpy(scalar(1), "one")])
    given = {"x": grid(2, 2), "f": floats(3)}
    wanted, model = in_rten(native(graph), given, runtime, tmp_path / "m.rten")
    assert_right(model, given, wanted, runtime, tmp_path)


def test_branches(make, runtime, tmp_path):
    """Branches may return outer values, constants, and integers, for which ONNX has several types."""
    then = make.graph(
        [make_node("Greater", ["x", "k"], ["a"]), make_node("Shape", ["x"], ["b"])], outputs=["a", "b", "x", "k"]
    )
    other = make.graph(
        [make_node("Less", ["x", "k"], ["y"])],
        outputs=["y", "local", "k", "x"],
        constants=[from_numpy(ints(7), "local")],
    )
    for graph in (then, other):
        for value in graph.output:
            value.type = None
    node = make_node("If", ["c"], ["a", "b", "y", "z"], then_branch=native(then).graph, else_branch=native(other).graph)
    values = [make.value("x", 1, ["n"]), make.value("c", 6, [])]
    outputs = [make.value("a", 6, ["n"]), make.value("b", 6, [1]), make.value("y", 1, ["n"]), make.value("z", 1, ["n"])]
    graph = make.graph([node], values, outputs, [from_numpy(floats(3), "k")])
    for condition in (0, 5):
        given = {"x": floats(3), "c": scalar(condition)}
        wanted, model = in_rten(native(graph), given, runtime, tmp_path / "m.rten")
        assert_right(model, given, wanted, runtime, tmp_path, shapes=True)


def test_loops(make, runtime, tmp_path):
    """A loop carries comparisons, shapes and sequences, counts, and collects; its names may equal outer names."""
    body = make.graph(
        [
            make_node("Add", ["total", "i"], ["z"]),
            make_node("Less", ["i", "limit"], ["go"]),
            make_node("And", ["go", "flag"], ["next"]),
            make_node("SequenceInsert", ["seq", "z"], ["longer"]),
            make_node("Size", ["x"], ["size"]),
        ],
        ["i", "going", "total", "flag", "seq"],
        ["go", "z", "next", "longer", "i", "next", "size"],
    )
    for value in (*body.input, *body.output):
        value.type = None
    nodes = [
        make_node("Equal", ["x", "x"], ["same"]),
        make_node("SequenceConstruct", ["x"], ["s"]),
        make_node("Loop", ["many", "", "x", "", "same", "s"], ["z", "flags", "t", "is", "all", "sizes"],
                  body=native(body).graph),
        make_node("ConcatFromSequence", ["t"], ["y"], axis=0),
    ]  # fmt: skip
    constants = [from_numpy(ints(100), "many"), from_numpy(scalar(2), "limit")]
    names = ["z", "flags", "is", "all", "sizes", "y"]
    graph = make.graph(nodes, [make.value("x", 6, [2])], [ValueInfo(name=name) for name in names], constants)
    given = {"x": ints(3, 4)}
    wanted, model = in_rten(native(graph), given, runtime, tmp_path / "m.rten")
    assert_right(model, given, wanted, runtime, tmp_path)


@pytest.mark.parametrize(("op_type", "inputs", "outputs", "attributes"), CASES)
def test_letters_of_integers(op_type, inputs, outputs, attributes):
    """No float is passed to an input that the signature declares as always integer; untyped files need this."""
    letters = SPECS[op_type].to_onnx.letters(len(inputs))
    pairs = zip(letters, inputs, strict=True)
    assert all(is_integer(array) for letter, array in pairs if letter in INTEGER_LETTERS and array is not None)


@pytest.mark.parametrize("op_type", sorted(name for name in HELD if onnx.defs.has(name)))
def test_letters_of_inputs_that_are_always_int64(op_type):
    """An input that ONNX defines as INT64, and nothing else, has the letter of INT64, or that of any type."""
    schema = onnx.defs.get_schema(op_type)
    types = {row.type_param_str: [*row.allowed_type_strs] for row in schema.type_constraints}
    letters = SPECS[op_type].to_onnx.letters(len(schema.inputs))
    always = [types.get(each.type_str, [each.type_str]) == ["tensor(int64)"] for each in schema.inputs]
    assert {"l", "x"} >= {letter for letter, is_int64 in zip(letters, always, strict=False) if is_int64}


def test_table_is_complete():
    """Every operator of the schema has a case."""
    tested = {case.values[0] for case in (*CASES, *RANDOM)} | {row[0] for row in LATER} | SUBGRAPHS_AND_SEQUENCES
    assert set(HELD) == tested
