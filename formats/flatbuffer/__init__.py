"""FlatBuffers by the rows of a schema: a reader that checks everything, a builder, and a short cut for like tables."""
