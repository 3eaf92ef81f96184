"""A dry run reports what a run does, refuses what a run refuses, and writes nothing."""

from __future__ import annotations

import errno
import hashlib
import json
import os
from collections import namedtuple
from pathlib import Path
from typing import Any

import onnx
import pytest

import formats
from formats.errors import FormatError, OptionError, WireError
from formats.tensordata.engine import EngineOptions, execute
from formats.tensordata.plan import FilePlan, PlacedWrite, WritePlan
from formats.tensordata.sources.source import Literal, Source
from formats.tensordata.sources.transform import varints
from tests.commands import run
from tests.verbs.test_model_files import model

CONVERSIONS: list[tuple[str, dict[str, Any]]] = [
    ("b.onnx", {}),
    ("b.onnx", {"external_data": True}),
    ("b.onnx", {"external_data": "weights.bin", "alignment": 4096, "size_threshold": 0}),
    ("b.onnx", {"max_external_file_size": 10_000}),
    ("b.onnx", {"one_file_per_tensor": True}),
    ("b.onnx", {"external_data": True, "checksum": True}),
    ("b.onnx", {"external_data": False}),
    ("b.onnx", {"runtime": "rten"}),
    ("b.onnxz", {}),
    ("b.onnxz", {"dedup": True}),
    ("b.onnxz", {"alignment": 4096, "size_threshold": 0}),
    ("b.rten", {}),
    ("b.rten", {"rten_version": 1}),
    ("b.rten", {"exact": True, "runtime": "rten==0.27", "onnx_hash": True}),
    ("b.rten", {"metadata": {"license": "none"}, "onnx_hash": False}),
    ("b.onnxc", {"key": "secret words"}),
    ("b.onnxc", {"key": "secret words", "encryption": 1}),
    ("b.onnxc", {"key": "secret words", "encryption": 2}),
    ("b.textproto", {}),
    ("b.json", {"external_data": False}),
    ("new/b.onnx", {"external_data": True, "parents": True}),
]


def tree(folder: Path) -> dict[str, tuple[int, str]]:
    """Return everything below a folder, including hidden files: the time of the last change, and the content."""
    found = {}
    for path in [folder, *folder.rglob("*")]:
        digest = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        found[str(path)] = path.stat().st_mtime_ns, digest
    return found


def told(report: formats.ConversionReport) -> dict[str, Any]:
    """Return a report without the time, and without the mark of a dry run."""
    return {name: value for name, value in report.to_json().items() if name not in ("seconds", "dry_run")}


@pytest.fixture
def sources(tmp_path: Path, digits: Path) -> dict[str, Path]:
    """Models in every layout, each in its own folder."""
    folder = tmp_path / "sources"
    folder.mkdir()
    formats.convert(digits, folder / "split.onnx", max_external_file_size=10_000)
    for name in ("a.onnxz", "a.rten", "a.json"):
        formats.convert(digits, folder / name)
    typed = onnx.load(digits)
    for tensor in typed.graph.initializer:  # numbers as varints, and floats in fields of their own
        array = onnx.numpy_helper.to_array(tensor)
        values = array.flatten().tolist()
        tensor.CopyFrom(onnx.helper.make_tensor(tensor.name, tensor.data_type, array.shape, values))
    onnx.save(typed, folder / "typed.onnx")
    return {path.name: path for path in (digits, *folder.iterdir()) if path.suffix != ".data"}


