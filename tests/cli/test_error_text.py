"""Tests of the texts of the command: summaries, and errors for people and for programs."""

from __future__ import annotations

import errno
import json
from pathlib import Path

import pytest

from formats.cli.command_line import Request, Typed
from formats.cli.error_text import describe, error_to_json
from formats.cli.printing import printable
from formats.cli.report_lines import summary
from formats.cli.verbs import convert_groups
from formats.errors import FormatError, LimitError, OptionError, TruncatedError
from formats.reports import ConversionReport, WrittenFile
from formats.tensordata.plan import Loss

ROWS = Request(Typed([], []), convert_groups(False)).rows()


def report(*files: tuple[str, int], seconds: float = 0.31, losses: tuple[Loss, ...] = ()) -> ConversionReport:
    """Return the report of a conversion into these files, the last of which is the model."""
    written = tuple(WrittenFile(Path(name), nbytes) for name, nbytes in files)
    return ConversionReport(Path("m.onnx"), written[-1].path, "onnx", "rten", written, seconds, losses)


def test_summary_of_a_large_file_has_a_rate() -> None:
    """The first line has paths, size, time and rate."""
    assert ["m.onnx -> m.rten  410.2 MB, 0.31 s (1.3 GB/s)"] == summary(report(("m.rten", 410_200_000)))


def test_summary_of_a_small_file_has_no_rate() -> None:
    """The line for a small file has no rate, because it would mean nothing."""
    assert ["m.onnx -> m.rten  5.0 kB, 0.31 s"] == summary(report(("m.rten", 5000)))


def test_summary_names_few_companions_and_counts_many() -> None:
    """Up to two data files are named; if there are more, their number is shown; the size includes all of them."""
    assert (
        "m.onnx -> o.onnx + a.data + b.data  1.3 kB, 0.31 s"
        == summary(report(("a.data", 500), ("b.data", 500), ("o.onnx", 300)))[0]
    )
    three = report(("a.data", 1), ("b.data", 1), ("c.data", 1), ("o.onnx", 1))
    assert "m.onnx -> o.onnx + 3 data files  4 bytes, 0.31 s" == summary(three)[0]


def test_summary_names_three_losses() -> None:
    """Up to three losses are listed; losses that matter are shown with another word than the others."""
    losses = tuple(Loss("kind", "", f"loss {index}", matters=False) for index in range(5))
    assert "note: loss 0; loss 1" == summary(report(("m.rten", 1), losses=losses[:2]))[1]
    grave = Loss("kind", "", "inputs change")
    assert ["warning: inputs change", "note: loss 0"] == summary(report(("m.rten", 1), losses=(losses[0], grave)))[1:]
    assert (
        "note: loss 0; loss 1; loss 2; and 2 more (--json lists all)"
        == summary(report(("m.rten", 1), losses=losses))[1]
    )


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (FileNotFoundError(errno.ENOENT, "No such file or directory", "a"), "a: No such file or directory"),
        (OSError(errno.ENOSPC, "No space left on device"), "No space left on device"),
        (OSError("odd"), "odd"),
        (TruncatedError("needed 4 bytes, 2 left", path="a", file_offset=7), "a, at byte 7: needed 4 bytes, 2 left"),
        (OptionError("`size_threshold` cannot be used for RTen"), "--size-threshold cannot be used for RTen"),
        (OptionError("`external_data=False` and `checksum`"), "--no-external-data and --checksum"),
        (OptionError("`external_data=True` and `pin`"), "--external-data and --pin"),
        (
            OptionError("`external_data='w'`, `no_such` and `a name`"),
            "--external-data 'w', `no_such` and `a name`",
        ),
        (OptionError("`key` is needed"), "--key-file or --key-env is needed"),
        (LimitError("too deep; `max_depth` allows up to 250", path="m"), "m: too deep; --max-depth allows up to 250"),
        (MemoryError(), "there is not enough memory"),
    ],
)
def test_errors_are_described(error: BaseException, text: str) -> None:
    """Errors of the system, of a format and of options are reported without the names of Python's classes."""
    assert [text] == describe(error, ROWS)


def test_remedy_is_offered_only_where_it_helps(tmp_path: Path) -> None:
    """`--force` is suggested if a file is in the way, not if it is something else."""
    path = tmp_path / "a"
    path.touch()
    assert describe(FileExistsError(errno.EEXIST, "File exists", str(path)), ROWS)[0].endswith("; --force replaces it")
    assert describe(FileExistsError(errno.EEXIST, "File exists", str(tmp_path)))[0].endswith("File exists")


def test_errors_for_programs_have_their_places_apart() -> None:
    """The JSON of an error has the message without the places, which have their own fields."""
    error = FormatError("bad", path=Path("a"), file_offset=3, where="graph")
    expected = {"kind": "FormatError", "message": "bad", "path": "a", "file_offset": 3, "where": "graph"}
    assert expected == error_to_json(error)
    assert json.dumps(error_to_json(OSError(errno.EIO, "broken", "é\udcff")))


def test_text_is_made_printable() -> None:
    """Control characters and lone surrogates are shown as escapes; line breaks stay."""
    assert "a\\x1b[31m\\nb é\nsecond \\udcff" == printable(["a\x1b[31m\nb é", "second \udcff"])
