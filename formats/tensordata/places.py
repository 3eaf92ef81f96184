"""What opens and writes files in each kind of place: on this system, in stores and in streams.

The modules for a place import those of files and of the engine. So these call what the package hands in here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from formats.python.handed import Handed

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from formats.tensordata.engine import EngineOptions, Result
    from formats.tensordata.file import File
    from formats.tensordata.local.osio import Capabilities
    from formats.tensordata.plan import WritePlan
    from formats.tensordata.remote.address import Address
    from formats.tensordata.streams import Stream

OPEN_HERE: Handed[Callable[[Path, bool, Capabilities | None], File]] = Handed()
OPEN_ADDRESS: Handed[Callable[[Address], File]] = Handed()
KIND_AT_ADDRESS: Handed[Callable[[Address], str | None]] = Handed()  # a "file", a "directory", or nothing
STREAM_OF_PIPE: Handed[Callable[[str], Stream]] = Handed()
WRITE_TO_ADDRESS: Handed[Callable[[WritePlan, EngineOptions], Result]] = Handed()
WRITE_TO_STREAM: Handed[Callable[[WritePlan, EngineOptions], Result]] = Handed()
