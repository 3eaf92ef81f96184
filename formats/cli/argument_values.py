"""How the text of arguments becomes values."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from formats.cli.wording import describe
from formats.errors import FormatError

if TYPE_CHECKING:
    from formats.onnxpb.keys import Key

SIZE_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "KB": 10**3, "MB": 10**6, "GB": 10**9}


def attach_value(args: list[str], option: str, with_value: set[str]) -> list[str]:
    """The arguments with the value of `option` attached to it, an empty one where it has none.

    What follows the option is its value only where two other positional arguments, SRC and DST, are left. The options
    `with_value` are always followed by one.
    """
    if option not in args:
        return args
    positional, previous, options_end = [], "", False
    for index, arg in enumerate(args):
        if options_end or (not arg.startswith("-") and previous not in with_value):
            positional.append(index)
        options_end = options_end or arg == "--"
        previous = arg
    place = args.index(option)
    has_value = place + 1 in positional and len(positional) > 2
    value = args[place + 1] if has_value else ""
    return [*args[:place], f"{option}={value}", *args[place + 1 + has_value :]]


def parse_size(text: str) -> int:
    """The number of bytes that a text such as `64K` stands for."""
    digits = text.rstrip("KMGBkmgb")
    unit = SIZE_UNITS.get(text[len(digits) :].upper())
    if not (digits.isascii() and digits.isdecimal()) or unit is None:
        raise typer.BadParameter(f"{text!r} is not a size such as 4096, 64K or 1MB")
    return int(digits) * unit


def parse_count(text: str) -> int:
    """The whole number that a text stands for."""
    if not (text.isascii() and text.isdecimal()):
        raise typer.BadParameter(f"{text!r} is not a whole number")
    return int(text)


def parse_depth(text: str) -> int:
    """The number of messages within messages that a text stands for, where that is possible."""
    from formats.registry import ReadOptions

    try:
        return ReadOptions(max_depth=parse_count(text)).max_depth
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


def parse_format(text: str) -> str:
    """The name of a format that there is."""
    from formats import registry

    try:
        return registry.by_name(text).name
    except FormatError as error:
        raise typer.BadParameter(error.message) from error


def parse_metadata(text: str) -> dict[str, str]:
    """The strings of a JSON file by their keys."""
    import json

    try:
        metadata = json.loads(Path(text).read_bytes())
    except OSError as error:
        raise typer.BadParameter(describe(error)) from error
    except (ValueError, RecursionError) as error:
        raise typer.BadParameter(f"{text}: not JSON: {error}") from error
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise typer.BadParameter(f"{text}: expected a JSON object whose values are strings")
    return metadata


def parse_pins(texts: list[str]) -> dict[str, str]:
    """The types by name of what reads `NAME=TYPE`; a name may have equals signs in it."""
    pins = {}
    for text in texts:
        name, separator, type_name = text.rpartition("=")
        if not (separator and name and type_name):
            raise typer.BadParameter(f"{text!r} is not a name and a type such as input_ids=int64")
        pins[name] = type_name
    return pins


def read_key(file: str | None, variable: str | None) -> Key:
    """The key in a file or an environment variable, or else the one that is typed."""
    from formats.onnxpb.keys import Key

    if file is not None:
        return Key.from_file(file)
    if variable is not None:
        return Key.from_environment(variable)
    return Key.of(str(typer.prompt("Key", hide_input=True, err=True)))
