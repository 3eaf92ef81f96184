"""Node lists as graphs of the IR: names, constants, and errors."""

from __future__ import annotations

import numpy as np
import pytest

from formats.errors import DecodeError
from formats.flatbuffer.fbs import ConstantSpan
from formats.ir.attributes import get_int
from formats.rten.graph.decoder import GraphDecoder
from formats.tensordata.sources.source import Literal

ELEMENTS = np.arange(6, dtype="<f4")
SECTION = Literal(bytes(8) + ELEMENTS.tobytes())
TENSORS = Literal(bytes(64) + ELEMENTS.tobytes())


def value(name=None, **table):
    """Return a value node."""
    return {"name": name, "data": ("ValueNode", table)} if name else {"data": ("ValueNode", table)}


def constant(name=None, **table):
    """Return a constant node; its six floats are in the model section, except if `table` says otherwise."""
    table = {"shape": (2, 3)} | (table or {"data": ("FloatData", {"data": ConstantSpan(8, 24)})})
    return {"data": ("ConstantNode", table)} | ({"name": name} if name else {})


def operator(type_, inputs, outputs, attrs=None, name=None):
    """Return an operator node."""
    table = {"type": type_, "inputs": inputs, "outputs": outputs} | ({"attrs": attrs} if attrs else {})
    return {"data": ("OperatorNode", table)} | ({"name": name} if name else {})


def decode(nodes, tensors=TENSORS, **lists):
    """Return the graph of a table."""
    return GraphDecoder(SECTION, SECTION.read(), tensors).decode({"nodes": nodes} | lists)


def test_graph():
    """Nodes become operators of the domain "rten", values have their types, and constants their elements."""
    nodes = [
        value("x", dtype="Float", shape=[{"value": 2}, {"name": "n", "value": 0}]),
        constant("w"),
        constant("v", dtype="Float32", data_offset=64),
        value("h", dtype="Int8"),
        value("of nothing", dtype="Int8"),
        value("y"),
        operator("Sum", (0, 1, 2), (3,), name="add"),
        operator("Softmax", (3, -1), (5, -1), ("SoftmaxAttrs", {"axis": 1})),
    ]
    graph = decode(nodes, inputs=(0,), outputs=(5,))
    add, softmax = graph.node
    assert ("Sum", "rten", "add", ["x", "w", "v"], ["h"]) == (add.op_type, add.domain, add.name, add.input, add.output)
    assert (["h"], ["y"], 1) == (softmax.input, softmax.output, get_int(softmax, "axis"))
    (x,), (y,), (h,) = graph.input, graph.output, graph.value_info
    assert [(2, None), (None, "n")] == [(dim.dim_value, dim.dim_param) for dim in x.type.tensor_type.shape.dim]
    assert ("y", None, "h", 3) == (y.name, y.type, h.name, h.type.tensor_type.elem_type)
    assert ["w", "v"] == [tensor.name for tensor in graph.initializer]
    for tensor in graph.initializer:
        np.testing.assert_array_equal(ELEMENTS.reshape(2, 3), tensor.numpy())


def test_names():
    """A value without a name, or with a name that another value has, gets a new name."""
    nodes = [
        value(),
        value("a"),
        value("a"),
        constant(),
        value("value_0"),
        operator("Sum", (0, 1, 2, 3, 4), (5,)),
        value(),
    ]
    nodes[5], nodes[6] = nodes[6], operator("Sum", (0, 1, 2, 3, 4), (5,))
    graph = decode(nodes, inputs=(0, 1, 2, 4), outputs=(5,))
    names = [*graph.node[0].input, *graph.node[0].output]
    assert ["a", "a_1"] == names[1:3]
    assert 6 == len(set(names))


def test_operators_keep_their_names():
    """An operator without a name stays without one; an operator with the name of a value keeps it."""
    graph = decode([value("x"), operator("Abs", (0,), (), name="x"), operator("Abs", (0,), ())], inputs=(0,))
    assert ["x", None] == [node.name for node in graph.node]


def subgraph(name, *inner):
    """Return a branch that returns the value it captures."""
    return {"nodes": [value(name), *inner], "captures": (0,), "outputs": (0,)}


def test_captures():
    """A capture means the value of this name in the nearest outer graph that does not capture it itself."""
    branch = ("IfAttrs", {"then_branch": subgraph("x"), "else_branch": subgraph("c")})
    middle = subgraph("c", value("m"), operator("If", (0,), (1,), branch))
    outer = ("IfAttrs", {"then_branch": middle, "else_branch": subgraph("w")})
    nodes = [value("c"), value("x"), constant("w"), value("y"), operator("If", (0,), (3,), outer)]
    graph = decode(nodes, inputs=(0, 1), outputs=(3,))
    then, other = (attribute.g for attribute in graph.node[0].attribute)
    assert ("c", "w") == (then.output[0].name, other.output[0].name)
    assert ["x", "c"] == [attribute.g.output[0].name for attribute in then.node[0].attribute]


def test_captured_constants():
    """A constant among the captures is the outer constant of this name, or itself if there is none."""
    branches = [{"nodes": [constant(name)], "captures": (0,), "outputs": (0,)} for name in ("w", "own")]
    attrs = ("IfAttrs", dict(zip(("then_branch", "else_branch"), branches, strict=True)))
    graph = decode([value("c"), constant("w"), operator("If", (0,), (), attrs)], inputs=(0,))
    then, other = (attribute.g for attribute in graph.node[0].attribute)
    assert (["w"], [], ["own"]) == (
        [v.name for v in then.output],
        then.initializer,
        [t.name for t in other.initializer],
    )


