"""Makes the files in `golden/` with the programs that own their formats; skips programs that are not installed.

    python tests/codecs/foreign/make_golden.py

The current files were made with PyTorch 1.12.1, TensorFlow and Keras of 2.21, coremltools 9.0 and OpenVINO 2026.4.
"""

from __future__ import annotations

import shutil
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

GOLDEN = Path(__file__).with_name("golden")


def pytorch() -> None:
    """Write a state in the current format and in the format before version 1.6, and a script."""
    import torch

    state = {"weight": torch.zeros(2)}
    torch.save(state, GOLDEN / "state.pt")
    torch.save(state, GOLDEN / "legacy.pth", _use_new_zipfile_serialization=False)
    script = GOLDEN / "script.pt"
    torch.jit.save(torch.jit.script(torch.nn.ReLU()), script)
    with zipfile.ZipFile(script) as archive:  # remove the paths of this machine
        members = {name: archive.read(name) for name in archive.namelist() if not name.endswith(".debug_pkl")}
    with zipfile.ZipFile(script, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)


def tensorflow() -> None:
    """Write a model for TensorFlow Lite, a saved model, and a frozen graph."""
    import tensorflow as tf
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

    module: Any = tf.Module()
    module.run = tf.function(lambda x: tf.nn.relu(x), input_signature=[tf.TensorSpec((1, 3), tf.float32)])
    function = module.run.get_concrete_function()
    with tempfile.TemporaryDirectory() as folder:
        tf.saved_model.save(module, folder)
        shutil.copy(Path(folder) / "saved_model.pb", GOLDEN / "saved_model.pb")
    (GOLDEN / "model.tflite").write_bytes(tf.lite.TFLiteConverter.from_concrete_functions([function], module).convert())
    frozen = convert_variables_to_constants_v2(function).graph.as_graph_def()
    (GOLDEN / "frozen.pb").write_bytes(frozen.SerializeToString())


def keras() -> None:
    """Write a model of Keras 3."""
    import keras

    keras.Sequential([keras.layers.Input((3,)), keras.layers.ReLU()]).save(GOLDEN / "model.keras")


def core_ml() -> None:
    """Write a network and a program."""
    import coremltools
    from coremltools.converters.mil import Builder
    from coremltools.models import datatypes
    from coremltools.models.neural_network import NeuralNetworkBuilder

    network = NeuralNetworkBuilder([("x", datatypes.Array(3))], [("y", datatypes.Array(3))])
    network.add_activation("r", "RELU", "x", "y")
    coremltools.models.utils.save_spec(network.spec, str(GOLDEN / "network.mlmodel"))

    @Builder.program(input_specs=[Builder.TensorSpec(shape=(1, 3))])
    def program(x: Any) -> Any:
        return Builder.relu(x=x)

    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder) / "program.mlpackage"
        coremltools.convert(program, convert_to="mlprogram", skip_model_load=True).save(str(package))
        shutil.copy(next(package.rglob("*.mlmodel")), GOLDEN / "program.mlmodel")


def openvino() -> None:
    """Write a model of one operator."""
    import openvino
    from openvino import opset13

    x = opset13.parameter((1, 3), name="x")
    openvino.save_model(openvino.Model([opset13.relu(x)], [x], "relu"), GOLDEN / "model.xml")


MAKERS: tuple[Callable[[], None], ...] = (pytorch, tensorflow, keras, core_ml, openvino)

if __name__ == "__main__":
    for maker in MAKERS:
        try:
            maker()
        except ImportError as error:
            print(f"{maker.__name__}: {error}")
