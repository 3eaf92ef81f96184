"""`fold` computes what nodes compute from constants: onnxruntime computes the same, and has fewer nodes."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import formats
from formats.errors import EditError, UnsupportedError
from formats.onnxpb import evaluation
from tests.editing.test_tripping_models import INPUTS
from tests.editing.tripping_models import tripping
from tests.rten.random_graphs.whole import generate
from tests.systems import NIGHT, OF_THE_DAY

NODE = helper.make_node
FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
SEEDS = 8
MORE = 600 if NIGHT else 120


def value(name: str, kind: int = FLOAT, dims: Any = ("n", 4)) -> onnx.ValueInfoProto:
    """Return the description of a value."""
    return helper.make_tensor_value_info(name, kind, dims)


def model_of(nodes: list[Any], outputs: list[Any], arrays: dict[str, Any], **more: Any) -> onnx.ModelProto:
    """Return a model with the input x and these constants."""
    weights = [numpy_helper.from_array(np.asarray(array), name) for name, array in arrays.items()]
    inputs = [value("x"), *more.pop("inputs", [])]
    graph = helper.make_graph(nodes, "g", inputs, outputs, weights, value_info=more.pop("value_info", None))
    sets = [helper.make_opsetid("", more.pop("opset", 17)), helper.make_opsetid("own", 1)]
    return helper.make_model(graph, opset_imports=sets, **{"ir_version": 8, **more})


def run(proto: onnx.ModelProto, feeds: dict[str, Any]) -> list[Any]:
    """Return what onnxruntime computes without changes of the graph; kernels are the same for all constants."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.add_session_config_entry("session.disable_prepacking", "1")
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options)
    return list(session.run(None, feeds))


def is_accepted(proto: onnx.ModelProto) -> bool:
    """Return whether onnx's checker accepts the model."""
    try:
        onnx.checker.check_model(proto, full_check=True)
    except Exception:
        return False
    return True


def folded(proto: onnx.ModelProto, feeds: dict[str, Any] | None = None) -> onnx.ModelProto:
    """Return the folded model, which computes exactly the same, and has the same inputs and outputs."""
    new = formats.to_onnx(formats.from_onnx(proto).edit(fold=True))
    if is_accepted(proto):
        assert is_accepted(new)
    assert [each.name for each in new.graph.input] == [each.name for each in proto.graph.input]
    assert [each.name for each in new.graph.output] == [each.name for each in proto.graph.output]
    feeds = {"x": np.arange(8, dtype="float32").reshape(2, 4)} if feeds is None else feeds
    for before, after in zip(run(proto, feeds), run(new, feeds), strict=True):
        np.testing.assert_array_equal(before, after, strict=True)
    return new


def operators(proto: onnx.ModelProto) -> list[str]:
    """Return the operators of the main graph."""
    return [node.op_type for node in proto.graph.node]


def said(proto: onnx.ModelProto, folder: Path) -> str:
    """Return what the report says of the edits."""
    onnx.save(proto, folder / "m.onnx")
    report = formats.edit(folder / "m.onnx", folder / "new.onnx", fold=True, overwrite=True)
    return "\n".join(edit.detail for edit in report.edits)


def test_constants_are_computed(tmp_path: Path) -> None:
    """Nodes that take constants only go, and so do constants that only they used; the report counts nodes and bytes."""
    nodes = [NODE("Add", ["a", "b"], ["c"]), NODE("Neg", ["c"], ["d"]), NODE("Mul", ["x", "d"], ["y"])]
    proto = model_of(nodes, [value("y")], {"a": np.ones(4, "float32"), "b": np.ones(4, "float32")})
    new = folded(proto)
    assert operators(new) == ["Mul"]
    assert [weight.name for weight in new.graph.initializer] == ["d"]
    assert said(proto, tmp_path).splitlines() == [
        "2 nodes folded, 16 bytes of constants added",
        "2 initializers removed, which no output needs",
    ]


