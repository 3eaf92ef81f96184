"""Tests of several files at once, `-q` and `--json` in every verb, `--nodes`, `--params`, and the terminal's width."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.cells import cell_len

import formats
from formats import (
    Dimension,
    Function,
    Graph,
    Model,
    Node,
    OperatorSetId,
    StringStringEntry,
    TensorShape,
    TensorType,
    Type,
    ValueInfo,
)
from formats.cli.columns import cells, shortened, table
from formats.cli.verbs import VERBS
from tests.commands import Done, run
from tests.pseudo_terminal import on_terminal

LONG = "encoder/" + "a very long name/" * 20 + "\N{CJK UNIFIED IDEOGRAPH-6A21}\N{CJK UNIFIED IDEOGRAPH-578B}" * 20
HOSTILE = "red \x1b[31m\n\u202e\x07 end"


def named(*names: str) -> Model:
    """Return a model with a weight of each name."""
    weights = [formats.from_numpy(np.ones(n + 300, "float32"), name) for n, name in enumerate(names)]
    nodes = [Node(name=f"node of {name}", op_type="Identity", input=[name], output=[f"{name}/o"]) for name in names]
    graph = Graph(name="g", node=nodes, initializer=weights)
    metadata = [StringStringEntry(key="labels", value="cat, dog, " * 40)]
    return Model(ir_version=8, opset_import=[OperatorSetId("", 17)], graph=graph, metadata_props=metadata)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder: two good models, a damaged one, and a file that is not a model."""
    monkeypatch.chdir(tmp_path)
    Path("models/in").mkdir(parents=True)
    formats.save(named("w"), "models/a.onnx", external_data=True)
    formats.save(named("w"), "models/in/b.onnxz")
    wrong = named("w")
    assert wrong.graph is not None
    wrong.graph.node[0].input = ["nothing"]
    formats.save(wrong, "models/c.onnx")
    Path("models/d.onnx").write_bytes(b"no model")
    return tmp_path


def formats_(*arguments: str | Path) -> Done:
    """Run `formats` with these arguments."""
    return run("formats", *arguments)


def test_several_files_are_inspected(folder: Path) -> None:
    """A file that cannot be read is reported and does not stop the others; then the exit code is 1."""
    done = formats_("inspect", "models")
    assert (1, "4 files: 3 read, 1 failed") == (done.exit_code, done.stdout.splitlines()[-1])
    first = [line.split()[0] for line in done.stdout.splitlines() if re.match(r"models\S+  onnx", line)]
    assert first == ["models/a.onnx", "models/c.onnx", "models/in/b.onnxz"]
    assert [line.startswith("error: models/d.onnx") for line in done.stderr.splitlines()] == [True]
    assert 2 == done.stdout.count("\n\nmodels/")  # an empty line between two
    assert 0 == formats_("verify", "models/a.onnx", "models/in").stdout.count("\n\nmodels/")
    assert 0 == formats_("inspect", "models/a.onnx", "models/in").exit_code
    assert 1 == formats_("inspect", "models/a.onnx", "none.onnx").exit_code


def test_several_files_are_verified(folder: Path) -> None:
    """Damaged and unreadable files count as failures; patterns work even if the shell does not expand them."""
    done = formats_("verify", "models/*.onnx", "models/in", "none.onnx", "--data")
    assert (1, "5 files: 2 ok, 3 failed") == (done.exit_code, done.stdout.splitlines()[-1])
    assert "models/c.onnx: 1 error" in done.stdout
    assert [line.startswith("error: none.onnx: No such file") for line in done.stderr.splitlines()] == [True]
    assert (0, "2 files: 2 ok, 0 failed") == (
        formats_("verify", "models/a.onnx", "models/in").exit_code,
        formats_("verify", "models/a.onnx", "models/in").stdout.splitlines()[-1],
    )


