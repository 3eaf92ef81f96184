# Written by schemas/generate.py from reference.op_run of onnx; do not edit.
# ruff: noqa
# fmt: off

import abc
from typing import Any
import numpy as np
import formats.onnxpb as onnx
from collections.abc import Sequence
class RuntimeTypeError(RuntimeError):
    ...
class RuntimeContextError(RuntimeError):
    ...
class RuntimeImplementationError(NotImplementedError):
    ...
class DefaultNone:
    ...
class RefAttrName:
    name: Any

    def __init__(self, name: str) -> None:
        ...

    def __repr__(self) -> str:
        ...
class OnnxType:
    type_proto: Any

    def __init__(self, type_proto: onnx.TypeProto) -> None:
        ...

    def __repr__(self) -> str:
        ...
class SparseTensor:
    values: Any
    indices: Any
    shape: Any

    def __init__(self, values: np.ndarray[Any, Any], indices: np.ndarray[Any, Any], shape: tuple[int]) -> None:
        ...

    @property
    def dtype(self) -> Any:
        ...
def to_sparse_tensor(att: onnx.AttributeProto) -> SparseTensor:
    ...
class Graph:
    __slots__: Any
    g: Any

    def __init__(self, g: onnx.GraphProto) -> None:
        ...
class OpRun(abc.ABC):
    op_domain: Any
    onnx_node: Any
    run_params: Any
    has_subgraph: Any

    def __init__(self, onnx_node: onnx.NodeProto, run_params: dict[str, Any], schema: Any=...) -> None:
        ...

    @staticmethod
    def implicit_inputs(graph: onnx.GraphProto) -> list[str]:
        ...

    @property
    def input(self) -> Sequence[str]:
        ...

    @property
    def output(self) -> Sequence[str]:
        ...

    @property
    def op_type(self) -> str:
        ...

    @property
    def domain(self) -> str:
        ...

    def need_context(self) -> bool:
        ...

    def __str__(self) -> str:
        ...

    def run(self, *args: Any, linked_attributes: Any=..., context: Any=..., bindings: Any=...) -> Any:
        ...

    @classmethod
    def infer_name(cls) -> Any:
        ...

    @classmethod
    def make_node(cls, n_inputs: int | None=..., n_outputs: int | None=..., **kwargs: Any) -> onnx.NodeProto:
        ...

    @classmethod
    def create(cls, n_inputs: int | None=..., n_outputs: int | None=..., verbose: int=..., **kwargs: Any) -> Any:
        ...

    @classmethod
    def eval(cls, *args: list[Any], n_outputs: int | None=..., verbose: int=..., **kwargs: Any) -> Any:
        ...
class OpRunExpand(OpRun):

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        ...
class OpFunction(OpRun):
    impl_: Any
    attributes_: Any

    def __init__(self, onnx_node: onnx.NodeProto, run_params: dict[str, Any] | None, impl: Any=..., attributes: dict[str, Any] | None=...) -> None:
        ...
class OpFunctionContextDependant(OpFunction):
    parent: Any
    schema_: Any

    def __init__(self, onnx_node: onnx.NodeProto, run_params: dict[str, Any] | None, parent: Any=...) -> None:
        ...
