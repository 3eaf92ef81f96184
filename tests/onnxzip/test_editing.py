"""Archives that are changed in place: which bytes are written, which stay, and the result of an interruption."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import formats
from formats import Graph, Model, Node, OperatorSetId, onnxpb, onnxzip
from formats.errors import DecodeError, FormatError
from formats.onnxzip import editing
from formats.onnxzip.reader import read_entries
from formats.tensordata.engine import EngineOptions
from formats.tensordata.file import File
from formats.tensordata.local import output
from formats.tensordata.replacing import lock, tail_replacement
from formats.tensordata.replacing.hidden import undo_path
from formats.tensordata.sources.source import Literal
from formats.verbs.verify import verify
from tests import commands

NAMES = ("a", "b", "c")
KILLS = int(os.environ.get("FORMATS_KILLS", "25"))


def weight(name: str, seed: int = 0, size: int = 5000) -> formats.Tensor:
    """Return a tensor of random bytes."""
    array = np.random.default_rng([*name.encode(), seed]).integers(0, 256, size, "uint8")
    return formats.from_numpy(array, name)


def archive(folder: Path) -> Path:
    """Write an archive of three weights and a graph with some text and a small tensor."""
    value = formats.Attribute(name="value_int", type=2, i=1)
    node = Node(op_type="Constant", output=["y"], attribute=[value], doc_string="x" * 300_000)
    graph = Graph(name="g", node=[node], initializer=[weight(name) for name in NAMES])
    graph.initializer.append(weight("small", size=900))
    path = folder / "m.onnxz"
    formats.save(Model(ir_version=10, opset_import=[OperatorSetId("", 17)], graph=graph), path, overwrite=True)
    return path


def graph_of(model: Model) -> Graph:
    """Return the graph of a model."""
    assert model.graph is not None
    return model.graph


def offsets(path: Path) -> dict[str, int]:
    """Return the offsets of the payloads, by name."""
    return {entry.name: entry.payload_offset for entry in read_entries(Literal(path.read_bytes()))}


def rename(model: Model) -> None:
    """Change the graph only."""
    graph_of(model).node[0].name = "renamed"


def add(model: Model) -> None:
    """Add weights, one of them with a name that exists already."""
    graph_of(model).initializer += [weight("new"), weight("A", 1), weight("tiny", size=3)]


def replace_last(model: Model) -> None:
    """Give the last weight other bytes."""
    graph_of(model).initializer[2] = weight("c", 2, 9000)


def drop_last(model: Model) -> None:
    """Remove the last weight."""
    del graph_of(model).initializer[2]


def drop_middle(model: Model) -> None:
    """Remove a weight that is followed by others."""
    del graph_of(model).initializer[1]


def drop_first(model: Model) -> None:
    """Remove the first weight."""
    del graph_of(model).initializer[0]


def swap(model: Model) -> None:
    """Change the order of the weights."""
    graph_of(model).initializer.reverse()


CHANGES = [
    pytest.param(rename, NAMES, id="rename"),
    pytest.param(add, NAMES, id="add"),
    pytest.param(replace_last, NAMES[:2], id="replace the last"),
    pytest.param(drop_last, NAMES[:2], id="drop the last"),
    pytest.param(drop_middle, NAMES[:1], id="drop one in the middle"),
    pytest.param(drop_first, (), id="drop the first"),
    pytest.param(swap, NAMES, id="swap"),
]


@pytest.mark.parametrize(("change", "stay"), CHANGES)
def test_archive_holds_the_changed_model(
    tmp_path: Path, change: Callable[[Model], None], stay: tuple[str, ...]
) -> None:
    """After an update, a strict reader reads the changed model; weights that can stay are not moved or written."""
    path = archive(tmp_path)
    before, inode = offsets(path), path.stat().st_ino
    model, expected = formats.load(path), formats.loads(path.read_bytes())
    change(model)
    change(expected)
    result = onnxzip.update(model, path)
    assert expected == formats.load(path)
    assert (True, ()) == (verify(path, data=True).ok, verify(path).notes)
    after = offsets(path)
    assert {name: before[name] for name in stay} == {name: after[name] for name in stay}
    assert (bool(stay), bool(stay)) == (result.in_place, path.stat().st_ino == inode)
    first = before[stay[-1]] + 5000 if stay else 0
    assert path.stat().st_size - first == result.written_bytes
    assert ["m.onnxz"] == os.listdir(tmp_path)
    with zipfile.ZipFile(path) as opened:
        assert opened.testzip() is None


def test_updates_add_up(tmp_path: Path) -> None:
    """After many updates of one archive, each of the result of the one before, the model has all changes."""
    path = archive(tmp_path)
    expected = formats.loads(path.read_bytes())
    state = random.Random(3)
    for _ in range(20):
        change = state.choice((rename, add, replace_last, drop_last, swap))
        model = formats.load(path)
        change(model)
        change(expected)
        onnxzip.update(model, path)
        assert expected == formats.load(path)
    assert {"graph"} == {finding.kind for finding in verify(path, data=True).errors}  # some weights were added twice


def test_archives_of_other_tools_are_written_anew(tmp_path: Path) -> None:
    """An archive whose headers are not ours is replaced completely by one of ours."""
    path = archive(tmp_path)
    with zipfile.ZipFile(path) as opened:
        contents = {info.filename: opened.read(info) for info in opened.infolist()}
    with zipfile.ZipFile(path, "w") as opened:
        for name, data in contents.items():
            opened.writestr(name, data)
    model = formats.load(path)
    rename(model)
    assert not onnxzip.update(model, path).in_place
    assert "renamed" == graph_of(formats.load(path)).node[0].name
    assert all(offset % 64 == 0 for offset in offsets(path).values())


def test_models_from_elsewhere_are_written_as_a_whole(tmp_path: Path, tiny_model: Path) -> None:
    """A model that was not read from the archive replaces it completely."""
    path = archive(tmp_path)
    result = onnxzip.update(formats.load(tiny_model), path)
    assert (False, formats.load(tiny_model)) == (result.in_place, formats.load(path))


def test_links_lead_to_the_archive(tmp_path: Path) -> None:
    """An update through a link changes the file that the link points to."""
    (tmp_path / "folder").mkdir()
    real = archive(tmp_path / "folder")
    link = tmp_path / "link.onnxz"
    link.symlink_to(real)
    model = formats.load(link)
    rename(model)
    assert onnxzip.update(model, link).in_place
    assert link.is_symlink()
    assert formats.load(real) == formats.load(link)
    assert ["m.onnxz"] == os.listdir(tmp_path / "folder")


def test_stale_models_are_refused(tmp_path: Path) -> None:
    """A model cannot be written to its archive if the archive has changed since it was read."""
    path = archive(tmp_path)
    model, stale = formats.load(path), formats.load(path)
    rename(model)
    onnxzip.update(model, path)
    content = path.read_bytes()
    with pytest.raises(FormatError, match="changed"):
        onnxzip.update(stale, path)
    assert content == path.read_bytes()


@pytest.mark.parametrize("change", [rename, add, drop_last])
def test_errors_leave_the_archive_as_it_was(
    tmp_path: Path, change: Callable[[Model], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever write fails, the archive stays unchanged, and nothing is left next to it."""
    path = archive(tmp_path)
    content, write = path.read_bytes(), output.ExistingFile.pwrite
    for limit in range(1, 4):
        count = [0]

        def fail(self: Any, offset: int, data: Any, count: list[int] = count, limit: int = limit) -> None:
            count[0] += 1
            if count[0] == limit and isinstance(self, output.ExistingFile):
                raise OSError(28, "no space left on device")
            write(self, offset, data)

        model = formats.load(path)
        change(model)
        with monkeypatch.context() as patch:
            patch.setattr(output.ExistingFile, "pwrite", fail)
            try:
                onnxzip.update(model, path, engine=EngineOptions(threads=1))
            except OSError:
                assert content == path.read_bytes()
            else:
                content = path.read_bytes()
        assert ["m.onnxz"] == os.listdir(tmp_path)


