"""The packages that only some functions need: the extra of this distribution that installs each, and what to say."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from formats.errors import MissingPackageError

if TYPE_CHECKING:
    from collections.abc import Iterator

DISTRIBUTION = "onnx-formats"


class Extra(NamedTuple):
    """What installs a package, and its name for people, which is also that on PyPI."""

    extra: str
    name: str


PACKAGES = {  # by the name of the import
    "aiohttp": Extra("remote", "aiohttp"),
    "cryptography": Extra("crypto", "cryptography"),
    "distributed": Extra("dask", "distributed"),
    "fsspec": Extra("remote", "fsspec"),
    "google.protobuf": Extra("onnx", "protobuf"),
    "onnx": Extra("onnx", "onnx"),
    "onnx_ir": Extra("onnx-ir", "onnx-ir"),
    "onnxruntime": Extra("onnxruntime", "onnxruntime"),
}


@contextmanager
def needed(package: str, purpose: str) -> Iterator[None]:
    """A context for the import of `package`, which `purpose`, a plural, needs.

    Raises: MissingPackageError if it is not installed, or cannot be imported, saying what to install.
    """
    try:
        yield
    except ImportError as error:
        extra, name = PACKAGES[package]
        install = f"'{DISTRIBUTION}[{extra}]'"
        missing = (error.name or "") if isinstance(error, ModuleNotFoundError) else ""
        is_there = sys.modules.get(package) is not None or missing.split(".")[0] != package.split(".")[0]
        if not is_there:
            reason = f"which is not installed: pip install {install}"
        else:
            reason = f"which is installed, but cannot be imported ({error}): pip install --upgrade {install}"
        raise MissingPackageError(f"{purpose} need the package {name}, {reason}", package) from None
