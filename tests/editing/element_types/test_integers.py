"""64-bit integers become INT32 where nothing needs more bits: the same results, few casts, told or refused else."""

from __future__ import annotations

import io
import random
import re
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import formats
from tests.rten.random_graphs.graph import run_in_onnxruntime
from tests.rten.random_graphs.whole import generate

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

INT32, INT64 = TensorProto.INT32, TensorProto.INT64
LEAST, GREATEST = -(1 << 31), (1 << 31) - 1
SEEDS, MORE = 24, 1200


def parsed(graph: str, opset: int = 18, functions: str = "") -> onnx.ModelProto:
    """The model of a graph in ONNX's text form."""
    imports = f'"" : {opset}' + (', "own" : 1' if functions else "")
    return onnx.parser.parse_model(f"<ir_version: 8, opset_import: [{imports}]> g {graph} {functions}")


def written(proto: onnx.ModelProto, **options: Any) -> tuple[onnx.ModelProto, set[str]]:
    """The model with INT32, which the checker of onnx accepts, and what the report says."""
    stream = io.BytesIO()
    report = formats.save(formats.from_onnx(proto), stream, format="onnx", int32=True, **options)
    new = onnx.load_from_string(stream.getvalue())
    onnx.checker.check_model(new, full_check=True)
    return new, {edit.detail for edit in report.edits} | {loss.detail for loss in report.losses}


def fed(proto: onnx.ModelProto, feeds: Mapping[str, Any]) -> dict[str, Any]:
    """The inputs in the types that a model has."""
    types = {value.name: value.type.tensor_type.elem_type for value in proto.graph.input}
    return {
        name: array.astype("int32") if types[name] == INT32 and array.dtype == np.int64 else array
        for name, array in feeds.items()
    }


def is_same(one: Any, other: Any) -> bool:
    """Whether two results have the same numbers, of 64 bits or 32."""
    if isinstance(one, list):
        return len(one) == len(other) and all(map(is_same, one, other))
    if one.dtype.kind not in "fiub":
        return one.dtype == other.dtype and one.tolist() == other.tolist()
    return one.shape == other.shape and np.array_equal(one, other, equal_nan=one.dtype.kind == "f")


def check(proto: onnx.ModelProto, feeds: Mapping[str, Any], **options: Any) -> tuple[onnx.ModelProto, set[str]]:
    """The model with INT32, which computes the same in onnxruntime, and what the report says."""
    new, told = written(proto, **options)
    assert all(map(is_same, run_in_onnxruntime(proto, feeds), run_in_onnxruntime(new, fed(new, feeds))))
    return new, told


def types(proto: onnx.ModelProto) -> dict[str, int]:
    """The types of the inputs, outputs and initializers of a model."""
    values = {value.name: value.type.tensor_type.elem_type for value in (*proto.graph.input, *proto.graph.output)}
    return values | {tensor.name: tensor.data_type for tensor in proto.graph.initializer}


def operators(proto: onnx.ModelProto) -> list[str]:
    """The operators of the main graph."""
    return [node.op_type for node in proto.graph.node]


IDS = np.array([[1, 0, 3]])
TABLE = "(int64[b,s] ids) => (int64[b,s] y) <int64[4] w = {5, 6, 7, 8}> { y = Gather(w, ids) }"


def test_inputs_outputs_and_weights() -> None:
    """Inputs, outputs and weights become INT32, without a cast, and the report counts them."""
    new, told = check(parsed(TABLE), {"ids": IDS})
    assert {"ids": INT32, "y": INT32, "w": INT32} == types(new)
    assert ["Gather"] == operators(new)
    assert {
        "1 weight became int32, 32 bytes -> 16 bytes",
        "in int32 are Gather x 1",
        "the type is INT32 now: input ids, output y",
    } == told


def test_types_of_inputs_and_outputs_stay() -> None:
    """With `keep_io_types`, casts stand behind and before them, and the report says what inputs must not have."""
    new, told = check(parsed(TABLE), {"ids": IDS}, keep_io_types=True)
    assert {"ids": INT64, "y": INT64, "w": INT32} == types(new)
    assert ["Cast", "Gather", "Cast"] == operators(new)
    assert "integers in inputs are taken to be within 32 bits: ids" in told


def test_in_the_library() -> None:
    """`to_dtype` does the same as the option."""
    model = formats.from_onnx(parsed(TABLE))
    assert formats.dumps(model, "onnx", int32=True) == formats.dumps(formats.to_dtype(model, "int32"), "onnx")


