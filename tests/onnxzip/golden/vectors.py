"""Writes vectors.json and large.json: archives that a reader must accept or refuse, for readers by others.

Run `python tests/onnxzip/golden/vectors.py` when the specification changes. The archives are those of the tests of our
own reader, `tests/onnxzip/vector_rows`; README.md in this folder describes the files. The Rust crate has copies of both
files, because its package contains no file from outside of its folder.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.onnxzip.archives import bytes_of
from tests.onnxzip.vector_rows.large import LARGE_ROWS
from tests.onnxzip.vector_rows.rows import ROWS

LOADING = {
    *("Z-2.1", "Z-2.2", "Z-2.3", "Z-2.4", "Z-2.5", "Z-3.1", "Z-3.3", "Z-3.4", "Z-3.6", "Z-4.1", "Z-4.6", "Z-5.1"),
    *("Z-7.2", "Z-7.3", "Z-7.4", "Z-7.5", "Z-7.8", "Z-7.9", "Z-7.10"),
}
"""What a loading reader refuses (Z-1.6); of tensors, only those of the model that it reads."""
FOLDERS = (Path(__file__).parent, Path(__file__).parents[3] / "readers" / "rust" / "tests" / "vectors")
"""The folders that have the files: this one, and that of the tests of the Rust crate."""


def files() -> dict[str, str]:
    """Return the content of each file by its name."""
    return {"vectors.json": vectors(), "large.json": large_vectors()}


def vectors() -> str:
    """Return the vectors as JSON."""
    records = []
    for row in ROWS:
        record: dict[str, Any] = {"requirement": row.requirement, "name": f"{row.requirement} {row.name}"}
        if row.refused is not None:
            record |= {"breaks": row.breaks or row.requirement, "refused": bytes_of(row.refused).hex()}
        if row.taken is not None:
            record["taken"] = bytes_of(row.taken).hex()
        if not row.is_model:
            record["model"] = False
        if row.refused is not None and (row.breaks or row.requirement) in LOADING and "another" not in row.name:
            record["loading"] = True
        records.append(record)
    return as_json(records)


def large_vectors() -> str:
    """Return the vectors in parts as JSON."""
    records = []
    for row in LARGE_ROWS:
        record: dict[str, Any] = {"requirement": row.requirement, "name": f"{row.requirement} {row.name}"}
        if row.refused is not None:
            record |= {
                "breaks": row.breaks or row.requirement,
                "refused": [part.to_json() for part in row.refused],
            }
            if (row.breaks or row.requirement) in LOADING:
                record["loading"] = True
        if row.taken is not None:
            record["taken"] = [part.to_json() for part in row.taken]
        records.append(record)
    return as_json(records)


def as_json(records: list[dict[str, Any]]) -> str:
    """Return a list with a line for each field of a record."""
    lines = (",\n  ".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in each.items()) for each in records)
    return "[\n" + ",\n".join(f" {{\n  {line}\n }}" for line in lines) + "\n]\n"


if __name__ == "__main__":
    for name, content in files().items():
        for folder in FOLDERS:
            (folder / name).write_text(content, encoding="utf-8")
