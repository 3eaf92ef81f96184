"""The command line of `convert`, and the options that the other commands share with it.

Annotations are not postponed here: typer would evaluate the text of each of them, twice, at every start.
"""

from pathlib import Path
from typing import Annotated, Any

import typer

from formats import __version__
from formats.cli.argument_values import (
    parse_count,
    parse_depth,
    parse_format,
    parse_metadata,
    parse_pins,
    parse_size,
    read_key,
)
from formats.cli.process import reported_errors, run, say, stoppable
from formats.cli.typer_commands import Command, option

READING, RTEN = "Options for reading", "Options for .rten"
ONNX, MOVED, ARCHIVE = "Options for .onnx", "Options for .onnx and .onnxz", "Options for .onnxz"
CRYPT, FROM_RTEN = "Options for .onnxc, read or written", "Options for .rten as SRC"
EXAMPLES = """\
\b
Examples:
  convert model.onnx model.rten
  convert model.onnx model.onnxz --threads 4
  convert model.onnxz model.onnx --external-data
  convert model.onnx model.onnx --inline --force
  convert model.onnx model.rten --strict --json

A SIZE is a number of bytes and may end in K, M or G (powers of 1024) or in KB, MB or GB (powers of 1000).
"""


def version_option(program: str) -> Any:
    """The option that prints the version of `program`, and that is all."""

    def print_version(wanted: bool) -> None:
        if wanted:
            say(f"{program} {__version__}")
            raise typer.Exit

    return option("--version", is_eager=True, callback=print_version, help="Print the version and exit.")


FORMAT: dict[str, Any] = {"metavar": "FORMAT", "parser": parse_format}
SIZE: dict[str, Any] = {"metavar": "SIZE", "parser": parse_size, "panel": MOVED}

Src = Annotated[Path, typer.Argument(metavar="SRC", parser=Path)]
Dst = Annotated[Path, typer.Argument(metavar="DST", parser=Path)]
From = Annotated[str | None, option("--from", **FORMAT, help="Read SRC as FORMAT: {formats}.")]
To = Annotated[str | None, option("--to", **FORMAT, help="Write DST as FORMAT.")]
Force = Annotated[bool, option("-f", "--force", help="Replace files that exist.")]
Lenient = Annotated[bool, option("--lenient", panel=READING, help="Read an .onnxz file that another zip tool made.")]
MaxDepth = Annotated[
    int | None,
    option(
        "--max-depth",
        metavar="N",
        parser=parse_depth,
        panel=READING,
        help="Refuse messages nested deeper than N, up to 250; 100 by default.",
    ),
]
NoHardLinks = Annotated[
    bool, option("--no-hard-links", panel=READING, help="Refuse files of weights that have more than one name.")
]
Strict = Annotated[bool, option("--strict", help="Refuse to lose more than documentation.")]
Threads = Annotated[
    int | None, option("--threads", metavar="N", parser=parse_count, help="Use N threads; as many as help by default.")
]
Quiet = Annotated[bool, option("-q", "--quiet", help="Print nothing but errors.")]
Json = Annotated[bool, option("--json", help="Print one JSON report, also of an error.")]
Debug = Annotated[bool, option("--debug", help="Print the traceback of an error.")]
Version = Annotated[bool, version_option("convert")]
ExternalData = Annotated[
    str | None,
    option(
        "--external-data", metavar="[NAME]", panel=ONNX, help="Put weights into a file beside DST, DST.data or NAME."
    ),
]
Inline = Annotated[bool, option("--inline", panel=ONNX, help="Put all weights into DST itself.")]
MaxFileSize = Annotated[
    int | None,
    option(
        "--max-external-file-size",
        metavar="SIZE",
        parser=parse_size,
        panel=ONNX,
        help="Begin a further file of weights before one exceeds SIZE.",
    ),
]
FilePerTensor = Annotated[bool, option("--one-file-per-tensor", panel=ONNX, help="Give each weight a file of its own.")]
Checksum = Annotated[
    bool, option("--checksum", panel=ONNX, help="Note the SHA-1 of each file of weights, for `formats verify --data`.")
]
Threshold = Annotated[
    int | None, option("--size-threshold", **SIZE, help="Move tensors of SIZE or more out of the graph; 1K by default.")
]
Alignment = Annotated[
    int | None, option("--alignment", **SIZE, help="Put each of them at a multiple of SIZE; 64 by default.")
]
Dedup = Annotated[bool, option("--dedup", panel=ARCHIVE, help="Store weights that are equal once.")]
KeyFile = Annotated[
    str | None, option("--key-file", metavar="FILE", panel=CRYPT, help="Take the key from FILE, without its line end.")
]
KeyEnv = Annotated[
    str | None, option("--key-env", metavar="NAME", panel=CRYPT, help="Take the key from an environment variable.")
]
AskKey = Annotated[bool, option("--ask-key", panel=CRYPT, help="Ask for the key on the terminal.")]
Encryption = Annotated[
    int | None,
    option(
        "--encryption",
        metavar="1|2|3",
        parser=parse_count,
        panel=CRYPT,
        help="Encrypt with AES-256-CBC, which cannot tell tampering; ChaCha20-Poly1305; or AES-256-GCM, the default.",
    ),
]
Metadata = Annotated[
    Any,
    option("--metadata", metavar="FILE", parser=parse_metadata, panel=RTEN, help="Add the strings of a JSON object."),
]
OnnxHash = Annotated[
    bool | None,
    option(
        "--onnx-hash/--no-onnx-hash",
        panel=RTEN,
        help="Note the SHA-256 of the .onnx file; by default if under 64 MiB.",
    ),
]
Exact = Annotated[bool, option("--exact", panel=RTEN, help="Avoid operators that RTen computes otherwise than ONNX.")]
Pin = Annotated[
    list[str] | None,
    option(
        "--pin",
        metavar="NAME=TYPE",
        panel=FROM_RTEN,
        help="Give an input or output a type that .rten files lack, such as int64; for each of them again.",
    ),
]
RtenVersion = Annotated[
    int | None,
    option("--rten-version", metavar="1|2", parser=parse_count, panel=RTEN, help="Version of the file; 2 by default."),
]

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)


