"""The graph of a .rten file as one of the IR, and the other way round."""
