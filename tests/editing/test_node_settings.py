"""Nodes get other operators, domains and attributes; what their definition does not take is refused."""

from __future__ import annotations

import sys
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import formats
from tests import commands
from tests.editing.nested_models import results

FLOAT = TensorProto.FLOAT
X = np.array([[-2, 1, 3], [4, -5, 6]], "float32")


def saved(path: Path, nodes: list[Any], described: list[Any] | None = None, **more: Any) -> Path:
    """A file with a model from x to y, float[2,3]."""
    x, y = (helper.make_tensor_value_info(name, FLOAT, [2, 3]) for name in "xy")
    graph = helper.make_graph(nodes, "g", [x], [y], more.pop("weights", []), value_info=described)
    sets = [helper.make_opsetid("", 17), *more.pop("sets", [])]
    onnx.save(helper.make_model(graph, opset_imports=sets, ir_version=8, **more), path)
    return path


def edit(path: Path, *words: str) -> tuple[onnx.ModelProto, str]:
    """The model after an edit by the command, checked, and the answer."""
    new = path.with_name("new.onnx")
    done = commands.run("formats", "edit", path, new, "--force", *words)
    assert (0, "") == (done.exit_code, done.stderr)
    proto = onnx.load(new)
    onnx.checker.check_model(proto, full_check=True)
    return proto, done.stdout


def refused(path: Path, *words: str) -> str:
    """The error of an edit by the command, which leaves nothing behind."""
    done = commands.run("formats", "edit", path, path.with_name("other.onnx"), *words)
    assert 1 == done.exit_code
    assert not path.with_name("other.onnx").exists()
    return done.stderr


def elu(x: Any, alpha: float) -> Any:
    """Elu of ONNX."""
    return np.where(x < 0, alpha * (np.exp(x) - 1), x)


NODES = {
    "named": [helper.make_node("Elu", ["x"], ["a"], name="model.1/Elu=2"), helper.make_node("Identity", ["a"], ["y"])],
    "plain": [helper.make_node("Elu", ["x"], ["y"], alpha=2.0)],
}


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("named", "model.1/Elu=2.alpha=0.5"),
        ("named", "model*.alpha=0.5"),
        ("named", "Elu.alpha=0.5"),
        ("plain", "y.alpha=0.5"),
        ("plain", "Elu.alpha=0.5"),
    ],
)
def test_an_attribute_is_set(kind: str, words: str, tmp_path: Path) -> None:
    """A node is named as for --bypass, also with dots and equals signs; the model computes with the new value."""
    path = saved(tmp_path / "old.onnx", NODES[kind])
    proto, said = edit(path, "--set-attribute", words)
    np.testing.assert_allclose(results(proto, tmp_path, x=X)[0], elu(X, 0.5), rtol=1e-6)
    assert "differs: attributes of nodes are others" in said
    assert ": alpha is 0.5\n" in said
    library = formats.load(path).edit(set_attribute={words.removesuffix("=0.5"): 0.5})
    assert library == formats.load(tmp_path / "new.onnx")


def test_lists_texts_and_numbers_have_the_type_of_the_operator(tmp_path: Path) -> None:
    """The operator says whether an attribute is a number, a text or a list, however it is typed."""
    weight = numpy_helper.from_array(np.ones((1, 1, 3), "float32"), "w")
    nodes = [
        helper.make_node("Unsqueeze", ["x", "axis"], ["u"]),
        helper.make_node("Conv", ["u", "w"], ["c"], name="conv"),
        helper.make_node("Squeeze", ["c", "axis"], ["y"]),
    ]
    axis = numpy_helper.from_array(np.array([1]), "axis")
    x, y = helper.make_tensor_value_info("x", FLOAT, [2, 3]), helper.make_tensor_value_info("y", FLOAT, [2, "n"])
    graph = helper.make_graph(nodes, "g", [x], [y], [weight, axis])
    path = tmp_path / "old.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    proto, said = edit(path, "--set-attribute", "conv.pads=1,1", "--set-attribute", "conv.group=1")
    assert [1, 1] == list(proto.graph.node[1].attribute[0].ints)
    assert (2, 3) == results(proto, tmp_path, x=X)[0].shape
    proto, _ = edit(path, "--set-attribute", "conv.auto_pad=SAME_UPPER", "--set-attribute", "conv.strides=[1]")
    assert (2, 3) == results(proto, tmp_path, x=X)[0].shape
    model = formats.load(path)
    assert model.edit(set_attribute={"conv.pads": (1, 1)}) == model.edit(set_attribute={"conv.pads": [1, 1]})
    assert "the output y is float[2,3]; it was float[2,n]" in said


def test_a_type_follows_in_the_graph(tmp_path: Path) -> None:
    """Where an attribute says a type, the stated types of what follows are inferred again, and the answer says so."""
    nodes = [helper.make_node("Cast", ["x"], ["a"], to=FLOAT, name="cast"), helper.make_node("Abs", ["a"], ["y"])]
    path = saved(tmp_path / "old.onnx", nodes, [helper.make_tensor_value_info("a", FLOAT, [2, 3])])
    proto, said = edit(path, "--set-attribute", f"cast.to={TensorProto.INT32}")
    assert TensorProto.INT32 == proto.graph.value_info[0].type.tensor_type.elem_type
    assert "the output y is int32[2,3]; it was float[2,3]" in said
    np.testing.assert_array_equal(results(proto, tmp_path, x=X)[0], np.abs(X).astype("int32"))


