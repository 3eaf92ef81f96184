"""What programs know from `onnx`: reading and writing files, and the message classes in `protos`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from formats.onnx_compat.protos.message_files import PARSE_FILE, SERIALIZE_FILE

if TYPE_CHECKING:
    from collections.abc import Callable


def _parse_file() -> Callable[..., Any]:
    from formats.onnx_compat.io import parse_file

    return parse_file


def _serialize_file() -> Callable[..., None]:
    from formats.onnx_compat.io import serialize_file

    return serialize_file


PARSE_FILE.hand_in(_parse_file)
SERIALIZE_FILE.hand_in(_serialize_file)
