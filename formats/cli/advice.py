"""Answers to mistyped verbs and options, and to arguments that are for another program called `convert`."""

from __future__ import annotations

import os
import re
import shlex
import sys
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

from formats.cli.command_line import flags_of
from formats.cli.verbs import VERBS
from formats.words import joined

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from formats.cli.command_line import Verb

SIMILAR = 0.7  # how similar a name must be to be suggested
SAME_RESULTS = "formats does not change what a model computes; onnxruntime and onnxslim have tools for that"
RUNTIMES = "--runtime names a runtime and its release: rten==0.27 or onnxruntime==1.18"
KEY = "others can see what is typed here, so a key comes by --key-file FILE, --key-env NAME or --ask-key"
# Words that are not similar to what they mean: the verb or the option, or a sentence.
MEANT_VERBS = {
    "info": "inspect",
    "show": "inspect",
    "check": "verify",
    "compare": "diff",
    "rename": "mv",
    "delete": "rm",
    "export": "convert",
    "optimize": SAME_RESULTS,
    "quantize": "type formats convert SRC DST --weights-dtype int4",
    "run": "formats does not run models; onnxruntime does",
    "version": "type formats --version",
}
MEANT_OPTIONS = {
    "--target-opset": "--opset",
    "--output": "--out",
    "--overwrite": "--force",
    "--format": "--to is the format to write, and --from the format to read",
    "--target": RUNTIMES,
    "--flops": "--macs",
    "--fp16": "type --dtype float16",
    "--int4": "type --weights-dtype int4",
    "--int8": "type --weights-dtype int8",
    "--bf16": "type --dtype bfloat16",
    "--verbose": "--json prints everything that is known",
    "--strip-doc": "formats keeps what a model says of itself; in Python, set another `doc_string` and save the model",
    "--key": KEY,
    "--password": KEY,
    "-r": "a folder means all models in and below it, without an option; rm, cp and mv take single models",
    "--version": "type formats --version",
}


def verb_of(texts: Sequence[str]) -> Verb | None:
    """The verb that a command line begins with."""
    return next((verb for verb in VERBS if verb.name == (texts or ("",))[0]), None)


def unknown_verb(texts: Sequence[str]) -> str:
    """The answer to a command line that does not begin with a verb."""
    word = texts[0]
    names = [verb.name for verb in VERBS]
    if meant := MEANT_VERBS.get(word.lower()):
        return f"there is no verb {word}; " + (f"did you mean formats {meant}?" if meant in names else meant)
    if is_model(word):
        return f"the verb is missing; did you mean {with_verb(texts)}?"
    if close := get_close_matches(word.lower(), names, 1, SIMILAR):
        return f"there is no verb {word}; did you mean formats {close[0]}?"
    return f"there is no verb {word:.100}; there are {', '.join(names)}; see formats --help"


def with_verb(texts: Sequence[str]) -> str:
    """The command line with its verb first: one that is there, or the one that the arguments suggest."""
    for index, text in enumerate(texts):
        if verb_of([text]) is not None:
            return shlex.join(["formats", text, *texts[:index], *texts[index + 1 :]])
    models = [text for text in texts if is_model(text)]
    return shlex.join(["formats", "inspect" if len(models) == 1 else "convert", *texts])


def is_model(text: str) -> bool:
    """Whether a text is the name of a model, of a file or of a folder."""
    from formats.codecs import lookup

    extensions = lookup.all_extensions()
    return bool(text) and not text.startswith("-") and (Path(text).suffix.lower() in extensions or Path(text).exists())


def unknown_option(program: str, verb: Verb | None, name: str, texts: Sequence[str]) -> str:
    """The answer to an option that the verb does not have, or that stands before the verb."""
    if verb is None:
        if name in ("-v", "-V"):
            return f"there is no option {name}; type formats --version"
        return f"a verb comes first, such as {with_verb(texts)}; see {helper(program, verb)}"
    own = [*flags_of(group.options for group in verb.groups(True)), "--help", "--help-all"]
    if (meant := MEANT_OPTIONS.get(name)) and (meant in own or " " in meant):
        return f"there is no option {name}; " + (f"did you mean {meant}?" if meant in own else meant)
    words = [
        word.removeprefix("--") for word in own if word.startswith("--")
    ]  # all begin alike, so dashes do not count
    if name.startswith("--") and (close := get_close_matches(name.removeprefix("--"), words, 1, SIMILAR)):
        return f"there is no option {name}; did you mean --{close[0]}?"
    others = [other.name for other in VERBS if name in flags_of(group.options for group in other.groups(True))]
    if others:
        return f"{name} is an option of {joined(others)}, not of {verb.name}"
    return f"there is no option {name:.100}; see {helper(program, verb)}-all"


def bad_usage(verb: Verb, name: str) -> str:
    """The answer to an option whose value is missing, or that takes none."""
    table = flags_of(group.options for group in verb.groups(True))
    flag = table[name][1] if name in table else None  # else it is --help or the like
    return f"{name} needs a value: {name} {flag.metavar}" if flag and flag.takes_text else f"{name} takes no value"


def helper(program: str, verb: Verb | None) -> str:
    """The command line that shows the help for a verb, or for all."""
    return " ".join((program, *([] if verb is None or program == verb.name else [verb.name]), "--help"))


# Other programs called `convert` were started by mistake: of ImageMagick, or of Windows

OURS = "this `convert` is that of onnx-formats, for machine-learning models"
PICTURES = frozenset(
    """.ai .avif .bmp .cr2 .dng .eps .exr .gif .heic .heif .ico .jp2 .jpe .jpeg .jpg .jxl .miff .pbm .pdf .pgm .png .pnm
    .ppm .ps .psd .raw .svg .tga .tif .tiff .webp .xcf .xpm""".split()  # noqa: SIM905 - a list of words is read at a glance
)


def for_other_program(texts: Sequence[str]) -> str | None:
    """The answer to arguments that are clearly for another `convert`."""
    if len(texts) > 1 and re.fullmatch("[A-Za-z]:", texts[0]) and any(text.lower() == "/fs:ntfs" for text in texts):
        return f"{OURS}, not that of Windows, which is %SystemRoot%\\System32\\convert.exe"
    files = [text for text in texts if not text.startswith("-") and Path(text).suffix]
    if not files or not all(is_picture(text) for text in files):
        return None
    other = next(other_converts(), None)
    where = "which is not installed here" if other is None else f"which is {other}"
    return f"{OURS}, not that of ImageMagick, {where}"


def is_picture(text: str) -> bool:
    """Whether a text names a picture in ImageMagick's notation, such as `a.png`, `a.pdf[0]` or `jpg:a.out`."""
    name = re.sub(r"\[[^\[\]]*\]$", "", text)
    kind, colon, _ = name.partition(":")
    return Path(name).suffix.lower() in PICTURES or (bool(colon) and f".{kind.lower()}" in PICTURES)


def other_converts() -> Iterator[Path]:
    """Where ImageMagick is found: its `magick`, and programs called `convert` that are not this one."""
    from shutil import which

    if magick := which("magick"):
        yield Path(magick)
    own = {Path(sys.argv[0]).resolve(), Path(sys.executable).with_name("convert").resolve()}
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        program = which("convert", path=folder)
        is_windows_own = program is not None and "system32" in program.lower()
        if program is not None and not is_windows_own and Path(program).resolve() not in own:
            yield Path(program)
