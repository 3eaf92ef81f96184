"""Locks of models: what they are of, the order in which several are taken, and who uses a lock that is held."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import formats
from formats import Graph, Model
from formats.tensordata.replacing import lock
from formats.tensordata.replacing.hidden import hidden_path
from tests.systems import PATIENCE_SECONDS

needs_unix = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no links for everybody")


def model() -> Model:
    """Return a model with a weight."""
    weights = [formats.from_numpy(np.full(2000, 1, "float32"), "w")]
    return Model(ir_version=10, graph=Graph(name="g", initializer=weights))


@contextmanager
def held_elsewhere(*paths: Path) -> Iterator[None]:
    """A context in which another thread holds the locks of these models."""
    is_held, may_end = threading.Event(), threading.Event()

    def hold() -> None:
        with lock.locked_together(paths):
            is_held.set()
            may_end.wait(PATIENCE_SECONDS)

    thread = threading.Thread(target=hold)
    thread.start()
    assert is_held.wait(PATIENCE_SECONDS)
    try:
        yield
    finally:
        may_end.set()
        thread.join()


@needs_unix
@pytest.mark.parametrize("held", ["m.onnx", "latest.onnx", "in/../m.onnx", "folder/m.onnx"])
@pytest.mark.parametrize("named", ["m.onnx", "latest.onnx", "folder/latest.onnx"])
@pytest.mark.parametrize("use", [formats.rm, lambda path: formats.mv(path, path.with_name("new.onnx"))])
def test_a_lock_is_of_the_file(
    tmp_path: Path, held: str, named: str, use: Callable[[Path], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever names a model by a link, or through a linked folder, waits for whoever names it otherwise."""
    formats.save(model(), tmp_path / "m.onnx")
    (tmp_path / "in").mkdir()
    (tmp_path / "latest.onnx").symlink_to("m.onnx")
    (tmp_path / "folder").symlink_to(".")
    monkeypatch.setattr(lock, "WAIT_SECONDS", 0.05)
    with held_elsewhere(tmp_path / held):
        if "latest" not in held and named == "m.onnx":
            assert lock.is_locked(tmp_path / "m.onnx")
        with pytest.raises(BlockingIOError):
            use(tmp_path / named)
    use(tmp_path / named)
    assert [] == [name for name in os.listdir(tmp_path) if name[0] == "."]


