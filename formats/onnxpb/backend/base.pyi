# Written by schemas/generate.py from backend.base of onnx; do not edit.
# ruff: noqa
# fmt: off

from typing import Any
from formats.onnxpb import ModelProto
from formats.onnxpb import NodeProto
from collections.abc import Sequence
import numpy
class DeviceType:
    CPU: Any
    CUDA: Any
class Device:
    type: Any
    device_id: Any

    def __init__(self, device: str) -> None:
        ...
def namedtupledict(typename: str, field_names: Sequence[str], *args: Any, **kwargs: Any) -> type[tuple[Any, ...]]:
    ...
class BackendRep:

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        ...
class Backend:

    @classmethod
    def is_compatible(cls, model: ModelProto, device: str=..., **kwargs: Any) -> bool:
        ...

    @classmethod
    def prepare(cls, model: ModelProto, device: str=..., **kwargs: Any) -> BackendRep | None:
        ...

    @classmethod
    def run_model(cls, model: ModelProto, inputs: Any, device: str=..., **kwargs: Any) -> tuple[Any, ...]:
        ...

    @classmethod
    def run_node(cls, node: NodeProto, inputs: Any, device: str=..., outputs_info: Sequence[tuple[numpy.dtype[Any], tuple[int, ...]]] | None=..., **kwargs: dict[str, Any]) -> tuple[Any, ...] | None:
        ...

    @classmethod
    def supports_device(cls, device: str) -> bool:
        ...
