"""The edits that a model has as methods: `formats.editing` is above this room, so the package hands them in."""

from __future__ import annotations

from typing import Any

from formats.python.handed import Handed

EDITS: Handed[Any] = Handed()
