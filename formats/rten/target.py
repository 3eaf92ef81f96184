"""The releases of RTen, and the target of a conversion: the only module with their versions.

An operator's row or field says since which release RTen has it; a `Fault` says in which releases a kernel deviates from
ONNX or stops. Both are in the module of the operator. For a new release, add a constant here, and change the rows and
faults that it affects.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from formats.errors import EncodeError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from formats.ir.model import Model, Node


class Release(NamedTuple):
    """A minor release of RTen."""

    major: int
    minor: int

    def __str__(self) -> str:
        """The release in the form of its crate's version."""
        return f"{self.major}.{self.minor}"


RTEN_0_25: Final = Release(0, 25)
RTEN_0_26: Final = Release(0, 26)
RTEN_0_27: Final = Release(0, 27)

RELEASES: Final[Sequence[Release]] = (RTEN_0_25, RTEN_0_26, RTEN_0_27)  # all known releases, in order


class Fault(NamedTuple):
    """A deviation of the runtime from ONNX for an operator, or an error in it: `detail` is the text after "RTen".

    `until` is the first release without the fault, `None` if there is none yet.
    """

    detail: str
    until: Release | None = None
    since: Release = RTEN_0_25

    @property
    def sentence(self) -> str:
        """The fault as a sentence about the releases that have it."""
        return f"RTen{'' if self.until is None else f' before {self.until}'} {self.detail}"


class _Dated(Protocol):
    @property
    def since(self) -> Release: ...


class Target(NamedTuple):
    """The target of a conversion: a release, and all later known ones.

    They read the result with their .rten loader, or with their ONNX loader if it `is_onnx`; `version` is the operator
    set of that model, 0 for its own.
    """

    oldest: Release = RTEN_0_25
    is_onnx: bool = False
    version: int = 0

    def has(self, item: _Dated) -> bool:
        """Whether all these releases have an operator or a field, which says since when it exists."""
        return item.since <= self.oldest

    def deviates(self, fault: Fault) -> bool:
        """Whether one of these releases has a fault."""
        return any(
            release >= max(fault.since, self.oldest) and (fault.until is None or release < fault.until)
            for release in RELEASES
        )


TARGETS: Final[Mapping[str, Target]] = {str(release): Target(release) for release in RELEASES}
ALL_RELEASES: Final = Target()
USAGE: Final = (
    f"RTen {RTEN_0_27} and later read .rten files only with their feature rten_format; "
    "`runtime=rten` writes an .onnx file that they read without it"
)
ONNX_LOADER: Final = Target(RELEASES[-1], is_onnx=True)  # the target of `runtime="rten"`


def parse_target(text: str) -> Target:
    """The target whose oldest release is `text`.

    Raises: EncodeError for an unknown release.
    """
    if text not in TARGETS:
        raise EncodeError(f"{text!r} is not a known release of RTen; the releases are {', '.join(TARGETS)}")
    return TARGETS[text]


def releases_reading(model: Model) -> tuple[str, ...]:
    """The releases that know each operator of a model in RTen's operators, and that ignore no field with a value."""
    from formats.ir import walk

    first = max((place for _, node in walk.nodes(model) for place in _needed(node)), default=0)
    return tuple(map(str, RELEASES[first:]))


def _needed(node: Node) -> Iterator[int]:
    """The places in `RELEASES` of those that added the operator, and each of its fields with a value."""
    from formats.ir.model import entries
    from formats.rten.operators.families import NEWER

    operator = node.op_type or ""
    yield NEWER.get(operator, 0)
    for attribute in entries(node, "attribute"):
        has_effect = attribute.i or set(attribute.ints) - {1}  # sizes of one mean the same as none
        yield NEWER.get(f"{operator}.{attribute.name}", 0) if has_effect else 0
