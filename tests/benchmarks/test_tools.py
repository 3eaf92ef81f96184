"""The comparison of tools works, and the document has its rows."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import tools

pytestmark = pytest.mark.outer
JOBS = [(tool.name, job, title) for tool in tools.TOOLS for job, title in tool.jobs.items()]
INSTALLED = [each for each in JOBS if each[0] in ("onnx", "onnx-ir", "onnxconverter-common")]  # with the tests
"""The jobs of tools that the tests need anyway; the script runs all."""


@pytest.mark.parametrize(("tool", "job", "title"), INSTALLED, ids=[job for _, job, _ in INSTALLED])
def test_jobs_give_the_same(tool: str, job: str, title: str) -> None:
    """A tool gives the same with `onnx` and after `install()`."""
    row = tools.compared(sys.executable, tool, job, title, 1)
    assert not isinstance(row, str), row
    assert row.same


def test_every_job_is_in_the_list() -> None:
    """Each job is one of a tool, once, and each function that is none of these serves them."""
    listed = [job for _, job, _ in JOBS]
    homes = ("tool_jobs", "other_tool_jobs")
    public = {name for name, each in tools.JOBS.items() if getattr(each, "__module__", "") in homes}
    assert len(listed) == len(set(listed))
    assert public == {*listed, "Inputs", "build", "inferred", "loaded", "outputs"}


def test_table_is_that_of_the_rows() -> None:
    """The table in the document is the one that tools.json gives; its jobs are known."""
    text = tools.DOCUMENT.read_text(encoding="utf-8")
    assert tools.current(text, tools.known()) == text
    assert {(row.tool, row.job) for row in tools.known()} <= {(tool, title) for tool, _, title in JOBS}
    assert all(row.same for row in tools.known())


def test_a_tool_that_is_not_installed_is_told(tmp_path: Path) -> None:
    """A job whose tool is missing is skipped, with its name and the name of the package."""
    (tmp_path / "tool").write_text("#!/bin/sh\necho missing nothing_like_it\n")
    (tmp_path / "tool").chmod(0o755)
    assert tools.compared(str(tmp_path / "tool"), "a", "checks", "b") == "a: b: skipped: missing nothing_like_it"
