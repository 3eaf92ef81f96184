"""Models are equal whatever file they are in, and differences are reported with their places."""

from __future__ import annotations

import copy
import json
import random
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import formats
from formats import (
    Attribute,
    Dimension,
    Function,
    Graph,
    Model,
    Node,
    OperatorSetId,
    SparseTensor,
    StringStringEntry,
    Tensor,
    TensorAnnotation,
    TensorShape,
    ValueInfo,
)
from formats.cli.report_lines import comparison_lines
from formats.errors import FormatError
from formats.ir.dtypes import DATA_TYPES, DataType, numpy_dtype
from formats.onnxpb.wire.decoder import decode
from formats.onnxpb.wire.fields_in_source import FieldsInSource
from formats.tensordata.sources.source import Literal
from formats.verbs.compare import diff, differences


def model() -> Model:
    """Return a model with an example of everything that differences are reported for."""
    weights = [formats.from_numpy(np.arange(6, dtype="float32").reshape(2, 3) + n, name) for n, name in enumerate("ab")]
    inner = Graph(node=[Node(op_type="Neg", input=["a"], output=["n"])])
    nodes = [
        Node(op_type="Add", input=["a", "b"], output=["c"], attribute=[Attribute(name="k", type=2, i=1)]),
        Node(op_type="If", input=["c"], output=["d"], attribute=[Attribute(name="body", type=5, g=inner)]),
    ]
    props = [StringStringEntry("x", "1"), StringStringEntry("y", "2")]
    imports = [OperatorSetId("", 17), OperatorSetId("me", 1)]
    graph = Graph(name="g", node=nodes, initializer=weights)
    return Model(ir_version=8, opset_import=imports, graph=graph, metadata_props=props)


def graph_of(whole: Model) -> Graph:
    """Return the graph of a model."""
    assert whole.graph is not None
    return whole.graph


def set_inner(whole: Model) -> None:
    """Change a node of a subgraph."""
    inner = graph_of(whole).node[1].attribute[0].g
    assert inner is not None
    inner.node[0].op_type = "Abs"


def set_weight(whole: Model) -> None:
    """Change one element of a weight."""
    array = graph_of(whole).initializer[1].numpy().copy()
    array[1, 0] = -7
    graph_of(whole).initializer[1] = formats.from_numpy(array, "b")


NODE = Node(op_type="Relu", input=["a"], output=["z"])
CHANGES: list[tuple[Callable[[Any], object], str, str]] = [
    (lambda m: setattr(m.graph.node[0].attribute[0], "i", 2), "changed", 'graph.node[0].attribute["k"].i'),
    (set_inner, "changed", 'graph.node[1].attribute["body"].g.node[0].op_type'),
    (set_weight, "weights", "graph.initializer[1]"),
    (lambda m: setattr(m.graph.initializer[0], "dims", [3, 2]), "changed", "graph.initializer[0].dims"),
    (lambda m: m.graph.node.insert(0, NODE), "only second", "graph.node[0]"),
    (lambda m: m.graph.initializer.pop(0), "only first", "graph.initializer[0]"),
    (lambda m: m.graph.node.reverse(), "order", "graph.node"),
    (lambda m: setattr(m.opset_import[0], "version", 18), "changed", "opset_import[0].version"),
    (lambda m: setattr(m.metadata_props[1], "value", "3"), "changed", "metadata_props[1].value"),
]


@pytest.mark.parametrize(("change", "kind", "where"), CHANGES, ids=[where for *_, where in CHANGES])
def test_changes_are_found_at_their_places(change: Callable[[Model], object], kind: str, where: str) -> None:
    """One change is one difference, at the place of the change."""
    second = model()
    change(second)
    assert [(kind, where)] == [difference[:2] for difference in differences(model(), second)]


