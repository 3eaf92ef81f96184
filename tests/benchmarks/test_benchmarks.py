"""The benchmark works: models are as described, commands run, and figures are computed correctly."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import documents
import models
import onnx
import pytest
import report
import run
import small_commands
import work
from cases import CASES, KINDS_OF_WORK, LARGE_CASES, MIB, Case, Target, Way

import formats
from tests import commands

pytestmark = pytest.mark.outer

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
SCALE = 1 / 1024  # a large weight, or 40 nodes
ALL = (*CASES, *LARGE_CASES)
READABLE = sorted({case.model_of(way) for case in ALL for way in case.ways} | {"small.rten", "small.external"})
READABLE = [name for name in READABLE if not name.endswith(".safetensors")]


def ways(*programs: str) -> list[tuple[Case, Way]]:
    """Return all ways whose command is one of `programs`, each with its case."""
    return [(case, way) for case in ALL for way in case.ways if way.command[0] in programs]


def name_of(value: Case | Way) -> str:
    """Return the id of a parameter."""
    return value.name if isinstance(value, Case) else value.tool


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the models, each of which is made once."""
    return tmp_path_factory.mktemp("models")


@pytest.mark.parametrize("name", READABLE)
def test_models_are_what_they_are_called(name: str, directory: Path) -> None:
    """A model is well formed and canonical, and has the number of nodes or weights in its name."""
    path = models.make(name, directory, SCALE)
    kind, _, rest = name.partition("-")
    graph = formats.load(path).graph
    assert graph is not None
    if rest:
        counted = {
            "nodes": lambda: len(graph.node),
            "trees": lambda: len(graph.node[0].attribute[0].ints),
            "forest": lambda: len(graph.node[0].attribute[0].ints),
            "torchscript": lambda: len([node for node in graph.node if node.op_type == "Softmax"]),
            "dynamo": lambda: len([node for node in graph.node if node.op_type == "Softmax"]),
            "typed": lambda: graph.initializer[0].dims[0],
            "unpacked": lambda: graph.initializer[0].dims[0],
        }
        count = counted.get(kind, lambda: len(graph.initializer))()
        assert max(1, round(int(rest.partition(".")[0]) * SCALE)) == count
    if path.suffix == ".onnx":
        onnx.checker.check_model(path, full_check=True)
    if name.endswith(".onnx") and rest and kind != "unpacked":
        assert onnx.load(path).SerializeToString(deterministic=True) == path.read_bytes()


@pytest.mark.parametrize(("case", "way"), ways("work"), ids=name_of)
def test_functions_work(case: Case, way: Way, directory: Path, tmp_path: Path) -> None:
    """Every function of work.py works with its library, and its output can be read."""
    path, small = (models.make(name, directory, SCALE) for name in (case.model_of(way), "small.onnx"))
    _, function, library, _, _, _, options = way.command
    task = work.Task(library, str(path), tmp_path, str(small))
    assert work.seconds_of(getattr(work, function)(task, **json.loads(options))) > 0
    if function in ("resave", "save_changed"):
        (written,) = tmp_path.glob("m.onnx*")
        before, after = formats.load(path).graph, formats.load(written).graph
        assert before is not None
        assert after is not None
        names = [f"{node.name}.changed" if function == "save_changed" else node.name for node in before.node]
        assert names == [node.name for node in after.node]
        assert [tensor.numpy().tobytes() for tensor in before.initializer] == [
            tensor.numpy().tobytes() for tensor in after.initializer
        ]
    if function == "copy_pieces" and json.loads(options)["how"] not in ("read", "write"):
        assert path.read_bytes() == (tmp_path / "copy").read_bytes()
    writes = function.startswith(("resave", "save", "zip", "convert", "copy", "diff", "to_"))
    assert bool(list(tmp_path.iterdir())) == (writes and not json.loads(options).get("dry_run"))


@pytest.mark.parametrize(("case", "way"), ways("convert"), ids=name_of)
def test_commands_work(case: Case, way: Way, directory: Path, tmp_path: Path) -> None:
    """Every command of ours is valid, and writes a model."""
    places = {"{model}": str(models.make(case.model_of(way), directory, SCALE)), "{out}": str(tmp_path)}
    command = [re.sub(r"\{\w+\}", lambda found: places[found[0]], argument) for argument in way.command]
    assert 0 == commands.run("convert", *command[1:]).exit_code
    (written,) = [path for suffix in (".onnx", ".onnxz", ".rten") for path in tmp_path.glob(f"m{suffix}")]
    assert formats.load(written).graph is not None


