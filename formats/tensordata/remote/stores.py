"""Requests to a store of objects or a server through fsspec: what is there, and ranges of it.

Each answer is checked before it is used: its length, its range, and that the object is still the opened object.

Every library below fsspec has its own errors. `attempt` repeats a request if that may help, and turns errors into those
that callers know, each with one sentence without secrets. The original is not kept, because its text can contain an
address with a password.

Spec: RFC 9110, sections 8.8, 14 and 15; fsspec, "API Reference".
"""

from __future__ import annotations

import errno
import random
import re
from contextlib import AsyncExitStack, asynccontextmanager
from functools import lru_cache
from inspect import signature
from itertools import count
from pathlib import Path
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from formats.errors import FormatError, MissingPackageError, RemoteError, TensorDataError
from formats.extras import needed
from formats.tensordata.file import TRAFFIC
from formats.tensordata.remote.address import WEB
from formats.tensordata.threads import started_or_done

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from formats.tensordata.file import File
    from formats.tensordata.remote.address import Address


SILENCE_SECONDS = 60.0  # the time without a byte after which a request fails
WHOLE_BYTES = 16 << 20  # the largest file that is read as a whole from a web server that sends no ranges
TOLD = (  # the values of a store for an object that change with its content
    *("ETag", "etag", "e_tag", "VersionId", "version_id", "generation", "md5Hash", "md5", "content_md5", "blob_id"),
    *("LastModified", "last_modified", "updated", "mtime", "modified", "created", "ino"),
)
PASSING_STATUS = frozenset((408, 425, 429, 500, 502, 503, 504))
_CONTENT_RANGE = re.compile(r"bytes (?:(\d{1,19})-(\d{1,19})|\*)/(\d{1,19}|\*)")
MAX_FILE_BYTES = (1 << 63) - 1  # of any system
LEAST_BYTES_PER_SECOND = 16 << 10  # a server that is slower keeps a request, and the user, waiting for ever
MAX_REDIRECTIONS = 10
REDIRECTIONS = frozenset((301, 302, 303, 307, 308))
OWN_HEADERS = ("Range", "Accept-Encoding")  # those of this module, which another server may get


class Identity(NamedTuple):
    """The values that identify the opened object: its size in bytes, and values of the store."""

    nbytes: int
    marks: tuple[str, ...]

    @classmethod
    def of(cls, nbytes: int, told: Mapping[str, Any]) -> Identity:
        """The identity from the values of a store."""
        return cls(nbytes, tuple(f"{key}={told[key]}" for key in TOLD if told.get(key)))


class ChangedError(TensorDataError):
    """An object is not the object that was opened."""


def longest_seconds(nbytes: int) -> float:
    """How long a request for so many bytes may take."""
    return SILENCE_SECONDS + nbytes / LEAST_BYTES_PER_SECOND


def changed(address: Address) -> ChangedError:
    """The error to raise if an object is not the object that was opened."""
    return ChangedError("the file has changed since it was read; run the command again", path=address)


def too_slow(address: Address, seconds: float) -> RemoteError:
    """The error to raise if a request takes longer than `longest_seconds`."""
    message = f"the store took more than {seconds:.0f} s to answer one request"
    return RemoteError(errno.EIO, message, str(address), is_passing=True)


class Store:
    """An object that fsspec can read ranges of.

    `verifies` says whether `read` itself detects a replaced object. No method repeats a request.
    """

    verifies = False

    def __init__(self, address: Address, fs: Any, path: str) -> None:
        self.address = address
        self.fs = fs
        self.path = path

    def seconds(self, nbytes: int = 0) -> float | None:
        """How long others wait for a request for so many bytes; `None` if it ends by itself."""
        return longest_seconds(nbytes)

    def open(self, first_bytes: int) -> tuple[Identity, bytes]:
        """The current state of the object, and its first bytes, up to `first_bytes`, if one request gives both."""
        return self.look(), b""

    def look(self) -> Identity:
        """The current state of the object."""
        self.fs.invalidate_cache(self.path)
        return self._identity(self.fs.info(self.path))

    def read(self, start: int, stop: int, identity: Identity) -> bytes:
        """The bytes from `start` to `stop` of the object with this identity; fewer if no more are sent."""
        data: bytes
        if _takes_ranges(self.fs):
            data = self.fs.cat_file(self.path, start=start, end=stop)
        else:
            with self.fs.open(self.path, "rb") as file:
                file.seek(start)
                data = file.read(stop - start)
        return data

    def _identity(self, told: Mapping[str, Any]) -> Identity:
        if told.get("type") == "directory":
            raise IsADirectoryError(errno.EISDIR, "it is a folder", str(self.address))
        nbytes = told.get("size")
        if nbytes is None:
            raise self.error("the store does not tell the size of the file")
        if not isinstance(nbytes, int) or not 0 <= nbytes <= MAX_FILE_BYTES:
            raise self.error(f"the store says that the file has {nbytes!r:.40} bytes, which no file has")
        return Identity.of(nbytes, told)

    def error(self, message: str, *, is_passing: bool = False, wait_seconds: float = 0.0) -> RemoteError:
        """The error to raise if an answer is wrong."""
        number = errno.EIO
        return RemoteError(number, message, str(self.address), is_passing=is_passing, wait_seconds=wait_seconds)


