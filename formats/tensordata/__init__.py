"""Where the bytes of tensors are, how they are read and transformed, and what writes them; nothing about formats."""

from __future__ import annotations

from typing import TYPE_CHECKING

from formats.tensordata import places

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from formats.tensordata.engine import EngineOptions, Result
    from formats.tensordata.file import File
    from formats.tensordata.local.osio import Capabilities
    from formats.tensordata.plan import WritePlan
    from formats.tensordata.remote.address import Address
    from formats.tensordata.streams import Stream


def _open_here() -> Callable[[Path, bool, Capabilities | None], File]:
    from formats.tensordata.local.osio import open_here

    return open_here


def _open_address() -> Callable[[Address], File]:
    from formats.tensordata.remote.remote_file import RemoteFile

    return RemoteFile


def _kind_at_address() -> Callable[[Address], str | None]:
    from formats.tensordata.remote.remote_file import kind_of

    return kind_of


def _stream_of_pipe() -> Callable[[str], Stream]:
    from formats.tensordata.streams import Stream

    return Stream


def _write_to_address() -> Callable[[WritePlan, EngineOptions], Result]:
    from formats.tensordata.remote.upload import upload

    return upload


def _write_to_stream() -> Callable[[WritePlan, EngineOptions], Result]:
    from formats.tensordata.streams import send

    return send


places.OPEN_HERE.hand_in(_open_here)
places.OPEN_ADDRESS.hand_in(_open_address)
places.KIND_AT_ADDRESS.hand_in(_kind_at_address)
places.STREAM_OF_PIPE.hand_in(_stream_of_pipe)
places.WRITE_TO_ADDRESS.hand_in(_write_to_address)
places.WRITE_TO_STREAM.hand_in(_write_to_stream)
