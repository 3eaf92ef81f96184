"""A replaced model stays as a backup, or what it left is removed; at any moment, the old or new model is complete."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import onnx
import pytest

import formats
from formats.errors import FormatError, OptionError
from formats.tensordata.local import directory
from formats.tensordata.replacing import further_name, lock, publication
from formats.tensordata.replacing.journal import journal_path
from formats.verbs.steps import replacement
from tests import commands
from tests.systems import PATIENCE_SECONDS
from tests.verbs.test_model_files import model, names, weights

SHARDS = ["a-00001-of-00002.data", "a-00002-of-00002.data"]
SPLIT: dict[str, Any] = {"external_data": True, "max_external_file_size": 10_000}


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """The model `a.onnx` with two data files."""
    formats.save(model(1), tmp_path / "a.onnx", **SPLIT)
    return tmp_path / "a.onnx"


def data_of(path: Path) -> list[bytes]:
    """Return the weights of a model of any format, as `formats` reads them."""
    graph = formats.load(path).graph
    assert graph is not None
    return [tensor.source().read() for tensor in graph.initializer]


def expected(seed: int) -> list[bytes]:
    """Return the weights of the model with this seed."""
    graph = model(seed).graph
    assert graph is not None
    return [tensor.source().read() for tensor in graph.initializer]


@pytest.mark.parametrize("dry_run", [True, False])
def test_clean_removes_what_only_the_replaced_model_used(old: Path, dry_run: bool) -> None:
    """The dead shards go after the new model has its place; the report names them; a dry run only names them."""
    before = names(old.parent)
    report = formats.save(model(2), old, overwrite=True, clean=True, dry_run=dry_run)
    assert [old.parent / name for name in SHARDS] == [*report.removed]
    assert [str(old.parent / name) for name in SHARDS] == report.to_json()["removed"]
    assert not [loss for loss in report.losses if loss.kind == "left_behind"]
    assert f"{'would remove' if dry_run else 'removed'} {', '.join(SHARDS)} of the old model" in str(report)
    assert names(old.parent) == (before if dry_run else ["a.onnx"])


def test_clean_keeps_what_another_graph_uses_or_may_use(old: Path) -> None:
    """A file that another graph uses stays, under any spelling, and all stay while a graph cannot be read."""
    other = onnx.load(old, load_external_data=False)
    for tensor in other.graph.initializer:
        tensor.external_data[0].value = f"./{tensor.external_data[0].value}"
    del other.graph.initializer[1:]
    (old.parent / "b.onnx").write_bytes(other.SerializeToString())
    (old.parent / "c.onnx").write_bytes(b"no model")
    formats.cp(old, old.parent / "sub" / "a.onnx", parents=True)
    report = formats.save(model(2), old, overwrite=True, clean=True)
    assert () == report.removed
    assert "a-00002-of-00002.data stays: c.onnx cannot be read, and may use it" in str(report)
    (old.parent / "c.onnx").unlink()
    formats.save(model(1), old, overwrite=True, **SPLIT)
    report = formats.save(model(2), old, overwrite=True, clean=True)
    assert [SHARDS[1]] == [path.name for path in report.removed]
    assert expected(1) == data_of(old.parent / "sub" / "a.onnx")


def test_clean_never_removes_through_a_link(old: Path, tmp_path: Path) -> None:
    """A data file that is a link stays, and so does its target."""
    (tmp_path / "blobs").mkdir()
    for name in SHARDS:
        (tmp_path / name).rename(tmp_path / "blobs" / name)
        (tmp_path / name).symlink_to(tmp_path / "blobs" / name)
    report = formats.save(model(2), old, overwrite=True, clean=True)
    assert () == report.removed
    assert names(tmp_path / "blobs") == SHARDS
    assert SHARDS[0] in names(tmp_path)


@pytest.mark.parametrize("keyword", ["clean", "backup"])
def test_both_need_overwrite_and_files(old: Path, keyword: Any) -> None:
    """Without `overwrite`, or for bytes, they have no meaning, and that is an error."""
    with pytest.raises(OptionError, match=f"`{keyword}` is about a model that is replaced, so it needs `overwrite="):
        formats.save(model(2), old, **{keyword: True})
    with pytest.raises(OptionError, match="is for files"):
        formats.dumps(model(2), "onnx", overwrite=True, **{keyword: True})


LAYOUTS: list[dict[str, Any]] = [{}, {"external_data": True}, SPLIT, {"external_data": "weights.bin"}]


@pytest.mark.sample(3)
@pytest.mark.parametrize("dry_run", [True, False])
@pytest.mark.parametrize("new", LAYOUTS, ids=str)
@pytest.mark.parametrize("before", LAYOUTS, ids=str)
def test_a_backup_is_the_old_model_under_a_stated_name(tmp_path: Path, before: Any, new: Any, dry_run: bool) -> None:
    """Whatever the layouts, both models are complete, no file is left, no file has two names, no weight was copied."""
    path = tmp_path / "a.onnx"
    formats.save(model(1), path, **before)
    listing = {name: (tmp_path / name).read_bytes() for name in names(tmp_path)}
    inodes = {file.stat().st_ino for file in tmp_path.iterdir() if file != path}
    report = formats.save(model(2), path, overwrite=True, backup=True, dry_run=dry_run, **new)
    assert report.backup == tmp_path / "a.bak.onnx"
    assert f"{'would keep' if dry_run else 'kept'} the old model as {report.backup}" in str(report)
    assert not [loss for loss in report.losses if loss.kind == "left_behind"]
    assert [file.path.name for file in report.files if ".bak" in file.path.name] == []
    if dry_run:
        assert listing == {name: (tmp_path / name).read_bytes() for name in names(tmp_path)}
        return
    assert (weights(path), weights(report.backup)) == (expected(2), expected(1))
    used = [file.path for each in (path, report.backup) for file in formats.files(each).files]
    assert sorted(file.name for file in used) == names(tmp_path)
    assert {1} == {file.stat().st_nlink for file in tmp_path.iterdir()}
    assert inodes <= {file.stat().st_ino for file in tmp_path.iterdir()}


def test_one_backup_is_kept(tmp_path: Path) -> None:
    """The second backup replaces the first, whose other data files go, too."""
    path = tmp_path / "a.onnx"
    for seed, options in enumerate((SPLIT, {"external_data": True}, {}), 1):
        formats.save(model(seed), path, overwrite=True, backup=seed > 1, **options)
    assert names(tmp_path) == ["a.bak.onnx", "a.bak.onnx.data", "a.onnx"]
    assert (weights(path), weights(tmp_path / "a.bak.onnx")) == (expected(3), expected(2))


def test_a_conversion_can_be_undone(old: Path) -> None:
    """To convert the backup back, with a backup, exchanges the two models."""
    formats.convert(old, old, overwrite=True, backup=True, external_data=False)
    formats.save(model(2), old, overwrite=True)
    formats.convert(old.parent / "a.bak.onnx", old, overwrite=True, backup=True)
    assert (expected(1), expected(2)) == (weights(old), weights(old.parent / "a.bak.onnx"))


@pytest.mark.parametrize("is_short", [True, False])
def test_a_model_whose_data_is_incomplete_has_a_backup(old: Path, is_short: bool) -> None:
    """What is left of a model stays as its backup, which does not take new files for the missing ones."""
    data = [old.with_name(name) for name in SHARDS]
    content = data[1].read_bytes()
    data[0].unlink()
    if is_short:
        data[0].write_bytes(b"short")
    done = formats.save(model(2), old, overwrite=True, backup=True, **SPLIT)
    assert done.backup is not None
    assert (expected(2), 1) == (weights(old), len(formats.inspect(done.backup).missing))
    assert content == old.with_name("a.bak-00002-of-00002.data").read_bytes()
    assert is_short == old.with_name("a.bak-00001-of-00002.data").exists()


def test_a_model_that_cannot_be_read_now_is_not_replaced(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the system cannot read the old model, nobody knows its files: the replacement with a backup is refused."""
    before = {path: path.read_bytes() for path in old.parent.iterdir()}

    def fail(*_: object, **__: object) -> Any:
        raise OSError(errno.EIO, os.strerror(errno.EIO), str(old))

    monkeypatch.setattr(replacement, "open_model", fail)
    with pytest.raises(OSError, match="Input/output error"):
        formats.save(model(2), old, overwrite=True, backup=True)
    assert before == {path: path.read_bytes() for path in old.parent.iterdir()}


