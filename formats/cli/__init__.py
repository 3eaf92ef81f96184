"""The commands `convert` and `formats`. No other package knows of typer, of streams and of exit codes."""

from __future__ import annotations


def main() -> None:
    """The command `convert`, as a process of its own."""
    from formats.cli import process

    process.main()
