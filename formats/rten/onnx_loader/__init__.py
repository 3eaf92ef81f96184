"""ONNX for RTen's own loader: what it reads, and models rewritten for it."""