def test_subjects_are_named() -> None:
    """A difference names the innermost node, tensor or value that it is about, and types by their names."""
    second = model()
    set_inner(second)
    set_weight(second)
    graph_of(second).initializer[0].data_type = 10
    about = [(difference.subject, difference.detail) for difference in differences(model(), second)]
    assert ("Neg -> n", "'Neg' became 'Abs'") == about[0]
    assert ("tensor 'a'", "'FLOAT' became 'FLOAT16'") == about[1]
    assert "tensor 'b'" == about[2][0]


def test_the_entry_of_a_long_list_that_differs_is_shown() -> None:
    """For two long lists of the same length, the first different entries are reported, with their place."""
    names = [[f"/encoder/layer/{n}/output" for n in range(20)] for _ in range(2)]
    names[1][7] = "x"
    first, second = (Node(op_type="Concat", input=given, output=["y"]) for given in names)
    (difference,) = differences(first, second)
    assert ("input[7]", "'/encoder/layer/7/output' became 'x'") == (difference.where, difference.detail)


def test_elements_that_differ_are_counted() -> None:
    """A difference of weights says how many elements differ, which is the first, and how large the difference is."""
    second = model()
    set_weight(second)
    (difference,) = differences(model(), second)
    assert difference.detail.startswith("1 of 6 elements differ, the first is element 3; the largest difference is ")


@pytest.mark.parametrize("block_bytes", [48, 3 << 16])
@pytest.mark.parametrize("density", [0.001, 0.5, 1.0])
@pytest.mark.parametrize("row", [row for row in DATA_TYPES if row.bits >= 8], ids=lambda row: row.name)
def test_any_elements_that_differ_are_counted(
    row: DataType, density: float, block_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For random bytes with few or many differences, the number, the first and the largest are exact."""
    monkeypatch.setattr("formats.verbs.compare.BLOCK_BYTES", block_bytes)
    rng = np.random.default_rng(row.number)
    dtype, count = numpy_dtype(row.number), 10_007
    unit = row.bits // 8
    first = rng.integers(0, 2 if row.name == "BOOL" else 256, (count, unit), np.uint8)
    second = first.copy()
    second[rng.random(count) < density, 0] ^= 1
    unlike = (first != second).any(axis=1)
    tensors = [Tensor(dims=[count], data_type=row.number, raw_data=Literal(side.tobytes())) for side in (first, second)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (difference,) = differences(*tensors)
    wide = "complex128" if row.kind == "c" else "float64"
    with np.errstate(invalid="ignore", over="ignore"):
        mine, theirs = (side.reshape(-1).view(dtype).astype(wide) for side in (first, second))
        apart = np.abs(mine - theirs)
        same = (mine == theirs) | (np.isnan(mine) & np.isnan(theirs))
    expected = float(np.where(np.isnan(apart), np.inf, apart)[~same].max(initial=0.0))
    if row.kind in "iu" and row.bits == 64:  # which float64 does not hold
        mine, theirs = (side.reshape(-1).view(dtype).astype(object) for side in (first, second))
        expected = float(np.abs(mine - theirs).max())
    assert difference.largest == expected
    counted = f"{unlike.sum():,} of {count:,} elements differ, the first is element {unlike.argmax():,}; "
    assert difference.detail == f"{counted}the largest difference is {expected:.6g}"


@pytest.mark.parametrize("row", [row for row in DATA_TYPES if row.bits], ids=lambda row: row.name)
def test_the_largest_difference(row: DataType) -> None:
    """The largest difference of elements of any type, packed ones as well, equals numpy's, in text and as a number."""
    dtype, count = numpy_dtype(row.number), 10_001
    rng = np.random.default_rng(row.number)
    first = (rng.integers(0, 2, count) + (row.kind != "b")).astype(dtype)
    second = first.copy()
    second[-100:] = first[100:200]
    (difference,) = differences(*(formats.from_numpy(array, "w") for array in (first, second)))
    expected = float(np.abs(first.astype("complex128") - second.astype("complex128")).max())
    assert expected == difference.largest
    assert f"the largest difference is {expected:.6g}" in difference.detail


@pytest.mark.parametrize(
    ("dtype", "first", "second", "expected"),
    [
        ("int64", 2**62, 2**62 + 1, 1),
        ("int64", -(2**63), 2**63 - 1, 2**64 - 1),
        ("uint64", 2**64 - 1, 2**64 - 4, 3),
        ("int32", -(2**31), 2**31 - 1, 2**32 - 1),
    ],
)
def test_the_largest_difference_of_large_integers(dtype: str, first: int, second: int, expected: int) -> None:
    """Integers that float64 does not hold have their own difference."""
    arrays = (np.array([5, number], dtype) for number in (first, second))
    (difference,) = differences(*(formats.from_numpy(array, "w") for array in arrays))
    assert difference.largest == float(expected)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ([0.0, 1.0], [0.0, np.nan], np.inf),
        ([np.inf, 1.0], [np.inf, 1.5], 0.5),
        ([np.inf, 1.0], [-np.inf, 1.5], np.inf),
        ([0.0, 1.0], [-0.0, 1.0], 0.0),
        ([np.nan, 1.0], [-np.nan, 1.25], 0.25),
        ([3e38, 0.0], [-3e38, 0.0], 6e38),
    ],
)
def test_the_largest_difference_of_special_numbers(
    first: list[float], second: list[float], expected: float, tmp_path: Path
) -> None:
    """NaN and a number differ by infinity; equal infinities, zeros of either sign and two NaNs do not differ."""
    paths = [tmp_path / "a.onnx", tmp_path / "b.onnx"]
    for path, values in zip(paths, (first, second), strict=True):
        array = np.array(values, "float32")
        formats.save(Model(8, graph=Graph(name="g", initializer=[formats.from_numpy(array, "w")])), path)
    result = diff(*paths)
    assert expected == pytest.approx(result.largest_difference)
    assert result.to_json()["largest_difference"] == ("inf" if np.isinf(expected) else result.largest_difference)
    assert not result.equal


