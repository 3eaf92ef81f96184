"""Constants that hold the old size of an axis, in Reshape, Expand and Resize: those that mean it get the new size.

A constant of a Reshape means an axis of its input if as many elements are before both, and both have the old size: a
Reshape keeps the order of elements. There must be one such place. If the axis was joined with others, those that are
ahead of it in their common axis count, too. A Concat needs the new size in all of its inputs, so a constant that has
one item is repeated. Models are tried with sizes, by inferring shapes.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from formats.editing.folding import FOLDED, constants_of, few_integers
from formats.editing.inference import after, without_stated
from formats.editing.nodes import constant_node
from formats.editing.options import Edit
from formats.editing.scopes import all_messages, defined_in, fresh, main_graph, names_used, shape_of
from formats.errors import UnsupportedError
from formats.ir import FIRST_WITH_CONSTANTS, STANDARD_DOMAINS
from formats.ir.attributes import attribute_named, get_int, label_of
from formats.ir.model import Attribute, AttributeType, Node, ValueInfo, type_of_tensor
from formats.ir.storage import from_numpy
from formats.onnxpb.inference import inferred

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from formats.ir.model import Dimension, Graph, Model, Tensor

    Sizes = list[int | None]

SHAPE_INPUTS = {"Reshape": 1, "Expand": 1, "Resize": 3}  # the input that is a shape
# Operators that keep the order of elements in each axis.
KEEPING = (
    "Add Cast Clip DequantizeLinear Div Erf Exp Gelu Gemm Identity LayerNormalization MatMul Mul Neg Pow "
    "QuantizeLinear Reciprocal Relu Sigmoid Softmax Sqrt Sub Tanh Transpose Where"
)
TRIED = 7919  # a size that stands for a name: no other dim has it by chance


class _Place(NamedTuple):
    """Where a value has what gets a new size."""

    axis: int
    parts: int  # of this axis that are ahead of it: an axis of 4 x 2 has 4 parts ahead of the 2


class _Resizing(NamedTuple):
    """A model whose dims get a new size, tried with both."""

    old: int
    new: int | str
    follows: set[str]  # names of values that depend on an input
    before: Mapping[str, Sizes]  # of values, with the old size
    places: Mapping[str, _Place]  # by the name of the value


def set_constants_in(model: Model, dims: Sequence[Dimension], old: int, new: int | str) -> dict[str, Edit]:
    """Give constants that mean these dims of inputs their new size; what was done, by the first output of the node.

    Raises: MissingPackageError if onnx is not installed.
    """
    graph = main_graph(model)
    constants = constants_of(model)
    inputs = {value.name or "" for value in graph.input}
    are_inputs = (model.ir_version or 0) < FIRST_WITH_CONSTANTS
    if are_inputs:
        inputs -= constants.keys()
    follows = after(graph, inputs)
    waiting = {node.output[0] for node in graph.node if node.output and _may_hold(node, constants, follows, old)}
    if not waiting:
        return {}
    before = _sizes_with(model, constants, dims, old)
    tried = new if isinstance(new, int) else TRIED
    writer = _Writer(graph, set().union(*map(defined_in, all_messages(model))), are_inputs, set())
    edits: dict[str, Edit] = {}
    while True:  # what a changed node computes has other sizes the next time
        places = _places(graph, before, _sizes_with(model, constants, dims, tried), old, tried)
        edited = _set_in_nodes(waiting - edits.keys(), constants, _Resizing(old, new, follows, before, places), writer)
        if not edited:
            break
        edits |= edited
    _drop(graph, writer.replaced)
    return edits


def _set_in_nodes(
    waiting: Collection[str], constants: Mapping[str, Tensor], resizing: _Resizing, writer: _Writer
) -> dict[str, Edit]:
    """Give the new size to constants of the nodes that wait and do not follow one that is changed."""
    edits: dict[str, Edit] = {}
    changed: set[str] = set()
    for node in [*writer.graph.node]:
        if not changed.isdisjoint(names_used(node)):
            changed.update(node.output)
        elif node.output and node.output[0] in waiting and (text := _set_in_node(node, constants, resizing, writer)):
            edits[node.output[0]] = Edit("dim", text)
            changed.update(node.output)
    return edits


def _set_in_node(node: Node, constants: Mapping[str, Tensor], resizing: _Resizing, writer: _Writer) -> str:
    """Give the new size to the constants of a node; what was done, or the empty text."""
    name = f"{node.op_type} {label_of(node)}"
    if node.op_type == "Concat":
        axes = _short(node, resizing)
        _repeat(node, axes, resizing, writer)
        return f"a constant in {name} is repeated for each of {resizing.new}; it was there once" if axes else ""
    index = SHAPE_INPUTS[node.op_type or ""]
    shape = constants[node.input[index]].numpy().ravel().tolist()
    new_shape = _new_shape(node, shape, resizing)
    if new_shape is None or new_shape == shape:
        return ""
    writer.replaced.add(node.input[index])
    node.input[index] = writer.constant(new_shape, node.input[index])
    return f"the shape in {name} is {new_shape}; it was {shape}"


class _Writer(NamedTuple):
    """Adds constants to a graph."""

    graph: Graph
    taken: set[str]  # names
    are_inputs: bool  # each initializer is an input, too
    replaced: set[str]  # names of constants in whose place a node has a new one

    def constant(self, numbers: list[int], near: str) -> str:
        """The name of a new constant, which is near another one."""
        tensor = from_numpy(np.array(numbers, "int64"), self.name(near))
        self.graph.initializer.append(tensor)
        if self.are_inputs:
            self.graph.input.append(ValueInfo(tensor.name, type_of_tensor(tensor)))
        return tensor.name or ""

    def name(self, near: str) -> str:
        """A name that is not taken."""
        return fresh(near, self.taken)


def _may_hold(node: Node, constants: Mapping[str, Tensor], follows: set[str], old: int) -> bool:
    """Whether a node may have the old size in a constant: in its shape, or as one of several parts."""
    if node.domain not in STANDARD_DOMAINS:
        return False
    if node.op_type == "Concat":
        return old == 1 and not follows.isdisjoint(node.input) and not follows.issuperset(node.input)
    index = SHAPE_INPUTS.get(node.op_type or "", len(node.input))
    if index >= len(node.input) or node.input[index] in follows or not node.input[index]:
        return False
    array = few_integers(constants.get(node.input[index]))
    return array is not None and (node.op_type == "Reshape" or old in array.ravel().tolist())


def _drop(graph: Graph, replaced: Collection[str]) -> None:
    """Drop what was replaced, if nothing uses it any more, and what only it used."""
    gone = set(replaced)
    while gone:
        used = {name for node in graph.node for name in names_used(node)} | {value.name or "" for value in graph.output}
        gone -= used
        inner = {
            name for node in graph.node if node.output and gone.issuperset(node.output) for name in names_used(node)
        }
        initializers = {tensor.name for tensor in graph.initializer if tensor.name in gone}
        graph.input = [value for value in graph.input if value.name not in initializers]
        graph.initializer = [tensor for tensor in graph.initializer if tensor.name not in gone]
        graph.node = [node for node in graph.node if not node.output or not gone.issuperset(node.output)]
        graph.value_info = [value for value in graph.value_info if value.name not in gone]
        gone = inner


def _sizes_with(
    model: Model, constants: Mapping[str, Tensor], dims: Sequence[Dimension], size: int
) -> dict[str, Sizes]:
    """The sizes of the values of the main graph if some dims have this size; those of no node's are not among them."""
    kept = [(dim.dim_value, dim.dim_param) for dim in dims]
    for dim in dims:
        dim.dim_value, dim.dim_param = size, None
    try:
        with_types = inferred(_with_constants(model, constants))
    except UnsupportedError:  # it needs too much
        with_types = None
    finally:
        for dim, (value, name) in zip(dims, kept, strict=True):
            dim.dim_value, dim.dim_param = value, name
    if with_types is None:
        return {}
    graph = main_graph(with_types)
    values = (*graph.value_info, *graph.input, *graph.output)
    sizes: dict[str, Sizes] = {tensor.name or "": [*tensor.dims] for tensor in graph.initializer}
    return sizes | {
        value.name or "": [d.dim_value for d in shape.dim] for value in values if (shape := shape_of(value))
    }


