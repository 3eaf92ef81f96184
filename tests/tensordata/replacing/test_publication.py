"""Several files that are replaced together: states after an interruption, their completion, and attacks."""

from __future__ import annotations

import itertools
import json
import os
import random
import stat
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partialmethod
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import formats
from formats import Graph, Model, OperatorSetId, onnxpb
from formats.errors import DecodeError, FormatError
from formats.tensordata.local.osio import SYSTEM
from formats.tensordata.replacing import journal, lock, publication
from formats.tensordata.replacing.hidden import hidden_path, is_temporary, temporaries, temporary_path
from formats.tensordata.replacing.journal import journal_path, load_journal
from tests.systems import posix

OPTIONS: dict[str, Any] = {"external_data": True, "max_external_file_size": 3000, "overwrite": True}


def model(number: int) -> Model:
    """Return a model with this number as its name and in all its weights."""
    weights = [formats.from_numpy(np.full(500, number, "float32"), f"w{index}") for index in range(3)]
    imports = [OperatorSetId(version=21)]
    graph = Graph(name="g", initializer=weights)
    return Model(ir_version=10, producer_name=str(number), opset_import=imports, graph=graph)


def number_of(path: Path, load: Callable[..., Any] = formats.load) -> int | None:
    """Return the number that the model at a path has as its name and in all its weights; `None` without a model."""
    try:
        found = load(path)
    except FileNotFoundError:
        return None
    numbers = {float(found.producer_name or "nan")}
    for tensor in found.graph.initializer:
        numbers |= set(np.frombuffer(tensor.raw_data if load is onnxpb.load else tensor.source().read(), "float32"))
    assert len(numbers) == 1, numbers
    return int(numbers.pop())


