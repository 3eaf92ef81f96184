"""Which element types the inputs of each operator have in ONNX, where RTen has but one type of integer.

An integer of RTen is INT32, INT64 or BOOL in ONNX. A letter stands for what an input takes of these; for inputs that
are no integers it says nothing. Capitals are types that several inputs and outputs of a node share.

    N  one type of numbers           A  the same, or BOOL        I  INT32 or INT64, shared by indices
    n  INT32 or INT64                i  INT32 or INT64           l  INT64
    w  INT32                         b  BOOL
    m  BOOL, but may be no integer   v  INT64, but may be none
    E  the tensors of a sequence     S  a sequence of these      x  whatever the value has

Spec: ONNX, Operators, the type constraints of operator set 24, less what onnxruntime 1.31 has no kernels for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from formats.rten.convert.value_types import BOOL, INT32, INT64

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

INTEGERS: Final = (INT32, INT64, BOOL)


class Signature(NamedTuple):
    """A letter for each input, of which the last stands for all further ones, and the letter of the first output."""

    inputs: str
    output: str = ""

    def letters(self, count: int) -> str:
        """The letters of `count` inputs."""
        return (self.inputs + self.inputs[-1:] * count)[:count]


INTEGER_LETTERS: Final = "Iinlwb"  # of inputs that are always integers
UNTYPED: Final = Signature("x")

_ROWS: Final = (
    (
        Signature("N", "N"),
        "Abs Add Clip Div Einsum Gemm MatMul Max Mean Min Mod Mul Neg PRelu Range Relu Sign Sub Sum Upsample",
    ),
    (Signature("N"), "ArgMax ArgMin Greater GreaterOrEqual Less LessOrEqual"),
    (Signature("A"), "Equal"),
    (Signature("Nn", "N"), "Pow"),
    (Signature("Ni", "N"), "CumSum"),
    (
        Signature("Nl", "N"),
        "ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum"
        " ReduceSumSquare TopK",
    ),
    (Signature("A", "A"), "Concat Flatten Identity Transpose"),
    (Signature("Al", "A"), "Expand GatherND Reshape ReverseSequence Split Squeeze Tile Trilu Unsqueeze"),
    (Signature("Ai", "A"), "Gather GatherElements"),
    (Signature("AI", "A"), "Slice"),
    (Signature("AlAi", "A"), "Pad"),
    (Signature("AiA", "A"), "Scatter ScatterElements"),
    (Signature("AlA", "A"), "ScatterND"),
    (Signature("b"), "And If Not Or Xor"),
    (Signature("bN", "N"), "Where"),
    (Signature("lbx"), "Loop"),
    (Signature("l"), "ConstantOfShape"),
    (Signature("llv"), "OneHot"),
    (Signature("xil"), "DFT"),
    (Signature("xIxI"), "STFT"),
    (Signature("xxl"), "NonMaxSuppression"),
    (Signature("xxxl"), "Resize RotaryEmbedding"),
    (Signature("xxxmxxl"), "Attention"),
    (Signature("xxb"), "Dropout"),
    (Signature("xxxxwx"), "GRU LSTM"),
    (Signature("w"), "DequantizeLinear EyeLike RandomNormalLike RandomUniformLike"),
    (Signature("xw"), "CastLike"),
    (Signature("", "S"), "SequenceEmpty"),
    (Signature("E", "S"), "SequenceConstruct"),
    (Signature("Ei", "S"), "SplitToSequence"),
    (Signature("SEi", "S"), "SequenceInsert"),
    (Signature("Si", "S"), "SequenceErase"),
    (Signature("Si", "E"), "SequenceAt"),
    (Signature("S", "E"), "ConcatFromSequence"),
    (Signature("S"), "SequenceLength"),
)
SIGNATURES: Final[Mapping[str, Signature]] = {op_type: row for row, op_types in _ROWS for op_type in op_types.split()}

_FIXED: Final = {"l": INT64, "v": INT64, "w": INT32, "E": INT32, "S": INT32, "b": BOOL, "m": BOOL}

# How many axes an input must have that RTen takes with any number of them, as long as it has one element.
RANKS: Final[Mapping[str, Mapping[int, int]]] = {
    "Clip": {1: 0, 2: 0},
    "CumSum": {1: 0},
    "DFT": {1: 0, 2: 0},
    "NonMaxSuppression": {2: 0, 3: 0, 4: 0},
    "OneHot": {1: 0},
    "Pad": {2: 0},
    "Range": {0: 0, 1: 0, 2: 0},
    "STFT": {1: 0, 3: 0},
    "SequenceAt": {1: 0},
    "SequenceErase": {1: 0},
    "SequenceInsert": {2: 0},
    "TopK": {1: 1},
    "Trilu": {1: 0},
}


def integer_type(letter: str, computed: Collection[int], truths: Sequence[bool]) -> int | None:
    """The element type that integers at inputs of one letter get, `None` for the one that each has.

    `computed` are the types of those that are computed. Each of `truths` is a constant, which can have any type, and
    tells whether it holds nothing but zeros and ones.
    """
    if letter == "x":
        return None
    if letter in _FIXED:
        return _FIXED[letter]
    if letter in "iI":
        return INT64 if INT64 in computed or not computed else INT32
    if letter == "A" and set(computed) == {BOOL} and all(truths):
        return BOOL
    return INT64 if INT64 in computed else INT32
