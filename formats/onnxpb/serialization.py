"""Formats by name, as in `onnx.serialization`: also formats that a program registers.

    from formats.onnxpb import serialization

    serialization.registry.register(MySerializer())
    formats.onnxpb.save(model, "model.mine", format="mine")

Other formats are looked up in the registry of `onnx`, if it is installed: its "onnxtxt", which needs the parser of
`onnx`, and formats that were registered there.

Spec: the `onnx` package (1.23), `onnx.serialization`.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Protocol

from formats.errors import UnknownFormatError
from formats.extras import needed
from formats.onnxpb.codecs import CODEC, JSON_CODEC, TEXT_CODEC
from formats.onnxpb.text import protojson, textproto
from formats.onnxpb.wire.decoder import decode
from formats.onnxpb.wire.encoder import encoded
from formats.tensordata.sources.source import Literal

if TYPE_CHECKING:
    from collections.abc import Collection

    from formats.codecs.contract import Codec

__all__ = ["ProtoSerializer", "registry"]

OF_ONNX = {"onnxtxt": (".onnxtxt", ".onnxtext")}  # the formats that only `onnx` has


class ProtoSerializer(Protocol):
    """Converts messages to bytes of a format and back; `file_extensions` begin with a dot."""

    supported_format: str
    file_extensions: Collection[str]

    def serialize_proto(self, proto: Any) -> Any:
        """The bytes of a message."""

    def deserialize_proto(self, serialized: Any, proto: Any) -> Any:
        """The message in these bytes: either `proto`, an empty one of the wanted class, or a new one."""


class UnknownSerializerError(UnknownFormatError, ValueError):
    """There is no format with this name; also a ValueError, as in `onnx`."""


class _OwnSerializer:
    """One of the formats of `formats`, as a serializer of `onnx`."""

    def __init__(self, name: str, codec: Codec) -> None:
        self.supported_format = name
        others = (".pb",) if codec is CODEC else ()
        self.file_extensions: Collection[str] = frozenset((*codec.extensions, *others))
        self.codec = codec

    def serialize_proto(self, proto: Any) -> bytes:
        """The bytes of a message."""
        from formats.onnx_compat.protos.classes import unwrap

        message = unwrap(proto)
        if self.codec is TEXT_CODEC:
            return textproto.to_text(message).encode()
        if self.codec is JSON_CODEC:
            return protojson.to_json(message).encode()
        return encoded(message)

    def deserialize_proto(self, serialized: bytes | str, proto: Any) -> Any:
        """The message `proto`, which is now the one in these bytes.

        Raises: TypeError for anything but bytes, or text if the format is text; DecodeError.
        """
        from formats.onnx_compat.protos.classes import wrap

        if not isinstance(serialized, bytes if self.codec is CODEC else (bytes, str)):
            raise TypeError(f"{self.supported_format} is read from bytes, not from {type(serialized).__name__}")
        message_class = proto.DESCRIPTOR.ir_class
        if isinstance(serialized, str):
            serialized = serialized.encode()
        if self.codec is TEXT_CODEC:
            message = textproto.parse_text(serialized.decode(), message_class)
        elif self.codec is JSON_CODEC:
            message = protojson.parse_json(serialized.decode(), message_class)
        else:
            message = decode(Literal(serialized), message_class)
        proto.CopyFrom(wrap(message))
        return proto


class _OfOnnx:
    """A serializer of `onnx` that accepts and returns our messages: these are passed as bytes if the classes differ."""

    def __init__(self, serializer: Any) -> None:
        self.serializer = serializer
        self.supported_format: str = serializer.supported_format
        self.file_extensions: Collection[str] = serializer.file_extensions

    def serialize_proto(self, proto: Any) -> Any:
        """The bytes that `onnx` makes of a message."""
        return self.serializer.serialize_proto(self._theirs(proto, proto.SerializeToString()))

    def deserialize_proto(self, serialized: Any, proto: Any) -> Any:
        """The message that `onnx` reads from these bytes, in the class of `proto`."""
        message = self.serializer.deserialize_proto(serialized, self._theirs(proto, b""))
        if isinstance(message, type(proto)):
            return message
        proto.ParseFromString(message.SerializeToString())
        return proto

    def _theirs(self, proto: Any, data: bytes) -> Any:
        """The message of `onnx` with these bytes, or the message itself if it has this class."""
        with needed("onnx", f"files in the format {self.supported_format}"):
            import onnx
        message_class = getattr(onnx, type(proto).__name__)
        return proto if isinstance(proto, message_class) else message_class.FromString(data)


class _Registry:
    """The formats by name and by extension; a registered one replaces an earlier one."""

    def __init__(self) -> None:
        own = {"protobuf": CODEC, "textproto": TEXT_CODEC, "json": JSON_CODEC}
        self._own: dict[str, ProtoSerializer] = {name: _OwnSerializer(name, codec) for name, codec in own.items()}
        self._registered: dict[str, ProtoSerializer] = {}

    def register(self, serializer: ProtoSerializer) -> None:
        """Register a serializer, so that `load` and `save` use it for its format and its extensions."""
        self._registered[serializer.supported_format] = serializer

    def get(self, fmt: str) -> ProtoSerializer:
        """The serializer for a format.

        Raises: UnknownFormatError, which is also a ValueError here, if there is none; MissingPackageError if it belongs
        to `onnx`, which is not installed.
        """
        serializer = self.registered(fmt) or self._own.get(fmt)
        if serializer is None:
            names = ", ".join((*self._own, *OF_ONNX, *self._registered))
            raise UnknownSerializerError(f"no serializer is called {fmt!r}; there are {names}")
        return serializer

    def registered(self, fmt: str) -> ProtoSerializer | None:
        """The serializer for a format that is not one of ours, or that was registered instead of one."""
        if fmt in self._registered:
            return self._registered[fmt]
        if fmt in self._own or (fmt not in OF_ONNX and "onnx" not in sys.modules):
            return None
        with needed("onnx", f"files in the format {fmt}"):
            from onnx import serialization

        try:
            return _OfOnnx(serialization.registry.get(fmt))
        except ValueError:
            return None

    def get_format_from_file_extension(self, file_extension: str) -> str | None:
        """The format of files with this extension, or `None`; the last registered one counts."""
        serializers: list[tuple[str, ProtoSerializer]] = [*reversed(self._registered.items()), *self._own.items()]
        for name, serializer in serializers:
            if file_extension in serializer.file_extensions:
                return name
        fmt = next((name for name, extensions in OF_ONNX.items() if file_extension in extensions), None)
        if fmt is None and "onnx" in sys.modules:
            with needed("onnx", f"files with the extension {file_extension}"):
                from onnx import serialization
            fmt = serialization.registry.get_format_from_file_extension(file_extension)
        return fmt


registry = _Registry()
