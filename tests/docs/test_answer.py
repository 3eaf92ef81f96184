"""What the documents say about `warning:`, `note:`, `--notes` and `--strict` is what a conversion does.

Each sentence is quoted, and a conversion of every kind of loss shows that it is true.
"""

from __future__ import annotations

import ast
import importlib
import json
import pkgutil
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import onnx
import onnx.parser
import pytest

import formats
from formats.rten import operators
from formats.rten.operators import SPECS
from formats.rten.spec import Deviation
from formats.tensordata.plan import (
    ALLOWED_KINDS,
    DOCUMENTATION,
    INTERFACE,
    MATTERING,
    RANGE,
    RARE,
    RESULTS,
    SEEN,
    SPECIAL,
    USE,
    Seen,
)
from tests import commands

ROOT = Path(__file__).parents[2]
HEADER = '<ir_version: 9, opset_import: ["" : 18]>\n'
# A model for each value of `seen`, which has a loss of this kind in a conversion to .rten.
MODELS: dict[Seen, str] = {
    RESULTS: "g (double[2] x) => (double[2] y) { y = Exp(x) }",
    INTERFACE: "g (int64[2] x) => (int64[2] y) { y = Identity(x) }",
    RANGE: "g (float[2] x) => (float[2] y) { a = Cast<to=7>(x) y = Cast<to=1>(a) }",
    RARE: "g (float[2] x) => (uint8[2] y) <float s = {0.3}, uint8 z = {0}> { y = QuantizeLinear(x, s, z) }",
    SPECIAL: "g (float[2] x) => (float[2] y) { y = Relu(x) }",
    DOCUMENTATION: "g (float[2] x) => (float[2] y) { y = Exp(x) }",
}


@dataclass
class Converted:
    """A conversion to .rten, and what the command prints of it."""

    report: formats.ConversionReport
    shown: list[str]
    every: list[str]  # with `--notes`
    strict_code: int

    def line_of(self, seen: Seen) -> str:
        """The line about the first loss of this kind, if every loss has one."""
        (first, *_) = (loss for loss in self.report.losses if loss.seen == seen)
        (line,) = (line for line in self.every if line.endswith(first.detail))
        return line


@pytest.fixture(scope="module")
def converted(tmp_path_factory: pytest.TempPathFactory) -> dict[Seen, Converted]:
    """Return the conversions of the models."""
    folder = tmp_path_factory.mktemp("answer")
    return {seen: _convert(folder, seen) for seen in MODELS}


def _convert(folder: Path, seen: Seen) -> Converted:
    proto = onnx.parser.parse_model(HEADER + MODELS[seen])
    if seen == DOCUMENTATION:
        proto.producer_name = "a program"
    source, target = folder / f"{seen}.onnx", folder / f"{seen}.rten"
    source.write_bytes(proto.SerializeToString())
    outputs = [commands.run("convert", source, target, "--force", *more).stdout for more in ([], ["--notes"])]
    shown, every = (text.splitlines()[:-1] for text in outputs)  # the last line is about all .rten files
    strict = commands.run("convert", source, target, "--force", "--strict")
    report = formats.convert(source, target, overwrite=True)
    return Converted(report, shown, every, strict.exit_code)


def _is_warning(seen: Seen) -> Callable[[dict[Seen, Converted]], bool]:
    return lambda found: found[seen].line_of(seen).startswith("warning: ")


def _fails(found: dict[Seen, Converted]) -> bool:
    has_warning = {seen: any(line.startswith("warning: ") for line in each.every) for seen, each in found.items()}
    return has_warning == {seen: each.strict_code == 1 for seen, each in found.items()}


def _is_note(found: dict[Seen, Converted]) -> bool:
    return found[RARE].line_of(RARE).startswith("note: ") and found[RARE].line_of(RARE) in found[RARE].shown


def _is_counted(found: dict[Seen, Converted]) -> bool:
    return all(
        found[seen].line_of(seen) not in found[seen].shown
        and found[seen].shown[-1] == f"note: 1 about {words}: --notes"
        for seen, words in ((SPECIAL, "NaN, infinities or empty tensors"), (DOCUMENTATION, "documentation"))
    )


