"""Typical programs give what they give with `onnx`: with its name replaced in their imports, and after `install()`."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import onnx
import pytest

import formats.onnxpb
from tests.systems import PATIENCE_SECONDS

SOURCE = Path(__file__).with_name("typical_programs.py")
PROGRAMS = re.findall(r"^def (\w+)\(folder", SOURCE.read_text(), re.MULTILINE)
NAME = "formats.onnxpb"


def replaced(text: str) -> str:
    """Return a program with each `onnx` in its imports replaced."""
    text = re.sub(r"^( *)import onnx$", rf"\1import {NAME} as onnx", text, flags=re.MULTILINE)
    text = re.sub(r"^( *)import onnx\.(.*)$", rf"\1import {NAME}.\2; import {NAME} as onnx", text, flags=re.MULTILINE)
    return re.sub(r"^( *)from onnx\b", rf"\1from {NAME}", text, flags=re.MULTILINE)


@cache
def program(name: str, is_replaced: bool) -> Callable[[Path], Any]:
    """Return a program."""
    text = SOURCE.read_text()
    module = ModuleType(SOURCE.stem)
    exec(compile(replaced(text) if is_replaced else text, str(SOURCE), "exec"), vars(module))
    found: Callable[[Path], Any] = vars(module)[name]
    return found


def plain(value: Any) -> Any:
    """Return what a program returned, with messages as their bytes and arrays as theirs."""
    if hasattr(value, "SerializeToString"):
        return type(value).__name__, value.SerializeToString(deterministic=True)
    if isinstance(value, np.ndarray):
        return str(value.dtype), value.shape, value.tolist() if value.dtype == object else value.tobytes()
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    return [plain(each) for each in value] if isinstance(value, (list, tuple)) else value


def classes_of(value: Any) -> set[type[Any]]:
    """Return the classes of the messages in what a program returned."""
    if hasattr(value, "SerializeToString"):
        return {type(value)}
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return {found for each in inner for found in classes_of(each)}


@pytest.mark.sample(6)
@pytest.mark.parametrize("name", PROGRAMS)
def test_same_results(name: str, tmp_path: Path) -> None:
    """A program gives the same with `onnx`, with its imports replaced, and unchanged after `install()`."""
    folders = [tmp_path / each for each in ("onnx", "replaced", "installed", "undone")]
    for folder in folders:
        folder.mkdir()
    expected = program(name, False)(folders[0])
    made = program(name, True)(folders[1])
    assert plain(expected) == plain(made)
    with formats.onnxpb.install():
        installed = program(name, False)(folders[2])
        assert plain(expected) == plain(installed)
    for cls in classes_of(made) | classes_of(installed):
        assert cls.__module__.startswith("formats."), cls
    undone = program(name, False)(folders[3])
    assert classes_of(expected) == classes_of(undone)
    assert plain(expected) == plain(undone)


def test_onnx_stays_as_it_is() -> None:
    """Importing `formats.onnxpb` and its modules changes nothing in `onnx`; alone, it does not even import it."""
    text = """
import sys, formats.onnxpb
assert "onnx" not in sys.modules
import onnx, onnx.reference
before = {n: dict(vars(m)) for n, m in list(sys.modules.items()) if n.split(".")[0] == "onnx"}
schema = dict(vars(onnx.defs.OpSchema))
import importlib
names = "helper numpy_helper checker shape_inference compose version_converter utils printer parser defs reference"
for each in names.split():
    importlib.import_module(f"formats.onnxpb.{each}")
    assert getattr(formats.onnxpb, each)
text = '<ir_version: 8, opset_import: ["": 17]> g (float[1] x) => (float[1] y) {y = Neg(x)}'
formats.onnxpb.checker.check_model(formats.onnxpb.parser.parse_model(text))
assert schema == dict(vars(onnx.defs.OpSchema))
for name, names in before.items():
    now = vars(sys.modules[name])
    assert all(now[key] is value for key, value in names.items() if key != "__warningregistry__"), name
