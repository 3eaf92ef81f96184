"""The model in memory: ONNX messages as plain data, their element types, and ways to visit and store them."""