@pytest.mark.parametrize("verb", ["inspect", "verify"])
def test_several_files_are_one_report(folder: Path, verb: str) -> None:
    """The report of several files has one entry for each: the report of this file alone, and its error or null."""
    done = formats_(verb, "models", "none.onnx", "--json")
    report = json.loads(done.stdout)
    failed = 2 if verb == "inspect" else 3
    assert (1, 5 - failed, failed) == (done.exit_code, report["ok"], report["failed"])
    for entry in report["models"]:
        error = entry.pop("error")
        alone = formats_(verb, entry["path"], "--json")
        if error is None:
            assert entry == json.loads(alone.stdout)
        else:
            assert (error, ["path"]) == (json.loads(alone.stdout)["error"], [*entry])


def test_files_of_several_models_are_listed(folder: Path) -> None:
    """`files` lists the files of each model, also in a folder; one that cannot be read does not stop others."""
    done = formats_("files", "models", "models/a.onnx")
    assert (1, "5 files: 4 read, 1 failed") == (done.exit_code, done.stdout.splitlines()[-1])
    assert 2 == done.stdout.count("models/a.onnx.data")
    assert [line.startswith("error: models/d.onnx") for line in done.stderr.splitlines()] == [True]


def test_several_models_are_repaired(folder: Path) -> None:
    """`repair` takes several models and folders, and goes on after one that does not exist."""
    done = formats_("repair", "none.onnx", "models")
    assert (1, "5 files: 4 repaired, 1 failed") == (done.exit_code, done.stdout.splitlines()[-1])
    assert "models/a.onnx: nothing to repair" in done.stdout
    assert [line.startswith("error: none.onnx: No such file") for line in done.stderr.splitlines()] == [True]


def test_several_models_are_removed(folder: Path) -> None:
    """`rm` takes several models; a folder, a damaged and a missing model are errors that do not stop the others."""
    before = {path for path in Path("models").rglob("*") if path.is_file()}
    done = formats_("rm", "models/c.onnx", "models/in/b.onnxz", "-n")
    assert (0, "2 files: 2 to remove, 0 failed") == (done.exit_code, done.stdout.splitlines()[-1])
    assert before == {path for path in Path("models").rglob("*") if path.is_file()}
    done = formats_("rm", "models/c.onnx", "models/in", "models/d.onnx", "none.onnx", "models/in/b.onnxz", "--json")
    report = json.loads(done.stdout)
    assert (1, 2, 3) == (done.exit_code, report["ok"], report["failed"])
    assert [entry["error"] is None for entry in report["models"]] == [True, False, False, False, True]
    assert 3 == len(done.stderr.splitlines())
    gone = {"models/c.onnx", "models/in/b.onnxz"}
    assert before - {Path(name) for name in gone} <= {*Path("models").rglob("*")}
    assert not any(Path(name).exists() for name in gone)


def test_nothing_is_removed_if_an_argument_is_no_file(folder: Path) -> None:
    """An address among the models is an error before anything is removed."""
    done = formats_("rm", "models/a.onnx", "s3://bucket/a.onnx")
    assert (2, 1) == (done.exit_code, len(done.stderr.splitlines()))
    assert Path("models/a.onnx").exists()


def test_data_of_removed_models_stay_while_one_needs_them(folder: Path) -> None:
    """Of models with common data, removing one keeps the data, and removing all with `--all-data` removes them."""
    Path("models/d.onnx").unlink()
    assert 0 == formats_("share", "models/a.onnx", "models/in/b.onnxz", "--out", "shared").exit_code
    names = [f"shared/{name}.onnx" for name in ("a", "b")]
    assert 0 == formats_("rm", names[0], "--all-data").exit_code
    assert Path("shared/shared.data").exists()
    assert 0 == formats_("share", "models/a.onnx", "models/in/b.onnxz", "--out", "shared", "--force").exit_code
    assert 0 == formats_("rm", *names, "--all-data").exit_code
    assert not [*Path("shared").iterdir()]


def test_options_for_one_file_are_refused_for_several(folder: Path) -> None:
    """Options for a single file are refused for several; a wrong option is reported once, before any file is read."""
    for arguments in (
        ("inspect", "models", "--picture", "a.svg"),
        ("verify", "models", "--data", "--original", "models/a.onnx"),
        ("inspect", "models", "models/a.onnx", "--max-depth", "0"),
    ):
        done = formats_(*arguments)
        assert (2, 1, "") == (done.exit_code, len(done.stderr.splitlines()), done.stdout)


