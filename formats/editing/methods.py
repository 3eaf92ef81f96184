"""The methods of models that edit: each returns a new model, which shares the sources of the weights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from formats.editing.inference import infer_in
from formats.editing.metadata import with_metadata
from formats.editing.model_edits import edited, merged, part_of
from formats.editing.options import EditOptions, ExtractOptions, MergeOptions
from formats.editing.ordering import sort_in, values_of
from formats.editing.scopes import main_graph
from formats.editing.surgery import bypass_in, insert_in
from formats.ir.copies import copied
from formats.options import METADATA, bad_value, texts_by_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from formats.editing.ordering import Value
    from formats.ir.model import Model, Node


def edit(model: Model, metadata: Any, **options: Any) -> Model:
    """A new model with the edits of `EditOptions`, and with texts in its metadata."""
    chosen = EditOptions(**options)
    try:
        texts = texts_by_name(metadata or {})
    except TypeError:
        raise bad_value("metadata", METADATA, metadata) from None
    new, _ = edited(model, chosen, chosen.weights or {})  # type: ignore[arg-type]  # `Model.edit` takes no path
    return with_metadata(new, texts)[0] if texts else new


def extract(model: Model, inputs: Any, outputs: Any) -> Model:
    """A new model of a part."""
    chosen = ExtractOptions(inputs, outputs)
    return part_of(model, chosen.inputs, chosen.outputs)[0]


def merge(model: Model, second: Model, connect: Any, prefix: str | None) -> Model:
    """A new model of two."""
    chosen = MergeOptions(connect, prefix)
    return merged(model, second, chosen.connect or (), chosen.prefix or "")[0]


def insert(model: Model, node: Node | str, after: str, attributes: dict[str, Any]) -> Model:
    """A new model with a node behind a value."""
    new = copied(model)
    insert_in(new, node if isinstance(node, str) else copied(node), after, attributes)
    return new


def bypass(model: Model, nodes: str | Callable[[Node], bool]) -> Model:
    """A new model without some nodes."""
    new = copied(model)
    bypass_in(new, nodes)
    return new


def sort(model: Model) -> Model:
    """A new model with its nodes in order."""
    new = copied(model)
    sort_in(new)
    return new


def to_float16(model: Model, *, keep_io_types: bool) -> Model:
    """A new model that computes in float16."""
    from formats.editing.float16.conversion import to_float16 as in_float16  # few programs need it

    return in_float16(model, keep_io_types=keep_io_types)[0]


def infer_shapes(model: Model) -> Model:
    """A new model with inferred types."""
    new = copied(model)
    infer_in(new)
    return new


def values(model: Model) -> dict[str, Value]:
    """The values of the main graph."""
    return values_of(main_graph(model))
