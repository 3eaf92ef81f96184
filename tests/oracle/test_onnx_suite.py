"""The tests of `onnx` itself pass with our message classes, and with our `load` and `save`.

The wheel of version 1.23.2 does not contain them: pip downloads the source distribution. Part of its 2,357 tests
(without the backend tests, which `test_backend_suite.py` has), a part that takes seconds, runs here. A single test
fails with our classes, and also without them: test_conv of reference_evaluator_test.py, for which onnxruntime requires
a bias of another shape.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import onnx
import pytest

pytestmark = pytest.mark.outer

MODULES = (  # those about messages, and the fast ones that use messages
    *("helper", "numpy_helper", "serialization", "external_data", "basic", "checker", "compose", "function"),
    *("inliner", "model_container", "parser", "printer", "tools", "training_tool", "utils", "version_converter"),
)


LEAST_PASSED = 830  # in these modules, in 1.23.2

# Tests of `onnx` that fail with our functions: they require the policy of `onnx` for links, which is not ours.
OTHER_POLICY = {
    # Here, a link in place of a data file is replaced, not refused; its target stays unchanged either way.
    "external_data_test.py::TestSaveExternalDataSymlinkProtection::test_save_rejects_symlink_target",
    # Here, a data file with two names is read, unless `hard_links=False`: package installers make such files.
    "external_data_test.py::TestLoadExternalDataHardlinkProtection::test_load_rejects_hardlinked_external_data",
}


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the tests of the installed version, from the package or from its sources."""
    installed = Path(onnx.__file__).parent / "test"
    if (installed / "external_data_test.py").exists():
        return installed
    folder = tmp_path_factory.mktemp("onnx")
    options = ["--quiet", "--no-deps", "--no-binary", "onnx", "--dest", str(folder)]
    command = [sys.executable, "-m", "pip", "download", *options, f"onnx=={onnx.__version__}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"needs the sources of onnx, which pip cannot download: {done.stderr.strip()[-200:]}")
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as sources:
        sources.extractall(folder, [member for member in sources if "/tests/python/" in member.name])
    (helper_test,) = folder.rglob("helper_test.py")
    return helper_test.parent


@pytest.mark.parametrize(
    ("plugin", "failing"),
    [("swapped_onnx", set()), ("installed_in_onnx", OTHER_POLICY)],
    ids=["classes", "functions"],
)
def test_the_suite_passes(suite: Path, plugin: str, failing: set[str]) -> None:
    """With our classes, every test about messages passes; with our functions, all but two about another policy."""
    files = [f"{module}_test.py" for module in MODULES]
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "--color=no",
        "-p",
        plugin,
        "-p",
        "no:cacheprovider",
        "-W",
        "ignore",
    ]
    path = os.pathsep.join(map(str, (Path(__file__).parent, Path(__file__).parents[2])))
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(
        [*command, "-rfE", "--tb=short", *files],
        capture_output=True,
        text=True,
        cwd=suite,
        env=environment,
        check=False,
    )
    found = set(re.findall(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE))
    passed = re.search(r"(\d+) passed", done.stdout)
    assert failing == found, done.stdout[-5000:]
    assert done.returncode == bool(failing)
    assert passed
    assert LEAST_PASSED - len(failing) <= int(passed[1])
