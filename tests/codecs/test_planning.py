"""Tests that a plan is made without a look at its destination, so that only an engine touches it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

import formats
from formats.codecs import lookup

_seen: list[str] | None = None  # the paths that audit events name while a test listens
EVENTS = ("open", "os.", "shutil.")  # what Python reports to an audit hook begins with one of these


def _listen(event: str, arguments: tuple[Any, ...]) -> None:
    if _seen is not None and event.startswith(EVENTS):
        _seen.extend(str(each) for each in arguments if isinstance(each, (str, bytes, Path)))


sys.addaudithook(_listen)


@pytest.mark.parametrize("codec", lookup.built_in(), ids=lambda codec: codec.name)
def test_planning_leaves_the_destination_alone(codec: Any, tiny_model: Path, tmp_path: Path) -> None:
    """A codec plans a file without opening, listing or changing anything in the folder of the file."""
    global _seen
    model, folder = formats.load(tiny_model), tmp_path / "there"
    folder.mkdir()
    options = codec.options(**({"key": "secret words"} if codec.encrypted else {}))
    _seen = seen = []
    try:
        plan = codec.plan(model, folder / f"new{codec.extensions[0]}", options)
    finally:
        _seen = None
    assert [file.path.parent for file in plan.files] == [folder]
    assert not [path for path in seen if str(folder) in path]
    assert not [*folder.iterdir()]