QUIET = {
    "completion": ["bash"],
    "convert": ["models/a.onnx", "out.rten"],
    "batch": ["models/a.onnx", "--out", "out", "--to", "onnxz"],
    "edit": ["models/a.onnx", "x.onnx", "--metadata", "license=MIT"],
    "extract": ["models/a.onnx", "x.onnx", "--outputs", "w"],
    "merge": ["models/a.onnx", "models/a.onnx", "x.onnx"],
    "inspect": ["models/a.onnx"],
    "verify": ["models/a.onnx"],
    "diff": ["models/a.onnx", "models/c.onnx"],
    "repair": ["models/a.onnx"],
    "files": ["models/a.onnx"],
    "cp": ["models/a.onnx", "x.onnx"],
    "mv": ["own/a.onnx", "y.onnx"],
    "rm": ["own/a.onnx"],
    "share": ["models/a.onnx", "models/c.onnx", "--out", "shared"],
    "pack": ["models/a.onnx", "models/c.onnx", "packed.onnxz"],
    "unpack": ["models/in/b.onnxz", "unpacked"],
}


PICTURES = (
    ("inspect", "models/a.onnx", "--picture", "x.svg"),
    ("diff", "models/a.onnx", "models/in/b.onnxz", "--picture", "x.html"),
)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such permissions")
@pytest.mark.parametrize("words", [*((verb, *words) for verb, words in QUIET.items()), *PICTURES], ids=" ".join)
def test_no_verb_shows_others_what_they_may_not_see(folder: Path, words: tuple[str, ...]) -> None:
    """A file that any verb writes has no more readers than the files that it comes from."""
    for path in filter(Path.is_file, folder.rglob("*")):
        path.chmod(0o600)
    before = os.umask(0o022)
    try:
        assert 0 <= formats_(*words).exit_code <= 1
    finally:
        os.umask(before)
    assert [path for path in folder.rglob("*") if path.is_file() and path.stat().st_mode & 0o077] == []


def test_every_verb_can_be_quiet_and_speak_json(folder: Path) -> None:
    """`-q` prints only errors, `--json` prints one object, also for errors, and both together are refused."""
    assert {verb.name for verb in VERBS} == {*QUIET}
    for verb, arguments in QUIET.items():
        for flag in ("-q", "--json"):
            assert 0 == subprocess.call(
                ["rm", "-rf", "out", "out.rten", "x.onnx", "x.onnx.data", "shared", "packed.onnxz", "unpacked"]
            )
            if Path("y.onnx").exists():
                formats.mv("y.onnx", "own/a.onnx", parents=True)
            for path in ("models/a.onnx", "own/a.onnx"):  # the latter is not next to damaged models
                formats.save(named("w"), path, external_data=True, overwrite=True, parents=True)
            done = formats_(verb, *arguments, flag)
            assert (verb == "diff", "") == (bool(done.exit_code), done.stderr), verb
            assert (done.stdout == "") if flag == "-q" else isinstance(json.loads(done.stdout), dict)
        both = formats_(verb, *arguments, "--json", "--quiet")
        assert (2, "OptionError") == (both.exit_code, json.loads(both.stdout)["error"]["kind"])


