"""Tests of the texts of the command: summaries, and errors for people and for programs."""

from __future__ import annotations

import ast
import errno
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import formats
from formats import keywords
from formats.cli.columns import printable
from formats.cli.command_line import Request, Verb
from formats.cli.error_text import KEYWORD, describe, error_to_json, in_flags
from formats.cli.report_lines import summary
from formats.cli.verbs import VERBS
from formats.editing.options import Edit
from formats.errors import FormatError, LimitError, OptionError, TruncatedError
from formats.tensordata.plan import DOCUMENTATION, INTERFACE, RANGE, RARE, RESULTS, SPECIAL, Loss, Seen
from formats.verbs.report import ConversionReport, WrittenFile

WORDS = Request(VERBS[0], [], [], VERBS[0].groups(False)).words


def report(*files: tuple[str, int], seconds: float = 0.31, losses: tuple[Loss, ...] = ()) -> ConversionReport:
    """Return the report of a conversion into these files, the last of which is the model."""
    written = tuple(WrittenFile(Path(name), nbytes) for name, nbytes in files)
    return ConversionReport(Path("m.onnx"), written[-1].path, "onnx", "rten", written, seconds, losses)


def test_summary_of_a_large_file_has_a_rate() -> None:
    """The first line has paths, size, time and rate."""
    assert ["m.onnx -> m.rten  410.2 MB, 0.31 s (1.3 GB/s)"] == summary(report(("m.rten", 410_200_000)))[:1]


def test_summary_of_a_small_file_has_no_rate() -> None:
    """The line for a small file has no rate, because it would mean nothing."""
    assert ["m.onnx -> m.rten  5.0 kB, 0.31 s"] == summary(report(("m.rten", 5000)))[:1]


def test_summary_names_few_companions_and_counts_many() -> None:
    """Up to two data files are named; if there are more, their number is shown; the size includes all of them."""
    assert (
        "m.onnx -> o.onnx + a.data + b.data  1.3 kB, 0.31 s"
        == summary(report(("a.data", 500), ("b.data", 500), ("o.onnx", 300)))[0]
    )
    three = report(("a.data", 1), ("b.data", 1), ("c.data", 1), ("o.onnx", 1))
    assert "m.onnx -> o.onnx + 3 data files  4 bytes, 0.31 s" == summary(three)[0]


def test_summary_has_a_line_for_each_loss_that_many_see() -> None:
    """Warnings come first, each on a line; then notes; what few see is counted, and so is what is too much."""
    rare = tuple(Loss("kind", "", f"loss {index}", RARE) for index in range(6))
    assert ["note: loss 0", "note: loss 1"] == summary(report(("m.rten", 1), losses=rare[:2]))[2:]
    assert [f"note: loss {index}" for index in range(5)] == summary(report(("m.rten", 1), losses=rare[:5]))[2:]
    assert ["note: loss 3", "note: and 2 more: --notes"] == summary(report(("m.rten", 1), losses=rare))[-2:]
    assert "note: loss 5" == summary(report(("m.rten", 1), losses=rare), notes=True)[-1]
    grave, special = Loss("kind", "", "inputs change", INTERFACE), Loss("kind", "", "NaN differs", SPECIAL)
    mixed = report(("m.rten", 1), losses=(rare[0], special, grave))
    gathered = "note: 1 about NaN, infinities or empty tensors: --notes"
    assert ["warning: inputs change", "note: loss 0", gathered] == summary(mixed)[2:]
    assert gathered not in summary(mixed, notes=True)
    assert "note: NaN differs" in summary(mixed, notes=True)


@pytest.mark.parametrize(
    ("seen", "same", "translated"),
    [
        ((), "the same model, unchanged", "computes the same, up to rounding"),
        ((DOCUMENTATION,), "the same model, unchanged", "computes the same, up to rounding"),
        ((INTERFACE,), "the same model, unchanged", "computes the same, up to rounding"),
        ((SPECIAL,), "the same model, unchanged", "computes the same, up to rounding"),
        ((SPECIAL, RARE), None, "differs: only in rare cases, which the notes name"),
        ((RARE, RANGE), None, "differs: only with numbers beyond the range that the warnings name"),
        ((RANGE, RESULTS), None, "differs: the warnings say how"),
    ],
)
def test_verdict_says_the_worst(seen: tuple[Seen, ...], same: str | None, translated: str) -> None:
    """The second line says whether the target computes the same, as far as the losses allow to say it."""
    losses = tuple(Loss("kind", "", "loss", value) for value in seen)
    plain = report(("m.rten", 1), losses=losses)
    assert same in (None, plain.verdict)
    assert translated == replace(plain, is_translated=True).verdict


