"""The constants that onnxruntime reads when it loads a graph: shapes, axes, splits, scales.

It infers shapes from them, and for that opens no data file: it refuses a model in which they are in one. All of its
releases do (some of 1.8 to 1.32 were asked for each operator of the table; 1.8 even ends).
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Final

from formats.ir import STANDARD_DOMAINS, dtypes, walk

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from formats.ir.model import Model, Tensor

SMALL_BYTES: Final = 1024  # a constant of this size is no small one
_REDUCTIONS = ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")
# The inputs that an operator's rule for shapes reads.
READ_AT_LOAD: Final[Mapping[str, tuple[int, ...]]] = {
    "AffineGrid": (1,),
    "BlackmanWindow": (0,),
    "CenterCropPad": (1,),
    "Col2Im": (1, 2),
    "ConstantOfShape": (0,),
    "DFT": (1, 2),
    "Expand": (1,),
    "HammingWindow": (0,),
    "HannWindow": (0,),
    "Identity": (0,),  # in front of one of the others
    "MelWeightMatrix": (0, 1, 2, 3, 4),
    "OneHot": (1,),
    "Pad": (1, 3),
    "Range": (0, 1, 2),
    "Reshape": (1,),
    "Resize": (1, 2, 3),
    "STFT": (1, 3),
    "Slice": (1, 2, 3, 4),
    "Split": (1,),
    "SplitToSequence": (1,),
    "Squeeze": (1,),
    "Tile": (1,),
    "TopK": (1,),
    "Unsqueeze": (1,),
    "Upsample": (1,),
    **{f"Reduce{name}": (1,) for name in _REDUCTIONS},
}


def is_small(tensor: Tensor) -> bool:
    """Whether a tensor has few bytes."""
    row = dtypes.BY_NUMBER.get(tensor.data_type or 0)
    return row is not None and prod(tensor.dims) * row.bits < 8 * SMALL_BYTES


def in_attribute(where: str) -> bool:
    """Whether a tensor at this place is in an attribute of a node, such as the value of a Constant."""
    return ".attribute[" in where


def read_at_load(model: Model, names: Collection[str]) -> set[str]:
    """Those of the names that stand where onnxruntime reads a constant when it loads the graph."""
    read = {
        node.input[index]
        for _, node in (walk.nodes(model) if names else ())
        if node.domain in STANDARD_DOMAINS
        for index in READ_AT_LOAD.get(node.op_type or "", ())
        if index < len(node.input)
    }
    return read.intersection(names)
