"""A program over `onnx` that computes a model with the reference evaluator, and with an operator of its own."""

import sys
from typing import Any

import numpy

import formats.onnxpb as onnx
from formats.onnxpb.reference import ReferenceEvaluator
from formats.onnxpb.reference.op_run import OpRun


class Double(OpRun):
    """An operator that ONNX does not have."""

    op_domain = "example"

    def _run(self, x: Any) -> tuple[Any]:
        return (x + x,)


result = ReferenceEvaluator(onnx.load(sys.argv[1])).run(None, {"x": numpy.ones((2, 3), numpy.float32)})
assert isinstance(result, list)
assert result[0].shape == (2, 4)
node = onnx.helper.make_node("Double", ["x"], ["y"], domain="example")
doubled = ReferenceEvaluator(node, new_ops=[Double]).run(None, {"x": numpy.float32(2)})
assert isinstance(doubled, list)
assert doubled[0] == 4
