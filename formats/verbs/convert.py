"""The verbs that write a model: `save`, `dumps`, `convert` and `link`.

All are one path: open (`steps/opening.py`), plan and execute (`steps/planning.py`), report (`report.py`). `converted`
has it for a file; the verbs of `edit.py` put a change of the model into it.
"""

# ruff: noqa: A002 - `format` is the word that users know from other `load` and `save` functions

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

from formats.codecs import lookup
from formats.codecs.contract import OWN_OPERATORS
from formats.collector import collector_paused
from formats.editing.options import EditResult
from formats.errors import EncodeError
from formats.tensordata.engine import source_files_of, to_bytes
from formats.tensordata.file import or_stream, with_storage
from formats.tensordata.plan import Permissions, losses_in_order
from formats.verbs.arguments import model_of, path_of
from formats.verbs.choices import ConversionOptions, choose, in_one_file, taken
from formats.verbs.report import ConversionReport, written_files
from formats.verbs.steps.opening import common_permissions, located, open_model, permissions
from formats.verbs.steps.planning import check_and_execute, plan_of, plan_of_any, target_of

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping, Sequence

    from typing_extensions import Unpack

    from formats.codecs.contract import Codec
    from formats.ir.model import Model
    from formats.keywords import ConvertKeywords, ReadKeywords, WriteKeywords
    from formats.tensordata.plan import Loss
    from formats.tensordata.sources.source import Source
    from formats.verbs.arguments import AnyDestination, AnyModel, AnySource
    from formats.verbs.choices import Choice
    from formats.verbs.steps.opening import Opened
    from formats.verbs.steps.planning import Planned


def save(
    model: AnyModel,
    path: AnyDestination,
    *,
    format: str | None = None,
    strict: bool = False,
    allow: Sequence[str] | None = None,
    options: object = None,
    **keywords: Unpack[WriteKeywords],
) -> ConversionReport:
    """Write the model to `path`, and its data files next to it; the model object is not changed.

    `path` may also be a binary file object, which gets the bytes of the model, weights included, in one file.

    `model` may also be a message of `formats.onnxpb` or of `onnx`, or a model of `onnx_ir`. The extension determines
    the format unless `format` names one. Keywords are the options of the format (`OnnxOptions`, ...) and of the engine
    (`threads`, `overwrite`, ...); alternatively, `options` is an object with those of the format. `strict` refuses a
    loss that matters, except for those of the kinds that `allow` names. A model that was read from a `.rten` file is
    written to other formats with ONNX's operators, with `RaisingOptions`. With `runtime`, the written ONNX is one that
    this runtime runs (`RuntimeOptions`).

    For example:

        >>> model = formats.load("model.onnx")
        >>> model.producer_name = "me"
        >>> print(formats.save(model, "mine.onnxz").verdict)
        the same model, unchanged

    Raises: OptionError for an option that the format does not have, or an invalid value; UnsupportedError and other
    FormatErrors for a model that the format does not support; OSError if the files cannot be written. If it raises,
    nothing was written.
    """
    started = perf_counter()
    conversion = ConversionOptions(strict=strict, allow=allow)
    destination = or_stream(path_of(path))
    target = target_of(destination, format)
    chosen = choose(target, options, in_one_file(keywords, target, options, destination), by=save)
    destination = with_storage(destination, chosen.engine.storage_options, chosen.engine.retries)
    planned = plan_of_any(model_of(model), target, destination, chosen)
    if not target.encrypted and any(file.is_encrypted for file in source_files_of(planned.plan)):
        planned = planned._replace(plan=planned.plan._replace(permissions=Permissions(decrypted=True)))
    return _write(planned, target, chosen, conversion, started, _ReadFile())


def dumps(model: AnyModel, format: str, *, options: object = None, **keywords: Unpack[WriteKeywords]) -> bytes:
    """Return the model as the bytes of one file, weights included; options as for `save`.

    For example:

        >>> data = formats.dumps(formats.load("model.onnx"), "onnxz")
        >>> data[:2]
        b'PK'

    Raises: OptionError and FormatError as `save` does.
    """
    target = lookup.by_name(format)
    chosen = choose(target, options, in_one_file(keywords, target, options), by=dumps)
    plan = plan_of_any(model, target, Path("model").with_suffix(target.extensions[0]), chosen).plan
    if len(plan.files) > 1:
        raise EncodeError(f"these options make {len(plan.files)} files, but bytes can hold only one")
    return to_bytes(plan, chosen.engine)


def convert(
    src: AnySource,
    dst: AnyDestination,
    *,
    options: object = None,
    **keywords: Unpack[ConvertKeywords],
) -> ConversionReport:
    """Convert the model in the file `src` to `dst`: `load` and `save` in one, without weights in memory.

    Both may be binary file objects, as for `load` and `save`.

    Keywords and `options` are those of `load` and of `save`; `key` is for the file that is encrypted. With
    `overwrite=True`, `dst` may be an existing file, even `src` itself. With `dry_run=True`, nothing is written:
    the report says what would be written, and anything that would prevent it is raised. `ReplacementOptions` say what
    becomes of a replaced model.

    For example:

        >>> print(formats.convert("model.onnx", "half.onnx", dtype="float16").verdict)
        computes the same, up to rounding to float16

    Raises: as `load` and `save` do.
    """
    return converted(src, dst, Way(convert, options), keywords)


class OtherFile(NamedTuple):
    """A file that a change of a model reads: what is written is no less secret. The report lists its `paths`."""

    source: Source
    is_encrypted: bool = False
    paths: tuple[Path, ...] = ()


