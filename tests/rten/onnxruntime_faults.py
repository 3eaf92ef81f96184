# ruff: noqa: E501 - facts and prose are lines of a page
"""Differences between onnxruntime and ONNX that the tests met: small models, and a page that shows them.

`python tests/rten/onnxruntime_faults.py` writes `docs/onnxruntime_faults.md`; with a folder as argument, it writes the
models there. `tests/rten/test_faults.py` checks that the page is current, that onnxruntime still has every fault, and
what is right. Some faults end the process, so the tests run each model in a process of its own (`--run NAME`).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import onnx.parser

from tests.rten.rten_faults import NAN, U8, F, f, shown

DOCUMENT = Path(__file__).parents[2] / "docs" / "onnxruntime_faults.md"
RELEASE = "1.32"


class Fault(NamedTuple):
    """A model that shows a fault: `found` are the outputs of onnxruntime, or its last words; `wanted` are the right ones."""

    name: str
    fact: str
    version: int
    text: str
    inputs: Mapping[str, np.ndarray[Any, Any]]
    found: list[Any] | str
    wanted: list[Any] | str  # a text if ONNX does not define a result
    source: str = "ONNX"  # the source of `wanted`: the reference implementation of ONNX, or another one
    optimize: bool = False
    below: tuple[int, int] | None = None  # no release from this one on has the fault

    def proto(self) -> onnx.ModelProto:
        """Return the model."""
        imports = f'"" : {self.version}' + (', "com.microsoft" : 1' if "com.microsoft" in self.text else "")
        return onnx.parser.parse_model(f"<ir_version: 8, opset_import: [{imports}]>\n{self.name} {self.text}")


SECTIONS: Mapping[str, list[Fault]] = {
    "Other results": [
        Fault(
            "matmul_of_transposed_stack",
            "The optimiser fuses `Transpose` with a `MatMul` of a stack of matrices and a vector, and forgets the "
            "transposition. Without optimisation the result is right.",
            18,
            """(float[2, 2, 3] x, float[2] v) => (float[2, 3] y)
{
    t = Transpose<perm = [0, 2, 1]>(x)
    y = MatMul(t, v)
}""",
            {"x": np.arange(12, dtype=F).reshape(2, 2, 3), "v": f(1, 2)},
            [[2, 8, 14, 20, 26, 32]],
            [[6, 9, 12, 24, 27, 30]],
            optimize=True,
        ),
        Fault(
            "pool_same_dilated",
            "Pools with `auto_pad = SAME_UPPER` or `SAME_LOWER` and dilations pad as if there were no dilations, so the "
            "output is too small.",
            18,
            """(float[1, 1, 6] x) => (float[1, 1, n] y)
{
    y = MaxPool<kernel_shape = [3], dilations = [2], auto_pad = "SAME_LOWER">(x)
}""",
            {"x": np.arange(6, dtype=F).reshape(1, 1, 6)},
            [[3, 4, 5, 4]],
            [[2, 3, 4, 5, 4, 5]],
        ),
        Fault(
            "resize_crop_of_same_size",
            "`Resize` with `tf_crop_and_resize` returns its input if the sizes do not change, whatever the part that is cropped.",
            18,
            """(float[1, 1, 4] x) => (float[1, 1, n] y)
<float[6] roi = {0, 0, 0.25, 1, 1, 0.75}, float[3] scales = {1, 1, 1}>
{
    y = Resize<mode = "linear", coordinate_transformation_mode = "tf_crop_and_resize">(x, roi, scales)
}""",
            {"x": f(1, 2, 3, 4).reshape(1, 1, 4)},
            [[1, 2, 3, 4]],
            [[1.75, 2.25, 2.75, 3.25]],
        ),
        Fault(
            "split_to_sequence_keepdims",
            "`SplitToSequence` with a `split` of one and `keepdims = 0` removes the axis. ONNX ignores `keepdims` if there is a `split`.",
            18,
            """(float[2, 3] x) => (float[a, b] y)
<int64 split = {1}, int64 first = {0}>
{
    q = SplitToSequence<axis = 1, keepdims = 0>(x, split)
    y = SequenceAt(q, first)
}""",
            {"x": np.arange(6, dtype=F).reshape(2, 3)},
            [f(0, 3)],
            [f(0, 3).reshape(2, 1)],
        ),
        Fault(
            "reduce_sum_wraps",
            "`ReduceSum` of int32 stops at the largest number. All other arithmetic of int32 wraps, in onnxruntime as in numpy.",
            18,
            """(int32[2] x) => (int32[1] y)
{
    y = ReduceSum(x)
}""",
            {"x": np.array([2147483647, 1], np.int32)},
            [[2147483647]],
            [[-2147483648]],
        ),
        Fault(
            "sign_of_nan",
            "`Sign` of NaN is 0 in float16. In float32, it is NaN.",
            18,
            """(float16[3] x) => (float16[3] y)
{
    y = Sign(x)
}""",
            {"x": np.array([NAN, -1, 2], np.float16)},
            [[0, -1, 1]],
            [[NAN, -1, 1]],
        ),
    ],
    "The process ends": [
        Fault(
            "leaky_relu_without_zero_point",
            "`QLinearLeakyRelu` without its last input, the optional zero point of the output, ends the process when the model is loaded. "
            "An empty name in its place is right.",
            18,
            """(uint8[2] x) => (uint8[2] y)
