"""Checks the integrity of a model file: structure, names, the size of every tensor, and checksums on request."""
# ruff: noqa: A002 - `format` is the word that users know from `load`

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, deque
from dataclasses import dataclass, replace
from itertools import chain, starmap
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

from formats.codecs.contract import ReadOptions
from formats.collector import collector_paused
from formats.errors import CryptError, FormatError, OptionError
from formats.ir import FIRST_WITH_OPERATOR_SETS, NEWEST_IR_VERSION, ONNX, dtypes, walk
from formats.ir.archive_link import ArchiveLink
from formats.ir.model import Function, SparseTensor
from formats.onnxpb.newer_parts import newer_parts
from formats.onnxpb.node_check import NodeCheck, functions_by_name
from formats.onnxruntime import small_constants
from formats.options import make_options
from formats.tensordata.file import AbsentFile, File, with_storage
from formats.tensordata.interrupted import is_interrupted, strange_files
from formats.tensordata.sources.source import FileSpan, Transformed, storage_key
from formats.verbs.arguments import path_of
from formats.verbs.inspect import missing_files, span_of, tolerant
from formats.verbs.report import fields_as_json
from formats.verbs.steps.opening import models_in, read_decoded
from formats.verbs.verifying.findings import CODES, HIDDEN, Finding, finding_of
from formats.verbs.verifying.graphs import function_problems, name_problems
from formats.verbs.verifying.parts import index_problem, part_problems, sparse_problem, tensor_problem, version_problems
from formats.verbs.verifying.types import type_problems
from formats.words import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from typing_extensions import Unpack

    from formats.codecs.contract import Checksum
    from formats.ir.model import Graph, Model, OperatorSetId, Tensor
    from formats.keywords import ReadKeywords
    from formats.tensordata.engine import EngineOptions
    from formats.tensordata.sources.source import Source
    from formats.verbs.arguments import AnySource
    from formats.verbs.inspect import MissingFile

MAX_FINDINGS = 1000  # reported about graphs, and about tensors
SMALL_BYTES = 1 << 10  # of a tensor that is read to count its elements
MAX_GAP_BYTES = 1 << 16  # between tensors of a data file: no alignment makes larger ones


