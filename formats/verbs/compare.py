"""How two models differ: structure by structure and weight by weight, independent of how and where they are stored.

A model can have the operators of its own format, such as the model of a `.rten` file. To compare it with an ONNX model,
the ONNX model is first converted to that format. A difference then means: the file is not the result of converting the
present ONNX model.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain
from math import inf, isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from formats.codecs.contract import ReadOptions
from formats.collector import collector_paused
from formats.errors import FormatError, LimitError
from formats.ir import ONNX, dtypes, walk
from formats.ir.archive_link import without_link
from formats.ir.copies import differing, is_left_alike, is_plainly_equal, is_same_value
from formats.ir.model import (
    Attribute,
    Differing,
    Dimension,
    Function,
    Message,
    Node,
    OperatorSetId,
    SparseTensor,
    StringStringEntry,
    Tensor,
    TensorAnnotation,
    ValueInfo,
    set_names,
)
from formats.options import make_options
from formats.tensordata.file import is_address
from formats.tensordata.plan import DOCUMENTATION, USE, Loss
from formats.tensordata.sources.source import Concat, Literal, Source
from formats.verbs.arguments import path_of
from formats.verbs.report import as_json, fields_as_json
from formats.verbs.steps.opening import check_key, for_each, models_in, open_model
from formats.words import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import numpy as np
    from typing_extensions import Unpack

    from formats.codecs.contract import Codec
    from formats.ir.dtypes import DataType
    from formats.ir.model import Model
    from formats.keywords import ReadKeywords
    from formats.tensordata.plan import FilePlan
    from formats.verbs.arguments import AnySource
    from formats.verbs.report import OutputDifference
    from formats.verbs.steps.opening import Opened

    Array: TypeAlias = np.ndarray[Any, Any]

MAX_TEXT = 60
BLOCK_BYTES = 3 << 16  # that are compared at a time: whole elements of any size
# The fields that identify an entry of a list, so that a new entry at the front does not make all entries different.
_KEYS: dict[type[Any], Callable[[Any], Any]] = {
    Attribute: lambda entry: entry.name,
    Function: lambda entry: (entry.domain, entry.name, entry.overload),
    Node: lambda entry: tuple(entry.output),
    OperatorSetId: lambda entry: entry.domain or "",
    SparseTensor: lambda entry: entry.values and entry.values.name,
    StringStringEntry: lambda entry: entry.key,
    Tensor: lambda entry: entry.name,
    TensorAnnotation: lambda entry: entry.tensor_name,
    ValueInfo: lambda entry: entry.name,
}
# The last parts of the names of lists whose order has no meaning.
_UNORDERED = ("_binding", "_import", "_info", "_props", "annotation", "attribute", "functions", "initializer")
_SUBJECTS = (Function, Node, Tensor, ValueInfo)
_WORDS = {StringStringEntry: "entry", ValueInfo: "value"}  # the word for a class, if it is not the name of the class
_BESIDE_ELEMENTS = ("dims", "data_type", "segment", "name", "doc_string", "metadata_props", "unknown_fields")
_STORAGE = ("raw_data", "external_data", "data_location", *dtypes.TYPED_FIELDS)


class Difference(NamedTuple):
    """One place where two models differ, and how."""

    kind: str  # a stable word for programs: "changed", "only first", "only second", "order", "weights", "storage"
    where: str  # a dotted place in the first model, or in the second if the first has none
    detail: str  # one sentence for people
    subject: str = ""  # the node, tensor, value or function that differs, in a few words
    largest: float | None = None  # the largest difference of two numbers in it; inf if only one is NaN


@dataclass(frozen=True, slots=True, repr=False)
class Comparison:
    """How two model files differ; `differences` are the first of `count`, in the order of the message's fields.

    If only one of the two has the operators of its own format, both were compared as files of that format: `form` names
    this format, and `notes` list what it cannot express and was not compared.
    """

    paths: tuple[Path, Path]
    formats: tuple[str, str]
    count: int
    differences: tuple[Difference, ...]
    form: str | None = None
    notes: tuple[Loss, ...] = ()
    largest_difference: float = 0.0  # of two elements, in all tensors that both models have with one type and shape
    checked: tuple[OutputDifference, ...] = ()  # if both models ran

    @property
    def equal(self) -> bool:
        """Whether the models are the same, as far as both formats can express them."""
        return not self.count

    def __repr__(self) -> str:
        """Which files were compared, and the number of differences; `differences` lists them."""
        first, second = map(str, self.paths)
        return f"Comparison({first!r}, {second!r}, equal={self.equal}, count={self.count})"

    def _repr_html_(self) -> str:
        """A short table, which notebooks show."""
        from formats.ir.summary import first_rows, html_table

        rows = [(difference.subject or difference.where, difference.detail) for difference in self.differences]
        rows += [("note", note.detail) for note in self.notes]
        title = "equal" if self.equal else counted(self.count, "difference")
        return html_table(title, " and ".join(map(str, self.paths)), first_rows(rows, self.count + len(self.notes)))

    def to_json(self) -> dict[str, Any]:
        """The comparison in strings, numbers, lists and dictionaries."""
        return {
            **fields_as_json(self, "paths formats equal count"),
            "largest_difference": _finite(self.largest_difference),
            "differences": [
                {**difference._asdict(), "largest": _finite(difference.largest)} for difference in self.differences
            ],
            "form": self.form,
            "notes": as_json(self.notes),
            **fields_as_json(self, "checked" * bool(self.checked)),
        }


def diff(
    first: AnySource,
    second: AnySource,
    *,
    storage: bool = False,
    limit: int = 100,
    progress: Callable[[int, int], None] | None = None,
    **options: Unpack[ReadKeywords],
) -> Comparison:
    """Compare the models in two files, of the same or different formats; return the first `limit` differences.

    Weights are equal if their bytes in raw form are equal; how they are stored matters only with `storage`. If one file
    has operators of its own format, the other model is first converted to that format. `progress` gets the bytes of
    weights that were compared, and those of all weights of the first model. `options` are those of `load`, for both.

    Of two archives with several models, all are compared, each with that of the same name, unless `model` names one. If
    only one file is such an archive, or if they are at addresses, the default model is compared.

    For example:

        >>> report = formats.convert("model.onnx", "model.onnxz")
        >>> formats.diff("model.onnx", "model.onnxz").equal
        True

    Raises: FormatError if one of them cannot be read or converted; OSError if a file cannot be read.
    """
    paths = path_of(first), path_of(second)
    reading = make_options(ReadOptions, options, by=diff)
    # A store answers slowly: there, the default model is compared, and what is left out is told.
    names = [(None,) if is_address(path) else models_in(path, None, reading) for path in paths]
    several = min(map(len, names)) > 1
    if several:
        both = [name for name in names[0] if name in names[1]]
        pairs = [
            _pair(paths, [replace(reading, model=name)] * 2, reading, name or "the default model") for name in both
        ]
        pairs = pairs or [
            _pair(paths, [replace(reading, model=each[0]) for each in names], reading)._replace(models=[])
        ]
    else:
        pairs = [_pair(paths, for_each(paths, reading), reading)]
    count, kept, largest = 0, [], 0.0
    try:
        alone = _alone(*names) if several else ()
        for difference in chain(alone, _in_pairs(pairs, storage=storage, progress=progress)):
            count += 1
            largest = max(largest, difference.largest or 0.0)
            if count <= limit:
                kept.append(difference)
    except RecursionError:
        raise LimitError("the graphs are nested too deeply to be compared", path=paths[0]) from None
    form, notes = pairs[0].form, pairs[0].notes
    return Comparison(paths, pairs[0].formats, count, tuple(kept), form.name if form else None, notes, largest)


class _Pair(NamedTuple):
    """Two models that are compared, in one form, and what is left out; `name` is theirs if the files have several."""

    name: str
    models: Sequence[Model]
    formats: tuple[str, str]
    form: Codec | None
    notes: tuple[Loss, ...]


def _pair(paths: Sequence[Path], options: Sequence[ReadOptions], reading: ReadOptions, name: str = "") -> _Pair:
    """One model of each file, which its `options` say."""
    files = zip(paths, options, strict=True)
    opened = [open_model(path, None, own, key_is_for_it=False, called="") for path, own in files]
    codecs = [file.codec for file in opened]
    check_key(reading, *codecs)
    with collector_paused():
        form, models, notes = _in_one_form(paths, codecs, [without_link(file.model) for file in opened])
    if reading.model is None:
        notes += tuple(_left_out(paths, opened, name))
    return _Pair(name, models, (codecs[0].name, codecs[1].name), form, notes)


def _left_out(paths: Sequence[Path], opened: Sequence[Opened], name: str) -> Iterator[Loss]:
    """Notes on what archives have besides the models that are compared: other models and files."""
    for path, file in zip(paths, opened, strict=True):
        bundle = file.codec.bundle(file.source) if file.codec.is_archive else None
        others = "" if bundle is None else (bundle._replace(models=()) if name else bundle).others(None)
        if others:
            yield Loss("left_out", "", f"{others} in {path} are not compared", USE)


def _alone(first: Sequence[str | None], second: Sequence[str | None]) -> Iterator[Difference]:
    """The models that only one of two archives has, by their names."""
    for kind, mine, theirs in (("only first", first, second), ("only second", second, first)):
        for name in mine:
            if name not in theirs:
                where = name or "the default model"
                yield Difference(kind, where, f"this model is {kind.replace(' ', ' in the ')}")


def _in_pairs(
    pairs: Sequence[_Pair], *, storage: bool, progress: Callable[[int, int], None] | None
) -> Iterator[Difference]:
    """The differences of models in pairs; the names of several stand before the places."""
    whole = [pair for pair in pairs if pair.models]
    counted = _counting(progress, [pair.models[0] for pair in whole]) if progress else None
    for pair in whole:
        for difference in _Walk(storage, counted).messages("", *pair.models):
            yield difference._replace(where=f"{pair.name}: {difference.where}") if pair.name else difference


def _finite(number: float | None) -> float | str | None:
    """A number for JSON, which has no infinity."""
    return "inf" if number == inf else number


def _in_one_form(
    paths: Sequence[Path], codecs: Sequence[Codec], models: list[Model]
) -> tuple[Codec | None, list[Model], tuple[Loss, ...]]:
    """The format that the models are compared in, the models, and the parts that are not compared."""
    forms = [codec for codec in codecs if codec.domain is not None]
    if len(forms) != 1:
        return None, models, ()
    (form,) = forms
    own = codecs.index(form)
    other = 1 - own
    try:
        plan = form.plan(models[other], paths[own], form.options())
    except FormatError as error:
        error.path = paths[other]
        raise
    models[other] = form.read(_content(plan.files[0]), None)
    known = {entry.key for entry in models[other].metadata_props}
    props = models[own].metadata_props
    models[own] = replace(models[own], metadata_props=[entry for entry in props if entry.key in known])
    notes = [
        Loss(
            "metadata",
            f"metadata_props[{index}]",
            f"only the {form.title} file has the metadata {entry.key}",
            DOCUMENTATION,
        )
        for index, entry in enumerate(props)
        if entry.key not in known
    ]
    return form, models, (*plan.losses, *notes)


def _content(file: FilePlan) -> Source:
    """The content of a planned file."""
    parts: list[Source] = []
    position = 0
    for write in sorted(file.writes, key=lambda write: write.file_offset):
        parts += (Literal(bytes(write.file_offset - position)), write.source)
        position = write.end
    return Concat.of(*parts, Literal(bytes(file.nbytes - position)))


def differences(
    first: Any, second: Any, *, storage: bool = False, progress: Callable[[int, int], None] | None = None
) -> Iterator[Difference]:
    """How two messages of the same class differ; an empty string equals a missing one."""
    return _Walk(storage, _counting(progress, [first]) if progress else None).messages("", first, second)


def _counting(progress: Callable[[int, int], None], models: Iterable[Any]) -> Callable[[Tensor], None]:
    """A function that counts a tensor of one of the models as compared, and calls `progress`."""
    from formats.verbs.inspect import raw_nbytes

    total = sum(raw_nbytes(tensor) for model in models for _, tensor in walk.tensors(model))
    compared = 0

    def count(tensor: Tensor) -> None:
        nonlocal compared
        compared += raw_nbytes(tensor)
        progress(min(compared, total), total)

    return count


@dataclass(frozen=True, slots=True)
class _Walk:
    """The comparison of two messages."""

    storage: bool
    compared: Callable[[Tensor], None] | None = None

    def messages(self, where: str, first: Any, second: Any) -> Iterator[Difference]:
        """The differences of two messages."""
        if isinstance(first, Tensor):
            yield from self.tensors(where, first, second)
            return
        for name in set_names(first, second):
            if is_left_alike(first, second, name):
                continue
            part = differing(first, second, name)
            both: tuple[Any, Any] = part[1:3] if part else (getattr(first, name), getattr(second, name))
            mine, theirs = both
            if mine is theirs or (not mine and not theirs and isinstance(mine, list)):
                continue
            place = f"{where}.{name}" if where else name
            if isinstance(mine, list):
                yield from self.lists(place, part or Differing(0, mine, theirs, 0))
            elif isinstance(mine, Message) and isinstance(theirs, Message):
                yield from self.messages(place, mine, theirs)
            elif not is_same_value(mine, theirs) and (
                type(first) is Dimension or not is_same_value(_value(mine, theirs), _value(theirs, mine))
            ):
                yield _change(place, name, mine, theirs)

    def lists(self, where: str, differing_part: Differing) -> Iterator[Difference]:
        """The differences of two lists; entries with a name are matched by name, others by position."""
        before, first, second, after = differing_part
        sample = (first or second)[0]
        if not isinstance(sample, Message):
            if not is_same_value(first, second):
                yield _change(where, "", first, second)
            return
        key = _KEYS.get(type(sample))
        mine, theirs = _by_key(first, key), _by_key(second, key)
        if mine is None or theirs is None:
            mine, theirs = dict(enumerate(first)), dict(enumerate(second))
        places = {k: index for index, k in enumerate(mine, before)}  # the entries before are alike, and left out
        for k, entry in mine.items():
            if is_plainly_equal(entry, theirs.get(k)):
                continue
            place = _place(where, places[k], entry)
            if k in theirs:
                inner = self.messages(place, entry, theirs[k])
                yield from _about(_describe(entry), inner) if isinstance(entry, _SUBJECTS) else inner
            else:
                yield Difference("only first", place, f"{_describe(entry)} is only in the first")
        for index, (k, entry) in enumerate(theirs.items(), before):
            if k not in mine:
                yield Difference(
                    "only second", _place(where, index, entry), f"{_describe(entry)} is only in the second"
                )
        common = [k for k in mine if k in theirs]
        if not where.endswith(_UNORDERED) and common != [k for k in theirs if k in mine]:
            detail = f"the {before + len(common) + after} common entries are in a different order"
            yield Difference("order", where, detail)

    def tensors(self, where: str, first: Tensor, second: Tensor) -> Iterator[Difference]:
        """The differences of two tensors, their elements in raw form."""
        for name in set_names(first, second):
            if name not in _BESIDE_ELEMENTS:
                continue
            mine, theirs = getattr(first, name), getattr(second, name)
            if mine != theirs and (mine or theirs):
                yield _change(f"{where}.{name}", name, mine, theirs)
        if (first.dims, first.data_type) == (second.dims, second.data_type):
            detail, largest = compare_elements(first, second)
            if self.compared is not None:
                self.compared(first)
            if detail:
                yield Difference("weights", where, detail, largest=largest)
        if self.storage:
            mine, theirs = _storage(first), _storage(second)
            if mine != theirs:
                yield Difference("storage", where, f"stored as {mine}, and as {theirs} in the second")


def _change(where: str, field: str, first: Any, second: Any) -> Difference:
    """The difference of a field with one value and another."""
    if field in ("data_type", "elem_type", "key_type"):
        first, second = dtypes.type_name(first), dtypes.type_name(second)
    detail = f"{_text(first)} became {_text(second)}"
    if isinstance(first, list) and len(detail) > MAX_TEXT and len(first) == len(second):
        index = next(n for n, pair in enumerate(zip(first, second, strict=True)) if not is_same_value(*pair))
        where, detail = f"{where}[{index}]", f"{_text(first[index])} became {_text(second[index])}"
    return Difference("changed", where, detail)


def _about(subject: str, inner: Iterable[Difference]) -> Iterator[Difference]:
    """The differences; those without a subject get `subject`."""
    return (difference if difference.subject else difference._replace(subject=subject) for difference in inner)


def _by_key(entries: Sequence[Any], key: Callable[[Any], Any] | None) -> dict[Any, Any] | None:
    """The entries by their keys, if all have keys and all keys differ."""
    if key is None:
        return None
    by_key = {key(entry): entry for entry in entries}
    return by_key if len(by_key) == len(entries) and None not in by_key and () not in by_key else None


def _value(value: Any, other: Any) -> Any:
    """The value; for a missing scalar field, the default of its type."""
    return type(other)() if value is None and isinstance(other, (str, bytes, int, float)) else value


def _storage(tensor: Tensor) -> str:
    """The fields with the elements of a tensor, or with their place."""
    fields = [name for name in _STORAGE if getattr(tensor, name)]
    return " and ".join(fields) or "nothing"


def _place(where: str, index: int, entry: Any) -> str:
    return f'{where}["{entry.name or ""}"]' if isinstance(entry, Attribute) else f"{where}[{index}]"


def _describe(entry: Any) -> str:
    """An entry of a list in a few words."""
    if isinstance(entry, OperatorSetId):
        return f"version {entry.version} of {entry.domain or ONNX}"
    if isinstance(entry, Node):
        return f"{entry.op_type} -> {', '.join(entry.output)}"[:MAX_TEXT]
    names = (getattr(entry, field) for field in ("name", "key", "domain") if field in entry.__match_args__)
    name = next(filter(None, names), None)
    return f"{_kind(entry)} {name!r:.{MAX_TEXT}}" if name else f"a {_kind(entry)}"


def _kind(message: Any) -> str:
    return _WORDS.get(type(message)) or type(message).message.removesuffix("Proto").lower()


def _text(value: Any) -> str:
    """A value, shortened."""
    if value is None:
        return "nothing"
    text = f"a {_kind(value)}" if isinstance(value, Message) else _literal(value)
    return text if len(text) <= MAX_TEXT else f"{text[: MAX_TEXT - 3]}..."


def _literal(value: Any) -> str:
    """A value, or the first of many, as Python writes them; NaN with its bits, because NaNs can differ."""
    if isinstance(value, list):
        return f"[{', '.join(map(_literal, value[:MAX_TEXT]))}]"
    if isinstance(value, float) and isnan(value):
        return f"nan (0x{struct.pack('>f', value).hex()})"
    return repr(value)


def compare_elements(first: Tensor, second: Tensor) -> tuple[str, float | None]:
    """How the elements of two tensors of one type and shape differ, "" if they do not, and the largest difference."""
    if first.string_data or second.string_data:
        return "" if first.string_data == second.string_data else "the strings differ", None
    mine, theirs = _elements(first), _elements(second)
    if isinstance(mine, str) or isinstance(theirs, str):  # the reason why they cannot be read
        reason = mine if isinstance(mine, str) else theirs
        return "" if mine == theirs else f"one has elements that cannot be read: {reason}", None
    if mine == theirs:
        return "", None
    return _compare_sources(mine, theirs, dtypes.BY_NUMBER[first.data_type or 0], dtypes.count(first.dims))


def _elements(tensor: Tensor) -> Source | str:
    """The elements in raw form, or why they cannot be read."""
    try:
        return tensor.source()
    except FormatError as error:
        return error.message


def _compare_sources(first: Source, second: Source, row: DataType, elements: int) -> tuple[str, float | None]:
    """Where two sources of the same size differ, in how many elements, and the largest difference; "" if nowhere."""
    import numpy

    first, second = (side if side.granule_bytes else Literal(side.read()) for side in (first, second))
    unit = row.bits // 8 or 1
    word = numpy.dtype(f"<u{min(unit, 8)}")  # what is compared: an element of 16 bytes is two words
    count = first_place = 0
    largest = 0.0
    for offset in range(0, first.nbytes, BLOCK_BYTES):
        nbytes = min(BLOCK_BYTES, first.nbytes - offset)
        mine, theirs = (numpy.frombuffer(side.read(offset, nbytes), word) for side in (first, second))
        differs = mine != theirs
        if unit > word.itemsize:
            differs = differs.reshape(-1, unit // word.itemsize).any(axis=1)
        if differs.any():
            first_place = first_place if count else offset // unit + int(differs.argmax())
            count += int(numpy.count_nonzero(differs))
            largest = max(largest, _largest_difference(_numbers(mine, row), _numbers(theirs, row)))
    if not count:
        return "", None
    detail = f"{count:,} of {elements:,} elements differ, the first is element {first_place:,}"
    if row.bits < 8:
        detail = f"{count:,} of {first.nbytes:,} bytes of packed elements differ, the first is byte {first_place:,}"
    return f"{detail}; the largest difference is {largest:.6g}", largest


def _numbers(words: Array, row: DataType) -> Array:
    """The elements of a block as numbers that numpy can subtract."""
    from formats.tensordata.sources.transform import unpacked_elements

    if row.bits < 8:
        words = unpacked_elements(words.data, row.bits, len(words) * 8 // row.bits)
    return _float32s(row.number).take(words) if row.bits <= 16 else words.view(dtypes.numpy_dtype(row.number))


@lru_cache(maxsize=4096)
def _float32s(number: int) -> Array:
    """The float32 for each element of a narrow type, by its bits: numpy converts these types a number at a time."""
    import numpy

    unit = dtypes.BY_NUMBER[number].bits // 8 or 1
    with numpy.errstate(invalid="ignore"):
        return numpy.arange(1 << 8 * unit).astype(f"<u{unit}").view(dtypes.numpy_dtype(number)).astype("f4")


def _largest_difference(first: Array, second: Array) -> float:
    """The largest difference of numbers, rounded once; infinite if two differ so, or if only one is NaN."""
    import numpy

    if first.dtype.kind in "iu":  # exactly: float64 does not hold all numbers of 64 bits
        apart = numpy.maximum(first, second).astype("u8") - numpy.minimum(first, second).astype("u8")
        return float(apart.max(initial=0))
    with numpy.errstate(invalid="ignore", over="ignore"):
        wide = "c16" if first.dtype.kind == "c" else "f8"
        differences = numpy.abs(numpy.subtract(first, second, dtype=wide, casting="unsafe"))
        if not isnan(largest := float(differences.max(initial=0.0))):
            return largest
        differences[(first == second) | (numpy.isnan(first) & numpy.isnan(second))] = 0.0
    return float(numpy.where(numpy.isnan(differences), inf, differences).max(initial=0.0))
