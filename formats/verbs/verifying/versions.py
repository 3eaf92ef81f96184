"""Checks what a model says of itself: its versions, and whether its types and fields are as old as they say.

Spec: onnx.proto, `Version`; ONNX docs, "Versioning.md".
"""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import TYPE_CHECKING, Any

from formats.ir import dtypes, walk
from formats.ir.model import Message, entries
from formats.onnxpb.operator_sets import newest
from formats.onnxpb.wire.schema import ENUMS, MESSAGES
from formats.verbs.verifying.nodes import FIRST_WITH_OPSETS, NOTE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from formats.ir.model import Model, OperatorSetId

NEWEST_IR_VERSION = max(ENUMS["Version"].values())
# The first ir_version that has a field, by the name of its message and its own.
FIELDS = {
    ("GraphProto", "quantization_annotation"): 5,
    ("GraphProto", "sparse_initializer"): 6,
    ("AttributeProto", "sparse_tensor"): 6,
    ("AttributeProto", "sparse_tensors"): 6,
    ("ModelProto", "training_info"): 7,
    ("ModelProto", "functions"): 8,
    ("TypeProto", "optional_type"): 8,
    ("FunctionProto", "attribute_proto"): 9,
    ("FunctionProto", "overload"): 10,
    ("FunctionProto", "value_info"): 10,
    ("FunctionProto", "metadata_props"): 10,
    ("NodeProto", "overload"): 10,
    ("NodeProto", "metadata_props"): 10,
    ("GraphProto", "metadata_props"): 10,
    ("ValueInfoProto", "metadata_props"): 10,
    ("TensorProto", "metadata_props"): 10,
    ("NodeProto", "device_configurations"): 11,
    ("ModelProto", "configuration"): 11,
}
_NEWER = {message: {name: FIELDS[message, name] for owner, name in FIELDS if owner == message} for message, _ in FIELDS}
_TYPES = {
    message: tuple(row.name for row in rows if row.name in ("data_type", "elem_type") and row.kind == "int32")
    for message, rows in MESSAGES.items()
}


def version_problems(model: Model) -> Iterator[tuple[str, str, str]]:
    """What is wrong with the versions of a model, as (kind, place, detail); a kind with `NOTE` is no error."""
    ir_version = model.ir_version
    if not ir_version:
        yield "version", "ir_version", "the model has no ir_version"
    elif ir_version > NEWEST_IR_VERSION:
        detail = f"the ir_version {ir_version} is newer than {NEWEST_IR_VERSION}, the newest that is known"
        yield f"{NOTE}version", "ir_version", detail
    elif ir_version < FIRST_WITH_OPSETS and model.opset_import:
        yield "version", "opset_import", f"a model of ir_version {ir_version} cannot import operator sets"
    has_nodes = model.graph is not None and entries(model.graph, "node")  # which need a set, and are told so
    if not model.opset_import and not has_nodes and (ir_version or FIRST_WITH_OPSETS) >= FIRST_WITH_OPSETS:
        yield f"{NOTE}version", "opset_import", "the model imports no operator set"  # it needs none without nodes
    yield from import_problems("", model.opset_import)
    for index, function in enumerate(model.functions):
        yield from import_problems(f"functions[{index}].", function.opset_import)
    for key, count in Counter(entry.key for entry in entries(model, "metadata_props")).items():
        if count > 1:
            yield "metadata", "metadata_props", f"{count} entries have the key {key!r:.80}"


def import_problems(where: str, imports: Sequence[OperatorSetId]) -> Iterator[tuple[str, str, str]]:
    """What is wrong with the versions of the operator sets that a model or function imports."""
    for index, entry in enumerate(imports):
        place, domain = f"{where}opset_import[{index}]", entry.domain or "ai.onnx"
        known = newest(domain)
        if entry.version is None or (known is not None and entry.version < 1):
            yield "version", place, f"the version of {domain:.80} is {entry.version or 'missing'}"
        elif known is not None and entry.version > known:
            detail = f"version {entry.version} of {domain} is newer than {known}, the newest that is known"
            yield f"{NOTE}version", place, f"{detail}; its operators were not checked"


def newer_parts(model: Model) -> Iterator[tuple[str, str, str]]:
    """The types and fields that are newer than the model's ir_version; lists of the file are not searched in vain."""
    ir_version = model.ir_version
    if not ir_version or ir_version >= NEWEST_IR_VERSION:
        return
    fields = {message: _fields_to_look_at(message, ir_version) for message in MESSAGES}
    interest = {message: frozenset((*newer, *types, *inner)) for message, (newer, types, inner) in fields.items()}
    stack: list[tuple[Any, Any]] = [("", model)]
    while stack:
        place, message = stack.pop()
        newer, types, inner = fields[message.message]
        values = vars(message)
        for name, first in newer.items():
            if values.get(name) or (name in message.undecoded and name not in values):
                detail = f"{message.message}.{name} is new in ir_version {first}, but the model says {ir_version}"
                yield "version", _dotted((place, name, None)), detail
        for name in types:
            row = dtypes.BY_NUMBER.get(values.get(name) or 0)
            if row is not None and row.ir_version > ir_version:
                detail = f"{row.name} is new in ir_version {row.ir_version}, but the model says {ir_version}"
                yield "version", _dotted((place, name, None)), detail
        for name in inner:
            value = values.get(name)
            if value is None and (left := message.undecoded.get(name)) and not (name == "attribute" and left.is_flat):
                value = getattr(message, name)
            if isinstance(value, list) and value:
                wanted = interest[value[0].message]
                plain = {id(Message.undecoded): Message.undecoded}  # nodes share what is undecoded with others
                for index, entry in enumerate(value):
                    if wanted.isdisjoint(vars(entry)):
                        if id(entry.undecoded) in plain:
                            continue
                        if _is_plain(entry):
                            plain[id(entry.undecoded)] = entry.undecoded  # held, so that no other gets its identity
                            continue
                    stack.append(((place, name, index), entry))
            elif value:
                stack.append(((place, name, None), value))


def _is_plain(message: Any) -> bool:
    """Whether nothing is undecoded in a message but attributes without messages in them."""
    return all(name == "attribute" and left.is_flat for name, left in message.undecoded.items())


def _fields_to_look_at(message: str, ir_version: int) -> tuple[dict[str, int], tuple[str, ...], tuple[str, ...]]:
    """The newer fields of a message, those with a type, and those that may lead to either."""
    newer = {name: first for name, first in _NEWER.get(message, {}).items() if first > ir_version}
    inner = tuple(
        row.name for row in MESSAGES[message] if row.kind == "message" and row.type_name in _leading(ir_version)
    )
    return newer, _TYPES[message], inner


@cache
def _leading(ir_version: int) -> frozenset[str]:
    """The messages that have a newer field or a type, or lead to one."""
    found = {name for name in MESSAGES if _TYPES[name] or any(v > ir_version for v in _NEWER.get(name, {}).values())}
    while True:
        rows_of = MESSAGES.items()
        more = {name for name, rows in rows_of if any(row.kind == "message" and row.type_name in found for row in rows)}
        if more <= found:
            return frozenset(found)
        found |= more


def _dotted(place: Any) -> str:
    """The text of (outer place, field, index)."""
    if not place:
        return ""
    outer, name, index = place
    return walk.inner_place(_dotted(outer), name, index)
