"""Where RTen computes something else on ordinary input, other operators are written: on every route, and back."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest

import formats
from formats.ir.model import Model
from formats.onnxpb.wire.decoder import decode
from formats.rten.convert.refusal import RefusalError
from formats.rten.graph.attributes import with_fields
from formats.rten.graph.makers import folded
from formats.rten.operators import foldings
from formats.rten.spec import Folding
from formats.tensordata.sources.source import Literal
from tests.rten.random_graphs.graph import run_in_onnxruntime
from tests.rten.random_graphs.judging import difference, held

F, I = np.float32, np.int64  # noqa: E741 - types of elements
LINES = np.sin(np.arange(32, dtype=F)).reshape(8, 4)
IMPORTS = 'opset_import: ["": 18, "com.microsoft": 1]'
HEADS = "<num_heads: int = 2, unidirectional: int = 1>"
CASES: dict[str, tuple[str, Mapping[str, np.ndarray[Any, Any]]]] = {}


def add(name: str, text: str, **feeds: Any) -> None:
    """Add a case: a graph in ONNX's text, and its inputs."""
    CASES[name] = text, {key: np.asarray(value) for key, value in feeds.items()}


def counted(dims: tuple[int, ...], dtype: Any = F, start: int = 0) -> Any:
    """Return consecutive numbers."""
    return np.arange(start, start + prod(dims), dtype=dtype).reshape(dims)


WHOLES = (2, 3, 2, 4), (2, 3, 2, 4), (2, 3, 2, 4), (4, 3, 2, 5), (2, 2, 2, 2), (2, 3, 2, 1)
PARTS = (2, 1, 2, 4), (1, 3, 2, 4), (2, 3, 1, 4), (4, 1, 2, 5), (2, 1, 2, 2), (1, 1, 2, 1)
for whole, part in zip(WHOLES, PARTS, strict=True):
    for is_known in (False, True):
        dims = [",".join(map(str, shape)) if is_known else letters for shape, letters in
                ((whole, "A,B,C,D"), (part, "P,Q,R,S"))]  # fmt: skip
        indices = counted(part, I) % whole[3]
        header = f"g (float[{dims[0]}] x, int64[{dims[1]}] i, float[{dims[1]}] u) => (float[{dims[0]}] y)"
        add(f"scattered_{part}_into_{dims[0]}", f"{header} {{ y = ScatterElements<axis=3>(x, i, u) }}",
            x=counted(whole), i=indices, u=counted(part, start=100))  # fmt: skip
        add(f"gathered_{part}_from_{dims[0]}", f"""g (float[{dims[0]}] x, int64[{dims[1]}] i) => (float[{dims[1]}] y)
            {{ y = GatherElements<axis=3>(x, i) }}""", x=counted(whole), i=indices)  # fmt: skip

for operator, scale in (("QLinearAdd", 0.4), ("QLinearMul", 1.3)):
    numbers = np.array([20, -90, -99], np.int8), np.array([9, -40, 99], np.int8)
    add(f"{operator}_without_a_zero_point", f"""g (int8[3] a, int8[3] b) => (int8[3] y)
        <float s = {{0.1}}, float r = {{0.2}}, float t = {{{scale}}}, int8 z = {{0}}>
        {{ y = com.microsoft.{operator}(a, s, z, b, r, z, t) }}""", a=numbers[0], b=numbers[1])  # fmt: skip
add("QLinearConcat_of_signed", """g (int8[3] a) => (int8[6] y) <float s = {0.1}, float t = {0.2}, int8 z = {0}>
    { y = com.microsoft.QLinearConcat<axis: int = 0>(t, z, a, s, z, a, t, z) }""",
    a=np.array([20, -90, -99], np.int8))  # fmt: skip

for queries, keys in ((4, 2), (2, 4), (3, 3), (1, 4), (3, 5)):
    operands = {"q": LINES[:queries][None], "k": LINES[2 : 2 + keys][None] / 3}
    for name, sizes in (("known", (queries, keys)), ("any", ("S", "T"))):
        header = f"g (float[1,{sizes[0]},4] q, float[1,{sizes[1]},4] k"
        add(f"causal_{queries}_by_{keys}_of_{name}_size", f"""{header}) => (float[A,B,C] y)
            {{ y = com.microsoft.MultiHeadAttention{HEADS}(q, k, k) }}""", **operands)  # fmt: skip
        add(f"causal_{queries}_by_{keys}_of_{name}_size_after_two", f"""{header}, float[1,2,P,2] p)
            => (float[A,B,C] y, float[D,E,F,G] v, float[H,I,J,K] w)
            {{ y, v, w = com.microsoft.MultiHeadAttention{HEADS}(q, k, k, "", "", "", p, p) }}""",
            **operands, p=LINES[None, :2].reshape(1, 2, 2, 2) / 5)  # fmt: skip

