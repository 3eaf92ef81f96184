"""Multiply-accumulates against numbers worked out by hand, and types and dims of all values against those of onnx."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import formats
from tests.commands import run

FLOAT, INT8, UINT8 = TensorProto.FLOAT, TensorProto.INT8, TensorProto.UINT8
MICROSOFT = "com.microsoft"


def value(name: str, dims: Any, elem_type: int = FLOAT) -> onnx.ValueInfoProto:
    """A described value."""
    return helper.make_tensor_value_info(name, elem_type, dims)


def saved(path: Path, nodes: list[Any], inputs: list[Any], **more: Any) -> Path:
    """A file with a model of these nodes, whose outputs are those of the last node, without types."""
    outputs = [onnx.ValueInfoProto(name=name) for name in nodes[-1].output if name]
    graph = helper.make_graph(
        nodes, "g", inputs, outputs, more.pop("weights", []), value_info=more.pop("described", [])
    )
    sets = [helper.make_opsetid("", more.pop("opset", 24)), helper.make_opsetid(MICROSOFT, 1)]
    sets += [helper.make_opsetid("own", 1)]
    onnx.save(helper.make_model(graph, opset_imports=sets, ir_version=10, **more), path)
    return path


# An operator, the dims of its inputs (integers: of that type), its attributes, and the count.
CASES: list[tuple[str, list[Any], dict[str, Any], int]] = [
    ("Conv", [(1, 4, 8, 8), (6, 4, 3, 3)], {"pads": [1, 1, 1, 1]}, 6 * 8 * 8 * 4 * 3 * 3),
    ("Conv", [(2, 4, 9, 9), (6, 2, 3, 3), (6,)], {"group": 2, "strides": [2, 2]}, 2 * 6 * 4 * 4 * 2 * 9),
    ("Conv", [(1, 4, 20), (4, 1, 5)], {"group": 4, "dilations": [2]}, 4 * 12 * 5),
    ("Conv", [(1, 2, 4, 4, 4), (3, 2, 2, 2, 2)], {}, 3 * 27 * 2 * 8),
    ("ConvTranspose", [(1, 4, 5, 5), (4, 3, 2, 2)], {"strides": [2, 2]}, 4 * 25 * 3 * 4),
    ("ConvTranspose", [(1, 4, 5, 5), (4, 3, 2, 2)], {"group": 2}, 4 * 25 * 3 * 4),
    ("MatMul", [(3, 5, 7), (7, 4)], {}, 3 * 5 * 4 * 7),
    ("MatMul", [(2, 1, 5, 7), (3, 7, 4)], {}, 2 * 3 * 5 * 4 * 7),
    ("MatMul", [(7,), (7, 4)], {}, 4 * 7),
    ("MatMul", [(7,), (7,)], {}, 7),
    ("Gemm", [(5, 7), (7, 4), (4,)], {}, 5 * 4 * 7),
    ("Gemm", [(7, 5), (4, 7)], {"transA": 1, "transB": 1}, 5 * 4 * 7),
    ("LSTM", [(6, 2, 3), (1, 20, 3), (1, 20, 5)], {"hidden_size": 5}, 6 * 2 * 20 * (3 + 5)),
    (
        "GRU",
        [(6, 2, 3), (2, 15, 3), (2, 15, 5)],
        {"hidden_size": 5, "direction": "bidirectional"},
        6 * 2 * 2 * 15 * (3 + 5),
    ),
    ("RNN", [(2, 6, 3), (1, 5, 3), (1, 5, 5)], {"hidden_size": 5, "layout": 1}, 6 * 2 * 5 * (3 + 5)),
    ("Attention", [(2, 4, 6, 8), (2, 4, 9, 8), (2, 4, 9, 10)], {}, 2 * 4 * 6 * 9 * (8 + 10)),
    (
        "Attention",
        [(2, 6, 32), (2, 9, 16), (2, 9, 20)],
        {"q_num_heads": 4, "kv_num_heads": 2},
        2 * 4 * 6 * 9 * (8 + 10),
    ),
    (
        "Attention",
        [(2, 4, 1, 8), (2, 4, 1, 8), (2, 4, 1, 8), None, (2, 4, 9, 8), (2, 4, 9, 8)],
        {},
        2 * 4 * 1 * 10 * (8 + 8),
    ),
    ("Einsum", [(2, 5, 7), (2, 7, 4)], {"equation": "bij, bjk -> bik"}, 2 * 5 * 7 * 4),
    ("Einsum", [(3, 2, 5, 7), (2, 7, 4)], {"equation": "...ij,...jk->...ik"}, 3 * 2 * 5 * 7 * 4),
    ("Einsum", [(5, 7), (7, 4), (4, 3)], {"equation": "ij,jk,kl->il"}, 2 * 5 * 7 * 4 * 3),
    ("Einsum", [(5, 5)], {"equation": "ii->i"}, 0),
    ("Relu", [(5, 5)], {}, 0),
    ("Mul", [(5, 5), (5, 5)], {}, 0),
]


@pytest.mark.parametrize(("operator", "shapes", "attributes", "count"), CASES)
def test_operators_count_what_they_multiply(
    operator: str, shapes: list[Any], attributes: dict[str, Any], count: int, tmp_path: Path
) -> None:
    """Each operator counts as its definition multiplies and adds; those on single elements do not count."""
    inputs = [value(f"i{index}", dims) for index, dims in enumerate(shapes) if dims is not None]
    names = ["" if dims is None else f"i{index}" for index, dims in enumerate(shapes)]
    path = saved(tmp_path / "m.onnx", [helper.make_node(operator, names, ["y"], **attributes)], inputs)
    macs = formats.inspect(path, macs=True).macs
    assert macs is not None
    assert ({operator: count} if operator not in ("Relu", "Mul") else {}, count, ()) == (
        macs.operators,
        macs.total,
        macs.uncounted,
    )


def test_quantised_forms_count_as_the_others(tmp_path: Path) -> None:
    """ConvInteger, QLinearConv, MatMulInteger and QLinearMatMul count as Conv and MatMul do, and QDQ as Conv."""
    scale = [value("s", []), value("z", [], UINT8), value("zw", [], INT8)]
    inputs = [value("x", (1, 4, 8, 8), UINT8), value("w", (6, 4, 3, 3), INT8), value("a", (3, 7), UINT8)]
    inputs += [value("b", (7, 5), INT8), *scale]
    nodes = [
        helper.make_node("ConvInteger", ["x", "w"], ["c1"]),
        helper.make_node("QLinearConv", ["x", "s", "z", "w", "s", "zw", "s", "z"], ["c2"]),
        helper.make_node("MatMulInteger", ["a", "b"], ["m1"]),
        helper.make_node("QLinearMatMul", ["a", "s", "z", "b", "s", "zw", "s", "z"], ["m2"]),
        helper.make_node("DequantizeLinear", ["x", "s", "z"], ["xf"]),
        helper.make_node("DequantizeLinear", ["w", "s", "zw"], ["wf"]),
        helper.make_node("Conv", ["xf", "wf"], ["y"]),
    ]
    macs = formats.inspect(saved(tmp_path / "m.onnx", nodes, inputs, opset=20), macs=True).macs
    assert macs is not None
    conv, matmul = 6 * 36 * 36, 3 * 7 * 5
    quantised = {"ConvInteger": conv, "QLinearConv": conv, "MatMulInteger": matmul, "QLinearMatMul": matmul}
    assert {"Conv": conv, **quantised} == macs.operators


def test_operators_of_onnxruntime_count(tmp_path: Path) -> None:
    """The forms that onnxruntime's optimizers write count if their shapes are known; others are named."""
    inputs = [
        value("x", (2, 6, 8)),
        value("w", (8, 24)),
        value("b", (24,)),
        value("q", (2, 6, 8)),
        value("p", (4, 2, 4), UINT8),
    ]
    nodes = [
        helper.make_node("Attention", ["x", "w", "b"], ["a"], domain=MICROSOFT, num_heads=2),
        helper.make_node("MultiHeadAttention", ["q", "x", "x"], ["m"], domain=MICROSOFT, num_heads=2),
        helper.make_node("MatMulNBits", ["x", "p", "s"], ["n"], domain=MICROSOFT, K=8, N=4, bits=4, block_size=16),
        helper.make_node("FastGelu", ["x"], ["g"], domain=MICROSOFT),
        helper.make_node("GroupQueryAttention", ["x"], ["gq"], domain=MICROSOFT),
        helper.make_node("Mine", ["x"], ["y"], domain="own", name="mine"),
    ]
    macs = formats.inspect(saved(tmp_path / "m.onnx", nodes, [*inputs, value("s", (4, 1))]), macs=True).macs
    assert macs is not None
    attended = 2 * 6 * 6 * (8 + 8)
    assert {
        "com.microsoft.Attention": 2 * 6 * 8 * 24 + attended,
        "com.microsoft.MultiHeadAttention": attended,
        "com.microsoft.MatMulNBits": 2 * 6 * 8 * 4,
    } == macs.operators
    assert ["com.microsoft.GroupQueryAttention", "own.Mine"] == [node.operator for node in macs.uncounted]
    assert ("mine", "no rule for this operator") == (macs.uncounted[1].node, macs.uncounted[1].reason)


