"""A legalised model computes the same as the original, in onnxruntime and in RTen, or the error lists all reasons."""

from __future__ import annotations

import copy
import itertools
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from formats.ir.dtypes import FLOAT8E4M3FN
from formats.ir.model import Model
from formats.onnxpb.wire.decoder import decode
from formats.rten import CODEC
from formats.rten.convert.legalize import MAX_NESTING, Legalized, legalize
from formats.rten.options import RtenOptions
from formats.tensordata.engine import to_bytes
from formats.tensordata.sources.source import Literal
from tests.rten.rten_cases import CASES, Case, float32, floats, int64, node, one, run, to_proto
from tests.rten.rten_operators import ALL_SPECS

TOLERANCE = {"rtol": 1e-4, "atol": 1e-5}
BY_NAME = {case.name: case for case in CASES}


def legal(case: Case) -> Legalized:
    """Return the legal form of a case that has one."""
    result = legalize(case.model(), case.exact)
    assert () == result.refusals
    return result


def operators(model: Model) -> list[str]:
    """Return the operators of the outermost graph."""
    assert model.graph is not None
    return [found.op_type or "" for found in model.graph.node]


def reasons(model: Model, exact: bool = False) -> list[str]:
    """Return why a model cannot be converted."""
    return [refusal.reason for refusal in legalize(model, exact).refusals]


def our(proto: onnx.ModelProto) -> Model:
    """Return the model in our classes."""
    return decode(Literal(proto.SerializeToString()), Model)


def run_rten(model: Model, inputs: dict[str, Any], runtime: Any, path: Path, exact: bool = False) -> list[Any]:
    """Return what RTen computes for a model."""
    path.write_bytes(to_bytes(CODEC.plan(model, path, RtenOptions(exact=exact))))
    return runtime.run(path, {name: np.asarray(value) for name, value in inputs.items()})


def assert_same(wanted: list[Any], found: list[Any], steps: int = 0) -> None:
    """Assert that the outputs have the same shapes and, except for rounding, the same elements."""
    assert len(wanted) == len(found)
    for one_wanted, one_found in zip(wanted, found, strict=True):
        expected = np.asarray(one_wanted)
        assert expected.shape == one_found.shape
        tolerance = {"atol": steps, "rtol": 0} if steps else TOLERANCE
        np.testing.assert_allclose(one_found.astype(float), expected.astype(float), **tolerance)


@pytest.mark.sample(3)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_legal_form_computes_the_same(case: Case) -> None:
    """The legal form is valid ONNX, and onnxruntime computes the same with it."""
    proto = to_proto(legal(case).model)
    typed = copy.deepcopy(proto)
    for value in typed.graph.output:
        value.type.CopyFrom(helper.make_tensor_type_proto(1, []))  # the checker requires it, but does not check it
    onnx.checker.check_model(typed)
    if case.onnxruntime:
        assert_same(case.reference(), run(proto, case.inputs), case.steps)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_rten_computes_the_same(case: Case, runtime: Any, tmp_path: Path) -> None:
    """The real runtime computes with the legal form what the original model computes."""
    found = run_rten(case.model(), dict(case.inputs), runtime, tmp_path / "m.rten", case.exact)
    assert_same(case.reference(), found, case.steps)


UNKNOWN = [  # to the conversion: the rank of what Expand makes, and the size of the scale
    *(
        Case(
            f"non_zero_{len(dims)}",
            13,
            [node("Expand", "x s", "e"), node("NonZero", "e", "y")],
            {"x": np.array(2.0, np.float32), "s": int64(*dims)},
            symbolic=True,
        )
        for dims in ((), (3,), (2, 0), (2, 1, 3))
    ),
    *(
        Case(
            f"{op_type}_{size}",
            13,
            [node(op_type, "x s z", "y", axis=0)],
            {"s": np.abs(floats(size)) + 1},
            {"x": x, "z": np.arange(size, dtype=np.uint8)},
            symbolic=True,
        )
        for size in (1, 3)
        for op_type, x in (
            ("QuantizeLinear", floats(size, 4)),
            ("DequantizeLinear", np.arange(size * 4, dtype=np.uint8).reshape(size, 4)),
        )
    ),
]