def test_order_of_names_without_order_does_not_count() -> None:
    """Metadata, opsets, attributes, functions, initialisers, annotations and types of values have no order."""

    def described(*, is_reversed: bool) -> Model:
        whole = model()
        whole.functions = [Function(name=name, domain="me") for name in "fg"]
        graph = graph_of(whole)
        graph.value_info = [ValueInfo(name=name) for name in "uv"]
        graph.quantization_annotation = [TensorAnnotation(tensor_name=name) for name in "ab"]
        graph.sparse_initializer = [SparseTensor(values=formats.from_numpy(np.ones(1), name)) for name in "st"]
        lists = [whole.metadata_props, whole.opset_import, whole.functions, graph.initializer, graph.value_info]
        for each in [*lists, graph.quantization_annotation, graph.sparse_initializer] if is_reversed else ():
            each.reverse()  # type: ignore[attr-defined]
        return whole

    assert [] == list(differences(described(is_reversed=False), described(is_reversed=True)))


def test_order_of_inputs_and_of_a_list_of_tensors_counts() -> None:
    """The order of inputs and outputs counts, and so does the order of the tensors of an attribute."""
    first, second = model(), model()
    for whole, names in ((first, "xy"), (second, "yx")):
        graph_of(whole).input = [ValueInfo(name=name) for name in names]
        tensors = [formats.from_numpy(np.ones(1, "float32"), name) for name in names]
        graph_of(whole).node[0].attribute.append(Attribute(name="list", type=9, tensors=tensors))
    found = [difference[:2] for difference in differences(first, second)]
    assert [("order", 'graph.node[0].attribute["list"].tensors'), ("order", "graph.input")] == found


def test_a_model_is_itself_after_rten_and_back(digits: Path, tmp_path: Path) -> None:
    """A model that was changed by RTen's order of constants is the same model."""
    for source, target in ((digits, "a.rten"), ("a.rten", "a.onnx")):
        formats.convert(tmp_path / source, tmp_path / target)
    assert not [d for d in diff(tmp_path / "a.rten", tmp_path / "a.onnx").differences if d.kind == "order"]


