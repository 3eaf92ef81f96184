"""A node that is equal to an earlier one gets the same legal form as without the earlier one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from onnx import helper

from formats import load
from formats.ir.model import Model
from formats.onnxpb.wire.decoder import decode
from formats.rten.convert.legalize import Legalized, legalize
from formats.rten.convert.precedents import Precedents
from formats.rten.operators import SPECS, elementwise
from formats.tensordata.sources.source import Literal
from tests.rten.rten_cases import CASES, floats

FLOAT, INT8 = 1, 3


def chain(*nodes: Any, wanted: tuple[str, ...] = ()) -> Model:
    """Return a model of version 17; `x` and `y` are floats of dims (1, 2, 8, 8), and `q` is int8 with the same dims."""
    values = [helper.make_tensor_value_info(name, FLOAT, [1, 2, 8, 8]) for name in ("x", "y")]
    values.append(helper.make_tensor_value_info("q", INT8, [1, 2, 8, 8]))
    weights = [
        helper.make_tensor("w", FLOAT, (2, 2, 3, 3), floats(36)),
        helper.make_tensor("s", FLOAT, (8,), floats(8)),
        *(helper.make_tensor(name, FLOAT, (1,), [number]) for name, number in (("b", 2.0), ("c", 3.0))),
    ]
    outputs = [helper.make_empty_tensor_value_info(name) for name in (nodes[-1].output[0], *wanted)]
    graph = helper.make_graph(list(nodes), "chain", values, outputs, weights)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
    return decode(Literal(proto.SerializeToString()), Model)


def twice(op_type: str, first: str, second: str, **attributes: Any) -> list[Any]:
    """Return the same operator for two values."""
    return [helper.make_node(op_type, [name, "w"], [f"{name}_out"], **attributes) for name in (first, second)]


def without_precedents(model: Model, monkeypatch: pytest.MonkeyPatch, exact: bool = False) -> Legalized:
    """Return the legal form if every node is examined."""
    with monkeypatch.context() as patch:
        patch.setattr(Precedents, "likeness", lambda *_: None)
        return legalize(model, exact)


def test_nodes_alike_are_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes with equal attributes and types share the result of the first of them."""
    model = chain(*(helper.make_node("Conv", [f"{name}", "w"], [f"{name}1"], pads=[1] * 4) for name in ("x", "y")))
    found = legalize(model).model.graph
    assert found is not None
    first, second = found.node
    assert (["y", "w"], ["y1"]) == (second.input, second.output)
    assert first.attribute == second.attribute
    assert first.attribute is not second.attribute  # each node has its own
    assert without_precedents(model, monkeypatch).model.graph == found


