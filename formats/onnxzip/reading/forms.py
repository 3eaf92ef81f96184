"""Forms of messages that were read and are right: a regular expression finds runs of others that have one of them.

A form has each byte of a message apart from those of texts that no reader looks at. So a message of that form is right
as well, and a large graph, in which the names are most of the difference, needs no step in Python for each node.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from formats.onnxpb.wire.varints import encode_varint

if TYPE_CHECKING:
    from collections.abc import Callable

SAMPLE = 128  # of that many messages without a known form, the last one gives a form
_MAX_FORMS, _FIRST_FORMS = 12, 4
_MAX_BYTES = 256  # of a message with a form
_RUN = 512  # messages in one match: it keeps a place for each
_NEVER = -1


class Forms:
    """The known forms of the messages in one repeated field, at one depth."""

    __slots__ = ("_forms", "_match", "_matched_bytes", "_missing")

    def __init__(self) -> None:
        self._forms: list[bytes] = []
        self._match: Callable[[bytes, int, int], re.Match[bytes] | None] | None = None
        self._matched_bytes = 0  # since the last form
        self._missing = SAMPLE  # messages before the next form, or `_NEVER`

    def end_of_run(self, data: bytes, position: int, end: int) -> int:
        """Where the messages with a known form end that begin at `position`; the message before it had none."""
        if self._missing > 0:
            self._missing -= 1
        if self._match is None:
            return position
        start = position
        while found := self._match(data, position, end):
            position = found.end()
        self._matched_bytes += position - start
        return position

    @property
    def wants_one(self) -> bool:
        """Whether a form should be added now."""
        return not self._missing

    def add(self, tag: int, message: bytes, texts: list[tuple[int, int]]) -> None:
        """Add the form of a right message, whose field has a tag; any bytes are right in the ranges `texts` of it."""
        is_useless = len(self._forms) >= _FIRST_FORMS and self._matched_bytes < SAMPLE * len(message)
        if is_useless:
            self._match = None
        if is_useless or len(self._forms) == _MAX_FORMS:
            self._missing = _NEVER
            return
        self._missing, self._matched_bytes = SAMPLE, 0
        if len(message) > _MAX_BYTES:
            return
        form, position = re.escape(encode_varint(tag) + encode_varint(len(message))), 0
        for begin, end in texts:
            form += re.escape(message[position:begin]) + b".{%d}" % (end - begin)
            position = end
        form += re.escape(message[position:])
        if form not in self._forms:
            self._forms.append(form)
            self._match = re.compile(b"(?s:%b){1,%d}" % (b"|".join(self._forms), _RUN)).match
