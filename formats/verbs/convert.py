"""The verbs: read a model from a path or bytes, write a model to a path or bytes, convert a file with a report."""
# ruff: noqa: A002 - `format` is the word that users know from other `load` and `save` functions

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple

from formats.codecs import contract, lookup
from formats.codecs.contract import READ_DEFAULTS, ReadOptions
from formats.errors import (
    DecodeError,
    EncodeError,
    FormatError,
    OptionError,
    TruncatedError,
    UnknownFormatError,
    UnsupportedError,
)
from formats.ir import walk
from formats.ir.archive_link import without_link
from formats.ir.storage import check_is_alone
from formats.options import made
from formats.python.collector import collector_paused
from formats.python.late_dataclasses import replace
from formats.tensordata.engine import execute, to_bytes
from formats.tensordata.file import File, is_address, is_stream, or_stream, with_storage
from formats.tensordata.interrupted import read_steadily
from formats.tensordata.plan import in_order
from formats.tensordata.sources.source import Literal
from formats.verbs.arguments import buffer_of, model_of, path_of
from formats.verbs.choices import Choice, ConversionOptions, RaisingOptions, choose, in_one_file
from formats.verbs.replacement import Old, Replaced, execute_replacing
from formats.verbs.report import ConversionReport, WrittenFile, listed
from formats.verbs.trust import check_key, permissions

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from typing_extensions import Unpack

    from formats.codecs.contract import Change, Codec
    from formats.ir.model import Model
    from formats.keywords import ConvertKeywords, RaiseKeywords, ReadKeywords, WriteKeywords
    from formats.tensordata.plan import Loss, WritePlan
    from formats.tensordata.sources.source import Source
    from formats.verbs.arguments import AnyDestination, AnyModel, AnySource


class Opened(NamedTuple):
    """A model, the whole file that it was read from, and the faults that a lenient reader accepted."""

    codec: Codec
    source: Source
    model: Model
    notes: tuple[Loss, ...] = ()

    def files(self, path: Path) -> tuple[Path, ...]:
        """The files of the model at `path`, the model file first."""
        sources = (tensor.external_source for _, tensor in walk.external_tensors(self.model))
        found = {file.path for source in sources if source is not None for file in source.files()}
        return (path, *sorted(found - {path}))

    def cautions(self) -> Iterable[Loss]:
        """Warnings about parts of the file that nothing verifies, although its format promises this."""
        return self.codec.cautions(self.source, self.model) if self.codec.cautions else ()


def load(
    path: AnySource, *, format: str | None = None, lenient: bool = False, **options: Unpack[ReadKeywords]
) -> Model:
    """Read the model in a file; its weights stay in the file until they are used.

    `path` may also be a binary file object with a model that has no external data; it is read to its end.

    The content determines the format, or otherwise the extension, unless `format` names one. `lenient` accepts files
    with faults whose meaning is clear, such as an archive made with a zip tool. `options` are those of `ReadOptions`
    (`max_depth`, `hard_links`, `key`, `allow_encryption`).

    The model of a `.rten` file has RTen's operators, so that it can be written without changes; `raise_model` converts
    it to ONNX's operators, as `save` and `convert` do for other formats.

    Raises: FormatError if the model cannot be read; OSError if the file cannot be read.
    """
    reading = made(ReadOptions, options) if options else READ_DEFAULTS
    return open_model(path_of(path), format, reading, lenient=lenient).model


def loads(data: bytes | bytearray | memoryview, *, format: str | None = None, **options: Unpack[ReadKeywords]) -> Model:
    """Read the model in `data`, which must not change while the model is in use: the weights stay there.

    `options` are those of `ReadOptions`.

    Raises: FormatError if it cannot be read.
    """
    reading = made(ReadOptions, options)
    source = Literal(buffer_of(data))
    with _recognised(source, None):
        codec = _codec(source, None, format)
        check_key(reading, codec)
        return codec.read(source, None, reading)