def body(name: str, inner: str) -> onnx.GraphProto:
    """A branch that multiplies the outer value `x` with an outer matrix."""
    node = helper.make_node("MatMul", ["x", inner], [f"{name}_y"])
    return helper.make_graph([node], name, [], [onnx.ValueInfoProto(name=f"{name}_y")])


def test_subgraphs_and_functions_count_as_often_as_they_run(tmp_path: Path) -> None:
    """Of an If, the larger branch counts; a Loop and a Scan count their rounds if known; a function, each call."""
    inputs = [value("x", (3, 7)), value("a", (7, 5)), value("b", (7, 9)), value("c", [], TensorProto.BOOL)]
    loop = helper.make_graph(
        [helper.make_node("MatMul", ["x", "a"], ["l"]), helper.make_node("Identity", ["go"], ["go_on"])],
        "loop",
        [value("round", [], TensorProto.INT64), value("go", [], TensorProto.BOOL)],
        [value("go_on", [], TensorProto.BOOL), onnx.ValueInfoProto(name="l")],
    )
    scan = helper.make_graph(
        [helper.make_node("MatMul", ["row", "a"], ["r"])], "scan", [value("row", (7,))], [value("r", (5,))]
    )
    nodes = [
        helper.make_node("If", ["c"], ["i"], then_branch=body("t", "a"), else_branch=body("e", "b")),
        helper.make_node("Loop", ["rounds", ""], ["o"], body=loop),
        helper.make_node("Scan", ["x"], ["s"], body=scan, num_scan_inputs=1),
        helper.make_node("Twice", ["x", "a"], ["f"], domain="own"),
        helper.make_node("Loop", ["open", ""], ["o2"], body=loop, name="endless"),
    ]
    twice = helper.make_function(
        "own",
        "Twice",
        ["p", "q"],
        ["r"],
        [helper.make_node("MatMul", ["p", "q"], ["m"]), helper.make_node("Relu", ["m"], ["r"])],
        [helper.make_opsetid("", 24)],
    )
    inputs += [value("open", [], TensorProto.INT64)]
    weights = [numpy_helper.from_array(np.array(4), "rounds")]
    macs = formats.inspect(
        saved(tmp_path / "m.onnx", nodes, inputs, weights=weights, functions=[twice]), macs=True
    ).macs
    assert macs is not None
    assert 3 * 7 * 9 + 4 * 3 * 7 * 5 + 3 * 7 * 5 + 3 * 7 * 5 + 3 * 7 * 5 == macs.total
    assert [("endless", "Loop")] == [node[:2] for node in macs.uncounted]


