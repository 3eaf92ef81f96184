"""The modules that `import formats` and the command load, and the names of the package."""

from __future__ import annotations

import ast
import importlib
import inspect
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import formats

Python = Callable[..., subprocess.CompletedProcess[str]]
HEAVY = (
    "numpy",
    "ml_dtypes",
    "onnx",
    "google.protobuf",
    "flatbuffers",
    "rich",
    "pydantic",
    "isal",
    "importlib.metadata",
)
LOADED = f"print(*(name for name in {HEAVY} if name in sys.modules and name not in before))"


def loaded(python: Python, code: str, *arguments: str) -> list[str]:
    """Return the large modules that are loaded after running `code` with `arguments`."""
    begin = "import sys, typer; before = set(sys.modules)"  # old releases of typer import rich
    done = python("-c", f"{begin}\n{code}\n{LOADED}", *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1].split()


def run_main(python: Python, *arguments: str, command: str = "convert") -> list[str]:
    """Return the large modules that are loaded after the command ran in this process."""
    code = f"from formats.cli import {command}\ntry:\n    {command}()\nexcept SystemExit: pass\nprint()"
    return loaded(python, code, *arguments)


def test_import_loads_nothing_of_the_package_but_itself(python: Python) -> None:
    """`import formats` imports no other module of the package."""
    done = python("-c", "import formats, sys; print(*(name for name in sys.modules if name.startswith('formats')))")
    assert ["formats"] == done.stdout.split()


def test_import_loads_nothing_heavy(python: Python) -> None:
    """`import formats` imports neither numpy nor any other slow module."""
    assert [] == loaded(python, "import formats")


@pytest.mark.sample(5)
@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(["--version"], id="version"),
        pytest.param(["missing.onnx", "a.rten"], id="missing source"),
        pytest.param(["digits.onnx"], id="usage error"),
        pytest.param(["digits.onnx", "a.onnx", "--threads", "1"], id="onnx to onnx"),
    ],
)
def test_command_loads_nothing_heavy(python: Python, digits: Path, arguments: list[str]) -> None:
    """Errors and conversions between ONNX files start without numpy, rich, pydantic and the like."""
    assert [] == run_main(python, *arguments)


@pytest.mark.parametrize("command", ["convert", "formats"])
def test_help_loads_little(python: Python, command: str) -> None:
    """Help looks for formats of other packages, and needs no other slow module than those that typer imports."""
    modules = run_main(python, "--help", command=command)
    assert {"importlib.metadata"} >= {*modules}


@pytest.mark.parametrize("arguments", [["inspect", "digits.onnx"], ["verify", "digits.onnx"]])
def test_tools_load_nothing_heavy(python: Python, digits: Path, arguments: list[str]) -> None:
    """Verbs that do not read weights start without numpy, rich, pydantic and the like."""
    assert [] == run_main(python, *arguments, command="formats")


def test_archive_loads_no_numpy(python: Python, digits: Path) -> None:
    """A conversion to an archive needs a fast checksum, but no numpy."""
    assert {"isal"} >= set(run_main(python, "digits.onnx", "a.onnxz"))


def test_rten_loads_no_numpy(python: Python, digits: Path) -> None:
    """A conversion to RTen in which no element changes its type needs no numpy."""
    assert [] == run_main(python, "digits.onnx", "a.rten")


@pytest.mark.sample(5)
@pytest.mark.parametrize("target", ["a.onnx", "a.onnxz", "a.rten"])
def test_onnx_and_protobuf_are_never_loaded(python: Python, digits: Path, target: str) -> None:
    """No conversion imports `onnx` or protobuf."""
    assert not {"onnx", "google.protobuf"} & set(run_main(python, "digits.onnx", target))


def test_every_public_name_is_there() -> None:
    """Each name that `dir` lists is an attribute, listed once."""
    assert len(set(dir(formats))) == len(dir(formats))
    for name in dir(formats):
        assert getattr(formats, name) is not None


def test_editors_see_every_public_name() -> None:
    """The names in the stub, which type checkers and editors read, are exactly the public ones."""
    tree = ast.parse(Path(formats.__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    shown = {alias.name: node.module for node in imports for alias in node.names}
    assert {*dir(formats)} == {*shown, "__version__"}
    for name, module in shown.items():
        assert getattr(importlib.import_module(module or ""), name) is getattr(formats, name)


def test_a_name_loads_its_module_alone(python: Python) -> None:
    """Using a public name imports only the module that defines it, and what that module needs."""
    code = "import formats, sys; formats.OptionError; print(*sorted(n for n in sys.modules if n.startswith('formats')))"
    assert ["formats", "formats.errors"] == python("-c", code).stdout.split()
    code = "import formats, sys; formats.files; print('formats.bridges.to_others' in sys.modules)"
    assert "False\n" == python("-c", code).stdout


def test_public_names_do_not_collide_with_modules(python: Python) -> None:
    """A public name keeps its value if all modules of the package were imported before it is used."""
    code = (
        "import formats, importlib, pkgutil\n"
        "[importlib.import_module(m.name) for m in pkgutil.walk_packages(formats.__path__, 'formats.')"
        " if m.name != 'formats.__main__']\n"
        "print(len(dir(formats)), *(n for n in dir(formats) if isinstance(getattr(formats, n), type(formats))))"
    )
    assert [str(len(dir(formats)))] == python("-c", code).stdout.split()


def test_unknown_name_is_an_attribute_error() -> None:
    """A name that is not public is an AttributeError, as in every module."""
    with pytest.raises(AttributeError, match="'formats' has no attribute 'nothing'"):
        _ = formats.nothing


def test_help_of_the_package_is_one_screen_that_names_the_functions(capsys: pytest.CaptureFixture[str]) -> None:
    """`help(formats)` names every function in fewer than 80 lines of at most 100 letters."""
    help(formats)
    text = capsys.readouterr().out
    lines = text.splitlines()
    assert len(lines) < 80
    assert max(map(len, lines)) <= 100
    functions = {name for name in dir(formats) if inspect.isfunction(getattr(formats, name))}
    assert functions - {*re.findall(r"\w+", text)} == set()


def test_root_classes_of_the_ir_are_public() -> None:
    """Every message class of a model is a public name, except three whose names are also in `typing`."""
    from formats.ir.model import MESSAGE_CLASSES

    assert {message.__name__ for message in MESSAGE_CLASSES} - {*dir(formats)} == {"Sequence", "Map", "Optional"}


@pytest.mark.parametrize("target", ["a.onnxz", "a.rten", "a.ort", "a.json"])
def test_a_package_in_a_zip_file_works(tmp_path: Path, digits: Path, target: str) -> None:
    """Python can import the package from a zip file, as clusters send it, and then it finds its schemas there."""
    package = Path(formats.__file__).parent
    packed = shutil.make_archive(str(tmp_path / "packed"), "zip", package.parent, package.name)
    code = "import sys, formats\nprint(formats.__file__)\nformats.convert(*sys.argv[1:])\n"
    done = subprocess.run(
        [sys.executable, "-c", code, digits, tmp_path / target],
        env={**os.environ, "PYTHONPATH": packed},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(packed)
    assert formats.verify(tmp_path / target).ok