@pytest.mark.sample(3)
@pytest.mark.parametrize(("target", "options"), CONVERSIONS, ids=lambda value: str(value))
def test_a_dry_run_tells_what_the_run_does(
    sources: dict[str, Path], tmp_path: Path, target: str, options: dict[str, Any]
) -> None:
    """Files, sizes, losses and changes equal those of the run, from every format; nothing is written or changed."""
    (tmp_path / "out").mkdir()
    for name, source in sources.items():
        folder = tmp_path / "out" / name
        folder.mkdir()
        before = tree(tmp_path)
        try:
            foreseen = formats.convert(source, folder / target, dry_run=True, **options)
        except OptionError as error:  # an option for other sources
            assert f"OptionError: {error}" == refused(formats.convert, source, folder / target, **options)
            continue
        assert before == tree(tmp_path)
        done = formats.convert(source, folder / target, **options)
        assert (told(foreseen), True, False) == (told(done), foreseen.dry_run, done.dry_run)
        written = {path: path.stat().st_size for path in folder.rglob("*") if path.is_file()}
        assert written == {file.path: file.nbytes for file in foreseen.files}


def refused(act: Any, *arguments: Any, **keywords: Any) -> str:
    """Return the class and the text of the error that a call raises."""
    with pytest.raises((FormatError, OSError, OptionError)) as caught:
        act(*arguments, **keywords)
    return f"{caught.type.__name__}: {caught.value}"


def in_the_way(folder: Path) -> list[tuple[str, dict[str, Any]]]:
    """Return destinations that are refused, with options."""
    (folder / "there.onnx").write_bytes(b"x")
    (folder / "there.onnx.data").write_bytes(b"x")
    (folder / "only.onnx.data").write_bytes(b"x")
    (folder / "folder.onnx").mkdir()
    (folder / "file").write_bytes(b"x")
    (folder / "shared.bin").write_bytes(bytes(8192))
    formats.save(model(), folder / "other.onnx", external_data="shared.bin", overwrite=True)
    return [
        ("there.onnx", {}),
        ("only.onnx", {"external_data": True}),
        ("folder.onnx", {"overwrite": True}),
        ("none/b.onnx", {}),
        ("file/b.onnx", {}),
        ("file/sub/b.onnx", {"parents": True}),
        (f"{'n' * 300}.onnx", {}),
        ("b.onnx", {"external_data": "shared.bin"}),
        ("b.none", {}),
        ("b.rten", {"strict": True}),
        ("b.onnxc", {}),
        ("b.rten", {"runtime": "rten==0.1"}),
    ]


def test_what_a_run_refuses_a_dry_run_refuses(digits: Path, tmp_path: Path) -> None:
    """An obstacle gives the same error in a dry run and in a run; the exit code is the run's."""
    for target, options in in_the_way(tmp_path):
        before = tree(tmp_path)
        foreseen = refused(formats.convert, digits, tmp_path / target, dry_run=True, **options)
        assert before == tree(tmp_path)
        assert foreseen == refused(formats.convert, digits, tmp_path / target, **options)
    for target, flags in (("there.onnx", []), ("b.none", []), ("none/b.onnx", []), ("b.rten", ["--strict"])):
        done = [
            run("formats", "convert", digits, tmp_path / target, *flags, *dry) for dry in ([], ["--dry-run"], ["-n"])
        ]
        assert (1, 1, done[0]) == (done[0].exit_code, len(set(done)), done[1])


def test_numbers_that_cannot_be_read_are_found(tmp_path: Path) -> None:
    """A weight whose damage is only found by decoding it is refused, with the same place."""
    graph = onnx.GraphProto(name="g")
    graph.initializer.add(name="w", data_type=onnx.TensorProto.INT64, dims=[4]).int64_data.extend([1 << 40] * 4)
    data = onnx.ModelProto(ir_version=8, graph=graph).SerializeToString()
    place = data.index(b"\x80" * 5)  # of the first number; without an end it is too long
    (tmp_path / "a.onnx").write_bytes(data[:place] + b"\x80" * 24 + data[place + 24 :])
    options = {"external_data": True, "size_threshold": 0}
    words = [
        refused(formats.convert, tmp_path / "a.onnx", tmp_path / "b.onnx", dry_run=dry_run, **options)
        for dry_run in (True, False)
    ]
    assert words[0] == words[1]
    assert [tmp_path / "a.onnx"] == [*tmp_path.iterdir()]


