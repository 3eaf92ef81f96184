"""Draws what is in the example model, as docs/pictures/weights.svg: `python docs/pictures/weights.py`.

`tests/docs/test_pictures.py` fails if the picture would be another one today.
"""

from __future__ import annotations

from pathlib import Path

from formats.pictures.pages import model_picture
from formats.verbs.inspect import inspect
from formats.verbs.layout import layout

MODEL = Path(__file__).resolve().parents[2] / "examples" / "digits.onnx"
PICTURE = Path(__file__).with_name("weights.svg")


def drawn() -> str:
    """Return the picture of today."""
    return model_picture(inspect(MODEL, nodes=True), layout(MODEL), as_html=False)


if __name__ == "__main__":
    PICTURE.write_text(drawn(), encoding="utf-8")
