# Written by schemas/generate.py from model_container of onnx; do not edit.
# ruff: noqa
# fmt: off

from typing import Any
import numpy as np
import formats.onnxpb as onnx
from collections.abc import Iterable
def make_large_tensor_proto(location: str, tensor_name: str, tensor_type: int, shape: tuple[int, ...]) -> onnx.TensorProto:
    ...
class ModelContainer:
    model_proto_: Any
    large_initializers: Any

    def __init__(self) -> None:
        ...

    def check_model(self) -> Any:
        ...

    def __getitem__(self, name: str) -> np.ndarray[Any, Any]:
        ...

    @property
    def model_proto(self) -> onnx.ModelProto:
        ...

    @model_proto.setter
    def model_proto(self, model_proto: onnx.ModelProto) -> Any:
        ...

    def enumerate_graph_protos(self) -> Iterable[onnx.GraphProto]:
        ...

    def is_in_memory_external_initializer(self, name: str) -> bool:
        ...

    def set_large_initializers(self, large_initializers: dict[str, np.ndarray[Any, Any]]) -> Any:
        ...

    def check_large_initializers(self) -> None:
        ...

    def save(self, file_path: str, all_tensors_to_one_file: bool=...) -> onnx.ModelProto:
        ...

    def load(self, file_path: str, load_large_initializers: bool=...) -> Any:
        ...
def make_large_model(graph: onnx.GraphProto, large_initializers: dict[str, np.ndarray[Any, Any]] | None=..., **kwargs: Any) -> ModelContainer:
    ...
