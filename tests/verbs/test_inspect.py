"""Tests of inspection: types in ONNX's text form, sizes, counts, files and their regions; `onnx` is the oracle."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import formats
from formats.ir.summary import type_with_dims
from formats.tensordata.sources.source import FileSpan
from formats.verbs.inspect import RuntimeFindings
from formats.verbs.model_files import layout
from formats.words import in_units
from tests import commands

TYPES = {
    "any": helper.make_tensor_type_proto(TensorProto.FLOAT, None),
    "scalar": helper.make_tensor_type_proto(TensorProto.DOUBLE, []),
    "image": helper.make_tensor_type_proto(TensorProto.FLOAT16, ["N", 3, None]),
    "list": helper.make_sequence_type_proto(helper.make_tensor_type_proto(TensorProto.INT64, [2])),
    "table": helper.make_map_type_proto(TensorProto.INT64, helper.make_tensor_type_proto(TensorProto.STRING, [2])),
    "perhaps": helper.make_optional_type_proto(
        helper.make_sequence_type_proto(helper.make_tensor_type_proto(TensorProto.BOOL, None))
    ),
    "sparse": helper.make_sparse_tensor_type_proto(TensorProto.BFLOAT16, [2, 3]),
}


def test_types_are_in_the_text_form_of_onnx(tmp_path: Path) -> None:
    """Types of all kinds are written as by the printer of `onnx`."""
    infos = [helper.make_value_info(name, type_proto) for name, type_proto in TYPES.items()]
    path = tmp_path / "a.onnx"
    proto = helper.make_model(helper.make_graph([], "g", infos, []))
    onnx.save(proto, path)
    shown = ", ".join(f"{value.type} {value.name}" for value in formats.inspect(path).inputs)
    assert f"g ({shown}) => ()" in onnx.printer.to_text(proto)


def test_unknown_types_have_no_text() -> None:
    """A value without a type has an empty text, an opaque type its domain and name."""
    assert "" == type_with_dims(None)
    assert "" == type_with_dims(formats.Type())
    assert "opaque(me, thing)" == type_with_dims(
        formats.Type(opaque_type=formats.OpaqueType(domain="me", name="thing"))
    )


def test_inspection_of_the_example(digits: Path) -> None:
    """The inspection agrees with `onnx` about opsets, operators, tensors, inputs and metadata."""
    proto = onnx.load(digits)
    seen = formats.inspect(digits)
    assert ("onnx", digits, proto.ir_version) == (seen.format, seen.path, seen.ir_version)
    assert (proto.producer_name, proto.producer_version) == (seen.producer_name, seen.producer_version)
    assert {entry.domain: entry.version for entry in proto.opset_import} == seen.opsets
    assert Counter(node.op_type for node in proto.graph.node) == seen.operators
    assert {entry.key: entry.value for entry in proto.metadata_props} == seen.metadata
    assert [value.name for value in proto.graph.input] == [value.name for value in seen.inputs]
    assert [(digits, digits.stat().st_size)] == [tuple(file) for file in seen.files]
    tensors = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in proto.graph.initializer}
    assert {name: (array.shape, array.nbytes) for name, array in tensors.items()} == {
        entry.name: (entry.dims, entry.nbytes) for entry in seen.tensors
    }
    assert sum(array.nbytes for array in tensors.values()) == sum(total.nbytes for total in seen.data_types.values())


def test_companions_are_listed(tiny_model: Path, tmp_path: Path) -> None:
    """The data file is listed with its size."""
    formats.convert(tiny_model, tmp_path / "a.onnx", external_data="w.data")
    seen = formats.inspect(tmp_path / "a.onnx")
    sizes = [(tmp_path / name, (tmp_path / name).stat().st_size) for name in ("a.onnx", "w.data")]
    assert sizes == [tuple(file) for file in seen.files]
    assert sum(size for _, size in sizes) == seen.nbytes


def test_alignment_of_the_first_tensor_of_a_file(tmp_path: Path) -> None:
    """A tensor at offset 0, as in every data file, is aligned to any number; it counts as 4,096."""
    weights = [onnx.numpy_helper.from_array(np.zeros(1000, "float32"), name) for name in "abc"]
    onnx.save(helper.make_model(helper.make_graph([], "g", [], [], weights)), tmp_path / "a.onnx")
    formats.convert(tmp_path / "a.onnx", tmp_path / "b.onnx", external_data="w.data", alignment=64)
    seen = formats.inspect(tmp_path / "b.onnx")
    assert [0, 4032, 8064] == [entry.file_offset for entry in seen.tensors]
    assert {4096: 1, 128: 1, 64: 1} == seen.alignments
    assert {"4096": 1, "128": 1, "64": 1} == seen.to_json()["alignments"]


@pytest.mark.parametrize("extension", ["onnx", "onnxz", "rten"])
def test_every_format_can_be_inspected(tiny_model: Path, tmp_path: Path, extension: str) -> None:
    """The weight of a model is found in each format, and the inspection can be written as JSON."""
    path = tmp_path / f"a.{extension}"
    formats.convert(tiny_model, path)
    seen = formats.inspect(path)
    assert ["x"] == [value.name for value in seen.inputs]
    assert ["y"] == [value.name for value in seen.outputs]
    assert 4096 in {entry.nbytes for entry in seen.tensors}
    assert extension == json.loads(json.dumps(seen.to_json()))["format"]


def test_initialised_inputs_are_not_to_be_fed(tmp_path: Path) -> None:
    """An input with an initialiser, as in old files, is not listed as an input."""
    x, w = (helper.make_tensor_value_info(name, 1, [2]) for name in "xw")
    weight = onnx.numpy_helper.from_array(np.ones(2, "float32"), "w")
    graph = helper.make_graph([helper.make_node("Add", ["x", "w"], ["y"])], "g", [x, w], [], [weight])
    onnx.save(helper.make_model(graph), tmp_path / "a.onnx")
    assert ["x"] == [value.name for value in formats.inspect(tmp_path / "a.onnx").inputs]


def test_tensors_and_operators_are_found_anywhere(tmp_path: Path) -> None:
    """Tensors and operators of subgraphs and functions count, with the operator's domain and the tensor's place."""
    tensor = onnx.numpy_helper.from_array(np.zeros(3, "int8"), "k")
    inner = helper.make_graph([helper.make_node("Constant", [], ["k"], value=tensor)], "i", [], [])
    node = helper.make_node("If", ["c"], ["y"], then_branch=inner, else_branch=inner)
    function = helper.make_function("me", "f", [], ["y"], [helper.make_node("Relu", ["x"], ["y"], domain="me")], [])
    strings = helper.make_tensor("s", TensorProto.STRING, [2], [b"one", b"three"])
    onnx.save(
        helper.make_model(helper.make_graph([node], "g", [], [], [strings]), functions=[function]), tmp_path / "a.onnx"
    )
    seen = formats.inspect(tmp_path / "a.onnx")
    assert {"If": 1, "Constant": 2, "me.Relu": 1} == seen.operators
    assert {"INT8": (2, 6), "STRING": (1, 8)} == {name: tuple(total) for name, total in seen.data_types.items()}
    assert 'graph.node[0].attribute["then_branch"].g.node[0].attribute["value"].t' in {e.where for e in seen.tensors}


def constants_everywhere() -> onnx.ModelProto:
    """Return a model with 21 parameters: in constants, attributes, a subgraph, a function, and sparse tensors."""
    node, array = helper.make_node, onnx.numpy_helper.from_array

    def constant(name: str, count: int) -> onnx.NodeProto:
        return node("Constant", [], [name], value=array(np.ones(count, "float32")))

    def sparse(name: str) -> onnx.SparseTensorProto:
        values, places = array(np.ones(2, "float32"), name), array(np.array([1, 7], "int64"), f"{name}/places")
        return helper.make_sparse_tensor(values, places, [10])

    branch = helper.make_graph([constant("m/in/k", 3)], "i", [], [helper.make_tensor_value_info("m/in/k", 1, [3])])
    nodes = [
        constant("m/enc/w", 4),
        node("Constant", [], ["m/dec/s"], sparse_value=sparse("")),
        node("If", ["c"], ["y"], then_branch=branch, else_branch=branch),
        node("Own", [], ["z"], domain="me", table=array(np.ones(1, "float32"), "m/enc/table")),
    ]
    function = helper.make_function(
        "me", "Own", [], ["z"], [constant("z", 1)], [helper.make_opsetid("", 17)], ["table"]
    )
    condition = helper.make_tensor_value_info("c", TensorProto.BOOL, [])
    graph = helper.make_graph(nodes, "g", [condition], [], [array(np.ones((1, 5), "float32"), "m/enc/i")])
    graph.sparse_initializer.append(sparse("m/dec/t"))
    sets = [helper.make_opsetid("", 17), helper.make_opsetid("me", 1)]
    return helper.make_model(graph, functions=[function], opset_imports=sets, ir_version=8)


def test_parameters_count_wherever_weights_are(tmp_path: Path) -> None:
    """Tensors of constants, attributes, subgraphs, functions and sparse tensors count, and the parts sum them up.

    Of a sparse tensor, the values count, and not their places.
    """
    onnx.save(constants_everywhere(), tmp_path / "a.onnx")
    seen = formats.inspect(tmp_path / "a.onnx", params=1)
    assert 5 + 4 + 2 + 2 + 2 * 3 + 1 + 1 == seen.parameters == 21
    parts = {part.name: part.parameters for part in seen.parts or ()}
    assert parts == {"m.enc": 10, "m.in": 6, "m.dec": 4, "": 1}
    assert ">10, " in formats.load(tmp_path / "a.onnx")._repr_html_()


def test_a_constant_is_found_by_the_name_that_is_shown(tmp_path: Path) -> None:
    """The name that an inspection shows for the tensor of a Constant node is that for `tensor` and `extract`."""
    onnx.save(constants_everywhere(), tmp_path / "a.onnx")
    names = [entry.name for entry in formats.inspect(tmp_path / "a.onnx").tensors]
    assert {"m/enc/w", "m/dec/s", "m/in/k", "z"} < {*names}
    model = formats.load(tmp_path / "a.onnx")
    assert ([4], [2], [1]) == tuple(model.tensor(name).dims for name in ("m/enc/w", "m/dec/s", "z"))
    with pytest.raises(LookupError, match="2 tensors are called 'm/in/k'"):
        model.tensor("m/in/k")
    formats.extract(tmp_path / "a.onnx", tmp_path / "w.npy", tensor="m/enc/w")
    assert [4] == [*np.load(tmp_path / "w.npy").shape]


@pytest.mark.parametrize("extension", ["onnx", "onnxz", "rten", "ort", "json", "textproto"])
def test_constants_are_parameters_in_every_format(tmp_path: Path, extension: str) -> None:
    """A model with its only weights in a Constant node has parameters, by its name, in every format."""
    weight = onnx.numpy_helper.from_array(np.ones((30, 40), "float32"))
    nodes = [
        helper.make_node("Constant", [], ["m/enc/w"], value=weight),
        helper.make_node("Add", ["x", "m/enc/w"], "y"),
    ]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [30, 40]) for name in "xy"]
    sets = [helper.make_opsetid("", 17)]
    proto = helper.make_model(helper.make_graph(nodes, "g", values[:1], values[1:]), opset_imports=sets, ir_version=8)
    onnx.save(proto, tmp_path / "first.onnx")
    path = tmp_path / f"a.{extension}"
    formats.convert(tmp_path / "first.onnx", path)
    seen = formats.inspect(path, params=1)
    assert (1200, ["m/enc/w"]) == (seen.parameters, [entry.name for entry in seen.tensors])
    assert [("m.enc", 1, 1200, 4800)] == [tuple(part) for part in seen.parts or ()]


def test_counting_parameters_reads_no_weight(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The 20 MB of a constant stay in the file while they are counted."""
    weight = onnx.numpy_helper.from_array(np.ones((1000, 5000), "float32"))
    node = helper.make_node("Constant", [], ["w"], value=weight)
    onnx.save(helper.make_model(helper.make_graph([node], "g", [], [])), tmp_path / "a.onnx")
    taken: list[int] = []
    read = FileSpan.read
    monkeypatch.setattr(FileSpan, "read", lambda *given: (taken.append(given[2]), read(*given))[1])
    assert 5_000_000 == formats.inspect(tmp_path / "a.onnx", params=1).parameters
    assert sum(taken) < 1_000_000