class BufferedStore(Store):
    """An object whose file in fsspec reads exactly the requested ranges.

    The file of S3 also makes the server compare the ETag.
    """

    def __init__(self, address: Address, fs: Any, path: str) -> None:
        super().__init__(address, fs, path)
        self._file: Any = None
        self.verifies = address.scheme in ("s3", "s3a")

    def open(self, first_bytes: int) -> tuple[Identity, bytes]:
        """The current state of the object; the request that opens the file also shows this."""
        self.fs.invalidate_cache(self.path)
        self._file = self.fs.open(self.path, "rb", cache_type="none")
        return self._identity(self._file.details), b""

    def read(self, start: int, stop: int, identity: Identity) -> bytes:
        """The bytes of a range."""
        if self._file is None:
            now, _ = self.open(0)
            if now != identity:
                raise changed(self.address)
        data: bytes = self._file._fetch_range(start, stop)
        return data


class CachedStore(Store):
    """An object that fsspec copies to this machine as a whole, such as `simplecache::s3://...`."""

    def __init__(self, address: Address, fs: Any, path: str) -> None:
        super().__init__(address, fs, path)
        self._file: File | None = None

    def seconds(self, nbytes: int = 0) -> float | None:
        """Any time: nobody knows how large the object is that fsspec copies."""
        return None

    @property
    def _copy(self) -> File:
        if self._file is None:
            from formats.tensordata.local.osio import SYSTEM, LocalFile

            with self.fs.open(self.path, "rb") as copied:
                self._file = LocalFile(Path(copied.name), keep_open=True, capabilities=SYSTEM)
        return self._file

    def look(self) -> Identity:
        """The identity of the copy; later changes of the object do not matter."""
        return Identity(self._copy.nbytes, ())

    def read(self, start: int, stop: int, identity: Identity) -> bytes:
        """The bytes of a range of the copy."""
        return self._copy.pread(start, stop - start)


