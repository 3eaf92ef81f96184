# Written by schemas/generate.py from onnx_pb of onnx; do not edit.
# ruff: noqa
# fmt: off

from formats.onnxpb.onnx_ml_pb2 import *
