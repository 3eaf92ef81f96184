"""Quantised recurrent layers of all forms compute the same in RTen as in onnxruntime."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from formats.ir.model import Model
from formats.onnxpb.wire.decoder import decode
from formats.rten import CODEC
from formats.rten.options import RtenOptions
from formats.tensordata.engine import to_bytes
from formats.tensordata.sources.source import Literal
from tests.rten import evaluation
from tests.rten.rten_cases import CONTRIB, node
from tests.systems import NIGHT

SEEDS = range(60 if NIGHT else 20)
# The allowed difference of numbers, relative to the largest one: the last bit of sums of floats and of activations is
# rounded differently.
TOLERANCE = 4e-6
ACTIVATIONS = ("Affine", "Elu", "HardSigmoid", "LeakyRelu", "ScaledTanh", "Sigmoid", "Softplus", "Softsign", "Tanh",
               "ThresholdedRelu")  # fmt: skip


class Layer:
    """A DynamicQuantizeLSTM made from a seed: the model and its inputs."""

    def __init__(self, seed: int) -> None:
        self._choose, self._numbers = random.Random(seed), np.random.default_rng(seed)
        self.feeds: dict[str, np.ndarray] = {}
        self._constants: dict[str, np.ndarray] = {}
        direction = self._choose.choice(["forward", "reverse", "bidirectional"])
        self._directions = 2 if direction == "bidirectional" else 1
        self._steps, self._samples = self._choose.choice([1, 2, 5, 9]), self._choose.choice([1, 1, 2, 3])
        self._width, self._hidden = self._choose.choice([1, 2, 3, 8]), self._choose.choice([1, 2, 4, 16])
        self.feeds["x"] = self._data()
        self._weights()
        inputs = ["x", "w", "r", self._bias(), self._lengths(), *map(self._state, "hc"), self._peepholes()]
        attributes = {"direction": direction, "hidden_size": self._hidden, **self._computation()}
        outputs = self._choose.choice(["y yh yc", "y yh yc", "_ yh yc", "y", "y _ yc"])
        given = " ".join(name or "_" for name in [*inputs, "w_scale", "w_zero", "r_scale", "r_zero"])
        self._node = node("DynamicQuantizeLSTM", given, outputs, domain=CONTRIB, **attributes)

    def _floats(self, *dims: int) -> np.ndarray:
        return self._numbers.uniform(-1, 1, dims).astype(np.float32)

    def _may(self, probability: float) -> bool:
        return self._choose.random() < probability

    def _data(self) -> np.ndarray:
        """Return numbers: some are halfway between two steps, or all have one sign, or all are zeros."""
        data = 2 * self._floats(self._steps, self._samples, self._width)
        kinds = [data, data, np.round(data * 4) / 2, abs(data), np.zeros_like(data)]
        return self._choose.choice(kinds)  # type: ignore[no-any-return]

    def _weights(self) -> None:
        dtype = self._choose.choice([np.uint8, np.int8])
        limits, columns = np.iinfo(dtype), 4 * self._hidden
        dims = (self._directions, columns) if self._may(0.5) else (self._directions,)
        for name, rows in (("w", self._width), ("r", self._hidden)):
            weight = self._numbers.integers(limits.min, limits.max + 1, (self._directions, rows, columns))
            zero = self._choose.randint(100, 150) if dtype == np.uint8 else self._choose.choice([0, -7])
            self._constants[name] = weight.astype(dtype)
            self._constants[f"{name}_scale"] = self._numbers.uniform(0.002, 0.02, dims).astype(np.float32)
            self._constants[f"{name}_zero"] = np.full(dims, 0 if dtype == np.int8 and len(dims) == 2 else zero, dtype)

    def _bias(self) -> str:
        if self._may(0.3):
            return ""
        self._constants["b"] = self._floats(self._directions, 8 * self._hidden)
        return "b"

    def _lengths(self) -> str:
        """Set lengths that are constant or an input; the first is at least one step."""
        if self._may(0.5):
            return ""
        lengths = self._numbers.integers(0, self._steps + 1, self._samples).astype(np.int32)
        lengths[0] = max(lengths[0], 1)
        self._choose.choice([self.feeds, self._constants])["n"] = lengths
        return "n"

    def _state(self, name: str) -> str:
        if self._may(0.5):
            return ""
        self.feeds[name] = self._floats(self._directions, self._samples, self._hidden)
        return name

    def _peepholes(self) -> str:
        if self._may(0.7):
            return ""
        self._constants["p"] = self._floats(self._directions, 3 * self._hidden)
        return "p"

    def _computation(self) -> dict[str, Any]:
        attributes: dict[str, Any] = {}
        if self._may(0.3):
            attributes["clip"] = self._choose.choice([0.3, 1.5])
        if self._may(0.2):
            attributes["input_forget"] = 1
        if self._may(0.3):
            count = 3 * self._directions
            attributes["activations"] = [self._choose.choice(ACTIVATIONS) for _ in range(count)]
            for name in ("activation_alpha", "activation_beta"):
                if self._may(0.6):
                    given = self._choose.randint(1, count)
                    attributes[name] = [round(self._choose.uniform(0.1, 1), 2) for _ in range(given)]
        return attributes

    def proto(self) -> onnx.ModelProto:
        """Return the model, in half of the cases without the dims of its inputs."""
        named = self._may(0.5)
        inputs = [
            helper.make_tensor_value_info(
                name,
                helper.np_dtype_to_tensor_dtype(value.dtype),
                [f"{name}{axis}" for axis in range(value.ndim)] if named else value.shape,
            )
            for name, value in self.feeds.items()
        ]
        outputs = [onnx.ValueInfoProto(name=name) for name in self._node.output if name]
        constants = [numpy_helper.from_array(value, name) for name, value in self._constants.items()]
        imports = [helper.make_opsetid("", 17), helper.make_opsetid(CONTRIB, 1)]
        graph = helper.make_graph([self._node], "layer", inputs, outputs, constants)
        return helper.make_model(graph, opset_imports=imports, ir_version=10)


def reference(proto: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    """Return what onnxruntime computes with one thread; with several, each quantises the state of its own samples."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    return list(evaluation.session(proto.SerializeToString(), options).run(None, feeds))


@pytest.mark.parametrize("seed", SEEDS)
def test_quantized_layers(seed: int, runtimes: dict[str, Any], tmp_path: Path) -> None:
    """Every output of a random layer equals onnxruntime's, except for the rounding of floats."""
    layer = Layer(seed)
    proto = layer.proto()
    wanted, path = reference(proto, layer.feeds), tmp_path / "m.rten"
    model = decode(Literal(proto.SerializeToString()), Model)
    path.write_bytes(to_bytes(CODEC.plan(model, path, RtenOptions())))
    for runtime in runtimes.values():
        for one, other in zip(wanted, runtime.run(path, layer.feeds), strict=True):
            assert one.shape == other.shape
            np.testing.assert_allclose(other, one, rtol=TOLERANCE, atol=TOLERANCE * max(1, np.abs(one).max()))
