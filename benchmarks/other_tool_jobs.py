"""What other tools that import `onnx` are asked to do; `tool_jobs.py` has onnx and onnxruntime, and the model."""
# ruff: noqa: D103 - the names and the table in `tools.py` say what a job does

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from tool_jobs import SHAPE, inferred, loaded

# Optimisers


def simplifies(folder: Path) -> Any:
    import onnxsim

    return onnxsim.simplify(loaded(folder))[0]


def slims(folder: Path) -> Any:
    import onnxslim

    return onnxslim.slim(loaded(folder))


def optimizes(folder: Path) -> Any:
    import onnxoptimizer

    return onnxoptimizer.optimize(loaded(folder), ["fuse_bn_into_conv", "eliminate_identity"])


def halves(folder: Path) -> Any:
    from onnxconverter_common.float16 import convert_float_to_float16

    return convert_float_to_float16(loaded(folder))


def optimizes_commonly(folder: Path) -> Any:
    from onnxconverter_common.optimizer import optimize_onnx_model

    return optimize_onnx_model(loaded(folder))


def mixes_precision(folder: Path) -> Any:
    from onnxconverter_common.auto_mixed_precision import auto_convert_mixed_precision

    return auto_convert_mixed_precision(loaded(folder), {"x0": np.ones(SHAPE, np.float32)}, rtol=0.1, atol=0.1)


def shrinks_weights(folder: Path) -> Any:
    from onnx_shrink_ray.shrink import quantize_weights

    return quantize_weights(loaded(folder))


def cleans_for_qonnx(folder: Path) -> Any:
    from qonnx.core.modelwrapper import ModelWrapper
    from qonnx.transformation.fold_constants import FoldConstants
    from qonnx.transformation.general import GiveReadableTensorNames, GiveUniqueNodeNames
    from qonnx.transformation.infer_shapes import InferShapes

    model = ModelWrapper(loaded(folder))
    for step in (InferShapes(), FoldConstants(), GiveUniqueNodeNames(), GiveReadableTensorNames()):
        model = model.transform(step)
    return model.model


def lowers_for_qonnx(folder: Path) -> Any:
    from qonnx.core.modelwrapper import ModelWrapper
    from qonnx.transformation.batchnorm_to_affine import BatchNormToAffine
    from qonnx.transformation.infer_shapes import InferShapes

    return ModelWrapper(loaded(folder)).transform(InferShapes()).transform(BatchNormToAffine()).model


# Other representations


def surveys(folder: Path) -> Any:
    import onnx_graphsurgeon as gs

    graph = gs.import_onnx(loaded(folder))
    for node in graph.nodes:
        node.name = f"new/{node.name}"
    return gs.export_onnx(graph.cleanup().toposort())


def folds_with_surgeon(folder: Path) -> Any:
    import onnx_graphsurgeon as gs

    return gs.export_onnx(gs.import_onnx(inferred(folder)).fold_constants().cleanup())


def loads_with_polygraphy(folder: Path) -> Any:
    from polygraphy.backend.onnx import ModifyOutputs, SetUpperBound, infer_shapes, onnx_from_path, save_onnx

    model = infer_shapes(onnx_from_path(str(folder / "model.onnx")))
    model = ModifyOutputs(model, outputs=["x9"], copy=True)()
    save_onnx(model, str(folder / "out.onnx"))
    return folder / "out.onnx", SetUpperBound.__name__


def goes_through_ir(folder: Path) -> Any:
    import onnx_ir

    model = onnx_ir.serde.deserialize_model(loaded(folder))
    for node in model.graph:
        node.name = f"new/{node.name}"
    return onnx_ir.serde.serialize_model(model)


def loads_with_ir(folder: Path) -> Any:
    import onnx_ir

    onnx_ir.save(onnx_ir.load(folder / "model.onnx"), folder / "out.onnx")
    return folder / "out.onnx"


