"""Weights become integers in blocks as onnxruntime's quantiser does it, and each runtime computes with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnxruntime.quantization.matmul_nbits_quantizer import DefaultWeightOnlyQuantConfig, MatMulNBitsQuantizer

import formats

FLOAT = TensorProto.FLOAT
TYPES = ["int4", "uint4", "int8", "uint8"]
RUNTIMES = [None, "onnxruntime", "onnxruntime==1.19"]
rng = np.random.default_rng(7)
WEIGHTS = {
    "table": rng.standard_normal((50, 96)),
    "first": rng.standard_normal((96, 100)),
    "turned": rng.standard_normal((64, 100)),
    "bias": rng.standard_normal(64),
    "short": rng.standard_normal((64, 3)),
    "tiny": rng.standard_normal((3, 5)),
}
IDS = {"ids": np.array([4, 40, 0])}


def made(**more: Any) -> onnx.ModelProto:
    """A model with a table, a product, a Gemm, and a product that is shorter than a block."""
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["rows"], name="embed"),
        helper.make_node("MatMul", ["rows", "first"], ["a"], name="first_product"),
        helper.make_node("Gemm", ["a", "turned", "bias"], ["b"], name="head", transB=1),
        helper.make_node("MatMul", ["b", "short"], ["c"]),
        helper.make_node("MatMul", ["c", "tiny"], ["y"]),
    ]
    weights = [numpy_helper.from_array(np.asarray(array, "float32"), name) for name, array in WEIGHTS.items()]
    ends = [
        helper.make_tensor_value_info("ids", TensorProto.INT64, ["n"]),
        helper.make_tensor_value_info("y", FLOAT, ["n", 5]),
    ]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=more.pop("ir_version", 8))


def quantized(proto: onnx.ModelProto, type_name: str, **options: Any) -> onnx.ModelProto:
    """The model with weights of a type."""
    data = formats.dumps(formats.from_onnx(proto), "onnx", weights_dtype=type_name, **options)
    return onnx.load_from_string(data)


def run(proto: onnx.ModelProto, inputs: dict[str, Any] | None = None) -> np.ndarray[Any, Any]:
    """The first output, as onnxruntime computes it."""
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    output: np.ndarray[Any, Any] = session.run(None, IDS if inputs is None else inputs)[0]
    return output


def operators(proto: onnx.ModelProto) -> list[str]:
    """The operators of the main graph."""
    return [node.op_type for node in proto.graph.node]


def rounded(type_name: str, proto: onnx.ModelProto, names: dict[str, int]) -> onnx.ModelProto:
    """The model with weights that were rounded by numpy, in blocks of 32 along an axis each."""
    new = onnx.ModelProto()
    new.CopyFrom(proto)
    bits, signed = int(type_name[-1]), type_name[0] == "i"
    for tensor in new.graph.initializer:
        if tensor.name not in names:
            continue
        array = np.moveaxis(numpy_helper.to_array(tensor).astype("float64"), names[tensor.name], 0).copy()
        for start in range(0, len(array), 32):
            block = array[start : start + 32]
            least, greatest = block.min(0), block.max(0)
            if signed:
                scale = np.where(np.abs(greatest) > np.abs(least), greatest, least) / -(2 ** (bits - 1))
                zero: Any = 2 ** (bits - 1)
            else:
                least, greatest = np.minimum(least, 0), np.maximum(greatest, 0)
                scale = (greatest - least) / (2**bits - 1)
                zero = np.round(-least / scale)
            block[:] = (np.clip(np.round(block / scale + zero), 0, 2**bits - 1) - zero) * scale
        tensor.CopyFrom(
            numpy_helper.from_array(np.moveaxis(array, 0, names[tensor.name]).astype("float32"), tensor.name)
        )
    return new


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("type_name", TYPES)
def test_computes_with_the_rounded_weights(type_name: str, runtime: str | None) -> None:
    """The result is that of the model with rounded weights, in the operators of the runtime."""
    new = quantized(made(), type_name, runtime=runtime)
    axes = {"first": 0, "turned": 1, "short": 0}
    has_tables = runtime == "onnxruntime"
    wanted = run(rounded(type_name, made(), axes | ({"table": 1} if has_tables else {})))
    np.testing.assert_allclose(run(new), wanted, rtol=0.02, atol=0.02 * np.abs(wanted).max())
    has_products = has_tables or (runtime is not None and type_name.endswith("4"))
    assert operators(new).count("MatMulNBits" if has_products else "DequantizeLinear") == 3
    assert ("GatherBlockQuantized" in operators(new)) == has_tables
    assert operators(new)[-1] == "MatMul"  # with tiny, which is shorter than a block


@pytest.mark.parametrize("block", [16, 64, 128])
@pytest.mark.parametrize("type_name", ["int4", "uint4"])
def test_bytes_are_those_of_onnxruntime(type_name: str, block: int) -> None:
    """Names, dims and bytes of the weights are those of onnxruntime's own quantiser."""
    proto = made()
    del proto.graph.node[2:]
    proto.graph.output[0].name = "a"
    proto.graph.output[0].type.tensor_type.shape.dim[1].dim_value = 100
    config = DefaultWeightOnlyQuantConfig(
        block_size=block, is_symmetric=type_name == "int4", op_types_to_quantize=("MatMul", "Gather")
    )
    theirs = onnx.ModelProto()
    theirs.CopyFrom(proto)
    quantizer = MatMulNBitsQuantizer(theirs, algo_config=config)
    quantizer.process()
    wanted = {tensor.name: tensor for tensor in quantizer.model.model.graph.initializer}
    ours = quantized(proto, type_name, runtime="onnxruntime", block=block)
    found = {
        tensor.name: tensor for tensor in ours.graph.initializer if not tensor.name.startswith(("tu", "b", "s", "ti"))
    }
    if block == 128:  # the rows are shorter than a block, and stay
        assert found.keys() == {"table", "first"}
        return
    shared = found.keys() & wanted.keys()
    assert len(shared) == len(found) == (4 if type_name == "int4" else 6)
    for name in shared:
        assert found[name].data_type == wanted[name].data_type
        assert found[name].raw_data == wanted[name].raw_data, name


