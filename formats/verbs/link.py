"""A graph that refers to the weights in an archive, so that programs without archive support can use them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from formats.verbs.convert import convert

if TYPE_CHECKING:
    import os

    from typing_extensions import Unpack

    from formats.keywords import ReadKeywords
    from formats.verbs.report import ConversionReport


def link(
    archive: str | os.PathLike[str],
    destination: str | os.PathLike[str],
    *,
    overwrite: bool = False,
    fsync: bool | None = None,
    **options: Unpack[ReadKeywords],
) -> ConversionReport:
    """Write a graph to `destination` that refers to the weights in `archive`, an `.onnxz` file in the same folder.

    It has a few KB, and programs that read `.onnx` files with external data can load it; onnxruntime maps the archive.
    RTen accepts it only if the archive's name ends in `.data`. If the archive changes, link it again; our readers
    refuse the graph until then. `options` are those of `load`.

    Raises: EncodeError if the archive is in another folder, a symbolic link, has no entries, or has a tensor
    whose offset is not a multiple of the size of its elements; others as `convert` does.
    """
    return convert(archive, destination, to_format="onnx", link=True, overwrite=overwrite, fsync=fsync, **options)
