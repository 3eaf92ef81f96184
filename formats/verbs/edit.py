"""The verbs that change what is in a model: `edit`, `merge` and `extract`; no weight is read.

Each is a conversion with a change on the way (`Way.change`), which is a function of `editing/model_edits.py`. Without a
destination, `edit` writes only the end of its archive again.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from formats.codecs.contract import ReadOptions
from formats.editing.model_edits import edited, extracted, merged, with_metadata
from formats.editing.options import Edit, EditOptions, EditResult, ExtractOptions, MergeOptions
from formats.editing.scopes import main_graph, pair_of
from formats.editing.weight_files import WRITTEN, has_weights, read_weights, tensor_plan
from formats.editing.weights import weight_named, weight_names
from formats.errors import EditError, OptionError, UnsupportedError
from formats.onnxzip import CODEC as ARCHIVE
from formats.onnxzip import editing
from formats.onnxzip.options import ArchiveOptions
from formats.options import Typed, make_each_options, make_own_options
from formats.tensordata.engine import EngineOptions
from formats.tensordata.file import File, or_stream
from formats.tensordata.plan import WritePlan, losses_in_order
from formats.verbs.arguments import local_path_of, path_of
from formats.verbs.choices import (
    ConversionOptions,
    MetadataOptions,
    ReplacementOptions,
    RuntimeOptions,
    check_replacement,
    taken,
)
from formats.verbs.convert import Changed, OtherFile, Way, converted
from formats.verbs.report import ConversionReport, WrittenFile, written_files
from formats.verbs.steps.opening import located, open_model
from formats.verbs.steps.planning import check_losses, execute_plan
from formats.verbs.steps.versions import in_versions
from formats.words import in_units, names_like, nearest

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from formats.ir.model import Model, Tensor
    from formats.keywords import EditKeywords, ExtractKeywords, MergeKeywords
    from formats.verbs.arguments import AnyDestination, AnySource


def edit(
    src: AnySource,
    dst: AnyDestination | None = None,
    *,
    options: object = None,
    **keywords: Unpack[EditKeywords],
) -> ConversionReport:
    """Change the model in the file `src`, and write it to `dst`; its weights are copied, never read into memory.

    Without `dst`, `src` is an archive (.onnxz) that is changed in place: only its end is written again. The edits are
    `EditOptions`, in this order: `sort`, `weights`, `initializer_to_input`, `input_to_initializer`, `dim`,
    `set_operator`, `set_domain`, `set_attribute`, `bypass`, `add_output`, `remove_output`, `fold`, `prune`,
    `uint8_input` (with `scale`, `mean` and `std`), `layout`, `rename`, `prefix`, `strip_docs`, `strip_training`. Other
    keywords and `options` are those of `convert`.

    For example:

        >>> report = formats.edit("model.onnx", "renamed.onnx", rename={"image": "pixels"})
        >>> formats.load("renamed.onnx").graph.input[0].name
        'pixels'

    Raises: EditError if an edit does not fit the model, such as an unknown name; others as `convert` does. If it
    raises, nothing was changed.
    """
    edits, others = taken(EditOptions, keywords)

    def change(model: Model) -> Changed:
        files: list[OtherFile] = []
        weights, origins = _weights_of(model, edits.weights, files)
        inputs = _inputs_of(model, edits.input_to_initializer or {}, files)
        return Changed(*edited(model, edits, weights, ", ".join(origins), inputs, own=True), files)

    way = Way(edit, options, change)
    if dst is None:
        return _in_place(src, way, others)
    return converted(src, dst, way, others)


def _weights_of(model: Model, weights: Any, files: list[OtherFile]) -> tuple[dict[str, Any], list[str]]:
    """The new tensors or arrays by name, and the names of the files that they are in, which go to `files`.

    Raises: FormatError if a file cannot be read; EditError for the name of a single weight that the model lacks.
    """
    if weights is None:
        return {}, []
    given = weights if isinstance(weights, Mapping) else {"": weights}
    known = weight_names(model)
    values: dict[str, Any] = {}
    origins = []
    for name, value in given.items():
        if isinstance(name, Typed):
            is_file = "=" not in name or Path(name).exists()
            name, value = ("", name) if is_file else pair_of(name, "", known)
        if not isinstance(value, (str, os.PathLike)):
            values[name] = value
            continue
        path = local_path_of(value)
        if not name:  # all tensors of the file
            values |= _tensors_in(path, files)
        elif name in known:
            values[name] = _tensor_in(path, name, files)
        else:
            raise EditError(f"no weight is called {name!r}{nearest(name, known, kind='weight')}")
        origins.append(path.name)
    return values, origins


def _inputs_of(model: Model, values: Mapping[str, Any], files: list[OtherFile]) -> dict[str, Any]:
    """The tensors or arrays by the names of inputs, or `None` for their defaults; files that were read go to `files`.

    Raises: FormatError if a file cannot be read.
    """
    inputs = [value.name or "" for value in main_graph(model).input]
    found = {}
    for name, value in values.items():
        if isinstance(name, Typed) and value is None and "=" in name and not names_like(name, inputs):
            name, value = pair_of(name, "", inputs)
        is_file = isinstance(value, (str, os.PathLike))
        found[name] = _tensor_in(local_path_of(value), name, files) if is_file else value
    return found


def _tensors_in(path: Path, files: list[OtherFile]) -> dict[str, Tensor]:
    """The tensors by name in a file of weights or a model; the files that were read go to `files`."""
    if has_weights(path):
        opened_files: list[File] = []
        tensors = read_weights(path, opened_files)
        files += [OtherFile(file.span()) for file in opened_files]
        return tensors
    opened = open_model(path)
    files.append(OtherFile(opened.source, opened.codec.encrypted))
    return {tensor.name or "": tensor for tensor in main_graph(opened.model).initializer}


def _tensor_in(path: Path, name: str, files: list[OtherFile]) -> Tensor:
    """The tensor with this name in a file, or the only one that is there. Raises: EditError if there is none."""
    tensors = _tensors_in(path, files)
    if name not in tensors and len(tensors) != 1:
        raise EditError(f"{path.name} has no tensor {name!r}{nearest(name, tensors, kind='tensor')}")
    return tensors[name] if name in tensors else next(iter(tensors.values()))


def _in_place(src: AnySource, way: Way, keywords: Mapping[str, Any]) -> ConversionReport:
    """Edit an archive in place: entries of weights stay where they are."""
    started = perf_counter()
    path = _archive(src, way, keywords)
    kinds = (ConversionOptions, EngineOptions, ReadOptions, RuntimeOptions, MetadataOptions)
    conversion, engine, reading, versions, texts = make_each_options(
        kinds, keywords, of=" without a destination", by=way.called
    )
    if versions.named is not None and versions.named.runtime is not None:
        raise OptionError(f"`runtime={versions.runtime}` needs a destination")
    for name in ("dtype", "int32", "weights_dtype", "channel_block"):
        if getattr(versions, name):
            raise OptionError(f"`{name}` changes all weights, so it needs a destination")
    opened = open_model(path, conversion.from_format, reading, called="from_format")
    if opened.codec is not ARCHIVE:
        raise UnsupportedError(f"this is {opened.codec.title}, which cannot be edited in place; name DST", path=path)
    assert way.change is not None
    with located(path):
        cautions = [*opened.cautions()]
        model, result, _ = way.change(opened.model)
        if texts.metadata:
            model, more = with_metadata(model, texts.metadata)
            result += more
        model, more = in_versions(model, versions)
        result += more
        losses = losses_in_order((*cautions, *result.losses))
        if conversion.strict:
            check_losses(losses, conversion.allow)
        if not engine.dry_run:
            update = editing.update_archive(model, path, ArchiveOptions(), engine, reading.model)
            written = f"{in_units(update.written_bytes)} of the archive were written again"
            result += EditResult((Edit("in_place", written),), update.losses)
    return ConversionReport(
        source=path,
        destination=path,
        source_format=opened.codec.name,
        target_format=opened.codec.name,
        files=(WrittenFile(path, path.stat().st_size),),
        seconds=perf_counter() - started,
        losses=losses_in_order((*cautions, *result.losses)),
        edits=result.edits,
        source_files=(path,),
        dry_run=engine.dry_run,
    )


def _archive(src: AnySource, way: Way, keywords: Mapping[str, Any]) -> Path:
    """The path of an archive that may be edited in place. Raises: OptionError for anything else."""
    path = or_stream(path_of(src))
    if path.suffix.lower() not in ARCHIVE.extensions:
        hint = "only an archive (.onnxz) can be edited in place; name DST, or SRC again with `overwrite=True`"
        raise OptionError(f"the destination is missing; {hint}")
    for name, value in (
        ("to_format", keywords.get("to_format")),
        ("options", way.options),
        ("lenient", keywords.get("lenient")),
    ):
        if value:
            raise OptionError(f"`{name}` needs a destination")
    return local_path_of(src)


def merge(
    first: AnySource,
    second: AnySource,
    dst: AnyDestination,
    *,
    options: object = None,
    **keywords: Unpack[MergeKeywords],
) -> ConversionReport:
    """Write the models in the files `first` and `second` as one to `dst`; `connect` says which outputs are inputs.

    Outputs that are connected are no outputs of the new model. Names of the second model that meet those of the first
    one get a number, or all of them a `prefix`. Weights that are the same bytes of the same file are stored once. Other
    keywords and `options` are those of `convert`.

    For example:

        >>> body = formats.extract("model.onnx", "body.onnx", outputs=["features"])
        >>> head = formats.extract("model.onnx", "head.onnx", inputs=["features"])
        >>> report = formats.merge("body.onnx", "head.onnx", "both.onnx", connect={"features": "features"})
        >>> print(report.verdict)
        computes the same as both models

    Raises: EditError for an unknown name, or for models that do not fit each other; others as `convert` does. If it
    raises, nothing was written.
    """
    wanted, others = taken(MergeOptions, keywords)
    reading, conversion = make_own_options(ReadOptions, others), make_own_options(ConversionOptions, others)
    path = or_stream(path_of(second))

    def change(model: Model) -> Changed:
        opened = open_model(
            path,
            conversion.from_format,
            reading,
            lenient=conversion.lenient,
            key_is_for_it=False,
            called="from_format",
        )
        other = OtherFile(opened.source, opened.codec.encrypted, opened.files(path))
        return Changed(*merged(model, opened.model, wanted.connect or (), wanted.prefix or "", own=True), [other])

    return converted(first, dst, Way(merge, options, change), others)


def extract(
    src: AnySource,
    dst: AnyDestination,
    *,
    options: object = None,
    **keywords: Unpack[ExtractKeywords],
) -> ConversionReport:
    """Write the part of the model in `src` that computes `outputs` from `inputs` to `dst`, with all that it needs.

    Without one of them, those of the model count. With `tensor` instead, `dst` is a .npy or .safetensors file for the
    weight with this name. Other keywords and `options` are those of `convert`.

    For example:

        >>> report = formats.extract("model.onnx", "body.onnx", outputs=["features"])
        >>> print(report.verdict)
        computes the same as this part of the model

    Raises: EditError for an unknown name, or if an output needs something else than the inputs; others as `convert`
    does. If it raises, nothing was written.
    """
    wanted, others = taken(ExtractOptions, keywords)

    def change(model: Model) -> Changed:
        return Changed(*extracted(model, wanted.inputs, wanted.outputs))

    way = Way(extract, options, change)
    if wanted.tensor is not None:
        return _tensor(src, dst, wanted.tensor, way, others)
    if wanted.inputs is None and wanted.outputs is None:
        raise OptionError("name what to extract: `inputs`, `outputs` or a `tensor`")
    return converted(src, dst, way, others)


def _tensor(src: AnySource, dst: AnyDestination, name: str, way: Way, keywords: Mapping[str, Any]) -> ConversionReport:
    """Write one tensor."""
    started = perf_counter()
    path, destination = or_stream(path_of(src)), or_stream(path_of(dst))
    if destination.suffix.lower() not in WRITTEN:
        raise OptionError(f"`tensor` is written to a {' or '.join(WRITTEN)} file, and {destination.name} is none")
    for word, value in (("to_format", keywords.get("to_format")), ("options", way.options)):
        if value is not None:
            raise OptionError(f"`{word}` is for models; a `tensor` has the format of its extension")
    kinds = (ConversionOptions, EngineOptions, ReplacementOptions, ReadOptions)
    conversion, engine, replacement, reading = make_each_options(kinds, keywords, of=" for a `tensor`", by=way.called)
    check_replacement(replacement, overwrite=engine.overwrite)
    opened = open_model(path, conversion.from_format, reading, lenient=conversion.lenient, called="from_format")
    with located(path):
        tensor = weight_named(opened.model, name)
        files = (tensor_plan(tensor, name, destination),)
        plan = WritePlan(files, permissions=opened.permissions(encrypts=False))
    plan, replaced = execute_plan(plan, engine, replacement)
    return ConversionReport(
        source=path,
        destination=destination,
        source_format=opened.codec.name,
        target_format=destination.suffix.lower().removeprefix("."),
        files=written_files(plan.files),
        seconds=perf_counter() - started,
        losses=plan.losses,
        source_files=opened.files(path),
        dry_run=engine.dry_run,
        backup=replaced.backup,
        removed=replaced.removed,
        edits=(Edit("tensor", f"{name} {list(tensor.dims)}"),),
    )
