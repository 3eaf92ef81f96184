"""ONNX for RTen: RTen's ONNX loader runs it, onnxruntime agrees, and models that run already stay unchanged."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest

import formats
from formats.errors import OptionError, UnsupportedError
from formats.onnxpb.codecs import CODEC as ONNX
from formats.onnxpb.options import OnnxOptions
from formats.rten.onnx_loader.passes import runnable
from formats.tensordata.engine import to_bytes
from formats.tensordata.sources.source import Literal
from tests import commands
from tests.corpus import backend_cases
from tests.rten.evaluation import difference, evaluate_in_onnxruntime, held
from tests.rten.random_graphs.graph import run_in_onnxruntime
from tests.rten.random_graphs.judging import difference as graph_difference
from tests.rten.rten_cases import CASES, to_proto
from tests.rten.rten_tables import DEVIATIONS
from tests.runtime.runner import RunnerError

RELEASE = "0.27"
EXPECTED = Path(__file__).parents[1] / "runnable_outcomes.json"
TOLERANCES = {"fp16": 1e-2, "qdq8": 5e-2, "dynq8": 5e-2}
RANDOM = "test_bernoulli"
NEWEST_IN_ONNXRUNTIME = 25
NOT_IN_ONNXRUNTIME = ("split_1",)


@pytest.fixture(scope="module")
def runner(runtimes):
    """The release for whose ONNX loader models are written."""
    if RELEASE not in runtimes:
        pytest.skip(f"needs RTen {RELEASE} in RTEN_RELEASES")
    return runtimes[RELEASE]


def rewritten(data):
    """Return the rewritten model for RTen, and its bytes."""
    found = runnable(ONNX.read(Literal(data), None))
    if found.error is not None:
        return found, b""
    return found, to_bytes(ONNX.plan(found.model, Path("m.onnx"), OnnxOptions()))


def of_text(text, opset=17):
    """Return the bytes of a model of one graph, in ONNX's own notation."""
    return onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}]> {text}').SerializeToString()


def operators(model):
    """Return the operators of the outermost graph."""
    return [node.op_type for node in model.graph.node]


def test_values_of_subgraphs_hide_none_around_them(runner, tmp_path):
    """If a body has a name that an outer value also has, the name is changed in the result, captures included."""
    data = of_text(
        """g (bool c, float[2] x) => (float[2] s) <float[2] k = {7, 8}> {
            r = If (c) <
                then_branch = t () => (float[2] s) {
                    y = If (c) <
                        then_branch = t2 () => (float[2] r) { s = Neg(k) r = Add(s, x) },
                        else_branch = e2 () => (float[2] u) { u = Neg(x) } >
                    s = Mul(y, k) },
                else_branch = e () => (float[2] v) { v = Sub(x, k) } >
            s = Add(r, r) }"""
    )
    found, made = rewritten(data)
    feeds = {"c": np.array(True), "x": np.array([1, 2], np.float32)}
    wanted = run_in_onnxruntime(onnx.load_from_string(data), feeds)
    assert "" == graph_difference(wanted, run_in_onnxruntime(onnx.load_from_string(made), feeds))
    path = tmp_path / "m.onnx"
    path.write_bytes(made)
    assert "" == graph_difference(wanted, runner.run(path, {name: held(value) for name, value in feeds.items()}))
    assert ["c", "x"] == [value.name for value in found.model.graph.input]
    assert ["s"] == [value.name for value in found.model.graph.output]


def test_backend_nodes(runner, tmp_path):
    """Each operator test of ONNX is right in RTen's ONNX loader, refused, or one of the known deviations.

    Every result passes ONNX's checker. The outcomes are written to `outcomes.json` in the test's folder, which can
    replace `runnable_outcomes.json` after an intended change.
    """
    path = tmp_path / "m.onnx"
    outcomes = {"right": [], "deviating": [], "refused": {}}
    for case in backend_cases():
        if case.id.startswith(RANDOM):
            continue
        found, data = rewritten(case.model)
        if found.error is not None:
            outcomes["refused"].setdefault(
                "; ".join(sorted(reason.split(" [")[0] for reason in found.stops)), []
            ).append(case.id)
            continue
        onnx.checker.check_model(onnx.load_from_string(data), full_check=True)
        path.write_bytes(data)
        outputs = runner.run(path, {name: held(value) for name, value in case.inputs.items()})
        pairs = zip(outputs, case.outputs.values(), strict=True)
        wrong = next((text for pair in pairs if (text := difference(*pair, 1e-4))), "")
        assert not wrong or case.id.startswith(tuple(DEVIATIONS)), f"{case.id}: {wrong}"
        outcomes["deviating" if wrong else "right"].append(case.id)
    outcomes["right"] = len(outcomes["right"])
    (tmp_path / "outcomes.json").write_text(json.dumps(outcomes, indent=1, sort_keys=True))
    assert json.loads(EXPECTED.read_text()) == outcomes


