"""The arguments that callers of the library use for a model: a model, its bytes, or its path."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from formats.errors import OptionError
from formats.ir.model import Model
from formats.tensordata.file import is_address, is_stream, or_stream

if TYPE_CHECKING:
    from collections.abc import Iterable


class _Message(Protocol):
    """A message of `formats.onnxpb` or of `onnx`, as a type checker sees it."""

    def SerializeToString(self) -> bytes:  # noqa: N802 - protobuf's name
        """The bytes of the message."""


class _HasGraphs(Protocol):
    """An `onnx_ir.Model`, as a type checker sees it."""

    def graphs(self) -> Iterable[Any]:
        """The graphs of the model."""


class _Readable(Protocol):
    """A binary file object that is open for reading, as a type checker sees it."""

    def read(self, size: int, /) -> bytes:
        """At most `size` bytes; none at the end."""


class _Writable(Protocol):
    """A binary file object that is open for writing, as a type checker sees it."""

    def write(self, data: memoryview, /) -> int | None:
        """The number of bytes that were written."""


AnyModel: TypeAlias = Model | _Message | _HasGraphs
AnySource: TypeAlias = str | os.PathLike[str] | _Readable
AnyDestination: TypeAlias = str | os.PathLike[str] | _Writable


def model_of(model: Any) -> Model:
    """Our model for the argument; the model of another package is converted.

    Raises: TypeError for anything else.
    """
    if isinstance(model, Model):
        return model
    from formats.bridges import from_others

    return from_others.model_of_object(model)


def buffer_of(data: Any) -> memoryview:
    """The bytes of a model, which are not copied.

    Raises: TypeError if the argument is not bytes.
    """
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise TypeError(f"expected the bytes of a model, got {type(data).__name__}; use formats.load to read a file")
    return memoryview(data).cast("B")


def local_path_of(path: Any) -> Path:
    """The path of a model file of this system.

    Raises: OptionError for an address or a stream; TypeError if the argument is not a path.
    """
    local = path_of(path)
    local = or_stream(local)
    kind = "an address" if is_address(local) else "a pipe or a stream" if is_stream(local) else None
    if kind is not None:
        raise OptionError(f"{local} is {kind}, but this works only on local files")
    return local


def shown(file: Path, model: Path) -> Path:
    """The path of a data file below the folder of the model, with this folder as the user wrote it.

    Readers find data files without links on the way, from the root of the system.
    """
    if is_address(model) or is_stream(model):
        return file
    folder = os.path.realpath(model.parent)
    return model.parent / file.relative_to(folder) if file.is_relative_to(folder) else file


def path_of(path: Any) -> Path:
    """The path of a model file: an `Address` for an address or a `UPath` with one, a `Stream` for a file object.

    Raises: OptionError for an empty path or one with a zero byte; TypeError if the argument is not a path.
    """
    if isinstance(path, str) and (not path or "\0" in path):
        raise OptionError("a path contains a zero byte, which no file name can have" if path else "a path is empty")
    if isinstance(path, str) and ("://" in path or "::" in path):
        from formats.tensordata.remote import address

        return address.parse_address(path) if address.has_scheme(path) else Path(path)
    if is_address(path) or hasattr(path, "storage_options"):  # the second is an object of universal-pathlib
        from formats.tensordata.remote import address

        return path if isinstance(path, address.Address) else address.of_universal(path)
    if is_stream(path):
        return path
    if isinstance(path, (str, os.PathLike)):
        return Path(path)
    if hasattr(path, "read") or hasattr(path, "write"):
        from formats.tensordata import streams

        return streams.of_object(path)
    hint = ""
    if isinstance(path, (bytes, bytearray, memoryview)):
        hint = "; use formats.loads to read a model from bytes, and formats.dumps to get the bytes of a model"
    raise TypeError(f"expected the path of a model file, got {type(path).__name__}{hint}")
