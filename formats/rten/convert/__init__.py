"""Models of ONNX rewritten for RTen, and models of RTen rewritten for ONNX."""