def test_shared_models(shared_model, runner, tmp_path):
    """Exported models run in RTen, with mapped external data, and give the same as the originals in onnxruntime."""
    reference = np.load(shared_model.with_suffix(".npz"))
    inputs = {key.removeprefix("in_"): reference[key] for key in reference.files if key.startswith("in_")}
    wanted = [reference[f"out_{number}"] for number in range(len(reference.files) - len(inputs))]
    path = tmp_path / "m.onnx"
    formats.convert(shared_model, path, runtime="rten", external_data=True)
    tolerance = TOLERANCES.get(shared_model.stem.rpartition(".")[2], 1e-4)
    for mapped in (False, True):
        outputs = runner.run(path, inputs, mmap=mapped)
        assert [""] * len(wanted) == [difference(*pair, tolerance) for pair in zip(outputs, wanted, strict=True)]
    onnx.checker.check_model(path, full_check=True)


@pytest.mark.parametrize("case", [case for case in CASES if not case.exact], ids=lambda case: case.name)
def test_cases_of_operators(case, runner, tmp_path):
    """Operators in forms that RTen lacks, old ones and ONNX Runtime's run in RTen, and are the same elsewhere."""
    found = runnable(case.model())
    assert found.error is None
    model, wanted = to_proto(found.model), case.reference()
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    inputs = {name: held(value) for name, value in case.inputs.items()}
    outputs = runner.run(tmp_path / "m.onnx", inputs)
    assert all(
        np.abs(got.astype(int) - want.astype(int)).max(initial=0) <= case.steps
        if case.steps
        else not difference(got, want, 2e-4)
        for got, want in zip(outputs, wanted, strict=True)
    )
    if case.version <= NEWEST_IN_ONNXRUNTIME and case.name not in NOT_IN_ONNXRUNTIME:
        again = evaluate_in_onnxruntime(model.SerializeToString(), case.inputs)
        assert [""] * len(wanted) == [difference(*pair, 2e-4) for pair in zip(again, wanted, strict=True)]


CONTRIB = (
    *("gelu", "bias_gelu", "fast_gelu", "quick_gelu", "rotary_embedding", "multi_head_attention_bias"),
    "mat_mul_n_bits",
)


