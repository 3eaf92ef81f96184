"""Functions of the library say which options they have: in `help`, in signatures, and to editors."""

from __future__ import annotations

import inspect
import re
from typing import Any

import pytest

import formats
from formats import keywords as declared
from formats.codecs import lookup
from formats.options import option_rows
from formats.signatures import keywords_of, option_classes

FUNCTIONS = {name: each for name in dir(formats) if inspect.isfunction(each := getattr(formats, name))}
WITH_OPTIONS = {name: function for name, function in FUNCTIONS.items() if keywords_of(function)}


def test_the_functions_with_options_are_known() -> None:
    """All functions that accept any keyword declare which, except where they are those of onnxruntime or of a node."""
    flexible = {name for name, function in FUNCTIONS.items() if function.__code__.co_flags & inspect.CO_VARKEYWORDS}
    assert flexible - {"onnxruntime_session", "make_node"} == WITH_OPTIONS.keys()
    assert {"load", "save", "loads", "dumps", "convert", "convert_many", "share", "verify"} <= WITH_OPTIONS.keys()


@pytest.mark.parametrize("name", WITH_OPTIONS)
def test_a_signature_has_all_options(name: str) -> None:
    """A signature names each option that type checkers accept, with the default of its class, and no other."""
    function = WITH_OPTIONS[name]
    parameters = inspect.signature(function).parameters
    keywords = keywords_of(function)
    accepted = getattr(declared, keywords).__annotations__.keys()
    own = {*inspect.getfullargspec(inspect.unwrap(function)).args, *(function.__kwdefaults__ or {})}
    assert own | accepted == parameters.keys()
    defaults: dict[str, list[Any]] = {}
    for options in option_classes(lookup.built_in())[keywords]:
        for row in option_rows(options):
            defaults.setdefault(row.name, []).append(row.default)
    for option in accepted:
        assert parameters[option].kind == inspect.Parameter.KEYWORD_ONLY
        assert option in own or parameters[option].default in defaults[option]


@pytest.mark.parametrize("name", WITH_OPTIONS)
def test_help_explains_all_options(name: str) -> None:
    """`help` has a line for each option, which begins with its name and a value."""
    function = WITH_OPTIONS[name]
    listed = re.findall(
        r"^    (\w+)(?:=[^:]*)?: \S", (inspect.getdoc(function) or "").partition("Options:")[2], re.MULTILINE
    )
    assert getattr(declared, keywords_of(function)).__annotations__.keys() <= set(listed)


def test_help_of_the_interpreter_shows_options(capsys: pytest.CaptureFixture[str]) -> None:
    """What `help(formats.convert)` prints has the signature and the meaning of the options."""
    help(formats.convert)
    text = capsys.readouterr().out
    assert "overwrite: 'bool' = False" in text
    assert "overwrite=True: Replace files that exist." in text