<float scale = {0.5}>
{
    y = com.microsoft.QLinearLeakyRelu<alpha = 0.1>(x, scale, "", scale)
}""",
            {"x": np.array([1, 2], U8)},
            "Assertion '__n < this->size()' failed",
            [[1, 2]],
            'onnxruntime, with `""`',
        ),
        Fault(
            "gru_without_samples",
            "`GRU` and `LSTM` of a batch without samples end the process. `RNN` returns an empty tensor.",
            14,
            """(float[2, b, 1] x) => (float[2, 1, b, 1] y)
<float[1, 3, 1] w = {1, 1, 1}, float[1, 3, 1] r = {1, 1, 1}>
{
    y = GRU<hidden_size = 1>(x, w, r)
}""",
            {"x": np.zeros((2, 0, 1), F)},
            "terminate called without an active exception",
            [np.zeros((2, 1, 0, 1))],
        ),
        Fault(
            "integer_division_by_zero",
            f"`Div` and `Mod` of integers by zero end the process in 1.23, the newest release for Python 3.10. {RELEASE} returns an error. ONNX does "
            "not define the result, but the zero can come from outside.",
            18,
            """(int32[1] x, int32[1] d) => (int32[1] y)
{
    y = Div(x, d)
}""",
            {"x": np.array([1], np.int32), "d": np.array([0], np.int32)},
            "SIGFPE",
            "Integer division by zero",
            f"onnxruntime {RELEASE}",
            below=(1, 24),
        ),
    ],
}
FAULTS = [fault for faults in SECTIONS.values() for fault in faults]

HEAD = f"""# Faults of onnxruntime

The tests of this project compare results with those of onnxruntime. This page lists the cases in which onnxruntime {RELEASE}
(CPU) gives another result than ONNX defines, or ends the process. `formats` follows ONNX in these cases, so a converted model can
differ from onnxruntime here. For each fault, there is a small model; `python tests/rten/onnxruntime_faults.py FOLDER` writes them. The tests run all models in
onnxruntime, and in the reference implementation of ONNX. [Faults of RTen](rten_faults.md) is the same for RTen.
"""


def page() -> str:
    """Return the page."""
    parts = [HEAD]
    for title, faults in SECTIONS.items():
        parts.append(f"\n## {title}\n")
        for fault in faults:
            names = [value.name for value in fault.proto().graph.output]
            found, wanted = (
                outputs if isinstance(outputs, str) else shown(outputs, names)
                for outputs in (fault.found, fault.wanted)
            )
            given = shown([np.asarray(array) for array in fault.inputs.values()], list(fault.inputs))
            ours = f"onnxruntime {RELEASE}" if fault.below is None else "onnxruntime 1.23"
            width = max(len(ours), len(fault.source)) + 2
            parts.append(f"\n### `{fault.name}`\n\n{fault.fact}\n")
            parts.append(f"\n```text\n{fault.name} {fault.text}\n```\n")
            parts.append(f"\n```text\n{given}\n\n{ours:{width}}{found}\n{fault.source:{width}}{wanted}\n```\n")
    return "".join(parts)


def run(fault: Fault) -> list[np.ndarray[Any, Any]]:
    """Return the outputs of onnxruntime, which may end the process."""
    import onnxruntime

    options, levels = onnxruntime.SessionOptions(), onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = levels.ORT_ENABLE_ALL if fault.optimize else levels.ORT_DISABLE_ALL
    options.log_severity_level = 4
    providers = ["CPUExecutionProvider"]
    session = onnxruntime.InferenceSession(fault.proto().SerializeToString(), options, providers=providers)
    return session.run(None, dict(fault.inputs))  # type: ignore[no-any-return]


def main() -> None:
    """Write the page, or the models into a folder; or run one model and print its outputs."""
    if sys.argv[1:2] == ["--run"]:
        (fault,) = (fault for fault in FAULTS if fault.name == sys.argv[2])
        print(json.dumps([[array.shape, array.ravel().tolist()] for array in run(fault)]))
    elif len(sys.argv) > 1:
        folder = Path(sys.argv[1])
        folder.mkdir(parents=True, exist_ok=True)
        for fault in FAULTS:
            (folder / f"{fault.name}.onnx").write_bytes(fault.proto().SerializeToString())
    else:
        DOCUMENT.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
