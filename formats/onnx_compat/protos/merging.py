"""Messages merged and compared by their fields, as protobuf does it.

Weights are shared, not copied: sources never change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from formats.onnx_compat.protos.copies import all_copied, copied
from formats.onnx_compat.protos.values import in_use, state_of
from formats.tensordata.sources.source import Concat

if TYPE_CHECKING:
    from formats.onnx_compat.protos.descriptor import FieldDescriptor
    from formats.onnx_compat.protos.message import ProtoMessage
    from formats.tensordata.sources.source import Source


def merge(target: ProtoMessage, source: ProtoMessage) -> None:
    """Set every field of `source` in `target`: repeated ones are appended, messages merged.

    Parts of `target` that are in use stay in use, also unset ones. Afterwards, the two share only what cannot change.
    """
    values = target.__dict__
    given = source.__dict__
    for name in fields_held(source):
        field = source._properties[name].descriptor
        if field.in_place:
            source_of_both = _joined(values.get(name), given[name]) if field.is_repeated else given[name]
            if source_of_both is not None:
                values[name] = source_of_both
        elif field.is_repeated:
            elements = getattr(source, name)
            if elements:
                list.extend(getattr(target, name), all_copied(elements) if field.message_type else elements)
        elif field.message_type:
            _merge_message(target, name, given[name])
        else:
            values[name] = given[name]
        for sibling in field.siblings:
            values.pop(sibling, None)
    if "unknown_fields" in given:
        values["unknown_fields"] = values.get("unknown_fields", b"") + given["unknown_fields"]
    if "external_source" in given:
        values["external_source"] = given["external_source"]


def _merge_message(target: ProtoMessage, name: str, given: ProtoMessage) -> None:
    """Merge a message into a field."""
    values = target.__dict__
    present = values.get(name)
    if present is None and "_state" in values:
        present = in_use(state_of(target).unset, name)
        if present is not None:
            present._touch()
    if present is None:
        values[name] = copied(given)
    else:
        merge(present, given)


def fields_held(*messages: ProtoMessage) -> list[str]:
    """The names of the fields that at least one of these messages of one class has."""
    known = messages[0]._properties
    found = {name: None for each in messages for name in (*vars(each), *vars(each).get("undecoded", ()))}
    return [name for name in found if name in known]


def same(one: ProtoMessage, other: ProtoMessage) -> bool:
    """Whether two messages of one class have the same fields set to the same values, bit for bit."""
    mine, theirs = vars(one), vars(other)
    if mine.get("unknown_fields", b"") != theirs.get("unknown_fields", b""):
        return False
    for name in fields_held(one, other):
        field = one._properties[name].descriptor
        if field.in_place or not field.is_repeated:
            if not _same_values(mine.get(name), theirs.get(name), field):
                return False
        elif not _same_elements(getattr(one, name), getattr(other, name), field):
            return False
    return True


def _same_elements(left: list[Any], right: list[Any], field: FieldDescriptor) -> bool:
    if field.message_type:
        return len(left) == len(right) and all(map(same, left, right))
    return repr(left) == repr(right) if field.kind in ("float", "double") else left == right


def _same_values(left: Any, right: Any, field: FieldDescriptor) -> bool:
    if left is right:
        return True
    if field.in_place and field.is_repeated:
        return _joined(None, left) == _joined(None, right)
    if left is None or right is None:
        return False
    if field.message_type:
        return same(left, right)
    # The texts of two floats are equal if their bits are, except for NaN.
    return bool(repr(left) == repr(right) if field.kind in ("float", "double") else left == right)


def _joined(first: Source | None, second: Source | None) -> Source | None:
    """Two sequences as one, without empty ones; `None` if both are empty."""
    parts = [part for part in (first, second) if part is not None and part.nbytes]
    return parts[0] if len(parts) == 1 else Concat.of(*parts) if parts else None
