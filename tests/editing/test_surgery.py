"""Nodes are made, inserted, taken out and ordered; the model that was given does not change."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import formats
from formats.editing.nodes import make_attribute, make_node, make_value_info
from formats.editing.surgery import sort_in
from tests.editing.nested_models import X, nested, results, small

MOST_LINES = 26  # of the ten changes with onnx-ir


def test_ten_changes_are_short() -> None:
    """The ten changes in the documents take no more lines than with onnx-ir."""
    text = (Path(__file__).parents[2] / "docs" / "editing.md").read_text(encoding="utf-8")
    (block,) = [block for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if "ArgMax" in block]
    lines = [line for line in block.splitlines() if line]
    assert len(lines) <= MOST_LINES
    assert sum(" # " in line for line in lines) == 10


@pytest.mark.parametrize("after", ["x", "y", "chosen", "w"])
@pytest.mark.parametrize("given", [False, True])
def test_a_node_behind_a_value(after: str, given: bool, tmp_path: Path) -> None:
    """What used the value, uses the node's output, also in subgraphs; inputs and outputs keep their names."""
    proto = nested()
    if after == "w":
        del proto.graph.output[1]
    model = formats.from_onnx(proto)
    node = make_node("Neg", [after], ["new"]) if given else "Neg"
    new = model.insert(node, after=after)
    assert model == formats.from_onnx(proto)
    flags = {"first": np.array(True), "second": np.array(True)}
    x = np.array([1, 2], "float32")
    sign = {"x": (-x + 5) * 2, "y": -(x + 5) * 2, "chosen": -(x + 5) * 2, "w": (x - 5) * 2}
    found = formats.to_onnx(new)
    onnx.checker.check_model(found, full_check=True)
    np.testing.assert_array_equal(results(found, tmp_path, x=x, **flags)[0], sign[after])


@pytest.mark.parametrize(
    "node,after,message",
    [
        ("Neg", "z", "no value is called 'z'"),
        (make_node("Neg", ["x"], ["new"]), "y", "the node Neg must use y and have an output"),
        (make_node("Neg", ["y"], ["x"]), "y", "has the output x, the name of another value"),
        ("Neg", "w", "w is both an input and an output"),
    ],
)
def test_nodes_that_cannot_be_inserted(node: Any, after: str, message: str) -> None:
    """An unknown value, or a node that does not use it, is an error."""
    with pytest.raises(formats.EditError, match=message):
        formats.from_onnx(nested()).insert(node, after=after)


def test_nodes_are_taken_out(tmp_path: Path) -> None:
    """Identities go, in subgraphs, too, except for one between an input and an output; names of outputs stay."""
    model = formats.from_onnx(nested())
    for name in ("x", "chosen", "y", "first"):
        model = model.insert("Identity", after=name)
    new = model.bypass("Identity")
    assert sum(node.op_type == "Identity" for node in model.graph.node) == 4
    assert [node.op_type for node in new.graph.node] == ["If", "Twice"]
    assert [value.name for value in new.graph.output] == ["y", "w"]
    found = formats.to_onnx(new)
    onnx.checker.check_model(found, full_check=True)
    flags = {"first": np.array(True), "second": np.array(True)}
    assert results(found, tmp_path, x=np.ones(1, "float32"), **flags)[0].tolist() == [12]
    through = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", 1, [1])],
        [helper.make_tensor_value_info("y", 1, [1])],
    )
    assert len(formats.from_onnx(helper.make_model(through)).bypass("Identity").graph.node) == 1
    with pytest.raises(formats.EditError, match="Add n has 2 inputs"):
        formats.from_onnx(small()).bypass(lambda node: node.name == "n")


