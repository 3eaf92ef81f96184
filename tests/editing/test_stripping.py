"""Documentation, what exporters noted, and graphs for training go; all names get a prefix; results are the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import formats
from tests.editing.nested_models import nested, results

SECRET = "/home/somebody/net.py"


@pytest.fixture
def noted() -> onnx.ModelProto:
    """A model in which everything has documentation and metadata, and which says how to train it."""
    proto = nested()
    proto.metadata_props.add(key="license", value="MIT")

    def note(message: Any) -> None:
        for field, value in message.ListFields():
            for inner in [value] if hasattr(value, "ListFields") or not hasattr(value, "__len__") else value:
                if hasattr(inner, "ListFields") and field.name not in ("metadata_props", "type"):
                    note(inner)
        names = {field.name for field in message.DESCRIPTOR.fields}
        if "doc_string" in names:
            message.doc_string = SECRET
        if "metadata_props" in names and message is not proto:
            message.metadata_props.add(key="stack_trace", value=SECRET)

    note(proto)
    info = proto.training_info.add()
    step = helper.make_node("Add", ["w", "w"], ["step"])
    value = helper.make_tensor_value_info("step", 1, [1])
    info.algorithm.CopyFrom(helper.make_graph([step], "train", [], [value]))
    info.update_binding.add(key="w", value="step")
    return proto


GIVEN = {"x": np.array([1, 2], "float32"), "first": np.array(True), "second": np.array(False)}


def test_documentation_goes(noted: onnx.ModelProto, tmp_path: Path) -> None:
    """Nothing that an exporter noted is left anywhere in the file; the metadata of the model stay."""
    onnx.save(noted, tmp_path / "m.onnx")
    assert (tmp_path / "m.onnx").read_bytes().count(SECRET.encode()) > 20
    report = formats.edit(tmp_path / "m.onnx", tmp_path / "new.onnx", strip_docs=True)
    assert report.edits[0].detail.endswith("texts of documentation removed")
    assert SECRET.encode() not in (tmp_path / "new.onnx").read_bytes()
    new = onnx.load(tmp_path / "new.onnx")
    assert [(entry.key, entry.value) for entry in new.metadata_props] == [("license", "MIT")]
    bare = nested()
    bare.metadata_props.add(key="license", value="MIT")
    bare.training_info.extend(noted.training_info)
    assert new == bare
    again = formats.edit(tmp_path / "new.onnx", tmp_path / "again.onnx", strip_docs=True)
    assert [edit.detail for edit in again.edits] == ["there was no documentation"]


def test_graphs_for_training_go(noted: onnx.ModelProto, tmp_path: Path) -> None:
    """What trains the model goes, so that the model can become float16; the report says how much it was."""
    onnx.save(noted, tmp_path / "m.onnx")
    with pytest.raises(formats.UnsupportedError):
        formats.edit(tmp_path / "m.onnx", tmp_path / "half.onnx", dtype="float16")
    report = formats.edit(tmp_path / "m.onnx", tmp_path / "new.onnx", strip_training=True)
    assert [edit.detail for edit in report.edits] == ["1 entry for training removed"]
    del noted.training_info[:]
    assert onnx.load(tmp_path / "new.onnx") == noted
    formats.edit(tmp_path / "m.onnx", tmp_path / "half.onnx", strip_training=True, dtype="float16")


def test_all_names_get_a_prefix(noted: onnx.ModelProto, tmp_path: Path) -> None:
    """Values and nodes begin with the prefix, in branches and in what trains the model, too, as with onnx's tool."""
    del noted.functions[:]
    for node in [node for node in noted.graph.node if node.domain]:
        node.op_type, node.domain = "Add", ""
        node.input.append(node.input[0])
        node.name = "last"
    onnx.save(noted, tmp_path / "m.onnx")
    formats.edit(tmp_path / "m.onnx", tmp_path / "new.onnx", prefix="a/")
    new = onnx.load(tmp_path / "new.onnx")
    theirs = onnx.compose.add_prefix(noted, "a/")
    for mine, other in zip(new.graph.node, theirs.graph.node, strict=True):
        assert (mine.input, mine.output, mine.name) == (other.input, other.output, other.name)
    assert (new.graph.input, new.graph.output) == (theirs.graph.input, theirs.graph.output)
    (binding,) = new.training_info[0].update_binding
    assert (binding.key, binding.value) == ("a/w", "a/step")
    assert numpy_helper.to_array(new.graph.initializer[0]) == [5]
    assert new.graph.initializer[0].name == "a/w"
    del noted.training_info[:], new.training_info[:]
    onnx.checker.check_model(new, full_check=True)
    prefixed = {f"a/{name}": array for name, array in GIVEN.items()}
    for one, other in zip(results(noted, tmp_path, **GIVEN), results(new, tmp_path, **prefixed), strict=True):
        np.testing.assert_array_equal(one, other)