def test_fixed_shapes_fold() -> None:
    """A Shape of fixed dims, a fixed part of another shape, and what is made of them are constants; the rest stays."""
    nodes = [
        NODE("Shape", ["x"], ["s"]),
        NODE("Gather", ["s", "one"], ["four"], axis=0),
        NODE("Unsqueeze", ["four", "zero"], ["four1"]),
        NODE("Concat", ["minus", "four1"], ["shape"], axis=0),
        NODE("Reshape", ["x", "shape"], ["r"]),
        NODE("Gather", ["s", "first"], ["n"], axis=0),
        NODE("ConstantOfShape", ["shape2"], ["filled"]),
        NODE("Size", ["filled"], ["size"]),
        NODE("Identity", ["n"], ["m"]),
        NODE("Add", ["size", "four"], ["sum"]),
    ]
    arrays = {"one": 1, "zero": [0], "minus": [-1], "first": 0, "shape2": [2, 3]}
    new = folded(model_of(nodes, [value("r"), value("m", INT64, []), value("sum", INT64, [])], arrays))
    assert sorted(operators(new)) == ["Constant", "Gather", "Identity", "Reshape", "Shape"]


def test_shapes_that_are_known_in_part_go_on_behind_a_reshape() -> None:
    """In old operator sets, too, where onnx does not follow shapes, dims behind a Reshape are known."""
    nodes = [
        NODE("Shape", ["x"], ["s"]),
        NODE("Gather", ["s", "zero"], ["n"], axis=0),
        NODE("Unsqueeze", ["n"], ["n1"], axes=[0]),
        NODE("Concat", ["n1", "two", "two"], ["shape"], axis=0),
        NODE("Reshape", ["x", "shape"], ["r"]),
        NODE("Transpose", ["r"], ["t"], perm=[1, 0, 2]),
        NODE("Shape", ["t"], ["s2"]),
        NODE("Slice", ["s2", "two", "three"], ["last"]),
    ]
    arrays = {"zero": 0, "two": [2], "three": [3]}
    new = folded(model_of(nodes, [value("t", dims=None), value("last", INT64, [1])], arrays, opset=11))
    assert "Slice" not in operators(new)


def test_what_the_model_states_of_inner_values_is_not_believed() -> None:
    """A wrong shape of an inner value makes no wrong constant, and it does not stay beside a constant."""
    nodes = [
        NODE("Mul", ["x", "x"], ["a"]),
        NODE("Custom", ["a"], ["b"], domain="own"),
        NODE("Shape", ["b"], ["y"]),
        NODE("Add", ["c", "c"], ["d"]),
        NODE("Add", ["d", "x"], ["z"]),
    ]
    stated = [value("b", dims=[5, 5]), value("d", dims=[7])]
    proto = model_of(nodes, [value("y", INT64, [2]), value("z")], {"c": np.ones(4, "float32")}, value_info=stated)
    new = formats.to_onnx(formats.from_onnx(proto).edit(fold=True))
    assert operators(new) == ["Mul", "Custom", "Shape", "Add"]
    assert [each.name for each in new.graph.value_info] == ["b"]


def test_outputs_stay_outputs() -> None:
    """A constant that is an output is one of a node, as before, also one that others use."""
    nodes = [NODE("Add", ["a", "a"], ["y"]), NODE("Mul", ["x", "y"], ["z"])]
    new = folded(model_of(nodes, [value("y", dims=[4]), value("z")], {"a": np.ones(4, "float32")}))
    assert operators(new) == ["Constant", "Mul"]


def test_before_ir_version_4_constants_are_nodes() -> None:
    """Where each initializer must be an input, it is a constant, and new ones are nodes."""
    nodes = [NODE("Add", ["a", "a"], ["b"]), NODE("Mul", ["x", "b"], ["y"])]
    arrays = {"a": np.ones(4, "float32")}
    proto = model_of(nodes, [value("y")], arrays, ir_version=3, opset=8, inputs=[value("a", dims=[4])])
    assert operators(folded(proto)) == ["Constant", "Mul"]


def test_a_default_of_an_input_is_no_constant() -> None:
    """From IR version 4 on, a caller can replace it: neither it nor a shape that depends on it is folded."""
    nodes = [
        NODE("Add", ["a", "a"], ["b"]),
        NODE("Reshape", ["x", "b"], ["r"]),
        NODE("Shape", ["r"], ["y"]),
    ]
    proto = model_of(nodes, [value("y", INT64, [1])], {"a": [4]}, inputs=[value("a", INT64, [1])])
    assert operators(folded(proto)) == ["Add", "Reshape", "Shape"]