def names(folder: Path) -> list[str]:
    """Return the names of everything in a folder."""
    return sorted(os.listdir(folder))


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize(("fsync", "new", "replaced"), [(None, False, True), (True, True, True), (False, False, False)])
def test_what_is_forced_to_the_disk(
    tmp_path: Path, several: bool, fsync: bool | None, new: bool, replaced: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By default, files that replace others are synced, with their folder, new files are not; `fsync` changes this."""
    synced: list[str] = []
    real = os.fsync

    def fsync_of(descriptor: int) -> None:
        synced.append("folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync_of)
    path, options = tmp_path / "m.onnx", OPTIONS if several else {"overwrite": True}
    for expected in (new, replaced):
        synced.clear()
        formats.save(model(1), path, fsync=fsync, **options)
        assert (expected, expected) == ("file" in synced, "folder" in synced)
        if expected and several:
            assert synced.count("file") >= 4
            assert synced[:4] == ["file"] * 4  # before anything is moved


def test_old_models_are_away_before_new_data_come(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder is forced to the disk after old models leave it, and again before new ones come to their places."""
    steps: list[str] = []
    path = tmp_path / "m.onnx"
    formats.save(model(1), path, **OPTIONS)
    real_fsync = os.fsync

    def fsync(descriptor: int) -> None:
        steps.extend(["sync"] * stat.S_ISDIR(os.fstat(descriptor).st_mode))
        real_fsync(descriptor)

    def step(self: Any, model: Any, *rest: Any, real: Any, name: str, **keywords: Any) -> Any:
        steps.append(name if name == "away" or model.name != path.name else "model")
        return real(self, model, *rest, **keywords)

    monkeypatch.setattr(os, "fsync", fsync)
    for method, name in (("_put_aside", "away"), ("_place", "data")):
        real = getattr(publication._Steps, method)
        monkeypatch.setattr(publication._Steps, method, partialmethod(step, real=real, name=name))
    formats.save(model(2), path, **OPTIONS)
    order = [name for name, _ in itertools.groupby(steps)]
    assert ["away", "sync", "data", "sync", "model"] == order[order.index("away") : order.index("model") + 1]


class Killed(BaseException):
    """Simulates the end of the process."""


def interrupted(path: Path, number: int, after: int, monkeypatch: pytest.MonkeyPatch, **options: Any) -> None:
    """Write the model with this number in a process that is killed after this many steps."""
    steps = 0

    def counted(name: str) -> Callable[..., Any]:
        real = getattr(publication, name)

        def step(*arguments: Any, **keywords: Any) -> Any:
            nonlocal steps
            if steps == after:
                raise Killed
            steps += 1
            return real(*arguments, **keywords)

        return step

    with monkeypatch.context() as patch:
        for name in ("move_file", "make_link", "unlink", "move_to_free", "_write_journal"):
            patch.setattr(publication, name, counted(name))
        patch.setattr(publication, "_give_up", lambda steps, lock: lock.keep())
        try:
            formats.save(model(number), path, **{**OPTIONS, **options})
        except Killed:
            hidden_path(path, "lock").touch()
    assert number_of(path) in (1, number, None)


@pytest.mark.sample(5)
@pytest.mark.parametrize("fsync", [True, pytest.param(False, marks=pytest.mark.outer)])
@pytest.mark.parametrize("new", [True, False])
def test_whoever_comes_next_completes_it(
    tmp_path: Path, fsync: bool, new: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever a write ends, readers find the old model, the new one or none; a repair or a write completes it."""
    found = set()
    for then in ("repair", "write", "write elsewhere"):
        for after in range(3, 17) if then == "write elsewhere" else range(22):
            for name in names(tmp_path):
                (tmp_path / name).unlink()
            path = tmp_path / "m.onnx"
            if not new:
                formats.save(model(1), path, **OPTIONS)
            interrupted(path, 2, after, monkeypatch, fsync=fsync)
            states = {number_of(path), number_of(path, onnxpb.load)}
            assert len(states) == 1
            found |= states
            if then == "repair":
                try:
                    formats.repair(path)
                except FileNotFoundError:
                    assert states == {None}
                assert number_of(path) in ({1, 2} if not new else {None, 2})
                assert number_of(path) == 2 or states <= {1, None}
                count = 0 if number_of(path) is None else 4
            elif then == "write":
                formats.save(model(3), path, **OPTIONS)
                assert number_of(path) == 3
                count = 4
            else:
                formats.save(model(3), tmp_path / "other.onnx")
                assert {number_of(path)} == states
                continue
            assert count == len([name for name in names(tmp_path) if not name.startswith(".")])
            assert not [name for name in names(tmp_path) if name.startswith(".")]
    assert found >= ({None, 2} if new else {1, 2})


@pytest.mark.parametrize("new", [True, False])
def test_a_dry_run_foresees_what_will_be_completed(tmp_path: Path, new: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever a write ends, a dry run fails with the same error as the next write would, and changes nothing."""
    found = set()
    for after in range(22):
        for name in names(tmp_path):
            (tmp_path / name).unlink()
        path = tmp_path / "m.onnx"
        if not new:
            formats.save(model(1), path, **OPTIONS)
        interrupted(path, 2, after, monkeypatch)
        before = {name: (tmp_path / name).read_bytes() for name in names(tmp_path)}
        words = []
        for dry_run in (True, False):
            try:
                formats.save(model(3), path, **{**OPTIONS, "overwrite": False}, dry_run=dry_run)
                words.append("")
            except (FormatError, OSError) as error:
                words.append(str(error))
            assert not dry_run or before == {name: (tmp_path / name).read_bytes() for name in names(tmp_path)}
        assert words[0] == words[1], after
        found.add(bool(words[0]))
    assert found == ({True, False} if new else {True})


def test_readers_find_the_new_model_before_it_is_in_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the graph is missing and data files are moved, a journal leads to the new files; readers write nothing."""
    path = tmp_path / "m.onnx"
    found = []
    for after in range(14):
        formats.save(model(1), path, **OPTIONS)
        interrupted(path, 2, after, monkeypatch)
        before = {name: (tmp_path / name).read_bytes() for name in names(tmp_path)}
        if not path.exists():
            found.append(number_of(path))
            assert (True, ["interrupted"]) == (
                formats.verify(path).ok,
                [note.kind for note in formats.verify(path).notes],
            )
            assert number_of(path) == number_of(path, onnxpb.load)
        assert before == {name: (tmp_path / name).read_bytes() for name in names(tmp_path)}
        formats.repair(path)
    assert len(found) > 3
    assert set(found) == {2}


def prepared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, dict[str, Any]]:
    """Return a model whose graph is missing, and the content of its journal."""
    path = tmp_path / "m.onnx"
    formats.save(model(1), path, **OPTIONS)
    for after in range(14):
        interrupted(path, 2, after, monkeypatch)
        if not path.exists() and load_journal(path) is not None:
            return path, json.loads(journal_path(path).read_bytes())
        formats.repair(path)
        formats.save(model(1), path, **OPTIONS)
    raise AssertionError


def _set(*place: Any) -> Callable[[dict[str, Any]], None]:
    *steps, key, value = place

    def change(content: dict[str, Any]) -> None:
        target: Any = content
        for step in steps:
            target = target[step]
        target[key] = value

    return change


OLD = {"name": f".m.onnx.{'1' * 16}.tmp", "nbytes": 8, "modified_ns": 1, "sample": None}
GOES = [{"name": "gone.onnx", "old": OLD}]
HOSTILE = {
    "outside": _set("files", 0, "name", "../victim"),
    "absolute": _set("files", 0, "name", "/etc/passwd"),
    "parent": _set("files", 0, "name", ".."),
    "backslash": _set("files", 0, "name", "..\\victim"),
    "nothing": _set("files", 0, "name", ""),
    "twice": lambda content: content["files"].insert(0, dict(content["files"][0])),
    "not the model": lambda content: content["files"].pop(),
    "itself": _set("files", 0, "name", ".m.onnx.journal"),
    "not ours": _set("files", 0, "new", "victim"),
    "hidden, not ours": _set("files", 0, "new", ".bashrc"),
    "another's": _set("files", 0, "new", ".victim.0123456789abcdef.tmp"),
    "old outside": _set("files", 0, "old", "name", "../victim"),
    "size": _set("files", 0, "nbytes", "12"),
    "large size": _set("files", 0, "nbytes", 1 << 80),
    "true": _set("files", 0, "nbytes", True),
    "digest": _set("files", 0, "sha256", "0" * 63),
    "digest of another type": _set("files", 0, "sha256", 5),
    "more": _set("files", 0, "mode", 0o777),
    "version": _set("journal", 2),
    "boot": _set("boot", 5),
    "no list": _set("files", {}),
    "empty": _set("files", []),
    "no files": _set("files", [None]),
    "graphs, no list": _set("goes", 5),
    "graph outside": _set("goes", [{"name": "../victim", "old": OLD}]),
    "graph, not ours": _set("goes", [{"name": "victim", "old": {**OLD, "name": "victim"}}]),
    "graph twice": _set("goes", [{"name": "victim", "old": OLD}] * 2),
    "graph that stays": _set("goes", [{"name": "m.onnx", "old": OLD}]),
    "model moves": lambda content: (_set("files", -1, "new", "victim")(content), content.update(goes=GOES)),
    "moves from outside": lambda content: (_set("files", 0, "new", "../victim")(content), content.update(goes=GOES)),
}


@pytest.mark.sample(3)
@pytest.mark.parametrize("change", HOSTILE.values(), ids=HOSTILE)
def test_hostile_journals_are_refused(
    tmp_path: Path, change: Callable[[dict[str, Any]], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A journal that names other files, or that this program would not write, is not used for moving or reading."""
    (tmp_path / "victim").write_bytes(b"precious")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "victim").write_bytes(b"precious")
    path, content = prepared(tmp_path / "in", monkeypatch)
    change(content)
    journal_path(path).write_text(json.dumps(content))
    before = {name: (path.parent / name).read_bytes() for name in names(path.parent) if ".lock" not in name}
    assert number_of(path) is None
    with pytest.raises(DecodeError, match="this is not a journal, or it is damaged"):
        formats.repair(path)
    with pytest.raises(DecodeError):
        formats.save(model(3), path)
    assert before == {name: (path.parent / name).read_bytes() for name in names(path.parent) if ".lock" not in name}
    formats.save(model(3), path, **OPTIONS)
    assert number_of(path) == 3
    assert b"precious" == (tmp_path / "victim").read_bytes() == (tmp_path / "in" / "victim").read_bytes()
    assert not [name for name in names(path.parent) if name.startswith(".")]


@pytest.mark.parametrize("content", [b"", b"{", b"[" * 100_000, b"\xff", b"null", b"1" * 5000, b'{"journal": NaN}'])
def test_damaged_journals_are_refused(tmp_path: Path, content: bytes) -> None:
    """Repairs name bytes that are not a journal, and fail if there is no model; writers refuse, readers ignore them."""
    path = tmp_path / "m.onnx"
    journal_path(path).write_bytes(content)
    for use in (formats.repair, lambda path: formats.save(model(1), path)):
        with pytest.raises(DecodeError, match="this is not a journal"):
            use(path)
    formats.save(model(1), path, **OPTIONS)
    journal_path(path).write_bytes(content)
    assert number_of(path) == 1
    (note,) = formats.repair(path).notes
    assert "this is not a journal" in note
    formats.save(model(2), path, **OPTIONS)
    assert number_of(path) == 2
    assert not [name for name in names(tmp_path) if name.startswith(".")]


@pytest.mark.parametrize("damage", ["new", "new and old"])
def test_damaged_files_are_not_put_into_place(tmp_path: Path, damage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new file that differs from its digest in the journal is never used; the old files are restored if complete."""
    path, content = prepared(tmp_path, monkeypatch)
    for entry in content["files"]:
        if (tmp_path / entry["new"]).exists() and entry["name"] != "m.onnx":
            data = (tmp_path / entry["new"]).read_bytes()
            (tmp_path / entry["new"]).write_bytes(b"x" * len(data))
            if damage == "new and old":
                (tmp_path / entry["name"]).write_bytes(b"y" * len(data))
    assert number_of(path) is None
    if damage == "new":
        assert formats.repair(path).put_back
        assert number_of(path) == 1
        assert 4 == len(names(tmp_path))
    else:
        with pytest.raises(DecodeError):
            formats.repair(path)
        assert journal_path(path).exists()


def test_what_others_wrote_since_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that another program wrote after a crash is not replaced by a repair, and is the one that is read."""
    path, _ = prepared(tmp_path, monkeypatch)
    theirs = formats.dumps(model(7), "onnx")
    path.write_bytes(theirs)
    assert number_of(path) == 7
    with pytest.raises(DecodeError, match=r"m\.onnx has changed since"):
        formats.repair(path)
    with pytest.raises((DecodeError, FileExistsError)):
        formats.save(model(3), path)
    assert theirs == path.read_bytes()
    formats.save(model(3), path, **OPTIONS)
    assert number_of(path) == 3
    assert not [name for name in names(tmp_path) if name.startswith(".")]


@pytest.mark.parametrize("owner", ["another", "of the folder"])
def test_journals_of_other_users(tmp_path: Path, owner: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In another user's folder, a journal of a third user is not used, but one of the folder's owner is."""
    if not hasattr(os, "geteuid") or os.geteuid():
        pytest.skip("only root gives files away")
    path, _ = prepared(tmp_path, monkeypatch)
    os.chown(tmp_path, 1234, -1)
    os.chown(journal_path(path), 1234 if owner == "of the folder" else 4321, -1)
    if owner == "of the folder":
        assert formats.repair(path).completed
        assert number_of(path) == 2
    else:
        with pytest.raises(DecodeError, match="another user"):
            formats.repair(path)
        assert not path.exists()


def test_without_a_digest_only_this_boot_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that were not synced are not used after a restart of the system: their content is unknown."""
    path = tmp_path / "m.onnx"
    formats.save(model(1), path, **OPTIONS)
    for after in range(14):
        interrupted(path, 2, after, monkeypatch, fsync=False)
        if not path.exists():
            break
        formats.repair(path)
        formats.save(model(1), path, **OPTIONS)
    assert number_of(path) == 2
    monkeypatch.setattr(journal, "boot", lambda: "another")
    assert number_of(path) is None
    assert formats.repair(path).put_back
    assert number_of(path) == 1


@pytest.mark.parametrize("name", ["m.onnx", "x" * 250 + ".onnx", "é" * 120 + ".onnx", "M .onnx"])
def test_hidden_names(tmp_path: Path, name: str) -> None:
    """Whatever name a model has, its hidden files have valid names that differ from those of other models."""
    path = tmp_path / name
    temporary = temporary_path(path)
    temporary.touch()
    for kind in ("lock", "journal", "undo"):
        hidden_path(path, kind).touch()
        assert not is_temporary(hidden_path(path, kind).name, path)
    assert is_temporary(temporary.name, path)
    assert not is_temporary(temporary.name, tmp_path / f"{name[1:]}")
    assert [temporary] == temporaries(path)
    for wrong in (f"{temporary.name}x", temporary.name[1:], f".{name}.tmp", f".{name}.0123456789ABCDEFG.tmp"):
        assert not is_temporary(wrong, path)


def test_temporary_files_of_the_dead_are_removed(tmp_path: Path) -> None:
    """Without unnamed files, the next write removes the files of a killed process, but not files in use."""
    capabilities = replace(SYSTEM, unnamed=False)
    path = tmp_path / "m.onnxz"
    dead = temporary_path(path)
    dead.touch()
    others = temporary_path(tmp_path / "other.onnxz")
    others.touch()
    alive = publication.OutputFile(path, 10, capabilities=capabilities)
    formats.save(model(1), path, capabilities=capabilities)
    left = {name for name in names(tmp_path) if name.startswith(".")}
    assert left == {others.name, alive.readable_path.name}
    alive.discard()
    assert {others.name, "m.onnxz"} == set(names(tmp_path))


def test_a_link_to_another_folder_is_replaced(tmp_path: Path) -> None:
    """A model in several files replaces a link to another folder: all files of a model are in one folder."""
    (tmp_path / "blobs").mkdir()
    (tmp_path / "snapshot").mkdir()
    formats.save(model(1), tmp_path / "blobs" / "hash", format="onnx")
    path = tmp_path / "snapshot" / "m.onnx"
    path.symlink_to("../blobs/hash")
    formats.save(model(2), path, **OPTIONS)
    assert number_of(path) == 2
    assert not path.is_symlink()
    assert number_of(tmp_path / "blobs" / "hash") == 1
    near = tmp_path / "snapshot" / "latest.onnx"
    near.symlink_to("m.onnx")
    formats.save(model(3), near, **OPTIONS)
    assert (True, 3, 3) == (near.is_symlink(), number_of(path), number_of(near))


@pytest.mark.outer
def test_readers_beside_a_writer(tmp_path: Path) -> None:
    """A reader always finds one complete model while another thread replaces the model again and again."""
    path = tmp_path / "m.onnx"
    formats.save(model(0), path, **OPTIONS)
    stop = threading.Event()
    written = [0]

    def write() -> None:
        while not stop.is_set():
            written[0] += 1
            formats.save(model(written[0]), path, **OPTIONS, fsync=False)

    writer = threading.Thread(target=write)
    writer.start()
    found, refused, end = 0, 0, time.monotonic() + 3
    try:
        while time.monotonic() < end:
            try:
                loaded = formats.load(path)
                numbers = {float(loaded.producer_name or "nan")}
                for tensor in loaded.graph.initializer:  # type: ignore[union-attr]
                    numbers |= set(np.frombuffer(tensor.source().read(), "float32"))
            except FormatError as error:
                assert "again" in str(error)
                refused += 1
                continue
            assert len(numbers) == 1
            found += 1
    finally:
        stop.set()
        writer.join()
    assert written[0] > 3
    assert found > 3
    assert refused < found


def test_a_reader_is_not_deceived_by_two_writes_in_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model is found although a write ended and the next began while the reader looked for it and for a journal."""
    path = tmp_path / "m.onnx"
    formats.save(model(1), path, **OPTIONS)
    path.rename(tmp_path / "aside")
    looks = 0

    def look(place: Path) -> None:
        nonlocal looks
        looks += 1
        if looks == 3:  # after the second attempt to open it
            (tmp_path / "aside").rename(path)

    monkeypatch.setattr("formats.tensordata.interrupted.owner_of", look)
    assert number_of(path) == 1
    path.unlink()
    with pytest.raises(FileNotFoundError):
        formats.load(path)


def test_writers_beside_each_other(tmp_path: Path) -> None:
    """Several processes that write one model at the same time leave the complete model of the last one, and no more."""
    path = tmp_path / "m.onnx"
    state = random.Random(3)

    def write(number: int) -> None:
        time.sleep(state.random() / 50)
        formats.save(model(number), path, **OPTIONS, fsync=False)

    for _ in range(3):
        writers = [threading.Thread(target=write, args=(number,)) for number in range(6)]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()
        assert number_of(path) in range(6)
        assert 4 == len(names(tmp_path))


def test_a_lock_is_let_go_by_whoever_is_killed(tmp_path: Path) -> None:
    """The lock of a killed process is free, and the file that the process left is reported."""
    if not hasattr(os, "fork"):
        pytest.skip("this system has no fork")
    path = tmp_path / "m.onnx"
    child = os.fork()
    if not child:
        lock.ModelLock(path).__enter__()
        os._exit(9)
    os.waitpid(child, 0)
    assert [".m.onnx.lock"] == names(tmp_path)
    assert not lock.is_locked(path)
    with lock.ModelLock(path, 0.0) as held:
        assert held.was_left
        assert lock.is_locked(path)
    assert [] == names(tmp_path)


def test_a_lock_is_not_a_way_out(tmp_path: Path) -> None:
    """A link in place of a lock is not followed, and the model next to it is not written."""
    (tmp_path / "victim").write_bytes(b"precious")
    (tmp_path / "in").mkdir()
    path = tmp_path / "in" / "m.onnx"
    formats.save(model(1), path)
    hidden_path(path, "lock").symlink_to(tmp_path / "victim")
    with pytest.raises(OSError):
        formats.save(model(2), path, overwrite=True)
    assert b"precious" == (tmp_path / "victim").read_bytes()
    assert number_of(path) == 1


@pytest.mark.parametrize("name", ["m.onnx", "none/m.onnx"])
def test_nothing_to_repair(tmp_path: Path, name: str) -> None:
    """If there is neither a model nor a remaining part of one, `repair` says so, and leaves nothing."""
    with pytest.raises(FileNotFoundError) as caught:
        formats.repair(tmp_path / name)
    assert str(tmp_path / name) == caught.value.filename
    assert [] == names(tmp_path)


def stopped_at(line: int, work: Callable[[], object]) -> bool:
    """Do work in a process in which an exception of a signal comes at this line of our code; return whether it came."""
    left = [line]

    def trace(frame: Any, event: str, argument: object) -> Any:
        if frame.f_code.co_filename not in (lock.__file__, publication.__file__):
            return None
        left[0] -= event == "line"
        if not left[0]:
            raise SystemExit
        return trace

    if not (child := os.fork()):
        try:
            sys.settrace(trace)
            work()
        except SystemExit:
            pass
        finally:
            os._exit(left[0] <= 0)
    return bool(os.waitpid(child, 0)[1])


@posix
def test_a_temporary_folder_is_removed_wherever_a_signal_came(tmp_path: Path) -> None:
    """At whichever line a signal stops the process that has a temporary folder, the next one removes that folder."""
    path = tmp_path / "m.onnx"

    def work() -> None:
        with publication.temporary_folder(path) as folder:
            (folder / "a").write_bytes(b"a")
            (folder / "b").write_bytes(b"b")

    for line in itertools.count(1):
        was_stopped = stopped_at(line, work)
        if publication.is_left(path):
            work()
        assert [] == names(tmp_path), line
        if not was_stopped:
            break
    assert line > 20