def save(
    model: AnyModel,
    path: AnyDestination,
    *,
    format: str | None = None,
    strict: bool = False,
    options: object = None,
    **keywords: Unpack[WriteKeywords],
) -> ConversionReport:
    """Write the model to `path`, and its data files next to it; the model object is not changed.

    `path` may also be a binary file object, which gets the bytes of the model, weights included, in one file.

    `model` may also be a message of `formats.onnxpb` or of `onnx`, or a model of `onnx_ir`. The extension determines
    the format unless `format` names one. Keywords are the options of the format (`OnnxOptions`, ...) and of the engine
    (`threads`, `overwrite`, ...); alternatively, `options` is an object with those of the format. `strict` refuses a
    loss that matters. A model that was read from a `.rten` file is written to other formats with ONNX's operators, with
    `RaisingOptions`. With `runtime`, the written ONNX is one that this runtime runs (`RuntimeOptions`).

    Raises: OptionError for an option that the format does not have, or an invalid value; UnsupportedError and other
    FormatErrors for a model that the format does not support; OSError if the files cannot be written. If it raises,
    nothing was written.
    """
    started = perf_counter()
    destination = or_stream(path_of(path))
    target = _target(destination, format)
    chosen = choose(target, options, in_one_file({**keywords}, target, options, destination))
    destination = with_storage(destination, chosen.engine.storage_options, chosen.engine.retries)
    own = model_of(model)
    plan, changes = _plan_of(own, target, destination, chosen)
    plan, done = _write(plan, target, chosen, strict)
    report = _report(plan, target, destination, started, changes, own, dry_run=chosen.engine.dry_run)
    return replace(report, backup=done.backup, removed=done.removed)


def dumps(model: AnyModel, format: str, *, options: object = None, **keywords: Unpack[WriteKeywords]) -> bytes:
    """Return the model as the bytes of one file, weights included; options as for `save`.

    Raises: OptionError and FormatError as `save` does.
    """
    target = lookup.by_name(format)
    chosen = choose(target, options, in_one_file({**keywords}, target, options))
    plan, _ = _plan_of(model, target, Path("model").with_suffix(target.extensions[0]), chosen)
    if len(plan.files) > 1:
        raise EncodeError(f"these options make {len(plan.files)} files, but bytes can hold only one")
    return to_bytes(plan, chosen.engine)


def convert(
    src: AnySource,
    dst: AnyDestination,
    *,
    from_format: str | None = None,
    to_format: str | None = None,
    strict: bool = False,
    lenient: bool = False,
    options: object = None,
    **keywords: Unpack[ConvertKeywords],
) -> ConversionReport:
    """Convert the model in the file `src` to `dst`: `load` and `save` in one, without weights in memory.

    Both may be binary file objects, as for `load` and `save`.

    Keywords and `options` are those of `load` and of `save`; `key` is for the file that is encrypted. With
    `overwrite=True`, `dst` may be an existing file, even `src` itself. With `dry_run=True`, nothing is written:
    the report says what would be written, and anything that would prevent it is raised. `ReplacementOptions` say what
    becomes of a replaced model.

    Raises: as `load` and `save` do.
    """
    started = perf_counter()
    path, destination = or_stream(path_of(src)), or_stream(path_of(dst))
    target = _target(destination, to_format, "to_format")
    ConversionOptions(from_format, to_format, strict, lenient)
    given = in_one_file({**keywords}, target, options, destination)
    chosen = choose(target, options, given, reads=True)  # report an error in the options before the model is read
    path, destination = (
        with_storage(place, chosen.engine.storage_options, chosen.engine.retries) for place in (path, destination)
    )
    opened = open_model(
        path,
        from_format,
        chosen.reading,
        lenient=lenient,
        key_is_for_it=not target.encrypted,
        called="from_format",
        needs_all=not chosen.engine.dry_run,
    )
    if opened.codec.name == "onnx" and getattr(chosen.target, "source_hash", opened.source) is None:
        chosen = chosen._replace(target=replace(chosen.target, source_hash=opened.source))
    with _located(path):
        with collector_paused():
            plan, changes = _plan(opened.model, target, destination, chosen)
        losses = (*opened.cautions(), *plan.losses)
        plan = plan._replace(losses=losses, permissions=permissions(opened.source, opened.codec, target))
        plan, done = _write(plan, target, chosen, strict)
    report = _report(plan, target, destination, started, changes, opened.model, dry_run=chosen.engine.dry_run)
    return replace(
        report,
        source=path,
        source_format=opened.codec.name,
        notes=opened.notes,
        source_files=opened.files(path),
        backup=done.backup,
        removed=done.removed,
    )


