"""The commands `formats` and `convert`. No other package knows of typer, of streams and of exit codes."""

from __future__ import annotations


def main() -> None:
    """The command `convert`, as a process of its own."""
    from formats.cli import process

    process.main("convert")


def formats() -> None:
    """The command `formats`, as a process of its own."""
    from formats.cli import process

    process.main("formats")
