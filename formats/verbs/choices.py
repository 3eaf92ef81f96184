"""The options that a caller chooses for a conversion, grouped by the part that uses them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from formats.codecs import lookup
from formats.codecs.contract import READING, ReadOptions
from formats.codecs.lookup import FORMAT, RUNTIME
from formats.editing.options import NODES
from formats.errors import OptionError
from formats.ir import FIRST_WITH_OPERATOR_SETS, NEWEST_IR_VERSION, domain_key, dtypes
from formats.options import (
    CHANGES,
    METADATA,
    SWITCH,
    Flag,
    OptionKind,
    check_names,
    choice,
    count,
    decimal,
    make_options,
    make_own_options,
    name_and_value,
    names_of,
    option,
    option_rows,
    pairs,
    settle,
    texts_by_name,
)
from formats.tensordata.engine import EngineOptions
from formats.tensordata.file import is_stream
from formats.tensordata.plan import ALLOWED_KINDS
from formats.words import joined

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from formats.codecs.contract import Codec, Runtime
    from formats.codecs.lookup import RuntimeName

T = TypeVar("T")


def _kinds(value: Any) -> tuple[str, ...]:
    """Kinds of losses; one of them as a text counts as a list of it."""
    kinds = (value,) if isinstance(value, str) else tuple(value)
    if not kinds:
        raise ValueError(value)
    for kind in kinds:
        if kind not in ALLOWED_KINDS:
            from formats.words import nearest

            raise OptionError(
                f"`allow` names {kind!r:.100}, which is no kind of loss{nearest(str(kind), ALLOWED_KINDS)}"
            )
    return kinds


def _operator_sets(value: Any) -> Mapping[str, int]:
    """Versions by the domain of their operator set, "" for ONNX's own, which a number means."""
    sets = value if isinstance(value, Mapping) else {"": value}
    kind = count(1)
    versions = {domain_key(domain): kind.checked(version) for domain, version in sets.items()}
    if not versions or not all(isinstance(domain, str) for domain in sets):
        raise TypeError(value)
    return versions


def _typed_operator_set(typed: str) -> tuple[str, int]:
    """The domain and the version of `N` or `DOMAIN=N`."""
    domain, version = name_and_value(typed) if "=" in typed else ("", typed)
    return domain, decimal(version)


MAX_METADATA_FILE_BYTES = 1 << 24
OPERATOR_SETS = OptionKind(
    "a whole number of at least 1, or DOMAIN=N, such as ai.onnx.ml=3",
    _operator_sets,
    "N|DOMAIN=N",
    _typed_operator_set,
    keyword_type="int | Mapping[str, int]",
    repeatedly=True,
    keyword_words="a whole number of at least 1, or a dictionary of domains and such numbers",
)


KINDS = OptionKind(
    "kinds of losses, such as metadata or range",
    _kinds,
    "KIND",
    lambda text: (text, None),
    repeatedly=True,
    values=lambda: ALLOWED_KINDS,
)


@dataclass(frozen=True, slots=True)
class ConversionOptions:
    """The options of a conversion that do not depend on the formats.

    `from_format`, `to_format`: the formats of the files, if content and extension do not show them. `strict`: if a
    loss matters, nothing is written. `allow`, which implies it: kinds of losses that pass. `lenient`: a file that
    breaks a rule of its format, but has a clear meaning, is accepted, such as an archive that was made with a zip tool.

    Raises: OptionError for an invalid value.
    """

    from_format: str | None = option(
        None, FORMAT, "The format to read, if the content does not show it.", flag="--from"
    )
    to_format: str | None = option(
        None, FORMAT, "The format to write, if not that of DST's extension: {formats}.", flag="--to", common=True
    )
    strict: bool = option(False, SWITCH, "Refuse a conversion whose report has a warning.", common=True)
    allow: Sequence[str] | None = option(
        None,
        KINDS,
        "With --strict, let losses of this kind pass, such as metadata or range; repeat the option for each one.",
        implies=("strict", True),
        keyword_help="With `strict`, kinds of losses that pass, such as ('metadata', 'range').",
    )
    lenient: bool = option(False, SWITCH, "Read an .onnxz file that another zip tool made.", panel=READING)

    def __post_init__(self) -> None:
        settle(self)


