"""Two models that become one: their operator sets, names, dims, functions and weights."""