def _with_constants(model: Model, constants: Mapping[str, Tensor]) -> Model:
    """The model without what it states of inner shapes, and with constants in place of the nodes that compute them."""
    new = without_stated(model)
    graph = main_graph(new)
    graph.node = [
        constant_node(constants[node.output[0]])
        if node.op_type in FOLDED and node.output and node.output[0] in constants
        else node
        for node in graph.node
    ]
    return new


def _places(
    graph: Graph, before: Mapping[str, Sizes], now: Mapping[str, Sizes], old: int, new: int
) -> dict[str, _Place]:
    """Where values have what got a new size, by name.

    The order of parts is known where an axis has nothing else, after a Reshape, which keeps the order of elements, and
    after operators that keep it in each axis.
    """
    keeping = KEEPING.split()
    places: dict[str, _Place] = {}
    outputs = ((name, node) for node in graph.node for name in node.output)
    for name, node in (*((value.name or "", None) for value in graph.input), *outputs):
        sizes, sizes_now = before.get(name), now.get(name)
        if sizes is None or sizes_now is None or len(sizes) != len(sizes_now):
            continue
        axes = [axis for axis, size in enumerate(sizes) if size != sizes_now[axis]]
        if len(axes) != 1:
            continue
        [axis] = axes
        size, size_now = sizes[axis], sizes_now[axis]
        if (size, size_now) == (old, new):
            places[name] = _Place(axis, 1)
        if (size, size_now) == (old, new) or not size or not size_now or size * new != size_now * old:
            continue
        if node is None or node.domain not in STANDARD_DOMAINS or not node.input:
            continue
        if node.op_type == "Reshape" and node.input[0] in places:
            ahead, first = _ahead(before[node.input[0]], places[node.input[0]]), _ahead(sizes, _Place(axis, 1))
            if ahead and first and ahead % first == 0:
                places[name] = _Place(axis, ahead // first)
        elif node.op_type in keeping:
            parts = {places[input_name].parts for input_name in node.input if input_name in places}
            if len(parts) == 1:
                places[name] = _Place(axis, parts.pop())
    return places


def _ahead(sizes: Sizes, place: _Place) -> int | None:
    """How many elements or blocks of elements are ahead of a place; `None` if it is not known."""
    ahead = sizes[: place.axis]
    return None if None in ahead else prod(ahead) * place.parts  # type: ignore[arg-type]


def _new_shape(node: Node, shape: list[int], resizing: _Resizing) -> list[int] | None:
    """The shape with the new size where it is shown to mean the changed axis; `None` if it is not shown."""
    name, old = node.input[0], resizing.old
    if resizing.before.get(node.output[0]) is None or name not in resizing.places:
        return None
    if node.op_type == "Reshape":
        return _reshaped(node, shape, resizing)
    sizes, axis = resizing.before[name], resizing.places[name].axis
    place = axis if node.op_type == "Resize" else axis - len(sizes) + len(shape)
    if sizes[axis] != old or place not in range(len(shape)) or shape[place] != old:
        return None
    if attribute_named(node, "axes") is not None:
        return None
    new_shape = [*shape]
    if node.op_type == "Expand":
        new_shape[place] = 1  # the size of the input
    elif isinstance(resizing.new, int):
        new_shape[place] = resizing.new
    return new_shape


def _reshaped(node: Node, shape: list[int], resizing: _Resizing) -> list[int] | None:
    """The shape of a Reshape with the new size, or what stands for any size: 0 for that of the input, or -1."""
    old, new = resizing.old, resizing.new
    sizes, result = resizing.before[node.input[0]], resizing.before[node.output[0]]
    changed = resizing.places[node.input[0]]
    axis = _axis_of_result(sizes, result, changed, old)
    if axis is None:
        axis = _joined_axis(shape, _ahead(sizes, changed), old)
    if axis is None or shape[axis] < old:
        return None
    allow_zero = get_int(node, "allowzero")
    new_shape = [*shape]
    if isinstance(new, int):
        new_shape[axis] = shape[axis] // old * new
    elif axis == changed.axis and sizes[axis] == shape[axis] == old and not allow_zero:
        new_shape[axis] = 0
    else:
        size = result[shape.index(-1)] if -1 in shape else 0
        if size is None or (allow_zero and 0 in shape):
            return None
        new_shape = [size if number == -1 else number for number in shape]
        new_shape[axis] = -1
    return new_shape


def _axis_of_result(sizes: Sizes, result: Sizes, changed: _Place, old: int) -> int | None:
    """The axis of a Reshape's result that is this place of its input, if just one can be."""
    if sizes == result:
        return changed.axis
    ahead = _ahead(sizes, changed)
    known = result[: result.index(None)] if None in result else result
    axes = [axis for axis, size in enumerate(known) if size == old and _ahead(result, _Place(axis, 1)) == ahead]
    return axes[0] if ahead is not None and len(axes) == 1 else None


def _joined_axis(shape: list[int], ahead: int | None, old: int) -> int | None:
    """The axis of a Reshape's result that has this axis of its input together with others, if all else stands apart."""
    if not ahead or not old or len(shape) < 2 or min(shape) < 1 or old in shape:
        return None
    ends = [prod(shape[: axis + 1]) for axis in range(len(shape))]
    axes = [axis for axis, end in enumerate(ends) if ahead % (end // shape[axis]) == 0 and end % (ahead * old) == 0]
    return axes[0] if len(axes) == 1 else None


def _short(node: Node, resizing: _Resizing) -> dict[int, tuple[int, str]]:
    """The inputs of a Concat that are constants and need the new size, which is not that along which it joins.

    Each with the axis, and the name of an input that has the new size.
    """
    before, places = resizing.before, resizing.places
    along = get_int(node, "axis", None)
    sizing = (name for name in node.input if name in places and before[name][places[name].axis] == resizing.old)
    other = next(sizing, "")
    if not other or along is None:
        return {}
    axis, rank = places[other].axis, len(before[other])
    if axis == along % rank:
        return {}
    constants = ((index, before.get(name)) for index, name in enumerate(node.input) if name not in resizing.follows)
    return {index: (axis, other) for index, sizes in constants if sizes and len(sizes) == rank and sizes[axis] == 1}


def _repeat(node: Node, axes: Mapping[int, tuple[int, str]], resizing: _Resizing, writer: _Writer) -> None:
    """Repeat inputs of a node, each along an axis, as often as another input has it."""
    for index, (axis, other) in axes.items():
        name, rank = node.input[index], len(resizing.before[other])
        made: list[Node] = []
        if isinstance(resizing.new, int):
            repeats = [resizing.new if each_axis == axis else 1 for each_axis in range(rank)]
            shape = writer.constant(repeats, f"{name}_shape")
        else:
            sizes, size, shape = (writer.name(f"{name}_{word}") for word in ("sizes", "size", "shape"))
            first = [Attribute("axis", i=0, type=AttributeType.INT)]
            ones = [writer.constant([1] * count, f"{name}_ones") if count else "" for count in (axis, rank - axis - 1)]
            made += [
                Node([other], [sizes], None, "Shape"),
                Node([sizes, writer.constant([axis], f"{name}_axis")], [size], None, "Gather", attribute=first),
                Node([*filter(None, (ones[0], size, ones[1]))], [shape], None, "Concat", attribute=first),
            ]
        node.input[index] = writer.name(name)
        made.append(Node([name, shape], [node.input[index]], None, "Expand"))
        position = next(position for position, other_node in enumerate(writer.graph.node) if other_node is node)
        writer.graph.node[position:position] = made
