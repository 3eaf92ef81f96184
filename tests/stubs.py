"""Checks whether the types of the package agree with it at run time, with `stubtest` of mypy and a list of exceptions.

`python tests/stubs.py` checks the whole package, and passes other arguments to `stubtest`. That program reads types
from the source, or from a stub if there is one, and compares them with the modules that Python imports. The following
exceptions are found anew each time, so that no list of them can become outdated:

- a cached function is an object of another kind, whose parameters mypy does not know;
- an alias that is a text, an `Annotated`, or only for type checkers is not the same object as its type, and a `Literal`
  of several values is a union for mypy alone;
- if a dataclass with slots inherits fields, its slots are only its own; mypy expects all fields there;
- a field of a message that holds another message is `None` in the class; type checkers see a descriptor;
- a list that is a field of a message is read by a descriptor of the class, which type checkers do not see;
- the constructor of messages is one for all, with a signature for people; type checkers make one from the fields;
- an enum of protobuf is not a class at run time, and its values are plain numbers;
- constructors of messages accept no positional arguments, with the same error as protobuf;
- a list or a message that is a field of a message like those of `onnx` is a property for type checkers, which cannot be
  assigned; at run time, the class has what reads it while it is unset;
- a message inherits from protobuf's class if protobuf is installed, which type checkers do not see;
- a module of `onnx` that only some releases have.
"""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import is_dataclass
from pathlib import Path
from types import ModuleType
from typing import Annotated, Literal, get_origin

import google.protobuf.message
import onnx

import formats
from formats.onnx_compat.protos.classes import CLASSES
from formats.onnx_compat.protos.field_properties import RepeatedProperty, Submessage
from formats.onnxpb.wire.schema import ENUMS

ROOT = Path(__file__).parents[1]
CACHED = type(functools.cache(len))
MISUNDERSTOOD = (  # and why
    r"formats\.ir\.model\.Submessage",  # `Optional` for programs that read annotations, a descriptor for type checkers
    r"formats\.ir\.model\.\w+\.(__signature__|__dataclass_transform__)",
    r"formats\.ir\.model\.Message\.__init__",
    r"formats\.ir\.model\.Message\.__repr__",  # mypy does not know the names of `recursive_repr`'s parameters
    r"formats\.onnx_compat\.protos\.classes\.(EnumType|E)",  # the stub describes enums with it
    r"formats\.onnxzip\.far_entries\.FarEntry",  # a tuple with additional attributes
    r"formats\..*@\d+",  # a class inside a function
)


def modules() -> Iterator[ModuleType]:
    """Return every module of the package."""
    yield formats
    for found in pkgutil.walk_packages(formats.__path__, "formats."):
        if found.name != "formats.__main__":  # importing it runs the command
            yield importlib.import_module(found.name)


def aliases(module: ModuleType) -> Iterator[str]:
    """Return the names of aliases that are text, or that only type checkers see."""
    for name, kind in vars(module).get("__annotations__", {}).items():
        if str(kind).endswith("TypeAlias") and isinstance(vars(module)[name], str):
            yield name
    for block in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(block, ast.If) and "TYPE_CHECKING" in ast.unparse(block.test):
            assigned = [node for node in block.body if isinstance(node, (ast.Assign, ast.AnnAssign))]
            targets = [
                target for node in assigned for target in getattr(node, "targets", [getattr(node, "target", None)])
            ]
            yield from (target.id for target in targets if isinstance(target, ast.Name))


def exceptions() -> Iterator[str]:
    """Return patterns for the names that stubtest reports wrongly."""
    yield from MISUNDERSTOOD
    for module in modules():
        prefix = re.escape(module.__name__)
        for name, value in vars(module).items():
            if isinstance(value, CACHED) or get_origin(value) in (Annotated, Literal):
                yield rf"{prefix}\.{re.escape(name)}(\..*)?"
            if inspect.isclass(value) and value.__module__ == module.__name__:
                cached = [key for key, member in vars(value).items() if isinstance(member, CACHED)]
                yield from (rf"{prefix}\.{re.escape(name)}\.{re.escape(key)}" for key in cached)
                kinds = vars(value).get("__annotations__", {}).items()
                inner = [field for field, kind in kinds if str(kind).startswith(("Submessage[", "list["))]
                yield from (rf"{prefix}\.{re.escape(name)}\.{field}" for field in inner)
                if is_dataclass(value) and "__slots__" in vars(value):
                    yield rf"{prefix}\.{re.escape(name)}\.__slots__"
        yield from (rf"{prefix}\.{re.escape(name)}(\..*)?" for name in aliases(module))
    for enum, values in ENUMS.items():
        scope, _, name = enum.rpartition(".")
        inner = "".join(rf"{re.escape(part)}\." for part in scope.split(".") if part)
        for member in (name, *values):
            yield rf"formats\.(onnxpb|onnx_compat\.protos\.classes)\.{inner}{member}(\..*)?"
    yield r"formats\.onnx_compat\.protos\.classes\..*\.__init__"
    inherited = "|".join(map(re.escape, vars(google.protobuf.message.Message)))
    yield rf"formats\.onnx_compat\.protos\.(message\.ProtoMessage|values\.(Message|Valued))\.({inherited})"
    for name, message_class in CLASSES.items():
        read_here = (RepeatedProperty, Submessage)
        fields = [field for field, value in vars(message_class).items() if isinstance(value, read_here)]
        yield rf"formats\.(onnxpb|onnx_compat\.protos\.classes)\.{re.escape(name)}\.({'|'.join(fields)})"
    yield from (rf"formats\.onnxpb\.{name}" for name in ("hub", "mapping", "subbyte") if not hasattr(onnx, name))


def main(arguments: list[str]) -> int:
    """Run stubtest, and return its exit code."""
    with tempfile.TemporaryDirectory() as folder:
        allowed = Path(folder) / "allowed"
        allowed.write_text("\n".join(sorted(set(exceptions()))))
        command = [sys.executable, "-m", "mypy.stubtest", "formats", "--mypy-config-file", "pyproject.toml"]
        options = ["--allowlist", str(allowed), "--ignore-unused-allowlist", *arguments]
        return subprocess.run([*command, *options], cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