def test_an_attribute_is_removed(tmp_path: Path) -> None:
    """Without a value, an attribute goes, and its default counts; a required one stays."""
    path = saved(tmp_path / "old.onnx", NODES["plain"])
    proto, _ = edit(path, "--set-attribute", "Elu.alpha=")
    np.testing.assert_allclose(results(proto, tmp_path, x=X)[0], elu(X, 1), rtol=1e-6)
    assert formats.load(path).edit(set_attribute={"Elu.alpha": None}) == formats.load(tmp_path / "new.onnx")
    path = saved(tmp_path / "cast.onnx", [helper.make_node("Cast", ["x"], ["y"], to=FLOAT)])
    assert "Cast of version 17 needs the attribute 'to'" in refused(path, "--set-attribute", "Cast.to=")
    assert "has no attribute 'saturate', so it cannot be removed" in refused(path, "--set-attribute", "Cast.saturate=")


def test_operator_and_attribute_change_together(tmp_path: Path) -> None:
    """An operator is set first, so its attributes can be set or removed in the same command."""
    path = saved(tmp_path / "old.onnx", NODES["named"])
    assert "Relu of version 17 has no attribute 'alpha'" not in refused(path, "--set-operator", "a=Gemm")
    proto, said = edit(path, "--set-operator", "a=LeakyRelu", "--set-attribute", "a.alpha=0.25")
    np.testing.assert_allclose(results(proto, tmp_path, x=X)[0], np.where(X < 0, X * 0.25, X))
    assert "the operator is LeakyRelu" in said
    changes: dict[str, Any] = {"set_operator": {"a": "LeakyRelu"}, "set_attribute": {"a.alpha": 0.25}}
    assert formats.load(path).edit(**changes) == formats.load(tmp_path / "new.onnx")


def test_a_domain_is_set_and_imported(tmp_path: Path) -> None:
    """A node gets another domain, which the model imports; back to ONNX's, the node is ONNX's again."""
    nodes = [helper.make_node("Gelu", ["x"], ["y"], domain="mine")]
    path = saved(tmp_path / "old.onnx", nodes, sets=[helper.make_opsetid("mine", 3)])
    proto, said = edit(path, "--set-domain", "Gelu=com.microsoft")
    assert {"": 17, "mine": 3, "com.microsoft": 1} == {entry.domain: entry.version for entry in proto.opset_import}
    assert (2, 3) == results(proto, tmp_path, x=X)[0].shape
    assert "Gelu y: the domain is com.microsoft; it was mine" in said
    assert "version 17 of ai.onnx does not have Gelu, which is new in version 20" in refused(
        path, "--set-domain", "Gelu=ai.onnx"
    )
    assert "the model imports no version of it" in refused(path, "--set-domain", "Gelu=ai.onnx.ml")
    proto, _ = edit(path, "--set-operator", "Gelu=Erf", "--set-domain", "Erf=ai.onnx")
    assert not proto.graph.node[0].domain
    assert (2, 3) == results(proto, tmp_path, x=X)[0].shape


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--set-attribute", "Elo.alpha=1"], "no node is called 'Elo'"),
        (["--set-attribute", "Elu.beta=1"], "Elu of version 17 has no attribute 'beta'"),
        (["--set-attribute", "Elu.alpha=much"], "alpha of Elu y must be FLOAT, and is 'much'"),
        (["--set-attribute", "Elu.alpha=1e300"], "alpha of Elu y must be FLOAT, and is '1e300'"),
        (["--set-operator", "y=Add"], "Add has 1 input, but needs 2 inputs"),
        (["--set-operator", "y=Elo"], "ai.onnx has no operator Elo"),
        (["--set-operator", "y=Relu"], "Relu of version 17 has no attribute 'alpha'"),
        (["--set-operator", "y=Flatten", "--set-attribute", "y.alpha=", "--set-attribute", "y.axis=7"], "does not fit"),
    ],
)
def test_what_the_definition_does_not_take_is_refused(words: list[str], message: str, tmp_path: Path) -> None:
    """Unknown nodes, attributes and operators, other numbers of inputs, and values of another type are errors."""
    assert message in refused(saved(tmp_path / "m.onnx", NODES["plain"]), *words)