STEPS = [
    (tail_replacement, "_save"),
    *((output.ExistingFile, name) for name in ("truncate", "pwrite", "sync")),
    (tail_replacement, "remove_file"),
]
LOCKED = (lock.ModelLock, "__enter__"), (lock.ModelLock, "__exit__")


@pytest.mark.sample(3)
@pytest.mark.skipif(not hasattr(os, "fork"), reason="only POSIX forks processes, which end at a given call")
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(("holder", "name"), [*STEPS, *LOCKED], ids=[name for _, name in [*STEPS, *LOCKED]])
def test_every_step_can_be_the_last(tmp_path: Path, holder: Any, name: str, when: str) -> None:
    """A process that ends before or after any step leaves the old or the new archive, as our readers see it."""
    path = archive(tmp_path)
    old = path.read_bytes()
    model = formats.load(path)
    rename(model)
    child = os.fork()
    if not child:
        step = getattr(holder, name)

        def last(*arguments: Any) -> None:
            if when == "after":
                step(*arguments)
            os._exit(9)

        setattr(holder, name, last)
        onnxzip.update(model, path)
        os._exit(0)
    assert 9 << 8 == os.waitpid(child, 0)[1]
    check_and_repair(path, old)


def check_and_repair(path: Path, old: bytes) -> str:
    """Check that an interrupted update left the "old" or the "new" archive, also after a repair, and return which."""
    undo, before = (
        undo_path(path),
        {name: (path.parent / name).read_bytes() for name in os.listdir(path.parent)},
    )
    found = "new" if graph_of(formats.load(path)).node[0].name == "renamed" else "old"
    assert formats.loads(old) == formats.load(path) or found == "new"
    assert (found == "new") == (onnxpb.load(path).graph.node[0].name == "renamed")
    assert verify(path, data=True).ok
    assert formats.inspect(path).tensors
    assert formats.diff(path, path).equal
    formats.convert(path, path.with_suffix(".onnx"))
    assert formats.loads(old) == formats.load(path.with_suffix(".onnx")) or found == "new"
    path.with_suffix(".onnx").unlink()
    assert before == {
        name: (path.parent / name).read_bytes() for name in os.listdir(path.parent)
    }  # readers write nothing
    if undo.exists():
        with pytest.raises((FileExistsError, DecodeError)):
            onnxzip.update(Model(graph=Graph()), path)
    was_put_back = onnxzip.repair(path)
    assert verify(path, data=True).ok
    assert [path.name] == os.listdir(path.parent)
    if found == "old":
        assert old == path.read_bytes()
    else:
        assert not was_put_back
    return found


