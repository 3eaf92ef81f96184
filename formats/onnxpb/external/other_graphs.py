"""The graphs in a folder, and which of them refer to a file there.

A folder may hold thousands of models that have nothing to do with the file. So what a graph refers to is found in its
bytes, which takes a twentieth of the time of decoding it: a key and a location are contiguous in a protobuf message,
however its fields are encoded. Weights are not read. A graph is decoded only if an entry has an unusual encoding.

Spec: onnx.proto, `TensorProto.external_data`; Protocol Buffers, "Encoding"; docs/links.md.
"""

from __future__ import annotations

import os
import posixpath
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from formats.errors import DecodeError, FormatError, LimitError, WireError
from formats.ir import walk
from formats.ir.model import Model
from formats.ir.storage import entries_of
from formats.onnxpb.wire.decoder import decode
from formats.onnxpb.wire.tables import BULK, MESSAGE, PLACE, PLACES, tables
from formats.onnxpb.wire.varints import WireType, decode_prefix, end_of_whole_fields, skip_field
from formats.tensordata.file import File
from formats.tensordata.local.osio import FILE_FLAGS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from formats.onnxpb.wire.tables import MessageTable

EXTENSION = ".onnx"  # other tools also write this format, and a location in it may be any file
KEY = b"location"  # in every reference to another file
USUAL_ENTRY = b"\n\x08location\x12"  # an entry in its usual encoding, up to the size of the value
WHOLE_BYTES = 1 << 24  # a file up to this size is searched as a whole; larger ones mostly consist of weights
PIECE_BYTES = 1 << 16  # larger ones are searched in pieces of this size
HEAD_BYTES = 1 << 10  # of a field, to find its end
MAX_FIELDS = 1 << 16  # of a model, outside of its graph
MAX_SEARCHED_BYTES = 1 << 26  # of one large file, without its weights
MAX_DEPTH = 32  # of the messages in it
MAX_REMEMBERED = 1 << 14  # graphs

Stamp: TypeAlias = tuple[int, int, int, int]

_remembered: dict[str, tuple[Stamp, Naming]] = {}  # by path: a run of many conversions looks into each graph once


class Naming(NamedTuple):
    """A graph, and the locations of the data files to which it refers; `None` if it cannot be read.

    If it `is_too_large` to find out, it counts as one that cannot be read.
    """

    path: Path
    locations: frozenset[str] | None
    is_too_large: bool = False

    def references(self) -> set[str] | None:
        """The data files to which the graph refers, which need not exist; `None` if it cannot be read."""
        return None if self.locations is None else set(self.locations)

    def may_use(self, names: set[str] | None) -> bool:
        """Whether one of the names is in a location, also as that of a folder; any may be if `names` is `None`."""
        if self.locations is None:
            return True
        if names is None:
            return bool(self.locations)
        return any(name in names for location in self.locations for name in location.split("/"))


def referred(path: Path) -> set[str]:
    """The data files next to a model to which it refers; none if it cannot be read."""
    try:
        return _naming(str(path), path.stat()).references() or set()
    except OSError:
        return set()


class OtherGraphs:
    """The graphs in a folder, except those at `but`.

    Raises: OSError if the folder cannot be listed; one that is not there is empty.
    """

    def __init__(self, folder: Path, but: Collection[Path] = ()) -> None:
        self._folder = folder
        self._graphs: dict[str, os.stat_result] = {}  # by name: of thousands, no `Path` is made
        self._links: list[str] = []
        self._subfolders: list[str] = []
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if entry.is_symlink():
                        self._links.append(entry.name)
                    elif entry.is_dir():
                        self._subfolders.append(entry.name)
                    if entry.name.lower().endswith(EXTENSION) and entry.is_file():
                        self._graphs[entry.name] = entry.stat()
        except (FileNotFoundError, NotADirectoryError):
            pass
        for path in but:
            if path.parent == folder:
                self._graphs.pop(path.name, None)

    def naming(self, files: Collection[Path]) -> list[Naming]:
        """The graphs that may refer to one of the files, which are in the folder or below it.

        A file that is no ONNX message may do so, too: its reader must say what it is.
        """
        if not (files and self._graphs):
            return []
        names = self._names_of(files)
        graphs = (_naming(f"{self._folder}{os.sep}{name}", self._graphs[name]) for name in sorted(self._graphs))
        return [graph for graph in graphs if graph.may_use(names)]

    def linked(self, archive: Path) -> list[Naming]:
        """The graphs that may be linked to an archive in the folder: their weights are in it."""
        return [graph for graph in self.naming([archive]) if graph.locations is not None]

    def _names_of(self, files: Collection[Path]) -> set[str] | None:
        """The names, one of which is in every path to one of the files; `None` if nobody knows them all.

        A link or a folder may lead to the file under another name, and some systems ignore case or forms of Unicode.
        """
        targets = {os.path.realpath(path) for path in files}
        links = (link for link in self._links if self._leads(link, targets))
        names = {*(path.name for path in files), *links, *self._subfolders}
        is_plain = os.sep == "/" and all(map(str.isascii, names)) and not any(map(_ignores_case, files))
        return names if is_plain else None

    def _leads(self, link: str, targets: set[str]) -> bool:
        target = os.path.realpath(self._folder / link)
        return target in targets or os.path.isdir(target)  # noqa: PTH112 - a text


