"""Equal weights are stored once: in data files one range for all, in the graph one initializer that all nodes use."""

from __future__ import annotations

import copy
import random
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from safetensors import safe_open

import formats
from formats.errors import OptionError
from tests import commands
from tests.rten.random_graphs.whole import generate

WEIGHT = np.arange(1024, dtype="float32").reshape(32, 32) / 1024
LAYOUTS: dict[str, dict[str, Any]] = {
    "one file": {"external_data": True},
    "everything outside": {"external_data": True, "size_threshold": 0},
    "aligned": {"alignment": 4096},
    "split": {"max_external_file_size": 5000},
    "a file for each weight": {"one_file_per_tensor": True},
    "checksums": {"checksum": True},
    "safetensors": {"external_data": "w.safetensors"},
}


def value(name: str, dims: Any = ("n", 32), kind: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    """Return the description of a tensor."""
    return helper.make_tensor_value_info(name, kind, dims)


def proto(more_weights: dict[str, Any]) -> onnx.ModelProto:
    """Return a model that multiplies x by five weights one after another, three of them equal, and then by others."""
    arrays = {"w": WEIGHT, "v": WEIGHT + 1, "u": WEIGHT, "flat": WEIGHT.reshape(-1), "twin": WEIGHT}
    arrays |= {"sizes": np.array([32, 32]), "same_sizes": np.array([32, 32])} | more_weights
    branches = {
        f"{name}_branch": helper.make_graph(
            [helper.make_node("MatMul", ["c", f"{name}_w"], [name])],
            name,
            [],
            [value(name)],
            [numpy_helper.from_array(WEIGHT, f"{name}_w")],
        )
        for name in ("then", "else")
    }
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node("MatMul", ["a", "u"], ["b"]),
        helper.make_node("MatMul", ["b", "v"], ["c"]),
        helper.make_node("If", ["flag"], ["d"], **branches),
        helper.make_node("Reshape", ["flat", "sizes"], ["square"]),
        helper.make_node("Reshape", ["square", "same_sizes"], ["again"]),
        helper.make_node("MatMul", ["d", "again"], ["e"]),
        *(helper.make_node("Identity", [name], [f"of_{name}"]) for name in more_weights),
        helper.make_node("MatMul", ["e", "twin"], ["y"]),
    ]
    weights = [numpy_helper.from_array(array, name) for name, array in arrays.items()]
    inputs = [value("x"), value("flag", [], TensorProto.BOOL)]
    graph = helper.make_graph(nodes, "g", inputs, [value("y")], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a model."""
    monkeypatch.chdir(tmp_path)
    onnx.save(proto({}), "m.onnx")
    return tmp_path


def results(path: str | Path) -> list[Any]:
    """What a model computes of given numbers, as onnxruntime says; onnx checks and reads it, too."""
    onnx.checker.check_model(path)
    onnx.load(path)
    x = np.random.default_rng(7).random((2, 32), "float32")
    return [*map(bytes, onnxruntime.InferenceSession(path).run(None, {"x": x, "flag": np.array(True)}))]


def names(path: str | Path) -> list[str]:
    """The names of the initializers of the main graph."""
    return [tensor.name for tensor in onnx.load(path, load_external_data=False).graph.initializer]


def places(path: str | Path) -> dict[str, tuple[str, str]]:
    """The data file and the offset of each initializer that is in one."""
    tensors = onnx.load(path, load_external_data=False).graph.initializer
    entries = {tensor.name: {entry.key: entry.value for entry in tensor.external_data} for tensor in tensors}
    return {name: (said["location"], said.get("offset", "0")) for name, said in entries.items() if said}


@pytest.mark.usefixtures("here")
def test_in_the_graph_nodes_use_one_weight() -> None:
    """Of equal weights in a graph and in its subgraphs, the first one is left; the results are the same bits."""
    plain = formats.convert("m.onnx", "plain.onnx")
    report = formats.convert("m.onnx", "new.onnx", dedup=True)
    assert names("new.onnx") == ["w", "v", "flat", "sizes"]  # flat has other dims
    assert results("new.onnx") == results("m.onnx")
    assert report.verdict == "computes the same"
    (edit,) = report.edits
    assert edit.detail == "5 weights equal to another one, which is used instead: 16.4 kB less"
    assert plain.nbytes - report.nbytes > 4 * WEIGHT.nbytes
    again = formats.convert("new.onnx", "again.onnx", dedup=True)
    assert again.verdict == "the same model, unchanged"
    assert Path("again.onnx").read_bytes() == Path("new.onnx").read_bytes()


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("layout", LAYOUTS)
def test_in_data_files_references_share_a_range(layout: str) -> None:
    """Equal weights outside keep their names and refer to one place; then the data files stay as they are."""
    for name in ("plain", "new"):
        Path(name).mkdir()
    plain = formats.convert("m.onnx", "plain/m.onnx", **LAYOUTS[layout])
    report = formats.convert("m.onnx", "new/m.onnx", dedup=True, **LAYOUTS[layout])
    found = places("new/m.onnx")
    assert found["w"] == found["u"] == found["twin"] != found["v"]
    assert [*found] == [name for name in names("new/m.onnx") if "sizes" not in name]
    assert results("new/m.onnx") == results("m.onnx")
    saved = sum(file.nbytes for file in plain.files[:-1]) - sum(file.nbytes for file in report.files[:-1])
    is_safetensors = layout == "safetensors"
    assert (4 if is_safetensors else 5) * WEIGHT.nbytes <= saved
    (note,) = (loss.detail for loss in report.losses if loss.kind == "dedup")
    assert note == (
        "4 weights with the bytes of another one: 16.4 kB less in data files"
        if is_safetensors
        else "5 weights with the bytes of another one: 20.5 kB less in data files"
    )
    if not is_safetensors:  # whose flat weight has a place of its own
        again = formats.convert("new/m.onnx", "new/m.onnx", dedup=True, overwrite=True)
        assert len(again.files) == 1
        assert results("new/m.onnx") == results("m.onnx")


@pytest.mark.usefixtures("here")
def test_safetensors_has_one_tensor_for_names_with_one_type_and_shape() -> None:
    """Safetensors allows no range twice: other names are in its metadata, and other shapes are stored again."""
    formats.convert("m.onnx", "new.onnx", external_data="w.safetensors", dedup=True)
    with safe_open("w.safetensors", "numpy") as file:
        assert {*file.keys()} == {"else_w", "v", "flat"}
        assert file.metadata() == dict.fromkeys(("then_w", "w", "u", "twin"), "else_w")
        np.testing.assert_array_equal(file.get_tensor("else_w"), WEIGHT)


@pytest.mark.usefixtures("here")
def test_nothing_is_said_of_what_has_no_room() -> None:
    """A weight that would make a `.safetensors` file exceed its limit is stored again, and not counted."""
    options = {"external_data": "w.safetensors", "max_external_file_size": 3000}
    report = formats.convert("m.onnx", "new.onnx", dedup=True, **options)
    assert len(report.files) == 8
    assert "dedup" not in {loss.kind for loss in report.losses}
    assert results("new.onnx") == results("m.onnx")


@pytest.mark.outer
@pytest.mark.usefixtures("here")
def test_copies_of_weights_in_random_graphs() -> None:
    """Of random graphs, also with subgraphs, in which nodes use copies of weights, the results are the same bits."""
    joined = 0
    for seed in range(60):
        graph = generate(seed)
        if graph is None:
            continue
        model = with_copies(graph.model, random.Random(seed))
        Path("m.onnx").write_bytes(model.SerializeToString())
        report = formats.convert("m.onnx", "new.onnx", dedup=True, overwrite=True)
        joined += "dedup" in {edit.kind for edit in report.edits}
        session = onnxruntime.InferenceSession("new.onnx")
        want = onnxruntime.InferenceSession("m.onnx").run(None, graph.feeds)
        for expected, got in zip(want, session.run(None, graph.feeds), strict=True):
            np.testing.assert_array_equal(expected, got)
    assert joined > 20


def with_copies(model: onnx.ModelProto, choice: random.Random) -> onnx.ModelProto:
    """Return the model with copies of weights in place of them, in the main graph or in the one that uses them."""
    new = copy.deepcopy(model)
    weights = {tensor.name: tensor for tensor in model.graph.initializer}
    graphs = [new.graph]
    for graph in graphs:
        for node in graph.node:
            graphs += [attribute.g for attribute in node.attribute if attribute.HasField("g")]
            for index, name in enumerate(node.input):
                if name in weights and choice.random() < 0.5:
                    twin = choice.choice([graph, new.graph]).initializer.add()
                    twin.CopyFrom(weights[name])
                    twin.name = node.input[index] = f"copy_{sum(len(each.initializer) for each in graphs)}"
    return new


@pytest.mark.usefixtures("here")
def test_what_others_see_or_change_stays() -> None:
    """A weight that is an input, an output, trained or quantized stays, and so does a name that two graphs define."""
    model = proto(dict.fromkeys(("default", "trained", "quantized", "inner"), WEIGHT))
    model.graph.input.append(value("default", [32, 32]))
    model.graph.output.append(value("u", [32, 32]))
    model.training_info.add().update_binding.add(key="trained", value="b")
    model.graph.quantization_annotation.add(tensor_name="quantized").quant_parameter_tensor_names.add(
        key="SCALE_TENSOR", value="twin"
    )
    for node in model.graph.node:
        for attribute in node.attribute:
            attribute.g.initializer[0].name = "inner"
            attribute.g.node[0].input[1] = "inner"
    Path("m.onnx").write_bytes(model.SerializeToString())
    formats.convert("m.onnx", "new.onnx", dedup=True)
    left = {"w", "v", "u", "flat", "sizes", "default", "trained", "quantized", "inner"}
    new = onnx.load("new.onnx")
    assert {*names("new.onnx")} == left
    assert new.graph.quantization_annotation[0].quant_parameter_tensor_names[0].value == "w"
    assert [value.name for value in new.graph.input] == ["x", "flag", "default"]


@pytest.mark.usefixtures("here")
def test_equal_bytes_of_other_types_stay() -> None:
    """Weights of other types or dims, texts, and typed elements: only equal ones become one."""
    arrays = {"zeros": np.zeros(4, "float32"), "whole": np.zeros(4, "int32"), "two": np.zeros((2, 2), "float32")}
    model = proto(arrays | {"texts": np.array(["a"], object), "more": np.array(["a"], object)})
    model.graph.initializer.append(helper.make_tensor("typed", TensorProto.FLOAT, [4], [0.0] * 4))
    model.graph.node.append(helper.make_node("Identity", ["typed"], ["of_typed"]))
    model.graph.output.append(value("of_typed", [4]))
    onnx.save(model, "m.onnx")
    formats.convert("m.onnx", "new.onnx", dedup=True)
    assert names("new.onnx") == ["w", "v", "flat", "sizes", *arrays, "texts", "more"]
    assert results("new.onnx") == results("m.onnx")


@pytest.mark.usefixtures("here")
def test_documentation_of_what_goes_is_told() -> None:
    """Documentation of a weight in whose place another one is used is a note of the report."""
    model = proto({})
    model.graph.initializer[2].doc_string = "the second"
    onnx.save(model, "m.onnx")
    report = formats.convert("m.onnx", "new.onnx", dedup=True)
    assert [(loss.kind, loss.matters) for loss in report.losses] == [("doc_string", False)]


@pytest.mark.usefixtures("here")
def test_a_model_of_the_caller_stays() -> None:
    """`save` with `dedup` changes nothing in the model object."""
    model = formats.load("m.onnx")
    before = formats.dumps(model, "onnx")
    assert len(formats.dumps(model, "onnx", dedup=True)) < len(before) - 4 * WEIGHT.nbytes
    assert formats.dumps(model, "onnx") == before


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("option", ["link", "same_data"])
def test_what_stays_where_it_is_has_no_dedup(option: str) -> None:
    """With `link` and `same_data` the weights stay, so `dedup` is refused."""
    with pytest.raises(OptionError, match=f"`{option}` and `dedup` exclude each other"):
        formats.convert("m.onnx", "new.onnx", dedup=True, **{option: True})


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("layout", ["inline", "external"])
def test_a_model_split_and_joined_has_its_weight_once(layout: str) -> None:
    """Two parts of a model that both have a weight become one model with one copy of it, which computes the same."""
    options: dict[str, Any] = {"external_data": True} if layout == "external" else {}
    formats.extract("m.onnx", "first.onnx", outputs=["a"], **options)
    formats.extract("m.onnx", "second.onnx", inputs=["a", "flag"], outputs=["y"], **options)
    formats.merge("first.onnx", "second.onnx", "whole.onnx", connect={"a": "a"}, dedup=True, **options)
    assert results("whole.onnx") == results("m.onnx")
    nbytes = sum(path.stat().st_size for path in Path().glob("whole.onnx*"))
    assert nbytes < (3 if layout == "inline" else 2) * WEIGHT.nbytes + 4096


@pytest.mark.usefixtures("here")
def test_graphs_that_share_ranges_are_moved_shared_and_repaired() -> None:
    """`cp`, `mv`, `share`, `repair` and `rm` know one range with several names, also with another graph beside it."""
    formats.convert("m.onnx", "a.onnx", external_data="w.data", dedup=True)
    shutil.copy("a.onnx", "b.onnx")
    expected = results("m.onnx")
    for line in (
        "cp a.onnx copies/c.onnx --parents",
        "mv a.onnx moved/a.onnx --parents",
        "share b.onnx copies/c.onnx --out shared",
        "repair b.onnx copies/c.onnx shared/c.onnx",
    ):
        done = commands.run("formats", *line.split())
        assert done.exit_code == 0, done.output
    for path in ("b.onnx", "copies/c.onnx", "moved/a.onnx", "shared/b.onnx", "shared/c.onnx"):
        assert results(path) == expected
    commands.run("formats", "rm", "copies/c.onnx", "--all-data")
    assert [*Path("copies").iterdir()] == []
    assert results("b.onnx") == expected
