"""Errors of the library say which keyword helps, as those of the command say which option."""

from __future__ import annotations

import errno
import inspect
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import formats
from formats.cli.command_line import flags_of
from formats.cli.verbs import VERBS

WRITERS: dict[str, Callable[[Path, Path], Any]] = {
    "convert": lambda source, target: formats.convert(source, target),
    "dry run": lambda source, target: formats.convert(source, target, dry_run=True),
    "several files": lambda source, target: formats.convert(source, target, external_data=True, size_threshold=0),
    "save": lambda source, target: formats.save(formats.load(source), target),
    "cp": lambda source, target: formats.cp(source, target),
    "mv": lambda source, target: formats.mv(source, target),
    "share": lambda source, target: formats.share([source, source.with_name("b.onnx")], target.parent),
    "link": lambda source, target: formats.link(source.with_name("c.onnxz"), target),
}


@pytest.fixture
def source(digits: Path) -> Path:
    """A model, a second one, and an archive in its folder."""
    formats.convert(digits, digits.with_name("b.onnx"))
    formats.convert(digits, digits.with_name("c.onnxz"))
    return digits


@pytest.mark.parametrize("writer", WRITERS)
def test_a_file_in_the_way(writer: str, source: Path, tmp_path: Path) -> None:
    """The error for an existing file names `overwrite=True`, and has the number and the path of the system's error."""
    folder = source.parent if writer == "link" else tmp_path / "out"
    folder.mkdir(exist_ok=True)
    target = folder / (source.name if writer == "share" else "there.onnx")
    target.write_bytes(b"mine")
    with pytest.raises(FileExistsError, match="`overwrite=True` replaces it") as caught:
        WRITERS[writer](source, target)
    assert (errno.EEXIST, str(target)) == (caught.value.errno, caught.value.filename)
    assert os.strerror(errno.EEXIST) in str(caught.value)
    assert str(caught.value) == str(pickle.loads(pickle.dumps(caught.value)))
    assert b"mine" == target.read_bytes()


@pytest.mark.parametrize("writer", [name for name in WRITERS if name != "link"])
def test_a_missing_folder(writer: str, source: Path, tmp_path: Path) -> None:
    """The error for a missing folder names `parents=True`, and has its path."""
    folder = tmp_path / "missing" / ("shared" if writer == "share" else "")
    with pytest.raises(FileNotFoundError, match="no such directory; `parents=True` makes it") as caught:
        WRITERS[writer](source, folder / "new.onnx")
    assert (errno.ENOENT, str(tmp_path / "missing")) == (caught.value.errno, caught.value.filename)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "convert": lambda path, **given: formats.convert(path, path.with_name("new.onnx"), **given),
    "batch": lambda path, **given: formats.convert_many([(path, path.with_name("new.onnx"))], **given),
    "share": lambda path, **given: formats.share([path, path], path.parent, **given),
    "cp": lambda path, **given: formats.cp(path, path.with_name("new.onnx"), **given),
    "mv": lambda path, **given: formats.mv(path, path.with_name("new.onnx"), **given),
    "inspect": lambda path, **given: formats.inspect(path, **given),
    "verify": lambda path, **given: formats.verify(path, **given),
    "diff": lambda path, **given: formats.diff(path, path, **given),
    "files": lambda path, **given: formats.files(path, **given),
}


@pytest.mark.parametrize("verb", FUNCTIONS)
def test_words_of_the_command_line(verb: str, source: Path) -> None:
    """A word of the command line that is another keyword in the library gives an error that names the keyword."""
    (found,) = (each for each in VERBS if each.name == verb)
    possible = inspect.signature(getattr(formats, "convert_many" if verb == "batch" else verb)).parameters
    before = sorted(source.parent.iterdir())
    tried = set()
    for row, flag in flags_of(group.options for group in found.groups(False)).values():
        word = flag.names[-1].lstrip("-").replace("-", "_")
        if row.name not in possible or word in possible or row.name in ("onnx_hash", "dedup"):
            continue
        tried.add(word)
        with pytest.raises(
            formats.OptionError, match=rf"there is no option `{word}`.*; did you mean `{row.name}(=\w+)?`\?"
        ):
            FUNCTIONS[verb](source, **{word: True})
    assert {"key_file"} <= tried or verb in ("cp", "mv")
    assert {"force"} <= tried or "overwrite" not in possible
    assert before == sorted(source.parent.iterdir())


def test_keywords_of_the_function_itself_are_suggested(source: Path) -> None:
    """A mistyped keyword that only this function has gives an error with the right one."""
    calls = {
        "strict": FUNCTIONS["convert"],
        "storage": FUNCTIONS["diff"],
        "lenient": formats.load,
        "format": formats.load,
    }
    for name, function in calls.items():
        with pytest.raises(formats.OptionError, match=f"did you mean `{name}`"):
            function(source, **{name[:-1]: True})
