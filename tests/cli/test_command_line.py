"""Tests of parsing: an ordinary command line means the same to our parser and to typer; both use one table of rows."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from dataclasses import make_dataclass
from pathlib import Path
from typing import Any

import commands
import pytest

import formats
from formats.cli import typer_commands
from formats.cli.command_line import Request, Typed, Verb, flags_of, parse
from formats.cli.verbs import VERBS
from formats.codecs import lookup
from formats.errors import OptionError
from formats.options import SWITCH, Flag, Row, count, option, rows_of, settle, size
from formats.tensordata.plan import FilePlan, PlacedWrite, WritePlan
from formats.tensordata.source import Literal

BY_NAME = {verb.name: verb for verb in VERBS}
SEEDS = range(150)
OTHER_WORDS = {  # the flags of keywords that have another word there
    "from_format": "--from",  # `from` cannot be a keyword in Python
    "to_format": "--to",
    "format": "--from",  # the same as in `convert`
    "overwrite": "--force",  # the word of cp and mv, which have it as -f, too
}
ODD = [
    "--",
    "-",
    "--nonsense",
    "-x",
    "--threads",
    "--external-data",
    "--json=1",
    "-fq",
    "-qf",
    "",
    "-1",
    "--from=",
    "-f",
]


def table(verb: Verb) -> dict[str, tuple[Row, Flag]]:
    """The flags of a verb by name."""
    return flags_of(group.options for group in verb.groups(False))


def by_typer(verb: Verb, texts: list[str]) -> Typed | None:
    """Return how typer understands the texts, or nothing if it refuses them."""
    found: list[Request] = []
    try:
        typer_commands.run("convert", texts, [verb], lambda _, request: found.append(request), lambda: None)
    except OptionError:
        return None
    return Typed(found[0].arguments, found[0]._flags) if found else None


def meaning(verb: Verb, typed: Typed | None) -> Any:
    """Return what was understood, independent of the order of flags and of which name of a flag was used."""
    if typed is None:
        return None
    names: dict[tuple[str, ...], list[str | None]] = {}
    for name, text in typed.flags:
        names.setdefault(table(verb)[name][1].names, []).append(text or None)
    return typed.arguments, {key: texts if any(texts) else [None] for key, texts in names.items()}


def random_line(rng: random.Random, verb: Verb) -> list[str]:
    """Return a command line with flags in any order and form, arguments between them, and sometimes a mistake."""
    words: list[str] = []
    for _ in range(rng.randrange(5)):
        name = rng.choice([*table(verb)])
        flag = table(verb)[name][1]
        if flag.takes_text:
            text = rng.choice(["1", "x", "64K", "-1", ""])
            words += [f"{name}={text}"] if name.startswith("--") and rng.random() < 0.5 else [name, text]
        elif flag.text_is_optional and rng.random() < 0.3:
            words.append(f"{name}=w.data")
        else:
            words.append(name)
    for argument in verb.arguments if rng.random() < 0.9 else ("a", "b", "c"):
        words.insert(rng.choice([0, len(words)]), f"{argument.lower()}.onnx")
    if rng.random() < 0.3:
        words.insert(rng.randrange(len(words) + 1), rng.choice(ODD))
    return words


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.name)
def test_what_is_plain_is_understood_as_by_typer(verb: Verb) -> None:
    """Random command lines mean the same to both parsers, and our parser accepts nothing that typer refuses."""
    plain = 0
    for seed in SEEDS:
        texts = random_line(random.Random(f"{verb.name} {seed}"), verb)
        try:
            ours = parse(texts, verb, verb.groups(False))
        except OptionError:
            assert by_typer(verb, texts) is None, texts
            continue
        if ours is not None:
            plain += 1
            assert meaning(verb, by_typer(verb, texts)) == meaning(verb, ours), texts
    assert plain > len(SEEDS) / 3


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
    assert (2, "", f"{program}: error: SRC and DST are missing\n") == done
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

    codec = lookup.built_in()[0]._replace(
        name="theirs", title="Theirs", extensions=(".thx",), options=options, plan=plan
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
    codec = lookup.built_in()[0]._replace(
        name="x", title="X", extensions=(".x",), options=their_options(**{name: option(False, SWITCH, "No.")})
    )
    codecs = (*lookup.built_in(), codec)
    monkeypatch.setattr(lookup, "codecs", lambda: codecs)
    assert 0 == commands.run("convert", tiny_model, tmp_path / "a.onnx").exit_code
    done = commands.run("convert", "--help")
    assert (2, f"convert: error: X cannot have the option --{name}, which every format has\n") == (
        done.exit_code,
        done.stderr,
    )
