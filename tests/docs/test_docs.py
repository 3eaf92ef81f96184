"""The documents are true: their commands and code run, and the options are those of `--help`."""

from __future__ import annotations

import ast
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import formats
import formats.codec
import formats.options
import formats.verbs.verify
from formats.cli.typer_commands import EXAMPLES
from formats.cli.verbs import VERBS
from formats.codecs.contract import Codec, Runtime
from formats.testing.checks import OF_CODEC, OF_MODEL
from tests.commands import run
from tests.docs.code_blocks import DOCUMENTS, ROOT, SHOWN_IN_PARTS, Block, blocks
from tests.programs import need
from tests.rten import rten_tables
from tests.verbs.faulty_models import FAULTS

IN_ORDER = (
    *("docs/install.md", "docs/which_format.md", "docs/tutorial.md", "docs/troubleshooting.md"),
    *("docs/links.md", "docs/archives.md", "docs/ort.md"),
)  # each runs as a whole
RECIPES = (*IN_ORDER, "docs/recipes.md")  # their commands and code run in the order of the page
RUN = ("console", "python", "output")  # the languages of blocks that run there, and of what the last command prints
# Commands that prepare a machine are not run here, but by `.ci/run`; here, the files that they name must exist.
PREPARATIONS = (
    *("pip install", "python -m pip install", "mkdir -p", "cargo build", "python3 -m venv", ". .venv/bin/activate"),
    *("pytest", "npm ci", "mkdocs ", "git tag", "git push"),
)

Python = Callable[..., "subprocess.CompletedProcess[str]"]


def all_blocks(language: str) -> list[Block]:
    """Return the blocks in one language of the documents whose blocks are independent."""
    documents = [document for document in DOCUMENTS if document not in (*RECIPES, *SHOWN_IN_PARTS)]
    return [block for document in documents for block in blocks(document) if block.language == language]


def recipes() -> list[tuple[str, list[Block]]]:
    """Return the blocks of each recipe, and those of the pages that are one recipe each."""
    found = [(page, [block for block in blocks(page) if block.language in RUN]) for page in IN_ORDER]
    text = (ROOT / "docs" / "recipes.md").read_text(encoding="utf-8")
    starts = [text.count("\n", 0, match.start()) + 1 for match in re.finditer(r"^## ", text, re.MULTILINE)]
    for start, end in zip(starts, [*starts[1:], text.count("\n") + 1], strict=True):
        inside = [block for block in blocks("docs/recipes.md") if start < block.line < end and block.language in RUN]
        found.append((text.splitlines()[start - 1].removeprefix("## "), inside))
    return found


def commands(language_blocks: list[Block]) -> list[str]:
    """Return the commands of console blocks; those joined by `&&` are separate."""
    lines = [line for block in language_blocks for line in block.text.splitlines() if line.strip()]
    return [part.strip() for line in lines for part in line.partition("#")[0].split("&&")]


def examples() -> list[str]:
    """Return the examples at the ends of the helps."""
    return sorted({*EXAMPLES, *(line for verb in VERBS for line in verb.examples)})


def answers() -> list[str]:
    """Return the commands in the README's tables of problems, without those of stores (`tests/tensordata/remote`)."""
    section = (ROOT / "README.md").read_text(encoding="utf-8").partition("\n## Your problem, the command\n")[2]
    found = re.findall(r"^\| .* \| `(formats [^`]+)`", section.partition("\n## ")[0], re.MULTILINE)
    return [line for line in found if "://" not in line]


@pytest.fixture
def example(tmp_path: Path) -> Path:
    """A folder with nothing but the example model, in its place and as `model.onnx`."""
    (tmp_path / "examples").mkdir()
    for name in ("examples/digits.onnx", "model.onnx"):
        shutil.copy(ROOT / "examples" / "digits.onnx", tmp_path / name)
    return tmp_path


@pytest.fixture
def folder(example: Path, tmp_path: Path) -> Path:
    """A folder with the files that the examples of the documents read."""
    (tmp_path / "out").mkdir()
    for extension in ("onnxz", "rten"):
        formats.convert(tmp_path / "model.onnx", tmp_path / f"model.{extension}")
    return tmp_path


