"""The texts of the commands for conversions and models, as lines. Nothing is printed here."""

from __future__ import annotations

from collections import Counter
from itertools import chain, repeat
from typing import TYPE_CHECKING

from formats.cli.columns import cells, fits, shortened, table, terminal_width
from formats.codecs.lookup import ONNXRUNTIME
from formats.ir import ONNX
from formats.words import counted, in_units, joined, names_like

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from formats.verbs.compare import Comparison
    from formats.verbs.inspect import Inspection, RuntimeFindings, TensorEntry, ValueEntry
    from formats.verbs.model_files import ModelFiles
    from formats.verbs.relocate import Relocation
    from formats.verbs.repair import Repair
    from formats.verbs.report import ConversionReport, WrittenFile
    from formats.verbs.share import Sharing
    from formats.verbs.verify import Verification

MAX_FINDINGS = 20
MAX_CELL = 48
SAVED_FROM_BYTES = 1 << 20  # nobody needs less
FACT_CELLS = 14  # before a fact of a model
MAX_LINE = 500  # characters of a key of the metadata, and of a text where there is no terminal


def summary(report: ConversionReport, *, notes: bool = False, one_of_many: bool = False) -> list[str]:
    """The answer to a conversion; for a dry run, also a line for each file that would be written."""
    from formats.verbs.report import answer

    files = written_lines(report.files) if report.dry_run else ()
    return answer(report, "--notes", every=notes, files=files, one_of_many=one_of_many)


def written_lines(files: Sequence[WrittenFile]) -> Iterator[str]:
    """The files that would be written, one per line, with their sizes in bytes."""
    return table(("file", "bytes"), [(str(file.path), f"{file.nbytes:,}") for file in files])


def inspection_lines(seen: Inspection, tensors: int | str, *, lists_nodes: bool = False) -> Iterator[str]:
    """The content of a model, with the `tensors` largest tensors, or those whose names match a pattern.

    If there are nodes, they are counted, and listed on request.
    """
    models = f", {counted(len(seen.models), 'model')}" if seen.models else ""
    yield f"{seen.path}  {seen.format}, {in_units(seen.nbytes)}{models}"
    if seen.bundled:
        files = ((str(file.path), f"{file.nbytes:,}") for file in seen.bundled)
        yield from ("", *table(("file in the archive", "bytes"), [*files]), "")
    if not seen.models:
        yield from _model_lines(seen, tensors, lists_nodes, _file_lines(seen))
        return
    names = {model.model: model.model or "(the default model)" for model in seen.models}
    rows = [
        (names[model.model], f"{sum(model.operators.values()):,}", f"{model.parameters:,}", _bytes_of_tensors(model))
        for model in seen.models
    ]
    yield from ("", *table(("model", "nodes", "parameters", "bytes"), rows, ("bytes", "nodes")))
    for model in seen.models:
        yield ""
        yield f"model {names[model.model]}"
        yield from _model_lines(model, tensors, lists_nodes)


def _file_lines(seen: Inspection) -> Iterator[str]:
    """The files of a model, and those that are missing."""
    yield from table(("file", "bytes"), [(str(file.path), f"{file.nbytes:,}") for file in seen.files])
    yield from (f"missing: {file.path}: {file.reason}" for file in seen.missing)
    yield ""


def _model_lines(
    seen: Inspection, tensors: int | str, lists_nodes: bool, file_lines: Iterable[str] = ()
) -> Iterator[str]:
    """The content of one model of a file."""
    for name, lines in _facts(seen).items():
        for title, line in zip(chain((name,), repeat("")), filter(None, lines), strict=False):
            yield f"  {title}".ljust(FACT_CELLS) + line
    yield ""
    if seen.runtime is not None:
        yield from (*runtime_lines(seen.runtime), "")
    if seen.nodes is not None:
        yield from (*_node_lines(seen, lists_nodes), "")
    if seen.parts is not None:
        parts = [
            (part.name or "(others)", f"{part.tensors:,}", f"{part.parameters:,}", f"{part.nbytes:,}")
            for part in seen.parts
        ]
        yield from table(("part", "tensors", "parameters", "bytes"), parts) if parts else ["  no part has parameters"]
        yield ""
    if seen.values is not None or seen.macs is not None:
        yield from _shape_lines(seen)
    yield from file_lines
    totals = [(name, f"{total.tensors:,}", f"{total.nbytes:,}") for name, total in seen.data_types.items()]
    totals.append(("all", f"{len(seen.tensors):,}", _bytes_of_tensors(seen)))
    yield from table(("data type", "tensors", "bytes"), totals)
    saved = {name: nbytes for name, nbytes in seen.savings.items() if nbytes >= SAVED_FROM_BYTES}
    if "int32" in saved:
        yield f"note: --int32 saves up to {in_units(saved.pop('int32'))}"
    for name in ("int8", "int4"):
        if name in saved:
            yield f"note: --weights-dtype {name} saves {in_units(saved.pop(name))}"
    if saved:
        yield f"note: --dtype {joined([*saved], 'or')} saves up to {in_units(max(saved.values()))}"
    yield from _tensor_lines(seen, tensors)