@pytest.mark.parametrize("case", UNKNOWN, ids=lambda case: case.name)
def test_what_is_unknown_is_right_in_onnxruntime(case: Case) -> None:
    """The form for a rank or a size that nothing states is found, and computes the same for each of them."""
    assert_same(case.reference(), run(to_proto(legal(case).model), case.inputs), case.steps)


@pytest.mark.parametrize("case", UNKNOWN, ids=lambda case: case.name)
def test_what_is_unknown_is_right_in_rten(case: Case, runtime: Any, tmp_path: Path) -> None:
    """So it does in RTen."""
    found = run_rten(case.model(), dict(case.inputs), runtime, tmp_path / "m.rten", case.exact)
    assert_same(case.reference(), found, case.steps)


@pytest.mark.sample(3)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_legal_models_stay(case: Case) -> None:
    """Legalising a model twice gives the same as legalising it once."""
    once = legal(case).model
    again = legalize(once, case.exact)
    assert (once, ()) == (again.model, again.refusals)


@pytest.mark.sample(3)
def test_shared_models(shared_model: Path) -> None:
    """Exported models have a legal form, exact or not, which stays the same when legalised again."""
    model = decode(Literal(shared_model.read_bytes()), Model)
    for exact in (False, True):
        result = legalize(model, exact)
        assert () == result.refusals
        assert result.model == legalize(result.model, exact).model


@pytest.mark.sample(3)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_given_model_is_not_changed(case: Case) -> None:
    """Legalising does not change the given model."""
    model = case.model()
    before = copy.deepcopy(model)
    legalize(model, case.exact)
    assert before == model


def test_weights_are_shared() -> None:
    """An unchanged initialiser is the same object, not a copy."""
    model = BY_NAME["conv_1d_defaults"].model()
    result = legalize(model).model
    assert model.graph is not None
    assert result.graph is not None
    assert model.graph.initializer[0] is result.graph.initializer[0]


@pytest.mark.parametrize(("zero", "count"), [([0, 0], 0), ([0, 1], 1), (None, 1)], ids=["zeros", "others", "unknown"])
def test_zero_points_of_small_floats_are_added(zero: list[float] | None, count: int) -> None:
    """A zero point of a small float is added to the quotient, unless it is known to be 0, as it should be."""
    nodes = [node("QuantizeLinear", "x s z", "q", axis=0), node("DequantizeLinear", "q s", axis=0)]
    values = {"z": np.array(zero or [0, 0], "float8_e4m3fn")}
    inputs = {"x": floats(2, 3), **({} if zero else values)}
    added = Case("added", 21, nodes, inputs, {"s": float32(0.5, 2), **(values if zero else {})})
    nodes = [node("QuantizeLinear", "x s", "q", axis=0, output_dtype=FLOAT8E4M3FN), nodes[1]]
    not_added = Case("not_added", 21, nodes, {"x": floats(2, 3)}, {"s": float32(0.5, 2)})
    counts = [operators(legal(case).model).count("Add") for case in (added, not_added)]
    assert counts[0] - counts[1] == count


@pytest.mark.parametrize(
    ("case", "is_defined"),
    [
        (one("lrn", 13, "LRN", {"x": floats(1, 3, 2, 2)}, size=3), False),  # a rewriting
        (one("maximum", 18, "ReduceMax", {"x": floats(2, 3)}), False),  # an operator that stays
        (BY_NAME["grid_volume"], True),
    ],
    ids=["rewritten", "kept", "defined"],
)
def test_only_what_onnx_defines_is_unwanted(case: Case, is_defined: bool) -> None:
    """With `exact`, a deviation from ONNX is unwanted; one from onnxruntime where ONNX defines nothing is not."""
    losses = {exact: list(legalize(case.model(), exact).losses.lines()) for exact in (False, True)}
    assert [loss.unwanted for loss in losses[False] if loss.kind == "deviation"] == [False]
    assert [loss.unwanted for loss in losses[True] if loss.kind == "deviation"] == [is_defined]


def test_exactness_is_asked_for() -> None:
    """By default, deviations of RTen's own operators for NaN are accepted."""
    case = one("relu", 14, "Relu", {"x": floats(2, 3)})
    assert (["Relu"], ["Max"]) == (
        operators(legalize(case.model()).model),
        operators(legalize(case.model(), exact=True).model),
    )


# Functions


