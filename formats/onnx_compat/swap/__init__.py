"""The modules of `onnx` over our message classes, and our classes inside `onnx`."""