def _facts(seen: Inspection) -> dict[str, list[str]]:
    """What one line or few say of a model, by their titles; an empty line is left out."""
    nodes = sum(seen.operators.values())
    operators = ", ".join(f"{_part(name)} x {count:,}" for name, count in seen.operators.items())
    return {
        "producer": [_part(" ".join(filter(None, (seen.producer_name, seen.producer_version))))],
        "ir version": ["" if seen.ir_version is None else str(seen.ir_version)],
        "opsets": [", ".join(f"{_part(name or ONNX)} {version}" for name, version in seen.opsets.items())],
        "read by": [", ".join(_known_releases(name, releases) for name, releases in seen.releases.items())],
        "metadata": [_metadata(key, value) for key, value in seen.metadata.items()],
        "linked to": ["" if seen.archive is None else f"{seen.archive}, which holds the weights"],
        "inputs": [*_value_lines(seen.inputs)],
        "outputs": [*_value_lines(seen.outputs)],
        "operators": [f"{counted(nodes, 'node')}{': ' * (nodes > 0)}{operators}"],
        "parameters": [f"{seen.parameters:,}"],
        "alignment": [
            ", ".join(
                f"{counted(tensors_at, 'tensor')} at multiples of {counted(alignment, 'byte')}"
                for alignment, tensors_at in seen.alignments.items()
            )
        ],
    }


def _tensor_lines(seen: Inspection, tensors: int | str) -> Iterator[str]:
    """The largest tensors, or those whose names match a pattern, below an empty line."""
    shown = sorted(seen.tensors, key=lambda entry: -entry.nbytes)
    if isinstance(tensors, str):
        chosen = names_like(tensors, {entry.name or entry.where for entry in shown})
        shown = [entry for entry in shown if (entry.name or entry.where) in chosen]
        yield "" if shown else f"  no tensor is called {tensors}"
    else:
        shown = shown[:tensors]
        yield from [""] if shown else []
    if shown:
        yield from table(
            ("tensor", "data type", "dims", "bytes", "offset", "file"),
            [_tensor_row(entry) for entry in shown],
            ("file", "offset", "data type", "dims"),
        )
    if shown and len(shown) < len(seen.tensors) and isinstance(tensors, int):
        yield f"  and {len(seen.tensors) - tensors:,} more (--tensors {len(seen.tensors)} or --json lists all)"


def _known_releases(name: str, releases: Sequence[str]) -> str:
    """The releases of a runtime that read a model, from the first on."""
    by = " (by versions and types)" if name == ONNXRUNTIME else ""
    return f"{name} {releases[0]} and later{by}" if releases else f"no known release of {name}"


def _node_lines(seen: Inspection, lists_nodes: bool) -> Iterator[str]:
    """The number of nodes by operator and domain, and the nodes themselves, if they are to be listed."""
    assert seen.nodes is not None
    counts = Counter((node.operator, node.domain) for node in seen.nodes)
    rows = [(operator, domain, f"{number:,}") for (operator, domain), number in counts.most_common()]
    yield from table(("operator", "domain", "nodes"), rows)
    if lists_nodes:
        yield ""
        nodes = [
            (node.name or node.where, node.operator, ", ".join(node.inputs), ", ".join(node.outputs))
            for node in seen.nodes
        ]
        heads = ("node", "operator", "inputs", "outputs")
        if fits(heads, nodes):
            yield from table(heads, nodes)
            return
        for name, operator, inputs, outputs in nodes:  # `extract` needs the names of values, so these are whole
            yield f"  {shortened(name, MAX_CELL)}  {_part(operator)}"
            yield f"    inputs   {inputs}".rstrip()
            yield f"    outputs  {outputs}".rstrip()


