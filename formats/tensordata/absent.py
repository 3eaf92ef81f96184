"""The part of a data file that is not there, for readers that only describe a model."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from formats.errors import ExternalDataError
from formats.tensordata.file import File
from formats.tensordata.sources.source import FileSpan

if TYPE_CHECKING:
    from pathlib import Path


class AbsentFile(File):
    """A file that is missing, or shorter than a model needs; reading it is an error.

    `nbytes` is the size that the model needs, as far as is known, and `found_nbytes` the size of the file that is
    there, if there is one. The `cause` is for people; it is empty if the file is only too short.
    """

    __slots__ = ("cause", "found_nbytes", "nbytes", "path")

    def __init__(self, path: Path, cause: str = "", found_nbytes: int | None = None) -> None:
        self.path = path
        self.cause = cause
        self.found_nbytes = found_nbytes
        self.nbytes = 0

    @property
    def reason(self) -> str:
        """What is wrong with the file, and how many bytes it must have."""
        if self.cause:
            return f"{self.cause}; the model needs {self.nbytes:,} bytes of it" if self.nbytes else self.cause
        return too_short(self.found_nbytes or 0, self.nbytes)

    def wanted(self, offset: int, nbytes: int) -> FileSpan:
        """A range that the model needs."""
        self.nbytes = max(self.nbytes, offset + nbytes)
        return FileSpan(self, offset, nbytes)

    def _refuse(self) -> NoReturn:
        raise ExternalDataError(self.reason, path=self.path)

    def pread_into(self, offset: int, buffer: memoryview | bytearray) -> None:
        """Raises ExternalDataError."""
        self._refuse()

    def pread(self, offset: int, nbytes: int) -> bytes:
        """Raises ExternalDataError."""
        self._refuse()

    def map(self, offset: int, nbytes: int) -> memoryview:
        """Raises ExternalDataError."""
        self._refuse()

    def is_same(self, other: File) -> bool:
        """Whether it is the same object."""
        return self is other

    def is_current(self) -> bool:
        """True: nothing was read from it."""
        return True

    def check_unchanged(self) -> None:
        """Raises ExternalDataError."""
        self._refuse()

    def check_in_place(self, descriptor: int | None = None) -> None:
        """Raises ExternalDataError."""
        self._refuse()

    def descriptor(self) -> NoReturn:
        """Raises ExternalDataError."""
        self._refuse()

    def close(self) -> None:
        """Do nothing: it is not open."""


def too_short(nbytes: int, wanted_nbytes: int) -> str:
    """The words for a data file that has too few bytes."""
    needs = f"the data file has {nbytes:,} bytes, but the model needs {wanted_nbytes:,}"
    return f"{needs}; it is incomplete: copy or download it again"
