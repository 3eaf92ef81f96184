"""The verbs of the commands, in the order of the help."""

from __future__ import annotations

from typing import TYPE_CHECKING

from formats.cli.command_line import OutputOptions, groups, verb
from formats.cli.converting_verbs import batch, convert, edit, extract, merge
from formats.cli.file_verbs import copy, files, move, pack, remove, repair, share, unpack
from formats.cli.looking_verbs import diff, inspect, verify
from formats.cli.streams import json_text, say
from formats.errors import OptionError

if TYPE_CHECKING:
    from formats.cli.command_line import Request

SHELLS = ("bash", "zsh", "fish")
COMPLETE = "_FORMATS_COMPLETE"  # the variable in which a script of typer asks for suggestions


@verb(
    "completion SHELL",
    """Print a script that completes `formats` in bash, zsh or fish.

    Add it to the start-up file of the shell: eval "$(formats completion bash)" into ~/.bashrc, eval
    "$(formats completion zsh)" into ~/.zshrc after compinit, formats completion fish | source into
    ~/.config/fish/config.fish.
    """,
    groups(OutputOptions),
    "Shell",
    examples=('eval "$(formats completion bash)"',),
    only_prints=True,
)
def completion(request: Request) -> int:
    """Print typer's script for a shell."""
    from typer.completion import get_completion_script  # type: ignore[attr-defined]  # it does not say that it exports it

    (shell,) = request.arguments
    if shell not in SHELLS:
        raise OptionError(f"SHELL is {shell!r:.40}, but must be one of {', '.join(SHELLS)}")
    script = get_completion_script(prog_name="formats", complete_var=COMPLETE, shell=shell)
    if request.output.get("json"):
        say(json_text({"shell": shell, "script": script}))
    elif not request.output.get("quiet"):
        say(script)
    return 0


VERBS = (
    convert,
    batch,
    edit,
    extract,
    merge,
    inspect,
    verify,
    diff,
    files,
    copy,
    move,
    remove,
    share,
    pack,
    unpack,
    repair,
    completion,
)