class WebStore(Store):
    """A file on a web server, read by range requests; the ETag or the time in every answer identifies the file."""

    verifies = True

    def __init__(self, address: Address, fs: Any, path: str) -> None:
        super().__init__(address, fs, path)
        self._whole: bytes | None = None  # of a server that sends no ranges

    def seconds(self, nbytes: int = 0) -> float | None:
        """A request ends by itself, and closes its connection."""
        return None

    def open(self, first_bytes: int) -> tuple[Identity, bytes]:
        """The current state of the file, and its first bytes: one request gives both."""
        self._whole = None
        return self._get(0, max(first_bytes, 1))

    def look(self) -> Identity:
        """The current state of the file."""
        return self._get(0, 1)[0]

    def read(self, start: int, stop: int, identity: Identity) -> bytes:
        """The bytes of a range.

        Raises: ChangedError if the file was replaced meanwhile.
        """
        if self._whole is not None:
            return self._whole[start:stop]
        now, data = self._get(start, stop)
        if now != identity:
            raise changed(self.address)
        return data[:stop] if self._whole is None else self._whole[start:stop]

    def _get(self, start: int, stop: int) -> tuple[Identity, bytes]:
        from fsspec.asyn import sync

        answer: tuple[Identity, bytes] = sync(self.fs.loop, self._request, start, stop)
        return answer

    async def _request(self, start: int, stop: int) -> tuple[Identity, bytes]:
        import asyncio

        seconds = longest_seconds(max(stop - start, WHOLE_BYTES if not start else 0))
        began = monotonic()
        try:
            return await asyncio.wait_for(self._answered(start, stop), seconds)
        except asyncio.TimeoutError:
            if monotonic() - began < seconds:  # that of aiohttp, for silence
                raise
            raise too_slow(self.address, seconds) from None

    async def _answered(self, start: int, stop: int) -> tuple[Identity, bytes]:
        import aiohttp

        options = dict(self.fs.kwargs)
        headers = {**options.pop("headers", {}), "Range": f"bytes={start}-{stop - 1}", "Accept-Encoding": "identity"}
        seconds = options.pop("timeout", None)
        if seconds is None:
            limit = aiohttp.ClientTimeout(total=None, sock_connect=SILENCE_SECONDS, sock_read=SILENCE_SECONDS)
        else:
            limit = seconds if isinstance(seconds, aiohttp.ClientTimeout) else aiohttp.ClientTimeout(total=seconds)
        session = await self.fs.set_session()
        options |= {"headers": headers, "timeout": limit}
        async with self._following(session, self.fs.encode_url(self.path), options) as answer:
            nbytes = self._check(answer, start, stop)
            if answer.status == 416:  # an empty file has no range to send
                return Identity.of(nbytes or 0, _identifying_values(answer.headers)), b""
            if answer.status == 200:
                self._whole = data = await self._take(answer, nbytes, WHOLE_BYTES)
                return Identity.of(len(data), _identifying_values(answer.headers)), data[:stop] if not start else data
            assert nbytes is not None, "an answer with a range says how long the file is"
            data = await self._take(answer, min(stop, nbytes) - start, min(stop, nbytes) - start)
            return Identity.of(nbytes, _identifying_values(answer.headers)), data

    @asynccontextmanager
    async def _following(self, session: Any, url: Any, options: dict[str, Any]) -> AsyncIterator[Any]:
        """The answer after all redirections.

        Headers, passwords and cookies that the user gave are for the server of the address, not for another one.
        """
        import aiohttp

        here, first = url, None
        async with AsyncExitStack() as stack:
            for _ in range(MAX_REDIRECTIONS):
                sent, asked = options, session
                if first is not None and here.origin() != first:
                    kept = {name: options["headers"][name] for name in OWN_HEADERS}
                    sent = {"headers": kept, "timeout": options["timeout"]}
                    asked = await stack.enter_async_context(aiohttp.ClientSession(trust_env=session.trust_env))
                context = asked.get(here, **{**sent, "allow_redirects": False})
                answer = await stack.enter_async_context(context)
                place = answer.headers.get("Location")
                if answer.status not in REDIRECTIONS or not place:
                    yield answer
                    return
                first = first or answer.url.origin()
                here = answer.url.join(type(answer.url)(place))
                if here.scheme not in WEB or not here.host:
                    raise self.error("the server redirects to an address that is not one of the web")
        raise self.error(f"the server redirects more than {MAX_REDIRECTIONS} times")

    def _check(self, answer: Any, start: int, stop: int) -> int | None:
        """The size of the file, from an answer that can be used.

        Raises: OSError for any other answer.
        """
        status, address = answer.status, str(self.address)
        if status in (404, 410):
            raise FileNotFoundError(errno.ENOENT, f"the server has no such file ({status})", address)
        if status in (401, 403, 407):
            raise PermissionError(errno.EACCES, f"the server does not allow reading this ({status})", address)
        content_range = _CONTENT_RANGE.fullmatch(answer.headers.get("Content-Range", ""))
        total = None if content_range is None or content_range[3] == "*" else int(content_range[3])
        if status == 416:
            if (start and total is None) or total:
                raise changed(self.address)
            return total
        if status not in (200, 206):
            wait = answer.headers.get("Retry-After", "")
            raise self.error(
                f"the server answered {status} ({answer.reason})",
                is_passing=status in PASSING_STATUS,
                wait_seconds=float(wait) if wait.isdecimal() and len(wait) < 7 else 0.0,
            )
        encoding = answer.headers.get("Content-Encoding", "identity").lower()
        if encoding != "identity":
            raise self.error(f"the server sends the file in the encoding {encoding!r:.40}, which was not requested")
        if status == 200:
            length = answer.headers.get("Content-Length", "")
            nbytes = int(length[:20]) if length.isdecimal() else None
            if nbytes is not None and nbytes > WHOLE_BYTES:
                raise self.error(
                    f"the server sends no ranges, only the whole file of {nbytes} bytes; put `simplecache::` in front "
                    "of the address to copy the file to this machine first"
                )
            return nbytes
        if content_range is None or content_range[1] is None or total is None:
            raise self.error("the server does not tell which range it sends, of a file of a possible size")
        if total > MAX_FILE_BYTES:
            raise self.error(f"the server says that the file has {total} bytes, which no file has")
        if int(content_range[1]) != start or int(content_range[2]) + 1 != min(stop, total):
            sent = answer.headers["Content-Range"]
            message = f"the server sends {sent!r:.80} instead of the bytes {start} to {stop - 1}"
            raise self.error(message, is_passing=True)
        return total

    async def _take(self, answer: Any, nbytes: int | None, most: int) -> bytes:
        """The body of an answer, which has `nbytes` bytes if that is known, and `most` at most.

        Raises: RemoteError for another number.
        """
        data = bytearray()
        async for piece in answer.content.iter_any():
            data += piece
            if len(data) > most:
                break
        if nbytes is None and len(data) <= most:
            return bytes(data)
        if nbytes is None:
            raise self.error("the server sends no ranges, and does not tell the size of the file")
        if len(data) != nbytes:
            message = (
                f"the server sent {len(data)} bytes instead of {nbytes}"
                if len(data) < nbytes
                else (f"the server sends more than the {nbytes} bytes it was asked for")
            )
            raise self.error(message, is_passing=True)
        return bytes(data)


