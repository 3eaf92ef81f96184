"""The releases of RTen, and what a conversion writes for: the one place with their versions.

An operator's row or field says since which release it is there, a `Fault` in which releases a kernel computes something
else than ONNX says or stops; both stand with their operator. A new release is a constant here, and the rows and faults
that it changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from formats.errors import EncodeError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class Release(NamedTuple):
    """A minor release of RTen."""

    major: int
    minor: int

    def __str__(self) -> str:
        """As its crate has it."""
        return f"{self.major}.{self.minor}"


RTEN_0_25: Final = Release(0, 25)
RTEN_0_26: Final = Release(0, 26)
RTEN_0_27: Final = Release(0, 27)

RELEASES: Final[Sequence[Release]] = (RTEN_0_25, RTEN_0_26, RTEN_0_27)  # all that are known, in order


class Fault(NamedTuple):
    """What the runtime computes otherwise than ONNX says of an operator, or stops at: `detail` goes on after "RTen".

    `until` is the first release without it, `None` if there is none yet.
    """

    detail: str
    until: Release | None = None
    since: Release = RTEN_0_25

    @property
    def sentence(self) -> str:
        """What the releases with this fault do, as a sentence."""
        return f"RTen{'' if self.until is None else f' before {self.until}'} {self.detail}"


class _Dated(Protocol):
    @property
    def since(self) -> Release: ...


class Target(NamedTuple):
    """What a conversion writes for: a release, and all later ones that are known.

    They read it with their .rten loader, or with their ONNX loader if it `is_onnx`; `version` is the operator set of
    that model, 0 for the one that it has.
    """

    oldest: Release = RTEN_0_25
    is_onnx: bool = False
    version: int = 0

    def has(self, item: _Dated) -> bool:
        """Whether all these releases have an operator or a field: one that says since when it is there."""
        return item.since <= self.oldest

    def deviates(self, fault: Fault) -> bool:
        """Whether one of these releases has a fault."""
        return any(
            release >= max(fault.since, self.oldest) and (fault.until is None or release < fault.until)
            for release in RELEASES
        )


TARGETS: Final[Mapping[str, Target]] = {str(release): Target(release) for release in RELEASES}
ALL_RELEASES: Final = Target()
NEWEST_RELEASE: Final = Target(RELEASES[-1])
ONNX_LOADER: Final = Target(RELEASES[-1], is_onnx=True)  # what `runtime="rten"` writes for


def parse_target(text: str) -> Target:
    """The target whose oldest release is `text`.

    Raises: EncodeError for a release that is not known.
    """
    if text not in TARGETS:
        raise EncodeError(f"{text!r} is not a known release of RTen; the releases are {', '.join(TARGETS)}")
    return TARGETS[text]
