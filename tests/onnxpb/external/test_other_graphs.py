"""Which graphs in a folder may use a file there is found without decoding them, however they spell its name."""

from __future__ import annotations

import os
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper

import formats
from formats.onnxpb.external import other_graphs
from formats.onnxpb.external.other_graphs import OtherGraphs, note_written, remembering

PLACES = ("initializer", "attribute", "subgraph", "sparse", "function", "training")
OVERLONG = (  # the same message: a length, a tag, or the order of key and value is unusual
    lambda data, name: data.replace(b"\n\x08location", b"\n\x88\x00location"),
    lambda data, name: data.replace(b"location\x12", b"location\x92\x00"),
    lambda data, name: data.replace(
        b"\n\x08location\x12" + bytes([len(name)]) + name, b"\x12" + bytes([len(name)]) + name + b"\n\x08location"
    ),
)


def tensor(location: str) -> TensorProto:
    """Return a tensor in a file."""
    found = TensorProto(name="w", data_type=1, dims=[4], data_location=TensorProto.EXTERNAL)
    for key, value in (("offset", "0"), ("location", location), ("length", "16")):
        found.external_data.add(key=key, value=value)
    return found


def graph(location: str | None, place: str = "initializer", weights: int = 0) -> onnx.ModelProto:
    """Return a model with a reference in this place, if there is a location, and weights of its own."""
    nodes = [helper.make_node("Add", ["x", "w"], ["y"], name=f"n{index}") for index in range(50)]
    model = helper.make_model(helper.make_graph(nodes, "g", [], []))
    model.graph.initializer.add(name="own", data_type=1, dims=[weights], raw_data=bytes(4 * weights))
    if location is None:
        return model
    inner = tensor(location)
    if place == "initializer":
        model.graph.initializer.append(inner)
    elif place == "attribute":
        model.graph.node.append(helper.make_node("Constant", [], ["c"], value=inner))
    elif place == "subgraph":
        branch = helper.make_graph([], "b", [], [], [inner])
        model.graph.node.append(helper.make_node("If", ["x"], ["z"], then_branch=branch, else_branch=branch))
    elif place == "sparse":
        model.graph.sparse_initializer.add(dims=[4]).values.CopyFrom(inner)
    elif place == "function":
        node = helper.make_node("Constant", [], ["c"], value=inner)
        model.functions.append(helper.make_function("d", "f", [], ["c"], [node], []))
    else:
        model.training_info.add().algorithm.initializer.append(inner)
    return model


def naming(folder: Path, name: str = "w.bin") -> list[str]:
    """Return the names of the graphs that may use a file."""
    return [each.path.name for each in OtherGraphs(folder).naming([folder / name])]


@pytest.fixture(autouse=True)
def _nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(other_graphs, "_answered", {})