def test_captured_nothing():
    """A capture without a name is an omitted input; one converter writes it so."""
    branch = {
        "nodes": [value(), value("x"), operator("Clip", (1, 0, 1), (3,)), value("t")],
        "captures": (0, 1),
        "outputs": (3,),
    }
    attrs = ("IfAttrs", {"then_branch": branch, "else_branch": branch})
    graph = decode([value("c"), value("x"), operator("If", (0,), (), attrs)], inputs=(0, 1))
    assert ["x", "", "x"] == graph.node[0].attribute[0].g.node[0].input


def test_captures_follow_renaming():
    """A capture of a name that two values share refers to the later one, even if it was renamed."""
    branch = ("IfAttrs", {"then_branch": subgraph("x"), "else_branch": subgraph("x")})
    nodes = [value("x"), value("x"), value("y"), operator("If", (0,), (2,), branch)]
    graph = decode(nodes, inputs=(0, 1), outputs=(2,))
    assert graph.input[1].name == graph.node[0].attribute[0].g.output[0].name != "x"


def test_local_names_do_not_hide_captures():
    """A local value with the name of a captured one is renamed."""
    branch = {
        "nodes": [value("x"), value("x"), operator("Abs", (0,), (1,))],
        "captures": (0,),
        "outputs": (1,),
    }
    nodes = [
        value("x"),
        value("y"),
        operator("If", (0,), (1,), ("IfAttrs", {"then_branch": branch, "else_branch": branch})),
    ]
    inner = decode(nodes, inputs=(0,), outputs=(1,)).node[0].attribute[0].g
    assert ["x"] == inner.node[0].input
    assert inner.node[0].output == [inner.output[0].name] != ["x"]


def test_constants_among_inputs_are_no_inputs():
    """A constant that is listed as an input keeps its value, as it does at run time."""
    graph = decode([value("x"), constant("w")], inputs=(0, 1), outputs=(1,))
    assert (["x"], ["w"]) == ([v.name for v in graph.input], [v.name for v in graph.output])


def test_of_two_producers_the_later_counts():
    """A value with two producers belongs to the later one, and a graph input to no producer."""
    nodes = [
        value("x"),
        value("y"),
        operator("Abs", (0,), (1,)),
        operator("Neg", (0,), (1,)),
        operator("Exp", (1,), (0,)),
    ]
    graph = decode(nodes, inputs=(0,), outputs=(1,))
    first, second, third = (node.output[0] for node in graph.node)
    assert "y" == second
    assert 4 == len({first, second, third, "x"})


def test_optional_tables():
    """An operator whose optional attribute table is missing has the defaults."""
    graph = decode([value("x"), operator("CumSum", (0, 0), ())], inputs=(0,))
    assert {"exclusive": 0, "reverse": 0} == {a.name: a.i for a in graph.node[0].attribute}


BROKEN = [
    ([value("x")], {"inputs": (1,)}, "graph.inputs lists node 1 of 1, which is not a value"),
    ([operator("Abs", (), ())], {"outputs": (0,)}, "graph.outputs lists node 0 of 1, which is not a value"),
    ([value("x")], {"outputs": (0, 0)}, "graph.outputs lists a value twice"),
    ([value("x")], {"captures": (0,)}, "is 'x', which no outer graph has"),
    ([value("x"), operator("Abs", (2,), ())], {}, "an operator has node 2 among its inputs, which is not a value"),
    ([value("x"), operator("Abs", (1,), ())], {}, "an operator has node 1 among its inputs, which is not a value"),
    ([value("x"), operator("Abs", (0,), (7,))], {}, "an operator has node 7 among its outputs, which is not a value"),
    ([value("x"), operator(200, (0,), ())], {}, "operator type 200 is unknown"),
    ([value("x"), operator("Softmax", (0,), ())], {}, "a Softmax operator needs a SoftmaxAttrs table"),
    ([value("x", dtype=9)], {"inputs": (0,)}, "a value has the unknown element type 9"),
    ([{"name": "n"}], {}, "a node is neither operator nor value nor constant"),
    ([constant("w", dtype="Float32", data_offset=65)], {}, "needs 24 bytes of tensor data, but only 23 are left"),
    ([constant("w", dtype="Float32", data_offset=1 << 63)], {}, "needs 24 bytes of tensor data, but only 0 are left"),
    ([constant("w", dtype=9, data_offset=0)], {}, "has no element type"),
    ([constant("w", data_offset=0)], {}, "has no element type"),
    ([constant("w", dtype="Float32")], {}, "the constant 'w' has no data"),
    ([constant("w", shape=(7,), data=("FloatData", {"data": ConstantSpan(8, 24)}))], {}, "has 24 bytes for the shape"),
    (
        [constant("w", shape=(1 << 32,) * 3, dtype="Int8", data_offset=0)],
        {},
        "bytes of tensor data, but only 88 are left",
    ),
]


@pytest.mark.parametrize(
    ("nodes", "lists", "message"), BROKEN, ids=lambda value: value if isinstance(value, str) else ""
)
def test_broken_tables(nodes, lists, message):
    """Tables that RTen's loader or planner would refuse, or worse, are errors with their place."""
    with pytest.raises(DecodeError, match=message):
        decode(nodes, **lists)


def test_near_misses():
    """Valid files that are similar to the refused ones are read: constants at the very end, one of them empty."""
    nodes = [
        constant("e", shape=(0, 4), dtype="Float32", data_offset=88),
        constant("w", dtype="Float32", data_offset=64),
    ]
    assert [0, 24] == [tensor.raw_data.nbytes for tensor in decode(nodes).initializer]


def test_version_1_files_have_no_tensor_section():
    """An external constant without a tensor section is an error."""
    with pytest.raises(DecodeError, match="version 1 files have none"):
        decode([constant("w", dtype="Float32", data_offset=0)], tensors=None)
