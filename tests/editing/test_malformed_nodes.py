"""Every edit of a model with a node that breaks its definition works, or raises one of our errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import formats
from formats.editing.folding import constants_of
from formats.verbs.shapes import shapes_of_model

if TYPE_CHECKING:
    from collections.abc import Callable

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
OPERATORS = sorted({schema.name for schema in onnx.defs.get_all_schemas() if not schema.domain})
FORMS: dict[str, tuple[list[str], list[str]]] = {
    "without inputs": ([], ["y"]),
    "without outputs": (["x", "shape"], []),
    "with empty names": (["", ""], [""]),
    "with a constant alone": (["shape"], ["y"]),
    "with many inputs": (["x", "shape", "x", "f", "shape", "x", "f", "x"], ["y", "z", "z2", "z3"]),
    "of integers": (["shape", "shape", "shape"], ["y"]),
    "without outputs or a name": (["x", "f"], []),
    "with attributes of other kinds": (["x", "shape", "f"], ["y"]),
}


def rewritten(model: Any) -> object:
    """Look for the first node with and without its attributes, and put a Relu in its place."""
    operator, count = model.graph.node[0].op_type, len(model.graph.node[0].input)
    attributes = {attribute.name: ["text"] for attribute in model.graph.node[0].attribute}

    def like_it(op: Any, a: Any, b: Any = None, c: Any = None, **attributes: Any) -> Any:
        return getattr(op, operator)(*[a, b, c][:count], **attributes)

    model.find(lambda op, a, b=None, c=None: like_it(op, a, b, c, **attributes))
    return model.rewrite(lambda op, a, b=None, c=None: like_it(op, a, b, c), lambda op, a: op.Relu(a))


EDITS: dict[str, Callable[[Any], object]] = {
    "dim": lambda model: model.edit(dim={"x:0": 8}),
    "dim by name": lambda model: model.edit(dim={"x:0": "batch"}),
    "float16": lambda model: formats.dumps(model, "onnx", dtype="float16"),
    "int32": lambda model: formats.dumps(model, "onnx", int32=True),
    "float32": lambda model: formats.dumps(model, "onnx", dtype="float32"),
    "int4": lambda model: formats.dumps(model, "onnx", weights_dtype="int4", runtime="onnxruntime"),
    "int4 of plain ONNX": lambda model: formats.dumps(model, "onnx", weights_dtype="int4"),
    "opset up": lambda model: formats.dumps(model, "onnx", opset=18),
    "opset down": lambda model: formats.dumps(model, "onnx", opset=11),
    "for onnxruntime": lambda model: formats.dumps(model, "onnx", runtime="onnxruntime==1.16"),
    "bypass": lambda model: model.edit(bypass=["broken"]),
    "bypass all": lambda model: model.bypass(lambda node: node.op_type != "Reshape"),
    "rewrite": rewritten,
    "layout": lambda model: model.edit(layout={"x": "NHWC"}),
    "operator and attribute": lambda model: model.edit(
        set_operator={"broken": "Relu"}, set_attribute={"broken.axis": 1, "broken.alpha": 0.5, "broken.value": [1]}
    ),
    "domain": lambda model: model.edit(set_domain={"broken": "com.microsoft"}, set_attribute={"broken.a": 1}),
    "outputs": lambda model: model.edit(add_output="all"),
    "fold": lambda model: model.edit(fold=True),
    "uint8 input": lambda model: model.edit(uint8_input=["x"], scale="1/255", mean=[1, 2, 3, 4]),
    "prune": lambda model: model.edit(prune=True),
    "sort": lambda model: model.edit(sort=True),
    "prefix": lambda model: model.edit(prefix="p/", rename={"x": "q"}),
    "extract": lambda model: model.extract(outputs=["r"]),
    "merge": lambda model: model.merge(model),
    "shapes and macs": lambda model: shapes_of_model(model, lists_values=True, counts_macs=True, dim={"x:0": 8}),
    "to rten": lambda model: formats.dumps(model, "rten"),
    "to ort": lambda model: formats.dumps(model, "ort"),
}


def broken(operator: str, form: str) -> formats.Model:
    """A model with a node of this operator that has other inputs and outputs than it should."""
    inputs, outputs = FORMS[form]
    name = "" if form == "without outputs or a name" else "broken"
    nodes = [helper.make_node(operator, inputs, outputs, name=name), helper.make_node("Reshape", ["x", "shape"], ["r"])]
    if form == "with attributes of other kinds":
        for attribute in onnx.defs.get_schema(operator).attributes.values():
            value = [0.5] if attribute.type != onnx.defs.OpSchema.AttrType.FLOATS else "text"
            nodes[0].attribute.append(helper.make_attribute(attribute.name, value))
    weights = [numpy_helper.from_array(np.array([1, 4]), "shape"), numpy_helper.from_array(np.ones(4, "float32"), "f")]
    ends = [helper.make_tensor_value_info("x", FLOAT, [1, 4]), helper.make_tensor_value_info("r", FLOAT, [1, 4])]
    described = [helper.make_tensor_value_info(name, FLOAT, [1, 4]) for name in outputs if name]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], weights, value_info=described)
    return formats.from_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))


@pytest.mark.sample(20)
@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("form", FORMS)
def test_no_node_breaks_an_edit(form: str, operator: str) -> None:
    """Nothing but our own errors comes out, whatever inputs and outputs a node has."""
    for name, edit in EDITS.items():
        try:
            edit(broken(operator, form))
        except formats.FormatError:
            continue
        except Exception as error:
            raise AssertionError(f"{name}, {operator} {form}: {error!r}") from error


def test_results_of_constants_are_bounded() -> None:
    """Small constants whose result would be large are not computed: a model of some kB asks for no GiB."""
    shapes = [(1024, 1, 1), (1, 1024, 1), (1, 1, 1024)]
    types = ("bool", "int64", "int64")
    arrays = {f"c{index}": np.ones(dims, types[index]) for index, dims in enumerate(shapes)}
    weights = [numpy_helper.from_array(array, name) for name, array in arrays.items()]
    nodes = [
        helper.make_node("Where", ["c0", "c1", "c2"], ["w"]),
        *(helper.make_node(operator, ["c1", "c2"], [operator]) for operator in ("Add", "Mul", "Gather", "Equal")),
        helper.make_node("Concat", ["c1"] * 100_000, ["many"], axis=0),
        helper.make_node("Identity", ["x"], ["y"]),
    ]
    ends = [helper.make_tensor_value_info(name, FLOAT, [1, 4]) for name in "xy"]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], weights)
    model = formats.from_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))
    assert {"c0", "c1", "c2"} == constants_of(model).keys()
