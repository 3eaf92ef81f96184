"""Draws what is in the example model, as weights.svg, and what int8 makes of its weights, as differences.svg.

Each is the narrow picture of the page that `--picture` writes, which a phone shows without making it smaller.

`python docs/pictures/weights.py` writes both into docs/pictures. `tests/docs/test_pictures.py` fails if a picture would
be another one today.
"""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

import formats
from formats.pictures.pages import comparison_picture, model_picture
from formats.verbs.inspect import inspect
from formats.verbs.model_files import layout

MODEL = Path(__file__).resolve().parents[2] / "examples" / "digits.onnx"
FOLDER = Path(__file__).resolve().parent


def narrow(page: str) -> str:
    """Return the second picture of a page, which is the narrow one."""
    _, picture = re.findall(r"<svg.*?</svg>\n?", page, re.DOTALL)
    return str(picture)


def weights() -> str:
    """Return the picture of the example model."""
    return narrow(model_picture(inspect(MODEL, nodes=True), layout(MODEL), as_html=True))


def differences() -> str:
    """Return the picture of the example model and of one whose weights were int8 in between."""
    with tempfile.TemporaryDirectory() as folder:
        other = Path(folder, "through_int8.onnx")
        model = formats.load(MODEL)
        assert model.graph is not None
        for tensor in model.graph.initializer:
            if tensor.numpy().dtype == "float32":
                step = abs(tensor.numpy()).max() / 127
                rounded = (tensor.numpy() / step).round() * step
                tensor.raw_data = formats.from_numpy(rounded, tensor.name or "").raw_data
        formats.save(model, other)
        page = comparison_picture(
            formats.diff(MODEL, other), inspect(MODEL, nodes=True), inspect(other, nodes=True), as_html=True
        )
        return narrow(page)


PICTURES = {"weights.svg": weights, "differences.svg": differences}


if __name__ == "__main__":
    for name, drawn in PICTURES.items():
        FOLDER.joinpath(name).write_text(drawn(), encoding="utf-8")
