"""Checks the integrity of a model file: structure, names, the size of every tensor, and checksums on request."""
# ruff: noqa: A002 - `format` is the word that users know from `load`

from __future__ import annotations

from collections import Counter, deque
from graphlib import CycleError, TopologicalSorter
from itertools import chain, islice, starmap
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from formats.codecs.contract import ReadOptions
from formats.errors import CryptError, FormatError, OptionError
from formats.ir import dtypes, walk
from formats.ir.archive_link import ArchiveLink
from formats.ir.model import Function, Graph, SparseTensor, entries
from formats.onnxpb.newer_parts import NEWEST_IR_VERSION, newer_parts
from formats.onnxpb.operator_sets import ONNX
from formats.options import made
from formats.python.collector import collector_paused
from formats.python.late_dataclasses import dataclass, replace
from formats.tensordata.absent import AbsentFile
from formats.tensordata.file import File, with_storage
from formats.tensordata.interrupted import is_interrupted, strange_files
from formats.tensordata.sources.source import Transformed, place_of
from formats.verbs.arguments import path_of
from formats.verbs.inspect import missing_files, span_of, tolerant
from formats.verbs.steps.opening import models_in, read_model
from formats.verbs.verifying.nodes import FIRST_WITH_OPSETS, NOTE, NodeCheck
from formats.verbs.verifying.parts import part_problems, sparse_problem, tensor_problem
from formats.verbs.verifying.versions import version_problems

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from typing_extensions import Unpack

    from formats.codecs.contract import Checksum
    from formats.ir.model import Model, Node, OperatorSetId, Tensor
    from formats.keywords import ReadKeywords
    from formats.tensordata.engine import EngineOptions
    from formats.tensordata.sources.source import FileSpan, Source
    from formats.verbs.arguments import AnySource
    from formats.verbs.inspect import MissingFile

MAX_FINDINGS = 1000  # reported about graphs, and about tensors
MAX_STRANGE = 10  # hidden files, of a folder that somebody may have filled with them
HIDDEN = "hidden"  # the kind of a finding about such a file
SMALL_BYTES = 1 << 10  # of a tensor that is read to count its elements
MAX_GAP_BYTES = 1 << 16  # between tensors of a data file: no alignment makes larger ones


class Finding(NamedTuple):
    """Something that is wrong or remarkable in a model file."""

    # A stable word for programs: "structure", "encryption", "missing", "version", "opset", "operator", "attribute",
    # "graph", "value", "metadata", "tensor", "checksum", "alignment", "gap", "hidden" or "interrupted".
    kind: str
    where: str  # a dotted place in the model, an entry or a file; "" for all of it
    detail: str  # one sentence for people


