"""External data tensor by tensor, with the names and behaviour of `onnx.external_data_helper`.

These functions change the message that they are given, as those of `onnx` do; `save` and `load` do not need them. They
write whole files through the engine, so that old files stay until the new ones are complete, and read only what the
policy for external data allows.

Spec: the `onnx` package (1.23), `onnx.external_data_helper`.
"""

from __future__ import annotations

import os
import re
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid1

from formats.errors import ExternalDataError
from formats.ir import walk
from formats.ir.archive_link import ArchiveLink
from formats.ir.model import DEFAULT, EXTERNAL, Message, StringStringEntry, Tensor
from formats.ir.storage import external_places
from formats.onnx_compat.loading import keep, read_small_weights
from formats.onnx_compat.protos.classes import unwrap
from formats.onnx_compat.protos.copies import in_ir
from formats.onnx_compat.protos.message import ProtoMessage
from formats.onnx_compat.protos.values import protobuf_errors
from formats.onnx_compat.saving import SerializeOptions, check_place, is_initialiser, moves_of
from formats.onnxpb.external.confinement import DataFiles
from formats.onnxpb.external.data_files import ExternalLayout
from formats.onnxpb.options import OnnxOptions
from formats.tensordata.engine import EngineOptions, execute
from formats.tensordata.file import File
from formats.tensordata.plan import FilePlan, PlacedWrite, WritePlan

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "ExternalDataInfo",
    "convert_model_from_external_data",
    "convert_model_to_external_data",
    "load_external_data_for_model",
    "load_external_data_for_tensor",
    "remove_external_data_field",
    "save_external_data",
    "set_external_data",
    "uses_external_data",
    "write_external_data_tensors",
]

MAX_PADDING_BYTES = 1 << 16  # the largest gap between the end of a data file and an offset
_FILE_NAME = re.compile('[^<>:;,?"*|/]+')


def __getattr__(name: str) -> Any:
    """A name that only the module of `onnx` has: its functions for parts of a model, over our classes."""
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from formats.onnx_compat.installation import OWN_EXTERNAL_DATA, of_onnx

    return getattr(of_onnx(OWN_EXTERNAL_DATA), name)


class ExternalDataInfo:
    """The content of a tensor's reference; `offset` and `length` are in bytes, and `None` if they are missing.

    Raises: ValueError for an offset or a length that is not a number of bytes.
    """

    def __init__(self, tensor: Any) -> None:
        places = external_places(tensor)
        self.location = places.get("location", "")
        self.offset = _number(places, "offset")
        self.length = _number(places, "length")
        self.checksum = places.get("checksum")
        self.basepath = places.get("basepath", "")


def _number(places: dict[str, str], key: str) -> int | None:
    if key not in places:
        return None
    value = int(places[key])
    if value < 0:
        raise ValueError(f"the {key} of external data must not be negative, found {value}")
    return value


def uses_external_data(tensor: Any) -> bool:
    """Whether the elements of a tensor are in another file."""
    return bool(tensor.data_location == EXTERNAL)


def set_external_data(
    tensor: Any,
    location: str,
    offset: int | None = None,
    length: int | None = None,
    checksum: str | None = None,
    basepath: str | None = None,
) -> None:
    """Mark a tensor with raw data as external: `save` writes the data to `location`, next to the model.

    Raises: ValueError if it has no raw data.
    """
    if not _has_raw_data(tensor):
        raise ValueError(f"tensor {tensor.name!r} has no raw data that could be external")
    _refer(tensor, location, offset, length, checksum, basepath)


def _has_raw_data(tensor: Any) -> bool:
    """Whether a tensor, a message or one of the IR, has raw data."""
    return tensor.raw_data is not None if isinstance(tensor, Tensor) else tensor.HasField("raw_data")


