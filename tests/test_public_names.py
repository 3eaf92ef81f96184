"""Names that users rely on: a change that this test finds is a change for users.

`python tests/test_public_names.py` updates `tests/public_names.json`. docs/stability.md says what a change requires.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import os
from pathlib import Path
from typing import Any

import formats
import formats.codec
import formats.options
import formats.testing
from formats.cli.command_line import flags_of
from formats.cli.verbs import VERBS
from tests import commands

NAMES = Path(__file__).with_name("public_names.json")
OPTIONS = ("SWITCH", "choice", "count", "option", "pairs", "settle", "size", "text")  # as docs/codecs.md describes them
DIGITS = Path(__file__).parents[1] / "examples" / "digits.onnx"


def shape_of(value: Any) -> Any:
    """Return the stable parts of a public name: parameters of functions, fields and methods of classes."""
    if not isinstance(value, type):
        return str(inspect.signature(value)) if callable(value) else type(value).__name__
    if issubclass(value, Exception):
        return [parent.__name__ for parent in value.__mro__[1:] if parent.__module__.startswith("formats")]
    fields = [field.name for field in dataclasses.fields(value)] if dataclasses.is_dataclass(value) else []
    fields = fields or list(getattr(value, "_fields", ()))
    return {"fields": fields, "others": sorted({name for name in dir(value) if name[0] != "_"} - set(fields))}


def keys_of(value: Any) -> Any:
    """Return the keys of a JSON report with the types of their values; for lists, those of the first element."""
    if isinstance(value, dict):
        return {name: keys_of(each) for name, each in sorted(value.items())}
    if isinstance(value, list):
        return [keys_of(value[0])] if value else []
    return type(value).__name__


def report(*arguments: str, folder: Path) -> Any:
    """Return the keys of the report that a command prints."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        found = keys_of(json.loads(commands.run("formats", *arguments, "--json").stdout))
    finally:
        os.chdir(before)
    return without_keys_of_models(found)


def without_keys_of_models(found: Any) -> Any:
    """Return the keys without those that are names in the model."""
    if isinstance(found, list):
        return [without_keys_of_models(each) for each in found]
    if not isinstance(found, dict):
        return found
    of_models = ("operators", "opsets", "metadata", "alignments", "data_types")
    return {name: "dict" if name in of_models else without_keys_of_models(value) for name, value in found.items()}


def public_names(folder: Path) -> dict[str, Any]:
    """Return everything that is stable and has a name, as JSON."""
    digits = str(DIGITS)
    names = {
        "library": {name: shape_of(getattr(formats, name)) for name in dir(formats) if name[0] != "_"},
        "codec": sorted(formats.codec.__all__),
        "options": {name: shape_of(getattr(formats.options, name)) for name in OPTIONS},
        "testing": sorted(formats.testing.__all__),
        "commands": {
            verb.name: [*verb.arguments, *sorted(flags_of([group.options for group in verb.groups(False)]))]
            for verb in VERBS
        },
        "reports": {
            "convert": report("convert", digits, "digits.onnxz", folder=folder),
            "inspect": report("inspect", digits, folder=folder),
            "verify": report("verify", digits, folder=folder),
            "diff": report("diff", digits, "digits.onnxz", folder=folder),
            "files": report("files", digits, folder=folder),
            "cp": report("cp", digits, "copied.onnx", folder=folder),
            "share": report("share", digits, "digits.onnxz", "--out", "shared", folder=folder),
            "mv": report("mv", "copied.onnx", "moved.onnx", folder=folder),
            "rm": report("rm", "moved.onnx", folder=folder),
            "completion": report("completion", "bash", folder=folder),
            "repair": report("repair", "digits.onnxz", folder=folder),
            "batch": report("batch", digits, "missing.onnx", "--out", "out", "--to", "onnxz", folder=folder),
            "inspect --nodes --params": report("inspect", digits, "--nodes", "--params", folder=folder),
            "inspect of several": report("inspect", digits, "missing.onnx", folder=folder),
            "verify of several": report("verify", digits, "missing.onnx", folder=folder),
            "usage error": report("nonsense", folder=folder),
            "error": report("inspect", "missing.onnx", folder=folder),
        },
    }
    return json.loads(json.dumps(names))


def test_public_names_are_as_they_were(tmp_path: Path) -> None:
    """Names, parameters, options and keys of reports are those of `tests/public_names.json`."""
    recorded = json.loads(NAMES.read_text(encoding="utf-8"))
    found = public_names(tmp_path)
    for part in recorded:
        assert recorded[part] == found[part], f"{part}: see the beginning of tests/test_public_names.py"
    assert [*recorded] == [*found]


def main() -> None:
    """Write the current names."""
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        names = public_names(Path(folder))
    NAMES.write_text(json.dumps(names, indent=1, sort_keys=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
