"""Work on models while the system fails: the folder before, the work, and the states that are allowed afterwards."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import numpy as np

import formats
from formats import Dimension, Graph, Model, Node, OperatorSetId, TensorShape, TensorType, Type, ValueInfo, onnxzip
from formats.errors import FormatError
from formats.tensordata.engine import EngineOptions
from formats.tensordata.replacing import publication, tail_replacement
from formats.verbs.edit import edit as edit_model  # not in the work: it would import modules while calls fail

KEY = b"a long key"
SIZES = (300, 5000, 20_000)


def model(name: str, seed: int) -> Model:
    """Return a model with this producer and weights that no other model has."""
    state = np.random.default_rng(seed)
    weights = [formats.from_numpy(state.random(size, "float32"), f"w{size}") for size in SIZES]
    nodes = [
        Node(
            op_type="Concat",
            input=[f"y{index}", f"w{size}"],
            output=[f"y{index + 1}"],
            attribute=[formats.make_attribute("axis", 0)],
            doc_string=name * 200,
        )
        for index, size in enumerate(SIZES)
    ]
    ends = [
        ValueInfo(name=end, type=Type(tensor_type=TensorType(elem_type=1, shape=TensorShape([Dimension()]))))
        for end in ("y0", f"y{len(SIZES)}")
    ]
    graph = Graph(name="g", node=nodes, initializer=weights, input=ends[:1], output=ends[1:])
    return Model(ir_version=10, producer_name=name, opset_import=[OperatorSetId("", 17)], graph=graph)


@dataclass(frozen=True)
class Scenario:
    """Work on the model `file` in a prepared folder."""

    name: str
    file: str
    work: Callable[[Path], object]
    prepare: Callable[[Path], object] = lambda folder: None
    replaces: bool = False  # there is an old model before
    several: bool = False  # the model has several files, so it may be absent in between
    in_place: bool = False  # while it is changed, only our own readers see the old model
    result: str = "new"  # the state after the work was done
    goes_on: bool = False  # a killed process began the work
    source: str = ""  # where the new model is before it is moved to `file`
    beside: str = ""  # a model that is written together with this one
    backup: str = ""  # where the old model is after it was replaced


def write(file: str, seed: int, name: str, **options: Any) -> Callable[[Path], object]:
    """Return work that writes a model to this file of the folder."""
    return lambda folder: formats.save(model(name, seed), folder / file, threads=1, **options)


def update(folder: Path) -> object:
    """Return work that changes an archive in place."""
    archive = formats.load(folder / "m.onnxz")
    archive.producer_name = "new"
    assert archive.graph is not None
    archive.graph.initializer[-1] = formats.from_numpy(np.ones(7000, "float32"), "w20000")
    return onnxzip.update(archive, folder / "m.onnxz", engine=EngineOptions(threads=1))


def edit(folder: Path) -> object:
    """Return work that edits an archive in place, as the command does."""
    return edit_model(folder / "m.onnxz", metadata={"edited": "yes"}, threads=1)


class Killed(BaseException):
    """Simulates the end of a process."""


def killed(work: Callable[[Path], object], moves: int) -> Callable[[Path], object]:
    """Do work in a process that is killed after it has moved this many files, or has cut an archive."""

    def leave(folder: Path) -> None:
        left = [moves]

        def move(*arguments: Any) -> None:
            if not left[0]:
                raise Killed
            left[0] -= 1
            real(*arguments)

        def end(*arguments: Any) -> None:
            raise Killed

        real = publication.move_file
        with suppress(Killed), ExitStack() as patches:
            patches.enter_context(patch.object(publication, "move_file", move))
            patches.enter_context(patch.object(publication, "_give_up", lambda steps, lock: lock.keep()))
            patches.enter_context(patch.object(tail_replacement, "transfer", end))
            patches.enter_context(patch.object(tail_replacement, "_restore", end))
            work(folder)

    def prepare(folder: Path) -> None:
        write("m.onnxz" if work is update else "m.onnx", 1, "old", **({} if work is update else SPLIT))(folder)
        leave(folder)
        assert hidden_files(folder)

    return prepare


def repair(folder: Path) -> object:
    """Repair any model in the folder."""
    return formats.repair(folder / ("m.onnxz" if (folder / "m.onnxz").exists() else "m.onnx"))


def both(file: str, new: bool, **options: Any) -> Scenario:
    """Scenarios that write a model: to a new path, where it can be synced, or over another model."""
    name = f"{'new' if new else 'replaced'} {file} {' '.join(options)}".strip()
    several = bool(options.get("external_data"))
    fixed = {"key": formats.Key.of(KEY)} if file.endswith("onnxc") else {}
    if new:
        work = write(file, 2, "new", fsync=True, **options, **fixed)
        return Scenario(name, file, work, several=several)
    old = write(file, 1, "old", **options, **fixed)
    work = write(file, 2, "new", overwrite=True, **options, **fixed)
    return Scenario(name, file, work, old, replaces=True, several=several)


def moved(replaces: bool, source: str = "s.onnx") -> Scenario:
    """Scenarios that move a model of two files to another name or folder, where a model may exist."""

    def prepare(folder: Path) -> None:
        write(source, 2, "new", parents=True, **ONE)(folder)
        if replaces:
            write("m.onnx", 1, "old", **ONE)(folder)

    def work(folder: Path) -> object:
        return formats.mv(folder / source, folder / "m.onnx", overwrite=True, fsync=True)

    name = f"moved {'over another' if replaces else 'away'}{' from another folder' * ('/' in source)}"
    return Scenario(name, "m.onnx", work, prepare, replaces=replaces, several=True, source=source)


def shared(beside: str, replaces: bool) -> Scenario:
    """Scenarios that write two models with common weights, with or without two older ones that share weights, too."""

    def share(folder: Path, name: str, **options: Any) -> object:
        sources = folder.with_name(f"{name} sources")  # outside of the folder, because the folder is copied
        return formats.share([sources / "m.onnx", sources / beside], folder, threads=1, **options)

    def prepare(folder: Path) -> None:
        for seed, name in enumerate(("old", "new"), 1):
            sources = folder.with_name(f"{name} sources")
            sources.mkdir(exist_ok=True)
            write("m.onnx", seed, name, overwrite=True)(sources)
            other = model(name, seed)
            assert other.graph is not None
            other.graph.initializer[0] = formats.from_numpy(np.full(SIZES[0], seed, "float32"), f"w{SIZES[0]}")
            formats.save(other, sources / beside, overwrite=True)
        if replaces:
            share(folder, "old")

    def work(folder: Path) -> object:
        return share(folder, "new", overwrite=replaces, fsync=True)

    name = f"{'replaced' if replaces else 'new'} m.onnx shared with {beside}"
    return Scenario(name, "m.onnx", work, prepare, replaces=replaces, several=True, beside=beside)


def backed_up(verb: str) -> Scenario:
    """Scenarios that replace a model with data files, keep it as a backup, and remove what it leaves."""

    def prepare(folder: Path) -> None:
        write("m.onnx", 1, "old", **SPLIT)(folder)
        if verb == "moved":
            write("s.onnx", 2, "new", **ONE)(folder)

    def work(folder: Path) -> object:
        keeping: dict[str, Any] = {"overwrite": True, "backup": True, "clean": True}
        if verb == "moved":
            return formats.mv(folder / "s.onnx", folder / "m.onnx", **keeping)
        return write("m.onnx", 2, "new", **keeping, **(SPLIT if verb == "replaced" else {}))(folder)

    source = "s.onnx" if verb == "moved" else ""
    name = f"{verb} with a backup"
    return Scenario(name, "m.onnx", work, prepare, replaces=True, several=True, source=source, backup="m.bak.onnx")


SPLIT = {"external_data": True, "max_external_file_size": 30_000}
EACH = {"external_data": True, "one_file_per_tensor": True, "checksum": True}
ONE = {"external_data": True}
SAFETENSORS = {"external_data": "m.safetensors", "alignment": 4096}

SCENARIOS = [
    both("m.onnxz", new=True),
    both("m.onnxz", new=False),
    both("m.onnx", new=True, **ONE),
    both("m.onnx", new=False, **ONE),
    both("m.onnx", new=False, **SPLIT),
    both("m.onnx", new=True, **EACH),
    Scenario(
        "inline over external",
        "m.onnx",
        write("m.onnx", 2, "new", overwrite=True),
        write("m.onnx", 1, "old", **ONE),
        replaces=True,
    ),
    Scenario(
        "external over inline",
        "m.onnx",
        write("m.onnx", 2, "new", overwrite=True, **ONE),
        write("m.onnx", 1, "old"),
        replaces=True,
        several=True,
    ),
    Scenario(
        "repair of several files",
        "m.onnx",
        repair,
        killed(write("m.onnx", 2, "new", overwrite=True, **SPLIT), 2),
        replaces=True,
        several=True,
        goes_on=True,
    ),
    Scenario(
        "repair of an update",
        "m.onnxz",
        repair,
        killed(update, 0),
        replaces=True,
        in_place=True,
        result="old",
        goes_on=True,
    ),
    Scenario("edit", "m.onnxz", edit, write("m.onnxz", 1, "old"), replaces=True, in_place=True),
    Scenario("update", "m.onnxz", update, write("m.onnxz", 1, "old"), replaces=True, in_place=True),
    moved(replaces=False),
    moved(replaces=True),
    moved(replaces=False, source="sub/s.onnx"),
    shared("n.onnx", replaces=False),
    shared("n.onnx", replaces=True),
    backed_up("replaced"),
    backed_up("joined"),
    backed_up("moved"),
]
# The simulated power cuts must find a fault here; otherwise the simulation does not work.
UNSYNCED = Scenario(
    "unsynced",
    "m.onnx",
    write("m.onnx", 2, "new", overwrite=True, fsync=False, **ONE),
    write("m.onnx", 1, "old", **ONE),
    replaces=True,
    several=True,
)
MORE = [
    UNSYNCED,
    both("m.onnx", new=True),
    both("m.onnx", new=False),
    both("m.rten", new=True),
    both("m.rten", new=False),
    both("m.onnxc", new=True),
    both("m.onnxc", new=False),
    both("m.textproto", new=False),
    both("m.json", new=False),
    both("m.onnx", new=True, **SPLIT),
    both("m.onnx", new=False, **EACH),
    both("m.onnx", new=False, **SAFETENSORS),
    shared("a.onnx", replaces=True),
    moved(replaces=True, source="sub/s.onnx"),
]


def state_of(scenario: Scenario, folder: Path) -> str:
    """Return what our reader finds: "old", "new", "none", or what is wrong."""
    key = {"key": formats.Key.of(KEY)} if scenario.file.endswith("onnxc") else {}
    try:
        found = formats.load(folder / scenario.file, **key)
        return _named(scenario, found, [tensor.numpy().tobytes() for tensor in found.graph.initializer])  # type: ignore[union-attr]
    except FileNotFoundError:
        return "none"
    except FormatError as error:
        return f"refused: {error}"


def plain_state_of(scenario: Scenario, folder: Path) -> str:
    """Return what another program finds: `onnx`, or `zipfile` for an archive."""
    path = folder / scenario.file
    if not path.exists():
        return "none"
    if not scenario.file.endswith(".onnx"):
        return state_of(scenario, folder)
    import onnx

    try:
        found = onnx_load(path)
    except Exception as error:
        return f"refused by onnx: {error!r}"
    return _named(scenario, found, [onnx.numpy_helper.to_array(tensor).tobytes() for tensor in found.graph.initializer])


def onnx_load(path: Path) -> Any:
    """Return what `onnx` finds, in a copy of the files if it refuses them only because they have a second name.

    A backup, and a move to another folder, give files one; other programs read them, and so must find a whole model.
    """
    import onnx

    try:
        return onnx.load(path)
    except Exception as error:
        if "multiple hard links" not in str(error):
            raise
    with TemporaryDirectory() as copy:
        shutil.copytree(path.parent, copy, dirs_exist_ok=True)
        return onnx.load(Path(copy, path.name))


def _named(scenario: Scenario, found: Any, weights: list[bytes]) -> str:
    if scenario.work is edit and sorted(weights) == sorted(_weights("old", is_update=False)):
        return "new" if any(entry.key == "edited" for entry in found.metadata_props) else "old"
    for name in ("old", "new"):
        if sorted(weights) == sorted(_weights(name, is_update=scenario.work is update and name == "new")):
            producer = found.producer_name
            is_right = producer == name or (scenario.file.endswith(".rten") and not producer)
            return name if is_right else f"the weights of {name} and the graph of {producer}"
    return f"mixed weights in the graph of {found.producer_name}"


@cache
def _weights(name: str, is_update: bool) -> list[bytes]:
    graph = model(name, 1 if name == "old" or is_update else 2).graph
    assert graph is not None
    weights = [tensor.source().read() for tensor in graph.initializer]
    return [*weights[:-1], np.ones(7000, "float32").tobytes()] if is_update else weights


def hidden_files(folder: Path) -> list[str]:
    """Return the hidden files of a folder, and those below it."""
    return sorted(path.name for path in folder.rglob(".*"))


def content(folder: Path) -> dict[str, bytes]:
    """Return the bytes of all files of a folder, and of those below it."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def allowed(scenario: Scenario) -> set[str]:
    """Return the states in which our readers may find a model, whatever happens."""
    states = {"old", "new"} if scenario.replaces else {"none", "new"}
    return states | ({"none"} if scenario.several else set())