@pytest.mark.parametrize("name", CONTRIB)
def test_operators_of_onnxruntime_stay(name):
    """ONNX Runtime's own operators that RTen's ONNX loader supports stay if the loader accepts the node."""
    (case,) = (case for case in CASES if case.name == name)
    assert () == runnable(case.model()).changes


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("rotary", [0, 1])
@pytest.mark.parametrize("past", [0, 3])
def test_group_query_attention(packed, rotary, past, runner, tmp_path):
    """GroupQueryAttention is rewritten, and computes the same as in onnxruntime: RTen's stops if there is room."""
    rng = np.random.default_rng(past)
    batch, length, heads, groups, size = 1, 4, 4, 2, 16
    parts = [rng.normal(size=(batch, length, count * size)).astype("f4") for count in (heads, groups, groups)]
    given = {"q": np.concatenate(parts, 2)} if packed else dict(zip("qkv", parts, strict=True))
    given |= {name: rng.normal(size=(batch, groups, past, size)).astype("f4") for name in ("pk", "pv")}
    given |= {"last": np.full(batch, past + length - 1, "i4"), "total": np.array(past + length, "i4")}
    names = [*(("q", "", "") if packed else "qkv"), "pk", "pv", "last", "total"]
    if rotary:
        angles = np.arange(32)[:, None] / 10000 ** (np.arange(size // 2) / (size // 2))
        given |= {"cos": np.cos(angles).astype("f4"), "sin": np.sin(angles).astype("f4")}
        names += ["cos", "sin"]
    node = onnx.helper.make_node(
        "GroupQueryAttention", names, ["y", "k2", "v2"], domain="com.microsoft", num_heads=heads, kv_num_heads=groups,
        do_rotary=rotary,
    )  # fmt: skip
    inputs = [
        onnx.helper.make_tensor_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
        for name, value in given.items()
    ]
    graph = onnx.helper.make_graph([node], "g", inputs, [onnx.ValueInfoProto(name=name) for name in node.output])
    imports = [onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid("com.microsoft", 1)]
    data = onnx.helper.make_model(graph, opset_imports=imports, ir_version=8).SerializeToString()
    found, made = rewritten(data)
    assert ["com.microsoft.GroupQueryAttention"] == [change.operator for change in found.changes]
    (tmp_path / "m.onnx").write_bytes(made)
    wanted = evaluate_in_onnxruntime(data, given)
    outputs = runner.run(tmp_path / "m.onnx", given)
    assert [""] * len(wanted) == [difference(*pair, 2e-4) for pair in zip(outputs, wanted, strict=True)]


def test_unknown_sizes(runner, tmp_path):
    """Sizes named "?", which RTen treats as equal, get different names, and this is reported."""
    text = "g (float[A] a, float[B] b) => (int64[1] y) { s = Shape(a) t = Shape(b) y = Sub(s, t) }"
    model = onnx.load_from_string(of_text(text))
    for value in model.graph.input:
        value.type.tensor_type.shape.dim[0].dim_param = "?"
    found, data = rewritten(model.SerializeToString())
    assert ["graph.input[0]", "graph.input[1]"] == [change.where for change in found.changes]
    (tmp_path / "m.onnx").write_bytes(data)
    (output,) = runner.run(tmp_path / "m.onnx", {"a": np.zeros(2, np.float32), "b": np.zeros(5, np.float32)})
    assert [-3] == output.tolist()


def test_double_is_told():
    """It is reported, and matters, that RTen computes DOUBLE with 32 bits."""
    found, _ = rewritten(of_text("g (double[2] x) => (double[2] y) { y = Neg(x) }"))
    assert [("precision", True)] == [(loss.kind, loss.matters) for loss in found.losses]


@pytest.mark.parametrize(
    ("elem_type", "numbers", "told"),
    [
        ("int64", [5, 1 << 40], True),
        ("int64", [-(1 << 33), 5], True),
        ("int64", [5, (1 << 63) - 1], False),
        ("uint32", [5, (1 << 31) + 7], True),
        ("uint64", [5, (1 << 63) + 9], True),
        ("int64", [5, (1 << 31) - 1], False),
    ],
)
@pytest.mark.parametrize("is_node", [False, True])
def test_constants_beyond_32_bits(runner, tmp_path, elem_type, numbers, told, is_node):
    """Integers that RTen's loader clamps become the nearest that RTen supports, and the report says so."""
    array = np.array(numbers, elem_type)
    text = f"g ({elem_type}[2] x) => (bool[2] y) {{ y = Less(w, x) }}"
    model = onnx.load_from_string(of_text(text))
    if is_node:
        node = onnx.helper.make_node("Constant", [], ["w"], value=onnx.numpy_helper.from_array(array))
        model.graph.node.insert(0, node)
    else:
        model.graph.initializer.append(onnx.numpy_helper.from_array(array, "w"))
    found, data = rewritten(model.SerializeToString())
    assert told is ("clamped" in {loss.kind for loss in found.losses if loss.matters})
    (tmp_path / "m.onnx").write_bytes(data)
    (output,) = runner.run(tmp_path / "m.onnx", {"x": np.array([7, 7], np.int32)})
    assert [number < 7 for number in numbers] == output.astype(bool).tolist()


STAYS = {
    "reduce": ("g (float[2,3] x) => (float[2,1] y) { y = ReduceMean<axes=[1]>(x) }", 13),
    "unsqueeze": ("g (float[2,3] x) => (float[2,1,3] y) { y = Unsqueeze<axes=[1]>(x) }", 11),
    "clip": ("g (float[2,3] x) => (float[2,3] y) { y = Clip<min=0.0, max=6.0>(x) }", 6),
    "slice": ("g (float[2,3] x) => (float[2,1] y) { y = Slice<axes=[1], starts=[0], ends=[1]>(x) }", 9),
    "pad": ("g (float[2] x) => (float[4] y) { y = Pad<pads=[1,1]>(x) }", 10),
    "split": ("g (float[4] x) => (float[1] y, float[3] z) { y, z = Split<split=[1,3]>(x) }", 11),
    "softmax": ("g (float[2,3] x) => (float[2,3] y) { y = Softmax<axis=1>(x) }", 11),
    "conv": ("g (float[1,1,4,4] x, float[1,1,3,3] w) => (float[1,1,4,4] y) "
             '{ y = Conv<kernel_shape=[3,3], auto_pad="SAME_UPPER">(x, w) }', 17),
    "norm": ("g (float[2,3] x, float[3] s) => (float[2,3] y) { y = LayerNormalization<stash_type=1>(x, s) }", 17),
    "half": ("g (float16[2,3] x) => (float16[2,3] y) <float16[3] w = {15360, 16384, 16896}> { y = Mul(x, w) }", 17),
    "long": ("g (int64[2,3] x) => (bool[2,3] y) <int64[3] w = {1, 2, 3}> { y = Less(x, w) }", 17),
    "softsign": ("g (float[2,3] x) => (float[2,3] y) { y = Softsign(x) }", 17),
    "constant": ("g (float[2,3] x) => (float[2,3] y) { c = Constant<value_float=2.0>() y = Mul(x, c) }", 17),
}  # fmt: skip


@pytest.mark.parametrize("name", STAYS)
def test_what_runs_stays(name, runner, tmp_path):
    """A node that RTen's ONNX loader reads stays unchanged, whatever its operator set is, and runs."""
    text, opset = STAYS[name]
    data = of_text(text, opset)
    found, made = rewritten(data)
    assert () == found.changes
    assert onnx.load_from_string(data) == onnx.load_from_string(made)
    rng = np.random.default_rng(0)
    inputs = {
        value.name: rng.integers(0, 4, [dim.dim_value for dim in value.type.tensor_type.shape.dim]).astype(
            onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        )
        for value in onnx.load_from_string(data).graph.input
    }
    (tmp_path / "m.onnx").write_bytes(made)
    outputs = runner.run(tmp_path / "m.onnx", {key: held(value) for key, value in inputs.items()})
    wanted = evaluate_in_onnxruntime(data, inputs)
    assert [""] * len(wanted) == [difference(*pair, 1e-4) for pair in zip(outputs, wanted, strict=True)]


NESTED = """g (bool c, float[2] x) => (float[2] y) <bool k = {1}> {
    y = If (c) <
        then_branch = t () => (float[2] r) {
            m = Not(k) r = If (m) < then_branch = t2 () => (float[2] a) { a = Neg(x) },
                                    else_branch = e2 () => (float[2] b) { b = Abs(x) } > },
        else_branch = e () => (float[2] s) { s = Neg(x) } > }"""


def test_captures_through_a_graph(runner, tmp_path):
    """A node with constant inputs, in a subgraph, captures a value from outside that subgraph: RTen finds the value."""
    data = of_text(NESTED, 17)
    found, made = rewritten(data)
    assert ["If"] == [change.operator for change in found.changes]
    onnx.checker.check_model(made, full_check=True)
    (tmp_path / "m.onnx").write_bytes(made)
    for condition in (True, False):
        inputs = {"c": np.array(condition), "x": np.float32([1, -2])}
        outputs = runner.run(tmp_path / "m.onnx", {key: held(value) for key, value in inputs.items()})
        assert evaluate_in_onnxruntime(data, inputs)[0].tolist() == outputs[0].tolist()


def test_names_and_documents_stay():
    """A node whose attributes change keeps its name, its documentation and its metadata, and so do other nodes."""
    model = onnx.load_from_string(
        of_text(
            "g (float[1,1,4,4] x, float[1,1,3,3] w) => (float[1,1,4,4] y) "
            '{ z = Conv<auto_pad="SAME_LOWER">(x, w) y = Relu(z) }'
        )
    )
    for node in model.graph.node:
        node.name, node.doc_string = f"the {node.op_type}", "said"
        node.metadata_props.add(key="k", value="v")
    found, _ = rewritten(model.SerializeToString())
    assert ["Conv"] == [change.operator for change in found.changes]
    assert [("the Conv", "said"), ("the Relu", "said")] == [
        (node.name, node.doc_string) for node in found.model.graph.node
    ]
    assert ["v", "v"] == [node.metadata_props[0].value for node in found.model.graph.node]


def test_operator_set_is_raised_as_a_whole():
    """If a rewriting needs a newer operator set, all nodes are converted to it, and this is reported."""
    text = ("g (float[2,3] x, float[3] s) => (float[2,3] y, float[2,1] m, float[1,1] z) "
            "{ y, m, d = LayerNormalization(x, s) z = ReduceMax<axes=[0,1]>(m) }")  # fmt: skip
    found, data = rewritten(of_text(text, 17))
    model = onnx.load_from_string(data)
    onnx.checker.check_model(model, full_check=True)
    assert 18 == model.opset_import[0].version
    assert "LayerNormalization" not in operators(model)
    (told,) = (loss for loss in found.losses if loss.kind == "opset_version")
    assert not told.matters
    assert "operator set 18; the model had 17" in told.detail
    (reduction,) = (node for node in model.graph.node if node.op_type == "ReduceMax")
    assert 2 == len(reduction.input)


def test_types_at_the_interface():
    """Types that RTen lacks become types with the same values; for inputs and outputs, this is reported."""
    text = (
        "g (uint16[2] x, bfloat16[2] z) => (uint16[2] y, bfloat16[2] w) <uint16[2] k = {65535, 1}> "
        "{ y = Add(x, k) w = Neg(z) }"
    )
    found, data = rewritten(of_text(text, 21))
    onnx.checker.check_model(onnx.load_from_string(data), full_check=True)
    (total, negative) = evaluate_in_onnxruntime(data, {"x": np.array([2, 3]), "z": np.array([1.0, 2.0])})
    assert [1, 4] == total.tolist()
    assert [-1.0, -2.0] == negative.tolist()
    told = {(loss.kind, loss.where, loss.matters) for loss in found.losses}
    assert {("interface_type", f"graph.{end}[{n}]", True) for end in ("input", "output") for n in (0, 1)} <= told


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("g (string[2] x) => (bool[2] y) { y = Equal(x, x) }", "the input 'x' has element type STRING"),
        ("g (float[2] x) => (float[2] y) { y = Multinomial<dtype=1>(x) }", "Multinomial"),
    ],
)
def test_what_cannot_be_rewritten_is_refused(text, reason, tmp_path):
    """A node that RTen cannot run in any form is refused, and nothing is written."""
    (tmp_path / "m.onnx").write_bytes(of_text(text))
    with pytest.raises(UnsupportedError, match=reason):
        formats.convert(tmp_path / "m.onnx", tmp_path / "n.onnx", runtime="rten")
    assert [tmp_path / "m.onnx"] == list(tmp_path.iterdir())