def raise_model(model: AnyModel, **options: Unpack[RaiseKeywords]) -> tuple[Model, tuple[Loss, ...]]:
    """Return the model with ONNX's operators, as `save` would write it to an `.onnx` file, and the losses.

    It returns `model` itself unless the model was read from a `.rten` file. `options` are `RaisingOptions`.

    Raises: FormatError for a model that is not well formed, or if a type is not possible.
    """
    model = model_of(model)
    own = _own_codec(model)
    if own is None:
        return model, ()
    if own.raise_model is None:
        raise UnsupportedError(f"the model has operators of {own.title}, which cannot be converted to ONNX's")
    return own.raise_model(model, made(RaisingOptions, options).pin or {})


def read_model(
    path: Path, name: str | None = None, options: ReadOptions = READ_DEFAULTS, *, key_is_for_it: bool = True
) -> tuple[Codec, Source, Model]:
    """The codec of the format `name`, or of the recognised format, the whole file and the model in it.

    The whole model is decoded, so that its errors are raised here.

    Raises: as `load` does.
    """
    codec, source, model, _ = open_model(path, name, options, key_is_for_it=key_is_for_it)
    with _located(path), collector_paused():
        for _, graph in walk.graphs(model):
            len(graph.value_info)  # graphs and their nodes are decoded when they are first read
    return codec, source, model


def open_model(
    path: Path,
    name: str | None = None,
    options: ReadOptions = READ_DEFAULTS,
    *,
    lenient: bool = False,
    key_is_for_it: bool = True,
    called: str = "format",
    needs_all: bool = False,
) -> Opened:
    """The model in a file in the format `name`, or in the recognised format, and what the reader found.

    If a key is given and `key_is_for_it`, the file must be encrypted. `called` is the caller's name for the argument
    `name`. If `needs_all`, the caller will read all weights.

    Raises: as `load` does.
    """
    path = or_stream(with_storage(path, options.storage_options, options.retries))
    beside = None if is_stream(path) else path

    def read(file: File) -> Opened:
        source: Source = file.span()
        with _recognised(source, path):
            codec = _codec(source, path, name, called)
            if key_is_for_it:
                check_key(options, codec)
            if codec.settled is not None and file.is_local and beside is not None:
                source = codec.settled(source, beside)
            if needs_all and codec.name == "onnx":  # its weights are between parts of the graph
                file.expect_all()
            if lenient and codec.read_lenient is not None:
                return Opened(codec, source, *codec.read_lenient(source, beside, options))
            return Opened(codec, source, codec.read(source, beside, options))

    with _located(path), collector_paused():
        if is_stream(path):
            opened = read(path.file())
            check_is_alone(opened.model)
            return opened
        if is_address(path):
            from formats.tensordata.remote import remote_file

            return remote_file.read_steadily(path, read)
        try:
            return read_steadily(path, read)
        except IsADirectoryError:
            if not path.is_dir():  # but if it is a data file
                raise
            from formats.codecs import foreign

            extensions = {extension for codec in lookup.codecs() for extension in codec.extensions}
            raise foreign.folder_error(path, extensions - {".json"}) from None  # it usually contains other files


@contextmanager
def _recognised(source: Source, path: Path | None) -> Iterator[None]:
    """If no format reads a file, the error says what the file is, or why it may be incomplete, if this is known."""
    try:
        yield
    except (DecodeError, UnknownFormatError) as error:
        if error.path not in (None, path):  # if it is about a data file
            raise
        from formats.codecs import foreign

        head = source.read(0, min(contract.HEAD_BYTES, source.nbytes))
        if lookup.is_marked_by_others(head, source.nbytes):
            raise
        if found := foreign.recognise(source, path):
            raise UnknownFormatError(found.message, path=path) from error
        error.message += foreign.afterthought(source, isinstance(error, TruncatedError))
        raise


def _codec(source: Source, path: Path | None, name: str | None, called: str = "format") -> Codec:
    if name is not None:
        return lookup.by_name(name)
    head = source.read(0, min(contract.HEAD_BYTES, source.nbytes))
    return lookup.for_reading(head, source.nbytes, path, called)


