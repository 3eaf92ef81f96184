"""Only what changes is written: data files that have all bytes in the right places stay as they are."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import formats
from formats.tensordata import engine, plan
from tests import commands

LAYOUTS: dict[str, dict[str, Any]] = {
    "one file": {"external_data": "w.data", "size_threshold": 0},
    "aligned": {"external_data": "w.data", "size_threshold": 0, "alignment": 4096},
    "split": {"max_external_file_size": 64, "size_threshold": 0},
    "a file for each weight": {"one_file_per_tensor": True, "size_threshold": 0},
    "checksums": {"checksum": True, "size_threshold": 0},
    "safetensors": {"external_data": "w.safetensors", "size_threshold": 0},
    "link": {"link": True},
}
EDITS = (
    "edit {} {} --metadata a=b",
    "edit {} {} --rename x=images",
    "convert {} {} --opset 18",
    "convert {} {} --ir-version 9",
    "convert {} {} --runtime onnxruntime==1.20",
    "extract {} {} --outputs y",
)


@pytest.fixture
def folder(tiny_model: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a model and its archive."""
    monkeypatch.chdir(tiny_model.parent)
    formats.convert("tiny.onnx", "tiny.onnxz")
    return tiny_model.parent


def run(line: str) -> str:
    """The report of a command of `formats` that succeeds."""
    done = commands.run("formats", *line.split())
    assert done.exit_code == 0, done.output
    return done.output


def state(graph: str) -> dict[str, tuple[int, int, bytes]]:
    """The inode, the time and the bytes of each file here but the graph."""
    paths = [path for path in Path().iterdir() if path.name != graph and path.is_file()]
    return {path.name: (path.stat().st_ino, path.stat().st_mtime_ns, path.read_bytes()) for path in paths}


def results(path: str) -> list[Any]:
    """What onnxruntime computes from ones."""
    session = onnxruntime.InferenceSession(path)
    feeds = {
        value.name: np.ones([dim if isinstance(dim, int) else 2 for dim in value.shape], "float32")
        for value in session.get_inputs()
    }
    found: list[Any] = session.run(None, feeds)
    return found


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("edit", EDITS)
def test_an_edit_over_itself_writes_the_graph_alone(edit: str, layout: str, folder: Path) -> None:
    """Each data file keeps its inode, time and bytes, whatever its layout; the report says so; onnxruntime agrees."""
    formats.convert("tiny.onnxz" if layout == "link" else "tiny.onnx", "m.onnx", **LAYOUTS[layout])
    before, computed = state("m.onnx"), results("m.onnx")
    report = run(f"{edit.format('m.onnx', 'm.onnx')} --force")
    assert before == state("m.onnx")
    assert "only the graph was written" in report
    for was, now in zip(computed, results("m.onnx"), strict=True):
        np.testing.assert_allclose(was, now, rtol=1e-6)
    run("verify m.onnx --data")


def test_the_library_writes_the_graph_alone(folder: Path) -> None:
    """`save` of a model to its own path writes no weight, either."""
    formats.convert("tiny.onnx", "m.onnx", **LAYOUTS["one file"])
    before = state("m.onnx")
    model = formats.load("m.onnx")
    model.producer_name = "me"
    report = formats.save(model, "m.onnx", overwrite=True)
    assert before == state("m.onnx")
    assert [Path("m.onnx")] == [file.path for file in report.files]
    assert formats.load("m.onnx").producer_name == "me"


