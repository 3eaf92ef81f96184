"""The packages that only some functions need, and the extra of this distribution that installs each."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from formats.errors import MissingPackageError

if TYPE_CHECKING:
    from collections.abc import Iterator

DISTRIBUTION = "onnx-formats"
EXTRAS = {  # by the name of the import
    "aiohttp": "remote",
    "cryptography": "crypto",
    "distributed": "dask",
    "fsspec": "remote",
    "google.protobuf": "onnx",
    "onnx": "onnx",
    "onnx_ir": "onnx-ir",
    "onnxruntime": "onnxruntime",
}
INSTALLED_AS = {"google.protobuf": "protobuf", "onnx_ir": "onnx-ir"}  # those with another name of the import


@contextmanager
def needed(package: str, purpose: str) -> Iterator[None]:
    """A context for the import of `package`, which `purpose`, a plural, needs.

    Raises: MissingPackageError if it is not installed, or cannot be imported, saying what to install.
    """
    try:
        yield
    except ImportError as error:
        missing = (error.name or "") if isinstance(error, ModuleNotFoundError) else ""
        extra, name = f"'{DISTRIBUTION}[{EXTRAS[package]}]'", INSTALLED_AS.get(package, package)
        is_there = sys.modules.get(package) is not None or missing.split(".")[0] != package.split(".")[0]
        if not is_there:
            reason = f"which is not installed: pip install {extra}"
        else:
            reason = f"which is installed, but cannot be imported ({error}): pip install --upgrade {extra}"
        raise MissingPackageError(f"{purpose} need the package {name}, {reason}", package) from None