def _target(destination: Path, name: str | None, called: str = "format") -> Codec:
    return lookup.for_writing(destination, called) if name is None else lookup.by_name(name)


def _plan_of(model: AnyModel, target: Codec, destination: Path, chosen: Choice) -> tuple[WritePlan, tuple[Change, ...]]:
    """The plan for writing a model of the caller, in which any field may have a value of any type."""
    from formats.onnxpb.wire.encoder import misfits_located

    with misfits_located(own := model_of(model)):
        return _plan(own, target, destination, chosen)


def _plan(model: Model, target: Codec, destination: Path, chosen: Choice) -> tuple[WritePlan, tuple[Change, ...]]:
    """The plan for writing a model, and the changes for its runtime."""
    if not getattr(chosen.target, "keeps_references", False):
        model = without_link(model)
    losses: tuple[Loss, ...] = ()
    changes: tuple[Change, ...] = ()
    if _own_codec(model) not in (None, target):
        model, losses = raise_model(model, pin=chosen.raising.pin)
    elif chosen.raising.pin:
        raise OptionError("`pin` is only for models whose operators differ from the target's, such as .rten files")
    runtime = None if chosen.runtime.runtime is None else lookup.runtime(chosen.runtime.runtime)
    if runtime is not None:
        found = runtime.runnable(model, chosen.exact)
        if found.error is not None:
            raise found.error
        model, changes = found.model, found.changes
        losses += found.losses
    plan = target.plan(model, destination, chosen.target)
    if runtime is not None:
        runtime.check_data_files(plan, getattr(chosen.target, "aligned_to", runtime.data_alignment))
    return plan._replace(losses=(*losses, *plan.losses)), changes


def _own_codec(model: Model) -> Codec | None:
    """The codec to whose own operators the model's operators belong."""
    return lookup.of_domains({entry.domain for entry in model.opset_import})


def _is_translated(model: Model, target: Codec) -> bool:
    """Whether the target has other operators than the model, so that the nodes become others."""
    return (own := _own_codec(model)) is not target and (own is not None or target.domain is not None)


def _write(plan: WritePlan, target: Codec, chosen: Choice, strict: bool) -> tuple[WritePlan, Replaced]:
    """Execute the plan, and return it; its losses include the effects on other models."""
    engine, replacement = chosen.engine, chosen.replacement
    last = plan.files[-1].path
    is_here = not (is_address(last) or is_stream(last))
    if target.shared_data is not None and is_here:
        plan = plan._replace(losses=(*plan.losses, *target.shared_data(plan, engine.overwrite)))
    losses = in_order(loss for loss in plan.losses if loss.matters)
    if strict and losses:
        raise UnsupportedError(f"`strict` refuses these losses: {listed(losses)}")
    if not (replacement.clean or replacement.backup):
        execute(plan, engine)
        return plan, Replaced(plan.losses)
    if not is_here:
        raise OptionError("`clean` and `backup` are for files of this system")
    old = _old(last) if replacement.backup and last.is_file() else None
    done = execute_replacing(plan, old, engine, clean=replacement.clean)
    return plan._replace(losses=done.losses), done


def _old(path: Path) -> Old:
    """The model at `path`, which will be replaced; whatever cannot be read is one file."""
    try:
        opened = open_model(path)
    except (FormatError, OSError):
        return Old(path, File.open(path))
    return Old(path, next(opened.source.files()), opened.codec, opened.model)


def _report(
    plan: WritePlan,
    target: Codec,
    destination: Path,
    started: float,
    changes: tuple[Change, ...],
    model: Model,
    *,
    dry_run: bool,
) -> ConversionReport:
    return ConversionReport(
        source=None,
        destination=destination,
        source_format=None,
        target_format=target.name,
        files=tuple(WrittenFile(file.path, file.nbytes) for file in plan.files),
        seconds=perf_counter() - started,
        losses=in_order(plan.losses),
        settings=plan.settings,
        changes=changes,
        dry_run=dry_run,
        is_translated=_is_translated(model, target),
    )


@contextmanager
def _located(path: Path | None) -> Iterator[None]:
    """A context in which errors without a path get `path`."""
    try:
        yield
    except FormatError as error:
        if error.path is None:
            error.path = path
        raise
