"""Runs the reader without one of its checks: `python tests/onnxzip/planted.py REQUIREMENT < PATHS` prints verdicts.

Each `raise` of an error with that requirement does nothing, in a copy of the modules that read. The decoder of messages
knows no requirements; the reader of archives says which one each of its errors breaks. Each line of stdin is
the path of an archive; the answer is `taken`, `refused` or the name of another error.
"""

from __future__ import annotations

import ast
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[2]
WIRE = "formats.onnxpb.wire."
CHANGED = ("formats.onnxzip.", WIRE)


class Unless(ast.NodeTransformer):
    """Makes each `raise` depend on `planted`."""

    def __init__(self, module: str) -> None:
        self.in_wire = module.startswith(WIRE)

    def visit_Raise(self, node: ast.Raise) -> ast.AST:
        """Return a statement that raises the same error, unless `planted` says that its check is missing."""
        if node.exc is None:
            return node
        error = ast.unparse(node.exc)
        cause = f" from {ast.unparse(node.cause)}" if node.cause else ""
        return ast.parse(
            f"if not __import__('builtins').planted(found := {error}, {self.in_wire}): raise found{cause}"
        ).body[0]


class Loader(importlib.machinery.SourceFileLoader):
    """Loads a module in the changed form."""

    def source_to_code(self, data: bytes, path: str, *, _optimize: int = -1) -> object:  # type: ignore[override]
        """Return the code."""
        return compile(ast.fix_missing_locations(Unless(self.name).visit(ast.parse(data))), path, "exec")

    def get_code(self, fullname: str) -> object:  # type: ignore[override]
        """Return the code, never from a cache."""
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)


class Finder(importlib.abc.MetaPathFinder):
    """Finds the modules that are changed."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return the place of a module, if it is one of them."""
        file = ROOT.joinpath(*fullname.split(".")).with_suffix(".py")
        if not fullname.startswith(CHANGED) or not file.exists():
            return None
        return importlib.util.spec_from_file_location(fullname, file, loader=Loader(fullname, str(file)))


def main() -> None:
    """Print the verdicts."""
    import builtins

    requirement = sys.argv[1]

    def is_planted(error: FormatError, in_wire: bool) -> bool:
        from formats.onnxzip.graph import broken_by

        return (broken_by(error) if in_wire else getattr(error, "requirement", None)) == requirement

    builtins.planted = is_planted  # type: ignore[attr-defined]
    sys.meta_path.insert(0, Finder())
    sys.path.insert(0, str(ROOT))
    from formats.errors import FormatError
    from formats.onnxzip.model import check_archive
    from formats.tensordata.file import File

    for line in sys.stdin:
        try:
            check_archive(File.open(Path(line.rstrip("\n"))).span())
        except FormatError as error:
            print(f"refused {error.requirement}")
        except Exception as error:
            print(type(error).__name__)
        else:
            print("taken")


if __name__ == "__main__":
    main()
