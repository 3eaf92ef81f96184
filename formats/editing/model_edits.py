"""The edits as functions from a model to a new one, and several at once in the order of their options."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from formats.editing.dims import set_dims_in
from formats.editing.edits import Done
from formats.editing.extraction import extract_in
from formats.editing.joining.joined_sets import with_same_sets
from formats.editing.joining.merging import merge_in
from formats.editing.renaming import rename_in
from formats.editing.weights import set_weights_in
from formats.errors import EditError
from formats.ir.copies import copied, shallow

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from formats.editing.options import EditOptions
    from formats.ir.model import Model


def edited(
    model: Model,
    options: EditOptions,
    weights: Mapping[str, Any] = MappingProxyType({}),
    origin: str = "",
    *,
    own: bool = False,
) -> tuple[Model, Done]:
    """A new model with all edits, and what they did: weights, dims, names.

    `weights` are the tensors or arrays of `options.weights`, which were read from the file `origin`. If nobody else
    uses the model, it is the caller's `own`: then names change in it, without a copy.

    Raises: EditError if an edit does not fit the model.
    """
    if model.graph is None:
        raise EditError("the model has no graph, so there is nothing to edit")
    is_copied = not own or options.weights is not None or options.dim  # what depends on dims is compared with before
    new, done = copied(model) if is_copied else model, Done()
    if options.weights is not None:
        done += set_weights_in(new, weights, origin)
    if options.dim:
        done += set_dims_in(new, options.dim, model)
    if options.rename:
        done += rename_in(new, options.rename)
    return new, done


def merged(
    first: Model, second: Model, connect: Sequence[tuple[str, str]] = (), prefix: str = "", *, own: bool = False
) -> tuple[Model, Done]:
    """A new model of two, in which outputs of the first one are inputs of the second, and what was done.

    If nobody else uses the two, they are the caller's `own`, and the new model is made of them without copies.

    Raises: EditError for an unknown name, or for models that do not fit each other.
    """
    if first.graph is None or second.graph is None:
        raise EditError("a model has no graph, so there is nothing to merge")
    first, second, done = with_same_sets(first, second)
    if not own:
        first, second = copied(first), copied(second)
    return first, merge_in(first, second, connect, prefix) + done


def part_of(model: Model, inputs: Sequence[str] | None, outputs: Sequence[str] | None) -> tuple[Model, Done]:
    """A new model of the nodes that compute `outputs` from `inputs`, and what was left out.

    Raises: EditError for an unknown name, or if an output needs something else than the inputs.
    """
    if model.graph is None:
        raise EditError("the model has no graph, so there is nothing to extract")
    new = shallow(model)
    new.graph = shallow(model.graph)
    done = extract_in(new, inputs, outputs)
    return copied(new), done  # only of what is left
