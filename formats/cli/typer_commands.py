"""The commands and options of typer as they are here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

from formats.cli.argument_values import attach_value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

GENERAL = "Options"


class Conversion(NamedTuple):
    """How the text of an argument becomes its value; other values are what they should be."""

    parser: Callable[[str], Any]

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """The value that `value` stands for."""
        return self.parser(value) if isinstance(value, str) else value


def convert_without_pydantic(params: Iterable[Any]) -> None:
    """The text of the parameters is converted by our parsers alone.

    typer 0.29 imports pydantic to convert any text, which takes longer than a small conversion.
    """
    for param in params:
        if hasattr(param, "_runtime_param"):
            param._runtime_param = Conversion(param.type_descriptor.parameter_info.parser or str)


class CommandGroup(TyperGroup):
    """A command that consists of others."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse what stands in front of the command's name."""
        convert_without_pydantic(self.get_params(ctx))
        return super().parse_args(ctx, args)


class Command(TyperCommand):
    """A command, with an option whose value may be left out, and plain help with a section for each panel."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse `args` after `--external-data [NAME]` became `--external-data=[NAME]`."""
        convert_without_pydantic(self.get_params(ctx))
        options: list[Any] = [param for param in self.params if param.param_type_name == "option"]
        with_value = {flag for option in options if not getattr(option, "is_flag", False) for flag in option.opts}
        return super().parse_args(ctx, attach_value(list(args), "--external-data", with_value - {"--external-data"}))

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """What follows the command's name in the line on its usage."""
        return ["[OPTIONS]", *(param.metavar or "" for param in self.params if param.param_type_name == "argument")]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the help of all options; in our own words, so that it is the same with every version of typer."""
        from formats import registry

        formats = ", ".join(codec.name for codec in registry.built_in())
        panels: dict[str, list[tuple[str, str]]] = {}
        param: Any
        for param in self.get_params(ctx):
            if param.param_type_name == "option":
                flags = " / ".join(
                    ", ".join(sorted(names, key=len)) for names in (param.opts, param.secondary_opts) if names
                )
                record = (f"{flags} {param.metavar}" if param.metavar else flags, param.help.format(formats=formats))
                panels.setdefault(getattr(param, "rich_help_panel", None) or GENERAL, []).append(record)
        for panel, records in panels.items():
            with formatter.section(panel):
                formatter.write_dl(records)


def option(*flags: str, panel: str = GENERAL, **settings: Any) -> Any:
    """An option whose help shows no default: without it, the target's codec decides."""
    return typer.Option(*flags, rich_help_panel=panel, show_default=False, **settings)