def test_nodes_are_ordered() -> None:
    """Each node comes after those that it needs, also for a subgraph; others keep their order."""
    model = formats.from_onnx(nested())
    model.graph.node.reverse()
    model.graph.node[1].attribute[0].g.node.reverse()
    assert formats.to_onnx(model.sort()) == nested()
    for name in ("a", "b"):
        model.graph.node.append(make_node("Add", ["x", "a" if name == "b" else "b"], [name]))
    with pytest.raises(formats.EditError, match="nodes need each other in a circle, such as Add a"):
        sort_in(model)


def test_values() -> None:
    """A value has the node that makes it, and those that use it, also in their subgraphs."""
    found = formats.from_onnx(nested()).values()
    assert (found["x"].producer, [node.op_type for node in found["x"].users]) == (None, ["If"])
    assert [node.op_type for node in found["w"].users] == ["If"]
    assert found["chosen"].producer is not None and found["chosen"].producer.op_type == "If"
    assert found["y"].users == ()


@pytest.mark.parametrize(
    "value",
    [
        3,
        0.5,
        "text",
        b"bytes",
        True,
        [1, 2],
        [1.5, 2.0],
        ["a", "b"],
        (1, 2),
        np.arange(3, dtype="float32"),
        np.float32(0.5),
        np.int64(7),
        [1, 2.5],
        range(3),
    ],
)
def test_attributes_are_those_of_onnx(value: Any) -> None:
    """An attribute of a Python value is that which onnx makes."""
    expected = value.tolist() if isinstance(value, np.generic) else [*value] if isinstance(value, range) else value
    if isinstance(value, np.ndarray):
        expected = onnx.numpy_helper.from_array(value)
    mine = formats.to_onnx(formats.Model(graph=formats.Graph(node=[make_node("F", [], [], a=value, b=None)])))
    assert mine.graph.node[0] == helper.make_node("F", [], [], a=expected)


def test_attributes_that_cannot_be() -> None:
    """A list of nothing or of different kinds, or another object, is an error."""
    for value in ([], ["a", 1], {}, object(), [1, "a"]):
        with pytest.raises(formats.EditError, match="the attribute a"):
            make_attribute("a", value)
    graph = make_attribute("g", formats.Graph(name="g"))
    assert graph.g is not None and graph.type == 5


@pytest.mark.parametrize(
    "kind,dims",
    [("float32", [1, "n", None]), ("FLOAT", []), (1, None), (np.float32, [2]), (np.dtype("float32"), ["a"])],
)
def test_value_infos_are_those_of_onnx(kind: Any, dims: Any) -> None:
    """A value info is that which onnx makes."""
    mine = formats.to_onnx(formats.Model(graph=formats.Graph(input=[make_value_info("x", kind, dims)])))
    assert mine.graph.input[0] == helper.make_tensor_value_info("x", 1, dims)


@pytest.mark.parametrize("kind", ["float33", None, 3.5, object()])
def test_types_that_nobody_knows_are_refused(kind: Any) -> None:
    """What is no type of ONNX or numpy is refused, also `None`, which numpy takes for float64."""
    with pytest.raises(formats.EditError, match="ONNX has no element type"):
        make_value_info("x", kind)


def test_shapes_are_inferred() -> None:
    """Types of inner values are those of onnx, and what the model states stays."""
    proto = small()
    proto.graph.node.append(helper.make_node("Neg", ["y"], ["z"]))
    proto.graph.output[0].name = "z"
    found = formats.from_onnx(proto).infer_shapes()
    theirs = onnx.shape_inference.infer_shapes(proto)
    assert formats.to_onnx(found).graph.value_info == theirs.graph.value_info
    proto.graph.node[0].input[1] = "x"
    proto.graph.input[0].type.tensor_type.elem_type = 7
    with pytest.raises(formats.EditError):
        formats.from_onnx(proto).infer_shapes()


