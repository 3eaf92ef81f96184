"""Small integers that nodes compute of constants only, such as the shapes that PyTorch writes with six nodes.

Spec: ONNX operators; only integers, since these are shapes, axes and indices.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from formats.editing.nodes import constant_of_node
from formats.editing.scopes import main_graph
from formats.ir import FIRST_WITH_CONSTANTS, STANDARD_DOMAINS, dtypes
from formats.ir.attributes import attribute_named, get_int
from formats.ir.storage import from_numpy

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from formats.ir.model import Model, Node, Tensor

    Array = np.ndarray[Any, Any]

MOST_ELEMENTS: Final = 1024  # of a value that decides a shape
INTEGERS: Final = {dtypes.INT32: "int32", dtypes.INT64: "int64", dtypes.BOOL: "bool"}


def constants_of(model: Model) -> dict[str, Tensor]:
    """The initializers and constants of the main graph, and what nodes compute of them, by name."""
    graph = main_graph(model)
    constants = {tensor.name or "": tensor for tensor in graph.initializer}
    is_old = (model.ir_version or 0) < FIRST_WITH_CONSTANTS  # where each initializer is an input, too
    given = set() if is_old else {value.name for value in graph.input}
    for node in graph.node:
        if (tensor := constant_of_node(node)) is not None:
            constants[tensor.name or ""] = tensor
        elif (
            node.op_type in FOLDED
            and node.domain in STANDARD_DOMAINS
            and given.isdisjoint(node.input)
            and len(node.output) == 1
            and node.output[0]
            and (array := _computed(node, constants)) is not None
        ):
            constants[node.output[0]] = from_numpy(np.asarray(array), node.output[0])
    return constants


def _computed(node: Node, constants: Mapping[str, Tensor]) -> Array | None:
    """What a node computes, if its inputs are small integers that are known."""
    arrays = []
    for name in node.input:
        if (array := few_integers(constants.get(name))) is None:
            return None
        arrays.append(array)
    try:
        if most_elements(node, arrays) > MOST_ELEMENTS:
            return None
        array = FOLDED[node.op_type or ""](node, arrays)
    except (ArithmeticError, LookupError, TypeError, ValueError):  # the node is not valid
        return None
    return array if array is not None and array.dtype.name in INTEGERS.values() else None


def few_integers(tensor: Tensor | None) -> Array | None:
    """The elements of a constant that decides a shape, or `None` for one of other elements, or of many."""
    if tensor is None or tensor.data_type not in INTEGERS or dtypes.count(tensor.dims) > MOST_ELEMENTS:
        return None
    return tensor.numpy()


def most_elements(node: Node, arrays: list[Array]) -> int:
    """How many elements a result has at most, before it is computed."""
    if node.op_type == "Concat":
        return sum(array.size for array in arrays)
    if node.op_type == "Gather":
        return arrays[0].size * arrays[1].size
    if node.op_type in ("Add", "Equal", "Mul", "Sub", "Where"):
        return prod(np.broadcast_shapes(*(array.shape for array in arrays)))
    return arrays[0].size


def _list(node: Node, arrays: list[Array], name: str, index: int) -> list[int] | None:
    """A list that is an attribute in old operator sets, and an input in new ones."""
    attribute = attribute_named(node, name)
    if attribute is not None:
        return [*attribute.ints]
    return arrays[index].ravel().tolist() if index < len(arrays) else None


def _cast(node: Node, arrays: list[Array]) -> Array | None:
    name = INTEGERS.get(get_int(node, "to"))
    return None if name is None else arrays[0].astype(name)


def _constant_of_shape(node: Node, arrays: list[Array]) -> Array | None:
    attribute = attribute_named(node, "value")
    if attribute is None or attribute.t is None or prod(arrays[0].tolist()) > MOST_ELEMENTS:
        return None
    return np.full(arrays[0].tolist(), attribute.t.numpy().ravel()[0])


def _unsqueeze(node: Node, arrays: list[Array]) -> Array:
    return np.expand_dims(arrays[0], tuple(_list(node, arrays, "axes", 1) or ()))


def _squeeze(node: Node, arrays: list[Array]) -> Array:
    axes = _list(node, arrays, "axes", 1)
    return arrays[0].squeeze(None if axes is None else tuple(axes))


def _slice(node: Node, arrays: list[Array]) -> Array | None:
    """A part of a list."""
    starts, ends = (_list(node, arrays, name, index) for index, name in enumerate(("starts", "ends"), 1))
    steps = _list(node, arrays, "steps", 4) or [1]
    if arrays[0].ndim != 1 or not starts or not ends:
        return None
    start, end, step, size = starts[0], ends[0], steps[0], arrays[0].size
    if step < 0:  # in ONNX, a start before the first element is the first element; in Python, nothing follows
        return arrays[0][max(start, -size) : None if end < -size else end : step]
    return arrays[0][start:end:step]


FOLDED: Final[Mapping[str, Callable[[Node, list[Array]], Array | None]]] = {
    "Add": lambda node, arrays: arrays[0] + arrays[1],
    "Cast": _cast,
    "Concat": lambda node, arrays: np.concatenate(arrays, get_int(node, "axis", 1)),
    "ConstantOfShape": _constant_of_shape,
    "Equal": lambda node, arrays: arrays[0] == arrays[1],
    "Gather": lambda node, arrays: arrays[0].take(arrays[1], get_int(node, "axis")),
    "Identity": lambda node, arrays: arrays[0],
    "Mul": lambda node, arrays: arrays[0] * arrays[1],
    "Slice": _slice,
    "Squeeze": _squeeze,
    "Sub": lambda node, arrays: arrays[0] - arrays[1],
    "Unsqueeze": _unsqueeze,
    "Where": lambda node, arrays: np.where(arrays[0], arrays[1], arrays[2]),
}
