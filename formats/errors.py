"""The exceptions of the package: a tree below `FormatError`, an error in a call, and errors of the system.

`OptionError` is an error in the call, not in a model, and is not part of the tree.
`OSError` passes through unchanged: it already has good names for a missing file, a full disk and a missing permission.
`RemoteError` is for errors of a store or a server that have no such name.
"""

from __future__ import annotations

import errno
import os
from typing import Any


class FormatError(Exception):
    """A model file, or a model in memory, is not valid for an operation.

    `path` is in the filesystem, `file_offset` counts bytes from the start of that file, and `where` is a dotted place
    in the model (`graph.node[3].attribute["body"].g`). `requirement` is the number of the requirement that the file
    breaks, such as `Z-3.4` of docs/onnxz.md. Each is `None` if it is unknown, and a caller that knows it may set it.
    """

    def __init__(
        self,
        message: str,
        *,
        path: str | os.PathLike[str] | None = None,
        file_offset: int | None = None,
        where: str | None = None,
        requirement: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.path = path
        self.file_offset = file_offset
        self.where = where
        self.requirement = requirement

    def __str__(self) -> str:
        place = []
        if self.path is not None:
            place.append(str(self.path))
        if self.file_offset is not None:
            place.append(f"at byte {self.file_offset}")
        if self.where is not None:
            place.append(self.where)
        return f"{', '.join(place)}: {self.message}" if place else self.message

    def lines(self) -> list[str]:
        """The error for people: one line, even if names in it have line breaks, unless it is a list of reasons."""
        return [str(self)]


class OptionError(TypeError, ValueError):
    """An option is unknown, cannot be used here, or has an invalid value.

    It is an error in the call, not in a model, so it is not a FormatError. The message names options by their keywords,
    in backquotes; the command line shows the flags instead.
    """


class UnknownFormatError(FormatError):
    """No codec claims this file or suffix."""


class DecodeError(FormatError):
    """The bytes are not a valid file of this format."""


class TruncatedError(DecodeError):
    """The bytes end before the structure in them ends."""


class WireError(DecodeError):
    """A varint, wire type, tag or offset is malformed."""


class LimitError(DecodeError):
    """A declared size exceeds the file or a fixed limit."""


class EncodeError(FormatError):
    """This model cannot be written in that format."""


class UnsupportedError(EncodeError):
    """The target lacks an operator, attribute or data type, or a loss was refused.

    `reason` and `remedy` are parts of the message, for a caller that says more around them; often they are empty.
    """

    def __init__(self, message: str, *, reason: str = "", remedy: str = "", **place: Any) -> None:
        super().__init__(message, **place)
        self.reason = reason
        self.remedy = remedy


class EditError(FormatError):
    """An edit does not fit the model: it has no such name, or the edit would break it."""


class TensorDataError(FormatError):
    """Weights cannot be reached, or do not fit their tensor."""


class ExternalDataError(TensorDataError):
    """An external data file is missing, too short, or outside the allowed directory."""


class CryptError(FormatError):
    """The key is wrong, or the ciphertext was tampered with or cut short."""


class MissingPackageError(FormatError, ModuleNotFoundError):  # type: ignore[misc]  # `path` of both
    """An optional package is needed, but not installed, or broken; `name` is the name of the import."""

    def __init__(self, message: str, name: str | None = None) -> None:  # missing during unpickling
        super().__init__(message)
        self.name = name


REPLACES = "; `overwrite=True` replaces it"
MAKES = "; `parents=True` makes it"


def file_exists(path: str | os.PathLike[str]) -> FileExistsError:
    """The error for a file in the way, which says what to do."""
    return FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST) + REPLACES, str(path))


def no_directory(path: str | os.PathLike[str]) -> FileNotFoundError:
    """The error for a missing folder around a file to write, which says what to do."""
    return FileNotFoundError(errno.ENOENT, f"no such directory{MAKES}", str(path))


class RemoteError(OSError):
    """A store or a server did not do what was requested; if `is_passing`, the next try may succeed.

    `wait_seconds` is the time for which it asks the caller to wait before the next try.
    """

    def __init__(self, *arguments: object, is_passing: bool = False, wait_seconds: float = 0.0) -> None:
        super().__init__(*arguments)
        self.is_passing = is_passing
        self.wait_seconds = wait_seconds


# Errors of the system: what to do about each, for the library and the commands.

MEMORY = "there is not enough memory"
# What to do, by the name of the error; not every system has all of them.
REMEDIES = {
    "ENOSPC": "free some space, or write to another disk",
    "EDQUOT": "free some space, or write to another disk",
    "EROFS": "write to another folder",
    "ENAMETOOLONG": "use a shorter name",
    "ELOOP": "a link leads back to itself: name the file itself",
    "ESTALE": "another machine has replaced the file: run again",
    "EIO": "the disk, or the connection to it, may be damaged",
    "EBUSY": "another program uses it",
    "ETXTBSY": "another program uses it",
}


def explain(error: OSError) -> None:
    """Make an error of the system say what to do: which limit was reached, or what helps."""
    words = words_of(error)
    if words is not None and words != error.strerror:
        error.strerror = words
        error.args = (error.errno, words, *error.args[2:])  # a pickle has these


def words_of(error: OSError) -> str | None:
    """What is wrong and what to do; `None` if the system's own words say all."""
    if error.errno == errno.ENOMEM:
        return f"{MEMORY}{soft_limit('RLIMIT_AS', 'bytes of addresses', 'ulimit -v')}"
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return f"too many files are open{soft_limit('RLIMIT_NOFILE', 'open files', 'ulimit -n')}"
    if error.errno == errno.EFBIG:
        return f"the file would be too large{soft_limit('RLIMIT_FSIZE', 'bytes in a file', 'ulimit -f')}"
    if error.errno is None or error.strerror != os.strerror(error.errno):  # it has words of its own
        return None
    remedy = REMEDIES.get(errno.errorcode.get(error.errno, ""))
    return None if remedy is None else f"{error.strerror}; {remedy}"


def soft_limit(name: str, what: str, command: str) -> str:
    """The limit of the process for a resource, if the system reports it."""
    try:
        import resource
    except ImportError:  # on Windows, for example
        return ""
    limit = resource.getrlimit(getattr(resource, name))[0]
    return "" if limit == resource.RLIM_INFINITY else f": the limit is {limit} {what} ({command})"