@pytest.mark.parametrize("is_grouped", [False, True])
def test_only_what_can_be_wrong_is_computed(tmp_path: Path, is_grouped: bool) -> None:
    """Weights in files and those converted piece by piece are not read; only varints are decoded."""

    class Unreadable(Source):
        nbytes = 8

        def readinto(self, offset: int, buffer: memoryview) -> None:
            raise AssertionError("read")

    plan = WritePlan((FilePlan(tmp_path / "a", 8, (PlacedWrite(0, Unreadable(), label="w"),)),))
    execute(plan, EngineOptions(dry_run=True))
    broken = varints("int64").of(Literal(b"\x80"), 8)
    plan = WritePlan((FilePlan(tmp_path / "a", 8, (PlacedWrite(0, broken, label="w"),)),))
    with pytest.raises(WireError) as caught:
        execute(plan, EngineOptions(dry_run=True))
    assert "w" == caught.value.where


def test_memory_and_time_do_not_grow_with_weights(tmp_path: Path, python: Any) -> None:
    """The layout of a model of 64 GiB, which fits on no disk here, is computed in every format with little memory."""
    if not Path("/proc/self/status").exists():
        pytest.skip("only Linux tells the memory of a process in its own file")
    tensor = formats.Tensor(name="w0", data_type=1, dims=[16, 1 << 30])
    entries = [formats.StringStringEntry("location", "w.data"), formats.StringStringEntry("offset", "0")]
    tensor.external_data, tensor.data_location = entries, 1
    whole = model()
    assert whole.graph is not None
    whole.graph.initializer[0] = tensor
    with (tmp_path / "w.data").open("wb") as file:
        file.truncate(1 << 36)
    from formats.onnxpb import wrap

    (tmp_path / "a.onnx").write_bytes(wrap(whole).SerializeToString())
    code = (
        "import formats, os, sys, time\nfrom formats.tensordata import engine\n"
        "engine._check_space = lambda *_: None\nbegun = time.process_time()\n"
        "sizes = [formats.convert('a.onnx', name, dry_run=True).nbytes for name in ('b.onnx', 'b.onnxz', 'b.rten')]\n"
        "assert min(sizes) > 1 << 36, sizes\nassert time.process_time() - begun < 20\n"
        "print([line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')][0])"
    )
    done = python("-c", code)
    assert int(done.stdout or 1 << 30) < 96 << 10, done.stderr


def test_a_full_disk_and_a_folder_that_cannot_be_written(digits: Path, tmp_path: Path, monkeypatch: Any) -> None:
    """If the disk has no space, or the folder is write-protected, the error is the system's."""
    status = namedtuple("status", "f_bfree f_bavail f_frsize f_flag")
    monkeypatch.setattr(os, "statvfs", lambda _: status(1, 1, 4096, 0))
    words = refused(formats.convert, digits, tmp_path / "b.onnx", dry_run=True)
    assert f"[Errno {errno.ENOSPC}] No space left on device: '{tmp_path / 'b.onnx'}'" in words
    monkeypatch.setattr(os, "statvfs", lambda _: status(1 << 40, 1 << 40, 4096, os.ST_RDONLY))
    assert "Read-only file system" in refused(formats.convert, digits, tmp_path / "b.onnx", dry_run=True)
    monkeypatch.undo()
    monkeypatch.setattr(os, "access", lambda *_, **__: False)
    words = refused(formats.convert, digits, tmp_path / "b.onnx", dry_run=True)
    assert f"[Errno {errno.EACCES}] Permission denied: '{tmp_path}'" in words


