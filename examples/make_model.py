"""Make `digits.onnx`, a small convolutional network that reads the digits drawn below.

`python examples/make_model.py [path]` needs the `onnx` package. Two layers of fixed filters compute features of an
image, and the last layer is trained on shifted drawings with noise. All numbers are multiples of a power of two, so no
sum is ever rounded, and every machine makes the same bytes.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

Floats: TypeAlias = npt.NDArray[np.float32]

DRAWING = """
.###. ..#.. .###. .###. ...#. ##### ..##. ##### .###. .###.
#...# .##.. #...# #...# ..##. #.... .#... ....# #...# #...#
#...# ..#.. ....# ....# .#.#. ####. #.... ...#. #...# #...#
#...# ..#.. ...#. ..##. #..#. ....# ####. ..#.. .###. .####
#...# ..#.. ..#.. ....# ##### ....# #...# ..#.. #...# ....#
#...# ..#.. .#... #...# ...#. #...# #...# ..#.. #...# ...#.
.###. .###. ##### .###. ...#. .###. .###. ..#.. .###. .##..
"""
SHIFTS = [(down, right) for down in range(-3, 4) for right in range(-3, 4)]  # pixels
SPECKLED_PERCENT = 3
LOGIT_SCALE = 2.0**-12
FILTERS = (8, 24)
BLOCK: tuple[tuple[str, dict[str, Any]], ...] = (
    ("Conv", {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}),
    ("Relu", {}),
    ("MaxPool", {"kernel_shape": [2, 2], "strides": [2, 2]}),
)


def draw(digit: int, down: int = 0, right: int = 0) -> Floats:
    """Return a digit as [1, 28, 28], white (1) on black (0), this many pixels off the centre."""
    rows = [row.split()[digit] for row in DRAWING.strip().splitlines()]
    glyph = np.array([[pixel == "#" for pixel in row] for row in rows])
    image = np.zeros((1, 28, 28), np.float32)
    image[0, 3 + down : 24 + down, 6 + right : 21 + right] = glyph.repeat(3, axis=0).repeat(3, axis=1)
    return image


def features(images: Floats, weights: dict[str, Floats]) -> Floats:
    """Return the features that the network computes for [n, 1, 28, 28] before its last layer, as [n, features]."""
    for layer in ("conv1", "conv2"):
        padded = np.pad(images, ((0, 0), (0, 0), (1, 1), (1, 1)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
        summed = np.einsum("nchwij,ocij->nohw", windows, weights[f"{layer}.weight"], optimize=True)
        active = np.maximum(summed + weights[f"{layer}.bias"][:, None, None], 0)
        count, channels, height, width = active.shape
        images = active.reshape(count, channels, height // 2, 2, width // 2, 2).max(axis=(3, 5))
    return images.reshape(len(images), -1)


def train() -> dict[str, Floats]:
    """Return the weights by name: filters drawn from -1, 0 and 1, and the last layer by the perceptron rule."""
    random = np.random.RandomState(0)  # not default_rng, whose numbers may differ between releases of numpy
    weights = {
        "conv1.weight": random.randint(-1, 2, (FILTERS[0], 1, 3, 3)).astype(np.float32),
        "conv1.bias": np.full(FILTERS[0], -0.5, np.float32),
        "conv2.weight": random.randint(-1, 2, (FILTERS[1], FILTERS[0], 3, 3)).astype(np.float32),
        "conv2.bias": np.full(FILTERS[1], -2, np.float32),
    }
    clean = np.stack([draw(digit, *shift) for digit in range(10) for shift in SHIFTS])
    speckled = [np.abs(clean - (random.randint(0, 100, clean.shape) < SPECKLED_PERCENT)) for _ in range(2)]
    samples = features(np.concatenate([clean, *speckled]).astype(np.float32), weights).astype(np.float64)
    labels = np.tile(np.repeat(np.arange(10), len(SHIFTS)), 3)

    weight, bias = np.zeros((10, samples.shape[1])), np.zeros(10)
    mistakes = 1
    while mistakes:
        mistakes = 0
        for index in random.permutation(len(samples)):
            sample, label = samples[index], labels[index]
            guess = int((weight @ sample + bias).argmax())
            if guess != label:
                weight[label] += sample
                weight[guess] -= sample
                bias[label] += 1
                bias[guess] -= 1
                mistakes += 1
    weights["classifier.weight"] = (weight * LOGIT_SCALE).astype(np.float32)
    weights["classifier.bias"] = (bias * LOGIT_SCALE).astype(np.float32)
    return weights


def nodes() -> list[NodeProto]:
    """Return the nodes: two blocks of convolution, ReLU and pooling, then one linear layer."""
    made: list[NodeProto] = []
    value = "image"
    for block in ("1", "2"):
        inputs = [value, f"conv{block}.weight", f"conv{block}.bias"]
        for op_type, attributes in BLOCK:
            name = f"{op_type.lower()}{block}"
            value = f"{name}.output"
            made.append(helper.make_node(op_type, inputs, [value], name=name, **attributes))
            inputs = [value]
    linear = ["features", "classifier.weight", "classifier.bias"]
    return [
        *made,
        helper.make_node("Flatten", [value], ["features"], name="flatten", axis=1),
        helper.make_node("Gemm", linear, ["logits"], name="classifier", transB=1),
        helper.make_node("Softmax", ["logits"], ["probabilities"], name="softmax", axis=1),
    ]


def make_model() -> ModelProto:
    """Return the network with its weights: "image" float32 [batch, 1, 28, 28] to "probabilities" [batch, 10]."""
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 1, 28, 28])
    probabilities = helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, ["batch", 10])
    image.doc_string = "One grey channel, white (1) on black (0)."
    graph = helper.make_graph(
        nodes(),
        "digits",
        [image],
        [probabilities],
        [numpy_helper.from_array(array, name) for name, array in train().items()],
        doc_string="Convolution, ReLU and pooling twice, then a linear layer.",
    )
    model = helper.make_model(
        graph,
        ir_version=8,
        opset_imports=[helper.make_opsetid("", 17)],
        producer_name="formats-examples",
        producer_version="1",
        model_version=1,
        doc_string="Reads one digit of the drawing in make_model.py, up to three pixels off the centre.",
    )
    helper.set_model_props(model, {"labels": "0,1,2,3,4,5,6,7,8,9", "licence": "Apache-2.0"})
    return model


def main() -> None:
    """Write the model to the path given, or next to this script."""
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_name("digits.onnx")
    path.write_bytes(make_model().SerializeToString())
    print(f"wrote {path}")


if __name__ == "__main__":
    main()