@dataclass(frozen=True, slots=True)
class RaisingOptions:
    """How a model with the operators of its format becomes a model with ONNX operators.

    `pin`: types of inputs and outputs by name, if they must differ from those of the format, such as "int64", "bool"
    or "float16".

    Raises: OptionError for an invalid value.
    """

    pin: Mapping[str, str] | None = option(
        None,
        pairs("NAME=TYPE", "names and types", "input_ids=int64"),
        "Give an input or output a type that .rten files lack, such as int64; repeat the option for each one.",
        panel="Options for .rten as SRC",
        keyword_help="Give inputs or outputs types by name that .rten files lack, such as {'input_ids': 'int64'}.",
    )

    def __post_init__(self) -> None:
        settle(self)
        for name, type_name in (self.pin or {}).items():
            if type_name.upper() not in dtypes.BY_NAME:
                raise OptionError(f"`pin` gives {name!r:.100} the type {type_name!r:.100}, which does not exist")


def _split_first(typed: str) -> tuple[str, str]:
    """The key and the value of `KEY=VALUE`; a value may be empty, and have equals signs in it."""
    key, equals, value = typed.partition("=")
    if not equals and (typed.endswith(".json") or Path(typed).is_file()):
        raise OptionError(
            f"--metadata takes {METADATA.words}; the option for the texts in a file is --metadata-file {typed}"
        )
    if not (key and equals):
        raise ValueError(typed)
    return key, value


def _texts_in_file(path: str) -> Mapping[str, str]:
    """The texts of the JSON object in a file."""
    import json

    expected = 'expected a JSON object whose values are texts, such as {"license": "MIT"}'
    try:
        with Path(path).open("rb") as file:
            content = file.read(MAX_METADATA_FILE_BYTES + 1)
    except OSError as error:
        raise OptionError(f"{path}: {error.strerror or error}") from error
    if len(content) > MAX_METADATA_FILE_BYTES:
        raise OptionError(f"{path}: a file of metadata has at most {MAX_METADATA_FILE_BYTES:,} bytes")
    try:
        return texts_by_name(json.loads(content))
    except TypeError:
        raise OptionError(f"{path}: {expected}") from None
    except RecursionError:
        raise OptionError(f"{path}: {expected}; this is nested too deeply") from None
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise OptionError(f"{path}: {expected}; this is not JSON: {error.msg} ({place})") from error
    except ValueError:
        raise OptionError(f"{path}: {expected}; this is not UTF-8, or has a number of thousands of digits") from None


@dataclass(frozen=True, slots=True)
class MetadataOptions:
    """Which texts of the metadata are set in the model that is written.

    `metadata`: texts by key; an empty text removes the key.

    Raises: OptionError for an invalid value.
    """

    metadata: Mapping[str, str] | None = option(
        None,
        METADATA,
        "Set a text of the metadata; an empty VALUE removes the key.",
        flags=(
            Flag(
                ("--metadata",),
                "Set a text of the metadata; an empty VALUE removes the key.",
                METADATA.metavar,
                from_text=_split_first,
            ),
            Flag(
                ("--metadata-file",),
                "Set the texts of the JSON object in FILE.",
                "FILE",
                from_text=_texts_in_file,
            ),
        ),
        panel=CHANGES,
        common=True,
        keyword_help="Texts of the metadata, such as {'license': 'MIT'}; an empty one removes the key.",
    )

    def __post_init__(self) -> None:
        settle(self)


VERSIONS = "Versions and runtimes"


