"""The names that codecs of other packages need, in one stable module; docs/codecs.md explains their use.

Every name is imported when it is first used, so that the import of a codec is fast. Models and their parts, and the
errors, are in `formats` itself.
"""

from __future__ import annotations

from typing import Any

# The names of each module. `python schemas/generate.py` writes `codec.pyi` from this, for type checkers.
_NAMES = {
    "codecs.contract": (
        "HEAD_BYTES READ_DEFAULTS Bundle Change Checksum Codec DataFileOptions Match ReadOptions "
        "Region Runnable Runtime"
    ),
    "tensordata.plan": "SMALL_BYTES Align Digest FilePlan LateWrite Loss PlacedWrite Segment WritePlan lay_out",
    "tensordata.sources.source": "Concat FileSpan Literal Source Transformed",
    "tensordata.sources.transform": "Transform",
    "tensordata.file": "File",
    "ir.dtypes": "BY_NAME BY_NUMBER DATA_TYPES DataType",
    "ir.model": "DEFAULT EXTERNAL",
    "ir.storage": "with_raw_data with_reference",
    "ir.walk": "external_tensors graphs movable_tensors nodes tensors",
    "onnxpb.wire.decoder": "decode",
    "onnxpb.wire.encoder": "encode",
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names.split()}
__all__ = [*_MODULES]


def __getattr__(name: str) -> Any:
    """The name, imported now and found at once afterwards."""
    if name in _MODULES:
        from importlib import import_module

        return globals().setdefault(name, getattr(import_module(f"formats.{_MODULES[name]}"), name))
    raise AttributeError(f"module 'formats.codec' has no attribute {name!r}")


def __dir__() -> list[str]:
    """The names."""
    return sorted(__all__)
