# Written by schemas/generate.py from reference.reference_evaluator of onnx; do not edit.
# ruff: noqa
# fmt: off

from typing import Any
import numpy as np
from formats.onnxpb.onnx_pb import FunctionProto
from formats.onnxpb.onnx_pb import TensorProto
from formats.onnxpb.reference import op_run
from onnx.reference.shape_annotation_checker import SymbolBindings
class ReferenceEvaluator:
    check_shape_annotations_: Any
    output_types_: Any
    input_types_: Any
    proto_: Any
    functions_: Any
    attributes_: Any
    verbose: Any
    new_ops_: Any
    container_: Any
    onnx_graph_: Any
    opsets_: Any
    input_names_: Any
    output_names_: Any
    inits_: Any
    nodes_: Any
    all_types_: Any

    def __init__(self, proto: Any, opsets: dict[str, int] | None=..., functions: list[ReferenceEvaluator | FunctionProto] | None=..., verbose: int=..., new_ops: list[type[op_run.OpRun]] | None=..., check_shape_annotations: bool=...) -> None:
        ...

    def retrieve_external_data(self, initializer: TensorProto) -> np.ndarray[Any, Any]:
        ...

    @property
    def input_names(self) -> Any:
        ...

    @property
    def input_types(self) -> Any:
        ...

    @property
    def output_names(self) -> Any:
        ...

    @property
    def output_types(self) -> Any:
        ...

    @property
    def opsets(self) -> Any:
        ...

    @property
    def has_linked_attribute(self) -> Any:
        ...

    def __str__(self) -> str:
        ...

    def get_result_types(self, name: str, exc: bool=...) -> Any:
        ...

    def run(self, output_names: Any, feed_inputs: dict[str, Any], attributes: dict[str, Any] | None=..., intermediate: bool=..., check_shape_annotations: bool | None=..., _bindings: SymbolBindings | None=...) -> dict[str, Any] | list[Any]:
        ...