def run_line(line: str, folder: Path, monkeypatch: pytest.MonkeyPatch, *more: str) -> str:
    """Run a command of `formats` in this process, or in a shell if it has pipes or patterns; return what it prints."""
    if set("|<>*$") & {*line}:
        return run_in_shell(line, folder)
    monkeypatch.chdir(folder)
    done = run(*shlex.split(line), *more)
    differs = re.search(
        r": [\d,]+ differences?$", done.stdout, re.MULTILINE
    )  # the answer of `diff`, which exits with 1
    assert (int(bool(differs)), "") == (done.exit_code, done.stderr), line
    return done.stdout


def run_in_shell(line: str, folder: Path) -> str:
    """Run a command line with pipes, and check each command in it; return what it prints."""
    for command in line.split("|"):
        program = shlex.split(command)[0]
        if program not in ("formats", "eval"):
            need(program)
    script = f'set -o pipefail; formats() {{ "{sys.executable}" -m formats "$@"; }}; {line}'
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        ["bash", "-c", script], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert 0 == done.returncode, done.stderr
    return done.stdout


def without_times(text: str) -> str:
    """Return a text with one time everywhere: each run takes another one."""
    return re.sub(r"\d+\.\d\d s\b", "0.00 s", text)


def identify(block: Block) -> str:
    """Return the id of a test about a block."""
    return f"{block.document}:{block.line}"


