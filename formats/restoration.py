"""What processes left behind that were killed while they wrote a model is completed, undone or removed."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from formats.arguments import local_path_of
from formats.tensordata import publication
from formats.tensordata.journal import owner_of
from formats.tensordata.tail_replacement import undo_path


@dataclass(frozen=True, slots=True)
class Repair:
    """What was found and done at a path.

    `completed`: several files that were to be replaced as one are. `put_back`: what was there before is there again,
    a model in several files or an archive that was changed where it is. `removed`: hidden files that nobody needs.
    """

    path: Path
    completed: bool
    put_back: bool
    removed: tuple[Path, ...]

    def to_json(self) -> dict[str, Any]:
        """The repair in strings, booleans, lists and dictionaries."""
        removed = [str(path) for path in self.removed]
        return {"path": str(self.path), "completed": self.completed, "put_back": self.put_back, "removed": removed}


def repair(path: str | os.PathLike[str]) -> Repair:
    """What was done so that the model at `path` is whole, the new one or the one before, and nothing is left beside it.

    Nothing is done while another process writes the model. The files of a model are replaced only where they are those
    that the interrupted process replaced. Models that were written together are repaired together.

    Raises: FileNotFoundError where there was neither a model nor anything left of one; BlockingIOError where another
    process is writing it; FormatError where what was left is damaged, or somebody else changed the model since.
    """
    given = local_path_of(path)
    if not given.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(given))
    completed = put_back = False
    removed: list[Path] = []
    places = given, Path(os.path.realpath(given))
    for place in dict.fromkeys(path for each in places for path in (owner_of(each) or each, each)):
        found = publication.repair(place)
        completed, put_back = completed or found.completed, put_back or found.undone
        removed += found.removed
    if undo_path(given).exists():
        from formats import onnxzip

        put_back = onnxzip.repair(given)
    if not (completed or put_back or removed or given.exists()):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(given))
    return Repair(given, completed, put_back, tuple(removed))