def function(name: str, inputs: str, nodes: list[onnx.NodeProto], **rest: Any) -> onnx.FunctionProto:
    """Return a function of the domain "local" with one output."""
    imports = [helper.make_opsetid("", rest.pop("version", 13)), helper.make_opsetid("local", 1)]
    return helper.make_function("local", name, inputs.split(), ["y"], nodes, imports, **rest)


def reference(name: str, attribute: str, op_type: str, inputs: str, output: str) -> onnx.NodeProto:
    """Return a node with an attribute that refers to one of the function."""
    made = node(op_type, inputs, output)
    made.attribute.append(onnx.AttributeProto(name=name, ref_attr_name=attribute, type=onnx.AttributeProto.FLOAT))
    return made


def calling(nodes: list[onnx.NodeProto], *functions: onnx.FunctionProto, version: int = 17) -> onnx.ModelProto:
    """Return a model of a vector of four that calls functions."""
    x, y = (helper.make_tensor_value_info(name, 1, [4]) for name in "xy")
    graph = helper.make_graph(nodes, "g", [x], [y])
    imports = [helper.make_opsetid("", version), helper.make_opsetid("local", 1)]
    return helper.make_model(graph, opset_imports=imports, functions=functions, ir_version=10)


def local(op_type: str, inputs: str, outputs: str = "y", **attributes: Any) -> onnx.NodeProto:
    """Return a call of a function."""
    return node(op_type, inputs, outputs, domain="local", **attributes)


LEAKY = function("Leaky", "x", [reference("alpha", "slope", "LeakyRelu", "x", "y")], attributes=["slope"])
SQUEEZED = function(
    "Squeezed",
    "x",
    [node("Unsqueeze", "x", "t", axes=[0]), node("Abs", "t", "t2"), node("Squeeze", "t2", "y", axes=[0])],
    version=11,
)
TWICE = function("Twice", "x", [local("Leaky", "x", "t", slope=0.5), local("Leaky", "t", "y", slope=0.25)])
CHOICE = function(
    "Choice",
    "x",
    [
        node("ReduceSum", "x", "s", keepdims=0),
        node("Greater", "s s", "c"),
        node(
            "If",
            "c",
            "y",
            then_branch=helper.make_graph([node("Neg", "x", "a")], "t", [], [onnx.ValueInfoProto(name="a")]),
            else_branch=helper.make_graph([node("Exp", "x", "a")], "e", [], [onnx.ValueInfoProto(name="a")]),
        ),
    ],
)
OPTIONAL = function("Bounded", "x low high", [node("Clip", "x low high", "y")])


@pytest.mark.parametrize(
    ("nodes", "functions", "wanted"),
    [
        ([local("Leaky", "x", slope=0.3)], [LEAKY], float32(-0.6, 1, -0.3, 2)),
        ([local("Squeezed", "x")], [SQUEEZED], float32(2, 1, 1, 2)),
        ([local("Twice", "x", "t"), local("Twice", "t")], [LEAKY, TWICE], float32(-1 / 32, 1, -1 / 64, 2)),
        ([local("Choice", "x", "t"), local("Choice", "t")], [CHOICE], np.exp(np.exp(float32(-2, 1, -1, 2)))),
        ([node("ReduceMin", "x", "h", keepdims=0), local("Bounded", "x _ h")], [OPTIONAL], float32(-2, -2, -2, -2)),
        ([node("Neg", "x", "y/t"), local("Squeezed", "y/t")], [SQUEEZED], float32(2, 1, 1, 2)),
    ],
    ids=["attribute", "older operator set", "nested", "subgraphs", "omitted input", "taken names"],
)
def test_functions_are_inlined(
    nodes: list[onnx.NodeProto], functions: list[onnx.FunctionProto], wanted: Any, runtime: Any, tmp_path: Path
) -> None:
    """A call is replaced by the function's nodes, with the function's operator set."""
    proto = calling(nodes, *functions)
    inputs = {"x": float32(-2, 1, -1, 2)}
    result = legalize(our(proto))
    assert ([], ()) == (result.model.functions, result.refusals)
    assert_same([wanted], run(to_proto(result.model), inputs))
    assert_same([wanted], run_rten(our(proto), inputs, runtime, tmp_path / "m.rten"))


