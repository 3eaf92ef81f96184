"""The contract of a format: a `Codec`, the options for reading, and what its methods return.

Every codec imports this module, so it imports none of them; `lookup.py` has their table. docs/codecs.md explains how to
write one, and `formats.testing` has the checks that each must pass.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from formats.errors import CryptError, OptionError, UnsupportedError
from formats.ir import walk
from formats.ir.storage import moved_entries
from formats.options import (
    ASKED,
    SWITCH,
    Flag,
    OptionKind,
    choice,
    count,
    internal,
    option,
    retries_option,
    settle,
    store_option,
    text,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from formats.codecs.keys import Key
    from formats.ir.model import Model
    from formats.tensordata.plan import FilePlan, Loss, WritePlan
    from formats.tensordata.sources.source import Source

HEAD_BYTES = 4096
OWN_OPERATORS = "own_operators"  # the kind of a caution: operators that other runtimes may not have
MAX_DEPTH = 100  # nested messages, the limit of the official parsers
DEEPEST = 250  # the most that fits the interpreter's stack, with three calls per message, and the caller's own


class Match(IntEnum):
    """How sure a codec is that a file has its format."""

    NONE = 0
    WEAK = 1  # it is possible
    STRONG = 2  # the bytes have a mark that no other format has


READING = "Options for reading"
ENCRYPTED = "Options for .onnxc, read or written"


def _key(value: Any) -> Key:
    from formats.codecs.keys import Key

    try:
        return Key.of(value)
    except (AttributeError, CryptError) as error:
        raise ValueError from error


def _key_in_file(path: str) -> Key:
    from formats.codecs.keys import Key

    return Key.from_file(path)


def _key_in_environment(name: str) -> Key:
    from formats.codecs.keys import Key

    return Key.from_environment(name)


KEY = OptionKind("text, bytes or a `formats.Key`, and not empty", _key, keyword_type="Key | str | bytes", secret=True)
KEY_FLAGS = (  # other users could see a key in an argument
    Flag(("--key-file",), "Read the key from FILE, without the line end.", "FILE", from_text=_key_in_file),
    Flag(("--key-env",), "Read the key from an environment variable.", "NAME", from_text=_key_in_environment),
    Flag(("--ask-key",), "Ask for the key on the terminal.", value=ASKED),
)


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How a file is read, in any format that has such a choice.

    `max_depth`: how deeply messages may be nested. `model`: the name of the model, in an archive with several; without
    it, the default one. `hard_links`: whether a file of external data may have other names,
    some of which could be outside the model's directory. `key`: the key of an encrypted model; with it, a file that is
    not encrypted is refused. `allow_encryption`: 1 also opens the variant of encrypted models that does not detect
    changes and forgeries.

    For addresses: `storage_options` are those of fsspec, and `retries` is how often a request is repeated that failed
    for a temporary reason.

    `no_data`: data files are neither opened nor needed; a graph that is written refers to them as the one that is read.

    With `allow_absent`, which is for what only describes a model, a data file that is missing or too short is no error:
    its tensors have ranges of an `AbsentFile`.

    Raises: OptionError for an invalid value.
    """

    max_depth: int = option(
        MAX_DEPTH,
        count(1, DEEPEST),
        f"Refuse messages nested more than N deep, at most {DEEPEST}; {MAX_DEPTH} by default.",
        panel=READING,
    )
    hard_links: bool = option(True, SWITCH, "Refuse data files with more than one name (hard links).", panel=READING)
    model: str | None = option(
        None,
        text("NAME", "the name of a model"),
        "Read this model of an archive that holds several.",
        panel=READING,
    )
    key: Key | str | bytes | None = option(
        None, KEY, "The key of an encrypted model.", flags=KEY_FLAGS, panel=ENCRYPTED, common=True
    )
    allow_encryption: int | None = option(
        None,
        choice(1)._replace(words="1; 2 and 3 are always allowed"),
        "Also open files with AES-256-CBC, which does not detect changed or forged files.",
        panel=ENCRYPTED,
    )
    storage_options: Mapping[str, Any] | None = store_option()
    retries: int = retries_option()
    no_data: bool = option(
        False,
        SWITCH,
        "Work without the data files of SRC, which may be missing; the references to them stay as they are.",
        panel=READING,
    )
    allow_absent: bool = internal(False)

    def __post_init__(self) -> None:
        settle(self)


READ_DEFAULTS = ReadOptions()


# What the methods of a codec return.


