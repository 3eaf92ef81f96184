"""The graphs in a folder, and which of them refer to a file there.

A folder may hold thousands of models that have nothing to do with the file. It is listed once, and what a graph refers
to is found in its bytes, and known until it changes. In a run of many conversions the list is used for a while, too:
otherwise, each of thousands of models would look at all others.

Spec: onnx.proto, `TensorProto.external_data`.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from formats.errors import FormatError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from formats.onnxpb.external.graph_search import References

EXTENSION = ".onnx"  # other tools also write this format, and a location in it may be any file
MAX_DECODED_BYTES = 1 << 28  # of all graphs in a folder that have references
MAX_KNOWN = 1 << 14  # graphs whose references are known
LISTING_PART = 0.05  # of the time of a run, for listing its folders again

Stamp: TypeAlias = tuple[int, int, int, int]
Ask: TypeAlias = "Callable[[str, int], References]"  # about a graph, for at most this cost

_run: ContextVar[dict[Path, _Folder] | None] = ContextVar("the folders of a run of many conversions", default=None)
_known: dict[tuple[str, Ask], tuple[Stamp, References]] = {}  # of graphs that were asked


class Naming(NamedTuple):
    """A graph that may refer to a file; if it `is_too_large` to find out, it counts as one that cannot be read."""

    path: Path
    is_too_large: bool = False

    def references(self) -> set[str] | None:
        """The data files to which the graph refers, which need not exist; `None` if it cannot be read."""
        if self.is_too_large:
            return None
        from formats.onnxpb.external.graph_search import references

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
        found = self._folder.naming(self._folder.names_of(files))
        return [each for each in found if each.path not in self._but]

    def linked(self, archive: Path) -> list[Path]:
        """The graphs that may be linked to an archive in the folder."""
        names = self._folder.names_of([archive]) if self._folder.graphs else set()
        return [path for path in self._folder.linked(names) if path not in self._but]


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
    """What is in a folder: its graphs, with what changes if they do, links, and the names of folders."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.graphs: dict[str, Stamp] = {}  # by name
        self._links: list[str] = []
        self._folders: list[str] = []
        self._references = _Index()
        self._archives = _Index()
        self._next_listing = 0.0

    def list_again(self) -> None:
        """List the folder, except in a run of many conversions that has just done so.

        Raises: OSError.
        """
        started = perf_counter()
        if started < self._next_listing:
            return
        self.graphs, self._links, self._folders = {}, [], []
        try:
            with os.scandir(self.path) as entries:
                for entry in entries:
                    if entry.is_symlink():
                        self._links.append(entry.name)
                    elif entry.is_dir():
                        self._folders.append(entry.name)
                    if entry.name.lower().endswith(EXTENSION) and entry.is_file():
                        self.graphs[entry.name] = _stamp(entry.stat())
        except (FileNotFoundError, NotADirectoryError):
            return
        for index in (self._references, self._archives):
            index.note_changes(self.graphs)
        ended = perf_counter()
        self._next_listing = ended + (ended - started) / LISTING_PART

    def look_again(self, path: Path) -> None:
        """Note that a file was written, after the folder was listed."""
        if path.name.lower().endswith(EXTENSION):
            try:
                self.graphs[path.name] = _stamp(path.stat())
            except OSError:
                self.graphs.pop(path.name, None)
            for index in (self._references, self._archives):
                index.changed.add(path.name)

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

    def naming(self, names: set[str] | None) -> list[Naming]:
        """The graphs with one of the names in a reference, or with any reference if `names` is `None`."""
        from formats.onnxpb.external.graph_search import references_in

        rest = MAX_DECODED_BYTES
        for name in self._references.take_changed(self.graphs):
            found = _asked(references_in, f"{self.path}{os.sep}{name}", self.graphs[name], rest)
            rest -= found.cost if found.cost <= rest else 0
            self._references.add(name, self.graphs[name], found)
        rest = MAX_DECODED_BYTES
        result = []
        for name, found in self._references.of(names):
            is_too_large = found.cost > rest
            rest -= 0 if is_too_large else found.cost
            result.append(Naming(self.path / name, is_too_large))
        return result

    def linked(self, names: set[str] | None) -> list[Path]:
        """The graphs that are linked to an archive with one of the names, or to any if `names` is `None`."""
        from formats.onnxpb.external.graph_search import archives_in

        for name in self._archives.take_changed(self.graphs):
            found = _asked(archives_in, f"{self.path}{os.sep}{name}", self.graphs[name])
            self._archives.add(name, self.graphs[name], found)
        return [self.path / name for name, _ in self._archives.of(names)]


class _Index:
    """Graphs by the names in them; `changed` are those that must be asked, perhaps again."""

    def __init__(self) -> None:
        self.changed: set[str] = set()
        self._found: dict[str, tuple[Stamp, References]] = {}
        self._by_name: dict[str, set[str]] = {}
        self._unknown: set[str] = set()

    def note_changes(self, graphs: Mapping[str, Stamp]) -> None:
        """Compare what is known with the graphs of a new list."""
        found = self._found
        self.changed |= {graph for graph, stamp in graphs.items() if graph not in found or found[graph][0] != stamp}
        self.changed |= found.keys() - graphs.keys()

    def take_changed(self, graphs: Mapping[str, Stamp]) -> list[str]:
        """The graphs that changed and are still there, in the order of their names; nothing is known of them now."""
        changed, self.changed = sorted(self.changed), set()
        for graph in changed:
            if graph in self._found:
                for others in self._places(self._found.pop(graph)[1]):
                    others.discard(graph)
        return [graph for graph in changed if graph in graphs]

    def add(self, graph: str, stamp: Stamp, references: References) -> None:
        """Add what a graph refers to."""
        self._found[graph] = stamp, references
        for others in self._places(references):
            others.add(graph)

    def of(self, names: set[str] | None) -> list[tuple[str, References]]:
        """The graphs with one of the names, or with any if `names` is `None`; and those of which nobody knows."""
        chosen = self._by_name if names is None else names & self._by_name.keys()
        graphs = self._unknown.union(*(self._by_name[name] for name in chosen))
        return [(graph, self._found[graph][1]) for graph in sorted(graphs)]

    def _places(self, references: References) -> list[set[str]]:
        if references.names is None:
            return [self._unknown]
        return [self._by_name.setdefault(name, set()) for name in references.names]


def _asked(ask: Ask, path: str, stamp: Stamp, most: int = MAX_DECODED_BYTES) -> References:
    """What a graph says, as far as this process has not asked it before."""
    known = _known.get((path, ask))
    if known is not None and known[0] == stamp:
        return known[1]
    found = ask(path, most)
    if found.names is not None:
        if len(_known) >= MAX_KNOWN:
            _known.clear()
        _known[path, ask] = stamp, found
    return found


def _stamp(status: os.stat_result) -> Stamp:
    """What is different if a file is replaced or changed."""
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _ignores_case(path: Path) -> bool:
    other = path.with_name(path.name.swapcase())
    try:
        return other.name != path.name and path.samefile(other)
    except OSError:
        return False