def start(work: Callable[[], object]) -> int:
    """Start a process that does some work, and return its id; its exit code is 0 when the work is done."""
    child = os.fork()
    if not child:
        try:
            work()
            os._exit(0)
        finally:
            os._exit(1)
    return child


def killed(folder: Path, before: dict[str, bytes], work: Callable[[], object]) -> Iterator[None]:
    """Yield each time after a process that did some work in a folder with these files was killed at a random moment."""
    state, longest = random.Random(5), 60.0
    for number in range(KILLS + 1):
        for name in os.listdir(folder):
            (folder / name).unlink()
        for name, content in before.items():
            (folder / name).write_bytes(content)
        started = time.perf_counter()
        child = start(work)
        if not number:
            assert 0 == os.waitpid(child, 0)[1]
            longest = 1.2 * (time.perf_counter() - started)
            continue
        time.sleep(state.uniform(0, longest))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        yield


@pytest.mark.outer
@pytest.mark.skipif(not hasattr(os, "fork"), reason="only POSIX forks processes, which are killed")
def test_kill_at_any_moment_of_an_update(tmp_path: Path) -> None:
    """A process that is killed at a random moment leaves the old archive or the new one."""
    path = archive(tmp_path)
    old = path.read_bytes()

    def work() -> None:
        model = formats.load(path)
        rename(model)
        onnxzip.update(model, path)

    results = Counter(check_and_repair(path, old) for _ in killed(tmp_path, {path.name: old}, work))
    print(f"after {KILLS} kills of updates: {dict(results)}")


@pytest.mark.sample(2)
@pytest.mark.skipif(not hasattr(os, "fork"), reason="only POSIX forks processes, which are killed")
@pytest.mark.parametrize("replaced", [False, True])
def test_kill_at_any_moment_of_writing(tmp_path: Path, replaced: bool) -> None:
    """A process that is killed at a random moment leaves the destination as it was, or the complete new archive."""
    path, model = tmp_path / "m.onnxz", Model(graph=Graph(initializer=[weight(name, size=3 << 20) for name in NAMES]))
    new, old = formats.dumps(model, "onnxz"), b"old"

    def work() -> None:
        formats.save(model, path, overwrite=True)

    results = Counter[str]()
    for _ in killed(tmp_path, {path.name: old} if replaced else {}, work):
        found = path.read_bytes() if path.exists() else None
        assert found in (new, old if replaced else None)
        assert all(name.startswith(".") for name in os.listdir(tmp_path) if name != path.name)
        results["new" if found == new else "old"] += 1
        if found is not None:
            formats.repair(path)
            assert [path.name] == os.listdir(tmp_path)
    print(f"after {KILLS} kills of writers: {dict(results)}")


def test_damaged_undo_files_are_refused(tmp_path: Path) -> None:
    """A damaged undo file is refused, and the archive is not restored from it."""
    path = archive(tmp_path)
    path.write_bytes(path.read_bytes()[:-1])
    for content in (b"", b"UNDOTAIL" + bytes(40), b"UNDOTAIL" + bytes(50)):
        undo_path(path).write_bytes(content)
        with pytest.raises(DecodeError):
            onnxzip.repair(path)
    undo_path(path).unlink()
    with pytest.raises(DecodeError):
        onnxzip.repair(path)