STAYING = {
    "1 RandomNormalLike (random)": [NODE("RandomNormalLike", ["a"], ["b"])],
    "1 Dropout (random)": [NODE("Dropout", ["a"], ["b"])],
    "1 QuantizeLinear (quantisation)": [
        NODE("QuantizeLinear", ["a", "f"], ["q"]),
        NODE("DequantizeLinear", ["q", "f"], ["b"]),
    ],
    "1 Custom (another domain)": [NODE("Custom", ["a"], ["b"], domain="own")],
    "1 Double (a function of the model)": [NODE("Double", ["a"], ["b"], domain="own")],
    "1 Expand (a larger result)": [NODE("Expand", ["a", "wide"], ["w"]), NODE("ReduceSum", ["w"], ["b"])],
    "1 ConstantOfShape (no kernel, or too little memory)": [
        NODE("ConstantOfShape", ["huge"], ["w"]),
        NODE("ReduceSum", ["w"], ["b"]),
    ],
    "1 Identity (a copy of a weight)": [NODE("Identity", ["large"], ["i"]), NODE("Loop", ["", "", "i"], ["b"])],
    "1 StringNormalizer (no numbers)": [NODE("StringNormalizer", ["text"], ["n"]), NODE("Custom", ["n"], ["b"])],
    "1 Missing (no kernel, or too little memory)": [NODE("Missing", ["a"], ["b"])],
}


@pytest.mark.parametrize("reason", STAYING)
def test_what_stays_is_said(reason: str, tmp_path: Path) -> None:
    """What is random, quantised, unknown, or would be large stays, and what depends on it; the report says why."""
    double = helper.make_function("own", "Double", ["x"], ["y"], [NODE("Add", ["x", "x"], ["y"])], [], [])
    double.opset_import.append(helper.make_opsetid("", 17))
    arrays = {"a": np.ones(4, "float32"), "f": np.array(1, "float32"), "wide": [1 << 15, 4], "huge": [1 << 31]}
    nodes = [*STAYING[reason], NODE("Add", ["x", "b"], ["y"])]
    proto = model_of(nodes, [value("y")], arrays | {"large": np.ones(1 << 15, "float32")}, functions=[double])
    proto.graph.initializer.append(helper.make_tensor("text", TensorProto.STRING, [1], [b"a"]))
    text = said(proto, tmp_path)
    assert f"not folded, though the inputs are constants: {reason}" in text
    assert operators(onnx.load(tmp_path / "new.onnx")) == [node.op_type for node in nodes]


def test_a_result_may_be_as_large_as_what_it_is_made_of() -> None:
    """A transposed weight takes the place of the weight, also one that does not stay in memory."""
    weight = np.random.default_rng(0).random((4, 50_000), "float32")
    nodes = [NODE("Transpose", ["w"], ["t"]), NODE("Transpose", ["t"], ["u"]), NODE("MatMul", ["x", "u"], ["y"])]
    assert operators(folded(model_of(nodes, [value("y", dims=None)], {"w": weight}))) == ["MatMul"]


def test_small_copies_go() -> None:
    """An Identity of a small constant is folded."""
    nodes = [NODE("Identity", ["a"], ["b"]), NODE("Mul", ["x", "b"], ["y"])]
    assert operators(folded(model_of(nodes, [value("y")], {"a": np.ones(4, "float32")}))) == ["Mul"]


def branch(name: str, nodes: list[Any], output: str, weights: list[Any] | None = None) -> onnx.GraphProto:
    """Return a branch of an If."""
    return helper.make_graph(nodes, name, [], [value(output, dims=None)], weights or [])


def test_a_branch_that_is_taken_always_takes_the_place_of_the_if(tmp_path: Path) -> None:
    """Its names are kept apart from others, also those of inner graphs, and its weights go along."""
    weight = numpy_helper.from_array(np.array([3], "float32"), "w")
    inner = NODE(
        "If",
        ["c"],
        ["t"],
        then_branch=branch("a", [NODE("Add", ["h", "w"], ["z"])], "z"),
        else_branch=branch("b", [NODE("Sub", ["h", "w"], ["z"])], "z"),
    )
    taken = branch("taken", [NODE("Mul", ["x", "w"], ["h"]), inner], "t", [weight])
    other = branch("other", [NODE("Neg", ["x"], ["h"])], "h")
    nodes = [
        NODE("Greater", ["two", "one"], ["known"]),
        NODE("If", ["known"], ["p"], then_branch=taken, else_branch=other),
        NODE("Not", ["known"], ["unknown"]),
        NODE("If", ["unknown"], ["q"], then_branch=taken, else_branch=other),
        NODE("Add", ["p", "q"], ["y"]),
    ]
    proto = model_of(nodes, [value("y")], {"one": 1.0, "two": 2.0}, inputs=[value("c", BOOL, [])])
    for condition in (True, False):
        new = folded(proto, {"x": np.ones((2, 4), "float32"), "c": np.array(condition)})
    assert operators(new) == ["Mul", "If", "Neg", "Add"]
    assert "2 Ifs replaced by the branch that it takes" in said(proto, tmp_path)


