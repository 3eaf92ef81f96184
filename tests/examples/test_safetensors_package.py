"""Tests of the example package with its own codec: the command line and the library use it as if it were built in."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

SOURCE = Path(__file__).parents[2] / "examples" / "onnx-formats-safetensors"
CONVERT = "from formats.cli import convert; convert()"
FORMATS = "from formats.cli import formats; formats()"


def entry_points(pyproject: str) -> str:
    """Return the entry points of a package as in the metadata of an installed package."""
    section = pyproject.partition('[project.entry-points."formats.codecs"]\n')[2].partition("\n[")[0]
    return f"[formats.codecs]\n{section}".replace('"', "")


@pytest.fixture
def installed(tmp_path: Path, python: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that runs Python where the package is installed."""
    site = tmp_path / "site"
    shutil.copytree(SOURCE / "formats_safetensors", site / "formats_safetensors")
    metadata = site / "onnx_formats_safetensors-0.1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: onnx-formats-safetensors\nVersion: 0.1.0\n")
    (metadata / "entry_points.txt").write_text(entry_points((SOURCE / "pyproject.toml").read_text()))

    def run(*arguments: Any) -> Any:
        code = f"import sys; sys.path.append({str(site)!r}); "
        return python("-c", code + arguments[0], *arguments[1:])

    return run


def test_the_command_has_it(installed: Callable[..., Any], digits: Path, tmp_path: Path) -> None:
    """`--help-all` lists the format and its options; its files can be converted, inspected, verified and compared."""
    shown = installed(CONVERT, "--help-all").stdout
    assert ", safetensors." in " ".join(shown.split())
    assert "--buffer-alignment SIZE" in shown
    assert "Options for .safetensors:" in shown
    arguments = (
        "digits.onnx",
        "a.safetensors",
        "--note",
        "author=me",
        "--buffer-alignment",
        "4K",
        "--size-threshold",
        "0",
    )
    assert (0, "") == ((done := installed(CONVERT, *arguments)).returncode, done.stderr)
    seen = json.loads(installed(FORMATS, "inspect", "a.safetensors", "--json").stdout)
    assert "safetensors" == seen["format"]
    assert 4096 == min(entry["file_offset"] for entry in seen["tensors"])
    assert "safetensors, " in installed(FORMATS, "inspect", "a.safetensors").stdout
    assert 0 == installed(FORMATS, "verify", "a.safetensors", "--data").returncode
    assert 0 == installed(FORMATS, "diff", "a.safetensors", "digits.onnx").returncode
    assert 0 == installed(FORMATS, "inspect", "a.safetensors", "--picture", "a.svg").returncode
    assert 0 == installed(CONVERT, "a.safetensors", "b.onnx", "-q").returncode
    assert digits.read_bytes() == (tmp_path / "b.onnx").read_bytes()


@pytest.mark.sample(5)
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("a.onnx", "--note", "a=b"), "--note cannot be used for ONNX protobuf"),
        (("a.safetensors", "--dedup"), "--dedup cannot be used for safetensors with a graph"),
        (("a.safetensors", "--buffer-alignment", "5"), "--buffer-alignment"),
        (("a.safetensors", "--note", "a"), "--note"),
    ],
)
def test_its_options_are_checked(
    installed: Callable[..., Any], digits: Path, tmp_path: Path, arguments: tuple[str, ...], words: str
) -> None:
    """Options of the format that have no effect or a wrong value are usage errors, and nothing is written."""
    done = installed(CONVERT, "digits.onnx", *arguments)
    assert 2 == done.returncode
    assert words in done.stderr
    assert not [*tmp_path.glob("a.*")]


def test_the_library_has_it(installed: Callable[..., Any], digits: Path) -> None:
    """Its options are keywords, or one object of the package's own class."""
    code = (
        "import formats; from formats_safetensors import SafetensorsOptions\n"
        "report = formats.convert('digits.onnx', 'a.safetensors', note={'author': 'me'}, size_threshold='2K')\n"
        "print(report.target_format)\n"
        "formats.convert('a.safetensors', 'b.safetensors', options=SafetensorsOptions(size_threshold=0))\n"
        "print(formats.load('b.safetensors') == formats.load('digits.onnx'))\n"
        "try: formats.convert('a.safetensors', 'c.safetensors', notes={})\n"
        "except TypeError as error: print(error)\n"
    )
    done = installed(code)
    assert "" == done.stderr
    first, second, third = done.stdout.splitlines()
    assert ("safetensors", "True") == (first, second)
    assert "did you mean `note`?" in third


def test_nobody_pays_for_it(installed: Callable[..., Any], digits: Path) -> None:
    """Conversions between built-in formats do not import it, and its entry point imports no large package."""
    code = "import formats; formats.convert('digits.onnx', 'a.onnxz'); print('formats_safetensors' in sys.modules)"
    assert "False\n" == installed(code).stdout
    code = (
        "from formats.codecs import lookup as registry; registry.by_name('safetensors'); print('numpy' in sys.modules)"
    )
    assert "False\n" == installed(code).stdout
