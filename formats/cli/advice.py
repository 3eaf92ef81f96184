"""Answers to mistyped verbs and options, also by meaning. Only errors in command lines import this module."""

from __future__ import annotations

import shlex
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from formats.cli.command_line import flags_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from formats.cli.command_line import Verb

SAME_RESULTS = "formats does not change what a model computes; onnxruntime and onnxslim have tools for that"
NO_RUNS = "formats does not run models; onnxruntime does"
RUNTIMES = "--runtime names a runtime and its release: rten==0.27 or onnxruntime==1.18"
SIMILAR = 0.7  # how similar a name must be to be suggested


class Answer(NamedTuple):
    """What to do for each of some words: a verb or an option with this name, or what a sentence says.

    Of several names, the first counts that exists. The answer is for `verbs`, or for all.
    """

    words: str
    names: str = ""
    sentence: str = ""
    verbs: str = ""


VERBS = (
    Answer("info show describe print summary summarize view cat dump look stat content", "inspect"),
    Answer("check validate test fsck checksum checksums lint", "verify"),
    Answer("compare cmp equal equals same difference differences", "diff"),
    Answer("rename move", "mv"),
    Answer("modify set patch", "edit"),
    Answer("delete remove del erase unlink clean", "rm"),
    Answer("copy clone duplicate", "cp"),
    Answer("fix recover restore undo", "repair"),
    Answer("ls list deps dependencies", "files"),
    Answer("export import translate transform change write save to", "convert"),
    Answer("convert_many convert-many convert-all many all bulk", "batch"),
    Answer("dedup dedupe deduplicate", "share"),
    Answer("split shard", sentence="type formats convert MODEL NEW.onnx --external-data --max-external-file-size SIZE"),
    Answer("join unsplit unshard embed inline", sentence="type formats convert MODEL NEW.onnx --no-external-data"),
    Answer("cut subgraph slice", "extract"),
    Answer("zip compress archive bundle", "pack"),
    Answer("unzip decompress", "unpack"),
    Answer("encrypt decrypt", sentence="type formats convert MODEL NEW --key-file FILE; .onnxc files are encrypted"),
    Answer("optimize optimise quantize quantise simplify slim prune fuse", sentence=SAME_RESULTS),
    Answer("run infer predict benchmark bench profile serve", sentence=NO_RUNS),
    Answer("install-completion show-completion completions", "completion"),
    Answer("version", sentence="type formats --version"),
)
OPTIONS = (
    Answer("--opset-version --target-opset --ops", "--opset"),
    Answer("--ir", "--ir-version"),
    Answer("--target --rten --rten-target --onnxruntime --ort --target-runtime", sentence=RUNTIMES),
    Answer("--fp16 --float16 --half", sentence="type --dtype float16"),
    Answer("--precision", "--dtype"),
    Answer("--bf16 --bfloat16 --int8 --uint8 --int4", sentence=SAME_RESULTS),
    Answer("--quantize --quantise --optimize --optimise -O --simplify", sentence=SAME_RESULTS),
    Answer("--input-shape --shape --batch-size --batch --dynamic-axes --fix-dim", "--dim"),
    Answer(
        "--input-shape --shape --batch-size --batch --dynamic-axes --fix-dim --dim",
        sentence="type formats edit MODEL NEW.onnx --dim NAME=SIZE",
    ),
    Answer("--rename-input --rename-output --input-names --output-names", "--rename"),
    Answer("--rename --rename-input --rename-output", sentence="type formats edit MODEL NEW.onnx --rename OLD=NEW"),
    Answer("--meta --metadata-props --set", "--metadata"),
    Answer(
        "--output --outfile --out-file --outdir --out-dir --output-dir --output-file --dest --destination --dst -O -d",
        "--out",
    ),
    Answer("-o --out --output --dest --destination --dst", sentence="type the destination last", verbs="cp mv"),
    Answer("--input --in --infile --input-file --model --file --src -i", sentence="type the model without an option"),
    Answer("--format", sentence="--from is the format to read, and --to the format to write", verbs="convert batch"),
    Answer("--format --input-format --from-format --source-format", "--from"),
    Answer("--to-format --output-format --target-format --type -t", "--to"),
    Answer("--overwrite --yes --clobber --replace --assume-yes -y", "--force"),
    Answer("-f --force --yes", sentence="rm does not ask, so nothing has to be forced", verbs="rm"),
    Answer("--verbose -v -vv --log-level --debug-level", sentence="--json prints everything that is known"),
    Answer("--silent --no-output -s", "--quiet"),
    Answer("--recursive -r -R -a", sentence="rm removes no folders; name the models", verbs="rm"),
    Answer("--recursive -r -R", sentence="name one model; its data files follow it", verbs="cp mv"),
    Answer(
        "--recursive -r -R",
        sentence="a folder means all models in and below it, without an option",
        verbs="convert batch inspect verify files share repair",
    ),
    Answer("--inline --embed --no-external --single-file --one-file --merge --all-in-one", "--no-external-data"),
    Answer("--external --save-as-external-data --separate --separate-weights", "--external-data"),
    Answer("--split --shard --max-size --shard-size --max-shard-size --chunk-size", "--max-external-file-size"),
    Answer("--workers --processes --parallel --num-workers -P", "--jobs --threads"),
    Answer("--source --reference --ref", "--original"),
    Answer("--layout --svg --html --png --plot --draw --image", "--picture"),
    Answer("--layout --naming --transformers.js --transformers-js --browser", "--data-names"),
    Answer(
        "--strip-doc --strip-docs --strip-doc-string --no-doc-string --remove-doc --strip-debug --strip-docstrings",
        sentence="formats keeps what a model says of itself; in Python, set another `doc_string` and save the model",
    ),
    Answer(
        "--key --password --passphrase",
        sentence="others can see what is typed here, so a key comes by --key-file FILE, --key-env NAME or --ask-key",
    ),
    Answer("--mkdir --mkdirs --make-parents -p", "--parents"),
    Answer("--simulate --pretend --what-if --check --test", "--dry-run"),
    Answer("--full --deep --checksums --read-all", "--data"),
    Answer("--storage-option --storage --anon", "--storage-options"),
    Answer("--all -a", "--all-data"),
    Answer("--version -V", sentence="type formats --version"),
    Answer("--help-full --all-options", sentence="--help-all shows all options"),
)


