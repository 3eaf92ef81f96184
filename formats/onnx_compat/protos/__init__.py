"""The message classes of ONNX, with the behaviour of protobuf."""
