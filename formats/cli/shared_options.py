"""Options of several verbs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from formats.cli.command_line import Group
from formats.cli.printing import show
from formats.codecs.lookup import FORMAT
from formats.errors import OptionError
from formats.options import SWITCH, option

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import TextIO

    from formats.cli.command_line import Request


class Report(Protocol):
    """The result of a verb."""

    def to_json(self) -> dict[str, Any]:
        """The result in strings, numbers, lists and dictionaries."""


@dataclass(frozen=True, slots=True)
class OutputOptions:
    """How a verb prints its result."""

    quiet: bool = option(False, SWITCH, "Print nothing but errors.", short="-q")
    json: bool = option(False, SWITCH, "Print a report in JSON, also for errors.", common=True)
    debug: bool = option(False, SWITCH, "Print the traceback of an error.")


@dataclass(frozen=True, slots=True)
class NoteOptions:
    """Which notes a verb prints."""

    notes: bool = option(False, SWITCH, "Print every note of the report on a line of its own.", common=True)


@dataclass(frozen=True, slots=True)
class FileOptions:
    """The format of a file that a verb reads."""

    format: str | None = option(None, FORMAT, "The format to read, if the content does not show it.", flag="--from")


def groups(*options: type) -> Callable[[bool], Sequence[Group]]:
    """A function that returns these classes of options as a verb's groups."""
    return lambda of_all_packages: [*map(Group, options)]


def how_to_tell(request: Request) -> dict[str, Any]:
    """The options for the output of a verb. Raises: OptionError if they contradict each other."""
    output = request.of(OutputOptions)
    if output.get("quiet") and output.get("json"):
        raise OptionError("`quiet` and `json` exclude each other")
    return output | request.of(NoteOptions)


def tell(
    output: Mapping[str, Any], report: Report, lines: Callable[[], Iterable[str]], stream: TextIO | None = None
) -> None:
    """Print a result as `output` says: not at all, as JSON, or in lines; on stdout by default."""
    if not output.get("quiet"):
        show(report.to_json() if output.get("json") else lines(), stream)