def test_methods_have_the_words_of_the_options(tmp_path: Path) -> None:
    """The methods of a model do what the functions do with files."""
    model = formats.from_onnx(small())
    formats.save(model, tmp_path / "m.onnx")
    edits: dict[str, Any] = {"rename": {"x": "a"}, "dim": {"batch": 2}, "metadata": {"k": "v"}, "weights": {"w": X[0]}}
    formats.edit(tmp_path / "m.onnx", tmp_path / "e.onnx", **edits)
    assert formats.load(tmp_path / "e.onnx") == model.edit(**edits)
    formats.merge(tmp_path / "m.onnx", tmp_path / "m.onnx", tmp_path / "b.onnx", connect={"y": "x"}, prefix="b/")
    both = model.merge(model, connect={"y": ["x"]}, prefix="b/")
    assert formats.load(tmp_path / "b.onnx").graph.node == both.graph.node
    formats.extract(tmp_path / "b.onnx", tmp_path / "p.onnx", outputs="y")
    assert both.extract(outputs=["y"]).graph.node == formats.load(tmp_path / "p.onnx").graph.node
    with pytest.raises(formats.OptionError):
        model.edit(rename={"x": 3})  # type: ignore[dict-item]


def unordered() -> onnx.ModelProto:
    """A model whose nodes, also those of a function and of branches, come before what they need."""
    nodes = [helper.make_node(op, [a], [b]) for op, a, b in (("Neg", "b", "y"), ("Neg", "a", "b"), ("Abs", "x", "a"))]
    function = helper.make_function("own", "F", ["x"], ["y"], nodes, [helper.make_opsetid("", 17)])
    x, y = (helper.make_tensor_value_info(name, 1, ["n"]) for name in "xy")
    branches = {
        f"{branch}_branch": helper.make_graph(
            [helper.make_node("Neg", ["q"], [branch]), helper.make_node("Abs", ["later"], ["q"])],
            branch,
            [],
            [helper.make_tensor_value_info(branch, 1, None)],
        )
        for branch in ("then", "else")
    }
    nodes = [
        helper.make_node("If", ["flag"], ["y"], **branches),
        helper.make_node("F", ["x"], ["later"], domain="own"),
    ]
    flag = helper.make_tensor_value_info("flag", onnx.TensorProto.BOOL, [])
    sets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    graph = helper.make_graph(nodes, "g", [x, flag], [y])
    return helper.make_model(graph, opset_imports=sets, functions=[function], ir_version=8)


@pytest.mark.parametrize(
    "verb",
    [
        lambda path, new: formats.edit(path, new, sort=True),
        lambda path, new: formats.edit(path, new, dim={"n": 2}),
        lambda path, new: formats.edit(path, new, rename={"x": "x1"}),
        lambda path, new: formats.extract(path, new, outputs=["y"]),
        lambda path, new: formats.merge(path, path, new),
        lambda path, new: formats.convert(path, new, opset=16),
        lambda path, new: formats.convert(path, new, dtype="float16"),
    ],
)
def test_every_edit_sorts(verb: Any, tmp_path: Path) -> None:
    """What an edit writes is in order, in functions and branches, too; the report says so; it computes the same."""
    onnx.save(unordered(), tmp_path / "m.onnx")
    assert {finding.code for finding in formats.verify(tmp_path / "m.onnx").errors} == {"V307"}
    report = verb(tmp_path / "m.onnx", tmp_path / "new.onnx")
    assert "sort" in {edit.kind for edit in report.edits}
    assert formats.verify(tmp_path / "new.onnx").ok
    new = onnx.load(tmp_path / "new.onnx")
    onnx.checker.check_model(new, full_check=True)
    kind = "float16" if "dtype" in {edit.kind for edit in report.edits} else "float32"
    given = {
        value.name: np.array(True) if value.type.tensor_type.elem_type == 9 else np.array([1, -2], kind)
        for value in new.graph.input
    }
    assert results(new, tmp_path, **given)[0].tolist() == [-1, -2]


