"""What tools that import `onnx` are asked to do: jobs over one model, here those of onnx and onnxruntime themselves.

`tools.py` runs them. Each job is a function of a folder that has `model.onnx`. It returns what matters to a user of the
tool: a message, a path, arrays or a text. Each imports its tool itself, so that one that is not installed is skipped.
"""
# ruff: noqa: D103 - the names and the table in `tools.py` say what a job does

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

MESSAGES = ["onnx"]  # the package whose messages the tools get; third_parties.py of the tests changes it
LAYERS = 20
SHAPE = (1, 4, 16, 16)


def build(path: Path) -> None:
    """Write the model: convolutions with batch normalisation, and a product at the end."""
    from onnx import TensorProto, helper, numpy_helper

    rng = np.random.default_rng(0)
    weights, nodes = [], []

    def weight(name: str, *dims: int) -> str:
        weights.append(numpy_helper.from_array(rng.random(dims, dtype=np.float32) * 0.2 + 0.01, name))
        return name

    for index in range(LAYERS):
        last, own = f"x{index}", f"layer{index}"
        settings = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
        nodes.append(
            helper.make_node("Conv", [last, weight(f"{own}.w", 4, 4, 3, 3)], [f"{own}.c"], f"{own}.conv", **settings)
        )
        parts = [weight(f"{own}.{part}", 4) for part in ("scale", "bias", "mean", "var")]
        nodes.append(helper.make_node("BatchNormalization", [f"{own}.c", *parts], [f"{own}.n"], f"{own}.norm"))
        nodes.append(helper.make_node("Relu", [f"{own}.n"], [f"{own}.r"], f"{own}.relu"))
        nodes.append(helper.make_node("Identity", [f"{own}.r"], [f"x{index + 1}"], f"{own}.same"))
    nodes += [
        helper.make_node("GlobalAveragePool", [f"x{LAYERS}"], ["pooled"], "pool"),
        helper.make_node("Flatten", ["pooled"], ["flat"], "flatten"),
        helper.make_node("MatMul", ["flat", weight("w", 4, 64)], ["product"], "matmul"),
        helper.make_node("Add", ["product", weight("b", 64)], ["sum"], "add"),
        helper.make_node("Softmax", ["sum"], ["y"], "softmax"),
    ]
    graph = helper.make_graph(
        nodes,
        "tools",
        [helper.make_tensor_value_info("x0", TensorProto.FLOAT, ["n", *SHAPE[1:]])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 64])],
        weights,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path.write_bytes(model.SerializeToString())


def loaded(folder: Path) -> Any:
    return import_module(MESSAGES[0]).load(folder / "model.onnx")


def inferred(folder: Path) -> Any:
    return import_module(f"{MESSAGES[0]}.shape_inference").infer_shapes(loaded(folder))


def outputs(model: Any) -> Any:
    import onnxruntime

    data = model if isinstance(model, bytes) else model.SerializeToString()
    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    return session.run(None, {session.get_inputs()[0].name: np.ones(SHAPE, np.float32)})


class Inputs:
    """What a calibration reads."""

    def __init__(self) -> None:
        rng = np.random.default_rng(1)
        self.left = [{"x0": rng.random(SHAPE, dtype=np.float32)} for _ in range(3)]

    def get_next(self) -> dict[str, Any] | None:
        """The inputs of a run, or `None` at the end."""
        return self.left.pop() if self.left else None

    def rewind(self) -> None:
        """Nothing."""


# onnx


def checks(folder: Path) -> Any:
    import onnx

    onnx.checker.check_model(loaded(folder), full_check=True)
    return "valid"


def infers_shapes(folder: Path) -> Any:
    return inferred(folder)


def infers_with_data(folder: Path) -> Any:
    import onnx

    return onnx.shape_inference.infer_shapes(loaded(folder), True, True, True)


def converts_versions(folder: Path) -> Any:
    from onnx import version_converter

    return version_converter.convert_version(loaded(folder), 21)


def merges(folder: Path) -> Any:
    from onnx import compose

    first, second = (compose.add_prefix(loaded(folder), prefix) for prefix in ("a/", "b/"))
    second.graph.input[0].CopyFrom(first.graph.output[0])
    second.graph.input[0].name = "b/x0"
    return compose.merge_models(first, second, [("a/y", "b/x0")])


def extracts(folder: Path) -> Any:
    from onnx import utils

    utils.extract_model(folder / "model.onnx", folder / "part.onnx", ["x3"], ["x9"])
    return folder / "part.onnx"


def prints(folder: Path) -> Any:
    from onnx import printer

    return printer.to_text(loaded(folder))


def parses_text(folder: Path) -> Any:
    from onnx import parser, printer

    model = loaded(folder)
    del model.graph.initializer[:]
    return parser.parse_model(printer.to_text(model))


def prints_graphs(folder: Path) -> Any:
    from onnx import helper

    return helper.printable_graph(loaded(folder).graph)


def evaluates(folder: Path) -> Any:
    from onnx.reference import ReferenceEvaluator

    model = loaded(folder)
    return ReferenceEvaluator(model).run(None, {"x0": np.ones(SHAPE, np.float32)})


def sets_dims(folder: Path) -> Any:
    from onnx.tools.update_model_dims import update_inputs_outputs_dims

    return update_inputs_outputs_dims(loaded(folder), {"x0": [2, 4, 16, 16]}, {"y": [2, 64]})


def replaces_constants(folder: Path) -> Any:
    from onnx.tools.replace_constants import replace_initializer_by_constant_of_shape

    return replace_initializer_by_constant_of_shape(loaded(folder), threshold=16)


