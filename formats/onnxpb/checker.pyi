# Written by schemas/generate.py from checker of onnx; do not edit.
# ruff: noqa
# fmt: off

import os
import formats.onnxpb as onnx
import onnx.onnx_cpp2py_export.checker as C
from typing import Any
class ValidationError(Exception): ...
from onnx.checker import (
    DEFAULT_CONTEXT as DEFAULT_CONTEXT,
    LEXICAL_SCOPE_CONTEXT as LEXICAL_SCOPE_CONTEXT,
    MAXIMUM_PROTOBUF as MAXIMUM_PROTOBUF,
)

def check_value_info(value_info: onnx.ValueInfoProto, ctx: C.CheckerContext=...) -> None:
    ...
def check_tensor(tensor: onnx.TensorProto, ctx: C.CheckerContext=...) -> None:
    ...
def check_attribute(attr: onnx.AttributeProto, ctx: C.CheckerContext=..., lexical_scope_ctx: C.LexicalScopeContext=...) -> None:
    ...
def check_node(node: onnx.NodeProto, ctx: C.CheckerContext=..., lexical_scope_ctx: C.LexicalScopeContext=...) -> None:
    ...
def check_function(function: onnx.FunctionProto, ctx: C.CheckerContext | None=..., lexical_scope_ctx: C.LexicalScopeContext=...) -> None:
    ...
def check_graph(graph: onnx.GraphProto, ctx: C.CheckerContext=..., lexical_scope_ctx: C.LexicalScopeContext=...) -> None:
    ...
def check_sparse_tensor(sparse: onnx.SparseTensorProto, ctx: C.CheckerContext=...) -> None:
    ...
def check_model(model: onnx.ModelProto | str | bytes | os.PathLike[str], full_check: bool=..., skip_opset_compatibility_check: bool=..., check_custom_domain: bool=...) -> None:
    ...

__all__ = ['C', 'DEFAULT_CONTEXT', 'LEXICAL_SCOPE_CONTEXT', 'MAXIMUM_PROTOBUF', 'ValidationError', 'check_attribute', 'check_function', 'check_graph', 'check_model', 'check_node', 'check_sparse_tensor', 'check_tensor', 'check_value_info']
