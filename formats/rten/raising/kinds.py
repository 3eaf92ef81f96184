"""The types of the values of a .rten file: from its messages, or else from the operators that use the values.

RTen has one type of integer. Constants get those of ONNX here; nothing of them is read before it is written.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final, NamedTuple

import numpy as np

from formats.ir.dtypes import BOOL, INT32, INT64
from formats.ir.model import Dimension, Graph, Node, SequenceType, Tensor, TensorShape, TensorType, Type, ValueInfo
from formats.ir.node_order import defined
from formats.ir.storage import with_raw_data
from formats.rten.convert.value_types import UNKNOWN, Dims, ValueType, declared_type
from formats.rten.operators import SPECS
from formats.rten.spec import OperatorSpec
from formats.rten.types import INT32_LIMITS, INT64_LIMITS
from formats.tensordata.sources.transform import Buffer, Transform, casting, range_of

INTEGERS: Final = frozenset((INT32, INT64, BOOL))
INTEGER_LETTERS: Final = "Iilb"  # of inputs that are always integers
_FIXED: Final = {"l": INT64, "v": INT64, "w": INT32, "E": INT32, "S": INT32, "b": BOOL, "m": BOOL}
UNKNOWN_OPERATOR: Final = OperatorSpec("")
UNKNOWN_DIM_NAMES = ("unknown", "?")  # the name that other writers give to every unknown dimension


class ValueKind(NamedTuple):
    """The type of a value: its element type; for a sequence, the element type of its tensors."""

    elem_type: int
    is_sequence: bool = False


@lru_cache(maxsize=4096)
def tensor_kind(elem_type: int) -> ValueKind:
    """The type of a tensor; a large graph has as many of them as nodes."""
    return ValueKind(elem_type)


def integer_type(letter: str, computed: Collection[int], truths: Sequence[bool]) -> int | None:
    """The element type of integers at inputs with one letter; `None` if each keeps its own type.

    `computed` are the types of the inputs that are computed. `truths` has one entry for each constant input: whether it
    holds only zeros and ones. A constant can have any type.
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


def value_info(name: str, kind: ValueKind, dims: Dims | None) -> ValueInfo:
    """An input, output or other value with its type. For a sequence, `dims` are not used."""
    shape = None if dims is None or kind.is_sequence else TensorShape(dim=[_dimension(dim) for dim in dims])
    tensor = Type(tensor_type=TensorType(elem_type=kind.elem_type, shape=shape))
    return ValueInfo(name=name, type=Type(sequence_type=SequenceType(elem_type=tensor)) if kind.is_sequence else tensor)


def _dimension(dim: int | str | None) -> Dimension:
    if isinstance(dim, int):
        return Dimension(dim_value=dim)
    return Dimension(dim_param=dim)


def declared(value: ValueInfo) -> ValueType:
    """What a .rten file says about a value. Other writers use 0 or "unknown" for unknown dims."""
    if value.type is None:
        return UNKNOWN
    elem_type, dims = declared_type(value.type)
    return ValueType(elem_type, dims and tuple(None if not dim or dim in UNKNOWN_DIM_NAMES else dim for dim in dims))


class _Use(NamedTuple):
    """One input of a node that uses a value."""

    node: Node
    spec: OperatorSpec
    graph: Graph
    place: int
    letters: str  # of all inputs of the node

    @property
    def letter(self) -> str:
        """The letter of this input."""
        return self.letters[self.place]