for kind in ("int64", "float"):
    for first in (0, 1):
        add(f"choice_of_{kind}_{first}", f"""g (float[1] x) => ({kind} y, int64[N] s, float[1] z)
            <bool c = {{{first}}}, {kind} a = {{3}}, {kind} b = {{5}}>
            {{ y = Where(c, a, b) s = Shape(y) z = Neg(x) }}""", x=F([1]))  # fmt: skip
add("choice_of_sizes", """g (float[2,3] x) => (int64 y, int64[N] s) <int64 k = {1}, int64 m = {7}>
    { n = Size(x) c = Equal(n, m) y = Where(c, n, k) s = Shape(y) }""", x=counted((2, 3)))  # fmt: skip
for kind, dtype in (("float", F), ("float16", np.float16), ("double", np.float64)):
    add(
        f"signs_of_{kind}",
        f"g ({kind}[7] x) => ({kind}[7] y) {{ y = Sign(x) }}",
        x=np.array([0, -0.0, 2, -3, 1 if kind == "float16" else np.nan, np.inf, -np.inf], dtype),
    )
add("remainders_of_limits", """g (int64[2] x) => (int64[2] y)
    <int64[2] m = {9223372036854775807, -9223372036854775808}, int64 k = {7}> { r = Mod(m, k) y = Add(r, x) }""",
    x=[1, 2])  # fmt: skip
add("doubles_as_short_integers", "g (double[4] x) => (uint16[4] y, int16[4] z) { y = Cast<to=4>(x) z = Cast<to=5>(x) }",
    x=np.array([40000.0, 70000.5, 7.5, -128.5]))  # fmt: skip
add("no_rows_by_a_vector", "g (float[N,3] x, float[3] w) => (float[M] y) { y = MatMul(x, w) }",
    x=np.zeros((0, 3), F), w=F([1, 2, 3]))  # fmt: skip
for op_type in ("ArgMax", "ArgMin"):
    for keep, axis in ((0, 0), (1, 0), (0, 1), (1, -1)):
        add(f"ties_{op_type}_{keep}_{axis}", f"""g (float[N,5] x) => (int64[{"A,B" if keep else "A"}] y)
            {{ y = {op_type}<axis={axis}, keepdims={keep}>(x) }}""",
            x=F([[1, 3, 3, 1, 3], [0, 3, 2, -1, -1]]))  # fmt: skip
add("ties_of_windows", """g (float[1,1,4,6] x) => (float[A,B,C,D] y, int64[E,F,G,H] i)
    { y, i = MaxPool<kernel_shape=[2, 3], strides=[1, 2]>(x) }""",
    x=F([[[[1, 3, 3, 1, 3, 0], [0, 3, 2, 3, 3, 3], [2] * 6, [2] * 6]]]))  # fmt: skip
add("ties_of_largest", "g (float[2,4] x) => (float[2,2] y, int64[2,2] i) <int64[1] k = {2}> { y, i = TopK(x, k) }",
    x=F([[1, 1, 1, 0], [0, 2, 2, 2]]))  # fmt: skip
for scale in (0.3, 0.9, 1.3, 2.3, 6, 7):
    for rounding, places in (("round_prefer_floor", "half_pixel"), ("round_prefer_ceil", "half_pixel"),
                             ("ceil", "asymmetric"), ("floor", "asymmetric")):  # fmt: skip
        for name, size in (("known", 100), ("any", "N")):
            add(f"nearest_{scale}_{rounding}_{places}_of_{name}_size", f"""g (float[1,1,{size}] x) => (float[A,B,C] y)
                <float[3] s = {{1, 1, {scale}}}> {{ y = Resize<mode="nearest", nearest_mode="{rounding}",
                coordinate_transformation_mode="{places}">(x, "", s) }}""", x=counted((1, 1, 100)))  # fmt: skip
for step, first, last in ((-2, -1, -10), (-1, 1, -10), (-1, 2, 0)):
    for name, dims in (("known", "1,2,3,4,4"), ("any", "A,B,C,D,E")):
        add(f"backwards_from_{first}_by_{step}_of_{name}_size", f"""g (float[{dims}] x) => (float[P,Q,R,S,T] y)
            <int64[2] s = {{{first}, 1}}, int64[2] e = {{{last}, 3}}, int64[2] a = {{2, 4}}, int64[2] k = {{{step}, 1}}>
            {{ y = Slice(x, s, e, a, k) }}""", x=counted((1, 2, 3, 4, 4)))  # fmt: skip