def _lets_pass(found: dict[Seen, Converted]) -> bool:
    return all(found[seen].strict_code == 0 for seen in (RARE, SPECIAL, DOCUMENTATION))


def _prints_each(found: dict[Seen, Converted]) -> bool:
    return all(len(each.every) == 2 + len(each.report.losses) for each in found.values())


def _is_ordered(found: dict[Seen, Converted]) -> bool:
    orders = ([(not loss.matters, SEEN.index(loss.seen)) for loss in each.report.losses] for each in found.values())
    return all(order == sorted(order) for order in orders)


def _is_same_text(found: dict[Seen, Converted]) -> bool:
    def plain(lines: list[str]) -> list[str]:
        return [re.sub(r"\d\.\d\d s", "", line).replace("--notes", "report.losses") for line in lines]

    return all(plain(each.shown) == plain(str(each.report).splitlines()[:-1]) for each in found.values())


SENTENCES: list[tuple[str, str, Callable[[dict[Seen, Converted]], bool]]] = [
    ("docs/tutorial.md", "`warning:` is about what the model computes from ordinary inputs", _is_warning(RESULTS)),
    ("docs/tutorial.md", "about numbers that the target cannot hold", _is_warning(RANGE)),
    ("docs/tutorial.md", "or about what callers see.", _is_warning(INTERFACE)),
    ("docs/tutorial.md", "`note:` is about anything else: rare cases, such as ties and half steps", _is_note),
    ("docs/tutorial.md", "Notes about NaN, infinities, empty tensors and documentation are only counted", _is_counted),
    ("docs/tutorial.md", "`--notes` prints each of them", _prints_each),
    ("docs/tutorial.md", "With `--strict`, a conversion with a warning fails", _fails),
    ("docs/tutorial.md", "and notes do not matter;", _lets_pass),
    ("docs/tutorial.md", "first those that matter, and the likely before the rare", _is_ordered),
    ("docs/tutorial.md", "`print(report)` gives the lines of the command", _is_same_text),
    ("README.md", "With `--strict`, a conversion with a warning is refused", _fails),
    ("docs/options.md", "Refuse a conversion whose report has a warning.", _fails),
    ("docs/recipes.md", "The exit code is 1 if the report would have a warning", _fails),
    ("docs/rten.md", "The report of a conversion lists its losses, in this order.", _is_ordered),
    ("docs/json.md", "`--strict` refuses losses that matter", _fails),
]  # fmt: skip


@pytest.mark.parametrize(("document", "sentence", "is_true"), SENTENCES)
def test_documents_are_true_of_warnings_and_notes(
    converted: dict[Seen, Converted], document: str, sentence: str, is_true: Callable[[dict[Seen, Converted]], bool]
) -> None:
    """The document has the sentence, and conversions do what it says."""
    assert sentence in " ".join((ROOT / document).read_text(encoding="utf-8").split())
    assert is_true(converted)


def test_table_of_the_documents_is_that_of_the_code() -> None:
    """The page on RTen has each value of `seen`, in order, with the word that a report has for it."""
    text = (ROOT / "docs" / "rten.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (.*?) \| `(\w+)` \| .* \|$", text.partition("| `seen` |")[2], re.MULTILINE)
    words = ["`warning:`" if seen in MATTERING else "`note:`" if seen in (RARE, USE) else None for seen in SEEN]
    counted = "a number; `--notes` prints it"
    assert [(word or counted, seen) for word, seen in zip(words, SEEN, strict=True)] == rows[: len(SEEN)]


