"""The rows of onnxruntime's releases are what the releases themselves read."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import onnx
import onnxruntime
import pytest

import formats
from formats.codecs.onnxruntime_releases import (
    NEWEST,
    RELEASES,
    first_with_kernel,
    lacking,
    lacks,
    reading,
    type_rows,
)
from formats.ir import ONNX
from formats.onnxpb.operator_sets import signature_of
from formats.onnxpb.value_types import TypeUse, type_uses
from tests.rten.historical import historical_cases
from tests.systems import NIGHT, PATIENCE_SECONDS

# Releases with different rows, of which each Python has wheels.
WHEELS = {
    (3, 10): ("1.16.3", "1.18.1", "1.23.2"),
    (3, 11): ("1.16.3", "1.18.1", "1.24.4"),
    (3, 12): ("1.17.3", "1.18.1", "1.24.4"),
    (3, 13): ("1.20.1", "1.22.1", "1.24.4"),
}
ASKED = WHEELS.get(sys.version_info[:2], ())[: None if NIGHT else 1]
NUMPY = "numpy<2"  # which releases before 1.19 need
SHARED = Path(__file__).parents[3] / "shared" / "models"
# The largest numbers with which a session of a model with one Sqrt can be made, and which of some models it loads.
PROGRAM = """
import json, sys
import onnxruntime
onnxruntime.set_default_logger_severity(4)
def number(n):
    return bytes([n & 127 | 128]) + number(n >> 7) if n > 127 else bytes([n])
def text(field, data): return number(field << 3 | 2) + number(len(data)) + data
def whole(field, n): return number(field << 3) + number(n)
def info(name): return text(1, name) + text(2, text(1, whole(1, 1) + text(2, text(1, whole(1, 1)))))
def loads(model):
    try:
        onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    except Exception as error:
        return str(error)
    return ""
def reads(ir_version, **sets):
    node = text(1, b"x") + text(2, b"y") + text(4, b"Sqrt")
    graph = text(1, node) + text(2, b"g") + text(11, info(b"x")) + text(12, info(b"y"))
    imports = {"": 11, **{name.replace("_", "."): version for name, version in sets.items()}}
    model = whole(1, ir_version) + text(7, graph)
    return not loads(model + b"".join(text(8, text(1, name.encode()) + whole(2, n)) for name, n in imports.items()))
