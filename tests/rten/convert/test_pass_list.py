"""All lists of passes: what each pass has, and in which order the passes run."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from formats.rten.convert import passes as convert_passes
from formats.rten.convert.pass_list import Pass, run
from formats.rten.onnx_loader import passes as loader_passes

ROOT = Path(__file__).parents[3]
TESTS = Path(__file__).parents[1]
# Each list with its module, the function that runs it, and the tests of its passes.
LISTS = (
    (convert_passes, "MODEL_PASSES", "legal_model", TESTS / "convert" / "test_passes.py"),
    (convert_passes, "GRAPH_PASSES", "legal_graph", TESTS / "convert" / "test_passes.py"),
    (loader_passes, "LOADER_PASSES", "readable_model", TESTS / "onnx_loader" / "test_passes.py"),
)


class Work:
    """Work for passes that do nothing: whatever they are asked for is empty."""

    def __getattr__(self, name: str) -> Any:
        from formats.ir.model import Graph, Model

        return Model() if name == "model" else Graph() if name == "graph" else []


def test_passes_run_in_their_order() -> None:
    """Each pass gets the same work, one after the other."""
    work: list[str] = []
    run([Pass(name, "", lambda work, name=name: work.append(name)) for name in "abc"], work)
    assert work == ["a", "b", "c"]


@pytest.mark.parametrize(("module", "name", "function", "tests"), LISTS, ids=[name for _, name, _, _ in LISTS])
def test_only_the_passes_of_a_list_run(
    module: ModuleType, name: str, function: str, tests: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The function of a list runs its passes in the order of the list, and no others."""
    seen: list[str] = []
    listed = getattr(module, name)
    watched = [Pass(step.name, step.does, lambda _, name=step.name: seen.append(name)) for step in listed]
    monkeypatch.setattr(module, name, watched)
    getattr(module, function)(Work())
    assert seen == [step.name for step in listed]


@pytest.mark.parametrize(("module", "name", "function", "tests"), LISTS, ids=[name for _, name, _, _ in LISTS])
def test_every_pass_has_a_test_of_its_own(module: ModuleType, name: str, function: str, tests: Path) -> None:
    """Each pass is a function with a docstring in its module, has its own name, and is called in a test by name."""
    text = tests.read_text(encoding="utf-8")
    steps = getattr(module, name)
    assert len({step.name for step in steps}) == len({step.apply for step in steps}) == len(steps)
    for step in steps:
        assert step.apply is getattr(module, step.apply.__name__)
        assert step.apply.__doc__ and step.does, step.name
        assert f"passes.{step.apply.__name__}(" in text, step.name


def test_the_page_lists_the_passes() -> None:
    """The page on operators has all passes, list by list in the order in which they run, and says what each does."""
    page = (ROOT / "docs" / "operators.md").read_text(encoding="utf-8")
    section = page.partition("## The passes\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (?!pass )(.+) \| (.+) \|$", section, re.MULTILINE)
    assert rows == [(step.name, step.does) for module, name, _, _ in LISTS for step in getattr(module, name)]
