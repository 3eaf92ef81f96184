"""Tests of parsing: what typer and the table of rows understand of a command line."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import make_dataclass
from pathlib import Path
from typing import Any

import pytest

import formats
from formats.cli import typer_commands
from formats.cli.command_line import Request, Verb, flags_of
from formats.cli.typer_commands import understood
from formats.cli.verbs import VERBS
from formats.codecs import lookup
from formats.codecs.contract import DataFileOptions
from formats.errors import OptionError
from formats.options import SWITCH, Flag, OptionRow, count, option, option_rows, settle, size
from formats.tensordata.plan import FilePlan, PlacedWrite, WritePlan
from formats.tensordata.sources.source import Literal
from tests import commands
from tests.changed_codecs import changed

OTHER_WORDS = {  # the flags of keywords that have another word there
    "from_format": "--from",  # `from` cannot be a keyword in Python
    "to_format": "--to",
    "format": "--from",  # the same as in `convert`
    "overwrite": "--force",  # the word of cp and mv, which have it as -f, too
}


def table(verb: Verb) -> dict[str, tuple[OptionRow, Flag]]:
    """The flags of a verb by name."""
    return flags_of(group.options for group in verb.groups(False))


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.name)
def test_every_keyword_has_its_flag(verb: Verb) -> None:
    """The flag of every option is its name in the library with dashes, apart from a few, each for a reason."""
    for group in verb.groups(False):
        for row in option_rows(group.options):
            if row.flags and row.name != "key":  # a key is never typed on a command line
                assert OTHER_WORDS.get(row.name, f"--{row.name.replace('_', '-')}") in table(verb)


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.name)
def test_every_flag_has_one_long_name(verb: Verb) -> None:
    """A flag has one word, and perhaps a letter for it."""
    for _, flag in table(verb).values():
        *letters, word = flag.names
        assert word.startswith("--"), flag.names
        assert all(len(letter) == 2 for letter in letters), flag.names
        assert len(letters) < 2


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.name)
def test_every_verb_is_a_function_of_the_library(verb: Verb) -> None:
    """A verb has the same name in the command and in the library, unless the library does something else."""
    without = {"batch": "convert_many gets a list of jobs instead of folders", "completion": "it is for shells"}
    assert (verb.name in dir(formats)) != (verb.name in without)


def request_of(line: str) -> Request:
    """Return the request of a command line of `formats`."""
    request = understood("formats", line.split())
    assert request is not None
    return request


def given(line: str) -> dict[str, Any]:
    """Return the options of a command line, by keyword."""
    request = request_of(line)
    return request.of(*(group.options for group in request.verb.groups(False)))


def test_the_last_of_a_flag_counts() -> None:
    """A repeated flag replaces its earlier value, except for flags that collect values."""
    line = "convert a b --threads 1 --threads=2 --pin a=int64 --pin b=bool --pin a=bool"
    assert {"threads": 2, "pin": {"a": "bool", "b": "bool"}} == given(line)


@pytest.mark.parametrize(
    ("line", "arguments", "options"),
    [
        ("convert -qf a b -ow -n", ["a", "b"], {"quiet": True, "overwrite": True, "out": "w", "dry_run": True}),
        ("convert --threads 2 -- -a --b", ["-a", "--b"], {"threads": 2}),
        ("convert - - --to onnx", ["-", "-"], {"to_format": "onnx"}),
        ("convert a.onnx b.onnx --external-data", ["a.onnx", "b.onnx"], {"external_data": True}),
        ("convert a.onnx b.onnx --external-data w.data", ["a.onnx", "b.onnx"], {"external_data": "w.data"}),
        ("convert a.onnx b.onnx --external-data=w.onnx", ["a.onnx", "b.onnx"], {"external_data": "w.onnx"}),
        ("convert --external-data a.onnx b.onnx", ["a.onnx", "b.onnx"], {"external_data": True}),
        ("convert --external-data w.data a.onnx b.onnx", ["a.onnx", "b.onnx"], {"external_data": "w.data"}),
        ("convert a.onnx --external-data w -o b", ["a.onnx"], {"external_data": "w", "out": "b"}),
        ("inspect a.onnx --params --nodes", ["a.onnx"], {"params": 1, "nodes": True}),
        ("inspect --params 2 --nodes Conv* a.onnx", ["a.onnx"], {"params": 2, "nodes": "Conv*"}),
        ("inspect --nodes a.onnx", ["a.onnx"], {"nodes": True}),
        (
            "edit a b --metadata x=--nodes --metadata --force=1",
            ["a", "b"],
            {"metadata": {"x": "--nodes", "--force": "1"}},
        ),
    ],
)
def test_words_are_understood(line: str, arguments: list[str], options: dict[str, Any]) -> None:
    """Letters together, texts after a space or an equals sign, `--`, `-` and texts that may be left out."""
    assert (arguments, options) == (request_of(line).arguments, given(line))


def test_only_the_typed_verb_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command line makes one command of typer, with the options of the built-in formats."""
    made = []
    make = typer_commands.command_of
    monkeypatch.setattr(
        typer_commands, "command_of", lambda verb, *rest: made.append((verb.name, *rest)) or make(verb, *rest)
    )
    monkeypatch.setattr(lookup, "codecs", lambda: pytest.fail("other packages are searched"))
    assert request_of("convert a.onnx b.rten --exact").words.typed == {"exact": "--exact"}
    assert made == [("convert", False)]


