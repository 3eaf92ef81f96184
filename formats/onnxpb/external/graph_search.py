"""What a graph refers to, found in its bytes instead of by decoding it.

This is asked of every graph in a folder, most of which refer to nothing. A key and a location are contiguous in a
protobuf message, so a graph that does not contain the key refers to no file. Weights are not read, and neither is the
graph if only the metadata matter. There is a limit on what is searched in one file.

Spec: onnx.proto, `TensorProto.external_data`; Protocol Buffers, "Encoding"; docs/links.md.
"""

from __future__ import annotations

import os
import posixpath
import re
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from formats.errors import DecodeError, FormatError, LimitError, WireError
from formats.ir import walk
from formats.ir.archive_link import ARCHIVE
from formats.ir.model import Model, StringStringEntry
from formats.ir.storage import entries_of
from formats.onnxpb.wire.decoder import decode
from formats.onnxpb.wire.tables import BULK, MESSAGE, PLACE, PLACES, tables
from formats.onnxpb.wire.varints import MAX_FIELD_NUMBER, WireType, decode_prefix, end_of_whole_fields, skip_field
from formats.tensordata.file import File
from formats.tensordata.local.osio import FILE_FLAGS
from formats.tensordata.sources.source import Literal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from formats.onnxpb.wire.tables import MessageTable

KEY = b"location"  # in every reference to another file
PIECE_BYTES = 1 << 16  # a graph is searched in pieces of this size
WHOLE_BYTES = 1 << 24  # a file up to this size is searched as a whole; larger ones mostly consist of weights
HEAD_BYTES = 1 << 10  # the fields of a model before its graph
MAX_LOOKS = 1 << 12  # at fields of a model outside of its graph
MAX_SEARCHED_BYTES = 1 << 26  # of one large file, without its weights
MAX_DEPTH = 32  # of the messages in it with weights
TEXT_COST = 1 << 4  # a byte of text takes as long to decode as so many of a message
TOO_LARGE = 1 << 62
_LOCATION = re.compile(
    rb"\n\x08location\x12([\x00-\x7f])", re.DOTALL
)  # an entry in its usual encoding, up to the value


class References(NamedTuple):
    """The names in all locations of a graph, also those of folders; `None` if its reader must say what it is.

    `cost` is what reading them takes, about as many bytes of a message.
    """

    names: frozenset[str] | None
    cost: int


NONE = References(frozenset(), 0)


def references_in(path: str, most: int) -> References:
    """What the graph in a file refers to, for at most this cost; beyond it, nobody knows, and the cost is TOO_LARGE."""
    try:
        with _opened(path) as file:
            nbytes = os.fstat(file.fileno()).st_size
            if not _has_graph(file, nbytes):
                return References(None, 0 if b"\0" in _read(file, 0, HEAD_BYTES) else nbytes * TEXT_COST)
            if nbytes > WHOLE_BYTES:
                cost = _Search(file).of(0, nbytes, tables()["ModelProto"])
            else:
                cost = nbytes if _contains(file, 0, nbytes) else None
            if cost is None:
                return NONE
            if cost > most:
                return References(None, TOO_LARGE)
            names = _names_in(_read(file, 0, nbytes)) if nbytes <= WHOLE_BYTES else None
    except LimitError:
        return References(None, TOO_LARGE)
    except (FormatError, OSError, IndexError):
        return References(None, 0)
    try:
        return References(_parts(references(path)) if names is None else names, cost)
    except (FormatError, OSError):
        return References(None, cost)


def references(path: str) -> set[str]:
    """The data files next to a model to which it refers; they need not exist.

    Raises: FormatError if it cannot be read; OSError if the file cannot.
    """
    model = decode(File.open(Path(path)).span(), Model)
    if model.graph is None:
        raise DecodeError("there is no graph in it", path=Path(path))
    entries = (entry for _, tensor in walk.external_tensors(model) for entry in entries_of(tensor))
    return {os.path.normpath(value or "") for key, value in entries if key == "location"}


def archives_in(path: str, _: int) -> References:
    """The names of archives that the metadata of a graph has, usually none; what cannot be read has none."""
    try:
        with _opened(path) as file:
            found = [
                decode(Literal(_read(file, begin, end - begin)), StringStringEntry)
                for name, begin, end in _fields(file, os.fstat(file.fileno()).st_size)
                if name == "metadata_props" and end - begin <= HEAD_BYTES  # a name of a file is not longer
            ]
    except (FormatError, OSError, IndexError):
        return NONE
    return References(frozenset(entry.value or "" for entry in found if entry.key == ARCHIVE), 0)