def test_several_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A dry run of many models creates no folder and no manifest, and reports for each what the run then does."""
    monkeypatch.chdir(tmp_path)
    Path("models/in").mkdir(parents=True)
    for name in ("models/a.onnx", "models/in/b.onnx"):
        formats.save(model(), name)
    Path("models/bad.onnx").write_bytes(b"no model")
    for verb in (["convert", "models", "new/out"], ["batch", "models", "--out", "new/out"]):
        command = [*verb, "--to", "onnxz", "--json", "--parents", "--manifest", "jobs"]
        before = tree(tmp_path)
        foreseen = run("formats", *command, "--dry-run")
        assert before == tree(tmp_path)
        done = run("formats", *command)
        reports = [json.loads(each.stdout) for each in (foreseen, done)]
        for report in reports:
            del report["seconds"]
            for job in report["jobs"]:
                del job["seconds"]
                for name in ("seconds", "dry_run") if job["report"] else ():
                    del job["report"][name]
        assert (1, reports[0]) == (done.exit_code, reports[1])
        assert (foreseen.exit_code, foreseen.stderr) == (done.exit_code, done.stderr)
        states = json.loads(run("formats", *command, "--dry-run").stdout)
        assert (0, 2, 1) == (states["converted"], states["unchanged"], states["failed"])
        for path in ("jobs", *map(str, Path("new/out").rglob("*.onnxz"))):
            os.remove(path)
    shown = run("formats", "convert", "models", "new/out", "--to", "onnxz", "-n").stdout
    assert "would write models/a.onnx -> new/out/a.onnxz" in shown
    assert shown.splitlines()[-1].startswith("2 to convert, 1 failed  ")


@pytest.mark.parametrize("target", ["none/out", "file/out", "file"])
def test_a_folder_that_cannot_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str) -> None:
    """If the folder for many models cannot be created, a dry run reports the same as the run."""
    monkeypatch.chdir(tmp_path)
    formats.save(model(), "a.onnx")
    formats.save(model(), "b.onnx")
    Path("file").write_bytes(b"x")
    command = ["convert", "a.onnx", "b.onnx", target, "--to", "rten"]
    assert run("formats", *command, "-n") == run("formats", *command)


def in_layout(folder: Path, layout: str) -> None:
    """Write two models: a.onnx, in some layout, and sub/c.onnx, in several files."""
    (folder / "sub").mkdir(parents=True)
    split = {"external_data": True, "max_external_file_size": 10_000} if layout == "split" else {}
    formats.save(model(), folder / "a.onnx", **({"external_data": "common.bin"} if layout == "shared" else split))
    if layout == "shared":
        (folder / "b.onnx").write_bytes((folder / "a.onnx").read_bytes())
    if layout == "linked":
        (folder / "a.onnx").rename(folder / "real.onnx")
        (folder / "a.onnx").symlink_to("real.onnx")
    formats.save(model(), folder / "sub" / "c.onnx", max_external_file_size=10_000)


@pytest.mark.sample(3)
@pytest.mark.parametrize("layout", ["one", "split", "shared", "linked"])
@pytest.mark.parametrize(
    "command",
    ["cp new.onnx", "cp sub", "cp sub/c.onnx -f", "mv new.onnx", "mv sub", "mv sub/c.onnx -f", "rm", "rm --all-data"],
)
def test_models_in_their_places(tmp_path: Path, command: str, layout: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A dry run of `cp`, `mv` and `rm` reports what they do then, and changes nothing."""
    in_layout(tmp_path, layout)
    monkeypatch.chdir(tmp_path)
    verb, *others = command.split()
    before = tree(tmp_path)
    foreseen = run("formats", verb, "a.onnx", *others, "--json", "--dry-run")
    assert "would " in run("formats", verb, "a.onnx", *others, "--dry-run").stdout
    assert before == tree(tmp_path)
    done = run("formats", verb, "a.onnx", *others, "--json")
    first, second = (json.loads(each.stdout) for each in (foreseen, done))
    assert (True, False) == (first.pop("dry_run"), second.pop("dry_run"))
    assert (0, 0, first) == (foreseen.exit_code, done.exit_code, second)
    for file in first["written"]:
        assert file["nbytes"] == os.path.getsize(file["path"])
    assert not [path for path in first["removed"] if os.path.lexists(path)]
    assert {*tree(tmp_path)} == {*before, *(str(tmp_path / file["path"]) for file in first["written"])} - {
        str(tmp_path / path) for path in first["removed"]
    }
    left = [file["path"] for file in first["kept"] if "replaced model" in file["reason"]]
    assert left == (
        ["sub/c-00001-of-00002.data", "sub/c-00002-of-00002.data"] if "-f" in others and layout != "split" else []
    )


