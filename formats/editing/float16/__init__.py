"""Models in float16: weights that are converted while they are copied, and a graph that computes with them."""