def unknown_verb(texts: Sequence[str], verbs: Sequence[Verb]) -> str:
    """The answer to a command line that does not begin with a verb."""
    word = texts[0]
    for answer in VERBS:
        if word.lower() in answer.words.split():
            return f"there is no verb {word}; {answer.sentence or f'did you mean formats {answer.names}?'}"
    if is_model(word):
        return f"the verb is missing; did you mean {with_verb(texts, verbs)}?"
    names = [verb.name for verb in verbs]
    if close := get_close_matches(word.lower(), names, 1, SIMILAR):
        return f"there is no verb {word}; did you mean formats {close[0]}?"
    return f"there is no verb {word:.100}; there are {', '.join(names)}; see formats --help"


def with_verb(texts: Sequence[str], verbs: Sequence[Verb]) -> str:
    """The command line with its verb first: one that is there, or the one that the arguments suggest."""
    for index, text in enumerate(texts):
        if text in {verb.name for verb in verbs}:
            return shlex.join(["formats", text, *texts[:index], *texts[index + 1 :]])
    models = [text for text in texts if is_model(text)]
    return shlex.join(["formats", "inspect" if len(models) == 1 else "convert", *texts])


def is_model(text: str) -> bool:
    """Whether a text is the name of a model, of a file or of a folder."""
    from formats.codecs import lookup

    known = {extension for codec in lookup.codecs() for extension in codec.extensions}
    return bool(text) and not text.startswith("-") and (Path(text).suffix.lower() in known or Path(text).exists())


def unknown_option(program: str, verb: Verb | None, name: str, texts: Sequence[str], verbs: Sequence[Verb]) -> str:
    """The answer to an option that the verb does not have, or that stands before the verb."""
    if verb is None:
        if name in ("-v", "-V"):
            return f"there is no option {name}; type formats --version"
        return f"a verb comes first, such as {with_verb(texts, verbs)}; see {helper(program, verb)}"
    own = [*flags_of(group.options for group in verb.groups(True)), "--help", "--help-all"]
    for answer in OPTIONS:
        if name in answer.words.split() and verb.name in (answer.verbs.split() or [verb.name]):
            if answer.sentence:
                return f"there is no option {name}; {answer.sentence}"
            if found := [each for each in answer.names.split() if each in own]:
                return f"there is no option {name}; did you mean {found[0]}?"
    words = [
        each.removeprefix("--") for each in own if each.startswith("--")
    ]  # all begin alike, so dashes do not count
    if name.startswith("--") and (close := get_close_matches(name.removeprefix("--"), words, 1, SIMILAR)):
        return f"there is no option {name}; did you mean --{close[0]}?"
    if others := [each.name for each in verbs if name in flags_of(group.options for group in each.groups(True))]:
        listed = " and ".join([", ".join(others[:-1]), others[-1]] if len(others) > 1 else others)
        return f"{name} is an option of {listed}, not of {verb.name}"
    return f"there is no option {name:.100}; see {helper(program, verb)}-all"


def bad_usage(verb: Verb, name: str) -> str:
    """The answer to an option whose value is missing, or that takes none."""
    _, flag = flags_of(group.options for group in verb.groups(True))[name]
    return f"{name} needs a value: {name} {flag.metavar}" if flag.takes_text else f"{name} takes no value"


def helper(program: str, verb: Verb | None) -> str:
    """The command line that shows the help for a verb, or for all."""
    return " ".join((program, *([] if verb is None or program == verb.name else [verb.name]), "--help"))