def test_a_model_whose_data_cannot_be_opened_is_not_replaced(tmp_path: Path) -> None:
    """If the old graph names a file that nobody may open for it, the replacement with a backup is refused."""
    formats.save(model(1), tmp_path / "a.onnx", external_data=True)
    broken = onnx.load(tmp_path / "a.onnx", load_external_data=False)
    broken.graph.initializer[0].external_data[0].value = "../a.onnx.data"
    (tmp_path / "a.onnx").write_bytes(broken.SerializeToString())
    with pytest.raises(FormatError, match=r"there can be no backup of a.onnx: .*outside"):
        formats.save(model(2), tmp_path / "a.onnx", overwrite=True, backup=True)
    assert ["a.onnx", "a.onnx.data"] == names(tmp_path)


@pytest.mark.parametrize("extension", ["onnxz", "rten", "onnxc", "json"])
def test_a_backup_of_one_file_is_that_file(tmp_path: Path, extension: str) -> None:
    """A model in one file, in every format, gets the new name, byte for byte; so does a file that is no model."""
    path = tmp_path / f"a.{extension}"
    key: dict[str, Any] = {"key": "secret words"} if extension == "onnxc" else {}
    formats.save(model(1), path, **key)
    for content in (path.read_bytes(), b"no model at all"):
        path.write_bytes(content)
        report = formats.save(model(2), path, overwrite=True, backup=True, **key)
        assert report.backup == tmp_path / f"a.bak.{extension}"
        assert content == report.backup.read_bytes()
        assert names(tmp_path) == sorted([path.name, report.backup.name])


