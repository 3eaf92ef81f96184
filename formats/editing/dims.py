"""New sizes and names for dims: for a name wherever it stands, or for one axis of an input.

Spec: onnx.proto, `TensorShapeProto.Dimension`: dims with the same name have the same size.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from formats.editing.folding import constants_of, few_integers
from formats.editing.inference import after, infer_again, names_in_dim, replaced
from formats.editing.options import Edit, EditResult
from formats.editing.scopes import all_dims, main_graph, shape_of
from formats.editing.shape_constants import SHAPE_INPUTS, set_constants_in
from formats.errors import EditError, MissingPackageError
from formats.ir.attributes import label_of
from formats.tensordata.plan import INTERFACE, RESULTS, Loss
from formats.words import counted, listed, nearest

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from formats.ir.model import Dimension, Model, TensorShape, ValueInfo

SHOWN_INPUTS = 10  # that an error names
# Operators whose inputs must fit each other. Where one is a constant with the old size, onnx finds no contradiction if
# another is 1 or not known.
FITTING = (
    "Add And BitShift Concat Div Equal Expand GRU GatherElements GatherND Greater GreaterOrEqual LSTM Less LessOrEqual "
    "Max Mean Min Mod Mul Or PRelu Pow RNN Scatter ScatterElements ScatterND Sub Sum Where Xor"
)


class _Axis(NamedTuple):
    """An axis of an input."""

    input: str
    shape: TensorShape
    number: int

    @property
    def dim(self) -> Dimension:
        """Its dim."""
        return self.shape.dim[self.number]


def set_dims_in(model: Model, sizes: Mapping[str, int | str], before: Model) -> EditResult:
    """Set dims by name, or axes of inputs; shapes that an axis contradicts are inferred again, or dropped.

    `before` is the model without any edit.

    Raises: EditError for an unknown name or axis, a name that is taken, or dims for which the model is not right.
    """
    for dim in all_dims(model):  # some exporters write -1 for a dim that is not known
        if dim.dim_value is not None and dim.dim_value < 0:
            dim.dim_value = None
    # Of {"images:0": 4, "batch": "n"}, the first is an axis of an input, and the second a symbol: the name of dims.
    axes: dict[str, _Axis] = {}
    symbols: dict[str, int | str] = {}
    symbol_names = symbols_of(model)
    inputs = {value.name or "": value for value in main_graph(model).input}
    for name, size in sizes.items():
        axis = None if name in symbol_names else _axis(model, name, inputs, symbol_names)
        if axis is None:
            symbols[name] = size
        else:
            axes[name] = axis
    _check_names(symbols, symbol_names)
    results = [set_symbols(model, symbols, symbol_names)] if symbols else []
    changed: dict[str, list[int | str | None]] = {}  # the old dims of axes, by their inputs
    old_sizes: dict[str, int] = {}  # of axes that had a size, by their inputs
    resized: list[tuple[Dimension, int | None, int | str]] = []  # dims, with their old and new sizes
    for name, axis in axes.items():
        size = sizes[name]
        old = axis.dim.dim_param or axis.dim.dim_value
        if old != size:
            changed.setdefault(axis.input, []).append(old)
            resized.append((axis.dim, axis.dim.dim_value, size))
            if axis.dim.dim_value is not None:
                old_sizes[axis.input] = axis.dim.dim_value
        _set(axis.dim, size)
        results.append(
            EditResult((Edit("dim", f"axis {axis.number} of {axis.input} is {size}; it was {_shown(old)}"),))
        )
    if sizes:
        moved = _set_constants(model, resized)
        results.append(EditResult(tuple(moved.values())))
        results.append(infer_again(model, before, changed))
        results.append(EditResult(losses=tuple(_doubts(model, old_sizes, moved))))
    return sum(results, EditResult())


def _set_constants(model: Model, resized: Sequence[tuple[Dimension, int | None, int | str]]) -> Mapping[str, Edit]:
    """Constants get the new size, if one old size became one new one and onnx is installed; see `set_constants_in`."""
    changes = {(old, new) for _, old, new in resized}
    if len(changes) != 1:
        return {}
    [(old, new)] = changes
    if old is None:
        return {}
    try:
        return set_constants_in(model, [dim for dim, _, _ in resized], old, new)
    except MissingPackageError:
        return {}


def _doubts(model: Model, sizes: Mapping[str, int], moved: Collection[str]) -> Iterator[Loss]:
    """A loss for nodes that give a value a shape in which the old size of an axis may still stand.

    `moved` are outputs of nodes whose shape has the new size.
    """
    follows = after(main_graph(model), sizes)
    constants = constants_of(model)
    doubtful = []
    for node in main_graph(model).node:
        index = SHAPE_INPUTS.get(node.op_type or "", len(node.input))
        if node.output and node.output[0] in moved:
            is_doubtful = False
        elif index < len(node.input) and node.input[index] and node.input[index] not in follows:
            array = few_integers(constants.get(node.input[index]))
            is_doubtful = array is None or not {*array.ravel().tolist()}.isdisjoint(sizes.values())
        else:
            is_doubtful = (
                node.op_type in FITTING.split()
                and not follows.isdisjoint(node.input)
                and any(
                    size in constants[name].dims
                    for name in node.input
                    if name in constants
                    for size in sizes.values()
                    if size != 1
                )
            )
        if is_doubtful:
            doubtful.append(label_of(node))
    if doubtful and sizes:
        why = "may still need the old size, so the model may fail or compute something else: run it"
        yield Loss("dim", "graph.node", f"{', '.join(doubtful)} {why}", RESULTS, short=f"{listed(doubtful, 1)} {why}")


def symbols_of(model: Model) -> dict[str, None]:
    """The names of the dims of a model."""
    return dict.fromkeys(dim.dim_param for dim in all_dims(model) if dim.dim_param)


def _axis(model: Model, name: str, inputs: Mapping[str, ValueInfo], symbol_names: Mapping[str, None]) -> _Axis:
    """The axis that INPUT:AXIS means."""
    value_name, _, number = name.rpartition(":")
    if value_name not in inputs or not number.removeprefix("-").isdecimal():
        raise EditError(_why_unknown(model, name, inputs, symbol_names))
    shape = shape_of(inputs[value_name])
    if shape is None:
        raise EditError(f"the rank of {value_name} is not known, so it has no axis {number}")
    rank, index = len(shape.dim), int(number)
    if not -rank <= index < rank:
        axes = f"axes from 0 to {rank - 1}" if rank else "no axes"
        raise EditError(f"{value_name} has {axes}, and no axis {number}")
    return _Axis(value_name, shape, index % rank)


def _why_unknown(model: Model, name: str, inputs: Mapping[str, object], symbol_names: Mapping[str, None]) -> str:
    """What is wrong with a name that is neither that of a dim nor INPUT:AXIS, and what to write in its place."""
    value_name, colon, number = name.rpartition(":")
    if name in inputs:
        return f"{name} is an input; name an axis of it, such as {name}:0"
    if value_name in {value.name for value in main_graph(model).output}:
        ours = f"the inputs are {listed([*inputs], SHOWN_INPUTS)}" if inputs else "there are no inputs"
        return f"{value_name} is an output, whose dims follow from the inputs; {ours}"
    if colon and number.isdecimal():
        return f"no input is called {value_name!r}{nearest(value_name, inputs, kind='input')}"
    unknown, axes = f"no dim is called {name!r}", [f"{input_name}:0" for input_name in inputs]
    if axes and not symbol_names:
        return f"{unknown}, and the model names none: name an axis of an input, such as {axes[0]}"
    return f"{unknown}{nearest(name, [*symbol_names, *axes])}"


def _check_names(symbols: Mapping[str, int | str], symbol_names: Mapping[str, None]) -> None:
    """Raises EditError if two dims would get the same name: dims with one name have one size."""
    new = Counter(size for size in symbols.values() if isinstance(size, str))
    for name, size in symbols.items():
        if isinstance(size, str) and ((size in symbol_names and size not in symbols and size != name) or new[size] > 1):
            raise EditError(f"{name} cannot be called {size}, the name of another dim: both would have one size")


def set_symbols(model: Model, sizes: Mapping[str, int | str], symbol_names: Mapping[str, None]) -> EditResult:
    """Set dims by name, all at once, so that two names can change places.

    A text with operators, such as "batch*seq", is computed from others only if these exist: it may be just a name.
    """
    places = dict.fromkeys(sizes, 0)
    impossible: dict[str, None] = {}
    for dim in all_dims(model):
        text = dim.dim_param
        if not text:
            continue
        names = [text] if text in sizes else []
        if not names and (words := names_in_dim(text)) <= symbol_names.keys():
            names = sorted(words & sizes.keys())
        for name in names:
            places[name] += 1
        if names:
            new = _replaced_all(text, {name: sizes[name] for name in names})
            if new is None:
                impossible[text] = None
            _set(dim, new)
    edits = (Edit("dim", f"{name} is {size}, in {counted(places[name], 'place')}") for name, size in sizes.items())
    losses = (
        Loss("shape", "graph", f"the dim {text} has no possible size now, and is not known any more", INTERFACE)
        for text in impossible
    )
    return EditResult(tuple(edits), tuple(losses))


def _replaced_all(text: str, sizes: Mapping[str, int | str]) -> int | str | None:
    """The dim after others got sizes and names: first names that cannot meet any, then those that are wanted."""
    interim = {name: f"_formats_dim_{number}" for number, name in enumerate(sizes)}
    now: int | str | None = text
    for name, between in interim.items():
        now = replaced(now, name, between) if isinstance(now, str) else now
    for name, between in interim.items():
        now = replaced(now, between, sizes[name]) if isinstance(now, str) else now
    return now


def _set(dim: object, size: int | str | None) -> None:
    """Give a dim a size, a name, or neither."""
    name = "dim_param" if isinstance(size, str) else "dim_value"
    for field in ("dim_value", "dim_param"):
        setattr(dim, field, None)
    if size is not None:
        setattr(dim, name, size)


def _shown(size: int | str | None) -> str:
    return "unknown" if size is None else str(size)