@pytest.mark.parametrize("type_name", TYPES)
def test_the_checker_accepts_it(type_name: str) -> None:
    """Without a runtime, the model is one of ONNX alone, which the checker accepts; the IR version rises."""
    new = quantized(made(ir_version=4), type_name)
    onnx.checker.check_model(new, full_check=True)
    assert (new.ir_version, new.opset_import[0].version) == (10, 21)


def embedding(ids: np.ndarray[Any, Any]) -> onnx.ModelProto:
    """A model with a table, whose rows are scaled before a product."""
    proto = made()
    del proto.graph.node[2:], proto.graph.input[:], proto.graph.output[:]
    proto.graph.node.insert(1, helper.make_node("Relu", ["rows"], ["scaled"]))
    proto.graph.node[2].input[0] = "scaled"
    proto.graph.input.append(helper.make_tensor_value_info("ids", TensorProto.INT64, ids.shape))
    proto.graph.output.append(helper.make_tensor_value_info("a", FLOAT, [*ids.shape, 100]))
    return proto


@pytest.mark.parametrize("type_name", TYPES)
@pytest.mark.parametrize("ids", [np.array(3), np.array([[1, -1], [0, 49]])])
def test_rows_of_plain_onnx(ids: np.ndarray[Any, Any], type_name: str) -> None:
    """Without a runtime, rows of integers are chosen, and only these become floats; they have 8 bits."""
    proto = embedding(ids)
    new = quantized(proto, type_name)
    onnx.checker.check_model(new, full_check=True)
    choices = ["Gather"] * (2 if type_name[0] == "i" else 3)
    assert operators(new) == ["DequantizeLinear", *choices, "DequantizeLinear", "Relu", "MatMul"]
    assert "table" not in [tensor.name for tensor in new.graph.initializer]
    wanted = run(rounded(type_name, rounded(f"{type_name[:-1]}8", proto, {"table": 1}), {"first": 0}), {"ids": ids})
    for found in (run(new, {"ids": ids}), ReferenceEvaluator(new).run(None, {"ids": ids})[0]):
        np.testing.assert_allclose(found, wanted, atol=0.02 * np.abs(wanted).max())


def test_rows_that_are_factors_stay(tmp_path: Path) -> None:
    """A table stays whose rows are factors of a product: onnxruntime fails if both factors are of 8 bits in blocks."""
    onnx.save(made(), tmp_path / "m.onnx")
    text = str(formats.convert(tmp_path / "m.onnx", tmp_path / "new.onnx", weights_dtype="uint8"))
    assert "1 of a table whose rows are factors of a product" in text
    onnx.save(embedding(IDS["ids"]), tmp_path / "m.onnx")
    text = str(formats.convert(tmp_path / "m.onnx", tmp_path / "new.onnx", weights_dtype="int4", overwrite=True))
    assert "1 table of these in 8 bits: Gather takes no fewer" in text