def test_subgraphs_are_folded() -> None:
    """What a graph in a node computes from constants of its own and from those around it is a constant in it."""
    weight = numpy_helper.from_array(np.array([3], "float32"), "v")
    nodes = [NODE("Add", ["v", "w"], ["s"]), NODE("Exp", ["s"], ["e"]), NODE("Mul", ["x", "e"], ["r"])]
    taken = branch("taken", nodes, "r", [weight])
    other = branch("other", [NODE("Neg", ["w"], ["o"])], "o")
    proto = model_of(
        [NODE("If", ["c"], ["y"], then_branch=taken, else_branch=other)],
        [value("y", dims=None)],
        {"w": np.ones(1, "float32")},
        inputs=[value("c", BOOL, [])],
    )
    for condition in (True, False):
        new = folded(proto, {"x": np.ones((2, 4), "float32"), "c": np.array(condition)})
    inner = {attribute.name: [node.op_type for node in attribute.g.node] for attribute in new.graph.node[0].attribute}
    assert inner == {"then_branch": ["Mul"], "else_branch": ["Constant"]}


def test_a_name_that_an_inner_graph_has_stays(tmp_path: Path) -> None:
    """A constant would be there for the graph in the node ahead, which gives its name to a value of its own."""
    bodies = {f"{name}_branch": branch(name, [NODE("Neg", ["x"], ["t"])], "t") for name in ("then", "else")}
    nodes = [NODE("If", ["c"], ["p"], **bodies), NODE("Add", ["a", "a"], ["t"]), NODE("Mul", ["p", "t"], ["y"])]
    proto = model_of(nodes, [value("y")], {"a": np.ones(4, "float32")}, inputs=[value("c", BOOL, [])])
    new = folded(proto, {"x": np.ones((2, 4), "float32"), "c": np.array(True)})
    assert operators(new) == ["If", "Add", "Mul"]
    assert "1 Add (a name that another graph has, too)" in said(proto, tmp_path)


def test_constants_that_contradict_a_node_are_refused() -> None:
    """A branch that only other sizes take may be wrong for these: a runtime would refuse the folded model."""
    wrong = [
        NODE("ReduceMax", ["s"], ["k"], axes=[0], keepdims=0),
        NODE("Reshape", ["x", "k"], ["r"]),
        NODE("Concat", ["x", "r"], ["e"], axis=0),
    ]
    bodies = {"then_branch": branch("a", [NODE("Neg", ["x"], ["t"])], "t"), "else_branch": branch("b", wrong, "e")}
    nodes = [NODE("If", ["c"], ["y"], **bodies)]
    proto = model_of(nodes, [value("y", dims=None)], {"s": [[4, 2]]}, inputs=[value("c", BOOL, [])])
    with pytest.raises(EditError, match=r"the model does not fit its constants: .*Concat"):
        formats.from_onnx(proto).edit(fold=True)


def test_weights_that_training_changes_are_no_constants() -> None:
    """What training replaces or uses is left as it is."""
    nodes = [NODE("Add", ["a", "a"], ["b"]), NODE("Add", ["c", "c"], ["d"]), NODE("Sum", ["x", "b", "d"], ["y"])]
    proto = model_of(nodes, [value("y")], {"a": np.ones(4, "float32"), "c": np.ones(4, "float32")})
    info = proto.training_info.add()
    info.algorithm.CopyFrom(helper.make_graph([NODE("Neg", ["a"], ["new"])], "t", [], [value("new", dims=[4])]))
    info.update_binding.add(key="a", value="new")
    new = formats.to_onnx(formats.from_onnx(proto).edit(fold=True))
    assert operators(new) == ["Add", "Sum"]
    assert {weight.name for weight in new.graph.initializer} == {"a", "d"}


