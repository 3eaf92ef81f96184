"""Weights that are integers in blocks become float32s again, with the numbers that onnxruntime computes with."""

from __future__ import annotations

import os
import tracemalloc
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnxruntime.quantization.matmul_nbits_quantizer import DefaultWeightOnlyQuantConfig, MatMulNBitsQuantizer

import formats
from formats.tensordata.file import File
from formats.tensordata.sources import block_dequantization
from formats.tensordata.sources.block_dequantization import DequantizedMatrix, Numbers
from formats.tensordata.sources.block_quantization import STRIP_FLOATS, MadeInSteps
from formats.tensordata.sources.source import FileSpan
from tests.editing.element_types.test_weight_quantization import IDS, embedding, made, operators, quantized, run

if TYPE_CHECKING:
    from pathlib import Path

Array = np.ndarray[Any, Any]
FLOAT = TensorProto.FLOAT
NO_INPUTS: dict[str, Array] = {}
rng = np.random.default_rng(11)


def model_of(node: onnx.NodeProto, constants: dict[str, Array | onnx.TensorProto], dims: list[Any]) -> onnx.ModelProto:
    """A model with one node, whose first input that is no constant is the input of the model, if there is one."""
    weights = []
    for name, value in constants.items():
        tensor = onnx.TensorProto()
        tensor.CopyFrom(value if isinstance(value, onnx.TensorProto) else numpy_helper.from_array(value, name))
        tensor.name = name
        weights.append(tensor)
    kind = FLOAT if node.op_type == "MatMulNBits" else TensorProto.INT64
    inputs = [helper.make_tensor_value_info(name, kind, None) for name in node.input if name and name not in constants]
    graph = helper.make_graph([node], "g", inputs, [helper.make_tensor_value_info("y", FLOAT, dims)], weights)
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


def back(proto: onnx.ModelProto, **options: Any) -> onnx.ModelProto:
    """The model in float32."""
    return onnx.load_from_string(formats.dumps(formats.from_onnx(proto), "onnx", dtype="float32", **options))


def weight_of(proto: onnx.ModelProto) -> Array:
    """The one weight of a model."""
    (tensor,) = proto.graph.initializer
    array: Array = numpy_helper.to_array(tensor)
    return array


