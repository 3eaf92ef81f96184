"""How many bytes the weights of a model would lose with other element types."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from formats.ir import dtypes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from formats.ir.model import Model

MATRICES_FROM_BYTES = 1 << 20  # what less of them would save, nobody needs to know; numpy is imported for it


def savings(model: Model, tensors: Iterable[tuple[str, int, int]], *, in_blocks: bool) -> dict[str, int]:
    """How many bytes the tensors of a model lose with other types: of each tensor, its type, its rank, and its bytes.

    With `in_blocks`, also with integers in blocks, if that can be many bytes. The model must have operators of ONNX.
    """
    from formats.editing.element_types.typed_values import ELEMENT_TYPES

    totals: Counter[str] = Counter()
    matrices = 0
    for data_type, rank, nbytes in tensors:
        totals[data_type] += nbytes
        if data_type in ("FLOAT", "FLOAT16") and rank == 2:
            matrices += nbytes
    saved = {
        name: sum(
            nbytes - nbytes * dtypes.BY_NUMBER[to.number].bits // dtypes.BY_NAME[old].bits
            for old, nbytes in totals.items()
            if old in dtypes.BY_NAME and dtypes.BY_NAME[old].number in to.sources
        )
        for name, to in ELEMENT_TYPES.items()
    }
    if in_blocks and matrices >= MATRICES_FROM_BYTES:
        from formats.editing.element_types.weight_quantization import saved_nbytes

        saved |= {name: saved_nbytes(model, name) for name in ("int8", "int4")}
    return saved
