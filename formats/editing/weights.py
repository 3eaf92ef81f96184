"""New elements for weights by name; one weight in place of several that are equal.

Spec: onnx.proto, `GraphProto.initializer`; ONNX operators, Constant.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from functools import partial
from typing import TYPE_CHECKING, Any

from formats.editing.inference import DIMS, check_again
from formats.editing.options import Edit, EditResult
from formats.editing.renaming import apply
from formats.editing.scopes import all_messages, scopes_of, training_bindings
from formats.errors import EditError, TensorDataError
from formats.ir import dtypes
from formats.ir.copies import copied, shallow
from formats.ir.model import Graph, Tensor, entries
from formats.ir.storage import from_numpy, raw_source, with_elements, without_data
from formats.onnxpb.external.model import weights_of
from formats.tensordata.plan import DOCUMENTATION, USE, Loss
from formats.tensordata.sources.digest import Duplicates
from formats.tensordata.sources.source import storage_key
from formats.tensordata.sources.transform import Transform
from formats.words import counted, in_units, listed, nearest

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from formats.editing.scopes import NameScope
    from formats.ir.model import Model
    from formats.onnxpb.options import OnnxOptions
    from formats.tensordata.sources.source import Source
    from formats.tensordata.sources.transform import Buffer

SHOWN_NAMES = 8


def set_weights_in(
    model: Model, values: Mapping[str, Any], origin: str = "", *, before: Model | None = None, cast: bool = False
) -> EditResult:
    """Give weights the elements of other tensors or arrays with their names; `origin` says where these are from.

    A name means the initializer of the main graph, or the constant there with this output, or if there is neither,
    those of subgraphs and functions. Elements of another float type are converted if `cast` is set. Other dims must fit
    the nodes that use the weight; `before` is the model without any edit, and without it, dims must be the same.

    Raises: EditError if the dims or the type of another tensor do not fit, or if none has the name of a weight;
    MissingPackageError if dims differ and onnx is not installed.
    """
    places = _places(model)
    used = [name for name in values if name in places]
    source = f" in {origin}" if origin else ""
    if not used:
        shown = next(iter(values), "")
        what = f"no weight is called like a tensor{source}" if values else f"there is no tensor{source}"
        raise EditError(f"{what}, such as {shown!r}{nearest(shown, places, kind='weight')}" if values else what)
    casts: dict[str, None] = {}
    resized: dict[str, tuple[str, str]] = {}  # the dims that a weight had, and has
    for name in used:
        new = values[name] if isinstance(values[name], Tensor) else from_numpy(_array(values[name]))
        for holder, key in places[name]:
            old = holder[key] if isinstance(holder, list) else getattr(holder, key)
            if old.data_type != new.data_type:
                new = _cast(name, new, old.data_type, source, is_wanted=cast)
                casts[name] = None
            if list(old.dims) != list(new.dims):
                resized[name] = dtypes.dims_shown(old.dims), dtypes.dims_shown(new.dims)
            fresh = _with_elements(old, new)
            if isinstance(holder, list):
                holder[key] = fresh
            else:
                setattr(holder, key, fresh)
    result = _check_sizes(model, before, resized, source) if resized else EditResult()
    unused = [name for name in values if name not in places]
    every, short = (
        f"{listed(unused, most)} {'was' if len(unused) == 1 else 'were'} not used: the model has no such weight"
        for most in (len(unused), SHOWN_NAMES)
    )
    losses = [Loss("unused_weights", "", every, USE, short=short)]
    weights = sum(len(places[name]) for name in used)
    count = sum(map(len, places.values()))
    edits = [
        Edit("weights", f"{counted(weights, 'weight')} of {count:,} replaced{f' from {origin}' if origin else ''}")
    ]
    edits += [Edit("cast", f"{name} is converted to its type in the model") for name in casts]
    return EditResult(tuple(edits), tuple(losses if unused else ())) + result


def weight_names(model: Model) -> list[str]:
    """The names of the weights of a model, also of those in subgraphs and functions."""
    return [*_places(model)]


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


def _cast(name: str, tensor: Tensor, data_type: int | None, source: str, *, is_wanted: bool) -> Tensor:
    """The tensor in another float type, rounded as numpy does it when it is read.

    Raises: EditError if this is not wanted, or if one is no float type. A number that is too large is a TensorDataError
    when it is read.
    """
    given, wanted = (dtypes.type_name(number) for number in (tensor.data_type, data_type))
    rows = [dtypes.BY_NUMBER.get(number or 0) for number in (tensor.data_type, data_type)]
    are_floats = all(row is not None and row.kind == "f" and row.bits >= 8 for row in rows)
    if not (is_wanted and are_floats):
        hint = "; `cast=True` converts it" if are_floats else ""
        raise EditError(f"{name} has type {given}{source}, but {wanted} in the model{hint}")
    old, new = (dtypes.numpy_dtype(row.number) for row in rows if row is not None)
    convert = partial(_converted, name, wanted, old, new)
    elements = Transform(f"cast {given} to {wanted}", old.itemsize, new.itemsize, convert).of(tensor.source())
    return Tensor(dims=[*tensor.dims], data_type=data_type, raw_data=elements)


def _converted(name: str, wanted: str, old: Any, new: Any, data: Buffer) -> Any:
    import numpy

    array = numpy.frombuffer(data, old)
    with numpy.errstate(over="ignore"):
        converted = array.astype(new)
    if (numpy.isfinite(array) & ~numpy.isfinite(converted)).any():
        raise TensorDataError(f"{name} has numbers that are too large for {wanted}")
    return converted.view(numpy.uint8)


def _check_sizes(model: Model, before: Model | None, resized: Mapping[str, tuple[str, str]], source: str) -> EditResult:
    """Check that nodes and inputs fit the new dims of weights, and infer shapes again that follow from them.

    Raises: EditError if they do not fit; MissingPackageError if onnx is not installed.
    """
    words = {name: f"{name} has dims {new}{source}, but {old} in the model" for name, (old, new) in resized.items()}
    if before is None:
        raise EditError("; ".join(words.values()))
    for message in all_messages(model):
        if isinstance(message, Graph) and (inputs := [value.name for value in message.input if value.name in resized]):
            raise EditError(f"{words[inputs[0] or '']}, where it is an input")
        if infos := entries(message, "value_info"):
            message.value_info = [value for value in infos if value.name not in resized]
    try:
        result = check_again(model, before, DIMS, must=True)
    except EditError as error:
        raise EditError(f"{'; '.join(words.values())}; {error.message}") from None
    edits = (Edit("weights", f"{name} has dims {new} in place of {old}") for name, (old, new) in resized.items())
    return EditResult(tuple(edits)) + result


def _with_elements(old: Tensor, new: Tensor) -> Tensor:
    """The old tensor with the elements and the dims of the new one, whose bytes are not read."""
    fresh = shallow(old)
    fresh.dims = [*new.dims]
    if new.data_type != dtypes.STRING:
        return with_elements(fresh, new.source())
    fresh = without_data(fresh)
    fresh.string_data = [*new.string_data]
    return fresh


# Equal weights


def with_equals_joined(model: Model, options: OnnxOptions) -> tuple[Model, EditResult]:
    """The model, or if initializers in a graph are equal, a new one that uses the first of them, and what was done.

    Equal are those with the same bytes, type and dims. Those that `options` put into data files stay, because their
    bytes can be stored once there.
    """
    new = copied(model)
    outside = {id(moved.tensor) for moved in weights_of(new, options).outside}
    result = _join_equals(new, outside)
    return (new, result) if result.edits else (model, result)


def _join_equals(model: Model, outside: Collection[int]) -> EditResult:
    """Let nodes use the first one of equal initializers, of the main graph or their own, and remove the others.

    What is an input, an output, trained or quantized keeps its initializer. So does a name that several graphs define.
    """
    main = scopes_of(model)[0]
    scopes = [*main.all_inner()]
    counts = Counter(name for scope in scopes for name in scope.defined)
    trained = {name for entry in training_bindings(model) for name in (entry.key, entry.value)}
    sources: defaultdict[tuple[Any, ...], Duplicates] = defaultdict(Duplicates)  # by type and dims
    of_main: dict[tuple[Any, ...], Tensor] = {}
    new_names: dict[int, dict[str, str]] = {}
    removed: list[tuple[Tensor, Tensor, int]] = []  # with those that are used instead, and their sizes in bytes
    for scope in scopes:
        of_scope = of_main if scope is main else {}
        names = new_names[id(scope.message)] = {}
        for tensor, source in _joinable(scope, outside):
            name = tensor.name or ""
            if counts[name] > 1 or name in trained:
                continue
            kind = tensor.data_type, *tensor.dims
            key = kind, *storage_key(sources[kind].first(source))
            same = of_main.get(key) or of_scope.setdefault(key, tensor)
            if same is not tensor:
                names[name] = same.name or ""
                removed.append((tensor, same, source.nbytes))
    if not removed:
        return EditResult()
    for scope in scopes:
        names = new_names[id(scope.message)]
        for field in ("initializer", "value_info") if names else ():
            kept = [entry for entry in entries(scope.message, field) if entry.name not in names]
            setattr(scope.message, field, kept)
    apply(main, new_names, {})
    saved = in_units(sum(nbytes for _, _, nbytes in removed))
    edit = Edit("dedup", f"{counted(len(removed), 'weight')} equal to another one, which is used instead: {saved} less")
    documented = sum(_said(tensor) not in (("", []), _said(same)) for tensor, same, _ in removed)
    detail = f"documentation or metadata of {counted(documented, 'weight')} equal to another one, which has its own"
    return EditResult((edit,), (Loss("doc_string", "", detail, DOCUMENTATION),) if documented else ())


def _joinable(scope: NameScope, outside: Collection[int]) -> Iterator[tuple[Tensor, Source]]:
    """The initializers of a graph in whose place another one can be used, and their bytes."""
    message = scope.message
    if not isinstance(message, Graph):
        return
    fixed = {value.name for value in (*message.input, *message.output)}
    fixed.update(annotation.tensor_name for annotation in entries(message, "quantization_annotation"))
    for tensor in message.initializer:
        if tensor.name and tensor.name not in fixed and id(tensor) not in outside:
            try:
                yield tensor, raw_source(tensor)
            except TensorDataError:  # texts, and elements that do not fit their dims
                continue


def _said(tensor: Tensor) -> tuple[str, list[Any]]:
    return tensor.doc_string or "", tensor.metadata_props
