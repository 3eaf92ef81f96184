"""Describes the content of a model file as plain data."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from formats.codecs.contract import Change, ReadOptions
from formats.codecs.lookup import ONNXRUNTIME
from formats.collector import collector_paused
from formats.editing.element_types.savings import savings
from formats.editing.options import EditOptions, EditResult
from formats.errors import OptionError, UnsupportedError
from formats.ir import ONNX, dtypes, walk
from formats.ir.archive_link import ArchiveLink
from formats.ir.summary import type_with_dims
from formats.options import make_options
from formats.tensordata.file import AbsentFile, UnusedFile, is_address
from formats.tensordata.sources.source import FileSpan
from formats.verbs.arguments import path_of, shown
from formats.verbs.report import as_json, fields_as_json
from formats.verbs.steps.opening import models_in, read_decoded
from formats.words import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from typing_extensions import Unpack

    from formats.codecs.contract import Codec
    from formats.editing.macs import MacCount
    from formats.ir.model import Model, Node, Tensor, ValueInfo
    from formats.keywords import ReadKeywords
    from formats.tensordata.file import File
    from formats.tensordata.plan import Loss
    from formats.tensordata.sources.source import Source
    from formats.verbs.arguments import AnySource
    from formats.verbs.choices import RuntimeOptions
    from formats.verbs.shapes import ValueShape


MAX_ALIGNMENT = 4096  # a page: larger alignments do not matter
_DATA_FIELDS = ("external_source", "raw_data", *dict.fromkeys(row.field for row in dtypes.DATA_TYPES))


class ModelFile(NamedTuple):
    """A file that belongs to a model."""

    path: Path
    nbytes: int


class MissingFile(NamedTuple):
    """A data file of a model that is missing or too short, and why, for people.

    `nbytes` is the size that the model needs, as far as it says; `found_nbytes` that of the file that is there, if any.
    """

    path: Path
    nbytes: int
    found_nbytes: int | None
    reason: str

    def to_json(self) -> dict[str, Any]:
        """The file in strings, numbers and `None`."""
        return {**self._asdict(), "path": str(self.path)}


class ValueEntry(NamedTuple):
    """An input or output, its type in the text form of ONNX, such as `float[N,3,224,224]`."""

    name: str
    type: str


class TensorEntry(NamedTuple):
    """A constant tensor; `nbytes` counts its elements in raw form, however they are stored.

    The tensor of a Constant node has the name of the node's output. `file` and `file_offset` say where the elements
    begin in a file; both are `None` for small tensors that were read with the model, and for strings.
    """

    where: str
    name: str
    data_type: str
    dims: tuple[int, ...]
    nbytes: int
    file: Path | None = None
    file_offset: int | None = None


class NodeEntry(NamedTuple):
    """A node of any graph or function; `domain` is "ai.onnx" for ONNX's own operators."""

    where: str
    name: str
    operator: str
    domain: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    @property
    def operators(self) -> tuple[str, str]:
        """The operator, without and with its domain."""
        return self.operator, f"{self.domain}.{self.operator}"

    def to_json(self) -> dict[str, Any]:
        """The node in strings and lists."""
        return {**self._asdict(), "inputs": list(self.inputs), "outputs": list(self.outputs)}


class PartTotal(NamedTuple):
    """The tensors of a part of a model; their names begin with `name`, or "" for those without parts."""

    name: str
    tensors: int
    parameters: int
    nbytes: int


class Total(NamedTuple):
    """The number and size of all tensors of one element type."""

    tensors: int
    nbytes: int


class RuntimeFindings(NamedTuple):
    """Whether a runtime runs a model with the results that ONNX defines.

    It runs the model unchanged if there are no `changes` and no `stops`. It does not even load the model if
    `is_refused` is true for a change. `stops` lists what cannot be rewritten, and `losses` what a conversion would
    report.
    """

    name: str
    changes: tuple[Change, ...]
    stops: tuple[str, ...]
    losses: tuple[Loss, ...]

    @property
    def runs(self) -> bool:
        """Whether it runs the model unchanged."""
        return not (self.changes or self.stops)

    @property
    def loads(self) -> bool:
        """Whether it loads the model unchanged, as far as is known."""
        return not self.stops and not any(change.is_refused for change in self.changes)

    def to_json(self) -> dict[str, Any]:
        """The findings in strings, truth values, lists and dictionaries."""
        return {
            **fields_as_json(self, "name runs loads"),
            "can_be_rewritten": not self.stops,
            **fields_as_json(self, "stops changes losses"),
        }