@lru_cache(maxsize=4096)
def _takes_ranges(fs: Any) -> bool:
    """Whether a filesystem reads ranges with `cat_file`; that of SFTP always reads the whole file."""
    return {"start", "end"} <= signature(getattr(fs, "_cat_file", fs.cat_file)).parameters.keys()


def _identifying_values(headers: Mapping[str, str]) -> dict[str, str]:
    """The values for the file in the headers of an answer."""
    return {"ETag": headers.get("ETag", ""), "LastModified": headers.get("Last-Modified", "")}


def _counted(local: Path) -> Any:
    """The callback of fsspec for an upload, which counts the bytes that are sent."""
    from fsspec.callbacks import Callback

    class Counted(Callback):  # type: ignore[misc]  # fsspec has no types
        """Counts what is sent, also if a request is repeated."""

        def call(self, *_: Any, **__: Any) -> None:
            if self.value > self.nbytes:
                TRAFFIC.add(sent=self.value - self.nbytes)
                self.nbytes = self.value

        nbytes = 0

    TRAFFIC.add(to_send=local.stat().st_size)
    return Counted()


def upload_file(address: Address, fs: Any, local: Path, path: str, **mode: Any) -> None:
    """Upload a file to `path` of a store; one that can end its requests gets a limited time for them.

    Others have their own limits. To go on without them would be wrong: they could still replace the file later.
    """
    mode["callback"] = _counted(local)
    if not getattr(fs, "async_impl", False):
        fs.put_file(str(local), path, **mode)
        return
    import asyncio

    from fsspec.asyn import sync

    seconds = longest_seconds(local.stat().st_size)

    async def put() -> None:
        await asyncio.wait_for(fs._put_file(str(local), path, **mode), seconds)

    began = monotonic()
    try:
        sync(fs.loop, put)
    except (asyncio.TimeoutError, TimeoutError):
        if monotonic() - began < seconds:  # that of the store's library
            raise
        raise too_slow(address, seconds) from None


def filesystem_of(address: Address) -> tuple[Any, str]:
    """The filesystem of fsspec for an address, and the path there.

    Raises: MissingPackageError if a package is missing; FormatError if no filesystem has such addresses.
    """
    with needed("fsspec", "addresses"):
        import fsspec
        from fsspec.core import url_to_fs
    try:
        filesystem: tuple[Any, str] = url_to_fs(address.url, **address.options_of_store(fsspec.available_protocols()))
    except ImportError as error:
        message = f"addresses of {address.scheme}:// need a package that is not installed: {error}"
        raise MissingPackageError(message, error.name) from None
    except Exception as error:  # a filesystem can raise any error for its options
        message = f"this address, or an option for it, cannot be used: {address.redact(str(error))}"
        raise FormatError(message, path=address) from None
    return filesystem


def store_of(address: Address) -> Store:
    """The object at an address; no request is made yet.

    Raises: as `filesystem_of` does.
    """
    fs, path = filesystem_of(address)
    protocols = address.protocols
    if getattr(fs, "local_file", False) and protocols[0] in ("simplecache", "filecache"):
        return CachedStore(address, fs, path)
    if protocols[0] in WEB:
        return WebStore(address, fs, path)
    if protocols[0] in ("s3", "s3a", "hf"):
        return BufferedStore(address, fs, path)
    return Store(address, fs, path)


T = TypeVar("T")

