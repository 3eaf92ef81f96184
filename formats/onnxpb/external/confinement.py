"""The allowed places of external data, and how to open files there.

Spec: ONNX docs, "External Data" and "Security"; onnx.proto, `TensorProto.external_data`.
"""

from __future__ import annotations

import errno
import os
import posixpath
import re
from bisect import bisect_left
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from formats.errors import DecodeError, ExternalDataError
from formats.ir import dtypes
from formats.ir.storage import external_places
from formats.tensordata.file import AbsentFile, File, UnusedFile, is_address
from formats.tensordata.local.directory import Folder, LinkFoundError
from formats.tensordata.local.osio import SYSTEM, Capabilities, LocalFile

if TYPE_CHECKING:
    from formats.ir.archive_link import ArchiveLink
    from formats.ir.model import Tensor
    from formats.tensordata.remote.address import Address
    from formats.tensordata.sources.source import FileSpan

ATTEMPTS = 40  # the most links on the way to a data file; Linux has the same limit for a path
KEPT_OPEN = 64  # the number of open data files; a model with a file per tensor can have thousands

_DRIVE = re.compile(r"[A-Za-z]:")
_IN_MEMORY = re.compile(r"_ORT_MEM_ADDR_|^\*/|^<.*>$")


def check_location(location: str) -> None:
    """Return nothing if `location` names a file in the model's directory or below it.

    Raises: ExternalDataError for an empty, absolute or in-memory location, a drive, a way out by "..", or a name that
        has no bytes in this system's encoding of names.
    """
    if not location:
        raise ExternalDataError("external data has no location")
    if "\0" in location or _IN_MEMORY.search(location):
        raise ExternalDataError(f"location {location!r:.80} is not a file name")
    steps = re.split(r"[/\\]", location)
    if not steps[0] or _DRIVE.match(location) or ".." in steps:
        raise ExternalDataError(f"location {location!r:.80} leads outside the model's directory")
    try:
        os.fsencode(location)
    except UnicodeEncodeError as error:
        words = f"location {location!r:.80} cannot be a file name in {error.encoding}, the encoding of names here"
        raise ExternalDataError(f"{words}; PYTHONUTF8=1 in the environment makes it UTF-8") from None


class MissingDataError(ExternalDataError):
    """There is no file where the model at `model` has weights."""

    def __init__(self, model: Path) -> None:
        super().__init__(f"the data file of {model.name} does not exist; copy it to this place")


class Ranges(NamedTuple):
    """The starts and the ends of ranges that do not overlap, in their order; a tuple of each takes more memory."""

    starts: list[int]
    ends: list[int]