@dataclass(frozen=True, slots=True, repr=False)
class Inspection:
    """The content of a model file.

    `inputs` are those that a caller must provide, without those that have an initialiser. `operators` counts nodes by
    operator, the most frequent first, in all graphs and functions; `data_types` and `tensors` likewise. Data files that
    are `missing`, or too short, are no error. `savings` has the bytes that weights lose at most with each `dtype` and
    with "int32", and those that they lose with a `weights_dtype` of "int8" or "int4", if there is 1 MiB of matrices or
    more in a model with operators of ONNX; what they gain is below zero.

    Of an archive with several models, `models` has the content of each. Then `operators`, `data_types`, `tensors` and
    `nodes` are those of all models, and what one model has, such as `inputs`, is empty.
    """

    path: Path
    format: str
    files: tuple[ModelFile, ...]  # the model first
    ir_version: int | None
    producer_name: str
    producer_version: str
    opsets: Mapping[str, int]
    metadata: Mapping[str, str]
    inputs: tuple[ValueEntry, ...]
    outputs: tuple[ValueEntry, ...]
    operators: Mapping[str, int]
    data_types: Mapping[str, Total]
    tensors: tuple[TensorEntry, ...]
    archive: Path | None = None  # to which the graph is linked
    runtime: RuntimeFindings | None = None  # if one was requested
    nodes: tuple[NodeEntry, ...] | None = None  # if they were requested
    parts: tuple[PartTotal, ...] | None = None  # likewise; the largest first
    missing: tuple[MissingFile, ...] = ()
    model: str | None = None  # its name, in an archive with several; `None` for the default one
    models: tuple[Inspection, ...] = ()  # of an archive with several; the default one last
    bundled: tuple[ModelFile, ...] = ()  # other files in the archive
    releases: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # that read these versions, by runtime
    values: tuple[ValueShape, ...] | None = None  # if shapes were requested
    macs: MacCount | None = None  # if multiply-accumulates were requested
    shape_notes: tuple[str, ...] = ()  # what is not inferred, and why; stated shapes that were wrong
    savings: Mapping[str, int] = field(default_factory=dict)

    def __repr__(self) -> str:
        """The file, its models if it has several, and the numbers of nodes and tensors; the fields have the rest."""
        models = f"models={[each.model for each in self.models]}, " if self.models else ""
        numbers = f"nbytes={self.nbytes}, nodes={sum(self.operators.values())}, tensors={len(self.tensors)}"
        return (
            f"Inspection({str(self.path)!r}, format={self.format!r}, {models}{numbers}, parameters={self.parameters})"
        )

    def _repr_html_(self) -> str:
        """A short table, which notebooks show."""
        from formats.ir.summary import SHOWN_OPERATORS, first_rows, html_table
        from formats.words import listed

        operators = [f"{count} {name}" for name, count in self.operators.items()]
        opsets = ", ".join(f"{name or ONNX} {version}" for name, version in self.opsets.items())
        rows = [
            *first_rows([("model", _in_words(each)) for each in self.models]),
            *([("operator sets", opsets)] if opsets else []),
            *first_rows([("input", f"{value.name}: {value.type}") for value in self.inputs]),
            *first_rows([("output", f"{value.name}: {value.type}") for value in self.outputs]),
            ("nodes", f"{sum(self.operators.values()):,}: {listed(operators, SHOWN_OPERATORS)}"),
            ("parameters", f"{self.parameters:,}"),
            *(
                (name, f"{counted(total.tensors, 'tensor')}, {total.nbytes:,} bytes")
                for name, total in self.data_types.items()
            ),
            *first_rows([("missing", f"{file.path}: {file.reason}") for file in self.missing]),
        ]
        return html_table(f"{self.format}, {self.nbytes:,} bytes", str(self.path), rows)

    @property
    def nbytes(self) -> int:
        """The size of all files together, in bytes."""
        return sum(file.nbytes for file in self.files)

    @property
    def parameters(self) -> int:
        """The number of elements of all tensors: initialisers and attributes, also of subgraphs and functions.

        Of a sparse tensor, only the stored values count.
        """
        return sum(_count(entry) for entry in self.tensors if _has_parameters(entry))

    @property
    def alignments(self) -> dict[int, int]:
        """The number of tensors by the largest power of two that divides their file offset, 4,096 at most."""
        offsets = (entry.file_offset for entry in self.tensors if entry.file_offset is not None)
        counts = Counter(min(offset & -offset or MAX_ALIGNMENT, MAX_ALIGNMENT) for offset in offsets)
        return dict(sorted(counts.items(), reverse=True))

    def to_json(self) -> dict[str, Any]:
        """The inspection in strings, numbers, lists and dictionaries; what was not requested is left out."""
        of_file = fields_as_json(self, "path format files nbytes missing" + " bundled" * bool(self.bundled))
        if self.models:
            return {**of_file, "models": as_json(self.models)}
        requested = [
            name for name in ("runtime", "nodes", "parts", "values", "macs") if getattr(self, name) is not None
        ]
        if self.values is not None or self.macs is not None:
            requested.append("shape_notes")
        return {
            **of_file,
            **fields_as_json(self, "model ir_version producer_name producer_version opsets releases metadata"),
            **fields_as_json(self, "inputs outputs operators parameters data_types savings"),
            "alignments": {str(alignment): count for alignment, count in self.alignments.items()},
            **fields_as_json(self, f"tensors archive {' '.join(requested)}"),
        }


