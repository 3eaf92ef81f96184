# Written by schemas/generate.py from utils of onnx; do not edit.
# ruff: noqa
# fmt: off

import os
from formats.onnxpb.onnx_pb import ModelProto
from typing import Any
class Extractor:
    model: Any
    graph: Any
    initializers: Any
    value_infos: Any
    outmap: Any

    def __init__(self, model: ModelProto) -> None:
        ...

    def extract_model(self, input_names: list[str], output_names: list[str]) -> ModelProto:
        ...
def extract_model(input_path: str | os.PathLike[str], output_path: str | os.PathLike[str], input_names: list[str], output_names: list[str], check_model: bool=..., infer_shapes: bool=...) -> None:
    ...
