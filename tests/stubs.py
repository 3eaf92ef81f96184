"""Whether the types of the package are true of it as it is when it runs: `stubtest` of mypy, with what it cannot know.

`python tests/stubs.py` runs it on the whole package, with more arguments for `stubtest`. It reads types from the
source, or from a stub if there is one, and compares them with the modules that Python imports. What follows is found
again each time, so that no list of it can grow old:

- a function with a cache is an object of another kind, whose parameters mypy does not know;
- an alias that is written as text, as `Annotated`, or for type checkers alone is not what it stands for;
- the slots of a dataclass are only its own where it inherits others; mypy takes all fields for its slots;
- an enum of protobuf is no class when it runs, and its values are plain numbers;
- constructors of messages take no positional arguments, and say so in protobuf's words.
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
from typing import Annotated, get_origin

import formats
from formats.onnxpb.schema import ENUMS

ROOT = Path(__file__).parents[1]
CACHED = type(functools.cache(len))
MISUNDERSTOOD = (  # and why
    r"formats\.ir\.model\.Message\.__repr__",  # `recursive_repr` has no names of parameters for mypy
    r"formats\.onnxpb\.proto\.(EnumType|E)",  # what the stub describes enums with
    r"formats\.onnxzip\.far_entries\.FarEntry",  # a tuple with further attributes
    r"formats\..*@\d+",  # a class within a function
)


def modules() -> Iterator[ModuleType]:
    """Every module of the package."""
    yield formats
    for found in pkgutil.walk_packages(formats.__path__, "formats."):
        if found.name != "formats.__main__":  # which runs the command
            yield importlib.import_module(found.name)


def aliases(module: ModuleType) -> Iterator[str]:
    """The names of aliases that are text, or that only type checkers see."""
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
    """Patterns of what stubtest gets wrong."""
    yield from MISUNDERSTOOD
    for module in modules():
        prefix = re.escape(module.__name__)
        for name, value in vars(module).items():
            if isinstance(value, CACHED) or get_origin(value) is Annotated:
                yield rf"{prefix}\.{re.escape(name)}(\..*)?"
            if inspect.isclass(value) and value.__module__ == module.__name__:
                cached = [key for key, member in vars(value).items() if isinstance(member, CACHED)]
                yield from (rf"{prefix}\.{re.escape(name)}\.{re.escape(key)}" for key in cached)
                if is_dataclass(value) and "__slots__" in vars(value):
                    yield rf"{prefix}\.{re.escape(name)}\.__slots__"
        yield from (rf"{prefix}\.{re.escape(name)}(\..*)?" for name in aliases(module))
    for enum, values in ENUMS.items():
        scope, _, name = enum.rpartition(".")
        inner = "".join(rf"{re.escape(part)}\." for part in scope.split(".") if part)
        for member in (name, *values):
            yield rf"formats\.onnxpb(\.proto)?\.{inner}{member}(\..*)?"
    yield r"formats\.onnxpb\.proto\..*\.__init__"


def main(arguments: list[str]) -> int:
    """Run stubtest, and give its exit code."""
    with tempfile.TemporaryDirectory() as folder:
        allowed = Path(folder) / "allowed"
        allowed.write_text("\n".join(sorted(set(exceptions()))))
        command = [sys.executable, "-m", "mypy.stubtest", "formats", "--mypy-config-file", "pyproject.toml"]
        options = ["--allowlist", str(allowed), "--ignore-unused-allowlist", *arguments]
        return subprocess.run([*command, *options], cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