print(json.dumps({
    "row": [
        max(n for n in range(4, 20) if reads(n)),
        max(n for n in range(8, 40) if reads(4, **{"": n})),
        max(n for n in range(1, 12) if reads(4, ai_onnx_ml=n)),
    ],
    "errors": {path: loads(path) for path in sys.argv[1:]},
}))
"""


def asked(python: list[str], environment: dict[str, str], *models: Path) -> dict[str, object]:
    """Return what a release of onnxruntime reads, and its errors for some models."""
    done = subprocess.run(
        [*python, "-c", PROGRAM, *map(str, models)],
        capture_output=True,
        text=True,
        env=os.environ | environment,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, object] = json.loads(done.stdout)
    return found


def test_rows_only_grow() -> None:
    """Each release reads what those before it read; a release that the list lacks would be an error of the tests."""
    rows = list(RELEASES.values())
    for first, second in pairwise(rows):
        assert all(a <= b for a, b in zip(first, second, strict=True))
    assert list(RELEASES)[-1] == NEWEST
    assert reading(10, {"": 21, "ai.onnx.ml": 3, "com.microsoft": 1}) == tuple(RELEASES)[list(RELEASES).index("1.18") :]
    assert reading(99, {}) == ()


def test_the_page_has_the_rows() -> None:
    """The table of the page on versions has the row of each release."""
    page = (Path(__file__).parents[2] / "docs" / "versions.md").read_text(encoding="utf-8")
    table = page.partition("<!-- table: releases -->")[2].partition("<!-- end -->")[0]
    found = {}
    names = list(RELEASES)
    for line in table.strip().splitlines()[2:]:
        releases, *row = (cell.strip() for cell in line.strip("|").split("|"))
        first, _, last = releases.partition(" to ")
        span = names[names.index(first) : names.index(last) + 1] if last else releases.split(", ")
        found |= dict.fromkeys(span, tuple(map(int, row)))
    assert found == RELEASES


def test_the_installed_release_is_as_its_row() -> None:
    """The release of onnxruntime that is installed here reads what its row says."""
    release = ".".join(onnxruntime.__version__.split(".")[:2])
    if release not in RELEASES:
        pytest.skip(f"needs onnxruntime {release}, which the list of packages does not have")
    assert asked([sys.executable], {})["row"] == list(RELEASES[release])


def test_the_rows_of_types_are_of_types_that_operators_may_have() -> None:
    """Each row has a version of an operator, a type that its definition allows, and releases in their order."""
    count = 0
    for (name, parameter, kind), by_set in type_rows().items():
        for version, (since, first) in by_set.items():
            signature = signature_of(ONNX, name, version)
            assert signature is not None
            assert kind in signature.sets[parameter], (name, version, parameter)
            assert lacks(since, first)
            count += 1
    assert count > 1000
    assert lacking(TypeUse("Add", 14, "T", "tensor(int8)"), 17) == ("1.8", "1.21")
    assert lacking(TypeUse("Softmax", 13, "T", "tensor(float16)"), 17) is None
    assert lacking(TypeUse("Softmax", 13, "T", "tensor(float16)"), 18) == ("1.8", "1.17")
    assert lacking(TypeUse("Conv", 11, "T", "tensor(double)"), 17) == ("1.8", None)


@pytest.mark.outer
def test_kernels_are_as_the_rows_say() -> None:
    """The installed release runs those versions of operators for which the rows know a kernel or a function.

    A version is run if a session can be made of one of its models, whatever its types are; a type that one has is run.
    """
    release = ".".join(onnxruntime.__version__.split(".")[:2])
    if release not in RELEASES or onnx.defs.onnx_opset_version() < 28:
        pytest.skip("needs a release that the list has, and the newest models")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    loaded: dict[tuple[str, int], bool] = {}
    untrue: list[TypeUse] = []
    for case in historical_cases():
        version = case.version
        if version.since > RELEASES[release].opset:
            continue
        proto = onnx.load_from_string(case.model)
        proto.opset_import[0].version = min(version.last, RELEASES[release].opset)
        try:
            onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
        except Exception:
            loaded.setdefault((version.op_type, version.since), False)
        else:
            loaded[version.op_type, version.since] = True
            uses = type_uses(formats.from_onnx(proto))
            rows = {use: lacking(use, proto.opset_import[0].version) for use in uses}
            untrue += [use for use, row in rows.items() if row is not None and lacks(release, row[1])]
    wrong = {
        (name, since): runs
        for (name, since), runs in loaded.items()
        if runs == lacks(release, first_with_kernel(name, since))
    }
    assert wrong == {}
    assert untrue == []
    assert len(loaded) > 500


@pytest.fixture(scope="session")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Folders with old releases of onnxruntime, each with the numpy that it needs."""
    folder = Path(os.environ.get("FORMATS_ONNXRUNTIMES") or tmp_path_factory.mktemp("onnxruntimes"))
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--disable-pip-version-check"]
    for release in ASKED:
        wanted = [f"onnxruntime=={release}", *([NUMPY] if release < "1.19" else [])]
        subprocess.run([*command, "--target", folder / release, *wanted], check=True, timeout=PATIENCE_SECONDS)
    return {release: folder / release for release in ASKED}


@pytest.mark.outer
@pytest.mark.parametrize("release", ASKED)
def test_releases_load_what_is_written_for_them(release: str, places: dict[str, Path], tmp_path: Path) -> None:
    """A release reads what its row says, and loads each of the shared models that was written for it."""
    written = {}
    for path in sorted(SHARED.glob("*.onnx")):
        new = tmp_path / path.name
        try:
            formats.convert(path, new, runtime=f"onnxruntime=={release}")
        except formats.UnsupportedError as error:
            written[path.stem] = str(error)
        else:
            written[path.stem] = ""
    models = [tmp_path / f"{name}.onnx" for name, error in written.items() if not error]
    found = asked([sys.executable], {"PYTHONPATH": str(places[release])}, *models)
    assert found["row"] == list(RELEASES[".".join(release.split(".")[:2])])
    errors = found["errors"]
    assert isinstance(errors, dict)
    assert {path: error for path, error in errors.items() if error} == {}
