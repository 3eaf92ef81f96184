"""Models stay complete whatever call fails and wherever a process is killed; `shim.c` makes the calls fail."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

import onnx
import pytest

import formats
from formats.errors import FormatError
from formats.tensordata import engine
from formats.tensordata.replacing import journal, lock, publication
from formats.tensordata.replacing.journal import journal_path
from tests.faults.scenarios import (
    MORE,
    SCENARIOS,
    SPLIT,
    UNSYNCED,
    Killed,
    Scenario,
    hidden_files,
    killed,
    model,
    update,
    write,
)
from tests.routes import ROUTES
from tests.systems import NIGHT

HERE = Path(__file__).parent


ONLY_RENAMES = "repair of several files"  # it writes no data, so the disk cannot become full


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


def run(program: str, shim: Path, folder: Path, *scenarios: Scenario | str) -> dict[str, Any]:
    """Run a program with the shim preloaded on these scenarios, and return what it prints."""
    (folder / "nothing").mkdir()
    paths = (str(HERE.parents[1]), str(HERE))
    names = (scenario if isinstance(scenario, str) else scenario.name for scenario in scenarios)
    done = subprocess.run(
        [sys.executable, HERE / program, shim, folder / "box", *names],
        env={**os.environ, "LD_PRELOAD": str(shim), "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    print(result["counts"])
    return result


@pytest.mark.parametrize("scenario", [*SCENARIOS, *(MORE if NIGHT else [])], ids=lambda scenario: scenario.name)
def test_every_call_fails_once(scenario: Scenario, shim: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever call is killed, fails, is cut short, is interrupted or lacks space, a model is in a promised state."""
    faults = ["kill", "error"] if scenario.name == ONLY_RENAMES else ["kill", "error", "full"]
    if NIGHT or scenario.name in ("new m.onnxz", "update"):
        faults += ["short", "interrupt", "quota"]
    monkeypatch.setenv("FORMATS_FAULTS", " ".join(faults))
    result = run("driver.py", shim, tmp_path, scenario)
    assert [] == result["broken"]
    assert sorted(faults) == sorted(result["counts"])
    assert result["counts"]["kill"] > 5


ROUTES_BY_DAY = ("mv", "mv to another folder", "rm", "unpack over files", "data files replaced")  # all: half an hour