add("condition_that_is_too_long", "g (float[N] x, bool[M] c) => (float[K] y) { y = Compress(x, c) }",
    x=F([1, 2]), c=[True, False, True])  # fmt: skip
add("condition_that_is_short", "g (float[2,N] x) => (float[2,K] y) <bool[2] c = {0, 1}> { y = Compress<axis=1>(x, c) }",
    x=counted((2, 3)))  # fmt: skip
add("image_of_no_elements", """g (float[N,1,5,0] x) => (float[A,B,C,D] y) <float[2] b = {3, 5}>
    { w = Constant<value = float[1,2,3,2] {1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3}>() y = ConvTranspose(x, w, b) }""",
    x=np.zeros((1, 1, 5, 0), F))  # fmt: skip
add("image_of_no_elements_that_grows", """g (float[N,1,0] x) => (float[A,B,C] y) <float[2] b = {3, 5}>
    { w = Constant<value = float[1,2,3] {1, 2, 3, 4, 5, 6}>() y = ConvTranspose<strides=[1]>(x, w, b) }""",
    x=np.zeros((2, 1, 0), F))  # fmt: skip
for mode in ("reflect", "edge"):
    add(f"nothing_by_{mode}", f"""g (float[0,2] x) => (float[0,3] y) <int64[4] p = {{0, 0, 0, 1}}>
        {{ y = Pad<mode="{mode}">(x, p) }}""", x=np.zeros((0, 2), F))  # fmt: skip
ROWS, COLUMNS = counted((3, 4), np.int32) * 7919 * 7919, counted((4, 2), np.int32) * 104729
for first_dims, second_dims in (("3,4", "4,2"), ("4", "4,2"), ("3,4", "4"), ("4", "4")):
    add(f"whole_{first_dims}_by_{second_dims}", f"""g (int32[{first_dims}] x, int32[{second_dims}] w) => (int32 y)
        {{ y = MatMul(x, w) }}""", x=ROWS if "," in first_dims else ROWS[1],
        w=COLUMNS if "," in second_dims else COLUMNS[:, 1])  # fmt: skip


def _model(text: str, version: int = 18) -> onnx.ModelProto:
    imports = IMPORTS.replace("18", str(version))
    model = onnx.parser.parse_model(f"<ir_version: 8, {imports}>\n{text}")
    if "=> (int32 y)" in text:
        model.graph.output[0].type.tensor_type.ClearField("shape")  # the text cannot express "of any rank"
    return model


@pytest.mark.parametrize("name", CASES)
def test_results_are_those_of_onnxruntime(name: str, runtime: Any, tmp_path: Path) -> None:
    """RTen, its ONNX loader, and onnxruntime with the file converted back, compute the same as the model."""
    text, feeds = CASES[name]
    model = _model(text)
    want = run_in_onnxruntime(model, feeds)
    source, target, back, other = (tmp_path / name for name in ("m.onnx", "m.rten", "back.onnx", "other.onnx"))
    source.write_bytes(model.SerializeToString())
    formats.convert(source, target)
    given = {key: held(value) for key, value in feeds.items()}
    assert not difference(want, runtime.run(target, given))
    formats.convert(target, back)
    raised = onnx.load(back)
    kinds = {value.name: value.type.tensor_type.elem_type for value in raised.graph.input}
    typed = {key: given[key].astype(onnx.helper.tensor_dtype_to_np_dtype(kind)) for key, kind in kinds.items()}
    assert not difference(want, run_in_onnxruntime(raised, typed))
    if runtime.release == "0.27":
        formats.convert(source, other, runtime="rten")
        assert not difference(want, runtime.run(other, given))


@pytest.mark.parametrize("text", [
    "g (float[2] x) => (float[2] y) { y = Relu(x) }",
    "g (float[200] x) => (uint8[200] y) <float a = {0.3}, uint8 z = {7}> { y = QuantizeLinear(x, a, z) }",
])  # fmt: skip
def test_the_loader_gets_exact_forms(text: str, runtimes: Any, tmp_path: Path) -> None:
    """With `runtime` and `exact`, no deviation is left, and the result is that of onnxruntime."""
    model, target = _model(text), tmp_path / "made.onnx"
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    report = formats.convert(tmp_path / "m.onnx", target, runtime="rten", exact=True)
    assert len(report.changes) == 1
    assert [loss.detail for loss in report.losses if loss.kind == "deviation"] == []
    x = F([np.nan, -1]) if "Relu" in text else np.arange(200, dtype=F) * F(0.25)
    assert not difference(run_in_onnxruntime(model, {"x": x}), runtimes[max(runtimes)].run(target, {"x": x}))


