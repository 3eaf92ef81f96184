"""Tests of commands with several sources: which files they mean, what they print, and how they end."""

from __future__ import annotations

import io
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from glob import glob
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import formats
from formats.batch.job_list import matching
from formats.onnxpb.external import other_graphs
from formats.tensordata.replacing import hidden
from tests import commands
from tests.batch.fleets import environment, save
from tests.systems import PATIENCE_SECONDS, posix, without_rights


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with models in it, in a subfolder and below that."""
    monkeypatch.chdir(tmp_path)
    for number, name in enumerate(("a", "b", "models/c", "models/in/a", "models/in/d.v2")):
        path = Path(f"{name}.onnx")
        path.parent.mkdir(exist_ok=True, parents=True)
        save(path, number)
    return tmp_path


def tree(folder: str) -> list[str]:
    """Return everything below a folder, including hidden files and folders."""
    return sorted(path.relative_to(folder).as_posix() for path in Path(folder).rglob("*"))


def run(*arguments: str) -> commands.Done:
    """Run the command with these arguments."""
    return commands.run("formats", *arguments)


@pytest.mark.parametrize("place", ["out", "out/", "made/"])
def test_files_go_into_a_folder(folder: Path, place: str) -> None:
    """Several sources, or one source and a folder, are converted into the folder, which is created if it is missing."""
    Path("out").mkdir()
    done = run("convert", "a.onnx", "b.onnx", place, "--to", "onnxz")
    assert (done.exit_code, done.stderr) == (0, "")
    assert tree(place) == ["a.onnxz", "b.onnxz"]
    assert done.stdout.splitlines()[-1].startswith("2 converted  ")
    assert len(done.stdout.splitlines()) == 3
    assert formats.diff("a.onnx", f"{place}/a.onnxz").equal
    assert run("convert", "models/c.onnx", place, "--to", "rten").exit_code == 0
    assert "c.rten" in tree(place)


@pytest.mark.parametrize("verb", [("convert", "models", "out"), ("batch", "models/", "--out", "out")])
def test_folders_keep_their_folders(folder: Path, verb: tuple[str, ...]) -> None:
    """All models below a folder are converted, each in the same folder below the destination."""
    for name in ("config.json", "notes.txt", ".hidden.onnx", "c.onnx.data"):
        Path("models", name).write_bytes(b"no model")
    Path("models/.cache").mkdir()
    save(Path("models/.cache/x.onnx"))
    assert run(*verb, "--to", "onnxz", "-j", "2").exit_code == 0
    assert tree("out") == ["c.onnxz", "in", "in/a.onnxz", "in/d.v2.onnxz"]


def test_text_is_taken_on_request(folder: Path) -> None:
    """Files with an ambiguous extension are converted from a folder only if the format is named."""
    Path("texts").mkdir()
    formats.convert("a.onnx", "texts/a.json")
    save(Path("texts/b.onnx"))
    assert run("convert", "texts", "out", "--to", "rten", "--from", "json").exit_code == 0
    assert tree("out") == ["a.rten"]


def test_a_folder_can_be_converted_into_itself(folder: Path) -> None:
    """Converted files are placed next to their sources; in a second run they are in the way, but are not sources."""
    assert run("convert", "models", "models", "--to", "onnxz").exit_code == 0
    expected = ["c.onnx", "c.onnxz", "in", "in/a.onnx", "in/a.onnxz", "in/d.v2.onnx", "in/d.v2.onnxz"]
    assert tree("models") == expected
    assert run("convert", "models", "models", "--to", "onnxz").exit_code == 1
    assert run("convert", "models", "models", "--to", "onnxz", "--force").exit_code == 0
    assert run("convert", "models", "models/rten", "--to", "rten", "--from", "onnx").exit_code == 0
    assert run("convert", "models", "models/rten", "--to", "rten", "--from", "onnx", "--force").exit_code == 0
    assert tree("models/rten") == ["c.rten", "in", "in/a.rten", "in/d.v2.rten"]


def test_one_failure_does_not_stop_the_others(folder: Path) -> None:
    """If some files fail, the exit code is 1, stderr has a line for each, and no empty folder is left."""
    Path("models/in/a.onnx").write_bytes(b"no model")
    Path("models/in/d.v2.onnx").unlink()
    done = run("convert", "models", "a.onnx", "missing.onnx", "out", "--to", "onnxz", "-j", "1")
    assert done.exit_code == 1
    errors = done.stderr.splitlines()
    assert [line.partition(": ")[2].partition(":")[0] for line in errors] == ["models/in/a.onnx", "missing.onnx"]
    assert done.stdout.splitlines()[-1].startswith("2 converted, 2 failed  ")
    assert tree("out") == ["a.onnxz", "c.onnxz"]
    assert run("convert", "missing.onnx", "no.onnx", "none/", "--to", "onnxz").exit_code == 1
    assert not Path("none").exists()


def test_a_place_that_cannot_be_made_is_an_error(folder: Path) -> None:
    """A destination folder is created only in an existing folder, and never replaces a file."""
    for place in ("no/such/", "a.onnx/"):
        done = run("convert", "b.onnx", "models", place, "--to", "rten")
        assert done.exit_code == 1
        assert done.stderr.count("\n") == 1
    assert not Path("no").exists()


def test_parents_are_made_on_request(folder: Path) -> None:
    """With `--parents`, the folders above the destination are created, and removed again if nothing was written."""
    assert "--parents makes it" in run("convert", "a.onnx", "b.onnx", "x/y/", "--to", "onnxz").stderr
    assert run("convert", "a.onnx", "b.onnx", "x/y/", "--to", "onnxz", "--parents").exit_code == 0
    assert tree("x") == ["y", "y/a.onnxz", "y/b.onnxz"]
    assert run("convert", "missing.onnx", "no.onnx", "p/q/", "--to", "onnxz", "--parents").exit_code == 1
    assert run("convert", "a.onnx", "p/q/a.onnxz").exit_code == 1
    assert run("convert", "missing.onnx", "p/q/a.onnxz", "--parents").exit_code == 1
    assert run("convert", "a.onnx", "p/q/a.rten", "--strict", "--exact", "--pin", "x=int8", "--parents").exit_code == 2
    assert run("convert", "a.onnx", "b.onnx/q/a.onnx", "--parents").exit_code == 1
    assert not Path("p").exists()
    assert run("convert", "a.onnx", "p/q/a.onnx", "--parents", "--external-data").exit_code == 0
    assert tree("p") == ["q", "q/a.onnx", "q/a.onnx.data"]


def test_a_model_after_external_data_is_a_source(folder: Path) -> None:
    """`--external-data b.onnx` between sources means the usual data file, and b.onnx is a source."""
    assert run("convert", "a.onnx", "--external-data", "b.onnx", "out/", "--to", "onnx").exit_code == 0
    assert tree("out") == ["a.onnx", "a.onnx.data", "b.onnx", "b.onnx.data"]
    assert run("convert", "a.onnx", "one.onnx", "--external-data", "w.bin").exit_code == 0
    assert Path("w.bin").exists()


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("models/*.onnx", ["c.onnxz"]),
        ("models/**/*.onnx", ["c.onnxz", "in", "in/a.onnxz", "in/d.v2.onnxz"]),
        ("mod*/in/[ad]*.onnx", ["models", "models/in", "models/in/a.onnxz", "models/in/d.v2.onnxz"]),
        ("mod*", ["models", "models/c.onnxz", "models/in", "models/in/a.onnxz", "models/in/d.v2.onnxz"]),
    ],
)
def test_patterns_are_placed_from_their_first_open_folder(folder: Path, pattern: str, expected: list[str]) -> None:
    """The outputs for a pattern keep the folders from the first one that the pattern leaves open."""
    assert run("batch", pattern, "--out", "out", "--to", "onnxz").exit_code == 0
    assert tree("out") == expected


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs links and pipes")
@pytest.mark.parametrize("source", ["models", "models/**/*", "models/**/*.onnx", "models/*/*.onnx", "models/**"])
def test_links_and_pipes_in_folders_are_no_models(folder: Path, source: str) -> None:
    """Links that lead back, loops of links, pipes and sockets neither stop a batch nor make a model twice."""
    Path("models/back").symlink_to("..")
    Path("models/again").symlink_to(".")
    Path("models/in/up").symlink_to("../in")
    Path("models/loop").symlink_to("loop")
    os.mkfifo("models/in/pipe.onnx")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("models/in/socket.onnx")
        Path("models/in/none.onnx").symlink_to("nothing")
        done = run("batch", source, "--out", "out", "--to", "onnxz")
    outputs = [name.rpartition("/")[2] for name in tree("out") if name.endswith(".onnxz")]
    if source == "models/*/*.onnx":  # one star follows the links that it matches, as shells do
        assert sorted(outputs) == ["a.onnxz", "a.onnxz", "b.onnxz", "c.onnxz", "d.v2.onnxz"]
    else:
        assert sorted(outputs) == ["a.onnxz", "c.onnxz", "d.v2.onnxz"]
    assert "none.onnx" in done.stderr


def test_patterns_match_as_those_of_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In random folders without links, patterns match what `glob` of Python finds."""
    pick = random.Random(1)
    patterns = "* *.onnx ** **/*.onnx a/**/*.onnx */*.onnx **/a/* .* **/.* [ab]/?.onnx ./**/m.onnx */ **/ a/../* [!a]/*"
    for number in range(20):
        monkeypatch.chdir(tmp_path)
        Path(f"{number}").mkdir()
        monkeypatch.chdir(tmp_path / f"{number}")
        folders = [Path()]
        for _ in range(12):
            path = pick.choice(folders) / pick.choice(["a", "b", ".h", "c[1]", "d.onnx", "m.onnx", ".x.onnx"])
            if not path.exists():
                if pick.random() < 0.5:
                    path.mkdir()
                    folders.append(path)
                else:
                    path.touch()
        for pattern in (*patterns.split(), f"{tmp_path}/{number}/**/*.onnx"):
            expected = {os.path.normpath(name) for name in glob(pattern, recursive=True)} - {"."}
            assert {os.path.normpath(name) for name in matching(pattern)} == expected, pattern


