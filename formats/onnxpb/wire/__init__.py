"""The bytes of ONNX messages: the schema, the wire format, decoding and encoding."""