def _shape_lines(seen: Inspection) -> Iterator[str]:
    """The types of all values, the multiply-accumulates, and what is not known of them."""
    if seen.values is not None:
        rows = [(value.name, value.kind, value.type or "?", value.where) for value in seen.values]
        inner = any(value.where != "graph" for value in seen.values)  # else all are in one graph
        heads = ("value", "made by", "type", "graph")
        yield from table(heads if inner else heads[:-1], rows if inner else [row[:-1] for row in rows])
        yield ""
    if seen.macs is not None:
        macs = [(operator, f"{count:,}") for operator, count in seen.macs.operators.items()]
        yield from table(("operator", "multiply-accumulates"), [*macs, ("all", f"{seen.macs.total:,}")])
        reasons = Counter((node.operator, node.reason) for node in seen.macs.uncounted)
        yield from (
            f"not counted: {counted(number, 'node')} {_part(operator)}: {reason}"
            for (operator, reason), number in reasons.items()
        )
        if seen.macs.missing_dims:
            yield f"set dims to count more: {' '.join(f'--dim {name}=1' for name in seen.macs.missing_dims)}"
    yield from (f"note: {note}" for note in seen.shape_notes)
    yield ""


def runtime_lines(findings: RuntimeFindings) -> Iterator[str]:
    """Whether a runtime runs a model, what prevents that, and what would be rewritten, with a line for each reason."""
    count = len(findings.changes)
    if findings.runs:
        yield f"{findings.name} runs the model unchanged"
    elif findings.stops:
        yield f"{findings.name} does not run the model, and these parts cannot be rewritten:"
        yield from (f"  {reason}" for reason in findings.stops)
    else:
        loads = "loads the model, but its results differ from ONNX"
        yield f"{findings.name} {loads if findings.loads else 'does not load the model unchanged'}"
    if count:
        yield f"--runtime {findings.name} rewrites {count:,} of its parts:"
        groups = Counter((change.operator or "tensor", change.became, change.reason) for change in findings.changes)
        for (operator, became, reason), number in groups.most_common():
            yield f"  {number:,} x {operator}{' -> ' if became else ''}{', '.join(became)}: {reason}"
    yield from (f"note: {loss.detail}" for loss in findings.losses)


WHOLE = "nothing to repair: no write was interrupted"


def repair_lines(repaired: Repair) -> Iterator[str]:
    """The state that was found at a path, and the repair."""
    state = "completed" if repaired.completed else "restored to its old state" if repaired.put_back else WHOLE
    if not (repaired.completed or repaired.put_back or repaired.path.exists()):
        state = "there is no model, and no interrupted write to complete"
    if repaired.refused:
        state = f"{'' if state == WHOLE else state + ', but '}this is no valid archive: {repaired.refused}"
    yield f"{repaired.path}: {state}"
    yield from (f"  removed {path.name}" for path in repaired.removed)
    yield from (f"note: {note}" for note in repaired.notes)


def verification_lines(result: Verification) -> Iterator[str]:
    """The checks and their results, each with its code."""
    for title, findings in (("error", result.errors), ("note", result.notes)):
        for finding in findings[:MAX_FINDINGS]:
            yield f"{title} {finding.code}: {': '.join(filter(None, (finding.where, finding.detail)))}"
        if len(findings) > MAX_FINDINGS:
            yield f"and {len(findings) - MAX_FINDINGS:,} more (--json lists all)"
    verdict = "ok" if result.ok else counted(len(result.errors), "error")
    checked = counted(result.tensors, "tensor")
    if result.checksums or result.read_bytes:
        checked += f", {counted(result.checksums, 'checksum')} of {in_units(result.read_bytes)}"
    checked += _without_checksum(result)
    yield f"{result.path}: {verdict}" + (f"  {result.format}, {checked}" if result.format else "")


def _without_checksum(result: Verification) -> str:
    """What a check of the data could not compare with anything."""
    if not result.unchecked:
        return ""
    if result.unchecked < result.tensors:
        return f"; {counted(result.unchecked, 'tensor')} without a checksum, so changes there cannot be noticed"
    return "; no checksums of the weights, so changed weights cannot be noticed"