def test_shared_models_can_be_inspected(shared_model: Path) -> None:
    """The operators of a real model are counted as in `onnx`."""
    proto = onnx.load(shared_model)
    seen = formats.inspect(shared_model)
    assert len(proto.graph.node) <= sum(seen.operators.values())
    assert {*seen.operators.values()} == {*sorted(seen.operators.values(), reverse=True)}
    assert "tensor" not in "".join(value.type for value in (*seen.inputs, *seen.outputs))


@pytest.mark.parametrize(
    ("changes", "stops", "runs"), [((), (), True), ((), ("x",), False), (("c",), (), False), (("c",), ("x",), False)]
)
def test_a_runtime_runs_what_nobody_has_to_change(changes: Any, stops: tuple[str, ...], runs: bool) -> None:
    """A runtime runs a model unchanged if nothing is changed, and nothing stops it."""
    assert runs == RuntimeFindings("RTen", changes, stops, ()).runs


def test_paths_are_as_the_user_wrote_the_folder(digits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Data files and tensors have the folder of the model as it was given: relative, with links, or whole."""
    formats.convert(digits, tmp_path / "real" / "m.onnx", external_data=True, parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    monkeypatch.chdir(tmp_path)
    for folder in (Path("real"), Path("link"), tmp_path / "real", Path("real/../link")):
        seen = formats.inspect(folder / "m.onnx")
        assert [folder / "m.onnx", folder / "m.onnx.data"] == [file.path for file in seen.files]
        assert {folder / "m.onnx", folder / "m.onnx.data"} == {entry.file for entry in seen.tensors} - {None}
        report = formats.convert(folder / "m.onnx", "again.onnx", overwrite=True)
        assert (folder / "m.onnx", folder / "m.onnx.data") == report.source_files


# The regions of files


@pytest.mark.parametrize("extension", ["onnx", "onnxz", "ort", "rten"])
def test_regions_are_the_whole_file(tiny_model: Path, tmp_path: Path, extension: str) -> None:
    """The regions follow each other from the first byte to the last, and the weight's region has its bytes."""
    path = tmp_path / f"a.{extension}"
    formats.convert(tiny_model, path)
    (file,) = layout(path)
    position = 0
    for region in file.regions:
        assert (position, True) == (region.file_offset, region.nbytes > 0)
        position = region.end
    assert (path.stat().st_size, file.nbytes) == (position, position)
    (weight,) = (region for region in file.regions if region.kind == "tensor" and region.nbytes == 4096)
    stored = path.read_bytes()[weight.file_offset : weight.end]
    graph = formats.load(tiny_model).graph
    assert graph is not None
    assert graph.initializer[0].source().read() == stored


def test_data_files_have_layouts(tiny_model: Path, tmp_path: Path) -> None:
    """A data file comes after its model, with padding between tensors, and unused bytes are labelled as such."""
    formats.convert(tiny_model, tmp_path / "a.onnx", external_data="w.data")
    with (tmp_path / "w.data").open("ab") as stream:
        stream.write(bytes(1 << 17))
    model, data = layout(tmp_path / "a.onnx")
    assert ["a.onnx", "w.data"] == [model.path.name, data.path.name]
    assert [(0, 4096, "tensor"), (4096, 1 << 17, "unused")] == [region[:3] for region in data.regions]


@pytest.mark.parametrize("weights_dtype", ["int8", "int4"])
@pytest.mark.parametrize("dtype", ["float", "float16"])
def test_what_integers_in_blocks_save(dtype: str, weights_dtype: str, tmp_path: Path) -> None:
    """The bytes that weights would lose as integers in blocks are those that a conversion saves.

    Also for lines that end within a block, tables, a weight that another node needs, and one in a subgraph.
    """
    graph = onnx.parser.parse_model(f"""
        <ir_version: 10, opset_import: ["" : 21]>
        g ({dtype}[2, 500] x, int64[3] rows, bool yes) => ({dtype}[2, 300] y, {dtype}[3, 70] z, {dtype}[2, 9] v) {{
            a = MatMul (x, m)
            b = MatMul (x, shared)
            c = Gemm <transB = 1> (x, t, bias)
            d = Add (shared_row, shared)
            y = Sum (a, b, c)
            z = Gather (table, rows)
            v = If (yes) <then_branch = one () => ({dtype}[2, 9] p) {{ p = MatMul (x, short) }},
                          else_branch = two () => ({dtype}[2, 9] q) {{ q = MatMul (x, short) }}>
        }}""")
    dims = {"m": (500, 300), "shared": (500, 300), "t": (300, 500), "bias": (300,), "shared_row": (300,)}
    array_dtype = {"float": "float32"}.get(dtype, dtype)
    dims |= {"table": (30_000, 70), "short": (500, 9)}
    for name, each in dims.items():
        graph.graph.initializer.append(onnx.numpy_helper.from_array(np.ones(each, array_dtype), name))
    onnx.save(graph, tmp_path / "m.onnx")
    formats.convert(tmp_path / "m.onnx", tmp_path / "n.onnx", weights_dtype=weights_dtype)
    before, after = (formats.inspect(tmp_path / name) for name in ("m.onnx", "n.onnx"))
    saved = sum(entry.nbytes for entry in before.tensors) - sum(entry.nbytes for entry in after.tensors)
    assert before.savings[weights_dtype] == saved > 0
    lines = commands.run("formats", "inspect", tmp_path / "m.onnx").stdout.splitlines()
    (line,) = (line for line in lines if line.startswith(f"note: --weights-dtype {weights_dtype} saves "))
    assert line.endswith(in_units(saved))
    formats.convert(tmp_path / "m.onnx", tmp_path / "m.onnxz")
    assert formats.inspect(tmp_path / "m.onnxz").savings == before.savings


def test_what_a_file_for_rten_saves_in_blocks_is_not_known(tmp_path: Path) -> None:
    """What integers in blocks save is said of models with operators of ONNX, and not as nothing of others."""
    weight = onnx.numpy_helper.from_array(np.ones((1024, 512), "float32"), "w")
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, size]) for name, size in (("x", 1024), ("y", 512))
    ]
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g", ends[:1], ends[1:], [weight])
    onnx.save(helper.make_model(graph), tmp_path / "m.onnx")
    formats.convert(tmp_path / "m.onnx", tmp_path / "m.rten")
    assert formats.inspect(tmp_path / "m.onnx").savings["int4"] > 0
    assert formats.inspect(tmp_path / "m.rten").savings.keys() == {"float16", "bfloat16", "float32", "int32"}


