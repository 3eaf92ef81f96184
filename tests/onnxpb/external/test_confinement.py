"""Every published advisory about ONNX files, by name: the attack fails on read and write, a similar legal file works.

GHSA-3jf9-582g-jjmq, GHSA-xrch-8vh7-h656, GHSA-p893-rvq9-2xf9 and GHSA-8qff-7g33-75mx have no public text.
"""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import formats
from formats import onnxpb
from formats.errors import ExternalDataError, FormatError, LimitError, OptionError, TensorDataError, UnsupportedError
from formats.ir.model import (
    Attribute,
    Function,
    Graph,
    Model,
    Node,
    OperatorSetId,
    StringStringEntry,
    Tensor,
    ValueInfo,
)
from formats.onnxpb.external import confinement
from formats.tensordata.file import File
from formats.tensordata.local.osio import SYSTEM
from formats.tensordata.sources.source import Literal
from tests.onnxpb.references import model_with_references
from tests.systems import posix

WEIGHT = np.arange(1000, dtype="float32")
TRAVERSALS = ["../w.data", "sub/../../w.data", "./../w.data", "sub/..", "..", "a\\..\\..\\w.data", "..\\w.data"]
ABSOLUTE = ["/etc/passwd", "//server/share/w.data", "\\\\server\\share\\w.data", "C:\\w.data", "c:w.data", "\\w.data"]


@pytest.fixture
def inside(tmp_path: Path) -> Path:
    """A directory for a model; next to it is `w.data`, which has the size of a tensor but is not part of the model."""
    (tmp_path / "w.data").write_bytes(b"secret.." * 50)
    (tmp_path / "in" / "sub").mkdir(parents=True)
    return tmp_path / "in"


def tree(folder: Path) -> dict[str, bytes | None]:
    """Return everything under a folder, with the content of files."""
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


def model_with_weights(*names: str) -> Model:
    """Return a model with a weight for each name."""
    tensors = [Tensor(name=name, data_type=1, dims=[1000], raw_data=Literal(WEIGHT.tobytes())) for name in names]
    return Model(ir_version=10, opset_import=[OperatorSetId(version=20)], graph=Graph(name="g", initializer=tensors))


def weights(path: Path) -> list[list[float]]:
    """Return the elements of every initialiser of the model at `path`."""
    graph = formats.load(path).graph
    assert graph is not None
    return [tensor.numpy().tolist() for tensor in graph.initializer]


def refuses_to_read(inside: Path, location: str, **entries: str) -> None:
    """Assert that no reader of models opens the data file at `location`."""
    path = model_with_references(inside / "m.onnx", {"location": location, **entries})
    for read in (formats.load, onnxpb.load, formats.inspect):
        with pytest.raises(ExternalDataError):
            read(path)


def refuses_to_write(inside: Path, location: str) -> None:
    """Assert that no writer of models puts its data at `location`, and that nothing at all is written."""
    before = tree(inside.parent)
    model = model_with_weights("w")
    with pytest.raises((OptionError, ExternalDataError)):
        formats.save(model, inside / "out.onnx", external_data=location)
    with pytest.raises(ExternalDataError):
        onnxpb.save(model, inside / "out.onnx", save_as_external_data=True, location=location, size_threshold=0)
    assert before == tree(inside.parent)


# Places of external data


@pytest.mark.parametrize("location", TRAVERSALS[:1])
def test_traversal(inside: Path, location: str) -> None:
    """CVE-2022-25882: a location cannot lead up by "..", but a file name may start with dots."""
    refuses_to_read(inside, location)
    refuses_to_write(inside, location)
    for name in ("..w.data", "w..data", "...data"):
        (inside / name).write_bytes(bytes(400))
        assert [[0.0] * 100] == weights(model_with_references(inside / "m.onnx", {"location": name}))
        formats.save(model_with_weights("w"), inside / "out.onnx", external_data=name, overwrite=True)
        assert [WEIGHT.tolist()] == weights(inside / "out.onnx")


