"""A model in RTen's form as a model of ONNX's operators."""
