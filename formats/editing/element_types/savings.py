"""How many bytes the weights of a model would lose with other element types."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from formats.errors import FormatError
from formats.ir import dtypes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from formats.ir.model import Model

MATRICES_FROM_BYTES = 1 << 20  # what less of them would save, nobody needs to know; numpy is imported for it


class Described(Protocol):
    """What is known of a tensor without reading it."""

    @property
    def data_type(self) -> str: ...  # noqa: D102 - as in an inspection
    @property
    def dims(self) -> tuple[int, ...]: ...  # noqa: D102
    @property
    def nbytes(self) -> int: ...  # noqa: D102


def savings(model: Model, tensors: Iterable[Described]) -> dict[str, int]:
    """How many bytes the tensors of a model lose with other types; with integers in blocks only if that can be many."""
    from formats.editing.element_types.float_nodes import ELEMENT_TYPES

    totals: Counter[str] = Counter()
    matrices = 0
    for tensor in tensors:
        totals[tensor.data_type] += tensor.nbytes
        if tensor.data_type in ("FLOAT", "FLOAT16") and len(tensor.dims) == 2:
            matrices += tensor.nbytes
    saved = {
        name: sum(
            nbytes - nbytes * dtypes.BY_NUMBER[to.number].bits // dtypes.BY_NAME[old].bits
            for old, nbytes in totals.items()
            if old in dtypes.BY_NAME and dtypes.BY_NAME[old].number in to.sources
        )
        for name, to in ELEMENT_TYPES.items()
    }
    if matrices >= MATRICES_FROM_BYTES:
        from formats.editing.element_types.weight_quantization import saved_nbytes

        with suppress(FormatError):  # a weight may be too short for its dims, which only a conversion must refuse
            saved |= {name: saved_nbytes(model, name) for name in ("int8", "int4")}
    return saved
