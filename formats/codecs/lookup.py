"""Finds the codec of a format, a file or an extension: those of this package, and those that others install."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from formats.codecs.contract import Codec, Match, Runtime
from formats.errors import OptionError, UnknownFormatError
from formats.ir import MACHINE_LEARNING, STANDARD_DOMAINS, TRAINING
from formats.onnxruntime import MICROSOFT
from formats.options import OptionKind
from formats.words import joined

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from importlib.metadata import EntryPoint

ONNXRUNTIME = "onnxruntime"  # a runtime without a format of its own
ENTRY_POINTS = "formats.codecs"  # the group of entry points for the codecs of other packages
# The domains of operators that belong to no format; no codec is searched for them.
USUAL_DOMAINS = frozenset((*STANDARD_DOMAINS, MACHINE_LEARNING, TRAINING, MICROSOFT))


@cache
def built_in() -> tuple[Codec, ...]:
    """The codecs of this package."""
    from formats import onnxzip, ort, rten
    from formats.onnxpb import codecs as onnx

    return (onnx.CODEC, onnxzip.CODEC, rten.CODEC, ort.CODEC, onnx.CRYPT_CODEC, onnx.TEXT_CODEC, onnx.JSON_CODEC)


@cache
def model_extensions() -> frozenset[str]:
    """The extensions of the files of all formats of this package."""
    return frozenset(extension for codec in built_in() for extension in codec.extensions)


class Installed(NamedTuple):
    """The codecs that installed packages offer, and the reasons why other codecs cannot be used."""

    codecs: tuple[Codec, ...]
    problems: tuple[str, ...]


@cache
def installed() -> Installed:
    """The codecs that installed packages offer under `formats.codecs`, by name; a broken codec is not an error."""
    from importlib.metadata import entry_points

    loaded = [_load(entry) for entry in sorted(entry_points(group=ENTRY_POINTS), key=lambda entry: entry.name)]
    return Installed(
        tuple(codec for codec in loaded if isinstance(codec, Codec)),
        tuple(problem for problem in loaded if isinstance(problem, str)),
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


def all_extensions() -> set[str]:
    """The extensions of the files of all formats, also of those of other packages."""
    return {extension for codec in codecs() for extension in codec.extensions}


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
        names = ", ".join(codec.name for codec in codecs())
        raise OptionError(f"no format is called {name!r}; there are {names}{_problems()}")
    return codec


FORMAT = OptionKind(
    "the name of a format",
    lambda value: by_name(value).name,
    "FORMAT",
    values=lambda: [codec.name for codec in codecs()],
)


class RuntimeName(NamedTuple):
    """A program that runs models, and its release, if one was named."""

    name: str
    release: str | None = None

    def __str__(self) -> str:
        return self.name if self.release is None else f"{self.name}=={self.release}"

    @property
    def runtime(self) -> Runtime | None:
        """The program for which models are rewritten; `None` for onnxruntime, which needs only certain versions."""
        return None if self.name == ONNXRUNTIME else by_name(self.name).runtime


def runtime_named(text: str) -> RuntimeName:
    """The runtime in a text such as "rten" or "onnxruntime==1.18"; a release may have a third number.

    Raises: OptionError that lists the known runtimes, or the known releases.
    """
    if not isinstance(text, str):
        raise TypeError(text)
    name, equals, release = text.partition("==")
    releases = _releases_by_runtime()
    if name not in releases:
        raise OptionError(_unknown_runtime(text, releases))
    if not equals:
        return RuntimeName(name)
    minor = ".".join(release.split(".")[:2])
    if minor not in releases[name]() or not all(part.isdecimal() for part in release.split(".")):
        listed = ", ".join(releases[name]())
        raise OptionError(f"`runtime` is {text!r:.100}, but the known releases of {name} are {listed}")
    return RuntimeName(name, minor)


def _unknown_runtime(text: str, names: Collection[str]) -> str:
    """What to say of a runtime that does not exist: how it is written, if it is one that exists."""
    import re
    from difflib import get_close_matches

    parts = re.fullmatch(r"([a-z]*)[^0-9a-z]*(\d[\w.]*)?", text.strip().lower())
    word, release = (parts[1], parts[2]) if parts else (text, None)
    name = next(iter(get_close_matches(word, names, 1)), ONNXRUNTIME if word == "ort" else "")
    if name and release:
        return f"no runtime is called {text!r:.100}; two equals signs come before a release: {name}=={release}"
    meant = f"did you mean {name}?" if name else f"there are {joined([*names])}"
    return f"no runtime is called {text!r:.100}; {meant}"


def _releases_by_runtime() -> dict[str, Callable[[], Collection[str]]]:
    """Functions that return the known releases, by runtime."""
    releases: dict[str, Callable[[], Collection[str]]] = {
        codec.name: codec.runtime.releases for codec in codecs() if codec.runtime is not None
    }
    return releases | {ONNXRUNTIME: _of_onnxruntime}


def _of_onnxruntime() -> Collection[str]:
    from formats.codecs.onnxruntime_releases import RELEASES

    return RELEASES.keys()


RUNTIME = OptionKind(
    "the name of a runtime, and a release after == if needed: rten, rten==0.27 or onnxruntime==1.18",
    lambda value: str(runtime_named(value)),
    "NAME[==RELEASE]",
    values=lambda: [*_releases_by_runtime()],
)


SIMILAR = 0.85  # how similar an extension must be to be suggested


def by_extension(path: Path) -> Codec | None:
    """The codec for the extension of `path`, if there is one."""
    suffix = path.suffix.lower()
    return _first(lambda codec: suffix in codec.extensions)


def for_writing(path: Path, option: str = "format") -> Codec:
    """The codec for the extension of `path`; `option` is the caller's name for the format argument.

    Raises: UnknownFormatError that lists the known extensions.
    """
    codec = by_extension(path)
    if codec is None:
        suffix = path.suffix.lower()
        from difflib import get_close_matches

        from formats.codecs import foreign  # only errors need it

        written = f"formats writes {joined([codec.extensions[0] for codec in codecs()])}"
        if (other := foreign.with_extension(suffix)) is not None:
            title = other.title.partition(",")[0]
            raise UnknownFormatError(f"{title} cannot be written; {written}{_problems()}", path=path)
        if close := get_close_matches(suffix, all_extensions(), 1, SIMILAR):
            unknown = f"no format has the extension {path.suffix!r}; did you mean {close[0]!r}?"
            raise UnknownFormatError(unknown + _problems(), path=path)
        if suffix:
            unknown = f"no format has the extension {path.suffix!r}; {written}"
        else:
            unknown = f"the name has no extension, which would say the format; {written}"
        raise UnknownFormatError(
            f"{unknown}; `{option}` names the format if the name must be this{_problems()}", path=path
        )
    return codec


def for_reading(head: bytes, nbytes: int, path: Path | None, option: str = "format") -> Codec:
    """The codec of a file with these first bytes: a strong match, else the extension's, else a weak match.

    An extension of an encrypted format of this package always decides.

    Raises: UnknownFormatError that says what was tried, and with which `option` the caller names the format, if any.
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
        advice = f"; if this is wrong, name the format with `{option}`" if option else ""
        message = f"{reason}{advice}{_problems()}"
        raise UnknownFormatError(message, path=path)
    return codec


def _problems() -> str:
    """The errors of other packages' codecs, as an addition to a message: one of these codecs may be needed."""
    return "".join(f"; {problem}" for problem in installed().problems)


def _first(wanted: Callable[[Codec], bool]) -> Codec | None:
    """The first such codec; a search for installed ones takes as long as a small conversion, so they come last."""
    return next((codec for group in (built_in, codecs) for codec in group() if wanted(codec)), None)
