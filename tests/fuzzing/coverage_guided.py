"""Fuzzes one reader, and the usual next steps, guided by code coverage; needs the package `atheris`.

    python tests/fuzzing/coverage_guided.py onnx tests/fuzzing/corpus/onnx -max_total_time=60

The first argument is the format, or the kind of a record beside a model, such as `journal`. The others are libFuzzer's:
options, and folders of inputs; new inputs are added to the first folder, and the seeds of a record. An input that ends
the process is left in the working folder; put it into `tests/fuzzing/crashes/FORMAT`, whose files a test runs.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from functools import partial
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["formats"]):
    import formats
    from tests.fuzzing import readers, records

    for found in pkgutil.walk_packages(formats.__path__, "formats."):  # atheris would not see later imports
        if not found.name.startswith(("formats.testing", "formats.__main__", "formats.bridges.to_others")):
            importlib.import_module(found.name)


def main(name: str, arguments: list[str]) -> None:
    """Fuzz the reader of the format `name` until libFuzzer, which gets the arguments, ends the process."""
    if name not in (*readers.FORMATS, *records.RECORDS):
        raise SystemExit(f"the first argument is one of {', '.join((*readers.FORMATS, *records.RECORDS))}")
    if name in records.RECORDS:
        corpus = next(Path(argument) for argument in arguments[1:] if not argument.startswith("-"))
        for number, seed in enumerate(records.RECORDS[name][0]()):
            (corpus / f"seed{number}").write_bytes(seed)
    atheris.Setup(arguments, partial(readers.use if name in readers.FORMATS else records.use, name))
    atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "", [sys.argv[0], *sys.argv[2:]])
