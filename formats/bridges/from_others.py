"""Makes our models of objects of other packages; `to_others.py` does the opposite. It imports packages when needed."""

from __future__ import annotations

import os
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from formats.errors import TensorDataError
from formats.extras import needed
from formats.ir import walk
from formats.ir.archive_link import ArchiveLink
from formats.ir.model import Model, Tensor
from formats.ir.storage import external_places, with_raw_data
from formats.onnx_compat.protos.classes import ModelProto
from formats.onnx_compat.protos.copies import in_ir
from formats.onnx_compat.protos.message import ProtoMessage
from formats.onnxpb.encryption.ciphertext import Computed
from formats.onnxpb.external.confinement import DataFiles
from formats.onnxpb.external.model import locate_data
from formats.onnxpb.text.textfile import CLASSES
from formats.onnxpb.wire.decoder import decode
from formats.onnxpb.wire.encoder import PROTOBUF_LIMIT_BYTES
from formats.onnxpb.wire.schema import MESSAGES
from formats.tensordata.sources.source import Literal, Source

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


def model_of_object(model: Any) -> Model:
    """The model of the IR for a `ModelProto` of `formats.onnxpb` or of `onnx`, or an `onnx_ir.Model`.

    Raises: TypeError for anything else; FormatError if it cannot be read.
    """
    if isinstance(model, Model):
        return model
    if isinstance(model, ProtoMessage) and model.DESCRIPTOR.ir_class is Model:
        copy: Model = in_ir(model)
        return copy
    kind = type(model)
    if getattr(getattr(model, "DESCRIPTOR", None), "full_name", None) == "onnx.ModelProto":
        return from_onnx(model)
    if kind.__module__.split(".")[0] == "onnx_ir" and kind.__name__ == "Model":
        return from_onnx_ir(model)
    if isinstance(model, (str, bytes, os.PathLike)):
        raise TypeError(f"expected a model, got {kind.__name__}; read it with formats.load or formats.loads")
    raise TypeError(f"expected a model of formats, onnx or onnx_ir, got {kind.__module__}.{kind.__qualname__}")


# onnx


def from_onnx(proto: Any, base_dir: str | os.PathLike[str] | None = None) -> Model:
    """Make a model of an `onnx.ModelProto`; they share no data.

    References to external data are resolved in `base_dir`; without it they are kept, but their data is not available.
    A message of `onnx` of more than 2 GiB loses the unknown fields of its outermost parts.

    For example:

        >>> import onnx
        >>> formats.from_onnx(onnx.load("model.onnx")).graph.name
        'digits'

    Raises: ExternalDataError if external data cannot be or may not be read.
    """
    model: Model = in_ir(proto) if isinstance(proto, ProtoMessage) else _from_protobuf(proto, Model)
    return model if base_dir is None else locate_data(model, Path(base_dir) / "model.onnx")


def _from_protobuf(proto: Any, message_class: type[Any]) -> Any:
    """The object of the IR for a message: from its bytes, or from its fields if there are too many bytes."""
    if (data := _serialized(proto)) is not None:
        return decode(Literal(data), message_class)
    parts: dict[str, Any] = {}
    rest = type(proto)()
    for row in MESSAGES[message_class.message]:
        value = getattr(proto, row.name)
        if row.label == "repeated" and row.kind == "message":
            parts[row.name] = [_from_protobuf(item, CLASSES[row.type_name]) for item in value]
        elif row.label == "repeated":
            getattr(rest, row.name).extend(value)
        elif not proto.HasField(row.name):
            continue
        elif row.kind == "message":
            parts[row.name] = _from_protobuf(value, CLASSES[row.type_name])
        elif row.name == "raw_data":
            parts[row.name] = Literal(value)
        else:
            setattr(rest, row.name, value)
    message = decode(Literal(rest.SerializeToString()), message_class)
    for name, part in parts.items():
        setattr(message, name, part)
    return message


def _serialized(proto: Any) -> bytes | None:
    """The bytes of a message, or `None` if they are too many for protobuf."""
    with needed("google.protobuf", "messages of onnx"):
        from google.protobuf.message import EncodeError as TooLargeError  # type: ignore[import-untyped]

    try:
        data: bytes = proto.SerializeToString()
    except TooLargeError:
        return None
    return data if len(data) <= PROTOBUF_LIMIT_BYTES else None


# onnx_ir


@dataclass(frozen=True)
class WeightForIr:
    """What makes the elements of an `onnx_ir.LazyTensor` of a tensor of ours."""

    tensor: Tensor

    def __call__(self) -> Any:
        """The elements, which map the file that has them if it can be mapped."""
        with needed("onnx_ir", "models of onnx-ir"):
            import onnx_ir

        return onnx_ir.Tensor(self.tensor.numpy(), onnx_ir.DataType(self.tensor.data_type or 0))


