"""bfloat16 in place of float32, and float32 in place of float16 and bfloat16: valid, right, exact where it can be."""

from __future__ import annotations

import io
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import formats
from formats.tensordata.sources.source import Literal
from formats.tensordata.sources.transform import narrowing
from tests.editing.nested_models import nested, small

FLOAT, FLOAT16, BFLOAT16 = TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16
HALVES = {FLOAT16: "float16", BFLOAT16: "bfloat16"}
X = np.array([[1.5, -2], [3, 0.25]], "float32")


def parsed(graph: str, opset: int = 22) -> onnx.ModelProto:
    """The model of a graph in ONNX's text form."""
    return onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : {opset}]> g {graph}')


def written(proto: onnx.ModelProto, dtype: str, **options: Any) -> onnx.ModelProto:
    """The model in a type, which the checker of onnx accepts."""
    new = onnx.load_from_string(formats.dumps(formats.from_onnx(proto), "onnx", dtype=dtype, **options))
    onnx.checker.check_model(new, full_check=True)
    return new


def types_in(proto: onnx.ModelProto) -> set[int]:
    """All element types in a model: of values, tensors and attributes that name one."""
    found: set[int] = set()
    waiting: list[Any] = [proto]
    while waiting:
        message = waiting.pop()
        for field, value in message.ListFields():
            if field.name in ("data_type", "elem_type"):
                found.add(value)
            elif field.message_type is not None:
                waiting += value if field.is_repeated else [value]
        if isinstance(message, onnx.AttributeProto) and message.name in ("to", "dtype", "output_dtype"):
            found.add(message.i)
    return found


def run(proto: onnx.ModelProto, x: Any) -> Any:
    """What onnxruntime computes."""
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"x": x})[0]


def test_rounding_to_bfloat16() -> None:
    """Numbers are rounded to nearest even as ml_dtypes does it, NaN stays, and finite ones neither end nor vanish."""
    bits = np.random.default_rng(5).integers(0, 1 << 32, 1 << 18, "uint64").astype("uint32")
    edges = [0x7FFFFFFF, 0x7F800001, 0x7F7F7FFF, 0x7F7F8000, 0xFF7FFFFF, 0x8000, 0x8001, 1, 0, 0x7F800000, 0xFF800000]
    given = np.concatenate([bits, np.array([*edges, 0x3F808000, 0x3F818000], "uint32")]).view("float32")
    found = np.frombuffer(narrowing("bfloat16").of(Literal(given.tobytes())).read(), ml_dtypes.bfloat16)
    with np.errstate(all="ignore"):
        wanted = given.astype(ml_dtypes.bfloat16).astype("float32")
    moved = (np.isinf(wanted) & np.isfinite(given)) | ((wanted == 0) & (given != 0))
    np.testing.assert_array_equal(found.astype("float32")[~moved], wanted[~moved])
    assert np.isfinite(found[moved].astype("float32")).all()
    assert found[moved].astype("float32").all()


def test_all_becomes_bfloat16() -> None:
    """Weights, inputs and outputs become bfloat16, and onnx's evaluator computes the same up to rounding."""
    proto = parsed(
        "(float[2,2] x) => (float[2,2] y) <float[2,2] w = {1, 2.5, -3, 1e-3}, float[1] m = {-3.4028235e38}> "
        "{ a = MatMul(x, w) b = Softmax(a) c = Add(b, w) y = Max(c, m) }"
    )
    new = written(proto, "bfloat16")
    assert {"x": BFLOAT16, "y": BFLOAT16} == {
        each.name: each.type.tensor_type.elem_type for each in (*new.graph.input, *new.graph.output)
    }
    assert ["MatMul", "Softmax", "Add", "Cast", "Max", "Cast"] == [node.op_type for node in new.graph.node]
    (wanted,) = ReferenceEvaluator(proto).run(None, {"x": X})
    (found,) = ReferenceEvaluator(new).run(None, {"x": X.astype(ml_dtypes.bfloat16)})
    np.testing.assert_allclose(found.astype("float32"), wanted, rtol=2e-2)