assert formats.onnxpb.__version__ == onnx.__version__
assert formats.onnxpb.helper.ModelProto is formats.onnxpb.ModelProto is not onnx.ModelProto
"""
    subprocess.run([sys.executable, "-c", text], check=True, timeout=PATIENCE_SECONDS)


MESSAGES = {
    "append": lambda ours, theirs: ours.GraphProto().node.append(theirs.NodeProto(op_type="A")),
    "copy": lambda ours, theirs: ours.GraphProto().CopyFrom(theirs.GraphProto(name="a")),
    "constructor": lambda ours, theirs: ours.ModelProto(graph=theirs.GraphProto(node=[theirs.NodeProto()])),
    "make_graph": lambda ours, theirs: ours.helper.make_graph([theirs.NodeProto(op_type="A")], "g", [], []),
    "make_attribute": lambda ours, theirs: ours.helper.make_attribute("a", theirs.TensorProto(dims=[1])),
    "to_array": lambda ours, theirs: ours.numpy_helper.to_array(theirs.TensorProto(data_type=1, float_data=[1.0])),
    "serialise": lambda ours, theirs: ours.helper.printable_graph(theirs.GraphProto(name="a")),
    "infer": lambda ours, theirs: ours.shape_inference.infer_shapes(theirs.ModelProto(ir_version=8)),
}


@pytest.mark.parametrize("kind", MESSAGES)
def test_messages_of_onnx_are_taken(kind: str) -> None:
    """A message of `onnx` is taken wherever one of ours is, and gives the same."""
    import formats.onnxpb as ours

    assert plain(MESSAGES[kind](ours, ours)) == plain(MESSAGES[kind](ours, onnx))


def test_messages_of_onnx_are_copied_and_compared() -> None:
    """What was taken is a copy; a message of `onnx` is an instance of our class, equal to one with the same values."""
    theirs = onnx.GraphProto(name="a", node=[onnx.NodeProto(op_type="A")])
    model = formats.onnxpb.ModelProto(graph=theirs)
    theirs.node[0].op_type = "B"
    assert "A" == model.graph.node[0].op_type
    assert model.graph != theirs
    model.graph.CopyFrom(theirs)
    assert model.graph == theirs
    assert isinstance(theirs, formats.onnxpb.GraphProto)
    assert not isinstance(theirs, formats.onnxpb.NodeProto)
    with pytest.raises(TypeError):
        model.graph.node.append(theirs)


def test_without_onnx() -> None:
    """Without `onnx`, the modules and `install()` say how to install it, and everything else works."""
    text = """
import sys
sys.modules["onnx"] = None
import formats.onnxpb as onnx
for use in ("onnx.helper", "onnx.install()", "__import__('formats.onnxpb.reference')", "onnx.__version__"):
    try:
        eval(use)
    except ImportError as error:
        assert "pip install 'onnx-formats[onnx]'" in str(error), error
    else:
        raise AssertionError(use)
assert onnx.NodeProto(op_type="A").op_type == "A"
"""
    subprocess.run([sys.executable, "-c", text], check=True, timeout=PATIENCE_SECONDS)


def test_constants_of_an_older_release() -> None:
    """With an older `onnx`, a new model has the IR version that its checker takes, and its enums list what it knows."""
    text = """
import onnx
onnx.IR_VERSION = 10
from formats.onnxpb import IR_VERSION, TensorProto, Version, helper, onnx_ml_pb2
model = helper.make_model(helper.make_graph([], "g", [], []))
assert (IR_VERSION, onnx_ml_pb2.IR_VERSION, model.ir_version) == (10, 10, 10)
assert TensorProto.DataType.items() == onnx.TensorProto.DataType.items()
theirs = TensorProto.DataType.DESCRIPTOR._theirs()
values = theirs.values[:3]
TensorProto.DataType.DESCRIPTOR._theirs = lambda: type("Enum", (), {"values": values})
assert TensorProto.DataType.keys() == ["UNDEFINED", "FLOAT", "UINT8"] and TensorProto.DataType.values() == [0, 1, 2]
assert TensorProto.DataType.Name(16) == "BFLOAT16"  # messages take all types
"""
    subprocess.run([sys.executable, "-c", text], check=True, timeout=PATIENCE_SECONDS)


def test_constants_without_onnx() -> None:
    """Without the package `onnx`, constants and enums are those of the newest release that is known."""
    text = """
import sys
sys.modules["onnx"] = None
from formats.ir import NEWEST_IR_VERSION
from formats.onnxpb import IR_VERSION, TensorProto
assert IR_VERSION == NEWEST_IR_VERSION and "FLOAT4E2M1" in TensorProto.DataType.keys()
"""
    subprocess.run([sys.executable, "-c", text], check=True, timeout=PATIENCE_SECONDS)
