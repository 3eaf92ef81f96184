"""New elements for weights with the same names, dims and types.

Spec: onnx.proto, `GraphProto.initializer`; ONNX operators, Constant.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from formats.editing.options import Edit, EditResult
from formats.editing.scopes import all_messages
from formats.errors import EditError
from formats.ir import dtypes
from formats.ir.model import Graph, Tensor, entries
from formats.ir.storage import from_numpy, with_elements, without_data
from formats.tensordata.plan import USE, Loss
from formats.words import counted, listed, nearest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from formats.ir.model import Model

SHOWN_NAMES = 8


def set_weights_in(model: Model, values: Mapping[str, Any], origin: str = "") -> EditResult:
    """Give weights the elements of other tensors or arrays with their names; `origin` says where these are from.

    A name means the initializer of the main graph, or the constant there with this output, or if there is neither,
    those of subgraphs and functions.

    Raises: EditError if another tensor has other dims or another type, or if none has the name of a weight.
    """
    places = _places(model)
    used = [name for name in values if name in places]
    source = f" in {origin}" if origin else ""
    if not used:
        shown = next(iter(values), "")
        what = f"no weight is called like a tensor{source}" if values else f"there is no tensor{source}"
        raise EditError(f"{what}, such as {shown!r}{nearest(shown, places, kind='weight')}" if values else what)
    for name in used:
        new = values[name] if isinstance(values[name], Tensor) else from_numpy(_array(values[name]))
        for holder, key in places[name]:
            old = holder[key] if isinstance(holder, list) else getattr(holder, key)
            _check(name, old, new, source)
            fresh = _with_elements(old, new)
            if isinstance(holder, list):
                holder[key] = fresh
            else:
                setattr(holder, key, fresh)
    unused = [name for name in values if name not in places]
    every, short = (
        f"{listed(unused, most)} {'was' if len(unused) == 1 else 'were'} not used: the model has no such weight"
        for most in (len(unused), SHOWN_NAMES)
    )
    losses = [Loss("unused_weights", "", every, USE, short=short)]
    weights = sum(len(places[name]) for name in used)
    count = sum(map(len, places.values()))
    edit = Edit("weights", f"{counted(weights, 'weight')} of {count:,} replaced{f' from {origin}' if origin else ''}")
    return EditResult((edit,), tuple(losses if unused else ()))


def weight_named(model: Model, name: str) -> Tensor:
    """The weight with a name, or the tensor at a dotted place.

    Raises: EditError if there is none, or if several have the name.
    """
    places = _places(model)
    if len(places_of_name := places.get(name, [])) == 1:
        holder, key = places_of_name[0]
        tensor: Tensor = holder[key] if isinstance(holder, list) else getattr(holder, key)
        return tensor
    if len(places_of_name) > 1:
        raise EditError(f"{len(places_of_name)} weights in subgraphs are called {name}; name the dotted place of one")
    for where, tensor in model.tensors():
        if where == name:
            return tensor
    raise EditError(f"no weight is called {name!r}{nearest(name, places, kind='weight')}")


def _array(value: Any) -> Any:
    import numpy

    return numpy.asarray(value)


def _places(model: Model) -> dict[str, list[tuple[Any, Any]]]:
    """Where each weight is, by name: a list and an index, or an attribute and its field."""
    places: dict[str, list[tuple[Any, Any]]] = {}
    main: set[str] = set()
    for message in all_messages(model):  # the main graph first
        for name, holder, key in _weights_of(message):
            if name and name not in main:
                places.setdefault(name, []).append((holder, key))
        main = main or set(places)
    return places


def _weights_of(message: Any) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(message, Graph):
        for index, tensor in enumerate(message.initializer):
            yield tensor.name or "", message.initializer, index
    for node in message.node:
        if node.op_type == "Constant" and node.output:
            for attribute in entries(node, "attribute"):
                if attribute.name == "value" and attribute.t is not None:
                    yield node.output[0], attribute, "t"


def _check(name: str, old: Tensor, new: Tensor, source: str) -> None:
    if list(old.dims) != list(new.dims):
        dims = [dtypes.dims_shown(tensor.dims) for tensor in (new, old)]
        raise EditError(f"{name} has dims {dims[0]}{source}, but {dims[1]} in the model")
    if old.data_type != new.data_type:
        types = [dtypes.type_name(tensor.data_type) for tensor in (new, old)]
        raise EditError(f"{name} has type {types[0]}{source}, but {types[1]} in the model")


def _with_elements(old: Tensor, new: Tensor) -> Tensor:
    """The old tensor with the elements of the new one, whose bytes are not read."""
    if new.data_type != dtypes.STRING:
        return with_elements(old, new.source())
    fresh = without_data(old)
    fresh.string_data = [*new.string_data]
    return fresh