@pytest.mark.parametrize("location", TRAVERSALS[1:])
def test_nested_traversal(inside: Path, location: str) -> None:
    """CVE-2024-27318: nor can ".." follow other steps, in either notation; steps that only go down are allowed."""
    refuses_to_read(inside, location)
    refuses_to_write(inside, location)
    (inside / "sub" / "w.data").write_bytes(bytes(400))
    for near in ("sub/w.data", "./sub/w.data", "sub/./w.data", "sub//w.data"):
        assert [[0.0] * 100] == weights(model_with_references(inside / "m.onnx", {"location": near}))


@pytest.mark.parametrize("location", [*ABSOLUTE, "w.data\0", "sub\0/w.data"])
def test_absolute_locations(inside: Path, location: str) -> None:
    """microsoft/onnxruntime#26776: a location cannot be absolute, on a drive or machine, empty or cut by a NUL."""
    refuses_to_read(inside, "")
    (inside / "w.data").write_bytes(bytes(400))
    refuses_to_read(inside, location)
    refuses_to_write(inside, location)
    refuses_to_read(inside, str(inside.absolute() / "w.data"))


@pytest.mark.parametrize("location", ["*/_ORT_MEM_ADDR_/*", "x_ORT_MEM_ADDR_", "*/w", "<memory>"])
def test_addresses_in_memory(inside: Path, location: str) -> None:
    """microsoft/onnxruntime#28709, #29011: in a file, a location that means an address in memory is refused."""
    refuses_to_read(inside, location, offset=str(id(WEIGHT)), length="400")
    refuses_to_write(inside, location)


def test_names_that_no_file_can_have(inside: Path) -> None:
    """A location that is too long for the filesystem is a fault of the model, which names a part of it."""
    path = model_with_references(inside / "m.onnx", {"location": "a" * 5000})
    with pytest.raises(ExternalDataError, match=r"^\S*m.onnx, graph.initializer\[0\]: location 'a{79} is too long"):
        formats.load(path)
    assert ["V101"] == [finding.code for finding in formats.verify(path).errors]


