"""What the pages promise: each promise has its tests in promises.txt, and the numbers of the pages are right."""

from __future__ import annotations

import ast
import json
import re

import pytest

from formats.batch import manifest
from formats.bridges import to_others
from formats.cli import several
from formats.codecs import contract, keys
from formats.editing import weight_files
from formats.onnxpb import inference
from formats.onnxpb.encryption import crypt
from formats.onnxpb.external import safetensors
from formats.onnxpb.limited_process import CHECKS, FOLDING, INFERENCE
from formats.onnxpb.text import textfile
from formats.rten.convert import budget
from formats.tensordata import interrupted
from formats.tensordata.remote import remote_file, stores
from formats.tensordata.replacing import journal, lock
from formats.verbs import choices, verify
from tests import test_bounded_work, test_permissions, test_plain_text, test_side_files
from tests.docs.code_blocks import ROOT
from tests.onnxzip import zip_readers

PAGE = "docs/security.md"
PROMISES = ROOT / "tests" / "docs" / "promises.txt"
# The sections and lists that promise nothing: each says why.
WITHOUT_PROMISE = {
    "Who the attacker is": "definitions",
    "Not promised": "what is not promised",
    "What was tested": "a record of runs",
    "Which stores were tested": "a record of runs",
    "Options of a store": "what to type; the last sentence is in the file",
    "Recipes": "commands",
    "Removal": "what we will do",
    "Security": "the introduction",
    "Models in stores and on servers": "the introduction",
    "What is stable": "the introduction; the cells of its table are in the file",
}


def flat(text: str) -> str:
    """Return a text without line breaks and bold print, as a quotation has it."""
    return " ".join(text.replace("**", "").split())


def page(name: str) -> str:
    """Return the text of a page."""
    return (ROOT / name).read_text(encoding="utf-8")


ROWS = [
    tuple(line.split(" | "))
    for line in PROMISES.read_text(encoding="utf-8").splitlines()
    if line and not line.startswith("#")
]
QUOTED = {name: [promise for where, promise, _ in ROWS if where == name] for name in {row[0] for row in ROWS}}


@pytest.mark.parametrize("row", ROWS, ids=[f"{row[0]}: {row[1][:40]}" for row in ROWS])
def test_a_promise_is_in_its_page_and_its_tests_exist(row: tuple[str, str, str]) -> None:
    """The page has the words of the promise, and each test that the file names is a function."""
    name, promise, tests = row
    assert promise in flat(page(name))
    for path, test in (each.split("::") for each in tests.split(", ")):
        functions = {
            node.name
            for node in ast.parse((ROOT / path).read_text(encoding="utf-8")).body
            if isinstance(node, ast.FunctionDef)
        }
        assert test in functions


def parts(name: str) -> list[tuple[str, str]]:
    """Return the sections of a page and the items of its lists, each with the title of its section."""
    found = []
    for section in re.split(r"^#+ ", page(name), flags=re.MULTILINE)[1:]:
        title, _, text = section.partition("\n")
        items = re.split(r"^- ", text, flags=re.MULTILINE)
        found += [(title, flat(part)) for part in ([text] if len(items) == 1 else items[1:])]
    return found


@pytest.mark.parametrize("name", [PAGE, "docs/remote.md", "docs/stability.md"])
def test_no_promise_is_without_a_test(name: str) -> None:
    """Each section without a list, and each item of a list, has a promise in the file, or is listed as without one."""
    for title, text in parts(name):
        if text and title not in WITHOUT_PROMISE:
            assert any(promise in text for promise in QUOTED[name]), (title, text[:80])


def test_each_promise_of_the_readme_has_a_test() -> None:
    """Each item of the README's list of what one can rely on is in the file."""
    text = page("README.md").partition("## What you can rely on")[2].partition("\n## ")[0]
    titles = re.findall(r"^- \*\*(.+?)\*\*", text, flags=re.MULTILINE)
    assert QUOTED["README.md"] == titles


def words(number: int) -> str:
    """Return a small number as a word."""
    return ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")[number]


def mib(nbytes: int) -> str:
    """Return a size as the pages write it."""
    return f"{nbytes >> 20} MiB"


