"""What onnxruntime wrote in layouts of its own becomes ONNX's operators that compute the same."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnxruntime import GraphOptimizationLevel, InferenceSession, SessionOptions

import formats
from formats import Attribute, Model, Node
from formats.ir.storage import from_numpy
from formats.onnxruntime.layouts import in_usual_layout
from formats.verbs.report import ConversionReport
from tests import commands
from tests.ort import layout_golden

BLOCKED, CHANNELS_LAST = "com.microsoft.nchwc", "com.ms.internal.nhwc"
FILES = sorted(layout_golden.GOLDEN.glob("*.ort"))
OPEN = [path for path in FILES if path.name.startswith(("random", "trained"))]  # all channels fill blocks of both sizes
CLEAR = [path for path in FILES if path not in OPEN]
IMAGE = np.linspace(-1, 2, 2 * 3 * 12 * 12, dtype=np.float32).reshape(2, 3, 12, 12)


def results(model: Path | bytes, image: Any = IMAGE) -> list[Any]:
    """Return what onnxruntime computes of an image."""
    options = SessionOptions()
    options.graph_optimization_level = GraphOptimizationLevel.ORT_DISABLE_ALL
    data = model if isinstance(model, bytes) else str(model)
    return list(InferenceSession(data, options, providers=["CPUExecutionProvider"]).run(None, {"x": image}))


def check(path: Path, converted: Path | bytes) -> None:
    """Assert that a converted file computes what the model computes of which the golden file was made."""
    original = layout_golden.GOLDEN / f"{path.name.split('.')[0]}.onnx"
    for expected, found in zip(results(original), results(converted), strict=True):
        np.testing.assert_allclose(found, expected, 1e-3, 3e-5)


def domains(model: Model) -> set[str]:
    """Return the domains that a model imports."""
    return {entry.domain or "" for entry in model.opset_import}


def details(report: ConversionReport, kind: str = "layout") -> list[str]:
    """Return what a report says of layouts."""
    return [loss.detail for loss in report.losses if loss.kind == kind]


@pytest.mark.parametrize("path", CLEAR, ids=lambda path: path.stem)
def test_blocked_operators_become_onnx_operators(path: Path, tmp_path: Path) -> None:
    """All operators on blocks of 8 or 16 channels are ONNX's in the end, with the weights in the usual order."""
    report = formats.convert(path, tmp_path / "new.onnx", runtime="onnxruntime")
    model = formats.load(tmp_path / "new.onnx")
    assert not domains(model) & {BLOCKED, CHANNELS_LAST}
    assert model.graph is not None
    found = weights(model)
    for array in weights(formats.load(layout_golden.GOLDEN / f"{path.name.split('.')[0]}.onnx")):
        if array.ndim == 4:
            assert any(starts_with(each, array, is_equal="older" not in path.name) for each in found)
    check(path, tmp_path / "new.onnx")
    assert any("became ONNX's operators" in detail for detail in details(report))
    assert [] == details(report, "own_operators")


def starts_with(found: Any, array: Any, *, is_equal: bool) -> bool:
    """Return whether an array is `array`, or if it may be larger, `array` and then zeros."""
    if is_equal or found.ndim != 4:
        return bool(np.array_equal(found, array))
    filled = np.pad(array, [(0, max(large - small, 0)) for large, small in zip(found.shape, array.shape, strict=True)])
    return bool(np.array_equal(found, filled))


def weights(model: Model) -> list[Any]:
    """Return the constants of a model as arrays."""
    assert model.graph is not None
    return [tensor.numpy() for tensor in model.graph.initializer]


@pytest.mark.parametrize("path", CLEAR, ids=lambda path: path.stem)
def test_rten_gets_the_usual_layout(path: Path, tmp_path: Path) -> None:
    """A .rten file has the same operators, so that going back to ONNX computes the same."""
    formats.convert(path, tmp_path / "new.rten", strict=path.name.startswith("many"))
    formats.convert(tmp_path / "new.rten", tmp_path / "new.onnx")
    check(path, tmp_path / "new.onnx")