def test_a_small_model_beside_much_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """100 GB beside a graph cost nothing: neither the time nor the memory of an edit depends on them."""
    monkeypatch.chdir(tmp_path)
    nbytes = 100 << 30
    tensor = onnx.TensorProto(name="w", raw_data=b"", data_type=onnx.TensorProto.FLOAT, dims=[nbytes // 4])
    onnx.external_data_helper.set_external_data(tensor, "w.data", 0, nbytes)
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.ClearField("raw_data")
    values = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["n"]) for name in "xy"]
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Add", ["x", "w"], ["y"])], "g", values[:1], values[1:], [tensor]
    )
    Path("m.onnx").write_bytes(onnx.helper.make_model(graph).SerializeToString())
    with Path("w.data").open("wb") as file:
        file.truncate(nbytes)
    report = formats.edit("m.onnx", "m.onnx", metadata={"a": "b"}, overwrite=True)
    assert sum(file.nbytes for file in report.files) < 1000
    assert formats.edit("m.onnx", "n.onnx", rename={"x": "z"}, same_data=True).files[0].nbytes < 1000


def test_a_backup_has_its_own_data(folder: Path) -> None:
    """The data are a part of the new model, so a backup has a copy: later changes of the model do not reach it."""
    formats.convert("tiny.onnx", "m.onnx", **LAYOUTS["one file"])
    computed = results("m.onnx")
    run("edit m.onnx m.onnx --metadata a=b --force --backup")
    formats.convert("m.onnx", "m.onnx", overwrite=True, clean=True, external_data="w.data", dtype="float16")
    np.testing.assert_array_equal(computed, results("m.bak.onnx"))


def test_options_of_the_layout_move_the_data(folder: Path) -> None:
    """What must be written again is said with the options that asked for it."""
    formats.convert("tiny.onnx", "m.onnx", **LAYOUTS["one file"])
    report = run("convert m.onnx m.onnx --alignment 4096 --checksum --force")
    assert "all data was written again, which --alignment and --checksum ask for" in report
    assert Path("m.onnx.data").exists()


def test_another_model_at_the_destination_keeps_its_data(folder: Path) -> None:
    """The data stay in place only if the model that is replaced has them: otherwise they are copied."""
    formats.convert("tiny.onnx", "m.onnx", **LAYOUTS["one file"])
    formats.convert("tiny.onnx", "other.onnx")
    run("edit m.onnx other.onnx --metadata a=b --force")
    assert Path("other.onnx.data").exists()