def test_keep_leaves_nodes_as_they_are() -> None:
    """Nodes that `keep` names stay, by name, operator or pattern; a name of none is an error."""
    model = formats.from_onnx(made())
    data = formats.dumps(model, "onnx", weights_dtype="int4", runtime="onnxruntime", keep=["Gather", "head*"])
    assert operators(onnx.load_from_string(data)) == ["Gather", "MatMulNBits", "Gemm", "MatMulNBits", "MatMul"]
    with pytest.raises(formats.EditError, match="no operator or node is called 'tail'"):
        formats.dumps(model, "onnx", weights_dtype="int4", keep=["tail"])
    for word in ("keep", "block"):
        with pytest.raises(formats.OptionError, match=f"`{word}` is for"):
            formats.dumps(model, "onnx", **{word: 32 if word == "block" else ["Gather"]})


def test_shared_weights() -> None:
    """A weight of two products is stored once; one that something else uses stays, too."""
    proto = made()
    del proto.graph.node[2:]
    proto.graph.node.append(helper.make_node("MatMul", ["rows", "first"], ["b"]))
    proto.graph.node.append(helper.make_node("Add", ["a", "b"], ["c"]))
    proto.graph.node.append(helper.make_node("Transpose", ["table"], ["t"]))
    proto.graph.node.append(helper.make_node("ReduceSum", ["t"], ["u"], keepdims=0))
    proto.graph.node.append(helper.make_node("Add", ["c", "u"], ["y"]))
    proto.graph.output[0].type.tensor_type.shape.dim[1].dim_value = 100
    new = quantized(proto, "int4", runtime="onnxruntime")
    names = [tensor.name for tensor in new.graph.initializer]
    assert names.count("first_Q4") == 1
    assert "first" not in names
    assert {"table", "table_Q4"} <= set(names)
    assert np.isfinite(run(new)).all()


def test_a_weight_without_columns_stays() -> None:
    """A matrix that has no element has no blocks."""
    proto = made()
    proto.graph.initializer.append(numpy_helper.from_array(np.zeros((64, 0), "float32"), "none"))
    proto.graph.node.append(helper.make_node("MatMul", ["b", "none"], ["z"]))
    proto.graph.output.append(helper.make_tensor_value_info("z", FLOAT, ["n", 0]))
    new = quantized(proto, "int4", runtime="onnxruntime")
    assert operators(new)[-1] == "MatMul"
    np.testing.assert_array_equal(run(new), run(quantized(made(), "int4", runtime="onnxruntime")))


def test_a_weight_that_is_trained_stays() -> None:
    """A weight that training changes is no constant, so its product stays as it is."""
    proto = made()
    training = proto.training_info.add()
    training.algorithm.name = "step"
    training.algorithm.node.append(helper.make_node("Neg", ["first"], ["first_new"]))
    training.algorithm.output.append(helper.make_tensor_value_info("first_new", FLOAT, [96, 100]))
    binding = training.update_binding.add()
    binding.key, binding.value = "first", "first_new"
    new = quantized(proto, "int4", runtime="onnxruntime")
    assert operators(new)[:3] == ["GatherBlockQuantized", "MatMul", "MatMulNBits"]
    assert "first" in [tensor.name for tensor in new.graph.initializer]


def test_weights_in_branches() -> None:
    """A product in a branch uses the weight of the graph around it, and one that an inner name hides stays."""
    branches = {}
    for name, right in (("then_branch", "first"), ("else_branch", "hidden")):
        nodes = [helper.make_node("MatMul", ["rows", right], [f"{name}_y"])]
        if right == "hidden":
            nodes.insert(0, helper.make_node("Identity", ["first"], ["hidden"]))
        branches[name] = helper.make_graph(nodes, name, [], [helper.make_tensor_value_info(f"{name}_y", FLOAT, None)])
    proto = made()
    del proto.graph.node[1:]
    proto.graph.node.append(helper.make_node("If", ["c"], ["y"], **branches))
    proto.graph.input.append(helper.make_tensor_value_info("c", TensorProto.BOOL, []))
    proto.graph.output[0].type.tensor_type.shape.dim[1].dim_value = 100
    for runtime in ("onnxruntime", None):
        new = quantized(proto, "int8", runtime=runtime)
        for condition in (True, False):
            inputs = {**IDS, "c": np.array(condition)}
            wanted = run(proto, inputs)
            np.testing.assert_allclose(run(new, inputs), wanted, atol=0.03 * np.abs(wanted).max())
        assert "first" in [tensor.name for tensor in new.graph.initializer]