def test_a_backup_of_text_refers_to_its_new_data(old: Path) -> None:
    """A text model with data files stays text."""
    path = old.with_suffix(".textproto")
    formats.convert(old, path)
    old.unlink()
    formats.save(model(2), path, overwrite=True, backup=True)
    assert expected(1) == data_of(path.with_name("a.bak.textproto"))


def test_data_of_others_stay_where_they_are(old: Path) -> None:
    """The backup goes on using a data file that another graph uses, too, unless it is replaced."""
    (old.parent / "b.onnx").write_bytes(old.read_bytes())
    formats.save(model(2), old, overwrite=True, backup=True)
    assert names(old.parent) == [*SHARDS, "a.bak.onnx", "a.onnx", "b.onnx"]
    for name in ("b.onnx", "a.bak.onnx"):
        assert expected(1) == weights(old.parent / name)


def test_a_backup_has_no_file_with_two_names(old: Path) -> None:
    """If the old names stay because a graph cannot be read, its files are copies, which `onnx` reads."""
    (old.parent / "c.onnx").write_bytes(b"no model")
    formats.save(model(2), old, overwrite=True, backup=True)
    assert expected(1) == weights(old.parent / "a.bak.onnx")
    assert {*SHARDS} < {*names(old.parent)}
    assert {1} == {path.stat().st_nlink for path in old.parent.iterdir()}


def test_a_backup_replaces_no_file_that_another_graph_uses(old: Path) -> None:
    """If another graph has its weights under a name of the backup, the backup is refused, and nothing changes."""
    formats.save(model(3), old.parent / "c.onnx", external_data="a.bak-00001-of-00002.data")
    before = names(old.parent)
    with pytest.raises(FileExistsError, match="another graph uses it"):
        formats.save(model(2), old, overwrite=True, backup=True)
    assert before == names(old.parent)
    assert expected(3) == weights(old.parent / "c.onnx")


def test_a_link_has_no_backup(old: Path) -> None:
    """A link is not what is replaced, so it is refused."""
    (old.parent / "link.onnx").symlink_to(old)
    with pytest.raises(FormatError, match="this is a link"):
        formats.save(model(2), old.parent / "link.onnx", overwrite=True, backup=True)


