"""The types of the message classes are those at run time, and a type checker finds wrong uses."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from formats.onnx_compat.protos import classes as proto
from formats.onnx_compat.protos.field_properties import NumbersProperty, RepeatedProperty, Submessage

ROOT = Path(__file__).resolve().parents[2]
STUB = (ROOT / "formats/onnx_compat/protos/classes.pyi").read_text()

METHODS = {"__init__", "HasField", "ClearField", "WhichOneof"}
RIGHT = """
import formats.onnxpb as onnx
from formats.onnxpb import GraphProto, MapProto, ModelProto, NodeProto, TensorProto, TypeProto
from formats.onnx_compat.protos.containers import RepeatedMessages

def operators(nodes: RepeatedMessages[NodeProto]) -> list[str]:
    return [node.op_type for node in nodes if node.HasField("op_type")] + [node.name for node in nodes[1:]]

def name(data_type: TensorProto.DataType) -> str:
    return TensorProto.DataType.Name(data_type) + str(TensorProto.DataType.Value("FLOAT") + 1)

model: ModelProto = onnx.load("model.onnx")
graph = GraphProto(node=[NodeProto(op_type="Add", input=["x", "y"]), {"op_type": "Neg"}], name="g")
model.graph.CopyFrom(graph)
model.graph.node.add(op_type="Mul").attribute.add(name="a", type=onnx.AttributeProto.INT, i=3)
model.graph.initializer.extend([TensorProto(dims=[2], data_type=TensorProto.FLOAT, raw_data=bytes(8))])
model.ir_version = onnx.IR_VERSION
first: int = model.graph.initializer[0].dims[0]
kind = TypeProto(tensor_type={"elem_type": 1}).WhichOneof("value")
keys: list[int] = list(MapProto(keys=[1]).keys)
print(operators(model.graph.node), name(TensorProto.FLOAT), kind, first, keys, onnx.unwrap(model).graph)
onnx.save(model, "model.onnx", size_threshold=0)
"""
WRONG = (
    'NodeProto(op_typ="Add")',
    "NodeProto(op_type=1)",
    "model.producer_name = 1",
    "model.graph = graph",
    "model.graph.nodes",
    'model.graph.node.append("Add")',
    'model.graph.node[0].input.append(b"x")',
    'model.HasField("producer")',
    'TypeProto().WhichOneof("values")',
    "TensorProto.FLOAT33",
    "TensorProto.DataType.Value(1)",
    'onnx.load("model.onnx").graph.node[0].op_type + 1',
    "onnx.unwrap(model).grap",
)


@pytest.mark.outer
def test_a_type_checker_accepts_right_and_finds_wrong_uses(tmp_path: Path) -> None:
    """`mypy --strict` reports nothing about right uses, and one error for each wrong use."""
    program = tmp_path / "program.py"
    program.write_text(RIGHT + "\n".join(WRONG) + "\n")
    command = [sys.executable, "-m", "mypy", "--strict", "--no-incremental", "--config-file=", str(program)]
    environment = {"MYPYPATH": str(ROOT), "PATH": "", "MYPY_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment, check=False)
    start = RIGHT.count("\n") + 1
    found = [int(line) for line in re.findall(r"^program\.py:(\d+): error", done.stdout, re.MULTILINE)]
    assert list(range(start, start + len(WRONG))) == found, done.stdout + done.stderr


def classes(body: list[ast.stmt], scope: str = "") -> Iterator[tuple[str, ast.ClassDef]]:
    """Yield the classes of messages with their full names."""
    for node in body:
        if isinstance(node, ast.ClassDef) and [ast.unparse(base) for base in node.bases] == ["ProtoMessage"]:
            yield scope + node.name, node
            yield from classes(node.body, f"{scope}{node.name}.")


def test_members_are_those_of_the_classes() -> None:
    """The stub has a class for every message, with its fields, numbers, enums and messages, and their types."""
    stub = dict(classes(ast.parse(STUB).body))
    assert set(stub) == set(proto.CLASSES)
    for name, node in stub.items():
        members = {getattr(part, "name", None) or part.target.id: part for part in node.body}
        real = vars(proto.CLASSES[name])
        assert {*members} - METHODS == {member for member in real if not member.startswith("_")} - {"DESCRIPTOR"}, name
        for member, part in members.items():
            value = real.get(member)
            if isinstance(value, (RepeatedProperty, NumbersProperty)):
                declared = ast.unparse(part.returns).partition("[")[0]
                kind = type(getattr(proto.CLASSES[name](), member))
                assert declared in {base.__name__ for base in kind.__mro__}, (name, member)
            elif isinstance(value, Submessage):
                assert ast.unparse(part.returns) == value._class.DESCRIPTOR.scoped_name
            elif member.endswith("_FIELD_NUMBER"):
                assert ast.unparse(part.annotation) == f"ClassVar[Literal[{value}]]"
