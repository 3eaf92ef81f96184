"""Errors of the system name a file that the user knows, and say what to do, in the library and in the command."""

from __future__ import annotations

import errno
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import formats
from formats import errors
from formats.cli.error_text import describe
from formats.errors import FormatError

CODES = ["EMFILE", "EFBIG", "ENOMEM", "ENOSPC", "EDQUOT", "EROFS", "ENAMETOOLONG", "ELOOP", "EIO"]
CALLS = ["open", "link", "rename", "replace", "mkdir", "pwrite", "preadv", "posix_fallocate", "fsync"]
VERBS: dict[str, Callable[[Path, Path], Any]] = {
    "load": lambda source, new: formats.load(source),
    "convert": lambda source, new: formats.convert(source, new, parents=True),
    "data": lambda source, new: formats.convert(source, new, parents=True, external_data=True, size_threshold=0),
    "replace": lambda source, new: formats.convert(source, source, overwrite=True, backup=True),
    "cp": lambda source, new: formats.cp(source, new, parents=True),
    "mv": lambda source, new: formats.mv(source, new, parents=True),
    "share": lambda source, new: formats.share([source, source.with_name("b.onnx")], new.parent),
    "inspect": lambda source, new: formats.inspect(source),
    "verify": lambda source, new: formats.verify(source),
}


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("call", "code"),
    [
        (call, code)
        for call in CALLS
        for code in (CODES if call == "open" else CODES[:1] + CODES[-2:])
        if hasattr(os, call)
    ],
)
@pytest.mark.parametrize("verb", VERBS)
def test_every_error_says_where_and_what_to_do(
    verb: str, code: str, call: str, digits: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever call fails: the error has a path that is not hidden and the remedy, also as a pickle and a command."""
    formats.convert(digits, digits.with_name("b.onnx"))
    number = getattr(errno, code)
    real = getattr(os, call)

    def fail(place: Any, *arguments: Any, **options: Any) -> Any:
        if isinstance(place, int):
            raise OSError(number, os.strerror(number))
        if str(digits.parent) in os.fspath(place):
            raise OSError(number, os.strerror(number), os.fspath(place))
        return real(place, *arguments, **options)

    monkeypatch.setattr(os, call, fail)
    try:
        VERBS[verb](digits, digits.parent / "new" / "a.onnx")
    except FormatError as error:
        monkeypatch.undo()
        assert "\n" not in str(error)
    except OSError as error:
        monkeypatch.undo()
        words = errors.words_of(OSError(number, os.strerror(number)))
        assert words is not None
        assert words == error.strerror
        assert isinstance(error.filename, str)
        assert str(digits.parent) in error.filename
        assert not Path(error.filename).name.startswith(".")
        assert str(error) == str(pickle.loads(pickle.dumps(error)))
        (line,) = describe(error)
        assert words in line
        assert line.count(words) == 1
    else:
        monkeypatch.undo()  # the call was not needed, or there is another way


def test_words_of_our_own_stay() -> None:
    """An error with words that we wrote, or without a remedy, keeps its words."""
    for error in (
        FileExistsError(errno.EEXIST, "File exists; `overwrite=True` replaces it", "a"),
        PermissionError(errno.EACCES, os.strerror(errno.EACCES), "a"),
        OSError(errno.ENOSPC, "the store is full", "a"),
    ):
        before = str(error)
        errors.explain(error)
        assert before == str(error)