def test_without_two_names_for_a_file_a_backup_is_a_copy(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a filesystem without hard links, the data files are copied."""
    monkeypatch.setattr(further_name, "make_link", lambda *_: False)
    formats.save(model(2), old, overwrite=True, backup=True, **SPLIT)
    assert (expected(2), expected(1)) == (weights(old), weights(old.parent / "a.bak.onnx"))
    assert not [name for name in names(old.parent) if name.startswith(".")]


# Other verbs that replace models


def copy(folder: Path, seed: int, **options: Any) -> Any:
    """Replace `a.onnx` by a copy of a model in another folder."""
    return formats.cp(incoming(folder, seed) / "a.onnx", folder / "a.onnx", **options)


def move(folder: Path, seed: int, **options: Any) -> Any:
    """Replace `a.onnx` by a model that moves from another folder."""
    return formats.mv(incoming(folder, seed) / "a.onnx", folder / "a.onnx", **options)


def rename(folder: Path, seed: int, **options: Any) -> Any:
    """Replace `a.onnx` by a model of the same folder."""
    formats.save(
        model(seed),
        folder / "z.onnx",
        overwrite=True,
        **NEW | ({"external_data": "z.bin"} if "external_data" in NEW else {}),
    )
    return formats.mv(folder / "z.onnx", folder / "a.onnx", **options)


def share(folder: Path, seed: int, **options: Any) -> Any:
    """Replace `a.onnx` and `z.onnx`, if it is there, by models with common weights."""
    new = incoming(folder, seed)
    formats.cp(new / "a.onnx", new / "z.onnx", overwrite=True)
    return formats.share([new / "a.onnx", new / "z.onnx"], folder, **options)


def incoming(folder: Path, seed: int) -> Path:
    """A folder with a model of the layout that the test chose, next to the folder of the test."""
    new = folder.with_name(f"{folder.name} {seed}")
    new.mkdir(exist_ok=True)
    formats.save(model(seed), new / "a.onnx", overwrite=True, **NEW)
    return new


NEW: dict[str, Any] = {}
OTHERS = {"cp": copy, "mv": move, "rename": rename, "share": share}


def kept(done: Any) -> list[Path]:
    """Return where the replaced models are."""
    return [*done.backups] if isinstance(done, formats.Sharing) else [path for path in [done.backup] if path]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder; the layout of new models is that of one data file."""
    monkeypatch.setitem(globals(), "NEW", {"external_data": True})
    (tmp_path / "place").mkdir()
    return tmp_path / "place"


@pytest.mark.parametrize("dry_run", [True, False])
@pytest.mark.parametrize("verb", OTHERS)
def test_other_verbs_clean(verb: str, place: Path, dry_run: bool) -> None:
    """`clean` of each verb removes the dead shards of the replaced model, and keeps those that another graph uses."""
    formats.save(model(1), place / "a.onnx", **SPLIT)
    other = onnx.load(place / "a.onnx", load_external_data=False)
    del other.graph.initializer[1:]
    (place / "b.onnx").write_bytes(other.SerializeToString())
    done = OTHERS[verb](place, 2, overwrite=True, clean=True, dry_run=dry_run)
    assert [place / SHARDS[1]] == [*(done.removed if verb == "share" else done.cleaned)]
    assert (SHARDS[1] in names(place)) == dry_run
    assert SHARDS[0] in names(place)
    assert expected(1 if dry_run else 2) == weights(place / "a.onnx")


@pytest.mark.sample(3)
@pytest.mark.parametrize("dry_run", [True, False])
@pytest.mark.parametrize("new", LAYOUTS, ids=str)
@pytest.mark.parametrize("before", LAYOUTS, ids=str)
@pytest.mark.parametrize("verb", OTHERS)
def test_other_verbs_keep_a_backup(
    verb: str, place: Path, before: Any, new: Any, dry_run: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`backup` of each verb keeps the replaced models with their data; no file has two names, and none is dead."""
    monkeypatch.setitem(globals(), "NEW", new)
    formats.save(model(1), place / "a.onnx", **before)
    if verb == "share":
        formats.save(model(3), place / "z.onnx", **before | {"overwrite": True})
        if before.get("external_data") == "weights.bin":  # one data file cannot have the weights of both
            formats.save(model(1), place / "z.onnx", **before, overwrite=True)
    was = data_of(place / "z.onnx") if verb == "share" else []
    listing = {name: (place / name).read_bytes() for name in names(place)}
    done = OTHERS[verb](place, 2, overwrite=True, backup=True, clean=True, dry_run=dry_run)
    wanted = ["a.bak.onnx", "z.bak.onnx"] if verb == "share" else ["a.bak.onnx"]
    assert [place / name for name in wanted] == kept(done)
    if dry_run:
        assert listing == {name: (place / name).read_bytes() for name in listing}
        assert not any(path.exists() for path in kept(done))
        return
    assert (expected(2), expected(1)) == (weights(place / "a.onnx"), weights(place / "a.bak.onnx"))
    if verb == "share":
        assert (expected(2), was) == (weights(place / "z.onnx"), weights(place / "z.bak.onnx"))
    models = [path for path in place.iterdir() if path.suffix == ".onnx"]
    used = {file.path.name for each in models for file in formats.files(each).files}
    assert sorted(used) == names(place)
    assert {1} == {file.stat().st_nlink for file in place.iterdir()}


@pytest.mark.parametrize("verb", [formats.cp, formats.mv])
def test_a_backup_comes_back(verb: Any, old: Path) -> None:
    """To copy or move the backup to its model, with a backup, exchanges the two."""
    formats.save(model(2), old, overwrite=True, backup=True, **SPLIT)
    done = verb(old.with_name("a.bak.onnx"), old, overwrite=True, backup=True)
    assert (expected(1), expected(2)) == (weights(old), weights(done.backup))
    assert {1} == {file.stat().st_nlink for file in old.parent.iterdir()}


@pytest.mark.parametrize("new", [{}, SPLIT], ids=str)
def test_the_same_copy_again_leaves_the_backup_alone(new: Any, old: Path) -> None:
    """A copy with a backup that runs twice, or again after it was killed, keeps the model from before the first run."""
    formats.save(model(2), old.parent / "sub" / "a.onnx", parents=True, **new)
    for _ in range(2):
        done = formats.cp(old.parent / "sub" / "a.onnx", old, overwrite=True, backup=True, clean=True)
        assert (expected(2), expected(1)) == (weights(old), weights(done.backup))


@pytest.mark.parametrize(("verb", "beside"), [(formats.cp, False), (formats.mv, False), (formats.mv, True)])
def test_a_data_file_that_the_new_model_also_uses_is_copied(verb: Any, beside: bool, old: Path) -> None:
    """If the new model has the data files of the old one, each has its own afterwards."""
    twin = old.with_name("twin.onnx")
    if beside:
        twin.write_bytes(old.read_bytes())
    else:
        twin = old.parent / "sub" / "a.onnx"
        formats.cp(old, twin, parents=True)
    verb(twin, old, overwrite=True, backup=True)
    twin.unlink(missing_ok=True)
    formats.save(model(3), old, overwrite=True, **SPLIT)
    assert (expected(3), expected(1)) == (weights(old), weights(old.with_name("a.bak.onnx")))


@pytest.mark.parametrize("verb", OTHERS)
@pytest.mark.parametrize("keyword", ["clean", "backup"])
def test_other_verbs_need_overwrite(verb: str, keyword: str, place: Path) -> None:
    """Without `overwrite` they have no meaning for any verb."""
    with pytest.raises(OptionError, match=f"`{keyword}` is about a model that is replaced, so it needs `overwrite="):
        OTHERS[verb](place, 2, **{keyword: True})


def test_commands_of_other_verbs_have_both(old: Path, tmp_path: Path) -> None:
    """`cp`, `mv` and `share` print where the old model is, which files were removed, and what stays, in flags."""
    formats.save(model(2), tmp_path / "new" / "a.onnx", parents=True)
    formats.cp(tmp_path / "new" / "a.onnx", tmp_path / "new" / "b.onnx")
    done = commands.run("formats", "cp", tmp_path / "new" / "a.onnx", old, "--force")
    assert "or next time use --clean" in done.stdout
    formats.save(model(1), old, overwrite=True, **SPLIT)
    done = commands.run("formats", "mv", tmp_path / "new" / "a.onnx", old, "-f", "--clean")
    assert done.stdout.splitlines()[-1] == f"note: removed {', '.join(SHARDS)} of the old model"
    formats.cp(old, tmp_path / "new" / "a.onnx")
    sources = [tmp_path / "new" / f"{name}.onnx" for name in "ab"]
    formats.save(model(1), old.with_name("b.onnx"), overwrite=True)
    done = commands.run("formats", "share", *sources, "--out", old.parent, "--force", "--backup")
    places = [old.with_name(f"{name}.bak.onnx") for name in "ab"]
    assert done.stdout.splitlines()[-1] == f"note: kept the old models as {places[0]}, {places[1]}"


class Stopped(BaseException):
    """The end of a process."""


PLACES = [
    (publication, "move_file"),
    (publication, "unlink"),
    (publication, "move_to_free"),
    (publication, "make_link"),
    (further_name, "make_link"),
    (directory, "unlink"),
    (replacement, "unlink_same"),
    (replacement, "execute"),
]


def stops(monkeypatch: pytest.MonkeyPatch, at: int, error: type[BaseException]) -> Iterator[bool]:
    """Make the step with this number fail; a kill leaves everything as it is. Yield whether it was not reached yet."""
    left = [at]
    with monkeypatch.context() as patches:
        for module, name in PLACES:
            real: Callable[..., Any] = getattr(module, name)

            def step(*arguments: Any, real: Callable[..., Any] = real, **options: Any) -> Any:
                left[0] -= 1
                if left[0] == 0:
                    raise error
                if left[0] < 0 and error is Stopped:
                    raise error  # a killed process does nothing more
                return real(*arguments, **options)

            patches.setattr(module, name, step)
        yield left[0] > 0
    yield left[0] > 0


@pytest.mark.sample(5)
@pytest.mark.parametrize("error", [Stopped, pytest.param(OSError, marks=pytest.mark.outer)])
@pytest.mark.parametrize("layouts", [(SPLIT, {}), (SPLIT, SPLIT), ({}, SPLIT)], ids=["join", "same", "split"])
@pytest.mark.parametrize("earlier", [pytest.param(False, marks=pytest.mark.outer), True])
def test_no_model_is_lost_at_any_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[BaseException], layouts: Any, earlier: bool
) -> None:
    """Whichever step fails or is the last: old or new are complete; with the new one there is a backup of the old."""
    for number in range(1, 100):
        folder = tmp_path / str(number)
        folder.mkdir()
        path, kept = folder / "a.onnx", folder / "a.bak.onnx"
        if earlier:
            formats.save(model(3), path, external_data=True)
            formats.save(model(1), path, overwrite=True, backup=True, **layouts[0])
        else:
            formats.save(model(1), path, **layouts[0])
        steps = stops(monkeypatch, number, error)
        next(steps)
        with suppress(Stopped, OSError):
            formats.save(model(2), path, overwrite=True, backup=True, clean=True, **layouts[1])
        was_reached = not next(steps)
        now = data_of(path)
        assert now in (expected(1), expected(2)), number
        if now == expected(2):  # while there is a journal, the backup may still have a hidden name
            assert journal_path(path).exists() or expected(1) == data_of(kept), number
        elif earlier:
            assert data_of(kept) in (expected(3), expected(1)), number
        formats.repair(path)  # a journal that was written is followed to its end
        now, before = data_of(path), now
        assert now in (before, expected(2)), number
        if now == expected(2):
            assert expected(1) == data_of(kept), number
        formats.save(model(4), path, overwrite=True, backup=True, clean=True)
        assert (expected(4), now) == (data_of(path), data_of(kept)), number
        if not was_reached:
            assert now == expected(2)
            return
    pytest.fail("there are more steps")


@pytest.mark.parametrize("error", [Stopped, pytest.param(OSError, marks=pytest.mark.outer)])
@pytest.mark.parametrize("verb", [pytest.param(each, marks=[pytest.mark.outer] * (each != "mv")) for each in OTHERS])
def test_other_verbs_lose_no_model_at_any_step(
    verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    """Whichever step of a verb fails or is its last: old or new are complete; with the new one there is a backup."""
    monkeypatch.setitem(globals(), "NEW", SPLIT)
    for number in range(1, 100):
        place = tmp_path / str(number)
        place.mkdir()
        formats.save(model(1), place / "a.onnx", **SPLIT)
        path, was = place / "a.onnx", place / "a.bak.onnx"
        incoming(place, 2)  # before steps fail
        steps = stops(monkeypatch, number, error)
        next(steps)
        with suppress(Stopped, OSError):
            OTHERS[verb](place, 2, overwrite=True, backup=True, clean=True)
        was_reached = not next(steps)
        for each in (path, place / "z.onnx", place.with_name(f"{place.name} 2") / "a.onnx"):
            with suppress(FileNotFoundError):
                formats.repair(each)
        now = data_of(path) if path.exists() else []
        assert now == expected(2) or (now == expected(1) and number < 99), number
        if now == expected(2):
            assert expected(1) == data_of(was), number
        sources = (place.with_name(f"{place.name} 2") / "a.onnx", place / "z.onnx")
        assert now == expected(2) or verb != "mv" or expected(2) == data_of(sources[0]), number
        assert not [name for name in names(place) if name.startswith(".")], number
        if not was_reached:
            assert now == expected(2)
            return
    pytest.fail("there are more steps")


LOCKING: dict[str, Callable[..., object]] = {
    "convert": lambda path, **options: formats.convert(path.with_name("z.onnx"), path, **options),
    "extract": lambda path, **options: formats.extract(path.with_name("z.onnx"), path, outputs=["y1"], **options),
    "edit": lambda path, **options: formats.edit(path.with_name("z.onnx"), path, metadata={"a": "b"}, **options),
    "over its backup": lambda path, **options: formats.mv(path, path.with_name("a.bak.onnx"), **options),
    "cp": lambda path, **options: formats.cp(path.with_name("z.onnx"), path, **options),
    "from above": lambda path, **options: formats.mv(path.with_name("A.onnx"), path, **options),
    "from below": lambda path, **options: formats.mv(path.with_name("z.onnx"), path, **options),
    "to a link": lambda path, **_: formats.mv(path, path.with_name("0.onnx"), overwrite=True),
    "from a link": lambda path, **options: formats.mv(path.with_name("0.onnx"), path, **options),
    "share": lambda path, **options: formats.share(
        [path, path.with_name("z.onnx")], path.parent, external_data="common", **options
    ),
    "rm": lambda path, **_: formats.rm(path, all_data=True),
    "rm of a link": lambda path, **_: formats.rm(path.with_name("0.onnx"), all_data=True),
    "repair": lambda path, **_: formats.repair(path),
}


@pytest.mark.sample(3)
@pytest.mark.parametrize("layout", [{}, SPLIT], ids=str)
@pytest.mark.parametrize("keeping", [{}, {"clean": True}, {"backup": True, "clean": True}], ids=str)
@pytest.mark.parametrize("verb", LOCKING)
def test_every_verb_takes_its_locks_in_one_order(
    verb: str, keeping: Any, layout: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who has locks takes another only if it comes later in the order of all, so that no two wait for each other."""
    for number, name in enumerate(("a", "z", "A")):
        formats.save(model(number), tmp_path / f"{name}.onnx", **layout | {"overwrite": True})
    (tmp_path / "b").mkdir()
    formats.save(model(4), tmp_path / "b" / "m.onnx")
    (tmp_path / "0.onnx").symlink_to("b/m.onnx")
    held: list[lock.ModelLock] = []
    wrong: list[str] = []
    taken = 0

    def enter(self: lock.ModelLock) -> lock.ModelLock:
        nonlocal taken
        got = real_enter(self)
        if got is self:
            places = [each.path.with_name(each.path.name[1:]) for each in (*held, self)]
            if held and lock._rank(places[-2]) >= lock._rank(places[-1]):
                wrong.append(f"{places[-1].name} after {places[-2].name}")
            held.append(self)
            taken += 1
        return got

    def leave(self: lock.ModelLock, *error: object) -> None:
        if self in held:
            held.remove(self)
        real_leave(self, *error)

    real_enter, real_leave = lock.ModelLock.__enter__, lock.ModelLock.__exit__
    monkeypatch.setattr(lock.ModelLock, "__enter__", enter)
    monkeypatch.setattr(lock.ModelLock, "__exit__", leave)
    LOCKING[verb](tmp_path / "a.onnx", overwrite=True, **keeping)
    assert [] == wrong
    assert [] == held
    assert taken


def test_two_processes_clean_at_once(tmp_path: Path) -> None:
    """Two processes that replace one model again and again with `clean` never remove a file of the other's model."""
    path = tmp_path / "a.onnx"
    formats.save(model(0), path, **SPLIT)
    program = (
        "import sys, formats\n"
        "model = formats.load(sys.argv[1])\n"
        "for number in range(40):\n"
        "    layout = ({}, {'external_data': True}, {'external_data': True, 'max_external_file_size': 10_000})\n"
        "    options = layout[(number + int(sys.argv[3])) % 3]\n"
        "    formats.save(model, sys.argv[2], overwrite=True, clean=True, **options)\n"
        "    found = formats.load(sys.argv[2])\n"
        "    assert [tensor.numpy().tobytes() for tensor in found.graph.initializer]\n"
    )
    for number in (1, 2):
        formats.save(model(number), tmp_path / f"source{number}.onnxz")
    running = [
        subprocess.Popen(
            [sys.executable, "-c", program, tmp_path / f"source{number}.onnxz", path, str(number)],
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in (1, 2)
    ]
    told = [process.communicate(timeout=PATIENCE_SECONDS)[1] for process in running]
    assert [0, 0] == [process.returncode for process in running], told
    assert data_of(path) in (expected(1), expected(2))
    assert not [name for name in names(tmp_path) if name.startswith(".")]


def test_the_command_has_both(old: Path, command: Any) -> None:
    """`convert --force --backup --clean` prints where the old model is; a batch knows the options, too."""
    done = command(old, old, "--force", "--backup", "--no-external-data")
    assert done.stdout.splitlines()[-1] == f"note: kept the old model as {old.with_name('a.bak.onnx')}"
    done = command(old, old, "--clean")
    assert (2, True) == (
        done.returncode,
        "--clean is about a model that is replaced, so it needs --force" in done.stderr,
    )
    report = json.loads(command(old, old, "--force", "--backup", "--json").stdout)
    assert report["backup"] == os.fspath(old.with_name("a.bak.onnx"))


def test_an_unreadable_graph_that_may_use_replaced_data_is_told(tmp_path: Path) -> None:
    """`save`, `convert` and `share` note that a graph which cannot be read may use the data file they replace."""
    for name in ("a", "b"):
        formats.save(model(1), tmp_path / f"{name}.onnx")
    out = tmp_path / "out"
    formats.share([tmp_path / "a.onnx", tmp_path / "b.onnx"], out)
    (out / "x.onnx").write_bytes(b"no model")
    done = formats.share([tmp_path / "a.onnx", tmp_path / "b.onnx"], out, overwrite=True)
    told = [loss.detail for loss in done.losses if loss.kind == "shared_data"]
    assert told == ["x.onnx cannot be read, so it may also have its weights in shared.data, whose content changes"]
    formats.save(model(1), out / "c.onnx", external_data=True)
    report = formats.save(model(2), out / "c.onnx", external_data=True, overwrite=True)
    assert ["x.onnx"] == [loss.where for loss in report.losses]
    assert not any(loss.matters for loss in report.losses)
