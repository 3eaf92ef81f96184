"""The packages that only some functions need, and the extra of this distribution that installs each."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from formats.errors import MissingPackageError

if TYPE_CHECKING:
    from collections.abc import Iterator

DISTRIBUTION = "onnx-formats"
EXTRAS = {
    "cryptography": "crypto",
    "onnx": "onnx",
    "distributed": "dask",
    "google": "onnx",
    "onnx_ir": "onnx-ir",
    "onnxruntime": "onnxruntime",
}


@contextmanager
def needed(package: str, purpose: str) -> Iterator[None]:
    """A context for the import of `package`, which `purpose`, a plural, needs.

    Raises: MissingPackageError if it is not installed, saying how to install it.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] != package:  # it is installed, but a package that it needs is not
            raise
        command = f"pip install '{DISTRIBUTION}[{EXTRAS[package]}]'"
        message = f"{purpose} need the package {package}, which is not installed: {command}"
        raise MissingPackageError(message, package) from None
