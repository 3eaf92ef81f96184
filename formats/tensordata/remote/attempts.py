"""Repeats requests to a store, and translates its errors.

Every library below fsspec has its own errors. This module turns them into errors that callers know, each with one
sentence without secrets. The original is not kept, because its text can contain an address with a password.
"""

from __future__ import annotations

import errno
import random
from itertools import count
from time import sleep
from typing import TYPE_CHECKING, Any, TypeVar

from formats.errors import FormatError, RemoteError
from formats.tensordata.remote.stores import PASSING_STATUS, ChangedError, changed, too_slow
from formats.tensordata.threads import started_or_done

if TYPE_CHECKING:
    from collections.abc import Callable

    from formats.tensordata.remote.address import Address

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
            found = _translated(error, address)
            if tries >= address.retries or not getattr(found, "is_passing", False):
                raise found from None
            sleep(_wait(tries, getattr(found, "wait_seconds", 0.0)))
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
    found = getattr(error, "errno", None)
    is_passing = bool(kinds & _PASSING) or status in PASSING_STATUS or (status is None and found in _PASSING_NUMBERS)
    if isinstance(error, ValueError):
        message = f"the store has no such address ({_text(error, address)})"
    elif kinds & {"TimeoutError"}:
        message = "the store did not answer in time"
    else:
        message = f"the store failed with {type(error).__name__}: {_text(error, address)}"
    return RemoteError(found or errno.EIO, message, name, is_passing=is_passing)


def _status(error: Any) -> int | None:
    """The status of HTTP in an error of aiohttp, botocore, gcsfs or huggingface_hub, or of what it was made from."""
    for each in (error, error.__cause__):
        answer = getattr(each, "response", None)
        found = getattr(each, "status", None) or getattr(answer, "status_code", None) or getattr(each, "code", None)
        if isinstance(answer, dict):
            found = answer.get("ResponseMetadata", {}).get("HTTPStatusCode")
        if isinstance(found, int) and 100 <= found < 600:
            return found
    return None


def _text(error: Exception, address: Address) -> str:
    """The text of an error, in one line."""
    text = getattr(error, "strerror", None) or str(error)
    return address.redact(" ".join(str(text).split()))[:WORDS] or type(error).__name__
