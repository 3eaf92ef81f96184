"""Whether a model file is what it says: its structure, the size of every tensor, and checksums on request."""
# ruff: noqa: A002 - `format` is the word that users know from `load`

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from formats.conversion import read_model
from formats.errors import FormatError
from formats.inspection import span_of
from formats.ir import dtypes, walk
from formats.tensordata.engine import EngineOptions, execute
from formats.tensordata.osio import File
from formats.tensordata.plan import Digest, WritePlan
from formats.tensordata.source import Transformed, place_of

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator, Sequence

    from formats.ir.model import Tensor
    from formats.registry import Checksum

MAX_GAP_BYTES = 1 << 16  # between tensors of a data file: no alignment leaves more


class Finding(NamedTuple):
    """Something that is not as it should be."""

    kind: str  # a stable word for programs: "structure", "tensor", "checksum", "alignment" or "gap"
    where: str  # a dotted place in the model, an entry or a file; "" for all of it
    detail: str  # one sentence for people


@dataclass(frozen=True, slots=True)
class Verification:
    """What was checked, and what was found: `errors` make the file wrong, `notes` do not."""

    path: Path
    format: str | None  # absent where the format is not known
    tensors: int
    checksums: int
    read_bytes: int  # of tensors and files, for the checksums
    errors: tuple[Finding, ...]
    notes: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.errors

    def to_json(self) -> dict[str, Any]:
        """The verification in strings, numbers, lists and dictionaries."""
        return {
            "path": str(self.path),
            "format": self.format,
            "ok": self.ok,
            "tensors": self.tensors,
            "checksums": self.checksums,
            "read_bytes": self.read_bytes,
            "errors": [finding._asdict() for finding in self.errors],
            "notes": [finding._asdict() for finding in self.notes],
        }


def verify(
    path: str | os.PathLike[str],
    *,
    format: str | None = None,
    data: bool = False,
    original: str | os.PathLike[str] | None = None,
    engine: EngineOptions | None = None,
) -> Verification:
    """What is wrong with the model file at `path`.

    Its structure and the size of every tensor are checked without reading weights; with `data`, so are the checksums
    that it tells, of everything: entries of an archive, data files, and the file `original` that it was made from.

    Raises: OSError where a file cannot be read; what is wrong with it is told, not raised.
    """
    path = Path(path)
    try:
        codec, source, model = read_model(path, format)
    except FormatError as error:
        return Verification(path, None, 0, 0, 0, (_finding("structure", error),), ())
    tensors = list(walk.tensors(model))
    errors = [finding for where, tensor in tensors for finding in _check_tensor(where, tensor, data)]
    own = set(source.files())
    notes = [*_alignment(tensors, own if codec.regions is None else set()), *_gaps(tensors, own)]
    checked = read_bytes = 0
    if data:
        first = None if original is None else File.open(original).span()
        checksums = list(codec.checksums(source, model, first)) if codec.checksums else []
        failures, read_bytes = _check_data(checksums, engine or EngineOptions())
        errors += failures
        checked = len(checksums)
        if first is not None and all(checksum.source is not first for checksum in checksums):
            notes.append(Finding("checksum", "", f"the file tells no checksum of {original}"))
    return Verification(path, codec.name, len(tensors), checked, read_bytes, tuple(errors), tuple(notes))


def _finding(kind: str, error: FormatError) -> Finding:
    place = error.where or ""
    if error.file_offset is not None:
        place = ", ".join(filter(None, (place, f"byte {error.file_offset}")))
    return Finding(kind, place, error.message)


# Tensors


def _check_tensor(where: str, tensor: Tensor, data: bool) -> Iterator[Finding]:
    """What is wrong with one tensor: its element type, its dims, or that they ask for other data than there are."""
    row = dtypes.BY_NUMBER.get(tensor.data_type or 0)
    if row is not None and not row.bits:
        if min(tensor.dims, default=0) < 0 or dtypes.count(tensor.dims) != len(tensor.string_data):
            detail = f"tensor {tensor.name!r} has {len(tensor.string_data)} strings for dims {tensor.dims}"
            yield Finding("tensor", where, detail)
        return
    try:
        source = tensor.source()
        if data and isinstance(source, Transformed):  # of varints in a typed field, whose number shows only now
            source.view()
    except FormatError as error:
        yield _finding("tensor", error)._replace(where=where)


def _alignment(tensors: Sequence[tuple[str, Tensor]], inside: set[File]) -> Iterator[Finding]:
    """A note on the tensors that cannot be used in place; nobody tries to with those inside of protobuf files."""
    misaligned = []
    for where, tensor in tensors:
        span, row = span_of(tensor), dtypes.BY_NUMBER.get(tensor.data_type or 0)
        if span is not None and row is not None and span.file not in inside:
            misaligned += [where] * bool(span.file_offset % max(row.bits // 8, 1))
    if misaligned:
        few = ", ".join(misaligned[:3]) + (", ..." if len(misaligned) > 3 else "")
        detail = (
            f"{len(misaligned)} of {len(tensors)} tensors begin at no multiple of the size of an element, "
            "so whoever uses them copies them"
        )
        yield Finding("alignment", few, detail)


def _gaps(tensors: Iterable[tuple[str, Tensor]], own: set[File]) -> Iterator[Finding]:
    """A note on each data file with bytes that no tensor uses, beyond what alignment can explain."""
    used: dict[File, list[tuple[int, int]]] = {}
    for _, tensor in tensors:
        span = span_of(tensor)
        if span is not None and span.file not in own:
            used.setdefault(span.file, []).append((span.file_offset, span.file_offset + span.nbytes))
    for file, ranges in used.items():
        position = unused = 0
        for start, end in (*sorted(ranges), (file.nbytes, file.nbytes)):
            unused += max(start - position, 0) if start - position >= MAX_GAP_BYTES or end == start else 0
            position = max(position, end)
        if unused:
            yield Finding("gap", str(file.path), f"no tensor uses {unused} bytes of it")


# Checksums


def _check_data(checksums: list[Checksum], engine: EngineOptions) -> tuple[list[Finding], int]:
    """The checksums that do not hold, and the number of bytes read to know; equal ranges are read once."""
    sources = {(checksum.algorithm, place_of(checksum.source)): checksum.source for checksum in checksums}
    keys = {place: str(number) for number, place in enumerate(sources)}
    digests = tuple((Digest(keys[place], place[0]), source) for place, source in sources.items())
    try:
        found = execute(WritePlan((), digests=digests), engine).digests
    except FormatError as error:
        return [_finding("checksum", error)], 0
    failures = []
    for where, algorithm, expected, source in checksums:
        actual = found[keys[algorithm, place_of(source)]].hex()
        if actual != expected:
            detail = f"the {algorithm} of its {source.nbytes} bytes is {actual}, not {expected:.80}"
            failures.append(Finding("checksum", where, detail))
    return failures, sum(source.nbytes for source in sources.values())
