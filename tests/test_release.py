"""The published files agree: one version, one address, and the page on PyPI."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import formats

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
SOURCE = PROJECT["project"]["urls"]["Source"]


def text(path: str) -> str:
    """Return a file of the repository as text."""
    return (ROOT / path).read_text(encoding="utf-8")


def test_versions_are_one() -> None:
    """The package, the citation and the readers in other languages have the same version."""
    versions = {"CITATION.cff": re.search(r"^version: (.*)$", text("CITATION.cff"), re.MULTILINE)[1]}
    if (ROOT / "readers/rust/Cargo.toml").exists():
        versions["readers/rust"] = tomllib.loads(text("readers/rust/Cargo.toml"))["package"]["version"]
    if (ROOT / "readers/js/package.json").exists():
        versions["readers/js"] = json.loads(text("readers/js/package.json"))["version"]
    assert dict.fromkeys(versions, formats.__version__) == versions


def test_versions_of_python_and_numpy_are_those_of_the_page() -> None:
    """The page of what is stable names the versions that the package allows, and the workflow runs them."""
    pythons = re.findall(r"Python :: (3\.\d+)\"", text("pyproject.toml"))
    numpy = next(each for each in PROJECT["project"]["dependencies"] if each.startswith("numpy>="))
    promise = f"Python {pythons[0]} to {pythons[-1]} on Linux, macOS and Windows, and numpy from {numpy[7:]} on."
    assert promise in text("docs/stability.md")
    assert f">={pythons[0]}" == PROJECT["project"]["requires-python"]
    workflow = text(".github/workflows/tests.yml")
    assert json.dumps(pythons) in workflow
    assert all(f"{system}-latest" in workflow for system in ("ubuntu", "macos", "windows"))


def test_addresses_are_one() -> None:
    """Every address of the repository is that of `pyproject.toml`, so that one change moves the project."""
    name = SOURCE.partition("github.com/")[2]
    files = ["mkdocs.yml", "CITATION.cff", "pyproject.toml", "readers/rust/Cargo.toml", "readers/js/package.json"]
    for path in filter(lambda path: (ROOT / path).exists(), files):
        found = re.findall(r"github\.com/([\w-]+/[\w-]+)", text(path))
        assert found, path
        assert {name} == set(found), path
    for path in ("readers/rust/README.md", "readers/js/README.md"):
        assert {name} == set(re.findall(r"github\.com/([\w-]+/formats)\b", text(path))), path


def test_links_of_the_readme_are_absolute_on_the_index() -> None:
    """The page on PyPI has no relative link: the substitution in `pyproject.toml` finds all of them."""
    shown = text("README.md")
    for rule in PROJECT["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]["substitutions"]:
        shown = re.sub(rule["pattern"], rule["replacement"], shown)
    links = re.findall(r"""\]\(([^)]+)\)|(?:src|srcset)="([^"]+)\"""", shown)
    links = [link or picture for link, picture in links]
    assert links
    assert not [link for link in links if not link.startswith("https://")]
    others = [link for link in links if SOURCE.partition("github.com/")[2] not in link]
    assert not [link for link in others if f"]({link})" not in text("README.md")]  # which has them as they are
    assert f"({SOURCE}/blob/main/docs/onnxz.md)" in shown


def test_changelog_has_what_is_not_released() -> None:
    """The changelog begins with the changes for the next release."""
    assert "Unreleased" == re.search(r"^## (.*)$", text("CHANGELOG.md"), re.MULTILINE)[1]
