"""Makes the golden files with operators on blocks of channels: models, and what onnxruntime writes of them.

`python tests/ort/layout_golden.py models` writes the models with onnx, and `python tests/ort/layout_golden.py files`
converts them with onnxruntime to `golden/NAME.BLOCK.ort`. A processor with AVX-512 makes blocks of 16 channels, one
without it blocks of 8. `qemu-x86_64 -cpu Haswell python tests/ort/layout_golden.py files --narrow` is one without it.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

GOLDEN = Path(__file__).parent / "layouts"
PADS = [1, 1, 1, 1]


def write_models() -> None:
    """Write a model with every operator that onnxruntime has on blocks, one for an older set, and one like trained."""
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    rng = np.random.default_rng(7)
    tensors: list[onnx.TensorProto] = []

    def weight(name: str, *dims: int, scales: Any = 0.125) -> str:
        array = np.round(rng.standard_normal(dims) * 2) * scales
        tensors.append(numpy_helper.from_array(array.astype(np.float32), name))
        return name

    def save(name: str, nodes: list[onnx.NodeProto], outputs: list[str], opset: int) -> None:
        used = {value for node in nodes for value in node.input}
        graph = helper.make_graph(
            nodes,
            name,
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, 12, 12])],
            [helper.make_tensor_value_info(value, TensorProto.FLOAT, [None] * 4) for value in outputs],
            [tensor for tensor in tensors if tensor.name in used],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=7)
        onnx.checker.check_model(model)
        onnx.save(model, GOLDEN / f"{name}.onnx")
        tensors.clear()

    def many(is_older: bool) -> list[onnx.NodeProto]:
        make = helper.make_node
        weight("variance", 32)
        for name, array in (
            ("low", np.float32(-0.5)),
            ("high", np.float32(0.75)),
            ("roi", np.zeros(0, np.float32)),
            ("twice", np.array([1, 1, 2, 2], np.float32)),
            ("positive", np.linspace(0.5, 2, 32, dtype=np.float32)),
        ):
            tensors.append(numpy_helper.from_array(array, name))
        nodes = [
            make("Conv", ["x", weight("w0", 20, 3, 3, 3), weight("b0", 20)], ["c0"], pads=PADS),
            make("LeakyRelu", ["c0"], ["a0"], alpha=0.25),
            make("Conv", ["a0", weight("w1", 32, 20, 1, 1)], ["c1"]),
            make("HardSigmoid", ["c1"], ["a1"], alpha=0.25, beta=0.5),
            make("Conv", ["a1", weight("w2", 32, 1, 3, 3), weight("b2", 32)], ["c2"], group=32, pads=PADS),
            make("Clip", ["c2"], ["a2"], min=-0.5, max=0.75)
            if is_older
            else make("Clip", ["c2", "low", "high"], ["a2"]),
            make("MaxPool", ["a2"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
            make("BatchNormalization", ["p", weight("s", 32), weight("o", 32), weight("m", 32), "positive"], ["n"]),
            make("Conv", ["n", weight("w3", 64, 16, 3, 3)], ["c3"], group=2, pads=PADS),
            make("Tanh", ["c3"], ["t"]),
            make("Conv", ["t", weight("w4", 32, 64, 1, 1), weight("b4", 32)], ["c4"]),
            make("Add", ["c4", "p"], ["sum"]),
            make("Relu", ["sum"], ["r"]),
            make("Concat", ["r", "t"], ["cat"], axis=1),
            make("Conv", ["cat", weight("w5", 48, 96, 1, 1), weight("b5", 48)], ["c5"]),
            make("GlobalAveragePool", ["c5"], ["g"]),
            make("Conv", ["g", weight("w6", 48, 48, 1, 1), weight("b6", 48)], ["c6"]),
            make("Sigmoid", ["c6"], ["gate"]),
            make("Mul", ["c5", "gate"], ["gated"]),
            make("AveragePool", ["gated"], ["mean"], kernel_shape=[3, 3], pads=PADS, count_include_pad=1),
            make("Conv", ["mean", weight("w7", 20, 48, 1, 1)], ["c7"]),
        ]
        if is_older:
            return [*nodes, make("Resize", ["c7", "twice"], ["y"], mode="nearest")]
        asymmetric = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
        return [
            *nodes,
            make("Resize", ["c7", "roi", "twice"], ["y"], mode="nearest", **asymmetric),
            make("Resize", ["c5", "roi", "twice"], ["smooth"], mode="linear"),
            make("Conv", ["smooth", weight("w8", 12, 48, 3, 3)], ["c8"]),
            make("GlobalMaxPool", ["c8"], ["most"]),
            make("Transpose", ["c5"], ["last"], perm=[0, 2, 3, 1]),
            make("Abs", ["y"], ["positive_y"]),
            make("Conv", ["positive_y", weight("w9", 16, 20, 1, 1)], ["c9"]),
        ]

    save("many", many(False), ["a0", "y", "c8", "most", "last", "c9"], 13)
    save("older", many(True), ["y"], 10)
    deviations = 2.0 ** rng.integers(-5, 0, (48, 1, 1, 1))
    for name, scales in (("trained", deviations), ("random", 0.125)):
        nodes = [
            helper.make_node("Conv", ["x", weight("w", 48, 3, 7, 7, scales=scales), weight("b", 48)], ["c"]),
            helper.make_node("Sigmoid", ["c"], ["y"]),
        ]
        save(name, nodes, ["y"], 13)


def write_files() -> None:
    """Convert the models with onnxruntime."""
    import onnxruntime

    is_wide = "avx512f" in Path("/proc/cpuinfo").read_text() and "--narrow" not in sys.argv
    for path in sorted(GOLDEN.glob("*.onnx")):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.optimized_model_filepath = str(path.with_suffix(f".{16 if is_wide else 8}.ort"))
        options.add_session_config_entry("session.save_model_format", "ORT")
        onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


if __name__ == "__main__":
    write_models() if sys.argv[1:2] == ["models"] else write_files()
