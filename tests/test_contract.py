"""The contract of every codec, on every model of a shared table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from formats import registry
from formats.ir.model import Model
from formats.registry import Codec, Match
from formats.tensordata.engine import EngineOptions, execute, to_bytes
from formats.tensordata.osio import File
from formats.tensordata.source import Literal

CODECS = ("onnx", "onnxz", "rten")


def linear(size: int, dtype: str = "float32") -> onnx.ModelProto:
    """A matrix product with a weight of `size` x `size`."""
    weight = np.random.default_rng(size).random((size, size)).astype(dtype)
    x, y = (onnx.helper.make_tensor_value_info(name, 1, ["n", size]) for name in "xy")
    node = onnx.helper.make_node("MatMul", ["x", "w"], ["y"], name="product")
    graph = onnx.helper.make_graph([node], "linear", [x], [y], [numpy_helper.from_array(weight, "w")])
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)


def branches() -> onnx.ModelProto:
    """An If whose branches capture values and have constants of their own."""
    small = numpy_helper.from_array(np.arange(100, dtype="float32"), "big")
    y = onnx.helper.make_tensor_value_info("y", 1, [100])
    then = onnx.helper.make_graph([onnx.helper.make_node("Add", ["x", "big"], ["y"])], "then", [], [y], [small])
    other = onnx.helper.make_graph([onnx.helper.make_node("Relu", ["x"], ["y"])], "other", [], [y])
    node = onnx.helper.make_node("If", ["c"], ["z"], then_branch=then, else_branch=other)
    graph = onnx.helper.make_graph(
        [node],
        "branches",
        [onnx.helper.make_tensor_value_info("c", 9, []), onnx.helper.make_tensor_value_info("x", 1, [100])],
        [onnx.helper.make_tensor_value_info("z", 1, [100])],
    )
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)


MODELS = {"small": lambda: linear(3), "large": lambda: linear(700), "branches": branches}


@pytest.fixture(params=CODECS)
def codec(request: pytest.FixtureRequest) -> Codec:
    """Each codec."""
    return registry.by_name(request.param)


@pytest.fixture(params=sorted(MODELS))
def model(request: pytest.FixtureRequest) -> Model:
    """Each model, as read from ONNX."""
    proto = MODELS[request.param]()
    return registry.by_name("onnx").read(Literal(proto.SerializeToString()), None)


def plan(codec: Codec, model: Model, path: Path) -> Any:
    """The plan with default options."""
    return codec.plan(model, path, codec.options())


def test_reading_after_writing_gives_an_equal_model(codec: Codec, model: Model, tmp_path: Path) -> None:
    """What a codec wrote, it reads, and writes again to the same bytes."""
    path = tmp_path / f"m{codec.extensions[0]}"
    execute(plan(codec, model, path))
    first = codec.read(File.open(path).span(), path)
    again = tmp_path / "again" / path.name
    again.parent.mkdir()
    execute(plan(codec, first, again))
    assert first == codec.read(File.open(again).span(), again)
    assert path.read_bytes() == again.read_bytes() or codec.name == "rten"
    assert codec.name == "rten" or first == model


def test_planned_size_is_the_size_of_the_file(codec: Codec, model: Model, tmp_path: Path) -> None:
    """A plan knows how large each file becomes."""
    made = plan(codec, model, tmp_path / f"m{codec.extensions[0]}")
    execute(made)
    assert [file.nbytes for file in made.files] == [file.path.stat().st_size for file in made.files]


@pytest.mark.parametrize(
    "options",
    [EngineOptions(threads=1), EngineOptions(threads=2), EngineOptions(threads=8, chunk_bytes=1000, in_flight_bytes=1)],
)
def test_bytes_do_not_depend_on_the_engine(codec: Codec, model: Model, tmp_path: Path, options: EngineOptions) -> None:
    """Any number of workers and any budget give the same bytes, on disk and in memory."""
    path = tmp_path / f"m{codec.extensions[0]}"
    execute(plan(codec, model, path), options)
    assert to_bytes(plan(codec, model, path)) == path.read_bytes()


def test_own_files_are_recognised(codec: Codec, model: Model) -> None:
    """A codec is sure of its own files, and no other is."""
    data = to_bytes(plan(codec, model, Path(f"m{codec.extensions[0]}")))
    matches = {name: registry.by_name(name).sniff(data[: registry.HEAD_BYTES], len(data)) for name in CODECS}
    assert [codec.name] == [name for name, match in matches.items() if match is Match.STRONG]


def test_planning_changes_nothing(codec: Codec, tmp_path: Path) -> None:
    """A model is the same after it was planned and written."""
    data = branches().SerializeToString()
    model, untouched = (registry.by_name("onnx").read(Literal(data), None) for _ in range(2))
    execute(plan(codec, model, tmp_path / f"m{codec.extensions[0]}"))
    assert untouched == model


def test_reading_touches_no_weight(codec: Codec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading a large file reads a small part of it."""
    path = tmp_path / f"m{codec.extensions[0]}"
    large = registry.by_name("onnx").read(Literal(linear(3000).SerializeToString()), None)
    execute(plan(codec, large, path))
    read: list[int] = []
    original = File.pread_into

    def counted(self: File, offset: int, buffer: memoryview) -> None:
        read.append(len(buffer))
        original(self, offset, buffer)

    monkeypatch.setattr(File, "pread_into", counted)
    codec.read(File.open(path).span(), path)
    assert sum(read) < path.stat().st_size / 50