@pytest.mark.sample(5)
@pytest.mark.parametrize("line", sorted({*commands(all_blocks("console"))}))
def test_commands_run(line: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every command of a console block works; commands that prepare a machine name existing files."""
    program, *arguments = shlex.split(line)
    if program in ("formats", "convert") or {"|", "<", ">"} & {*arguments}:
        run_line(line, folder, monkeypatch, *(["--force"] if "convert" in (program, arguments[0]) else []))
    elif line.startswith("python schemas/"):
        done = subprocess.run([sys.executable, *arguments, "--check"], cwd=ROOT, capture_output=True, check=False)
        assert 0 == done.returncode
    else:
        assert line.startswith(PREPARATIONS), f"no test knows what to do with {line!r}"
        extras = (ROOT / "pyproject.toml").read_text().partition("[project.optional-dependencies]")[2]
        for name in re.findall(r"\.\[([\w-]+)\]", line):
            assert f"\n{name} = [" in extras
        paths = [word for word in arguments if word.endswith((".toml", ".py", ".onnx"))]
        assert all((ROOT / path).exists() for path in paths)


@pytest.fixture
def many_models(folder: Path) -> Path:
    """A folder with the files that the examples of the help read."""
    model = (folder / "model.onnx").read_bytes()
    (folder / "models").mkdir()
    for name in ("a", "b", "old", "new", "encoder", "decoder", "models/m"):
        (folder / f"{name}.onnx").write_bytes(model)
    (folder / "models.txt").write_text("a.onnx\nb.onnx\n")
    np.savez(folder / "epoch9.npz", **{"classifier.weight": np.zeros((10, 1176), "float32")})
    formats.extract(folder / "model.onnx", folder / "body.onnx", outputs=["features"])
    formats.extract(folder / "model.onnx", folder / "head.onnx", inputs=["features"])
    formats.convert(folder / "model.onnx", folder / "split.onnx", external_data=True)
    (folder / "tokenizer.json").write_text("{}")
    formats.pack([folder / "encoder.onnx", folder / "decoder.onnx"], folder / "whisper.onnxz", overwrite=True)
    return folder


@pytest.mark.sample(5)
@pytest.mark.parametrize("line", examples())
def test_examples_of_the_help_run(line: str, many_models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every example of a help works in a folder that has the models which it names, and is short."""
    run_line(re.sub("formats (convert|pack)", r"formats \1 --force", line), many_models, monkeypatch)
    assert len(line) <= 78


@pytest.mark.sample(5)
@pytest.mark.parametrize("line", answers())
def test_commands_for_problems_run(line: str, many_models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every command in the README's table of problems works in a folder that has the models which it names."""
    monkeypatch.setenv("MODEL_KEY", "a long secret")
    (many_models / "there").mkdir()
    run_line(re.sub("formats (convert|pack)", r"formats \1 --force", line), many_models, monkeypatch)


def edits() -> list[str]:
    """Return the commands in the tables of docs/editing.md."""
    text = (ROOT / "docs" / "editing.md").read_text(encoding="utf-8").partition("\n## On the command line\n")[2]
    cells = re.findall(r"^\| .* \| `([^`]+)` \|$", text.partition("\n## ")[0], re.MULTILINE)
    return [f"formats edit model.onnx new.onnx {cell}" if cell.startswith("-") else cell for cell in cells]


@pytest.mark.sample(5)
@pytest.mark.parametrize("line", edits())
def test_edits_run(line: str, many_models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every edit in the tables of docs/editing.md works with the example model, and is done."""
    np.save(many_models / "bias.npy", np.zeros(10, "float32"))
    np.save(many_models / "image.npy", np.zeros((1, 1, 28, 28), "float32"))
    monkeypatch.chdir(many_models)
    done = run(*shlex.split(line), "--force", "--strict")
    assert (0, "") == (done.exit_code, done.stderr), line


@pytest.mark.sample(3)
@pytest.mark.parametrize("block", all_blocks("python"), ids=identify)
def test_snippets_run(block: Block, folder: Path, python: Python) -> None:
    """Every Python block runs from the root of the repository."""
    done = python("-W", "error", "-c", block.text)
    assert (0, "") == (done.returncode, done.stderr)


@pytest.mark.parametrize(
    "block", [block for block in all_blocks("text") if block.text.startswith("$ formats ")], ids=identify
)
def test_shown_output_is_real(block: Block, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A text block that begins with a command has what the command prints."""
    (folder / "cycle.onnx").write_bytes(FAULTS["cycle of two"].wrong.SerializeToString())
    monkeypatch.chdir(folder)
    line, _, shown = block.text.partition("\n")
    assert shown == run(*shlex.split(line.removeprefix("$ "))).stdout


@pytest.mark.sample(5)
@pytest.mark.parametrize(("title", "steps"), recipes(), ids=[title for title, _ in recipes()])
def test_recipes_work(
    title: str, steps: list[Block], example: Path, python: Python, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commands and code of a recipe run one after another, in a folder that contains only the example model."""
    assert steps, title
    follow(steps, example, python, monkeypatch)


def follow(steps: list[Block], folder: Path, python: Python, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the commands and code of a page in a folder: each works without an error line, and prints what is shown."""
    monkeypatch.delenv("MODEL_KEY", raising=False)  # a recipe says itself what it needs
    printed = ""
    for block in steps:
        if block.language == "output":
            assert without_times(block.text) == without_times(printed)
            continue
        if block.language == "python":
            done = python("-W", "error", "-c", block.text)
            assert (0, "") == (done.returncode, done.stderr), block.line
            continue
        for line in commands([block]):
            program, *arguments = shlex.split(line)
            if program == "formats" or {"|", "<", ">"} & {*arguments}:
                printed = run_line(line, folder, monkeypatch)
            elif program == "export":
                monkeypatch.setenv(*arguments[0].split("=", 1))
            elif program == "mkdir":
                (folder / arguments[-1]).mkdir(exist_ok=True)
            elif program == "cp":
                shutil.copy(*(folder / name for name in arguments))
            else:
                assert line.startswith(PREPARATIONS), f"no test knows what to do with {line!r}"


def test_example_of_the_package_runs(folder: Path, python: Python) -> None:
    """The example in the docstring of the package runs."""
    lines = (formats.__doc__ or "").splitlines()
    code = "\n".join(line[4:] for line in lines if line.startswith("    "))
    (folder / "model.onnxz").unlink()
    done = python("-c", code)
    assert (0, "") == (done.returncode, done.stderr)
    assert (folder / "copy.onnx").exists()


def test_documents_have_blocks_of_known_kinds() -> None:
    """Every block with a language is run or compared by a test, and the README has commands and code."""
    known = {*RUN, "text", "hex", "rust", "javascript", "html", "json", "toml", ""}
    assert not [block for document in DOCUMENTS for block in blocks(document) if block.language not in known]
    assert {"console", "python"} <= {block.language for block in blocks("README.md")}


def test_links_lead_somewhere() -> None:
    """Every relative link of a document leads to a file of the repository."""
    for document in DOCUMENTS:
        links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", (ROOT / document).read_text(encoding="utf-8"))
        assert not [link for link in links if not ((ROOT / document).parent / link).exists()]


NAMING = sorted(  # the files that may name others: documents, and what is for developers
    path
    for folder in ("", ".ci", "docs", "formats", "schemas", "examples", "benchmarks", "tests", "readers")
    for path in ((ROOT / folder).rglob("*") if folder else ROOT.glob("*.md"))
    if path.suffix in (".md", ".py", ".proto", ".fbs", "")
    and path.is_file()
    and not {"target", "node_modules", "corpus"} & {*path.parts}
)
PATH = re.compile(r"(?<![\w/.:<{}*$\\-])(?:[\w.-]+/)+[\w.-]*\w|(?<=`)\w+\.py(?=`)")
OF_OTHERS = {
    "rten/all-ops",
    "rten/mmap",
    "rten/rten_format",
    "docs/docsgen",
    "tests/test_it.py",
    "formats/rten/operators/powers.py",
    "tests/runtime/target",
    "readers/js/node_modules",
}  # or made by a test
FOLDERS = [path for folder in (ROOT, ROOT / "formats") for path in folder.iterdir() if path.is_dir()]


@pytest.mark.parametrize("path", NAMING, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_files_that_are_mentioned_exist(path: Path) -> None:
    """Files of the repository that a file mentions by path exist; the path may begin with a room of the package."""
    wrong = []
    known, names = {folder.name for folder in FOLDERS}, {file.name for file in NAMING}
    for name in {*PATH.findall(path.read_text(encoding="utf-8", errors="replace"))} - OF_OTHERS:
        if "/" not in name:
            wrong += [] if name in names else [name]
        elif name.partition("/")[0] in known and not any(part.isupper() for part in name.split("/")):
            places = (ROOT / name, ROOT / "formats" / name, path.parent / name)
            wrong += [] if any(place.exists() for place in places) else [name]
    assert not wrong


@pytest.mark.parametrize("name", rten_tables.TABLES)
def test_tables_are_those_of_the_code(name: str) -> None:
    """Each table of `docs/rten.md` is what `tests/rten/rten_tables.py` makes from the code and from test outcomes."""
    assert rten_tables.TABLES[name]() == rten_tables.blocks(rten_tables.DOCUMENT.read_text(encoding="utf-8"))[name]


def test_kinds_of_losses_are_those_of_the_code() -> None:
    """The kinds of losses in `docs/rten.md` are those of the package for RTen."""
    text = rten_tables.DOCUMENT.read_text(encoding="utf-8")
    described = re.findall(r"^\| `(\w+)` \|", text.partition("## Losses")[2].partition("## How")[0], re.MULTILINE)
    modules = [path.read_text(encoding="utf-8") for path in (ROOT / "formats" / "rten").rglob("*.py")]
    used = {kind for module in modules for kind in re.findall(r'(?:losses\.add|note)\(\s*"(\w+)"', module)}
    assert len(described) == len(set(described))
    assert used == set(described)


def rows(document: str, heading: str) -> dict[str, str]:
    """Return the last column of the first table under a heading, by the code in the first column."""
    section = (ROOT / document).read_text(encoding="utf-8").partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return dict(re.findall(r"^\| `(\w+)[^|]* \| (.*) \|$", section, re.MULTILINE))


def test_contract_of_codecs_is_that_of_the_checks() -> None:
    """`docs/codecs.md` describes each check with the words of its docstring, in the same order."""
    checks = {check.__name__: check.__doc__ for check in (*OF_CODEC, *OF_MODEL)}
    assert [*checks.items()] == [*rows("docs/codecs.md", "What every codec passes").items()]


def test_fields_of_codecs_are_described() -> None:
    """`docs/codecs.md` describes every fact and method of a Codec and of a Runtime, and names only existing ones."""
    text = (ROOT / "docs/codecs.md").read_text(encoding="utf-8").partition("\n## The parts of a Codec\n")[2]
    section, _, runtimes = text.partition("\n## ")[0].partition("\n### Runtimes\n")
    described = re.findall(r"^\| `(\w+)[(`]", section, re.MULTILINE)
    own = {name for name in (*Codec.__annotations__, *vars(Codec)) if not name.startswith("_")}
    assert sorted(own) == sorted(described)
    methods = re.findall(r"^\| `(\w+)\(", runtimes, re.MULTILINE)
    assert {"check_data_files", *methods} == {name for name, value in vars(Runtime).items() if callable(value)}
    described = [*rows("docs/codecs.md", "Building blocks")]
    assert described
    assert not [name for name in described if name not in formats.codec.__all__]
    assert not [name for name in rows("docs/codecs.md", "Options") if not hasattr(formats.options, name)]


def test_names_for_codecs_are_there() -> None:
    """Every name of `formats.codec` can be imported, and is the object of its module."""
    for name in formats.codec.__all__:
        assert getattr(formats.codec, name) is not None
    assert dir(formats.codec) == sorted(formats.codec.__all__)
    with pytest.raises(AttributeError, match="no attribute 'codecs'"):
        formats.codec.codecs  # noqa: B018 - what is tested


def keys_in(report: object) -> set[str]:
    """Return all keys of a report, including nested ones."""
    if isinstance(report, list):
        return set().union(*map(keys_in, report))
    return set().union(report, *map(keys_in, report.values())) if isinstance(report, dict) else set()


def test_keys_of_reports_are_documented() -> None:
    """Each key of a JSON report is in the section of docs/json.md on its verb, or in the section on errors."""
    reports = json.loads((ROOT / "tests" / "public_names.json").read_text(encoding="utf-8"))["reports"]
    sections: dict[str, str] = {}
    for section in (ROOT / "docs" / "json.md").read_text(encoding="utf-8").split("\n## ")[1:]:
        title, _, text = section.partition("\n")
        for verb in [title.lower(), *re.findall("`([a-z]+)`", title)]:
            sections[verb] = sections.get(verb, "") + text
    for name, report in reports.items():
        words = "errors" if "error" in name else name.split()[0]
        text = sections[words] + sections["convert"] * (words == "batch")
        documented = set(re.findall(r"`(?:error\.)?([a-z_0-9]+)`", text + sections["errors"]))
        assert keys_in(report) <= documented | {"error"}, f"{name}: {keys_in(report) - documented}"


def kinds_in(*modules: str) -> set[str]:
    """Return the kinds that modules give findings or differences: the first part of each call or yielded triple."""
    kinds = set()
    for module in modules:
        for node in ast.walk(ast.parse((ROOT / "formats" / "verbs" / f"{module}.py").read_text(encoding="utf-8"))):
            first: ast.expr | None = None
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("Difference",):
                first = node.args[0]
            elif isinstance(node, ast.Yield) and isinstance(node.value, ast.Tuple) and len(node.value.elts) == 3:
                first = node.value.elts[0]
            if isinstance(first, ast.Constant):
                kinds.add(first.value)
    return kinds


def test_kinds_of_differences_are_documented() -> None:
    """docs/json.md has each word for a kind that `diff` writes, and no other."""
    text = (ROOT / "docs" / "json.md").read_text(encoding="utf-8")
    listed = text.partition("\n## `diff`")[2].partition("`kind` (")[2].partition(")")[0]
    assert set(re.findall("`([a-z ]+)`", listed)) == kinds_in("compare")