class DataFiles:
    """The data files of one model, each opened once, and their used ranges.

    Without `hard_links`, a file with other names is refused: one of them may be outside, and not meant for the author
    of the model. `model_file` is the file that was opened at `model_path`, if any. The archive of a `link` must be the
    one to which the model was linked, and every tensor in it must be one of its entries. With `allow_absent`, a file
    that is missing or too short is no error: its tensors get ranges of an `AbsentFile`. With `no_data`, no file is
    opened.
    """

    def __init__(
        self,
        model_path: Path,
        *,
        model_file: File | None = None,
        hard_links: bool = True,
        link: ArchiveLink | None = None,
        allow_absent: bool = False,
        no_data: bool = False,
        capabilities: Capabilities = SYSTEM,
    ) -> None:
        self.model_path = model_path
        self.directory = model_path.parent
        self.hard_links = hard_links
        self.files: dict[str, File] = {}  # by location
        self.opened: dict[tuple[int, int], File] = {}  # by device and inode: several locations may lead to one file
        self.ranges: dict[File, Ranges] = {}
        self._model_file = model_file
        self._link = link
        self._allow_absent = allow_absent
        self._no_data = no_data
        self._absent: dict[str, AbsentFile] = {}
        self._payloads: dict[File, frozenset[tuple[int, int]]] = {}  # of the archive of the link
        self._capabilities = capabilities

    def find(self, tensor: Tensor, where: str) -> FileSpan:
        """The range of a data file with the bytes of `tensor`.

        A missing offset is 0; a length that is missing or 0 is the size that dims and data type need, or else the rest
        of the file, as for onnx and onnxruntime.
        Tensors may share a range, but ranges that overlap in part are refused.

        Raises: ExternalDataError for a file, a range or a size that is not allowed, with the tensor's place.
        """
        entries = external_places(tensor)
        location = entries.get("location", "")
        try:
            file = self.files.get(location)
            if file is None:
                check_location(location)
                file = self.files[location] = self._opened(location)
            offset, length = _number(entries, "offset") or 0, _number(entries, "length") or None
            row = dtypes.BY_NUMBER.get(tensor.data_type or 0)
            expected = row.nbytes(tensor.dims) if row and row.bits and min(tensor.dims, default=0) >= 0 else None
            size = length if length is not None else expected if expected is not None else file.nbytes - offset
            _check_length(size, expected)
            span = self._span(location, file, offset, size)
            self.claim(span.file, offset, offset + span.nbytes)
        except ExternalDataError as error:
            error.where, error.path = where, error.path or self.directory / location.replace("\0", "")
            raise
        except DecodeError as error:
            raise ExternalDataError(error.message, path=self.directory / location, where=where) from None
        return span

    def _opened(self, location: str) -> File:
        """The file at `location`, checked if it is the archive of the link."""
        if self._no_data:
            return UnusedFile(self.directory / location)
        try:
            file = self.open(location)
        except MissingDataError as error:
            if not self._allow_absent:
                raise
            return AbsentFile(self.directory / location, error.message)
        self._check_link(location, file)
        return file

    def _span(self, location: str, file: File, offset: int, nbytes: int) -> FileSpan:
        """A range of a data file, whose size may be unknown and negative if the file is too short.

        Raises: ExternalDataError if the file is too short.
        """
        if isinstance(file, AbsentFile):
            return file.wanted(offset, max(nbytes, 0))
        if max(offset, offset + nbytes) <= file.nbytes:
            span = file.span().slice(offset, nbytes)
            self._check_entry(file, offset, nbytes)
            return span
        absent = self._absent.get(location)
        if absent is None:
            from formats.codecs import foreign

            other_format = foreign.recognise(file.span())
            cause = other_format.message if other_format else ""
            absent = AbsentFile(self.directory / location, cause, file.nbytes)
            self._absent[location] = absent
        span = absent.wanted(offset, max(nbytes, 0))
        if not self._allow_absent:
            raise ExternalDataError(absent.cause or absent.reason)
        return span

    def _check_link(self, location: str, file: File) -> None:
        """Raises ExternalDataError if the file should be the archive of the link, but is another file."""
        if self._link is not None and posixpath.normpath(location) == self._link.archive:
            from formats.onnxpb.external.archive_links import payloads_of

            self._payloads[file] = payloads_of(self._link, file)

    def _check_entry(self, file: File, offset: int, nbytes: int) -> None:
        """Raises ExternalDataError if the file is the archive of the link, but the range is not one of its entries."""
        if file in self._payloads and (offset, nbytes) not in self._payloads[file]:
            raise ExternalDataError(f"the bytes {offset} to {offset + nbytes} are not an entry of the archive")

    def open(self, location: str) -> File:
        """The file at `location`, if policy allows it.

        A symbolic link may lead anywhere in the model's own directory, or in the directory of the file to which the
        model's own path resolves. The Hugging Face cache has this layout: both are links into one folder of blobs.
        """
        if is_address(self.directory):
            return self._request(self.directory, location)
        try:
            file = self._walk(location) if self._capabilities.open_folders else self._look_up(location)
        except FileNotFoundError:
            raise MissingDataError(self.model_path) from None
        except OSError as error:
            if error.errno != errno.ENAMETOOLONG:
                raise
            words = f"location {location!r:.80} is too long for the name of a file"
            raise ExternalDataError(words, path=self.model_path) from None
        with file.descriptor() as descriptor:
            status = os.fstat(descriptor)
        if status.st_nlink > 1 and not self.hard_links:
            names = f"{status.st_nlink} names (hard links)"
            raise ExternalDataError(
                f"the data file has {names}, which is not allowed here; use a copy, which has one name"
            )
        return self.opened.setdefault((status.st_dev, status.st_ino), file)

    def _request(self, directory: Address, location: str) -> File:
        """The file at `location` next to a model at an address: stores have no links, and it cannot lead out."""
        from formats.tensordata.remote.remote_file import RemoteFile

        try:
            return RemoteFile(directory / location, first_bytes=0)
        except FileNotFoundError:
            raise MissingDataError(self.model_path) from None

    @cached_property
    def folders(self) -> list[Folder]:
        """The folders that data files may be in, opened: the model's, and the target folder of the model's own link.

        Otherwise, an attacker who can replace the model by a link could choose the second folder: it must contain the
        model that was read.
        """
        linked = Path(os.path.realpath(self.model_path))
        try:
            folders = [Folder(self.directory), *([Folder(linked.parent)] if self.model_path.is_symlink() else ())]
        except OSError as error:
            raise ExternalDataError(f"the model's directory cannot be opened: {error.strerror}") from None
        file = self._model_file
        name = file.path.name if file is not None and file.moved else self.model_path.name
        if isinstance(file, LocalFile):
            is_linked = all(folder.has(linked.name, file, follow_link=False) for folder in folders[1:])
            if not is_linked or not folders[0].has(name, file, follow_link=True):
                raise ExternalDataError("the model was replaced while it was read")
        return folders

    def _walk(self, location: str) -> File:
        """The file at `location`, found from one of the open folders without following a link.

        A link on the way is resolved as a path, and its target is opened from a folder again. So whatever changes
        meanwhile, the opened file is in one of the folders.
        """
        folder = self.folders[0]
        moved = {} if self._model_file is None else self._model_file.moved
        path = Path(folder.path, moved.get(location, location))
        for _ in range(ATTEMPTS):
            steps = path.relative_to(folder.path).parts
            if not steps:
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
            try:
                keep_open = len(self.opened) < KEPT_OPEN
                return folder.open(steps, path, keep_open=keep_open, capabilities=self._capabilities)
            except LinkFoundError:
                pass
            try:
                resolved = Path(os.path.realpath(path))
            except OSError:  # the link disappeared while it was read
                continue
            allowed = [other for other in self.folders if resolved.is_relative_to(other.path)]
            if not allowed:
                raise ExternalDataError("the data file is outside the model's directory, where reading is not allowed")
            if resolved == path and not path.exists():
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
            folder, path = allowed[0], resolved
        raise ExternalDataError("the data file was replaced while it was being opened")

    def _look_up(self, location: str) -> File:
        """The file at `location`, on a system without calls for open folders: checked before and after opening.

        An attacker who replaces a folder by a link and back at the right moments could deceive this check.
        """
        moved = {} if self._model_file is None else self._model_file.moved
        path = self.directory / moved.get(location, location)
        resolved = self._resolve(path)
        file = LocalFile(resolved, keep_open=len(self.opened) < KEPT_OPEN, capabilities=self._capabilities)
        if not file.is_at(os.lstat(resolved)) or self._resolve(path) != resolved:
            raise ExternalDataError("the data file was replaced while it was being opened")
        return file

    def _resolve(self, path: Path) -> Path:
        """The path without links, inside one of the allowed directories."""
        resolved = Path(os.path.realpath(path))
        allowed = (os.path.realpath(self.directory), Path(os.path.realpath(self.model_path)).parent)
        if not any(resolved.is_relative_to(directory) for directory in allowed):
            raise ExternalDataError("the data file is outside the model's directory, where reading is not allowed")
        return resolved

    def claim(self, file: File, start: int, end: int) -> None:
        """Record that a tensor uses the bytes from `start` to `end` of a file."""
        starts, ends = self.ranges.setdefault(file, Ranges([], []))
        index = bisect_left(starts, start)
        is_last = index == len(starts)
        if start == end or (not is_last and (starts[index], ends[index]) == (start, end)):
            return
        if (index and ends[index - 1] > start) or (not is_last and starts[index] < end):
            raise ExternalDataError(f"the bytes {start} to {end} overlap those of another tensor")
        starts.insert(index, start)
        ends.insert(index, end)


def _check_length(size: int, expected: int | None) -> None:
    if expected is not None and size != expected:
        raise ExternalDataError(f"length is {size} bytes, but dims and data type make {expected}")


def _number(entries: dict[str, str], key: str) -> int | None:
    text = entries.get(key)
    if not text:
        return None
    if not text.isascii() or not text.isdecimal() or len(text) > 20:
        raise ExternalDataError(f"{key} is {text!r:.40}, which is not a number of bytes")
    return int(text)
