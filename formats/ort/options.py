"""The options for writing `.ort`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class OrtOptions:
    """How an `.ort` file is written: there is nothing to choose."""