def test_what_is_wrong_is_told_quietly(folder: Path) -> None:
    """`verify -q` reports damaged files and nothing else."""
    assert "" == formats_("verify", "-q", "models/a.onnx").stdout
    done = formats_("verify", "-q", "models")
    told = [line.split(":")[0] for line in done.stdout.splitlines()]
    assert (1, ["error V306", "models/c.onnx", "error V101", "models/d.onnx"]) == (done.exit_code, told)
    assert formats_("verify", "-q", "models/c.onnx").stdout.startswith("error V306: ")


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    "arguments",
    [
        ["nonsense"],
        [],
        ["--nonsense"],
        *([verb.name, "--nonsense"] for verb in VERBS),
        *([verb.name] for verb in VERBS),
        ["inspect", "a.onnx", "--max-depth", "x"],
        ["inspect", "--max-depth", "1", "--params=x", "a.onnx"],
        ["verify", "a.onnx", "b.onnx", "--threads", "-1"],
        ["convert", "a.onnx", "b.onnx", "out/", "--to", "none"],
        ["convert", "a.onnx", "b.onnx", "out/"],
        ["convert", "a.onnx", "b.rten", "--checksum"],
        ["diff", "a", "b", "c"],
    ],
    ids=" ".join,
)
def test_usage_errors_are_json(folder: Path, arguments: list[str]) -> None:
    """In every verb, an error in the command line gives exit code 2 and a JSON error with all keys."""
    if not arguments:
        assert "Usage" in formats_().stdout
        return
    done = formats_(*arguments, "--json")
    report = json.loads(done.stdout)
    assert (2, ["error"], "OptionError") == (done.exit_code, [*report], report["error"]["kind"])
    assert [*report["error"]] == ["kind", "message", "path", "file_offset", "where"]
    assert f"formats: error: {report['error']['message']}\n" == done.stderr


def test_nodes_are_counted_and_listed(tmp_path: Path) -> None:
    """`--nodes` counts nodes by operator and domain, also in subgraphs and functions, or lists those that match."""
    inner = Graph(node=[Node(name="inside", op_type="Neg", input=["w"], output=["n"])])
    whole = named("w", "v")
    assert whole.graph is not None
    whole.graph.node.append(
        Node(op_type="If", output=["i"], attribute=[formats.Attribute(name="then_branch", type=5, g=inner)])
    )
    whole.functions = [Function(name="f", domain="me", node=[Node(op_type="Neg", domain="me", output=["o"])])]
    formats.save(whole, tmp_path / "a.onnx")
    lines = formats_("inspect", tmp_path / "a.onnx", "--nodes").stdout.splitlines()
    begin = next(n for n, line in enumerate(lines) if re.match(r"  operator +domain +nodes$", line))
    rows = {tuple(line.split()) for line in lines[begin + 1 : begin + 5]}
    assert rows == {("Identity", "ai.onnx", "2"), ("Neg", "ai.onnx", "1"), ("Neg", "me", "1"), ("If", "ai.onnx", "1")}
    shown = formats_("inspect", tmp_path / "a.onnx", "--nodes", "*.Neg").stdout
    assert "  inside                Neg       w       n" in shown
    assert "  functions[0].node[0]  Neg               o" in shown
    report = json.loads(formats_("inspect", tmp_path / "a.onnx", "--nodes=node of v", "--json").stdout)
    assert report["nodes"] == [
        {
            "where": "graph.node[1]",
            "name": "node of v",
            "operator": "Identity",
            "domain": "ai.onnx",
            "inputs": ["v"],
            "outputs": ["v/o"],
        }
    ]
    assert 5 == len(formats.inspect(tmp_path / "a.onnx", nodes=True).to_json()["nodes"])
    assert "nodes" not in formats.inspect(tmp_path / "a.onnx").to_json()


def test_parameters_are_counted_by_part(tmp_path: Path) -> None:
    """`--params` sums parameters by the parts of their names up to a depth, and shows the largest part first."""
    formats.save(named("m.enc.a.w", "m.enc.a.b", "m.dec.x.w", "m.dec.y.w", "val_1"), tmp_path / "a.onnx")
    parts = formats.inspect(tmp_path / "a.onnx", params=1).parts
    assert parts is not None
    assert [("m.dec", 2, 605, 2420), ("m.enc", 2, 601, 2404), ("", 1, 304, 1216)] == [tuple(part) for part in parts]
    lines = formats_("inspect", tmp_path / "a.onnx", "--params", "2").stdout.splitlines()
    begin = next(n for n, line in enumerate(lines) if re.match(r"  part +tensors +parameters +bytes$", line))
    assert [line.split()[0] for line in lines[begin + 1 : begin + 5]] == ["m.enc.a", "(others)", "m.dec.y", "m.dec.x"]
    report = json.loads(formats_("inspect", tmp_path / "a.onnx", "--params", "--json").stdout)
    assert {"name": "m.dec", "tensors": 2, "parameters": 605, "nbytes": 2420} == report["parts"][0]
    assert sum(part["parameters"] for part in report["parts"]) == report["parameters"]
    formats.save(named("a", "b"), tmp_path / "b.onnx")
    assert [("", 2)] == [part[:2] for part in formats.inspect(tmp_path / "b.onnx", params=1).parts or ()]