@pytest.mark.parametrize(("name", "runtime"), [("new.rten", None), ("new.onnx", "rten"), ("new.onnx", "onnxruntime")])
@pytest.mark.parametrize("path", OPEN, ids=lambda path: path.stem)
def test_a_block_that_nothing_shows_is_the_users(path: Path, name: str, runtime: str | None, tmp_path: Path) -> None:
    """If the file does not show how many channels a block has, the error names the option, which then says it."""
    options: dict[str, Any] = {} if runtime is None else {"runtime": runtime}
    with pytest.raises(formats.UnsupportedError, match=r"nothing in the file says which[:;] name `channel_block=16`"):
        formats.convert(path, tmp_path / name, **options)
    assert [] == list(tmp_path.iterdir())
    formats.convert(path, tmp_path / name, channel_block=int(path.stem.split(".")[1]), **options)
    if name == "new.rten":
        formats.convert(tmp_path / name, tmp_path / "back.onnx")
    check(path, tmp_path / ("back.onnx" if name == "new.rten" else name))


def test_the_command_line_names_its_option(tmp_path: Path) -> None:
    """The error of the command has the words that one types next."""
    result = commands.run("formats", "convert", str(OPEN[0]), str(tmp_path / "new.rten"))
    assert result.exit_code == 1
    assert "name --channel-block 16 if a processor with AVX-512 wrote it, or else --channel-block 8" in result.stderr


@pytest.mark.parametrize("path", CLEAR, ids=lambda path: path.stem)
def test_a_wrong_block_is_refused(path: Path, tmp_path: Path) -> None:
    """A number of channels that the file contradicts is an error, and the right one changes nothing."""
    block = int(path.stem.split(".")[1])
    with pytest.raises(formats.UnsupportedError, match=f"blocks of {block} channels, not of {24 - block}"):
        formats.convert(path, tmp_path / "new.rten", channel_block=24 - block)
    formats.convert(path, tmp_path / "one.rten", channel_block=block)
    formats.convert(path, tmp_path / "two.rten")
    assert (tmp_path / "one.rten").read_bytes() == (tmp_path / "two.rten").read_bytes()


@pytest.mark.parametrize("name", ["new.onnx", "new.ort"])
def test_a_block_without_a_runtime(name: str, tmp_path: Path) -> None:
    """What is written for no runtime keeps the layout, so the number of channels is a mistake."""
    with pytest.raises(formats.OptionError, match="`channel_block` needs a `runtime`"):
        formats.convert(OPEN[0], tmp_path / name, channel_block=16)


def small_network(widths: list[int]) -> bytes:
    """Return a chain of convolutions with these numbers of channels, whose results only convolutions read."""
    rng, make = np.random.default_rng(3), onnx.helper.make_node
    tensors, nodes = [], []
    for place, (read, made) in enumerate(itertools.pairwise(widths)):
        weight = rng.standard_normal((made, read, 3, 3)).astype(np.float32)
        tensors.append(onnx.numpy_helper.from_array(weight / 9, f"w{place}"))
        nodes.append(make("Conv", ["x" if place == 0 else f"c{place - 1}", f"w{place}"], [f"c{place}"], pads=[1] * 4))
    values = [
        onnx.helper.make_tensor_value_info(name, 1, [None, size, 12, 12])
        for name, size in (("x", widths[0]), (f"c{len(nodes) - 1}", widths[-1]))
    ]
    graph = onnx.helper.make_graph(nodes, "g", values[:1], values[1:], tensors)
    return onnx.helper.make_model(
        graph, opset_imports=[onnx.helper.make_opsetid("", 13)], ir_version=8
    ).SerializeToString()


