# Written by schemas/generate.py from backend of onnx; do not edit.
# ruff: noqa
# fmt: off

from typing import Any