def test_arithmetic_of_sizes_stays() -> None:
    """What leads from Shape to Reshape needs no cast; a Range of a size is made in INT32 after one cast."""
    proto = parsed(
        "(float[b,s] x) => (float[c,d] y, int64[n] p) "
        "<int64[1] m = {-1}, int64 i = {1}, int64 z = {0}, int64 o = {1}, int64[1] axis = {0}> {"
        "a = Shape(x) n = Gather(a, i) u = Unsqueeze(n, axis) c = Concat<axis = 0>(u, m) y = Reshape(x, c)"
        "r = Range(z, n, o) p = Add(r, r) }"
    )
    with pytest.raises(formats.UnsupportedError, match="the output p of Add may have numbers"):
        written(proto)
    proto.graph.node[-1].op_type = "Equal"
    proto.graph.output[-1].type.tensor_type.elem_type = TensorProto.BOOL
    new, told = check(proto, {"x": np.ones((2, 3), "float32")})
    assert ["Shape", "Gather", "Cast", "Unsqueeze", "Concat", "Reshape", "Range", "Equal"] == operators(new)
    assert "in int64 stay Concat x 1, Gather x 1, Unsqueeze x 1 (arithmetic of sizes)" in told
    assert "in int32 are Equal x 1, Gather x 1, Range x 1" in told


def test_what_only_int64_inputs_need_stays() -> None:
    """Numbers that are computed for a Reshape alone are cast once, where they come in."""
    proto = parsed(
        "(float[6] x, int64[1] n) => (float[a,b] y) <int64[1] m = {-1}> "
        "{ c = Concat<axis = 0>(n, m) d = Identity(c) y = Reshape(x, d) }"
    )
    new, told = check(proto, {"x": np.arange(6, dtype="float32"), "n": np.array([2])})
    assert ["Cast", "Concat", "Identity", "Reshape"] == operators(new)
    assert INT64 == types(new)["m"]
    assert "in int64 stay Concat x 1, Identity x 1 (for inputs that are defined in int64 only)" in told


def test_numbers_that_may_be_larger_stay() -> None:
    """A sum that may need more than 32 bits is computed in INT64, and an index is cast back, since it is a place."""
    proto = parsed(
        "(int64[n] a, int64[n] b) => (bool[n] y, int64[n] z) <int64[3] w = {7, 8, 9}> "
        "{ c = Add(a, b) y = Less(c, a) d = Sub(a, b) z = Gather(w, d) }"
    )
    feeds = {"a": np.array([GREATEST, 2, LEAST + 2]), "b": np.array([GREATEST, 1, LEAST])}
    feeds["a"][0] = feeds["b"][0] = GREATEST
    new, told = check(proto, feeds)
    assert "in int64 stay Add x 1, Less x 1 (numbers that may need more than 32 bits)" in told
    assert "in int32 are Gather x 1, Sub x 1" in told
    assert 2 == operators(new).count("Cast")


OPERATIONS = (
    "Abs(a)", "Add(a, b)", "Clip(a, , b)", "Clip(a, b)", "Clip(a, b, c)", "Div(a, b)", "Max(a, b)", "Min(a, b)",
    "Mod(a, b)", "Mul(a, b)", "Neg(a)", "Sub(a, b)", "Where(t, a, b)",
)  # fmt: skip


@pytest.mark.parametrize("operation", OPERATIONS)
def test_any_input_may_need_more_bits(operation: str) -> None:
    """Whichever input of an operator is a product beyond 32 bits, what is made of the result is the same."""
    feeds = {"a": np.array(-100000), "b": np.array(7), "c": np.array(50000), "t": np.array(True)}
    for name in set(re.findall(r"\b[abc]\b", operation)):
        for sign in (1, -1):
            of_large = re.sub(rf"\b{name}\b", "large", operation)
            proto = parsed(
                f"(int64 a, int64 b, int64 c, bool t) => (int64 y) <int64 s = {{{sign}}}> "
                f"{{ p = Mul(a, a) large = Mul(p, s) r = {of_large} y = Identity(r) }}"
            )
            check(proto, feeds, keep_io_types=True)


