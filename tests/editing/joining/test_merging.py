"""Two models as one compute what they compute one after the other; what meets is told apart, what cannot is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.compose
import pytest
from onnx import TensorProto, helper

import formats
from formats.editing.model_edits import merged
from tests.editing.nested_models import W, X, nested, results, small, value
from tests.editing.test_exported import middle, recorded, run

FLOAT = TensorProto.FLOAT


def merge(first: onnx.ModelProto, second: onnx.ModelProto, connect: Any = (), prefix: str = "") -> tuple[Any, Any]:
    """Return two models as one, and what was done."""
    before = formats.from_onnx(first), formats.from_onnx(second)
    new, done = merged(*before, connect, prefix)
    assert before == (formats.from_onnx(first), formats.from_onnx(second)), "what was given is not changed"
    found = formats.to_onnx(new)
    onnx.checker.check_model(found, full_check=True)
    return found, done


def names(values: Any) -> list[str]:
    """Return the names of values."""
    return [value.name for value in values]


def test_one_after_the_other(tmp_path: Path) -> None:
    """A connected output is no output any more; names that meet get a number, or all get the prefix."""
    found, done = merge(small(), small("Mul"), [("y", "x")])
    assert (names(found.graph.input), names(found.graph.output)) == (["x"], ["y_2"])
    assert names(found.graph.initializer) == ["w", "w_2"]
    assert names(found.graph.node) == ["n", "n_2"]
    assert results(found, tmp_path, x=X)[0].tolist() == ((X + W) * W).tolist()
    assert [edit.detail for edit in done.edits] == [
        "y is the input x of the second model",
        "the output y of the second model is now y_2",
    ]
    found, done = merge(small(), small("Mul"), [("y", "x")], "b/")
    assert names(found.graph.output) == ["b/y"]
    assert names(found.graph.initializer) == ["w", "b/w"]
    assert len(done.edits) == 1


def test_models_of_ones_own_are_not_copied() -> None:
    """Two models that nobody else uses become one without copies; the result is the same."""
    first, second, other, another = map(formats.from_onnx, (small(), small("Mul"), small(), small("Mul")))
    expected, done = merged(first, second, [("y", "x")])
    found, same = merged(other, another, [("y", "x")], own=True)
    assert (found, same) == (expected, done)
    assert found is other
    assert expected is not first


def test_side_by_side(tmp_path: Path) -> None:
    """Without a connection, the models stand side by side, and an input of the first can be that of both."""
    found, done = merge(small(), small("Mul"))
    assert (names(found.graph.input), names(found.graph.output)) == (["x", "x_2"], ["y", "y_2"])
    assert done.edits[0].detail == "nothing is connected: the models stand side by side"
    dims = [value.type.tensor_type.shape.dim[0].dim_param for value in found.graph.input]
    assert dims == ["batch", "batch_2"]
    found, _ = merge(small(), small("Mul"), [("x", "x")])
    assert (names(found.graph.input), names(found.graph.output)) == (["x"], ["y", "y_2"])
    assert [each.tolist() for each in results(found, tmp_path, x=X)] == [(X + W).tolist(), (X * W).tolist()]


def test_dims_of_connected_values_are_one() -> None:
    """A size on one side is that of the name on the other, everywhere; two names become that of the first model."""
    found, _ = merge(small(dims=("batch", 2)), small(dims=(4, 2)), [("y", "x")])
    assert "batch" not in str(found)
    found, _ = merge(small(dims=(4, 2)), small(dims=("m", 2)), [("y", "x")])
    assert '"m"' not in str(found)
    found, _ = merge(small(dims=("a", 2)), small(dims=("b", 2)), [("y", "x")])
    assert ('"a"' in str(found), '"b"' in str(found)) == (True, False)


@pytest.mark.parametrize(
    "second,connect,message",
    [
        (small(), [("z", "x")], "the first model has no output 'z'; the only output is y"),
        (small(), [("y", "z")], "the second model has no input 'z'; the only input is x"),
        (small(), [("y", "x"), ("x", "x")], "the input x is connected twice"),
        (small(dims=("n", 3)), [("y", "x")], "y=x: axis 1 of the output is 2, and of the input 3"),
        (small(dims=(2,)), [("y", "x")], "y=x: the output has 2 dims, the input 1"),
        (nested(), [("y", "first")], "y=first: the output is FLOAT, the input BOOL"),
    ],
)
def test_models_that_do_not_fit(second: onnx.ModelProto, connect: Any, message: str) -> None:
    """Unknown names, other types and other dims are errors with one line."""
    with pytest.raises(formats.EditError) as caught:
        merge(small(), second, connect)
    assert message in str(caught.value)


def test_operator_sets(tmp_path: Path) -> None:
    """The newer version counts, and nodes of the older model are converted; two versions of another set are refused."""
    for first, second in ((17, 11), (11, 17)):
        found, _ = merge(small(opset=first), small("Mul", opset=second), [("y", "x")])
        assert found.opset_import[0].version == 17
        np.testing.assert_array_equal(results(found, tmp_path, x=X)[0], (X + W) * W)
    older = small("Softmax", dims=(2, 1, 2), opset=11)  # over all axes from 1 on; a newer one has only one axis
    del older.graph.node[0].input[1:]
    expected = results(older, tmp_path, x=X.reshape(2, 1, 2))[0]
    found, done = merge(older, small(dims=(2, 1, 2)), [("y", "x")])
    np.testing.assert_allclose(results(found, tmp_path, x=X.reshape(2, 1, 2))[0], expected + W, rtol=1e-6)
    assert "opset" in [edit.kind for edit in done.edits]
    learned = [small(), small()]
    for version, proto in ((3, learned[0]), (5, learned[1])):
        proto.opset_import.add(domain="ai.onnx.ml", version=version)
    found, _ = merge(*learned, [("y", "x")])
    assert [entry.version for entry in found.opset_import] == [17, 3]
    own = [small(), small()]
    for version, proto in enumerate(own):
        proto.opset_import.add(domain="own", version=version + 1)
    own[0].graph.node.add(op_type="F", domain="own", input=["x"], output=["unused"])
    with pytest.raises(formats.EditError, match="the models import own 1 and 2"):
        merged(*map(formats.from_onnx, own))


def scanning() -> onnx.ModelProto:
    """Return a model of operator set 8 whose Scan has an axis for batches, which no newer set has."""
    add = [helper.make_node("Add", ["s", "v"], ["t"]), helper.make_node("Identity", ["t"], ["o"])]
    body = helper.make_graph(
        add, "b", [value(name, dims=[2]) for name in "sv"], [value(name, dims=[2]) for name in "to"]
    )
    node = helper.make_node("Scan", ["", "first", "x"], ["last", "y"], body=body, num_scan_inputs=1)
    dims = {"first": ["b", 2], "x": ["b", "n", 2], "y": ["b", "n", 2]}
    found = {name: value(name, dims=each) for name, each in dims.items()}
    graph = helper.make_graph([node], "g", [found["first"], found["x"]], [found["y"]])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 8)], ir_version=3)


def test_the_older_operator_set_counts_where_the_newer_one_is_refused() -> None:
    """A node that no newer set can express keeps its set, and the other model is converted down; or both are named."""
    found, done = merge(scanning(), small(dims=("b", "n", 2)), [("y", "x")])
    assert found.opset_import[0].version == 8
    assert [edit.detail for edit in done.edits if edit.kind == "opset"] == ["operator set 17 -> 8, 1 node converted"]
    with pytest.raises(formats.UnsupportedError, match=r"cannot be written in operator set 17: .*Scan"):
        merge(scanning(), small("Trilu", dims=("b", "n", 2)), [("y", "x")])


def test_functions_and_subgraphs(tmp_path: Path) -> None:
    """Equal functions are kept once, others are told apart, and captures of subgraphs keep their meaning."""
    first, second = nested(), nested()
    for proto in (first, second):
        del proto.graph.output[1:]
    flags = {name: np.array(True) for name in ("first", "second", "first_2", "second_2")}
    x = np.array([1, 2], "float32")
    found, _ = merge(first, second, [("y", "x")])
    assert names(found.functions) == ["Twice"]
    assert results(found, tmp_path, x=x, **flags)[0].tolist() == (((x + 5) * 2 + 5) * 2).tolist()
    second.functions[0].node[0].op_type = "Mul"
    found, _ = merge(first, second, [("y", "x")], "second/")
    assert names(found.functions) == ["Twice", "Twice_2"]
    flags = {name: np.array(True) for name in ("first", "second", "second/first", "second/second")}
    assert results(found, tmp_path, x=x, **flags)[0].tolist() == (((x + 5) * 2 + 5) ** 2).tolist()


def test_facts_of_both() -> None:
    """The first model counts where metadata and devices differ, and what is left out is told."""
    first, second = small(), small()
    first.metadata_props.add(key="a", value="1")
    for key in "ab":
        second.metadata_props.add(key=key, value="2")
    second.ir_version = 11
    second.training_info.add()
    for proto, count in ((first, 2), (second, 3)):
        proto.configuration.add(name="c", num_devices=count)
    second.configuration.add(name="d", num_devices=1)
    new, done = merged(formats.from_onnx(first), formats.from_onnx(second), [("y", "x")])
    assert {entry.key: entry.value for entry in new.metadata_props} == {"a": "1", "b": "2"}
    assert (new.ir_version, [each.name for each in new.configuration]) == (11, ["c", "d"])
    assert [loss.kind for loss in done.losses] == ["metadata", "training_info", "configuration"]


def test_a_weight_as_default_and_an_input_as_output(tmp_path: Path) -> None:
    """An input with a default value loses it when it is connected; an output that is an input passes through."""
    second = small("Mul")
    second.graph.input.append(helper.make_tensor_value_info("w", FLOAT, [2]))
    second.graph.output.append(helper.make_tensor_value_info("x", FLOAT, ["batch", 2]))
    first = small(dims=(2,))
    found, _ = merge(first, second, [("y", "w")])
    assert (names(found.graph.input), names(found.graph.initializer)) == (["x", "x_2"], ["w"])
    assert names(found.graph.output) == ["y_2", "x_2"]


def test_weights_of_one_file_are_stored_once(tmp_path: Path) -> None:
    """Weights that are the same bytes of the same file are one weight; others with equal bytes stay two."""
    onnx.save(small(), tmp_path / "a.onnx", save_as_external_data=True, location="w.data", size_threshold=0)
    onnx.save(small("Mul"), tmp_path / "b.onnx", save_as_external_data=True, location="w.data", size_threshold=0)
    (tmp_path / "w.data").write_bytes((tmp_path / "w.data").read_bytes()[:8])
    report = formats.merge(tmp_path / "a.onnx", tmp_path / "a.onnx", tmp_path / "c.onnx", connect={"y": "x"})
    assert "1 weight of both stored once" in [edit.detail for edit in report.edits]
    assert len(formats.load(tmp_path / "c.onnx").graph.initializer) == 1
    assert run(tmp_path / "c.onnx", {"x": X})[0].tolist() == (X + W + W).tolist()


@pytest.mark.outer
def test_parts_of_exported_models(shared_models: list[Path], tmp_path: Path) -> None:
    """The two parts of a model are merged to what the whole computes; onnx's tool makes the same graph of them."""
    for path in shared_models:
        inputs, proto = recorded(path), onnx.load(path)
        cut = middle(proto)
        if cut is None:
            continue
        first, second, whole = (tmp_path / f"{name}.onnx" for name in ("first", "second", "whole"))
        outputs = [value.name for value in proto.graph.output]
        formats.extract(path, first, outputs=[cut], overwrite=True)
        formats.extract(path, second, inputs=[cut, *inputs], outputs=outputs, overwrite=True)
        starts = [value.name or "" for value in formats.load(first).graph.input]
        both = [value.name or "" for value in formats.load(second).graph.input if value.name in starts]
        connect = {cut: cut} | {name: name for name in both}
        formats.merge(first, second, whole, connect=connect, overwrite=True)
        nearly = 1e-2 if "fp16" in path.stem else 0
        for one, other in zip(run(whole, inputs), run(path, inputs), strict=True):
            np.testing.assert_allclose(one, other, rtol=nearly, atol=nearly)
        if not both:
            theirs = onnx.compose.merge_models(
                onnx.load(first), onnx.compose.add_prefix(onnx.load(second), "b/"), [(cut, f"b/{cut}")]
            )
            formats.merge(first, second, whole, connect=connect, prefix="b/", overwrite=True)
            mine = onnx.load(whole)
            assert [str(node) for node in mine.graph.node] == [str(node) for node in theirs.graph.node]
            assert names(mine.graph.initializer) == names(theirs.graph.initializer)
            assert names(mine.graph.output) == names(theirs.graph.output)
