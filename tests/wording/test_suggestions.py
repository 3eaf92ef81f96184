"""Suggestions for names that do not exist, by the kind of name that is meant."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper, save

import formats
from formats.wording.suggestions import nearest


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose node has an output that is like the names that are asked for."""
    value = helper.make_tensor_value_info
    nodes = [helper.make_node("Add", ["data", "weight"], ["x1"]), helper.make_node("Relu", ["x1"], ["score"])]
    kinds = [value("data", TensorProto.FLOAT, ["batch"])], [value("score", TensorProto.FLOAT, ["batch"])]
    graph = helper.make_graph(nodes, "g", *kinds, [numpy_helper.from_array(np.ones(1, "float32"), "weight")])
    save(helper.make_model(graph), path := tmp_path_factory.mktemp("names") / "m.onnx")
    return path


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"outputs": "score", "inputs": "x"}, "no value is called 'x'; the only input is data"),
        ({"outputs": "x"}, "no value is called 'x'; the only output is score"),
        ({"outputs": "scores"}, "no value is called 'scores'; did you mean score?"),
        ({"rename": {"x": "y"}}, "no value is called 'x'; there are data, score"),
        ({"dim": {"bach": 1}}, "no dim is called 'bach'; did you mean batch?"),
        ({"dim": {"x:0": 1}}, "no input is called 'x'; the only input is data"),
        ({"weights": {"x": np.ones(1, "float32")}}, "such as 'x'; the only weight is weight"),
        ({"metadata": {"x": ""}}, "the metadata has no key 'x', so it cannot be removed; there is none"),
    ],
)
def test_names_are_suggested_by_their_kind(model: Path, given: dict[str, object], words: str) -> None:
    """An unknown input gets names of inputs, an output those of outputs, and so do dims, weights and keys."""
    verb = formats.extract if "outputs" in given else formats.edit
    with pytest.raises(formats.EditError) as caught:
        verb(model, model.with_name("new.onnx"), **given)
    assert str(caught.value).endswith(words)


def test_inner_values_are_suggested_if_they_are_almost_the_same() -> None:
    """A value inside of the graph can be meant, too, if only a letter is wrong."""
    assert nearest("/conv/Relu_outptu_0", ["data"], ["/conv/Relu_output_0", "data"]).endswith("/conv/Relu_output_0?")
    assert nearest("x", ["data"], ["x1", "data"]) == "; there is only data"