def optimizes_with_onnxscript(folder: Path) -> Any:
    import onnxscript.optimizer

    return onnxscript.optimizer.optimize(loaded(folder))


def rewrites_with_onnxscript(folder: Path) -> Any:
    import onnxscript.rewriter

    return onnxscript.rewriter.rewrite(loaded(folder))


def builds_with_onnxscript(folder: Path) -> Any:
    from tool_scripts import gelu

    return gelu.to_model_proto()


def converts_with_onnxscript(folder: Path) -> Any:
    import onnx_ir
    import onnxscript.version_converter

    model = onnx_ir.serde.deserialize_model(loaded(folder))
    onnxscript.version_converter.convert_version(model, 20)
    return onnx_ir.serde.serialize_model(model)


def builds_with_spox(folder: Path) -> Any:
    import spox.opset.ai.onnx.v17 as op
    from spox import Tensor, argument, build

    x = argument(Tensor(np.float32, ("n", 4)))
    y = x
    for _ in range(20):
        y = op.add(op.relu(y), op.const(np.ones(4, np.float32)))
    return build({"x": x}, {"y": y})


def inlines_with_spox(folder: Path) -> Any:
    from spox import Tensor, argument, build, inline

    x = argument(Tensor(np.float32, ("n", *SHAPE[1:])))
    (y,) = inline(loaded(folder))(x).values()
    return build({"x": x}, {"y": y})


def builds_with_array_api(folder: Path) -> Any:
    from onnx_array_api.light_api import start

    graph = start(opset=18).vin("X").reshape((-1, 1))
    for _ in range(10):
        graph = graph.Abs()
    return graph.rename("Y").vout().to_onnx()


def translates_to_code(folder: Path) -> Any:
    from onnx_array_api.translate_api import translate

    return translate(loaded(folder))


def builds_graphs_with_array_api(folder: Path) -> Any:
    from onnx_array_api.graph_api import GraphBuilder

    builder = GraphBuilder(loaded(folder))
    builder.remove_identity_nodes()
    return builder.to_onnx()


def moves_to_safetensors(folder: Path) -> Any:
    import onnx
    import onnx_safetensors

    onnx_safetensors.save_model(loaded(folder), folder / "st.onnx", external_data="st.safetensors", size_threshold=16)
    return folder / "st.onnx", onnx.load(folder / "st.onnx")


def saves_safetensors(folder: Path) -> Any:
    import onnx_safetensors

    onnx_safetensors.save_file(loaded(folder), folder / "only.safetensors", base_dir=folder)
    return folder / "only.safetensors"


# Converters


def converts_scikit(folder: Path) -> Any:
    from skl2onnx import to_onnx
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    rng = np.random.default_rng(0)
    inputs = rng.random((80, 4)).astype(np.float32)
    model = make_pipeline(StandardScaler(), RandomForestClassifier(5, random_state=0)).fit(inputs, inputs[:, 0] > 0.5)
    return to_onnx(model, inputs[:1], target_opset=15)


def converts_lightgbm(folder: Path) -> Any:
    import lightgbm
    import onnxmltools
    from onnxmltools.convert.common.data_types import FloatTensorType

    rng = np.random.default_rng(0)
    inputs = rng.random((80, 4))
    model = lightgbm.LGBMRegressor(n_estimators=5, verbose=-1, n_jobs=1).fit(inputs, inputs[:, 0])
    types = [("x", FloatTensorType([None, 4]))]
    return onnxmltools.convert_lightgbm(model, "forest", types, target_opset=15)


def reads_with_openvino(folder: Path) -> Any:
    import openvino

    model = openvino.Core().read_model(loaded(folder).SerializeToString())
    return [node.get_type_name() for node in model.get_ordered_ops()]


def reads_files_with_openvino(folder: Path) -> Any:
    import openvino

    model = openvino.convert_model(folder / "model.onnx", input=list(SHAPE))
    compiled = openvino.compile_model(model, "CPU")
    return [np.round(compiled(np.ones(SHAPE, np.float32))[0], 4)]


