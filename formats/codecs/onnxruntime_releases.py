"""The releases of onnxruntime, a row each: the newest versions that each reads of ONNX's files and operator sets.

From the releases themselves, on 2026-11-23: the largest numbers with which they make a session of a model with one
Sqrt. 1.15 also accepts operator set 19, but has no kernels for most of its new forms, such as that of Cast.
`tests/codecs/test_onnxruntime_releases.py` asks some of them again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping


class Reads(NamedTuple):
    """The newest ir_version that a release reads, and the newest versions of two operator sets."""

    ir_version: int
    opset: int
    ml_opset: int

    @property
    def opsets(self) -> Mapping[str, int]:
        """The newest version of each operator set of ONNX, by domain."""
        return {"": self.opset, "ai.onnx": self.opset, "ai.onnx.ml": self.ml_opset}


RELEASES: Final[Mapping[str, Reads]] = {
    "1.15": Reads(9, 18, 3),
    "1.16": Reads(9, 19, 3),
    "1.17": Reads(9, 20, 4),
    "1.18": Reads(10, 21, 5),
    "1.19": Reads(10, 21, 5),
    "1.20": Reads(10, 21, 5),
    "1.21": Reads(10, 22, 5),
    "1.22": Reads(10, 22, 5),
    "1.23": Reads(11, 23, 5),
    "1.24": Reads(13, 25, 5),
    "1.25": Reads(13, 26, 5),
    "1.26": Reads(13, 26, 5),
    "1.27": Reads(13, 26, 5),
    "1.28": Reads(13, 26, 5),
    "1.29": Reads(13, 26, 5),
    "1.30": Reads(13, 26, 5),
    "1.31": Reads(13, 26, 5),
    "1.32": Reads(14, 28, 5),
}
NEWEST: Final = list(RELEASES)[-1]


def reading(ir_version: int, opsets: Mapping[str, int]) -> tuple[str, ...]:
    """The releases that read a model with these versions."""
    return tuple(
        release
        for release, row in RELEASES.items()
        if ir_version <= row.ir_version
        and all(version <= row.opsets.get(domain, version) for domain, version in opsets.items())
    )