def test_ends_of_a_slice() -> None:
    """A constant beyond 32 bits means the end in a Slice, in both directions, and only there it is another number."""
    for first, last, step in ((1, 2**63 - 1, 1), (2**63 - 1, -(2**63), -1), (-(2**63), 2**62, 2)):
        proto = parsed(
            f"(float[n] x, int64[m] k) => (float[a] y, bool[m] z) <int64[1] s = {{{first}}}, int64[1] e = {{{last}}}, "
            f"int64[1] axis = {{0}}, int64[1] step = {{{step}}}> {{ y = Slice(x, s, e, axis, step) z = Less(k, e) }}"
        )
        new, _ = check(proto, {"x": np.arange(5, dtype="float32"), "k": np.array([3, GREATEST])})
        slices = [node for node in new.graph.node if node.op_type == "Slice"]
        constants = {node.output[0]: node.attribute[0].t for node in new.graph.node if node.op_type == "Constant"}
        (end,) = numpy_helper.to_array(constants[slices[0].input[2]])
        assert end == max(LEAST, min(GREATEST, last))
        assert INT64 == types(new)["e"]


def test_a_weight_beyond_the_range_stays() -> None:
    """A weight with a larger number stays, and what uses it."""
    proto = parsed("(int64[2] x) => (bool[2] y) <int64[2] w = {1, 4294967296}> { y = Equal(x, w) }")
    new, told = check(proto, {"x": np.array([0, 1])})
    assert INT64 == types(new)["w"]
    assert "in int64 stay Equal x 1 (numbers that may need more than 32 bits)" in told


LOOP = """
(int64[2] x, int64 n, bool c) => (int64[2] y, int64[k,2] all, int64[2] z) <int64[2] w = {1, 2}> {
    y, all = Loop(n, , x) <body = b (int64 i, bool keep, int64[2] v) => (bool k, int64[2] u, int64[2] s) {
        k = Identity(keep)
        u = Max(v, w)
        s = Mul(u, i)
    }>
    z = If(c) <then_branch = t () => (int64[2] t1) { t1 = Identity(w) }, else_branch = e () => (int64[2] e1) {
        e1 = Min(x, w)
    }>
}
"""


@pytest.mark.parametrize("condition", [True, False])
def test_graphs_in_nodes(condition: bool) -> None:
    """An If gives INT32; a Loop keeps its number of rounds, and what it carries, which no interval proves."""
    feeds = {"x": np.array([5, 0]), "n": np.array(3), "c": np.array(condition)}
    with pytest.raises(formats.UnsupportedError, match="the output y of Loop, the output all of Loop may"):
        written(parsed(LOOP))
    new, _ = check(parsed(LOOP), feeds, keep_io_types=True)
    body = next(node for node in new.graph.node if node.op_type == "Loop").attribute[0].g
    assert {INT64, TensorProto.BOOL} == {value.type.tensor_type.elem_type for value in body.input}
    assert {"z_int32"} == {name for node in new.graph.node if node.op_type == "If" for name in node.output}


def test_functions_sequences_and_optionals() -> None:
    """Functions are written out; sequences and optionals keep INT64, since no operator casts them."""
    proto = parsed(
        "(int64[2] x) => (int64[4] y, int64[2] o) { s = SequenceConstruct(x, x) y = ConcatFromSequence<axis = 0>(s) "
        "a = Optional(x) b = OptionalGetElement(a) o = own.pick(b) }",
        functions='<domain: "own", opset_import: ["" : 18]> pick (v) => (r) { z = Constant<value_ints = [0, 1]>() '
        "r = Gather(v, z) }",
    )
    new, _ = check(proto, {"x": np.array([5, LEAST])}, keep_io_types=True)
    assert not new.functions
    with pytest.raises(formats.UnsupportedError, match="the output y of ConcatFromSequence, the output o"):
        written(proto)


def test_attributes_with_types() -> None:
    """The types and numbers in attributes change with the value that they make."""
    proto = parsed(
        "(bool[2] x, int64[1] k) => (int64[2] a, int64[2] b, int64[2] c, int64 d, int64[2] e) {"
        "a = Cast<to = 7>(x) i = Constant<value_ints = [3, 4]>() b = Add(i, a) s = Constant<value = int64[1] {2}>()"
        "c = ConstantOfShape<value = int64[1] {9}>(s) d = Constant<value_int = 5>() e = CastLike(x, k) }"
    )
    new, _ = check(proto, {"x": np.array([True, False]), "k": np.array([1])})
    assert {INT32} == {value.type.tensor_type.elem_type for value in new.graph.output}
    assert "Cast" not in operators(new)[1:]


def test_extremes_of_nothing() -> None:
    """The greatest of no elements is the least number of its type, which a note tells."""
    new, told = written(parsed("(int64[n] x) => (int64[m] y) { y = ReduceMax(x) }"))
    assert ["ReduceMax"] == operators(new)
    assert "ReduceMax and ReduceMin of no elements give the least and the greatest number of 32 bits" in told