@pytest.mark.parametrize("rounds", [np.inf, np.nan, 3.0, "3"])
def test_a_number_of_rounds_that_is_no_integer_is_not_known(rounds: Any, tmp_path: Path) -> None:
    """A Loop whose number of rounds is infinite, a float or a text is told, and one round of it counts."""
    loop = helper.make_graph(
        [helper.make_node("MatMul", ["x", "a"], ["l"]), helper.make_node("Identity", ["go"], ["go_on"])],
        "loop",
        [value("round", [], TensorProto.INT64), value("go", [], TensorProto.BOOL)],
        [value("go_on", [], TensorProto.BOOL), onnx.ValueInfoProto(name="l")],
    )
    nodes = [helper.make_node("Loop", ["rounds", ""], ["o"], body=loop, name="loop")]
    kind = TensorProto.STRING if isinstance(rounds, str) else FLOAT
    weights = [helper.make_tensor("rounds", kind, [], [rounds])]
    path = saved(tmp_path / "m.onnx", nodes, [value("x", (3, 7)), value("a", (7, 5))], weights=weights)
    macs = formats.inspect(path, macs=True).macs
    assert macs is not None
    assert (3 * 7 * 5, [("loop", "Loop")]) == (macs.total, [node[:2] for node in macs.uncounted])


