"""How an .ort file becomes a model."""
