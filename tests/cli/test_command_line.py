"""Tests of parsing: an ordinary command line means the same to our parser and to typer; both use one table of rows."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Iterable
from dataclasses import make_dataclass
from pathlib import Path
from typing import Any

import commands
import pytest
from changed_codecs import changed
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import formats
from formats.cli import typer_commands
from formats.cli.command_line import Request, Typed, Verb, flags_of, parse
from formats.cli.verbs import VERBS
from formats.codecs import lookup
from formats.errors import OptionError
from formats.options import SWITCH, Flag, Row, count, option, rows_of, settle, size
from formats.tensordata.plan import FilePlan, PlacedWrite, WritePlan
from formats.tensordata.sources.source import Literal

BY_NAME = {verb.name: verb for verb in VERBS}
OTHER_WORDS = {  # the flags of keywords that have another word there
    "from_format": "--from",  # `from` cannot be a keyword in Python
    "to_format": "--to",
    "format": "--from",  # the same as in `convert`
    "overwrite": "--force",  # the word of cp and mv, which have it as -f, too
}


def table(verb: Verb) -> dict[str, tuple[Row, Flag]]:
    """The flags of a verb by name."""
    return flags_of(group.options for group in verb.groups(False))


def by_typer(verb: Verb, texts: list[str]) -> Typed | str:
    """Return how typer understands the texts, or the error; the help is an error, too."""
    found: list[Request] = []
    program, verbs, words = (
        ("convert", VERBS[:1], texts) if verb is VERBS[0] else ("formats", VERBS, [verb.name, *texts])
    )
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            typer_commands.run(program, words, verbs, lambda _, request: found.append(request), lambda: None)
    except OptionError as error:
        return str(error)
    return Typed(found[0].arguments, found[0]._flags) if found else "help"


def meaning(verb: Verb, typed: Typed) -> Any:
    """Return what was understood: the arguments, and for each flag its texts in order, by whichever of its names."""
    texts: dict[tuple[str, ...], list[str | None]] = {}
    for name, text in typed.flags:
        flag = table(verb)[name][1]
        texts.setdefault(flag.names, []).append(text)
        if not flag.metavar:
            texts[flag.names] = [None]  # to repeat a switch changes nothing
    return typed.arguments, texts


ARGUMENTS = ("a.onnx", "b.onnx", "models", "w.data", "-", "", "=", "a=b")
TEXTS = ("1", "x", "64K", "-1", "-", "--", "", "a=b", "=", "-q", "--json", "c.onnx")
MISTAKES = (
    "--",
    "-",
    "--nonsense",
    "--nonsense=1",
    "-X",
    "-x1",
    "--json=1",
    "--json=",
    "-q=",
    "-1",
    "---",
    "-qX",
    "--=",
)


def good_words_of(verb: Verb) -> st.SearchStrategy[list[str]]:
    """Lists of words for a flag as the help shows it."""
    flags = {name: flag for name, (_, flag) in table(verb).items()}
    attached = [f"{name}=" for name, flag in flags.items() if flag.metavar and name.startswith("--")]
    separate = [name for name, flag in flags.items() if flag.takes_text]
    alone = [name for name, flag in flags.items() if not flag.takes_text]
    text = st.sampled_from(TEXTS)
    forms = [st.sampled_from(alone).map(lambda name: [name])]
    forms += [st.tuples(st.sampled_from(attached), text).map(lambda both: ["".join(both)])] if attached else []
    forms += [st.tuples(st.sampled_from(separate), text).map(list)] if separate else []
    return st.one_of(forms)


def any_words_of(verb: Verb) -> st.SearchStrategy[list[str]]:
    """Lists of words for an argument, a flag in any form, or a mistake."""
    named = st.sampled_from([*table(verb)])
    letters = [name for name in table(verb) if len(name) == 2]
    text = st.sampled_from(TEXTS)
    return st.one_of(
        good_words_of(verb),
        named.map(lambda name: [name]),
        st.tuples(named, text).map(list),
        st.tuples(named, text).map(lambda both: ["=".join(both)]),
        st.tuples(st.sampled_from(letters), st.sampled_from(("", "=")), text).map(lambda three: ["".join(three)]),
        st.lists(st.sampled_from(letters), min_size=1, max_size=4).map(
            lambda each: ["-" + "".join(each).replace("-", "")]
        ),
        st.sampled_from(ARGUMENTS).map(lambda argument: [argument]),
        st.sampled_from(MISTAKES).map(lambda word: [word]),
    )


def lines_of(verb: Verb) -> st.SearchStrategy[list[str]]:
    """Command lines of a verb: with as many arguments as it has names and good flags between them, or with anything."""
    arguments = [[f"{name.strip('[].').lower()}.onnx"] for name in verb.arguments]

    def with_arguments(parts: list[list[str]]) -> st.SearchStrategy[list[list[str]]]:
        return st.permutations([*arguments, *parts])

    good = st.lists(good_words_of(verb), max_size=4).flatmap(with_arguments)
    mixed = st.lists(any_words_of(verb), max_size=4).flatmap(with_arguments)
    lines = st.one_of(good, mixed, st.lists(any_words_of(verb), max_size=6))
    return lines.map(lambda parts: [word for part in parts for word in part])


@pytest.mark.sample(3)
@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.name)
@pytest.mark.parametrize("lines", [10, pytest.param(300, marks=pytest.mark.outer)])
def test_both_parsers_take_each_line_alike(verb: Verb, lines: int) -> None:
    """Both parsers understand the same arguments and flags, or refuse alike; ours may leave a line to typer."""
    plain: list[list[str]] = []

    # Few lines are always the same: of new ones, by chance, too few may be plain. The outer ring draws new ones.
    @settings(max_examples=lines, derandomize=lines == 10, suppress_health_check=[*HealthCheck])
    @given(lines_of(verb))
    def alike(texts: list[str]) -> None:
        try:
            ours = parse(texts, verb, verb.groups(False))
        except OptionError as error:
            assert str(error) == by_typer(verb, texts)
            return
        if ours is not None:
            plain.append(texts)
            theirs = by_typer(verb, texts)
            assert isinstance(theirs, Typed), theirs
            assert meaning(verb, ours) == meaning(verb, theirs)

    alike()
    assert len(plain) > lines / 10


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.name)
def test_every_keyword_has_its_flag(verb: Verb) -> None:
    """The flag of every option is its name in the library with dashes, apart from a few, each for a reason."""
    for group in verb.groups(False):
        for row in rows_of(group.options):
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
    assert (verb.name in formats.__all__) != (verb.name in without)


@pytest.mark.sample(3)
@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.name)
def test_every_flag_is_in_the_help(verb: Verb) -> None:
    """The whole help of a verb names every flag of its rows."""
    words = commands.run("formats", verb.name, "--help-all").stdout.replace(",", " ").split()
    assert table(verb).keys() <= {*words}


def test_flags_of_one_option_exclude_each_other() -> None:
    """Two flags that contradict each other about one option are an error that names both as they were typed."""
    done = commands.run("convert", "a.onnx", "b.onnx", "--no-external-data", "--external-data")
    assert (2, "convert: error: --no-external-data and --external-data exclude each other\n") == (
        done.exit_code,
        done.stderr,
    )
    done = commands.run("convert", "a.onnx", "b.rten", "--onnx-hash", "--no-onnx-hash")
    assert (2, True) == (done.exit_code, "--onnx-hash and --no-onnx-hash exclude" in done.stderr)


def test_the_last_of_a_flag_counts() -> None:
    """A repeated flag replaces its earlier value, except for flags that collect values."""
    verb = BY_NAME["convert"]
    groups = verb.groups(False)
    texts = ["a", "b", "--threads", "1", "--threads=2", "--pin", "a=int64", "--pin", "b=bool", "--pin", "a=bool"]
    typed = parse(texts, verb, groups)
    assert typed is not None
    request = Request(typed, groups)
    values = request.of(*(group.options for group in groups))
    assert {"threads": 2, "pin": {"a": "bool", "b": "bool"}} == values


@pytest.mark.parametrize("program", ["formats", "convert"])
def test_missing_arguments_are_named(program: str) -> None:
    """Without arguments, `convert` reports an error, and `formats` prints its help."""
    done = commands.run(program, *(["convert"] if program == "formats" else []))
    assert (2, "", f"{program}: error: SRC and DST are missing; type formats convert SRC... DST\n") == done
    assert commands.run("formats") == commands.run("formats", "--help")


@pytest.mark.parametrize(
    "texts", [["a", "--nonsense"], ["a", "b", "c"], ["a", "b", "--threads"], ["a"], ["a", "b", "--no-external-data=1"]]
)
def test_mistakes_are_json_where_that_is_wanted(texts: list[str]) -> None:
    """With `--json`, an error in the command line is reported as JSON, too."""
    done = commands.run("convert", *texts, "--json")
    assert (2, "OptionError") == (done.exit_code, json.loads(done.stdout)["error"]["kind"])
    assert 1 == done.stderr.count("\n")


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

    codec = changed(
        lookup.built_in()[0], name="theirs", title="Theirs", extensions=(".thx",), options=options, plan=plan
    )
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