def _ignores_case(path: Path) -> bool:
    other = path.with_name(path.name.swapcase())
    try:
        return other.name != path.name and path.samefile(other)
    except OSError:
        return False


def _naming(file: str, status: os.stat_result) -> Naming:
    """What the graph in a file refers to, without another look into a file that has not changed."""
    stamp = status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
    before = _remembered.get(file)
    if before is not None and before[0] == stamp:
        return before[1]
    path = Path(file)
    try:
        naming = Naming(path, _locations(path))
    except LimitError:
        naming = Naming(path, None, is_too_large=True)
    except (FormatError, OSError, IndexError):  # perhaps a text, which takes much longer to read than a message
        naming = Naming(path, None, is_too_large=status.st_size > WHOLE_BYTES)
    if len(_remembered) >= MAX_REMEMBERED:
        _remembered.clear()
    _remembered[file] = stamp, naming
    return naming


def _locations(path: Path) -> frozenset[str]:
    """The locations in a graph.

    Raises: LimitError if it is too large to find out; other FormatError or IndexError if it is no whole message with a
    graph; OSError.
    """
    # Without waiting for a writer, if the file has just become a pipe.
    with FileIO(os.open(path, FILE_FLAGS)) as file:
        nbytes = os.fstat(file.fileno()).st_size
        _check_whole(file, nbytes)
        pieces = iter([_read(file, 0, nbytes)]) if nbytes <= WHOLE_BYTES else _pieces(file, 0, nbytes, _model())
        locations = _locations_in(pieces)
    if locations is None:
        model = decode(File.open(path).span(), Model)
        entries = (entry for _, tensor in walk.external_tensors(model) for entry in entries_of(tensor))
        locations = {value or "" for key, value in entries if key == KEY.decode()}
    return frozenset(map(posixpath.normpath, locations))


def _model() -> MessageTable:
    return tables()["ModelProto"]


def _locations_in(pieces: Iterator[bytes]) -> set[str] | None:
    """The locations in the bytes of a graph; `None` if one may have an unusual encoding.

    Raises: LimitError if there are too many bytes.
    """
    locations = set()
    nbytes = 0
    for piece in pieces:
        nbytes += len(piece)
        if nbytes > MAX_SEARCHED_BYTES:
            raise LimitError("the graph is too large")
        count = piece.count(KEY)
        position = 0
        for _ in range(count):
            position = piece.find(USUAL_ENTRY, position) + len(USUAL_ENTRY)
            if position < len(USUAL_ENTRY):  # not found, so that one of the keys is in another form, or is no key
                return None
            size, position = decode_prefix(piece, position)
            locations.add(piece[position : position + size].decode("utf-8", "surrogateescape"))
    return locations


def _check_whole(file: FileIO, nbytes: int) -> None:
    """Refuse a file that is not a whole message with a graph, as far as its outermost fields tell.

    Raises: WireError or IndexError; LimitError if there are too many fields.
    """
    names = set()
    position = count = 0
    while position < nbytes:
        count += 1
        if count > MAX_FIELDS:
            raise LimitError("the model has too many fields")
        head = _read(file, position, HEAD_BYTES)
        tag, after = decode_prefix(head, 0)
        row = _model().by_tag.get(tag)
        names.add("" if row is None else row.name)
        position += skip_field(head, after, tag)
    if position > nbytes:
        raise WireError("the model is cut off")
    if "graph" not in names:
        raise DecodeError("there is no graph in it")


def _pieces(file: FileIO, begin: int, end: int, table: MessageTable, depth: int = 0) -> Iterator[bytes]:
    """The bytes of a message in a file without its weights, in pieces, each of whole fields.

    Raises: LimitError if it is nested too deep; other FormatError or IndexError if it is damaged.
    """
    if depth > MAX_DEPTH:
        raise LimitError("messages are nested too deep")
    while begin < end:
        window = _read(file, begin, min(PIECE_BYTES, end - begin))
        if stop := end_of_whole_fields(window):
            yield window[:stop]
            begin += stop
            continue
        tag, after = decode_prefix(window, 0)
        size, after = decode_prefix(window, after)
        inner, stop = begin + after, begin + after + size
        if tag & 7 != WireType.LEN or stop > end:
            raise WireError("a field is cut off")
        row = table.by_tag.get(tag)
        if row is not None and row.action in (MESSAGE, BULK):
            yield from _pieces(file, inner, stop, row.inner, depth + 1)
        elif row is None or row.action not in (PLACE, PLACES):
            if size > MAX_SEARCHED_BYTES:
                raise LimitError("the graph is too large")
            yield _read(file, inner, size)
        begin = stop


def _read(file: FileIO, position: int, nbytes: int) -> bytes:
    file.seek(position)
    return file.read(nbytes) or b""