OTHERS = {way.command: (case, way) for case, way in ways("cp", "zip", "rten-convert", "python")}


@pytest.mark.parametrize(("case", "way"), [*OTHERS.values()], ids=name_of)
def test_commands_of_others_work(case: Case, way: Way, directory: Path, tmp_path: Path) -> None:
    """Every command of another tool works, and is measured."""
    path = models.make(case.model_of(way), directory, SCALE)
    account = run.run_command(way, run.Files(path, path), tmp_path)
    assert 0 < account.work_seconds == account.whole_seconds
    assert account.peak_bytes > MIB


def test_script_measures_and_draws(tmp_path: Path) -> None:
    """The script prints a row for every tool, and again the same from its JSON; the plot has every case."""
    figures, plot = tmp_path / "figures.json", tmp_path / "plot.svg"
    command = [sys.executable, str(BENCHMARKS / "run.py"), "start-up", "2.5-*-load", "--large", "--rounds=1"]
    command += [f"--scale={SCALE}", f"--json={figures}", f"--plot={plot}", f"--directory={tmp_path}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=run.ENVIRONMENT)
    assert (0, "") == (done.returncode, done.stderr)
    rows = json.loads(figures.read_text())["rows"]
    assert ["import numpy", "formats", "rten-convert", "onnx", "formats"] == [row["tool"] for row in rows]
    assert all(row["failure"] is None and row["peak_bytes"] > 5 * MIB for row in rows)
    assert all(0 < row["least_work_seconds"] <= row["work_seconds"] <= row["whole_seconds"] for row in rows)
    assert [0, 2, 0, 0, 0] == [len(row["verdicts"]) for row in rows]
    again = [sys.executable, str(BENCHMARKS / "report.py"), str(figures)]
    assert done.stdout == subprocess.run(again, capture_output=True, text=True, check=True).stdout
    texts = "".join(ElementTree.parse(plot).getroot().itertext())
    assert all(row["title"] in texts for row in rows)
    assert {figures, plot} == set(tmp_path.iterdir())


@pytest.mark.parametrize("path", documents.TABLES, ids=lambda path: path.name)
def test_tables_are_those_of_the_results(path: Path) -> None:
    """The tables in a document are those that results.json gives."""
    text = path.read_text(encoding="utf-8")
    tables = [table(documents.results()) for table in documents.TABLES[path]]
    assert documents.current(text, tables) == text


def test_plot_is_that_of_the_results() -> None:
    """The plot was made from the rows of results.json, and shows the eight cases that people ask for."""
    rows = documents.plotted(documents.results())
    assert {case for case, _, _ in documents.CHOSEN} == {row.case for row in rows}
    text = "".join(ElementTree.parse(documents.PLOT).getroot().itertext())
    assert documents.digest(rows) in text, "run python benchmarks/documents.py"
    shown = {row.title for row in rows if not row.ours}
    assert not [title for title in shown if title not in text]
    assert not [kind for kind, cases in KINDS_OF_WORK.items() if kind not in text and {c.title for c in cases} & shown]


def test_results_are_of_known_cases_and_tools() -> None:
    """Each row of results.json has the name and the title of a case, and the name of one of its tools."""
    known = {(case.name, case.title, way.tool, way.ours) for case in ALL for way in case.ways}
    assert documents.results()
    assert not [row for row in documents.results() if (row.case, row.title, row.tool, row.ours) not in known]


def rows(*runs: tuple[Way, list[report.Run] | str]) -> list[report.Row]:
    """Return the rows of a case for the runs of each tool, or for its failure."""
    case = Case("case", "Case", "small.onnx", tuple(way for way, _ in runs))
    done = {way.tool: [] if isinstance(found, str) else found for way, found in runs}
    return report.rows_of(case, done, {way.tool: found for way, found in runs if isinstance(found, str)})


def test_figures_are_medians_and_targets_are_judged() -> None:
    """Times are medians, memory is the maximum of all runs, and a target shows by how much it is met or missed."""
    targets = (Target("work", 1.3, "cp"), Target("whole", 1 / 8, "onnx"), Target("peak", 120 * MIB))
    ours = Way("formats", ("convert",), targets)
    cp, formats_, onnx_ = rows(
        (Way("cp", ("cp",)), [report.Run(1, 1, MIB)]),
        (ours, [report.Run(whole, whole - 0.5, peak * MIB) for whole, peak in ((9, 1), (2, 100), (1, 121))]),
        (Way("onnx", ("work",)), [report.Run(20, 19, MIB)]),
    )
    assert (2, 1.5, 0.5, 1.5, 121 * MIB) == formats_[5:10]
    assert [(1.5, False), (10, True), (121, False)] == [verdict[1:] for verdict in formats_.verdicts]
    assert (
        "work ≤ 1.3 x cp: 1.5 ✗; whole ≥ 8 x faster than onnx: 10 ✓; peak ≤ 120 MiB: 121 ✗"
        in report.lines([formats_])[0]
    )
    assert (1, 19) == (cp.ratio, onnx_.ratio)


def test_failures_are_told() -> None:
    """A tool that fails has its message as a row, and a target that needs it is undecided."""
    ours = Way("formats", ("convert",), (Target("whole", 0.5, "onnx"),))
    failed, row = rows((Way("onnx", ("work",)), "too large"), (ours, [report.Run(1, 1, 1)]))
    assert ["| Case | onnx | | | | | | failed: too large |"] == [
        re.sub(r" +", " ", line) for line in report.lines([failed])
    ]
    assert (None, (None, None)) == (row.ratio, row.verdicts[0][1:])
    with pytest.raises(run.RunError, match=r"^ValueError: no$"):
        run.run(["python", "-c", "raise ValueError('no')"])
    with pytest.raises(run.RunError, match=r"no-such-program is not installed"):
        run.run(["no-such-program"])


def test_the_fleet_is_measured() -> None:
    """The benchmark of many models converts them in each way, checks the manifest, and prints a row for each way."""
    arguments = ["--small", "3", "--large", "2", "--scale", "0.01", "--processes", "1", "2"]
    done = subprocess.run(
        [sys.executable, BENCHMARKS / "fleet.py", *arguments], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    rows = [line.split("|")[1:-1] for line in done.stdout.splitlines()[2:]]
    assert [row[1].strip() for row in rows] == ["1 process", "2 processes"] * 5
    assert {row[0].strip().rpartition(" to ")[2] for row in rows} == {".rten", ".onnxz", ".onnx"}


def test_small_commands_are_measured() -> None:
    """The benchmark of small commands prints a row for each process, whose parts make its whole time."""
    done = subprocess.run(
        [sys.executable, BENCHMARKS / "small_commands.py", "--rounds", "1"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    _, _, *rows = [line.split("|")[1:-1] for line in done.stdout.splitlines()]
    assert len(rows) == 1 + len(small_commands.PACKAGES) + len(small_commands.COMMANDS)
    for row in rows:
        whole, *parts = [int(cell.partition("ms")[0].strip() or 0) for cell in row[1:-1]]
        assert sum(parts) + len(parts) >= whole > 0


def test_figures_go_between_their_marks() -> None:
    """Tables take the places of those before, also of none; a page with another number of places is refused."""
    page = "a\n<!-- figures; benchmarks/run.py writes them -->\n\n{}<!-- end -->\nb\n<!-- end -->\n"
    assert documents.current(page.format(""), ["new\n"], "run.py") == page.format("new\n\n")
    assert documents.current(page.format("old\n\n"), ["new\n"], "run.py") == page.format("new\n\n")
    with pytest.raises(ValueError, match="zip"):
        documents.current(page, ["one", "two"], "run.py")


def test_neighbours_are_measured() -> None:
    """The benchmark of neighbours prints a row with the times alone and beside other models for each verb."""
    arguments = ["inspect", "mv of an archive", "--count", "2", "--batch", "2", "--rounds", "1", "--scale", "0.01"]
    done = subprocess.run(
        [sys.executable, BENCHMARKS / "neighbours.py", *arguments], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    rows = [line.split("|")[1:-1] for line in done.stdout.splitlines()]
    assert ["`inspect`", "`mv of an archive`"] == [row[0].strip() for row in rows[2:4]]
    assert 2 == sum(row[0].strip().startswith("`batch") for row in rows)
    assert all(float(row[-1]) > 0 for row in rows[2:4])