def test_a_pattern_that_fits_nothing_is_told(folder: Path) -> None:
    """A pattern without a match is an error of its own; a file whose name looks like a pattern is just that file."""
    save(Path("x[1].onnx"))
    done = run("batch", "nothing*.onnx", "x[1].onnx", "--out", "out", "--to", "onnxz")
    assert (done.exit_code, tree("out")) == (1, ["x[1].onnxz"])
    assert "nothing*.onnx" in done.stderr


def test_a_list_names_files(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each line of a list is a path; a relative path keeps its folders, and - is stdin."""
    Path("list").write_text(f"models/in/a.onnx\n\na.onnx\r\n{folder}/b.onnx\nmodels/../models/c.onnx")
    assert run("batch", "--list", "list", "--out", "out", "--to", "onnxz").exit_code == 0
    assert tree("out") == ["a.onnxz", "b.onnxz", "c.onnxz", "models", "models/in", "models/in/a.onnxz"]
    monkeypatch.setattr(sys, "stdin", io.StringIO("a.onnx\n"))
    assert run("batch", "b.onnx", "--list", "-", "--out", "two", "--to", "onnxz").exit_code == 0
    assert tree("two") == ["a.onnxz", "b.onnxz"]
    assert run("batch", "--list", "no such", "--out", "two", "--to", "onnxz").exit_code == 1
    for text in ("a\0b", "a.onnx\n.", "/", "a.onnx/../.."):
        Path("list").write_text(text)
        assert run("batch", "--list", "list", "--out", "two", "--to", "onnxz").exit_code == 2 - (".." in text)


@posix
def test_a_list_names_no_pipe(folder: Path) -> None:
    """A pipe in a list, from which nothing ever comes, is told at once, before a model is converted."""
    os.mkfifo("pipe.onnx")
    Path("list").write_text("a.onnx\npipe.onnx\n")
    done = run("batch", "--list", "list", "--out", "out", "--to", "onnxz")
    assert done.exit_code == 2
    assert done.stderr.splitlines()[0] == "formats: error: --list names 'pipe.onnx', which is a pipe; name files"
    assert not Path("out").exists()


def test_json_has_all_jobs(folder: Path) -> None:
    """The report has the reports of all jobs, their errors, and totals; its keys are those of a single conversion."""
    Path("b.onnx").write_bytes(b"no model")
    done = run("convert", "a.onnx", "b.onnx", "out/", "--to", "onnxz", "--json")
    assert done.exit_code == 1
    found = json.loads(done.stdout)
    assert [(job["source"], job["state"]) for job in found["jobs"]] == [("a.onnx", "converted"), ("b.onnx", "failed")]
    assert [found[state] for state in ("converted", "unchanged", "failed", "skipped")] == [1, 0, 1, 0]
    one = json.loads(run("convert", "a.onnx", "one.onnxz", "--json").stdout)
    assert found["jobs"][0]["report"].keys() == one.keys()
    assert found["nbytes"] == one["nbytes"]
    assert found["jobs"][1]["error"]["path"] == "b.onnx"
    assert "--from" in found["jobs"][1]["error"]["message"]


@pytest.mark.outer
@pytest.mark.skipif(os.name == "nt", reason="Windows has other signals")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_all_processes(folder: Path, number: int) -> None:
    """An interrupted batch ends at once with the signal's exit code, and leaves nothing half written."""
    Path("large").mkdir()
    os.mkfifo("waits.onnx")  # nobody writes into it, so the batch cannot end before the signal
    for seed in range(8):
        array = np.random.default_rng(seed).standard_normal(1_500_000).astype("float32")
        graph = formats.Graph(name="g", initializer=[formats.from_numpy(array, "w")])
        formats.save(formats.Model(8, [formats.OperatorSetId("", 17)], graph=graph), f"large/{seed}.onnx")
    sources = ["large", "waits.onnx"]
    command = [sys.executable, "-m", "formats", "batch", *sources, "--out", "out", "--to", "onnxz", "-q", "--jobs", "2"]
    with subprocess.Popen([*command, "--manifest", "runs.jsonl"], env=environment(), stderr=subprocess.PIPE) as running:
        end = time.monotonic() + PATIENCE_SECONDS
        while not (Path("out").is_dir() and tree("out")) and time.monotonic() < end:
            time.sleep(0.005)
        running.send_signal(number)
        assert running.stderr is not None
        text = running.stderr.read().decode()
        assert running.wait(PATIENCE_SECONDS) == 128 + number, text
    assert "stopped by" in text
    assert "Traceback" not in text
    assert not [name for name in tree("out") if name.startswith(".")]
    for path in Path("out").iterdir():
        assert formats.verify(path, data=True).ok
    done = run("batch", "large", "--out", "out", "--to", "onnxz", "--manifest", "runs.jsonl")
    assert (done.exit_code, done.stderr) == (0, "")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_stopped_batch_says_so_at_once(folder: Path, jobs: str) -> None:
    """After Ctrl+C, the first line on stderr comes at once, and says how many models are done and how many are left."""
    os.mkfifo("waits.onnx")  # nobody writes into it
    sources = ["models/c.onnx", "waits.onnx", "models/in/a.onnx"]
    command = [sys.executable, "-m", "formats", "batch", *sources, "--out", "out", "--to", "onnxz", "--jobs", jobs]
    command += ["--manifest", "runs.jsonl"]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=environment(), start_new_session=True, **pipes) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        done, then = 0, "; the same command converts the rest"
        for _ in range(1 if jobs == "1" else 2):
            done += running.stdout.readline().startswith("models/")
        started = time.monotonic()
        os.killpg(running.pid, signal.SIGINT)  # as a terminal does
        first = running.stderr.readline()
        assert time.monotonic() - started < 30
        assert first == f"stopping after {done} of 3 models; {3 - done} {'is' if done == 2 else 'are'} left{then}\n"
        assert running.wait(PATIENCE_SECONDS) == 128 + signal.SIGINT
        assert "stopped by SIGINT" in running.stderr.read()


