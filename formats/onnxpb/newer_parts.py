"""The parts of a model that are newer than its IR version: fields and element types.

Spec: onnx.proto, `Version`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from formats.ir import FIRST_WITH_FIELDS, NEWEST_IR_VERSION, dtypes, walk
from formats.onnxpb.wire.schema import MESSAGES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from formats.ir.model import Model

_NEWER = {
    message: {name: first for (owner, name), first in FIRST_WITH_FIELDS.items() if owner == message}
    for message, _ in FIRST_WITH_FIELDS
}
_TYPES = {
    message: tuple(row.name for row in rows if row.name in ("data_type", "elem_type") and row.kind == "int32")
    for message, rows in MESSAGES.items()
}


def newer_parts(model: Model) -> Iterator[tuple[str, str]]:
    """The types and fields that are newer than the model's ir_version, as (place, detail).

    Lists of the file are not searched in vain.
    """
    ir_version = model.ir_version
    if not ir_version or ir_version >= NEWEST_IR_VERSION:
        return
    fields = {message: _fields_to_look_at(message, ir_version) for message in MESSAGES}
    interest = {
        message: frozenset((*newer, *types, *inner, "undecoded")) for message, (newer, types, inner) in fields.items()
    }
    stack: list[tuple[Any, Any]] = [("", model)]
    while stack:
        place, message = stack.pop()
        newer, types, inner = fields[message.message]
        values = vars(message)
        for name, first in newer.items():
            if values.get(name) or (name in message.undecoded and name not in values):
                detail = f"{message.message}.{name} is new in ir_version {first}, but the model says {ir_version}"
                yield _dotted((place, name, None)), detail
        for name in types:
            row = dtypes.BY_NUMBER.get(values.get(name) or 0)
            if row is not None and row.ir_version > ir_version:
                detail = f"{row.name} is new in ir_version {row.ir_version}, but the model says {ir_version}"
                yield _dotted((place, name, None)), detail
        for name in inner:
            value = values.get(name)
            if value is None and name in message.undecoded:
                value = getattr(message, name)
            if isinstance(value, list) and value:
                wanted = interest[value[0].message]
                for index, entry in enumerate(value):
                    if not wanted.isdisjoint(vars(entry)):
                        stack.append(((place, name, index), entry))
            elif value:
                stack.append(((place, name, None), value))


def _fields_to_look_at(message: str, ir_version: int) -> tuple[dict[str, int], tuple[str, ...], tuple[str, ...]]:
    """The newer fields of a message, those with a type, and those that may lead to either."""
    newer = {name: first for name, first in _NEWER.get(message, {}).items() if first > ir_version}
    inner = tuple(
        row.name for row in MESSAGES[message] if row.kind == "message" and row.type_name in _leading(ir_version)
    )
    return newer, _TYPES[message], inner


@lru_cache(maxsize=4096)
def _leading(ir_version: int) -> frozenset[str]:
    """The messages that have a newer field or a type, or lead to one."""
    leading = {name for name in MESSAGES if _TYPES[name] or any(v > ir_version for v in _NEWER.get(name, {}).values())}
    while True:
        rows_of = MESSAGES.items()
        more = {
            name for name, rows in rows_of if any(row.kind == "message" and row.type_name in leading for row in rows)
        }
        if more <= leading:
            return frozenset(leading)
        leading |= more


def _dotted(place: Any) -> str:
    """The text of (outer place, field, index)."""
    if not place:
        return ""
    outer, name, index = place
    return walk.inner_place(_dotted(outer), name, index)
