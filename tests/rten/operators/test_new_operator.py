"""A new operator is one new file: everything that converts models learns of it from there."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.systems import PATIENCE_SECONDS

ROOT = Path(__file__).parents[3]
GENERATED = {"formats/rten/operators/families.py"}
NEW = "formats/rten/operators/powers.py"
# One operator that the newest release of RTen has, and one that it lacks and that is written as other nodes.
FAMILY = '''"""Powers of small exponents."""

from __future__ import annotations

from typing import TYPE_CHECKING

from formats.rten.graph.attributes import make_node
from formats.rten.operators.rules import same
from formats.rten.spec import Folding, OperatorSpec, Outputs, Row, ToOnnx, ToRten
from formats.rten.target import RTEN_0_27

if TYPE_CHECKING:
    from formats.ir.model import Node
    from formats.rten.convert.context import Context
    from formats.rten.graph.makers import Makers


def square(node: Node, context: Context) -> list[Node]:
    """Write it as x * x."""
    data = context.input(0)
    return context.replace(context.op("Mul", data, data))


def folded_square(node: Node, makers: Makers) -> Node | None:
    """Square, from the product that it was written with."""
    if node.op_type != "Mul" or node.input[0] != node.input[1]:
        return None
    return make_node("Square", node.input[:1], node.output)


Square = OperatorSpec(
    "Square",
    Outputs(same),
    ToRten(rewritings=(square,)),
    ToOnnx(foldings=(Folding(("Mul",), folded_square),)),
)


def cube(node: Node, context: Context) -> list[Node] | None:
    """Write it as x * x * x."""
    if context.has("Cube"):
        return None
    data = context.input(0)
    return context.replace(context.op("Mul", context.op("Mul", data, data), data))


Cube = OperatorSpec(
    "Cube", Outputs(same), ToRten(Row(1, since=RTEN_0_27), rewritings=(cube,)), ToOnnx("N", "N")
)
'''
PROGRAM = """
import sys
from formats import Dimension, Graph, Model, Node, OperatorSetId, TensorShape, TensorType, Type, ValueInfo
import formats

def value(name):
    shape = TensorShape(dim=[Dimension(dim_value=3)])
    return ValueInfo(name=name, type=Type(tensor_type=TensorType(elem_type=1, shape=shape)))

nodes = [Node(op_type="Square", input=["x"], output=["s"]), Node(op_type="Cube", input=["s"], output=["y"])]
graph = Graph(name="g", node=nodes, input=[value("x")], output=[value("y")])
formats.save(Model(ir_version=10, opset_import=[OperatorSetId(domain="", version=21)], graph=graph), "given.onnx")

def operators(path):
    return [node.op_type for node in formats.load(path).graph.node]

formats.convert("given.onnx", "new.rten", runtime="rten==0.27")
formats.convert("given.onnx", "all.rten")
formats.convert("given.onnx", "loaded.onnx", runtime="rten")
formats.convert("new.rten", "back.onnx")
assert formats.__file__.startswith(sys.argv[1]), formats.__file__
for path in ("new.rten", "all.rten", "loaded.onnx", "back.onnx"):
    print(path, *operators(path))
"""


def contents(folder: Path) -> dict[str, bytes]:
    """Return the Python files and schema texts in a folder."""
    paths = (path for path in folder.rglob("*") if path.suffix in (".py", ".fbs"))
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """Return a folder with the package and its schemas."""
    for name in ("formats", "schemas"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "docs").mkdir()
    return tmp_path


def run(folder: Path, *arguments: str) -> str:
    """Return what Python prints that runs in a copy."""
    command = [sys.executable, *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=PATIENCE_SECONDS)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.outer
def test_an_operator_is_one_new_file(copy: Path) -> None:
    """With one new file, and its type in RTen's schema, a model with the operators is converted, and back."""
    before = contents(copy)
    (copy / NEW).write_text(FAMILY, encoding="utf-8")
    schema = copy / "formats" / "rten" / "schema.fbs"
    text = schema.read_text(encoding="utf-8")
    start = text.index("enum OperatorType")
    end = text.index("}", start)
    schema.write_text(f"{text[:end]}  Cube = 200,\n{text[end:]}", encoding="utf-8")
    run(copy, "schemas/generate.py")
    after = contents(copy)
    assert {name for name in after if after[name] != before.get(name)} == {NEW, "formats/rten/schema.fbs", *GENERATED}
    assert before.keys() <= after.keys()
    (copy / "program.py").write_text(PROGRAM, encoding="utf-8")
    assert run(copy, "program.py", str(copy)).splitlines() == [
        "new.rten Mul Cube",
        "all.rten Mul Mul Mul",
        "loaded.onnx Mul Cube",
        "back.onnx Square Cube",
    ]