@needs_unix
def test_a_link_to_where_nobody_may_write_can_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A link into a folder that cannot be written, such as a store of models, is removed without a lock there."""
    (tmp_path / "store").mkdir()
    formats.save(model(), tmp_path / "store" / "m.onnx")
    (tmp_path / "m.onnx").symlink_to("store/m.onnx")
    real = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: "store" not in os.fspath(path) and real(path, mode))
    formats.rm(tmp_path / "m.onnx")
    assert ["store"] == os.listdir(tmp_path)
    assert ["m.onnx"] == os.listdir(tmp_path / "store")


def test_a_lock_that_moved_away_is_left_alone(tmp_path: Path) -> None:
    """If the folder is another one at the end, the lock of another process there stays."""
    (tmp_path / "in").mkdir()
    with lock.ModelLock(tmp_path / "in" / "m.onnx"):
        (tmp_path / "in").rename(tmp_path / "moved")
        (tmp_path / "in").mkdir()
        other = lock.ModelLock(tmp_path / "in" / "m.onnx").__enter__()
    assert hidden_path(tmp_path / "in" / "m.onnx", "lock").exists()
    other.__exit__()


def test_what_is_done_under_a_lock_uses_it(tmp_path: Path) -> None:
    """A lock that is held for all that a thread does is not taken again, and is free only at the end."""
    path = tmp_path / "m.onnx"
    with lock.locked_together([path]):
        with lock.ModelLock(path) as inner, lock.locked_together([tmp_path / "n.onnx", path]):
            assert not lock.is_locked(path)
            inner.keep()
        assert os.listdir(tmp_path) == [".m.onnx.lock"]
        found: list[bool] = []
        thread = threading.Thread(target=lambda: found.append(lock.is_locked(path)))
        thread.start()
        thread.join()
        assert [True] == found
    assert os.listdir(tmp_path) == [".m.onnx.lock"]
    assert not lock.is_locked(path)
    with lock.ModelLock(path) as again:
        assert again.was_left
    assert [] == os.listdir(tmp_path)


@pytest.mark.parametrize("work", [formats.rm, lambda path: formats.edit(path, metadata={"a": "b"})], ids=["rm", "edit"])
def test_what_a_killed_process_left_is_not_forgotten(tmp_path: Path, work: Callable[[Path], object]) -> None:
    """If a verb that removes no temporary files meets those of a killed process, the next write removes them."""
    path = tmp_path / "m.onnxz"
    formats.save(model(), path)
    (tmp_path / ".m.onnxz.lock").touch()
    (tmp_path / ".m.onnxz.0123456789abcdef.tmp").touch()
    work(path)
    assert [".m.onnxz.0123456789abcdef.tmp", ".m.onnxz.lock"] == sorted({*os.listdir(tmp_path)} - {path.name})
    formats.save(model(), path, overwrite=True)
    assert [path.name] == os.listdir(tmp_path)


@needs_unix
def test_all_take_locks_in_one_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several locks are taken in the same order, in whatever order, case and folders they are named."""
    names = ["in/B.onnx", "a.onnx", "in/c.onnx", "B.onnx", "c.onnx"]
    (tmp_path / "in").mkdir()
    (tmp_path / "z").symlink_to("in")
    (tmp_path / "0").symlink_to(".")
    taken: list[Path] = []
    real = lock.ModelLock._take

    def take(self: lock.ModelLock) -> bool:
        taken.append(Path(os.path.realpath(self.path)))
        return real(self)

    monkeypatch.setattr(lock.ModelLock, "_take", take)
    orders = []
    for spelled in (names, names[::-1], [f"0/{name}".replace("in/", "z/") for name in names], names[2:] + names[:2]):
        with lock.locked_together(tmp_path / name for name in spelled):
            orders.append([*taken])
        taken.clear()
    assert orders[:1] * 4 == orders
    assert 5 == len(set(orders[0]))
    beside = [path.name for path in orders[0] if path.parent == tmp_path]
    assert beside == [
        ".a.onnx.lock",
        ".B.onnx.lock",
        ".c.onnx.lock",
    ]  # where case does not matter, b.onnx has this place


@needs_unix
def test_names_that_differ_in_case_only_may_have_one_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the locks of two models are one file, because the filesystem ignores case, a process takes it once."""
    monkeypatch.setattr(lock, "WAIT_SECONDS", 0.0)  # a second attempt would be an error
    (tmp_path / ".a.onnx.lock").touch()
    os.link(tmp_path / ".a.onnx.lock", tmp_path / ".A.onnx.lock")
    with lock.locked_together([tmp_path / "a.onnx", tmp_path / "A.onnx"]), lock.ModelLock(tmp_path / "a.onnx"):
        assert (tmp_path / ".a.onnx.lock").exists()


def test_a_lock_that_cannot_be_taken_lets_the_others_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If another process keeps one of several locks, nobody has the others afterwards, and no file of them stays."""
    monkeypatch.setattr(lock, "WAIT_SECONDS", 0.05)
    for name in ("a.onnx", "b.onnx", "c.onnx"):
        with held_elsewhere(tmp_path / name):
            with (
                pytest.raises(BlockingIOError, match=name),
                lock.locked_together(tmp_path / f"{n}.onnx" for n in "abc"),
            ):
                pass
            assert os.listdir(tmp_path) == [f".{name}.lock"]
    assert [] == os.listdir(tmp_path)


def test_circles_of_locks_end(tmp_path: Path) -> None:
    """Threads that take the same locks in any order, again and again, all end, and only one has them at a time."""
    names = ["a.onnx", "b.onnx", "c.onnx"]
    inside: list[int] = []
    wrong: list[object] = []

    def work(number: int) -> None:
        try:
            for turn in range(30):
                first = (number + turn) % 3
                order = names[first:] + names[:first]
                with lock.locked_together(tmp_path / name for name in (order if turn % 2 else order[::-1])):
                    inside.append(number)
                    if inside != [number]:
                        wrong.append([*inside])
                    inside.remove(number)
        except Exception as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert [] == wrong
    assert [] == os.listdir(tmp_path)