def _in_words(seen: Inspection) -> str:
    """One model of several, in a line."""
    name = "the default model" if seen.model is None else seen.model
    return f"{name}: {counted(sum(seen.operators.values()), 'node')}, {counted(seen.parameters, 'parameter')}"


def inspect(
    path: AnySource,
    *,
    format: str | None = None,  # noqa: A002 - as in `load`
    runtime: str | None = None,
    nodes: bool = False,
    params: int = 0,
    shapes: bool = False,
    macs: bool = False,
    dim: Mapping[str, int | str] | None = None,
    **options: Unpack[ReadKeywords],
) -> Inspection:
    """Describe the model file at `path` without reading weights; `options` are those of `load`.

    This also works if data files are missing or too short; `missing` lists them. Of an archive with several models, it
    describes the one that `model` names, or each in `models`.

    With `runtime`, such as "rten", also say whether that runtime runs the model, and what would be rewritten for it.
    With `nodes`, also list every node. With `params`, also list the parameters of each part. A part is all tensors
    whose names begin with the same words: the words that all names share, then up to `params` more words. Dots and
    slashes separate words. With `shapes`, also list the types and dims of all values, which the package onnx infers;
    with `macs`, count multiply-accumulates. Both are of the model with the sizes of `dim`, which are as in `edit`.

    For example:

        >>> formats.inspect("model.onnx").parameters
        13602

    Raises: FormatError if it cannot be read; OSError if the file cannot.
    """
    path, reading = path_of(path), tolerant(make_options(ReadOptions, options, by=inspect))
    wanted = _Wanted(_chosen(runtime), nodes, params, shapes, macs, EditOptions(dim=dim).dim)
    if wanted.dim and not (shapes or macs):
        raise OptionError("`dim` has an effect only with `shapes` or `macs`")
    # A store answers slowly: there, the names of the models are those that the first of them was read with.
    *others, last = (reading.model,) if is_address(path) else models_in(path, format, reading)
    with collector_paused():
        inspection, names = _inspect(path, format, replace(reading, model=last), wanted)
        if last is None:
            others = [name for name in names if name is not None]
        models = (replace(reading, model=name) for name in others)
        seen = [_inspect(path, format, each, wanted) for each in models]
    return _of_several([*(other for other, _ in seen), inspection]) if seen else inspection


