"""Messages of the IR merged and compared by their descriptors, as protobuf does it.

Weights are shared, not copied: sources never change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from formats.ir.copies import copied
from formats.onnx_compat.protos.descriptor import DESCRIPTORS
from formats.tensordata.sources.source import Concat

if TYPE_CHECKING:
    from formats.onnx_compat.protos.descriptor import FieldDescriptor
    from formats.tensordata.sources.source import Source


def merge(target: Any, source: Any) -> None:
    """Set every field of `source` in `target`: repeated ones are appended, messages merged.

    Afterwards, `target` and `source` share only parts that cannot change.
    """
    for field in DESCRIPTORS[source.message].fields:
        value = getattr(source, field.name)
        if value is None or value == []:
            continue
        present = getattr(target, field.name)
        if field.is_repeated:
            if field.in_place:
                setattr(target, field.name, _joined(present, value))
            elif field.message_type:
                present.extend([copied(item) for item in value])
            else:
                present.extend(value)
            continue
        if field.message_type is None:
            setattr(target, field.name, value)
        elif present is None:
            setattr(target, field.name, copied(value))
        else:
            merge(present, value)
        for sibling in field.siblings:
            setattr(target, sibling, None)
    target.unknown_fields += source.unknown_fields
    if getattr(source, "external_source", None) is not None:
        target.external_source = source.external_source


def same(one: Any, other: Any) -> bool:
    """Whether two messages of one class have the same fields set to the same values, bit for bit."""
    if one.unknown_fields != other.unknown_fields:
        return False
    rows = DESCRIPTORS[one.message].fields
    return all(_same_values(getattr(one, row.name), getattr(other, row.name), row) for row in rows)


def _same_values(left: Any, right: Any, field: FieldDescriptor) -> bool:
    if left is right:
        return True
    if field.in_place and field.is_repeated:
        return _joined(None, left) == _joined(None, right)
    if left is None or right is None:
        return False
    if field.message_type is None:
        # The texts of two floats are equal if their bits are, except for NaN.
        return bool(repr(left) == repr(right) if field.kind in ("float", "double") else left == right)
    if not field.is_repeated:
        return same(left, right)
    return len(left) == len(right) and all(map(same, left, right))


def _joined(first: Source | None, second: Source | None) -> Source | None:
    """Two sequences as one, without empty ones; `None` if both are empty."""
    parts = [part for part in (first, second) if part is not None and part.nbytes]
    return parts[0] if len(parts) == 1 else Concat.of(*parts) if parts else None
