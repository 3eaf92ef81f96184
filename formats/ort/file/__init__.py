"""The FlatBuffers of .ort files."""
