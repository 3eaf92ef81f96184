"""The ONNX messages as rows: what each field number of each message is.

`schema.txt` next to this module has them; `python schemas/generate.py` makes it of schemas/onnx.proto.
"""

from __future__ import annotations

from typing import NamedTuple

from formats.words import text_beside


class MessageField(NamedTuple):
    """One field of a message.

    `kind` is the scalar type's name in proto2, "enum" or "message"; the last two name theirs in `type_name`,
    a key of `ENUMS` or `MESSAGES`. `label` is "optional", "required" or "repeated". `packed` says that a
    repeated scalar is written as one length-delimited run. `oneof` names the group of which at most one field
    may be set.
    """

    number: int
    name: str
    kind: str
    label: str
    type_name: str = ""
    packed: bool = False
    oneof: str = ""


MESSAGES: dict[str, tuple[MessageField, ...]] = {}
ENUMS: dict[str, dict[str, int]] = {}


def _field(number: str, name: str, kind: str, label: str, *rest: str) -> MessageField:
    type_name, packed, oneof = ("" if word == "-" else word for word in rest)
    return MessageField(int(number), name, kind, label, type_name, bool(packed), oneof)


for _paragraph in text_beside(__name__, "schema.txt").split("\n\n")[1:]:
    _heading, *_lines = _paragraph.splitlines()
    _is_message, _name = _heading.startswith("message"), _heading.split()[1]
    _rows = [_line.split() for _line in _lines]
    if _is_message:
        MESSAGES[_name] = tuple(_field(*_row) for _row in _rows)
    else:
        ENUMS[_name] = {_value: int(_number) for _number, _value in _rows}