def test_other_weights_are_not_read(tmp_path: Path) -> None:
    """A weight that no folded node takes is not read, so its data need not be there; a constant is in the graph."""
    nodes = [NODE("Add", ["a", "a"], ["b"]), NODE("Mul", ["x", "b"], ["m"]), NODE("MatMul", ["m", "w"], ["y"])]
    arrays = {"a": np.ones(4, "float32"), "w": np.ones((4, 5000), "float32")}
    onnx.save(model_of(nodes, [value("y", dims=None)], arrays), tmp_path / "m.onnx")
    formats.convert(tmp_path / "m.onnx", tmp_path / "data.onnx", external_data=True)
    before = (tmp_path / "data.onnx.data").stat()
    (tmp_path / "data.onnx.data").rename(tmp_path / "away")
    formats.edit(tmp_path / "data.onnx", tmp_path / "new.onnx", fold=True, no_data=True)
    (tmp_path / "away").rename(tmp_path / "data.onnx.data")
    report = formats.edit(tmp_path / "data.onnx", tmp_path / "data.onnx", fold=True, overwrite=True)
    new = onnx.load(tmp_path / "data.onnx", load_external_data=False)
    assert [weight.data_location for weight in new.graph.initializer if weight.name == "b"] == [0]
    after = (tmp_path / "data.onnx.data").stat()
    assert (before.st_mtime_ns, before.st_ino) == (after.st_mtime_ns, after.st_ino), str(report)


def test_a_large_constant_goes_where_the_weight_was(tmp_path: Path) -> None:
    """A constant that is made of a weight in a data file is for a data file, too, unless it is small."""
    nodes = [NODE("Transpose", ["w"], ["t"]), NODE("MatMul", ["x", "t"], ["m"]), NODE("Transpose", ["v"], ["u"])]
    nodes.append(NODE("MatMul", ["m", "u"], ["y"]))
    arrays = {"w": np.arange(20_000, dtype="float32").reshape(5000, 4), "v": np.eye(2, 5000, dtype="float32")}
    onnx.save(model_of(nodes, [value("y", dims=None)], arrays), tmp_path / "m.onnx")
    formats.convert(tmp_path / "m.onnx", tmp_path / "data.onnx", external_data=True)
    formats.edit(tmp_path / "data.onnx", tmp_path / "data.onnx", fold=True, overwrite=True)
    new = onnx.load(tmp_path / "data.onnx", load_external_data=False)
    assert {weight.name: weight.data_location for weight in new.graph.initializer} == {"t": 1, "u": 0}
    made = {
        weight.name: numpy_helper.to_array(weight) for weight in onnx.load(tmp_path / "data.onnx").graph.initializer
    }
    np.testing.assert_array_equal(made["t"], arrays["w"].T)
    np.testing.assert_array_equal(made["u"], arrays["v"].T)


def test_an_archive_is_folded_in_place(tmp_path: Path) -> None:
    """Without a destination, an archive gets the constants, and its weights stay where they are."""
    nodes = [NODE("Transpose", ["w"], ["t"]), NODE("MatMul", ["x", "t"], ["y"])]
    onnx.save(model_of(nodes, [value("y", dims=None)], {"w": np.ones((5000, 4), "float32")}), tmp_path / "m.onnx")
    formats.convert(tmp_path / "m.onnx", tmp_path / "m.onnxz")
    formats.edit(tmp_path / "m.onnxz", fold=True)
    formats.convert(tmp_path / "m.onnxz", tmp_path / "new.onnx")
    assert operators(onnx.load(tmp_path / "new.onnx")) == ["MatMul"]


def test_nothing_to_fold_is_said(tmp_path: Path) -> None:
    """A model without constants to compute stays as it is."""
    assert said(model_of([NODE("Neg", ["x"], ["y"])], [value("y")], {}), tmp_path) == "there was nothing to fold"


# Limits

ENDING = """
class SessionOptions:
    def add_session_config_entry(self, *_): pass
class GraphOptimizationLevel: ORT_DISABLE_ALL = 0
def InferenceSession(*_, **__):
    {}
"""


