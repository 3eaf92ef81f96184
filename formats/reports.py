"""The result of a conversion, as data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from formats.late_dataclasses import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from formats.registry import Change
    from formats.tensordata.plan import Loss

LOSSES_IN_MESSAGE = 10


class WrittenFile(NamedTuple):
    """A file that was written."""

    path: Path
    nbytes: int


@dataclass(frozen=True, slots=True)
class ConversionReport:
    """The result of a conversion, and what the target could not express; `source` is `None` for a model from memory."""

    source: Path | None
    destination: Path
    source_format: str | None
    target_format: str
    files: tuple[WrittenFile, ...]  # the model is the last one
    seconds: float
    losses: tuple[Loss, ...] = ()
    notes: tuple[Loss, ...] = ()  # the faults that a lenient reader accepted
    changes: tuple[Change, ...] = ()  # what was rewritten for a runtime
    source_files: tuple[Path, ...] = ()  # the model is the first one
    dry_run: bool = False  # the files would be written, but were not
    settings: Mapping[str, Any] | None = None  # the settings that a program needs to load the files

    @property
    def nbytes(self) -> int:
        """The size of all files together, in bytes."""
        return sum(file.nbytes for file in self.files)

    def to_json(self) -> dict[str, Any]:
        """The report in strings, numbers, lists and dictionaries."""
        return {
            "source": None if self.source is None else str(self.source),
            "source_files": [str(path) for path in self.source_files],
            "destination": str(self.destination),
            "source_format": self.source_format,
            "target_format": self.target_format,
            "files": [{"path": str(file.path), "nbytes": file.nbytes} for file in self.files],
            "nbytes": self.nbytes,
            "dry_run": self.dry_run,
            "seconds": round(self.seconds, 6),
            "losses": [loss._asdict() for loss in self.losses],
            "notes": [note._asdict() for note in self.notes],
            "changes": [{**change._asdict(), "became": list(change.became)} for change in self.changes],
            "settings": None if self.settings is None else dict(self.settings),
        }


def listed(losses: tuple[Loss, ...]) -> str:
    """The losses in one line; of many, the first."""
    shown = "; ".join(f"{loss.where or 'model'}: {loss.detail}" for loss in losses[:LOSSES_IN_MESSAGE])
    more = len(losses) - LOSSES_IN_MESSAGE
    return f"{shown}; and {more} more" if more > 0 else shown
