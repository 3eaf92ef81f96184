"""The options of the library as keywords, for type checkers and editors.

Written by schemas/generate.py from the classes of options; do not edit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from formats.onnxpb.keys import Key
    from formats.tensordata.source import Source


class ReadKeywords(TypedDict, total=False):
    """The options of `formats.load` and of all that reads."""

    max_depth: int
    hard_links: bool
    key: Key | str | bytes | None
    allow_encryption: int | None
    storage_options: Mapping[str, Any] | None
    retries: int


class RaiseKeywords(TypedDict, total=False):
    """The options of `formats.raise_model`."""

    pin: Mapping[str, str] | None


class WriteKeywords(TypedDict, total=False):
    """The options of `formats.save`: of the engine, of raising, of a runtime, and of the format that is written."""

    threads: int
    chunk_bytes: int | str
    in_flight_bytes: int | str
    overwrite: bool
    parents: bool
    dry_run: bool
    fsync: bool | None
    progress: Callable[[int, int], None] | None
    storage_options: Mapping[str, Any] | None
    retries: int
    pin: Mapping[str, str] | None
    runtime: str | None
    external_data: str | bool | None
    size_threshold: int | str
    alignment: int | str | None
    max_external_file_size: int | str
    one_file_per_tensor: bool
    checksum: bool
    data_names: str | None
    link: bool
    dedup: bool
    metadata: Mapping[str, str] | None
    onnx_hash: bool | None
    exact: bool
    rten_target: str | None
    rten_version: int
    source_hash: Source | None
    key: Key | str | bytes | None
    encryption: int


class ConvertKeywords(TypedDict, total=False):
    """The options of `formats.convert`: those of `load` and of `save`."""

    max_depth: int
    hard_links: bool
    key: Key | str | bytes | None
    allow_encryption: int | None
    storage_options: Mapping[str, Any] | None
    retries: int
    threads: int
    chunk_bytes: int | str
    in_flight_bytes: int | str
    overwrite: bool
    parents: bool
    dry_run: bool
    fsync: bool | None
    progress: Callable[[int, int], None] | None
    pin: Mapping[str, str] | None
    runtime: str | None
    external_data: str | bool | None
    size_threshold: int | str
    alignment: int | str | None
    max_external_file_size: int | str
    one_file_per_tensor: bool
    checksum: bool
    data_names: str | None
    link: bool
    dedup: bool
    metadata: Mapping[str, str] | None
    onnx_hash: bool | None
    exact: bool
    rten_target: str | None
    rten_version: int
    source_hash: Source | None
    encryption: int


class JobKeywords(ConvertKeywords, total=False):
    """The options of `formats.convert_many`: all that `formats.convert` has."""

    from_format: str | None
    to_format: str | None
    strict: bool
    lenient: bool


class ShareKeywords(TypedDict, total=False):
    """The options of `formats.share`: its own, those of `load` and of the engine."""

    external_data: str
    size_threshold: int | str
    alignment: int | str
    max_depth: int
    hard_links: bool
    key: Key | str | bytes | None
    allow_encryption: int | None
    storage_options: Mapping[str, Any] | None
    retries: int
    threads: int
    chunk_bytes: int | str
    in_flight_bytes: int | str
    overwrite: bool
    parents: bool
    dry_run: bool
    fsync: bool | None
    progress: Callable[[int, int], None] | None
