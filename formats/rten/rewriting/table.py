"""Which rewritings each operator goes through, in order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from formats.rten.rewriting import (
    bits,
    contrib,
    contrib_quantized,
    criteria,
    elementwise,
    loops,
    quantization,
    recurrence,
    reductions,
    resizing,
    sequences,
    shapes,
    signals,
    taps,
    versions,
    volumes,
    widths,
    windows,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from formats.rten.convert.context import Rewriting

# Old forms come first, since all others know the newest form only; the width of integers last.
_STANDARD = (
    contrib.STANDARD,
    versions.REWRITINGS,
    reductions.AXES,
    bits.REWRITINGS,
    criteria.REWRITINGS,
    elementwise.REWRITINGS,
    loops.REWRITINGS,
    quantization.REWRITINGS,
    recurrence.REWRITINGS,
    reductions.REWRITINGS,
    resizing.REWRITINGS,
    sequences.REWRITINGS,
    shapes.REWRITINGS,
    signals.REWRITINGS,
    taps.REWRITINGS,
    volumes.REWRITINGS,
    windows.REWRITINGS,
    widths.REWRITINGS,
)


def _merged(*tables: Mapping[str, Rewriting]) -> dict[str, tuple[Rewriting, ...]]:
    """The rewritings of each operator in the order of the tables."""
    result: dict[str, tuple[Rewriting, ...]] = {}
    for table in tables:
        for op_type, rewriting in table.items():
            result[op_type] = (*result.get(op_type, ()), rewriting)
    return result


REWRITINGS: Mapping[str, Mapping[str, tuple[Rewriting, ...]]] = {
    "": _merged(*_STANDARD),
    "com.microsoft": _merged(contrib.REWRITINGS, contrib_quantized.REWRITINGS),
}
