"""A plugin of pytest: modules of `onnx` get our message classes instead of the generated ones.

A check for a message of the protobuf runtime accepts ours, too.
"""

from __future__ import annotations

import sys
from abc import ABC
from importlib import import_module
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import google.protobuf.message

from formats.onnx_compat.protos import classes
from formats.onnx_compat.protos.message import ProtoMessage


class AnyMessage(ABC):  # noqa: B024 - other classes register
    """A message of either kind."""


def swap() -> None:
    """Put our classes in the place where `onnx` looks for its own, before it does so."""
    folder = Path(str(find_spec("onnx").origin)).parent
    real: Any = spec_from_file_location("real_onnx_ml_pb2", folder / "onnx_ml_pb2.py")
    real.loader.exec_module(module_from_spec(real))  # another generated module uses the definitions of this one
    for name in ("onnx.onnx_ml_pb2", "onnx.onnx_data_pb2"):
        sys.modules[name] = ModuleType(name)
        vars(sys.modules[name]).update({key: value for key, value in vars(classes).items() if not key.startswith("__")})
    assert import_module("onnx").ModelProto is classes.ModelProto
    AnyMessage.register(google.protobuf.message.Message)
    AnyMessage.register(ProtoMessage)
    google.protobuf.message.Message = AnyMessage


swap()