@pytest.mark.outer
@pytest.mark.parametrize("name", ROUTES if NIGHT else ROUTES_BY_DAY)
def test_every_route_survives_a_kill_at_every_call(
    name: str, shim: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever a command is killed, `onnx` and our reader find old or new models, and the same command completes it."""
    monkeypatch.setenv("FORMATS_FAULTS", "kill")
    result = run("every_route.py", shim, tmp_path, name)
    assert [] == result["broken"]
    assert (name == "completion") == (not result["counts"])


SYSTEMS = ["no locks", "no links", "clock stands", "one case", "linked folder"]
OTHER_SYSTEMS = ["replaced m.onnx external_data max_external_file_size", "update", "moved away"]
RACES = ["new m.onnxz", "replaced m.onnx external_data", "update", "repair of several files", "moved over another"]
IN_PLACE = ["update", "repair of an update", "repair of several files"]


def chosen(names: list[str]) -> list[Scenario]:
    """Return these scenarios, and all others that move or replace something if everything is tried."""
    return [scenario for scenario in SCENARIOS if scenario.name in names or NIGHT]


@pytest.mark.parametrize(
    ("system", "scenario"),
    [
        pytest.param(system, scenario, id=f"{system}, {scenario.name}")
        for system in SYSTEMS
        for scenario in chosen(OTHER_SYSTEMS)
        # Without links, a killed process may leave an empty file in a new place, as docs/security.md says.
        if system != "no links" or scenario.replaces or scenario.name in OTHER_SYSTEMS
    ],
)
def test_other_systems(
    scenario: Scenario, system: str, shim: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kills, errors and a full disk break no promise if the system lacks locks or links, or its clock stands still."""
    monkeypatch.setenv("FORMATS_FAULTS", "kill error full" if NIGHT and scenario.name != ONLY_RENAMES else "kill")
    monkeypatch.setenv("FORMATS_SYSTEM", system)
    result = run("driver.py", shim, tmp_path, scenario)
    assert [] == result["broken"]
    assert result["counts"]["kill"] > 5


@pytest.mark.parametrize("system", ["usual", "no locks", "no locks for one"] if NIGHT else ["usual"])
@pytest.mark.parametrize("scenario", chosen(RACES), ids=lambda scenario: scenario.name)
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


@pytest.mark.sample(3)
@pytest.mark.parametrize("verb", ["mv", "mv over another", "mv with a backup", "cp", "rm", "replaced with a backup"])
@pytest.mark.parametrize("moves", ["update", 0, 1, 2, 3])
def test_other_verbs_know_of_an_interrupted_write(moves: int | str, verb: str, tmp_path: Path) -> None:
    """Whatever comes after a write that was killed, a reader finds a whole model where it should be, and no other."""
    killed(update if moves == "update" else write("m.onnx", 2, "new", overwrite=True, **SPLIT), moves)(tmp_path)
    path = tmp_path / ("m.onnxz" if moves == "update" else "m.onnx")
    place, kept = (path.with_name(f"{stem}{path.suffix}") for stem in ("n", "n.bak"))
    if verb.startswith("mv "):
        formats.save(model("third", 3), place)
    if verb == "cp":
        seen = named(path)
        formats.cp(path, place)
        assert {seen} == {named(path), named(place)}
        return
    if verb == "rm":
        formats.rm(path)
    elif verb == "replaced with a backup":
        formats.save(model("third", 3), path, overwrite=True, backup=True, clean=True)
        assert ("third", "old" if moves == "update" else "new") == (
            named(path),
            named(path.with_name(f"m.bak{path.suffix}")),
        )
    else:
        formats.mv(path, place, overwrite="over" in verb or "backup" in verb, backup="backup" in verb)
        assert named(place) == ("old" if moves == "update" else "new")
        assert "backup" not in verb or named(kept) == "third"
    if verb != "replaced with a backup":
        assert named(path) == "nothing"
    assert [] == hidden_files(tmp_path)
    used = {file.path.name for each in tmp_path.glob("*.onnx*") for file in formats.files(each).files}
    assert used == {*os.listdir(tmp_path)}


def named(path: Path) -> str:
    """Return the name of the model that a reader finds, which is whole."""
    try:
        found = formats.load(path)
    except FileNotFoundError:
        return "nothing"
    assert formats.verify(path, data=True).ok
    return str(found.producer_name)


@pytest.mark.sample(3)
@pytest.mark.parametrize("moves", range(7))
@pytest.mark.parametrize("verb", ["save", "mv", "cp"])
def test_a_model_of_an_interrupted_sharing_can_be_replaced(tmp_path: Path, moves: int, verb: str) -> None:
    """A new write of one of several models that a killed process wrote together loses none of the others."""
    scenario = next(each for each in SCENARIOS if each.name == "replaced m.onnx shared with n.onnx")
    folder = tmp_path / "box"
    folder.mkdir()
    scenario.prepare(folder)
    with killing(moves):
        scenario.work(folder)
    formats.save(model("third", 3), tmp_path / "third.onnx")
    if verb == "save":
        formats.save(model("third", 3), folder / "m.onnx", overwrite=True)
    else:
        getattr(formats, verb)(tmp_path / "third.onnx", folder / "m.onnx", overwrite=True)
    assert ("third", "new") == (named(folder / "m.onnx"), named(folder / "n.onnx"))
    assert [] == hidden_files(folder)


@pytest.mark.sample(5)
@pytest.mark.parametrize("options", [{}, SPLIT], ids=["one file", "several files"])
@pytest.mark.parametrize("moves", [1, *(pytest.param(each, marks=pytest.mark.outer) for each in (0, 2, 3))])
def test_a_kill_while_the_next_process_works(
    tmp_path: Path, moves: int, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a process is killed while the next one begins, which is killed at any call, too, no model is lost."""
    for calls in range(100):
        folder = tmp_path / str(calls)
        folder.mkdir()
        killed(write("m.onnx", 2, "new", overwrite=True, **SPLIT), moves)(folder)
        monkeypatch.setattr(engine, "finish_interrupted", lambda *arguments, **settings: None)  # it was too early
        with killing(calls, "move_file", "unlink", "make_link") as left:
            formats.save(model("third", 3), folder / "m.onnx", overwrite=True, **options)
        monkeypatch.undo()
        formats.repair(folder / "m.onnx")
        assert named(folder / "m.onnx") in ("old", "new", "third")
        assert [] == hidden_files(folder)
        if left[0] > 0:
            assert named(folder / "m.onnx") == "third"
            return
    pytest.fail("there are more calls")


@pytest.mark.parametrize("has_links", [True, False])
@pytest.mark.parametrize("over_another", [False, True])
@pytest.mark.parametrize("comes_next", ["the same move", "a repair after a restart"])
def test_a_killed_move_in_a_folder(
    comes_next: str, over_another: bool, has_links: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever it is killed, `onnx` reads what it finds; the same move says that it is done, or repair helps.

    Also where a file cannot have two names, as on FAT.
    """
    if not has_links:
        monkeypatch.setattr(publication, "make_link", lambda *_: False)
    for calls in range(50):
        folder = tmp_path / str(calls)
        folder.mkdir()
        src, dst = folder / "s.onnx", folder / "m.onnx"
        formats.save(model("new", 2), src, **SPLIT)
        if over_another:
            formats.save(model("old", 1), dst, **SPLIT)
        with killing(calls, "move_file", "move_to_free", "unlink", "make_link", "_write_journal") as left:
            formats.mv(src, dst, overwrite=over_another)
        for path in (src, dst):
            assert not path.exists() or onnx.load(path).producer_name in ("new", "old")
        if left[0] > 0:
            assert calls > 4
            return
        assert "new" in (named(src), named(dst))
        if comes_next == "the same move":
            if src.exists() or journal_path(dst).exists():  # otherwise, it was complete
                assert formats.mv(src, dst, overwrite=over_another).destination == dst
            assert (named(src), onnx.load(dst).producer_name) == ("nothing", "new")
        with monkeypatch.context() as restarted:
            if comes_next != "the same move":
                restarted.setattr(journal, "boot", lambda: "another")
            for path in (src, dst):
                with suppress(FileNotFoundError):
                    formats.repair(path)
        assert (named(src), named(dst)) in (("new", "old" if over_another else "nothing"), ("nothing", "new"))
        assert all(path.stat().st_nlink == 1 for path in folder.iterdir())
        assert [] == hidden_files(folder)
    pytest.fail("there are more calls")


@pytest.mark.parametrize("name", ["s.onnx", "s-00001-of-00002.data"])
def test_a_killed_move_takes_no_file_that_came_meanwhile(name: str, tmp_path: Path) -> None:
    """If another program has written a file of the source anew, the move is not completed or undone over it."""
    formats.save(model("new", 2), tmp_path / "s.onnx", **SPLIT)
    with killing(2, "move_file", "make_link"):
        formats.mv(tmp_path / "s.onnx", tmp_path / "m.onnx")
    assert not (tmp_path / "s.onnx").exists()
    (tmp_path / name).write_bytes(b"precious")
    before = {path.name for path in tmp_path.iterdir()}
    with pytest.raises(FormatError, match=f"{name} has changed since the interrupted write"):
        formats.repair(tmp_path / "m.onnx")
    assert (tmp_path / name).read_bytes() == b"precious"
    assert before == {path.name for path in tmp_path.iterdir()}


@contextmanager
def killing(calls: int, *names: str) -> Iterator[list[int]]:
    """A context in which the process seems to be killed after this number of calls, of moves or of these functions."""
    left = [calls]

    def counted(real: Callable[..., object]) -> Callable[..., object]:
        def call(*arguments: object) -> object:
            if left[0] <= 0:
                raise Killed
            left[0] -= 1
            return real(*arguments)

        return call

    with suppress(Killed), ExitStack() as patches:
        for name in names or ("move_file",):
            patches.enter_context(patch.object(publication, name, counted(getattr(publication, name))))
        patches.enter_context(patch.object(publication, "_give_up", lambda steps, lock: lock.keep()))
        patches.enter_context(patch.object(lock, "_is_removed", lambda path: True))  # a killed process leaves the file
        yield left


KILLED_AT_CALL = """
import os, signal, sys
import formats
calls = [int(sys.argv[1])]
def count(event, arguments):
    if event in ("os.link", "os.rename", "os.remove", "os.mkdir", "os.rmdir"):
        if not calls[0]:
            os.kill(os.getpid(), signal.SIGKILL)
        calls[0] -= 1
sys.addaudithook(count)
src, dst = sys.argv[3:]
if sys.argv[2] == "mv":
    formats.mv(src, dst, parents=True)
else:
    formats.convert(src, dst, overwrite=True, backup=True, external_data=True, max_external_file_size=1200)
"""


@pytest.mark.outer
@pytest.mark.skipif(sys.platform == "win32", reason="Windows does not kill a process by a signal")
@pytest.mark.parametrize("place", ["sub/m.onnx", "n.onnx", "sub/n.onnx"])
def test_a_killed_move_is_completed_by_the_same_move(place: str, tmp_path: Path) -> None:
    """Wherever a move is killed, `onnx` reads the new model, or the same move completes it.

    To another folder, data files have two names meanwhile: no journal may name a file outside its folder.
    """
    for calls in range(50):
        folder = tmp_path / str(calls)
        folder.mkdir()
        src, dst = folder / "m.onnx", folder / place
        formats.save(model("moved", 1), src, **SPLIT)
        done = subprocess.run([sys.executable, "-c", KILLED_AT_CALL, str(calls), "mv", src, dst], check=False)
        try:
            formats.mv(src, dst, parents=True)
        except FileNotFoundError:
            pass  # it was complete
        onnx.load(dst)  # it reads no data file with two names
        assert len([*folder.rglob("*.data")]) == 2
        assert named(dst) == "moved"
        assert not src.exists()
        if done.returncode == 0:
            assert calls > 4
            return
    pytest.fail("there are more calls")


@pytest.mark.outer
@pytest.mark.skipif(sys.platform == "win32", reason="Windows does not kill a process by a signal")
def test_a_backup_is_the_model_before_the_first_try(tmp_path: Path) -> None:
    """Wherever a conversion with a backup is killed, the same one later keeps the old model; so does a second run."""
    for calls in range(100):
        folder = tmp_path / str(calls)
        folder.mkdir()
        src, dst = folder / "new.onnx", folder / "m.onnx"
        formats.save(model("new", 2), src)
        formats.save(model("old", 1), dst, **SPLIT)
        command = [sys.executable, "-c", KILLED_AT_CALL]
        done = subprocess.run([*command, str(calls), "convert", src, dst], check=False)
        for _ in range(2):
            subprocess.run([*command, "1000", "convert", src, dst], check=True)
            assert (named(dst), named(folder / "m.bak.onnx")) == ("new", "old"), calls
        if done.returncode == 0:
            assert calls > 4
            return
    pytest.fail("there are more calls")


@pytest.mark.outer
def test_a_crowd_of_processes() -> None:
    """Processes that work on one folder, and are killed and stopped, leave every model whole."""
    command = [sys.executable, HERE / "crowd.py", "--minutes", "0.3", "--seed", str(os.getpid())]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (0, "") == (done.returncode, done.stderr), done.stdout
    assert "'rounds': 2" in done.stdout


def test_power_cuts(shim: Path, tmp_path: Path) -> None:
    """Whichever unsynced changes a power cut keeps, a model is old, new or absent, as promised."""
    scenarios = [scenario for scenario in [*SCENARIOS, *(MORE if NIGHT else [])] if scenario is not UNSYNCED]
    result = run("power_cuts.py", shim, tmp_path, *scenarios)
    assert [] == result["broken"]
    assert result["counts"].keys() == {scenario.name for scenario in scenarios}


def test_power_cuts_are_imagined_well(shim: Path, tmp_path: Path) -> None:
    """Without syncing, the same simulated power cuts damage a model."""
    result = run("power_cuts.py", shim, tmp_path, UNSYNCED)
    assert any("found" in problem for problem in result["broken"])