# Width


def in_terminal(folder: Path, columns: int, *arguments: str) -> list[str]:
    """Return the lines that `formats` shows on a terminal with this many columns."""
    pytest.importorskip("pty", reason="this system has no pseudo-terminals")
    environment = {**os.environ, "COLUMNS": str(columns), "PYTHONPATH": str(Path(formats.__file__).parents[1])}
    command = [sys.executable, "-m", "formats", *arguments]
    code, shown = on_terminal(
        lambda end: subprocess.Popen(command, cwd=folder, stdout=end, stderr=subprocess.DEVNULL, env=environment)
    )
    assert code in (0, 1), arguments
    return shown.splitlines()


@pytest.mark.outer
@pytest.mark.parametrize("columns", [40, *(pytest.param(wide, marks=pytest.mark.outer) for wide in (80, 200))])
def test_output_fits_the_terminal(tmp_path: Path, columns: int) -> None:
    """No line is wider than the terminal, whatever the names are; only a single word such as a path may be wider."""
    formats.save(named(LONG, HOSTILE, "w"), tmp_path / "a.onnx", external_data=True)
    formats.save(named("w"), tmp_path / "b.onnx")
    for arguments in (
        ("inspect", "a.onnx", "--nodes", "*", "--params"),
        ("verify", "a.onnx", "b.onnx"),
        ("diff", "a.onnx", "b.onnx"),
        ("files", "a.onnx"),
        ("convert", "a.onnx", "c.rten", "--dry-run"),
        ("cp", "a.onnx", "d.onnx", "--dry-run"),
        ("share", "a.onnx", "b.onnx", "--out", "o", "--dry-run"),
        ("repair", "a.onnx"),
        ("rm", "a.onnx", "-n"),
    ):
        lines = in_terminal(tmp_path, columns, *arguments)
        assert lines
        for line in lines:
            longest = max((cell_len(word) for word in line.split()), default=0)
            assert cell_len(line) <= columns or longest > columns - 8, (arguments, line)
            assert line.isprintable()


def test_only_names_that_other_verbs_take_are_wider_than_the_terminal(tmp_path: Path) -> None:
    """Names of 10,000 letters, of nodes, operators, domains and tensors, are shortened; of values and dims, whole."""
    word = "abcdefghi." * 1000
    model = named(word)
    assert model.graph is not None
    model.producer_name = word
    model.graph.node.append(Node(op_type=word, domain=word, input=["x"], output=[word + "y"]))
    model.opset_import.append(OperatorSetId(word, 1))
    dims = TensorShape([Dimension(dim_param=word)])
    model.graph.output.append(ValueInfo(word + "y", Type(tensor_type=TensorType(elem_type=1, shape=dims))))
    formats.save(model, tmp_path / "a.onnx")
    for arguments in (("inspect", "a.onnx"), ("inspect", "a.onnx", "--nodes", "*"), ("verify", "a.onnx")):
        lines = in_terminal(tmp_path, 80, *arguments)
        wide = [line.split() for line in lines if max(map(cell_len, line.split()), default=0) > 200]
        for words in wide:
            assert words[0] in ("inputs", "outputs") or words[0].startswith("float["), arguments
            assert any(word in each for each in words), arguments


