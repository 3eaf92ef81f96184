"""The table of what packages take is true for those that the tests need anyway; `.ci/versions` tries all."""

from __future__ import annotations

import sys
from importlib.metadata import PackageNotFoundError, version

import pytest

from tests.onnx_compat import third_parties

SOME = ("onnx-ir", "onnxconverter-common")


@pytest.mark.outer
@pytest.mark.parametrize("package", SOME)
def test_rows_are_true(package: str) -> None:
    """A package takes our messages, by the import alone and after `install()`, as its row says."""
    try:
        version(package)
    except PackageNotFoundError:
        pytest.skip(f"{package} is not installed")
    row = third_parties.tried(sys.executable, package, third_parties.packages()[package])
    assert row is not None
    known = third_parties.published()[package]
    assert third_parties.outcome(row.line) == third_parties.outcome(known)


def test_the_table_has_packages_that_are_tried() -> None:
    """Each row is of a package with jobs, and after `install()` each job of each package gives the same."""
    rows = third_parties.published()
    assert len(rows) >= 20
    assert rows.keys() <= third_parties.packages().keys()
    assert all(third_parties.outcome(line)[-1] == "all" for line in rows.values())