@pytest.mark.parametrize("flags", [[], ["--all-data"]])
@pytest.mark.parametrize(
    "names", [("a", "b"), ("a", "b", "c"), ("c", "b", "a"), ("a", "a"), ("a", "none", "b", "c"), ("b", "c", "whole")]
)
def test_a_dry_run_of_several_removals_is_that_of_all(
    names: tuple[str, ...], flags: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`rm --dry-run` of several models says what `rm` of all does: also which shared files go with the last model."""
    sources = [tmp_path / "sources" / f"{name}.onnx" for name in ("a", "b", "c")]
    for seed, source in enumerate(sources):
        weights = [formats.from_numpy(np.full(2048, number, "float32"), f"w{number}") for number in (7, 8, seed)]
        model = formats.Model(ir_version=8, graph=formats.Graph(name="g", initializer=weights))
        formats.save(model, source, parents=True)
    for place in ("foreseen", "real"):
        formats.share(sources, tmp_path / place)
        formats.convert(sources[0], tmp_path / place / "whole.onnx", external_data="a.onnx.more.data")
    told = {}
    for place, dry in (("foreseen", ["--dry-run"]), ("real", [])):
        monkeypatch.chdir(tmp_path / place)
        before = {*os.listdir()}
        paths = [f"{name}.onnx" for name in names]
        done = commands.run("formats", "rm", *paths, *flags, *dry)
        removed = {line.removeprefix("would remove ") for line in done.stdout.splitlines() if line[:6] == "would "}
        gone = removed if dry else before - {*os.listdir()}
        notes = [line for line in done.stdout.splitlines() if line.startswith("note: ")]
        told[place] = (
            done.exit_code,
            done.stderr,
            gone,
            notes,
            done.stdout.splitlines()[-1].replace("to remove", "removed"),
        )
        assert {*os.listdir()} == (before if dry else before - gone)
        assert not any(note.split()[1] in gone for note in notes)
    assert told["foreseen"] == told["real"]


@pytest.mark.parametrize(("verb", "most"), [("verify", 1), ("repair", 1), ("rm", 0)])
def test_not_each_model_searches_its_folder(
    tmp_path: Path, verb: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of many models in a folder, at most one lists it to find what a killed process may have left."""
    paths = [save(tmp_path / f"m{number}.onnx", number) for number in range(5)]
    (tmp_path / ".m0.onnx.journal").mkdir()
    listings: list[Path] = []

    def counted(folder: Path) -> hidden.Hidden:
        listings.append(folder)
        return list_folder(folder)

    list_folder = hidden._list
    monkeypatch.setattr(hidden, "_list", counted)
    done = run(verb, *map(str, paths[1:]))
    assert (done.exit_code, len(listings)) == (0, most), done.output
    assert done.output.count(".m0.onnx.journal") == most


def test_repair_of_a_folder_removes_what_was_left_of_each(tmp_path: Path) -> None:
    """`repair` of a folder, which lists it once, removes what a killed process left of each model in it."""
    paths = [save(tmp_path / f"m{number}.onnx", number) for number in range(4)]
    left = [hidden.temporary_path(path) for path in paths[::2] for _ in range(2)]
    for path in left:
        path.write_bytes(b"part of a model")
    assert run("repair", str(tmp_path)).exit_code == 0
    assert sorted(paths) == sorted(tmp_path.iterdir())
    assert run("repair", str(tmp_path)).exit_code == 0


def test_rm_of_several_knows_what_it_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`rm` of several models that share data removes it with the last, although it lists their folder once."""
    monkeypatch.setattr(other_graphs, "LISTING_PART", 1e-9)
    weights = [formats.from_numpy(np.full(2048, 7, "float32"), "w")]
    model = formats.Model(ir_version=8, graph=formats.Graph(name="g", initializer=weights))
    formats.save(model, tmp_path / "b.onnx", external_data=True)
    (tmp_path / "a.onnx").write_bytes((tmp_path / "b.onnx").read_bytes())
    done = commands.run("formats", "rm", tmp_path / "a.onnx", tmp_path / "b.onnx")
    assert (done.exit_code, [*tmp_path.iterdir()]) == (0, [])


CLOSED, INNER = (f"error: models/{name}: is a folder that cannot be read: Permission denied" for name in ("b", "a/in"))
LISTED_ONLY = "error: models/c/x.onnx: Permission denied"
INTO = "--out out --to onnxz --jobs 1"
UNREADABLE = {
    "files models": {CLOSED, INNER, LISTED_ONLY},
    "inspect models": {CLOSED, INNER, LISTED_ONLY},
    "repair models": {f"error: models/{name}: Permission denied" for name in ("b", "a/in", "c/x.onnx")},
    "inspect z.onnx models/*/*.onnx": {CLOSED, LISTED_ONLY},
    "inspect z.onnx models/*/x.onnx": {"error: models/b/x.onnx: Permission denied", LISTED_ONLY},
    "files z.onnx models/**": {CLOSED, INNER, LISTED_ONLY},
    "files models/c/x.onnx models/a": {INNER, LISTED_ONLY},
    f"batch models {INTO}": {CLOSED, INNER, LISTED_ONLY},
    f"batch models/* {INTO}": {CLOSED, INNER, LISTED_ONLY},
    f"batch models/*/*.onnx {INTO}": {CLOSED, LISTED_ONLY},
    f"batch models/*/*/*.onnx {INTO}": {CLOSED, INNER, LISTED_ONLY},
    f"batch models/**/*.onnx {INTO}": {CLOSED, INNER, LISTED_ONLY},
    f"batch --list list.txt {INTO}": {"error: models/b/x.onnx: Permission denied", LISTED_ONLY},
    "rm z.onnx models/b/x.onnx models/b": {"error: models/b/x.onnx: Permission denied", CLOSED},
}


@posix
@pytest.mark.parametrize("line", UNREADABLE)
def test_what_may_not_be_read_is_told(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that may not be listed or entered is one line, however it is met; the other models are not disturbed."""
    monkeypatch.chdir(tmp_path)
    for place in ("z.onnx", "models/a/x.onnx", "models/a/in/x.onnx", "models/b/x.onnx", "models/c/x.onnx"):
        Path(place).parent.mkdir(exist_ok=True, parents=True)
        save(Path(place), 1)
        Path(place).chmod(0o644)
    Path("list.txt").write_text("models/b/x.onnx\nmodels/c/x.onnx\nmodels/a/x.onnx\n")
    run(*line.replace("rm", "files").replace("out", "before").split())  # it imports what another user may not read
    save(Path("z.onnx"), 1)
    closed = {"models/b": 0, "models/a/in": 0, "models/c": 0o444}
    modes = closed | {".": 0o777, "models/a": 0o777, "z.onnx": 0o644, "list.txt": 0o644}
    for name, mode in modes.items():
        Path(name).chmod(mode)
    try:
        with without_rights(tmp_path):
            done = run(*line.split())
    finally:
        for name in closed:
            Path(name).chmod(0o755)
    assert done.exit_code == 1
    assert UNREADABLE[line] == {*done.stderr.splitlines()}
    assert f"{len(UNREADABLE[line])} failed" in done.stdout
    assert "rm" not in line or not Path("z.onnx").exists()
    assert " models " not in line or "models/a/x.onnx" in done.stdout