def test_what_onnx_lacks_in_bfloat16_stays() -> None:
    """A Conv has no bfloat16 before operator set 22, so it stays in float32, and the report says so with its number."""
    graph = "(float[1,1,2,2] x) => (float[1,1,2,2] y) <float[1,1,1,1] w = {2}> { a = Conv(x, w) y = Add(a, a) }"
    for opset, stays in ((21, True), (22, False)):
        model = formats.from_onnx(parsed(graph, opset))
        assert stays == any("Cast" == node.op_type for node in formats.to_dtype(model, "bfloat16").graph.node)
    report = formats.save(formats.from_onnx(parsed(graph, 21)), io.BytesIO(), format="onnx", dtype="bfloat16")
    assert "in float32 stay Conv x 1 (not defined, or not run well, in bfloat16)" in {
        each.detail for each in report.edits
    }
    assert "computes the same, up to rounding to bfloat16" == report.verdict


def test_what_a_runtime_lacks_stays() -> None:
    """With a release of onnxruntime as `runtime`, what has no kernel for bfloat16 there stays; its weights do not."""
    proto = parsed(
        "(float[2,2] x) => (float[2,2] y) <float[2,2] w = {1, 2.5, -3, 1e-3}, float n = {-9}, float l = {9}> "
        "{ a = MatMul(x, w) b = Transpose(a) c = Clip(b, n, l) y = Add(c, w) }"
    )
    new = written(proto, "bfloat16", keep_io_types=True, runtime="onnxruntime==1.32")
    assert {BFLOAT16} == {each.data_type for each in new.graph.initializer}
    np.testing.assert_allclose(run(new, X), run(proto, X), rtol=2e-2, atol=1e-2)


WORDS = {"ONE": 1, "TWO": 2.5, "THREE": -3, "SEVEN": 0.001}  # numbers, which ONNX's text form has as bits
MIXED = """
(HALF[2,2] x) => (HALF[2,2] y) <HALF[2,2] w = {ONE, TWO, THREE, SEVEN}> {
    c = Constant<value = HALF[2] {ONE, TWO}>()
    s = Shape(x)
    f = Cast<to = NUMBER>(s)
    z = ConstantOfShape<value = HALF[1] {THREE}>(s)
    e = EyeLike<dtype = NUMBER>(x)
    r = RandomNormal<dtype = NUMBER, shape = [2, 2], scale = 0.0>()
    l = LayerNormalization<stash_type = 1>(x, c)
    q = SequenceConstruct(w, z)
    i = Constant<value_int = 1>()
    a = SequenceAt(q, i)
    o = Optional(a)
    g = OptionalGetElement(o)
    t = Less(x, w)
    b = ReduceMax<keepdims = 0>(s)
    u = Cast<to = 9>(b)
    k = If(u) <then_branch = t1 () => (HALF[2,2] p) { p = Mul(x, w) },
               else_branch = e1 () => (HALF[2,2] n) { d = Constant<value = HALF {SEVEN}>() n = Add(x, d) }>
    v = Where(t, k, x)
    y = Sum(v, f, z, e, r, l, g, w)
}
"""


@pytest.mark.parametrize("number", HALVES)
def test_back_to_float32(number: int) -> None:
    """A model in float16 or bfloat16 becomes float32 in all places, exactly, and computes the same in more digits."""
    text = MIXED.replace("HALF", HALVES[number]).replace("NUMBER", str(number))
    for word, each in WORDS.items():
        text = text.replace(word, str(np.array(each, helper.tensor_dtype_to_np_dtype(number)).view("uint16")))
    if number == BFLOAT16:  # sequences and optionals have none in ONNX
        text = text.replace("q = SequenceConstruct(w, z)", "").replace("a = SequenceAt(q, i)", "")
        text = text.replace("o = Optional(a)", "").replace("g = OptionalGetElement(o)", "g = Identity(z)")
    proto = parsed(text)
    new = written(proto, "float32")
    assert types_in(new).isdisjoint({FLOAT16, BFLOAT16})
    assert [node.op_type for node in proto.graph.node] == [node.op_type for node in new.graph.node]
    before, after = (numpy_helper.to_array(each.graph.initializer[0]).astype("float64") for each in (proto, new))
    np.testing.assert_array_equal(after, before)
    x = X.astype(helper.tensor_dtype_to_np_dtype(number))
    (wanted,) = ReferenceEvaluator(proto).run(None, {"x": x})
    (found,) = ReferenceEvaluator(new).run(None, {"x": x.astype("float32")})
    np.testing.assert_allclose(found, wanted.astype("float32"), rtol=4e-2, atol=4e-2)


