"""Behaviour of other systems, which are emulated: Windows, which locks open files, macOS, exFAT and FAT."""

from __future__ import annotations

import errno
import importlib.util
import mmap
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path, PureWindowsPath
from typing import Any

import numpy as np
import pytest

import formats
from formats import onnxzip
from formats.errors import ExternalDataError, FormatError, TensorDataError
from formats.onnxpb.external import confinement
from formats.tensordata.engine import EngineOptions, execute
from formats.tensordata.file import File
from formats.tensordata.local import directory, osio, output
from formats.tensordata.local.directory import remove_file
from formats.tensordata.local.osio import SYSTEM, Capabilities, extended, is_windows_name
from formats.tensordata.local.output import ExistingFile, OutputFile
from formats.tensordata.plan import FilePlan, PlacedWrite, WritePlan, check_plan
from formats.tensordata.replacing.hidden import undo_path
from formats.tensordata.sources.source import Concat, Literal

WINDOWS = Capabilities(
    positional=False,
    vectored=False,
    copy_range=False,
    allocate=False,
    unnamed=False,
    hard_link=True,
    untracked_mapping=False,
    unlinked_mapping=True,
    locks_open_files=True,
    windows_paths=True,
)

pytestmark = pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="only Linux tells who has a file open")


def is_open(path: Path | str) -> bool:
    """Return whether this process has a file open or mapped."""
    status = os.stat(path)
    for number in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            if os.path.samestat(os.fstat(int(number)), status):
                return True
    inodes = {line.split()[4] for line in Path("/proc/self/maps").read_text().splitlines()}
    return str(status.st_ino) in inodes


