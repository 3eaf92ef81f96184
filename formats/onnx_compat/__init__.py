"""What programs know from `onnx`: reading and writing files, and the message classes in `protos`."""