def product(rows: int, columns: int, size: int, bits: int, zeros: str, **more: Any) -> onnx.ModelProto:
    """A MatMulNBits of random integers, with zero points that are packed, floats, or none."""
    count = -(-rows // size)
    constants: dict[str, Any] = {
        "w": rng.integers(0, 256, (columns, count, size * bits // 8), "uint8"),
        "s": rng.standard_normal((columns, count)).astype("float32"),
        "z": rng.integers(0, 256, (columns, -(-count * bits // 8)), "uint8"),
        "g": np.zeros(rows, "int32"),
        "b": rng.standard_normal(columns).astype("float32"),
    }
    if zeros == "floats":
        constants["z"] = (rng.standard_normal((columns, count)) * 3).astype("float32")
    names = ["a", "w", "s", "z" if zeros else "", more.pop("groups", ""), more.pop("bias", "")]
    attributes = {"K": rows, "N": columns, "block_size": size, "bits": bits} | more.pop("attributes", {})
    node = helper.make_node("MatMulNBits", names, ["y"], name="m", domain="com.microsoft", **attributes)
    return model_of(node, {name: constants[name] for name in names[1:] if name}, ["n", columns])


@pytest.mark.parametrize("zeros", ["", "packed", "floats"])
@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("size", [(64, 8, 32), (100, 7, 32), (33, 3, 16), (80, 5, 16), (16, 1, 16)])
def test_products(size: tuple[int, int, int], bits: int, zeros: str) -> None:
    """A product has the weight that onnxruntime multiplies with, whatever the last block and byte hold."""
    proto = product(*size, bits, zeros)
    new = back(proto)
    assert operators(new) == ["MatMul"]
    weight = weight_of(new)
    if bits != 4 and zeros == "floats":  # which onnxruntime does not run
        assert weight.shape == size[:2]
        return
    # One row at a time, so that nothing is added up.
    wanted = run(proto, {"a": np.eye(size[0], dtype="float32")})
    np.testing.assert_allclose(weight, wanted, rtol=1e-6, atol=1e-6 * np.abs(wanted).max())


@pytest.mark.parametrize("bias", ["", "b"])
@pytest.mark.parametrize("level", [0, 4])
def test_bias_and_accuracy(bias: str, level: int) -> None:
    """A bias is added behind the product; whatever accuracy was allowed, the product is one of float32s."""
    proto = product(64, 8, 32, 4, "packed", bias=bias, attributes={"accuracy_level": level})
    new = back(proto)
    assert operators(new) == ["MatMul", "Add"][: 1 + bool(bias)]
    inputs = {"a": rng.standard_normal((3, 64)).astype("float32")}
    wanted = run(proto, inputs)
    np.testing.assert_allclose(run(new, inputs), wanted, atol=(0.03 if level else 1e-5) * np.abs(wanted).max())


@pytest.mark.parametrize("has_zeros", [True, False])
@pytest.mark.parametrize(
    ("kind", "bits", "axes"),
    [
        ("INT4", None, (0, 1)),
        ("UINT4", None, (0, 1)),
        ("UINT4", None, (1, 0)),
        ("INT4", 4, (-2, -1)),
        ("UINT8", 8, (0, 1)),
        ("UINT8", 4, (0, -1)),
        ("UINT8", 2, (0, 1)),
    ],
)
def test_tables(kind: str, bits: int | None, axes: tuple[int, int], *, has_zeros: bool) -> None:
    """A table has the rows that onnxruntime chooses, from each form of its integers."""
    dims = (6, 80) if axes[1] % 2 else (80, 6)
    blocks = [dims[0], 5] if axes[1] % 2 else [5, dims[1]]
    packed = 8 // (bits or 8) if kind == "UINT8" else 1

    def integers(dims: list[int]) -> Any:
        if kind == "UINT8":
            return rng.integers(0, 256, [*dims[:-1], -(-dims[-1] // packed)], "uint8")
        data = rng.integers(0, 256, (np.prod(dims) + 1) // 2, "uint8")
        return helper.make_tensor("", getattr(TensorProto, kind), dims, data.tobytes(), raw=True)

    constants = {"w": integers([*dims]), "s": rng.standard_normal(blocks).astype("float32"), "z": integers(blocks)}
    names = ["w", "i", "s", "z"][: 3 + has_zeros]
    node = helper.make_node(
        "GatherBlockQuantized", names, ["y"], domain="com.microsoft",
        gather_axis=axes[0], quantize_axis=axes[1], block_size=16, **({} if bits is None else {"bits": bits}),
    )  # fmt: skip
    proto = model_of(node, {name: constants[name] for name in names if name != "i"}, [None, None])
    new = back(proto)
    assert operators(new) == ["Gather"]
    inputs = {"i": np.arange(dims[axes[0]])}
    np.testing.assert_array_equal(run(new, inputs), run(proto, inputs))
    np.testing.assert_array_equal(weight_of(new), run(proto, inputs))


@pytest.mark.parametrize("has_zeros", [True, False])
@pytest.mark.parametrize("kind", ["INT4", "UINT4", "INT8", "UINT8"])
@pytest.mark.parametrize(
    ("dims", "axis"), [([33, 5], 0), ([5, 33], 1), ([33, 3, 5], 0), ([3, 5, 33], -1), ([33], 0), ([48], -1)]
)
def test_matrices(dims: list[int], axis: int, kind: str, *, has_zeros: bool) -> None:
    """What DequantizeLinear makes in blocks along the first or last axis is a weight, with the name of its output."""
    blocks = [*dims]
    blocks[axis] = 3
    number = getattr(TensorProto, kind)

    def integers(dims: list[int]) -> onnx.TensorProto:
        data = rng.integers(0, 256, (np.prod(dims) * int(kind[-1]) + 7) // 8, "uint8")
        return helper.make_tensor("", number, dims, data.tobytes(), raw=True)

    constants = {"w": integers(dims), "s": rng.standard_normal(blocks).astype("float32"), "z": integers(blocks)}
    names = ["w", "s", "z"][: 2 + has_zeros]
    node = helper.make_node("DequantizeLinear", names, ["x"], axis=axis, block_size=16)
    proto = model_of(node, {name: constants[name] for name in names}, dims)
    proto.graph.node.append(helper.make_node("Neg", ["x"], ["y"]))
    new = back(proto)
    onnx.checker.check_model(new, full_check=True)
    assert operators(new) == ["Neg"]
    assert new.graph.initializer[0].name == "x"
    np.testing.assert_array_equal(run(new, NO_INPUTS), run(proto, NO_INPUTS))


def test_an_output_of_the_graph() -> None:
    """A matrix that is an output of the graph is still one."""
    constants = {"w": rng.integers(0, 256, (5, 32), "uint8"), "s": np.ones((5, 2), "float32")}
    node = helper.make_node("DequantizeLinear", ["w", "s"], ["y"], axis=1, block_size=16)
    proto = model_of(node, constants, [5, 32])
    np.testing.assert_array_equal(run(back(proto), NO_INPUTS), run(proto, NO_INPUTS))


def test_there_and_back(tmp_path: Path) -> None:
    """What onnxruntime's quantiser wrote comes back under the old names, and the report says how much it is."""
    config = DefaultWeightOnlyQuantConfig(
        block_size=32, is_symmetric=False, accuracy_level=4, op_types_to_quantize=("MatMul", "Gather")
    )
    quantizer = MatMulNBitsQuantizer(made(), algo_config=config)
    quantizer.process()
    theirs = quantizer.model.model
    onnx.save(theirs, tmp_path / "m.onnx")
    text = str(formats.convert(tmp_path / "m.onnx", tmp_path / "new.onnx", dtype="float32"))
    assert "4 weights in blocks of integers became float32" in text
    assert "GatherBlockQuantized x 1, MatMulNBits x 3" in text
    new = onnx.load(tmp_path / "new.onnx")
    assert operators(new) == operators(made())
    assert {tensor.name for tensor in new.graph.initializer} == {tensor.name for tensor in made().graph.initializer}
    wanted = run(theirs)
    np.testing.assert_allclose(run(new), wanted, atol=0.02 * np.abs(wanted).max())
    assert "in blocks" not in str(formats.convert(tmp_path / "new.onnx", tmp_path / "b.onnx", dtype="float32"))


@pytest.mark.parametrize("type_name", ["int4", "uint4", "int8", "uint8"])
def test_plain_onnx_comes_back(type_name: str) -> None:
    """Weights of plain ONNX become what onnx's evaluator computes with, and rows are chosen from a table of floats."""
    proto = embedding(IDS["ids"])
    small = quantized(proto, type_name)
    new = back(small)
    assert operators(new) == operators(proto)
    wanted = ReferenceEvaluator(small).run(None, IDS)[0]
    np.testing.assert_allclose(ReferenceEvaluator(new).run(None, IDS)[0], wanted, rtol=1e-5, atol=1e-4)
    small.graph.output.append(helper.make_tensor_value_info("table_scales_rows", FLOAT, [3, 3]))
    assert operators(back(small)).count("Gather") == 2


@pytest.mark.parametrize("type_name", ["int4", "uint4", "int8", "uint8"])
def test_ours_come_back(type_name: str) -> None:
    """The results stay exactly the same; so they do from float16, but for the rounding of other numbers."""
    small = quantized(made(), type_name, runtime="onnxruntime")
    np.testing.assert_array_equal(run(back(small)), run(small))
    half = quantized(made(), type_name, runtime="onnxruntime", dtype="float16")
    assert operators(back(half)) == operators(back(small))
    wanted = run(small)
    np.testing.assert_allclose(run(back(half)), wanted, atol=0.02 * np.abs(wanted).max())


def test_integers_stay_if_others_become_integers() -> None:
    """With `weights_dtype`, which asks for integers, those that are there stay; float16 leaves them, too."""
    small = quantized(made(), "int4", runtime="onnxruntime", keep=["Gather"])
    again = back(small, weights_dtype="int4", runtime="onnxruntime")
    assert operators(again) == ["GatherBlockQuantized", *operators(small)[1:]]
    half = onnx.load_from_string(formats.dumps(formats.from_onnx(small), "onnx", dtype="float16"))
    assert "MatMulNBits" in operators(half)


def test_what_stays(tmp_path: Path) -> None:
    """Nodes stay that are kept, have groups, or parts that are no constants, that are packed, or that do not fit."""
    small = quantized(made(), "int4", runtime="onnxruntime")
    kept = back(small, keep=["head", "GatherBlockQuantized"])
    assert operators(kept) == ["GatherBlockQuantized", "MatMul", "MatMulNBits", "Add", "MatMul", "MatMul"]
    cases = {
        "with g_idx": product(64, 8, 32, 4, "packed", groups="g"),
        "packed for one processor": product(64, 8, 32, 4, "", attributes={"weight_prepacked": 1}),
        "whose integers, scales and zero points": product(64, 8, 32, 4, "", attributes={"K": 128}),
        "fit each other": product(64, 8, 32, 4, "", attributes={"bits": 3}),
    }
    given = product(64, 8, 32, 4, "")
    given.graph.input.append(helper.make_tensor_value_info("w", TensorProto.UINT8, [8, 2, 16]))
    middle = helper.make_node("DequantizeLinear", ["w", "s"], ["y"], axis=1, block_size=16)
    constants = {"w": np.zeros((2, 32, 2), "int8"), "s": np.ones((2, 2, 2), "float32")}
    cases |= {"are no constants": given, "in the middle": model_of(middle, constants, [2, 32, 2])}
    for words, proto in cases.items():
        onnx.save(proto, tmp_path / "m.onnx")
        report = formats.convert(tmp_path / "m.onnx", tmp_path / "new.onnx", dtype="float32", overwrite=True)
        assert "nodes whose weights stay integers: 1 " in str(report)
        assert words in str(report)
        assert operators(onnx.load(tmp_path / "new.onnx")) == operators(proto)


def test_shared_weights_and_branches() -> None:
    """Products that share their integers share a weight; a product in a branch uses that of the graph around it."""
    proto = product(64, 8, 32, 4, "packed")
    (node,) = proto.graph.node
    inner = onnx.NodeProto()
    inner.CopyFrom(node)
    inner.output[0] = "inner_y"
    branches = {}
    for name in ("then_branch", "else_branch"):
        ends = [helper.make_tensor_value_info("inner_y", FLOAT, None)]
        branches[name] = helper.make_graph([inner], name, [], ends)
    proto.graph.node.append(helper.make_node("If", ["c"], ["other"], **branches))
    proto.graph.input.append(helper.make_tensor_value_info("c", TensorProto.BOOL, []))
    proto.graph.output.append(helper.make_tensor_value_info("other", FLOAT, None))
    new = back(proto)
    assert len(new.graph.initializer) == 1
    inputs = {"a": rng.standard_normal((3, 64)).astype("float32"), "c": np.array(True)}
    sessions = [
        onnxruntime.InferenceSession(each.SerializeToString(), providers=["CPUExecutionProvider"])
        for each in (proto, new)
    ]
    wanted, found = (session.run(None, inputs) for session in sessions)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


def test_a_block_that_is_longer_than_the_matrix() -> None:
    """A block may be longer than the matrix, however long it says that it is."""
    constants = {"w": rng.integers(0, 256, (5, 7), "uint8"), "s": np.full((5, 1), 2.0, "float32")}
    node = helper.make_node("DequantizeLinear", ["w", "s"], ["y"], axis=1, block_size=2**40)
    np.testing.assert_array_equal(weight_of(back(model_of(node, constants, [5, 7]))), constants["w"] * 2.0)


def test_any_piece_is_read() -> None:
    """The floats are made a piece at a time, and any range of them is the same."""
    model = formats.from_onnx(product(3000, 1501, 16, 4, "packed"))
    (weight,) = formats.to_dtype(model, "float32").graph.initializer
    source = weight.source()
    assert isinstance(source, MadeInSteps)
    whole = source.read()
    assert len(whole) == source.nbytes == 3000 * 1501 * 4
    assert 0 < source.granule_bytes < source.nbytes
    step = source.granule_bytes
    assert b"".join(source.read(start, min(step, len(whole) - start)) for start in range(0, len(whole), step)) == whole
    assert source.slice(step - 7, 100).read() == whole[step - 7 : step + 93]
    assert run(back(product(64, 8, 32, 4, "")), {"a": np.eye(64, dtype="float32")}).shape == (64, 8)


@pytest.mark.parametrize("most", [1, 3, 20, 1000])
def test_parts_of_rows(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row that is longer than what is made at once comes in parts, even where these share a byte."""
    for name in ("STEP_FLOATS", "STRIP_FLOATS", "PIECE_FLOATS"):
        monkeypatch.setattr(block_dequantization, name, most)
    for bits in (2, 4, 8):
        test_products((33, 3, 16), bits, "packed")
        test_tables("UINT8", bits, (0, 1), has_zeros=True)
    for kind in ("INT4", "UINT8"):
        for dims, axis in (([33, 5], 0), ([5, 33], 1)):
            test_matrices(dims, axis, kind, has_zeros=True)


LONG = 1 << 24


@pytest.mark.parametrize(
    "source",
    [
        lambda data, one: DequantizedMatrix((1, LONG), data, one._replace(row=LONG), None, 0, 32, 0, is_turned=False),
        lambda data, one: DequantizedMatrix((1, LONG), data, one, None, 0, LONG, 1, is_turned=False),
        lambda data, one: DequantizedMatrix((2, 1), data, one, None, 8, LONG, 1, is_turned=True),
        lambda data, one: DequantizedMatrix((LONG, 1), data, one, None, 8, LONG, 1, is_turned=True),
    ],
    ids=["a long row", "a long block", "a block with little in it", "a long column"],
)
def test_memory_is_bounded(source: Any, tmp_path: Path) -> None:
    """However long rows and blocks are, about as much is made at once as of others."""
    path = tmp_path / "data"
    path.touch()
    os.truncate(path, 4 * LONG)
    span = FileSpan(File.open(path), 0, 4 * LONG)
    matrix = source(Numbers(span.slice(0, LONG // 2), 4, LONG), Numbers(span, 32, 1))
    buffer = memoryview(bytearray(min(matrix.nbytes, 1 << 16)))
    tracemalloc.start()
    try:
        matrix.readinto(matrix.nbytes - len(buffer), buffer)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 16 * STRIP_FLOATS


OPERATORS = [("MatMulNBits", "com.microsoft"), ("GatherBlockQuantized", "com.microsoft"), ("DequantizeLinear", "")]
ATTRIBUTES = ["K", "N", "bits", "block_size", "axis", "gather_axis", "quantize_axis", "weight_prepacked"]
NUMBERS = [-(2**40), -2, -1, 0, 1, 2, 4, 7, 8, 16, 32, 2**40]


@pytest.mark.parametrize("seed", range(60))
def test_broken_nodes(seed: int) -> None:
    """Whatever inputs, outputs and attributes a node has, weights of the right size come out, or our own errors."""
    random = np.random.default_rng(seed)
    types = [TensorProto.INT4, TensorProto.UINT4, TensorProto.UINT8, TensorProto.INT8, FLOAT, TensorProto.INT64]
    weights = []
    for name in "abcd":
        dims = [int(size) for size in random.choice([0, 1, 2, 16, 32], random.integers(0, 4))]
        kind = types[random.integers(len(types))]
        bits = {TensorProto.INT4: 4, TensorProto.UINT4: 4, FLOAT: 32, TensorProto.INT64: 64}.get(kind, 8)
        data = bytes((int(np.prod(dims)) * bits + 7) // 8)
        weights.append(helper.make_tensor(name, kind, dims, data, raw=True))
    op_type, domain = OPERATORS[seed % 3]
    inputs = [str(name) for name in random.choice([*"abcd", "x", ""], random.integers(0, 7))]
    attributes = {name: int(random.choice(NUMBERS)) for name in ATTRIBUTES if random.random() < 0.7}
    node = helper.make_node(op_type, inputs, ["r"][: random.integers(0, 2)], domain=domain, **attributes)
    ends = [helper.make_tensor_value_info(name, FLOAT, [1]) for name in "xy"]
    described = [helper.make_tensor_value_info("r", FLOAT, None)]
    nodes = [node, helper.make_node("Identity", ["x"], ["y"])]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], weights, value_info=described)
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    proto = helper.make_model(graph, opset_imports=imports, ir_version=10)
    try:
        new = back(proto)
    except formats.FormatError:
        return
    for tensor in new.graph.initializer:
        assert numpy_helper.to_array(tensor).size == np.prod(tensor.dims, dtype=int)