def test_functions_have_defaults() -> None:
    """An attribute that a call leaves out has the function's default."""
    with_default = copy.deepcopy(LEAKY)
    del with_default.attribute[:]
    with_default.attribute_proto.append(helper.make_attribute("slope", 0.75))
    result = legalize(our(calling([local("Leaky", "x")], with_default))).model
    assert 0.75 == to_proto(result).graph.node[0].attribute[0].f


def test_overloads_are_told_apart() -> None:
    """A call names the overload that it uses."""
    functions = []
    for overload, op_type in (("a", "Neg"), ("b", "Abs")):
        made = function("F", "x", [node(op_type, "x")])
        made.overload = overload
        functions.append(made)
    for overloads, wanted in (("a", ["Neg"]), ("b", ["Abs"]), ("ba", ["Abs", "Neg"]), ("aab", ["Neg", "Neg", "Abs"])):
        names = ["x", *(f"t{index}" for index in range(1, len(overloads))), "y"]
        calls = [local("F", *pair) for pair in itertools.pairwise(names)]
        for call, overload in zip(calls, overloads, strict=True):
            call.overload = overload
        for order in (functions, functions[::-1]):
            result = legalize(our(calling(calls, *order)))
            assert (wanted, ()) == (operators(result.model), result.refusals)
    calls[0].overload = "c"
    assert 1 == len(reasons(our(calling(calls, *functions))))  # there is no overload "c"


def test_functions_hide_operators() -> None:
    """A function in another domain with the name of a standard operator is the function."""
    assert ["Abs"] == operators(
        legalize(our(calling([local("Neg", "x")], function("Neg", "x", [node("Abs", "x")])))).model
    )


def test_recursion_is_refused() -> None:
    """A function that calls itself, directly or indirectly, is refused."""
    there = function("There", "x", [local("Back", "x")])
    back = function("Back", "x", [local("There", "x")])
    assert ["it is a function that calls itself, or whose calls are nested more than 64 deep"] == reasons(
        our(calling([local("There", "x")], there, back))
    )


def test_multiplying_functions_are_refused() -> None:
    """Functions that each call the next one twice would fill the memory, so they are refused."""
    functions = [function("F0", "x", [node("Abs", "x", "t"), node("Abs", "t")])]
    for number in range(1, 40):
        name = f"F{number - 1}"
        functions.append(function(f"F{number}", "x", [local(name, "x", "t"), local(name, "t")]))
    assert ["it is a function that becomes 1e+12 nodes, but RTen loads at most 500000"] == reasons(
        our(calling([local("F39", "x")], *functions))
    )


# Graphs


def test_nodes_may_come_in_any_order() -> None:
    """A node before another node that it needs is accepted, also if a subgraph needs it."""
    branch = helper.make_graph([node("Neg", "b", "n")], "t", [], [onnx.ValueInfoProto(name="n")])
    nodes = [
        node("If", "c", "y", then_branch=branch, else_branch=branch),
        node("Greater", "s s", "c"),
        node("ReduceSum", "b", "s", keepdims=0),
        node("Abs", "a", "b"),
        node("Exp", "x", "a"),
    ]
    result = legalize(our(calling(nodes)))
    assert (["Exp", "Abs", "ReduceSum", "Greater", "If"], ()) == (operators(result.model), result.refusals)


def test_cycles_are_refused() -> None:
    """Nodes that need each other are refused, because they can never run."""
    nodes = [node("Add", "x b", "a"), node("Neg", "a", "b"), node("Neg", "x")]
    (refusal,) = legalize(our(calling(nodes))).refusals
    assert ("graph.node[0]", "it is part of a cycle") == (refusal.where, refusal.reason)


@pytest.mark.parametrize(
    ("attributes", "held"),
    [
        ({"value": numpy_helper.from_array(float32(1, 2, 3, 4))}, [1, 2, 3, 4]),
        ({"value_float": 2.5}, [2.5] * 4),
        ({"value_floats": [1.0, 0.0, 3.0, 0.0]}, [1, 0, 3, 0]),
        (
            {
                "sparse_value": helper.make_sparse_tensor(
                    numpy_helper.from_array(float32(5, 7), "v"), numpy_helper.from_array(int64(1, 3), "i"), [4]
                )
            },
            [0, 5, 0, 7],
        ),
    ],
)
def test_constants_become_initialisers(attributes: dict[str, Any], held: list[float]) -> None:
    """A Constant node, in any form, becomes an initialiser."""
    proto = calling([node("Constant", "", "k", **attributes), node("Add", "x k")])
    result = legalize(our(proto)).model
    assert ["Add"] == operators(result)
    assert_same([np.array(held, np.float32)], run(to_proto(result), {"x": np.zeros(4, np.float32)}))