def test_loops_in_loops_that_nobody_can_run_are_left_out(tmp_path: Path) -> None:
    """Rounds of rounds are told, and not counted, if they are more than any machine computes."""
    nodes = [helper.make_node("MatMul", ["x", "a"], ["l0"])]
    for depth in range(3):
        loop = helper.make_graph(
            [*nodes, helper.make_node("Identity", [f"go{depth}"], [f"go_on{depth}"])],
            "loop",
            [value(f"round{depth}", [], TensorProto.INT64), value(f"go{depth}", [], TensorProto.BOOL)],
            [value(f"go_on{depth}", [], TensorProto.BOOL), onnx.ValueInfoProto(name=f"l{depth}")],
        )
        nodes = [helper.make_node("Loop", ["rounds", ""], [f"l{depth + 1}"], body=loop, name=f"loop{depth}")]
    weights = [numpy_helper.from_array(np.array((1 << 63) - 1), "rounds")]
    path = saved(tmp_path / "m.onnx", nodes, [value("x", (3, 7)), value("a", (7, 5))], weights=weights)
    macs = formats.inspect(path, macs=True).macs
    assert macs is not None
    assert (0, [("loop1", "Loop", "more than any machine computes")]) == (macs.total, [*macs.uncounted])


@pytest.mark.parametrize("extension", ["onnx", "onnxz", "rten", "ort"])
def test_every_format_is_counted(extension: str, digits: Path, tmp_path: Path) -> None:
    """A model counts the same in every format, also in an archive with several models."""
    path = tmp_path / f"m.{extension}"
    formats.convert(digits, path)
    seen = formats.inspect(path, macs=True, shapes=True, dim={"batch": 2})
    assert seen.macs is not None
    assert ({"Conv": 2 * 395_136, "Gemm": 2 * 11_760}, ()) == (seen.macs.operators, seen.shape_notes)
    assert "float[2,10]" in {each.type for each in seen.values or ()}
    if extension == "onnxz":
        formats.pack([f"a={digits}", digits], tmp_path / "two.onnxz")
        both = formats.inspect(tmp_path / "two.onnxz", macs=True, dim={"batch": 2})
        assert (None, [seen.macs, seen.macs]) == (both.macs, [each.macs for each in both.models])


def test_functions_without_end_are_named(tmp_path: Path) -> None:
    """Functions that become too many nodes are not written out: their calls are named, and nothing hangs."""
    sets = [helper.make_opsetid("", 24), helper.make_opsetid("own", 1)]
    functions = [
        helper.make_function(
            "own",
            f"F{index}",
            ["p"],
            ["r"],
            [helper.make_node(f"F{index + 1}", [a], [b], domain="own") for a, b in (("p", "q"), ("q", "r"))],
            sets,
        )
        for index in range(40)
    ]
    path = saved(
        tmp_path / "m.onnx",
        [helper.make_node("F0", ["x"], ["y"], domain="own")],
        [value("x", [1])],
        functions=functions,
    )
    macs = formats.inspect(path, macs=True).macs
    assert macs is not None
    assert [("y", "own.F0", "no rule for this operator")] == [tuple(node) for node in macs.uncounted]


def test_a_function_that_calls_itself_in_a_list_of_graphs_is_told(tmp_path: Path) -> None:
    """A function that calls itself in one of several graphs of an attribute is named: by a count, and by an edit."""
    sets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    inner = helper.make_graph([helper.make_node("F", ["p"], ["i"], domain="own")], "i", [], [value("i", [1])])
    nodes = [helper.make_node("Own", ["p"], ["r"], domain="own", cases=[inner])]
    path = saved(
        tmp_path / "m.onnx",
        [helper.make_node("F", ["x"], ["y"], domain="own")],
        [value("x", [1])],
        opset=17,
        functions=[helper.make_function("own", "F", ["p"], ["r"], nodes, sets)],
    )
    macs = formats.inspect(path, macs=True).macs
    assert macs is not None
    assert [("y", "own.F", "no rule for this operator")] == [tuple(node) for node in macs.uncounted]
    with pytest.raises(formats.UnsupportedError, match="the function F calls itself"):
        formats.convert(path, tmp_path / "h.onnx", dtype="float16")


