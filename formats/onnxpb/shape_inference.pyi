# Written by schemas/generate.py from shape_inference of onnx; do not edit.
# ruff: noqa
# fmt: off

import os
import formats.onnxpb as onnx
from formats.onnxpb.onnx_pb import AttributeProto
from formats.onnxpb.onnx_pb import FunctionProto
from formats.onnxpb.onnx_pb import ModelProto
from formats.onnxpb.onnx_pb import TypeProto
from collections.abc import Sequence
from typing import Any
class InferenceError(Exception): ...
from onnx.shape_inference import (
    GraphInferencer as GraphInferencer,
    InferenceContext as InferenceContext,
)

def infer_shapes(model: ModelProto | bytes, check_type: bool=..., strict_mode: bool=..., data_prop: bool=...) -> ModelProto:
    ...
def infer_shapes_path(model_path: str | os.PathLike[str], output_path: str | os.PathLike[str]=..., check_type: bool=..., strict_mode: bool=..., data_prop: bool=...) -> None:
    ...
def infer_node_outputs(schema: onnx.defs.OpSchema, node: onnx.NodeProto, input_types: dict[str, onnx.TypeProto], input_data: dict[str, onnx.TensorProto] | None=..., input_sparse_data: dict[str, onnx.SparseTensorProto] | None=..., opset_imports: list[onnx.OperatorSetIdProto] | None=..., ir_version: int=...) -> dict[str, onnx.TypeProto]:
    ...
def infer_function_output_types(function: FunctionProto, input_types: Sequence[TypeProto], attributes: Sequence[AttributeProto]) -> list[TypeProto]:
    ...
