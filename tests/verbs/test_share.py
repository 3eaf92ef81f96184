"""Models with common weights: which weights are stored once, what stays unchanged, and how such files are used."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import formats
from formats.errors import FormatError, OptionError
from formats.verbs import share
from tests.commands import run
from tests.smaps import fields_of

SIDE = 64


def matrix(seed: int, side: int = SIDE) -> Any:
    """Return a weight of `side` times `side` floats."""
    return np.random.default_rng(seed).standard_normal((side, side)).astype("float32") / side


def chain(path: Path, *seeds: int, side: int = SIDE, **options: Any) -> Path:
    """Return a model that multiplies by the matrices with these seeds, written by `onnx`."""
    weights = [numpy_helper.from_array(matrix(seed, side), f"w{index}") for index, seed in enumerate(seeds)]
    nodes = [helper.make_node("MatMul", [f"x{n}", f"w{n}"], [f"x{n + 1}"]) for n in range(len(seeds))]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, side]) for name in ("x0", f"x{len(seeds)}")]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], weights)
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path, **options)
    return path


def result(path: Path, side: int = SIDE) -> Any:
    """Return what onnxruntime computes with a model."""
    session = onnxruntime.InferenceSession(path)
    return session.run(None, {"x0": np.linspace(-1, 1, side, dtype="float32")[None]})[0]


def content(folder: Path) -> dict[str, bytes]:
    """Return all files in a folder."""
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


@pytest.fixture
def three(tmp_path: Path) -> list[Path]:
    """An encoder, a decoder and its variant: in one file, with external data, and as an archive."""
    archive = chain(tmp_path / "past.onnx", 2, 4, 5)
    formats.convert(archive, archive.with_suffix(".onnxz"))
    encoder = chain(tmp_path / "encoder" / "model.onnx", 1, 2, 3)
    decoder = chain(tmp_path / "decoder" / "model.onnx", 1, 2, 4, 4, save_as_external_data=True, location="w.data")
    return [encoder, decoder, archive.with_suffix(".onnxz")]


def test_equal_weights_lie_once(three: list[Path], tmp_path: Path) -> None:
    """Every weight is stored once, each model refers to a file per group of sharing models, and computes the same."""
    done = formats.share(three, tmp_path / "out")
    assert [path.name for path in done.models] == ["encoder-model.onnx", "decoder-model.onnx", "past.onnx"]
    seen = {file.path.name: [model.stem for model in file.models] for file in done.data_files}
    assert seen == {
        "shared-1.data": ["encoder-model", "decoder-model"],
        "shared-2.data": ["encoder-model", "decoder-model", "past"],
        "encoder-model.onnx.data": ["encoder-model"],
        "shared-3.data": ["decoder-model", "past"],
        "past.onnx.data": ["past"],
    }
    assert {file.nbytes for file in done.data_files} == {SIDE * SIDE * 4}
    data = b"".join(found for name, found in content(tmp_path / "out").items() if name.endswith(".data"))
    assert sorted(data.count(matrix(seed).tobytes()) for seed in range(1, 6)) == [1] * 5
    for source, model in zip(three, done.models, strict=True):
        assert formats.diff(source, model).equal
        assert formats.verify(model, data=True).ok
        onnx.checker.check_model(model, full_check=True)
        onnx.load(model)
    assert np.array_equal(result(three[0]), result(done.models[0]))
    assert np.array_equal(result(three[1]), result(done.models[1]))
    assert np.array_equal(result(tmp_path / "past.onnx"), result(done.models[2]))


def test_savings_are_those_of_the_files(three: list[Path], tmp_path: Path) -> None:
    """The reported sizes are those on the disk."""
    done = formats.share(three, tmp_path / "out")
    assert done.nbytes == sum(path.stat().st_size for path in (tmp_path / "out").iterdir())
    before = [three[0], three[1], three[1].with_name("w.data"), three[2]]
    assert done.source_nbytes == sum(path.stat().st_size for path in before)
    assert done.saved_nbytes == done.source_nbytes - done.nbytes > 4 * SIDE * SIDE * 4
    assert done.shared_nbytes == 3 * SIDE * SIDE * 4


def test_each_model_goes_alone(three: list[Path], tmp_path: Path) -> None:
    """With only the data files in its report, each model runs; it uses every tensor in them."""
    done = formats.share(three, tmp_path / "out")
    for entry in done.to_json()["models"]:
        alone = tmp_path / "alone"
        alone.mkdir()
        for path in (entry["destination"], *entry["data_files"]):
            shutil.copy(path, alone)
        model = alone / Path(entry["destination"]).name
        result(model)
        used = {file.path.name: file.nbytes for file in formats.files(model).files[1:]}
        assert used == {Path(path).name: Path(path).stat().st_size for path in entry["data_files"]}
        tensors = [tensor for _, tensor in formats.load(model).tensors()]
        places = {(tensor.source().file, tensor.source().file_offset): tensor.source().nbytes for tensor in tensors}  # type: ignore[attr-defined]
        assert sum(places.values()) == sum(used.values())
        shutil.rmtree(alone)


def test_bytes_do_not_depend_on_threads(three: list[Path], tmp_path: Path) -> None:
    """One thread and several threads write the same files."""
    for threads in (1, 2, 4):
        formats.share(three, tmp_path / f"out{threads}", threads=threads)
    assert content(tmp_path / "out1") == content(tmp_path / "out2") == content(tmp_path / "out4")


def test_each_place_is_hashed_once_at_most(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights of a unique size, and files that both models use, are not hashed; the others are hashed once."""
    same = chain(tmp_path / "a.onnx", 1, 2, save_as_external_data=True, location="w.data")
    shutil.copy(same, tmp_path / "b.onnx")
    other = chain(tmp_path / "c.onnx", 3, side=32)
    alike = chain(tmp_path / "d.onnx", 1)
    hashed: list[int] = []
    real = share.transfer
    monkeypatch.setattr(share, "transfer", lambda plan, *rest: (hashed.append(len(plan.digests)), real(plan, *rest))[1])
    done = formats.share([same, tmp_path / "b.onnx"], tmp_path / "out1")
    assert (hashed.pop(), [file.nbytes for file in done.data_files]) == (2, [2 * SIDE * SIDE * 4])  # all of one size
    formats.share([same, other], tmp_path / "out2")
    assert hashed.pop() == 2
    formats.share([other, alike], tmp_path / "out3")
    assert hashed.pop() == 0
    formats.share([same, tmp_path / "b.onnx", alike], tmp_path / "out4")
    assert hashed.pop() == 3