class _Wanted(NamedTuple):
    """What is asked for besides what every inspection has; as the keywords of `inspect`."""

    runtime: RuntimeOptions | None
    nodes: bool
    params: int
    shapes: bool
    macs: bool
    dim: Mapping[str, int | str] | None


def _of_several(models: Sequence[Inspection]) -> Inspection:
    """The content of an archive with these models."""
    operators: Counter[str] = Counter()
    saved: Counter[str] = Counter()
    for model in models:
        operators.update(model.operators)
        saved.update(model.savings)
    tensors = tuple(chain.from_iterable(model.tensors for model in models))
    return replace(
        models[-1],
        ir_version=None,
        producer_name="",
        producer_version="",
        opsets={},
        metadata={},
        inputs=(),
        outputs=(),
        operators=dict(operators.most_common()),
        data_types=_totals(tensors),
        savings=saved,
        tensors=tensors,
        archive=None,
        runtime=None,
        nodes=None if models[-1].nodes is None else tuple(chain.from_iterable(model.nodes or () for model in models)),
        parts=None,
        values=None,
        macs=None,
        missing=tuple(dict.fromkeys(chain.from_iterable(model.missing for model in models))),
        model=None,
        models=tuple(models),
        releases={},
    )


def _chosen(runtime: str | None) -> RuntimeOptions | None:
    """The runtime that was asked for; most calls name none, and do not import what only writing needs.

    Raises: OptionError for an unknown one.
    """
    if runtime is None:
        return None
    from formats.verbs.choices import RuntimeOptions

    return RuntimeOptions(runtime)


def _inspect(
    path: Path,
    format: str | None,  # noqa: A002 - as in `load`
    reading: ReadOptions,
    wanted: _Wanted,
) -> tuple[Inspection, tuple[str | None, ...]]:
    """One model of the file, and the names of all of them."""
    codec, source, model = read_decoded(path, format, reading)
    bundle = codec.bundle(source) if codec.is_archive else None
    graph_inputs, graph_outputs, constants = _interface(model)
    tensors_by_place = list(walk.tensors(model))  # once: it takes as long as reading the model
    shown_as = cache(lambda file: shown(file, path))  # many weights are in one file
    every_node = [node for _, nodes_of_graph in walk.node_lists(model) for node in nodes_of_graph]
    operators = Counter(f"{node.domain}.{node.op_type}" if node.domain else node.op_type or "" for node in every_node)
    constants_at = walk.constant_names(model) if operators.get("Constant") else {}
    tensors = tuple(
        _entry(where, constants_at.get(where, tensor.name), tensor, shown_as) for where, tensor in tensors_by_place
    )
    link = ArchiveLink.of(model)
    inspection = Inspection(
        path=path,
        format=codec.name,
        files=_files(path, source, (tensor for _, tensor in tensors_by_place)),
        ir_version=model.ir_version,
        producer_name=model.producer_name or "",
        producer_version=model.producer_version or "",
        opsets={entry.domain or "": entry.version or 0 for entry in model.opset_import},
        metadata={entry.key or "": entry.value or "" for entry in model.metadata_props},
        inputs=tuple(_value(info) for info in graph_inputs if info.name not in constants),
        outputs=tuple(_value(info) for info in graph_outputs),
        operators=dict(operators.most_common()),
        data_types=_totals(tensors),
        tensors=tensors,
        archive=None if link is None else path.with_name(link.archive),
        runtime=None if wanted.runtime is None else _findings(model, wanted.runtime),
        nodes=tuple(_nodes(model)) if wanted.nodes else None,
        parts=_parts(tensors, wanted.params) if wanted.params else None,
        missing=missing_files(tensor for _, tensor in tensors_by_place),
        model=reading.model,
        bundled=() if bundle is None else tuple(ModelFile(Path(name), nbytes) for name, nbytes in bundle.files),
        releases=_releases(model, every_node, codec, source),
        savings=savings(
            model,
            ((tensor.data_type, len(tensor.dims), tensor.nbytes) for tensor in tensors),
            in_blocks=codec.domain is None,
        ),
    )
    if wanted.shapes or wanted.macs:
        from formats.verbs.shapes import shapes_of_model  # few programs need it

        measured = shapes_of_model(model, lists_values=wanted.shapes, counts_macs=wanted.macs, dim=wanted.dim or {})
        inspection = replace(inspection, values=measured.values, macs=measured.macs, shape_notes=measured.notes)
    return inspection, () if bundle is None else bundle.models