def test_nodes_in_a_circle(tmp_path: Path) -> None:
    """Nodes that need each other stay as they are, unless the order was asked for: then they are an error."""
    proto = unordered()
    proto.graph.node[1].input[0] = "y"
    model = formats.from_onnx(proto)
    new = model.edit(metadata={"a": "b"})
    assert new.graph.node[0].op_type == "If"
    assert [node.op_type for node in new.functions[0].node] == ["Abs", "Neg", "Neg"]
    with pytest.raises(formats.EditError, match="nodes need each other in a circle, such as If y"):
        model.edit(sort=True)


@pytest.mark.parametrize(
    "wanted,operators,verdict",
    [
        ("n1", ["Neg", "Identity", "Abs"], "differs: nodes are bypassed"),
        ("n*", ["Identity", "Abs"], "differs: nodes are bypassed"),
        ("b", ["Neg", "Identity", "Abs"], "differs: nodes are bypassed"),
        ("Identity", ["Neg", "Relu", "Abs"], "computes the same"),
        ("y", ["Neg", "Relu", "Identity"], "differs: nodes are bypassed"),
    ],
)
def test_nodes_are_bypassed(wanted: str, operators: list[str], verdict: str, tmp_path: Path) -> None:
    """A node is named by its name, by its output or by its operator; the rest computes what a chain without it does."""
    chain = ["Neg", "Relu", "Identity", "Abs"]

    def model(chosen: list[str]) -> onnx.ModelProto:
        names = ["x", *"abc"[: len(chosen) - 1], "y"]
        nodes = [
            helper.make_node(op, [names[at]], [names[at + 1]], name=f"n{at}" if at < 2 else f"m{at}")
            for at, op in enumerate(chosen)
        ]
        ends = [helper.make_tensor_value_info(name, 1, [2]) for name in "xy"]
        graph = helper.make_graph(nodes, "g", ends[:1], ends[1:])
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)

    onnx.save(model(chain), tmp_path / "old.onnx")
    report = formats.edit(tmp_path / "old.onnx", tmp_path / "new.onnx", bypass=[wanted])
    new = onnx.load(tmp_path / "new.onnx")
    assert [node.op_type for node in new.graph.node] == operators
    assert report.verdict == verdict
    onnx.checker.check_model(new, full_check=True)
    x = np.array([1, -2], "float32")
    np.testing.assert_array_equal(results(new, tmp_path, x=x), results(model(operators), tmp_path, x=x))


def test_what_does_not_fit_without_a_node(tmp_path: Path) -> None:
    """Stated shapes that are wrong are inferred again; nodes that do not fit are an error, and so is a wrong name."""
    value = helper.make_tensor_value_info
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"], name="turn", perm=[1, 0]),
        helper.make_node("Neg", ["t"], ["y"]),
        helper.make_node("Cast", ["x"], ["whole"], to=onnx.TensorProto.INT64),
        helper.make_node("BitwiseNot", ["whole"], ["z"]),
    ]
    graph = helper.make_graph(nodes, "g", [value("x", 1, [2, 3])], [value("y", 1, [3, 2]), value("z", 7, [2, 3])])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8), tmp_path / "m.onnx")
    report = formats.edit(tmp_path / "m.onnx", tmp_path / "new.onnx", bypass="turn")
    assert "the stated shape of y was wrong, and is inferred again" in {loss.detail for loss in report.losses}
    onnx.checker.check_model(tmp_path / "new.onnx", full_check=True)
    for wanted, message in (("Cast", "the model does not fit without these nodes"), ("trun", "did you mean turn")):
        with pytest.raises(formats.EditError, match=message):
            formats.edit(tmp_path / "m.onnx", tmp_path / "other.onnx", bypass=wanted)
    onnx.save(
        helper.make_model(helper.make_graph(nodes[:1], "g", graph.input, [value("t", 1, [3, 2])])), tmp_path / "t.onnx"
    )
    report = formats.edit(tmp_path / "t.onnx", tmp_path / "u.onnx", bypass="turn")
    assert [edit.detail for edit in report.edits] == [
        "Transpose turn stays, since it is between an input and an output"
    ]
