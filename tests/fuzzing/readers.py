"""What the coverage-guided fuzzer does with one input: read it, then do everything that usually follows.

`use(format, data)` returns nothing: every error of `formats/errors.py` is a valid answer, and every other exception is
a fault. Assertions check what must be true of every model.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

import formats
from formats.cli import report_lines
from formats.cli.columns import printable
from formats.errors import FormatError
from formats.ir import walk
from formats.ir.model import Model
from formats.onnxpb.encryption import crypt

KEY = "fuzz"
FORMATS = ("onnx", "onnxz", "onnxz-lenient", "ort", "rten", "onnxc", "textproto", "json")
WRITTEN = ("onnx", "onnxz", "json", "textproto")  # a model that was read can be written in these formats, or is refused
LARGEST_TENSOR = 1 << 20  # elements; larger tensors are not printed, because no user would do this


@cache
def folder() -> Path:
    """A folder with files of weights that exists as long as the process."""
    made = Path(tempfile.mkdtemp(prefix="formats-fuzz-"))
    for name in ("w.data", "m.onnx.data"):
        (made / name).write_bytes(bytes(range(256)) * 4)
    return made


def use(name: str, data: bytes) -> None:
    """Read `data` in the format `name`, then inspect, check, compare and write the model."""
    crypt.KEY_ITERATIONS = 1
    form, _, lenient = name.partition("-")
    reading = {"key": KEY, "allow_encryption": 1} if form == "onnxc" else {}
    path = folder() / f"m.{form}"
    path.write_bytes(data)
    try:
        model = formats.load(path, format=form, lenient=bool(lenient), **reading)
    except FormatError:
        model = None
    if not lenient:
        _look(path, form, reading)
    if model is not None:
        _follow(model, form)


def _look(path: Path, form: str, reading: dict[str, object]) -> None:
    """Call the verbs that only read the file, and make their text and JSON."""
    looks: tuple[Callable[[], list[str]], ...] = (
        lambda: _lines(formats.verify(path, format=form, data=True, **reading), report_lines.verification_lines),
        lambda: _lines(
            formats.inspect(path, format=form, **reading), lambda seen: report_lines.inspection_lines(seen, 3)
        ),
        lambda: _lines(formats.diff(path, path, **reading), report_lines.comparison_lines),
    )
    for look in looks:
        try:
            lines = look()
        except FormatError as error:
            lines = [str(error)]
        shown = printable(lines)
        assert shown.count("\n") == max(len(lines) - 1, 0), "a line of a report is one line"
        assert all(char.isprintable() or char == "\n" for char in shown)


def _lines(report, lines) -> list[str]:  # type: ignore[no-untyped-def]
    json.dumps(report.to_json())
    return list(lines(report))


def _follow(model: Model, form: str) -> None:
    """Read the weights as arrays, and convert the model to other formats and back."""
    try:
        for _, tensor in walk.tensors(model):
            try:
                if tensor.source().nbytes <= LARGEST_TENSOR:
                    tensor.numpy()
            except FormatError:
                pass
    except FormatError:
        return
    for target in WRITTEN:
        try:
            data = formats.dumps(model, target)
        except FormatError:
            continue
        again = formats.loads(data, format=target)
        if form == target and target in ("onnx", "onnxz"):
            assert formats.dumps(again, target) == data, "what was written is read and written as the same bytes"