WAIT_SECONDS = 0.5  # the wait before the first repeated request; it doubles before each further one
LONGEST_WAIT_SECONDS = 30.0
WORDS = 300  # the most characters from the text of another library's error
# Class names of temporary errors, of fsspec and of the libraries below it.
_PASSING = frozenset(
    (
        "TimeoutError",
        "ConnectionError",
        "ClientConnectionError",
        "ClientPayloadError",
        "HTTPClientError",
        "ServerDisconnectedError",
        "IncompleteReadError",
        "IncompleteRead",
        "TransportError",
        "RemoteProtocolError",
    )
)
_PASSING_NUMBERS = frozenset((errno.EIO, errno.EBUSY, errno.ETIMEDOUT, errno.ECONNRESET, errno.EPIPE, errno.EAGAIN))
_MISSING_CREDENTIALS = frozenset(("NoCredentialsError", "PartialCredentialsError", "DefaultCredentialsError"))


def attempt(address: Address, action: Callable[[], T], seconds: float | None = None) -> T:
    """The result of `action`, which is repeated up to `retries` times if that may help, and each time gets `seconds`.

    Raises: FileNotFoundError, PermissionError, RemoteError and other OSErrors; ChangedError; FormatErrors as they are.
    """
    for tries in count():
        try:
            return action() if seconds is None else _within(seconds, action, address)
        except Exception as error:  # noqa: PERF203 - whatever a library has; a request takes longer than to catch it
            if isinstance(error, FormatError):
                raise
            seconds_asked = _passing_seconds(_translated(error, address))
            if tries >= address.retries or seconds_asked is None:
                raise _translated(error, address) from None
            sleep(_wait(tries, seconds_asked))
    raise AssertionError("the loop has no end")


def _within(seconds: float, action: Callable[[], T], address: Address) -> T:
    """The result of `action`. Raises: RemoteError if it takes longer than `seconds`; what `action` raises."""
    answer = started_or_done(action)
    if answer.wait(seconds):
        return answer.result()
    raise too_slow(address, seconds)


def _wait(tries: int, asked_seconds: float) -> float:
    """How long to wait; it is partly random, so that clients of a busy server do not all return at the same moment."""
    seconds = WAIT_SECONDS * (1 << tries) * random.uniform(0.5, 1.5)  # noqa: S311 - nothing secret
    return min(max(seconds, asked_seconds), LONGEST_WAIT_SECONDS)


def _passing_seconds(error: Exception) -> float | None:
    """The seconds that the store asks to wait before the next try; `None` if none can help."""
    return getattr(error, "wait_seconds", 0.0) if getattr(error, "is_passing", False) else None


def _translated(error: Exception, address: Address) -> Exception:
    """The error of this package, or of the system, for one of any library."""
    name = str(address)
    kinds = {kind.__name__ for kind in type(error).__mro__}
    status = _status(error)
    if isinstance(error, (RemoteError, ChangedError)) or (isinstance(error, OSError) and error.filename == name):
        return error
    if "FileExpired" in kinds or status == 412:
        return changed(address)
    if isinstance(error, FileNotFoundError) or status in (404, 410):
        return FileNotFoundError(errno.ENOENT, "there is no such file", name)
    if isinstance(error, PermissionError) or status in (401, 403) or kinds & _MISSING_CREDENTIALS:
        return PermissionError(errno.EACCES, f"the store does not allow this ({_text(error, address)})", name)
    for kind, number, words in (
        (FileExistsError, errno.EEXIST, "the file exists"),
        (IsADirectoryError, errno.EISDIR, "it is a folder"),
        (NotImplementedError, errno.ENOTSUP, "this kind of store cannot do that"),
    ):
        if isinstance(error, kind):
            return OSError(number, words, name)
    error_number = getattr(error, "errno", None)
    is_passing = (
        bool(kinds & _PASSING) or status in PASSING_STATUS or (status is None and error_number in _PASSING_NUMBERS)
    )
    if isinstance(error, ValueError):
        message = f"the store has no such address ({_text(error, address)})"
    elif kinds & {"TimeoutError"}:
        message = "the store did not answer in time"
    else:
        message = f"the store failed with {type(error).__name__}: {_text(error, address)}"
    return RemoteError(error_number or errno.EIO, message, name, is_passing=is_passing)


def _status(error: Any) -> int | None:
    """The status of HTTP in an error of aiohttp, botocore, gcsfs or huggingface_hub, or of what it was made from."""
    for cause in (error, error.__cause__):
        answer = getattr(cause, "response", None)
        status = getattr(cause, "status", None) or getattr(answer, "status_code", None) or getattr(cause, "code", None)
        if isinstance(answer, dict):
            status = answer.get("ResponseMetadata", {}).get("HTTPStatusCode")
        if isinstance(status, int) and 100 <= status < 600:
            return status
    return None


def _text(error: Exception, address: Address) -> str:
    """The text of an error, in one line."""
    text = getattr(error, "strerror", None) or str(error)
    return address.redact(" ".join(str(text).split()))[:WORDS] or type(error).__name__