def external(path, **entries):
    """Write a model with a weight in another file, and additional entries about it."""
    weight = np.arange(300, dtype=np.float32)
    model = onnx.load_from_string(
        of_text("g (float[8,300] x) => (float[8,300] y) <float[300] w = {0}> { y = Mul(x, w) }")
    )
    model.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(weight, "w"))
    onnx.save(model, path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    model = onnx.load(path, load_external_data=False)
    for key, value in entries.items():
        model.graph.initializer[0].external_data.add(key=key, value=value)
    path.write_bytes(model.SerializeToString())
    return weight


def test_external_data(runner, tmp_path):
    """External weights are written to a file that RTen accepts, without unknown keys; RTen runs it read and mapped."""
    source, path = tmp_path / "m.onnx", tmp_path / "n.onnx"
    weight = external(source, basepath="/elsewhere", vendor="note")
    with pytest.raises(RunnerError):
        runner.run(source, {"x": np.ones((8, 300), np.float32)})
    formats.convert(source, path, runtime="rten")
    (tensor,) = onnx.load(path, load_external_data=False).graph.initializer
    assert {"location": "n.onnx.data", "offset": "0", "length": "1200"} == {
        entry.key: entry.value for entry in tensor.external_data
    }
    for mapped in (False, True):
        (output,) = runner.run(path, {"x": np.ones((8, 300), np.float32)}, mmap=mapped)
        assert weight.tolist() == output[7].tolist()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"external_data": "weights.bin"}, "weights.bin"),
        ({"external_data": True, "alignment": 6}, "multiple of 4"),
        ({"runtime": "onnx"}, "no runtime is called 'onnx'"),
    ],
)
def test_options_that_rten_would_not_read(options, message, tmp_path):
    """A name or an alignment that RTen's loader refuses is an error before anything is written."""
    external(tmp_path / "m.onnx")
    with pytest.raises(OptionError, match=message):
        formats.convert(tmp_path / "m.onnx", tmp_path / "n.onnx", **{"runtime": "rten", **options})
    assert not (tmp_path / "n.onnx").exists()


