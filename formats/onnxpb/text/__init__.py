"""Models as text: protobuf's text format and JSON.

Both print byte for byte what `onnx` writes. Enum values without a name are printed and read as numbers. Fields that no
known version of ONNX has cannot be printed, and are refused in the input.
"""