@app.command(cls=Command, epilog=EXAMPLES, context_settings={"help_option_names": ["-h", "--help"]})
def convert(
    src: Src,
    dst: Dst,
    from_format: From = None,
    to_format: To = None,
    force: Force = False,
    strict: Strict = False,
    threads: Threads = None,
    quiet: Quiet = False,
    as_json: Json = False,
    debug: Debug = False,
    version: Version = False,
    lenient: Lenient = False,
    max_depth: MaxDepth = None,
    no_hard_links: NoHardLinks = False,
    external_data: ExternalData = None,
    inline: Inline = False,
    max_external_file_size: MaxFileSize = None,
    one_file_per_tensor: FilePerTensor = False,
    checksum: Checksum = False,
    size_threshold: Threshold = None,
    alignment: Alignment = None,
    dedup: Dedup = False,
    key_file: KeyFile = None,
    key_env: KeyEnv = None,
    ask_key: AskKey = False,
    encryption: Encryption = None,
    metadata: Metadata = None,
    onnx_hash: OnnxHash = None,
    exact: Exact = False,
    rten_version: RtenVersion = None,
    pin: Pin = None,
) -> None:
    """Convert the model SRC to DST.

    The format of SRC is that of its content, the format of DST that of its extension.
    """
    if inline and external_data is not None:
        raise typer.BadParameter("--inline and --external-data exclude each other")
    options = {
        "from_format": from_format,
        "to_format": to_format,
        "strict": strict,
        "lenient": lenient,
        "overwrite": force,
        "threads": threads,
        "external_data": False if inline else True if external_data == "" else external_data,
        "max_external_file_size": max_external_file_size,
        "one_file_per_tensor": one_file_per_tensor or None,
        "checksum": checksum or None,
        "size_threshold": size_threshold,
        "alignment": alignment,
        "dedup": dedup or None,
        "variant": encryption,
        "metadata": metadata,
        "onnx_hash": onnx_hash,
        "exact": exact or None,
        "rten_version": rten_version,
        "pin_types": parse_pins(pin) if pin else None,
    }
    given = {name: value for name, value in options.items() if value is not None}
    with reported_errors(as_json, debug), stoppable():
        given |= reading_options(max_depth, no_hard_links, key_file, key_env, ask_key)
        run(src, dst, given, "json" if as_json else "" if quiet else "text")


def reading_options(
    max_depth: int | None, no_hard_links: bool, key_file: str | None, key_env: str | None, ask_key: bool
) -> dict[str, Any]:
    """What the options on how to read say, the key itself included."""
    options: dict[str, Any] = {"hard_links": not no_hard_links}
    if max_depth is not None:
        options["max_depth"] = max_depth
    ways = (key_file is not None) + (key_env is not None) + ask_key
    if ways > 1:
        from formats.conversion import OptionError

        raise OptionError("--key-file, --key-env and --ask-key exclude each other", "")
    if ways:
        options["key"] = read_key(key_file, key_env)
    return options