def _releases(model: Model, nodes: list[Node], codec: Codec, source: Source) -> dict[str, tuple[str, ...]]:
    """The releases that read a model, by runtime: of onnxruntime by its versions, of others by what a file contains."""
    of_form = codec.releases_reading(source, model)
    if codec.domain is not None:
        return {runtime: tuple(releases) for runtime, releases in of_form.items()}
    from formats.codecs.onnxruntime_releases import RELEASES, lacks, limits_of, operators_of, reading
    from formats.onnxpb.value_types import type_uses

    newest: dict[str, int] = {}
    for entry in chain(model.opset_import, *(each.opset_import for each in model.functions)):
        newest[entry.domain or ""] = max(newest.get(entry.domain or "", 0), entry.version or 0)
    releases = reading(model.ir_version or 0, newest)
    for limit in limits_of(model, operators_of(nodes), type_uses(model)) if releases else ():
        # The answer is "1.15 and later", so that older ones before a gap are left out.
        releases = tuple(release for release in releases if not lacks(release, limit.first))
    read_form = of_form.get(ONNXRUNTIME, RELEASES)
    return {ONNXRUNTIME: tuple(release for release in releases if release in read_form)}


def tolerant(options: ReadOptions) -> ReadOptions:
    """The same options for a reader that does not need the weights: data files may be missing."""
    return replace(options, allow_absent=True)


def missing_files(tensors: Iterable[Tensor]) -> tuple[MissingFile, ...]:
    """The data files of these tensors that are missing or too short, by path."""
    absent = {
        file for file in _external_files(tensors) if isinstance(file, AbsentFile) and not isinstance(file, UnusedFile)
    }
    return tuple(sorted(MissingFile(file.path, file.nbytes, file.found_nbytes, file.reason) for file in absent))


def _count(entry: TensorEntry) -> int:
    return max(dtypes.count(entry.dims), 0)


def _has_parameters(entry: TensorEntry) -> bool:
    """Whether the elements of a tensor are parameters; the places of the values of a sparse tensor are none."""
    return not entry.where.endswith(".indices")


def _nodes(model: Model) -> Iterator[NodeEntry]:
    """All nodes, including those of subgraphs and functions, in the order of their places."""
    for where, nodes in walk.node_lists(model):
        for index, node in enumerate(nodes):
            place = walk.inner_place(where, "node", index)
            ends = tuple(node.input), tuple(node.output)
            yield NodeEntry(place, node.name or "", node.op_type or "", node.domain or ONNX, *ends)


def _parts(tensors: Iterable[TensorEntry], depth: int) -> tuple[PartTotal, ...]:
    """The tensors, counted by the first words of their names: `depth` words after those that all names share."""
    entries = [entry for entry in tensors if _has_parameters(entry)]
    words = [tuple(word for word in re.split("[./]", entry.name) if word)[:-1] for entry in entries]
    # What the first and the last name in order share, all names between them share, too.
    first, last = (end((each for each in words if each), default=()) for end in (min, max))
    shared = next((n for n, (mine, other) in enumerate(zip(first, last, strict=False)) if mine != other), len(first))
    parts: dict[str, PartTotal] = {}
    for entry, each in zip(entries, words, strict=True):
        name = ".".join(each[: shared + depth])
        old = parts.get(name, PartTotal(name, 0, 0, 0))
        parts[name] = PartTotal(name, old.tensors + 1, old.parameters + _count(entry), old.nbytes + entry.nbytes)
    return tuple(sorted(parts.values(), key=lambda part: -part.parameters))