class Region(NamedTuple):
    """A range of a file, and its content; `kind` is "header", "model", "tensor", "file", "directory" or "padding"."""

    file_offset: int
    nbytes: int
    kind: str
    label: str

    @property
    def end(self) -> int:
        """The file offset of the first byte after it."""
        return self.file_offset + self.nbytes


class Checksum(NamedTuple):
    """A digest in a model, in hexadecimal, of bytes that have not been read."""

    where: str
    algorithm: str
    expected: str
    source: Source


class Bundle(NamedTuple):
    """The models in an archive by name, `None` for the default one, and its other files."""

    models: tuple[str | None, ...] = (None,)
    files: tuple[tuple[str, int], ...] = ()  # names and sizes in bytes
    has_hashes: bool = False

    def others(self, model: str | None) -> str:
        """What the file has besides the model with this name, for people; empty if this is all."""
        models = sorted(name or "the default one" for name in self.models if name != model) if self.models[1:] else []
        files = [name for name, _ in self.files]
        parts = ([f"the models {', '.join(models)}"] if models else []) + (
            [f"the files {', '.join(files)}"] if files else []
        )
        return " and ".join(parts)


class DataFileOptions(NamedTuple):
    """What the options for writing say about files of external data; a format without such files has the defaults."""

    name: str | None = None  # of the one file, if the caller chose it
    alignment: int | None = None  # of each tensor, in bytes from the start of its file
    keeps_references: bool = False  # references to other files stay as they are, with what the model says of the files
    in_archive: bool = False  # the weights stay in the archive that the model was read from
    dedup: bool = False  # equal weights in the graph become one


class Change(NamedTuple):
    """A part of a model that was rewritten for a runtime, and the reason."""

    where: str  # a dotted place in the given model
    name: str  # of the node or tensor
    operator: str  # with its domain, if this is not ONNX's own; empty if it is not a node
    became: tuple[str, ...]  # operators, each once
    reason: str  # for people
    is_refused: bool  # the runtime does not load the original; if false, it computes other results than ONNX


class Runnable(NamedTuple):
    """A model that a runtime runs with ONNX's results, if there is no `error`; `stops` are its single reasons."""

    model: Model
    losses: tuple[Loss, ...]
    changes: tuple[Change, ...]
    error: UnsupportedError | None = None
    stops: tuple[str, ...] = ()


# What a format provides.


class Runtime(ABC):
    """A program that runs `.onnx` files of a certain form, and may also have a format of its own.

    It has the name of the codec whose `runtime` it is: `--runtime NAME`.
    """

    title: str  # in messages
    data_alignment: int = 1  # in bytes, that it needs in files of external data

    @abstractmethod
    def runnable(self, model: Model, exact: bool) -> Runnable:
        """A model in ONNX's operators, as ONNX that this program runs; if `exact`, with the same results as ONNX's."""

    def check_name(self, data_file: str) -> None:  # noqa: B027 - the default accepts every name
        """Raises OptionError if the program does not read a file of external data with this name."""

    def releases(self) -> Sequence[str]:
        """The releases that `--runtime NAME==RELEASE` may name, the newest last.

        ONNX is written for the newest one. If there are any, the options of the codec have an internal field `release`.
        """
        return ()

    def check_data_files(self, plan: WritePlan, alignment: int | None) -> None:
        """Raises OptionError if the program would not read the files of external data of a plan."""
        *data_files, _ = plan.files
        for file in data_files:
            self.check_name(file.path.name)
        if data_files and alignment is not None and alignment % self.data_alignment:
            needs = f"must be a multiple of {self.data_alignment} for {self.title}"
            raise OptionError(f"`alignment` is {alignment}, but {needs}")