def test_nodes_with_a_bias_of_one_element_are_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a constant of one element became a scalar, it does in the nodes alike; a computed one is no constant."""
    nodes = [helper.make_node("Add", [name, bias], [f"{name}1"]) for name, bias in (("x", "b"), ("y", "c"))]
    computed = [helper.make_node("ReduceSum", ["s"], ["t"]), helper.make_node("Add", ["x", "t"], ["x2"])]
    model = chain(*nodes, *computed, wanted=("x1", "y1"))
    rewritten: list[str] = []
    short_bias, *others = elementwise.Add.to_rten.rewritings

    def watched(node: Any, context: Any) -> Any:
        rewritten.append(node.output[0])
        return short_bias(node, context)

    to_rten = replace(elementwise.Add.to_rten, rewritings=(watched, *others))
    monkeypatch.setitem(SPECS._by_key, "Add", replace(elementwise.Add, to_rten=to_rten))  # type: ignore[attr-defined]  # a test may look inside
    found = legalize(model).model.graph
    assert found is not None
    assert [["x", "b/scalar"], ["y", "c/scalar"]] == [node.input for node in found.node[:2]]
    assert {"x1", "x2"} == set(rewritten)
    assert without_precedents(model, monkeypatch).model.graph == found


DIFFERENT = [
    pytest.param([*twice("Add", "x", "q")], (), id="types"),
    pytest.param(
        [helper.make_node("LeakyRelu", ["x"], [f"l{a}"], alpha=a) for a in (0.0, -0.0)], (), id="signs of zero"
    ),
    pytest.param(
        [helper.make_node("Relu", ["x"], ["a"], domain="d"), helper.make_node("Relu", ["x"], ["b"])], (), id="domain"
    ),
    pytest.param(
        [helper.make_node("LayerNormalization", ["x", "s"], [f"n{i}", f"m{i}"], axis=-1) for i in range(2)],
        ("m1",),
        id="outputs that are wanted",
    ),
    pytest.param(
        [
            node
            for name in "bc"
            for node in (
                helper.make_node("Div", ["x", name], [f"x{name}"]),
                helper.make_node("Floor", [f"x{name}"], [f"f{name}"]),
            )
        ],
        ("fb",),
        id="divisors of which one is a power of two",
    ),
    pytest.param(
        [helper.make_node("Gemm", ["x", "w"], ["a"]), helper.make_node("Gemm", ["x", "w", "s"], ["b"])], (), id="inputs"
    ),
    pytest.param(
        [helper.make_node("Gemm", ["x", "w", ""], ["a"]), helper.make_node("Gemm", ["x", "w", "s"], ["b"])],
        (),
        id="omitted inputs",
    ),
]


@pytest.mark.parametrize(("nodes", "wanted"), DIFFERENT)
def test_nodes_that_differ_are_no_precedents(
    nodes: list[Any], wanted: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """If nodes differ in anything that a rewriting or a rule may read, they do not share results."""
    model = chain(*nodes, wanted=wanted)
    assert without_precedents(model, monkeypatch) == legalize(model)


def test_a_precedent_never_crosses_operator_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without an axis, Softmax is over the last axis since operator set 13, and over all axes but the first before."""
    made = {}
    for version in (11, 13):
        branches = {
            name: helper.make_graph(
                [helper.make_node("Softmax", ["v"], ["w"])], name, [], [helper.make_empty_tensor_value_info("w")]
            )
            for name in ("then_branch", "else_branch")
        }
        nodes = [
            helper.make_node("ReduceMax", ["v"], ["m"], keepdims=0),
            helper.make_node("Greater", ["m", "m"], ["c"]),
            helper.make_node("If", ["c"], ["r"], **branches),
        ]
        made[version] = helper.make_function(
            "local", f"F{version}", ["v"], ["r"], nodes, [helper.make_opsetid("", version)]
        )
    value = helper.make_tensor_value_info("x", FLOAT, [1, 2, 8, 8])
    graph = helper.make_graph(
        [
            helper.make_node("Softmax", ["x"], ["a"]),
            *(helper.make_node(f"F{version}", ["x"], [f"f{version}"], domain="local") for version in made),
        ],
        "g",
        [value],
        [helper.make_empty_tensor_value_info(name) for name in ("a", "f11", "f13")],
    )
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("local", 1)]
    proto = helper.make_model(graph, opset_imports=imports, functions=[*made.values()], ir_version=10)
    model = decode(Literal(proto.SerializeToString()), Model)
    found = legalize(model)
    assert () == found.refusals
    assert without_precedents(model, monkeypatch).model.graph == found.model.graph
    inner = [
        [inner.op_type for inner in attribute.g.node]
        for node in found.model.graph.node  # type: ignore[union-attr]
        for attribute in node.attribute
        if attribute.g is not None
    ]
    assert ["Softmax"] * 2 == [only for (only,) in inner[2:]]  # in operator set 13
    assert inner[0] == inner[1] != ["Softmax"]


def test_a_value_with_the_axes_of_the_other_is_no_precedent(monkeypatch: pytest.MonkeyPatch) -> None:
    """A product with ones keeps its axes, also after an equal one whose operand has them."""
    nodes = [
        helper.make_node("Shape", ["one"], ["shape"]),
        helper.make_node("Expand", ["any", "shape"], ["wide"]),
        helper.make_node("Mul", ["wide", "one"], ["first"]),
        helper.make_node("Mul", ["other", "one"], ["second"]),
    ]
    values = [helper.make_tensor_value_info(name, FLOAT, None) for name in ("any", "other")]
    values.append(helper.make_tensor_value_info("one", FLOAT, [1, 1, 1]))
    outputs = [helper.make_empty_tensor_value_info(name) for name in ("first", "second")]
    graph = helper.make_graph(nodes, "products", values, outputs)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
    model = decode(Literal(proto.SerializeToString()), Model)
    assert without_precedents(model, monkeypatch) == legalize(model)


@pytest.mark.sample(3)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_precedents_change_nothing(case: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model is the same, with the same types and refusals, as if every node is examined."""
    model = case.model()
    assert without_precedents(model, monkeypatch, case.exact) == legalize(model, case.exact)


def test_precedents_change_nothing_in_real_models(shared_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """This is also true for models that were exported from frameworks."""
    model = load(shared_model)
    assert without_precedents(model, monkeypatch) == legalize(model)
