"""The options for writing `.onnxz`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from formats.options import SWITCH, dedup_option, option, settle, size, threshold_option

MAX_ALIGNMENT = 1 << 16


def alignment_option() -> Any:
    """The field for the alignment of tensors in an archive, of a class of options."""
    words = "Put each of these tensors at a multiple of SIZE; 64 by default."
    return option(64, size(1, MAX_ALIGNMENT, power_of_two=True), words)


@dataclass(frozen=True, slots=True)
class ArchiveOptions:
    """Options for writing an `.onnxz` file.

    `alignment`: of every tensor in the file, in bytes; a power of two up to 65,536. `size_threshold`: the size in bytes
    from which a tensor gets its own entry. An entry costs about 200 bytes, and tools that read only the unpacked graph,
    such as shape inference, need the small tensors in it. Therefore the default is 1,024, as in ONNX. `dedup`: tensors
    with equal bytes share an entry. Planning then reads tensors whose size another tensor has; without it, only tensors
    that are one range of one file share an entry. `sha256`: the archive has the SHA-256 of each other entry.

    Raises: OptionError for an invalid value.
    """

    size_threshold: int = threshold_option()
    alignment: int = alignment_option()
    dedup: bool = dedup_option()
    sha256: bool = option(False, SWITCH, "Add the SHA-256 of each entry, for `sha256sum -c` and signatures.")

    def __post_init__(self) -> None:
        settle(self)
