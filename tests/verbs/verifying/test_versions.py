"""A model says which versions it needs, and has nothing that is newer."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from formats.ir import dtypes
from formats.onnxpb.newer_parts import FIELDS
from formats.onnxpb.wire.schema import MESSAGES
from formats.verbs.verify import verify


def model(elem_type: int = TensorProto.FLOAT, ir_version: int = 8) -> onnx.ModelProto:
    """Return a model of one node."""
    values = [helper.make_tensor_value_info(name, elem_type, [2]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "g", values[:1], values[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=ir_version)


def version_errors(proto: onnx.ModelProto, folder: Path) -> list[tuple[str, str]]:
    """Return the errors of kind "version": the operator set may be too old for a type, too."""
    return [error for error in errors(proto, folder) if error[0] == "version"]


def errors(proto: onnx.ModelProto, folder: Path) -> list[tuple[str, str]]:
    """Return kind and place of all errors."""
    path = folder / "m.onnx"
    path.write_bytes(proto.SerializeToString())
    return [finding[:2] for finding in verify(path).errors]


@pytest.mark.parametrize("row", dtypes.DATA_TYPES, ids=lambda row: row.name)
def test_types_newer_than_the_ir_version_are_found(row: dtypes.DataType, tmp_path: Path) -> None:
    """An element type needs the ir_version that introduced it."""
    assert [] == version_errors(model(row.number, max(row.ir_version, 3)), tmp_path)
    if row.ir_version > 3:
        wanted = [("version", f"graph.{side}[0].type.tensor_type.elem_type") for side in ("input", "output")]
        assert wanted == sorted(version_errors(model(row.number, row.ir_version - 1), tmp_path))


def test_fields_newer_than_the_ir_version_are_found(tmp_path: Path) -> None:
    """A field needs the ir_version that introduced it, and every listed field exists."""
    proto = model(ir_version=9)
    proto.graph.node[0].metadata_props.add(key="a", value="b")
    assert [("version", "graph.node[0].metadata_props")] == errors(proto, tmp_path)
    proto.ir_version = 10
    assert [] == errors(proto, tmp_path)
    for message, name in FIELDS:
        assert name in {row.name for row in MESSAGES[message]}