@dataclass(frozen=True, slots=True, repr=False)
class Verification:
    """The result of a check: `errors` mean that the file is wrong, `notes` do not."""

    path: Path
    format: str | None  # missing if the format is not known
    tensors: int = 0
    checksums: int = 0
    read_bytes: int = 0  # of tensors and files, for the checksums
    unchecked: int | None = None  # tensors whose data no checksum covers; missing if the data were not read
    errors: tuple[Finding, ...] = ()
    notes: tuple[Finding, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.errors

    def __repr__(self) -> str:
        """What was checked, and the numbers of errors and notes; `errors` and `notes` list them."""
        numbers = f"errors={len(self.errors)}, notes={len(self.notes)}"
        return f"Verification({str(self.path)!r}, ok={self.ok}, tensors={self.tensors}, {numbers})"

    def _repr_html_(self) -> str:
        """A short table, which notebooks show."""
        from formats.ir.summary import first_rows, html_table

        findings = [*(("error", error) for error in self.errors), *(("note", note) for note in self.notes)]
        rows = [(title, ": ".join(filter(None, (finding.where, finding.detail)))) for title, finding in findings]
        return html_table(
            "ok" if self.ok else "wrong", str(self.path), [*first_rows(rows), ("tensors", f"{self.tensors:,}")]
        )

    def to_json(self) -> dict[str, Any]:
        """The verification in strings, numbers, lists and dictionaries."""
        return fields_as_json(self, "path format ok tensors checksums read_bytes unchecked errors notes")


def verify(
    path: AnySource,
    *,
    format: str | None = None,
    data: bool = False,
    original: AnySource | None = None,
    threads: int = 0,
    progress: Callable[[int, int], None] | None = None,
    **options: Unpack[ReadKeywords],
) -> Verification:
    """Check the model file at `path` and return what is wrong with it.

    This checks its structure, the names in its graphs and the size of every tensor without reading weights. With
    `data`, it also verifies all checksums: of entries of an archive, of data files, and of the file `original` that it
    was made from. `options` are those of `load`, `threads` and `progress` those of `EngineOptions`.
    Of an archive with several models, this checks all, unless `model` names one.
    An encrypted model whose variant does not detect changes is an error without `allow_encryption=1`, and a note with
    it.

    For example:

        >>> checked = formats.verify("model.onnx")
        >>> checked.ok, checked.errors
        (True, ())

    Raises: OptionError for an option without effect; OSError if a file cannot be read. Errors in the model are
    returned, not raised.
    """
    path, reading = path_of(path), tolerant(make_options(ReadOptions, options, by=verify))
    engine = None
    if data or threads or progress:
        from formats.tensordata.engine import EngineOptions  # what reads no data starts without it

        engine = EngineOptions(threads=threads, progress=progress)
    if original is not None and not data:
        raise OptionError("`original` has an effect only with `data=True`")
    *others, last = models_in(path, format, reading)
    result = _verify(path, format, replace(reading, model=last), engine, data=data, original=original)
    for name in others:
        other = _verify(path, format, replace(reading, model=name), None)
        result = replace(
            result,
            tensors=result.tensors + other.tensors,
            errors=(*result.errors, *_of_model(name, other.errors, result.errors)),
            notes=(*result.notes, *_of_model(name, other.notes, result.notes)),
        )
    return result


def _of_model(name: str | None, findings: Iterable[Finding], earlier: Collection[Finding]) -> Iterator[Finding]:
    """The findings about one of several models, without those that are about the whole file and came `earlier`."""
    for finding in findings:
        if finding not in earlier:
            yield finding._replace(where=": ".join(filter(None, (name, finding.where))))


def _verify(
    path: Path,
    format: str | None,
    reading: ReadOptions,
    engine: EngineOptions | None,
    *,
    data: bool = False,
    original: AnySource | None = None,
) -> Verification:
    """What is wrong with one model of the file, and with `data`, with all data in the file."""
    try:
        codec, source, model = read_decoded(path, format, reading)
    except FormatError as error:
        code = "V102" if isinstance(error, CryptError) else "V101"
        return Verification(path, None, errors=(_of_error(code, error),))
    with collector_paused():
        tensors = list(walk.tensors(model))
        errors, notes = _by_weight(_first(_check_graphs(model, in_order=codec.domain is None)))
    in_tensors = (finding for where, tensor in tensors for finding in _check_tensor(where, tensor, data))
    absent = missing_files(tensor for _, tensor in tensors)
    errors = [*_missing(absent), *errors, *_first(chain(in_tensors, _sparse(model, data)))]
    own = set(source.files())
    cautions = [*codec.cautions(source, model)] if codec.encrypted else []
    errors += (finding_of("V102", loss.where, loss.detail) for loss in cautions if loss.matters)
    notes += (finding_of("V103", loss.where, loss.detail) for loss in cautions if not loss.matters)
    if is_interrupted(path):
        detail = "a write of this model was interrupted, and only a part can be read; `formats repair` completes it"
        notes.append(finding_of("V111", "", detail))
    strange = strange_files(path)
    notes += (finding_of(HIDDEN, str(error.path), f"not used: {error.message}") for error in strange)
    all_spans = ((where, tensor, span_of(tensor)) for where, tensor in tensors)
    spans = [
        (where, tensor, span)
        for where, tensor, span in all_spans
        if span is not None and not isinstance(span.file, AbsentFile)
    ]
    notes += [
        *_alignment(spans, len(tensors), set() if codec.is_mapped else own),
        *(() if absent else _gaps((span for _, _, span in spans), own, ArchiveLink.of(model))),
    ]
    result = Verification(path, codec.name, len(tensors))
    if data and engine is not None:
        first = None
        if original is not None:
            first = File.open(with_storage(path_of(original), reading.storage_options, reading.retries)).span()
        checksums = list(codec.checksums(source, model, first))
        covered = [checksum.source for checksum in checksums if checksum.source is not first]
        unchecked = len(tensors) - _covered(covered, [span for _, _, span in spans], len(tensors), own)
        del model, tensors, spans  # the checksums of many weights take as much memory, and need none of these
        failures, read_bytes = _check_data(checksums, engine)
        errors += failures
        result = replace(result, checksums=len(checksums), read_bytes=read_bytes, unchecked=unchecked)
        if first is not None and all(checksum.source is not first for checksum in checksums):
            notes.append(finding_of("V106", "", f"the file has no checksum of {path_of(original)}"))
    return replace(result, errors=tuple(errors), notes=tuple(notes))


def _missing(files: Sequence[MissingFile]) -> Iterator[Finding]:
    """An error for each data file that is missing or too short."""
    for file in files[:MAX_FINDINGS]:
        yield finding_of("V104", str(file.path), file.reason)
    if len(files) > MAX_FINDINGS:
        yield finding_of("V104", "", f"{len(files) - MAX_FINDINGS:,} more data files are missing")


def _first(findings: Iterable[Finding]) -> Iterator[Finding]:
    """The first findings and the number of the others, because a small file can have very many errors."""
    rest: Counter[str] = Counter()
    for number, finding in enumerate(findings):
        if number < MAX_FINDINGS:
            yield finding
        else:
            rest[finding.code] += 1
    yield from (finding_of(code, "", f"{count:,} more of this kind are not listed") for code, count in rest.items())


def _by_weight(findings: Iterable[Finding]) -> tuple[list[Finding], list[Finding]]:
    """The errors, and the notes."""
    errors: list[Finding] = []
    notes: list[Finding] = []
    for finding in findings:
        (errors if CODES[finding.code].is_error else notes).append(finding)
    return errors, notes


def _of_error(code: str, error: FormatError) -> Finding:
    place = error.where or ""
    if error.file_offset is not None:
        place = ", ".join(filter(None, (place, f"byte {error.file_offset}")))
    return finding_of(code, place, error.message)


# Graphs


def _check_graphs(model: Model, *, in_order: bool) -> Iterator[Finding]:
    """Find errors in the operator sets, the names and the types of a model.

    With `in_order`, nodes must come after those whose results they use, and operators are ONNX's. Otherwise, such an
    order must exist.

    Spec: ONNX docs, "Open Neural Network Exchange Intermediate Representation (ONNX IR) Specification".
    """
    if in_order:
        yield from starmap(finding_of, version_problems(model))
        yield from (finding_of("V207", where, detail) for where, detail in newer_parts(model))
        yield from starmap(finding_of, function_problems(model))
    functions = functions_by_name(model.functions)
    parts: list[tuple[str, Graph | Function, Sequence[OperatorSetId]]] = []
    if model.graph is not None:
        parts.append(("graph", model.graph, model.opset_import))
    elif in_order:
        yield finding_of("V301", "graph", "the model has no graph")
    parts += ((f"functions[{index}]", part, part.opset_import) for index, part in enumerate(model.functions))
    for where, part, imports in parts:
        versions = Counter(domain for domain, _ in {(entry.domain or ONNX, entry.version) for entry in imports})
        for domain, count in versions.items():
            if count > 1:
                yield finding_of(
                    "V208", where, f"{count:,} versions of {domain:.80} are imported, but exactly one must be"
                )
        if (model.ir_version or FIRST_WITH_OPERATOR_SETS) < FIRST_WITH_OPERATOR_SETS:
            versions[ONNX] += 1
        in_function = isinstance(part, Function)
        check = NodeCheck(imports, functions, model.ir_version or NEWEST_IR_VERSION, in_function) if in_order else None
        yield from starmap(finding_of, name_problems(where, part, set(versions), check))
        if check is not None:
            yield from starmap(finding_of, part_problems(where, part, model.ir_version or NEWEST_IR_VERSION))
    if in_order:
        yield from starmap(finding_of, type_problems(model))
        if places := small_constants.outside(model):
            are = "1 small constant is" if len(places) == 1 else f"{len(places):,} small constants are"
            read = "it" if len(places) == 1 else "them"
            detail = f"{are} in another file, but onnxruntime reads {read} before that file; converted, the model loads"
            yield finding_of("V606", places[0], detail)


# Tensors


def _check_tensor(where: str, tensor: Tensor, data: bool) -> Iterator[Finding]:
    """Find errors in a tensor: its element type, its dims, or the size of its data."""
    row = dtypes.BY_NUMBER.get(tensor.data_type or 0)
    if problem := tensor_problem(tensor):
        code, detail = problem
        yield finding_of(code, where, f"tensor {tensor.name!r:.80} {detail}")
        return
    if row is not None and not row.bits:
        if min(tensor.dims, default=0) < 0 or dtypes.count(tensor.dims) != len(tensor.string_data):
            strings = counted(len(tensor.string_data), "string")
            detail = f"tensor {tensor.name!r:.80} has {strings} for dims {tensor.dims!s:.80}"
            yield finding_of("V603", where, detail)
        return
    try:
        source = tensor.source()
        if isinstance(source, Transformed) and (data or source.nbytes <= SMALL_BYTES):  # the varints are counted now
            deque(source.chunks() if source.granule_bytes else (source.view(),), 0)
    except FormatError as error:
        yield _of_error("V603", error)._replace(where=where)


def _sparse(model: Model, data: bool) -> Iterator[Finding]:
    """Find errors in the parts of sparse tensors; short indices are read, with `data` all."""
    for where, sparse in walk.visit(model, SparseTensor):
        if problem := sparse_problem(sparse):
            yield finding_of("V604", where, problem)
        elif sparse.indices is not None and (data or dtypes.count(sparse.indices.dims) * 8 <= SMALL_BYTES):
            try:
                if problem := index_problem(sparse):
                    yield finding_of("V605", where, problem)
            except FormatError:  # the check of the tensor reports it
                pass


def _alignment(
    spans: Iterable[tuple[str, Tensor, FileSpan]], tensor_count: int, inside: set[File]
) -> Iterator[Finding]:
    """A note on tensors that cannot be used in place. Those inside protobuf files are not meant to be."""
    misaligned = []
    for where, tensor, span in spans:
        row = dtypes.BY_NUMBER.get(tensor.data_type or 0)
        if row is not None and span.file not in inside:
            misaligned += [where] * bool(span.file_offset % max(row.bits // 8, 1))
    if misaligned:
        few = ", ".join(misaligned[:3]) + (", ..." if len(misaligned) > 3 else "")
        detail = (
            f"{len(misaligned):,} of {tensor_count:,} tensors do not begin at a multiple of the size of an element, so "
            "programs must copy them"
        )
        yield finding_of("V108", few, detail)


def _gaps(spans: Iterable[FileSpan], own: set[File], link: ArchiveLink | None) -> Iterator[Finding]:
    """A note on each data file with more unused bytes than alignment can explain.

    The archive of a linked graph also contains the graph, so it is not checked for this.
    """
    used: dict[File, list[tuple[int, int]]] = {}
    for span in spans:
        if span.file not in own and (link is None or span.file.path.name != link.archive):
            used.setdefault(span.file, []).append((span.file_offset, span.file_offset + span.nbytes))
    for file, ranges in used.items():
        position = unused = 0
        for start, end in (*sorted(ranges), (file.nbytes, file.nbytes)):
            unused += max(start - position, 0) if start - position >= MAX_GAP_BYTES or end == start else 0
            position = max(position, end)
        if unused:
            yield finding_of("V109", str(file.path), f"{unused:,} bytes of it are not used by any tensor")


# Checksums


def _covered(covered: Iterable[Source], spans: Sequence[FileSpan], count: int, own: set[File]) -> int:
    """How many of `count` tensors have their data in the range of a checksum; `spans` are those in one piece.

    The others are small or stored as numbers of protobuf: they are part of the graph, which an archive has a checksum
    of, and other formats have not.
    """
    ranges: dict[File, list[tuple[int, int]]] = {}
    for source in covered:
        if isinstance(source, FileSpan):
            ranges.setdefault(source.file, []).append((source.file_offset, source.file_offset + source.nbytes))
    for of_file in ranges.values():
        of_file.sort()
    number = count - len(spans) if any(file in own for file in ranges) else 0
    for span in spans:
        of_file = ranges.get(span.file, [])
        place = bisect_right(of_file, (span.file_offset, inf)) - 1  # of the last range that begins before the tensor
        number += place >= 0 and span.file_offset + span.nbytes <= of_file[place][1]
    return number


def _check_data(checksums: list[Checksum], engine: EngineOptions) -> tuple[list[Finding], int]:
    """The checksums that are wrong, and the number of bytes read; equal ranges are read once."""
    from formats.tensordata.engine import execute
    from formats.tensordata.plan import Digest, WritePlan

    keys: dict[tuple[object, ...], str] = {}
    digests: list[tuple[Digest, Source]] = []
    for _, algorithm, _, source in checksums:
        place = algorithm, *storage_key(source)
        if place not in keys:
            keys[place] = str(len(keys))
            digests.append((Digest(keys[place], algorithm), source))
    try:
        sums = execute(WritePlan((), digests=tuple(digests)), engine).digests
    except FormatError as error:
        return [_of_error("V105", error)], 0
    failures = []
    for where, algorithm, expected, source in checksums:
        key = (algorithm, *storage_key(source))
        actual = sums[keys[key]].hex()
        if actual != expected:
            detail = f"the {algorithm} of its {source.nbytes:,} bytes is {actual}, not {expected:.80}"
            failures.append(finding_of("V105", where, detail))
    return failures, sum(source.nbytes for _, source in digests)