@pytest.mark.parametrize(("source", "target"), [("a.onnx", "b.onnx"), ("a.onnx", "a.onnx"), ("none.onnx", "c.onnx")])
def test_places_that_are_refused(tmp_path: Path, source: str, target: str) -> None:
    """If `cp` or `mv` refuses something, a dry run refuses it with the same message."""
    for name in "ab":
        formats.save(model(), tmp_path / f"{name}.onnx", external_data=True)
    for verb in ("cp", "mv"):
        paths = tmp_path / source, tmp_path / target
        before = tree(tmp_path)
        foreseen = run("formats", verb, *paths, "-n")
        assert before == tree(tmp_path)
        assert (1, foreseen) == (foreseen.exit_code, run("formats", verb, *paths))


def test_common_weights(tmp_path: Path) -> None:
    """A dry run of `share` lists the data files with their sizes, creates no folder, and is refused like the run."""
    sources = []
    for name in "ab":
        sources.append(tmp_path / f"{name}.onnx")
        formats.save(model(), sources[-1])
    formats.save(model(), tmp_path / "old.onnx")
    for others in ([], [tmp_path / "old.onnx"]):
        sources += others
        before = tree(tmp_path)
        foreseen = formats.share(sources, tmp_path / "out", dry_run=True, overwrite=True).to_json()
        assert before == tree(tmp_path)
        done = formats.share(sources, tmp_path / "out", overwrite=True).to_json()
        assert (True, False) == (foreseen.pop("dry_run"), done.pop("dry_run"))
        assert foreseen == {**done, "seconds": foreseen["seconds"]}
    assert refused(formats.share, sources, tmp_path / "out", dry_run=True) == refused(
        formats.share, sources, tmp_path / "out"
    )
    shown = run("formats", "share", *sources, "--out", tmp_path / "new", "-n")
    assert (0, True) == (shown.exit_code, shown.stdout.startswith("would write "))
    assert not (tmp_path / "new").exists()


def test_other_filesystems(tmp_path: Path) -> None:
    """A dry run also predicts a move to another filesystem, where weights are copied."""
    if not os.path.isdir("/dev/shm") or os.stat("/dev/shm").st_dev == tmp_path.stat().st_dev:
        pytest.skip("this system has no second filesystem at /dev/shm")
    formats.save(model(), tmp_path / "a.onnx", external_data=True)
    place = Path("/dev/shm") / f"formats-{os.getpid()}.onnx"
    foreseen = formats.mv(tmp_path / "a.onnx", place, dry_run=True)
    assert not place.exists()
    try:
        done = formats.mv(tmp_path / "a.onnx", place)
        assert (done.written, done.removed) == (foreseen.written, foreseen.removed)
    finally:
        formats.rm(place)


def test_no_file_without_need(tmp_path: Path) -> None:
    """Bytes in memory and updates of archives have no dry run, and the error says so."""
    with pytest.raises(OptionError, match="dry_run"):
        formats.dumps(model(), "onnx", dry_run=True)
    formats.save(model(), tmp_path / "a.onnxz")
    from formats import onnxzip

    with pytest.raises(OptionError, match="dry_run"):
        onnxzip.update(formats.load(tmp_path / "a.onnxz"), tmp_path / "a.onnxz", engine=EngineOptions(dry_run=True))
