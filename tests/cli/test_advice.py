"""Tests of help and of the answers to mistakes: each suggestion exists, and a word has one meaning."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from formats.cli import advice
from formats.cli.command_line import Verb, flags_of, panels
from formats.cli.verbs import VERBS
from tests import commands

BY_NAME = {verb.name: verb for verb in VERBS}
MOST_OPTIONS = 15
MOST_LINES = 45
# The verbs that write any format also have the options of the problems that the README names.
MORE_OPTIONS, MORE_LINES = {"convert": 22, "batch": 22}, {"convert": 66, "batch": 66, "edit": 50}
FLAGS = {verb.name: flags_of(group.options for group in verb.groups(False)) for verb in VERBS}
KNOWN = {name for table in FLAGS.values() for name in table} | {"--help", "--help-all", "--version"}
# Flags with several meanings, each for a reason.
MEANINGS = {
    "--out": "convert has one destination, a file or a folder; the others have a folder",
    "--force": "cp and mv also replace data files, but no files of others",
    "--runtime": "a verb that writes adapts the model to its runtime; one that reads says whether the runtime takes it",
    "--external-data": "share names the file that all models share",
    "--alignment": "share begins weights at pages",
    "--dim": "edit changes the model, inspect only what it shows of types and work",
    "--prefix": "merge puts it before the names of the second model",
}


# Help


@pytest.mark.sample(3)
@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.name)
def test_help_is_short(verb: Verb) -> None:
    """The help of a verb has few options and lines of 80 characters; examples and the documents are at its end."""
    done = commands.run("formats", verb.name, "--help")
    lines = done.stdout.splitlines()
    assert (0, "") == (done.exit_code, done.stderr)
    assert sum(len(options) for options in panels(verb.groups(False), common=True).values()) <= MORE_OPTIONS.get(
        verb.name, MOST_OPTIONS
    )
    assert len(lines) <= MORE_LINES.get(verb.name, MOST_LINES)
    assert max(map(len, lines)) <= 80
    project = (Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8")
    assert f'Documentation = "{lines[-1].strip()}"' in project
    end = [*verb.examples, "", "Documents:", lines[-1].strip()]
    assert [f"  {line}" if line and line[-1] != ":" else line for line in end] == lines[-len(end) :]


def test_the_options_of_the_problems_in_the_readme_are_in_the_help_of_convert() -> None:
    """`convert --help` has the options of the table in the README, and says which values stand for none."""
    text = commands.run("formats", "convert", "--help").stdout
    named = ("--runtime", "--opset", "--dtype", "--link", "--key-env", "--key-file", "--max-external-file-size")
    assert all(f"  {name}" in text for name in named)
    assert "by default, there is no limit" in text


@pytest.mark.sample(3)
@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.name)
def test_help_all_has_every_option(verb: Verb) -> None:
    """`--help-all` shows every flag of a verb, and the short help says how many there are."""
    whole, short = (commands.run("formats", verb.name, flag).stdout for flag in ("--help-all", "--help"))
    words = {*whole.replace(",", " ").split()}
    assert FLAGS[verb.name].keys() <= words
    shown = sum(len(options) for options in panels(verb.groups(True)).values())
    assert f"Show all {shown} options." in short


def test_verbs_are_listed_by_sections() -> None:
    """The help of `formats` has each verb on one line in its section; `--help-all` adds the help of each verb."""
    done = commands.run("formats", "--help")
    lines = done.stdout.splitlines()
    for verb in VERBS:
        (at,) = (number for number, line in enumerate(lines) if line.startswith(f"  {verb.name} "))
        assert verb.section in [line.rstrip(":") for line in lines[:at] if line.endswith(":")][-1]
        assert verb.summary.partition(".\n")[0] in lines[at]
    assert len(lines) <= MOST_LINES
    assert done == commands.run("formats", "help") == commands.run("formats", "-h") == commands.run("formats")
    whole = commands.run("formats", "--help-all").stdout
    assert whole.startswith(done.stdout)
    assert all(commands.run("formats", verb.name, "--help-all").stdout in whole for verb in VERBS)


def test_help_is_a_verb() -> None:
    """`formats help VERB` is `formats VERB --help`."""
    assert commands.run("formats", "help", "rm") == commands.run("formats", "rm", "--help")
    assert (
        commands.run("formats", "help", "info").stderr
        == "formats: error: there is no verb info; did you mean formats inspect?\n"
    )


# One word for one thing


def test_a_flag_means_the_same_everywhere() -> None:
    """A flag has the same keyword, kind and description in all verbs, unless it is listed with a reason."""
    found: dict[str, set[tuple[str, str, str]]] = {}
    for table in FLAGS.values():
        for name, (row, flag) in table.items():
            if flag.help:
                keyword = row.name.removeprefix("from_")  # `from_format` where there is a `to_format`, too
                found.setdefault(name, set()).add((keyword, flag.metavar, flag.help))
    several = {name for name, meanings in found.items() if len(meanings) > 1 and name.startswith("--")}
    assert several == MEANINGS.keys()
    letters: dict[str, set[str]] = {}
    for table in FLAGS.values():
        for _, flag in table.values():
            for letter in flag.names[:-1]:
                letters.setdefault(letter, set()).add(flag.names[-1])
    assert all(len(words) == 1 for words in letters.values()), letters


# Advice


def test_suggestions_exist() -> None:
    """Every suggested verb and option exists, and no word that exists everywhere is taken for another one."""
    for words, known in ((advice.MEANT_VERBS, BY_NAME.keys()), (advice.MEANT_OPTIONS, KNOWN)):
        for word, meant in words.items():
            assert " " in meant or meant in known, word
            assert {*re.findall(r"--[a-z][\w-]*", meant)} <= KNOWN
    assert not advice.MEANT_VERBS.keys() & BY_NAME.keys()
    for name in advice.MEANT_OPTIONS:
        assert not all(name in table for table in FLAGS.values()), name


@pytest.mark.parametrize(("word", "meant"), advice.MEANT_VERBS.items())
def test_verbs_are_suggested_by_meaning(word: str, meant: str) -> None:
    """A word for what a verb does gives one line with this verb, or with what to do instead."""
    done = commands.run("formats", word, "a.onnx")
    wanted = meant if " " in meant else f"did you mean formats {meant}?"
    assert (2, "", f"formats: error: there is no verb {word}; {wanted}\n") == done


@pytest.mark.parametrize("flags", [["-o"], ["--out"], ["--threads", "1", "-o"]])
def test_destination_can_be_an_option(flags: list[str], tiny_model: Path, tmp_path: Path) -> None:
    """`convert MODEL -o NEW` is `convert MODEL NEW`, also with options whose text is optional."""
    for number, others in enumerate(([], ["--external-data"], ["--external-data", "w.data"])):
        target = tmp_path / f"{number}" / "a.onnx"
        done = commands.run("convert", tiny_model, *flags, target, "--parents", *others)
        assert (0, "") == (done.exit_code, done.stderr)
        assert target.exists()
        assert (target.parent / "w.data").exists() == ("w.data" in others)