def generates_c(folder: Path) -> Any:
    from emx_onnx_cgen import cli

    code = cli.main(["compile", str(folder / "model.onnx"), str(folder / "out.c"), "--model-name", "m"])
    return code, folder / "out.c"


def compresses_with_nncf(folder: Path) -> Any:
    import nncf

    return nncf.quantize(loaded(folder), nncf.Dataset([{"x0": np.ones(SHAPE, np.float32)}]), subset_size=1)


# Looking and comparing


def profiles(folder: Path) -> Any:
    import onnx_tool

    model = onnx_tool.Model(loaded(folder))
    model.graph.shape_infer({"x0": np.zeros(SHAPE, np.float32)})
    model.graph.profile()
    return [float(model.graph.macs[0]), int(model.graph.params)]


def rewrites_with_onnx_tool(folder: Path) -> Any:
    import onnx_tool

    model = onnx_tool.Model(loaded(folder))
    model.graph.shape_infer({"x0": np.zeros(SHAPE, np.float32)})
    model.save_model(str(folder / "out.onnx"))
    return folder / "out.onnx"


def compares(folder: Path) -> Any:
    from diffonnx import StaticDiff

    model = loaded(folder)
    model.graph.node[3].name = "other"
    result = StaticDiff(loaded(folder), model).summary(output=False)
    return repr(result)


def edits_with_sclblonnx(folder: Path) -> Any:
    import sclblonnx as so

    graph = so.graph_from_file(str(folder / "model.onnx"))
    graph = so.add_node(graph, so.node("Relu", inputs=["y"], outputs=["z"], name="last"))
    graph = so.add_output(so.delete_output(graph, "y"), "z", "FLOAT", [1, 64])
    return so.clean(graph, _sclbl_check=False), so.list_inputs(graph), so.list_outputs(graph)


def runs_passes(folder: Path) -> Any:
    from onnxifier import OnnxGraph, PassManager

    return PassManager(["eliminate_identity", "infer_shape"]).optimize(OnnxGraph(loaded(folder))).model


def rewrites_convolutions(folder: Path) -> Any:
    from onnx_conv2matmul import rewrite_conv1x1_to_matmul

    model, report = rewrite_conv1x1_to_matmul(inferred(folder))
    return model, str(report)


def infers_by_command(folder: Path) -> Any:
    from argparse import Namespace

    from onnxcli.infer_shape import InferShapeCmd

    paths = {"input_path": str(folder / "model.onnx"), "output_path": str(folder / "out.onnx")}
    InferShapeCmd.run(None, Namespace(**paths))  # type: ignore[arg-type] # without a parser
    return folder / "out.onnx"


def computes_with_ndonnx(folder: Path) -> Any:
    import ndonnx as ndx

    x = ndx.argument(shape=("n", 4), dtype=ndx.float32)
    return ndx.build({"x": x}, {"y": ndx.sum(ndx.exp(x) + 1.0, axis=1)})


def names_operators(folder: Path) -> Any:
    from sng4onnx import generate

    return generate(onnx_graph=loaded(folder), non_verbose=True)


def changes_opset(folder: Path) -> Any:
    from soc4onnx import change

    return change(18, onnx_graph=loaded(folder), non_verbose=True)


# Small tools of one author, each a step


def by_sne4onnx(folder: Path) -> Any:
    from sne4onnx import extraction

    return extraction(["x3"], ["x9"], onnx_graph=inferred(folder), non_verbose=True)


def by_snc4onnx(folder: Path) -> Any:
    import onnx
    from snc4onnx import combine

    parts = []
    for first, last in (("x0", "x5"), ("x5", "x9")):
        onnx.save(inferred(folder), folder / "typed.onnx")
        onnx.utils.extract_model(folder / "typed.onnx", folder / "part.onnx", [first], [last])
        parts.append(onnx.load(folder / "part.onnx"))
    return combine([["x5", "x5"]], ["a", "b"], onnx_graphs=parts, disable_onnxsim=True, non_verbose=True)


