"""Types and shapes of values, inferred again after an edit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from formats.editing.edits import Done, Edit, counted
from formats.editing.scopes import main_graph, names_used
from formats.editing.shapes import all_messages, shape_of, shapes_of
from formats.errors import EditError, MissingPackageError
from formats.ir import dtypes
from formats.ir.model import Dimension, Graph, Model, entries
from formats.onnxpb.inference import inferred
from formats.tensordata.plan import INTERFACE, USE, Loss

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from formats.ir.model import TensorShape, ValueInfo

RECURRENT = ("GRU", "LSTM", "RNN")
GENERATED = "unk__"  # the start of names that onnx gives to dims


def infer_in(model: Model) -> None:
    """Add the types and shapes that onnx infers to the main graph and its subgraphs; what is stated stays.

    Raises: MissingPackageError if onnx is not installed; EditError if the model contradicts itself.
    """
    found = inferred(model, strict=True)
    if found is None:
        raise EditError("the model has more than 2 GiB without its weights, too much for onnx")
    own = [message for message in all_messages(model) if isinstance(message, Graph)]
    theirs = [message for message in all_messages(found) if isinstance(message, Graph)]
    for graph, other in zip(own, theirs, strict=True):
        known = _named([*other.value_info, *other.output])
        for value in (*graph.output, *graph.value_info):
            new = known.get(value.name or "")
            shape = shape_of(value)
            if new is not None and (value.type is None or (value.type.tensor_type is not None and shape is None)):
                value.type = new.type
            elif new is not None and shape is not None and (other_shape := shape_of(new)) is not None:
                _fill(shape, other_shape)
        stated = _named([*graph.value_info, *graph.output])
        graph.value_info += [value for value in other.value_info if value.name not in stated]
        for value in graph.value_info:
            for dim in (dim for shape in shapes_of(value.type) for dim in shape.dim):
                if value.name not in stated:
                    _without_generated(dim)


def infer_again(model: Model, before: Model, changed: Collection[str]) -> Done:
    """Shapes that follow from the inputs `changed` are dropped, and shapes are inferred where onnx is installed.

    `before` is the model without any edit: what contradicts itself there is no reason to refuse.

    Raises: EditError if the model does not fit its new shapes.
    """
    dropped, outputs = _dropped(model, changed) if changed else ({}, [])
    try:
        found = _checked(model, before)
    except MissingPackageError as error:
        return Done(losses=tuple(_losses_of(dropped, outputs, f"; {error.message}")))
    if found is None:
        return Done(losses=tuple(_losses_of(dropped, outputs, "")))
    _check_reshapes(found)
    _check_states(found)
    known = _take(model, found, dropped)
    edits = (Edit("dim", f"{counted(known, 'shape')} inferred again"),) if known else ()
    left = {name: value for name, value in dropped.items() if name not in _named(main_graph(model).value_info)}
    return Done(edits, tuple(_losses_of(left, [value for value in outputs if not _is_known(value)], "")))


def _checked(model: Model, before: Model) -> Model | None:
    """The model with inferred shapes; none if the old model contradicts itself, too, so that nothing can be said.

    Raises: EditError if the model contradicts itself.
    """
    try:
        return inferred(model, strict=True)
    except EditError as error:
        wrong = error
    try:
        inferred(before, strict=True)
    except EditError:
        return inferred(model)
    raise EditError(f"the model does not fit these dims: {wrong.message}")


def _dropped(model: Model, changed: Collection[str]) -> tuple[dict[str, ValueInfo], list[ValueInfo]]:
    """Drop what the model says of values that follow from some inputs: the shapes of inner values and of outputs."""
    names = after(main_graph(model), changed)
    gone = {value.name or "": value for value in main_graph(model).value_info if value.name in names}
    main_graph(model).value_info = [value for value in main_graph(model).value_info if value.name not in names]
    for message in all_messages(model):
        if isinstance(message, Graph) and message is not main_graph(model):
            for value in (*message.output, *entries(message, "value_info")):
                _forget(value)
    outputs = [value for value in main_graph(model).output if value.name in names and _forget(value)]
    return gone, outputs


def after(graph: Graph, names: Collection[str]) -> set[str]:
    """The names of the values of a graph that are computed from some others, with these."""
    found = set(names)
    for node in graph.node:
        if not found.isdisjoint(names_used(node)):
            found.update(filter(None, node.output))
    return found


def _forget(value: ValueInfo) -> bool:
    """Make the dims of a value unknown, but not their number; whether one was known."""
    dims = [dim for shape in shapes_of(value.type) for dim in shape.dim]
    known = any(dim.dim_value is not None or dim.dim_param for dim in dims)
    for shape in shapes_of(value.type):
        shape.dim = [Dimension(denotation=dim.denotation) for dim in shape.dim]
    return known


def _losses_of(dropped: Mapping[str, object], outputs: Collection[ValueInfo], why: str) -> Iterator[Loss]:
    """The reports of what is not known any more."""
    for value in outputs:
        detail = f"the dims of the output {value.name} are not known any more{why}"
        yield Loss("shape", "graph.output", detail, INTERFACE)
    if dropped:
        yield Loss("value_info", "graph.value_info", f"{counted(len(dropped), 'inner shape')} dropped{why}", USE)


def _is_known(value: ValueInfo) -> bool:
    shape = shape_of(value)
    return shape is not None and all(dim.dim_value is not None or dim.dim_param for dim in shape.dim)


def _named(values: Collection[ValueInfo]) -> dict[str, ValueInfo]:
    return {value.name or "": value for value in values}


def _take(model: Model, found: Model, dropped: Mapping[str, ValueInfo]) -> int:
    """Take inferred shapes for outputs, for inner values that the model describes, and for those that were dropped.

    Return the number of values of which more is known.
    """
    known = _named([*main_graph(found).value_info, *main_graph(found).output])
    more = 0
    for value in (*main_graph(model).output, *main_graph(model).value_info):
        shape, new = shape_of(value), shape_of(known[value.name or ""]) if value.name in known else None
        more += shape is not None and new is not None and _fill(shape, new)
    for name, value in dropped.items():
        new = shape_of(known[name]) if name in known else None
        if new is not None and (tensor := getattr(value.type, "tensor_type", None)) is not None:
            tensor.shape = new
            for dim in new.dim:
                _without_generated(dim)
            main_graph(model).value_info.append(value)
            more += 1
    return more


def _fill(shape: TensorShape, new: TensorShape) -> bool:
    """Take the dims of another shape that are not known here, or only by name; whether there were any."""
    if len(shape.dim) != len(new.dim):
        return False
    changed = False
    for mine, other in zip(shape.dim, new.dim, strict=True):
        _without_generated(other)
        if mine.dim_value is None and other.dim_value is not None:
            mine.dim_value = other.dim_value
        elif mine.dim_value is None and not mine.dim_param and other.dim_param:
            mine.dim_param = other.dim_param
        else:
            continue
        changed = True
    return changed


def _without_generated(dim: Dimension) -> None:
    if (dim.dim_param or "").startswith(GENERATED):
        dim.dim_param = None


def _check_reshapes(model: Model) -> None:
    """Raises EditError for a Reshape whose constant shape has another number of elements than its input now has."""
    values = _named([*main_graph(model).value_info, *main_graph(model).input, *main_graph(model).output])
    for node in main_graph(model).node:
        if node.op_type == "Reshape" and node.input and node.output:
            counts = [_count(values.get(name)) for name in (node.input[0], node.output[0])]
            if None not in counts and counts[0] != counts[1]:
                dims = [[dim.dim_value for dim in _dims(values[name])] for name in (node.input[0], node.output[0])]
                name = node.name or node.output[0]
                raise EditError(f"the model does not fit these dims: Reshape {name} turns {dims[0]} into {dims[1]}")


def _check_states(model: Model) -> None:
    """Raises EditError for an LSTM, GRU or RNN whose states or lengths have another batch size than its input."""
    graph = main_graph(model)
    shapes = {value.name or "": _sizes(value) for value in (*graph.value_info, *graph.input, *graph.output)}
    shapes |= {tensor.name or "": [*tensor.dims] for tensor in graph.initializer}
    for node in graph.node:
        if node.op_type not in RECURRENT or not node.input:
            continue
        is_first = any(each.name == "layout" and each.i for each in entries(node, "attribute"))
        axes = {0: 0 if is_first else 1, 4: 0, 5: 0 if is_first else 1, 6: 0 if is_first else 1}  # of the batch
        found = [
            (shapes[name][axes[index]], name)
            for index, name in enumerate(node.input)
            if index in axes and axes[index] < len(shapes.get(name, ())) and shapes[name][axes[index]] is not None
        ]
        other = next((each for each in found if each[0] != found[0][0]), None)
        if other is not None:
            name = node.name or next(filter(None, node.output), "")
            both = f"{found[0][0]} in {found[0][1]} and of {other[0]} in {other[1]}"
            raise EditError(f"the model does not fit these dims: {node.op_type} {name} has a batch of {both}")


def _sizes(value: ValueInfo) -> list[int | None]:
    """The sizes of the dims of a value, as far as they are known."""
    return [dim.dim_value for dim in _dims(value)]


def _dims(value: ValueInfo) -> Any:
    shape = shape_of(value)
    return [] if shape is None else shape.dim


def _count(value: ValueInfo | None) -> int | None:
    """The number of elements of a value, if all dims are known."""
    shape = None if value is None else shape_of(value)
    if shape is None or any(dim.dim_value is None for dim in shape.dim):
        return None
    return dtypes.count([dim.dim_value or 0 for dim in shape.dim])
