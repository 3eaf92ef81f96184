"""Two models that run in onnxruntime on the same inputs: the differences are told, and what fails is one line."""

from __future__ import annotations

import json
import re
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import formats
from formats.bridges import results
from formats.bridges.results import compared_results, differences
from tests.commands import run

TEXT = """<ir_version: 8, opset_import: ["" : 17]> g (float[n, 2] x) => (float[n, 2] y, int64[2] s)
    <float[2] w = {WEIGHT, 1}> { a = Mul(x, w) y = Cast<to = 1>(a) s = Shape(x) }"""


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    """Two models, whose weights differ by a half."""
    paths = tmp_path / "a.onnx", tmp_path / "b.onnx"
    for path, weight in zip(paths, ("1", "1.5"), strict=True):
        onnx.save(onnx.parser.parse_model(TEXT.replace("WEIGHT", weight)), path)
    return paths


def test_given_inputs(pair: tuple[Path, Path], tmp_path: Path) -> None:
    """The largest difference of each output, on the arrays of an .npz file, which get the types of the model."""
    np.savez(tmp_path / "in.npz", x=np.array([[1, 2], [-4, 5]]))
    y, s = compared_results(*pair, tmp_path / "in.npz")
    assert ("y", 2.0, 5.0, "differs by 2 at most, where its largest number is 5") == y
    assert ("s", 0.0, 2.0, "is the same") == s


def test_random_inputs_are_the_same_each_time(pair: tuple[Path, Path]) -> None:
    """Without inputs, random ones are the same in each run, and an open dim gets a size with which the model runs."""
    first, second = ([*differences(*map(str, pair), None)] for _ in range(2))
    assert first == second
    assert first[0].largest
    assert first[1].largest == 0


@pytest.mark.parametrize(
    ("arrays", "error"),
    [
        ({"z": np.zeros(2)}, "`check_inputs` has no 'x', an input of the model"),
        ({"x": np.zeros((1, 3, 3))}, "onnxruntime does not run .*a.onnx: "),
        (b"PK", "in.npz: this is no valid .npz file: it is damaged"),
    ],
)
def test_inputs_that_do_not_fit(pair: tuple[Path, Path], tmp_path: Path, arrays: Any, error: str) -> None:
    """Inputs of another name or rank, and a file that is none, are told in one line."""
    path = tmp_path / "in.npz"
    if isinstance(arrays, bytes):
        path.write_bytes(arrays)
    else:
        np.savez(path, **arrays)
    with pytest.raises((formats.UnsupportedError, formats.OptionError), match=error):
        [*differences(*map(str, pair), str(path))]


