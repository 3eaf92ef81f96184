"""Tensor data: where bytes are, where they go, and the engine that moves them."""