def test_exact_is_for_a_runtime(tmp_path: Path) -> None:
    """Without `runtime`, `exact` is no option of ONNX, and for one it must be true or false."""
    (tmp_path / "m.onnx").write_bytes(_model("g (float[2] x) => (float[2] y) { y = Relu(x) }").SerializeToString())
    for options, text in (({"exact": True}, "exact"), ({"exact": "maybe", "runtime": "rten"}, "exact")):
        with pytest.raises(formats.OptionError, match=text):
            formats.convert(tmp_path / "m.onnx", tmp_path / "made.onnx", **options)
    assert not (tmp_path / "made.onnx").exists()


FUNCTION = """<ir_version: 8, opset_import: ["": 18, "f": 1]> g (float[1,1,4,4] x) => (float[A,B,C,D] y)
    { y = f.twice(x) }
    <domain: "f", opset_import: ["": 18]> twice (x) => (y) { p, i = MaxPool<kernel_shape=[2, 2], strides=[2, 2]>(x)
        y = MaxUnpool<kernel_shape=[2, 2], strides=[2, 2]>(p, i) }"""


@pytest.mark.parametrize("options", [{}, {"runtime": "rten"}])
def test_outputs_used_in_a_function_are_used(options: Any, runtimes: Any, tmp_path: Path) -> None:
    """An output that only the body of a function uses, such as the indices of MaxPool, is computed."""
    model = onnx.parser.parse_model(FUNCTION)
    feeds = {"x": np.cos(counted((1, 1, 4, 4)))}
    target = tmp_path / ("m.onnx.rten" if not options else "made.onnx")
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    formats.convert(tmp_path / "m.onnx", target, **options)
    assert not difference(run_in_onnxruntime(model, feeds), runtimes[max(runtimes)].run(target, feeds))


