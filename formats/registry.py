"""The formats: their names, how they are recognised, and which codecs read and write them."""

from __future__ import annotations

from enum import IntEnum
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from formats.errors import CryptError, OptionError, UnknownFormatError
from formats.late_dataclasses import dataclass
from formats.options import (
    ASKED,
    REMOTE,
    RETRIES,
    STORAGE,
    STORAGE_FLAG,
    SWITCH,
    Flag,
    Kind,
    choice,
    count,
    option,
    settle,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping
    from importlib.metadata import EntryPoint

    from formats.errors import UnsupportedError
    from formats.ir.model import Model
    from formats.onnxpb.keys import Key
    from formats.tensordata.plan import Loss, WritePlan
    from formats.tensordata.source import Source

HEAD_BYTES = 4096
ENTRY_POINTS = "formats.codecs"  # the group of entry points for the codecs of other packages
# The domains of operators that belong to no format; no codec is searched for them.
USUAL_DOMAINS = frozenset((None, "", "ai.onnx", "ai.onnx.ml", "ai.onnx.preview.training", "com.microsoft"))
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
    from formats.onnxpb.keys import Key

    try:
        return Key.of(value)
    except (AttributeError, CryptError) as error:
        raise ValueError from error


def _key_in_file(path: str) -> Key:
    from formats.onnxpb.keys import Key

    return Key.from_file(path)


def _key_in_environment(name: str) -> Key:
    from formats.onnxpb.keys import Key

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

    `max_depth`: how deeply messages may be nested. `hard_links`: whether a file of external data may have other names,
    some of which could be outside the model's directory. `key`: the key of an encrypted model; with it, a file that is
    not encrypted is refused. `allow_encryption`: 1 also opens the variant of encrypted models that does not detect
    changes and forgeries.

    For addresses: `storage_options` are those of fsspec, and `retries` is how often a request is repeated that failed
    for a temporary reason.

    Raises: OptionError for an invalid value.
    """

    max_depth: int = option(
        MAX_DEPTH,
        count(1, DEEPEST),
        f"Refuse messages nested more than N deep, at most {DEEPEST}; {MAX_DEPTH} by default.",
        panel=READING,
    )
    hard_links: bool = option(True, SWITCH, "Refuse data files with more than one name (hard links).", panel=READING)
    key: Key | str | bytes | None = option(
        None, KEY, "The key of an encrypted model.", flags=KEY_FLAGS, panel=ENCRYPTED
    )
    allow_encryption: int | None = option(
        None,
        choice(1)._replace(words="1; 2 and 3 are always allowed"),
        "Also open files with AES-256-CBC, which does not detect changed or forged files.",
        panel=ENCRYPTED,
    )
    storage_options: Mapping[str, Any] | None = option(
        None, STORAGE, "Options of the store.", flags=(STORAGE_FLAG,), panel=REMOTE
    )
    retries: int = option(
        RETRIES,
        count(0, 100),
        f"Repeat a request that fails temporarily up to N times; {RETRIES} by default.",
        panel=REMOTE,
    )

    def __post_init__(self) -> None:
        settle(self)


READ_DEFAULTS = ReadOptions()


class Reader(Protocol):
    """A function that returns the model in a whole file."""

    def __call__(self, source: Source, path: Path | None, options: ReadOptions = READ_DEFAULTS, /) -> Model:
        """The model in `source`, whose companion files are looked for next to `path`."""


class Region(NamedTuple):
    """A range of a file, and its content; `kind` is "header", "model", "tensor", "directory" or "padding"."""

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

    `runnable` converts a model in ONNX's operators to a form that it runs. `reads_data_file` says whether it accepts
    external data from a file with this name. `data_alignment` is the alignment that it needs there, in bytes.
    """

    runnable: Callable[[Model], Runnable]
    reads_data_file: Callable[[str], bool]
    data_alignment: int

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
    file that nothing verifies, although its format should. A format that is `encrypted` needs a key, and a file with
    its extension must be encrypted: otherwise, an attacker could replace the file by one that was made without the key.
    `shared_data` reports which other models get other weights through a plan, or refuses the plan if nothing may be
    overwritten; it also reports the data files that no model needs any more. If a change of a file in place was
    interrupted, `settled` gives the file as it was before; otherwise, it gives the file as it is. `runtime` is the
    runtime of the format, if that reads ONNX, too.
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
    shared_data: Callable[[WritePlan, bool], Iterable[Loss]] | None = None
    runtime: Runtime | None = None


@cache
def built_in() -> tuple[Codec, ...]:
    """The codecs of this package."""
    from formats import onnxpb, onnxzip, rten

    return (onnxpb.CODEC, onnxzip.CODEC, rten.CODEC, onnxpb.CRYPT_CODEC, onnxpb.TEXT_CODEC, onnxpb.JSON_CODEC)


class Installed(NamedTuple):
    """The codecs that installed packages offer, and the reasons why other codecs cannot be used."""

    codecs: tuple[Codec, ...]
    problems: tuple[str, ...]


@cache
def installed() -> Installed:
    """The codecs that installed packages offer under `formats.codecs`, by name; a broken codec is not an error."""
    from importlib.metadata import entry_points

    found = [_load(entry) for entry in sorted(entry_points(group=ENTRY_POINTS), key=lambda entry: entry.name)]
    return Installed(
        tuple(each for each in found if isinstance(each, Codec)),
        tuple(each for each in found if isinstance(each, str)),
    )


def _load(entry: EntryPoint) -> Codec | str:
    """The codec of an entry point, or what is wrong with it."""
    label = f"the codec {entry.name!r} of the package {entry.dist.name if entry.dist else entry.value}"
    try:
        codec = entry.load()
    except Exception as error:  # code of other packages can raise any error when it is imported
        return f"{label} cannot be imported ({type(error).__name__}: {error})"
    if not isinstance(codec, Codec):
        return f"{label} is not a Codec, but a {type(codec).__name__}"
    if codec.name in {other.name for other in built_in()}:
        return f"{label} is called {codec.name!r}, like a codec of this package"
    return codec


@cache
def codecs() -> tuple[Codec, ...]:
    """All codecs: the built-in ones, then those of other packages."""
    return (*built_in(), *installed().codecs)


def is_marked_by_others(head: bytes, nbytes: int) -> bool:
    """Whether a file with these first bytes has the mark of a format of another package."""
    return any(codec.sniff(head, nbytes) is Match.STRONG for codec in installed().codecs)


def of_domains(domains: Collection[str | None]) -> Codec | None:
    """The codec whose own operators include operators of these domains."""
    groups = (built_in, codecs) if {*domains} - USUAL_DOMAINS else (built_in,)
    return next((codec for group in groups for codec in group() if codec.domain and codec.domain in domains), None)


def by_name(name: str) -> Codec:
    """The codec with this name.

    Raises: OptionError that lists the known ones.
    """
    codec = _first(lambda codec: codec.name == name)
    if codec is None:
        known = ", ".join(codec.name for codec in codecs())
        raise OptionError(f"no format is called {name!r}; there are {known}{_problems()}")
    return codec


FORMAT = Kind(
    "the name of a format",
    lambda value: by_name(value).name,
    "FORMAT",
    values=lambda: [codec.name for codec in codecs()],
)


def runtime(name: str) -> Runtime:
    """The runtime of the format with this name.

    Raises: OptionError that lists the known ones.
    """
    found = {codec.name: codec.runtime for codec in codecs() if codec.runtime is not None}
    if name not in found:
        raise OptionError(f"no runtime is called {name!r:.100}; there is {', '.join(found)}")
    return found[name]


def _runtime_name(value: str) -> str:
    runtime(value)
    return value


def _runtimes() -> list[str]:
    return [codec.name for codec in codecs() if codec.runtime is not None]


RUNTIME = Kind("the name of a runtime: rten", _runtime_name, "RUNTIME", values=_runtimes)


def for_writing(path: Path, option: str = "format") -> Codec:
    """The codec for the extension of `path`; `option` is the caller's name for the format argument.

    Raises: UnknownFormatError that lists the known extensions.
    """
    suffix = path.suffix.lower()
    codec = _first(lambda codec: suffix in codec.extensions)
    if codec is None:
        known = ", ".join(extension for codec in codecs() for extension in codec.extensions)
        unknown = f"the extension {path.suffix!r} does not belong to any format"
        found = unknown if suffix else "the file has no extension that determines the format"
        raise UnknownFormatError(f"{found} (known: {known}); name one with `{option}`{_problems()}", path=path)
    return codec


def for_reading(head: bytes, nbytes: int, path: Path | None, option: str = "format") -> Codec:
    """The codec of a file with these first bytes: a strong match, else the extension's, else a weak match.

    An extension of an encrypted format of this package always decides.

    Raises: UnknownFormatError that says what was tried.
    """
    suffix = path.suffix.lower() if path else ""
    codec = (
        next((codec for codec in built_in() if codec.encrypted and suffix in codec.extensions), None)
        or _first(lambda codec: codec.sniff(head, nbytes) is Match.STRONG)
        or _first(lambda codec: suffix in codec.extensions and codec.sniff(head, nbytes) is not Match.NONE)
        or _first(lambda codec: codec.sniff(head, nbytes) is not Match.NONE)
    )
    if codec is None:
        tried = ", ".join(codec.title for codec in codecs())
        reason = f"it is not a known kind of file ({tried})" if nbytes else "the file is empty"
        message = f"{reason}; if this is wrong, name the format with `{option}`{_problems()}"
        raise UnknownFormatError(message, path=path)
    return codec


def _problems() -> str:
    """The errors of other packages' codecs, as an addition to a message: one of these codecs may be needed."""
    return "".join(f"; {problem}" for problem in installed().problems)


def _first(wanted: Callable[[Codec], bool]) -> Codec | None:
    """The first such codec; a search for installed ones takes as long as a small conversion, so they come last."""
    return next((codec for group in (built_in, codecs) for codec in group() if wanted(codec)), None)
