"""Write two models as one; no weight is read."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from formats.codecs.contract import ReadOptions
from formats.editing.model_edits import merged
from formats.editing.options import MergeOptions
from formats.options import made, names_of
from formats.tensordata.file import or_stream
from formats.verbs.arguments import path_of
from formats.verbs.convert import Way, converted
from formats.verbs.steps.opening import open_model

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Unpack

    from formats.codecs.contract import Codec
    from formats.editing.edits import Done
    from formats.ir.model import Model
    from formats.keywords import MergeKeywords
    from formats.tensordata.sources.source import Source
    from formats.verbs.arguments import AnyDestination, AnySource
    from formats.verbs.report import ConversionReport


def merge(
    first: AnySource,
    second: AnySource,
    dst: AnyDestination,
    *,
    from_format: str | None = None,
    to_format: str | None = None,
    strict: bool = False,
    allow: Sequence[str] | None = None,
    lenient: bool = False,
    options: object = None,
    **keywords: Unpack[MergeKeywords],
) -> ConversionReport:
    """Write the models in the files `first` and `second` as one to `dst`; `connect` says which outputs are inputs.

    Outputs that are connected are no outputs of the new model. Names of the second model that meet those of the first
    one get a number, or all of them a `prefix`. Weights that are the same bytes of the same file are stored once. Other
    keywords and `options` are those of `convert`.

    Raises: EditError for an unknown name, or for models that do not fit each other; others as `convert` does. If it
    raises, nothing was written.
    """
    given: dict[str, Any] = {**keywords}
    wanted = made(MergeOptions, {name: given.pop(name) for name in names_of(MergeOptions) & given.keys()})
    reading = made(ReadOptions, {name: given[name] for name in names_of(ReadOptions) & given.keys()})
    others: list[tuple[Source, Codec]] = []
    files: list[Any] = []
    path = or_stream(path_of(second))

    def change(model: Model) -> tuple[Model, Done]:
        opened = open_model(path, from_format, reading, lenient=lenient, key_is_for_it=False, called="from_format")
        others.append((opened.source, opened.codec))
        files.extend(opened.files(path))
        return merged(model, opened.model, wanted.connect or (), wanted.prefix or "", own=True)

    way = Way(merge, from_format, to_format, strict, allow, lenient, options, change, others)
    report = converted(first, dst, way, given)
    return replace(report, source_files=(*report.source_files, *files))