def optimised(data: bytes, path: Path) -> Model:
    """Return what onnxruntime writes of a model at its highest level, for the machine that it runs on."""
    options = SessionOptions()
    options.optimized_model_filepath = str(path)
    options.log_severity_level = 4
    InferenceSession(data, options, providers=["CPUExecutionProvider"])
    return formats.load(path)


@pytest.mark.parametrize("width", [20, 24, 28, 36])
def test_zeros_that_fill_a_block_show_it(width: int, tmp_path: Path) -> None:
    """The channels of a value inside show the blocks by the zeros of its weights, whatever machine wrote the file."""
    data = small_network([3, 32, width, 32, 64])
    usual = in_usual_layout(optimised(data, tmp_path / "new.onnx")).model
    for expected, found in zip(results(data), results(formats.dumps(usual, "onnx")), strict=True):
        np.testing.assert_allclose(found, expected, 1e-3, 3e-5)


def test_hard_swish_on_blocks(tmp_path: Path) -> None:
    """An activation HardSwish of a convolution becomes ONNX's operator."""
    model = onnx.load_from_string(small_network([3, 20, 12]))
    model.opset_import[0].version = 14
    model.graph.node[1].input[0] = "h"
    model.graph.node.insert(1, onnx.helper.make_node("HardSwish", ["c0"], ["h"]))
    data = model.SerializeToString()
    usual = in_usual_layout(optimised(data, tmp_path / "new.onnx")).model
    for expected, found in zip(results(data), results(formats.dumps(usual, "onnx")), strict=True):
        np.testing.assert_allclose(found, expected, 1e-3, 3e-5)


@pytest.mark.parametrize("width", [20, 24, 32])
def test_zeros_show_channels_that_nothing_declares(width: int, tmp_path: Path) -> None:
    """A value that a Reshape makes has the channels that the weights read, without those that fill a block."""
    model = onnx.load_from_string(small_network([3, width, 12]))
    (first, second), graph = model.graph.node, model.graph
    shape = onnx.numpy_helper.from_array(np.array([0, -1, 0, 0]), "shape")
    graph.initializer.append(shape)
    del graph.node[:]
    reshape = onnx.helper.make_node("Reshape", ["c0", "shape"], ["r"])
    second.input[0] = "r"
    graph.node.extend([first, reshape, second])
    for value in graph.input:
        value.type.tensor_type.ClearField("shape")
    data = model.SerializeToString()
    usual = in_usual_layout(optimised(data, tmp_path / "new.onnx")).model
    for expected, found in zip(results(data), results(formats.dumps(usual, "onnx")), strict=True):
        np.testing.assert_allclose(found, expected, 1e-3, 3e-5)


def test_zeros_elsewhere_show_nothing(tmp_path: Path) -> None:
    """Numbers that are zero in other places of the weights are no evidence."""
    model = formats.load(OPEN[0])
    assert model.graph is not None
    for index, tensor in enumerate(model.graph.initializer):
        if len(tensor.dims) == 4:
            array = tensor.numpy().copy()
            array.reshape(-1)[-5000::3] = 0
            model.graph.initializer[index] = from_numpy(array, tensor.name or "")
    with pytest.raises(formats.UnsupportedError, match="nothing in the file says which"):
        in_usual_layout(model)


def test_without_a_runtime_the_layout_stays(tmp_path: Path) -> None:
    """A conversion to .onnx keeps the operators, and warns."""
    report = formats.convert(layout_golden.GOLDEN / "many.16.ort", tmp_path / "new.onnx")
    assert BLOCKED in domains(formats.load(tmp_path / "new.onnx"))
    assert any("name a `runtime`" in detail for detail in details(report, "own_operators"))