def test_every_place_of_a_tensor_counts(tmp_path: Path) -> None:
    """Weights in subgraphs, functions, attributes and typed fields are shared; strings and small tensors are not."""
    big = np.arange(1000, dtype="float32")
    typed = helper.make_tensor("typed", TensorProto.FLOAT, [1000], big)
    counts = helper.make_tensor("counts", TensorProto.INT64, [1000], np.arange(1000))
    words = helper.make_tensor("words", TensorProto.STRING, [1000], [b"word"] * 1000)
    constant = helper.make_node("Constant", [], ["c"], value=numpy_helper.from_array(big, "value"))
    inner = helper.make_graph([constant], "then", [], [helper.make_tensor_value_info("c", 1, [1000])])
    branch = helper.make_node("If", ["condition"], ["y"], then_branch=inner, else_branch=inner)
    condition = numpy_helper.from_array(np.array(True), "condition")
    function = helper.make_function("own", "F", [], ["c"], [constant], [helper.make_opsetid("", 17)])
    graph = helper.make_graph(
        [branch, helper.make_node("F", [], ["z"], domain="own")],
        "g",
        [],
        [helper.make_tensor_value_info(name, 1, [1000]) for name in "yz"],
        [condition, typed, counts, words],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    nested = helper.make_model(graph, opset_imports=opsets, functions=[function], ir_version=8)
    onnx.save(nested, tmp_path / "nested.onnx")
    raw = numpy_helper.from_array(np.arange(1000).astype("uint64"), "raw")  # the bytes of `counts`, with another type
    same = numpy_helper.from_array(big.reshape(10, 100), "same")
    plain = helper.make_graph([], "g", [], [], [raw, same])
    onnx.save(helper.make_model(plain, opset_imports=opsets[:1], ir_version=8), tmp_path / "plain.onnx")
    done = formats.share([tmp_path / "nested.onnx", tmp_path / "plain.onnx"], tmp_path / "out")
    assert [(file.path.name, file.nbytes) for file in done.data_files] == [("shared.data", 4096 + 8000)]
    assert (tmp_path / "out" / "shared.data").read_bytes().count(big.tobytes()) == 1
    for name in ("nested.onnx", "plain.onnx"):
        assert formats.diff(tmp_path / name, tmp_path / "out" / name).equal
    assert b"word" in (tmp_path / "out" / "nested.onnx").read_bytes()
    session = onnxruntime.InferenceSession(tmp_path / "nested.onnx").run(None, {})
    assert np.array_equal(session, onnxruntime.InferenceSession(tmp_path / "out" / "nested.onnx").run(None, {}))


def test_tensors_lie_on_pages_and_small_ones_stay(tmp_path: Path) -> None:
    """Offsets are multiples of a page, or of the given alignment; the threshold decides which tensors are shared."""
    models = [chain(tmp_path / name, 1, 2, side=17) for name in ("a.onnx", "b.onnx")]
    for options, offsets in (({}, [0, 4096]), ({"alignment": "64K"}, [0, 65_536]), ({"size_threshold": "4K"}, [])):
        done = formats.share(models, tmp_path / "out", overwrite=True, **options)  # type: ignore[arg-type]
        tensors = onnx.load(done.models[0], load_external_data=False).graph.initializer
        found = [
            int({entry.key: entry.value for entry in tensor.external_data}.get("offset", -1)) for tensor in tensors
        ]
        assert [offset for offset in found if offset >= 0] == offsets
        shutil.rmtree(tmp_path / "out")


def test_rten_models_become_onnx(tmp_path: Path) -> None:
    """Models of other formats are written with ONNX's operators."""
    model = chain(tmp_path / "a.onnx", 1, 2)
    formats.convert(model, tmp_path / "b.rten")
    done = formats.share([model, tmp_path / "b.rten"], tmp_path / "out")
    assert [file.path.name for file in done.data_files] == ["shared.data"]
    assert np.allclose(result(done.models[0]), result(done.models[1]))


def test_nothing_in_common_is_told(tmp_path: Path) -> None:
    """Models without common weights are still written, and the command says that they share nothing."""
    models = [chain(tmp_path / "a.onnx", 1), chain(tmp_path / "b.onnx", 2)]
    done = run("formats", "share", *map(str, models), "--out", str(tmp_path / "out"))
    assert done.exit_code == 0
    assert "no weights are equal" in done.stdout
    assert sorted(content(tmp_path / "out")) == ["a.onnx", "a.onnx.data", "b.onnx", "b.onnx.data"]


# Names


@pytest.mark.parametrize(
    ("sources", "names"),
    [
        (["a.onnx", "b.rten"], ["a.onnx", "b.onnx"]),
        (["x/a.onnx", "y/a.onnx", "b.onnx"], ["x-a.onnx", "y-a.onnx", "b.onnx"]),
        (["1/x/a.onnx", "2/x/A.onnx"], ["1-x-a.onnx", "2-x-A.onnx"]),
        (["x/a.onnx", "y/a.onnx", "x-a.onnx"], ["-x-a", "y-a.onnx", "-x-a"]),
        (["model.v1.onnx", "model"], ["model.v1.onnx", "model.onnx"]),
    ],
)
def test_names(sources: list[str], names: list[str]) -> None:
    """Models keep their names, or get names with those of folders if they clash, also if only the case differs."""
    found = share.names_of_models([Path(name) for name in sources])
    assert len({name.casefold() for name in found}) == len(names)
    assert all(wanted in name for wanted, name in zip(names, found, strict=True))


def test_names_that_cannot_be_told_apart(tmp_path: Path) -> None:
    """Two models of one name in one folder, one model twice or alone, and a clash with a data file are refused."""
    one = chain(tmp_path / "a.onnx", 1)
    formats.convert(one, tmp_path / "a.onnxz")
    two = chain(tmp_path / "b.onnx", 1, 2)
    out = tmp_path / "out"
    for models in ([one, tmp_path / "a.onnxz"], [one, one]):
        with pytest.raises(OptionError, match=r"would both be written to|is named twice"):
            formats.share(models, out)
    with pytest.raises(OptionError, match="two models or more"):
        formats.share([one], out)
    for name in ("b.onnx.data", "A.onnx", "B.ONNX.data"):
        with pytest.raises(OptionError, match="is the name of another file"):
            formats.share([one, two], out, external_data=name)
    for name in ("", "x/y", "..", True):
        with pytest.raises(OptionError):
            formats.share([one, two], out, external_data=name)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="did you mean `threads`"):
        formats.share([one, two], out, thread=1)  # type: ignore[call-arg]
    assert not out.exists()
    formats.share([one, two], out, external_data="weights.bin")
    assert sorted(content(out)) == ["a.onnx", "b.onnx", "b.onnx.data", "weights.bin"]