def test_sparse_weights() -> None:
    """The values of a sparse weight become INT32; its indices are places, of 64 bits by definition."""
    values = helper.make_tensor("w", INT64, [1], [6])
    sparse = helper.make_sparse_tensor(values, helper.make_tensor("", INT64, [1], [1]), [3])
    proto = parsed("(int64[3] x) => (bool[3] y) { y = Equal(x, w) }")
    proto.graph.sparse_initializer.append(sparse)
    new = onnx.load_from_string(formats.dumps(formats.from_onnx(proto), "onnx", int32=True))
    (made,) = new.graph.sparse_initializer
    assert (INT32, INT64) == (made.values.data_type, made.indices.data_type)


def test_kernels() -> None:
    """What a release of onnxruntime, or without one the newest, has only for INT64 stays, and so do named nodes."""
    graph = "(int64[2,2] x) => (bool[2,2] y) { a = Trilu(x) y = Equal(a, x) }"
    feeds = {"x": np.array([[1, 2], [3, LEAST]])}
    for options, stays in (({}, False), ({"runtime": "onnxruntime==1.20"}, True), ({"keep": ["Trilu"]}, True)):
        new, told = check(parsed(graph), feeds, **options)
        assert stays == ("Cast" in operators(new))
        assert stays == any("Trilu x 1" in text for text in told if "stay" in text)
    proto = parsed("(int64[3] x) => (int64[n] y) { y, p = Unique(x) }")
    new, told = check(proto, {"x": np.array([3, 1, 3])})
    assert "in int64 stay Unique x 1 (without a kernel for int32 in the runtime)" in told


def test_old_sets_and_files() -> None:
    """Before IR version 4, weights are inputs, and before operator set 6, a Cast names its type by a text."""
    proto = parsed("(float[3] x, int64[1] w) => (float[1] y) <int64[1] w = {2}> { y = Gather(x, w) }", opset=5)
    proto.ir_version = 3
    new, told = written(proto)
    assert {"w": INT32, "x": 1, "y": 1} == types(new)
    assert not any(text.startswith("the type is INT32 now") for text in told)
    proto = parsed("(float[3] x, int64[1] i) => (int64[1] y) { y = ArgMax(x) }", opset=5)
    assert {b"INT32"} == {node.attribute[0].s for node in written(proto)[0].graph.node if node.op_type == "Cast"}


def test_data_beside_the_model(tmp_path: Path) -> None:
    """A table in a data file becomes INT32 there, and a default that is too large is refused with its name."""
    table = np.arange(5000)
    proto = parsed("(int64[n] x) => (int64[n] y) { y = Gather(w, x) }")
    proto.graph.initializer.append(numpy_helper.from_array(table, "w"))
    onnx.save(proto, tmp_path / "m.onnx", save_as_external_data=True, size_threshold=0)
    formats.convert(tmp_path / "m.onnx", tmp_path / "new.onnx", int32=True, external_data=True)
    np.testing.assert_array_equal(
        numpy_helper.to_array(onnx.load(tmp_path / "new.onnx").graph.initializer[0]), table.astype("int32")
    )
    proto = parsed("(int64[1] x) => (float[1] y) <int64[1] x = {4294967296}> { y = Cast<to = 1>(x) }")
    with pytest.raises(formats.UnsupportedError, match="the input x may have numbers that need more than 32 bits"):
        written(proto)


@pytest.mark.outer
@pytest.mark.parametrize("keep_io_types", [False, True])
def test_exported_models(shared_models: list[Path], keep_io_types: bool) -> None:
    """Exported models of language, speech and vision compute exactly the same."""
    for path in shared_models:
        with np.load(path.with_suffix(".npz")) as arrays:
            feeds = {key.removeprefix("in_"): arrays[key] for key in arrays.files if key.startswith("in_")}
        proto = onnx.load(path)
        data = formats.dumps(formats.load(path), "onnx", int32=True, keep_io_types=keep_io_types)
        new = onnx.load_from_string(data)
        assert all(map(is_same, run_in_onnxruntime(proto, feeds), run_in_onnxruntime(new, fed(new, feeds)))), path.name


def check_of_seed(seed: int) -> int:
    """Check the model of a seed, with and without types of inputs that stay; return how many were possible."""
    made = generate(seed)
    if made is None:
        return 0
    integers = [array for array in made.feeds.values() if isinstance(array, np.ndarray) and array.dtype == np.int64]
    if any(array.size and not LEAST <= array.min() <= array.max() <= GREATEST for array in integers):
        return 0
    count = 0
    for keep in (False, True):
        try:
            data = formats.dumps(formats.from_onnx(made.model), "onnx", int32=True, keep_io_types=keep)
        except formats.UnsupportedError as error:
            assert "more than 32 bits" in str(error)
            continue
        new = onnx.load_from_string(data)
        wanted = run_in_onnxruntime(made.model, made.feeds)
        assert all(map(is_same, wanted, run_in_onnxruntime(new, fed(new, made.feeds)))), seed
        count += 1
    return count


