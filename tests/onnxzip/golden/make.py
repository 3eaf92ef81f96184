"""Writes small.onnxz, the archive that small.txt shows byte by byte.

Run `python tests/onnxzip/golden/make.py` if the format changes, which should not happen.
"""

from __future__ import annotations

import struct
from pathlib import Path

from formats import onnxzip
from formats.ir.model import Graph, Model, Tensor
from formats.onnxzip import options
from formats.tensordata.engine import to_bytes
from formats.tensordata.sources.source import Literal

PATH = Path(__file__).with_name("small.onnxz")


def model() -> Model:
    """Return a model with one tensor that gets an entry, and one that stays in the graph."""
    weight = Tensor(dims=[2], data_type=1, name="layer.0.weight", raw_data=Literal(struct.pack("<2f", 1, -2)))
    bias = Tensor(dims=[1], data_type=1, name="bias", float_data=Literal(struct.pack("<f", 0.5)))
    return Model(ir_version=10, graph=Graph(name="g", initializer=[weight, bias]))


def archive() -> bytes:
    """Return the archive of the model."""
    return to_bytes(onnxzip.CODEC.plan(model(), PATH, options.ArchiveOptions(size_threshold=8)))


if __name__ == "__main__":
    PATH.write_bytes(archive())
