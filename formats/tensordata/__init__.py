"""Tensor data: the places where bytes are and where they go, and the engine that moves them."""
