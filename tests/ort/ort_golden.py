"""Makes the golden .ort files: models, and what several releases of onnxruntime write of them.

`python tests/ort/ort_golden.py models FOLDER` writes the models with onnx, and `python tests/ort/ort_golden.py files
FOLDER` converts them with the onnxruntime of the interpreter, to `golden/NAME.RELEASE.LEVEL.ort`. Release 1.12 writes
version 4 of the format, 1.14 version 5, and 1.17 and later version 6.
"""

from __future__ import annotations

import sys
from pathlib import Path

GOLDEN = Path(__file__).parent / "golden"
LEVELS = {"none": "ORT_DISABLE_ALL", "all": "ORT_ENABLE_ALL"}


def write_models(folder: Path) -> None:
    """Write a network that is fused, and a model with all kinds of attributes, types and initializers."""
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    rng = np.random.default_rng(5)

    def weight(name: str, *dims: int) -> TensorProto:
        return numpy_helper.from_array(rng.standard_normal(dims, np.float32), name)

    def value(
        name: str, dims: list[int | str | None] | None, elem_type: int = TensorProto.FLOAT
    ) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, elem_type, dims)

    def save(name: str, graph: onnx.GraphProto, domains: dict[str, int]) -> None:
        opsets = [helper.make_opsetid(domain, version) for domain, version in domains.items()]
        model = helper.make_model(graph, producer_name="golden", opset_imports=opsets, ir_version=8)
        model.doc_string, model.model_version, model.domain = "what it is for", 7, "org.example"
        helper.set_model_props(model, {"author": "someone", "licence": "MIT"})
        onnx.checker.check_model(model)
        onnx.save(model, folder / f"{name}.onnx")

    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], name="conv", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"], name="relu"),
        helper.make_node("GlobalAveragePool", ["r"], ["p"], name="pool"),
        helper.make_node("Flatten", ["p"], ["f"], name="flatten"),
        helper.make_node("Gemm", ["f", "g", "h"], ["o"], name="gemm", transB=1),
        helper.make_node("Softmax", ["o"], ["y"], name="softmax", axis=-1),
    ]
    tensors = [weight("w", 4, 3, 3, 3), weight("b", 4), weight("g", 5, 4), weight("h", 5)]
    graph = helper.make_graph(nodes, "net", [value("x", ["batch", 3, 6, 6])], [value("y", ["batch", 5])], tensors)
    graph.doc_string = "a small network"
    save("net", graph, {"": 13})

    def branch(name: str, node: onnx.NodeProto) -> onnx.GraphProto:
        return helper.make_graph([node], name, [], [value(node.output[0], [2])], [weight(f"{name}_w", 2)])

    then = branch("then", helper.make_node("Mul", ["x", "then_w"], ["t"]))
    other = branch("else", helper.make_node("Add", ["x", "else_w"], ["e"]))
    sparse_values = numpy_helper.from_array(np.array([1.5, -2], np.float32), "sparse")
    sparse_indices = numpy_helper.from_array(np.array([0, 3], np.int64), "sparse_indices")
    nodes = [
        helper.make_node("If", ["condition"], ["i"], name="if", then_branch=then, else_branch=other),
        helper.make_node("Dropout", ["i"], ["d", ""], name="dropout"),
        helper.make_node("Clip", ["d", "", "high"], ["k"], name="clip", doc_string="at most"),
        helper.make_node("SequenceConstruct", ["k", "i"], ["q"], name="sequence"),
        helper.make_node("MatMul", ["m", "sparse"], ["s"], name="product"),
        helper.make_node(
            "LabelEncoder",
            ["words"],
            ["numbers"],
            name="labels",
            domain="ai.onnx.ml",
            keys_strings=["a", "b\xe9"],
            values_floats=[0.5, 1.5],
            default_float=-1.0,
        ),
        helper.make_node(
            "ConstantOfShape", ["one"], ["filled"], value=helper.make_tensor("", TensorProto.INT64, [1], [9])
        ),
        helper.make_node(
            "StringNormalizer", ["words"], ["upper"], case_change_action="UPPER", locale="C", stopwords=["x", "yz"]
        ),
    ]
    inputs = [
        value("condition", [], TensorProto.BOOL),
        value("x", [2]),
        value("m", [None, 4]),
        value("words", ["n"], TensorProto.STRING),
        value("one", [1], TensorProto.INT64),
    ]
    sequence = helper.make_tensor_sequence_value_info("q", TensorProto.FLOAT, [2])
    outputs = [
        sequence,
        value("s", [None, None]),
        value("numbers", ["n"]),
        value("filled", [None], TensorProto.INT64),
        value("upper", [None], TensorProto.STRING),
    ]
    tensors = [numpy_helper.from_array(np.array(3, np.float32), "high")]
    tensors.append(helper.make_tensor("texts", TensorProto.STRING, [2], [b"one", "zw\xf6lf".encode()]))
    graph = helper.make_graph(nodes, "kinds", inputs, outputs, tensors)
    graph.sparse_initializer.append(helper.make_sparse_tensor(sparse_values, sparse_indices, [4, 1]))
    save("kinds", graph, {"": 15, "ai.onnx.ml": 2})


def write_files(folder: Path) -> None:
    """Convert the models in a folder with this interpreter's onnxruntime."""
    import onnxruntime

    release = ".".join(onnxruntime.__version__.split(".")[:2])
    for path in sorted(folder.glob("*.onnx")):
        for name, level in LEVELS.items():
            options = onnxruntime.SessionOptions()
            options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
            options.optimized_model_filepath = str(GOLDEN / f"{path.stem}.{release}.{name}.ort")
            options.add_session_config_entry("session.save_model_format", "ORT")
            onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


if __name__ == "__main__":
    {"models": write_models, "files": write_files}[sys.argv[1]](Path(sys.argv[2]))
