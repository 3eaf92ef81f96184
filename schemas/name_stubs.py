"""Writes the stubs of modules whose names are imported when they are first used, from their table `_NAMES`."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from submodule_stubs import STUBS

LINE_LENGTH = 120


def package() -> str:
    """The stub of `formats`."""
    return _stub("formats")


def drop_in() -> str:
    """The stub of `formats.onnxpb`."""
    return _stub("formats.onnxpb")


def for_codecs() -> str:
    """The stub of `formats.codec`."""
    return _stub("formats.codec")


def _stub(name: str) -> str:
    """The stub of a module: the names of its table, its version and `__all__` if it has them.

    Without `__all__`, each name is imported as itself, which says that it is public.
    """
    module = import_module(name)
    namespace = vars(module)
    table: dict[str, str] = namespace["_NAMES"]
    file_name = Path(str(module.__file__)).name
    lines = [f"# Written by schemas/generate.py from the table `_NAMES` in {file_name}; do not edit.\n"]
    for inner, names in sorted(table.items()):
        in_order = sorted(names.split(), key=_order)
        if "__all__" in namespace:
            lines.append(_import(f"formats.{inner}", in_order))
        else:
            lines += [f"from formats.{inner} import {public} as {public}" for public in in_order]
    if "_OF_ONNX" in namespace:  # modules and names that another package has, which may be missing
        lines[0] = f"# ruff: noqa: I001\n{lines[0]}"
        lines.insert(1, "from typing import Any\n")
        words = [word for word in namespace["_OF_ONNX"].split() if not word.startswith("_")]
        lines += [f"from {name} import {word} as {word}" for word in words if word in STUBS]
        lines += ["", *(f"{word}: Any" for word in words if word not in STUBS)]
    if "__version__" in namespace or "__version__" in namespace.get("_OF_ONNX", ""):
        lines += ["", "__version__: str"]
    if "__all__" in namespace:
        lines += ["", "__all__ = [", *(f'    "{public}",' for public in sorted(namespace["__all__"], key=_order)), "]"]
    return "\n".join([*lines, ""])


def _import(module: str, names: list[str]) -> str:
    """An import, as the formatter has it."""
    line = f"from {module} import {', '.join(names)}"
    if len(line) <= LINE_LENGTH:
        return line
    return "\n".join([f"from {module} import (", *(f"    {name}," for name in names), ")"])


def _order(name: str) -> tuple[int, str]:
    """The order of names in imports: constants, classes, functions."""
    return 0 if name.isupper() else 1 if name[0].isupper() else 2, name