class Codec(ABC):
    """A format: facts, and methods that read and plan files.

    Every format sets the first four facts, and has `sniff`, `read` and `plan`; all else has a default. A codec has no
    state, and its methods are called from any thread. The module that defines it must be quick to import: it imports
    what its methods need when they are called.
    """

    # Facts

    name: str  # a lower-case word for options, keywords and reports
    title: str  # for people
    extensions: tuple[str, ...]  # of its files, in lower case, with the dot; the usual one first
    options: type  # for writing: a frozen dataclass in which everything has a default

    domain: str | None = None  # of operators that only models of this format have
    runtime: Runtime | None = None  # the format's own runtime, if that also runs ONNX
    only_runtime: str | None = None  # the name of the only runtime that runs files of the format
    encrypted: bool = False  # a file is read with `ReadOptions.key`; one with the extension must be encrypted
    is_archive: bool = False  # a file may hold several models, which `bundle` names
    is_mapped: bool = False  # programs use the weights in place, so `verify` notes those that are not aligned
    is_text: bool = False  # most files with its extensions are no models, so none in a folder is taken for one
    has_scattered_weights: bool = False  # they lie between parts of the graph, so who needs all reads the whole file
    metadata_keys: tuple[str, ...] | None = None  # the only keys that the format's metadata can have

    # Every format has these.

    @abstractmethod
    def sniff(self, head: bytes, nbytes: int) -> Match:
        """How sure it is that a file has this format, given its first bytes, up to `HEAD_BYTES`, and its size.

        A strong match takes precedence over the extension, and the extension over weak matches. Raises: nothing.
        """

    @abstractmethod
    def read(self, source: Source, path: Path | None, options: ReadOptions = READ_DEFAULTS) -> Model:
        """The model in a whole file; its weights are ranges of `source`, or of files next to `path`.

        `path` is `None` for bytes in memory. Raises: DecodeError for any bytes that are not valid.
        """

    @abstractmethod
    def plan(self, model: Model, destination: Path, options: Any) -> WritePlan:
        """The files to write for a model; `options` is an instance of `self.options`. It touches no file.

        Raises: EncodeError if the format cannot have the model; what is only lost is in the plan's `losses`.
        """

    # For some formats

    def read_lenient(
        self, source: Source, path: Path | None, options: ReadOptions = READ_DEFAULTS
    ) -> tuple[Model, tuple[Loss, ...]]:
        """As `read`, but files with faults whose meaning is clear are read, too; the losses name the faults."""
        return self.read(source, path, options), ()

    def plan_graph(self, model: Model, destination: Path, new: Callable[[str], str | None]) -> FilePlan:
        """The file of a model whose data files are already there, each at what `new` returns for its location.

        `None` is for the old location. The references of the model may be changed.
        """
        for _, tensor in walk.external_tensors(model):
            tensor.external_data = moved_entries(tensor, new)
        return self.plan(model, destination, self.options()).files[-1]

    def data_files(self, options: Any) -> DataFileOptions:
        """What the options for writing say about files of external data."""
        return DataFileOptions()

    def in_one_file(self, keywords: Mapping[str, Any]) -> Mapping[str, Any]:
        """The keywords for writing; if they do not say where the weights are, one puts them into the model file."""
        return keywords

    def with_original(self, options: Any, original: Source, codec: Codec) -> Any:
        """The options for writing a model that was read from the file `original`, which has the format `codec`."""
        return options

    def raise_model(self, model: Model, pin_types: Mapping[str, str]) -> tuple[Model, tuple[Loss, ...]]:
        """A model with the format's own operators in those of ONNX, and what is lost.

        `pin_types` has types of inputs and outputs by name, where the format does not say them.
        """
        raise UnsupportedError(f"the model has operators of {self.title}, which cannot be converted to ONNX's")

    def regions(self, source: Source) -> Iterable[Region]:
        """The parts of a file, which do not overlap; gaps are padding, and tensors in it are found without this."""
        return (Region(0, source.nbytes, "model", "model"),)

    def bundle(self, source: Source) -> Bundle:
        """The models and other files in an archive; `read` gets the chosen name in `options.model`."""
        return Bundle()

    def settled(self, source: Source, path: Path) -> Source:
        """The file as it was before an interrupted change in place; if there was none, as it is."""
        return source

    def checksums(self, source: Source, model: Model, original: Source | None) -> Iterable[Checksum]:
        """The checksums in a file; `model` was read from it, and it was converted from `original`, if that is known."""
        return ()

    def cautions(self, source: Source, model: Model) -> Iterable[Loss]:
        """What of a file nothing verifies though its format should, what the model does not keep, and own operators.

        `OWN_OPERATORS` is the kind of the last, which other programs may not have.
        """
        return ()

    def releases_reading(self, source: Source, model: Model) -> Mapping[str, Sequence[str]]:
        """The releases of programs that read the form of a file, by runtime; others read every form."""
        return {}

    def shared_data(self, plan: WritePlan, overwrite: bool, model_extensions: Collection[str]) -> Iterable[Loss]:
        """The other models that get other weights by a plan, and data files that no model will need.

        A file with one of `model_extensions` is a model, and never one of these data files. Raises: FileExistsError
        without `overwrite` if another model would get other weights.
        """
        return ()