@dataclass(frozen=True, slots=True)
class RuntimeOptions:
    """Which program will run a model, and in which versions and which type ONNX is written.

    `runtime`: the name of a program, perhaps with a release. "rten": ONNX is written so that RTen's own loader runs it:
    operators that it refuses, or computes differently from ONNX, are rewritten; with `exact`, so are those that it
    computes differently only for special values, such as NaN and half steps. "rten==0.27": a `.rten` file is for this
    release and later ones, and otherwise for all known ones. "onnxruntime==1.18": a model with a newer IR version or
    newer operator sets than this release reads is lowered; without a release, it is the newest known one.

    `opset`: the version of ONNX's own operators, or versions by domain, such as {"ai.onnx.ml": 3}. `ir_version`: that
    of the file. What cannot be converted is an error.
    `dtype`: "float16" or "bfloat16": float32s become such, in weights, values, inputs and outputs; "float32": both
    become float32s, and so do weights that are integers in blocks, unless a `weights_dtype` is given. `int32`: 64-bit
    integers become int32, inputs and outputs, too, where no number needs more bits if those of inputs do not. With
    `keep_io_types`, inputs and outputs stay. `keep`: operators or nodes that stay as they are; * is any text. Without
    `dtype` and `int32`, `keep_io_types` implies "float16". With a release of onnxruntime as `runtime`, operators for
    which it has no kernel in that type stay as they are.

    `weights_dtype`: "int4", "int8", "uint4" or "uint8": weights of MatMul, Gemm and Gather become integers in blocks of
    `block` elements that have a scale each, and with the unsigned types a zero point, too. For a `runtime`, the nodes
    are those of com.microsoft that it has (MatMulNBits, GatherBlockQuantized); without one, DequantizeLinear of
    operator set 21, with 8 bits for Gather. `keep` is for these nodes, too.

    `channel_block`: how many channels a block has in a model that onnxruntime wrote in blocks for its own machine, if
    nothing in the file shows it: 16 on a processor with AVX-512, 8 on one without. It is for models written for a
    runtime.

    Raises: OptionError for an invalid value.
    """

    runtime: str | None = option(
        None,
        RUNTIME,
        "Write for a runtime: ONNX that RTen's loader runs (rten), a .rten file for a release and later ones "
        "(rten==0.27), ONNX that a release reads (onnxruntime==1.18).",
        panel=VERSIONS,
        common=True,
    )
    opset: Mapping[str, int] | None = option(
        None,
        OPERATOR_SETS,
        "Convert ONNX's operators to version N of their set, up or down; ai.onnx.ml=3 for another set of ONNX.",
        panel=VERSIONS,
        common=True,
        keyword_help="Convert ONNX's operators to this version of their set, up or down; {'ai.onnx.ml': 3} for "
        "another set of ONNX.",
    )
    ir_version: int | None = option(
        None,
        count(FIRST_WITH_OPERATOR_SETS, NEWEST_IR_VERSION),
        "Write the model in IR version N.",
        panel=VERSIONS,
    )
    dtype: str | None = option(
        None,
        choice("float16", "bfloat16", "float32")._replace(metavar="TYPE"),
        "Write floats as float16, bfloat16 or float32.",
        panel=VERSIONS,
        common=True,
    )
    int32: bool = option(
        False,
        SWITCH,
        "Write 64-bit integers as int32 where no number needs more bits.",
        panel=VERSIONS,
    )
    keep_io_types: bool = option(
        False,
        SWITCH,
        "With --dtype or --int32, keep the types of inputs and outputs, with casts.",
        keyword_help="With `dtype` or `int32`, keep the types of inputs and outputs, with casts.",
        panel=VERSIONS,
    )
    keep: Sequence[str] | None = option(
        None,
        NODES,
        "With --dtype or --int32, leave operators or nodes with this name as they are, such as Softmax or '/head/*'.",
        panel=VERSIONS,
        keyword_help="With `dtype` or `int32`, names of operators or nodes that stay as they are, such as ('Softmax', "
        "'/head/*').",
    )
    weights_dtype: str | None = option(
        None,
        choice("int4", "int8", "uint4", "uint8"),
        "Write the weights of MatMul, Gemm and Gather as integers in blocks; the unsigned ones have zero points.",
        panel=VERSIONS,
    )
    block: int | None = option(
        None,
        choice(16, 32, 64, 128, 256),
        "With --weights-dtype, the elements of a block; 32 by default.",
        panel=VERSIONS,
        keyword_help="With `weights_dtype`, the elements of a block; 32 by default.",
    )
    channel_block: int | None = option(
        None,
        choice(8, 16),
        "Channels in a block of a model in onnxruntime's own layout, if the file does not show it.",
        panel=VERSIONS,
    )

    def __post_init__(self) -> None:
        settle(self)
        if self.keep_io_types and self.dtype is None and not self.int32:
            object.__setattr__(self, "dtype", "float16")
        if self.keep and self.dtype is None and self.weights_dtype is None and not self.int32:
            raise OptionError("`keep` is for a `dtype`, a `weights_dtype` or `int32`")
        if self.block is not None and self.weights_dtype is None:
            raise OptionError("`block` is for a `weights_dtype`")

    @property
    def is_given(self) -> bool:
        """Whether anything is asked for."""
        wanted = (self.runtime, self.opset, self.ir_version, self.dtype, self.weights_dtype)
        return self.int32 or any(value is not None for value in wanted)

    @property
    def named(self) -> RuntimeName | None:
        """The runtime and its release."""
        return None if self.runtime is None else lookup.runtime_named(self.runtime)