def test_missing_dims_are_named(tmp_path: Path) -> None:
    """What cannot be counted names the dims to set, and with them it is counted."""
    inputs = [value("x", ("batch", None, 7)), value("free", ("other",)), value("w", (7, 4))]
    path = saved(tmp_path / "m.onnx", [helper.make_node("MatMul", ["x", "w"], ["y"], name="n")], inputs)
    macs = formats.inspect(path, macs=True).macs
    assert macs is not None
    assert (0, [("n", "MatMul")]) == (macs.total, [node[:2] for node in macs.uncounted])
    assert ("batch", "x:1", "other") == macs.missing_dims  # a dim without a name may be any
    done = run("formats", "inspect", path, "--macs", "--dim", "batch=2", "--dim", "x:1=3", "--json")
    assert {"total": 168, "operators": {"MatMul": 168}, "uncounted": [], "missing_dims": []} == json.loads(done.stdout)[
        "macs"
    ]
    done = run("formats", "inspect", path, "--macs", "--dim", "x:1=3")
    assert "set dims to count more: --dim batch=1\n" in done.stdout
    assert "not counted: 1 node MatMul: dims are not known\n" in done.stdout


def test_dim_needs_shapes_or_macs(digits: Path) -> None:
    """A dim alone changes nothing that is shown, so it is refused; an unknown one is, too."""
    with pytest.raises(formats.OptionError, match="only with `shapes` or `macs`"):
        formats.inspect(digits, dim={"batch": 1})
    with pytest.raises(formats.EditError, match="no dim is called 'bath'"):
        formats.inspect(digits, dim={"bath": 1}, shapes=True)


@pytest.mark.parametrize(
    ("axis", "dims"), [("-1", [2, "n", 7]), ("-3", [7, "n", 3]), ("-2", [2, 7, 3]), ("2", [2, "n", 7])]
)
def test_an_axis_may_count_from_the_end(axis: str, dims: list[Any], tmp_path: Path) -> None:
    """`--dim x:-1=7` gives the last axis that size, and all values that follow from it; `-4` is no axis of three."""
    nodes = [helper.make_node("Neg", ["x"], ["m"]), helper.make_node("Transpose", ["m"], ["y"])]
    path = saved(tmp_path / "m.onnx", nodes, [value("x", [2, "n", 3])])
    done = run("formats", "inspect", path, "--shapes", "--dim", f"x:{axis}=7", "--json")
    found = {each["name"]: each["dims"] for each in json.loads(done.stdout)["values"]}
    assert found == {"x": dims, "m": dims, "y": dims[::-1]}
    done = run("formats", "inspect", path, "--shapes", "--dim", "x:-4=7")
    assert (done.exit_code, done.stderr) == (1, "formats: error: x has axes from 0 to 2, and no axis -4\n")


def test_shapes_are_those_of_onnx(digits: Path, tmp_path: Path) -> None:
    """All values are listed, with the types that onnx infers, and the model may be larger than the memory."""
    path = tmp_path / "bare.onnx"
    proto = onnx.load(digits)
    del proto.graph.value_info[:]
    onnx.save(proto, path)
    values = formats.inspect(path, shapes=True).values
    assert values is not None
    inferred = onnx.shape_inference.infer_shapes(proto).graph
    known = {info.name: info for info in (*inferred.input, *inferred.value_info, *inferred.output)}
    dims = {
        name: tuple(dim.dim_param or dim.dim_value for dim in info.type.tensor_type.shape.dim)
        for name, info in known.items()
    }
    dims |= {tensor.name: tuple(tensor.dims) for tensor in proto.graph.initializer}
    assert dims == {value.name: value.dims for value in values}
    assert {"input", "initializer", "node"} == {value.kind for value in values}
    lines = run("formats", "inspect", path, "--shapes").stdout.splitlines()
    assert "  logits             node         float[batch,10]" in lines
    report = json.loads(run("formats", "inspect", path, "--shapes", "--dim", "batch=4", "--json").stdout)
    assert [4, 10] == next(each for each in report["values"] if each["name"] == "logits")["dims"]
    assert [] == report["shape_notes"]


def test_shapes_that_nodes_compute_are_known(tmp_path: Path) -> None:
    """A shape that nodes compute of others, with operators that onnx does not follow, is known."""
    weights = [numpy_helper.from_array(np.array(array), name) for name, array in (("no", [-1, 3]), ("minus", -1))]
    nodes = [
        helper.make_node("Shape", ["x"], ["dims"]),
        helper.make_node("Equal", ["no", "minus"], ["is"]),
        helper.make_node("Where", ["is", "dims", "no"], ["wanted"]),
        helper.make_node("Expand", ["row", "wanted"], ["y"]),
    ]
    path = saved(tmp_path / "m.onnx", nodes, [value("x", (2, 3)), value("row", (1, 3))], weights=weights)
    values = formats.inspect(path, shapes=True).values
    assert values is not None
    assert {"dims": (2,), "wanted": (2,), "y": (2, 3)} == {
        each.name: each.dims for each in values if each.name in ("dims", "wanted", "y")
    }


