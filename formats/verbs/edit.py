"""Change a model on its way from one file to another, or in its archive; no weight is read."""

from __future__ import annotations

from collections.abc import Mapping
from time import perf_counter
from typing import TYPE_CHECKING, Any

from formats.codecs.contract import ReadOptions
from formats.codecs.lookup import ONNXRUNTIME, by_name
from formats.editing.edits import Done, Edit
from formats.editing.files.weight_files import has_weights, read_weights
from formats.editing.metadata import with_metadata
from formats.editing.model_edits import edited
from formats.editing.options import EditOptions
from formats.editing.scopes import main_graph
from formats.errors import OptionError, UnsupportedError
from formats.onnxzip.options import ArchiveOptions
from formats.onnxzip.writing import editing
from formats.options import check_names, made, names_of
from formats.tensordata.engine import EngineOptions
from formats.tensordata.file import File, or_stream
from formats.tensordata.plan import in_order
from formats.verbs.arguments import local_path_of, path_of
from formats.verbs.choices import ConversionOptions, MetadataOptions, RuntimeOptions
from formats.verbs.convert import Way, converted
from formats.verbs.report import ConversionReport, WrittenFile
from formats.verbs.steps.executing import check_losses
from formats.verbs.steps.opening import located, open_model
from formats.verbs.steps.versions import in_versions
from formats.words import in_units

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from typing_extensions import Unpack

    from formats.codecs.contract import Codec
    from formats.ir.model import Model
    from formats.keywords import EditKeywords
    from formats.tensordata.sources.source import Source
    from formats.verbs.arguments import AnyDestination, AnySource


def edit(
    src: AnySource,
    dst: AnyDestination | None = None,
    *,
    from_format: str | None = None,
    to_format: str | None = None,
    strict: bool = False,
    allow: Sequence[str] | None = None,
    lenient: bool = False,
    options: object = None,
    **keywords: Unpack[EditKeywords],
) -> ConversionReport:
    """Change the model in the file `src`, and write it to `dst`; its weights are copied, never read into memory.

    Without `dst`, `src` is an archive (.onnxz) that is changed in place: only its end is written again. The edits are
    `EditOptions`, in this order: `weights`, `dim`, `rename`. Other keywords and `options` are those of `convert`.

    Raises: EditError if an edit does not fit the model, such as an unknown name; others as `convert` does. If it
    raises, nothing was changed.
    """
    given: dict[str, Any] = {**keywords}
    edits = made(EditOptions, {name: given.pop(name) for name in names_of(EditOptions) & given.keys()})

    others: list[tuple[Source, Codec]] = []

    def change(model: Model) -> tuple[Model, Done]:
        return edited(model, edits, *_weights_of(edits.weights, others), own=True)

    way = Way(edit, from_format, to_format, strict, allow, lenient, options, change, others)
    if dst is None:
        return _in_place(src, way, given)
    return converted(src, dst, way, given)


def _weights_of(weights: Any, others: list[tuple[Source, Codec]]) -> tuple[Mapping[str, Any], str]:
    """The tensors or arrays by name, and the name of the file that they are in, which is added to `others`.

    Raises: FormatError if the file cannot be read.
    """
    if weights is None or isinstance(weights, Mapping):
        return weights or {}, ""
    path = local_path_of(weights)
    if has_weights(path):
        files: list[File] = []
        found = read_weights(path, files)
        others += [(file.span(), by_name("onnx")) for file in files]
        return found, path.name
    opened = open_model(path)
    others.append((opened.source, opened.codec))
    return {tensor.name or "": tensor for tensor in main_graph(opened.model).initializer}, path.name


def _in_place(src: AnySource, way: Way, given: Mapping[str, Any]) -> ConversionReport:
    """Edit an archive in place: entries of weights stay where they are."""
    started = perf_counter()
    path = _archive(src, way)
    conversion = ConversionOptions(way.from_format, None, way.strict, way.allow, way.lenient)
    kinds = (EngineOptions, ReadOptions, RuntimeOptions, MetadataOptions)
    check_names(given, kinds, " without a destination", way.called)
    engine = made(EngineOptions, {name: given[name] for name in given.keys() & names_of(EngineOptions)})
    reading = made(ReadOptions, {name: given[name] for name in given.keys() & names_of(ReadOptions)})
    versions = made(RuntimeOptions, {name: given[name] for name in given.keys() & names_of(RuntimeOptions)})
    texts = made(MetadataOptions, {name: given[name] for name in given.keys() & names_of(MetadataOptions)}).metadata
    if versions.named is not None and versions.named.name != ONNXRUNTIME:
        raise OptionError(f"`runtime={versions.runtime}` needs a destination")
    if versions.dtype is not None:
        raise OptionError("`dtype` changes all weights, so it needs a destination")
    opened = open_model(path, way.from_format, reading, called="from_format")
    if opened.codec.name != "onnxz":
        raise UnsupportedError(f"this is {opened.codec.title}, which cannot be edited in place; name DST", path=path)
    assert way.change is not None
    with located(path):
        cautions = [*opened.cautions()]
        model, done = way.change(opened.model)
        if texts:
            model, more = with_metadata(model, texts)
            done += more
        model, more = in_versions(model, versions)
        done += more
        losses = in_order((*cautions, *done.losses))
        if conversion.strict:
            check_losses(losses, conversion.allow)
        if not engine.dry_run:
            update = editing.update(model, path, ArchiveOptions(), engine, reading.model)
            written = f"{in_units(update.written_bytes)} of the archive were written again"
            done += Done((Edit("in_place", written),), update.losses)
    return ConversionReport(
        source=path,
        destination=path,
        source_format=opened.codec.name,
        target_format=opened.codec.name,
        files=(WrittenFile(path, path.stat().st_size),),
        seconds=perf_counter() - started,
        losses=in_order((*cautions, *done.losses)),
        edits=done.edits,
        source_files=(path,),
        dry_run=engine.dry_run,
    )


def _archive(src: AnySource, way: Way) -> Path:
    """The path of an archive that may be edited in place. Raises: OptionError for anything else."""
    path = or_stream(path_of(src))
    if path.suffix.lower() != ".onnxz":
        hint = "only an archive (.onnxz) can be edited in place; name DST, or SRC again with `overwrite=True`"
        raise OptionError(f"the destination is missing; {hint}")
    for name, value in (("to_format", way.to_format), ("options", way.options), ("lenient", way.lenient or None)):
        if value is not None:
            raise OptionError(f"`{name}` needs a destination")
    return local_path_of(src)
