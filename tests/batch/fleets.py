"""Shared parts of tests of many conversions: models, lines of a manifest, and where processes find the package."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import numpy as np

import formats


def save(path: Path, seed: int = 0, size: int = 2000) -> Path:
    """Save a model of one weight."""
    array = np.random.default_rng(seed).standard_normal(size).astype("float32")
    graph = formats.Graph(name=f"g{seed}", initializer=[formats.from_numpy(array, "w")])
    model = formats.Model(ir_version=8, opset_import=[formats.OperatorSetId("", 17)], graph=graph)
    formats.save(model, path, overwrite=True)
    return path


def lines(manifest: Path) -> list[dict[str, Any]]:
    """Return the lines of a manifest."""
    return [json.loads(line) for line in manifest.read_text("utf-8").splitlines()]


def sha256(path: Path) -> str:
    """Return the digest of a file, by hashlib."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def environment() -> dict[str, str]:
    """Return the environment in which processes find `formats`."""
    return {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