def test_absent_is_the_default_but_for_dims() -> None:
    """An empty text equals a missing one; a dim of 0 differs from an unknown one."""
    second = model()
    second.producer_name, graph_of(second).node[0].domain = "", ""
    assert [] == list(differences(model(), second))
    shapes = [TensorShape(dim=[Dimension(dim_value=value)]) for value in (None, 0)]
    assert ["dim[0].dim_value"] == [difference.where for difference in differences(*shapes)]


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    "target",
    ["a.onnxz", "a.onnx", *(pytest.param(each, marks=pytest.mark.outer) for each in ("a.json", "a.textproto"))],
)
def test_formats_do_not_count(shared_model: Path, tmp_path: Path, target: str) -> None:
    """A real model is equal to itself in another format, or with its weights in another file."""
    options = {"external_data": True, "size_threshold": 0} if target == "a.onnx" else {}
    formats.convert(shared_model, tmp_path / target, **options)
    result = diff(shared_model, tmp_path / target)
    assert (0, True) == (result.count, result.equal)


def test_storage_counts_on_request(tiny_model: Path, tmp_path: Path) -> None:
    """Different storage of weights is a difference only on request."""
    formats.convert(tiny_model, tmp_path / "a.onnx", external_data="w.data")
    assert diff(tiny_model, tmp_path / "a.onnx").equal
    (difference,) = diff(tiny_model, tmp_path / "a.onnx", storage=True).differences
    assert "stored as raw_data, and as external_data and data_location in the second" == difference.detail


def test_typed_fields_equal_raw_data() -> None:
    """Weights in a typed field are equal to the same ones as raw data."""
    pair = [
        Tensor(dims=[2], data_type=7, **data)
        for data in (  # type: ignore[arg-type]
            {"int64_data": Literal(b"\x01\x7f")},
            {"raw_data": Literal(b"\1" + bytes(7) + b"\x7f" + bytes(7))},
        )
    ]
    assert [] == list(differences(*pair))
    assert ["storage"] == [difference.kind for difference in differences(*pair, storage=True)]


def test_output_is_bounded(tmp_path: Path) -> None:
    """Only the first differences are kept, but all are counted."""
    for number in range(2):
        nodes = [Node(op_type="Relu", name=str(number), output=[str(n)]) for n in range(50)]
        formats.save(Model(ir_version=8, graph=Graph(node=nodes)), tmp_path / f"{number}.onnx")
    result = diff(tmp_path / "0.onnx", tmp_path / "1.onnx", limit=3)
    assert (50, 3, False) == (result.count, len(result.differences), result.equal)
    assert 50 == json.loads(json.dumps(result.to_json()))["count"]


def test_a_model_is_equal_to_its_copy() -> None:
    """A deep copy of a model does not differ from it."""
    whole = model()
    assert [] == list(differences(whole, copy.deepcopy(whole)))


# Models in the operators of their own format


@pytest.mark.sample(3)
def test_a_model_is_equal_to_what_it_was_converted_to(shared_model: Path, tmp_path: Path) -> None:
    """A .rten file does not differ from its source model; what the format cannot express is noted."""
    formats.convert(shared_model, tmp_path / "a.rten")
    for pair in ((shared_model, tmp_path / "a.rten"), (tmp_path / "a.rten", shared_model)):
        result = diff(*pair)
        assert ((), "rten") == (result.differences, result.form)
        assert {"producer", "metadata"} <= {note.kind for note in result.notes}
        assert "onnx_hash" in result.notes[-1].detail
    assert diff(shared_model, shared_model).form is None
    assert diff(tmp_path / "a.rten", tmp_path / "a.rten").form is None


@pytest.mark.parametrize("name", ["resnet.ts17", "vit.ts17"])
def test_it_does_not_matter_who_converted(shared_models: list[Path], name: str, tmp_path: Path) -> None:
    """A .rten file of rten-convert is equal to its source model, if it converts as we do."""
    (path,) = (path for path in shared_models if path.stem == name)
    program = "from rten_convert.converter import main; main()"
    run = [sys.executable, "-c", program, "--no-infer-shapes", path, tmp_path / "a.rten"]
    subprocess.run(run, check=True, capture_output=True)
    assert () == diff(path, tmp_path / "a.rten").differences