def problems(scenario: Scenario, folder: Path, *, plain: bool = True, twice: bool = False) -> list[str]:
    """Return the broken promises in a folder where work was interrupted, or perhaps done `twice`; then repair it."""
    found = []
    before = content(folder)
    if plain and not scenario.in_place and (state := plain_state_of(scenario, folder)) not in allowed(scenario):
        found.append(f"another program finds: {state}")
    state = state_of(scenario, folder)
    if state not in allowed(scenario):
        found.append(f"found: {state}")
    if scenario.source and state != "new" and state_of(replace(scenario, file=scenario.source), folder) != "new":
        found.append(f"found: {state}, and the model is no longer where it was")
    if before != content(folder):
        found.append("a reader wrote something")
    try:
        formats.repair(folder / scenario.file)
    except FileNotFoundError:
        if scenario.replaces:
            found.append("nothing to repair, and no model")
    except (OSError, FormatError) as error:
        return [*found, f"repair: {error}"]
    with suppress(FileNotFoundError):
        formats.repair(folder / (scenario.source or scenario.beside or scenario.file))
    after = state_of(scenario, folder)
    if after not in allowed(scenario) or (after == "none" and scenario.replaces) or (state == "new" and after != "new"):
        found.append(f"found before the repair: {state}, and after it: {after}")
    if scenario.backup and after == "new":
        kept = state_of(replace(scenario, file=scenario.backup), folder)
        found += (
            []
            if kept == "old" or (twice and kept == "new")
            else [f"the new model has its place, and of the old one is found: {kept}"]
        )
    if hidden_files(folder):
        found.append(f"left behind: {hidden_files(folder)}")
    if scenario.source:
        found += _problems_again(scenario, folder)
    return found


def _problems_again(scenario: Scenario, folder: Path) -> list[str]:
    """Return the broken promises if a model whose writing was interrupted is written to the same path again.

    If only old data files were left there, they are removed. A backup stays the model before the first try.
    """
    if (folder / scenario.source).exists():
        scenario.work(folder)
    else:
        (folder / f"{scenario.source}.data").unlink(missing_ok=True)
    data = folder / f"{scenario.file}.data"
    whole = (plain_state_of(scenario, folder), data.stat().st_nlink) == ("new", 1)
    if scenario.backup and (kept := state_of(replace(scenario, file=scenario.backup), folder)) != "old":
        return [f"moved once more, and the backup is: {kept}"]
    found = f"{plain_state_of(scenario, folder)} {sorted(os.listdir(folder))} {data.stat().st_nlink}"
    return [] if whole and not (folder / scenario.source).exists() else [f"moved once more: {found}"]


def fresh(template: Path, folder: Path) -> None:
    """Restore the folder from the template."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(template, folder)
