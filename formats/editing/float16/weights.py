"""Weights in float16: their elements are converted when they are read, a block at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from formats.editing.edits import counted
from formats.ir.dtypes import FLOAT16
from formats.ir.storage import with_raw_data
from formats.tensordata.plan import RANGE, RARE, RESULTS, Loss
from formats.tensordata.sources.source import Literal
from formats.words import in_units

if TYPE_CHECKING:
    from collections.abc import Iterator

    from formats.ir.model import Tensor
    from formats.tensordata.plan import Seen
    from formats.tensordata.sources.transform import Beyond

SMALL_BYTES = 1024  # converted at once
LOST: tuple[tuple[str, str, str, Seen], ...] = (
    ("large", "too large for float16", "65504 with its sign", RESULTS),
    ("unlimited", "so large that they mean no limit", "65504 with its sign", RANGE),
    ("small", "too near zero for float16", "the least one with its sign, 6e-08", RARE),
)


class Halved:
    """The tensors that became float16, and their numbers that float16 cannot hold."""

    def __init__(self) -> None:
        self.count = self.nbytes = 0
        self._found: dict[int, tuple[Tensor, Beyond]] = {}
        self._moved: dict[str, Beyond] = {}

    def beyond(self, tensor: Tensor) -> Beyond:
        """The numbers that float16 cannot hold, which are counted once."""
        from formats.tensordata.sources.transform import beyond_half

        if id(tensor) not in self._found:
            self._found[id(tensor)] = tensor, beyond_half(tensor.source())  # the tensor is held, so its identity stays
        return self._found[id(tensor)][1]

    def of(self, tensor: Tensor, place: str) -> Tensor:
        """A float32 tensor as float16."""
        from formats.tensordata.sources.transform import halve

        source = tensor.source()
        if any(found := self.beyond(tensor)):
            self._moved[place] = found
        self.count, self.nbytes = self.count + 1, self.nbytes + source.nbytes
        converted = halve().of(source)
        new = with_raw_data(tensor, Literal(converted.read()) if source.nbytes <= SMALL_BYTES else converted)
        new.data_type = FLOAT16
        return new

    def sentence(self) -> str:
        """What was done."""
        sizes = f"{in_units(self.nbytes)} -> {in_units(self.nbytes // 2)}"
        return f"{counted(self.count, 'weight')} became float16, {sizes}"

    def losses(self) -> Iterator[Loss]:
        """The numbers that became others, apart from rounding."""
        for field, what, became, seen in LOST:
            counts = {place: number for place, found in self._moved.items() if (number := getattr(found, field))}
            if counts:
                tensors = f"of {counted(len(counts), 'weight')}"
                detail = f"{counted(sum(counts.values()), 'number')} {tensors} {what}; each became {became}"
                yield Loss("dtype", next(iter(counts)), detail, seen)