def test_archives_and_models_in_memory(tmp_path):
    """An archive, and a model that is saved or dumped, are rewritten in the same way."""
    (tmp_path / "m.onnx").write_bytes(of_text("g (float[2] x) => (float[2] y) { y = Mish(x) }", 18))
    report = formats.convert(tmp_path / "m.onnx", tmp_path / "m.onnxz", runtime="rten")
    assert ["Mish"] == [change.operator for change in report.changes]
    wanted = operators(formats.load(tmp_path / "m.onnxz"))
    assert "Mish" not in wanted
    model = formats.load(tmp_path / "m.onnx")
    formats.save(model, tmp_path / "n.onnx", runtime="rten")
    for found in (formats.load(tmp_path / "n.onnx"), formats.loads(formats.dumps(model, "onnx", runtime="rten"))):
        assert wanted == operators(found)


def test_report(tmp_path):
    """For each rewritten node, the report says where it was, what it became and why."""
    path = tmp_path / "m.onnx"
    path.write_bytes(of_text("g (float[2] x) => (float[2] y) { z = Mish(x) y = Mish(z) }", 18))
    done = commands.run("formats", "convert", path, tmp_path / "n.onnx", "--runtime", "rten", "--json")
    assert 0 == done.exit_code
    first, second = json.loads(done.stdout)["changes"]
    assert ("graph.node[0]", "z", "Mish", True) == tuple(
        first[key] for key in ("where", "name", "operator", "is_refused")
    )
    assert "graph.node[1]" == second["where"]
    assert "Tanh" in first["became"]
    assert "does not support this operator" in first["reason"]
    done = commands.run("formats", "convert", path, tmp_path / "o.onnx", "--runtime", "rten")
    assert "rewritten for the runtime: Mish x 2" in done.stdout


