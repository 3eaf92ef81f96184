"""Inputs and outputs that get another layout or type: nodes at the edge of the graph make the old one.

Spec: ONNX operators, Transpose, Cast, Mul, Div and Sub.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from formats.editing.operator_sets import version_of
from formats.editing.options import LAYOUTS, Edit, EditResult
from formats.editing.renaming import apply
from formats.editing.scopes import fresh, main_graph, scopes_of, shape_of
from formats.editing.surgery import make_node, rename_uses
from formats.errors import EditError
from formats.ir import ONNX, dtypes
from formats.ir.copies import copied
from formats.ir.model import entries
from formats.ir.summary import type_with_dims
from formats.words import joined, nearest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from formats.ir.model import Model, Node, TensorShape, ValueInfo

BROADCASTING: Final = 7  # the first version in which Mul and Sub take a number for each channel without an attribute
FLOATS: Final = {dtypes.FLOAT: "float32", dtypes.FLOAT16: "float16", dtypes.DOUBLE: "float64"}


class _Edges:
    """The inputs and outputs of the main graph that change, and the nodes between them and their old forms."""

    def __init__(self, model: Model, oldest_set: int = 1) -> None:
        version = version_of(model.opset_import)
        if version is None or version < oldest_set:
            has = f"version {version}" if version else "no version"
            raise EditError(f"the model has {has} of {ONNX}, but this needs version {oldest_set} or newer; set `opset`")
        self._model, self._graph = model, main_graph(model)
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

    def shape(self, value: ValueInfo) -> TensorShape:
        """The shape of an end. Raises: EditError if its rank is not known."""
        shape = shape_of(value)
        if shape is None:
            raise EditError(f"the rank of {value.name} is not known")
        return shape

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

    Raises: EditError for a name that is none of an input or output, or another number of dims.
    """
    edges = _Edges(model)
    edits = []
    for name, new in layouts.items():
        value = edges.inputs.get(name) or edges.outputs.get(name)
        if value is None:
            raise EditError(f"no input or output is called {name!r}{nearest(name, [*edges.inputs, *edges.outputs])}")
        old = _other(new)
        shape = edges.shape(value)
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
