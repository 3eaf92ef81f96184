"""Writes vectors.json: archives that a reader must take or refuse, for readers by others.

Run it as `python tests/onnxzip/golden/vectors.py` when the specification changes. The archives are those of the tests
of our own reader, put together field by field.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

PATH = Path(__file__).with_name("vectors.json")


def vectors() -> str:
    """Return the vectors as JSON: for each refusal the archive, why it is refused, and the closest one that is not."""
    reader, archive = loaded("test_reader"), loaded("test_archive")
    rows = [(name, attack.bytes(), reason, near_miss.bytes()) for name, attack, reason, near_miss in reader.ATTACKS]
    right = archive.archived(archive.graph_with())
    rows += ((f"tensor: {name}", archive.archived(tensor), reason, right) for name, tensor, reason in archive.REFUSED)
    rows.append(("unused entry", *archive.UNUSED, right))
    records = [
        {"name": name, "refused": refused.hex(), "reason": reason, "taken": taken.hex()}
        for name, refused, reason, taken in rows
    ]
    return json.dumps(records, indent=1) + "\n"


def loaded(name: str) -> Any:
    """Return a module of the tests."""
    spec = importlib.util.spec_from_file_location(f"vectors_of_{name}", Path(__file__).parents[1] / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    sys.path.append(str(Path(__file__).parents[2]))  # where what the tests share is
    PATH.write_text(vectors(), encoding="utf-8")
