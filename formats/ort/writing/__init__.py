"""How a model becomes an .ort file."""