@dataclass(frozen=True, slots=True, repr=False)
class Verification:
    """The result of a check: `errors` mean that the file is wrong, `notes` do not."""

    path: Path
    format: str | None  # missing if the format is not known
    tensors: int
    checksums: int
    read_bytes: int  # of tensors and files, for the checksums
    errors: tuple[Finding, ...]
    notes: tuple[Finding, ...]

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
        from formats.wording.html_tables import first_rows, table

        found = [("error", each) for each in self.errors] + [("note", each) for each in self.notes]
        rows = [(title, ": ".join(filter(None, (each.where, each.detail)))) for title, each in found]
        return table(
            "ok" if self.ok else "wrong", str(self.path), [*first_rows(rows), ("tensors", f"{self.tensors:,}")]
        )

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

    Raises: OptionError for an option without effect; OSError if a file cannot be read. Errors in the model are
    returned, not raised.
    """
    path, reading = path_of(path), tolerant(made(ReadOptions, options, by=verify))
    engine = _engine(threads, progress) if data or threads or progress else None
    if original is not None and not data:
        raise OptionError("`original` has an effect only with `data=True`")
    *others, last = models_in(path, format, reading)
    found = _verify(path, format, replace(reading, model=last), engine, data=data, original=original)
    for name in others:
        other = _verify(path, format, replace(reading, model=name), None)
        found = replace(
            found,
            tensors=found.tensors + other.tensors,
            errors=(*found.errors, *_of_model(name, other.errors, found.errors)),
            notes=(*found.notes, *_of_model(name, other.notes, found.notes)),
        )
    return found


def _engine(threads: int, progress: Callable[[int, int], None] | None) -> EngineOptions:
    """How data is read. Without data, the engine is not imported: that takes a tenth of the time for a small model.

    Raises: OptionError for an invalid value.
    """
    from formats.tensordata.engine import EngineOptions

    return EngineOptions(threads=threads, progress=progress)


def _of_model(name: str | None, findings: Iterable[Finding], known: Collection[Finding]) -> Iterator[Finding]:
    """The findings about one of several models, without those that are about the whole file and `known`."""
    for finding in findings:
        if finding not in known:
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
        codec, source, model = read_model(path, format, reading)
    except FormatError as error:
        kind = "encryption" if isinstance(error, CryptError) else "structure"
        return Verification(path, None, 0, 0, 0, (_finding(kind, error),), ())
    with collector_paused():
        tensors = list(walk.tensors(model))
        wrong, notes = _by_weight(_first(_check_graphs(model, in_order=codec.domain is None)))
    in_tensors = (finding for where, tensor in tensors for finding in _check_tensor(where, tensor, data))
    absent = missing_files(tensor for _, tensor in tensors)
    errors = [*_missing(absent), *wrong, *_first(chain(in_tensors, _sparse(model)))]
    own = set(source.files())
    cautions = codec.cautions(source, model) if codec.cautions and codec.encrypted else ()
    doubts = [(Finding("encryption", loss.where, loss.detail), loss.matters) for loss in cautions]
    errors += (doubt for doubt, matters in doubts if matters)
    notes += (doubt for doubt, matters in doubts if not matters)
    if is_interrupted(path):
        detail = "a write of this model was interrupted, and only a part can be read; `formats repair` completes it"
        notes.append(Finding("interrupted", "", detail))
    strange = islice(strange_files(path), MAX_STRANGE)
    notes += (Finding(HIDDEN, str(error.path), f"not used: {error.message}") for error in strange)
    spans = [(where, tensor, span) for where, tensor in tensors if (span := span_of(tensor)) and not _is_absent(span)]
    notes += [
        *_alignment(spans, len(tensors), own if codec.regions is None else set()),
        *(() if absent else _gaps((span for _, _, span in spans), own, ArchiveLink.of(model))),
    ]
    count = len(tensors)
    checked = read_bytes = 0
    if data and engine is not None:
        first = None if original is None else _original(original, reading).span()
        checksums = list(codec.checksums(source, model, first)) if codec.checksums else []
        del model, tensors, spans  # the checksums of many weights take as much memory, and need none of these
        failures, read_bytes = _check_data(checksums, engine)
        errors += failures
        checked = len(checksums)
        if first is not None and all(checksum.source is not first for checksum in checksums):
            notes.append(Finding("checksum", "", f"the file has no checksum of {path_of(original)}"))
    return Verification(path, codec.name, count, checked, read_bytes, tuple(errors), tuple(notes))


def _missing(files: Sequence[MissingFile]) -> Iterator[Finding]:
    """An error for each data file that is missing or too short."""
    for file in files[:MAX_FINDINGS]:
        yield Finding("missing", str(file.path), file.reason)
    if len(files) > MAX_FINDINGS:
        yield Finding("missing", "", f"{len(files) - MAX_FINDINGS} more data files are missing")


def _is_absent(source: Source) -> bool:
    return any(isinstance(file, AbsentFile) for file in source.files())


def _original(path: AnySource, options: ReadOptions) -> File:
    """The file that a model was made from."""
    return File.open(with_storage(path_of(path), options.storage_options, options.retries))


def _first(findings: Iterable[Finding]) -> Iterator[Finding]:
    """The first findings and the number of the others, because a small file can have very many errors."""
    rest: Counter[str] = Counter()
    for number, finding in enumerate(findings):
        if number < MAX_FINDINGS:
            yield finding
        else:
            rest[finding.kind] += 1
    yield from (Finding(kind, "", f"{count} more of this kind are not listed") for kind, count in rest.items())


def _by_weight(findings: Iterable[Finding]) -> tuple[list[Finding], list[Finding]]:
    """The errors, and the notes."""
    found = [*findings]
    notes = [note._replace(kind=note.kind[len(NOTE) :]) for note in found if note.kind.startswith(NOTE)]
    return [finding for finding in found if not finding.kind.startswith(NOTE)], notes


def _finding(kind: str, error: FormatError) -> Finding:
    place = error.where or ""
    if error.file_offset is not None:
        place = ", ".join(filter(None, (place, f"byte {error.file_offset}")))
    return Finding(kind, place, error.message)


# Graphs


def _check_graphs(model: Model, *, in_order: bool) -> Iterator[Finding]:
    """Find errors in the operator sets and the names of a model.

    With `in_order`, nodes must come after those whose results they use. Otherwise, such an order must exist.

    Spec: ONNX docs, "Open Neural Network Exchange Intermediate Representation (ONNX IR) Specification".
    """
    if in_order:  # the operators are ONNX's
        yield from starmap(Finding, (*version_problems(model), *newer_parts(model)))
    functions = {(function.domain or ONNX, function.name or "") for function in model.functions}
    parts: list[tuple[str, Graph | Function, Sequence[OperatorSetId]]] = []
    if model.graph is not None:
        parts.append(("graph", model.graph, model.opset_import))
    parts += ((f"functions[{index}]", part, part.opset_import) for index, part in enumerate(model.functions))
    for where, part, imports in parts:
        versions = Counter(domain for domain, _ in {(entry.domain or ONNX, entry.version) for entry in imports})
        for domain, count in versions.items():
            if count > 1:
                yield Finding("opset", where, f"{count} versions of {domain:.80} are imported, but exactly one must be")
        if (model.ir_version or FIRST_WITH_OPSETS) < FIRST_WITH_OPSETS:
            versions[ONNX] += 1
        in_function = isinstance(part, Function)
        check = NodeCheck(imports, functions, model.ir_version or NEWEST_IR_VERSION, in_function) if in_order else None
        yield from _check_part(where, part, lambda name: False, set(versions), check)
        if check is not None:
            yield from starmap(Finding, part_problems(where, part, model.ir_version or NEWEST_IR_VERSION))


def _check_part(
    where: str, part: Graph | Function, is_outer: Callable[[str], bool], domains: set[str], check: NodeCheck | None
) -> Iterator[Finding]:
    """Find values that are used but not produced, or produced twice, and operators of sets that are not imported.

    `is_outer` says whether a value belongs to an outer graph; `domains` are imported or already reported. Without
    `check`, operators are not checked, and nodes may be in any order.
    """
    in_order = check is not None
    inputs, constants, outputs = _interface(part)
    nodes = entries(part, "node")
    if len(set(inputs)) != len(inputs) or len(set(constants)) != len(constants):
        for name, count in (Counter(inputs) | Counter(constants)).items():
            if count > 1:
                yield Finding("graph", where, f"{count} inputs or initialisers are called {name!r:.80}")
    made = {*inputs, *constants}
    known = {"", *made}
    of_nodes: set[str] | None = None  # the outputs of all nodes, when they are first needed: in most models, never
    if not in_order:
        known.update(*(entries(node, "output") for node in nodes))

    def is_known(name: str) -> bool:
        return name in known or is_outer(name)

    for index, node in enumerate(nodes):  # there may be very many, and nearly all are right: no place is made for them
        domain, node_inputs, node_outputs = node.domain or ONNX, entries(node, "input"), entries(node, "output")
        if domain not in domains:
            domains.add(domain)
            detail = f"{_operator(node)} is of {domain:.80}, but the model imports no version of it"
            yield Finding("opset", walk.inner_place(where, "node", index), detail)
        if not known.issuperset(node_inputs):
            for name in node_inputs:
                if not is_known(name):
                    if of_nodes is None:
                        of_nodes = set().union(*(entries(other, "output") for other in nodes))
                    maker = "only a later node" if name in of_nodes else "nothing"
                    detail = f"{_operator(node)} uses {name!r:.80}, which {maker} makes"
                    yield Finding("graph", walk.inner_place(where, "node", index), detail)
        if check is not None and (found := check.problems(node, node_inputs, node_outputs)):
            place = walk.inner_place(where, "node", index)
            yield from (Finding(kind, f"{place}.{step}" if step else place, detail) for kind, step, detail in found)
        if entries(node, "attribute"):
            for inner, graph in _subgraphs(walk.inner_place(where, "node", index), node):
                yield from _check_part(inner, graph, is_known, domains, check)
        if len(node_outputs) > 1 or not made.isdisjoint(node_outputs):
            for name in filter(None, node_outputs):
                if name in made:
                    detail = f"{_operator(node)} makes {name!r:.80}, which already exists"
                    yield Finding("graph", walk.inner_place(where, "node", index), detail)
                made.add(name)
        made.update(node_outputs)
        known.update(node_outputs)
    for name in outputs:
        if not is_known(name):
            yield Finding("graph", where, f"the output {name!r:.80} is not produced by any node")
    if not in_order:
        yield from _check_cycles(where, nodes)


def _operator(node: Node) -> str:
    """The operator of a node, for a message."""
    return (node.op_type or "")[:80]


def _interface(part: Graph | Function) -> tuple[Sequence[str], Sequence[str], Sequence[str]]:
    """The names of the inputs, constants and outputs of a graph or function."""
    inputs, outputs = entries(part, "input"), entries(part, "output")
    if isinstance(part, Function):
        return inputs, [], outputs
    sparse = (item.values for item in entries(part, "sparse_initializer") if item.values is not None)
    constants = [tensor.name or "" for tensor in (*entries(part, "initializer"), *sparse)]
    return [value.name or "" for value in inputs], constants, [value.name or "" for value in outputs]


def _subgraphs(where: str, node: Node) -> Iterator[tuple[str, Graph]]:
    """The graphs in the attributes of the node at `where`, with their places."""
    for attribute in entries(node, "attribute"):
        graphs = entries(attribute, "graphs")
        if attribute.g is None and not graphs:
            continue
        place = walk.inner_place(where, "attribute", None, attribute)
        if attribute.g is not None:
            yield walk.inner_place(place, "g"), attribute.g
        for number, graph in enumerate(graphs):
            yield walk.inner_place(place, "graphs", number), graph


def _check_cycles(where: str, nodes: Sequence[Node]) -> Iterator[Finding]:
    """Find the first nodes that need each other's results."""
    makers = {name: index for index, node in enumerate(nodes) for name in node.output if name}
    needs = {index: [makers[name] for name in node.input if name in makers] for index, node in enumerate(nodes)}
    try:
        TopologicalSorter(needs).prepare()
    except CycleError as error:
        first = error.args[1][0]
        yield Finding("graph", f"{where}.node[{first}]", f"{nodes[first].op_type or '':.80} needs its own result")


