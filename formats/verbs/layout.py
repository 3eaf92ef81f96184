"""The layout of the files of a model: what each range of bytes is."""
# ruff: noqa: A002 - `format` is the word that users know from `load`

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from formats.codecs import lookup
from formats.codecs.contract import ReadOptions, Region
from formats.ir import dtypes, walk
from formats.ir.archive_link import ArchiveLink
from formats.onnxpb.external.safetensors import header_of
from formats.options import made
from formats.verbs.arguments import path_of
from formats.verbs.inspect import raw_nbytes, span_of
from formats.verbs.steps.opening import models_in, read_model

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from typing_extensions import Unpack

    from formats.keywords import ReadKeywords
    from formats.tensordata.file import File
    from formats.verbs.arguments import AnySource

MAX_PADDING_BYTES = 1 << 16  # a larger gap than any alignment makes is reported as unused


class FileLayout(NamedTuple):
    """A file and its regions, from its first byte to its last.

    Tensors of up to 1 KiB are part of the region of the graph: `inner_count` of them, with `inner_nbytes` of elements.
    """

    path: Path
    nbytes: int
    regions: tuple[Region, ...]
    inner_count: int = 0
    inner_nbytes: int = 0


def layout(path: AnySource, *, format: str | None = None, **options: Unpack[ReadKeywords]) -> tuple[FileLayout, ...]:
    """The regions of the files of a model, the model file first; `options` are those of `load`.

    Raises: FormatError if it cannot be read; OSError if a file cannot.
    """
    reading = made(ReadOptions, options, by=layout)
    path = path_of(path)
    *names, last = models_in(path, format, reading)
    codec, source, model = read_model(path, format, replace(reading, model=last))
    models = [read_model(path, format, replace(reading, model=name))[2] for name in names]
    parts = codec.regions(source)
    here = {file.path: file for file in source.files()}  # the archive of several models is opened for each
    tensors: dict[File, dict[tuple[int, int], Region]] = {file: {} for file in here.values()}
    inner = []
    for _, tensor in chain.from_iterable(map(walk.tensors, (*models, model))):
        span = span_of(tensor)
        if span is None:
            inner.append(raw_nbytes(tensor))
        else:
            label = f"{tensor.name or 'tensor'}: {dtypes.type_name(tensor.data_type)} {tensor.dims}"
            region = Region(span.file_offset, span.nbytes, "tensor", label)
            file = here.get(span.file.path, span.file)
            tensors.setdefault(file, {}).setdefault((region.file_offset, region.nbytes), region)
    own, *others = tensors
    link = ArchiveLink.of(model)
    files: list[tuple[File, tuple[Region, ...]]] = [(own, tuple(parts))]
    for file in sorted(others, key=lambda file: file.path):
        is_archive = link is not None and file.path.name == link.archive
        regions = lookup.by_name("onnxz").regions if is_archive else header_of
        files.append((file, tuple(regions(file.span()))))
    first, *rest = (
        FileLayout(file.path, file.nbytes, tuple(_regions(file.nbytes, given, tensors[file].values())))
        for file, given in files
    )
    return (first._replace(inner_count=len(inner), inner_nbytes=sum(inner)), *rest)


def _regions(nbytes: int, parts: Iterable[Region], tensors: Iterable[Region]) -> Iterator[Region]:
    """The file's parts without gaps, divided where there are tensors in them."""
    rest = sorted(tensors, reverse=True)
    for part in _filled(sorted(parts), nbytes):
        position = part.file_offset
        while rest and rest[-1].end <= part.end:
            tensor = rest.pop()
            if tensor.file_offset >= position:  # otherwise, it overlaps the region before it
                yield from _piece(part, position, tensor.file_offset)
                yield tensor
                position = tensor.end
        yield from _piece(part, position, part.end)


def _filled(parts: Iterable[Region], nbytes: int) -> Iterator[Region]:
    """The parts of a file of this size, with the gaps between them as padding."""
    position = 0
    for part in (*parts, Region(nbytes, 0, "padding", "")):
        if position < part.file_offset:
            yield Region(position, part.file_offset - position, "padding", "padding")
        yield part
        position = part.end


def _piece(part: Region, start: int, end: int) -> Iterator[Region]:
    """The range of a part, if it is not empty."""
    if start < end:
        unused = part.kind == "padding" and end - start >= MAX_PADDING_BYTES
        kind, label = ("unused", "not used") if unused else (part.kind, part.label)
        yield Region(start, end - start, kind, label)