@pytest.fixture
def windows(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A system like Windows: it does not replace, move or remove open files, or truncate mapped ones."""

    def guarded(real: Callable[..., Any]) -> Callable[..., Any]:
        def change(*paths: Any, **options: Any) -> Any:
            for path in paths:
                if os.path.lexists(path) and is_open(path):
                    raise PermissionError(errno.EACCES, "Access is denied", str(path))
            return real(*paths, **options)

        return change

    def ftruncate(descriptor: int, nbytes: int, real: Callable[..., Any] = os.ftruncate) -> None:
        maps = Path("/proc/self/maps").read_text().splitlines()
        if str(os.fstat(descriptor).st_ino) in {line.split()[4] for line in maps}:
            raise PermissionError(errno.EACCES, "a user-mapped section is open")
        real(descriptor, nbytes)

    for name in ("replace", "rename", "unlink", "remove"):
        monkeypatch.setattr(os, name, guarded(getattr(os, name)))
    for name in ("replace", "rename", "unlink"):
        monkeypatch.setattr(Path, name, guarded(getattr(Path, name)))
    monkeypatch.setattr(os, "ftruncate", ftruncate)
    monkeypatch.setattr(directory, "PATIENCE", (0.001, 0.001))

    class Mapping(mmap.mmap):
        def __new__(cls, *arguments: Any, **options: Any) -> Any:
            if "trackfd" in options:
                raise TypeError("'trackfd' is an invalid keyword argument for mmap()")
            return super().__new__(cls, *arguments, **options)

    monkeypatch.setattr(mmap, "mmap", Mapping)
    before = {name: getattr(SYSTEM, name) for name in SYSTEM.__slots__}
    for name in SYSTEM.__slots__:
        object.__setattr__(SYSTEM, name, getattr(WINDOWS, name))
    yield
    for name, value in before.items():
        object.__setattr__(SYSTEM, name, value)


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], Any]:
    """Import a module again, next to the existing one, as on the system that the test simulates."""

    def fresh(module: Any) -> Any:
        name = f"{module.__name__}_elsewhere"
        spec = importlib.util.spec_from_file_location(name, module.__file__)
        assert spec is not None and spec.loader is not None
        new = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, name, new)
        spec.loader.exec_module(new)
        return new

    return fresh


def names(folder: Path) -> list[str]:
    """Return the names in a folder."""
    return sorted(os.listdir(folder))


def test_the_emulation_is_as_strict_as_windows(windows: None, path: Path) -> None:
    """An open file and a mapped one cannot be removed, and a closed one can."""
    with path.open("rb"), pytest.raises(PermissionError):
        os.unlink(path)
    with path.open("rb") as stream:
        mapping = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
    with pytest.raises(PermissionError):
        path.unlink()
    mapping.close()
    path.unlink()


def test_windows_is_known(monkeypatch: pytest.MonkeyPatch, elsewhere: Callable[[Any], Any]) -> None:
    """On Windows, mmap has no `trackfd`, a mapping has no descriptor, and open files are locked."""
    monkeypatch.setattr(os, "name", "nt")
    monkeypatch.setattr(sys, "version_info", (3, 13))
    system = elsewhere(osio).SYSTEM
    assert (False, True, True, True) == (
        system.untracked_mapping,
        system.unlinked_mapping,
        system.locks_open_files,
        system.windows_paths,
    )


def test_other_systems_lock_nothing(monkeypatch: pytest.MonkeyPatch, elsewhere: Callable[[Any], Any]) -> None:
    """On other systems, open files can be replaced, and mappings need no descriptor from Python 3.13 on."""
    for version, untracked in (((3, 12), False), ((3, 13), True)):
        monkeypatch.setattr(sys, "version_info", version)
        system = elsewhere(osio).SYSTEM
        assert (untracked, untracked) == (system.untracked_mapping, system.unlinked_mapping)
        assert not system.locks_open_files
        assert not system.windows_paths


@pytest.mark.parametrize("keep_open", [True, False])
def test_weights_are_mapped_without_trackfd(windows: None, path: Path, keep_open: bool) -> None:
    """A file is mapped if mmap refuses `trackfd`, and is not copied to memory if it is not kept open."""
    file = File.open(path, keep_open, capabilities=WINDOWS)
    view = file.map(3, 5)
    assert isinstance(view.obj, mmap.mmap)
    assert b"\3\4\5\6\7" == bytes(view)


def test_a_plan_replaces_its_source(windows: None, path: Path) -> None:
    """A plan that reads from the file that it replaces is executed, although the system locks open files."""
    source = File.open(path, capabilities=WINDOWS).span()
    old = path.read_bytes()
    assert 0 == bytes(source.view()[:1])[0]
    content = Concat.of(Literal(b"head"), source)
    plan = WritePlan((FilePlan(path, content.nbytes, (PlacedWrite(0, content),)),))
    execute(plan, EngineOptions(overwrite=True, capabilities=WINDOWS))
    assert b"head" + old == path.read_bytes()
    assert [path.name] == names(path.parent)
    with pytest.raises(TensorDataError, match="changed since it was read"):
        source.read(0, 1)


def test_a_model_is_converted_over_itself(windows: None, digits: Path) -> None:
    """`convert a.onnx a.onnx --external-data --force`, and back, leaves the model and its data file, and no more."""
    before = formats.dumps(formats.load(digits), "onnx")
    for external in (True, True, False):
        formats.convert(digits, digits, overwrite=True, external_data=external)
        assert before == formats.dumps(formats.load(digits), "onnx", external_data=False)
    assert ["digits.onnx", "digits.onnx.data"] == names(digits.parent)


def test_views_keep_a_file_from_being_replaced(windows: None, digits: Path) -> None:
    """While an array uses its weights, a model cannot be replaced there: it stays, and the error says why."""
    model = formats.load(digits)
    assert model.graph is not None
    array = max((tensor.numpy() for tensor in model.graph.initializer), key=lambda array: array.nbytes)
    old = digits.read_bytes()
    with pytest.raises(PermissionError, match="this program uses its weights") as caught:
        formats.save(model, digits, overwrite=True)
    assert str(digits) == caught.value.filename
    assert old == digits.read_bytes()
    assert ["digits.onnx"] == names(digits.parent)
    del array
    formats.save(model, digits, overwrite=True)


def test_who_reads_on_finds_the_file_again(windows: None, path: Path) -> None:
    """A file that was closed to be replaced, and then was not replaced, is read as before."""
    file = File.open(path, capabilities=WINDOWS)
    file.map(0, 10)
    assert file.let_go()
    assert path.read_bytes() == file.span().read()
    assert path.read_bytes() == bytes(file.map(0, 1000))


def test_a_scanner_delays_and_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that a virus scanner has open for a moment is replaced when it is free, and refused if it stays open."""
    monkeypatch.setattr(directory, "PATIENCE", (0.0,) * 5)
    refusals = [5]
    real = Path.replace

    def replace(self: Path, target: Path) -> Any:
        if refusals[0] and target.name == "model":
            refusals[0] -= 1
            raise PermissionError(errno.EACCES, "Access is denied", str(target))
        return real(self, target)

    monkeypatch.setattr(Path, "replace", replace)
    for count, fails in ((5, False), (6, True)):
        (tmp_path / "model").write_bytes(b"old")
        refusals[0] = count
        made = OutputFile(tmp_path / "model", 3, overwrite=True, capabilities=WINDOWS)
        made.pwrite(0, b"new")
        if fails:
            with pytest.raises(PermissionError, match="open in another program"):
                made.publish()
            made.discard()
        else:
            made.publish()
            made.close()
        assert (b"old" if fails else b"new") == (tmp_path / "model").read_bytes()
        assert ["model"] == names(tmp_path)


def test_an_open_file_is_removed(windows: None, path: Path) -> None:
    """A file that this process reads can be removed."""
    file = File.open(path, capabilities=WINDOWS)
    file.map(0, 1)
    remove_file(path, WINDOWS)
    assert not path.exists()


def test_a_mapped_file_is_cut(windows: None, path: Path) -> None:
    """A file that is changed in place can be truncated, although it was mapped before."""
    file = File.open(path, capabilities=WINDOWS)
    file.map(0, 1)
    existing = ExistingFile(path)
    existing.truncate(10)
    existing.close()
    assert 10 == path.stat().st_size


def test_an_archive_is_updated_and_repaired(windows: None, digits: Path) -> None:
    """An update in place, and the repair of an interrupted one, remove an undo file that they have read."""
    archive = digits.with_suffix(".onnxz")
    formats.convert(digits, archive)
    old = archive.read_bytes()
    model = formats.load(archive)
    model.producer_name = "me"
    onnxzip.update(model, archive)
    assert "me" == formats.load(archive).producer_name
    archive.write_bytes(old)

    class Killed(BaseException):
        pass

    def killed(*arguments: Any) -> None:
        raise Killed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("formats.tensordata.replacing.tail_replacement.transfer", killed)
        patch.setattr("formats.tensordata.replacing.tail_replacement._restore", killed)
        model = formats.load(archive)
        model.producer_name = "you"
        with pytest.raises(Killed):
            onnxzip.update(model, archive)
    assert undo_path(archive).exists()
    del model
    assert onnxzip.repair(archive)
    assert old == archive.read_bytes()
    assert ["digits.onnx", "digits.onnxz"] == names(digits.parent)


def test_a_folder_is_called_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows denies the permission to open a folder, but the error says that it is a folder."""

    def denied(path: Any, *arguments: Any) -> int:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(os, "open", denied)
    with pytest.raises(IsADirectoryError, match=str(tmp_path)):
        File.open(tmp_path)
    with pytest.raises(PermissionError, match="secret"):
        File.open(tmp_path / "secret")


@pytest.mark.parametrize(
    ("name", "possible"),
    [
        ("model.onnx", True),
        ("model.onnx.data", True),
        ("", True),
        ("..", True),
        ("console.onnx", True),
        ("com.onnx", True),
        ("a,b;c'd=e (1).onnx", True),
        ("NUL", False),
        ("con.onnx", False),
        ("aux .onnx", False),
        ("Lpt1.tar.gz", False),
        ("model.onnx:weights", False),
        ("a?.onnx", False),
        ("a\x1f.onnx", False),
        ("model.", False),
        ("model ", False),
    ],
)
def test_names_of_windows(tmp_path: Path, name: str, possible: bool) -> None:
    """Names of devices or streams, and names that Windows would shorten, are refused, not written elsewhere."""
    assert possible == is_windows_name(name)
    if not possible:
        with pytest.raises(OSError, match="Windows does not allow this file name"):
            OutputFile(tmp_path / name, 1, capabilities=WINDOWS)
        with pytest.raises(FormatError, match="Windows does not allow this file name"):
            File.open(tmp_path / name, capabilities=WINDOWS)
        assert [] == names(tmp_path)


@pytest.mark.parametrize(
    ("path", "form"),
    [
        ("C:\\models\\a.onnx", "C:\\models\\a.onnx"),
        (f"C:\\{'m' * 300}\\a.onnx", f"\\\\?\\C:\\{'m' * 300}\\a.onnx"),
        (f"\\\\server\\share\\{'m' * 300}", f"\\\\?\\UNC\\server\\share\\{'m' * 300}"),
        (f"\\\\?\\C:\\{'m' * 300}", f"\\\\?\\C:\\{'m' * 300}"),
    ],
)
def test_long_paths_of_windows(path: str, form: str) -> None:
    """A path that is too long for Windows is passed in a form that may have any length."""
    assert form == extended(path)
    assert PureWindowsPath(form).is_absolute()


def test_another_drive_is_outside(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A link to a file on another drive of Windows leads outside of the model's directory, without another error."""
    folders = {"model.onnx": "C:\\Models\\model.onnx", tmp_path.name: "C:\\Models"}
    for place, inside in (("D:\\w", False), ("C:\\models\\w", True), ("C:\\models2\\w", False)):
        files = confinement.DataFiles(tmp_path / "model.onnx")
        with monkeypatch.context() as patch:
            patch.setattr(confinement, "Path", PureWindowsPath)
            patch.setattr(os.path, "realpath", lambda path, place=place: folders.get(Path(path).name, place))
            if inside:
                assert PureWindowsPath(place) == files._resolve(tmp_path / "w")
            else:
                with pytest.raises(ExternalDataError, match="outside the model's directory"):
                    files._resolve(tmp_path / "w")


@pytest.mark.parametrize(
    ("number", "means"),
    [
        (45, "ENOTSUP of macOS, for exFAT"),
        (102, "EOPNOTSUPP of macOS"),
        (errno.EPERM, "FAT on Linux"),
        (errno.EACCES, "Android"),
        (errno.EMLINK, "a file with as many names as it can have"),
        (errno.EINVAL, "FAT on Windows"),
    ],
)
@pytest.mark.parametrize("overwrite", [True, False])
def test_systems_without_links(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    elsewhere: Callable[[Any], Any],
    number: int,
    means: str,
    overwrite: bool,
) -> None:
    """Whatever error a filesystem without hard links gives, files are published, replaced and restored without them."""
    monkeypatch.setattr(errno, "ENOTSUP", 45)
    monkeypatch.setattr(errno, "EOPNOTSUPP", 102)
    module = elsewhere(directory)

    def link(*arguments: Any, **options: Any) -> None:
        raise OSError(number, means)

    monkeypatch.setattr(os, "link", link)
    monkeypatch.setattr(output, "move_to_free", module.move_to_free)
    if overwrite:
        (tmp_path / "model").write_bytes(b"old")
    made = OutputFile(tmp_path / "model", 3, overwrite=overwrite, capabilities=Capabilities(unnamed=False))
    made.pwrite(0, b"new")
    made.publish()
    made.close()
    assert b"new" == (tmp_path / "model").read_bytes()
    assert ["model"] == names(tmp_path)


def test_other_errors_of_links_are_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk error is not interpreted as a filesystem without links."""

    def link(*arguments: Any, **options: Any) -> None:
        raise OSError(errno.EIO, "Input/output error")

    made = OutputFile(tmp_path / "model", 3, capabilities=Capabilities(unnamed=False))
    monkeypatch.setattr(os, "link", link)
    with pytest.raises(OSError, match="Input/output error"):
        made.publish()
    made.discard()
    assert [] == names(tmp_path)


@pytest.mark.parametrize("supported", [True, False])
def test_macos_is_asked_for_more_than_fsync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, supported: bool) -> None:
    """On macOS, `fsync` only reaches the memory of the drive; the call that reaches the disk is used if it exists."""
    import fcntl

    calls: list[str] = []

    def control(descriptor: int, command: int) -> int:
        calls.append("F_FULLFSYNC" if command == 51 else str(command))
        if not supported:
            raise OSError(errno.EINVAL, "Invalid argument")
        return 0

    made = OutputFile(tmp_path / "model", 3)
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(fcntl, "F_FULLFSYNC", 51, raising=False)
    monkeypatch.setattr(fcntl, "fcntl", control)
    monkeypatch.setattr(output, "sync_directory", lambda path: None)
    monkeypatch.setattr(os, "fsync", lambda descriptor: calls.append("fsync"))
    made.publish(fsync=True)
    made.close()
    assert (["F_FULLFSYNC"] if supported else ["F_FULLFSYNC", "fsync"]) == calls


@pytest.mark.parametrize(
    ("seconds", "nbytes", "changed"),
    [
        (1_700_000_000.0, 1000, False),
        (1_700_000_002.0, 1000, False),  # rounded up
        (1_700_000_002.5, 1000, True),
        (1_700_000_004.0, 1000, True),
        (1_700_000_000.0, 999, True),
    ],
)
def test_times_that_a_fat_rounds(path: Path, seconds: float, nbytes: int, changed: bool) -> None:
    """A time that only lost the precision that FAT lacks is not a change of the file; any other time is."""
    os.utime(path, ns=(0, 1_700_000_000_123_456_789))
    file = File.open(path, keep_open=False)
    os.truncate(path, nbytes)
    os.utime(path, ns=(0, int(seconds * 10**9)))
    if changed:
        with pytest.raises(TensorDataError, match="changed since it was read"):
            file.check_unchanged()
    else:
        file.check_unchanged()


def test_names_that_differ_in_case_are_one_file(tmp_path: Path, digits: Path) -> None:
    """Weights are not written to a file that is the model itself if case is ignored, and no plan has such files."""
    with pytest.raises(formats.OptionError, match="must be another file"):
        formats.convert(digits, tmp_path / "model.onnx", external_data="MODEL.onnx", size_threshold=0)
    assert ["digits.onnx"] == names(tmp_path)
    with pytest.raises(ValueError, match="same path"):
        check_plan(WritePlan((FilePlan(tmp_path / "a.data", 0, ()), FilePlan(tmp_path / "A.data", 0, ()))))


def test_data_files_of_tensors_that_differ_in_case(tmp_path: Path) -> None:
    """Tensors `w` and `W` get data files that are two files on every system."""
    graph = formats.Graph(name="g")
    graph.initializer = [formats.from_numpy(np.full(100, n, np.float32), name) for n, name in enumerate(("w", "W"))]
    model = formats.Model(ir_version=8, graph=graph, opset_import=[formats.OperatorSetId(version=17)])
    formats.save(model, tmp_path / "m.onnx", external_data=True, one_file_per_tensor=True, size_threshold=0)
    assert 3 == len({name.lower() for name in names(tmp_path)})
    again = formats.load(tmp_path / "m.onnx").graph
    assert again is not None
    assert [0.0, 1.0] == [float(tensor.numpy()[0]) for tensor in again.initializer]