# Tensors


def _check_tensor(where: str, tensor: Tensor, data: bool) -> Iterator[Finding]:
    """Find errors in a tensor: its element type, its dims, or the size of its data."""
    row = dtypes.BY_NUMBER.get(tensor.data_type or 0)
    if problem := tensor_problem(tensor):
        yield Finding("tensor", where, f"tensor {tensor.name!r:.80} {problem}")
        return
    if row is not None and not row.bits:
        if min(tensor.dims, default=0) < 0 or dtypes.count(tensor.dims) != len(tensor.string_data):
            detail = f"tensor {tensor.name!r:.80} has {len(tensor.string_data)} strings for dims {tensor.dims!s:.80}"
            yield Finding("tensor", where, detail)
        return
    try:
        source = tensor.source()
        if isinstance(source, Transformed) and (data or source.nbytes <= SMALL_BYTES):  # the varints are counted now
            deque(source.chunks() if source.granule_bytes else (source.view(),), 0)
    except FormatError as error:
        yield _finding("tensor", error)._replace(where=where)


def _sparse(model: Model) -> Iterator[Finding]:
    """Find errors in the dims of sparse tensors."""
    for where, sparse in walk.visit(model, SparseTensor):
        if problem := sparse_problem(sparse):
            yield Finding("tensor", where, problem)


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
            f"{len(misaligned)} of {tensor_count} tensors do not begin at a multiple of the size of an element, so "
            "programs must copy them"
        )
        yield Finding("alignment", few, detail)


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
            yield Finding("gap", str(file.path), f"{unused} bytes of it are not used by any tensor")


# Checksums


def _check_data(checksums: list[Checksum], engine: EngineOptions) -> tuple[list[Finding], int]:
    """The checksums that are wrong, and the number of bytes read; equal ranges are read once."""
    from formats.tensordata.engine import execute
    from formats.tensordata.plan import Digest, WritePlan

    keys: dict[tuple[object, ...], str] = {}
    digests: list[tuple[Digest, Source]] = []
    for _, algorithm, _, source in checksums:
        place = algorithm, *place_of(source)
        if place not in keys:
            keys[place] = str(len(keys))
            digests.append((Digest(keys[place], algorithm), source))
    try:
        found = execute(WritePlan((), digests=tuple(digests)), engine).digests
    except FormatError as error:
        return [_finding("checksum", error)], 0
    failures = []
    for where, algorithm, expected, source in checksums:
        actual = found[keys[(algorithm, *place_of(source))]].hex()
        if actual != expected:
            detail = f"the {algorithm} of its {source.nbytes} bytes is {actual}, not {expected:.80}"
            failures.append(Finding("checksum", where, detail))
    return failures, sum(source.nbytes for _, source in digests)
