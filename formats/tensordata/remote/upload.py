"""Executes a plan with addresses: files are written here and uploaded; the store shows them when they are complete.

The data files of a model are uploaded before the model. If the model replaces another one, all files are first uploaded
under other names. Then only copies within the store remain: the old model is removed, the data take their places, and
the model takes its place. So a model is never next to the data of another model.
"""

from __future__ import annotations

import tempfile
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import uuid4

from formats.errors import FormatError, UnsupportedError, file_exists
from formats.tensordata.engine import Result, execute
from formats.tensordata.file import TRAFFIC, File
from formats.tensordata.remote.address import WEB, Address
from formats.tensordata.remote.remote_file import PART_BYTES, RemoteFile
from formats.tensordata.remote.stores import ChangedError, attempt, filesystem_of, longest_seconds, upload_file
from formats.tensordata.spool import Spool, spooled

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from formats.tensordata.engine import EngineOptions
    from formats.tensordata.plan import WritePlan

# In these stores, an object is not visible before it is complete.
WHOLE_AT_ONCE = frozenset(
    ("s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "adl", "wasb", "wasbs", "hf", "oss", "oci", "r2", "memory")
)
# Stores that can refuse to replace an object, and the keywords of `put_file` for that.
CREATES: dict[str, dict[str, Any]] = {
    **{key: {"mode": "create"} for key in ("s3", "s3a", "gs", "gcs")},
    **{key: {"overwrite": False} for key in ("az", "abfs", "abfss")},
}
# Stores whose libraries send what they are given, and keep nothing of it on this machine.
PASSES_ON = frozenset((*CREATES, "memory"))


class _Upload(NamedTuple):
    """A complete file on this machine, and its destination. Only a decrypted model is in a `Spool`, without a path."""

    local: Path | Spool
    address: Address
    fs: Any
    path: str

    def exists(self) -> bool:
        """Whether something is there."""

        def look() -> bool:
            self.fs.invalidate_cache(self.path)
            return bool(self.fs.exists(self.path))

        return attempt(self.address, look, longest_seconds(0))

    def check_free(self) -> None:
        """Raises FileExistsError if something is there."""
        if self.exists():
            raise file_exists(self.address)

    def put(self, path: str, *, creates: bool = False) -> bool:
        """Upload the complete file to `path` of the store; return whether it is certain that this upload succeeded.

        If the answer to a request is lost, a repeated request fails, because the file already exists or its parts no
        longer exist. So after such an error, the bytes at `path` decide.

        Raises: FileExistsError if something else exists there that must not be replaced.
        """
        mode = CREATES.get(self.address.protocols[0], {}) if creates else {}
        try:
            attempt(self.address, lambda: self._send(path, mode))
        except (ChangedError, FileExistsError, FileNotFoundError) as error:
            if self.is_at(path):
                return False
            if isinstance(error, FileNotFoundError):
                raise
            raise file_exists(self.address) from None
        return True

    def _send(self, path: str, mode: Mapping[str, Any]) -> None:
        """Send all bytes to `path` of the store; after an error, the store forgets what it got."""
        if not isinstance(self.local, Spool):
            upload_file(self.address, self.fs, self.local, path, **mode)
            return
        TRAFFIC.add(to_send=self.local.nbytes)
        file = self.fs.open(path, "xb" if mode else "wb")
        try:
            for _, piece in self.local.pieces():
                file.write(piece)
                TRAFFIC.add(sent=len(piece))
            file.close()
        except BaseException:
            file.discard()
            with suppress(AttributeError):  # a file in memory, which shows what it has got anyway
                file.closed = True  # else its end would complete it
            raise

    def is_at(self, path: str) -> bool:
        """Whether `path` of the store has the bytes of the file; false if it cannot be read."""
        address = self.address if path == self.path else self.address.with_name(path.rpartition("/")[2])
        try:
            mine = self.local if isinstance(self.local, Spool) else File.open(self.local)
            there = RemoteFile(address)
            return mine.nbytes == there.nbytes and all(
                there.pread(start, stop - start) == mine.pread(start, stop - start)
                for start, stop in pairwise((*range(0, mine.nbytes, PART_BYTES), mine.nbytes))
            )
        except (OSError, FormatError):
            return False

    def take(self, path: str) -> None:
        """Move the object at `path` to its final path; a store that can only copy also keeps it at `path`."""
        is_copied = self.address.protocols[0] in WHOLE_AT_ONCE
        attempt(self.address, lambda: (self.fs.cp_file if is_copied else self.fs.mv)(path, self.path))

    def remove(self, path: str) -> None:
        """Remove the object at `path` of the store."""

        def remove() -> None:
            with suppress(FileNotFoundError):
                self.fs.rm_file(path)

        attempt(self.address, remove)


def upload(plan: WritePlan, options: EngineOptions) -> Result:
    """Put every file of the plan at its address, and return what was done.

    After a failure, no file of the plan is there, or the error names those that are. A `dry_run` only checks what would
    prevent the upload.

    Raises: FileExistsError if something is in the way and not to be overwritten; RemoteError and other OSErrors;
    what the engine raises.
    """
    with tempfile.TemporaryDirectory(prefix="formats-") as name:
        folder = Path(name)
        uploads = [_upload_of(folder, file.path, options) for file in plan.files]
        if plan.permissions.decrypted and uploads[0].address.protocols[0] not in PASSES_ON:
            message = (
                "the library of this store may put the decrypted model on a disk; convert it to a file, and copy that"
            )
            raise UnsupportedError(message, path=uploads[0].address)
        there = [upload for upload in uploads if upload.exists()]
        if there and not options.overwrite:
            raise file_exists(there[0].address)
        if options.dry_run:
            return Result(plan.nbytes, {})
        if plan.permissions.decrypted:
            spools, digests = spooled(plan, options)
            result = Result(plan.nbytes, digests)
            uploads = [upload._replace(local=spool) for upload, spool in zip(uploads, spools, strict=True)]
        else:
            here = replace(options, overwrite=False, parents=False, fsync=False)
            files = (file._replace(path=folder / file.path.name) for file in plan.files)
            result = execute(plan._replace(files=tuple(files)), here)
        if len(uploads) > 1 and there:
            _replace(uploads, there)
        else:
            _create(uploads, creates=not options.overwrite, removes=not there)
    return result


def _upload_of(folder: Path, path: Path, options: EngineOptions) -> _Upload:
    """The upload of a file of a plan, through a file in a folder of this machine.

    Raises: UnsupportedError if nothing can be written to the address.
    """
    assert isinstance(path, Address), "all files of a model are in one place"
    address = path.with_options(options.storage_options, options.retries)
    if address.protocols[0] in WEB:
        raise UnsupportedError("a web server accepts no files; write to a store or to this machine", path=address)
    if address.protocols[0] in ("simplecache", "filecache", "blockcache"):
        raise UnsupportedError("a cache is for reading; write to the address of the store itself", path=address)
    return _Upload(folder / address.name, address, *filesystem_of(address))


def _create(uploads: Sequence[_Upload], *, creates: bool, removes: bool) -> None:
    """Upload the files to their paths, the model last. If one fails, `removes` says to remove those before it.

    Raises: the errors of the store, with the files that could not be removed.
    """
    begun: list[_Upload] = []
    doubtful: list[_Upload] = []
    try:
        for upload in uploads:
            begun.append(upload)  # part of it may exist, whatever happens to it
            if not _put_whole(upload, creates=creates):
                doubtful.append(begun.pop())
    except BaseException as error:
        if isinstance(error, FileExistsError):
            begun.pop()  # it belongs to another program
        if removes:
            _take_back(begun, error)
        if doubtful:
            names = ", ".join(str(upload.address) for upload in doubtful)
            _tell(error, f"and stays, because another program may have written the same: {names}")
        raise


def _put_whole(upload: _Upload, *, creates: bool) -> bool:
    """Upload the file to its path, and return whether it is certain that this upload succeeded.

    If the store supports this, the file is not visible before it is complete.
    """
    if upload.address.protocols[0] in WHOLE_AT_ONCE:
        return upload.put(upload.path, creates=creates)
    hidden = _hidden(upload)
    try:
        upload.put(hidden)
        if creates:
            upload.check_free()
        upload.take(hidden)
    except BaseException:
        with suppress(OSError, FormatError):
            upload.remove(hidden)
        raise
    return True


def _replace(uploads: Sequence[_Upload], there: Sequence[_Upload]) -> None:
    """Move the new files to their paths, some of which have files: remove the old model first, add the new one last.

    Raises: what the store raises. If nothing was replaced yet, everything is unchanged; after that, the error says
    where the new files are.
    """
    hidden = {upload: _hidden(upload) for upload in uploads}
    model = uploads[-1]
    begun = False
    try:
        for upload, name in hidden.items():
            upload.put(name)
        begun = True
        if model in there:
            model.remove(model.path)
        for upload, name in hidden.items():
            upload.take(name)
    except BaseException as error:
        if begun:
            names = ", ".join(f"{name} (for {upload.address.name})" for upload, name in hidden.items())
            _tell(error, f"the old model is gone, and the new files are in their places or at {names}")
        else:
            _forget(hidden)
        raise
    _forget(hidden)


def _forget(hidden: Mapping[_Upload, str]) -> None:
    """Remove the hidden files; a failure does not matter, because nothing depends on them."""
    for upload, name in hidden.items():
        with suppress(OSError, FormatError):
            upload.remove(name)


def _hidden(upload: _Upload) -> str:
    """A hidden path next to a file."""
    folder, slash, name = upload.path.rpartition("/")
    return f"{folder}{slash}.{name}.{uuid4().hex}.tmp"


def _take_back(uploads: Sequence[_Upload], error: BaseException) -> None:
    """Remove these files; the error names those that could not be removed."""
    remaining = []
    for upload in uploads:
        try:
            upload.remove(upload.path)
        except (OSError, FormatError):  # noqa: PERF203 - a request takes longer
            remaining.append(str(upload.address))
    if remaining:
        _tell(error, f"and could not be removed: {', '.join(remaining)}")


def _tell(error: BaseException, more: str) -> None:
    """Add to the message of an error."""
    if isinstance(error, FormatError):
        error.message += f"; {more}"
    elif isinstance(error, OSError) and error.strerror:
        error.strerror += f"; {more}"
