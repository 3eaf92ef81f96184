"""Nodes that are decoded quickly: the names of its own come first, and the rest is like that of many others."""

from __future__ import annotations

from typing import Any, NamedTuple

from formats.ir.model import Message
from formats.onnxpb.schema import MESSAGES
from formats.onnxpb.wire import WireType, make_tag
from formats.tensordata.source import Source

_TAGS = {field.name: make_tag(field.number, WireType.LEN) for field in MESSAGES["NodeProto"]}
INPUT, OUTPUT, NAME = (_TAGS[name] for name in ("input", "output", "name"))
_new = object.__new__


def names_in_front(values: dict[str, Any], data: bytes, position: int, end: int) -> int:
    """The position behind the names with which the node in `data[position:end]` begins; they are in `values`.

    Whatever is unusual about a name is left to those who decode the rest.
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


class MessageTemplate(NamedTuple):
    """A message whose fields hold no message: values that never change, and lists of such values."""

    message_class: type[Any]
    fields: dict[str, Any]
    lists: tuple[str, ...]


class Template(NamedTuple):
    """Fields that hold values that never change, and lists of messages."""

    fields: dict[str, Any]
    messages: dict[str, list[MessageTemplate]]
    message_count: int = 0

    def copy(self) -> dict[str, Any]:
        """The fields, their lists and messages new."""
        fields = self.fields.copy()
        for name, templates in self.messages.items():
            fields[name] = copies = []
            for message_class, inner, lists in templates:
                values = inner.copy()
                for key in lists:
                    values[key] = values[key][:]
                message = _new(message_class)
                message.__dict__ = values
                copies.append(message)
        return fields


def template_of(fields: dict[str, Any]) -> Template | None:
    """The template that makes `fields` again, or `None` where they are more than one can hold."""
    template = Template({}, {})
    for name, value in fields.items():
        if isinstance(value, list):
            templates = [_message_template(item) for item in value]
            if None in templates:
                return None
            template.messages[name] = [item for item in templates if item]
        elif isinstance(value, Message | Source):
            return None
        else:
            template.fields[name] = value
    return template._replace(message_count=sum(map(len, template.messages.values())))


def _message_template(message: Any) -> MessageTemplate | None:
    if not isinstance(message, Message):
        return None
    fields: dict[str, Any] = {}
    lists = []
    for name, value in vars(message).items():
        is_list = isinstance(value, list)
        if isinstance(value[-1] if is_list and value else value, Message | Source):
            return None
        fields[name] = value[:] if is_list else value
        lists += [name] * is_list
    return MessageTemplate(type(message), fields, tuple(lists))