@pytest.mark.parametrize("dtype", HALVES.values())
def test_there_and_back(dtype: str) -> None:
    """What became float16 or bfloat16 becomes float32 again: the types are those of before, and weights are rounded."""
    new = written(written(small(), dtype), "float32")
    assert {FLOAT} == types_in(new)
    assert [node.op_type for node in small().graph.node] == [node.op_type for node in new.graph.node]
    nested_again = formats.to_dtype(formats.to_dtype(formats.from_onnx(nested()), dtype), "float32")
    assert types_in(onnx.load_from_string(formats.dumps(nested_again, "onnx"))).isdisjoint({FLOAT16, BFLOAT16})


def test_unknown_operators_stay_in_float16() -> None:
    """An operator of another domain keeps float16, with casts around it; those of onnxruntime take float32 as well."""
    graph = "(float16[2] x) => (float16[2] y) { a = mine.Own(x) b = com.microsoft.Gelu(a) y = Relu(b) }"
    proto = onnx.parser.parse_model(
        f'<ir_version: 10, opset_import: ["" : 17, "mine" : 1, "com.microsoft" : 1]> g {graph}'
    )
    proto.graph.value_info.append(helper.make_tensor_value_info("a", FLOAT16, [2]))
    new = formats.to_dtype(formats.from_onnx(proto), "float32")
    assert ["Cast", "Own", "Cast", "Gelu", "Relu"] == [node.op_type for node in new.graph.node]


def test_sets_without_bfloat16() -> None:
    """A set before 13 has no bfloat16, which the error says; a model without ONNX's set gets one for the casts."""
    old = formats.from_onnx(parsed("(float[2] x) => (float[2] y) { y = Relu(x) }", 11))
    with pytest.raises(formats.UnsupportedError, match="has version 11 of ONNX's operators, and 13 is the first with"):
        formats.to_dtype(old, "bfloat16")
    assert formats.dumps(old, "onnx", dtype="bfloat16", opset=22)
    text = '<ir_version: 8, opset_import: ["ai.onnx.ml" : 3]> g (float[1, 2] x) => (float[1, 2] y)'
    learnt = onnx.parser.parse_model(text + " { y = ai.onnx.ml.Binarizer(x) }")
    assert ["Cast", "Binarizer", "Cast"] == [node.op_type for node in written(learnt, "float16").graph.node]


def test_sequences_stay_without_bfloat16() -> None:
    """ONNX has no sequences of bfloat16, so they stay, also where a Loop carries one, with casts of what is in them."""
    proto = parsed("""(seq(float[2]) x, bool c) => (float[2] y) {
        r = Constant<value_int = 2>()
        k = Loop(r, c, x) <body = l (int64 i, bool o, seq(float[2]) v) => (bool u, seq(float[2]) w)
            { u = Identity(o) a = SequenceAt(v, i) b = Neg(a) w = SequenceInsert(v, b) }>
        e = SequenceAt(k, r) y = Neg(e)
    }""")
    split = written(parsed("(float[2] x) => (seq(float[1]) y) { y = SplitToSequence(x) }", 24), "bfloat16")
    assert ["Cast", "SplitToSequence"] == [node.op_type for node in split.graph.node]
    new = written(proto, "bfloat16")
    assert FLOAT == new.graph.input[0].type.sequence_type.elem_type.tensor_type.elem_type
    assert ["SequenceAt", "Cast", "Neg"] == [node.op_type for node in new.graph.node][-3:]
    feed = {"x": [np.array([1, 2], "float32"), np.array([3, -4], "float32")], "c": np.array(True)}
    (wanted,) = ReferenceEvaluator(proto).run(None, feed)
    np.testing.assert_array_equal(ReferenceEvaluator(new).run(None, feed)[0].astype("float32"), wanted)


def test_nothing_to_do_and_mistakes(tmp_path: Any) -> None:
    """A model without such floats is told so, and an unknown type is refused."""
    onnx.save(small(), tmp_path / "m.onnx")
    report = formats.convert(tmp_path / "m.onnx", tmp_path / "new.onnx", dtype="float32")
    assert ["nothing in the model is float16 or bfloat16"] == [edit.detail for edit in report.edits]
    with pytest.raises(formats.OptionError, match="`dtype` must be float16, bfloat16, float32 or int32, not 'int8'"):
        formats.to_dtype(formats.load(tmp_path / "m.onnx"), "int8")