def test_model_from_memory(inside: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """microsoft/onnxruntime#27430: a model from bytes does not open a file of the current directory."""
    monkeypatch.chdir(inside)
    Path("w.data").write_bytes(bytes(400))
    monkeypatch.setattr(File, "open", lambda *arguments, **options: pytest.fail("a file was opened"))
    for location in ("w.data", "../w.data"):
        data = model_with_references(Path("m.onnx"), {"location": location}).read_bytes()
        for model in (formats.loads(data), onnxpb.unwrap(onnxpb.load_model_from_string(data))):
            with pytest.raises(TensorDataError, match="another file"):
                model.graph.initializer[0].numpy()


def test_writing_elsewhere(inside: Path) -> None:
    """CVE-2025-51480: data are written to a tensor's own location only if it is inside the folder."""
    for location in (str(inside.parent / "w.data"), "../w.data", "sub/w.data", "w.data"):
        is_inside = location in ("sub/w.data", "w.data")
        tensor = Tensor(name="w", data_type=1, dims=[1000], raw_data=Literal(WEIGHT.tobytes()), data_location=1)
        tensor.external_data = [StringStringEntry("location", location)]
        model = Model(ir_version=10, graph=Graph(name="g", initializer=[tensor]))
        before = tree(inside.parent)
        with nullcontext() if is_inside else pytest.raises(ExternalDataError):
            onnxpb.save(model, inside / "out.onnx")
        with pytest.raises(ExternalDataError):
            formats.save(model, inside / "other.onnx")
        after = tree(inside.parent)
        changed = {name for name in after if after[name] != before.get(name)}
        assert changed <= ({"in/out.onnx", f"in/{location}"} if is_inside else set())
        if is_inside:
            assert [WEIGHT.tolist()] == weights(inside / "out.onnx")


# Links


@pytest.mark.parametrize("target", ["../w.data", "{inside}/../w.data", "sub/up/w.data", "chain"])
def test_symbolic_links(inside: Path, target: str) -> None:
    """CVE-2026-27489, CVE-2026-34447: a link, or a chain of links, cannot lead out of the directory, only within it."""
    (inside / "sub" / "up").symlink_to("../..")
    (inside / "chain").symlink_to("sub/up/w.data")
    (inside / "link").symlink_to(target.format(inside=inside))
    for location in ("link", "sub/up/w.data"):
        refuses_to_read(inside, location)
    (inside / "sub" / "w.data").write_bytes(bytes(400))
    (inside / "near").symlink_to("sub/w.data")
    (inside / "folder").symlink_to("sub")
    for location in ("near", "folder/w.data"):
        assert [[0.0] * 100] == weights(model_with_references(inside / "m.onnx", {"location": location}))


@pytest.mark.parametrize("target", ["../w.data", "../nowhere", "sub", "m.onnx.data"])
def test_writing_through_symbolic_links(inside: Path, target: str) -> None:
    """CVE-2026-27489, on write: a link at the data file's path is replaced; a link at the model's path is followed."""
    (inside / "m.onnx.data").symlink_to(target)
    before = tree(inside.parent)
    with pytest.raises(OSError):
        formats.save(model_with_weights("w"), inside / "m.onnx", external_data=True)
    assert before == tree(inside.parent)
    formats.save(model_with_weights("w"), inside / "m.onnx", external_data=True, overwrite=True)
    assert [WEIGHT.tolist()] == weights(inside / "m.onnx")
    assert not (inside / "m.onnx.data").is_symlink()
    (inside / "near.onnx").symlink_to("sub/m.onnx")
    formats.save(model_with_weights("w"), inside / "near.onnx", overwrite=True)
    assert [WEIGHT.tolist()] == weights(inside / "sub" / "m.onnx")
    changed = {"in/m.onnx", "in/m.onnx.data", "in/near.onnx", "in/sub/m.onnx"}
    assert {name: before[name] for name in before.keys() - changed}.items() <= tree(inside.parent).items()


def test_links_of_a_model_cache(tmp_path: Path) -> None:
    """microsoft/onnxruntime#27353: a model and data that are links into one folder of blobs are read, others not."""
    blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshots" / "1"
    blobs.mkdir()
    snapshot.mkdir(parents=True)
    (blobs / "data-hash").write_bytes(bytes(400))
    model_with_references(blobs / "model-hash", {"location": "model.onnx_data"})
    (snapshot / "model.onnx").symlink_to("../../blobs/model-hash")
    (snapshot / "model.onnx_data").symlink_to("../../blobs/data-hash")
    assert [[0.0] * 100] == weights(snapshot / "model.onnx")
    (tmp_path / "w.data").write_bytes(bytes(400))
    (snapshot / "model.onnx_data").unlink()
    (snapshot / "model.onnx_data").symlink_to("../../w.data")
    with pytest.raises(ExternalDataError, match="outside"):
        formats.load(snapshot / "model.onnx")


def test_hard_links(inside: Path) -> None:
    """CVE-2026-34446: on request, a file with hard links elsewhere is refused; writing never changes such a file."""
    path = model_with_references(inside / "m.onnx", {"location": "one.data"}, {"location": "two.data"})
    os.link(inside.parent / "w.data", inside / "one.data")
    (inside / "two.data").write_bytes(bytes(400))
    assert 2 == len(weights(path))
    for read in (formats.load, onnxpb.load):
        with pytest.raises(ExternalDataError, match=r"one\.data, .*: the data file has 2 names \(hard links\)"):
            read(path, hard_links=False)
    with pytest.raises(ExternalDataError):
        formats.convert(path, inside / "out.onnxz", hard_links=False)
    formats.save(model_with_weights("w"), inside / "new.onnx", external_data="one.data", overwrite=True)
    assert b"secret.." * 50 == (inside.parent / "w.data").read_bytes()
    assert 1 == len(weights(inside / "new.onnx"))
    formats.load(inside / "new.onnx", hard_links=False)


@pytest.mark.parametrize("restore", [False, True])
def test_replacement_between_check_and_use(inside: Path, restore: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """onnx/onnx#7790: without open folders, a link that appears after the check is noticed, even if it goes again."""
    path = model_with_references(inside / "m.onnx", {"location": "sub/w.data"})
    (inside / "sub" / "w.data").write_bytes(bytes(400))
    opened = confinement.LocalFile

    def exchange_and_open(name: Path, **options: Any) -> File:
        (inside / "sub").rename(inside / "aside")
        (inside / "sub").symlink_to("..")
        file = opened(name, **options)
        if restore:
            (inside / "sub").unlink()
            (inside / "aside").rename(inside / "sub")
        return file

    files = confinement.DataFiles(path, capabilities=replace(SYSTEM, open_folders=False))
    assert 400 == files.open("sub/w.data").nbytes
    monkeypatch.setattr(confinement, "LocalFile", exchange_and_open)
    with pytest.raises(ExternalDataError, match=r"replaced|outside"):
        confinement.DataFiles(path, capabilities=replace(SYSTEM, open_folders=False)).open("sub/w.data")


CALLS = ((os, "open"), (os, "stat"), (os.path, "realpath"), (os.path, "islink"), (Path, "is_symlink"), (Path, "exists"))


@pytest.mark.skipif(not SYSTEM.open_folders, reason="this system has no calls for open folders")
@pytest.mark.parametrize("swapped", ["sub", "m.onnx", "sub/w.data"])
@pytest.mark.parametrize("back", [False, True])
@pytest.mark.parametrize("location", ["sub/w.data", "folder/w.data", "link"])
def test_exchange_at_every_call(
    inside: Path, swapped: str, back: bool, location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At whichever call a folder, the model or a file is replaced by a link and restored, nothing outside is opened."""
    (inside / "folder").symlink_to("sub")
    (inside / "link").symlink_to("sub/w.data")
    path = model_with_references(inside / "m.onnx", {"location": location})
    (inside / "sub" / "w.data").write_bytes(b"public!!" * 50)
    (inside / swapped).with_name("other").symlink_to(inside.parent if swapped == "sub" else inside.parent / "w.data")
    opened = 0
    for number in range(40):
        calls = 0

        def swap() -> None:
            os.rename(inside / swapped, inside / "aside")
            os.rename((inside / swapped).with_name("other"), inside / swapped)
            os.rename(inside / "aside", (inside / swapped).with_name("other"))

        def counted(real: Callable[..., Any], number: int = number) -> Callable[..., Any]:
            def call(*arguments: Any, **options: Any) -> Any:
                nonlocal calls
                calls += 1
                if calls == number or (back and calls == number + 1):
                    swap()
                return real(*arguments, **options)

            return call

        file = File.open(path)
        with monkeypatch.context() as patch:
            for holder, name in CALLS:
                patch.setattr(holder, name, counted(getattr(holder, name)))
            try:
                data = confinement.DataFiles(path, model_file=file).open(location).pread(0, 400)
            except (ExternalDataError, OSError):
                data = b""
        assert data in (b"", b"public!!" * 50)
        opened += bool(data)
        if (inside / swapped).is_symlink():
            swap()
        if calls < number:
            break
    assert calls < number
    assert opened


@posix
def test_special_files(inside: Path) -> None:
    """A pipe, a device or a directory is not a data file, and opening it does not wait."""
    os.mkfifo(inside / "pipe")
    (inside / "null").symlink_to("/dev/null")
    for location in ("pipe", "null", "sub"):
        with pytest.raises((FormatError, IsADirectoryError)):
            formats.load(model_with_references(inside / "m.onnx", {"location": location}))


# The entries of `external_data`


@pytest.mark.parametrize(
    "entries",
    [
        {"offset": "1"},
        {"length": "396"},
        {"length": "404"},
        {"offset": "-4"},
        {"offset": "x"},
        {"offset": "0x0"},
        {"offset": "9" * 30},
        {"offset": "²"},
        {"offset": str(1 << 62)},
        {"length": str(1 << 62)},
        {"offset": str((1 << 64) - 400), "length": "800"},
    ],
)
def test_hostile_entries(inside: Path, entries: dict[str, str]) -> None:
    """CVE-2026-34445: no offset or length leads past the end of the file, or makes a program allocate more memory."""
    (inside / "w.data").write_bytes(bytes(400))
    path = model_with_references(inside / "m.onnx", {"location": "w.data", **entries})
    with pytest.raises(ExternalDataError) as caught:
        formats.load(path)
    assert "graph.initializer[0]" == caught.value.where
    onnxpb.save(onnxpb.load(path, load_external_data=False), inside / "out.onnx")  # and offsets do not make a file grow
    assert path.stat().st_size == (inside / "out.onnx").stat().st_size


def test_entries_that_name_attributes(inside: Path) -> None:
    """CVE-2026-34445: keys of a file set no attributes; unknown keys mean nothing, and stay with the tensor."""
    strange = dict.fromkeys(("__class__", "__dict__", "external_source", "raw_data", "dims", "nbytes"), "1")
    (inside / "w.data").write_bytes(bytes(400))
    path = model_with_references(inside / "m.onnx", {"location": "w.data", **strange})
    assert [[0.0] * 100] == weights(path)
    formats.convert(path, inside / "out.onnx")
    (tensor,) = onnx.load(inside / "out.onnx", load_external_data=False).graph.initializer
    assert strange.items() <= {entry.key: entry.value for entry in tensor.external_data}.items()


def test_padding(inside: Path) -> None:
    """onnx/onnx#8260: the offsets of a model that was read are not used when its data are written again."""
    with (inside / "w.data").open("wb") as file:
        file.truncate((1 << 40) + 400)
    path = model_with_references(inside / "m.onnx", {"location": "w.data", "offset": str(1 << 40)})
    formats.convert(path, inside / "out.onnx")
    assert 400 == (inside / "out.onnx.data").stat().st_size


@pytest.mark.parametrize("dims", [[99], [101], [1 << 62], [1 << 32, 1 << 32], [1 << 31, 1 << 31, 4], [-100], [100, -1]])
@pytest.mark.parametrize("storage", ["raw_data", "float_data", "external"])
def test_sizes_that_disagree(inside: Path, dims: list[int], storage: str) -> None:
    """onnx/onnx#8109, #8031, #8277: dims that overflow, or that need another amount of data, give an error."""

    def numbers(dims: list[int]) -> Any:
        tensor = onnx.TensorProto(name="t", dims=dims, data_type=1)
        if storage == "external":
            (inside / "w.data").write_bytes(bytes(400))
            tensor.data_location = 1
            tensor.external_data.add(key="location", value="w.data")
            tensor.external_data.add(key="length", value="400")
        elif storage == "raw_data":
            tensor.raw_data = bytes(400)
        else:
            tensor.float_data.extend([0.0] * 100)
        graph = onnx.GraphProto(name="g", initializer=[tensor])
        (inside / "m.onnx").write_bytes(onnx.ModelProto(ir_version=10, graph=graph).SerializeToString())
        return weights(inside / "m.onnx")

    with pytest.raises(FormatError):
        numbers(dims)
    with pytest.raises(FormatError):
        formats.convert(inside / "m.onnx", inside / "out.onnx", external_data=True, size_threshold=1)
    assert not (inside / "out.onnx").exists()
    for near in ([100], [4, 25], [1, 100, 1]):
        assert np.zeros(near).tolist() == numbers(near)[0]


def test_long_texts_in_messages(inside: Path) -> None:
    """CVE-2024-27319: a message about a text of any length is complete, and not as long as the text."""
    for location in ("/" + "x" * 1_000_000, "é" * 4095 + "/..", "%s%n" * 1000 + "\0"):
        with pytest.raises(ExternalDataError) as caught:
            formats.load(model_with_references(inside / "m.onnx", {"location": location}))
        assert len(caught.value.message) < 200


# Archives, hubs and graphs


@pytest.mark.parametrize("name", ["../evil", "/evil", "sub/../../evil", "C:\\evil", "..\\evil", "evil\0.txt"])
def test_entries_of_archives(inside: Path, name: str) -> None:
    """CVE-2024-5187: no entry of an archive is ever extracted, and on write no tensor's name is used as a path."""
    formats.save(model_with_weights("w"), inside / "m.onnxz")
    before = tree(inside.parent)
    with zipfile.ZipFile(inside / "m.onnxz") as old, zipfile.ZipFile(inside / "evil.onnxz", "w") as new:
        for entry in old.infolist():
            new.writestr(entry.filename, old.read(entry))
        new.writestr(zipfile.ZipInfo(name.replace("\0", "?")), b"evil")
    data = (inside / "evil.onnxz").read_bytes().replace(b"evil?", b"evil\0")
    (inside / "evil.onnxz").write_bytes(data)
    with pytest.raises(FormatError):
        formats.load(inside / "evil.onnxz")
    (inside / "evil.onnxz").unlink()
    assert before == tree(inside.parent)
    formats.save(model_with_weights(name, "w"), inside / "out.onnx", external_data=True, one_file_per_tensor=True)
    written = {path for path in inside.parent.rglob("*") if str(path.relative_to(inside.parent)) not in before}
    assert ({inside}, 3) == ({path.parent for path in written}, len(written))
    assert [WEIGHT.tolist()] * 2 == weights(inside / "out.onnx")


def test_nothing_comes_from_the_network(tiny_model: Path, python: Callable[..., Any]) -> None:
    """CVE-2026-28500: there is no hub: no location is an address, and no module for network access is imported."""
    with pytest.raises(ExternalDataError, match="does not exist"):
        formats.load(model_with_references(tiny_model.with_name("m.onnx"), {"location": "https://example.com/w.data"}))
    program = (
        "import json, sys, formats; before = set(sys.modules)\n"
        "formats.convert(sys.argv[1], 'a.onnxz'); formats.convert('a.onnxz', 'b.onnx', external_data=True)\n"
        "formats.load('b.onnx'); formats.verify('b.onnx', data=True)\n"
        "print(json.dumps(sorted(set(sys.modules) - before)))"
    )
    imported = json.loads(python("-c", program, tiny_model).stdout)
    assert "formats.onnxpb.external.model" in imported
    assert not {"socket", "_socket", "ssl", "urllib.request", "http.client", "subprocess"} & set(imported)


def test_functions_that_call_each_other(tmp_path: Path) -> None:
    """GHSA-7w46-vvrh-m8q5: functions that call each other are kept as data, and refused if they must be expanded."""

    def function(name: str, called: str, domain: str = "local") -> Function:
        node = Node(op_type=called, domain=domain, input=["x"], output=["y"])
        imports = [OperatorSetId(domain="local", version=1), OperatorSetId(domain="", version=20)]
        return Function(name=name, domain="local", input=["x"], output=["y"], node=[node], opset_import=imports)

    values = onnx.helper.make_graph(
        [],
        "g",
        [onnx.helper.make_tensor_value_info("x", 1, [2])],
        [onnx.helper.make_tensor_value_info("y", 1, [2])],
    )
    (tmp_path / "values.onnx").write_bytes(onnx.helper.make_model(values).SerializeToString())
    model = formats.load(tmp_path / "values.onnx")
    assert model.graph is not None
    assert isinstance(model.graph.input[0], ValueInfo)
    model.opset_import = [OperatorSetId(domain="", version=20), OperatorSetId(domain="local", version=1)]
    model.graph.node = [Node(op_type="f", domain="local", input=["x"], output=["y"])]
    for functions in ([function("f", "f")], [function("f", "g"), function("g", "h"), function("h", "f")]):
        model.functions = functions
        for extension in ("onnx", "onnxz", "textproto"):
            formats.save(model, tmp_path / f"a.{extension}", overwrite=True)
            assert model == formats.load(tmp_path / f"a.{extension}")
            formats.verify(tmp_path / f"a.{extension}")
            formats.inspect(tmp_path / f"a.{extension}")
        with pytest.raises(UnsupportedError):
            formats.save(model, tmp_path / "a.rten")
    model.functions = [function("f", "g"), function("g", "h"), function("h", "Relu", "")]
    formats.save(model, tmp_path / "a.rten")


@pytest.mark.parametrize("count", [0, 3, -1, 1 << 40, -(1 << 63)])
def test_scan_inputs(count: int, tmp_path: Path) -> None:
    """GHSA-qrhj-v62m-vmpf: a Scan with more scanned inputs than inputs is copied unchanged, and not interpreted."""
    body = onnx.helper.make_graph([], "body", [], [])
    node = onnx.helper.make_node("Scan", ["x"], ["y"], body=body, num_scan_inputs=count)
    x, y = (onnx.helper.make_tensor_value_info(name, 1, [2]) for name in "xy")
    proto = onnx.helper.make_model(onnx.helper.make_graph([node], "g", [x], [y]))
    (tmp_path / "a.onnx").write_bytes(proto.SerializeToString())
    formats.convert(tmp_path / "a.onnx", tmp_path / "a.onnxz")
    formats.convert(tmp_path / "a.onnxz", tmp_path / "b.onnx")
    assert proto == onnx.load(tmp_path / "b.onnx")
    with pytest.raises(UnsupportedError):
        formats.convert(tmp_path / "a.onnx", tmp_path / "a.rten")


# Protobuf


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"\xfb\x01" * 100_000, id="CVE-2024-7254: groups, begun"),
        pytest.param(b"\xfb\x01" * 100_000 + b"\xfc\x01" * 100_000, id="CVE-2024-7254: groups, whole"),
        pytest.param(b"\x3a\x80\x01\x0a\x7e\x2a\x7c" + b"\xfb\x01" * 62, id="CVE-2024-7254: groups in messages"),
    ],
)
def test_nested_groups(data: bytes) -> None:
    """CVE-2024-7254, CVE-2026-6409: nested groups are read without recursion; a few are skipped and kept."""
    with pytest.raises(FormatError):
        formats.dumps(formats.loads(data, format="onnx"), "json")
    near = onnx.ModelProto(graph=onnx.GraphProto(name="g")).SerializeToString() + b"\xfb\x01" * 50 + b"\xfc\x01" * 50
    assert near == formats.dumps(formats.loads(near, format="onnx"), "onnx")


