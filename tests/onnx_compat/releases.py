"""Runs the tests that a release of `onnx` brings with it over our classes, for `.ci/versions`.

    python tests/onnx_compat/releases.py FOLDER

They run three times: as they are, after `formats.onnxpb.install()`, and with `formats.onnxpb` in their imports. What
fails only over our classes, and is not in `ON_PURPOSE`, is printed, and then the exit code is 1. The release and the
packages that its tests use are installed. From 1.23 on, the tests are only in the sources, which pip downloads.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
from importlib.metadata import packages_distributions, version
from pathlib import Path

import onnx

TESTS = (
    "basic checker compose cpp2py_export function function_inference helper inliner model_container model_inference "
    "numpy_helper parser printer reference_evaluator_model relu serialization symbolic_shape test_external_data "
    "external_data tools training_tool utils version_utils"
)
PACKAGE = packages_distributions()["onnx"][0]  # or the weekly build
VERSION = version(PACKAGE)
WAYS = ("as it is", "installed", "imported")
# What differs on purpose, as patterns of the names of tests.
ON_PURPOSE = (
    r"test_to_array_from_array_\d+_(FLOAT4E2M1|FLOAT6E\dM\d|FLOAT8E8M0|U?INT[26])$",  # our classes know newer types
    r"test_save_external_invalid_single_file_data",  # `save` refuses the place before the checker does
    r"imported tools_test.*test_replace_",  # `onnx.tools` makes messages of `onnx`
    r"test_save_rejects_symlink_target|test_load_rejects_hardlinked",  # docs/library.md says how
    # Our errors, and no warnings.
    r"imported (test_)?external_data.*(key_rejected|keys_all_rejected|negative_|exceeds_)",
)
INSTALLING = "import formats.onnxpb\n\nformats.onnxpb.install()\n"


def over_ours(text: str) -> str:
    """A program that imports `formats.onnxpb` in place of `onnx`."""
    text = re.sub(r"^(\s*)import onnx$", r"\1import formats.onnxpb as onnx", text, flags=re.M)
    text = re.sub(r"^(\s*)import onnx\.([\w.]+) as", r"\1import formats.onnxpb.\2 as", text, flags=re.M)
    both = r"\1import formats.onnxpb as onnx\n\1import formats.onnxpb.\2"
    text = re.sub(r"^(\s*)import onnx\.([\w.]+)$", both, text, flags=re.M)
    return re.sub(r"^(\s*)from onnx(?=[. ])", r"\1from formats.onnxpb", text, flags=re.M)


def tests_of_release(folder: Path) -> Path:
    """The folder with the tests of the release that is installed, or of its sources, which pip downloads."""
    installed = Path(onnx.__file__).parent / "test"
    if installed.exists():
        return installed
    options = ["--quiet", "--no-deps", "--no-binary", PACKAGE, "--dest", str(folder)]
    subprocess.run([sys.executable, "-m", "pip", "download", *options, f"{PACKAGE}=={VERSION}"], check=True)
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as sources:
        sources.extractall(folder, [member for member in sources if "/tests/python/" in member.name])
    return next(folder.rglob("helper_test.py")).parent


def failing(tests: Path, folder: Path, way: str) -> set[str]:
    """The tests that fail in one of the ways, which run in a folder of their own."""
    folder.mkdir(parents=True)
    for name in TESTS.split():
        path = tests / (f"{name}.py" if name.startswith("test_") else f"{name}_test.py")
        if path.exists():
            text = path.read_text()
            (folder / path.name).write_text(over_ours(text) if way == "imported" else text)
    (folder / "conftest.py").write_text(INSTALLING if way == "installed" else "")
    command = [sys.executable, "-m", "pytest", "-q", "-rfE", "-p", "no:cacheprovider", "-W", "ignore"]
    command += ["--continue-on-collection-errors", "-c", "/dev/null", "--rootdir", str(folder), str(folder)]
    lines = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False).stdout.splitlines()
    summary = next(line for line in reversed(lines) if re.search(r"\d+ passed", line))
    print(f"{PACKAGE} {VERSION}, {way}: {summary}", flush=True)
    return {line.split(" - ")[0].split(" ", 1)[1] for line in lines if line.startswith(("FAILED ", "ERROR "))}


def main() -> None:
    """Run all ways, and print what differs."""
    folder = Path(sys.argv[1]).resolve()
    tests = tests_of_release(folder / "sources")
    as_it_is, *ours = (failing(tests, folder / way.replace(" ", "-"), way) for way in WAYS)
    found = [f"{way} {name}" for way, names in zip(WAYS[1:], ours, strict=True) for name in sorted(names - as_it_is)]
    unknown = [name for name in found if not any(re.search(pattern, name) for pattern in ON_PURPOSE)]
    print(f"{len(found)} differ, {len(found) - len(unknown)} of them on purpose")
    if unknown:
        sys.exit("\n".join(unknown))


if __name__ == "__main__":
    main()
