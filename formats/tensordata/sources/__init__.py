"""Ranges of bytes, and what is computed of them while they are read."""