@pytest.mark.parametrize(
    ("text", "runs", "loads", "lines"),
    [
        ("g (float[2] x) => (float[2] y) { y = Neg(x) }", True, True, ["rten runs the model unchanged"]),
        ("g (float[2] x) => (float[2] y) { y = Mish(x) }", False, False, ["does not load", "1 x Mish -> "]),
        ("g (float[2] x) => (bool[2] y) { y = Cast<to=9>(x) }", False, True, ["its results differ", "1 x Cast"]),
        ("g (string[2] x) => (bool[2] y) { y = Equal(x, x) }", False, False, ["cannot be rewritten", "STRING"]),
    ],
)
def test_inspection(text, runs, loads, lines, tmp_path):
    """`inspect` says without a conversion whether RTen runs a model, what prevents it, and what would be rewritten."""
    path = tmp_path / "m.onnx"
    path.write_bytes(of_text(text, 18))
    found = formats.inspect(path, runtime="rten").runtime
    assert (runs, loads) == (found.runs, found.loads)
    done = commands.run("formats", "inspect", path, "--runtime", "rten")
    assert 0 == done.exit_code
    assert all(line in done.stdout for line in lines), done.stdout
    told = json.loads(commands.run("formats", "inspect", path, "--runtime", "rten", "--json").stdout)["runtime"]
    assert (runs, loads) == (told["runs"], told["loads"])
    assert "runtime" not in formats.inspect(path).to_json()


def random_model(node):
    """Return a model of one node that draws random numbers, without inputs or with ten rows of nine zeros."""
    zeros = onnx.numpy_helper.from_array(np.zeros((10, 9), np.float32), "x")
    graph = onnx.helper.make_graph([node], "g", [], [onnx.ValueInfoProto(name="y")], [zeros] if node.input else [])
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)


DRAWN = [
    (onnx.helper.make_node(f"Random{kind}{like}", ["x"] if like else [], ["y"], **attributes, seed=3.0,
                           **({} if like else {"shape": [10, 9]})), limits)
    for like in ("", "Like")
    for kind, attributes, limits in (("Normal", {"mean": 50.0, "scale": 2.0}, (20, 80)),
                                     ("Uniform", {"low": 5.0, "high": 7.0}, (5, 7)))
]  # fmt: skip
DRAWN += [(onnx.helper.make_node("Multinomial", ["x"], ["y"], sample_size=9, seed=3.0), (0, 8))]


@pytest.mark.parametrize(("node", "limits"), DRAWN, ids=[node.op_type for node, _ in DRAWN])
def test_random_numbers(node, limits, runner, tmp_path):
    """Nodes that draw random numbers stay, and draw different ones with the given parameters in RTen."""
    model = random_model(node)
    found, data = rewritten(model.SerializeToString())
    assert () == found.changes
    (tmp_path / "m.onnx").write_bytes(data)
    (output,) = runner.run(tmp_path / "m.onnx", {})
    assert (10, 9) == output.shape
    assert limits[0] <= output.min() < output.max() <= limits[1]