def test_library_gives_the_same_answer() -> None:
    """`str` of a report has the lines of the command, and says where in the library the notes are."""
    told = report(("m.rten", 1), losses=(Loss("kind", "", "NaN differs", SPECIAL),))
    assert str(told) == "\n".join(summary(told)).replace("--notes", "report.losses")


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (FileNotFoundError(errno.ENOENT, "No such file or directory", "a"), "a: No such file or directory"),
        (
            OSError(errno.ENOSPC, "No space left on device"),
            "No space left on device; free some space, or write to another disk",
        ),
        (OSError("odd"), "odd"),
        (TruncatedError("needed 4 bytes, 2 left", path="a", file_offset=7), "a, at byte 7: needed 4 bytes, 2 left"),
        (OptionError("`size_threshold` cannot be used for RTen"), "--size-threshold cannot be used for RTen"),
        (OptionError("`external_data=False` and `checksum`"), "--no-external-data and --checksum"),
        (OptionError("`external_data=True` and `pin`"), "--external-data and --pin"),
        (
            OptionError("`external_data='w'`, `no_such` and `a name`"),
            "--external-data 'w', `no_such` and `a name`",
        ),
        (OptionError("`key` is needed"), "--key-file or --key-env or --ask-key is needed"),
        (LimitError("too deep; `max_depth` allows up to 250", path="m"), "m: too deep; --max-depth allows up to 250"),
        (MemoryError(), "there is not enough memory"),
    ],
)
def test_errors_are_described(error: BaseException, text: str) -> None:
    """Errors of the system, of a format and of options are reported without the names of Python's classes."""
    assert [text] == describe(error, WORDS)


def raised_texts() -> Iterator[str]:
    """Yield the text of each `raise` in the package that names something in backquotes."""
    for path in sorted(Path(formats.__file__).parent.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            for part in ast.walk(node) if isinstance(node, ast.Raise) else ():
                pieces = part.values if isinstance(part, ast.JoinedStr) else [part]
                known = [each.value if isinstance(each, ast.Constant) else "1" for each in pieces]
                text = "".join(map(str, known))
                if KEYWORD.search(text):
                    yield text


TEXTS = [*dict.fromkeys(raised_texts())]


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.name)
def test_a_command_names_options_by_their_flags(verb: Verb) -> None:
    """Every error that names an option by its keyword has its flag in a command, and no advice about one of others."""
    words = Request(verb, [], [], verb.groups(False)).words
    options = {name for kind in vars(keywords).values() for name in getattr(kind, "__annotations__", ())} | {"format"}
    assert len(TEXTS) > 80
    for text in TEXTS:
        first, *advice = in_flags(text, words).split("; ")
        assert not {match[1] for match in KEYWORD.finditer(first)} & words.rows.keys(), text
        assert not {match[1] for each in advice for match in KEYWORD.finditer(each)} & options, text


def test_remedy_is_offered_only_where_it_helps(tmp_path: Path) -> None:
    """`--force` is suggested if a file is in the way, not if it is something else."""
    path = tmp_path / "a"
    path.touch()
    assert describe(FileExistsError(errno.EEXIST, "File exists", str(path)), WORDS)[0].endswith("; --force replaces it")
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


def test_the_verdict_is_the_second_line() -> None:
    """Edits come after the verdict, in a line for each kind; many of a kind are counted, and `--notes` has them all."""
    edits = tuple(Edit("rename", f"x{number} is now y{number}") for number in range(26))
    edits += (Edit("opset", "operator set 22 -> 13"), Edit("metadata", "a"), Edit("metadata", "b"))
    told = replace(report(("m.onnx", 1)), edits=edits, dry_run=True)
    assert summary(told)[1] == "computes the same, up to rounding"
    assert [line for line in summary(told) if ": " in line] == [
        "edited: 26 names changed: --notes",
        "converted: operator set 22 -> 13",
        "edited: a; b",
    ]
    assert [line for line in summary(told, notes=True) if ": " in line][25:27] == [
        "edited: x25 is now y25",
        "converted: operator set 22 -> 13",
    ]
    assert replace(told, edits=(Edit("weights", "1 of 2"),)).verdict == "differs: the weights are new"
    assert replace(told, edits=(Edit("dtype", ""),)).verdict == "computes the same, up to rounding to float16"
    assert replace(told, edits=(Edit("in_place", ""),)).verdict == "the same model, unchanged"


def test_a_list_that_is_cut_is_whole_with_notes() -> None:
    """A sentence with a long list is cut and counted in the answer, and whole with `--notes` and in JSON."""
    loss = Loss("kind", "", "all of a, b, c", INTERFACE, short="all of a and 2 more")
    edit = Edit("dtype", "now FLOAT16: a, b, c", "now FLOAT16: a and 2 more")
    told = replace(report(("m.onnx", 1), losses=(loss,)), edits=(edit,))
    assert summary(told)[2:] == ["converted: now FLOAT16: a and 2 more", "warning: all of a and 2 more"]
    assert summary(told, notes=True)[2:] == ["converted: now FLOAT16: a, b, c", "warning: all of a, b, c"]
    found = told.to_json()
    assert (found["edits"][0]["detail"], found["losses"][0]["detail"]) == (edit.detail, loss.detail)