def test_values_of_subgraphs_are_listed(tmp_path: Path) -> None:
    """A value of a subgraph has the place of its graph, and operators of onnxruntime have a type without dims."""
    inputs = [value("x", (3, 7)), value("a", (7, 5)), value("c", [], TensorProto.BOOL)]
    nodes = [
        helper.make_node("FastGelu", ["x"], ["g"], domain=MICROSOFT),
        helper.make_node("If", ["c"], ["i"], then_branch=body("t", "a"), else_branch=body("e", "a")),
    ]
    values = formats.inspect(saved(tmp_path / "m.onnx", nodes, inputs), shapes=True).values
    assert values is not None
    found = {(each.where, each.name): (each.type, each.dims) for each in values}
    assert ("float[3,5]", (3, 5)) == found['graph.node[1].attribute["then_branch"].g', "t_y"]
    assert ("float[]", None) == found["graph", "g"]


def test_without_onnx_what_the_file_says_is_listed(
    digits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the package onnx, types are those that the file states, and a note says so."""
    monkeypatch.setitem(sys.modules, "onnx", None)
    seen = formats.inspect(digits, shapes=True, macs=True)
    assert seen.values is not None
    found = {each.name: each.type for each in seen.values}
    assert ("float[batch,1,28,28]", "float[10]") == (found["image"], found["classifier.bias"])
    assert "float[batch,10]" == found["probabilities"]
    assert seen.shape_notes[0].startswith("nothing is inferred; ")
    assert "onnx" in seen.shape_notes[0]


def test_data_are_not_needed(tmp_path: Path) -> None:
    """Shapes and multiply-accumulates need no weight: the data file may be missing."""
    weight = numpy_helper.from_array(np.ones((64, 32), "float32"), "w")
    shape = numpy_helper.from_array(np.array([-1, 64]), "shape")
    nodes = [helper.make_node("Reshape", ["x", "shape"], ["r"]), helper.make_node("MatMul", ["r", "w"], ["y"])]
    path = saved(tmp_path / "m.onnx", nodes, [value("x", (2, 2, 64))], weights=[weight, shape])
    onnx.save(onnx.load(path), path, save_as_external_data=True, location="w.bin", size_threshold=1024)
    (tmp_path / "w.bin").unlink()
    macs = formats.inspect(path, macs=True).macs
    assert macs is not None
    assert 4 * 64 * 32 == macs.total


def test_the_data_of_a_shape_that_is_missing_are_told(tmp_path: Path) -> None:
    """If even a shape is in a missing data file, what follows from it is not known, and nothing fails."""
    nodes = [helper.make_node("Identity", ["shape"], ["i"]), helper.make_node("Reshape", ["x", "i"], ["y"])]
    shape = numpy_helper.from_array(np.array([-1, 64]), "shape")
    path = saved(tmp_path / "m.onnx", nodes, [value("x", (2, 2, 64))], weights=[shape])
    onnx.save(onnx.load(path), path, save_as_external_data=True, location="w.bin", size_threshold=0)
    (tmp_path / "w.bin").unlink()
    seen = formats.inspect(path, shapes=True, macs=True)
    assert seen.values is not None
    assert any("w.bin" in str(file.path) for file in seen.missing)
    assert "int64[2]" == next(each for each in seen.values if each.name == "shape").type
    assert seen.shape_notes[0].startswith("not all is inferred; the data file of m.onnx does not exist")


def test_wrong_shapes_are_corrected(tmp_path: Path) -> None:
    """A stated shape that contradicts the nodes is inferred again, and a note names it."""
    nodes = [helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Relu", ["a"], ["y"])]
    path = saved(tmp_path / "m.onnx", nodes, [value("x", (2, 3))], described=[value("a", (2, 4))])
    seen = formats.inspect(path, shapes=True)
    assert seen.values is not None
    assert (2, 3) == next(each for each in seen.values if each.name == "a").dims
    assert ("the stated shape of a was wrong, and is inferred again",) == seen.shape_notes