def _findings(model: Model, chosen: RuntimeOptions) -> RuntimeFindings:
    """Whether a runtime runs a model, in ONNX's operators or in those of its format.

    Raises: OptionError for a release that reads only files of its own format.
    """
    from formats.verbs.steps.planning import raise_model

    named = chosen.named
    assert named is not None
    model, losses = raise_model(model)
    runtime = named.runtime
    if runtime is None:
        return _of_onnxruntime(model, chosen, losses)
    newest = runtime.releases()[-1:]
    if named.release not in (None, *newest):
        raise OptionError(f"`runtime` is {named}, but only the ONNX loader of {named.name} {newest[0]} is known")
    runnable = runtime.runnable(model, False)
    return RuntimeFindings(str(named), runnable.changes, runnable.stops, (*losses, *runnable.losses))


def _of_onnxruntime(model: Model, chosen: RuntimeOptions, losses: tuple[Loss, ...]) -> RuntimeFindings:
    """Whether a release of onnxruntime reads the versions of a model."""
    from formats.onnxruntime import small_constants
    from formats.verbs.steps.versions import in_versions

    stops: tuple[str, ...] = ()
    result = EditResult()
    try:
        _, result = in_versions(model, chosen)
    except UnsupportedError as error:
        stops = (error.message,)
    changes = tuple(Change("", "", "model", (), edit.detail, True) for edit in result.edits)
    reason = "a small constant comes into the graph, since it is read before data files"
    changes += tuple(Change(where, "", "", (), reason, True) for where in small_constants.outside(model))
    lacking = [loss for loss in result.losses if loss.kind == "runtime" and loss.matters]  # what the release lacks
    stops += tuple(loss.detail for loss in lacking)
    others = tuple(loss for loss in result.losses if loss not in lacking)
    return RuntimeFindings(str(chosen.named), changes, stops, (*losses, *others))


def span_of(tensor: Tensor) -> FileSpan | None:
    """The range of a file with the stored elements of a tensor; `None` if they are not in a single range."""
    fields = vars(tensor)
    spans = [value for field in _DATA_FIELDS if isinstance(value := fields.get(field), FileSpan)]
    return spans[0] if len(spans) == 1 and spans[0].nbytes else None


def _interface(model: Model) -> tuple[list[ValueInfo], list[ValueInfo], set[str | None]]:
    """The inputs and outputs of the model's graph, and the names of constant values."""
    if model.graph is None:
        return [], [], set()
    graph = model.graph
    names = {tensor.name for tensor in graph.initializer}
    names |= {sparse.values.name for sparse in graph.sparse_initializer if sparse.values is not None}
    return graph.input, graph.output, names


def _value(info: ValueInfo) -> ValueEntry:
    return ValueEntry(info.name or "", type_with_dims(info.type))


def raw_nbytes(tensor: Tensor) -> int:
    """The size in bytes of a tensor's elements in raw form, or of its strings; 0 if the shape is not valid."""
    row = dtypes.BY_NUMBER.get(tensor.data_type or 0)
    nbytes = row.nbytes(tensor.dims) if row and row.bits else sum(len(value) for value in tensor.string_data)
    return max(nbytes, 0)


def _entry(where: str, name: str | None, tensor: Tensor, shown_as: Callable[[Path], Path]) -> TensorEntry:
    data_type = dtypes.type_name(tensor.data_type)
    span = span_of(tensor)
    place = (None, None) if span is None else (shown_as(span.file.path), span.file_offset)
    return TensorEntry(where, name or "", data_type, tuple(tensor.dims), raw_nbytes(tensor), *place)


def _totals(tensors: tuple[TensorEntry, ...]) -> dict[str, Total]:
    counts: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    for entry in tensors:
        counts[entry.data_type] += 1
        sizes[entry.data_type] += entry.nbytes
    return {name: Total(count, sizes[name]) for name, count in counts.most_common()}


def _files(path: Path, source: Source, tensors: Iterable[Tensor]) -> tuple[ModelFile, ...]:
    """The model file, then the other files of its tensors that are there, by path."""
    others = _external_files(tensors) - set(source.files())
    there = (file for file in others if not isinstance(file, AbsentFile))
    companions = sorted(ModelFile(shown(file.path, path), file.nbytes) for file in there)
    return (ModelFile(path, source.nbytes), *companions)


def _external_files(tensors: Iterable[Tensor]) -> set[File]:
    external = (tensor.external_source for tensor in tensors)
    return {file for data in external if data is not None for file in data.files()}