def test_data_that_change_meanwhile_are_an_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If another process writes the data file while the graph is planned, nothing is written."""
    formats.convert("tiny.onnx", "m.onnx", **LAYOUTS["one file"])
    before = Path("m.onnx").read_bytes()
    check = formats.tensordata.engine.check_plan

    def check_later(of: plan.WritePlan) -> None:
        os.utime("w.data", ns=(time.time_ns(), time.time_ns()))
        check(of)

    monkeypatch.setattr(formats.tensordata.engine, "check_plan", check_later)
    with pytest.raises(formats.FormatError, match=r"w\.data: the file has changed"):
        formats.edit("m.onnx", "m.onnx", metadata={"a": "b"}, overwrite=True)
    assert before == Path("m.onnx").read_bytes()


@pytest.mark.parametrize("layout", [name for name in LAYOUTS if name != "link"])
def test_same_data(layout: str, folder: Path) -> None:
    """`--same-data` writes a graph that refers to the data where they are, from a folder above, too."""
    Path("sub").mkdir()
    formats.convert("tiny.onnx", "sub/m.onnx", **LAYOUTS[layout])
    for target in ("sub/n.onnx", "n.onnx"):
        report = run(f"edit sub/m.onnx {target} --metadata a=b --same-data")
        assert "only the graph was written" in report
        np.testing.assert_array_equal(results("tiny.onnx"), results(target))
        onnx.checker.check_model(target)
        run(f"verify {target} --data")
    assert not [path for path in Path().iterdir() if path.suffix in (".data", ".safetensors")]
    used = {file.path.resolve() for file in formats.files("n.onnx").files}
    assert used == {file.path.resolve() for file in formats.files("sub/m.onnx").files} - {
        Path("sub/m.onnx").resolve()
    } | {Path("n.onnx").resolve()}


@pytest.mark.parametrize(("target", "is_linked"), [("sub/n.onnx", True), ("n.onnx", False)])
def test_same_data_of_an_archive(target: str, is_linked: bool, folder: Path) -> None:
    """A graph in the folder of the archive stays linked; one above is a graph with external data, and says no more."""
    Path("sub").mkdir()
    shutil.move("tiny.onnxz", "sub/tiny.onnxz")
    formats.convert("sub/tiny.onnxz", "sub/m.onnx", link=True)
    run(f"edit sub/m.onnx {target} --metadata a=b --same-data")
    keys = {entry.key for entry in formats.load(target).metadata_props}
    assert is_linked == ("onnxz.archive" in keys)
    np.testing.assert_array_equal(results("tiny.onnx"), results(target))


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("edit m.onnx sub/n.onnx --metadata a=b --same-data", "w.data: the data file is not in the folder of the new"),
        (
            "convert m.onnx n.onnx --dtype float16 --same-data",
            "this weight changes, so it cannot stay in its data",
        ),
        ("convert tiny.onnx n.onnx --same-data", "no weight of the model is in a data file; leave out --same-data"),
        ("convert m.onnx n.onnx --same-data --checksum", "--same-data and --external-data exclude each other"),
        ("convert m.onnx n.onnx --same-data --no-external-data", "--same-data and --no-external-data exclude each"),
        ("convert m.onnx n.onnx --same-data --link", "--link and --same-data exclude each other"),
    ],
)
def test_same_data_that_cannot_be(line: str, words: str, folder: Path) -> None:
    """What a graph cannot refer to is refused in one line, and nothing is written."""
    formats.convert("tiny.onnx", "m.onnx", **LAYOUTS["one file"])
    Path("sub").mkdir()
    done = commands.run("formats", *line.split())
    assert done.exit_code in (1, 2)
    assert words in done.output
    assert not Path("n.onnx").exists()
    assert not [*Path("sub").iterdir()]


def test_verbs_know_that_data_are_shared(folder: Path) -> None:
    """`rm` and `mv` of one of two graphs that refer to the same data leave the data of the other."""
    formats.convert("tiny.onnx", "m.onnx", external_data=True, size_threshold=0)
    formats.edit("m.onnx", "n.onnx", metadata={"a": "b"}, same_data=True)
    computed = results("n.onnx")
    run("mv m.onnx o.onnx")
    np.testing.assert_array_equal(computed, results("n.onnx"))
    run("rm o.onnx")
    np.testing.assert_array_equal(computed, results("n.onnx"))


@pytest.mark.parametrize("change", ["convert m.onnx n.onnx --dtype float16", "edit m.onnx n.onnx --weights w.npz"])
def test_new_weights_go_where_the_old_ones_were(change: str, folder: Path) -> None:
    """Weights that were in a data file are in one again when their elements change."""
    formats.convert("tiny.onnx", "m.onnx", **LAYOUTS["one file"])
    weights = {tensor.name or "": tensor.numpy() * 2 for tensor in formats.load("m.onnx").graph.initializer}
    np.savez("w.npz", **weights)
    run(change)
    assert Path("n.onnx.data").stat().st_size
    assert {1} == {tensor.data_location for tensor in onnx.load("n.onnx", load_external_data=False).graph.initializer}
    run("verify n.onnx --data")
    shutil.move("n.onnx.data", "elsewhere")
    assert commands.run("formats", "convert", "n.onnx", "o.json").exit_code == 1
    shutil.move("elsewhere", "n.onnx.data")
    run("convert n.onnx o.json --no-external-data")


def test_texts_never_mix_data(folder: Path) -> None:
    """Two models whose data files have one name become one text with all weights inside."""
    for place in ("a", "b"):
        Path(place).mkdir()
        formats.convert("tiny.onnx", f"{place}/m.onnx", **LAYOUTS["one file"])
    run("merge a/m.onnx b/m.onnx both.json --prefix second_")
    assert not [*formats.load("both.json").graph.initializer[0].external_data]
    run("convert both.json both.onnx")
    assert len(results("both.onnx")) == 2 * len(results("tiny.onnx"))


@pytest.fixture
def without_data(folder: Path) -> Path:
    """The same folder, with a model whose data file is elsewhere."""
    formats.convert("tiny.onnx", "m.onnx", **LAYOUTS["one file"])
    shutil.move("w.data", folder / "away")
    return folder


@pytest.mark.parametrize("edit", [*EDITS, "convert {} {} --dtype float16 --keep-io-types"])
@pytest.mark.parametrize("target", ["m.onnx", "n.onnx", "sub/n.onnx"])
def test_edits_without_the_data(edit: str, target: str, without_data: Path) -> None:
    """What needs no weight works if the data file is missing, and the result is right when it is there again."""
    Path("sub").mkdir()
    line = f"{edit.format('m.onnx', target)} --force"
    done = commands.run("formats", *line.split())
    assert done.exit_code == 1
    assert "w.data" in done.output
    if "float16" in edit:
        done = commands.run("formats", *line.split(), "--no-data")
        assert done.exit_code == 1
        assert "weights in it are needed here; leave out --no-data" in done.output
        return
    run(f"{line} --no-data")
    shutil.copy("away", Path(target).parent / "w.data")
    for was, now in zip(results("tiny.onnx"), results(target), strict=True):
        np.testing.assert_allclose(was, now, rtol=1e-6)


def test_the_library_without_the_data(without_data: Path) -> None:
    """`load` with `no_data` gives a model that can be edited and saved, but whose weights cannot be read."""
    model = formats.load("m.onnx", no_data=True)
    formats.save(model.edit(rename={"x": "images"}), "n.onnx")
    with pytest.raises(formats.FormatError, match="weights in it are needed here; leave out `no_data`"):
        model.graph.initializer[0].numpy()
    with pytest.raises(formats.FormatError, match="does not exist; copy it to this place"):
        formats.load("m.onnx")
    shutil.move("away", "w.data")
    assert results("tiny.onnx")[0].tolist() == results("n.onnx")[0].tolist()


@pytest.mark.parametrize("line", ["verify m.onnx", "inspect m.onnx", "files m.onnx", "convert m.onnx t.json"])
def test_looking_without_the_data(line: str, without_data: Path) -> None:
    """With `--no-data`, a missing data file is no fault."""
    assert "does not exist" in commands.run("formats", *line.split()).output
    assert "does not exist" not in run(f"{line} --no-data")


@pytest.mark.parametrize(
    "line", ["convert m.onnx n.rten", "convert m.onnx n.onnxz", "convert m.onnx n.onnx --checksum"]
)
def test_what_needs_weights_is_refused_without_the_data(line: str, without_data: Path) -> None:
    """Formats that have the weights inside cannot be written without them, and nothing is left."""
    done = commands.run("formats", *line.split(), "--no-data")
    assert done.exit_code == 1
    assert "w.data" in done.output
    assert "leave out --no-data" in done.output
    assert not [*Path().glob("n.*")]


def test_a_graph_travels_alone(folder: Path) -> None:
    """A graph without weights is edited, and filled from a model or a file of weights: it computes what it did."""
    run("edit tiny.onnx bare.onnx --strip-weights --size-threshold 0")
    assert not Path("bare.onnx.data").exists()
    assert commands.run("formats", "verify", "bare.onnx").exit_code == 1
    run("edit bare.onnx new.onnx --no-data --metadata a=b")
    np.savez("w.npz", **{tensor.name or "": tensor.numpy() for tensor in formats.load("tiny.onnx").graph.initializer})
    for weights in ("tiny.onnx", "tiny.onnxz", "w.npz"):
        run(f"edit new.onnx full.onnx --no-data --weights {weights} --force")
        np.testing.assert_array_equal(results("tiny.onnx"), results("full.onnx"))
    wrong = {tensor.name or "": np.zeros([1, 7], "float32") for tensor in formats.load("tiny.onnx").graph.initializer}
    np.savez("w.npz", **wrong)
    done = commands.run("formats", "edit", "new.onnx", "wrong.onnx", "--no-data", "--weights", "w.npz")
    assert done.exit_code == 1
    assert "has dims [1, 7] in w.npz, but" in done.output


def test_weights_that_are_stripped_stay_beside_their_own_graph(folder: Path) -> None:
    """A graph that is stripped over itself still fits its data file, so it gets no other layout."""
    run("convert tiny.onnx own.onnx --external-data own.onnx.data --size-threshold 0 --alignment 4096")
    before = Path("own.onnx.data").stat()
    done = run("edit own.onnx own.onnx --strip-weights --metadata a=b --force")
    assert "only the graph was written" in done and "was written again" not in done
    assert Path("own.onnx.data").stat() == before
    np.testing.assert_array_equal(results("tiny.onnx"), results("own.onnx"))
    line = "edit own.onnx own.onnx --strip-weights --alignment 64 --force"
    refused = commands.run("formats", *line.split())
    assert refused.exit_code == 1
    assert "the data in own.onnx.data stays as it is" in refused.output
    assert "the layout that --alignment asks for" in refused.output
    done = run("convert own.onnx own.onnx --dtype float16 --strip-weights --size-threshold 0 --force")
    assert "warning: the weights were not written" in done
    assert "there is already own.onnx.data, perhaps with other weights" in done


def test_a_graph_knows_the_checksum_of_its_weights(folder: Path) -> None:
    """With `--checksum`, `verify --data` tells whether a data file that was made later is the right one."""
    run("convert tiny.onnx bare.onnx --strip-weights --checksum --size-threshold 0")
    run("convert tiny.onnx other.onnx --external-data bare.onnx.data --size-threshold 0")
    run("verify bare.onnx --data")
    data = bytearray(Path("bare.onnx.data").read_bytes())
    data[0] ^= 1
    Path("bare.onnx.data").write_bytes(data)
    assert commands.run("formats", "verify", "bare.onnx", "--data").exit_code == 1


@pytest.mark.parametrize("change", ["exchanged", "changed", "removed"])
@pytest.mark.parametrize("to", ["m.onnx", "n.onnx"])
def test_data_that_is_not_what_was_read_is_refused(folder: Path, to: str, change: str) -> None:
    """If another program exchanges the data file between `load` and `save`, no graph refers to the other file."""
    formats.convert("tiny.onnx", "m.onnx", **LAYOUTS["one file"])
    model = formats.load("m.onnx")
    graph = Path("m.onnx").read_bytes()
    if change == "exchanged":
        Path("other").write_bytes(bytes(Path("w.data").stat().st_size))
        Path("other").replace("w.data")
    elif change == "changed":
        with Path("w.data").open("r+b") as file:
            file.write(b"other")
    else:
        Path("w.data").unlink()
    with pytest.raises((formats.FormatError, FileNotFoundError), match=r"has changed since|No such file") as error:
        formats.save(model, to, overwrite=True, same_data=True)
    assert "w.data" in str(error.value)
    assert graph == Path("m.onnx").read_bytes()
    assert not Path("n.onnx").exists()


def test_data_that_is_exchanged_while_the_graph_is_written_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command sees that, too: it looks at the data file again before the graph has its place."""
    formats.convert("tiny.onnx", "m.onnx", **LAYOUTS["one file"])
    real = engine.transfer

    def exchange(*arguments: Any) -> Any:
        Path("other").write_bytes(bytes(Path("w.data").stat().st_size))
        Path("other").replace("w.data")
        return real(*arguments)

    monkeypatch.setattr(engine, "transfer", exchange)
    done = commands.run("formats", "convert", "m.onnx", "n.onnx", "--same-data")
    assert "w.data: the file has changed since it was read; " in done.stderr
    assert (done.exit_code, done.stderr.count("\n")) == (1, 1)
    assert not Path("n.onnx").exists()
