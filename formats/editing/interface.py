"""Inputs and outputs that get another layout or type: nodes at the edge of the graph make the old one.

Spec: ONNX operators, Transpose, Cast, Mul, Div and Sub.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from formats.editing.nodes import constant_node, make_node
from formats.editing.options import LAYOUTS, Edit, EditResult
from formats.editing.renaming import apply
from formats.editing.scopes import fresh, main_graph, names_of, scopes_of, shape_of
from formats.editing.surgery import rename_uses
from formats.editing.versions.operator_sets import version_of
from formats.errors import EditError
from formats.ir import ONNX, dtypes
from formats.ir.copies import copied
from formats.ir.model import entries
from formats.ir.storage import from_numpy
from formats.ir.summary import type_with_dims
from formats.words import joined, nearest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from formats.editing.options import EditOptions
    from formats.ir.model import Model, Node, ValueInfo

BROADCASTING: Final = 7  # the first version in which Mul and Sub take a number for each channel without an attribute
FLOATS: Final = (dtypes.FLOAT, dtypes.DOUBLE, dtypes.FLOAT16, dtypes.BFLOAT16)


class _Edges:
    """The inputs and outputs of the main graph that change, and the nodes between them and their old forms."""

    def __init__(self, model: Model, oldest_set: int = 1) -> None:
        version = version_of(model.opset_import)
        if version is None:
            raise EditError(f"the model has no operators of {ONNX}; convert it to .onnx before")
        if version < oldest_set:
            raise EditError(
                f"the model has version {version} of {ONNX}, but this needs {oldest_set}; set `opset` before"
            )
        self._graph = main_graph(model)
        self._main = scopes_of(model)[0]
        self._taken = {name for scope in self._main.all_inner() for name in scope.defined | scope.used}
        self.inputs = {value.name or "": value for value in self._graph.input}
        self.outputs = {value.name or "": value for value in self._graph.output}
        self._defaults = {tensor.name for tensor in self._graph.initializer}
        self._made = {name for node in self._graph.node for name in node.output}
        self._new_inputs: dict[str, str] = {}  # the inner names by those of the ends
        self._new_outputs: dict[str, str] = {}
        self._described: list[ValueInfo] = []
        self.first: list[Node] = []  # ahead of all others
        self.last: list[Node] = []  # behind them

    def fresh(self, name: str) -> str:
        """A name that no value has."""
        return fresh(name, self._taken)

    def behind_input(self, value: ValueInfo) -> str:
        """The name of the value that takes the place of an input; its type is that of the input before.

        Raises: EditError for an input with a default, and for one that is an output, too.
        """
        name = value.name or ""
        if name in self._defaults:
            raise EditError(f"{name} has a default value, an initializer, which would need the new form, too")
        if name in self.outputs:
            raise EditError(f"{name} is both an input and an output of the graph")
        return self._inner(value, self._new_inputs)

    def before_output(self, value: ValueInfo) -> str:
        """The name of the value that a node makes in place of an output. Raises: EditError if no node makes it."""
        if value.name not in self._made:
            raise EditError(f"{value.name} is an initializer, and no node makes it")
        return self._inner(value, self._new_outputs)

    def _inner(self, value: ValueInfo, names: dict[str, str]) -> str:
        name = value.name or ""
        names[name] = self.fresh(name)
        described = copied(value)
        described.name = names[name]
        self._described.append(described)
        return names[name]

    def finish(self) -> None:
        """Let the old nodes use and make the inner values, and add the new ones."""
        if self._new_inputs:
            rename_uses(self._graph, self._main, self._new_inputs)
        if self._new_outputs:
            outputs, self._graph.output = self._graph.output, []
            apply(self._main, {id(self._graph): self._new_outputs}, {})
            self._graph.output = outputs
        self._graph.node = [*self.first, *self._graph.node, *self.last]
        inner = {value.name for value in self._described}
        others = [value for value in entries(self._graph, "value_info") if value.name not in inner]
        self._graph.value_info = [*others, *self._described]


def set_layouts_in(model: Model, layouts: Mapping[str, str]) -> EditResult:
    """Give inputs and outputs another order of axes, by a Transpose.

    Raises: EditError for a name that no input or output has, or another number of dims.
    """
    edges = _Edges(model)
    edits = []
    for name, new in layouts.items():
        value = edges.inputs.get(name) or edges.outputs.get(name)
        if value is None:
            raise EditError(f"no input or output is called {name!r}{nearest(name, [*edges.inputs, *edges.outputs])}")
        old = _other(new)
        shape = shape_of(value)
        if shape is None:
            raise EditError(f"the rank of {name} is not known")
        if len(shape.dim) != len(new):
            fitting = [word for word in LAYOUTS if len(word) == len(shape.dim)]
            known = f"; for these there are {joined(fitting)}" if fitting else ""
            raise EditError(f"{name} has {len(shape.dim)} dims, and {new} is for {len(new)}{known}")
        before = type_with_dims(value.type)
        if name in edges.inputs:
            inner = edges.behind_input(value)
            edges.first.append(make_node("Transpose", [name], [inner], perm=[*map(new.index, old)]))
        else:
            inner = edges.before_output(value)
            edges.last.append(make_node("Transpose", [inner], [name], perm=[*map(old.index, new)]))
        shape.dim = [shape.dim[old.index(letter)] for letter in new]
        edits.append(Edit("layout", f"{name} is {new}, {type_with_dims(value.type)}; it was {old}, {before}"))
    edges.finish()
    return EditResult(tuple(edits))


def _other(layout: str) -> str:
    """The layout with the channels at the other place: last, or behind N."""
    rest = layout.replace("C", "")
    if not layout.endswith("C"):
        return f"{rest}C"
    return f"NC{rest[1:]}" if rest.startswith("N") else f"C{rest}"


def set_uint8_inputs_in(model: Model, options: EditOptions) -> EditResult:
    """Make inputs uint8: a Cast, and what `scale`, `mean` and `std` say, in float32, or in double for double.

    Raises: EditError for a name that no input has, an input of other numbers, or an unknown axis of channels.
    """
    edges = _Edges(model, BROADCASTING)
    edits = []
    for name in dict.fromkeys(names_of("uint8_input", options.uint8_input or (), edges.inputs)):
        value = edges.inputs.get(name)
        if value is None:
            raise EditError(f"no input is called {name!r}{nearest(name, edges.inputs, kind='input')}")
        tensor = value.type.tensor_type if value.type is not None else None
        if tensor is None or tensor.elem_type not in FLOATS:
            raise EditError(f"{name} is {type_with_dims(value.type) or 'of no known type'}, and no tensor of floats")
        before = type_with_dims(value.type)
        steps = [*_steps(value, options)]
        # Short floats are too short to compute in, and onnxruntime does it in float32.
        computing = dtypes.DOUBLE if tensor.elem_type == dtypes.DOUBLE else dtypes.FLOAT
        nodes = [make_node("Cast", [name], [edges.fresh(name)], to=computing if steps else tensor.elem_type)]
        for operator, word, numbers in steps:
            array = numbers.astype("float64" if computing == dtypes.DOUBLE else "float32")
            constant = constant_node(from_numpy(array, edges.fresh(f"{name}_{word}")))
            nodes += [constant, make_node(operator, [nodes[-1].output[0], constant.output[0]], [edges.fresh(name)])]
        if steps and tensor.elem_type != computing:
            nodes.append(make_node("Cast", nodes[-1].output, [""], to=tensor.elem_type))
        nodes[-1].output = [edges.behind_input(value)]
        edges.first += nodes
        tensor.elem_type = dtypes.UINT8
        words = "".join(f", {operator} {','.join(f'{n:g}' for n in numbers.flat)}" for operator, _, numbers in steps)
        edits.append(Edit("uint8_input", f"{name} is {type_with_dims(value.type)}; it was {before}: Cast{words}"))
    edges.finish()
    return EditResult(tuple(edits))


def _steps(value: ValueInfo, options: EditOptions) -> Iterator[tuple[str, str, np.ndarray[Any, Any]]]:
    """The operators behind the Cast, each with a word for its numbers, and with these."""
    factor, divisor = options.scale or (1, 1)
    if factor != 1:
        yield "Mul", "scale", np.array(factor)
    if divisor != 1:
        yield "Div", "divisor", np.array(divisor)
    for operator, word, numbers in (("Sub", "mean", options.mean), ("Div", "std", options.std)):
        if numbers is not None:
            yield operator, word, _by_channel(value, numbers)


def _by_channel(value: ValueInfo, numbers: Sequence[float]) -> np.ndarray[Any, Any]:
    """A number, or numbers along the axis of channels: the only one that has as many, of those that can be it."""
    if len(numbers) == 1:
        return np.array(numbers[0])
    shape = shape_of(value)
    rank = 0 if shape is None else len(shape.dim)
    possible = (1, rank - 1) if rank > len("CHW") else range(rank)
    axes = [axis for axis in possible if shape is not None and shape.dim[axis].dim_value == len(numbers)]
    if len(axes) != 1:
        what = f"{len(axes)} axes" if axes else "no axis"
        raise EditError(
            f"{value.name} is {type_with_dims(value.type)}: {what} can have {len(numbers)} channels; set `dim`"
        )
    return np.array(numbers).reshape([-1 if axis == axes[0] else 1 for axis in range(rank)])
