"""Which releases of RTen read a file."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import formats


@pytest.mark.parametrize(
    ("attributes", "operator", "releases"),
    [
        ({}, "CumSum", ("0.25", "0.26", "0.27")),
        ({"exclusive": 1}, "CumSum", ("0.26", "0.27")),
        ({}, "ReduceLogSum", ("0.26", "0.27")),
    ],
)
def test_a_file_is_read_by_the_releases_that_know_its_operators(attributes, operator, releases, tmp_path) -> None:
    """The releases begin with the first one that has each operator, and each field with a value."""
    x, y = (helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2, 3]) for name in "xy")
    y.type.tensor_type.shape.dim[1].dim_value = 3 if operator == "CumSum" else 1
    axis = numpy_helper.from_array(np.array(1 if operator == "CumSum" else [1]), "axis")
    node = helper.make_node(operator, ["x", "axis"], ["y"], **attributes)
    graph = helper.make_graph([node], "g", [x], [y], [axis])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]), tmp_path / "m.onnx")
    formats.convert(tmp_path / "m.onnx", tmp_path / "m.rten", runtime="rten==0.27")
    assert formats.inspect(tmp_path / "m.rten").releases == {"rten": releases}
