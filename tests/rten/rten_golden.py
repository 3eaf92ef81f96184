"""Small models, and the program that makes .rten files of them with several releases of rten-convert.

`python tests/rten/rten_golden.py` downloads the releases and writes `tests/rten/golden/RELEASE/MODEL.v1.rten` and
`.v2.rten`.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.parser import parse_model

GOLDEN = Path(__file__).parents[1] / "rten" / "golden"
# The first release, and the releases that changed the files: data outside the graph, captures, types of 8 bits, types
# of values and new operators, quantisation, inferred shapes. Each has the options for the versions of the file.
RELEASES: Mapping[str, Mapping[int, Sequence[str]]] = {
    "0.4.0": {1: []},
    "0.11.0": {1: [], 2: ["--v2"]},
    **{release: {1: ["--v1"], 2: []} for release in ("0.13.1", "0.14.0", "0.17.0", "0.22.0")},
}
METADATA = {"license": "Apache-2.0", "description": "a golden file — of ours"}
# Windows are padded as SAME_UPPER pads them, because 0.11.0 always writes that; 0.4.0 always writes axis 0 for ArgMax,
# and refuses two nodes with the same name or without one.
HEADER = '<ir_version: 8, opset_import: ["": 13]>'

CONVOLUTIONS = """
convolutions (float[n, 2, 9, 9] x) => (float[n, 3] y)
<float[4, 2, 3, 3] w, float[4] b, float[4] scale, float[4] bias, float[4] mean, float[4] var, float[4, 3] m, float[3] c>
{
    convolved = Conv <kernel_shape = [3, 3], pads = [1, 1, 1, 1], strides = [2, 2], group = 1> (x, w, b)
    normal = BatchNormalization <epsilon = 0.001> (convolved, scale, bias, mean, var)
    positive = LeakyRelu <alpha = 0.125> (normal)
    pooled = MaxPool <kernel_shape = [3, 3], pads = [1, 1, 1, 1], strides = [1, 1]> (positive)
    mean_of_all = GlobalAveragePool (pooled)
    flat = Flatten <axis = 1> (mean_of_all)
    sums = Gemm <alpha = 0.5, transB = 0> (flat, m, c)
    y = Softmax <axis = 1> (sums)
}
"""
SHAPES = """
shapes (float[n, 6] x) => (float[m, 2, 3] y, int64[6] greatest, float[n, 2] top, int64[n, 2] places)
<int64[1] zero = {0}, int64[1] last = {1}, int64[1] limit = {9223372036854775807},
 int64[2] tail = {2, 3}, int64[1] two = {2}, float half = {0.5}, int64[4] pads = {1, 0, 0, 0}>
{
    size = Shape (x)
    rows = Gather <axis = 0> (size, zero)
    wanted = Concat <axis = 0> (rows, tail)
    cube = Reshape (x, wanted)
    turned = Transpose <perm = [0, 2, 1]> (cube)
    reversed = Slice (turned, last, limit, last)
    joined = Concat <axis = 1> (reversed, turned)
    cut = Slice (joined, zero, two, last)
    back_again = Transpose <perm = [0, 2, 1]> (cut)
    again = Reshape (x, wanted)
    is_more = Greater (again, half)
    negative = Neg (again)
    y = Where (is_more, again, negative)
    padded = Pad <mode = "constant"> (x, pads, half)
    greatest = ArgMax <axis = 0, keepdims = 0> (padded)
    top, places = TopK <axis = 1, largest = 1, sorted = 1> (x, two)
}
"""
BRANCHES = """
branches (bool c, float[3] x) => (float[3] y)
<float[3] w>
{
    shifted = Add (x, w)
    y = If (c) <
        then_branch = then () => (float[3] chosen) <float[3] own> { part = Mul (shifted, own) chosen = Add (part, x) },
        else_branch = other () => (float[3] rest) { rest = Sub (x, w) }
    >
}
"""
LOOP = """
loop (float[3] x, int64 n) => (float[3] y, float[k, 3] all)
<bool go = {1}>
{
    doubled = Add (x, x)
    y, all = Loop (n, go, x) <
        body = step (int64 i, bool still, float[3] a) => (bool still, float[3] b, float[3] scanned)
        { b = Add (a, doubled) scanned = Mul (b, b) }
    >
}
"""
RECURRENT = """
recurrent (float[5, 2, 3] x) => (float[5, 2, 2, 4] y, float[1, 2, 4] h)
<float[2, 16, 3] w, float[2, 16, 4] r, float[2, 32] b, float[1, 12, 3] v, float[1, 12, 4] s, float[1, 24] t>
{
    y = LSTM <hidden_size = 4, direction = "bidirectional"> (x, w, r, b)
    all, h = GRU <hidden_size = 4, linear_before_reset = 1> (x, v, s, t)
}
"""
QUANTIZED = """
quantized (float[2, 8] x) => (float[2, 4] y)
<uint8[8, 4] w, uint8 zero = {120}, float scale = {0.03125}, int8[8, 4] v, int8 none = {0}>
{
    steps, step, origin = DynamicQuantizeLinear (x)
    sums = MatMulInteger (steps, w, origin, zero)
    floats = Cast <to = 1> (sums)
    first = Mul (floats, step)
    weight = DequantizeLinear (v, scale, none)
    second = MatMul (x, weight)
    y = Add (first, second)
}
"""
TEXTS = {
    "convolutions": CONVOLUTIONS,
    "shapes": SHAPES,
    "branches": BRANCHES,
    "loop": LOOP,
    "recurrent": RECURRENT,
    "quantized": QUANTIZED,
}


def _weight(value: onnx.ValueInfoProto) -> onnx.TensorProto:
    """Return a tensor for a value that the text declares, with numbers that are exact in few bits."""
    kind = value.type.tensor_type
    dtype = onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type)
    dims = [dim.dim_value for dim in kind.shape.dim]
    least, count = (0, 256) if dtype == np.uint8 else (-64, 129)
    numbers = (np.arange(np.prod(dims, dtype=int)).reshape(dims) * 37 + len(value.name)) % count + least
    values = (numbers / 64 if dtype == np.float32 else numbers).astype(dtype)
    return numpy_helper.from_array(np.abs(values) + 1 if value.name == "var" else values, value.name)


@functools.cache
def model(name: str) -> onnx.ModelProto:
    """Return a model whose weights are always the same."""
    proto = parse_model(HEADER + TEXTS[name])
    for graph in (proto.graph, *(a.g for node in proto.graph.node for a in node.attribute if a.HasField("g"))):
        graph.initializer.extend(_weight(value) for value in graph.value_info)
        del graph.value_info[:]
    for number, node in enumerate(proto.graph.node):
        node.name = f"{node.op_type}_{number}"
    onnx.checker.check_model(proto, full_check=True)
    return proto


def inputs(name: str) -> Mapping[str, np.ndarray]:
    """Return the inputs of the model."""
    rng = np.random.default_rng(1)
    of_floats = {
        "convolutions": {"x": (2, 2, 9, 9)},
        "shapes": {"x": (4, 6)},
        "branches": {"x": (3,)},
        "loop": {"x": (3,)},
        "recurrent": {"x": (5, 2, 3)},
        "quantized": {"x": (2, 8)},
    }
    given = {key: rng.standard_normal(dims).astype(np.float32) for key, dims in of_floats[name].items()}
    return given | {"branches": {"c": np.array(True)}, "loop": {"n": np.array(4)}}.get(name, {})


def _convert(folder: Path, source: Path, target: Path, options: Sequence[str]) -> None:
    """Let the release in a folder make a file of a model, or print why it does not."""
    metadata = folder / "metadata.json"
    metadata.write_text(json.dumps(METADATA), encoding="utf-8")
    program = "from rten_convert.converter import main; main()"
    arguments = ["-c", program, "-m", str(metadata), str(source), str(target), *options]
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    done = subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        target.unlink(missing_ok=True)
        print(f"{folder.name}: {target.name}: {done.stderr.strip().splitlines()[-1]:.150}")


def main() -> None:
    """Write all files that the releases make."""
    with tempfile.TemporaryDirectory() as name:
        for release, versions in RELEASES.items():
            folder = Path(name, release)
            install = ["-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder)]
            subprocess.run([sys.executable, *install, f"rten-convert=={release}"], check=True)
            (GOLDEN / release).mkdir(parents=True, exist_ok=True)
            for title in TEXTS:
                source = Path(name, f"{title}.onnx")
                source.write_bytes(model(title).SerializeToString(deterministic=True))
                for version, options in versions.items():
                    _convert(folder, source, GOLDEN / release / f"{title}.v{version}.rten", options)


if __name__ == "__main__":
    main()
