"""The constants that onnxruntime reads when it loads a graph: shapes, axes, splits, scales.

It infers shapes from them, and for that opens no data file: it refuses a model in which they are in one. All of its
releases do (some of 1.8 to 1.32 were asked for each operator of the table; 1.8 even ends).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from formats.ir import STANDARD_DOMAINS, dtypes, walk
from formats.ir.functions import functions_of, key_of
from formats.onnxruntime import MICROSOFT

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
    "If": (0,),  # from 1.17 on, it looks for the data file in the current folder
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
# The same for operators of com.microsoft
MICROSOFT_AT_LOAD: Final[Mapping[str, tuple[int, ...]]] = {"ExpandDims": (1,), "Range": (0, 1, 2)}


def is_small(tensor: Tensor) -> bool:
    """Whether a tensor has few bytes."""
    row = dtypes.BY_NUMBER.get(tensor.data_type or 0)
    return row is not None and dtypes.count(tensor.dims) * row.bits < 8 * SMALL_BYTES


def in_attribute(where: str) -> bool:
    """Whether a tensor at this place is in an attribute of a node, such as the value of a Constant."""
    return ".attribute[" in where


def read_at_load(model: Model, names: Collection[str]) -> set[str]:
    """Those of the names that stand where onnxruntime reads a constant when it loads the graph, or a function."""
    if not names:
        return set()
    functions = functions_of(model.functions)
    read: set[str] = set()
    passed: dict[str, list[str]] = {}  # for each input of a function, what calls give it
    for _, node in walk.nodes(model):
        operators = READ_AT_LOAD if node.domain in STANDARD_DOMAINS else MICROSOFT_AT_LOAD
        if (function := functions.get(key_of(node.domain, node.op_type, node.overload))) is not None:
            for name, inner in zip(node.input, function.input, strict=False):
                passed.setdefault(inner, []).append(name)
        elif node.domain in (*STANDARD_DOMAINS, MICROSOFT):
            places = operators.get(node.op_type or "", ())
            read.update(node.input[index] for index in places if index < len(node.input))
    waiting = [*read]
    while waiting:  # functions may call others
        for name in passed.pop(waiting.pop(), ()):
            read.add(name)
            waiting.append(name)
    return read.intersection(names)


def outside(model: Model) -> list[str]:
    """The places of the small constants in data files that onnxruntime reads when it loads the graph."""
    small = {where: tensor.name or "" for where, tensor in walk.external_tensors(model) if is_small(tensor)}
    of_constants = walk.constant_names(model) if any(map(in_attribute, small)) else {}
    small = {where: of_constants.get(where, name) for where, name in small.items()}
    read = read_at_load(model, {*small.values()})
    return [
        where for where, name in small.items() if name in read or (in_attribute(where) and where not in of_constants)
    ]
