"""What changes in a model, as options, and what an edit did, as data for reports.

`model_edits.py` says how to add an edit.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, Any, NamedTuple

from formats.errors import OptionError
from formats.options import CHANGES, SWITCH, OptionKind, Typed, filled_text, name_and_value, option, pairs, settle, text
from formats.words import joined

if TYPE_CHECKING:
    from formats.tensordata.plan import Loss


LARGEST_DIM = (1 << 63) - 1
MOST_NAMED = 10  # nodes, values or parts that an error names


def _sizes(value: Any) -> Mapping[str, int | str]:
    if not isinstance(value, Mapping):
        raise TypeError(value)
    return {filled_text(name): _size(size) for name, size in value.items()}


def _size(value: Any) -> int | str:
    """A size, or the name of a dim."""
    if isinstance(value, str):
        if value.isascii() and value.isdecimal():
            value = int(value)
        elif not value.isidentifier():
            raise ValueError(value)
        else:
            return value
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= LARGEST_DIM:
        raise ValueError(value)
    return value


def _weights(value: Any) -> Any:
    if isinstance(value, Mapping) or (isinstance(value, (str, os.PathLike)) and os.fspath(value)):
        return value
    raise TypeError(value)


def _names_or_values(value: Any) -> Mapping[str, Any]:
    """Values by name; a name alone, or a text in which commas separate some, has `None`."""
    if isinstance(value, Mapping):
        return {filled_text(name): value[name] for name in value}
    return dict.fromkeys(_listed(value))


def _typed_alone(text: str) -> tuple[Typed, None]:
    """What was typed: a name or names, a file, or a name and a file with an equals sign between them."""
    return Typed(filled_text(text)), None


def _listed(value: Any) -> Sequence[str]:
    """Names, from a list of them or from texts in which commas separate them, which `names_of` splits."""
    if isinstance(value, (str, Mapping)):
        value = [*map(Typed, [value] if isinstance(value, str) else value)]
    if not isinstance(value, Sequence) or not value:
        raise TypeError(value)
    return tuple(map(filled_text, value))


def _typed_pair(text: str) -> tuple[Typed, str]:
    """What was typed, two names with an equals sign between them, which `pair_of` splits."""
    name_and_value(text)
    return Typed(text), ""


def _links(value: Any) -> Sequence[tuple[str, str]]:
    """Pairs of an output and an input: from a mapping of outputs to one or several inputs, or from typed pairs."""
    links: list[tuple[str, str]] = []
    for output, names in value.items() if isinstance(value, Mapping) else value:
        texts = [names] if isinstance(names, str) else names
        links += [(filled_text(output), name if isinstance(output, Typed) else filled_text(name)) for name in texts]
    return tuple(links)


LINKS = OptionKind(
    "OUT=IN, an output of the first model and an input of the second, such as features=input",
    _links,
    "OUT=IN",
    _typed_pair,
    keyword_type="Mapping[str, str | Sequence[str]]",
    repeatedly=True,
    keyword_words="a dictionary of outputs and inputs, such as {'features': 'input'}",
)
VALUES = OptionKind(
    "names of values, separated by commas", _listed, "NAMES", lambda text: (text, None), repeatedly=True
)
SOME_VALUES = VALUES._replace(words="names or patterns of values, separated by commas", metavar="NAME|PATTERN|all")
NODES = VALUES._replace(words="names or patterns of nodes or operators, separated by commas", metavar="NODE")
NAMES = pairs("OLD=NEW", "names and new names", "input=images")._replace(from_text=_typed_pair)
SIZES = OptionKind(
    "NAME=SIZE, such as batch=1 for a dim, images:0=1 for an axis of an input, or batch=n to name it",
    _sizes,
    "NAME=SIZE",
    name_and_value,
    repeatedly=True,
    keyword_words="a dictionary of sizes or new names, such as {'batch': 1} or {'images:0': 'batch'}",
)
LAYOUTS = ["CHW", "HWC", "NCL", "NLC", "NCHW", "NHWC", "NCDHW", "NDHWC"]


def _layouts(value: Any) -> Mapping[str, str]:
    if not isinstance(value, Mapping) or not {*value.values()} <= {*LAYOUTS}:
        raise ValueError(value)
    return {filled_text(name): layout for name, layout in value.items()}


LAYOUT = OptionKind(
    f"NAME=LAYOUT, such as images=NHWC; the layouts are {joined(LAYOUTS)}",
    _layouts,
    "NAME=LAYOUT",
    name_and_value,
    repeatedly=True,
    keyword_words=f"a dictionary of names and layouts, such as {{'images': 'NHWC'}}; these are {joined(LAYOUTS)}",
)
SETTING = re.compile(r"(?<=.)\.(\w+)=")  # between the names of nodes and a value: the attribute


def _typed_nodes(text: str) -> tuple[Typed, str]:
    """The names of nodes, and the text that they get."""
    name, value = name_and_value(text)
    return Typed(name), value


def _typed_setting(text: str) -> tuple[Typed, str]:
    """What was typed, NODE.ATTRIBUTE=VALUE; only the model says where the name of a node ends."""
    if not SETTING.search(text):
        raise ValueError(text)
    return Typed(text), ""


def _settings(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping) or not all(isinstance(key, str) and SETTING.search(f"{key}=") for key in value):
        raise ValueError(value)
    return value


OPERATORS = pairs("NODE=OPERATOR", "nodes and operators", "Relu_3=LeakyRelu")._replace(from_text=_typed_nodes)
DOMAINS = pairs("NODE=DOMAIN", "nodes and domains", "Gelu_3=com.microsoft")._replace(from_text=_typed_nodes)
SETTINGS = OptionKind(
    "NODE.ATTRIBUTE=VALUE, such as Elu_3.alpha=0.5",
    _settings,
    "NODE.ATTR=VALUE",
    _typed_setting,
    repeatedly=True,
    keyword_words="a dictionary of nodes with attributes, and values, such as {'Elu_3.alpha': 0.5}",
)


def _numbers(value: Any) -> tuple[float, ...]:
    """Finite numbers, from one, a list of them, or a text in which commas separate them."""
    words = value.split(",") if isinstance(value, str) else [value] if isinstance(value, (int, float)) else [*value]
    numbers = tuple(float(word) for word in words)
    if not numbers or not all(map(isfinite, numbers)):
        raise ValueError(value)
    return numbers


def _divisors(value: Any) -> tuple[float, ...]:
    numbers = _numbers(value)
    if 0 in numbers:
        raise ValueError(value)
    return numbers


def _scale(value: Any) -> tuple[float, float]:
    """A factor and a divisor."""
    factor, slash, divisor = value.partition("/") if isinstance(value, str) else (value, "", "")
    (numerator,), (denominator,) = _divisors(factor), _divisors(divisor if slash else 1)
    return numerator, denominator


SCALE = OptionKind("a number or a fraction, such as 1/255", _scale, "NUMBER", keyword_type="str | float")
NUMBERS = OptionKind(
    "one number, or one for each channel, separated by commas",
    _numbers,
    "NUMBERS",
    keyword_type="float | Sequence[float]",
)
WEIGHTS = OptionKind(
    "the name of a file, or NAME=FILE for one weight",
    _weights,
    "FILE|NAME=FILE",
    _typed_alone,
    repeatedly=True,
    keyword_words="the name of a file, or a dictionary of names and arrays or files",
)
DEFAULTS = OptionKind(
    "names or patterns of inputs with a default, or NAME=FILE",
    _names_or_values,
    "NAME|PATTERN|NAME=FILE",
    _typed_alone,
    keyword_type="Mapping[str, Any] | Sequence[str]",
    repeatedly=True,
    keyword_words="names or patterns of inputs, or a dictionary of names and arrays or files",
)


@dataclass(frozen=True, slots=True)
class EditOptions:
    """What changes in a model, in this order; so names in `weights` and `dim` are those before `rename`.

    `MetadataOptions` come after them.

    `initializer_to_input`: weights that become inputs. `input_to_initializer`: inputs that become weights: names of
    those with a default, or arrays or files by name.

    `set_operator`, `set_domain`, `set_attribute`: what nodes get, which are named as for `bypass`.

    `bypass`: nodes that are taken out. `add_output`, `remove_output`: values that become outputs, or are none any more.
    `fold`: what nodes compute from constants is computed. `prune`: what no output needs is removed.

    `uint8_input`: inputs that become uint8; the nodes get (x * `scale` - `mean`) / `std`, as far as these are given.
    `layout`: inputs and outputs get another order of axes.

    `prefix`: a text that all names get in front. `strip_docs`, `strip_training`: documentation and graphs for training
    are removed.

    `sort`: nodes come after those whose values they use, as ONNX wants it. Other edits sort, too, but leave nodes that
    need each other in a circle as they are, which is an error for `sort`.

    `weights`: a .safetensors file, the index of several (model.safetensors.index.json), an .npz or a model file, whose
    tensors replace weights of the same names, or an .npy file, which is called like its weight; or arrays by name, or
    files with one tensor. `cast`: those of another float type are converted.
    `dim`: sizes or new names, by the name of a dim (`batch`) or of an axis of an input (`images:0`). `rename`: new
    names of values, by their old ones; all are renamed at once.

    Raises: OptionError for an invalid value.
    """

    sort: bool = option(
        False, SWITCH, "Sort nodes that come before those whose values they use, as every edit does.", panel=CHANGES
    )
    weights: str | os.PathLike[str] | Mapping[str, Any] | None = option(
        None,
        WEIGHTS,
        "Take new weights by name from FILE: .safetensors, its .index.json, .npz, .npy or a model.",
        panel=CHANGES,
        common=True,
        keyword_help="A .safetensors, .npz, .npy or model file, an index of several, or arrays or files by name.",
    )
    cast: bool = option(
        False, SWITCH, "Convert new weights of another float type to the type in the model.", panel=CHANGES
    )
    initializer_to_input: Sequence[str] | None = option(
        None,
        SOME_VALUES._replace(metavar="NAME|PATTERN"),
        "Make a weight an input.",
        panel=CHANGES,
        keyword_help="Weights that become inputs, such as ['embedding'].",
    )
    input_to_initializer: Mapping[str, Any] | None = option(
        None,
        DEFAULTS,
        "Make an input a weight: with its default, or the tensor in FILE.",
        panel=CHANGES,
        keyword_help="Inputs that become weights: names of those with a default, or arrays or files by name.",
    )
    dim: Mapping[str, int | str] | None = option(
        None,
        SIZES,
        "Set a dim everywhere, such as batch=1, or an axis of an input, such as images:0=4; a word names the dim.",
        panel=CHANGES,
        common=True,
        keyword_help="Sizes or names of dims, such as {'batch': 1}, or of an axis of an input, {'images:0': 4}.",
    )
    set_operator: Mapping[str, str] | None = option(
        None,
        OPERATORS,
        "Give nodes another operator that takes their inputs and attributes.",
        panel=CHANGES,
        keyword_help="New operators of nodes, such as {'Relu_3': 'LeakyRelu'}.",
    )
    set_domain: Mapping[str, str] | None = option(
        None,
        DOMAINS,
        "Give nodes another domain; ONNX's own is ai.onnx.",
        panel=CHANGES,
        keyword_help="New domains of nodes, such as {'Gelu_3': 'com.microsoft'}.",
    )
    set_attribute: Mapping[str, Any] | None = option(
        None,
        SETTINGS,
        "Set an attribute of nodes, such as Elu_3.alpha=0.5; commas separate a list, and without VALUE it is removed.",
        panel=CHANGES,
        keyword_help="Attributes of nodes, such as {'Elu_3.alpha': 0.5}; `None` removes one.",
    )
    bypass: Sequence[str] | None = option(
        None,
        NODES,
        "Take a node out, so that what used its output uses its input: by name, output, operator or pattern.",
        panel=CHANGES,
        keyword_help="Nodes that are taken out, by name, output or operator, such as ['Dropout'].",
    )
    add_output: Sequence[str] | None = option(
        None,
        SOME_VALUES,
        "Make values outputs: one, those like 'conv*', or all.",
        panel=CHANGES,
        common=True,
        keyword_help="Values that become outputs, such as ['features', 'conv*'], or 'all'.",
    )
    remove_output: Sequence[str] | None = option(
        None,
        SOME_VALUES._replace(metavar="NAME|PATTERN"),
        "Make an output an inner value; --prune also removes what computes it.",
        panel=CHANGES,
        keyword_help="Outputs that are none any more, such as ['aux*'].",
    )
    fold: bool = option(
        False,
        SWITCH,
        "Compute what nodes compute from constants and fixed shapes, and remove what is not needed then.",
        panel=CHANGES,
    )
    prune: bool = option(
        False,
        SWITCH,
        "Remove what no output needs; inputs stay.",
        panel=CHANGES,
        common=True,
    )
    uint8_input: Sequence[str] | None = option(
        None,
        VALUES,
        "Make inputs uint8, as cameras and files have pixels; a Cast gives the model its floats.",
        panel=CHANGES,
        keyword_help="Inputs that become uint8, such as ['images'].",
    )
    scale: tuple[float, float] | None = option(  # a factor and a divisor
        None, SCALE, "Multiply uint8 inputs by NUMBER; 1/255 divides by 255.", panel=CHANGES
    )
    mean: tuple[float, ...] | None = option(
        None,
        NUMBERS,
        "Subtract NUMBERS from uint8 inputs, after --scale: one, or one for each channel.",
        panel=CHANGES,
        keyword_help="What is subtracted from uint8 inputs after `scale`: a number, or one for each channel.",
    )
    std: tuple[float, ...] | None = option(
        None,
        NUMBERS._replace(words="numbers other than 0, separated by commas", checked=_divisors),
        "Divide uint8 inputs by NUMBERS, after --mean.",
        panel=CHANGES,
        keyword_help="What uint8 inputs are divided by after `mean`: a number, or one for each channel.",
    )
    layout: Mapping[str, str] | None = option(
        None,
        LAYOUT,
        "Give an input or output another layout, such as images=NHWC, by a Transpose.",
        panel=CHANGES,
        keyword_help="New layouts of inputs and outputs, such as {'images': 'NHWC'}.",
    )
    rename: Mapping[str, str] | None = option(
        None,
        NAMES,
        "Rename a value wherever it is used; repeat the option for each one.",
        panel=CHANGES,
        common=True,
        keyword_help="New names of values, such as {'input.1': 'images'}.",
    )

    prefix: str | None = option(
        None,
        text("PREFIX"),
        "Begin the names of all values and nodes with PREFIX, inputs and outputs included.",
        panel=CHANGES,
    )
    strip_docs: bool = option(
        False,
        SWITCH,
        "Remove documentation, and metadata of nodes and values, such as paths of an exporter.",
        panel=CHANGES,
    )
    strip_training: bool = option(False, SWITCH, "Remove the graphs that train the model.", panel=CHANGES)

    def __post_init__(self) -> None:
        settle(self)
        for name in ("scale", "mean", "std"):
            if getattr(self, name) is not None and not self.uint8_input:
                raise OptionError(f"`{name}` has an effect only with `uint8_input`")


@dataclass(frozen=True, slots=True)
class ExtractOptions:
    """Which part of a model is extracted.

    `inputs`, `outputs`: the names of values that become those of the new model, as a list, or as a text in which commas
    separate them; without one of them, those of the model count.
    `tensor`: the name of one weight, which is written instead.

    Raises: OptionError for an invalid value.
    """

    inputs: Sequence[str] | None = option(
        None,
        VALUES,
        "The values that become inputs, separated by commas; those of the model by default.",
        common=True,
    )
    outputs: Sequence[str] | None = option(
        None,
        VALUES,
        "The values that become outputs, separated by commas; those of the model by default.",
        common=True,
    )
    tensor: str | None = option(
        None,
        text("NAME", "the name of a weight"),
        "Write only this weight, to a .npy or .safetensors file.",
        common=True,
    )

    def __post_init__(self) -> None:
        settle(self)
        if self.tensor is not None and (self.inputs or self.outputs):
            raise OptionError("`tensor` is one weight, so it excludes `inputs` and `outputs`")


@dataclass(frozen=True, slots=True)
class MergeOptions:
    """How two models become one.

    `connect`: inputs of the second model by outputs of the first one; an input of the first one may be given, too, and
    then both models use it. `prefix`: a text that all names of the second model get in front.

    Raises: OptionError for an invalid value.
    """

    connect: Sequence[tuple[str, str]] | None = option(
        None,
        LINKS,
        "Let the output OUT of A be the input IN of B; repeat the option for each one.",
        common=True,
        keyword_help="Inputs of the second model by outputs of the first one, such as {'features': 'input'}.",
    )
    prefix: str | None = option(
        None, text("PREFIX"), "Begin all names of B with PREFIX; by default, names that meet get a number.", common=True
    )

    def __post_init__(self) -> None:
        settle(self)


class Edit(NamedTuple):
    """One thing that an edit did: the option that asked for it, and a sentence."""

    kind: str
    detail: str
    short: str = ""  # the sentence with a long list cut, if `detail` has one

    @property
    def summary(self) -> str:
        """The sentence with long lists cut."""
        return self.short or self.detail

    def to_json(self) -> dict[str, str]:
        """The edit in strings."""
        return {"kind": self.kind, "detail": self.detail}


class EditResult(NamedTuple):
    """What several edits did, and what they dropped."""

    edits: tuple[Edit, ...] = ()
    losses: tuple[Loss, ...] = ()

    def __add__(self, other: object) -> EditResult:
        """Both."""
        if not isinstance(other, EditResult):
            return NotImplemented
        return EditResult(self.edits + other.edits, self.losses + other.losses)
