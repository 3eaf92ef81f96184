"""The result of a conversion, as data and as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from formats.errors import FormatError
from formats.tensordata.plan import DOCUMENTATION, RANGE, RARE, RESULTS, SPECIAL
from formats.words import counted, in_units, joined, listed

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from formats.codecs.contract import Change
    from formats.editing.options import Edit
    from formats.tensordata.plan import FilePlan, Loss

DIFFERS = "differs:"  # the first word of a verdict that says so
LOSSES_SHOWN = 4  # of the warnings, and of the notes; the others are counted
EDITS_SHOWN = 2  # of one kind; more are counted
CHANGES_SHOWN = 6
COMPANIONS_SHOWN = 2
RATE_FROM_BYTES = 1_000_000  # for fewer bytes, the rate depends more on the machine than on the conversion
# Notes about what few will see are only counted, with the words for what they are about.
GATHERED = {SPECIAL: ("NaN", "infinities", "empty tensors"), DOCUMENTATION: ("documentation",)}


# The verdict about a model that was made of others, the rounding to another type of floats, what begins the line of an
# edit, and what many edits are, by kind.
VERDICTS = {
    "tensor": "the same elements",
    "weights": "differs: the weights are new",
    "bypass": "differs: nodes are bypassed",
    "initializer_to_input": "computes the same, with more inputs",
    "input_to_initializer": "computes the same, with fewer inputs",
    "uint8_input": "computes the same, from uint8 inputs",
    "layout": "computes the same, with other layouts",
    "set_operator": "differs: operators of nodes are others",
    "set_domain": "differs: domains of nodes are others",
    "set_attribute": "differs: attributes of nodes are others",
    "extract": "computes the same as this part of the model",
    "merge": "computes the same as both models",
}
ROUNDING = {
    "weights_dtype": ", up to rounding of weights",
    "dtype": ", up to rounding to float16",
    "dtype=bfloat16": ", up to rounding to bfloat16",
    "dtype=float32": ", up to rounding",
}
WORDS = {
    "opset": "converted",
    "ir_version": "converted",
    **dict.fromkeys((*ROUNDING, "int32"), "converted"),
    "tensor": "extracted",
    "extract": "extracted",
    "merge": "merged",
    "inputs": "note",
    "stays": "note",
    "type": "note",
    "in_place": "in place",
}
MANY = {
    "rename": "names changed",
    "dim": "dims changed",
    "cast": "weights converted to the types in the model",
    "initializer_to_input": "weights are inputs",
    "input_to_initializer": "inputs are weights",
    "metadata": "texts of the metadata changed",
    "merge": "values and weights joined",
    "bypass": "nodes bypassed",
    "identity": "nodes that do nothing bypassed",
    "set_operator": "nodes have another operator",
    "set_domain": "nodes have another domain",
    "set_attribute": "attributes of nodes set",
    "add_output": "values are outputs",
    "uint8_input": "inputs are uint8",
    "layout": "layouts changed",
    "remove_output": "values are no outputs any more",
    "inputs": "inputs are not needed, and left out",
}


def as_json(value: Any) -> Any:
    """A value of a report in strings, numbers, truth values, `None`, lists and dictionaries."""
    if hasattr(value, "to_json"):
        return value.to_json()
    if hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, Mapping):
        return {key: as_json(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [as_json(entry) for entry in value]
    return value if value is None or isinstance(value, (str, int, float)) else str(value)


def fields_as_json(report: Any, names: str) -> dict[str, Any]:
    """Some fields and properties of a report, by their names, which spaces separate."""
    return {name: as_json(getattr(report, name)) for name in names.split()}


def error_as_json(error: BaseException) -> dict[str, Any]:
    """An error, and the place that it names, in strings and numbers."""
    path = getattr(error, "path", None) or getattr(error, "filename", None)
    return {
        "kind": type(error).__name__,
        "message": error.message if isinstance(error, FormatError) else getattr(error, "strerror", None) or str(error),
        "path": None if path is None else str(path),
        "file_offset": getattr(error, "file_offset", None),
        "where": getattr(error, "where", None),
    }


class WrittenFile(NamedTuple):
    """A file that was written."""

    path: Path
    nbytes: int


def written_files(files: Iterable[FilePlan]) -> tuple[WrittenFile, ...]:
    """The files of a plan."""
    return tuple(WrittenFile(file.path, file.nbytes) for file in files)


class OutputDifference(NamedTuple):
    """How an output of two models differs that ran on the same inputs: at most by `largest`, of a number `magnitude`.

    Both are `None` if the outputs have other dims or other NaN, or are no tensors of numbers, or if only one model has
    the output; `detail` says so.
    """

    output: str
    largest: float | None
    magnitude: float | None
    detail: str


def check_lines(differences: Iterable[OutputDifference]) -> list[str]:
    """A line for each output of two models that ran on the same inputs."""
    return [f"check: {each.output} {each.detail}" for each in differences]


@dataclass(frozen=True, slots=True, repr=False)
class ConversionReport:
    """The result of a conversion, and what the target could not express; `source` is `None` for a model from memory."""

    source: Path | None
    destination: Path
    source_format: str | None
    target_format: str
    files: tuple[WrittenFile, ...]  # the model is the last one
    seconds: float
    losses: tuple[Loss, ...] = ()
    notes: tuple[Loss, ...] = ()  # the faults that a lenient reader accepted
    changes: tuple[Change, ...] = ()  # what was rewritten for a runtime
    source_files: tuple[Path, ...] = ()  # the model is the first one
    dry_run: bool = False  # the files would be written, but were not
    settings: Mapping[str, Any] | None = None  # the settings that a program needs to load the files
    usage: str = ""  # a sentence about what a runtime needs to load the files
    backup: Path | None = None  # where the replaced model is now
    removed: tuple[Path, ...] = ()  # files of the replaced model
    edits: tuple[Edit, ...] = ()  # what was changed in the model
    is_translated: bool = False  # into other operators: those of the target, or from those of the source to ONNX's
    checked: tuple[OutputDifference, ...] = ()  # if both models ran

    def __str__(self) -> str:
        """What was written, whether it computes the same, and what differs, as the command prints it."""
        return "\n".join(answer(self))

    def __repr__(self) -> str:
        """What was written, and the numbers of losses and changes; `losses` and `changes` list them."""
        numbers = f"nbytes={self.nbytes}, losses={len(self.losses)}, changes={len(self.changes)}"
        return f"ConversionReport({str(self.destination)!r}, {self.verdict!r}, {numbers})"

    def _repr_html_(self) -> str:
        """A short table, which notebooks show."""
        from formats.ir.summary import first_rows, html_table

        first, *others = answer(self)
        others = [line for line in others if line != self.verdict]  # which is the title
        count = len(self.losses)
        files = [(str(file.path), f"{file.nbytes:,} bytes") for file in reversed(self.files)]
        lines = [
            (title if separator else "", text if separator else line)
            for line in others
            for title, separator, text in [line.partition(": ")]
        ]
        losses = ("losses", f"{count}: report.losses" if count else "none")
        return html_table(self.verdict, first, [*first_rows(files), *first_rows(lines), losses])

    @property
    def nbytes(self) -> int:
        """The size of all files together, in bytes."""
        return sum(file.nbytes for file in self.files)

    @property
    def verdict(self) -> str:
        """Whether what was written computes the same, in one line."""
        kinds = {edit.kind for edit in self.edits}
        is_translated = bool(self.is_translated or self.changes or "opset" in kinds)
        if not (is_translated or kinds - {"in_place"}):
            return verdict(self.losses)
        rounding = next((words for kind, words in ROUNDING.items() if kind in kinds), "")
        if not rounding and (is_translated or "fold" in kinds):
            rounding = ", up to rounding"
        same = next((words for kind, words in VERDICTS.items() if kind in kinds), "computes the same")
        return verdict(self.losses, same, "" if same.startswith(DIFFERS) else rounding)

    def to_json(self) -> dict[str, Any]:
        """The report in strings, numbers, lists and dictionaries."""
        return {
            **fields_as_json(self, "source source_files destination source_format target_format files nbytes dry_run"),
            "seconds": round(self.seconds, 6),
            **fields_as_json(self, "verdict edits losses notes changes settings"),
            "usage": self.usage or None,
            **fields_as_json(self, "backup removed checked"),
        }


def verdict(losses: Iterable[Loss], same: str = "the same model, unchanged", precision: str = "") -> str:
    """Whether a model with these losses computes the same; `same` says it, and `precision` how exactly.

    What NaN, infinities and empty tensors show changes no verdict; a note says it.
    """
    seen = {loss.seen for loss in losses}
    # The worst one decides: a difference that everybody sees, then one for large numbers, then one that few see.
    if RESULTS in seen:
        return f"{DIFFERS} the warnings say how"
    if RANGE in seen:
        return f"{DIFFERS} only with numbers beyond the range that the warnings name"
    if RARE in seen and not same.startswith(DIFFERS):
        return f"{DIFFERS} only in rare cases, which the notes name"
    return f"{same}{precision}"


def verdict_of_models(losses: Iterable[Loss], *, is_translated: bool) -> str:
    """Whether several models compute the same; they do up to rounding if one of them got other operators."""
    if is_translated:
        return verdict(losses, "computes the same", ", up to rounding")
    return verdict(losses, "the same models, unchanged")


def losses_of_model(name: str | None, losses: Iterable[Loss]) -> list[Loss]:
    """The losses of one of several models: the name of the model stands before each place."""
    return [loss._replace(where=": ".join(filter(None, (name, loss.where)))) for loss in losses]


def answer(
    report: ConversionReport,
    more: str = "report.losses",
    *,
    every: bool = False,
    files: Iterable[str] = (),
    one_of_many: bool = False,
) -> list[str]:
    """What was written; whether it computes the same; what was edited; then the warnings, and the notes that many see.

    Several edits of a kind are one line, and notes that only NaN, infinities or empty tensors show, and those about
    documentation, are a number in the last one. `more` is where all of them are. If `every`, each has a line. `files`
    are lines about the files. For `one_of_many` models, the verdict is left out if there are no losses, and so are the
    notes unless `every`.
    """
    has_notes = every or not one_of_many
    return [
        _written(report),
        *([report.verdict] if report.losses or not one_of_many else []),
        *check_lines(report.checked),
        *files,
        *edit_lines(report.edits, more, every=every),
        *loss_lines((loss for loss in report.losses if has_notes or loss.matters), more, every=every),
        *(_remarks(report, more, every=every) if has_notes else []),
    ]


def edit_lines(edits: Iterable[Edit], more: str, *, every: bool = False) -> list[str]:
    """A line for each kind of edit, or if `every` for each edit."""
    groups: dict[str, list[Edit]] = {}
    for edit in edits:
        groups.setdefault(edit.kind, []).append(edit)
    lines = []
    for kind, group in groups.items():
        if every:
            texts = [edit.detail for edit in group]
        elif len(group) > EDITS_SHOWN and kind in MANY:
            texts = [f"{len(group):,} {MANY[kind]}: {more}"]
        else:
            texts = ["; ".join(edit.summary for edit in group)]
        lines += [f"{WORDS.get(kind, 'edited')}: {text}" for text in texts]
    return lines


def is_gathered(loss: Loss) -> bool:
    """Whether a report only counts a loss."""
    return not loss.matters and loss.seen in GATHERED


def loss_lines(losses: Iterable[Loss], more: str, *, every: bool = False) -> list[str]:
    """A line for each warning, which `--strict` refuses, and for each note; only the first, unless `every`."""
    losses = list(losses)
    shown = [loss for loss in losses if every or not is_gathered(loss)]
    lines: list[str] = []
    for title, matters in (("warning", True), ("note", False)):
        details = [loss.detail if every else loss.summary for loss in shown if loss.matters is matters]
        omitted = 0 if every or len(details) <= LOSSES_SHOWN + 1 else len(details) - LOSSES_SHOWN  # not "and 1 more"
        lines += [f"{title}: {detail}" for detail in details[: len(details) - omitted]]
        if omitted:
            lines.append(f"{title}: and {omitted:,} more: {more}")
    gathered = [] if every else [loss for loss in losses if is_gathered(loss)]
    if gathered:
        kinds = {loss.seen for loss in gathered}
        about = joined([word for seen, words in GATHERED.items() if seen in kinds for word in words], "or")
        lines.append(f"note: {len(gathered):,} about {about}: {more}")
    return lines


def _written(report: ConversionReport) -> str:
    *companions, _ = report.files
    names = [file.path.name for file in companions]
    if len(names) > COMPANIONS_SHOWN:
        names = [counted(len(names), "data file")]
    size = in_units(report.nbytes)
    source = "" if report.source is None else f"{report.source} -> "
    line = f"{source}{' + '.join((str(report.destination), *names))}  {size}"
    if report.dry_run:
        return f"would write {line}"
    rate = f" ({in_units(report.nbytes / report.seconds)}/s)" if report.nbytes >= RATE_FROM_BYTES else ""
    return f"{line}, {report.seconds:.2f} s{rate}"


def _remarks(report: ConversionReport, more: str, *, every: bool) -> list[str]:
    """What was rewritten for a runtime, what a program needs to load the files, and what a lenient reader accepted."""
    backups = () if report.backup is None else (report.backup,)
    lines = replacement_lines(backups, report.removed, dry_run=report.dry_run)
    if report.changes:
        counts = Counter(change.operator or "tensor" for change in report.changes)
        shown = [f"{name} x {count:,}" for name, count in counts.most_common()]
        cut = listed(shown, len(shown) if every else CHANGES_SHOWN)
        lines.append(f"note: rewritten for the runtime: {cut} (--json gives the reasons)")
    if report.settings:
        import json

        lines.append(f"note: config.json must contain {json.dumps(report.settings)}")
    if report.usage:
        lines.append(f"note: {report.usage}")
    if report.notes:
        lines.append(f"note: passed over: {'; '.join(note.detail for note in report.notes)}")
    return lines


def replacement_lines(backups: Sequence[Path], removed: Sequence[Path], *, dry_run: bool) -> list[str]:
    """Where replaced models are now, and which of their files were removed; of many, their number."""
    models = "the old model" if len(backups) <= 1 else "the old models"
    lines = []
    if backups:
        lines.append(f"note: {'would keep' if dry_run else 'kept'} {models} as {', '.join(map(str, backups))}")
    if removed:
        names = [path.name for path in removed]
        shown = ", ".join(names) if len(names) <= CHANGES_SHOWN else counted(len(names), "file")
        lines.append(f"note: {'would remove' if dry_run else 'removed'} {shown} of {models}")
    return lines
