# Written by schemas/generate.py from tools of onnx; do not edit.
# ruff: noqa
# fmt: off

from typing import Any
