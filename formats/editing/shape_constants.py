"""Constants that hold the old size of an axis, in Reshape, Expand and Resize: those that mean it get the new size.

A constant of a Reshape means an axis of its input if as many elements are before both, and both have the old size: a
Reshape keeps the order of elements. There must be one such place. Models are tried with sizes, by inferring shapes.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import numpy as np

from formats.editing.inference import without_stated
from formats.editing.node_forms import constant_of_node
from formats.editing.options import Edit
from formats.editing.scopes import all_messages, defined_in, fresh, main_graph, names_used, shape_of
from formats.errors import UnsupportedError
from formats.ir.model import attribute_named
from formats.ir.storage import from_numpy
from formats.onnxpb.inference import inferred

if TYPE_CHECKING:
    from collections.abc import Sequence

    from formats.ir.model import Dimension, Model, Node, Tensor

    Sizes = list[int | None]

SHAPE_INPUTS = {"Reshape": 1, "Expand": 1, "Resize": 3}  # the input that is a shape
TRIED = 7919  # a size that stands for a name: no other dim has it by chance


def constants_of(model: Model) -> dict[str, Tensor]:
    """The initializers and constants of the main graph, by name."""
    graph = main_graph(model)
    constants = [*graph.initializer, *filter(None, map(constant_of_node, graph.node))]
    return {tensor.name or "": tensor for tensor in constants}


def set_constants_in(model: Model, dims: Sequence[Dimension], old: int, new: int | str) -> dict[str, Edit]:
    """Give constants that mean these dims of inputs their new size; what was done, by the first output of the node.

    Raises: MissingPackageError if onnx is not installed.
    """
    graph = main_graph(model)
    constants = constants_of(model)
    given = {value.name for value in graph.input}
    shaping = {
        node.output[0]
        for node in graph.node
        if node.op_type in SHAPE_INPUTS
        and not node.domain
        and node.output
        and len(node.input) > (index := SHAPE_INPUTS[node.op_type])
        and node.input[index] in constants
        and node.input[index] not in given
        and old in constants[node.input[index]].numpy().ravel().tolist()
    }
    if not shaping or (model.ir_version or 0) < 4:  # before IR version 4 an initializer is an input, too
        return {}
    before = _sizes_with(model, dims, old)
    edits: dict[str, Edit] = {}
    taken = set().union(*map(defined_in, all_messages(model)))
    replaced: set[str] = set()
    while True:  # what a changed node computes has other sizes the next time
        now = _sizes_with(model, dims, new if isinstance(new, int) else TRIED)
        changed: set[str] = set()
        for node in graph.node:
            if not changed.isdisjoint(names_used(node)):
                changed.update(node.output)
            elif node.output and node.output[0] in shaping - edits.keys():
                index = SHAPE_INPUTS[node.op_type or ""]
                constant = constants[node.input[index]].numpy().tolist()
                shape = _shape(node, constant, before, now, old, new)
                if shape is None or shape == constant:
                    continue
                replaced.add(node.input[index])
                tensor = from_numpy(np.array(shape, "int64"), fresh(node.input[index], taken))
                graph.initializer.append(tensor)
                node.input[index] = tensor.name or ""
                name = f"{node.op_type} {node.name or node.output[0]}"
                edits[node.output[0]] = Edit("dim", f"the shape in {name} is {shape}; it was {constant}")
                changed.update(node.output)
        if not changed:
            break
    used = {name for node in graph.node for name in names_used(node)} | {value.name or "" for value in graph.output}
    gone = replaced - used
    graph.initializer = [tensor for tensor in graph.initializer if tensor.name not in gone]
    graph.node = [node for node in graph.node if gone.isdisjoint(node.output)]
    graph.value_info = [value for value in graph.value_info if value.name not in gone]
    return edits


def _sizes_with(model: Model, dims: Sequence[Dimension], size: int) -> dict[str, Sizes]:
    """The sizes of the values of the main graph if some dims have this size; those of no node's are not among them."""
    kept = [(dim.dim_value, dim.dim_param) for dim in dims]
    for dim in dims:
        dim.dim_value, dim.dim_param = size, None
    try:
        with_types = inferred(without_stated(model))
    except UnsupportedError:  # it needs too much
        with_types = None
    finally:
        for dim, (value, name) in zip(dims, kept, strict=True):
            dim.dim_value, dim.dim_param = value, name
    if with_types is None:
        return {}
    graph = main_graph(with_types)
    values = (*graph.value_info, *graph.input, *graph.output)
    return {value.name or "": [d.dim_value for d in shape.dim] for value in values if (shape := shape_of(value))}


def _shape(
    node: Node, constant: list[int], before: dict[str, Sizes], now: dict[str, Sizes], old: int, new: int | str
) -> list[int] | None:
    """The constant with the new size where it is shown to mean the changed axis; `None` if it is not shown."""
    name, result = node.input[0], before.get(node.output[0])
    sizes, sizes_now = before.get(name), now.get(name)
    if result is None or sizes is None or sizes_now is None or len(sizes) != len(sizes_now):
        return None
    axes = [axis for axis, size in enumerate(sizes) if size != sizes_now[axis]]
    if len(axes) != 1 or (sizes[axes[0]], sizes_now[axes[0]]) != (old, new if isinstance(new, int) else TRIED):
        return None
    axis = axes[0]
    shape = [*constant]
    if node.op_type == "Reshape":
        place = _place(sizes, result, axis, old)
        if place is None or constant[place] != old:
            return None
        return _reshaped(node, shape, result, axis, place, new)
    place = axis if node.op_type == "Resize" else axis - len(sizes) + len(constant)
    if place not in range(len(constant)) or constant[place] != old or attribute_named(node, "axes") is not None:
        return None
    if node.op_type == "Expand":
        shape[place] = 1  # the size of the input
    elif isinstance(new, int):
        shape[place] = new
    return shape


def _place(sizes: Sizes, result: Sizes, axis: int, old: int) -> int | None:
    """The axis of a Reshape's result that is this one of its input."""
    if sizes == result:
        return axis
    if None in sizes[:axis]:
        return None
    places = []
    for place, size in enumerate(result):
        if size == old and prod(result[:place]) == prod(sizes[:axis]):  # type: ignore[arg-type]  # see the next line
            places.append(place)
        if size is None:
            break
    return places[0] if len(places) == 1 else None


def _reshaped(node: Node, shape: list[int], result: Sizes, axis: int, place: int, new: int | str) -> list[int] | None:
    """The constant of a Reshape with the new size, or what stands for any size: 0 for that of the input, or -1."""
    allow_zero = (attribute := attribute_named(node, "allowzero")) is not None and attribute.i
    if isinstance(new, int):
        shape[place] = new
    elif place == axis and not allow_zero:
        shape[place] = 0
    else:
        size = result[shape.index(-1)] if -1 in shape else 0
        if size is None or (allow_zero and 0 in shape):
            return None
        shape = [size if number == -1 else number for number in shape]
        shape[place] = -1
    return shape
