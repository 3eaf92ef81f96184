"""Computes .rten files without RTen: as the ONNX models that they become again, in onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from formats.onnxpb.codecs import CODEC as ONNX
from formats.onnxpb.options import OnnxOptions
from formats.rten import CODEC
from formats.rten.raising.model import raise_model
from formats.tensordata.engine import to_bytes
from formats.tensordata.sources.source import Literal
from tests.rten.evaluation import evaluate, held


class WayBack:
    """Takes the place of a runner of RTen in tests that compare outputs."""

    @staticmethod
    def run(path: Path, inputs: Mapping[str, Any]) -> list[Any]:
        """Return the outputs of a .rten or .onnx file, in RTen's types."""
        data = path.read_bytes()
        if path.suffix == ".rten":
            raised = raise_model(CODEC.read(Literal(data), None))
            data = to_bytes(ONNX.plan(raised.model, path, OnnxOptions()))
        return [held(value) for value in evaluate(data, inputs, optimize=False)]