def test_sparse_initialisers_become_dense() -> None:
    """A sparse initialiser becomes an ordinary one."""
    proto = calling([node("Add", "x k")])
    sparse = helper.make_sparse_tensor(
        numpy_helper.from_array(float32(5, 7), "k"), numpy_helper.from_array(int64(1, 3), "i"), [4]
    )
    proto.graph.sparse_initializer.append(sparse)
    result = to_proto(legalize(our(proto)).model)
    assert [] == list(result.graph.sparse_initializer)
    assert_same([float32(0, 5, 0, 7)], run(result, {"x": np.zeros(4, np.float32)}))


def test_initialisers_are_no_inputs_of_old_files() -> None:
    """Before IR version 4, every initialiser had to be an input as well; such inputs are dropped."""
    proto = BY_NAME["clip_bytes"].proto()
    proto.ir_version = 3
    proto.graph.input.extend(helper.make_tensor_value_info(name, 3, []) for name in ("l", "h"))
    assert ["x"] == [value.name for value in to_proto(legalize(our(proto)).model).graph.input]


def body(inputs: list[str], nodes: list[onnx.NodeProto], outputs: list[str]) -> onnx.GraphProto:
    """Return a subgraph whose inputs and outputs have no types, except a loop's counter and condition."""
    known = {"i": helper.make_tensor_value_info("i", 7, []), "go": helper.make_tensor_value_info("go", 9, [])}
    values = [[known.get(name) or onnx.ValueInfoProto(name=name) for name in names] for names in (inputs, outputs)]
    return helper.make_graph(nodes, "body", *values)


STEP = body(["s", "v"], [node("Add", "s v", "t"), node("Mul", "t v", "u")], ["t", "u"])
SUBGRAPHS = [
    Case("scan", 13, [node("Scan", "s x", "f c", body=STEP, num_scan_inputs=1)], {"s": floats(3), "x": floats(5, 3)},
         outputs=("f", "c")),
    Case("scan_backwards", 13,
         [node("Scan", "s x", "f c", body=STEP, num_scan_inputs=1, scan_input_axes=[1], scan_output_axes=[1],
               scan_input_directions=[1], scan_output_directions=[1])],
         {"s": floats(3), "x": floats(3, 5)}, outputs=("f", "c")),
    Case("loop_of_old_forms", 11,
         [node("Loop", "n _ x", "f c", body=body(["i", "go", "a"],
               [node("Identity", "go", "on"), node("Unsqueeze", "a", "b", axes=[0]),
                node("Softmax", "b", "d"), node("Squeeze", "d", "e", axes=[0]), node("Identity", "e", "k")],
               ["on", "e", "k"]))],
         {"n": np.asarray(3), "x": floats(2, 3)}, outputs=("f", "c")),
    Case("branches_see_outer_types", 14,
         [node("Cast", "x", "b", to=2),
          node("If", "c", "y", then_branch=body([], [node("Max", "b b", "p")], ["p"]),
               else_branch=body([], [node("Sub", "b b", "p")], ["p"]))],
         {"c": np.asarray(True), "x": np.abs(floats(4)) * 9}),
    Case("sequence_map", 17,
         [node("SplitToSequence", "x", "s", axis=0),
          node("SequenceMap", "s k", "m", body=helper.make_graph([node("Add", "a b", "r")], "body",
               [helper.make_tensor_value_info("a", 1, None), helper.make_tensor_value_info("b", 1, None)],
               [helper.make_tensor_value_info("r", 1, None)])),
          node("ConcatFromSequence", "m", axis=0)],
         {"x": floats(3, 2), "k": floats(2)}, onnxruntime=True),
]  # fmt: skip


@pytest.mark.parametrize("case", SUBGRAPHS, ids=lambda case: case.name)
def test_subgraphs(case: Case, runtime: Any, tmp_path: Path) -> None:
    """Bodies and branches are legalised, too, with what is known about outer values; scans become loops."""
    result = legal(case)
    assert result.model == legalize(result.model).model
    wanted = case.reference()
    assert_same(wanted, run(to_proto(result.model), case.inputs))
    assert_same(wanted, run_rten(case.model(), dict(case.inputs), runtime, tmp_path / "m.rten"))


