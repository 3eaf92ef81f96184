"""Writes the stubs of packages whose names are imported when they are first used, from their table `_NAMES`."""

from __future__ import annotations

from importlib import import_module

LINE_LENGTH = 120


def package() -> str:
    """The stub of `formats`."""
    return _stub("formats")


def drop_in() -> str:
    """The stub of `formats.onnxpb`."""
    return _stub("formats.onnxpb")


def _stub(name: str) -> str:
    """The stub of a package: the names of its table, its version if it has one, and `__all__`."""
    held = vars(import_module(name))
    table: dict[str, str] = held["_NAMES"]
    lines = ["# Written by schemas/generate.py from the table `_NAMES` in __init__.py; do not edit.\n"]
    for module, names in sorted(table.items()):
        lines.append(_import(f"formats.{module}", sorted(names.split(), key=_order)))
    if "_OF_ONNX" in held:  # modules and names that another package has, which may be missing
        lines.insert(1, "from typing import Any\n")
        lines += ["", *(f"{each}: Any" for each in held["_OF_ONNX"].split() if not each.startswith("_"))]
    if "__version__" in held or "__version__" in held.get("_OF_ONNX", ""):
        lines += ["", "__version__: str"]
    lines += ["", "__all__ = [", *(f'    "{each}",' for each in sorted(held["__all__"], key=_order))]
    return "\n".join([*lines, "]", ""])


def _import(module: str, names: list[str]) -> str:
    """An import, as the formatter has it."""
    line = f"from {module} import {', '.join(names)}"
    if len(line) <= LINE_LENGTH:
        return line
    return "\n".join([f"from {module} import (", *(f"    {name}," for name in names), ")"])


def _order(name: str) -> tuple[int, str]:
    """The order of names in imports: constants, classes, functions."""
    return 0 if name.isupper() else 1 if name[0].isupper() else 2, name
