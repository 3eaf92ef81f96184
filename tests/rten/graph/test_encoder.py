"""Graphs of the IR as node lists: order, names, captures, constants, types, and refusals."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from formats.errors import EncodeError
from formats.ir.model import Node, SparseTensor
from formats.ir.storage import from_numpy
from formats.rten.graph.encoder import GraphEncoder
from formats.rten.target import RTEN_0_26
from tests.rten.rten_forms import expanded

BIG = np.arange(17)
INT64 = np.iinfo(np.int64)


def encode(model, **options):
    """Return the encoder after its work, and the table."""
    encoder = GraphEncoder(model, **options)
    return encoder, expanded(encoder.encode(model.graph))


def listed(table):
    """Return the nodes as (id, kind, name), with the first letter of the kind."""
    return [(number, node["data"][0][0], node.get("name")) for number, node in enumerate(table["nodes"])]


def operators(table):
    """Return the operators by type."""
    return {node["data"][1]["type"]: node["data"][1] for node in table["nodes"] if node["data"][0] == "OperatorNode"}


def constants(table):
    """Return the constants by name."""
    return {node["name"]: node["data"][1] for node in table["nodes"] if node["data"][0] == "ConstantNode"}


def values(table):
    """Return the values by name."""
    return {node.get("name"): node["data"][1] for node in table["nodes"] if node["data"][0] == "ValueNode"}


def test_order(make):
    """Values and constants come before operators in any order of the nodes; ids are indices."""
    graph = make.graph(
        [make.node("Add", ["b", "w"], ["c"]), make.node("Relu", ["a"], ["b"])],
        ["a"],
        ["c"],
        [make.tensor("w", [1.0])],
    )
    _, table = encode(make.model(graph))
    assert [(0, "V", "a"), (1, "C", "w"), (2, "V", "c"), (3, "V", "b"), (4, "O", None), (5, "O", None)] == listed(table)
    assert ((3, 1), (2,)) == (operators(table)["Add"]["inputs"], operators(table)["Add"]["outputs"])
    assert ((0,), (2,)) == (table["inputs"], table["outputs"])


def test_missing_inputs_and_outputs(make):
    """An omitted input is -1; at the end of the list, omitted inputs and outputs are left out."""
    graph = make.graph(
        [
            make.node("Resize", ["x", "", "s", ""], ["y"]),
            make.node("LSTM", ["y", "w", "w"], ["", "h", ""], hidden_size=1),
        ],
        ["x", "s", "w"],
        ["h"],
    )
    encoder, table = encode(make.model(graph))
    assert (0, -1, 1) == operators(table)["Resize"]["inputs"]
    assert (-1, listed(table).index((4, "V", "h"))) == operators(table)["LSTM"]["outputs"]
    assert [] == encoder.refusals


def test_operator_names_are_unique(make):
    """An operator is renamed if a value anywhere in the model, or another operator, has its name."""
    inner = make.graph([make.node("Neg", ["x"], ["inner"])], outputs=["inner"])
    nodes = [
        replace(make.node("Relu", ["x"], ["y"]), name="y"),
        replace(make.node("Abs", ["y"], ["z"]), name="inner"),
        replace(make.node("Exp", ["z"], ["w"]), name="op"),
        replace(make.node("Log", ["w"], ["v"]), name="op"),
        make.node("If", ["c"], ["u"], then_branch=inner, else_branch=inner),
    ]
    encoder, table = encode(make.model(make.graph(nodes, ["x", make.value("c", 9)], ["u", "v"])))
    assert ["y_1", "inner_1", "op", "op_1", None] == [name for _, kind, name in listed(table) if kind == "O"]
    (loss,) = encoder.losses.lines()
    assert ("renamed", 'graph.node["y"]') == (loss.kind, loss.where)


def test_constants_that_are_outputs_of_subgraphs(make):
    """A constant that is only used as the output of a subgraph is written, and the subgraph captures it."""
    graph = make.graph(
        [make.node("If", ["c"], ["y"], then_branch=make.graph(outputs=["k"]), else_branch=make.graph(outputs=["x"]))],
        ["x", make.value("c", 9)],
        ["y"],
        [make.tensor("k", [1.0]), make.tensor("unused", [1.0])],
    )
    _, table = encode(make.model(graph))
    assert ["k"] == list(constants(table))
    then = operators(table)["If"]["attrs"][1]["then_branch"]
    assert ([(0, "V", "k")], (0,), (0,)) == (listed(then), then["captures"], then["outputs"])


def test_captures(make):
    """A subgraph lists the names of outer values that it or a deeper subgraph uses."""
    inner = make.graph([make.node("Add", ["x", "w"], ["deep"])], outputs=["deep"])
    middle = make.graph(
        [make.node("If", ["c"], ["m"], then_branch=inner, else_branch=inner), make.node("Add", ["m", "k"], ["n"])],
        outputs=["n"],
        constants=[make.tensor("k", [1.0])],
    )
    other = make.graph(outputs=["x"])
    graph = make.graph(
        [make.node("If", ["c"], ["y"], then_branch=middle, else_branch=other)],
        ["x", make.value("c", 9)],
        ["y"],
        [make.tensor("w", [1.0])],
    )
    _, table = encode(make.model(graph))
    assert ["w"] == list(constants(table))
    attrs = operators(table)["If"]["attrs"][1]
    then, other = attrs["then_branch"], attrs["else_branch"]
    taken = [(0, "V", "c"), (1, "V", "w"), (2, "V", "x")]
    own = [(3, "C", "k"), (4, "V", "m"), (5, "V", "n"), (6, "O", None), (7, "O", None)]
    assert taken + own == listed(then)
    assert ((), (0, 1, 2)) == (then["inputs"], then["captures"])
    assert ([(0, "V", "x")], (0,), (0,)) == (listed(other), other["captures"], other["outputs"])
    deepest = operators(then)["If"]["attrs"][1]["then_branch"]
    assert ([(0, "V", "x"), (1, "V", "w")], (0, 1)) == (listed(deepest)[:2], deepest["captures"])


def test_constants_from_everywhere(make):
    """Initialisers, sparse ones and Constant nodes become constants; unused ones are left out."""
    sparse = SparseTensor(
        values=from_numpy(np.array([3], np.float32), "s"), indices=from_numpy(np.array([1])), dims=[2]
    )
    graph = make.graph(
        [make.node("Constant", [], ["c"], value_float=2.0), make.node("Sum", ["x", "c", "s", "w"], ["y"])],
        ["x"],
        ["y"],
        [make.tensor("w", [1.0]), make.tensor("unused", [1.0])],
    )
    graph.sparse_initializer.append(sparse)
    _, table = encode(make.model(graph))
    assert {"w": (1,), "s": (2,), "c": ()} == {name: node["shape"] for name, node in constants(table).items()}
    assert ("FloatData", {"data": np.array([0, 3], "<f4").tobytes()}) == constants(table)["s"]["data"]
    for name in ("w", "s", "c", "x", "y"):  # no operator has these names
        graph.node[1].name = name
        _, table = encode(make.model(graph))
        assert [f"{name}_1"] == [found for _, kind, found in listed(table) if kind == "O"]
    assert (0, 3, 2, 1) == operators(table)["Sum"]["inputs"]


def test_large_constants_go_to_the_section(make):
    """A constant of up to 16 elements is in the table, a larger one in the tensor section, if there is one."""
    tensors = [make.tensor("small", BIG[:16], "int32"), make.tensor("large", BIG, "int32")]
    graph = make.graph([make.node("Sum", ["small", "large"], ["y"])], outputs=["y"], constants=tensors)
    encoder, table = encode(make.model(graph))
    assert {"shape": (17,), "dtype": "Int32", "data_offset": 0} == constants(table)["large"]
    assert "data_offset" not in constants(table)["small"]
    assert 68 == encoder.section.nbytes
    encoder, table = encode(make.model(graph), inline=True)
    assert ("Int32Data", {"data": tensors[1].source()}) == constants(table)["large"]["data"]
    assert 0 == encoder.section.nbytes


@pytest.mark.parametrize(("ir_version", "kinds"), [(3, []), (4, ["default_input"]), (8, ["default_input"])])
def test_constants_are_no_inputs(make, ir_version, kinds):
    """An initialiser that is also an input becomes a constant; if it was a default value, this is a loss."""
    graph = make.graph([make.node("Add", ["x", "w"], ["y"])], ["x", "w"], ["y"], [make.tensor("w", [1.0])])
    encoder, table = encode(make.model(graph, ir_version=ir_version))
    assert (0,) == table["inputs"]
    assert kinds == [loss.kind for loss in encoder.losses.lines()]


def test_direct_outputs(make):
    """An output can be an input or a constant; an output that is listed twice is copied the second time."""
    graph = make.graph(inputs=["x"], outputs=["x", "w", "x"], constants=[make.tensor("w", [1.0])])
    _, table = encode(make.model(graph))
    assert [(0, "V", "x"), (1, "C", "w"), (2, "V", "x_1"), (3, "O", None)] == listed(table)
    assert (0, 1, 2) == table["outputs"]
    assert {"type": "Identity", "inputs": (0,), "outputs": (2,)} == operators(table)["Identity"]


def test_dims(make):
    """A known size is a number, a named size is a name, and every unknown dimension gets its own name."""
    x = make.value("x", 1, [2, "n", None, -1, "?", 0, 1 << 40])
    x.type.tensor_type.shape.dim[2].dim_value = None
    taken = make.value("w", 1, ["x_dim2"])
    graph = make.graph([make.node("Relu", ["x"], ["y"])], [x, taken], ["y"])
    _, table = encode(make.model(graph))
    wanted = [
        {"value": 2},
        {"name": "n"},
        *({"name": f"x_dim{n}"} for n in ("2_1", 3, 4)),
        {"value": 0},
        {"name": "x_dim6"},
    ]
    assert {"dtype": "Float", "shape": wanted} == values(table)["x"]


@pytest.mark.parametrize(
    ("elem_type", "wanted"),
    [(1, "Float"), (10, "Float"), (11, "Float"), (6, "Int32"), (7, "Int32"), (9, "Int32"), (3, "Int8"), (2, "UInt8"),
     (8, None), (None, None)],
)  # fmt: skip
def test_element_types(make, elem_type, wanted):
    """A value has the type that RTen uses for its elements, or none if the type is not known."""
    graph = make.graph([make.node("Identity", ["x"], ["y"])], [make.value("x", elem_type)], ["y"])
    _, table = encode(make.model(graph))
    assert wanted == values(table)["x"].get("dtype")


def test_types_of_computed_values(make):
    """Declared types of values are kept, but not inside subgraphs, where a name may mean different sizes."""
    inner = make.graph([make.node("Neg", ["x"], ["i"])], outputs=[make.value("i", 1, ["n"])])
    inner.value_info.append(make.value("i", 1, ["n"]))
    graph = make.graph(
        [make.node("Abs", ["x"], ["t"]), make.node("If", ["c"], ["y"], then_branch=inner, else_branch=inner)],
        ["x", make.value("c", 9)],
        [make.value("y", 1, [3]), "t"],
    )
    graph.value_info.append(make.value("t", 1, ["n"]))
    graph.output[1].type = None
    _, table = encode(make.model(graph))
    assert {"dtype": "Float", "shape": [{"value": 3}]} == values(table)["y"]
    assert {} == values(operators(table)["If"]["attrs"][1]["then_branch"])["i"]


def test_shapes_of_huge_graphs_are_left_out(make, monkeypatch):
    """A graph with too many shapes for the limit of tables keeps only those of its inputs, and the report says so."""
    monkeypatch.setattr("formats.rten.graph.encoder.MAX_SHAPE_TABLES", 5)
    graph = make.graph([make.node("Abs", ["x"], ["y"])], [make.value("x", 1, [3])], [make.value("y", 1, [3])])
    encoder, table = encode(make.model(graph))
    assert {"x": {"dtype": "Float", "shape": [{"value": 3}]}, "y": {"dtype": "Float"}} == values(table)
    assert [("shape", "graph.value_info", False)] == [
        (loss.kind, loss.where, loss.matters) for loss in encoder.losses.lines()
    ]


@pytest.mark.parametrize(
    ("used_by", "values_", "kinds"),
    [
        ("Slice", [5, 1 << 40], []),
        ("Slice", [5, INT64.max], []),
        ("Gather", [5, INT64.max], []),
        ("Gather", [5, 1 << 40], ["clamped"]),
    ],
)
def test_large_integers(make, used_by, values_, kinds):
    """An integer that does not fit is a loss, except if it is the end of a slice or means "no limit"."""
    inputs = ["x", "i", "i"] if used_by == "Slice" else ["x", "i"]
    graph = make.graph([make.node(used_by, inputs, ["y"])], ["x"], ["y"], [make.tensor("i", values_, "int64")])
    encoder, _ = encode(make.model(graph))
    assert kinds == [loss.kind for loss in encoder.losses.lines()]


def test_losses_are_grouped(make):
    """Many constants of one type are reported in one line, with their number and some names."""
    tensors = [make.tensor(f"w{n}", [1.0], "float16") for n in range(6)]
    graph = make.graph([make.node("Sum", [t.name for t in tensors], ["y"])], outputs=["y"], constants=tensors)
    encoder, _ = encode(make.model(graph))
    (loss,) = encoder.losses.lines()
    wanted = "FLOAT16 constants become FLOAT, exactly (w0, w1, w2, w3, w4, w5)"
    assert ("widened", "graph.initializer[0]", wanted, "documentation", False) == loss[:5]
    assert loss.summary == "FLOAT16 constants become FLOAT, exactly (w0, w1, w2 and 3 more)"


def test_interface_types(make):
    """Inputs and outputs of types that RTen lacks are a loss if another type has the same values, otherwise refused."""
    graph = make.graph(
        [],
        [make.value("a", 7), make.value("b", 7), make.value("c", 8), "d", make.sequence("e", 10)],
        [make.value("d", 1), make.value("f", 9)],
    )
    encoder = GraphEncoder(make.model(graph))
    encoder.check_interface(graph)
    assert [
        ("interface_type", "graph.input[0]", "INT64 inputs become INT32 (a, b)", "interface", False),
        ("interface_type", "graph.input[4]", "FLOAT16 inputs become FLOAT (e)", "interface", False),
        ("interface_type", "graph.output[1]", "BOOL outputs become INT32 (f)", "interface", False),
    ] == [loss[:5] for loss in encoder.losses.lines()]
    assert ["the input 'c' has element type STRING"] == [refusal.reason for refusal in encoder.refusals]


REFUSED = [
    (Node(op_type="Foo", domain="my", input=["x"], output=["y"]), "RTen does not support this operator"),
    (Node(op_type="Relu", domain="my", input=["x"], output=["y"]), "RTen does not support this operator"),
    (
        Node(op_type="ReduceLogSum", input=["x"], output=["y"]),
        f"RTen before {RTEN_0_26} does not support this operator",
    ),
    (Node(op_type="Relu", input=["x", "x"], output=["y"]), "it has 2 inputs, but RTen accepts only 1"),
    (Node(op_type="LayerNormalization", input=["x", "x"], output=["z", "y"]), "it uses output 1"),
    (Node(op_type="Concat", input=["x", "x"], output=["y"]), "the attribute axis is missing"),
]


@pytest.mark.parametrize(("node", "reason"), REFUSED, ids=lambda value: getattr(value, "op_type", ""))
def test_refusals(make, node, reason):
    """A node that RTen does not support is refused with the operator, its place and the reason."""
    outputs = [] if "such operator" in reason else ["y"]  # the node is refused, so its missing output is not reported
    encoder, _ = encode(make.model(make.graph([node], ["x"], outputs)))
    (refusal,) = encoder.refusals
    assert reason in refusal.reason
    assert (node.op_type, f'graph.node["{node.output[0]}"]') == (refusal.op_type, refusal.where)


def test_unused_outputs_are_left_out(make):
    """An output that RTen does not compute is allowed if nothing uses it."""
    graph = make.graph([make.node("LayerNormalization", ["x", "s"], ["y", "mean", "deviation"])], ["x", "s"], ["y"])
    encoder, table = encode(make.model(graph))
    assert [] == encoder.refusals
    assert 1 == len(operators(table)["LayerNormalization"]["outputs"])


@pytest.mark.parametrize(
    ("inputs", "outputs", "message"),
    [
        (["missing"], ["y"], "the value 'missing' is used, but nothing produces it"),
        (["x"], ["x"], "the value 'x' is produced twice"),
    ],
)
def test_broken_graphs(make, inputs, outputs, message):
    """A graph with contradictions is an error at once."""
    graph = make.graph([make.node("Relu", inputs, outputs)], ["x"], ["x"])
    with pytest.raises(EncodeError, match=message):
        encode(make.model(graph))


def test_inputs_have_names(make):
    """An input without a name is an error."""
    graph = make.graph([make.node("Relu", ["x"], ["y"])], ["x", ""], ["y"])
    with pytest.raises(EncodeError, match="an input has no name"):
        encode(make.model(graph))


def test_nodes_that_share_their_attributes_are_of_one_form(make):
    """Nodes with the same list of attributes and as many inputs and outputs have one form, with or without a name."""
    node = make.node("LeakyRelu", ["x0"], ["x1"], alpha=0.0)
    nodes = [node, make.node("LeakyRelu", ["x1"], ["x2"], alpha=-0.0)]
    nodes += [replace(node, input=["x2"], output=["x3"], name="n")]
    nodes.append(replace(node, input=["x3"], output=["x4"]))
    model = make.model(make.graph(nodes, ["x0"], ["x4"]))
    first, negative, named, third = GraphEncoder(model).encode(model.graph)["nodes"].forms[-4:]
    assert first is third
    assert 3 == len({id(first), id(negative), id(named)})


def test_each_node_of_a_form_is_refused(make):
    """If nodes share attributes that RTen does not support, each of them is listed."""
    bad = make.node("LeakyRelu", ["a"], ["b"], slope=0.5)
    encoder, _ = encode(make.model(make.graph([bad, replace(bad, input=["b"], output=["c"])], ["a"], ["c"])))
    assert ['graph.node["b"]', 'graph.node["c"]'] == [refusal.where for refusal in encoder.refusals]
