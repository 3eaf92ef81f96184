"""Converts the graph of a .rten file to one of the IR, and back."""
