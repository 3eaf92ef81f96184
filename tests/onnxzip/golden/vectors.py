"""Writes vectors.json: archives that a reader must take or refuse, for readers by others.

Run it as `python tests/onnxzip/golden/vectors.py` when the specification changes. The archives are those of the tests
of our own reader, put together field by field.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

PATH = Path(__file__).with_name("vectors.json")


def vectors() -> str:
    """Return the vectors as JSON: for each refusal the archive, why it is refused, and the closest one that is not."""
    path = Path(__file__).parents[1] / "test_reader.py"
    spec = importlib.util.spec_from_file_location("vectors_of_the_reader", path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    records = [
        {"name": name, "refused": attack.bytes().hex(), "reason": reason, "taken": near_miss.bytes().hex()}
        for name, attack, reason, near_miss in module.ATTACKS
    ]
    return json.dumps(records, indent=1) + "\n"


if __name__ == "__main__":
    PATH.write_text(vectors(), encoding="utf-8")
