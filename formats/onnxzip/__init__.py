"""`.onnxz`: an ONNX model and its weights in one plain zip file, every weight stored and aligned."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from formats.codecs.contract import READ_DEFAULTS, Bundle, Codec, Match
from formats.errors import FormatError
from formats.onnxzip.options import ArchiveOptions

if TYPE_CHECKING:
    import os
    from collections.abc import Collection, Iterable, Iterator

    from formats.codecs.contract import Checksum, ReadOptions, Region
    from formats.ir.model import Model
    from formats.onnxzip.editing import Update
    from formats.tensordata.engine import EngineOptions
    from formats.tensordata.plan import Loss, WritePlan
    from formats.tensordata.sources.source import Source


def check(source: Source | bytes | bytearray | memoryview | str | os.PathLike[str]) -> None:
    """Check that `source`, a path or the bytes of a file, is an `.onnxz` archive.

    Whether its graphs are valid ONNX models makes no difference.

    Raises: DecodeError or ExternalDataError; `requirement` is the number of the broken requirement in docs/onnxz.md.
    """
    from formats.onnxzip.model import check_archive
    from formats.tensordata.file import File
    from formats.tensordata.sources.source import Literal, Source

    if isinstance(source, (bytes, bytearray, memoryview)):
        source = Literal(memoryview(source))
    check_archive(source if isinstance(source, Source) else File.open(source).span())


def update(
    model: Model,
    path: str | os.PathLike[str],
    options: ArchiveOptions | None = None,
    engine: EngineOptions | None = None,
    *,
    name: str | None = None,
) -> Update:
    """Write back `model`, read from the archive at `path` and changed; unchanged weights are not rewritten.

    In an archive with several models, this is the one with this name, or the default one; all others and files stay.

    Models that were read from the archive earlier cannot read their weights any more: read it again. A process that is
    killed meanwhile leaves the old archive, the new one, or one that every reader refuses until `repair`.

    Raises: DecodeError if there is no archive at `path`; FileExistsError if an earlier update was interrupted; other
    FormatErrors and OSErrors as in writing. Then the archive is unchanged.
    """
    from formats.onnxzip import editing
    from formats.tensordata.engine import EngineOptions

    return editing.update_archive(model, Path(path), options or ArchiveOptions(), engine or EngineOptions(), name)


def repair(path: str | os.PathLike[str]) -> bool:
    """Complete the archive at `path` after an interrupted update; return whether its old state was restored.

    Raises: DecodeError if it is damaged in another way.
    """
    from formats.onnxzip import editing

    return editing.repair_archive(Path(path))


class ArchiveCodec(Codec):
    """A zip file with models, in which no weight is compressed."""

    name = "onnxz"
    title = "ONNX archive"
    extensions = (".onnxz",)
    options = ArchiveOptions
    is_archive = True
    is_mapped = True

    def sniff(self, head: bytes, nbytes: int) -> Match:
        """How much the first bytes of a file look like an archive: any zip file might be one, ours have a mark."""
        from formats.onnxzip.reader import looks_like_archive, looks_like_zip

        if not looks_like_zip(head):
            return Match.NONE
        return Match.STRONG if looks_like_archive(head) else Match.WEAK

    def read(self, source: Source, path: Path | None, options: ReadOptions = READ_DEFAULTS) -> Model:
        """The model in `source`; the bytes of every tensor are a range of `source`."""
        from formats.onnxzip.model import advised, read_model

        try:
            return read_model(source, options.max_depth, options.model)
        except FormatError as error:
            raise advised(error, source, options.max_depth, options.model) from None

    def plan(self, model: Model, destination: Path, options: ArchiveOptions) -> WritePlan:
        """How to write `model` to the one file `destination`."""
        from formats.onnxzip.archive import plan_model

        return plan_model(model, destination, options)

    def read_lenient(
        self, source: Source, path: Path | None, options: ReadOptions = READ_DEFAULTS
    ) -> tuple[Model, tuple[Loss, ...]]:
        """The model in `source`, which any zip tool may have made, and notes on faults for which `read` refuses it."""
        from formats.onnxzip.model import read_loose_model

        return read_loose_model(source, options.max_depth, options.model)

    def regions(self, source: Source) -> Iterator[Region]:
        """The headers, padding, payloads and end of the archive in `source`."""
        from formats.onnxzip.reader import regions_of

        return regions_of(source)

    def bundle(self, source: Source) -> Bundle:
        """The models and the files in the archive in `source`."""
        from formats.onnxzip.reader import read_contents

        contents = read_contents(source)
        files = tuple((entry.name, entry.nbytes) for entry in contents.files)
        return Bundle(tuple(contents.graphs), files, contents.hashes is not None)

    def settled(self, source: Source, path: Path) -> Source:
        """The archive in `source`, the file at `path`, or its state before an interrupted update."""
        from formats.tensordata.replacing.hidden import undo_path

        if not undo_path(path).exists():
            return source
        from formats.onnxzip import editing

        return editing.settled(source, path)

    def checksums(self, source: Source, model: Model, original: Source | None) -> Iterator[Checksum]:
        """The CRC-32 of each entry."""
        from formats.onnxzip.reader import checksums_of

        return checksums_of(source)

    def shared_data(self, plan: WritePlan, overwrite: bool, model_extensions: Collection[str]) -> Iterable[Loss]:
        """A loss for each graph that is linked to the archive that the plan replaces."""
        from formats.onnxzip.editing import perhaps_stale_links

        path = plan.files[-1].path
        return perhaps_stale_links(path) if path.exists() else ()


CODEC = ArchiveCodec()