def test_deep_nesting_is_refused() -> None:
    """Graphs may be nested as deeply as RTen allows, and not more."""
    flat = body([], [node("Neg", "x", "y")], ["y"])
    inner = [node("Neg", "x", "y")]
    for _ in range(MAX_NESTING + 1):
        inner = [node("If", "c", "y", then_branch=body([], inner, ["y"]), else_branch=flat)]
    case = Case("deep", 13, inner, {"x": floats(2), "c": np.asarray(True)})
    assert {f"it is nested in more than {MAX_NESTING} graphs, and RTen does not load that"} == set(
        reasons(case.model())
    )


# Refusals


def test_all_refusals_are_collected() -> None:
    """Every node that stops the conversion is listed, with its place, version and remedy."""
    nodes = [
        node("ImageDecoder", "x", "u"),
        node("Relu", "u", "r", domain="elsewhere"),
        node("Cast", "r", "s", to=8),
        node("MelWeightMatrix", "a a a a a", "y"),
    ]
    case = Case("refused", 17, nodes, {"x": floats(4), "a": np.asarray(0)})
    found = legalize(case.model()).refusals
    assert [
        ("ImageDecoder", "", 17, "graph.node[0]", "it is not supported by RTen", ""),
        ("Relu", "elsewhere", 1, "graph.node[1]", "it is not supported by RTen", ""),
        ("Cast", "", 17, "graph.node[2]", "it casts to STRING, which RTen does not support", ""),
        (
            "MelWeightMatrix",
            "",
            17,
            "graph.node[3]",
            "it needs the value of 'a', which is known only when the model runs",
            "make it constant",
        ),
    ] == [tuple(refusal) for refusal in found]


@pytest.mark.parametrize(
    ("case", "words"),
    [
        (one("old_training", 6, "Dropout", {"x": floats(2)}), "training form"),
        (one("dropout", 13, "Dropout", {"x": floats(2)}, "x r t",
             CONSTANTS={"r": np.float32(0.5), "t": np.asarray(True)}), "training mode"),
        (one("strings", 13, "Identity", {"x": np.array(["a"], object)}), "STRING"),
        (one("places", 12, "MaxPool", {"x": floats(1, 1, 400)}, kernel_shape=[300], OUTPUTS=("y", "i")), "300 slices"),
        (one("complex", 21, "QuantizeLinear", {"x": floats(4)}, "x s", output_dtype=14,
             CONSTANTS={"s": np.float32(1)}), "COMPLEX64"),
        (one("wide_shift", 11, "BitShift", {"x": np.array([1], np.uint64)}, "x x", direction="LEFT"), "UINT64"),
        (one("wide_not", 18, "BitwiseNot", {"x": np.array([1], np.uint32)}), "UINT32"),
        (one("reverse", 10, "ReverseSequence", {"x": floats(2, 2, 2), "n": int64(1, 2)}, batch_axis=0, time_axis=2),
         "time axis 2"),
        (one("few_inputs", 13, "CumSum", {"x": floats(2)}), "lacks input 1"),
    ],
    ids=lambda value: value.name if isinstance(value, Case) else "",
)  # fmt: skip
def test_refusals(case: Case, words: str) -> None:
    """A model that cannot be written is refused, with the reason."""
    (reason,) = reasons(case.model(), case.exact)
    assert words in reason


def test_newer_operator_sets_are_refused() -> None:
    """An operator set that is newer than the package is refused, because its operators may have changed."""
    proto = calling([node("Neg", "x")], version=999)
    assert ["the model uses operator set 999, but the newest known one is 28"] == reasons(our(proto))


# Hostile models


def test_rewritings_are_of_known_domains() -> None:
    """Only standard operators and onnxruntime's operators are known; the standard domain has one spelling."""
    known = {"", "ai.onnx.ml", "ai.onnx.preview", "ai.onnx.preview.training", "com.microsoft"}
    assert known == {spec.domain for spec in ALL_SPECS}
    assert [] == [name for name, count in Counter(case.name for case in CASES).items() if count > 1]
