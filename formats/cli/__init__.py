"""The commands `formats` and `convert`. No other package uses typer, streams or exit codes."""

from __future__ import annotations

from formats.collector import rest_in_command


def formats() -> None:
    """The command `formats`, as a process of its own."""
    rest_in_command()  # before the imports, which create many objects
    from formats.cli import process

    process.main("formats")


def convert() -> None:
    """The command `convert`, which is `formats convert`, as a process of its own."""
    rest_in_command()
    from formats.cli import process

    process.main("convert")