def found_by_use(name: str, graph: Graph) -> tuple[int | None, bool]:
    """The needs of the nodes that use a graph's input: its element type, and whether it is a sequence.

    If a node only passes the input on, the nodes after it count. If all nodes only pass it on, it is a sequence,
    because files contain the type of every tensor.
    """
    elem_types = {tensor.name or "": tensor.data_type for tensor in graph.initializer}
    elem_types.update((value.name or "", declared(value).elem_type) for value in graph.input)
    elem_type = None
    is_sequence = is_tensor = False
    # The list grows while it is read: a value may be passed on any number of times.
    pending = [(name, graph, True)]  # and whether it is the value itself, not a sequence or an element
    for value, place, is_itself in pending:
        for use in _uses(value, place):
            is_sequence |= is_itself and use.letter == "S"
            is_tensor |= is_itself and not use.spec.to_onnx.carries_sequences
            alike = "SE" if use.letter in "SE" else use.letter if use.letter.isupper() else ""
            others = [other for other, letter in zip(use.node.input, use.letters, strict=True) if letter in alike]
            elem_type = elem_type or next(filter(None, map(elem_types.get, others)), None)
            if use.letter in INTEGER_LETTERS:
                elem_type = elem_type or INT32
            followed = [(other, inner, is_itself and same) for other, inner, same in _passed_on(use, alike)]
            pending += [entry for entry in followed if entry not in pending]
    return elem_type, is_sequence or not is_tensor


def _uses(name: str, graph: Graph) -> Iterator[_Use]:
    """The inputs that use a value, in subgraphs, too."""
    for node in graph.node:
        spec = SPECS.get(node.op_type or "", UNKNOWN_OPERATOR)
        letters = spec.to_onnx.letters(len(node.input))
        yield from (_Use(node, spec, graph, place, letters) for place, used in enumerate(node.input) if used == name)
        for attribute in node.attribute:
            if attribute.g is not None and name not in defined(attribute.g):
                yield from _uses(name, attribute.g)


def _passed_on(use: _Use, alike: str) -> Iterator[tuple[str, Graph, bool]]:
    """For a node that passes a value on: the new value, its graph, and whether it is the value itself."""
    output, form = use.spec.to_onnx.output, use.spec.to_onnx.subgraphs
    if output and output in alike and use.node.output:
        yield use.node.output[0], use.graph, output == use.letter
    if form is not None and form.carried is not None and use.place >= form.carried:
        place = len(form.inputs) + use.place - form.carried
        for body in (attribute.g for attribute in use.node.attribute if attribute.name in form.attributes):
            if body is not None and place < len(body.input):
                yield body.input[place].name or "", body, True


# Constants


def _truths(data: Buffer) -> Any:
    return (np.frombuffer(data, "<i4") != 0).view(np.uint8)


def _bounds(data: Buffer) -> Any:
    array = np.frombuffer(data, "<i4").astype("<i8")
    for limit, widest in zip(INT32_LIMITS, INT64_LIMITS, strict=True):
        array[array == limit] = widest  # "no limit" of 32 bits becomes that of 64 bits
    return array.view(np.uint8)


_TO_BOOL: Final = Transform("int32 to bool", 4, 1, _truths)
_TO_BOUNDS: Final = Transform("int32 to int64, limits to limits", 4, 8, _bounds)


def constant_in_type(tensor: Tensor, elem_type: int | None, *, bounds: bool = False) -> Tensor:
    """An INT32 tensor converted to INT64 or BOOL; any other tensor unchanged.

    If the integers are `bounds` of slices, the least and greatest INT32 become the least and greatest INT64.
    """
    if tensor.data_type != INT32 or elem_type not in (INT64, BOOL):
        return tensor
    transform = _TO_BOOL if elem_type == BOOL else _TO_BOUNDS if bounds else casting("int32", "int64")
    return replace(with_raw_data(tensor, transform.of(tensor.source())), data_type=elem_type)


def is_truth(tensor: Tensor) -> bool:
    """Whether all elements of an INT32 tensor are zero or one."""
    least, greatest = range_of(tensor.source(), "int32")
    return bool(least >= 0 and greatest <= 1)


def has_limits(tensor: Tensor) -> bool:
    """Whether an INT32 tensor contains the least or the greatest integer, which mean "no bound"."""
    least, greatest = range_of(tensor.source(), "int32")
    return bool(least == INT32_LIMITS[0] or greatest == INT32_LIMITS[1])
