"""The options of the library as keywords, for type checkers and editors.

Written by schemas/generate.py from the classes of options; do not edit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping, Sequence

    from formats.codecs.keys import Key
    from formats.tensordata.sources.source import Source


class AccessKeywords(TypedDict, total=False):
    """The options of reading and of writing: the key, and requests to stores."""

    storage_options: Mapping[str, Any] | None
    """storage_options: Options of the store."""
    retries: int
    """retries=N: Repeat a request that fails temporarily up to N times; 2 by default."""
    key: Key | str | bytes | None
    """key: The key of an encrypted model."""


class OnlyReadKeywords(TypedDict, total=False):
    """The other options of reading."""

    max_depth: int
    """max_depth=N: Refuse messages nested more than N deep, at most 250; 100 by default."""
    hard_links: bool
    """hard_links=False: Refuse data files with more than one name (hard links)."""
    model: str | None
    """model=NAME: Read this model of an archive that holds several."""
    allow_encryption: int | None
    """allow_encryption=1: Also open files with AES-256-CBC, which does not detect changed or forged files."""
    no_data: bool
    """no_data=True: Work without the data files of SRC, which may be missing; the references to them stay as
    they are."""


class EngineKeywords(TypedDict, total=False):
    """The options of the engine, besides those for stores."""

    threads: int
    """threads=N: Use N threads; 0, the default, chooses a suitable number."""
    chunk_bytes: int | str
    """chunk_bytes: The number of bytes that a thread moves at a time. Default: 1048576."""
    in_flight_bytes: int | str
    """in_flight_bytes: The maximum number of bytes in memory at a time, for all threads. Default: 268435456."""
    overwrite: bool
    """overwrite=True: Replace files that exist."""
    parents: bool
    """parents=True: Make missing parent folders."""
    dry_run: bool
    """dry_run=True: Change nothing; say what would be done."""
    fsync: bool | None
    """fsync=True: Force files to disk; by default only files that replace others."""
    progress: Callable[[int, int], None] | None
    """progress: A function that is called from time to time with the bytes done and the bytes to do."""


class ReplacementKeywords(TypedDict, total=False):
    """What becomes of a model that is replaced."""

    clean: bool
    """clean=True: Remove data files of a replaced model that nothing else in its folder uses."""
    backup: bool
    """backup=True: Keep a replaced model.onnx, with its data files, as model.bak.onnx."""


class OnlyWriteKeywords(TypedDict, total=False):
    """The other options of writing: metadata, and those of a runtime and of the format."""

    metadata: Mapping[str, str] | None
    """metadata: Texts of the metadata, such as {'license': 'MIT'}; an empty one removes the key."""
    runtime: str | None
    """runtime=NAME[==RELEASE]: Write for a runtime: ONNX that RTen's loader runs (rten), a .rten file for a
    release and later ones (rten==0.27), ONNX that a release reads (onnxruntime==1.18)."""
    opset: int | Mapping[str, int] | None
    """opset: Convert ONNX's operators to this version of their set, up or down; {'ai.onnx.ml': 3} for
    another set of ONNX."""
    ir_version: int | None
    """ir_version=N: Write the model in IR version N."""
    dtype: str | None
    """dtype=TYPE: Write floats as float16, bfloat16 or float32."""
    int32: bool
    """int32=True: Write 64-bit integers as int32 where no number needs more bits."""
    keep_io_types: bool
    """keep_io_types: With `dtype` or `int32`, keep the types of inputs and outputs, with casts."""
    keep: Sequence[str] | None
    """keep: With `dtype` or `int32`, names of operators or nodes that stay as they are, such as ('Softmax',
    '/head/*')."""
    weights_dtype: str | None
    """weights_dtype='int4' or 'int8' or 'uint4' or 'uint8': Write the weights of MatMul, Gemm and Gather as
    integers in blocks; the unsigned ones have zero points."""
    block: int | None
    """block: With `weights_dtype`, the elements of a block; 32 by default."""
    channel_block: int | None
    """channel_block=8 or 16: Channels in a block of a model in onnxruntime's own layout, if the file does
    not show it."""
    external_data: str | bool | None
    """external_data: Put weights into a file next to DST, named DST.data or NAME; external_data=False: Put
    all weights into DST itself."""
    size_threshold: int | str
    """size_threshold=SIZE: Move tensors of at least SIZE out of the graph; 1K by default."""
    alignment: int | str | None
    """alignment=SIZE: Put each of these tensors at a multiple of SIZE; 64 by default, 256 for .safetensors."""
    max_external_file_size: int | str
    """max_external_file_size=SIZE: Start another data file before one exceeds SIZE; by default, there is no
    limit."""
    one_file_per_tensor: bool
    """one_file_per_tensor=True: Put each weight into a separate file."""
    checksum: bool
    """checksum=True: Store the SHA-1 of each data file, for `formats verify --data`."""
    dedup: bool
    """dedup=True: Store equal weights only once."""
    strip_weights: bool
    """strip_weights=True: Write the graph without its data files, so that it can travel alone; `edit
    --weights` fills it again."""
    data_names: str | None
    """data_names='transformers.js': Name data files as transformers.js loads them, each small enough for
    browsers, and print their setting."""
    link: bool
    """link=True: Leave the weights in SRC, an .onnxz archive in the folder of DST, and write a graph that
    refers to them."""
    same_data: bool
    """same_data=True: Refer to the data files of SRC where they lie, in the folder of DST or below it,
    instead of a copy."""
    sha256: bool
    """sha256=True: Add the SHA-256 of each entry, for `sha256sum -c` and signatures."""
    onnx_hash: bool | None
    """onnx_hash=True: Store the SHA-256 of the .onnx file; by default only below 64 MiB."""
    exact: bool
    """exact=True: Avoid operators whose results in RTen differ from ONNX."""
    rten_version: int
    """rten_version=1 or 2: Version of the file; 2 by default."""
    source_hash: Source | None
    """source_hash: The bytes of the .onnx file, for `onnx_hash`."""
    encryption: int
    """encryption=1 or 2 or 3: Encrypt with AES-256-CBC (1), which does not detect tampering,
    ChaCha20-Poly1305 (2), or AES-256-GCM (3, the default)."""


class ReadKeywords(OnlyReadKeywords, AccessKeywords, total=False):
    """The options of `formats.load` and of all that reads."""


class RaiseKeywords(TypedDict, total=False):
    """The options of `formats.raise_model`."""

    pin: Mapping[str, str] | None
    """pin: Give inputs or outputs types by name that .rten files lack, such as {'input_ids': 'int64'}."""


class WriteKeywords(OnlyWriteKeywords, RaiseKeywords, EngineKeywords, ReplacementKeywords, AccessKeywords, total=False):
    """The options of `formats.save`."""


class ConvertKeywords(OnlyReadKeywords, WriteKeywords, total=False):
    """The options of `formats.convert` and `formats.convert_many`: their own, those of `load`, and those of `save`."""

    from_format: str | None
    """from_format=FORMAT: The format to read, if the content does not show it."""
    to_format: str | None
    """to_format=FORMAT: The format to write, if not that of DST's extension: onnx, onnxz, rten, ort, onnxc,
    textproto, json."""
    strict: bool
    """strict=True: Refuse a conversion whose report has a warning."""
    allow: Sequence[str] | None
    """allow: With `strict`, kinds of losses that pass, such as ('metadata', 'range')."""
    lenient: bool
    """lenient=True: Read an .onnxz file that another zip tool made."""


class EditKeywords(ConvertKeywords, total=False):
    """The options of `formats.edit`: its own, and those of `convert`."""

    sort: bool
    """sort=True: Sort nodes that come before those whose values they use, as every edit does."""
    weights: str | os.PathLike[str] | Mapping[str, Any] | None
    """weights: A .safetensors, .npz, .npy or model file, an index of several, or arrays or files by name."""
    cast: bool
    """cast=True: Convert new weights of another float type to the type in the model."""
    initializer_to_input: Sequence[str] | None
    """initializer_to_input: Weights that become inputs, such as ['embedding']."""
    input_to_initializer: Mapping[str, Any] | Sequence[str] | None
    """input_to_initializer: Inputs that become weights: names of those with a default, or arrays or files by
    name."""
    dim: Mapping[str, int | str] | None
    """dim: Sizes or names of dims, such as {'batch': 1}, or of an axis of an input, {'images:0': 4}."""
    set_operator: Mapping[str, str] | None
    """set_operator: New operators of nodes, such as {'Relu_3': 'LeakyRelu'}."""
    set_domain: Mapping[str, str] | None
    """set_domain: New domains of nodes, such as {'Gelu_3': 'com.microsoft'}."""
    set_attribute: Mapping[str, Any] | None
    """set_attribute: Attributes of nodes, such as {'Elu_3.alpha': 0.5}; `None` removes one."""
    bypass: Sequence[str] | None
    """bypass: Nodes that are taken out, by name, output or operator, such as ['Dropout']."""
    add_output: Sequence[str] | None
    """add_output: Values that become outputs, such as ['features', 'conv*'], or 'all'."""
    remove_output: Sequence[str] | None
    """remove_output: Outputs that are none any more, such as ['aux*']."""
    fold: bool
    """fold=True: Compute what nodes compute from constants and fixed shapes, and remove what is not needed
    then."""
    prune: bool
    """prune=True: Remove what no output needs; inputs stay."""
    uint8_input: Sequence[str] | None
    """uint8_input: Inputs that become uint8, such as ['images']."""
    scale: str | float | None
    """scale=NUMBER: Multiply uint8 inputs by NUMBER; 1/255 divides by 255."""
    mean: float | Sequence[float] | None
    """mean: What is subtracted from uint8 inputs after `scale`: a number, or one for each channel."""
    std: float | Sequence[float] | None
    """std: What uint8 inputs are divided by after `mean`: a number, or one for each channel."""
    layout: Mapping[str, str] | None
    """layout: New layouts of inputs and outputs, such as {'images': 'NHWC'}."""
    rename: Mapping[str, str] | None
    """rename: New names of values, such as {'input.1': 'images'}."""
    prefix: str | None
    """prefix=PREFIX: Begin the names of all values and nodes with PREFIX, inputs and outputs included."""
    strip_docs: bool
    """strip_docs=True: Remove documentation, and metadata of nodes and values, such as paths of an exporter."""
    strip_training: bool
    """strip_training=True: Remove the graphs that train the model."""


class ExtractKeywords(ConvertKeywords, total=False):
    """The options of `formats.extract`, and those of `convert`."""

    inputs: Sequence[str] | None
    """inputs=NAMES: The values that become inputs, separated by commas; those of the model by default."""
    outputs: Sequence[str] | None
    """outputs=NAMES: The values that become outputs, separated by commas; those of the model by default."""
    tensor: str | None
    """tensor=NAME: Write only this weight, to a .npy or .safetensors file."""


class MergeKeywords(ConvertKeywords, total=False):
    """The options of `formats.merge`, and those of `convert`."""

    connect: Mapping[str, str | Sequence[str]] | None
    """connect: Inputs of the second model by outputs of the first one, such as {'features': 'input'}."""
    prefix: str | None
    """prefix=PREFIX: Begin all names of B with PREFIX; by default, names that meet get a number."""


class ShareKeywords(ReadKeywords, EngineKeywords, ReplacementKeywords, total=False):
    """The options of `formats.share`, and those of `load`."""

    external_data: str
    """external_data=NAME: Name the file with the weights that all models share NAME; shared.data by default."""
    size_threshold: int | str
    """size_threshold=SIZE: Move tensors of at least SIZE out of the graph; 1K by default."""
    alignment: int | str
    """alignment=SIZE: Put each of these tensors at a multiple of SIZE; 4K by default."""


class PackKeywords(ReadKeywords, EngineKeywords, total=False):
    """The options of `formats.pack`, and those of `load`."""

    default: str | None
    """default=NAME: Make this model the default one."""
    size_threshold: int | str
    """size_threshold=SIZE: Move tensors of at least SIZE out of the graph; 1K by default."""
    alignment: int | str
    """alignment=SIZE: Put each of these tensors at a multiple of SIZE; 64 by default."""


class RelocationKeywords(ReplacementKeywords, total=False):
    """The options of `formats.cp` and `formats.mv`."""

    overwrite: bool
    """overwrite=True: Replace the model at DST and its data files, but no other files."""
    parents: bool
    """parents=True: Make missing parent folders."""
    dry_run: bool
    """dry_run=True: Change nothing; say what would be done."""
    fsync: bool | None
    """fsync=True: Force files to disk; by default only files that replace others."""
    progress: Callable[[int, int], None] | None
    """progress: A function that is called from time to time with the bytes done and the bytes to do."""