# Existing files


def test_nothing_is_replaced_unasked(tmp_path: Path) -> None:
    """An existing model or data file stops everything; a missing parent of the folder does, too."""
    models = [chain(tmp_path / "a.onnx", 1, 2), chain(tmp_path / "b.onnx", 1)]
    for name in ("b.onnx", "shared.data", "a.onnx.data"):
        out = tmp_path / name.replace(".", "-")
        out.mkdir()
        (out / name).write_bytes(b"precious")
        with pytest.raises(FileExistsError):
            formats.share(models, out)
        assert content(out) == {name: b"precious"}
    with pytest.raises(FileNotFoundError):
        formats.share(models, tmp_path / "no" / "such")
    assert not (tmp_path / "no").exists()
    formats.share(models, tmp_path / "no" / "such", parents=True)
    models[1].write_bytes(b"no model")
    with pytest.raises(FormatError):
        formats.share(models, tmp_path / "another")
    assert not (tmp_path / "another").exists()


def test_sharing_in_place(tmp_path: Path) -> None:
    """Models are replaced by shared ones in their own folder; unused data files are reported."""
    models = [
        chain(tmp_path / name, 1, 2, save_as_external_data=True, location=f"{name}.weights")
        for name in ("a.onnx", "b.onnx")
    ]
    expected = result(models[0])
    done = formats.share(models, tmp_path, overwrite=True)
    assert [path.name for path in done.unused] == ["a.onnx.weights", "b.onnx.weights"]
    assert np.array_equal(result(models[0]), expected)
    again = formats.share(models, tmp_path, overwrite=True)
    assert not again.unused
    assert (again.saved_nbytes, np.array_equal(result(models[1]), expected)) == (0, True)


