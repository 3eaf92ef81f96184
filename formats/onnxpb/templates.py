"""Decodes nodes quickly: a node's own names come first, and the rest is equal to that of many other nodes.

Without this, it takes 1.8 times as long to read 40,000 nodes, and 2.5 times to change and save them.

What it relies on: nodes whose rest is the same bytes have equal fields, and only a rest without names, tensors, graphs
or any other message in its elements is a template. So what is left undecoded is free of them and says so (`is_flat`);
it is one object in all these nodes, which nobody changes, and each node gets elements and lists of its own when its
field is read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from formats.ir.alike import Alike, elements_of
from formats.ir.model import Message
from formats.onnxpb.schema import MESSAGES
from formats.onnxpb.wire import WireType, decode_varint, make_tag, skip_field
from formats.tensordata.source import Source

if TYPE_CHECKING:
    from formats.ir.alike import Element
    from formats.onnxpb.wire_tables import MessageTable

_TAGS = {field.name: make_tag(field.number, WireType.LEN) for field in MESSAGES["NodeProto"]}
INPUT, OUTPUT, NAME = (_TAGS[name] for name in ("input", "output", "name"))


def names_in_front(values: dict[str, Any], data: bytes, position: int, end: int) -> int:
    """The position after the names at the start of the node in `data[position:end]`; the names are in `values`.

    If anything about a name is unusual, the caller decodes it with the rest.
    """
    inputs: list[str] = []
    outputs: list[str] = []
    try:
        while position < end - 1:
            tag, size = data[position], data[position + 1]
            begin = position + 2
            stop = begin + size
            if size >= 0x80 or stop > end:
                break
            if tag == INPUT:
                inputs.append(data[begin:stop].decode())
            elif tag == OUTPUT:
                outputs.append(data[begin:stop].decode())
            elif tag == NAME:
                values["name"] = data[begin:stop].decode()
            else:
                break
            position = stop
    except UnicodeDecodeError:
        pass
    if inputs:
        values["input"] = inputs
    if outputs:
        values["output"] = outputs
    return position


class Template(NamedTuple):
    """Fields that many nodes have: values that never change, and undecoded lists."""

    fields: dict[str, Any]
    message_count: int


def template_of(fields: dict[str, Any], data: bytes, table: MessageTable) -> Template | None:
    """The template of nodes with such `fields`, which were decoded from `data`, or `None` if this is impossible."""
    made: dict[str, Any] = {}
    lists: dict[str, list[Element]] = {}
    for name, value in fields.items():
        if isinstance(value, list):
            elements = elements_of(value)
            if elements is None:
                return None
            lists[name] = elements
        elif isinstance(value, Message | Source):
            return None
        else:
            made[name] = value
    if lists:
        made["undecoded"] = {name: Alike(elements, _field(data, name, table)) for name, elements in lists.items()}
    return Template(made, sum(map(len, lists.values())))


def _field(data: bytes, name: str, table: MessageTable) -> bytes:
    """All parts of a field in `data`, including tags."""
    found = b""
    position = 0
    while position < len(data):
        start = position
        tag, position = decode_varint(data, start)
        position = skip_field(data, position, tag)
        row = table.by_tag.get(tag)
        if row and row.name == name:
            found += data[start:position]
    return found
