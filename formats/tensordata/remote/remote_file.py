"""Files at addresses, which are read in ranges.

A request takes as much time as a few MiB. So a small range is read together with the bytes after it; the number of
these bytes grows while reading goes on. The bytes of a graph are kept for a while. A large range is read in parts,
several at once.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from functools import partial
from threading import Lock, RLock, get_ident, main_thread
from typing import TYPE_CHECKING, Any, TypeVar

from formats.errors import FormatError, TensorDataError, TruncatedError
from formats.tensordata.file import TRAFFIC, File
from formats.tensordata.remote.stores import (
    ChangedError,
    Identity,
    attempt,
    changed,
    filesystem_of,
    longest_seconds,
    store_of,
)
from formats.tensordata.spool import Spool
from formats.tensordata.threads import InThread, started_or_done

if TYPE_CHECKING:
    from collections.abc import Callable

    from formats.tensordata.remote.address import Address
    from formats.tensordata.remote.stores import Store

T = TypeVar("T")

FIRST_BYTES = 1 << 18  # the size of the first request, and of one for the end of the file
GAP_BYTES = 1 << 18  # a gap up to this size is read, not skipped
AHEAD_BYTES = 1 << 14  # the least size that is read after a jump; it doubles while reading goes on
MAX_AHEAD_BYTES = 8 << 20
KEPT_BYTES = 64 << 20  # the size of the bytes that are kept, because they may be read again
JOINED_BYTES = 1 << 18  # weights of this size or more are read separately
PART_BYTES = 8 << 20  # the size of one request for a part of a large range
REQUESTS_AT_ONCE = 8
WAIT_SECONDS = 0.1  # how soon a thread notices that nobody waits for the bytes that it awaits


class RemoteFile(File):
    """A file at an address, which is read in ranges; it must not be replaced after it was opened."""

    is_local = False

    def __init__(self, address: Address, *, first_bytes: int = FIRST_BYTES, identity: Identity | None = None) -> None:
        """Open the file at an address; its first bytes are read, too, if that needs no further request.

        With an `identity`, it is the file of a pickle; the first read checks it.

        Raises: as `attempt` does.
        """
        self.path = self._address = address
        self._store: Store | None = None
        self._lock = RLock()
        self._windows: OrderedDict[int, bytes] = OrderedDict()  # by start offset; the last used range is at the end
        self._copy: _Copy | None = None
        self._given_up = 0  # how often
        self._next = 0  # the end of the last range
        self._ahead = AHEAD_BYTES
        # Whether bytes were read, and nothing has shown yet that the file was still the same.
        self._unverified = identity is not None
        if identity is None:
            self._store = store = store_of(address)
            identity, data = attempt(address, lambda: store.open(first_bytes), store.seconds(first_bytes))
            self._keep(0, data)
        self._identity = identity
        self.nbytes = identity.nbytes

    # Reading

    def expect_all(self) -> None:
        """Prepare for a reader that will need all of the file, but jumps in it: copy the file meanwhile."""
        if self._copy is None and self.nbytes > KEPT_BYTES:
            self._copy = _Copy(self._address, self.nbytes)

    def pread_into(self, offset: int, buffer: memoryview | bytearray) -> None:
        """Fill `buffer` with the bytes from `offset` on; a large range needs several requests at once."""
        view = memoryview(buffer)
        nbytes = len(view)
        self._check_range(offset, nbytes)
        if self._copy is not None:
            self._copy.file(offset, nbytes, self._request).pread_into(offset, view)
            return
        if nbytes < JOINED_BYTES:
            view[:] = self._small(offset, nbytes)
            return
        with self._lock:
            kept = self._kept(offset, nbytes)
        if kept is not None:
            view[:] = kept
            return

        def put(start: int, data: bytes) -> None:
            view[start : start + len(data)] = data

        self._large(offset, nbytes, put)

    def pread(self, offset: int, nbytes: int) -> bytes:
        """The `nbytes` from `offset` on; the bytes of a graph are kept, because they may be read again."""
        self._check_range(offset, nbytes)
        if self._copy is not None:
            return self._copy.file(offset, nbytes, self._request).pread(offset, nbytes)
        if nbytes < MAX_AHEAD_BYTES:
            return bytes(self._small(offset, nbytes))
        if nbytes > KEPT_BYTES:
            buffer = bytearray(nbytes)
            self.pread_into(offset, buffer)
            return bytes(buffer)
        with self._lock:
            kept = self._kept(offset, nbytes)
            if kept is not None:
                return bytes(kept)
            data = self._request(offset, offset + nbytes)
            self._keep(offset, data)
            return data

    def map(self, offset: int, nbytes: int) -> memoryview:
        """A range as read-only memory: a copy."""
        self._check_range(offset, nbytes)
        buffer = bytearray(nbytes)
        self.pread_into(offset, buffer)
        self.check_unchanged()
        return memoryview(buffer).toreadonly()

    def _check_range(self, offset: int, nbytes: int) -> None:
        if offset < 0 or nbytes < 0 or offset + nbytes > self.nbytes:
            message = f"needed {nbytes} bytes, but the file has {self.nbytes}"
            raise TruncatedError(message, path=self.path, file_offset=offset)

    def _small(self, offset: int, nbytes: int) -> memoryview:
        """A range, read together with the bytes that are probably needed next."""
        if not nbytes:
            return memoryview(b"")
        with self._lock:
            kept = self._kept(offset, nbytes)
            if kept is not None:
                return kept
            start, stop = self._window(offset, nbytes)
            data = self._request(start, stop)
            self._keep(start, data)
            return memoryview(data)[offset - start : offset - start + nbytes]

    def _window(self, offset: int, nbytes: int) -> tuple[int, int]:
        """The range to read for a requested range."""
        if self.nbytes <= 2 * FIRST_BYTES:
            return 0, self.nbytes
        if offset >= self.nbytes - FIRST_BYTES:
            return self.nbytes - FIRST_BYTES, self.nbytes
        if not self._windows:  # the first bytes, if the store was only asked about the object
            return offset, min(offset + max(nbytes, FIRST_BYTES), self.nbytes)
        last_start = next(reversed(self._windows))
        goes_on = min(last_start, self._next) <= offset <= self._next + GAP_BYTES  # in the last range, or close behind
        self._ahead = min(2 * self._ahead, MAX_AHEAD_BYTES) if goes_on else AHEAD_BYTES
        return offset, min(offset + max(nbytes, self._ahead), self.nbytes)

    def _kept(self, offset: int, nbytes: int) -> memoryview | None:
        """A range that was read already."""
        for start, data in reversed(self._windows.items()):
            if start <= offset and offset + nbytes <= start + len(data):
                self._windows.move_to_end(start)
                return memoryview(data)[offset - start : offset - start + nbytes]
        return None

    def _keep(self, start: int, data: bytes) -> None:
        if not data:
            return
        self._windows.pop(start, None)
        self._windows[start] = data
        self._next = start + len(data)
        while sum(map(len, self._windows.values())) > KEPT_BYTES and len(self._windows) > 1:
            self._windows.popitem(last=False)

    def _large(self, offset: int, nbytes: int, put: Callable[[int, bytes], object]) -> None:
        """Call `put` with all parts of a range as they arrive, and with their places in the range."""
        starts = deque(range(0, nbytes, PART_BYTES))

        def some() -> None:
            """Request the next part, until another thread has taken the last one."""
            while True:
                try:
                    start = starts.popleft()
                except IndexError:
                    return
                stop = min(start + PART_BYTES, nbytes)
                put(start, self._request(offset + start, offset + stop))

        if nbytes <= PART_BYTES:
            some()
            return
        threads: list[InThread[None]] = []
        try:
            while len(threads) < min(REQUESTS_AT_ONCE, -(-nbytes // PART_BYTES)):
                threads.append(started_or_done(some))
            for thread in threads:
                thread.result()
        except BaseException as error:
            if not isinstance(error, Exception):  # a signal: whoever reads the file is stopped
                self.give_up()
            raise
        finally:
            starts.clear()  # after an error, no thread asks for another part
            for thread in threads:
                thread.wait()

    def _request(self, start: int, stop: int) -> bytes:
        """The bytes of a range, all of them.

        Raises: ChangedError if the file was replaced meanwhile; as `attempt` does.
        """
        store = self._opened()

        def read() -> bytes:
            data = store.read(start, stop, self._identity)
            if len(data) != stop - start:
                message = f"the store sent {len(data)} bytes instead of {stop - start}"
                raise store.error(message, is_passing=True)
            return data

        try:
            data = self._awaited(lambda: attempt(self._address, read, store.seconds(stop - start)))
        except OSError:
            self._explain_failure(store)
            raise
        TRAFFIC.add(received=len(data))
        if not store.verifies:
            self._unverified = True
        return data

    def _awaited(self, request: Callable[[], bytes]) -> bytes:
        """What a request returns, unless nobody wants it any more; other threads wait for it in a thread of its own.

        Raises: TensorDataError if the file was given up.
        """
        if get_ident() == main_thread().ident:  # a signal ends the wait
            return request()
        answer, before = started_or_done(request), self._given_up
        while self._given_up == before:
            if answer.wait(WAIT_SECONDS):
                return answer.result()
        raise TensorDataError("nobody waits for these bytes any more", path=self.path)

    def give_up(self) -> None:
        """Let threads that wait for bytes of the file now wait no longer; they get an error."""
        self._given_up += 1

    def _explain_failure(self, store: Store) -> None:
        """Raises ChangedError if a request failed because the file was replaced: the new one may lack the range."""
        if store.verifies:
            return
        try:
            now = attempt(self._address, store.look, store.seconds())
        except (OSError, FormatError):
            return
        if now != self._identity:
            raise changed(self._address)

    def _opened(self) -> Store:
        """The store; for a pickle, it is first asked whether the file is still the same."""
        with self._lock:
            if self._store is None:
                store = store_of(self._address)
                identity, _ = attempt(self._address, lambda: store.open(0), store.seconds())
                if identity != self._identity:
                    message = "the file has changed since the model was read from it"
                    raise TensorDataError(message, path=self.path)
                self._store = store
            return self._store

    # Whether it is still the same

    def is_same(self, other: File) -> bool:
        """Whether both are the same file with the same content, opened twice."""
        return isinstance(other, RemoteFile) and (self.path, self._identity) == (other.path, other._identity)

    def is_current(self) -> bool:
        """Whether the file at the address is still the opened file."""
        try:
            self.check_in_place()
        except (FormatError, OSError):
            return False
        return True

    def check_unchanged(self) -> None:
        """Check that all read bytes are from the opened file; ask the store only if no answer has shown that.

        Raises: ChangedError if the file was replaced meanwhile.
        """
        if self._unverified:
            self.check_in_place()
            self._unverified = False

    def check_in_place(self, descriptor: int | None = None) -> None:
        """Check that the file at the address is the opened file.

        Raises: ChangedError if it is another one; as `attempt` does.
        """
        store = self._opened()
        if attempt(self._address, store.look, store.seconds()) != self._identity:
            raise changed(self._address)

    def close(self) -> None:
        """Forget the bytes that were read."""
        with self._lock:
            self._windows.clear()
            self._copy = None

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickled, (self._address, tuple(self._identity))


class _Copy:
    """A copy of a file on this machine, which has the parts that were read and those after them.

    Each part is one request, and several are made at once.
    """

    def __init__(self, address: Address, nbytes: int) -> None:
        self._lock = Lock()
        self._parts: dict[int, InThread[None]] = {}  # by number
        self._file = Spool(address, nbytes)

    def file(self, offset: int, nbytes: int, request: Callable[[int, int], bytes]) -> Spool:
        """The copy, after a range of it is there; requests for the parts after the range have begun."""
        first, stop = offset // PART_BYTES, -(-(offset + nbytes) // PART_BYTES)
        for number in range(first, stop):
            with self._lock:
                for ahead in range(number, min(number + REQUESTS_AT_ONCE, -(-self._file.nbytes // PART_BYTES))):
                    if ahead not in self._parts:
                        self._parts[ahead] = started_or_done(partial(self._fetch, ahead * PART_BYTES, request))
            self._parts[number].result()
        return self._file

    def _fetch(self, start: int, request: Callable[[int, int], bytes]) -> None:
        self._file.pwrite(start, request(start, min(start + PART_BYTES, self._file.nbytes)))


def _unpickled(address: Address, identity: tuple[int, tuple[str, ...]]) -> RemoteFile:
    return RemoteFile(address, identity=Identity(*identity))


def read_address_steadily(address: Address, read: Callable[[File], T]) -> T:
    """The result of `read` for the file at an address, which did not change meanwhile.

    Raises: ChangedError if it is replaced again and again; as `attempt` and `read` do.
    """
    tries = 0
    while True:
        file = RemoteFile(address)
        try:
            result = read(file)
            file.check_unchanged()
        except ChangedError:
            if tries >= address.retries:
                raise
        except FormatError:
            if not file._unverified or file.is_current():
                raise
            if tries >= address.retries:
                raise changed(address) from None
        else:
            return result
        tries += 1


def kind_at(address: Address) -> str | None:
    """The kind of the object at an address: a "file", a "directory", or nothing.

    Raises: as `attempt` does.
    """
    fs, path = filesystem_of(address)

    def look() -> str | None:
        fs.invalidate_cache(path)
        try:
            kind: str = fs.info(path)["type"]
        except FileNotFoundError:
            return None
        return kind

    return attempt(address, look, longest_seconds(0))