def changed(**values: Any) -> Model:
    """Return the model of a golden file with other fields of its first Conv on blocks, or other attributes."""
    model = formats.load(layout_golden.GOLDEN / "many.16.ort")
    assert model.graph is not None
    node = next(node for node in model.graph.node if node.domain == BLOCKED and node.op_type == "Conv")
    for name, value in values.items():
        if name in ("op_type", "input"):
            setattr(node, name, value)
            continue
        node.attribute = [each for each in node.attribute if each.name != name]
        kind = {"i": value} if isinstance(value, int) else {"s": value}
        node.attribute.append(Attribute(name=name, type=2 if "i" in kind else 3, **kind))
    return model


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"activation": b"Mystery"}, "activation 'Mystery' is not known"),
        ({"activation": b"HardSwish"}, "activation 'HardSwish' is not known"),  # in operator set 13
        ({"group": 2}, "groups do not read blocks"),
        ({"input": ["x", "x"]}, "no constants of this graph"),
        ({"input": ["x"]}, "no constants of this graph"),
        ({"op_type": "Softmax"}, "Softmax has a form on blocks that is not known"),
    ],
)
def test_unknown_forms_are_refused(values: dict[str, Any], words: str) -> None:
    """A form whose meaning is not known is refused with its place and a way out."""
    with pytest.raises(formats.UnsupportedError, match=words) as caught:
        in_usual_layout(changed(**values))
    assert caught.value.where == "graph.node[0]"
    assert "extended" in str(caught.value)


def test_readers_of_blocks_that_are_not_known_are_refused() -> None:
    """An operator that reads a blocked value must be one that onnxruntime lets read it."""
    model = changed()
    assert model.graph is not None
    blocked = next(node.input[0] for node in model.graph.node if node.op_type == "ReorderOutput")
    model.graph.node.append(Node(op_type="Softmax", input=[blocked], output=["z"]))
    with pytest.raises(formats.UnsupportedError, match="Softmax reads a blocked value"):
        in_usual_layout(model)


def test_operators_with_the_channels_last() -> None:
    """Operators of backends that have the channels last compute the same between two Transposes."""
    model = formats.loads((layout_golden.GOLDEN / "trained.onnx").read_bytes())
    assert model.graph is not None
    (conv, sigmoid) = model.graph.node
    model.graph.node = [
        Node(
            op_type="Transpose",
            input=["x"],
            output=["l"],
            attribute=[Attribute(name="perm", type=7, ints=[0, 2, 3, 1])],
        ),
        Node(
            op_type="Conv", domain=CHANNELS_LAST, input=["l", *conv.input[1:]], output=["m"], attribute=conv.attribute
        ),
        Node(
            op_type="Transpose",
            input=["m"],
            output=["c"],
            attribute=[Attribute(name="perm", type=7, ints=[0, 3, 1, 2])],
        ),
        sigmoid,
    ]
    conv.attribute.append(Attribute(name="kernel_shape", type=7, ints=[7, 7]))
    model.opset_import.append(formats.OperatorSetId(domain=CHANNELS_LAST, version=13))
    usual = in_usual_layout(model).model
    assert CHANNELS_LAST not in domains(usual)
    check(layout_golden.GOLDEN / "trained.16.ort", formats.dumps(usual, "onnx"))


def test_unknown_operators_with_the_channels_last_stay() -> None:
    """An operator with another meaning, or of unknown rank, keeps its domain and the import of it."""
    model = formats.loads((layout_golden.GOLDEN / "trained.onnx").read_bytes())
    assert model.graph is not None
    model.graph.node += [
        Node(op_type="Resize", domain=CHANNELS_LAST, input=["c"], output=["z"]),
        Node(op_type="LRN", domain=CHANNELS_LAST, input=["z"], output=["q"]),
    ]
    model.opset_import.append(formats.OperatorSetId(domain=CHANNELS_LAST, version=13))
    usual = in_usual_layout(model).model
    assert CHANNELS_LAST in domains(usual)
    assert usual == model


def test_other_models_are_not_copied() -> None:
    """A model without such operators is returned itself."""
    model = formats.loads((layout_golden.GOLDEN / "trained.onnx").read_bytes())
    assert in_usual_layout(model).model is model