def test_a_weight_that_is_an_input_stays() -> None:
    """A caller may replace a weight that is an input, so it stays; before IR version 4, all weights are inputs."""
    proto = made()
    proto.graph.input.append(helper.make_tensor_value_info("first", FLOAT, [96, 100]))
    assert "first" in [tensor.name for tensor in quantized(proto, "int4", runtime="onnxruntime").graph.initializer]
    proto.ir_version = 3
    new = quantized(proto, "int4", runtime="onnxruntime")
    assert [value.name for value in new.graph.input] == ["ids"]
    assert np.isfinite(run(new)).all()


def test_forms_that_stay_are_told(tmp_path: Path) -> None:
    """Products of another form stay as they are, and the report says how many of each kind, and the bytes."""
    proto = made()
    proto.graph.node[2].attribute.append(helper.make_attribute("alpha", 2.0))
    onnx.save(proto, tmp_path / "m.onnx")
    report = formats.convert(tmp_path / "m.onnx", tmp_path / "new.onnx", weights_dtype="int4", runtime="onnxruntime")
    text = str(report)
    assert "computes the same, up to rounding of weights" in text
    assert "3 weights became int4 in blocks of 32" in text
    assert "nodes that stay as they are: 1 whose weight is shorter than a block, 1 with transA, alpha or beta" in text


def test_data_files_stay_data_files(tmp_path: Path) -> None:
    """The parts of a weight in a data file are in the data file of the new model."""
    onnx.save(made(), tmp_path / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=1000)
    formats.convert(tmp_path / "m.onnx", tmp_path / "new.onnx", weights_dtype="uint4", runtime="onnxruntime")
    new = onnx.load(tmp_path / "new.onnx", load_external_data=False)
    outside = {tensor.name for tensor in new.graph.initializer if tensor.data_location == TensorProto.EXTERNAL}
    assert {"first_Q4", "table_Q4", "turned_Q4"} <= outside
    session = onnxruntime.InferenceSession(tmp_path / "new.onnx", providers=["CPUExecutionProvider"])
    np.testing.assert_array_equal(session.run(None, IDS)[0], run(quantized(made(), "uint4", runtime="onnxruntime")))


def test_with_float16() -> None:
    """With `dtype="float16"`, the scales are float16s, and both report their rounding."""
    new = quantized(made(), "int4", runtime="onnxruntime", dtype="float16")
    scales = next(tensor for tensor in new.graph.initializer if tensor.name == "first_scales")
    assert scales.data_type == TensorProto.FLOAT16
    wanted = run(quantized(made(), "int4", runtime="onnxruntime"))
    np.testing.assert_allclose(run(new), wanted, atol=0.02 * np.abs(wanted).max())


def test_what_a_runtime_lacks_is_refused(tmp_path: Path) -> None:
    """A release without such kernels, RTen with other types than int4, and a number without a scale: clear errors."""
    model = formats.from_onnx(made())
    with pytest.raises(formats.UnsupportedError, match=r"1\.16 does not compute with weights of 4 bits; 1\.17 is the"):
        formats.dumps(model, "onnx", weights_dtype="int4", runtime="onnxruntime==1.16")
    with pytest.raises(formats.UnsupportedError, match="rten computes with weights in int4, but not in int8"):
        formats.dumps(model, "onnx", weights_dtype="int8", runtime="rten")
    with pytest.raises(formats.OptionError, match="`weights_dtype` is only for ONNX formats"):
        formats.dumps(model, "rten", weights_dtype="int4")
    WEIGHTS["first"][3, 4] = np.inf
    try:
        onnx.save(made(), tmp_path / "m.onnx")
    finally:
        WEIGHTS["first"][3, 4] = 0
    with pytest.raises(formats.FormatError, match=r"the weight first has numbers .* cannot be quantised"):
        formats.convert(tmp_path / "m.onnx", tmp_path / "new.onnx", weights_dtype="int4")
    assert [path.name for path in tmp_path.iterdir()] == ["m.onnx"]


def test_rten_computes_with_int4(runtimes: dict[str, Any], tmp_path: Path) -> None:
    """RTen's own loader computes with int4 weights; what it lacks is rewritten or stays."""
    onnx.save(made(), tmp_path / "m.onnx")
    formats.convert(tmp_path / "m.onnx", tmp_path / "new.onnx", weights_dtype="int4", runtime="rten")
    new = onnx.load(tmp_path / "new.onnx")
    assert "MatMulNBits" in operators(new)
    wanted = run(rounded("int4", made(), {"first": 0, "short": 0}))
    result = [*runtimes.values()][-1].run(tmp_path / "new.onnx", IDS)
    np.testing.assert_allclose(
        next(iter(result.values())) if isinstance(result, dict) else result[0], wanted, atol=0.02 * np.abs(wanted).max()
    )
