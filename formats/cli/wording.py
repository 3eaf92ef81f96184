"""What the command says of reports and errors, as text and for programs. Nothing is printed here."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from formats.errors import FormatError
from formats.units import in_units

if TYPE_CHECKING:
    from collections.abc import Iterable

    from formats.conversion import ConversionReport

RATE_FROM_BYTES = 1_000_000  # below, a rate says more about the machine than about the conversion
COMPANIONS_IN_SUMMARY = 2
LOSSES_IN_SUMMARY = 3
FLAGS = {"external_data": "--external-data or --inline"}  # of options whose name is not that of the flag


def summary(report: ConversionReport) -> list[str]:
    """A line on what was written, and one on what was lost."""
    *companions, _ = report.files
    names = [file.path.name for file in companions]
    if len(names) > COMPANIONS_IN_SUMMARY:
        names = [f"{len(names)} data files"]
    size = in_units(report.nbytes)
    rate = f" ({in_units(report.nbytes / report.seconds)}/s)" if report.nbytes >= RATE_FROM_BYTES else ""
    files = " + ".join((str(report.destination), *names))
    lines = [f"{report.source} -> {files}  {size}, {report.seconds:.2f} s{rate}"]
    if report.losses:
        details = "; ".join(loss.detail for loss in report.losses[:LOSSES_IN_SUMMARY])
        more = len(report.losses) - LOSSES_IN_SUMMARY
        lines.append(f"note: {details}{f'; and {more} more (--json lists all)' if more > 0 else ''}")
    if report.notes:
        details = "; ".join(note.detail for note in report.notes)
        lines.append(f"note: passed over: {details}")
    return lines


def describe(error: BaseException) -> str:
    """The error in words for people."""
    if isinstance(error, OSError):
        words = error.strerror or str(error)
        if isinstance(error, FileExistsError) and Path(error.filename or "").is_file():
            words += "; --force replaces it"
        return f"{error.filename}: {words}" if error.filename else words
    if isinstance(error, MemoryError):
        return "there is not enough memory"
    if isinstance(error, FormatError) or not isinstance(error, Exception):
        return str(error)
    from formats.conversion import OptionError

    if isinstance(error, OptionError):
        flags = " and ".join(FLAGS.get(name) or f"--{name.replace('_', '-')}" for name in error.names)
        return f"{flags} cannot be used for {error.target}" if flags else str(error)
    return f"{type(error).__name__}: {error}; this is a mistake in the program, please report what --debug prints"


def error_to_json(error: BaseException) -> dict[str, Any]:
    """The error in words for programs."""
    path = getattr(error, "path", None) or getattr(error, "filename", None)
    return {
        "kind": type(error).__name__,
        "message": error.message if isinstance(error, FormatError) else describe(error),
        "path": None if path is None else str(path),
        "file_offset": getattr(error, "file_offset", None),
        "where": getattr(error, "where", None),
    }


def json_text(report: dict[str, Any]) -> str:
    """What programs get to read."""
    import json  # which nobody else needs

    return json.dumps(report, indent=2)


def printable(lines: Iterable[str]) -> str:
    """The lines in characters that a terminal shows and does not act on; file and node names can have any."""
    encoding = getattr(sys.stdout, "encoding", None) or "ascii"
    shown = (
        "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in line)
        for line in lines
    )
    return "\n".join(shown).encode(encoding, "backslashreplace").decode(encoding)