@dataclass(frozen=True, slots=True)
class ReplacementOptions:
    """What becomes of a model that is replaced; both need `overwrite=True`.

    `clean`: data files that the replaced model referred to, and that no other graph in the folder uses, are removed
    after the new model is in its place. `backup`: the replaced model stays as `model.bak.onnx`, with its data files; an
    older backup is replaced.

    Raises: OptionError for an invalid value.
    """

    clean: bool = option(
        False, SWITCH, "Remove data files of a replaced model that nothing else in its folder uses.", common=True
    )
    backup: bool = option(False, SWITCH, "Keep a replaced model.onnx, with its data files, as model.bak.onnx.")

    def __post_init__(self) -> None:
        settle(self)


def check_replacement(options: ReplacementOptions, *, overwrite: bool) -> None:
    """Raises OptionError if one of the options is chosen, but nothing may be replaced."""
    for name in names_of(ReplacementOptions):
        if getattr(options, name) and not overwrite:
            raise OptionError(f"`{name}` is about a model that is replaced, so it needs `overwrite=True`")


class Choice(NamedTuple):
    """The options that a caller has chosen, grouped by the part that uses them."""

    engine: EngineOptions
    replacement: ReplacementOptions
    writing: Any  # the options of the target format
    raising: RaisingOptions
    runtime: RuntimeOptions
    reading: ReadOptions
    metadata: Mapping[str, str] | None = None
    exact: bool = False  # for a runtime: what it computes otherwise than ONNX is rewritten


def choose(
    target: Codec, options: object, keywords: Mapping[str, Any], *, by: Callable[..., Any], reads: bool = False
) -> Choice:
    """The options of each part: the engine, the target format and so on, and of reading if a file is read.

    `by` is the function that was called, whose own keywords are possible, too.

    Raises: OptionError if an option is unknown, invalid, given twice, or missing.
    """
    keywords, exact = _without_exact(target, keywords)
    kinds = [EngineOptions, RaisingOptions, RuntimeOptions, ReplacementOptions, MetadataOptions, target.options]
    _check_known(keywords, [*kinds, *((ReadOptions, ConversionOptions) if reads else ())], target, by)
    if options is not None:
        if not isinstance(options, target.options):
            names = type(options).__name__, target.options.__name__
            raise OptionError(f"`options` is a {names[0]}, but must be a {names[1]} for {target.title}")
        if twice := keywords.keys() & names_of(target.options):
            raise OptionError(f"`{min(twice)}` is given twice: it is also in `options`")
    engine, replacement = make_own_options(EngineOptions, keywords), make_own_options(ReplacementOptions, keywords)
    raising, runtime = make_own_options(RaisingOptions, keywords), make_own_options(RuntimeOptions, keywords)
    metadata = make_own_options(MetadataOptions, keywords).metadata
    check_replacement(replacement, overwrite=engine.overwrite)
    of_target = make_own_options(target.options, keywords) if options is None else options
    for row in option_rows(target.options):
        if row.required and getattr(of_target, row.name) is None:
            raise OptionError(f"`{row.name}` is needed to write {target.title}")
    of_target = _for_runtime(target, runtime, of_target)
    _check_metadata(target, metadata or {})
    return Choice(
        engine=engine,
        replacement=replacement,
        writing=of_target,
        raising=raising,
        runtime=runtime,
        reading=make_own_options(ReadOptions, keywords),
        metadata=metadata,
        exact=exact,
    )


def taken(options: type[T], keywords: Mapping[str, Any]) -> tuple[T, dict[str, Any]]:
    """The options of a class among keywords, and the other keywords."""
    others = {name: value for name, value in keywords.items() if name not in names_of(options)}
    return make_own_options(options, keywords), others


def _check_metadata(target: Codec, metadata: Mapping[str, str]) -> None:
    """Raises OptionError for a key that the target format does not hold."""
    if target.metadata_keys is None:
        return
    if unknown := [key for key, text in metadata.items() if text and key not in target.metadata_keys]:
        keys = ", ".join(target.metadata_keys)
        raise OptionError(f"`metadata` has {unknown[0]!r:.100}, which {target.title} does not know; it knows {keys}")