def _refer(tensor: Any, location: str, offset: Any, length: Any, checksum: Any = None, basepath: Any = None) -> None:
    values = {"location": location, "offset": offset, "length": length, "checksum": checksum, "basepath": basepath}
    tensor.data_location = EXTERNAL
    del tensor.external_data[:]
    for key, value in values.items():
        if value is None:
            continue
        if isinstance(tensor, Tensor):
            tensor.external_data.append(StringStringEntry(key, str(value)))
        else:
            tensor.external_data.add(key=key, value=str(value))


def _in_ir(message: Any, tensors: dict[int, Any]) -> Any:
    """A message as an object of the IR; `tensors` gets the given tensor of each tensor in it, by its id.

    Raises: TypeError for a message of another package, of which a change here would be lost.
    """
    if isinstance(message, Message):
        tensors.update((id(tensor), tensor) for _, tensor in walk.tensors(message))
        return message
    if isinstance(message, ProtoMessage):
        return in_ir(message, tensors)
    kind = f"{type(message).__module__}.{type(message).__qualname__}"
    raise TypeError(f"expected a message of formats.onnxpb or of formats, got {kind}; see onnx.external_data_helper")


def remove_external_data_field(tensor: Any, field_key: str) -> None:
    """Remove the entries with this key from the reference of a tensor."""
    entries = tensor.external_data
    for index in reversed(range(len(entries))):
        if entries[index].key == field_key:
            del entries[index]


def convert_model_to_external_data(
    model: Any,
    all_tensors_to_one_file: bool = True,
    location: str | None = None,
    size_threshold: int = 1024,
    convert_attribute: bool = False,
) -> None:
    """Mark raw data of at least `size_threshold` bytes as external, so that `save` writes them to files.

    All go to `location`, by default a unique name, or each to a file with the name of its tensor. Only the data of
    initialisers are marked; with `convert_attribute`, all are.

    Raises: ValueError for an absolute location; FileExistsError if that file exists.
    """
    if location and all_tensors_to_one_file:
        if os.path.isabs(location):  # noqa: PTH117 - a text, of which the answer is part of the contract
            raise ValueError("the location must be relative to the model")
        if Path(location).exists():
            raise FileExistsError(f"the data file exists already: {location}")
    one_file = location or f"{uuid1()}.data"
    originals: dict[int, Any] = {}
    for where, tensor in walk.tensors(_in_ir(model, originals)):
        source = tensor.raw_data
        if source is None or source.nbytes < size_threshold or not (convert_attribute or is_initialiser(where)):
            continue
        name = tensor.name or ""
        own_file = name if _FILE_NAME.fullmatch(name) else str(uuid1())
        set_external_data(originals[id(tensor)], one_file if all_tensors_to_one_file else own_file)


def convert_model_from_external_data(model: Any) -> None:
    """Remove the mark from tensors that are marked as external; they keep their raw data.

    Raises: ValueError if one has none, because they were not loaded.
    """
    originals: dict[int, Any] = {}
    for where, tensor in walk.external_tensors(_in_ir(model, originals)):
        if tensor.raw_data is None:
            raise ValueError(f"{where}: the tensor has no raw data; load its external data first")
        _inline(originals[id(tensor)])


def _inline(tensor: Any) -> None:
    """Remove the mark of a tensor."""
    tensor.data_location = DEFAULT
    del tensor.external_data[:]


def load_external_data_for_tensor(tensor: Any, base_dir: str | os.PathLike[str]) -> None:
    """Make the external data of a tensor its raw data; if they are large, they stay in their file until they are read.

    Raises: ExternalDataError if they are missing or may not be read; OSError.
    """
    originals: dict[int, Any] = {}
    ir_tensor = _in_ir(tensor, originals)
    with protobuf_errors():
        _load([("", ir_tensor)], originals, DataFiles(Path(base_dir) / "model.onnx"))


def load_external_data_for_model(model: Any, base_dir: str | os.PathLike[str]) -> None:
    """Make all external data of a model raw data, as `load_external_data_for_tensor` does.

    Raises: ExternalDataError if they are missing or may not be read; OSError.
    """
    originals: dict[int, Any] = {}
    ir_model = _in_ir(model, originals)
    with protobuf_errors():
        files = DataFiles(Path(base_dir) / "model.onnx", link=ArchiveLink.of(ir_model))
        _load(walk.external_tensors(ir_model), originals, files)