def _names_in(data: bytes) -> frozenset[str] | None:
    """The names in all locations of a graph, if all have the usual encoding."""
    found = [*_LOCATION.finditer(data)]
    if len(found) != data.count(KEY):
        return None
    try:
        return _parts({data[match.end() : match.end() + match[1][0]].decode() for match in found})
    except UnicodeDecodeError:
        return None


def _parts(locations: set[str]) -> frozenset[str]:
    return frozenset(part for location in locations for part in posixpath.normpath(location).split("/"))


def _opened(path: str) -> FileIO:
    """The file at `path`, without waiting for a writer if it has just become a pipe."""
    return FileIO(os.open(path, FILE_FLAGS))


def _read(file: FileIO, position: int, nbytes: int) -> bytes:
    file.seek(position)
    return file.read(nbytes) or b""


def _has_graph(file: FileIO, nbytes: int) -> bool:
    """Whether a file is a message with a graph, as far as its outermost fields tell."""
    try:
        return "graph" in [name for name, _, _ in _fields(file, nbytes)]  # all of which must be whole
    except (WireError, IndexError):
        return False


def _fields(file: FileIO, nbytes: int) -> Iterator[tuple[str, int, int]]:
    """The name, begin and end of each field of a model that has a length, without a look into it.

    Raises: WireError or IndexError if they are not those of a message of this size; LimitError if they are too many.
    """
    rows = tables()["ModelProto"].by_tag
    position = 0
    looks = 0
    while position < nbytes:
        looks += 1
        if looks > MAX_LOOKS:
            raise LimitError("the model has too many fields")
        data = _read(file, position, HEAD_BYTES)
        at = 0
        while at < len(data):
            try:
                tag, after = decode_prefix(data, at)
                if tag & 7 != WireType.LEN:
                    at = skip_field(data, after, tag)
                    continue
                size, after = decode_prefix(data, after)
            except IndexError:  # the field goes on after this look
                if at == 0:
                    raise
                break
            if not 0 < tag >> 3 <= MAX_FIELD_NUMBER:
                raise WireError("a field number is invalid")
            row = rows.get(tag)
            yield "" if row is None else row.name, position + after, position + after + size
            at = after + size
        position += at
    if position > nbytes:
        raise WireError("the model is cut off")


def _contains(file: FileIO, begin: int, end: int) -> bool:
    """Whether the bytes from `begin` to `end` of a file contain the key."""
    kept = len(KEY) - 1
    buffer = bytearray(min(PIECE_BYTES, end - begin) + kept)
    view = memoryview(buffer)
    file.seek(begin)
    start = 0  # of new bytes in the buffer: the key may lie on both sides
    while begin < end:
        count = file.readinto(view[start : start + end - begin])
        if not count:
            raise WireError("the model is cut off")
        begin, stop = begin + count, start + count
        if buffer.rfind(KEY, 0, stop) >= 0:  # takes half as long as `find`
            return True
        start = min(kept, stop)
        view[:start] = view[stop - start : stop]
    return False


class _Search:
    """A search for references in a large file, without its weights."""

    def __init__(self, file: FileIO) -> None:
        self.file = file
        self.nbytes = 0  # that were searched so far

    def of(self, begin: int, end: int, table: MessageTable, depth: int = 0) -> int | None:
        """The number of bytes that were searched until the key was found in a message; `None` if it was not.

        Raises: LimitError if there are too many; FormatError or IndexError if the message is damaged.
        """
        if depth > MAX_DEPTH:
            raise LimitError("messages are nested too deep")
        while begin < end:
            window = _read(self.file, begin, min(PIECE_BYTES, end - begin))
            stop = end_of_whole_fields(window)
            if stop:
                self._count(stop)
                if window.rfind(KEY, 0, stop) >= 0:
                    return self.nbytes
                begin += stop
                continue
            tag, after = decode_prefix(window, 0)
            size, after = decode_prefix(window, after)
            inner, stop = begin + after, begin + after + size
            if tag & 7 != WireType.LEN or stop > end:
                raise WireError("a field is cut off")
            row = table.by_tag.get(tag)
            if row is not None and row.action in (MESSAGE, BULK):
                if self.of(inner, stop, row.inner, depth + 1) is not None:
                    return self.nbytes
            elif row is None or row.action not in (PLACE, PLACES):
                self._count(size)
                if _contains(self.file, inner, stop):
                    return self.nbytes
            begin = stop
        return None

    def _count(self, nbytes: int) -> None:
        self.nbytes += nbytes
        if self.nbytes > MAX_SEARCHED_BYTES:
            raise LimitError("the graph is too large")
