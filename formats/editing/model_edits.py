"""All edits: functions from a model to a new one, which shares the sources of the weights, and what was done.

To add an edit, write a function `NAME_in(model, value) -> EditResult` in a module of this room: it changes the model,
which nobody else uses, and returns an `Edit` for each thing that it did and a `Loss` for each that it dropped. Then add
a field of `EditOptions` (`options.py`), from which the keyword of `formats.edit`, the flag and their help follow; the
call in `edited`, at its place in the order of edits; and the keyword of `Model.edit` (`ir/model.py`).

The second part of the module has the methods of `Model` that edit.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from formats.editing.computed_constants import fold_in
from formats.editing.dims import set_dims_in
from formats.editing.extraction import extract_in
from formats.editing.inference import infer_in
from formats.editing.initializers import initializers_to_inputs_in, inputs_to_initializers_in
from formats.editing.interface import set_layouts_in, set_uint8_inputs_in
from formats.editing.merging import merge_in, with_same_sets
from formats.editing.node_settings import set_nodes_in
from formats.editing.options import Edit, EditOptions, EditResult, ExtractOptions, MergeOptions
from formats.editing.outputs import add_outputs_in, remove_outputs_in
from formats.editing.pruning import prune_in
from formats.editing.renaming import prefix_in, rename_in
from formats.editing.scopes import main_graph
from formats.editing.stripping import strip_docs_in, strip_training_in
from formats.editing.surgery import bypass_in, bypass_named_in, in_order, insert_in, sort_in
from formats.editing.weights import set_weights_in
from formats.errors import EditError, OptionError
from formats.ir.copies import copied, shallow
from formats.ir.model import StringStringEntry
from formats.options import METADATA, bad_value, texts_by_name
from formats.words import joined, nearest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from formats.editing.patterns import Match
    from formats.editing.values import Value
    from formats.ir.model import Model, Node


def edited(
    model: Model,
    options: EditOptions,
    weights: Mapping[str, Any] = MappingProxyType({}),
    origin: str = "",
    inputs: Mapping[str, Any] = MappingProxyType({}),
    *,
    own: bool = False,
) -> tuple[Model, EditResult]:
    """A new model with all edits, and what they did: order, weights, dims, nodes, outputs, constants, layouts, names.

    `weights` are the tensors or arrays of `options.weights`, which were read from the file `origin`, and `inputs` those
    of `options.input_to_initializer`, or `None` for defaults. If nobody else uses the model, it is the caller's `own`:
    then names change in it, without a copy.

    Raises: EditError if an edit does not fit the model.
    """
    if model.graph is None:
        raise EditError("the model has no graph, so there is nothing to edit")
    model, result = in_order(model, own=own, must=options.sort)
    own = own or bool(result.edits)
    if options.sort and not result.edits:
        result = EditResult((Edit("sort", "the nodes were in order"),))
    # What depends on dims or nodes is compared with the model before.
    sets_nodes = options.set_operator or options.set_domain or options.set_attribute
    compares = options.dim or options.bypass or options.fold or sets_nodes
    is_copied = not own or options.weights is not None or compares
    new = copied(model) if is_copied else model
    if options.weights is not None:
        result += set_weights_in(new, weights, origin, before=model, cast=options.cast)
    if options.initializer_to_input:
        result += initializers_to_inputs_in(new, options.initializer_to_input)
    if inputs:
        result += inputs_to_initializers_in(new, inputs)
    if options.dim:
        result += set_dims_in(new, options.dim, model)
    if sets_nodes:
        result += set_nodes_in(new, options, model)
    if options.bypass:
        result += bypass_named_in(new, options.bypass, model)
    if options.add_output:
        result += add_outputs_in(new, options.add_output)
    if options.remove_output:
        result += remove_outputs_in(new, options.remove_output)
    if options.fold:
        result += fold_in(new, model)
    if options.prune:
        result += prune_in(new)
    return new, result + _change_ends_in(new, options)


def _change_ends_in(model: Model, options: EditOptions) -> EditResult:
    """The last edits: of inputs and outputs, of names, and of what no output needs for its numbers."""
    result = EditResult()
    if options.uint8_input:
        result += set_uint8_inputs_in(model, options)
    if options.layout:
        result += set_layouts_in(model, options.layout)
    if options.rename:
        result += rename_in(model, options.rename)
    if options.prefix:
        result += prefix_in(model, options.prefix)
    if options.strip_docs:
        result += strip_docs_in(model)
    if options.strip_training:
        result += strip_training_in(model)
    return result


def merged(
    first: Model, second: Model, connect: Sequence[tuple[str, str]] = (), prefix: str = "", *, own: bool = False
) -> tuple[Model, EditResult]:
    """A new model of two, in which outputs of the first one are inputs of the second, and what was done.

    If nobody else uses the two, they are the caller's `own`, and the new model is made of them without copies.

    Raises: EditError for an unknown name, or for models that do not fit each other.
    """
    if first.graph is None or second.graph is None:
        raise EditError("a model has no graph, so there is nothing to merge")
    first, result = in_order(first, own=own)
    second, sorting = in_order(second, own=own)
    first, second, converted = with_same_sets(first, second)
    if not own:
        first, second = copied(first), copied(second)
    return first, result + sorting + merge_in(first, second, connect, prefix) + converted


def extracted(model: Model, inputs: Sequence[str] | None, outputs: Sequence[str] | None) -> tuple[Model, EditResult]:
    """A new model of the nodes that compute `outputs` from `inputs`, and what was left out.

    Raises: EditError for an unknown name, or if an output needs something else than the inputs.
    """
    if model.graph is None:
        raise EditError("the model has no graph, so there is nothing to extract")
    model, result = in_order(model)
    new = shallow(model)
    new.graph = shallow(main_graph(model))
    result += extract_in(new, inputs, outputs)
    return copied(new), result  # only of what is left


def with_metadata(model: Model, texts: Mapping[str, str]) -> tuple[Model, EditResult]:
    """A new model with the texts of these keys, and what was done; an empty text removes its key, all else is shared.

    Spec: onnx.proto, `ModelProto.metadata_props`.

    Raises: EditError if a key is empty, or if a key to be removed is not there.
    """
    sentences = []
    entries = [*model.metadata_props]
    for key, text in texts.items():
        if not key:
            raise EditError("a key of the metadata is empty")
        places = [place for place, entry in enumerate(entries) if entry.key == key]
        if not text and not places:
            keys = [entry.key or "" for entry in entries]
            raise EditError(f"the metadata has no key {key!r}, so it cannot be removed{nearest(key, keys)}")
        place = places[0] if places else len(entries)
        said = shallow(entries[place]) if places else StringStringEntry(key)
        said.value = text
        others = [entry for entry in entries if entry.key != key]
        entries = [*others[:place], *([said] if text else []), *others[place:]]
        sentences.append(f"the metadata says {key}={text:.100}" if text else f"{key} is removed from the metadata")
    new = shallow(model)
    new.metadata_props = entries
    return new, EditResult(tuple(Edit("metadata", detail) for detail in sentences))


# The methods of `Model`


def edit(model: Model, metadata: Any, **options: Any) -> Model:
    """A new model with the edits of `EditOptions`, and with texts in its metadata."""
    chosen = EditOptions(**options)
    try:
        texts = texts_by_name(metadata or {})
    except TypeError:
        raise bad_value("metadata", METADATA, metadata) from None
    inputs = chosen.input_to_initializer or {}
    new, _ = edited(model, chosen, chosen.weights or {}, inputs=inputs)  # type: ignore[arg-type]  # there are no files
    return with_metadata(new, texts)[0] if texts else new


def extract(model: Model, inputs: Any, outputs: Any) -> Model:
    """A new model of a part."""
    chosen = ExtractOptions(inputs, outputs)
    return extracted(model, chosen.inputs, chosen.outputs)[0]


def merge(model: Model, second: Model, connect: Any, prefix: str | None) -> Model:
    """A new model of two."""
    chosen = MergeOptions(connect, prefix)
    return merged(model, second, chosen.connect or (), chosen.prefix or "")[0]


def _sorted_copy(model: Model) -> Model:
    """A copy whose nodes are in order, unless they need each other in a circle."""
    return in_order(copied(model), own=True)[0]


def insert(model: Model, node: Node | str, after: str, attributes: dict[str, Any]) -> Model:
    """A new model with a node behind a value."""
    new = _sorted_copy(model)
    insert_in(new, node if isinstance(node, str) else copied(node), after, attributes)
    return new


def bypass(model: Model, nodes: str | Callable[[Node], bool]) -> Model:
    """A new model without some nodes."""
    new = _sorted_copy(model)
    bypass_in(new, nodes)
    return new


def sort(model: Model) -> Model:
    """A new model with its nodes in order."""
    new = copied(model)
    sort_in(new)
    return new


def to_dtype(model: Model, dtype: str, *, keep_io_types: bool = False, keep: Sequence[str] = ()) -> Model:
    """Make a new model with another type of floats or integers, as `formats.convert` writes it with `dtype`.

    "float16" and "bfloat16" take the place of float32, and "float32" that of both and of integers in blocks with a
    scale each, in which weights may be; "int32" takes the place of int64 where no number needs more bits, as
    `formats.convert` does with `int32`. Inputs and outputs get the type, too, unless `keep_io_types`. Operators or
    nodes with names in `keep` stay as they are. Weights are converted when they are read.

    For example:

        >>> half = formats.to_dtype(formats.load("model.onnx"), "float16")
        >>> half.graph.initializer[0].numpy().dtype.name
        'float16'

    Raises: OptionError for another type; UnsupportedError for a value whose type is not known; EditError for a name
    that no node has.
    """
    from formats.editing.element_types.conversion import to_dtype as in_dtype
    from formats.editing.element_types.typed_values import ELEMENT_TYPES  # few programs need it

    if dtype not in ELEMENT_TYPES:
        raise OptionError(f"`dtype` must be {joined([*ELEMENT_TYPES], 'or')}, not {dtype!r:.80}")
    return in_dtype(in_order(model)[0], dtype, keep_io_types=keep_io_types, keep=keep)[0]


def infer_shapes(model: Model) -> Model:
    """A new model with inferred types."""
    new = _sorted_copy(model)
    infer_in(new)
    return new


def find(model: Model, pattern: Callable[..., Any]) -> list[Match]:
    """The places that have a pattern."""
    from formats.editing.patterns import matches_of  # few programs need it

    return matches_of(model, pattern)


def rewrite(model: Model, pattern: Callable[..., Any], replacement: Callable[..., Any]) -> Model:
    """A new model with other nodes in the place of a pattern."""
    from formats.editing.patterns import rewrite_in

    new = _sorted_copy(model)
    rewrite_in(new, pattern, replacement, model)
    return new


def values(model: Model) -> dict[str, Value]:
    """The values of the main graph."""
    from formats.editing.values import Values

    return Values(model, main_graph(model)).all()
