# Written by schemas/generate.py from onnx_data_pb2 of onnx; do not edit.
# ruff: noqa
# fmt: off

from formats.onnxpb.onnx_ml_pb2 import *
