"""Write a part of a model, or one of its tensors; no weight is read."""

from __future__ import annotations

from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING, Any

from formats.codecs.contract import ReadOptions
from formats.codecs.lookup import by_name
from formats.editing.edits import Edit
from formats.editing.files.tensor_files import SUFFIXES, tensor_plan
from formats.editing.model_edits import part_of
from formats.editing.options import ExtractOptions
from formats.editing.weights import tensor_named
from formats.errors import OptionError
from formats.options import check_names, made, names_of
from formats.tensordata.engine import EngineOptions
from formats.tensordata.file import or_stream
from formats.tensordata.plan import WritePlan
from formats.verbs.arguments import path_of
from formats.verbs.choices import ConversionOptions, ReplacementOptions, check_replacement
from formats.verbs.convert import Way, converted
from formats.verbs.report import ConversionReport, WrittenFile
from formats.verbs.steps.executing import execute_plan
from formats.verbs.steps.opening import located, open_model
from formats.verbs.trust import permissions

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from typing_extensions import Unpack

    from formats.editing.edits import Done
    from formats.ir.model import Model
    from formats.keywords import ExtractKeywords
    from formats.verbs.arguments import AnyDestination, AnySource


def extract(
    src: AnySource,
    dst: AnyDestination,
    *,
    from_format: str | None = None,
    to_format: str | None = None,
    strict: bool = False,
    allow: Sequence[str] | None = None,
    lenient: bool = False,
    options: object = None,
    **keywords: Unpack[ExtractKeywords],
) -> ConversionReport:
    """Write the part of the model in `src` that computes `outputs` from `inputs` to `dst`, with all that it needs.

    Without one of them, those of the model count. With `tensor` instead, `dst` is a .npy or .safetensors file for the
    weight with this name. Other keywords and `options` are those of `convert`.

    Raises: EditError for an unknown name, or if an output needs something else than the inputs; others as `convert`
    does. If it raises, nothing was written.
    """
    given: dict[str, Any] = {**keywords}
    wanted = made(ExtractOptions, {name: given.pop(name) for name in names_of(ExtractOptions) & given.keys()})

    def change(model: Model) -> tuple[Model, Done]:
        return part_of(model, wanted.inputs, wanted.outputs)

    way = Way(extract, from_format, to_format, strict, allow, lenient, options, change)
    if wanted.tensor is not None:
        return _tensor(src, dst, wanted.tensor, way, given)
    if wanted.inputs is None and wanted.outputs is None:
        raise OptionError("name what to extract: `inputs`, `outputs` or a `tensor`")
    return converted(src, dst, way, given)


def _tensor(src: AnySource, dst: AnyDestination, name: str, way: Way, given: Mapping[str, Any]) -> ConversionReport:
    """Write one tensor."""
    started = perf_counter()
    path, destination = or_stream(path_of(src)), or_stream(path_of(dst))
    if destination.suffix.lower() not in SUFFIXES:
        raise OptionError(f"`tensor` is written to a {' or '.join(SUFFIXES)} file, and {destination.name} is none")
    for word, value in (("to_format", way.to_format), ("options", way.options)):
        if value is not None:
            raise OptionError(f"`{word}` is for models; a `tensor` has the format of its extension")
    ConversionOptions(way.from_format, None, way.strict, way.allow, way.lenient)
    check_names(given, (EngineOptions, ReplacementOptions, ReadOptions), " for a `tensor`", way.called)
    engine, replacement, reading = (
        made(EngineOptions, _of(EngineOptions, given)),
        made(ReplacementOptions, _of(ReplacementOptions, given)),
        made(ReadOptions, _of(ReadOptions, given)),
    )
    check_replacement(replacement, overwrite=engine.overwrite)
    opened = open_model(path, way.from_format, reading, lenient=way.lenient, called="from_format")
    with located(path):
        tensor = tensor_named(opened.model, name)
        allowed = permissions(opened.source, opened.codec, by_name("onnx"))
        plan = WritePlan((tensor_plan(tensor, name, destination),), permissions=allowed)
    plan, done = execute_plan(plan, engine, replacement)
    report = ConversionReport(
        source=path,
        destination=destination,
        source_format=opened.codec.name,
        target_format=destination.suffix.lower().removeprefix("."),
        files=tuple(WrittenFile(file.path, file.nbytes) for file in plan.files),
        seconds=perf_counter() - started,
        losses=plan.losses,
        source_files=opened.files(path),
        dry_run=engine.dry_run,
        edits=(Edit("tensor", f"{name} {list(tensor.dims)}"),),
    )
    return replace(report, backup=next(iter(done.backups), None), removed=done.removed)


def _of(options: type, given: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the given keywords that are options of a class."""
    return {name: given[name] for name in given.keys() & names_of(options)}