@pytest.mark.parametrize(("depth", "rows", "is_kept"), [
    (64, "N", True), (64, "2,N", True), (85, "N", False), (16, "N", False), (64, "", False),
])  # fmt: skip
def test_few_bits_stay_if_the_loader_runs_them(
    depth: int, rows: str, is_kept: bool, runtimes: Any, tmp_path: Path
) -> None:
    """MatMulNBits stays for RTen's loader only in the forms that its kernel runs: complete blocks, rows of vectors."""
    numbers, blocks = np.random.default_rng(1), -(-depth // 32)
    dims = f"{rows},{depth}".strip(",")
    shape = [3 if part == "N" else int(part) for part in rows.split(",") if part]
    model = _model(f"""g (float[{dims}] x) => (float[A,B] y)
        {{ y = com.microsoft.MatMulNBits<K: int = {depth}, N: int = 9, bits: int = 4, block_size: int = 32>(x, b, s)
        }}""")
    for name, array in (("b", numbers.integers(0, 256, (9, blocks, 16)).astype(np.uint8)),
                        ("s", numbers.random((9, blocks)).astype(F))):  # fmt: skip
        model.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    report = formats.convert(tmp_path / "m.onnx", tmp_path / "made.onnx", runtime="rten")
    assert is_kept == (not report.changes)
    x = numbers.random((*shape, depth)).astype(F)
    (found,) = runtimes[max(runtimes)].run(tmp_path / "made.onnx", {"x": x})
    if rows:  # onnxruntime has no kernel for vectors
        np.testing.assert_allclose(found, run_in_onnxruntime(model, {"x": x})[0], rtol=1e-4, atol=1e-3)


ONE_NODE = {
    "columns": """g (uint8[N,4] x) => (int32[N,3] y) <int8[4,3] w = {1,2,3,4,5,6,7,8,9,1,2,3}, uint8 a = {7},
        int8[3] b = {1, 2, 3}> { y = MatMulInteger(x, w, a, b) }""",
    "greatest": "g (float[N,4] x) => (int64[N] y) { y = ArgMax<axis=1, keepdims=0>(x) }",
    "least": "g (float[N,4] x) => (int64[A,B] y) { y = ArgMin<axis=0>(x) }",
    "sign": "g (float[N,4] x) => (float[N,4] y) { y = Sign(x) }",
    "integers": "g (int32[N,4] x, int32[4,3] w) => (int32[N,3] y) { y = MatMul(x, w) }",
}


@pytest.mark.parametrize("name", ONE_NODE)
def test_the_way_back_gives_one_node(name: str, tmp_path: Path) -> None:
    """What was written as several operators is the one operator again, and no difference is reported."""
    model = _model(ONE_NODE[name])
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    formats.convert(tmp_path / "m.onnx", tmp_path / "m.rten")
    report = formats.convert(tmp_path / "m.rten", tmp_path / "back.onnx")
    raised = [node.op_type for node in onnx.load(tmp_path / "back.onnx").graph.node if node.op_type != "Cast"]
    assert raised == [model.graph.node[0].op_type]
    assert [loss.detail for loss in report.losses if loss.kind == "deviation" and loss.matters] == []


def test_columns_of_others_stay() -> None:
    """A sum along another axis than the last is not taken for the sums of rows of a product."""
    text = """g (uint8[4,4] x, uint8[4] b) => (int32[4,4] y) <uint8[4,4] w = {1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7},
        int64[1] a = {0}> { p = MatMulInteger(x, w) c = Cast<to=6>(x) r = ReduceSum(c, a) z = Cast<to=6>(b)
        m = Mul(r, z) y = Sub(p, m) }"""
    graph = decode(Literal(_model(text).SerializeToString()), Model).graph
    assert graph is not None
    assert folded(graph, foldings()) == (graph, {})


def test_foldings_begin_at_the_last_node() -> None:
    """A folding gets only nodes with the operators that it names, and makes one node of them and those before."""
    text = "g (float[4] x) => (float[4] y) { h = Abs(x) y = Neg(h) }"
    graph = decode(Literal(_model(text).SerializeToString()), Model).graph
    assert graph is not None
    asked = []

    def fold(node: Any, makers: Any) -> Any:
        asked.append(node.op_type)
        inner = makers.maker(node.input[0], "Abs")
        return with_fields(node, op_type="Sign", input=inner.input)

    result, made = folded(graph, {"Neg": [Folding(("Neg",), fold)]})
    assert ["Neg"] == asked
    assert [("Sign", ["x"], ["y"])] == [(node.op_type, node.input, node.output) for node in result.node]
    assert [*made.values()] == result.node


@pytest.mark.parametrize("kind", ["float", "bool"])
@pytest.mark.parametrize("version", [23, 24])
def test_a_mask_of_one_column(kind: str, version: int, runtime: Any, tmp_path: Path) -> None:
    """A mask with one column is for all keys, and from operator set 24 on for the first key only."""
    from onnx.reference import ReferenceEvaluator

    model = _model(f"""g (float[1,1,2,4] q, float[1,1,3,4] k, {kind}[2,1] m) => (float[A,B,C,D] y)
        {{ y = Attention(q, k, k, m) }}""", version)  # fmt: skip
    mask = np.array([[True], [True]]) if kind == "bool" else F([[1], [0]])
    feeds = {"q": LINES[:2].reshape(1, 1, 2, 4), "k": LINES[2:5].reshape(1, 1, 3, 4), "m": mask}
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    formats.convert(tmp_path / "m.onnx", tmp_path / "m.rten")
    found = runtime.run(tmp_path / "m.rten", {key: held(value) for key, value in feeds.items()})
    if version == 23:  # then it changes nothing; ONNX's reference implementation has the new meaning only
        model.graph.node[0].input.pop()
    assert not difference(ReferenceEvaluator(model).run(None, feeds), found)


@pytest.mark.parametrize("name", ["Affine", "ScaledTanh"])
def test_activations_without_their_parameters_are_refused(name: str, tmp_path: Path) -> None:
    """An activation of a layer without alpha, for which ONNX has no default, is refused: onnxruntime uses zero."""
    text = f"""g (float[2,1,3] x, float[1,4,3] w, float[1,4,4] r) => (float[A,B,C,D] y)
        {{ y = RNN<hidden_size=4, activations=["{name}"]>(x, w, r) }}"""
    (tmp_path / "m.onnx").write_bytes(_model(text).SerializeToString())
    with pytest.raises(RefusalError, match="does not give alpha"):
        formats.convert(tmp_path / "m.onnx", tmp_path / "m.rten")


def test_doubles_that_are_floats_are_not_rounded(tmp_path: Path) -> None:
    """A DOUBLE constant is rounded only if one of its numbers is not a FLOAT."""
    for number, told in ((512.0, False), (0.1, True)):
        text = f"g (double[2] x) => (double[2] y) <double k = {{{number}}}> {{ y = Mul(x, k) }}"
        (tmp_path / "m.onnx").write_bytes(_model(text).SerializeToString())
        report = formats.convert(tmp_path / "m.onnx", tmp_path / "m.rten", overwrite=True)
        assert told == any(loss.kind == "rounded" for loss in report.losses)