def test_changes_are_found_across_operators(tiny_model: Path, tmp_path: Path) -> None:
    """Changes after a conversion are reported in the operators of the format in which both models are compared."""
    formats.convert(tiny_model, tmp_path / "a.rten")
    whole = formats.load(tiny_model)
    array = graph_of(whole).initializer[0].numpy().copy()
    array[3, 4] = -1
    graph_of(whole).initializer[0] = formats.from_numpy(array, "w")
    graph_of(whole).node[0].name = "other"
    whole.metadata_props = [StringStringEntry("license", "none")]
    formats.save(whole, tmp_path / "b.onnx")
    result = diff(tmp_path / "b.onnx", tmp_path / "a.rten")
    assert ["changed", "weights", "only first"] == [difference.kind for difference in result.differences]
    *lines, last = comparison_lines(result)
    assert "graph.node[0].name (MatMul -> y): 'other' became 'product'" == lines[0]
    assert "(tensor 'w'): 1 of 1,024 elements differ, the first is element 100" in lines[1]
    assert last.endswith("a.rten: 3 differences in what .rten files hold")
    assert "rten" == json.loads(json.dumps(result.to_json()))["form"]


def test_models_that_cannot_be_converted_are_refused(tiny_model: Path, tmp_path: Path) -> None:
    """A model with an operator that the other file cannot have is not compared with it, and the error says why."""
    formats.convert(tiny_model, tmp_path / "a.rten")
    whole = formats.load(tiny_model)
    graph_of(whole).node[0].op_type = "DeformConv"
    formats.save(whole, tmp_path / "b.onnx")
    with pytest.raises(FormatError, match="DeformConv") as caught:
        diff(tmp_path / "a.rten", tmp_path / "b.onnx")
    assert tmp_path / "b.onnx" == caught.value.path


def long_graph(**changes: str) -> onnx.GraphProto:
    """Return a graph so long that its lists stay undecoded; `changes` are new names of nodes."""
    nodes = [
        onnx.helper.make_node("Conv", [f"x{index}", "w"], [f"x{index + 1}"], f"n{index}", kernel_shape=[3, 3])
        for index in range(2000)
    ]
    for node in nodes:
        node.name = changes.get(node.name, node.name)
    ends = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, 4, 8, 8]) for name in ("x0", "x2000")]
    weight = onnx.helper.make_tensor("w", onnx.TensorProto.FLOAT, [4, 4, 3, 3], bytes(576), raw=True)
    small = [onnx.helper.make_tensor(f"c{index}", onnx.TensorProto.FLOAT, [], [index]) for index in range(1000)]
    return onnx.helper.make_graph(nodes, "g", ends[:1], ends[1:], [weight, *small])