def test_data_that_another_graph_needs_stays(three: list[Path], tmp_path: Path) -> None:
    """A data file of a graph that is not written is not replaced, even with `overwrite`."""
    out = tmp_path / "out"
    formats.share(three[:2], out)
    before = content(out)
    with pytest.raises(FileExistsError, match=r"decoder-model\.onnx uses it"):
        formats.share([three[0], three[2]], out, overwrite=True)
    assert content(out) == before


def test_members_are_listed_copied_moved_and_removed(three: list[Path], tmp_path: Path) -> None:
    """Files of other models stay, which is reported; a copy elsewhere is complete; the last model removes its data."""
    out, there = tmp_path / "out", tmp_path / "there"
    there.mkdir()
    done = formats.share(three, out)
    encoder, decoder, past = done.models
    stays = {file.path.name: file.stays for file in formats.files(past).files}
    assert "uses it, too" in stays["shared-2.data"]
    assert not stays["past.onnx.data"]
    expected = [result(model) for model in done.models]
    formats.cp(encoder, there)
    assert np.array_equal(result(there / encoder.name), expected[0])
    inodes = {path.name: path.stat().st_ino for path in there.iterdir()}
    moved = formats.mv(past, there)
    assert (
        inodes.items() <= {path.name: path.stat().st_ino for path in there.iterdir()}.items()
    )  # existing files are used
    assert {path.name for path, _ in moved.kept} == {"shared-2.data", "shared-3.data"}
    assert np.array_equal(result(there / past.name), expected[2])
    told = run("formats", "rm", str(encoder), "--all-data").stdout
    assert "shared-1.data stays: decoder-model.onnx uses it, too" in told
    assert np.array_equal(result(decoder), expected[1])
    formats.rm(decoder, all_data=True)
    assert not content(out)


# The command


def test_the_command_tells_what_it_saves(three: list[Path], tmp_path: Path) -> None:
    """Sources can be folders. The text has a line for each model, the savings and the verdict; the JSON has all."""
    (tmp_path / "past.onnx").unlink()
    done = run("formats", "share", str(tmp_path), "--out", str(tmp_path / "out"))
    assert done.exit_code == 0, done.stderr
    saved, verdict, *lines = done.stdout.splitlines()
    assert len(lines) == 3
    assert saved.startswith("3 models, ")
    assert "decoder-model.onnx + shared" in done.stdout
    assert " less, " in saved
    assert verdict == "the same models, unchanged"
    names = [str(path) for path in three]
    told = json.loads(run("formats", "share", *names, "--out", str(tmp_path / "out2"), "--json").stdout)
    assert told["verdict"] == verdict
    assert sum(file["nbytes"] for file in told["files"]) == told["nbytes"]
    assert told["saved_nbytes"] == told["source_nbytes"] - told["nbytes"] > 0
    assert [entry["source"] for entry in told["models"]] == names
    assert all(file["nbytes"] == Path(file["path"]).stat().st_size for file in told["data_files"])
    wrong = run("formats", "share", *names)
    assert (wrong.exit_code, "--out is missing" in wrong.stderr) == (2, True)