def test_command_repairs(tmp_path: Path) -> None:
    """`formats repair` restores an archive, and reports if it was complete already."""
    path = archive(tmp_path)
    old = path.read_bytes()
    start = offsets(path)["c"] + 5000
    done = commands.run("formats", "repair", path)
    assert (0, f"{path}: nothing to repair: no write was interrupted\n") == (done.exit_code, done.stdout)
    tail_replacement._save(File.open(path).span().slice(start, len(old) - start), start, undo_path(path))
    path.write_bytes(old[: start + 10])
    assert formats.loads(old) == formats.load(path)
    done = commands.run("formats", "repair", path)
    assert (0, f"{path}: restored to its old state\n") == (done.exit_code, done.stdout)
    assert old == path.read_bytes()


@pytest.mark.parametrize("change", [rename, drop_first])
@pytest.mark.parametrize("moment", ["pack", "_save", "__enter__"])
@pytest.mark.parametrize("how", ["replace", "update", "touch"])
def test_another_process_is_not_overwritten(
    tmp_path: Path, change: Callable[[Model], None], moment: str, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If another process writes during an update, one of the two is refused, and the result of the other stays."""
    path, other = archive(tmp_path), formats.load(archive(tmp_path))
    graph_of(other).name = "theirs"
    monkeypatch.setattr(lock, "WAIT_SECONDS", 0.05)
    holder = {"pack": editing.Packing, "_save": tail_replacement, "__enter__": lock.ModelLock}[moment]
    step, outcomes = getattr(holder, moment), []

    def interrupted(*arguments: Any) -> Any:
        if not outcomes:
            outcomes.append("tried")
            try:
                if how == "replace":
                    formats.save(other, path, overwrite=True)
                elif how == "update":
                    onnxzip.update(other, path)
                else:
                    data = path.read_bytes().replace(b"\x0a\x01g", b"\x0a\x01h")
                    path.write_bytes(data)
                outcomes[:] = ["done"]
            except BlockingIOError:
                outcomes[:] = ["refused"]
        return step(*arguments)

    model = formats.load(path)
    change(model)
    with monkeypatch.context() as patch:
        patch.setattr(holder, moment, interrupted)
        try:
            onnxzip.update(model, path)
        except (FormatError, OSError) as error:
            assert outcomes == ["done"], error
        else:
            assert outcomes in (["refused"], [])  # an archive that is written completely needs no undo file
    if outcomes == ["done"] and how != "touch":
        assert "theirs" == graph_of(formats.load(path)).name
    if how != "touch":
        assert verify(path, data=True).ok
    assert [path.name] == os.listdir(tmp_path)


def test_changes_within_one_tick_are_noticed(tmp_path: Path) -> None:
    """A change by another process that left the file's times the same is noticed by the archive's directory."""
    path = archive(tmp_path)
    model, status = formats.load(path), path.stat()
    rename(model)
    file = File.open(path)
    file.pread(0, 10)
    data = path.read_bytes()
    changed = data.replace(b"\x0a\x01g", b"\x0a\x01h")
    real = editing.replace_tail

    def replace_tail(*arguments: Any) -> None:
        with path.open("r+b") as target:
            target.write(changed[:-30] + b"\1" + changed[-29:])
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
        real(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(editing, "replace_tail", replace_tail)
        with pytest.raises(FormatError, match="changed since it was read"):
            onnxzip.update(model, path)
    assert changed[:-30] + b"\1" + changed[-29:] == path.read_bytes()


def test_writers_wait_for_an_update(tmp_path: Path) -> None:
    """`update`, `convert --force` and `repair` each wait for the owner of the lock, and continue when it is free."""
    path = archive(tmp_path)
    model = formats.load(path)
    rename(model)
    for work in (
        lambda model: onnxzip.update(model, path),
        lambda model: formats.save(model, path, overwrite=True),
        lambda model: formats.repair(path),
    ):
        held = lock.ModelLock(path)
        with held, pytest.MonkeyPatch.context() as patch:
            patch.setattr(lock, "WAIT_SECONDS", 0.05)
            with pytest.raises(BlockingIOError, match="another process is writing this model"):
                work(model)
        held.__enter__()
        timer = threading.Timer(0.1, lambda held=held: held.__exit__())  # type: ignore[misc]
        timer.start()
        work(model)
        timer.join()
        model = formats.load(path)
        assert [path.name] == os.listdir(tmp_path)
