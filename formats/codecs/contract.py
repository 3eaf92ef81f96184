"""What a format is to the rest of the package: a `Codec`, the options for reading, and what its hooks give.

Every codec imports this module, so it imports none of them; `lookup.py` does.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from formats.errors import CryptError, OptionError
from formats.options import (
    ASKED,
    SWITCH,
    Flag,
    Kind,
    choice,
    count,
    internal,
    option,
    retries_option,
    settle,
    store_option,
    text,
)
from formats.python.handed import Handed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from formats.codecs.keys import Key
    from formats.errors import UnsupportedError
    from formats.ir.model import Model
    from formats.onnxzip.records import Entry
    from formats.tensordata.plan import Loss, WritePlan
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


KEY = Kind("text, bytes or a `formats.Key`, and not empty", _key, keyword_type="Key | str | bytes", secret=True)
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
    allow_absent: bool = internal(False)

    def __post_init__(self) -> None:
        settle(self)


READ_DEFAULTS = ReadOptions()


class Reader(Protocol):
    """A function that returns the model in a whole file."""

    def __call__(self, source: Source, path: Path | None, options: ReadOptions = READ_DEFAULTS, /) -> Model:
        """The model in `source`, whose companion files are looked for next to `path`."""


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
    """What a file has that may hold several models: their names, `None` for the default one, and other files."""

    models: tuple[str | None, ...]
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


class Runtime(NamedTuple):
    """A program that reads `.onnx` files.

    `runnable` converts a model in ONNX's operators to a form that it runs, without deviations if the second argument is
    true. `reads_data_file` says whether it accepts external data from a file with this name. `data_alignment` is the
    alignment that it needs there, in bytes. `releases` gives the releases for which files of the format can be written,
    the newest last; ONNX is written for the newest. `reading` gives those that read a model in the format's own
    operators.
    """

    runnable: Callable[[Model, bool], Runnable]
    reads_data_file: Callable[[str], bool]
    data_alignment: int
    releases: Callable[[], Sequence[str]] = tuple
    reading: Callable[[Model], Sequence[str]] | None = None

    def check_name(self, data_file: str) -> None:
        """Raises OptionError if the runtime would not read a file of external data, because of its name."""
        if not self.reads_data_file(data_file):
            raise OptionError(f"`external_data` is {data_file!r}, but RTen needs a name such as model.onnx.data")

    def check_data_files(self, plan: WritePlan, alignment: int) -> None:
        """Raises OptionError if the runtime would not read the files of external data of a plan."""
        *data_files, _ = plan.files
        for file in data_files:
            self.check_name(file.path.name)
        if data_files and alignment % self.data_alignment:
            raise OptionError(f"`alignment` is {alignment}, but must be a multiple of {self.data_alignment} for RTen")


class Codec(NamedTuple):
    """One format.

    `sniff` gets the first bytes of a file (up to `HEAD_BYTES`) and its size in bytes. `read` gets the whole file as a
    source, its path, against which companion files are resolved (`None` for bytes in memory), and options that it may
    have no use for. `plan` gets a model, the destination and an instance of `options`, a frozen dataclass in which
    everything has a default. `domain` is that of the operators of models in a form of this format's own, which no
    other can hold; `raise_model` gives such a model in ONNX's operators, with given types of inputs and outputs by
    name, and what is lost.

    Only some formats have the following. `regions` gives the parts of a file of the format, if it has more parts than
    the tensors. `checksums` gives the checksums that the model in a file contains; it gets the file, the model that was
    read from it, and the file that the model was converted from, if that is known. `read_lenient` also accepts files
    that `read` refuses although their meaning is clear, and reports these faults. `cautions` reports the parts of a
    file that nothing verifies, although its format should, or that the model does not keep, and operators of one
    runtime (`OWN_OPERATORS`). A format that is `encrypted` needs a key, and a file with its extension must be
    encrypted: otherwise, an attacker could replace the
    file by one that was made without the key. `shared_data` reports which other models get other weights through a
    plan, or refuses the plan if nothing may be overwritten; it also reports the data files that no model needs any
    more. If a change of a file in place was interrupted, `settled` gives the file as it was before; otherwise, it gives
    the file as it is. `bundle` says what a file has that may hold several models. `runtime` is the runtime of the
    format, if that reads ONNX, too. `first_release`, for a format that only onnxruntime reads, gives its first release
    that reads a file. `metadata_keys` are the only ones that metadata of the format can have.
    """

    name: str
    title: str
    extensions: tuple[str, ...]
    options: type
    sniff: Callable[[bytes, int], Match]
    read: Reader
    plan: Callable[[Model, Path, Any], WritePlan]
    domain: str | None = None
    raise_model: Callable[[Model, Mapping[str, str]], tuple[Model, tuple[Loss, ...]]] | None = None
    regions: Callable[[Source], Iterable[Region]] | None = None
    checksums: Callable[[Source, Model, Source | None], Iterable[Checksum]] | None = None
    read_lenient: Callable[[Source, Path | None, ReadOptions], tuple[Model, tuple[Loss, ...]]] | None = None
    cautions: Callable[[Source, Model], Iterable[Loss]] | None = None
    encrypted: bool = False
    settled: Callable[[Source, Path], Source] | None = None
    bundle: Callable[[Source], Bundle] | None = None
    shared_data: Callable[[WritePlan, bool], Iterable[Loss]] | None = None
    runtime: Runtime | None = None
    first_release: Callable[[Source], str] | None = None
    metadata_keys: tuple[str, ...] | None = None


# What one codec uses of others.
ARCHIVE_ENTRIES: Handed[Callable[[Source], list[Entry]]] = Handed()  # the entries of an archive
EXTENSIONS: Handed[frozenset[str]] = Handed()  # of the files of all formats of this package