@pytest.mark.parametrize(("line", "quiet", "force"), [("-qf", "-q", "-f"), ("--quiet --force", "--quiet", "--force")])
def test_an_error_has_the_flag_as_it_was_typed(line: str, quiet: str, force: str) -> None:
    """An option is named by the word or the letter that was typed."""
    assert {"quiet": quiet, "overwrite": force} == request_of(f"convert a.onnx b.onnx {line}").words.typed


# Formats of other packages


def their_options(**fields: Any) -> type:
    """Return a class of options with these fields."""
    return make_dataclass(
        "TheirOptions",
        [(name, Any, field) for name, field in fields.items()],
        frozen=True,
        namespace={"__post_init__": lambda self: settle(self)},
    )


@pytest.fixture
def their_format(monkeypatch: pytest.MonkeyPatch) -> Iterable[list[Any]]:
    """Another package's format, with the options `level`, `alignment` and `index`; it records their values."""
    options = their_options(
        level=option(3, count(1, 9), "Press that hard, from 1 to 9."),
        index=option(False, SWITCH, "Add an index."),
        alignment=option(1, size(1, 8), "Put each of them at a multiple of SIZE, up to 8."),
    )
    seen: list[Any] = []

    def plan(model: Any, destination: Path, chosen: Any) -> WritePlan:
        seen.append(chosen)
        return WritePlan((FilePlan(destination, 2, (PlacedWrite(0, Literal(b"ok")),)),))

    facts = {"name": "theirs", "title": "Theirs", "extensions": (".thx",), "options": options}
    codec = changed(lookup.built_in()[0], **facts, plan=plan, data_files=lambda options: DataFileOptions())
    codecs = (*lookup.built_in(), codec)
    monkeypatch.setattr(lookup, "codecs", lambda: codecs)
    yield [seen, options]


def test_options_of_others_are_options(their_format: Any, tiny_model: Path, tmp_path: Path) -> None:
    """Options of another package's format are flags that are in the help, and keywords or an object in the library."""
    seen, options = their_format
    out = tmp_path / "a.thx"
    assert 0 == commands.run("convert", tiny_model, out, "--level", "9", "--index", "--alignment=8").exit_code
    assert options(level=9, index=True, alignment=8) == seen.pop()
    formats.convert(tiny_model, out, overwrite=True, level=4)
    assert options(level=4) == seen.pop()
    formats.convert(tiny_model, out, overwrite=True, options=options(index=True))
    assert options(index=True) == seen.pop()
    text = commands.run("formats", "convert", "--help-all").stdout
    assert "\nOptions for .thx:\n" in text
    assert "--level N Press that hard, from 1 to 9." in " ".join(text.split())
    assert "textproto, json, theirs" in " ".join(text.split())
    for flags, words in (
        (["--level", "10"], "--level is 10, but must be a whole number from 1 to 9"),
        (["--level", "x"], "--level is 'x', but must be a whole number from 1 to 9"),
        (["--alignment", "16"], "--alignment is 16, but must be a number of bytes from 1 to 8"),
        (["--exact"], "--exact cannot be used for Theirs"),
    ):
        done = commands.run("convert", tiny_model, out, "-f", *flags)
        assert (2, True) == (done.exit_code, words in done.stderr), done
    done = commands.run("convert", tiny_model, tmp_path / "a.onnx", "--level", "2")
    assert (2, "convert: error: --level cannot be used for ONNX protobuf\n") == (done.exit_code, done.stderr)
    with pytest.raises(OptionError, match="`options` is a OnnxOptions, but must be a TheirOptions"):
        formats.convert(tiny_model, out, overwrite=True, options=lookup.built_in()[0].options())
    with pytest.raises(OptionError, match="`level` is given twice"):
        formats.convert(tiny_model, out, overwrite=True, options=options(), level=1)


@pytest.mark.parametrize("name", ["quiet", "threads", "json"])
def test_flags_of_others_must_be_free(
    name: str, monkeypatch: pytest.MonkeyPatch, tiny_model: Path, tmp_path: Path
) -> None:
    """A format cannot have an option whose flag all formats have; this is reported, and other formats still work."""
    codec = changed(
        lookup.built_in()[0],
        name="x",
        title="X",
        extensions=(".x",),
        options=their_options(**{name: option(False, SWITCH, "No.")}),
    )
    codecs = (*lookup.built_in(), codec)
    monkeypatch.setattr(lookup, "codecs", lambda: codecs)
    assert 0 == commands.run("convert", tiny_model, tmp_path / "a.onnx").exit_code
    done = commands.run("convert", "--help")
    assert (2, f"convert: error: X cannot have the option --{name}, which every format has\n") == (
        done.exit_code,
        done.stderr,
    )
