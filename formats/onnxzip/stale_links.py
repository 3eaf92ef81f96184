"""Graphs in the folder of an archive that are linked to it, and that another archive with its name would break.

Our readers then refuse such a graph. Other readers do not notice, and would read other bytes as weights.

Spec: docs/links.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from formats.errors import FormatError
from formats.ir.archive_link import ArchiveLink
from formats.ir.model import Model
from formats.onnxpb.external.other_graphs import OtherGraphs
from formats.onnxpb.wire.decoder import decode
from formats.tensordata.file import File
from formats.tensordata.plan import INTERFACE, Loss

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

KIND = "stale_link"


def links_to(archive: Path) -> Iterator[tuple[Path, ArchiveLink]]:
    """The graphs in the folder that are linked to an archive with this name, whatever its state is now."""
    for graph in OtherGraphs(archive.parent, (archive,)).linked(archive):
        try:
            link = ArchiveLink.of(decode(File.open(graph.path).span(), Model))
        except (FormatError, OSError):
            continue
        if link is not None and link.archive == archive.name:
            yield graph.path, link


def stale(archive: Path, directory_sha256: str) -> Iterator[Loss]:
    """A loss for each graph that is linked to the old archive, which had this digest of its directory."""
    for path, link in links_to(archive):
        if link.directory_sha256 == directory_sha256:
            yield _loss(path, f"is linked to the old version of {archive.name}")


def perhaps_stale(archive: Path) -> Iterator[Loss]:
    """A loss for each graph that is linked to the archive that will be replaced."""
    for path, _ in links_to(archive):
        yield _loss(path, f"is linked to the replaced archive {archive.name}")


def _loss(path: Path, reason: str) -> Loss:
    return Loss(KIND, path.name, f"{path.name} {reason}; link it again", INTERFACE)
