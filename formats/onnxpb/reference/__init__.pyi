# Written by schemas/generate.py from reference of onnx; do not edit.
# ruff: noqa
# fmt: off

from formats.onnxpb.reference.reference_evaluator import ReferenceEvaluator as ReferenceEvaluator
from typing import Any

__all__ = ['ReferenceEvaluator']