@pytest.mark.parametrize("limits", [{}, {"WHOLE_BYTES": 0}, {"PIECE_BYTES": 64}, {"WHOLE_BYTES": 0, "PIECE_BYTES": 64}])
@pytest.mark.parametrize("place", PLACES)
def test_a_reference_is_found_anywhere(
    place: str, limits: dict[str, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reference is found wherever it is in a graph, of any size; a graph without it is not named."""
    for name, value in limits.items():
        monkeypatch.setattr(other_graphs, name, value)
    for name, location in (("a", "w.bin"), ("b", None), ("c", "other.bin")):
        (tmp_path / f"{name}.onnx").write_bytes(graph(location, place, 1000).SerializeToString())
    assert ["a.onnx"] == naming(tmp_path)
    assert ["c.onnx"] == naming(tmp_path, "other.bin")


@pytest.mark.parametrize("change", OVERLONG)
def test_an_unusual_encoding_is_read(change: object, tmp_path: Path) -> None:
    """A location in an encoding that protobuf allows, but nobody writes, is found."""
    data = change(graph("w.bin").SerializeToString(), b"w.bin")  # type: ignore[operator]
    assert data != graph("w.bin").SerializeToString()
    inner = bytearray(data)
    grown = len(inner) - len(graph("w.bin").SerializeToString())
    if grown:  # the lengths around it are too short now: the usual form is in a field that has room
        model = graph(None).SerializeToString()
        entry = change(tensor("w.bin").external_data[1].SerializeToString(), b"w.bin")  # type: ignore[operator]
        wrapped = b"j" + bytes([len(entry)]) + entry + b"p\x01"
        body = b"*" + bytes([len(wrapped)]) + wrapped
        data = model + b"\x3a" + bytes([len(body)]) + body
    (tmp_path / "a.onnx").write_bytes(data)
    assert onnx.load_from_string(data).graph.initializer[-1].external_data
    assert ["a.onnx"] == naming(tmp_path)


@pytest.mark.parametrize(
    "location", ["w.bin", "./w.bin", "sub/../w.bin", "sub//..//w.bin", "alias", "up/w.bin", "sub/alias"]
)
def test_every_way_to_a_file_is_found(location: str, tmp_path: Path) -> None:
    """A graph may lead to a file through links and folders."""
    (tmp_path / "sub").mkdir()
    (tmp_path / "w.bin").write_bytes(bytes(16))
    (tmp_path / "alias").symlink_to("w.bin")
    (tmp_path / "sub" / "alias").symlink_to("../w.bin")
    (tmp_path / "up").symlink_to(".")
    (tmp_path / "a.onnx").write_bytes(graph(location).SerializeToString())
    (tmp_path / "b.onnx").write_bytes(graph("elsewhere.bin").SerializeToString())
    assert ["a.onnx"] == naming(tmp_path)


def test_names_that_systems_spell_in_several_ways(tmp_path: Path) -> None:
    """A name that is not ASCII has several forms of Unicode, so that any reference may mean the file."""
    (tmp_path / "a.onnx").write_bytes(graph("gew\u00e4hlt.bin").SerializeToString())
    (tmp_path / "b.onnx").write_bytes(graph(None).SerializeToString())
    assert ["a.onnx"] == naming(tmp_path, "gewa\u0308hlt.bin")


@pytest.mark.parametrize(
    "content", [b"", b"\n\xff", b"no model", graph(None).SerializeToString()[:-1], b'{"graph": {}}']
)
def test_what_is_no_graph_may_use_a_file(content: bytes, tmp_path: Path) -> None:
    """Only a whole message says what it refers to; for anything else its reader is asked."""
    (tmp_path / "a.onnx").write_bytes(content)
    assert ["a.onnx"] == naming(tmp_path)


@pytest.mark.parametrize("place", ["scandir", "_with_names"])
def test_a_graph_that_vanishes_hides_no_other(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If a graph is removed while the folder is listed, or before it is read, all others are still found."""
    for name in ("a", "b", "c"):
        (tmp_path / f"{name}.onnx").write_bytes(graph("w.bin").SerializeToString())

    @contextmanager
    def then_removed(path: Path) -> Iterator[list[os.DirEntry[str]]]:
        with scandir(path) as entries:
            found = sorted(entries, key=lambda entry: entry.name)
        (tmp_path / "a.onnx").unlink()
        yield found

    def asked_later(self: other_graphs._Folder, *arguments: Any) -> Any:
        (tmp_path / "a.onnx").unlink()
        return with_names(self, *arguments)

    scandir, with_names = os.scandir, other_graphs._Folder._with_names
    if place == "scandir":
        monkeypatch.setattr(os, place, then_removed)
    else:
        monkeypatch.setattr(other_graphs._Folder, place, asked_later)
    assert {"b.onnx", "c.onnx"} <= {*naming(tmp_path)} <= {"a.onnx", "b.onnx", "c.onnx"}


def test_a_pipe_and_a_folder_are_no_graphs(tmp_path: Path) -> None:
    """Nobody waits for a writer."""
    os.mkfifo(tmp_path / "a.onnx")
    (tmp_path / "b.onnx").mkdir()
    (tmp_path / "c.onnx").symlink_to("c.onnx")  # a link to itself
    assert [] == naming(tmp_path)
    assert [] == naming(tmp_path / "missing")


@pytest.mark.parametrize(
    ("limit", "location"),
    [("MAX_SEARCHED_BYTES", None), ("MAX_LOOKS", None), ("MAX_DEPTH", None), ("MAX_DECODED_BYTES", "w.bin")],
)
def test_a_hostile_graph_is_bounded(
    limit: str, location: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beyond the limits of bytes, fields and depth, a graph counts as one that cannot be read; so data files stay."""
    formats.save(
        formats.loads(graph(None, weights=300).SerializeToString()), tmp_path / "m.onnx", external_data="w.bin"
    )
    monkeypatch.setattr(other_graphs, "WHOLE_BYTES", 0)
    monkeypatch.setattr(other_graphs, "PIECE_BYTES", 64)
    (tmp_path / "a.onnx").write_bytes(graph(location, weights=1000).SerializeToString())
    monkeypatch.setattr(other_graphs, limit, 0)
    (found,) = OtherGraphs(tmp_path, [tmp_path / "m.onnx"]).naming([tmp_path / "w.bin"])
    assert found.is_too_large
    assert found.references() is None
    with pytest.raises(formats.FormatError, match=r"a.onnx: it cannot be read, so it may use w.bin"):
        formats.rm(tmp_path / "m.onnx")


def test_a_graph_is_asked_again_if_it_changed(tmp_path: Path) -> None:
    """What is known of a graph counts until the file changes."""
    (tmp_path / "a.onnx").write_bytes(graph(None).SerializeToString())
    assert [] == naming(tmp_path)
    (tmp_path / "a.onnx").write_bytes(graph("w.bin").SerializeToString())
    assert ["a.onnx"] == naming(tmp_path)
    (tmp_path / "a.onnx").unlink()
    assert [] == naming(tmp_path)


def test_a_run_of_many_lists_a_folder_rarely(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a run, the list of a folder is used for a while; what the run wrote itself is seen at once."""
    monkeypatch.setattr(other_graphs, "LISTING_PART", 1e-9)
    (tmp_path / "a.onnx").write_bytes(graph("w.bin").SerializeToString())
    with remembering({}):
        assert ["a.onnx"] == naming(tmp_path)
        (tmp_path / "b.onnx").write_bytes(graph("w.bin").SerializeToString())
        assert ["a.onnx"] == naming(tmp_path)
        note_written([tmp_path / "b.onnx"])
        assert ["a.onnx", "b.onnx"] == naming(tmp_path)
        (tmp_path / "a.onnx").unlink()
        note_written([tmp_path / "a.onnx"])
        assert ["b.onnx"] == naming(tmp_path)
    assert ["b.onnx"] == naming(tmp_path)


def test_a_linked_graph_is_found_by_its_metadata(tmp_path: Path) -> None:
    """A graph that is linked to an archive is found, and none that is linked to another one."""
    for name in ("a", "b"):
        formats.save(formats.loads(graph(None, weights=300).SerializeToString()), tmp_path / f"{name}.onnxz")
        formats.link(tmp_path / f"{name}.onnxz", tmp_path / f"{name}.onnx")
    assert [tmp_path / "a.onnx"] == OtherGraphs(tmp_path).linked(tmp_path / "a.onnxz")
    assert [] == OtherGraphs(tmp_path, [tmp_path / "a.onnx"]).linked(tmp_path / "a.onnxz")


def test_the_tensors_of_another_graph_are_not_in_memory(tmp_path: Path) -> None:
    """What a graph with many external tensors refers to takes little more memory than the graph itself."""
    model = graph("data")
    model.graph.initializer.extend([tensor(f"data{index % 2}") for index in range(5000)])
    path = tmp_path / "m.onnx"
    path.write_bytes(model.SerializeToString())
    tracemalloc.start()
    try:
        assert other_graphs.references(str(path)) == {"data", "data0", "data1"}
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 5 * path.stat().st_size


def test_the_graphs_of_the_work_itself_are_not_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A graph that does not count is not searched; it is when it counts."""
    asked = []
    ask = other_graphs.references_in
    monkeypatch.setattr(
        other_graphs, "references_in", lambda path, most: asked.append(Path(path).name) or ask(path, most)
    )
    for name in ("a", "b"):
        (tmp_path / f"{name}.onnx").write_bytes(graph("w.bin").SerializeToString())
    with remembering({}):
        others = OtherGraphs(tmp_path, [tmp_path / "a.onnx"]).naming([tmp_path / "w.bin"])
        assert (["b.onnx"], ["b.onnx"]) == ([found.path.name for found in others], asked)
        assert ["a.onnx", "b.onnx"] == naming(tmp_path)
    assert ["b.onnx", "a.onnx"] == asked