def _for_runtime(target: Codec, options: RuntimeOptions, of_target: Any) -> Any:
    """The options of the target format, with the release of the format's own runtime.

    Raises: OptionError if the runtime or a version has no meaning for the format, or contradicts another option.
    """
    named = options.named
    if target.domain is not None:
        for name in ("opset", "ir_version", "dtype", "int32", "weights_dtype"):
            if getattr(options, name):
                raise OptionError(f"`{name}` is only for ONNX formats; {target.title} is not one")
        if named is not None and named.name != target.name:
            raise OptionError(f"`runtime` is {named.name}, which reads ONNX formats; {target.title} is not one")
        return of_target if named is None or named.release is None else replace(of_target, release=named.release)
    data_files = target.data_files(of_target)
    for name in ("dtype", "int32", "weights_dtype"):
        if getattr(options, name) and data_files.in_archive:
            raise OptionError(f"`{name}` and `link` exclude each other: the weights stay in the archive as they are")
    if named is None:
        if options.channel_block is not None:
            raise OptionError("`channel_block` needs a `runtime`: without one, the layout stays")
        return of_target
    if (runtime := named.runtime) is None:
        _check_versions(options, named)
    else:
        _check_rewriting(target, options, named, runtime, data_files.name)
    return of_target


def _check_versions(options: RuntimeOptions, named: RuntimeName) -> None:
    """Raises OptionError if the release of onnxruntime does not read the chosen versions."""
    from formats.codecs.onnxruntime_releases import NEWEST, RELEASES

    release = named.release or NEWEST
    row = RELEASES[release]
    chosen = [("`ir_version`", options.ir_version or 0, row.ir_version)]
    for domain, version in (options.opset or {}).items():
        name = f"`opset` of {domain}" if domain else "`opset`"
        chosen.append((name, version, row.opsets.get(domain, version)))
    for name, version, most in chosen:
        if version > most:
            raise OptionError(f"{name} is {version}, but onnxruntime {release} reads none newer than {most}")


def _check_rewriting(
    target: Codec, options: RuntimeOptions, named: RuntimeName, runtime: Runtime, data_file: str | None
) -> None:
    """Raises OptionError if ONNX in the target format cannot be rewritten for a runtime with these options."""
    if target.only_runtime is not None:
        raise OptionError(f"`runtime` is {named.name}, which does not read the format of {target.title}")
    newest = runtime.releases()[-1:]
    if named.release not in (None, *newest):
        written = f"ONNX is written for {named.name} {newest[0]} only"
        raise OptionError(f"`runtime` is {named}, but {written}; name that release, or none")
    if options.opset is not None:
        reason = "the operator set follows from the runtime"
        raise OptionError(f"`opset` and `runtime={named}` exclude each other: {reason}")
    if options.dtype is not None:
        raise OptionError(f"`dtype` and `runtime={named}` exclude each other: {named.name} computes in float32")
    if data_file is not None:
        runtime.check_name(data_file)


def _without_exact(target: Codec, keywords: Mapping[str, Any]) -> tuple[Mapping[str, Any], bool]:
    """The options without `exact`, and its value, if it is for a runtime: then the target format has no such option."""
    text = keywords.get("runtime")
    if "exact" not in keywords or not isinstance(text, str) or "exact" in names_of(target.options):
        return keywords, False
    named = lookup.runtime_named(text)
    if named.runtime is None:
        return keywords, False
    of_format: Any = make_options(lookup.by_name(named.name).options, {"exact": keywords["exact"]})
    return {key: value for key, value in keywords.items() if key != "exact"}, of_format.exact


def in_one_file(
    keywords: Mapping[str, Any], target: Codec, options: object, destination: Path | None = None
) -> Mapping[str, Any]:
    """The keywords; in bytes or a stream, which is a single file, the weights are inside if no option says where.

    Raises: OptionError for an option that only files have.
    """
    if destination is not None and not is_stream(destination):
        return keywords
    kind, names = ("bytes", ("overwrite", "dry_run", "fsync")) if destination is None else ("a stream", ("fsync",))
    names = (*names, *names_of(ReplacementOptions))
    if of_files := [name for name in names if keywords.get(name)]:
        raise OptionError(f"`{of_files[0]}` is for files; the model is written to {kind}")
    return keywords if options is not None else target.in_one_file(keywords)


def _check_known(keywords: Mapping[str, Any], kinds: Sequence[type], target: Codec, by: Callable[..., Any]) -> None:
    """Raises OptionError if the target, or any format, does not have a given option."""
    possible = set().union(*map(names_of, kinds))
    if not (unknown := [name for name in keywords if name not in possible]):
        return
    of_others = set(names_of(ReadOptions)).union(*(names_of(codec.options) for codec in lookup.codecs()))
    if not (unheard := [name for name in unknown if name not in of_others]):
        listed = joined([f"`{name}`" for name in sorted(unknown)])
        raise OptionError(f"{listed} cannot be used for {target.title}")
    check_names(unheard, kinds, f" for {target.title}", by)
