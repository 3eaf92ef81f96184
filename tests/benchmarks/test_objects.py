"""The comparison of objects works, and the document has its figures."""

from __future__ import annotations

from pathlib import Path

import models
import objects
import pytest

pytestmark = pytest.mark.outer


@pytest.mark.parametrize("job", objects.JOBS, ids=lambda job: job.name)
def test_jobs_give_the_same(job: objects.Job, tmp_path: Path) -> None:
    """Every job gives the same bytes with both, and is measured."""
    path = models.make("torchscript-2.onnx", tmp_path, 1)
    figure = objects.measure(job, path, 1)
    assert figure.theirs > 0 < figure.ours
    assert figure.nodes > 2


def test_jobs_that_differ_are_told(tmp_path: Path) -> None:
    """A job that gives something else with our objects is an error, not a figure."""
    path = models.make("small.onnx", tmp_path, 1)
    job = objects.Job("name", None, objects.path_of, lambda library, _: library.__name__)
    with pytest.raises(ValueError, match=r"^name does not give the same with formats\.onnxpb$"):
        objects.measure(job, path, 1)


def test_table_is_that_of_the_figures() -> None:
    """The table in the document is the one that objects.json gives, with every job."""
    text = objects.DOCUMENT.read_text(encoding="utf-8")
    assert objects.current(text, objects.known()) == text
    assert {figure.job for figure in objects.known()} == {job.name for job in objects.JOBS}


@pytest.mark.parametrize(("seconds", "verdict"), [(0.5, "faster"), (1.2, "same"), (2.0, "slower")])
def test_verdicts(seconds: float, verdict: str) -> None:
    """Ours is faster, the same or slower; a mark that is missed says so."""
    figure = objects.Figure("job", 5, 1.0, seconds, 1.5)
    assert verdict == figure.verdict
    assert (seconds > 1.5) == ("1.5 (missed)" in objects.table([figure]))
