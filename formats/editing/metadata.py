"""The metadata of a model: texts by key.

Spec: onnx.proto, `ModelProto.metadata_props`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from formats.editing.edits import Done, Edit
from formats.errors import EditError
from formats.ir.model import StringStringEntry
from formats.wording.suggestions import nearest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from formats.ir.model import Model


def set_metadata_in(model: Model, texts: Mapping[str, str]) -> Done:
    """Set the texts with these keys; an empty text removes its key.

    Raises: EditError if a key is empty, or if a key to be removed is not there.
    """
    done = []
    for key, text in texts.items():
        if not key:
            raise EditError("a key of the metadata is empty")
        old = [entry for entry in model.metadata_props if entry.key == key]
        if not text and not old:
            known = [entry.key or "" for entry in model.metadata_props]
            raise EditError(f"the metadata has no key {key!r}, so it cannot be removed{nearest(key, known)}")
        if not text:
            model.metadata_props = [entry for entry in model.metadata_props if entry.key != key]
            done.append(f"{key} is removed from the metadata")
            continue
        if old:
            old[0].value = text
            model.metadata_props = [entry for entry in model.metadata_props if entry.key != key or entry is old[0]]
        else:
            model.metadata_props.append(StringStringEntry(key, text))
        done.append(f"the metadata says {key}={text:.100}")
    return Done(tuple(Edit("metadata", detail) for detail in done))