@pytest.fixture
def with_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function that puts a module in place of onnxruntime, in a new process."""

    def put(text: str) -> None:
        (tmp_path / "modules").mkdir()
        (tmp_path / "modules" / "onnxruntime.py").write_text(text)
        monkeypatch.syspath_prepend(tmp_path / "modules")
        monkeypatch.setattr(evaluation, "_PROCESS", evaluation.new_process())

    return put


@pytest.mark.parametrize("end", ["import os; os.abort()", pytest.param("while True: pass", marks=pytest.mark.outer)])
def test_a_crash_and_a_hang_are_errors_in_one_line(end: str, with_module: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the kernel of a node ends its process or takes too long, the error names the node."""
    monkeypatch.setattr(evaluation, "FOLDING", evaluation.FOLDING._replace(seconds=1))
    with_module(ENDING.format(end))
    nodes = [NODE("Add", ["a", "a"], ["b"], name="first"), NODE("Mul", ["x", "b"], ["y"])]
    model = formats.from_onnx(model_of(nodes, [value("y")], {"a": np.ones(4, "float32")}))
    with pytest.raises(UnsupportedError, match=r"computes constants ended.*for the node Add first; leave out `fold`"):
        model.edit(fold=True)


def test_without_onnxruntime(with_module: Any) -> None:
    """Without onnxruntime, onnx's reference evaluator computes."""
    with_module("raise ImportError")
    nodes = [NODE("Add", ["a", "a"], ["b"]), NODE("Cast", ["b"], ["c"], to=FLOAT), NODE("Mul", ["x", "c"], ["y"])]
    assert operators(folded(model_of(nodes, [value("y")], {"a": np.ones(4)}))) == ["Mul"]


def test_all_results_together_are_bounded() -> None:
    """Many results that are each a little larger than what they are made of do not fill the memory."""
    nodes = [NODE("Expand", ["a", f"s{index}"], [f"b{index}"]) for index in range(3000)]
    nodes.append(NODE("Sum", ["x", *(node.output[0] for node in nodes)], ["y"]))
    proto = model_of(nodes, [value("y", dims=None)], {"a": np.ones(1, "float32"), "s": [16_000]})
    for node in proto.graph.node[:-1]:
        node.input[1] = "s"
    new = formats.from_onnx(proto).edit(fold=True)
    assert sum(tensor.source().nbytes for _, tensor in new.tensors()) < 80 << 20


# Random models


def with_constants(proto: onnx.ModelProto, feeds: dict[str, Any], names: set[str]) -> dict[str, Any]:
    """Make inputs constants with these names; return the other inputs."""
    kept = [each for each in proto.graph.input if each.name not in names]
    del proto.graph.input[:]
    proto.graph.input.extend(kept)
    there = {weight.name for weight in proto.graph.initializer}
    proto.graph.initializer.extend(
        numpy_helper.from_array(np.asarray(feeds[name]), name) for name in sorted(names - there)
    )
    return {name: array for name, array in feeds.items() if name not in names}


def check_of_seed(seed: int) -> int:
    """Check the model of a seed in which some inputs are constants, and return how many nodes went."""
    made = generate(seed)
    if made is None:
        return 0
    rng = random.Random(seed)
    names = {name for name, array in made.feeds.items() if rng.random() < 0.9 and not isinstance(array, list)}
    feeds = with_constants(made.model, made.feeds, names)
    try:
        run(made.model, feeds)
    except Exception:  # a kernel that wants no constant
        return 0
    return len(made.model.graph.node) - len(folded(made.model, feeds).graph.node)


@pytest.mark.sample(3)
@pytest.mark.parametrize("seed", range(SEEDS))
def test_random_graphs(seed: int) -> None:
    """Graphs of all operators compute exactly the same when they are folded."""
    check_of_seed(seed)


@pytest.mark.outer
def test_many_random_graphs() -> None:
    """So do many graphs, and nodes go; not of the seeds of the day, since some graphs end onnxruntime."""
    gone = [check_of_seed(seed) for seed in range(SEEDS, MORE)]
    assert sum(gone) > MORE // 4


def check_branches(seed: int) -> int:
    """Check the model of a seed in which one or both conditions are constants; return how many Ifs went."""
    count = 0
    for names in ({"c1"}, {"c2"}, {"c1", "c2"}):
        for inputs in INPUTS:
            proto = tripping(seed)
            feeds = with_constants(proto, inputs, names)
            count += Counter(operators(proto))["If"] - Counter(operators(folded(proto, feeds)))["If"]
    return count


@pytest.mark.parametrize("seed", range(3))
def test_branches_of_tripping_models(seed: int) -> None:
    """Names that several branches use, and captures through levels, make no difference when branches are inlined."""
    check_branches(seed)


@pytest.mark.outer
def test_branches_of_many_tripping_models() -> None:
    """So it is for models with seeds that nobody chose."""
    assert sum(check_branches(seed) for seed in range(OF_THE_DAY, OF_THE_DAY + MORE // 12)) > 0
