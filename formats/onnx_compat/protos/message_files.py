"""What reads and writes the files of messages; it needs the classes of messages, so the package hands it in here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from formats.python.handed import Handed

if TYPE_CHECKING:
    from collections.abc import Callable

PARSE_FILE: Handed[Callable[..., Any]] = Handed()  # `parse_file` of the functions for files
SERIALIZE_FILE: Handed[Callable[..., None]] = Handed()  # `serialize_file`