def test_long_lists_that_are_alike_are_not_decoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes and tensors with the same bytes in both files are equal; a different one among them is found."""
    paths = [tmp_path / name for name in ("first.onnx", "second.onnx", "third.onnx")]
    for path, graph in zip(paths, (long_graph(), long_graph(), long_graph(n777="other")), strict=True):
        onnx.save(onnx.helper.make_model(graph), path)
    (difference,) = diff(paths[0], paths[2]).differences
    assert ("changed", "graph.node[777].name") == difference[:2]
    monkeypatch.setattr(FieldsInSource, "decode", None)
    assert diff(paths[0], paths[1]).equal


def edited(nodes: list[onnx.NodeProto], state: random.Random) -> list[onnx.NodeProto]:
    """Return the nodes, some of them removed, added, changed or moved; all have other outputs."""
    nodes = nodes[:]
    for number in range(state.randrange(4)):
        place = state.randrange(len(nodes) + 1)
        some = slice(place, place + state.choice((0, 1, 1, 2, 40)))
        moved, nodes[some] = nodes[some], []
        if state.random() < 0.3:
            moved.append(onnx.helper.make_node("Relu", ["x1"], [f"new{number}"]))
        if moved and state.random() < 0.5:
            moved[0] = copy.deepcopy(moved[0])
            moved[0].name += state.choice(("a", "b" * 200))
        place = state.choice((place, state.randrange(len(nodes) + 1)))
        nodes[place:place] = moved[state.random() < 0.2 :]
    return nodes


@pytest.mark.sample(3)
@pytest.mark.parametrize("seed", [*range(10), *(pytest.param(more, marks=pytest.mark.outer) for more in range(10, 40))])
def test_undecoded_lists_differ_as_decoded_ones_do(seed: int) -> None:
    """However a long list is edited, the differences are the same whether its equal ends are decoded or not."""
    state = random.Random(seed)
    models = [onnx.helper.make_model(long_graph()) for _ in range(2)]
    for each in models:
        nodes = edited(list(each.graph.node), state)
        del each.graph.node[:]
        each.graph.node.extend(nodes)
    sources = [Literal(each.SerializeToString()) for each in models]
    lazily, at_once = ([decode(source, Model, at_once=flag) for source in sources] for flag in (False, True))
    assert all("node" in graph_of(each).undecoded for each in lazily)
    assert [*differences(*lazily)] == [*differences(*at_once)]


def test_only_elements_that_differ_are_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    """When two long lists are compared, elements in their equal ends are not decoded."""
    sources = [Literal(onnx.helper.make_model(long_graph(n777=name)).SerializeToString()) for name in ("one", "two")]
    first, second = (decode(source, Model) for source in sources)
    decoded: list[Any] = []
    all_of_them = FieldsInSource.decode
    monkeypatch.setattr(FieldsInSource, "decode", lambda self: decoded.append(found := all_of_them(self)) or found)
    assert ["graph.node[777].name"] == [difference.where for difference in differences(first, second)]
    assert [["one"], ["two"]] == [[node.name for node in nodes] for nodes in decoded]


def test_a_damaged_element_of_a_long_list_has_its_place() -> None:
    """If the different element is damaged, the error counts the elements before it."""
    data = onnx.helper.make_model(long_graph(n777="other")).SerializeToString()
    first = decode(Literal(onnx.helper.make_model(long_graph()).SerializeToString()), Model)
    second = decode(Literal(data.replace(b"\x1a\x05other\x22\x04", b"\x1a\x05other\x22\x7f")), Model)
    with pytest.raises(FormatError) as caught:
        list(differences(first, second))
    assert "node[777].op_type" == caught.value.where


def test_equal_references_to_other_data_differ(tmp_path: Path) -> None:
    """Tensors with equal bytes in the graphs are compared by their data in other files."""
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        model = onnx.helper.make_model(long_graph())
        for number, tensor in enumerate(model.graph.initializer):
            tensor.raw_data = bytes((number % 256,)) * (576 if tensor.name == "w" else 4)
            if name == "second" and tensor.name == "c500":
                tensor.raw_data = b"abcd"
            tensor.ClearField("float_data")
        path = tmp_path / name / "m.onnx"
        onnx.save(model, path, save_as_external_data=True, location="m.data", size_threshold=0)
    assert (tmp_path / "first/m.onnx").read_bytes() == (tmp_path / "second/m.onnx").read_bytes()
    (difference,) = diff(tmp_path / "first/m.onnx", tmp_path / "second/m.onnx").differences
    assert ("weights", "graph.initializer[501]") == difference[:2]


def test_a_damaged_list_names_its_file(tmp_path: Path) -> None:
    """If one of two files has a damaged node, the error names the file."""
    first, second = tmp_path / "first.onnx", tmp_path / "second.onnx"
    onnx.save(onnx.helper.make_model(long_graph()), first)
    second.write_bytes(first.read_bytes().replace(b"\x22\x04Conv", b"\x22\x7fConv", 1))
    for pair in ((first, second), (second, first)):
        with pytest.raises(FormatError) as caught:
            diff(*pair)
        assert caught.value.path == second