def with_values(*values: tuple[str, list[str | int]]) -> Model:
    """Return a model whose inputs and outputs have these names and dims."""
    infos = [
        ValueInfo(
            name,
            Type(
                tensor_type=TensorType(
                    1,
                    TensorShape(
                        [Dimension(dim_param=dim) if isinstance(dim, str) else Dimension(dim_value=dim) for dim in dims]
                    ),
                )
            ),
        )
        for name, dims in values
    ]
    nodes = [Node(name="all", op_type="Sum", input=[name for name, _ in values], output=["y"])]
    graph = Graph(name="g", input=infos, output=infos[:1], node=nodes)
    return Model(ir_version=8, opset_import=[OperatorSetId("", 17)], graph=graph)


@pytest.mark.parametrize("columns", [40, *(pytest.param(wide, marks=pytest.mark.outer) for wide in (80, 200))])
def test_names_types_and_dims_of_inputs_are_whole(tmp_path: Path, columns: int) -> None:
    """On a terminal of any width, each input and output is shown with its whole name, type and dims, and in `--nodes`.

    `extract` needs the names, and `--dim` those of dims.
    """
    values = [(f"past_key_values.{n}.decoder.key", ["batch_size", 8, "(N+1)//2", 64]) for n in range(300)]
    values.append(("n" * 500, ["d" * 500, "past_sequence_length + sequence_length"]))
    formats.save(with_values(*values), tmp_path / "a.onnx")
    shown = "".join("".join(in_terminal(tmp_path, columns, "inspect", "a.onnx", "--nodes", "*")).split())
    for name, dims in values:
        assert f"{name}:float[{','.join(map(str, dims))}]".replace(" ", "") in shown
    assert f"inputs{','.join(name for name, _ in values)}outputsy" in shown


def test_each_input_has_a_line_in_a_pipe(tmp_path: Path) -> None:
    """Each input, output and entry of the metadata is on a line of its own, the first behind the title."""
    model = with_values(("a", ["n"]), ("b", [2, "(N + 1)//2"]))
    model.metadata_props = [StringStringEntry("one", "1"), StringStringEntry("two", "2")]
    formats.save(model, tmp_path / "a.onnx")
    lines = formats_("inspect", tmp_path / "a.onnx").stdout.splitlines()
    for wanted in (
        ["  metadata    one='1'", "              two='2'"],
        ["  inputs      a: float[n]", "              b: float[2,(N + 1)//2]", "  outputs     a: float[n]"],
    ):
        begin = lines.index(wanted[0])
        assert lines[begin : begin + len(wanted)] == wanted


def test_long_metadata_are_shortened_everywhere(tmp_path: Path) -> None:
    """A text of 33,000 characters is shortened in a pipe and on a terminal, with its length; `--json` has it whole."""
    model = named("w")
    model.metadata_props = [StringStringEntry("stuff", "x" * 33_000), StringStringEntry("k" * 300, "v")]
    formats.save(model, tmp_path / "a.onnx")
    shown = formats_("inspect", tmp_path / "a.onnx").stdout
    assert max(map(len, shown.splitlines())) < 600
    assert "stuff='xxx" in shown
    assert "xxx' (33,000 characters)" in shown
    lines = in_terminal(tmp_path, 80, "inspect", "a.onnx")
    assert max(map(len, lines)) <= 14 + 300 + len("='v'")
    assert "(33,000 characters)" in " ".join(" ".join(lines).split())
    report = json.loads(formats_("inspect", tmp_path / "a.onnx", "--json").stdout)
    assert report["metadata"] == {"stuff": "x" * 33_000, "k" * 300: "v"}


def test_nothing_is_cut_where_there_is_no_terminal(tmp_path: Path) -> None:
    """In a pipe, names and texts of 400 characters are whole, whatever `COLUMNS` is; control characters are escaped."""
    formats.save(named(LONG, HOSTILE), tmp_path / "a.onnx")
    environment = {**os.environ, "COLUMNS": "40", "PYTHONPATH": str(Path(formats.__file__).parents[1])}
    command = [sys.executable, "-m", "formats", "inspect", "a.onnx", "--nodes", "*"]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, check=True, env={**environment, "PYTHONUTF8": "1"}
    )
    shown = done.stdout.decode()
    assert 3 == sum(LONG in line for line in shown.splitlines() if "Identity" in line or "FLOAT" in line) + 1
    assert "cat, dog, " * 40 in shown
    assert "red \\x1b[31m\\n\\u202e\\x07 end" in shown
    assert all(line.isprintable() for line in shown.splitlines())


