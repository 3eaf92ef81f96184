"""The options for writing `.onnx`, `.onnxc` and text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from formats.codecs.contract import ENCRYPTED, KEY
from formats.errors import OptionError
from formats.options import (
    MOST_ALIGNED_BYTES,
    SWITCH,
    Flag,
    OptionKind,
    choice,
    dedup_option,
    option,
    option_rows,
    settle,
    size,
    threshold_option,
)

if TYPE_CHECKING:
    from formats.codecs.keys import Key


def _file_name_or_truth(value: Any) -> str | bool:
    if isinstance(value, bool):
        return value
    if not isinstance(value, str) or value in ("", ".", "..") or set(value) & {"/", "\\", "\0"}:
        raise ValueError(value)
    return value


FILE_NAME = OptionKind("the name of a file next to the model, without a folder", _file_name_or_truth, "[NAME]")
DATA_FILES = "Options for data files of .onnx"
INLINE = Flag(("--no-external-data",), "Put all weights into DST itself.", value=False)
SAFETENSORS = ".safetensors"
ALIGNMENT, SAFETENSORS_ALIGNMENT = 64, 256  # of tensors in data files, in bytes
BROWSER_LIMIT_BYTES = 1 << 31  # a file for onnxruntime-web must not have this size
BROWSER_FILE_BYTES = 1900 << 20  # the default limit of a file for browsers: also less than 2 GB
# Options for the layout of external weights also ask for weights to be external.
OUTSIDE: dict[str, Any] = {"implies": ("external_data", True)}
OF_FILES: dict[str, Any] = {**OUTSIDE, "panel": DATA_FILES}


@dataclass(frozen=True, slots=True)
class OnnxOptions:
    """Options for writing an `.onnx` file.

    `external_data`: the name of a data file next to the model, or `True` for the default,
    `<model file name>.data`; a file whose name ends in `.safetensors` is one of that format, too. `False` puts all
    weights into the model file; `None` leaves each tensor inside or outside, unless another option of this class is
    given, which moves them out. `size_threshold`: the size in bytes from which a tensor moves out; small constants that
    onnxruntime reads before data files, such as shapes, stay inside in any case.
    `alignment`: of each tensor in that file, in bytes from its start; `None` is 64, or 256 in a `.safetensors` file.
    `max_external_file_size`: the maximum size of a data file in bytes; a tensor that is larger gets its own, larger
    file; 0 means no limit. `checksum`: whether each reference contains the SHA-1 of its whole file, which takes a
    second for some hundred MB. `dedup`: tensors with equal bytes are one range of a data file; in the graph, one
    initializer is used for all that are equal in bytes, type and dims. Weights whose size another one has are read for
    it. `data_names`: "transformers.js" names data files as that library looks for them, each of
    less than 2 GB by default, and the report has its setting. `link`: the weights stay in their `.onnxz` archive, which
    must be in the same folder, and the graph refers to them there; tensors without an entry are in the graph.
    `same_data`: the graph refers to the data files of the model that was read, where they lie; they must be in the
    folder of the new graph or below it. A graph that replaces its own needs no such option. `strip_weights`: the data
    files are not written; whoever has the weights makes them again, or fills the graph with `weights` of `edit`.

    Raises: OptionError for an invalid value, and for options that contradict each other.
    """

    external_data: str | bool | None = option(
        None,
        FILE_NAME,
        "Put weights into a file next to DST, named DST.data or NAME.",
        panel=DATA_FILES,
        common=True,
        flags=(
            Flag(
                ("--external-data",),
                "Put weights into a file next to DST: DST.data, or NAME, such as w.safetensors.",
                "[NAME]",
                True,
            ),
            INLINE,
        ),
    )
    size_threshold: int = threshold_option(**OUTSIDE)
    alignment: int | None = option(
        None,
        size(1, MOST_ALIGNED_BYTES),
        "Put each of these tensors at a multiple of SIZE; 64 by default, 256 for .safetensors.",
        **OUTSIDE,
    )
    max_external_file_size: int = option(
        0,
        size(),
        "Start another data file before one exceeds SIZE; by default, there is no limit.",
        common=True,
        **OF_FILES,
    )
    one_file_per_tensor: bool = option(False, SWITCH, "Put each weight into a separate file.", **OF_FILES)
    checksum: bool = option(
        False, SWITCH, "Store the SHA-1 of each data file, for `formats verify --data`.", **OF_FILES
    )
    dedup: bool = dedup_option()
    strip_weights: bool = option(
        False,
        SWITCH,
        "Write the graph without its data files, so that it can travel alone; `edit --weights` fills it again.",
        **OF_FILES,
    )
    data_names: str | None = option(
        None,
        choice("transformers.js"),
        "Name data files as transformers.js loads them, each small enough for browsers, and print their setting.",
        **OF_FILES,
    )
    link: bool = option(
        False,
        SWITCH,
        "Leave the weights in SRC, an .onnxz archive in the folder of DST, and write a graph that refers to them.",
        panel=DATA_FILES,
        common=True,
    )
    same_data: bool = option(
        False,
        SWITCH,
        "Refer to the data files of SRC where they lie, in the folder of DST or below it, instead of a copy.",
        panel=DATA_FILES,
    )

    def __post_init__(self) -> None:
        settle(self)
        if self.link and self.same_data:
            raise OptionError("`link` and `same_data` exclude each other")
        name = "link" if self.link else "same_data"
        if (self.link or self.same_data) and self.dedup:
            raise OptionError(f"`{name}` and `dedup` exclude each other: the weights stay where they are")
        if (self.link or self.same_data) and self.external_data is not None:
            if self.external_data is False:
                raise OptionError(f"`{name}` and `external_data=False` exclude each other")
            others = ", ".join(f"`{row.name}`" for row in option_rows(OnnxOptions) if row.implies)
            raise OptionError(
                f"`{name}` and `external_data` exclude each other, and so do options of data files ({others})"
            )
        if self.one_file_per_tensor and (self.max_external_file_size or isinstance(self.external_data, str)):
            other = "max_external_file_size" if self.max_external_file_size else "external_data"
            raise OptionError(f"`one_file_per_tensor` and `{other}={getattr(self, other)}` exclude each other")
        if self.data_names is not None:
            if self.one_file_per_tensor or isinstance(self.external_data, str):
                other = "one_file_per_tensor" if self.one_file_per_tensor else "external_data"
                raise OptionError(f"`data_names` and `{other}={getattr(self, other)}` exclude each other")
            if self.max_external_file_size >= BROWSER_LIMIT_BYTES:
                size = f"`max_external_file_size` is {self.max_external_file_size}"
                raise OptionError(f"{size}, and must be less than 2 GiB for `data_names={self.data_names}`")

    @property
    def is_safetensors(self) -> bool:
        """Whether the data files are `.safetensors` files, too."""
        return isinstance(self.external_data, str) and self.external_data.lower().endswith(SAFETENSORS)

    @property
    def most_nbytes(self) -> int:
        """The limit for the size of a data file, in bytes, except if a single tensor is larger; 0 means no limit."""
        return self.max_external_file_size or (0 if self.data_names is None else BROWSER_FILE_BYTES)

    @property
    def aligned_to(self) -> int:
        """The alignment, in bytes, of each tensor in a data file."""
        return self.alignment or (SAFETENSORS_ALIGNMENT if self.is_safetensors else ALIGNMENT)


@dataclass(frozen=True, slots=True)
class CryptOptions:
    """Options for writing an `.onnxc` file, which contains all weights.

    `key`: the key that encrypts it; there is no default. `encryption`: 3 is AES-256-GCM, 2 is ChaCha20-Poly1305, and 1
    is AES-256-CBC, which does not detect changes of a file.

    Raises: OptionError for an invalid value.
    """

    key: Key | str | bytes | None = option(None, KEY, "The key of an encrypted model.", flags=(), required=True)
    encryption: int = option(
        3,
        choice(1, 2, 3),
        "Encrypt with AES-256-CBC (1), which does not detect tampering, ChaCha20-Poly1305 (2), or AES-256-GCM (3, the "
        "default).",
        panel=ENCRYPTED,
    )

    def __post_init__(self) -> None:
        settle(self)


def _falsehood(value: Any) -> bool:
    if value is not False:
        raise OptionError("a model as text gets no new data files; first convert to .onnx with `external_data`")
    return False


@dataclass(frozen=True, slots=True)
class TextOptions:
    """How a model is written as text, in protobuf's text format or as JSON.

    `external_data`: `None` keeps references to external data as they are, so that the data file must lie next to the
    text; `False` puts all weights into the text. `True` is not possible: write `.onnx` with external data first.

    Raises: OptionError for an invalid value.
    """

    external_data: bool | None = option(
        None,
        OptionKind("False or None for a model as text; convert to .onnx with external data first", _falsehood),
        "Put all weights into DST itself.",
        flags=(INLINE,),
        panel=DATA_FILES,
        common=True,
    )

    def __post_init__(self) -> None:
        settle(self)