def _load(tensors: Iterable[tuple[str, Tensor]], originals: dict[int, Any], files: DataFiles) -> None:
    loaded = []
    for where, tensor in list(tensors):
        source, original = files.find(tensor, where), originals[id(tensor)]
        values = vars(original)  # sources are the same in a message and in the IR
        values["raw_data"] = source
        values.pop("external_source", None)
        _inline(original)
        loaded.append((where, original))
    read_small_weights(loaded)
    keep(vars(original)["raw_data"] for _, original in loaded)


def save_external_data(tensor: Any, base_path: str | os.PathLike[str]) -> None:
    """Append the raw data of a tensor to the file that its reference names, in the folder `base_path`.

    The reference gets the offset and the length; the tensor keeps its raw data. If the reference has an offset, it must
    be the end of the file, or up to 64 KiB after it.

    Raises: ExternalDataError if there are no raw data, for another offset, and for a location outside; OSError.
    """
    message: Tensor = unwrap(tensor)
    info = ExternalDataInfo(message)
    with protobuf_errors():
        if message.raw_data is None:
            raise ExternalDataError(f"tensor {message.name!r} has no raw data")
        model_path = Path(base_path) / "model.onnx"
        check_place(info.location, model_path, with_model=False)
        path = model_path.parent / info.location
        old = DataFiles(model_path).open(info.location).span() if path.exists() else None
        size = old.nbytes if old else 0
        offset = size if info.offset is None else info.offset
        if not 0 <= offset - size <= MAX_PADDING_BYTES:
            allowed = f"the end of the file ({size}) and {size + MAX_PADDING_BYTES}"
            raise ExternalDataError(
                f"the offset {offset} of tensor {message.name!r} must be between {allowed}", path=path
            )
        data = message.raw_data
        writes = [PlacedWrite(0, old)] if old is not None and size else []
        writes += [PlacedWrite(offset, data)] if data.nbytes else []
        file = FilePlan(path, offset + data.nbytes, tuple(writes))
        execute(WritePlan((file,)), EngineOptions(overwrite=True))
    _refer(tensor, info.location, offset, data.nbytes)


def write_external_data_tensors(model: Any, filepath: str | os.PathLike[str]) -> Any:
    """Write the raw data of all tensors that are marked as external to the files that these name, in folder `filepath`.

    The files are replaced, and the tensors refer to them; returns `model`. In a file, tensors whose references have
    offsets are first, in the order of these, and the others are behind them.

    Raises: ExternalDataError for a location outside; OSError.
    """
    path = Path(filepath) / "model.onnx"
    outside = ExternalLayout(OnnxOptions(external_data=True, alignment=1))
    originals: dict[int, Any] = {}
    ir_model = _in_ir(model, originals)
    with protobuf_errors():
        moves = [move for move in moves_of(ir_model, path, SerializeOptions()) if move.location is not None]
        offsets = {id(tensor): ExternalDataInfo(tensor).offset for tensor, _, _ in moves}
        moves.sort(key=lambda move: inf if (offset := offsets[id(move.tensor)]) is None else offset)
        for tensor, source, location in moves:
            check_place(location or "", path, with_model=False)
            outside.add(tensor, source, location)
        names = outside.names(path)
        files = [laid_out.plan(path.parent / name, "") for laid_out, name in zip(outside.files, names, strict=True)]
        for file in files:
            execute(WritePlan((file,)), EngineOptions(overwrite=True))
        spans = [File.open(file.path).span() for file in files]
    for tensor, _, location in moves:
        place, original = outside.places[id(tensor)], originals[id(tensor)]
        _refer(original, location or "", place.offset, place.nbytes)
        vars(original).pop("raw_data", None)
        vars(original)["external_source"] = spans[place.file].slice(place.offset, place.nbytes)
    return model
