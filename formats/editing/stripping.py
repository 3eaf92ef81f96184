"""What goes without a change of what is computed: documentation, what exporters noted, and graphs for training.

Spec: onnx.proto, `doc_string` and `metadata_props` of each message, and TrainingInfoProto.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from formats.editing.options import Edit, EditResult
from formats.editing.scopes import all_messages
from formats.ir import walk
from formats.ir.model import Function, entries, remove_field
from formats.words import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from formats.ir.model import Model


def strip_docs_in(model: Model) -> EditResult:
    """Remove all documentation, and the metadata of all that is in a graph or function, such as paths of an exporter.

    The metadata of the model itself, such as its license, stay.
    """
    removed = sum(_remove(message, ("doc_string", "metadata_props")) for message in _documented(model))
    removed += _remove(model, ("doc_string",))
    texts = f"{counted(removed, 'text')} of documentation removed" if removed else "there was no documentation"
    return EditResult((Edit("strip_docs", texts),))


def _documented(model: Model) -> Iterator[Any]:
    """Everything in a model that can have documentation, but not the model itself."""
    for message in all_messages(model):
        yield message
        if not isinstance(message, Function):
            yield from (*message.input, *message.output)
        yield from entries(message, "value_info")
        for node in message.node:
            yield node
            yield from entries(node, "attribute")
    for function in model.functions:
        yield from entries(function, "attribute_proto")
    yield from (tensor for _, tensor in walk.tensors(model))


def _remove(message: Any, fields: tuple[str, ...]) -> int:
    """Remove fields of a message; the number of texts in them."""
    removed = 0
    for name in fields:
        value = entries(message, name) if name == "metadata_props" else message.doc_string
        if value:
            removed += len(value) if isinstance(value, list) else 1
            remove_field(message, name)
    return removed


def strip_training_in(model: Model) -> EditResult:
    """Remove the graphs that initialise and train the model; what it computes is the same."""
    count = len(entries(model, "training_info"))
    model.training_info = []
    what = f"{counted(count, 'entry') if count == 1 else f'{count:,} entries'} for training removed"
    return EditResult((Edit("strip_training", what if count else "there was nothing for training"),))