def moves_weights_out(folder: Path) -> Any:
    import onnx
    from onnx import external_data_helper

    model = loaded(folder)
    (folder / "w.data").unlink(missing_ok=True)  # `onnx` refuses to replace it
    external_data_helper.convert_model_to_external_data(model, location="w.data", size_threshold=0)
    onnx.save(model, folder / "out.onnx")
    return onnx.load(folder / "out.onnx")


def writes_text(folder: Path) -> Any:
    import onnx

    onnx.save(loaded(folder), folder / "out.textproto")
    return folder / "out.textproto", onnx.load(folder / "out.textproto")


# onnxruntime


def quantizes_dynamically(folder: Path) -> Any:
    from onnxruntime.quantization import quantize_dynamic

    quantize_dynamic(folder / "model.onnx", folder / "out.onnx")
    return folder / "out.onnx"


def quantizes_statically(folder: Path) -> Any:
    from onnxruntime.quantization import QuantFormat, quantize_static

    quantize_static(folder / "model.onnx", folder / "out.onnx", Inputs(), quant_format=QuantFormat.QDQ)
    return folder / "out.onnx"


def quantizes_to_operators(folder: Path) -> Any:
    from onnxruntime.quantization import QuantFormat, quantize_static

    quantize_static(folder / "model.onnx", folder / "out.onnx", Inputs(), quant_format=QuantFormat.QOperator)
    return folder / "out.onnx"


def prepares_quantization(folder: Path) -> Any:
    from onnxruntime.quantization.shape_inference import quant_pre_process

    quant_pre_process(folder / "model.onnx", folder / "out.onnx", skip_symbolic_shape=True)
    return folder / "out.onnx"


def quantizes_to_bits(folder: Path) -> Any:
    from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

    quantizer = MatMulNBitsQuantizer(loaded(folder), bits=4, block_size=16)
    quantizer.process()
    return quantizer.model.model


def quantizes_to_bnb4(folder: Path) -> Any:
    from onnxruntime.quantization.matmul_bnb4_quantizer import MatMulBnb4Quantizer

    quantizer = MatMulBnb4Quantizer(loaded(folder), 1, 16)
    quantizer.process()
    return quantizer.model.model


def infers_symbols(folder: Path) -> Any:
    from onnxruntime.tools.symbolic_shape_infer import SymbolicShapeInference

    return SymbolicShapeInference.infer_shapes(loaded(folder), auto_merge=True)


def fixes_shapes(folder: Path) -> Any:
    from onnxruntime.tools.onnx_model_utils import fix_output_shapes, make_dim_param_fixed

    model = loaded(folder)
    make_dim_param_fixed(model.graph, "n", 1)
    fix_output_shapes(model)
    return model


def updates_opset(folder: Path) -> Any:
    from onnxruntime.tools.onnx_model_utils import update_onnx_opset

    update_onnx_opset(folder / "model.onnx", 20, folder / "out.onnx")
    return folder / "out.onnx"


def converts_to_ort(folder: Path) -> Any:
    from onnxruntime.tools.convert_onnx_models_to_ort import OptimizationStyle, convert_onnx_models_to_ort

    convert_onnx_models_to_ort(folder / "model.onnx", folder / "ort", optimization_styles=[OptimizationStyle.Fixed])
    config = next((folder / "ort").glob("*.config")).read_text()
    return [line for line in config.splitlines() if not line.startswith("#")]  # which name the time and the folder


def checks_for_mobiles(folder: Path) -> Any:
    import logging

    from onnxruntime.tools.mobile_helpers.usability_checker import analyze_model

    logger = logging.getLogger("usability")
    logger.setLevel(logging.ERROR)
    return analyze_model(folder / "model.onnx", skip_optimize=True, logger=logger)


def halves_of_transformers(folder: Path) -> Any:
    from onnxruntime.transformers.float16 import convert_float_to_float16

    return convert_float_to_float16(loaded(folder), keep_io_types=True)


def optimizes_transformers(folder: Path) -> Any:
    from onnxruntime.transformers.optimizer import optimize_model

    return optimize_model(str(folder / "model.onnx"), model_type="bert", num_heads=2, hidden_size=4).model


def sorts_and_prunes(folder: Path) -> Any:
    from onnxruntime.transformers.onnx_model import OnnxModel

    model = OnnxModel(loaded(folder))
    model.prune_graph()
    model.topological_sort()
    return model.model


def calibrates(folder: Path) -> Any:
    from onnxruntime.quantization.calibrate import CalibrationMethod, create_calibrator

    calibrator = create_calibrator(
        folder / "model.onnx",
        augmented_model_path=str(folder / "augmented.onnx"),
        calibrate_method=CalibrationMethod.MinMax,
    )
    calibrator.collect_data(Inputs())
    return {name: [np.asarray(part) for part in found.range_value] for name, found in calibrator.compute_data().items()}


def augments_to_debug(folder: Path) -> Any:
    from onnxruntime.quantization.qdq_loss_debug import modify_model_output_intermediate_tensors

    modify_model_output_intermediate_tensors(str(folder / "model.onnx"), folder / "out.onnx")
    return outputs((folder / "out.onnx").read_bytes())  # the names in it have the time


def builds_preprocessing(folder: Path) -> Any:
    import onnx
    import onnxruntime_extensions.tools.pre_post_processing as steps
    from onnx import TensorProto

    pipeline = steps.PrePostProcessor([steps.create_named_value("image", TensorProto.UINT8, [64, 64, 3])], 18)
    names = ("ChannelsLastToChannelsFirst", "ImageBytesToFloat")
    first = [steps.Resize((16, 16), layout="HWC"), *(getattr(steps, name)() for name in names), steps.Unsqueeze([0])]
    pipeline.add_pre_processing(first)
    body = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 18]> g (float[1,3,16,16] x) => (float[1,3,16,16] y) { y = Relu(x) }'
    )
    return pipeline.run(body)