ARCHIVES = len(json.loads(zip_readers.OUTCOMES.read_text(encoding="utf-8")))
NUMBERS = (  # what the pages say, with the numbers of the code, and of the tests and their data
    f"PBKDF2 with {crypt.KEY_ITERATIONS:,} rounds",
    f"(PBKDF2, {crypt.KEY_ITERATIONS:,} rounds)",
    f"a key of at least {keys.MIN_KEY_BYTES} bytes",
    f"The budget is {budget.ELEMENTS:,} elements and {budget.NODES:,} nodes",
    f"plus {budget.ELEMENTS_PER_BYTE} elements for each byte of weights",
    f"and {budget.NODES_PER_NODE} nodes for each node",
    f"counts as {budget.ELEMENTS_PER_STEP} elements",
    f"it may take {mib(INFERENCE.memory_bytes)} of memory and {INFERENCE.memory_per_byte} bytes more",
    f"{INFERENCE.seconds:.0f} seconds of processor time and",
    f"and {INFERENCE.seconds_per_byte * 1e6:.0f} microseconds more for each byte",
    f"at most {inference.MOST_NODES:,} nodes",
    f"may take {mib(FOLDING.memory_bytes)} of memory and {words(FOLDING.memory_per_byte)} times its bytes",
    f"and {FOLDING.seconds:.0f} seconds of processor time",
    f"it may take {mib(CHECKS.memory_bytes)} of memory and {CHECKS.memory_per_byte} bytes more for each byte of their",
    f"and {CHECKS.seconds:.0f} seconds of processor time. `formats.onnxruntime_session`",
    f"at most {to_others.MOST_NODES:,} nodes",
    f"Text is indented by at most {textfile.MAX_MARGIN + 2} columns",
    f"at most {weight_files.MAX_ARRAYS:,} arrays",
    f"{weight_files.MAX_NPY_HEADER_BYTES:,} bytes for the header of an array",
    f"and {weight_files.MAX_TEXT_BYTES:,} bytes of text",
    f"{weight_files.MAX_INDEX_BYTES:,} bytes for an index",
    f"{safetensors.MAX_HEADER_BYTES:,} bytes for an index and for the header",
    f"{choices.MAX_METADATA_FILE_BYTES:,} bytes for a metadata file",
    f"{manifest.MAX_LINE_BYTES:,} bytes for a metadata file and for a line of a manifest",
    f"{several.MAX_LIST_LINE:,} characters for a line of a list",
    f"and {keys.MAX_KEY_BYTES:,} bytes for a key file",
    f"Messages may be nested {contract.MAX_DEPTH} deep",
    f"lists the first {verify.MAX_FINDINGS:,} findings of each kind",
    f"name up to {words(interrupted.MAX_STRANGE)} such files",
    f"wait for it for at most {lock.WAIT_SECONDS:.0f} seconds",
    f"A journal has at most {mib(journal.MAX_JOURNAL_BYTES)}",
    f"at most {interrupted.MAX_FOUND:,} journals and {mib(interrupted.MAX_FOUND_BYTES)} in a folder",
    f"A request ends after {stores.SILENCE_SECONDS:.0f} s without a byte",
    f"and one second for each {stores.LEAST_BYTES_PER_SECOND >> 10} KiB",
    f"the file has more than {mib(stores.WHOLE_BYTES)}",
    f"It waits {stores.WAIT_SECONDS} s before the first retry",
    f"in parts of up to {mib(remote_file.PART_BYTES)}",
    f"`formats` refuses all {ARCHIVES} archives",
    f"{ARCHIVES} archives, {words(len(zip_readers.READERS))} other readers",
    f"each write of {len(test_plain_text.ROUTES)} routes",
    f"{words(len(test_permissions.MODES))} modes, {words(len(test_permissions.UMASKS))} umasks",
    f"{len(test_bounded_work.FILES)} kinds of files, {words(len(test_bounded_work.USES))} uses",
    f"{len(test_side_files.CASES)} kinds, and the process is measured",
)


@pytest.mark.parametrize("stated", NUMBERS)
def test_numbers_are_those_of_the_code(stated: str) -> None:
    """A number that a page states is that of the code, or of the tests and their data."""
    assert stated in flat(page(PAGE)) + flat(page("docs/remote.md"))