def test_what_a_short_weight_saves(tmp_path: Path) -> None:
    """A model with a weight that is shorter than its dims is described by its dims."""
    weight = TensorProto(name="w", dims=[1024, 512], data_type=TensorProto.FLOAT, raw_data=b"1234")
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g", [], [], [weight])
    onnx.save(helper.make_model(graph), tmp_path / "m.onnx")
    floats, integers, scales = 1024 * 512 * 4, 1024 * 512 // 2, 1024 * 512 // 32 * 4
    assert formats.inspect(tmp_path / "m.onnx").savings["int4"] == floats - integers - scales


def test_what_another_type_saves(tmp_path: Path) -> None:
    """The bytes that weights lose with each type are known without writing, and the command names large savings."""
    weights = {"w": np.zeros((1024, 512), "float32"), "h": np.zeros(3, "float16"), "i": np.zeros(1 << 18, "int64")}
    tensors = [onnx.numpy_helper.from_array(array, name) for name, array in weights.items()]
    onnx.save(onnx.helper.make_model(onnx.helper.make_graph([], "g", [], [], tensors)), tmp_path / "m.onnx")
    seen = formats.inspect(tmp_path / "m.onnx")
    nothing = {"int8": 0, "int4": 0}  # no node uses the matrix
    assert {"float16": 1 << 20, "bfloat16": 1 << 20, "float32": -6, "int32": 1 << 20, **nothing} == seen.savings
    assert seen.savings == seen.to_json()["savings"]
    lines = commands.run("formats", "inspect", tmp_path / "m.onnx").stdout.splitlines()
    assert "note: --dtype float16 or bfloat16 saves up to 1.0 MB" in lines
    assert "note: --int32 saves up to 1.0 MB" in lines
