"""The metadata of a model: texts by key.

Spec: onnx.proto, `ModelProto.metadata_props`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from formats.editing.edits import Done, Edit
from formats.errors import EditError
from formats.ir.copies import shallow
from formats.ir.model import StringStringEntry
from formats.words import nearest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from formats.ir.model import Model


def with_metadata(model: Model, texts: Mapping[str, str]) -> tuple[Model, Done]:
    """A new model with the texts of these keys, and what was done; an empty text removes its key, all else is shared.

    Raises: EditError if a key is empty, or if a key to be removed is not there.
    """
    done = []
    entries = [*model.metadata_props]
    for key, text in texts.items():
        if not key:
            raise EditError("a key of the metadata is empty")
        places = [place for place, entry in enumerate(entries) if entry.key == key]
        if not text and not places:
            known = [entry.key or "" for entry in entries]
            raise EditError(f"the metadata has no key {key!r}, so it cannot be removed{nearest(key, known)}")
        place = places[0] if places else len(entries)
        said = shallow(entries[place]) if places else StringStringEntry(key)
        said.value = text
        others = [entry for entry in entries if entry.key != key]
        entries = [*others[:place], *([said] if text else []), *others[place:]]
        done.append(f"the metadata says {key}={text:.100}" if text else f"{key} is removed from the metadata")
    new = shallow(model)
    new.metadata_props = entries
    return new, Done(tuple(Edit("metadata", detail) for detail in done))