def comparison_lines(result: Comparison) -> Iterator[str]:
    """How two models differ."""
    from formats.verbs.report import check_lines

    for difference in result.differences:
        subject = f" ({difference.subject})" if difference.subject else ""
        yield f"{difference.where}{subject}: {difference.detail}"
    if result.count > len(result.differences):
        yield f"and {counted(result.count - len(result.differences), 'more difference')}"
    yield from (f"note: {note.detail}" for note in result.notes)
    first, second = result.paths
    verdict = "equal" if result.equal else counted(result.count, "difference")
    form = f" in what .{result.form} files hold" if result.form else ""
    yield from check_lines(result.checked)
    yield f"{first} and {second}: {verdict}{form}"


def _part(text: str) -> str:
    """The text; on a terminal, only enough of it to identify it."""
    return text if terminal_width() is None else shortened(text, MAX_CELL)


def _value_lines(values: Iterable[ValueEntry]) -> Iterator[str]:
    """The names and types of inputs or outputs, whole, because other verbs need them; in two lines if there is no room.

    A narrow terminal wraps a long type, and never hides a dim.
    """
    width = terminal_width()
    for value in values:
        type_text = value.type or "?"
        line = f"{value.name}: {type_text}"
        if width is None or cells(line) + FACT_CELLS <= width:
            yield line
        else:
            yield from (f"{value.name}:", f"  {type_text}")


def _metadata(key: str, value: str) -> str:
    """An entry of the metadata, and how long its text is if only a part is shown."""
    text = repr(value)
    shown = shortened(text, MAX_LINE if terminal_width() is None else MAX_CELL)
    return f"{shortened(key, MAX_LINE)}={shown}{f' ({len(value):,} characters)' * (shown != text)}"


def _bytes_of_tensors(seen: Inspection) -> str:
    return f"{sum(entry.nbytes for entry in seen.tensors):,}"


def _tensor_row(entry: TensorEntry) -> tuple[str, ...]:
    offset = "" if entry.file_offset is None else f"{entry.file_offset:,}"
    dims = f"[{','.join(map(str, entry.dims))}]"  # like the types of inputs
    file = "" if entry.file is None else entry.file.name
    return entry.name or entry.where, entry.data_type, dims, f"{entry.nbytes:,}", offset, file


def files_lines(model_files: ModelFiles) -> Iterator[str]:
    """The files of a model, one per line."""
    rows = []
    for file in model_files.files:
        remark = f"stays: {file.stays}" if file.stays else f"leads to {file.leads_to}" if file.leads_to else ""
        remark = f"missing: {file.missing}" if file.missing else remark
        rows.append((str(file.path), f"{file.nbytes:,}", remark))
    yield from table(("file", "bytes", ""), rows, indent="")


def relocation_lines(relocation: Relocation) -> Iterator[str]:
    """The changes to the files of a model, and the files that stay."""
    from formats.verbs.report import replacement_lines

    *companions, last = (
        [file.path for file in relocation.written] or [*reversed(relocation.removed)] or [relocation.source]
    )
    data = f" + {counted(len(companions), 'data file')}" if companions else ""
    if relocation.destination is not None:
        yield f"{'would write ' * relocation.dry_run}{relocation.source} -> {last}{data}  {in_units(relocation.nbytes)}"
        if relocation.dry_run:
            yield from written_lines(relocation.written)
            yield from (f"would remove {path}" for path in relocation.removed)
    elif relocation.dry_run:
        yield from (f"would remove {path}" for path in relocation.removed)
    else:
        yield f"removed {last}{data}" if relocation.removed else f"no file of {relocation.source} was removed"
    yield from (f"note: {path} stays: {reason}" for path, reason in relocation.kept)
    yield from replacement_lines(
        [relocation.backup] if relocation.backup else [], relocation.cleaned, dry_run=relocation.dry_run
    )


def sharing_lines(sharing: Sharing, *, notes: bool = False) -> list[str]:
    """The answer to `share`; for a dry run, also a line for each file that would be written."""
    from formats.verbs.share import sharing_answer

    return sharing_answer(
        sharing, "--notes", every=notes, files=written_lines(sharing.files) if sharing.dry_run else ()
    )
