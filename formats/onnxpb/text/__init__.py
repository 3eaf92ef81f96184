"""Models as text: protobuf's text format and JSON."""
