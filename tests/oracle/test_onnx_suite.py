"""The tests of `onnx` itself pass with our message classes in place of the generated ones.

The tests are in the source distribution only, which pip downloads. Of those of version 1.23.2 (2,357, without the
backend tests, which `test_backend_suite.py` has) a part that takes seconds runs here. One of all fails with our
classes, and without them too: test_conv of reference_evaluator_test.py, for which onnxruntime wants a bias of another
shape.
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

MODULES = (  # those about messages, and the fast ones of those that work on them
    *("helper", "numpy_helper", "serialization", "external_data", "basic", "checker", "compose", "function"),
    *("inliner", "model_container", "parser", "printer", "tools", "training_tool", "utils", "version_converter"),
)


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the tests of the installed version."""
    folder = tmp_path_factory.mktemp("onnx")
    options = ["--quiet", "--no-deps", "--no-binary", "onnx", "--dest", str(folder)]
    command = [sys.executable, "-m", "pip", "download", *options, f"onnx=={onnx.__version__}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"pip cannot download the sources of onnx: {done.stderr.strip()[-200:]}")
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as sources:
        sources.extractall(folder, [member for member in sources if "/tests/python/" in member.name])
    (helper_test,) = folder.rglob("helper_test.py")
    return helper_test.parent


def test_the_suite_passes_with_our_classes(suite: Path) -> None:
    """Every test about messages passes, and there are as many as there should be."""
    files = [f"{module}_test.py" for module in MODULES]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "swapped_onnx", "-p", "no:cacheprovider", "-W", "ignore"]
    path = os.pathsep.join(map(str, (Path(__file__).parent, Path(__file__).parents[2])))
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run([*command, *files], capture_output=True, text=True, cwd=suite, env=environment, check=False)
    passed = re.search(r"(\d+) passed", done.stdout)
    assert 0 == done.returncode, done.stdout[-5000:]
    assert passed
    assert int(passed[1]) > 800
