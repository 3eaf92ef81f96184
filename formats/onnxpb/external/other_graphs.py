"""The graphs in a folder, and which of them refer to a file there.

A folder may hold thousands of models that have nothing to do with the file. It is listed once, and what a graph refers
to is found in its bytes, and known until it changes. In a run of many conversions the list is used for a while, too:
otherwise, each of thousands of models would look at all others.

A key and a location are contiguous in a protobuf message, so a graph that does not contain the key refers to no file.
Weights are not read, and neither is the graph if only the metadata matter. There is a limit on what is searched in one
file.

Spec: onnx.proto, `TensorProto.external_data`; Protocol Buffers, "Encoding"; docs/links.md.
"""

from __future__ import annotations

import errno
import os
import posixpath
import re
from contextlib import contextmanager
from contextvars import ContextVar
from io import FileIO
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from formats.errors import DecodeError, FormatError, LimitError, WireError
from formats.ir import walk
from formats.ir.archive_link import ARCHIVE
from formats.ir.model import Message, Model, StringStringEntry, Tensor
from formats.ir.storage import entries_of
from formats.onnxpb.wire.decoder import decode
from formats.onnxpb.wire.tables import MessageRow, SourceRow, tables
from formats.onnxpb.wire.varints import MAX_FIELD_NUMBER, WireType, decode_prefix, end_of_whole_fields, skip_field
from formats.tensordata.file import File
from formats.tensordata.local.osio import FILE_FLAGS
from formats.tensordata.sources.source import Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from formats.ir.model import Undecoded
    from formats.onnxpb.wire.tables import MessageTable

EXTENSION = ".onnx"  # other tools also write this format, and a location in it may be any file
MAX_DECODED_BYTES = 1 << 28  # of all graphs in a folder that have references
MAX_ANSWERED = 1 << 14  # graphs whose answers are kept
LISTING_PART = 0.05  # of the time of a run, for listing its folders again
KEY = b"location"  # in every reference to another file
PIECE_BYTES = 1 << 16  # a graph is searched in pieces of this size
WHOLE_BYTES = 1 << 24  # a file up to this size is searched as a whole; larger ones mostly consist of weights
HEAD_BYTES = 1 << 10  # the fields of a model before its graph
MAX_LOOKS = 1 << 12  # at fields of a model outside of its graph
MAX_SEARCHED_BYTES = 1 << 26  # of one large file, without its weights
MAX_DEPTH = 32  # of the messages in it with weights
TEXT_COST = 1 << 4  # a byte of text takes as long to decode as so many of a message
TOO_LARGE = 1 << 62
# An entry in its usual encoding, up to the value.
_LOCATION = re.compile(rb"\n\x08location\x12([\x00-\x7f])", re.DOTALL)

Stamp: TypeAlias = tuple[int, int, int, int]
Ask: TypeAlias = "Callable[[str, int], References]"  # about a graph, for at most this cost

_run: ContextVar[dict[Path, _Folder] | None] = ContextVar("the folders of a run of many conversions", default=None)
_answered: dict[tuple[str, Ask], tuple[Stamp, References]] = {}  # by graphs that this process asked


class Naming(NamedTuple):
    """A graph that may refer to a file; if it `is_too_large` to find out, it counts as one that cannot be read."""

    path: Path
    is_too_large: bool = False

    def references(self) -> set[str] | None:
        """The data files to which the graph refers, which need not exist; `None` if it cannot be read."""
        if self.is_too_large:
            return None

        try:
            return references(str(self.path))
        except (FormatError, OSError):
            return None


def referred(path: Path) -> set[str]:
    """The data files next to a model to which it refers; none if it cannot be read."""
    return Naming(path).references() or set()


class OtherGraphs:
    """The graphs in a folder, except those at `but`.

    Raises: OSError if the folder cannot be listed; one that is not there is empty.
    """

    def __init__(self, folder: Path, but: Collection[Path] = ()) -> None:
        run = _run.get()
        self._folder = _Folder(folder) if run is None else run.setdefault(folder, _Folder(folder))
        self._folder.list_again()
        self._but = but

    def naming(self, files: Collection[Path]) -> list[Naming]:
        """The graphs that may refer to one of the files, which are in the folder or below it.

        A file that is no ONNX message may do so, too: its reader must say what it is.
        """
        if not (files and self._folder.graphs):
            return []
        return self._folder.naming(self._folder.names_of(files), self._but)

    def linked(self, archive: Path) -> list[Path]:
        """The graphs that may be linked to an archive in the folder."""
        names = self._folder.names_of([archive]) if self._folder.graphs else set()
        return self._folder.linked(names, self._but)