@dataclass(frozen=True, slots=True, eq=False)
class LazyWeight(Computed):
    """The bytes of an `onnx_ir.LazyTensor`, which is evaluated whenever they are read."""

    tensor: Any
    nbytes: int
    granule_bytes = 0

    def readinto(self, offset: int, buffer: memoryview) -> None:
        """Evaluate the tensor, and copy from it."""
        self._check_range(offset, len(buffer))
        buffer[:] = self.view()[offset : offset + len(buffer)]

    def view(self) -> memoryview:
        """The bytes of the tensor, evaluated now."""
        data = memoryview(self.tensor.tobytes())
        if data.nbytes != self.nbytes:
            name, size = self.tensor.name, f"{data.nbytes} bytes, not the {self.nbytes} of its shape and type"
            raise TensorDataError(f"the function of the LazyTensor {name!r:.80} gave {size}")
        return data


def from_onnx_ir(model: Any) -> Model:
    """Make a model of an `onnx_ir.Model`: weights in memory are copied, external data stays in its files.

    An initialiser that is a `LazyTensor` is evaluated each time it is read, such as when the model is saved.

    For example:

        >>> import onnx_ir
        >>> formats.from_onnx_ir(onnx_ir.load("model.onnx")).graph.name
        'digits'

    Raises: ExternalDataError if external data cannot be or may not be read.
    """
    with needed("onnx_ir", "models of onnx-ir"):
        import onnx_ir

    directories = {
        (tensor.name, os.fspath(tensor.location)): Path(tensor.base_dir) for tensor in _external_tensors(model)
    }
    weights = {
        name: tensor
        for name, value in model.graph.initializers.items()
        if isinstance(tensor := value.const_value, (onnx_ir.LazyTensor, onnx_ir.Tensor, onnx_ir.PackedTensor))
    }
    shell = _with_references(model, weights)
    try:
        proto: Any = onnx_ir.to_proto(shell)
    except onnx_ir.serde.SerdeError:  # some tensors are messages of ours, which those of `onnx` do not take
        proto = onnx_ir.serde.serialize_model_into(cast("Any", ModelProto()), shell)
    new = from_onnx(proto)
    if new.graph is not None:
        new.graph.initializer = [
            with_raw_data(tensor, _source(weights[tensor.name])) if tensor.name in weights else tensor
            for tensor in new.graph.initializer
        ]
    link = ArchiveLink.of(new)
    files = {directory: DataFiles(directory / "model.onnx", link=link) for directory in directories.values()}
    for where, tensor in walk.external_tensors(new):
        directory = directories[tensor.name, external_places(tensor).get("location", "")]
        tensor.external_source = files[directory].find(tensor, where)
    return new


def _with_references(model: Any, weights: Mapping[str, Any]) -> Any:
    """The `onnx_ir.Model` with references in place of these initialisers; the given model does not change."""
    with needed("onnx_ir", "models of onnx-ir"):
        import onnx_ir

    initializers = []
    for name, value in model.graph.initializers.items():
        if (tensor := weights.get(name)) is not None:
            value = copy(value)
            about = {"shape": tensor.shape, "doc_string": tensor.doc_string, "metadata_props": tensor.metadata_props}
            value.const_value = onnx_ir.ExternalTensor("weights", None, None, tensor.dtype, name=name, **about)
        initializers.append(value)
    graph = model.graph
    new = copy(model)
    new.graph = onnx_ir.GraphView(
        graph.inputs,
        graph.outputs,
        nodes=graph,
        initializers=initializers,
        doc_string=graph.doc_string,
        opset_imports=graph.opset_imports,
        name=graph.name,
        metadata_props=graph.metadata_props,
    )
    return new


def _source(tensor: Any) -> Source:
    """The bytes of a tensor of `onnx_ir` in memory, or of a lazy one."""
    with needed("onnx_ir", "models of onnx-ir"):
        import onnx_ir

    if not isinstance(tensor, onnx_ir.LazyTensor):
        return Literal(tensor.tobytes())
    function = tensor.raw
    return function.tensor.source() if isinstance(function, WeightForIr) else LazyWeight(tensor, tensor.nbytes)


def _external_tensors(model: Any) -> Iterator[Any]:
    with needed("onnx_ir", "models of onnx-ir"):
        import onnx_ir

    for graph in model.graphs():
        values = [value.const_value for value in graph.initializers.values()]
        for node in graph:
            for attribute in node.attributes.values():
                values += attribute.value if isinstance(attribute.value, (list, tuple)) else (attribute.value,)
        yield from (value for value in values if isinstance(value, onnx_ir.ExternalTensor))
