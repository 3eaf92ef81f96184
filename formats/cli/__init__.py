"""The commands `formats` and `convert`. No other package knows of typer, of streams and of exit codes."""

from __future__ import annotations


def formats() -> None:
    """The command `formats`, as a process of its own."""
    from formats.cli import process

    process.main("formats")


def convert() -> None:
    """The command `convert`, which is `formats convert`, as a process of its own."""
    from formats.cli import process

    process.main("convert")