class Changed(NamedTuple):
    """The model that a change made, what it did, and the other files that it read."""

    model: Model
    result: EditResult
    others: Sequence[OtherFile] = ()


class Way(NamedTuple):
    """How a model is converted: the function that was called, and the object with the options of the format.

    `change` makes another model of the one that was read, or changes that one.
    """

    called: Callable[..., Any]
    options: object = None
    change: Callable[[Model], Changed] | None = None


class _ReadFile(NamedTuple):
    """What the report says of the file that the model was read from; nothing, if the model was in memory."""

    path: Path | None = None
    format: str | None = None
    notes: tuple[Loss, ...] = ()
    files: tuple[Path, ...] = ()


def _cautions(opened: Opened, target: Codec, chosen: Choice) -> list[Loss]:
    """The warnings about a file that hold for what is written.

    What is written for a runtime has only operators of this runtime, or the conversion is refused.
    """
    is_for_runtime = target.domain is not None or chosen.runtime.named is not None
    return [loss for loss in opened.cautions() if loss.kind != OWN_OPERATORS or not is_for_runtime]


def converted(src: AnySource, dst: AnyDestination, way: Way, keywords: Mapping[str, Any]) -> ConversionReport:
    """Convert a model as `convert` does; on the way, `way.change` may make another model of it.

    Raises: as `convert` does; EditError if the change does not fit the model.
    """
    started = perf_counter()
    path, destination = or_stream(path_of(src)), or_stream(path_of(dst))
    conversion, rest = taken(ConversionOptions, keywords)
    target = target_of(destination, conversion.to_format, "to_format")
    others = in_one_file(rest, target, way.options, destination)
    chosen = choose(target, way.options, others, by=way.called, reads=True)  # an error comes before anything is read
    path, destination = (
        with_storage(place, chosen.engine.storage_options, chosen.engine.retries) for place in (path, destination)
    )
    with collector_paused():  # until the model is freed: of all that was made, only the plan is left to search
        planned, source = _planned(path, destination, target, chosen, conversion, way)
    with located(path):
        return _write(planned, target, chosen, conversion, started, source)


def _planned(
    path: Path, destination: Path, target: Codec, chosen: Choice, conversion: ConversionOptions, way: Way
) -> tuple[Planned, _ReadFile]:
    """The plan of a conversion, and what its report says of the file that is read."""
    opened = open_model(
        path,
        conversion.from_format,
        chosen.reading,
        lenient=conversion.lenient,
        key_is_for_it=not target.encrypted,
        called="from_format",
        needs_all=not chosen.engine.dry_run,
    )
    chosen = chosen._replace(writing=target.with_original(chosen.writing, opened.source, opened.codec))
    with located(path):
        cautions, source_files = _cautions(opened, target, chosen), opened.files(path)
        changed = Changed(opened.model, EditResult()) if way.change is None else way.change(opened.model)
        planned = plan_of(changed.model, target, destination, chosen)
        allowed = [opened.permissions(encrypts=target.encrypted)]
        for other in changed.others:
            allowed.append(permissions(other.source, decrypts=other.is_encrypted and not target.encrypted))
            source_files += other.paths
        plan = planned.plan._replace(
            losses=(*cautions, *changed.result.losses, *planned.plan.losses),
            permissions=common_permissions(allowed),
        )
        notes = (*opened.notes, *opened.left_out(chosen.reading.model))  # now: the file may change afterwards
    edits = (*changed.result.edits, *planned.edits)
    return planned._replace(plan=plan, edits=edits), _ReadFile(path, opened.codec.name, notes, source_files)


def _write(
    planned: Planned, target: Codec, chosen: Choice, conversion: ConversionOptions, started: float, source: _ReadFile
) -> ConversionReport:
    """Write what is planned, and report it."""
    plan, replaced = check_and_execute(planned.plan, target, chosen, conversion)
    return ConversionReport(
        source=source.path,
        source_format=source.format,
        notes=source.notes,
        source_files=source.files,
        destination=plan.files[-1].path,
        target_format=target.name,
        files=written_files(plan.files),
        seconds=perf_counter() - started,
        losses=losses_in_order(plan.losses),
        changes=planned.changes,
        dry_run=chosen.engine.dry_run,
        settings=plan.settings,
        usage=plan.usage,
        backup=replaced.backup,
        removed=replaced.removed,
        edits=planned.edits,
        is_translated=planned.is_translated,
    )


def link(
    archive: str | os.PathLike[str],
    destination: str | os.PathLike[str],
    *,
    overwrite: bool = False,
    fsync: bool | None = None,
    **options: Unpack[ReadKeywords],
) -> ConversionReport:
    """Write a graph to `destination` that refers to the weights in `archive`, an `.onnxz` file in the same folder.

    It has a few KB, and programs that read `.onnx` files with external data can load it; onnxruntime maps the archive.
    RTen accepts it only if the archive's name ends in `.data`. If the archive changes, link it again; our readers
    refuse the graph until then. `options` are those of `load`.

    For example:

        >>> report = formats.convert("model.onnx", "weights.onnxz")
        >>> print(formats.link("weights.onnxz", "linked.onnx").verdict)
        the same model, unchanged

    Raises: EncodeError if the archive is in another folder, a symbolic link, has no entries, or has a tensor
    whose offset is not a multiple of the size of its elements; others as `convert` does.
    """
    return convert(archive, destination, to_format="onnx", link=True, overwrite=overwrite, fsync=fsync, **options)