def by_sio4onnx(folder: Path) -> Any:
    from sio4onnx import io_change

    shapes = {"input_shapes": [[2, 4, 16, 16]], "output_shapes": [[2, 64]]}
    return io_change(onnx_graph=loaded(folder), input_names=["x0"], output_names=["y"], non_verbose=True, **shapes)


def by_sor4onnx(folder: Path) -> Any:
    from sor4onnx import rename

    return rename(
        ["layer", "block"], onnx_graph=loaded(folder), mode="full", search_mode="prefix_match", non_verbose=True
    )


def by_sog4onnx(folder: Path) -> Any:
    from collections import OrderedDict

    from sog4onnx import generate

    ends = OrderedDict(a=[np.float32, [1, 4]]), OrderedDict(b=[np.float32, [1, 4]])
    return generate("Relu", 17, "only", 8, *ends, OrderedDict(), non_verbose=True)


def by_scs4onnx(folder: Path) -> Any:
    from scs4onnx import shrinking

    return shrinking(onnx_graph=loaded(folder), disable_auto_downcast=True, non_verbose=True)[0]


def by_sbi4onnx(folder: Path) -> Any:
    from sbi4onnx import initialize

    return initialize(
        onnx_graph=loaded(folder), initialization_character_string="batch", disable_onnxsim=True, non_verbose=True
    )


def by_sde4onnx(folder: Path) -> Any:
    from sde4onnx import erase

    model = loaded(folder)
    for node in model.graph.node:
        node.doc_string = "a text"
    return erase(onnx_graph=model, output_onnx_file_path=str(folder / "out.onnx"), non_verbose=True)


def by_ssc4onnx(folder: Path) -> Any:
    from ssc4onnx import structure_check

    return structure_check(onnx_graph=loaded(folder))


def by_svs4onnx(folder: Path) -> Any:
    from svs4onnx import variable_switch

    return variable_switch("x2", "x4", onnx_graph=inferred(folder), non_verbose=True)


def by_soa4onnx(folder: Path) -> Any:
    from soa4onnx import outputs_add

    return outputs_add(onnx_graph=inferred(folder), output_op_names=["x4"], non_verbose=True)


def by_sod4onnx(folder: Path) -> Any:
    from soa4onnx import outputs_add
    from sod4onnx import outputs_delete

    model = outputs_add(onnx_graph=inferred(folder), output_op_names=["x4"], non_verbose=True)
    return outputs_delete(onnx_graph=model, output_op_names=["x4"], non_verbose=True)


def by_snd4onnx(folder: Path) -> Any:
    from snd4onnx import remove

    return remove(["layer3.same"], onnx_graph=loaded(folder), non_verbose=True)


def by_sna4onnx(folder: Path) -> Any:
    from sna4onnx import add

    return add(
        [["softmax", "y", "more", "more.in"]],
        [["more", "more.out", "none", "none"]],
        "Relu",
        "more",
        {"more.in": [np.float32, [1, 64]]},
        {"more.out": [np.float32, [1, 64]]},
        onnx_graph=loaded(folder),
        non_verbose=True,
    )


def by_scc4onnx(folder: Path) -> Any:
    from scc4onnx import order_conversion

    return order_conversion({"x0": [0, 2, 3, 1]}, onnx_graph=inferred(folder), non_verbose=True)


def by_onnx2json(folder: Path) -> Any:
    from onnx2json import convert

    return convert(onnx_graph=loaded(folder))


def by_json2onnx(folder: Path) -> Any:
    import json2onnx
    import onnx2json

    return json2onnx.convert(json_dict=onnx2json.convert(onnx_graph=loaded(folder)))
