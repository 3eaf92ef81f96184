"""Small messages that models repeat: each is decoded once and then copied.

Types, dimensions and attributes are short, and most have the same bytes as an earlier one, in this model or another.

What it relies on: messages with the same bytes have equal fields, and only a message without tensors, graphs and
unknown fields becomes a template.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from formats.ir.model import Fielded, Message, set_fields
from formats.onnxpb.wire.schema import MESSAGES
from formats.onnxpb.wire.varints import WireType, make_tag
from formats.tensordata.sources.source import Source

if TYPE_CHECKING:
    from collections.abc import Callable

    from formats.ir.model import Undecoded
    from formats.onnxpb.wire.tables import MessageTable

_NAME, *_ = (make_tag(field.number, WireType.LEN) for field in MESSAGES["AttributeProto"] if field.name == "name")
_MESSAGE_TAGS = frozenset(
    make_tag(field.number, WireType.LEN) for field in MESSAGES["AttributeProto"] if field.kind == "message"
)
KNOWN_BYTES = 1 << 7  # a message up to this size is looked up
MAX_KNOWN = 1 << 11  # templates of a kind of messages, in all models that this process reads
_NO_TEMPLATES = ("GraphProto", "TensorProto")
_new = object.__new__


class Template(NamedTuple):
    """A message to be copied: values that never change, the names of lists of such values, and messages in it.

    Each list has a function that copies it: a message has lists of its own kind.
    """

    message_class: type[Any]
    fields: dict[str, Any]
    lists: tuple[tuple[str, Callable[[Any], list[Any]]], ...]
    inner: tuple[tuple[str, Template], ...]
    message_count: int
    height: int  # 1 if there is no message in it

    @classmethod
    def of(cls, message: Fielded, table: MessageTable) -> Template | None:
        """The template of such messages, which have this table, or `None` if there can be none."""
        if table.name in _NO_TEMPLATES:
            return None
        fields: dict[str, Any] = {}
        lists: list[tuple[str, Callable[[Any], list[Any]]]] = []
        inner: list[tuple[str, Template]] = []
        left: dict[str, Unmade] = {}
        count = height = 0
        for name, value in vars(message).items():
            fields[name] = value
            if isinstance(value, list):
                if value and isinstance(value[0], Fielded):
                    found = [cls.of(item, table.by_name[name][1].inner) for item in value]
                    templates = tuple(item for item in found if item is not None)
                    if len(templates) < len(found):
                        return None
                    left[name] = Unmade(message, name, table, templates)
                    del fields[name]
                else:
                    lists.append((name, type(value)))
                    fields[name] = type(value)(value)
                    continue
            elif isinstance(value, Fielded):
                template = cls.of(value, table.by_name[name][1].inner)
                if template is None:
                    return None
                templates = (template,)
                inner.append((name, template))
                fields[name] = None
            elif isinstance(value, Source) or name in ("undecoded", "unknown_fields"):
                return None
            else:
                continue
            count += sum(each.message_count for each in templates)
            height = max(height, *(each.height for each in templates))
        if left:
            fields["undecoded"] = left
        return cls(type(message), fields, tuple(lists), tuple(inner), count + 1, height + 1)

    @property
    def is_flat(self) -> bool:
        """Whether there is no message in it."""
        return self.height == 1

    def copy(self) -> Any:
        """A message with these fields."""
        message_class, fields, lists, inner, _, _ = self
        message = _new(message_class)
        values = fields.copy()
        set_fields(message, values)
        for name, copy in lists:
            values[name] = copy(values[name])
        for name, template in inner:
            values[name] = template.copy()
        return message


class Unmade:
    """A list of messages in a message that was copied, such as the dimensions of a shape: made when it is read."""

    has_references = False
    is_flat = True

    def __init__(self, message: Fielded, name: str, table: MessageTable, elements: tuple[Template, ...]) -> None:
        """The elements are those of the field `name` of a message with this table."""
        from formats.onnxpb.wire.encoder import encode

        only = _new(type(message))
        set_fields(only, {name: getattr(message, name)})
        (field,) = (segment for segment in encode(only, table=table) if isinstance(segment, bytes))
        self.is_of_ir = isinstance(message, Message)
        self.segments: list[bytes | Source] = [field]
        self.largest_nbytes = len(field)
        self._elements = elements

    def __eq__(self, other: object) -> bool:
        """Whether the other has the same bytes."""
        return isinstance(other, Unmade) and self.segments == other.segments

    __hash__ = object.__hash__

    def decode(self) -> list[Any]:
        """The elements, new."""
        return [element.copy() for element in self._elements]

    def differing(self, other: Undecoded) -> None:
        """Nothing: there are few elements."""


def may_be_flat(data: bytes, position: int, end: int) -> bool:
    """Whether an attribute in `data[position:end]` probably has no message in it: the field behind its name is none."""
    if position + 1 < end and data[position] == _NAME:
        position += 2 + data[position + 1]
    return position >= end or data[position] not in _MESSAGE_TAGS