@contextmanager
def remembering(folders: dict[Path, Any]) -> Iterator[None]:
    """A context, for each job of a run of many conversions, that uses and fills the same `folders`, at first none."""
    token = _run.set(folders)
    try:
        yield
    finally:
        _run.reset(token)


def note_written(paths: Collection[Path]) -> None:
    """In a run of many conversions, look again at the graphs that were written at these paths."""
    run = _run.get() or {}
    for path in paths:
        if path.parent in run:
            run[path.parent].look_again(path)


class _Folder:
    """What is in a folder: its graphs, what they answered, links, and the names of folders.

    A graph is asked when its stamp is new, so asking costs as much as the graphs that changed. Of the answers, only
    those with a name, or without an answer, are kept: in a folder of plain models there are none to look through. A
    listing costs as much as the folder is large, so in a run it takes LISTING_PART of the time at most, and what the
    run writes itself is noted.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.graphs: dict[str, Stamp] = {}  # by name
        self._links: list[str] = []
        self._folders: list[str] = []
        self._changed: dict[Ask, set[str]] = {references_in: set(), archives_in: set()}  # the graphs to ask again
        self._answers: dict[Ask, dict[str, References]] = {references_in: {}, archives_in: {}}
        self._by_name: dict[Ask, dict[str | None, set[str]]] = {references_in: {}, archives_in: {}}
        self._next_listing = 0.0

    def list_again(self) -> None:
        """List the folder, except in a run of many conversions that has just done so.

        Raises: OSError.
        """
        started = perf_counter()
        if started < self._next_listing:
            return
        before, self.graphs, self._links, self._folders = self.graphs, {}, [], []
        try:
            with os.scandir(self.path) as entries:
                for entry in entries:
                    if entry.is_symlink():
                        self._links.append(entry.name)
                    elif entry.is_dir():
                        self._folders.append(entry.name)
                    if entry.name.lower().endswith(EXTENSION) and (stamp := _stamp_in(entry)):
                        self.graphs[entry.name] = stamp
        except (FileNotFoundError, NotADirectoryError):
            return
        names = before.keys() | self.graphs.keys()
        self._note_changed(name for name in names if before.get(name) != self.graphs.get(name))
        ended = perf_counter()
        self._next_listing = ended + (ended - started) / LISTING_PART

    def look_again(self, path: Path) -> None:
        """Note that a file was written, after the folder was listed."""
        if path.name.lower().endswith(EXTENSION):
            try:
                self.graphs[path.name] = _stamp(path.stat())
            except OSError:
                self.graphs.pop(path.name, None)
            self._note_changed([path.name])

    def _note_changed(self, names: Iterable[str]) -> None:
        names = [*names]
        for changed in self._changed.values():
            changed.update(names)

    def names_of(self, files: Collection[Path]) -> set[str] | None:
        """The names, one of which is in every path to one of the files; `None` if nobody knows them all.

        A link or a folder may lead to the file under another name, and some systems ignore case or forms of Unicode.
        """
        targets = {os.path.realpath(path) for path in files}
        links = (link for link in self._links if self._leads(link, targets))
        names = {*(path.name for path in files), *links, *self._folders}
        is_plain = os.sep == "/" and all(map(str.isascii, names)) and not any(map(_ignores_case, files))
        return names if is_plain else None

    def _leads(self, link: str, targets: set[str]) -> bool:
        target = os.path.realpath(self.path / link)
        return target in targets or os.path.isdir(target)  # noqa: PTH112 - a text

    def naming(self, names: set[str] | None, but: Collection[Path]) -> list[Naming]:
        """The graphs with one of the names in a reference, or with any reference if `names` is `None`."""
        rest = MAX_DECODED_BYTES
        graphs = []
        for name, answer in self._with_names(references_in, names, but):
            is_too_large = answer.cost > rest
            rest -= 0 if is_too_large else answer.cost
            graphs.append(Naming(self.path / name, is_too_large))
        return graphs

    def linked(self, names: set[str] | None, but: Collection[Path]) -> list[Path]:
        """The graphs that are linked to an archive with one of the names, or to any if `names` is `None`."""
        return [self.path / name for name, _ in self._with_names(archives_in, names, but)]

    def _with_names(self, ask: Ask, names: set[str] | None, but: Collection[Path]) -> list[tuple[str, References]]:
        """The graphs with one of these names in their answer, or with any if `names` is `None`, or without an answer.

        Graphs that changed are asked first. Those at `but` are not, and none of them is an answer.
        """
        unasked = {path.name for path in but if path.parent == self.path}
        answers, changed, by_name = self._answers[ask], self._changed[ask], self._by_name[ask]
        rest = MAX_DECODED_BYTES
        for graph in sorted(changed - unasked):
            for name in _keys_of(answers.pop(graph, NONE)):
                by_name[name].discard(graph)
            if graph in self.graphs:
                answer = _asked(ask, f"{self.path}{os.sep}{graph}", self.graphs[graph], rest)
                rest -= answer.cost if answer.cost <= rest else 0
                if answer.names != frozenset():
                    answers[graph] = answer
                for name in _keys_of(answer):
                    by_name.setdefault(name, set()).add(graph)
        changed &= unasked
        graphs = (
            answers.keys() if names is None else set[str]().union(*(by_name.get(name, ()) for name in (None, *names)))
        )
        return [(graph, answers[graph]) for graph in sorted(graphs - unasked)]


def _keys_of(answer: References) -> Iterable[str | None]:
    return (None,) if answer.names is None else answer.names


def _asked(ask: Ask, path: str, stamp: Stamp, most: int = MAX_DECODED_BYTES) -> References:
    """What a graph says, as far as this process has not asked it before."""
    earlier_stamp, earlier_answer = _answered.get((path, ask), (None, NONE))
    if earlier_stamp == stamp:
        return earlier_answer
    answer = ask(path, most)
    if answer.names is not None:
        if len(_answered) >= MAX_ANSWERED:
            _answered.clear()
        _answered[path, ask] = stamp, answer
    return answer


def _stamp_in(entry: os.DirEntry[str]) -> Stamp | None:
    """The stamp of a file; `None` if it has just gone, or is something else, such as a link that leads to itself."""
    try:
        return _stamp(entry.stat()) if entry.is_file() else None
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ELOOP):
            raise
        return None


def _stamp(status: os.stat_result) -> Stamp:
    """What is different if a file is replaced or changed."""
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _ignores_case(path: Path) -> bool:
    other = path.with_name(path.name.swapcase())
    try:
        return other.name != path.name and path.samefile(other)
    except OSError:
        return False


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
    locations: set[str] = set()

    def note(message: Message) -> None:
        for _, tensor in walk.visit(message, Tensor, enter=look_through, only=walk.is_external):
            locations.update(value or "" for key, value in entries_of(tensor) if key == "location")

    def look_through(undecoded: Undecoded) -> None:  # a list of a million tensors is never in memory
        for element in undecoded.each() if undecoded.may_have_references else ():
            note(element)

    model = decode(File.open(Path(path)).span(), Model)
    if model.graph is None:
        raise DecodeError("there is no graph in it", path=Path(path))
    note(model)
    return set(map(os.path.normpath, locations))


def archives_in(path: str, _: int) -> References:
    """The names of archives that the metadata of a graph has, usually none; what cannot be read has none."""
    try:
        with _opened(path) as file:
            properties = [
                decode(Literal(_read(file, begin, end - begin)), StringStringEntry)
                for name, begin, end in _fields(file, os.fstat(file.fileno()).st_size)
                if name == "metadata_props" and end - begin <= HEAD_BYTES  # a name of a file is not longer
            ]
    except (FormatError, OSError, IndexError):
        return NONE
    return References(frozenset(entry.value or "" for entry in properties if entry.key == ARCHIVE), 0)


def _names_in(data: bytes) -> frozenset[str] | None:
    """The names in all locations of a graph, if all have the usual encoding."""
    locations, count = set(), 0
    for match in _LOCATION.finditer(data):
        locations.add(data[match.end() : match.end() + match[1][0]])
        count += 1
    try:
        return _parts({location.decode() for location in locations}) if count == data.count(KEY) else None
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
            if isinstance(row, MessageRow):
                if self.of(inner, stop, row.table, depth + 1) is not None:
                    return self.nbytes
            elif not isinstance(row, SourceRow):
                self._count(size)
                if _contains(self.file, inner, stop):
                    return self.nbytes
            begin = stop
        return None

    def _count(self, nbytes: int) -> None:
        self.nbytes += nbytes
        if self.nbytes > MAX_SEARCHED_BYTES:
            raise LimitError("the graph is too large")