def test_the_verdict_is_that_of_a_conversion(tmp_path: Path) -> None:
    """The answer says whether the models compute the same, after what was written and before warnings and notes."""
    source = chain(tmp_path / "a.onnx", 1, 2)
    formats.convert(source, tmp_path / "b.rten")
    converted = formats.convert(tmp_path / "b.rten", tmp_path / "c.onnx")
    done = formats.share([source, tmp_path / "b.rten"], tmp_path / "out")
    assert converted.verdict == done.verdict == "computes the same, up to rounding"
    lines = str(done).splitlines()
    assert lines[2:4] == [
        f"{tmp_path / name} -> {path} + shared.data"
        for name, path in (("a.onnx", done.models[0]), ("b.rten", done.models[1]))
    ]
    assert " shared: " in lines[0]
    assert lines[1] == done.verdict
    assert all(line.startswith(("warning: ", "note: ")) for line in lines[4:])
    assert [loss.where.partition(":")[0] for loss in done.losses if loss.matters] == ["b.onnx"] * sum(
        loss.matters for loss in converted.losses
    )
    again = formats.share([source, tmp_path / "b.rten"], tmp_path / "new", dry_run=True)
    assert (again.verdict, [file.path.name for file in again.files]) == (
        done.verdict,
        [file.path.name for file in done.files],
    )


def test_locked_models_need_their_key(tmp_path: Path) -> None:
    """Encrypted models are opened with the key; only users who could read them can read the results."""
    plain = chain(tmp_path / "a.onnx", 1, 2)
    formats.convert(plain, tmp_path / "b.onnxc", key="secret words")
    (tmp_path / "b.onnxc").chmod(0o600)
    done = formats.share([plain, tmp_path / "b.onnxc"], tmp_path / "out", key="secret words")
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "out").iterdir()} == {0o600}
    assert done.shared_nbytes


# Memory


@pytest.mark.outer  # several tests of the inner ring measure memory
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="only Linux tells the memory of processes")
def test_memory_does_not_grow_with_the_weights(tmp_path: Path) -> None:
    """Two models of 64 MiB that have all weights in common are shared in far less memory than that."""
    models = [chain(tmp_path / name, *range(16), side=1024) for name in ("a.onnx", "b.onnx")]
    code = (
        "import sys, formats\n"
        "formats.share(sys.argv[1:3], sys.argv[3], threads=2)\n"
        "print(next(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *models, tmp_path / "out"], capture_output=True, text=True, check=True
    )
    assert int(done.stdout) << 10 < 60 << 20
    assert (tmp_path / "out" / "shared.data").stat().st_size == 64 << 20


PROGRAM = {
    "formats": """import sys, formats
views = [tensor.numpy() for tensor in formats.load(sys.argv[1]).graph.initializer]
sums = [float(view.sum()) for view in views]
""",
    "onnxruntime": """import sys, numpy, onnxruntime
options = onnxruntime.SessionOptions()
options.add_session_config_entry("session.disable_prepacking", "1")
session = onnxruntime.InferenceSession(sys.argv[1], options)
session.run(None, {"x0": numpy.ones([1, 1024], "float32")})
""",
}


@pytest.mark.sample(2)
@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="only Linux tells how pages are shared")
@pytest.mark.parametrize("reader", PROGRAM)
def test_processes_with_different_models_share_memory(tmp_path: Path, reader: str) -> None:
    """Two processes with different models have the common weights in memory only once."""
    models = [chain(tmp_path / name, 0, 1, 2, 3, last, side=1024) for name, last in (("a.onnx", 4), ("b.onnx", 5))]
    done = formats.share(models, tmp_path / "out")
    nbytes = done.shared_nbytes
    assert nbytes == 4 << 22
    found = []
    with ExitStack() as running:
        for model in done.models:
            process = subprocess.Popen(
                [sys.executable, "-c", PROGRAM[reader] + "print('ready', flush=True)\ninput()\n", model],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            running.enter_context(process)
            running.callback(process.kill)
            assert process.stdout
            assert process.stdout.readline() == "ready\n"
            found.append(Path(f"/proc/{process.pid}/smaps"))
        mapped = [fields_of(smaps.read_text(), "shared.data") for smaps in found]
    assert all(fields["Rss"] >= nbytes for fields in mapped)
    assert nbytes <= sum(fields["Pss"] for fields in mapped) < 1.1 * nbytes


def test_addresses_are_refused(tmp_path: Path) -> None:
    """Sources and the folder must be on this machine; the error names any that is not."""
    for models, out in ((["s3://b/a.onnx", "b.onnx"], tmp_path), (["a.onnx", "b.onnx"], "s3://b/out")):
        with pytest.raises(formats.OptionError, match=r"s3://b/.* is an address, but this works only on local files"):
            formats.share(models, out)