@pytest.mark.parametrize("words", ["Elu", "Elu.alpha", "=1", ".alpha=1"])
def test_other_words_are_mistakes(words: str, digits: Path) -> None:
    """What is not NODE.ATTRIBUTE=VALUE is a mistake in the command line."""
    assert 2 == commands.run("formats", "edit", digits, "new.onnx", "--set-attribute", words).exit_code


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ("one", "alpha"),
        ([1.0], "alpha"),
        (np.ones(2), "alpha"),
        (1 << 70, "i"),
        (1.5, "i"),
        (np.float32(0.7), "i"),
        (Decimal("0.7"), "i"),
        (Fraction(3, 2), "i"),
        (float("nan"), "i"),
        ([1, np.float32(0.7)], "l"),
    ],
)
def test_values_of_the_library_are_checked(value: Any, name: str, tmp_path: Path) -> None:
    """A value of another kind, or that is too large for its attribute, is an error."""
    node = (
        helper.make_node("Elu", ["x"], ["y"])
        if name == "alpha"
        else helper.make_node("Mine", ["x"], ["y"], i=1, l=[1], domain="m")
    )
    path = saved(tmp_path / "m.onnx", [node], sets=[helper.make_opsetid("m", 1)])
    with pytest.raises(formats.EditError, match=f"{name} of .* must be"):
        formats.load(path).edit(set_attribute={f"y.{name}": value})


@pytest.mark.parametrize("value", [2, "2", 2.0, np.float32(2), np.int64(2), Decimal(2)])
def test_any_value_that_equals_an_integer_is_one(value: Any, tmp_path: Path) -> None:
    """An attribute of integers takes each value that equals one."""
    node = helper.make_node("Mine", ["x"], ["y"], i=1, domain="m")
    path = saved(tmp_path / "m.onnx", [node], sets=[helper.make_opsetid("m", 1)])
    (found,) = formats.load(path).edit(set_attribute={"y.i": value}).graph.node[0].attribute
    assert 2 == found.i and type(found.i) is int


def test_attributes_of_an_unknown_operator(tmp_path: Path) -> None:
    """Of an operator without a definition, the old value says the type, or else the text does."""
    node = helper.make_node("Mine", ["x"], ["y"], name="n", domain="m", f=1.0)
    path = saved(tmp_path / "m.onnx", [node], sets=[helper.make_opsetid("m", 1)])
    words = [word for text in ("n.f=3", "n.i=3", "n.l=[1,2]", "n.t=some text") for word in ("--set-attribute", text)]
    proto, _ = edit(path, *words)
    found = {attribute.name: helper.get_attribute_value(attribute) for attribute in proto.graph.node[0].attribute}
    assert {"f": 3.0, "i": 3, "l": [1, 2], "t": b"some text"} == found
    assert isinstance(found["f"], float)


def test_nodes_in_subgraphs_and_functions_are_set(tmp_path: Path) -> None:
    """A node of a subgraph or function is one, too, with the operator sets of its function."""
    body = helper.make_graph(
        [helper.make_node("Elu", ["x"], ["e"], name="inner")],
        "b",
        [],
        [helper.make_tensor_value_info("e", FLOAT, [2, 3])],
    )
    function = helper.make_function(
        "own", "F", ["p"], ["q"], [helper.make_node("Elu", ["p"], ["q"], name="deep")], [helper.make_opsetid("", 17)]
    )
    nodes = [
        helper.make_node("If", ["yes"], ["i"], then_branch=body, else_branch=body),
        helper.make_node("F", ["i"], ["y"], domain="own"),
    ]
    yes = numpy_helper.from_array(np.array(True), "yes")
    path = saved(tmp_path / "m.onnx", nodes, weights=[yes], functions=[function], sets=[helper.make_opsetid("own", 1)])
    proto, _ = edit(path, "--set-attribute", "inner,deep.alpha=0.5")
    np.testing.assert_allclose(results(proto, tmp_path, x=X)[0], elu(elu(X, 0.5), 0.5), rtol=1e-6)


def test_without_onnx_it_is_said_that_nothing_is_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the package onnx, the definition is checked, and the answer says that shapes are not."""
    path = saved(tmp_path / "m.onnx", NODES["plain"])
    monkeypatch.setitem(sys.modules, "onnx", None)
    report = formats.edit(path, tmp_path / "new.onnx", set_attribute={"Elu.alpha": 0.5})
    assert any("it is not checked whether the shapes" in loss.detail for loss in report.losses)
    with pytest.raises(formats.EditError, match="has no attribute 'beta'"):
        formats.load(path).edit(set_attribute={"Elu.beta": 0.5})


def test_the_graph_alone_is_written(tmp_path: Path) -> None:
    """Over itself, only the graph of a model with data files is written, also if they are missing."""
    weight = numpy_helper.from_array(np.ones((3, 3), "float32"), "w")
    nodes = [helper.make_node("Elu", ["x"], ["a"]), helper.make_node("MatMul", ["a", "w"], ["y"])]
    path = saved(tmp_path / "m.onnx", nodes, weights=[weight])
    onnx.save(onnx.load(path), path, save_as_external_data=True, location="w.bin", size_threshold=0)
    data = tmp_path / "w.bin"
    before = data.stat()
    done = commands.run("formats", "edit", path, path, "--force", "--set-attribute", "Elu.alpha=0.5")
    assert "stays as it is; only the graph was written" in done.stdout
    assert (before.st_mtime_ns, before.st_ino) == (data.stat().st_mtime_ns, data.stat().st_ino)
    data.unlink()
    done = commands.run("formats", "edit", path, path, "--force", "--no-data", "--set-operator", "Elu=Selu")
    assert (0, "") == (done.exit_code, done.stderr)