def _kinds_of_losses() -> dict[str, str]:
    """Return the source of the first loss of each kind that can matter; a kind that is no literal is left out."""
    found: dict[str, str] = {}
    for path in sorted((ROOT / "formats").rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        for call in ast.walk(ast.parse(text)) if re.search(r"Loss\(|\.add\(\"|_note\(|\badd\(\"", text) else ():
            if isinstance(call, ast.Call) and call.args and isinstance(kind := call.args[0], ast.Constant):
                name = ast.unparse(call.func)
                words = ast.unparse(call)
                is_loss = name == "Loss" or name.endswith(("losses.add", "_note"))
                is_loss = is_loss or (name == "add" and "INTERFACE" in words)
                if is_loss and not re.search(r"\b(USE|RARE|SPECIAL|DOCUMENTATION)\b", words):
                    found.setdefault(str(kind.value), f"{path.name}: {words}")
    return found


def test_every_kind_that_matters_can_be_allowed() -> None:
    """The kinds of `allow` are those of the losses in the code that can matter, and the page has them."""
    found = _kinds_of_losses()
    named = {"deviation", "own_operators", "stale_link", "dtype", "depth"}  # whose kind or class is a variable
    assert {kind: found[kind] for kind in found.keys() - ALLOWED_KINDS.keys()} == {}
    assert ALLOWED_KINDS.keys() - found.keys() <= named
    page = (ROOT / "docs" / "json.md").read_text(encoding="utf-8")
    table = page.partition("<!-- table: kinds -->")[2].partition("<!-- end -->")[0]
    assert re.findall(r"^\| `(\w+)` \| (.*) \|$", table, re.MULTILINE) == list(ALLOWED_KINDS.items())


def test_batch_and_json_say_the_same(tmp_path: Path) -> None:
    """A batch has the first lines and the warnings of the same answer, `--json` its verdict, and `--quiet` nothing."""
    source = tmp_path / "m.onnx"
    source.write_bytes(onnx.parser.parse_model(HEADER + MODELS[INTERFACE]).SerializeToString())
    report = formats.convert(source, tmp_path / "m.rten")
    done = commands.run("formats", "batch", source, "--out", tmp_path / "out", "--to", "rten", "--parents")
    assert str(report).splitlines()[1:-1] == done.stdout.splitlines()[1:-1]  # the last one is about all .rten files
    done_again = commands.run("convert", source, tmp_path / "m.rten", "--force", "--json")
    said = json.loads(done_again.stdout)
    assert (report.verdict, [loss.to_json() for loss in report.losses]) == (said["verdict"], said["losses"])
    assert commands.run("convert", source, tmp_path / "m.rten", "--force", "--quiet").stdout == ""


def _modules() -> Iterator[ModuleType]:
    for found in pkgutil.iter_modules(operators.__path__):
        yield importlib.import_module(f"{operators.__name__}.{found.name}")


def _deviations() -> dict[str, Deviation]:
    return {
        f"{module.__name__.rpartition('.')[2]}.{name}": value
        for module in _modules()
        for name, value in vars(module).items()
        if isinstance(value, Deviation)
    }


_RARE_WORDS = re.compile(r"\bNaNs?\b|\binfinit(e|y|ies)\b|-inf\b|no elements|no samples|\bempty\b")
# These name an infinity, but finite numbers show it.
_OF_FINITE = {
    "activation._OVERFLOW_DEVIATION",
    "elementwise._INFINITE_SQUARE",
    "attention._LOWEST",
    "quantization._BEYOND",
}


def test_each_deviation_has_a_class() -> None:
    """A deviation for NaN, infinities or empty tensors is of that class, and no other one is."""
    found = _deviations()
    assert len(found) > 30
    assert _OF_FINITE <= found.keys()
    for name, deviation in found.items():
        assert deviation.seen in SEEN, name
        is_special = bool(_RARE_WORDS.search(deviation.detail)) and name not in _OF_FINITE
        assert is_special == (deviation.seen == SPECIAL), (name, deviation)
        assert "; if there" not in deviation.detail, "two deviations have two classes"


def test_deviations_are_constants_of_modules() -> None:
    """No module of operators makes a deviation in a function, where the test above would not see it."""
    for module in _modules():
        text = Path(module.__file__ or "").read_text(encoding="utf-8")
        assert not re.search(r"^ +.*\bDeviation\(", text, re.MULTILINE), module.__name__
        assert not re.search(r"\.report\(f?\"", text), module.__name__
    assert any(spec.to_rten.deviations for spec in SPECS.values())
