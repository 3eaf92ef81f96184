"""Models stay complete whatever call fails and wherever a process is killed; `shim.c` makes the calls fail."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from scenarios import MORE, SCENARIOS, UNSYNCED, Scenario

HERE = Path(__file__).parent


ONLY_RENAMES = "repair of several files"  # it writes no data, so the disk cannot become full
EVERYTHING = bool(os.environ.get("FORMATS_ALL_FAULTS"))


@pytest.fixture(scope="session")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compile the library that is preloaded."""
    compiler = shutil.which("cc")
    if sys.platform != "linux":
        pytest.skip("only Linux has the calls that fail")
    if compiler is None:
        pytest.skip("needs cc, a C compiler")
    library = tmp_path_factory.mktemp("shim") / "shim.so"
    source = HERE / "shim.c"
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-Wall", "-o", library, source, "-ldl"], check=True)
    return library


def run(program: str, shim: Path, folder: Path, *scenarios: Scenario) -> dict[str, Any]:
    """Run a program with the shim preloaded on these scenarios, and return what it prints."""
    (folder / "nothing").mkdir()
    paths = (str(HERE.parents[1]), str(HERE))
    done = subprocess.run(
        [sys.executable, HERE / program, shim, folder / "box", *(scenario.name for scenario in scenarios)],
        env={**os.environ, "LD_PRELOAD": str(shim), "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    print(result["counts"])
    return result


@pytest.mark.parametrize("scenario", [*SCENARIOS, *(MORE if EVERYTHING else [])], ids=lambda scenario: scenario.name)
def test_every_call_fails_once(scenario: Scenario, shim: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever call is killed, fails, is cut short, is interrupted or lacks space, a model is in a promised state."""
    faults = ["kill", "error"] if scenario.name == ONLY_RENAMES else ["kill", "error", "full"]
    if EVERYTHING or scenario.name in ("new m.onnxz", "update"):
        faults += ["short", "interrupt", "quota"]
    monkeypatch.setenv("FORMATS_FAULTS", " ".join(faults))
    result = run("driver.py", shim, tmp_path, scenario)
    assert [] == result["broken"]
    assert sorted(faults) == sorted(result["counts"])
    assert result["counts"]["kill"] > 5


SYSTEMS = ["no locks", "no links", "clock stands", "one case", "linked folder"]
OTHER_SYSTEMS = ["replaced m.onnx external_data max_external_file_size", "update", "moved away"]
RACES = ["new m.onnxz", "replaced m.onnx external_data", "update", "repair of several files", "moved over another"]
IN_PLACE = ["update", "repair of an update", "repair of several files"]


def named(names: list[str]) -> list[Scenario]:
    """Return these scenarios, and all others that move or replace something if everything is tried."""
    return [scenario for scenario in SCENARIOS if scenario.name in names or EVERYTHING]


@pytest.mark.parametrize(
    ("system", "scenario"),
    [
        pytest.param(system, scenario, id=f"{system}, {scenario.name}")
        for system in SYSTEMS
        for scenario in named(OTHER_SYSTEMS)
        # Without links, a killed process may leave an empty file in a new place, as docs/security.md says.
        if system != "no links" or scenario.replaces or scenario.name in OTHER_SYSTEMS
    ],
)
def test_other_systems(
    scenario: Scenario, system: str, shim: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kills, errors and a full disk break no promise if the system lacks locks or links, or its clock stands still."""
    monkeypatch.setenv("FORMATS_FAULTS", "kill error full" if EVERYTHING and scenario.name != ONLY_RENAMES else "kill")
    monkeypatch.setenv("FORMATS_SYSTEM", system)
    result = run("driver.py", shim, tmp_path, scenario)
    assert [] == result["broken"]
    assert result["counts"]["kill"] > 5


@pytest.mark.parametrize("system", ["usual", "no locks", "no locks for one"] if EVERYTHING else ["usual"])
@pytest.mark.parametrize("scenario", named(RACES), ids=lambda scenario: scenario.name)
def test_a_second_process_at_every_call(
    scenario: Scenario, system: str, shim: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If another process does the same at any call of the first one, a model is in a promised state."""
    monkeypatch.setenv("FORMATS_FAULTS", "race")
    monkeypatch.setenv("FORMATS_SYSTEM", system)
    result = run("driver.py", shim, tmp_path, scenario)
    assert [] == result["broken"]
    assert result["counts"]["race"] >= 5


@pytest.mark.parametrize("scenario", [s for s in SCENARIOS if s.name in IN_PLACE], ids=lambda scenario: scenario.name)
def test_a_swap_at_every_call(scenario: Scenario, shim: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If another process puts a link in the place of a model that is changed in place, no file elsewhere changes."""
    monkeypatch.setenv("FORMATS_FAULTS", "swap")
    result = run("driver.py", shim, tmp_path, scenario)
    assert [] == result["broken"]
    assert result["counts"]["swap"] > 5


def test_power_cuts(shim: Path, tmp_path: Path) -> None:
    """Whichever unsynced changes a power cut keeps, a model is old, new or absent, as promised."""
    scenarios = [scenario for scenario in [*SCENARIOS, *(MORE if EVERYTHING else [])] if scenario is not UNSYNCED]
    result = run("power_cuts.py", shim, tmp_path, *scenarios)
    assert [] == result["broken"]
    assert result["counts"].keys() == {scenario.name for scenario in scenarios}


def test_power_cuts_are_imagined_well(shim: Path, tmp_path: Path) -> None:
    """Without syncing, the same simulated power cuts damage a model."""
    result = run("power_cuts.py", shim, tmp_path, UNSYNCED)
    assert any("found" in problem for problem in result["broken"])