@pytest.mark.sample(3)
@pytest.mark.parametrize("seed", range(SEEDS))
def test_random_graphs(seed: int) -> None:
    """Graphs of all operators compute exactly the same."""
    check_of_seed(seed)


@pytest.mark.outer
def test_many_random_graphs() -> None:
    """So do many graphs, most of which are not refused."""
    assert sum(map(check_of_seed, range(SEEDS, MORE))) > MORE


PAIRS = ("Add", "Sub", "Mul", "Div", "Mod", "Max", "Min")
SINGLES = ("Abs", "Neg", "Sign", "Identity", "Relu", "ReduceSum", "ReduceMax", "CumSum", "Clip", "Cast", "Where")
EDGES = (LEAST, LEAST + 1, -46341, -1, 0, 1, 2, 46341, GREATEST - 1, GREATEST)


def arithmetic(seed: int) -> onnx.ModelProto:
    """A model with arithmetic of inputs, truths, sizes and constants at the edges of 32 bits, all as outputs."""
    rng = random.Random(seed)
    constants = {f"c{index}": rng.choice(EDGES) for index in range(3)}
    nodes = [
        helper.make_node("Cast", ["t"], ["v0"], to=INT64),
        helper.make_node("Size", ["x"], ["v1"]),
    ]
    names = ["x", "x2", *constants, "v0", "v1"]
    for index in range(2, 12):
        operator = rng.choice((*PAIRS, *PAIRS, *SINGLES))
        inputs = [rng.choice(names) for _ in range(2 if operator in PAIRS else 3 if operator == "Clip" else 1)]
        if operator == "Clip":
            inputs[1:] = rng.sample([*constants], 2)
        elif operator in ("Div", "Mod"):
            inputs[1] = rng.choice([name for name, number in constants.items() if number] or ["one"])
        elif operator == "CumSum":
            inputs = [rng.choice(["x", "x2", "v0"]), "zero"]
        elif operator == "Where":
            inputs = ["t", *rng.choices(names, k=2)]
        attributes = {"to": INT64} if operator == "Cast" else {}
        nodes.append(helper.make_node(operator, inputs, [f"v{index}"], **attributes))
        names.append(f"v{index}")
    weights = [helper.make_tensor(name, INT64, [], [number]) for name, number in constants.items()]
    weights += [helper.make_tensor("one", INT64, [], [1]), helper.make_tensor("zero", INT64, [], [0])]
    inputs = [helper.make_tensor_value_info(name, INT64, ["n"]) for name in ("x", "x2")]
    inputs.append(helper.make_tensor_value_info("t", TensorProto.BOOL, ["n"]))
    outputs = [helper.make_tensor_value_info(name, INT64, None) for name in names[5:]]
    graph = helper.make_graph(nodes, "g", inputs, outputs, weights)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    return onnx.shape_inference.infer_shapes(made)


def check_arithmetic(seed: int) -> int:
    """Check arithmetic of a seed for numbers at the edges of 32 bits; return how many nodes became INT32."""
    proto = arithmetic(seed)
    feeds = {
        "x": np.array(EDGES),
        "x2": np.array(EDGES)[::-1].copy(),
        "t": np.arange(len(EDGES)) % 3 == 0,
    }
    new, _ = written(proto, keep_io_types=True)
    wanted, found = run_in_onnxruntime(proto, feeds), run_in_onnxruntime(new, feeds)
    assert all(map(is_same, wanted, found)), [
        value.name
        for value, one, other in zip(proto.graph.output, wanted, found, strict=True)
        if not is_same(one, other)
    ]
    return sum(node.output[0].endswith("_int32") for node in new.graph.node if node.op_type != "Cast")


@pytest.mark.parametrize("seed", range(8))
def test_arithmetic_at_the_edges(seed: int) -> None:
    """What became INT32 is right for the least and greatest numbers of 32 bits, since intervals prove it."""
    check_arithmetic(seed)


@pytest.mark.outer
def test_much_arithmetic_at_the_edges() -> None:
    """So is much arithmetic, and a part of it becomes INT32."""
    assert sum(map(check_arithmetic, range(8, 400))) > 400
