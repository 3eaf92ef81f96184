"""Weights that become inputs, which callers give, and inputs that become weights, which callers do not.

Spec: onnx.proto, GraphProto, `input` and `initializer`; ONNX IR, "Graphs".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from formats.editing.options import Edit, EditResult
from formats.editing.scopes import main_graph, names_chosen, names_of, shape_of, training_bindings
from formats.errors import EditError
from formats.ir import FIRST_WITH_CONSTANTS, dtypes
from formats.ir.copies import shallow
from formats.ir.model import Tensor, ValueInfo, entries, type_of_tensor
from formats.ir.storage import from_numpy
from formats.words import listed, names_like, nearest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from formats.ir.model import Model


SHOWN_DIMS = 8  # a file may state any number of them


def initializers_to_inputs_in(model: Model, texts: Sequence[str]) -> EditResult:
    """Make initializers of the main graph, by name or pattern, inputs without a default, behind those that it has.

    Raises: EditError if none has a name, or matches a pattern, or if one is trained.
    """
    graph = main_graph(model)
    weights = {tensor.name: tensor for tensor in graph.initializer if tensor.name}
    chosen = names_chosen("initializer_to_input", texts, weights, "weight")
    if trained := chosen & {entry.key or "" for entry in training_bindings(model)}:
        raise EditError(f"{min(trained)} is trained, so it must stay a weight; `strip_training` removes training")
    inputs = {value.name for value in graph.input}
    new = [name for name in weights if name in chosen]
    graph.input += [ValueInfo(name, type_of_tensor(weights[name])) for name in new if name not in inputs]
    graph.initializer = [tensor for tensor in graph.initializer if tensor.name not in chosen]
    graph.value_info = [value for value in entries(graph, "value_info") if value.name not in chosen]
    return EditResult(tuple(Edit("initializer_to_input", f"{name} is an input") for name in new))


def inputs_to_initializers_in(model: Model, values: Mapping[str, Any]) -> EditResult:
    """Make inputs initializers: with a tensor or an array, or, if the value is `None`, with the default that they have.

    The names of the latter may be patterns. Before IR version 4, an initializer must be an input; so the model gets
    that version.

    Raises: EditError if no input has a name, or matches a pattern; if one has no default; if a value does not fit.
    """
    graph = main_graph(model)
    inputs = {value.name or "": value for value in graph.input}
    initializers = {tensor.name or "": tensor for tensor in graph.initializer}
    new = {name: value for name, value in values.items() if value is not None}
    for name, value in new.items():
        if name not in inputs:
            raise EditError(f"the model has no input {name!r}{nearest(name, inputs, kind='input')}")
        tensor = shallow(value) if isinstance(value, Tensor) else from_numpy(_array(value))
        tensor.name = name
        _check(inputs[name], tensor)
        initializers[name] = tensor
    graph.initializer = [*initializers.values()]
    chosen = {*new}
    texts = [name for name, value in values.items() if value is None]
    for text in names_of("input_to_initializer", texts, inputs):
        found = names_like(text, inputs) if text in inputs else names_like(text, inputs.keys() & initializers.keys())
        if not found:
            raise EditError(f"no input with a default is called {text!r}{nearest(text, inputs, kind='input')}")
        if without := found - initializers.keys():
            what = f"{min(without)} has no default"
            raise EditError(f"{what}; give its value, as `input_to_initializer={min(without)}=FILE.npy`")
        chosen |= found
    graph.input = [value for value in graph.input if value.name not in chosen]
    edits = [Edit("input_to_initializer", f"{name} is a weight") for name in inputs if name in chosen]
    if (given := model.ir_version or 0) < FIRST_WITH_CONSTANTS:
        model.ir_version = FIRST_WITH_CONSTANTS
        why = "before it, every weight is an input"
        edits.append(Edit("ir_version", f"IR version {given} -> {FIRST_WITH_CONSTANTS}: {why}"))
    return EditResult(tuple(edits))


def _array(value: Any) -> Any:
    import numpy

    return numpy.asarray(value)


def _check(value: ValueInfo, tensor: Tensor) -> None:
    """Raises EditError if a tensor has not the type or the dims that the model states for an input."""
    stated = value.type.tensor_type if value.type is not None else None
    if stated is None:
        raise EditError(f"the input {value.name} is no tensor, so it cannot be a weight")
    if stated.elem_type and stated.elem_type != tensor.data_type:
        types = [dtypes.type_name(number) for number in (tensor.data_type, stated.elem_type)]
        raise EditError(f"{value.name} has type {types[0]}, but {types[1]} in the model")
    shape = shape_of(value)
    if shape is None:
        return
    sizes = [dim.dim_value for dim in shape.dim]
    fits = len(sizes) == len(tensor.dims) and all(
        size in (None, given) for size, given in zip(sizes, tensor.dims, strict=True)
    )
    if not fits:
        words = [dim.dim_value if dim.dim_value is not None else dim.dim_param or "?" for dim in shape.dim]
        dims = dtypes.dims_shown(tensor.dims)
        raise EditError(f"{value.name} has dims {dims}, but [{listed([*map(str, words)], SHOWN_DIMS)}] in the model")
