"""RTen: .rten files, versions 1 and 2."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from formats.codecs.contract import READ_DEFAULTS, Codec, Match, Runtime
from formats.errors import OptionError
from formats.rten.options import METADATA_KEYS, RtenOptions

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from formats.codecs.contract import Checksum, ReadOptions, Region, Runnable
    from formats.ir.model import Model
    from formats.tensordata.plan import Loss, WritePlan
    from formats.tensordata.sources.source import Source


class RtenRuntime(Runtime):
    """RTen's loader of ONNX."""

    title = "RTen"
    data_alignment = 4

    def runnable(self, model: Model, exact: bool = False) -> Runnable:
        """The model, in ONNX's operators, as ONNX that RTen's own loader runs."""
        from formats.rten.onnx_loader.passes import runnable

        return runnable(model, exact)

    def check_name(self, data_file: str) -> None:
        """Raises OptionError unless the extension begins with "data" or "onnx_data".

        Spec: RTen, model/external_data.rs.
        """
        extension = data_file.rpartition(".")[2]
        if not extension.startswith(("data", "onnx_data")) or data_file.startswith(".data"):
            raise OptionError(f"`external_data` is {data_file!r}, but RTen needs a name such as model.onnx.data")

    def releases(self) -> Sequence[str]:
        """The known releases of RTen, the oldest first."""
        from formats.rten.target import TARGETS

        return tuple(TARGETS)


class RtenCodec(Codec):
    """The files of RTen, in its operators."""

    name = "rten"
    title = "RTen"
    extensions = (".rten",)
    options = RtenOptions
    domain = "rten"
    runtime = RtenRuntime()
    only_runtime = "rten"
    is_mapped = True
    metadata_keys = METADATA_KEYS

    def sniff(self, head: bytes, nbytes: int) -> Match:
        """How much the first bytes of a file look like a .rten file; version 1 has no magic number."""
        from formats.rten.header import is_plausible_v1, is_v2

        if is_v2(head):
            return Match.STRONG
        return Match.WEAK if is_plausible_v1(head, nbytes) else Match.NONE

    def read(self, source: Source, path: Path | None, options: ReadOptions = READ_DEFAULTS) -> Model:
        """The model in `source`, whose nodes are operators of RTen."""
        from formats.rten.model import read_model

        return read_model(source)

    def plan(self, model: Model, destination: Path, options: RtenOptions) -> WritePlan:
        """How to write `model` to `destination`."""
        from formats.rten.model import plan_model

        return plan_model(model, destination, options)

    def with_original(self, options: RtenOptions, original: Source, codec: Codec) -> RtenOptions:
        """The options with the bytes of an `.onnx` file, whose hash the new file may contain."""
        if codec.name != "onnx" or options.source_hash is not None:
            return options
        return replace(options, source_hash=original)

    def raise_model(self, model: Model, pin_types: Mapping[str, str]) -> tuple[Model, tuple[Loss, ...]]:
        """The model, read by `read`, in ONNX's operators, and the losses."""
        from formats.rten.raising.model import raise_model

        return raise_model(model, pin_types)

    def regions(self, source: Source) -> Iterator[Region]:
        """The header and the model section of the file in `source`."""
        from formats.rten.header import regions_of

        return regions_of(source)

    def checksums(self, source: Source, model: Model, original: Source | None) -> Iterator[Checksum]:
        """The SHA-256 of the converted file, if the model contains it."""
        from formats.rten.header import checksums_of

        return checksums_of(model, original)

    def releases_reading(self, source: Source, model: Model) -> Mapping[str, Sequence[str]]:
        """The releases of RTen that have all operators of the model."""
        from formats.rten.target import releases_reading

        return {self.name: releases_reading(model)}


CODEC = RtenCodec()