@pytest.mark.parametrize("extension", ["onnx", "json", "textproto"])
def test_nested_messages(extension: str) -> None:
    """CVE-2025-4565, CVE-2026-0994: the nesting of messages is limited in every format."""
    text = {
        "json": ('{"tp": {"sequenceType": {"elemType": ', "{}"),
        "textproto": ("tp { sequence_type { elem_type { ", ""),
    }
    data = b""
    if extension == "onnx":
        for _ in range(20_000):
            data = _field(4, _field(1, data))  # the elem_type of a sequence_type
        data = _field(7, _field(1, _field(5, _field(14, data))))
    else:
        begin, leaf = text[extension]
        step = '{"sequenceType": {"elemType": ' if extension == "json" else "sequence_type { elem_type { "
        content = begin + step * 20_000 + leaf + "}" * (40_000 + 3)
        data = f'{{"graph": {{"node": [{{"attribute": [{content}]}}]}}}}'.encode()
        if extension == "textproto":
            data = f"graph {{ node {{ attribute {{ {content} }} }} }}".encode()
    with pytest.raises(LimitError):
        formats.dumps(formats.loads(data, format=extension), "json")


def _field(number: int, data: bytes) -> bytes:
    """Return a field with a length."""
    size, length = len(data), b""
    while size >= 0x80:
        length, size = length + bytes((size & 0x7F | 0x80,)), size >> 7
    return bytes((number << 3 | 2,)) + length + bytes((size,)) + data


def test_attributes_named_in_messages(tmp_path: Path) -> None:
    """A name from the file is printed as it is, never formatted or evaluated."""
    attribute = Attribute(
        name="%s{0.__class__}\x1b[31m", type=4, t=Tensor(name="t", data_type=1, dims=[3], data_location=1)
    )
    model = Model(
        ir_version=10, graph=Graph(name="g", node=[Node(op_type="Constant", output=["y"], attribute=[attribute])])
    )
    formats.save(model, tmp_path / "a.textproto")
    with pytest.raises(ExternalDataError) as caught:
        formats.load(tmp_path / "a.textproto")
    assert "%s{0.__class__}\x1b[31m" in (caught.value.where or "")