@pytest.mark.parametrize(
    ("second", "inputs", "error"),
    [
        ("none.onnx", None, "none.onnx: No such file or directory"),
        ("empty.onnx", None, "empty.onnx: this is an empty file"),
        ("loop.onnx", None, "loop.onnx: Too many levels of symbolic links"),
        ("a.onnx", "none.npz", "none.npz: No such file or directory"),
        ("a.onnx", "empty.npz", "empty.npz: this is no valid .npz file"),
        ("a.onnx", "a.onnx", "a.onnx is no .npz file"),
    ],
)
def test_a_file_that_cannot_be_read(
    pair: tuple[Path, Path], second: str, inputs: str | None, error: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model or inputs that cannot be read are named in one line, in the words of every other error."""
    monkeypatch.chdir(pair[0].parent)
    Path("loop.onnx").symlink_to("loop.onnx")
    for name in ("empty.onnx", "empty.npz"):
        Path(name).touch()
    done = run("formats", "diff", "a.onnx", second, *(["--check-inputs", inputs] if inputs else ["--check"]))
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    assert done.stderr.startswith(f"formats: error: {error}")


def test_other_dims_and_other_nan(tmp_path: Path, pair: tuple[Path, Path]) -> None:
    """An output with other dims, or with NaN at other places, has no largest difference."""
    other = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[n, 2] x) => (float[n, 2] y, int64[1] s) '
        "{ m = Neg(x) a = Mul(x, m) y = Log(a) z = Shape(x) i = Constant<value_ints = [1]>() s = Gather(z, i) }"
    )
    onnx.save(other, tmp_path / "c.onnx")
    details = [each[1:] for each in differences(str(pair[0]), str(tmp_path / "c.onnx"), None)]
    wanted = [(None, None, "is not a number (NaN) at other places"), (None, None, "has dims [1] instead of [2]")]
    assert wanted == details


def test_a_check_leaves_no_process(pair: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """After a check, also one that fails, its process has ended; the next one finds the current folder."""
    for second in (pair[1], pair[1].with_name("none.onnx"), Path("b.onnx")):
        monkeypatch.chdir(pair[0].parent)
        with suppress(formats.UnsupportedError):
            compared_results(pair[0], second, None)
        assert results._PROCESS._running is None
    assert compared_results(Path("a.onnx"), Path("b.onnx"), None)


@pytest.mark.parametrize(
    ("module", "kind", "error"),
    [
        (
            "def set_default_logger_severity(_): pass\ndef __getattr__(_): import os; os.abort()",
            formats.UnsupportedError,
            "in 900 seconds of processor time and 4,096 MiB of memory, or has crashed",
        ),
        (
            "raise ModuleNotFoundError(name='onnxruntime')",
            formats.MissingPackageError,
            "checks of results need the package onnxruntime, which is not installed: pip install",
        ),
        (
            "raise ImportError('no libc')",
            formats.MissingPackageError,
            r"onnxruntime, which is installed, but cannot be imported \(no libc\): pip install",
        ),
    ],
)
def test_a_process_that_ends(
    pair: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, module: str, kind: type[Exception], error: str
) -> None:
    """A crash of onnxruntime ends only its own process, and is one line; without it, the error says what to install."""
    (pair[0].parent / "onnxruntime.py").write_text(module)
    monkeypatch.syspath_prepend(pair[0].parent)
    monkeypatch.delitem(sys.modules, "onnxruntime", raising=False)
    monkeypatch.setattr(results, "_PROCESS", results.new_process())
    with pytest.raises(kind, match=error):
        compared_results(*pair, None)


def test_the_commands(pair: tuple[Path, Path], tmp_path: Path) -> None:
    """`convert`, `edit` and `diff` print the differences, also in JSON; several models and streams are refused."""
    new = tmp_path / "new.onnx"
    for verb in ("convert", "edit"):
        done = run("formats", verb, pair[0], new, "--force", "--dtype", "float16", "--check")
        assert "check: s is the same" in done.stdout.splitlines()
        assert done.stdout.count("check: ") == 2
    done = run("formats", "diff", *pair, "--check", "--json")
    assert ["y", "s"] == [each["output"] for each in json.loads(done.stdout)["checked"]]
    done = run("formats", "convert", *pair, tmp_path, "--to", "onnxz", "--check")
    assert (done.exit_code, "--check is for one model, and these are several" in done.stderr) == (2, True)
    for refused in (("dry.onnx", "--dry-run"), ("memory://a.onnx",)):
        done = run("formats", "convert", pair[0], *refused, "--check")
        assert "--check runs two models in files, so SRC and DST must be files" in done.stderr
    done = run("formats", "convert", pair[0], tmp_path / "listed.onnx", "--check", "--manifest", tmp_path / "m.jsonl")
    assert (done.exit_code, "--check cannot be used with --manifest or --dask" in done.stderr) == (2, True)
    assert not (tmp_path / "listed.onnx").exists()


@pytest.fixture
def two(tmp_path: Path) -> Path:
    """A model with an open dim and two outputs."""
    return saved(tmp_path / "two.onnx", "float[n, 2] x", "float[n, 2] y, float[n, 2] z", "y = Mul(x, x) z = Neg(x)")


def saved(path: Path, inputs: str, outputs: str, nodes: str) -> Path:
    """The file of a model that was given as text."""
    text = f'<ir_version: 8, opset_import: ["" : 17]> g ({inputs}) => ({outputs}) {{ {nodes} }}'
    onnx.save(onnx.parser.parse_model(text), path)
    return path


@pytest.mark.parametrize("check", [["--check"], ["--check-inputs", "in.npz"]])
def test_a_model_that_would_be_replaced(two: Path, check: list[str]) -> None:
    """A check is refused before anything is written if the new model would replace the one to compare with."""
    archive = two.with_suffix(".onnxz")
    formats.convert(two, archive)
    link = two.with_name("link.onnx")
    link.hardlink_to(two)
    before = two.read_bytes(), archive.read_bytes()
    for arguments in (
        ("edit", archive, "--remove-output", "y"),
        ("edit", archive, archive, "--force", "--remove-output", "y"),
        ("convert", two, two, "--force", "--dtype", "float16"),
        ("convert", two, link, "--force", "--dtype", "float16"),
    ):
        done = run("formats", *arguments, *check)
        words = f"formats: error: --check compares the new model with {arguments[1]}, which it would replace; "
        assert (done.exit_code, done.stderr) == (2, f"{words}name another DST\n")
        assert (two.read_bytes(), archive.read_bytes()) == before


def test_outputs_are_paired_by_name(two: Path) -> None:
    """An output is compared with the one of its name, and one without a partner is told, in either model."""
    left = two.with_name("left.onnx")
    done = run("formats", "edit", two, left, "--remove-output", "y", "--check")
    assert "check: z is the same" in done.stdout
    for paths in ((two, left), (left, two)):
        y, z = sorted(differences(*map(str, paths), None))
        assert (y.output, *y[1:]) == ("y", None, None, "is not in the other model")
        assert (z.output, z.largest, z.detail) == ("z", 0, "is the same")


def test_renamed_outputs_are_paired_by_position(two: Path) -> None:
    """If no output has the same name and there are as many, they are compared by position."""
    renames = ["--rename", "y=a", "--rename", "z=b"]
    done = run("formats", "edit", two, two.with_name("new.onnx"), *renames, "--check")
    assert [line for line in done.stdout.splitlines() if "check" in line] == [
        "check: y is the same",
        "check: z is the same",
    ]


@pytest.mark.parametrize(
    ("nodes", "detail"),
    [
        ("n = Neg(x) q = SequenceConstruct(x, n)", "is the same"),
        ("q = SequenceConstruct(x)", "has 1 elements instead of 2"),
        ("q = SequenceConstruct(x, x)", "has an element 1 that differs by [0-9.]+ at most, where its .*"),
    ],
)
def test_sequences(tmp_path: Path, nodes: str, detail: str) -> None:
    """The elements of sequences are compared, and have no numbers of the output."""
    ends = "float[3] x", "seq(float[3]) q"
    first = saved(tmp_path / "a.onnx", *ends, "n = Neg(x) q = SequenceConstruct(x, n)")
    second = saved(tmp_path / "b.onnx", *ends, nodes)
    (found,) = differences(str(first), str(second), None)
    assert found[:3] == ("q", None, None)
    assert re.fullmatch(detail, found.detail)


def test_an_output_that_is_not_compared() -> None:
    """A map, such as classifiers compute, is said to be not compared."""
    assert results._difference("m", [{1: 0.5}], [{1: 0.5}])[1:] == (
        None,
        None,
        "has an element 0 that is no tensor, so it is not compared",
    )


@pytest.mark.parametrize(
    ("mine", "theirs", "largest"),
    [
        (np.array([2**53]), np.array([2**53 + 1]), 1),
        (np.array(2**63 - 1), np.array(2**63, "u8"), 1),
        (np.array([-(2**63)]), np.array([2**63 - 1]), float(2**64)),
        (np.array([True]), np.array([False]), 1),
        (np.array([2**53 + 1]), np.array([2**53 + 1]), 0),
    ],
)
def test_integers_are_compared_as_integers(mine: Any, theirs: Any, largest: float) -> None:
    """Integers that float64 does not hold, and those of two types, are compared exactly."""
    found = results._difference("s", mine, theirs)
    assert found[:3] == ("s", largest, float(abs(int(mine.flat[0]))))
    assert (found.detail == "is the same") == (largest == 0)


@pytest.mark.parametrize(
    "edits",
    [
        ["--rename", "x=pix"],
        ["--dim", "n=1"],
        ["--rename", "x=pix", "--dim", "n=3"],
    ],
)
def test_random_inputs_fit_both_models(two: Path, edits: list[str]) -> None:
    """Random inputs have the names and the fixed dims of both models, whichever comes first."""
    new = two.with_name("new.onnx")
    done = run("formats", "edit", two, new, *edits, "--check")
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.count("is the same") == 2
    assert [each.largest for each in differences(str(new), str(two), None)] == [0, 0]


def test_an_input_of_one_model_only(tmp_path: Path, two: Path) -> None:
    """An input that only one model has gets random numbers, too."""
    more = saved(tmp_path / "more.onnx", "float[n, 2] w, float[n, 2] x", "float[n, 2] y", "y = Mul(x, x)")
    for paths in ((two, more), (more, two)):
        assert next(each for each in differences(*map(str, paths), None) if each.output == "y").largest == 0


def test_inputs_that_are_missing_say_that_the_model_was_written(two: Path) -> None:
    """If given inputs do not fit, one line says so, and that the new model is there; the mistake is in the command."""
    np.savez(two.with_name("in.npz"), z=np.zeros(2))
    new = two.with_name("new.onnx")
    done = run("formats", "convert", two, new, "--check-inputs", two.with_name("in.npz"))
    words = f"formats: error: {new} was written, but not compared with the source: --check-inputs has no 'x', an input"
    assert (done.exit_code, done.stderr) == (2, f"{words} of the model\n")
    assert new.exists()


def test_a_check_that_cannot_run_says_that_the_model_was_written(tmp_path: Path) -> None:
    """If onnxruntime does not load a model, one line says so in plain words, and that the new model is there."""
    ends = [onnx.helper.make_tensor_value_info(name, 1, [2]) for name in "xy"]
    node = onnx.helper.make_node("Nope", ["x"], ["y"], domain="own")
    graph = onnx.helper.make_graph([node], "g", ends[:1], ends[1:])
    imports = [onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid("own", 1)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=imports, ir_version=8), tmp_path / "m.onnx")
    done = run("formats", "convert", tmp_path / "m.onnx", tmp_path / "new.onnx", "--check")
    assert done.exit_code == 1
    assert "new.onnx was written, but not compared with the source: onnxruntime does not load" in done.stderr
    assert done.stderr.count("\n") == 1
    assert "ONNXRuntimeError" not in done.stderr
    assert (tmp_path / "new.onnx").read_bytes() == (tmp_path / "m.onnx").read_bytes()


@pytest.mark.parametrize("verb", ["convert", "diff"])
def test_without_onnxruntime_nothing_is_read(verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If onnxruntime is not installed, one line says so at once: the models need not even be there."""
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    done = run("formats", verb, tmp_path / "m.onnx", tmp_path / "new.onnx", "--check")
    assert done.exit_code == {"convert": 1, "diff": 2}[verb]  # 1 of `diff` is a difference
    assert done.stderr.startswith("formats: error: checks of results need the package onnxruntime, which is not inst")
    assert done.stderr.count("\n") == 1
