"""The options of verbs that read one model and write another: of every conversion, and of the formats."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from formats.cli import several
from formats.cli.command_line import Group, ask_key, flags_of
from formats.cli.shared_options import NoteOptions, OutputOptions
from formats.codecs.contract import ReadOptions
from formats.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from formats.cli.command_line import Request
    from formats.codecs.contract import Codec


def conversion_groups(
    of_all_packages: bool, first: Sequence[type], more: Sequence[type] = (), *, in_short: bool = True
) -> list[Group]:
    """The options of a verb that converts: its own, which come `first`, those of every conversion, and of formats.

    Those of formats, versions and keys are `in_short`, or only `--help-all` shows them; those of metadata are in short
    for the verbs that have others in long. If an option of a format has the flag of one that comes first, only the
    latter counts.
    """
    from formats.codecs import lookup
    from formats.tensordata.engine import EngineOptions
    from formats.verbs.choices import (
        ConversionOptions,
        MetadataOptions,
        RaisingOptions,
        ReplacementOptions,
        RuntimeOptions,
    )

    codecs = lookup.codecs() if of_all_packages else lookup.built_in()
    extensions: dict[type, tuple[str, ...]] = {}
    for codec in codecs:
        extensions[codec.options] = (*extensions.get(codec.options, ()), codec.extensions[0])
    general = (ConversionOptions, RuntimeOptions, EngineOptions, ReplacementOptions, OutputOptions, NoteOptions)
    own = (*general, *more, ReadOptions)
    _check_names((MetadataOptions, *own), codecs)
    of_formats = (Group(*item, in_short=in_short) for item in extensions.items())
    metadata = Group(MetadataOptions, in_short=not in_short)
    of_all = (Group(each, in_short=in_short or each not in (RuntimeOptions, ReadOptions)) for each in own)
    return [*map(Group, first), metadata, *of_all, *of_formats, Group(RaisingOptions)]


def _check_names(own: Sequence[type], codecs: Iterable[Codec]) -> None:
    """Raises OptionError if a format has an option whose flag means something else for every format."""
    taken = flags_of(own)
    for codec in codecs:
        if clash := taken.keys() & flags_of([codec.options]):
            raise OptionError(f"{codec.title} cannot have the option {min(clash)}, which every format has")


def conversion_keywords(request: Request, target: Codec, first: Sequence[type] = ()) -> dict[str, Any]:
    """The keywords of `convert` that were given, and those of the options that come `first`."""
    from formats.tensordata.engine import EngineOptions
    from formats.verbs.choices import (
        ConversionOptions,
        MetadataOptions,
        RaisingOptions,
        ReplacementOptions,
        RuntimeOptions,
    )

    changes = (*first, MetadataOptions)
    general = (*changes, ConversionOptions, RuntimeOptions, EngineOptions, ReplacementOptions, RaisingOptions)
    own = (OutputOptions, NoteOptions, several.SeveralOptions, several.BatchOptions, several.DestinationOptions)
    request.of(*general)  # an error in these is reported before a key is asked for
    request.ask = partial(ask_key, twice=target.encrypted)
    of_formats = (ReadOptions, target.options, *request.classes_but(*general, ReadOptions, *own))
    return request.of(*general, *of_formats)