def test_tables_are_aligned_in_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wide and combining characters count with their real width; the widest column is shortened in its middle."""
    wide, combining = "\N{CJK UNIFIED IDEOGRAPH-6A21}" * 3, "e\N{COMBINING ACUTE ACCENT}"
    rows = [(wide, "1"), (combining, "22"), ("plain", "333")]
    assert {cell_len(line) for line in table(("name", "bytes"), rows)} == {2 + 6 + 2 + 5}
    assert (6, 1) == (cells(wide), cells(combining))
    assert ("ab...yz", "ab") == (shortened("abcdefghijklmnopqrstuvwxyz", 7), shortened("ab", 7))
    assert cell_len(shortened(wide * 9, 20)) in (19, 20)
    monkeypatch.setattr("formats.cli.columns.terminal_width", lambda: 30)
    lines = [*table(("name", "kind", "bytes"), [("n" * 50, "k" * 50, "1,000"), ("n", "k", "1")])]
    assert {30} == {cell_len(line) for line in lines}


def test_names_can_be_told_apart_on_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a table has too little room, other columns go first, and of names the last words stay."""
    heads = ("tensor", "data type", "dims", "bytes", "file")
    rows = [(f"model.layers.{n}.conv.weight", "FLOAT", "[320,32,3,3]", "368,640", "m.onnx") for n in range(12)]
    shown = {}
    for width in (40, 60, 80):
        monkeypatch.setattr("formats.cli.columns.terminal_width", lambda width=width: width)
        shown[width] = [*table(heads, rows, ("file", "data type", "dims"))]
        assert max(map(cell_len, shown[width][:-1])) <= width
        assert len({line.split()[0] for line in shown[width][1:13]}) == 12
    assert shown[80][0].split() == ["tensor", "data", "type", "dims", "bytes", "file"]
    assert shown[60][0].split() == ["tensor", "dims", "bytes"]
    assert shown[60][-1] == "  (a wider terminal also shows: file, data type)"
    assert shown[40][1].split() == ["model.layers.0.conv.weight", "368,640"]
    assert shortened("model.layers.11.conv.weight", 20) == "...11.conv.weight"
    assert shortened("model.layers.11.convolution_weight", 10) == "mode...ght"


def any_text() -> Any:
    """Return a strategy for texts of all kinds of characters."""
    from hypothesis import strategies as st

    return st.text(max_size=80)


@pytest.mark.parametrize("examples", [30, pytest.param(150, marks=pytest.mark.outer)])
def test_any_text_fits(examples: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever characters a name contains, a table is no wider than the terminal, and no line breaks."""
    from hypothesis import given, settings

    monkeypatch.setattr("formats.cli.columns.terminal_width", lambda: 40)

    @settings(max_examples=examples)
    @given(any_text(), any_text())
    def fits(first: str, second: str) -> None:
        for line in table(("name", "kind", "bytes"), [(first, second, "1")]):
            assert cell_len(line) <= 40
            assert len(line.splitlines()) <= 1

    fits()


def test_verify_says_what_had_no_checksum(folder: Path) -> None:
    """`verify --data` of weights without a checksum says that changes cannot be noticed; an archive has all of them."""
    formats_("convert", "models/a.onnx", "a.onnxz")
    lines = [formats_("verify", name, "--data").stdout.splitlines()[-1] for name in ("models/a.onnx", "a.onnxz")]
    assert lines[0].endswith("; no checksums of the weights, so changed weights cannot be noticed")
    assert "cannot be noticed" not in lines[1]
    told = json.loads(formats_("verify", "models/a.onnx", "--data", "--json").stdout)
    assert told["unchecked"] == told["tensors"] > 0
    assert json.loads(formats_("verify", "models/a.onnx", "--json").stdout)["unchecked"] is None
