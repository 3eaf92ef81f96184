"""Write what the package has of the schema texts next to this script, of its own code, and of other packages.

`python schemas/generate.py` writes them; with `--check` it only says whether they are current.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # the package next to this script, not one that is installed

import name_stubs  # noqa: E402
import onnx_schema  # noqa: E402
import onnx_stub  # noqa: E402
import operator_families  # noqa: E402
import operator_sets  # noqa: E402
import operator_types  # noqa: E402
import option_rows  # noqa: E402
import ort_operators  # noqa: E402
import submodule_stubs  # noqa: E402

TARGETS = (
    ("schemas/onnx.proto", onnx_schema.generate, "formats/onnxpb/wire/schema.txt"),
    ("schemas/onnx.proto", onnx_stub.generate, "formats/onnx_compat/protos/classes.pyi"),
)
FROM_CODE = (
    (name_stubs.package, "formats/__init__.pyi"),
    (name_stubs.drop_in, "formats/onnxpb/__init__.pyi"),
    (name_stubs.for_codecs, "formats/codec.pyi"),
    (operator_sets.generate, operator_sets.TARGET),
    (operator_types.generate, operator_types.TARGET),
    (ort_operators.generate, ort_operators.TARGET),
    (operator_families.generate, "formats/rten/operators/families.py"),
    (option_rows.keywords, "formats/keywords.py"),
    (option_rows.reference, "docs/options.md"),
    *submodule_stubs.targets(),
)


def outdated() -> dict[Path, str]:
    """Return the modules that differ from the text for their schema, each with this text.

    Raises: ValueError for a malformed schema text; the message begins with its path and line.
    """
    wanted_texts: dict[Path, str] = {}
    for source, generate, target in TARGETS:
        try:
            wanted = generate((ROOT / source).read_text("utf-8"))
        except ValueError as error:
            raise ValueError(f"{source}, {error}") from error
        wanted_texts[ROOT / target] = wanted
    wanted_texts |= {ROOT / target: write() for write, target in FROM_CODE}
    return {
        path: wanted
        for path, wanted in wanted_texts.items()
        if not path.exists() or path.read_bytes() != wanted.encode()
    }


def main(arguments: list[str] | None = None) -> int:
    """Update the modules, or with `--check` return 1 if one is outdated."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if a module is not current")
    options = parser.parse_args(arguments)
    try:
        stale = outdated()
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    for path, text in stale.items():
        name = path.relative_to(ROOT).as_posix()
        if options.check:
            print(f"{name} is not current; run: python schemas/generate.py", file=sys.stderr)
        else:
            path.write_bytes(text.encode())
            print(f"wrote {name}")
    return 1 if options.check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
