"""Open a file or bytes: recognise the format, read the model in it, and see who may read what is made from it."""

# ruff: noqa: A002 - `format` is the word that users know from other `load` and `save` functions

from __future__ import annotations

from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from formats.codecs import contract, lookup
from formats.codecs.contract import READ_DEFAULTS, ReadOptions
from formats.collector import collector_paused
from formats.errors import CryptError, DecodeError, FormatError, OptionError, TruncatedError, UnknownFormatError
from formats.ir import walk
from formats.ir.storage import check_is_alone
from formats.options import make_options
from formats.tensordata.file import File, is_address, is_stream, or_stream, with_storage
from formats.tensordata.interrupted import read_model_steadily
from formats.tensordata.plan import OWNER_ACCESS, USE, Loss, Permissions
from formats.tensordata.sources.source import Literal
from formats.verbs.arguments import buffer_of, path_of, shown
from formats.words import joined

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from typing_extensions import Unpack

    from formats.codecs.contract import Codec
    from formats.ir.model import Model
    from formats.keywords import ReadKeywords
    from formats.tensordata.sources.source import Source
    from formats.verbs.arguments import AnySource


class Opened(NamedTuple):
    """A model, the whole file that it was read from, and the faults that a lenient reader accepted."""

    codec: Codec
    source: Source
    model: Model
    notes: tuple[Loss, ...] = ()

    def files(self, path: Path) -> tuple[Path, ...]:
        """The files of the model at `path`, the model file first."""
        sources = (tensor.external_source for _, tensor in walk.external_tensors(self.model))
        paths = {file.path for source in sources if source is not None for file in source.files()}
        return (path, *sorted({shown(file, path) for file in paths} - {path}))

    def left_out(self, model: str | None) -> Iterable[Loss]:
        """A note on what the file has besides the model that was read, which has this name."""
        try:  # `bundle` refuses a file whose faults a lenient reader has accepted
            bundle = self.codec.bundle(self.source) if self.codec.is_archive and not self.notes else None
        except FormatError:
            for file in self.source.files():  # since it was opened, another process may have changed it in place
                file.check_unchanged()
            raise
        if bundle is not None and (others := bundle.others(model)):
            yield Loss("left_out", "", f"{others}, which the archive also has", USE)

    def permissions(self, *, encrypts: bool) -> Permissions:
        """The permissions of a file that is made from the model, and perhaps encrypted."""
        return permissions(self.source, decrypts=self.codec.encrypted and not encrypts)

    def cautions(self) -> Iterable[Loss]:
        """Warnings about parts of the file that nothing verifies, although its format promises this."""
        return self.codec.cautions(self.source, self.model)


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

    For example:

        >>> model = formats.load("model.onnx")
        >>> [tensor.name for tensor in model.graph.initializer][:2]
        ['conv1.weight', 'conv1.bias']
        >>> model.graph.initializer[0].numpy().shape
        (8, 1, 3, 3)

    Raises: FormatError if the model cannot be read; OSError if the file cannot be read.
    """
    reading = make_options(ReadOptions, options, by=load) if options else READ_DEFAULTS
    return open_model(path_of(path), format, reading, lenient=lenient).model


def loads(data: bytes | bytearray | memoryview, *, format: str | None = None, **options: Unpack[ReadKeywords]) -> Model:
    """Read the model in `data`, which must not change while the model is in use: the weights stay there.

    `options` are those of `ReadOptions`.

    For example:

        >>> with open("model.onnx", "rb") as file:
        ...     model = formats.loads(file.read())
        >>> model.graph.name
        'digits'

    Raises: FormatError if it cannot be read.
    """
    reading = make_options(ReadOptions, options, by=loads)
    source = Literal(buffer_of(data))
    with recognised(source, None):
        codec = _codec(source, None, format)
        check_key(reading, codec)
        _check_model(reading, codec)
        return codec.read(source, None, reading)


def read_decoded(
    path: Path, name: str | None = None, options: ReadOptions = READ_DEFAULTS, *, key_is_for_it: bool = True
) -> tuple[Codec, Source, Model]:
    """The codec of the format `name`, or of the recognised format, the whole file and the model in it.

    The whole model is decoded, so that its errors are raised here.

    Raises: as `load` does.
    """
    codec, source, model, _ = open_model(path, name, options, key_is_for_it=key_is_for_it)
    with located(path), collector_paused():
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
    beside = None if is_stream(path) else path  # a stream is in no folder, which could have its data files

    def read(file: File) -> Opened:
        source: Source = file.span()
        with recognised(source, path), _named_rightly(source, path, name, called):
            codec = _codec(source, path, name, called)
            if key_is_for_it:
                check_key(options, codec)
            _check_model(options, codec)
            if file.is_local and beside is not None:  # only such a file is changed in place
                source = codec.settled(source, beside)
            if needs_all and codec.has_scattered_weights:
                file.expect_all()
            if lenient:
                return Opened(codec, source, *codec.read_lenient(source, beside, options))
            return Opened(codec, source, codec.read(source, beside, options))

    with located(path), collector_paused():
        if is_stream(path):
            opened = read(path.file())
            check_is_alone(opened.model)
            return opened
        if is_address(path):
            from formats.tensordata.remote import remote_file

            return remote_file.read_address_steadily(path, read)
        try:
            return read_model_steadily(path, read)
        except IsADirectoryError:
            if not path.is_dir():  # but if it is a data file
                raise
            from formats.codecs import foreign

            extensions = lookup.all_extensions()
            raise foreign.folder_error(path, extensions - {".json"}) from None  # it usually contains other files


def models_in(path: Path, name: str | None, options: ReadOptions) -> tuple[str | None, ...]:
    """The names of the models to read in a file: the one that was chosen, or all of an archive, the default one last.

    A file of a format that holds one model has `None`.

    Raises: OSError if it cannot be read.
    """
    path = with_storage(path, options.storage_options, options.retries)
    if options.model is not None or is_stream(path) or not (is_address(path) or path.is_file()):
        return (options.model,)
    try:
        source: Source = File.open(path).span()
        codec = _codec(source, path, name)
        source = source if is_address(path) else codec.settled(source, path)
        return codec.bundle(source).models
    except FormatError:  # the reader of the model says it better
        return (None,)


def model_name(path: Path) -> str:
    """The name of a model: that of its file, without the extension of a format."""
    extensions = lookup.all_extensions()
    return path.stem if path.suffix.lower() in extensions else path.name


def for_each(paths: Iterable[Path], options: ReadOptions) -> list[ReadOptions]:
    """The options for each of several files: only archives hold models with names, if any of the files is one."""
    if options.model is None:
        return [options for _ in paths]
    every = replace(options, model=None)
    has_names = [models_in(path, None, every) != (None,) for path in paths]
    return [options if has_own or not any(has_names) else every for has_own in has_names]


def _check_model(options: ReadOptions, codec: Codec) -> None:
    """Raises OptionError if a model was chosen by its name, but the format has none."""
    if options.model is not None and not codec.is_archive:
        raise OptionError(f"`model` is for archives with several models, and this file is {codec.title}")


@contextmanager
def located(path: Path | None) -> Iterator[None]:
    """A context in which errors without a path get `path`."""
    try:
        yield
    except FormatError as error:
        if error.path is None:
            error.path = path
        raise


@contextmanager
def recognised(source: Source, path: Path | None) -> Iterator[None]:
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
        if other_format := foreign.recognise(source, path):
            raise UnknownFormatError(other_format.message, path=path) from error
        error.message += foreign.afterthought(source, isinstance(error, TruncatedError))
        raise


@contextmanager
def _named_rightly(source: Source, path: Path, name: str | None, called: str) -> Iterator[None]:
    """A context in which an error says so, if a file is read in another format than its own, because one was named."""
    try:
        yield
    except DecodeError as error:
        if name is None or error.path not in (None, path):
            raise
        with suppress(UnknownFormatError):
            head = source.read(0, min(contract.HEAD_BYTES, source.nbytes))
            own = lookup.for_reading(head, source.nbytes, path)
            is_known = path.suffix.lower() in own.extensions or own.sniff(head, source.nbytes) is contract.Match.STRONG
            if own.name != name and is_known:
                words = f"the format is {own.title}, not {lookup.by_name(name).title}; leave out `{called}`"
                raise DecodeError(words, path=path) from error
        raise


def _codec(source: Source, path: Path | None, name: str | None, called: str = "format") -> Codec:
    if name is not None:
        return lookup.by_name(name)
    head = source.read(0, min(contract.HEAD_BYTES, source.nbytes))
    return lookup.for_reading(head, source.nbytes, path, called)


def check_key(options: ReadOptions, *codecs: Codec) -> None:
    """Check that a file is encrypted if a key was given.

    A user who gives a key expects that only owners of the key can have made the file.

    Raises: CryptError if none of the files is encrypted, so that anyone could have made them.
    """
    if options.key is not None and not any(codec.encrypted for codec in codecs):
        titles = joined([codec.title for codec in codecs])
        raise CryptError(f"a key was given, but this is {titles}, which is not encrypted; anyone could have made it")


def common_permissions(several: Iterable[Permissions]) -> Permissions:
    """Return the permissions that all of these allow, for a file that is made from several."""
    new = replaced = 0o777  # of new files, and of replaced ones
    decrypted = False
    for permissions in several:
        new, replaced = new & permissions.new, replaced & permissions.replaced
        decrypted = decrypted or permissions.decrypted
    return Permissions(new, replaced, decrypted)


def permissions(source: Source, *, decrypts: bool = False) -> Permissions:
    """The permissions of a file that is made from `source`, and perhaps `decrypts` it.

    Users other than its owner have no more permissions than for the source. A file that is replaced keeps its own
    permissions, which a user chose; but decrypted content never gets more readers than the encrypted file had.
    """
    most = 0o777
    for file in source.files():
        most &= file.permissions
    if decrypts:
        return Permissions(most & Permissions().new, most, decrypted=True)
    return Permissions((most | OWNER_ACCESS) & Permissions().new)
